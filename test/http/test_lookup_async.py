"""Lookups that take time: the asynchronous store of test/module behind nginx."""

from __future__ import annotations

import os
import random
import signal
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from lib.async_store import count, keys, slow, use_test_store, wait_for
from lib.backend import Reply, Request
from lib.client import Connection, ConnectionClosed, Response
from lib.files import content
from lib.h2_client import Http2Connection
from lib.nginx import Nginx
from lib.site import Site
from lib.tls import Certificate
from lib.turn import WARM, send_at_once, stopped
from lib.wait import lateness, wait_until

INTERNAL = "%%INTERNAL%%\n"
APP = "location @app { proxy_pass http://%%APP%%; }\n"


@pytest.fixture
def asite(site: Site) -> Site:
    """A site with the store ``test:`` and the files 0 to 39."""
    use_test_store(site)
    for n in range(40):
        site.files.write_id(f"aa/{n}.dat", n)
    return site


_sent: list[Connection] = []


@pytest.fixture(autouse=True)
def _close_what_a_failure_left_open() -> Iterator[None]:
    yield
    while _sent:
        _sent.pop().close()


def get(
    nginx: Nginx, uri: str, headers: dict[str, str] | None = None, port: str = ""
) -> Connection:
    """Send a GET on a connection of its own, and do not wait."""
    connection = nginx.connect(port)
    _sent.append(connection)
    connection.send_request("GET", uri, headers)
    return connection


def get_all(nginx: Nginx, uris: Iterable[str]) -> list[Connection]:
    """Send GETs, a connection each, and return when nginx has read all of them.

    A request that joins another one's lookup shows in no log until its end.

    Args:
        nginx: with WARM in its server block.
        uris: one a connection.
    """
    found = send_at_once(nginx, list(uris))
    _sent.extend(found)
    # what is answered now was read in a later turn than theirs
    assert nginx.get("/warm").status == 204
    return found


def failures(nginx: Nginx, key: int | str) -> list[str]:
    """Return the error log's lines about the failure of a key."""
    lines = nginx.errors("error", "info", "warn")
    return [s for s in lines if f'http_sendfile: key "{key}" in ' in s]


def timed(nginx: Nginx, uri: str) -> tuple[Response, float]:
    """Send a GET; return the answer and the seconds it took."""
    start = time.monotonic()
    response = nginx.get(uri)
    return response, time.monotonic() - start


def passed(moment: float) -> bool:
    """Tell whether a moment of the monotonic clock has passed."""
    return time.monotonic() > moment


# one lookup


def test_hit_after_a_while(asite: Site, delivery: str) -> None:
    """An answer that comes later is served as one that comes at once."""
    nginx = asite.start(slow("delay=100,value=aa/%.dat") + INTERNAL)
    response, seconds = timed(nginx, "/slow/7?x=1")
    asite.assert_file(response, 7)
    assert seconds >= 0.095
    entry = nginx.logged("/slow/7?x=1")
    assert (entry.status, entry.source, entry.key) == ("HIT", "test", "7")
    assert (entry.target, entry.reason) == ("aa/7.dat", "-")
    assert (keys(nginx, "get"), keys(nginx, "done")) == (["7"], ["7"])
    assert keys(nginx, "cancel") == []


def test_miss_after_a_while(asite: Site, delivery: str) -> None:
    """A miss that comes later is a 404, or goes to the fallback."""
    nginx = asite.start(
        slow("delay=50,miss")
        + slow("delay=60,miss", "http_sendfile_fallback @app;", "app")
        + (APP + INTERNAL)
    )
    assert nginx.get("/slow/7").status == 404
    assert nginx.get("/app/7?a=b").text == "app GET /app/7?a=b\n"
    assert nginx.logged("/slow/7").status == "MISS"
    entry = nginx.logged("/app/7?a=b")
    assert (entry.status, entry.source) == ("MISS", "app")


def test_error_after_a_while(asite: Site, delivery: str) -> None:
    """An error that comes later is a 502, or goes to the fallback."""
    nginx = asite.start(
        slow("delay=50,error")
        + slow("delay=60,error", "http_sendfile_fallback @app;", "app")
        + (APP + INTERNAL)
    )
    assert nginx.get("/slow/7").status == 502
    assert nginx.get("/app/8").text == "app GET /app/8\n"
    entry = nginx.logged("/slow/7")
    assert (entry.status, entry.source) == ("ERROR", "test")
    assert entry.reason == "test error (111: Connection refused)"
    assert nginx.logged("/app/8").status == "ERROR"


def test_invalid_record_after_a_while(asite: Site, delivery: str) -> None:
    """A value that is no path is a 502, or goes to the fallback."""
    nginx = asite.start(
        slow("delay=50,value=../%.dat")
        + slow("delay=60,value=/etc/passwd", "http_sendfile_fallback @app;", "app")
        + (APP + INTERNAL)
    )
    assert nginx.get("/slow/7").status == 502
    assert nginx.get("/app/8").text == "app GET /app/8\n"
    assert nginx.logged("/slow/7").status == "INVALID"


def test_missing_file_after_a_while(asite: Site) -> None:
    """A record of a file that is gone is a 404, or goes to the fallback."""
    nginx = asite.start(
        slow("delay=50,value=gone/%.dat", "%%DIRECT%%")
        + slow(
            "delay=60,value=gone/%.dat",
            "%%DIRECT%% http_sendfile_fallback @app;",
            "app",
        )
        + APP
    )
    assert nginx.get("/slow/7").status == 404
    assert nginx.get("/app/8").text == "app GET /app/8\n"


def test_answer_at_once(asite: Site, delivery: str) -> None:
    """A store that waits for nothing may answer in get()."""
    nginx = asite.start(
        slow("now,value=aa/%.dat", name="hit")
        + slow("now,miss", name="miss")
        + slow("now,error", name="error")
        + slow("now,miss", "http_sendfile_fallback @app;", "app")
        + (APP + INTERNAL)
    )
    with nginx.connect() as connection:
        for _ in range(2):
            asite.assert_file(connection.request("GET", "/hit/7"), 7)
            assert connection.request("GET", "/miss/8").status == 404
            assert connection.request("GET", "/error/9").status == 502
            assert connection.request("GET", "/app/10").text == "app GET /app/10\n"
    assert keys(nginx, "get") == ["7", "8", "9", "10"] * 2
    assert (count(nginx, "done"), count(nginx, "cancel")) == (0, 0)
    assert nginx.logged("/hit/7", 2).status == "HIT"
    assert nginx.logged("/error/9", 2).status == "ERROR"


def test_no_lookup_without_a_key(asite: Site) -> None:
    """Neither another method nor a bad key reaches the store."""
    nginx = asite.start(
        slow(more="http_sendfile_key a:$arg_k;") + INTERNAL,
    )
    assert nginx.post("/slow/?k=1", b"x").status in (404, 405)
    assert nginx.get(f"/slow/?k={'1' * 249}").status == 404
    assert nginx.get("/slow/?k=5").status == 404
    assert keys(nginx, "get") == ["a:5"]


def test_head_waits_as_get_does(asite: Site, delivery: str) -> None:
    """HEAD waits as GET does, and has no body."""
    nginx = asite.start(slow("delay=50,value=aa/%.dat") + slow("never", name="never"))
    with nginx.connect() as connection:
        if delivery == "direct":
            response = connection.request("HEAD", "/slow/7")
            assert (response.status, response.header("Content-Length")) == (200, "400")
        assert connection.request("HEAD", "/never/7").status == 504
    wait_for(nginx, "cancel", 7)


