"""Run every checker and say which passed.

usage: build/venv/bin/python tools/lint.py

Prints a line for each checker, the output of those that failed, and last
``lint: N passed, N failed``; exit status 1 if any failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
BIN = BUILD / "venv" / "bin"
PYTHON = str(BIN / "python")
TIMEOUT = 600.0


@dataclass(frozen=True)
class Check:
    """One checker: it passes if it exits with 0.

    Args:
        name: as it is printed.
        command: what to run.
        folder: where, relative to the repository.
    """

    name: str
    command: list[str]
    folder: str = "."
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[bool, str]:
        """Run it.

        Returns:
            Whether it passed, and its output.
        """
        environment = {
            **os.environ,
            "MYPY_CACHE_DIR": str(BUILD / "mypy"),
            "RUBOCOP_CACHE_ROOT": str(BUILD / "rubocop"),
            "RUFF_CACHE_DIR": str(BUILD / "ruff"),
            **self.environment,
        }
        try:
            done = subprocess.run(
                self.command,
                cwd=ROOT / self.folder,
                env=environment,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
            )
        except FileNotFoundError as error:
            return False, f"{error}\n"
        except subprocess.TimeoutExpired:
            return False, f"not done after {TIMEOUT:.0f} s\n"
        return done.returncode == 0, done.stdout


def shell_scripts() -> list[str]:
    """Return the paths of the repository's shell scripts, relative to it."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - {".git", "build", "__pycache__"})
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(".sh") or _has_shell_line(path):
                found.append(str(path.relative_to(ROOT)))
    return found


def _has_shell_line(path: Path) -> bool:
    if "." in path.name or not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and first.rstrip().endswith((b"sh", b"bash"))


def checks() -> Iterator[Check]:
    """Give all checkers, the quick ones first."""
    yield Check("C style", [PYTHON, "tools/cstyle.py"])
    yield Check("layers", [PYTHON, "tools/layers.py"])
    yield Check("ruff format", [str(BIN / "ruff"), "format", "--check", "."])
    yield Check("ruff check", [str(BIN / "ruff"), "check", "."])
    yield Check("shellcheck", ["shellcheck", "-x", *shell_scripts()])

    yield Check("rubocop", ["rubocop", "--format", "simple"], "gem")

    mypy = [PYTHON, "-m", "mypy", "--strict"]
    yield Check("mypy tools", [*mypy, "."], "tools", {"MYPYPATH": "."})
    yield Check("mypy cli", mypy, "cli")
    demo = [*mypy, "--config-file", "cli/pyproject.toml", "packaging"]
    yield Check("mypy packaging", demo)
    yield Check(
        "mypy test/http", [*mypy, "."], "test/http", {"MYPYPATH": "../../tools"}
    )
    paths = "../http:../../tools"
    # without the applications, which are not typed as strictly as we are
    apps = [*mypy, "--exclude", "^(django|flask)/", "."]
    yield Check("mypy test/apps", apps, "test/apps", {"MYPYPATH": paths})
    model = {"MYPYPATH": paths}
    yield Check("mypy test/model", [*mypy, "."], "test/model", model)
    yield Check("mypy bench", [*mypy, "bench"])

    sources = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("src/pure/*.c"))
    flags = ["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-fanalyzer"]
    for source in sources:
        yield Check(
            f"gcc -fanalyzer {source}",
            ["gcc", *flags, "-Isrc/pure", "-c", "-o", os.devnull, source],
        )


def main() -> int:
    """Run all checkers and return the exit status."""
    passed = failed = 0
    for check in checks():
        start = time.monotonic()
        good, output = check.run()
        took = time.monotonic() - start
        print(f"{'ok  ' if good else 'FAIL'} {check.name} ({took:.1f} s)", flush=True)
        if good:
            passed += 1
        else:
            failed += 1
            print(output, end="" if output.endswith("\n") else "\n", flush=True)
    print(f"lint: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
