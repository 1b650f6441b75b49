"""What the tests share."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ctl_harness import Ctl
from memcached_harness import Memcached

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


@pytest.fixture
def start_memcached(tmp_path: Path) -> Iterator[Callable[..., Memcached]]:
    """Starts memcached processes, with the options of Memcached."""
    started: list[Memcached] = []

    def start(*options: str, **where: Any) -> Memcached:
        started.append(Memcached(tmp_path, options, **where))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def memcached(start_memcached: Callable[..., Memcached]) -> Memcached:
    """One memcached."""
    return start_memcached()


@pytest.fixture
def three(start_memcached: Callable[..., Memcached]) -> list[Memcached]:
    """Three of them."""
    return [start_memcached() for _ in range(3)]
