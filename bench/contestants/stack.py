"""A server in front of others, measured together."""

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.contestants.nginx import Nginx
from bench.contestants.single import Single
from bench.model import Address

Part = Nginx | Single
Parts = tuple[Part, Sequence[Part]]


class Stack:
    """A server and those that it asks; all of their processes count.

    Args:
        name: short name, unique in its table.
        parts: makes the one in front, mostly nginx, and the others; the first
            one's configuration is written when the others run.
    """

    def __init__(self, name: str, parts: Callable[[], Parts]) -> None:
        self._name = name
        self._parts = parts
        self._front, self._backs = parts()
        self._directory: Path | None = None

    def logging(self, log_format: str) -> "Stack":
        """Return the same contestant with an access log of nginx's, in front.

        Args:
            log_format: of nginx, for example ``"$sendfile_status"``.
        """

        def parts() -> Parts:
            front, backs = self._parts()
            return _nginx(front).logging(log_format), backs

        return Stack(f"{self._name}-log", parts)

    @property
    def name(self) -> str:
        """The contestant's short name."""
        return self._name

    @property
    def address(self) -> Address:
        """Where the one in front listens."""
        return self._front.address

    @property
    def access_log(self) -> Path:
        """nginx's log, of a contestant that was made with a log format."""
        return _nginx(self._front).access_log

    def configure(self, directory: Path) -> None:
        """Configure the servers behind; the one in front follows when they run.

        Args:
            directory: each gets a directory of its own below it.
        """
        self._directory = directory
        for back in self._backs:
            own = directory / back.name
            own.mkdir()
            back.configure(own)

    def configuration(self) -> str:
        """Return all configurations, that of the one in front first."""
        parts = [self._front.configuration()]
        parts += [
            f"# --- {back.name} ---\n{back.configuration()}" for back in self._backs
        ]
        return "\n".join(parts)

    def start(self) -> None:
        """Start the servers behind, then the one in front.

        Raises:
            ContestantError: one of them did not start.
        """
        if self._directory is None:
            raise RuntimeError(f"{self._name} is not configured")
        for back in self._backs:
            back.start()
        own = self._directory / "front"
        own.mkdir(exist_ok=True)
        self._front.configure(own)
        self._front.start()

    def pids(self) -> frozenset[int]:
        """Return the processes of all."""
        return self._front.pids().union(*(back.pids() for back in self._backs))

    def complaints(self) -> list[str]:
        """Return what any of them logged that no healthy server logs."""
        found = self._front.complaints()
        for back in self._backs:
            found += [f"{back.name}: {line}" for line in back.complaints()]
        return found

    def begin_log(self) -> None:
        """Begin nginx's access log anew.

        Raises:
            ContestantError: a worker does not reopen its log.
        """
        _nginx(self._front).begin_log()

    def stop(self) -> None:
        """End the one in front, then the others."""
        self._front.stop()
        for back in self._backs:
            back.stop()


def _nginx(part: Part) -> Nginx:
    if not isinstance(part, Nginx):
        raise TypeError(f"{part.name} has no such log")
    return part
