"""Compiles the benchmark's own C programs."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.model import ContestantError

FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror")


def find() -> str | None:
    """Return the path of the compiler that CC names, else of cc or gcc."""
    named = os.environ.get("CC")
    if named:
        return shutil.which(named)
    return shutil.which("cc") or shutil.which("gcc")


def build(program: Path, sources: Sequence[Path], options: Sequence[str] = ()) -> None:
    """Compile a program.

    Args:
        program: where it goes.
        sources: C files.
        options: put behind the sources, for example libraries.

    Raises:
        ContestantError: there is no compiler, or it refuses.
    """
    compiler = find()
    if compiler is None:
        raise ContestantError("build", "there is no C compiler")
    done = subprocess.run(
        [compiler, *FLAGS, "-o", str(program), *map(str, sources), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ContestantError("build", done.stderr.strip()[-600:])
