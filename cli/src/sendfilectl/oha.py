"""Requests at a fixed rate with oha, and what it says of them.

oha (https://github.com/hatoo/oha) sends requests when they are due, answered or
not, and measures from then on (``--latency-correction``): a server that stalls
cannot slow its own measurement down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import urlsplit

from sendfilectl.errors import CtlError, UsageError

if TYPE_CHECKING:
    from sendfilectl.output import Output

# of the latencies that oha reports
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")

_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m|h|)")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "": 1_000}


@dataclass(frozen=True)
class Measured:
    """What oha saw. Times are in seconds.

    Args:
        seconds: from the first request to the last answer.
        statuses: how many answers had which status code.
        errors: how many requests had no answer, by the reason.
        bytes: of all bodies.
        mean: of the latencies; None if there was no answer.
        slowest: the highest latency.
        percentiles: those of ``PERCENTILES``.
    """

    seconds: float
    statuses: Mapping[int, int]
    errors: Mapping[str, int]
    bytes: int
    mean: float | None
    slowest: float | None
    percentiles: Mapping[str, float | None]

    @property
    def answers(self) -> int:
        """How many requests were answered, whatever the status."""
        return sum(self.statuses.values())

    @property
    def requests(self) -> int:
        """How many requests were made."""
        return self.answers + sum(self.errors.values())

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds if self.seconds else 0.0

    @property
    def good(self) -> bool:
        """Whether all were answered, and none with an error status."""
        return self.answers > 0 and not self.errors and max(self.statuses) < 400

    def unsent(self, rate: int, duration_ms: int) -> int:
        """How many requests were due, but dropped when the time was over.

        Args:
            rate: requests a second.
            duration_ms: milliseconds for which they were due.
        """
        return max(0, rate * duration_ms // 1000 - self.requests)

    def document(self) -> dict[str, object]:
        """The same for JSON; latencies in milliseconds."""
        return {
            "requests": self.requests,
            "answers": self.answers,
            "seconds": self.seconds,
            "rate": self.rate,
            "bytes": self.bytes,
            "statuses": {str(code): n for code, n in sorted(self.statuses.items())},
            "errors": dict(self.errors),
            "latency_ms": {
                "mean": _ms(self.mean),
                **{name: _ms(value) for name, value in self.percentiles.items()},
                "max": _ms(self.slowest),
            },
        }

    def lines(self) -> list[str]:
        """The same in words."""
        rate = f"{self.rate:.1f} answers a second"
        found = [f"requests  {self.requests}, {rate}, {self.bytes} bytes"]
        if self.answers:
            parts = [("mean", self.mean), *self.percentiles.items()]
            parts.append(("max", self.slowest))
            told = ", ".join(
                f"{name} {1000 * value:.2f}"
                for name, value in parts
                if value is not None
            )
            found.append(f"latency   {told} ms")
        told = ", ".join(f"{code}: {n}" for code, n in sorted(self.statuses.items()))
        found.append(f"status    {told or 'no answer'}")
        found += [f"error     {n}: {reason}" for reason, n in self.errors.items()]
        return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def find(named: str | None) -> str:
    """The path of oha.

    Args:
        named: what the user says; None to look in PATH.

    Raises:
        CtlError: there is none.
    """
    found = shutil.which(named or "oha")
    if found is not None:
        return found
    if named is not None:
        raise CtlError(f"--oha {named}: there is no such program")
    raise CtlError(
        "oha is not installed: get it with 'cargo install --locked oha' (a Rust of "
        "1.85 or newer; Debian: cargo-web) or from https://github.com/hatoo/oha, "
        "and put it into PATH or name it with --oha"
    )


def urls(lines: Iterable[bytes], name: str) -> list[str]:
    """The URLs of a list, one on a line; blank lines are passed over.

    Args:
        lines: of the list.
        name: of the list, for messages.

    Raises:
        CtlError: a line is no URL, or there is none at all.
    """
    found = []
    for number, line in enumerate(lines, 1):
        text = os.fsdecode(line).strip()
        if not text:
            continue
        problem = _problem(text)
        if problem is not None:
            raise CtlError(f"{name}:{number}: {problem}")
        found.append(text)
    if not found:
        raise CtlError(f"{name}: there is no URL in it")
    return found


def _problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        return f"'{text}' is no URL: write http://host/path or https://host/path"
    if re.search(r"[^!-~]", text):
        return f"'{text}': percent-encode what is no printable ASCII"
    return None


def milliseconds(text: str) -> int:
    """What --duration says: ``10`` and ``10s`` are seconds; ms, m and h too.

    Raises:
        UsageError: it is none of these, or nothing.
    """
    match = _DURATION.fullmatch(text)
    found = int(match[1]) * _MILLISECONDS[match[2]] if match else 0
    if not found:
        raise UsageError(f"--duration {text}: write 30s, 5m or 1h")
    return found


def command(
    program: str,
    list_file: str,
    output: str,
    rate: int,
    duration_ms: int,
    connections: int = 64,
    timeout: float = 5.0,
) -> list[str]:
    """The command line of a run.

    Args:
        program: path of oha.
        list_file: path of a file of URLs, from which it draws at random.
        output: path of the report that it is to write.
        rate: requests a second.
        duration_ms: milliseconds for which requests are made.
        connections: how many may be open.
        timeout: seconds after which a request has no answer.
    """
    return [
        *(program, "--no-tui", "--urls-from-file", "-z", f"{duration_ms}ms"),
        *("-q", str(rate), "-c", str(connections), "-t", f"{round(1000 * timeout)}ms"),
        *("--latency-correction", "-w", "--redirect", "0", "--disable-compression"),
        *("--output-format", "json", "--output", output, list_file),
    ]


def run_bench(
    program: str,
    found: Sequence[str],
    rate: int,
    duration_ms: int,
    connections: int,
    timeout: float,
    out: Output,
) -> Measured:
    """Run oha, with a bar on a terminal; ends it when a signal comes.

    Args:
        program: path of oha.
        found: the URLs.
        rate: requests a second.
        duration_ms: milliseconds for which requests are made.
        connections: how many may be open.
        timeout: seconds after which a request has no answer.
        out: takes the progress.

    Raises:
        CtlError: oha failed.
    """
    with tempfile.TemporaryDirectory(prefix="sendfilectl-") as folder:
        listed, report = f"{folder}/urls", f"{folder}/report.json"
        with open(listed, "w", encoding="ascii") as file:
            file.writelines(f"{url}\n" for url in found)
        words = command(
            program, listed, report, rate, duration_ms, connections, timeout
        )
        with (
            out.progress("asking, seconds", -(-duration_ms // 1000)) as progress,
            open(f"{folder}/said", "w+", encoding="utf-8", errors="replace") as said,
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            ) as process,
        ):
            try:
                code = _wait(process, progress)
            finally:
                process.kill()
            said.seek(0)
            if code != 0 or not os.path.exists(report):
                raise failure(code, said.readlines())
        with open(report, encoding="utf-8") as file:
            return parse(file.read())


def _wait(process: subprocess.Popen[bytes], progress: Callable[[int], None]) -> int:
    begun = time.monotonic()
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            progress(int(time.monotonic() - begun))


def parse(report: str) -> Measured:
    """Read oha's report.

    Args:
        report: JSON, as ``--output-format json`` makes it.

    Raises:
        CtlError: it is no such report.
    """
    try:
        found: dict[str, Any] = json.loads(report)
        summary = found["summary"]
        percentiles = found["latencyPercentiles"]
        return Measured(
            seconds=float(summary["total"]),
            statuses={
                int(code): int(n) for code, n in found["statusCodeDistribution"].items()
            },
            errors={
                str(reason): int(n) for reason, n in found["errorDistribution"].items()
            },
            bytes=int(summary["totalData"]),
            mean=_seconds(summary["average"]),
            slowest=_seconds(summary["slowest"]),
            percentiles={name: _seconds(percentiles[name]) for name in PERCENTILES},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CtlError(f"oha's report cannot be read: {error!r}") from None


def _seconds(value: object) -> float | None:
    return None if value is None else float(str(value))


def failure(code: int, said: Sequence[str]) -> CtlError:
    """What to tell the user of an oha that ended with an error.

    Args:
        code: its exit code.
        said: the lines that it printed.
    """
    words = [line.strip() for line in said if line.strip()]
    reason = words[0] if words else f"exit code {code}"
    if any("--output-format" in line for line in words):
        reason += "; this oha is too old, take 1.12 or newer"
    return CtlError(f"oha failed: {reason}")
