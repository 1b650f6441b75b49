"""Ruby's classes: every method and constant."""

from __future__ import annotations

import base64
import re

import pytest

from lib.client import Response
from lib.nginx import REPOSITORY
from lib.ruby import content, load_ruby
from lib.site import Site

SOURCE = REPOSITORY / "src" / "mruby"


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


def value(site: Site, code: str, target: str = "/ruby", more: str = "") -> str:
    """Start nginx and return what a Ruby expression inspects as.

    Args:
        site: with the module.
        code: the expression; ``r`` is a request.
        target: what to get.
        more: directives of the server.
    """
    nginx = site.start(
        more + content(f"r = Nginx::Request.new; Nginx.rputs(({code}).inspect)")
    )
    answer = nginx.get(target)
    assert answer.status == 200, nginx.errors()
    return answer.text


def error(site: Site, code: str) -> str:
    """Start nginx and return the message of the exception that code raises."""
    nginx = site.start(
        content(
            f"r = Nginx::Request.new; hi = r.headers_in; ho = r.headers_out; "
            f"begin; {code}; rescue => e; Nginx.rputs e.class.to_s + ': ' + e.message;"
            f" end"
        )
    )
    answer = nginx.get("/ruby")
    assert answer.status == 200, nginx.errors()
    assert answer.body, "nothing was raised"
    return answer.text


# constants

CODES = {
    "OK": 0,
    "ERROR": -1,
    "AGAIN": -2,
    "BUSY": -3,
    "DONE": -4,
    "DECLINED": -5,
    "ABORT": -6,
    "HTTP_CONTINUE": 100,
    "HTTP_SWITCHING_PROTOCOLS": 101,
    "HTTP_PROCESSING": 102,
    "HTTP_OK": 200,
    "HTTP_CREATED": 201,
    "HTTP_ACCEPTED": 202,
    "HTTP_NO_CONTENT": 204,
    "HTTP_PARTIAL_CONTENT": 206,
    "HTTP_SPECIAL_RESPONSE": 300,
    "HTTP_MOVED_PERMANENTLY": 301,
    "HTTP_MOVED_TEMPORARILY": 302,
    "HTTP_SEE_OTHER": 303,
    "HTTP_NOT_MODIFIED": 304,
    "HTTP_TEMPORARY_REDIRECT": 307,
    "HTTP_PERMANENT_REDIRECT": 308,
    "HTTP_BAD_REQUEST": 400,
    "HTTP_UNAUTHORIZED": 401,
    "HTTP_FORBIDDEN": 403,
    "HTTP_NOT_FOUND": 404,
    "HTTP_NOT_ALLOWED": 405,
    "HTTP_REQUEST_TIME_OUT": 408,
    "HTTP_CONFLICT": 409,
    "HTTP_LENGTH_REQUIRED": 411,
    "HTTP_PRECONDITION_FAILED": 412,
    "HTTP_REQUEST_ENTITY_TOO_LARGE": 413,
    "HTTP_REQUEST_URI_TOO_LARGE": 414,
    "HTTP_UNSUPPORTED_MEDIA_TYPE": 415,
    "HTTP_RANGE_NOT_SATISFIABLE": 416,
    "HTTP_TOO_MANY_REQUESTS": 429,
    "HTTP_CLOSE": 444,
    "HTTP_NGINX_CODES": 494,
    "HTTP_REQUEST_HEADER_TOO_LARGE": 494,
    "HTTPS_CERT_ERROR": 495,
    "HTTPS_NO_CERT": 496,
    "HTTP_TO_HTTPS": 497,
    "HTTP_CLIENT_CLOSED_REQUEST": 499,
    "HTTP_INTERNAL_SERVER_ERROR": 500,
    "HTTP_NOT_IMPLEMENTED": 501,
    "HTTP_BAD_GATEWAY": 502,
    "HTTP_SERVICE_UNAVAILABLE": 503,
    "HTTP_GATEWAY_TIME_OUT": 504,
    "HTTP_INSUFFICIENT_STORAGE": 507,
    "LOG_STDERR": 0,
    "LOG_EMERG": 1,
    "LOG_ALERT": 2,
    "LOG_CRIT": 3,
    "LOG_ERR": 4,
    "LOG_WARN": 5,
    "LOG_NOTICE": 6,
    "LOG_INFO": 7,
    "LOG_DEBUG": 8,
}


