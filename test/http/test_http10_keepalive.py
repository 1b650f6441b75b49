"""http10_keepalive: connections to HTTP/1.0 backends are kept, or closed.

A connection that is kept wrongly gives somebody another's answer. So most
tests ask twice, and look at which connection the second request came on, and
at what was answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pytest

from lib.client import ConnectionClosed
from lib.http10 import (
    KEEP,
    Answer,
    Cgi,
    FastCgi,
    Grpc,
    Http10,
    PeerBackend,
    PeerRequest,
    Script,
    head,
    kept,
    say_peer,
)
from lib.nginx import FATAL, Nginx, log_format
from lib.site import Site
from lib.wait import wait_until

UPSTREAM = "upstream old { server %%OLD%%; keepalive 8; http10_keepalive on; }\n"
WITHOUT = "upstream old { server %%OLD%%; keepalive 8; }\n"
HEADERS = 'proxy_http_version 1.1; proxy_set_header Connection "keep-alive";\n'
PASS = "location / { proxy_pass http://old; }\n"
CACHE_ZONE = "proxy_cache_path %%DIR%%/cache keys_zone=c:1m;\n"
CACHE = "proxy_cache c; proxy_cache_key $request_uri;\n"

NEXT = "/next"

Backend = TypeVar("Backend", bound=PeerBackend)


class Old:
    """The backends of a test, closed after nginx.

    Args:
        site: the test's.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.backends: list[PeerBackend] = []
        self.server = self.add("OLD", Http10())

    def add(self, name: str, backend: Backend) -> Backend:
        """Take a backend, and put its address into %%NAME%%."""
        self.backends.append(backend)
        self.site.variables[name] = backend.address
        return backend

    def start(self, server: str = PASS, http: str = UPSTREAM) -> Nginx:
        """Start nginx, with the headers that the backend needs."""
        return self.site.start(HEADERS + server, http)

    def answers(self, answer: Answer, target: str = "/") -> None:
        """Answer one target like that, and every other with a right answer."""

        def script(request: PeerRequest) -> Answer:
            return answer if request.target == target else say_peer(request)

        self.server.script = script

    def close(self) -> None:
        """Stop all."""
        self.site.close()
        for backend in self.backends:
            backend.close()


@pytest.fixture
def old(site: Site) -> Iterator[Old]:
    """A backend that speaks HTTP/1.0, %%OLD%%."""
    made = Old(site)
    try:
        yield made
    finally:
        made.close()


BUFFERED = pytest.mark.parametrize("buffering", ["on", "off"])


def buffered(buffering: str) -> str:
    """Return a location that passes to the upstream."""
    return (
        f"location / {{ proxy_pass http://old; proxy_buffering {buffering}; }}"
        " location /internal/ { internal; return 200 internal; }"
    )


def ask_next(nginx: Nginx, old: Old) -> int:
    """Send a request that is answered rightly.

    Returns:
        The connection it came on.
    """
    response = nginx.get(NEXT)
    request = old.server.requests[-1]
    assert request.target == NEXT
    assert (response.status, response.text) == (200, f"{request.peer}\n")
    return request.connection


def assert_kept(nginx: Nginx, old: Old) -> None:
    """Check that the next request comes on the connection of the last."""
    last = old.server.requests[-1].connection
    assert ask_next(nginx, old) == last


def assert_not_kept(nginx: Nginx, old: Old) -> None:
    """Check that the last connection is closed, and the next another."""
    last = old.server.requests[-1].connection
    wait_until(lambda: last not in old.server.open, what="nginx to close")
    assert ask_next(nginx, old) > last


# what is kept


@dataclass(frozen=True)
class Case:
    """A request, its answer, and what the client gets.

    Args:
        answer: of the backend.
        method: of the request.
        status: of the client's answer.
        body: of the client's answer.
        sent: the body of the request.
    """

    answer: Answer
    method: str = "GET"
    status: int = 200
    body: bytes = b"hello"
    sent: bytes = b""


def plain(*lines: str, body: bytes = b"hello", close: bool = False) -> Answer:
    """Return an answer of HTTP/1.0 with these headers."""
    return Answer((head(*lines) + body,), close)


LONG = bytes(range(256)) * 12 * 1024

