"""What clients, stores and file systems may throw at it: refused, and nothing leaks.

A canary lies outside of every root. No answer may hold a byte of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shutil
import socket
import stat
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from lib import hostile
from lib.async_store import keys, slow, use_test_store
from lib.backend import Reply, Request
from lib.client import Connection, Response
from lib.files import content
from lib.hostile import assert_clean, assert_one_line_each
from lib.nginx import Nginx
from lib.process import open_files
from lib.site import Site
from lib.strace import Strace, outside
from lib.wait import how_late, wait_until

APP = "location @app { proxy_pass http://%%APP%%; }\n"
BOTH = """
location /redirect/ { http_sendfile on; }
location /direct/ { http_sendfile on; %%DIRECT%% }
location /links/ { http_sendfile on; %%DIRECT%% http_sendfile_symlinks on; }
%%INTERNAL%%
"""
# a connection of a test may carry any number of requests
HTTP = "keepalive_requests 1000000;"

# how often a root is looked at for another directory, with what a worker's idea of
# the time may be behind
CHECK_SECONDS = 1.0
SLACK_SECONDS = 0.1


@pytest.fixture
def canary(site: Site) -> Path:
    """A file in the directory above the files, and others where a ``..`` leads."""
    return hostile.plant_canary(site.directory)


@pytest.fixture(scope="session")
def no_openat2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program tools/no_openat2.c."""
    folder = tmp_path_factory.mktemp("tools")
    folder.chmod(0o755)
    source = Path(__file__).parent / "tools" / "no_openat2.c"
    program = folder / "no_openat2"
    subprocess.run(["gcc", "-O", "-o", program, source], check=True)
    return program


def without_openat2(site: Site, program: Path, error: str) -> None:
    """Let the site's nginx run with an openat2() that fails."""
    wrapper = site.directory / "nginx"
    binary = site.flavour.binary
    wrapper.write_text(f'#!/bin/sh\nexec {program} {error} {binary} "$@"\n')
    wrapper.chmod(0o755)
    site.flavour = dataclasses.replace(site.flavour, binary=wrapper)


def worker(nginx: Nginx) -> int:
    """Return the only worker."""
    (pid,) = nginx.workers()
    return pid


def refused(response: Response, *status: int) -> None:
    """Check that an answer is an error and holds nothing of any file."""
    assert response.status in (status or (404, 502)), response
    assert_clean(response)


def failures(nginx: Nginx, key: int | str) -> list[str]:
    """Return the error log's lines about the failure of a key."""
    lines = nginx.errors("error", "info", "warn")
    return [s for s in lines if f'http_sendfile: key "{key}"' in s]


# keys that clients send


KEY_OF_URI = 'http_sendfile_key "$k";'
URI_KEY = "location ~ (?s)^/k/(?<k>.*)$ { http_sendfile on; %s }\n"


def start_with_uri_key(site: Site, more: str = "") -> Nginx:
    """Start a server whose key is the rest of the decoded URI; see the store's log."""
    use_test_store(site)
    site.files.write_id("aa/1.dat", 1)
    store = f"http_sendfile_lookup test:/now,value=aa/1.dat; {KEY_OF_URI}"
    return site.start(URI_KEY % f"%%DIRECT%% {store} {more}" + APP)


BAD_KEYS = [
    "%0d%0a",
    "a%0d%0ab",
    "a%0a",
    "%0d",
    "%01",
    "a%09b",
    "%1b[31m",
    "%7f",
    "%20",
    "a%20b",
    "a%20",
    "1" * 251,
    "%e3%81%82" * 84,
    "a" * 3000,
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda k: k[:12])
def test_bad_key(site: Site, key: str) -> None:
    """A key with a control byte or a space, or too long: 404, no lookup."""
    nginx = start_with_uri_key(site)
    assert nginx.get(f"/k/{key}").status == 404
    entry = nginx.logged(f"/k/{key}")
    assert (entry.status, entry.source, entry.time) == ("INVALID", "-", "-")
    assert entry.reason in (
        "control byte in key",
        "space in key",
        "key too long",
    )
    assert keys(nginx, "get") == []
    assert nginx.errors() == [], "what a client sends is no error of the server"


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda k: k[:12])
def test_bad_key_goes_to_the_fallback(site: Site, key: str) -> None:
    """With a fallback the application judges; the store is not asked, either."""
    nginx = start_with_uri_key(site, "http_sendfile_fallback @app;")
    response = nginx.get(f"/k/{key}")
    assert (response.status, response.body[:10]) == (200, b"app GET /k")
    assert nginx.logged(f"/k/{key}").status == "INVALID"
    assert keys(nginx, "get") == []


def test_bad_key_without_fallback_on_invalid(site: Site) -> None:
    """A fallback for something else leaves it at 404."""
    nginx = start_with_uri_key(
        site, "http_sendfile_fallback @app; http_sendfile_fallback_on miss error;"
    )
    assert nginx.get("/k/a%20b").status == 404
    assert site.app.requests == []


