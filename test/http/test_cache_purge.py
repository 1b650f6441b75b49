"""Purging: DELETE below a location with http_sendfile_status."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from lib.async_store import slow, use_test_store, wait_for
from lib.cache import (
    CACHE,
    STATUS,
    ZONE,
    ask,
    let_pass,
    make_old,
    numbered,
    purge,
    purge_all,
    purged,
    replace,
    said,
    slowed,
)
from lib.client import Connection, ConnectionClosed, Response, from_httpx
from lib.fake_memcached import Fake, answer, hold
from lib.files import content
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.servers import Servers, add, add_many, location, patient
from lib.site import INTERNAL, Site
from lib.turn import stopped
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

LONG = f"{CACHE} http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
LMDB = "lmdb:%%STORE%%"
FILE = f"location /file/ {{ http_sendfile on; %%DELIVER%% {LONG} }}\n"


@pytest.fixture(autouse=True)
def _by_redirect(site: Site) -> None:
    site.variables.setdefault("DELIVER", "")


@pytest.fixture
def sent() -> Iterator[list[Connection]]:
    """Connections that are closed after the test."""
    opened: list[Connection] = []
    yield opened
    for connection in opened:
        connection.close()


def json_error(response: Response) -> str:
    """Return the text of an error in JSON."""
    assert response.header("Content-Type") == "application/json", response
    error = json.loads(response.body)["error"]
    assert isinstance(error, str) and error
    return error


# one key, all keys


def test_purge_a_record(site: Site, delivery: str) -> None:
    """A purged record is asked of the store anew, and then kept again."""
    site.add(7)
    site.add(8)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for n in (7, 8):
        assert said(nginx, f"/file/{n}") == ("HIT", "lmdb")
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")
    site.files.write_id("bb/7.dat", 77)
    site.store.put(7, "bb/7.dat")
    site.assert_file(ask(nginx, "/file/7").response, 7)
    assert purge(nginx, 7) == 1
    new = ask(nginx, "/file/7")
    site.assert_file(new.response, 77)
    assert new.said == ("HIT", "lmdb")
    assert said(nginx, "/file/7") == ("HIT", "cache")
    # the other one is what it was
    assert said(nginx, "/file/8") == ("HIT", "cache")


def test_purge_a_miss(site: Site, delivery: str) -> None:
    """A new file is found at once if its ID is purged."""
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("MISS", "lmdb")
    assert said(nginx, "/file/7") == ("NEGATIVE", "cache")
    site.add(7)
    assert said(nginx, "/file/7") == ("NEGATIVE", "cache")
    assert purge(nginx, 7) == 1
    new = ask(nginx, "/file/7")
    site.assert_file(new.response, 7)
    assert new.said == ("HIT", "lmdb")


def test_purge_what_is_not_there(site: Site) -> None:
    """To purge a key that is not cached is no error."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    assert purge(nginx, 7) == 0
    assert purge_all(nginx) == 0
    assert ask(nginx, "/file/7").response.status == 404
    assert purge(nginx, 7) == 1
    assert purge(nginx, 7) == 0


def test_purge_all(site: Site, delivery: str) -> None:
    """All records and misses go, and are counted."""
    for n in range(10):
        site.add(n)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for n in range(15):
        for wanted in (200, 200) if n < 10 else (404, 404):
            assert ask(nginx, f"/file/{n}").response.status == wanted
    assert purge_all(nginx) == 15
    assert purge_all(nginx) == 0
    for n in range(15):
        wanted_status = "HIT" if n < 10 else "MISS"
        assert said(nginx, f"/file/{n}") == (wanted_status, "lmdb")
    assert purge_all(nginx) == 15


def test_purge_an_expired_record(site: Site, fake: Fake) -> None:
    """What was purged is not served stale."""
    add(site, fake, 7)
    add(site, fake, 8)
    nginx = site.start(
        location("ids", f"{CACHE} http_sendfile_cache_valid 10ms;") + STATUS + INTERNAL,
        http=ZONE + patient(fake.url, "timeout 700ms;"),
    )
    for n in (7, 8):
        site.assert_file(ask(nginx, f"/file/{n}").response, n)
    let_pass(0.01)
    assert purge(nginx, 7) == 1
    fake.hang_up()
    fake.script = hold
    assert ask(nginx, "/file/8").entry.status == "STALE"
    gone = ask(nginx, "/file/7")
    assert (gone.response.status, gone.entry.status) == (504, "TIMEOUT")


