"""lighttpd and the epoll loop as contestants."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.contestants import epoll_loop, lighttpd
from bench.contestants.single import Single
from bench.dataset import FileSet, build_files, build_store
from bench.load import Wrk
from bench.model import ContestantError
from bench.tests.fakes import CORES
from bench.verify import verify
from bench.workload import FixedWorkload, IdWorkload, PathWorkload

Starter = Callable[[Single], Single]


@pytest.fixture
def files(tmp_path: Path) -> FileSet:
    """Ten files."""
    return build_files(tmp_path / "data", 10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start contestants; they are stopped at the end."""
    started: list[Single] = []

    def starter(contestant: Single) -> Single:
        directory = tmp_path / contestant.name
        directory.mkdir()
        contestant.configure(directory)
        started.append(contestant)
        contestant.start()
        return contestant

    yield starter
    for contestant in started:
        contestant.stop()


@pytest.mark.parametrize("stat_cache", ["simple", "inotify"])
def test_lighttpd_serves_the_files_on_its_core(
    stat_cache: str, files: FileSet, start: Starter
) -> None:
    assert lighttpd.missing() is None
    server = start(
        lighttpd.lighttpd("light", CORES[0], files.directory, 1_000, stat_cache)
    )
    verify(server.address, PathWorkload(files), range(10), "test")
    (pid,) = server.pids()
    assert os.sched_getaffinity(pid) == {CORES[0]}
    assert f'"{stat_cache}"' in server.configuration()
    server.stop()
    assert server.complaints() == []
    assert server.pids() == frozenset()


def test_lighttpd_that_is_misconfigured_is_an_error(
    files: FileSet, start: Starter
) -> None:
    server = lighttpd.lighttpd("light", CORES[0], files.directory, 1_000, "nonsense")
    with pytest.raises(ContestantError, match="light did not start"):
        start(server)


def test_loop_with_one_answer_gives_it_to_all(files: FileSet, start: Starter) -> None:
    body = b"x" * 5_000
    loop = start(epoll_loop.epoll_loop("loop", CORES[0], lambda: [body], "one"))
    workload = FixedWorkload(PathWorkload(files), body)
    verify(loop.address, workload, range(10), "test")
    result = Wrk(CORES[-1], 16).run(loop.address, ["/a", "/b"], 1)
    assert not result.errors
    assert result.bytes / result.requests == pytest.approx(
        len(epoll_loop.answer(body)), rel=0.01
    )
    assert loop.complaints() == []


@pytest.mark.parametrize("sendfile", [False, True])
def test_loop_with_all_answers_gives_each_id_its_own(
    files: FileSet, start: Starter, tmp_path: Path, sendfile: bool
) -> None:
    store = build_store(tmp_path / "data", files, 10, 10)
    bodies = [files.body(i) for i in range(10)]
    loop = start(
        epoll_loop.epoll_loop(
            "loop", CORES[0], lambda: bodies, "all", sendfile=sendfile
        )
    )
    verify(loop.address, IdWorkload(store), range(10), "test")


def test_loop_takes_requests_in_pieces_and_in_a_row(start: Starter) -> None:
    loop = start(epoll_loop.epoll_loop("loop", CORES[0], lambda: [b"hi"], "one"))
    expected = epoll_loop.answer(b"hi")
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_connection((loop.address.host, loop.address.port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(60)
        stream = client.makefile("rb")
        for byte in request:
            client.sendall(bytes([byte]))
        assert stream.read(len(expected)) == expected
        client.sendall(request * 3)
        assert stream.read(3 * len(expected)) == 3 * expected


@pytest.mark.parametrize("sendfile", [False, True])
def test_loop_sends_an_answer_larger_than_the_socket_takes(
    start: Starter, sendfile: bool
) -> None:
    body = b"y" * 20_000_000
    loop = start(
        epoll_loop.epoll_loop(
            "loop", CORES[0], lambda: [body], "one", sendfile=sendfile
        )
    )
    expected = epoll_loop.answer(body)
    with socket.create_connection((loop.address.host, loop.address.port)) as client:
        client.settimeout(60)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n" * 2)
        stream = client.makefile("rb")
        assert stream.read(2 * len(expected)) == 2 * expected


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET /file/99999999 HTTP/1.1\r\n\r\n", b"G\r\n\r\n", b"x" * 5_000],
)
def test_loop_closes_what_it_does_not_know(
    request_bytes: bytes, start: Starter
) -> None:
    bodies = [b"one", b"two"]
    loop = start(epoll_loop.epoll_loop("loop", CORES[0], lambda: bodies, "two"))
    with socket.create_connection((loop.address.host, loop.address.port)) as client:
        client.settimeout(60)
        client.sendall(request_bytes)
        try:
            assert client.recv(100) == b""
        except ConnectionResetError:
            pass
    assert len(loop.pids()) == 1
