"""The repository stays light: a clone is quick, and nothing in it is ballast."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Bytes. Sources, tests and documents are 4.6 MB of it; measurements are kept as
# summaries, and no file holds raw data.
WHOLE = 6_656 * 1024
FILE = 128 * 1024

README_LINES = 250


def tracked() -> list[Path]:
    """Return the files that git tracks or is about to."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    assert len(files) > 500
    return [file for file in files if file.is_file()]


def test_repository_is_light() -> None:
    assert sum(file.stat().st_size for file in tracked()) < WHOLE


def test_no_file_is_heavy() -> None:
    heavy = {str(f): f.stat().st_size for f in tracked() if f.stat().st_size > FILE}
    assert not heavy


def test_charts_are_drawn_as_svg_only() -> None:
    suffixes = {f.suffix for f in tracked() if f.is_relative_to(ROOT / "docs")}
    assert suffixes == {".md", ".svg"}


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_readme_is_short_and_begins_with_a_picture(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES
    assert any(line.startswith("![") for line in lines[:5])