KEPT = {
    "get": Case(kept(b"hello")),
    "post": Case(kept(b"hello"), "POST", sent=b"x" * 10_000),
    "put": Case(kept(b"hello"), "PUT", sent=b"x"),
    "head": Case(plain(KEEP, "Content-Length: 5", body=b""), "HEAD", body=b""),
    "head-no-length": Case(plain(KEEP, body=b""), "HEAD", body=b""),
    "204": Case(Answer((head(KEEP, status="204 No Content"),)), status=204, body=b""),
    "304": Case(Answer((head(KEEP, status="304 Not Modified"),)), status=304, body=b""),
    "304-with-length": Case(
        Answer((head(KEEP, "Content-Length: 9", status="304 Not Modified"),)),
        status=304,
        body=b"",
    ),
    "length-0": Case(kept(b""), body=b""),
    "3mb": Case(kept(LONG), body=LONG),
    "404": Case(kept(b"gone", status="404 Not Found"), status=404, body=b"gone"),
    "500": Case(kept(b"oops", status="500 Oops"), status=500, body=b"oops"),
    "302": Case(kept(b"", "Location: /a", status="302 Found"), status=302, body=b""),
    "length-first": Case(plain("Content-Length: 5", "X-A: b", KEEP)),
    "upper-case": Case(plain("CONNECTION: KEEP-ALIVE", "Content-Length: 5")),
    "with-parameters": Case(
        plain("Keep-Alive: timeout=5, max=100", KEEP, "Content-Length: 5")
    ),
    "among-others": Case(plain("Connection: a ,\tKeep-Alive\t, b", "Content-Length:5")),
    "twice": Case(plain(KEEP, KEEP, "Content-Length: 5")),
    "another-before": Case(plain("Connection: x", KEEP, "Content-Length: 5")),
    "another-behind": Case(plain(KEEP, "Connection: x", "Content-Length: 5")),
    "accel-without-body": Case(
        plain(KEEP, "X-Accel-Redirect: /internal/", "Content-Length: 0", body=b""),
        body=b"internal",
    ),
    "accel-head": Case(
        plain(KEEP, "X-Accel-Redirect: /internal/", "Content-Length: 5", body=b""),
        "HEAD",
        body=b"",
    ),
}


@BUFFERED
@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_connection_is_kept_after_a_whole_answer(
    old: Old, case: Case, buffering: str
) -> None:
    """The backend says keep-alive, and its answer ends where it says."""
    old.answers(case.answer)
    nginx = old.start(buffered(buffering))
    for _ in range(3):
        response = nginx.request(case.method, "/", body=case.sent)
        assert (response.status, response.body) == (case.status, case.body)
        assert old.server.requests[-1].body == case.sent
        assert_kept(nginx, old)
    assert set(old.server.connections) == {0}


@BUFFERED
def test_kept_after_a_slow_body(old: Old, buffering: str) -> None:
    """A body that comes piece by piece."""
    piece = b"x" * 65536
    events = [threading.Event(), threading.Event()]
    length = f"Content-Length: {3 * len(piece) + 1}"
    old.answers(
        Answer((head(KEEP, length), piece, events[0], piece, events[1], piece, b"."))
    )
    nginx = old.start(buffered(buffering))
    with nginx.connect() as connection:
        connection.send_request("GET", "/", {"Connection": "close"})
        read = b""
        for number, event in enumerate(events, 1):
            while len(read) < number * len(piece) - 16384:
                read += connection.socket.recv(16384)
            event.set()
        read += connection.read_to_end()
    assert read.partition(b"\r\n\r\n")[2] == 3 * piece + b"."
    assert_kept(nginx, old)


def test_kept_after_a_slow_head(old: Old) -> None:
    """A head that comes byte by byte, and in the middle of Connection pauses."""
    pause = threading.Event()
    data = head("Content-Length: 5", KEEP)
    at = data.index(b"alive")
    parts = [data[i : i + 1] for i in range(at)]
    old.answers(Answer((*parts, pause, data[at:], b"hello")))
    nginx = old.start()
    with nginx.connect() as connection:
        connection.send_request("GET", "/")
        wait_until(lambda: old.server.requests, what="the request")
        pause.set()
        assert connection.read_response().body == b"hello"
    assert_kept(nginx, old)


def test_header_is_not_sent_to_the_client(old: Old) -> None:
    """What the backend says of its connection is not for the client's."""
    old.answers(plain(KEEP, "Keep-Alive: timeout=5", "Content-Length: 5", "X-A: b"))
    nginx = old.start()
    response = nginx.get("/")
    assert response.all("Connection") == ["close"]
    assert response.all("Keep-Alive") == []
    assert response.all("X-A") == ["b"]


def test_http10_request(old: Old) -> None:
    """nginx's own HTTP/1.0 request, with the header, does as well."""
    nginx = old.site.start(
        "location / { proxy_pass http://old; proxy_http_version 1.0;"
        " proxy_set_header Connection keep-alive; }",
        UPSTREAM,
    )
    ask_next(nginx, old)
    assert_kept(nginx, old)


def test_many_requests_at_once(old: Old) -> None:
    """Requests at the same time get their own answers, over and over."""

    def script(request: PeerRequest) -> Answer:
        return kept(request.target.encode() * 50)

    old.server.script = script
    nginx = old.start()
    connections = [nginx.connect() for _ in range(8)]
    for turn in range(50):
        for number, connection in enumerate(connections):
            connection.send_request("GET", f"/{turn}/{number}")
        for number, connection in enumerate(connections):
            wanted = f"/{turn}/{number}".encode() * 50
            assert connection.read_response().body == wanted
    for connection in connections:
        connection.close()
    assert len(set(old.server.connections)) <= 8


# what is not kept


def chunks(*lines: str) -> Case:
    """Return an answer in chunks, which HTTP/1.0 does not have."""
    return Case(plain(*lines, body=b"5\r\nhello\r\n0\r\n\r\n"))


TE = "Transfer-Encoding: chunked"

