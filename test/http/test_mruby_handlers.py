"""Ruby's handlers: what runs, when, and what becomes of what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lib.ruby import content, load_ruby, quoted
from lib.site import Site
from lib.wait import wait_until


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


HELLO = """
    Nginx.rputs "hello ngx_mruby world!"
    Nginx.return Nginx::NGX_HTTP_OK
"""


def script(site: Site, name: str, code: str) -> Path:
    """Write a file of Ruby that the workers can read."""
    path = site.directory / name
    path.write_text(code)
    path.chmod(0o644)
    return path


# content


def test_hello(ruby: Site) -> None:
    """The hello world of ngx_mruby."""
    nginx = ruby.start(content(HELLO, "/mruby"))
    answer = nginx.get("/mruby")
    assert (answer.status, answer.body) == (200, b"hello ngx_mruby world!")
    assert answer.header("Content-Length") == "22"
    assert answer.header("Content-Type") == "application/x-unknown"
    again = nginx.get("/mruby")
    assert again.body == b"hello ngx_mruby world!"


def test_head_has_no_body(ruby: Site) -> None:
    """HEAD has the headers of GET."""
    nginx = ruby.start(content(HELLO))
    answer = nginx.head("/ruby")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("Content-Length") == "22"


def test_output_of_many_pieces(ruby: Site) -> None:
    """What is put out bit by bit arrives whole and in order."""
    nginx = ruby.start(
        content('2000.times { |i| Nginx.echo i; Nginx.rputs "x" * (i % 50) }')
    )
    want = "".join(f"{i}\n{'x' * (i % 50)}" for i in range(2000)).encode()
    answer = nginx.get("/ruby")
    assert answer.body == want
    assert answer.header("Content-Length") == str(len(want))


def test_bytes_are_bytes(ruby: Site) -> None:
    """NUL and high bytes pass."""
    nginx = ruby.start(content('Nginx.rputs [0, 255, 10, 128].pack("C*")'))
    assert nginx.get("/ruby").body == b"\0\xff\n\x80"


def test_no_output_is_an_empty_answer(ruby: Site) -> None:
    """A script that says nothing has answered with nothing."""
    nginx = ruby.start(content("1 + 1"))
    answer = nginx.get("/ruby")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("Content-Length") == "0"


def test_status_without_output_is_nginx_page(ruby: Site) -> None:
    """A status alone is answered as nginx answers it, by error_page as well."""
    nginx = ruby.start(
        content("Nginx.return 403")
        + content("Nginx.return 404", "/other")
        + 'error_page 404 /page; location /page { return 200 "page"; }'
    )
    answer = nginx.get("/ruby")
    assert answer.status == 403
    assert b"403 Forbidden" in answer.body
    assert nginx.get("/other").body == b"page"


def test_status_with_output(ruby: Site) -> None:
    """What a script has put out goes with its status."""
    nginx = ruby.start(content('Nginx.rputs "gone for lunch"; Nginx.return 503'))
    answer = nginx.get("/ruby")
    assert (answer.status, answer.body) == (503, b"gone for lunch")


def test_no_content(ruby: Site) -> None:
    """204 has neither body nor length, whatever was put out."""
    nginx = ruby.start(content('Nginx.rputs "x"; Nginx.return 204'))
    answer = nginx.get("/ruby")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("Content-Length") is None


def test_declined_leaves_it_to_the_static_module(ruby: Site) -> None:
    """DECLINED: the next content handler, which sends the file."""
    ruby.html.write_id("ruby/1.dat", 1)
    nginx = ruby.start(content("Nginx.return Nginx::DECLINED", "/ruby/"))
    ruby.assert_file(nginx.get("/ruby/1.dat"), 1)


def test_error_is_500(ruby: Site) -> None:
    """Nginx::ERROR is a 500."""
    nginx = ruby.start(content("Nginx.return Nginx::ERROR"))
    assert nginx.get("/ruby").status == 500


def test_code_after_return_runs(ruby: Site) -> None:
    """Nginx.return sets the status; Ruby's return ends the script."""
    nginx = ruby.start(
        content('Nginx.return 201; Nginx.rputs "a"; return; Nginx.rputs "b"')
    )
    answer = nginx.get("/ruby")
    assert (answer.status, answer.body) == (201, b"a")


