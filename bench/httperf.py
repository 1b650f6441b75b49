"""httperf: connections one after the other, so many calls on each."""

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

# Its default, 16 KB, is of a time before windows grew by themselves.
_RECEIVE_BUFFER = 262_144

_TOTAL = re.compile(r"^Total: connections \d+ requests \d+ replies (\d+)", re.MULTILINE)
_DURATION = re.compile(r"test-duration ([\d.]+) s")
_SIZE = re.compile(r"^Reply size \[B\]: header [\d.]+ content ([\d.]+)", re.MULTILINE)
_STATUS = re.compile(r"^Reply status: 1xx=(\d+) 2xx=(\d+) 3xx=(\d+)", re.MULTILINE)
_TIME = re.compile(
    r"^Reply time \[ms\]: response ([\d.]+) transfer ([\d.]+)", re.MULTILINE
)
_ERRORS = re.compile(
    r"^Errors: total (\d+) client-timo (\d+) socket-timo (\d+) connrefused (\d+)"
    r" connreset (\d+)",
    re.MULTILINE,
)


class Httperf:
    """httperf, with one connection open at a time.

    It asks for the first path only.

    Args:
        core: the core it runs on.
        connections: how many connections (``--num-conns``).
        calls: how many requests on each (``--num-calls``).

    Raises:
        BenchError: httperf is not installed.
    """

    def __init__(self, core: int, connections: int, calls: int) -> None:
        program = shutil.which("httperf")
        if program is None:
            raise BenchError("httperf is not installed (Debian package httperf)")
        self._program = program
        self._core = core
        self._connections = connections
        self._calls = calls

    @property
    def connections(self) -> int:
        """How many requests are under way at once."""
        return 1

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Request the first path.

        Args:
            address: whom to ask.
            paths: URL paths; at least one.
            seconds: not heeded.

        Raises:
            ContestantError: httperf gave up.
        """
        with tempfile.TemporaryDirectory() as temp:
            output = Path(temp) / "output"
            child = Child(
                [
                    self._program,
                    "--hog",
                    *("--server", address.host, "--port", str(address.port)),
                    *("--uri", next(iter(paths)), "--timeout", str(_PATIENCE)),
                    *("--num-conns", str(self._connections)),
                    *("--num-calls", str(self._calls)),
                    *("--recv-buffer", str(_RECEIVE_BUFFER)),
                ],
                core=self._core,
                output=output,
                cwd=Path(temp),
            )
            try:
                code = child.wait(_LONGEST)
            except subprocess.TimeoutExpired as error:
                raise ContestantError("httperf", "it did not end in time") from error
            finally:
                child.stop()
            asked = self._connections * self._calls
            return parse_httperf(output.read_text(errors="replace"), code, asked)

    def version(self) -> str:
        """Return httperf's version and how it is called."""
        shown = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=False
        )
        found = re.search(r"httperf-([\d.]+)", shown.stdout + shown.stderr)
        return (
            f"httperf {found[1] if found else '?'} --num-conns {self._connections}"
            f" --num-calls {self._calls} --recv-buffer {_RECEIVE_BUFFER}"
        )


def parse_httperf(output: str, code: int, asked: int) -> LoadResult:
    """Read what httperf printed.

    Args:
        output: its report.
        code: its exit code.
        asked: how many requests it was to make; those without an answer count
            as read errors.

    Raises:
        ContestantError: there is no report.
    """
    found = [p.search(output) for p in (_TOTAL, _DURATION, _SIZE, _STATUS, _ERRORS)]
    if code != 0 or None in found:
        said = " ".join(output.split())[-200:]
        raise ContestantError("httperf", f"it gave up with exit code {code}: {said}")
    total, duration, size, status, errors = (m for m in found if m is not None)
    replies = int(total[1])
    # It prints tenths of milliseconds, and no percentiles of answers.
    time = _TIME.search(output)
    mean = 1_000 * (float(time[1]) + float(time[2])) if time else 0.0
    lost = asked - replies - int(errors[2]) - int(errors[3]) - int(errors[4])
    return LoadResult(
        requests=replies,
        bytes=round(replies * float(size[1])),
        seconds=max(float(duration[1]), 0.001),
        connect_errors=int(errors[4]),
        read_errors=max(int(errors[5]), lost),
        write_errors=0,
        status_errors=replies - int(status[2]),
        timeouts=int(errors[2]) + int(errors[3]),
        latency_mean_us=mean,
        latency_p50_us=None,
        latency_p99_us=None,
        latency_max_us=None,
        heads=False,
    )
