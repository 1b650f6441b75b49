"""wrk asks for what it is told and its figures are read."""

from pathlib import Path

import pytest

from bench.load import Wrk, parse_wrk
from bench.model import BenchError
from bench.tests.fakes import CORES, FakeContestant


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
    # wrk builds one request as a test before it starts.
    expected = [paths[(i + 1) % 5] for i in range(len(asked))]
    assert asked == expected
    assert result.requests <= len(asked) <= result.requests + 1
    assert result.requests > 100
    assert not result.errors
    assert 0.9 < result.seconds < 1.5
    assert 0 < result.latency_p50_us <= result.latency_p99_us <= result.latency_max_us


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
