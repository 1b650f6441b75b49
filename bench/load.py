"""Load generators. Only well-kept tools; none of our own."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bench.model import Address, BenchError, ContestantError, LoadResult
from bench.process import Child

# seconds, after which wrk does not end
_LATE = 120
_MARK = "wrk-result "

_RUNS = 10
_TURNS = 8
_FAST = 131_072
_SLOW = 2_000


class LoadGenerator(Protocol):
    """Sends requests as fast as they are answered."""

    @property
    def connections(self) -> int:
        """How many keep-alive connections it holds."""

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Request the paths in order, over and over.

        Args:
            address: whom to ask.
            paths: URL paths.
            seconds: how long.
        """

    def version(self) -> str:
        """Return the tool's name and version."""


class Wrk:
    """wrk with one thread for each of its cores.

    Args:
        core: the core it runs on, or the cores.
        connections: keep-alive connections.

    Raises:
        BenchError: wrk is not installed.
    """

    def __init__(self, core: int | Sequence[int], connections: int) -> None:
        program = shutil.which("wrk")
        if program is None:
            raise BenchError("wrk is not installed (Debian package wrk)")
        self._program = program
        self._cores = (core,) if isinstance(core, int) else tuple(core)
        self._connections = connections

    @property
    def connections(self) -> int:
        """How many keep-alive connections it holds."""
        return self._connections

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Request the paths in order, over and over.

        A second thread begins in the middle. wrk closes its connections at the end with up to one request on each
        answered but not counted.

        Args:
            address: whom to ask.
            paths: URL paths.
            seconds: how long.

        Raises:
            BenchError: wrk failed or printed no result.
        """
        with tempfile.TemporaryDirectory(prefix="bench-wrk-") as name:
            directory = Path(name)
            listing = directory / "paths"
            listing.write_text("\n".join(paths) + "\n")
            output = directory / "output"
            script = Path(__file__).with_name("wrk.lua")
            child = Child(
                [
                    self._program,
                    f"--threads={len(self._cores)}",
                    f"--connections={self._connections}",
                    f"--duration={seconds}s",
                    f"--script={script}",
                    address.url,
                    "--",
                    str(listing),
                ],
                core=self._cores,
                output=output,
                cwd=directory,
            )
            try:
                code = child.wait(seconds + _LATE)
            except subprocess.TimeoutExpired as error:
                raise BenchError("wrk did not end") from error
            finally:
                child.stop()
            return parse_wrk(output.read_text(), code)

    def version(self) -> str:
        """Return the first line of ``wrk -v``."""
        shown = subprocess.run(
            [self._program, "-v"], capture_output=True, text=True, check=False
        )
        return shown.stdout.splitlines()[0].split(" Copyright")[0]


def ask_all(
    load: LoadGenerator, address: Address, paths: Sequence[str]
) -> Iterator[tuple[int, LoadResult]]:
    """Request each path at least once, in runs of some seconds.

    Where a run ended the next begins, a few turns of all connections earlier:
    what was under way then is asked for again. When all was asked for the last run
    goes on with the first paths until its time is over.

    Args:
        load: load generator.
        address: whom to ask.
        paths: URL paths.

    Yields:
        The number of the path that a run began with, and its result.

    Raises:
        ContestantError: it is too slow: under 2,000 answers in a second, on
            average.
    """
    asked = 0
    for _ in range(_RUNS + len(paths) // _SLOW):
        start = max(0, asked - _TURNS * load.connections)
        rest = paths[start:]
        result = load.run(address, rest, 1 + len(rest) // _FAST)
        yield start, result
        asked = max(asked + 1, start + result.requests)
        if asked >= len(paths):
            return
    raise ContestantError(
        "warm-up", f"only {asked:,} of {len(paths):,} requests were made"
    )


def parse_wrk(output: str, code: int) -> LoadResult:
    """Read the line that wrk.lua prints.

    Args:
        output: what wrk wrote.
        code: its exit code.

    Raises:
        BenchError: there is no such line or wrk failed.
    """
    for line in output.splitlines():
        if code == 0 and line.startswith(_MARK):
            return LoadResult(**json.loads(line[len(_MARK) :]))
    raise BenchError(f"wrk failed with exit code {code}: {output.strip()[-500:]}")
