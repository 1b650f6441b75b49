"""A contestant that is one program, with the processes that it starts."""

import http.client
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.model import Address, ContestantError
from bench.process import Child, descendants, free_address, wait_for, wait_listening

_START_TIMEOUT = 120.0
_ALL_TIMEOUT = 240.0
_ATTEMPTS = 3
_GONE_TIMEOUT = 3.0
_MOMENT = 0.4
# What starts others by helpers of its own has as many for longer than that.
_LAZY_MOMENT = 2.0
_WAKE_TIMEOUT = 60.0
_WAKE_INTERVAL = 0.5


class Single:
    """A server that is a single program, configured by one file or none.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        argv: program and arguments, from its address and directory.
        configuration: text of ``server.conf`` in its directory, from the same.
        complaints: picks from its output what no healthy server prints.
        processes: how many it consists of: itself and all that it starts.
        lazy: it starts some of them when it is asked for something.
    """

    def __init__(
        self,
        name: str,
        core: int | Sequence[int],
        *,
        argv: Callable[[Address, Path], list[str]],
        configuration: Callable[[Address, Path], str],
        complaints: Callable[[list[str]], list[str]],
        processes: int = 1,
        lazy: bool = False,
    ) -> None:
        self._name = name
        self._core = core
        self._argv = argv
        self._configuration = configuration
        self._complaints = complaints
        self._processes = processes
        self._lazy = lazy
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
                self._complete()
                return
            self.stop()
            if "address already in use" not in self._log().lower():
                break
            self.configure(self._own_directory)
        raise ContestantError(
            "start", f"{self._name} did not start: {self._log()[-600:]}"
        )

    def _complete(self) -> None:
        """Wait until all of its processes are there."""
        moment = _LAZY_MOMENT if self._lazy else _MOMENT
        settled = _Settled(self.pids, self._processes, moment)
        next_call = time.monotonic()

        def complete() -> bool:
            nonlocal next_call
            if settled():
                return True
            if self._lazy and time.monotonic() >= next_call:
                self._wake()
                next_call = time.monotonic() + _WAKE_INTERVAL
            return False

        if not wait_for(complete, _ALL_TIMEOUT):
            found = len(self.pids())
            self.stop()
            raise ContestantError(
                "start",
                f"{self._name} has {found} processes, not {self._processes}:"
                f" {self._log()[-600:]}",
            )

    def _wake(self) -> None:
        """Ask for something, whatever comes of it."""
        address = self.address
        connection = http.client.HTTPConnection(
            address.host, address.port, timeout=_WAKE_TIMEOUT
        )
        try:
            connection.request("GET", "/", headers={"Host": "localhost"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            # The processes will tell.
            pass
        finally:
            connection.close()

    def _log(self) -> str:
        """Return what it printed, and what it wrote into its log if it has one."""
        texts = []
        for name in ("output.log", "error.log"):
            path = self._own_directory / name
            if path.exists():
                texts.append(path.read_text(errors="replace"))
        return "".join(texts)

    def pids(self) -> frozenset[int]:
        """Return its processes while it runs."""
        if self._child is None or self._child.poll() is not None:
            return frozenset()
        return descendants(self._child.pid) | {self._child.pid}

    def complaints(self) -> list[str]:
        """Return what it printed that no healthy server prints."""
        return self._complaints(self._log().splitlines())

    def stop(self) -> None:
        """End it, and whatever it started."""
        if self._child is None:
            return
        started = self.pids()
        self._child.stop()
        self._child = None
        # Some of them may have a session of their own, and end by themselves.
        if not wait_for(lambda: not any(map(_lives, started)), _GONE_TIMEOUT):
            for pid in filter(_lives, started):
                os.kill(pid, signal.SIGKILL)


class _Settled:
    """Says whether there are so many processes, the same ones for a moment.

    Args:
        pids: tells which there are.
        count: how many there must be.
        moment: seconds.
    """

    def __init__(
        self, pids: Callable[[], frozenset[int]], count: int, moment: float
    ) -> None:
        self._pids = pids
        self._count = count
        self._moment = moment
        self._last: frozenset[int] = frozenset()
        self._since = 0.0

    def __call__(self) -> bool:
        now, found = time.monotonic(), self._pids()
        if found != self._last:
            self._last, self._since = found, now
        # A program that is on its own starts nothing.
        moment = 0.0 if self._count == 1 else self._moment
        return len(found) == self._count and now - self._since >= moment


def _lives(pid: int) -> bool:
    """Say whether a process runs; one that nobody waits for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