def test_range_and_condition(asite: Site, delivery: str) -> None:
    """Range and If-None-Match hold after a wait, too."""
    nginx = asite.start(slow("delay=30,value=aa/%.dat") + INTERNAL)
    with nginx.connect() as connection:
        part = connection.request("GET", "/slow/7", {"Range": "bytes=100-199"})
        assert (part.status, part.body) == (206, content(7)[100:200])
        tag = part.header("ETag")
        assert tag is not None
        same = connection.request("GET", "/slow/7", {"If-None-Match": tag})
        assert (same.status, same.body) == (304, b"")


def test_big_file_and_slow_client(asite: Site, delivery: str) -> None:
    """A body that does not fit into the socket follows after a wait."""
    size = 8_000_000
    asite.files.write_id("aa/7.dat", 7, size)
    nginx = asite.start(slow("delay=30,value=aa/%.dat") + INTERNAL)
    with get(nginx, "/slow/7") as big, get(nginx, "/slow/8") as small:
        asite.assert_file(small.read_response(), 8)
        asite.assert_file(big.read_response(), 7, size)


# deadlines


def test_timeout_is_504(asite: Site, delivery: str) -> None:
    """Without an answer a request ends with its deadline, 250 ms by default."""
    asite.variables["DEADLINE"] = ""
    nginx = asite.start(slow("never") + INTERNAL)
    times = []
    for n in range(3):
        response, seconds = timed(nginx, f"/slow/{n}")
        assert response.status == 504
        times.append(seconds)
        entry = nginx.logged(f"/slow/{n}")
        assert (entry.status, entry.code) == ("TIMEOUT", 504)
        assert entry.reason == "lookup timed out"
        assert float(entry.time) >= 0.25
    assert min(times) >= 0.245
    assert min(times) <= 0.25 + lateness()
    wait_for(nginx, "cancel", 2)
    assert keys(nginx, "cancel") == ["0", "1", "2"]


def test_timeout_goes_to_the_fallback(asite: Site, delivery: str) -> None:
    """The application is asked when the time is over, not later."""
    nginx = asite.start(
        slow("never", "http_sendfile_fallback @app; http_sendfile_timeout 100ms;")
        + (APP + INTERNAL)
    )
    times = []
    for n in range(5):
        response, seconds = timed(nginx, f"/slow/{n}?a=b")
        assert response.text == f"app GET /slow/{n}?a=b\n"
        times.append(seconds)
    assert 0.095 <= min(times) <= 0.1 + lateness()
    entry = nginx.logged("/slow/0?a=b")
    assert (entry.status, entry.source, entry.code) == ("TIMEOUT", "app", 200)


def test_timeout_without_fallback_on_timeout(asite: Site) -> None:
    """A fallback that is not for timeouts leaves it at 504."""
    nginx = asite.start(
        slow("never", "http_sendfile_fallback @app; http_sendfile_fallback_on miss;")
        + (APP + INTERNAL)
    )
    assert nginx.get("/slow/1").status == 504
    assert asite.app.requests == []


def test_each_location_has_its_timeout(asite: Site) -> None:
    """http_sendfile_timeout is inherited, and may be set in each location."""
    nginx = asite.start(
        "http_sendfile_timeout 60ms;"
        + slow("never", name="a")
        + slow("never", "http_sendfile_timeout 180ms;", name="b")
        + slow("delay=120,value=aa/%.dat", name="c")
        + slow("delay=120,value=aa/%.dat", "http_sendfile_timeout 2s;", name="d")
        + INTERNAL
    )
    for name, low in (("a", 0.06), ("b", 0.18)):
        times = [timed(nginx, f"/{name}/{n}") for n in range(3)]
        assert [response.status for response, _ in times] == [504] * 3
        assert low - 0.005 <= min(seconds for _, seconds in times) <= low + lateness()
    assert nginx.get("/c/1").status == 504
    asite.assert_file(nginx.get("/d/1"), 1)


def test_answer_after_the_deadline_is_dropped(asite: Site) -> None:
    """What a store says too late (it could not be cancelled) is for nobody."""
    nginx = asite.start(
        slow("delay=150,keep,value=aa/%.dat", "http_sendfile_timeout 50ms;") + INTERNAL
    )
    with nginx.connect() as connection:
        assert connection.request("GET", "/slow/7").status == 504
        wait_for(nginx, "cancel", 7)
        assert count(nginx, "done", 7) == 0
        # the next one starts a lookup of its own, while the old is not done
        assert connection.request("GET", "/slow/7").status == 504
    wait_for(nginx, "done", 7, 2)
    assert keys(nginx, "get") == ["7", "7"]
    assert len(nginx.access_entries("/slow/7")) == 2


def test_timeouts_of_many(asite: Site) -> None:
    """All who wait for one lookup are answered at its deadline."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 150ms;") + INTERNAL)
    connections = [get(nginx, f"/slow/{n // 10}") for n in range(40)]
    for connection in connections:
        assert connection.read_response().status == 504
        connection.close()
    assert sorted(set(keys(nginx, "get"))) == ["0", "1", "2", "3"]
    wait_for(nginx, "cancel", number=count(nginx, "get"))


def test_lookup_time(asite: Site) -> None:
    """$sendfile_lookup_time is how long the answer took, to a millisecond."""
    nginx = asite.start(
        slow("delay=80,value=aa/%.dat")
        + slow("now,value=aa/%.dat", name="now")
        + slow("delay=80,miss", name="miss")
        + INTERNAL
    )
    for uri in ("/slow/%d", "/miss/%d"):
        times = []
        for n in range(4):
            nginx.get(uri % n)
            times.append(float(nginx.logged(uri % n).time))
        assert 0.08 <= min(times) <= 0.08 + lateness()
    asite.assert_file(nginx.get("/now/5"), 5)
    assert float(nginx.logged("/now/5").time) <= lateness()


# coalescing


def test_one_lookup_for_one_key(asite: Site, delivery: str) -> None:
    """Twenty requests for a key ask the store once, and all get the file."""
    nginx = asite.start(
        slow("delay=400,value=aa/%.dat", "http_sendfile_timeout 5s;") + WARM + INTERNAL
    )
    connections = get_all(nginx, (f"/slow/7?n={n}" for n in range(20)))
    for connection in connections:
        asite.assert_file(connection.read_response(), 7)
        connection.close()
    assert (keys(nginx, "get"), keys(nginx, "done")) == (["7"], ["7"])
    for n in range(20):
        entry = nginx.logged(f"/slow/7?n={n}")
        assert (entry.status, entry.id) == ("HIT", "7")
    # it is no cache: the next request asks again
    asite.assert_file(nginx.get("/slow/7"), 7)
    assert keys(nginx, "get") == ["7", "7"]


@pytest.mark.parametrize(("outcome", "status"), [("miss", 404), ("error", 502)])
def test_one_lookup_that_fails(asite: Site, outcome: str, status: int) -> None:
    """A miss or an error is everybody's, and each miss has its log line."""
    nginx = asite.start(
        slow(f"delay=400,{outcome}", "http_sendfile_timeout 5s;") + WARM + INTERNAL
    )
    connections = get_all(nginx, ["/slow/7"] * 10)
    for connection in connections:
        assert connection.read_response().status == status
        connection.close()
    assert keys(nginx, "get") == ["7"]
    # a store that fails has one for a second
    assert len(failures(nginx, 7)) == (10 if outcome == "miss" else 1)


