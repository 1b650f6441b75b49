"""Study profile: where the time of a hit goes."""

from collections import Counter
from dataclasses import dataclass

from bench import perf
from bench.contestants import Contestant, epoll_loop
from bench.contestants.nginx import Nginx
from bench.cpu import settled_cpu_time
from bench.dataset import FileSet, IdStore, build_files, build_store
from bench.load import ask_all
from bench.model import ContestantError
from bench.plots import Row
from bench.residency import in_memory
from bench.stats import spread
from bench.tables import Finding, Means, Setting
from bench.tables.cache import FILES
from bench.tables.parts import (
    PASSES,
    cache_zone,
    direct_server,
    open_file_cache,
    static_server,
)
from bench.verify import verify
from bench.workload import (
    FixedWorkload,
    IdWorkload,
    PathWorkload,
    Workload,
    covering_indexes,
    random_indexes,
)

_SECONDS = 10
_QUICK_SECONDS = 1
_ROUNDS = 5
_URLS = 131_072
_TOP = 15

_ABOUT = """\
Samples of the worker's processor time (`perf record -e cpu-clock`, {frequency:,}
a second) under the load of the table "cache", in µs of a request: the share of
the samples times the CPU time per request, which is measured without perf. A
sample in the kernel counts for the system call that it is in: sending over the
loopback interface includes the receiver's side and waking wrk. "Copying" in libc
is mostly the body, from the cache into the request's memory. Names are what
functions are called, so small static ones of nginx may count for a neighbour.
"""


@dataclass(frozen=True)
class _Subject:
    """What is profiled."""

    name: str
    title: str
    contestant: Contestant
    workload: Workload
    passes: int
    missing: str | None = None


@dataclass(frozen=True)
class _Profile:
    """CPU µs per request, its parts, and the innermost functions."""

    cpu_us: float
    samples: int
    parts: dict[str, float]
    leaves: Counter[tuple[str, str]]
    configuration: str


def study(setting: Setting, means: Means) -> Finding:
    """Profile.

    Args:
        setting: which nginx, where data is kept, quick or full.
        means: what it may use.
    """
    files = build_files(setting.cache, FILES)
    store = build_store(setting.cache, files, FILES, FILES)
    subjects = _subjects(setting, files, store)
    profiles: dict[str, _Profile] = {}
    failures = []
    unusable = perf.missing()
    with in_memory([*files.all(), store.directory / "data.mdb"]):
        for subject in subjects:
            means.progress.note(f"profile: {subject.title}")
            try:
                reason = unusable or subject.missing
                if reason:
                    raise ContestantError("missing", reason)
                profiles[subject.name] = _profile(setting, means, subject)
            except ContestantError as error:
                failures.append(f"{subject.title}: {error}")
                means.progress.note(f"profile: {subject.title} failed: {error}")
    return _finding(subjects, profiles, failures)


def _subjects(setting: Setting, files: FileSet, store: IdStore) -> list[_Subject]:
    url = f"lmdb:{store.directory}"
    ids, paths = IdWorkload(store), PathWorkload(files)

    def ours(name: str, server: str) -> Nginx:
        return Nginx(
            name, setting.nginx, server, needs_module=True, http=cache_zone("256m")
        )

    body = b"x" * round(sum(files.sizes) / len(files.sizes))
    return [
        _Subject(
            "memory",
            "ours, body from memory",
            ours("memory", direct_server(url, files, "http_sendfile_cache_body 16k;")),
            ids,
            PASSES,
            setting.module_missing,
        ),
        _Subject(
            "record",
            "ours, record cached, file sent",
            ours("record", direct_server(url, files)),
            ids,
            PASSES,
            setting.module_missing,
        ),
        _Subject(
            "static-ofc",
            "nginx static, open_file_cache",
            Nginx(
                "static-ofc",
                setting.nginx,
                static_server(files, open_file_cache(setting)),
            ),
            paths,
            1,
        ),
        _Subject(
            "epoll",
            "epoll loop",
            epoll_loop.epoll_loop(
                "epoll",
                setting.nginx.worker_core,
                lambda: [body],
                f"one answer of {len(body)} bytes",
            ),
            FixedWorkload(ids, body),
            1,
            epoll_loop.missing(),
        ),
    ]


