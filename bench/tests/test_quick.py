"""The whole command, a round of every table with all of its systems.

It is a round of few requests for few files: that the contestants are right and
that what is written says so. Speed is of ``python -m bench --quick`` and more.
"""

import json
import os
from pathlib import Path
from types import ModuleType

import pytest

from bench import cli
from bench.cli import STUDIES, TABLES, main
from bench.model import BenchError
from bench.tables import (
    Setting,
    Table,
    bigfile,
    cache,
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
from bench.tests.few import Few

# Two workers have to share what comes, a profile is one of a busy worker, and
# these ask for thousands of records.
_WRK = ("workers", "profile", "scan", "memory")

# Not below pytest's own directories: servers give up being root. One for each of
# pytest's workers, for a benchmark locks its data.
_CACHE = (
    cli.REPOSITORY
    / "build"
    / "bench-tests"
    / os.environ.get("PYTEST_XDIST_WORKER", "main")
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less of everything: files, records, requests."""
    for module in (cache, profile, smallfiles, workers, idlookup):
        monkeypatch.setattr(module, "FILES", 100)
    less: dict[ModuleType, dict[str, object]] = {
        bigfile: {"FILES": 4, "HTTPERF_CALLS": 2},
        disk: {
            "SIZES": {name: (size, 10) for name, (size, _) in disk.SIZES.items()},
        },
        idlookup: {"RATES": (50, 100), "CEILING": 200},
        keepalive: {"QUICK_REQUESTS": 100},
        lookup: {"FILES": 100, "SMALL": 10, "QUICK_LARGE": 1_000},
        memory: {"_FILES": 1_000, "QUICK_RECORDS": 10_000},
        records: {"FILES": 100, "USED": 10, "SMALL": 100, "QUICK_LARGE": 1_000},
        scan: {"_FILES": 1_000, "HOT": 1_000, "KNOWN": 50_000, "QUICK_SCAN": 20_000},
        script: {"QUICK_REQUESTS": 200},
        xsendfile: {"QUICK_REQUESTS": 100},
    }
    for module, values in less.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


# of the table cost there is test_cost.py
_ALL = [name for name in (*TABLES, *STUDIES) if name != "cost"]


@pytest.mark.parametrize("name", _ALL)
def test_table_is_measured_and_written(
    name: str,
    small: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name not in _WRK:
        monkeypatch.setattr(cli, "Wrk", Few)
    places = ["--output", str(tmp_path), "--cache", str(_CACHE)]
    code = main(["--quick", "--table", name, *places])
    shown = capsys.readouterr()
    assert code == 0, shown.err + shown.out[-4_000:]
    (results,) = (tmp_path / "results").glob("*.json")
    found = json.loads(results.read_text())["tables"]
    assert set(found) == {name}
    facts = found[name]["facts"]
    assert facts["server"].startswith("nginx/")
    assert "unknown" not in facts.values()
    document = (tmp_path / "benchmarks.md").read_text()
    assert f"<!-- bench:{name}:begin -->" in document
    assert "Not measured" not in document
    assert f"benchmarks/{name}.svg" in document
    assert (tmp_path / "benchmarks" / f"{name}.svg").stat().st_size > 1_000
    configurations = list((tmp_path / "results").glob(f"*/{name}/*.conf"))
    assert configurations
    assert all(path.stat().st_size > 0 for path in configurations)


def test_table_that_cannot_be_begun_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(setting: Setting) -> Table:
        raise BenchError("httperf is not installed")

    places = ["--output", str(tmp_path), "--cache", str(tmp_path / "cache")]
    monkeypatch.setattr(cli, "TABLES", {"big-file": absent, "script": TABLES["script"]})
    monkeypatch.setattr(cli, "STUDIES", {})
    assert main(["--quick", *places]) == 1
    said = "bench: big-file was not measured: httperf is not installed"
    assert said in capsys.readouterr().err
    (results,) = (tmp_path / "results").glob("*.json")
    assert set(json.loads(results.read_text())["tables"]) == {"script"}
    assert main(["--quick", "--table", "big-file", *places]) == 2
