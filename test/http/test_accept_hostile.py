"""Hostile paths for http_sendfile_accept: not one byte from outside the root.

They come as a client's URI that the application believes, from a store, and
in the application's own headers. A canary lies outside of the root.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from lib import hostile
from lib.accept import sendfile, use_gateway
from lib.client import Connection, ConnectionClosed, Response
from lib.files import content
from lib.gateway import Gateway, Lines, Said
from lib.hostile import LOG_LINE, assert_clean, assert_one_line_each
from lib.http10 import PeerRequest
from lib.nginx import Nginx
from lib.site import Site
from lib.strace import Strace, outside

pytest_plugins = ("lib.gateway_fixtures",)

COUNT = 2000

# a connection of a test may carry any number of requests
HTTP = "keepalive_requests 1000000;"

GOOD = "aa/1.dat"


@pytest.fixture
def canary(site: Site) -> Path:
    """A file above the allowed directory, and others beside it."""
    site.files.write_id(GOOD, 1)
    return hostile.plant_canary(site.directory)


def targets(canary: Path) -> list[bytes]:
    """Return what a hostile path would like to get at."""
    return [os.fsencode(canary), b"/etc/passwd", b"canary.dat", b"files-private/1.dat"]


def worker(nginx: Nginx) -> int:
    """Return the only worker."""
    (pid,) = nginx.workers()
    return pid


def buffers(app: Gateway) -> str:
    """Return directives that let an answer's head have 32 KiB."""
    return app.directive("buffer_size", "32k") + app.directive("buffers", "4 32k")


# the application's own headers


def paths_of_headers(site: Site, canary: Path) -> Iterator[bytes]:
    """Give hostile values of X-Sendfile, absolute ones and others."""
    root = os.fsencode(site.files.root)
    chance = random.Random(297887)
    for n, path in enumerate(hostile.paths(COUNT, targets(canary), chance)):
        # what a line of a header cannot hold
        clean = path.replace(b"\n", b"\x0b").replace(b"\r", b"\x0c")
        yield (
            root + b"/" + clean,
            root + clean,
            clean,
            b"/" + clean,
            root + b"/aa/" + clean,
            root + chance.choice(hostile.SLASHES).replace(b"\n", b"") + clean,
        )[n % 6]


def naive(path: bytes) -> bytes:
    """Return the file that a program would open that just opens the path."""
    return os.path.normpath(path.split(b"\0")[0])


@pytest.mark.parametrize("symlinks", ["off", "on"])
@pytest.mark.parametrize("header", ["X-Sendfile", "X-LIGHTTPD-send-file"])
@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_2000_paths_in_a_header(
    site: Site, canary: Path, protocol: str, header: str, symlinks: str
) -> None:
    """Whatever the application says: the file, 404 or 502, and never the canary."""
    app = use_gateway(site, protocol)
    paths = list(paths_of_headers(site, canary))
    wanted = {os.fsencode(canary), b"/etc/passwd"}
    wanted.add(os.fsencode(site.directory / "files-private/1.dat"))
    assert len(paths) == COUNT
    assert sum(naive(path) in wanted for path in paths) >= 60, "not even hostile"
    lines: list[Lines] = [[(header, path)] for path in paths]

    def script(request: PeerRequest) -> Said:
        return Said(headers=lines[int(request.target[1:])])

    app.script = script
    app.answers["/good"] = sendfile(site.files.path(GOOD))
    (site.files.root / "link").symlink_to("../canary.dat")
    nginx = site.start(
        f"http_sendfile_symlinks {symlinks}; {buffers(app)}"
        "location / { %%ACCEPT%% %%PASS%% }",
        HTTP,
    )
    pid = worker(nginx)
    seen: dict[int, int] = {}
    with nginx.connect() as connection:
        for n in range(COUNT):
            response = connection.request("GET", f"/{n}")
            assert response.status in (404, 502), (paths[n], response)
            assert_clean(response)
            seen[response.status] = seen.get(response.status, 0) + 1
        site.assert_file(connection.request("GET", "/good"), 1)
    # both kinds are there: what is no path, and what is an odd name of no file
    assert min(seen[404], seen[502]) >= 100, seen
    assert worker(nginx) == pid
    # nginx's own lines, of invalid headers, have what they are sent
    ours = [s for s in nginx.errors("error") if "http_sendfile: " in s]
    assert len(ours) >= 1000
    assert all(LOG_LINE.match(s) for s in ours)
    assert not [s for s in ours if any(ord(c) < 0x20 or ord(c) == 0x7F for c in s)]