NOT_KEPT = {
    "no-length": Case(plain(KEEP, close=True)),
    "no-connection": Case(plain("Content-Length: 5")),
    "no-headers": Case(plain(close=True)),
    "close": Case(plain("Connection: close", "Content-Length: 5")),
    "close-then-keep": Case(plain("Connection: close", KEEP, "Content-Length: 5")),
    "keep-then-close": Case(plain(KEEP, "Connection: close", "Content-Length: 5")),
    "keep-close-keep": Case(
        plain(KEEP, "Connection: close", KEEP, "Content-Length: 5")
    ),
    "far-apart": Case(
        plain(
            "Connection: Close",
            *(f"X-{i}: a" for i in range(40)),
            KEEP,
            "Content-Length: 5",
        )
    ),
    "close-and-keep": Case(plain("Connection: close, keep-alive", "Content-Length: 5")),
    "keep-and-close": Case(plain("Connection: keep-alive,CLOSE", "Content-Length: 5")),
    "another": Case(plain("Connection: keep-alive-x", "Content-Length: 5")),
    "part": Case(plain("Connection: keep", "Content-Length: 5")),
    "quoted": Case(plain('Connection: "keep-alive"', "Content-Length: 5")),
    "empty": Case(plain("Connection: ", "Content-Length: 5")),
    "keep-alive-header": Case(plain("Keep-Alive: timeout=5", "Content-Length: 5")),
    "longer": Case(plain(KEEP, "Content-Length: 5", body=b"hello, world")),
    "longer-than-0": Case(
        plain(KEEP, "Content-Length: 0", body=b"HTTP/1.0 200 OK\r\n\r\nevil"), body=b""
    ),
    "chunked-behind": chunks(KEEP, TE),
    "chunked-before": chunks(TE, KEEP),
    "chunked-between": chunks(KEEP, TE, KEEP),
    "accel-unread-body": Case(
        plain(KEEP, "X-Accel-Redirect: /internal/", "Content-Length: 5", body=b""),
        body=b"internal",
    ),
    "accel-with-body": Case(
        plain(KEEP, "X-Accel-Redirect: /internal/", "Content-Length: 5"),
        body=b"internal",
    ),
    "accel-long-body": Case(
        plain(KEEP, "X-Accel-Redirect: /internal/", f"Content-Length: {len(LONG)}"),
        body=b"internal",
    ),
    "100": Case(
        Answer((head(KEEP, "Content-Length: 0", status="100 Continue"),)),
        status=100,
        body=b"",
    ),
}


@BUFFERED
@pytest.mark.parametrize("case", NOT_KEPT.values(), ids=NOT_KEPT)
def test_connection_is_not_kept_otherwise(old: Old, case: Case, buffering: str) -> None:
    """The connection cannot, or must not, be used again."""
    old.answers(case.answer)
    nginx = old.start(buffered(buffering))
    for _ in range(2):
        with nginx.connect() as connection:
            connection.send_request("GET", "/", {"Connection": "close"})
            if case.status >= 200:
                response = connection.read_response()
                assert (response.status, response.body) == (case.status, case.body)
            else:
                line = connection.read_to_end().partition(b"\r\n")[0]
                assert f" {case.status} ".encode() in line
        assert_not_kept(nginx, old)


@BUFFERED
def test_longer_than_said_later(old: Old, buffering: str) -> None:
    """What comes behind an answer closes the connection that was kept."""
    more = threading.Event()
    length = "Content-Length: 5"
    old.answers(Answer((head(KEEP, length) + b"hello", more, b"HTTP/1.0 200 OK\r\n")))
    nginx = old.start(buffered(buffering))
    assert nginx.get("/").body == b"hello"
    more.set()
    assert_not_kept(nginx, old)


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_body_where_none_may_be(old: Old, method: str) -> None:
    """A body behind HEAD or 304, in one piece with the head or later."""
    status = "200 OK" if method == "HEAD" else "304 Not Modified"
    lines = head(KEEP, "Content-Length: 5", status=status)
    nginx = old.start()
    old.answers(Answer((lines + b"hello",)))
    assert nginx.request(method, "/").body == b""
    ask_next(nginx, old)
    more = threading.Event()
    old.answers(Answer((lines, more, b"hello")))
    assert nginx.request(method, "/").body == b""
    more.set()
    assert_not_kept(nginx, old)


@BUFFERED
def test_shorter_than_said(old: Old, buffering: str) -> None:
    """An answer that breaks off is the last of its connection."""
    old.answers(Answer((head(KEEP, "Content-Length: 500") + b"hello",), close=True))
    nginx = old.start(buffered(buffering))
    with pytest.raises(ConnectionClosed):
        nginx.get("/")
    assert_not_kept(nginx, old)


@BUFFERED
def test_client_goes_away(old: Old, buffering: str) -> None:
    """A client that does not wait leaves the rest of its answer unread."""
    more = threading.Event()
    old.answers(Answer((head(KEEP, "Content-Length: 200000"), b"x" * 100_000, more)))
    nginx = old.start(buffered(buffering))
    with nginx.connect() as connection:
        connection.send_request("GET", "/")
        assert connection.socket.recv(12) == b"HTTP/1.1 200"
        connection.abort()
    wait_until(lambda: nginx.access_entries("/"), what="the end of the request")
    more.set()
    assert_not_kept(nginx, old)


