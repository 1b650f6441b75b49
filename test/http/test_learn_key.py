"""What a learned answer is for: http_sendfile_learn_key, and the place.

Nobody is to get a file that another URL, another server or another location
was given, whatever a rewrite makes of a request.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable

import pytest

from lib.accept import sendfile
from lib.cache import STATUS, ZONE, purge, purge_url
from lib.client import Connection, Response, request
from lib.files import content
from lib.gateway import Gateway, Said
from lib.h2_client import Http2Connection
from lib.http10 import PeerRequest
from lib.learn import (
    LEARN,
    MINUTE,
    SERVER,
    SIZE,
    Held,
    ask,
    assert_each_its_own,
    assert_learned,
    by_original,
    source,
    start,
    with_original,
    write,
)
from lib.nginx import Nginx
from lib.site import Site
from lib.tls import Certificate
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures",)


# the default: the URL


def by_request(site: Site) -> Callable[[PeerRequest], Said]:
    """Return a script that names another file for each different request."""
    numbers: dict[tuple[str, str | None], int] = {}

    def script(request: PeerRequest) -> Said:
        host = request.header("Host") or request.header("HOST")
        number = numbers.setdefault((request.target, host), len(numbers))
        return sendfile(write(site, number), MINUTE)

    return script


def test_uri_and_query_string(site: Site, web: Gateway) -> None:
    """Each URI and each query string has an answer of its own."""
    web.script = by_request(site)
    nginx = start(site)
    uris = [
        *("/a", "/b", "/A", "/a/", "/a?", "/a?b", "/a?b=c", "/a?b=C", "/a?b=c&d"),
        *("/a?d&b=c", "/a%2fb", "/a/b", "/a%3Fb", "/a?%62=c", "/x?y?z", "/a&b"),
        # what nginx takes for /a, and passes on as it is
        *("/x%2f..%2fa", "/x/../a", "/./a", "//a", "/%61"),
    ]
    bodies = [ask(nginx, uri).response.body for uri in uris]
    assert len(set(bodies)) == len(uris) == web.count()
    for uri, body in zip(uris, bodies, strict=True):
        answer = ask(nginx, uri)
        assert answer.entry.source == "learned", uri
        assert answer.response.body == body, uri


def test_each_host_has_an_answer_of_its_own(site: Site, web: Gateway) -> None:
    """Each Host has an answer of its own, of one server and of two."""
    web.script = by_request(site)
    passes = web.passes()
    site.variables["PASS"] = f"proxy_set_header Host $http_host; {passes}"
    nginx = start(
        site,
        SERVER,
        "server { listen 127.0.0.1:%%PORT%%; server_name *.b;"
        f" {SERVER.replace(STATUS, '')} }}",
    )
    hosts = ["localhost", "other", "x.b", "y.b"]
    bodies = [ask(nginx, "/a", {"Host": host}).response.body for host in hosts]
    assert len(set(bodies)) == len(hosts)
    assert web.count() == len(hosts)
    for host, body in zip(hosts, bodies, strict=True):
        answer = ask(nginx, "/a", {"Host": host})
        assert answer.response.body == body
        assert answer.entry.source == "learned"
    assert web.count() == len(hosts)


def test_host_beside_an_absolute_uri(site: Site, web: Gateway) -> None:
    """nginx goes by the URI, the application by Host: it cannot poison others."""
    web.script = by_request(site)
    passes = web.passes()
    site.variables["PASS"] = f"proxy_set_header Host $http_host; {passes}"
    nginx = start(site)

    def answer(line: str, host: str) -> Response:
        with nginx.connect() as connection:
            request = f"GET {line} HTTP/1.1\r\nHost: {host}\r\n\r\n"
            connection.send(request.encode())
            return connection.read_response()

    kinds = [
        ("http://localhost/a", "evil"),
        ("http://localhost/a", "localhost"),
        ("/a", "localhost:81"),
        ("/a", "localhost"),
    ]
    bodies = [answer(*kind).body for kind in kinds]
    assert bodies[1] == bodies[3]
    assert len(set(bodies)) == web.count() == 3
    assert [answer(*kind).body for kind in kinds] == bodies
    assert web.count() == 3


def test_host_of_an_absolute_uri(site: Site, web: Gateway) -> None:
    """nginx's $host is the URI's: what it was told of one host, no other is given."""
    web.script = by_request(site)
    site.variables["PASS"] = f"proxy_set_header Host $host; {web.passes()}"
    nginx = start(site)

    def body(line: str, host: str) -> bytes:
        with nginx.connect() as connection:
            request = f"GET {line} HTTP/1.1\r\nHost: {host}\r\n\r\n"
            connection.send(request.encode())
            return connection.read_response().body

    # the one that could poison comes first
    kinds = [
        ("http://evil/a", "localhost"),
        ("/a", "localhost"),
        ("http://localhost/b", "evil"),
        ("/b", "evil"),
    ]
    bodies = [body(*kind) for kind in kinds]
    assert len(set(bodies)) == web.count() == 4
    assert [body(*kind) for kind in kinds] == bodies
    assert web.count() == 4


def test_two_hosts(site: Site, web: Gateway) -> None:
    """Of two Host lines the application may take either: nothing is learned."""
    web.script = by_request(site)
    nginx = start(site)
    twice = b"GET /a HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n"
    statuses = []
    for _ in range(2):
        with nginx.connect() as connection:
            connection.send(twice)
            statuses.append(connection.read_response().status)
    if statuses == [400, 400]:
        # nginx 1.23 and newer refuses it
        assert web.count() == 0
        return
    assert statuses == [200, 200]
    assert web.count() == 2
    assert source(nginx) == "app"


def test_locations(site: Site, web: Gateway) -> None:
    """Each location has an answer of its own for the same URI."""
    other = site.gateway("http")
    web.script = lambda request: sendfile(write(site, 1), MINUTE)
    other.script = lambda request: sendfile(write(site, 2), MINUTE)
    nginx = start(
        site,
        f"{LEARN} %%ACCEPT%%"
        " location / { if ($http_x_other) { rewrite ^ $uri last; } %%PASS%% }"
        " error_page 418 = @other;"
        " location /both { if ($http_x_other) { return 418; } %%PASS%% }"
        f" location @other {{ {other.passes()} }}",
    )
    for _ in range(3):
        site.assert_file(nginx.get("/both"), 1, SIZE)
        site.assert_file(nginx.get("/both", {"X-Other": "1"}), 2, SIZE)
    assert (web.count(), other.count() >= 1) == (1, True)


def test_authority(site: Site, web: Gateway) -> None:
    """HTTP/2 has :authority in place of Host."""
    web.script = by_original(site)
    site.variables["PASS"] = with_original(web)
    nginx = start(site, site.http2_listen() + SERVER)

    def answer(*headers: tuple[str, str], authority: str) -> bytes:
        with Http2Connection(nginx.port_of("h2")) as http2:
            stream = http2.send_request("GET", "/a", headers, authority=authority)
            response = http2.read_response(stream)
        assert response.status == 200
        return response.body

    names = ["localhost", "other", "localhost:81"]
    bodies = [answer(authority=name) for name in names]
    assert len(set(bodies)) == web.count() == 3
    assert [answer(authority=name) for name in names] == bodies
    assert web.count() == 3


def test_authority_and_host(site: Site, web: Gateway) -> None:
    """With a Host beside it, of another name, nothing is learned."""
    web.script = by_original(site)
    site.variables["PASS"] = with_original(web)
    nginx = start(site, site.http2_listen() + SERVER)

    def answer(*headers: tuple[str, str]) -> Response:
        with Http2Connection(nginx.port_of("h2")) as http2:
            return http2.read_response(http2.send_request("GET", "/a", headers))

    statuses = [answer(("host", "evil")).status for _ in range(2)]
    asked = web.count()
    # nginx may refuse it
    assert (statuses, asked) in (([200, 200], 2), ([400, 400], 0))
    assert answer().body == answer().body
    assert web.count() == asked + 1


def test_without_a_host(site: Site, web: Gateway) -> None:
    """HTTP/1.0 needs none: the server's name stands for it, in a purge, too."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)

    def answer(request: bytes) -> None:
        with nginx.connect() as connection:
            connection.send(request)
            site.assert_file(connection.read_response(), 1, SIZE)

    for count in (1, 1, 2):
        if count == 2:
            purge_url(nginx, "http://localhost/a")
        answer(b"GET /a HTTP/1.0\r\n\r\n")
        assert web.count() == count


