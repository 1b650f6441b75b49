"""The fallback: where a request goes that is not answered by a file."""

from __future__ import annotations

import pytest

from lib.backend import Reply, Request
from lib.client import Response
from lib.nginx import Nginx
from lib.site import Site

APP = "location @app { proxy_pass http://%%APP%%; } %%INTERNAL%% "

# each class of failure, with the code it has without a fallback
CODES = {"miss": 404, "error": 502, "invalid": 502, "missing_file": 404}


def start(site: Site, directives: str, more: str = "") -> Nginx:
    """Start a server whose /file/ delivers by redirect; @app asks the app."""
    return site.start(
        f"location /file/ {{ http_sendfile on; {directives} }}" + APP + more
    )


def start_failing(site: Site, directives: str, more: str = "") -> Nginx:
    """Start a server with direct delivery; see ``fail``."""
    site.store.put(1, "../../etc/passwd")
    site.store.put(2, "aa/gone.dat")
    broken = site.directory / "broken.lmdb"
    broken.mkdir()
    broken.joinpath("data.mdb").write_bytes(b"this is no database\n" * 1000)
    return site.start(
        f"""
        location /file/ {{ http_sendfile on; %%DIRECT%% {directives} }}
        location /broken/ {{
            http_sendfile on; %%DIRECT%% {directives}
            http_sendfile_lookup lmdb:%%DIR%%/broken.lmdb;
        }}
        {APP} {more}
        """
    )


FAILING = {
    "miss": "/file/404?x=y",
    "invalid": "/file/1?x=y",
    "missing_file": "/file/2?x=y",
    "error": "/broken/1?x=y",
}


def fail(nginx: Nginx, kind: str) -> Response:
    """Send a request that fails in the way named by the class."""
    return nginx.get(FAILING[kind])


# the forms


def test_named_location(site: Site, delivery: str) -> None:
    """@name gets the request as it was."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    headers = {"X-Mine": "yes", "Accept": "text/x-mine", "Cookie": "a=b; c=d"}
    response = nginx.get("/file/1?a=b%20c&d", headers)
    assert response.text == "app GET /file/1?a=b%20c&d\n"
    request = site.app.only_request()
    assert {name: request.header(name) for name in headers} == headers


def test_named_location_keeps_the_body(site: Site, delivery: str) -> None:
    """A body goes with the request, whatever its size."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    for size in (1, 20_000, 1_000_000):
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert nginx.post("/file/1?x=1", body).status == 200
        request = site.app.requests[-1]
        assert (request.method, request.target) == ("POST", "/file/1?x=1")
        assert request.body == body


def test_body_of_a_get(site: Site, delivery: str) -> None:
    """Even the body of a GET that missed goes to the application."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    response = nginx.request("GET", "/file/1", body=b"a body")
    assert response.text == "app GET /file/1\n"
    assert site.app.only_request().body == b"a body"


def test_unbuffered_body(site: Site) -> None:
    """A body that comes in pieces after the lookup reaches the application."""
    nginx = start(
        site,
        "http_sendfile_fallback @stream;",
        "location @stream { proxy_pass http://%%APP%%; proxy_request_buffering off; }",
    )
    with nginx.connect() as connection:
        connection.send(
            b"POST /file/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc"
        )
        connection.send(b"def")
        assert connection.read_response().text == "app POST /file/1\n"
    assert site.app.only_request().body == b"abcdef"


def test_head_stays_head(site: Site, delivery: str) -> None:
    """The application sees HEAD as HEAD."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    assert nginx.head("/file/1").status == 200
    assert site.app.only_request().method == "HEAD"


def test_uri_keeps_the_arguments(site: Site) -> None:
    """A URI without ? is called with the request's arguments."""
    nginx = start(
        site,
        "http_sendfile_fallback /app/missing;",
        "location /app/ { proxy_pass http://%%APP%%; }",
    )
    assert nginx.get("/file/1?a=b&c").text == "app GET /app/missing?a=b&c\n"
    assert nginx.get("/file/1").text == "app GET /app/missing\n"


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("/app/missing?id=$sendfile_id", "/app/missing?id=1"),
        ("/app/missing?id=$sendfile_id&$args", "/app/missing?id=1&a=b"),
        ("/app/missing?", "/app/missing"),
        ("/app/$sendfile_id/missing", "/app/1/missing?a=b"),
    ],
)
def test_uri_with_arguments(site: Site, uri: str, target: str) -> None:
    """A ? in the URI replaces the request's arguments; variables work."""
    nginx = start(
        site,
        f"http_sendfile_fallback {uri};",
        "location /app/ { proxy_pass http://%%APP%%; }",
    )
    assert nginx.get("/file/1?a=b").text.rstrip("?\n") == f"app GET {target}"


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("a%20b", "a%20b"),
        ("a%0d%0aX-Evil:%201", "a%0D%0AX-Evil:%201"),
        ("a%7f%01", "a%7F%01"),
        ("%E3%81%82", "\xe3\x81\x82"),
    ],
)
def test_bytes_of_a_variable_in_arguments(site: Site, sent: str, seen: str) -> None:
    """They do not end the line of the request to the application."""
    nginx = site.start(
        r"""
        location ~ ^/file/(?<id>\d+)/(?<rest>[\s\S]*)$ {
            http_sendfile on; http_sendfile_key $id;
            http_sendfile_fallback /app/missing?u=$rest;
        }
        location /app/ { proxy_pass http://%%APP%%; }
        """
    )
    assert nginx.get(f"/file/1/{sent}").status == 200
    request = site.app.only_request()
    assert request.target == f"/app/missing?u={seen}"
    assert request.header("X-Evil") is None


