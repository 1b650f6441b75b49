"""Purging: DELETE below a location with http_sendfile_status."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from urllib.parse import quote

import pytest

from lib.accept import STATIC, sendfile, use_gateway
from lib.async_store import slow, use_test_store, wait_for
from lib.cache import (
    CACHE,
    STATUS,
    ZONE,
    ask,
    is_held_up,
    let_pass,
    make_old,
    numbered,
    purge,
    purge_all,
    purge_url,
    purged,
    replace,
    said,
    slowed,
    wait_until_held_up,
)
from lib.client import Connection, ConnectionClosed, Response, from_httpx
from lib.fake_memcached import Fake, Get, Peer, answer, hold
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
    purge(nginx, 7)
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
    purge(nginx, 7)
    new = ask(nginx, "/file/7")
    site.assert_file(new.response, 7)
    assert new.said == ("HIT", "lmdb")


def test_purge_what_is_not_there(site: Site) -> None:
    """To purge a key that is not cached is no error, nor to do it twice."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    purge(nginx, 7)
    purge_all(nginx)
    for _ in range(2):
        assert said(nginx, "/file/7") == ("MISS", "lmdb")
        assert said(nginx, "/file/7") == ("NEGATIVE", "cache")
        purge(nginx, 7)
        purge(nginx, 7)


def test_purge_all(site: Site, delivery: str) -> None:
    """All records and misses go."""
    for n in range(10):
        site.add(n)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for times in (0, 1, 2):
        for _ in range(times):
            purge_all(nginx)
        for n in range(15):
            status, cached = ("HIT", "HIT") if n < 10 else ("MISS", "NEGATIVE")
            assert said(nginx, f"/file/{n}") == (status, "lmdb")
            assert said(nginx, f"/file/{n}") == (cached, "cache")


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
    purge(nginx, 7)
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

    stores = ["lmdb"] * 4 + ["memcached"] * 8

    def by_uri(key: int) -> list[str]:
        return [ask(nginx, f"{uri}{key}").entry.source for uri in uris]

    def sources(key: int) -> set[str]:
        return set(by_uri(key))

    for key in (7, 8):
        assert by_uri(key) == stores
        assert sources(key) == {"cache"}
    purge(nginx, 7)
    assert sources(8) == {"cache"}
    assert by_uri(7) == stores
    assert sources(7) == {"cache"}
    purge_all(nginx)
    assert by_uri(8) == by_uri(7) == stores


@pytest.mark.parametrize("size", ["256k", "33m", "200m"])
def test_purge_in_a_zone_of_any_size(site: Site, size: str) -> None:
    """A key is found in whichever part of the zone it is."""
    number = 300
    with site.store.env.begin(write=True) as txn:
        for n in range(number):
            txn.put(str(n).encode(), b"aa/1.dat")
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(
        "add_header X-Source $sendfile_source;" + FILE + STATUS + INTERNAL,
        http=f"http_sendfile_cache_zone main:{size};",
    )

    def asked() -> list[int]:
        """Ask for all, and return those that the store was asked for."""
        found = []
        with nginx.connect() as connection:
            for n in range(number):
                response = connection.request("GET", f"/file/{n}")
                site.assert_file(response, 1)
                source = response.header("X-Source")
                assert source in ("lmdb", "cache")
                if source == "lmdb":
                    found.append(n)
        return found

    assert asked() == list(range(number))
    assert asked() == []
    with nginx.connect() as connection:
        for n in range(0, number, 2):
            purged(connection.request("DELETE", f"/status/cache/{n}"))
    found = asked()
    assert [n for n in found if n % 2 == 0] == list(range(0, number, 2))
    # a few of the others have the place of a purged one in the clock
    assert sum(n % 2 for n in found) < number // 2 // 10
    assert asked() == []
    purge_all(nginx)
    assert asked() == list(range(number))


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
    "%#" * 125,
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
    purge(nginx, quote(key, safe=""))
    assert source(key) == "lmdb"
    assert source(key) == "cache"
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
    purge(nginx, raw)
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


# URLs: what an answer is learned for is test_learn.py's, here is how it is asked


NAMED = (
    "location /learn { http_sendfile_learn on; http_sendfile_learn_key $http_x_key;"
    f" {CACHE} %%ACCEPT%% %%PASS%% }} {STATIC}\n"
)


