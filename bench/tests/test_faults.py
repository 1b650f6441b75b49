"""A contestant that does something wrong is reported, not averaged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import verify
from bench.load import Wrk
from bench.model import Comparison, Outcome
from bench.runner import Entry, Plan, Runner
from bench.stats import compare
from bench.tests.body import Numbers
from bench.tests.fake_server import FAULTS
from bench.tests.fakes import CORES, FakeContestant, FixedLoad, Quiet, load_result

_CHECKS = 20
_PLAN = Plan(
    rounds=1,
    seconds=1,
    seed=1,
    warm_up_requests=0,
    checks=_CHECKS,
    spot_checks=5,
)


def _run(
    contestants: list[FakeContestant], directory: Path, plan: Plan = _PLAN
) -> dict[str, Outcome]:
    entries = [Entry(c, Numbers(), c.name, "ours") for c in contestants]
    load = Wrk(CORES[-1], 4)
    return Runner(entries, load, plan, directory, Quiet()).run()


@pytest.fixture(autouse=True)
def short_timeout(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do not wait a minute for a server that hangs on purpose."""
    if "hang" in request.node.name:
        monkeypatch.setattr(verify, "_TIMEOUT", 2.0)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status", "status 500, not 200"),
        ("redirect", "status 302, not 200"),
        ("other-file", "wrong body"),
        ("length-too-long", "Content-Length promised 10 more"),
        ("length-too-short", "Content-Length"),
        ("empty", "Content-Length 0, not"),
        ("die", "no answer"),
        ("close", "no answer"),
        ("hang", "no answer: TimeoutError"),
    ],
)
def test_fault_from_the_start_fails_the_first_check(
    fault: str, reason: str, tmp_path: Path
) -> None:
    outcomes = _run([FakeContestant("bad", fault)], tmp_path)
    failure = outcomes["bad"].failure
    assert failure is not None
    assert failure.stage == "first check"
    assert reason in failure.reason
    assert outcomes["bad"].samples == []


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_under_load_fails_the_round(fault: str, tmp_path: Path) -> None:
    outcomes = _run([FakeContestant("bad", fault, after=_CHECKS + 400)], tmp_path)
    failure = outcomes["bad"].failure
    assert failure is not None
    assert failure.stage == "round 1"
    assert outcomes["bad"].samples == []


def test_fault_after_the_rounds_fails_although_there_are_samples(
    tmp_path: Path,
) -> None:
    contestant = FakeContestant("bad")
    contestant.logged = ["[alert] something"]
    outcomes = _run([contestant], tmp_path)
    assert len(outcomes["bad"].samples) == 1
    failure = outcomes["bad"].failure
    assert failure is not None
    assert failure.stage == "its log"
    assert "[alert] something" in failure.reason
    assert not outcomes["bad"].measured


def test_others_go_on_and_no_ratio_uses_the_failed_one(tmp_path: Path) -> None:
    outcomes = _run(
        [
            FakeContestant("good"),
            FakeContestant("bad", "status", after=_CHECKS + 400),
            FakeContestant("fine"),
        ],
        tmp_path,
    )
    assert outcomes["good"].measured
    assert outcomes["fine"].measured
    assert compare(Comparison("", "good", ("fine",)), outcomes).spread is not None
    ratio = compare(Comparison("", "good", ("bad", "fine")), outcomes)
    assert ratio.spread is None
    assert ratio.missing == "bad was not measured"
    assert compare(Comparison("", "bad", ("good",)), outcomes).spread is None


def test_replaced_process_is_reported(tmp_path: Path) -> None:
    class Replaced(FakeContestant):
        """Shows another process after the timed run, as a respawned worker."""

        calls = 0

        def pids(self) -> frozenset[int]:
            self.calls += 1
            return super().pids() if self.calls == 1 else frozenset({1})

    outcomes = _run([Replaced("bad")], tmp_path)
    failure = outcomes["bad"].failure
    assert failure is not None
    assert failure.stage == "round 1"
    assert "now they are [1]" in failure.reason


def test_contestant_that_does_not_start_is_reported(tmp_path: Path) -> None:
    class Broken(FakeContestant):
        """Cannot open its log, so its process ends."""

        @property
        def requests_log(self) -> Path:
            return tmp_path / "absent" / "requests"

    outcomes = _run([Broken("bad"), FakeContestant("good")], tmp_path)
    failure = outcomes["bad"].failure
    assert failure is not None
    assert failure.stage == "start"
    assert outcomes["good"].measured


def test_missing_contestant_is_named(tmp_path: Path) -> None:
    entry = Entry(
        FakeContestant("absent"), Numbers(), "Absent", "ours", missing="not installed"
    )
    load = Wrk(CORES[-1], 4)
    outcomes = Runner([entry], load, _PLAN, tmp_path, Quiet()).run()
    failure = outcomes["absent"].failure
    assert failure is not None
    assert (failure.stage, failure.reason) == ("missing", "not installed")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status_errors": 1}, "errors under load: 1 status"),
        ({"read_errors": 2, "timeouts": 3}, "2 read, 3 timeout"),
        ({"bytes": 1_000 * 500}, "answers of 500 bytes on average, not 544"),
        ({"bytes": 1_000 * 560}, "answers of 560 bytes on average, not 544"),
        ({"requests": 1, "bytes": 544}, "only 1 answers to 2 connections"),
        ({"requests": 0, "bytes": 0}, "only 0 answers to 2 connections"),
    ],
)
def test_load_that_went_wrong_is_refused_though_each_check_is_right(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    right = replace(load_result(1_000), bytes=1_000 * 544)
    entry = Entry(FakeContestant("a"), Numbers(), "a", "ours")
    for load, expected in ((right, None), (replace(right, **change), reason)):
        directory = tmp_path / str(expected is None)
        runner = Runner([entry], FixedLoad(load), _PLAN, directory, Quiet())
        failure = runner.run()["a"].failure
        if expected is None:
            assert failure is None
        else:
            assert failure is not None
            assert expected in failure.reason
