"""warm: asks a server for URLs, so that its cache has them before clients do."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable
from urllib.parse import quote

from sendfilectl.contract import show
from sendfilectl.errors import CtlError, Refused, UsageError
from sendfilectl.formats import Lines
from sendfilectl.http_client import (
    CONTROL,
    PATH_SAFE,
    Client,
    HttpUrl,
    parse_http_url,
)
from sendfilectl.importer import Source
from sendfilectl.output import Output

_WRITE = "write http://host/path, or a path such as /file/7 with --base http://host"

_WEB = re.compile(rb"(https?://[^/?#]*)([^#]*)", re.IGNORECASE)

# nginx's "combined", and Apache's: what stands behind the status does not matter
_LOG = re.compile(rb'\S+ .*?\[[^\]]*\] "(.*?[^\\]|)" (\d{3}) ')
_REQUEST = re.compile(rb"(GET|HEAD) (\S+) HTTP/\d(\.\d)?")
_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})")

# that many in a row without an answer, and the server is taken to be gone
_GIVE_UP = 10

_MAX_FAILURES = 1_000
_MAX_NOTES = 20


@dataclass
class Warmed:
    """What was done.

    Attributes:
        statuses: answers by status code.
        errors: requests without an answer, by reason.
        bytes: of all bodies.
        bad: lines that mean nothing.
        passed: lines of a log that are no successful GET or HEAD.
        again: URLs that had come before.
        failures: the first thousand that were not warmed, with the reason.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    bad: int = 0
    passed: int = 0
    again: int = 0
    failures: list[dict[str, object]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def asked(self) -> int:
        """How many requests there were."""
        return sum(self.statuses.values()) + sum(self.errors.values())

    @property
    def good(self) -> bool:
        """Whether all were answered without an error, and there was any."""
        return (
            not self.bad
            and not self.errors
            and bool(self.statuses)
            and max(self.statuses) < 400
        )

    def fail(self, where: str, reason: str) -> None:
        """Keeps why a URL was not warmed."""
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append({"url": where, "error": reason})

    def document(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "urls": self.asked,
            "statuses": {str(code): n for code, n in sorted(self.statuses.items())},
            "errors": dict(self.errors),
            "bytes": self.bytes,
            "bad": self.bad,
            "passed_over": self.passed,
            "duplicates": self.again,
            "seconds": round(time.monotonic() - self.started, 3),
            "failures": self.failures,
        }

    def text(self) -> str:
        """In one line."""
        told = [f"{code}: {n}" for code, n in sorted(self.statuses.items())]
        if self.errors:
            told.append(f"no answer: {sum(self.errors.values())}")
        return f"asked for {self.asked} URLs ({', '.join(told) or 'none yet'})"

    def lines(self) -> list[str]:
        """In words."""
        seconds = time.monotonic() - self.started
        found = [f"asked for {self.asked} URLs in {seconds:.1f} s, {self.bytes} bytes"]
        told = ", ".join(f"{code}: {n}" for code, n in sorted(self.statuses.items()))
        found.append(f"status    {told or 'no answer'}")
        found += [f"error     {n}: {reason}" for reason, n in self.errors.items()]
        over = [
            f"{number} {what}"
            for number, what in (
                (self.again, "that came before"),
                (self.passed, "of the log that are no GET or HEAD with 2xx or 3xx"),
                (self.bad, "that are no URL"),
            )
            if number
        ]
        if over:
            found.append(f"not asked {', '.join(over)}")
        return found


@dataclass(frozen=True)
class Options:
    """How to ask.

    Attributes:
        base: what paths are below, None for nothing.
        host: the header Host, None for that of the URL.
        rate: requests a second.
        connections: how many at once.
        head: ask for no body.
        connect_timeout: seconds for a connection.
        timeout: seconds to wait for a server that says nothing.
    """

    base: str | None
    host: str | None
    rate: int
    connections: int
    head: bool
    connect_timeout: float
    timeout: float


@dataclass(frozen=True)
class Address:
    """What to ask for.

    Attributes:
        origin: the server, as a URL.
        target: the rest.
    """

    origin: str
    target: str


def address(line: bytes, base: str | None) -> Address | None:
    """What a line of a list or an access log asks for.

    Args:
        line: of the file.
        base: what a path is below.

    Returns:
        None for a line of a log that is no successful GET or HEAD.

    Raises:
        Refused: it means nothing, with what to write.
    """
    line = line.strip()
    log = _LOG.match(line)
    if log is not None:
        request = _REQUEST.fullmatch(log[1])
        if request is None or log[2][:1] not in b"23":
            return None
        line = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), request[2])
    match = _WEB.fullmatch(line.split(b"#")[0])
    if match is not None:
        origin, target = os.fsdecode(match[1]), match[2]
    elif line.startswith(b"/"):
        if base is None:
            raise Refused(f"'{show(line[:200])}' has no host: {_WRITE}")
        origin, target = base, line.split(b"#")[0]
    else:
        raise Refused(f"'{show(line[:200])}' is no URL: {_WRITE}")
    if CONTROL.search(os.fsdecode(target)):
        raise Refused(
            f"'{show(line[:200])}' holds a space or a control byte: write it "
            "percent-encoded, such as %20"
        )
    # as it is, but for what is not ASCII
    text = quote(target, safe=f'{PATH_SAFE}?#[]"<>\\^`{{|}}')
    return Address(origin, text if text.startswith("/") else f"/{text}")


