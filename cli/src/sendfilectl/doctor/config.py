"""nginx's configuration as a tree, read as ngx_conf_file.c reads it.

What ``nginx -T`` prints is the text of each file after a line with its name.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

_HEAD = re.compile(r"^# configuration file (.*):$", re.MULTILINE)

# after the block's arguments its text is a program's, braces and all
_PROGRAMS = re.compile(r"\w+_by_lua_block")

_DEPTH = 64

_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}
_QUOTED = "\"'\\"


@dataclass(frozen=True)
class Directive:
    """One directive.

    Attributes:
        name: its first word.
        args: the others.
        file: where it is written.
        line: the line there.
        block: the directives between its braces; None if it ends with ";".
    """

    name: str
    args: tuple[str, ...]
    file: str
    line: int
    block: tuple[Directive, ...] | None = None

    def find(self, *names: str) -> Iterator[Directive]:
        """The directives of some names right within its block."""
        for inner in self.block or ():
            if inner.name in names:
                yield inner

    def arg(self, number: int = 0) -> str:
        """One of its arguments; "" if there are fewer."""
        return self.args[number] if number < len(self.args) else ""


class ConfigError(ValueError):
    """A file that cannot be read as a configuration.

    Args:
        file: which.
        line: where in it.
        reason: what is wrong.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(reason)
        self.file = file
        self.line = line


def split_dump(text: str, on_disk: Mapping[str, str]) -> dict[str, str]:
    """The files that ``nginx -T`` printed, in its order.

    Args:
        text: all that it printed.
        on_disk: the text of those files as they are, by name; it tells where one
            ends that was itself made by ``nginx -T``. Some may be missing.
    """
    files: dict[str, str] = {}
    match = _HEAD.search(text)
    while match is not None:
        start = match.end() + 1
        known = on_disk.get(match[1])
        if known is not None and text.startswith(f"{known}\n", start):
            following = _HEAD.search(text, start + len(known))
            content = known
        else:
            following = _HEAD.search(text, start)
            content = text[start : following.start() if following else len(text)]
        files.setdefault(match[1], content)
        match = following
    return files


def names_in_dump(text: str) -> list[str]:
    """What may be the names of the files that ``nginx -T`` printed."""
    return [match[1] for match in _HEAD.finditer(text)]


@dataclass
class _Word:
    text: str
    line: int
    bare: bool = True


def _words(text: str, file: str) -> Iterator[_Word]:
    """The words of a file, and "{", "}" and ";"."""
    at, line, end = 0, 1, len(text)
    while at < end:
        char = text[at]
        if char in " \t\r\n":
            line += char == "\n"
            at += 1
        elif char == "#":
            at = _find(text, "\n", at)
        elif char in "{};":
            yield _Word(char, line)
            at += 1
        elif char in "\"'":
            begin = line
            found, at, line = _quoted(text, at, line, file)
            yield _Word(found, begin, bare=False)
            if at < end and text[at] not in " \t\r\n;{)":
                raise ConfigError(file, line, f'unexpected "{text[at]}"')
        else:
            begin = line
            found, at, line = _unquoted(text, at, line)
            yield _Word(found, begin, bare=False)


def _find(text: str, what: str, start: int) -> int:
    found = text.find(what, start)
    return len(text) if found < 0 else found


def _quoted(text: str, at: int, line: int, file: str) -> tuple[str, int, int]:
    quote, begin = text[at], line
    out: list[str] = []
    at += 1
    while at < len(text):
        char = text[at]
        if char == quote:
            return "".join(out), at + 1, line
        if char == "\\" and at + 1 < len(text):
            char = _escaped(text[at + 1])
            at += 1
        line += text[at] == "\n"
        out.append(char)
        at += 1
    raise ConfigError(file, begin, f"no end of what begins with {quote}")


def _unquoted(text: str, at: int, line: int) -> tuple[str, int, int]:
    out: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "$" and text.startswith("${", at):
            # the brace of a variable begins no block
            out.append("${")
            at += 2
            continue
        if char in " \t\r\n;{":
            break
        if char == "\\" and at + 1 < len(text):
            char = _escaped(text[at + 1])
            at += 1
            line += text[at] == "\n"
        out.append(char)
        at += 1
    return "".join(out), at, line


