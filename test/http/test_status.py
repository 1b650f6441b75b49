"""What a status location counts, and how it says so in JSON."""

from __future__ import annotations

import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from lib.accept import SERVER as ACCEPTING
from lib.accept import sendfile
from lib.async_store import slow, use_test_store
from lib.cache import CACHE, STATUS, ZONE, make_old, purge, purge_all, purge_url
from lib.client import Connection, ConnectionClosed
from lib.fake_memcached import Fake, answer, hold
from lib.figures import (
    Figures,
    figures,
    requests,
    row,
    samples,
    wait_for,
    wait_for_total,
)
from lib.gateway import Gateway, Said
from lib.learn import MINUTE, SIZE, write
from lib.learn import SERVER as LEARNING
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.ruby import content as ruby
from lib.ruby import load_ruby
from lib.servers import (
    APP,
    FALLBACK,
    Servers,
    add_many,
    block,
    location,
    many_connections,
    patient,
)
from lib.site import INTERNAL, Site
from lib.turn import send_at_once
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures", "lib.gateway_fixtures")

FILE = f"location /file/ {{ http_sendfile on; %%DELIVER%% {CACHE} }}\n"
WARM = "location = /warm { return 204; }"


@pytest.fixture(autouse=True)
def _by_redirect(site: Site) -> None:
    site.variables.setdefault("DELIVER", "")


@pytest.fixture
def two(site: Site) -> Site:
    """A site with two workers."""
    site.variables["WORKERS"] = "2"
    return site


def store_of(found: Figures, server: str = "") -> Figures:
    """Return the figures of a server of the only store."""
    return row(found["stores"], server=server)


def lookups(one: Figures) -> dict[str, int]:
    """Return the outcomes that a server had."""
    return {name: n for name, n in one["lookups"].items() if n}


# requests


def test_requests(site: Site, delivery: str) -> None:
    """Requests are counted by location, result and source, files by delivery."""
    site.add(7, size=1000)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    assert figures(nginx)["requests"]["total"] == 0
    for _ in range(3):
        site.assert_file(nginx.get("/file/7"), 7, size=1000)
    for _ in range(2):
        assert nginx.get("/file/8").status == 404
    assert nginx.head("/file/7").status == 200
    part = nginx.get("/file/7", {"Range": "bytes=0-99"})
    assert part.status == 206
    etag = part.header("ETag")
    assert etag is not None
    assert nginx.get("/file/7", {"If-None-Match": etag}).status == 304
    found = wait_for_total(nginx, 8)
    one = row(found["locations"], location="/file/", host="localhost")
    assert requests(one) == {
        ("hit", "store"): 1,
        ("hit", "cache"): 5,
        ("miss", "store"): 1,
        ("negative", "cache"): 1,
    }
    assert found["requests"]["results"] == {"hit": 6, "miss": 1, "negative": 1}
    assert found["requests"]["sources"] == {"store": 2, "cache": 6}
    other = "direct" if delivery == "redirect" else "redirect"
    for told in (one, found["requests"]):
        assert told["total"] == 8
        assert told["sent"] == {
            delivery: {"files": 4, "bytes": 3100},
            other: {"files": 0, "bytes": 0},
        }
        # without a body, too, the application was not asked
        assert told["app_avoided"] == 6
        assert told["failures"] == {
            **dict.fromkeys(told["failures"], 0),
            "miss": 2,
        }
    zone = row(found["zones"], zone="main")
    assert zone["size"] == 4 << 20
    assert zone["entries"] == {"positive": 1, "negative": 1}
    assert zone["bytes"] > 0
    assert zone["hits"] == {"record": 5, "negative": 1, "learned": 0, "body": 0}
    assert zone["misses"] == {"record": 2, "learned": 0, "body": 0}
    one = store_of(found)
    assert lookups(one) == {"hit": 1, "miss": 1}
    assert one["up"] is True
    assert one["duration"]["count"] == 2
    assert found["start"] <= found["time"]


