"""Kept descriptors: files that are sent again without being opened again.

That a descriptor is kept is seen in /proc/PID/fd; that it is used, by
strace, or by moving the directory above the file away: the file itself is
as it was, so until http_sendfile_cache_check is over nobody notices.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from lib.cache import (
    CACHE,
    MTIME,
    SLOW,
    STATUS,
    ZONE,
    make_old,
    purge,
    purge_all,
    replace,
    slow_connection,
    watched,
)
from lib.client import Connection, Headers, Response, http2_at_once
from lib.compare import assert_same
from lib.files import Files, content
from lib.nginx import Nginx
from lib.process import open_files
from lib.site import Site
from lib.strace import Strace
from lib.wait import wait_until

SIZE = 64 * 1024
BIG = 512 * 1024
FOR_EVER = "http_sendfile_cache_valid 1h; http_sendfile_cache_check 1h;"
SOON = "http_sendfile_cache_valid 1h; http_sendfile_cache_check 200ms;"
NOFILE = "worker_rlimit_nofile {};"

CONNECTIONS = 256  # worker_connections of lib/site.py
RESERVE = 128
MTIME_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"


def location(uri: str = "/file/", directives: str = FOR_EVER) -> str:
    """Return a location that delivers the files of FILES directly."""
    return (
        f"location {uri} {{ http_sendfile on; %%DIRECT%% {CACHE} {directives} }}\n"
        f"location /static/ {{ alias %%FILES%%/; }}\n"
    )


def nofile(kept: int) -> str:
    """Return the directive that lets a worker keep so many descriptors."""
    return NOFILE.format(2 * kept + 2 * CONNECTIONS + RESERVE)


def held(nginx: Nginx, path: Path) -> int:
    """Return how many descriptors of the workers lead to a path."""
    return sum(open_files(pid).count(str(path)) for pid in nginx.all_workers())


def all_held(site: Site) -> list[str]:
    """Return what the workers hold below FILES, also what is deleted."""
    found = []
    for pid in site.nginx.all_workers():
        found += [
            name for name in open_files(pid) if name.startswith(f"{site.files.root}/")
        ]
    return found


def wait_for_held(nginx: Nginx, path: Path, number: int) -> None:
    """Wait until so many descriptors of the workers lead to a path."""
    wait_until(
        lambda: held(nginx, path) == number, what=f"{number} descriptors of {path}"
    )


def keep(site: Site, file_id: int = 1, uri: str = "/file/", size: int = SIZE) -> Path:
    """Get a file until its descriptor is kept, and return its path."""
    path = site.files.path(f"aa/{file_id}.dat")
    for _ in range(2):
        site.assert_file(site.nginx.get(f"{uri}{file_id}"), file_id, size)
    wait_for_held(site.nginx, path, 1)
    return path


def start(
    site: Site, server: str | None = None, main: str = "", http: str = ZONE
) -> Nginx:
    """Start a server with file 1, of SIZE bytes and an old time."""
    site.add(1, size=SIZE)
    make_old(site.files.path("aa/1.dat"))
    server = location() if server is None else server
    return site.start(server + STATUS, http, main or nofile(50))


# that it saves opening


def test_third_request_opens_nothing(site: Site) -> None:
    """The first brings the record, the second opens, the others do not."""
    nginx = start(site)
    site.add(2, size=SIZE)
    keep(site, 1)
    nginx.get("/file/2")
    (pid,) = nginx.workers()
    with Strace(pid, site.directory / "strace") as strace:
        for _ in range(5):
            site.assert_file(nginx.get("/file/1"), 1, SIZE)
        assert nginx.head("/file/1").status == 200
        assert nginx.get("/file/1", {"Range": "bytes=5-8"}).status == 206
        site.assert_file(nginx.get("/file/2"), 2, SIZE)
        site.assert_file(nginx.get("/file/2"), 2, SIZE)
        calls = strace.stop()
    assert [call.opened for call in calls] == [str(site.files.path("aa/2.dat"))]


def test_read_ahead_is_told_once(site: Site) -> None:
    """What nginx tells the kernel of a file it has opened, it tells once."""
    site.add(1, size=BIG)
    site.add(2, size=BIG)
    nginx = site.start("read_ahead 256k;" + location() + STATUS, ZONE, nofile(50))
    path = keep(site, size=BIG)
    (pid,) = nginx.workers()
    with watched(pid, site.directory / "strace") as lines:
        for _ in range(3):
            site.assert_file(nginx.get("/file/1"), 1, BIG)
        # the first one brings the record, and opens the file for itself; the
        # second looks at the path again, and the descriptor stays
        purge(nginx, 1)
        for _ in range(3):
            site.assert_file(nginx.get("/file/1"), 1, BIG)
        for _ in range(3):
            site.assert_file(nginx.get("/file/2"), 2, BIG)
    assert sum("openat2(" in line and path.name in line for line in lines) == 2
    told = [line for line in lines if "fadvise64(" in line]
    assert len(told) == 3, told
    assert "/1.dat>" in told[0]
    assert all("/2.dat>" in line for line in told[1:])


def test_first_request_keeps_nothing(site: Site) -> None:
    """A scan over files that are asked for once leaves nothing open."""
    nginx = start(site)
    for n in range(10, 30):
        site.add(n, size=SIZE)
        site.assert_file(nginx.get(f"/file/{n}"), n, SIZE)
    wait_until(lambda: all_held(site) == [], what="all to be closed")


@pytest.mark.parametrize(
    "server",
    [
        location(directives="http_sendfile_cache off;"),
        location(
            directives="http_sendfile_cache_check 0; http_sendfile_cache_valid 1h;"
        ),
        location(directives=f"directio 64k; {FOR_EVER}"),
        location(directives=f"http_sendfile_cache_body 64k; {FOR_EVER}"),
    ],
    ids=["no cache", "no check", "directio", "from memory"],
)
def test_no_descriptor_is_kept_where_the_path_is_looked_at(
    site: Site, server: str
) -> None:
    """Where the path is looked at each time, or memory or O_DIRECT is used."""
    server = server.replace(f"{CACHE} http_sendfile_cache off;", "")
    nginx = start(site, server)
    for _ in range(4):
        site.assert_file(nginx.get("/file/1"), 1, SIZE)
        site.assert_file(nginx.get("/file/1"), 1, SIZE)
        wait_until(lambda: all_held(site) == [], what="all to be closed")


def test_beside_bodies(site: Site) -> None:
    """Files too large for memory are kept open, others are not."""
    nginx = start(
        site, location(directives=f"http_sendfile_cache_body 64k; {FOR_EVER}")
    )
    site.add(2, size=SIZE + 1)
    make_old(site.files.path("aa/2.dat"))
    for _ in range(3):
        for n in (1, 2):
            site.assert_file(nginx.get(f"/file/{n}"), n, SIZE + n - 1)
    wait_until(
        lambda: all_held(site) == [str(site.files.path("aa/2.dat"))],
        what="one descriptor",
    )


def test_small_body_limit_meets_kept_file(site: Site) -> None:
    """A file that one location keeps open, another one takes into memory."""
    nginx = start(
        site,
        location("/file/")
        + location("/memory/", f"http_sendfile_cache_body 64k; {FOR_EVER}").split("\n")[
            0
        ],
    )
    path = keep(site)
    for _ in range(3):
        site.assert_file(nginx.get("/memory/1"), 1, SIZE)
    assert held(nginx, path) == 1
    path.parent.rename(site.files.path("moved"))
    site.assert_file(nginx.get("/memory/1"), 1, SIZE)
    site.assert_file(nginx.get("/file/1"), 1, SIZE)


# the same as a static file


def same(site: Site, headers: Headers | None = None, method: str = "GET") -> Response:
    """Compare an answer from a kept descriptor with the static one."""
    nginx = site.nginx
    got = nginx.request(method, "/file/1", headers)
    wanted = nginx.request(method, "/same/1.dat", headers)
    assert_same(got, wanted)
    return wanted


SETTINGS = [
    "sendfile on;",
    "sendfile off; output_buffers 2 4k;",
    "sendfile on; aio threads;",
    "sendfile off; aio threads;",
    "sendfile on; tcp_nopush on; sendfile_max_chunk 8k;",
    "sendfile on; read_ahead 256k;",
    "gzip on; gzip_types *; gzip_min_length 1;",
    "directio 4m;",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_same_as_static(site: Site, settings: str) -> None:
    """GET, HEAD, ranges and conditions, whatever nginx is told of sending."""
    copy = Files(site.directory / "copy").write_id("1.dat", 1, SIZE)
    os.utime(copy, (MTIME, MTIME))
    nginx = start(
        site,
        settings + location() + "location /same/ { alias %%DIR%%/copy/; }",
    )
    path = keep(site)
    # from here on only the descriptor leads to it
    path.parent.rename(site.files.path("moved"))
    tag = nginx.head("/same/1.dat").header("ETag") or ""
    assert tag
    site.assert_file(same(site), 1, SIZE)
    seen = set()
    for headers in (
        {"Range": "bytes=0-0"},
        {"Range": "bytes=1000-60000"},
        {"Range": "bytes=-100"},
        {"Range": "bytes=0-9,30000-40000"},
        {"Range": "bytes=65536-"},
        {"If-None-Match": tag},
        {"If-Match": '"other"'},
        {"If-Modified-Since": MTIME_HTTP},
        {"If-Range": tag, "Range": "bytes=0-9"},
        {"Accept-Encoding": "gzip"},
    ):
        for method in ("GET", "HEAD"):
            seen.add(same(site, headers, method).status)
    assert seen == {200, 206, 304, 412, 416}
    assert same(site, method="HEAD").body == b""


def test_empty_file(site: Site) -> None:
    """A file of no bytes."""
    nginx = start(site)
    site.add(2, size=0)
    for _ in range(4):
        site.assert_file(nginx.get("/file/2"), 2, 0)


def test_http2(site: Site) -> None:
    """Many streams of one connection send from one descriptor."""
    nginx = start(site, site.http2_listen() + location())
    path = keep(site)
    answers = http2_at_once(nginx.port_of("h2"), ["/file/1"] * 20)
    assert len(answers) == 20
    for answer in answers:
        site.assert_file(answer, 1, SIZE)
    wait_for_held(nginx, path, 1)


def test_subrequests(site: Site) -> None:
    """One request may use a descriptor several times."""
    start(
        site,
        location()
        + "location = /page { alias %%HTML%%/page.html; ssi on; ssi_types *; }",
    )
    site.html.write("page.html", b'<!--#include virtual="/file/1" -->' * 3)
    path = keep(site)
    for _ in range(3):
        assert site.nginx.get("/page").body == content(1, SIZE) * 3
    wait_for_held(site.nginx, path, 1)


# a file that is not what it was


def test_replaced_by_rename(site: Site) -> None:
    """Another file of that name is served at once: the old one has no name."""
    nginx = start(site)
    path = keep(site)
    for n in range(2, 6):
        replace(path, content(n, SIZE + n), old=True)
        for _ in range(3):
            site.assert_file(nginx.get("/file/1"), n, SIZE + n)
    wait_until(lambda: all_held(site) == [str(path)], what="the old ones to be closed")


def test_replaced_but_linked_elsewhere(site: Site) -> None:
    """The old file has another name still; its inode has changed."""
    nginx = start(site)
    path = keep(site)
    os.link(path, site.files.path("aa/other.dat"))
    site.assert_file(nginx.get("/file/1"), 1, SIZE)
    replace(path, content(2, SIZE), old=True)
    site.assert_file(nginx.get("/file/1"), 2, SIZE)


def swap(site: Site, file_id: int) -> None:
    """Put another directory in the place of aa, whose 1.dat says another ID."""
    new = site.files.write_id("new/1.dat", file_id, SIZE)
    make_old(new)
    old = site.files.path("aa")
    old.rename(site.files.path(f"aa.{file_id}"))
    new.parent.rename(old)


def test_directory_replaced(site: Site) -> None:
    """The path is looked at again within http_sendfile_cache_check."""
    nginx = start(site, location(directives=SOON))
    keep(site)
    for n in range(2, 5):
        swap(site, n)
        wait_until(
            lambda n=n: nginx.get("/file/1").body == content(n, SIZE),  # type: ignore[misc]
            what="the new file",
        )
        for _ in range(2):
            site.assert_file(nginx.get("/file/1"), n, SIZE)
    wait_until(
        lambda: all_held(site) == [str(site.files.path("aa/1.dat"))],
        what="the old ones to be closed",
    )


@pytest.mark.parametrize("everything", [True, False], ids=["all", "key"])
def test_directory_replaced_and_purge(site: Site, everything: bool) -> None:
    """After a purge the path is looked at again at once."""
    nginx = start(site)
    keep(site)
    swap(site, 2)
    # an hour has not passed
    site.assert_file(nginx.get("/file/1"), 1, SIZE)
    if everything:
        purge_all(nginx)
    else:
        purge(nginx, 1)
    for _ in range(3):
        site.assert_file(nginx.get("/file/1"), 2, SIZE)


def test_purge_keeps_a_descriptor_that_is_right(site: Site) -> None:
    """The path is looked at again, and leads to the same file still.

    So it is by the second request: the first, which brings the record, opens the
    file for itself.
    """
    nginx = start(site)
    path = keep(site)
    (pid,) = nginx.workers()
    numbers = descriptors(pid, path)
    purge(nginx, 1)
    with Strace(pid, site.directory / "strace") as strace:
        for _ in range(4):
            site.assert_file(nginx.get("/file/1"), 1, SIZE)
        assert [call.opened for call in strace.stop()] == [str(path)] * 2
    wait_until(lambda: descriptors(pid, path) == numbers, what="the same descriptor")


def test_purge_of_another_key(site: Site) -> None:
    """No path but the purged one's is looked at."""
    nginx = start(site)
    path = keep(site)
    (pid,) = nginx.workers()
    numbers = descriptors(pid, path)
    purge(nginx, 2)
    with Strace(pid, site.directory / "strace") as strace:
        for _ in range(3):
            site.assert_file(nginx.get("/file/1"), 1, SIZE)
        assert strace.stop() == []
    assert descriptors(pid, path) == numbers
    swap(site, 2)
    purge(nginx, 2)
    site.assert_file(nginx.get("/file/1"), 1, SIZE)
    purge(nginx, 1)
    site.assert_file(nginx.get("/file/1"), 2, SIZE)


