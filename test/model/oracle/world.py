"""What has happened: the one history that clients, application and actor write."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lib.client import Response

from .files import NEVER, Span, Stored

if TYPE_CHECKING:
    from .setting import Route


@dataclass(frozen=True)
class Who:
    """Who asks, and for what.

    Args:
        listener: name of the port that is asked.
        server: which server block that leads to.
        host: the Host header.
        authority: the host of an absolute URI in the request line, or empty.
        tenant, ident, args: parts of the URI.
        user: of the cookie, or empty.
        vip: whether there is a cookie ``vip``.
        auth: user of Authorization, or empty.
        encoding: the header Accept-Encoding, or empty.
        language: the header Accept-Language, or empty.
    """

    listener: str
    server: str
    host: str
    authority: str
    tenant: str
    ident: str
    args: str
    user: str
    vip: bool
    auth: str
    encoding: str
    language: str

    @property
    def other_host(self) -> str:
        """The host of an absolute URI, if it is not that of the header."""
        return f"|{self.authority}" if self.authority not in ("", self.host) else ""


@dataclass
class Sent:
    """A request of a client, and what came.

    Args:
        number: its own, in the header X-Oracle.
        route: what was asked.
        who: by whom.
        method: of the request.
        target: of its request line.
        headers: of the request.
        body: whether there was one.
        connected: when the connection was made.
        begin: when the request was sent.
        end: when the answer, or the end, had come.
        response: the answer, if there is a whole one.
        gone: why there is none.
    """

    number: int
    route: str
    who: Who
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bool
    connected: float
    begin: float
    end: float = float("inf")
    response: Response | None = None
    gone: str = ""

    @property
    def plain(self) -> bool:
        """A GET that asks for all of it, without conditions, body, two hosts."""
        hosts = [v for n, v in self.headers if n == "Host"]
        return (
            self.method == "GET"
            and len(hosts) == 1
            and not self.body
            and not any(
                n in ("Range", "If-Range") or n[:3] == "If-" for n, _ in self.headers
            )
        )

    def has(self, name: str) -> bool:
        """Tell whether it has a header."""
        return any(n.lower() == name.lower() for n, _ in self.headers)

    def overlaps(self, begin: float, end: float) -> bool:
        """Tell whether it was under way at some time between."""
        return self.begin <= end and self.end >= begin


@dataclass
class Answered:
    """What an application has answered.

    Args:
        serial: in the header X-Teacher.
        sent: number of the client's request.
        role: which application.
        label: whom the answer is for.
        edition: which of the label's files.
        at: when the question had come.
        done: when the answer went out.
        method: as the application got it.
        target: the same.
        status: of the answer.
        lines: its headers, X-Sendfile and such left out.
        path: of the file that it names, or empty.
        by: the header that names it.
        body: of the answer.
        died: the connection was closed before the end.
        main: the answer to the request and not to a part of it.
    """

    serial: int
    sent: int
    role: str
    label: str
    edition: int
    at: float
    method: str
    target: str
    status: int = 200
    lines: list[tuple[str, str]] = field(default_factory=list)
    path: str = ""
    tree: str = "plain"
    by: str = ""
    body: bytes = b""
    died: bool = False
    main: bool = True
    done: float = 0.0


@dataclass(frozen=True)
class Purged:
    """A purge.

    Args:
        kind: ``id``, ``url`` or ``all``.
        what: the ID, or the URL.
        span: from asking to the answer.
    """

    kind: str
    what: str
    span: Span


@dataclass
class Record:
    """What a store had under a key for some time.

    Args:
        path: of the file, below the tree; None if there was nothing.
        edition: which of the key's records.
        made: when it was written.
        replaced: when it was overwritten or removed.
        swapped: it was by another store in the place of the whole.
    """

    path: str | None
    edition: int
    made: Span
    replaced: Span = NEVER
    swapped: bool = False


@dataclass(frozen=True)
class Event:
    """Something that was done to the world.

    Args:
        span: when.
        text: what.
        about: words by which it is found: IDs, labels, paths.
    """

    span: Span
    text: str
    about: tuple[str, ...] = ()


@dataclass
class World:
    """One nginx, all around it, and all that has happened.

    Args:
        seed: of everything random.
        files: all files.
    """

    seed: str
    files: Stored
    chance: random.Random
    lock: threading.RLock = field(default_factory=threading.RLock)
    sent: dict[int, Sent] = field(default_factory=dict)
    answers: dict[int, Answered] = field(default_factory=dict)
    by_sent: dict[int, list[Answered]] = field(default_factory=dict)
    purges: list[Purged] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    editions: dict[str, list[Record]] = field(default_factory=dict)
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    down: dict[str, list[Span]] = field(default_factory=dict)
    current: list[tuple[int, Span]] = field(default_factory=list)
    configs: list[tuple[dict[str, Route], Span]] = field(default_factory=list)
    workers: int = 1
    rested: bool = False
    epoch: float = field(default_factory=lambda: time.time() - time.monotonic())
    trouble: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _serials: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def number(self) -> int:
        """Return a number for a request."""
        return next(self._numbers)

    def serial(self) -> int:
        """Return a number for an application's answer."""
        return next(self._serials)

    def done(self, text: str, *about: str, begin: float | None = None) -> Span:
        """Note that something was done, and return when."""
        now = time.monotonic()
        span = Span(now if begin is None else begin, now)
        with self.lock:
            self.events.append(Event(span, text, about))
        return span

    def add_answer(self, answer: Answered) -> None:
        """Note what an application says."""
        with self.lock:
            self.answers[answer.serial] = answer
            self.by_sent.setdefault(answer.sent, []).append(answer)

    def edition(self, label: str, tree: str, data: bytes | None = None) -> Record:
        """Return what an application has for a label now; made if need be."""
        with self.lock:
            found = self.editions.get(label)
            return found[-1] if found else self.bump(label, tree, data)

    def bump(self, label: str, tree: str, data: bytes | None = None) -> Record:
        """Give a label another file.

        Args:
            label: whose.
            tree: where it lies.
            data: what it holds.
        """
        with self.lock:
            found = self.editions.setdefault(label, [])
            name = f"app/{label}.{len(found)}.dat"
            begin = time.monotonic()
            self.files.put(name, label, len(found), tree, data)
            made = Span(begin, time.monotonic())
            if found:
                found[-1].replaced = made
            found.append(Record(name, len(found), made))
            return found[-1]

    def note_record(
        self, store: str, key: str, path: str | None, made: Span, swapped: bool = False
    ) -> None:
        """Note what a store has under a key from now on; ``lock`` is held."""
        found = self.records.setdefault((store, key), [])
        if found:
            found[-1].replaced = made
            found[-1].swapped = swapped
        found.append(Record(path, len(found), made))

    def write_record(
        self, store: str, key: str, path: str | None, write: Callable[[], None]
    ) -> None:
        """Change what a store has, and note when that was.

        Args:
            store: its name.
            key: of the record.
            path: of the record's file, None to remove it.
            write: does it.
        """
        begin = time.monotonic()
        write()
        made = Span(begin, time.monotonic())
        with self.lock:
            self.note_record(store, key, path, made)
            self.events.append(
                Event(made, f"store {store}: {key} is {path}", (key, path or ""))
            )
