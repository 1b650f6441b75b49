"""The LMDB store: whatever happens to its files while nginx reads them."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import lmdb
import pytest

from lib.client import Connection, Response
from lib.elf import Elf
from lib.files import content
from lib.lmdb_writer import Locker, Writer
from lib.nginx import Nginx
from lib.process import mappings, open_files
from lib.ptrace import Tracer
from lib.site import Site
from lib.store import LmdbStore
from lib.wait import how_late, wait_until

INTERNAL = "%%INTERNAL%%\n"
APP = "location @app { proxy_pass http://%%APP%%; }\n"

# how often a path is looked at for another file, with what a worker's idea of the
# time may be behind
CHECK_SECONDS = 1.0
SLACK_SECONDS = 0.1

PAGE = 4096


# a connection of a test may carry any number of requests
HTTP = "keepalive_requests 1000000;"


def start(site: Site, server: str) -> Nginx:
    """Start nginx with locations of ``lookup``."""
    return site.start(server, http=HTTP)


def lookup(name: str = "file", path: str = "%%STORE%%", more: str = "") -> str:
    """Return a location /NAME/ with a store of its own."""
    return (
        f"location /{name}/ {{ http_sendfile on; %%DIRECT%% {more}"
        f" http_sendfile_lookup lmdb:{path}; }}\n"
    )


def add_files(site: Site, number: int) -> None:
    """Write the files aa/N.dat and bb/N.dat; both say N."""
    for n in range(number):
        site.files.write_id(f"aa/{n}.dat", n)
        site.files.write_id(f"bb/{n}.dat", n)


def fill(site: Site, name: str, number: int, subdir: bool = True) -> Path:
    """Make a store with the IDs 0 to NUMBER - 1 and values of many sizes, closed.

    It has branch pages, leaf pages and overflow pages.

    Returns:
        Its data file.
    """
    store = site.store_at(name, subdir)
    with store.env.begin(write=True) as txn:
        for n in range(number):
            path = f"aa/{n}.dat"
            if n % 10 == 3:
                value = json.dumps({"path": path, "ignored": "x" * 9000})
            else:
                value = path
            txn.put(str(n).encode(), value.encode())
    store.close()
    return store.data


def replace(data: Path, good: bytes) -> None:
    """Put a file with that content in the place of a data file."""
    new = data.with_name("new.mdb")
    new.write_bytes(good)
    new.chmod(0o644)
    new.replace(data)


def until(condition: Callable[[], Response], status: int = 200) -> float:
    """Repeat a request until it has that status; return how late it had another."""
    return how_late(lambda: condition().status == status, f"status {status}")


def is_replaced(connection: Connection, file_id: int) -> bool:
    """Ask for /file/1; tell whether it is the file of that ID, or the one before."""
    body = connection.request("GET", "/file/1").body
    assert body in (content(file_id - 1), content(file_id))
    return body == content(file_id)


def until_file(nginx: Nginx, file_id: int) -> None:
    """Repeat a request for /file/1 until the answer is the file of that ID."""
    wait_until(
        lambda: nginx.get("/file/1").body == content(file_id), what="the other file"
    )


def reader_pids(env: lmdb.Environment) -> list[int]:
    """Return the processes that the lock file has in its table of readers."""
    lines = env.readers().splitlines()
    return [int(s.split()[0]) for s in lines if s.split()[0].isdigit()]


def is_mapped_once(pid: int, data: Path) -> bool:
    """Whether a process has a data file mapped once, and its meta pages once."""
    return len(mappings(pid, data)) == 2


def lock_is_touched(pid: int, lock: Path) -> bool:
    """Whether a process has a lock file open or mapped."""
    return bool(mappings(pid, lock)) or str(lock) in open_files(pid)


def worker(nginx: Nginx) -> int:
    """Return the only worker."""
    (pid,) = nginx.workers()
    return pid


def opened(nginx: Nginx) -> int:
    """Count how often a worker has opened a store."""
    return nginx.errors_text().count("http_sendfile: opened lmdb:")


# before there is one


@pytest.mark.parametrize("subdir", [True, False], ids=["directory", "file"])
def test_not_there_yet(site: Site, subdir: bool) -> None:
    """Misses until it is created, one info line a worker, then it is served."""
    site.variables["WORKERS"] = "2"
    add_files(site, 3)
    nginx = start(site, lookup(path="%%DIR%%/later"))
    for _ in range(30):
        assert nginx.get("/file/1?early").status == 404
    entry = nginx.logged("/file/1?early", 30)
    assert (entry.status, entry.source) == ("MISS", "lmdb")
    assert entry.reason == "no LMDB yet (2: No such file or directory)"
    wait_until(
        lambda: nginx.errors_text().count("later is not there yet") >= 2,
        what="a line of each worker",
    )
    said = [s for s in nginx.errors("info") if "is not there yet" in s]
    assert len(said) == 2
    assert all(f"lmdb:{site.directory}/later is" in s for s in said)
    assert nginx.errors() == []
    store = site.store_at("later", subdir)
    store.put(1, "aa/1.dat")
    assert until(lambda: nginx.get("/file/1")) <= CHECK_SECONDS + SLACK_SECONDS
    site.assert_file(nginx.get("/file/1"), 1)
    # and from then on by every worker
    for _ in range(30):
        nginx.get("/file/1?late")
    assert {e.code for e in nginx.access_entries("/file/1?late")} == {200}


def test_fallback_until_it_is_there(site: Site) -> None:
    """A store that is not there yet is a miss, for the fallback as well."""
    nginx = start(
        site,
        lookup(
            path="%%DIR%%/later",
            more="http_sendfile_fallback @app; http_sendfile_fallback_on miss;",
        )
        + APP,
    )
    assert nginx.get("/file/1").text == "app GET /file/1\n"
    assert nginx.errors() == []


def test_directory_without_data(site: Site) -> None:
    """An empty directory is a store that is not there yet."""
    add_files(site, 2)
    (site.directory / "later").mkdir()
    nginx = start(site, lookup(path="%%DIR%%/later"))
    assert nginx.get("/file/1").status == 404
    assert os.listdir(site.directory / "later") == []
    store = site.store_at("other")
    store.put(1, "aa/1.dat")
    store.close()
    (site.directory / "later").rmdir()
    (site.directory / "other").rename(site.directory / "later")
    assert until(lambda: nginx.get("/file/1")) <= CHECK_SECONDS + SLACK_SECONDS
    assert nginx.errors() == []


def test_path_below_a_file(site: Site) -> None:
    """A path that leads through a file is not there yet, either."""
    (site.directory / "file").write_bytes(b"")
    nginx = start(site, lookup(path="%%DIR%%/file/ids.lmdb"))
    assert nginx.get("/file/1").status == 404
    assert nginx.logged("/file/1").status == "MISS"


def test_single_file(site: Site) -> None:
    """MDB_NOSUBDIR: a file, with its lock file beside it."""
    add_files(site, 3)
    store = site.store_at("ids.mdb", subdir=False)
    store.put(1, "aa/1.dat")
    nginx = start(site, lookup(path="%%DIR%%/ids.mdb"))
    site.assert_file(nginx.get("/file/1"), 1)
    store.put(2, "aa/2.dat")
    site.assert_file(nginx.get("/file/2"), 2)
    assert reader_pids(store.env) == []
    assert mappings(worker(nginx), store.data)


def test_config_test_touches_nothing(site: Site) -> None:
    """``nginx -t`` neither creates nor opens a store."""
    missing = site.directory / "missing"
    empty = site.directory / "empty"
    empty.mkdir()
    data = fill(site, "there", 10)
    (data.parent / "lock.mdb").unlink()
    check = site.check_config(
        lookup("a", str(missing))
        + lookup("b", str(empty))
        + lookup("c", "%%DIR%%/there")
    )
    check.assert_silent()
    assert not missing.exists()
    assert os.listdir(empty) == []
    assert os.listdir(data.parent) == ["data.mdb"]


def test_master_opens_nothing(site: Site) -> None:
    """Each worker opens the store for itself; the master never does."""
    site.variables["WORKERS"] = "3"
    nginx = start(site, lookup())
    wait_until(lambda: opened(nginx) == 3, what="the workers to open it")
    for pid in nginx.workers():
        assert str(site.store.data) in open_files(pid)
        assert is_mapped_once(pid, site.store.data)
    assert str(site.store.data) not in open_files(nginx.pid)
    assert mappings(nginx.pid, site.store.data) == []
    nginx.reload()
    assert str(site.store.data) not in open_files(nginx.pid)


# changes while it is open


def test_grows_past_its_map(site: Site) -> None:
    """A writer that enlarges the map is followed, within one connection."""
    add_files(site, 3)
    path = site.directory / "small"
    with closing(LmdbStore(path, map_size=1 << 20)) as store:
        store.put(1, "aa/1.dat")
        nginx = start(site, lookup(path=str(path)))
        with nginx.connect() as connection:
            for size in (4 << 20, 16 << 20, 40 << 20):
                site.assert_file(connection.request("GET", "/file/1"), 1)
                store.env.set_mapsize(size)
                while store.data.stat().st_size < size - (1 << 20):
                    last = str(store.data.stat().st_size)
                    store.put(f"filler{last}", b"x" * 500_000)
                store.put(2, "aa/2.dat" if size != 16 << 20 else "bb/2.dat")
                site.assert_file(connection.request("GET", "/file/2"), 2)
        assert nginx.errors() == []
        assert opened(nginx) == 2


@pytest.mark.parametrize("subdir", [True, False], ids=["directory", "file"])
def test_symlink_swap(site: Site, subdir: bool) -> None:
    """A new store behind the link is served within a second; the old is closed."""
    add_files(site, 4)
    link = site.directory / "current"
    stores = [site.store_at(f"v{n}", subdir) for n in range(3)]
    for n, store in enumerate(stores):
        store.put(1, f"aa/{n}.dat")
    link.symlink_to("v0")
    nginx = start(site, lookup(path=str(link)))
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 0)
    for n in (1, 2):
        link.with_name("new").symlink_to(f"v{n}")
        link.with_name("new").replace(link)
        with nginx.connect() as connection:
            seconds = how_late(partial(is_replaced, connection, n), "the new store")
        assert seconds <= CHECK_SECONDS + SLACK_SECONDS
        site.assert_file(nginx.get("/file/1"), n)
        assert mappings(pid, stores[n].data)
        assert mappings(pid, stores[n - 1].data) == []
        assert not lock_is_touched(pid, stores[n].lock)
        assert str(stores[n - 1].data) not in open_files(pid)
    assert worker(nginx) == pid
    assert nginx.errors() == []


def test_swap_of_directory_and_file(site: Site) -> None:
    """The link may lead to a directory first, then to a file, and back."""
    add_files(site, 3)
    stores = [site.store_at("v0"), site.store_at("v1", subdir=False)]
    link = site.directory / "current"
    link.symlink_to("v0")
    for n, store in enumerate(stores):
        store.put(1, f"aa/{n}.dat")
    nginx = start(site, lookup(path=str(link)))
    site.assert_file(nginx.get("/file/1"), 0)
    for n in (1, 0, 1):
        link.with_name("new").symlink_to(f"v{n}")
        link.with_name("new").replace(link)
        until_file(nginx, n)
        assert is_mapped_once(worker(nginx), stores[n].data)
        assert mappings(worker(nginx), stores[1 - n].data) == []
    assert nginx.errors() == []


@pytest.mark.parametrize(
    "name", ["ids with space", "日本語", "a:b,c=d%20#?&", "x" * 200]
)
def test_path_of_any_name(site: Site, name: str) -> None:
    """A path is taken as it is: spaces, UTF-8, what means something in a URL."""
    add_files(site, 2)
    site.store_at(name).put(1, "aa/1.dat")
    nginx = start(
        site,
        lookup(path="%%DIR%%/NAME")
        .replace("lmdb:", '"lmdb:')
        .replace("NAME;", f'{name}";'),
    )
    site.assert_file(nginx.get("/file/1"), 1)
    assert f"opened lmdb:{site.directory}/{name}\n" in nginx.errors_text()


def test_deleted_while_open(site: Site) -> None:
    """What was open is served on; a new store in its place is found."""
    add_files(site, 3)
    data = fill(site, "ids", 2)
    nginx = start(site, lookup(path="%%DIR%%/ids"))
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 1)
    shutil.rmtree(data.parent)
    begin = time.monotonic()
    while time.monotonic() - begin < CHECK_SECONDS + 0.2:
        site.assert_file(nginx.get("/file/1"), 1)
    store = site.store_at("ids")
    store.put(1, "aa/2.dat")
    until_file(nginx, 2)
    assert is_mapped_once(pid, data)
    assert worker(nginx) == pid


def test_writer_is_killed(site: Site) -> None:
    """A writer that dies within its transaction disturbs neither reads nor writes."""
    add_files(site, 20)
    with site.store.env.begin(write=True) as txn:
        for n in range(10):
            txn.put(b"%d" % n, b"aa/%d.dat" % n)
    nginx = start(site, lookup())
    # held on to by the killed one: the writers' mutex, and not a reader's slot
    site.store.close()
    for _ in range(3):
        writer = Writer(site.store.path, "hold")
        for n in range(10):
            site.assert_file(nginx.get(f"/file/{n}"), n)
        writer.kill()
        for n in range(10):
            site.assert_file(nginx.get(f"/file/{n}"), n)
        assert nginx.get("/file/15").status == 404
    with Writer(site.store.path, "hammer", "20"):
        site.assert_file(nginx.get("/file/15"), 15)
    assert nginx.errors() == []


def test_two_paths_to_one_store(site: Site) -> None:
    """A symbolic link and the real path share one environment, one mapping."""
    add_files(site, 3)
    (site.directory / "link").symlink_to(site.store.path)
    (site.directory / "linked").symlink_to(site.directory)
    site.store.put(1, "aa/1.dat")
    nginx = start(
        site,
        lookup("a")
        + lookup("b", "%%DIR%%/link")
        + lookup("c", "%%DIR%%/linked/ids.lmdb")
        + lookup("d", "%%STORE%%/"),
    )
    pid = worker(nginx)
    for name in "abcd":
        site.assert_file(nginx.get(f"/{name}/1"), 1)
    assert is_mapped_once(pid, site.store.data)


def test_two_paths_to_one_store_that_breaks(site: Site) -> None:
    """When a shared environment is given up and opened anew, it is for all."""
    add_files(site, 3)
    data = fill(site, "ids", 3)
    good = data.read_bytes()
    (site.directory / "link").symlink_to("ids")
    nginx = start(site, lookup("a", "%%DIR%%/ids") + lookup("b", "%%DIR%%/link"))
    pid = worker(nginx)
    for _ in range(2):
        for name in "abab":
            site.assert_file(nginx.get(f"/{name}/1"), 1)
        # the pages of data, in place: only reading finds out
        with data.open("r+b") as file:
            file.seek(2 * PAGE)
            file.write(b"\xff" * (len(good) - 2 * PAGE))
        assert nginx.get("/a/1").status == 502
        with data.open("r+b") as file:
            file.write(good)
        until(lambda: nginx.get("/a/1"))
    site.assert_file(nginx.get("/b/1"), 1)
    site.assert_file(nginx.get("/a/1"), 1)
    assert is_mapped_once(pid, data)
    assert worker(nginx) == pid


def test_two_stores(site: Site) -> None:
    """A broken store is no matter to another."""
    add_files(site, 3)
    data = fill(site, "broken", 3)
    data.write_bytes(b"no database" * 1000)
    site.store.put(1, "aa/1.dat")
    nginx = start(site, lookup("a") + lookup("b", "%%DIR%%/broken"))
    for _ in range(3):
        site.assert_file(nginx.get("/a/1"), 1)
        assert nginx.get("/b/1").status == 502


# permissions


def deny_data(path: Path) -> Callable[[], None]:
    """Make the data file unreadable; return what undoes it."""
    data = path / "data.mdb"
    data.chmod(0)
    return lambda: data.chmod(0o644)


def deny_directory(path: Path) -> Callable[[], None]:
    """Let nobody into the directory."""
    path.chmod(0)
    return lambda: path.chmod(0o755)


DENIED: list[tuple[Callable[[Path], Callable[[], None]], str, str]] = [
    (deny_data, "read permission on", "/data.mdb"),
    (deny_directory, "permission", ""),
]


@pytest.mark.parametrize(
    ("deny", "permission", "file"), DENIED, ids=[d[0].__name__ for d in DENIED]
)
def test_permission(
    site: Site, deny: Callable[[Path], Callable[[], None]], permission: str, file: str
) -> None:
    """What is not permitted is said once with the file, and heals when it is."""
    add_files(site, 3)
    path = fill(site, "ids", 3).parent
    allow = deny(path)
    try:
        nginx = start(
            site,
            lookup("a", str(path))
            + lookup("b", str(path), "http_sendfile_fallback @app;")
            + APP,
        )
        for _ in range(3):
            assert nginx.get("/a/1").status == 502
            assert nginx.get("/b/1").text == "app GET /b/1\n"
        entry = nginx.logged("/a/1", 3)
        assert (entry.status, entry.source) == ("ERROR", "lmdb")
        assert entry.reason == "cannot open LMDB (13: Permission denied)"
        said = [s for s in nginx.errors() if "needs" in s]
        assert len(said) == 1, said
        assert f"cannot open LMDB lmdb:{path}:" in said[0]
        assert f"{permission} {path}{file}" in said[0] or not file
        assert str(path) in said[0]
    finally:
        allow()
    assert until(lambda: nginx.get("/a/1")) <= CHECK_SECONDS + SLACK_SECONDS
    site.assert_file(nginx.get("/a/1"), 1)
    site.assert_file(nginx.get("/b/2"), 2)


def test_permission_on_the_directory(site: Site) -> None:
    """A directory that may not be searched is what the log names."""
    path = fill(site, "ids", 3).parent
    allow = deny_directory(path)
    try:
        nginx = start(site, lookup(path=str(path)))
        assert nginx.get("/file/1").status == 502
        (said,) = [s for s in nginx.errors() if "needs" in s]
        assert re.search(rf"(search|execute) permission on .*{path}(?!/)", said), said
    finally:
        allow()


def test_permission_on_a_single_file(site: Site) -> None:
    """Of a single file the log names the file."""
    add_files(site, 2)
    data = fill(site, "ids.mdb", 2, subdir=False)
    data.chmod(0)
    nginx = start(site, lookup(path=str(data)))
    assert nginx.get("/file/1").status == 502
    nginx.wait_for_log(f"needs read permission on {data}")
    data.chmod(0o644)
    until(lambda: nginx.get("/file/1"))
    site.assert_file(nginx.get("/file/1"), 1)


def test_lock_file_that_is_the_publishers_own(site: Site) -> None:
    """A worker needs no lock file: none of its modes, nor one at all."""
    add_files(site, 3)
    path = fill(site, "ids", 3).parent
    path.chmod(0o555)
    (path / "lock.mdb").chmod(0)
    nginx = start(site, lookup(path=str(path)))
    site.assert_file(nginx.get("/file/1"), 1)
    path.chmod(0o755)
    (path / "lock.mdb").unlink()
    path.chmod(0o555)
    nginx.reload()
    site.assert_file(nginx.get("/file/2"), 2)
    assert os.listdir(path) == ["data.mdb"]
    assert nginx.errors() == []


# damage


def damage_zero(data: bytes) -> bytes:
    """An empty file."""
    return b""


def damage_garbage(data: bytes) -> bytes:
    """Bytes that are no database."""
    return random.Random(1).randbytes(len(data))


def damage_zeros(data: bytes) -> bytes:
    """A file of the right length, all zero."""
    return bytes(len(data))


def damage_half(data: bytes) -> bytes:
    """The first half."""
    return data[: len(data) // 2 // PAGE * PAGE]


def damage_page_and_a_bit(data: bytes) -> bytes:
    """The first page and a part of the second."""
    return data[: PAGE + 100]


def damage_meta_only(data: bytes) -> bytes:
    """The first two pages."""
    return data[: 2 * PAGE]


def damage_version(data: bytes) -> bytes:
    """Another version of the format."""
    return both_metas(data, 4, struct.pack("<I", 99))


def damage_map_size(data: bytes) -> bytes:
    """A map that no machine has room for."""
    return both_metas(data, 16, struct.pack("<Q", 1 << 62))


def damage_page_size(data: bytes) -> bytes:
    """A page size of nothing."""
    return both_metas(data, 24, struct.pack("<I", 0))


def damage_last_page(data: bytes) -> bytes:
    """A last page far behind the end."""
    return both_metas(data, 120, struct.pack("<Q", 1 << 40))


def damage_root_page(data: bytes) -> bytes:
    """A root page far behind the end."""
    return both_metas(data, 112, struct.pack("<Q", 1 << 40))


def both_metas(data: bytes, offset: int, new: bytes) -> bytes:
    """Overwrite a field of MDB_meta (LMDB 0.9, mdb.c) in both of its pages.

    Args:
        data: the file.
        offset: from the start of the structure, which follows a page's header
            of 16 bytes.
        new: the field.
    """
    result = bytearray(data)
    for page in (0, 1):
        at = page * PAGE + 16 + offset
        result[at : at + len(new)] = new
    return bytes(result)


DAMAGES: list[Callable[[bytes], bytes]] = [
    damage_zero,
    damage_garbage,
    damage_zeros,
    damage_half,
    damage_page_and_a_bit,
    damage_meta_only,
    damage_version,
    damage_map_size,
    damage_page_size,
    damage_last_page,
    damage_root_page,
]

# what LMDB looks at but once
READ_AT_OPENING = (damage_version, damage_map_size, damage_page_size)

# what is still there may be served
PARTLY = (damage_half,)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__[7:])
def test_damaged_from_the_start(site: Site, damage: Callable[[bytes], bytes]) -> None:
    """An error, the fallback, no crash; and healed by a good file."""
    add_files(site, 20)
    data = fill(site, "ids", 500)
    good = data.read_bytes()
    data.write_bytes(damage(good))
    nginx = start(
        site,
        lookup("a", "%%DIR%%/ids")
        + lookup("b", "%%DIR%%/ids", "http_sendfile_fallback @app;")
        + APP,
    )
    pid = worker(nginx)
    with nginx.connect() as connection:
        for n in range(20):
            right_or_failed(connection.request("GET", f"/a/{n}"), n)
    # the last in the order of the keys
    assert nginx.get("/a/499").status == 502
    assert nginx.get("/b/499").text == "app GET /b/499\n"
    if damage not in PARTLY:
        assert nginx.get("/a/1").status == 502
    entry = nginx.logged("/a/499")
    assert (entry.status, entry.source) == ("ERROR", "lmdb")
    # one line of those of a second
    assert re.search(rf'key "\d+" in lmdb:{data.parent}: ', nginx.errors_text())
    replace(data, good)
    assert until(lambda: nginx.get("/a/499?x"), 404) <= CHECK_SECONDS + SLACK_SECONDS
    site.assert_file(nginx.get("/a/1"), 1)
    site.assert_file(nginx.get("/b/2"), 2)
    assert worker(nginx) == pid


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__[7:])
def test_damaged_while_open(site: Site, damage: Callable[[bytes], bytes]) -> None:
    """A file that is overwritten or cut off in place: no crash, no wrong file."""
    add_files(site, 20)
    data = fill(site, "ids", 500)
    good = data.read_bytes()
    nginx = start(
        site,
        lookup("a", "%%DIR%%/ids")
        + lookup("b", "%%DIR%%/ids", "http_sendfile_fallback @app;")
        + APP,
    )
    pid = worker(nginx)
    for n in range(20):
        site.assert_file(nginx.get(f"/a/{n}"), n)
    bad = damage(good)
    with data.open("r+b") as file:
        file.truncate(len(bad))
        file.write(bad)
    begin = time.monotonic()
    with nginx.connect() as connection:
        # until the path is looked at again, and somewhat longer
        while time.monotonic() - begin < CHECK_SECONDS + 0.2:
            for n in range(20):
                right_or_failed(connection.request("GET", f"/a/{n}"), n)
                response = connection.request("GET", f"/b/{n}")
                assert response.body in (content(n), f"app GET /b/{n}\n".encode())
    if damage not in READ_AT_OPENING:
        assert nginx.get("/a/499").status == 502
        assert nginx.get("/b/499").text == "app GET /b/499\n"
    if damage not in (*READ_AT_OPENING, *PARTLY):
        assert nginx.get("/a/1").status == 502
    assert worker(nginx) == pid
    replace(data, good)
    assert until(lambda: nginx.get("/a/499"), 404) <= CHECK_SECONDS + SLACK_SECONDS
    for n in range(20):
        site.assert_file(nginx.get(f"/a/{n}"), n)
    wait_until(lambda: is_mapped_once(pid, data), what="the old to be closed")
    assert worker(nginx) == pid


def right_or_failed(response: Response, file_id: int) -> None:
    """Check that an answer is the file of its ID, or none at all."""
    if response.status == 200:
        assert response.body == content(file_id)
    else:
        assert response.status in (404, 502), response
        assert b"ID:" not in response.body


def test_random_damage_while_open(site: Site) -> None:
    """Random bytes over pages in use, many times: no crash, never a wrong file."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    add_files(site, 40)
    data = fill(site, "ids", 2000)
    good = data.read_bytes()
    nginx = start(site, lookup(path="%%DIR%%/ids"))
    pid = worker(nginx)
    failed = 0
    with data.open("r+b", buffering=0) as file, nginx.connect() as connection:
        for round_ in range(60):
            for _ in range(chance.choice((1, 3, 30, 300))):
                # the two meta pages only now and then
                first = 0 if round_ % 6 == 5 else 2 * PAGE
                at = chance.randrange(first, len(good) - 600)
                os.pwrite(file.fileno(), chance.randbytes(chance.randrange(1, 600)), at)
            for n in range(40):
                response = connection.request("GET", f"/file/{n}")
                right_or_failed(response, n)
                failed += response.status != 200
            if round_ % 3 == 2:
                os.pwrite(file.fileno(), good, 0)
        os.pwrite(file.fileno(), good, 0)
    assert failed > 0
    assert worker(nginx) == pid
    assert until(lambda: nginx.get("/file/1")) <= CHECK_SECONDS + SLACK_SECONDS
    wait_until(lambda: nginx.get("/file/13").status == 200, what="all to be healed")
    for n in range(40):
        site.assert_file(nginx.get(f"/file/{n}"), n)
    assert worker(nginx) == pid


