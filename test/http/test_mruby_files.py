"""Ruby for files: keys by mruby_set, and http_sendfile_ruby after the lookup."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.async_store import slow, use_test_store
from lib.backend import Reply
from lib.nginx import Nginx
from lib.ruby import load_ruby, quoted
from lib.site import Site


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby; delivery by redirect."""
    load_ruby(site)
    site.variables.setdefault("DELIVER", "")
    return site


def files(code: str, more: str = "") -> str:
    """Return locations of files that a script decides on."""
    return (
        f"location /file/ {{ http_sendfile on; %%DELIVER%% {more}"
        f" http_sendfile_ruby_code '{quoted(code)}'; }} %%INTERNAL%%"
    )


# variables


def test_key_by_set(ruby: Site, delivery: str) -> None:
    """http_sendfile_key can be the work of a script."""
    ruby.add(1042)
    nginx = ruby.start(
        """
        location /file/ {
            http_sendfile on;
            %%DELIVER%%
            mruby_set_code $key 'Nginx::Var.new.sendfile_id.to_i + 1000';
            http_sendfile_key $key;
        }
        %%INTERNAL%%
        """
    )
    ruby.assert_file(nginx.get("/file/42"), 1042)
    assert nginx.logged("/file/42").key == "1042"
    assert nginx.get("/file/43").status == 404


def test_prefix_by_set(ruby: Site) -> None:
    """So can the prefix: IDs below 100 lie elsewhere."""
    ruby.add(7)
    ruby.add(700)
    nginx = ruby.start(
        """
        location /file/ {
            http_sendfile on;
            mruby_set_code $disk 'Nginx::Var.new.sendfile_id.to_i < 100 ? "a" : "b"';
            http_sendfile_prefix /disk/$disk/;
        }
        location ^~ /disk/a/ { internal; alias %%FILES%%/; add_header X-Disk a; }
        location ^~ /disk/b/ { internal; alias %%FILES%%/; add_header X-Disk b; }
        """
    )
    for file_id, disk in ((7, "a"), (700, "b")):
        answer = ruby.assert_file(nginx.get(f"/file/{file_id}"), file_id)
        assert answer.header("X-Disk") == disk


def test_root_by_set(ruby: Site) -> None:
    """And the root of direct delivery."""
    ruby.add(7)
    nginx = ruby.start(
        """
        location /file/ {
            http_sendfile on;
            mruby_set_code $disk '"/fi" + "les"';
            http_sendfile_root %%DIR%%$disk;
        }
        """
    )
    ruby.assert_file(nginx.get("/file/7"), 7)


def test_set_that_fails(ruby: Site) -> None:
    """A key whose script fails is a 500, and no lookup."""
    ruby.add(7)
    nginx = ruby.start(
        """
        location /file/ {
            http_sendfile on;
            mruby_set_code $key 'loop { }';
            http_sendfile_key $key;
        }
        """
    )
    assert nginx.get("/file/7").status == 500
    assert nginx.logged("/file/7").status == "-"


def test_a_key_is_checked(ruby: Site) -> None:
    """What a script makes is a key like any other: no spaces, no control bytes."""
    nginx = ruby.start(
        """
        location /file/ {
            http_sendfile on;
            mruby_set_code $key '"a b\\\\0c\\\\r\\\\nget x"';
            http_sendfile_key $key;
        }
        """
    )
    assert nginx.get("/file/7").status == 404
    assert nginx.logged("/file/7").status == "INVALID"


# after the lookup


def test_unchanged(ruby: Site, delivery: str) -> None:
    """A script that only looks changes nothing."""
    ruby.add(7)
    code = "Nginx::Headers_out.new['X-Path'] = Sendfile.record.path"
    nginx = ruby.start(files(code))
    answer = ruby.assert_file(nginx.get("/file/7"), 7)
    assert answer.header("X-Path") == "aa/7.dat"