def test_2000_redirects_in_a_header(site: Site, app: Gateway, canary: Path) -> None:
    """The same as X-Accel-Redirect, which nginx judges itself."""
    chance = random.Random(7)
    values = []
    for n, path in enumerate(hostile.paths(COUNT, targets(canary), chance)):
        clean = path.replace(b"\n", b"\x0b").replace(b"\r", b"\x0c")
        values.append((b"/files/", b"/files", b"/", b"")[n % 4] + clean)

    def script(request: PeerRequest) -> Said:
        return Said(headers=[("X-Accel-Redirect", values[int(request.target[3:])])])

    app.script = script
    nginx = site.start(
        f"{buffers(app)} location /a/ {{ %%ACCEPT%% %%PASS%% }} %%INTERNAL%%", HTTP
    )
    pid = worker(nginx)
    connection = nginx.connect()
    try:
        for n in range(COUNT):
            response = connection.request("GET", f"/a/{n}")
            assert_clean(response)
            assert response.status in (301, 404, 403, 500, 502) or (
                response.status == 200 and response.body == content(1)
            ), (values[n], response)
            if response.closed:
                connection.close()
                connection = nginx.connect()
    finally:
        connection.close()
    assert worker(nginx) == pid


def test_control_bytes(site: Site, app: Gateway, canary: Path) -> None:
    """Each byte that there is, at each place of a path."""
    root = os.fsencode(site.files.root)
    good = os.fsencode(GOOD)
    lines: list[Lines] = []
    names = []
    for byte in range(256):
        if byte in b"\r\n":
            continue
        one = bytes([byte])
        for path in (
            one + good,
            b"aa/" + one + b"1.dat",
            good + one,
            good + one + b"x",
        ):
            lines.append([("X-Sendfile", root + b"/" + path)])
            names.append(path)

    def script(request: PeerRequest) -> Said:
        return Said(headers=lines[int(request.target[1:])])

    app.script = script
    nginx = site.start("location / { %%ACCEPT%% %%PASS%% }", HTTP)
    with nginx.connect() as connection:
        for n, name in enumerate(names):
            response = connection.request("GET", f"/{n}")
            # white space around a value is no part of it
            if name.rstrip(b" ") == good and name != good:
                site.assert_file(response, 1)
                continue
            assert response.status in (404, 502), (name, response)
            if any(c < 0x20 or c == 0x7F for c in name.rstrip(b" ")):
                assert response.status == 502, name
    assert_one_line_each(nginx)


def test_long_paths(site: Site, app: Gateway, canary: Path) -> None:
    """However long: no crash, no file."""
    root = str(site.files.root)
    values = [
        root + "/" + "a/" * n + "../" * n + "../canary.dat"
        for n in (10, 100, 500, 1000, 2000)
    ]
    values += [root + "/" + "x" * n for n in (255, 256, 4095, 4096, 4097, 20_000)]
    values += ["/" * n + "etc/passwd" for n in (2, 100, 5000)]
    values += [root * n + "/aa/1.dat" for n in (2, 100)]
    for n, value in enumerate(values):
        app.answers[f"/{n}"] = sendfile(value)
    nginx = site.start(f"{buffers(app)} location / {{ %%ACCEPT%% %%PASS%% }}")
    for n in range(len(values)):
        response = nginx.get(f"/{n}")
        assert response.status in (404, 502)
        assert_clean(response)
    assert_one_line_each(nginx)


