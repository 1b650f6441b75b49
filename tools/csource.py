"""Reading C files for the checkers: finding them, and blanking what is not code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(
    r"""
    (?P<block>/\*.*?(?:\*/|\Z))
  | (?P<line>//(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"?)
  | (?P<char>'(?:[^'\\\n]|\\.)*'?)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, order=True)
class Problem:
    """A broken rule.

    Args:
        path: the file, relative to the repository.
        line: counted from 1.
        message: what is wrong and, where it is not plain, what to write.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def code_only(text: str, strings: bool = False) -> str:
    """Replace comments by spaces, and the insides of literals too.

    Args:
        text: a C file.
        strings: leave literals as they are.

    Returns:
        A text of the same length with the same line ends.
    """

    def replace(match: re.Match[str]) -> str:
        found = match.group()
        if match.lastgroup in ("block", "line"):
            return _blank(found)
        if strings or len(found) < 2:
            return found
        return found[0] + _blank(found[1:-1]) + found[-1]

    return _TOKEN.sub(replace, text)


def line_comments(text: str) -> list[int]:
    """Return the line numbers, from 1, of ``//`` comments."""
    return [
        text.count("\n", 0, match.start()) + 1
        for match in _TOKEN.finditer(text)
        if match.lastgroup == "line"
    ]


def c_files(root: Path, *folders: str) -> list[Path]:
    """Return the .c and .h files below folders of ``root``, sorted.

    Args:
        root: the repository.
        folders: relative to it; one that is not there holds no files.
    """
    return sorted(
        path
        for folder in folders
        for path in (root / folder).rglob("*.[ch]")
        if path.is_file()
    )
