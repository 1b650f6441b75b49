"""$sendfile_*: what they say in every outcome, in logs and headers."""

from __future__ import annotations

import re

import pytest

from lib.backend import Reply, Request
from lib.client import Response
from lib.nginx import LogEntry, Nginx
from lib.site import Site

NAMES = ("id", "key", "target", "lookup_time", "reason", "status", "source")

ADD_HEADERS = " ".join(
    f'add_header X-{name.replace("_", "-")} "<$sendfile_{name}>" always;'
    for name in NAMES
)

TIME = re.compile(r"\d+\.\d{3}")


def sent(response: Response) -> dict[str, str]:
    """Return what ADD_HEADERS made of the variables."""
    values = {}
    for name in NAMES:
        value = response.header(f"X-{name.replace('_', '-')}")
        assert value is not None
        assert value.startswith("<"), value
        assert value.endswith(">"), value
        values[name] = value[1:-1]
    return values


def outcome(entry: LogEntry) -> tuple[str, str, str, str]:
    """Return what tells outcomes apart: key, status, source, target."""
    return entry.key, entry.status, entry.source, entry.target


def assert_time(entry: LogEntry) -> None:
    """Check that the time of a lookup is logged in seconds and milliseconds."""
    assert TIME.fullmatch(entry.time), entry.time
    assert float(entry.time) < 5


FILE = "location /file/ { http_sendfile on; %%DELIVER%% } %%INTERNAL%% "
WITH_APP = (
    "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
    " location @app { proxy_pass http://%%APP%%; } %%INTERNAL%% "
)


def test_hit(site: Site, delivery: str) -> None:
    """HIT, from lmdb, with the path as stored."""
    site.add(297887)
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/297887?x=1"), 297887)
    entry = nginx.logged("/file/297887?x=1")
    assert entry.id == "297887"
    assert outcome(entry) == ("297887", "HIT", "lmdb", "aa/297887.dat")
    assert entry.reason == "-"
    assert_time(entry)


def test_hit_in_headers(site: Site, delivery: str) -> None:
    """The same in add_header, in the location that sends the file."""
    site.add(297887)
    nginx = site.start(ADD_HEADERS + FILE)
    values = sent(site.assert_file(nginx.get("/file/297887"), 297887))
    assert TIME.fullmatch(values.pop("lookup_time"))
    assert values == {
        "id": "297887",
        "key": "297887",
        "target": "aa/297887.dat",
        "reason": "",
        "status": "HIT",
        "source": "lmdb",
    }


def test_hit_of_a_record(site: Site, delivery: str) -> None:
    """The target is the record's path, as stored."""
    site.add(297887, "写真/a b%.dat", name="b.txt")
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.logged("/file/297887").target == "写真/a b%.dat"


def test_miss_has_its_reason(site: Site, delivery: str) -> None:
    """MISS, with the reason."""
    nginx = site.start(FILE)
    assert nginx.get("/file/1").status == 404
    entry = nginx.logged("/file/1")
    assert (entry.key, entry.status, entry.target) == ("1", "MISS", "-")
    assert entry.reason == "not in store"
    assert_time(entry)


def test_miss_in_headers(site: Site, delivery: str) -> None:
    """`add_header … always` shows it on the 404."""
    nginx = site.start(ADD_HEADERS + FILE)
    response = nginx.get("/file/1")
    assert response.status == 404
    values = sent(response)
    assert (values["status"], values["key"], values["target"]) == ("MISS", "1", "")


def test_miss_that_the_application_answers(site: Site, delivery: str) -> None:
    """The status stays MISS; the source is the application."""
    nginx = site.start(WITH_APP)
    assert nginx.get("/file/1").text == "app GET /file/1\n"
    entry = nginx.logged("/file/1")
    assert outcome(entry) == ("1", "MISS", "app", "-")
    assert entry.reason == "not in store"
    assert_time(entry)


