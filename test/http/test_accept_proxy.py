"""http_sendfile_accept among nginx's other directives.

Caches, upstreams with several servers, kept connections, error pages,
subrequests, reloads, and what ``nginx -t`` says.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lib.accept import ACCEPT, SERVER, sendfile, use_gateway
from lib.client import ConnectionClosed
from lib.files import content
from lib.gateway import Gateway, Said
from lib.http10 import PeerRequest
from lib.nginx import REPOSITORY, Nginx
from lib.site import Site
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures",)

SIZE = 1000
ETAG = '"of-the-app"'
NAME = "aa/1.txt"
KEPT = [("ETag", ETAG), ("Content-Disposition", "attachment"), ("X-Mine", "yes")]


def write(site: Site, file_id: int = 1, size: int = SIZE) -> Path:
    """Write the file of an ID."""
    return site.files.write_id(f"aa/{file_id}.txt", file_id, size)


# caches


CACHED = """
{cache} {key} {valid} {more}
add_header X-Cache $upstream_cache_status;
location /fill/ {{ http_sendfile_accept off; {ignore} %%PASS%% }}
location /use/ {{ %%ACCEPT%% %%PASS%% }}
%%INTERNAL%%
"""


def start_with_cache(
    site: Site, app: Gateway, valid: str = "any 10m", more: str = ""
) -> Nginx:
    """Start a server with a cache for /fill/ and /use/.

    What nginx follows it does not store. But what the one location has stored
    is followed in the other.
    """
    return site.start(
        CACHED.format(
            cache=app.directive("cache", "c"),
            key=app.directive("cache_key", "$arg_k"),
            valid=app.directive("cache_valid", valid),
            ignore=app.directive("ignore_headers", "X-Accel-Redirect"),
            more=more,
        ),
        app.directive("cache_path", "%%DIR%%/cache keys_zone=c:1m"),
    )


def fill(nginx: Nginx, key: str = "1") -> None:
    """Let nginx store an answer that names a file."""
    response = nginx.get(f"/fill/a?k={key}")
    assert (response.status, response.body) == (200, b"stored")
    assert response.all("X-Cache") == ["MISS"]


@pytest.mark.parametrize(
    "header", ["X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect"]
)
def test_answer_from_the_proxy_cache_has_its_file_sent(
    site: Site, app: Gateway, header: str
) -> None:
    """A cached answer has the file sent, too, with its headers."""
    path = str(write(site))
    value = f"/files/{NAME}" if header == "X-Accel-Redirect" else path
    app.script = lambda request: Said(headers=[*KEPT, (header, value)], body=b"stored")
    nginx = start_with_cache(site, app)
    fill(nginx)
    with nginx.connect() as connection:
        for _ in range(3):
            response = connection.request("GET", "/use/a?k=1")
            site.assert_file(response, 1, SIZE)
            assert response.all("X-Cache") == ["HIT"]
            assert response.header("ETag") == ETAG
            assert response.header("Content-Disposition") == "attachment"
            assert response.header("X-Mine") == "yes"
            assert response.all(header) == []
        response = connection.request("GET", "/use/a?k=1", {"If-None-Match": ETAG})
        assert response.status == 304
        response = connection.request("GET", "/use/a?k=1", {"Range": "bytes=1-2"})
        assert (response.status, response.body) == (206, content(1, SIZE)[1:3])
        head = connection.request("HEAD", "/use/a?k=1")
        assert head.header("Content-Length") == str(SIZE)
    assert app.count() == 1


def test_cache_of_a_subrequest(site: Site, app: Gateway) -> None:
    """Within a page as well."""
    path = write(site)
    app.script = lambda request: Said(headers=sendfile(path).headers, body=b"stored")
    page = (
        b'<!--#include virtual="/use/a?k=1" -->!<!--#include virtual="/use/b?k=1" -->'
    )
    site.html.write("page.html", page)
    nginx = start_with_cache(site, app, more="ssi on;")
    fill(nginx)
    for _ in range(3):
        response = nginx.get("/page.html")
        assert response.body == content(1, SIZE) + b"!" + content(1, SIZE)
    assert app.count() == 1


def test_what_is_followed_is_not_stored(site: Site, app: Gateway) -> None:
    """As without the module, the cache does not keep an answer that is followed."""
    path = write(site)
    app.script = lambda request: Said(headers=sendfile(path).headers, body=b"stored")
    nginx = start_with_cache(site, app)
    for n in range(1, 4):
        response = site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)
        assert response.all("X-Cache") == ["MISS"]
        assert app.count() == n


def test_cache_hit_checks_the_path(site: Site, app: Gateway) -> None:
    """What was cached is judged by the configuration of now."""
    path = write(site)
    app.script = lambda request: Said(headers=sendfile(path).headers, body=b"stored")
    site.files.path("other").mkdir()
    site.variables["ACCEPT"] = ACCEPT.replace("%%FILES%%", "%%FILES%%/other")
    nginx = start_with_cache(site, app)
    fill(nginx)
    response = nginx.get("/use/a?k=1")
    assert response.status == 502
    assert b"ID:" not in response.body
    assert app.count() == 1


def test_cache_hit_of_a_new_file(site: Site, app: Gateway) -> None:
    """The file is read anew, whatever is cached of the application."""
    path = write(site)
    app.script = lambda request: Said(headers=sendfile(path).headers, body=b"stored")
    nginx = start_with_cache(site, app)
    fill(nginx)
    site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)
    path.write_bytes(content(2, 500))
    site.assert_file(nginx.get("/use/a?k=1"), 2, 500)
    path.unlink()
    assert nginx.get("/use/a?k=1").status == 404
    assert app.count() == 1


def test_cached_other_status(site: Site, app: Gateway) -> None:
    """A cached 404 stays one, though it names a file."""
    said = sendfile(write(site), status=404)
    app.script = lambda request: Said(said.status, said.headers, b"none")
    nginx = start_with_cache(site, app)
    for _ in range(3):
        response = nginx.get("/use/a?k=1")
        assert (response.status, response.body) == (404, b"none")
        assert response.all("X-Sendfile") == []
    assert app.count() == 1


def test_stale_cache(site: Site, app: Gateway) -> None:
    """A stale answer of nginx's cache has the file sent as well."""
    path = write(site)
    said = Said(headers=sendfile(path).headers, body=b"stored")
    app.script = lambda request: said
    stale = app.directive("cache_use_stale", "error")
    nginx = start_with_cache(site, app, "200 1s", stale)
    fill(nginx)
    said = Said(drop=0)

    def is_stale() -> bool:
        response = site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)
        return response.all("X-Cache") == ["STALE"]

    wait_until(is_stale, what="the cache to be stale")
    assert app.count() == 2
    site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)


