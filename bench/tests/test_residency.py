"""Files kept in memory."""

import os
from pathlib import Path

import pytest

from bench.residency import in_memory


def _locked_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmLck:"):
            return int(line.split()[1])
    raise AssertionError("no VmLck")


def test_files_are_mapped_and_locked_while_the_context_lasts(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(20)]
    for path in files:
        path.write_bytes(b"x" * 5_000)
    before = _locked_kib()
    descriptors = len(os.listdir("/proc/self/fd"))
    with in_memory(files) as locked:
        assert len(os.listdir("/proc/self/fd")) == descriptors
        mapped = Path("/proc/self/maps").read_text()
        assert all(str(path) in mapped for path in files)
        assert _locked_kib() - before == (20 * 8 if locked else 0)
    assert _locked_kib() == before
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), in_memory([tmp_path / "absent"]):
        pass
