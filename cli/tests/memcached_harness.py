"""Real memcached processes, and a scripted one that misbehaves."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pytest
from ctl_harness import TIMEOUT, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

VECTORS = Path(__file__).parents[2] / "test" / "vectors"


class Memcached:
    """A memcached process on a port of its own, or on a unix socket.

    Args:
        directory: for its files.
        options: more of its options.
        unix: the path of a socket to listen on instead.
        port: 0 for one that is free.
        host: the address to listen on.
    """

    def __init__(
        self,
        directory: Path,
        options: Iterable[str] = (),
        unix: Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        program = shutil.which("memcached")
        if program is None:
            pytest.fail("install memcached, the Debian package")
        self.host = host
        self.port = port
        self.unix = unix
        file = directory / f"port.{os.urandom(4).hex()}"
        where = ["-l", host, "-p", str(port or -1), "-U", "0"]
        if unix is not None:
            where = ["-s", str(unix)]
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [program, *where, *user, *options],
            env={**os.environ, "MEMCACHED_PORT_FILENAME": str(file)},
        )
        if unix is not None:
            wait_until(unix.exists, "memcached's socket")
        else:
            wait_until(file.exists, "memcached's port")
            self.port = int(file.read_text().split()[-1])

    @property
    def name(self) -> str:
        """As sendfilectl names it."""
        if self.unix is not None:
            return str(self.unix)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The store that it is."""
        return f"memcached:{'//' if self.unix is None else ''}{self.name}"

    def ask(self, command: bytes, end: bytes = b"\r\n") -> bytes:
        """Sends a command and reads its answer, up to some bytes."""
        if self.unix is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(self.unix))
        else:
            sock = socket.create_connection((self.host, self.port))
        with sock:
            sock.settimeout(TIMEOUT)
            sock.sendall(command + b"\r\n")
            answer = b""
            while not answer.endswith(end):
                data = sock.recv(1 << 16)
                assert data, answer
                answer += data
        return answer

    def set(self, key: bytes, value: bytes, flags: int = 0, expire: int = 0) -> None:
        """Stores a value."""
        head = b"set %b %d %d %d\r\n" % (key, flags, expire, len(value))
        assert self.ask(head + value) == b"STORED\r\n"

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """A value and its flags."""
        answer = self.ask(b"get " + key, b"END\r\n")
        if answer == b"END\r\n":
            return None
        head, _, rest = answer.partition(b"\r\n")
        _, name, flags, length = head.split()
        assert name == key
        return rest[: int(length)], int(flags)

    def ttl(self, key: bytes) -> int:
        """How many seconds a key has left to live; -1 for no end."""
        return int(self.ask(b"mg %b t" % key).split()[1][1:])

    def count(self) -> int:
        """How many items it has."""
        stats = self.ask(b"stats", b"END\r\n").split(b"\r\n")
        return int(next(s.split()[2] for s in stats if b" curr_items " in s))

    def pause(self) -> None:
        """Stops it; connections are still made, by the kernel."""
        self.process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()


class Scripted:
    """A server on a port of its own that answers each connection by a function.

    Args:
        script: called with each connection, in a thread of its own; the
            connection is closed afterwards.
    """

    def __init__(self, script: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._script = script
        self.name = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"memcached://{self.name}"
        self.connections = 0
        self._threads = [threading.Thread(target=self._run)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._talk, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _talk(self, sock: socket.socket) -> None:
        with sock:
            sock.settimeout(TIMEOUT)
            try:
                self._script(sock)
            except OSError:
                return


def reply_once(reply: bytes) -> Callable[[socket.socket], None]:
    """A script that reads something, answers, and hangs up."""

    def script(sock: socket.socket) -> None:
        sock.recv(1 << 16)
        sock.sendall(reply)

    return script


def by_command(**replies: Sequence[bytes]) -> Callable[[socket.socket], None]:
    """A script that answers commands of one line by their first word: by the
    replies one after the other, over all connections. After the last one of
    lru_crawler it hangs up.
    """
    left = {name.encode(): list(answers) for name, answers in replies.items()}

    def script(sock: socket.socket) -> None:
        rest = b""
        while True:
            data = sock.recv(1 << 16)
            if not data:
                return
            *commands, rest = (rest + data).split(b"\r\n")
            for command in commands:
                answers = left[command.split()[0]]
                sock.sendall(answers.pop(0))
                if not answers and command.startswith(b"lru_crawler"):
                    return

    return script


def accept_sets(
    total: int, then: Callable[[socket.socket], None] | None = None
) -> Callable[[socket.socket], None]:
    """A script that stores so many items, then hangs up or does another thing."""

    def script(sock: socket.socket) -> None:
        done = 0
        rest = b""
        while done < total:
            data = sock.recv(1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\r\n")
            if len(lines) % 2:
                # a command whose value is still to come
                rest = lines.pop() + b"\r\n" + rest
            count = min(len(lines) // 2, total - done)
            sock.sendall(b"STORED\r\n" * count)
            done += count
        if then is not None:
            then(sock)

    return script


class Hang:
    """A script that reads what comes and never answers.

    Attributes:
        asked: set when something came.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()

    def __call__(self, sock: socket.socket) -> None:
        while sock.recv(1 << 16):
            self.asked.set()


def table(name: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a file of vectors."""
    lines = (VECTORS / f"{name}.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    return rows[0], rows[1:]
