"""Command line of the benchmark."""

import argparse
import datetime
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from bench import machine, report
from bench.contestants.nginx import NginxProgram
from bench.load import LoadGenerator, Wrk
from bench.model import BenchError, LatencySample, Outcome
from bench.progress import Reporter, reporter
from bench.quiet import Patience
from bench.residency import in_memory
from bench.runner import LatencyPlan, Plan, Runner
from bench.stats import Figure, compare, latency_figures, store_figure
from bench.tables import (
    Finding,
    Means,
    Setting,
    Table,
    bigfile,
    cache,
    cost,
    disk,
    idlookup,
    keepalive,
    lookup,
    memory,
    profile,
    records,
    scan,
    script,
    smallfiles,
    workers,
    xsendfile,
)

TABLES: dict[str, Callable[[Setting], Table]] = {
    "lookup": lookup.table,
    "cache": cache.table,
    "disk": disk.table,
    "big-file": bigfile.table,
    "small-files": smallfiles.table,
    "workers": workers.table,
    "keepalive": keepalive.table,
    "x-sendfile": xsendfile.table,
    "script": script.table,
    "records": records.table,
}
STUDIES: dict[str, Callable[[Setting, Means], Finding]] = {
    "id-lookup": idlookup.study,
    "memory": memory.study,
    "scan": scan.study,
    "profile": profile.study,
    "cost": cost.study,
}

REPOSITORY = Path(__file__).resolve().parent.parent
CONNECTIONS = 64
_STUDY_PACKAGES = ("liblmdb0",)
PATIENCE = 60

FULL = Plan(rounds=14, seconds=1, seed=0)
QUICK = Plan(
    rounds=1, seconds=1, seed=0, warm_up_requests=0, checks=100, latency_rounds=1
)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line.

    Args:
        argv: without the program's name; None for the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the tables of docs/benchmarks.md.",
    )
    parser.add_argument(
        "--table", choices=[*TABLES, *STUDIES, ""], default="", help="only this"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one short round, only to see that everything works",
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="measure nothing, draw the charts anew from the kept results",
    )
    parser.add_argument("--nginx", type=Path, metavar="PATH", help="nginx to measure")
    parser.add_argument(
        "--module",
        metavar="PATH",
        default=str(REPOSITORY / "build" / "ngx_http_sendfile_module.so"),
        help="our module, or 'static' if --nginx has it linked in",
    )
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--seconds", type=int, metavar="N", help="of a timed run")
    parser.add_argument("--seed", type=int, metavar="N", help="of the random IDs")
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="wait so long in all for moments when nothing else runs"
        f" (default {PATIENCE}, quick: 0)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="write results and document there (quick: CACHE/quick)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        default=REPOSITORY / "build" / "bench",
        help="keep files and stores there",
    )
    arguments = parser.parse_args(argv)
    for name in ("rounds", "seconds"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: without the program's name; None for the process's own.

    Returns:
        0 all contestants were measured, 1 some were not, 2 it could not run,
        130 interrupted.
    """
    arguments = parse_arguments(argv)
    _stop_on_signals()
    if arguments.draw:
        for path in report.draw_kept(_places(arguments)):
            print(path)
        return 0
    try:
        with _lock(arguments.cache), reporter() as progress:
            names = [arguments.table] if arguments.table else [*TABLES, *STUDIES]
            complete = [_run(name, arguments, progress) for name in names]
            if None in complete:
                return 2 if len(names) == 1 else 1
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; everything started was stopped", file=sys.stderr)
        return 130
    return 0 if all(complete) else 1


def _run(name: str, arguments: argparse.Namespace, progress: Reporter) -> bool | None:
    """Measure a table or a study; None if it could not be begun."""
    run = _run_table if name in TABLES else _run_study
    try:
        return run(name, arguments, progress)
    except BenchError as error:
        # A load generator that is not there must not take the others along.
        progress.note(f"bench: {name} was not measured: {error}")
        return None


def _stop_on_signals() -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """Keep a second run from sharing the cores."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BenchError("another benchmark is running") from error
        yield


@dataclass(frozen=True)
class _Ground:
    """What any run stands on."""

    cores: tuple[int, int]
    program: NginxProgram
    setting: Setting


@contextmanager
def _ground(arguments: argparse.Namespace, progress: Reporter) -> Iterator[_Ground]:
    """Find nginx and the cores; this process stays off the worker's core."""
    before = os.sched_getaffinity(0)
    cores = _cores()
    program = _program(arguments, *cores)
    program.check()
    setting = Setting(
        nginx=program,
        module_missing=_module_missing(program),
        cache=arguments.cache.resolve(),
        quick=arguments.quick,
        note=progress.note,
    )
    os.sched_setaffinity(0, {cores[1]})
    try:
        yield _Ground(cores, program, setting)
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _own_directory(arguments: argparse.Namespace) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="run-", dir=arguments.cache.resolve()))
    # Servers that give up being root have to find their way.
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _run_study(name: str, arguments: argparse.Namespace, progress: Reporter) -> bool:
    with (
        _ground(arguments, progress) as ground,
        _own_directory(arguments) as directory,
    ):
        load = Wrk(ground.cores[1], CONNECTIONS)
        facts = _facts(ground.program, [load], _STUDY_PACKAGES)
        means = Means(load, directory, _plan(arguments), progress)
        progress.total(1)
        progress.step(name)
        finding = STUDIES[name](ground.setting, means)
        facts.update(finding.facts)
    facts["load average before, after"] += f", {machine.load_average():.1f}"
    written = report.write_finding(finding, _today(), facts, _places(arguments))
    print(report.finding_summary(finding))
    progress.note(f"written: {written[0]}, {written[1]}")
    return finding.complete