def test_what_it_sees(ruby: Site) -> None:
    """All there is of a record."""
    ruby.add(
        7,
        type="text/x-a",
        name="a.txt",
        disposition="attachment",
        headers={"Cache-Control": "max-age=5", "ETag": '"e"'},
    )
    ruby.add(8)
    code = """
        r = Sendfile.record
        Nginx.log Nginx::LOG_NOTICE, [Sendfile.id, Sendfile.key, r.path, r.type,
                                      r.name, r.disposition, r.headers].inspect
    """
    nginx = ruby.start(files(code, "http_sendfile_key $sendfile_id;"))
    ruby.assert_file(nginx.get("/file/7"), 7)
    line = nginx.wait_for_log(r'\["7"')
    assert (
        '["7", "7", "aa/7.dat", "text/x-a", "a.txt", "attachment",'
        ' {"Cache-Control"=>"max-age=5", "ETag"=>"\\"e\\""}]'
    ) in line
    ruby.assert_file(nginx.get("/file/8"), 8)
    line = nginx.wait_for_log(r'\["8"')
    assert '["8", "8", "aa/8.dat", nil, nil, nil, {}]' in line


def test_what_it_changes(ruby: Site, delivery: str) -> None:
    """Another file, with another type, name and headers."""
    ruby.add(7)
    ruby.files.write_id("bb/8.dat", 8)
    code = """
        r = Sendfile.record
        r.path = "bb/8.dat"
        r.type = "text/x-b"
        r.name = "b.txt"
        r.disposition = "attachment"
        r.headers["Cache-Control"] = "max-age=7"
        r.headers["Vary"] = "Accept"
    """
    nginx = ruby.start(files(code))
    answer = ruby.assert_file(nginx.get("/file/7"), 8)
    assert answer.header("Content-Type") == "text/x-b"
    assert answer.header("Content-Disposition") == 'attachment; filename="b.txt"'
    assert answer.header("Cache-Control") == "max-age=7"
    assert answer.header("Vary") == "Accept"
    assert nginx.logged("/file/7").target.endswith("bb/8.dat")


def test_what_it_takes_away(ruby: Site) -> None:
    """nil is none."""
    ruby.add(7, type="text/x-a", name="a.txt", headers={"ETag": '"e"'})
    code = """
        r = Sendfile.record
        r.type = r.name = nil
        r.disposition = nil
        r.headers = {}
    """
    nginx = ruby.start(files(code))
    answer = ruby.assert_file(nginx.get("/file/7"), 7)
    assert answer.header("Content-Type") == "application/octet-stream"
    assert answer.header("ETag") != '"e"'


def test_a_name_alone_is_inline(ruby: Site) -> None:
    """As in a record."""
    ruby.add(7)
    nginx = ruby.start(files('Sendfile.record.name = "\u00e4.txt"'))
    answer = ruby.assert_file(nginx.get("/file/7"), 7)
    said = answer.header("Content-Disposition")
    assert said is not None
    assert said.startswith("inline; ")
    assert "filename*=UTF-8''%C3%A4.txt" in said


PATHS = [
    *("../x", "/etc/passwd", "a/../../b", "a//b", "./a", "a/", "", "a\\0b", "a\\nb"),
    *("..", "aa/..", "a/./b", "\\x7f"),
]


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_checked(ruby: Site, delivery: str, path: str) -> None:
    """What a script says is no more than a record says."""
    ruby.add(7)
    nginx = ruby.start(files(f'Sendfile.record.path = "{path}"'))
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").status == "INVALID"
    nginx.wait_for_log(r'key "7" in lmdb:\S+: invalid record: ')


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (r'r.type = "a\r\nX: 1"', 'control byte in "type"'),
        (r'r.name = "a\r\nX: 1"', 'control byte in "name"'),
        (r'r.headers["ETag"] = "a\r\nX: 1"', "control byte in header value"),
        (r'r.headers["ETag\r\nX"] = "1"', "header not allowed"),
        ('r.headers["Content-Length"] = "1"', "header not allowed"),
        ('r.headers["Set-Cookie"] = "1"', "header not allowed"),
        ('r.headers = { "ETag" => "1", "etag" => "2" }', "header given twice"),
    ],
)
def test_the_rest_is_checked(ruby: Site, code: str, reason: str) -> None:
    """Nor can it break a header's line, or bring other headers."""
    ruby.add(7)
    nginx = ruby.start(files(f"r = Sendfile.record; {code}"))
    answer = nginx.get("/file/7")
    assert answer.status == 502
    assert answer.header("X") is None
    assert reason in nginx.wait_for_log("invalid record: ")


