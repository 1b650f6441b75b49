"""Waits for the moments when nothing else uses the cores."""

import time
from collections.abc import Iterable
from pathlib import Path

_INTERVAL = 0.25
_BUSY = 0.1


def busy_ticks(cores: Iterable[int], stat: Path = Path("/proc/stat")) -> list[int]:
    """Return the clock ticks (1/100 s) that each core was not idle since boot.

    All of user, nice, system, irq, softirq and steal count (proc(5)); guest
    time is already in user.

    Args:
        cores: which.
        stat: to read instead of /proc/stat.
    """
    ticks = {}
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
            ticks[name] = user + nice + system + irq + softirq + steal
    return [ticks[f"cpu{core}"] for core in cores]


class Patience:
    """A limited time to wait for a quiet machine.

    Args:
        seconds: how long to wait in all.
        cores: that must be quiet: under 10 % busy over 0.25 s.
    """

    def __init__(self, seconds: float, cores: tuple[int, ...]) -> None:
        self._left = seconds
        self._cores = cores

    @property
    def left(self) -> bool:
        """Whether there is time left to wait."""
        return self._left > 0

    def wait(self) -> None:
        """Wait until the cores are quiet or the time is used up."""
        limit = _BUSY * _INTERVAL * 100
        while self.left:
            begun = time.monotonic()
            before = busy_ticks(self._cores)
            time.sleep(_INTERVAL)
            after = busy_ticks(self._cores)
            self._left -= time.monotonic() - begun
            if all(b - a <= limit for a, b in zip(before, after, strict=True)):
                return

    def spend(self, seconds: float) -> None:
        """Take time off for a run that was disturbed and is repeated."""
        self._left -= seconds
