"""Memory of exactly the processes of a contestant, from /proc."""

from collections.abc import Iterable
from pathlib import Path

from bench.cpu import ProcessGone
from bench.model import Memory


def memory(pids: Iterable[int]) -> Memory:
    """Sum the memory of the given processes from /proc/PID/smaps_rollup.

    Args:
        pids: process IDs.

    Raises:
        ProcessGone: one of them does not exist.
    """
    rss = anonymous = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError) as error:
            raise ProcessGone(f"process {pid} has ended") from error
        fields = {
            name: value.split()
            for name, _, value in (line.partition(":") for line in text.splitlines())
        }
        rss += int(fields["Rss"][0])
        anonymous += int(fields["Anonymous"][0])
    return Memory(rss_kib=rss, anonymous_kib=anonymous)