def parse_base(text: str) -> HttpUrl:
    """Takes what paths are below apart.

    Raises:
        UsageError: it is no URL.
    """
    return parse_http_url(text, "write http://host[:port]")


class Warmer:
    """Asks for URLs, over some connections at once.

    Args:
        options: how.
        out: for what fails.
        done: is kept up to date.
    """

    def __init__(self, options: Options, out: Output, done: Warmed) -> None:
        self._options = options
        self._out = out
        self._done = done
        self._queue: queue.Queue[Address | None] = queue.Queue(options.connections)
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._gone = ""
        self._notes = 0
        self._threads = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(options.connections)
        ]

    def run(self, found: Iterator[Address]) -> None:
        """Asks for all of them.

        Raises:
            CtlError: the server does not answer any more.
        """
        for thread in self._threads:
            thread.start()
        due = time.monotonic()
        for one in found:
            now = time.monotonic()
            if due > now:
                time.sleep(due - now)
            # what is late is not made up for at once
            due = max(due, now - 1) + 1 / self._options.rate
            self._queue.put(one)
            if self._gone:
                break
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if self._gone:
            raise CtlError(self._gone)

    def _work(self) -> None:
        clients: dict[str, Client] = {}
        while True:
            one = self._queue.get()
            if one is None:
                break
            if not self._gone:
                self._ask(one, clients)
        for client in clients.values():
            client.close()

    def _ask(self, one: Address, clients: dict[str, Client]) -> None:
        options = self._options
        method = "HEAD" if options.head else "GET"
        where = show(os.fsencode(f"{one.origin}{one.target}"))
        try:
            client = clients.get(one.origin)
            if client is None:
                client = clients[one.origin] = Client(
                    parse_base(one.origin),
                    options.connect_timeout,
                    options.timeout,
                    self._out.warn,
                    options.host,
                )
            answer = client.ask(method, one.target, "*/*", limit=None)
        except CtlError as error:
            with self._lock:
                self._failed(where, str(error), one, error)
            return
        with self._lock:
            self._in_a_row = 0
            self._done.statuses[answer.status] += 1
            self._done.bytes += answer.size
            if answer.status >= 400:
                self._tell(where, f"answers {answer.status}")

    def _failed(self, where: str, reason: str, one: Address, error: CtlError) -> None:
        self._done.errors[reason] += 1
        self._tell(where, reason.removeprefix(f"{one.origin}: "))
        if isinstance(error, UsageError):
            return
        self._in_a_row += 1
        if self._in_a_row >= _GIVE_UP and not self._gone:
            self._gone = f"{reason}; {_GIVE_UP} times in a row: given up"

    def _tell(self, where: str, reason: str) -> None:
        self._done.fail(where, reason)
        self._notes += 1
        if self._notes <= _MAX_NOTES:
            self._out.note(f"{where}: {reason}")
        elif self._notes == _MAX_NOTES + 1:
            self._out.note("more of them are only counted")


def addresses(
    src: Source,
    base: str | None,
    out: Output,
    done: Warmed,
    progress: Callable[[int], Any],
) -> Iterator[Address]:
    """What the lines of a list or a log ask for, each once.

    Args:
        src: the file.
        base: what paths are below.
        out: for bad lines.
        done: is kept up to date.
        progress: is told how many bytes were read.
    """
    seen: set[int] = set()
    lines = Lines(src.file)
    for line in lines:
        progress(lines.bytes)
        if not line.strip():
            continue
        try:
            one = address(line, base)
        except Refused as error:
            done.bad += 1
            done.fail(f"{src.label}:{lines.number}", str(error))
            out.note(f"{src.label}:{lines.number}: {error}")
            continue
        if one is None:
            done.passed += 1
        elif hash(one) in seen:
            done.again += 1
        else:
            seen.add(hash(one))
            yield one
