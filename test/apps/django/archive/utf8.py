"""A backend of django-sendfile2 for X-Sendfile with names of any characters.

Its own takes ASCII only: Django would encode anything else as in e-mail.
"""

from pathlib import Path

from django.http import HttpRequest, HttpResponse


def sendfile(request: HttpRequest, filename: Path, **kwargs: object) -> HttpResponse:
    """Name the file to nginx, by the bytes of its path."""
    response = HttpResponse()
    response["X-Sendfile"] = str(filename).encode().decode("latin-1")
    return response
