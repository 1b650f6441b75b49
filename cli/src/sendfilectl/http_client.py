"""HTTP, as everything here speaks it that asks nginx: one connection that is kept
alive, and a sentence for whatever goes wrong with it.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from typing import Callable
from urllib.parse import quote, unquote_to_bytes

from sendfilectl import __version__
from sendfilectl.connect import connect
from sendfilectl.contract import show
from sendfilectl.errors import CtlError, UsageError

_PORTS = {"http": 80, "https": 443, "http+unix": 0}

AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([^:]*))?")
CONTROL = re.compile(r"[\x00-\x20\x7f]")
_HOST6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")

# what a path may hold as it is, "%" since it may be encoded already
PATH_SAFE = "/%:@!$&'()*+,;=~"

# sizeof(sun_path) on Linux, less the NUL
_MAX_SOCKET = 107

_MAX_ANSWER = 65536
_CHUNK = 65536

WRITE = "write http://host[:port]/location, that of http_sendfile_status"


@dataclass(frozen=True)
class HttpUrl:
    """Where nginx listens, and a path there, taken apart.

    Attributes:
        text: the URL for messages, without a password.
        scheme: "http", "https" or "http+unix".
        host: a name or an address, or the path of a unix socket.
        port: of TCP, 0 for a unix socket.
        name: the value of the request header Host.
        path: percent-encoded, without a "/" at its end.
        authorization: the value of that request header, None for none.
    """

    text: str
    scheme: str
    host: str
    port: int
    name: str
    path: str
    authorization: str | None = None


def parse_http_url(text: str, write: str = WRITE) -> HttpUrl:
    """Takes a URL of nginx's apart, that of a status location by default.

    Args:
        text: the URL.
        write: what to write instead, for messages.

    Raises:
        UsageError: it is none, with what to write instead.
    """
    if CONTROL.search(text):
        raise UsageError(f"the URL {text!r} holds a space or a control byte: {write}")
    # no password in a message, and so in no log of a timer's
    shown = re.sub("//[^/]*@", "//", text, count=1)
    scheme, colon, rest = text.partition("://")
    scheme = scheme.lower()
    if not colon or scheme not in _PORTS:
        raise UsageError(f"'{shown}' is not a URL of nginx: {write}")
    for mark in "?#":
        if mark in rest:
            raise UsageError(f"'{shown}' has a '{mark}': leave it and the rest away")
    authority, _, path = rest.partition("/")
    user, at, server = authority.rpartition("@")
    path = quote(os.fsencode(f"/{path}"), safe=PATH_SAFE).rstrip("/")
    if scheme == "http+unix":
        host, port, name = _socket_path(shown, server), 0, "localhost"
    else:
        host, port = _host_and_port(shown, server, _PORTS[scheme], write)
        name = server.encode("idna").decode("ascii")
    return HttpUrl(
        text=f"{scheme}://{server}{path}",
        scheme=scheme,
        host=host,
        port=port,
        name=name,
        path=path,
        authorization=_basic(user) if at else None,
    )


def _host_and_port(text: str, server: str, port: int, write: str) -> tuple[str, int]:
    match = AUTHORITY.fullmatch(server)
    if match is None:
        raise UsageError(f"'{text}' has a bad host: {write}; IPv6 as [::1]")
    host, number = match.groups()
    if number is not None:
        port = int(number) if re.fullmatch("[0-9]{1,9}", number, re.ASCII) else 0
        if not 1 <= port <= 65535:
            raise UsageError(f"'{text}' has a bad port: write a number from 1 to 65535")
    if host.startswith("["):
        host = host[1:-1]
        good = _HOST6.fullmatch(host) is not None
    else:
        try:
            good = bool(host.encode("idna"))
        except UnicodeError:
            good = False
    if not good:
        raise UsageError(f"'{text}' has a bad host: {write}; IPv6 as [::1]")
    return host, port


def _socket_path(text: str, server: str) -> str:
    path = unquote_to_bytes(os.fsencode(server))
    if not path.startswith(b"/"):
        raise UsageError(
            f"'{text}' names no socket: write its absolute path with %2F for each "
            "'/', such as http+unix://%2Frun%2Fnginx.sock/location"
        )
    if len(path) > _MAX_SOCKET or b"\0" in path:
        raise UsageError(
            f"'{text}': the path of a socket has at most {_MAX_SOCKET} bytes and no NUL"
        )
    return os.fsdecode(path)


def _basic(user: str) -> str:
    credentials = base64.b64encode(unquote_to_bytes(os.fsencode(user)))
    return f"Basic {credentials.decode('ascii')}"


class _Http(http.client.HTTPConnection):
    """A connection to nginx that is made when it is needed."""

    def __init__(
        self,
        url: HttpUrl,
        connect_timeout: float,
        timeout: float,
        note: Callable[[str], None],
    ) -> None:
        # for nothing, since connect() and the header Host have it from the URL
        super().__init__("localhost")
        self._url = url
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._note = note
        self._tls = ssl.create_default_context() if url.scheme == "https" else None

    def connect(self) -> None:
        url = self._url
        sock = connect(url.host, url.port, self._connect_timeout, self._note)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=url.host)
            sock.settimeout(self._timeout)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


@dataclass(frozen=True)
class Answer:
    """What nginx has answered.

    Attributes:
        status: the code.
        reason: the phrase, which any server makes up.
        headers: the fields, whose names may have any case.
        body: all of it; nothing if it was too long, or is passed over.
        size: its length in bytes, as far as it was read.
    """

    status: int
    reason: str
    headers: Message
    body: bytes
    size: int

    def object(self) -> dict[str, object]:
        """The JSON object of the body; an empty one if it is none."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Client:
    """Asks one nginx, over one connection that is kept alive.

    Args:
        url: of it; requests are for paths below this one.
        connect_timeout: seconds for a connection.
        timeout: seconds to wait for a server that says nothing.
        note: where to say that something takes long.
        host: the value of the header Host, if it is not the URL's.
    """

    def __init__(
        self,
        url: HttpUrl,
        connect_timeout: float,
        timeout: float,
        note: Callable[[str], None],
        host: str | None = None,
    ) -> None:
        self.url = url
        self._http = _Http(url, connect_timeout, timeout, note)
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._headers = {
            "Host": host or url.name,
            "User-Agent": f"sendfilectl/{__version__}",
        }
        if url.authorization is not None:
            self._headers["Authorization"] = url.authorization

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def ask(
        self,
        method: str,
        target: str,
        accept: str = "application/json",
        limit: int | None = _MAX_ANSWER,
    ) -> Answer:
        """Sends a request, once more if the connection was closed meanwhile.

        Args:
            method: of the request, which may be repeated.
            target: what follows the URL, percent-encoded.
            accept: the value of that header.
            limit: bytes of a body that is of use; None passes it over, whatever
                its length.

        Raises:
            CtlError: there is no answer, with what to do about it.
        """
        while True:
            reused = self._http.sock is not None
            try:
                return self._exchange(method, target, accept, limit)
            except (ConnectionError, ssl.SSLEOFError) as error:
                # an idle connection may be closed at any time
                self._http.close()
                if not reused:
                    raise CtlError(f"{self.url.text}: {_reason(error)}") from None
            except socket.timeout:
                if self._http.sock is None:
                    reason = f"no connection within {self._connect_timeout:g} s"
                else:
                    reason = f"no answer within {self._timeout:g} s"
                    self._http.close()
                raise CtlError(f"{self.url.text}: {reason}") from None
            except (OSError, http.client.HTTPException) as error:
                self._http.close()
                raise CtlError(f"{self.url.text}: {_reason(error)}") from None

    def _exchange(
        self, method: str, target: str, accept: str, limit: int | None
    ) -> Answer:
        headers = {**self._headers, "Accept": accept}
        self._http.request(method, self.url.path + target, headers=headers)
        body, size = bytearray(), 0
        with self._http.getresponse() as response:
            while not response.isclosed() and (limit is None or size <= limit):
                left = _CHUNK if limit is None else limit + 1 - size
                chunk = response.read(left)
                size += len(chunk)
                if limit is not None:
                    body += chunk
            if limit is not None and size > limit:
                self._http.close()
                body.clear()
            elif response.length and method != "HEAD":
                raise http.client.IncompleteRead(bytes(body), response.length)
        return Answer(
            response.status, response.reason, response.headers, bytes(body), size
        )

    def failure(self, target: str, answer: Answer, hints: Mapping[int, str]) -> str:
        """What an answer that is no success means, and what to do.

        Args:
            target: what was asked for.
            answer: of that.
            hints: what to do, for some status codes.
        """
        status = answer.status
        said = answer.object().get("error")
        text = f"{self.url.text}: answers {status}"
        if isinstance(said, str):
            text += f" ({_printable(said)})"
        elif answer.reason:
            text += f" {_printable(answer.reason)}"
        hint = hints.get(status)
        if 300 <= status < 400:
            to = answer.headers.get("Location", "").removesuffix(target)
            hint = f"write the URL that it leads to, {_printable(to) or 'another'}"
        elif status == HTTPStatus.BAD_REQUEST and (
            b"plain HTTP request was sent to HTTPS port" in answer.body
        ):
            hint = "write https://"
        return f"{text}: {hint}" if hint else text


def _printable(text: str) -> str:
    # http.client reads the head as Latin-1
    return show(text[:200].encode("utf-8", "replace"))


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{error.verify_message}: write the name that its certificate has, or "
            "set SSL_CERT_FILE to the file of its CA's"
        )
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "no TLS is spoken there: write http://"
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: write the host and port where nginx listens"
    if isinstance(error, (http.client.RemoteDisconnected, http.client.IncompleteRead)):
        return "closed the connection"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "what it answers is not HTTP"
