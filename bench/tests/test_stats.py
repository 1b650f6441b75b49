"""Ratios and spreads."""

import pytest

from bench.model import Comparison, Outcome, Sample
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


def test_spread_of_one_value_and_of_many() -> None:
    assert spread([3.0]).q1 == spread([3.0]).q3 == 3.0
    many = spread([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (many.low, many.q1, many.median, many.q3, many.high) == (1, 2, 3, 4, 5)
