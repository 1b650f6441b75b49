"""nginx in front of other servers; programs of several processes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.ab import Ab
from bench.contestants import epoll_loop, rails, starman
from bench.contestants.nginx import Nginx, NginxProgram
from bench.contestants.single import Single
from bench.contestants.stack import Parts, Stack
from bench.cpu import settled_cpu_time
from bench.dataset import FileSet, build_files
from bench.model import Address, ContestantError
from bench.process import descendants, still, wait_for
from bench.tests.fakes import CORES
from bench.tests.reach import let_all_reach
from bench.verify import verify
from bench.workload import OneWorkload, PathWorkload

_HELLO = OneWorkload("/", b"hello\n")


@pytest.fixture
def program() -> NginxProgram:
    """The installed nginx."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None
    return NginxProgram(Path(found), None, CORES[0], CORES[-1])


def _stack(program: NginxProgram, kept: bool) -> Stack:
    def parts() -> Parts:
        back = epoll_loop.backend("backend", CORES[-1], "1.1", b"hello\n")
        keep = "keepalive 4;" if kept else ""

        def upstream() -> str:
            host, port = back.address.host, back.address.port
            return f"upstream backend {{\nserver {host}:{port};\n{keep}\n}}\n"

        server = (
            "location / {\nproxy_pass http://backend;\nproxy_http_version 1.1;\n"
            'proxy_set_header Connection "";\n}\n'
        )
        return Nginx("front", program, server, http=upstream), [back]

    return Stack("stack", parts)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A contestant's own directory, with a path that sockets can have."""
    with TemporaryDirectory(prefix="b", dir="/tmp") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.mark.parametrize("kept", [True, False])
def test_backend_tells_whether_its_connection_was_kept(
    kept: bool, program: NginxProgram, directory: Path
) -> None:
    stack = _stack(program, kept).logging("$upstream_http_x_kept")
    stack.configure(directory)
    stack.start()
    try:
        verify(stack.address, _HELLO, [0], "test")
        assert len(stack.pids()) == 2
        settled_cpu_time(stack.pids())
        stack.begin_log()
        result = Ab(CORES[-1], 1, 20, keep_alive=True).run(stack.address, ["/"], 1)
        assert result.requests == 20
        assert not result.errors
        pids = stack.pids()
    finally:
        stack.stop()
    word = "yes" if kept else "no"
    assert stack.access_log.read_text().split() == [word] * 20
    assert stack.complaints() == []
    assert stack.pids() == frozenset()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    text = stack.configuration()
    assert "upstream backend" in text
    assert "# epoll_loop" in text


def test_backend_that_is_gone_is_a_complaint_of_nginx(
    program: NginxProgram, directory: Path
) -> None:
    stack = _stack(program, True)
    stack.configure(directory)
    stack.start()
    try:
        back = next(p for p in stack.pids() if "epoll_loop" in _command(p))
        os.kill(back, 9)
        with pytest.raises(ContestantError, match="status 502"):
            verify(stack.address, _HELLO, [0], "test")
        assert len(stack.pids()) == 1
    finally:
        stack.stop()
    (complaint,) = stack.complaints()
    assert "[error]" in complaint


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


# A server that starts others: one with a session of its own, which does not
# end with it.
_FAMILY = """
import http.server, subprocess, sys
child = [sys.executable, "-c", "import signal; signal.pause()"]
for session in (False, True):
    subprocess.Popen(child, start_new_session=session)
http.server.HTTPServer(
    ("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler
).serve_forever()
"""


def _family(processes: int) -> Single:
    def argv(address: Address, directory: Path) -> list[str]:
        return [sys.executable, "-c", _FAMILY, str(address.port)]

    return Single(
        "family",
        CORES[0],
        argv=argv,
        configuration=lambda address, directory: "",
        complaints=lambda lines: lines,
        processes=processes,
    )


def test_all_that_a_program_starts_counts_and_is_ended(directory: Path) -> None:
    family = _family(3)
    family.configure(directory)
    family.start()
    pids = family.pids()
    assert len(pids) == 3
    family.stop()
    assert wait_for(lambda: not any(map(_runs, pids)), 60)


def test_other_number_of_processes_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.contestants.single._ALL_TIMEOUT", 1.0)
    family = _family(4)
    family.configure(directory)
    with pytest.raises(ContestantError, match="has 3 processes, not 4"):
        family.start()
    assert family.pids() == frozenset()


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_helper_of_a_moment_is_none_of_the_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([frozenset({1, 2, 3}), frozenset({1, 2})])
    assert still(lambda: next(looks), frozenset({1, 2}))
    monkeypatch.setattr("bench.process._HELPER_TIMEOUT", 0.05)
    assert not still(lambda: frozenset({1}), frozenset({1, 2}))
    assert not still(lambda: frozenset({1, 2, 3}), frozenset({1, 2}))


def test_process_that_ended_has_no_descendants() -> None:
    assert descendants(2**22 - 1) == frozenset()


@pytest.fixture
def files(tmp_path: Path) -> FileSet:
    """Ten files that all may read."""
    let_all_reach(tmp_path)
    return build_files(tmp_path / "data", 10)


def test_starman_answers(directory: Path) -> None:
    assert starman.missing() is None
    server = starman.starman("starman", CORES[0], 3, "hello")
    server.configure(directory)
    server.start()
    try:
        verify(server.address, OneWorkload("/", b"hello"), [0, 0, 0], "test")
        assert len(server.pids()) == 4
    finally:
        server.stop()
    assert server.complaints() == []


@pytest.mark.parametrize("kind", ["puma", "passenger", "xsendfile"])
def test_rails_sends_files(kind: str, files: FileSet, directory: Path) -> None:
    assert (rails.puma_missing() or rails.passenger_missing("xsendfile")) is None
    environment = {"BENCH_FILES": str(files.directory)}
    if kind == "puma":
        server = rails.puma("rails", CORES[0], lambda: environment)
    elif kind == "passenger":
        server = rails.passenger("rails", CORES[0], lambda: environment)
    else:
        environment["BENCH_SENDFILE_HEADER"] = "X-Sendfile"
        server = rails.passenger(
            "rails",
            CORES[0],
            lambda: environment,
            modules=("xsendfile",),
            extra=f'XSendFile On\nXSendFilePath "{files.directory}"\n',
        )
    server.configure(directory)
    server.start()
    try:
        pids = server.pids()
        workload = PathWorkload(files, "/download/")
        verify(server.address, workload, range(10), "test")
        assert server.pids() == pids
    finally:
        server.stop()
    assert server.complaints() == []
    assert not any(map(_runs, pids))
