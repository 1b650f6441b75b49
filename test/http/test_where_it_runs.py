"""Which requests are looked up, and which are left to the rest of nginx."""

from __future__ import annotations

import base64
import hashlib

import pytest

from lib.backend import Reply, Request, Script
from lib.client import Connection
from lib.nginx import LogEntry, Nginx
from lib.site import Site

FILE = "location /file/ { http_sendfile on; %%DELIVER%% } %%INTERNAL%%\n"


def assert_not_run(entry: LogEntry) -> None:
    """Check that the module had nothing to do with a logged request."""
    assert (entry.status, entry.source) == ("-", "-")
    assert (entry.target, entry.time, entry.reason) == ("-", "-", "-")


def redirects(targets: dict[str, str]) -> Script:
    """Return a script that answers with X-Accel-Redirect by request path."""

    def script(request: Request) -> Reply:
        if request.target in targets:
            return Reply(headers={"X-Accel-Redirect": targets[request.target]})
        return Reply(body=f"app {request.method} {request.target}\n".encode())

    return script


def app_targets(site: Site) -> list[str]:
    """Return what the application was asked for."""
    return [request.target for request in site.app.requests]


# levels


def test_inherited_from_the_server(site: Site, delivery: str) -> None:
    """Set in the server, it holds in locations that have no handler."""
    site.add(297887)
    nginx = site.start("http_sendfile on; %%DELIVER%% location /a/ { } %%INTERNAL%%")
    site.assert_file(nginx.get("/a/297887"), 297887)
    site.assert_file(nginx.get("/297887"), 297887)


def test_inherited_from_http(site: Site) -> None:
    """Set in http, it holds in every server."""
    site.add(297887)
    nginx = site.start("location /a/ { } %%INTERNAL%%", http="http_sendfile on;")
    site.assert_file(nginx.get("/a/297887"), 297887)


