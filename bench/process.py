"""Child processes that never outlive the benchmark."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.model import Address
from tools.ports import free_port

_POLL = 0.01
# Longer than any program that a server starts beside its own runs.
_HELPER_TIMEOUT = 5.0

# The kernel says nothing if the benchmark was killed before setpriv asked to be
# told: then there is another parent by now.
_IF_PARENT_LIVES = '[ "$PPID" = "$1" ] || exit 1; shift; exec "$@"'


class Child:
    """A process in a session of its own, bound to one core or some.

    A Ctrl-C in the terminal does not reach it; it ends by :meth:`stop`, or by
    SIGTERM from the kernel if the benchmark itself is killed.

    Args:
        argv: program and arguments.
        core: the core, or the cores, that it may run on.
        output: file that takes stdout and stderr.
        cwd: working directory.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        core: int | Sequence[int],
        output: Path,
        cwd: Path,
    ) -> None:
        cores = [core] if isinstance(core, int) else core
        pinned = [
            *("setpriv", "--pdeathsig", "TERM"),
            *("sh", "-c", _IF_PARENT_LIVES, "sh", str(os.getpid())),
            *("taskset", "-c", ",".join(map(str, cores)), *argv),
        ]
        with output.open("wb") as out:
            self._process = subprocess.Popen(
                pinned,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process ID; each before it execs, so it is the program's."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """Return the exit code.

        Args:
            timeout: seconds to wait at most.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        return self._process.wait(timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(number)

    def stop(self, grace: float = 3.0) -> None:
        """End the process and whatever it started.

        Args:
            grace: seconds between SIGTERM and SIGKILL.
        """
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()


def children(pid: int) -> frozenset[int]:
    """Return the direct children of a process.

    Args:
        pid: process ID; one that has ended has no children.
    """
    found: set[int] = set()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()
    return frozenset(found)


def descendants(pid: int) -> frozenset[int]:
    """Return the children of a process, their children, and so on.

    Args:
        pid: process ID; one that has ended has none.
    """
    found: set[int] = set()
    left = [pid]
    while left:
        fresh = children(left.pop()) - found
        found |= fresh
        left += fresh
    return frozenset(found)


def free_address() -> Address:
    """Return a loopback address whose port is free at this moment."""
    return Address("127.0.0.1", free_port())


def wait_listening(address: Address, child: Child, timeout: float) -> bool:
    """Wait until something accepts connections.

    Args:
        address: where to connect.
        child: stop waiting when it ends.
        timeout: seconds to wait at most.

    Returns:
        True once a connection was accepted.
    """

    def accepts() -> bool:
        try:
            with socket.create_connection((address.host, address.port), timeout=1):
                return True
        except OSError:
            return False

    done = wait_for(lambda: child.poll() is not None or accepts(), timeout)
    return done and child.poll() is None


def wait_for(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until a condition holds.

    Args:
        condition: asked every 10 ms.
        timeout: seconds to wait at most.

    Returns:
        Whether it held in time.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def still(pids: Callable[[], frozenset[int]], expected: frozenset[int]) -> bool:
    """Say whether a server consists of the processes that it did.

    One that it starts for a moment, as Passenger does with ps every few seconds,
    is none of them.

    Args:
        pids: tells which there are.
        expected: which there were.
    """
    return wait_for(lambda: pids() == expected, _HELPER_TIMEOUT)
