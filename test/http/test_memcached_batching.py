"""One multi-key get for a turn of the event loop, on connections that stay."""

from __future__ import annotations

import os
import random
import signal
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from lib.client import Connection
from lib.fake_memcached import Fake, Get, Peer, answer, bytewise, hold, late
from lib.files import content
from lib.h2_client import Http2Connection
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.process import open_files
from lib.servers import (
    Servers,
    add,
    add_many,
    block,
    location,
    many_connections,
    patient,
)
from lib.site import INTERNAL, Site
from lib.turn import WARM, connections, send_at_once, stopped
from lib.wait import lateness, wait_until

pytest_plugins = ("lib.memcached_fixtures",)

# the longest get that memcached, and everything between, surely takes
MAX_GET = 8192


@pytest.fixture
def random_ids() -> random.Random:
    """Chance, with a seed that is printed."""
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


def uris(ids: Sequence[int]) -> list[str]:
    """Return what to ask for."""
    return [f"/file/{n}" for n in ids]


def read_files(site: Site, found: Sequence[Connection], ids: Sequence[int]) -> None:
    """Check that each connection brings the file of its ID, and close it."""
    for connection, n in zip(found, ids, strict=True):
        site.assert_file(connection.read_response(), n)
        connection.close()


def start(site: Site, fake: Fake, more: str = "") -> Nginx:
    """Start nginx with a block that leads to the fake, with time to wait."""
    return site.start(location("ids", more) + WARM + INTERNAL, http=patient(fake.url))


def wait_for_gets(fake: Fake, number: int) -> None:
    """Wait until the fake has been asked so many times."""
    wait_until(lambda: len(fake.gets) == number, what=f"{number} gets")


# one turn, one get


@pytest.mark.parametrize("number", [1, 2, 16, 64])
def test_one_get_for_a_turn(site: Site, fake: Fake, delivery: str, number: int) -> None:
    """All keys of one turn of the event loop are asked for in one get."""
    ids = add_many(site, fake, range(number))
    nginx = start(site, fake)
    read_files(site, send_at_once(nginx, uris(ids)), ids)
    (keys,) = fake.lines()
    assert sorted(map(int, keys)) == ids
    assert [len(read.data) for read in fake.reads] == [len(fake.received())]


def test_get_is_exact(site: Site, fake: Fake) -> None:
    """One space before each key, CR LF behind the last."""
    ids = add_many(site, fake, (5, 66, 777))
    nginx = start(site, fake)
    read_files(site, send_at_once(nginx, uris(ids)), ids)
    (keys,) = fake.lines()
    assert fake.received() == f"get {' '.join(keys)}\r\n".encode()


def test_turns_after_each_other(site: Site, fake: Fake, delivery: str) -> None:
    """Ten turns of thirty requests are ten gets, on one connection."""
    ids = add_many(site, fake, range(30))
    nginx = start(site, fake)
    clients = connections(nginx, 30)
    for _ in range(10):
        send_at_once(nginx, uris(ids), clients)
        for connection, n in zip(clients, ids, strict=True):
            site.assert_file(connection.read_response(), n)
    for connection in clients:
        connection.close()
    assert [sorted(map(int, keys)) for keys in fake.lines()] == [ids] * 10
    assert fake.accepted == 1


def test_http2_streams_are_one_get(site: Site, fake: Fake, delivery: str) -> None:
    """Streams that come in one packet are looked up together."""
    ids = add_many(site, fake, range(40))
    nginx = site.start(
        site.http2_listen() + location("ids") + WARM + INTERNAL, http=patient(fake.url)
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        assert client.read_response(client.send_request("GET", "/warm")).status == 204
        (worker,) = nginx.workers()
        with stopped(worker):
            streams = [client.send_request("GET", uri) for uri in uris(ids)]
        for stream, n in zip(streams, ids, strict=True):
            site.assert_file(client.read_response(stream), n)
    assert len(fake.lines()) == 1


def test_hits_and_misses_in_a_batch(
    site: Site, memcached: Memcached, random_ids: random.Random, delivery: str
) -> None:
    """In one batch some are found and some are not, in any pattern."""
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(memcached.url))
    ids = list(range(60))
    clients = connections(nginx, 60)
    for turn in range(12):
        memcached.flush()
        there = set(random_ids.sample(ids, random_ids.choice((0, 1, 30, 59, 60))))
        add_many(site, memcached, there)
        random_ids.shuffle(ids)
        send_at_once(nginx, uris(ids), clients)
        for connection, n in zip(clients, ids, strict=True):
            response = connection.read_response()
            if n in there:
                site.assert_file(response, n)
            else:
                assert response.status == 404, (turn, n, sorted(there))
    for connection in clients:
        connection.close()
    assert memcached.accepted() == 1
    # each key is asked for once a turn
    assert memcached.count("cmd_get") == 12 * 60
    assert {e.status for e in nginx.access_entries()} == {"HIT", "MISS"}