def test_random_damage_of_headers(site: Site) -> None:
    """150 stores with wrong fields in their meta pages and pages' headers."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    number = 120
    add_files(site, number)
    good = fill(site, "good", number).read_bytes()
    folder = site.directory / "bad"
    folder.mkdir()
    for n in range(150):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            page = chance.choice((0, 1, chance.randrange(2, len(good) // PAGE)))
            at = page * PAGE + chance.randrange(160 if page < 2 else 64)
            size = chance.choice((1, 2, 4, 8))
            new = chance.choice((b"\0", b"\1", b"\x10", b"\x7f", b"\xff", b""))
            data[at : at + size] = (new + bytes(8))[:size] if new else b"\xff" * size
            if page < 2 and chance.random() < 0.7:
                # the same in the other of the two
                other = at + (PAGE if page == 0 else -PAGE)
                data[other : other + size] = data[at : at + size]
        (folder / f"{n}").mkdir()
        (folder / f"{n}" / "data.mdb").write_bytes(data)
        (folder / f"{n}" / "lock.mdb").touch()
        (folder / f"{n}" / "lock.mdb").chmod(0o666)
    nginx = start(site, "".join(lookup(f"s{n}", f"{folder}/{n}") for n in range(150)))
    pid = worker(nginx)
    with nginx.connect() as connection:
        for n in range(150):
            for key in (1, 3, number - 1):
                right_or_failed(connection.request("GET", f"/s{n}/{key}"), key)
    assert worker(nginx) == pid


def test_file_shorter_than_its_last_page(site: Site) -> None:
    """Pages taken and given back in one transaction are counted, never written."""
    add_files(site, 3)
    store = site.store
    with store.env.begin(write=True) as txn:
        txn.put(b"1", b"aa/1.dat")
        for n in range(2000):
            txn.put(b"filler%d" % n, b"x" * 200)
    with store.env.begin(write=True) as txn:
        for n in range(2000):
            txn.delete(b"filler%d" % n)
    for n in (2, 3):
        store.put(n, "aa/2.dat")
    with store.env.begin(write=True) as txn:
        # loads the list of free pages, so that what is given back goes there
        txn.put(b"4", b"aa/1.dat")
        txn.put(b"big", b"x" * (2 << 20))
        txn.delete(b"big")
    needed = (store.env.info()["last_pgno"] + 1) * PAGE
    assert store.data.stat().st_size < needed, "LMDB has written them"
    nginx = start(site, lookup())
    begin = time.monotonic()
    with nginx.connect() as connection:
        while time.monotonic() - begin < CHECK_SECONDS + 0.2:
            site.assert_file(connection.request("GET", "/file/1"), 1)
    assert opened(nginx) == 1
    assert nginx.errors() == []


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
@pytest.mark.parametrize("subdir", [True, False], ids=["directory", "file"])
def test_no_regular_file(site: Site, kind: str, subdir: bool) -> None:
    """A FIFO, a socket or a device as the data file: an error, and no hanging."""
    add_files(site, 3)
    site.store.put(1, "aa/1.dat")
    path = site.directory / "odd"
    data = path
    if subdir:
        path.mkdir()
        data = path / "data.mdb"
    lock = path / "lock.mdb" if subdir else Path(f"{path}-lock")
    lock.touch()
    lock.chmod(0o666)
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "fifo":
            os.mkfifo(data)
        elif kind == "socket":
            server.bind(str(data))
        else:
            data.symlink_to("/dev/zero")
        nginx = start(site, lookup("a", str(path)) + lookup("b"))
        pid = worker(nginx)
        for _ in range(3):
            assert nginx.get("/a/1").status == 502
            site.assert_file(nginx.get("/b/1"), 1)
        assert nginx.logged("/a/1").status == "ERROR"
        assert worker(nginx) == pid


def test_damage_leaks_nothing(site: Site) -> None:
    """A store that fails again and again leaves no descriptors and mappings."""
    data = fill(site, "ids", 500)
    good = data.read_bytes()
    nginx = start(site, lookup(path="%%DIR%%/ids"))
    pid = worker(nginx)
    with nginx.connect() as connection:
        with data.open("r+b") as file:
            file.seek(2 * PAGE)
            file.write(b"\xff" * (len(good) - 2 * PAGE))
        assert connection.request("GET", "/file/1").status == 502
        before = sorted(open_files(pid))
        for _ in range(50):
            assert connection.request("GET", "/file/1").status == 502
        assert sorted(open_files(pid)) == before
        assert len(mappings(pid, data)) <= 2


def test_damaged_lock_file(site: Site) -> None:
    """Garbage in the lock file, before and while it is open: no crash."""
    add_files(site, 3)
    data = fill(site, "ids", 3)
    lock = data.parent / "lock.mdb"
    size = lock.stat().st_size
    lock.write_bytes(b"\xff" * size)
    nginx = start(site, lookup(path="%%DIR%%/ids"))
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 1)
    for damage in (bytes(size), b"\xff" * size, b""):
        with lock.open("r+b") as file:
            file.truncate(len(damage))
            file.write(damage)
        begin = time.monotonic()
        while time.monotonic() - begin < CHECK_SECONDS + 0.2:
            site.assert_file(nginx.get("/file/1"), 1)
        assert worker(nginx) == pid


# faults that are not the file's


def code_of(site: Site) -> Elf:
    """Return the file that has the module's code."""
    return Elf(site.flavour.module or site.flavour.binary)