def test_in_the_fallbacks_location(site: Site, delivery: str) -> None:
    """The fallback's location can tell the application what happened."""
    headers = " ".join(
        f"proxy_set_header X-{n.replace('_', '-')} $sendfile_{n};" for n in NAMES
    )
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% http_sendfile_fallback @app; }"
        f" location @app {{ {headers} proxy_pass http://%%APP%%; }} %%INTERNAL%%"
    )
    assert nginx.get("/file/1").text == "app GET /file/1\n"
    request = site.app.only_request()
    assert request.header("X-id") == "1"
    assert request.header("X-key") == "1"
    assert request.header("X-status") == "MISS"
    assert request.header("X-reason") == "not in store"
    assert request.header("X-target") is None


def test_after_a_fallback_uri(site: Site, delivery: str) -> None:
    """The ID is that of the request, not of the fallback's URI."""
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%%"
        " http_sendfile_fallback /app/777; }"
        " location /app/ { proxy_pass http://%%APP%%; } %%INTERNAL%%" + ADD_HEADERS
    )
    response = nginx.get("/file/1")
    assert response.text == "app GET /app/777\n"
    values = sent(response)
    assert (values["id"], values["key"], values["status"], values["source"]) == (
        "1",
        "1",
        "MISS",
        "app",
    )


def test_one_location(site: Site, delivery: str) -> None:
    """The location's own handler is the application, too."""
    site.add(2)
    nginx = site.start(
        "location /file { http_sendfile on; %%DELIVER%% proxy_pass http://%%APP%%; }"
        " %%INTERNAL%%"
    )
    assert nginx.get("/file/1").status == 200
    assert outcome(nginx.logged("/file/1")) == ("1", "MISS", "app", "-")
    site.assert_file(nginx.get("/file/2"), 2)
    assert nginx.logged("/file/2").source == "lmdb"


def test_other_method(site: Site, delivery: str) -> None:
    """BYPASS: the store was not asked."""
    site.add(1)
    nginx = site.start(WITH_APP)
    assert nginx.post("/file/1", b"x").text == "app POST /file/1\n"
    entry = nginx.logged("/file/1")
    assert outcome(entry) == ("1", "BYPASS", "app", "-")
    assert entry.time == "-"


def test_invalid_record(site: Site, delivery: str) -> None:
    """INVALID, with what is wrong with the record."""
    site.store.put(1, "../x")
    nginx = site.start(FILE)
    assert nginx.get("/file/1").status == 502
    entry = nginx.logged("/file/1")
    assert (entry.key, entry.status, entry.target) == ("1", "INVALID", "-")
    assert entry.reason == 'invalid record: ".." in path'
    assert_time(entry)


def test_invalid_key(site: Site) -> None:
    """INVALID, before any store is touched: no time."""
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_key $arg_k; } %%INTERNAL%%"
    )
    uri = f"/file/?k={'k' * 251}"
    assert nginx.get(uri).status == 404
    entry = nginx.logged(uri)
    assert outcome(entry) == ("k" * 251, "INVALID", "-", "-")
    assert entry.time == "-"
    assert entry.reason != "-"


def test_missing_file(site: Site) -> None:
    """The store had it: HIT; the reason says what the file lacks, with errno."""
    site.store.put(1, "aa/gone.dat")
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    assert nginx.get("/file/1").status == 404
    entry = nginx.logged("/file/1")
    assert (entry.key, entry.status, entry.target) == ("1", "HIT", "aa/gone.dat")
    assert entry.reason == "missing file (2: No such file or directory)"


def test_missing_file_after_a_redirect(site: Site) -> None:
    """There the module has done its part: HIT, and no reason."""
    site.store.put(1, "aa/gone.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; } %%INTERNAL%% error_page 404 /sorry;"
    )
    assert nginx.get("/file/1").status == 404
    entry = nginx.logged("/file/1")
    assert outcome(entry) == ("1", "HIT", "lmdb", "aa/gone.dat")
    assert entry.reason == "-"