def test_bad_values_in_a_batch(site: Site, servers: Servers) -> None:
    """Values that are invalid, empty or far too long do not harm their neighbours."""
    memcached = servers.memcached(options=("-I", "4m"))
    ids = add_many(site, memcached, range(12))
    bad: dict[int, object] = {
        1: "",
        3: b"x" * 65537,
        4: b"x" * 1_000_000,
        7: "../1",
        8: b"\x04\x08[\x00",
        10: b"x" * 3_000_000,
    }
    for n, value in bad.items():
        memcached.put(n, value)
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(memcached.url))
    for _ in range(3):
        clients = send_at_once(nginx, uris(ids))
        for connection, n in zip(clients, ids, strict=True):
            response = connection.read_response()
            connection.close()
            if n in bad:
                assert response.status == 502
            else:
                site.assert_file(response, n)
    assert memcached.accepted() == 1
    assert memcached.count("cmd_get") == 36
    statuses = Counter(e.status for e in nginx.access_entries())
    assert statuses == {"HIT": 18, "INVALID": 18}


# big batches


def test_500_keys_in_a_turn(site: Site, fake: Fake, delivery: str) -> None:
    """Many keys are a few gets, written at once, each with its share."""
    ids = add_many(site, fake, range(500))
    fake.script = hold
    nginx = site.start_whole(
        many_connections(site, location("ids") + WARM + INTERNAL, patient(fake.url))
    )
    clients = send_at_once(nginx, uris(ids))
    wait_until(lambda: len(fake.asked()) == 500, what="all keys to be asked for")
    # several batches are in flight while the first is not answered
    assert fake.holding == 1
    assert 1 <= len(fake.gets) <= 20
    assert sorted(map(int, fake.asked())) == ids
    fake.release()
    read_files(site, clients, ids)
    assert fake.accepted == 1


def test_long_keys_in_a_turn(site: Site, memcached: Memcached) -> None:
    """Keys of 250 bytes make more gets of bounded length, and a memcached takes them."""
    more = 'http_sendfile_key "$arg_k";'
    fake_keys = {n: f"{n:0250}" for n in range(200)}
    for n, key in fake_keys.items():
        site.files.write_id(f"aa/{n}.dat", n)
        memcached.put(key, f"aa/{n}.dat")
    nginx = site.start(
        location("ids", more) + WARM + INTERNAL, http=patient(memcached.url)
    )
    clients = send_at_once(nginx, [f"/file/?k={key}" for key in fake_keys.values()])
    read_files(site, clients, list(fake_keys))
    assert memcached.count("cmd_get") == 200
    assert memcached.accepted() == 1


def test_gets_have_bounded_length(site: Site, fake: Fake) -> None:
    """No get is longer than what any memcached or proxy takes."""
    more = 'http_sendfile_key "$arg_k";'
    long = {n: f"{n:0250}" for n in range(150)}
    for n, key in long.items():
        site.files.write_id(f"aa/{n}.dat", n)
        fake.put(key, f"aa/{n}.dat")
    nginx = start(site, fake, more)
    read_files(
        site, send_at_once(nginx, [f"/file/?k={k}" for k in long.values()]), list(long)
    )
    lengths = [len(line) + 2 for line in fake.received().split(b"\r\n")[:-1]]
    assert max(lengths) <= MAX_GET
    assert sorted(fake.asked()) == sorted(long.values())
    assert len(lengths) <= 10


# coalescing


def test_one_key_for_many(site: Site, memcached: Memcached, delivery: str) -> None:
    """Requests for one key in one turn ask for it once."""
    ids = add_many(site, memcached, range(3)) * 40
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(memcached.url))
    read_files(site, send_at_once(nginx, uris(ids)), ids)
    assert memcached.count("cmd_get") == 3
    # it is no cache
    site.assert_file(nginx.get("/file/0"), 0)
    assert memcached.count("cmd_get") == 4


