"""Varnish, which keeps what another server sends in memory."""

import shutil
from collections.abc import Callable
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

_PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_THREADS = 100

_CONFIGURATION = """\
vcl 4.1;

backend files {{
    .host = "{host}";
    .port = "{port}";
}}

sub vcl_backend_response {{
    set beresp.ttl = 1h;
}}
"""


def missing() -> str | None:
    """Say why it cannot run, None if it can."""
    if shutil.which("varnishd", path=_PATH) is None:
        return "Varnish is not installed (Debian package varnish)"
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        return "Varnish needs a C compiler for its configuration"
    return None


def varnish(name: str, core: int, backend: Callable[[], Address], size: str) -> Single:
    """Make a contestant that asks another server and keeps the answers.

    Its threads are all started at once, so that their number does not change
    within a run.

    Args:
        name: short name, unique in its table.
        core: where all of its threads run.
        backend: tells where the other server listens.
        size: of its memory, for example ``256m``.
    """

    def configuration(address: Address, directory: Path) -> str:
        command = " ".join(argv(address, Path()))
        backend_address = backend()
        return f"# {command}\n" + _CONFIGURATION.format(
            host=backend_address.host, port=backend_address.port
        )

    def argv(address: Address, directory: Path) -> list[str]:
        program = shutil.which("varnishd", path=_PATH) or "varnishd"
        return [
            *(program, "-F", "-j", "none", "-n", str(directory / "work")),
            *("-a", f"{address.host}:{address.port}"),
            *("-f", str(directory / "server.conf"), "-s", f"malloc,{size}"),
            *("-p", "thread_pools=1", "-p", f"thread_pool_min={_THREADS}"),
            *("-p", f"thread_pool_max={_THREADS}", "-p", "timeout_idle=3600"),
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=_complaints,
        processes=2,
    )


def _complaints(lines: list[str]) -> list[str]:
    return [
        line
        for line in lines
        if (line.startswith("Error:") and "got SIGTERM" not in line)
        or "Panic" in line
        or "died" in line
    ]
