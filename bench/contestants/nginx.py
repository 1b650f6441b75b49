"""nginx with one worker on a core of its own, with or without a module."""

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.model import Address, BenchError, ContestantError
from bench.process import Child, children, free_address, wait_for, wait_listening

_START_TIMEOUT = 60.0
_ATTEMPTS = 3
_DESCRIPTORS = 40_000
_COMPLAINT = re.compile(r"\[(?:error|crit|alert|emerg)\]|Sanitizer|runtime error:")

_TEMPLATE = """\
# Contestant {name}
{load_module}daemon off;
pid nginx.pid;
error_log error.log warn;
{user}worker_processes {workers};
worker_cpu_affinity {mask};
worker_rlimit_nofile {descriptors};

events {{
    worker_connections 1024;
}}

http {{
    client_body_temp_path temp/body;
    proxy_temp_path temp/proxy;
    fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi;
    scgi_temp_path temp/scgi;

    types {{
        text/html html;
        text/plain txt;
        image/jpeg jpg jpeg;
        application/pdf pdf;
    }}
    default_type application/octet-stream;

    sendfile on;
    tcp_nopush on;
{log}    keepalive_timeout 1h;
    keepalive_requests 1000000000;
{http}
    server {{
        listen {host}:{port}{listen};

{server}    }}
}}
"""


DEBIAN = Path("/usr/sbin/nginx")


