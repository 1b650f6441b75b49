"""Run the whole test suite; the last line is ``N passed, N failed``.

usage: suite.py [list | STAGE...]

Without stages: all of them but the optional ones. What a stage needs, such as
a build, runs before it. Where there are several to run, two run at a time, for
most of them wait more than they compute; what one prints is shown when it has
ended, and is in build/results/STAGE.log meanwhile. A stage that crashes, hangs
or reports nothing counts as one failure, and the others still run. Exit status
1 if anything failed. With CI=true in the environment a skipped test counts as
failed, too. The slowest files and cases of pytest stand before the last line.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
RESULTS = BUILD / "results"
PYTHON = str(BUILD / "venv" / "bin" / "python")

STAGE_TIMEOUT = 60 * 60.0
TEST_TIMEOUT = 600.0
MODEL_REQUESTS = os.environ.get("MODEL_REQUESTS", "20000")
FUZZ_SECONDS = os.environ.get("FUZZ_SECONDS", "10")

# pytest workers of a stage whose tests wait as long as they compute
CORES = os.cpu_count() or 1
WORKERS = 2 * CORES

# stages at a time
TOGETHER = 2

# files and cases that are named at the end
SLOWEST = 10


@dataclass
class Result:
    """What a stage counted.

    Args:
        passed: tests that passed.
        failed: tests that failed.
        skipped: tests that did not run, each with its reason.
        cases: file, name and seconds of each test, where they are known.
        took: seconds from the stage's begin to its end.
    """

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    cases: list[tuple[str, str, float]] = field(default_factory=list, compare=False)
    took: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {len(self.skipped)} SKIPPED" if self.skipped else text


@dataclass(frozen=True)
class Done:
    """A finished command.

    Args:
        code: its exit status; None if it hung and was killed.
        output: what it printed, both streams.
    """

    code: int | None
    output: str


class StageFailed(Exception):
    """A stage could not do its work; the message says why."""


class Output(threading.local):
    """Where a stage's words go: one for each thread."""

    def __init__(self) -> None:
        self.file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Write, at once."""
        if self.file is None:
            sys.stdout.flush()
        file = self.file or sys.stdout.buffer
        file.write(data)
        file.flush()


output = Output()


def say(text: str) -> None:
    """Print a line among what the stage prints."""
    output.write(f"{text}\n".encode())


class Commands:
    """The commands that run, so that all of them can be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._over = False

    def start(self, command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own.

        Raises:
            StageFailed: all have been ended.
        """
        with self._lock:
            if self._over:
                raise StageFailed("the suite is interrupted")
            process = subprocess.Popen(command, start_new_session=True, **how)
            self._running.add(process.pid)
            return process

    def kill(self, pid: int) -> None:
        """Kill a command and its children, unless it has been waited for."""
        with self._lock:
            if pid in self._running:
                os.killpg(pid, signal.SIGKILL)

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a command, whose number may be another's then."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._running.discard(process.pid)
        process.wait()

    def end(self) -> None:
        """Kill all of them, and start no other."""
        with self._lock:
            self._over = True
            for pid in self._running:
                os.killpg(pid, signal.SIGKILL)


commands = Commands()


def run(
    command: list[str],
    folder: str = ".",
    environment: dict[str, str] | None = None,
    timeout: float = STAGE_TIMEOUT,
) -> Done:
    """Run a command; its output is shown as it comes.

    Args:
        command: program and arguments.
        folder: where to run it, relative to the repository.
        environment: what to add to the environment.
        timeout: seconds after which it and its children are killed.
    """
    say(f"$ {' '.join(command)}")
    process = commands.start(
        command,
        cwd=ROOT / folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    hung = threading.Event()

    def kill() -> None:
        hung.set()
        commands.kill(process.pid)

    timer = threading.Timer(timeout, kill)
    timer.start()
    parts = []
    try:
        assert process.stdout is not None
        while part := os.read(process.stdout.fileno(), 65536):
            output.write(part)
            parts.append(part)
        commands.wait(process)
    except BaseException:
        commands.kill(process.pid)
        raise
    finally:
        timer.cancel()
    text = b"".join(parts).decode(errors="replace")
    if hung.is_set():
        say(f"\nkilled after {timeout:.0f} s: {' '.join(command)}")
    return Done(None if hung.is_set() else process.returncode, text)


def counted(done: Done, passed: int, failed: int) -> Result:
    """Make a result of counts, and a failure of what the counts do not show.

    That is a command that ended with an error or was killed without a failed
    test, and one without a single test.
    """
    if failed == 0 and (done.code != 0 or passed == 0):
        say(f"no test failed, but {passed} passed and the status is {done.code}")
        failed = 1
    return Result(passed, failed)


def prepare(*commands: list[str]) -> Callable[[], Result]:
    """Make a stage of commands that all have to succeed; it counts no tests."""

    def stage() -> Result:
        for command in commands:
            done = run(command)
            if done.code != 0:
                raise StageFailed(f"{' '.join(command)}: status {done.code}")
        return Result()

    return stage


def unit() -> Result:
    """Run the unit tests of src/pure, some of them on the module's own objects."""
    done = run(["make", "--no-print-directory", "-C", "test/unit", "run"])
    return parse_cmocka(done)


def parse_cmocka(done: Done) -> Result:
    """Count the tests in cmocka's output."""
    counts = {}
    for word in ("PASSED", "FAILED", "SKIPPED"):
        found = re.findall(rf"\[\s*{word}\s*\] (\d+) test\(s\)", done.output)
        counts[word] = sum(int(n) for n in found)
    result = counted(done, counts["PASSED"], counts["FAILED"])
    result.skipped = ["a cmocka test"] * counts["SKIPPED"]
    return result


def fuzz() -> Result:
    """Run each fuzz target for a short time."""
    jobs = f"-j{CORES}"
    done = run(
        ["make", "--no-print-directory", "-k", jobs, "-C", "test/fuzz", "run"],
        environment={"SECONDS": FUZZ_SECONDS, "MAKEFLAGS": ""},
    )
    return parse_fuzz(done)


def parse_fuzz(done: Done) -> Result:
    """Count the targets that were started, and those that failed."""
    started = len(re.findall(r"^== fuzz_\w+: ", done.output, re.MULTILINE))
    failed = len(re.findall(r"^fuzz_\w+ failed: ", done.output, re.MULTILINE))
    return counted(done, started - failed, failed)


def gem() -> Result:
    """Build the gem and run its tests."""
    prepare(["tools/build-gem.sh"])()
    return parse_minitest(run(["ruby", "-w", "gem/test/run.rb"]))


def parse_minitest(done: Done) -> Result:
    """Read minitest's last line."""
    match = re.search(
        r"^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips$",
        done.output,
        re.MULTILINE,
    )
    runs, failures, errors, skips = map(int, match.groups()) if match else (0, 0, 0, 0)
    failed = failures + errors
    result = counted(done, runs - failed - skips, failed)
    result.skipped = ["a test of the gem"] * skips
    return result


def lint() -> Result:
    """Run the checkers."""
    return parse_lint(run([PYTHON, "tools/lint.py"]))


def parse_lint(done: Done) -> Result:
    """Read lint.py's last line."""
    match = re.search(r"^lint: (\d+) passed, (\d+) failed$", done.output, re.MULTILINE)
    passed, failed = (int(match[1]), int(match[2])) if match else (0, 0)
    return counted(done, passed, failed)


def pytest(
    name: str,
    folder: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
) -> Callable[[], Result]:
    """Make a stage of a pytest suite.

    Args:
        name: the stage's.
        folder: where to run it, relative to the repository.
        arguments: for pytest.
        environment: what to add to the environment.
    """

    def stage() -> Result:
        report = RESULTS / f"{name}.xml"
        report.unlink(missing_ok=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-ra"]
        command += [f"--timeout={TEST_TIMEOUT:.0f}"]
        command += [f"--junitxml={report}", *arguments]
        done = run(command, folder, environment)
        if not report.exists():
            raise StageFailed(f"pytest wrote no report (status {done.code})")
        return parse_junit(done, report.read_text(encoding="utf-8"))

    return stage


def parse_junit(done: Done, report: str) -> Result:
    """Count the tests of a JUnit report."""
    passed = failed = 0
    skipped = []
    cases = []
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        seconds = float(case.get("time", "0"))
        cases.append((case.get("classname", ""), case.get("name", ""), seconds))
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skip is not None:
            skipped.append(f"{name}: {skip.get('message')}")
        else:
            passed += 1
    result = counted(done, passed, failed)
    result.skipped = skipped
    result.cases = cases
    return result


def model() -> Result:
    """Ask the oracle of test/model about random configurations."""
    return parse_model(
        run([PYTHON, "test/model", "--requests", MODEL_REQUESTS], environment=DEBIAN)
    )


def parse_model(done: Done) -> Result:
    """Count the cases that were right, and those that were not."""
    found = re.findall(r"^model: (\d+) right, (\d+) wrong", done.output, re.MULTILINE)
    right, wrong = (int(n) for n in found[-1]) if found else (0, 0)
    return counted(done, right, wrong)


@dataclass(frozen=True)
class Stage:
    """A part of the suite.

    Args:
        name: for ONLY=.
        work: does it.
        needs: stages that run before it; if one fails this cannot run.
        optional: runs only if it is named.
    """

    name: str
    work: Callable[[], Result]
    needs: tuple[str, ...] = ()
    optional: bool = False


def http(name: str, environment: dict[str, str]) -> Callable[[], Result]:
    """Make a stage of the HTTP suite for one nginx."""
    return pytest(name, "test/http", "-n", str(WORKERS), environment=environment)


def apps(name: str, flavour: str) -> Callable[[], Result]:
    """Make a stage of the real applications, behind one nginx."""
    return pytest(
        name,
        "test/apps",
        *("-n", str(WORKERS), "--dist", "loadgroup"),
        environment={"NGX_FLAVOUR": flavour},
    )


DEBIAN = {"NGX_FLAVOUR": "debian"}
MODULE = "ngx_http_sendfile_module.so"
TEST_MODULE = "ngx_http_sendfile_test_module.so"

STAGES = [
    Stage("deps", prepare(["tools/deps.sh", "test"])),
    Stage("venv", prepare(["tools/venv.sh", "test"]), ("deps",)),
    Stage("build", prepare(["make", "-s", "test-module"]), ("deps",)),
    Stage("asan", prepare(["tools/build-nginx.sh", "asan"]), ("deps",)),
    # the longest first, lest one of them is left for the end
    Stage(
        "http-asan",
        http("http-asan", {"NGX_FLAVOUR": "asan"}),
        ("deps", "venv", "asan"),
    ),
    Stage(
        "bench",
        pytest("bench", ".", "bench/tests", "-n", str(CORES)),
        ("deps", "venv", "build"),
    ),
    Stage(
        "http-debian",
        http("http-debian", {"NGX_FLAVOUR": "debian"}),
        ("deps", "venv", "build"),
    ),
    Stage(
        "tools",
        # one file builds in a copy that its cases share
        pytest("tools", "tools/tests", "-n", str(CORES), "--dist", "loadfile"),
        ("deps", "venv", "build"),
    ),
    Stage("cli", pytest("cli", "cli", "-n", str(CORES)), ("deps", "venv")),
    Stage("gem", gem, ("deps", "build")),
    Stage("apps", apps("apps", "debian"), ("deps", "venv", "build")),
    Stage("fuzz", fuzz, ("deps",)),
    Stage("model", model, ("deps", "venv", "build")),
    Stage("unit", unit, ("deps", "build")),
    Stage("lint", lint, ("deps", "venv")),
    Stage("static", prepare(["tools/build-nginx.sh", "static"]), ("deps",), True),
    Stage("nginx-1.28", prepare(["make", "-s", "nginx-1.28"]), ("deps",), True),
    # a load generator is compiled for this
    Stage("build-oha", prepare(["tools/oha.sh"]), ("deps",), True),
    Stage(
        "oha", pytest("oha", "cli", "-m", "oha"), ("deps", "venv", "build-oha"), True
    ),
    Stage("apps-asan", apps("apps-asan", "asan"), ("deps", "venv", "asan"), True),
    Stage(
        "http-static",
        http("http-static", {"NGX_FLAVOUR": "static"}),
        ("deps", "venv", "static"),
        True,
    ),
    Stage(
        "http-1.28",
        http(
            "http-1.28",
            {
                "NGX_FLAVOUR": "debian",
                "NGX_BINARY": str(BUILD / "nginx-1.28" / "nginx"),
                "NGX_MODULE": str(BUILD / "nginx-1.28" / MODULE),
                "NGX_TEST_MODULE": str(BUILD / "test" / "1.28" / TEST_MODULE),
            },
        ),
        ("deps", "venv", "nginx-1.28"),
        True,
    ),
]


def chosen(names: list[str], stages: list[Stage]) -> list[Stage]:
    """Return the stages to run, in order, with what they need.

    Args:
        names: none takes all that are not optional.
        stages: the whole list.

    Raises:
        ValueError: there is no such stage.
    """
    by_name = {stage.name: stage for stage in stages}
    if unknown := set(names) - set(by_name):
        raise ValueError(
            f"no stage {', '.join(sorted(unknown))}; there are {', '.join(by_name)}"
        )
    wanted = set(names) or {s.name for s in stages if not s.optional}
    for name in list(wanted):
        wanted.update(by_name[name].needs)
    return [stage for stage in stages if stage.name in wanted]


def run_stage(stage: Stage, results: dict[str, Result], live: bool) -> Result:
    """Run a stage and return what it counted; one that raises failed once.

    Args:
        stage: what to run.
        results: of those before it.
        live: show what it prints as it comes, not when it has ended.
    """
    start = time.monotonic()
    lacking = [n for n in stage.needs if n in results and results[n].failed]
    log = RESULTS / f"{stage.name}.log"
    if not live:
        RESULTS.mkdir(parents=True, exist_ok=True)
        say(f"--- {stage.name} begins")
        output.file = log.open("wb")
    say(f"\n=== {stage.name} ===")
    if lacking:
        say(f"not run, for {', '.join(lacking)} failed")
        result = Result(failed=1)
    else:
        try:
            result = stage.work()
        except (StageFailed, OSError, ElementTree.ParseError) as error:
            say(f"{stage.name}: {error}")
            result = Result(failed=1)
    result.took = time.monotonic() - start
    say(f"=== {stage.name}: {result} ({result.took:.0f} s)")
    if output.file is not None:
        output.file.close()
        output.file = None
        with showing:
            output.write(log.read_bytes())
    return result


# held while what a stage has printed is shown
showing = threading.Lock()


def run_stages(stages: list[Stage], together: int = 1) -> dict[str, Result]:
    """Run stages and return what each counted.

    Args:
        stages: what each needs stands before it, if it is there.
        together: how many run at a time.
    """
    results: dict[str, Result] = {}
    running: dict[str, Future[Result]] = {}
    # not concurrent.futures.wait(): interrupted while it takes the locks of all
    # that run, it keeps them, and no stage could end
    ended: SimpleQueue[str] = SimpleQueue()
    left = list(stages)
    with ThreadPoolExecutor(together) as pool:
        try:
            while left or running:
                for stage in left[:]:
                    ready = not {s.name for s in left} & set(stage.needs)
                    if not ready or set(running) & set(stage.needs):
                        continue
                    if len(running) == together:
                        break
                    left.remove(stage)
                    known = dict(results)
                    future = pool.submit(run_stage, stage, known, together == 1)
                    running[stage.name] = future
                    future.add_done_callback(
                        lambda _, name=stage.name: ended.put(name)  # type: ignore[misc]
                    )
                name = ended.get()
                results[name] = running.pop(name).result()
        except BaseException:
            commands.end()
            raise
    return {stage.name: results[stage.name] for stage in stages}


def slowest(results: dict[str, Result]) -> list[str]:
    """Name the slowest files and cases, as far as their times are known."""
    files: defaultdict[str, float] = defaultdict(float)
    cases: defaultdict[str, float] = defaultdict(float)
    for stage, result in results.items():
        for file, name, seconds in result.cases:
            files[f"{stage} {file}"] += seconds
            cases[f"{stage} {file}::{name}"] += seconds
    lines = []
    for what, found in (("files", files), ("cases", cases)):
        if found:
            lines.append(f"slowest {what}:")
        most = sorted(found.items(), key=itemgetter(1), reverse=True)
        for name, seconds in most[:SLOWEST]:
            lines.append(f"  {seconds:6.1f} s  {name}")
    return lines


def summary(results: dict[str, Result], ci: bool) -> tuple[str, bool]:
    """Sum up.

    Args:
        results: of each stage.
        ci: count a skipped test as failed.

    Returns:
        The text, whose last line is ``N passed, N failed``, and whether all
        is well.
    """
    lines = []
    for name, result in results.items():
        if result.passed or result.failed or result.skipped:
            lines.append(f"{name:12} {result} ({result.took:.0f} s)")
    lines += slowest(results)
    skipped = [f"{n}: {s}" for n, r in results.items() for s in r.skipped]
    if skipped:
        fate = ", which counts as failed here (CI)" if ci else ""
        lines.append(f"*** {len(skipped)} SKIPPED{fate} ***")
        lines += [f"  {s}" for s in skipped]
    passed = sum(r.passed for r in results.values())
    failed = sum(r.failed for r in results.values()) + (len(skipped) if ci else 0)
    lines.append(f"{passed} passed, {failed} failed")
    return "\n".join(lines), failed == 0


def main(names: list[str]) -> int:
    """Run the command line.

    Args:
        names: the stages, or ``list``.

    Returns:
        The exit status.
    """
    if names == ["list"]:
        for stage in STAGES:
            print(f"{stage.name}{' (only if named)' if stage.optional else ''}")
        return 0
    try:
        stages = chosen(names, STAGES)
    except ValueError as error:
        print(f"suite.py: {error}", file=sys.stderr)
        return 2
    # ignored in what a shell without job control starts with "&", and then in
    # every program that a test wants to interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # a stage that is asked for alone is one to look at
    results = run_stages(stages, 1 if len(names) == 1 else TOGETHER)
    text, good = summary(results, os.environ.get("CI") == "true")
    print(f"\n{text}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