@pytest.mark.parametrize(
    "target",
    [
        b"/k/%00",
        b"/k/a%00b",
        b"/file/12%00",
        b"/k/\0",
        b"/k/a\rb",
        b"/k/a\x01b",
        b"/k/a\x7fb",
        b"/k/a b",
        b"/k/%",
        b"/k/%0",
        b"/k/%zz",
        b"/k/../../x",
    ],
    ids=repr,
)
def test_what_nginx_itself_refuses(site: Site, target: bytes) -> None:
    """NUL, raw control bytes and broken escapes never get as far as a key."""
    nginx = start_with_uri_key(site)
    assert nginx.get(target).status == 400
    assert keys(nginx, "get") == []


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("あ", "%e3%81%82"),
        ("あ", "あ"),
        ("e\u0301", "e%cc%81"),
        ("100%", "100%25"),
        ("%00", "%2500"),
        ("%0d%0a", "%250d%250a"),
        ("a\\b", "a\\b"),
        ("a/c", "a/b/%2e%2e/c"),
        ("..%2fc", "..%252fc"),
        ("'--;$(id)`{}", "'--;$(id)`{}"),
        ("k" * 250, "k" * 250),
    ],
    ids=range(11),
)
def test_strange_but_legal_keys(site: Site, key: str, sent: str) -> None:
    """Any other byte is a part of the key, which reaches the store as it is."""
    nginx = start_with_uri_key(site)
    site.assert_file(nginx.get(f"/k/{sent}".encode()), 1)
    assert keys(nginx, "get") == [key]


def test_arguments_are_not_decoded(site: Site) -> None:
    """$arg_k is what the client sent: an escape in it is text."""
    use_test_store(site)
    site.files.write_id("aa/1.dat", 1)
    nginx = site.start(
        slow("now,value=aa/1.dat", "%%DIRECT%% http_sendfile_key $arg_k;", "k")
    )
    for key in ("%00", "%0d%0a", "%20", "a+b", "%e3%81%82", "..%2f..", "\\x00"):
        site.assert_file(nginx.get(f"/k/?k={key}"), 1)
    assert nginx.get(f"/k/?k={'%20' * 84}").status == 404
    assert keys(nginx, "get") == [
        *("%00", "%0d%0a", "%20", "a+b", "%e3%81%82", "..%2f..", "\\x00")
    ]


@pytest.mark.parametrize(
    "value", [b"a b", b"a\tb", b"a\x01b", b"a\x7fb", b"\x1b[31m", b"x" * 251], ids=repr
)
def test_bad_key_of_a_header(site: Site, value: bytes) -> None:
    """A header may hold control bytes and spaces; a key may not."""
    use_test_store(site)
    nginx = site.start(slow("now,value=aa/1.dat", "http_sendfile_key $http_x_key;"))
    with nginx.connect() as connection:
        connection.send(b"GET /slow/1 HTTP/1.1\r\nHost: a\r\nX-Key: %b\r\n\r\n" % value)
        # nginx 1.28 has become stricter with some
        assert connection.read_response().status in (404, 400)
    assert keys(nginx, "get") == []


def test_nul_in_a_key(site: Site) -> None:
    """A binary variable in the key: the NUL is seen, not the end of the key."""
    use_test_store(site)
    nginx = site.start(
        slow("now,value=aa/1.dat", 'http_sendfile_key "abc$binary_remote_addr";')
    )
    assert nginx.get("/slow/1").status == 404
    entry = nginx.logged("/slow/1")
    assert entry.status == "INVALID"
    assert entry.key.encode(errors="surrogateescape") == b"abc\x7f\0\0\x01"
    assert keys(nginx, "get") == []


def test_line_break_of_the_configuration(site: Site) -> None:
    """Nor does a line break that the configuration itself puts into a key pass."""
    use_test_store(site)
    nginx = site.start(
        slow("now,value=aa/1.dat", 'http_sendfile_key "a\\r\\nb$arg_k";')
    )
    assert nginx.get("/slow/1?k=1").status == 404
    assert keys(nginx, "get") == []


def test_long_requests(site: Site) -> None:
    """Long URIs, IDs and arguments are no keys, and no harm."""
    site.add(1)
    nginx = site.start(BOTH)
    for target, status in (
        (f"/direct/{'1' * 7000}", 404),
        (f"/direct/{'a/' * 3000}1", 200),
        (f"/direct/1?{'x' * 7000}", 200),
        (f"/redirect/1?{'x' * 7000}", 200),
        (f"/direct/{'1' * 20000}", 414),
        (f"/direct/1?{'x' * 20000}", 414),
    ):
        response = nginx.get(target)
        assert response.status == status, target[:20]
        if status == 200:
            site.assert_file(response, 1)


# the log


def test_log_injection_by_a_key(site: Site) -> None:
    """A key's CR, LF, quotes and escape sequences stay within one line."""
    nginx = start_with_uri_key(site)
    fake = "2026/01/01 00:00:00 [warn] 1#1: fake".replace(" ", "%20")
    for key in (f"%0d%0a{fake}", f"%22,%20sent%20to%20@app%0a{fake}", "%1b[2J%07"):
        assert nginx.get(f"/k/{key}").status == 404
    assert len(failures(nginx, "")) == 0
    assert_one_line_each(nginx)
    lines = [s for s in nginx.errors("info") if "http_sendfile: key" in s]
    assert len(lines) == 3
    assert 'key "\\x0d\\x0a2026/01/01' in lines[0]
    assert 'key "\\x22, sent to @app\\x0a2026' in lines[1]
    assert 'key "\\x1b[2J\\x07"' in lines[2]


