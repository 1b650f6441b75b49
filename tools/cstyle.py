"""Check C files for nginx's style, as far as a script can tell for certain.

usage: cstyle.py [--strict] [--root DIRECTORY] [FILE...]

Without files: all .c and .h below src/ and test/. Prints path:line: message;
exit status 1 if there was any, 2 for a wrong command line. --strict also
lists functions of more than 80 lines, which does not fail.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from csource import Problem, c_files, code_only, line_comments

MAX_COLUMNS = 80
MAX_FILE_LINES = 900
MAX_FUNCTION_LINES = 150
GOOD_FUNCTION_LINES = 80
COPYRIGHT = "Copyright (C) the ngx_sendfile authors"
COPYRIGHT_WITHIN_LINES = 6

UNBOUNDED = {
    "sprintf": "ngx_snprintf or ngx_slprintf",
    "vsprintf": "ngx_vslprintf",
    "ngx_sprintf": "ngx_snprintf or ngx_slprintf",
    "strcpy": "ngx_cpymem with a length",
    "strcat": "ngx_cpymem with a length",
    "gets": "anything else",
    "strtok": "a parser that takes pos and end",
    "alloca": "a pool",
}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
KEYWORD_WITHOUT_SPACE = re.compile(r"\b(if|for|while|switch|return)\(")
CONTROL = re.compile(r"^\s*(?:\} else )?(if|for|while)\s*\(|^\s*\}? ?else\b")
DEFINITION = re.compile(r"^(?P<before>[A-Za-z_][\w\s*]*[\s*])?(?P<name>\w+)\(")


@dataclass(frozen=True)
class Function:
    """A function definition; lines are counted from 1.

    Args:
        name: its name.
        start: the line of its return type.
        end: the line of its closing brace.
        length: lines between the braces, both included.
    """

    name: str
    start: int
    end: int
    length: int


def _closing(code: str, start: int) -> int:
    """Return the index of the bracket that closes the one at ``start``, or -1."""
    depth = 0
    for index in range(start, len(code)):
        if code[index] == "(":
            depth += 1
        elif code[index] == ")":
            depth -= 1
            if depth == 0:
                return index
    return -1


class Style:
    """The checks of one file.

    Args:
        path: as it is to be printed.
        text: the file's contents.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.code = code_only(text)
        self.lines = text.split("\n")
        self.code_lines = self.code.split("\n")
        self.problems: list[Problem] = []
        self.long_functions: list[Problem] = []

    def _add(self, line: int, message: str) -> None:
        self.problems.append(Problem(self.path, line, message))

    def check(self) -> list[Problem]:
        """Run all checks and return what they found, in the order of lines."""
        self._check_lines()
        self._check_file()
        self._check_words()
        self._check_braces()
        self._check_functions()
        return sorted(self.problems)

    def _check_lines(self) -> None:
        for number, line in enumerate(self.lines, 1):
            if len(line) > MAX_COLUMNS:
                self._add(number, f"{len(line)} columns, more than {MAX_COLUMNS}")
            if "\t" in line:
                self._add(number, "a tab; indent by 4 spaces")
            if line != line.rstrip():
                self._add(number, "space at the end of the line")
        for number in line_comments(self.text):
            self._add(number, "a // comment; write /* */")
        for number in range(3, len(self.lines) + 1):
            three = self.lines[number - 3 : number]
            if number < len(self.lines) and not any(s.strip() for s in three):
                self._add(number, "three blank lines in a row")

    def _check_file(self) -> None:
        if not self.text.endswith("\n"):
            self._add(len(self.lines), "no newline at the end of the file")
        elif self.text.endswith("\n\n"):
            self._add(len(self.lines) - 1, "a blank line at the end of the file")
        count = self.text.count("\n")
        if count > MAX_FILE_LINES:
            self._add(count, f"{count} lines, more than {MAX_FILE_LINES}: split it")
        if COPYRIGHT not in "\n".join(self.lines[:COPYRIGHT_WITHIN_LINES]):
            self._add(1, f"no line '{COPYRIGHT}' at the top")

    def _check_words(self) -> None:
        compat = self.path.endswith("_compat.h")
        for number, code in enumerate(self.code_lines, 1):
            for name in re.findall(r"\b(\w+)\s*\(", code):
                if name in UNBOUNDED:
                    self._add(number, f"{name}() is unbounded: {UNBOUNDED[name]}")
            if not compat and re.search(r"\bnginx_version\b", code):
                self._add(number, "a test of nginx_version outside of a _compat.h")
            if match := KEYWORD_WITHOUT_SPACE.search(code):
                self._add(number, f"no space between {match[1]} and (")
            if re.search(r"\bfor\s*\(;;\)", code):
                self._add(number, "write for ( ;; )")
            if re.search(r"\w\*\s+\w", code):
                self._add(number, "write the * of a pointer at the name")
            if re.search(r"(?:&&|\|\||[^|]\|)\s*\\?$", code):
                self._add(number, "wrap before the operator, not after it")
        for number, line in enumerate(self.lines, 1):
            if match := UNFINISHED.search(line):
                self._add(number, f"{match[1]}: finish it")

    def _check_braces(self) -> None:
        offset = 0
        for number, line in enumerate(self.code_lines, 1):
            start = offset
            offset += len(line) + 1
            if re.match(r"\s*else\b", line):
                self._add(number, "write } else on one line")
            match = CONTROL.match(line)
            if match is None or line.lstrip().startswith("#"):
                continue
            rest = start + match.end()
            if match[1] is not None:
                closing = _closing(self.code, rest - 1)
                if closing < 0:
                    continue
                rest = closing + 1
            follows = self.code[rest : rest + 400].lstrip()
            if re.match(r"\s*\}\s*while", line) or follows.startswith("{"):
                continue
            if match[1] is None and re.match(r"if\b", follows):
                continue
            self._add(number, f"{(match[1] or 'else')} without braces")

    def functions(self) -> Iterator[Function]:
        """Find the function definitions, and what is wrong with their heads."""
        offset = 0
        for number, line in enumerate(self.code_lines, 1):
            start = offset
            offset += len(line) + 1
            match = DEFINITION.match(line)
            if match is None:
                continue
            closing = _closing(self.code, start + match.end() - 1)
            if closing < 0:
                continue
            brace = re.compile(r"\s*\{").match(self.code, closing + 1)
            if brace is None:
                continue
            open_line = self.code.count("\n", 0, brace.end()) + 1
            if (match["before"] or "").strip():
                self._add(number, f"the return type of {match['name']}() needs a line")
                first = number
            else:
                first = number - 1
            if self.code_lines[open_line - 1].rstrip() != "{":
                self._add(open_line, f"the {{ of {match['name']}() needs a line")
            end = open_line
            while end < len(self.code_lines) and self.code_lines[end - 1][:1] != "}":
                end += 1
            yield Function(match["name"], first, end, end - open_line + 1)

    def _check_functions(self) -> None:
        for function in self.functions():
            if function.length > MAX_FUNCTION_LINES:
                self._add(
                    function.start,
                    f"{function.name}() has {function.length} lines, "
                    f"more than {MAX_FUNCTION_LINES}",
                )
            elif function.length > GOOD_FUNCTION_LINES:
                self.long_functions.append(
                    Problem(
                        self.path,
                        function.start,
                        f"{function.name}() has {function.length} lines",
                    )
                )
            if not self._two_blank_lines_before(function.start):
                self._add(
                    function.start,
                    f"two blank lines go before {function.name}() and its comment",
                )

    def _two_blank_lines_before(self, start: int) -> bool:
        """Tell whether two blank lines part a function from the code before it.

        Comments and preprocessor lines may stand between.
        """
        blank = 0
        continued = False
        for number in range(start - 1, 0, -1):
            line = self.lines[number - 1]
            if not line.strip():
                blank += 1
                if blank == 2:
                    return True
                continue
            blank = 0
            code = self.code_lines[number - 1].strip()
            continued = code.endswith("\\")
            if code and not code.startswith("#") and not continued:
                return False
        return False


def check_text(path: str, text: str) -> list[Problem]:
    """Check a file's text; see Style."""
    return Style(path, text).check()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: None takes sys.argv.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--strict", action="store_true", help="list long functions")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1]
    )
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args(arguments)

    root = options.root.resolve()
    files = [p.resolve() for p in options.files] or c_files(root, "src", "test")
    count = 0
    for path in files:
        name = path.relative_to(root) if path.is_relative_to(root) else path
        style = Style(str(name), path.read_text(encoding="utf-8"))
        for problem in style.check():
            print(problem)
            count += 1
        if options.strict:
            for problem in style.long_functions:
                print(f"{problem} (listed only)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