def test_purge_in_every_zone_store_and_format(
    site: Site, servers: Servers, memcached: Memcached
) -> None:
    """A key goes wherever it is kept."""
    other = servers.memcached()
    formats = ("auto", "path")
    urls = {"l": LMDB, "m": memcached.url, "o": other.url}
    zones = ("main", "second")
    site.add(7)
    add_many(site, memcached, (7, 8))
    add(site, other, 7)
    uris = []
    server = ""
    for letter, url in urls.items():
        for format_ in formats:
            for zone in zones:
                name = f"{letter}-{format_}-{zone}"
                server += location(
                    url,
                    f"http_sendfile_format {format_}; http_sendfile_cache {zone};"
                    " http_sendfile_cache_valid 404 10m;",
                    name,
                )
                uris.append(f"/{name}/")
    nginx = site.start(
        server + STATUS + INTERNAL,
        http=ZONE + "http_sendfile_cache_zone second:1m;",
    )

    def sources(key: int) -> set[str]:
        return {ask(nginx, f"{uri}{key}").entry.source for uri in uris}

    for key in (7, 8):
        assert sources(key) == {"lmdb", "memcached"}
        assert sources(key) == {"cache"}
    assert purge(nginx, 7) == len(uris)
    assert sources(8) == {"cache"}
    assert sources(7) == {"lmdb", "memcached"}
    assert purge_all(nginx) == 2 * len(uris)
    assert sources(8) == sources(7) == {"lmdb", "memcached"}


@pytest.mark.parametrize("size", ["256k", "33m", "200m"])
def test_purge_in_a_zone_of_any_size(site: Site, size: str) -> None:
    """A key is found in whichever part of the zone it is."""
    number = 300
    with site.store.env.begin(write=True) as txn:
        for n in range(number):
            txn.put(str(n).encode(), b"aa/1.dat")
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(
        FILE + STATUS + INTERNAL, http=f"http_sendfile_cache_zone main:{size};"
    )
    with nginx.connect() as connection:
        for _ in range(2):
            for n in range(number):
                site.assert_file(connection.request("GET", f"/file/{n}"), 1)
        for n in range(0, number, 2):
            assert purged(connection.request("DELETE", f"/status/cache/{n}")) == 1
            assert purged(connection.request("DELETE", f"/status/cache/{n}")) == 0
    assert said(nginx, "/file/1") == ("HIT", "cache")
    assert said(nginx, "/file/2") == ("HIT", "lmdb")
    assert purge_all(nginx) == number // 2 + 1
    assert said(nginx, "/file/1") == ("HIT", "lmdb")


# keys


KEYS = [
    "a/b",
    "a//b",
    "//",
    "/",
    "/a",
    "a/",
    "100%",
    "%41",
    "%",
    "%2F",
    "%252F",
    ".",
    "a.b",
    "a/./b",
    "./a",
    "a/../b",
    "a/..",
    "..",
    "../a",
    "a?b",
    "?",
    "a#b",
    "a&b=c",
    "a+b",
    "a;b",
    "a:b",
    "photo:1",
    "~",
    "'\"<>",
    "\\",
    "ä",
    "写真",
    "cache",
    "cache/1",
    "x" * 250,
    "%" * 250,
]


