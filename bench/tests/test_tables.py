"""The tables that compare systems, on small data: a quick run of some entries."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench import report
from bench.cli import REPOSITORY, STUDIES, TABLES
from bench.contestants.nginx import NginxProgram
from bench.load import Wrk
from bench.model import Outcome
from bench.runner import Plan, Runner
from bench.stats import compare
from bench.tables import (
    Means,
    Setting,
    Table,
    bigfile,
    idlookup,
    keepalive,
    script,
    smallfiles,
    xsendfile,
)
from bench.tests import paced
from bench.tests.body import body
from bench.tests.fakes import (
    CORES,
    FakeContestant,
    FakeStore,
    FixedLoad,
    Quiet,
    load_result,
)
from bench.tests.reach import let_all_reach

_PLAN = Plan(rounds=1, seconds=1, seed=1, warm_up_requests=0, checks=10, spot_checks=2)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """The installed nginx and the module that was built."""
    # Apache's children are no root, and look for their files.
    let_all_reach(tmp_path)
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None
    module = REPOSITORY / "build" / "ngx_http_sendfile_module.so"
    assert module.exists(), "run make build"
    return Setting(
        nginx=NginxProgram(Path(found), module, CORES[0], CORES[-1]),
        module_missing=None,
        cache=tmp_path / "data",
        quick=True,
        note=lambda text: None,
    )


def _run(table: Table, names: Sequence[str], directory: Path) -> dict[str, Outcome]:
    """Run some entries once; all must be measured."""
    entries = [e for e in table.entries if e.contestant.name in names]
    assert len(entries) == len(names)
    for path in table.files:
        # A body that was written a moment ago is not kept.
        os.utime(path, (1_000_000_000, 1_000_000_000))
    plan = replace(table.change_plan(_PLAN), exclusive=not table.crowded)
    load = Wrk(CORES[-1], table.connections)
    outcomes = Runner(entries, load, plan, directory, Quiet()).run()
    assert {o.name: o.failure for o in outcomes.values() if o.failure} == {}
    assert all(outcome.measured for outcome in outcomes.values())
    return outcomes


def test_keepalive(setting: Setting, tmp_path: Path) -> None:
    table = keepalive.table(setting)
    names = ["raw10-plain", "raw10-keepalive", "raw10-ours", "raw11-ours"]
    outcomes = _run(table, names, tmp_path / "run")
    for name, line in zip(names, ("no", "no", "yes", "yes"), strict=True):
        proof = outcomes[name].proof
        assert proof is not None
        other = keepalive.QUICK_REQUESTS - proof.lines[line]
        assert other <= (keepalive.CONNECTIONS if line == "yes" else 0)
    goal = next(c for c in table.comparisons if c.goal is not None)
    ratio = compare(goal, outcomes)
    assert ratio.spread is not None
    assert ratio.spread.median > 1


def test_xsendfile(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xsendfile, "QUICK_REQUESTS", 100)
    table = xsendfile.table(setting)
    names = ["puma-accel", "ours-accepted", "ours-learned", "small-learned"]
    outcomes = _run(table, names, tmp_path / "run")
    expected = {"ours-accepted": "app", "ours-learned": "learned HIT"}
    for name, line in (expected | {"small-learned": "learned HIT"}).items():
        proof = outcomes[name].proof
        assert proof is not None
        assert set(proof.lines) == {line}
    assert "X-Accel-Mapping" in outcomes["puma-accel"].configuration
    assert "bench/apps/rails/config.ru" in outcomes["ours-learned"].configuration


def test_bigfile(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bigfile, "FILES", 2)
    table = bigfile.table(setting)
    outcomes = _run(table, ["ours-plain", "ours-httperf"], tmp_path / "run")
    (sample,) = outcomes["ours-httperf"].samples
    assert sample.load.requests == 100
    assert sample.load.bytes == 100 * bigfile.SIZE


def test_smallfiles(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smallfiles, "FILES", 200)
    outcomes = _run(smallfiles.table(setting), ["lmdb", "body"], tmp_path / "run")
    (sample,) = outcomes["body"].samples
    assert sample.reads == 0


def test_script(setting: Setting, tmp_path: Path) -> None:
    names = ["return", "lua", "njs", "apache-lua"]
    outcomes = _run(script.table(setting), names, tmp_path / "run")
    for outcome in outcomes.values():
        (sample,) = outcome.samples
        assert sample.load.requests == script.QUICK_REQUESTS


def test_mruby_that_is_not_built_is_named(setting: Setting, tmp_path: Path) -> None:
    module = tmp_path / "modules" / "ngx_http_sendfile_module.so"
    program = replace(setting.nginx, module=module)
    table = script.table(replace(setting, nginx=program))
    (entry,) = [e for e in table.entries if e.contestant.name == "mruby"]
    assert entry.missing == "ngx_http_sendfile_mruby_module.so is not built"


@pytest.fixture
def means(tmp_path: Path) -> Means:
    """An empty directory, and no warm-up."""
    directory = tmp_path / "run"
    directory.mkdir()
    return Means(FixedLoad(load_result(1)), directory, _PLAN, Quiet())


@pytest.fixture
def slow_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that Python keeps up with."""
    monkeypatch.setattr(idlookup, "RATES", (50, 100))
    monkeypatch.setattr(idlookup, "CEILING", 200)