def test_keys_are_not_mixed_up(asite: Site, delivery: str) -> None:
    """Many requests for several keys at once: a lookup a key, the right files."""
    nginx = asite.start(
        slow("delay=400,value=aa/%.dat", "http_sendfile_timeout 5s;") + INTERNAL
    )
    numbers = [n % 20 for n in range(60)]
    connections = [get(nginx, f"/slow/{n}") for n in numbers]
    for n, connection in zip(numbers, connections, strict=True):
        asite.assert_file(connection.read_response(), n)
        connection.close()
    assert sorted(map(int, keys(nginx, "get"))) == list(range(20))


def test_locations_share_a_lookup(asite: Site) -> None:
    """Locations with one store share a lookup, and deliver each in its way."""
    for n in (1, 2):
        asite.files.write_id(f"root{n}/aa/7.dat", n)
    store = "delay=400,value=aa/%.dat"
    nginx = asite.start(
        "http_sendfile_timeout 5s;"
        + slow(store, "http_sendfile_root %%FILES%%/root1;", "a")
        + slow(store, "http_sendfile_root %%FILES%%/root2;", "b")
        + slow(store, "", "c")
        + slow(store, "http_sendfile_format json; http_sendfile_fallback @app;", "d")
        + slow(store, 'http_sendfile_key "$arg_k";', "e")
        + (APP + WARM + INTERNAL)
    )
    connections = get_all(nginx, ["/a/7", "/b/7", "/c/7", "/d/7", "/e/?k=7"])
    responses = [connection.read_response() for connection in connections]
    for response, wanted in zip(responses[:3] + responses[4:], (1, 2, 7, 7)):
        asite.assert_file(response, wanted)
    assert responses[3].text == "app GET /d/7\n"
    assert keys(nginx, "get") == ["7"]
    for connection in connections:
        connection.close()


def test_other_timeout_other_lookup(asite: Site) -> None:
    """Requests with different deadlines do not wait for each other."""
    store = "delay=300,value=aa/%.dat"
    nginx = asite.start(
        slow(store, "http_sendfile_timeout 5s;", "a")
        + slow(store, "http_sendfile_timeout 6s;", "b")
        + slow(store, "http_sendfile_timeout 100ms;", "c")
        + INTERNAL
    )
    with get(nginx, "/a/7") as a, get(nginx, "/b/7") as b, get(nginx, "/c/7") as c:
        assert c.read_response().status == 504
        asite.assert_file(a.read_response(), 7)
        asite.assert_file(b.read_response(), 7)
    assert keys(nginx, "get") == ["7"] * 3
    wait_for(nginx, "cancel", 7)


def test_other_store_other_lookup(asite: Site) -> None:
    """The same key of two stores is two keys."""
    nginx = asite.start(
        "http_sendfile_timeout 5s;"
        + slow("delay=300,value=aa/%.dat", name="a")
        + slow("delay=310,value=aa/1%.dat", name="b")
        + slow("delay=300,miss", name="c")
        + INTERNAL
    )
    with get(nginx, "/a/7") as a, get(nginx, "/b/7") as b, get(nginx, "/c/7") as c:
        asite.assert_file(a.read_response(), 7)
        asite.assert_file(b.read_response(), 17)
        assert c.read_response().status == 404
    assert keys(nginx, "get") == ["7"] * 3


def test_500_keys_at_once(asite: Site, delivery: str) -> None:
    """Hundreds of lookups in flight: each gets its own answer."""
    for n in range(500):
        asite.files.write_id(f"bb/{n}.dat", 1000 + n)
    template = asite.template(
        slow("delay=700,value=bb/%.dat", "http_sendfile_timeout 9s;") + INTERNAL
    ).replace("worker_connections 256", "worker_connections 2048")
    nginx = asite.start_whole(template)
    connections = [get(nginx, f"/slow/{n}") for n in range(500)]
    for n, connection in enumerate(connections):
        asite.assert_file(connection.read_response(), 1000 + n)
        connection.close()
    assert sorted(map(int, keys(nginx, "get"))) == list(range(500))
    assert count(nginx, "done") == 500


# clients that leave


def test_client_leaves_alone(asite: Site, delivery: str) -> None:
    """When the only client leaves, the lookup is cancelled at once."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    connection = get(nginx, "/slow/7")
    wait_for(nginx, "get", 7)
    connection.close()
    wait_for(nginx, "cancel", 7)
    entry = nginx.logged("/slow/7")
    assert (entry.code, entry.status, entry.key) == (499, "-", "7")
    assert (entry.time, entry.source) == ("-", "-")
    assert failures(nginx, 7) == []


def test_client_resets(asite: Site) -> None:
    """A TCP reset is noticed as a FIN is."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    connection = get(nginx, "/slow/7")
    wait_for(nginx, "get", 7)
    connection.abort()
    wait_for(nginx, "cancel", 7)
    assert nginx.logged("/slow/7").code == 499


def test_client_half_closes(asite: Site) -> None:
    """A client that closes its side has left, as for nginx's own waits."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    connection = get(nginx, "/slow/7")
    wait_for(nginx, "get", 7)
    connection.socket.shutdown(socket.SHUT_WR)
    wait_for(nginx, "cancel", 7)
    assert connection.read_to_end() == b""
    connection.close()
    assert nginx.logged("/slow/7").code == 499


def test_client_leaves_with_the_request(asite: Site) -> None:
    """The FIN may come in one packet with the request."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    for n in range(20):
        get(nginx, f"/slow/{n}").close()
    wait_until(lambda: len(nginx.access_entries()) == 20, what="all to be logged")
    assert {entry.code for entry in nginx.access_entries()} == {499}
    assert sorted(keys(nginx, "get")) == sorted(keys(nginx, "cancel"))


def test_one_of_several_leaves(asite: Site, delivery: str) -> None:
    """The others still wait, and are answered; nothing is cancelled."""
    nginx = asite.start(
        slow("delay=1200,value=aa/%.dat", "http_sendfile_timeout 9s;") + WARM + INTERNAL
    )
    connections = get_all(nginx, (f"/slow/7?n={n}" for n in range(9)))
    for n in (0, 4, 8):
        connections[n].close()
        assert nginx.logged(f"/slow/7?n={n}").code == 499
    assert count(nginx, "done") == 0
    for n in (1, 2, 3, 5, 6, 7):
        asite.assert_file(connections[n].read_response(), 7)
        connections[n].close()
    assert (keys(nginx, "get"), keys(nginx, "cancel")) == (["7"], [])


