"""The published tables. Each is a module that makes a :class:`Table`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contestants.nginx import NginxProgram
from bench.model import AddedLatency, Comparison, StoreCost
from bench.runner import Entry


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
    ``keys`` are what the store is asked for in a round trip.
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