def descriptors(pid: int, path: Path) -> list[int]:
    """Return the numbers of a process's descriptors of a path."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(link) == str(path):
                found.append(int(link.name))
        except FileNotFoundError:
            continue
    return found


def test_unlinked(site: Site) -> None:
    """A file that is gone is gone at once, and comes back at once."""
    nginx = start(site)
    path = keep(site)
    path.unlink()
    assert nginx.get("/file/1").status == 404
    wait_until(lambda: all_held(site) == [], what="all to be closed")
    site.files.write_id("aa/1.dat", 2, SIZE)
    site.assert_file(nginx.get("/file/1"), 2, SIZE)


def test_unlinked_and_stored_elsewhere(site: Site) -> None:
    """The store is asked once more, in the same request."""
    nginx = start(site)
    path = keep(site)
    site.files.write_id("bb/1.dat", 1, SIZE)
    site.store.put(1, "bb/1.dat")
    path.unlink()
    for _ in range(3):
        site.assert_file(nginx.get("/file/1"), 1, SIZE)
    wait_for_held(nginx, site.files.path("bb/1.dat"), 1)


@pytest.mark.parametrize("size", [0, 1, 1000, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE])
def test_changed_in_place(site: Site, size: int) -> None:
    """Length and bytes are those of now, and so are all headers."""
    nginx = start(site)
    path = keep(site)
    inode = path.stat().st_ino
    path.write_bytes(content("n", size))
    assert path.stat().st_ino == inode
    for _ in range(3):
        response = nginx.get("/file/1")
        site.assert_file(response, "n", size)  # type: ignore[arg-type]
        assert_same(response, nginx.get("/static/aa/1.dat"))


def test_growing_and_shrinking(site: Site) -> None:
    """A file that is appended to and truncated again and again."""
    nginx = start(site)
    path = keep(site)
    with Connection(nginx.port) as connection, path.open("r+b") as file:
        for n in range(1, 40):
            size = SIZE + 1000 * n if n % 3 else 100 * n
            file.truncate(0)
            file.seek(0)
            file.write(content(n, size))
            file.flush()
            for _ in range(2):
                site.assert_file(connection.request("GET", "/file/1"), n, size)


def test_forbidden(site: Site) -> None:
    """A file that may no longer be read is not."""
    nginx = start(site)
    path = keep(site)
    path.chmod(0)
    assert nginx.get("/file/1").status == 403
    wait_until(lambda: all_held(site) == [], what="all to be closed")
    path.chmod(0o644)
    for _ in range(2):
        site.assert_file(nginx.get("/file/1"), 1, SIZE)


def test_directory_forbidden(site: Site) -> None:
    """A directory that may no longer be searched, within the check's time."""
    nginx = start(site, location(directives=SOON))
    path = keep(site)
    path.parent.chmod(0)
    try:
        wait_until(lambda: nginx.get("/file/1").status == 403, what="403")
        wait_until(lambda: all_held(site) == [], what="all to be closed")
    finally:
        path.parent.chmod(0o755)


