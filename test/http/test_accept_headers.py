"""The headers of an application that has a file sent: what is kept, what is not.

And those of the client: what tells an application how to have files sent is
never believed from there.
"""

from __future__ import annotations

import gzip
import os

import pytest

from lib.accept import SERVER, sendfile
from lib.client import Response
from lib.files import content
from lib.gateway import Gateway, Lines, Said
from lib.nginx import Nginx
from lib.site import Site

pytest_plugins = ("lib.gateway_fixtures",)

SIZE = 1000
MTIME = 1_700_000_000
MTIME_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"
ETAG = '"of-the-app"'
DATE = "Wed, 01 Jan 2020 00:00:00 GMT"

KEPT = [
    ("ETag", ETAG),
    ("Last-Modified", DATE),
    ("Cache-Control", "private, max-age=0"),
    ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT"),
    ("Content-Type", "image/x-mine; charset=EUC-JP"),
    ("Content-Disposition", "attachment; filename*=UTF-8''%E3%81%82.txt"),
    ("Content-Language", "ja"),
    ("Vary", "Cookie"),
    ("Vary", "Accept-Language"),
    ("Set-Cookie", "a=b; path=/"),
    ("Set-Cookie", "c=d"),
    ("Access-Control-Allow-Origin", "https://example.com"),
    ("Access-Control-Expose-Headers", "ETag"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("Link", "</a.css>; rel=preload"),
    ("Link", "</b.css>; rel=preload"),
    ("X-Frame-Options", "DENY"),
    ("X-Request-Id", "297887"),
    ("X-Powered-By", "tests"),
    ("Strict-Transport-Security", "max-age=31536000"),
    ("P3P", "CP=x"),
    ("x-lower_case", "yes"),
    ("X-Long", "x" * 1500),
]

DROPPED = [
    ("Content-Encoding", "gzip"),
    ("Content-Range", "bytes 0-1/2"),
    ("Content-MD5", "Q2hlY2sgSW50ZWdyaXR5IQ=="),
    ("Digest", "SHA-256=x"),
    ("Accept-Ranges", "none"),
    ("Date", "Mon, 01 Jan 2001 00:00:00 GMT"),
    ("Server", "an application"),
    ("Age", "10"),
    ("Location", "/elsewhere"),
    ("Refresh", "5; url=/elsewhere"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Authenticate", "Basic"),
    ("Trailer", "X-A"),
    ("Upgrade", "h2c"),
    ("X-Accel-Expires", "60"),
    ("X-Accel-Buffering", "no"),
]


def write(site: Site, size: int = SIZE) -> str:
    """Write a file with the ID 1, as old as MTIME, and return its path."""
    path = site.files.write_id("aa/1.txt", 1, size)
    os.utime(path, (MTIME, MTIME))
    return str(path)


def start(
    site: Site,
    app: Gateway,
    lines: Lines,
    directives: str = "",
    size: int = SIZE,
    header: str = "X-Sendfile",
) -> Nginx:
    """Start a server whose /a is a file with these headers of the application.

    Args:
        site: the test's.
        app: the application.
        lines: the headers.
        directives: for the server.
        size: of the file.
        header: which one names the file.
    """
    path = write(site, size)
    if header == "X-Accel-Redirect":
        path = "/files/aa/1.txt"
    app.answers["/a"] = Said(headers=[*lines, (header, path)])
    return site.start(directives + SERVER)


def assert_kept(response: Response) -> None:
    """Check that an answer has all of KEPT, in order, and nothing of DROPPED."""
    for name in dict.fromkeys(name for name, _ in KEPT):
        assert response.all(name) == [v for n, v in KEPT if n == name], name
    for name, value in DROPPED:
        assert value not in response.all(name), name
    assert response.all("X-Sendfile") == response.all("X-Accel-Redirect") == []


HEADERS = pytest.mark.parametrize(
    "header", ["X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect"]
)


# the application's headers


@HEADERS
def test_kept_and_dropped(site: Site, app: Gateway, header: str) -> None:
    """What nginx passes on goes with the file, what is of its body does not."""
    nginx = start(site, app, [*KEPT, *DROPPED], header=header)
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    assert_kept(response)
    assert response.header("Content-Length") == str(SIZE)
    assert response.header("Accept-Ranges") == "bytes"
    assert (response.header("Server") or "").startswith("nginx")
    assert response.all("Status") == []


@HEADERS
def test_on_head_206_and_304(site: Site, app: Gateway, header: str) -> None:
    """They go on 200, 206 and 304, and on the answer to HEAD."""
    nginx = start(site, app, [*KEPT, *DROPPED], header=header)
    head = nginx.head("/a")
    assert head.status == 200
    assert_kept(head)
    part = nginx.get("/a", {"Range": "bytes=5-9"})
    assert (part.status, part.body) == (206, content(1, SIZE)[5:10])
    assert_kept(part)
    assert part.header("Content-Range") == f"bytes 5-9/{SIZE}"
    none = nginx.get("/a", {"If-None-Match": ETAG})
    assert none.status == 304
    for name in ("ETag", "Cache-Control", "Expires", "Vary", "Set-Cookie", "Link"):
        assert none.all(name) == [v for n, v in KEPT if n == name], name


def test_on_several_ranges(site: Site, app: Gateway) -> None:
    """The type of the application stands in each part of a multipart answer."""
    nginx = start(site, app, KEPT)
    response = nginx.get("/a", {"Range": "bytes=0-3,10-13"})
    assert response.status == 206
    assert response.body.count(b"Content-Type: image/x-mine") == 2
    content_type = response.header("Content-Type") or ""
    assert content_type.startswith("multipart/byteranges; boundary=")
    assert response.header("ETag") == ETAG
    assert response.all("Set-Cookie") == ["a=b; path=/", "c=d"]


@pytest.mark.parametrize(
    ("request_headers", "status"),
    [({"Range": "bytes=5000-"}, 416), ({"If-Match": '"x"'}, 412)],
    ids=["416", "412"],
)
def test_not_on_errors(
    site: Site, app: Gateway, request_headers: dict[str, str], status: int
) -> None:
    """What describes the file is not on an answer without it."""
    nginx = start(site, app, KEPT)
    response = nginx.get("/a", request_headers)
    assert response.status == status
    for name in ("ETag", "Content-Disposition", "Content-Language", "X-Long"):
        assert response.all(name) == [], name
    assert response.header("Content-Type") == "text/html"


def test_not_on_error_pages(site: Site, app: Gateway) -> None:
    """A missing file's page has its own headers."""
    site.html.write("gone.html", b"gone, says the page")
    app.answers["/a"] = sendfile(site.files.path("none"), *KEPT)
    nginx = site.start("error_page 404 /gone.html; location = /gone.html {}" + SERVER)
    response = nginx.get("/a")
    assert (response.status, response.body) == (404, b"gone, says the page")
    assert response.header("Content-Type") == "text/html"
    for name in ("Content-Disposition", "Content-Language", "X-Long", "Expires"):
        assert response.all(name) == [], name
    assert response.header("ETag") != ETAG


def test_content_type_by_extension(site: Site, app: Gateway) -> None:
    """Without a Content-Type of the application it is that of the path."""
    nginx = start(site, app, [])
    assert nginx.get("/a").header("Content-Type") == "text/plain"


@HEADERS
def test_etag_of_the_application(site: Site, app: Gateway, header: str) -> None:
    """The application's tag decides, not the file's."""
    nginx = start(site, app, [("ETag", ETAG)], header=header)
    own = nginx.get("/static/aa/1.txt").header("ETag") or ""
    for headers, status in (
        ({"If-None-Match": ETAG}, 304),
        ({"If-None-Match": f"W/{ETAG}"}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-None-Match": own}, 200),
        ({"If-Match": ETAG}, 200),
        ({"If-Match": own}, 412),
        ({"Range": "bytes=0-9", "If-Range": ETAG}, 206),
        ({"Range": "bytes=0-9", "If-Range": own}, 200),
    ):
        assert nginx.get("/a", headers).status == status, headers
    assert nginx.get("/a").all("ETag") == [ETAG]


def test_weak_etag_of_the_application(site: Site, app: Gateway) -> None:
    """A weak tag is good for a 304, and for nothing that needs the very bytes."""
    nginx = start(site, app, [("ETag", f"W/{ETAG}")])
    for headers, status in (
        ({"If-None-Match": f"W/{ETAG}"}, 304),
        ({"If-Match": ETAG}, 412),
        ({"Range": "bytes=0-9", "If-Range": ETAG}, 200),
        ({"Range": "bytes=0-9"}, 206),
    ):
        assert nginx.get("/a", headers).status == status, headers


@HEADERS
def test_date_of_the_application(site: Site, app: Gateway, header: str) -> None:
    """The application's date decides, not the file's."""
    nginx = start(site, app, [("Last-Modified", DATE)], "etag off;", header=header)
    for headers, status in (
        ({"If-Modified-Since": DATE}, 304),
        ({"If-Modified-Since": MTIME_HTTP}, 200),
        ({"If-Unmodified-Since": DATE}, 200),
        ({"If-Unmodified-Since": "Tue, 31 Dec 2019 23:59:59 GMT"}, 412),
        ({"Range": "bytes=0-9", "If-Range": DATE}, 206),
        ({"Range": "bytes=0-9", "If-Range": MTIME_HTTP}, 200),
    ):
        assert nginx.get("/a", headers).status == status, headers
    assert nginx.get("/a").all("Last-Modified") == [DATE]


def test_no_date(site: Site, app: Gateway) -> None:
    """A Last-Modified that is no date takes nothing down."""
    nginx = start(site, app, [("Last-Modified", "yesterday")])
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    assert len(response.all("Last-Modified")) <= 1
    headers = {"If-Modified-Since": "yesterday"}
    assert nginx.get("/a", headers).status in (200, 304)


def test_set_cookie_of_a_redirect(site: Site, app: Gateway) -> None:
    """X-Accel-Redirect keeps Set-Cookie once, though nginx keeps it, too."""
    nginx = start(site, app, KEPT, header="X-Accel-Redirect")
    assert nginx.get("/a").all("Set-Cookie") == ["a=b; path=/", "c=d"]


def test_hidden_headers(site: Site, app: Gateway) -> None:
    """What is hidden by the configuration is hidden with a file, too."""
    hide = app.directive("hide_header", "X-Powered-By")
    hide += app.directive("hide_header", "Set-Cookie")
    hide += app.directive("hide_header", "ETag")
    nginx = start(site, app, KEPT, hide)
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    assert response.all("X-Powered-By") == response.all("Set-Cookie") == []
    assert response.header("ETag") != ETAG
    assert response.header("X-Request-Id") == "297887"


def test_cookie_path(site: Site, web: Gateway) -> None:
    """proxy_cookie_path holds for an answer with a file."""
    nginx = start(site, web, KEPT, "proxy_cookie_path / /app/;")
    assert nginx.get("/a").all("Set-Cookie") == ["a=b; path=/app/", "c=d"]


@HEADERS
def test_add_header(site: Site, app: Gateway, header: str) -> None:
    """add_header adds to them, as to any."""
    nginx = start(site, app, KEPT, "add_header X-Mine yes;", header=header)
    response = nginx.get("/a")
    assert_kept(response)
    assert response.header("X-Mine") == "yes"


def test_expires_of_the_location(site: Site, app: Gateway) -> None:
    """With `expires` each header is still sent once."""
    nginx = start(site, app, KEPT, "expires 1h;")
    response = nginx.get("/a")
    assert len(response.all("Cache-Control")) == 1
    assert len(response.all("Expires")) == 1


def test_gzip(site: Site, app: Gateway) -> None:
    """A compressed answer is decided by the application's type, its tag weak."""
    lines = [("Content-Type", "text/css"), ("ETag", ETAG), ("Vary", "Cookie")]
    settings = "gzip on; gzip_types text/css; gzip_proxied any; gzip_http_version 1.0;"
    nginx = start(site, app, lines, settings, 20_000)
    accept = {"Accept-Encoding": "gzip"}
    response = nginx.get("/a", accept)
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == content(1, 20_000)
    assert response.header("ETag") == f"W/{ETAG}"
    assert "Cookie" in response.all("Vary")
    response = nginx.get("/a", {**accept, "If-None-Match": f"W/{ETAG}"})
    assert response.status == 304
    site.assert_file(nginx.get("/a"), 1, 20_000)


def test_many_headers(site: Site, app: Gateway) -> None:
    """However many there are, all are kept in their order."""
    lines = [(f"X-N{n % 50}", str(n)) for n in range(150)]
    nginx = start(site, app, lines)
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    got = [(n, v) for n, v in response.headers if n.startswith("X-N")]
    assert got == lines


@pytest.mark.parametrize("piece", [1, 13, 100])
def test_head_in_pieces(site: Site, app: Gateway, piece: int) -> None:
    """A head that comes in pieces is understood as one."""
    path = write(site)
    lines = [("X-Sendfile", path), *KEPT[:-1]]
    app.answers["/a"] = Said(headers=lines, piece=piece, status_at="last")
    size = app.directive("buffer_size", "32k") + app.directive("buffers", "4 32k")
    nginx = site.start(size + SERVER)
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    assert response.header("ETag") == ETAG
    assert response.all("Set-Cookie") == ["a=b; path=/", "c=d"]


# which header


def test_x_sendfile_wins(site: Site, app: Gateway) -> None:
    """With X-Accel-Redirect beside it, in either order, X-Sendfile is taken."""
    path = write(site)
    site.files.write_id("aa/2.txt", 2)
    both = [("X-Sendfile", path), ("X-Accel-Redirect", "/files/aa/2.txt")]
    app.answers["/0"] = Said(headers=both)
    app.answers["/1"] = Said(headers=both[::-1])
    nginx = site.start(SERVER)
    for target in ("/0", "/1"):
        response = site.assert_file(nginx.get(target), 1, SIZE)
        assert response.all("X-Accel-Redirect") == response.all("X-Sendfile") == []


@pytest.mark.parametrize(
    "accepted", ["X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect"]
)
def test_only_what_is_accepted(site: Site, app: Gateway, accepted: str) -> None:
    """A header that is not accepted has no effect, and is hidden all the same."""
    path = write(site)
    names = ("X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect")
    for name in names:
        value = "/files/aa/1.txt" if name == "X-Accel-Redirect" else path
        app.answers[f"/{name}"] = Said(headers=[(name, value)], body=b"the body")
    nginx = site.start(
        f"location / {{ http_sendfile_accept {accepted};"
        " http_sendfile_allow %%FILES%%; %%PASS%% } %%INTERNAL%%"
    )
    for name in names:
        response = nginx.get(f"/{name}")
        assert [response.all(n) for n in names] == [[], [], []]
        if name == accepted:
            site.assert_file(response, 1, SIZE)
        elif name != "X-Accel-Redirect":
            assert (response.status, response.body) == (200, b"the body")


def test_off(site: Site, app: Gateway) -> None:
    """Where nothing is accepted nginx does what it always does."""
    path = write(site)
    app.answers["/a"] = Said(headers=[("X-Sendfile", path)], body=b"the body")
    app.answers["/b"] = Said(headers=[("X-Accel-Redirect", "/files/aa/1.txt")])
    nginx = site.start(
        "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%;"
        "location / { http_sendfile_accept off; %%PASS%% } %%INTERNAL%%"
    )
    response = nginx.get("/a", {"X-Sendfile-Type": "X-Sendfile"})
    assert (response.status, response.body) == (200, b"the body")
    assert response.header("X-Sendfile") == path
    names = {n.lower().replace("_", "-") for n, _ in app.requests[0].headers}
    assert "x-sendfile-type" in names
    site.assert_file(nginx.get("/b"), 1, SIZE)
    assert nginx.logged("/b").source == "-"


# statuses


STATUSES = [201, 202, 203, 301, 302, 400, 401, 403, 404, 410, 500, 503]


@pytest.mark.parametrize("status", [204, *STATUSES])
def test_redirect_of_any_status(site: Site, app: Gateway, status: int) -> None:
    """X-Accel-Redirect is followed as without the module: header by header."""
    write(site)
    app.answers["/a"] = Said(
        status,
        [
            ("X-Accel-Redirect", "/files/aa/1.txt"),
            ("Content-Type", "text/x-mine"),
            ("Cache-Control", "max-age=5"),
            ("Set-Cookie", "a=b"),
            ("ETag", ETAG),
            ("X-Mine", "yes"),
        ],
    )
    responses = []
    for accept in ("X-Accel-Redirect", "off"):
        nginx = site.start(
            f"location / {{ http_sendfile_accept {accept}; %%PASS%% }} %%INTERNAL%%"
        )
        response = nginx.get("/a")
        site.assert_file(response, 1, SIZE)
        assert response.header("X-Mine") is None
        responses.append([line for line in response.headers if line[0] != "Date"])
    assert responses[0] == responses[1]


@pytest.mark.parametrize("header", ["X-Sendfile", "X-LIGHTTPD-send-file"])
@pytest.mark.parametrize("status", STATUSES)
def test_other_status(site: Site, app: Gateway, header: str, status: int) -> None:
    """Any status but 200 is passed on with its body; the header is not shown."""
    path = write(site)
    lines = [(header, path), ("X-Mine", "yes"), ("Location", "/b")]
    app.answers["/a"] = Said(status, lines, b"the body")
    nginx = site.start(SERVER)
    response = nginx.get("/a")
    assert (response.status, response.body) == (status, b"the body")
    assert response.header("X-Mine") == "yes"
    assert response.all(header) == []
    assert response.all("Location") != []


@HEADERS
def test_206_of_the_application(site: Site, app: Gateway, header: str) -> None:
    """An application that has looked at Range itself: nginx does so anew."""
    path = "/files/aa/1.txt" if header == "X-Accel-Redirect" else write(site)
    write(site)
    lines = [
        ("Content-Range", f"bytes 5-9/{SIZE}"),
        ("Accept-Ranges", "bytes"),
        ("ETag", ETAG),
        (header, path),
    ]
    app.answers["/none"] = Said(206, lines, length=None)
    app.answers["/length"] = Said(206, lines, length=0)
    app.answers["/body"] = Said(206, lines, content(1, SIZE)[5:10])
    nginx = site.start(SERVER)
    for target in app.answers:
        response = nginx.get(target, {"Range": "bytes=5-9"})
        assert (response.status, response.body) == (206, content(1, SIZE)[5:10])
        assert response.all("Content-Range") == [f"bytes 5-9/{SIZE}"]
        assert response.header("Content-Length") == "5"
        assert response.header("ETag") == ETAG
        # of that application nginx believes nothing but the file
        site.assert_file(nginx.get(target), 1, SIZE)
        response = nginx.get(target, {"Range": "bytes=5-9", "If-Range": '"x"'})
        site.assert_file(response, 1, SIZE)


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("status_at", ["first", "last"])
@pytest.mark.parametrize("protocol_line", [False, True])
def test_place_of_the_status(
    site: Site, app: Gateway, protocol_line: bool, status_at: str, status: int
) -> None:
    """A CGI's Status counts before the header, behind it, or as a status line."""
    path = write(site)
    app.answers["/a"] = Said(
        status,
        [("X-Sendfile", path), ("X-Mine", "yes")],
        b"the body",
        status_at=status_at,
        status_line=protocol_line,
    )
    nginx = site.start(SERVER)
    response = nginx.get("/a")
    assert response.status == status
    wanted = content(1, SIZE) if status == 200 else b"the body"
    assert response.body == wanted
    assert response.all("X-Sendfile") == []
    assert response.header("X-Mine") == "yes"
    # uwsgi_pass shows it to the client
    if status == 200 or app.protocol != "uwsgi":
        assert response.all("Status") == []


@pytest.mark.parametrize("protocol", ["fastcgi", "uwsgi", "scgi"])
def test_no_status(site: Site, protocol: str) -> None:
    """Without any Status it is a 200."""
    app = site.gateway(protocol)
    site.variables["PASS"] = app.passes()
    app.answers["/a"] = Said(headers=[("X-Sendfile", write(site))], status_at="none")
    nginx = site.start(
        "location / { http_sendfile_accept X-Sendfile;"
        " http_sendfile_allow %%FILES%%; %%PASS%% }"
    )
    site.assert_file(nginx.get("/a"), 1, SIZE)


@pytest.mark.parametrize("protocol", ["fastcgi", "uwsgi", "scgi"])
def test_location_without_status(site: Site, protocol: str) -> None:
    """A CGI's Location without a Status is a 302, which is no 200."""
    app = site.gateway(protocol)
    site.variables["PASS"] = app.passes()
    lines = [("X-Sendfile", write(site)), ("Location", "http://localhost/b")]
    for n, order in enumerate((lines, lines[::-1])):
        app.answers[f"/{n}"] = Said(headers=order, status_at="none", body=b"moved")
    nginx = site.start(
        "location / { http_sendfile_accept X-Sendfile;"
        " http_sendfile_allow %%FILES%%; %%PASS%% }"
    )
    for n in range(2):
        response = nginx.get(f"/{n}")
        assert (response.status, response.body) == (302, b"moved")
        assert response.all("X-Sendfile") == []


# what a client sends


BELIEVED = [
    "X-Sendfile",
    "x-sendfile",
    "X-SENDFILE",
    "X-Sendfile-Type",
    "x-sendfile-type",
    "X-SendFile-TYPE",
    "X-Sendfile-Anything",
    "X-Accel-Mapping",
    "x-accel-mapping",
    "X-ACCEL-MAPPING",
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Anything",
    "X-LIGHTTPD-send-file",
    "X-Lighttpd-Send-Tempfile",
]
UNDERSCORES = [
    "X_Sendfile",
    "X_Sendfile_Type",
    "x-sendfile_type",
    "X_Accel-Mapping",
    "x_accel_mapping",
    "X-Accel_Redirect",
    "X_LIGHTTPD_send_file",
]
ODD = ["X.Accel.Mapping", "X~Sendfile-Type", "X-Accel!Mapping", "X*Sendfile"]
OTHERS = ["X-Send", "X-Accelerate", "X-Forwarded-For", "X-Accep", "Xx-Sendfile", "A"]


def reached(app: Gateway) -> list[tuple[str, str]]:
    """Return the headers of the last request, as names without case."""
    last = app.requests[-1].headers
    return [(n.lower().replace("_", "-"), v) for n, v in last]


@pytest.mark.parametrize("kind", ["plain", "underscores", "odd"])
def test_what_a_client_sends_is_removed(site: Site, app: Gateway, kind: str) -> None:
    """No spelling of these headers reaches the application."""
    names = {"plain": BELIEVED, "underscores": UNDERSCORES, "odd": ODD}[kind]
    setting = {
        "plain": "",
        "underscores": "underscores_in_headers on;",
        "odd": "ignore_invalid_headers off; underscores_in_headers on;",
    }[kind]
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(setting + SERVER)
    for name in names:
        headers = [("X-First", "1"), (name, "evil"), ("X-Last", "2"), (name, "evil")]
        site.assert_file(nginx.get("/a", headers), 1, SIZE)
        assert "evil" not in [v for _, v in reached(app)], name
        assert ("x-first", "1") in reached(app) and ("x-last", "2") in reached(app)


def test_all_of_them_at_once(site: Site, app: Gateway) -> None:
    """Many of them among many others: the others are all there, in order."""
    app.answers["/a"] = Said(body=b"plain")
    nginx = site.start(
        "ignore_invalid_headers off; underscores_in_headers on;"
        "large_client_header_buffers 8 16k;" + SERVER
    )
    headers = []
    for n, name in enumerate([*BELIEVED, *UNDERSCORES, *ODD] * 3):
        headers += [(name, "evil"), (f"X-N{n}", str(n))]
        headers += [(name, "evil")] * (n % 3)
    assert nginx.get("/a", headers).body == b"plain"
    got = [(n, v) for n, v in reached(app) if n.startswith("x-n")]
    assert got == [(n.lower(), v) for n, v in headers if v != "evil"]
    assert "evil" not in [v for _, v in reached(app)]


def test_others_reach_the_application(site: Site, app: Gateway) -> None:
    """Headers with similar names are nobody's business."""
    app.answers["/a"] = Said(body=b"plain")
    nginx = site.start(SERVER)
    nginx.get("/a", [(name, "mine") for name in OTHERS])
    assert [n for n, v in reached(app) if v == "mine"] == [n.lower() for n in OTHERS]


def test_headers_that_nginx_knows(site: Site, app: Gateway) -> None:
    """What nginx has noted of other headers is right after the removal."""
    path = write(site)
    app.answers["/a"] = sendfile(path, ("ETag", ETAG))
    nginx = site.start(
        """
        location / {
            %%ACCEPT%% %%PASS%%
            add_header X-Seen "$cookie_a|$cookie_c|$http_cookie|$remote_user"
                always;
            add_header X-Seen "$proxy_add_x_forwarded_for|$http_user_agent" always;
            add_header X-Seen "$http_referer|$host|$http_range|$http_x_end" always;
        }
        """
    )
    known = [
        ("Host", "localhost"),
        ("User-Agent", "agent"),
        ("X-Sendfile-Type", "evil"),
        ("Cookie", "a=b"),
        ("Referer", "http://r/"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Accel-Mapping", "evil"),
        ("Cookie", "c=d"),
        ("Authorization", "Basic dXNlcjpwYXNz"),
        ("X-Forwarded-For", "10.0.0.2"),
        ("Range", "bytes=0-4"),
        ("If-Range", ETAG),
        ("X-End", "end"),
    ]
    for at in range(0, len(known), 2):
        headers = [*known]
        for _ in range(5):
            headers.insert(at, ("X-Accel-Mapping", "evil"))
            headers.insert(0, ("X-Sendfile-Type", "evil"))
        response = nginx.get("/a", headers)
        assert (response.status, response.body) == (206, content(1, SIZE)[:5])
        seen = response.all("X-Seen")
        assert seen[0].split("|")[:2] == ["b", "d"]
        assert seen[0].endswith("|user")
        assert seen[1] == "10.0.0.1, 10.0.0.2, 127.0.0.1|agent"
        assert seen[2] == "http://r/|localhost|bytes=0-4|end"
        assert "evil" not in [v for _, v in reached(app)]


def test_conditions_of_a_client_reach_the_application(site: Site, app: Gateway) -> None:
    """If-None-Match and others are the application's to see, as without us."""
    app.answers["/a"] = sendfile(write(site), ("ETag", ETAG))
    nginx = site.start(SERVER)
    headers = {"X-Sendfile": "evil", "If-None-Match": ETAG, "X-Accel-A": "evil"}
    assert nginx.get("/a", headers).status == 304
    assert ("if-none-match", ETAG) in reached(app)


@pytest.mark.parametrize("protocol", ["http", "fastcgi", "uwsgi", "scgi"])
def test_what_the_operator_sets_is_sent(site: Site, protocol: str) -> None:
    """proxy_set_header and fastcgi_param are the operator's."""
    app = site.gateway(protocol)
    site.variables["PASS"] = app.passes()
    said = (
        "proxy_set_header X-Sendfile-Type X-Sendfile;"
        if protocol == "http"
        else app.directive("param", "HTTP_X_SENDFILE_TYPE X-Sendfile")
    )
    app.answers["/a"] = Said(body=b"plain")
    nginx = site.start(
        f"location / {{ http_sendfile_accept X-Sendfile; {said}"
        " http_sendfile_allow %%FILES%%; %%PASS%% }"
    )
    nginx.get("/a", {"X-Sendfile-Type": "evil", "X-SENDFILE-TYPE": "evil"})
    types = [v for n, v in reached(app) if n == "x-sendfile-type"]
    assert types == ["X-Sendfile"]


def test_client_cannot_have_a_file_sent(site: Site, app: Gateway) -> None:
    """A client's own X-Sendfile has no effect at all, whatever the answer."""
    path = write(site)
    app.answers["/a"] = Said(body=b"plain")
    nginx = site.start(
        "underscores_in_headers on; location = /here { %%ACCEPT%% return 200 here; }"
        + SERVER
    )
    for name in ("X-Sendfile", "X_Sendfile", "X-Accel-Redirect", "X-Accel_Redirect"):
        for value in (path, "/files/aa/1.txt"):
            assert nginx.get("/a", {name: value}).body == b"plain"
            assert nginx.get("/here", {name: value}).body == b"here"
            assert nginx.get("/static/aa/none", {name: value}).status == 404
