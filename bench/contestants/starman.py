"""Starman, a Perl server that keeps connections, of HTTP/1.0 too."""

import shutil
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

_APP = Path(__file__).parents[1] / "apps" / "psgi" / "hello.psgi"
_USUAL = (
    *("Process Backgrounded", "Server closing!", "Binding to TCP port"),
    *("Setting gid", "Setting uid", "starting! pid", "Resolved ", "Starman::"),
)


def missing() -> str | None:
    """Say why it cannot run, None if it can."""
    if shutil.which("starman") is None:
        return "Starman is not installed (Debian package starman)"
    return None


def starman(name: str, core: int, workers: int, body: str) -> Single:
    """Make it with an application that answers everything alike.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        workers: processes, each of which serves one connection at a time.
        body: of its answers.
    """

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            *("env", f"BENCH_BODY={body}", "starman", "--env", "deployment"),
            *("--workers", str(workers), "--max-requests", "1000000000"),
            *("--keepalive-timeout", "60", "--preload-app"),
            *("--listen", f"{address.host}:{address.port}"),
            *("--error-log", str(directory / "error.log"), str(_APP)),
        ]

    def configuration(address: Address, directory: Path) -> str:
        return f"# {' '.join(argv(address, directory))}\n"

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=_complaints,
        processes=1 + workers,
    )


def _complaints(lines: list[str]) -> list[str]:
    """Return all but what it says when it starts and when it is stopped."""
    return [
        line
        for line in lines
        if line.strip() and not any(usual in line for usual in _USUAL)
    ]
