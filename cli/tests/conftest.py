"""What the tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctl_harness import Ctl


@pytest.fixture
def ctl(tmp_path: Path) -> Ctl:
    """The program with a store that does not exist yet."""
    return Ctl(tmp_path / "ids")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter and write to."""
    path = Path(tempfile.mkdtemp(prefix="sendfilectl-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)