def test_one_key_for_many_over_turns(site: Site, fake: Fake, delivery: str) -> None:
    """Who comes while a key is asked for waits with the others."""
    add_many(site, fake, range(2))
    fake.script = hold
    nginx = start(site, fake)
    first = send_at_once(nginx, uris([0, 1]))
    wait_until(lambda: fake.holding == 1, what="the get")
    more = [n % 2 for n in range(30)]
    later = send_at_once(nginx, uris(more))
    # an answer on a later connection: the worker has seen them all
    assert nginx.get("/warm").status == 204
    assert [sorted(keys) for keys in fake.lines()] == [["0", "1"]]
    fake.release()
    read_files(site, first + later, [0, 1, *more])
    assert len(fake.gets) == 1


def test_one_key_with_two_deadlines(
    site: Site, memcached: Memcached, delivery: str
) -> None:
    """Locations with different deadlines ask for a key in one get, each for itself."""
    ids = add_many(site, memcached, range(5))
    nginx = site.start(
        location(memcached.url, "http_sendfile_timeout 5s;", "a")
        + location(memcached.url, "http_sendfile_timeout 6s;", "b")
        + location(memcached.url, "http_sendfile_timeout 7s;", "c")
        + WARM
        + INTERNAL
    )
    wanted = [f"/{name}/{n}" for n in (*ids, 99) for name in "abc"]
    for _ in range(3):
        clients = send_at_once(nginx, wanted)
        for uri, connection in zip(wanted, clients, strict=True):
            response = connection.read_response()
            connection.close()
            if uri.endswith("/99"):
                assert response.status == 404
            else:
                site.assert_file(response, int(uri[3:]))
    assert memcached.accepted() == 1


def test_one_miss_for_many(site: Site, fake: Fake) -> None:
    """A miss is everybody's who waits for it."""
    fake.script = hold
    nginx = start(site, fake)
    clients = send_at_once(nginx, uris([5] * 20))
    wait_until(lambda: fake.holding == 1, what="the get")
    fake.release()
    for connection in clients:
        assert connection.read_response().status == 404
        connection.close()
    assert fake.lines() == [["5"]]


# several batches in flight


def test_several_batches_in_flight(site: Site, fake: Fake, delivery: str) -> None:
    """A turn's get is written though earlier ones are not answered."""
    ids = add_many(site, fake, range(50))
    fake.script = hold
    nginx = start(site, fake)
    clients: list[Connection] = []
    for n in range(5):
        clients += send_at_once(nginx, uris(ids[10 * n : 10 * n + 10]))
        wait_for_gets(fake, n + 1)
    assert fake.accepted == fake.open == 1
    assert fake.holding == 1
    for n in range(5):
        fake.release_once()
        read_files(site, clients[10 * n : 10 * n + 10], ids[10 * n : 10 * n + 10])
        if n < 4:
            wait_until(lambda: fake.holding == 1, what="the next to be held")
    found = [sorted(map(int, keys)) for keys in fake.lines()]
    assert found == [ids[10 * n : 10 * n + 10] for n in range(5)]


def test_answers_in_any_pieces(
    site: Site, fake: Fake, random_ids: random.Random, delivery: str
) -> None:
    """Several answers may come in one packet, or be cut anywhere."""
    ids = add_many(site, fake, range(40))

    async def pieces(peer: Peer, get: Get) -> None:
        reply = peer.reply(get)
        while reply:
            length = random_ids.choice((1, 2, 7, 30, 1000))
            await peer.send(reply[:length])
            reply = reply[length:]
            if random_ids.random() < 0.3:
                await peer.delay(0.0003)

    fake.script = pieces
    nginx = start(site, fake)
    clients = connections(nginx, 40)
    for _ in range(15):
        wanted = random_ids.choices(range(50), k=40)
        for connection, n in zip(clients, wanted, strict=True):
            connection.send_request("GET", f"/file/{n}")
        for connection, n in zip(clients, wanted, strict=True):
            response = connection.read_response()
            if n in ids:
                site.assert_file(response, n)
            else:
                assert response.status == 404
    for connection in clients:
        connection.close()
    assert fake.accepted == 1


