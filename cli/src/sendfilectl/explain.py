"""explain: what nginx would do with a URL, told step by step.

The server's side is ``GET <status location>/explain?url=URL``; docs/explain.md has
what it answers.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from sendfilectl.errors import CtlError, UsageError
from sendfilectl.http_client import CONTROL, Client
from sendfilectl.status import objects, printable, read

_STATES = {"ok": "ok", "failed": "FAILED", "note": "note"}


def explain_target(url: str, host: str | None) -> str:
    """What to ask a status location for.

    Args:
        url: the one to explain, or only a path.
        host: the header Host of the request, None for the URL's.

    Raises:
        UsageError: it is no URL.
    """
    if CONTROL.search(url):
        raise UsageError(
            f"the URL {url!r} holds a space or a control byte: write it "
            "percent-encoded, as clients do, such as %20"
        )
    if not re.match("https?://.|/", url, re.IGNORECASE):
        raise UsageError(
            f"'{printable(url)}' is no URL: write all of it, such as "
            "http://www.example.com/file/7, or its path, /file/7"
        )
    target = f"/explain?url={quote(url, safe='', errors='surrogateescape')}"
    if host is not None:
        target += f"&host={quote(host, safe='', errors='surrogateescape')}"
    return target


def explain(client: Client, target: str) -> dict[str, Any]:
    """What nginx says of a URL.

    Args:
        client: of the status location.
        target: as explain_target() makes it.

    Raises:
        CtlError: it says nothing.
    """
    found = read(client, target)
    if not isinstance(found.get("verdict"), str):
        raise CtlError(
            f"{client.url.text}: what it answers is no explanation: is the module an "
            "older one?"
        )
    return found


def told(document: dict[str, Any]) -> Iterator[str]:
    """An explanation for people, line by line."""
    yield printable(document["verdict"])
    yield ""
    steps = objects(document, "steps")
    width = max((len(printable(step.get("step"))) for step in steps), default=0)
    for step in steps:
        state = printable(step.get("state"))
        name = printable(step.get("step")).ljust(width)
        text = printable(step.get("text"))
        yield f"  {_STATES.get(state, state):6}  {name}  {text}".rstrip()
        yield from _folders(step, width)
    headers = document.get("headers")
    if isinstance(headers, list) and headers:
        yield ""
        for pair in headers:
            if isinstance(pair, list) and len(pair) == 2:
                yield f"  {printable(pair[0])}: {printable(pair[1])}"
    advice = document.get("advice")
    if isinstance(advice, list) and advice:
        yield ""
        for sentence in advice:
            yield f"What to do: {printable(sentence)}"


def _folders(step: dict[str, Any], width: int) -> Iterator[str]:
    """Each folder on the way to a file, and who may enter it."""
    for folder in objects(step, "folders"):
        mode = (printable(folder.get("mode")) or "?").ljust(4)
        owner = f"{_user(folder.get('uid'))}:{_group(folder.get('gid'))}"
        line = f"{mode} {owner:20} {printable(folder.get('path'))}"
        code = folder.get("errno")
        if isinstance(code, int) and 0 < code < 4096:
            line += f"  <- {os.strerror(code).lower()}"
        elif folder.get("allowed") is False:
            line += "  <- the worker may not"
        elif folder.get("type") not in ("directory", "file"):
            line += f"  ({printable(folder.get('type'))})"
        yield f"  {'':6}  {'':{width}}  {line}"


def _user(number: object) -> str:
    try:
        return pwd.getpwuid(int(str(number))).pw_name
    except (KeyError, ValueError, OverflowError):
        return printable(number) or "?"


def _group(number: object) -> str:
    try:
        return grp.getgrgid(int(str(number))).gr_name
    except (KeyError, ValueError, OverflowError):
        return printable(number) or "?"
