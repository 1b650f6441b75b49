"""The manual page of sendfilectl is as the program is, and man can show it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import manpage
import pytest
import typer
from sendfilectl.app import app


def shown() -> str:
    """Return the page as a reader sees it; what man warns of is an error."""
    done = subprocess.run(
        ["man", "--warnings", "--encoding=UTF-8", "-l", "-Tutf8", str(manpage.PAGE)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == ""
    return re.sub(".\b|\x1b\\[[0-9;]*m", "", done.stdout)


def test_page_is_as_the_program_is() -> None:
    assert manpage.PAGE.read_text(encoding="utf-8") == manpage.manual()


def test_every_command_and_option_is_in_it() -> None:
    text = " ".join(shown().split())
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"sendfilectl {name} " in text
        for one in command.params:
            for option in one.opts if one.param_type_name == "option" else ():
                assert option in text, (name, option)
    # a backslash and a dash stay what they are, so that an example can be copied
    assert r'psql -c "\copy (select id, path from files) to stdout csv" |' in text
    for code, _ in manpage.EXIT_CODES:
        assert f" {code} " in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a-b", "a\\-b"),
        ("a\\b", "a\\eb"),
        (".a", "\\&.a"),
        ("a\n'b", "a\n\\&'b"),
        ("~^`", "\\(ti\\(ha\\(ga"),
    ],
)
def test_text_is_no_request(text: str, found: str) -> None:
    assert manpage.roff(text) == found


def test_check_tells_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "sendfilectl.1"
    page.write_text("old")
    monkeypatch.setattr(manpage, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["manpage.py", "--check"])
    assert (manpage.main(), page.read_text()) == (1, "old")
    monkeypatch.setattr(sys, "argv", ["manpage.py"])
    assert manpage.main() == 0
    assert page.read_text() == manpage.manual()