def start_with_names(site: Site) -> Nginx:
    """Return a server that learns at /learn by the header X-Key, whatever it is."""
    app = use_gateway(site)
    path = site.files.write_id("aa/1.dat", 1)
    app.script = lambda request: sendfile(path, ("X-Accel-Expires", "60"))
    return site.start(NAMED + FILE + STATUS + INTERNAL, http=ZONE)


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("url=http%3A%2F%2Fa%2Fb%3Fc%3Dd%26e", "http://a/b?c=d&e"),
        ("url=http://a/b?c=d&e", "http://a/b?c=d&e"),
        ("url=http://a/b&url=c", "http://a/b&url=c"),
        ("url=http://a/b%2520c", "http://a/b%20c"),
        ("url=http://a/b%20c", "http://a/b c"),
        ("url=http://a/b+c;d", "http://a/b+c;d"),
        ("url=HTTP://A/b", "http://a/B"),
        ("url=%68ttp://a/../b//c", "http://a/../b//c"),
        ("url=..%2F..%2Fa", "../../a"),
        ("url=7", "7"),
        ("url=%00%7f", None),
        ("url=http://a/" + "b" * 5000, "http://a/" + "b" * 5000),
    ],
)
def test_url_in_the_request_line(site: Site, argument: str, name: str | None) -> None:
    """It is all that follows "url=", decoded once."""
    nginx = start_with_names(site)
    keys = ["http://a/", "http", "url", "url=7", *([name] if name else [])]

    def asked_again(uri: str) -> list[str]:
        """Return the keys that a purge has the application asked again for."""
        purge_all(nginx)
        for wanted in ("app", "learned"):
            for key in keys:
                assert ask(nginx, uri, {"X-Key": key}).entry.source == wanted
        purged(nginx.request("DELETE", f"/status/cache?{argument}"))
        sources = {key: ask(nginx, uri, {"X-Key": key}).entry.source for key in keys}
        return [key for key in keys if sources[key] == "app"]

    # a URL, with its port, may share its slot with the name: not three of them
    asked = [asked_again(f"/learn?{n}") for n in range(3)]
    assert ([name] if name else []) in asked
    for again in asked:
        assert name is None or name in again


def test_url_is_no_key(site: Site) -> None:
    """What is written the same way, but is the other, stays."""
    site.add(7)
    nginx = start_with_names(site)

    def sources() -> list[str]:
        learned = ask(nginx, "/learn", {"X-Key": "7"}).entry.source
        return [ask(nginx, "/file/7").entry.source, learned]

    assert sources() == ["lmdb", "app"]
    assert sources() == ["cache", "learned"]
    purge(nginx, 7)
    assert sources() == ["lmdb", "learned"]
    purge_url(nginx, "7")
    assert sources() == ["cache", "app"]
    purge_all(nginx)
    assert sources() == ["lmdb", "app"]


@pytest.mark.parametrize(
    "arguments",
    [
        "url=",
        "url",
        "7",
        "key=7",
        "id=7",
        "URL=7",
        "x&url=7",
        "=7",
        "&",
        "?",
        "?url=7",
        "%75rl=7",
    ],
)
def test_bad_arguments(site: Site, arguments: str) -> None:
    """What is not understood is a 400; least of all does everything go."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    response = nginx.request("DELETE", f"/status/cache?{arguments}")
    assert response.status == 400
    assert "?url=URL" in json_error(response)
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
    for do in (partial(purge, nginx, 7), partial(purge_all, nginx)):
        do(status=base)
        for wanted in ("lmdb", "cache"):
            assert said(nginx, "/file/7") == ("HIT", wanted)
    purge_url(nginx, "7", base)
    assert said(nginx, "/file/7") == ("HIT", "cache")


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
        purge(nginx, quote(key, safe=""), base)
        for wanted in ("lmdb", "cache"):
            assert ask(nginx, "/file/", {"X-Key": key}).entry.source == wanted
    purge_all(nginx, base)
    for key in keys:
        assert ask(nginx, "/file/", {"X-Key": key}).entry.source == "lmdb"


def test_without_write(site: Site) -> None:
    """Without ``write`` nothing can be purged: 403."""
    site.add(7)
    nginx = site.start(
        "location /status { http_sendfile_status; }" + FILE + INTERNAL, http=ZONE
    )
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/7") == ("HIT", wanted)
    for path in (
        *("/status/cache", "/status/cache/7", "/status/cache/8"),
        *("/status/cache?url=7", "/status/cache?nosuch"),
    ):
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
    purge(nginx, 7)
    purge_url(nginx, "http://localhost/file/7")
    purge_all(nginx)


def test_connection_stays_open(site: Site) -> None:
    """After an answer of any kind the connection serves the next request."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    with nginx.connect() as connection:
        site.assert_file(connection.request("GET", "/file/7"), 7)
        for path in ("/status/cache/7", "/status/cache"):
            purged(connection.request("DELETE", path, body=b"x" * 1000))
            answer = ask(nginx, "/file/7", on=connection)
            site.assert_file(answer.response, 7)
            assert answer.said == ("HIT", "lmdb")
            purged(connection.request("DELETE", path))
        for method, path, status in (
            ("GET", "/status/cache/7", 405),
            ("HEAD", "/status/cache/7", 405),
            ("DELETE", "/status/other", 404),
            ("HEAD", "/status/other", 404),
            ("DELETE", f"/status/cache/{'x' * 251}", 400),
            ("DELETE", "/status/cache?x", 400),
        ):
            assert connection.request(method, path).status == status
        purged(connection.request("DELETE", "/status/cache"))
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
            purged(from_httpx(client.delete(target)))
            assert ask(nginx, "/file/", {"X-Key": key}).entry.source == "lmdb"
        assert client.get("/status/cache/7").status_code == 405
        assert client.delete("/status/cache/%20").status_code == 400