def test_failures(site: Site) -> None:
    """Why no file was sent is counted, whoever has answered then."""
    site.add(1)
    site.store.put(2, "aa/nosuch.dat")
    site.store.put(3, '{"path":"../etc/passwd"}')
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {FALLBACK} }}"
        + "location /alone/ { http_sendfile on; %%DIRECT%% }"
        + APP
        + STATUS
    )
    nginx.allow_log("key ")
    for _ in range(2):
        assert nginx.get("/file/9").text.startswith("app ")
    assert nginx.get("/file/2").text.startswith("app ")
    assert nginx.get("/file/3").text.startswith("app ")
    assert nginx.post("/file/1", b"x").text.startswith("app ")
    assert nginx.get("/alone/2").status == 404
    found = wait_for_total(nginx, 6)
    one = row(found["locations"], location="/file/")
    assert one["failures"] == {
        **dict.fromkeys(one["failures"], 0),
        "miss": 2,
        "missing_file": 1,
        "invalid": 1,
        "method": 1,
    }
    assert requests(one) == {
        ("miss", "app"): 2,
        ("hit", "app"): 1,
        ("invalid", "app"): 1,
        ("bypass", "app"): 1,
    }
    assert one["app_avoided"] == 0
    one = row(found["locations"], location="/alone/")
    assert one["failures"]["missing_file"] == 1
    assert found["requests"]["failures"]["missing_file"] == 2
    assert found["requests"]["sent"]["direct"] == {"files": 0, "bytes": 0}


def test_two_workers_count_exactly(two: Site, memcached: Memcached) -> None:
    """Nothing is lost or counted twice where two workers count at once."""
    add_many(two, memcached, range(10))
    nginx = two.start(location(memcached.url) + STATUS + INTERNAL)

    def some(_: int) -> None:
        with nginx.connect() as connection:
            for n in range(50):
                assert connection.request("GET", f"/file/{n % 10}").status == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(8)))
    found = wait_for_total(nginx, 400)
    assert found["requests"]["app_avoided"] == 400
    one = store_of(found, memcached.name)
    count = one["duration"]["count"]
    assert lookups(one) == {"hit": count}
    assert count + one["joined"] == 400
    assert one["batch"]["sum"] == memcached.count("cmd_get") == count
    assert one["duration"]["sum"] > 0


@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_the_applications_files(site: Site, protocol: str) -> None:
    """A file that the application names is sent, and spares it nothing."""
    path = write(site)
    site.variables["PASS"] = (app := site.gateway(protocol)).passes()
    site.variables["ACCEPT"] = (
        "http_sendfile_accept X-Sendfile X-Accel-Redirect;"
        " http_sendfile_allow %%FILES%%;"
    )
    nginx = site.start(ACCEPTING + STATUS)
    app.script = lambda _: sendfile(path)
    assert len(nginx.get("/a").body) == SIZE
    app.script = lambda _: Said(200, [("X-Accel-Redirect", "/files/aa/1.txt")])
    assert len(nginx.get("/b").body) == SIZE
    found = wait_for_total(nginx, 2)["requests"]
    assert found["sources"] == {"app": 2}
    assert found["results"] == {"none": 2}
    assert found["sent"] == {
        "direct": {"files": 1, "bytes": SIZE},
        "redirect": {"files": 1, "bytes": SIZE},
    }
    assert found["app_avoided"] == 0


def test_learned_answers(site: Site, web: Gateway) -> None:
    """What is learned is counted, and what not, by the reason."""
    path = write(site)
    nginx = site.start(LEARNING, ZONE)
    web.script = lambda _: sendfile(path, MINUTE)
    for _ in range(3):
        assert len(nginx.get("/a").body) == SIZE
    web.script = lambda _: sendfile(path)
    for n in range(2):
        assert len(nginx.get(f"/b{n}").body) == SIZE
    web.script = lambda _: sendfile(path, MINUTE, ("Set-Cookie", "a=b"))
    assert len(nginx.get("/c").body) == SIZE
    reasons = {nginx.logged(uri).reason for uri in ("/b0", "/c")}
    assert len(reasons) == 2
    found = wait_for_total(nginx, 6)
    assert found["learn"]["kept"] == 1
    assert found["requests"]["sources"] == {"app": 4, "learned": 2}
    assert found["requests"]["app_avoided"] == 2
    refused = {
        f"not learned: {r['reason']}": r["count"] for r in found["learn"]["refused"]
    }
    assert refused == {
        nginx.logged("/b0").reason: 2,
        nginx.logged("/c").reason: 1,
    }
    zone = row(found["zones"], zone="main")
    assert zone["hits"]["learned"] == 2
    assert zone["misses"]["learned"] == 4


