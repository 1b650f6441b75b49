"""Says how far the benchmark is: a bar on a terminal, lines elsewhere."""

import sys
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Reporter(Protocol):
    """Takes the steps of a run."""

    def total(self, steps: int) -> None:
        """Say how many steps there will be."""

    def step(self, text: str) -> None:
        """Say what is done now; the step before it is over."""

    def note(self, text: str) -> None:
        """Say something that is worth keeping on the screen."""


class Lines:
    """Notes only, on stderr."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def total(self, steps: int) -> None:
        """Nothing: there is no bar."""

    def step(self, text: str) -> None:
        """Nothing: there is no bar."""

    def note(self, text: str) -> None:
        """Print the text."""
        print(text, file=sys.stderr, flush=True)


class Bar:
    """A progress bar on stderr; a context manager."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<34}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task: TaskID = self._progress.add_task("", total=1)
        self._begun = False

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def total(self, steps: int) -> None:
        """Set the bar's length."""
        self._progress.reset(self._task, total=steps)
        self._begun = False

    def step(self, text: str) -> None:
        """Advance the bar and show the text beside it."""
        if self._begun:
            self._progress.advance(self._task)
        self._begun = True
        self._progress.update(self._task, description=text)

    def note(self, text: str) -> None:
        """Print the text above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)


def reporter() -> Bar | Lines:
    """Return a bar if stderr is a terminal, else plain lines."""
    return Bar() if sys.stderr.isatty() else Lines()
