"""Write the manual page of sendfilectl, from the program itself.

usage: build/venv/bin/python tools/manpage.py [--check]

It is below cli/share, where a wheel takes it from. With --check nothing is written:
exit status 1 if it is not as the program is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from sendfilectl import __version__
from sendfilectl.app import app

PAGE = Path(__file__).resolve().parents[1] / "cli/share/man/man1/sendfilectl.1"

NAME = "sendfilectl"
BRIEF = "stores, cache and figures of the nginx module ngx_sendfile"

FAILED = (
    "Not found or failed, in whole or in part: an ID that is missing, a line that is "
    "bad, a store or server that does not answer, a file that cannot be read, a stdout "
    "that nobody reads any more. Of doctor: there are findings. Of explain: the client "
    "would get an error."
)
INTERRUPTED = (
    "Ctrl-C (128 and the number of the signal; 143 for SIGTERM, 129 for a terminal that "
    "was closed). What was done until then is said, and stays done. stats --watch ends "
    "so, with 0."
)

EXIT_CODES = [
    ("0", "Done: all of it."),
    ("1", FAILED),
    ("2", "Usage: the command line means nothing, and nothing was done."),
    ("130", INTERRUPTED),
]

JSON = (
    'With --json one document is printed, on one line: "ok" is true if the exit code '
    'is 0; where it is false, "error" has the reason, unless it stands with the single '
    "IDs. It comes as well when a command fails midway or is interrupted, and then says "
    "how far it came. What is for people goes to stderr all the same."
)

ENVIRONMENT = [
    ("SENDFILECTL_STATUS", "The location for stats and explain, as --status."),
    ("SSL_CERT_FILE", "Certificates of the authorities to trust, for https://."),
    ("NO_COLOR", "No colours."),
]

SEE_ALSO = "nginx(8), memcached(1), mdb_stat(1), https://nginx.org/en/docs/"


def roff(text: str) -> str:
    """Text as groff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    text = text.replace("^", "\\(ha").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def paragraphs(help_text: str) -> Iterator[str]:
    """The paragraphs of a help text; one that begins with a backspace as it is."""
    for part in inspect.cleandoc(help_text).split("\n\n"):
        if part.startswith("\b\n"):
            title, _, example = part[2:].partition("\n")
            yield f".PP\n{roff(title)}\n.PP\n.EX\n{roff(example)}\n.EE"
        else:
            yield f".PP\n{roff(' '.join(part.split()))}"


def usage(name: str, command: Any) -> str:
    """What follows the program's name on the command line."""
    words = [f"\\fB{NAME} {roff(name)}\\fR"]
    for one in command.params:
        if one.param_type_name == "argument":
            metavar = roff(one.metavar or one.name.upper())
            words.append(
                f"\\fI{metavar}\\fR" if one.required else f"[\\fI{metavar}\\fR]"
            )
    words.append("[\\fIoptions\\fR]")
    return " ".join(words)


def options(command: Any) -> Iterator[str]:
    """The options of a command."""
    for one in command.params:
        if one.param_type_name != "option" or one.hidden:
            continue
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in sorted(one.opts, key=len))
        if not one.is_flag:
            names += f" \\fI{roff(one.metavar or one.name.upper())}\\fR"
        text = one.help or ""
        if one.default not in (None, False, ()) and one.show_default:
            text += f" The default is {one.default}."
        yield f".TP\n{names}\n{roff(text)}"


def listed(rows: list[tuple[str, str]]) -> str:
    """A list of names, each with what it is."""
    return "\n".join(f".TP\n\\fB{roff(name)}\\fR\n{roff(text)}" for name, text in rows)


def manual() -> str:
    """The manual page."""
    group: Any = typer.main.get_command(app)
    parts = [
        f'.TH SENDFILECTL 1 "" "{NAME} {__version__}" "User Commands"',
        f".SH NAME\n{NAME} \\- {roff(BRIEF)}",
        f".SH SYNOPSIS\n.B {NAME}\n.I command\n.RI [ arguments ]\n.RI [ options ]",
        ".SH DESCRIPTION",
        f"{roff(' '.join(group.help.split()))}",
        f".PP\n{roff(group.epilog.split(' Exit codes')[0])}",
        f".PP\n{roff(JSON)}",
        ".SH COMMANDS",
    ]
    for name, command in group.commands.items():
        parts.append(f".SS {name}\n{usage(name, command)}")
        parts += paragraphs(command.help)
        parts += options(command)
    parts.append(".SH EXIT STATUS\n" + listed(EXIT_CODES))
    parts.append(".SH ENVIRONMENT\n" + listed(ENVIRONMENT))
    parts.append(f".SH SEE ALSO\n{roff(SEE_ALSO)}")
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write the page, or compare it, and return the exit status."""
    text = manual()
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if sys.argv[1:] == ["--check"]:
        print(f"{PAGE} is not as sendfilectl is: run tools/manpage.py")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