def test_file_becomes_link(site: Site) -> None:
    """A symbolic link in the file's place is not followed."""
    nginx = start(site)
    path = keep(site)
    path.rename(site.files.path("aa/other.dat"))
    path.symlink_to("other.dat")
    assert nginx.get("/file/1").status == 404


def test_directory_becomes_link(site: Site) -> None:
    """Nor is one in a directory's place, within the check's time."""
    nginx = start(site, location(directives=SOON))
    path = keep(site)
    path.parent.rename(site.files.path("other"))
    path.parent.symlink_to("other")
    wait_until(lambda: nginx.get("/file/1").status == 404, what="404")
    wait_until(lambda: all_held(site) == [], what="all to be closed")


def test_file_becomes_fifo(site: Site) -> None:
    """What is no regular file is not served, and nobody hangs on it."""
    nginx = start(site)
    path = keep(site)
    path.unlink()
    os.mkfifo(path, 0o644)
    assert nginx.get("/file/1").status == 404
    path.unlink()
    path.mkdir()
    assert nginx.get("/file/1").status == 404


# who shares


def test_symlinks_on_and_off(site: Site) -> None:
    """What may be reached by links in one location may not in another."""
    nginx = start(
        site,
        location("/no/")
        + location("/yes/", f"http_sendfile_symlinks on; {FOR_EVER}").split("\n")[0],
    )
    site.files.path("link").symlink_to("aa")
    site.store.put(2, "link/1.dat")
    target = site.files.path("aa/1.dat")
    for _ in range(3):
        site.assert_file(nginx.get("/yes/2"), 1, SIZE)
        assert nginx.get("/no/2").status == 404
    wait_for_held(nginx, target, 1)
    for _ in range(3):
        site.assert_file(nginx.get("/no/1"), 1, SIZE)
        site.assert_file(nginx.get("/yes/1"), 1, SIZE)
    wait_for_held(nginx, target, 3)
    # a link in the path of a descriptor that is kept for both
    target.parent.rename(site.files.path("bb"))
    target.parent.symlink_to("bb")
    purge(nginx, 1)
    for _ in range(3):
        site.assert_file(nginx.get("/yes/1"), 1, SIZE)
        assert nginx.get("/no/1").status == 404


