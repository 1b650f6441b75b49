"""Lookups in a memcached: what is found, what is not, and how it is reached."""

from __future__ import annotations

import random

import pytest

from lib.client import Connection
from lib.dns import Dns
from lib.fake_memcached import Fake, answer, hold
from lib.files import content
from lib.memcached import Memcached
from lib.servers import (
    APP,
    FALLBACK,
    Servers,
    add,
    add_many,
    block,
    location,
    patient,
)
from lib.site import INTERNAL, Site
from lib.wait import wait_for_hangup, wait_until

pytest_plugins = ("lib.memcached_fixtures",)

NINE_LINES = """\
server {
    listen 127.0.0.1:%%PORT%%;  server_name server;  root %%HTML%%;
    location /file  { http_sendfile on;  }
    location /files { http_sendfile off; }
}
"""


def test_hit(site: Site, memcached: Memcached, delivery: str) -> None:
    """A key that memcached has is a file, again and again."""
    add_many(site, memcached, range(1, 4))
    nginx = site.start(location(memcached.url) + INTERNAL)
    with nginx.connect() as connection:
        for n in (1, 2, 3, 1, 2):
            site.assert_file(connection.request("GET", f"/file/{n}"), n)
    entry = nginx.logged("/file/3")
    assert (entry.status, entry.source, entry.key) == ("HIT", "memcached", "3")
    assert (entry.target, entry.reason, entry.id) == ("aa/3.dat", "-", "3")
    assert 0 <= float(entry.time) < 3
    assert memcached.count("cmd_get") == memcached.count("get_hits") == 5
    assert memcached.accepted() == 1


def test_miss_is_a_404_or_goes_to_the_application(
    site: Site, memcached: Memcached, delivery: str
) -> None:
    """A key that memcached does not have is a 404, or goes to the application."""
    add(site, memcached, 1)
    nginx = site.start(
        location(memcached.url) + location(memcached.url, FALLBACK, "app") + APP
    )
    with nginx.connect() as connection:
        assert connection.request("GET", "/file/2").status == 404
        assert connection.request("GET", "/app/2?a=b").text == "app GET /app/2?a=b\n"
        memcached.put(2, "aa/1.dat")
        memcached.delete(2)
        assert connection.request("GET", "/file/2").status == 404
    entry = nginx.logged("/file/2", 2)
    assert (entry.status, entry.source, entry.code) == ("MISS", "memcached", 404)
    assert entry.reason == "not in store"
    entry = nginx.logged("/app/2?a=b")
    assert (entry.status, entry.source, entry.code) == ("MISS", "app", 200)
    assert memcached.count("get_misses") == 3


def test_every_change_is_seen(site: Site, memcached: Memcached) -> None:
    """Nothing is kept: the next request sees what was written before it."""
    add_many(site, memcached, (1, 2))
    nginx = site.start(location(memcached.url) + INTERNAL)
    with nginx.connect() as connection:
        for n in (1, 2, 1):
            memcached.put(7, f"aa/{n}.dat")
            site.assert_file(connection.request("GET", "/file/7"), n)
        memcached.flush()
        assert connection.request("GET", "/file/7").status == 404
        memcached.put(7, "aa/2.dat", exptime=-1)
        assert connection.request("GET", "/file/7").status == 404


def test_json_record(site: Site, memcached: Memcached, delivery: str) -> None:
    """A record's headers come from memcached as from any store."""
    add(
        site,
        memcached,
        5,
        type="application/pdf",
        name="Übersicht.pdf",
        disposition="attachment",
        headers={"Cache-Control": "max-age=60"},
    )
    nginx = site.start(location(memcached.url) + INTERNAL)
    response = site.assert_file(nginx.get("/file/5"), 5)
    assert response.header("Content-Type") == "application/pdf"
    assert response.header("Cache-Control") == "max-age=60"
    assert "filename" in (response.header("Content-Disposition") or "")