def test_answered_before_the_request_was_sent(old: Old) -> None:
    """The rest of a request's body would be taken for the next request."""
    server = old.add("OLD", Http10(early=True, receive_buffer=4096))
    go_on = threading.Event()

    def script(request: PeerRequest) -> Answer:
        if request.target == NEXT:
            return say_peer(request)
        return Answer((*kept(b"enough").parts, go_on))

    server.script = script
    nginx = old.start("client_max_body_size 20m;" + PASS)
    assert nginx.post("/", b"x" * 16_000_000).body == b"enough"
    nginx.get(NEXT)
    go_on.set()
    assert server.connections == [0, 1]


def test_intercepted_error(old: Old) -> None:
    """The body of an error in the place of which a page is sent is unread."""
    old.site.html.write("sorry.html", b"sorry\n")
    old.answers(kept(b"oops" * 10_000, status="500 Oops"))
    nginx = old.start(
        "location / { proxy_pass http://old; proxy_intercept_errors on;"
        " error_page 500 /sorry.html; } location = /sorry.html { }"
    )
    assert nginx.get("/").body == b"sorry\n"
    assert_not_kept(nginx, old)


# HTTP/1.1, and upstreams without the directive


HTTP11 = {
    "keep": (head("Content-Length: 5", version="HTTP/1.1") + b"hello", True),
    "said": (head(KEEP, "Content-Length: 5", version="HTTP/1.1") + b"hello", True),
    "close": (
        head("Connection: close", "Content-Length: 5", version="HTTP/1.1") + b"hello",
        False,
    ),
    "close-then-keep": (
        head("Connection: close", KEEP, "Content-Length: 5", version="HTTP/1.1")
        + b"hello",
        False,
    ),
    "chunked": (head(TE, version="HTTP/1.1") + b"5\r\nhello\r\n0\r\n\r\n", True),
    "chunked-said": (
        head(KEEP, TE, version="HTTP/1.1") + b"5\r\nhello\r\n0\r\n\r\n",
        True,
    ),
}


@pytest.mark.parametrize("http", [UPSTREAM, WITHOUT], ids=["on", "off"])
@pytest.mark.parametrize(("data", "keeps"), HTTP11.values(), ids=HTTP11)
def test_http11(old: Old, data: bytes, keeps: bool, http: str) -> None:
    """Of HTTP/1.1 answers the same are kept with the directive and without."""
    old.answers(Answer((data,)))
    nginx = old.start(http=http)
    assert nginx.get("/").body == b"hello"
    last = old.server.requests[-1].connection
    nginx.get(NEXT)
    assert (old.server.requests[-1].connection == last) == keeps


@pytest.mark.parametrize("off", ["", "http10_keepalive off;"])
def test_off(old: Old, off: str) -> None:
    """Without the directive an HTTP/1.0 answer ends its connection."""
    nginx = old.start(http=f"upstream old {{ server %%OLD%%; keepalive 8; {off} }}")
    ask_next(nginx, old)
    assert_not_kept(nginx, old)


MANY = (
    "Content-Type: text/html; charset=utf-8",
    "Server: old/1",
    "Date: Fri, 13 Feb 2009 23:31:30 GMT",
    "Last-Modified: Fri, 13 Feb 2009 23:31:30 GMT",
    'ETag: "a"',
    "Location: http://localhost/old/there",
    "Refresh: 5; url=/old/there",
    "Set-Cookie: a=b; path=/old/",
    "Set-Cookie: c=d; path=/old/",
    "WWW-Authenticate: Basic realm=a",
    "WWW-Authenticate: Digest realm=b",
    "Content-Disposition: inline",
    "Cache-Control: private",
    "Cache-Control: max-age=5",
    "Expires: Fri, 13 Feb 2009 23:31:30 GMT",
    "Accept-Ranges: bytes",
    "Content-Range: bytes 0-4/5",
    "Content-Encoding: x-nothing",
    "Content-Language: ja",
    "Keep-Alive: timeout=5",
    "Vary: Accept",
    "Vary: Cookie",
    "Link: </a>; rel=a",
    "Link: </b>; rel=b",
    "X-Accel-Expires: 5",
    "X-Accel-Buffering: no",
    "X-Accel-Limit-Rate: 100000",
    "X-Accel-Charset: off",
    "X-Unknown: a",
    "X-Unknown: b",
)


def test_other_headers(old: Old) -> None:
    """nginx does with every other header what it does without the directive."""
    old.answers(kept(b"hello", *MANY, status="401 Who"))
    server = (
        "location / { proxy_pass http://old; proxy_redirect http://localhost/old/ /new/;"
        " proxy_redirect /old/ /new/; proxy_cookie_path /old/ /new/;"
        " absolute_redirect off; proxy_pass_header Date; proxy_pass_header Server; }"
    )
    found = []
    for http in (WITHOUT, UPSTREAM):
        nginx = old.start(server, http)
        response = nginx.get("/")
        assert response.body == b"hello"
        found.append((response.status, response.headers))
    assert found[0] == found[1]
    assert MANY[2] in [f"{name}: {value}" for name, value in found[1][1]]
    names = {name for name, _ in found[1][1]}
    assert {"Set-Cookie", "ETag", "Vary", "Link", "X-Unknown", "Refresh"} <= names
    assert not any("/old/" in value for _, value in found[1][1])