def _run_table(name: str, arguments: argparse.Namespace, progress: Reporter) -> bool:
    with (
        _ground(arguments, progress) as ground,
        _own_directory(arguments) as directory,
    ):
        return _measure(TABLES[name], ground, directory, arguments, progress)


def _measure(
    make: Callable[[Setting], Table],
    ground: _Ground,
    directory: Path,
    arguments: argparse.Namespace,
    progress: Reporter,
) -> bool:
    worker_core, other_core = ground.cores
    table = make(ground.setting)
    wrk = Wrk(ground.cores if table.shared else other_core, table.connections)
    plan = replace(
        table.change_plan(_plan(arguments)),
        exclusive=not (table.shared or table.crowded),
        fair=table.shared,
    )
    facts = _facts(ground.program, _loads(table, wrk), table.packages)
    facts.update(table.facts)
    progress.note(
        f"{table.name}: {len(table.entries)} contestants, {plan.rounds} rounds"
    )
    with in_memory(table.files) as locked:
        facts["files"] = "locked in memory" if locked else "read beforehand"
        runner = Runner(
            table.entries,
            wrk,
            plan,
            directory,
            progress,
            _patience(arguments, ground.cores),
            _latency(table, worker_core, other_core),
        )
        outcomes = runner.run()
    facts["load average before, after"] += f", {machine.load_average():.1f}"
    record = report.Record(
        table=table,
        outcomes=outcomes,
        ratios=[compare(comparison, outcomes) for comparison in table.comparisons],
        figures=_figures(table, outcomes, runner.latencies),
        plan=plan,
        date=_today(),
        facts=facts,
    )
    written = report.write(record, _places(arguments))
    print(report.summary(record))
    progress.note(f"written: {written[0]}, {written[1]}")
    return all(outcome.measured for outcome in outcomes.values())


def _latency(table: Table, worker_core: int, other_core: int) -> LatencyPlan | None:
    if table.latency is None:
        return None
    return LatencyPlan(table.latency, Wrk(other_core, 1), table.keys, worker_core)


def _figures(
    table: Table, outcomes: Mapping[str, Outcome], latencies: Sequence[LatencySample]
) -> list[Figure]:
    figures = [store_figure(cost, outcomes) for cost in table.store_costs]
    if table.latency is not None:
        figures += latency_figures(table.latency, latencies, outcomes)
    return figures


def _cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("two cores are needed: one for the worker, one for the load")
    return cores[0], cores[1]


def _program(
    arguments: argparse.Namespace, worker_core: int, other_core: int
) -> NginxProgram:
    found = arguments.nginx or shutil.which("nginx", path=_search_path())
    if found is None:
        raise BenchError("nginx is not installed")
    module = None if arguments.module == "static" else Path(arguments.module).resolve()
    return NginxProgram(Path(found).resolve(), module, worker_core, other_core)


def _search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])


def _module_missing(program: NginxProgram) -> str | None:
    if program.module is None or program.module.exists():
        return None
    return f"{program.module.name} is not built: run make build"


def _plan(arguments: argparse.Namespace) -> Plan:
    plan = QUICK if arguments.quick else FULL
    return replace(
        plan,
        rounds=arguments.rounds or plan.rounds,
        seconds=arguments.seconds or plan.seconds,
        seed=plan.seed if arguments.seed is None else arguments.seed,
    )


def _patience(arguments: argparse.Namespace, cores: tuple[int, ...]) -> Patience:
    seconds = arguments.patience
    if seconds is None:
        seconds = 0 if arguments.quick else PATIENCE
    return Patience(seconds, cores)


def _loads(table: Table, wrk: Wrk) -> list[LoadGenerator]:
    """Return what the entries are measured with, each once."""
    loads: list[LoadGenerator] = []
    for entry in table.entries:
        load = entry.load or wrk
        if load not in loads:
            loads.append(load)
    return loads


def _facts(
    program: NginxProgram, loads: Sequence[LoadGenerator], packages: Sequence[str]
) -> dict[str, str]:
    if program.packaged:
        packages = ("nginx", *packages)
    facts = {
        **machine.describe_machine(),
        "server": program.version(),
        "descriptors a worker": str(program.descriptors),
        "load": ", ".join(dict.fromkeys(load.version() for load in loads)),
        **{name: machine.package_version(name) for name in packages},
        "commit": machine.commit(REPOSITORY),
    }
    if program.module is not None and program.module.exists():
        facts["module"] = f"sha256 {machine.file_digest(program.module)}"
    facts["load average before, after"] = f"{machine.load_average():.1f}"
    return facts


def _places(arguments: argparse.Namespace) -> report.Places:
    output = arguments.output or (
        arguments.cache / "quick" if arguments.quick else None
    )
    if output is None:
        return report.Places(
            results=REPOSITORY / "bench" / "results",
            document=REPOSITORY / "docs" / "benchmarks.md",
            repository=REPOSITORY,
        )
    output = output.resolve()
    return report.Places(
        results=output / "results",
        document=output / "benchmarks.md",
        repository=REPOSITORY,
    )
