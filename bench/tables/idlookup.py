"""Study id-lookup: files by ID at fixed rates, by Rails and without it."""

import http.client
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from sendfilectl.oha import Measured

from bench import machine
from bench.contestants import Asked, Contestant, Store, openresty, rails
from bench.contestants.memcached import Memcached
from bench.contestants.nginx import Nginx
from bench.contestants.stack import Parts, Stack
from bench.cpu import ProcessGone, settled_cpu_time
from bench.dataset import FileSet, IdStore, build_equal_files, build_store
from bench.model import Address, ContestantError
from bench.oha import Oha
from bench.plots import Row
from bench.process import still
from bench.residency import in_memory
from bench.stats import spread
from bench.tables import Finding, Goal, Means, Setting
from bench.tables.parts import cache_zone, direct_server, static_server
from bench.verify import verify
from bench.workload import IdWorkload, PathWorkload, Workload, random_indexes

FILES = 10_000
SIZE = 5_000
RATES = (100, 1_000, 3_000)
CONNECTIONS = 64
ROUNDS = 3
MILLISECONDS = 1_500
PROBE_MILLISECONDS = 1_000
QUICK_MILLISECONDS = 400

# Where the search for the highest rate ends: oha's own limit on one core is not
# much higher.
CEILING = 16_000

CPU_GOAL = 40
RATE_GOAL = 1_500 / 90

_PACKAGES = (
    *("apache2", "libapache2-mod-passenger", "ruby3.1", "ruby-rails", "ruby-dalli"),
    *("puma", "memcached", "libnginx-mod-http-lua", "liblmdb0"),
)
_KEPT_UP = 0.95
_ASKED = 0.97
_LATE = 0.5
_CHECKS = 100
_SPOT_CHECKS = 10
_IN_A_ROW = 2
_URLS = 10_000
_STEPS = 4
_SEED = 0

# What was published, on one machine of its time: requests/s, first response, CPU
# at 1,000/s.
_PUBLISHED = (
    ("Rails and memcached", "rails-passenger", "90", "625", ""),
    ("a module with memcached", "ours-memcached", "1,000–1,500", "8.3", "25%"),
    ("static files", "static", "3,000", "1.7", "15%"),
)

_ABOUT = """\
Files of 5 KB by ID, at a rate that does not depend on the answers: a request is due
at its time, its ID drawn at random out of {files:,}, and latency counts from then
on. oha has up to {connections} of them under way; at the end of a run it drops those
that were due but not yet sent, so that the latency of a server that does not keep
up is that of a run so short: it would grow for as long as one asks. The published
contrast is a Rails controller that asks memcached for the path and sends the file,
against a module that does so in nginx, and static files.

Rails 6.1 in production mode with Dalli, behind Apache with Passenger (two
processes) and behind nginx with Puma (five threads); OpenResty's Lua that asks
memcached; ours with memcached, with LMDB, and with record and body cached. All
processes of a contestant share one core, which "CPU" is a share of; oha and
memcached have the other, memcached's CPU is given apart. The contestants take turns
in each of {rounds} rounds of {seconds} s at each rate.

The highest rate is that at which twice in a row for {probe} s every request was
answered with status 200 and the whole file, {kept:.0%} of them a second or more,
none later than {late} s after it was due. It is searched for by doubling, then in
{steps} halvings, and no further than {ceiling:,}/s, near which oha on one core is at
its end: a contestant that reaches that may be able to do more. CPU per request falls
as the rate rises, since a wake-up serves several requests; the goal compares each
contestant at its highest rate, that is a busy Rails with a server that still idles.
The same at equal rates stands beside it. The first response is that to the first
request after the start, on a new connection.
"""


@dataclass(frozen=True)
class Entry:
    """A contestant; ``source`` is what it asks, if that is a server."""

    contestant: Contestant
    workload: Workload
    title: str
    role: str
    missing: str | None = None
    store: Store | None = None


