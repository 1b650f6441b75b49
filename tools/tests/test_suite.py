"""suite.py counts what ran, and counts as failed what did not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import suite
from suite import Done, Result, Stage

CMOCKA = """\
[==========] Running 3 test(s).
[  PASSED  ] 3 test(s).
[==========] Running 2 test(s).
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] test_b
"""

JUNIT = """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
<testcase classname="t" name="good" time="0.25" /><testcase classname="t" name="good2" />
<testcase classname="t" name="bad"><failure message="x">x</failure></testcase>
<testcase classname="t" name="worse"><error message="x">x</error></testcase>
<testcase classname="t" name="none"><skipped message="no tool">x</skipped></testcase>
</testsuite></testsuites>
"""


def test_cmocka_is_counted() -> None:
    assert suite.parse_cmocka(Done(1, CMOCKA)) == Result(4, 1)


def test_cmocka_that_crashes_counts_as_failed() -> None:
    output = "[  PASSED  ] 3 test(s).\nSegmentation fault\n"
    assert suite.parse_cmocka(Done(2, output)) == Result(3, 1)


def test_fuzz_targets_are_counted() -> None:
    output = (
        "== fuzz_key: 10 s, seed 7\nstat::number_of_executed_units: 9\n"
        "== fuzz_url: 10 s, seed 8\n==12==ERROR: libFuzzer: deadly signal\n"
        "fuzz_url failed: seed 8, input in build/fuzz/failed\n"
    )
    assert suite.parse_fuzz(Done(2, output)) == Result(1, 1)


def test_cases_of_the_model_are_counted() -> None:
    output = "=== case 3 is wrong\nmodel: 79 right, 1 wrong, of 80 cases (seed 5)\n"
    assert suite.parse_model(Done(1, output)) == Result(79, 1)
    assert suite.parse_model(Done(1, "Traceback\n")) == Result(0, 1)


def test_fuzz_target_that_does_not_compile_counts_as_failed() -> None:
    output = "== fuzz_key: 10 s, seed 7\nmake: *** [Makefile:1: fuzz_url.o] Error 1\n"
    assert suite.parse_fuzz(Done(2, output)) == Result(1, 1)


def test_minitest_is_counted() -> None:
    line = "9 runs, 80 assertions, 1 failures, 2 errors, 0 skips\n"
    assert suite.parse_minitest(Done(1, f"...\n{line}")) == Result(6, 3)


def test_minitest_with_skips() -> None:
    result = suite.parse_minitest(
        Done(0, "9 runs, 80 assertions, 0 failures, 0 errors, 2 skips\n")
    )
    assert (result.passed, result.failed, len(result.skipped)) == (7, 0, 2)


def test_minitest_without_its_last_line_counts_as_failed() -> None:
    assert suite.parse_minitest(Done(1, "LoadError\n")) == Result(0, 1)


def test_lint_is_counted() -> None:
    assert suite.parse_lint(Done(1, "FAIL x\nlint: 7 passed, 2 failed\n")) == Result(
        7, 2
    )


def test_lint_without_its_last_line_counts_as_failed() -> None:
    assert suite.parse_lint(Done(1, "Traceback\n")) == Result(0, 1)


def test_junit_is_counted() -> None:
    result = suite.parse_junit(Done(1, ""), JUNIT)
    assert result == Result(2, 2, ["t::none: no tool"])
    assert result.cases[0] == ("t", "good", 0.25)


@pytest.mark.parametrize("code", [None, 1, -11])
def test_status_without_a_failed_test_counts_as_failed(code: int | None) -> None:
    assert suite.counted(Done(code, ""), 5, 0) == Result(5, 1)


def test_no_test_at_all_counts_as_failed() -> None:
    assert suite.counted(Done(0, ""), 0, 0) == Result(0, 1)


def test_pytest_stage_runs_a_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "PYTHON", sys.executable)
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "def test_environment(): assert os.environ['X'] == 'y'\n"
        "def test_bad(): assert 0\n"
        "@pytest.mark.skip(reason='why')\n"
        "def test_not(): pass\n"
    )
    result = suite.pytest("it", str(tmp_path), environment={"X": "y"})()
    assert result == Result(1, 1, ["test_it::test_not: why"])


def test_pytest_stage_that_writes_no_report_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "PYTHON", sys.executable)
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    (tmp_path / "conftest.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(suite.StageFailed, match="status 3"):
        suite.pytest("it", str(tmp_path))()


def test_hanging_command_is_killed_with_its_children() -> None:
    done = suite.run(["sh", "-c", "echo before; sleep 600 & wait"], timeout=3)
    assert done == Done(None, "before\n")


def test_command_has_no_input() -> None:
    assert suite.run(["cat"], timeout=300) == Done(0, "")


def good() -> Result:
    return Result(3)


def bad() -> Result:
    return Result(1, 1)


def crash() -> Result:
    raise suite.StageFailed("no")


def test_a_failed_stage_does_not_stop_the_others() -> None:
    stages = [
        Stage("crash", crash),
        Stage("after", good, ("crash",)),
        Stage("bad", bad),
        Stage("good", good),
    ]
    results = suite.run_stages(stages)
    assert results == {
        "crash": Result(0, 1),
        "after": Result(0, 1),
        "bad": Result(1, 1),
        "good": Result(3),
    }
    text, well = suite.summary(results, ci=False)
    assert text.splitlines()[-1] == "4 passed, 3 failed"
    assert not well


def test_stages_that_need_nothing_of_each_other_run_at_a_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    both = threading.Barrier(2)

    def meets() -> Result:
        both.wait(20)
        return suite.counted(suite.run(["echo", "in the log"]), 1, 0)

    def alone() -> Result:
        assert not both.n_waiting
        return Result(2)

    stages = [Stage("needed", good), Stage("a", meets, ("needed",))]
    stages += [Stage("late", alone, ("a", "b")), Stage("b", meets, ("needed",))]
    results = suite.run_stages(stages, together=2)
    assert list(results) == ["needed", "a", "late", "b"]
    assert [r.passed for r in results.values()] == [3, 1, 2, 1]
    shown = capfdbinary.readouterr().out.decode()
    for name in ("a", "b"):
        whole = f"\n=== {name} ===\n$ echo in the log\nin the log\n=== {name}: 1 passed"
        assert whole in shown
        assert "in the log" in (tmp_path / f"{name}.log").read_text()


def test_interrupted_suite_ends_its_commands(tmp_path: Path) -> None:
    # each is a pipe, whose reader waits for the stage's command to begin
    marks = [tmp_path / "a", tmp_path / "b"]
    for mark in marks:
        os.mkfifo(mark)
    stages = "".join(
        f"Stage({m.name!r}, lambda: suite.Result(suite.run(['sh', '-c', "
        f"'echo $$ > {m}; exec sleep 600']).code or 1)),"
        for m in marks
    )
    text = (
        "import pathlib, suite; from suite import Stage\n"
        f"suite.RESULTS = pathlib.Path({str(tmp_path)!r})\n"
        f"suite.run_stages([{stages} Stage('c', lambda: print('never'))], 2)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=Path(suite.__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        started = [mark.read_text().strip() for mark in marks]
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in said
    assert b"never" not in said
    for pid in started:
        assert not Path("/proc", pid).exists()


def test_slowest_files_and_cases_stand_before_the_last_line() -> None:
    cases = [("t.test_a", f"c{n}", 1.0) for n in range(12)]
    slow = Result(13, cases=[*cases, ("t.test_b", "slow", 3.5)])
    text, _ = suite.summary({"http": slow, "unit": Result(1)}, ci=False)
    lines = text.splitlines()
    assert lines[-1] == "14 passed, 0 failed"
    files = lines.index("slowest files:")
    assert lines[files + 1 : files + 3] == [
        "    12.0 s  http t.test_a",
        "     3.5 s  http t.test_b",
    ]
    found = lines.index("slowest cases:")
    assert lines[found + 1] == "     3.5 s  http t.test_b::slow"
    assert len(lines[found:]) == 1 + suite.SLOWEST + 1


def test_skips_fail_only_in_ci() -> None:
    results = {"a": Result(5, 0, ["t::x: no tool"])}
    text, well = suite.summary(results, ci=False)
    assert text.splitlines()[-1] == "5 passed, 0 failed"
    assert "1 SKIPPED" in text and "t::x: no tool" in text
    assert well
    text, well = suite.summary(results, ci=True)
    assert text.splitlines()[-1] == "5 passed, 1 failed"
    assert not well


def test_stages_bring_what_they_need() -> None:
    names = [s.name for s in suite.chosen(["http-debian"], suite.STAGES)]
    assert names == ["deps", "venv", "build", "http-debian"]


def test_all_stages_but_the_optional_ones() -> None:
    names = [s.name for s in suite.chosen([], suite.STAGES)]
    for name in (
        "unit",
        "fuzz",
        "lint",
        "tools",
        "cli",
        "gem",
        "model",
        "http-debian",
        "http-asan",
    ):
        assert name in names
    assert "http-static" not in names


def test_unknown_stage_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.main(["unit", "nonsense"]) == 2
    assert "no stage nonsense; there are deps, " in capsys.readouterr().err


def test_needs_are_stages_that_come_before() -> None:
    seen: set[str] = set()
    for stage in suite.STAGES:
        assert set(stage.needs) <= seen, stage.name
        seen.add(stage.name)


def test_unit_tests_run_what_has_been_built() -> None:
    stages = [s.name for s in suite.chosen(["unit"], suite.STAGES)]
    assert stages.index("build") < stages.index("unit")
