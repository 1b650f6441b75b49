"""The status location: where it is, and what it says to those who only read."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from sendfilectl.contract import show
from sendfilectl.errors import CtlError
from sendfilectl.http_client import WRITE, Client
from sendfilectl.options import STATUS_VARIABLE

# bytes of a document: there is room for a thousand names in one
_LIMIT = 8 << 20

_ELSEWHERE = f"with --status, or in {STATUS_VARIABLE}, {WRITE}"

_HINTS = {
    401: "write http://user:password@host/location",
    403: "let this machine in where that location has 'allow' and 'deny'",
    404: f"there is no http_sendfile_status, or one of an older module: {_ELSEWHERE}",
    405: f"there is no http_sendfile_status, or one of an older module: {_ELSEWHERE}",
}


def read(client: Client, target: str) -> dict[str, Any]:
    """A JSON document of a status location's.

    Args:
        client: of the location.
        target: what is below it, percent-encoded.

    Raises:
        CtlError: there is none, with what to do about it.
    """
    answer = client.ask("GET", target, limit=_LIMIT)
    found = answer.object()
    text = client.failure(target, answer, _HINTS)
    if answer.status != HTTPStatus.OK:
        raise CtlError(text)
    if not found:
        raise CtlError(
            f"{text}: but not with JSON: is it no http_sendfile_status? {_ELSEWHERE}"
        )
    return found


def printable(value: object) -> str:
    """A value of a document, for a terminal: nothing in it controls that."""
    if value is None:
        return ""
    return show(str(value).encode("utf-8", "replace"))


def number(document: object, *path: str) -> float:
    """A number in a document, 0 if there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, bool) or not isinstance(document, (int, float)):
        return 0
    return document if math.isfinite(document) else 0


def objects(document: object, name: str) -> list[dict[str, Any]]:
    """The objects of an array in a document, none if there is none."""
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, dict)]