@dataclass(frozen=True)
class Run:
    """What one run at a fixed rate gave.

    ``cpu_ns`` is that of the contestant, ``store_ns`` that of its store.
    """

    rate: int
    milliseconds: int
    measured: Measured
    cpu_ns: int
    store_ns: int

    @property
    def unsent(self) -> int:
        """How many requests were due, but dropped when the time was over."""
        due = self.rate * self.milliseconds // 1_000
        return max(0, due - self.measured.requests)

    @property
    def cpu(self) -> float:
        """Share of a core."""
        return self.cpu_ns / 1e9 / self.measured.seconds

    @property
    def cpu_us(self) -> float:
        """CPU µs for an answer."""
        return self.cpu_ns / 1_000 / max(1, self.measured.answers)

    @property
    def errors(self) -> int:
        """How many requests had no answer, or one with another status."""
        measured = self.measured
        return measured.requests - measured.statuses.get(200, 0)

    @property
    def kept_up(self) -> bool:
        """Whether the contestant kept up with the rate, without an error."""
        measured = self.measured
        slowest = measured.slowest
        return (
            not self.errors
            and measured.rate >= _KEPT_UP * self.rate
            and slowest is not None
            and slowest <= _LATE
        )


@dataclass
class _State:
    """What is known of a contestant so far."""

    entry: Entry
    pids: frozenset[int] = frozenset()
    configuration: str = ""
    first_ms: float | None = None
    runs: dict[int, list[Run]] = field(default_factory=dict)
    highest: Run | None = None
    failure: str | None = None

    @property
    def name(self) -> str:
        """The contestant's."""
        return self.entry.contestant.name


def study(setting: Setting, means: Means) -> Finding:
    """Measure.

    Args:
        setting: which nginx, where data is kept, quick or full.
        means: what it may use.
    """
    setting.note(f"data: {FILES:,} files of {SIZE:,} bytes")
    files = build_equal_files(setting.cache, FILES, SIZE)
    store = build_store(setting.cache, files, FILES, FILES)
    memcached = Memcached(
        {str(store.id(i)): files.path(store.file_index(i)) for i in range(store.ids)},
        setting.nginx.other_core,
    )
    entries = _entries(setting, store, memcached)
    return measure(setting, means, entries, files.all())


def measure(
    setting: Setting, means: Means, entries: Sequence[Entry], files: Sequence[Path]
) -> Finding:
    """Measure some contestants.

    Args:
        setting: where data is kept, quick or full.
        means: what it may use.
        entries: who takes part.
        files: kept in memory meanwhile.
    """
    oha = Oha(setting.nginx.other_core, CONNECTIONS)
    states = [_State(entry) for entry in entries]
    runner = _Runner(setting, means, oha)
    rounds = 1 if setting.quick else ROUNDS
    means.progress.total(len(states) * (3 + rounds * len(RATES)))
    with ExitStack() as stack:
        stack.enter_context(in_memory(files))
        for state in states:
            stack.callback(state.entry.contestant.stop)
            if state.entry.store is not None:
                stack.callback(state.entry.store.stop)
        runner.each(states, "start", runner.start)
        for number in range(1, rounds + 1):
            for rate in RATES:
                runner.each(states, f"round {number}, {rate}/s", runner.timed(rate))
        runner.each(states, "highest rate", runner.search)
        runner.each(states, "final check", runner.finish)
    return _finding(setting, states, oha)