@pytest.mark.parametrize("status", [-2, -3, -4, -6, 0.5, 99, 100, 199, 600, 99999])
def test_no_status(ruby: Site, status: float) -> None:
    """What is no status is an ArgumentError, or 500; nothing hangs."""
    nginx = ruby.start(content(f"Nginx.return {status}"))
    if status == 0.5:
        assert nginx.get("/ruby").status == 200
        return
    assert nginx.get("/ruby").status == 500
    assert "is no status to return" in nginx.wait_for_log("ArgumentError")


def test_post_has_its_body(ruby: Site) -> None:
    """The body has been read when the script runs, from memory or a file."""
    nginx = ruby.start(
        "client_max_body_size 4m; mruby_limits memory=32m;"
        + content("r = Nginx::Request.new; Nginx.rputs r.body; Nginx.echo r.method")
    )
    for size in (1, 1000, 300_000, 3_000_000):
        body = os.urandom(16) * (size // 16 + 1)
        answer = nginx.post("/ruby", body)
        assert answer.body == body + b"POST\n", size


def test_body_in_chunks(ruby: Site) -> None:
    """A chunked body, sent late."""
    nginx = ruby.start(content("Nginx.rputs Nginx::Request.new.body.inspect"))
    with nginx.connect() as connection:
        connection.send(
            b"POST /ruby HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n3\r\nabc\r\n"
        )
        connection.send(b"3\r\ndef\r\n0\r\n\r\n")
        assert b'"abcdef"' in connection.read_to_end()


def test_keepalive_after_each_kind_of_answer(ruby: Site) -> None:
    """One connection serves all of them, one after the other."""
    nginx = ruby.start(
        content(HELLO, "/a")
        + content("Nginx.return 404", "/c")
        + content("Nginx.redirect '/a'", "/d")
        + content("Nginx.return 204", "/e")
    )
    with nginx.connect() as connection:
        for path in "acdea":
            connection.send(f"GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status = connection.read_response().status
            assert status == {"c": 404, "e": 204}.get(path, 200)


def test_body_of_a_request_that_is_answered_at_once(ruby: Site) -> None:
    """It is not the connection's next request."""
    nginx = ruby.start(
        "location /a { mruby_access_handler_code 'Nginx.return 204'; }"
        "location /b { mruby_access_handler_code"
        " 'Nginx.rputs \"no\"; Nginx.return 403'; }"
        "location /c { mruby_access_handler_code 'Nginx.return 403'; }"
        + content("Nginx.return 204", "/d")
        + 'location /next { return 200 "next"; }'
        + 'location /smuggled { return 200 "smuggled"; }'
    )
    body = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    head = "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n"
    for path in ("/a", "/b", "/c", "/d"):
        with nginx.connect() as connection:
            connection.send(head.format(path, len(body)).encode() + body)
            assert connection.read_response().status in (204, 403)
            connection.send(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.read_response().body == b"next", path
    assert not nginx.access_entries("/smuggled")


def test_if_in_location(ruby: Site) -> None:
    """A handler in an "if", and one that an "if" inherits."""
    nginx = ruby.start(
        """
        location /a {
            if ($arg_x) { mruby_content_handler_code 'Nginx.rputs "if"'; }
            return 200 "plain";
        }
        location /b {
            if ($arg_x) { add_header X-If 1; }
            mruby_content_handler_code 'Nginx.rputs "own"';
        }
        """.replace('return 200 "plain";', "")
    )
    assert nginx.get("/a?x=1").body == b"if"
    answer = nginx.get("/b?x=1")
    assert (answer.body, answer.header("X-If")) == (b"own", "1")


def test_subrequest(ruby: Site) -> None:
    """A script answers a subrequest, and knows it."""
    if not ruby.flavour.built_with("http_addition_module"):
        pytest.fail("no addition module in this nginx")
    nginx = ruby.start(
        content("Nginx.rputs Nginx::Request.new.sub_request?.to_s", "/part")
        + 'location /page { default_type text/html; add_after_body /part; return 200 "x"; }'
        + "location /auth { auth_request /check; root %%HTML%%; }"
        + content("Nginx.return(Nginx::Request.new.sub_request? ? 403 : 200)", "/check")
    )
    ruby.html.write_id("index.html", 1)
    assert nginx.get("/auth/x").status == 403
    assert nginx.get("/part").body == b"false"


# redirects


def test_redirect_to_a_url(ruby: Site) -> None:
    """To another server, with 302 or the status that is given."""
    nginx = ruby.start(
        content('Nginx.redirect "http://example.com/x"', "/a")
        + content('Nginx.redirect "https://example.com/y", 301', "/b")
        + content('Nginx.redirect "http://e.com/"; Nginx.redirect "/c"', "/d")
        + content('Nginx.rputs "c"', "/c")
    )
    for path, status, where in (
        ("/a", 302, "http://example.com/x"),
        ("/b", 301, "https://example.com/y"),
    ):
        answer = nginx.get(path)
        assert (answer.status, answer.header("Location")) == (status, where)
    assert nginx.get("/d").body == b"c"


def test_redirect_inside(ruby: Site) -> None:
    """To a location, with the arguments or others, and to a named one."""
    nginx = ruby.start(
        content('Nginx.redirect "/to"', "/a")
        + content('Nginx.redirect "/to?z=1"', "/b")
        + content('Nginx.redirect "@named"', "/c")
        + 'location /to { internal; return 200 "$uri?$args"; }'
        + 'location @named { return 200 "named $uri"; }'
    )
    assert nginx.get("/a?x=1").body == b"/to?x=1"
    assert nginx.get("/b?x=1").body == b"/to?z=1"
    assert nginx.get("/c").body == b"named /c"


def test_redirect_between_scripts(ruby: Site) -> None:
    """What the first one said is not the second one's."""
    nginx = ruby.start(
        content('Nginx.rputs "a"; Nginx.return 503; Nginx.redirect "/b"', "/a")
        + content('Nginx.rputs "b"', "/b")
    )
    answer = nginx.get("/a")
    assert (answer.status, answer.body) == (200, b"b")


def test_redirect_in_a_circle_ends(ruby: Site) -> None:
    """nginx ends it after ten rounds."""
    nginx = ruby.start(content('Nginx.redirect "/ruby"'))
    assert nginx.get("/ruby").status == 500


@pytest.mark.parametrize("to", ["", "x", "ftp://a/", "javascript:alert(1)"])
def test_redirect_to_nowhere(ruby: Site, to: str) -> None:
    """Anything else is an error of the script's."""
    nginx = ruby.start(content(f'Nginx.redirect "{to}"'))
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log("ArgumentError: a redirect goes to")


def test_redirect_out_of_the_root(ruby: Site) -> None:
    """A ".." in an internal redirect is not followed."""
    nginx = ruby.start(content('Nginx.redirect "/../../etc/passwd"'))
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log("unsafe URI")


# access


def test_access(ruby: Site) -> None:
    """A status ends the request; without one it goes on."""
    ruby.html.write_id("a/1.dat", 1)
    code = "Nginx.return 403 if Nginx::Request.new.headers_in['X-Secret'] != 'sesame'"
    nginx = ruby.start(
        f"location /a/ {{ mruby_access_handler_code '{quoted(code)}'; }}"
    )
    assert nginx.get("/a/1.dat").status == 403
    ruby.assert_file(nginx.get("/a/1.dat", {"X-Secret": "sesame"}), 1)


def test_access_is_inherited(ruby: Site) -> None:
    """From http and server, but for a location that has one itself."""
    nginx = ruby.start(
        """
        location /a { return 204; }
        location /b { root %%HTML%%; }
        location /c { root %%HTML%%; mruby_access_handler_code "Nginx.return 402"; }
        """,
        http="mruby_access_handler_code 'Nginx.return 401';",
    )
    assert nginx.get("/b").status == 401
    assert nginx.get("/c").status == 402


def test_access_with_satisfy_any(ruby: Site) -> None:
    """A script that does not refuse lets in; DECLINED leaves it to the others."""
    ruby.html.write_id("a/1.dat", 1)
    ruby.html.write_id("b/1.dat", 1)
    nginx = ruby.start(
        """
        location /a/ { satisfy any; deny all; mruby_access_handler_code "1"; }
        location /b/ {
            satisfy any;
            deny all;
            mruby_access_handler_code "Nginx.return Nginx::DECLINED";
        }
        """
    )
    assert nginx.get("/a/1.dat").status == 200
    assert nginx.get("/b/1.dat").status == 403


def test_access_answers(ruby: Site) -> None:
    """An access handler may answer, or redirect, itself."""
    code = 'Nginx.rputs "closed"; Nginx.return 503'
    to = 'Nginx.redirect "/c"'
    nginx = ruby.start(
        f"location /a {{ mruby_access_handler_code '{code}'; }}"
        f"location /b {{ mruby_access_handler_code '{to}'; }}"
        'location /c { return 200 "c"; }'
    )
    answer = nginx.get("/a")
    assert (answer.status, answer.body) == (503, b"closed")
    assert nginx.get("/b").body == b"c"


def test_access_that_fails_lets_nobody_in(ruby: Site) -> None:
    """An exception is a 500."""
    ruby.html.write_id("a/1.dat", 1)
    nginx = ruby.start("location /a/ { mruby_access_handler_code 'raise'; }")
    assert nginx.get("/a/1.dat").status == 500


def test_access_then_content(ruby: Site) -> None:
    """Headers that the one sets the other sends."""
    nginx = ruby.start(
        """
        location /ruby {
            mruby_access_handler_code '
              Nginx::Request.new.headers_in["X-Internal"] = "hoge"
              Nginx::Headers_out.new["X-Access"] = "1"
            ';
            mruby_content_handler_code '
              Nginx.rputs Nginx::Request.new.headers_in["X-Internal"]
            ';
        }
        """
    )
    answer = nginx.get("/ruby")
    assert (answer.body, answer.header("X-Access")) == (b"hoge", "1")


# set


def test_set(ruby: Site) -> None:
    """The last value of the script is the variable's."""
    nginx = ruby.start(
        """
        location /a { mruby_set_code $x '"a" + Nginx::Request.new.args'; return 200 $x; }
        location /b { mruby_set_code $x '40 + 2'; return 200 $x; }
        location /c { mruby_set_code $x 'nil'; return 200 "[$x]"; }
        location /d { mruby_set_code $x ':sym'; return 200 $x; }
        location /e { return 200 "[$x]"; }
        """
    )
    for path, want in (
        ("/a?b", b"ab"),
        ("/b", b"42"),
        ("/c", b"[]"),
        ("/d", b"sym"),
        ("/e", b"[]"),
    ):
        assert nginx.get(path).body == want


def test_set_in_order_with_set_and_if(ruby: Site) -> None:
    """It runs where it stands, among "set" and "if"."""
    nginx = ruby.start(
        """
        mruby_set_code $s '"server"';
        location /a {
            set $one 1;
            mruby_set_code $two 'v = Nginx::Var.new; v.one + "2"';
            set $three "${two}3";
            if ($three = 123) { return 200 "$three $s"; }
            return 404;
        }
        """
    )
    assert nginx.get("/a").body == b"123 server"


def test_set_that_fails_is_500(ruby: Site) -> None:
    """The request ends there; the location's return does not run."""
    nginx = ruby.start("location /a { mruby_set_code $x 'nope'; return 200 $x; }")
    assert nginx.get("/a").status == 500
    line = nginx.wait_for_log("NoMethodError")
    assert "undefined method 'nope'" in line


def test_set_from_a_file(ruby: Site) -> None:
    """mruby_set takes the value of a file."""
    path = script(ruby, "set.rb", "Nginx::Request.new.uri.upcase\n")
    nginx = ruby.start(f"location /a {{ mruby_set $x {path}; return 200 $x; }}")
    assert nginx.get("/abc").body == b"/ABC"


# files


def test_content_from_a_file(ruby: Site) -> None:
    """A file is read anew when it has changed."""
    path = script(ruby, "a.rb", "Nginx.rputs 'one'\n")
    nginx = ruby.start(f"location /a {{ mruby_content_handler {path}; }}")
    assert nginx.get("/a").body == b"one"
    script(ruby, "a.rb", "Nginx.rputs 'two'  \n")
    assert nginx.get("/a").body == b"two"
    new = script(ruby, "b.rb", "Nginx.rputs 'new'  \n")
    new.replace(path)
    assert nginx.get("/a").body == b"new"


def test_content_from_a_cached_file(ruby: Site) -> None:
    """With "cache" it is that of the configuration until the next reload."""
    path = script(ruby, "a.rb", "Nginx.rputs 'one'\n")
    nginx = ruby.start(f"location /a {{ mruby_content_handler {path} cache; }}")
    script(ruby, "a.rb", "Nginx.rputs 'two and more'\n")
    assert nginx.get("/a").body == b"one"
    nginx.reload()
    assert nginx.get("/a").body == b"two and more"


def test_file_that_becomes_bad(ruby: Site) -> None:
    """A syntax error, or no file, is a 500 until it is mended."""
    path = script(ruby, "a.rb", "Nginx.rputs 'one'\n")
    nginx = ruby.start(f"location /a {{ mruby_content_handler {path}; }}")
    assert nginx.get("/a").body == b"one"
    script(ruby, "a.rb", "\nNginx.rputs (\n")
    assert nginx.get("/a").status == 500
    nginx.wait_for_log(r"mruby: \S+/a\.rb:3: syntax error")
    path.unlink()
    assert nginx.get("/a").status == 500
    nginx.wait_for_log(r"a\.rb\" failed \(2: ")
    script(ruby, "a.rb", "Nginx.rputs 'well'\n")
    assert nginx.get("/a").body == b"well"


def test_file_of_the_prefix(ruby: Site) -> None:
    """A relative path is below nginx's prefix."""
    script(ruby, "a.rb", "Nginx.rputs __FILE__\n")
    nginx = ruby.start("location /a { mruby_content_handler a.rb; }")
    assert nginx.get("/a").body == f"{ruby.directory}/a.rb".encode()


# init


def test_init(ruby: Site) -> None:
    """Once in each worker, before its requests: first init, then init_worker."""
    path = script(ruby, "init.rb", "$order = ['init']\ndef helper(n)\n  n * 2\nend\n")
    nginx = ruby.start(
        content("Nginx.rputs $order.join(' '), Nginx.rputs(helper(21))")
        .replace("), Nginx", "); Nginx")
        .replace("join(\\' \\')", 'join(" ")'),
        http=f"mruby_init {path}; mruby_init_worker_code '$order << \"worker\"';",
        main="worker_processes 1;".replace("worker_processes 1;", ""),
    )
    assert nginx.get("/ruby").body == b"init worker42"


def test_init_worker_from_a_file(ruby: Site) -> None:
    """And init from code."""
    path = script(ruby, "worker.rb", "$a += 1\n")
    nginx = ruby.start(
        content("Nginx.rputs $a"),
        http=f"mruby_init_code '$a = 41'; mruby_init_worker {path};",
    )
    assert nginx.get("/ruby").body == b"42"


def test_init_that_fails_is_logged(ruby: Site) -> None:
    """The worker serves nevertheless."""
    nginx = ruby.start(content(HELLO), http="mruby_init_code 'raise \"early\"';")
    nginx.wait_for_log(r"RuntimeError: early, at \S+nginx\.conf:\d+")
    assert nginx.get("/ruby").status == 200


def test_init_has_no_request(ruby: Site) -> None:
    """What needs one raises."""
    nginx = ruby.start(
        content("Nginx.rputs $said"),
        http="""mruby_init_code '
            begin
              Nginx.rputs "x"
            rescue RuntimeError => e
              $said = e.message
            end
        ';""",
    )
    assert nginx.get("/ruby").body == b"there is no request here"


def test_globals_stay_in_the_worker(ruby: Site) -> None:
    """Global variables, constants and methods are the worker's; locals are not."""
    nginx = ruby.start(
        content(
            "$n = ($n || 0) + 1; x = ($n == 1) ? 1 : x; Nginx.rputs [$n, x].inspect"
        )
    )
    assert nginx.get("/ruby").body == b"[1, 1]"
    assert nginx.get("/ruby").body == b"[2, nil]"


def test_each_worker_has_a_vm(ruby: Site) -> None:
    """Two workers count for themselves."""
    ruby.variables["WORKERS"] = "2"
    nginx = ruby.start(
        content("$n = ($n || 0) + 1; Nginx.rputs Nginx::Var.new.pid + ' ' + $n.to_s")
    )
    seen: dict[bytes, list[int]] = {}

    def both() -> bool:
        pid, n = nginx.get("/ruby").body.split()
        seen.setdefault(pid, []).append(int(n))
        return len(seen) == 2

    wait_until(both, what="an answer of both workers")
    for counts in seen.values():
        assert counts == list(range(1, len(counts) + 1))


def test_reload_brings_new_scripts_and_new_vms(ruby: Site) -> None:
    """New workers have new scripts and new VMs."""
    nginx = ruby.start(content("$n = ($n || 0) + 1; Nginx.rputs $n"))
    assert [nginx.get("/ruby").body for _ in range(2)] == [b"1", b"2"]
    nginx.reload(ruby.template(content("$n = ($n || 9) + 1; Nginx.rputs $n")))
    assert [nginx.get("/ruby").body for _ in range(2)] == [b"10", b"11"]