def test_off_below_on(site: Site) -> None:
    """A location can switch it off, and one below that on again."""
    site.add(297887)
    site.html.write_id("a/off/297887", 77)
    nginx = site.start(
        """
        location /a/ {
            http_sendfile on;
            location /a/off/ {
                http_sendfile off;
                location /a/off/on/ { http_sendfile on; }
            }
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/a/297887"), 297887)
    site.assert_file(nginx.get("/a/off/297887"), 77)
    site.assert_file(nginx.get("/a/off/on/297887"), 297887)


def test_inherited_on_leaves_a_handler_alone(site: Site) -> None:
    """An inherited `on` does not run in a location with proxy_pass."""
    site.add(297887)
    nginx = site.start(
        "http_sendfile on; location /app/ { proxy_pass http://%%APP%%; } %%INTERNAL%%"
    )
    assert nginx.get("/app/297887").text == "app GET /app/297887\n"
    assert_not_run(nginx.logged("/app/297887"))


def test_inherited_on_leaves_a_nested_handler_alone(site: Site) -> None:
    """`on` in an outer location is inherited, not its own, further in."""
    site.add(297887)
    nginx = site.start(
        """
        location /file/ {
            http_sendfile on;
            proxy_pass http://%%APP%%;
            location /file/inner/ { proxy_pass http://%%APP%%; }
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/inner/297887").text == "app GET /file/inner/297887\n"
    assert_not_run(nginx.logged("/file/inner/297887"))


def test_nested_location_without_a_handler(site: Site) -> None:
    """The handler of an outer location is no fallback further in."""
    site.add(297887)
    nginx = site.start(
        """
        location /file/ {
            http_sendfile on;
            proxy_pass http://%%APP%%;
            location /file/inner/ { }
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/inner/297887"), 297887)
    assert nginx.get("/file/inner/1").status == 404
    assert app_targets(site) == []


def test_other_handlers_are_left_alone(site: Site) -> None:
    """An inherited `on` does not run where stub_status or empty_gif answers."""
    site.store.put(1, site.add(297887))
    nginx = site.start("http_sendfile on; location /gif/ { empty_gif; } %%INTERNAL%%")
    response = nginx.get("/gif/1")
    assert response.body.startswith(b"GIF89a")
    assert_not_run(nginx.logged("/gif/1"))


# one location


ONE_LOCATION = """
location /file { http_sendfile on; %%DELIVER%% proxy_pass http://%%APP%%; }
%%INTERNAL%%
"""


def test_one_location_hit(site: Site, delivery: str) -> None:
    """`http_sendfile on; proxy_pass …` serves what the store knows."""
    site.add(297887)
    nginx = site.start(ONE_LOCATION)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert app_targets(site) == []


def test_one_location_miss(site: Site, delivery: str) -> None:
    """… and asks the application for the rest, with the request as it was."""
    site.add(297887)
    nginx = site.start(ONE_LOCATION)
    response = nginx.get("/file/1?a=b%20c&d", {"X-Mine": "yes"})
    assert response.text == "app GET /file/1?a=b%20c&d\n"
    request = site.app.only_request()
    assert request.header("X-Mine") == "yes"
    entry = nginx.logged("/file/1?a=b%20c&d")
    assert (entry.code, entry.status, entry.source) == (200, "MISS", "app")


def test_one_location_without_an_id(site: Site) -> None:
    """… and for what has no ID at all."""
    site.variables["DELIVER"] = ""
    nginx = site.start(ONE_LOCATION)
    assert nginx.get("/file/list?page=2").text == "app GET /file/list?page=2\n"
    assert_not_run(nginx.logged("/file/list?page=2"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_one_location_other_methods(site: Site, delivery: str, method: str) -> None:
    """… and for every method but GET and HEAD, even if the ID is known."""
    site.add(297887)
    nginx = site.start(ONE_LOCATION)
    response = nginx.request(method, "/file/297887?x=1", body=b"the body")
    assert response.text == f"app {method} /file/297887?x=1\n"
    request = site.app.only_request()
    assert (request.method, request.body) == (method, b"the body")


def test_one_location_head(site: Site, delivery: str) -> None:
    """HEAD is served from the store as GET is; a missing one goes to the app."""
    site.add(297887, size=1234)
    nginx = site.start(ONE_LOCATION)
    response = nginx.head("/file/297887")
    assert (response.status, response.header("Content-Length")) == (200, "1234")
    assert nginx.head("/file/1").status == 200
    assert [r.method for r in site.app.requests] == ["HEAD"]


def test_one_location_with_an_if_block(site: Site, delivery: str) -> None:
    """An `if` in the location belongs to the location."""
    site.add(297887)
    nginx = site.start(
        """
        location /file {
            http_sendfile on; %%DELIVER%%
            set $mark none;
            if ($arg_x) { set $mark $arg_x; }
            add_header X-Mark $mark;
            proxy_pass http://%%APP%%;
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887?x=1"), 297887)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1?x=1").text == "app GET /file/1?x=1\n"


def test_off_in_an_if_block(site: Site, delivery: str) -> None:
    """An `if` can keep requests away from the store."""
    site.add(297887)
    nginx = site.start(
        """
        location /file {
            http_sendfile on; %%DELIVER%%
            if ($arg_app) { http_sendfile off; }
            proxy_pass http://%%APP%%;
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/297887?app=1").text == "app GET /file/297887?app=1\n"
    assert_not_run(nginx.logged("/file/297887?app=1"))


def test_on_in_an_if_block(site: Site, delivery: str) -> None:
    """An `if` can send only some requests to the store."""
    site.add(297887)
    nginx = site.start(
        """
        location /file {
            %%DELIVER%%
            if ($cookie_fast) { http_sendfile on; }
            proxy_pass http://%%APP%%;
        }
        %%INTERNAL%%
        """
    )
    assert nginx.get("/file/297887").text == "app GET /file/297887\n"
    fast = {"Cookie": "fast=1"}
    site.assert_file(nginx.get("/file/297887", fast), 297887)
    assert nginx.get("/file/1", fast).text == "app GET /file/1\n"


def test_one_location_with_fastcgi(site: Site, delivery: str) -> None:
    """Any content handler is the fallback, not only proxy_pass."""
    if not site.flavour.built_with("http_uwsgi_module"):
        pytest.fail("nginx is built without uwsgi")
    site.add(297887)
    nginx = site.start(
        """
        location /file { http_sendfile on; %%DELIVER%% uwsgi_pass 127.0.0.1:1; }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1").status == 502
    assert nginx.errors("error")[-1].count("connect() failed")


def test_smallest_whole_configuration_serves(site: Site) -> None:
    """The smallest whole configuration: /files has `off` and is not internal."""
    site.store.put(297887, "297887")
    site.html.write_id("files/297887", 297887)
    nginx = site.start_whole(
        """
%%LOAD%%
%%USER%%
events { }
http {
    http_sendfile_lookup lmdb:%%STORE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%HTML%%;
        location /file { http_sendfile on; }
        location /files { http_sendfile off; }
    }
    %%TEMP%% access_log off;
}
pid %%DIR%%/nginx.pid;
error_log %%DIR%%/logs/error.log info;
"""
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    site.assert_file(nginx.get("/files/297887"), 297887)
    assert nginx.get("/file/1").status == 404


# the target of the redirect


def test_internal_target_is_not_reachable(site: Site) -> None:
    """The files' own location answers 404 from outside."""
    path = site.add(297887)
    nginx = site.start("location /file/ { http_sendfile on; } %%INTERNAL%%")
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get(f"/files/{path}").status == 404


def test_target_is_not_looked_up_again(site: Site) -> None:
    """A path that ends like an ID, in a location with `on`: no second lookup."""
    site.store.put(1, "2")
    site.store.put(2, "3")
    site.files.write_id("2", 20)
    site.files.write_id("3", 30)
    nginx = site.start(
        "location /file/ { http_sendfile on; }"
        " location ^~ /files/ { internal; http_sendfile on; alias %%FILES%%/; }"
    )
    site.assert_file(nginx.get("/file/1"), 20)


def test_redirect_loop_is_cut(site: Site) -> None:
    """A prefix that leads back to the location itself ends at a file or a 404."""
    site.store.put(1, "1")
    site.store.put(2, "2")
    site.html.write_id("file/1", 77)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_prefix /file/; }"
    )
    site.assert_file(nginx.get("/file/1"), 77)
    assert nginx.get("/file/2").status == 404


def test_missing_target_of_a_redirect(site: Site) -> None:
    """The 404 of a redirected file belongs to the target's location."""
    site.store.put(297887, "aa/gone.dat")
    nginx = site.start(
        """
        location /file/ { http_sendfile on; http_sendfile_fallback @app; }
        location ^~ /files/ {
            internal; alias %%FILES%%/; error_page 404 = @gone;
        }
        location @gone { return 410 "gone\n"; }
        location @app { proxy_pass http://%%APP%%; }
        """
    )
    response = nginx.get("/file/297887")
    assert (response.status, response.text) == (410, "gone\n")
    assert app_targets(site) == []


# error_page


def test_error_page_of_a_miss(site: Site, delivery: str) -> None:
    """The 404 of a miss goes through error_page."""
    site.html.write_id("404.html", 77)
    nginx = site.start(FILE + "error_page 404 /404.html;")
    response = nginx.get("/file/1")
    assert (response.status, response.body) == (404, site.html.read("404.html"))
    assert nginx.logged("/file/1").status == "MISS"


def test_error_page_to_a_named_location(site: Site, delivery: str) -> None:
    """error_page can hand a miss to the application."""
    nginx = site.start(
        FILE + "error_page 404 = @app; location @app { proxy_pass http://%%APP%%; }"
    )
    response = nginx.get("/file/1")
    assert (response.status, response.text) == (200, "app GET /file/1\n")


def test_declines_within_error_page(site: Site, delivery: str) -> None:
    """An error page that looks like an ID is nothing to look up."""
    site.add(297887)
    site.html.write_id("file/297887", 77)
    nginx = site.start(
        FILE
        + """
        location /app/ {
            proxy_pass http://%%APP%%;
            proxy_intercept_errors on;
            error_page 404 /file/297887;
        }
        """
    )
    site.app.script = lambda request: Reply(404, body=b"not here")
    response = nginx.get("/app/x")
    assert (response.status, response.body) == (404, site.html.read("file/297887"))
    assert_not_run(nginx.logged("/app/x"))


def test_error_page_of_a_miss_to_an_id(site: Site, delivery: str) -> None:
    """A miss with an ID as error page does not run twice."""
    site.add(297887)
    nginx = site.start(FILE + "error_page 404 /file/297887;")
    response = nginx.get("/file/1")
    assert response.status == 404
    assert b"ID:" not in response.body


def test_recursive_error_pages(site: Site, delivery: str) -> None:
    """… nor if error pages may have error pages."""
    site.add(297887)
    nginx = site.start(FILE + "recursive_error_pages on; error_page 404 /file/297887;")
    response = nginx.get("/file/1")
    assert response.status in (404, 500)
    assert b"ID:" not in response.body


# X-Accel-Redirect


def test_accel_redirect_to_another_id(site: Site, delivery: str) -> None:
    """The application may answer with another ID: it runs once more."""
    site.add(2)
    nginx = site.start(ONE_LOCATION)
    site.app.script = redirects({"/file/1": "/file/2"})
    site.assert_file(nginx.get("/file/1"), 2)
    assert app_targets(site) == ["/file/1"]
    entry = nginx.logged("/file/1")
    assert (entry.key, entry.status) == ("2", "HIT")


def test_accel_redirect_from_a_named_location(site: Site, delivery: str) -> None:
    """The same with an explicit fallback."""
    site.add(2)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
        " location @app { proxy_pass http://%%APP%%; } %%INTERNAL%%"
    )
    site.app.script = redirects({"/file/1": "/file/2"})
    site.assert_file(nginx.get("/file/1"), 2)


def test_accel_redirect_runs_once_more_not_twice(site: Site, delivery: str) -> None:
    """After the second lookup the third ID is left to the location's handler."""
    site.add(3)
    nginx = site.start(ONE_LOCATION)
    site.app.script = redirects({"/file/1": "/file/2", "/file/2": "/file/3"})
    assert nginx.get("/file/1").text == "app GET /file/3\n"
    assert app_targets(site) == ["/file/1", "/file/2", "/file/3"]


def test_accel_redirect_loop_is_cut(site: Site, delivery: str) -> None:
    """An application that redirects for ever is stopped by nginx."""
    nginx = site.start(ONE_LOCATION)
    site.app.script = lambda request: Reply(headers={"X-Accel-Redirect": "/file/1"})
    assert nginx.get("/file/1").status == 500
    assert 2 <= len(app_targets(site)) <= 12


def test_accel_redirect_from_elsewhere(site: Site, delivery: str) -> None:
    """An application outside of the module's location may redirect to an ID."""
    site.add(297887)
    nginx = site.start(FILE + "location /app/ { proxy_pass http://%%APP%%; }")
    site.app.script = redirects({"/app/a": "/file/297887"})
    site.assert_file(nginx.get("/app/a"), 297887)
    assert nginx.logged("/app/a").status == "HIT"


def test_accel_redirect_to_a_file(site: Site, delivery: str) -> None:
    """A fallback that redirects to the files' location is served as ever."""
    path = site.add(297887)
    nginx = site.start(ONE_LOCATION)
    site.app.script = redirects({"/file/1": f"/files/{path}"})
    site.assert_file(nginx.get("/file/1"), 297887)


# methods


def test_post_goes_to_the_fallback(site: Site, delivery: str) -> None:
    """POST is not looked up."""
    site.add(297887)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
        " location @app { proxy_pass http://%%APP%%; } %%INTERNAL%%"
    )
    assert nginx.post("/file/297887", b"x=1").text == "app POST /file/297887\n"
    assert site.app.only_request().body == b"x=1"


def test_post_without_a_fallback_declines(site: Site, delivery: str) -> None:
    """Without a fallback it is nginx's own 405 for a static file."""
    site.add(297887)
    site.html.write_id("file/297887", 77)
    nginx = site.start(FILE)
    assert nginx.post("/file/297887", b"x=1").status == 405
    entry = nginx.logged("/file/297887")
    assert (entry.status, entry.source, entry.time) == ("BYPASS", "-", "-")


# subrequests


def start_ssi(site: Site, page: str, more: str = FILE) -> Nginx:
    """Start a server with an SSI page /page.html."""
    site.html.write("page.html", page.encode())
    return site.start("location = /page.html { ssi on; } " + more)


def test_ssi_include(site: Site, delivery: str) -> None:
    """A subrequest is served like a request."""
    site.add(297887)
    nginx = start_ssi(site, '<<!--#include virtual="/file/297887" -->>')
    body = site.files.read("aa/297887.dat")
    assert nginx.get("/page.html").body == b"<" + body + b">"


def test_ssi_several_includes(site: Site, delivery: str) -> None:
    """Several subrequests of one page come in their order."""
    sizes = {1: 100, 2: 200_000, 3: 10, 4: 40_000, 5: 1}
    page = ""
    want = b""
    for n, size in sizes.items():
        path = site.add(n, size=size)
        page += f'[{n}<!--#include virtual="/file/{n}" -->]'
        want += b"[%d" % n + site.files.read(path) + b"]"
    nginx = start_ssi(site, page)
    for _ in range(3):
        assert nginx.get("/page.html").body == want


def test_ssi_wait(site: Site, delivery: str) -> None:
    """wait="yes" holds the page back until the file is there."""
    site.add(1)
    site.add(2)
    nginx = start_ssi(
        site,
        '<!--#include virtual="/file/1" wait="yes" -->|'
        '<!--#include virtual="/file/2" wait="yes" -->',
    )
    one, two = (site.files.read(f"aa/{n}.dat") for n in (1, 2))
    assert nginx.get("/page.html").body == one + b"|" + two


def test_ssi_set(site: Site, delivery: str) -> None:
    """A subrequest that is kept in memory ends up in an SSI variable."""
    site.add(297887)
    nginx = start_ssi(
        site,
        '<!--#include virtual="/file/297887" set="x" -->'
        '(<!--#echo var="x" encoding="none" -->)',
    )
    body = site.files.read("aa/297887.dat")
    assert nginx.get("/page.html").body == b"(" + body + b")"


def test_ssi_miss(site: Site, delivery: str) -> None:
    """A miss within a page is the stub of nginx, and the page goes on."""
    site.add(2)
    nginx = start_ssi(
        site, '[<!--#include virtual="/file/1" -->][<!--#include virtual="/file/2" -->]'
    )
    response = nginx.get("/page.html")
    assert response.status == 200
    assert b"404 Not Found" in response.body
    assert response.body.endswith(b"[" + site.files.read("aa/2.dat") + b"]")


def test_ssi_fallback(site: Site, delivery: str) -> None:
    """The fallback of a subrequest's miss is asked within the page."""
    site.add(2)
    nginx = start_ssi(
        site,
        '[<!--#include virtual="/file/1?a=b" -->][<!--#include virtual="/file/2" -->]',
        "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
        " location @app { proxy_pass http://%%APP%%; } %%INTERNAL%%",
    )
    want = b"[app GET /file/1?a=b\n][" + site.files.read("aa/2.dat") + b"]"
    assert nginx.get("/page.html").body == want


def test_ssi_one_location(site: Site, delivery: str) -> None:
    """The one-location form within a page: a hit, and a miss for the handler."""
    site.add(2)
    nginx = start_ssi(
        site,
        '[<!--#include virtual="/file/1" -->][<!--#include virtual="/file/2" -->]',
        ONE_LOCATION,
    )
    response = nginx.get("/page.html")
    # the application is asked with the client's request line, as nginx does
    assert response.body.startswith(b"[app GET /")
    assert response.body.endswith(b"][" + site.files.read("aa/2.dat") + b"]")


def test_ssi_head(site: Site, delivery: str) -> None:
    """HEAD of a page with includes ends."""
    site.add(297887)
    nginx = start_ssi(site, '<!--#include virtual="/file/297887" -->')
    assert nginx.head("/page.html").status == 200


def test_page_of_an_id_with_includes(site: Site, delivery: str) -> None:
    """A file found by its ID may itself include IDs."""
    site.add(1)
    site.files.write("page.html", b'ID:2 <!--#include virtual="/file/1" -->')
    site.store.put(2, "page.html")
    nginx = site.start(FILE + "ssi on;")
    assert nginx.get("/file/2").body == b"ID:2 " + site.files.read("aa/1.dat")


def test_addition(site: Site, delivery: str) -> None:
    """The addition module's parts may be IDs."""
    if not site.flavour.built_with("http_addition_module"):
        pytest.fail("nginx is built without addition")
    site.add(1)
    site.add(2)
    site.html.write("page.html", b"|page|")
    nginx = site.start(
        FILE
        + "location /page.html { add_before_body /file/1; add_after_body /file/2; }"
    )
    one, two = (site.files.read(f"aa/{n}.dat") for n in (1, 2))
    assert nginx.get("/page.html").body == one + b"|page|" + two


def test_mirror(site: Site, delivery: str) -> None:
    """A mirrored subrequest may lead to an ID; its file is read by nobody."""
    site.add(297887, size=100_000)
    site.html.write_id("page", 77)
    nginx = site.start(FILE + "location = /page { mirror /file/297887; }")
    with nginx.connect() as connection:
        for _ in range(5):
            site.assert_file(connection.request("GET", "/page"), 77)


# access


def basic(user: str, password: str) -> dict[str, str]:
    """Return an Authorization header."""
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def start_with_access(site: Site, directives: str, more: str = "") -> Nginx:
    """Start a server whose /file/ has access rules; ID 297887 and 1 exist."""
    site.add(297887)
    site.add(1)
    password = site.directory / "htpasswd"
    password.write_text("me:{PLAIN}secret\n")
    password.chmod(0o644)
    return site.start(
        f"location /file/ {{ http_sendfile on; %%DELIVER%% {directives} }}"
        f" %%INTERNAL%% {more}"
    )


BASIC = "auth_basic files; auth_basic_user_file %%DIR%%/htpasswd;"


def test_auth_basic(site: Site, delivery: str) -> None:
    """Who has no password causes no lookup."""
    nginx = start_with_access(site, BASIC)
    response = nginx.get("/file/297887")
    assert (response.status, response.header("WWW-Authenticate")) == (
        401,
        'Basic realm="files"',
    )
    assert_not_run(nginx.logged("/file/297887"))
    assert nginx.get("/file/297887", basic("me", "wrong")).status == 401
    site.assert_file(nginx.get("/file/297887", basic("me", "secret")), 297887)


def test_deny(site: Site, delivery: str) -> None:
    """Who is denied causes no lookup."""
    nginx = start_with_access(site, "deny all;")
    assert nginx.get("/file/297887").status == 403
    assert_not_run(nginx.logged("/file/297887"))


def test_satisfy_any(site: Site, delivery: str) -> None:
    """With `satisfy any` a password is enough where the address is denied."""
    nginx = start_with_access(site, "satisfy any; deny all;" + BASIC)
    assert nginx.get("/file/297887").status == 401
    assert_not_run(nginx.logged("/file/297887"))
    site.assert_file(nginx.get("/file/297887", basic("me", "secret")), 297887)


def test_satisfy_any_by_address(site: Site, delivery: str) -> None:
    """… and the right address needs no password."""
    nginx = start_with_access(site, "satisfy any; allow 127.0.0.1; deny all;" + BASIC)
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_auth_request(site: Site, delivery: str) -> None:
    """The application decides on each ID before it is looked up."""
    nginx = start_with_access(
        site,
        "auth_request /auth;",
        "location = /auth { internal; proxy_pass http://%%APP%%;"
        " proxy_set_header X-Original-URI $request_uri; }",
    )

    def script(request: Request) -> Reply:
        allowed = request.header("X-Original-URI") == "/file/297887"
        return Reply(204 if allowed else 403)

    site.app.script = script
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1").status == 403
    assert_not_run(nginx.logged("/file/1"))


def test_secure_link(site: Site, delivery: str) -> None:
    """A link without the right signature causes no lookup."""
    nginx = start_with_access(
        site,
        """
        secure_link $arg_md5,$arg_expires;
        secure_link_md5 "$secure_link_expires$uri secret";
        if ($secure_link = "") { return 403; }
        if ($secure_link = "0") { return 410; }
        """,
    )

    def link(uri: str, expires: int) -> str:
        digest = hashlib.md5(f"{expires}{uri} secret".encode()).digest()
        md5 = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return f"md5={md5}&expires={expires}"

    good = f"/file/297887?{link('/file/297887', 4102444800)}"
    old = f"/file/297887?{link('/file/297887', 1000000000)}"
    other = f"/file/1?{link('/file/297887', 4102444800)}"
    site.assert_file(nginx.get(good), 297887)
    for uri, status in ((old, 410), (other, 403), ("/file/297887", 403)):
        assert nginx.get(uri).status == status
        assert_not_run(nginx.logged(uri))


def test_limit_except(site: Site, delivery: str) -> None:
    """A denied method makes no lookup and no fallback; GET goes on."""
    nginx = start_with_access(
        site,
        "http_sendfile_fallback @app; limit_except GET { deny all; }",
        "location @app { proxy_pass http://%%APP%%; }",
    )
    assert nginx.post("/file/297887", b"x").status == 403
    assert_not_run(nginx.logged("/file/297887"))
    assert app_targets(site) == []
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_limit_except_that_lets_pass(site: Site, delivery: str) -> None:
    """Within limit_except the location's own `on` and handler still hold."""
    nginx = start_with_access(
        site, "limit_except POST { " + BASIC + " } proxy_pass http://%%APP%%;"
    )
    assert nginx.get("/file/297887").status == 401
    assert_not_run(nginx.logged("/file/297887"))
    site.assert_file(nginx.get("/file/297887", basic("me", "secret")), 297887)
    assert nginx.get("/file/2", basic("me", "secret")).text == "app GET /file/2\n"
    assert nginx.post("/file/297887", b"x").text == "app POST /file/297887\n"


def test_limit_req(site: Site, delivery: str) -> None:
    """A request over the limit makes no lookup."""
    site.add(1)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% limit_req zone=z; } "
        "%%INTERNAL%%",
        http="limit_req_zone $server_name zone=z:64k rate=1r/m;",
    )
    site.assert_file(nginx.get("/file/1?a"), 1)
    assert nginx.get("/file/1?b").status == 503
    assert_not_run(nginx.logged("/file/1?b"))


def test_limit_req_delay(site: Site, delivery: str) -> None:
    """Requests that limit_req holds back are served afterwards."""
    for n in range(4):
        site.add(n)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% limit_req zone=z burst=9; } "
        "%%INTERNAL%%",
        http="limit_req_zone $server_name zone=z:64k rate=20r/s;",
    )
    connections: list[Connection] = [nginx.connect() for _ in range(4)]
    for n, connection in enumerate(connections):
        connection.send_request("GET", f"/file/{n}")
    for n, connection in enumerate(connections):
        site.assert_file(connection.read_response(), n)
        connection.close()


