"""Check who includes whom in src/, and who names whose types.

usage: layers.py [--root DIRECTORY]

The rules are the tables below. Prints path:line: message; exit status 1 if
there was any.
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
LAYERS: list[tuple[str, str]] = [
    (r"{p}\.h", "umbrella"),
    (r"{p}_api\.h", "api"),
    (r"{p}_compat\.h", "compat"),
    (r"{p}_module\.c", "module"),
    (r"store/{p}_store\.h", "store interface"),
    (r"store/{p}_lookup\.[ch]", "lookup"),
    (r"app/{p}_headers\.h", "headers"),
    (r"app/{p}_upstream_hook\.[ch]", "upstream hook"),
    (r"pure/nsf\w*\.[ch]", "pure"),
    (r"(conf|request|store|net|cache|deliver|app|mruby)/{p}_\w+\.[ch]", r"\1"),
]

# Whose headers a layer may include, besides its own. The umbrella holds the
# configuration and the context of a request: what knows it knows HTTP.
LEAVES = {"compat", "pure"}
HTTP = LEAVES | {"umbrella", "headers"}
MAY_INCLUDE: dict[str, set[str]] = {
    "pure": set(),
    "compat": set(),
    "headers": set(),
    "api": {"pure", "store interface"},
    "umbrella": LEAVES | {"api", "cache", "lookup"},
    "module": HTTP | {"app"},
    "conf": HTTP,
    "request": HTTP | {"cache", "deliver", "app"},
    "store interface": {"pure"},
    "lookup": {"store interface"},
    "store": LEAVES | {"store interface", "net"},
    "net": LEAVES | {"store interface"},
    "cache": {"pure"},
    "deliver": HTTP | {"cache"},
    "upstream hook": {"compat", "headers"},
    "app": HTTP | {"upstream hook", "deliver"},
    # a module of its own: what it knows of the first is that one's API
    "mruby": LEAVES | {"api", "headers"},
}

# Layers that may not know HTTP, not even nginx's.
WITHOUT_HTTP = {"store interface", "lookup", "store", "net", "cache"}

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


def layer_of(path: str) -> str | None:
    """Return the layer of a path below src/, None if no pattern has it."""
    for pattern, layer in LAYERS:
        match = re.fullmatch(pattern.replace("{p}", PREFIX), path)
        if match:
            return match.expand(layer)
    return None


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


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

    def _add(self, path: str, line: int, message: str) -> None:
        self.problems.append(Problem(f"src/{path}", line, message))

    def check(self) -> list[Problem]:
        """Return the problems, in the order of files and lines."""
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
            self._check_includes(path, layer, text)
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
        if other is None or other == layer or other in MAY_INCLUDE[layer]:
            return
        self._add(path, line, f"{layer} may not include {other} ({header})")

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
    options = parser.parse_args(arguments)

    problems = Checker(options.root.resolve()).check()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