def test_bodies(site: Site) -> None:
    """A small file's body that is in the zone is a hit of its own kind."""
    site.add(7)
    make_old(site.files.root / "aa" / "7.dat")
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE}"
        " http_sendfile_cache_body 100k; http_sendfile_cache_check 1h; }" + STATUS,
        http=ZONE,
    )
    for _ in range(5):
        site.assert_file(nginx.get("/file/7"), 7)
    zone = row(wait_for_total(nginx, 5)["zones"], zone="main")
    looked = zone["hits"]["body"] + zone["misses"]["body"]
    assert looked == 5
    assert zone["hits"]["body"] >= 3


def test_evictions(site: Site) -> None:
    """Entries that make room are counted, by the kind that they are of."""
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {CACHE}"
        f" http_sendfile_key $sendfile_id-{'x' * 200};"
        " http_sendfile_cache_valid 404 1h; }" + STATUS,
        http="http_sendfile_cache_zone main:256k; keepalive_requests 10000;",
    )
    with nginx.connect() as connection:
        for n in range(2000):
            assert connection.request("GET", f"/file/{n}").status == 404
    zone = row(wait_for_total(nginx, 2000)["zones"], zone="main")
    assert zone["evictions"]["positive"] == 0
    assert zone["evictions"]["negative"] > 0
    assert zone["evictions"]["negative"] + zone["entries"]["negative"] == 2000


def test_refusals(site: Site, web: Gateway) -> None:
    """What is too large for the zone is counted, by what it was."""
    path = write(site)
    web.script = lambda _: sendfile(path, MINUTE, ("X-Big", "x" * 40_000))
    nginx = site.start(
        "proxy_buffer_size 64k; proxy_buffers 8 64k;" + LEARNING,
        "http_sendfile_cache_zone main:256k;",
    )
    for _ in range(3):
        assert len(nginx.get("/a").body) == SIZE
    found = wait_for_total(nginx, 3)
    zone = row(found["zones"], zone="main")
    assert zone["refusals"] == {"record": 0, "negative": 0, "learned": 3, "body": 0}
    assert found["learn"]["kept"] == 0


@pytest.mark.parametrize("logged", [False, True])
def test_subrequests(site: Site, logged: bool) -> None:
    """A subrequest counts if it is logged, and takes no part of the main one."""
    site.add(7, size=1000)
    page = '<!--# include virtual="/file/7" -->' * 2
    (site.directory / "html" / "page.html").write_text(page)
    nginx = site.start(
        f"log_subrequest {'on' if logged else 'off'};"
        "location = /page.html { ssi on; }" + FILE + STATUS + INTERNAL,
        http=ZONE,
    )
    for _ in range(2):
        assert len(nginx.get("/page.html").body) == 2000
    found = wait_for_total(nginx, 4 if logged else 0)["requests"]
    assert found["app_avoided"] == (4 if logged else 0)
    assert found["sent"]["redirect"] == {"files": 0, "bytes": 0}
    # the store was asked all the same
    assert store_of(figures(nginx))["lookups"]["hit"] >= 1