def test_log_injection_by_a_long_key(site: Site) -> None:
    """A long key is cut in the log, and its escapes are whole."""
    nginx = start_with_uri_key(site)
    for n in range(240, 262):
        assert nginx.get(f"/k/{'a' * n}%0a%0a%0a%22%22").status == 404
    assert nginx.get(f"/k/{'%0a' * 1000}").status == 404
    assert_one_line_each(nginx)
    lines = [s for s in nginx.errors("info") if "http_sendfile: key" in s]
    assert len(lines) == 23
    for line in lines:
        match = re.search(r'key "((?:[^"\\]|\\x[0-9a-f]{2})*)"', line)
        assert match, line
        assert len(match[1]) <= 512


def test_log_injection_by_a_fallback(site: Site) -> None:
    """Nor do the variables of a fallback's URI break a line."""
    site.html.write("x/there", b"there\n")
    nginx = start_with_uri_key(
        site, "http_sendfile_fallback /x/there?$k; log_subrequest off;"
    )
    fake = "2026/01/01%2000:00:00%20[warn]%201#1:%20fake"
    nginx.get(f"/k/%0d%0a{fake}")
    assert_one_line_each(nginx)


def said_by_us(nginx: Nginx) -> list[str]:
    """Return what follows ``http_sendfile: `` up to the end of the line."""
    text = nginx.error_log.read_bytes().decode("latin-1")
    parts = [part.split("\n")[0] for part in text.split("http_sendfile: ")[1:]]
    about = ("key ", "invalid fallback ", "fallback ", "the application ")
    return [part for part in parts if part.startswith(about)]


def test_log_injection_by_a_variable_fallback(site: Site) -> None:
    """Nor does a fallback that is a variable as a whole."""
    use_test_store(site)
    nginx = site.start(
        "location ~ (?s)^/k/(?<k>.*)$ { http_sendfile on; http_sendfile_key $arg_k;"
        " http_sendfile_fallback $k; http_sendfile_lookup test:/now,miss; }"
    )
    for k in ("x%0afake", "/x%0d%0afake", "@none%0afake", "=4%0a04"):
        nginx.get(f"/k/{k}?k=1")
    # other lines of nginx's own (open() failed) do hold the decoded URI
    said = said_by_us(nginx)
    assert len(said) >= 4
    for part in said:
        assert part.endswith(', host: "localhost"'), part


def test_log_injection_by_a_redirect_to_itself(site: Site) -> None:
    """A key that the application redirects to itself is logged on one line."""

    def script(request: Request) -> Reply:
        return Reply(headers={"X-Accel-Redirect": "/k/a%0afake%20line"})

    nginx = start_with_uri_key(site, "http_sendfile_fallback @app;")
    site.app.script = script
    nginx.get("/k/a%0afake%20line")
    said = said_by_us(nginx)
    assert said
    for part in said:
        assert part.endswith(', host: "localhost"'), part


# values of a store