def test_constants(ruby: Site) -> None:
    """Each has its number, with and without NGX_ in front."""
    names = [f"{prefix}{name}" for name in CODES for prefix in ("", "NGX_")]
    code = "[" + ", ".join(f"Nginx::{name}" for name in names) + "]"
    want = [CODES[name.removeprefix("NGX_")] for name in names]
    assert value(ruby, code) == str(want)


def test_all_constants_are_tested() -> None:
    """The table above is that of the source."""
    text = (SOURCE / "ngx_http_sendfile_mruby_nginx.c").read_text()
    found = set(re.findall(r'\{ "([A-Z_]+)", NGX_\w+ \}', text))
    assert found == set(CODES)


def test_true_and_false(ruby: Site) -> None:
    """As in ngx_mruby they are strings."""
    assert value(ruby, "[Nginx::TRUE, Nginx::FALSE]") == '["1", "0"]'


# Nginx


def test_print(ruby: Site) -> None:
    """rputs, print and echo; numbers and objects by to_s."""
    nginx = ruby.start(content("Nginx.rputs 1; Nginx.print :b; Nginx.echo nil"))
    assert nginx.get("/ruby").body == b"1b\n"


def test_aliases_of_return(ruby: Site) -> None:
    """send_header and status_code= are return."""
    nginx = ruby.start(
        content("Nginx.send_header 402", "/a")
        + content("Nginx.status_code = 403", "/b")
    )
    assert nginx.get("/a").status == 402
    assert nginx.get("/b").status == 403


@pytest.mark.parametrize("method", ["log", "errlogger"])
def test_log(ruby: Site, method: str) -> None:
    """To the error log, at each level that it shows, with the request's context."""
    nginx = ruby.start(
        content(
            f'Nginx.{method} Nginx::LOG_ERR, "e"; Nginx.{method} Nginx::LOG_WARN, "w";'
            f"Nginx.{method} Nginx::LOG_NOTICE, 42; Nginx.{method} Nginx::LOG_INFO, :i;"
            f'Nginx.{method} Nginx::LOG_DEBUG, "d"'
        )
    )
    assert nginx.get("/ruby").status == 200
    for level, text in (("error", "e"), ("warn", "w"), ("notice", "42"), ("info", "i")):
        nginx.wait_for_log(rf'\[{level}\] .* {text}, client: .*request: "GET /ruby')


def test_log_is_one_line(ruby: Site) -> None:
    """What a client has sent cannot make a line of its own."""
    nginx = ruby.start(
        content("Nginx.log 4, Nginx::Request.new.uri; p 1; puts 'a' * 5000", "/")
    )
    assert nginx.get("/a%0d%0aforged%1f%7fline").status == 200
    nginx.wait_for_log(r"/a  forged  line, client: ")
    nginx.wait_for_log("a{1000}")
    assert not [s for s in nginx.errors_text().splitlines() if s.startswith("forged")]


def test_log_of_a_bad_level(ruby: Site) -> None:
    """A level that there is not is an error of the script's."""
    assert "is no log level" in error(ruby, "Nginx.log 9, 'x'")
    assert "is no log level" in error(ruby, "Nginx.log(-1, 'x')")


def test_puts(ruby: Site) -> None:
    """What would go to standard output is logged as a notice."""
    nginx = ruby.start(content("puts 'one', 'two'; p 'three', nil; print :four"))
    assert nginx.get("/ruby").status == 200
    for text in ("one", "two", '"three"', "nil", "four"):
        nginx.wait_for_log(rf"\[notice\] .* {text}, client")


