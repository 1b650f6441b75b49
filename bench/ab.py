"""ab, ApacheBench: so many requests for one URL."""

import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.model import Address, BenchError, ContestantError, LoadResult
from bench.process import Child

_PATIENCE = 10
_LONGEST = 300

# Servers close a connection after some hundreds of answers.
_KEPT = 0.9
_FIELD = re.compile(
    r"^(?P<name>[A-Z][A-Za-z0-9 -]*):\s+(?P<value>[\d.]+)", re.MULTILINE
)
_FAILED = re.compile(
    r"\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)"
)


class Ab:
    """ab, which sends a number of requests, not for a time.

    It asks for the first path only, and counts an answer of another length than
    the first one's as an error.

    Args:
        core: the core it runs on.
        connections: how many requests are under way at once (``-c``).
        requests: how many in all (``-n``).
        keep_alive: whether connections are kept (``-k``).

    Raises:
        BenchError: ab is not installed.
    """

    def __init__(
        self, core: int, connections: int, requests: int, *, keep_alive: bool
    ) -> None:
        program = shutil.which("ab")
        if program is None:
            raise BenchError("ab is not installed (Debian package apache2-utils)")
        self._program = program
        self._core = core
        self._connections = connections
        self._requests = requests
        self._keep_alive = keep_alive

    @property
    def connections(self) -> int:
        """How many requests are under way at once."""
        return self._connections

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Request the first path.

        Args:
            address: whom to ask.
            paths: URL paths; at least one.
            seconds: not heeded.

        Raises:
            ContestantError: ab gave up, for example because nothing listens.
        """
        path = next(iter(paths))
        with tempfile.TemporaryDirectory() as temp:
            directory = Path(temp)
            output = directory / "output"
            child = Child(
                [
                    self._program,
                    *("-q", "-r", "-s", str(_PATIENCE)),
                    *(("-k",) if self._keep_alive else ()),
                    *("-c", str(self._connections), "-n", str(self._requests)),
                    *("-e", "percentiles", address.url + path.removeprefix("/")),
                ],
                core=self._core,
                output=output,
                cwd=directory,
            )
            try:
                code = child.wait(_LONGEST)
            except subprocess.TimeoutExpired as error:
                raise ContestantError("ab", "it did not end in time") from error
            finally:
                child.stop()
            percentiles = directory / "percentiles"
            return parse_ab(
                output.read_text(errors="replace"),
                percentiles.read_text() if percentiles.exists() else "",
                code,
                keep_alive=self._keep_alive,
            )

    def version(self) -> str:
        """Return ab's version and how it is called."""
        shown = subprocess.run(
            [self._program, "-V"], capture_output=True, text=True, check=False
        )
        found = re.search(r"Version ([\d.]+)", shown.stdout)
        keep = "-k " if self._keep_alive else ""
        return (
            f"ab {found[1] if found else '?'} {keep}-c {self._connections}"
            f" -n {self._requests}"
        )


def parse_ab(
    output: str, percentiles: str, code: int, *, keep_alive: bool
) -> LoadResult:
    """Read what ab printed.

    Args:
        output: its report.
        percentiles: the file of ``-e``: per cent and milliseconds.
        code: its exit code.
        keep_alive: whether it asked for kept connections.

    Raises:
        ContestantError: there is no report, as ab stops where it cannot go on;
            or connections were to be kept, and many were not.
    """
    found: dict[str, str] = {}
    for match in _FIELD.finditer(output):
        # "Time per request" comes again, divided by the connections.
        found.setdefault(match["name"], match["value"])
    if code != 0 or "Complete requests" not in found:
        said = " ".join(output.split())[-200:]
        raise ContestantError("ab", f"it gave up with exit code {code}: {said}")
    failed = _FAILED.search(output)
    connect, receive, length, exceptions = map(
        int, failed.groups() if failed else (0, 0, 0, 0)
    )
    rows = list(csv.reader(percentiles.splitlines()))[1:]
    latency = {int(percent): 1_000 * float(ms) for percent, ms in rows}
    requests = int(found["Complete requests"])
    kept = int(found.get("Keep-Alive requests", "0"))
    if keep_alive and not (connect + receive) and kept < _KEPT * requests:
        raise ContestantError(
            "ab", f"only {kept} of {requests} answers left the connection open"
        )
    return LoadResult(
        requests=requests,
        bytes=int(found["HTML transferred"]),
        # "Time taken for tests" has milliseconds only.
        seconds=requests / max(float(found["Requests per second"]), 0.001),
        connect_errors=connect,
        read_errors=receive + length + exceptions,
        write_errors=int(found.get("Write errors", "0")),
        status_errors=int(found.get("Non-2xx responses", "0")),
        timeouts=0,
        latency_mean_us=1_000 * float(found.get("Time per request", "0")),
        latency_p50_us=latency.get(50, 0.0),
        latency_p99_us=latency.get(99, 0.0),
        latency_max_us=latency.get(100, 0.0),
        heads=False,
    )
