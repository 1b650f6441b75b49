"""Caddy, a server in Go."""

import json
import shutil
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

_CONFIGURATION = """\
{
    admin off
    auto_https off
    log {
        level WARN
    }
    servers {
        timeouts {
            idle 1h
        }
    }
}

http://:@PORT@ {
    bind @HOST@
    handle_path /files/* {
        root * @FILES@
        file_server
    }
}
"""


def missing() -> str | None:
    """Say why it cannot run, None if it can."""
    if shutil.which("caddy") is None:
        return "Caddy is not installed (Debian package caddy)"
    return None


def caddy(name: str, core: int, files: Path) -> Single:
    """Make a contestant that serves ``/files/...``.

    Args:
        name: short name, unique in its table.
        core: where all of its threads run.
        files: directory of the files.
    """

    def configuration(address: Address, directory: Path) -> str:
        return (
            _CONFIGURATION.replace("@HOST@", address.host)
            .replace("@PORT@", str(address.port))
            .replace("@FILES@", str(files))
        )

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            *("env", f"HOME={directory}", "caddy", "run", "--adapter", "caddyfile"),
            *("--config", str(directory / "server.conf")),
        ]

    return Single(
        name, core, argv=argv, configuration=configuration, complaints=_complaints
    )


def _complaints(lines: list[str]) -> list[str]:
    """Return what is logged as an error; what is no JSON is a crash."""
    found = []
    for line in lines:
        try:
            level = json.loads(line).get("level")
        except ValueError:
            level = "none" if line.strip() else "info"
        if level not in ("debug", "info", "warn"):
            found.append(line)
    return found