def _profile(setting: Setting, means: Means, subject: _Subject) -> _Profile:
    contestant, workload = subject.contestant, subject.workload
    directory = means.directory / subject.name
    directory.mkdir()
    contestant.configure(directory)
    seed = means.plan.seed
    urls = [workload.url(i) for i in random_indexes(workload, seed, _URLS)]

    def run(seconds: int) -> float:
        """Return the CPU µs per request."""
        before = settled_cpu_time(contestant.pids())
        result = means.load.run(contestant.address, urls, seconds)
        if result.errors:
            raise ContestantError("load", f"errors: {dict(result.errors)}")
        used = settled_cpu_time(contestant.pids()) - before
        return used.run_ns / 1000 / result.requests

    contestant.start()
    try:
        _fill(means, subject, seed)
        checked = random_indexes(workload, seed, means.plan.checks)
        verify(contestant.address, workload, checked, "check")
        rounds = 1 if setting.quick else _ROUNDS
        cpu_us = spread([run(1) for _ in range(rounds)]).median
        core = setting.nginx.other_core
        with perf.recording(contestant.pids(), core, directory) as samples:
            run(_QUICK_SECONDS if setting.quick else _SECONDS)
    finally:
        contestant.stop()
    complaints = contestant.complaints()
    if complaints:
        raise ContestantError("its log", complaints[-1])
    return _Profile(
        cpu_us,
        len(samples),
        {part: share * cpu_us for part, share in perf.shares(samples).items()},
        perf.leaves(samples),
        contestant.configuration(),
    )


def _fill(means: Means, subject: _Subject, seed: int) -> None:
    workload = subject.workload
    indexes = [
        index
        for number in range(subject.passes)
        for index in covering_indexes(workload, seed + number, workload.count)
    ]
    paths = [workload.url(index) for index in indexes]
    for _, result in ask_all(means.load, subject.contestant.address, paths):
        if result.errors:
            raise ContestantError("load", f"errors: {dict(result.errors)}")


def _finding(
    subjects: list[_Subject], profiles: dict[str, _Profile], failures: list[str]
) -> Finding:
    shown = [subject for subject in subjects if subject.name in profiles]

    def row(title: str, values: list[float]) -> list[str]:
        return [title, *(f"{one:.2f}" if one >= 0.005 else "" for one in values)]

    rows = [
        row(part, [profiles[subject.name].parts.get(part, 0.0) for subject in shown])
        for part in perf.parts()
        if any(part in profile.parts for profile in profiles.values())
    ]
    rows.append(
        row(
            "**all: CPU µs per request**",
            [profiles[subject.name].cpu_us for subject in shown],
        )
    )
    tables: list[tuple[list[str], list[list[str]]]] = [
        (["part, µs of a request", *(subject.title for subject in shown)], rows)
    ]
    bars: list[Row] = []
    first = profiles.get("memory")
    if first is not None:
        total = first.leaves.total()
        tables.append(
            (
                ["function, ours, body from memory", "µs of a request"],
                [
                    [
                        f"`{name}` ({source.rpartition('/')[2]})",
                        f"{n / total * first.cpu_us:.2f}",
                    ]
                    for (name, source), n in first.leaves.most_common(_TOP)
                ],
            )
        )
        bars = [
            Row(part, "ours" if part.startswith("our") else "other", value)
            for part, value in first.parts.items()
            if value >= 0.005
        ]
    return Finding(
        name="profile",
        title="Where the time of a hit goes",
        about=_ABOUT.format(frequency=perf.FREQUENCY),
        goals=[],
        tables=tables,
        bars=bars,
        axis="a hit with the body from memory: CPU of the worker, µs",
        line=None,
        data={
            name: {
                "cpu_us_per_request": profile.cpu_us,
                "samples": profile.samples,
            }
            for name, profile in profiles.items()
        },
        files={f"{n}.conf": profile.configuration for n, profile in profiles.items()},
        notes=[
            *(
                f"{profiles[subject.name].samples:,} samples: {subject.title}."
                for subject in shown
            ),
            *(f"**Not measured:** {failure}" for failure in failures),
        ],
        complete=not failures,
    )
