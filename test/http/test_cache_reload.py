"""The cache when nginx is reloaded, upgraded, or a worker dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lib.asking import asking
from lib.cache import (
    CACHE,
    STATUS,
    ZONE,
    ask,
    let_pass,
    make_old,
    purge,
    purged,
    replace,
    said,
)
from lib.client import Connection
from lib.fake_memcached import Fake, answer, hold
from lib.files import content
from lib.memcached import Memcached
from lib.nginx import WORKER, Nginx
from lib.servers import Servers, add, add_many, block, location, patient
from lib.site import INTERNAL, Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

LONG = "http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
BODY = "http_sendfile_cache_body 100k; http_sendfile_cache_check 1h;"
FILE = (
    f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE} {LONG} {BODY} }}\n"
    + STATUS
)


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


@pytest.fixture(params=["1", "2"])
def workers(site: Site, request: pytest.FixtureRequest) -> int:
    """Run the test with one worker and with two."""
    site.variables["WORKERS"] = request.param
    return int(request.param)


def reload(nginx: Nginx, template: str | None = None) -> None:
    """Reload, and wait until there are just the new workers."""
    number = int(re.findall(r"worker_processes (\d+);", nginx.conf.read_text())[0])
    wait_until(lambda: len(nginx.workers()) == number, what="all workers")
    nginx.reload(template)
    wait_until(
        lambda: (
            len(nginx.workers()) == number and nginx.all_workers() == nginx.workers()
        ),
        what="the old workers' exit",
    )


def fill(site: Site, nginx: Nginx, number: int = 10) -> None:
    """Get the files 0 to ``number`` - 1 into memory, and misses of as many."""
    for n in range(number):
        site.add(n)
    paths = [site.files.path(f"aa/{n}.dat") for n in range(number)]
    make_old(*paths)
    for n in range(number):
        for _ in range(2):
            site.assert_file(nginx.get(f"/file/{n}"), n)
        assert nginx.get(f"/file/{1000 + n}").status == 404
    # from here on they come from memory only
    for path in paths:
        path.unlink()


def check_kept(site: Site, nginx: Nginx, number: int = 10) -> None:
    """Check that all that was filled in is there."""
    for n in range(number):
        got = ask(nginx, f"/file/{n}")
        site.assert_file(got.response, n)
        assert got.said == ("HIT", "cache")
        assert said(nginx, f"/file/{1000 + n}") == ("NEGATIVE", "cache")


def check_empty(nginx: Nginx, number: int = 10) -> None:
    """Check that nothing of it is."""
    for n in range(number):
        got = ask(nginx, f"/file/{n}")
        assert (got.response.status, got.entry.source) == (404, "lmdb")
        assert said(nginx, f"/file/{1000 + n}") == ("MISS", "lmdb")


def test_reload_keeps(site: Site, workers: int) -> None:
    """Records, misses and bodies are there after a reload."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    for _ in range(3):
        reload(nginx)
        check_kept(site, nginx)


def test_reload_with_other_times(site: Site) -> None:
    """Other times than the zone's are no reason to begin anew."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    changed = FILE.replace("10m", "20m").replace("check 1h", "check 30m")
    reload(nginx, site.template(changed + "gzip on;", ZONE))
    check_kept(site, nginx)


def test_reload_without_bodies(site: Site) -> None:
    """Without cache_body files come from the disk; with it again from memory."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    reload(
        nginx, site.template(FILE.replace("cache_body 100k", "cache_body off"), ZONE)
    )
    assert ask(nginx, "/file/1").response.status == 404
    # the record of 1 was dropped, nothing else was
    reload(nginx, site.template(FILE, ZONE))
    got = ask(nginx, "/file/2")
    site.assert_file(got.response, 2)
    assert got.said == ("HIT", "cache")