def test_several_upstreams(old: Old) -> None:
    """Each upstream for itself, whatever its neighbours say."""
    nginx = old.start(
        "location /on/ { proxy_pass http://on; }"
        " location /off/ { proxy_pass http://off; }"
        " location /unset/ { proxy_pass http://unset; }",
        """
        upstream on { server %%OLD%%; http10_keepalive on; keepalive 8; }
        upstream off { server %%OLD%%; keepalive 8; http10_keepalive off; }
        upstream unset { server %%OLD%%; keepalive 8; }
        """,
    )
    for _ in range(3):
        for name in ("on", "off", "unset"):
            assert nginx.get(f"/{name}/").status == 200
    requests = {
        name: [r.connection for r in old.server.requests if r.target == f"/{name}/"]
        for name in ("on", "off", "unset")
    }
    assert len(set(requests["on"])) == 1
    assert len(set(requests["off"])) == 3
    assert len(set(requests["unset"])) == 3


def no_keepalive(old: Old) -> str:
    """Return what an upstream needs to keep nothing; since 1.29.7 it has to say so."""
    return "keepalive 0;" if old.site.flavour.version >= (1, 29, 7) else ""


def test_no_keepalive_in_the_upstream(old: Old) -> None:
    """Without nginx's keepalive there is nowhere to keep a connection."""
    nginx = old.start(
        http=f"upstream old {{ server %%OLD%%; {no_keepalive(old)}"
        " http10_keepalive on; }"
    )
    ask_next(nginx, old)
    assert_not_kept(nginx, old)


@pytest.mark.parametrize(
    "method",
    ["", "least_conn;", "ip_hash;", "hash $request_uri consistent;", "random;"],
)
def test_balancing_methods(old: Old, method: str) -> None:
    """Whatever chooses the server."""
    nginx = old.start(
        http=f"upstream old {{ {method} server %%OLD%%; keepalive 8;"
        " http10_keepalive on; }"
    )
    ask_next(nginx, old)
    assert_kept(nginx, old)


# upstreams that are not that simple


REFUSED = "127.0.0.1:1"


def test_zone_and_backup(old: Old) -> None:
    """A zone, a server that is down, and a backup that answers."""
    nginx = old.start(
        http=f"upstream old {{ zone z 64k; server {REFUSED} max_fails=1;"
        " server %%OLD%% backup; keepalive 8; http10_keepalive on; }"
    )
    ask_next(nginx, old)
    for _ in range(3):
        assert_kept(nginx, old)


def two(old: Old, first: Script, second: Script, more: str = "") -> Nginx:
    """Start nginx with a backend that is tried before another.

    Args:
        old: the backends.
        first: the script of %%FIRST%%.
        second: the script of %%OLD%%.
        more: directives for the location.
    """
    old.add("FIRST", Http10(first))
    old.server.script = second
    return old.start(
        f"location / {{ proxy_pass http://old; {more} }}",
        "upstream old { server %%FIRST%% max_fails=0; server %%OLD%% backup;"
        " keepalive 8; http10_keepalive on; }",
    )


def backend_first(old: Old) -> Http10:
    """Return the backend that ``two`` has made."""
    (first,) = [b for b in old.backends if b is not old.server]
    assert isinstance(first, Http10)
    return first


def test_next_upstream(old: Old) -> None:
    """An error's body is unread; the answer of the next server is kept."""
    nginx = two(
        old,
        lambda _: kept(b"oops" * 10_000, status="500 Oops"),
        say_peer,
        "proxy_next_upstream http_500;",
    )
    for _ in range(3):
        ask_next(nginx, old)
    assert old.server.connections == [0, 0, 0]
    assert backend_first(old).connections == [0, 1, 2]


def test_next_upstream_404(old: Old) -> None:
    """A 404, which does not count as a failure of the server, is unread too."""
    nginx = two(
        old,
        lambda _: kept(b"gone" * 10_000, status="404 Not Found"),
        say_peer,
        "proxy_next_upstream http_404;",
    )
    for _ in range(3):
        ask_next(nginx, old)
    assert old.server.connections == [0, 0, 0]
    assert backend_first(old).connections == [0, 1, 2]


def test_next_upstream_speaks_http11(old: Old) -> None:
    """What the first answer said is forgotten with it."""
    nginx = two(
        old,
        lambda _: kept(b"oops", status="500 Oops"),
        lambda _: Answer((HTTP11["chunked"][0],)),
        "proxy_next_upstream http_500;",
    )
    for _ in range(3):
        assert nginx.get("/").body == b"hello"
    assert old.server.connections == [0, 0, 0]


def test_backend_closes_when_idle(old: Old) -> None:
    """A backend that says keep-alive and closes: nginx takes another."""
    pause = threading.Event()
    answer = Answer((*kept(b"hello").parts, pause), close=True)
    old.answers(answer)
    nginx = old.start()
    assert nginx.get("/").body == b"hello"
    pause.set()
    wait_until(lambda: not old.server.open, what="the backend to close")
    assert nginx.get(NEXT).status == 200
    assert old.server.connections == [0, 1]