def test_answer_is_the_same_json_for_all(site: Site) -> None:
    """It is the same JSON for all, whether or not there was anything."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    for path in ("cache/7", "cache/nosuch", "cache?url=http://localhost/a", "cache"):
        for _ in range(2):
            response = nginx.request("DELETE", f"/status/{path}")
            assert response.status == 200
            assert response.body == b'{"purged":true}\n'
            assert response.header("Content-Length") == str(len(response.body))
        found = {"cache/7": "MISS", "cache": "MISS"}.get(path, "NEGATIVE")
        assert said(nginx, "/file/7")[0] == found


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
        purged(one.request("DELETE", path))
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
        while not stop.is_set():
            # nginx closes a connection after 1,000 requests
            with nginx.connect() as connection:
                for _ in range(500):
                    response = connection.request("GET", "/file/7")
                    if response.status != 200 or response.body not in known:
                        wrong.append(response)
                    if stop.is_set():
                        break

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
def test_fill_begun_before_is_old(
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
        purge(nginx, key)
    else:
        purge_all(nginx)
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


def test_miss_begun_before_is_old(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """A miss that was on its way is not used again either: the file is there now."""
    nginx = start(site, fake)
    fake.script = hold
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/9")
    wait_for_gets(fake, 1)
    purge(nginx, 9)
    fake.release()
    assert connection.read_response().status == 404
    add(site, fake, 9)
    new = ask(nginx, "/file/9")
    site.assert_file(new.response, 9)
    assert new.said == ("HIT", "memcached")


async def hold_what_was_there(peer: Peer, get: Get) -> None:
    """Answer with what there was when it was asked, after ``release``."""
    reply = peer.reply(get)
    await peer.hold()
    await peer.send(reply)


@pytest.mark.parametrize("key", ["7", ""])
def test_request_after_a_purge_joins_no_lookup_begun_before(
    site: Site, fake: Fake, delivery: str, sent: list[Connection], key: str
) -> None:
    """It asks once more, and has what the store has now; who comes then joins it."""
    site.files.write_id("bb/7.dat", 8)
    nginx = start(site, fake)
    fake.script = hold_what_was_there
    wanted = (7, 7, 8, 8)
    for number, _ in enumerate(wanted):
        if number == 2:
            # what it brings is known to those who come before, and only to them
            fake.put(7, "bb/7.dat")
            purged(nginx.request("DELETE", f"/status/cache{key and '/' + key}"))
            fake.script = answer
        connection = nginx.connect()
        sent.append(connection)
        assert pid_of(connection)
        connection.send_request("GET", f"/file/7?{number}")
        wait_for_gets(fake, 1 + number // 2)
        # it has come in when a request after it is answered
        assert nginx.get("/pid").status == 200
    assert fake.asked() == ["7", "7"]
    fake.release()
    for connection, file_id in zip(sent, wanted, strict=True):
        site.assert_file(connection.read_response(), file_id)
    # the younger one stays, in whichever order they were answered
    assert said(nginx, "/file/7") == ("HIT", "cache")
    site.assert_file(nginx.get("/file/7"), 8)
    assert fake.asked() == ["7", "7"]


def test_lookup_begun_before_stays_for_other_keys(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """A purge of one key lets the requests for another share theirs."""
    nginx = start(site, fake)
    fake.script = hold
    for number in range(2):
        connection = nginx.connect()
        sent.append(connection)
        connection.send_request("GET", f"/file/7?{number}")
        wait_for_gets(fake, 1)
        assert nginx.get("/pid").status == 200
        purge(nginx, 8)
    assert fake.asked() == ["7"]
    fake.release()
    for connection in sent:
        site.assert_file(connection.read_response(), 7)
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_fill_by_another_worker_is_old(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """The purge may come to another worker than the lookup."""
    site.variables["WORKERS"] = "2"
    nginx = start(site, fake)
    one, other = both_workers(nginx, sent).values()
    fake.script = hold
    one.send_request("GET", "/file/7")
    wait_for_gets(fake, 1)
    purged(other.request("DELETE", "/status/cache/7"))
    fake.script = answer
    fake.release()
    site.assert_file(one.read_response(), 7)
    assert said(nginx, "/file/7") == ("HIT", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_older_answer_does_not_displace_a_younger_one(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """What one worker has asked for before the purge comes after the other's."""
    site.variables["WORKERS"] = "2"
    site.files.write_id("bb/7.dat", 8)
    nginx = start(site, fake)
    one, other = both_workers(nginx, sent).values()
    fake.script = hold_what_was_there
    one.send_request("GET", "/file/7?one")
    wait_for_gets(fake, 1)
    fake.put(7, "bb/7.dat")
    purged(other.request("DELETE", "/status/cache/7"))
    fake.script = answer
    site.assert_file(other.request("GET", "/file/7?other"), 8)
    fake.release()
    site.assert_file(one.read_response(), 7)
    assert nginx.logged("/file/7?one").source == "memcached"
    for connection in (one, other):
        site.assert_file(connection.request("GET", "/file/7"), 8)
    assert fake.asked() == ["7", "7"]