@pytest.mark.parametrize("key", KEYS)
def test_odd_keys(site: Site, key: str) -> None:
    """Any key is purged if it is percent-encoded; and no other is."""
    site.files.write_id("aa/7.dat", 7)
    others = ["b", "a", "A", "aa", "1", "%2f", "41", "a%2Fb", key[1:], key[:-1]]
    keys = [k for k in dict.fromkeys([key, *others]) if k]
    for k in keys:
        site.store.put(k, "aa/7.dat")
    # a header: nothing is decoded, and all bytes of a key may stand in it
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_key $http_x_key; {LONG} }}"
        + (STATUS + INTERNAL),
        http=ZONE,
    )

    def source(k: str) -> str:
        with nginx.connect() as connection:
            uri = numbered("/file/")
            head = f"GET {uri} HTTP/1.1\r\nHost: a\r\nX-Key: "
            connection.send(head.encode() + k.encode() + b"\r\n\r\n")
            site.assert_file(connection.read_response(), 7)
        return nginx.logged(uri).source

    for k in keys:
        assert source(k) == "lmdb"
        assert source(k) == "cache"
    assert purge(nginx, quote(key, safe="")) == 1
    assert source(key) == "lmdb"
    for k in keys[1:]:
        assert source(k) == "cache", k


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("a/b", "a/b"),
        ("a//b", "a//b"),
        ("a/", "a/"),
        ("/a", "/a"),
        ("a/./b", "a/./b"),
        ("a/../b", "a/../b"),
        ("a%2fb", "a/b"),
        ("a%2Fb?c=d", "a/b"),
        ("a?", "a"),
        ("a%3fb?c", "a?b"),
        ("%61%62", "ab"),
        ("a+b", "a+b"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_key_in_the_request_line(site: Site, raw: str, key: str) -> None:
    """A key may be written as it is; the arguments are no part of it."""
    site.add(7)
    site.store.put(key, "aa/7.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_key $http_x_key;"
        f" {LONG} }} {STATUS} {INTERNAL}",
        http=ZONE,
    )
    for wanted in ("lmdb", "cache"):
        assert ask(nginx, "/file/", {"X-Key": key}).entry.source == wanted
    assert purge(nginx, raw) == 1
    assert ask(nginx, "/file/", {"X-Key": key}).entry.source == "lmdb"


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "x" * 251,
        "x" * 5000,
        "%78" * 251,
        "%20",
        "a%20b",
        "a%0Ab",
        "a%0d%0ab",
        "%01",
        "%7f",
        "a%7Fb",
        "%09",
        "%00",
        "a%00",
        "%",
        "%4",
        "%zz",
        "a%",
    ],
)
def test_bad_keys(site: Site, raw: str) -> None:
    """What is no key is a 400, and nothing is purged."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    response = nginx.request("DELETE", f"/status/cache/{raw}")
    assert response.status == 400
    # what is wrong with the request line nginx says itself, in HTML
    if not any(part in raw for part in ("%00", "%zz")) and raw not in ("%", "%4", "a%"):
        json_error(response)
    assert said(nginx, "/file/7") == ("HIT", "cache")


# where, and how it is asked


@pytest.mark.parametrize(
    "name", ["/status", "/status/", "/a/b/c", "/_nginx/sendfile/", "/", "^~ /x/"]
)
def test_any_location(site: Site, name: str) -> None:
    """The location may have any name, with a slash at its end or without."""
    site.add(7)
    nginx = site.start(
        f"location {name} {{ http_sendfile_status write; }}" + FILE + INTERNAL,
        http=ZONE,
    )
    base = name.removeprefix("^~ ").rstrip("/")
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    assert purge(nginx, 7, base) == 1
    assert said(nginx, "/file/7") == ("HIT", "lmdb")
    assert purge_all(nginx, base) == 1


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("~ ^/status/", "/status"),
        ("~ ^/cachetools/", "/cachetools"),
        ("~* ^/Cache/", "/cAChe"),
        ("~ /cache", "/x/cached"),
        ("'/cached files'", "/cached%20files"),
        ("/status", "/%73tatus"),
        ("/status/", "/x/../status"),
        ("/status/", "//status"),
        ("/status", "http://localhost/status"),
        ("/cache", "/cache"),
        ("/cache/cache", "/cache/cache"),
    ],
)
def test_any_way_to_the_location(site: Site, name: str, base: str) -> None:
    """A regex, or another way to write its name: the key is what follows."""
    for key in ("7", "cache", "cache/7", "a//cache/cache"):
        site.store.put(key, "aa/7.dat")
    site.files.write_id("aa/7.dat", 7)
    nginx = site.start(
        f"location {name} {{ http_sendfile_status write; }}"
        "location ^~ /file/ { http_sendfile on; http_sendfile_key $http_x_key;"
        f" {LONG} }} {INTERNAL}",
        http=ZONE,
    )
    keys = ("7", "cache", "cache/7", "a//cache/cache")
    for key in keys:
        for wanted in ("lmdb", "cache"):
            assert ask(nginx, "/file/", {"X-Key": key}).entry.source == wanted
    for key in keys:
        assert purge(nginx, quote(key, safe=""), base) == 1
        assert ask(nginx, "/file/", {"X-Key": key}).entry.source == "lmdb"
    assert purge_all(nginx, base) == len(keys)


def test_without_write(site: Site) -> None:
    """Without ``write`` nothing can be purged: 403."""
    site.add(7)
    nginx = site.start(
        "location /status { http_sendfile_status; }" + FILE + INTERNAL, http=ZONE
    )
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    for path in ("/status/cache", "/status/cache/7", "/status/cache/8"):
        response = nginx.request("DELETE", path)
        assert response.status == 403
        assert "write" in json_error(response)
    assert said(nginx, "/file/7") == ("HIT", "cache")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/status/cache", "/status/cache/7"])
def test_other_methods(site: Site, method: str, path: str) -> None:
    """Any method but DELETE is a 405 that says which one is meant."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    response = nginx.request(method, path)
    assert response.status == 405
    assert response.header("Allow") == "DELETE"
    if method == "HEAD":
        assert response.body == b""
    assert said(nginx, "/file/7") == ("HIT", "cache")


