"""Files that contain their own ID on every line."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_SIZE = 400


def content(file_id: int | str, size: int = DEFAULT_SIZE) -> bytes:
    """Return ``size`` bytes that say ``file_id`` on every line.

    The line length does not depend on the position, and the position stands
    in the line, so any slice tells where it was cut from.
    """
    line = len(f"ID:{file_id} 00000000\n")
    count = size // line + 1
    text = "".join(f"ID:{file_id} {n:08}\n" for n in range(count))
    return text.encode()[:size]


class Files:
    """A tree of files below a directory that nginx's workers can read.

    Args:
        root: the directory, made here with mode 0755.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o755)

    def path(self, name: str | bytes) -> Path:
        """Return where a file of that relative name lies."""
        return self.root / os.fsdecode(name)

    def read(self, name: str | bytes) -> bytes:
        """Return what a file holds."""
        return self.path(name).read_bytes()

    def write(self, name: str | bytes, data: bytes) -> Path:
        """Write a file, with the directories above it.

        Args:
            name: relative to the root, any bytes a file name may have.
            data: what it holds.
        """
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o644)
        return path

    def write_id(
        self, name: str | bytes, file_id: int | str, size: int = DEFAULT_SIZE
    ) -> Path:
        """Write a file of ``size`` bytes that says its ID."""
        return self.write(name, content(file_id, size))

    def write_sparse(self, name: str, file_id: int | str, size: int) -> bytes:
        """Write a big file that is a hole but for its ends, which say its ID.

        Returns:
            What stands at its beginning, and as well at its end.
        """
        mark = content(file_id, 4096)
        path = self.write(name, mark)
        with path.open("r+b") as file:
            file.seek(size - len(mark))
            file.write(mark)
        return mark