def test_https(site: Site, web: Gateway, certificate: Certificate) -> None:
    """TLS makes another URL of it."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        "listen 127.0.0.1:%%PORT:tls%% ssl;"
        f" ssl_certificate {certificate.certificate};"
        f" ssl_certificate_key {certificate.key};" + SERVER,
    )
    context = certificate.client_context()

    def secure() -> Response:
        port = nginx.port_of("tls")
        return request(port, "GET", "/a", tls=context)

    def asked() -> int:
        before = web.count()
        site.assert_file(nginx.get("/a"), 1, SIZE)
        site.assert_file(secure(), 1, SIZE)
        return web.count() - before

    assert [asked(), asked()] == [2, 0]
    purge_url(nginx, "https://localhost/a")
    assert [asked(), asked()] == [1, 0]
    purge_url(nginx, "http://localhost/a")
    assert [asked(), asked()] == [1, 0]


# http_sendfile_learn_key


def test_keys(site: Site, web: Gateway) -> None:
    """http_sendfile_learn_key tells apart what the URI does not."""

    def script(request: PeerRequest) -> Said:
        language = request.header("Accept-Language")
        return sendfile(write(site, 1 if language == "ja" else 2), MINUTE)

    web.script = script
    nginx = start(site, f"http_sendfile_learn_key $uri:$http_accept_language; {SERVER}")
    for _ in range(3):
        for language, number in (("ja", 1), ("en", 2)):
            headers = {"Accept-Language": language}
            site.assert_file(nginx.get("/a", headers), number, SIZE)
    assert web.count() == 2


def test_key_says_what_is_the_same(site: Site, web: Gateway) -> None:
    """What it leaves out makes no difference, http_sendfile_key included."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site, f"http_sendfile_key $arg_k; http_sendfile_learn_key $uri; {SERVER}"
    )
    for uri in ("/a?k=1", "/a?k=2", "/a"):
        site.assert_file(nginx.get(uri, {"Host": uri[-1]}), 1, SIZE)
    assert web.count() == 1


