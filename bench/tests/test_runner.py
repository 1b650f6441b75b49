"""The order of a run, and that everything started is stopped."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.load import Wrk
from bench.model import Address, LoadResult
from bench.runner import Entry, Plan, Runner
from bench.tests.body import Numbers
from bench.tests.fakes import (
    CORES,
    FakeContestant,
    FixedLoad,
    Quiet,
    load_result,
)

_PLAN = Plan(rounds=2, seconds=1, seed=1, checks=5, spot_checks=2)


def _entries(*contestants: FakeContestant) -> list[Entry]:
    return [Entry(c, Numbers(), c.name, "ours") for c in contestants]


def test_contestants_take_turns(tmp_path: Path) -> None:
    reporter = Quiet()
    load = Wrk(CORES[-1], 2)
    entries = _entries(FakeContestant("a"), FakeContestant("b"))
    outcomes = Runner(entries, load, _PLAN, tmp_path, reporter).run()
    assert reporter.steps[-8:] == [
        "warm-up: a",
        "warm-up: b",
        "round 1: a",
        "round 1: b",
        "round 2: a",
        "round 2: b",
        "final check: a",
        "final check: b",
    ]
    for outcome in outcomes.values():
        assert [sample.round for sample in outcome.samples] == [1, 2]
        for sample in outcome.samples:
            assert sample.cpu_ns > 0
            assert sample.load.requests > 0
        assert outcome.memory is not None
        assert 0 < outcome.memory.anonymous_kib <= outcome.memory.rss_kib


def test_contestants_get_the_same_random_sequence(tmp_path: Path) -> None:
    class Recorder(FixedLoad):
        """Keeps the paths of each run."""

        def __init__(self, result: LoadResult) -> None:
            super().__init__(result)
            self.seen: list[list[str]] = []

        def run(
            self, address: Address, paths: Iterable[str], seconds: int
        ) -> LoadResult:
            self.seen.append(list(paths))
            return super().run(address, [], seconds)

    size = 1000 * (504 + 40)
    load = Recorder(LoadResult(1000, size, 1.0, 0, 0, 0, 0, 0, 1.0, 1.0, 1.0, 1.0))
    entries = _entries(FakeContestant("a"), FakeContestant("b"))
    outcomes = Runner(entries, load, _PLAN, tmp_path, Quiet()).run()
    assert outcomes["a"].failure is None
    assert outcomes["b"].failure is None
    warm_a, warm_b, first_a, first_b, second_a, second_b = load.seen
    assert warm_a == warm_b
    assert first_a == first_b
    assert second_a == second_b
    assert first_a != second_a
    assert sorted(warm_a) == sorted(f"/{i}" for i in range(1000))


class _Logging(FakeContestant):
    """Logs a line for each request since the log was begun anew."""

    def __init__(self, load: "_Counting") -> None:
        super().__init__("logging")
        self._load = load
        self._begun = 0

    @property
    def access_log(self) -> Path:
        """The log, as it is now."""
        log = self.requests_log.with_name("log")
        log.write_text("cache HIT\n" * (sum(self._load.counts) - self._begun))
        return log

    def begin_log(self) -> None:
        """Forget what was asked for so far."""
        self._begun = sum(self._load.counts)


class _Counting(FixedLoad):
    """Counts the different paths of each run, and all requests."""

    def __init__(self) -> None:
        size = 1_000 * (504 + 40)
        super().__init__(LoadResult(1_000, size, 1.0, 0, 0, 0, 0, 0, 1, 1, 1, 1))
        self.counts: list[int] = []
        self.paths: list[set[str]] = []

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        self.paths.append(set(paths))
        self.counts.append(1_000)
        return super().run(address, [], seconds)


def test_cache_is_filled_before_the_proof_and_before_the_rounds(
    tmp_path: Path,
) -> None:
    load = _Counting()
    entry = Entry(
        FakeContestant("cached"),
        Numbers(1_000),
        "cached",
        "ours",
        proof=(_Logging(load), "cache HIT"),
        passes=3,
    )
    # In a quick run, too, which has no warm-up else.
    plan = replace(_PLAN, rounds=1, warm_up_requests=0)
    outcomes = Runner([entry], load, plan, tmp_path, Quiet()).run()
    assert outcomes["cached"].failure is None
    assert outcomes["cached"].proof is not None
    assert outcomes["cached"].proof.lines == {"cache HIT": 1_000}
    # Four runs, as each begins a little earlier, the proof, four runs, the round.
    assert len(load.paths) == 10
    assert len(load.paths[0]) == len(load.paths[5]) == 1_000


def test_everything_is_stopped_when_the_load_generator_fails(tmp_path: Path) -> None:
    class Failing(FixedLoad):
        """Fails in the first run."""

        def run(
            self, address: Address, paths: Iterable[str], seconds: int
        ) -> LoadResult:
            self.pids = [contestant.pids() for contestant in contestants]
            raise RuntimeError("no load")

    contestants = [FakeContestant("a"), FakeContestant("b")]
    load = Failing(load_result(1))
    runner = Runner(_entries(*contestants), load, _PLAN, tmp_path, Quiet())
    with pytest.raises(RuntimeError, match="no load"):
        runner.run()
    assert all(len(pids) == 1 for pids in load.pids)
    for pids in load.pids:
        for pid in pids:
            assert not Path(f"/proc/{pid}").exists()


def test_two_contestants_of_one_name_are_refused(tmp_path: Path) -> None:
    entries = _entries(FakeContestant("a"), FakeContestant("a"))
    with pytest.raises(ValueError, match="same name"):
        Runner(entries, FixedLoad(load_result(1)), _PLAN, tmp_path, Quiet())