BAD_VALUES: dict[str, bytes] = {
    "empty": b"",
    "traversal": b"../../etc/passwd",
    "deep-traversal": b"aa/" + b"../" * 30 + b"etc-link/passwd",
    "absolute": b"/etc/passwd",
    "double-slash": b"a//b",
    "trailing-slash": b"aa/",
    "dot": b".",
    "dots": b"..",
    "inner-dot": b"aa/./1.dat",
    "ends-with-dots": b"aa/..",
    "nul": b"aa/1.dat\0",
    "nul-inside": b"aa/1.dat\0.png",
    "newline": b"aa/1.dat\n",
    "header": b"aa/1.dat\r\nX-Injected: yes",
    "control": b"aa/\x01.dat",
    "del": b"aa/\x7f.dat",
    "binary": bytes(range(256)),
    "long": b"a/" * 2048 + b"a",
    "megabyte": b"a" * (1 << 20),
    "gzip": bytes.fromhex("1f8b0800000000000003"),
    "marshal-array": bytes.fromhex("04085b0649220e61612f61612e646174063a064554"),
    "marshal-object": bytes.fromhex("04086f3a0b4f626a65637400"),
    "marshal-traversal": b'\x04\bI"\x12../canary.dat\x06:\x06ET',
    "json-broken": b'{"path": "aa/1.dat"',
    "json-garbage": b"{]",
    "json-trailing": b'{"path": "aa/1.dat"} x',
    "json-no-path": b'{"type": "text/plain"}',
    "json-null-path": b'{"path": null}',
    "json-array-path": b'{"path": ["aa/1.dat"]}',
    "json-traversal": b'{"path": "../canary.dat"}',
    "json-escaped-traversal": rb'{"path": "\u002e\u002e\u002fcanary.dat"}',
    "json-absolute": b'{"path": "/etc/passwd"}',
    "json-escaped-nul": rb'{"path": "aa/1.dat\u0000.png"}',
    "json-raw-nul": b'{"path": "aa/1.dat"\0}',
    "json-newline": rb'{"path": "aa/1.dat", "headers": {"ETag": "x\r\nSet-Cookie: a=b"}}',
    "json-type": rb'{"path": "aa/1.dat", "type": "text/html\r\nX-Injected: yes"}',
    "json-surrogate": rb'{"path": "aa/\ud800.dat"}',
    "json-bad-utf8": b'{"path": "aa/1.dat", "name": "\xff\xfe"}',
    "json-two-paths": b'{"path": "aa/1.dat", "path": "../canary.dat"}',
    "json-deep": b'{"path": "aa/1.dat", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "json-deep-objects": b'{"x":' * 5000 + b"1" + b"}" * 5000,
    "json-huge": b'{"path": "aa/1.dat", "x": "' + b"x" * 70_000 + b'"}',
    "json-huge-number": b'{"path": "aa/1.dat", "expires": 1' + b"0" * 400 + b"}",
    "json-scalar-like": b"{1}",
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_bad_value(site: Site, canary: Path, value: bytes) -> None:
    """INVALID, 502 or the fallback, and one log line a request."""
    site.files.write_id("aa/1.dat", 1)
    site.store.put(1, value)
    nginx = site.start(
        BOTH
        + "location /app/ { http_sendfile on; %%DIRECT%% http_sendfile_fallback @app; }"
        + APP
    )
    for form in ("redirect", "direct", "links"):
        response = nginx.get(f"/{form}/1")
        refused(response, 502)
        assert response.all("X-Injected") == response.all("Set-Cookie") == []
        assert nginx.logged(f"/{form}/1").status == "INVALID"
    assert nginx.get("/app/1?x").text == "app GET /app/1?x\n"
    lines = failures(nginx, 1)
    assert len(lines) == 4
    assert all(": invalid record: " in s and "[error]" in s for s in lines)
    assert "answered 502" in lines[0] and "sent to @app" in lines[3]
    assert_one_line_each(nginx)


def plant(site: Site, count: int) -> tuple[list[bytes], int]:
    """Store hostile paths under the IDs from 0.

    Returns:
        The paths, and how many a program that just opens them would follow.
    """
    chance = random.Random(297887)
    root = os.fsencode(site.files.root)
    canary = os.fsencode(site.directory / "canary.dat")
    targets = [canary, b"/etc/passwd", b"canary.dat"]
    paths = list(hostile.paths(count, targets, chance))
    wanted = {canary, b"/etc/passwd"}
    naive = 0
    with site.store.env.begin(write=True) as txn:
        for n, path in enumerate(paths):
            txn.put(b"%d" % n, path)
            opened = os.path.normpath(root + b"/" + path.split(b"\0")[0])
            naive += opened in wanted
    return paths, naive


@pytest.mark.parametrize("form", ["redirect", "direct", "links"])
def test_2000_hostile_paths(site: Site, canary: Path, form: str) -> None:
    """Traversals of every spelling: not one byte from outside."""
    site.files.write_id("aa/1.dat", 1)
    site.store.put("good", "aa/1.dat")
    paths, naive = plant(site, 2000)
    assert len(paths) == 2000
    assert naive >= 60, "they are not even hostile to a naive program"
    nginx = site.start(BOTH, HTTP)
    pid = worker(nginx)
    statuses: dict[int, int] = {}
    with nginx.connect() as connection:
        for n in range(2000):
            response = connection.request("GET", f"/{form}/{n}")
            refused(response, 404, 502)
            statuses[response.status] = statuses.get(response.status, 0) + 1
    # both kinds are there: what is no path, and what is an odd name of no file
    assert min(statuses[404], statuses[502]) >= 200, statuses
    assert worker(nginx) == pid


def test_hostile_paths_in_json(site: Site, canary: Path) -> None:
    """The same as the path of a record, raw and with every byte escaped."""
    paths, _ = plant(site, 1000)
    count = 0
    with site.store.env.begin(write=True) as txn:
        for path in paths:
            try:
                text = path.decode()
            except UnicodeDecodeError:
                continue
            escaped = "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000)
            txn.put(b"%d" % count, json.dumps({"path": text}).encode())
            txn.put(b"%d" % (count + 1), b'{"path": "%b"}' % escaped.encode())
            count += 2
    assert count >= 1000
    nginx = site.start(BOTH, HTTP)
    with nginx.connect() as connection:
        for n in range(count):
            refused(
                connection.request("GET", f"/{('direct', 'redirect')[n // 2 % 2]}/{n}")
            )


def test_hostile_requests(site: Site, canary: Path) -> None:
    """The same as a client's URI, to locations of every kind."""
    site.add(1)
    chance = random.Random(1)
    targets = [os.fsencode(canary), b"/etc/passwd", b"canary.dat"]
    nginx = site.start(
        BOTH
        + URI_KEY % f"%%DIRECT%% {KEY_OF_URI}"
        + "location /sub { http_sendfile on; http_sendfile_root %%FILES%%; }",
        HTTP,
    )
    pid = worker(nginx)
    for n, path in enumerate(hostile.paths(1000, targets, chance)):
        if len(path) > 4000 or b"\n" in path:
            continue
        prefix = (b"/direct/", b"/redirect/", b"/links/", b"/k/", b"/sub", b"/files/")
        with nginx.connect() as connection:
            connection.send(
                b"GET %b%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                % (prefix[n % 6], path)
            )
            data = connection.read_to_end()
            assert b"CANARY" not in data and b"root:" not in data, path
            assert b"ID:" not in data or b"200 OK" in data
    assert worker(nginx) == pid


# symbolic links and things that are no files


def make_links(site: Site) -> None:
    """Make links of every kind, stored under their own names as keys."""
    root = site.files.root
    site.files.write_id("aa/1.dat", 1)
    site.files.write_id("dir/sub/2.dat", 2)
    site.files.write_id("plain.dat", 3)
    links = {
        "file-in": "aa/1.dat",
        "aa/up-and-in": "../dir/sub/2.dat",
        "dir-in": "dir/sub",
        "chain-in": "file-in",
        "file-out": "../canary.dat",
        "file-absolute": str(site.directory / "canary.dat"),
        "file-absolute-in": str(root / "aa/1.dat"),
        "dir-out": "..",
        "dir-absolute": str(site.directory),
        "dir-absolute-in": str(root / "aa"),
        "etc-link": "/etc",
        "chain-out": "chain-out-2",
        "chain-out-2": "file-out",
        "aa/up-and-out": "../../canary.dat",
        "out-and-in": "../files/aa/1.dat",
        "loop": "loop",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "dir-loop": "dir-loop/x",
        "dangling": "nothing",
        "magic": "/proc/self/root",
        "magic-cwd": "/proc/self/cwd",
        "magic-fd": "/proc/self/fd",
        "self": ".",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)


INSIDE = {
    "file-in": 1,
    "aa/up-and-in": 2,
    "dir-in/2.dat": 2,
    "chain-in": 1,
    "self/self/aa/1.dat": 1,
    "self/plain.dat": 3,
}

# file-absolute-in and out-and-in leave the root on the way
OUTSIDE = [
    "file-out",
    "file-absolute",
    "file-absolute-in",
    "dir-out/canary.dat",
    "dir-out/files/aa/1.dat",
    "dir-absolute/canary.dat",
    "dir-absolute-in/1.dat",
    "etc-link/passwd",
    "chain-out",
    "aa/up-and-out",
    "out-and-in",
    "self/file-out",
    "magic/etc/passwd",
    "magic-cwd/etc/passwd",
    "magic-fd/0",
]

NOWHERE = ["loop", "loop-a", "dir-loop/1.dat", "dangling", "file-in/x", "dir-in"]


def start_with_links(site: Site) -> Nginx:
    """Start a server that knows the links under the keys of their names."""
    make_links(site)
    for name in (*INSIDE, *OUTSIDE, *NOWHERE, "plain.dat", "aa/1.dat"):
        site.store.put(name, name)
    return site.start(
        BOTH.replace("sendfile on;", "sendfile on; http_sendfile_key $arg_k;")
    )


def test_symlinks_are_refused(site: Site, canary: Path) -> None:
    """Without http_sendfile_symlinks no link is followed, wherever it leads."""
    nginx = start_with_links(site)
    site.assert_file(nginx.get("/direct/?k=aa/1.dat"), 1)
    site.assert_file(nginx.get("/direct/?k=plain.dat"), 3)
    for name in (*INSIDE, *OUTSIDE, *NOWHERE):
        uri = f"/direct/?k={name}"
        refused(nginx.get(uri), 404)
        entry = nginx.logged(uri)
        assert entry.status == "HIT"
        assert entry.reason in (
            "symbolic link (40: Too many levels of symbolic links)",
            # what openat2() finds first
            "missing file (20: Not a directory)",
        )
        (line,) = failures(nginx, name)
        assert "answered 404" in line and f", file {name}: " in line


def test_symlinks_below_the_root(site: Site, canary: Path) -> None:
    """With it those are followed that stay below the root at every step."""
    nginx = start_with_links(site)
    for name, file_id in INSIDE.items():
        site.assert_file(nginx.get(f"/links/?k={name}"), file_id)
    for name in OUTSIDE:
        uri = f"/links/?k={name}"
        refused(nginx.get(uri), 404)
        assert nginx.logged(uri).reason.startswith("outside root (18: ")
    for name in NOWHERE:
        refused(nginx.get(f"/links/?k={name}"), 404)


def test_refused_symlink_goes_to_the_fallback(site: Site, canary: Path) -> None:
    """A link is a missing file: the fallback answers."""
    make_links(site)
    site.store.put(1, "file-out")
    site.store.put(2, "file-in")
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback @app; http_sendfile_fallback_on missing_file; }" + APP
    )
    for n in (1, 2):
        assert nginx.get(f"/file/{n}").text == f"app GET /file/{n}\n"


