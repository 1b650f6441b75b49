"""A real memcached, to fill, to count, to stop and to kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from functools import partial
from pathlib import Path

from .wait import has_stopped, wait_for_hangup, wait_until

DEFAULT_PORT = 11211
TIMEOUT = 60.0


def to_bytes(value: object) -> bytes:
    """Return a value as it is stored: bytes and str as they are, else JSON."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False).encode()


def connect(address: tuple[str, int] | str, timeout: float = TIMEOUT) -> socket.socket:
    """Connect to a host and port, or to a unix socket's path.

    Args:
        address: as it says.
        timeout: seconds, for this and for each read and write.
    """
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def url_of(address: tuple[str, int] | str) -> str:
    """Return the URL of an address, as http_sendfile_lookup takes it."""
    if isinstance(address, str):
        return f"memcached:{address}"
    host, port = address
    return (
        f"memcached://[{host}]:{port}" if ":" in host else f"memcached://{host}:{port}"
    )


class Memcached:
    """A memcached process, and a connection to it for the test's own use.

    Args:
        directory: where its files go.
        host: the address to listen on.
        port: 0 for one that is free.
        unix: the path of a socket to listen on instead.
        options: more of memcached's options.
    """

    def __init__(
        self,
        directory: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        unix: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self._directory = directory
        self._host = host
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._buffer = b""
        self._connections = 0
        self.address: tuple[str, int] | str = str(unix) if unix else (host, port)
        self.start()

    # where it is

    @property
    def url(self) -> str:
        """For http_sendfile_lookup and ``server``."""
        return url_of(self.address)

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert isinstance(self.address, tuple), "it listens on a unix socket"
        return self.address[1]

    @property
    def name(self) -> str:
        """How clients are told of it: host:port, or the socket's path."""
        if isinstance(self.address, str):
            return self.address
        return f"{self._host}:{self.port}"

    # life

    def start(self) -> None:
        """Start it, where it was before if it has been, empty.

        Raises:
            AssertionError: it does not start, with what it says.
        """
        assert self._process is None, "it is running already"
        program = shutil.which("memcached")
        assert program, "memcached is missing: apt-get install memcached"
        said_port = self._directory / f"memcached-{id(self):x}.port"
        command = [program, *self._options]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        if isinstance(self.address, str):
            Path(self.address).unlink(missing_ok=True)
            command += ["-s", self.address, "-a", "0777"]
        else:
            # -1: it takes a port that is free, and writes to a file which
            command += ["-U", "0", "-l", self._host, "-p", str(self.port or -1)]
        output = self._directory / f"memcached-{id(self):x}.log"
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, "MEMCACHED_PORT_FILENAME": str(said_port)},
            )
        process = self._process

        def is_up() -> bool:
            if process.poll() is not None:
                self._process = None
                raise AssertionError(
                    f"{' '.join(command)} ended: {output.read_text()}"
                    " (is the port taken by another memcached?)"
                )
            if isinstance(self.address, tuple) and self.port == 0:
                lines = said_port.read_text() if said_port.exists() else ""
                if not lines.endswith("\n"):
                    return False
                number = lines.split("TCP INET", 1)[1].split(":")[1]
                self.address = (self._host, int(number.split()[0]))
            try:
                self._control = connect(self.address)
            except OSError:
                return False
            return True

        wait_until(is_up, what="memcached to accept connections")
        self._buffer = b""
        self._connections = int(self.stats()["total_connections"])

    def pause(self) -> None:
        """Stop it (SIGSTOP); its kernel still accepts connections and bytes."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        wait_until(partial(has_stopped, self._process.pid), what="memcached to stop")

    def resume(self) -> None:
        """Let it run on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it with all that it holds (SIGKILL), and wait for the end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        if self._control is not None:
            self._control.close()
            self._control = None
        # IPv6 is in another table
        if isinstance(self.address, tuple) and ":" not in self._host:
            wait_for_hangup(socket.gethostbyname(self._host), self.port)

    def restart(self) -> None:
        """Kill it and start it where it was, empty."""
        if self._process is not None:
            self.kill()
        self.start()

    def close(self) -> None:
        """Kill it if it runs; may be called again."""
        if self._process is not None:
            self.kill()

    # what it holds

    def _line(self) -> bytes:
        assert self._control is not None, "memcached does not run"
        while b"\r\n" not in self._buffer:
            data = self._control.recv(65536)
            assert data, "memcached closed the test's connection"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _ask(self, command: bytes) -> bytes:
        assert self._control is not None, "memcached does not run"
        self._control.sendall(command)
        return self._line()

    def put(
        self, key: int | str, value: object, flags: int = 0, exptime: int = 0
    ) -> None:
        """Store a value.

        Args:
            key: 1 to 250 bytes.
            value: bytes and str as they are, anything else as JSON.
            flags: a number that clients use as they like.
            exptime: seconds, 0 for ever.
        """
        data = to_bytes(value)
        head = f"set {key} {flags} {exptime} {len(data)}\r\n".encode()
        answer = self._ask(head + data + b"\r\n")
        assert answer == b"STORED", answer

    def put_many(self, values: dict[str, str]) -> None:
        """Store many values in one go."""
        assert self._control is not None
        command = b"".join(
            f"set {k} 0 0 {len(v.encode())} noreply\r\n{v}\r\n".encode()
            for k, v in values.items()
        )
        self._control.sendall(command)
        self.stats()

    def delete(self, key: int | str) -> None:
        """Remove a key."""
        answer = self._ask(f"delete {key}\r\n".encode())
        assert answer == b"DELETED", answer

    def flush(self) -> None:
        """Remove all keys."""
        assert self._ask(b"flush_all\r\n") == b"OK"

    def has(self, key: int | str) -> bool:
        """Tell whether it holds a key; counts as a hit or a miss."""
        answer = self._ask(f"get {key}\r\n".encode())
        if answer == b"END":
            return False
        size = int(answer.split()[3])
        assert self._control is not None
        while len(self._buffer) < size + 2:
            self._buffer += self._control.recv(65536)
        self._buffer = self._buffer[size + 2 :]
        assert self._line() == b"END"
        return True

    # what it counts

    def stats(self) -> dict[str, str]:
        """Return what ``stats`` says."""
        line = self._ask(b"stats\r\n")
        found = {}
        while line != b"END":
            _, name, value = line.decode().split(" ", 2)
            found[name] = value
            line = self._line()
        return found

    def count(self, name: str) -> int:
        """Return a number of ``stats``, such as cmd_get: keys asked for."""
        return int(self.stats()[name])

    def accepted(self) -> int:
        """Return how many connections others have made since the start."""
        return self.count("total_connections") - self._connections

    def clients(self) -> int:
        """Return how many connections others have at this moment."""
        line = self._ask(b"stats conns\r\n")
        states: dict[str, dict[str, str]] = {}
        while line != b"END":
            _, name, value = line.decode().split(" ", 2)
            number, _, field = name.partition(":")
            states.setdefault(number, {})[field] = value
            line = self._line()
        serving = [s for s in states.values() if s.get("state") != "conn_listening"]
        return len(serving) - 1