def test_big_values_in_flight(site: Site, memcached: Memcached, delivery: str) -> None:
    """Fifty records of 60 KB in one answer, more than any buffer holds."""
    for n in range(50):
        add(site, memcached, n, x=str(n) * (60_000 // len(str(n))))
    ids = list(range(50))
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(memcached.url))
    for _ in range(2):
        read_files(site, send_at_once(nginx, uris(ids)), ids)
    assert memcached.accepted() == 1


def test_values_of_all_sizes(
    site: Site, servers: Servers, random_ids: random.Random, delivery: str
) -> None:
    """Values and keys of any length in one batch, wherever a read cuts them."""
    memcached = servers.memcached(options=("-I", "2m"))
    lengths = [17, 18, 4096, 65535, 65536, 65537, 65800, 69631, 69632, 69633, 140_000]
    lengths += [random_ids.randrange(20, 100_000) for _ in range(50)]
    random_ids.shuffle(lengths)
    asked = {}
    for n, length in enumerate(lengths):
        site.files.write_id(f"a/{n}", n)
        record = f'{{"path":"a/{n}"'
        pad = length - len(record) - len(',"x":""}')
        record += f',"x":"{"x" * pad}"}}' if pad >= 0 else "}"
        key = f"{n}:".ljust(random_ids.randrange(4, 251), "k")
        memcached.put(key, record)
        asked[key] = n, len(record)
    nginx = site.start(
        location("ids", 'http_sendfile_key "$arg_k";') + WARM + INTERNAL,
        http=patient(memcached.url),
    )
    for _ in range(3):
        clients = send_at_once(nginx, [f"/file/?k={key}" for key in asked])
        for connection, (n, length) in zip(clients, asked.values(), strict=True):
            response = connection.read_response()
            connection.close()
            if length <= 65536:
                site.assert_file(response, n)
            else:
                assert response.status == 502
    assert memcached.accepted() == 1
    assert {e.status for e in nginx.access_entries()} == {"HIT", "INVALID"}


def test_server_reads_slowly(site: Site, servers: Servers) -> None:
    """What the socket does not take is written when it does, in order."""
    fake = servers.fake(deaf=True)
    more = 'http_sendfile_key "$arg_k";'
    long = {n: f"{n:0250}" for n in range(2000)}
    for n, key in long.items():
        fake.put(key, f"aa/{n % 10}.dat")
    for n in range(10):
        site.files.write_id(f"aa/{n}.dat", n)
    nginx = site.start_whole(
        many_connections(
            site, location("ids", more) + WARM + INTERNAL, patient(fake.url)
        )
    )
    clients: list[Connection] = []
    for first in range(0, 2000, 400):
        some = list(long.values())[first : first + 400]
        clients += send_at_once(nginx, [f"/file/?k={key}" for key in some])
    assert nginx.get("/warm").status == 204
    assert fake.gets == []
    fake.listen_up()
    read_files(site, clients, [n % 10 for n in long])
    assert sorted(fake.asked()) == sorted(long.values())
    assert fake.accepted == 1


def test_too_many_keys_in_flight(site: Site, fake: Fake) -> None:
    """4,096 keys wait on a connection; what is more fails at once."""
    number = 4096
    fake.script = hold
    for n in range(number + 100):
        fake.put(n, f"aa/{n % 10}.dat")
    for n in range(10):
        site.files.write_id(f"aa/{n}.dat", n)
    nginx = site.start_whole(
        many_connections(
            site,
            site.http2_listen()
            + "http2_max_concurrent_streams 2200; keepalive_requests 10000;"
            + location("ids", "%%DIRECT%%")
            + WARM,
            patient(fake.url),
        )
    )
    port = nginx.port_of("h2")
    with Http2Connection(port) as first, Http2Connection(port) as second:
        streams = {}
        for n in range(number):
            client = first if n < number // 2 else second
            streams[n] = client, client.send_request("GET", f"/file/{n}")
        first.ping()
        second.ping()
        wait_until(lambda: len(fake.asked()) == number, what="all the keys")
        for n in range(number, number + 20):
            response = nginx.get(f"/file/{n}")
            assert response.status == 502
        entry = nginx.logged(f"/file/{number}")
        assert (entry.status, entry.source) == ("ERROR", "memcached")
        assert float(entry.time) < lateness()
        # who waits for a key that is asked for already is no more load
        waiting = nginx.connect()
        waiting.send_request("GET", "/file/17")
        assert nginx.get("/warm").status == 204
        fake.release()
        for n, (client, stream) in streams.items():
            site.assert_file(client.read_response(stream), n % 10)
        read_files(site, [waiting], [7])
    assert len(fake.asked()) == number
    # and then there is room again
    fake.script = answer
    site.assert_file(nginx.get(f"/file/{number + 50}"), (number + 50) % 10)


# connections


def test_one_connection_for_all(
    site: Site, memcached: Memcached, delivery: str
) -> None:
    """Hundreds of requests, one after the other and at once, on one connection."""
    ids = add_many(site, memcached, range(60))
    nginx = site.start(location(memcached.url) + WARM + INTERNAL)
    for _ in range(3):
        read_files(site, send_at_once(nginx, uris(ids)), ids)
    with nginx.connect() as connection:
        for n in ids:
            site.assert_file(connection.request("GET", f"/file/{n}"), n)
    assert memcached.accepted() == memcached.clients() == 1


def test_no_connection_before_it_is_needed(site: Site, fake: Fake) -> None:
    """A worker that looks up nothing connects to nothing."""
    nginx = start(site, fake)
    assert nginx.get("/warm").status == 204
    assert nginx.get("/file/").status == 404
    assert fake.accepted == 0


def test_connections_2(site: Site, servers: Servers, delivery: str) -> None:
    """``connections 2``: two per worker and server, and both are used."""
    fakes = [servers.fake(late(0.02)) for _ in range(2)]
    ids = list(range(80))
    for fake in fakes:
        add_many(site, fake, ids)
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block([fake.url for fake in fakes], "connections 2; timeout 20s;"),
    )
    for _ in range(3):
        read_files(site, send_at_once(nginx, uris(ids)), ids)
    for fake in fakes:
        assert fake.accepted == 2
        used = Counter(get.connection for get in fake.gets for _ in get.keys)
        assert set(used) == {0, 1}
        assert min(used.values()) * 2 >= max(used.values())
    assert sorted(map(int, fakes[0].asked() + fakes[1].asked())) == sorted(ids * 3)


