"""The data that the parts of the benchmark pass to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


class BenchError(Exception):
    """The benchmark itself cannot run: a tool or a core is missing."""


class ContestantError(Exception):
    """A contestant did something wrong; it is reported, not averaged.

    Args:
        stage: what was being done, for example ``"verify"`` or ``"round 3"``.
        reason: what went wrong, one sentence.
    """

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason


Metric = Literal["cpu", "rate"]


@dataclass(frozen=True)
class Address:
    """Where a contestant listens.

    ``certificate`` is the PEM file of a server that speaks TLS only; None for
    plain HTTP.
    """

    host: str
    port: int
    certificate: Path | None = None

    @property
    def url(self) -> str:
        """The URL of its root."""
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.host}:{self.port}/"


@dataclass(frozen=True)
class LoadResult:
    """What a load generator saw in one run. Times in seconds and µs, None for
    one that it does not tell.

    ``bytes`` are those of heads and bodies, or of bodies alone if ``heads`` is
    False.
    """

    requests: int
    bytes: int
    seconds: float
    connect_errors: int
    read_errors: int
    write_errors: int
    status_errors: int
    timeouts: int
    latency_mean_us: float
    latency_p50_us: float | None
    latency_p99_us: float | None
    latency_max_us: float | None
    heads: bool = True

    @property
    def errors(self) -> Mapping[str, int]:
        """Errors by kind, only the kinds that occurred."""
        kinds = {
            "connect": self.connect_errors,
            "read": self.read_errors,
            "write": self.write_errors,
            "status": self.status_errors,
            "timeout": self.timeouts,
        }
        return {kind: n for kind, n in kinds.items() if n}


@dataclass(frozen=True)
class StoreUse:
    """What one timed run took from the store that the contestant asks.

    ``gets`` keys were asked for and ``hits`` found; ``cpu_ns`` is the CPU time
    of all threads of the store.
    """

    gets: int
    hits: int
    cpu_ns: int


@dataclass(frozen=True)
class Sample:
    """One timed run of one contestant.

    ``cpu_ns`` is the CPU time of the contestant's processes, ``wait_ns`` the
    time they were ready to run but another process had their core;
    ``major_faults`` are page faults that waited for a disk. ``reads`` counts
    system calls that read a file, ``shares`` are the parts of ``cpu_ns`` of each
    process. ``store`` is None if the contestant asks no server.
    """

    round: int
    load: LoadResult
    cpu_ns: int
    wait_ns: int
    minor_faults: int = 0
    major_faults: int = 0
    store: StoreUse | None = None
    reads: int = 0
    shares: tuple[float, ...] = ()

    def value(self, metric: Metric) -> float:
        """Return CPU µs per request or requests per second."""
        return self.cpu_us_per_request if metric == "cpu" else self.requests_per_second

    @property
    def busy(self) -> float:
        """Share of the time that its processes ran; 1 for each whole core."""
        return self.cpu_ns / 1e9 / self.load.seconds

    @property
    def cpu_us_per_request(self) -> float:
        """CPU microseconds that one answer cost."""
        return self.cpu_ns / 1000 / self.load.requests

    @property
    def wait_share(self) -> float:
        """Share of the time in which another process had the core."""
        return self.wait_ns / 1e9 / self.load.seconds

    @property
    def requests_per_second(self) -> float:
        """Answers per second as the load generator counted them."""
        return self.load.requests / self.load.seconds


@dataclass(frozen=True)
class Memory:
    """Memory of a contestant's processes in KiB.

    ``anonymous_kib`` is private memory without mapped files; ``rss_kib``
    includes the mapped pages, for example those of an LMDB file.
    """

    rss_kib: int
    anonymous_kib: int


@dataclass(frozen=True)
class Proof:
    """How often each line occurred in the log of an untimed run."""

    requests: int
    expected: str
    lines: Mapping[str, int]


@dataclass(frozen=True)
class Failure:
    """Why a contestant has no figures."""

    stage: str
    reason: str


@dataclass
class Outcome:
    """All that is known of one contestant after the run."""

    name: str
    title: str
    role: str
    samples: list[Sample] = field(default_factory=list)
    failure: Failure | None = None
    memory: Memory | None = None
    proof: Proof | None = None
    configuration: str = ""

    @property
    def measured(self) -> bool:
        """Whether the contestant's samples may be averaged."""
        return self.failure is None and bool(self.samples)

    @property
    def missing(self) -> bool:
        """Whether it is not there, which says nothing of how well it does."""
        return self.failure is not None and self.failure.stage == "missing"


@dataclass(frozen=True)
class Comparison:
    """A ratio of CPU per request, or of requests per second, of two contestants.

    ``to`` names the candidates for the denominator: the one with the best
    median is taken of those that are installed. ``goal`` is the highest ratio of CPU, or the lowest one of
    rates, that is good enough; None for a ratio that only informs. ``noise``
    names two equal contestants: the goal is then met, too, if it is missed by no
    more than their ratio differs from 1 in the middle half of the rounds.
    ``grown_from`` names contestants that both sides are divided by first: the
    ratio is then that of two growths.
    """

    title: str
    of: str
    to: tuple[str, ...]
    goal: float | None = None
    metric: Metric = "cpu"
    noise: tuple[str, str] | None = None
    grown_from: tuple[str, str] | None = None


@dataclass(frozen=True)
class StoreCost:
    """The store's own CPU µs per request of a contestant, with its goal."""

    title: str
    of: str
    goal: float | None = None


@dataclass(frozen=True)
class LatencySample:
    """Median latencies in µs of one request at a time on one connection.

    ``of_us`` and ``to_us`` are those of two contestants, ``trip_us`` is a
    round trip to the store of the first.
    """

    of_us: float
    to_us: float
    trip_us: float

    @property
    def added_us(self) -> float:
        """How much longer the first takes than the second."""
        return self.of_us - self.to_us

    @property
    def beyond_trip_us(self) -> float:
        """How much of that is more than the round trip."""
        return self.added_us - self.trip_us


@dataclass(frozen=True)
class AddedLatency:
    """Compares two contestants' latencies, one request at a time.

    Args:
        of: contestant that asks a store.
        to: contestant that answers the same requests without.
        goal: µs that ``of`` may take more than ``to`` and a round trip to
            the store together.
    """

    title: str
    of: str
    to: str
    goal: float