def test_versions(ruby: Site) -> None:
    """Names and versions."""
    version = ".".join(map(str, ruby.flavour.version))
    code = "[Nginx.nginx_version, Nginx.server_version, server_name, get_server_class]"
    assert value(ruby, code) == f'["{version}", "{version}", "NGINX", Nginx]'
    code = "[Nginx.module_name, Nginx.module_version, Nginx.configure.class]"
    assert value(ruby, code) == '["ngx_http_sendfile_mruby_module", "0.1.0", String]'


def test_remove_global_variable(ruby: Site) -> None:
    """It is gone, and not in the list that is returned."""
    code = "$zz = 1; [Nginx.remove_global_variable(:$zz).include?(:$zz), $zz]"
    assert value(ruby, code.replace("; [", "; x = [")) == "[false, nil]"


# Request


def test_request(ruby: Site) -> None:
    """What there is of a request, each by its method."""
    nginx = ruby.start(
        content(
            """
            r = Nginx::Request.new
            %w[scheme request_line uri unparsed_uri method protocol args hostname
               authority filename user document_root read_body sub_request? body
               get_body].each do |name|
              Nginx.echo "#{name}=#{r.send(name).inspect}"
            end
            """
        )
    )
    user = base64.b64encode(b"alice:secret").decode()
    answer = nginx.get(
        "/ruby/%41?a=1&b=2",
        {"Host": "Example.com:8080", "Authorization": f"Basic {user}"},
    )
    found = dict(line.split("=", 1) for line in answer.text.splitlines())
    assert found == {
        "scheme": '"http"',
        "request_line": '"GET /ruby/%41?a=1&b=2 HTTP/1.1"',
        "uri": '"/ruby/A"',
        "unparsed_uri": '"/ruby/%41?a=1&b=2"',
        "method": '"GET"',
        "protocol": '"HTTP/1.1"',
        "args": '"a=1&b=2"',
        "hostname": '"example.com"',
        "authority": '"Example.com:8080"',
        "filename": f'"{ruby.html.root}/ruby/A"',
        "user": '"alice"',
        "document_root": f'"{ruby.html.root}"',
        "read_body": "0",
        "sub_request?": "false",
        "body": "nil",
        "get_body": "nil",
    }


def test_uri_args(ruby: Site) -> None:
    """A Hash of the arguments, as they are."""
    got = value(ruby, "r.uri_args", "/ruby?a=1&b=x%20y&c&d==&&a=2")
    assert got == '{"a"=>"2", "b"=>"x%20y", "c"=>"", "d"=>"="}'
    assert value(ruby, "r.uri_args") == "{}"


def test_set_args(ruby: Site) -> None:
    """args= and uri_args= change what the location sees."""
    code = "r.args = 'z=1'; x = [r.args, r.var.arg_z, r.var.args]"
    assert value(ruby, code, "/ruby?a=1") == '["z=1", "1", "z=1"]'
    code = "r.uri_args = { 'a' => 1, :b => 'x' }; r.args"
    assert value(ruby, code) == '"a=1&b=x"'
    assert error(ruby, "r.uri_args = 'x'") == "ArgumentError: not a Hash"
    for bad in ("a b", "a\\r\\nX: y", "\\0", "\\x7f"):
        assert error(ruby, f'r.args = "{bad}"').startswith("ArgumentError: space or")


def test_set_uri(ruby: Site) -> None:
    """uri= changes which file a later handler sends."""
    ruby.html.write_id("other/1.html", 1)
    nginx = ruby.start(
        """
        location /a {
            mruby_access_handler_code 'Nginx::Request.new.uri = "/other/1.html"';
        }
        """
    )
    answer = nginx.get("/a")
    ruby.assert_file(answer, 1)
    assert answer.header("Content-Type") == "text/html"


@pytest.mark.parametrize(
    "uri", ["", "x", "/../etc/passwd", "/a/../../b", "/a\\0b", "/a?b", "http://x/"]
)
def test_set_uri_to_what_is_none(ruby: Site, uri: str) -> None:
    """What could leave the root is refused."""
    assert error(ruby, f'r.uri = "{uri}"') == "ArgumentError: unsafe or relative URI"


