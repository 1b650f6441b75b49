"""What all tests here take."""

import sys
from pathlib import Path

import pytest

from bench import oha
from bench.tests import paced


@pytest.fixture(autouse=True, scope="session")
def paced_for_oha(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have a stand-in for oha, which nobody has to compile.

    It is the one that is found for the rest of the run, even where oha itself is
    there, so that the tests are the same everywhere.
    """
    folder: Path = tmp_path_factory.mktemp("oha")
    program = folder / "oha"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -E -S "{paced.__file__}" "$@"\n'
    )
    program.chmod(0o755)
    folder.chmod(0o755)
    oha._BUILT = folder
