"""Files that say who they are, and when they were what.

A file is known by its label, which says whom it is for, by its edition and by
its version. No two versions of any file have the same size, so that a length
alone, of an answer to HEAD or to a range, says which one was meant.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

# a modification time long ago: what may be kept in memory at once
OLD = 1_700_000_000

# bytes; what has a fixed content is smaller
SMALLEST = 300

Clock = Callable[[], float]


@dataclass(frozen=True)
class Span:
    """When something was done: not before, not after.

    Args:
        begin: on the monotonic clock, in seconds.
        end: the same.
    """

    begin: float
    end: float


NEVER = Span(float("inf"), float("inf"))
ALWAYS = Span(float("-inf"), float("-inf"))


@dataclass
class Version:
    """The bytes of a file, and when they were put there and replaced.

    Args:
        path: below the directory of all files.
        label: whom it is for.
        edition: which of the label's files.
        release: which tree it lies in, -1 for none.
        number: which of the file's versions.
        data: all bytes.
        made: when it was put there.
        replaced: when another took its place.
    """

    path: str
    label: str
    edition: int
    release: int
    number: int
    data: bytes
    made: Span
    replaced: Span = NEVER

    def __str__(self) -> str:
        return f"{self.path} (version {self.number}, {len(self.data)} bytes)"


def content(path: str, number: int, size: int) -> bytes:
    """Return bytes that say on every line which file and version they are."""
    start = f"{path} v{number} "
    count = size // len(f"{start}000000\n") + 1
    return "".join([f"{start}{n:06}\n" for n in range(count)]).encode()[:size]


@dataclass
class Stored:
    """All files of one nginx.

    Args:
        root: the directory.
        chance: what is random about them.
        releases: how many trees there are beside it, rel0 and so on, each with
            files of the same names.
    """

    root: Path
    chance: random.Random
    releases: int = 2
    versions: dict[str, list[Version]] = field(default_factory=dict)
    by_size: dict[int, Version] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def _size(self) -> int:
        while True:
            top = self.chance.choice((400, 3_000, 3_000, 9_000, 60_000))
            size = self.chance.randrange(SMALLEST, top)
            if size not in self.by_size:
                return size

    def _write(
        self, path: str, label: str, edition: int, release: int, data: bytes | None
    ) -> Version:
        found = self.versions.setdefault(path, [])
        number = len(found)
        if data is None:
            data = content(path, number, self._size())
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        other = place.with_name(f"{place.name}.new")
        other.write_bytes(data)
        other.chmod(0o644)
        if self.chance.random() < 0.8:
            os.utime(other, (OLD + number, OLD + number))
        begin = time.monotonic()
        other.rename(place)
        made = Span(begin, time.monotonic())
        version = Version(path, label, edition, release, number, data, made)
        if found:
            found[-1].replaced = made
        found.append(version)
        if len(data) >= SMALLEST:
            self.by_size[len(data)] = version
        return version

    def put(
        self,
        name: str,
        label: str,
        edition: int,
        tree: str = "plain",
        data: bytes | None = None,
    ) -> None:
        """Write a file, or another version of it.

        Args:
            name: below the tree.
            label: whom it is for.
            edition: which of the label's files.
            tree: ``plain``, or ``current`` for a version in each release.
            data: what it holds; by default something that is its own.
        """
        with self.lock:
            if tree == "current":
                for n in range(self.releases):
                    self._write(f"rel{n}/{name}", label, edition, n, data)
            else:
                self._write(f"{tree}/{name}", label, edition, -1, data)

    def replace(self, path: str) -> Version:
        """Put another version in a file's place."""
        with self.lock:
            last = self.versions[path][-1]
            return self._write(path, last.label, last.edition, last.release, None)

    def paths(self) -> list[str]:
        """Return the names of all files."""
        with self.lock:
            return sorted(self.versions)

    def of_size(self, size: int) -> Version | None:
        """Return the version that has this size."""
        return self.by_size.get(size)


def safe(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="=@:,;|") or "-"