def test_invalid_record(site: Site, memcached: Memcached, delivery: str) -> None:
    """A value that is no path is a 502, or goes to the application."""
    for n, value in enumerate(
        ["../etc/passwd", "/etc/passwd", "", "{", b"\x04\x08i\x06"]
    ):
        memcached.put(n, value)
    nginx = site.start(
        location(memcached.url) + location(memcached.url, FALLBACK, "app") + APP
    )
    for n in range(5):
        assert nginx.get(f"/file/{n}").status == 502
        assert nginx.get(f"/app/{n}").text == f"app GET /app/{n}\n"
        assert nginx.logged(f"/file/{n}").status == "INVALID"
    line = nginx.wait_for_log('key "0" in ')
    assert "[error]" in line
    assert f'key "0" in {memcached.url}: invalid record: ' in line


def test_smallest_configuration_with_memcached_serves(
    site: Site, servers: Servers
) -> None:
    """The shortest useful configuration works, with a memcached where it is expected.

    Only the port, the name of the root and the log are the test's.
    """
    memcached = servers.default_memcached()
    site.html.write_id("files/aa/297887.dat", 297887)
    memcached.put(297887, "aa/297887.dat")
    site.variables["LOOKUP"] = ""
    http = site.template("").partition("    server {")[0]
    nginx = site.start_whole(http + NINE_LINES + "}\n")
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/297888").status == 404
    entry = nginx.logged("/file/297887")
    assert (entry.status, entry.source, entry.key) == ("HIT", "memcached", "297887")


def test_default_port(site: Site, servers: Servers) -> None:
    """A URL without a port means 11211, and a block's server, too."""
    memcached = servers.default_memcached()
    add(site, memcached, 7)
    nginx = site.start(
        location("memcached://127.0.0.1", name="url")
        + location("ids", name="block")
        + INTERNAL,
        http=block(["memcached://127.0.0.1"]),
    )
    for name in ("url", "block"):
        site.assert_file(nginx.get(f"/{name}/7"), 7)


def test_unix_socket(site: Site, servers: Servers, delivery: str) -> None:
    """A memcached behind a unix socket, by URL and in a block."""
    memcached = servers.memcached(unix=True)
    add_many(site, memcached, range(5))
    nginx = site.start(
        location(memcached.url) + location("ids", name="block") + INTERNAL,
        http=block([memcached.url]),
    )
    for n in range(5):
        site.assert_file(nginx.get(f"/file/{n}"), n)
        site.assert_file(nginx.get(f"/block/{n}"), n)
    assert nginx.get("/file/5").status == 404
    assert memcached.accepted() == 2


def test_ipv6(site: Site, servers: Servers, delivery: str) -> None:
    """A memcached at an IPv6 address."""
    memcached = servers.memcached(host="::1")
    add_many(site, memcached, range(5))
    assert memcached.url.startswith("memcached://[::1]:")
    nginx = site.start(
        location(memcached.url) + location("ids", name="block") + INTERNAL,
        http=block([memcached.url]),
    )
    for n in range(5):
        site.assert_file(nginx.get(f"/file/{n}"), n)
        site.assert_file(nginx.get(f"/block/{n}"), n)


def test_host_name(site: Site, memcached: Memcached) -> None:
    """A name of /etc/hosts, without a resolver."""
    add(site, memcached, 7)
    nginx = site.start(location(f"memcached://localhost:{memcached.port}") + INTERNAL)
    site.assert_file(nginx.get("/file/7"), 7)


def two_hosts(servers: Servers) -> tuple[Fake, Fake]:
    """Return two fakes with one port, on 127.0.0.2 and on 127.0.0.3."""
    first = servers.fake(host="127.0.0.2")
    return first, servers.fake(host="127.0.0.3", port=first.port)


def with_resolver(dns: Dns, port: int, more: str = "", block_more: str = "") -> str:
    """Return an http block's directives: a resolver, and localhost as a server."""
    return f"{dns.resolver} {more}\n" + patient(
        f"memcached://localhost:{port}", f"timeout 20s; {block_more}"
    )


def test_name_is_resolved_anew(site: Site, servers: Servers) -> None:
    """A connection goes where the name leads when it is made."""
    first, second = two_hosts(servers)
    add(site, first, 7)
    second.put(7, "aa/8.dat")
    site.files.write_id("aa/8.dat", 8)
    dns = servers.dns({"localhost": ["127.0.0.2"]})
    nginx = site.start(location("ids") + INTERNAL, with_resolver(dns, first.port))
    site.assert_file(nginx.get("/file/7"), 7)
    assert dns.queries[0] == "localhost"
    dns.names["localhost"] = ["127.0.0.3"]
    # a connection that works is kept
    site.assert_file(nginx.get("/file/7"), 7)
    assert first.accepted == 1

    def has_moved() -> bool:
        first.hang_up()
        wait_for_hangup("127.0.0.2", first.port)
        response = nginx.get("/file/7")
        if response.body == content(8):
            return True
        site.assert_file(response, 7)
        return False

    # nginx keeps an answer of the resolver up to a second
    wait_until(has_moved, what="nginx to follow the name")
    assert second.accepted == 1


