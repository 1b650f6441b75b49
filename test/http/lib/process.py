"""What the kernel says of a process: descriptors and mappings."""

from __future__ import annotations

import os
from pathlib import Path


def open_files(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to, such as paths.

    A file that is unlinked ends in " (deleted)".
    """
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(link))
        except FileNotFoundError:
            continue
    return found


def mappings(pid: int, path: str | os.PathLike[str]) -> list[str]:
    """Return the lines of /proc/PID/maps that map a file, deleted or not."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    names = (str(path), f"{path} (deleted)")
    return [
        s for s in lines if s.split(maxsplit=5)[5:] and s.split(maxsplit=5)[5] in names
    ]