def test_post_args(ruby: Site) -> None:
    """A Hash of a form."""
    nginx = ruby.start(content("Nginx.rputs Nginx::Request.new.post_args.inspect"))
    assert nginx.post("/ruby", b"a=1&b=2").body == b'{"a"=>"1", "b"=>"2"}'
    assert nginx.get("/ruby").body == b"{}"


def test_content_type(ruby: Site) -> None:
    """It is the answer's."""
    nginx = ruby.start(
        content("""
            r = Nginx::Request.new
            Nginx.rputs r.content_type.inspect
            r.content_type = "text/html; charset=utf-8"
            Nginx.rputs r.content_type
        """)
    )
    answer = nginx.get("/ruby")
    assert answer.body == b'""text/html; charset=utf-8'
    assert answer.header("Content-Type") == "text/html; charset=utf-8"


def test_content_type_and_charset(ruby: Site) -> None:
    """The location's charset is added to a type that has none."""
    nginx = ruby.start(
        "charset utf-8;"
        + content("Nginx::Request.new.content_type = 'text/plain'", "/a")
        + content("Nginx::Request.new.content_type = 'text/plain; charset=x'", "/b")
    )
    assert nginx.get("/a").header("Content-Type") == "text/plain; charset=utf-8"
    assert nginx.get("/b").header("Content-Type") == "text/plain; charset=x"


def test_parts_are_made_once(ruby: Site) -> None:
    """var, headers_in and headers_out of a request are the same objects."""
    code = (
        "[r.var.equal?(r.var), r.headers_in.equal?(r.headers_in),"
        " r.headers_out.equal?(r.headers_out), r.var.class, Nginx.var.class]"
    )
    assert value(ruby, code) == "[true, true, true, Nginx::Var, Nginx::Var]"


# Server, Connection


def test_server(ruby: Site) -> None:
    """Where the files are."""
    root = str(ruby.html.root)
    code = "s = Nginx::Server.new; x = [s.document_root, s.path, s.realpath_root]"
    assert value(ruby, code) == f'["{root}", "{root}", "{root}"]'


def test_connection(ruby: Site) -> None:
    """Both ends."""
    code = "c = Nginx::Connection.new; x = [c.remote_ip, c.local_ip, c.local_port]"
    got = value(ruby, code)
    assert got == f'["127.0.0.1", "127.0.0.1", "{ruby.nginx.port}"]'
    assert re.fullmatch(r'"\d+"', value(ruby, "Nginx::Connection.new.remote_port"))


# Var


def test_variables(ruby: Site) -> None:
    """By name; nil where there is none or it has no value."""
    code = (
        "v = Nginx::Var.new; x = [v.uri, v.arg_a, v.arg_b, v.http_x_a, v.nothing,"
        " v.sendfile_status, v.mine]"
    )
    got = value(ruby, code, "/ruby?a=1", "set $mine m;")
    assert got == '["/ruby", "1", nil, nil, nil, "-", "m"]'


def test_variable_exists(ruby: Site) -> None:
    """exist? says whether it has a value."""
    code = "v = r.var; x = %w[uri arg_a arg_b nothing mine].map { |n| v.exist?(n) }"
    got = value(ruby, code, "/ruby?a=1", "set $mine m;")
    assert got == "[true, true, false, false, true]"
    assert value(ruby, 'r.var.exist?("")') == "false"
    assert value(ruby, 'r.var.exist?("x" * 5000)') == "false"


def test_variable_set(ruby: Site) -> None:
    """Those that "set" or "mruby_set" declare, and those that nginx lets change."""
    nginx = ruby.start(
        "set $mine old;"
        + content(
            "v = Nginx::Var.new; v.mine = 'new'; Nginx.rputs v.mine;"
            "v.set 'mine', 7; Nginx.rputs v.mine;"
            "v.set :args, 'q=1'; Nginx.rputs Nginx::Request.new.args"
        )
    )
    assert nginx.get("/ruby").body == b"new7q=1"


@pytest.mark.parametrize("name", ["uri", "nothing", "http_x_a", "", "x" * 3000])
def test_variable_that_cannot_be_set(ruby: Site, name: str) -> None:
    """It raises."""
    assert "cannot be set" in error(ruby, f"r.var.set('{name}', 1)")