def test_roots_do_not_share(site: Site) -> None:
    """The same path below two roots is two files; one root begins as the other."""
    other = Files(site.files.root.with_name(site.files.root.name + "2"))
    other.write_id("aa/1.dat", 2, SIZE)
    nginx = start(
        site,
        location("/one/")
        + f"location /two/ {{ http_sendfile on; http_sendfile_root {other.root};"
        f" {CACHE} {FOR_EVER} }}",
    )
    for _ in range(4):
        site.assert_file(nginx.get("/one/1"), 1, SIZE)
        site.assert_file(nginx.get("/two/1"), 2, SIZE)
    wait_for_held(nginx, site.files.path("aa/1.dat"), 1)
    wait_for_held(nginx, other.path("aa/1.dat"), 1)


def test_two_zones(site: Site) -> None:
    """A purge counts for every location, whatever its zone."""
    http = ZONE + "http_sendfile_cache_zone second:4m;\n"
    second = (
        location("/two/").split("\n")[0].replace(CACHE, "http_sendfile_cache second;")
    )
    nginx = start(site, location("/one/") + second, http=http)
    for _ in range(3):
        site.assert_file(nginx.get("/one/1"), 1, SIZE)
        site.assert_file(nginx.get("/two/1"), 1, SIZE)
    wait_for_held(nginx, site.files.path("aa/1.dat"), 2)
    swap(site, 2)
    purge(nginx, 1)
    for _ in range(3):
        site.assert_file(nginx.get("/one/1"), 2, SIZE)
        site.assert_file(nginx.get("/two/1"), 2, SIZE)