def allow_death(nginx: Nginx, pid: int, number: int) -> None:
    """Let a worker end by that signal, in the sanitizer's words as well."""
    nginx.allow_log(rf"process {pid} exited (on signal {number}|with code 99)")
    nginx.allow_log(rf"=={pid}==|AddressSanitizer")


@pytest.mark.parametrize("name", ["SIGBUS", "SIGSEGV", "SIGFPE"])
def test_fault_signal_that_somebody_sent(site: Site, name: str) -> None:
    """It ends the worker as it would without the module, and guards nothing less."""
    add_files(site, 3)
    data = fill(site, "ids", 500)
    nginx = start(site, lookup(path="%%DIR%%/ids"))
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 1)
    number = getattr(signal, name)
    allow_death(nginx, pid, number)
    os.kill(pid, number)
    wait_until(lambda: pid not in nginx.workers(), what="the worker's end")
    wait_until(lambda: len(nginx.workers()) == 1, what="another worker")
    pid = worker(nginx)
    until(lambda: nginx.get("/file/1"))
    # its own guard is there
    os.truncate(data, 2 * PAGE)
    assert nginx.get("/file/2").status == 502
    assert worker(nginx) == pid


def test_fault_outside_of_the_file(site: Site) -> None:
    """A bad address within a read, but not in the file: a crash as any other."""
    add_files(site, 3)
    for n in (1, 2):
        site.store.put(n, f"aa/{n}.dat")
    nginx = start(site, lookup())
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 1)
    allow_death(nginx, pid, signal.SIGSEGV)
    with nginx.connect() as connection:
        with Tracer(pid) as tracer:
            connection.send_request("GET", "/file/1")
            tracer.run_to_function(code_of(site), "ngx_http_sendfile_lmdb_env_cmp")
            tracer.counter = PAGE
        wait_until(lambda: pid not in nginx.workers(), what="the worker's end")
    until(lambda: nginx.get("/file/2"))
    site.assert_file(nginx.get("/file/2"), 2)