def test_revalidated_cache(site: Site, web: Gateway) -> None:
    """Nor does it matter that the cache asks with a condition and gets a 304."""
    path = write(site)

    def script(request: PeerRequest) -> Said:
        if request.header("If-None-Match") == ETAG:
            return Said(304, [("ETag", ETAG)], length=None)
        return Said(headers=[*sendfile(path).headers, ("ETag", ETAG)], body=b"stored")

    web.script = script
    nginx = start_with_cache(site, web, "200 1s", "proxy_cache_revalidate on;")
    fill(nginx)

    def revalidated() -> bool:
        response = site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)
        assert response.header("ETag") == ETAG
        return response.all("X-Cache") == ["REVALIDATED"]

    wait_until(revalidated, what="a 304 of the application")
    site.assert_file(nginx.get("/use/a?k=1"), 1, SIZE)


# the body beside the header


@pytest.mark.parametrize("size", [1, 100, 5000, 300_000])
def test_body_is_dropped(site: Site, app: Gateway, size: int) -> None:
    """What the application sends behind its header is nobody's."""
    path = str(write(site))
    lines = [("X-Sendfile", path)]
    app.answers["/a"] = Said(headers=lines, body=b"B" * size)
    app.answers["/no-length"] = Said(headers=lines, body=b"B" * size, length=None)
    app.answers["/short"] = Said(headers=lines, body=b"B" * size, length=size * 2)
    nginx = site.start(SERVER)
    with nginx.connect() as connection:
        for target in ("/a", "/no-length", "/short"):
            response = connection.request("GET", target)
            site.assert_file(response, 1, SIZE)
            assert not response.closed


KEEP = {
    "http": 'proxy_http_version 1.1; proxy_set_header Connection "";',
    "fastcgi": "fastcgi_keep_conn on;",
}


def start_with_keepalive(site: Site, app: Gateway) -> Nginx:
    """Start a server that keeps its connections to the application."""
    site.variables["PASS"] = app.passes("app")
    return site.start(
        KEEP[app.protocol] + SERVER,
        f"upstream app {{ server {app.address}; keepalive 4; }}",
    )


@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_kept_connections_are_not_confused(site: Site, protocol: str) -> None:
    """Each request has its own answer, though bodies go unread."""
    app = use_gateway(site, protocol)
    for n in range(1, 9):
        write(site, n)

    def script(request: PeerRequest) -> Said:
        n = int(request.target.rpartition("/")[2])
        body = b"BODY %d\n" % n * (n * n * n * 20)
        if request.target.startswith("/file/"):
            return Said(headers=sendfile(site.files.path(f"aa/{n}.txt")).headers)
        if request.target.startswith("/both/"):
            headers = sendfile(site.files.path(f"aa/{n}.txt")).headers
            return Said(headers=headers, body=body)
        return Said(body=body)

    app.script = script
    nginx = start_with_keepalive(site, app)
    with nginx.connect() as connection:
        for kinds in ("fp", "bp", "fb", "bbp", "fbpf"):
            for n in range(1, 9):
                for kind in kinds:
                    name = {"f": "file", "b": "both", "p": "plain"}[kind]
                    response = connection.request("GET", f"/{name}/{n}")
                    assert response.status == 200
                    if kind == "p":
                        assert response.body == b"BODY %d\n" % n * (n * n * n * 20)
                    else:
                        site.assert_file(response, n, SIZE)