def test_directio_beside(site: Site) -> None:
    """O_DIRECT in one location does not get into the descriptors of another."""
    nginx = start(
        site,
        location("/plain/")
        + location("/direct/", f"directio 512; {FOR_EVER}").split("\n")[0],
    )
    for _ in range(4):
        site.assert_file(nginx.get("/plain/1"), 1, SIZE)
        site.assert_file(nginx.get("/direct/1"), 1, SIZE)
    path = site.files.path("aa/1.dat")
    wait_for_held(nginx, path, 1)
    (pid,) = nginx.workers()
    (number,) = descriptors(pid, path)
    info = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    flags = re.search(r"flags:\s*(\d+)", info)
    assert flags and not int(flags[1], 8) & os.O_DIRECT


# in use


def finish(connection: Connection) -> Response:
    """Read the answer on a slow connection, no longer slowly."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BIG)
    return connection.read_response()


@pytest.mark.parametrize("settings", ["sendfile on;", "sendfile on; aio threads;"])
def test_slow_clients_while_replaced(site: Site, settings: str) -> None:
    """Who has begun with a file gets that one to its end."""
    site.add(1, size=BIG)
    # not more than 3 are kept: the others push this one out, too
    nginx = site.start(SLOW + settings + location() + STATUS, ZONE, nofile(3))
    path = site.files.path("aa/1.dat")
    for n in range(20, 26):
        site.add(n, size=SIZE)
    for _ in range(2):
        site.assert_file(nginx.get("/file/1"), 1, BIG)

    with ExitStack() as stack:
        clients: list[tuple[Connection, int]] = []
        for version in range(1, 7):
            for _ in range(4):
                connection = stack.enter_context(slow_connection(nginx))
                connection.send_request("GET", "/file/1")
                assert connection.socket.recv(1, socket.MSG_PEEK) == b"H"
                clients.append((connection, version))
            if version % 2:
                replace(path, content(version + 1, BIG), old=True)
            else:
                path.rename(path.with_name(f"old.{version}"))
                path.write_bytes(content(version + 1, BIG))
            for n in range(20, 26):
                for _ in range(2):
                    site.assert_file(nginx.get(f"/file/{n}"), n, SIZE)
            purge(nginx, 1)
            for _ in range(2):
                site.assert_file(nginx.get("/file/1"), version + 1, BIG)
        names = all_held(site)
        assert sum(name.endswith(" (deleted)") for name in names) >= 3, names
        with ThreadPoolExecutor(len(clients)) as pool:
            answers = list(pool.map(finish, [client for client, _ in clients]))
        for answer, (_, version) in zip(answers, clients, strict=True):
            site.assert_file(answer, version, BIG)
    wait_until(
        lambda: (
            len(all_held(site)) == 3
            and not any("deleted" in name for name in all_held(site))
        ),
        what="all but 3 to be closed",
    )


def test_clients_that_leave(site: Site) -> None:
    """A client that breaks off leaves the descriptor to others."""
    site.add(1, size=BIG)
    nginx = site.start(SLOW + location() + STATUS, ZONE, nofile(3))
    path = keep(site, size=BIG)
    for n in range(10):
        with slow_connection(nginx) as connection:
            connection.send_request("GET", "/file/1")
            assert connection.socket.recv(1) == b"H"
            if n % 3 == 0:
                replace(path, content(1, BIG), old=True)
            connection.abort()
    for _ in range(2):
        site.assert_file(nginx.get("/file/1"), 1, BIG)
    wait_until(lambda: all_held(site) == [str(path)], what="one descriptor")
    path.unlink()
    assert nginx.get("/file/1").status == 404
    wait_until(lambda: all_held(site) == [], what="all to be closed")


def test_versions_under_load(site: Site) -> None:
    """Every answer is one version as a whole, and none is older than asked for."""
    versions = 60
    nginx = start(site, location(directives=SOON), nofile(2))
    for n in (2, 3):
        site.add(n, size=SIZE)
    path = site.files.path("aa/1.dat")
    bodies = {content(f"1v{n:03}", SIZE): n for n in range(versions + 1)}
    texts = {n: body for body, n in bodies.items()}
    replace(path, texts[0])
    written = [0]
    failures: list[str] = []
    done = threading.Event()

    def read() -> None:
        with Connection(nginx.port) as connection:
            while not done.is_set():
                before = written[0]
                response = connection.request("GET", "/file/1")
                got = bodies.get(response.body, -1)
                if response.status != 200 or got < before:
                    failures.append(f"{response.status} {got} after {before}")
                for n in (2, 3):
                    if connection.request("GET", f"/file/{n}").body != content(n, SIZE):
                        failures.append(f"wrong bytes of {n}")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for n in range(1, versions + 1):
            replace(path, texts[n])
            written[0] = n
            if n % 10 == 0:
                purge_all(nginx)
            nginx.get("/file/1")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []


# how many


def kept_limit(nginx: Nginx) -> int:
    """Return how many descriptors a worker with its limit keeps."""
    (pid,) = nginx.workers()
    limits = Path(f"/proc/{pid}/limits").read_text()
    match = re.search(r"^Max open files +(\d+) ", limits, re.MULTILINE)
    assert match, limits
    return min((int(match[1]) - 2 * CONNECTIONS - RESERVE) // 2, 16384)


def add_many(site: Site, ids: range) -> None:
    """Add small files, in directories of a thousand, with records."""
    for n in ids:
        path = site.files.path(f"{n // 1000}/{n}.dat")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content(n))
    with site.store.env.begin(write=True) as txn:
        for n in ids:
            txn.put(str(n).encode(), f"{n // 1000}/{n}.dat".encode())


def get_all(site: Site, connection: Connection, ids: range, times: int = 2) -> None:
    """Get files, each so many times."""
    for n in ids:
        for _ in range(times):
            site.assert_file(connection.request("GET", f"/file/{n}"), n)


def test_least_recently_used_is_closed(site: Site) -> None:
    """The limit of descriptors and connections says how many are kept."""
    nginx = site.start(location() + STATUS, ZONE, nofile(20))
    ids = range(1000, 1060)
    paths = {n: str(site.files.path(f"1/{n}.dat")) for n in ids}
    add_many(site, ids)
    (pid,) = nginx.workers()
    with nginx.connect() as connection:
        get_all(site, connection, ids[:1])
        with Strace(pid, site.directory / "strace") as strace:
            for n in ids[1:]:
                get_all(site, connection, range(n, n + 1))
                get_all(site, connection, ids[:1])
                assert len(all_held(site)) <= 20 + 1
            calls = strace.stop()
    # the one in constant use is never opened again, the others twice
    opened = [call.opened for call in calls]
    assert opened == [paths[n] for n in ids[1:] for _ in range(2)]
    expected = {paths[n] for n in (ids[0], *ids[-19:])}
    wait_until(lambda: set(all_held(site)) == expected, what="the latest 20 to be kept")


@pytest.mark.parametrize("limit", [300, 2 * CONNECTIONS + RESERVE + 1])
def test_too_few_for_any(site: Site, limit: int) -> None:
    """A worker that needs them all keeps none."""
    nginx = start(site, main=NOFILE.format(limit))
    # so says nginx itself
    nginx.allow_log("exceed open file resource limit")
    for _ in range(4):
        site.assert_file(nginx.get("/file/1"), 1, SIZE)
        wait_until(lambda: all_held(site) == [], what="all to be closed")


@pytest.mark.timeout(1200)
def test_more_files_than_descriptors(site: Site) -> None:
    """19,000 files, with a limit of 20,000 or what the machine allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = min(20_000, hard)
    number = min(19_000, limit * 19 // 20)
    nginx = site.start(
        "keepalive_requests 1000000; access_log off;" + location() + STATUS,
        ZONE.replace("4m", "32m"),
        NOFILE.format(limit),
    )
    ids = range(1000, 1000 + number)
    add_many(site, ids)
    with nginx.connect() as connection:
        get_all(site, connection, ids)
        wait_until(
            lambda: len(all_held(site)) == kept_limit(nginx), what="the limit's number"
        )
        get_all(site, connection, range(ids[0], ids[0] + 1000))
        assert len(all_held(site)) <= kept_limit(nginx) + 1
    # each connection, with a file of its own, still gets what it asks for
    with ExitStack() as stack:
        connections = [stack.enter_context(nginx.connect()) for _ in range(200)]
        for n, connection in zip(ids, connections, strict=False):
            connection.send_request("GET", f"/file/{n}")
        for n, connection in zip(ids, connections, strict=False):
            site.assert_file(connection.read_response(), n)
    assert "Too many open files" not in nginx.errors_text()


def limited(site: Site, kept: int) -> Nginx:
    """Start a server whose worker's limits this process may change."""
    if os.geteuid() == 0:
        site.variables["USER"] = "user root;"
    return site.start(SLOW + location() + STATUS, ZONE, nofile(kept))


def limit_files(pid: int, number: int) -> None:
    """Set the number below which a process's descriptors must be."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, _hard(pid)))


def _hard(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]


def test_descriptors_run_out(site: Site) -> None:
    """Something else has taken all: those that are kept are given up."""
    nginx = limited(site, 40)
    add_many(site, range(1000, 1050))
    (pid,) = nginx.workers()
    with nginx.connect() as connection:
        get_all(site, connection, range(1000, 1040))
        wait_until(lambda: len(all_held(site)) == 40, what="40 to be kept")
        limit_files(pid, len(open_files(pid)))
        get_all(site, connection, range(1040, 1041), 1)
        wait_until(lambda: all_held(site) == [], what="all to be given up")
        get_all(site, connection, range(1000, 1050))
    with nginx.connect() as connection:
        get_all(site, connection, range(1000, 1010))
    assert "Too many open files" not in nginx.errors_text()


def test_descriptors_run_out_in_use(site: Site) -> None:
    """Those that are sent from are not given up; an error says what is wrong."""
    site.add(1, size=BIG)
    nginx = limited(site, 40)
    site.add(2)
    keep(site, size=BIG)
    (pid,) = nginx.workers()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
    with (
        slow_connection(nginx) as slow,
        nginx.connect() as refused,
        nginx.connect() as connection,
    ):
        slow.send_request("GET", "/file/1")
        assert slow.socket.recv(1, socket.MSG_PEEK) == b"H"
        for each in (refused, connection):
            assert each.request("HEAD", "/file/1").status == 200
        # all numbers below the limit are taken
        numbers = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        lowest = next(n for n in itertools.count() if n not in numbers)
        limit_files(pid, lowest)
        assert refused.request("GET", "/file/2").status == 500
        limit_files(pid, before)
        site.assert_file(connection.request("GET", "/file/2"), 2)
        site.assert_file(finish(slow), 1, BIG)
    assert any("Too many open files" in line for line in nginx.errors())


# time, reload, exit


def test_unused_ones_are_closed(site: Site) -> None:
    """After a minute, also by a worker that nobody asks anything."""
    nginx = start(site)
    path = keep(site)
    began = time.monotonic()
    path.unlink()
    assert held(nginx, Path(f"{path} (deleted)")) == 1
    wait_until(lambda: all_held(site) == [], 300, "all to be closed")
    assert time.monotonic() - began > 55
    site.files.write_id("aa/1.dat", 1, SIZE)
    keep(site)


def test_reload(site: Site) -> None:
    """New workers begin with none; an old one sends to the end, then exits."""
    site.add(1, size=BIG)
    nginx = site.start(SLOW + location() + STATUS, ZONE, nofile(40))
    path = keep(site, size=BIG)
    (old,) = nginx.workers()
    with slow_connection(nginx) as connection:
        connection.send_request("GET", "/file/1")
        assert connection.socket.recv(1, socket.MSG_PEEK) == b"H"
        nginx.reload()
        (new,) = nginx.workers()
        assert descriptors(new, path) == []
        assert descriptors(old, path) != []
        replace(path, content(2, BIG))
        for _ in range(3):
            site.assert_file(nginx.get("/file/1"), 2, BIG)
        site.assert_file(finish(connection), 1, BIG)
    wait_until(lambda: nginx.all_workers() == [new], what="the old worker to exit")


def in_use(site: Site, stack: ExitStack) -> None:
    """Have descriptors kept, some of them with clients in the midst."""
    for n in range(1, 8):
        site.add(n, size=BIG)
        keep(site, n, size=BIG)
        connection = stack.enter_context(slow_connection(site.nginx))
        connection.send_request("GET", f"/file/{n}")
        assert connection.socket.recv(1) == b"H"
    site.files.path("aa/3.dat").unlink()
    assert site.nginx.get("/file/3").status == 404


def test_exit_in_use(site: Site) -> None:
    """A quick shutdown in the midst of sending leaves nothing to complain of."""
    nginx = site.start(SLOW + location() + STATUS, ZONE, nofile(40))
    with ExitStack() as stack:
        in_use(site, stack)
        (pid,) = nginx.workers()
        os.kill(pid, 15)
        wait_until(lambda: nginx.workers() not in ([], [pid]), what="another worker")
    keep(site, 1, size=BIG)


def test_graceful_exit_does_not_wait_for_idle_ones(site: Site) -> None:
    """What is kept, and its timer, does not keep a worker alive."""
    nginx = start(site)
    keep(site)
    began = time.monotonic()
    nginx.stop()
    # not after their minute
    assert time.monotonic() - began < 45


def test_two_workers(site: Site) -> None:
    """Each worker keeps its own, and sees a new file at once."""
    site.variables["WORKERS"] = "2"
    nginx = start(site)
    path = site.files.path("aa/1.dat")

    def ask() -> Iterator[int]:
        for _ in range(20):
            yield nginx.get("/file/1").status

    assert set(ask()) == {200}
    for n in range(2, 6):
        replace(path, content(n, SIZE), old=True)
        for _ in range(10):
            site.assert_file(nginx.get("/file/1"), n, SIZE)
    path.unlink()
    assert set(ask()) == {404}
    wait_until(lambda: all_held(site) == [], what="all to be closed")
