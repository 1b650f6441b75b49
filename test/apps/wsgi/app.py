"""Answers GET /files/ID, /download/ID, /public/ID and /mine/ID."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

FOLDER = Path(os.environ["APP_FILES"])

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def find(file_id: str) -> dict[str, str] | None:
    """Return the row of an ID."""
    catalog: dict[str, dict[str, str]] = json.loads(
        (FOLDER / "catalog.json").read_text(encoding="utf-8")
    )
    return catalog.get(file_id)


def to_native(text: str) -> str:
    """Return what WSGI takes for the bytes of a text in UTF-8 (PEP 3333)."""
    return text.encode().decode("latin-1")


def application(
    environ: dict[str, str], start_response: StartResponse
) -> Iterable[bytes]:
    """Name the file; nginx sends it."""
    with open(os.environ["APP_COUNT"], "a", encoding="utf-8") as count:
        # how often the application was asked
        count.write(f"{environ['REQUEST_METHOD']} {environ['REQUEST_URI']}\n")

    match = re.fullmatch(r"/(\w+)/(\d+)", environ["PATH_INFO"])
    row = find(match[2]) if match else None
    if match is None or row is None:
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"no such file\n"]

    path = FOLDER / row["path"]
    disposition = "attachment" if match[1] == "download" else "inline"
    headers = [
        ("Content-Type", row["type"]),
        ("Content-Disposition", f"{disposition}; filename*=UTF-8''{quote(path.name)}"),
        ("X-Sendfile", to_native(str(path))),
    ]
    if match[1] == "public":
        # the same for everybody, by the rules of HTTP
        headers.append(("Cache-Control", "public, max-age=600"))
    elif match[1] == "mine":
        headers.append(("Cache-Control", "private, max-age=600"))
    start_response("200 OK", headers)
    return []