def test_connections_are_kept(site: Site, web: Gateway) -> None:
    """An answer without a body leaves the connection to the application good."""
    web.answers["/a"] = sendfile(write(site))
    nginx = start_with_keepalive(site, web)
    with nginx.connect() as connection:
        for _ in range(5):
            site.assert_file(connection.request("GET", "/a"), 1, SIZE)
    assert {r.connection for r in web.requests} == {web.requests[0].connection}


def test_chunked_body_is_dropped(site: Site, web: Gateway) -> None:
    """So is a chunked one."""
    lines = [("X-Sendfile", str(write(site))), ("Transfer-Encoding", "chunked")]
    chunks = b"5\r\nBODY!\r\n" * 1000 + b"0\r\n\r\n"
    web.answers["/a"] = Said(headers=lines, body=chunks, length=None)
    nginx = start_with_keepalive(site, web)
    with nginx.connect() as connection:
        for _ in range(5):
            site.assert_file(connection.request("GET", "/a"), 1, SIZE)


@pytest.mark.parametrize("setting", ["on", "off"])
def test_buffering(site: Site, app: Gateway, setting: str) -> None:
    """With buffering or without."""
    lines = [("X-Sendfile", str(write(site)))]
    app.answers["/a"] = Said(headers=lines, body=b"B" * 50_000)
    nginx = site.start(app.directive("buffering", setting) + SERVER)
    site.assert_file(nginx.get("/a"), 1, SIZE)


def test_unbuffered_request(site: Site, app: Gateway) -> None:
    """A request whose body is still on its way when the answer comes."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(app.directive("request_buffering", "off") + SERVER)
    with nginx.connect() as connection:
        connection.send(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
        connection.send(b"def")
        site.assert_file(connection.read_response(), 1, SIZE)
    assert app.requests[0].body == b"abcdef"


# several servers


def start_with_two(site: Site, first: Gateway, second: Gateway, on: str) -> Nginx:
    """Start a server that asks the second when the first one fails."""
    site.variables["PASS"] = first.passes("app")
    return site.start(
        first.directive("next_upstream", on) + SERVER,
        f"upstream app {{ server {first.address} max_fails=0;"
        f" server {second.address} backup; }}",
    )


FAILURES = {
    "500": ("http_500", Said(500, [("X-Sendfile", "%s")], b"oops")),
    "503": ("http_503", Said(503, [("X-Sendfile", "%s")], b"oops")),
    "404": ("http_404", Said(404, [("X-Sendfile", "%s")], b"oops")),
    "403": ("http_403", Said(403, [("X-Sendfile", "%s")], b"oops")),
    "hangs-up": ("error", Said(headers=[("X-Sendfile", "%s"), ("A", "b")], drop=120)),
    "no-header": (
        "invalid_header",
        Said(headers=[("X-Sendfile", "%s"), ("X-Bad", b"a\0b")]),
    ),
}


def failure(said: Said, path: Path) -> Said:
    """Return an answer with the path put in."""
    headers = [(n, v if v != "%s" else str(path)) for n, v in said.headers]
    drop = said.drop
    if drop is not None:
        drop = len(Said(headers=headers[:1], length=None).head(b"")) + 20
    return Said(said.status, headers, said.body, drop=drop)


@pytest.mark.parametrize("kind", FAILURES)
def test_next_upstream(site: Site, app: Gateway, kind: str) -> None:
    """Nothing of the answer of a server that failed is in the next one's."""
    second = site.gateway(app.protocol)
    on, said = FAILURES[kind]
    app.script = lambda request: failure(said, write(site))
    second.answers["/plain"] = Said(body=b"plain", headers=[("X-Mine", "yes")])
    second.answers["/file"] = sendfile(write(site, 2), ("X-Mine", "yes"))
    second.answers["/404"] = Said(410, body=b"gone")
    nginx = start_with_two(site, app, second, on)
    for target, status, body in (
        ("/plain", 200, b"plain"),
        ("/file", 200, content(2, SIZE)),
        ("/404", 410, b"gone"),
    ):
        response = nginx.get(target)
        assert (response.status, response.body) == (status, body), target
        assert response.all("A") == response.all("X-Sendfile") == []


