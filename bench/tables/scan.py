"""Study scan: does a scan over unknown IDs push hot entries out?"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contestants.nginx import Nginx
from bench.cpu import file_reads, settled_cpu_time
from bench.dataset import IdStore, build_files, build_store
from bench.load import ask_all
from bench.model import ContestantError
from bench.plots import Row
from bench.tables import Finding, Goal, Means, Setting
from bench.tables.parts import cache_zone, direct_server
from bench.verify import verify
from bench.workload import IdWorkload, random_indexes

HOT = 10_000
KNOWN = 1_000_000
SCAN = 1_000_000
QUICK_SCAN = 100_000
UNKNOWN_FIRST = 20_000_000
UNKNOWN_LAST = 99_999_999

# For one request of the hot set so many of the scan.
PRESSURE = 4

GOAL = 0.95

_FILES = 20_000
_LOG = "$sendfile_id $sendfile_source $sendfile_status"
_PASSES = 3

_ABOUT = """\
10,000 hot IDs, asked for at random, and among them a scan: {scan:,} random IDs
that the store does not know, four for each hot request. The hit rate is what the
access log says of the requests for hot IDs during the scan: `$sendfile_source`
cache and `$sendfile_status` HIT. Zones are small, so that the scan's negative
entries alone would fill them many times over: 4 MB hold the records of the hot
set about twice; 64 MB hold them with the bodies of their files, 53 MB.
"File reads" are the system calls of the worker that read a file (pread,
sendfile), counted by the kernel: without bodies in the cache there is one for
each hit, with them one for each that had to be read again.

