"""The shared cache of records: what is asked of the store, and when."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pytest

from lib.async_store import count, slow, use_test_store, wait_for
from lib.backend import Reply
from lib.cache import (
    CACHE,
    LATE,
    ZONE,
    ask,
    let_pass,
    numbered,
    said,
)
from lib.client import Connection
from lib.clients import rails_cache
from lib.compare import assert_same
from lib.fake_memcached import Fake, Script, answer, hang_up, hold, never
from lib.files import content
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.servers import APP, FALLBACK, Servers, add, add_many, block, location, patient
from lib.site import INTERNAL, Site
from lib.turn import WARM, connections, send_at_once
from lib.wait import how_late, lateness, wait_until

pytest_plugins = ("lib.memcached_fixtures",)

LONG = "http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"


class Writable(Protocol):
    """A store that a test writes."""

    def put(self, key: int | str, value: object) -> None:
        """Store bytes and str as they are, anything else as JSON."""

    def delete(self, key: int | str) -> None:
        """Remove a key."""


@dataclass(frozen=True)
class Source:
    """A store.

    Args:
        name: as $sendfile_source says.
        url: for http_sendfile_lookup.
        store: to write to.
    """

    name: str
    url: str
    store: Writable


@pytest.fixture(autouse=True)
def _by_redirect(site: Site) -> None:
    site.variables.setdefault("DELIVER", "")


@pytest.fixture(params=["lmdb", "memcached"])
def source(site: Site, servers: Servers, request: pytest.FixtureRequest) -> Source:
    """A store of each kind."""
    if request.param == "lmdb":
        return Source("lmdb", "lmdb:%%STORE%%", site.store)
    server = servers.memcached()
    return Source("memcached", server.url, server)


@pytest.fixture
def sent() -> Iterator[list[Connection]]:
    """Connections that are closed after the test."""
    opened: list[Connection] = []
    yield opened
    for connection in opened:
        connection.close()


def cached(store: str, more: str = LONG, name: str = "file") -> str:
    """Return a location /NAME/ with the cache."""
    return location(store, f"{CACHE} {more}", name)


# what the variables say


def test_second_request_is_from_the_cache(
    site: Site, source: Source, delivery: str
) -> None:
    """The store is asked once; then the cache has the record."""
    add(site, source.store, 7)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    first = ask(nginx, "/file/7")
    site.assert_file(first.response, 7)
    assert first.said == ("HIT", source.name)
    assert float(first.entry.time) >= 0
    for _ in range(4):
        again = ask(nginx, "/file/7")
        site.assert_file(again.response, 7)
        assert again.said == ("HIT", "cache")
        assert again.entry.time == "-"
        assert again.entry.reason == "-"
        assert (again.entry.id, again.entry.key) == ("7", "7")
        assert again.entry.target == first.entry.target == "aa/7.dat"
    if isinstance(source.store, Memcached):
        assert source.store.count("cmd_get") == 1


def test_miss_is_kept(site: Site, source: Source, delivery: str) -> None:
    """What the store does not have is not asked again, either."""
    nginx = site.start(
        cached(source.url) + cached(source.url, LONG + FALLBACK, "app") + APP,
        http=ZONE,
    )
    first = ask(nginx, "/file/7")
    assert (first.response.status, *first.said) == (404, "MISS", source.name)
    for _ in range(3):
        again = ask(nginx, "/file/7")
        assert (again.response.status, *again.said) == (404, "NEGATIVE", "cache")
        assert again.entry.reason == first.entry.reason == "not in store"
        assert again.entry.time == "-"
        assert (again.entry.target, again.entry.key) == ("-", "7")
    # of the store, so of every location that asks it
    fallen_back = ask(nginx, "/app/7")
    assert fallen_back.response.text.startswith("app GET /app/7?n=")
    assert fallen_back.said == ("NEGATIVE", "app")
    if isinstance(source.store, Memcached):
        assert source.store.count("cmd_get") == 1


def test_cached_miss_falls_back_as_a_miss(site: Site, delivery: str) -> None:
    """fallback_on says for a cached miss what it says for a miss."""
    nginx = site.start(
        "http_sendfile_fallback @app;"
        + cached("lmdb:%%STORE%%", "http_sendfile_fallback_on miss;", "on")
        + cached("lmdb:%%STORE%%", "http_sendfile_fallback_on error;", "off")
        + APP,
        http=ZONE + LONG,
    )
    assert ask(nginx, "/on/7").response.text.startswith("app GET /on/7?")
    assert ask(nginx, "/on/7").said == ("NEGATIVE", "app")
    refused = ask(nginx, "/off/7")
    assert (refused.response.status, *refused.said) == (404, "NEGATIVE", "cache")
    assert len(site.app.requests) == 2


def test_miss_expires(site: Site, source: Source) -> None:
    """A miss is kept for its own time, and then the file is found."""
    valid = "http_sendfile_cache_valid 10m; http_sendfile_cache_valid 404 200ms;"
    nginx = site.start(cached(source.url, valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("MISS", source.name)
    asked = time.monotonic()
    add(site, source.store, 7)
    let_pass(0.2, asked)
    found = ask(nginx, "/file/7")
    site.assert_file(found.response, 7)
    assert found.said == ("HIT", source.name)
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_expired_record_is_asked_anew(
    site: Site, source: Source, delivery: str
) -> None:
    """After cache_valid the store says what the file is now."""
    add(site, source.store, 7)
    site.files.write_id("bb/7.dat", 8)
    valid = "http_sendfile_cache_valid 200 200ms;"
    nginx = site.start(cached(source.url, valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", source.name)
    asked = time.monotonic()
    source.store.put(7, "bb/7.dat")
    let_pass(0.2, asked)
    anew = ask(nginx, "/file/7")
    site.assert_file(anew.response, 8)
    assert anew.said == ("EXPIRED", source.name)
    assert float(anew.entry.time) >= 0
    # and is fresh again
    wait_until(
        lambda: said(nginx, "/file/7") == ("HIT", "cache"), what="a hit in the cache"
    )
    # the same record again
    let_pass(0.2)
    assert said(nginx, "/file/7") == ("EXPIRED", source.name)
    wait_until(
        lambda: said(nginx, "/file/7") == ("HIT", "cache"), what="a hit in the cache"
    )


def test_expired_record_that_is_gone(site: Site, source: Source, delivery: str) -> None:
    """A record that the store no longer has is a miss, and no stale file."""
    add(site, source.store, 7)
    valid = "http_sendfile_cache_valid 200 100ms; http_sendfile_cache_valid 404 10m;"
    nginx = site.start(cached(source.url, valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", source.name)
    asked = time.monotonic()
    source.store.delete(7)
    let_pass(0.1, asked)
    gone = ask(nginx, "/file/7")
    assert (gone.response.status, *gone.said) == (404, "MISS", source.name)
    again = ask(nginx, "/file/7")
    assert (again.response.status, *again.said) == (404, "NEGATIVE", "cache")


def test_cache_off(site: Site, source: Source) -> None:
    """A location may switch the cache off again, and asks the store each time."""
    add(site, source.store, 7)
    nginx = site.start(
        CACHE
        + location(source.url)
        + location(source.url, "http_sendfile_cache off;", "off")
        + INTERNAL,
        http=ZONE,
    )
    for _ in range(3):
        assert said(nginx, "/off/7") == ("HIT", source.name)
    assert said(nginx, "/file/7") == ("HIT", source.name)
    assert said(nginx, "/file/7") == ("HIT", "cache")
    assert said(nginx, "/off/7") == ("HIT", source.name)
    assert said(nginx, "/off/8") == said(nginx, "/off/8") == ("MISS", source.name)


def test_no_cache_by_default(site: Site, source: Source) -> None:
    """A zone alone keeps nothing."""
    add(site, source.store, 7)
    nginx = site.start(location(source.url) + INTERNAL, http=ZONE)
    for _ in range(3):
        assert said(nginx, "/file/7") == ("HIT", source.name)


# times


def test_valid_is_inherited_for_each_code(site: Site, source: Source) -> None:
    """The times for 200 and 404 are inherited each by itself; 0 keeps nothing."""
    for n in range(100, 110):
        add(site, source.store, n)
    nginx = site.start(
        LONG
        + cached(source.url, "", "both")
        + cached(source.url, "http_sendfile_cache_valid 0;", "no200")
        + cached(source.url, "http_sendfile_cache_valid 200 0s;", "no200too")
        + cached(source.url, "http_sendfile_cache_valid 404 0;", "no404")
        + cached(
            source.url,
            "http_sendfile_cache_valid 404 0ms; http_sendfile_cache_valid 0;",
            "none",
        )
        + INTERNAL,
        http=ZONE + "http_sendfile_cache_valid 0; http_sendfile_cache_valid 404 0;",
    )
    kept = {
        "both": (True, True),
        "no200": (False, True),
        "no200too": (False, True),
        "no404": (True, False),
        "none": (False, False),
    }
    for n, (name, (record, miss)) in enumerate(kept.items()):
        uri = f"/{name}/{100 + n}"
        assert said(nginx, uri) == ("HIT", source.name)
        want = ("HIT", "cache") if record else ("HIT", source.name)
        assert [said(nginx, uri) for _ in range(3)] == [want] * 3, name
        uri = f"/{name}/{200 + n}"
        assert said(nginx, uri) == ("MISS", source.name)
        want = ("NEGATIVE", "cache") if miss else ("MISS", source.name)
        assert [said(nginx, uri) for _ in range(3)] == [want] * 3, name


def test_http_level_valid_is_inherited(site: Site) -> None:
    """A server that sets one code has the other's from http."""
    for n in (1, 2):
        site.add(n)
    nginx = site.start(
        "http_sendfile_cache_valid 10m;"
        + location("lmdb:%%STORE%%", CACHE)
        + location("lmdb:%%STORE%%", CACHE + " http_sendfile_cache_valid 404 10m;", "b")
        + INTERNAL,
        http=ZONE + "http_sendfile_cache_valid 0; http_sendfile_cache_valid 404 0;",
    )
    assert said(nginx, "/file/1") == ("HIT", "lmdb")
    assert said(nginx, "/file/1") == ("HIT", "cache")
    assert said(nginx, "/file/8") == said(nginx, "/file/8") == ("MISS", "lmdb")
    assert said(nginx, "/b/2") == ("HIT", "lmdb")
    assert said(nginx, "/b/2") == ("HIT", "cache")
    assert said(nginx, "/b/9") == ("MISS", "lmdb")
    assert said(nginx, "/b/9") == ("NEGATIVE", "cache")