# what is in it


def test_empty_database(site: Site) -> None:
    """A store without a single key is one of misses."""
    nginx = start(site, lookup())
    assert nginx.get("/file/1").status == 404
    assert nginx.logged("/file/1").status == "MISS"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty value"),
        (b"\0", "control byte in path"),
        (bytes(range(256)), "control byte in path"),
        (b"a" * 4097, "path too long"),
        (b"a" * 65536, "path too long"),
        (b"a" * 65537, "value too long"),
        (b"a" * (1 << 20), "value too long"),
        (b"{" + b" " * 65535, "JSON"),
    ],
    ids=["empty", "nul", "binary", "4097", "64k", "64k+1", "1m", "json64k"],
)
def test_any_value_is_read_whole_and_judged(
    site: Site, value: bytes, reason: str
) -> None:
    """Any value is read whole, and judged."""
    site.store.put(1, value)
    nginx = start(site, lookup())
    assert nginx.get("/file/1").status == 502
    entry = nginx.logged("/file/1")
    assert entry.status == "INVALID"
    assert entry.reason.startswith("invalid record: ")
    assert reason in entry.reason
    assert len([s for s in nginx.errors() if 'key "1"' in s]) == 1


def test_value_of_64_kib(site: Site) -> None:
    """A record may have 64 KiB, and not a byte more."""
    add_files(site, 3)
    empty = len(json.dumps({"path": "aa/1.dat", "x": ""}))
    for n, size in ((1, 65536), (2, 65537)):
        value = json.dumps({"path": f"aa/{n}.dat", "x": "x" * (size - empty)})
        assert len(value) == size
        site.store.put(n, value)
    nginx = start(site, lookup())
    site.assert_file(nginx.get("/file/1"), 1)
    assert nginx.get("/file/2").status == 502
    # and the buffer that it was copied to is no other key's
    site.assert_file(nginx.get("/file/1"), 1)