def test_key_for_store_does_not_tell_apart(site: Site, web: Gateway) -> None:
    """http_sendfile_key is the store's: the same URL is the same answer."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_key $http_x_key; {SERVER}")
    for key in ("1", "2", "3"):
        site.assert_file(nginx.get("/a", {"X-Key": key}), 1, SIZE)
    assert web.count() == 1


@pytest.mark.parametrize("size", [4000, 70_000])
def test_long_keys(site: Site, web: Gateway, size: int) -> None:
    """A key that is too long for the cache is not cut off: nothing is learned."""
    web.script = by_original(site)
    site.variables["PASS"] = with_original(web)
    nginx = start(site, "large_client_header_buffers 8 128k;" + SERVER)
    uris = [f"/{'x' * size}{n}" for n in range(2)]
    for number in (0, 1, 0, 1):
        site.assert_file(nginx.get(uris[number]), number, SIZE)


def test_empty_key(site: Site, web: Gateway) -> None:
    """An empty one is for nobody."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_learn_key $arg_k; {SERVER}")
    for count in range(1, 4):
        assert source(nginx, "/a") == "app"
        assert web.count() == count
    assert_learned(nginx, web, "/a?k=1")


def test_key_of_each_level(site: Site, web: Gateway) -> None:
    """It is inherited, and a location's own takes its place."""
    web.script = by_original(site)
    site.variables["PASS"] = with_original(web)
    nginx = start(
        site,
        f"{LEARN} %%ACCEPT%% location /a/ {{ %%PASS%% }}"
        " location /b/ { http_sendfile_learn_key $request_uri; %%PASS%% }",
        "http_sendfile_learn_key $arg_k;",
    )
    assert source(nginx, "/a/1?k=1") == "app"
    assert source(nginx, "/a/2?k=1") == "learned"
    assert source(nginx, "/a/1?k=2") == "app"
    assert source(nginx, "/b/1?k=1") == "app"
    assert source(nginx, "/b/2?k=1") == "app"
    assert source(nginx, "/b/1?k=1") == "learned"


# Vary

LANGUAGE = ("Vary", "Accept-Language")
ENCODING = ("Vary", "Accept-Encoding")
URL = "$scheme://$http_host$request_uri"

VARIES: dict[str, tuple[str, list[tuple[str, str]], bool]] = {
    "language": (f"{URL}:$http_accept_language", [LANGUAGE], True),
    "braces": (f"{URL}:${{http_accept_language}}x", [LANGUAGE], True),
    "upper-case": (f"{URL}:$HTTP_Accept_Language", [LANGUAGE], True),
    "encoding": (f"{URL}:$sendfile_accept_encoding", [ENCODING], True),
    "encoding-as-it-is": (f"{URL}:$http_accept_encoding", [ENCODING], True),
    "lower-case": (
        f"{URL}:$sendfile_accept_encoding",
        [("vary", "accept-encoding")],
        True,
    ),
    "both": (
        f"{URL}:$sendfile_accept_encoding$http_accept_language",
        [("Vary", "Accept-Encoding,Accept-Language")],
        True,
    ),
    "both-in-two-lines": (
        f"{URL}:$sendfile_accept_encoding$http_accept_language",
        [LANGUAGE, ENCODING],
        True,
    ),
    "default": (URL, [ENCODING], False),
    "default-language": (URL, [LANGUAGE], False),
    "another": (f"{URL}:$http_accept_language", [ENCODING], False),
    "one-of-two": (f"{URL}:$http_accept_language", [LANGUAGE, ENCODING], False),
    "cookie": (f"{URL}:$cookie_a", [("Vary", "Cookie")], False),
    "longer": (f"{URL}:$http_accept_language_x", [LANGUAGE], False),
    "shorter": (f"{URL}:$http_accept", [LANGUAGE], False),
    "text": (f"{URL}:http_accept_language", [LANGUAGE], False),
    "all": (f"{URL}:$http_accept_language", [("Vary", "*")], False),
    "all-as-well": (f"{URL}:$http_accept_language", [LANGUAGE, ("Vary", "*")], False),
}


@pytest.mark.parametrize(
    ("key", "lines", "learned"), VARIES.values(), ids=VARIES.keys()
)
def test_vary(
    site: Site, web: Gateway, key: str, lines: list[tuple[str, str]], learned: bool
) -> None:
    """An answer may vary by a header that the key names."""
    web.answers["/a"] = sendfile(write(site), MINUTE, *lines)
    nginx = start(site, f'http_sendfile_learn_key "{key}"; {SERVER}')
    first = ask(nginx)
    assert first.entry.reason == ("-" if learned else "not learned: Vary")
    again = ask(nginx)
    assert again.entry.source == ("learned" if learned else "app")
    for answer in (first, again):
        assert answer.response.all("Vary") == [v for _, v in lines]


def test_encodings(site: Site, web: Gateway) -> None:
    """Files that the application has for each encoding: each client its own."""
    numbers = {"br": 1, "gzip": 2, "": 3}

    def script(request: PeerRequest) -> Said:
        accepted = request.header("Accept-Encoding") or ""
        chosen = next((n for n in ("br", "gzip") if n in accepted), "")
        lines = [("Content-Type", "text/plain"), MINUTE, ENCODING]
        return sendfile(write(site, numbers[chosen]), *lines)

    web.script = script
    nginx = start(
        site, f'http_sendfile_learn_key "{URL}:$sendfile_accept_encoding"; {SERVER}'
    )
    clients = {
        "br": ["gzip, deflate, br", "br", "gzip, br;q=1.0", "BR, gzip"],
        "gzip": ["gzip", "gzip, deflate", "x-gzip, gzip"],
        "": ["", "identity", "deflate", "*"],
    }
    for _ in range(2):
        for chosen, values in clients.items():
            for value in values:
                response = nginx.get("/a", {"Accept-Encoding": value})
                site.assert_file(response, numbers[chosen], SIZE)
    assert web.count() == 3


