"""A real nginx as a contestant, and interrupted runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.contestants.nginx import Nginx, NginxProgram
from bench.cpu import settled_cpu_time
from bench.dataset import build_files
from bench.load import Wrk
from bench.model import Address, ContestantError, LoadResult
from bench.process import children, wait_for
from bench.runner import Entry, Plan, Runner
from bench.tables.bigfile import make_certificate
from bench.tables.parts import static_server
from bench.tests.fakes import CORES, ROOT, Quiet
from bench.verify import verify
from bench.workload import PathWorkload

_PLAN = Plan(rounds=1, seconds=1, seed=1, checks=20, spot_checks=5)


@pytest.fixture
def program() -> NginxProgram:
    """The installed nginx."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None
    return NginxProgram(Path(found), None, CORES[0], CORES[-1])


@pytest.fixture
def nginx(program: NginxProgram, tmp_path: Path) -> Iterator[Nginx]:
    """nginx that serves 10 files statically; stopped at the end."""
    files = build_files(tmp_path, 10)
    contestant = Nginx(
        "static", program, f"location /files/ {{\n    alias {files.directory}/;\n}}"
    )
    yield contestant
    contestant.stop()


def test_worker_is_alone_on_its_core(nginx: Nginx, tmp_path: Path) -> None:
    nginx.configure(tmp_path)
    nginx.start()
    (worker,) = nginx.pids()
    assert os.sched_getaffinity(worker) == {CORES[0]}
    workload = PathWorkload(build_files(tmp_path, 10))
    verify(nginx.address, workload, range(10), "test")
    assert nginx.complaints() == []


def test_two_workers_have_a_core_each_and_both_serve(
    program: NginxProgram, tmp_path: Path
) -> None:
    files = build_files(tmp_path, 10)
    server = static_server(files)
    nginx = Nginx("two", program, server, workers=2)
    workload = PathWorkload(files)
    entry = Entry(nginx, workload, "two", "baseline")
    load = Wrk((CORES[0], CORES[-1]), 64)
    plan = replace(_PLAN, exclusive=False, fair=True)
    seen: list[set[int]] = []

    class Looking(Quiet):
        """Looks at the workers' cores while they run."""

        def step(self, text: str) -> None:
            seen.extend(os.sched_getaffinity(pid) for pid in sorted(nginx.pids()))

    outcomes = Runner([entry], load, plan, tmp_path, Looking()).run()
    assert outcomes["two"].failure is None
    (sample,) = outcomes["two"].samples
    assert len(sample.shares) == 2
    assert sum(sample.shares) == pytest.approx(1)
    assert sorted(map(sorted, seen[:2])) == [[CORES[0]], [CORES[-1]]]


def test_answers_over_tls_are_checked_against_the_certificate(
    program: NginxProgram, tmp_path: Path
) -> None:
    files = build_files(tmp_path, 10)
    certificate = make_certificate(tmp_path)
    nginx = Nginx("tls", program, static_server(files), certificate=certificate)
    directory = tmp_path / "tls"
    directory.mkdir()
    nginx.configure(directory)
    nginx.start()
    workload = PathWorkload(files)
    try:
        assert nginx.address.url.startswith("https://127.0.0.1:")
        verify(nginx.address, workload, range(10), "test")
        result = Wrk(CORES[-1], 2).run(nginx.address, [workload.url(3)], 1)
        other = tmp_path / "other"
        other.mkdir()
        stranger = replace(nginx.address, certificate=make_certificate(other))
        with pytest.raises(ContestantError, match="CERTIFICATE_VERIFY_FAILED"):
            verify(stranger, workload, [1], "test")
    finally:
        nginx.stop()
    assert result.requests > 10
    assert not result.errors
    assert nginx.complaints() == []


def test_log_begins_anew_without_a_line_of_before(
    program: NginxProgram, tmp_path: Path
) -> None:
    files = build_files(tmp_path, 10)
    nginx = Nginx("log", program, static_server(files)).logging("$uri")
    nginx.configure(tmp_path)
    nginx.start()
    workload = PathWorkload(files)
    try:
        verify(nginx.address, workload, [1, 2], "test")
        settled_cpu_time(nginx.pids())
        nginx.begin_log()
        verify(nginx.address, workload, [3], "test")
    finally:
        nginx.stop()
    before = nginx.access_log.with_suffix(".before").read_text().split()
    assert before == [workload.url(1), workload.url(2)]
    assert nginx.access_log.read_text().split() == [workload.url(3)]


def test_contestant_that_reads_files_is_no_answer_from_memory(
    nginx: Nginx, tmp_path: Path
) -> None:
    workload = PathWorkload(build_files(tmp_path, 10))
    entry = Entry(nginx, workload, "static", "baseline", reads=0.001)
    outcomes = Runner([entry], Wrk(CORES[-1], 4), _PLAN, tmp_path, Quiet()).run()
    failure = outcomes["static"].failure
    assert failure is not None
    assert failure.stage == "round 1"
    assert re.fullmatch(r"\d+ answers took \d+ reads of files", failure.reason)
    answers, reads = (int(n) for n in re.findall(r"\d+", failure.reason))
    assert answers <= reads <= answers + 2 * 4


def test_missing_file_is_a_complaint(nginx: Nginx, tmp_path: Path) -> None:
    nginx.configure(tmp_path)
    nginx.start()
    files = build_files(tmp_path, 10)
    (files.directory / files.path(3)).unlink()
    with pytest.raises(ContestantError, match="status 404"):
        verify(nginx.address, PathWorkload(files), [3], "test")
    (complaint,) = nginx.complaints()
    assert "[error]" in complaint
    assert files.path(3) in complaint


def test_wrong_configuration_is_an_error(program: NginxProgram, tmp_path: Path) -> None:
    nginx = Nginx("wrong", program, "no_such_directive on;")
    nginx.configure(tmp_path)
    with pytest.raises(ContestantError, match="no_such_directive"):
        nginx.start()


def test_worker_that_dies_under_load_is_reported(nginx: Nginx, tmp_path: Path) -> None:
    class Killing(Wrk):
        """Kills the worker; the master starts another at once."""

        def run(
            self, address: Address, paths: Iterable[str], seconds: int
        ) -> LoadResult:
            (worker,) = nginx.pids()
            os.kill(worker, signal.SIGKILL)
            assert wait_for(lambda: nginx.pids() not in ({worker}, set()), 5)
            return super().run(address, paths, seconds)

    workload = PathWorkload(build_files(tmp_path, 10))
    entry = Entry(nginx, workload, "static", "baseline")
    outcomes = Runner([entry], Killing(CORES[-1], 4), _PLAN, tmp_path, Quiet()).run()
    failure = outcomes["static"].failure
    assert failure is not None
    assert failure.stage == "round 1"
    assert "has ended" in failure.reason
    assert "exited on signal 9" in failure.reason


def _descendants(pid: int) -> set[int]:
    found = set(children(pid))
    for child in list(found):
        found |= _descendants(child)
    return found


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_interrupted_run_leaves_nothing_behind(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "bench", "--table", "lookup", "--quick"),
            *("--rounds", "100", "--cache", str(tmp_path)),
        ],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    ) as process:
        # Masters and workers of the static contestants, and wrk.
        assert wait_for(lambda: len(_descendants(process.pid)) >= 7, 60)
        started = _descendants(process.pid)
        process.send_signal(number)
        assert process.wait(20) == code
    assert wait_for(lambda: not any(map(_runs, started)), 10)


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