@pytest.mark.parametrize("size", ["8m", "1m", "64m"])
def test_other_size_starts_empty(site: Site, workers: int, size: str) -> None:
    """A zone of another size starts empty, and the log says so."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    http = f"http_sendfile_cache_zone main:{size};"
    server = FILE.replace("cache_body 100k", "cache_body 10k")
    reload(nginx, site.template(server, http))
    check_empty(nginx)
    lines = [s for s in nginx.errors("notice") if "main" in s and "empty" in s]
    assert len(lines) == 1, lines
    # and it is a cache as any other
    for n in range(10):
        assert said(nginx, f"/file/{1000 + n}") == ("NEGATIVE", "cache")
    # back
    reload(nginx, site.template(FILE, ZONE))
    check_empty(nginx)


def test_same_size_says_nothing(site: Site) -> None:
    """A reload that keeps the cache needs no words."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    size = len(nginx.errors_text())
    reload(nginx)
    said_ = nginx.errors_text()[size:]
    assert not [s for s in said_.splitlines() if "empty" in s]
    check_kept(site, nginx)


def test_zone_removed_and_added(site: Site, workers: int) -> None:
    """A zone that is taken away is gone, and one that is added is new."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    plain = "location /file/ { http_sendfile on; %%DIRECT%% }" + STATUS
    reload(nginx, site.template(plain))
    for n in range(3):
        got = ask(nginx, f"/file/{n}")
        assert (got.response.status, got.entry.source) == (404, "lmdb")
        site.files.write_id(f"aa/{n}.dat", n)
        site.assert_file(ask(nginx, f"/file/{n}").response, n)
        site.files.path(f"aa/{n}.dat").unlink()
    reload(nginx, site.template(FILE, ZONE))
    check_empty(nginx)


def test_another_zone_is_no_reason(site: Site, workers: int) -> None:
    """Zones that come and go, of whatever name, leave one alone."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    for other in (
        "http_sendfile_cache_zone aaa:1m;",
        "http_sendfile_cache_zone zzz:64m;",
        "http_sendfile_cache_zone mai:4m; http_sendfile_cache_zone main2:4m;",
        "limit_req_zone $uri zone=main2:1m rate=1r/s;",
        "",
    ):
        reload(nginx, site.template(FILE, other + ZONE))
        check_kept(site, nginx)


def test_renamed_zone_starts_empty(site: Site) -> None:
    """A zone is known by its name."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    server = FILE.replace("cache main", "cache other")
    reload(nginx, site.template(server, ZONE.replace("main", "other")))
    check_empty(nginx)


def test_two_zones_swap_their_sizes(site: Site) -> None:
    """Each of them starts empty, and nobody gets the other's."""
    zone = "http_sendfile_cache_zone"
    nginx = site.start(FILE, f"{zone} main:4m; {zone} other:8m;")
    fill(site, nginx)
    reload(nginx, site.template(FILE, f"{zone} main:8m; {zone} other:4m;"))
    check_empty(nginx)


# a store block that is another one


def test_a_name_that_stands_for_another_server(
    site: Site, servers: Servers, workers: int
) -> None:
    """A reload with another server asks that one, for hits and misses alike."""
    before, after = servers.fake(), servers.fake()
    add(site, before, 7)
    add(site, after, 8)
    site.files.write_id("bb/7.dat", 77)
    after.put(7, "bb/7.dat")
    server = location("ids", CACHE + LONG) + INTERNAL
    nginx = site.start(server, http=ZONE + block([before.url]))
    site.assert_file(nginx.get("/file/7"), 7)
    assert nginx.get("/file/8").status == 404
    assert said(nginx, "/file/7") == ("HIT", "cache")
    assert said(nginx, "/file/8") == ("NEGATIVE", "cache")
    reload(nginx, site.template(server, ZONE + block([after.url])))
    for source in ("memcached", "cache"):
        for n, file_id in ((7, 77), (8, 8)):
            found = ask(nginx, f"/file/{n}")
            site.assert_file(found.response, file_id)
            assert found.said == ("HIT", source)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A B", "B A", True),
        ("A B", "A,max_fails=9,fail_timeout=9s B,weight=1", True),
        ("A", "A,weight=7", True),
        ("A B", "A,weight=2 B", False),
        ("A,weight=2 B", "A B,weight=2", False),
        ("A B", "A", False),
        ("A B", "A B C", False),
        ("A B", "A C", False),
        ("A B", "A B distribution=dalli connections=3 timeout=9s", True),
        ("A B", "A B distribution=ketama", False),
        ("A", "A distribution=ketama", True),
    ],
)
def test_when_a_name_stands_for_the_same(
    site: Site, servers: Servers, one: str, other: str, same: bool
) -> None:
    """Servers, weights and distribution count; order, times and connections do not."""
    fakes = {name: servers.fake() for name in "ABC"}
    for fake in fakes.values():
        add(site, fake, 7)

    def written(text: str) -> str:
        """Return the block of a text as above."""
        words = [word.split(",") for word in text.split()]
        urls = [[fakes[word[0]].url, *word[1:]] for word in words if word[0] in fakes]
        lines = [word[0].replace("=", " ") for word in words if word[0] not in fakes]
        return block(map(" ".join, urls), "".join(f"{line};" for line in lines))

    server = location("ids", CACHE + LONG) + INTERNAL
    nginx = site.start(server, http=ZONE + written(one))
    assert said(nginx, "/file/7") == ("HIT", "memcached")
    assert said(nginx, "/file/7") == ("HIT", "cache")
    reload(nginx, site.template(server, ZONE + written(other)))
    assert said(nginx, "/file/7") == ("HIT", "cache" if same else "memcached")
    # and what was kept before is still what the old name stood for
    reload(nginx, site.template(server, ZONE + written(one)))
    assert said(nginx, "/file/7") == ("HIT", "cache")