def test_compressed_by_nginx(site: Site, web: Gateway) -> None:
    """What is learned is the file: nginx compresses it for whom it may."""
    web.answers["/a"] = sendfile(write(site, size=20_000), MINUTE)
    nginx = start(site, "gzip on; gzip_types *; gzip_proxied any;" + SERVER)
    for _ in range(3):
        response = ask(nginx, "/a", {"Accept-Encoding": "gzip"}).response
        assert response.header("Content-Encoding") == "gzip"
        assert gzip.decompress(response.body) == content(1, 20_000)
        site.assert_file(ask(nginx).response, 1, 20_000)
    assert web.count() == 1


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([], ""),
        (["gzip"], "gzip"),
        (["gzip, deflate, br, zstd"], "br"),
        (["gzip;q=1.0, br;q=0.5"], "gzip"),
        (["br;q=0, gzip;q=0"], ""),
        (["x-gzip"], "gzip"),
        (["gzip", "br"], "br"),
        (["gzip", "gzip;q=0"], ""),
        (["*"], ""),
        (["gzip;q=x"], ""),
    ],
    ids=repr,
)
def test_variable_accept_encoding(site: Site, lines: list[str], wanted: str) -> None:
    """$sendfile_accept_encoding is what RFC 9110 makes of all lines."""
    nginx = site.start('location / { return 200 "<$sendfile_accept_encoding>"; }')
    headers = [("Accept-Encoding", line) for line in lines]
    assert nginx.get("/", headers).text == f"<{wanted}>"


# front controllers

INDEX = f"{LEARN} %%ACCEPT%% %%PASS%%"

FRONT: dict[str, str] = {
    "try_files": "location / { try_files $uri /index.php; }"
    f"location ~ \\.php$ {{ {INDEX} }}",
    "try_files-args": "location / { try_files $uri $uri/ /index.php?$query_string; }"
    f"location ~ \\.php$ {{ {INDEX} }}",
    "try_files-named": "location / { try_files $uri @app; }"
    f"location @app {{ {INDEX} }}",
    "try_files-named-rewrite": "location / { try_files $uri @app; }"
    f"location @app {{ rewrite ^ /index.php break; {INDEX} }}",
    "rewrite-server": f"rewrite ^ /index.php last; location / {{ {INDEX} }}",
    "rewrite-last": "location / { rewrite ^ /index.php last; }"
    f"location = /index.php {{ {INDEX} }}",
    "rewrite-no-args": "location / { rewrite ^ /index.php? last; }"
    f"location = /index.php {{ {INDEX} }}",
    "rewrite-break": f"location / {{ rewrite ^ /index.php break; {INDEX} }}",
    "rewrite-captures": "location / { rewrite ^/([^/]+)/ /index.php?t=$1 last; }"
    f"location = /index.php {{ {INDEX} }}",
    "rewrite-tenant": f"location / {{ rewrite ^/[^/]+(/.*)$ $1 break; {INDEX} }}",
    "if-not-a-file": "location / {"
    " if (!-e $request_filename) { rewrite ^ /index.php last; } }"
    f"location = /index.php {{ {INDEX} }}",
    "set": "location / { set $args x=1; " + INDEX + " }",
    "alias": f"location ~ ^/(?<tenant>[^/]+)/ {{ rewrite ^ /same break; {INDEX} }}",
}

VISITED = [
    "/one/7",
    "/two/7",
    "/one/8",
    "/one/7?a=1",
    "/one/7?a=2",
    "/two/7?a=1",
    "/one/%37",
    "/one//7",
    "/one/x/../7",
]


@pytest.mark.parametrize("front", FRONT.values(), ids=FRONT.keys())
@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_front_controllers(site: Site, front: str, protocol: str) -> None:
    """Each visitor's URL has its own answer, whatever is made of it."""
    app = site.gateway(protocol)
    site.variables["PASS"] = with_original(app)
    site.variables["ACCEPT"] = (
        "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%;"
    )
    app.script = by_original(site)
    nginx = start(site, front + STATUS)
    assert_each_its_own(site, nginx, VISITED)
    assert app.count() == len(VISITED)


def test_named_fallback(site: Site, app: Gateway) -> None:
    """Behind http_sendfile_fallback, too."""
    app.script = by_original(site)
    site.variables["PASS"] = with_original(app)
    site.add(1)
    nginx = start(
        site,
        "location / { http_sendfile on; %%DIRECT%% http_sendfile_fallback @app; }"
        f"location @app {{ rewrite ^ /index.php break; {INDEX} }}",
    )
    uris = [uri for uri in VISITED if "/" in uri]
    assert_each_its_own(site, nginx, uris)
    assert app.count() == len(uris)


def test_error_page_as_a_front_controller(site: Site, app: Gateway) -> None:
    """Where an error_page leads each URL has its own answer, and none is learned."""
    app.script = by_original(site)
    site.variables["PASS"] = with_original(app)
    nginx = start(
        site,
        f"error_page 404 = @app; location @app {{ {INDEX} }}"
        "error_page 403 = /index.php; location /denied/ { deny all; }"
        f"location = /index.php {{ {INDEX} }}",
    )
    uris = [*VISITED, "/denied/1", "/denied/2"]
    assert_each_its_own(site, nginx, uris, then="app")
    assert app.count() == 3 * len(uris)