def test_every_worker_has_its_connection(site: Site, memcached: Memcached) -> None:
    """Two workers, two connections."""
    ids = add_many(site, memcached, range(80))
    site.variables["WORKERS"] = "2"
    nginx = site.start(
        "listen 127.0.0.1:%%PORT:spread%% reuseport; add_header X-Pid $pid;"
        + location(memcached.url)
        + INTERNAL
    )
    pids = set()
    for n in ids:
        response = site.assert_file(nginx.get(f"/file/{n}", port="spread"), n)
        pids.add(response.header("X-Pid"))
    assert len(pids) == 2
    assert memcached.accepted() == memcached.clients() == 2


def test_master_connects_nowhere(site: Site, servers: Servers) -> None:
    """Neither the master nor nginx -t opens a connection."""
    fake = servers.fake()
    http = block([fake.url]) + f"http_sendfile_lookup {fake.url};"
    site.variables["LOOKUP"] = ""
    site.check_config(location("ids") + INTERNAL, http=http).assert_silent()
    nginx = site.start(location("ids") + INTERNAL, http=http)
    add(site, fake, 7)
    site.assert_file(nginx.get("/file/7"), 7)
    sockets = [f for f in open_files(nginx.pid) if f.startswith("socket:")]
    (worker,) = nginx.workers()
    of_worker = [f for f in open_files(worker) if f.startswith("socket:")]
    assert len(set(of_worker) - set(sockets)) == 1
    assert fake.accepted == 1


def test_no_connection_is_left(site: Site, memcached: Memcached) -> None:
    """Without a connection left in worker_connections a lookup fails, and no server."""
    add(site, memcached, 7)
    template = site.template(
        location("ids") + INTERNAL,
        block([f"{memcached.url} max_fails=1 fail_timeout=60s"]),
    )
    template = template.replace("worker_connections 256", "worker_connections 12")
    nginx = site.start_whole(template)
    nginx.allow_log("worker_connections are not enough")
    (worker,) = nginx.workers()
    clients: list[Connection] = []
    # a request that has begun keeps its connection; nginx uses some itself
    while not any("not enough" in line for line in nginx.errors("alert")):
        clients.append(nginx.connect())
        clients[-1].send(b"GET /file/7 HTTP/1.1\r\n")
        wait_until(partial(is_accepted, nginx, worker, len(clients)), what="accept")
    # the last one was not served
    clients.pop().close()
    clients[0].send(b"Host: x\r\n\r\n")
    assert clients[0].read_response().status == 502
    assert memcached.accepted() == 0
    for connection in clients[1:]:
        connection.close()

    def is_served() -> bool:
        with nginx.connect() as connection:
            connection.send_request("GET", "/file/7")
            return connection.socket.recv(12) == b"HTTP/1.1 200"

    wait_until(is_served, what="connections to be free again")
    clients[0].close()
    site.assert_file(nginx.get("/file/7"), 7)