def test_limit_conn(site: Site, delivery: str) -> None:
    """A connection over the limit makes no lookup."""
    site.add(1, size=30_000_000)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% limit_conn z 1; } "
        "%%INTERNAL%%",
        http="limit_conn_zone $server_name zone=z:64k;",
    )
    with nginx.connect() as first:
        first.send_request("GET", "/file/1?a")
        first.socket.recv(1)
        assert nginx.get("/file/1?b").status == 503
        assert_not_run(nginx.logged("/file/1?b"))


def test_return_comes_first(site: Site) -> None:
    """A location that returns never looks up."""
    site.add(297887)
    nginx = site.start("location /file/ { http_sendfile on; return 403; }")
    assert nginx.get("/file/297887").status == 403
    assert_not_run(nginx.logged("/file/297887"))


# ways to get to an ID


def test_rewrite_to_an_id(site: Site, delivery: str) -> None:
    """An old URL is rewritten to that of an ID, in a location or the server."""
    site.add(297887)
    nginx = site.start(
        FILE
        + """
        rewrite ^/older/(\\d+)$ /file/$1 last;
        location /old/ { rewrite ^/old/(\\d+)-[a-z]+\\.jpg$ /file/$1 last; }
        """
    )
    site.assert_file(nginx.get("/old/297887-kyoto.jpg"), 297887)
    site.assert_file(nginx.get("/older/297887"), 297887)
    assert nginx.logged("/old/297887-kyoto.jpg").id == "297887"