def test_keys_of_1_and_250_bytes(site: Site) -> None:
    """The shortest key and the longest, and one that is a prefix of another."""
    add_files(site, 4)
    long = "k" * 250
    for n, key in enumerate(("k", long, long[:249])):
        site.store.put(key, f"aa/{n}.dat")
    nginx = start(site, lookup(more="http_sendfile_key $arg_k;"))
    for n, key in enumerate(("k", long, long[:249])):
        site.assert_file(nginx.get(f"/file/?k={key}"), n)
    assert nginx.get(f"/file/?k={long[:248]}").status == 404


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x08, 0x14, 0x3E])
def test_database_of_another_kind(site: Site, flags: int) -> None:
    """Integer or reverse keys, sorted duplicates: perhaps found, and no harm.

    MDB_REVERSEKEY, MDB_DUPSORT, MDB_INTEGERKEY, MDB_DUPFIXED…: the database
    has not been written with them, so that nothing in it fits.
    """
    add_files(site, 40)
    data = fill(site, "ids", 2000)
    data.write_bytes(both_metas(data.read_bytes(), 76, struct.pack("<H", flags)))
    nginx = start(site, lookup(path="%%DIR%%/ids", more="http_sendfile_key $arg_k;"))
    pid = worker(nginx)
    for n in range(40):
        right_or_failed(nginx.get(f"/file/?k={n}"), n)
    for key in ("a", "12345678", "x" * 250):
        assert nginx.get(f"/file/?k={key}").status in (404, 502)
    assert worker(nginx) == pid


