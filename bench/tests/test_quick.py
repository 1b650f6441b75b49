"""The whole command, a short round of every table with all of its systems."""

import json
from pathlib import Path

import pytest

from bench import cli
from bench.cli import STUDIES, TABLES, main
from bench.model import BenchError
from bench.tables import Setting, Table


@pytest.mark.parametrize("name", [*TABLES, *STUDIES])
def test_table_is_measured_and_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--quick", "--table", name, "--output", str(tmp_path)])
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