def test_file_is_not_the_next_servers(site: Site, app: Gateway) -> None:
    """A file that is missing is no reason to ask another server."""
    second = site.gateway(app.protocol)
    app.answers["/a"] = sendfile(site.files.path("none"))
    second.answers["/a"] = Said(body=b"second")
    nginx = start_with_two(site, app, second, "error http_404 http_500")
    assert nginx.get("/a").status == 404
    assert (app.count(), second.count()) == (1, 0)


# error pages


def test_error_page(site: Site, app: Gateway) -> None:
    """404, 403 and 502 of ours have the pages of the location."""
    for code in (404, 502):
        site.html.write(f"{code}.html", b"page of %d" % code)
    app.answers["/404"] = sendfile(site.files.path("none"), *KEPT)
    app.answers["/502"] = sendfile("/etc/passwd", *KEPT)
    nginx = site.start(
        "error_page 404 /404.html; error_page 502 /502.html;"
        "location ~ ^/\\d+\\.html$ { }" + SERVER
    )
    for code in (404, 502):
        response = nginx.get(f"/{code}")
        assert (response.status, response.body) == (code, b"page of %d" % code)
        assert response.all("X-Mine") == response.all("Content-Disposition") == []


def test_error_page_of_the_application(site: Site, app: Gateway) -> None:
    """An error page may be the application's, even as a file."""
    app.answers["/a"] = sendfile(site.files.path("none"), *KEPT)
    app.answers["/page"] = sendfile(write(site, 2), ("X-Page", "yes"))
    nginx = site.start("error_page 404 =200 /page;" + SERVER)
    response = site.assert_file(nginx.get("/a"), 2, SIZE)
    assert response.header("X-Page") == "yes"
    assert response.all("X-Mine") == response.all("Content-Disposition") == []


def test_error_page_named_location(site: Site, app: Gateway) -> None:
    """A missing file's request may go on in a named location."""
    app.answers["/a"] = sendfile(site.files.path("none"), *KEPT)
    nginx = site.start(
        "error_page 404 @other; location @other { return 200 other; }" + SERVER
    )
    response = nginx.get("/a")
    assert (response.status, response.body) == (404, b"other")
    assert response.all("X-Mine") == []


def test_intercept_errors(site: Site, app: Gateway) -> None:
    """An intercepted answer gives way to its page, the file it names, too."""
    site.html.write("404.html", b"the page")
    app.answers["/a"] = sendfile(write(site), *KEPT, status=404)
    app.answers["/b"] = sendfile(write(site), *KEPT)
    nginx = site.start(
        app.directive("intercept_errors", "on")
        + "error_page 404 /404.html; location = /404.html { }"
        + SERVER
    )
    response = nginx.get("/a")
    assert (response.status, response.body) == (404, b"the page")
    assert response.all("X-Sendfile") == response.all("X-Mine") == []
    site.assert_file(nginx.get("/b"), 1, SIZE)


def test_application_as_error_page(site: Site, app: Gateway) -> None:
    """The handler of an error_page may name a file."""
    app.answers["/none"] = sendfile(write(site), *KEPT)
    nginx = site.start(
        "location /missing/ { root %%HTML%%; error_page 404 = @app; }"
        "location @app { %%ACCEPT%% %%PASS%% }"
    )
    app.script = lambda request: sendfile(write(site), *KEPT)
    response = site.assert_file(nginx.get("/missing/x"), 1, SIZE)
    assert response.header("ETag") == ETAG


def test_loop_of_error_pages(site: Site, app: Gateway) -> None:
    """An error page that is missing itself ends."""
    app.script = lambda request: sendfile(site.files.path("none"))
    nginx = site.start("error_page 404 /again; recursive_error_pages on;" + SERVER)
    assert nginx.get("/a").status in (404, 500)


# subrequests


def test_included(site: Site, app: Gateway) -> None:
    """A page that includes what the application has sent as a file."""
    write(site, 2)
    page = (
        b'<!--#include virtual="/1" -->-<!--#include virtual="/2" -->'
        b'-<!--#include virtual="/plain" -->-<!--#include virtual="/gone" -->.'
    )
    site.html.write("page.html", page)
    app.answers["/1"] = sendfile(write(site), *KEPT)
    app.answers["/2"] = sendfile(site.files.path("aa/2.txt"))
    app.answers["/plain"] = Said(body=b"plain")
    app.answers["/gone"] = sendfile(site.files.path("none"))
    nginx = site.start("location = /page.html { ssi on; }" + SERVER)
    with nginx.connect() as connection:
        for _ in range(3):
            response = connection.request("GET", "/page.html")
            start = content(1, SIZE) + b"-" + content(2, SIZE) + b"-plain-"
            assert response.status == 200
            assert response.body.startswith(start)
            assert response.body.endswith(b".")
            assert response.all("X-Mine") == []
            assert response.header("ETag") != ETAG


