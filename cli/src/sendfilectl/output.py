"""What the program says: data and JSON on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Callable, ClassVar

from sendfilectl.signals import Interrupted

if TYPE_CHECKING:
    from rich.console import Console


class Output:
    """One command's output. The last one made is the current one.

    Args:
        as_json: one JSON document on stdout in place of text.
    """

    latest: ClassVar[Output | None] = None

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self._console: Console | None = None
        self._summary: Callable[[], dict[str, object]] | None = None
        self._summary_text: Callable[[], str] | None = None
        self._summary_on_failure = False
        Output.latest = self

    def data(self, line: bytes) -> None:
        """One line of data to stdout, byte for byte."""
        sys.stdout.buffer.write(line + b"\n")

    def say(self, text: str) -> None:
        """A line of text to stdout; nothing when the output is JSON."""
        if not self.as_json:
            self.data(os.fsencode(text))

    def doc(self, document: dict[str, object]) -> None:
        """The JSON document, at once; nothing when the output is text."""
        if self.as_json:
            self.data(_dump(document))
            sys.stdout.flush()

    def result(self, document: dict[str, object], text: str) -> None:
        """What was done, as JSON or as text."""
        self.doc(document)
        self.say(text)

    def note(self, text: str) -> None:
        """A line to stderr that does not break a progress bar."""
        # there may be nobody who could be told, as when a terminal is closed
        with suppress(OSError):
            if self._console is not None:
                self._console.print(
                    text, markup=False, highlight=False, soft_wrap=True, emoji=False
                )
            else:
                print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """A message of the program to stderr."""
        self.note(f"sendfilectl: {text}")

    def fail(self, text: str, usage: bool = False) -> None:
        """An error: to stderr, and as the document when the output is JSON.

        Args:
            text: what went wrong.
            usage: nothing was even begun, so there is nothing to add.
        """
        self.warn(text)
        document: dict[str, object] = {"ok": False, "error": text}
        if self._summary is not None and not usage:
            document.update(self._summary())
        if self._summary_text is not None and self._summary_on_failure and not usage:
            self.warn(self._summary_text())
        self.doc(document)

    def on_interrupt(
        self,
        text: Callable[[], str],
        document: Callable[[], dict[str, object]],
        failure: bool = True,
    ) -> None:
        """Sets what is reported when a signal, or a failure, ends the command.

        Args:
            text: what was done so far, in words.
            document: the same for JSON.
            failure: say the words when it fails, not only after a signal.
        """
        self._summary_on_failure = failure
        self._summary_text = text
        self._summary = document

    def interrupted(self, error: Interrupted) -> None:
        """Says that a signal ended the command, and what had been done."""
        done = self._summary_text() if self._summary_text else "nothing was changed"
        self._console = None
        if sys.stderr.isatty():
            # a progress bar hides the cursor
            with suppress(OSError):
                sys.stderr.write("\x1b[?25h\r\x1b[K")
        document: dict[str, object] = {"ok": False, "error": "interrupted"}
        if self._summary is not None:
            document.update(self._summary())
        self.doc(document)
        sys.stdout.flush()
        self.warn(f"interrupted: {done}")

    @contextmanager
    def progress(
        self,
        title: str,
        total: int | None,
        size: bool = False,
        shown: bool = True,
    ) -> Iterator[Callable[[int], None]]:
        """A progress bar on stderr when that is a terminal.

        Args:
            title: what is being done.
            total: of what, in bytes or items; None if it is not known.
            size: whether the numbers are bytes.
            shown: False for none at all.

        Yields:
            A function that takes how much is done in all.
        """
        if not shown or not sys.stderr.isatty():
            yield lambda done: None
            return

        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns: list[ProgressColumn] = [
            SpinnerColumn(),
            TextColumn("{task.description}"),
        ]
        if total is not None:
            columns.append(BarColumn())
        columns.append(DownloadColumn() if size else MofNCompleteColumn())
        columns.append(TimeElapsedColumn() if total is None else TimeRemainingColumn())
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(title, total=total)
            self._console = console
            try:
                yield lambda done: progress.update(task, completed=done)
            finally:
                self._console = None


def current() -> Output:
    """The output of the command that runs."""
    return Output.latest or Output()


def _dump(document: dict[str, object]) -> bytes:
    """JSON of a document; what is not UTF-8 (a file name) keeps its bytes
    as ``\\udcXX`` escapes, as Python does.
    """
    text = json.dumps(document, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document).encode("ascii")