def test_refresh_begun_before_is_old(
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
    purge(nginx, 7)
    second = nginx.connect()
    sent.append(second)
    second.send_request("GET", "/file/7?second")
    # it asks once more, and waits: there is no old record any more
    wait_for_gets(fake, 3)
    assert nginx.request("DELETE", "/status/cache/8").status == 200
    assert nginx.access_entries("/file/7?second") == []
    fake.script = answer
    fake.release()
    for connection in (first, second):
        site.assert_file(connection.read_response(), 7)
    entry = nginx.logged("/file/7?second")
    assert (entry.status, entry.source) == ("HIT", "memcached")
    # of the two the younger is kept
    assert said(nginx, "/file/7") == ("HIT", "cache")
    assert fake.asked() == ["7"] * 3


@pytest.mark.parametrize(
    ("key", "code", "wanted"),
    [
        ("7", 502, ("ERROR", "memcached")),
        ("", 502, ("ERROR", "memcached")),
        ("8", 200, ("STALE", "cache")),
    ],
)
def test_stale_record_is_purged_while_it_is_asked_anew(
    site: Site,
    fake: Fake,
    delivery: str,
    sent: list[Connection],
    key: str,
    code: int,
    wanted: tuple[str, str],
) -> None:
    """A request that has a stale record, and then no store, does not send it."""
    add(site, fake, 7)
    nginx = site.start(
        location("ids", f"{CACHE} http_sendfile_cache_valid 50ms;") + STATUS + INTERNAL,
        http=ZONE + patient(fake.url),
    )
    site.assert_file(ask(nginx, "/file/7").response, 7)
    let_pass(0.05)
    fake.script = hold
    uri = numbered("/file/7")
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", uri)
    wait_for_gets(fake, 2)
    if key:
        purge(nginx, key)
    else:
        purge_all(nginx)
    fake.hang_up()
    assert connection.read_response().status == code
    entry = nginx.logged(uri)
    assert (entry.status, entry.source) == wanted


def test_fill_begun_before_is_old_with_the_test_store(
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
    purge(nginx, 7)
    site.assert_file(connection.read_response(), 7)
    assert said(nginx, "/slow/7") == ("HIT", "test")
    assert said(nginx, "/slow/7") == ("HIT", "cache")


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
        # the record has been read, and the transaction is open
        wait_until_held_up(int(pid))
        site.store.put(7, "aa/77.dat")
        purged(other.request("DELETE", "/status/cache/7"))
        assert is_held_up(int(pid)), "the test was too slow"
        site.assert_file(one.read_response(), 1)
        calls = (site.directory / "slow").read_text().splitlines()
        held = next(line for line in calls if "openat" in line)
        assert str(site.files.root) in held
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


@pytest.mark.parametrize("key", ["7", ""])
def test_bodies_are_checked_anew(site: Site, key: str) -> None:
    """After its purge a body is compared with its file before it is served."""
    nginx = start_with_bodies(site)
    if key:
        purge(nginx, key)
    else:
        purge_all(nginx)
    for _ in range(3):
        site.assert_file(ask(nginx, "/file/7").response, 77)
        site.assert_file(ask(nginx, "/file/8").response, 8)


@pytest.mark.parametrize("key", ["7", ""])
@pytest.mark.parametrize("other", [False, True])
def test_current_link_and_a_purge(site: Site, key: str, other: bool) -> None:
    """A release that is switched to, then purged, is what is sent from then on.

    The root is looked at once a second, and again when anything is after a purge:
    what is read through an old one is not taken for new, for an hour.
    """
    for n in (1, 2):
        (site.directory / f"release{n}").mkdir()
        for name in ("7.dat", "8.dat"):
            path = site.directory / f"release{n}" / name
            path.write_bytes(content(n, 900))
            make_old(path)
    for name in ("7", "8"):
        site.store.put(int(name), f"{name}.dat")
    current = site.directory / "current"
    current.symlink_to("release1")
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {LONG} {BODY}"
        " http_sendfile_root %%DIR%%/current; }" + STATUS,
        http=ZONE,
    )
    for _ in range(20):
        for _ in range(3):
            ask(nginx, "/file/7")
        if other:
            # the root has been looked at in this very second
            ask(nginx, "/file/8")
        new = site.directory / "current.new"
        release = 3 - int(current.readlink().name[-1])
        new.symlink_to(f"release{release}")
        new.rename(current)
        if key:
            purge(nginx, key)
        else:
            purge_all(nginx)
        for _ in range(3):
            site.assert_file(ask(nginx, "/file/7").response, release, 900)


@pytest.mark.parametrize("key", ["8", "nosuch"])
def test_purge_of_another_key_leaves_a_body(site: Site, key: str) -> None:
    """A body is served until its file is looked at again, an hour later."""
    nginx = start_with_bodies(site)
    purge(nginx, key)
    for _ in range(3):
        site.assert_file(ask(nginx, "/file/7").response, 7)
    purge(nginx, 7)
    site.assert_file(ask(nginx, "/file/7").response, 77)


def start_with_bodies(site: Site) -> Nginx:
    """Return a server with the bodies of 7 and 8; the file of 7 is another now."""
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
    return nginx


def test_body_of_two_keys_is_checked_for_the_purged_one(site: Site) -> None:
    """Two IDs have one file: the other one may be answered from memory still."""
    site.variables["DELIVER"] = "%%DIRECT%%" + BODY
    site.add(7)
    site.store.put(8, "aa/7.dat")
    make_old(site.files.path("aa/7.dat"))
    nginx = site.start(FILE + STATUS, http=ZONE)
    for _ in range(3):
        for n in (7, 8):
            site.assert_file(ask(nginx, f"/file/{n}").response, 7)
    replace(site.files.path("aa/7.dat"), content(77))
    purge(nginx, 8)
    site.assert_file(ask(nginx, "/file/7").response, 7)
    for n in (8, 7, 8):
        site.assert_file(ask(nginx, f"/file/{n}").response, 77)


@pytest.mark.parametrize("key", ["/7", ""])
def test_bodies_are_checked_by_all_workers(
    site: Site, sent: list[Connection], key: str
) -> None:
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
    purged(one.request("DELETE", f"/status/cache{key}"))
    for connection in (other, one, other, one):
        site.assert_file(connection.request("GET", "/file/7"), 77)


FRONT = f"""
    location /learned/ {{ %%ACCEPT%% {CACHE} {BODY} http_sendfile_learn on; %%PASS%% }}
    location / {{ try_files $uri /index.php?$args; }}
    location = /index.php {{ %%ACCEPT%% {CACHE} {BODY} %%PASS%% }}
"""


def test_purge_reaches_bodies_behind_a_front_controller(site: Site) -> None:
    """The ID is that of the request line where a rewrite has left none."""
    app = use_gateway(site)
    path = site.files.write_id("aa/7.dat", 7)
    make_old(path)
    app.script = lambda request: sendfile(path, ("X-Accel-Expires", "60"))
    nginx = site.start(FRONT + STATUS, http=ZONE)
    for _ in range(3):
        site.assert_file(nginx.get("/learned/1"), 7)
    replace(path, content(77))
    site.assert_file(nginx.get("/document/7"), 7)
    purge(nginx, 8)
    site.assert_file(nginx.get("/document/7"), 7)
    purge(nginx, 7)
    site.assert_file(nginx.get("/document/7"), 77)


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
