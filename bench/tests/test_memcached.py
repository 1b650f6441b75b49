"""A real memcached as the store, and Lua's configuration for it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.contestants import Asked, openresty
from bench.contestants.memcached import Memcached
from bench.contestants.nginx import Nginx, NginxProgram
from bench.dataset import build_files, build_store
from bench.load import Wrk
from bench.model import Address, ContestantError
from bench.process import wait_for
from bench.runner import Entry, Plan, Runner
from bench.tests.fakes import CORES, Quiet
from bench.workload import IdWorkload

_RECORDS = {str(number): f"aa/{number}.dat" for number in range(2_500)}


@pytest.fixture
def memcached(tmp_path: Path) -> Iterator[Memcached]:
    """One with 2,500 records."""
    store = Memcached(_RECORDS, CORES[-1])
    store.start(tmp_path / "memcached")
    yield store
    store.stop()


def _get(store: Memcached, keys: str) -> bytes:
    address = (store.address.host, store.address.port)
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(f"get {keys}\r\n".encode())
        answer = b""
        while not answer.endswith(b"END\r\n"):
            data = connection.recv(4096)
            assert data
            answer += data
    return answer


def test_it_has_the_records_and_counts_keys(memcached: Memcached) -> None:
    assert memcached.asked() == Asked(0, 0)
    assert _get(memcached, "0") == b"VALUE 0 0 8\r\naa/0.dat\r\nEND\r\n"
    assert _get(memcached, "2499 absent 7").count(b"VALUE") == 2
    assert memcached.asked() == Asked(4, 3)


def test_all_its_threads_share_the_loads_core(memcached: Memcached) -> None:
    (pid,) = memcached.pids()
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 4
    assert all(os.sched_getaffinity(thread) == {CORES[-1]} for thread in threads)


def test_second_start_keeps_it_running(memcached: Memcached, tmp_path: Path) -> None:
    before = memcached.pids(), memcached.address
    memcached.start(tmp_path / "memcached")
    assert (memcached.pids(), memcached.address) == before


def test_round_trip_is_a_get_on_the_workers_core(memcached: Memcached) -> None:
    own = os.sched_getaffinity(0)
    median = memcached.round_trip_us(list(_RECORDS), CORES[0], 0.1)
    assert 1 < median < 100_000
    assert os.sched_getaffinity(0) == own
    asked = memcached.asked()
    assert asked.gets == asked.hits > 200
    with pytest.raises(ContestantError, match="it has no b'absent'"):
        memcached.round_trip_us(["absent"], CORES[0], 0.1)


def test_one_that_has_ended_is_an_error(memcached: Memcached) -> None:
    (pid,) = memcached.pids()
    memcached.stop()
    assert wait_for(lambda: not Path(f"/proc/{pid}").exists(), 60)
    assert memcached.pids() == frozenset()
    with pytest.raises(ContestantError, match="no answer"):
        memcached.asked()


def test_record_that_it_does_not_take_is_an_error(tmp_path: Path) -> None:
    store = Memcached({"1": "a", "2" * 251: "b"}, CORES[-1])
    with pytest.raises(ContestantError, match="it took 1 of 2 records"):
        store.start(tmp_path / "memcached")
    assert store.pids() == frozenset()


def test_lua_module_is_for_debians_nginx_only(tmp_path: Path) -> None:
    other = NginxProgram(tmp_path / "nginx", None, CORES[0], CORES[-1])
    assert (
        openresty.missing(other)
        == "the Lua module of Debian is for /usr/sbin/nginx only"
    )


def test_lua_finds_each_file_and_keeps_its_connections(tmp_path: Path) -> None:
    program = NginxProgram(Path("/usr/sbin/nginx"), None, CORES[0], CORES[-1])
    if reason := openresty.missing(program):
        pytest.fail(reason)
    files = build_files(tmp_path, 2_000)
    ids = build_store(tmp_path, files, 2_000, 2_000)
    store = Memcached(
        {str(ids.id(i)): files.path(ids.file_index(i)) for i in range(2_000)},
        CORES[-1],
    )

    def address() -> Address:
        return store.address

    lua = Nginx(
        "lua",
        program,
        openresty.server(address, files.directory),
        others=openresty.MODULES,
    )
    entry = Entry(lua, IdWorkload(ids), "lua", "other", store=store)
    plan = Plan(
        rounds=1, seconds=1, seed=1, warm_up_requests=0, checks=50, spot_checks=5
    )
    outcomes = Runner([entry], Wrk(CORES[-1], 8), plan, tmp_path, Quiet()).run()
    assert outcomes["lua"].failure is None
    (sample,) = outcomes["lua"].samples
    assert sample.store is not None
    assert sample.store.hits >= sample.load.requests
    assert sample.store.cpu_ns > 0
    assert f"memcached -m 64 -l 127.0.0.1 -p {address().port}" in (
        outcomes["lua"].configuration
    )