def test_variable_takes_no_arguments(ruby: Site) -> None:
    """A slip of the pen is no variable."""
    assert "takes no arguments" in error(ruby, "r.var.uri(1)")


# Headers


def test_headers_in(ruby: Site) -> None:
    """By name in any case; several of a name are an Array."""
    nginx = ruby.start(
        content("""
            h = Nginx::Headers_in.new
            Nginx.echo [h["x-a"], h["X-B"], h["X-None"], h.user_agent].inspect
            Nginx.echo h.all.inspect
        """)
    )
    answer = nginx.get(
        "/ruby",
        [("Host", "h"), ("X-A", "1"), ("X-B", "2"), ("x-b", "3"), ("User-Agent", "me")],
    )
    first, second = answer.text.splitlines()
    assert first == '["1", ["2", "3"], nil, "me"]'
    assert '"X-A"=>"1"' in second
    assert '"X-B"=>["2", "3"]' in second


def test_headers_in_change(ruby: Site) -> None:
    """What is set, replaced and deleted goes on to the application so."""
    code = """
        h = Nginx::Request.new.headers_in
        h["X-New"] = "n"
        h["X-Many"] = ["1", "2"]
        h["X-Old"] = "changed"
        h["User-Agent"] = "robot"
        h["X-Nil"] = nil
        h.delete("Cookie")
        h.delete("X-Never")
    """
    nginx = ruby.start(
        "location /ruby { mruby_access_handler_code '" + code + "';"
        " proxy_pass http://%%APP%%; }"
    )
    for more in range(40):
        filler = [(f"X-F{n}", str(n)) for n in range(more)]
        nginx.get(
            "/ruby",
            [
                *filler[: more // 2],
                *(("X-Old", "old"), ("Cookie", "a=1"), ("User-Agent", "me")),
                *(("X-Nil", "x"), ("X-Old", "older")),
                *filler[more // 2 :],
            ],
        )
        last = ruby.app.requests[-1]
        seen = Response(0, last.headers, b"")
        assert seen.all("X-New") == ["n"]
        assert seen.all("X-Many") == ["1", "2"]
        assert seen.all("X-Old") == ["changed"]
        assert seen.all("User-Agent") == ["robot"]
        assert seen.all("X-Nil") == []
        assert seen.all("Cookie") == []
        for name, text in filler:
            assert seen.all(name) == [text]


def test_headers_in_of_a_subrequest(ruby: Site) -> None:
    """They are its own: its parent's stay what they are."""
    code = """
        h = Nginx::Headers_in.new
        h["X-Auth"] = "secret"
        h.delete("Cookie")
        h["X-Both"] = "changed"
    """
    nginx = ruby.start(
        "location /page { auth_request /check; proxy_pass http://%%APP%%; }"
        "location /check { mruby_set_code $changed '" + code + "';"
        " proxy_pass http://%%APP%%; proxy_pass_request_body off; }"
    )
    for more in (0, 1, 3, 19, 20, 30):
        filler = [(f"X-F{n}", str(n)) for n in range(more)]
        begun = len(ruby.app.requests)
        nginx.get("/page", [("Cookie", "a=1"), *filler, ("X-Both", "old")])
        check, page = (
            Response(0, request.headers, b"") for request in ruby.app.requests[begun:]
        )
        assert check.all("X-Auth") == ["secret"]
        assert check.all("Cookie") == []
        assert check.all("X-Both") == ["changed"]
        assert page.all("X-Auth") == []
        assert page.all("Cookie") == ["a=1"]
        assert page.all("X-Both") == ["old"]
        for name, text in filler:
            assert check.all(name) == page.all(name) == [text]


def test_headers_in_all_deleted(ruby: Site) -> None:
    """Even the last one goes, and others can follow."""
    nginx = ruby.start(
        content("""
            h = Nginx::Headers_in.new
            h.all.keys.each { |name| h.delete(name) if name != "Connection" }
            30.times { |i| h["X-#{i}"] = i }
            20.times { |i| h.delete("X-#{i}") }
            h["X-Last"] = "1"
            Nginx.rputs h.all.inspect
            v = Nginx::Var.new
            Nginx.rputs [v.http_host, v.http_user_agent, v.cookie_a, v.http_x_25].inspect
        """)
    )
    headers = {"Host": "h", "User-Agent": "me", "Cookie": "a=1"}
    text = nginx.get("/ruby", headers).text
    for n in range(20, 30):
        assert f'"X-{n}"=>"{n}"' in text
    assert '"X-19"' not in text
    assert '"X-Last"=>"1"' in text
    assert '"Host"' not in text
    assert '"25"]' in text


def test_headers_out(ruby: Site) -> None:
    """Set, replaced, several, deleted."""
    nginx = ruby.start(
        content("""
            h = Nginx::Request.new.headers_out
            h["X-A"] = "1"
            h["x-a"] = "2"
            h["X-B"] = ["1", 2]
            h["X-C"] = "c"
            h["X-C"] = nil
            h["X-D"] = "d"
            h.delete("X-D")
            h["Cache-Control"] = "max-age=1"
            h["Cache-Control"] = "max-age=2"
            h["Content-Type"] = "text/css"
            Nginx.echo [h["X-A"], h["X-B"], h["X-C"], h["Content-Type"]].inspect
            Nginx.echo h.all.inspect
        """)
    )
    answer = nginx.get("/ruby")
    first, second = answer.text.splitlines()
    assert first == '["2", ["1", "2"], nil, "text/css"]'
    assert second == (
        '{"x-a"=>"2", "X-B"=>["1", "2"], "Cache-Control"=>"max-age=2",'
        ' "Content-Type"=>"text/css"}'
    )
    assert answer.header("X-A") == "2"
    assert answer.all("X-B") == ["1", "2"]
    assert answer.all("X-C") == answer.all("X-D") == []
    assert answer.header("Cache-Control") == "max-age=2"
    assert answer.header("Content-Type") == "text/css"


def test_headers_out_that_nginx_has(ruby: Site) -> None:
    """Server, Date, ETag and Last-Modified are in the answer once."""
    nginx = ruby.start(
        content("""
            h = Nginx::Headers_out.new
            h["Server"] = "ruby"
            h["Date"] = "Thu, 01 Jan 1970 00:00:00 GMT"
            h["ETag"] = '"x"'
            h["Last-Modified"] = "Thu, 01 Jan 2015 00:00:00 GMT"
            h["Expires"] = "0"
            h["Location"] = "/x"
            h["WWW-Authenticate"] = "Basic"
            Nginx.rputs "x"
        """)
    )
    answer = nginx.get("/ruby")
    assert answer.header("Server") == "ruby"
    assert answer.header("Date") == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert answer.header("ETag") == '"x"'
    assert answer.header("Last-Modified") == "Thu, 01 Jan 2015 00:00:00 GMT"
    assert answer.header("Expires") == "0"
    assert answer.header("WWW-Authenticate") == "Basic"
    conditional = nginx.get("/ruby", {"If-None-Match": '"x"'})
    assert conditional.status == 304


LINES = {
    "Cache-Control": ["private", "max-age=60", "no-transform"],
    "Link": ["</a.css>; rel=preload", "</b.js>; rel=preload"],
    "Set-Cookie": ["a=1; Path=/", "b=2"],
    "Vary": ["Accept", "Accept-Language"],
    "WWW-Authenticate": ["Negotiate", 'Basic realm="a"'],
}


@pytest.mark.parametrize("name", LINES)
def test_headers_out_array_sends_every_value(ruby: Site, name: str) -> None:
    """A line for each, in order, in place of those that were there before."""
    values = LINES[name]
    listed = ", ".join(f"'{v}'" for v in values)
    nginx = ruby.start(
        content(f"""
            h = Nginx::Headers_out.new
            h["{name}"] = "before"
            h["{name.upper()}"] = ["before", "too"]
            h["{name}"] = [{listed}]
            Nginx.rputs h["{name}"].inspect
        """)
    )
    answer = nginx.get("/ruby")
    assert answer.all(name) == values
    assert answer.text == "[" + ", ".join(repr_ruby(v) for v in values) + "]"


def repr_ruby(text: str) -> str:
    """Return what Ruby's inspect makes of plain text."""
    return '"' + text.replace('"', '\\"') + '"'


@pytest.mark.parametrize("name", ["Cache-Control", "Link"])
def test_headers_out_array_is_a_variable(ruby: Site, name: str) -> None:
    """What nginx reads of such a header is every line of it."""
    variable = "$sent_http_" + name.lower().replace("-", "_")
    nginx = ruby.start(
        f"add_header X-Sent {variable};"
        + content(f'Nginx::Headers_out.new["{name}"] = ["a", "b"]; Nginx.rputs "x"')
        + content(
            f'h = Nginx::Headers_out.new; h["{name}"] = ["a", "b"]; h.delete("{name}");'
            ' Nginx.rputs "x"',
            "/deleted",
        )
    )
    assert nginx.get("/ruby").header("X-Sent") == "a, b"
    deleted = nginx.get("/deleted")
    assert deleted.all(name) == []
    assert deleted.header("X-Sent") is None


def test_headers_out_cache_control_and_expires(ruby: Site) -> None:
    """The directive "expires" replaces every line, add_header adds one."""
    code = 'Nginx::Headers_out.new["Cache-Control"] = ["private", "max-age=60"];'
    nginx = ruby.start(
        content(f'{code} Nginx.rputs "x"').replace("{ ", "{ expires 5s; ", 1)
        + content(f'{code} Nginx.rputs "x"', "/more").replace(
            "{ ", "{ add_header Cache-Control no-transform; ", 1
        )
    )
    assert nginx.get("/ruby").all("Cache-Control") == ["max-age=5"]
    assert nginx.get("/more").all("Cache-Control") == [
        "private",
        "max-age=60",
        "no-transform",
    ]


def test_headers_out_array_and_satisfy_any(ruby: Site) -> None:
    """Who is let in is not asked to authenticate himself."""
    nginx = ruby.start(
        """
        location /ruby {
            satisfy any;
            mruby_access_handler_code '
                Nginx::Headers_out.new["WWW-Authenticate"] = ["Negotiate", "Basic"]
                Nginx.return 401
            ';
            auth_basic "files";
            auth_basic_user_file %%DIR%%/passwords;
            mruby_content_handler_code 'Nginx.rputs "x"';
        }
        """
    )
    (ruby.directory / "passwords").write_text("a:{PLAIN}b\n")
    refused = nginx.get("/ruby")
    assert refused.status == 401
    key = base64.b64encode(b"a:b").decode()
    answer = nginx.get("/ruby", {"Authorization": f"Basic {key}"})
    assert answer.status == 200
    if ruby.flavour.version >= (1, 23):
        assert answer.all("WWW-Authenticate") == []


@pytest.mark.parametrize("side", ["hi", "ho"])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("X-A", "a\\r\\nX-Evil: 1", "control byte in header value"),
        ("X-A", "a\\n b", "control byte in header value"),
        ("X-A", "a\\0b", "control byte in header value"),
        ("X-A\\r\\nX-Evil", "1", "invalid header name"),
        ("X-A: b", "1", "invalid header name"),
        ("X A", "1", "invalid header name"),
        ("", "1", "empty header name"),
        ("Content-Length", "0", "is set by nginx itself"),
        ("transfer-encoding", "chunked", "is set by nginx itself"),
        ("Connection", "close", "is set by nginx itself"),
    ],
)
def test_header_injection(
    ruby: Site, side: str, name: str, text: str, message: str
) -> None:
    """Neither a name nor a value can end a line, nor a header a message."""
    assert message in error(ruby, f'{side}["{name}"] = "{text}"')
    assert message in error(ruby, f'{side}["{name}"] = ["ok", "{text}"]')