@pytest.mark.parametrize(
    "path",
    ["/status/nosuch", "/status/cachex", "/status/caches/7", "/status/x/cache/7"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_other_paths(site: Site, method: str, path: str) -> None:
    """What is not there is a 404."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    response = nginx.request(method, path)
    assert response.status == 404
    if method == "HEAD":
        assert response.body == b""
    else:
        json_error(response)
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_access_rules(site: Site) -> None:
    """The location's access rules hold."""
    site.add(7)
    nginx = site.start(
        "location /status { http_sendfile_status write; deny all; }" + FILE + INTERNAL,
        http=ZONE,
    )
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    assert nginx.request("DELETE", "/status/cache/7").status == 403
    assert nginx.request("DELETE", "/status/cache").status == 403
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_without_a_zone(site: Site) -> None:
    """Without any cache there is nothing to purge, and that is no error."""
    nginx = site.start(STATUS)
    assert purge(nginx, 7) == 0
    assert purge_all(nginx) == 0


def test_connection_stays_open(site: Site) -> None:
    """After an answer of any kind the connection serves the next request."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    with nginx.connect() as connection:
        site.assert_file(connection.request("GET", "/file/7"), 7)
        response = connection.request("DELETE", "/status/cache/7", body=b"x" * 1000)
        assert purged(response) == 1
        site.assert_file(connection.request("GET", "/file/7"), 7)
        assert purged(connection.request("DELETE", "/status/cache/7")) == 1
        for method, path, status in (
            ("GET", "/status/cache/7", 405),
            ("HEAD", "/status/cache/7", 405),
            ("DELETE", "/status/other", 404),
            ("HEAD", "/status/other", 404),
            ("DELETE", f"/status/cache/{'x' * 251}", 400),
        ):
            assert connection.request(method, path).status == status
        assert purged(connection.request("DELETE", "/status/cache")) == 0
        site.assert_file(connection.request("GET", "/file/7"), 7)


def test_http2(site: Site) -> None:
    """HTTP/2 purges as HTTP/1.1 does."""
    site.add(7)
    site.store.put("a//b", "aa/7.dat")
    nginx = site.start(
        site.http2_listen()
        + "http_sendfile_key $http_x_key;"
        + (FILE + STATUS + INTERNAL),
        http=ZONE,
    )
    with nginx.http2("h2") as client:
        for key in ("7", "a//b"):
            for wanted in ("lmdb", "cache"):
                assert ask(nginx, "/file/", {"X-Key": key}).entry.source == wanted
            target = f"/status/cache/{quote(key, safe='')}"
            assert purged(from_httpx(client.delete(target))) == 1
            assert ask(nginx, "/file/", {"X-Key": key}).entry.source == "lmdb"
        assert client.get("/status/cache/7").status_code == 405
        assert client.delete("/status/cache/%20").status_code == 400


def test_answer(site: Site) -> None:
    """The answer is JSON of a known length that nobody may store."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    response = nginx.request("DELETE", "/status/cache")
    assert response.status == 200
    assert response.body.strip() == b'{"purged":0}'
    assert response.header("Content-Length") == str(len(response.body))


# who sees it, and when


def pid_of(connection: Connection) -> str:
    """Return the process that serves a connection."""
    return connection.request("GET", "/pid").text


PID = "location = /pid { access_log off; return 200 $pid; }\n"


def both_workers(nginx: Nginx, sent: list[Connection]) -> dict[str, Connection]:
    """Return a connection to each of the two workers.

    Args:
        nginx: with PID in its server block.
        sent: where all connections go, to be closed.
    """
    found: dict[str, Connection] = {}

    def another() -> bool:
        connection = nginx.connect()
        sent.append(connection)
        found.setdefault(pid_of(connection), connection)
        return len(found) == 2

    wait_until(another, what="a connection to each worker")
    return found


def test_all_workers_at_once(site: Site, delivery: str, sent: list[Connection]) -> None:
    """After the answer to a purge no worker serves what was there before."""
    site.variables["WORKERS"] = "2"
    for n in range(6):
        site.files.write_id(f"aa/{n}.dat", n)
    site.store.put(7, "aa/0.dat")
    nginx = site.start(PID + FILE + STATUS + INTERNAL, http=ZONE)
    workers = list(both_workers(nginx, sent).values())
    for round_ in range(60):
        wanted = round_ % 6
        one, other = workers if round_ % 4 < 2 else workers[::-1]
        site.store.put(7, f"aa/{wanted}.dat")
        path = "/status/cache/7" if round_ % 3 else "/status/cache"
        assert purged(one.request("DELETE", path)) == (1 if round_ else 0)
        site.assert_file(other.request("GET", "/file/7"), wanted)
        site.assert_file(one.request("GET", "/file/7"), wanted)
        site.assert_file(other.request("GET", "/file/7"), wanted)


def test_under_load(site: Site, delivery: str, sent: list[Connection]) -> None:
    """The same while others keep asking for the key."""
    site.variables["WORKERS"] = "2"
    for n in range(6):
        site.files.write_id(f"aa/{n}.dat", n)
    site.store.put(7, "aa/0.dat")
    nginx = site.start(PID + FILE + STATUS + INTERNAL, http=ZONE)
    workers = list(both_workers(nginx, sent).values())
    stop = threading.Event()
    known = {content(n) for n in range(6)}
    wrong: list[object] = []

    def keep_asking() -> None:
        with nginx.connect() as connection:
            while not stop.is_set():
                response = connection.request("GET", "/file/7")
                if response.status != 200 or response.body not in known:
                    wrong.append(response)

    threads = [threading.Thread(target=keep_asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for round_ in range(1, 80):
            wanted = round_ % 6
            one, other = workers if round_ % 4 < 2 else workers[::-1]
            site.store.put(7, f"aa/{wanted}.dat")
            purged(one.request("DELETE", "/status/cache/7"))
            for connection in (other, one):
                site.assert_file(connection.request("GET", "/file/7"), wanted)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def wait_for_gets(fake: Fake, number: int) -> None:
    """Wait until the fake has been asked for so many keys."""
    wait_until(lambda: len(fake.asked()) >= number, what=f"{number} keys asked for")


def start(site: Site, fake: Fake, more: str = "") -> Nginx:
    """Return a server with a cache before a fake memcached that has 7."""
    add(site, fake, 7)
    return site.start(
        location("ids", LONG + more) + (PID + STATUS + INTERNAL),
        http=ZONE + patient(fake.url),
    )


@pytest.mark.parametrize("key", ["7", ""])
def test_fill_begun_before_is_dropped(
    site: Site, fake: Fake, delivery: str, sent: list[Connection], key: str
) -> None:
    """What was on its way when the key was purged answers its request, no more."""
    nginx = start(site, fake)
    fake.script = hold
    uri = numbered("/file/7")
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", uri)
    wait_for_gets(fake, 1)
    if key:
        assert purge(nginx, key) == 0
    else:
        assert purge_all(nginx) == 0
    fake.script = answer
    fake.release()
    site.assert_file(connection.read_response(), 7)
    assert nginx.logged(uri).status == "HIT"
    site.files.write_id("bb/7.dat", 8)
    fake.put(7, "bb/7.dat")
    new = ask(nginx, "/file/7")
    site.assert_file(new.response, 8)
    assert new.said == ("HIT", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_miss_begun_before_is_dropped(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """A miss that was on its way is not kept either: the file is there now."""
    nginx = start(site, fake)
    fake.script = hold
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/9")
    wait_for_gets(fake, 1)
    assert purge(nginx, 9) == 0
    fake.release()
    assert connection.read_response().status == 404
    add(site, fake, 9)
    new = ask(nginx, "/file/9")
    site.assert_file(new.response, 9)
    assert new.said == ("HIT", "memcached")


def test_shared_lookup_has_the_token_of_its_first(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """Who joins after the purge a lookup begun before it keeps nothing, either."""
    nginx = start(site, fake)
    fake.script = hold
    for number in (1, 2):
        connection = nginx.connect()
        sent.append(connection)
        assert pid_of(connection)
        connection.send_request("GET", f"/file/7?{number}")
        wait_for_gets(fake, 1)
        if number == 1:
            assert purge(nginx, 7) == 0
    # the second has come in when a request after it is answered
    assert nginx.get("/pid").status == 200
    assert fake.asked() == ["7"]
    fake.script = answer
    fake.release()
    for connection in sent:
        site.assert_file(connection.read_response(), 7)
    new = ask(nginx, "/file/7")
    site.assert_file(new.response, 7)
    assert new.said == ("HIT", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_fill_by_another_worker_is_dropped(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """The purge may come to another worker than the lookup."""
    site.variables["WORKERS"] = "2"
    nginx = start(site, fake)
    one, other = both_workers(nginx, sent).values()
    fake.script = hold
    one.send_request("GET", "/file/7")
    wait_for_gets(fake, 1)
    assert purged(other.request("DELETE", "/status/cache/7")) == 0
    fake.script = answer
    fake.release()
    site.assert_file(one.read_response(), 7)
    assert said(nginx, "/file/7") == ("HIT", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_refresh_begun_before_is_dropped(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """A purge while a record is asked anew: nothing is stale from then on."""
    add(site, fake, 7)
    nginx = site.start(
        location("ids", f"{CACHE} http_sendfile_cache_valid 1s;") + STATUS + INTERNAL,
        http=ZONE + patient(fake.url),
    )
    site.assert_file(ask(nginx, "/file/7").response, 7)
    let_pass(1)
    fake.script = hold
    first = nginx.connect()
    sent.append(first)
    first.send_request("GET", "/file/7?first")
    wait_for_gets(fake, 2)
    assert said(nginx, "/file/7") == ("STALE", "cache")
    assert purge(nginx, 7) == 1
    second = nginx.connect()
    sent.append(second)
    second.send_request("GET", "/file/7?second")
    fake.script = answer
    # it waits: there is no old record any more
    assert nginx.request("DELETE", "/status/cache/7").status == 200
    assert nginx.access_entries("/file/7?second") == []
    fake.release()
    for connection in (first, second):
        site.assert_file(connection.read_response(), 7)
    assert nginx.logged("/file/7?second").status == "HIT"
    assert said(nginx, "/file/7") == ("HIT", "memcached")


def test_fill_begun_before_with_the_test_store(
    site: Site, delivery: str, sent: list[Connection]
) -> None:
    """The same with a store that answers by and by."""
    use_test_store(site)
    site.files.write_id("aa/7.dat", 7)
    nginx = site.start(
        slow("delay=400,value=aa/%.dat", LONG + "http_sendfile_timeout 9s;")
        + (STATUS + INTERNAL),
        http=ZONE,
    )
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/slow/7")
    wait_for(nginx, "get", 7)
    assert purge(nginx, 7) == 0
    site.assert_file(connection.read_response(), 7)
    assert said(nginx, "/slow/7") == ("HIT", "test")
    assert said(nginx, "/slow/7") == ("HIT", "cache")


def reading(site: Site, pid: str) -> bool:
    """Tell whether a process has a read transaction open in the store."""
    readers = [line.split() for line in site.store.env.readers().splitlines()]
    return any(words[0] == pid and words[-1].isdigit() for words in readers)


def check_snapshot(site: Site, nginx: Nginx, sent: list[Connection]) -> None:
    """Let a purge fall into the middle of a worker's turn of the event loop.

    LMDB's transaction lasts a turn. In one turn: a miss in /file/ that begins
    it, the purge (by another worker), a miss in /second/.

    Args:
        site: with files and records of 1 and 7, and a file aa/77.dat.
        nginx: with two workers, direct delivery, PID and STATUS.
        sent: where all connections go, to be closed.
    """
    (pid, one), (_, other) = both_workers(nginx, sent).items()
    second = nginx.connect()
    sent.append(second)
    while pid_of(second) != pid:
        second = nginx.connect()
        sent.append(second)
    site.assert_file(second.request("GET", "/second/7"), 7)
    with ExitStack() as stack:
        with stopped(int(pid)):
            one.send_request("GET", "/file/1")
            second.send_request("GET", "/second/7")
            stack.enter_context(
                slowed(int(pid), site.directory / "slow", "openat,openat2", seconds=2)
            )
        wait_until(lambda: reading(site, pid), what="the transaction")
        site.store.put(7, "aa/77.dat")
        assert purged(other.request("DELETE", "/status/cache/7")) == 1
        assert reading(site, pid), "the test was too slow"
        site.assert_file(one.read_response(), 1)
        # this one was sent before the purge, and may have either
        assert second.read_response().body in (content(7), content(77))
    for connection in (other, one, second):
        site.assert_file(connection.request("GET", "/second/7"), 77)


def add_for_snapshot(site: Site) -> None:
    """Add what ``check_snapshot`` needs."""
    site.variables["WORKERS"] = "2"
    site.variables["DELIVER"] = "%%DIRECT%%"
    for n in (1, 7, 77):
        site.files.write_id(f"aa/{n}.dat", n)
    site.store.put(1, "aa/1.dat")
    site.store.put(7, "aa/7.dat")


def test_snapshot_begun_before(site: Site, sent: list[Connection]) -> None:
    """A read transaction that is older than a purge says nothing for after it."""
    add_for_snapshot(site)
    second = FILE.replace("/file/", "/second/")
    nginx = site.start(FILE + second + PID + STATUS, http=ZONE)
    check_snapshot(site, nginx, sent)


def test_snapshot_begun_before_for_another_zone(
    site: Site, sent: list[Connection]
) -> None:
    """… nor if it was begun for another zone, that has seen more purges."""
    add_for_snapshot(site)
    nginx = site.start(FILE + PID + STATUS, http=ZONE)
    purge_all(nginx)
    wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
    second = FILE.replace("/file/", "/second/").replace("cache main", "cache second")
    nginx.reload(
        site.template(
            FILE + second + PID + STATUS, ZONE + "http_sendfile_cache_zone second:1m;"
        )
    )
    wait_until(
        lambda: len(nginx.workers()) == 2 and nginx.all_workers() == nginx.workers(),
        what="both new workers",
    )
    check_snapshot(site, nginx, sent)


def test_store_that_was_switched(site: Site, sent: list[Connection]) -> None:
    """After a new store was put in place and all purged, nothing is the old one's.

    A worker looks once a second where a store's path leads; a purge does not
    wait for that.
    """
    site.variables["WORKERS"] = "2"
    for n in range(6):
        site.files.write_id(f"aa/{n}.dat", n)
    current = site.directory / "current"
    new = site.directory / "current.new"
    stores = [site.store_at(f"store{n}") for n in range(6)]
    for n, store in enumerate(stores):
        store.put(7, f"aa/{n}.dat")
        if n % 2:
            store.put(8, f"aa/{n}.dat")
    current.symlink_to("store0")
    nginx = site.start(
        location("lmdb:%%DIR%%/current", LONG) + (PID + STATUS + INTERNAL), http=ZONE
    )
    one, other = both_workers(nginx, sent).values()
    for n in range(6):
        new.symlink_to(f"store{n}")
        new.rename(current)
        if n % 3 == 0:
            purged(one.request("DELETE", "/status/cache"))
        else:
            for key in (7, 8):
                purged(one.request("DELETE", f"/status/cache/{key}"))
        for connection in (other, one, other):
            site.assert_file(connection.request("GET", "/file/7"), n)
            response = connection.request("GET", "/file/8")
            assert response.status == (200 if n % 2 else 404)


# bodies


BODY = "http_sendfile_cache_body 100k; http_sendfile_cache_check 1h;"


@pytest.mark.parametrize("key", ["7", "8", "nosuch", ""])
def test_bodies_are_checked_anew(site: Site, key: str) -> None:
    """After any purge a body is compared with its file before it is served."""
    site.variables["DELIVER"] = "%%DIRECT%%" + BODY
    for n in (7, 8):
        site.add(n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in (7, 8)))
    nginx = site.start(FILE + STATUS, http=ZONE)
    for n in (7, 8):
        for _ in range(3):
            site.assert_file(ask(nginx, f"/file/{n}").response, n)
    replace(site.files.path("aa/7.dat"), content(77))
    site.assert_file(ask(nginx, "/file/7").response, 7)
    if key:
        purge(nginx, key)
    else:
        purge_all(nginx)
    for _ in range(3):
        site.assert_file(ask(nginx, "/file/7").response, 77)
        site.assert_file(ask(nginx, "/file/8").response, 8)


def test_bodies_are_checked_by_all_workers(site: Site, sent: list[Connection]) -> None:
    """… in whichever worker."""
    site.variables["WORKERS"] = "2"
    site.variables["DELIVER"] = "%%DIRECT%%" + BODY
    site.add(7)
    path = site.files.path("aa/7.dat")
    make_old(path)
    nginx = site.start(FILE + PID + STATUS, http=ZONE)
    one, other = both_workers(nginx, sent).values()
    for connection in (one, other, one, other):
        site.assert_file(connection.request("GET", "/file/7"), 7)
    replace(path, content(77))
    for connection in (one, other):
        site.assert_file(connection.request("GET", "/file/7"), 7)
    purged(one.request("DELETE", "/status/cache/1"))
    for connection in (other, one, other, one):
        site.assert_file(connection.request("GET", "/file/7"), 77)


def test_purge_while_a_body_is_sent(site: Site, sent: list[Connection]) -> None:
    """An answer from memory that is on its way comes to its end."""
    size = 90_000
    site.variables["DELIVER"] = "%%DIRECT%% limit_rate 40k;" + BODY
    site.add(7, size=size)
    make_old(site.files.path("aa/7.dat"))
    nginx = site.start(FILE + STATUS, http=ZONE)
    for _ in range(3):
        part = nginx.get("/file/7", {"Range": "bytes=0-9"})
        assert part.body == content(7)[:10]
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/7")
    assert connection.socket.recv(1)
    purge(nginx, 7)
    purge_all(nginx)
    replace(site.files.path("aa/7.dat"), content(8, size))
    rest = b""
    while not rest.endswith(content(7, size)[-100:]):
        data = connection.socket.recv(65536)
        if not data:
            raise ConnectionClosed("in the body")
        rest += data
    assert rest.partition(b"\r\n\r\n")[2] == content(7, size)
