"""The published tables. Each is a module that makes a :class:`Table`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.contestants.nginx import NginxProgram
from bench.load import LoadGenerator
from bench.model import AddedLatency, Comparison, Metric, StoreCost
from bench.plots import Row
from bench.progress import Reporter
from bench.runner import Entry, Plan


@dataclass(frozen=True)
class Setting:
    """What a table is made from.

    ``cache`` keeps data sets between runs; ``module_missing`` says why our
    module cannot be loaded, None if it can.
    """

    nginx: NginxProgram
    module_missing: str | None
    cache: Path
    quick: bool
    note: Callable[[str], None]


@dataclass(frozen=True)
class Table:
    """One published table.

    ``about`` is Markdown that says what is measured. ``files`` are kept in
    memory while it is. ``store_costs`` and ``latency`` are published too;
    ``keys`` are what the store is asked for in a round trip. The load has
    ``connections``. ``shared``: the load generator is on both cores, as the
    workers are. ``crowded``: a contestant has several processes on one core, so
    that they wait for each other. ``run`` says how long a timed run is, if not
    the plan's seconds. ``metric`` is what the plot shows, but for the contestants
    of ``unplotted``, whose figures are not to be compared with the others'.
    ``change_plan`` adapts the plan to answers that are large. ``packages`` are
    Debian's whose versions are named, ``facts`` what else is.
    """

    name: str
    title: str
    about: str
    entries: Sequence[Entry]
    comparisons: Sequence[Comparison]
    files: Sequence[Path] = ()
    store_costs: Sequence[StoreCost] = ()
    latency: AddedLatency | None = None
    keys: Sequence[str] = ()
    connections: int = 64
    shared: bool = False
    crowded: bool = False
    run: str = ""
    metric: Metric = "cpu"
    change_plan: Callable[[Plan], Plan] = lambda plan: plan
    packages: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    unplotted: Sequence[str] = ()


@dataclass(frozen=True)
class Means:
    """What a study may use.

    ``load`` runs on ``other_core`` with 64 connections; ``directory`` is empty
    and removed afterwards; ``progress`` is told what happens.
    """

    load: LoadGenerator
    directory: Path
    plan: Plan
    progress: Reporter


@dataclass(frozen=True)
class Goal:
    """A figure of a study beside its goal.

    ``met`` is None for a figure that only informs, or that is not known.
    """

    title: str
    figure: str
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Finding:
    """What a study found: a published section that is no table of contestants.

    ``tables`` are pairs of a header and rows. ``bars`` are drawn, with ``axis``
    below and a line at ``line``. ``data`` goes into the results; ``files`` are
    kept beside them, by name. ``facts`` are named beside those of the machine.
    ``complete`` is False if something could not be measured.
    """

    name: str
    title: str
    about: str
    goals: Sequence[Goal]
    tables: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]]
    bars: Sequence[Row]
    axis: str
    line: float | None
    data: Mapping[str, object]
    files: Mapping[str, str]
    notes: Sequence[str] = ()
    complete: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)
