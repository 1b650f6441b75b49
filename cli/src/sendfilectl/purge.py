"""purge: what nginx's cache has is old, for some keys, for some URLs, or all of it.

The server's side is the directive http_sendfile_status with ``write``:
``DELETE <location>/cache/KEY``, ``DELETE <location>/cache?url=URL`` and
``DELETE <location>/cache`` are answered with 200 and ``{"purged":true}``,
whether or not there was anything.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Callable
from urllib.parse import quote, unquote_to_bytes

from sendfilectl import __version__
from sendfilectl.connect import connect
from sendfilectl.contract import check_key, show
from sendfilectl.errors import CtlError, Refused, UsageError
from sendfilectl.formats import Lines
from sendfilectl.importer import Source
from sendfilectl.output import Output

_PORTS = {"http": 80, "https": 443, "http+unix": 0}

_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([^:]*))?")
_HOST6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")

# what a path may hold as it is, "%" since it may be encoded already
_PATH_SAFE = "/%:@!$&'()*+,;=~"

# sizeof(sun_path) on Linux, less the NUL
_MAX_SOCKET = 107

_MAX_ANSWER = 65536
_MAX_ERRORS = 1_000

_WRITE = "write http://host[:port]/location, that of http_sendfile_status"

_WEB = re.compile(r"https?://", re.IGNORECASE)
_WRITE_WHOLE = (
    "write all of it, as clients ask for it, such as http://www.example.com/file/7"
)


@dataclass(frozen=True)
class StatusUrl:
    """Where nginx has http_sendfile_status, taken apart.

    Attributes:
        text: the URL for messages, without a password.
        scheme: "http", "https" or "http+unix".
        host: a name or an address, or the path of a unix socket.
        port: of TCP, 0 for a unix socket.
        name: the value of the request header Host.
        path: of the location, percent-encoded, without a "/" at its end.
        authorization: the value of that request header, None for none.
    """

    text: str
    scheme: str
    host: str
    port: int
    name: str
    path: str
    authorization: str | None = None


def parse_status_url(text: str) -> StatusUrl:
    """Takes the URL of a location with http_sendfile_status apart.

    Raises:
        UsageError: it is none, with what to write instead.
    """
    if _CONTROL.search(text):
        raise UsageError(f"the URL {text!r} holds a space or a control byte: {_WRITE}")
    # no password in a message, and so in no log of a timer's
    shown = re.sub("//[^/]*@", "//", text, count=1)
    scheme, colon, rest = text.partition("://")
    scheme = scheme.lower()
    if not colon or scheme not in _PORTS:
        raise UsageError(f"'{shown}' is not a URL of nginx: {_WRITE}")
    for mark in "?#":
        if mark in rest:
            raise UsageError(f"'{shown}' has a '{mark}': leave it and the rest away")
    authority, _, path = rest.partition("/")
    user, at, server = authority.rpartition("@")
    path = quote(os.fsencode(f"/{path}"), safe=_PATH_SAFE).rstrip("/")
    if scheme == "http+unix":
        host, port, name = _socket_path(shown, server), 0, "localhost"
    else:
        host, port = _host_and_port(shown, server, _PORTS[scheme])
        name = server.encode("idna").decode("ascii")
    return StatusUrl(
        text=f"{scheme}://{server}{path}",
        scheme=scheme,
        host=host,
        port=port,
        name=name,
        path=path,
        authorization=_basic(user) if at else None,
    )


def _host_and_port(text: str, server: str, port: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(server)
    if match is None:
        raise UsageError(f"'{text}' has a bad host: {_WRITE}; IPv6 as [::1]")
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
        raise UsageError(f"'{text}' has a bad host: {_WRITE}; IPv6 as [::1]")
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


def key_path(key: bytes) -> str:
    """Where below the location a key is purged; nginx decodes it to just its bytes.

    Raises:
        Refused: it can be no key, or nginx would look for it elsewhere.
    """
    check_key(key)
    # nginx finds the location by the path with "%2F" and "%2E%2E" decoded and
    # resolved; one level up is still within it
    depth = 1
    for segment in key.split(b"/"):
        if segment == b"..":
            depth -= 1
        elif segment not in (b"", b"."):
            depth += 1
        if depth < 0:
            raise Refused(
                "the '..' in the ID leads out of the location, where nginx does not "
                "find it: purge all with --all"
            )
    return f"/cache/{quote(key, safe='').replace('.', '%2E')}"


def looks_like_url(key: bytes) -> bool:
    """Whether a key may have been meant as the URL of a learned answer."""
    return _WEB.match(os.fsdecode(key)) is not None


def url_path(url: bytes) -> str:
    """Where below the location what was learned for a URL is purged.

    Its bytes stay as they are: an answer is known by what the client has sent.

    Raises:
        Refused: no client sends that, with what to write instead.
    """
    text = os.fsdecode(url)
    if not text:
        raise Refused(f"the URL is empty: {_WRITE_WHOLE}")
    if _CONTROL.search(text):
        raise Refused(
            "the URL holds a space or a control byte: write it percent-encoded, as "
            "clients do, such as %20"
        )
    match = _WEB.match(text)
    if match is None:
        raise Refused(f"the URL has no http:// or https:// before it: {_WRITE_WHOLE}")
    if "#" in text:
        raise Refused(
            "the URL has a '#': leave it and the rest away, no client sends them"
        )
    scheme, rest = text[: match.end()], text[match.end() :]
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    target = rest[len(authority) :]
    if "@" in authority:
        raise Refused(
            "the URL has an '@' before its path: leave the user and the password away"
        )
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not found[1]:
        raise Refused(f"the URL has no good host: {_WRITE_WHOLE}")
    try:
        # as in the header Host
        authority = authority.encode("idna").decode("ascii")
    except UnicodeError:
        raise Refused(f"the URL has no good host: {_WRITE_WHOLE}") from None
    if not target.startswith("/"):
        target = f"/{target}"
    url = os.fsencode(f"{scheme}{authority}{target}")
    return f"/cache?url={quote(url, safe='')}"


class _Http(http.client.HTTPConnection):
    """A connection to nginx that is made when it is needed."""

    def __init__(
        self,
        url: StatusUrl,
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


class Purger:
    """Asks one nginx to purge, over one connection that is kept alive.

    Args:
        url: of its status location.
        connect_timeout: seconds for a connection.
        timeout: seconds to wait for a server that says nothing.
        note: where to say that something takes long.
    """

    def __init__(
        self,
        url: StatusUrl,
        connect_timeout: float,
        timeout: float,
        note: Callable[[str], None],
    ) -> None:
        self._url = url
        self._http = _Http(url, connect_timeout, timeout, note)
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._headers = {
            "Host": url.name,
            "Accept": "application/json",
            "User-Agent": f"sendfilectl/{__version__}",
        }
        if url.authorization is not None:
            self._headers["Authorization"] = url.authorization

    def key(self, key: bytes) -> None:
        """Purges a key.

        Raises:
            Refused: the key is none, here or for nginx.
            CtlError: there is no use in going on.
        """
        self._delete(key_path(key))

    def url(self, url: bytes) -> None:
        """Purges what was learned for a URL.

        Raises:
            Refused: it is none, here or for nginx.
            CtlError: there is no use in going on.
        """
        self._delete(url_path(url))

    def all(self) -> None:
        """Purges everything.

        Raises:
            CtlError: it was not done.
        """
        try:
            self._delete("/cache")
        except Refused as error:
            raise CtlError(str(error)) from None

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def _delete(self, path: str) -> None:
        """Sends a request, once more if the connection was closed meanwhile."""
        while True:
            reused = self._http.sock is not None
            try:
                self._exchange(path)
                return
            except (ConnectionError, ssl.SSLEOFError) as error:
                # an idle connection may be closed at any time; to purge twice
                # is as good as once
                self._http.close()
                if not reused:
                    raise CtlError(f"{self._url.text}: {_reason(error)}") from None
            except socket.timeout:
                if self._http.sock is None:
                    reason = f"no connection within {self._connect_timeout:g} s"
                else:
                    reason = f"no answer within {self._timeout:g} s"
                raise CtlError(f"{self._url.text}: {reason}") from None
            except (OSError, http.client.HTTPException) as error:
                raise CtlError(f"{self._url.text}: {_reason(error)}") from None

    def _exchange(self, path: str) -> None:
        self._http.request("DELETE", self._url.path + path, headers=self._headers)
        with self._http.getresponse() as response:
            body = b""
            while not response.isclosed() and len(body) <= _MAX_ANSWER:
                body += response.read(_MAX_ANSWER + 1 - len(body))
            if len(body) > _MAX_ANSWER:
                self._http.close()
                body = b""
            elif response.length:
                raise http.client.IncompleteRead(body, response.length)
        found = _object(body)
        if response.status == HTTPStatus.OK:
            purged = found.get("purged")
            if purged is True:
                return
            # an older module says how many entries there were
            if isinstance(purged, int) and purged is not False and purged >= 0:
                if "?" in path:
                    raise CtlError(
                        f"{self._url.text}: the module of this nginx is an older one, "
                        "which does not purge by a URL and has purged everything: "
                        "install the new one"
                    )
                return
        said = found.get("error")
        raise self._failure(
            path, response, body, said if isinstance(said, str) else None
        )

    def _failure(
        self,
        path: str,
        response: http.client.HTTPResponse,
        body: bytes,
        said: str | None,
    ) -> Exception:
        """What an answer that is no success means.

        Args:
            path: what was asked for, below the location.
            response: its head.
            body: of it.
            said: the "error" of the module's JSON, None if it is not that.
        """
        status = response.status
        text = f"{self._url.text}: answers {status}"
        if said is not None:
            text += f" ({_printable(said)})"
        elif response.reason:
            text += f" {_printable(response.reason)}"
        hint = _HINTS.get(status)
        if status == HTTPStatus.OK:
            hint = f'but not {{"purged":true}}: is it no http_sendfile_status? {_WRITE}'
        elif status == HTTPStatus.BAD_REQUEST:
            if said is not None:
                return Refused(text)
            if b"plain HTTP request was sent to HTTPS port" in body:
                hint = "write https://"
        elif status == HTTPStatus.REQUEST_URI_TOO_LONG:
            return Refused(
                f"{text}: it is longer than a line of large_client_header_buffers "
                "there: purge the ID, or all with --all"
            )
        elif 300 <= status < 400:
            target = response.headers.get("Location", "").removesuffix(path)
            hint = f"write the URL that it leads to, {_printable(target) or 'another'}"
        return CtlError(f"{text}: {hint}" if hint else text)


_HINTS = {
    401: "write http://user:password@host/location",
    403: "write 'http_sendfile_status write;' in that location, and let this "
    "machine in where it has 'allow' and 'deny'",
    404: f"there is no http_sendfile_status at this URL: {_WRITE}",
    405: f"there is no http_sendfile_status at this URL: {_WRITE}",
}


def _object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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


@dataclass
class Purged:
    """What was done.

    Attributes:
        urls: whether it is URLs, and not IDs, that are purged.
        done: how many were, whether or not there was anything.
        failed: how many were not.
        errors: the first thousand of these.
        hinted: that an ID looks like a URL has been said.
    """

    urls: bool = False
    done: int = 0
    failed: int = 0
    errors: list[dict[str, object]] = field(default_factory=list)
    hinted: bool = False

    def fail(self, where: dict[str, object], reason: str) -> None:
        """Counts one that was not purged."""
        self.failed += 1
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append({**where, "error": reason})

    def document(self) -> dict[str, object]:
        """For JSON output."""
        found: dict[str, object] = {"urls" if self.urls else "keys": self.done}
        if self.failed:
            found["failed"] = self.failed
            found["errors"] = self.errors
        return found

    def text(self) -> str:
        """In words."""
        what = "URL" if self.urls else "ID"
        text = f"purged {self.done} {what}{'' if self.done == 1 else 's'}"
        return f"{text}, {self.failed} not" if self.failed else text


def purge_names(
    purger: Purger, names: Sequence[bytes], out: Output, done: Purged
) -> None:
    """Purges some IDs or URLs. A bad one is reported and passed over.

    Args:
        purger: of the nginx.
        names: which.
        out: for bad ones and progress.
        done: says what they are, and is kept up to date all the time.

    Raises:
        CtlError: there is no use in going on.
    """
    with out.progress("purging", len(names)) as progress:
        for name in names:
            try:
                _purge(purger, name, out, done)
            except Refused as error:
                done.fail({"url" if done.urls else "id": show(name)}, str(error))
                out.warn(f"{show(name)}: {error}")
            progress(done.done + done.failed)


def purge_lines(purger: Purger, src: Source, out: Output, done: Purged) -> None:
    """Purges the IDs or URLs of a file, one on each line; blank lines are none.

    Args:
        purger: of the nginx.
        src: the file.
        out: for bad lines, each with file and line number, and progress.
        done: says what they are, and is kept up to date all the time.

    Raises:
        CtlError: the file cannot be read, or there is no use in going on.
    """
    lines = Lines(src.file)
    with out.progress("purging", src.size, size=True) as progress:
        for name in lines:
            if not name or name.isspace():
                continue
            try:
                _purge(purger, name, out, done)
            except Refused as error:
                done.fail({"line": lines.number}, str(error))
                out.note(f"{src.label}:{lines.number}: {error}")
            progress(lines.bytes)


def _purge(purger: Purger, name: bytes, out: Output, done: Purged) -> None:
    if done.urls:
        purger.url(name)
    else:
        if not done.hinted and looks_like_url(name):
            done.hinted = True
            out.warn(
                f"{show(name)} is purged as an ID: for what was learned for a URL "
                "write --url before it"
            )
        purger.key(name)
    done.done += 1
