"""memcached absent, hung, slow or mad: every request is answered in time, rightly."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from lib.cache import LATE
from lib.client import Connection
from lib.fake_memcached import (
    Fake,
    Get,
    Peer,
    Script,
    answer,
    bytewise,
    changed,
    cut,
    hang_up,
    hold,
    late,
    never,
    raw,
)
from lib.files import content
from lib.h2_client import Http2Connection
from lib.memcached import Memcached
from lib.nginx import Nginx
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
from lib.turn import WARM, connections, send_at_once
from lib.wait import how_late, lateness, wait_until

pytest_plugins = ("lib.memcached_fixtures",)

# a lookup is over soon after its deadline, at the best of so many
ROUNDS = 5
# and is answered before a short one, in one of so many
TRIES = 20


def status_of(response_to: Connection, n: int) -> int:
    """Read the answer for an ID: its own file, the application's word, or an error."""
    response = response_to.read_response()
    response_to.close()
    if response.status == 200:
        assert response.body in (content(n), f"app GET /file/{n}\n".encode()), response
    return response.status


def statuses(nginx: Nginx, ids: Sequence[int]) -> tuple[list[int], float]:
    """Ask for IDs in one turn; return the answers' statuses and the longest wait."""
    clients = connections(nginx, len(ids))
    start = time.monotonic()
    send_at_once(nginx, [f"/file/{n}" for n in ids], clients)
    found = [status_of(c, n) for c, n in zip(clients, ids, strict=True)]
    return found, time.monotonic() - start


def ask(nginx: Nginx, ids: Sequence[int]) -> set[int]:
    """Ask for IDs on a connection each, whatever turns it takes; return the statuses."""
    clients = [nginx.connect() for _ in ids]
    for connection, n in zip(clients, ids, strict=True):
        connection.send_request("GET", f"/file/{n}")
    return {status_of(c, n) for c, n in zip(clients, ids, strict=True)}


def ask_until(nginx: Nginx, uri: str, condition: Callable[[], bool]) -> float:
    """Ask for something until a condition holds; the answers are all 502.

    Returns:
        The moment before the last question, on the monotonic clock.
    """
    asked = 0.0

    def holds() -> bool:
        nonlocal asked
        asked = time.monotonic()
        assert nginx.get(uri).status == 502
        return condition()

    wait_until(holds, what="an end of the answers 502")
    return asked


def wait_for_no_connection(fake: Fake) -> None:
    """Wait until nginx has closed its connections."""
    wait_until(lambda: fake.open == 0, what="nginx to close its connections")


def wait_for_asked(fake: Fake, number: int) -> None:
    """Wait until the fake has been asked for so many keys."""
    wait_until(lambda: len(fake.asked()) == number, what=f"{number} keys")


def wait_for_entries(nginx: Nginx, number: int) -> None:
    """Wait until so many requests are in the access log."""
    wait_until(
        lambda: len(nginx.access_entries()) == number, what=f"{number} requests' end"
    )


def timed(nginx: Nginx, uri: str) -> tuple[int, float]:
    """Send a GET; return the answer's status and the seconds it took."""
    start = time.monotonic()
    status = nginx.get(uri).status
    return status, time.monotonic() - start


# answers that are wrong

IDS = [11, 12, 13, 14, 15, 16]


def value(n: int, data: bytes = b"") -> bytes:
    """Return the right VALUE of an ID, or one with other data."""
    data = data or b"aa/%d.dat" % n
    return b"VALUE %d 0 %d\r\n%s\r\n" % (n, len(data), data)


def reverse(reply: bytes, get: Get) -> bytes:
    """Return the values in the opposite order."""
    return b"".join(value(int(key)) for key in reversed(get.keys)) + b"END\r\n"


def shuffle(reply: bytes, get: Get) -> bytes:
    """Return the values in an order that is neither."""
    keys = [*get.keys[2:], *get.keys[:2]]
    return b"".join(value(int(key)) for key in keys) + b"END\r\n"


def middle(data: bytes) -> Callable[[bytes, Get], bytes]:
    """Return a function that puts bytes behind the second value of a reply."""

    def change(reply: bytes, get: Get) -> bytes:
        first = b"".join(value(int(key)) for key in get.keys[:2])
        return first + data + reply[len(first) :]

    return change


def ended(data: bytes) -> Callable[[bytes, Get], bytes]:
    """Return a function that lets a reply end with bytes after the second value."""
    return lambda reply, get: b"".join(value(int(k)) for k in get.keys[:2]) + data


def renamed(name: bytes) -> Callable[[bytes, Get], bytes]:
    """Return a function that gives the third value, or a lone one, another key."""

    def change(reply: bytes, get: Get) -> bytes:
        key = get.keys[2 % len(get.keys)]
        right = value(int(key))
        return reply.replace(right, right.replace(key.encode(), name, 1))

    return change


def head(line: bytes) -> Callable[[bytes, Get], bytes]:
    """Return a function that gives the first value another line.

    Args:
        line: %k is replaced by the key.
    """
    return lambda reply, get: (
        line.replace(b"%k", get.keys[0].encode()) + reply[reply.index(b"\r\n") :]
    )