def is_accepted(nginx: Nginx, worker: int, number: int) -> bool:
    """Tell whether a worker has taken so many clients, or has said that it cannot."""
    if any("not enough" in line for line in nginx.errors("alert")):
        return True
    sockets = [f for f in open_files(worker) if f.startswith("socket:")]
    # its listening socket, and the channel from the master
    return len(sockets) >= number + 2


def idle_ones(nginx: Nginx, clients: int) -> int:
    """Return how many connections to servers the only worker has."""
    (worker,) = nginx.workers()
    sockets = [f for f in open_files(worker) if f.startswith("socket:")]
    # its listening socket, and the channel from the master
    return len(sockets) - 2 - clients


def test_idle_connections_are_given_up(
    site: Site, servers: Servers, delivery: str
) -> None:
    """A client is served though connections run out: an idle one to a server goes."""
    site.html.write_sparse("big", 1, 100_000_000)
    fakes = [servers.fake() for _ in range(10)]
    for fake in fakes:
        add(site, fake, 7)
    template = site.template(
        "".join(location(fake.url, name=f"s{n}") for n, fake in enumerate(fakes))
        + INTERNAL
    )
    template = template.replace("worker_connections 256", "worker_connections 32")
    nginx = site.start_whole(template)
    for n in range(10):
        site.assert_file(nginx.get(f"/s{n}/7"), 7)
    wait_until(lambda: idle_ones(nginx, 0) == 10, what="the clients to be gone")
    clients: list[Connection] = []
    # an answer that is not read keeps its connection
    while left := idle_ones(nginx, len(clients)):
        clients.append(nginx.connect())
        clients[-1].send_request("GET", "/big")
        assert clients[-1].socket.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
        # one at a time, and not before it has to be
        assert idle_ones(nginx, len(clients)) in (left, left - 1)
        assert left == 10 or any("reusing" in s for s in nginx.errors("warn"))
    assert len(clients) > 10
    for connection in clients:
        connection.abort()
    wait_until(lambda: idle_ones(nginx, 0) == 0, what="the clients to be gone")
    for n, fake in enumerate(fakes):
        assert fake.accepted == 1
        site.assert_file(nginx.get(f"/s{n}/7"), 7)
        assert fake.accepted == 2
    assert nginx.errors("error") == []


def test_connections_in_use_are_not_given_up(site: Site, fake: Fake) -> None:
    """One on which a lookup waits stays, and the client whose turn it was is refused."""
    add(site, fake, 7)
    fake.script = hold
    template = site.template(location("ids") + INTERNAL, patient(fake.url))
    template = template.replace("worker_connections 256", "worker_connections 12")
    nginx = site.start_whole(template)
    nginx.allow_log("worker_connections are not enough")
    (worker,) = nginx.workers()
    with nginx.connect() as waiting:
        waiting.send_request("GET", "/file/7")
        wait_until(lambda: fake.holding == 1, what="the get")
        clients: list[Connection] = []
        while not any("not enough" in line for line in nginx.errors("alert")):
            clients.append(nginx.connect())
            clients[-1].send(b"GET /file/7 HTTP/1.1\r\n")
            number = len(clients) + 2
            wait_until(partial(is_accepted, nginx, worker, number), what="accept")
        fake.release()
        site.assert_file(waiting.read_response(), 7)
    for connection in clients:
        connection.close()
    assert fake.accepted == 1


def test_idle_connections_are_no_waiting_clients(site: Site, fake: Fake) -> None:
    """stub_status does not count them, whatever becomes of them."""
    add(site, fake, 7)
    nginx = site.start(
        "location = /stub { stub_status; }" + location("ids") + INTERNAL,
        http=patient(fake.url),
    )
    with nginx.connect() as connection:
        for n in range(4):
            site.assert_file(connection.request("GET", "/file/7"), 7)
            said = connection.request("GET", "/stub").text
            assert "Active connections: 1 \n" in said
            assert "Reading: 0 Writing: 1 Waiting: 0 \n" in said
            if n == 1:
                fake.hang_up()
                wait_until(lambda: fake.open == 0, what="nginx to close its side")
    assert fake.accepted == 2


