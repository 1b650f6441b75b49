"""Waiting for a condition, the only way a test may wait."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.005
# as /proc/net/tcp says it
ESTABLISHED = "01"
CLOSE_WAIT = "08"
# long enough for a machine that has much else to do: who waits for it has failed
PATIENCE = 60.0
LATE_SECONDS = 0.1 if os.environ.get("NGX_FLAVOUR") == "asan" else 0.05


def wait_until(
    condition: Callable[[], T], timeout: float = PATIENCE, what: str = "a condition"
) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Args:
        condition: asked every 5 milliseconds.
        timeout: seconds.
        what: named in the error.

    Raises:
        AssertionError: the time is over.
    """
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(POLL_SECONDS)


def states(host: str, port: int) -> set[str]:
    """Return the states of connections to a server, as clients have them.

    Args:
        host: an IPv4 address, of which there may be others with this port.
        port: of the server.
    """
    server = f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}"
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    rows = (line.split()[2:4] for line in lines)
    return {state for remote, state in rows if remote == server}


def wait_for_hangup(host: str, port: int) -> None:
    """Wait until all clients of a server that has closed could know of it.

    The kernel may be late with that when it has much to do, and what they send
    meanwhile is lost. Nobody may connect to it in the meantime.
    """
    wait_until(
        lambda: ESTABLISHED not in states(host, port),
        what=f"the clients of {host}:{port} to be told",
    )


def how_late(condition: Callable[[], object], what: str = "a condition") -> float:
    """Ask until a condition is true, and return how long it was not.

    That is the time from the call to the begin of the last question whose answer
    was no: how long the machine took for an answer does not count.

    Args:
        condition: asks a server.
        what: named in the error.

    Raises:
        AssertionError: the time is over.
    """
    begin = late = time.monotonic()

    def asked() -> bool:
        nonlocal late
        moment = time.monotonic()
        if condition():
            return True
        late = moment
        return False

    wait_until(asked, what=what)
    return late - begin


def lateness() -> float:
    """Return how many seconds after its time something may happen, at its best.

    Where others want the processors, too, it is the more, by as many as there
    are for each processor.
    """
    load, _, _, tasks, _ = Path("/proc/loadavg").read_text().split()
    wanting = max(float(load), float(tasks.partition("/")[0]))
    return LATE_SECONDS * max(1.0, wanting / (os.cpu_count() or 1))


def has_stopped(pid: int) -> bool:
    """Tell whether each thread of a process has stopped."""
    tasks = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)
