"""import: the lines of a file into a store; a bad line never loses a good one."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Callable

from sendfilectl.contract import plain, show
from sendfilectl.errors import CtlError, Refused
from sendfilectl.formats import Lines, Parser, by_extension, by_line
from sendfilectl.output import Output
from sendfilectl.signals import shield
from sendfilectl.stores import Item, Outcome
from sendfilectl.unwrap import flags_of

BATCH = 10_000
BATCH_BYTES = 16 << 20
_PROGRESS_EVERY = 2_000
_MAX_ERRORS_IN_JSON = 1_000


@dataclass
class Source:
    """A file to read, or stdin.

    Attributes:
        file: open for reading bytes.
        label: its name in messages.
        size: bytes, None if it is not known.
    """

    file: BinaryIO
    label: str
    size: int | None


@dataclass
class Result:
    """What became of the lines.

    Attributes:
        stored: items in the store, or found good in a dry run.
        bad: lines that were refused.
        failed: lines whose item the store did not take.
        lines: lines that were read.
        stored_line: the items of all good lines up to this number are in the
            store.
        complete: so far there is no good line whose item is not.
        errors: the first thousand of the bad and failed lines.
    """

    stored: int = 0
    bad: int = 0
    failed: int = 0
    lines: int = 0
    stored_line: int = 0
    complete: bool = True
    errors: list[dict[str, object]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def document(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "lines": self.lines,
            "stored": self.stored,
            "bad": self.bad,
            "failed": self.failed,
            "last_line": self.stored_line,
            "seconds": round(time.monotonic() - self.started, 3),
            "errors": self.errors,
        }


@contextmanager
def source(name: str) -> Iterator[Source]:
    """Opens a file for import; ``-`` is stdin.

    Raises:
        CtlError: it cannot be read.
    """
    try:
        if name == "-":
            yield Source(sys.stdin.buffer, "stdin", _size(sys.stdin.fileno()))
            return
        with open(name, "rb") as file:
            yield Source(file, name, _size(file.fileno()))
    except OSError as error:
        if error.filename == name or isinstance(error, IsADirectoryError):
            reason = (error.strerror or str(error)).lower()
            raise CtlError(f"{name}: {reason}") from None
        raise


def _size(fd: int) -> int | None:
    found = os.fstat(fd)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def load(
    src: Source,
    format: str | None,
    put: Callable[[Sequence[Item], Outcome], None],
    out: Output,
    result: Result,
    title: str = "importing",
    flags: bool = False,
) -> None:
    """Reads a file and hands its items on, in batches.

    Args:
        src: the file.
        format: its format, None to find out.
        put: takes a batch; the outcome tells what counts as stored.
        out: for bad lines, each with file and line number, and progress.
        result: is kept up to date all the time.
        title: of the progress bar.
        flags: the store keeps memcached's flags.

    Raises:
        UsageError: the format cannot be told.
        CtlError: the input cannot be read, or the store not written.
    """
    lines = Lines(src.file)
    if format is None:
        format = by_extension(src.label)
    if format is None:
        first = lines.first()
        if not first:
            return
        format = by_line(first)
    parser = Parser(format)
    batch: list[Item] = []
    numbers: list[int] = []
    size = 0

    def flush() -> None:
        nonlocal size
        outcome = Outcome(len(batch))
        with shield():
            try:
                put(batch, outcome)
            finally:
                _count(result, outcome, numbers, lines.number)
                for i, error in sorted(outcome.errors.items()):
                    reason = f"{show(batch[i][0])}: not stored: {error}"
                    _report(out, result, src.label, numbers[i], reason)
        batch.clear()
        numbers.clear()
        size = 0

    with out.progress(title, src.size, size=True) as progress:
        for line in lines:
            result.lines = lines.number
            try:
                item = parser.parse(line)
                if item is not None and not flags and flags_of(item[1]):
                    item = (item[0], plain(item[1]))
            except Refused as error:
                result.bad += 1
                _report(out, result, src.label, lines.number, str(error))
                continue
            if item is None:
                if parser.ignored:
                    names = ", ".join(parser.ignored)
                    out.warn(f"{src.label}: columns that are ignored: {names}")
                    parser.ignored = []
                continue
            batch.append(item)
            numbers.append(lines.number)
            size += len(item[0]) + len(item[1])
            if len(batch) >= BATCH or size >= BATCH_BYTES:
                flush()
            if not lines.number % _PROGRESS_EVERY:
                progress(lines.bytes)
        if batch:
            flush()


def _count(result: Result, outcome: Outcome, numbers: list[int], last: int) -> None:
    """Adds what became of a batch.

    Args:
        result: of the whole file.
        outcome: of the batch.
        numbers: the line of each item.
        last: the last line that was read.
    """
    result.stored += outcome.count()
    result.failed += len(outcome.errors)
    done = outcome.up_to()
    if result.complete:
        result.complete = done == len(numbers)
        result.stored_line = last if result.complete else numbers[done] - 1


def _report(out: Output, result: Result, label: str, number: int, reason: str) -> None:
    if len(result.errors) < _MAX_ERRORS_IN_JSON:
        result.errors.append({"line": number, "error": reason})
    out.note(f"{label}:{number}: {reason}")