# what the memcached does, and how requests may end; 200 is the right file
WRONG: dict[str, tuple[Script, set[int]]] = {
    "reversed": (changed(reverse), {200}),
    "shuffled": (changed(shuffle), {200}),
    "a value twice": (changed(middle(value(11))), {200, 502}),
    "all twice": (changed(lambda r, g: r[:-5] + r), {200}),
    "an unknown key": (changed(middle(value(99))), {200, 502}),
    "a key renamed": (changed(renamed(b"99")), {200, 502}),
    "a key with NUL": (changed(renamed(b"13\0")), {200, 502}),
    "a key longer": (changed(renamed(b"131")), {200, 502}),
    "a key shorter": (changed(renamed(b"1")), {200, 502}),
    "a key empty": (changed(renamed(b"")), {200, 502}),
    "a key of 300 bytes": (changed(renamed(b"1" * 300)), {200, 502}),
    "SERVER_ERROR": (raw(b"SERVER_ERROR out of memory\r\n"), {502}),
    "CLIENT_ERROR": (raw(b"CLIENT_ERROR line too long\r\n"), {502}),
    "ERROR": (raw(b"ERROR\r\n"), {502}),
    "SERVER_ERROR amid": (
        changed(ended(b"SERVER_ERROR out of memory writing get response\r\n")),
        {200, 502},
    ),
    "ERROR amid": (changed(ended(b"ERROR\r\n")), {200, 502}),
    "SERVER_ERROR and more": (changed(middle(b"SERVER_ERROR busy\r\n")), {200, 502}),
    "ERROR of control bytes": (raw(b"SERVER_ERROR \x1b[2J\x00\xff\r\n"), {502}),
    "a long ERROR": (raw(b"SERVER_ERROR " + b"x" * 5000 + b"\r\n"), {502}),
    "bytes after END": (changed(lambda r, g: r + b"x"), {200}),
    "a value after END": (changed(lambda r, g: r + value(12) + b"END\r\n"), {200}),
    "two ENDs": (changed(lambda r, g: r + b"END\r\n"), {200}),
    "a reply twice": (changed(lambda r, g: r + r), {200}),
    "STORED": (raw(b"STORED\r\n"), {502}),
    "an HTTP answer": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), {502}),
    "a Redis answer": (raw(b"-ERR unknown command 'get'\r\n"), {502}),
    "the binary protocol": (raw(b"\x81\0\0\0\0\0\0\x01" + b"\0" * 16), {502, 504}),
    "empty lines": (raw(b"\r\n\r\n\r\n"), {502}),
    "zeros": (raw(b"\0" * 100_000), {502}),
    "no line at all": (raw(b"V" * 100_000), {502}),
    "a VALUE line without end": (raw(b"VALUE 11 0 8" + b"8" * 2000), {502}),
    "END without CR": (raw(b"END\n"), {502, 504}),
    "END and more": (raw(b"ENDING\r\n"), {502}),
    "end": (raw(b"end\r\n"), {502}),
    "VALUE alone": (changed(head(b"VALUE")), {502}),
    "VALUE and a key": (changed(head(b"VALUE %k")), {502}),
    "no length": (changed(head(b"VALUE %k 0")), {502}),
    "a length that is none": (changed(head(b"VALUE %k 0 x")), {502}),
    "a length below zero": (changed(head(b"VALUE %k 0 -9")), {502}),
    "a length of 2^31": (changed(head(b"VALUE %k 0 2147483648")), {502, 504}),
    "a length of 2^32+9": (changed(head(b"VALUE %k 0 4294967305")), {502, 504}),
    "a length of 2^64-1": (changed(head(b"VALUE %k 0 18446744073709551615")), {502}),
    "a length of 2^64+9": (changed(head(b"VALUE %k 0 18446744073709551625")), {502}),
    "a length of 10^30": (changed(head(b"VALUE %k 0 1" + b"0" * 30)), {502}),
    "a length too small": (changed(head(b"VALUE %k 0 8")), {502}),
    "a length too big": (changed(head(b"VALUE %k 0 10")), {502}),
    "a length of 100,000": (changed(head(b"VALUE %k 0 100000")), {502, 504}),
    "flags that are none": (changed(head(b"VALUE %k x 9")), {502}),
    "flags of 2^32": (changed(head(b"VALUE %k 4294967296 9")), {502}),
    "flags below zero": (changed(head(b"VALUE %k -1 9")), {502}),
    "two spaces": (changed(head(b"VALUE  %k 0 9")), {502}),
    "a tab": (changed(head(b"VALUE\t%k 0 9")), {502}),
    "a NUL in the line": (changed(head(b"VALUE %k 0\x009")), {502}),
    "a word too many": (changed(head(b"VALUE %k 0 9 x y")), {502}),
    "values without CR LF": (
        changed(lambda r, g: r.replace(b"dat\r\n", b"dat")),
        {502},
    ),
}


# an END too many is the next batch's, if there is one: nobody can tell
LIKE_A_MISS = (
    "two ENDs",
    "a value after END",
    "a reply twice",
    "SERVER_ERROR and more",
)


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answer(site: Site, fake: Fake, what: str) -> None:
    """No answer makes a request fail later than in time, or serve another's file."""
    script, wanted = WRONG[what]
    add_many(site, fake, IDS)
    site.files.write_id("aa/99.dat", 99)
    nginx = site.start(
        location("ids") + location("ids", FALLBACK, "app") + WARM + INTERNAL + APP,
        # only one that somebody waits for is a short one
        http=patient(fake.url, "timeout 100ms;" if 504 in wanted else "timeout 5s;"),
    )
    waits = []
    for _ in range(ROUNDS):
        fake.script = script
        found, seconds = statuses(nginx, IDS)
        assert set(found) <= wanted
        if wanted != {200}:
            assert set(found) - {200}, f"nobody has noticed: {found}"
        waits.append(seconds)
        assert nginx.get("/app/11").status == 200
        # whatever it was, it is over with the next good answer
        fake.script = answer
        wait_until(
            lambda: statuses(nginx, IDS)[0] == [200] * 6, what="all to be well again"
        )
        if min(waits) <= 0.1 + lateness():
            break
    assert min(waits) <= 0.1 + lateness()
    logged = {e.status for e in nginx.access_entries()}
    assert logged <= {"HIT", "ERROR", "TIMEOUT", "INVALID"}


def test_out_of_order_is_no_miss(site: Site, fake: Fake) -> None:
    """A key whose value comes before its turn does not make others missing."""
    add_many(site, fake, IDS)
    del fake.values["13"], fake.values["16"]

    async def backwards(peer: Peer, get: Get) -> None:
        values = [peer.value(key) for key in reversed(get.keys)]
        await peer.send(b"".join(values) + b"END\r\n")

    fake.script = backwards
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    for _ in range(3):
        assert statuses(nginx, IDS)[0] == [200, 200, 404, 200, 200, 404]
    assert fake.accepted == 1


@pytest.mark.parametrize("error", ["ERROR", "SERVER_ERROR busy", "CLIENT_ERROR bad"])
def test_connection_survives_an_error_line(site: Site, fake: Fake, error: str) -> None:
    """An error line is an answer: the connection and what follows are good."""
    add_many(site, fake, IDS)
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    for _ in range(3):
        fake.script = raw(f"{error}\r\n".encode())
        assert statuses(nginx, IDS)[0] == [502] * 6
        fake.script = answer
        assert statuses(nginx, IDS)[0] == [200] * 6
    assert fake.accepted == 1
    line = nginx.wait_for_log(re.escape(error))
    assert "[error]" in line and f"127.0.0.1:{fake.port}" in line


def test_error_line_fails_its_batch_only(site: Site, fake: Fake) -> None:
    """The batches before and behind the one with an error line are answered."""
    ids = add_many(site, fake, range(30))

    async def second_fails(peer: Peer, get: Get) -> None:
        await peer.hold()
        good = get.number != 1
        await peer.send(peer.reply(get) if good else b"SERVER_ERROR x\r\n")

    fake.script = second_fails
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    clients: list[Connection] = []
    for first in (0, 10, 20):
        uris = [f"/file/{n}" for n in ids[first : first + 10]]
        clients += send_at_once(nginx, uris)
        wait_for_asked(fake, len(clients))
    fake.release()
    found = [status_of(c, n) for c, n in zip(clients, ids, strict=True)]
    assert found == [200] * 10 + [502] * 10 + [200] * 10
    assert fake.accepted == 1