def test_purges(site: Site) -> None:
    """Purges are counted by what was purged."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    for _ in range(3):
        purge(nginx, 7)
    for _ in range(2):
        purge_url(nginx, "http://localhost/file/7")
    purge_all(nginx)
    assert nginx.request("DELETE", "/status/cache?x").status == 400
    assert figures(nginx)["purges"] == {"key": 3, "url": 2, "all": 1}


def test_ruby(site: Site) -> None:
    """Scripts are counted, and those that a limit has stopped."""
    load_ruby(site)
    nginx = site.start(
        ruby('Nginx.rputs "well"', "/well")
        + ruby("raise 'no'", "/raises")
        + "mruby_limits instructions=10000;"
        + ruby("loop { }", "/endless")
        + STATUS
    )
    nginx.allow_log("mruby")
    for _ in range(3):
        assert nginx.get("/well").body == b"well"
    assert nginx.get("/raises").status == 500
    for _ in range(2):
        assert nginx.get("/endless").status == 500
    assert figures(nginx)["ruby"] == {"runs": 6, "stopped": 2}


# lookups


def test_batches(site: Site, fake: Fake) -> None:
    """The keys of one request to memcached are counted as a batch."""
    for n in range(20):
        fake.put(n, "aa/1.dat")
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(location(fake.url) + WARM + STATUS + INTERNAL)
    with ExitStack() as stack:
        for connection in send_at_once(nginx, [f"/file/{n}" for n in range(20)]):
            stack.enter_context(connection)
            site.assert_file(connection.read_response(), 1)
    one = store_of(wait_for_total(nginx, 20), fake_name(fake))
    assert lookups(one) == {"hit": 20}
    assert one["batch"]["sum"] == 20
    assert one["batch"]["count"] == len(fake.gets)
    sizes = [len(get.keys) for get in fake.gets]
    for bucket in one["batch"]["buckets"]:
        assert bucket["count"] == sum(size <= bucket["le"] for size in sizes)


def fake_name(fake: Fake) -> str:
    """Return a fake memcached's host:port."""
    assert not isinstance(fake.address, str)
    host, port = fake.address
    return f"{host}:{port}"


def test_joined_and_cancelled(site: Site, fake: Fake) -> None:
    """Who waits for another's lookup, and a lookup that nobody waits for."""
    site.files.write_id("aa/1.dat", 1)
    fake.put(1, "aa/1.dat")
    fake.script = hold
    nginx = site.start(location("ids") + STATUS + INTERNAL, http=patient(fake.url))
    with ExitStack() as stack:
        opened = [stack.enter_context(nginx.connect()) for _ in range(3)]
        for connection in opened:
            connection.send_request("GET", "/file/1")
        wait_for(nginx, lambda f: store_of(f, fake_name(fake))["joined"] == 2)
        gone = nginx.connect()
        gone.send_request("GET", "/file/2")
        wait_until(lambda: len(fake.gets) == 2, what="the lookups")
        gone.close()
        wait_for(
            nginx, lambda f: store_of(f, fake_name(fake))["lookups"]["cancelled"] == 1
        )
        fake.release()
        for connection in opened:
            site.assert_file(connection.read_response(), 1)
    one = store_of(wait_for_total(nginx, 4), fake_name(fake))
    assert lookups(one) == {"hit": 1, "cancelled": 1}
    assert one["duration"]["count"] == 1


def test_timeout_down_and_up_again(site: Site, fake: Fake) -> None:
    """A server that does not answer is down, until one worker has an answer."""
    site.files.write_id("aa/1.dat", 1)
    fake.put(1, "aa/1.dat")
    fake.script = hold
    nginx = site.start(
        location("ids") + STATUS + INTERNAL,
        http=block([f"{fake.url} max_fails=1 fail_timeout=1h"], "timeout 1s;"),
    )
    nginx.allow_log("http_sendfile")
    name = fake_name(fake)
    assert store_of(figures(nginx), name)["up"] is True
    assert nginx.get("/file/1").status == 504
    found = wait_for(nginx, lambda f: not store_of(f, name)["up"])
    assert (
        samples(nginx)["ngx_sendfile_store_up", (("server", name), ("store", "ids"))]
        == 0.0
    )
    assert nginx.get("/file/1").status == 502
    one = store_of(wait_for_total(nginx, 2), name)
    assert lookups(one) == {"timeout": 1, "down": 1}
    # what was not asked has taken no time
    assert one["duration"]["count"] == 1
    assert one["duration"]["sum"] >= 0.09
    assert found["requests"]["failures"]["timeout"] == 1
    fake.script = answer
    fake.release()
    # whoever has an answer: a new worker, with no idea that it was down
    nginx.reload()
    assert store_of(figures(nginx), name)["up"] is False
    site.assert_file(nginx.get("/file/1"), 1)
    wait_for(nginx, lambda f: store_of(f, name)["up"])


def test_refused_connection(site: Site, servers: Servers) -> None:
    """A server that is not there is an error, and then down."""
    url = servers.refused()
    nginx = site.start(location(url) + STATUS)
    nginx.allow_log("http_sendfile")
    for _ in range(5):
        assert nginx.get("/file/1").status == 502
    one = store_of(wait_for_total(nginx, 5), url.removeprefix("memcached://"))
    assert lookups(one) == {"error": 3, "down": 2}
    assert one["up"] is False


