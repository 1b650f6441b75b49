"""Running one nginx: configuration, start, reload, stop, logs.

Which nginx is said by the environment:

NGX_FLAVOUR
    ``debian`` (default): the installed nginx, with the dynamic module.
    ``asan``: build/asan/nginx, the module linked in, with sanitizers.
    ``static``: build/static/nginx, the module linked in.
NGX_BINARY, NGX_MODULE
    Paths that take the place of the flavour's own.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import BinaryIO

import httpx
from ports import free_port

from . import client
from .client import Headers, Response
from .wait import PATIENCE, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
WORKER_USER = "www-data"
START_ATTEMPTS = 6
WORKER = "nginx: worker process"

STOP_TIMEOUT = PATIENCE
CHECK_TIMEOUT = 120.0

# a line like this in a log fails the test, unless the test allowed it
FATAL = re.compile(
    r"\[(?:alert|emerg|crit)\]|Sanitizer|runtime error:|signal 11"
    r"|exited on signal|open socket .*left"
)
REPORT_LINES = 60


@dataclass(frozen=True)
class Flavour:
    """An nginx and how the module gets into it.

    Args:
        name: debian, asan, static or plain (no module at all).
        binary: the nginx.
        module: the .so for load_module, None if linked in.
    """

    name: str
    binary: Path
    module: Path | None

    @functools.cached_property
    def _build(self) -> str:
        done = subprocess.run(
            [self.binary, "-V"], capture_output=True, text=True, check=True
        )
        return done.stderr

    @functools.cached_property
    def version(self) -> tuple[int, ...]:
        """Like (1, 22, 1)."""
        match = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", self._build)
        assert match, f"no version in {self._build}"
        return tuple(int(n) for n in match.groups())

    def built_with(self, module: str) -> bool:
        """Tell whether a module is in the build.

        Args:
            module: its name in ``--with-…`` and ``--without-…``, such as
                http_secure_link_module.
        """
        if f"--without-{module}" in self._build:
            return False
        default = {"http_fastcgi_module", "http_uwsgi_module", "http_scgi_module"}
        return module in default or f"--with-{module}" in self._build


def flavour_from_environment() -> Flavour:
    """Return the nginx under test, see the module's text.

    Raises:
        ValueError: NGX_FLAVOUR has an unknown value.
    """
    name = os.environ.get("NGX_FLAVOUR", "debian")
    module: Path | None = None
    if name == "debian":
        binary = Path(shutil.which("nginx") or "/usr/sbin/nginx")
        module = REPOSITORY / "build" / "ngx_http_sendfile_module.so"
    elif name in ("asan", "static"):
        binary = REPOSITORY / "build" / name / "nginx"
    else:
        raise ValueError(f"NGX_FLAVOUR={name}: not debian, asan or static")
    if path := os.environ.get("NGX_BINARY"):
        binary = Path(path)
    if path := os.environ.get("NGX_MODULE"):
        module = Path(path)
    return Flavour(name, binary, module)


@dataclass(frozen=True)
class LogEntry:
    """A line of the access log: one finished request. ``-`` is as logged."""

    method: str
    uri: str
    code: int
    sent: int
    id: str
    key: str
    status: str
    source: str
    target: str
    time: str
    reason: str


LOG_VARIABLES = {
    "method": "$request_method",
    "uri": "$request_uri",
    "code": "$status",
    "sent": "$body_bytes_sent",
    "id": "$sendfile_id",
    "key": "$sendfile_key",
    "status": "$sendfile_status",
    "source": "$sendfile_source",
    "target": "$sendfile_target",
    "time": "$sendfile_lookup_time",
    "reason": "$sendfile_reason",
}


def log_format(module: bool) -> str:
    """Return the ``log_format`` directive that LogEntry is read from."""
    values = [
        value if module or not value.startswith("$sendfile_") else "-"
        for value in (LOG_VARIABLES[f.name] for f in fields(LogEntry))
    ]
    return f"log_format nsf '{chr(9).join(values)}';"


def parse_log_line(line: str) -> LogEntry:
    """Read a line of the access log; \\xHH is undone."""
    raw = [
        re.sub(rb"\\x([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), part.encode())
        for part in line.split("\t")
    ]
    method, uri, code, sent, *rest = (r.decode(errors="surrogateescape") for r in raw)
    return LogEntry(method, uri, int(code), int(sent), *rest)


class AccessLog:
    """An access log that grows, of which each line is read once.

    Args:
        path: of the file, which may not be there yet, or be another one later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: list[LogEntry] = []
        self._file = 0
        self._read = 0

    def entries(self) -> list[LogEntry]:
        """Return what the whole lines say."""
        with self._lock:
            try:
                with self._path.open("rb") as file:
                    self._go_on(file)
            except FileNotFoundError:
                self._forget(0)
            return list(self._entries)

    def _forget(self, file: int) -> None:
        self._entries.clear()
        self._file, self._read = file, 0

    def _go_on(self, file: BinaryIO) -> None:
        stat = os.fstat(file.fileno())
        if stat.st_ino != self._file or stat.st_size < self._read:
            self._forget(stat.st_ino)
        file.seek(self._read)
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        text = whole.decode(errors="surrogateescape")
        self._entries += [parse_log_line(line) for line in text.splitlines()]
        self._read += len(whole)


