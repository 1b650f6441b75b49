"""scan: the files below a directory into a store, by an ID in their names."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from re import Pattern

from sendfilectl.contract import Record, check_key, check_path, encode, show
from sendfilectl.errors import CtlError, Refused, UsageError
from sendfilectl.output import Output
from sendfilectl.stores import Item

# as $sendfile_id
MAX_DIGITS = 20

_DIGITS = re.compile(rb"[0-9]+")
_PROGRESS_EVERY = 500


@dataclass(frozen=True)
class Rules:
    """Which files are taken, and which ID they get.

    Attributes:
        id_regex: searched in the relative path; the group called "id" is the
            ID, else all groups in a row, else the whole match. None: the last
            run of digits in the file's name without its extension.
        strip_zeros: leading zeros of the ID are dropped.
        patterns: globs, one of which the file's name has to match, if any.
        hidden: take names that start with a dot.
        follow: follow symbolic links that stay below the directory.
    """

    id_regex: Pattern[bytes] | None = None
    strip_zeros: bool = False
    patterns: Sequence[str] = ()
    hidden: bool = False
    follow: bool = False


@dataclass
class Found:
    """What a scan found.

    Attributes:
        paths: ID to path.
        bad: files that cannot be stored and directories that cannot be read.
        no_id: files whose names hold no ID.
        links: symbolic links that were passed over.
    """

    paths: dict[bytes, bytes] = field(default_factory=dict)
    bad: list[tuple[bytes, str]] = field(default_factory=list)
    no_id: int = 0
    links: int = 0


def compile_regex(text: str | None) -> Pattern[bytes] | None:
    """The pattern of --id-regex.

    Raises:
        UsageError: it is no regular expression.
    """
    if text is None:
        return None
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise UsageError(f"--id-regex '{text}': {error}") from None


def id_of(path: bytes, rules: Rules) -> bytes | None:
    """The ID of a file, None if its name holds none.

    Args:
        path: relative to the directory.
        rules: how to find it.
    """
    if rules.id_regex is None:
        stem = os.path.splitext(os.path.basename(path))[0]
        runs = _DIGITS.findall(stem)
        found: bytes = runs[-1] if runs else b""
    else:
        match = rules.id_regex.search(path)
        if match is None:
            return None
        if "id" in rules.id_regex.groupindex:
            found = match.group("id") or b""
        elif rules.id_regex.groups:
            found = b"".join(group or b"" for group in match.groups())
        else:
            found = match.group()
    if rules.strip_zeros:
        found = found.lstrip(b"0") or found[-1:]
    if rules.id_regex is None and len(found) > MAX_DIGITS:
        return None
    return found or None


def scan(directory: str, rules: Rules, out: Output) -> Found:
    """Walks a directory, in the order of the names.

    An ID that two files have gets neither of them, since only one of them
    can be right.

    Raises:
        CtlError: the directory cannot be read.
    """
    found = Found()
    twice: dict[bytes, list[bytes]] = {}
    patterns = [re.compile(fnmatch.translate(p)) for p in rules.patterns]
    seen = 0
    with out.progress("scanning", None) as progress:
        for path in _walk(directory, rules, found):
            seen += 1
            if not seen % _PROGRESS_EVERY:
                progress(seen)
            name = os.fsdecode(os.path.basename(path))
            if patterns and not any(p.match(name) for p in patterns):
                continue
            try:
                key = id_of(path, rules)
                if key is None:
                    found.no_id += 1
                    continue
                check_key(key)
                check_path(path)
            except Refused as error:
                found.bad.append((path, str(error)))
                continue
            if key in found.paths:
                twice.setdefault(key, [found.paths[key]]).append(path)
            else:
                found.paths[key] = path
    for key, paths in twice.items():
        del found.paths[key]
        names = " and ".join(f"'{show(path)}'" for path in paths)
        found.bad.append((paths[0], f"ID {show(key)} is of {names}: none is stored"))
    return found


def items(found: Found) -> Iterator[Item]:
    """The items to store."""
    for key, path in found.paths.items():
        yield key, encode(Record(path))


def _walk(directory: str, rules: Rules, found: Found) -> Iterator[bytes]:
    """Relative paths of the regular files."""
    root = os.path.realpath(os.fsencode(directory))
    if not os.path.isdir(root):
        what = "not a directory" if os.path.exists(root) else "no such directory"
        raise CtlError(f"{directory}: {what}")
    below = root.rstrip(b"/") + b"/"
    walked: set[tuple[int, int]] = set()
    todo = [b""]
    while todo:
        prefix = todo.pop()
        try:
            info = os.stat(below + prefix)
            if rules.follow:
                if (info.st_dev, info.st_ino) in walked:
                    continue
                walked.add((info.st_dev, info.st_ino))
            with os.scandir(below + prefix) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if not prefix:
                raise CtlError(f"{directory}: {reason}") from None
            found.bad.append((prefix.rstrip(b"/"), reason))
            continue
        directories = []
        for entry in entries:
            if entry.name.startswith(b".") and not rules.hidden:
                continue
            path = prefix + entry.name
            if entry.is_symlink() and not (rules.follow and _below(below, entry.path)):
                found.links += 1
                continue
            try:
                mode = entry.stat().st_mode
            except OSError as error:
                found.bad.append((path, (error.strerror or str(error)).lower()))
                continue
            if stat.S_ISDIR(mode):
                directories.append(path + b"/")
            elif stat.S_ISREG(mode):
                yield path
        todo.extend(reversed(directories))


def _below(root: bytes, path: bytes) -> bool:
    """Whether a path leads to something below a directory (with its slash)."""
    return os.path.realpath(path).startswith(root)
