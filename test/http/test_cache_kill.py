"""A worker is killed while it writes to the cache and holds the lock.

Each function that writes is entered, some instructions of it are executed, and
then the worker is killed (lib/ptrace.py), while others go on asking. The unit
tests do so at every instruction of the functions alone (test/unit); here it is
about what is around them: the lock is taken from the dead, another worker is
started, no answer is wrong, and the cache is a cache again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lib.cache import (
    CACHE,
    STATUS,
    ZONE,
    ask,
    make_old,
    purge,
    purge_all,
    purged,
    said,
)
from lib.client import Connection, ConnectionClosed
from lib.elf import Elf
from lib.fake_memcached import Fake, answer, hold
from lib.files import content
from lib.nginx import Nginx
from lib.ptrace import Tracer
from lib.servers import Servers, add_many, location, patient
from lib.site import INTERNAL, Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

NUMBER = 30
SIZE = 9000
# a record without a file
MISSING = 900
# no record
UNKNOWN = 5000

LONG = "http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
BODY = "http_sendfile_cache_body 10k; http_sendfile_cache_check 1h;"

Trigger = Callable[[Nginx], None]


@dataclass(frozen=True)
class Case:
    """How a worker gets to where it is killed.

    Args:
        name: what it writes.
        functions: it goes through these, one after the other.
        trigger: requests that, repeated, bring any worker there.
        zone: the cache's size.
        body: whether bodies are kept.
    """

    name: str
    functions: tuple[str, ...]
    trigger: Trigger
    zone: str = "4m"
    body: bool = False


_turn = itertools.count()


def _negative(nginx: Nginx) -> None:
    assert nginx.get(f"/file/{UNKNOWN + next(_turn)}").status == 404


def _missing(nginx: Nginx) -> None:
    # each time it is forgotten, asked for again, and put
    assert nginx.get(f"/file/{MISSING}").status == 404


def _purge(nginx: Nginx) -> None:
    purge(nginx, 6)
    # its body is compared with the file
    assert nginx.get("/file/6").body == content(6, SIZE)


def _scan(nginx: Nginx) -> None:
    for _ in range(3):
        n = next(_turn) % NUMBER
        assert nginx.get(f"/file/{n}").body == content(n, SIZE)


# Nothing is purged where a record's put is waited for: what is old is not put.
CASES = [
    Case("record", ("nsf_shard_put",), _missing),
    Case("negative", ("nsf_shard_put",), _negative),
    Case(
        "body",
        ("ngx_http_sendfile_body_read", "nsf_shard_put"),
        _scan,
        zone="256k",
        body=True,
    ),
    Case("times", ("ngx_http_sendfile_body_check", "nsf_shard_put"), _purge, body=True),
    Case("eviction", ("nsf_arena_drop",), _scan, zone="256k", body=True),
    Case("forgotten", ("nsf_shard_del",), _missing),
]

# at most as many as the shortest of the functions has
STEPS = [0, 47, 120]


class Load:
    """Requests of several threads, until it is closed.

    Args:
        nginx: to ask.
        trigger: what one of the threads does all the time.
    """

    def __init__(self, nginx: Nginx, trigger: Trigger) -> None:
        self._nginx = nginx
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(3)
        self._done = 0
        self._work = [
            self._pool.submit(self._repeat, trigger),
            self._pool.submit(self._repeat, self._ask(0)),
            self._pool.submit(self._repeat, self._ask(11)),
        ]

    def _ask(self, first: int) -> Trigger:
        numbers = itertools.count(first, 7)

        def ask_one(nginx: Nginx) -> None:
            n = next(numbers) % NUMBER
            response = nginx.get(f"/file/{n}")
            assert response.status == 200, response
            assert response.body == content(n, SIZE)
            self._done += 1

        return ask_one

    def _repeat(self, work: Trigger) -> None:
        while not self._stop.is_set():
            try:
                work(self._nginx)
            except (ConnectionClosed, ConnectionError):
                # it was the worker's that has been killed
                continue

    def go_on(self) -> None:
        """Wait until many requests more have been answered rightly."""
        seen = self._done
        wait_until(
            lambda: self._done > seen + 50 or any(w.done() for w in self._work),
            30,
            "answers",
        )

    def close(self) -> None:
        """Stop all.

        Raises:
            AssertionError: there was a wrong answer.
        """
        self._stop.set()
        self._pool.shutdown()
        for work in self._work:
            work.result()


@contextmanager
def load(nginx: Nginx, trigger: Trigger) -> Iterator[Load]:
    """Have requests going on, and check all answers."""
    requests = Load(nginx, trigger)
    try:
        yield requests
    finally:
        requests.close()


def code_of(site: Site) -> Elf:
    """Return the file that holds the module's code."""
    return Elf(site.flavour.module or site.flavour.binary)