def test_each_server_of_a_store(site: Site, servers: Servers) -> None:
    """Each server has figures of its own, one that is down its lookups, too."""
    one, other = servers.memcached(), servers.fake()
    http = block([one.url, other.url])
    for n in range(30):
        one.put(n, "aa/1.dat")
        other.put(n, "aa/1.dat")
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(location("ids") + STATUS + INTERNAL, http=http)
    for n in range(30):
        assert nginx.get(f"/file/{n}").status == 200
    found = wait_for_total(nginx, 30)
    counts = [
        store_of(found, name)["lookups"]["hit"] for name in (one.name, fake_name(other))
    ]
    assert counts[0] == one.count("cmd_get")
    assert sum(counts) == 30 and all(counts)
    assert {s["store"] for s in found["stores"] if s["server"]} == {"ids"}


def test_a_store_of_another_module(site: Site) -> None:
    """A store that was added by another module is counted as any."""
    use_test_store(site)
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(slow("delay=1,value=aa/%.dat") + STATUS + INTERNAL)
    nginx.allow_log("test store")
    site.assert_file(nginx.get("/slow/1"), 1)
    one = row(wait_for_total(nginx, 1)["stores"], store="test:/delay=1,value=aa/%.dat")
    assert lookups(one) == {"hit": 1}
    assert one["duration"]["sum"] >= 0.001


# names


def test_names_of_locations(site: Site) -> None:
    """Any name, and quotes, backslashes and UTF-8 in it, is told rightly."""
    site.add(7)
    key = "http_sendfile on; http_sendfile_key 7;"
    nginx = site.start(
        f"location '/a \"b\\\\\\\\c' {{ {key} }}"
        f"location /größe/ {{ {key} }}"
        f"location = /exact {{ {key} }}"
        f"location ~ ^/re(g)ex$ {{ {key} }}"
        f"location /if/ {{ if ($arg_x) {{ set $a b; }} {key} }}"
        "location /off/ { }" + STATUS + INTERNAL
    )
    for uri in (
        *("/a%20%22b%5C%5Cc", "/gr%C3%B6%C3%9Fe/x", "/exact", "/regex"),
        *("/if/1", "/if/2?x=1"),
    ):
        site.assert_file(nginx.get(uri), 7)
    found = wait_for_total(nginx, 6)
    names = {one["location"]: one["total"] for one in found["locations"]}
    assert names == {
        '/a "b\\\\c': 1,
        "/größe/": 1,
        "= /exact": 1,
        "~ ^/re(g)ex$": 1,
        "/if/": 2,
    }
    for accept in (None, "application/openmetrics-text"):
        labels = {
            dict(have)["location"]: number
            for (name, have), number in samples(nginx, accept).items()
            if name == "ngx_sendfile_requests_total"
        }
        assert labels == names


def test_bytes_that_are_no_text(site: Site) -> None:
    """A name that is not UTF-8, or has control bytes, is told as well as can be."""
    site.add(7)
    nginx = site.start(STATUS + INTERNAL)
    odd = (
        b"location '/x\xff\x01\xed\xa0\x80/' { http_sendfile on; http_sendfile_key 7; }"
    )
    conf = nginx.conf.read_bytes()
    nginx.conf.write_bytes(conf.replace(b"location /status", odd + b"location /status"))
    nginx.reload()
    site.assert_file(nginx.get(b"/x\xff%01\xed\xa0\x80/"), 7)
    found = wait_for_total(nginx, 1)
    replaced = "\ufffd"
    assert found["locations"][0]["location"] == f"/x{replaced}\x01{replaced * 3}/"
    for accept in (None, "application/openmetrics-text"):
        (labels,) = (
            dict(have)
            for (name, have) in samples(nginx, accept)
            if name == "ngx_sendfile_requests_total"
        )
        assert labels["location"] == f"/x{replaced * 5}/"


