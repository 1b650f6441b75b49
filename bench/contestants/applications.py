"""Applications that send files by themselves: Node, Sinatra with unicorn."""

import shutil
import subprocess
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

_APPS = Path(__file__).parents[1] / "apps"
_UNICORN_WORKERS = 2


def node_missing() -> str | None:
    """Say why Node cannot run, None if it can."""
    if shutil.which("node") is None:
        return "Node is not installed (Debian package nodejs)"
    return None


def node(name: str, core: int, files: Path) -> Single:
    """Make Node, one process, that serves ``/files/...``.

    Args:
        name: short name, unique in its table.
        core: where all of its threads run.
        files: directory of the files.
    """
    app = _APPS / "node.js"

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            *("env", f"BENCH_FILES={files}", f"BENCH_PORT={address.port}"),
            *("NODE_ENV=production", "node", str(app)),
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=lambda address, directory: (
            f"// {' '.join(argv(address, directory))}\n"
        ),
        complaints=lambda lines: [line for line in lines if line.strip()],
    )


def sinatra_missing() -> str | None:
    """Say why Sinatra with unicorn cannot run, None if it can."""
    if shutil.which("unicorn") is None:
        return "unicorn is not installed (Debian package unicorn)"
    ruby = shutil.which("ruby", path="/usr/bin") or "ruby"
    done = subprocess.run(
        [ruby, "-e", "require 'sinatra/base'"], capture_output=True, check=False
    )
    if done.returncode != 0:
        return "Sinatra is not installed (Debian package ruby-sinatra)"
    return None


def sinatra(name: str, core: int, files: Path) -> Single:
    """Make Sinatra with unicorn, two workers, that serves ``/files/...``.

    It closes each connection, and is meant to stand behind nginx.

    Args:
        name: short name.
        core: where all of its processes run.
        files: directory of the files.
    """
    app = _APPS / "sinatra" / "config.ru"

    def configuration(address: Address, directory: Path) -> str:
        return (
            f"# BENCH_FILES={files} unicorn -E production -c server.conf {app}\n"
            f"listen '{address.host}:{address.port}'\n"
            f"worker_processes {_UNICORN_WORKERS}\n"
            "preload_app true\n"
            f"working_directory '{directory}'\n"
        )

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            *("env", f"BENCH_FILES={files}", "unicorn", "-E", "production"),
            *("-c", str(directory / "server.conf"), str(app)),
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=_ruby_complaints,
        processes=1 + _UNICORN_WORKERS,
    )


def _ruby_complaints(lines: list[str]) -> list[str]:
    words = ("WARN -- ", "ERROR -- ", "FATAL -- ", "Error)", "Error:")
    return [line for line in lines if any(word in line for word in words)]
