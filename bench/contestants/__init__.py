"""The systems that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.model import Address


class Contestant(Protocol):
    """A server under test.

    The order of calls is configure, start, then any of address, pids and
    complaints, then stop. stop may be called at any time and more than once.
    """

    @property
    def name(self) -> str:
        """A short name, unique in its table, usable as a file name."""

    @property
    def address(self) -> Address:
        """Where it listens; known from configure on."""

    def configure(self, directory: Path) -> None:
        """Write the configuration.

        Args:
            directory: an empty directory of its own.
        """

    def start(self) -> None:
        """Start and return when connections are accepted.

        Raises:
            ContestantError: it ended or never listened.
        """

    def pids(self) -> frozenset[int]:
        """Return the processes that do the work and whose CPU counts."""

    def complaints(self) -> list[str]:
        """Return what it logged that no healthy server logs."""

    def configuration(self) -> str:
        """Return the exact configuration as text."""

    def stop(self) -> None:
        """End all processes of the contestant."""


@dataclass(frozen=True)
class Asked:
    """What a store counted since it began: keys asked for, keys it had."""

    gets: int
    hits: int


class Store(Protocol):
    """A server that contestants ask; its CPU time is counted apart.

    start is called before the first contestant that asks it is configured and
    does nothing if it runs. stop may be called more than once.
    """

    @property
    def name(self) -> str:
        """A short name, usable as a file name."""

    def start(self, directory: Path) -> None:
        """Start, fill and return when connections are accepted.

        Args:
            directory: its own; made if it does not exist.

        Raises:
            ContestantError: it ended, never listened or took not all.
        """

    def command(self) -> str:
        """Return the exact command line."""

    def pids(self) -> frozenset[int]:
        """Return the processes whose CPU counts."""

    def asked(self) -> Asked:
        """Return what it counted.

        Raises:
            ContestantError: it does not answer.
        """

    def round_trip_us(self, keys: Sequence[str], core: int, seconds: float) -> float:
        """Return the median time in µs of one lookup by a minimal client.

        Args:
            keys: asked in turn.
            core: where the client runs.
            seconds: how long.

        Raises:
            ContestantError: it does not answer rightly.
        """

    def stop(self) -> None:
        """End it."""
