"""h2o, one thread."""

import getpass
import shutil
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

# Itself, and one that waits for it to crash and prints where.
_PROCESSES = 2

# Files are sent as they are, in one thread; keep-alive as long as a run may
# pause. Its cache of open files is always on.
_CONFIGURATION = """\
user: @USER@
num-threads: 1
max-connections: 1024
http1-request-timeout: 3600
pid-file: @DIRECTORY@/h2o.pid
error-log: @DIRECTORY@/error.log
listen:
  host: @HOST@
  port: @PORT@
hosts:
  default:
    paths:
      /files/:
        file.dir: @FILES@
        file.send-compressed: OFF
"""


def missing() -> str | None:
    """Say why it cannot run, None if it can."""
    if shutil.which("h2o") is None:
        return "h2o is not installed (Debian package h2o)"
    return None


def h2o(name: str, core: int, files: Path) -> Single:
    """Make a contestant that serves ``/files/...``.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        files: directory of the files.
    """

    def configuration(address: Address, directory: Path) -> str:
        return (
            _CONFIGURATION.replace("@HOST@", address.host)
            .replace("@PORT@", str(address.port))
            .replace("@DIRECTORY@", str(directory))
            .replace("@FILES@", str(files))
            .replace("@USER@", getpass.getuser())
        )

    def argv(address: Address, directory: Path) -> list[str]:
        return ["h2o", "--mode=worker", "--conf", str(directory / "server.conf")]

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=_complaints,
        processes=_PROCESSES,
    )


def _complaints(lines: list[str]) -> list[str]:
    """Return all but what it says when it starts and ends."""
    usual = ("is ready to serve", "received SIGTERM", "exitting", "[INFO]")
    usual_warning = "raised RLIMIT_NOFILE"
    return [
        line
        for line in lines
        if line.strip() and not any(u in line for u in (*usual, usual_warning))
    ]