def _escaped(char: str) -> str:
    if char in _QUOTED:
        return char
    return _ESCAPES.get(char, f"\\{char}")


@dataclass
class Config:
    """A whole configuration.

    Args:
        files: the text of each file, by its name; others are not looked for.
        main: the name of the first.

    Attributes:
        tree: what is in it, with the included files in the place of "include".

    Raises:
        ConfigError: it cannot be read.
    """

    files: Mapping[str, str]
    main: str
    tree: Directive = field(init=False)

    def __post_init__(self) -> None:
        self._folder = os.path.dirname(self.main)
        block = tuple(self._file(self.main, 0))
        self.tree = Directive("", (), self.main, 1, block)

    def _file(self, name: str, depth: int) -> list[Directive]:
        if depth > _DEPTH:
            raise ConfigError(name, 1, "is included by itself")
        words = _words(self.files[name], name)
        return self._block(words, name, depth, top=True)

    def _block(
        self, words: Iterator[_Word], file: str, depth: int, top: bool = False
    ) -> list[Directive]:
        found: list[Directive] = []
        head: list[_Word] = []
        line = 1
        for word in words:
            line = word.line
            if not word.bare:
                head.append(word)
                continue
            if word.text == "}":
                if top or head:
                    raise ConfigError(file, line, 'unexpected "}"')
                return found
            if not head:
                raise ConfigError(file, line, f'unexpected "{word.text}"')
            name, args = head[0].text, tuple(w.text for w in head[1:])
            start, head = head[0].line, []
            if word.text == "{":
                if _PROGRAMS.fullmatch(name):
                    _skip(words, file, start)
                    block: list[Directive] = []
                elif depth > _DEPTH:
                    raise ConfigError(file, start, "too many blocks in each other")
                else:
                    block = self._block(words, file, depth + 1)
                found.append(Directive(name, args, file, start, tuple(block)))
            elif name == "include" and len(args) == 1:
                for included in self._included(args[0]):
                    found += self._file(included, depth + 1)
            else:
                found.append(Directive(name, args, file, start))
        if head or not top:
            raise ConfigError(file, line, 'ends within a block or before ";"')
        return found

    def _included(self, pattern: str) -> list[str]:
        path = os.path.join(self._folder, pattern)
        if path in self.files:
            return [path]
        # "*" does not reach over a "/", nor to what begins with a dot
        wanted = path.split("/")
        return sorted(
            name
            for name in self.files
            if len(name.split("/")) == len(wanted)
            and all(
                fnmatchcase(part, want)
                and (not part.startswith(".") or want.startswith("."))
                for part, want in zip(name.split("/"), wanted)
            )
        )


def _skip(words: Iterator[_Word], file: str, line: int) -> None:
    """Passes a program over, to the brace that ends its block."""
    depth = 1
    for word in words:
        # a word of a program may hold braces
        depth += word.text.count("{") - word.text.count("}")
        if depth <= 0:
            return
    raise ConfigError(file, line, "a block without an end")


def read_files(main: str) -> dict[str, str]:
    """The text of a configuration's files, from the disk.

    Raises:
        OSError: the first of them cannot be read; others are left out.
    """
    files: dict[str, str] = {}
    folder = os.path.dirname(main)
    waiting = [main]
    while waiting:
        name = waiting.pop()
        try:
            with open(name, encoding="utf-8", errors="surrogateescape") as file:
                files[name] = file.read()
        except OSError:
            if name == main:
                raise
            continue
        for pattern in _includes(files[name], name):
            for path in glob.glob(os.path.join(folder, pattern)):
                if path not in files and os.path.isfile(path):
                    waiting.append(path)
    return files


def _includes(text: str, name: str) -> Iterator[str]:
    before = ""
    try:
        for word in _words(text, name):
            if before == "include" and not word.bare:
                yield word.text
            before = word.text
    except ConfigError:
        # said when the whole of it is read
        return
