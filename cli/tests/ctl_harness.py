"""The program in a process of its own, and what looks at its stores."""

from __future__ import annotations

import io
import json
import os
import pickle
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from sendfilectl.app import app
from sendfilectl.errors import CtlError

T = TypeVar("T")

PROGRAM = [sys.executable, "-m", "sendfilectl"]
# seconds: what hangs takes longer, what a busy machine delays does not
TIMEOUT = 120.0
NOBODY = 65534


class Ctl:
    """Runs sendfilectl on one store.

    Args:
        path: where the store is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"lmdb:{path}"

    def __call__(
        self, command: str, *args: str | bytes, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the store and waits for it."""
        return run(command, self.url, *args, **options)

    def do(self, command: str, *args: str) -> None:
        """Runs a command within this process, to prepare a test."""
        code, _, error = invoke(command, self.url, *args)
        assert code == 0, error

    def start(self, command: str, *args: str, **options: Any) -> subprocess.Popen[str]:
        """Starts a command on the store."""
        return start(command, self.url, *args, **options)

    def json(self, command: str, *args: str, code: int = 0) -> Any:
        """Runs a command with --json and returns its one document."""
        done = self(command, *args, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def all(self) -> dict[bytes, bytes]:
        """All that the store holds, read by LMDB alone."""
        return read_all(self.path)


def run(
    *args: str | bytes, input: str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs the program; text is UTF-8 with any other byte escaped."""
    return subprocess.run(
        [*PROGRAM, *args],
        input=input,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=TIMEOUT,
        check=False,
        **options,
    )


def start(*args: str, **options: Any) -> subprocess.Popen[str]:
    """Starts the program with pipes for all three streams."""
    return subprocess.Popen(
        [*PROGRAM, *args],
        stdin=options.pop("stdin", subprocess.PIPE),
        stdout=subprocess.PIPE,
        stderr=options.pop("stderr", subprocess.PIPE),
        encoding="utf-8",
        **options,
    )


def terminal(*args: str) -> tuple[int, str]:
    """Runs the program with a terminal as its stderr."""
    ours, theirs = pty.openpty()
    with start(*args, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(theirs)
        said = b""
        while True:
            select.select([ours], [], [])
            try:
                chunk = os.read(ours, 4096)
            except OSError:
                break  # the other side is closed
            if not chunk:
                break
            said += chunk
        process.communicate()
    os.close(ours)
    return process.returncode, said.decode()


def invoke(*args: str) -> tuple[int, str, str]:
    """Runs the program within this process, for what needs no process.

    Returns:
        The exit code, stdout, and stderr or the error.
    """
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app(list(args))
        except SystemExit as error:
            code = error.code
        except CtlError as error:
            code = error.exit_code
            err.write(str(error))
    out.flush()
    out.seek(0)
    assert isinstance(code, int)
    return code, out.read(), err.getvalue()


def read_all(path: Path) -> dict[bytes, bytes]:
    """All items of a store."""
    with (
        lmdb.open(str(path), subdir=path.is_dir(), readonly=True, map_size=0) as env,
        env.begin() as txn,
        txn.cursor() as cursor,
    ):
        return dict(cursor)


def count(path: Path) -> int:
    """How many items a store has; 0 if there is none yet."""
    data = path / "data.mdb"
    if not data.exists() or not data.stat().st_size:
        return 0
    with lmdb.open(str(path), readonly=True, map_size=0) as env:
        return int(env.stat()["entries"])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: it is not within two minutes.
    """
    end = time.monotonic() + TIMEOUT
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        pause.wait(0.01)


def write_lines(path: Path, lines: Sequence[str | bytes]) -> Path:
    """Writes a file of lines."""
    encoded = [i.encode() if isinstance(i, str) else i for i in lines]
    path.write_bytes(b"".join(line + b"\n" for line in encoded))
    return path


def as_other_user(function: Callable[[], T]) -> T:
    """Calls a function without privileges: as nobody if the tests run as root.

    What it imports has to be imported already.
    """
    if os.geteuid() != 0:
        return function()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            result: tuple[bool, object] = (True, function())
        except BaseException as error:  # noqa: BLE001
            result = (False, repr(error))
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        good, value = pickle.load(pipe)
    os.waitpid(child, 0)
    assert good, value
    answer: T = value
    return answer