def test_name_without_an_answer(site: Site, servers: Servers) -> None:
    """While names cannot be resolved, the addresses of the start are used."""
    memcached = servers.fake(host="127.0.0.1")
    add(site, memcached, 7)
    dns = servers.dns({})
    nginx = site.start(location("ids") + INTERNAL, with_resolver(dns, memcached.port))
    site.assert_file(nginx.get("/file/7"), 7)
    assert dns.queries
    line = nginx.wait_for_log("could not be resolved")
    assert "localhost" in line and "[error]" in line


def test_name_server_is_silent(site: Site, servers: Servers) -> None:
    """A name server that does not answer costs connect_timeout, and no request."""
    memcached = servers.fake()
    add(site, memcached, 7)
    dns = servers.dns({"localhost": ["127.0.0.1"]}, silent=True)
    nginx = site.start(
        location("ids") + INTERNAL,
        with_resolver(dns, memcached.port, "resolver_timeout 30s;"),
    )
    # the addresses of the start are used
    site.assert_file(nginx.get("/file/7"), 7)
    assert dns.queries
    assert float(nginx.logged("/file/7").time) >= 0.1
    assert "localhost" in nginx.wait_for_log("could not be resolved")


def test_deadline_while_a_name_is_resolved(site: Site, servers: Servers) -> None:
    """The deadline of a lookup holds while its server's name is asked for, too."""
    memcached = servers.fake()
    add(site, memcached, 7)
    dns = servers.dns({"localhost": ["127.0.0.1"]}, silent=True)
    http = f"{dns.resolver} resolver_timeout 30s;\n" + block(
        [f"memcached://localhost:{memcached.port}"],
        "timeout 100ms; connect_timeout 1s;",
    )
    nginx = site.start(location("ids", FALLBACK) + INTERNAL + APP, http)
    assert nginx.get("/file/7").text == "app GET /file/7\n"
    entry = nginx.logged("/file/7")
    assert (entry.status, entry.code) == ("TIMEOUT", 200)
    wait_until(
        lambda: nginx.get("/file/7").body == content(7), what="nginx to give up asking"
    )


def test_client_leaves_while_a_name_is_resolved(site: Site, servers: Servers) -> None:
    """Who waits for a name may leave."""
    memcached = servers.fake()
    dns = servers.dns({"localhost": ["127.0.0.1"]}, silent=True)
    nginx = site.start(
        location("ids") + INTERNAL,
        with_resolver(
            dns, memcached.port, "resolver_timeout 30s;", "connect_timeout 20s;"
        ),
    )
    leaving = nginx.connect()
    leaving.send_request("GET", "/file/7")
    wait_until(lambda: dns.queries, what="nginx to ask for the name")
    leaving.close()
    assert nginx.logged("/file/7").code == 499
    assert memcached.accepted == 0


def test_several_addresses_of_a_name(site: Site, servers: Servers) -> None:
    """Of a name's addresses one that is dead is left for the next one."""
    memcached = servers.fake(host="127.0.0.3")
    add(site, memcached, 7)
    dns = servers.dns({"localhost": ["127.0.0.2", "127.0.0.3"]})
    nginx = site.start(location("ids") + INTERNAL, with_resolver(dns, memcached.port))
    wait_until(lambda: nginx.get("/file/7").status == 200, what="the living address")
    site.assert_file(nginx.get("/file/7"), 7)


# keys