def test_refused_configuration_keeps(site: Site) -> None:
    """A configuration that is refused changes nothing."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    nginx.allow_log(r"\[emerg\].*nosuch")
    before = nginx.workers()
    nginx.write_conf(site.template(FILE.replace("cache main", "cache nosuch"), ZONE))
    os.kill(nginx.pid, signal.SIGHUP)
    nginx.wait_for_log(r"\[emerg\].*nosuch")
    assert nginx.workers() == before
    check_kept(site, nginx)
    # with another size of the zone, too
    wrong = site.template(FILE + "nosuch;", ZONE.replace("4m", "8m"))
    nginx.write_conf(wrong)
    os.kill(nginx.pid, signal.SIGHUP)
    nginx.wait_for_log(r'\[emerg\].*unknown directive "nosuch"')
    check_kept(site, nginx)
    reload(nginx, site.template(FILE, ZONE))
    check_kept(site, nginx)


def test_restart_starts_empty(site: Site) -> None:
    """The cache is memory: it ends with nginx."""
    nginx = site.start(FILE, ZONE)
    fill(site, nginx)
    nginx.stop()
    nginx = site.start(FILE, ZONE)
    check_empty(nginx)


# old workers that still have something to do


def wait_for_gets(fake: Fake, number: int) -> None:
    """Wait until the fake has been asked for so many keys."""
    wait_until(lambda: len(fake.asked()) >= number, what=f"{number} keys asked for")


def draining(
    site: Site, fake: Fake, sent: list[Connection], http: str = ZONE
) -> tuple[Nginx, Connection]:
    """Return a server that was reloaded during a lookup, and who waits for it."""
    add_many(site, fake, range(5))
    site.variables["DELIVER"] = ""
    server = location("ids", CACHE + LONG) + STATUS + INTERNAL
    more = patient(fake.url)
    nginx = site.start(server, ZONE + more)
    fake.script = hold
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/1?first")
    wait_for_gets(fake, 1)
    nginx.reload(site.template(server, http + more))
    return nginx, connection


def test_old_worker_fills(site: Site, fake: Fake, sent: list[Connection]) -> None:
    """What an old worker finds is in the new ones' cache."""
    nginx, connection = draining(site, fake, sent)
    fake.release()
    site.assert_file(connection.read_response(), 1)
    assert nginx.logged("/file/1?first").source == "memcached"
    assert said(nginx, "/file/1") == ("HIT", "cache")
    assert fake.asked() == ["1"]


def test_purge_reaches_an_old_worker(
    site: Site, fake: Fake, sent: list[Connection]
) -> None:
    """After a purge that a new worker does, what an old one brings is not used."""
    nginx, connection = draining(site, fake, sent)
    purge(nginx, 1)
    fake.script = answer
    fake.release()
    site.assert_file(connection.read_response(), 1)
    assert said(nginx, "/file/1") == ("HIT", "memcached")
    assert said(nginx, "/file/1") == ("HIT", "cache")


