"""A contestant of one process on one core."""

from collections.abc import Callable
from pathlib import Path

from bench.model import Address, ContestantError
from bench.process import Child, free_address, wait_listening

_START_TIMEOUT = 10.0
_ATTEMPTS = 3


class Single:
    """A server that is a single process, configured by one file or none.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        argv: program and arguments, from its address and directory.
        configuration: text of ``server.conf`` in its directory, from the same.
        complaints: picks from its output what no healthy server prints.
    """

    def __init__(
        self,
        name: str,
        core: int,
        *,
        argv: Callable[[Address, Path], list[str]],
        configuration: Callable[[Address, Path], str],
        complaints: Callable[[list[str]], list[str]],
    ) -> None:
        self._name = name
        self._core = core
        self._argv = argv
        self._configuration = configuration
        self._complaints = complaints
        self._directory: Path | None = None
        self._address: Address | None = None
        self._child: Child | None = None

    @property
    def name(self) -> str:
        """The contestant's short name."""
        return self._name

    @property
    def address(self) -> Address:
        """Where it listens."""
        if self._address is None:
            raise RuntimeError(f"{self._name} is not configured")
        return self._address

    @property
    def _own_directory(self) -> Path:
        if self._directory is None:
            raise RuntimeError(f"{self._name} is not configured")
        return self._directory

    def configure(self, directory: Path) -> None:
        """Write the configuration for a free port.

        Args:
            directory: its own.
        """
        self._directory = directory
        self._address = free_address()
        (directory / "server.conf").write_text(self.configuration())

    def configuration(self) -> str:
        """Return the configuration, or what says how it was started."""
        return self._configuration(self.address, self._own_directory)

    def start(self) -> None:
        """Start it; another process may take the port, so try again.

        Raises:
            ContestantError: it ended or never listened.
        """
        for _ in range(_ATTEMPTS):
            self._child = Child(
                self._argv(self.address, self._own_directory),
                core=self._core,
                output=self._own_directory / "output.log",
                cwd=self._own_directory,
            )
            if wait_listening(self.address, self._child, _START_TIMEOUT):
                return
            self.stop()
            if "Address already in use" not in self._log():
                break
            self.configure(self._own_directory)
        raise ContestantError(
            "start", f"{self._name} did not start: {self._log()[-600:]}"
        )

    def _log(self) -> str:
        return (self._own_directory / "output.log").read_text(errors="replace")

    def pids(self) -> frozenset[int]:
        """Return its process while it runs."""
        if self._child is None or self._child.poll() is not None:
            return frozenset()
        return frozenset({self._child.pid})

    def complaints(self) -> list[str]:
        """Return what it printed that no healthy server prints."""
        return self._complaints(self._log().splitlines())

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.stop()
            self._child = None
