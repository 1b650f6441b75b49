"""Two versions of the module in one nginx, one after the other, by a reload."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.another import build_another
from lib.asking import asking
from lib.cache import CACHE, STATUS, ZONE, ask, make_old, purged, said
from lib.client import Connection
from lib.fake_memcached import Fake, answer, hold
from lib.files import content
from lib.nginx import Flavour, Nginx
from lib.servers import add_many, location, patient
from lib.site import INTERNAL, Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

VALID = "http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
BODY = "http_sendfile_cache_body 100k; http_sendfile_cache_check 1h;"
FILE = (
    f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE} {VALID} {BODY} }}\n"
    + STATUS
)
RATE = "map $arg_slow $rate { default 0; 1 40k; }"
EMPTY = 'cache zone "main" starts empty: the module is another one'
COUNTERS = "counters start at 0: the module is another one"
NUMBER = 20


@pytest.fixture(scope="session")
def another(
    flavour: Flavour, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A module of another version; where it is linked in there is but one."""
    directory = tmp_path_factory.mktemp("another")
    if flavour.module is None:
        yield directory
    else:
        yield build_another(flavour.module, directory)
    shutil.rmtree(directory)


@pytest.fixture
def sent() -> Iterator[list[Connection]]:
    """Connections that are closed after the test."""
    opened: list[Connection] = []
    yield opened
    for connection in opened:
        connection.close()


def loading(template: str, module: Path) -> str:
    """Return a configuration that has the module from that file."""
    assert "%%LOAD%%" in template
    return template.replace("%%LOAD%%", f"load_module {module};")


def lines(nginx: Nginx, words: str) -> int:
    """Count the lines of the error log that have these words."""
    return sum(words in line for line in nginx.errors("notice"))


def settled(nginx: Nginx) -> None:
    """Wait for the end of the workers of before."""
    wait_until(lambda: nginx.all_workers() == nginx.workers(), what="the old's end")


def fill(site: Site, nginx: Nginx) -> None:
    """Get files and misses into memory, and the files away from the disk."""
    for n in range(NUMBER):
        site.add(n)
    paths = [site.files.path(f"aa/{n}.dat") for n in range(NUMBER)]
    make_old(*paths)
    for n in range(NUMBER):
        for _ in range(2):
            site.assert_file(nginx.get(f"/file/{n}"), n)
        assert nginx.get(f"/file/{1000 + n}").status == 404
    for path in paths:
        path.unlink()


def test_a_zone_of_before_is_dropped(
    site: Site, flavour: Flavour, another: Path
) -> None:
    """What an older module has kept is not read, and one line says so."""
    if flavour.module is None:
        return
    template = site.template(FILE, ZONE + "http_sendfile_cache_zone second:1m;")
    nginx = site._prepare(loading(template, another)).start()
    fill(site, nginx)
    nginx.reload(loading(template, flavour.module))
    settled(nginx)
    for n in range(NUMBER):
        got = ask(nginx, f"/file/{n}")
        assert (got.response.status, got.entry.source) == (404, "lmdb")
        assert said(nginx, f"/file/{1000 + n}") == ("MISS", "lmdb")
        assert said(nginx, f"/file/{1000 + n}") == ("NEGATIVE", "cache")
    assert lines(nginx, EMPTY) == 1
    assert lines(nginx, EMPTY.replace("main", "second")) == 1
    assert lines(nginx, COUNTERS) == 1

    # from here on it is a zone as any other
    nginx.reload()
    settled(nginx)
    assert said(nginx, "/file/1001") == ("NEGATIVE", "cache")
    assert (lines(nginx, EMPTY), lines(nginx, COUNTERS)) == (1, 1)


@pytest.mark.parametrize("name", ["mai", "main2", "stats", "generations"])
def test_other_zones_are_not_meant(
    site: Site, flavour: Flavour, another: Path, name: str
) -> None:
    """A zone that was not there before is new, whatever else was."""
    if flavour.module is None:
        return
    template = site.template(FILE, ZONE)
    nginx = site._prepare(loading(template, another)).start()
    nginx.reload(
        loading(
            site.template(FILE, ZONE + f"http_sendfile_cache_zone {name}:1m;"),
            flavour.module,
        )
    )
    assert lines(nginx, EMPTY) == 1
    assert lines(nginx, "starts empty") == 1