def prepare(site: Site, case: Case) -> Nginx:
    """Start nginx with two workers and a store of files."""
    site.variables["WORKERS"] = "2"
    for n in range(NUMBER):
        site.add(n, size=SIZE)
    site.store.put(MISSING, "no/such/file.dat")
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(NUMBER)))
    body = BODY if case.body else ""
    server = f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE} {LONG} {body} }}"
    return site.start(server + STATUS, ZONE.replace("4m", case.zone))


def check_cache(nginx: Nginx) -> None:
    """Check that the cache takes records and gives them back."""
    purge_all(nginx)
    for n in range(10):
        assert said(nginx, f"/file/{n}") == ("HIT", "lmdb")
        assert said(nginx, f"/file/{UNKNOWN + n}") == ("MISS", "lmdb")
    for n in range(10):
        for _ in range(2):
            got = ask(nginx, f"/file/{n}")
            assert got.response.body == content(n, SIZE)
            assert got.said == ("HIT", "cache")
        assert said(nginx, f"/file/{UNKNOWN + n}") == ("NEGATIVE", "cache")


def kill_in(
    nginx: Nginx, tracer: Tracer, elf: Elf, functions: tuple[str, ...], steps: int
) -> None:
    """Kill a worker some instructions after it has entered a function."""
    for name in functions:
        tracer.run_to_function(elf, name, timeout=60)
    tracer.step(steps)
    nginx.allow_log(rf"process {tracer.pid} exited on signal 9")
    nginx.allow_log(rf"zone \"[^\"]*\" was locked by {tracer.pid}$")
    tracer.kill()
    nginx.wait_for_log(rf"zone \"[^\"]*main[^\"]*\" was locked by {tracer.pid}$")


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_killed_with_the_lock(site: Site, case: Case, steps: int) -> None:
    """The others go on, and the next writer finds a cache that works."""
    nginx = prepare(site, case)
    wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
    worker = nginx.workers()[0]
    with load(nginx, case.trigger) as requests:
        requests.go_on()
        with Tracer(worker) as tracer:
            kill_in(nginx, tracer, code_of(site), case.functions, steps)
        wait_until(
            lambda: len(nginx.workers()) == 2 and worker not in nginx.workers(),
            what="another worker",
        )
        requests.go_on()
    check_cache(nginx)


PID = "location = /pid { access_log off; return 200 $pid; }\n"


def connection_to(nginx: Nginx, pid: int, opened: ExitStack) -> Connection:
    """Return a connection to one of the workers."""
    found: list[Connection] = []

    def another() -> bool:
        found[:] = [opened.enter_context(nginx.connect())]
        return found[0].request("GET", "/pid").text == str(pid)

    wait_until(another, what=f"a connection to {pid}")
    return found[0]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("key", ["/3", ""], ids=["key", "all"])
def test_purge_while_the_lock_is_held(site: Site, key: str, steps: int) -> None:
    """A worker is stopped with the lock: a purge waits for nobody, and holds."""
    site.variables["WORKERS"] = "2"
    for n in (3, 4):
        site.add(n, size=SIZE)
    site.files.write_id("bb/3.dat", 33, SIZE)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in (3, 4)))
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE} {LONG} {BODY} }}"
        + (PID + STATUS),
        # the lock is that of all there is
        ZONE.replace("4m", "256k"),
    )
    wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
    worker, other = nginx.workers()
    with ExitStack() as opened:
        mine = connection_to(nginx, worker, opened)
        others = connection_to(nginx, other, opened)
        for n in (3, 4):
            for source in ("lmdb", "cache", "cache"):
                assert ask(nginx, f"/file/{n}", on=mine).entry.source == source
        with Tracer(worker) as tracer:
            mine.send_request("GET", f"/file/{UNKNOWN}")
            tracer.run_to_function(code_of(site), "nsf_shard_put")
            tracer.step(steps)
            site.store.put(3, "bb/3.dat")
            for _ in range(2):
                purged(others.request("DELETE", f"/status/cache{key}"))
                # nobody can keep it now, so each one asks the store
                got = ask(nginx, "/file/3", on=others)
                site.assert_file(got.response, 33, SIZE)
                assert got.said == ("HIT", "lmdb")
        assert mine.read_response().status == 404
        for source in ("lmdb", "cache"):
            for connection in (mine, others)[: 1 if source == "lmdb" else 2]:
                got = ask(nginx, "/file/3", on=connection)
                site.assert_file(got.response, 33, SIZE)
                assert got.entry.source == source
        wanted = "cache" if key else "lmdb"
        assert ask(nginx, "/file/4", on=mine).entry.source == wanted
    assert "was locked by" not in nginx.errors_text()