@pytest.mark.parametrize("then", ["close", "reset"])
def test_closed_at_every_byte(site: Site, fake: Fake, then: str) -> None:
    """The server goes away after each number of bytes of its answer."""
    ids = add_many(site, fake, (1, 2, 3))
    reply = b"".join(map(value, ids)) + b"END\r\n"
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    for length in range(len(reply) + 1):
        fake.script = cut(length, then)
        found, _seconds = statuses(nginx, ids)
        whole = sum(length >= len(value(1)) * (n + 1) for n in range(3))
        if then == "close":
            assert found.count(200) == whole, (length, found)
        assert set(found) <= {200, 502}
        wait_for_no_connection(fake)
    assert fake.accepted == len(reply) + 1


def test_stalled_at_many_bytes(site: Site, fake: Fake) -> None:
    """The server falls silent somewhere in its answer: what came is served."""
    ids = add_many(site, fake, (1, 2))
    nginx = site.start(
        location("ids") + WARM + INTERNAL, http=patient(fake.url, "timeout 50ms;")
    )
    for length in (0, 1, 5, 7, 14, 16, 20, 24, 25, 26, 27, 30):
        whole = sum(length >= len(value(1)) * (n + 1) for n in range(2))
        for _ in range(TRIES):
            fake.script = cut(length, "stall")
            found, seconds = statuses(nginx, ids)
            assert found.count(200) <= whole, (length, found)
            assert set(found) <= {200, 504}
            # without a byte until the deadline a connection is given up
            wait_for_no_connection(fake)
            if found.count(200) == whole and seconds <= 0.05 + lateness():
                break
        else:
            raise AssertionError(f"after {length} bytes: {found}, {seconds} s")


def test_stalled_at_the_end(site: Site, fake: Fake) -> None:
    """An END that does not come is noticed by the next lookup, at its deadline."""
    ids = add_many(site, fake, (1, 2))
    fake.script = cut(-1, "stall")
    nginx = site.start(
        location("ids") + WARM + INTERNAL, http=patient(fake.url, "timeout 600ms;")
    )
    for n in range(3):
        fake.script = cut(-1, "stall")
        assert statuses(nginx, ids)[0] == [200, 200]
        assert fake.open == 1
        fake.script = answer
        assert nginx.get("/file/2").status == 504
        wait_for_no_connection(fake)
        assert statuses(nginx, ids)[0] == [200, 200]
        assert fake.accepted == 2 * n + 2
        fake.hang_up()
        wait_for_no_connection(fake)


# slow


def test_deadline(site: Site, fake: Fake, delivery: str) -> None:
    """A server that never answers: 504 after 250 ms, by default."""
    fake.script = never
    site.variables["DEADLINE"] = ""
    nginx = site.start(location(fake.url) + INTERNAL)
    waits = []
    for n in range(3):
        status, seconds = timed(nginx, f"/file/{n}")
        assert status == 504
        waits.append(seconds)
        entry = nginx.logged(f"/file/{n}")
        assert (entry.status, entry.reason) == ("TIMEOUT", "lookup timed out")
        wait_for_no_connection(fake)
    assert 0.245 <= min(waits) <= 0.25 + lateness()


@pytest.mark.parametrize("where", ["block", "location"])
def test_timeout_directives(site: Site, fake: Fake, where: str) -> None:
    """``timeout`` is for a block, http_sendfile_timeout for all else."""
    fake.script = never
    more = "http_sendfile_timeout 120ms;"
    nginx = site.start(
        (location("ids", "http_sendfile_timeout 9s;") if where == "block" else "")
        + (location(fake.url, more) if where == "location" else "")
        + INTERNAL,
        http=patient(fake.url, "timeout 120ms;"),
    )
    times = []
    for n in range(3):
        times.append(timed(nginx, f"/file/{n}"))
        wait_for_no_connection(fake)
    assert {status for status, _ in times} == {504}
    assert 0.115 <= min(seconds for _, seconds in times) <= 0.12 + lateness()


def test_silent_connection_is_closed(site: Site, fake: Fake) -> None:
    """A deadline that passed without a byte ends the connection, and the next is new."""
    add(site, fake, 7)
    fake.script = never
    nginx = site.start(
        location("ids") + INTERNAL, http=patient(fake.url, "timeout 80ms;")
    )
    for n in range(3):
        assert nginx.get("/file/7").status == 504
        wait_for_no_connection(fake)
        assert fake.accepted == n + 1
    fake.script = answer
    wait_until(partial(in_time, site, 7), what="an answer in time")


def in_time(site: Site, file_id: int) -> bool:
    """Ask for a file; tell whether the store has replied before its deadline."""
    response = site.nginx.get(f"/file/{file_id}")
    if response.status == 504:
        return False
    site.assert_file(response, file_id)
    return True


def test_slow_bytes_are_no_silence(site: Site, fake: Fake) -> None:
    """A deadline passes while bytes come: 504, and the connection stays of use."""
    add_many(site, fake, (1, 2))
    reply = len(value(1) + b"END\r\n")
    fake.script = bytewise(1.2 / reply)
    nginx = site.start(
        location("ids") + INTERNAL, http=patient(fake.url, "timeout 450ms;")
    )
    assert nginx.get("/file/1").status == 504
    fake.script = answer
    wait_until(partial(in_time, site, 2), what="the slow answer to end")
    wait_until(partial(in_time, site, 1), what="an answer in time")
    assert fake.accepted == 1


def test_late_answer_is_for_nobody(site: Site, fake: Fake) -> None:
    """An answer behind its deadline is read and dropped, not the next one's."""
    add_many(site, fake, range(20))

    async def first_is_late(peer: Peer, get: Get) -> None:
        if get.keys == ("0",):
            # bytes come, so that the connection is kept
            await peer.send_bytewise(peer.reply(get), 0.008)
        else:
            await peer.send(peer.reply(get))

    fake.script = first_is_late
    nginx = site.start(
        location("slow", name="slow") + location("ids") + WARM + INTERNAL,
        http=patient(fake.url, "timeout 100ms;", "slow") + patient(fake.url),
    )
    # /slow/ and /file/ have connections of their own: one that stays in step
    assert nginx.get("/slow/0").status == 504
    late_ones = [nginx.connect() for _ in range(5)]
    for n, connection in enumerate(late_ones, 1):
        connection.send_request("GET", f"/slow/{n}")
    for n, connection in enumerate(late_ones, 1):
        response = connection.read_response()
        connection.close()
        assert response.status == 504 or response.body == content(n)
    for n in range(20):
        site.assert_file(nginx.get(f"/file/{n}"), n)
    wait_until(lambda: nginx.get("/slow/9").body == content(9), what="the end of it")


def short_and_long(url: str, short: str, long: str) -> str:
    """Return locations /short/ and /file/ of one store, with a deadline each."""
    return (
        location(url, f"http_sendfile_timeout {short};", "short")
        + location(url, f"http_sendfile_timeout {long};")
        + INTERNAL
    )


