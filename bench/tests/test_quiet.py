"""Waiting for a quiet machine."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bench import quiet
from bench.quiet import Patience, busy_ticks


def test_busy_ticks_leave_out_idle_and_waiting_for_disks(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  9 9 9 9 9 9 9 9 9 9\n"
        "cpu0 1 2 4 1000 2000 8 16 32 64 128\n"
        "cpu1 10 0 0 1000 0 0 0 0 0 0\n"
        "intr 1 2 3\n"
    )
    assert busy_ticks([1, 0], stat) == [10, 63]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Ticks that are read one after the other; no time is really slept."""
    ticks: list[list[int]] = []
    source: Iterator[list[int]] = iter(ticks)

    def read(cores: Iterable[int]) -> list[int]:
        return next(source)

    clock = [0.0]
    monkeypatch.setattr(quiet, "busy_ticks", read)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds)
    )
    return ticks


def test_waits_until_both_cores_are_quiet(readings: list[list[int]]) -> None:
    readings += [[0, 0], [25, 0], [25, 0], [25, 3], [30, 3], [32, 5]]
    patience = Patience(10, (0, 1))
    patience.wait()
    assert patience.left
    patience.spend(9.2)
    assert patience.left
    patience.spend(0.1)
    assert not patience.left


def test_gives_up_when_the_time_is_used_up(readings: list[list[int]]) -> None:
    readings += [[0], [25]] * 4
    patience = Patience(1.0, (0,))
    patience.wait()
    assert not patience.left


def test_no_patience_waits_for_nothing(readings: list[list[int]]) -> None:
    Patience(0, (0,)).wait()
    assert readings == []
