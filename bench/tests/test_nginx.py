"""A real nginx as a contestant, and interrupted runs."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bench.contestants.nginx import Nginx, NginxProgram
from bench.dataset import build_files
from bench.load import Wrk
from bench.model import Address, ContestantError, LoadResult
from bench.process import children, wait_for
from bench.runner import Entry, Plan, Runner
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