@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_without_openat2(
    site: Site, canary: Path, no_openat2: Path, error: str
) -> None:
    """Everything is served; no link is followed, even if allowed; said once."""
    without_openat2(site, no_openat2, error)
    site.files.write_id("a/b/c/d/e/5.dat", 5)
    site.store.put("deep", "a/b/c/d/e/5.dat")
    site.store.put("long", "a/" * 1000 + "x")
    site.store.put("name", "a/" + "x" * 256)
    site.store.put("name/x", "a/" + "x" * 256 + "/y")
    nginx = start_with_links(site)
    for form in ("direct", "links", "redirect"):
        site.assert_file(nginx.get(f"/{form}/?k=aa/1.dat"), 1)
        site.assert_file(nginx.get(f"/{form}/?k=plain.dat"), 3)
        site.assert_file(nginx.get(f"/{form}/?k=deep"), 5)
    for form in ("direct", "links"):
        for name in (*INSIDE, *OUTSIDE, *NOWHERE, "long", "name", "name/x"):
            refused(nginx.get(f"/{form}/?k={name}"), 404)
    lines = [s for s in nginx.errors("notice") if "openat2() is not available" in s]
    assert len(lines) == 1


@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_hostile_paths_without_openat2(
    site: Site, canary: Path, no_openat2: Path, error: str
) -> None:
    """The walk lets nothing out, either."""
    without_openat2(site, no_openat2, error)
    site.add(10_000)
    plant(site, 2000)
    nginx = site.start(BOTH, HTTP)
    with nginx.connect() as connection:
        for n in range(2000):
            refused(connection.request("GET", f"/direct/{n}"), 404, 502)
        site.assert_file(connection.request("GET", "/direct/10000"), 10_000)


