"""HTTP clients: one that sends and returns exact bytes, and HTTP/2."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from .wait import PATIENCE

if TYPE_CHECKING:
    from typing import Self

TIMEOUT = PATIENCE

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def header_items(headers: Headers | None) -> list[tuple[str, str]]:
    """Return headers given as a mapping or as pairs, as pairs."""
    if headers is None:
        return []
    if isinstance(headers, Mapping):
        return list(headers.items())
    return list(headers)


@dataclass(frozen=True)
class Response:
    """One answer. Header names keep the server's spelling and order."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    version: str = "HTTP/1.1"
    closed: bool = field(default=False, compare=False)

    def all(self, name: str) -> list[str]:
        """Return the values of every header of that name, in their order."""
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """Return the value of a header, None if there is none.

        Raises:
            AssertionError: there are several.
        """
        values = self.all(name)
        assert len(values) <= 1, f"several {name} headers: {values}"
        return values[0] if values else None

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()


class ConnectionClosed(Exception):
    """The server closed the connection before a whole answer had come."""


class Connection:
    """A client connection that sends what it is told, byte by byte.

    Args:
        port: of the address, or a Unix socket's path.
        tls: a context, to speak TLS to ``localhost``.
        timeout: seconds for each read and write.
        address: for a port.

    Attributes:
        opened: when that was, a moment of the monotonic clock.
    """

    def __init__(
        self,
        port: int | str,
        tls: ssl.SSLContext | None = None,
        timeout: float = TIMEOUT,
        address: str = "127.0.0.1",
    ) -> None:
        self.opened = time.monotonic()
        sock: socket.socket
        if isinstance(port, int):
            sock = socket.create_connection((address, port), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(timeout)
            sock.connect(port)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname="localhost")
        self.socket = sock
        self._buffer = b""
        self._eof = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection in the usual way (FIN)."""
        self.socket.close()

    def abort(self) -> None:
        """Close the connection by a reset (RST)."""
        self.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def send_request(
        self,
        method: str,
        target: str | bytes,
        headers: Headers | None = None,
        body: bytes = b"",
        version: str = "HTTP/1.1",
    ) -> None:
        """Send a request; adds Host and, for a body, Content-Length."""
        if isinstance(target, str):
            target = target.encode()
        items = header_items(headers)
        names = {n.lower() for n, _ in items}
        if "host" not in names:
            items.insert(0, ("Host", "localhost"))
        if body and "content-length" not in names:
            items.append(("Content-Length", str(len(body))))
        head = b"%s %s %s\r\n" % (method.encode(), target, version.encode())
        head += b"".join(f"{n}: {v}\r\n".encode() for n, v in items)
        self.send(head + b"\r\n" + body)

    def _fill(self) -> bool:
        """Read more into the buffer; False at the end of the stream."""
        if self._eof:
            return False
        data = self.socket.recv(65536)
        if not data:
            self._eof = True
            return False
        self._buffer += data
        return True

    def _take_line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if not self._fill():
                raise ConnectionClosed(f"in a line: {self._buffer!r}")
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._fill():
                raise ConnectionClosed(f"{len(self._buffer)} of {size} body bytes")
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def read_to_end(self) -> bytes:
        """Return all bytes up to the server's FIN."""
        while self._fill():
            pass
        data, self._buffer = self._buffer, b""
        return data

    def at_end(self) -> bool:
        """True if the server has closed and sent nothing more; waits for either."""
        return not self._buffer and not self._fill()

    def read_response(self, method: str = "GET") -> Response:
        """Read one answer (interim 1xx answers are skipped).

        Args:
            method: of the request; an answer to HEAD has no body.

        Raises:
            ConnectionClosed: the stream ended first.
        """
        while True:
            line = self._take_line()
            match = re.fullmatch(rb"(HTTP/1\.[01]) (\d{3}) ?(.*)", line)
            assert match, f"no status line: {line!r}"
            headers: list[tuple[str, str]] = []
            while line := self._take_line():
                name, colon, value = line.partition(b":")
                assert colon, f"no header: {line!r}"
                headers.append(
                    (name.decode("latin-1"), value.strip().decode("latin-1"))
                )
            if int(match[2]) >= 200:
                break
        status = int(match[2])
        head = Response(status, headers, b"", match[1].decode())
        closed = (head.header("Connection") or "").lower() == "close"
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif head.header("Transfer-Encoding") == "chunked":
            body = self._take_chunks()
        elif (length := head.header("Content-Length")) is not None:
            body = self._take(int(length))
        else:
            body = self.read_to_end()
        return Response(status, headers, body, head.version, closed)

    def _take_chunks(self) -> bytes:
        body = b""
        while size := int(self._take_line().split(b";")[0], 16):
            body += self._take(size)
            assert self._take_line() == b"", "a chunk longer than it said"
        while self._take_line():
            pass
        return body

    def request(
        self,
        method: str,
        target: str | bytes,
        headers: Headers | None = None,
        body: bytes = b"",
        version: str = "HTTP/1.1",
    ) -> Response:
        """Send a request and return the answer; the connection stays open."""
        self.send_request(method, target, headers, body, version)
        return self.read_response(method)


def request(
    port: int | str,
    method: str,
    target: str | bytes,
    headers: Headers | None = None,
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
) -> Response:
    """Send one request on a connection of its own.

    After the answer nothing may follow: that the server ends the stream
    exactly there is checked.
    """
    with Connection(port, tls) as connection:
        items = [("Connection", "close"), *header_items(headers)]
        response = connection.request(method, target, items, body)
        rest = connection.read_to_end()
        assert rest == b"", f"bytes after the answer: {rest[:200]!r}"
        return response


def http2_client(port: int, tls: ssl.SSLContext | None = None) -> httpx.Client:
    """Return an HTTP/2 client, over TLS if given a context, else by prior knowledge."""
    scheme = "https" if tls else "http"
    return httpx.Client(
        http1=False,
        http2=True,
        verify=tls if tls is not None else False,
        base_url=f"{scheme}://localhost:{port}",
        timeout=TIMEOUT,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
    )


def http2_at_once(port: int, targets: Sequence[str]) -> list[Response]:
    """Ask for several targets, each in a stream of one connection, at once.

    In one thread: httpx's connections may be shared by tasks, not by threads.
    """

    async def ask() -> list[Response]:
        async with httpx.AsyncClient(
            http1=False,
            http2=True,
            base_url=f"http://localhost:{port}",
            timeout=TIMEOUT,
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
        ) as client:
            answers = await asyncio.gather(*map(client.get, targets))
            return [from_httpx(answer) for answer in answers]

    return asyncio.run(ask())


def from_httpx(response: httpx.Response) -> Response:
    """Turn an httpx response into ours, with the body as it came."""
    headers = [
        (n.decode("latin-1"), v.decode("latin-1")) for n, v in response.headers.raw
    ]
    return Response(
        response.status_code, headers, response.content, response.http_version
    )
