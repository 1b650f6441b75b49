"""CPU time of exactly the processes of a contestant, from /proc."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SETTLE_INTERVAL = 0.01
_SETTLE_SHARE = 0.01


@dataclass(frozen=True)
class CpuTime:
    """CPU time, run-queue wait and page faults since the processes began.

    Times are in nanoseconds. A major fault waited for a disk.
    """

    run_ns: int
    wait_ns: int
    minor_faults: int
    major_faults: int

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(
            self.run_ns - earlier.run_ns,
            self.wait_ns - earlier.wait_ns,
            self.minor_faults - earlier.minor_faults,
            self.major_faults - earlier.major_faults,
        )


class ProcessGone(Exception):
    """A process whose CPU time was asked for has ended."""


def cpu_time(pids: Iterable[int]) -> CpuTime:
    """Sum the CPU time of all threads of the given processes.

    The source is /proc/PID/task/TID/schedstat: "time spent on the cpu" and
    "time spent waiting on a runqueue", both in nanoseconds
    (Documentation/scheduler/sched-stats.rst of Linux). utime and stime of
    /proc/PID/stat have a resolution of 10 ms only. A thread that ended takes
    its time with it, so this suits servers whose threads live on. Page faults
    are fields 10 and 12 of /proc/PID/stat (proc(5)).

    Args:
        pids: process IDs.

    Raises:
        ProcessGone: one of them does not exist.
    """
    run = wait = minor = major = 0
    for pid in pids:
        try:
            # The second field is the name in parentheses and may have spaces.
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            minor += int(stat[7])
            major += int(stat[9])
            for task in Path(f"/proc/{pid}/task").iterdir():
                fields = (task / "schedstat").read_text().split()
                run += int(fields[0])
                wait += int(fields[1])
        except (FileNotFoundError, ProcessLookupError) as error:
            raise ProcessGone(f"process {pid} has ended") from error
    return CpuTime(run, wait, minor, major)


def file_reads(pids: Iterable[int]) -> int:
    """Sum the system calls that read files since the given processes began.

    The source is ``syscr`` of /proc/PID/io: read(2), pread(2), sendfile(2) and
    their like count, recv(2) on a socket does not.

    Args:
        pids: process IDs.

    Raises:
        ProcessGone: one of them does not exist.
    """
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/io").read_text()
        except (FileNotFoundError, ProcessLookupError) as error:
            raise ProcessGone(f"process {pid} has ended") from error
        fields = dict(line.split(": ") for line in text.splitlines())
        total += int(fields["syscr"])
    return total


def settled_cpu_time(pids: frozenset[int], timeout: float = 2.0) -> CpuTime:
    """Return the CPU time once the processes are idle, or after ``timeout``.

    After a load has ended a server still closes its connections; that work is
    part of the run. Idle means under 1 % of a core over 10 ms.

    Args:
        pids: process IDs.
        timeout: seconds to wait at most.

    Raises:
        ProcessGone: one of them does not exist.
    """
    deadline = time.monotonic() + timeout
    begun = time.monotonic_ns()
    before = cpu_time(pids)
    while True:
        time.sleep(_SETTLE_INTERVAL)
        now = time.monotonic_ns()
        after = cpu_time(pids)
        used = after.run_ns - before.run_ns
        if used < _SETTLE_SHARE * (now - begun) or time.monotonic() > deadline:
            return after
        before, begun = after, now