def test_everything_can_be_logged_at_level_debug(
    site: Site, servers: Servers, memcached: Memcached
) -> None:
    """Everything that is logged at the level debug can be logged."""
    site.variables["LOG_LEVEL"] = "debug"
    ids = add_many(site, memcached, range(10))
    nginx = site.start(
        location("ids")
        + location(servers.refused(), name="refused")
        + location(servers.fake(hold).url, "http_sendfile_timeout 50ms;", "hung")
        + (WARM + INTERNAL),
        http=patient(memcached.url),
    )
    read_files(site, send_at_once(nginx, uris(ids)), ids)
    assert nginx.get("/file/77").status == 404
    assert nginx.get("/refused/1").status == 502
    assert nginx.get("/hung/1").status == 504
    nginx.reload()
    read_files(site, send_at_once(nginx, uris(ids)), ids)


def test_logs_are_reopened(site: Site, memcached: Memcached) -> None:
    """SIGUSR1: an idle connection goes on, and logs into the new file."""
    add(site, memcached, 7)
    nginx = site.start(location(memcached.url) + INTERNAL)
    site.assert_file(nginx.get("/file/7"), 7)
    nginx.error_log.rename(nginx.error_log.with_suffix(".1"))
    os.kill(nginx.pid, signal.SIGUSR1)
    wait_until(nginx.error_log.exists, what="the new log")
    site.assert_file(nginx.get("/file/7"), 7)
    memcached.pause()
    assert nginx.get("/file/7").status == 504
    assert "does not answer" in nginx.wait_for_log("server 127.0.0.1:")


# the end of a worker


def in_flight(site: Site, nginx: Nginx, fake: Fake) -> list[Connection]:
    """Send 30 requests that the fake holds: half written, half not answered."""
    clients = send_at_once(nginx, uris(range(15)))
    wait_for_gets(fake, 1)
    clients += send_at_once(nginx, uris(range(15, 30)))
    wait_for_gets(fake, 2)
    return clients


@pytest.fixture
def holding(site: Site, fake: Fake) -> Iterator[Nginx]:
    """An nginx whose fake memcached holds its answers, with the files 0 to 31."""
    add_many(site, fake, range(32))
    fake.script = hold
    yield start(site, fake)


def test_reload_with_lookups_in_flight(
    site: Site, fake: Fake, delivery: str, holding: Nginx
) -> None:
    """The old worker answers what it has begun, and closes its connection."""
    clients = in_flight(site, holding, fake)
    holding.reload()
    fake.script = answer
    site.assert_file(holding.get("/file/31"), 31)
    assert fake.open == 2
    fake.release()
    read_files(site, clients, range(30))
    wait_until(
        lambda: holding.all_workers() == holding.workers(), what="the old's exit"
    )
    wait_until(lambda: fake.open == 1, what="the old worker's connection to close")
    site.assert_file(holding.get("/file/30"), 30)
    assert fake.accepted == 2


def test_reload_without_lookups(site: Site, memcached: Memcached) -> None:
    """An idle connection does not keep the old worker."""
    add(site, memcached, 7)
    nginx = site.start(location(memcached.url) + INTERNAL)
    for n in range(3):
        site.assert_file(nginx.get("/file/7"), 7)
        nginx.reload()
        wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the exit")
        wait_until(lambda: memcached.clients() == 0, what="its connection to close")
        assert memcached.accepted() == n + 1
    assert nginx.errors("error", "warn") == []


def test_quit_with_lookups_in_flight(
    site: Site, fake: Fake, delivery: str, holding: Nginx
) -> None:
    """A graceful stop answers what was begun, and closes the connection."""
    clients = in_flight(site, holding, fake)
    os.kill(holding.pid, signal.SIGQUIT)
    holding.wait_for_log("gracefully shutting down")
    fake.release()
    read_files(site, clients, range(30))
    holding.stop()
    wait_until(lambda: fake.open == 0, what="the connection to close")


def test_quit_while_a_lookup_never_ends(site: Site, fake: Fake) -> None:
    """A worker that exits waits for the deadline of its lookups, no longer."""

    async def never(peer: Peer, get: Get) -> None:
        await peer.hold_for_ever()

    fake.script = never
    nginx = site.start(
        location("ids") + INTERNAL, http=patient(fake.url, "timeout 600ms;")
    )
    with nginx.connect() as connection:
        connection.send_request("GET", "/file/7")
        wait_until(lambda: fake.gets, what="the get")
        os.kill(nginx.pid, signal.SIGQUIT)
        nginx.wait_for_log("gracefully shutting down")
        assert connection.read_response().status == 504
    nginx.stop()
    assert nginx.logged("/file/7").status == "TIMEOUT"