def test_symlinks_and_roots_hold(ruby: Site) -> None:
    """Direct delivery stays below its root whatever a script says."""
    ruby.add(7)
    outside = ruby.directory / "secret"
    outside.write_text("secret")
    (ruby.files.root / "link").symlink_to(outside)
    nginx = ruby.start(
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_ruby_code 'Sendfile.record.path = \"link\"'; }"
    )
    assert nginx.get("/file/7").status == 404


def test_refuse(ruby: Site, delivery: str) -> None:
    """403, or the status that is given; through error_page."""
    for file_id in (1, 2, 3):
        ruby.add(file_id)
    code = """
        Sendfile.refuse if Sendfile.id == "1"
        Sendfile.refuse 410 if Sendfile.id == "2"
    """
    nginx = ruby.start(
        files(code, "http_sendfile_fallback =500; error_page 410 /gone;")
        + 'location /gone { return 410 "gone"; }'
    )
    assert nginx.get("/file/1").status == 403
    answer = nginx.get("/file/2")
    assert (answer.status, answer.body) == (410, b"gone")
    ruby.assert_file(nginx.get("/file/3"), 3)
    entry = nginx.logged("/file/1")
    assert (entry.status, entry.reason) == ("HIT", "refused by script")
    nginx.wait_for_log(r'\[info\].*key "1" in lmdb:.*: refused by script, answered 403')


@pytest.mark.parametrize("code", [399, 200, 302, 408, 444, 499, 600])
def test_refuse_with_what_is_no_refusal(ruby: Site, code: int) -> None:
    """Only what a client can be told."""
    ruby.add(7)
    nginx = ruby.start(files(f"Sendfile.refuse {code}"))
    assert nginx.get("/file/7").status == 500
    nginx.wait_for_log("ArgumentError: .* is no status to refuse a file with")


def test_fallback(ruby: Site) -> None:
    """A named location or a URI of the script's choice."""
    for file_id in (1, 2, 3, 4):
        ruby.add(file_id)
    code = """
        Sendfile.fallback "@app" if Sendfile.id == "1"
        Sendfile.fallback = "/other" if Sendfile.id == "2"
        if Sendfile.id == "3"
          Sendfile.refuse
          Sendfile.fallback "@app"
        end
    """
    ruby.app.script = lambda request: Reply(200, [], b"app " + request.target.encode())
    nginx = ruby.start(
        files(code)
        + "location @app { proxy_pass http://%%APP%%; }"
        + 'location /other { internal; return 200 "other $args"; }'
    )
    assert nginx.get("/file/1?x=1").body == b"app /file/1?x=1"
    assert nginx.get("/file/2?x=1").body == b"other x=1"
    assert nginx.get("/file/3").body == b"app /file/3"
    ruby.assert_file(nginx.get("/file/4"), 4)
    assert nginx.logged("/file/1?x=1").source == "app"


def test_fallback_to_nowhere(ruby: Site) -> None:
    """Anything else raises."""
    ruby.add(7)
    nginx = ruby.start(files('Sendfile.fallback "app"'))
    assert nginx.get("/file/7").status == 500
    nginx.wait_for_log("ArgumentError: a fallback is a named location")


def test_script_that_fails(ruby: Site, delivery: str) -> None:
    """500: neither the file nor the fallback."""
    ruby.add(7)
    nginx = ruby.start(
        files("raise 'no'", "http_sendfile_fallback /app;")
        + 'location /app { return 200 "app"; }'
    )
    assert nginx.get("/file/7").status == 500
    nginx.wait_for_log("mruby: .*RuntimeError: no")


