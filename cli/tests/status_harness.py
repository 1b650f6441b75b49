"""A server in place of nginx and its status location, and certificates for it."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from ctl_harness import TIMEOUT

if TYPE_CHECKING:
    from typing_extensions import Self

LOCATION = "/sendfile-status"


@dataclass
class Reply:
    """An answer to one request.

    Attributes:
        status: its code.
        body: of it.
        headers: more of them.
    """

    status: int = 200
    body: bytes = b'{"purged":true}\n'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request that came.

    Attributes:
        method: of it.
        target: its path, as it was sent.
        headers: of it, by their names in lower case.
    """

    method: str
    target: str
    headers: dict[str, str]

    @property
    def key(self) -> bytes:
        """The key that is to be purged."""
        head, _, key = self.target.rpartition("/cache/")
        assert head == LOCATION, self.target
        return unquote_to_bytes(key)

    @property
    def url(self) -> bytes:
        """The URL whose answer is to be purged."""
        head, _, url = self.target.partition("?url=")
        assert head == f"{LOCATION}/cache", self.target
        return unquote_to_bytes(url)


class StatusServer:
    """Answers DELETE, GET and HEAD, over connections that stay open.

    Args:
        reply: called with each request; by default it was done.
        unix: the path of a socket to listen on, in place of TCP.
        tls: what to speak TLS with.

    Attributes:
        asked: the requests so far.
        connections: how many there were.
    """

    def __init__(
        self,
        reply: Callable[[Asked], Reply] = lambda asked: Reply(),
        unix: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.reply = reply
        self.unix = unix
        self.tls = tls
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = TIMEOUT
            # an answer is one packet
            wbufsize = -1

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def do_DELETE(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers)
                outer.asked.append(asked)
                reply = outer.reply(asked)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            do_GET = do_HEAD = do_DELETE

            def address_string(self) -> str:
                return "client"

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
            address_family = socket.AF_INET if unix is None else socket.AF_UNIX
            daemon_threads = True
            # a client that hangs up early, or knows no TLS, is what some tests are
            handle_error = staticmethod(lambda request, address: None)  # type: ignore[assignment]

            def get_request(self) -> tuple[Any, Any]:
                sock, address = super().get_request()
                sock.settimeout(TIMEOUT)
                if outer.tls is not None:
                    sock = outer.tls.wrap_socket(sock, server_side=True)
                return sock, address

        where = ("127.0.0.1", 0) if unix is None else str(unix)
        self._server = Server(where, Handler)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        """Of TCP."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What the program is given."""
        if self.unix is not None:
            return f"http+unix://{str(self.unix).replace('/', '%2F')}{LOCATION}"
        if self.tls is not None:
            return f"https://localhost:{self.port}{LOCATION}"
        return f"http://127.0.0.1:{self.port}{LOCATION}"

    @property
    def origin(self) -> str:
        """The URL without the location."""
        return self.url.removesuffix(LOCATION)

    @property
    def targets(self) -> list[str]:
        """What was asked for so far."""
        return [asked.target for asked in self.asked]

    @property
    def keys(self) -> list[bytes]:
        """The keys that came so far."""
        return [asked.key for asked in self.asked]

    @property
    def urls(self) -> list[bytes]:
        """The URLs that came so far."""
        return [asked.url for asked in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def error(status: int, text: str) -> Reply:
    """An error as the module answers it."""
    return Reply(status, json.dumps({"error": text}).encode() + b"\n")


def page(status: int, text: str, **headers: str) -> Reply:
    """An error as nginx answers it."""
    body = f"<html><head><title>{status} {text}</title></head></html>\r\n"
    return Reply(status, body.encode(), headers)


def make_certificate(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """Makes a certificate for localhost.

    Returns:
        Its file, and what a server needs to use it.
    """
    certificate, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        env=os.environ,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
