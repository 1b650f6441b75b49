"""Medians, spreads and ratios."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.model import (
    AddedLatency,
    Comparison,
    LatencySample,
    Outcome,
    StoreCost,
)


@dataclass(frozen=True)
class Spread:
    """Median, quartiles and extremes of a series."""

    median: float
    q1: float
    q3: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """A comparison's result: the spread of the ratios round by round.

    ``missing`` says why there is none.
    """

    comparison: Comparison
    to: str | None
    spread: Spread | None
    missing: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a figure."""
        if self.comparison.goal is None or self.spread is None:
            return None
        return self.spread.median <= self.comparison.goal


def spread(values: Sequence[float]) -> Spread:
    """Describe a series.

    Args:
        values: at least one.
    """
    if len(values) == 1:
        q1 = q3 = values[0]
    else:
        q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(statistics.median(values), q1, q3, min(values), max(values))


def cpu_spread(outcome: Outcome) -> Spread:
    """Describe a contestant's CPU µs per request over the rounds."""
    return spread([sample.cpu_us_per_request for sample in outcome.samples])


def compare(comparison: Comparison, outcomes: Mapping[str, Outcome]) -> Ratio:
    """Divide round by round; the noise that a round's contestants share cancels.

    Args:
        comparison: what to divide by what.
        outcomes: by contestant's name.
    """
    of = outcomes.get(comparison.of)
    if of is None or not of.measured:
        return Ratio(comparison, None, None, f"{comparison.of} was not measured")
    candidates = [outcomes[name] for name in comparison.to if name in outcomes]
    for candidate in candidates:
        if not candidate.measured:
            # The cheapest of them is then unknown.
            return Ratio(comparison, None, None, f"{candidate.name} was not measured")
    if not candidates:
        return Ratio(comparison, None, None, f"no {' or '.join(comparison.to)}")
    to = min(candidates, key=lambda outcome: cpu_spread(outcome).median)
    below = {sample.round: sample.cpu_us_per_request for sample in to.samples}
    ratios = [
        sample.cpu_us_per_request / below[sample.round]
        for sample in of.samples
        if sample.round in below
    ]
    if not ratios:
        return Ratio(comparison, to.name, None, "no round has both")
    return Ratio(comparison, to.name, spread(ratios))


@dataclass(frozen=True)
class Figure:
    """A figure in µs with its spread over the rounds.

    ``missing`` says why there is none.
    """

    title: str
    goal: float | None
    spread: Spread | None
    missing: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a figure."""
        if self.goal is None or self.spread is None:
            return None
        return self.spread.median <= self.goal


def store_spread(outcome: Outcome) -> Spread | None:
    """Describe the CPU µs per request of the store; None without a store."""
    values = [
        sample.store.cpu_ns / 1000 / sample.load.requests
        for sample in outcome.samples
        if sample.store is not None
    ]
    return spread(values) if values else None


def store_figure(cost: StoreCost, outcomes: Mapping[str, Outcome]) -> Figure:
    """Say what a store spent for a contestant.

    Args:
        cost: of which contestant.
        outcomes: by contestant's name.
    """
    of = outcomes.get(cost.of)
    values = store_spread(of) if of is not None and of.measured else None
    missing = None if values else f"{cost.of} was not measured"
    return Figure(cost.title, cost.goal, values, missing)


def latency_figures(
    latency: AddedLatency,
    samples: Sequence[LatencySample],
    outcomes: Mapping[str, Outcome],
) -> list[Figure]:
    """Say how much longer one contestant takes than another, and the parts.

    Args:
        latency: which.
        samples: of each round.
        outcomes: by contestant's name; a failure of either voids the figures.
    """
    for name in (latency.of, latency.to):
        if name not in outcomes or not outcomes[name].measured:
            missing = f"{name} was not measured"
            return [Figure(latency.title, latency.goal, None, missing)]
    if not samples:
        missing = "no latency was measured"
        return [Figure(latency.title, latency.goal, None, missing)]
    of, to = outcomes[latency.of].title, outcomes[latency.to].title
    return [
        Figure(
            f"latency, one at a time: {of}", None, spread([s.of_us for s in samples])
        ),
        Figure(
            f"latency, one at a time: {to}", None, spread([s.to_us for s in samples])
        ),
        Figure("a round trip to the store", None, spread([s.trip_us for s in samples])),
        Figure(
            latency.title, latency.goal, spread([s.beyond_trip_us for s in samples])
        ),
    ]