def test_default_times(site: Site) -> None:
    """By default records are kept for long, misses for a second."""
    site.add(1)
    nginx = site.start(cached("lmdb:%%STORE%%", "") + INTERNAL, http=ZONE)
    assert said(nginx, "/file/1") == ("HIT", "lmdb")
    # if the machine slept a second in between, once more
    wait_until(
        lambda: (
            said(nginx, "/file/2") == ("MISS", "lmdb")
            and said(nginx, "/file/2") == ("NEGATIVE", "cache")
        ),
        what="a cached miss",
    )
    let_pass(1)
    assert said(nginx, "/file/2") == ("MISS", "lmdb")
    assert said(nginx, "/file/1") == ("HIT", "cache")


def test_hits_do_not_prolong(site: Site) -> None:
    """A record that is in constant use expires as any other."""
    site.add(1)
    valid = "http_sendfile_cache_valid 300ms;"
    nginx = site.start(cached("lmdb:%%STORE%%", valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/1") == ("HIT", "lmdb")

    def is_expired() -> bool:
        what = said(nginx, "/file/1")
        assert what in (("HIT", "cache"), ("EXPIRED", "lmdb"))
        return what[0] == "EXPIRED"

    assert how_late(is_expired, "the end of its time") <= 0.3 + LATE


def test_expires_of_a_record_caps(site: Site, source: Source, delivery: str) -> None:
    """A record is not in the cache for longer than its own ``expires``."""
    expires = int(time.time()) + 2
    add(site, source.store, 7, expires=expires)
    add(site, source.store, 8, expires=expires + 1000)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for n in (7, 8):
        site.assert_file(ask(nginx, f"/file/{n}").response, n)
    assert said(nginx, "/file/8") == ("HIT", "cache")
    wait_until(lambda: time.time() > expires + 0.05, what="the record to expire")
    late = ask(nginx, "/file/7")
    site.assert_file(late.response, 7)
    assert late.entry.source == source.name
    assert said(nginx, "/file/8") == ("HIT", "cache")
    # from then on there is nothing to keep
    for _ in range(3):
        assert ask(nginx, "/file/7").entry.source == source.name


def test_expires_in_the_past(site: Site, source: Source) -> None:
    """A record that has expired already is served, and not kept."""
    add(site, source.store, 7, expires=1)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for _ in range(3):
        found = ask(nginx, "/file/7")
        site.assert_file(found.response, 7)
        assert found.said == ("HIT", source.name)


def test_expires_does_not_prolong(site: Site) -> None:
    """``expires`` far away does not keep a record beyond cache_valid."""
    site.add(7, expires=4102444800)
    valid = "http_sendfile_cache_valid 200ms;"
    nginx = site.start(cached("lmdb:%%STORE%%", valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", "lmdb")
    let_pass(0.2)
    assert said(nginx, "/file/7") == ("EXPIRED", "lmdb")


def test_not_stale_past_the_records_expires(
    site: Site, servers: Servers, delivery: str
) -> None:
    """What a record's ``expires`` forbids, a dead store does not allow."""
    server = servers.memcached()
    expires = int(time.time()) + 2
    add(site, server, 7, expires=expires)
    add(site, server, 8)
    valid = "http_sendfile_cache_valid 10ms;"
    nginx = site.start(cached(server.url, valid) + INTERNAL, http=ZONE)
    for n in (7, 8):
        site.assert_file(ask(nginx, f"/file/{n}").response, n)
    server.kill()
    let_pass(0.01)
    stale = ask(nginx, "/file/8")
    site.assert_file(stale.response, 8)
    assert stale.said == ("STALE", "cache")
    wait_until(lambda: time.time() > expires + 0.05, what="the record to expire")
    over = ask(nginx, "/file/7")
    assert (over.response.status, over.entry.status) == (502, "ERROR")
    assert said(nginx, "/file/8") == ("STALE", "cache")


def rails_entry(path: str, expires: float) -> bytes:
    """Return what ActiveSupport 7.1 writes to memcached.

    Args:
        path: the value.
        expires: Unix seconds.
    """
    entry = b"\0\x11\2" + struct.pack("<dI", expires, 0xFFFFFFFF) + path.encode()
    assert len(entry) < 123
    return b'\x04\x08"' + bytes([len(entry) + 5]) + entry


def test_expiry_of_a_rails_entry_caps(
    site: Site, memcached: Memcached, delivery: str
) -> None:
    """A Rails.cache entry is a miss when it has expired, cached or not."""
    nginx = site.start(cached(memcached.url) + INTERNAL, http=ZONE)
    site.files.write_id("aa/7.dat", 7)
    expires = time.time() + 2.5 + lateness()
    memcached.put(7, rails_entry("aa/7.dat", expires), flags=1)
    memcached.put(8, rails_entry("aa/7.dat", expires + 1000), flags=1)
    for n in (7, 8):
        site.assert_file(ask(nginx, f"/file/{n}").response, 7)
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")
    wait_until(lambda: time.time() > expires + 0.05, what="the entry to expire")
    over = ask(nginx, "/file/7")
    assert (over.response.status, *over.said) == (404, "MISS", "memcached")
    assert said(nginx, "/file/8") == ("HIT", "cache")


def test_rails_cache_expires(site: Site, memcached: Memcached) -> None:
    """The same with what Rails.cache itself writes."""
    nginx = site.start(cached(memcached.url) + INTERNAL, http=ZONE)
    site.files.write_id("aa/7.dat", 7)
    # what is over before Ruby has ended has to last for longer
    for seconds in (3, 10, 30):
        begin = time.monotonic()
        rails_cache(
            [memcached],
            {f"7{seconds}": "aa/7.dat"},
            expires_in=seconds,
            race_condition_ttl=300,
        )
        written = time.monotonic()
        found = ask(nginx, f"/file/7{seconds}")
        again = said(nginx, f"/file/7{seconds}")
        if time.monotonic() < begin + seconds:
            break
    site.assert_file(found.response, 7)
    assert again == ("HIT", "cache")
    let_pass(seconds, written)
    over = ask(nginx, f"/file/7{seconds}")
    assert (over.response.status, over.entry.source) == (404, "memcached")


# what is never kept


def test_invalid_record_is_not_kept(site: Site, source: Source, delivery: str) -> None:
    """A record that is repaired is right with the next request."""
    site.files.write_id("aa/7.dat", 7)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for value in ("../aa/7.dat", "{", "", "/etc/passwd"):
        source.store.put(7, value)
        wrong = ask(nginx, "/file/7")
        assert (wrong.response.status, *wrong.said) == (502, "INVALID", source.name)
    source.store.put(7, "aa/7.dat")
    found = ask(nginx, "/file/7")
    site.assert_file(found.response, 7)
    assert found.said == ("HIT", source.name)
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_expired_record_that_is_invalid_now(site: Site, source: Source) -> None:
    """A record that has become invalid is no reason for an old one."""
    add(site, source.store, 7)
    valid = "http_sendfile_cache_valid 100ms;"
    nginx = site.start(cached(source.url, valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", source.name)
    source.store.put(7, "../7")
    let_pass(0.1)
    for _ in range(2):
        wrong = ask(nginx, "/file/7")
        assert (wrong.response.status, *wrong.said) == (502, "INVALID", source.name)


@pytest.mark.parametrize(
    ("script", "status", "code"), [(hang_up, "ERROR", 502), (never, "TIMEOUT", 504)]
)
def test_failure_is_not_kept(
    site: Site, fake: Fake, script: Script, status: str, code: int
) -> None:
    """A store that is well again is asked by the next request."""
    add(site, fake, 7)
    timeout = "1s" if script is never else "20s"
    nginx = site.start(
        cached("ids") + INTERNAL,
        http=ZONE + patient(fake.url, f"timeout {timeout};"),
    )
    fake.script = script
    for uri in ("/file/7", "/file/8"):
        failed = ask(nginx, uri)
        assert (failed.response.status, failed.entry.status) == (code, status)
    fake.script = answer
    site.assert_file(ask(nginx, "/file/7").response, 7)
    assert said(nginx, "/file/8") == ("MISS", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")
    assert said(nginx, "/file/8") == ("NEGATIVE", "cache")


def test_bad_key_is_not_kept(site: Site, source: Source) -> None:
    """A key that no store is asked for is not in the cache, either."""
    nginx = site.start(
        cached(source.url, LONG + " http_sendfile_key $arg_k;"), http=ZONE
    )
    for _ in range(3):
        long = ask(nginx, f"/file/?k={'x' * 251}")
        assert (long.response.status, *long.said) == (404, "INVALID", "-")


def test_longest_key(site: Site, source: Source) -> None:
    """250 bytes are a key as any other."""
    site.files.write_id("aa/7.dat", 7)
    key = "x" * 250
    source.store.put(key, "aa/7.dat")
    nginx = site.start(
        cached(source.url, LONG + " http_sendfile_key $arg_k;") + INTERNAL, http=ZONE
    )
    assert said(nginx, f"/file/?k={key}") == ("HIT", source.name)
    assert said(nginx, f"/file/?k={key}") == ("HIT", "cache")
    assert said(nginx, f"/file/?k={key[1:]}") == ("MISS", source.name)


def test_late_answer_is_not_kept(site: Site, fake: Fake) -> None:
    """An answer after its deadline is for nobody, nor for the cache."""
    add(site, fake, 7)
    nginx = site.start(
        cached("ids", "http_sendfile_cache_valid 10m;") + INTERNAL,
        http=ZONE + patient(fake.url, "timeout 200ms;"),
    )
    fake.script = hold
    assert ask(nginx, "/file/7").entry.status == "TIMEOUT"
    fake.script = answer
    fake.release()
    assert ask(nginx, "/file/7").entry.source == "memcached"


# stale


def expired(
    site: Site, fake: Fake, use_stale: str, more: str = "", timeout: str = "20s"
) -> Nginx:
    """Return a server whose cache has an expired record of 7.

    Args:
        site: whose server.
        fake: its store.
        use_stale: the directive's values; the default if empty.
        more: directives of the location.
        timeout: of the store.
    """
    add(site, fake, 7)
    directive = f"http_sendfile_cache_use_stale {use_stale};" if use_stale else ""
    nginx = site.start(
        cached("ids", f"http_sendfile_cache_valid 50ms; {directive} {more}")
        + (INTERNAL + APP + WARM),
        http=ZONE + patient(fake.url, f"timeout {timeout};"),
    )
    found = ask(nginx, "/file/7")
    site.assert_file(found.response, 7)
    assert found.said == ("HIT", "memcached")
    let_pass(0.05)
    return nginx


USE_STALE = [
    ("off", hang_up, None),
    ("off", never, None),
    ("error", hang_up, "STALE"),
    ("error", never, None),
    ("timeout", hang_up, None),
    ("timeout", never, "STALE"),
    ("updating", hang_up, None),
    ("updating", never, None),
    ("error timeout", hang_up, "STALE"),
    ("timeout error", never, "STALE"),
    ("", hang_up, "STALE"),
    ("", never, "STALE"),
]


@pytest.mark.parametrize(("use_stale", "script", "status"), USE_STALE)
def test_use_stale(
    site: Site,
    fake: Fake,
    delivery: str,
    use_stale: str,
    script: Script,
    status: str | None,
) -> None:
    """Each value of use_stale is for its own failure."""
    timeout = "1s" if script is never else "20s"
    nginx = expired(site, fake, use_stale, timeout=timeout)
    fake.script = script
    got = ask(nginx, "/file/7")
    lines = [s for s in nginx.errors("error") if "stale" in s]
    if status is None:
        code = 502 if script is hang_up else 504
        wanted = "ERROR" if script is hang_up else "TIMEOUT"
        assert (got.response.status, *got.said) == (code, wanted, "memcached")
        assert lines == []
    else:
        site.assert_file(got.response, 7)
        assert got.said == ("STALE", "cache")
        # the log says why; of what was sent there is nothing to be said
        assert got.entry.reason == "-"
        assert len(lines) == 1, lines
        assert 'key "7"' in lines[0] and "served stale" in lines[0]
    # well again: asked anew, whatever was served meanwhile
    fake.script = answer
    let_pass(0.05)
    anew = ask(nginx, "/file/7")
    site.assert_file(anew.response, 7)
    assert anew.said == ("EXPIRED", "memcached")


def test_use_stale_is_inherited(site: Site, fake: Fake) -> None:
    """A location's use_stale takes the place of the server's."""
    add(site, fake, 7)
    add(site, fake, 8)
    nginx = site.start(
        "http_sendfile_cache_valid 50ms; http_sendfile_cache_use_stale off;"
        + location("ids", CACHE)
        + location("ids", f"{CACHE} http_sendfile_cache_use_stale error;", "b")
        + INTERNAL,
        http=ZONE + patient(fake.url),
    )
    for uri in ("/file/7", "/b/8"):
        assert said(nginx, uri) == ("HIT", "memcached")
    let_pass(0.05)
    fake.script = hang_up
    assert ask(nginx, "/file/7").entry.status == "ERROR"
    assert said(nginx, "/b/8") == ("STALE", "cache")


def test_stale_before_the_fallback(site: Site, fake: Fake, delivery: str) -> None:
    """While there is an old record the application is not asked."""
    nginx = expired(site, fake, "", FALLBACK)
    fake.script = hang_up
    for _ in range(5):
        got = ask(nginx, "/file/7")
        site.assert_file(got.response, 7)
        assert got.said == ("STALE", "cache")
    assert site.app.requests == []
    assert ask(nginx, "/file/8").response.text.startswith("app GET /file/8?")


def test_no_stale_miss(site: Site, fake: Fake) -> None:
    """A miss of old is not served while the store fails: it may be a file now."""
    nginx = site.start(
        cached("ids", "http_sendfile_cache_valid 404 50ms;"),
        http=ZONE + patient(fake.url),
    )
    assert said(nginx, "/file/7") == ("MISS", "memcached")
    let_pass(0.05)
    fake.script = hang_up
    failed = ask(nginx, "/file/7")
    assert (failed.response.status, *failed.said) == (502, "ERROR", "memcached")


def test_stale_with_everything(site: Site, fake: Fake, delivery: str) -> None:
    """A stale record has its type, name and headers, and serves ranges."""
    add(
        site,
        fake,
        7,
        type="image/x-mine",
        name="写真.jpg",
        headers={"Cache-Control": "max-age=60"},
    )
    nginx = site.start(
        cached("ids", "http_sendfile_cache_valid 50ms;") + INTERNAL,
        http=ZONE + patient(fake.url),
    )
    whole = nginx.get("/file/7")
    part = nginx.get("/file/7", {"Range": "bytes=5-9"})
    head = nginx.head("/file/7")
    fake.script = hang_up
    let_pass(0.05)
    assert_same(ask(nginx, "/file/7").response, whole)
    assert_same(ask(nginx, "/file/7", {"Range": "bytes=5-9"}).response, part)
    assert_same(ask(nginx, "/file/7", method="HEAD").response, head)
    assert said(nginx, "/file/7") == ("STALE", "cache")
    assert (part.status, part.body) == (206, content(7)[5:10])


def wait_for_gets(fake: Fake, number: int) -> None:
    """Wait until the fake has been asked for so many keys."""
    wait_until(lambda: len(fake.asked()) >= number, what=f"{number} keys asked for")


def test_one_asks_while_the_others_have_the_old_record(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """One request asks, the others have the old record at once."""
    nginx = expired(site, fake, "updating")
    fake.put(7, "bb/7.dat")
    site.files.write_id("bb/7.dat", 8)
    fake.script = hold
    first = nginx.connect()
    sent.append(first)
    uri = numbered("/file/7")
    first.send_request("GET", uri)
    wait_for_gets(fake, 2)
    assert fake.asked() == ["7", "7"]
    # more than one: whoever comes while the lookup is on its way
    others = [ask(nginx, "/file/7") for _ in range(3)]
    fake.release()
    new = first.read_response()
    for other in others:
        site.assert_file(other.response, 7)
        assert other.said == ("STALE", "cache")
    assert fake.asked() == ["7", "7"]
    site.assert_file(new, 8)
    entry = nginx.logged(uri)
    assert (entry.status, entry.source) == ("EXPIRED", "memcached")
    assert not [s for s in nginx.errors("error") if "stale" in s]
    site.assert_file(ask(nginx, "/file/7").response, 8)


@pytest.mark.parametrize("use_stale", ["off", "error", "timeout", "error timeout"])
def test_without_updating_all_wait(
    site: Site, fake: Fake, use_stale: str, sent: list[Connection]
) -> None:
    """Without ``updating`` all wait for the one lookup."""
    nginx = expired(site, fake, use_stale)
    site.files.write_id("bb/7.dat", 8)
    fake.put(7, "bb/7.dat")
    fake.script = hold
    uris = [numbered("/file/7") for _ in range(5)]
    sent += send_at_once(nginx, uris)
    wait_for_gets(fake, 2)
    fake.release()
    for uri, connection in zip(uris, sent, strict=True):
        site.assert_file(connection.read_response(), 8)
        entry = nginx.logged(uri)
        assert (entry.status, entry.source) == ("EXPIRED", "memcached")
    assert fake.asked() == ["7", "7"]


def test_updating_needs_an_old_record(
    site: Site, fake: Fake, sent: list[Connection]
) -> None:
    """Without an old record all wait for the one lookup."""
    add(site, fake, 7)
    nginx = site.start(cached("ids") + (INTERNAL + WARM), http=ZONE + patient(fake.url))
    fake.script = hold
    uris = [numbered(f"/file/{n}") for n in (7, 7, 8, 7, 8)]
    sent += send_at_once(nginx, uris)
    wait_for_gets(fake, 2)
    fake.release()
    for n, connection in zip((7, 7, 8, 7, 8), sent, strict=True):
        response = connection.read_response()
        if n == 7:
            site.assert_file(response, 7)
        assert response.status == (200 if n == 7 else 404)
    assert fake.asked() == ["7", "8"]
    assert said(nginx, "/file/7") == ("HIT", "cache")
    assert said(nginx, "/file/8") == ("NEGATIVE", "cache")


def test_updating_after_the_client_has_left(
    site: Site, fake: Fake, sent: list[Connection]
) -> None:
    """If the one who asks leaves, another one asks."""
    nginx = expired(site, fake, "updating")
    fake.script = hold
    first = nginx.connect()
    uri = numbered("/file/7")
    first.send_request("GET", uri)
    wait_for_gets(fake, 2)
    assert said(nginx, "/file/7") == ("STALE", "cache")
    first.close()
    assert nginx.logged(uri).code == 499
    second = nginx.connect()
    sent.append(second)
    uri = numbered("/file/7")
    second.send_request("GET", uri)
    wait_for_gets(fake, 3)
    fake.release()
    site.assert_file(second.read_response(), 7)
    assert nginx.logged(uri).status == "EXPIRED"


def test_updating_with_the_test_store(
    site: Site, delivery: str, sent: list[Connection]
) -> None:
    """The same with a store that answers by and by."""
    use_test_store(site)
    site.files.write_id("aa/7.dat", 7)
    more = f"{CACHE} http_sendfile_cache_valid 50ms; http_sendfile_timeout 9s;"
    nginx = site.start(slow("delay=600,value=aa/%.dat", more) + INTERNAL, http=ZONE)
    site.assert_file(ask(nginx, "/slow/7").response, 7)
    let_pass(0.05)
    uri = numbered("/slow/7")
    first = nginx.connect()
    sent.append(first)
    first.send_request("GET", uri)
    wait_for(nginx, "get", 7, 2)
    for _ in range(3):
        other = ask(nginx, "/slow/7")
        site.assert_file(other.response, 7)
        assert other.said == ("STALE", "cache")
        assert other.entry.time == "-"
    assert (count(nginx, "get"), count(nginx, "done")) == (2, 1)
    site.assert_file(first.read_response(), 7)
    entry = nginx.logged(uri)
    assert (entry.status, entry.source) == ("EXPIRED", "test")
    assert float(entry.time) >= 0.6


def test_500_requests_at_once(
    site: Site, fake: Fake, delivery: str, sent: list[Connection]
) -> None:
    """A stampede for one key is one lookup, and then none."""
    add(site, fake, 7)
    template = site.template(
        cached("ids") + (INTERNAL + WARM), ZONE + patient(fake.url)
    ).replace("worker_connections 256", "worker_connections 2048")
    nginx = site.start_whole(template)
    fake.script = hold
    sent += connections(nginx, 300)
    send_at_once(nginx, ["/file/7"] * 300, sent)
    wait_for_gets(fake, 1)
    fake.release()
    for connection in sent:
        site.assert_file(connection.read_response(), 7)
    send_at_once(nginx, ["/file/7?again"] * 300, sent)
    for connection in sent:
        site.assert_file(connection.read_response(), 7)
    assert fake.asked() == ["7"]
    nginx.logged("/file/7?again", 300)
    entries = nginx.access_entries("/file/7?again")
    assert {(e.status, e.source) for e in entries} == {("HIT", "cache")}


# a store that is down


def test_memcached_is_killed(site: Site, memcached: Memcached, delivery: str) -> None:
    """While memcached is down, files are served from old records."""
    add_many(site, memcached, range(5))
    valid = "http_sendfile_cache_valid 100ms;"
    nginx = site.start(
        cached("ids", valid) + INTERNAL,
        http=ZONE + block([f"{memcached.url} max_fails=2 fail_timeout=100ms"]),
    )
    for n in range(5):
        assert said(nginx, f"/file/{n}") == ("HIT", "memcached")
    memcached.kill()
    let_pass(0.1)
    # connections refused first, then the breaker
    for _ in range(3):
        for n in range(5):
            stale = ask(nginx, f"/file/{n}")
            site.assert_file(stale.response, n)
            assert stale.said == ("STALE", "cache")
    assert ask(nginx, "/file/9").response.status == 502
    memcached.start()
    for n in range(5):
        memcached.put(n, f"aa/{4 - n}.dat")
    wait_until(
        lambda: said(nginx, "/file/0") == ("EXPIRED", "memcached"),
        what="memcached to be asked again",
    )
    let_pass(0.1)
    for n in range(5):
        site.assert_file(ask(nginx, f"/file/{n}").response, 4 - n)


def test_memcached_hangs(site: Site, memcached: Memcached, delivery: str) -> None:
    """While memcached hangs, files are served from old records."""
    add_many(site, memcached, range(5))
    valid = "http_sendfile_cache_valid 100ms;"
    nginx = site.start(
        cached("ids", valid) + INTERNAL,
        http=ZONE
        + block([f"{memcached.url} max_fails=1 fail_timeout=1s"], "timeout 600ms;"),
    )
    for n in range(5):
        assert said(nginx, f"/file/{n}") == ("HIT", "memcached")
    let_pass(0.1)
    memcached.pause()
    try:
        for n in range(5):
            stale = ask(nginx, f"/file/{n}")
            site.assert_file(stale.response, n)
            assert stale.said == ("STALE", "cache")
        assert ask(nginx, "/file/9").response.status in (502, 504)
    finally:
        memcached.resume()
    wait_until(
        lambda: said(nginx, "/file/0") == ("EXPIRED", "memcached"),
        what="memcached to be asked again",
    )


def test_lmdb_is_gone(site: Site, delivery: str) -> None:
    """While the LMDB environment is away, files are served from old records."""
    store = site.store_at("other.lmdb")
    add(site, store, 7)
    valid = "http_sendfile_cache_valid 100ms;"
    nginx = site.start(cached("lmdb:%%DIR%%/other.lmdb", valid) + INTERNAL, http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", "lmdb")
    store.close()
    (store.path / "data.mdb").write_bytes(b"")
    wait_until(
        lambda: said(nginx, "/file/7") == ("STALE", "cache"), what="the store to fail"
    )
    stale = ask(nginx, "/file/7")
    site.assert_file(stale.response, 7)
    assert ask(nginx, "/file/8").response.status == 502
    shutil.rmtree(store.path)


# what a record is kept under


def test_two_stores_are_not_mixed(
    site: Site, servers: Servers, memcached: Memcached, delivery: str
) -> None:
    """One key in three stores is three records."""
    other = servers.memcached()
    stores: list[Writable] = [site.store, memcached, other]
    for n, store in enumerate(stores):
        site.files.write_id(f"aa/{n}.dat", n)
        store.put(7, f"aa/{n}.dat")
    urls = ["lmdb:%%STORE%%", memcached.url, other.url]
    site.store.put(30, "aa/0.dat")
    nginx = site.start(
        "".join(cached(url, name=f"s{n}") for n, url in enumerate(urls)) + INTERNAL,
        http=ZONE,
    )
    for round_ in range(4):
        for n in (0, 1, 2) if round_ % 2 else (2, 1, 0):
            got = ask(nginx, f"/s{n}/7")
            site.assert_file(got.response, n)
            assert got.said[1] == (
                "cache" if round_ else ("lmdb", "memcached", "memcached")[n]
            )
            missed = ask(nginx, f"/s{n}/30")
            assert missed.response.status == (200 if n == 0 else 404)


def test_two_formats_are_not_mixed(site: Site, source: Source, delivery: str) -> None:
    """One key read in two formats is two records."""
    value = '{"path":"aa/1.dat"}'
    site.files.write_id("aa/1.dat", 1)
    site.files.write_id(value, 2)
    source.store.put(7, value)
    formats = ("auto", "path", "json", "marshal")
    nginx = site.start(
        "".join(
            cached(source.url, f"{LONG} http_sendfile_format {format_};", format_)
            for format_ in formats
        )
        + "location ^~ /files/ { internal; alias %%FILES%%/; }",
        http=ZONE,
    )
    for round_ in range(3):
        for format_ in formats if round_ % 2 else reversed(formats):
            got = ask(nginx, f"/{format_}/7")
            if format_ == "marshal":
                assert got.said == ("INVALID", source.name)
                continue
            site.assert_file(got.response, 2 if format_ == "path" else 1)
            assert got.said == ("HIT", "cache" if round_ else source.name)


def test_two_keys_are_not_mixed(site: Site, source: Source) -> None:
    """A key is all of its bytes."""
    keys = ["7", "07", "77", "7:", ":7", "7/", "a" * 250, "a" * 249, "A" * 249, "%37"]
    for n, key in enumerate(keys):
        site.files.write_id(f"aa/{n}.dat", n)
        source.store.put(key, f"aa/{n}.dat")
    nginx = site.start(
        cached(source.url, LONG + " http_sendfile_key $arg_k;") + INTERNAL, http=ZONE
    )
    for round_ in range(3):
        for n, key in enumerate(keys):
            got = ask(nginx, f"/file/?k={key}")
            site.assert_file(got.response, n)
            assert got.said == ("HIT", "cache" if round_ else source.name)


def test_locations_share_what_is_cached(site: Site, source: Source) -> None:
    """Locations with one store and format share records, each with its own root."""
    for n in (1, 2):
        site.files.write_id(f"root{n}/aa/7.dat", n)
    source.store.put(7, "aa/7.dat")
    nginx = site.start(
        cached(source.url, LONG + " http_sendfile_root %%FILES%%/root1;", "a")
        + cached(source.url, LONG + " http_sendfile_root %%FILES%%/root2;", "b")
        + cached(source.url, LONG + " http_sendfile_prefix /files/root1/;", "c")
        + INTERNAL,
        http=ZONE,
    )
    assert said(nginx, "/a/7") == ("HIT", source.name)
    for _ in range(3):
        for name, wanted in (("a", 1), ("b", 2), ("c", 1)):
            got = ask(nginx, f"/{name}/7")
            site.assert_file(got.response, wanted)
            assert got.said == ("HIT", "cache")


def test_two_zones(site: Site, source: Source) -> None:
    """Each zone has its own records."""
    add(site, source.store, 7)
    nginx = site.start(
        location(source.url, "http_sendfile_cache one;", "a")
        + location(source.url, "http_sendfile_cache two;", "b")
        + INTERNAL,
        http="http_sendfile_cache_zone one:256k;\nhttp_sendfile_cache_zone two:8m;\n",
    )
    for name in ("a", "b"):
        assert said(nginx, f"/{name}/7") == ("HIT", source.name)
        assert said(nginx, f"/{name}/7") == ("HIT", "cache")


def test_all_workers_share(site: Site, memcached: Memcached, delivery: str) -> None:
    """What one worker has learned all of them know."""
    site.variables["WORKERS"] = "2"
    add(site, memcached, 7)
    nginx = site.start(
        "add_header X-Pid $pid always;" + cached(memcached.url) + INTERNAL, http=ZONE
    )
    site.assert_file(ask(nginx, "/file/7").response, 7)
    pids = set()

    def both() -> bool:
        got = ask(nginx, "/file/7")
        site.assert_file(got.response, 7)
        assert got.said == ("HIT", "cache")
        pids.add(got.response.header("X-Pid"))
        return len(pids) == 2

    wait_until(both, what="an answer of each worker")
    assert memcached.count("cmd_get") == 1


# what is kept


EVERYTHING: dict[str, object] = {
    "type": "image/x-record",
    "name": 'Ü b "er" sicht — 写真.jpg',
    "disposition": "attachment",
    "headers": {
        "Cache-Control": "public, max-age=31536000",
        "Expires": "Thu, 01 Jan 2099 00:00:00 GMT",
        "ETag": '"record-7"',
        "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT",
        "Content-Language": "ja",
        "Vary": "Origin",
        "Link": "</a>; rel=next",
        "Content-Security-Policy": "default-src 'none'",
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "ETag",
        "X-Robots-Tag": "none",
        "X-Frame-Options": "DENY",
    },
}

RECORDS: dict[str, dict[str, object]] = {
    "everything": EVERYTHING,
    "type": {"type": "text/x-only-type"},
    "name": {"name": "only.pdf"},
    "disposition": {"disposition": "attachment"},
    "header": {"headers": {"ETag": 'W/"weak"'}},
    "encoding": {"headers": {"Content-Encoding": "br", "Vary": "Accept-Encoding"}},
    "empty": {"headers": {}},
    "long": {"headers": {"Content-Security-Policy": "x" * 3000}, "name": "n" * 200},
}

REQUESTS: list[tuple[str, dict[str, str]]] = [
    ("GET", {}),
    ("HEAD", {}),
    ("GET", {"Range": "bytes=0-9"}),
    ("GET", {"Range": "bytes=0-9,20-29"}),
    ("GET", {"Range": "bytes=5000-"}),
    ("GET", {"If-None-Match": '"record-7"'}),
    ("GET", {"If-None-Match": "*"}),
    ("GET", {"If-Modified-Since": "Wed, 01 Jan 2020 00:00:00 GMT"}),
    ("GET", {"If-Match": '"other"'}),
    ("GET", {"Range": "bytes=0-9", "If-Range": '"record-7"'}),
]


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_the_same_from_the_cache(
    site: Site, source: Source, delivery: str, record: str
) -> None:
    """Type, name and headers come from the cache as they come from the store."""
    site.files.write_id("aa/7.dat", 7)
    source.store.put(7, {"path": "aa/7.dat", **RECORDS[record]})
    nginx = site.start(
        cached(source.url) + location(source.url, name="store") + INTERNAL, http=ZONE
    )
    assert_same(ask(nginx, "/file/7").response, nginx.get("/store/7"))
    for method, headers in REQUESTS:
        got = ask(nginx, "/file/7", headers, method)
        assert_same(got.response, nginx.request(method, "/store/7", headers))
        assert got.said == ("HIT", "cache")


PATHS = [
    "a",
    "a b/c d.txt",
    "100%/%41.html",
    "what?/is#this.css",
    "x{}.png",
    "ä/写真.jpg",
    "\\x/'\"$uri.pdf",
    "x" * 255 + "/" + "y" * 251 + ".txt",
    "/".join(["d" * 99] * 25) + "/z.txt",
]


@pytest.mark.parametrize("path", PATHS)
def test_path_is_the_same_from_the_cache(
    site: Site, source: Source, delivery: str, path: str
) -> None:
    """A path is kept byte by byte."""
    site.files.write_id(path, 7)
    source.store.put(7, path)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    first = ask(nginx, "/file/7")
    site.assert_file(first.response, 7)
    for _ in range(2):
        got = ask(nginx, "/file/7")
        assert_same(got.response, first.response)
        assert (*got.said, got.entry.target) == ("HIT", "cache", path)


def test_record_that_is_too_large(site: Site, source: Source, delivery: str) -> None:
    """A record that the zone has no place for is served all the same."""
    record = {"path": "aa/7.dat", "headers": {"ETag": '"7"'}, "pad": "p" * 60_000}
    policy = {"Content-Security-Policy": "x" * 40_000}
    site.files.write_id("aa/7.dat", 7)
    source.store.put(7, json.dumps(record))
    source.store.put(8, {"path": "aa/7.dat", "headers": policy})
    nginx = site.start(
        cached(source.url) + INTERNAL, http="http_sendfile_cache_zone main:256k;"
    )
    for _ in range(4):
        for n in (7, 8):
            response = site.assert_file(ask(nginx, f"/file/{n}").response, 7)
        assert response.all("Content-Security-Policy") == list(policy.values())


# a file that has vanished


def test_file_has_moved(site: Site, source: Source) -> None:
    """A file that is not where the cache says: the store is asked once more."""
    site.variables["DELIVER"] = "%%DIRECT%%"
    add(site, source.store, 7)
    nginx = site.start(cached(source.url), http=ZONE)
    assert said(nginx, "/file/7") == ("HIT", source.name)
    assert said(nginx, "/file/7") == ("HIT", "cache")
    (site.files.root / "bb").mkdir()
    site.files.path("aa/7.dat").rename(site.files.path("bb/7.dat"))
    source.store.put(7, "bb/7.dat")
    moved = ask(nginx, "/file/7")
    site.assert_file(moved.response, 7)
    assert (moved.entry.source, moved.entry.target) == (source.name, "bb/7.dat")
    assert moved.entry.reason == "-"
    again = ask(nginx, "/file/7")
    site.assert_file(again.response, 7)
    assert again.said == ("HIT", "cache")


def test_file_has_vanished(site: Site, memcached: Memcached) -> None:
    """If the store does not know better it is a 404, after one lookup."""
    site.variables["DELIVER"] = "%%DIRECT%%"
    add(site, memcached, 7)
    nginx = site.start(
        cached(memcached.url) + cached(memcached.url, LONG + FALLBACK, "app") + APP,
        http=ZONE,
    )
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/7").response, 7)
    site.files.path("aa/7.dat").unlink()
    for n in range(3):
        asked = memcached.count("cmd_get")
        got = ask(nginx, "/file/7")
        assert (got.response.status, got.entry.source) == (404, "memcached")
        assert memcached.count("cmd_get") <= asked + 1
        text = ask(nginx, "/app/7").response.text
        assert text.startswith("app GET /app/7?")
    assert memcached.count("cmd_get") > 1
    # and back
    site.files.write_id("aa/7.dat", 7)
    site.assert_file(ask(nginx, "/file/7").response, 7)


def test_file_and_record_have_vanished(site: Site, source: Source) -> None:
    """If the store no longer has the record either it is a miss."""
    site.variables["DELIVER"] = "%%DIRECT%%"
    add(site, source.store, 7)
    nginx = site.start(cached(source.url), http=ZONE)
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/7").response, 7)
    site.files.path("aa/7.dat").unlink()
    source.store.delete(7)
    gone = ask(nginx, "/file/7")
    assert (gone.response.status, *gone.said) == (404, "MISS", source.name)
    gone = ask(nginx, "/file/7")
    assert (gone.response.status, *gone.said) == (404, "NEGATIVE", "cache")


def test_file_has_vanished_and_the_store_too(site: Site, memcached: Memcached) -> None:
    """If the store cannot be asked it is its error."""
    site.variables["DELIVER"] = "%%DIRECT%%"
    add(site, memcached, 7)
    nginx = site.start(cached(memcached.url), http=ZONE)
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/7").response, 7)
    site.files.path("aa/7.dat").unlink()
    memcached.kill()
    for _ in range(2):
        got = ask(nginx, "/file/7")
        assert (got.response.status, *got.said) == (502, "ERROR", "memcached")


def test_redirect_to_a_vanished_file(site: Site, source: Source) -> None:
    """After a redirect the missing file is the target location's 404."""
    site.variables["DELIVER"] = ""
    add(site, source.store, 7)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/7").response, 7)
    site.files.path("aa/7.dat").unlink()
    got = ask(nginx, "/file/7")
    assert (got.response.status, *got.said) == (404, "HIT", "cache")


# kinds of requests


def test_head_fills_and_uses(site: Site, source: Source, delivery: str) -> None:
    """HEAD is a request as GET is."""
    add(site, source.store, 7)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for wanted in (source.name, "cache", "cache"):
        head = ask(nginx, "/file/7", method="HEAD")
        assert head.said == ("HIT", wanted)
        assert (head.response.status, head.response.body) == (200, b"")
        assert head.response.header("Content-Length") == "400"
    got = ask(nginx, "/file/7")
    site.assert_file(got.response, 7)
    assert got.said == ("HIT", "cache")
    for status, where in (("MISS", source.name), ("NEGATIVE", "cache")):
        head = ask(nginx, "/file/8", method="HEAD")
        assert (head.response.status, *head.said) == (404, status, where)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_pass_by(
    site: Site, source: Source, delivery: str, method: str
) -> None:
    """A method other than GET and HEAD goes to the application, cached or not."""
    add(site, source.store, 7)
    nginx = site.start(
        cached(source.url, LONG + FALLBACK) + (APP + INTERNAL), http=ZONE
    )
    for uri in ("/file/7", "/file/8"):
        for _ in range(3):
            got = ask(nginx, uri, method=method)
            assert got.response.text.startswith(f"app {method} {uri}?")
            assert got.said == ("BYPASS", "app")
    # nothing was looked up
    assert said(nginx, "/file/7") == ("HIT", source.name)
    assert ask(nginx, "/file/8").entry.status == "MISS"
    for _ in range(2):
        assert said(nginx, "/file/7") == ("HIT", "cache")
        assert ask(nginx, "/file/7", method=method).said == ("BYPASS", "app")


def test_subrequests(site: Site, source: Source, delivery: str) -> None:
    """Subrequests fill the cache and are answered from it."""
    for n in (1, 2):
        add(site, source.store, n)
    numbers = (1, 2, 1, 3, 2)
    page = "".join(f'<!--# include virtual="/file/{n}" -->\n' for n in numbers)
    site.html.write("page/x.html", page.encode())
    nginx = site.start(
        cached(source.url, LONG + FALLBACK)
        + "location @app { return 200 missing; } location /page/ { ssi on; }"
        + INTERNAL,
        http=ZONE,
    )
    wanted = b"".join((b"missing" if n == 3 else content(n)) + b"\n" for n in numbers)
    for _ in range(4):
        assert nginx.get("/page/x.html").body == wanted
    for n in (1, 2):
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")
    if isinstance(source.store, Memcached):
        assert source.store.count("cmd_get") == 3


def test_ranges_and_conditions(site: Site, source: Source, delivery: str) -> None:
    """A hit in the cache is a file as any other."""
    add(site, source.store, 7)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    part = ask(nginx, "/file/7", {"Range": "bytes=10-19"})
    tag = part.response.header("ETag") or ""
    assert tag
    for _ in range(3):
        part = ask(nginx, "/file/7", {"Range": "bytes=10-19"})
        assert (part.response.status, part.said) == (206, ("HIT", "cache"))
        assert part.response.body == content(7)[10:20]
        same = ask(nginx, "/file/7", {"If-None-Match": tag})
        assert (same.response.status, same.said) == (304, ("HIT", "cache"))


def test_pipelined_requests(site: Site, source: Source, delivery: str) -> None:
    """Answers from the cache and from the store come in the order of the requests."""
    for n in range(20):
        add(site, source.store, n)
    nginx = site.start(cached(source.url) + INTERNAL, http=ZONE)
    for n in range(0, 20, 2):
        site.assert_file(nginx.get(f"/file/{n}"), n)
    with nginx.connect() as connection:
        for n in range(20):
            connection.send_request("GET", f"/file/{n}")
        for n in range(20):
            site.assert_file(connection.read_response(), n)


def test_http2(site: Site, source: Source, delivery: str) -> None:
    """Streams of one connection are answered from cache and store alike."""
    for n in range(20):
        add(site, source.store, n)
    nginx = site.start(site.http2_listen() + cached(source.url) + INTERNAL, http=ZONE)
    with nginx.http2("h2") as client:
        for _ in range(2):
            for n in range(20):
                assert client.get(f"/file/{n}").content == content(n)
    assert said(nginx, "/file/19") == ("HIT", "cache")


def test_x_accel_redirect_to_an_id(site: Site, source: Source, delivery: str) -> None:
    """An application's X-Accel-Redirect leads to what the cache has."""
    add(site, source.store, 7)
    nginx = site.start(
        "location /app/ { proxy_pass http://127.0.0.1:%%PORT%%/accel/; }"
        "location /accel/ { add_header X-Accel-Redirect /file/7; return 200; }"
        + cached(source.url)
        + INTERNAL,
        http=ZONE,
    )
    for _ in range(3):
        site.assert_file(nginx.get("/app/"), 7)
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_application_sends_to_another_id(
    site: Site, source: Source, delivery: str
) -> None:
    """A cached miss whose application answers with another ID, which is cached."""
    add(site, source.store, 7)
    nginx = site.start(
        cached(source.url, LONG + FALLBACK) + (APP + INTERNAL), http=ZONE
    )
    site.app.script = lambda request: Reply(headers={"X-Accel-Redirect": "/file/7"})
    for wanted in (source.name, "cache", "cache"):
        got = ask(nginx, "/file/8")
        site.assert_file(got.response, 7)
        assert (*got.said, got.entry.key) == ("HIT", wanted, "7")
    if isinstance(source.store, Memcached):
        assert source.store.count("cmd_get") == 2


def test_access_rules_come_first(site: Site, source: Source, delivery: str) -> None:
    """Who is denied learns nothing of what the cache has."""
    add(site, source.store, 7)
    nginx = site.start(
        cached(source.url)
        + cached(source.url, LONG + "deny all;", "denied")
        + INTERNAL,
        http=ZONE,
    )
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/7").response, 7)
        denied = ask(nginx, "/denied/7")
        assert (denied.response.status, *denied.said) == (403, "-", "-")
