"""Connections to servers, over TCP or a unix socket."""

from __future__ import annotations

import socket
from typing import Any, Callable

from sendfilectl.signals import blocking


def connect(
    host: str, port: int, timeout: float, note: Callable[[str], None]
) -> socket.socket:
    """Connects to the first address of a name that takes the connection.

    Args:
        host: a name or an address; the path of a unix socket if there is no
            port.
        port: of TCP, 0 for none.
        timeout: seconds for each address; it stays the socket's.
        note: where to say that a name takes long to look up.

    Raises:
        OSError: none does; of the last address.
    """
    error = OSError("the name has no address")
    for family, kind, protocol, address in _addresses(host, port, note):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout)
            sock.connect(address)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as wrong:
            error = wrong
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise error


def _addresses(
    host: str, port: int, note: Callable[[str], None]
) -> list[tuple[int, int, int, Any]]:
    """Family, type, protocol and address of each way to a server."""
    if not port:
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, host)]
    with blocking(lambda: note(f"waiting: the name {host} is looked up")):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(f), int(t), p, address) for f, t, p, _, address in found]