def test_all_of_several_leave(asite: Site) -> None:
    """The last one to leave cancels, once."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + WARM + INTERNAL)
    connections = get_all(nginx, ["/slow/7"] * 9)
    for n, connection in enumerate(connections):
        assert count(nginx, "cancel") == 0
        connection.close()
        nginx.logged("/slow/7", n + 1)
    wait_for(nginx, "cancel", 7)
    assert (count(nginx, "get"), count(nginx, "cancel")) == (1, 1)


def test_answer_after_everybody_left(asite: Site) -> None:
    """A store that cannot cancel answers into the void."""
    nginx = asite.start(
        slow("delay=1200,keep,value=aa/%.dat", "http_sendfile_timeout 9s;")
        + WARM
        + INTERNAL
    )
    connections = get_all(nginx, (f"/slow/{n % 3}" for n in range(9)))
    for connection in connections:
        connection.close()
    wait_for(nginx, "done", number=3)
    assert sorted(keys(nginx, "cancel")) == ["0", "1", "2"]
    asite.assert_file(nginx.get("/slow/1"), 1)
    assert count(nginx, "get", 1) == 2


@pytest.mark.parametrize("keep", ["", "keep,"])
def test_new_request_after_the_last_left(asite: Site, keep: str) -> None:
    """Who comes after a cancelled lookup gets one of his own, and no old answer."""
    nginx = asite.start(
        slow(f"delay=300,{keep}value=aa/%.dat", "http_sendfile_timeout 9s;") + INTERNAL
    )
    with nginx.connect() as patient:
        first = get(nginx, "/slow/7")
        wait_for(nginx, "get", 7)
        first.close()
        wait_for(nginx, "cancel", 7)
        asite.assert_file(patient.request("GET", "/slow/7"), 7)
    assert keys(nginx, "get") == ["7", "7"]
    assert count(nginx, "done") == (2 if keep else 1)
    assert float(nginx.logged("/slow/7", 2).time) >= 0.3


def test_clients_leave_at_any_time(asite: Site, delivery: str) -> None:
    """Clients come and go around the answer and the deadline, hundreds of them."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    locations = [
        slow("delay=4,value=aa/%.dat", name="a"),
        slow("delay=8,keep,value=aa/%.dat", "http_sendfile_timeout 6ms;", "b"),
        slow("never", "http_sendfile_timeout 5ms; error_page 504 /error;", "c"),
        slow("delay=5,miss", "http_sendfile_fallback /page/x.html;", "d"),
        slow("delay=3,error,keep", "http_sendfile_fallback =410;", "e"),
    ]
    clock = "".join(
        slow(f"delay={n},miss", "access_log off;", name=f"clock{n}")
        for n in range(1, 9)
    )
    asite.html.write("error", b"an error page\n")
    asite.html.write(
        "page/x.html",
        b'<!--# include virtual="/a/5" --><!--# include virtual="/b/6" -->'
        b'<!--# include virtual="/c/6" --><!--# include virtual="/a/5" -->',
    )
    nginx = asite.start(
        "".join(locations)
        + clock
        + "location /page/ { ssi on; ssi_types *; } location = /error { }"
        + INTERNAL
    )
    uris = ["/a/1", "/a/2", "/b/1", "/b/2", "/c/1", "/d/1", "/e/1", "/page/x.html"]
    with nginx.connect() as ticking:
        for _ in range(60):
            connections = [get(nginx, chance.choice(uris)) for _ in range(8)]
            chance.shuffle(connections)
            while connections:
                delay = chance.randrange(9)
                if delay:
                    ticking.request("GET", f"/clock{delay}/1")
                for connection in connections[: chance.randrange(1, 5)]:
                    if chance.random() < 0.5:
                        connection.abort()
                    else:
                        connection.close()
                    connections.remove(connection)
    wait_until(lambda: len(nginx.access_entries()) == 480, what="all to be logged")
    asite.assert_file(nginx.get("/a/3"), 3)
    assert len(nginx.workers()) == 1


def test_all_in_one_turn(asite: Site, delivery: str) -> None:
    """Clients leave and come while the worker is stopped beyond the deadline.

    When it goes on, it finds everything at once: requests to join lookups
    that are over, clients that have left, answers and deadlines.
    """
    nginx = asite.start(
        slow("delay=150,value=aa/%.dat", "http_sendfile_timeout 5s;")
        + slow("never", "http_sendfile_timeout 150ms;", "never")
        + slow("delay=150,keep,miss", "http_sendfile_timeout 160ms;", "miss")
        + WARM
        + INTERNAL
    )
    (pid,) = nginx.workers()
    for _ in range(3):
        kept = [nginx.connect() for _ in range(9)]
        for connection in kept:
            assert connection.request("GET", "/none").status == 404
        names = ("slow", "never", "miss") * 3
        begin = time.monotonic()
        waiting = get_all(nginx, (f"/{name}/7" for name in names))
        with stopped(pid):
            for connection in waiting[:3]:
                connection.close()
            for connection in waiting[3:6]:
                connection.abort()
            for connection, name in zip(kept, names, strict=True):
                connection.send_request("GET", f"/{name}/7")
            wait_until(partial(passed, begin + 0.4), what="the deadlines")
        for connection, name in zip(waiting[6:] + kept, names[:3] * 4, strict=True):
            response = connection.read_response()
            if name == "slow":
                asite.assert_file(response, 7)
            else:
                assert response.status in (404, 504)
            connection.close()
    assert nginx.workers() == [pid]


# HTTP/2 and TLS


def test_http2_streams_wait(asite: Site, delivery: str) -> None:
    """Streams of one connection wait side by side."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("delay=200,value=aa/%.dat", "http_sendfile_timeout 9s;")
        + slow("never", name="never")
        + INTERNAL
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        streams = [client.send_request("GET", f"/slow/{n % 10}") for n in range(30)]
        lost = client.send_request("GET", "/never/1")
        for n, stream in reversed(list(enumerate(streams))):
            asite.assert_file(client.read_response(stream), n % 10)
        assert client.read_response(lost).status == 504
        stream = client.send_request("HEAD", "/slow/3")
        head = client.read_response(stream)
        assert (head.header("content-length"), head.body) == ("400", b"")


def test_http2_stream_is_reset(asite: Site, delivery: str) -> None:
    """A reset of the only stream that waits cancels the lookup."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("never", "http_sendfile_timeout 60s;")
        + slow("delay=20,value=aa/%.dat", name="other")
        + INTERNAL
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        stream = client.send_request("GET", "/slow/7")
        wait_for(nginx, "get", 7)
        client.reset(stream)
        wait_for(nginx, "cancel", 7)
        assert nginx.logged("/slow/7").code == 499
        other = client.send_request("GET", "/other/8")
        asite.assert_file(client.read_response(other), 8)


def test_http2_some_streams_are_reset(asite: Site) -> None:
    """The other streams that wait for the same key are answered."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("delay=500,value=aa/%.dat", "http_sendfile_timeout 9s;")
        + INTERNAL
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        streams = [client.send_request("GET", f"/slow/7?n={n}") for n in range(8)]
        wait_for(nginx, "get", 7)
        for n in (0, 3, 7):
            client.reset(streams[n])
            assert nginx.logged(f"/slow/7?n={n}").code == 499
        for n in (1, 2, 4, 5, 6):
            asite.assert_file(client.read_response(streams[n]), 7)
    assert (keys(nginx, "get"), keys(nginx, "cancel")) == (["7"], [])


def test_http2_connection_is_closed(asite: Site) -> None:
    """A connection that closes takes all its streams along, and no others."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("delay=600,value=aa/%.dat", "http_sendfile_timeout 9s;")
        + INTERNAL
    )
    leaving = Http2Connection(nginx.port_of("h2"))
    with Http2Connection(nginx.port_of("h2")) as staying:
        for n in range(20):
            leaving.send_request("GET", f"/slow/{n}")
        kept = [staying.send_request("GET", f"/slow/{n}") for n in range(5)]
        wait_for(nginx, "get", number=20)
        staying.ping()
        leaving.close()
        for n, stream in enumerate(kept):
            asite.assert_file(staying.read_response(stream), n)
    assert sorted(map(int, keys(nginx, "cancel"))) == list(range(5, 20))