def test_purge_behind_a_front_controller(site: Site, app: Gateway) -> None:
    """The ID in the request line, and the URL of it, are what to purge it by."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, FRONT["try_files"] + STATUS)
    uris = ["/one/7", "/two/7", "/one/7?a=1", "/one/8"]
    for uri in uris:
        assert_learned(nginx, app, uri)
    purge(nginx, 7)
    assert [source(nginx, uri) for uri in uris] == ["app", "app", "app", "learned"]
    purge_url(nginx, "http://localhost/one/7")
    sources = [source(nginx, uri) for uri in uris]
    assert sources == ["app", "learned", "learned", "learned"]


@pytest.mark.parametrize("uri", ["/one/%37", "/one/7#x", "//one/./7", "/x/../7"])
@pytest.mark.parametrize("front", ["try_files", "rewrite-break"])
def test_purge_of_an_id_in_disguise(
    site: Site, web: Gateway, uri: str, front: str
) -> None:
    """The ID is what nginx would have read there, however it was written."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, FRONT[front] + STATUS)
    with nginx.connect() as connection:
        for _ in range(2):
            site.assert_file(connection.request("GET", uri), 1, SIZE)
        assert web.count() == 1
        purge(nginx, 7)
        connection.request("GET", uri)
        assert web.count() == 2


def test_purge_by_an_argument(site: Site, app: Gateway) -> None:
    """With http_sendfile_key $arg_id the ID is there."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_key $arg_id; {SERVER}")
    uris = ["/get?id=7", "/get?a&id=7", "/other?id=7", "/get?id=8", "/get?id=77"]
    for uri in uris:
        assert_learned(nginx, app, uri)
    purge(nginx, 7)
    assert [source(nginx, uri) for uri in uris] == ["app"] * 3 + ["learned"] * 2
    purge_url(nginx, "http://localhost/get?id=7")
    assert [source(nginx, uri) for uri in uris] == ["app"] + ["learned"] * 4


@pytest.mark.parametrize("by", ["url", "key"])
def test_purge_of_a_learn_key(site: Site, web: Gateway, by: str) -> None:
    """A URL takes all answers to it, and a learn key is one's own name for it."""
    web.script = lambda request: sendfile(write(site), MINUTE, LANGUAGE)
    nginx = start(site, f"http_sendfile_learn_key $uri:$http_accept_language; {SERVER}")

    def sources() -> list[str]:
        kinds = itertools.product(("/a", "/b"), ("ja", "en"))
        return [source(nginx, u, {"Accept-Language": n}) for u, n in kinds]

    assert sources() == ["app"] * 4
    assert sources() == ["learned"] * 4
    if by == "url":
        purge_url(nginx, "http://localhost/a")
        assert sources() == ["app", "app", "learned", "learned"]
    else:
        response = nginx.request("DELETE", "/status/cache?url=%2Fa%3Aja")
        assert response.status == 200
        assert sources() == ["app", "learned", "learned", "learned"]


def test_purge_by_a_url_of_another(site: Site, web: Gateway) -> None:
    """Who asks by a wrong name later does not keep what a purge has taken."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_learn_key $uri; {SERVER}")
    ask(nginx, "/a?first")
    assert source(nginx, "/a?second") == "learned"
    # it was learned by the first, and has been given to the second
    purge_url(nginx, "http://localhost/a?first")
    assert source(nginx, "/a?second") == "app"


def test_purge_by_an_id_of_another(site: Site, web: Gateway) -> None:
    """Nor does who asks by another ID: the one that it was learned from counts."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    keys = "http_sendfile_learn_key $uri; http_sendfile_key $arg_id;"
    nginx = start(site, f"{keys} {SERVER}")
    ask(nginx, "/a?id=7")
    assert source(nginx, "/a?id=8") == "learned"
    purge(nginx, 7)
    assert source(nginx, "/a?id=8") == "app"


