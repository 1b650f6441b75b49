"""An HTTP/2 client whose streams can be reset one by one."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import h2.config
import h2.connection
import h2.errors
import h2.events

from .client import Connection, ConnectionClosed, Headers, Response, header_items


class Http2Connection:
    """One connection.

    Args:
        port: of 127.0.0.1.
        tls: a context to speak TLS, which must offer h2; else prior knowledge.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._connection = Connection(port, tls)
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding="latin-1", validate_outbound_headers=False
            )
        )
        self._heads: dict[int, list[tuple[str, str]]] = {}
        self._bodies: dict[int, bytes] = {}
        self._ended: set[int] = set()
        self._reset: set[int] = set()
        self._pongs = 0
        self._h2.initiate_connection()
        self._flush()

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
        """Close the connection, with streams open or not."""
        self._connection.close()

    def abort(self) -> None:
        """Close the connection by a TCP reset."""
        self._connection.abort()

    def _flush(self) -> None:
        self._connection.send(self._h2.data_to_send())

    def send_request(
        self,
        method: str,
        path: str,
        headers: Headers | None = None,
        end: bool = True,
        authority: str = "localhost",
    ) -> int:
        """Send a request's headers and return its stream.

        Args:
            method: such as GET.
            path: with arguments.
            headers: in lower case.
            end: False if a body follows, see ``send_body``.
            authority: in place of Host.
        """
        stream = self._h2.get_next_available_stream_id()
        head = [
            (":method", method),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
            *header_items(headers),
        ]
        self._h2.send_headers(stream, head, end_stream=end)
        self._bodies[stream] = b""
        self._flush()
        return stream

    def send_body(self, stream: int, data: bytes, end: bool) -> None:
        """Send a part of a body; must fit into the server's window."""
        self._h2.send_data(stream, data, end_stream=end)
        self._flush()

    def reset(self, stream: int) -> None:
        """Reset a stream, as a client does that no longer wants the answer."""
        self._h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        self._flush()

    def _receive(self) -> None:
        data = self._connection.socket.recv(65536)
        if not data:
            raise ConnectionClosed("HTTP/2")
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                assert event.stream_id is not None and event.headers is not None
                self._heads[event.stream_id] = [
                    (_text(n), _text(v)) for n, v in event.headers
                ]
            elif isinstance(event, h2.events.DataReceived):
                assert event.stream_id is not None and event.data is not None
                self._bodies[event.stream_id] += event.data
                self._h2.acknowledge_received_data(
                    event.flow_controlled_length or 0, event.stream_id
                )
            elif isinstance(event, h2.events.StreamEnded):
                assert event.stream_id is not None
                self._ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                assert event.stream_id is not None
                self._reset.add(event.stream_id)
            elif isinstance(event, h2.events.PingAckReceived):
                self._pongs += 1
        self._flush()

    def read_response(self, stream: int) -> Response:
        """Wait for the whole answer on a stream.

        Raises:
            ConnectionClosed: the server has reset the stream or closed.
        """
        while stream not in self._ended:
            if stream in self._reset:
                raise ConnectionClosed(f"stream {stream} was reset")
            self._receive()
        head = self._heads[stream]
        headers = [(n, v) for n, v in head if not n.startswith(":")]
        return Response(
            int(dict(head)[":status"]), headers, self._bodies[stream], "HTTP/2"
        )

    def answered(self, stream: int) -> bool:
        """Tell whether the whole answer on a stream has been read already."""
        return stream in self._ended

    def ping(self) -> None:
        """Send a PING and wait for its answer: what was sent before is processed."""
        self._h2.ping(b"whenever")
        self._flush()
        wanted = self._pongs + 1
        while self._pongs < wanted:
            self._receive()


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