def test_uri_keeps_method_and_body(site: Site) -> None:
    """A URI gets the method and the body, too."""
    nginx = start(
        site,
        "http_sendfile_fallback /app/missing;",
        "location /app/ { proxy_pass http://%%APP%%; }",
    )
    assert nginx.post("/file/1?x", b"body").text == "app POST /app/missing?x\n"
    assert site.app.only_request().body == b"body"


def test_uri_of_a_static_file(site: Site) -> None:
    """A URI may be a file of nginx: a picture that says there is none."""
    site.html.write_id("none.png", 77)
    nginx = start(site, "http_sendfile_fallback /none.png;")
    response = site.assert_file(nginx.get("/file/1"), 77)
    assert response.header("Content-Type") == "image/png"


@pytest.mark.parametrize("code", [400, 403, 404, 410, 503])
def test_code(site: Site, code: int) -> None:
    """=code is the answer."""
    site.add(297887)
    nginx = start(site, f"http_sendfile_fallback ={code};")
    assert nginx.get("/file/1").status == code
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_code_goes_through_error_page(site: Site) -> None:
    """=code can have a page of its own."""
    site.html.write("gone.html", b"gone, says the page")
    nginx = start(site, "http_sendfile_fallback =410; error_page 410 /gone.html;")
    response = nginx.get("/file/1")
    assert (response.status, response.body) == (410, b"gone, says the page")


@pytest.mark.parametrize(
    ("value", "status", "body"),
    [
        ("@app", 200, b"app GET /file/1?to="),
        ("/static.txt", 200, b"ID:77"),
        ("=410", 410, b"410 Gone"),
        ("off", 404, b"404 Not Found"),
    ],
)
def test_variable(site: Site, value: str, status: int, body: bytes) -> None:
    """A variable may hold any of the forms."""
    site.html.write_id("static.txt", 77)
    nginx = start(site, "http_sendfile_fallback $arg_to;")
    response = nginx.get(f"/file/1?to={value}")
    assert response.status == status
    assert body in response.body


@pytest.mark.parametrize("value", ["@nosuch", "=abc", "app", "=99999"])
def test_bad_variable(site: Site, value: str) -> None:
    """A variable that holds nothing usable is a 500, and logged."""
    nginx = start(site, "http_sendfile_fallback $arg_to;")
    assert nginx.get(f"/file/1?to={value}").status == 500
    assert any(value in line for line in nginx.errors())


def test_off_is_the_default(site: Site, delivery: str) -> None:
    """Without a fallback the application is not asked."""
    nginx = start(site, "%%DELIVER%%")
    assert nginx.get("/file/1").status == 404
    assert site.app.requests == []