def test_a_short_deadline_is_its_own_lookups(
    site: Site, fake: Fake, delivery: str
) -> None:
    """Who cannot wait leaves the connection, and the server, to those who can."""
    add_many(site, fake, range(10))
    fake.script = hold
    nginx = site.start(short_and_long(fake.url, "30ms", "20s"))
    with nginx.connect() as patient_one:
        patient_one.send_request("GET", "/file/1")
        wait_for_asked(fake, 1)
        for n in range(2, 8):
            assert nginx.get(f"/short/{n}").status == 504
            assert nginx.logged(f"/short/{n}").reason == "lookup timed out"
        fake.script = answer
        fake.release()
        site.assert_file(patient_one.read_response(), 1)
    site.assert_file(nginx.get("/file/2"), 2)
    site.assert_file(nginx.get("/file/9"), 9)
    assert fake.accepted == 1
    assert down_lines(nginx) == []


def test_a_short_deadline_and_a_slow_server(site: Site, fake: Fake) -> None:
    """A server that is too slow for one location is not down for another."""
    add_many(site, fake, range(10))
    fake.script = late(0.6)
    nginx = site.start(short_and_long(fake.url, "20ms", "20s"))
    for n in range(5):
        assert nginx.get(f"/short/{n}").status == 504
        site.assert_file(nginx.get(f"/file/{n}"), n)
    assert fake.accepted == 1
    assert down_lines(nginx) == []


def test_a_short_deadline_and_a_hung_server(site: Site, fake: Fake) -> None:
    """The server's silence is as long as the longest deadline, whoever asks."""
    fake.script = never
    nginx = site.start(short_and_long(fake.url, "20ms", "300ms"))
    begin = time.monotonic()
    assert nginx.get("/short/7").status == 504
    while not down_lines(nginx):
        assert nginx.get("/short/7").status in (502, 504)
        assert time.monotonic() - begin < 60, "the breaker does not trip"
    assert time.monotonic() - begin >= 0.29
    wait_for_no_connection(fake)
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").reason == "server is down"
    assert fake.accepted == 1


def test_a_short_deadline_and_a_server_that_drips(site: Site, fake: Fake) -> None:
    """An answer that does not come in the server's time is a failure, too."""
    add(site, fake, 7)
    fake.script = bytewise(0.03)
    nginx = site.start(short_and_long(fake.url, "20ms", "150ms"))
    wait_until(
        lambda: nginx.get("/short/7").status == 502 and down_lines(nginx),
        what="the breaker to trip",
    )


def test_a_short_deadline_of_the_probe(site: Site, fake: Fake) -> None:
    """An answer in the server's time brings it back, though it is too late for one."""
    add(site, fake, 7)
    fake.script = hang_up
    nginx = site.start(short_and_long(fake.url, "300ms", "20s"))
    for _ in range(3):
        assert nginx.get("/short/7").status == 502
    assert len(down_lines(nginx)) == 1
    fake.script = late(1.5)
    wait_until(lambda: nginx.get("/short/7").status == 504, what="the probe to be sent")
    wait_until(lambda: up_lines(nginx), what="the server to be up again")
    site.assert_file(nginx.get("/file/7"), 7)


def test_hung_server_and_clients_that_leave(site: Site, fake: Fake) -> None:
    """A server is down that answers nobody, though nobody waits to the end."""
    fake.script = never
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} fail_timeout=60s"], "timeout 1500ms;"),
    )
    for number in range(3):
        with nginx.connect() as leaving:
            leaving.send_request("GET", f"/file/{number}")
            wait_for_asked(fake, number + 1)
        assert nginx.logged(f"/file/{number}").code == 499
    nginx.wait_for_log("is down, lookups in it fail at once")
    assert nginx.get("/file/7").status == 502


def test_slow_server_in_time(site: Site, fake: Fake, delivery: str) -> None:
    """A server that takes its time is waited for."""
    ids = add_many(site, fake, range(10))
    fake.script = late(0.1)
    nginx = site.start(location(fake.url) + WARM + INTERNAL)
    for _ in range(3):
        found, seconds = statuses(nginx, ids)
        assert found == [200] * 10
        assert seconds >= 0.095


# absent


def absent(servers: Servers, what: str) -> str:
    """Return the URL of a memcached that is not there."""
    if what == "refused":
        return servers.refused()
    if what == "black hole":
        return servers.black_hole().url
    if what == "full unix socket":
        return servers.black_hole(unix=True).url
    assert what == "no unix socket", what
    return "memcached:/nonexistent/memcached.sock"


ABSENT = ["refused", "black hole", "full unix socket", "no unix socket"]


# how nginx's own log, or ours, says it
ABSENT_REASONS = {
    "refused": "Connection refused",
    "black hole": "connect timed out",
    "full unix socket": "Resource temporarily unavailable",
    "no unix socket": "No such file or directory",
}


@pytest.mark.parametrize("what", ABSENT)
def test_nobody_there_is_an_error_or_the_fallback(
    site: Site, servers: Servers, what: str, delivery: str
) -> None:
    """Nobody there: 502 at once, 504 when connecting takes too long; or the fallback."""
    url = absent(servers, what)
    nginx = site.start(
        location("ids") + location("ids", FALLBACK, "app") + WARM + INTERNAL + APP,
        http=patient(url, "connect_timeout 60ms; timeout 200ms;"),
    )
    if what == "no unix socket":
        # nginx's own level for anything but a refusal
        nginx.allow_log(r"\[crit\].*connect\(\) to /nonexistent/")
    code, status = (504, "TIMEOUT") if what == "black hole" else (502, "ERROR")
    waits = []
    for _ in range(ROUNDS):
        found, seconds = statuses(nginx, IDS)
        assert found == [code] * 6
        waits.append(seconds)
        assert nginx.get("/app/7?a=b").text == "app GET /app/7?a=b\n"
    assert min(waits) <= (0.06 if what == "black hole" else 0) + lateness()
    entry = nginx.logged("/file/11")
    assert (entry.status, entry.source) == (status, "memcached")
    assert "connect" in entry.reason
    assert nginx.logged("/app/7?a=b").status == status
    line = nginx.wait_for_log(ABSENT_REASONS[what])
    assert url.removeprefix("memcached:").removeprefix("//") in line


def test_black_hole_and_a_short_deadline(site: Site, servers: Servers) -> None:
    """The deadline of a lookup holds while its connection is made, too."""
    nginx = site.start(
        location("ids") + INTERNAL,
        http=patient(servers.black_hole().url, "connect_timeout 20s; timeout 120ms;"),
    )
    times = [timed(nginx, f"/file/{n}") for n in range(4)]
    assert {status for status, _ in times} == {504}
    assert 0.115 <= min(seconds for _, seconds in times) <= 0.12 + lateness()


def test_default_connect_timeout(site: Site, servers: Servers) -> None:
    """Connecting may take 100 ms, by default."""
    nginx = site.start(
        location("ids") + INTERNAL, http=patient(servers.black_hole().url, "")
    )
    times = [timed(nginx, f"/file/{n}") for n in range(3)]
    assert {status for status, _ in times} == {504}
    assert 0.095 <= min(seconds for _, seconds in times) <= 0.1 + lateness()