@dataclass(frozen=True)
class ConfigCheck:
    """What ``nginx -t`` said of a configuration."""

    ok: bool
    output: str
    path: Path
    text: str

    def where(self, directive: str) -> str:
        """Return file:line of the only line that contains ``directive``."""
        lines = [n for n, s in enumerate(self.text.splitlines(), 1) if directive in s]
        assert len(lines) == 1, f"{directive!r} stands in lines {lines}"
        return f"{self.path}:{lines[0]}"

    def _assert_said(self, level: str, directive: str, words: tuple[str, ...]) -> None:
        said = [s for s in self.output.splitlines() if f"[{level}]" in s]
        where = re.compile(re.escape(self.where(directive)) + r"(?!\d)")
        for line in said:
            if where.search(line) and all(word in line for word in words):
                return
        raise AssertionError(
            f"no [{level}] line with {where.pattern!r} and {words} in:\n{self.output}"
        )

    def assert_fails(self, directive: str, *words: str) -> None:
        """Check that -t failed at the line of ``directive`` and said ``words``."""
        assert not self.ok, f"nginx -t accepts {directive!r}:\n{self.output}"
        self._assert_said("emerg", directive, words)

    def assert_warns(self, directive: str, *words: str) -> None:
        """Check that -t passed, with a warning at the line of ``directive``."""
        assert self.ok, self.output
        self._assert_said("warn", directive, words)

    def assert_silent(self) -> None:
        """Check that -t passed and found nothing to remark."""
        assert self.ok, self.output
        remarks = [s for s in self.output.splitlines() if "[" in s]
        assert not remarks, self.output


def render(template: str, variables: Mapping[str, str]) -> str:
    """Replace each %%NAME%% by its value, also within values.

    Raises:
        KeyError: there is no such name.
    """
    pattern = re.compile(r"%%([A-Za-z0-9_:]+)%%")
    while pattern.search(template):
        template = pattern.sub(lambda m: variables[m[1]], template)
    return template


class StartFailed(Exception):
    """nginx ended instead of serving; its output is the message."""


