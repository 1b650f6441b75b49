"""The application behind nginx: records requests, answers by script."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .client import Headers, header_items


@dataclass(frozen=True)
class Request:
    """A request as the application got it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of the first header of that name."""
        for n, value in self.headers:
            if n.lower() == name.lower():
                return value
        return None


@dataclass(frozen=True)
class Reply:
    """What the application answers; Content-Length is added."""

    status: int = 200
    headers: Headers = field(default_factory=list)
    body: bytes = b""


Script = Callable[[Request], Reply]


def say_request(request: Request) -> Reply:
    """Answer with the method and the target of the request."""
    return Reply(body=f"app {request.method} {request.target}\n".encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def do(self) -> None:
        assert isinstance(self.server, _Server)
        length = int(self.headers.get("Content-Length", "0"))
        request = Request(
            self.command, self.path, list(self.headers.items()), self.rfile.read(length)
        )
        reply = self.server.backend.take(request)
        self.send_response_only(reply.status)
        for name, value in header_items(reply.headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Backend:
    """A threaded HTTP server on an ephemeral port of 127.0.0.1.

    Args:
        script: makes the reply; the default answers with the request line.
    """

    def __init__(self, script: Script = say_request) -> None:
        self.script = script
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._failures: list[BaseException] = []
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    @property
    def address(self) -> str:
        """host:port, for proxy_pass."""
        return f"127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order they came."""
        with self._lock:
            return list(self._requests)

    def only_request(self) -> Request:
        """Return the one request there was.

        Raises:
            AssertionError: there was none, or several.
        """
        requests = self.requests
        assert len(requests) == 1, f"not one request: {requests}"
        return requests[0]

    def take(self, request: Request) -> Reply:
        """Record a request and return the script's reply."""
        with self._lock:
            self._requests.append(request)
        try:
            return self.script(request)
        except BaseException as failure:
            self._failures.append(failure)
            raise

    def close(self) -> None:
        """Stop serving.

        Raises:
            AssertionError: a script had raised.
        """
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        assert not self._failures, f"the script raised {self._failures}"
