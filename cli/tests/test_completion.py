"""Completion, in the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ctl_harness import PROGRAM

SHARE = Path(__file__).resolve().parents[1] / "share"
BASH = SHARE / "bash-completion" / "completions" / "sendfilectl"
ZSH = SHARE / "zsh" / "site-functions"
FISH = SHARE / "fish" / "vendor_completions.d" / "sendfilectl.fish"

TIMEOUT = 120.0
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], f"source {BASH}"),
    "zsh": (
        ["zsh", "-f", "-i"],
        f"fpath=({ZSH} $fpath); autoload -U compinit; compinit -u -D",
    ),
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With the program in PATH, under its name, and a file to be completed."""
    program = tmp_path / "bin" / "sendfilectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "addresses.txt").touch()
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "PS1": "> ",
    }


class Shell:
    """A shell in a terminal of its own.

    Args:
        command: that starts it.
        environment: its variables.
        directory: where it starts.
    """

    def __init__(
        self, command: list[str], environment: dict[str, str], directory: Path
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.said = b""
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text: str, until: str) -> None:
        """Types something and reads until something was shown after it."""
        self.said = b""
        os.write(self._ours, text.encode())
        while until.encode() not in self.said:
            assert select.select([self._ours], [], [], TIMEOUT)[0], self.said
            self.said += os.read(self._ours, 65536)

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.fixture(params=START)
def shell(
    request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path
) -> Iterator[Shell]:
    """A shell that has read its completion."""
    command, setup = START[request.param]
    found = Shell(command, environment, tmp_path)
    # the two halves, lest what is typed be taken for what is answered
    found.type(f"{setup}; echo rea''dy\n", "ready")
    yield found
    found.close()


def test_a_command_is_completed(shell: Shell) -> None:
    shell.type("sendfilectl expla\t", "explain ")


def test_an_option_is_completed(shell: Shell) -> None:
    shell.type("sendfilectl doctor --ngi\t", "--nginx ")


def test_a_file_is_completed(shell: Shell) -> None:
    shell.type("sendfilectl warm addr\t", "addresses.txt")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sendfilectl ex", ["explain", "export"]),
        ("sendfilectl doctor --ngi", ["--nginx"]),
        ("sendfilectl warm addr", ["addresses.txt"]),
        ("sendfilectl nothing", []),
    ],
)
def test_fish_offers(
    environment: dict[str, str], tmp_path: Path, typed: str, offered: list[str]
) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {FISH}; complete -C '{typed}'"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == offered
