"""No path costs more instructions than bench/cost.json says.

A path that has become dearer on purpose, or cheaper, is measured anew by
``make bench TABLE=cost``, which writes that file.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench import counts
from bench.contestants.nginx import DEBIAN, NginxProgram
from bench.model import ContestantError
from bench.tables import Setting, cost
from bench.tables.cost import FIRST, THEN, TOLERANCE, Way
from bench.tests.fakes import CORES, ROOT

NAMES = sorted(cost.kept())

# instructions that all counters together may add to a hit
COUNTERS = 150


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Way]]:
    """All ways of a request, and what they need."""
    build = ROOT / "build"
    module = build / "ngx_http_sendfile_module.so"
    program = NginxProgram(DEBIAN, module, CORES[0], CORES[-1])
    # of its own for each of pytest's workers, that may make it at the same time
    cache = build / "bench-tests" / os.environ.get("PYTEST_XDIST_WORKER", "main")
    cache.mkdir(parents=True, exist_ok=True)
    setting = Setting(program, None, cache, True, lambda text: None)
    with cost.ways(setting, tmp_path_factory.mktemp("cost")) as found:
        yield {way.name: way for way in found}


def measure(way: Way, directory: Path) -> float:
    assert way.missing is None
    directory.mkdir()
    return counts.steady(way.task, directory, FIRST, THEN)


def test_each_way_is_kept(ways: Mapping[str, Way]) -> None:
    assert sorted(ways) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_way_has_become_dearer(
    ways: Mapping[str, Way], name: str, tmp_path: Path
) -> None:
    measured = measure(ways[name], tmp_path / name)
    limit = cost.kept()[name] * (1 + TOLERANCE)
    assert measured <= limit, (
        f"{name}: {measured:.0f} instructions a request, {cost.kept()[name]} are kept:"
        " make it cheaper, or run make bench TABLE=cost"
    )


def test_counting_is_within_its_budget(ways: Mapping[str, Way], tmp_path: Path) -> None:
    """What a status location adds to a hit, its sample of IDs included."""
    way = ways["record"]
    counted = replace(way, task=replace(way.task, nginx=way.task.nginx.counting()))
    added = measure(counted, tmp_path / "on") - measure(way, tmp_path / "off")
    assert 0 < added <= COUNTERS, f"{added:.0f} instructions"


@pytest.mark.parametrize("name", ["lmdb-root", "body"])
def test_two_runs_agree(ways: Mapping[str, Way], name: str, tmp_path: Path) -> None:
    one, two = (measure(ways[name], tmp_path / run) for run in ("one", "two"))
    assert one == pytest.approx(two, rel=0.005)


def test_a_wrong_answer_is_no_measurement(
    ways: Mapping[str, Way], tmp_path: Path
) -> None:
    way = ways["static"]
    wrong = counts.Task(way.task.nginx, way.task.program, ["/files/none"])
    with pytest.raises(ContestantError, match="/files/none: 404"):
        counts.calls(wrong, tmp_path, 2, 2)


def test_system_calls_of_an_answer_from_memory(
    ways: Mapping[str, Way], tmp_path: Path
) -> None:
    """What is in memory is read from no file."""
    calls = counts.calls(ways["body"].task, tmp_path, FIRST, THEN)
    assert calls.pop("recvfrom") == pytest.approx(1, abs=0.1)
    assert calls.pop("writev") == pytest.approx(1, abs=0.1)
    assert calls.pop("epoll_wait") <= 1.1
    assert sum(calls.values()) < 0.05