def test_key_lengths(site: Site, memcached: Memcached) -> None:
    """Keys of 1 and of 250 bytes are asked for, of 251 not."""
    site.files.write_id("aa/1.dat", 1)
    site.files.write_id("aa/250.dat", 250)
    memcached.put("k", "aa/1.dat")
    memcached.put("x" * 250, "aa/250.dat")
    nginx = site.start(
        location(memcached.url, 'http_sendfile_key "$arg_k";') + INTERNAL
    )
    with nginx.connect() as connection:
        site.assert_file(connection.request("GET", "/file/?k=k"), 1)
        site.assert_file(connection.request("GET", f"/file/?k={'x' * 250}"), 250)
        assert connection.request("GET", f"/file/?k={'x' * 249}").status == 404
        before = memcached.count("cmd_get")
        assert connection.request("GET", f"/file/?k={'x' * 251}").status == 404
    assert nginx.logged(f"/file/?k={'x' * 249}").status == "MISS"
    assert nginx.logged(f"/file/?k={'x' * 251}").status == "INVALID"
    assert memcached.count("cmd_get") == before == 3


@pytest.mark.parametrize(
    "key", [b"a\x00b", b"a b", b"a\r\nget b", b"a\x7f", b"a\tb", b"\n", b" "]
)
def test_bad_keys_are_not_sent(site: Site, fake: Fake, key: bytes) -> None:
    """A key with a byte that memcached's protocol lives by stays here."""
    fake.put("a", "aa/1.dat")
    nginx = site.start(
        location(fake.url, "http_sendfile_key $1;", "f").replace(
            "location /f/", "location ~ ^/f/([^/]*)$"
        )
        + location(fake.url)
        + INTERNAL
    )
    uri = "/f/" + "".join(f"%{byte:02x}" for byte in key)
    response = nginx.get(uri)
    assert response.status in (400, 404)
    assert fake.accepted == 0
    add(site, fake, 7)
    site.assert_file(nginx.get("/file/7"), 7)
    assert fake.received() == b"get 7\r\n"


def test_keys_of_all_bytes(site: Site, memcached: Memcached) -> None:
    """Bytes above 0x7f and punctuation are keys as they are."""
    keys = ["ключ", "a%20b", "a?b", '"', "\\", "a:b:c", "get", "END", "0", "日本"]
    for n, key in enumerate(keys):
        site.files.write_id(f"aa/{n}.dat", n)
        memcached.put_many({key: f"aa/{n}.dat"})
    nginx = site.start(
        location(memcached.url, "http_sendfile_key $1;", "f").replace(
            "location /f/", "location ~ ^/f/([^/]*)$"
        )
        + INTERNAL
    )
    for n, key in enumerate(keys):
        uri = "/f/" + "".join(f"%{byte:02x}" for byte in key.encode())
        site.assert_file(nginx.get(uri), n)


def test_exact_bytes(site: Site, fake: Fake) -> None:
    """What a lone request sends is one get of one key."""
    add(site, fake, 7)
    nginx = site.start(
        location(fake.url, 'http_sendfile_key "ns:$sendfile_id";', "ns")
        + location(fake.url)
        + INTERNAL
    )
    fake.put("ns:7", "aa/7.dat")
    site.assert_file(nginx.get("/file/7"), 7)
    site.assert_file(nginx.get("/ns/7"), 7)
    assert [read.data for read in fake.reads] == [b"get 7\r\n", b"get ns:7\r\n"]


# values


@pytest.mark.parametrize("delta", [-1, 0, 1])
def test_value_of_64_kib(site: Site, memcached: Memcached, delta: int) -> None:
    """A value has up to 65,536 bytes; one more is INVALID."""
    site.files.write_id("aa/7.dat", 7)
    record = '{"path":"aa/7.dat","x":"%s"}'
    record %= "x" * (65536 + delta - len(record) + 2)
    assert len(record) == 65536 + delta
    memcached.put(7, record)
    nginx = site.start(location(memcached.url) + INTERNAL)
    with nginx.connect() as connection:
        for _ in range(2):
            response = connection.request("GET", "/file/7")
            if delta <= 0:
                site.assert_file(response, 7)
            else:
                assert response.status == 502
    assert nginx.logged("/file/7", 2).status == ("HIT" if delta <= 0 else "INVALID")
    assert memcached.accepted() == 1