def test_included_file_of_the_application(site: Site, app: Gateway) -> None:
    """A page that is such a file itself may include others."""
    page = site.files.write("page.html", b'<!--#include virtual="/1" -->!')
    app.answers["/page"] = sendfile(page)
    app.answers["/1"] = sendfile(write(site))
    nginx = site.start("ssi on;" + SERVER)
    response = nginx.get("/page")
    assert (response.status, response.body) == (200, content(1, SIZE) + b"!")


def test_auth_request(site: Site, app: Gateway) -> None:
    """An answer that only says yes or no sends no file, whatever it names."""
    write(site, 2)
    app.answers["/file"] = sendfile(write(site), *KEPT)
    other = site.files.path("aa/2.txt")
    app.answers["/auth"] = sendfile(other, ("X-Auth", "yes"))
    nginx = site.start(
        "location = /auth { internal; %%ACCEPT%% %%PASS%% }"
        "location /file { auth_request /auth; %%ACCEPT%% %%PASS%% }"
        "location /static/ { auth_request /auth; alias %%FILES%%/; }"
    )
    with nginx.connect() as connection:
        for _ in range(3):
            response = site.assert_file(connection.request("GET", "/file"), 1, SIZE)
            assert response.header("ETag") == ETAG
            response = connection.request("GET", f"/static/{NAME}")
            site.assert_file(response, 1, SIZE)
            assert response.all("X-Mine") == response.all("X-Auth") == []


def test_auth_request_that_denies(site: Site, app: Gateway) -> None:
    """A denial sends no file."""
    path = write(site)
    app.answers["/auth"] = sendfile(path, status=403)
    app.answers["/file"] = sendfile(path)
    nginx = site.start(
        "location = /auth { internal; %%ACCEPT%% %%PASS%% }"
        "location / { auth_request /auth; %%ACCEPT%% %%PASS%% }"
    )
    response = nginx.get("/file")
    assert response.status == 403
    assert b"ID:" not in response.body
    assert app.count("/file") == 0


def test_mirror(site: Site, app: Gateway) -> None:
    """A mirrored request's file goes nowhere."""
    app.answers["/mirror"] = sendfile(write(site, 2))
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(
        "location = /mirror { internal; %%ACCEPT%% %%PASS%% }"
        "location / { mirror /mirror; %%ACCEPT%% %%PASS%% }"
    )
    with nginx.connect() as connection:
        for _ in range(3):
            site.assert_file(connection.request("GET", "/a"), 1, SIZE)


# X-Accel-Redirect


def test_redirect_is_nginx_own(site: Site, app: Gateway) -> None:
    """The value is a URI: decoded, with arguments, to any location."""
    site.files.write_id("a b%.txt", 3)
    targets = {
        "/encoded": "/files/a%20b%25.txt",
        "/arguments": "/internal/args?a=b",
        "/named": "@named",
    }
    for target, value in targets.items():
        app.answers[target] = Said(headers=[("X-Accel-Redirect", value), *KEPT])
    nginx = site.start(
        'location /internal/ { internal; return 200 "$uri?$args $request_method"; }'
        'location @named { return 200 "named"; }' + SERVER
    )
    response = site.assert_file(nginx.get("/encoded"), 3)
    assert response.header("ETag") == ETAG
    assert response.header("X-Mine") == "yes"
    assert nginx.get("/arguments").text == "/internal/args?a=b GET"
    assert nginx.post("/arguments", b"x").text == "/internal/args?a=b GET"
    assert nginx.get("/named").text == "named"


def test_redirect_to_nothing(site: Site, app: Gateway) -> None:
    """A target that is not there is a 404 without the application's headers."""
    for n, value in enumerate(("/files/none", "/nowhere/x", "@nowhere", "../x")):
        app.answers[f"/{n}"] = Said(headers=[("X-Accel-Redirect", value), *KEPT])
    nginx = site.start("location /nowhere/ { return 404; }" + SERVER)
    for n in range(4):
        response = nginx.get(f"/{n}")
        assert response.status in (404, 500)
        assert response.all("X-Mine") == [], n
        # nginx itself keeps it where it does not even redirect
        assert response.all("Content-Disposition") == [] or n >= 2, n