def test_quit_after_the_client_left(site: Site, fake: Fake, holding: Nginx) -> None:
    """A lookup that nobody waits for does not keep a worker from exiting."""
    clients = in_flight(site, holding, fake)
    for connection in clients:
        connection.close()
    wait_until(
        lambda: len(holding.access_entries()) == 30, what="nginx to see them leave"
    )
    # not at the deadline, which stop() would not survive
    holding.stop()
    wait_until(lambda: fake.open == 0, what="the connection to close")


def test_fast_shutdown_with_lookups_in_flight(
    site: Site, fake: Fake, holding: Nginx
) -> None:
    """SIGTERM drops lookups and connections, and nothing complains."""
    clients = in_flight(site, holding, fake)
    for connection in clients[10:20]:
        connection.close()
    wait_until(lambda: len(holding.access_entries()) == 10, what="some to leave")
    os.kill(holding.pid, signal.SIGTERM)
    holding.stop()
    wait_until(lambda: fake.open == 0, what="the connection to close")
    for connection in clients:
        connection.close()


def test_reload_removes_the_store(site: Site, fake: Fake, holding: Nginx) -> None:
    """The old worker ends its lookups in a store that the new one does not know."""
    clients = in_flight(site, holding, fake)
    holding.reload(site.template("location / { return 200 new; }"))
    assert holding.get("/file/7").text == "new"
    fake.release()
    read_files(site, clients, range(30))
    wait_until(lambda: fake.open == 0, what="the connection to close")


def test_worker_dies(site: Site, fake: Fake) -> None:
    """A killed worker's connection goes with it, and the next one has its own."""
    add_many(site, fake, range(3))
    nginx = start(site, fake)
    site.assert_file(nginx.get("/file/1"), 1)
    (old,) = nginx.workers()
    nginx.allow_log("exited on signal 9")
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: nginx.workers() not in ([], [old]), what="a new worker")
    wait_until(lambda: fake.open == 0, what="the kernel to close the connection")
    site.assert_file(nginx.get("/file/2"), 2)
    assert fake.accepted == 2


# what is counted


def test_cmd_get_is_the_number_of_requests(
    site: Site, memcached: Memcached, random_ids: random.Random, delivery: str
) -> None:
    """Without coalescing memcached is asked exactly once for each request."""
    ids = add_many(site, memcached, range(500))
    nginx = site.start(location(memcached.url) + WARM + INTERNAL)
    clients = connections(nginx, 50)
    random_ids.shuffle(ids)
    for first in range(0, 500, 50):
        some = ids[first : first + 50]
        for connection, n in zip(clients, some, strict=True):
            connection.send_request("GET", f"/file/{n}")
        for connection, n in zip(clients, some, strict=True):
            site.assert_file(connection.read_response(), n)
    for connection in clients:
        connection.close()
    assert memcached.count("cmd_get") == memcached.count("get_hits") == 500


def test_bytewise_answers_of_a_batch(site: Site, fake: Fake, delivery: str) -> None:
    """A batch's answer that comes byte by byte is answered value by value."""
    ids = add_many(site, fake, range(12))
    fake.script = bytewise(0.0003)
    nginx = start(site, fake)
    clients = send_at_once(nginx, uris(ids))
    read_files(site, clients, ids)
    assert (len(fake.gets), fake.accepted) == (1, 1)


def test_value_is_served_before_the_end(site: Site, fake: Fake) -> None:
    """A value that has come is served though the rest of the batch has not."""
    ids = add_many(site, fake, range(3))

    async def first_only(peer: Peer, get: Get) -> None:
        await peer.send(peer.value(get.keys[0]))
        await peer.hold()
        await peer.send(b"".join(map(peer.value, get.keys[1:])) + b"END\r\n")

    fake.script = first_only
    nginx = start(site, fake)
    clients = send_at_once(nginx, uris(ids))
    wait_until(lambda: fake.holding == 1, what="the first value")
    (keys,) = fake.lines()
    first = int(keys[0])
    assert clients[first].read_response().body == content(first)
    fake.release()
    for n in map(int, keys[1:]):
        site.assert_file(clients[n].read_response(), n)
    for connection in clients:
        connection.close()
