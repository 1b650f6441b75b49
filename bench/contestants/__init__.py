"""The systems that are compared."""

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