def test_not_without_a_record(ruby: Site) -> None:
    """A miss does not run it, and elsewhere there is no record."""
    nginx = ruby.start(
        files("raise 'no'")
        + "location /ruby { mruby_content_handler_code 'Sendfile.record'; }"
    )
    assert nginx.get("/file/7").status == 404
    assert not nginx.errors()
    assert nginx.get("/ruby").status == 500
    nginx.wait_for_log("RuntimeError: there is a record only in http_sendfile_ruby")


def test_from_a_file(ruby: Site) -> None:
    """http_sendfile_ruby, which is inherited."""
    ruby.add(7)
    path = Path(ruby.directory / "decide.rb")
    path.write_text("Sendfile.refuse 402\n")
    path.chmod(0o644)
    nginx = ruby.start(
        "location /file/ { http_sendfile on; } %%INTERNAL%%",
        http=f"http_sendfile_ruby {path};",
    )
    assert nginx.get("/file/7").status == 402


def test_with_the_cache(ruby: Site, delivery: str) -> None:
    """The cache keeps the store's record, and the script runs each time."""
    ruby.add(7)
    ruby.files.write_id("bb/8.dat", 8)
    code = 'Sendfile.record.path = "bb/8.dat" if Nginx::Request.new.args == "other"'
    nginx = ruby.start(
        files(code, "http_sendfile_cache c; http_sendfile_cache_body 32k;"),
        http="http_sendfile_cache_zone c:1m;",
    )
    for _ in range(3):
        ruby.assert_file(nginx.get("/file/7"), 7)
        ruby.assert_file(nginx.get("/file/7?other"), 8)
    assert nginx.logged("/file/7", 3).source == "cache"


def test_missing_file_of_a_script(ruby: Site) -> None:
    """A path that is not there is a missing file, from the cache as well."""
    ruby.add(7)
    nginx = ruby.start(
        "location /file/ { http_sendfile on; %%DIRECT%% http_sendfile_cache c;"
        " http_sendfile_ruby_code 'Sendfile.record.path = \"no/file\"'; }",
        http="http_sendfile_cache_zone c:1m;",
    )
    for n in range(1, 4):
        assert nginx.get("/file/7").status == 404
        assert nginx.logged("/file/7", n).reason.startswith("missing file")


def test_after_a_lookup_that_took_time(ruby: Site) -> None:
    """From the event loop, for several that wait for one lookup."""
    use_test_store(ruby)
    for file_id in (1, 2):
        ruby.add(file_id)
    code = quoted("Sendfile.refuse 402 if Nginx::Request.new.args == 'no'")
    nginx = ruby.start(
        slow("delay=30,value=aa/%.dat", f"http_sendfile_ruby_code '{code}';")
        + "%%INTERNAL%%"
    )
    connections = [nginx.connect() for _ in range(6)]
    for n, connection in enumerate(connections):
        connection.send_request("GET", f"/slow/1?{'no' if n % 2 else 'yes'}")
    for n, connection in enumerate(connections):
        with connection:
            answer = connection.read_response()
        if n % 2:
            assert answer.status == 402
        else:
            ruby.assert_file(answer, 1)


def test_head_and_range(ruby: Site, delivery: str) -> None:
    """A file that a script chose is a file like any other."""
    ruby.add(7)
    ruby.files.write_id("bb/8.dat", 8)
    nginx = ruby.start(files('Sendfile.record.path = "bb/8.dat"'))
    whole = ruby.assert_file(nginx.get("/file/7"), 8)
    part = nginx.get("/file/7", {"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole.body[10:20])
    assert nginx.head("/file/7").header("Content-Length") == str(len(whole.body))


def endings(nginx: Nginx) -> list[str]:
    """Return the errors that name a script."""
    return [line for line in nginx.errors() if "mruby:" in line]


def test_too_many_headers(ruby: Site) -> None:
    """As many as a record may have."""
    ruby.add(7)
    code = '(1..33).each { |i| Sendfile.record.headers["Access-Control-#{i}"] = "1" }'
    nginx = ruby.start(files(code))
    assert nginx.get("/file/7").status == 500
    assert "more than 32 headers" in endings(nginx)[0]
