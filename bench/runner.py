"""Runs the contestants of a table in turn and collects what they cost."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.contestants import Asked, Contestant, Store
from bench.cpu import ProcessGone, cpu_time, file_reads, settled_cpu_time
from bench.load import LoadGenerator, ask_all
from bench.memory import memory
from bench.model import (
    AddedLatency,
    Address,
    ContestantError,
    Failure,
    LatencySample,
    LoadResult,
    Outcome,
    Sample,
    StoreUse,
)
from bench.process import still
from bench.progress import Reporter
from bench.proof import LoggingContestant, check_store, prove
from bench.quiet import Patience
from bench.verify import verify
from bench.workload import Workload, covering_indexes, mean_size, random_indexes

_URLS_PER_SECOND = 131_072
_SIZE_TOLERANCE = 0.01
_EXACT = 1e-6
_DISTURBED = 0.05
_FAIR_SHARE = 0.5
_LOG_STAGE = "its log"


@dataclass(frozen=True)
class Entry:
    """A contestant and its part in a table.

    ``role`` is ``baseline``, ``ours``, ``other``, ``floor`` or ``noise`` (a
    copy of another, to show what the machine alone makes of two equals).
    ``proof`` gives a logging copy and the one line that it may log. ``missing``
    says why the contestant cannot take part. ``store`` is a server that it asks
    once for each request; several may ask the same. ``passes``: everything is
    asked for so many times before the proof and before the rounds, which fills
    a cache; 0 leaves it to the plan. ``reads`` is the highest number of file
    reads for a request that a timed run may have, None for any. ``load`` is used
    in the proof and the timed runs instead of the table's own load generator.
    ``strays`` is how many lines of the proof may be others.
    """

    contestant: Contestant
    workload: Workload
    title: str
    role: str
    proof: tuple[LoggingContestant, str] | None = None
    missing: str | None = None
    store: Store | None = None
    passes: int = 0
    reads: float | None = None
    load: LoadGenerator | None = None
    strays: int = 0


@dataclass(frozen=True)
class LatencyPlan:
    """How latency is measured: one request at a time, after the timed runs.

    ``keys`` are what the store is asked for in the round trip, on
    ``worker_core``.
    """

    what: AddedLatency
    load: LoadGenerator
    keys: Sequence[str]
    worker_core: int


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    ``rounds`` timed runs of ``seconds`` each. Before them every different
    request is made once, or ``warm_up_requests`` evenly spaced ones; 0 for no
    warm-up. ``checks`` answers are compared byte for byte before and after the
    rounds, ``spot_checks`` after each timed run. Latency is measured in
    ``latency_rounds`` of three runs of one second. ``exclusive``: the workers
    have their core for themselves, so a run is repeated if another process had
    it. ``fair``: each worker must have had a part of the work.
    """

    rounds: int
    seconds: int
    seed: int
    warm_up_requests: int = 131_072
    checks: int = 500
    spot_checks: int = 20
    latency_rounds: int = 5
    exclusive: bool = True
    fair: bool = False


