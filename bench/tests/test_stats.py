"""Ratios and spreads."""

import pytest

from bench.model import Comparison, Failure, Outcome, Sample
from bench.stats import compare, spread
from bench.tests.fakes import load_result


def outcome(name: str, *microseconds: float) -> Outcome:
    """Return a measured contestant with one sample for each figure."""
    samples = [
        Sample(number, load_result(1_000), int(cost * 1_000_000), 0)
        for number, cost in enumerate(microseconds, 1)
    ]
    return Outcome(name, name, "ours", samples=samples)


def test_ratio_is_taken_round_by_round() -> None:
    # The second round met a disturbance that hit both.
    outcomes = {"a": outcome("a", 11, 33, 22), "b": outcome("b", 10, 30, 10)}
    ratio = compare(Comparison("", "a", ("b",), goal=1.2), outcomes)
    assert ratio.spread is not None
    assert ratio.spread.median == pytest.approx(1.1)
    assert ratio.spread.low == pytest.approx(1.1)
    assert ratio.spread.high == pytest.approx(2.2)
    assert ratio.met is True


def test_cheapest_candidate_is_the_baseline() -> None:
    outcomes = {
        "a": outcome("a", 12, 12, 12),
        "dear": outcome("dear", 20, 8, 20),
        "cheap": outcome("cheap", 10, 10, 10),
    }
    ratio = compare(Comparison("", "a", ("dear", "cheap"), goal=1.1), outcomes)
    assert ratio.to == "cheap"
    assert ratio.met is False


def test_goal_is_unknown_without_figures() -> None:
    ratio = compare(Comparison("", "a", ("b",), goal=1.1), {"b": outcome("b", 1)})
    assert ratio.met is None
    assert ratio.missing == "a was not measured"


def rated(name: str, *rates: int) -> Outcome:
    """Return a measured contestant with so many answers in each second."""
    samples = [
        Sample(number, load_result(rate), 1_000_000, 0)
        for number, rate in enumerate(rates, 1)
    ]
    return Outcome(name, name, "ours", samples=samples)


def test_goal_of_a_rate_is_the_lowest_that_will_do() -> None:
    outcomes = {
        "a": rated("a", 300, 320, 310),
        "slow": rated("slow", 100, 100, 100),
        "fast": rated("fast", 200, 200, 200),
    }
    for goal, met in ((1.5, True), (1.6, False)):
        what = Comparison("", "a", ("slow", "fast"), goal, metric="rate")
        ratio = compare(what, outcomes)
        assert ratio.to == "fast"
        assert ratio.spread is not None
        assert ratio.spread.median == pytest.approx(1.55)
        assert ratio.met is met


@pytest.mark.parametrize(("again", "met"), [(100, False), (90, True), (112, True)])
def test_goal_within_noise_is_met_only_if_equals_differ_as_much(
    again: int, met: bool
) -> None:
    outcomes = {
        "a": rated("a", 92, 92, 92),
        "b": rated("b", 100, 100, 100),
        "b-again": rated("b-again", again, again, again),
    }
    what = Comparison("", "a", ("b",), 1.0, metric="rate", noise=("b", "b-again"))
    ratio = compare(what, outcomes)
    assert ratio.noise == pytest.approx(abs(100 / again - 1))
    assert ratio.met is met


def test_one_round_that_went_wrong_is_not_the_noise() -> None:
    outcomes = {
        "a": rated("a", *[95] * 9),
        "b": rated("b", *[100] * 9),
        "b-again": rated("b-again", *[100] * 8, 50),
    }
    what = Comparison("", "a", ("b",), 1.0, metric="rate", noise=("b", "b-again"))
    ratio = compare(what, outcomes)
    assert ratio.noise == 0
    assert ratio.met is False


def test_growths_are_compared_round_by_round() -> None:
    outcomes = {
        "ours-1": outcome("ours-1", 10, 20, 10),
        "ours-2": outcome("ours-2", 12, 24, 12),
        "static-1": outcome("static-1", 20, 40, 20),
        "static-2": outcome("static-2", 30, 60, 30),
    }
    what = Comparison(
        "", "ours-2", ("static-2",), 1.05, grown_from=("ours-1", "static-1")
    )
    ratio = compare(what, outcomes)
    assert ratio.spread is not None
    assert ratio.spread.low == ratio.spread.high == pytest.approx(1.2 / 1.5)
    assert ratio.met is True
    del outcomes["static-1"]
    assert compare(what, outcomes).missing == "static-1 was not measured"


def test_spread_of_one_value_and_of_many() -> None:
    assert spread([3.0]).q1 == spread([3.0]).q3 == 3.0
    many = spread([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (many.low, many.q1, many.median, many.q3, many.high) == (1, 2, 3, 4, 5)


def test_missing_candidate_leaves_the_best_of_the_others() -> None:
    absent = outcome("b", 1)
    absent.failure = Failure("missing", "not installed")
    outcomes = {"a": outcome("a", 6), "b": absent, "c": outcome("c", 12)}
    ratio = compare(Comparison("a / best", "a", ("b", "c")), outcomes)
    assert ratio.to == "c"
    assert ratio.spread is not None
    assert ratio.spread.median == pytest.approx(0.5)
    only = compare(Comparison("a / b", "a", ("b",)), outcomes)
    assert only.missing == "no b"