def test_application_answers_as_it_likes(site: Site, delivery: str) -> None:
    """Status and headers of the application come through."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")

    def script(request: Request) -> Reply:
        headers = [
            ("Location", "https://example.com/"),
            ("Set-Cookie", "a=b"),
            ("Set-Cookie", "c=d"),
            ("X-Mine", "yes"),
        ]
        return Reply(302, headers, b"over there")

    site.app.script = script
    response = nginx.get("/file/1")
    assert (response.status, response.body) == (302, b"over there")
    assert response.header("Location") == "https://example.com/"
    assert response.all("Set-Cookie") == ["a=b", "c=d"]
    assert response.header("X-Mine") == "yes"


@pytest.mark.parametrize("status", [404, 500, 503])
def test_application_fails(site: Site, delivery: str, status: int) -> None:
    """What the application says is final."""
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    site.app.script = lambda request: Reply(status, body=b"the app is sorry")
    response = nginx.get("/file/1")
    assert (response.status, response.body) == (status, b"the app is sorry")
    assert len(site.app.requests) == 1


def test_application_is_down(site: Site, delivery: str) -> None:
    """Without the application it is a 502; files are still served."""
    site.add(297887)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
        " location @app { proxy_pass http://127.0.0.1:1; } %%INTERNAL%%"
    )
    assert nginx.get("/file/1").status == 502
    site.assert_file(nginx.get("/file/297887"), 297887)


# the levels


def test_explicit_wins_over_the_handler(site: Site, delivery: str) -> None:
    """In a location with proxy_pass an explicit fallback comes first."""
    site.add(297887)
    nginx = start(
        site,
        "%%DELIVER%% http_sendfile_fallback =410; proxy_pass http://%%APP%%;",
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1").status == 410
    assert nginx.get("/file/list").text == "app GET /file/list\n"


def test_inherited_wins_over_the_handler(site: Site) -> None:
    """So does one from the server."""
    nginx = site.start(
        "http_sendfile_fallback =410;"
        " location /file/ { http_sendfile on; proxy_pass http://%%APP%%; } %%INTERNAL%%"
    )
    assert nginx.get("/file/1").status == 410


def test_off_wins_over_the_handler(site: Site) -> None:
    """`off` gives codes even in a location with a handler of its own."""
    nginx = start(site, "http_sendfile_fallback off; proxy_pass http://%%APP%%;")
    assert nginx.get("/file/1").status == 404
    assert site.app.requests == []
    # another method is not for the module: it declines, the handler answers
    assert nginx.post("/file/1", b"x").text == "app POST /file/1\n"


def test_off_below_a_fallback(site: Site) -> None:
    """`off` ends an inherited fallback."""
    nginx = site.start(
        "http_sendfile on; http_sendfile_fallback =410;"
        " location /off/ { http_sendfile_fallback off; } location /on/ { } "
        "location ^~ /files/ { internal; http_sendfile off; }"
    )
    assert nginx.get("/off/1").status == 404
    assert nginx.get("/on/1").status == 410


# the classes


@pytest.mark.parametrize("kind", CODES)
def test_codes_without_a_fallback(site: Site, kind: str) -> None:
    """Each class has its code."""
    nginx = start_failing(site, "")
    assert fail(nginx, kind).status == CODES[kind]


@pytest.mark.parametrize("kind", CODES)
def test_codes_go_through_error_page(site: Site, kind: str) -> None:
    """… which goes through error_page."""
    site.html.write("sorry.html", b"sorry, says the page")
    nginx = start_failing(site, "", "error_page 404 502 /sorry.html;")
    response = fail(nginx, kind)
    assert (response.status, response.body) == (CODES[kind], b"sorry, says the page")


@pytest.mark.parametrize("kind", CODES)
def test_every_class_falls_back_by_default(site: Site, kind: str) -> None:
    """Without fallback_on all classes go to the fallback."""
    nginx = start_failing(site, "http_sendfile_fallback @app;")
    assert fail(nginx, kind).text == f"app GET {FAILING[kind]}\n"


@pytest.mark.parametrize("kind", CODES)
def test_every_class_goes_to_the_handler(site: Site, kind: str) -> None:
    """The location's own handler is asked in the same cases."""
    nginx = start_failing(site, "proxy_pass http://%%APP%%;")
    assert fail(nginx, kind).text == f"app GET {FAILING[kind]}\n"


@pytest.mark.parametrize(
    "fallback", ["http_sendfile_fallback @app;", "proxy_pass http://%%APP%%;"]
)
@pytest.mark.parametrize("chosen", CODES)
def test_fallback_on_one_class(site: Site, chosen: str, fallback: str) -> None:
    """fallback_on leaves the other classes with their codes."""
    nginx = start_failing(site, f"{fallback} http_sendfile_fallback_on {chosen};")
    for kind, code in CODES.items():
        assert fail(nginx, kind).status == (200 if kind == chosen else code)


def test_fallback_on_several_classes(site: Site) -> None:
    """Several classes may be named."""
    nginx = start_failing(
        site,
        "http_sendfile_fallback @app; http_sendfile_fallback_on error invalid timeout;",
    )
    statuses = {kind: fail(nginx, kind).status for kind in CODES}
    assert statuses == {"miss": 404, "error": 200, "invalid": 200, "missing_file": 404}


def test_fallback_on_is_inherited(site: Site) -> None:
    """A location may replace the set of its server, not add to it."""
    site.store.put(1, "a//b")
    nginx = site.start(
        """
        http_sendfile_fallback =410;
        http_sendfile_fallback_on miss;
        location /a/ { http_sendfile on; }
        location /b/ { http_sendfile on; http_sendfile_fallback_on invalid; }
        %%INTERNAL%%
        """
    )
    assert nginx.get("/a/404").status == 410
    assert nginx.get("/a/1").status == 502
    assert nginx.get("/b/404").status == 404
    assert nginx.get("/b/1").status == 410