def test_redirect_to_another_application(site: Site, app: Gateway) -> None:
    """A target may be passed on to another server, which may name a file."""
    second = site.gateway("http")
    second.answers["/second/plain"] = Said(body=b"second", headers=[("X-2", "2")])
    second.answers["/second/file"] = sendfile(write(site), ("X-2", "2"))
    second.answers["/second/404"] = Said(404, body=b"none")
    again = [("X-Accel-Redirect", f"/files/{NAME}"), ("X-2", "2"), ("ETag", '"2"')]
    second.answers["/second/again"] = Said(headers=again)
    write(site)
    for name in ("plain", "file", "404", "again"):
        value = f"/second/{name}"
        app.answers[f"/{name}"] = Said(headers=[("X-Accel-Redirect", value), *KEPT])
    # an internal redirect leaves $request_uri alone
    nginx = site.start(
        f"""
        location /second/ {{
            internal; %%ACCEPT%%
            proxy_pass http://{second.address}$uri;
        }}
        """
        + SERVER
    )
    response = nginx.get("/plain")
    assert (response.status, response.body) == (200, b"second")
    assert response.header("X-2") == "2"
    response = site.assert_file(nginx.get("/file"), 1, SIZE)
    assert response.header("X-2") == "2"
    response = nginx.get("/404")
    assert (response.status, response.body) == (404, b"none")
    assert response.all("Content-Disposition") == []
    response = site.assert_file(nginx.get("/again"), 1, SIZE)
    assert (response.header("X-2"), response.header("ETag")) == ("2", '"2"')


def test_redirect_to_an_id(site: Site, app: Gateway) -> None:
    """A target may be looked up by its ID."""
    site.add(297887)
    app.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/id/297887"), *KEPT])
    nginx = site.start(
        "location /id/ { internal; http_sendfile on; %%DIRECT%% }" + SERVER
    )
    response = site.assert_file(nginx.get("/a"), 297887)
    assert response.header("ETag") == ETAG


def test_redirect_loop(site: Site, app: Gateway) -> None:
    """An application that redirects to itself is cut off by nginx."""
    app.script = lambda request: Said(headers=[("X-Accel-Redirect", "/a")])
    nginx = site.start(SERVER)
    assert nginx.get("/a").status == 500


def test_ignored(site: Site, app: Gateway) -> None:
    """proxy_ignore_headers X-Accel-Redirect: the body is the answer."""
    lines = [("X-Accel-Redirect", f"/files/{NAME}")]
    write(site)
    app.answers["/a"] = Said(headers=lines, body=b"the body")
    nginx = site.start(app.directive("ignore_headers", "X-Accel-Redirect") + SERVER)
    response = nginx.get("/a")
    assert (response.status, response.body) == (200, b"the body")
    assert response.all("X-Accel-Redirect") == []


# the way there


def test_fallback(site: Site, app: Gateway) -> None:
    """The application that answers a miss may name the file."""
    site.add(297887)
    path = write(site)
    app.script = lambda request: sendfile(path, *KEPT)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback @app; }"
        "location @app { %%ACCEPT%% %%PASS%% }"
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert app.count() == 0
    response = site.assert_file(nginx.get("/file/1"), 1, SIZE)
    assert response.header("ETag") == ETAG
    entry = nginx.logged("/file/1")
    assert (entry.status, entry.source, entry.target) == ("MISS", "app", NAME)


def test_own_handler_as_fallback(site: Site, app: Gateway) -> None:
    """So may the content handler of the location itself."""
    site.add(297887)
    path = write(site)
    app.script = lambda request: sendfile(path, *KEPT)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%% %%ACCEPT%% %%PASS%% }"
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    site.assert_file(nginx.get("/file/1"), 1, SIZE)
    site.assert_file(nginx.post("/file/297887", b"x"), 1, SIZE)
    entry = nginx.logged("/file/1")
    assert (entry.status, entry.source) == ("MISS", "app")
    # nothing is wrong with that: the store's reason is not the answer's
    assert entry.reason == "-"


def test_application_that_names_a_missing_file_is_not_asked_again(
    site: Site, app: Gateway
) -> None:
    """The fallback is for what the store does not have, not for the answer."""
    app.script = lambda request: sendfile(site.files.path("none"))
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback @app; }"
        "location @app { %%ACCEPT%% %%PASS%% http_sendfile_fallback @app; }"
    )
    assert nginx.get("/file/1").status == 404
    assert app.count() == 1


def test_try_files(site: Site, app: Gateway) -> None:
    """try_files may lead to it."""
    app.script = lambda request: sendfile(write(site), *KEPT)
    nginx = site.start(
        "location / { try_files $uri @app; } location @app { %%ACCEPT%% %%PASS%% }"
    )
    site.assert_file(nginx.get("/a"), 1, SIZE)


@pytest.mark.parametrize("place", ["http", "server"])
def test_inherited(site: Site, app: Gateway, place: str) -> None:
    """The directives may stand above the location."""
    app.answers["/a"] = sendfile(write(site))
    server = "location / { %%PASS%% }"
    if place == "http":
        nginx = site.start(server, "%%ACCEPT%%")
    else:
        nginx = site.start("%%ACCEPT%%" + server)
    site.assert_file(nginx.get("/a"), 1, SIZE)


