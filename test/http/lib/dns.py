"""A DNS server of a few names, for nginx's ``resolver``."""

from __future__ import annotations

import socket
import struct
import threading

TYPE_A = 1
TYPE_AAAA = 28
NO_SUCH_NAME = 3
TTL_SECONDS = 0


class Dns:
    """A DNS server on an ephemeral UDP port of 127.0.0.1.

    It answers A queries as RFC 1035 has it, AAAA queries with nothing, and
    names that it does not know with NXDOMAIN.

    Args:
        names: the IPv4 addresses of each name; may be changed at any time.
        silent: receive, and answer nothing.
    """

    def __init__(
        self, names: dict[str, list[str]] | None = None, silent: bool = False
    ) -> None:
        self.names = dict(names or {})
        self.silent = silent
        self.queries: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The UDP port."""
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def resolver(self) -> str:
        """The directive for nginx, which keeps an answer for less than a second."""
        return f"resolver 127.0.0.1:{self.port} ipv6=off;"

    def close(self) -> None:
        """Stop serving."""
        # wakes up the thread
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, address = self._socket.recvfrom(2048)
            if not data:
                return
            reply = self._reply(data)
            if not self.silent:
                self._socket.sendto(reply, address)

    def _reply(self, query: bytes) -> bytes:
        labels = []
        position = 12
        while length := query[position]:
            labels.append(query[position + 1 : position + 1 + length].decode())
            position += 1 + length
        name = ".".join(labels).lower()
        question = query[12 : position + 5]
        (kind,) = struct.unpack(">H", query[position + 1 : position + 3])
        self.queries.append(name)
        addresses = self.names.get(name)
        code = NO_SUCH_NAME if addresses is None else 0
        found = addresses or [] if kind == TYPE_A else []
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0)
        answers = b"".join(
            # 0xc00c: the name of the question
            struct.pack(">HHHIH", 0xC00C, TYPE_A, 1, TTL_SECONDS, 4)
            + socket.inet_aton(address)
            for address in found
        )
        return head + question + answers