def test_value_of_a_mebibyte(site: Site, servers: Servers) -> None:
    """A value of 1 MiB is INVALID, and read over: the connection lives on."""
    memcached = servers.memcached(options=("-I", "2m"))
    add(site, memcached, 7)
    memcached.put(8, b"VALUE 7 0 5\r\nother\r\nEND\r\n" * 40330)
    nginx = site.start(location(memcached.url) + INTERNAL)
    with nginx.connect() as connection:
        for _ in range(3):
            assert connection.request("GET", "/file/8").status == 502
            site.assert_file(connection.request("GET", "/file/7"), 7)
    assert nginx.logged("/file/8", 3).status == "INVALID"
    line = nginx.wait_for_log('key "8" in ')
    assert "invalid record: " in line
    assert memcached.accepted() == 1


def test_value_that_looks_like_protocol(site: Site, memcached: Memcached) -> None:
    """A value's bytes are counted, not read: "END" in it ends nothing."""
    site.files.write_id("aa/7.dat", 7)
    records = {
        1: '{"path":"aa/7.dat","x":"\\r\\nEND\\r\\n"}',
        2: '{"path":"aa/7.dat",\r\nEND\r\n"x":1}',
        3: '{"path":"aa/7.dat",\r\n\r\n\r\n"x":1}',
        4: '{"path":"aa/7.dat"}\r\n',
        5: '{"path":"aa/7.dat"\r\n}\r\nEND\r\n',
    }
    for n, record in records.items():
        memcached.put(n, record)
    nginx = site.start(location(memcached.url) + INTERNAL)
    with nginx.connect() as connection:
        codes = [connection.request("GET", f"/file/{n}").status for n in records]
        assert codes == [200, 502, 200, 200, 502]
        site.assert_file(connection.request("GET", "/file/3"), 7)
    assert memcached.accepted() == 1


# variables, subrequests, methods


def test_status_of_every_end(
    site: Site, servers: Servers, memcached: Memcached
) -> None:
    """$sendfile_status and $sendfile_source of each way a lookup ends."""
    hung = servers.fake(hold)
    add(site, memcached, 1)
    memcached.put(3, "//")
    nginx = site.start(
        "error_page 404 502 504 =200 /sorry.html;"
        + location(memcached.url)
        + location(hung.url, "http_sendfile_timeout 50ms;", "hung")
        + location(servers.refused(), name="refused")
        + INTERNAL
    )
    site.html.write("sorry.html", b"sorry")
    wanted = {
        "/file/1": ("HIT", "memcached"),
        "/file/2": ("MISS", "memcached"),
        "/file/3": ("INVALID", "memcached"),
        "/file/?k": ("-", "-"),
        "/hung/1": ("TIMEOUT", "memcached"),
        "/refused/1": ("ERROR", "memcached"),
        f"/file/{'1' * 20}": ("MISS", "memcached"),
    }
    for uri, (status, source) in wanted.items():
        nginx.get(uri)
        entry = nginx.logged(uri)
        assert (uri, entry.status, entry.source) == (uri, status, source)
    assert "Connection refused" in nginx.logged("/refused/1").reason
    assert nginx.logged("/hung/1").reason == "lookup timed out"


def test_methods(site: Site, fake: Fake) -> None:
    """HEAD asks as GET does, POST does not."""
    add(site, fake, 7)
    nginx = site.start(location(fake.url, FALLBACK + "%%DIRECT%%") + APP)
    with nginx.connect() as connection:
        response = connection.request("HEAD", "/file/7")
        assert (response.status, response.header("Content-Length")) == (200, "400")
        posted = connection.request("POST", "/file/7", body=b"x")
        assert posted.text == "app POST /file/7\n"
    assert fake.lines() == [["7"]]


def test_ssi_is_one_get(site: Site, fake: Fake, delivery: str) -> None:
    """The includes of a page are looked up together."""
    add_many(site, fake, range(6))
    page = "".join(f'<!--# include virtual="/file/{n}" -->\n' for n in (*range(6), 3))
    site.html.write("page/x.html", page.encode())
    nginx = site.start(location(fake.url) + "location /page/ { ssi on; }" + INTERNAL)
    response = nginx.get("/page/x.html")
    assert response.body == b"".join(content(n) + b"\n" for n in (*range(6), 3))
    assert fake.lines() == [[str(n) for n in range(6)]]


