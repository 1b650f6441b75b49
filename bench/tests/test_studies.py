"""What scan and memory read from their logs and compute."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench import compiler
from bench.model import ContestantError
from bench.tables.memory import not_hit, shards_of, zone_kib
from bench.tables.scan import Counted, count_log
from bench.tests.fakes import ROOT

_MIB = 1024 * 1024


def test_hot_requests_are_counted_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "1 cache HIT\n9 lmdb MISS\n2 lmdb HIT\n1 cache HIT\n9 cache NEGATIVE\n"
    )
    counted = count_log(log, {"1", "2"}, 7)
    assert counted.hot == {"cache HIT": 2, "lmdb HIT": 1}
    assert counted.cold == {"lmdb MISS": 1, "cache NEGATIVE": 1}
    assert counted.hit_rate == pytest.approx(2 / 3)
    assert counted.reads == 7


def test_stale_and_other_sources_are_no_hits_of_the_cache() -> None:
    counts = Counter({"cache STALE": 1, "lmdb HIT": 1, "cache HIT": 2})
    assert Counted(counts, Counter(), 0).hit_rate == 0.5


def test_each_id_must_be_a_hit_every_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("1 cache HIT\n2 cache HIT\n2 lmdb HIT\n3 lmdb EXPIRED\n")
    assert not_hit(log, 4) == 3
    log.write_text("1 cache HIT\n2 cache HIT\n1 cache HIT\n")
    assert not_hit(log, 2) == 0


@pytest.mark.parametrize(
    ("mib", "shards"),
    [(1, 1), (7, 1), (8, 2), (16, 4), (127, 16), (128, 32), (999, 32)],
)
def test_shards_of_a_zone(mib: int, shards: int) -> None:
    assert shards_of(mib * _MIB) == shards


def test_zone_has_room_for_its_shards_and_for_what_nginx_keeps() -> None:
    kib = zone_kib(4 * _MIB, 32)
    each = kib * 1024 // 32
    assert each % 4096 == 0
    pages = each // 4096
    assert each - 2 * 4096 - pages * 24 - 64 >= 4 * _MIB
    assert kib * 1024 < 32 * 4 * _MIB * 1.03


def test_driver_finds_the_smallest_shards_that_keep_all(tmp_path: Path) -> None:
    program = tmp_path / "record_memory"
    pure = ROOT / "src" / "pure"
    sources = [ROOT / "bench" / "record_memory.c", *sorted(pure.glob("*.c"))]
    compiler.build(program, sources, [f"-I{pure}", "-lz", "-ljansson"])
    sizes = []
    for records in (1_000, 10_000):
        done = subprocess.run(
            [program, str(records), "2", "1", "r0lmdb:/x", "aa/bb/1.dat"],
            capture_output=True,
            text=True,
            check=True,
        )
        size, kept, packed = map(int, done.stdout.split())
        assert kept == records
        assert 11 < packed < 20
        assert size % 4096 == 0
        sizes.append(size)
    assert sizes[0] <= sizes[1] / 4
    # Less than key, value and the store's URL would be no cache of all.
    assert 2 * sizes[1] > 10_000 * (8 + 11 + 9)


def test_source_that_does_not_compile_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return nothing; }\n")
    with pytest.raises(ContestantError, match="nothing"):
        compiler.build(tmp_path / "x", [source])