def test_backend_closes_on_the_next_request(old: Old) -> None:
    """A kept connection that breaks is no error: nginx asks on a new one."""

    def script(request: PeerRequest) -> Answer:
        return Answer((), close=True) if request.number == 1 else say_peer(request)

    old.server.script = script
    nginx = old.start()
    ask_next(nginx, old)
    ask_next(nginx, old)
    assert old.server.connections == [0, 0, 1]


def test_backend_closes_on_a_post(old: Old) -> None:
    """What may have been done already is not sent again."""

    def script(request: PeerRequest) -> Answer:
        return Answer((), close=True) if request.number == 1 else say_peer(request)

    old.server.script = script
    nginx = old.start()
    ask_next(nginx, old)
    assert nginx.post("/", b"x").status == 502
    ask_next(nginx, old)
    assert old.server.connections == [0, 0, 1]


def test_keepalive_requests(old: Old) -> None:
    """nginx's own limit holds."""
    nginx = old.start(
        http="upstream old { server %%OLD%%; keepalive 8; keepalive_requests 2;"
        " http10_keepalive on; }"
    )
    for _ in range(4):
        ask_next(nginx, old)
    assert old.server.connections == [0, 0, 1, 1]


def test_idle_connection_does_not_hold_up_a_stop(old: Old) -> None:
    """A worker that is to exit closes what it has kept."""
    nginx = old.start()
    ask_next(nginx, old)
    assert old.server.open == {0}
    nginx.stop()
    wait_until(lambda: not old.server.open, what="nginx to close")


IGNORED = (
    "proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate"
    " X-Accel-Buffering X-Accel-Charset Expires Cache-Control Set-Cookie Vary;"
)


def test_proxy_ignore_headers(old: Old) -> None:
    """Ignored headers change nothing; a redirect that is ignored has a body."""
    old.answers(
        plain(
            *("Cache-Control: no-store", "Set-Cookie: a=b", "Vary: *", KEEP),
            *("X-Accel-Redirect: /internal/", "X-Accel-Buffering: no"),
            "Content-Length: 5",
        )
    )
    nginx = old.start(f"location / {{ proxy_pass http://old; {IGNORED} }}")
    assert nginx.get("/").body == b"hello"
    assert_kept(nginx, old)


@pytest.mark.parametrize("directive", ["hide", "pass"])
def test_proxy_hide_and_pass_header(old: Old, directive: str) -> None:
    """Neither makes a difference to the connection."""
    nginx = old.start(
        f"location / {{ proxy_pass http://old; proxy_{directive}_header Connection; }}"
    )
    ask_next(nginx, old)
    assert_kept(nginx, old)


def test_x_accel_buffering(old: Old) -> None:
    """The backend chooses how it is read."""
    for value in ("no", "yes"):
        old.answers(kept(LONG, f"X-Accel-Buffering: {value}"))
        nginx = old.start()
        assert nginx.get("/").body == LONG
        assert_kept(nginx, old)


def test_subrequest(old: Old) -> None:
    """auth_request asks the same backend; a body of its answer is not read."""

    def script(request: PeerRequest) -> Answer:
        if request.target != "/auth":
            return say_peer(request)
        return kept(b"" if request.number < 4 else b"unread")

    old.server.script = script
    nginx = old.start(
        "location / { auth_request /auth; proxy_pass http://old; }"
        " location = /auth { internal; proxy_pass http://old; }"
    )
    for _ in range(3):
        ask_next(nginx, old)
    assert [r.target for r in old.server.requests] == ["/auth", NEXT] * 3
    assert old.server.connections == [0, 0, 0, 0, 0, 1]


# where nginx has no upstream at hand


def assert_alive(nginx: Nginx, workers: list[int]) -> None:
    """Check that no worker has died."""
    assert nginx.workers() == workers
    assert not FATAL.search(nginx.errors_text())


def test_cache_hit(old: Old) -> None:
    """The header of a cached answer is read when there is no upstream yet."""
    old.answers(kept(b"hello", "Cache-Control: max-age=600"))
    nginx = old.start(CACHE + PASS, CACHE_ZONE + UPSTREAM)
    workers = nginx.workers()
    for _ in range(3):
        assert nginx.get("/").body == b"hello"
    assert len(old.server.requests) == 1
    assert_kept(nginx, old)
    assert_alive(nginx, workers)


@pytest.mark.parametrize("body", [b"", b"hello"], ids=["empty", "body"])
def test_stale_answer_in_the_place_of_an_error(old: Old, body: bytes) -> None:
    """A cached answer's Connection is not that of the error's connection."""
    old.answers(kept(body, "X-Accel-Expires: 1"))
    nginx = old.start(
        CACHE + "proxy_cache_use_stale http_500;" + PASS, CACHE_ZONE + UPSTREAM
    )
    workers = nginx.workers()
    assert nginx.get("/").body == body
    pause = threading.Event()
    failing = Answer((head(KEEP, "Content-Length: 9", status="500 Oops"), pause))
    old.answers(failing)
    wait_until(lambda: nginx.get("/") and len(old.server.requests) > 1, what="expiry")
    assert nginx.get("/").body == body
    # the first, which was kept, and two errors, which were not
    assert old.server.connections == [0, 0, 1]
    assert ask_next(nginx, old) == 2
    pause.set()
    assert_alive(nginx, workers)