def test_servers_have_names(site: Site) -> None:
    """The same location of two servers is two; a server without one is "server"."""
    site.add(7)
    nginx = site.start(
        "location /file/ { http_sendfile on; }" + STATUS + INTERNAL,
        http="server { listen 127.0.0.1:%%PORT:other%%; server_name other.example;"
        " location /file/ { http_sendfile on; } " + INTERNAL + "}"
        "server { listen 127.0.0.1:%%PORT:bare%%; http_sendfile on; " + INTERNAL + "}",
    )
    site.assert_file(nginx.get("/file/7"), 7)
    for _ in range(2):
        site.assert_file(nginx.get("/file/7", port="other"), 7)
    for _ in range(3):
        site.assert_file(nginx.get("/7", port="bare"), 7)
    found = wait_for_total(nginx, 6)["locations"]
    totals = {(one["location"], one["host"]): one["total"] for one in found}
    assert totals["/file/", "localhost"] == 1
    assert totals["/file/", "other.example"] == 2
    assert totals["server", ""] == 3


def test_long_names_and_a_full_table(site: Site) -> None:
    """Of a long name the beginning counts; without room it is an "other" one."""
    site.add(7)
    long = "/" + 200 * "x"
    key = "{ http_sendfile on; http_sendfile_key 7; }"
    many = "".join(f"location = /{n} {key}" for n in range(1100))
    nginx = site.start(
        f"location {long} {key}" + many + STATUS + INTERNAL,
        http="keepalive_requests 10000;",
    )
    with nginx.connect() as connection:
        for uri in (long, *(f"/{n}" for n in range(1100))):
            site.assert_file(connection.request("GET", uri), 7)
    found = wait_for_total(nginx, 1101)
    assert row(found["locations"], location=long[:120])["total"] == 1
    assert row(found["locations"], location="= /0")["total"] == 1
    other = row(found["locations"], location="other")
    assert other["total"] == 1102 - len(found["locations"])
    assert other["total"] > 50
    # an answer of many buffers
    assert len(nginx.get("/status/json").body) > 300_000
    assert sum(one["total"] for one in found["locations"]) == 1101
    # the stores' names had no room either
    assert sum(lookups(s).get("hit", 0) for s in found["stores"]) == 1101
    assert len(samples(nginx)) > 5000


# reload and death


def test_reload_keeps_what_was_counted(site: Site, delivery: str) -> None:
    """Counters go on over a reload that adds, removes and moves locations."""
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    for _ in range(5):
        site.assert_file(nginx.get("/file/7"), 7)
    start = wait_for_total(nginx, 5)["start"]
    before = "location /before/ { http_sendfile on; %%DELIVER%% }\n"
    nginx.reload(site.template(before + FILE + STATUS + INTERNAL, ZONE))
    site.assert_file(nginx.get("/before/7"), 7)
    site.assert_file(nginx.get("/file/7"), 7)
    found = wait_for_total(nginx, 7)
    assert row(found["locations"], location="/file/")["total"] == 6
    assert row(found["locations"], location="/before/")["total"] == 1
    # what is gone stays, and goes on when it comes back
    nginx.reload(site.template(before + STATUS + INTERNAL, ZONE))
    found = wait_for_total(nginx, 7)
    assert row(found["locations"], location="/file/")["configured"] is False
    assert row(found["locations"], location="/before/")["configured"] is True
    nginx.reload(site.template(FILE + STATUS + INTERNAL, ZONE))
    site.assert_file(nginx.get("/file/7"), 7)
    found = wait_for_total(nginx, 8)
    assert row(found["locations"], location="/file/")["total"] == 7
    assert found["start"] == start
    assert "counters start at 0" not in nginx.errors_text()


def test_a_killed_worker_takes_nothing_away(two: Site) -> None:
    """What a worker has counted stays when it is killed."""
    two.add(7)
    nginx = two.start(FILE + STATUS + INTERNAL, http=ZONE)
    nginx.allow_log("exited on signal 9")

    def replaced(old: set[int]) -> bool:
        return len(set(nginx.workers()) - old) == 2

    for n in range(1, 4):
        for _ in range(10):
            two.assert_file(nginx.get("/file/7"), 7)
        before = wait_for_total(nginx, n * 10)
        old = set(nginx.workers())
        for worker in old:
            os.kill(worker, signal.SIGKILL)
        wait_until(partial(replaced, old), what="new workers")
        after = figures(nginx)
        assert after["requests"] == before["requests"]
        assert after["stores"] == before["stores"]
        assert after["start"] == before["start"]


