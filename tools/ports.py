"""Free ports of 127.0.0.1, for all tests and the benchmark.

Each process takes them from a block of its own, so that those that run at the same
time, of one suite or of several, do not choose the same. They are below the range
that the kernel takes the ports of outgoing connections from: one of those would be
taken before a server has it.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_SIZE = 100


class _Block:
    """A block of ports that no other process has while this one lives.

    What says so is an abstract Unix socket, which the kernel removes with its process
    and which, as the ports, belongs to a network namespace.

    Raises:
        RuntimeError: other processes have them all.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._mark = socket.socket(socket.AF_UNIX)
        highest = int(_RANGE.read_text().split()[0])
        firsts = list(range(_LOWEST, highest - _SIZE, _SIZE))
        random.shuffle(firsts)
        for first in firsts:
            try:
                self._mark.bind(f"\0ngx_sendfile ports {first}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            self._ports = list(range(first, first + _SIZE))
            return
        raise RuntimeError(
            f"other processes have all blocks of {_SIZE} ports from {_LOWEST} to"
            f" {highest}: end some, or begin net.ipv4.ip_local_port_range above 30000"
        )

    def next(self) -> int:
        """Return the port that was returned least recently."""
        self._ports.append(self._ports.pop(0))
        return self._ports[-1]


_block: _Block | None = None


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens at this moment.

    It is not returned again before 99 others.

    Raises:
        RuntimeError: all of this process are in use, or there are none for it.
    """
    global _block
    if _block is None or _block.owner != os.getpid():
        _block = _Block()
    for _ in range(_SIZE):
        port = _block.next()
        if _is_free(port):
            return port
    raise RuntimeError(f"this process listens on {_SIZE} ports")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        # as servers do: a connection that has ended takes no port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
