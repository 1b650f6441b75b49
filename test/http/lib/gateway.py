"""An application for proxy_pass, fastcgi_pass, uwsgi_pass and scgi_pass.

One script answers for all four protocols, and sees the same request:

    gateway.answers["/report"] = Said(headers=[("X-Sendfile", "/srv/a.pdf")])

What it is asked and what it answers are bytes of the test's choice: headers
keep their order and their duplicates, and may hold any byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from .backend import Request
from .http10 import Gone, Peer, PeerBackend, PeerRequest

PROTOCOLS = ("http", "fastcgi", "uwsgi", "scgi")

# name and value of each header; str is sent as UTF-8
Lines = Sequence[tuple[str | bytes, str | bytes]]

# what nginx's directives for a protocol begin with
PREFIXES = {"http": "proxy", "fastcgi": "fastcgi", "uwsgi": "uwsgi", "scgi": "scgi"}

CGI_PARAMS = {
    "REQUEST_METHOD": "$request_method",
    "REQUEST_URI": "$request_uri",
    "DOCUMENT_URI": "$uri",
    "QUERY_STRING": "$query_string",
    "CONTENT_TYPE": "$content_type",
    "CONTENT_LENGTH": "$content_length",
    "SERVER_PROTOCOL": "$server_protocol",
    "SERVER_NAME": "$server_name",
}

# FastCGI: types of records, and the most that one holds
BEGIN, END, PARAMS, STDIN, STDOUT = 1, 3, 4, 5, 6
RECORD = 65535


@dataclass(frozen=True)
class Said:
    """An answer.

    Args:
        status: its code.
        headers: in their order, any of them more than once.
        body: what follows them. An answer to HEAD has none over HTTP.
        length: of the Content-Length; None has none, -1 that of the body.
        status_line: a status line, as in HTTP; without one it is the CGI's
            ``Status`` header, in the place of ``status_at``. HTTP and FastCGI
            have no choice.
        status_at: ``first``, ``last``, or ``none`` where 200 is understood.
        piece: send in pieces of so many bytes, for FastCGI in records of
            that size; 0 leaves it in one.
        drop: close the connection, when so many bytes have been sent.
    """

    status: int = 200
    headers: Lines = ()
    body: bytes = b""
    length: int | None = -1
    status_line: bool = False
    status_at: str = "first"
    piece: int = 0
    drop: int | None = None

    def head(self, line: bytes) -> bytes:
        """Return the head, to its empty line.

        Args:
            line: the status line; if it is empty there is a Status header.
        """
        lines = [_bytes(n) + b": " + _bytes(v) for n, v in self.headers]
        if self.length is not None:
            length = len(self.body) if self.length == -1 else self.length
            lines.append(b"Content-Length: %d" % length)
        if line:
            lines.insert(0, line)
        elif self.status_at != "none":
            at = 0 if self.status_at == "first" else len(lines)
            lines.insert(at, b"Status: %d Said" % self.status)
        return b"\r\n".join([*lines, b"", b""])


Script = Callable[[PeerRequest], Said]


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def nothing(request: PeerRequest) -> Said:
    """Answer 404: what the table of answers does not have."""
    return Said(404, body=b"the application has no " + request.target.encode())


class Gateway(PeerBackend):
    """The application, on an ephemeral port of 127.0.0.1.

    Args:
        protocol: one of ``PROTOCOLS``.
        script: answers what ``answers`` does not have.
    """

    def __init__(self, protocol: str = "http", script: Script = nothing) -> None:
        assert protocol in PROTOCOLS
        self.protocol = protocol
        self.script = script
        self.answers: dict[str, Said] = {}
        super().__init__()

    @property
    def prefix(self) -> str:
        """What the directives for its protocol begin with."""
        return PREFIXES[self.protocol]

    def passes(self, to: str = "") -> str:
        """Return the directives that pass a request to it.

        Args:
            to: the name of an upstream that has it; its address by default.
        """
        to = to or self.address
        if self.protocol == "http":
            return f"proxy_pass http://{to};"
        params = dict(CGI_PARAMS)
        if self.protocol == "scgi":
            params["SCGI"] = "1"
        lines = [f"{self.prefix}_param {n} {v};" for n, v in params.items()]
        return " ".join([f"{self.prefix}_pass {to};", *lines])

    def directive(self, name: str, value: str) -> str:
        """Return a directive that there is for each protocol.

        Args:
            name: of the one for HTTP, without ``proxy_``.
            value: its parameters.
        """
        return f"{self.prefix}_{name} {value};"

    def count(self, target: str | None = None) -> int:
        """Return how many requests have come, all or those of one target."""
        return sum(target in (None, r.target) for r in self.requests)

    def answer(self, request: PeerRequest) -> Said:
        """Return what is answered to a request."""
        path = request.target.partition("?")[0]
        for target in (request.target, path):
            if target in self.answers:
                return self.answers[target]
        return self.script(request)

    def serve(self, peer: Peer) -> None:
        """Serve a connection to its end."""
        serve = {
            "http": self._http,
            "fastcgi": self._fastcgi,
            "uwsgi": self._uwsgi,
            "scgi": self._scgi,
        }
        while serve[self.protocol](peer):
            pass

    def _http(self, peer: Peer) -> bool:
        line, *lines = peer.read_to(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        pairs = [s.partition(":") for s in lines]
        headers = [(name, value.strip()) for name, _, value in pairs]
        known = {name.lower(): value for name, value in headers}
        body = peer.read(int(known.get("content-length", "0")))
        request = self.record(peer, Request(method, target, headers, body))
        said = self.answer(request)
        head = said.head(b"HTTP/1.1 %d Said" % said.status)
        _send(peer, head + (b"" if method == "HEAD" else said.body), said)
        keep = "keep-alive" if version == "HTTP/1.0" else ""
        # to nobody's surprise: Connection is a list, but nginx sends one word
        return known.get("connection", "").lower() == keep and said.length is not None

    def _fastcgi(self, peer: Peer) -> bool:
        keep, ident = 0, 0
        streams = {PARAMS: b"", STDIN: b""}
        while True:
            _, kind, ident, length, padding = struct.unpack(">BBHHBx", peer.read(8))
            content = peer.read(length)
            peer.read(padding)
            if kind == BEGIN:
                keep = content[2] & 1
            elif kind in streams:
                streams[kind] += content
            if kind == STDIN and not length:
                break
        params = _fastcgi_params(streams[PARAMS])
        request = self._cgi_request(peer, params, streams[STDIN])
        said = self.answer(request)
        data = said.head(b"") + said.body
        answer = b""
        size = said.piece or RECORD
        for at in range(0, len(data), size):
            answer += _record(STDOUT, ident, data[at : at + size])
        answer += _record(STDOUT, ident, b"") + _record(END, ident, bytes(8))
        _send(peer, answer, said)
        return bool(keep)

    def _uwsgi(self, peer: Peer) -> bool:
        _, length, _ = struct.unpack("<BHB", peer.read(4))
        return self._cgi(peer, _uwsgi_params(peer.read(length)))

    def _scgi(self, peer: Peer) -> bool:
        data = peer.read(int(peer.read_to(b":")))
        assert peer.read(1) == b",", "no netstring"
        parts = data.split(b"\0")
        assert parts.pop() == b"" and parts[0] == b"CONTENT_LENGTH", parts
        return self._cgi(peer, list(zip(parts[::2], parts[1::2], strict=True)))

    def _cgi(self, peer: Peer, params: list[tuple[bytes, bytes]]) -> bool:
        body = peer.read(int(dict(params).get(b"CONTENT_LENGTH") or b"0"))
        said = self.answer(self._cgi_request(peer, params, body))
        line = b"HTTP/1.1 %d Said" % said.status if said.status_line else b""
        _send(peer, said.head(line) + said.body, said)
        return False

    def _cgi_request(
        self, peer: Peer, params: list[tuple[bytes, bytes]], body: bytes
    ) -> PeerRequest:
        known = {name.decode(): value.decode("latin-1") for name, value in params}
        headers = [
            (name[5:].decode("latin-1"), value.decode("latin-1"))
            for name, value in params
            if name.startswith(b"HTTP_")
        ]
        method, target = known["REQUEST_METHOD"], known["REQUEST_URI"]
        # REQUEST_URI is the client's, also of a subrequest and after a redirect
        uri, _, query = target.partition("?")
        if unquote_to_bytes(uri) != known["DOCUMENT_URI"].encode("latin-1"):
            query = known["QUERY_STRING"]
            target = known["DOCUMENT_URI"] + ("?" + query if query else "")
        return self.record(peer, Request(method, target, headers, body))


def _send(peer: Peer, data: bytes, said: Said) -> None:
    if said.drop is not None:
        peer.send(data[: said.drop])
        raise Gone
    if said.piece:
        for at in range(0, len(data), said.piece):
            peer.send(data[at : at + said.piece])
    else:
        peer.send(data)


def _record(kind: int, ident: int, content: bytes) -> bytes:
    """Return a record of FastCGI."""
    return struct.pack(">BBHHBx", 1, kind, ident, len(content), 0) + content


def _fastcgi_params(data: bytes) -> list[tuple[bytes, bytes]]:
    """Read FastCGI's name-value pairs."""
    found = []
    at = 0
    while at < len(data):
        lengths = []
        for _ in range(2):
            size = 4 if data[at] & 0x80 else 1
            number = int.from_bytes(data[at : at + size], "big")
            lengths.append(number & 0x7FFFFFFF)
            at += size
        name = data[at : at + lengths[0]]
        at += lengths[0]
        found.append((name, data[at : at + lengths[1]]))
        at += lengths[1]
    return found


def _uwsgi_params(data: bytes) -> list[tuple[bytes, bytes]]:
    """Read uwsgi's pairs: each part with its length before it."""
    parts = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<H", data, at)
        parts.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return list(zip(parts[::2], parts[1::2], strict=True))