def test_an_old_worker_goes_on_in_its_zone(
    site: Site, flavour: Flavour, another: Path, fake: Fake, sent: list[Connection]
) -> None:
    """Workers of both versions: what one keeps the other does not find."""
    if flavour.module is None:
        return
    add_many(site, fake, range(5))
    site.variables["DELIVER"] = ""
    template = site.template(
        location("ids", CACHE + VALID) + STATUS + INTERNAL, ZONE + patient(fake.url)
    )
    nginx = site._prepare(loading(template, another)).start()
    assert said(nginx, "/file/0") == ("HIT", "memcached")
    fake.script = hold
    connection = nginx.connect()
    sent.append(connection)
    connection.send_request("GET", "/file/1?first")
    wait_until(lambda: "1" in fake.asked(), what="the question")
    old = nginx.workers()

    nginx.reload(loading(template, flavour.module))
    fake.script = answer
    assert set(nginx.all_workers()) > set(nginx.workers())
    for n in (0, 2):
        assert said(nginx, f"/file/{n}") == ("HIT", "memcached")
        assert said(nginx, f"/file/{n}") == ("HIT", "cache")

    # the old one keeps what it has found in its own memory, and ends
    assert set(old) & set(nginx.all_workers())
    fake.release()
    site.assert_file(connection.read_response(), 1)
    assert nginx.logged("/file/1?first").source == "memcached"
    settled(nginx)
    assert said(nginx, "/file/1") == ("HIT", "memcached")
    assert said(nginx, "/file/1") == ("HIT", "cache")
    assert said(nginx, "/file/0") == ("HIT", "cache")


def test_back_and_forth_under_load(
    site: Site, flavour: Flavour, another: Path, sent: list[Connection]
) -> None:
    """No request fails and no answer is wrong, also of workers of before."""
    if flavour.module is None:
        return
    site.variables["WORKERS"] = "2"
    size = 90_000
    for n in range(NUMBER):
        site.add(n)
    site.add(NUMBER, size=size)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(NUMBER + 1)))
    template = site.template("limit_rate $rate;" + FILE, ZONE + RATE)
    modules = [another, flavour.module] * 3
    nginx = site._prepare(loading(template, modules[0])).start()

    def drop(connection: Connection, n: int) -> None:
        if n % 9 == 0:
            purged(connection.request("DELETE", f"/status/cache/{n}"))

    with asking(nginx, NUMBER, then=drop) as clients:
        for module in modules[1:]:
            clients.more(50)
            # a body from the cache of a worker that is told to end meanwhile
            for _ in range(2):
                site.assert_file(nginx.get(f"/file/{NUMBER}"), NUMBER, size)
            connection = nginx.connect()
            sent.append(connection)
            connection.send_request("GET", f"/file/{NUMBER}?slow=1")
            assert connection.socket.recv(1) == b"H"
            nginx.reload(loading(template, module))
            assert set(nginx.all_workers()) > set(nginx.workers())
            clients.more(50)
            rest = connection.read_to_end()
            assert rest.partition(b"\r\n\r\n")[2] == content(NUMBER, size)
            settled(nginx)
    assert clients.wrong == []
    assert lines(nginx, EMPTY) == len(modules) - 1
    assert lines(nginx, COUNTERS) == len(modules) - 1


def test_a_file_that_is_replaced_is_not_loaded_by_a_reload(
    site: Site, flavour: Flavour, another: Path
) -> None:
    """A package is upgraded: a reload goes on with the code and its zones."""
    if flavour.module is None:
        return
    module = site.directory / "module.so"
    shutil.copy(another, module)
    template = loading(site.template(FILE, ZONE), module)
    nginx = site._prepare(template).start()
    fill(site, nginx)
    new = site.directory / "new.so"
    shutil.copy(flavour.module, new)
    os.replace(new, module)
    for _ in range(2):
        nginx.reload()
        settled(nginx)
        for n in range(NUMBER):
            site.assert_file(nginx.get(f"/file/{n}"), n)
            assert said(nginx, f"/file/{1000 + n}") == ("NEGATIVE", "cache")
    assert lines(nginx, "another one") == 0
