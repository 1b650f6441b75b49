"""Watching which files a process opens, by strace(1)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .wait import wait_until

# what makes a descriptor of a path, or changes what is at a path
OPENS = (
    "open,openat,openat2,creat,open_by_handle_at,open_tree,execve,execveat,link,"
    "linkat,symlink,symlinkat,rename,renameat,renameat2,unlink,unlinkat,mkdir,"
    "mkdirat,mknod,mknodat,truncate,chmod,fchmodat,chown,fchownat,mount,chdir,chroot"
)

# 5 openat2(7</r>, "aa/1.dat", {flags=O_RDONLY, resolve=…}, 24) = 8</r/aa/1.dat>
CALL = re.compile(
    r"^\d+ +(?P<name>\w+)\("
    r"(?:(?:AT_FDCWD|\d+)<(?P<at>(?:[^>\\]|\\.)*)>, )?"
    r'"(?P<path>(?:[^"\\]|\\.)*)"(?P<more>\.\.\.)?'
    r"(?P<rest>.*) = (?P<result>-?\d+)(?:<(?P<opened>(?:[^>\\]|\\.)*)>)?"
)


@dataclass(frozen=True)
class Call:
    """A system call that names a path.

    Args:
        name: such as openat.
        directory: which the path is relative to.
        path: as given.
        rest: the other arguments, as strace writes them.
        opened: what the descriptor leads to; None if the call failed.
    """

    name: str
    directory: str
    path: str
    rest: str
    opened: str | None

    @property
    def meant(self) -> str:
        """The absolute path that is asked for, without ``..`` and links undone."""
        return os.path.normpath(os.path.join(self.directory, self.path))


def _unescape(text: str) -> str:
    raw = text.encode("latin-1").decode("unicode_escape").encode("latin-1")
    return os.fsdecode(raw)


class Strace:
    """Watch a process and its threads, from the constructor to ``stop``.

    Args:
        pid: the process.
        output: a file for what strace writes.
    """

    def __init__(self, pid: int, output: Path) -> None:
        self._output = output
        self._errors = output.with_suffix(".stderr")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *("strace", "-f", "-y", "-qq", "-s", "8192"),
                    *("-e", f"trace={OPENS}", "-e", "signal=none"),
                    *("-o", str(output), "-p", str(pid)),
                ],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        wait_until(lambda: self._attached(pid), what="strace to be attached")

    def _attached(self, pid: int) -> bool:
        assert self._process.poll() is None, self._errors.read_text()
        status = Path(f"/proc/{pid}/status").read_text()
        return f"TracerPid:\t{self._process.pid}\n" in status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def stop(self) -> list[Call]:
        """Detach, and return what was called.

        Raises:
            AssertionError: strace wrote a line that is not understood.
        """
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        calls = []
        for line in self._output.read_text(errors="surrogateescape").splitlines():
            match = CALL.match(line)
            assert match and not match["more"], f"strace wrote {line!r}"
            calls.append(
                Call(
                    match["name"],
                    _unescape(match["at"] or "/"),
                    _unescape(match["path"]),
                    match["rest"],
                    None if match["opened"] is None else _unescape(match["opened"]),
                )
            )
        return calls


def outside(calls: list[Call], *roots: Path) -> list[Call]:
    """Return the calls that mean or have opened a path that is not below a root."""
    allowed = [str(root) for root in roots]

    def inside(path: str) -> bool:
        return any(path == root or path.startswith(f"{root}/") for root in allowed)

    return [
        call
        for call in calls
        if not inside(call.meant)
        or (call.opened is not None and not inside(call.opened))
    ]
