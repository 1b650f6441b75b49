"""A backend that speaks HTTP/1.0 with keep-alive, and misbehaves on command.

A script is asked for each request, and says byte by byte what is sent:

    def closes(request: PeerRequest) -> Answer:
        return Answer((head("Content-Length: 2", "Connection: close"), b"ok"))

Each request tells which connection it came on. The other protocols that nginx
speaks to a backend are here as far as it takes to see what becomes of one.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events

from .backend import Request

TIMEOUT = 60.0

KEEP = "Connection: keep-alive"


@dataclass(frozen=True)
class PeerRequest(Request):
    """A request, and the connection it came on.

    Args:
        peer: the port of the other end.
        connection: its number, from 0, in the order they were accepted.
        number: which request of its connection, from 0.
    """

    peer: int
    connection: int
    number: int


@dataclass(frozen=True)
class Answer:
    """What is sent for a request.

    Args:
        parts: bytes, and events that are waited for before the rest.
        close: close the connection behind it.
    """

    parts: tuple[bytes | threading.Event, ...]
    close: bool = False


Script = Callable[[PeerRequest], Answer]


def head(*lines: str, status: str = "200 OK", version: str = "HTTP/1.0") -> bytes:
    """Return the head of an answer.

    Args:
        lines: of headers, in their order.
        status: code and reason.
        version: of HTTP.
    """
    return "\r\n".join([f"{version} {status}", *lines, "", ""]).encode()


def kept(body: bytes, *lines: str, status: str = "200 OK") -> Answer:
    """Return a right answer behind which the connection stays."""
    length = f"Content-Length: {len(body)}"
    return Answer((head(KEEP, length, *lines, status=status) + body,))


def say_peer(request: PeerRequest) -> Answer:
    """Answer with the port of the other end."""
    return kept(b"" if request.method == "HEAD" else b"%d\n" % request.peer)


class Gone(Exception):
    """The other end has closed the connection."""


class Peer:
    """The backend's side of a connection.

    Args:
        sock: the connection.
        number: of the connection.
    """

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.socket = sock
        self.number = number
        self.requests = 0
        self.port: int = sock.getpeername()[1]
        self._buffer = b""

    def _fill(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._buffer += data

    def read(self, size: int) -> bytes:
        """Return so many bytes.

        Raises:
            Gone: the connection has ended before.
        """
        while len(self._buffer) < size:
            self._fill()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def read_to(self, mark: bytes) -> bytes:
        """Return what comes before a mark, and take the mark away.

        Raises:
            Gone: the connection has ended before.
        """
        while mark not in self._buffer:
            self._fill()
        data, _, self._buffer = self._buffer.partition(mark)
        return data

    def read_some(self) -> bytes:
        """Return what has come, one byte at least.

        Raises:
            Gone: the connection has ended.
        """
        if not self._buffer:
            self._fill()
        data, self._buffer = self._buffer, b""
        return data

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            Gone: the connection has ended.
        """
        try:
            self.socket.sendall(data)
        except ConnectionError as error:
            raise Gone from error


