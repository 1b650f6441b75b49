"""The memcached servers that a store's URL names.

One line for what a block http_sendfile_store of nginx has several lines for::

    memcached://h1:11211*2,h2,[::1]:11212?distribution=ketama
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from sendfilectl.errors import UsageError
from sendfilectl.ring import DISTRIBUTIONS, Ring, Server

PORT = 11211
MAX_WEIGHT = 1000
MAX_SERVERS = 4096

# sizeof(sun_path) on Linux, less the NUL
_MAX_SOCKET = 107

_HOST = re.compile("[A-Za-z0-9_.-]+")
_HOST6 = re.compile(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]")
_SERVER = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(.*))?", re.DOTALL)
_WRITE = "write memcached://host[:port] or memcached:/unix/socket"


@dataclass(frozen=True)
class Cluster:
    """All servers of a store.

    Attributes:
        servers: in the order in which they were given.
        distribution: "dalli" or "ketama".
    """

    servers: tuple[Server, ...]
    distribution: str = DISTRIBUTIONS[0]

    def ring(self) -> Ring:
        """Which server has which key."""
        return Ring(self.distribution, self.servers)


def parse_cluster(text: str) -> Cluster:
    """Reads a URL ``memcached:…``.

    Several servers are separated by commas, ``*n`` behind one is its weight,
    and ``?distribution=dalli`` or ``ketama`` ends the URL. With one slash
    only, all servers are unix sockets.

    Raises:
        UsageError: it is none, with what to write instead.
    """
    rest, question, query = text.partition(":")[2].partition("?")
    distribution = _distribution(text, query) if question else DISTRIBUTIONS[0]
    sockets_only = not rest.startswith("//")
    if sockets_only and not rest.startswith("/"):
        raise UsageError(f"'{text}' names no server: {_WRITE}")
    words = rest.split(",") if sockets_only else rest[2:].split(",")
    if len(words) > MAX_SERVERS:
        raise UsageError(f"{len(words)} servers: at most {MAX_SERVERS} are allowed")
    servers = []
    for word in words:
        if sockets_only and not word.startswith("/"):
            raise UsageError(
                f"'{word}' in '{text}' is not the absolute path of a socket: "
                f"write memcached://{rest}, two slashes more, if it is a host"
            )
        servers.append(_server(text, word))
    return Cluster(tuple(servers), distribution)


def _distribution(text: str, query: str) -> str:
    name, _, value = query.partition("=")
    if name != "distribution" or value not in DISTRIBUTIONS:
        raise UsageError(
            f"'?{query}' in '{text}': write ?distribution=dalli or "
            "?distribution=ketama, as the clients do that share the store"
        )
    return value


def _server(text: str, word: str) -> Server:
    address, star, number = word.partition("*")
    weight = 1
    if star:
        weight = _number(number)
        if not 1 <= weight <= MAX_WEIGHT:
            raise UsageError(
                f"the weight '*{number}' in '{text}': "
                f"write a number from *1 to *{MAX_WEIGHT}"
            )
    if not address:
        raise UsageError(f"'{text}' has an empty place for a server: {_WRITE}")
    if address.startswith("/"):
        return _socket(text, address, weight)
    if "/" in address:
        raise UsageError(
            f"'{address}' in '{text}' has something after the host: {_WRITE}"
        )
    match = _SERVER.fullmatch(address)
    host, port = match.groups() if match else (address, None)
    number_of_port = PORT if port is None else _number(port)
    if host.startswith("["):
        match6 = _HOST6.fullmatch(host)
        if match6 is None or not match:
            raise UsageError(
                f"'{address}' in '{text}' has a bad IPv6 address: "
                "write memcached://[::1][:port]"
            )
        host = match6.group(1)
    elif port is not None and ":" in port:
        raise UsageError(
            f"'{address}' in '{text}' needs brackets around an IPv6 address: "
            "write memcached://[::1]:port"
        )
    elif not _HOST.fullmatch(host):
        raise UsageError(
            f"'{address}' in '{text}' has a bad host: "
            "write a name, an IPv4 address or [IPv6]"
        )
    if not 1 <= number_of_port <= 65535:
        raise UsageError(
            f"'{address}' in '{text}' has a bad port: write a number from 1 to 65535"
        )
    return Server(host, number_of_port, weight)


def _socket(text: str, path: str, weight: int) -> Server:
    if path.startswith("//") or path == "/":
        raise UsageError(f"'{text}' has no path of a socket: {_WRITE}")
    if len(os.fsencode(path)) > _MAX_SOCKET:
        raise UsageError(
            f"the path of the socket '{path}' is over {_MAX_SOCKET} bytes: "
            "use a shorter one, such as a symbolic link"
        )
    return Server(path, 0, weight)


def _number(text: str) -> int:
    """A decimal number of a few digits; 0 if it is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0
