"""Views."""

import json
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django_sendfile import sendfile


def find(file_id: int) -> Path:
    """Return where the file of an ID lies. In real life this asks a model."""
    folder = Path(settings.SENDFILE_ROOT)
    catalog = json.loads((folder / "catalog.json").read_text(encoding="utf-8"))
    try:
        return folder / catalog[str(file_id)]["path"]
    except KeyError as error:
        raise Http404 from error


def show(request: HttpRequest, file_id: int) -> HttpResponse:
    """Show a file."""
    return sendfile(request, find(file_id))


def download(request: HttpRequest, file_id: int) -> HttpResponse:
    """Let a file be saved."""
    return sendfile(request, find(file_id), attachment=True)


def public(request: HttpRequest, file_id: int) -> HttpResponse:
    """Show a file that is the same for everybody."""
    response = sendfile(request, find(file_id))
    # nginx may answer by itself for ten minutes
    response["X-Accel-Expires"] = "600"
    return response


def mine(request: HttpRequest, file_id: int) -> HttpResponse:
    """Show a file to who is logged in: the session is a cookie."""
    request.session["visits"] = request.session.get("visits", 0) + 1
    response = sendfile(request, find(file_id))
    response["X-Accel-Expires"] = "600"
    return response