def test_variable_in_proxy_pass(site: Site, web: Gateway) -> None:
    """An upstream by a variable has no server block of its own."""
    web.answers["/a"] = sendfile(write(site), *KEPT)
    site.variables["PASS"] = f"set $to {web.address}; proxy_pass http://$to;"
    nginx = site.start(SERVER)
    for _ in range(3):
        response = site.assert_file(nginx.get("/a"), 1, SIZE)
        assert response.header("ETag") == ETAG


def test_if_location(site: Site, web: Gateway) -> None:
    """A location that an `if` makes has the settings of the one around it."""
    web.answers["/a"] = sendfile(write(site), *KEPT)
    nginx = site.start(
        f"location / {{ %%ACCEPT%% if ($arg_x) {{ {web.passes()} }} root %%HTML%%; }}"
    )
    site.assert_file(nginx.get("/a?x=1"), 1, SIZE)


# the location that nobody may ask for


INNER = "@http_sendfile_accept"


def test_inner_location_is_in_the_source() -> None:
    """The tests below try the right name."""
    header = REPOSITORY / "src" / "app" / "ngx_http_sendfile_accept.h"
    assert f'"{INNER}"' in header.read_text()


@pytest.mark.parametrize("end", ["", "%00", "%2500", "\0", "\\0", "%0"])
def test_no_client_reaches_the_inner_location(
    site: Site, web: Gateway, end: str
) -> None:
    """Its name is no URI, and nothing is taken from a client."""
    path = write(site)
    nginx = site.start("location / { %%ACCEPT%% root %%HTML%%; }")
    headers = {"X-Sendfile": str(path), "X-Accel-Redirect": str(path)}
    for target in (f"{INNER}{end}", f"/{INNER}{end}", f"/{INNER[1:]}{end}"):
        response = nginx.get(target, headers)
        assert response.status in (400, 404), target
        assert b"ID:" not in response.body


@pytest.mark.parametrize("end", [b"", b"\0", b"%00", b"\\0", b"\0\0"])
def test_nothing_else_leads_to_the_inner_location(
    site: Site, app: Gateway, end: bytes
) -> None:
    """Nor is anything sent, or broken, if the application or a variable names it."""
    write(site)
    name = INNER.encode() + end
    app.answers["/accel"] = Said(headers=[("X-Accel-Redirect", name)])
    app.answers["/file"] = sendfile(name)
    nginx = site.start(
        SERVER
        + "location /variable { http_sendfile on; http_sendfile_key 404;"
        + " http_sendfile_fallback $arg_to; }"
        + "location ~ (?s)^/uri/(?<to>.*) { http_sendfile on; http_sendfile_key 404;"
        + " http_sendfile_fallback $to; }"
    )
    with nginx.connect() as connection:
        assert connection.request("GET", "/accel").status in (500, 502)
    # what is no header at all, or no path below the root
    assert nginx.get("/file").status == 502
    for prefix in (b"/variable?to=", b"/uri/"):
        response = nginx.get(prefix + name)
        assert response.status >= 400
        assert b"ID:" not in response.body


def test_named_location_of_the_same_name(site: Site, app: Gateway) -> None:
    """A configuration that has one is refused, and told which server it is."""
    check = site.check_config(SERVER + f"location {INNER} {{ return 200 other; }}")
    assert not check.ok
    assert f'"location {INNER}" in {check.path}:' in check.output
    assert "write another one" in check.output


def test_no_nul_in_the_error_log(site: Site, app: Gateway) -> None:
    """The name of the location that an answer is sent in is text, as any other."""
    site.variables["LOG_LEVEL"] = "debug"
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    site.assert_file(nginx.get("/a"), 1, SIZE)
    nginx.wait_for_log(f'using location: {INNER} "')
    lines = nginx.error_log.read_bytes().splitlines()
    assert not [s for s in lines if INNER.encode() in s and b"\0" in s]


# life


def test_reload(site: Site, app: Gateway) -> None:
    """Reloads with and without it: nginx's own table is left as it was."""
    path = str(write(site))
    app.answers["/a"] = Said(headers=[("X-Sendfile", path)], body=b"the body")
    app.answers["/b"] = Said(headers=[("X-Accel-Redirect", f"/files/{NAME}")])
    without = site.template(f"location / {{ {app.passes()} }} %%INTERNAL%%")
    nginx = site.start(SERVER)
    for _ in range(3):
        site.assert_file(nginx.get("/a"), 1, SIZE)
        nginx.reload(without)
        response = nginx.get("/a")
        assert (response.status, response.body) == (200, b"the body")
        assert response.header("X-Sendfile") == path
        site.assert_file(nginx.get("/b"), 1, SIZE)
        nginx.reload(site.template(SERVER))
    site.assert_file(nginx.get("/a"), 1, SIZE)
    site.assert_file(nginx.get("/b"), 1, SIZE)


