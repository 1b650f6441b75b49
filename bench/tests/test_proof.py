"""The proof by log accepts only what was promised."""

from pathlib import Path

import pytest

from bench import proof
from bench.model import ContestantError, Proof
from bench.proof import prove
from bench.tests.fakes import FakeContestant, FixedLoad, load_result


class _Logging(FakeContestant):
    """A stopped contestant with a log."""

    def __init__(self, log: Path, lines: list[str]) -> None:
        super().__init__("logging")
        self.configure(log.parent)
        self.access_log = log
        log.write_text("".join(f"{line}\n" for line in lines))

    def begin_log(self) -> None:
        """Empty the log."""
        self.access_log.write_text("")


def _prove(directory: Path, lines: list[str], *, status_errors: int = 0) -> Proof:
    load = FixedLoad(load_result(100, status_errors=status_errors))
    return prove(_Logging(directory / "log", lines), "lmdb HIT", load, [])


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait a minute for lines that never come."""
    monkeypatch.setattr(proof, "_FLUSH_TIMEOUT", 0.1)


@pytest.mark.parametrize("count", [100, 102])
def test_each_answer_and_those_cut_off_are_accepted(count: int, tmp_path: Path) -> None:
    result = _prove(tmp_path, ["lmdb HIT"] * count)
    assert result.requests == 100
    assert result.lines == {"lmdb HIT": count}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["lmdb HIT"] * 99, "100 answers but 99 log lines"),
        (["lmdb HIT"] * 103, "100 answers but 103 log lines"),
        (["lmdb HIT"] * 99 + ["cache HIT"], "'cache HIT': 1"),
        (["- -"] * 100, "not all requests were 'lmdb HIT'"),
    ],
)
def test_anything_else_is_refused(
    lines: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ContestantError, match=reason):
        _prove(tmp_path, lines)


def test_errors_under_load_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ContestantError, match="errors under load"):
        _prove(tmp_path, ["lmdb HIT"] * 100, status_errors=1)


def test_so_many_strays_are_accepted_and_no_more(tmp_path: Path) -> None:
    logging = _Logging(tmp_path / "log", ["yes"] * 97 + ["no"] * 3)
    load = FixedLoad(load_result(100))
    assert prove(logging, "yes", load, [], 3).lines == {"yes": 97, "no": 3}
    with pytest.raises(ContestantError, match="'no': 3"):
        prove(logging, "yes", load, [], 2)
