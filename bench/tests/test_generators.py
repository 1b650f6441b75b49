"""ab and httperf ask for what they are told, and their figures are read."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bench.ab import Ab, parse_ab
from bench.contestants.lighttpd import lighttpd
from bench.contestants.single import Single
from bench.dataset import FileSet, build_files
from bench.httperf import Httperf, parse_httperf
from bench.load import LoadGenerator
from bench.model import Address, ContestantError, LoadResult
from bench.process import free_address
from bench.runner import Entry, Plan, Runner
from bench.tests.body import Numbers
from bench.tests.fakes import CORES, FakeContestant, Quiet

_PLAN = Plan(rounds=1, seconds=1, seed=1, warm_up_requests=0, checks=20, spot_checks=5)


def _loads() -> list[LoadGenerator]:
    return [
        Ab(CORES[-1], 5, 200, keep_alive=True),
        Ab(CORES[-1], 5, 200, keep_alive=False),
        Httperf(CORES[-1], 20, 10),
    ]


@pytest.fixture
def files(tmp_path: Path) -> FileSet:
    """One file."""
    return build_files(tmp_path / "data", 1)


@pytest.fixture
def server(files: FileSet, tmp_path: Path) -> Iterator[Single]:
    """lighttpd, which serves it."""
    contestant = lighttpd("light", CORES[0], files.directory, 1_000, "simple")
    directory = tmp_path / "light"
    directory.mkdir()
    contestant.configure(directory)
    contestant.start()
    yield contestant
    contestant.stop()


@pytest.mark.parametrize("number", range(3))
def test_requests_and_bytes_of_bodies_are_counted(
    number: int, server: Single, files: FileSet
) -> None:
    load = _loads()[number]
    result = load.run(server.address, [f"/files/{files.path(0)}"], 1)
    assert result.requests == 200
    assert result.bytes == 200 * files.sizes[0]
    assert not result.heads
    assert not result.errors
    assert 0 < result.seconds < 100
    assert 0 <= result.latency_mean_us < 1e7
    told = [result.latency_p50_us, result.latency_p99_us, result.latency_max_us]
    known = [value for value in told if value is not None]
    # httperf tells none of them.
    assert len(known) == (0 if isinstance(load, Httperf) else 3)
    assert known == sorted(known)
    assert "-n" in load.version()


@pytest.mark.parametrize("number", range(3))
def test_status_is_an_error(number: int, server: Single) -> None:
    result = _loads()[number].run(server.address, ["/files/absent"], 1)
    assert result.errors == {"status": 200}


@pytest.mark.parametrize("number", range(3))
def test_nobody_listens(number: int) -> None:
    load = _loads()[number]
    try:
        result = load.run(free_address(), ["/"], 1)
    except ContestantError as error:
        assert error.stage in ("ab", "httperf")
    else:
        assert result.errors


@pytest.mark.parametrize("fault", ["status", "length-too-short", "die", "close"])
@pytest.mark.parametrize("tool", ["ab", "httperf"])
def test_contestant_that_fails_is_reported(
    tool: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class One(Numbers):
        """The same request always, as these tools ask for one path."""

        def url(self, index: int) -> str:
            return super().url(7)

        def body(self, index: int) -> bytes:
            return super().body(7)

        def size(self, index: int) -> int:
            return super().size(7)

    monkeypatch.setattr("bench.ab._PATIENCE", 1)
    load: LoadGenerator = Httperf(CORES[-1], 20, 10)
    if tool == "ab":
        load = Ab(CORES[-1], 2, 200, keep_alive=True)
    contestant = FakeContestant("bad", fault, after=_PLAN.checks + 50)
    entry = Entry(contestant, One(), "bad", "ours", load=load)
    outcome = Runner([entry], _Never(), _PLAN, tmp_path, Quiet()).run()["bad"]
    assert outcome.failure is not None
    assert outcome.failure.stage in ("round 1", tool)
    assert outcome.samples == []


class _Never:
    """The table's own load generator, which an entry's replaces."""

    connections = 1

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Must not be called."""
        raise AssertionError

    def version(self) -> str:
        """Return a name."""
        return "never"


_AB = """\
Time taken for tests:   0.032 seconds
Complete requests:      2000
Keep-Alive requests:    1990
Failed requests:        30
   (Connect: 1, Receive: 2, Length: 20, Exceptions: 7)
Write errors:           3
Non-2xx responses:      5
Total transferred:      10482000 bytes
HTML transferred:       10000000 bytes
Requests per second:    50000.00 [#/sec] (mean)
Time per request:       0.158 [ms] (mean)
Time per request:       0.020 [ms] (mean, across all concurrent requests)
"""


def test_report_of_ab_is_read() -> None:
    percentiles = "Percentage served,Time in ms\n0,0.1\n50,0.2\n99,0.3\n100,4.5\n"
    result = parse_ab(_AB, percentiles, 0, keep_alive=True)
    assert (result.requests, result.bytes) == (2000, 10_000_000)
    assert result.seconds == pytest.approx(0.04)
    assert result.errors == {"connect": 1, "read": 29, "write": 3, "status": 5}
    assert result.latency_mean_us == pytest.approx(158)
    assert result.latency_p50_us == pytest.approx(200)
    assert result.latency_p99_us == pytest.approx(300)
    assert result.latency_max_us == pytest.approx(4_500)


@pytest.mark.parametrize(("output", "code"), [("", 0), (_AB, 1)])
def test_ab_that_gave_up_blames_the_contestant(output: str, code: int) -> None:
    with pytest.raises(ContestantError, match="gave up with exit code"):
        parse_ab(output, "", code, keep_alive=False)


def test_connections_that_were_not_kept_are_a_failure() -> None:
    whole = _AB.replace("Connect: 1, Receive: 2", "Connect: 0, Receive: 0")
    assert parse_ab(whole, "", 0, keep_alive=True).requests == 2000
    closed = whole.replace("1990", "1700")
    with pytest.raises(ContestantError, match="only 1700 of 2000 answers left"):
        parse_ab(closed, "", 0, keep_alive=True)
    assert parse_ab(closed, "", 0, keep_alive=False).requests == 2000


_HTTPERF = """\
Total: connections 20 requests 196 replies 190 test-duration 0.500 s
Reply time [ms]: response 0.2 transfer 0.3
Reply size [B]: header 241.0 content 5000.0 footer 0.0 (total 5241.0)
Reply status: 1xx=0 2xx=180 3xx=4 4xx=6 5xx=0
Errors: total 5 client-timo 1 socket-timo 0 connrefused 2 connreset 2
"""


def test_report_of_httperf_is_read() -> None:
    result = parse_httperf(_HTTPERF, 0, 200)
    assert (result.requests, result.bytes) == (190, 950_000)
    assert result.seconds == pytest.approx(0.5)
    # Seven of ten have no answer for another reason than those given.
    assert result.errors == {"connect": 2, "read": 7, "status": 10, "timeout": 1}
    assert result.latency_mean_us == pytest.approx(500)
    assert result.latency_p50_us is result.latency_p99_us is None


@pytest.mark.parametrize(("output", "code"), [("", 0), (_HTTPERF, 1)])
def test_httperf_that_gave_up_blames_the_contestant(output: str, code: int) -> None:
    with pytest.raises(ContestantError, match="gave up with exit code"):
        parse_httperf(output, code, 200)