class Nginx:
    """One nginx with a prefix directory of its own.

    Args:
        flavour: which nginx.
        directory: the prefix; nginx.conf, logs/ and temp/ are made in it.
        template: nginx.conf with %%NAME%% for variables; %%PORT%% and
            %%PORT:name%% are free ports, chosen anew at each attempt to start.
        variables: values for the names.
    """

    def __init__(
        self,
        flavour: Flavour,
        directory: Path,
        template: str,
        variables: Mapping[str, str],
    ) -> None:
        self.flavour = flavour
        self.directory = directory
        self.conf = directory / "nginx.conf"
        self.error_log = directory / "logs" / "error.log"
        self.access_log = directory / "logs" / "access.log"
        self._log = AccessLog(self.access_log)
        self.stderr = directory / "logs" / "stderr"
        self.template = template
        self._variables = dict(variables)
        self._ports: dict[str, int] = {}
        self._allowed: list[re.Pattern[str]] = []
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("logs", "temp"):
            (directory / name).mkdir(mode=0o755, exist_ok=True)

    # configuration

    def port_of(self, name: str = "") -> int:
        """Return the port that %%PORT:name%% stands for."""
        return self._ports[f"PORT:{name}" if name else "PORT"]

    @property
    def port(self) -> int:
        """The port that %%PORT%% stands for."""
        return self.port_of()

    def write_conf(self, template: str | None = None, new_ports: bool = False) -> str:
        """Render the template to nginx.conf and return the text."""
        if template is not None:
            self.template = template
        for name in re.findall(r"%%(PORT(?::\w+)?)%%", self.template):
            if new_ports or name not in self._ports:
                self._ports[name] = self._other_port()
        ports = {name: str(port) for name, port in self._ports.items()}
        text = render(self.template, {**self._variables, **ports})
        self.conf.write_text(text)
        return text

    def _other_port(self) -> int:
        """Return a free port that no other name stands for."""
        while (port := free_port()) in self._ports.values():
            continue
        return port

    def _command(self, *arguments: str) -> list[str]:
        # without -e: what is said before the configuration is read goes to stderr
        log = ["-e", str(self.error_log)] if self.flavour.version >= (1, 19, 5) else []
        return [
            *(str(self.flavour.binary), "-p", f"{self.directory}/"),
            *("-c", str(self.conf), *log, *arguments),
        ]

    def _environment(self, leaks: bool = True) -> dict[str, str]:
        # workers read it too, and the clone may lie below a 0700 home
        suppressions = self.directory / "lsan.supp"
        if not suppressions.exists():
            suppressions.write_text(Path(__file__).with_name("lsan.supp").read_text())
            suppressions.chmod(0o644)
        return {
            **os.environ,
            "ASAN_OPTIONS": f"detect_leaks={leaks:d}:abort_on_error=0:halt_on_error=1"
            ":detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99",
            "LSAN_OPTIONS": f"suppressions={suppressions}:print_suppressions=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }

    def check_config(self) -> ConfigCheck:
        """Run ``nginx -t`` on the configuration; starts nothing."""
        text = self.write_conf()
        done = subprocess.run(
            self._command("-t"),
            check=False,
            capture_output=True,
            text=True,
            # nginx -t leaves its memory to the end of the process
            env=self._environment(leaks=False),
            timeout=CHECK_TIMEOUT,
        )
        # what is wrong with the test's configuration is also in the error log
        self.error_log.unlink(missing_ok=True)
        return ConfigCheck(done.returncode == 0, done.stderr, self.conf, text)

    # life

    def start(self) -> Nginx:
        """Start nginx and wait until it accepts connections on all its ports.

        Raises:
            StartFailed: it ended; a port that is taken is tried anew first.
        """
        for attempt in range(START_ATTEMPTS):
            self.write_conf(new_ports=attempt > 0)
            try:
                self._start_once()
                # nginx itself tries again, and has got the port now
                self.allow_log(r"bind\(\) to \S+ failed \(98: ")
                return self
            except StartFailed as failure:
                taken = "Address already in use" in str(failure)
                if not taken or attempt + 1 == START_ATTEMPTS:
                    raise
                self.error_log.unlink(missing_ok=True)
        raise AssertionError("not reached")

    def _start_once(self) -> None:
        assert self._process is None, "it is running already"
        with self.stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                self._command("-g", "daemon off;"),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,
            )
        wait_until(self._is_up, what="nginx to accept connections")

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            self._process = None
            said = self.stderr.read_text() + self.errors_text()
            # what a start that fails leaves behind is no leak of a server
            self.stderr.unlink()
            raise StartFailed(said)
        if not self.workers():
            return False
        for port in self._ports.values():
            try:
                socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            except ConnectionRefusedError:
                return False
        return True

    @property
    def running(self) -> bool:
        """True from start to stop."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The master's process ID."""
        assert self._process is not None, "it is not running"
        return self._process.pid

    def _children(self) -> dict[int, str]:
        """Return the master's living children: process ID to process title."""
        found = {}
        for tasks in Path(f"/proc/{self.pid}/task").glob("*/children"):
            for pid in tasks.read_text().split():
                try:
                    title = Path(f"/proc/{pid}/cmdline").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                text = title.replace(b"\0", b" ").decode().strip()
                # under valgrind (NGX_BINARY) nginx cannot set its title
                found[int(pid)] = WORKER if "valgrind" in text else text
        return found

    def workers(self) -> list[int]:
        """Return the process IDs of the workers that accept connections."""
        return [pid for pid, title in self._children().items() if title == WORKER]

    def all_workers(self) -> list[int]:
        """As ``workers``, with those that are shutting down."""
        return [
            pid for pid, title in self._children().items() if title.startswith(WORKER)
        ]

    def reload(self, template: str | None = None) -> None:
        """Reload, and wait until only workers of the new generation accept.

        Args:
            template: a new configuration; None keeps the old.

        Raises:
            AssertionError: nginx refused the configuration.
        """
        if template is not None:
            self.write_conf(template)
        old = set(self.workers())
        size = self.error_log.stat().st_size
        os.kill(self.pid, signal.SIGHUP)

        def new_generation() -> bool:
            said = self.error_log.read_bytes()[size:]
            assert b"[emerg]" not in said, f"reload refused:\n{said.decode()}"
            now = set(self.workers())
            return len(now) >= len(old) and not now & old

        wait_until(new_generation, what="the new workers")

    def stop(self) -> None:
        """Stop gracefully and wait for the end.

        Raises:
            AssertionError: it did not end in time (it is killed then).
        """
        if self._process is None:
            return
        process = self._process
        try:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGQUIT)
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired as timeout:
            raise AssertionError("nginx did not stop within a time") from timeout
        finally:
            self._kill_group(process)
            self._process = None

    def kill(self) -> None:
        """Kill the master and all workers at once."""
        if self._process is not None:
            self._kill_group(self._process)
            self._process = None

    def _kill_group(self, process: subprocess.Popen[bytes]) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    # logs

    def allow_log(self, pattern: str) -> None:
        """Let lines pass that ``check_logs`` would fail on."""
        self._allowed.append(re.compile(pattern))

    def errors_text(self) -> str:
        """Return the error log's text."""
        if not self.error_log.exists():
            return ""
        return self.error_log.read_text(errors="surrogateescape")

    def errors(self, *levels: str) -> list[str]:
        """Return the error log's lines of these levels.

        Args:
            levels: such as ``error`` and ``warn``; by default ``error``.
        """
        marks = [f"[{level}]" for level in levels or ("error",)]
        return [
            s for s in self.errors_text().splitlines() if any(m in s for m in marks)
        ]

    def wait_for_log(self, pattern: str, timeout: float = PATIENCE) -> str:
        """Wait for a line of the error log that matches, and return it."""

        def search() -> str:
            for line in self.errors_text().splitlines():
                if re.search(pattern, line):
                    return line
            return ""

        return wait_until(search, timeout, f"{pattern!r} in the error log")

    def check_logs(self) -> None:
        """Fail if nginx or a sanitizer complained.

        Raises:
            AssertionError: with the lines from the first complaint on.
        """
        for path in (self.error_log, self.stderr):
            if not path.exists():
                continue
            lines = path.read_text(errors="replace").splitlines()
            for n, line in enumerate(lines):
                if FATAL.search(line) and not any(
                    p.search(line) for p in self._allowed
                ):
                    report = "\n".join(lines[n : n + REPORT_LINES])
                    raise AssertionError(f"{path.name}:\n{report}")

    def access_entries(self, uri: str | None = None) -> list[LogEntry]:
        """Return the access log, or what it has of one request URI."""
        return [e for e in self._log.entries() if uri is None or e.uri == uri]

    def logged(self, uri: str, count: int = 1) -> LogEntry:
        """Wait until a request is in the access log.

        Args:
            uri: as the client sent it, with arguments.
            count: how many of them to wait for.

        Returns:
            The last of them.
        """

        def enough() -> list[LogEntry]:
            entries = self.access_entries(uri)
            return entries if len(entries) >= count else []

        return wait_until(enough, what=f"{count} log lines of {uri}")[-1]

    # requests

    def request(
        self,
        method: str,
        target: str | bytes,
        headers: Headers | None = None,
        body: bytes = b"",
        port: str = "",
    ) -> Response:
        """Send a request on a connection of its own.

        Args:
            method: such as GET.
            target: sent as it is.
            headers: besides Host and Connection.
            body: sent with Content-Length if not empty.
            port: the name of the port, as in %%PORT:name%%.
        """
        return client.request(self.port_of(port), method, target, headers, body)

    def get(
        self, target: str | bytes, headers: Headers | None = None, port: str = ""
    ) -> Response:
        """Send a GET request."""
        return self.request("GET", target, headers, port=port)

    def head(self, target: str | bytes, headers: Headers | None = None) -> Response:
        """Send a HEAD request."""
        return self.request("HEAD", target, headers)

    def post(
        self, target: str | bytes, body: bytes, headers: Headers | None = None
    ) -> Response:
        """Send a POST request."""
        return self.request("POST", target, headers, body)

    def connect(self, port: str = "") -> client.Connection:
        """Open a connection to send bytes on."""
        return client.Connection(self.port_of(port))

    def http2(self, port: str = "") -> httpx.Client:
        """Return an HTTP/2 client without TLS."""
        return client.http2_client(self.port_of(port))
