"""The cache when it is too small, scanned, purged, and its files are replaced."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lib.cache import CACHE, MTIME, STATUS, ZONE, ask, numbered, purged, settle
from lib.client import Connection
from lib.files import content
from lib.nginx import Nginx, parse_log_line
from lib.site import Site
from lib.wait import wait_until

LONG = f"{CACHE} http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
FOR_EVER = "keepalive_requests 10000000; keepalive_time 1h;\n"
TINY = "http_sendfile_cache_zone main:256k;\n"
# requests sent in one go: with many the client takes long to take them apart
BATCH = 10

PID = "location = /pid { access_log off; return 200 $pid; }\n"


@pytest.fixture
def chance() -> random.Random:
    """Chance, of a seed that is printed."""
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


def add_files(site: Site, sizes: dict[int, int]) -> dict[int, bytes]:
    """Write files that are old enough to be kept, and their records.

    Args:
        site: whose files and store.
        sizes: by ID, in bytes.

    Returns:
        What each file holds, by ID.
    """
    paths = []
    with site.store.env.begin(write=True) as txn:
        for n, size in sizes.items():
            path = site.files.write_id(f"aa/{n}.dat", n, size)
            os.utime(path, (MTIME, MTIME))
            paths.append(path)
            txn.put(str(n).encode(), f"aa/{n}.dat".encode())
    settle(*paths)
    return {n: content(n, size) for n, size in sizes.items()}


def in_batches(
    connection: Connection,
    uris: Iterable[str],
    check: Callable[[str, int, bytes], None],
) -> None:
    """Send GETs on a connection, some at a time, and check the answers.

    Args:
        connection: to send on.
        uris: what to ask for.
        check: called with the URI, the status and the body.
    """
    batch = list(uris)
    for first in range(0, len(batch), BATCH):
        some = batch[first : first + BATCH]
        connection.send(
            b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % u.encode() for u in some)
        )
        for uri in some:
            response = connection.read_response()
            check(uri, response.status, response.body)


# too small


@pytest.mark.parametrize("body", ["off", "8k"])
def test_zone_far_too_small(site: Site, chance: random.Random, body: str) -> None:
    """A cache that holds a fraction of what is asked for answers all rightly."""
    files = add_files(site, {n: chance.randrange(1, 9000) for n in range(900)})
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        f" http_sendfile_cache_body {body}; }}",
        TINY + FOR_EVER,
    )
    numbers = [*range(900), *range(3000, 3500)]
    wrong: list[str] = []

    def check(uri: str, status: int, data: bytes) -> None:
        n = int(uri.rpartition("/")[2])
        wanted = (200, files[n]) if n in files else (404, data)
        if (status, data) != wanted:
            wrong.append(uri)

    with nginx.connect() as connection:
        for _ in range(3):
            chance.shuffle(numbers)
            # some of them often
            asked = numbers + chance.choices(numbers[:50], k=300)
            in_batches(connection, (f"/file/{n}" for n in asked), check)
    assert wrong == []


def test_records_of_all_sizes_in_a_small_zone(
    site: Site, chance: random.Random, delivery: str
) -> None:
    """Records that differ in length by thousands of bytes push each other out."""
    site.files.write_id("aa/1.dat", 1)
    policies = {n: "p" * chance.choice((1, 10, 500, 3000, 6000)) for n in range(600)}
    for n, policy in policies.items():
        headers = {"Content-Security-Policy": policy, "ETag": f'"{n}"'}
        site.store.put(n, {"path": "aa/1.dat", "headers": headers})
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DELIVER%% {LONG} access_log off; }}"
        "%%INTERNAL%%",
        TINY + FOR_EVER,
    )
    with nginx.connect() as connection:
        for _ in range(3):
            for n in chance.sample(sorted(policies), len(policies)):
                response = connection.request("GET", f"/file/{n}")
                site.assert_file(response, 1)
                assert response.header("Content-Security-Policy") == policies[n]
                assert response.header("ETag") == f'"{n}"'


def test_few_descriptors(site: Site) -> None:
    """Whatever is kept open, connections and stores have what they need."""
    number = 600
    files = add_files(site, dict.fromkeys(range(number), 9000))
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        " http_sendfile_cache_check 1h; http_sendfile_cache_body 1k; }",
        ZONE + FOR_EVER,
        "worker_rlimit_nofile 300;",
    )
    wrong: list[str] = []

    def check(uri: str, status: int, data: bytes) -> None:
        if (status, data) != (200, files[int(uri.rpartition("/")[2])]):
            wrong.append(uri)

    # as many as the worker takes, and each of them is served
    connections = [nginx.connect() for _ in range(200)]
    try:
        for round_ in range(3):
            in_batches(connections[0], (f"/file/{n}" for n in range(number)), check)
            for n, connection in enumerate(connections):
                response = connection.request("GET", f"/file/{n * 3 + round_}")
                site.assert_file(response, n * 3 + round_, 9000)
    finally:
        for connection in connections:
            connection.close()
    assert wrong == []
    assert "Too many open files" not in nginx.errors_text()


# scans


def hot_hits(nginx: Nginx, hot: Iterable[int]) -> Counter[tuple[str, str]]:
    """Ask for files and count what the variables say of them."""
    numbers = list(hot)
    mark = numbered("")
    statuses: set[int] = set()
    with nginx.connect() as connection:
        in_batches(
            connection,
            (f"/file/{n}{mark}" for n in numbers),
            lambda uri, status, data: statuses.add(status),
        )
    assert statuses == {200}
    nginx.logged(f"/file/{numbers[-1]}{mark}")
    return Counter(
        (entry.status, entry.source)
        for entry in map(parse_log_line, nginx.access_log.read_text().splitlines())
        if entry.uri.endswith(mark)
    )


@pytest.mark.parametrize("length", [12, 250])
def test_scan_of_unknown_ids(site: Site, chance: random.Random, length: int) -> None:
    """However many unknown IDs are asked for, no record is pushed out."""
    hot = range(300)
    add_files(site, dict.fromkeys(hot, 400))
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} }}"
        f"location /scan/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        " http_sendfile_key $arg_k; }",
        TINY + FOR_EVER,
    )
    assert hot_hits(nginx, hot) == {("HIT", "lmdb"): 300}
    wrong: list[str] = []

    def check(uri: str, status: int, data: bytes) -> None:
        if status != 404:
            wrong.append(uri)

    keys = ("".join(chance.choices("0123456789abcdef", k=length)) for _ in range(6_000))
    with nginx.connect() as connection:
        in_batches(connection, (f"/scan/?k={key}" for key in keys), check)
    assert wrong == []
    assert hot_hits(nginx, hot) == {("HIT", "cache"): 300}


def test_scan_of_known_ids(site: Site) -> None:
    """Records that are in use stay, those that were asked for once go."""
    site.files.write_id("aa/1.dat", 1)
    number = 6_000
    with site.store.env.begin(write=True) as txn:
        for n in range(number):
            txn.put(str(n).encode(), b"aa/1.dat")
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} }}"
        f"location /scan/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off; }}",
        TINY + FOR_EVER,
    )
    hot = range(50)
    assert hot_hits(nginx, hot) == {("HIT", "lmdb"): 50}
    wanted = content(1)
    wrong: list[str] = []

    def check(uri: str, status: int, data: bytes) -> None:
        if (status, data) != (200, wanted):
            wrong.append(uri)

    said_: Counter[tuple[str, str]] = Counter()
    with nginx.connect() as connection:
        for first in range(100, number, 400):
            scan = range(first, min(first + 400, number))
            in_batches(connection, (f"/scan/{n}" for n in scan), check)
            said_ += hot_hits(nginx, hot)
    assert wrong == []
    assert said_["HIT", "cache"] >= 0.95 * said_.total(), said_
    # those of the scan's beginning are gone: the zone is too small for all
    assert ("HIT", "lmdb") in hot_hits(nginx, range(100, 200))


def test_scan_of_bodies(site: Site, chance: random.Random) -> None:
    """Files that are asked for once keep no body, and push none out."""
    files = add_files(site, dict.fromkeys(range(600), 2000))
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG}"
        " http_sendfile_cache_body 8k; http_sendfile_cache_check 1h; }"
        f"location /scan/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        " http_sendfile_cache_body 8k; http_sendfile_cache_check 1h; }",
        "http_sendfile_cache_zone main:512k;\n" + FOR_EVER,
    )
    hot = range(40)
    for _ in range(3):
        for n in hot:
            site.assert_file(ask(nginx, f"/file/{n}").response, n, 2000)
    wrong: list[str] = []

    def check(uri: str, status: int, data: bytes) -> None:
        if (status, data) != (200, files[int(uri.rpartition("/")[2])]):
            wrong.append(uri)

    with nginx.connect() as connection:
        in_batches(connection, (f"/scan/{n}" for n in range(40, 600)), check)
    assert wrong == []
    for n in hot:
        site.files.path(f"aa/{n}.dat").unlink()
        site.assert_file(ask(nginx, f"/file/{n}").response, n, 2000)


# under load


class Load:
    """Clients that ask without a pause, each on a connection of its own.

    Args:
        nginx: with PID in its server block.
        clients: how many, on each of the two workers.
        ask_one: called with a connection, again and again; returns what is
            wrong, or None.
    """

    def __init__(
        self,
        nginx: Nginx,
        clients: int,
        ask_one: Callable[[Connection], object | None],
    ) -> None:
        self._ask_one = ask_one
        self._stop = threading.Event()
        self.done = 0
        self.wrong: list[object] = []
        self._lock = threading.Lock()
        self._connections = self._spread(nginx, clients)
        self._threads = [
            threading.Thread(target=self._run, args=(connection,))
            for connection in self._connections
        ]

    def _spread(self, nginx: Nginx, clients: int) -> list[Connection]:
        """Return as many connections to one worker as to the other."""
        found: dict[str, list[Connection]] = {}

        def enough() -> bool:
            connection = nginx.connect()
            pid = connection.request("GET", "/pid").text
            mine = found.setdefault(pid, [])
            if len(mine) < clients:
                mine.append(connection)
            else:
                connection.close()
            return len(found) == 2 and all(len(c) == clients for c in found.values())

        wait_until(enough, what="connections to both workers")
        return [connection for some in found.values() for connection in some]

    def _run(self, connection: Connection) -> None:
        while not self._stop.is_set():
            try:
                wrong = self._ask_one(connection)
            except Exception as failure:
                self.wrong.append(failure)
                raise
            with self._lock:
                self.done += 1
                if wrong is not None:
                    self.wrong.append(wrong)

    def besides(self, function: Callable[[], object], pause: float) -> None:
        """Call a function, too, again and again, so many seconds apart."""

        def run() -> None:
            while not self._stop.wait(pause):
                try:
                    function()
                except Exception as failure:
                    self.wrong.append(failure)
                    raise

        self._threads.append(threading.Thread(target=run))

    def run(self, number: int, seconds: float) -> None:
        """Run for so many requests and seconds, whichever takes longer."""
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + seconds
        try:
            wait_until(
                lambda: self.wrong or (self.done >= number and time.monotonic() > end),
                50,
                f"{number} requests",
            )
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            for connection in self._connections:
                connection.close()
        assert self.wrong == []


@pytest.mark.parametrize("body", ["off", "8k"])
def test_two_workers_and_a_small_zone(
    site: Site, chance: random.Random, body: str
) -> None:
    """While entries push each other out, and purges come, no answer is wrong."""
    site.variables["WORKERS"] = "2"
    wanted = add_files(site, {n: chance.randrange(1, 9000) for n in range(200)})
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        f" http_sendfile_cache_body {body}; }}" + (PID + STATUS),
        TINY + FOR_EVER,
    )

    def ask_one(connection: Connection) -> object | None:
        n = random.randrange(220)
        response = connection.request("GET", f"/file/{n}")
        right = (200, wanted[n]) if n in wanted else (404, response.body)
        return None if (response.status, response.body) == right else (n, response)

    def purge_one() -> None:
        n = random.randrange(250)
        path = f"cache/{n}" if n < 220 else "cache"
        purged(nginx.request("DELETE", f"/status/{path}"))

    load = Load(nginx, 2, ask_one)
    load.besides(purge_one, 0.005)
    load.run(5000, 2)


VERSIONED_SIZE = 2400


def versioned(n: int, version: int) -> bytes:
    """Return what a file holds: its ID and version, on each line."""
    line = f"ID:{n:04} V:{version:08}\n"
    return (line * (VERSIONED_SIZE // len(line))).encode()


class Replaced:
    """Files that are replaced by rename again and again.

    All versions have the same size and modification time, so that only inode
    and ctime tell one from the other.

    Args:
        directory: where they lie.
        number: how many.
    """

    def __init__(self, directory: Path, number: int) -> None:
        self._directory = directory
        self._next = 0
        self._number = number
        # by ID: when each version was in its place, of the monotonic clock
        self.times: list[list[float]] = [[] for _ in range(number)]
        for _ in range(number):
            self.replace()

    def path(self, n: int) -> Path:
        """Return where a file is."""
        return self._directory / f"{n}.dat"

    def replace(self) -> None:
        """Replace the next one."""
        n = self._next
        self._next = (n + 1) % self._number
        new = self._directory / "new"
        new.write_bytes(versioned(n, len(self.times[n])))
        new.chmod(0o644)
        os.utime(new, (MTIME, MTIME))
        new.rename(self.path(n))
        self.times[n].append(time.monotonic())

    def oldest(self, n: int, moment: float) -> int:
        """Return the version that was there at a moment."""
        return sum(when <= moment for when in self.times[n]) - 1


CHECK = 0.1

# what a turn of the event loop may take on a busy machine, and a thread's turn
SLACK = 0.3


@pytest.mark.parametrize("purges", [False, True])
@pytest.mark.parametrize("zone", [ZONE, TINY])
def test_replaced_files(site: Site, zone: str, purges: bool) -> None:
    """No body is another's, torn, or older than the check time allows."""
    site.variables["WORKERS"] = "2"
    number = 16
    directory = site.files.root / "aa"
    directory.mkdir()
    for n in range(number):
        site.store.put(n, f"aa/{n}.dat")
    files = Replaced(directory, number)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        " http_sendfile_cache_body 8k; http_sendfile_cache_check 100ms; }"
        + (PID + STATUS),
        zone + FOR_EVER,
    )
    from_memory = [0]

    def ask_one(connection: Connection) -> object | None:
        n = random.randrange(number)
        asked = time.monotonic()
        response = connection.request("GET", f"/file/{n}")
        first = response.body.split(b"\n", 1)[0]
        version = int(first[-8:])
        newest = len(files.times[n])
        if response.status != 200 or response.body != versioned(n, version):
            return n, response
        if not files.oldest(n, asked - CHECK - SLACK) <= version <= newest:
            return n, version, asked, files.times[n][-5:]
        if version < files.oldest(n, asked):
            # not what is on the disk any more
            from_memory[0] += 1
        return None

    def purge_one() -> None:
        n = random.randrange(number + 2)
        path = f"cache/{n}" if n < number else "cache"
        purged(nginx.request("DELETE", f"/status/{path}"))

    load = Load(nginx, 2, ask_one)
    # each one is there for a while, so that bodies are kept
    load.besides(files.replace, 0.02)
    if purges:
        load.besides(purge_one, 0.01)
    load.run(4000, 3)
    if not purges:
        assert from_memory[0] > 0, "nothing came from memory"
    assert min(map(len, files.times)) >= 4