def test_revalidated(old: Old) -> None:
    """A 304 for the cache: kept, and the cached answer is sent."""

    def script(request: PeerRequest) -> Answer:
        if request.header("If-None-Match"):
            return Answer((head(KEEP, "X-Accel-Expires: 1", status="304 Same"),))
        return kept(b"hello", 'ETag: "a"', "X-Accel-Expires: 1")

    old.server.script = script
    nginx = old.start(
        CACHE + "proxy_cache_revalidate on;" + PASS, CACHE_ZONE + UPSTREAM
    )
    workers = nginx.workers()
    assert nginx.get("/").body == b"hello"
    wait_until(lambda: nginx.get("/") and len(old.server.requests) > 2, what="expiry")
    assert nginx.get("/").body == b"hello"
    assert set(old.server.connections) == {0}
    assert_alive(nginx, workers)


RESOLVED = {
    "variable": "set $to %%OLD%%; proxy_pass http://$to;",
    "address": "proxy_pass http://%%OLD%%;",
    "address-and-uri": "proxy_pass http://%%OLD%%/;",
}


@pytest.mark.parametrize("cache", ["", CACHE], ids=["", "cache"])
@pytest.mark.parametrize("how", RESOLVED.values(), ids=RESOLVED)
def test_without_an_upstream_block(old: Old, how: str, cache: str) -> None:
    """An address in proxy_pass: nothing is kept, and nothing crashes."""
    old.answers(kept(b"hello", "X-Accel-Expires: 600"))
    nginx = old.start(
        f"{cache} location / {{ {how} }} location /on/ {{ proxy_pass http://old; }}",
        CACHE_ZONE + UPSTREAM,
    )
    workers = nginx.workers()
    for _ in range(3):
        assert nginx.get("/").body == b"hello"
    assert old.server.connections == ([0] if cache else [0, 1, 2])
    for _ in range(2):
        nginx.get("/on/")
    assert len(set(old.server.connections[-2:])) == 1
    assert_alive(nginx, workers)


def test_upstream_by_a_variable(old: Old) -> None:
    """A variable whose value is the name of an upstream."""
    nginx = old.start("location / { set $to old; proxy_pass http://$to; }")
    workers = nginx.workers()
    ask_next(nginx, old)
    assert_kept(nginx, old)
    assert_alive(nginx, workers)


def test_host_name_by_a_variable(old: Old) -> None:
    """A name that the resolver is to find: no such server, no crash."""
    nginx = old.start(
        "location / { resolver 127.0.0.1:1; resolver_timeout 1s;"
        " set $to nosuch.invalid; proxy_pass http://$to; }"
    )
    workers = nginx.workers()
    assert nginx.get("/").status == 502
    assert_alive(nginx, workers)


def test_http09(old: Old) -> None:
    """An answer without a head is none of ours."""
    old.answers(Answer((b"hello\r\nConnection: keep-alive\r\n\r\n",), close=True))
    nginx = old.start()
    workers = nginx.workers()
    with nginx.connect() as connection:
        connection.send_request("GET", "/", {"Connection": "close"})
        assert b"hello" in connection.read_to_end()
    assert_not_kept(nginx, old)
    assert_alive(nginx, workers)


# the other protocols


def connections_of(
    old: Old, make: Callable[[], PeerBackend], server: str, http: str
) -> list[int]:
    """Ask three times.

    Args:
        old: the backends.
        make: makes the one to be asked, %%OTHER%%.
        server: directives for the server block.
        http: directives for the http block.

    Returns:
        The connection of each request.
    """
    backend = old.add("OTHER", make())
    nginx = old.site.start(server, http)
    workers = nginx.workers()
    for _ in range(3):
        response = nginx.get("/")
        assert response.status == 200
        assert response.text == f"{backend.requests[-1].peer}\n"
    assert_alive(nginx, workers)
    return backend.connections


SAYS = {
    "nothing": (),
    "keep": (KEEP,),
    "close": ("Connection: close",),
    "close-keep": ("Connection: close", KEEP),
}


def assert_untouched(
    old: Old, make: Callable[[], PeerBackend], server: str
) -> list[int]:
    """Check that the directive changes nothing, and return the connections."""
    http = "upstream old { server %%OTHER%%; keepalive 8; http10_keepalive off; }"
    off = connections_of(old, make, server, http)
    on = connections_of(old, make, server, http.replace("off;", "on;"))
    assert on == off
    return on


@pytest.mark.parametrize("lines", SAYS.values(), ids=SAYS)
@pytest.mark.parametrize("keep", ["on", "off"])
def test_fastcgi(old: Old, keep: str, lines: tuple[str, ...]) -> None:
    """fastcgi_keep_conn says what is kept, not a header."""
    kept_ones = assert_untouched(
        old,
        lambda: FastCgi("Status: 200 OK", *lines),
        f"location / {{ fastcgi_pass old; fastcgi_keep_conn {keep}; }}",
    )
    assert kept_ones == ([0, 0, 0] if keep == "on" else [0, 1, 2])