def test_http2_body_comes_while_waiting(asite: Site) -> None:
    """DATA frames during a lookup neither disturb it nor the connection."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("delay=200,value=aa/%.dat", "%%DIRECT%%")
        + slow("delay=200,miss", "http_sendfile_fallback @app;", "app")
        + APP
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        for name, wanted in (("slow", None), ("app", b"0123456789" * 400)):
            stream = client.send_request("GET", f"/{name}/7", end=False)
            wait_for(nginx, "get", 7)
            for n in range(4):
                client.send_body(stream, b"0123456789" * 100, end=n == 3)
            response = client.read_response(stream)
            if wanted is None:
                asite.assert_file(response, 7)
            else:
                assert response.text == "app GET /app/7\n"
                assert asite.app.only_request().body == wanted


def tls_listen(certificate: Certificate) -> str:
    """Return what makes a server listen for TLS on the port ``tls``."""
    return (
        "listen 127.0.0.1:%%PORT:tls%% ssl;"
        f"ssl_certificate {certificate.certificate};"
        f"ssl_certificate_key {certificate.key};"
    )


def tls_get(nginx: Nginx, context: ssl.SSLContext, uri: str) -> Connection:
    """Send a GET over TLS, and do not wait."""
    connection = Connection(nginx.port_of("tls"), context)
    connection.send_request("GET", uri)
    return connection


def test_tls(asite: Site, delivery: str, certificate: Certificate) -> None:
    """TLS clients wait and are answered, on connections that stay."""
    nginx = asite.start(
        tls_listen(certificate) + slow("delay=50,value=aa/%.dat") + INTERNAL
    )
    context = certificate.client_context()
    with Connection(nginx.port_of("tls"), context) as connection:
        for n in range(3):
            asite.assert_file(connection.request("GET", f"/slow/{n}"), n)


def test_tls_clients_leave(asite: Site, certificate: Certificate) -> None:
    """A TLS client that leaves, with or without a word, is noticed."""
    nginx = asite.start(
        tls_listen(certificate)
        + slow("never", "http_sendfile_timeout 60s;")
        + slow("delay=500,value=aa/%.dat", "http_sendfile_timeout 9s;", "some")
        + INTERNAL
    )
    context = certificate.client_context()
    with tls_get(nginx, context, "/some/9") as staying:
        wait_for(nginx, "get", 9)
        said = tls_get(nginx, context, "/slow/1")
        silent = tls_get(nginx, context, "/slow/2")
        reset = tls_get(nginx, context, "/slow/3")
        other = tls_get(nginx, context, "/some/9")
        for n in (1, 2, 3):
            wait_for(nginx, "get", n)
        said.socket.setblocking(False)
        assert isinstance(said.socket, ssl.SSLSocket)
        with pytest.raises(ssl.SSLWantReadError):
            # sends close_notify, and would wait for nginx's
            said.socket.unwrap()
        said.close()
        silent.close()
        reset.abort()
        other.close()
        for n in (1, 2, 3):
            wait_for(nginx, "cancel", n)
            assert nginx.logged(f"/slow/{n}").code == 499
        asite.assert_file(staying.read_response(), 9)
    assert count(nginx, "cancel", 9) == 0


# connections that go on


def test_keep_alive(asite: Site, delivery: str) -> None:
    """A connection serves on after any end of a lookup."""
    nginx = asite.start(
        slow("delay=10,value=aa/%.dat", name="hit")
        + slow("delay=10,miss", name="miss")
        + slow("delay=10,error", name="error")
        + slow("never", "http_sendfile_timeout 20ms;", name="never")
        + INTERNAL
    )
    with nginx.connect() as connection:
        for n in range(5):
            asite.assert_file(connection.request("GET", f"/hit/{n}"), n)
            assert connection.request("GET", f"/miss/{n}").status == 404
            assert connection.request("GET", f"/error/{n}").status == 502
            assert connection.request("GET", f"/never/{n}").status == 504


def test_pipelining(asite: Site, delivery: str) -> None:
    """Requests behind one that waits are answered after it, in order."""
    nginx = asite.start(
        slow("delay=30,value=aa/%.dat")
        + slow("now,value=aa/%.dat", name="now")
        + INTERNAL
    )
    uris = [f"/{('slow', 'now')[n % 3 == 2]}/{n % 4}" for n in range(12)]
    with nginx.connect() as connection:
        connection.send(
            b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % u.encode() for u in uris)
        )
        for n in range(12):
            asite.assert_file(connection.read_response(), n % 4)
    assert keys(nginx, "get") == [str(n % 4) for n in range(12)]


def test_pipelining_client_leaves(asite: Site) -> None:
    """A client with requests in the pipe that leaves is noticed, too."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    connection = nginx.connect()
    connection.send(b"GET /slow/7 HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
    wait_for(nginx, "get", 7)
    connection.close()
    wait_for(nginx, "cancel", 7)
    assert count(nginx, "get") == 1


def test_request_body(asite: Site, delivery: str) -> None:
    """A body is discarded: sent before, during or after the lookup."""
    nginx = asite.start(slow("delay=100,value=aa/%.dat") + INTERNAL)
    head = b"GET /slow/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"
    with nginx.connect() as connection:
        connection.send(head + b"x" * 200_000)
        asite.assert_file(connection.read_response(), 7)
        connection.send(head)
        wait_for(nginx, "get", 7, 2)
        connection.send(b"x" * 200_000)
        asite.assert_file(connection.read_response(), 7)
        connection.send(head + b"x" * 1000)
        asite.assert_file(connection.read_response(), 7)
        connection.send(b"x" * 199_000)
        asite.assert_file(connection.request("GET", "/slow/8"), 8)
        head = b"GET /slow/9 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.send(head + b"5\r\n01234\r\n")
        wait_for(nginx, "get", 9)
        connection.send(b"5\r\n01234\r\n0\r\n\r\n")
        asite.assert_file(connection.read_response(), 9)
        asite.assert_file(connection.request("GET", "/slow/8"), 8)


def test_request_body_goes_to_the_fallback(asite: Site, delivery: str) -> None:
    """After a miss the application gets the body, whenever it was sent."""
    nginx = asite.start(
        slow("delay=100,miss", "http_sendfile_fallback @app;") + APP + INTERNAL
    )
    body = bytes(range(256)) * 200
    head = b"GET /slow/7 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    with nginx.connect() as connection:
        for n, before in enumerate((0, 1000, len(body))):
            connection.send(head + body[:before])
            wait_for(nginx, "get", 7, n + 1)
            connection.send(body[before:])
            assert connection.read_response().text == "app GET /slow/7\n"
            assert asite.app.requests[-1].body == body


def test_lingering_close(asite: Site, delivery: str) -> None:
    """The end of a connection with an unread body is an orderly one."""
    nginx = asite.start(
        slow("delay=50,value=aa/%.dat") + slow("never", name="never") + INTERNAL
    )
    for uri, status in (("/slow/7", 200), ("/never/7", 504)):
        with nginx.connect() as connection:
            connection.send_request(
                "GET", uri, {"Connection": "close", "Content-Length": "500000"}
            )
            connection.send(b"x" * 250_000)
            assert connection.read_response().status == status
            connection.send(b"x" * 250_000)
            assert connection.at_end()


def test_limit_req(asite: Site, delivery: str) -> None:
    """Requests that limit_req holds back look up afterwards."""
    nginx = asite.start(
        slow("delay=60,value=aa/%.dat", "limit_req zone=z burst=9;")
        + slow("never", "limit_req zone=z burst=9; http_sendfile_timeout 60s;", "never")
        + INTERNAL,
        http="limit_req_zone $server_name zone=z:64k rate=20r/s;",
    )
    connections = [get(nginx, f"/slow/{n}") for n in range(4)]
    for n, connection in enumerate(connections):
        asite.assert_file(connection.read_response(), n)
        connection.close()
    leaving = get(nginx, "/never/5")
    wait_for(nginx, "get", 5)
    leaving.close()
    wait_for(nginx, "cancel", 5)


# other parts of nginx


def test_error_page(asite: Site, delivery: str) -> None:
    """error_page serves 502 and 504 of a lookup, from a file or a location."""
    asite.html.write("late.html", b"the store is late\n")
    nginx = asite.start(
        slow("never", "http_sendfile_timeout 50ms; error_page 504 /late.html;", "a")
        + slow("delay=20,error", "error_page 502 = @app;", "b")
        + slow("never", "http_sendfile_timeout 50ms; error_page 504 = @app;", "c")
        + slow("delay=20,miss", "error_page 404 =410 /late.html;", "d")
        + (APP + INTERNAL)
    )
    late = nginx.get("/a/1")
    assert (late.status, late.text) == (504, "the store is late\n")
    assert nginx.get("/b/2?x=y").text == "app GET /b/2?x=y\n"
    assert nginx.get("/c/3").text == "app GET /c/3\n"
    assert nginx.get("/d/4").status == 410
    assert keys(nginx, "get") == ["1", "2", "3", "4"]
    # the third may be left out, for it is the first one's store and second
    assert [len(failures(nginx, n)) for n in (1, 2, 4)] == [1] * 3


def test_error_page_to_an_id(asite: Site) -> None:
    """error_page may lead to another ID's location; it is not looked up."""
    asite.html.write_id("slow/9", 99)
    nginx = asite.start(
        slow("delay=20,value=aa/%.dat")
        + slow("delay=20,miss", "error_page 404 /slow/9;", "missing")
        + INTERNAL
    )
    response = nginx.get("/missing/1")
    assert (response.status, response.body) == (404, content(99))
    assert keys(nginx, "get") == ["1"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("delay=2%,miss", "not in store"),
        ("delay=2%,error", "test error"),
        ("delay=2%,never", "lookup timed out"),
        ("delay=2%,value=a//b", "invalid record: empty path segment"),
    ],
)
def test_one_log_line_for_a_failure(asite: Site, options: str, reason: str) -> None:
    """A line says key, store, reason and what was done."""
    # each has a store of its own: one line is enough for one that fails
    one, two, three = (options.replace("%", str(n)) for n in (1, 2, 3))
    nginx = asite.start(
        slow(one, "http_sendfile_timeout 100ms;", "a")
        + slow(two, "http_sendfile_timeout 100ms; http_sendfile_fallback @app;", "b")
        + slow(three, "http_sendfile_timeout 100ms; http_sendfile_fallback =410;", "c")
        + (APP + INTERNAL)
    )
    status = nginx.get("/a/1").status
    assert nginx.get("/b/2").status == 200
    assert nginx.get("/c/3").status == 410
    done = {1: f"answered {status}", 2: "sent to @app", 3: "answered 410"}
    for n, what in done.items():
        lines = failures(nginx, n)
        assert len(lines) == 1, lines
        store = options.replace("%", str(n))
        assert f'key "{n}" in test:/{store}' in lines[0]
        assert f": {reason}, {what}" in lines[0]
        level = "info" if "miss" in options else "error"
        assert f"[{level}]" in lines[0]