def test_old_worker_with_a_zone_of_another_size(
    site: Site, fake: Fake, sent: list[Connection]
) -> None:
    """An old worker has its old zone until it ends."""
    other = ZONE.replace("4m", "8m")
    nginx, connection = draining(site, fake, sent, other)
    fake.script = answer
    for n in range(2, 5):
        assert said(nginx, f"/file/{n}") == ("HIT", "memcached")
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")
    fake.release()
    site.assert_file(connection.read_response(), 1)
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's exit")
    assert said(nginx, "/file/1") == ("HIT", "memcached")
    assert said(nginx, "/file/1") == ("HIT", "cache")
    assert said(nginx, "/file/2") == ("HIT", "cache")


def test_old_worker_without_a_zone(
    site: Site, fake: Fake, sent: list[Connection]
) -> None:
    """An old worker has its zone even if the new ones have none."""
    add_many(site, fake, range(5))
    site.variables["DELIVER"] = ""
    nginx = site.start(
        location("ids", CACHE + LONG) + INTERNAL, ZONE + patient(fake.url)
    )
    fake.script = hold
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/1")
    wait_for_gets(fake, 1)
    nginx.reload(site.template(location("ids") + INTERNAL, patient(fake.url)))
    fake.script = answer
    fake.release()
    site.assert_file(connection.read_response(), 1)
    for _ in range(2):
        assert said(nginx, "/file/1") == ("HIT", "memcached")


def test_old_worker_sends_a_body(site: Site, sent: list[Connection]) -> None:
    """A body that an old worker is sending comes to its end."""
    size = 90_000
    site.add(1, size=size)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start("limit_rate $rate;" + FILE, ZONE + RATE)
    for _ in range(3):
        site.assert_file(nginx.get("/file/1"), 1, size)
    path.unlink()
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/1?slow=1")
    assert connection.socket.recv(1) == b"H"
    nginx.reload(
        site.template("limit_rate $rate;" + FILE, ZONE.replace("4m", "8m") + RATE)
    )
    assert ask(nginx, "/file/1").response.status == 404
    rest = connection.read_to_end()
    assert rest.partition(b"\r\n\r\n")[2] == content(1, size)


RATE = "map $arg_slow $rate { default 0; 1 40k; }"


def is_gone(nginx: Nginx, worker: int) -> None:
    """Wait for a worker's end."""
    wait_until(lambda: worker not in nginx.workers(), what=f"the end of {worker}")


def test_many_reloads_under_load(site: Site, workers: int) -> None:
    """No request fails, and no answer is wrong, while nginx is reloaded."""
    number = 30
    for n in range(number):
        site.add(n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(number)))
    sizes = ["4m", "4m", "1m", "4m", "8m", "8m"]
    server = FILE.replace("cache_body 100k", "cache_body 10k")
    nginx = site.start(server, ZONE)
    with asking(nginx, number) as clients:
        for size in sizes:
            reload(nginx, site.template(server, ZONE.replace("4m", size)))
            clients.more(50)
    assert clients.wrong == []


# another binary, a worker that dies


ENVIRONMENT = "env ASAN_OPTIONS; env LSAN_OPTIONS; env UBSAN_OPTIONS;\n"


def children(master: int) -> list[int]:
    """Return the process IDs of a master's workers."""
    found = []
    for tasks in Path(f"/proc/{master}/task").glob("*/children"):
        for pid in tasks.read_text().split():
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
            if title.startswith(WORKER.encode()):
                found.append(int(pid))
    return found


@contextmanager
def daemon(nginx: Nginx) -> Iterator[int]:
    """Run nginx as a daemon, as USR2 needs it, and stop it gracefully.

    Args:
        nginx: whose configuration is written already.

    Yields:
        The master's process ID.
    """
    subprocess.run(nginx._command(), check=True, env=nginx._environment())
    pid_file = nginx.directory / "nginx.pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), what="its pid")
    pid = int(pid_file.read_text())
    try:
        yield pid
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="its end")
    finally:
        # with its workers, and a new master that it has started
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    nginx.check_logs()


