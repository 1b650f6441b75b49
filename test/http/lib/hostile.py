"""Paths that try to leave the directory they are meant for, and what betrays it.

A canary lies outside of every root. No answer may hold a byte of it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from .client import Response
from .nginx import Nginx

CANARY = b"CANARY:%x\n" % random.getrandbits(64)

LOG_LINE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[\w+\] \d+#\d+: ")

DOTS: list[bytes] = [
    b"..",
    b"...",
    b"....",
    b".",
    b"",
    b" ..",
    b".. ",
    b"..\t",
    b"..\r",
    b"..\n",
    b"..\0",
    b"\0..",
    b"..;",
    b"..;x=y",
    b"%2e%2e",
    b"%2E%2E",
    b".%2e",
    b"%2e.",
    b"%252e%252e",
    b"%u002e%u002e",
    b"%c0%ae%c0%ae",
    b"%c0%2e%c0%2e",
    b"..%00",
    b"..%0d%0a",
    b"..%5c",
    b"..\\",
    b"..?",
    b"..#",
    b"~",
    b"~root",
    b"\xc0\xae\xc0\xae",
    b"\xe0\x80\xae\xe0\x80\xae",
    "․․".encode(),  # U+2024
    "‥".encode(),  # U+2025
    "．．".encode(),  # U+FF0E
    "。。".encode(),  # U+3002
    "\u202e..".encode(),
    "\u200b..".encode(),
    "\ufeff..".encode(),
    b"../.",
    b"./..",
    b"x/../..",
    b"aa/../..",
    b"aa/1.dat/../../..",
    b"....//",
    b"..././",
]

SLASHES: list[bytes] = [
    b"/",
    b"/",
    b"/",
    b"/",
    b"//",
    b"///",
    b"/./",
    b"\\",
    b"\\/",
    b"/\\",
    b"%2f",
    b"%2F",
    b"%5c",
    b"%252f",
    b"%c0%af",
    b"\xc0\xaf",
    b"\0/",
    b"/\0",
    b"\n/",
    b"?/",
    b"#/",
    b";/",
    "∕".encode(),  # U+2215
    "／".encode(),  # U+FF0F
    "⁄".encode(),  # U+2044
    "\u29f8".encode(),
]

STARTS: list[bytes] = [
    b"",
    b"",
    b"",
    b"",
    b"/",
    b"//",
    b"./",
    b"aa/",
    b"aa/../",
    b"aa/1.dat/",
    b"\\",
    b"file://",
    b"file:///",
    b"C:\\",
    b"\\\\?\\",
    b"~/",
    b"\0",
    b" ",
    b"%00",
    b"proc/self/root/",
    b"/proc/self/root",
    b"/proc/self/cwd/",
    b"/dev/fd/0/",
]

ENDS: list[bytes] = [
    b"",
    b"",
    b"",
    b"/",
    b"/.",
    b"/..",
    b"\0",
    b"\0.dat",
    b"%00",
    b"%00.dat",
    b"\n",
    b" ",
    b".",
    b"?",
    b"#",
    b"?x=.dat",
    b"#.dat",
    b";.dat",
    b"::$DATA",
    b"\\",
]


def paths(count: int, targets: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """Generate hostile paths.

    The first ones are the plain traversals, every depth of each target.

    Args:
        count: how many.
        targets: absolute paths to get at.
        chance: makes the choice.
    """
    given = 0
    for target in targets:
        for depth in range(12):
            for start in (b"", b"/", b"aa/", b"./"):
                if given == count:
                    return
                yield start + b"../" * depth + target.lstrip(b"/")
                given += 1
    while given < count:
        parts = [chance.choice(STARTS)]
        for _ in range(chance.choice((0, 1, 2, 3, 5, 8, 40))):
            parts += [chance.choice(DOTS), chance.choice(SLASHES)]
        target = chance.choice(targets)
        parts.append(chance.choice((target, target.lstrip(b"/"), target[1:])))
        parts.append(chance.choice(ENDS))
        if chance.random() < 0.02:
            parts.insert(1, chance.choice((b"a", b"a/", b"../")) * 2000)
        path = b"".join(parts)
        if chance.random() < 0.1:
            path = path.replace(b"/", chance.choice(SLASHES))
        yield path
        given += 1


def plant_canary(directory: Path) -> Path:
    """Write canaries into a site's directory, where its files are in files/.

    Returns:
        The one above the files; there are others where a ``..`` leads, and in
        directories whose names begin like that of the files.
    """
    for name in (
        *("canary.dat", "aa/1.dat", "1.dat"),
        *("files2/aa/1.dat", "files-private/1.dat", "files-private/aa/1.dat"),
    ):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CANARY * 40)
        path.chmod(0o644)
    return directory / "canary.dat"


def assert_clean(response: Response) -> None:
    """Check that an answer holds nothing of the canary or of /etc/passwd."""
    assert b"CANARY" not in response.body
    assert b"root:" not in response.body


def assert_one_line_each(nginx: Nginx) -> None:
    """Check that every line of the error log is one of nginx's own."""
    log = nginx.error_log.read_bytes().decode("latin-1")
    for line in log.split("\n")[:-1]:
        assert LOG_LINE.match(line), line
        assert not any(ord(c) < 0x20 and c != "\t" for c in line), repr(line)