def test_redirect_by_the_application(asite: Site, delivery: str) -> None:
    """X-Accel-Redirect to another ID is a second lookup, which may wait as well."""

    def script(request: Request) -> Reply:
        return Reply(headers={"X-Accel-Redirect": f"/other{request.target[5:]}2"})

    nginx = asite.start(
        slow("delay=30,miss", "http_sendfile_fallback @app;")
        + slow("delay=30,value=aa/%.dat", name="other")
        + (APP + INTERNAL)
    )
    asite.app.script = script
    with nginx.connect() as connection:
        for _ in range(2):
            asite.assert_file(connection.request("GET", "/slow/1"), 12)
    assert keys(nginx, "get") == ["1", "12"] * 2
    entry = nginx.logged("/slow/1", 2)
    assert (entry.status, entry.key, entry.source) == ("HIT", "12", "test")


def test_redirect_by_the_application_and_the_client_leaves(asite: Site) -> None:
    """A client may leave in the second wait, and it may time out."""

    def script(request: Request) -> Reply:
        return Reply(headers={"X-Accel-Redirect": f"/other{request.target[5:]}2"})

    nginx = asite.start(
        slow("delay=30,miss", "http_sendfile_fallback @app;")
        + slow("never", "http_sendfile_timeout 300ms;", name="other")
        + APP
    )
    asite.app.script = script
    leaving = get(nginx, "/slow/1")
    staying = get(nginx, "/slow/3")
    wait_for(nginx, "get", 12)
    wait_for(nginx, "get", 32)
    leaving.close()
    wait_for(nginx, "cancel", 12)
    assert staying.read_response().status == 504
    staying.close()
    assert nginx.logged("/slow/1").code == 499


def page(*uris: str) -> bytes:
    """Return an SSI page that includes URIs, one a line."""
    return "".join(f'<!--# include virtual="{u}" -->\n' for u in uris).encode()


PAGES = "location /page/ { ssi on; }\n"


def test_ssi(asite: Site, delivery: str) -> None:
    """A page of several IDs: their lookups run side by side."""
    asite.html.write("page/x.html", page(*(f"/slow/{n}" for n in range(6))))
    nginx = asite.start(
        slow("delay=200,value=aa/%.dat", "http_sendfile_timeout 9s;") + PAGES + INTERNAL
    )
    wanted = b"".join(content(n) + b"\n" for n in range(6))
    with nginx.connect() as connection:
        assert connection.request("GET", "/page/x.html").body == wanted
        log = [s for s in nginx.errors("notice") if "test store" in s]
        assert [("get" in s) for s in log] == [True] * 6 + [False] * 6
        assert connection.request("GET", "/page/x.html").body == wanted


def test_ssi_of_one_key(asite: Site, delivery: str) -> None:
    """Subrequests of one request share a lookup, too."""
    asite.html.write("page/x.html", page(*["/slow/7"] * 5, "/slow/8", "/slow/7"))
    nginx = asite.start(
        slow("delay=200,value=aa/%.dat", "http_sendfile_timeout 9s;") + PAGES + INTERNAL
    )
    response = nginx.get("/page/x.html")
    wanted = (content(7) + b"\n") * 5 + content(8) + b"\n" + content(7) + b"\n"
    assert response.body == wanted
    assert keys(nginx, "get") == ["7", "8"]