def test_request_in_flight_over_a_reload(site: Site, app: Gateway) -> None:
    """A request that waits for the application is answered by the old worker."""
    go = threading.Event()

    def script(request: PeerRequest) -> Said:
        assert go.wait(300)
        return sendfile(site.files.path(NAME))

    write(site)
    app.script = script
    nginx = site.start(SERVER)
    with nginx.connect() as connection:
        connection.send_request("GET", "/a")
        try:
            wait_until(lambda: app.count() == 1, what="the request")
            nginx.reload(site.template("location / { return 200 new; }"))
        finally:
            go.set()
        site.assert_file(connection.read_response(), 1, SIZE)


def test_client_leaves_before_the_answer(site: Site, app: Gateway) -> None:
    """A client that is gone when the application answers."""
    go = threading.Event()

    def script(request: PeerRequest) -> Said:
        if request.target == "/a":
            assert go.wait(300)
        return sendfile(site.files.path(NAME))

    write(site)
    app.script = script
    nginx = site.start(app.directive("ignore_client_abort", "on") + SERVER)
    connection = nginx.connect()
    connection.send_request("GET", "/a")
    try:
        wait_until(lambda: app.count() == 1, what="the request")
        connection.abort()
    finally:
        go.set()
    site.assert_file(nginx.get("/b"), 1, SIZE)
    nginx.logged("/a")


def test_application_hangs_up(site: Site, app: Gateway) -> None:
    """An answer that ends in the middle of its head is a 502."""
    path = str(write(site))
    app.answers["/a"] = Said(headers=[("X-Sendfile", path), ("X-A", "b")], drop=60)
    nginx = site.start(SERVER)
    with nginx.connect() as connection:
        for _ in range(3):
            try:
                assert connection.request("GET", "/a").status == 502
            except ConnectionClosed:
                raise AssertionError("the client's connection was cut") from None


# nginx -t


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("http_sendfile_accept X-Sendfiles;", ("X-Sendfiles",)),
        ("http_sendfile_accept Content-Type;", ("Content-Type",)),
        ("http_sendfile_accept off X-Sendfile;", ("off",)),
        ("http_sendfile_accept X-Sendfile off;", ("off",)),
        ("http_sendfile_accept on;", ("on",)),
        ("http_sendfile_accept;", ("number of arguments",)),
        ("http_sendfile_allow aa;", ("aa",)),
        ("http_sendfile_allow ./aa;", ("aa",)),
        ('http_sendfile_allow "";', ()),
        ("http_sendfile_allow;", ("number of arguments",)),
        ("http_sendfile_allow %%FILES%%/../x;", ("..",)),
    ],
)
def test_mistakes(site: Site, line: str, words: tuple[str, ...]) -> None:
    """Each mistake is found, in its line."""
    allow = "" if "allow" in line else "http_sendfile_allow %%FILES%%;"
    check = site.check_config(f"location / {{\n{line}\n{allow}\n}}")
    name = line.split()[0].rstrip(";")
    check.assert_fails(
        f"{name}{line[len(name) :]}".replace("%%FILES%%", str(site.files.root)), *words
    )


def test_named_twice(site: Site) -> None:
    """A header that is named twice is remarked."""
    check = site.check_config(
        "http_sendfile_allow %%FILES%%;\n"
        "http_sendfile_accept X-Sendfile X-Accel-Redirect x-sendfile;\n"
    )
    check.assert_warns("http_sendfile_accept", 'duplicate value "x-sendfile"')


def test_twice_in_one_level(site: Site) -> None:
    """http_sendfile_accept stands once on a level, with all its headers."""
    check = site.check_config(
        "location / { http_sendfile_allow %%FILES%%;\n"
        "http_sendfile_accept X-Sendfile;\nhttp_sendfile_accept X-Accel-Redirect;\n}"
    )
    check.assert_fails("http_sendfile_accept X-Accel-Redirect", "duplicate")


@pytest.mark.parametrize("name", ["X-Sendfile", "X-LIGHTTPD-send-file"])
def test_accept_without_allow(site: Site, name: str) -> None:
    """A path needs a root to lie under; the message says what to write."""
    check = site.check_config(
        f"location / {{\nhttp_sendfile_accept {name};\nproxy_pass http://127.0.0.1:1;\n}}"
    )
    check.assert_fails(f"http_sendfile_accept {name}", 'write "http_sendfile_allow')


@pytest.mark.parametrize(
    "server",
    [
        "location / { http_sendfile_accept X-Accel-Redirect; }",
        "http_sendfile_allow /srv; location / { http_sendfile_accept X-Sendfile; }",
        "location / { http_sendfile_accept off; }",
        "location / { http_sendfile_allow /srv; }",
        "location / { http_sendfile_allow /srv; http_sendfile_allow /var/x; }",
    ],
)
def test_no_mistake(site: Site, server: str) -> None:
    """What is right is passed without a word."""
    site.check_config(server).assert_silent()
