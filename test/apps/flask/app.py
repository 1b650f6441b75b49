"""Answers GET /files/ID, /download/ID, /public/ID and /mine/ID."""

from __future__ import annotations

import json
import os
from pathlib import Path

from flask import Flask, Response, abort, request, send_file, session

FOLDER = Path(os.environ["APP_FILES"])

app = Flask(__name__)
app.secret_key = "the secret of a test"

# nginx sends what send_file names
app.config["USE_X_SENDFILE"] = True


@app.after_request
def name_in_utf8(response: Response) -> Response:
    """Let the path be any text: WSGI takes a header's bytes as Latin-1."""
    if path := response.headers.get("X-Sendfile"):
        response.headers["X-Sendfile"] = path.encode().decode("latin-1")
    return response


@app.before_request
def count_request() -> None:
    """Write a line: how often the application was asked."""
    with open(os.environ["APP_COUNT"], "a", encoding="utf-8") as count:
        count.write(f"{request.method} {request.full_path.removesuffix('?')}\n")


def find(file_id: str) -> Path:
    """Return where the file of an ID lies. In real life this asks a model."""
    catalog = json.loads((FOLDER / "catalog.json").read_text(encoding="utf-8"))
    if file_id not in catalog:
        abort(404)
    path: str = catalog[file_id]["path"]
    return FOLDER / path


def inline(path: Path) -> Response:
    """Show a file."""
    return send_file(path, download_name=path.name)


@app.get("/files/<file_id>")
def show(file_id: str) -> Response:
    """Show a file."""
    return inline(find(file_id))


@app.get("/download/<file_id>")
def download(file_id: str) -> Response:
    """Let a file be saved."""
    return send_file(find(file_id), as_attachment=True)


@app.get("/public/<file_id>")
def public(file_id: str) -> Response:
    """Show a file that is the same for everybody."""
    response = inline(find(file_id))
    # nginx may answer by itself for ten minutes
    response.headers["X-Accel-Expires"] = "600"
    return response


@app.get("/mine/<file_id>")
def mine(file_id: str) -> Response:
    """Show a file to who is logged in: the session is a cookie."""
    session["visits"] = session.get("visits", 0) + 1
    response = inline(find(file_id))
    response.headers["X-Accel-Expires"] = "600"
    return response