def test_ssi_one_after_the_other(asite: Site) -> None:
    """``wait`` makes one lookup follow another."""
    asite.html.write(
        "page/x.html",
        b"".join(
            b'<!--# include virtual="/slow/%d" wait="yes" -->' % n for n in range(3)
        ),
    )
    nginx = asite.start(slow("delay=30,value=aa/%.dat") + PAGES + INTERNAL)
    assert nginx.get("/page/x.html").body == b"".join(content(n) for n in range(3))
    log = [s for s in nginx.errors("notice") if "test store" in s]
    assert [("get" in s) for s in log] == [True, False] * 3


def test_ssi_with_failures(asite: Site) -> None:
    """An include that fails does not disturb the others."""
    asite.html.write(
        "page/x.html", page("/never/1", "/slow/2", "/miss/3", "/error/4", "/slow/5")
    )
    nginx = asite.start(
        slow("delay=100,value=aa/%.dat")
        + slow("never", "http_sendfile_timeout 200ms;", "never")
        + slow("delay=50,miss", "http_sendfile_fallback @app;", "miss")
        + slow("delay=150,error", "http_sendfile_fallback @app;", "error")
        + (APP + PAGES + INTERNAL)
    )
    response = nginx.get("/page/x.html")
    assert response.status == 200
    lines = response.body.split(content(2))
    assert b"504 Gateway Time-out" in lines[0]
    assert lines[1] == (
        b"\napp GET /miss/3\n\napp GET /error/4\n\n" + content(5) + b"\n"
    )


def test_ssi_client_leaves(asite: Site, delivery: str) -> None:
    """A client that leaves ends all lookups of its page, and no other's."""
    asite.html.write("page/x.html", page(*(f"/slow/{n}" for n in (1, 2, 2, 3, 9))))
    nginx = asite.start(
        slow("delay=800,value=aa/%.dat", "http_sendfile_timeout 60s;")
        + PAGES
        + INTERNAL
    )
    with get(nginx, "/slow/9") as staying:
        wait_for(nginx, "get", 9)
        leaving = get(nginx, "/page/x.html")
        for n in (1, 2, 3):
            wait_for(nginx, "get", n)
        leaving.close()
        for n in (1, 2, 3):
            wait_for(nginx, "cancel", n)
        asite.assert_file(staying.read_response(), 9)
    assert sorted(keys(nginx, "cancel")) == ["1", "2", "3"]
    assert keys(nginx, "done") == ["9"]


def test_ssi_client_leaves_while_a_later_one_waits(asite: Site) -> None:
    """Leaving is noticed whichever of the subrequests is the active one."""
    asite.html.write("page/x.html", page("/slow/1", "/never/2", "/slow/3", "/never/4"))
    nginx = asite.start(
        slow("delay=50,value=aa/%.dat")
        + slow("never", "http_sendfile_timeout 60s;", "never")
        + PAGES
        + INTERNAL
    )
    leaving = get(nginx, "/page/x.html")
    for n in (1, 3):
        wait_for(nginx, "done", n)
    leaving.close()
    for n in (2, 4):
        wait_for(nginx, "cancel", n)
    assert nginx.logged("/page/x.html").code in (200, 499)