def test_comes_up_later(site: Site, servers: Servers, delivery: str) -> None:
    """nginx starts without its memcached, and finds it when it is there."""
    memcached = servers.memcached()
    memcached.kill()
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{memcached.url} fail_timeout=100ms"]),
    )
    for _ in range(10):
        assert nginx.get("/file/7").status == 502
    memcached.start()
    add(site, memcached, 7)
    wait_until(lambda: nginx.get("/file/7").status == 200, what="memcached to be found")
    for _ in range(10):
        site.assert_file(nginx.get("/file/7"), 7)
    assert memcached.accepted() == 1


# hung, killed, restarted: a real one


def test_hung(site: Site, memcached: Memcached, delivery: str) -> None:
    """SIGSTOP: deadlines first, then failures at once, and after SIGCONT files again."""
    ids = add_many(site, memcached, range(10))
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block([f"{memcached.url} fail_timeout=200ms"], "timeout 100ms;"),
    )
    wait_until(lambda: statuses(nginx, ids)[0] == [200] * 10, what="all in time")
    memcached.pause()
    found, seconds = statuses(nginx, ids)
    assert set(found) == {504}
    assert seconds < 30
    wait_until(lambda: timed(nginx, "/file/1")[0] == 502, what="the breaker to open")
    memcached.resume()
    wait_until(lambda: timed(nginx, "/file/1")[0] == 200, what="it to be used again")
    wait_until(lambda: statuses(nginx, ids)[0] == [200] * 10, what="all in time")


def test_killed_amid_lookups(site: Site, memcached: Memcached, delivery: str) -> None:
    """Killed with lookups in flight: all fail at once; restarted: files again."""
    ids = add_many(site, memcached, range(30))
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(memcached.url))
    for _ in range(3):
        assert statuses(nginx, ids)[0] == [200] * 30
        memcached.pause()
        clients = send_at_once(nginx, [f"/file/{n}" for n in ids])
        assert nginx.get("/warm").status == 204
        memcached.kill()
        # not at the deadline, until which no client waits
        assert [status_of(c, n) for c, n in zip(clients, ids)] == [502] * 30
        assert set(statuses(nginx, ids)[0]) == {502}
        memcached.start()
        # it is empty, and it answers
        assert set(statuses(nginx, ids)[0]) == {404}
        add_many(site, memcached, ids)
    assert "MISS" in {e.status for e in nginx.access_entries()}


def test_restarted_between_requests(site: Site, memcached: Memcached) -> None:
    """A restart while nobody asks is not noticed by anybody."""
    nginx = site.start(location(memcached.url) + INTERNAL)
    for n in range(5):
        add(site, memcached, n)
        site.assert_file(nginx.get(f"/file/{n}"), n)
        memcached.restart()
        assert nginx.get(f"/file/{n}").status == 404
    assert nginx.errors("error", "warn") == []


def test_restarted_under_load(site: Site, memcached: Memcached, delivery: str) -> None:
    """Requests before, during and after restarts: the right file or an error."""
    ids = list(range(40))
    add_many(site, memcached, ids)
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block([f"{memcached.url} fail_timeout=20ms"], "timeout 150ms;"),
    )
    seen: Counter[int] = Counter()
    for _ in range(4):
        clients = connections(nginx, 40)
        for n, connection in enumerate(clients):
            connection.send_request("GET", f"/file/{n}")
            if n == 20:
                memcached.restart()
        seen.update(status_of(c, n) for c, n in zip(clients, ids))
        add_many(site, memcached, ids)
        wait_until(lambda: statuses(nginx, ids)[0] == [200] * 40, what="all to be well")
    assert set(seen) <= {200, 404, 502, 504}


# the breaker


def down_lines(nginx: Nginx) -> list[str]:
    """Return the error log's lines that say that a server is down."""
    return [s for s in nginx.errors("error") if re.search(r"server \S+ is down", s)]


def up_lines(nginx: Nginx) -> list[str]:
    """Return the error log's lines that say that a server is up again."""
    return [s for s in nginx.errors("notice") if "is up again" in s]


def accepted_at_least(fake: Fake, number: int) -> bool:
    """Tell whether the fake has been connected to so often."""
    return fake.accepted >= number


def test_breaker(site: Site, fake: Fake) -> None:
    """After max_fails failures none is tried for fail_timeout, and then one is."""
    add(site, fake, 7)
    fake.script = hang_up
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} max_fails=3 fail_timeout=60s"], "timeout 20s;"),
    )
    for n in range(3):
        assert down_lines(nginx) == []
        assert nginx.get("/file/7").status == 502
        assert fake.accepted == n + 1
    for n in range(20):
        assert nginx.get(f"/file/7?n={n}").status == 502
    assert fake.accepted == 3
    entry = nginx.logged("/file/7?n=0")
    assert (entry.status, entry.reason) == ("ERROR", "server is down")
    assert float(entry.time) == 0
    (line,) = down_lines(nginx)
    assert f"127.0.0.1:{fake.port}" in line


def test_breaker_after_its_time(site: Site, fake: Fake) -> None:
    """A probe that fails makes it last as long again, one that does not ends it."""
    add(site, fake, 7)
    fake.script = hang_up
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} max_fails=3 fail_timeout=500ms"], "timeout 20s;"),
    )
    for _ in range(3):
        begin = time.monotonic()
        assert nginx.get("/file/7").status == 502
    for n in (4, 5):
        asked = ask_until(nginx, "/file/7", partial(accepted_at_least, fake, n))
        assert fake.accepted == n
        assert time.monotonic() - begin > 0.45
        begin = asked
    fake.script = answer
    wait_until(lambda: nginx.get("/file/7").status == 200, what="a good probe")
    for _ in range(10):
        site.assert_file(nginx.get("/file/7"), 7)
    assert fake.accepted == 6
    assert len(down_lines(nginx)) == len(up_lines(nginx)) == 1


def _probed_or_not(fake: Fake, clients: list[Connection]) -> bool:
    """Tell whether the fake holds a probe, or all clients have their answers."""
    return fake.holding > 0 or all(map(_readable, clients))


def test_one_probe_of_many(site: Site, fake: Fake) -> None:
    """Of many lookups that could be the probe one is; the others fail at once."""
    ids = add_many(site, fake, range(20))
    fake.script = hang_up
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block([f"{fake.url} max_fails=1 fail_timeout=300ms"], "timeout 20s;"),
    )
    assert nginx.get("/file/0").status == 502
    fake.script = hold
    while len(fake.gets) == 1:
        clients = send_at_once(nginx, [f"/file/{n}" for n in ids])
        wait_until(partial(_probed_or_not, fake, clients), what="a probe, or none")
        if fake.holding == 0:
            assert [status_of(c, n) for c, n in zip(clients, ids)] == [502] * 20
    (key,) = fake.lines()[1]
    probe = int(key)
    others = [n for n in ids if n != probe]
    assert {status_of(clients[n], n) for n in others} == {502}
    assert nginx.get("/file/5").status == 502
    fake.script = answer
    fake.release()
    assert status_of(clients[probe], probe) == 200
    assert statuses(nginx, ids)[0] == [200] * 20


