"""The files that are served and the LMDB stores that point at them.

Both are built once below a cache directory. IDs are numbers of eight digits
from 10,000,000 on, so that numeric order is LMDB's key order and requests for
one ID of a thousand and for one of ten million are equally long.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lmdb

from bench.model import BenchError

FIRST_ID = 10_000_000
ID_SPAN = 10_000_000
FILE_COUNT = 20_000
MIN_SIZE = 1_000
MAX_SIZE = 9_000
_LAYOUT = 1
_SEED = 20_000


def nth_id(index: int, count: int) -> int:
    """Return the ID number ``index`` of ``count`` IDs spread over the span.

    Args:
        index: 0 to count - 1.
        count: how many IDs there are; divides ten million.
    """
    return FIRST_ID + index * (ID_SPAN // count)


@dataclass(frozen=True)
class FileSet:
    """Files of known sizes that each begin with their own ID."""

    directory: Path
    sizes: tuple[int, ...]
    filler: bytes

    def id(self, index: int) -> int:
        """Return the ID of a file by its number."""
        return nth_id(index, len(self.sizes))

    def path(self, index: int) -> str:
        """Return a file's path below the directory: aa/bb/ID.dat."""
        name = str(self.id(index))
        digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
        return f"{digest[0] & 15:02x}/{digest[1] & 15:02x}/{name}.dat"

    def body(self, index: int) -> bytes:
        """Return a file's exact content."""
        head = b"%d\n" % self.id(index)
        start = index % 1_000
        return head + self.filler[start : start + self.sizes[index] - len(head)]

    def all(self) -> list[Path]:
        """Return where each file lies."""
        return [self.directory / self.path(i) for i in range(len(self.sizes))]


def build_files(cache: Path, count: int = FILE_COUNT) -> FileSet:
    """Return the files, writing them first unless they are there.

    Args:
        cache: directory that keeps the data sets.
        count: how many files; divides ten million.
    """
    source = random.Random(_SEED)
    filler = source.randbytes(MAX_SIZE + 1_000)
    sizes = tuple(source.randint(MIN_SIZE, MAX_SIZE) for _ in range(count))
    files = FileSet(cache / f"files-{count}", sizes, filler)
    _write_files(files, {"layout": _LAYOUT, "count": count, "seed": _SEED})
    return files


def build_equal_files(cache: Path, count: int, size: int) -> FileSet:
    """Return files of one size, writing them first unless they are there.

    Args:
        cache: directory that keeps the data sets.
        count: how many files; divides ten million.
        size: of each, in bytes; at least 1,000.
    """
    filler = random.Random(_SEED).randbytes(size + 1_000)
    files = FileSet(cache / f"files-{count}-of-{size}", (size,) * count, filler)
    _write_files(files, {"layout": _LAYOUT, "count": count, "size": size})
    return files


def _write_files(files: FileSet, recipe: dict[str, int]) -> None:
    if _is_complete(files.directory, recipe):
        return
    fresh = _fresh_directory(files.directory)
    for index in range(len(files.sizes)):
        path = fresh / files.path(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.body(index))
    _complete(fresh, files.directory, recipe)


@dataclass(frozen=True)
class IdStore:
    """An LMDB environment from ID (decimal text) to a path of a FileSet.

    ID number i of ``ids`` points at file number i * used // ids * stride:
    neighbours share a file, and one random fraction of the IDs picks the same
    file in stores of any size that use the same files.
    """

    directory: Path
    files: FileSet
    ids: int
    used: int

    def id(self, index: int) -> int:
        """Return an ID by its number."""
        return nth_id(index, self.ids)

    def file_index(self, index: int) -> int:
        """Return the number of the file that an ID points at."""
        return index * self.used // self.ids * (len(self.files.sizes) // self.used)


def build_store(cache: Path, files: FileSet, ids: int, used: int) -> IdStore:
    """Return a store, writing it first unless it is there.

    Keys are appended in order, which fills each page and never searches.

    Args:
        cache: directory that keeps the data sets.
        files: what the IDs point at.
        ids: how many IDs; divides ten million.
        used: how many of the files are pointed at; divides their number.
    """
    kind = files.directory.name.partition("-of-")[2]
    name = f"ids-{ids}-files-{used}{kind and f'-of-{kind}'}.lmdb"
    store = IdStore(cache / name, files, ids, used)
    recipe = {
        "layout": _LAYOUT,
        "ids": ids,
        "used": used,
        "files": len(files.sizes),
    }
    if not _is_complete(store.directory, recipe):
        fresh = _fresh_directory(store.directory)
        _write_store(fresh, store)
        _complete(fresh, store.directory, recipe)
    return store


def _write_store(directory: Path, store: IdStore) -> None:
    paths = [
        store.files.path(index * (len(store.files.sizes) // store.used)).encode()
        for index in range(store.used)
    ]

    def records() -> Iterator[tuple[bytes, bytes]]:
        for index in range(store.ids):
            yield b"%d" % store.id(index), paths[index * store.used // store.ids]

    size = 64 * 1024 * 1024 + store.ids * 96
    with lmdb.open(str(directory), map_size=size, sync=False, lock=False) as env:
        with env.begin(write=True) as txn:
            consumed, added = txn.cursor().putmulti(records(), append=True)
        if consumed != store.ids or added != store.ids:
            raise BenchError(f"LMDB took {added} of {store.ids} records")
        env.sync(True)
    # The lock file belongs to this process's user; readers make their own.
    (directory / "lock.mdb").unlink(missing_ok=True)


def _fresh_directory(final: Path) -> Path:
    fresh = final.with_name(final.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    return fresh


def _is_complete(directory: Path, recipe: dict[str, int]) -> bool:
    try:
        found = json.loads((directory / "recipe.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return bool(found == recipe)


def _complete(fresh: Path, final: Path, recipe: dict[str, int]) -> None:
    (fresh / "recipe.json").write_text(json.dumps(recipe))
    shutil.rmtree(final, ignore_errors=True)
    os.rename(fresh, final)