def test_log_injection(site: Site, app: Gateway) -> None:
    """A path's quotes and control bytes stay within one line of the log."""
    root = os.fsencode(site.files.root)
    fake = b"2026/01/01 00:00:00 [warn] 1#1: fake"
    values = [
        b"/etc/passwd\x0b" + fake,
        b'/x", served' + fake,
        root + b"/\x1b[2J\x07",
        root + b'/none"\\x0a' + fake,
        b"/" + b"x\x1b" * 3000,
        b"/" + "日本語🎉".encode() * 300,
        b"\xff\xfe" * 100,
    ]
    for n, value in enumerate(values):
        app.answers[f"/{n}"] = sendfile(value)
    nginx = site.start(f"{buffers(app)} location / {{ %%ACCEPT%% %%PASS%% }}")
    for n in range(len(values)):
        assert nginx.get(f"/{n}").status in (404, 502)
    assert_one_line_each(nginx)
    said = [s for s in nginx.errors("error") if "http_sendfile: the app" in s]
    assert len(said) == len(values)


def test_kernel_opens_nothing_outside_the_root(
    site: Site, web: Gateway, canary: Path
) -> None:
    """The kernel's word: nothing outside the root is opened for X-Sendfile."""
    paths = list(paths_of_headers(site, canary))[:600]
    lines: list[Lines] = [[("X-Sendfile", path)] for path in paths]

    def script(request: PeerRequest) -> Said:
        return Said(headers=lines[int(request.target[1:])])

    web.script = script
    web.answers["/good"] = sendfile(site.files.path(GOOD))
    nginx = site.start(f"{buffers(web)} location / {{ %%ACCEPT%% %%PASS%% }}", HTTP)
    with Strace(worker(nginx), site.directory / "trace") as strace:
        with nginx.connect() as connection:
            for n in range(len(paths)):
                response = connection.request("GET", f"/{n}")
                assert response.status in (404, 502)
            for _ in range(3):
                site.assert_file(connection.request("GET", "/good"), 1)
        calls = strace.stop()
    files = site.files.root
    assert outside(calls, files) == []
    opened = [call.opened for call in calls if call.opened is not None]
    assert f"{files}/{GOOD}" in opened
    beneath = [call for call in calls if call.name == "openat2"]
    assert len(beneath) >= 25
    assert all("RESOLVE_BENEATH" in call.rest for call in beneath)
    assert all("RESOLVE_NO_SYMLINKS" in call.rest for call in beneath)


# a client's URI, that the application believes


def ask(nginx: Nginx, target: bytes) -> Response | None:
    """Send a target as it is; None if nginx closes without an answer."""
    with Connection(nginx.port) as connection:
        connection.send(
            b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % target
        )
        try:
            return connection.read_response()
        except ConnectionClosed:
            return None


@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_2000_paths_in_a_uri(site: Site, canary: Path, protocol: str) -> None:
    """An application that believes its clients: nginx does not."""
    app = use_gateway(site, protocol)
    root = os.fsencode(site.files.root)

    def script(request: PeerRequest) -> Said:
        target = request.target.encode("latin-1")
        _, kind, rest = target.split(b"/", 2)
        rest = rest if kind.endswith(b"raw") else unquote_to_bytes(rest)
        rest = rest.replace(b"\n", b"\x0b").replace(b"\r", b"\x0c")
        if kind.startswith(b"accel"):
            return Said(headers=[("X-Accel-Redirect", b"/files/" + rest)])
        return Said(headers=[("X-Sendfile", root + b"/" + rest)])

    app.script = script
    nginx = site.start(
        "merge_slashes off; large_client_header_buffers 4 32k;"
        f"{buffers(app)} location ~ ^/(accel|sendfile)(raw)?/ {{ %%ACCEPT%% %%PASS%% }}"
        " %%INTERNAL%%"
    )
    pid = worker(nginx)
    chance = random.Random(11)
    prefixes = (b"/sendfile/", b"/accel/", b"/sendfileraw/", b"/accelraw/")
    seen: dict[int, int] = {}
    for n, path in enumerate(hostile.paths(COUNT, targets(canary), chance)):
        encoded = n // 4 % 2 or b"\n" in path or b" " in path
        raw = b"".join(b"%%%02x" % c for c in path) if encoded else path
        if len(raw) > 30_000:
            raw = raw[-30_000:]
        response = ask(nginx, prefixes[n % 4] + raw)
        if response is None:
            continue
        assert_clean(response)
        assert response.status != 200 or response.body == content(1), (path, response)
        seen[response.status] = seen.get(response.status, 0) + 1
    assert sum(seen.values()) >= COUNT * 9 // 10, seen
    assert app.count() >= 300, "they hardly reach the application"
    assert seen[404] + seen[502] >= 300, seen
    assert worker(nginx) == pid


