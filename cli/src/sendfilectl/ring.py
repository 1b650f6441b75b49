"""Which of several memcached servers has a key, as other clients see it.

Two distributions, with the names they have in ``http_sendfile_store``:

* ``dalli``: Ruby's Dalli. A server has floor(n * 160 * weight / total)
  points, point i is the first 32 bits of SHA1("host:port:i"), a key is
  CRC32(key), and the last point that is not above it has the key.
* ``ketama``: libmemcached's KETAMA_WEIGHTED, which pylibmc calls
  ``ketama_weighted`` and php-memcached OPT_LIBKETAMA_COMPATIBLE. A server has
  four points of each MD5("host:port-i"), or "host-i" if the port is 11211, a
  key is the first 32 bits of its MD5, and the first point that is not below
  it has the key.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from ctypes import c_float
from dataclasses import dataclass

DISTRIBUTIONS = ("dalli", "ketama")

_POINTS = 160
_MD5_POINTS = 4
_KETAMA_PORT = 11211


@dataclass(frozen=True)
class Server:
    """A server as the clients are configured with it, since that is hashed.

    Attributes:
        host: name or address without brackets, or the path of a unix socket.
        port: its port, 0 for a unix socket.
        weight: its share of the keys, 1 or more.
    """

    host: str
    port: int
    weight: int = 1

    @property
    def name(self) -> str:
        """As messages name it."""
        if not self.port:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Ring:
    """The points of all servers, in the order of their hashes.

    Args:
        distribution: one of DISTRIBUTIONS.
        servers: all of them; the order matters only where hashes are equal.

    Raises:
        ValueError: there is no such distribution, or no server has a point.
    """

    def __init__(self, distribution: str, servers: Sequence[Server]) -> None:
        if distribution not in DISTRIBUTIONS:
            raise ValueError(f"no distribution is called {distribution!r}")
        self._dalli = distribution == "dalli"
        hashes = _dalli_hashes if self._dalli else _ketama_hashes
        counts = _dalli_counts if self._dalli else _ketama_counts
        # of points with one hash the one of the first server counts as first
        points = sorted(
            (hash, i)
            for i, (server, count) in enumerate(zip(servers, counts(servers)))
            for hash in hashes(server, count)
        )
        if not points:
            raise ValueError("no server has a point")
        self._hashes = [hash for hash, _ in points]
        self._owners = [owner for _, owner in points]
        self._single = len(servers) == 1

    def find(self, key: bytes) -> int:
        """The position of the server that has a key."""
        if self._single:
            return 0
        if self._dalli:
            # the one before the first that is above; -1 is the last one
            return self._owners[bisect_right(self._hashes, zlib.crc32(key)) - 1]
        found = bisect_left(self._hashes, _md5_hash(key))
        return self._owners[found if found < len(self._owners) else 0]


def _dalli_counts(servers: Sequence[Server]) -> list[int]:
    total = sum(server.weight for server in servers)
    return [int(len(servers) * _POINTS * server.weight / total) for server in servers]


def _ketama_counts(servers: Sequence[Server]) -> list[int]:
    """In single precision and in the order of libmemcached's steps."""
    total = float(sum(server.weight for server in servers))
    counts = []
    for server in servers:
        share = _single(server.weight / total)
        share = _single(share * _POINTS)
        share = _single(share / _MD5_POINTS)
        share = _single(share * len(servers))
        share = _single(share + _single(0.0000000001))
        counts.append(int(share) * _MD5_POINTS)
    return counts


def _single(number: float) -> float:
    """Rounded to a C float."""
    return c_float(number).value


def _dalli_hashes(server: Server, count: int) -> Iterator[int]:
    name = os.fsencode(server.host)
    if server.port:
        name += b":%d" % server.port
    for i in range(count):
        digest = hashlib.sha1(b"%s:%d" % (name, i), usedforsecurity=False).digest()
        yield int.from_bytes(digest[:4], "big")


def _ketama_hashes(server: Server, count: int) -> Iterator[int]:
    name = os.fsencode(server.host)
    # a unix socket has the port 0 here, and it is hashed
    if server.port != _KETAMA_PORT:
        name += b":%d" % server.port
    for i in range(count // _MD5_POINTS):
        digest = hashlib.md5(b"%s-%d" % (name, i), usedforsecurity=False).digest()
        for k in range(_MD5_POINTS):
            yield int.from_bytes(digest[4 * k : 4 * k + 4], "little")


def _md5_hash(key: bytes) -> int:
    digest = hashlib.md5(key, usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "little")
