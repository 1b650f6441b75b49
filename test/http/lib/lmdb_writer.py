"""Another process that uses an LMDB environment, and can be killed.

As a program: ``lmdb_writer.py PATH COMMAND…``. It prints a line when it has
begun, and ends when its standard input does.

hold
    Begins a write transaction, changes much, and does not commit.
readers NUMBER
    Holds that many read transactions.
hammer NUMBER
    Rewrites the keys 0 to NUMBER - 1 without end. Their values alternate
    between ``aa/KEY.dat`` and ``bb/KEY.dat``; other keys come and go, so that
    pages are split, merged and used again.
"""

from __future__ import annotations

import random
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

MAP_SIZE = 64 * 1024 * 1024

# mdb.c of LMDB 0.9: the byte is that of mdb_env_excl_lock(), and the mutex
# follows magic and format in MDB_txninfo
_HOLD = {
    "byte": """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1)
""",
    "mutex": """
import ctypes, mmap, sys
file = open(sys.argv[1], "r+b")
table = mmap.mmap(file.fileno(), 0)
mutex = ctypes.addressof(ctypes.c_char.from_buffer(table)) + 8
assert ctypes.CDLL(None).pthread_mutex_lock(ctypes.c_void_p(mutex)) == 0
""",
}
_UNTIL_THE_END = """
print("begun", flush=True)
sys.stdin.read()
"""


class Locker:
    """A process that holds a lock of a lock file, as anybody can who may write to it.

    Args:
        lock: the file.
        kind: "byte", which LMDB waits for when it opens an environment, or
            "mutex", which it waits for when it takes a reader's slot.
    """

    def __init__(self, lock: Path, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOLD[kind] + _UNTIL_THE_END, str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == b"begun\n", f"the locker said {said!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()


class Writer:
    """That process, begun when the constructor returns.

    Args:
        path: of the environment.
        command: and its argument, see the module's text.
    """

    def __init__(self, path: Path, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(path), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == b"begun\n", f"the writer said {said!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def running(self) -> bool:
        """False once it has ended, as nobody asked it to."""
        return self._process.poll() is None

    def end(self) -> None:
        """Let it end in an orderly way.

        Raises:
            AssertionError: it had failed; its words are on stderr.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
            code = self._process.wait(60)
            self._process.stdout.close()
            assert code == 0, f"the writer ended with {code}"

    def kill(self) -> None:
        """Kill it by SIGKILL, whatever it is at."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait(60)
        self._process.stdin.close()
        self._process.stdout.close()


def _begun() -> None:
    print("begun", flush=True)


def _ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _hold(env: lmdb.Environment) -> None:
    with env.begin(write=True) as txn:
        for n in range(20_000):
            txn.put(b"%d" % n, b"changed/%d.dat" % n)
        _begun()
        sys.stdin.read()
        txn.abort()


def _readers(env: lmdb.Environment, number: int) -> None:
    held = [env.begin() for _ in range(number)]
    for txn in held:
        txn.get(b"0")
    _begun()
    sys.stdin.read()
    for txn in held:
        txn.abort()


def _hammer(env: lmdb.Environment, number: int) -> None:
    chance = random.Random(1)
    rounds = 0
    while not _ended():
        rounds += 1
        with env.begin(write=True) as txn:
            for n in range(number):
                txn.put(b"%d" % n, (b"aa/%d.dat", b"bb/%d.dat")[rounds % 2] % n)
            for n in range(200):
                key = b"filler%05d" % chance.randrange(5000)
                if chance.random() < 0.5:
                    txn.delete(key)
                else:
                    txn.put(key, b"x" * chance.randrange(1, 9000))
        if rounds == 2:
            _begun()


def main(path: str, command: str, *arguments: str) -> None:
    """Run the command line."""
    env = lmdb.open(
        path,
        subdir=Path(path).is_dir(),
        map_size=MAP_SIZE,
        max_readers=126,
        max_spare_txns=0,
        sync=False,
    )
    if command == "hold":
        _hold(env)
    elif command == "readers":
        _readers(env, int(arguments[0]))
    elif command == "hammer":
        _hammer(env, int(arguments[0]))
    else:
        raise ValueError(command)
    env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