class _Runner:
    def __init__(self, setting: Setting, means: Means, oha: Oha) -> None:
        self._setting = setting
        self._means = means
        self._oha = oha

    def each(
        self,
        states: Sequence[_State],
        stage: str,
        action: Callable[[_State], None],
    ) -> None:
        """Let each contestant that has not failed do something, in turn."""
        for state in states:
            self._means.progress.step(f"{stage}: {state.name}")
            if state.failure is not None:
                continue
            try:
                action(state)
            except ContestantError as error:
                self._fail(state, f"{error.stage}: {error.reason}")
            except ProcessGone as error:
                self._fail(state, f"{stage}: {error}")

    def _fail(self, state: _State, reason: str) -> None:
        state.failure = reason
        state.entry.contestant.stop()
        self._means.progress.note(f"{state.name} failed: {reason}")

    def start(self, state: _State) -> None:
        """Start and check a contestant, and warm it up."""
        entry, contestant = state.entry, state.entry.contestant
        if entry.missing is not None:
            raise ContestantError("missing", entry.missing)
        directory = self._means.directory / contestant.name
        directory.mkdir()
        if entry.store is not None:
            entry.store.start(self._means.directory / entry.store.name)
        contestant.configure(directory)
        contestant.start()
        state.configuration = contestant.configuration()
        if entry.store is not None:
            state.configuration += f"\n# {entry.store.command()}\n"
        state.pids = contestant.pids()
        state.first_ms = _first_response(contestant.address, entry.workload.url(0))
        self._verify(state, "first check", _CHECKS)
        for _ in range(1 if self._setting.quick else 2):
            self._run(state, RATES[0], PROBE_MILLISECONDS // 2)
        self._means.load.run(contestant.address, self._paths(state), 1)

    def _verify(self, state: _State, stage: str, checks: int) -> None:
        workload = state.entry.workload
        indexes = random_indexes(workload, _SEED, checks)
        verify(state.entry.contestant.address, workload, indexes, stage)

    def _paths(self, state: _State) -> list[str]:
        workload = state.entry.workload
        return [workload.url(index) for index in range(min(workload.count, _URLS))]

    def timed(self, rate: int) -> Callable[[_State], None]:
        """Return what measures a contestant at a rate."""

        def run(state: _State) -> None:
            length = QUICK_MILLISECONDS if self._setting.quick else MILLISECONDS
            state.runs.setdefault(rate, []).append(self._run(state, rate, length))

        return run

    def _run(self, state: _State, rate: int, milliseconds: int) -> Run:
        contestant, store = state.entry.contestant, state.entry.store
        stage = f"{rate}/s"
        self._check_processes(state, stage)
        before = settled_cpu_time(state.pids)
        store_before = settled_cpu_time(store.pids()) if store else None
        asked = store.asked() if store else None
        measured = self._oha.run(
            contestant.address, self._paths(state), rate, milliseconds
        )
        used = settled_cpu_time(state.pids) - before
        store_ns = 0
        if store is not None and store_before is not None and asked is not None:
            store_ns = (settled_cpu_time(store.pids()) - store_before).run_ns
            _check_store(rate, measured, asked, store.asked())
        self._check_processes(state, stage)
        good = measured.statuses.get(200, 0)
        if good == measured.requests:
            if measured.bytes != good * SIZE:
                raise ContestantError(
                    stage,
                    f"{good} answers with {measured.bytes} bytes in all,"
                    f" not {good * SIZE}",
                )
            self._verify(state, stage, _SPOT_CHECKS)
        return Run(rate, milliseconds, measured, used.run_ns, store_ns)

    def _check_processes(self, state: _State, stage: str) -> None:
        if not still(state.entry.contestant.pids, state.pids):
            raise ContestantError(stage, "its processes are not the same")

    def search(self, state: _State) -> None:
        """Find the highest rate that a contestant keeps up with."""
        quick = self._setting.quick
        length = QUICK_MILLISECONDS if quick else PROBE_MILLISECONDS
        best, low = self._kept_up(state)
        high = max(2 * low, RATES[0])
        while high <= CEILING:
            run = self._keeps_up(state, high, length)
            if run is None:
                break
            best, low = run, high
            if quick or high == CEILING:
                break
            high = min(2 * high, CEILING)
        for _ in range(0 if quick or low == CEILING else _STEPS):
            middle = (low + high) // 2
            run = self._keeps_up(state, middle, length)
            if run is not None:
                best, low = run, middle
            else:
                high = middle
        state.highest = best

    def _keeps_up(self, state: _State, rate: int, milliseconds: int) -> Run | None:
        """Return the last of some runs that all kept up, None if one did not."""
        last = None
        for _ in range(1 if self._setting.quick else _IN_A_ROW):
            last = self._run(state, rate, milliseconds)
            if not last.kept_up:
                return None
        return last

    def _kept_up(self, state: _State) -> tuple[Run | None, int]:
        """Return the highest of the fixed rates that was kept up in each round."""
        for rate in reversed(RATES):
            if all(run.kept_up for run in state.runs[rate]):
                return state.runs[rate][-1], rate
        return None, 0

    def finish(self, state: _State) -> None:
        """Check a contestant again, and end it."""
        contestant = state.entry.contestant
        self._verify(state, "final check", _CHECKS)
        contestant.stop()
        complaints = contestant.complaints()
        if complaints:
            raise ContestantError("its log", complaints[-1])


def _first_response(address: Address, path: str) -> float:
    """Return after how many ms the head of the first answer is there."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
    begun = time.perf_counter()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        taken = time.perf_counter() - begun
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ContestantError("first response", repr(error)) from error
    finally:
        connection.close()
    return 1_000 * taken


def _check_store(rate: int, measured: Measured, before: Asked, after: Asked) -> None:
    """Check that the store was asked for each file, but for a few that shared one
    answer of it.
    """
    gets, hits = after.gets - before.gets, after.hits - before.hits
    good = measured.statuses.get(200, 0)
    if min(gets, hits) < _ASKED * good:
        raise ContestantError(
            f"{rate}/s",
            f"{good} answers, but its store was asked for {gets} keys and had {hits}",
        )


def _entries(setting: Setting, store: IdStore, memcached: Memcached) -> list[Entry]:
    files, program = store.files, setting.nginx
    by_id = IdWorkload(store)

    def url() -> str:
        return f"memcached://{memcached.address.host}:{memcached.address.port}"

    def environment() -> dict[str, str]:
        address = memcached.address
        return {
            "BENCH_FILES": str(files.directory),
            "BENCH_MEMCACHED": f"{address.host}:{address.port}",
        }

    lua = Nginx(
        "lua",
        program,
        openresty.server(lambda: memcached.address, files.directory),
        others=openresty.MODULES,
    )
    return [
        Entry(
            rails.passenger("rails-passenger", program.worker_core, environment),
            by_id,
            "Rails, memcached, Passenger",
            "other",
            rails.passenger_missing() or memcached.missing,
            memcached,
        ),
        Entry(
            Stack("rails-puma", _puma(setting, environment)),
            by_id,
            "Rails, memcached, Puma and nginx",
            "other",
            rails.puma_missing() or memcached.missing,
            memcached,
        ),
        Entry(
            Nginx("static", program, static_server(files)),
            PathWorkload(files),
            "nginx static, by path",
            "baseline",
        ),
        Entry(
            lua,
            by_id,
            "OpenResty's Lua, memcached",
            "other",
            openresty.missing(program) or memcached.missing,
            memcached,
        ),
        Entry(
            Nginx(
                "ours-memcached",
                program,
                lambda: _looked_up(url(), files),
                needs_module=True,
            ),
            by_id,
            "ours: memcached",
            "ours",
            setting.module_missing or memcached.missing,
            memcached,
        ),
        Entry(
            Nginx(
                "ours-lmdb",
                program,
                _looked_up(f"lmdb:{store.directory}", files),
                needs_module=True,
            ),
            by_id,
            "ours: LMDB",
            "ours",
            setting.module_missing,
        ),
        Entry(
            Nginx(
                "ours-cache",
                program,
                direct_server(
                    f"lmdb:{store.directory}", files, "http_sendfile_cache_body 16k;"
                ),
                needs_module=True,
                http=cache_zone("256m"),
            ),
            by_id,
            "ours: record, body cached",
            "ours",
            setting.module_missing,
        ),
    ]


def _looked_up(url: str, files: FileSet) -> str:
    return (
        "location /file/ {\n"
        "    http_sendfile on;\n"
        f"    http_sendfile_lookup {url};\n"
        f"    http_sendfile_root {files.directory};\n"
        "}\n"
    )


def _puma(
    setting: Setting, environment: Callable[[], dict[str, str]]
) -> Callable[[], Parts]:
    def parts() -> Parts:
        back = rails.puma("puma", setting.nginx.worker_core, environment)

        def server() -> str:
            address: Address = back.address
            return (
                "location /file/ {\n"
                f"    proxy_pass http://{address.host}:{address.port};\n"
                "    proxy_set_header Host $host;\n"
                "}\n"
            )

        return Nginx("front", setting.nginx, server), [back]

    return parts


def _finding(setting: Setting, states: Sequence[_State], oha: Oha) -> Finding:
    measured = {s.name: s for s in states if s.failure is None and s.highest}
    failed = [s for s in states if s.failure is not None]
    stuck = [s for s in states if s.failure is None and not s.highest]
    notes = []
    if failed:
        listed = "\n".join(f"- {s.entry.title}: {s.failure}" for s in failed)
        notes.append(f"**Not measured:**\n\n{listed}")
    if stuck:
        listed = ", ".join(s.entry.title for s in stuck)
        notes.append(f"Did not even keep up with {RATES[0]}/s: {listed}.")
    about = _ABOUT.format(
        connections=CONNECTIONS,
        files=FILES,
        rounds=1 if setting.quick else ROUNDS,
        seconds=(QUICK_MILLISECONDS if setting.quick else MILLISECONDS) / 1_000,
        probe=PROBE_MILLISECONDS / 1_000,
        kept=_KEPT_UP,
        late=_LATE,
        steps=_STEPS,
        ceiling=CEILING,
    )
    rows = [s for s in states if s.failure is None]
    return Finding(
        name="id-lookup",
        title="Files by ID at a fixed rate: Rails, and without it",
        about=about,
        goals=_goals(measured),
        tables=[
            _published_table(rows),
            _highest_table(rows),
            *(_rate_table(rate, rows) for rate in RATES),
        ],
        bars=[
            Row(s.entry.title, s.entry.role, s.highest.cpu_us)
            for s in measured.values()
            if s.highest is not None
        ],
        axis="CPU of all processes, µs per request, at the highest rate",
        line=measured["static"].highest.cpu_us
        if "static" in measured and measured["static"].highest
        else None,
        data={
            "contestants": {s.name: _json(s) for s in states},
        },
        files={f"{s.name}.conf": s.configuration for s in states if s.configuration},
        notes=notes,
        facts={
            "load": oha.version(),
            **{name: machine.package_version(name) for name in _PACKAGES},
        },
        complete=not failed,
    )


def _published_table(
    states: Sequence[_State],
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    header = ["", "requests/s", "first response ms", "CPU at 1,000/s"]
    rows = []
    by_name = {state.name: state for state in states}
    for title, name, rate, first, cpu in _PUBLISHED:
        rows.append([f"{title}: published", rate, first, cpu])
        state = by_name.get(name)
        if state is None or state.highest is None:
            rows.append([f"{title}: here", "–", "–", "–"])
            continue
        runs = state.runs[RATES[1]]
        kept = all(run.kept_up for run in runs)
        rows.append(
            [
                f"{title}: here ({state.entry.title})",
                _reached(state.highest),
                f"{state.first_ms:,.1f}" if state.first_ms is not None else "–",
                f"{spread([run.cpu for run in runs]).median:.0%}" if kept else "–",
            ]
        )
    return header, rows


def _reached(run: Run) -> str:
    return f"≥ {run.rate:,}" if run.rate >= CEILING else f"{run.rate:,}"


def _highest_table(
    states: Sequence[_State],
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    header = [
        "contestant",
        "highest rate without an error",
        "CPU",
        "CPU µs/request",
        "its store's CPU",
        "latency mean ms",
        "max ms",
        "first response ms",
    ]
    rows = []
    for state in states:
        run = state.highest
        if run is None:
            rows.append([state.entry.title, *["–"] * 7])
            continue
        rows.append(
            [
                state.entry.title,
                _reached(run),
                f"{run.cpu:.0%}",
                f"{run.cpu_us:,.1f}",
                f"{run.store_ns / 1e9 / run.measured.seconds:.0%}"
                if state.entry.store
                else "",
                _ms(run.measured.mean),
                _ms(run.measured.slowest),
                f"{state.first_ms:,.1f}" if state.first_ms is not None else "–",
            ]
        )
    return header, rows


def _rate_table(
    rate: int, states: Sequence[_State]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    header = [
        f"at {rate:,}/s",
        "answers/s",
        "errors",
        "not sent",
        "latency mean ms",
        "lowest–highest round",
        "p99 ms",
        "max ms",
        "CPU",
        "CPU µs/request",
        "its store's CPU",
    ]
    rows = []
    for state in states:
        runs = state.runs[rate]
        whole = [run for run in runs if not run.errors]
        errors = sum(run.errors for run in runs)
        unsent = f"{sum(run.unsent for run in runs):,}"
        # Of one that does not keep up it is known only that it is more.
        more = "" if all(run.kept_up for run in runs) else "> "
        got = spread([run.measured.rate for run in runs]).median
        if len(whole) < len(runs):
            # What came with errors is no measurement of what it can do.
            rows.append(
                [state.entry.title, f"{got:,.0f}", f"{errors:,}", unsent, *["–"] * 7]
            )
            continue
        means = spread([run.measured.mean or 0.0 for run in runs])
        rows.append(
            [
                state.entry.title,
                f"{got:,.0f}",
                "0",
                unsent,
                more + _ms(means.median),
                f"{_ms(means.low)}–{_ms(means.high)}",
                more + _ms(_median([run.measured.percentiles["p99"] for run in runs])),
                more + _ms(max(run.measured.slowest or 0.0 for run in runs)),
                f"{spread([run.cpu for run in runs]).median:.0%}",
                f"{spread([run.cpu_us for run in runs]).median:,.1f}",
                f"{spread([run.store_ns / 1e9 / run.measured.seconds for run in runs]).median:.0%}"
                if state.entry.store
                else "",
            ]
        )
    return header, rows


def _median(values: Sequence[float | None]) -> float:
    return spread([value or 0.0 for value in values]).median


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1_000 * seconds:,.2f}"


_OURS = (
    ("ours-cache", "ours, cached"),
    ("ours-lmdb", "ours, LMDB"),
    ("ours-memcached", "ours, memcached"),
)
_RAILS = (("rails-puma", "Rails on Puma"), ("rails-passenger", "Rails on Passenger"))


def _goals(measured: dict[str, _State]) -> list[Goal]:
    goals = []
    for rails_name, title in _RAILS:
        other = measured.get(rails_name)
        for name, ours_title in _OURS:
            ours = measured.get(name)
            goals.append(
                _goal(
                    f"CPU per request at the highest rate: {title} / {ours_title}",
                    other.highest.cpu_us / ours.highest.cpu_us
                    if other and other.highest and ours and ours.highest
                    else None,
                    CPU_GOAL,
                )
            )
        ours = measured.get("ours-memcached")
        goals.append(
            _rate_goal(
                f"highest rate: ours, memcached / {title}",
                ours.highest if ours else None,
                other.highest if other else None,
                RATE_GOAL,
            )
        )
    for rails_name, title in _RAILS:
        for name, ours_title in _OURS:
            goals.append(
                _goal(
                    f"CPU per request at {RATES[0]}/s: {title} / {ours_title}",
                    _at_equal_rate(measured.get(rails_name), measured.get(name)),
                    None,
                )
            )
    static, ours = measured.get("static"), measured.get("ours-cache")
    goals.append(
        _rate_goal(
            "highest rate: ours, cached / nginx static",
            ours.highest if ours else None,
            static.highest if static else None,
            None,
        )
    )
    return goals


def _at_equal_rate(over: _State | None, under: _State | None) -> float | None:
    """Divide the CPU per request at the lowest rate, which all keep up with."""
    if over is None or under is None:
        return None
    rate = RATES[0]
    return (
        spread([run.cpu_us for run in over.runs[rate]]).median
        / spread([run.cpu_us for run in under.runs[rate]]).median
    )


def _rate_goal(
    title: str, over: Run | None, under: Run | None, goal: float | None
) -> Goal:
    """Divide two highest rates; one at the ceiling is only a bound."""
    if over is None or under is None or under.rate >= CEILING:
        return _goal(title, None, goal)
    found = _goal(title, over.rate / under.rate, goal)
    if over.rate < CEILING:
        return found
    return replace(found, figure=f"≥ {found.figure}", met=True if found.met else None)


def _goal(title: str, value: float | None, goal: float | None) -> Goal:
    if value is None:
        return Goal(title, "not known", f"≥ {goal:.1f}" if goal else "")
    return Goal(
        title,
        f"{value:.2f}",
        f"≥ {goal:.1f}" if goal else "",
        value >= goal if goal else None,
    )


def _json(state: _State) -> dict[str, object]:
    return {
        "title": state.entry.title,
        "failure": state.failure,
        "first_response_ms": state.first_ms,
        "highest": _run_json(state.highest) if state.highest else None,
    }


def _run_json(run: Run) -> dict[str, object]:
    return {
        "asked_rate": run.rate,
        "unsent": run.unsent,
        "cpu_ns": run.cpu_ns,
        "store_cpu_ns": run.store_ns,
        "kept_up": run.kept_up,
        **run.measured.document(),
    }