def _readable(connection: Connection) -> bool:
    """Tell whether bytes have come."""
    connection.socket.setblocking(False)
    try:
        return bool(connection.socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.socket.settimeout(20)


def test_breaker_is_off(site: Site, fake: Fake) -> None:
    """``max_fails=0``: a server is tried each time."""
    fake.script = hang_up
    nginx = site.start(location("ids") + INTERNAL, http=patient(fake.url))
    for n in range(12):
        assert nginx.get("/file/7").status == 502
        assert fake.accepted == n + 1
    assert down_lines(nginx) == []


def test_failures_in_a_row(site: Site, fake: Fake) -> None:
    """An answer in between begins the count anew."""
    add(site, fake, 7)
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} max_fails=3 fail_timeout=60s"]),
    )
    for _ in range(5):
        for script, wanted in ((hang_up, 502), (hang_up, 502), (answer, 200)):
            fake.script = script
            assert nginx.get("/file/7").status == wanted
    assert down_lines(nginx) == []


@pytest.mark.parametrize("what", ["half a line", "half a value", "no END", "drips"])
def test_breaker_and_a_server_that_says_something(
    site: Site, fake: Fake, what: str
) -> None:
    """Bytes are no answer: a server that never comes to an end is down, too."""
    add(site, fake, 7)
    fake.script = {
        "half a line": cut(9, "stall"),
        "half a value": cut(16, "stall"),
        # what was not asked for is missing until END says so
        "no END": raw(b"VALUE"),
        "drips": bytewise(0.04),
    }[what]
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} max_fails=3 fail_timeout=60s"], "timeout 60ms;"),
    )
    slow = 0
    while not down_lines(nginx):
        assert nginx.get("/file/7").status in (502, 504)
        slow += 1
        assert slow <= 6, "more than max_fails requests had to wait"
    asked = len(fake.gets)
    for _ in range(20):
        assert nginx.get("/file/7").status == 502
    assert len(fake.gets) == asked


def test_client_of_the_probe_leaves(site: Site, fake: Fake) -> None:
    """A probe's answer counts though nobody waits for it any more."""
    add(site, fake, 7)
    fake.script = hang_up
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block([f"{fake.url} max_fails=1 fail_timeout=200ms"], "timeout 20s;"),
    )
    assert nginx.get("/file/7").status == 502
    fake.script = hold
    (leaving,) = probe(nginx, fake)
    leaving.close()
    wait_until(
        lambda: nginx.access_entries()[-1].code == 499, what="the client to be gone"
    )
    fake.script = answer
    fake.release()
    wait_until(lambda: up_lines(nginx), what="the server to be up again")
    site.assert_file(nginx.get("/file/7"), 7)
    assert fake.accepted == 2


def probe(nginx: Nginx, fake: Fake) -> list[Connection]:
    """Ask until a lookup is the probe that the fake holds; return its connection."""

    def asks() -> list[Connection]:
        connection = nginx.connect()
        connection.send_request("GET", "/file/7")
        wait_until(partial(_probed_or_not, fake, [connection]), what="probe, or none")
        if fake.holding:
            return [connection]
        assert status_of(connection, 7) == 502
        return []

    return wait_until(asks, what="a probe")


def test_defaults_of_the_breaker(site: Site, servers: Servers) -> None:
    """Three failures, and one second, for a URL as for a block."""
    fakes = [servers.fake(hang_up) for _ in range(2)]
    nginx = site.start(
        location(fakes[0].url, name="a") + location("ids", name="b") + INTERNAL,
        http=block([fakes[1].url]),
    )
    for fake, name in zip(fakes, "ab", strict=True):
        for _ in range(3):
            begin = time.monotonic()
            assert nginx.get(f"/{name}/7").status == 502

        def probes(name: str = name, fake: Fake = fake) -> bool:
            assert nginx.get(f"/{name}/7").status == 502
            return fake.accepted == 4

        assert how_late(probes, "the probe") <= 1 + LATE
        assert time.monotonic() - begin > 0.95


@pytest.mark.parametrize("what", ["hung", "black hole"])
def test_slow_failures_are_seen_by_few(
    site: Site, servers: Servers, memcached: Memcached, what: str
) -> None:
    """While a store hangs, the fallback's own latency is what users see."""
    url = memcached.url if what == "hung" else servers.black_hole().url
    if what == "hung":
        memcached.pause()
    nginx = site.start(
        location("ids", FALLBACK)
        + "location /app/ { proxy_pass http://%%APP%%; }"
        + INTERNAL
        + APP,
        http=block([f"{url} fail_timeout=60s"], "timeout 250ms;"),
    )
    slow = 0
    while not down_lines(nginx):
        assert nginx.get(f"/file/{slow}").text == f"app GET /file/{slow}\n"
        slow += 1
        assert slow <= 3, "more than max_fails requests had to wait"
    straight, fallen = [], []
    for n in range(100):
        status, seconds = timed(nginx, f"/app/{n}")
        straight.append(seconds)
        assert status == 200
        status, seconds = timed(nginx, f"/file/{n}")
        fallen.append(seconds)
        assert status == 200
    wait_for_entries(nginx, slow + 200)
    entries = [e for e in nginx.access_entries() if e.uri.startswith("/file/")]
    assert {entry.time for entry in entries[slow:]} == {"0.000"}
    assert statistics.median(fallen) <= 2 * statistics.median(straight)
    assert statistics.quantiles(fallen, n=20)[-1] <= 4 * max(straight)


def test_default_store_hangs(site: Site, memcached: Memcached) -> None:
    """With all defaults a hung memcached costs a request a second its deadline."""
    memcached.pause()
    site.variables["DEADLINE"] = ""
    nginx = site.start(location(memcached.url, FALLBACK) + INTERNAL + APP)
    begin = time.monotonic()
    number = 0
    while time.monotonic() - begin < 2.5 or number < 30:
        assert nginx.get(f"/file/{number}").text == f"app GET /file/{number}\n"
        number += 1
    took = time.monotonic() - begin
    wait_for_entries(nginx, number)
    times = [float(entry.time) for entry in nginx.access_entries()]
    slow = [seconds >= 0.24 for seconds in times]
    assert slow[:3] == [True] * 3
    # three until it is thought to be down, and the probes, a second after each
    assert sum(slow) <= 3 + took
    assert times.count(0) == number - sum(slow) > 0


# one server of several