def test_try_files_to_an_id(site: Site, delivery: str) -> None:
    """The last resort of try_files may be an ID."""
    site.add(297887)
    site.html.write_id("page/there", 77)
    nginx = site.start(FILE + "location /page/ { try_files $uri /file/297887; }")
    site.assert_file(nginx.get("/page/there"), 77)
    site.assert_file(nginx.get("/page/not-there"), 297887)


def test_try_files_in_the_same_location(site: Site, delivery: str) -> None:
    """What has no ID is left to the location's try_files."""
    site.add(297887)
    site.html.write_id("there.txt", 77)
    nginx = site.start(
        """
        location / {
            http_sendfile on; %%DELIVER%%
            http_sendfile_fallback @app;
            try_files $uri @app;
        }
        location @app { proxy_pass http://%%APP%%; }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/297887"), 297887)
    site.assert_file(nginx.get("/there.txt"), 77)
    assert nginx.get("/other").text == "app GET /other\n"
    assert nginx.get("/1").text == "app GET /1\n"


def test_named_location(site: Site, delivery: str) -> None:
    """A named location may look up the ID of the URI that came to it."""
    site.add(297887)
    nginx = site.start(
        """
        location /file/ { try_files /nothing @ids; }
        location @ids { http_sendfile on; %%DELIVER%% }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1").status == 404


def test_regex_location(site: Site, delivery: str) -> None:
    """A regex location takes part; ^~ keeps the redirect out of other ones."""
    site.add(297887, "aa/297887.php")
    nginx = site.start(
        """
        location ~ ^/file/\\d+$ { http_sendfile on; %%DELIVER%% }
        location ~ \\.php$ { return 500; }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_exact_location(site: Site, delivery: str) -> None:
    """An exact location takes part."""
    site.add(297887)
    nginx = site.start(
        "location = /file/297887 { http_sendfile on; %%DELIVER%% } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/297888").status == 404


def test_fallback_to_an_id_does_not_run_again(site: Site, delivery: str) -> None:
    """A fallback URI with an ID is not looked up: only X-Accel-Redirect is."""
    site.add(2)
    site.html.write_id("file/2", 77)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%%"
        " http_sendfile_fallback /file/2; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/1"), 77)