def test_named_databases(site: Site) -> None:
    """IDs are looked for in the main database; a name in it is no record."""
    path = site.directory / "named"
    with closing(LmdbStore(path)) as plain:
        plain.put(1, "aa/1.dat")
    with lmdb.open(str(path), max_dbs=4, sync=False) as env:
        for name in (b"2", b"3"):
            named = env.open_db(name)
            with env.begin(write=True, db=named) as txn:
                txn.put(b"2", b"aa/2.dat")
    (path / "lock.mdb").chmod(0o666)
    add_files(site, 4)
    nginx = start(site, lookup(path=str(path)))
    site.assert_file(nginx.get("/file/1"), 1)
    for n in (2, 3):
        assert nginx.get(f"/file/{n}").status == 502
        assert nginx.logged(f"/file/{n}").status == "INVALID"


# other people's locks


def test_lock_that_another_user_holds(site: Site) -> None:
    """The byte that LMDB waits for, held: nginx starts, opens and serves."""
    add_files(site, 3)
    data = fill(site, "v1", 3)
    other = fill(site, "v2", 3)
    link = site.directory / "current"
    link.symlink_to("v1")
    with (
        Locker(data.parent / "lock.mdb", "byte"),
        Locker(other.parent / "lock.mdb", "byte"),
    ):
        nginx = start(site, lookup(path=str(link)))
        pid = worker(nginx)
        site.assert_file(nginx.get("/file/1"), 1)
        # and when a new one is published
        link.with_name("new").symlink_to("v2")
        link.with_name("new").replace(link)

        def swapped() -> bool:
            site.assert_file(nginx.get("/file/2"), 2)
            return is_mapped_once(pid, other)

        wait_until(swapped, what="the new store to be open")
        site.assert_file(nginx.get("/file/2"), 2)
        assert worker(nginx) == pid
    assert nginx.errors() == []


