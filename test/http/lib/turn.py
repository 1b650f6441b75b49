"""Requests that a worker meets in one and the same turn of its event loop."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from .client import Connection
from .nginx import Nginx
from .wait import has_stopped, wait_until

# for the server block: something to ask for that touches nothing
WARM = "location = /warm { access_log off; return 204; }\n"


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Keep a process from running (SIGSTOP, SIGCONT)."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(partial(has_stopped, pid), what=f"{pid} to stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_delivered(connection: Connection) -> bool:
    """Tell whether all that was sent has reached the other side's kernel."""
    size = struct.calcsize("i")
    unsent = fcntl.ioctl(connection.socket.fileno(), termios.TIOCOUTQ, bytes(size))
    return struct.unpack("i", unsent) == (0,)


def connections(nginx: Nginx, number: int) -> list[Connection]:
    """Return connections that nginx has accepted; the server needs WARM."""
    found = [nginx.connect() for _ in range(number)]
    for connection in found:
        assert connection.request("GET", "/warm").status == 204
    return found


def send_at_once(
    nginx: Nginx, uris: Sequence[str], on: Sequence[Connection] | None = None
) -> list[Connection]:
    """Send a GET for each URI so that the only worker sees all at once.

    Args:
        nginx: with WARM in its server block.
        uris: at most 500, as many events as a worker takes in a turn.
        on: the connections to send on; new ones by default.

    Returns:
        A connection for each URI, its answer unread.
    """
    assert len(uris) <= 500
    found = list(on) if on is not None else connections(nginx, len(uris))
    (worker,) = nginx.workers()
    with stopped(worker):
        for uri, connection in zip(uris, found, strict=True):
            connection.send_request("GET", uri)
        wait_until(lambda: all(map(is_delivered, found)), what="the requests to arrive")
    return found