def test_other_servers_are_not_touched(site: Site, servers: Servers) -> None:
    """A store that hangs has no influence on another one."""
    hung, well = servers.fake(never), servers.fake()
    add_many(site, well, range(20))
    nginx = site.start(
        location(hung.url, "http_sendfile_timeout 10s;", "hung")
        + location(well.url)
        + INTERNAL
    )
    with nginx.connect() as waiting, nginx.connect() as connection:
        waiting.send_request("GET", "/hung/1")
        wait_until(lambda: hung.gets, what="the get")
        for n in range(20):
            site.assert_file(connection.request("GET", f"/file/{n}"), n)


# clients that leave


def leave(connection: Connection, how: str) -> None:
    """Close a connection in one way or another."""
    if how == "abort":
        connection.abort()
    else:
        connection.close()


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("state", ["queued", "sent", "half a value", "half an END"])
def test_client_leaves(site: Site, servers: Servers, state: str, how: str) -> None:
    """A client may leave at each state of its lookup, and who stays is answered."""
    fake = servers.fake(hold)
    ids = add_many(site, fake, (1, 2, 3))
    if state == "half a value":
        fake.script = cut(12, "hold")
    elif state == "half an END":
        fake.script = cut(-2, "hold")
    url = servers.black_hole().url if state == "queued" else fake.url
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=patient(url, "connect_timeout 20s; timeout 20s;"),
    )
    clients = send_at_once(nginx, [f"/file/{n}" for n in ids])
    if state != "queued":
        wait_until(lambda: fake.holding == 1, what="the get")
    if state == "half an END":
        # all have their files, and only the connection waits
        assert [status_of(c, n) for c, n in zip(clients, ids)] == [200] * 3
    else:
        leave(clients[0], how)
        leave(clients[2], how)
        assert nginx.logged("/file/1").code == 499
        assert nginx.logged("/file/3").code == 499
        if state == "queued":
            leave(clients[1], how)
            assert nginx.logged("/file/2").code == 499
            return
    fake.script = answer
    fake.release()
    if state != "half an END":
        site.assert_file(clients[1].read_response(), 2)
        clients[1].close()
    for n in ids:
        site.assert_file(nginx.get(f"/file/{n}"), n)
    assert fake.accepted == 1


def test_same_key_after_the_client_left(site: Site, fake: Fake) -> None:
    """Who asks for a key that was given up is answered, by a get of his own."""
    add(site, fake, 7)
    fake.script = hold
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    with nginx.connect() as patient_one:
        (leaving,) = send_at_once(nginx, ["/file/7"])
        wait_until(lambda: len(fake.gets) == 1, what="the first get")
        leaving.close()
        assert nginx.logged("/file/7").code == 499
        patient_one.send_request("GET", "/file/7")
        wait_until(lambda: len(fake.gets) == 2, what="the second get")
        fake.release()
        site.assert_file(patient_one.read_response(), 7)
    assert fake.accepted == 1


def test_all_clients_leave_and_the_server_fails(site: Site, fake: Fake) -> None:
    """Lookups that nobody waits for fail without anybody."""
    add_many(site, fake, range(10))
    nginx = site.start(location("ids") + WARM + INTERNAL, http=patient(fake.url))
    total = 0
    for end in ("hang up", "garbage", "release"):
        fake.script = hold
        fake.hold_again()
        before = len(fake.gets)
        for connection in send_at_once(nginx, [f"/file/{n}" for n in range(10)]):
            connection.close()
        total += 10
        wait_for_entries(nginx, total)
        # the clients may have gone before anything was written
        if len(fake.gets) > before:
            if end == "hang up":
                fake.hang_up()
            elif end == "garbage":
                fake.say(b"?\r\n")
            else:
                fake.release()
        fake.script = answer
        fake.release()
        wait_until(lambda: nginx.get("/file/3").body == content(3), what="a file")
        total = len(nginx.access_entries())
    assert {e.code for e in nginx.access_entries()} <= {200, 499, 502}


def test_http2_streams_are_reset(site: Site, fake: Fake) -> None:
    """Streams that are reset amid a batch leave the others their answers."""
    ids = add_many(site, fake, range(20))
    fake.script = cut(150, "hold")
    nginx = site.start(
        site.http2_listen() + location("ids") + WARM + INTERNAL, http=patient(fake.url)
    )
    with Http2Connection(nginx.port_of("h2")) as client:
        streams = {n: client.send_request("GET", f"/file/{n}") for n in ids}
        wait_for_asked(fake, 20)
        client.ping()
        answered = [n for n in ids if _has_answer(client, streams[n])]
        gone = [n for n in ids if n not in answered][::2]
        for n in gone:
            client.reset(streams[n])
        client.ping()
        fake.script = answer
        fake.release()
        for n in ids:
            if n not in gone:
                site.assert_file(client.read_response(streams[n]), n)
    assert gone
    assert fake.accepted == 1


def _has_answer(client: Http2Connection, stream: int) -> bool:
    return stream in client._ended