def test_other_methods_do_not_care_for_fallback_on(site: Site) -> None:
    """POST goes to the fallback, whatever the classes."""
    nginx = start_failing(
        site, "http_sendfile_fallback @app; http_sendfile_fallback_on error;"
    )
    assert nginx.post("/file/404", b"x").text == "app POST /file/404\n"


def test_bad_key_falls_back(site: Site) -> None:
    """A key that may not be asked for goes to the fallback as `invalid`."""
    server = "http_sendfile_key $arg_k; http_sendfile_fallback @app;"
    uri = f"/file/?k={'k' * 251}"
    nginx = start(site, server)
    assert nginx.get(uri).text == f"app GET {uri}\n"
    nginx = start(site, server + "http_sendfile_fallback_on miss error timeout;")
    assert nginx.get(uri).status == 404


def test_unreadable_file(site: Site) -> None:
    """A file that the worker may not read is a 403, or for the fallback."""
    site.files.path(site.add(297887)).chmod(0)
    nginx = site.start(
        """
        location /file/ { http_sendfile on; %%DIRECT%% }
        location /app/ { http_sendfile on; %%DIRECT%% proxy_pass http://%%APP%%; }
        """
    )
    assert nginx.get("/file/297887").status == 403
    assert "13: Permission denied" in nginx.logged("/file/297887").reason
    assert nginx.get("/app/297887").text == "app GET /app/297887\n"


def test_missing_root(site: Site) -> None:
    """Without the root's directory every file is missing."""
    site.add(297887)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root %%DIR%%/nowhere; }"
    )
    assert nginx.get("/file/297887").status == 404


@pytest.mark.parametrize("kind", ["error", "invalid", "missing_file"])
def test_one_log_line(site: Site, kind: str) -> None:
    """Each failure is one line of the error log, with the key and what was done."""
    nginx = start_failing(site, "http_sendfile_fallback @app;")
    assert fail(nginx, kind).status == 200
    nginx.logged(FAILING[kind])
    # that the store is broken was said when the worker started
    (line,) = [s for s in nginx.errors("error", "warn") if "*" in s]
    key = "2" if kind == "missing_file" else "1"
    assert f'"{key}"' in line
    assert "@app" in line


def test_a_miss_is_not_logged(site: Site) -> None:
    """Misses are ordinary: the error log stays empty."""
    nginx = start_failing(site, "http_sendfile_fallback @app;")
    for _ in range(3):
        assert fail(nginx, "miss").status == 200
    assert [s for s in nginx.errors("error", "warn") if "*" in s] == []


def test_fallback_of_a_record_with_headers(site: Site) -> None:
    """A record whose file is missing leaves no trace in the fallback's answer."""
    record = {
        "path": "aa/gone.pdf",
        "type": "application/x-record",
        "name": "record.pdf",
        "disposition": "attachment",
        "headers": {"Cache-Control": "max-age=60", "ETag": '"record"'},
    }
    site.store.put(297887, record)
    nginx = start(site, "%%DIRECT%% http_sendfile_fallback @app;")
    site.app.script = lambda request: Reply(
        headers={"Content-Type": "text/x-app"}, body=b"app"
    )
    response = nginx.get("/file/297887")
    assert response.text == "app"
    assert response.header("Content-Type") == "text/x-app"
    for name in ("Cache-Control", "ETag", "Content-Disposition"):
        assert response.header(name) is None


@pytest.mark.parametrize("fallback", ["/other/297887", "@other"])
def test_loop_is_cut_and_logged(site: Site, fallback: str) -> None:
    """A fallback that leads to a lookup again: one line says so."""
    nginx = site.start(
        f"""
        location /file/ {{ http_sendfile on; http_sendfile_fallback {fallback}; }}
        location {fallback.rstrip("0123456789")} {{
            http_sendfile on; http_sendfile_fallback /file/297887;
        }}
        """
    )
    assert nginx.get("/file/297887").status == 404
    lines = [line for line in nginx.errors("error") if "leads back" in line]
    assert len(lines) == 1
    assert 'key "297887"' in lines[0]


def test_keep_alive_after_a_fallback(site: Site, delivery: str) -> None:
    """Fallback answers and files share a connection."""
    site.add(297887)
    nginx = start(site, "%%DELIVER%% http_sendfile_fallback @app;")
    with nginx.connect() as connection:
        for n in range(1, 6):
            response = connection.request("GET", f"/file/{n}")
            assert response.text == f"app GET /file/{n}\n"
            site.assert_file(connection.request("GET", "/file/297887"), 297887)
            response = connection.request("POST", f"/file/{n}", body=b"b" * n)
            assert response.text == f"app POST /file/{n}\n"
