"""What the tests share."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctl_harness import Ctl

# ignored in what a shell without job control starts with "&", and then in the
# programs that the tests interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)


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