def test_mutex_of_readers_that_another_user_holds(site: Site) -> None:
    """The mutex before the table of readers, held: nginx opens and serves."""
    add_files(site, 3)
    site.store.put(1, "aa/1.dat")
    with Locker(site.store.lock, "mutex"):
        nginx = start(site, lookup())
        site.assert_file(nginx.get("/file/1"), 1)
        nginx.reload()
        site.assert_file(nginx.get("/file/1"), 1)
    assert nginx.errors() == []


def test_worker_takes_no_slot_and_no_snapshot(site: Site) -> None:
    """Nothing of a worker's keeps a writer from using pages again."""
    add_files(site, 3)
    site.store.put(1, "aa/1.dat")
    nginx = start(site, lookup())
    size = site.store.data.stat().st_size
    for n in range(200):
        site.store.put("filler", b"x" * 50_000 + b"%d" % n)
        if n % 20 == 0:
            site.assert_file(nginx.get("/file/1"), 1)
    assert site.store.data.stat().st_size < size + 2_000_000
    assert reader_pids(site.store.env) == []
    assert not lock_is_touched(worker(nginx), site.store.lock)


def test_reload(site: Site) -> None:
    """New workers open the store, and no one leaves a slot behind."""
    site.variables["WORKERS"] = "2"
    add_files(site, 3)
    site.store.put(1, "aa/1.dat")
    nginx = start(site, lookup())
    for _ in range(4):
        wait_until(lambda: len(nginx.workers()) == 2, what="both workers")
        nginx.reload()
        site.assert_file(nginx.get("/file/1"), 1)
    assert reader_pids(site.store.env) == []