def test_store_error(site: Site, delivery: str) -> None:
    """ERROR, with the store's words."""
    broken = site.directory / "broken.lmdb"
    broken.write_bytes(b"this is no database\n" * 1000)
    site.variables["LOOKUP"] = f"http_sendfile_lookup lmdb:{broken};"
    nginx = site.start(FILE)
    assert nginx.get("/file/1").status == 502
    entry = nginx.logged("/file/1")
    assert (entry.key, entry.status, entry.target) == ("1", "ERROR", "-")
    assert "LMDB" in entry.reason


def test_no_store_yet(site: Site, delivery: str) -> None:
    """A store that does not exist yet is a MISS with its own reason."""
    site.variables["LOOKUP"] = "http_sendfile_lookup lmdb:%%DIR%%/later;"
    nginx = site.start(FILE)
    assert nginx.get("/file/1").status == 404
    entry = nginx.logged("/file/1")
    assert (entry.status, entry.target) == ("MISS", "-")
    assert entry.reason == "no LMDB yet (2: No such file or directory)"


def test_declined(site: Site) -> None:
    """Without an ID all is empty."""
    site.html.write_id("file/list", 77)
    nginx = site.start(
        ADD_HEADERS + "location /file/ { http_sendfile on; } %%INTERNAL%%"
    )
    values = sent(site.assert_file(nginx.get("/file/list"), 77))
    assert values == {**dict.fromkeys(NAMES, ""), "status": "-", "source": "-"}
    entry = nginx.logged("/file/list")
    assert outcome(entry) == ("-", "-", "-", "-")
    assert (entry.id, entry.time, entry.reason) == ("", "-", "-")


def test_off(site: Site) -> None:
    """Where it is off, nothing was done."""
    site.html.write_id("297887", 297887)
    nginx = site.start("")
    site.assert_file(nginx.get("/297887"), 297887)
    entry = nginx.logged("/297887")
    assert (entry.status, entry.source, entry.time) == ("-", "-", "-")
    assert (entry.target, entry.reason) == ("-", "-")


def test_id_is_there_without_a_lookup(site: Site) -> None:
    """$sendfile_id is of the URI, wherever it is used."""
    nginx = site.start('location / { return 200 "<$sendfile_id>"; }')
    for uri, file_id in (
        ("/a/297887", "297887"),
        ("/0", "0"),
        ("/a/297887?5", "297887"),
        ("/a/297887/", ""),
        ("/a/297887x", ""),
        ("/" + "9" * 20, "9" * 20),
        ("/" + "9" * 21, ""),
        ("/a/%32", "2"),
        ("/", ""),
    ):
        assert nginx.get(uri).text == f"<{file_id}>"


def test_id_in_other_directives(site: Site, delivery: str) -> None:
    """$sendfile_id can be used in limits, maps and conditions."""
    site.add(297887)
    site.add(1)
    nginx = site.start(
        "if ($blocked) { return 451; }" + FILE,
        http="map $sendfile_id $blocked { default 0; 297887 1; }",
    )
    assert nginx.get("/file/297887").status == 451
    site.assert_file(nginx.get("/file/1"), 1)


def test_key_is_that_of_the_directive(site: Site, delivery: str) -> None:
    """$sendfile_key is what was asked for, not the ID."""
    site.store.put("img:297887:large", site.add(297887))
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%%"
        " http_sendfile_key img:$sendfile_id:$arg_s; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/297887?s=large"), 297887)
    entry = nginx.logged("/file/297887?s=large")
    assert (entry.id, entry.key) == ("297887", "img:297887:large")


def test_after_accel_redirect(site: Site, delivery: str) -> None:
    """After the second lookup they tell of the second."""
    site.add(2)
    nginx = site.start(ADD_HEADERS + WITH_APP)
    site.app.script = lambda request: Reply(headers={"X-Accel-Redirect": "/file/2"})
    response = site.assert_file(nginx.get("/file/1"), 2)
    values = sent(response)
    assert (values["id"], values["key"], values["status"]) == ("2", "2", "HIT")
    assert (values["source"], values["target"]) == ("lmdb", "aa/2.dat")
    entry = nginx.logged("/file/1")
    assert outcome(entry) == ("2", "HIT", "lmdb", "aa/2.dat")
    assert entry.reason == "-"


