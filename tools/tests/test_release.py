"""make release makes the same bytes each time."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"


def release() -> dict[str, bytes]:
    """Run it; return what it made."""
    done = subprocess.run(
        ["sh", "tools/release.sh"],
        cwd=ROOT,
        env={**os.environ, "SIGN": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {f.name: f.read_bytes() for f in RELEASE.iterdir()}


def test_two_builds_are_equal_and_complete() -> None:
    first = release()
    second = release()
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []

    suffixes = {name.rpartition(".")[2] for name in first}
    assert {"gz", "gem", "whl", "md", "SHA256SUMS"} <= suffixes
    assert first["NOTES.md"].startswith(b"- The nginx module")
    listed = {line.split()[1] for line in first["SHA256SUMS"].decode().splitlines()}
    assert listed == first.keys() - {"SHA256SUMS"}

    (source,) = [name for name in first if name.endswith(".tar.gz")]
    with tarfile.open(RELEASE / source) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert {"config", "Makefile", "debian/control", "docs/building.md"} <= names
    assert not any(n.startswith(("build/", ".git/")) for n in names)