def test_reload_with_requests(site: Site) -> None:
    """Requests go on while workers come and go."""
    add_files(site, 10)
    for n in range(10):
        site.store.put(n, f"aa/{n}.dat")
    nginx = start(site, lookup())
    for _ in range(3):
        os.kill(nginx.pid, signal.SIGHUP)
        for n in range(60):
            site.assert_file(nginx.get(f"/file/{n % 10}"), n % 10)
    wait_until(lambda: len(nginx.all_workers()) == 1, what="the old workers' exit")


def test_table_of_readers_is_full(site: Site) -> None:
    """Readers in every slot, living or killed, are no matter to nginx."""
    add_files(site, 2)
    site.store.put(1, "aa/1.dat")
    site.store.close()
    with Writer(site.store.path, "readers", "126"):
        nginx = start(site, lookup())
        site.assert_file(nginx.get("/file/1"), 1)
    writer = Writer(site.store.path, "readers", "126")
    writer.kill()
    nginx.reload()
    site.assert_file(nginx.get("/file/1"), 1)
    assert nginx.errors() == []


@pytest.mark.parametrize("workers", ["1", "3"])
def test_busy_writer(site: Site, workers: str) -> None:
    """While a writer rewrites everything without end, each answer is right."""
    number = 50
    site.variables["WORKERS"] = workers
    add_files(site, number)
    for n in range(number):
        site.store.put(n, f"aa/{n}.dat")
    site.store.close()
    nginx = start(site, lookup())
    chance = random.Random(2)
    with Writer(site.store.path, "hammer", str(number)) as writer:
        connections = [nginx.connect() for _ in range(8)]
        for _ in range(150):
            wanted = [chance.randrange(number) for _ in connections]
            for n, connection in zip(wanted, connections, strict=True):
                connection.send_request("GET", f"/file/{n}")
            for n, connection in zip(wanted, connections, strict=True):
                site.assert_file(connection.read_response(), n)
        for connection in connections:
            connection.close()
        assert writer.running
    targets = {entry.target[:2] for entry in nginx.access_entries()}
    assert targets == {"aa", "bb"}, "the writer was not busy"
    assert nginx.errors() == []


def test_pages_used_again_during_a_read(site: Site) -> None:
    """A read that a writer overtakes by several commits is done once more."""
    number = 300
    add_files(site, number)
    store = site.store
    with store.env.begin(write=True) as txn:
        for n in range(number):
            txn.put(b"%d" % n, b"aa/%d.dat" % n)
    nginx = start(site, lookup())
    pid = worker(nginx)
    site.assert_file(nginx.get("/file/1"), 1)
    for wanted in (7, 123, 299):
        with nginx.connect() as connection:
            with Tracer(pid) as tracer:
                connection.send_request("GET", f"/file/{wanted}")
                tracer.run_to_function(code_of(site), "ngx_http_sendfile_lmdb_env_cmp")
                for n in range(8):
                    with store.env.begin(write=True) as txn:
                        for i in range(number):
                            txn.delete(b"%d" % i)
                            txn.put(b"%d" % i, b"bb/%d.dat" % i)
                        txn.put(b"filler", b"/" * (50_000 + n))
            site.assert_file(connection.read_response(), wanted)
        assert nginx.logged(f"/file/{wanted}").target == f"bb/{wanted}.dat"
        with store.env.begin(write=True) as txn:
            for i in range(number):
                txn.put(b"%d" % i, b"aa/%d.dat" % i)
    assert worker(nginx) == pid
    assert nginx.errors() == []


def test_pipelined_lookups(site: Site) -> None:
    """Lookups of one turn share a snapshot, and see the store as it is."""
    add_files(site, 3)
    site.store.put(1, "aa/1.dat")
    nginx = start(site, lookup())
    with Connection(nginx.port) as connection:
        for n in (1, 2, 1):
            site.store.put(1, f"bb/{n}.dat")
            connection.send(b"GET /file/1 HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
            for _ in range(5):
                site.assert_file(connection.read_response(), n)