def test_ssi_over_http2(asite: Site) -> None:
    """A reset of the page's stream ends its lookups."""
    asite.html.write("page/x.html", page("/slow/1", "/slow/2", "/never/3"))
    asite.html.write("page/y.html", page("/slow/4", "/slow/5"))
    nginx = asite.start(
        asite.http2_listen()
        + slow("delay=50,value=aa/%.dat")
        + slow("never", "http_sendfile_timeout 60s;", "never")
        + PAGES
        + INTERNAL
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        stream = client.send_request("GET", "/page/x.html")
        wait_for(nginx, "get", 3)
        client.reset(stream)
        wait_for(nginx, "cancel", 3)
        stream = client.send_request("GET", "/page/y.html")
        wanted = content(4) + b"\n" + content(5) + b"\n"
        assert client.read_response(stream).body == wanted


def test_auth_request_waits(asite: Site, delivery: str) -> None:
    """A subrequest that decides on access may wait, before the lookup proper."""
    nginx = asite.start(
        slow("delay=40,value=aa/%.dat", "auth_request /auth/1;")
        + slow("delay=40,value=aa/%.dat", "auth_request /denied/2;", "other")
        + "location /auth/ { internal; http_sendfile on; %%DIRECT%%"
        " http_sendfile_lookup test:/delay=30,value=aa/%.dat; }"
        "location /denied/ { internal; http_sendfile on; http_sendfile_fallback =403;"
        " http_sendfile_lookup test:/delay=30,miss; }" + INTERNAL
    )
    with nginx.connect() as connection:
        asite.assert_file(connection.request("GET", "/slow/7"), 7)
        assert connection.request("GET", "/other/8").status == 403
        asite.assert_file(connection.request("GET", "/slow/9"), 9)
    assert keys(nginx, "get") == ["1", "7", "2", "1", "9"]


def test_auth_request_client_leaves(asite: Site) -> None:
    """A client that leaves while its access is decided is noticed."""
    nginx = asite.start(
        slow("delay=40,value=aa/%.dat", "auth_request /auth/1;")
        + "location /auth/ { internal; http_sendfile on; http_sendfile_timeout 60s;"
        " http_sendfile_lookup test:/never; }"
    )
    leaving = get(nginx, "/slow/7")
    wait_for(nginx, "get", 1)
    leaving.close()
    wait_for(nginx, "cancel", 1)
    assert nginx.logged("/slow/7").code == 499
    assert count(nginx, "get", 7) == 0


def test_mirror_waits(asite: Site, delivery: str) -> None:
    """A background subrequest that waits does not keep the answer back."""
    asite.html.write_id("page/7", 7)
    nginx = asite.start(
        "location /page/ { mirror /slow/5; mirror /never/6; }\n"
        + slow("delay=200,value=aa/%.dat", "internal;")
        + slow("never", "internal; http_sendfile_timeout 400ms;", "never")
        + INTERNAL
    )
    with nginx.connect() as connection:
        asite.assert_file(connection.request("GET", "/page/7"), 7)
        assert (count(nginx, "done"), count(nginx, "cancel")) == (0, 0)
        # as with any mirror, the connection's next request waits for it
        asite.assert_file(connection.request("GET", "/page/7"), 7)
        wait_for(nginx, "cancel", 6)
        assert (count(nginx, "done", 5), count(nginx, "cancel", 6)) == (1, 1)
    wait_for(nginx, "done", 5, 2)
    wait_for(nginx, "cancel", 6, 2)


# the end of a worker


def in_flight(nginx: Nginx) -> list[Connection]:
    """Send 30 requests, and return when the store has been asked for all."""
    connections = [get(nginx, f"/slow/{n}") for n in range(30)]
    wait_for(nginx, "get", number=30)
    return connections


def read_all(site: Site, connections: list[Connection]) -> None:
    """Check that 30 requests are answered with their files."""
    for n, connection in enumerate(connections):
        site.assert_file(connection.read_response(), n)
        assert connection.at_end()
        connection.close()


def test_reload(asite: Site, delivery: str) -> None:
    """The old worker answers what it had begun, and then exits."""
    server = slow("delay=1200,value=aa/%.dat", "http_sendfile_timeout 20s;") + INTERNAL
    nginx = asite.start(server)
    old = nginx.workers()
    connections = in_flight(nginx)
    nginx.reload()
    assert count(nginx, "done") == 0, "the reload took too long to show anything"
    new = get(nginx, "/slow/31")
    read_all(asite, connections)
    asite.assert_file(new.read_response(), 31)
    new.close()
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's exit")
    assert not set(old) & set(nginx.workers())
    assert count(nginx, "cancel") == 0


def test_reload_while_a_lookup_never_ends(asite: Site) -> None:
    """The old worker stays until the deadline, and no longer."""
    server = slow("never", "http_sendfile_timeout 900ms;") + INTERNAL
    nginx = asite.start(server)
    with get(nginx, "/slow/7") as connection:
        wait_for(nginx, "get", 7)
        nginx.reload(asite.template("location / { return 200 new; }"))
        assert nginx.get("/slow/7").text == "new"
        assert connection.read_response().status == 504
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's exit")


def test_reload_and_the_client_leaves(asite: Site) -> None:
    """An old worker whose last client leaves exits at once, whatever the deadline."""
    nginx = asite.start(slow("never", "http_sendfile_timeout 60s;") + INTERNAL)
    connection = get(nginx, "/slow/7")
    wait_for(nginx, "get", 7)
    nginx.reload()
    assert len(nginx.all_workers()) == 2
    connection.close()
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's exit")
    assert count(nginx, "cancel", 7) == 1


def test_shutdown_timeout(asite: Site) -> None:
    """worker_shutdown_timeout ends what still waits in an old worker."""
    nginx = asite.start(
        asite.http2_listen()
        + slow("never", "http_sendfile_timeout 60s;")
        + PAGES
        + INTERNAL,
        main="worker_shutdown_timeout 200ms;",
    )
    asite.html.write("page/x.html", page("/slow/1", "/slow/2"))
    with (
        get(nginx, "/slow/7") as connection,
        get(nginx, "/page/x.html") as included,
        Http2Connection(nginx.port_of("h2")) as client,
    ):
        stream = client.send_request("GET", "/slow/8")
        for n in (7, 1, 2, 8):
            wait_for(nginx, "get", n)
        nginx.reload()
        with pytest.raises((ConnectionClosed, ConnectionResetError)):
            connection.read_response()
        with pytest.raises((ConnectionClosed, ConnectionResetError)):
            client.read_response(stream)
        included.read_to_end()
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's exit")
    assert sorted(keys(nginx, "cancel")) == ["1", "2", "7", "8"]


def test_quit(asite: Site, delivery: str) -> None:
    """A graceful stop answers what was begun."""
    nginx = asite.start(
        slow("delay=600,value=aa/%.dat", "http_sendfile_timeout 20s;") + INTERNAL
    )
    connections = in_flight(nginx)
    os.kill(nginx.pid, signal.SIGQUIT)
    nginx.wait_for_log("gracefully shutting down")
    read_all(asite, connections)
    nginx.stop()
    assert (count(nginx, "done"), count(nginx, "cancel")) == (30, 0)


@pytest.mark.parametrize("keep", ["", "keep,"])
def test_fast_shutdown(asite: Site, keep: str) -> None:
    """A fast stop with lookups in flight drops them, and nothing complains."""
    nginx = asite.start(
        slow(f"delay=30000,{keep}value=aa/%.dat", "http_sendfile_timeout 60s;")
        + slow("never", "http_sendfile_timeout 60s;", name="never")
        + INTERNAL
    )
    connections = in_flight(nginx)
    connections += [get(nginx, f"/never/{n}") for n in range(5)]
    wait_for(nginx, "get", number=35)
    # some are cancelled, and with `keep` wait for their end nevertheless
    for connection in connections[:5]:
        connection.close()
    wait_for(nginx, "cancel", number=5)
    os.kill(nginx.pid, signal.SIGTERM)
    nginx.stop()
    for connection in connections[5:]:
        with pytest.raises((ConnectionClosed, ConnectionResetError)):
            connection.read_response()
        connection.close()
    assert count(nginx, "done") == 0


def test_worker_processes_do_not_share(asite: Site) -> None:
    """A lookup belongs to its worker: coalescing ends at the process."""
    asite.variables["WORKERS"] = "2"
    nginx = asite.start(
        "listen 127.0.0.1:%%PORT:spread%% reuseport; add_header X-Pid $pid;"
        + slow("delay=600,value=aa/%.dat", "http_sendfile_timeout 20s;")
        + INTERNAL
    )
    connections = [get(nginx, "/slow/7", port="spread") for _ in range(60)]
    pids = set()
    for connection in connections:
        response = asite.assert_file(connection.read_response(), 7)
        pids.add(response.header("X-Pid"))
        connection.close()
    assert 1 <= count(nginx, "get", 7) == len(pids) <= 2


# store blocks, whose lines name no kind of store

MEMCACHED = "memcached://host:port or memcached:/unix/socket"


def test_block_of_any_kind(asite: Site, delivery: str) -> None:
    """What a server is, and what is made of several, is the store's to say."""
    nginx = asite.start(
        "location /ids/ { http_sendfile on; %%DELIVER%%"
        " http_sendfile_lookup ids; }\n" + INTERNAL,
        http="http_sendfile_store ids { server test:/now,value=aa/%.dat;"
        " server test:/delay=20,miss; timeout 20s; }",
    )
    for _ in range(2):
        asite.assert_file(nginx.get("/ids/7"), 7)
        assert nginx.get("/ids/7").status == 404
    assert keys(nginx, "get") == ["7"] * 4


@pytest.mark.parametrize(
    ("body", "where", "message"),
    [
        (
            "server test:/now,miss;\nserver memcached://127.0.0.1;",
            "server memcached:",
            'invalid server "memcached://127.0.0.1": write test:/options in',
        ),
        (
            "server memcached://127.0.0.1;\nserver test:/now,miss;",
            "server test:",
            f'invalid server "test:/now,miss": write {MEMCACHED} in',
        ),
        (
            "server lmdb:/ids;",
            "server lmdb:",
            f'invalid server "lmdb:/ids": write {MEMCACHED}%%SQLITE%% or test:/options in',
        ),
        (
            "server redis://127.0.0.1;",
            "server redis:",
            f'"redis://127.0.0.1": write {MEMCACHED}%%SQLITE%% or test:/options in',
        ),
        ("server test:/now,nothing;", "server test:", "unknown option in"),
    ],
)
def test_bad_server_of_a_block(
    asite: Site, body: str, where: str, message: str
) -> None:
    """A block is of one kind, of those that have servers."""
    found = asite.check_config(
        "location /ids/ { http_sendfile on; http_sendfile_lookup ids; }",
        http=f"http_sendfile_store ids {{\n{body}\n}}",
    )
    # another kind, where it is linked in
    linked = asite.flavour.module is None
    found.assert_fails(
        where, message.replace("%%SQLITE%%", " or sqlite:/path" if linked else "")
    )


def test_kinds_of_store_in_a_message(asite: Site) -> None:
    """What to write names every kind that there is, also another module's."""
    found = asite.check_config(
        "location /ids/ { http_sendfile on;\nhttp_sendfile_lookup redis://127.0.0.1; }"
    )
    found.assert_fails(
        "http_sendfile_lookup redis",
        "write memcached://host:port or lmdb:/path or test:/options in",
    )
