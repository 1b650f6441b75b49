"""An application: its server's process, and how often it was asked."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lib.nginx import WORKER_USER
from lib.wait import wait_until

APPS = Path(__file__).resolve().parents[1]
START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
LOG_TAIL = 3000


class StartFailed(Exception):
    """A server ended instead of serving; what it said is the message."""


@dataclass(frozen=True)
class Place:
    """Where an application lives.

    Args:
        directory: for its own copy, sockets and logs.
        files: the folder of the files that it sends.
        port: of 127.0.0.1, free at this moment.
    """

    directory: Path
    files: Path
    port: int

    @property
    def home(self) -> Path:
        """The application's folder."""
        return self.directory / "app"

    @property
    def socket(self) -> Path:
        """A path for a Unix socket."""
        return self.directory / "socket"

    @property
    def count(self) -> Path:
        """The file that the application writes a line to for each request."""
        return self.directory / "count"

    @property
    def user(self) -> str | None:
        """The user that a server started by root changes to."""
        return WORKER_USER if os.geteuid() == 0 else None

    def write(self, name: str, text: str) -> Path:
        """Write a file, such as a server's configuration."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path


@dataclass(frozen=True)
class Launch:
    """How an application is started and reached.

    Args:
        command: program and arguments; it stays in the foreground.
        handler: the directives that make nginx ask it.
        environment: besides the process's own.
        tcp: it listens on the place's port, else on its socket.
    """

    command: Sequence[str]
    handler: str
    environment: Mapping[str, str] = field(default_factory=dict)
    tcp: bool = False


class Running:
    """An application that runs.

    Args:
        place: where; the directory is there, and nothing in it.
        folder: of the application, below test/apps.
        launch: how it is started.
    """

    def __init__(self, place: Place, folder: str, launch: Launch) -> None:
        self.place = place
        self.handler = launch.handler
        self._launch = launch
        self._log = place.directory / "log"
        source = APPS / folder
        if not place.home.exists():
            # the clone may lie below a folder that others cannot enter
            shutil.copytree(source, place.home, ignore=shutil.ignore_patterns("__py*"))
        place.count.touch()
        place.count.chmod(0o666)
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        place = self.place
        program = shutil.which(self._launch.command[0])
        assert program, f"{self._launch.command[0]} is missing: tools/deps.sh apps"
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [program, *self._launch.command[1:]],
                cwd=place.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "LC_ALL": "C.UTF-8",
                    "APP_FILES": str(place.files),
                    "APP_COUNT": str(place.count),
                    "APP_SOCKET": str(place.socket),
                    **self._launch.environment,
                },
                start_new_session=True,
                umask=0,
            )

        def is_up() -> bool:
            if process.poll() is not None:
                raise StartFailed(f"status {process.returncode}\n{self.log()}")
            return self._accepts()

        try:
            wait_until(is_up, START_TIMEOUT, f"{program} to accept connections")
        except BaseException:
            self._kill(process)
            print(self.log())
            raise
        return process

    def _accepts(self) -> bool:
        if self._launch.tcp:
            sock = socket.socket()
            address: tuple[str, int] | str = ("127.0.0.1", self.place.port)
        else:
            sock = socket.socket(socket.AF_UNIX)
            address = str(self.place.socket)
        with sock:
            try:
                sock.connect(address)
            except (ConnectionRefusedError, FileNotFoundError):
                return False
        return True

    def log(self) -> str:
        """Return the end of what the server said, while its directory is there."""
        if not self._log.exists():
            return ""
        return self._log.read_text(errors="replace")[-LOG_TAIL:]

    def _lines(self) -> list[list[str]]:
        text = self.place.count.read_text(encoding="utf-8")
        return [line.split(" ") for line in text.splitlines()]

    def requests(self) -> list[str]:
        """Return each request so far, such as ``GET /files/1``.

        An application writes it down before it answers, so after an answer it
        is there.
        """
        return [" ".join(words[:2]) for words in self._lines()]

    def peers(self) -> list[str]:
        """Return the port that each request came from, if the application says it."""
        return [words[2] for words in self._lines()]

    def forget(self) -> None:
        """Count from nothing again."""
        os.truncate(self.place.count, 0)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def restart(self) -> None:
        """Start it again after ``stop``."""
        self.place.socket.unlink(missing_ok=True)
        self._process = self._start()

    def stop(self) -> None:
        """Stop it, with all its children; again is no error."""
        if self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            pass
        self._kill(self._process)