def test_another_module_starts_at_0(site: Site) -> None:
    """With the module replaced, counters start at 0, and the log says so once."""
    if site.flavour.module is None:
        # it is linked in: only a new binary has another one
        nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
        nginx.reload()
        assert "counters start at 0" not in nginx.errors_text()
        return
    other = site.directory / "other.so"
    other.write_bytes(site.flavour.module.read_bytes())
    site.add(7)
    nginx = site.start(FILE + STATUS + INTERNAL, http=ZONE)
    site.assert_file(nginx.get("/file/7"), 7)
    wait_for_total(nginx, 1)
    nginx.reload(nginx.template.replace("%%LOAD%%", f"load_module {other};"))
    assert figures(nginx)["requests"]["total"] == 0
    site.assert_file(nginx.get("/file/7"), 7)
    wait_for_total(nginx, 1)
    nginx.reload()
    wait_for_total(nginx, 1)
    said = re.findall(r"counters start at 0: .*", nginx.errors_text())
    assert said == ["counters start at 0: the module is another one"]


def falls(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """Return the counters that have fallen."""
    return [name for name, n in before.items() if after.get(name, 0) < n]


def counters(nginx: Nginx) -> dict[str, float]:
    """Return all that only grows, buckets of histograms included."""
    return {
        f"{name}{labels}": n
        for (name, labels), n in samples(nginx).items()
        if name.endswith(("_total", "_bucket", "_count", "_sum"))
    }


def test_never_falls(two: Site, memcached: Memcached) -> None:
    """Under load, over reloads and workers' deaths, no counter ever falls."""
    add_many(two, memcached, range(10))
    two.add(7)
    template = two.template(
        FILE + location(memcached.url, name="mc") + STATUS + INTERNAL, ZONE
    )
    nginx = two.start_whole(template)
    nginx.allow_log("exited on signal 9")
    nginx.allow_log("open socket #")
    end = threading.Event()

    def load(number: int) -> int:
        done = 0
        while not end.is_set():
            try:
                with nginx.connect() as connection:
                    for n in range(20):
                        uri = f"/mc/{n % 10}" if number % 2 else "/file/7"
                        assert connection.request("GET", uri).status == 200
                        done += 1
            except (ConnectionClosed, ConnectionError):
                # its worker was killed, or has ended
                continue
        return done

    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, n) for n in range(4)]
        try:
            before: dict[str, float] = {}
            for turn in range(12):
                if turn % 3 == 1:
                    nginx.reload()
                elif turn % 3 == 2:
                    os.kill(nginx.workers()[0], signal.SIGKILL)
                for _ in range(5):
                    try:
                        after = counters(nginx)
                    except (ConnectionClosed, ConnectionError):
                        continue
                    assert not falls(before, after)
                    before = after
        finally:
            end.set()
        done = sum(one.result() for one in loads)
    total = figures(nginx)["requests"]["total"]
    # a worker may be killed between an answer and its count, or before it
    assert 0 < total and abs(total - done) < 100


# the location


def shared(pid: int) -> int:
    """Return how many bytes of memory a process shares with others."""
    size = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, access, *_ = line.split()
        if access.endswith("s"):
            first, last = (int(a, 16) for a in addresses.split("-"))
            size += last - first
    return size


def test_without_a_status_location(site: Site) -> None:
    """Nothing is counted, and no memory taken, where nobody could ask for it."""
    site.add(7)
    nginx = site.start(FILE + INTERNAL, http=ZONE)
    site.assert_file(nginx.get("/file/7"), 7)
    (worker,) = nginx.workers()
    without = shared(worker)
    nginx.reload(site.template(FILE + STATUS + INTERNAL, ZONE))
    assert figures(nginx)["requests"]["total"] == 0
    (worker,) = nginx.workers()
    assert 0.5 * 2**20 < shared(worker) - without < 2 * 2**20