@pytest.mark.parametrize("lines", SAYS.values(), ids=SAYS)
@pytest.mark.parametrize(
    "status", ["HTTP/1.0 200 OK", "HTTP/1.1 200 OK", "Status: 200"]
)
@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
def test_uwsgi_and_scgi(
    old: Old, protocol: str, status: str, lines: tuple[str, ...]
) -> None:
    """These keep nothing, whatever the headers say."""
    answer = "\r\n".join([status, *lines, "Content-Length: 6", "", "%5d\n"]).encode()
    assert assert_untouched(
        old,
        lambda: Cgi(protocol, answer),
        f"location / {{ {protocol}_pass old; }}",
    ) == [0, 1, 2]


@pytest.mark.parametrize("says", ["", "keep-alive", "close"])
def test_grpc(old: Old, says: str) -> None:
    """HTTP/2 keeps its connection."""
    headers = [("connection", says)] if says else []
    assert assert_untouched(
        old, lambda: Grpc(*headers), "location / { grpc_pass grpc://old; }"
    ) == [0, 0, 0]


# reload


def assert_reloaded(nginx: Nginx, old: Old, template: str, keeps: bool) -> None:
    """Reload, and check what is kept."""
    nginx.reload(template)
    first = ask_next(nginx, old)
    assert (ask_next(nginx, old) == first) == keeps


def test_reload_with_and_without(old: Old) -> None:
    """The directive comes and goes; what nginx knows of headers stays whole."""
    on = old.site.template(HEADERS + PASS, UPSTREAM)
    off = old.site.template(HEADERS + PASS, WITHOUT)
    nginx = old.site.start_whole(on)
    ask_next(nginx, old)
    assert_kept(nginx, old)
    for _ in range(3):
        assert_reloaded(nginx, old, off, keeps=False)
        assert_reloaded(nginx, old, on, keeps=True)


def test_reload_without_the_module(old: Old) -> None:
    """A dynamic module that is gone leaves nothing behind in nginx's tables."""
    on = old.site.template(HEADERS + PASS, UPSTREAM)
    off = old.site.template(HEADERS + PASS, WITHOUT)
    if old.site.flavour.module is not None:
        off = off.replace("%%LOAD%%", "").replace("%%LOOKUP%%", "")
        off = off.replace("%%DEADLINE%%", "")
        off = off.replace("%%LOG_FORMAT%%", log_format(False))
    nginx = old.site.start_whole(on)
    for _ in range(3):
        assert_reloaded(nginx, old, off, keeps=False)
        assert_reloaded(nginx, old, on, keeps=True)


def test_reload_that_fails(old: Old) -> None:
    """A configuration that is refused changes nothing."""
    nginx = old.start()
    ask_next(nginx, old)
    nginx.allow_log(r'unknown directive "nosuch"')
    with pytest.raises(AssertionError, match="reload refused"):
        nginx.reload(old.site.template(HEADERS + PASS + "nosuch;", WITHOUT))
    nginx.write_conf(old.site.template(HEADERS + PASS, UPSTREAM))
    assert_kept(nginx, old)


# nginx -t


def check_upstream(old: Old, *directives: str) -> None:
    """Check that an upstream is accepted without a word."""
    lines = "\n".join(directives)
    old.site.check_config(
        PASS, f"upstream old {{ server %%OLD%%;\n{lines}\n}}"
    ).assert_silent()


def test_accepted(old: Old) -> None:
    """Before or behind keepalive, on or off."""
    check_upstream(old, "keepalive 8;", "http10_keepalive on;")
    check_upstream(old, "http10_keepalive on;", "keepalive 8;")
    check_upstream(old, "http10_keepalive off;")
    check_upstream(old, "http10_keepalive off;", "keepalive 8;")
    check_upstream(old, "zone z 64k;", "keepalive 1;", "http10_keepalive on;")


def test_without_keepalive(old: Old) -> None:
    """It needs keepalive: a warning, with what to write."""
    check = old.site.check_config(
        PASS,
        "upstream other { server %%OLD%%; keepalive 8; http10_keepalive on; }\n"
        "upstream unused { server %%OLD%%; http10_keepalive off; }\n"
        f"upstream old {{\nserver %%OLD%%;\nhttp10_keepalive on ;\n"
        f"{no_keepalive(old)}\n}}",
    )
    check.assert_warns(
        "http10_keepalive on ;", '"http10_keepalive"', '"keepalive 32;"', '"old"'
    )
    assert check.output.count("[warn]") == 1


def test_mistakes(old: Old) -> None:
    """Twice, a bad value, a bad number of arguments."""
    for directives, word in (
        (("http10_keepalive on;", "http10_keepalive off ;"), "is duplicate"),
        (("http10_keepalive yes;",), '"yes"'),
        (("http10_keepalive;",), "invalid number of arguments"),
        (("http10_keepalive on off;",), "invalid number of arguments"),
    ):
        lines = "\n".join(directives)
        check = old.site.check_config(
            PASS, f"upstream old {{ server %%OLD%%; keepalive 8;\n{lines}\n}}"
        )
        check.assert_fails(directives[-1], "http10_keepalive", word)


def test_wrong_context(old: Old) -> None:
    """It belongs into an upstream."""
    for server, http in (
        ("http10_keepalive on;", ""),
        ("location / { http10_keepalive on; }", ""),
        ("", "http10_keepalive on;"),
    ):
        old.site.check_config(server, http).assert_fails(
            "http10_keepalive on;", '"http10_keepalive"', "not allowed here"
        )