def test_another_binary(site: Site, workers: int) -> None:
    """Beside a new binary (USR2) the old one keeps its cache, if it stays."""
    site.check_config(FILE, ZONE, ENVIRONMENT).assert_silent()
    nginx = site.nginx
    pid_file = nginx.directory / "nginx.pid"
    with daemon(nginx) as old:
        wait_until(lambda: len(children(old)) == workers, what="all workers")
        fill(site, nginx)
        os.kill(old, signal.SIGUSR2)

        def new_master() -> int:
            # the old master renames it
            try:
                text = pid_file.read_text()
            except FileNotFoundError:
                return 0
            return int(text) if text.strip() not in ("", str(old)) else 0

        new = wait_until(new_master, what="the new master")
        wait_until(lambda: len(children(new)) == workers, what="its workers")
        # each of both has its own cache: the answer is the old one's, or a 404
        seen = set()

        def both() -> bool:
            response = nginx.get("/file/1")
            if response.status == 200:
                site.assert_file(response, 1)
            seen.add(response.status)
            return seen == {200, 404}

        wait_until(both, what="answers of both")
        os.kill(new, signal.SIGQUIT)
        wait_until(lambda: not Path(f"/proc/{new}").exists(), what="its end")
        check_kept(site, nginx)


def test_worker_is_killed(site: Site, workers: int) -> None:
    """A worker that is killed takes nothing from the cache."""
    nginx = site.start(FILE, ZONE)
    nginx.allow_log(r"exited on signal 9|was locked by")
    fill(site, nginx)
    for _ in range(3):
        wait_until(lambda: len(nginx.workers()) == workers, what="all workers")
        for pid in nginx.workers():
            os.kill(pid, signal.SIGKILL)
            is_gone(nginx, pid)
        wait_until(lambda: len(nginx.workers()) == workers, what="other workers")
        check_kept(site, nginx)


def test_workers_are_killed_under_load(site: Site) -> None:
    """Wherever in the cache a worker dies: the others go on, and rightly."""
    site.variables["WORKERS"] = "2"
    number = 40
    for n in range(number):
        site.add(n, size=3000)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(number)))
    nginx = site.start(FILE, "http_sendfile_cache_zone main:2m;")
    nginx.allow_log(r"exited on signal 9|was locked by")

    def drop(connection: Connection, n: int) -> None:
        if n % 5 == 0:
            purged(connection.request("DELETE", f"/status/cache/{n}"))
        if n % 13 == 0:
            purged(connection.request("DELETE", "/status/cache"))

    with asking(nginx, number, 3000, 4, drop) as clients:
        for round_ in range(20):
            clients.more(40)
            workers_ = wait_until(nginx.workers, what="a worker")
            os.kill(workers_[round_ % len(workers_)], signal.SIGKILL)
    assert clients.wrong == []
    wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
    purged(nginx.request("DELETE", "/status/cache"))
    for n in range(number):
        assert said(nginx, f"/file/{n}") == ("HIT", "lmdb")
        got = ask(nginx, f"/file/{n}")
        site.assert_file(got.response, n, 3000)
        assert got.said == ("HIT", "cache")


def test_expiry_goes_on_over_a_reload(site: Site, memcached: Memcached) -> None:
    """A reload makes no record younger."""
    add(site, memcached, 1)
    site.variables["DELIVER"] = ""
    server = location(memcached.url, CACHE + "http_sendfile_cache_valid 1s;") + INTERNAL
    nginx = site.start(server, ZONE)
    assert said(nginx, "/file/1") == ("HIT", "memcached")
    reload(nginx)
    let_pass(1)
    assert said(nginx, "/file/1") == ("EXPIRED", "memcached")


def test_replaced_file_after_a_reload(site: Site) -> None:
    """Neither does it make a body's check older: it is looked at in time."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start(FILE.replace("check 1h", "check 500ms"), ZONE)
    for _ in range(3):
        site.assert_file(nginx.get("/file/1"), 1)
    replace(path, content(2), old=True)
    reload(nginx)
    let_pass(0.5)
    site.assert_file(ask(nginx, "/file/1").response, 2)