def test_two_status_locations(site: Site) -> None:
    """Two of them say the same."""
    site.add(7)
    nginx = site.start(
        FILE + STATUS + "location /other/ { http_sendfile_status; }" + INTERNAL,
        http=ZONE,
    )
    site.assert_file(nginx.get("/file/7"), 7)
    wait_for_total(nginx, 1)

    def said(path: str) -> bytes:
        text = nginx.get(path).body
        return re.sub(rb'"time":[0-9.]+', b"", text)

    assert said("/other/json") == said("/status/json")
    assert nginx.get("/other/metrics").body == nginx.get("/status/metrics").body


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/status", "/status/json"),
        ("/status/", "/status/json"),
        ("/", "/json"),
        ("/a/b", "/a/b/json"),
        ("~ ^/re/", "/re/json"),
        ("/status", "/st%61tus//json"),
        ("/größe/", "/gr%C3%B6%C3%9Fe/json"),
        ("/status", "/x/../status/json?a=b"),
    ],
)
def test_any_location(site: Site, name: str, path: str) -> None:
    """The location may have any name, and be written in any way."""
    nginx = site.start(f"location {name} {{ http_sendfile_status; }}")
    response = nginx.get(path)
    assert response.status == 200
    assert response.body.startswith(b'{"version":1,')


def test_behind_a_rewrite(site: Site) -> None:
    """Where a request has been rewritten to counts, not what was asked for."""
    nginx = site.start("rewrite ^/x$ /status/json;" + STATUS)
    assert nginx.get("/x").body.startswith(b'{"version":1,')


@pytest.mark.parametrize("path", ["/status/json", "/status/metrics"])
def test_head(site: Site, path: str) -> None:
    """HEAD is GET without a body."""
    nginx = site.start(STATUS)
    got, head = nginx.get(path), nginx.head(path)
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "Cache-Control"):
        assert head.header(name) == got.header(name)
    assert got.header("Content-Length") == str(len(got.body))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/status/json", "/status/metrics"])
def test_other_methods(site: Site, method: str, path: str) -> None:
    """What is only read is only read."""
    nginx = site.start(STATUS)
    with nginx.connect() as connection:
        response = connection.request(method, path, body=b"x" * 10_000)
        assert response.status == 405
        assert response.header("Allow") == "GET, HEAD"
        assert response.header("Cache-Control") == "no-store"
        assert response.body == b'{"error":"only GET, HEAD"}\n'
        # and the connection is good for another one
        assert figures(nginx, connection)["version"] == 1


@pytest.mark.parametrize(
    "path", ["/nosuch", "/json/", "/jsonx", "/metrics/x", "/JSON", "/x/json", "json"]
)
def test_other_paths(site: Site, path: str) -> None:
    """What is not there is a 404 that says what is."""
    nginx = site.start(STATUS)
    response = nginx.get(f"/status{path}")
    assert response.status == 404
    assert response.header("Cache-Control") == "no-store"
    assert b"GET metrics" in response.body and b"DELETE cache/KEY" in response.body


def test_expires_does_not_make_it_cacheable(site: Site) -> None:
    """``expires`` of the server does not take it away."""
    nginx = site.start("expires max;" + STATUS)
    for path in ("json", "metrics", "nosuch"):
        assert "no-store" in nginx.get(f"/status/{path}").all("Cache-Control")


def test_many_readers(site: Site) -> None:
    """A thousand at once all get all of it."""
    site.add(7)
    template = many_connections(site, FILE + STATUS + INTERNAL, ZONE)
    nginx = site.start_whole(template)
    site.assert_file(nginx.get("/file/7"), 7)
    wait_for_total(nginx, 1)
    with ExitStack() as stack:
        opened: list[Connection] = [
            stack.enter_context(nginx.connect()) for _ in range(1000)
        ]
        for n, connection in enumerate(opened):
            connection.send_request("GET", f"/status/{'metrics' if n % 2 else 'json'}")
        for n, connection in enumerate(opened):
            response = connection.read_response()
            assert response.status == 200
            assert response.body.endswith(b"\n" if n % 2 else b"}\n")
            assert response.header("Content-Length") == str(len(response.body))


def test_http2(site: Site) -> None:
    """Over HTTP/2, bodies are counted without their frames."""
    site.add(7, size=1000)
    nginx = site.start(site.http2_listen() + FILE + STATUS + INTERNAL, http=ZONE)
    with nginx.http2("h2") as client:
        for _ in range(3):
            assert len(client.get("/file/7").content) == 1000
        assert client.get("/status/json").json()["version"] == 1
    sent = wait_for_total(nginx, 3)["requests"]["sent"]["redirect"]
    assert sent["files"] == 3
    assert 3000 <= sent["bytes"] < 3100
