"""The store that contestants ask: its counters, its CPU, its latency."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.contestants import Asked
from bench.load import Wrk
from bench.model import (
    AddedLatency,
    Address,
    ContestantError,
    LatencySample,
    LoadResult,
    Outcome,
    Sample,
    StoreCost,
    StoreUse,
)
from bench.proof import check_store
from bench.runner import Entry, LatencyPlan, Plan, Runner
from bench.stats import latency_figures, store_figure
from bench.tests.body import Numbers
from bench.tests.fakes import (
    CORES,
    FakeContestant,
    FakeStore,
    FixedLoad,
    Quiet,
    load_result,
)
from bench.tests.test_stats import outcome

_PLAN = Plan(
    rounds=1,
    seconds=1,
    seed=1,
    warm_up_requests=0,
    checks=5,
    spot_checks=2,
    latency_rounds=2,
)
_RIGHT = replace(load_result(1_000), bytes=1_000 * 544)


@pytest.mark.parametrize(
    ("gets", "hits"),
    [(1_000, 1_000), (990, 990), (1_012, 1_012), (1_000, 990)],
)
def test_one_percent_less_and_those_cut_off_are_accepted(gets: int, hits: int) -> None:
    check_store(load_result(1_000), 2, Asked(gets, hits), "round 1")


@pytest.mark.parametrize(
    ("gets", "hits"),
    [(989, 989), (1_013, 1_000), (1_000, 989), (0, 0), (2_000, 1_000)],
)
def test_store_that_was_not_asked_each_time_is_refused(gets: int, hits: int) -> None:
    with pytest.raises(ContestantError, match=f"for {gets} keys and had {hits}"):
        check_store(load_result(1_000), 2, Asked(gets, hits), "round 1")


def _run(store: FakeStore, directory: Path) -> dict[str, Outcome]:
    entries = [
        Entry(FakeContestant("asks"), Numbers(), "a", "ours", store=store),
        Entry(FakeContestant("alone"), Numbers(), "b", "ours"),
    ]
    return Runner(entries, FixedLoad(_RIGHT), _PLAN, directory, Quiet()).run()


def test_what_the_store_spent_is_kept_apart(tmp_path: Path) -> None:
    store = FakeStore(1_001, 1_000)
    outcomes = _run(store, tmp_path)
    (sample,) = outcomes["asks"].samples
    assert sample.store is not None
    assert (sample.store.gets, sample.store.hits) == (1_001, 1_000)
    assert sample.store.cpu_ns == 0
    (alone,) = outcomes["alone"].samples
    assert alone.store is None
    assert "# store --fake" in outcomes["asks"].configuration
    assert store.calls == ["start", "stop"]


@pytest.mark.parametrize(("gets", "hits"), [(900, 900), (1_000, 0)])
def test_contestant_that_did_not_ask_is_reported_not_averaged(
    gets: int, hits: int, tmp_path: Path
) -> None:
    outcomes = _run(FakeStore(gets, hits), tmp_path)
    failure = outcomes["asks"].failure
    assert failure is not None
    assert failure.stage == "round 1"
    assert f"1000 answers, but its store was asked for {gets} keys" in failure.reason
    assert outcomes["asks"].samples == []
    assert not outcomes["asks"].measured
    assert outcomes["alone"].measured
    cost = store_figure(StoreCost("", "asks", 2), outcomes)
    assert cost.spread is None
    assert cost.met is None
    assert cost.missing == "asks was not measured"


def test_store_that_does_not_start_fails_only_who_asks_it(tmp_path: Path) -> None:
    store = FakeStore(0, 0, broken="no memory")
    outcomes = _run(store, tmp_path)
    failure = outcomes["asks"].failure
    assert failure is not None
    assert (failure.stage, failure.reason) == ("store", "no memory")
    assert outcomes["alone"].measured
    assert store.calls[-1] == "stop"


def test_store_cost_is_per_answer() -> None:
    asks = outcome("asks", 10, 10)
    asks.samples = [
        replace(sample, store=StoreUse(1_000, 1_000, cost))
        for sample, cost in zip(asks.samples, (1_500_000, 2_100_000), strict=True)
    ]
    figure = store_figure(StoreCost("", "asks", 2), {"asks": asks})
    assert figure.spread is not None
    assert figure.spread.median == pytest.approx(1.8)
    assert figure.spread.high == pytest.approx(2.1)
    assert figure.met is True
    assert store_figure(StoreCost("", "asks", 1.7), {"asks": asks}).met is False


class _Single(FixedLoad):
    """One connection; the first contestant takes 150 µs, the other 80."""

    connections = 1

    def __init__(self) -> None:
        super().__init__(_RIGHT)
        self.asked: list[Address] = []

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        self.asked.append(address)
        first = address == self.asked[0]
        return replace(_RIGHT, latency_p50_us=150.0 if first else 80.0)


def _latency(
    store: FakeStore, load: FixedLoad, directory: Path
) -> tuple[dict[str, Outcome], list[LatencySample], AddedLatency]:
    entries = [
        Entry(FakeContestant("asks"), Numbers(), "a", "ours", store=store),
        Entry(FakeContestant("alone"), Numbers(), "b", "ours"),
    ]
    what = AddedLatency("added", "asks", "alone", 20)
    runner = Runner(
        entries,
        FixedLoad(_RIGHT),
        _PLAN,
        directory,
        Quiet(),
        latency=LatencyPlan(what, load, ["1"], CORES[0]),
    )
    return runner.run(), runner.latencies, what


def test_latency_is_measured_in_turns_and_less_a_round_trip(tmp_path: Path) -> None:
    load = _Single()
    outcomes, samples, what = _latency(
        FakeStore(1_000, 1_000, trip_us=55), load, tmp_path
    )
    of, to = load.asked[:2]
    assert of != to
    assert load.asked == [of, to, of, to]
    assert samples == [LatencySample(150, 80, 55)] * 2
    assert (samples[0].added_us, samples[0].beyond_trip_us) == (70, 15)
    *parts, goal = latency_figures(what, samples, outcomes)
    assert [part.spread.median for part in parts if part.spread] == [150, 80, 55]
    assert goal.spread is not None
    assert goal.spread.median == 15
    assert goal.met is True


def test_error_at_one_at_a_time_voids_the_latency(tmp_path: Path) -> None:
    broken = FixedLoad(replace(_RIGHT, timeouts=1))
    outcomes, samples, what = _latency(FakeStore(1_000, 1_000), broken, tmp_path)
    assert samples == []
    failure = outcomes["asks"].failure
    assert failure is not None
    assert failure.stage == "latency 1"
    (figure,) = latency_figures(what, samples, outcomes)
    assert figure.spread is None
    assert figure.met is None
    assert figure.missing == "asks was not measured"


def test_sample_without_store_has_no_cost() -> None:
    sample = Sample(1, load_result(10), 1, 0)
    assert sample.store is None
    figure = store_figure(StoreCost("", "a"), {"a": outcome("a", 1)})
    assert figure.spread is None


def test_real_load_that_never_asked_the_store_is_refused(tmp_path: Path) -> None:
    entry = Entry(FakeContestant("asks"), Numbers(), "a", "ours", store=FakeStore(0, 0))
    outcomes = Runner([entry], Wrk(CORES[-1], 4), _PLAN, tmp_path, Quiet()).run()
    failure = outcomes["asks"].failure
    assert failure is not None
    assert "was asked for 0 keys and had 0" in failure.reason
