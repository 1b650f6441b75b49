"""Medians, spreads and ratios."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.model import (
    AddedLatency,
    Comparison,
    LatencySample,
    Metric,
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

    ``noise`` is how much equal contestants differed from each other in the
    middle half of the rounds, 0 if the comparison allows for none. ``missing``
    says why there is no spread.
    """

    comparison: Comparison
    to: str | None
    spread: Spread | None
    missing: str | None = None
    noise: float = 0.0

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a figure."""
        if self.comparison.goal is None or self.spread is None:
            return None
        if self.comparison.metric == "rate":
            return self.spread.median >= self.comparison.goal - self.noise
        return self.spread.median <= self.comparison.goal + self.noise


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


def rate_spread(outcome: Outcome) -> Spread:
    """Describe a contestant's requests per second over the rounds."""
    return spread([sample.requests_per_second for sample in outcome.samples])


def compare(comparison: Comparison, outcomes: Mapping[str, Outcome]) -> Ratio:
    """Divide round by round; the noise that a round's contestants share cancels.

    Args:
        comparison: what to divide by what.
        outcomes: by contestant's name.
    """
    needed = [comparison.of, *(comparison.grown_from or ()), *(comparison.noise or ())]
    for name in needed:
        if name not in outcomes or not outcomes[name].measured:
            return Ratio(comparison, None, None, f"{name} was not measured")
    candidates = [
        outcomes[name]
        for name in comparison.to
        if name in outcomes and not outcomes[name].missing
    ]
    for candidate in candidates:
        if not candidate.measured:
            # The best of them is then unknown.
            return Ratio(comparison, None, None, f"{candidate.name} was not measured")
    if not candidates:
        return Ratio(comparison, None, None, f"no {' or '.join(comparison.to)}")
    if comparison.metric == "rate":
        to = max(candidates, key=lambda outcome: rate_spread(outcome).median)
    else:
        to = min(candidates, key=lambda outcome: cpu_spread(outcome).median)
    over = [outcomes[comparison.of]]
    under = [to]
    if comparison.grown_from is not None:
        of_first, to_first = comparison.grown_from
        over.append(outcomes[to_first])
        under.append(outcomes[of_first])
    ratios = _by_round(over, under, comparison.metric)
    if not ratios:
        return Ratio(comparison, to.name, None, "no round has all")
    noise = 0.0
    if comparison.noise is not None:
        one, same = (outcomes[name] for name in comparison.noise)
        between = _by_round([one], [same], comparison.metric)
        if not between:
            return Ratio(comparison, to.name, None, "no round has all")
        middle = spread(between)
        noise = max(abs(middle.q1 - 1), abs(middle.q3 - 1))
    return Ratio(comparison, to.name, spread(ratios), noise=noise)


def _by_round(
    over: Sequence[Outcome], under: Sequence[Outcome], metric: Metric
) -> list[float]:
    """Multiply and divide the values of each round that all have."""
    series = [
        ({sample.round: sample.value(metric) for sample in outcome.samples}, sign)
        for outcomes, sign in ((over, 1), (under, -1))
        for outcome in outcomes
    ]
    rounds = set.intersection(*(set(values) for values, _ in series))
    return [
        math.prod(values[number] ** sign for values, sign in series)
        for number in sorted(rounds)
    ]


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