def cpu_ticks(pid: int) -> int:
    """Return the processor time of a process, in ticks, usually of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def wants_lock(pid: int) -> Callable[[], bool]:
    """Return what says whether a worker waits for a lock, asleep or not."""
    ticks = cpu_ticks(pid)

    def waits() -> bool:
        asleep = "futex" in Path(f"/proc/{pid}/wchan").read_text()
        return asleep or cpu_ticks(pid) > ticks + 5

    return waits


@pytest.mark.parametrize("steps", [0, 8, 16, 24, 32, 40, 48])
def test_killed_while_it_unlocks(site: Site, steps: int) -> None:
    """Who waits for the lock gets it, and does not sleep for ever."""
    case = CASES[0]
    nginx = prepare(site, case)
    wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
    worker, other = nginx.workers()
    nginx.allow_log(rf"process {worker} exited on signal 9")
    nginx.allow_log(rf"zone \"[^\"]*\" was locked by {worker}$")
    with load(nginx, case.trigger) as requests:
        requests.go_on()
        with Tracer(worker) as tracer:
            tracer.run_to_function(code_of(site), "nsf_shard_put", timeout=60)
            # what comes from now on goes to the other one
            with load(nginx, case.trigger):
                wait_until(wants_lock(other), 60, "the other to want the lock")
                tracer.run_to_function(Elf(site.flavour.binary), "ngx_shmtx_unlock")
                tracer.step(steps)
                tracer.kill()
        wait_until(
            lambda: len(nginx.workers()) == 2 and worker not in nginx.workers(),
            what="another worker",
        )
        requests.go_on()
    assert other in nginx.workers()
    check_cache(nginx)


@pytest.mark.parametrize("steps", [0, 300, 600])
def test_killed_again_and_again(site: Site, steps: int) -> None:
    """Also the one that comes to clear up is killed, wherever it is."""
    case = CASES[0]
    nginx = prepare(site, case)
    elf = code_of(site)
    with load(nginx, case.trigger) as requests:
        for more in (0, 20, 40):
            wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
            worker = nginx.workers()[-1]
            nginx.allow_log(rf"process {worker} exited on signal 9")
            nginx.allow_log(rf"zone \"[^\"]*\" was locked by {worker}$")
            with Tracer(worker) as tracer:
                tracer.run_to_function(elf, "nsf_shard_put", timeout=60)
                # this may be behind it, without the lock
                tracer.step(steps + more)
                tracer.kill()
        wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
        requests.go_on()
    check_cache(nginx)


@pytest.mark.parametrize("steps", STEPS)
def test_old_worker_killed_during_a_reload(site: Site, fake: Fake, steps: int) -> None:
    """The lock of a worker that is shutting down is taken from it, too."""
    add_many(site, fake, range(5))
    site.variables["DELIVER"] = ""
    server = location("ids", CACHE + LONG) + STATUS + INTERNAL
    nginx = site.start(server, ZONE + patient(fake.url))
    [old] = nginx.workers()
    fake.script = hold
    with nginx.connect() as connection:
        connection.send_request("GET", "/file/1")
        wait_until(lambda: fake.asked() == ["1"], what="the lookup")
        nginx.reload()
        with Tracer(old) as tracer:
            fake.script = answer
            fake.release()
            kill_in(nginx, tracer, code_of(site), ("nsf_shard_put",), steps)
        assert connection.at_end()
    for n in range(5):
        got = ask(nginx, f"/file/{n}")
        site.assert_file(got.response, n)
        assert got.said == ("HIT", "memcached")
    for n in range(5):
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")


def test_lock_of_a_zone_that_is_no_more(site: Site, servers: Servers) -> None:
    """Nobody unlocks what a dead worker has locked there: others do without."""
    fakes = [servers.fake(), servers.fake()]
    urls = [patient(f.url, name=f"ids{n}") for n, f in enumerate(fakes)]
    for fake in fakes:
        add_many(site, fake, range(5))
        fake.script = hold
    locations = [
        location(f"ids{n}", CACHE + LONG, name=f"file{n}") for n in range(len(fakes))
    ]
    server = "".join(locations) + STATUS + INTERNAL
    nginx = site.start(server, ZONE + "".join(urls))
    # two generations of workers with one zone, then one with another
    with nginx.connect() as first:
        first.send_request("GET", "/file0/1")
        wait_until(lambda: fakes[0].asked() == ["1"], what="the first lookup")
        [killed] = nginx.workers()
        nginx.reload()
        with nginx.connect() as second:
            second.send_request("GET", "/file1/2")
            wait_until(lambda: fakes[1].asked() == ["2"], what="the second lookup")
            [other] = nginx.workers()
            zone = ZONE.replace("4m", "8m")
            nginx.reload(site.template(server, zone + "".join(urls)))
            nginx.allow_log(rf"process {killed} exited on signal 9")
            with Tracer(killed) as tracer:
                fakes[0].release()
                tracer.run_to_function(code_of(site), "nsf_shard_put")
                tracer.kill()
            fakes[1].release()
            site.assert_file(second.read_response(), 2)
    wait_until(lambda: other not in nginx.all_workers(), what="the other's end")
    assert "was locked by" not in nginx.errors_text()
