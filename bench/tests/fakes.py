"""Contestants and tools for tests."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.contestants import Asked
from bench.model import Address, ContestantError, LoadResult
from bench.process import Child, free_address, wait_listening

ROOT = Path(__file__).resolve().parents[2]
CORES = sorted(os.sched_getaffinity(0))


class FakeContestant:
    """The fake server as a contestant.

    Args:
        name: short name.
        fault: see fake_server.FAULTS; "none" is honest.
        after: how many requests are answered rightly first.
    """

    def __init__(self, name: str, fault: str = "none", after: int = 0) -> None:
        self._name = name
        self._fault = fault
        self._after = after
        self._address: Address | None = None
        self._directory: Path | None = None
        self._child: Child | None = None
        self.logged: list[str] = []

    @property
    def name(self) -> str:
        """The short name."""
        return self._name

    @property
    def address(self) -> Address:
        """Where it listens."""
        assert self._address is not None
        return self._address

    @property
    def requests_log(self) -> Path:
        """The paths that were requested, one a line."""
        assert self._directory is not None
        return self._directory / "requests"

    def configure(self, directory: Path) -> None:
        """Choose a port."""
        self._directory = directory
        self._address = free_address()

    def start(self) -> None:
        """Start the server."""
        assert self._directory is not None
        self._child = Child(
            [
                sys.executable,
                "-m",
                "bench.tests.fake_server",
                str(self.address.port),
                self._fault,
                str(self._after),
                str(self.requests_log),
            ],
            core=CORES[0],
            output=self._directory / "output",
            cwd=ROOT,
        )
        if not wait_listening(self.address, self._child, 10):
            raise ContestantError("start", "the fake server did not start")

    def pids(self) -> frozenset[int]:
        """Return the server's process while it runs."""
        if self._child is None or self._child.poll() is not None:
            return frozenset()
        return frozenset({self._child.pid})

    def complaints(self) -> list[str]:
        """Return what the test put into ``logged``."""
        return self.logged

    def configuration(self) -> str:
        """Return something."""
        return f"fault {self._fault}\n"

    def stop(self) -> None:
        """End the server."""
        if self._child is not None:
            self._child.stop()
            self._child = None


class FakeStore:
    """A store whose counters rise by the same at each look.

    It has no process, so it costs nothing.

    Args:
        gets: keys asked for.
        hits: keys found.
        trip_us: of each round trip.
        broken: if given, it does not start, for this reason.
    """

    name = "store"

    def __init__(
        self, gets: int, hits: int, trip_us: float = 1.0, broken: str | None = None
    ) -> None:
        self._step = Asked(gets, hits)
        self._total = Asked(0, 0)
        self._trip_us = trip_us
        self._broken = broken
        self.calls: list[str] = []

    def start(self, directory: Path) -> None:
        """Remember the call."""
        self.calls.append("start")
        if self._broken is not None:
            raise ContestantError("store", self._broken)

    def command(self) -> str:
        """Return something."""
        return "store --fake"

    def pids(self) -> frozenset[int]:
        """Return none."""
        return frozenset()

    def asked(self) -> Asked:
        """Return a total that is one step higher at each call."""
        self._total = Asked(
            self._total.gets + self._step.gets, self._total.hits + self._step.hits
        )
        return self._total

    def round_trip_us(self, keys: Sequence[str], core: int, seconds: float) -> float:
        """Return what the test wants."""
        return self._trip_us

    def stop(self) -> None:
        """Remember the call."""
        self.calls.append("stop")


class Quiet:
    """A reporter that remembers notes and steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []

    def total(self, steps: int) -> None:
        """Ignore the number of steps."""

    def step(self, text: str) -> None:
        """Remember a step."""
        self.steps.append(text)

    def note(self, text: str) -> None:
        """Remember a note."""
        self.notes.append(text)


class FixedLoad:
    """A load generator that asks nothing and returns what it is told to.

    Args:
        result: of each run.
    """

    connections = 2

    def __init__(self, result: LoadResult) -> None:
        self._result = result

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Return the fixed result."""
        return self._result

    def version(self) -> str:
        """Return a name."""
        return "fixed"


def load_result(requests: int, *, status_errors: int = 0) -> LoadResult:
    """Return a result of one second."""
    return LoadResult(
        requests=requests,
        bytes=requests * 600,
        seconds=1.0,
        connect_errors=0,
        read_errors=0,
        write_errors=0,
        status_errors=status_errors,
        timeouts=0,
        latency_mean_us=100.0,
        latency_p50_us=100.0,
        latency_p99_us=200.0,
        latency_max_us=300.0,
    )
