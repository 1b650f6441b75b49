"""Writing LMDB stores."""

from __future__ import annotations

import json
from pathlib import Path

import lmdb

MAP_SIZE = 64 * 1024 * 1024


class LmdbStore:
    """An LMDB environment that the test writes and nginx reads.

    The writer opens it once and keeps it open until ``close``: the same
    environment must never be opened twice in one process.

    Args:
        path: a directory, made here; the file itself with ``subdir`` False.
        subdir: a directory with data.mdb and lock.mdb, else one file.
        map_size: bytes.
    """

    def __init__(
        self, path: Path, subdir: bool = True, map_size: int = MAP_SIZE
    ) -> None:
        self.path = path
        self.lock = path / "lock.mdb" if subdir else Path(f"{path}-lock")
        self.data = path / "data.mdb" if subdir else path
        if subdir:
            path.mkdir(mode=0o755)
        self._env: lmdb.Environment | None = lmdb.open(
            str(path), map_size=map_size, subdir=subdir, sync=False, mode=0o644
        )
        # a reader registers itself in the lock file: workers write to it
        self.lock.chmod(0o666)

    @property
    def env(self) -> lmdb.Environment:
        """The open environment."""
        assert self._env is not None, "the store is closed"
        return self._env

    def put(self, key: int | str | bytes, value: object) -> None:
        """Store a value: bytes and str as they are, anything else as JSON."""
        if isinstance(value, str):
            value = value.encode()
        elif not isinstance(value, bytes):
            value = json.dumps(value, ensure_ascii=False).encode()
        with self.env.begin(write=True) as txn:
            txn.put(_key(key), value)

    def delete(self, key: int | str | bytes) -> None:
        """Remove a key."""
        with self.env.begin(write=True) as txn:
            assert txn.delete(_key(key)), f"no such key: {key!r}"

    def close(self) -> None:
        """Close the environment; may be called again."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _key(key: int | str | bytes) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()
