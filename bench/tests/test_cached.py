"""Our module with its cache as a contestant, and the studies, on small data."""

import os
import shutil
from pathlib import Path

import pytest

from bench.cli import REPOSITORY
from bench.contestants.nginx import Nginx, NginxProgram
from bench.dataset import IdStore, build_files, build_store
from bench.load import Wrk
from bench.model import Outcome
from bench.runner import Plan, Runner
from bench.tables import Means, Setting, memory, scan
from bench.tables.parts import cache_zone, cached_entry, direct_server
from bench.tests.fakes import CORES, Quiet

_PLAN = Plan(rounds=1, seconds=1, seed=1, warm_up_requests=0, checks=20, spot_checks=5)
_BODY = "http_sendfile_cache_body 16k;"


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """The installed nginx and the module that was built."""
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


@pytest.fixture
def means(tmp_path: Path) -> Means:
    """wrk and an empty directory."""
    directory = tmp_path / "run"
    directory.mkdir()
    return Means(Wrk(CORES[-1], 8), directory, _PLAN, Quiet())


@pytest.fixture
def store(setting: Setting) -> IdStore:
    """A store of 200 IDs for 200 files."""
    files = build_files(setting.cache, 200)
    for path in files.all():
        # A body that was written a moment ago is not kept.
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return build_store(setting.cache, files, 200, 200)


def _run(setting: Setting, store: IdStore, directory: Path, *extra: str) -> Outcome:
    nginx = Nginx(
        "ours",
        setting.nginx,
        direct_server(f"lmdb:{store.directory}", store.files, *extra),
        needs_module=True,
        http=cache_zone("8m"),
    )
    entry = cached_entry(setting, nginx, store, "ours", from_memory=True)
    load = Wrk(CORES[-1], 8)
    return Runner([entry], load, _PLAN, directory, Quiet()).run()["ours"]


def test_hits_from_memory_are_proved(
    setting: Setting, store: IdStore, tmp_path: Path
) -> None:
    outcome = _run(setting, store, tmp_path, _BODY)
    assert outcome.failure is None
    assert outcome.proof is not None
    assert set(outcome.proof.lines) == {"cache HIT"}
    (sample,) = outcome.samples
    assert sample.reads == 0
    assert sample.load.requests > 100


def test_hits_whose_bodies_are_read_from_files_are_refused(
    setting: Setting, store: IdStore, tmp_path: Path
) -> None:
    outcome = _run(setting, store, tmp_path)
    assert outcome.failure is not None
    assert outcome.failure.stage == "round 1"
    assert "reads of files" in outcome.failure.reason


def test_lookups_in_the_store_are_no_hits_of_the_cache(
    setting: Setting, store: IdStore, tmp_path: Path
) -> None:
    server = direct_server(f"lmdb:{store.directory}", store.files, _BODY)
    nginx = Nginx(
        "ours",
        setting.nginx,
        server.replace("cache_valid 1h", "cache_valid 0"),
        needs_module=True,
        http=cache_zone("8m"),
    )
    entry = cached_entry(setting, nginx, store, "ours")
    load = Wrk(CORES[-1], 8)
    outcome = Runner([entry], load, _PLAN, tmp_path, Quiet()).run()["ours"]
    assert outcome.failure is not None
    assert outcome.failure.stage == "proof"
    assert "not all requests were 'cache HIT': {'lmdb HIT'" in outcome.failure.reason


def test_scan_is_measured(
    setting: Setting, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "HOT", 1_000)
    monkeypatch.setattr(scan, "KNOWN", 10_000)
    monkeypatch.setattr(scan, "QUICK_SCAN", 4_000)
    monkeypatch.setattr(scan, "_FILES", 1_000)
    finding = scan.study(setting, means)
    assert finding.complete, finding.notes
    unknown, bodies, known = finding.goals
    assert (unknown.figure, unknown.met) == ("100.00%", True)
    assert (bodies.figure, bodies.met) == ("100.00%", True)
    assert known.met is None
    assert set(finding.files) == {"records.conf", "bodies.conf", "known.conf"}


def test_memory_of_records_is_measured(
    setting: Setting, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "QUICK_RECORDS", 10_000)
    monkeypatch.setattr(memory, "_FILES", 1_000)
    finding = memory.study(setting, means)
    assert finding.complete, finding.notes
    assert finding.data["lost"] == 0
    overhead = finding.data["overhead_bytes"]
    assert isinstance(overhead, float)
    assert 30 < overhead < 300


def test_studies_without_our_module_say_so(
    setting: Setting, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "QUICK_RECORDS", 1_000)
    monkeypatch.setattr(memory, "_FILES", 1_000)
    absent = Setting(setting.nginx, "not built", setting.cache, True, setting.note)
    finding = memory.study(absent, means)
    assert not finding.complete
    assert "not built" in finding.notes[0]