def test_big_file_after_a_lookup(
    site: Site, memcached: Memcached, delivery: str
) -> None:
    """A body that does not fit into the socket's buffer."""
    add(site, memcached, 7, size=2_000_000)
    nginx = site.start(location(memcached.url) + INTERNAL)
    site.assert_file(nginx.get("/file/7"), 7, 2_000_000)
    response = nginx.get("/file/7", {"Range": "bytes=1000000-1000999"})
    assert (response.status, response.body) == (
        206,
        content(7, 2_000_000)[1_000_000:1_001_000],
    )


def read_all(site: Site, connection: Connection, ids: list[int]) -> None:
    """Read an answer for each ID, and check that it is its file."""
    for n in ids:
        site.assert_file(connection.read_response(), n)


def test_pipelined_requests(site: Site, memcached: Memcached, delivery: str) -> None:
    """Requests sent in one go on one connection are answered in their order."""
    add_many(site, memcached, range(50))
    # the default was 100 before nginx 1.19.10
    nginx = site.start("keepalive_requests 200;" + location(memcached.url) + INTERNAL)
    seed = random.randrange(2**32)
    print("seed", seed)
    ids = random.Random(seed).choices(range(50), k=200)
    with nginx.connect() as connection:
        connection.send(
            b"".join(b"GET /file/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in ids)
        )
        read_all(site, connection, ids)
    assert memcached.count("cmd_get") == 200


def test_two_stores_of_one_server(site: Site, memcached: Memcached) -> None:
    """A URL and a block are stores of their own, each with its connection."""
    add(site, memcached, 7)
    nginx = site.start(
        location(memcached.url, name="a")
        + location(memcached.url, name="b")
        + location("ids", name="c")
        + INTERNAL,
        http=block([memcached.url]),
    )
    for name in ("a", "b", "c", "a"):
        site.assert_file(nginx.get(f"/{name}/7"), 7)
    assert memcached.accepted() == 2


def test_greeting_is_refused(site: Site, servers: Servers) -> None:
    """A server that speaks before it is asked is no memcached."""
    fake = servers.fake(greeting=b"220 mail.example.com ESMTP\r\n")
    add(site, fake, 7)
    nginx = site.start(location("ids") + INTERNAL, http=patient(fake.url))
    statuses = {nginx.get("/file/7").status for _ in range(5)}
    assert statuses <= {200, 502}
    assert 502 in statuses
    wait_until(lambda: fake.open == 0, what="the connection to be closed")


def test_bytes_between_requests(site: Site, fake: Fake) -> None:
    """Bytes that nobody asked for end an idle connection; the next one is new."""
    add(site, fake, 7)
    nginx = site.start(location("ids") + INTERNAL, http=patient(fake.url))
    for n in range(3):
        site.assert_file(nginx.get("/file/7"), 7)
        assert fake.accepted == n + 1
        fake.say(b"VALUE 7 0 8\r\naa/9.dat\r\nEND\r\n")
        wait_until(lambda: fake.open == 0, what="the connection to be closed")


def test_closed_while_idle(site: Site, fake: Fake) -> None:
    """A server may close when nothing is asked; that is no failure."""
    add(site, fake, 7)
    nginx = site.start(location(fake.url) + INTERNAL)
    for n in range(6):
        site.assert_file(nginx.get("/file/7"), 7)
        assert fake.accepted == n + 1
        fake.hang_up()
        wait_until(lambda: fake.open == 0, what="nginx to close its side")
    assert nginx.errors("error", "warn") == []


def test_script_of_the_fake(site: Site, fake: Fake) -> None:
    """The fake's own record of what happens, which other tests rely on."""
    add(site, fake, 7)
    fake.script = hold
    nginx = site.start(location("ids") + INTERNAL, http=patient(fake.url))
    with nginx.connect() as first, nginx.connect() as second:
        first.send_request("GET", "/file/7")
        wait_until(lambda: fake.holding == 1, what="the first get")
        second.send_request("GET", "/file/8")
        wait_until(lambda: len(fake.gets) == 2, what="the second get")
        assert fake.lines() == [["7"], ["8"]]
        assert fake.holding == 1
        fake.release_once()
        site.assert_file(first.read_response(), 7)
        wait_until(lambda: fake.holding == 1, what="the second to be held")
        fake.script = answer
        fake.release()
        assert second.read_response().status == 404
    assert fake.received() == b"get 7\r\nget 8\r\n"