def test_revoked_where_it_was_purged_by_another_url(site: Site, web: Gateway) -> None:
    """What one URL may no more be answered with, no other one may, once it is said."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_learn_key $uri; {SERVER}")
    assert source(nginx, "/a?first") == "app"
    # by now nothing is known for ?second, whose answer takes it from the first
    purge_url(nginx, "http://localhost/a?second")
    web.script = lambda request: Said(404, body=b"gone")
    assert ask(nginx, "/a?second").response.status == 404
    assert ask(nginx, "/a?first").response.status == 404


def test_replaced_where_it_was_purged_by_another_url(site: Site, web: Gateway) -> None:
    """An answer that a purge keeps from being learned replaces the one before."""
    held = Held(
        site, web, sendfile(write(site), MINUTE), sendfile(write(site, 2), MINUTE)
    )
    nginx = start(site, f"http_sendfile_learn_key $uri; {SERVER}")
    try:
        assert source(nginx, "/a?first") == "app"
        purge_url(nginx, "http://localhost/a?second")
        with nginx.connect() as connection:
            connection.send_request("GET", "/a?second")
            wait_until(lambda: web.count() == 2, what="the application to be asked")
            purge_url(nginx, "http://localhost/a?second")
            held.go.set()
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()
    site.assert_file(ask(nginx, "/a?first").response, 2, SIZE)


def test_10000_arguments(site: Site, web: Gateway) -> None:
    """10,000 URLs of one path are 10,000 entries."""
    # a tenth of them takes the sanitizers as long, and is the same code
    number = 1_000 if site.flavour.name == "asan" else 10_000
    for n in range(10):
        write(site, n)
    files = [site.files.path(f"aa/{n}.txt") for n in range(10)]

    def script(request: PeerRequest) -> Said:
        n = int(request.target.rpartition("=")[2])
        return sendfile(files[n % 10], ("X-Accel-Expires", "3600"), ("X-N", str(n)))

    web.script = script
    site.variables["LOG_LEVEL"] = "warn"
    site.variables["PASS"] = (
        f'{web.passes("app")} proxy_http_version 1.1; proxy_set_header Connection "";'
    )
    nginx = site.start(
        "keepalive_requests 1000000; access_log off;" + SERVER,
        "http_sendfile_cache_zone main:32m;"
        f"upstream app {{ server {web.address}; keepalive 4; }}",
    )
    with nginx.connect() as connection:
        for _ in range(2):
            for first in range(0, number, 50):
                numbers = range(first, first + 50)
                connection.send(
                    b"".join(
                        b"GET /get?id=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % n
                        for n in numbers
                    )
                )
                for n in numbers:
                    response = connection.read_response()
                    assert response.all("X-N") == [str(n)]
                    assert response.body == content(n % 10, SIZE)
            assert web.count() == number


# the place


def two_apps(site: Site) -> tuple[Gateway, Gateway]:
    """Return two applications, %%ONE%% and %%TWO%%, with a file each."""
    site.variables["ACCEPT"] = (
        "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%;"
    )
    apps = site.gateway(), site.gateway()
    for number, (app, name) in enumerate(zip(apps, ("ONE", "TWO"), strict=True), 1):
        said = sendfile(write(site, number), MINUTE)
        app.script = lambda request, said=said: said  # type: ignore[misc]
        site.variables[name] = app.passes()
    return apps


def assert_apart(
    site: Site,
    apps: tuple[Gateway, Gateway],
    one: Callable[[], Response],
    two: Callable[[], Response],
) -> None:
    """Check that two requests get their own files, and have both been learned."""
    for _ in range(3):
        site.assert_file(one(), 1, SIZE)
        site.assert_file(two(), 2, SIZE)
    assert [app.count() for app in apps] == [1, 1]


@pytest.mark.parametrize("name", ["", "server_name localhost;", "server_name _ x;"])
def test_two_ports(site: Site, name: str) -> None:
    """Two servers on two ports are two, without names or with the same one."""
    apps = two_apps(site)
    nginx = start(
        site,
        "",
        f"{LEARN} %%ACCEPT%%"
        f" server {{ listen 127.0.0.1:%%PORT:one%%; {name} location / {{ %%ONE%% }} }}"
        f" server {{ listen 127.0.0.1:%%PORT:two%%; {name} location / {{ %%TWO%% }} }}",
    )
    for headers in ({}, {"Host": "x"}, {"Host": "y"}):
        before = [app.count() for app in apps]
        for _ in range(3):
            site.assert_file(nginx.get("/a", headers, "one"), 1, SIZE)
            site.assert_file(nginx.get("/a", headers, "two"), 2, SIZE)
        assert [app.count() for app in apps] == [n + 1 for n in before]


def test_two_names(site: Site) -> None:
    """Two names on one port are two, by a key without a host as well."""
    apps = two_apps(site)
    nginx = start(
        site,
        "",
        f"{LEARN} %%ACCEPT%% http_sendfile_learn_key $request_uri;"
        " server { listen 127.0.0.1:%%PORT%%; server_name one;"
        " location / { %%ONE%% } }"
        " server { listen 127.0.0.1:%%PORT%%; server_name two;"
        " location / { %%TWO%% } }",
    )
    assert_apart(
        site,
        apps,
        lambda: nginx.get("/a", {"Host": "one"}),
        lambda: nginx.get("/a", {"Host": "two"}),
    )


def test_addresses_of_one_socket(site: Site) -> None:
    """Servers by address are several, though nginx listens on one socket."""
    apps = two_apps(site)
    nginx = start(
        site,
        "",
        f"{LEARN} %%ACCEPT%%"
        " server { listen %%PORT:all%%; location / { %%ONE%% } }"
        " server { listen 127.0.0.2:%%PORT:all%%; location / { %%TWO%% } }",
    )

    def get(address: str) -> Response:
        with Connection(nginx.port_of("all"), address=address) as connection:
            return connection.request("GET", "/a")

    assert_apart(site, apps, lambda: get("127.0.0.1"), lambda: get("127.0.0.2"))


LOCATIONS: dict[str, tuple[str, str, str]] = {
    "prefixes": (
        "location /one { %%ONE%% } location /two { %%TWO%% }",
        "/one?id=1",
        "/two?id=1",
    ),
    "exact": (
        "location /x { %%ONE%% } location = /x { %%TWO%% }",
        "/x/?id=1",
        "/x?id=1",
    ),
    "regex-and-prefix": (
        "location /x { %%ONE%% } location ~ /x$ { %%TWO%% }",
        "/x/y?id=1",
        "/x?id=1",
    ),
    "nested-regex": (
        (
            "location /one/ { location ~ x$ { %%ONE%% } }"
            " location /two/ { location ~ x$ { %%TWO%% } }"
        ),
        "/one/x?id=1",
        "/two/x?id=1",
    ),
    "nested-in-regex": (
        (
            "location ~ ^/one/ { location ~ x$ { %%ONE%% } }"
            " location ~ ^/two/ { location ~ x$ { %%TWO%% } }"
        ),
        "/one/x?id=1",
        "/two/x?id=1",
    ),
    "nested-and-not": (
        "location /x { %%ONE%% location /x/y { %%TWO%% } }",
        "/x?id=1",
        "/x/y?id=1",
    ),
    "named": (
        (
            "location /one { try_files /none @one; }"
            " location /two { try_files /none @two; }"
            " location @one { %%ONE%% } location @two { %%TWO%% }"
        ),
        "/one?id=1",
        "/two?id=1",
    ),
    "named-like-a-prefix": (
        (
            "location /x { %%ONE%% } location /y { try_files /none @x; }"
            " location @x { %%TWO%% }"
        ),
        "/x?id=1",
        "/y?id=1",
    ),
    "case-of-a-regex": (
        "location ~ ^/x { %%ONE%% } location ~* ^/x { %%TWO%% }",
        "/x?id=1",
        "/X?id=1",
    ),
}


@pytest.mark.parametrize(
    ("locations", "one", "two"), LOCATIONS.values(), ids=LOCATIONS.keys()
)
def test_two_locations(site: Site, locations: str, one: str, two: str) -> None:
    """Two locations are two, by a key that does not tell them apart as well."""
    apps = two_apps(site)
    nginx = start(
        site, f"{LEARN} %%ACCEPT%% http_sendfile_learn_key $arg_id; {locations}"
    )
    assert_apart(site, apps, lambda: nginx.get(one), lambda: nginx.get(two))


def reload_server(nginx: Nginx, site: Site, server: str) -> None:
    """Reload with another server block."""
    nginx.reload(site.template(server, ZONE))


CHANGES: dict[str, str] = {
    "if": "if ($http_x_none) { return 403; }",
    "location": "location /0 { return 403; } location = /00 { return 403; }",
    "regex": "location ~ ^/none { return 403; }",
    "nested": "location /0 { location /0/1 { if ($http_x_none) { return 403; } } }",
    "named": "location @none { return 403; }",
    "rewrite": "rewrite ^/none /other last;",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("where", ["before", "behind"])
def test_reload_with_something_else(site: Site, change: str, where: str) -> None:
    """What is written before or behind a location does not change its place."""
    apps = two_apps(site)
    site.variables["KEYS"] = f"{LEARN} %%ACCEPT%% http_sendfile_learn_key $arg_id;"
    ifs = (
        "if ($http_x_other) { http_sendfile_learn_key $arg_id:other; %%TWO%% } %%ONE%%"
    )
    locations = f"location /x {{ {ifs} }} location ~ ^/y {{ %%TWO%% }}"

    def check(counts: list[int]) -> None:
        site.assert_file(nginx.get("/x?id=1"), 1, SIZE)
        site.assert_file(nginx.get("/x?id=1", {"X-Other": "1"}), 2, SIZE)
        site.assert_file(nginx.get("/y?id=1"), 2, SIZE)
        assert [app.count() for app in apps] == counts

    nginx = start(site, f"%%KEYS%% {locations}")
    for _ in range(2):
        check([1, 2])
    changed = f"{change} {locations}" if where == "before" else f"{locations} {change}"
    reload_server(nginx, site, f"%%KEYS%% {changed}")
    check([1, 2])
    reload_server(nginx, site, f"%%KEYS%% {locations}")
    check([1, 2])


def test_reload_with_an_if_within(site: Site) -> None:
    """An `if` that a reload adds to a location has none of its answers."""
    apps = two_apps(site)
    other = "if ($http_x_other) { http_sendfile_learn_key $arg_id; %%TWO%% }"
    template = (
        f"{LEARN} %%ACCEPT%% http_sendfile_learn_key $arg_id;"
        " location / { %%IF%% %%ONE%% }"
    )
    nginx = start(site, template.replace("%%IF%%", ""))
    assert_learned(nginx, apps[0], "/a?id=1")
    reload_server(nginx, site, template.replace("%%IF%%", other))
    for _ in range(2):
        site.assert_file(nginx.get("/a?id=1", {"X-Other": "1"}), 2, SIZE)
        site.assert_file(nginx.get("/a?id=1"), 1, SIZE)
    assert [app.count() for app in apps] == [1, 1]


def test_reload_with_another_key(site: Site, web: Gateway) -> None:
    """By another key what was learned by the one before is for nobody."""

    def script(request: PeerRequest) -> Said:
        # /x?a=1&b=2 is file 1 by "a", and file 12 by "b"
        name = request.header("X-By") or ""
        arguments = dict(p.split("=") for p in request.target[3:].split("&"))
        number = int(arguments[name]) + (10 if name == "b" else 0)
        return sendfile(write(site, number), MINUTE)

    web.script = script
    template = "http_sendfile_learn_key $arg_%%BY%%; proxy_set_header X-By %%BY%%;"
    template = f"location / {{ {LEARN} %%ACCEPT%% {template} %%PASS%% }}"
    nginx = start(site, template.replace("%%BY%%", "a"))
    for _ in range(2):
        site.assert_file(nginx.get("/x?a=1&b=2"), 1, SIZE)
        site.assert_file(nginx.get("/x?a=2&b=1"), 2, SIZE)
    reload_server(nginx, site, template.replace("%%BY%%", "b"))
    for _ in range(2):
        site.assert_file(nginx.get("/x?a=1&b=2"), 12, SIZE)
        site.assert_file(nginx.get("/x?a=2&b=1"), 11, SIZE)


# "if"


def test_if_learns_nothing(site: Site, web: Gateway) -> None:
    """Inside an `if` learning is off, and its location's answers do not count."""
    other = site.gateway()
    other.script = lambda request: sendfile(write(site, 2), MINUTE)
    web.script = lambda request: sendfile(write(site, 1), MINUTE)
    nginx = start(
        site,
        f"location / {{ {LEARN} %%ACCEPT%% if ($http_x_other) {{ {other.passes()} }}"
        " %%PASS%% }",
    )
    headers = {"X-Other": "1"}
    for turn in range(1, 4):
        answer = ask(nginx, "/a", headers)
        site.assert_file(answer.response, 2, SIZE)
        assert answer.entry.source == "app"
        assert other.count() == turn
        site.assert_file(nginx.get("/a"), 1, SIZE)
        assert web.count() == 1