class Runner:
    """Measures the entries of one table.

    Args:
        entries: in the order in which they take turns.
        load: load generator.
        plan: how much is measured.
        directory: each contestant gets a directory of its own below it.
        reporter: is told what happens.
        patience: to wait before each timed run until nothing else runs, and to
            repeat one that was disturbed (another process had the core for
            more than 5 % of the time); by default none.
        latency: what is measured one request at a time, or None.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        load: LoadGenerator,
        plan: Plan,
        directory: Path,
        reporter: Reporter,
        patience: Patience | None = None,
        latency: LatencyPlan | None = None,
    ) -> None:
        self._entries = entries
        self._load = load
        self._plan = plan
        self._directory = directory
        self._reporter = reporter
        self._patience = patience or Patience(0, ())
        self._outcomes = {
            entry.contestant.name: Outcome(
                entry.contestant.name, entry.title, entry.role
            )
            for entry in entries
        }
        if len(self._outcomes) != len(entries):
            raise ValueError("two contestants have the same name")
        self._pids: dict[str, frozenset[int]] = {}
        self._heads: dict[str, float] = {}
        self._latency = latency
        self.latencies: list[LatencySample] = []

    def run(self) -> dict[str, Outcome]:
        """Start, check, warm up, measure in turns, check again, stop.

        A contestant that fails is stopped, keeps its failure and takes no
        further part; the others go on. Everything is stopped when this
        returns or raises.

        Returns:
            The outcomes by contestant's name.
        """
        latency_rounds = self._plan.latency_rounds if self._latency else 0
        self._reporter.total(
            len(self._entries) * (self._plan.rounds + 4) + latency_rounds
        )
        with ExitStack() as stack:
            for entry in self._entries:
                stack.callback(entry.contestant.stop)
                if entry.proof is not None:
                    stack.callback(entry.proof[0].stop)
                if entry.store is not None:
                    stack.callback(entry.store.stop)
            self._each("start", self._start)
            self._each("proof", self._prove)
            self._each("warm-up", self._warm_up)
            for number in range(1, self._plan.rounds + 1):
                self._each(f"round {number}", self._timed_run(number))
            if self._latency is not None:
                self._measure_latency(self._latency)
            self._each("final check", self._finish)
        return self._outcomes

    def _each(self, stage: str, action: Callable[[Entry], None]) -> None:
        for entry in self._entries:
            name = entry.contestant.name
            self._reporter.step(f"{stage}: {name}")
            if self._outcomes[name].failure is not None:
                continue
            try:
                action(entry)
            except ContestantError as error:
                self._fail(entry, error.stage, error.reason)
            except ProcessGone as error:
                self._fail(entry, stage, str(error))

    def _fail(self, entry: Entry, stage: str, reason: str) -> None:
        contestant = entry.contestant
        contestant.stop()
        complaints = contestant.complaints() if contestant.name in self._pids else []
        if complaints and stage != _LOG_STAGE:
            reason = f"{reason}; its log: {complaints[-1]}"
        self._outcomes[contestant.name].failure = Failure(stage, reason)
        self._reporter.note(f"{contestant.name} failed: {stage}: {reason}")

    def _start(self, entry: Entry) -> None:
        contestant = entry.contestant
        if entry.missing is not None:
            raise ContestantError("missing", entry.missing)
        if entry.store is not None:
            entry.store.start(self._directory / entry.store.name)
        contestant.configure(self._own_directory(contestant))
        contestant.start()
        configuration = contestant.configuration()
        if entry.store is not None:
            configuration += f"\n# {entry.store.command()}\n"
        self._outcomes[contestant.name].configuration = configuration
        self._pids[contestant.name] = contestant.pids()
        self._heads[contestant.name] = self._verify(entry, "first check", 0)

    def _own_directory(self, contestant: Contestant) -> Path:
        directory = self._directory / contestant.name
        directory.mkdir(parents=True)
        return directory

    def _verify(self, entry: Entry, stage: str, salt: int) -> float:
        indexes = random_indexes(
            entry.workload, self._plan.seed + salt, self._plan.checks
        )
        return verify(entry.contestant.address, entry.workload, indexes, stage)

    def _prove(self, entry: Entry) -> None:
        if entry.proof is None:
            return
        contestant, expected = entry.proof
        contestant.configure(self._own_directory(contestant))
        contestant.start()
        try:
            if entry.passes:
                self._warm_up_at(entry, contestant.address)
                settled_cpu_time(contestant.pids())
                contestant.begin_log()
            indexes = random_indexes(entry.workload, self._plan.seed, _URLS_PER_SECOND)
            self._outcomes[entry.contestant.name].proof = prove(
                contestant,
                expected,
                self._load_of(entry),
                map(entry.workload.url, indexes),
                entry.strays,
            )
        finally:
            contestant.stop()

    def _warm_up(self, entry: Entry) -> None:
        if self._plan.warm_up_requests or entry.passes:
            self._warm_up_at(entry, entry.contestant.address)

    def _warm_up_at(self, entry: Entry, address: Address) -> None:
        workload = entry.workload
        passes = entry.passes or 1
        limit = workload.count if entry.passes else self._plan.warm_up_requests
        indexes = [
            index
            for number in range(passes)
            for index in covering_indexes(workload, self._plan.seed + number, limit)
        ]
        urls = [workload.url(index) for index in indexes]
        # Always by the table's own load generator: for seconds, not requests.
        for start, result in ask_all(self._load, address, urls):
            self._check_load(entry, "warm-up", result, indexes[start:], self._load)

    def _load_of(self, entry: Entry) -> LoadGenerator:
        return entry.load or self._load

    def _timed_run(self, number: int) -> Callable[[Entry], None]:
        def run(entry: Entry) -> None:
            indexes = random_indexes(
                entry.workload,
                self._plan.seed + number,
                self._plan.seconds * _URLS_PER_SECOND,
            )
            self._patience.wait()
            sample = self._sample(entry, number, indexes)
            while self._disturbed(sample) and self._patience.left:
                self._patience.spend(sample.load.seconds)
                self._patience.wait()
                sample = self._sample(entry, number, indexes)
            self._outcomes[entry.contestant.name].samples.append(sample)

        return run

    def _disturbed(self, sample: Sample) -> bool:
        return self._plan.exclusive and sample.wait_share > _DISTURBED

    def _sample(self, entry: Entry, number: int, indexes: Sequence[int]) -> Sample:
        stage = f"round {number}"
        pids = self._pids[entry.contestant.name]
        address = entry.contestant.address
        urls = [entry.workload.url(index) for index in indexes]
        load = self._load_of(entry)
        before = settled_cpu_time(pids)
        each_before = _each_run_ns(pids)
        reads_before = self._file_reads(entry)
        with _StoreMeter(entry.store) as meter:
            result = load.run(address, urls, self._plan.seconds)
            used = settled_cpu_time(pids) - before
        each = [b - a for a, b in zip(each_before, _each_run_ns(pids), strict=True)]
        reads = self._file_reads(entry) - reads_before
        self._check_load(entry, stage, result, indexes, load)
        self._check_reads(entry, stage, result, reads)
        shares = tuple(run / max(1, sum(each)) for run in each)
        if self._plan.fair and min(shares) < _FAIR_SHARE / len(shares):
            raise ContestantError(
                stage, f"its workers did {_percentages(shares)} of the work"
            )
        meter.check(result, load, stage)
        self._check_processes(entry, stage)
        checked = indexes[: self._plan.spot_checks]
        verify(address, entry.workload, checked, stage)
        return Sample(
            number,
            result,
            used.run_ns,
            used.wait_ns,
            used.minor_faults,
            used.major_faults,
            meter.use,
            reads,
            shares,
        )

    def _file_reads(self, entry: Entry) -> int:
        if entry.reads is None:
            return 0
        return file_reads(self._pids[entry.contestant.name])

    def _check_reads(
        self, entry: Entry, stage: str, result: LoadResult, reads: int
    ) -> None:
        if entry.reads is not None and reads > entry.reads * result.requests:
            raise ContestantError(
                stage, f"{result.requests} answers took {reads} reads of files"
            )

    def _measure_latency(self, plan: LatencyPlan) -> None:
        """Take turns: one contestant, the other, the store itself."""
        pair = []
        for name in (plan.what.of, plan.what.to):
            found = [e for e in self._entries if e.contestant.name == name]
            if not found or self._outcomes[name].failure is not None:
                return
            pair += found
        of, to = pair
        for number in range(1, self._plan.latency_rounds + 1):
            stage = f"latency {number}"
            self._reporter.step(stage)
            medians = []
            for entry in (of, to):
                try:
                    medians.append(self._one_at_a_time(entry, plan, number, stage))
                except ContestantError as error:
                    return self._fail(entry, error.stage, error.reason)
                except ProcessGone as error:
                    return self._fail(entry, stage, str(error))
            if of.store is None:
                raise ValueError(f"{plan.what.of} asks no store")
            try:
                self._patience.wait()
                trip = of.store.round_trip_us(plan.keys, plan.worker_core, 1)
            except ContestantError as error:
                return self._fail(of, error.stage, error.reason)
            self.latencies.append(LatencySample(medians[0], medians[1], trip))

    def _one_at_a_time(
        self, entry: Entry, plan: LatencyPlan, number: int, stage: str
    ) -> float:
        """Return the median latency in µs of one second."""
        indexes = random_indexes(
            entry.workload, self._plan.seed + number, _URLS_PER_SECOND
        )
        urls = map(entry.workload.url, indexes)
        self._patience.wait()
        with _StoreMeter(entry.store) as meter:
            result = plan.load.run(entry.contestant.address, urls, 1)
        self._check_load(entry, stage, result, indexes, plan.load)
        meter.check(result, plan.load, stage)
        if result.latency_p50_us is None:
            raise ContestantError(stage, "no median latency was measured")
        return result.latency_p50_us

    def _check_load(
        self,
        entry: Entry,
        stage: str,
        result: LoadResult,
        indexes: Sequence[int],
        load: LoadGenerator,
    ) -> None:
        if result.errors:
            errors = ", ".join(f"{n} {kind}" for kind, n in result.errors.items())
            raise ContestantError(stage, f"errors under load: {errors}")
        if result.requests < load.connections:
            raise ContestantError(
                stage,
                f"only {result.requests} answers to {load.connections}"
                f" connections in {result.seconds:.1f} s",
            )
        asked = [indexes[i % len(indexes)] for i in range(result.requests)]
        expected = mean_size(entry.workload, asked)
        if result.heads:
            expected += self._heads[entry.contestant.name]
        mean = result.bytes / result.requests
        # Each connection may have been cut off within an answer, but not by those
        # that make a number of requests and count bodies alone.
        tolerance = _EXACT
        if result.heads:
            tolerance = _SIZE_TOLERANCE + 2 * load.connections / result.requests
        if abs(mean / expected - 1) > tolerance:
            raise ContestantError(
                stage,
                f"answers of {mean:.0f} bytes on average, not {expected:.0f}",
            )

    def _check_processes(self, entry: Entry, stage: str) -> None:
        name = entry.contestant.name
        if not still(entry.contestant.pids, self._pids[name]):
            now = entry.contestant.pids()
            raise ContestantError(
                stage,
                f"its processes were {sorted(self._pids[name])},"
                f" now they are {sorted(now)}",
            )

    def _finish(self, entry: Entry) -> None:
        contestant = entry.contestant
        self._verify(entry, "final check", -1)
        self._check_processes(entry, "final check")
        self._outcomes[contestant.name].memory = memory(contestant.pids())
        contestant.stop()
        complaints = contestant.complaints()
        if complaints:
            raise ContestantError(_LOG_STAGE, complaints[-1])


def _each_run_ns(pids: frozenset[int]) -> list[int]:
    return [cpu_time([pid]).run_ns for pid in sorted(pids)]


def _percentages(shares: Sequence[float]) -> str:
    return " and ".join(f"{share:.0%}" for share in shares)


class _StoreMeter:
    """What a store counts and costs while the context lasts.

    Args:
        store: None if there is none; then :attr:`use` is None.
    """

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self.use: StoreUse | None = None

    def __enter__(self) -> Self:
        if self._store is not None:
            self._asked = self._store.asked()
            self._cpu = settled_cpu_time(self._store.pids())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store is not None and error is None:
            used = settled_cpu_time(self._store.pids()) - self._cpu
            asked = self._store.asked()
            self.use = StoreUse(
                asked.gets - self._asked.gets,
                asked.hits - self._asked.hits,
                used.run_ns,
            )

    def check(self, result: LoadResult, load: LoadGenerator, stage: str) -> None:
        """Check that each request asked the store; see :func:`check_store`."""
        if self.use is not None:
            asked = Asked(self.use.gets, self.use.hits)
            check_store(result, load.connections, asked, stage)