@pytest.mark.parametrize("error", ["", "ENOSYS"])
def test_links_that_come_and_go(
    site: Site, canary: Path, no_openat2: Path, error: str
) -> None:
    """A file and a directory that turn into links between two looks: no canary."""
    if error:
        without_openat2(site, no_openat2, error)
    root = site.files.root
    site.files.write_id("real/1.dat", 1)
    site.files.write_id("1.dat", 1)
    (root / "file").write_bytes(content(1))
    (root / "file-link").symlink_to("../canary.dat")
    (root / "file").rename(root / "x.dat")
    (root / "dir-link").symlink_to("../aa")
    site.store.put(1, "x.dat")
    site.store.put(2, "d/1.dat")
    shutil.copytree(root / "real", root / "d")
    nginx = site.start(BOTH, HTTP)
    over = threading.Event()

    def swap(name: str, link: str) -> None:
        while not over.is_set():
            for _ in range(50):
                # both names always exist: what they are is exchanged
                os.rename(root / name, root / f"{name}.old")
                os.rename(root / link, root / name)
                os.rename(root / name, root / link)
                os.rename(root / f"{name}.old", root / name)

    threads = [
        threading.Thread(target=swap, args=("x.dat", "file-link")),
        threading.Thread(target=swap, args=("d", "dir-link")),
    ]
    for thread in threads:
        thread.start()
    seen: dict[int, int] = {}
    try:
        with nginx.connect() as connection:
            for n in range(4000):
                form = ("direct", "links")[n // 2 % 2]
                response = connection.request("GET", f"/{form}/{n % 2 + 1}")
                assert_clean(response)
                if response.status == 200:
                    assert response.body == content(1)
                seen[response.status] = seen.get(response.status, 0) + 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(seen) <= {200, 404}, seen
    assert seen[200] > 0, seen


def test_no_files(site: Site) -> None:
    """FIFOs, sockets and directories are refused, and none of them hangs."""
    root = site.files.root
    site.add(1)
    os.mkfifo(root / "fifo")
    (root / "fifo").chmod(0o666)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        (root / "socket").chmod(0o777)
        for n, name in enumerate(("fifo", "socket", "aa"), 2):
            site.store.put(n, name)
        nginx = site.start(BOTH)
        with nginx.connect() as connection:
            for form in ("direct", "links"):
                for n in (2, 3, 4):
                    response = connection.request("GET", f"/{form}/{n}")
                    refused(response, 404)
                    site.assert_file(connection.request("GET", f"/{form}/1"), 1)
        reasons = [nginx.logged(f"/direct/{n}").reason for n in (2, 3, 4)]
        assert reasons[0] == reasons[2] == "not a regular file"
        assert reasons[1].startswith(("not a regular file", "cannot open file (6: "))


def test_devices_are_refused(site: Site) -> None:
    """Devices are refused, with /dev as the root."""
    names = ["null", "zero", "full", "tty", "urandom", "ptmx"]
    for n, name in enumerate(names):
        site.store.put(n, name)
        assert stat.S_ISCHR(os.stat(f"/dev/{name}").st_mode)
    nginx = site.start(
        "location /dev/ { http_sendfile on; http_sendfile_root /dev; }"
        "location /links/ { http_sendfile on; http_sendfile_root /dev;"
        " http_sendfile_symlinks on; }"
    )
    for form in ("dev", "links"):
        for n in range(len(names)):
            response = nginx.get(f"/{form}/{n}")
            refused(response, 404)
            assert len(response.body) < 1000
    assert nginx.logged("/dev/1").reason == "not a regular file"


def test_unreadable(site: Site, canary: Path) -> None:
    """What the worker may not read is a 403, or the fallback's."""
    site.add(1)
    site.add(2, "closed/2.dat")
    site.files.path("aa/1.dat").chmod(0)
    site.files.path("closed").chmod(0)
    nginx = site.start(
        BOTH
        + "location /app/ { http_sendfile on; %%DIRECT%% http_sendfile_fallback @app; }"
        + APP
    )
    try:
        for n in (1, 2):
            refused(nginx.get(f"/direct/{n}"), 403)
            assert nginx.logged(f"/direct/{n}").reason == (
                "cannot open file (13: Permission denied)"
            )
            assert nginx.get(f"/app/{n}").text == f"app GET /app/{n}\n"
            lines = failures(nginx, n)
            assert len(lines) == 2
            assert f", file {('aa/1.dat', 'closed/2.dat')[n - 1]}: " in lines[0]
    finally:
        site.files.path("closed").chmod(0o755)
    site.assert_file(nginx.get("/direct/2"), 2)


# what is really opened


@pytest.mark.parametrize("error", ["", "ENOSYS"])
def test_strace(site: Site, canary: Path, no_openat2: Path, error: str) -> None:
    """The kernel's word: hostile or not, nothing outside the root is opened."""
    if error:
        without_openat2(site, no_openat2, error)
    make_links(site)
    for name in (*INSIDE, *OUTSIDE, *NOWHERE):
        site.store.put(name, name)
    for n in range(3000, 3020):
        site.add(n)
    plant(site, 600)
    nginx = site.start(
        BOTH
        + """
        location /k/ { http_sendfile on; %%DIRECT%% http_sendfile_key $arg_k; }
        location /kl/ { http_sendfile on; %%DIRECT%% http_sendfile_key $arg_k;
                        http_sendfile_symlinks on; }
        location /root/ { http_sendfile on; http_sendfile_root %%FILES%%/$arg_x; }
        """,
        HTTP,
    )
    with Strace(worker(nginx), site.directory / "trace") as strace:
        with nginx.connect() as connection:
            for n in range(600):
                for form in ("direct", "links", "redirect"):
                    refused(connection.request("GET", f"/{form}/{n}"), 404, 502)
            for n in range(3000, 3020):
                for form in ("direct", "links", "redirect"):
                    site.assert_file(connection.request("GET", f"/{form}/{n}"), n)
            for name in (*INSIDE, *OUTSIDE, *NOWHERE):
                for form in ("k", "kl"):
                    assert_clean(connection.request("GET", f"/{form}/?k={name}"))
            for x in ("..", "../..", "aa/../..", "//etc", "%2e%2e"):
                # a connection ends with a 500
                refused(nginx.get(f"/root/3000?x={x}"), 404, 500)
        calls = strace.stop()
    files = site.files.root
    assert outside(calls, files) == []
    opened = [call.opened for call in calls if call.opened is not None]
    for n in range(3000, 3020):
        assert opened.count(f"{files}/aa/{n}.dat") == 3
    beneath = [call for call in calls if call.name == "openat2"]
    assert len(beneath) >= (1 if error else 150)
    assert all("RESOLVE_BENEATH" in call.rest for call in beneath)
    assert all("RESOLVE_NO_MAGICLINKS" in call.rest for call in beneath)
    # the only opening by an absolute path is the root's, and what nginx's
    # own static module does for the redirected ones
    absolute = {c.path for c in calls if c.path.startswith("/") and "O_PATH" in c.rest}
    assert absolute <= {str(files), f"{files}/%2e%2e"}
    if error:
        parts = [c for c in calls if c.name == "openat" and "O_PATH" not in c.rest]
        walked = [c for c in parts if not c.path.startswith("/")]
        assert len(walked) >= 40
        assert all("O_NOFOLLOW" in c.rest and "/" not in c.path for c in walked)


# roots that change


def is_replaced(connection: Connection, file_id: int) -> bool:
    """Ask for /file/1; tell whether it is the file of that ID, or the one before."""
    body = connection.request("GET", "/file/1").body
    assert body in (content(file_id - 1), content(file_id))
    return body == content(file_id)


def test_root_is_replaced(site: Site) -> None:
    """A deployment's ``current`` link: the new files within a second or so."""
    current = site.directory / "current"
    for n in range(3):
        site.files.write_id(f"r{n}/aa/1.dat", n)
    current.symlink_to(site.files.root / "r0")
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_root {current}; }}", HTTP
    )
    site.assert_file(nginx.get("/file/1"), 0)
    for n in (1, 2):
        current.with_name("new").symlink_to(site.files.root / f"r{n}")
        current.with_name("new").replace(current)
        with nginx.connect() as connection:
            seconds = how_late(partial(is_replaced, connection, n), "the new root")
        assert seconds <= CHECK_SECONDS + SLACK_SECONDS
        opened = open_files(worker(nginx))
        assert str(site.files.root / f"r{n}") in opened
        assert str(site.files.root / f"r{n - 1}") not in opened
    assert nginx.errors() == []