@pytest.mark.parametrize("flight", range(3))
def test_chaos(site: Site, servers: Servers, flight: int, delivery: str) -> None:
    """Every fault, clients that come and go: never another ID's file, never a miss."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    good: list[Script] = [answer, late(0.002), bytewise(0.0001)]
    bad: list[Script] = [WRONG[what][0] for what in WRONG if what not in LIKE_A_MISS]
    bad += [cut(n, then) for n in (0, 9, 30, 80, -3) for then in ("close", "reset")]
    bad += [cut(n, "stall") for n in (0, 9, 30, 80, -3)]

    async def script(peer: Peer, get: Get) -> None:
        await chance.choice(good if chance.random() < 0.6 else bad)(peer, get)

    fakes = [servers.fake(script) for _ in range(1 + flight)]
    ids = [n + 11 for n in range(60)]
    for fake in fakes:
        add_many(site, fake, ids)
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block(
            [f"{fake.url} max_fails=50 fail_timeout=5ms" for fake in fakes],
            f"connections {1 + flight}; timeout 60ms; connect_timeout 20ms;",
        ),
    )
    seen: Counter[int] = Counter()
    asked = 0
    for _ in range(40):
        wanted = chance.choices(ids, k=20)
        clients = [nginx.connect() for _ in wanted]
        for connection, n in zip(clients, wanted, strict=True):
            connection.send_request("GET", f"/file/{n}")
            asked += 1
        for connection, n in zip(clients, wanted, strict=True):
            if chance.random() < 0.3:
                leave(connection, chance.choice(("close", "abort")))
            else:
                seen[status_of(connection, n)] += 1
    wait_for_entries(nginx, asked)
    assert set(seen) <= {200, 502, 504}
    assert min(seen[200], seen[502]) > 0
    for fake in fakes:
        fake.script = answer
    wait_until(lambda: statuses(nginx, ids)[0] == [200] * 60, what="all to be well")


# the worker is never blocked


@contextmanager
def traced(nginx: Nginx, output: Path) -> Iterator[None]:
    """Trace the only worker's system calls into a file."""
    assert shutil.which("strace"), "strace is missing: apt-get install strace"
    (worker,) = nginx.workers()
    process = subprocess.Popen(
        ["strace", "-q", "-p", str(worker), "-o", str(output), "-s", "32"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status = Path(f"/proc/{worker}/status")
    try:
        wait_until(
            lambda: f"TracerPid:\t{process.pid}" in status.read_text(),
            what="strace to attach",
        )
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_no_system_call_blocks(
    site: Site, servers: Servers, memcached: Memcached
) -> None:
    """Sockets to memcached never block, whatever it does, and nothing else waits."""
    add_many(site, memcached, range(10))
    hole = servers.black_hole()
    hung = servers.fake(never)
    http = (
        patient(memcached.url, "timeout 600ms;")
        + patient(hole.url, "timeout 80ms; connect_timeout 50ms;", "hole")
        + patient(hung.url, "timeout 80ms;", "hung")
    )
    nginx = site.start(
        location("ids")
        + location("hole", name="hole")
        + location("hung", name="hung")
        + (WARM + INTERNAL),
        http=http,
    )
    output = site.directory / "strace"
    with traced(nginx, output):
        assert ask(nginx, range(10)) == {200}
        memcached.pause()
        assert ask(nginx, range(10)) == {504}
        memcached.resume()
        memcached.kill()
        assert ask(nginx, range(10)) == {502}
        memcached.start()
        assert ask(nginx, range(10)) == {404}
        for name in ("hole", "hung"):
            for n in range(3):
                nginx.get(f"/{name}/{n}")
    assert isinstance(hole.address, tuple)
    ports = {memcached.port, hung.port, hole.address[1]}
    check_trace(output.read_text().splitlines(), ports)


def check_trace(lines: list[str], ports: set[int]) -> None:
    """Check the system calls on sockets that were connected to ports.

    Raises:
        AssertionError: one of them could block, or something waits besides
            epoll_wait.
    """
    waits = [
        s for s in lines if re.match(r"(poll|ppoll|select|pselect6|\w*nanosleep)\(", s)
    ]
    assert waits == []
    nonblocking: set[int] = set()
    stores: set[int] = set()
    seen: set[int] = set()
    received = 0
    for line in lines:
        if match := re.match(r"socket\(.*\) += (\d+)", line):
            fd = int(match[1])
            nonblocking.discard(fd)
            stores.discard(fd)
            if "SOCK_NONBLOCK" in line:
                nonblocking.add(fd)
        elif match := re.match(r"ioctl\((\d+), FIONBIO, \[1\]\) += 0", line):
            nonblocking.add(int(match[1]))
        elif match := re.match(r"connect\((\d+), .*htons\((\d+)\).*\) += (.*)", line):
            fd, port = int(match[1]), int(match[2])
            if port in ports:
                assert fd in nonblocking, f"a connect that blocks: {line}"
                assert "EINPROGRESS" in match[3], line
                stores.add(fd)
                seen.add(port)
        elif match := re.match(r"(?:recv|recvfrom|read|readv)\((\d+), .* = (.*)", line):
            if int(match[1]) in stores:
                received += 1
                assert re.match(r"\d+$|-1 (EAGAIN|ECONN)", match[2]), line
        elif match := re.match(r"close\((\d+)\)", line):
            stores.discard(int(match[1]))
    assert seen == ports
    assert received


def static_p99(
    nginx: Nginx, lookups: list[Connection], busy: set[int], number: int
) -> float:
    """Return the 99th percentile of a static file's latency, beside lookups.

    Args:
        nginx: with a file /static.
        lookups: connections that keep one lookup each in flight.
        busy: those of them, by index, that wait for an answer.
        number: how often the file is asked for.
    """
    times = []
    with nginx.connect() as connection:
        for n in range(number):
            index = n % len(lookups)
            if index in busy and _readable(lookups[index]):
                assert lookups[index].read_response().status in (200, 502, 504)
                busy.discard(index)
            if index not in busy:
                lookups[index].send_request("GET", f"/file/{n % 50}")
                busy.add(index)
            start = time.perf_counter()
            assert connection.request("GET", "/static").status == 200
            times.append(time.perf_counter() - start)
    return statistics.quantiles(times, n=100)[-1]


@pytest.mark.parametrize("fails", ["", "max_fails=0"])
def test_static_files_while_memcached_hangs(
    site: Site, memcached: Memcached, fails: str
) -> None:
    """The latency of static files from the same worker stays what it was."""
    add_many(site, memcached, range(50))
    site.html.write_id("static", 5)
    nginx = site.start(
        "keepalive_requests 1000000;" + location("ids") + WARM + INTERNAL,
        http=block([f"{memcached.url} {fails}"], "timeout 250ms;"),
    )
    ratios = []
    for _ in range(8):
        lookups = connections(nginx, 10)
        busy: set[int] = set()
        wait_until(lambda: nginx.get("/file/1").status == 200, what="memcached")
        static_p99(nginx, lookups, busy, 100)
        well = static_p99(nginx, lookups, busy, 800)
        memcached.pause()
        hung = static_p99(nginx, lookups, busy, 800)
        memcached.resume()
        ratios.append(hung / well)
        for connection in lookups:
            connection.close()
        if ratios[-1] <= 2:
            break
    assert min(ratios) <= 2


# what is logged


def test_log_lines_of_a_failure(site: Site, fake: Fake) -> None:
    """One line for the connection, one for each request, with server and key."""
    fake.script = raw(b"nonsense\r\n")
    nginx = site.start(
        location("ids") + location("ids", FALLBACK, "app") + WARM + INTERNAL + APP,
        http=patient(fake.url),
    )
    assert statuses(nginx, [5])[0] == [502]
    (key,) = [s for s in nginx.errors("error") if 'key "5"' in s]
    assert 'http_sendfile: key "5" in ids: ' in key
    assert ", answered 502" in key
    (server,) = [s for s in nginx.errors("error") if "server 127" in s]
    assert f"server 127.0.0.1:{fake.port}: " in server
    # what it said is not copied as it is
    fake.script = raw(b"SERVER_ERROR \x1b[31m\x00\x07red\r\n")

    def logged() -> bool:
        # not in the second of the line before, which has the same reason
        assert nginx.get("/app/6").status == 200
        lines = [s for s in nginx.errors("error") if 'key "6" in ' in s]
        return any(", sent to @app" in line for line in lines)

    wait_until(logged, what="a line of the next second")
    log = nginx.error_log.read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", log)


def test_log_while_the_server_is_down(site: Site, servers: Servers) -> None:
    """A server that is down is logged when it goes down, with what is done."""
    url = servers.refused()
    nginx = site.start(location("ids", FALLBACK) + INTERNAL + APP, http=block([url]))
    for n in range(30):
        assert nginx.get(f"/file/{n}").status == 200
    lines = down_lines(nginx)
    assert len(lines) == 1
    assert url.removeprefix("memcached://") in lines[0]
    assert "[error]" in lines[0]