# a store's record, in a location that has an application


@pytest.mark.parametrize("delivered", ["direct", "redirect"])
def test_2000_paths_in_a_store(
    site: Site, web: Gateway, canary: Path, delivered: str
) -> None:
    """The application is asked instead, and its file sent."""
    chance = random.Random(13)
    paths = list(hostile.paths(COUNT, targets(canary), chance))
    with site.store.env.begin(write=True) as txn:
        for n, path in enumerate(paths):
            txn.put(b"%d" % n, path)
    web.script = lambda request: sendfile(site.files.path(GOOD))
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% %%ACCEPT%% %%PASS%% }"
        " %%INTERNAL%%".replace(
            "%%DELIVER%%", "%%DIRECT%%" if delivered == "direct" else ""
        ),
        HTTP,
    )
    pid = worker(nginx)
    with nginx.connect() as connection:
        for n in range(COUNT):
            response = connection.request("GET", f"/file/{n}")
            assert_clean(response)
            # a redirect's 404 is that of the location it leads to
            if delivered == "direct" or response.status != 404:
                site.assert_file(response, 1)
    assert web.count() >= 200
    assert worker(nginx) == pid


@pytest.mark.parametrize("directive", ["root", "prefix"])
def test_2000_roots_in_a_uri(site: Site, canary: Path, directive: str) -> None:
    """A root or a prefix that is made of a client's URI leads nowhere else."""
    site.store.put(1, canary.name)
    site.store.put(2, "1.dat")
    site.files.write_id("sub/1.dat", 1)
    value = {"root": "%%FILES%%/", "prefix": "/files/"}[directive]
    nginx = site.start(
        f"""
        merge_slashes off;
        large_client_header_buffers 4 32k;
        location ~ (?s)^/(?<n>[12])/(?<x>.*)$ {{
            http_sendfile on;
            http_sendfile_key $n;
            http_sendfile_{directive} "{value}$x";
        }}
        location /args/ {{
            http_sendfile on;
            http_sendfile_key 1;
            http_sendfile_{directive} "{value}$args";
        }}
        %%INTERNAL%%
        """
    )
    pid = worker(nginx)
    site.assert_file(nginx.get("/2/sub"), 1)
    folders = [os.fsencode(canary.parent), b"/etc", b"", b"files-private", b"aa"]
    chance = random.Random(17)
    seen: dict[int, int] = {}
    for n, path in enumerate(hostile.paths(COUNT, folders, chance)):
        encoded = n % 2 or b"\n" in path or b" " in path
        raw = b"".join(b"%%%02x" % c for c in path) if encoded else path
        start = (b"/1/", b"/2/", b"/args/?")[n // 2 % 3]
        response = ask(nginx, start + raw[-30_000:])
        if response is None:
            continue
        assert_clean(response)
        assert response.status != 200 or response.body == content(1), (path, response)
        seen[response.status] = seen.get(response.status, 0) + 1
    assert sum(seen.values()) >= COUNT * 9 // 10, seen
    assert seen[404] + seen[500] >= COUNT // 2, seen
    assert worker(nginx) == pid