def test_replaced_records_and_files(site: Site) -> None:
    """Who writes file, record, purge, in that order, is never shown the old."""
    site.variables["WORKERS"] = "2"
    directory = site.files.root / "aa"
    directory.mkdir()
    number = 8
    versions = [0] * number

    def publish(n: int) -> None:
        version = versions[n] + 1
        path = directory / f"{n}-{version % 3}.dat"
        new = directory / "new"
        new.write_bytes(versioned(n, version))
        new.chmod(0o644)
        os.utime(new, (MTIME, MTIME))
        new.rename(path)
        site.store.put(n, f"aa/{path.name}")

    for n in range(number):
        publish(n)
        versions[n] = 1
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LONG} access_log off;"
        " http_sendfile_cache_body 8k; http_sendfile_cache_check 1h; }"
        + (PID + STATUS),
        ZONE + FOR_EVER,
    )

    def ask_one(connection: Connection) -> object | None:
        n = random.randrange(number)
        oldest = versions[n]
        response = connection.request("GET", f"/file/{n}")
        version = int(response.body.split(b"\n", 1)[0][-8:])
        if response.status != 200 or response.body != versioned(n, version):
            return n, response
        if version < oldest:
            return n, version, oldest
        return None

    turn = [0]

    def renew() -> None:
        n = turn[0]
        turn[0] = (n + 1) % number
        publish(n)
        purged(nginx.request("DELETE", f"/status/cache/{n}"))
        # from here on nobody who asks may have an older one
        versions[n] += 1

    load = Load(nginx, 2, ask_one)
    load.besides(renew, 0.01)
    load.run(4000, 3)
    assert min(versions) >= 5
