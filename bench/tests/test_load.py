"""wrk asks for what it is told and its figures are read."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.load import Wrk, ask_all, parse_wrk
from bench.model import Address, BenchError, ContestantError, LoadResult
from bench.tests.fakes import CORES, FakeContestant, FixedLoad, load_result


def test_wrk_requests_the_paths_in_order_and_over_again(tmp_path: Path) -> None:
    contestant = FakeContestant("server")
    contestant.configure(tmp_path)
    contestant.start()
    try:
        paths = [f"/{n}" for n in (7, 3, 3, 250, 1)]
        result = Wrk(CORES[-1], 1).run(contestant.address, paths, 1)
    finally:
        contestant.stop()
    asked = contestant.requests_log.read_text().split()
    expected = [paths[i % 5] for i in range(len(asked))]
    assert asked == expected
    assert result.requests <= len(asked) <= result.requests + 1
    assert result.requests > 10
    assert not result.errors
    assert 0.9 < result.seconds < 30
    told = [result.latency_p50_us, result.latency_p99_us, result.latency_max_us]
    known = [value for value in told if value is not None]
    assert len(known) == 3
    assert 0 < known[0]
    assert known == sorted(known)


def test_second_thread_begins_in_the_middle(tmp_path: Path) -> None:
    contestant = FakeContestant("server")
    contestant.configure(tmp_path)
    contestant.start()
    try:
        paths = [f"/{n}" for n in range(100_000, 200_000)]
        cores = (CORES[0], CORES[-1])
        result = Wrk(cores, 2).run(contestant.address, paths, 1)
    finally:
        contestant.stop()
    asked = [int(path[1:]) for path in contestant.requests_log.read_text().split()]
    first = [n for n in asked if n < 150_000]
    second = [n for n in asked if n >= 150_000]
    assert first == list(range(100_000, 100_000 + len(first)))
    assert second == list(range(150_000, 150_000 + len(second)))
    assert min(len(first), len(second)) > 50
    assert result.requests <= len(asked) <= result.requests + 2


class _Slow(FixedLoad):
    """Answers so many requests of each run; keeps what it was asked for."""

    def __init__(self, speed: int) -> None:
        super().__init__(load_result(speed))
        self.runs: list[tuple[str, ...]] = []

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        self.runs.append(tuple(paths))
        return super().run(address, [], seconds)


def test_next_run_begins_a_little_before_the_end_of_the_last() -> None:
    load = _Slow(400)
    paths = [f"/{n}" for n in range(1_000)]
    starts = [start for start, _ in ask_all(load, Address("", 0), paths)]
    # 8 turns of 2 connections.
    assert starts == [0, 384, 768]
    assert load.runs == [tuple(paths[start:]) for start in starts]


def test_server_that_is_too_slow_to_be_asked_for_all_is_refused() -> None:
    load = _Slow(17)
    paths = [f"/{n}" for n in range(1_000)]
    with pytest.raises(ContestantError, match="of 1,000 requests were made"):
        list(ask_all(load, Address("", 0), paths))


def test_result_is_read_from_among_other_output() -> None:
    line = (
        'wrk-result {"requests":5,"bytes":600,"seconds":1.5,"connect_errors":1,'
        '"read_errors":2,"write_errors":0,"status_errors":4,"timeouts":0,'
        '"latency_mean_us":1,"latency_p50_us":1,"latency_p99_us":1,'
        '"latency_max_us":1}'
    )
    result = parse_wrk(f"Running 1s test\n{line}\nRequests/sec: 5\n", 0)
    assert result.requests == 5
    assert result.seconds == 1.5
    assert result.errors == {"connect": 1, "read": 2, "status": 4}


def test_output_without_result_is_an_error() -> None:
    with pytest.raises(BenchError, match="unable to connect"):
        parse_wrk("unable to connect to 127.0.0.1:1 Connection refused\n", 1)