The second scan, of known IDs, each asked for once, has no goal: every one of
them is a record like the hot ones, only not used again. Its 1,000,000 IDs and
the hot ones among them point at the same 1,000 files.
"""


@dataclass(frozen=True)
class _Case:
    """A configuration and a scan.

    ``cold`` are the IDs of the scan; ``body`` tells whether bodies are cached.
    """

    name: str
    title: str
    store: IdStore
    zone: str
    body: bool
    hot: Sequence[str]
    cold: Sequence[str]
    goal: float | None


@dataclass(frozen=True)
class Counted:
    """What an access log says.

    ``hot`` and ``cold`` count the lines by source and status; ``reads`` are file
    reads meanwhile.
    """

    hot: Counter[str]
    cold: Counter[str]
    reads: int

    @property
    def hit_rate(self) -> float:
        """Share of the requests for hot IDs that the cache answered."""
        return self.hot["cache HIT"] / self.hot.total()


@dataclass(frozen=True)
class _Result:
    before: Counted
    during: Counted
    configuration: str


def study(setting: Setting, means: Means) -> Finding:
    """Scan.

    Args:
        setting: which nginx, where data is kept, quick or full.
        means: what it may use.
    """
    scan = QUICK_SCAN if setting.quick else SCAN
    results: dict[str, _Result] = {}
    failures = []
    cases = _cases(setting, scan, means.plan.seed)
    for case in cases:
        means.progress.note(f"scan: {case.title}")
        try:
            if setting.module_missing:
                raise ContestantError("missing", setting.module_missing)
            results[case.name] = _measure(setting, means, case)
        except ContestantError as error:
            failures.append(f"{case.title}: {error}")
            means.progress.note(f"scan: {case.title} failed: {error}")
    return _finding(cases, results, failures, scan)


def _cases(setting: Setting, scan: int, seed: int) -> list[_Case]:
    files = build_files(setting.cache, _FILES)
    few = build_store(setting.cache, files, HOT, HOT)
    many = build_store(setting.cache, files, KNOWN, 1_000)
    hot = [str(few.id(i)) for i in range(HOT)]
    draw = random.Random(seed)
    unknown = [str(draw.randint(UNKNOWN_FIRST, UNKNOWN_LAST)) for _ in range(scan)]
    step = KNOWN // HOT
    often = [str(many.id(i)) for i in range(0, KNOWN, step)]
    once = [str(many.id(i)) for i in range(KNOWN) if i % step]
    draw.shuffle(once)
    return [
        _Case(
            "records",
            "records, zone of 4 MB, unknown IDs",
            few,
            "4m",
            False,
            hot,
            unknown,
            GOAL,
        ),
        _Case(
            "bodies",
            "records and bodies, zone of 64 MB, unknown IDs",
            few,
            "64m",
            True,
            hot,
            unknown,
            GOAL,
        ),
        _Case(
            "known",
            "records, zone of 4 MB, known IDs",
            many,
            "4m",
            False,
            often,
            once[:scan],
            None,
        ),
    ]


def _measure(setting: Setting, means: Means, case: _Case) -> _Result:
    nginx = Nginx(
        case.name,
        setting.nginx,
        direct_server(
            f"lmdb:{case.store.directory}",
            case.store.files,
            *(["http_sendfile_cache_body 16k;"] if case.body else []),
        ),
        needs_module=True,
        http=cache_zone(case.zone),
        log_format=_LOG,
    )
    directory = means.directory / case.name
    directory.mkdir()
    nginx.configure(directory)
    draw = random.Random(means.plan.seed)
    hot = draw.choices(case.hot, k=len(case.cold) // PRESSURE)
    nginx.start()
    try:
        _ask(means, nginx, list(case.hot) * _PASSES)
        before = _counted(means, nginx, hot, set(case.hot))
        mixed = list(_interleaved(hot, case.cold))
        during = _counted(means, nginx, mixed, set(case.hot))
        workload = IdWorkload(case.store)
        checked = random_indexes(workload, means.plan.seed, means.plan.checks)
        verify(nginx.address, workload, checked, "after the scan")
    finally:
        nginx.stop()
    complaints = nginx.complaints()
    if complaints:
        raise ContestantError("its log", complaints[-1])
    if during.cold.total() < len(case.cold):
        raise ContestantError(
            "scan", f"the log has {during.cold.total()} of {len(case.cold)} IDs"
        )
    return _Result(before, during, nginx.configuration())


def _interleaved(hot: Sequence[str], cold: Sequence[str]) -> Iterator[str]:
    """One of the hot set, some of the scan, and so on."""
    for number, one in enumerate(hot):
        yield one
        yield from cold[number * PRESSURE : (number + 1) * PRESSURE]


def _ask(means: Means, nginx: Nginx, ids: Sequence[str]) -> None:
    paths = [f"/file/{one}" for one in ids]
    for _, result in ask_all(means.load, nginx.address, paths):
        # Unknown IDs are answered with 404.
        errors = {k: n for k, n in result.errors.items() if k != "status"}
        if errors:
            raise ContestantError("load", f"errors under load: {errors}")


def _counted(means: Means, nginx: Nginx, ids: Sequence[str], hot: set[str]) -> Counted:
    """Ask for IDs and count what is logged meanwhile."""
    settled_cpu_time(nginx.pids())
    nginx.begin_log()
    reads = file_reads(nginx.pids())
    _ask(means, nginx, ids)
    settled_cpu_time(nginx.pids())
    reads = file_reads(nginx.pids()) - reads
    log = nginx.access_log
    nginx.begin_log()
    return count_log(log.with_suffix(".before"), hot, reads)


def count_log(log: Path, hot: set[str], reads: int) -> Counted:
    """Count the lines of an access log.

    Args:
        log: lines of ID, source and status.
        hot: the hot IDs.
        reads: file reads meanwhile.
    """
    lines: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    with log.open() as file:
        for line in file:
            one, _, said = line.rstrip("\n").partition(" ")
            lines[one in hot][said] += 1
    return Counted(lines[True], lines[False], reads)


def _finding(
    cases: Sequence[_Case],
    results: dict[str, _Result],
    failures: Sequence[str],
    scan: int,
) -> Finding:
    goals, rows, bars = [], [], []
    for case in cases:
        if case.name not in results:
            goals.append(Goal(f"hit rate of the hot set: {case.title}", "not known"))
            continue
        before, during = results[case.name].before, results[case.name].during
        rate = during.hit_rate
        goals.append(
            Goal(
                f"hit rate of the hot set: {case.title}",
                f"{rate:.2%}",
                f"≥ {case.goal:.0%}" if case.goal else "",
                rate >= case.goal if case.goal else None,
            )
        )
        bars.append(Row(case.title, "ours" if case.goal else "other", rate * 100))
        for when, counted in (("before", before), ("during", during)):
            rows.append(
                [
                    f"{case.title}: {when}",
                    f"{counted.hot.total():,}",
                    f"{counted.hit_rate:.2%}",
                    _reads(counted),
                    f"{counted.cold.total():,}",
                    _said(counted.cold),
                ]
            )
    header = [
        "scan",
        "hot requests",
        "hits",
        "file reads for a hot request",
        "requests of the scan",
        "source and status of these",
    ]
    return Finding(
        name="scan",
        title="A scan over a hot set",
        about=_ABOUT.format(scan=scan),
        goals=goals,
        tables=[(header, rows)],
        bars=bars,
        axis="requests for hot IDs answered from the cache during the scan, %",
        line=GOAL * 100,
        data={
            name: {
                when: {
                    "hot": dict(counted.hot),
                    "cold": dict(counted.cold),
                    "reads": counted.reads,
                }
                for when, counted in (("before", r.before), ("during", r.during))
            }
            for name, r in results.items()
        },
        files={f"{name}.conf": r.configuration for name, r in results.items()},
        notes=[f"**Not measured:** {failure}" for failure in failures],
        complete=not failures,
    )


def _reads(counted: Counted) -> str:
    """File reads for a hot request, if the scan has read none itself."""
    if any(said.endswith("HIT") for said in counted.cold):
        return ""
    return f"{counted.reads / counted.hot.total():.3f}"


def _said(counts: Counter[str]) -> str:
    return ", ".join(f"`{said}` {n:,}" for said, n in counts.most_common(3))
