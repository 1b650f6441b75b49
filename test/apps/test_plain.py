"""What the applications say, without the module's help: they name the file."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from harness.catalog import DOCUMENTS, PLAIN, Document
from harness.start import Front, file_name


def by_name(document: Document) -> str:
    """Return a test's ID."""
    return document.name


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_names_the_file(front: Front, document: Document) -> None:
    """The header has the path's bytes; X-Accel-Redirect has them encoded."""
    front.start()
    answer = front.plain(f"/files/{document.id}")
    assert answer.status == 200
    said = answer.header(front.kind.accept)
    assert said is not None
    if front.kind.accept == "X-Accel-Redirect":
        assert unquote(said) == f"/protected/{document.path}"
    elif front.kind.sends(document):
        path = f"{front.app.place.files}/{document.path}"
        assert said.encode("latin-1").decode() == path
    else:
        assert said.startswith("=?utf-8?")
    assert file_name(answer) == ("inline", document.name)
    assert (answer.header("Content-Type") or "").partition(";")[0] == document.type
    assert front.app.requests() == [f"GET /files/{document.id}"]


def test_missing(front: Front) -> None:
    """What the application does not know is its 404."""
    nginx = front.start()
    assert nginx.get("/files/404").status == 404
    assert front.asked() == 1


def test_says_what_may_be_learned(front: Front) -> None:
    """The public answer has a lifetime, the private one has a mark."""
    front.start()
    public = front.plain(f"/public/{PLAIN.id}")
    control = public.header("Cache-Control") or ""
    assert public.header("X-Accel-Expires") == "600" or "public" in control
    assert public.header("Set-Cookie") is None
    mine = front.plain(f"/mine/{PLAIN.id}")
    control = mine.header("Cache-Control") or ""
    assert mine.all("Set-Cookie") or "private" in control