@pytest.mark.parametrize(
    "code",
    [
        'r.content_type = "text/html\\r\\nX-Evil: 1"',
        'Nginx.redirect "http://a/\\r\\nX-Evil: 1"',
    ],
)
def test_injection_by_other_ways(ruby: Site, code: str) -> None:
    """A type and a redirect are headers as well."""
    assert "control byte in header value" in error(ruby, code)


@pytest.mark.parametrize(
    "code",
    [
        'Nginx.redirect "/app?u=" + r.uri',
        "Nginx::Var.new.args = r.uri",
        'Nginx::Var.new.set("ARGS", r.uri)',
        "r.args = r.uri",
    ],
)
@pytest.mark.parametrize("byte", ["%0d%0aX-Evil:%201", "%20HTTP/1.0", "%7f"])
def test_injection_into_the_line_of_a_request(ruby: Site, code: str, byte: str) -> None:
    """Arguments have neither spaces nor control bytes."""
    nginx = ruby.start(
        content(f"r = Nginx::Request.new; {code}", "/")
        + "location /app { proxy_pass http://%%APP%%; }"
    )
    before = len(ruby.app.requests)
    assert nginx.get(f"/a{byte}").status == 500
    (line,) = nginx.errors()
    assert "space or control byte in arguments" in line
    assert len(ruby.app.requests) == before