def test_idlookup(
    setting: Setting, means: Means, slow_rates: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idlookup, "FILES", 100)
    every = idlookup._entries
    names = ("rails-puma", "static", "lua", "ours-memcached", "ours-cache")
    monkeypatch.setattr(
        idlookup,
        "_entries",
        lambda *given: [e for e in every(*given) if e.contestant.name in names],
    )
    measured: dict[str, Mapping[int, Sequence[idlookup.Run]]] = {}
    kept = idlookup._json

    def json_of(state: idlookup._State) -> dict[str, object]:
        measured[state.name] = state.runs
        return kept(state)

    monkeypatch.setattr(idlookup, "_json", json_of)
    finding = idlookup.study(setting, means)
    assert finding.complete, finding.notes
    contestants = finding.data["contestants"]
    assert isinstance(contestants, dict)
    assert tuple(contestants) == names
    for name, found in contestants.items():
        assert set(measured[name]) == {50, 100}, name
        assert 0 < found["first_response_ms"] < 100_000
        for (run,) in measured[name].values():
            assert set(run.measured.statuses) == {200}
            assert run.measured.bytes == run.measured.answers * idlookup.SIZE
            assert run.cpu_ns > 0
    assert {f"{name}.conf" for name in contestants} == set(finding.files)
    assert finding.facts["load"] == paced.VERSION
    assert finding.facts["puma"] != "unknown"


class _Same:
    """A workload of one request of the fake server's."""

    count = 1

    def url(self, index: int) -> str:
        """Return its path."""
        return "/7"

    def body(self, index: int) -> bytes:
        """Return its answer."""
        return body(7)

    def size(self, index: int) -> int:
        """Return the answer's length."""
        return len(body(7))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("length-too-short", "bytes in all"),
        ("other-file", "wrong body"),
        ("die", "processes are not the same"),
    ],
)
def test_contestant_that_fails_at_a_fixed_rate_is_reported(
    fault: str,
    reason: str,
    setting: Setting,
    means: Means,
    slow_rates: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idlookup, "SIZE", len(body(7)))
    monkeypatch.setattr(idlookup, "_CHECKS", 5)
    monkeypatch.setattr(idlookup, "_SPOT_CHECKS", 1)
    good, bad = (FakeContestant("good"), FakeContestant("bad", fault, after=60))
    entries = [
        idlookup.Entry(good, _Same(), "Good", "ours"),
        idlookup.Entry(bad, _Same(), "Bad", "other"),
        idlookup.Entry(
            FakeContestant("absent"), _Same(), "Absent", "other", "not installed"
        ),
    ]
    finding = idlookup.measure(setting, means, entries, [])
    assert not finding.complete
    contestants = finding.data["contestants"]
    assert isinstance(contestants, dict)
    assert contestants["good"]["failure"] is None
    assert contestants["good"]["highest"] is not None
    assert reason in contestants["bad"]["failure"]
    assert contestants["absent"]["failure"] == "missing: not installed"
    (note,) = finding.notes
    assert "- Bad: " in note
    assert "- Absent: missing: not installed" in note
    published, *others = finding.tables
    assert [row[1:] for row in published[1][1::2]] == [["–"] * 3] * 3
    for _, rows in others:
        assert [row[0] for row in rows] == ["Good"]


def test_store_that_was_not_asked_is_reported(
    setting: Setting, means: Means, slow_rates: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idlookup, "SIZE", len(body(7)))
    monkeypatch.setattr(idlookup, "_CHECKS", 5)
    monkeypatch.setattr(idlookup, "_SPOT_CHECKS", 1)
    entry = idlookup.Entry(
        FakeContestant("bad"), _Same(), "Bad", "ours", store=FakeStore(3, 3)
    )
    finding = idlookup.measure(setting, means, [entry], [])
    (note,) = finding.notes
    assert "its store was asked for 3 keys and had 3" in note


def test_errors_at_a_rate_are_counted_not_averaged(
    setting: Setting, means: Means, slow_rates: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idlookup, "SIZE", len(body(7)))
    monkeypatch.setattr(idlookup, "_CHECKS", 5)
    monkeypatch.setattr(idlookup, "_SPOT_CHECKS", 1)
    monkeypatch.setattr(idlookup, "_STEPS", 1)
    monkeypatch.setattr(idlookup._Runner, "finish", lambda self, state: None)
    bad = FakeContestant("bad", "status", after=50)
    finding = idlookup.measure(
        setting,
        means,
        [idlookup.Entry(bad, _Same(), "Bad", "other")],
        [],
    )
    _, _, *rates = finding.tables
    (row,) = rates[-1][1]
    assert row[0] == "Bad"
    assert int(row[2]) > 10
    assert row[4:] == ["–"] * 7


def test_document_names_all_tables() -> None:
    text = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    for name in (*TABLES, *STUDIES):
        assert f"`{name}`" in report._PREAMBLE
    beginning = report._PREAMBLE.rstrip()
    assert text.startswith(beginning)
