"""What the tests of the shared cache stand on."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .client import TIMEOUT, Connection, Headers, Response
from .nginx import LogEntry, Nginx
from .wait import wait_until

ZONE = "http_sendfile_cache_zone main:4m;\n"
CACHE = "http_sendfile_cache main;"
STATUS = "location /status { http_sendfile_status write; }\n"

# a server that puts little into a connection that nobody reads from
SLOW = "listen 127.0.0.1:%%PORT:slow%% sndbuf=16k;\n"

# a modification time long ago, for files that are to be kept
MTIME = 1_700_000_000

# a body is kept if its file's inode was changed this many seconds ago
CHANGED = 0.1

# seconds that a worker's idea of the time may be behind, and rounding
LATE = 0.05

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """A response, and the request's line in the access log."""

    response: Response
    entry: LogEntry

    @property
    def said(self) -> tuple[str, str]:
        """$sendfile_status and $sendfile_source."""
        return self.entry.status, self.entry.source


def numbered(uri: str) -> str:
    """Return a URI with an argument that no other has, to find it in the log."""
    return f"{uri}{'&' if '?' in uri else '?'}n={next(_numbers)}"


def ask(
    nginx: Nginx,
    uri: str,
    headers: Headers | None = None,
    method: str = "GET",
    on: Connection | None = None,
) -> Answer:
    """Send a request and wait for its line in the access log.

    Args:
        nginx: to ask.
        uri: an argument is added to it.
        headers: of the request.
        method: of the request.
        on: a connection; one of its own by default.
    """
    uri = numbered(uri)
    if on is not None:
        response = on.request(method, uri, headers)
    else:
        response = nginx.request(method, uri, headers)
    return Answer(response, nginx.logged(uri))


def said(nginx: Nginx, uri: str) -> tuple[str, str]:
    """Return $sendfile_status and $sendfile_source of a GET."""
    return ask(nginx, uri).said


def let_pass(seconds: float, since: float | None = None) -> None:
    """Wait until so many seconds have passed, for a worker, too.

    Args:
        seconds: as a directive has them.
        since: a moment of the monotonic clock; now by default.
    """
    end = (time.monotonic() if since is None else since) + seconds + LATE
    wait_until(
        lambda: time.monotonic() > end, seconds + 10, f"{seconds} seconds to pass"
    )


def settle(*paths: Path) -> None:
    """Wait until files are unchanged for so long that a body may be kept."""

    def settled() -> bool:
        latest = max(path.lstat().st_ctime for path in paths)
        return time.time() > latest + CHANGED + LATE

    wait_until(settled, what="files to be no longer new")


def make_old(*paths: Path) -> None:
    """Give files a modification time long ago, and wait until that is settled."""
    for path in paths:
        os.utime(path, (MTIME, MTIME))
    settle(*paths)


def replace(path: Path, data: bytes, old: bool = False) -> None:
    """Put another file in a file's place, by rename.

    Args:
        path: which file.
        data: what the other holds.
        old: give it a modification time long ago.
    """
    other = path.with_name(path.name + ".new")
    other.write_bytes(data)
    other.chmod(0o644)
    if old:
        os.utime(other, (MTIME, MTIME))
    other.rename(path)


# purging


def purged(response: Response) -> None:
    """Check that a response is the answer to a purge.

    Raises:
        AssertionError: it is another answer.
    """
    assert response.status == 200, response
    assert response.header("Content-Type") == "application/json"
    assert json.loads(response.body) == {"purged": True}


def purge(nginx: Nginx, key: str | int, status: str = "/status") -> None:
    """Purge a key.

    Args:
        nginx: to ask.
        key: percent-encoded as it has to be.
        status: the status location.
    """
    purged(nginx.request("DELETE", f"{status}/cache/{key}"))


def purge_url(nginx: Nginx, url: str, status: str = "/status") -> None:
    """Purge what was learned for a URL.

    Args:
        nginx: to ask.
        url: as a client has sent it.
        status: the status location.
    """
    purged(nginx.request("DELETE", f"{status}/cache?url={quote(url, safe='')}"))


def purge_all(nginx: Nginx, status: str = "/status") -> None:
    """Purge all."""
    purged(nginx.request("DELETE", f"{status}/cache"))


# system calls


@contextmanager
def _strace(pid: int, output: Path, *options: str) -> Iterator[None]:
    errors = output.with_suffix(".stderr")
    with errors.open("wb") as file:
        process = subprocess.Popen(
            ["strace", "-f", "-y", "-qq", *options, "-o", output, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stderr=file,
        )

    def attached() -> bool:
        assert process.poll() is None, errors.read_text()
        status = Path(f"/proc/{pid}/status").read_text()
        return f"TracerPid:\t{process.pid}\n" in status

    try:
        wait_until(attached, what="strace to be attached")
        yield
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def watched(pid: int, output: Path) -> Iterator[list[str]]:
    """Watch what a process does with files, by strace(1).

    Args:
        pid: the process.
        output: a file for what strace writes.

    Yields:
        A list that has, afterwards, a line for each system call that names a
        path, or whose descriptor leads to one.
    """
    lines: list[str] = []
    with _strace(pid, output, "-e", "trace=%file,%desc"):
        yield lines
    lines += output.read_text(errors="replace").splitlines()


@contextmanager
def slowed(
    pid: int, output: Path, calls: str, seconds: float, after: bool = False
) -> Iterator[None]:
    """Hold a process up in the first of some system calls.

    Args:
        pid: the process.
        output: a file for what strace writes.
        calls: their names, with commas.
        seconds: how long.
        after: when the call is done, instead of before it.
    """
    delay = "delay_exit" if after else "delay_enter"
    inject = f"inject={calls}:{delay}={int(seconds * 1e6)}:when=1"
    with _strace(pid, output, "-e", f"trace={calls}", "-e", inject):
        yield


def is_held_up(pid: int) -> bool:
    """Tell whether a process is stopped at a system call, if but for a moment."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "t"


def wait_until_held_up(pid: int) -> None:
    """Wait until a process is held up by ``slowed``."""
    seen = [0]

    def held_up() -> bool:
        # strace stops it at each call, but for a moment only
        seen[0] = seen[0] + 1 if is_held_up(pid) else 0
        return seen[0] >= 5

    wait_until(held_up, what=f"{pid} to be held up")


def slow_connection(nginx: Nginx) -> Connection:
    """Return a connection to SLOW that takes in little before it is read from."""
    connection = nginx.connect("slow")
    connection.socket.close()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    sock.settimeout(TIMEOUT)
    sock.connect(("127.0.0.1", nginx.port_of("slow")))
    connection.socket = sock
    return connection
