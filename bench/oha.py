"""oha: requests at a fixed rate, answered or not."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sendfilectl import oha
from sendfilectl.errors import CtlError

from bench.model import Address, BenchError, ContestantError
from bench.process import Child

_BUILT = Path(__file__).resolve().parents[1] / "build" / "oha" / "bin"
_TIMEOUT = 2.0
_LONGEST = 120


class Oha:
    """oha on one core.

    Args:
        core: the core it runs on.
        connections: how many it may open.

    Raises:
        BenchError: oha is not there.
    """

    def __init__(self, core: int, connections: int) -> None:
        path = os.pathsep.join([str(_BUILT), os.environ.get("PATH", "")])
        program = shutil.which("oha", path=path)
        if program is None:
            raise BenchError("oha is not there: tools/oha.sh builds it")
        self._program = program
        self._core = core
        self._connections = connections

    def run(
        self, address: Address, paths: Iterable[str], rate: int, milliseconds: int
    ) -> oha.Measured:
        """Request paths, drawn at random, at a rate.

        Latencies count from the moment at which a request was due; one that
        takes over two seconds has no answer.

        Args:
            address: whom to ask.
            paths: URL paths.
            rate: requests a second.
            milliseconds: how long.

        Raises:
            ContestantError: oha failed.
        """
        root = address.url.removesuffix("/")
        with tempfile.TemporaryDirectory() as temp:
            directory = Path(temp)
            listed, report = directory / "urls", directory / "report"
            listed.write_text("".join(f"{root}{path}\n" for path in paths))
            child = Child(
                oha.command(
                    self._program,
                    str(listed),
                    str(report),
                    rate,
                    milliseconds,
                    self._connections,
                    _TIMEOUT,
                ),
                core=self._core,
                output=directory / "output",
                cwd=directory,
            )
            try:
                code = child.wait(_LONGEST)
            except subprocess.TimeoutExpired as error:
                raise ContestantError("oha", "it did not end in time") from error
            finally:
                child.stop()
            if code != 0 or not report.exists():
                said = (directory / "output").read_text(errors="replace")
                raise ContestantError("oha", said.strip()[-300:] or f"exit code {code}")
            try:
                return oha.parse(report.read_text())
            except CtlError as error:
                raise ContestantError("oha", str(error)) from error

    def version(self) -> str:
        """Return oha's name and version."""
        shown = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=False
        )
        return shown.stdout.strip()
