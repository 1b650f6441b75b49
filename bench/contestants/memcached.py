"""memcached as the store that contestants ask, on the load's core."""

import os
import shutil
import socket
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.contestants import Asked
from bench.model import Address, ContestantError
from bench.process import Child, free_address, wait_listening

_START_TIMEOUT = 60.0
_TIMEOUT = 60.0
_ATTEMPTS = 3
_MEGABYTES = 64
_CHUNK = 1_000
_WARM_UP = 200
_STAGE = "memcached"


class Memcached:
    """A memcached with Debian's settings (64 MB, four threads) on one core.

    Args:
        records: what it is filled with.
        core: the core that all its threads share.
    """

    def __init__(self, records: Mapping[str, str], core: int) -> None:
        self._records = records
        self._core = core
        self._address: Address | None = None
        self._child: Child | None = None

    @property
    def name(self) -> str:
        """A short name, usable as a file name."""
        return "memcached"

    @property
    def missing(self) -> str | None:
        """Why it cannot run, None if it can."""
        if shutil.which("memcached") is None:
            return "memcached is not installed (Debian package memcached)"
        return None

    @property
    def address(self) -> Address:
        """Where it listens; known once started."""
        if self._address is None:
            raise RuntimeError("memcached was not started")
        return self._address

    def start(self, directory: Path) -> None:
        """Start it and fill it; nothing if it runs.

        Args:
            directory: for its output; made if it does not exist.

        Raises:
            ContestantError: it ended, never listened or did not take all
                records.
        """
        if self._child is not None:
            return
        directory.mkdir(parents=True, exist_ok=True)
        output = directory / "output.log"
        for _ in range(_ATTEMPTS):
            self._address = free_address()
            self._child = Child(
                self._argv(), core=self._core, output=output, cwd=directory
            )
            if wait_listening(self._address, self._child, _START_TIMEOUT):
                try:
                    self._fill()
                except ContestantError:
                    self.stop()
                    raise
                return
            self.stop()
            # Another process may have taken the port.
            if "Address already in use" not in output.read_text():
                break
        raise ContestantError(
            _STAGE, f"it did not start: {output.read_text().strip()[-600:]}"
        )

    def _argv(self) -> list[str]:
        # As root it wants to be told that this is meant.
        user = ["-u", "root"] if os.geteuid() == 0 else []
        address = self.address
        return [
            "memcached",
            *("-m", str(_MEGABYTES)),
            *("-l", address.host, "-p", str(address.port)),
            *user,
        ]

    def command(self) -> str:
        """Return the exact command line."""
        return " ".join(["taskset", "-c", str(self._core), *self._argv()])

    def _fill(self) -> None:
        sets = [
            f"set {key} 0 0 {len(value)} noreply\r\n{value}\r\n".encode()
            for key, value in self._records.items()
        ]
        with self._connection() as connection:
            for start in range(0, len(sets), _CHUNK):
                connection.sendall(b"".join(sets[start : start + _CHUNK]))
            items = _stats(connection)["curr_items"]
        if int(items) != len(self._records):
            raise ContestantError(
                _STAGE, f"it took {items} of {len(self._records)} records"
            )

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        try:
            with socket.create_connection(
                (self.address.host, self.address.port), timeout=_TIMEOUT
            ) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield connection
        except OSError as error:
            raise ContestantError(_STAGE, f"no answer: {error}") from error

    def pids(self) -> frozenset[int]:
        """Return its process, all of whose threads count."""
        return frozenset({self._child.pid}) if self._child else frozenset()

    def asked(self) -> Asked:
        """Return how many keys it was asked for and how many it had.

        Raises:
            ContestantError: it does not answer.
        """
        with self._connection() as connection:
            stats = _stats(connection)
        return Asked(int(stats["cmd_get"]), int(stats["get_hits"]))

    def round_trip_us(self, keys: Sequence[str], core: int, seconds: float) -> float:
        """Return the median time in µs of one ``get`` and its answer.

        One connection, one request at a time, by a thread on a core of the
        caller's choice: the one where the workers run. The time is that of a
        blocking send and the receives until the answer is complete, nothing
        else; the first 200 do not count.

        Args:
            keys: asked in turn, over and over; it must have them all.
            core: where this thread runs meanwhile.
            seconds: how long.

        Raises:
            ContestantError: it does not answer, or not with a value.
        """
        requests = [f"get {key}\r\n".encode() for key in keys]
        times: list[int] = []
        with self._connection() as connection, _on_core(core):
            end = time.monotonic() + seconds
            while len(times) <= _WARM_UP or time.monotonic() < end:
                request = requests[len(times) % len(requests)]
                begun = time.perf_counter_ns()
                connection.sendall(request)
                answer = _received(connection)
                while not answer.endswith(b"END\r\n"):
                    answer += _received(connection)
                times.append(time.perf_counter_ns() - begun)
                if not answer.startswith(b"VALUE "):
                    raise ContestantError(_STAGE, f"it has no {request[4:-2]!r}")
        return statistics.median(times[_WARM_UP:]) / 1000

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            # It has nothing to save, and takes a second to end by itself.
            self._child.stop(grace=0)
            self._child = None


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """Move the calling thread to a core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionResetError("memcached closed the connection")
    return data


def _stats(connection: socket.socket) -> dict[str, str]:
    connection.sendall(b"stats\r\n")
    answer = b""
    while not answer.endswith(b"END\r\n"):
        answer += _received(connection)
    lines = answer.decode().split("\r\n")
    return {
        name: value
        for _, name, value in (
            line.split(" ", 2) for line in lines if line.startswith("STAT ")
        )
    }