def test_root_is_missing(site: Site) -> None:
    """A root that is not there is a missing file, until it appears."""
    root = site.directory / "later"
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        f"""
        location /file/ {{ http_sendfile on; http_sendfile_root {root}; }}
        location /app/ {{
            http_sendfile on; http_sendfile_root {root}; http_sendfile_fallback @app;
        }}
        """
        + APP
    )
    for _ in range(3):
        assert nginx.get("/file/1").status == 404
        assert nginx.get("/app/1").text == "app GET /app/1\n"
    assert nginx.logged("/file/1", 3).reason == (
        "cannot open root (2: No such file or directory)"
    )
    (root / "aa").mkdir(parents=True)
    (root / "aa" / "1.dat").write_bytes(content(1))
    seconds = how_late(lambda: nginx.get("/file/1").status == 200, "the root")
    assert seconds <= CHECK_SECONDS + SLACK_SECONDS
    site.assert_file(nginx.get("/app/1"), 1)
    # and gone, and there again
    root.rename(root.with_name("gone"))
    wait_until(lambda: nginx.get("/file/1").status == 404, what="the root's end")
    root.with_name("gone").rename(root)
    wait_until(lambda: nginx.get("/file/1").status == 200, what="the root")
    site.assert_file(nginx.get("/file/1"), 1)


def test_root_is_no_directory(site: Site) -> None:
    """A root that is a file, or below one, serves nothing."""
    site.store.put(1, "aa/1.dat")
    site.files.write_id("file", 7)
    nginx = site.start(
        """
        location /a/ { http_sendfile on; http_sendfile_root %%FILES%%/file; }
        location /b/ { http_sendfile on; http_sendfile_root %%FILES%%/file/x; }
        """
    )
    for name in "ab":
        refused(nginx.get(f"/{name}/1"), 404)
        assert nginx.logged(f"/{name}/1").reason == (
            "cannot open root (20: Not a directory)"
        )


HOSTILE_PARTS = [
    "..",
    "../..",
    "../files2",
    "aa/../..",
    ".",
    "./..",
    "aa/..",
    "/..",
    "aa//..",
    "..%2f..",
    "%2e%2e",
    "..\\",
    "%00",
    "....",
    "~",
]


