"""verify: does the file of each record exist below a directory?"""

from __future__ import annotations

import os
import stat

from sendfilectl.contract import decode
from sendfilectl.errors import CtlError, Refused


class Verifier:
    """Looks for files as direct delivery does: regular, and below the root.

    Args:
        directory: the root of the files.
        symlinks: accept symbolic links that stay below the root, as
            ``http_sendfile_symlinks on`` does.

    Raises:
        CtlError: there is no such directory.
    """

    def __init__(self, directory: str, symlinks: bool = False) -> None:
        self._root = os.path.realpath(os.fsencode(directory)).rstrip(b"/")
        self._symlinks = symlinks
        self._parents: dict[bytes, str | None] = {}
        if not os.path.isdir(self._root or b"/"):
            raise CtlError(f"{directory}: no such directory")

    def check(self, value: bytes) -> str | None:
        """What is wrong with the file of a value, None if it is there."""
        try:
            path = decode(value).path
        except Refused as error:
            return str(error)
        parent = os.path.dirname(path)
        if parent not in self._parents:
            if len(self._parents) > 100_000:
                self._parents.clear()
            self._parents[parent] = self._place(parent)
        return self._parents[parent] or self._file(path)

    def path_of(self, value: bytes) -> bytes:
        """The path of a value, empty if it is no record."""
        try:
            return decode(value).path
        except Refused:
            return b""

    def _file(self, path: bytes) -> str | None:
        full = self._root + b"/" + path
        try:
            mode = os.lstat(full).st_mode
            if stat.S_ISLNK(mode):
                wrong = self._place(path)
                if wrong:
                    return wrong
                mode = os.stat(full).st_mode
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return None if stat.S_ISREG(mode) else "not a regular file"

    def _place(self, path: bytes) -> str | None:
        """What is wrong with where a path leads to."""
        full = self._root + b"/" + path if path else self._root
        real = os.path.realpath(full)
        if real == full:
            return None
        if real != self._root and not real.startswith(self._root + b"/"):
            return "a symbolic link leads out of the directory"
        if not self._symlinks:
            return "has a symbolic link in its path"
        return None
