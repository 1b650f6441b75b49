"""Files and stores."""

from pathlib import Path

import lmdb

from bench.dataset import build_files, build_store
from bench.workload import IdWorkload, PathWorkload, covering_indexes, random_indexes


def test_each_file_begins_with_its_own_id(tmp_path: Path) -> None:
    files = build_files(tmp_path, 200)
    written = list(files.directory.glob("*/*/*.dat"))
    assert len(written) == 200
    for index in range(200):
        content = (files.directory / files.path(index)).read_bytes()
        assert content == files.body(index)
        assert content.startswith(b"%d\n" % files.id(index))
        assert files.path(index).endswith(f"/{files.id(index)}.dat")
        assert 1_000 <= len(content) == files.sizes[index] <= 9_000


def test_store_has_every_id_in_order_and_points_at_its_files(tmp_path: Path) -> None:
    files = build_files(tmp_path, 200)
    store = build_store(tmp_path, files, ids=1_000, used=20)
    with (
        lmdb.open(str(store.directory), readonly=True, lock=False) as env,
        env.begin() as txn,
    ):
        records = list(txn.cursor())
    assert len(records) == 1_000
    for index, (key, value) in enumerate(records):
        assert key == b"%d" % store.id(index)
        assert value.decode() == files.path(store.file_index(index))
    assert len({value for _, value in records}) == 20
    assert not (store.directory / "lock.mdb").exists()


def test_data_is_built_once(tmp_path: Path) -> None:
    files = build_files(tmp_path, 10)
    store = build_store(tmp_path, files, 10, 10)
    before = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))]
    build_store(tmp_path, build_files(tmp_path, 10), 10, 10)
    after = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))]
    assert store.directory.is_dir()
    assert before == after


def test_half_built_data_is_built_anew(tmp_path: Path) -> None:
    files = build_files(tmp_path, 10)
    (files.directory / "recipe.json").unlink()
    (files.directory / files.path(3)).unlink()
    build_files(tmp_path, 10)
    assert (files.directory / files.path(3)).read_bytes() == files.body(3)


def test_one_seed_asks_all_contestants_for_the_same_files(tmp_path: Path) -> None:
    files = build_files(tmp_path, 200)
    paths = PathWorkload(files)
    ids = IdWorkload(build_store(tmp_path, files, 200, 200))
    few = IdWorkload(build_store(tmp_path, files, 20, 20))
    many = IdWorkload(build_store(tmp_path, files, 2_000, 20))

    def bodies(workload: IdWorkload | PathWorkload) -> list[bytes]:
        return [workload.body(i) for i in random_indexes(workload, 7, 50)]

    assert bodies(paths) == bodies(ids)
    assert bodies(few) == bodies(many)
    assert {len(many.url(i)) for i in range(2_000)} == {len(few.url(0))}


def test_warm_up_asks_for_everything_or_evenly(tmp_path: Path) -> None:
    files = build_files(tmp_path, 200)
    workload = PathWorkload(files)
    assert sorted(covering_indexes(workload, 1, 500)) == list(range(200))
    assert sorted(covering_indexes(workload, 1, 100)) == list(range(0, 200, 2))
