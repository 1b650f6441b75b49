"""What is written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.model import Comparison, Failure, Memory, Proof
from bench.plots import Chart, Row
from bench.report import (
    Places,
    Record,
    draw_kept,
    replace_section,
    summary,
    write,
    write_finding,
)
from bench.runner import Entry, Plan
from bench.stats import compare
from bench.tables import Finding, Goal, Table
from bench.tests.body import Numbers
from bench.tests.fakes import ROOT, FakeContestant
from bench.tests.test_stats import outcome


def _record(repository: Path) -> Record:
    good = outcome("good", 10, 11, 12)
    good.role = "baseline"
    good.configuration = f"root {repository}/files;\n"
    good.memory = Memory(rss_kib=5_000, anonymous_kib=1_234)
    ours = outcome("ours", 9, 9, 9)
    ours.proof = Proof(1_000, "lmdb HIT", {"lmdb HIT": 1_003})
    bad = outcome("bad", 1, 1, 1)
    bad.failure = Failure("round 3", "status 500")
    outcomes = {o.name: o for o in (good, ours, bad)}
    comparisons = [
        Comparison("ours / good", "ours", ("good",), 0.8),
        Comparison("bad / good", "bad", ("good",)),
    ]
    return Record(
        table=Table("sample", "A sample", "About it.", [], comparisons),
        outcomes=outcomes,
        ratios=[compare(comparison, outcomes) for comparison in comparisons],
        plan=Plan(rounds=3, seconds=1, seed=5),
        date="2030-01-02",
        facts={"kernel": "Linux 1"},
    )


def _write(directory: Path) -> Places:
    places = Places(
        directory / "bench" / "results", directory / "docs" / "b.md", directory
    )
    write(_record(directory), places)
    return places


def test_failed_contestant_is_named_and_not_averaged(tmp_path: Path) -> None:
    places = _write(tmp_path)
    text = places.document.read_text()
    assert "| good | 11.00 | 10.00–12.00 |" in text
    assert "| bad | – | – |" in text
    assert "- bad (bad): round 3: status 500" in text
    assert "not known: bad was not measured" in text
    tables = json.loads((places.results / "2030-01-02.json").read_text())["tables"]
    bad = tables["sample"]["contestants"]["bad"]
    assert bad["failure"] == {"stage": "round 3", "reason": "status 500"}
    assert "cpu_us_per_request" not in bad
    assert tables["sample"]["chart"]["bars"] == ["good", "ours"]


def test_summary_has_the_spread_of_the_rounds_and_not_each(tmp_path: Path) -> None:
    places = _write(tmp_path)
    tables = json.loads((places.results / "2030-01-02.json").read_text())["tables"]
    good = tables["sample"]["contestants"]["good"]
    assert good["rounds"] == 3
    assert good["cpu_us_per_request"] == {
        "median": 11,
        "q1": 10.5,
        "q3": 11.5,
        "low": 10,
        "high": 12,
    }
    assert good["memory"] == {"rss_kib": 5_000, "anonymous_kib": 1_234}
    assert "samples" not in good


def test_ratio_and_goal_are_shown(tmp_path: Path) -> None:
    text = _write(tmp_path).document.read_text()
    assert "| ours / good | 0.818 | 0.750–0.900 | ≤ 0.8 | not met |" in text
    assert "ours: 1,000 answers, 1,003 lines, all `lmdb HIT`" in text
    assert "1,234" in text


def test_configuration_is_kept_without_the_place_of_the_checkout(
    tmp_path: Path,
) -> None:
    places = _write(tmp_path)
    kept = places.results / "2030-01-02" / "sample" / "good.conf"
    assert kept.read_text() == "root @REPOSITORY@/files;\n"
    assert "(../bench/results/2030-01-02/sample/)" in places.document.read_text()


def test_configurations_of_an_earlier_run_are_gone(tmp_path: Path) -> None:
    old = tmp_path / "bench" / "results" / "2030-01-02" / "sample" / "old.conf"
    old.parent.mkdir(parents=True)
    old.write_text("root /files;\n")
    _write(tmp_path)
    assert [path.name for path in old.parent.iterdir()] == ["good.conf"]


def test_same_configuration_is_kept_once(tmp_path: Path) -> None:
    record = _record(tmp_path)
    for name, port, body in (
        ("good", 40001, "a"),
        ("ours", 40002, "a"),
        ("bad", 40003, "b"),
    ):
        record.outcomes[name].configuration = (
            f"# Contestant {name}\nlisten 127.0.0.1:{port};\nreturn 200 {body};\n"
            f"pid {tmp_path}/run-{name}/{name}/pid;\n"
        )
    places = Places(tmp_path / "results", tmp_path / "b.md", tmp_path)
    write(record, places)
    kept = places.results / "2030-01-02" / "sample"
    assert "listen 127.0.0.1:40001;" in (kept / "good.conf").read_text()
    same = "# the same as good.conf, but for names and ports\n"
    assert (kept / "ours.conf").read_text() == same
    assert "return 200 b;" in (kept / "bad.conf").read_text()


def test_chart_is_drawn_and_shown(tmp_path: Path) -> None:
    places = _write(tmp_path)
    directory = places.document.with_suffix("")
    svg = (directory / "sample.svg").read_text()
    assert {path.name for path in directory.iterdir()} == {"sample.svg"}
    assert "![A sample](b/sample.svg)" in places.document.read_text()
    before = svg
    _write(tmp_path)
    assert (directory / "sample.svg").read_text() == before


def test_charts_are_drawn_anew_from_the_summaries(tmp_path: Path) -> None:
    places = replace(_write(tmp_path), repository=ROOT)
    write_finding(_finding(), "2030-01-02", {}, places)
    drawn = sorted(places.document.with_suffix("").iterdir())
    assert [path.name for path in drawn] == ["sample.svg", "study.svg"]
    before = [path.read_text() for path in drawn]
    older = places.results / "2029-12-31.json"
    summaries = json.loads((places.results / "2030-01-02.json").read_text())
    summaries["tables"]["sample"]["title"] = "An older sample"
    older.write_text(json.dumps(summaries))
    for path in drawn:
        path.unlink()
    assert sorted(draw_kept(places)) == drawn
    assert [path.read_text() for path in drawn] == before


def test_charts_of_the_documentation_are_those_of_the_results(tmp_path: Path) -> None:
    kept = Places(ROOT / "bench" / "results", tmp_path / "benchmarks.md", ROOT)
    charts = ROOT / "docs" / "benchmarks"
    drawn = draw_kept(kept)
    assert {path.name for path in drawn} == {path.name for path in charts.iterdir()}
    for path in drawn:
        assert path.read_text() == (charts / path.name).read_text(), path.name


def test_second_run_replaces_only_its_own_section(tmp_path: Path) -> None:
    places = _write(tmp_path)
    text = places.document.read_text()
    places.document.write_text(f"Above.\n{text}\nBelow, by hand.\n")
    result = places.results / "2030-01-02.json"
    document = json.loads(result.read_text())
    document["tables"]["other"] = {"kept": True}
    result.write_text(json.dumps(document))
    _write(tmp_path)
    assert places.document.read_text() == f"Above.\n{text}\nBelow, by hand.\n"
    tables = json.loads(result.read_text())["tables"]
    assert tables["other"] == {"kept": True}
    assert "sample" in tables


def test_throughput_and_its_noise_are_shown_beside_the_goal(tmp_path: Path) -> None:
    record = _record(tmp_path)
    what = Comparison(
        "rate", "ours", ("good",), 1.0, metric="rate", noise=("good", "ours")
    )
    ratios = [compare(what, record.outcomes)]
    text = summary(replace(record, ratios=ratios))
    assert "| rate | 1.000 | 1.000–1.000 | ≥ 1.0 − 0.000 (noise) | met |" in text


def test_reads_of_those_that_must_not_read_are_shown(tmp_path: Path) -> None:
    record = _record(tmp_path)
    entry = Entry(FakeContestant("ours"), Numbers(), "ours", "ours", reads=0.001)
    table = replace(record.table, entries=[entry])
    assert "ours: 3,000 answers, 0 reads." in summary(replace(record, table=table))
    assert "from memory" not in summary(record)


def test_long_words_of_a_configuration_are_cut(tmp_path: Path) -> None:
    record = _record(tmp_path)
    record.outcomes["good"].configuration = f"return 200 {'x' * 500};\n"
    places = Places(tmp_path / "results", tmp_path / "b.md", tmp_path)
    write(record, places)
    kept = places.results / "2030-01-02" / "sample" / "good.conf"
    assert kept.read_text() == f"return 200 {'x' * 20}...(501 bytes)\n"


def _finding() -> Finding:
    return Finding(
        name="study",
        title="A study",
        about="About it.",
        goals=[
            Goal("share", "97.00%", "≥ 95%", True),
            Goal("bytes", "170", "≤ 160", False),
            Goal("info", "3"),
        ],
        tables=[(["what", "how many"], [["a", "1"]])],
        bars=[Row("a", "ours", 97.0)],
        axis="%",
        line=95.0,
        data={"raw": {"a": 1}},
        files={"study.conf": f"root {ROOT};\n"},
        notes=["**Not measured:** b: no module"],
    )


def test_finding_is_written_as_a_section(tmp_path: Path) -> None:
    places = _write(tmp_path)
    before = places.document.read_text()
    places = replace(places, repository=ROOT)
    write_finding(_finding(), "2030-01-02", {"kernel": "Linux 1"}, places)
    text = places.document.read_text()
    assert text.startswith(before.rstrip())
    assert "| share | 97.00% | ≥ 95% | met |" in text
    assert "| bytes | 170 | ≤ 160 | not met |" in text
    assert "| info | 3 |  |  |" in text
    assert "| a | 1 |" in text
    assert "**Not measured:** b: no module" in text
    assert "2030-01-02. kernel: Linux 1." in text
    assert "![A study](b/study.svg)" in text
    assert (places.document.with_suffix("") / "study.svg").exists()
    kept = places.results / "2030-01-02" / "study" / "study.conf"
    assert kept.read_text() == "root @REPOSITORY@;\n"
    tables = json.loads((places.results / "2030-01-02.json").read_text())["tables"]
    assert tables["study"]["raw"] == {"a": 1}
    assert tables["study"]["tables"] == [
        {"header": ["what", "how many"], "rows": [["a", "1"]]}
    ]
    assert tables["study"]["goals"][1]["met"] is False
    assert "sample" in tables


def test_finding_without_bars_has_no_plot(tmp_path: Path) -> None:
    places = Places(tmp_path / "results", tmp_path / "b.md", tmp_path)
    write_finding(replace(_finding(), bars=[]), "2030-01-02", {}, places)
    assert "![" not in places.document.read_text()


@pytest.mark.parametrize(
    "document",
    [
        "<!-- bench:x:begin -->\n",
        "<!-- bench:x:end -->\n",
        "<!-- bench:x:end -->\n<!-- bench:x:begin -->\n",
    ],
)
def test_markers_that_do_not_match_are_an_error(document: str) -> None:
    with pytest.raises(ValueError, match="do not match"):
        replace_section(document, "x", "new")


def test_figures_that_cannot_be_compared_are_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw_file(chart: Chart, _: Path) -> None:
        drawn.extend(row.label for row in chart.rows)

    monkeypatch.setattr("bench.report.draw_file", draw_file)
    record = _record(tmp_path)
    places = Places(tmp_path / "results", tmp_path / "b.md", tmp_path)
    write(replace(record, table=replace(record.table, unplotted=["ours"])), places)
    assert drawn == [record.outcomes["good"].title]
    write(record, places)
    assert record.outcomes["ours"].title in drawn