def test_injection_from_the_client(ruby: Site) -> None:
    """What a client has sent percent-encoded stays one line."""
    nginx = ruby.start(
        content("Nginx::Headers_out.new['X-Uri'] = Nginx::Request.new.uri", "/")
    )
    answer = nginx.get("/a%0d%0aX-Evil:%201")
    assert answer.status == 500
    assert answer.header("X-Evil") is None


# Utils


def test_utils_encode_and_decode_percent(ruby: Site) -> None:
    """Percent-encoding."""
    code = "Nginx::Utils.escape('a b/\u00fc~-._Z')"
    assert value(ruby, code) == '"a%20b%2F%C3%BC~-._Z"'
    code = "Nginx::Utils.encode_parameters({ 'a' => 'x y', :b => 1 })"
    assert value(ruby, code) == '"a=x%20y&b=1"'
    code = "Nginx::Utils.encode_parameters({ 'a' => 'b' }, ', ', '\"')"
    assert value(ruby, code) == r'"a=\"b\""'
    code = "Nginx::Utils.encode_parameters(%w[a b], nil)"
    assert value(ruby, code) == '["a", "b"]'


# arguments


@pytest.mark.parametrize(
    "call",
    [
        *(
            "Nginx.rputs",
            "Nginx.echo",
            "Nginx.return",
            "Nginx.return 'x'",
            "Nginx.log 1",
        ),
        *("Nginx.log 'x', 'y'", "Nginx.redirect", "Nginx.redirect 5", "r.uri = 5"),
        *("r.args = nil", "r.content_type = 1", "hi['a', 'b']", "hi[5]", "hi[5] = 1"),
        *("ho.delete", "ho[nil]", "r.var.exist?", "r.var.exist? 5", "r.var.set 'x'"),
        *("r.headers_in(1)", "Nginx::Connection.new.remote_ip(1)", "hi.all(1)"),
    ],
)
def test_wrong_arguments(ruby: Site, call: str) -> None:
    """Each is an exception of Ruby's, and the worker's business goes on."""
    assert re.match(r"(Argument|Type)Error: ", error(ruby, call))


def test_garbage_collection_under_way(ruby: Site) -> None:
    """A collection at every step takes nothing away that is in use."""
    nginx = ruby.start(
        content("""
            r = Nginx::Request.new
            200.times do |i|
              GC.start
              h = r.headers_in.all
              r.headers_out["X-#{i % 7}"] = "v" * i
              x = [r.uri, r.args, r.var.host, h.keys.join(",")].join("|")
              GC.start
              raise x unless x.include?("/ruby|") && x.include?("localhost")
            end
            Nginx.rputs r.headers_out.all.size
        """)
    )
    for _ in range(3):
        assert nginx.get("/ruby?abc=1").body == b"7"