@pytest.mark.parametrize("directive", ["root", "prefix"])
def test_hostile_variables(site: Site, canary: Path, directive: str) -> None:
    """A root or a prefix made of what a client sends stays where it is."""
    site.files.write_id("sub/aa/1.dat", 1)
    site.store.put(1, "aa/1.dat")
    value = {"root": "%%FILES%%/", "prefix": "/files/"}[directive]
    nginx = site.start(
        f"""
        location /file/ {{
            http_sendfile on; http_sendfile_{directive} {value}$arg_x;
        }}
        location ~ ^/decoded/(?<x>.*)/(?<n>[0-9]+)$ {{
            http_sendfile on; http_sendfile_key $n;
            http_sendfile_{directive} {value}$x;
        }}
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/file/1?x=sub"), 1)
    site.assert_file(nginx.get("/decoded/sub/1"), 1)
    for part in HOSTILE_PARTS:
        uri = f"/file/1?x={part}"
        response = nginx.get(uri)
        assert response.status in (404, 500), (part, response)
        assert_clean(response)
        if ".." in part.split("/"):
            assert response.status == 500, part
            assert nginx.logged(uri).status != "-"
        if part != "%00":
            response = nginx.get(f"/decoded/{part}/1")
            assert response.status in (404, 500, 400), (part, response)
            assert_clean(response)
    assert_one_line_each(nginx)


def test_hostile_root_is_logged(site: Site, canary: Path) -> None:
    """A refused root has a log line of its own, and goes to the fallback."""
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root %%FILES%%/$arg_x; }"
        "location /app/ { http_sendfile on; http_sendfile_root %%FILES%%/$arg_x;"
        " http_sendfile_fallback @app; }" + APP
    )
    assert nginx.get("/file/1?x=..").status == 500
    assert nginx.get("/app/1?x=..").text == "app GET /app/1?x=..\n"
    lines = failures(nginx, 1)
    assert len(lines) == 2
    assert all(": root is no absolute path" in s for s in lines)


def test_many_roots(site: Site) -> None:
    """However many roots a variable has led to, descriptors are bounded."""
    number = 300
    site.store.put(1, "1.dat")
    for n in range(number):
        site.files.write_id(f"r{n}/1.dat", n)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root %%FILES%%/r$arg_x; }",
        HTTP,
    )
    pid = worker(nginx)
    with nginx.connect() as connection:
        before = len(open_files(pid))
        for _ in range(2):
            for n in range(number):
                response = connection.request("GET", f"/file/1?x={n}")
                site.assert_file(response, n)
        for n in range(number):
            assert connection.request("GET", f"/file/1?x=none{n}").status == 404
        for n in (0, 299, 299, 0, 7):
            site.assert_file(connection.request("GET", f"/file/1?x={n}"), n)
        assert len(open_files(pid)) <= before + 70


# out of descriptors


def start_with_few_descriptors(site: Site, server: str, free: int) -> Nginx:
    """Start a server whose worker has ``free`` descriptors for connections and files."""
    nginx = site.start(server)
    with nginx.connect() as connection:
        assert connection.request("GET", "/none").status == 404
        used = len(open_files(worker(nginx))) - 1
    nginx = site.start(server, HTTP, main=f"worker_rlimit_nofile {used + free};")
    nginx.allow_log(r"\[crit\].*Too many open files")
    return nginx


def exhaust(nginx: Nginx) -> list[Connection]:
    """Take all the worker's descriptors by idle connections."""
    connections = [nginx.connect() for _ in range(12)]
    nginx.wait_for_log(r"accept4?\(\) failed \(24")
    return connections


def free(site: Site, nginx: Nginx, connections: list[Connection]) -> None:
    """Give them back, and wait until files are served and connections accepted."""
    for connection in connections:
        connection.close()
    wait_until(lambda: nginx.get("/direct/1").status == 200, what="descriptors")
    site.assert_file(nginx.get("/direct/1"), 1)


def test_out_of_descriptors(site: Site) -> None:
    """EMFILE is a 500 or the fallback's, and over when a descriptor is free."""
    site.add(1)
    nginx = start_with_few_descriptors(
        site,
        BOTH + "location /app/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback =410; }",
        6,
    )
    with nginx.connect() as connection, nginx.connect() as second:
        # the root stays open from here on
        site.assert_file(connection.request("GET", "/direct/1"), 1)
        site.assert_file(second.request("GET", "/direct/1"), 1)
        connections = exhaust(nginx)
        assert second.request("GET", "/app/1").status == 410
        # this one ends its connection, which is a descriptor
        refused(connection.request("GET", "/direct/1?x"), 500)
        assert nginx.logged("/direct/1?x").status == "HIT"
        (line, other) = failures(nginx, 1)
        assert "cannot open file, answered 410" in line
        assert "(24: Too many open files)" in line
        assert "cannot open file, answered 500" in other and "(24: " in other
        free(site, nginx, connections)
        site.assert_file(second.request("GET", "/direct/1"), 1)


def test_out_of_descriptors_for_the_root(site: Site) -> None:
    """Without a descriptor for the root nothing is lost, either."""
    site.add(1)
    nginx = start_with_few_descriptors(site, BOTH, 6)
    with nginx.connect() as connection:
        assert connection.request("GET", "/none").status == 404
        connections = exhaust(nginx)
        refused(connection.request("GET", "/direct/1"), 500)
        assert nginx.logged("/direct/1").reason.startswith("cannot open root (24: ")
        free(site, nginx, connections)