class PeerBackend:
    """A threaded server on an ephemeral port of 127.0.0.1.

    Args:
        receive_buffer: of each connection in bytes; 0 leaves it to the kernel.
    """

    def __init__(self, receive_buffer: int = 0) -> None:
        self._lock = threading.Lock()
        self._requests: list[PeerRequest] = []
        self._failures: list[BaseException] = []
        self._peers: dict[int, Peer] = {}
        self._threads: list[threading.Thread] = []
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        """host:port, for an upstream's server."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def requests(self) -> list[PeerRequest]:
        """All requests so far, in the order they came."""
        with self._lock:
            return list(self._requests)

    @property
    def connections(self) -> list[int]:
        """The connection of each request so far."""
        return [request.connection for request in self.requests]

    @property
    def open(self) -> set[int]:
        """The numbers of the connections that are there."""
        with self._lock:
            return set(self._peers)

    def serve(self, peer: Peer) -> None:
        """Serve a connection to its end.

        Raises:
            Gone: it has ended.
        """
        raise NotImplementedError

    def record(self, peer: Peer, request: Request) -> PeerRequest:
        """Record a request, and return it with its connection."""
        with self._lock:
            found = PeerRequest(
                request.method,
                request.target,
                request.headers,
                request.body,
                peer.port,
                peer.number,
                peer.requests,
            )
            peer.requests += 1
            self._requests.append(found)
        return found

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            sock.settimeout(60.0)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(
                target=self._run, args=(sock, number), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _run(self, sock: socket.socket, number: int) -> None:
        with sock:
            try:
                peer = Peer(sock, number)
            except OSError:
                return
            with self._lock:
                self._peers[number] = peer
            try:
                self.serve(peer)
            except Gone:
                pass
            except BaseException as failure:
                self._failures.append(failure)
                raise
            finally:
                with self._lock:
                    del self._peers[number]

    def close(self) -> None:
        """Stop serving.

        Raises:
            AssertionError: something went wrong in a connection.
        """
        self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join(TIMEOUT)
        self._socket.close()
        with self._lock:
            for peer in self._peers.values():
                try:
                    peer.socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        for thread in self._threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive(), "a connection does not end"
        assert not self._failures, f"the backend raised {self._failures}"


class Http10(PeerBackend):
    """The HTTP/1.0 server.

    Args:
        script: makes the answer; the default says the port of the other end.
        early: answer before the body of the request is read.
        receive_buffer: as of ``PeerBackend``.
    """

    def __init__(
        self, script: Script = say_peer, early: bool = False, receive_buffer: int = 0
    ) -> None:
        self.script = script
        self._early = early
        super().__init__(receive_buffer)

    def serve(self, peer: Peer) -> None:
        """Serve a connection to its end; an answer may close it."""
        while True:
            line, *lines = peer.read_to(b"\r\n\r\n").decode("latin-1").split("\r\n")
            method, target, version = line.split(" ")
            assert version in ("HTTP/1.0", "HTTP/1.1"), line
            pairs = [s.partition(":") for s in lines]
            headers = [(name, value.strip()) for name, _, value in pairs]
            found = [int(v) for n, v in headers if n.lower() == "content-length"]
            length = found[0] if found else 0
            body = b"" if self._early else peer.read(length)
            request = self.record(peer, Request(method, target, headers, body))
            answer = self.script(request)
            for part in answer.parts:
                if isinstance(part, bytes):
                    peer.send(part)
                else:
                    assert part.wait(TIMEOUT), f"nobody lets {target} go on"
            if answer.close:
                return
            if self._early:
                peer.read(length)


class FastCgi(PeerBackend):
    """A FastCGI responder that keeps connections.

    Args:
        headers: lines of each answer.
    """

    def __init__(self, *headers: str) -> None:
        self._headers = headers
        super().__init__()

    def serve(self, peer: Peer) -> None:
        """Serve a connection to its end, or to that of a request without keep."""
        keep = 0
        while True:
            version, kind, ident, length, padding = struct.unpack(
                ">BBHHBx", peer.read(8)
            )
            assert version == 1
            content = peer.read(length)
            peer.read(padding)
            if kind == 1:
                keep = content[2] & 1
            if kind != 5 or length:
                continue
            self.record(peer, Request("FCGI", "", [], b""))
            body = b"%d\n" % peer.port
            lines = "\r\n".join([*self._headers, "", ""]).encode()
            answer = b""
            for kind, data in ((6, lines + body), (6, b""), (3, bytes(8))):
                answer += struct.pack(">BBHHBx", 1, kind, ident, len(data), 0) + data
            peer.send(answer)
            if not keep:
                return


class Cgi(PeerBackend):
    """A uwsgi or SCGI server: an answer, then the other end has to close.

    Args:
        protocol: uwsgi or scgi.
        answer: what is sent, with %d for the port of the other end.
    """

    def __init__(self, protocol: str, answer: bytes) -> None:
        self._protocol = protocol
        self._answer = answer
        super().__init__()

    def serve(self, peer: Peer) -> None:
        """Answer each request on a connection, to its end."""
        while True:
            if self._protocol == "scgi":
                peer.read(int(peer.read_to(b":")) + 1)
            else:
                _, length, _ = struct.unpack("<BHB", peer.read(4))
                peer.read(length)
            self.record(peer, Request(self._protocol.upper(), "", [], b""))
            peer.send(self._answer % peer.port)


class Grpc(PeerBackend):
    """An HTTP/2 server for grpc_pass.

    Args:
        headers: of each answer.
    """

    def __init__(self, *headers: tuple[str, str]) -> None:
        self._headers = headers
        super().__init__()

    def serve(self, peer: Peer) -> None:
        """Serve a connection to its end."""
        connection = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        connection.initiate_connection()
        peer.send(connection.data_to_send())
        while True:
            for event in connection.receive_data(peer.read_some()):
                if isinstance(event, h2.events.StreamEnded):
                    self.record(peer, Request("GRPC", "", [], b""))
                    connection.send_headers(
                        event.stream_id,
                        [
                            (":status", "200"),
                            ("content-type", "application/grpc"),
                            *self._headers,
                        ],
                    )
                    connection.send_data(event.stream_id, b"%d\n" % peer.port)
                    connection.send_headers(
                        event.stream_id, [("grpc-status", "0")], end_stream=True
                    )
                    peer.send(connection.data_to_send())
