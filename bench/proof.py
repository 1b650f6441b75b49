"""Proves that each request did what is being measured.

By its log in an untimed run, and by what its store counted in the timed ones.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from bench.contestants import Asked, Contestant
from bench.load import LoadGenerator
from bench.model import ContestantError, LoadResult, Proof
from bench.process import wait_for

_STAGE = "proof"
_FLUSH_TIMEOUT = 60.0
_STORE_TOLERANCE = 0.01


class LoggingContestant(Contestant, Protocol):
    """A contestant that logs a line for each request."""

    @property
    def access_log(self) -> Path:
        """The log."""

    def begin_log(self) -> None:
        """Begin the log anew."""


def prove(
    contestant: LoggingContestant,
    expected: str,
    load: LoadGenerator,
    paths: Iterable[str],
    strays: int = 0,
) -> Proof:
    """Run the load for a second and read what was logged for each request.

    The number of lines must be the number of answers that the load generator
    counted, plus at most one for each connection: those under way when it
    stopped.

    Args:
        contestant: running; its log is still empty.
        expected: the one line that may occur.
        load: load generator.
        paths: URL paths.
        strays: so many lines may be others.

    Raises:
        ContestantError: other lines, or too few or too many.
    """
    result = load.run(contestant.address, paths, 1)
    if result.errors:
        raise ContestantError(_STAGE, f"errors under load: {dict(result.errors)}")

    def lines() -> list[str]:
        return contestant.access_log.read_text().splitlines()

    if not wait_for(lambda: len(lines()) >= result.requests, _FLUSH_TIMEOUT):
        raise ContestantError(
            _STAGE, f"{result.requests} answers but {len(lines())} log lines"
        )
    contestant.stop()
    found = Counter(lines())
    others = {line: n for line, n in found.most_common(4) if line != expected}
    if found.total() - found[expected] > strays:
        raise ContestantError(_STAGE, f"not all requests were {expected!r}: {others}")
    if found.total() > result.requests + load.connections:
        raise ContestantError(
            _STAGE, f"{result.requests} answers but {found.total()} log lines"
        )
    return Proof(result.requests, expected, dict(found))


def check_store(result: LoadResult, connections: int, asked: Asked, stage: str) -> None:
    """Check that the store was asked, successfully, once for each request.

    Allowed are 1 % less (requests for a key that is already being asked for
    may share its answer; with random keys out of 20,000 and 64 connections
    these are under 0.4 %), and 1 % and one for each connection more: requests
    under way when the load generator stopped are not counted by it.

    Args:
        result: of the run.
        connections: of the load generator.
        asked: by how much the store's counters rose.
        stage: named in errors.

    Raises:
        ContestantError: too few or too many.
    """
    low = result.requests * (1 - _STORE_TOLERANCE)
    high = result.requests * (1 + _STORE_TOLERANCE) + connections
    if not (low <= asked.gets <= high and low <= asked.hits <= high):
        raise ContestantError(
            stage,
            f"{result.requests} answers, but its store was asked for {asked.gets}"
            f" keys and had {asked.hits}",
        )
