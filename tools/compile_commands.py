"""Make a compilation database, for clangd and others, of what make would run.

usage: make -n -B ... | compile_commands.py DIRECTORY > compile_commands.json

DIRECTORY is where make runs. The format: https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

from __future__ import annotations

import json
import shlex
import sys


def commands(printed: str, directory: str) -> list[dict[str, object]]:
    """Return an entry for each C file that is compiled.

    Args:
        printed: what ``make -n -B`` says.
        directory: where the commands run.
    """
    found: list[dict[str, object]] = []
    for line in printed.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "-c" in words and words[-1].endswith(".c"):
            found.append(
                {"directory": directory, "file": words[-1], "arguments": words}
            )
    return found


def main() -> int:
    """Read what make printed, and write the database."""
    found = commands(sys.stdin.read(), sys.argv[1])
    if not found:
        print("compile_commands.py: no compilation was printed", file=sys.stderr)
        return 1
    json.dump(found, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
