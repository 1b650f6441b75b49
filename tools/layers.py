"""Check who includes and calls whom in src/, and who names whose types.

usage: layers.py [--root DIRECTORY] [--list]

The rules are the tables below. Prints path:line: message; exit status 1 if
there was any. The table of includes has no circle, every include is in it, and
a layer calls only what its includes lead to: so there is no circle of calls.

--list prints the layers, whom each of them includes or calls, and how many
there are of both.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from csource import Problem, c_files, code_only

# A file's layer is its folder, but for the files named here: the first pattern
# that matches its path below src/. {p} is the prefix that every file outside
# of pure/ has.
PREFIX = "ngx_http_sendfile"
FOLDERS = "conf|request|store|net|cache|stats|deliver|app|mruby|sqlite|signed"
LAYERS: list[tuple[str, str]] = [
    (r"{p}\.h", "umbrella"),
    (r"{p}_api\.h", "api"),
    (r"{p}_compat\.h", "compat"),
    (r"{p}_module\.c", "module"),
    (r"request/{p}_(ctx|key)\.[ch]", "context"),
    (r"store/{p}_store\.h", "store interface"),
    (r"store/{p}_limit\.[ch]", "limit"),
    (r"store/{p}_lookup\.[ch]", "lookup"),
    (r"app/{p}_headers\.h", "headers"),
    (r"app/{p}_upstream_hook\.[ch]", "upstream hook"),
    (r"pure/nsf\w*\.[ch]", "pure"),
    (rf"({FOLDERS})/{{p}}_\w+\.[ch]", r"\1"),
]

# Whose headers a layer may include, besides its own. The umbrella holds the
# configuration, the context is a request's: what knows them knows HTTP.
LEAVES = {"compat", "pure"}
MAY_INCLUDE: dict[str, set[str]] = {
    "pure": set(),
    "compat": set(),
    "headers": set(),
    "stats": {"pure"},
    "limit": set(),
    "store interface": {"pure", "limit"},
    "lookup": {"store interface", "stats"},
    "net": {"pure", "store interface", "stats"},
    "store": {"pure", "store interface", "net", "stats"},
    "cache": {"pure", "stats"},
    "api": {"pure", "store interface"},
    "umbrella": {"pure", "api", "cache", "stats"},
    "context": {"pure", "umbrella", "lookup", "stats"},
    "conf": LEAVES | {"umbrella"},
    "deliver": LEAVES | {"context", "cache"},
    "upstream hook": {"compat", "headers"},
    "app": LEAVES | {"context", "conf", "deliver", "upstream hook", "headers", "stats"},
    "request": LEAVES | {"context", "cache", "deliver", "app", "headers", "stats"},
    "module": LEAVES | {"umbrella", "lookup", "conf", "request", "app", "stats"},
    # modules of their own: what they know of the first is that one's API
    "sqlite": {"pure", "compat", "api"},
    "mruby": {"compat", "api", "headers"},
    # one more, which has its own copy of the pure code that it needs
    "signed": LEAVES | {"api", "headers"},
}

# Layers that may not know HTTP, not even nginx's.
WITHOUT_HTTP = {
    *("limit", "store interface", "lookup", "store", "net", "cache", "stats"),
}

# What a layer's code may not name: pattern, and why.
FORBIDDEN: list[tuple[set[str], str, str]] = [
    ({"pure"}, r"\bngx_\w+", "pure code knows nothing of nginx"),
    (
        WITHOUT_HTTP,
        r"\bngx_http_(request|upstream|core|cleanup)_\w+|\bngx_http_finalize\w*",
        "this layer knows nothing of HTTP requests",
    ),
    (
        {"net"},
        r"\bnsf_(disposition|inflate|json|key|marshal|mc|rails|record|target)\w*",
        "the network layer knows no codec, it calls back",
    ),
    (
        {"deliver"},
        rf"\b{PREFIX}_(store|op|lookup)_(?!time)\w+",
        "delivery takes a target and knows no store",
    ),
    (
        set(MAY_INCLUDE) - {"upstream hook"},
        r"\bheaders_in_hash\b",
        "app/ngx_http_sendfile_upstream_hook.c owns this hash",
    ),
]

# Headers in <> that pure code may use: no I/O, no threads, no nginx.
PURE_SYSTEM = re.compile(
    r"(assert|ctype|errno|float|inttypes|limits|math|stdbool|stddef|stdint|stdlib"
    r"|string|jansson|zlib)\.h"
)

INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE
)

# A function that other files may call: nginx's style has its name at the
# beginning of a line, below its type.
DEFINITION = re.compile(
    rf"^(?!static\b)\w[^;{{}}()=#\n]*\n((?:{PREFIX}|nsf)_\w+)\([^;{{}}]*\)\n\{{",
    re.MULTILINE,
)
NAME = re.compile(rf"\b(?:{PREFIX}|nsf)_\w+")
MACRO = re.compile(r"^[ \t]*#[ \t]*define(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def circle_of(arrows: dict[str, set[str]]) -> list[str]:
    """Return the nodes of a circle, the first one again at the end, or none.

    Args:
        arrows: from each node to others.
    """
    done: set[str] = set()

    def walk(path: list[str]) -> list[str]:
        for node in sorted(arrows.get(path[-1], ())):
            if node in path:
                return [*path[path.index(node) :], node]
            if node not in done and (found := walk([*path, node])):
                return found
        done.add(path[-1])
        return []

    for node in sorted(arrows):
        if node not in done and (found := walk([node])):
            return found
    return []


def reach(arrows: dict[str, set[str]], start: str) -> set[str]:
    """Return the nodes that arrows lead to from ``start``."""
    found: set[str] = set()
    todo = {start}
    while todo:
        todo = set().union(*(arrows[node] for node in todo)) - found
        found |= todo
    return found


def layer_of(path: str) -> str | None:
    """Return the layer of a path below src/, None if no pattern has it."""
    for pattern, layer in LAYERS:
        match = re.fullmatch(pattern.replace("{p}", PREFIX), path)
        if match:
            return match.expand(layer)
    return None


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _only(pattern: re.Pattern[str], text: str) -> str:
    """Replace by spaces what a pattern does not match, but for line ends."""
    kept = [" " if c != "\n" else c for c in text]
    for match in pattern.finditer(text):
        kept[match.start() : match.end()] = match.group()
    return "".join(kept)


class Checker:
    """Checks one tree.

    Args:
        root: the repository.
    """

    def __init__(self, root: Path) -> None:
        self.src = root / "src"
        self.texts = {
            str(path.relative_to(self.src)): path.read_text(encoding="utf-8")
            for path in c_files(root, "src")
        }
        self.by_name: dict[str, str] = {}
        self.problems: list[Problem] = []
        # layers that include or call others
        self.arrows: dict[str, set[str]] = {}
        self.functions = {
            name: path
            for path, text in self.texts.items()
            if path.endswith(".c")
            for name in DEFINITION.findall(code_only(text))
        }

    def _add(self, path: str, line: int, message: str) -> None:
        self.problems.append(Problem(f"src/{path}", line, message))

    def check(self) -> list[Problem]:
        """Return the problems, in the order of files and lines."""
        circle = circle_of(MAY_INCLUDE)
        if circle:
            message = f"a circle of layers: {' -> '.join(circle)}"
            self.problems.append(Problem("tools/layers.py", 1, message))
        for path in self.texts:
            name = Path(path).name
            if name in self.by_name:
                self._add(path, 1, f"the name is that of src/{self.by_name[name]} too")
            self.by_name[name] = path
        for path, text in self.texts.items():
            layer = layer_of(path)
            if layer is None:
                self._add(path, 1, "belongs to no layer: add it to tools/layers.py")
                continue
            self.arrows.setdefault(layer, set())
            self._check_includes(path, layer, text)
            self._check_calls(path, layer, text)
            self._check_words(path, layer, text)
        return sorted(self.problems)

    def _check_includes(self, path: str, layer: str, text: str) -> None:
        for match in INCLUDE.finditer(code_only(text, strings=True)):
            line = _line(text, match.start())
            if match[1] is not None:
                self._check_system(path, line, layer, match[1])
            else:
                self._check_own(path, line, layer, match[2])

    def _check_system(self, path: str, line: int, layer: str, header: str) -> None:
        if layer == "pure" and not PURE_SYSTEM.fullmatch(header):
            self._add(path, line, f"{layer} may not include <{header}>")
        if layer in WITHOUT_HTTP and header.startswith("ngx_http"):
            self._add(path, line, f"{layer} may not include <{header}>")

    def _check_own(self, path: str, line: int, layer: str, header: str) -> None:
        target = self.by_name.get(Path(header).name)
        if target is None:
            self._add(path, line, f'"{header}" is not in src/')
            return
        other = layer_of(target)
        if other is None or other == layer:
            return
        self.arrows[layer].add(other)
        if other not in MAY_INCLUDE[layer]:
            self._add(path, line, f"{layer} may not include {other} ({header})")

    def _check_calls(self, path: str, layer: str, text: str) -> None:
        code = code_only(text)
        if path.endswith(".h"):
            # its functions are declared here, its macros call some
            code = _only(MACRO, code)
        may_call = reach(MAY_INCLUDE, layer)
        for match in NAME.finditer(code):
            target = self.functions.get(match.group())
            other = target and layer_of(target)
            if other is None or other == layer:
                continue
            self.arrows[layer].add(other)
            if other not in may_call:
                self._add(
                    path,
                    _line(code, match.start()),
                    f"{layer} may not call {other} ({match.group()})",
                )

    def _check_words(self, path: str, layer: str, text: str) -> None:
        code = re.sub(
            r"^[ \t]*#[ \t]*include.*",
            lambda m: " " * len(m.group()),
            code_only(text),
            0,
            re.MULTILINE,
        )
        for layers, pattern, why in FORBIDDEN:
            if layer in layers:
                for match in re.finditer(pattern, code):
                    self._add(
                        path, _line(code, match.start()), f"{match.group()}: {why}"
                    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: None takes sys.argv.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1]
    )
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)

    checker = Checker(options.root.resolve())
    problems = checker.check()
    for problem in problems:
        print(problem)
    if options.list:
        for layer, others in sorted(checker.arrows.items()):
            print(f"{layer}: {', '.join(sorted(others)) or '-'}")
        arrows = sum(len(others) for others in checker.arrows.values())
        print(f"{len(checker.arrows)} layers, {arrows} arrows")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