def test_if_that_only_sets(site: Site, web: Gateway) -> None:
    """One without a `proxy_pass` of its own is one, all the same."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        f"location / {{ {LEARN} %%ACCEPT%%"
        " if ($http_x_other) { set $x 1; add_header X-If 1; } %%PASS%% }",
    )
    for _ in range(3):
        answer = ask(nginx, "/a", {"X-Other": "1"})
        assert answer.response.header("X-If") == "1"
        assert answer.entry.source == "app"
    assert_learned(nginx, web)


def test_if_with_a_key(site: Site) -> None:
    """With a key in the very block it is on, and its answers are the block's."""
    apps = two_apps(site)
    nginx = start(
        site,
        f"location / {{ {LEARN} %%ACCEPT%% if ($http_x_other) {{"
        " http_sendfile_learn_key $request_uri; %%TWO%% } %%ONE%% }",
    )
    assert_apart(
        site, apps, lambda: nginx.get("/a"), lambda: nginx.get("/a", {"X-Other": "1"})
    )


def test_limit_except_learns_nothing(site: Site, web: Gateway) -> None:
    """Nor is anything learned inside limit_except."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        f"location / {{ {LEARN} %%ACCEPT%% limit_except POST {{ allow all; }}"
        " %%PASS%% }",
    )
    for _ in range(3):
        assert source(nginx) == "app"


IF = (
    "location /a {\nhttp_sendfile_learn on;\nhttp_sendfile_cache main;\n"
    "http_sendfile_accept X-Accel-Redirect;\n%s\nproxy_pass http://127.0.0.1:1;\n}"
)


@pytest.mark.parametrize(
    "blocks",
    [
        "if ($arg_x) { proxy_pass http://127.0.0.1:2; }",
        "if ($arg_x) { set $a 1; } if ($arg_y) { set $a 2; } if ($arg_z) { break; }",
        "limit_except GET { deny all; }",
    ],
    ids=["if", "three", "limit_except"],
)
def test_if_is_warned_of_once(site: Site, blocks: str) -> None:
    """nginx -t says so, once for all blocks."""
    check = site.check_config(IF % blocks, ZONE)
    check.assert_warns("http_sendfile_learn on", "http_sendfile_learn_key STRING")
    assert check.output.count("[warn]") == 1


@pytest.mark.parametrize(
    "blocks",
    [
        "",
        "if ($arg_x) { http_sendfile_learn_key $request_uri; break; }",
    ],
    ids=["none", "key"],
)
def test_if_is_not_warned_of(site: Site, blocks: str) -> None:
    """But not where there is nothing to warn of."""
    site.check_config(IF % blocks, ZONE).assert_silent()


def test_key_of_the_location_is_not_the_blocks(site: Site) -> None:
    """A key of the location is not in the very block."""
    keyed = "http_sendfile_learn_key $uri; if ($arg_x) { break; }"
    check = site.check_config(IF % keyed, ZONE)
    check.assert_warns("http_sendfile_learn on", "http_sendfile_learn_key STRING")


# nginx -t


@pytest.mark.parametrize(
    ("lines", "where", "word"),
    [
        ("http_sendfile_learn_key same;", "learn_key same", "has no variable"),
        ("http_sendfile_learn_key '';", "learn_key ''", "has no variable"),
        (
            "http_sendfile_learn_key $uri;\nhttp_sendfile_learn_key $args;",
            "learn_key $args",
            "is duplicate",
        ),
        ("http_sendfile_learn_key;", "learn_key;", "invalid number of arguments"),
        ("http_sendfile_learn_key $a $b;", "$a $b", "invalid number of arguments"),
        ("http_sendfile_learn_key $none;", "", 'unknown "none" variable'),
    ],
)
def test_key_mistakes(site: Site, lines: str, where: str, word: str) -> None:
    """Mistakes are found before the start."""
    check = site.check_config(IF % f"\n{lines}\n", ZONE)
    if where:
        check.assert_fails(where, word)
    else:
        assert not check.ok
        assert word in check.output


def test_key_without_learning(site: Site) -> None:
    """A key may stand where nothing is learned, or above it."""
    site.check_config(
        "location / { http_sendfile_learn_key $uri; }",
        "http_sendfile_learn_key $request_uri; " + ZONE,
    ).assert_silent()