def test_after_error_page(site: Site, delivery: str) -> None:
    """An error page does not wipe them out."""
    site.html.write("404.html", b"sorry")
    nginx = site.start(ADD_HEADERS + FILE + "error_page 404 /404.html;")
    response = nginx.get("/file/1")
    assert (response.status, response.body) == (404, b"sorry")
    values = sent(response)
    assert (values["id"], values["key"], values["status"]) == ("1", "1", "MISS")
    assert nginx.logged("/file/1").status == "MISS"


def test_keep_alive_does_not_mix_them_up(site: Site, delivery: str) -> None:
    """Each request of a connection has its own."""
    site.add(1)
    site.html.write_id("plain.txt", 77)
    nginx = site.start(FILE)
    uris = ("/file/1", "/file/2", "/plain.txt", "/file/3", "/file/1?again")
    with nginx.connect() as connection:
        for uri in uris:
            connection.request("GET", uri)
    got = {uri: nginx.logged(uri).status for uri in uris}
    assert got == dict(zip(uris, ("HIT", "MISS", "-", "MISS", "HIT"), strict=True))


def start_with_subrequests(site: Site) -> Nginx:
    """Start a server with a page of three IDs, the second of which is missing."""
    site.add(1)
    site.add(3)
    site.html.write(
        "page.html",
        b"".join(b'<!--#include virtual="/file/%d" -->' % n for n in (1, 2, 3)),
    )
    return site.start(
        "location = /page.html { ssi on; access_log %%DIR%%/logs/page.log sub; }"
        "location /file/ { http_sendfile on; %%DELIVER%%"
        " access_log %%DIR%%/logs/sub.log sub; log_subrequest on; }"
        "location ^~ /files/ { internal; alias %%FILES%%/;"
        " access_log %%DIR%%/logs/sub.log sub; log_subrequest on; }",
        http="log_format sub '$sendfile_id $sendfile_status $sendfile_source';",
    )


def test_subrequests(site: Site, delivery: str) -> None:
    """Each subrequest has its own, and the page has none of them."""
    nginx = start_with_subrequests(site)
    assert b"ID:1 " in nginx.get("/page.html").body
    nginx.stop()
    logs = site.directory / "logs"
    lines = sorted((logs / "sub.log").read_text().splitlines())
    assert [line.split()[:2] for line in lines] == [
        ["1", "HIT"],
        ["2", "MISS"],
        ["3", "HIT"],
    ]
    assert (logs / "page.log").read_text() == " - -\n"


def test_status_of_a_subrequests_page(site: Site, delivery: str) -> None:
    """A page that is itself an ID keeps its own while it includes others."""
    site.add(1)
    site.files.write("page.html", b'ID:9 <!--#include virtual="/file/1" -->')
    site.store.put(9, "page.html")
    nginx = site.start("ssi on; " + FILE)
    assert b"ID:1 " in nginx.get("/file/9").body
    entry = nginx.logged("/file/9")
    assert outcome(entry) == ("9", "HIT", "lmdb", "page.html")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_body_bytes_sent(site: Site, delivery: str, method: str) -> None:
    """nginx's own variables count as ever."""
    site.add(1, size=12_345)
    nginx = site.start(FILE)
    nginx.request(method, "/file/1")
    entry = nginx.logged("/file/1")
    assert (entry.method, entry.code) == (method, 200)
    assert entry.sent == (12_345 if method == "GET" else 0)


def test_application_that_redirects_to_a_missing_id(site: Site, delivery: str) -> None:
    """The second lookup misses, too: its own fallback answers."""
    nginx = site.start(WITH_APP)

    def script(request: Request) -> Reply:
        if request.target == "/file/1":
            return Reply(headers={"X-Accel-Redirect": "/file/2"})
        return Reply(body=b"the second time")

    site.app.script = script
    assert nginx.get("/file/1").text == "the second time"
    assert outcome(nginx.logged("/file/1")) == ("2", "MISS", "app", "-")