@dataclass(frozen=True)
class NginxProgram:
    """Which nginx runs, and where.

    ``module`` is loaded by the contestants that need it; None if it is linked
    in. ``worker_core`` takes the worker, ``other_core`` the master and, if there
    are two workers, the second.
    """

    binary: Path
    module: Path | None
    worker_core: int
    other_core: int

    @property
    def packaged(self) -> bool:
        """Whether it is Debian's, for which Debian's modules are."""
        return self.binary.resolve() == DEBIAN.resolve()

    def version(self) -> str:
        """Return what ``nginx -v`` prints."""
        shown = subprocess.run(
            [str(self.binary), "-v"], capture_output=True, text=True, check=False
        )
        return shown.stderr.strip().removeprefix("nginx version: ")

    def check(self) -> None:
        """Check that it can be run here.

        Raises:
            BenchError: there is no such program.
        """
        if not os.access(self.binary, os.X_OK):
            raise BenchError(f"there is no nginx at {self.binary}")

    @property
    def descriptors(self) -> int:
        """How many file descriptors a worker may have: 40,000 if possible."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard == resource.RLIM_INFINITY:
            return _DESCRIPTORS
        return min(_DESCRIPTORS, hard)


def _indented(lines: str, columns: int) -> str:
    return "".join(
        f"{' ' * columns}{line}\n" if line else "\n"
        for line in lines.strip().splitlines()
    )


class Nginx:
    """An nginx contestant.

    Args:
        name: short name, unique in its table.
        program: which nginx.
        server: lines of the ``server`` block, or what returns them when they
            are needed: the address of a store is not known before it runs.
        needs_module: whether the module is loaded.
        others: further modules to load.
        http: lines of the ``http`` block, or what returns them.
        workers: 1, or 2 on both cores: then each has a listening socket of
            its own (``reuseport``), so that both get connections.
        certificate: if given, it speaks TLS only, with this PEM file that
            holds the key, too.
        log_format: if given, each request is logged in this format (buffered)
            to :attr:`access_log`; else access_log is off.
    """

    def __init__(
        self,
        name: str,
        program: NginxProgram,
        server: str | Callable[[], str],
        *,
        needs_module: bool = False,
        others: Sequence[Path] = (),
        http: str | Callable[[], str] = "",
        workers: int = 1,
        certificate: Path | None = None,
        log_format: str | None = None,
    ) -> None:
        if workers not in (1, 2):
            raise ValueError("there are two cores")
        self._name = name
        self._program = program
        self._server = server
        self._needs_module = needs_module
        self._others = others
        self._http = http
        self._workers = workers
        self._certificate = certificate
        self._log_format = log_format
        self._directory: Path | None = None
        self._address: Address | None = None
        self._child: Child | None = None

    def logging(self, log_format: str) -> "Nginx":
        """Return the same contestant with an access log.

        Args:
            log_format: of nginx, for example ``"$sendfile_status"``.
        """
        return Nginx(
            f"{self._name}-log",
            self._program,
            self._server,
            needs_module=self._needs_module,
            others=self._others,
            http=self._http,
            workers=self._workers,
            certificate=self._certificate,
            log_format=log_format,
        )

    def counting(self) -> "Nginx":
        """Return the same contestant with a status location, so that it counts."""
        server = self._server

        def counted() -> str:
            lines = server if isinstance(server, str) else server()
            return lines + "\nlocation /counters { http_sendfile_status; }\n"

        return Nginx(
            f"{self._name}-counting",
            self._program,
            counted,
            needs_module=self._needs_module,
            others=self._others,
            http=self._http,
            workers=self._workers,
            certificate=self._certificate,
            log_format=self._log_format,
        )

    @property
    def name(self) -> str:
        """The contestant's short name."""
        return self._name

    @property
    def address(self) -> Address:
        """Where it listens."""
        if self._address is None:
            raise RuntimeError(f"{self._name} is not configured")
        return self._address

    @property
    def access_log(self) -> Path:
        """The log of a contestant that was made with a log format."""
        return self._own_directory / "access.log"

    @property
    def _own_directory(self) -> Path:
        if self._directory is None:
            raise RuntimeError(f"{self._name} is not configured")
        return self._directory

    def configure(self, directory: Path) -> None:
        """Write nginx.conf for a free port.

        Args:
            directory: becomes nginx's prefix.
        """
        self._directory = directory
        self._address = replace(free_address(), certificate=self._certificate)
        (directory / "temp").mkdir(exist_ok=True)
        (directory / "nginx.conf").write_text(self.configuration())

    def configuration(self) -> str:
        """Return nginx.conf."""
        modules = []
        if self._needs_module and self._program.module is not None:
            modules.append(self._program.module)
        modules += self._others
        server = self._server() if callable(self._server) else self._server
        http = self._http() if callable(self._http) else self._http
        log = "    access_log off;\n"
        if self._log_format is not None:
            log = (
                # A load generator that stops cuts off what is under way (499).
                "    map $status $bench_whole { 499 0; default 1; }\n"
                f"    log_format bench '{self._log_format}';\n"
                "    access_log access.log bench buffer=64k flush=100ms"
                " if=$bench_whole;\n"
            )
        return _TEMPLATE.format(
            name=self._name,
            load_module="".join(f"load_module {module};\n" for module in modules),
            user="user root;\n" if os.geteuid() == 0 else "",
            workers=self._workers,
            mask=" ".join("1" + "0" * core for core in self._cores),
            descriptors=self._program.descriptors,
            log=log,
            host=self.address.host,
            port=self.address.port,
            listen=self._listen_options(),
            http=_indented(http, 4),
            server=_indented(self._tls() + server, 8),
        )

    @property
    def _cores(self) -> tuple[int, ...]:
        program = self._program
        return (program.worker_core, program.other_core)[: self._workers]

    def _listen_options(self) -> str:
        tls = " ssl" if self._certificate else ""
        return tls + (" reuseport" if self._workers > 1 else "")

    def _tls(self) -> str:
        if self._certificate is None:
            return ""
        return (
            f"ssl_certificate {self._certificate};\n"
            f"ssl_certificate_key {self._certificate};\n"
            "ssl_protocols TLSv1.3;\n"
            "\n"
        )

    def start(self) -> None:
        """Start nginx; another process may take the port, so try again.

        Raises:
            ContestantError: nginx ended or never listened.
        """
        for _ in range(_ATTEMPTS):
            if self._try_start():
                return
            self.stop()
            if "Address already in use" not in self._log():
                break
            self.configure(self._own_directory)
        raise ContestantError("start", f"nginx did not start: {self._log()[-600:]}")

    def _try_start(self) -> bool:
        directory = self._own_directory
        (directory / "error.log").unlink(missing_ok=True)
        self._child = Child(
            [
                str(self._program.binary),
                "-p",
                f"{directory}/",
                "-e",
                "error.log",
                "-c",
                "nginx.conf",
            ],
            core=self._program.other_core,
            output=directory / "output.log",
            cwd=directory,
        )
        return wait_listening(self.address, self._child, _START_TIMEOUT) and wait_for(
            self._complete, _START_TIMEOUT
        )

    def _complete(self) -> bool:
        """Say whether the workers are there, each on its core."""
        try:
            found = [os.sched_getaffinity(pid) for pid in self.pids()]
        except ProcessLookupError:
            return False
        return sorted(map(tuple, found)) == [(core,) for core in sorted(self._cores)]

    def pids(self) -> frozenset[int]:
        """Return the workers."""
        return children(self._child.pid) if self._child else frozenset()

    def _log(self) -> str:
        texts = []
        for name in ("output.log", "error.log"):
            path = self._own_directory / name
            if path.exists():
                texts.append(path.read_text(errors="replace").strip())
        return "\n".join(texts)

    def complaints(self) -> list[str]:
        """Return lines of the error log of level error and above."""
        lines = self._log().splitlines()
        return [line for line in lines if _COMPLAINT.search(line)]

    def begin_log(self) -> None:
        """Begin the access log anew; what was logged so far is kept apart.

        Raises:
            ContestantError: a worker does not reopen its log.
        """
        log = self.access_log
        log.rename(log.with_suffix(".before"))
        for worker in self.pids():
            os.kill(worker, signal.SIGUSR1)
        if not wait_for(log.exists, _START_TIMEOUT):
            raise ContestantError("log", "the worker did not reopen its log")

    def stop(self) -> None:
        """End the master and its workers."""
        if self._child is not None:
            self._child.stop()
            self._child = None
