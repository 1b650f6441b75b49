"""http_sendfile_accept: nginx sends the file that the application names."""

from __future__ import annotations

import pytest

from harness.catalog import DOCUMENTS, PLAIN, SIZE, Document
from harness.start import Front, app_headers, assert_file, file_name
from lib.nginx import Nginx

ROUTES = ["files", "download", "public", "mine"]


def by_name(document: Document) -> str:
    """Return a test's ID."""
    return document.name


def start(front: Front) -> Nginx:
    """Start nginx with the header of the application accepted."""
    return front.start(location=front.accept())


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_file_arrives(front: Front, document: Document) -> None:
    """The bytes of the file, whatever its name, and what the application says of it."""
    if not front.kind.sends(document):
        document = PLAIN
    nginx = start(front)
    answer = nginx.get(f"/files/{document.id}")
    assert_file(answer, document)
    assert (answer.header("Content-Type") or "").partition(";")[0] == document.type
    assert file_name(answer) == ("inline", document.name)
    assert front.app.requests() == [f"GET /files/{document.id}"]
    assert nginx.logged(f"/files/{document.id}").source == "app"
    assert nginx.errors() == []


@pytest.mark.parametrize("route", ROUTES)
def test_headers_are_the_applications(front: Front, route: str) -> None:
    """All that it says arrives; nginx adds only what it did not say."""
    nginx = start(front)
    said = front.plain(f"/{route}/{PLAIN.id}")
    answer = nginx.get(f"/{route}/{PLAIN.id}")
    assert_file(answer, PLAIN)
    ours, theirs = app_headers(answer), app_headers(said)
    assert theirs <= ours
    names = {name for name, _ in theirs}
    added = {name for name, _ in ours - theirs}
    assert added == {"etag", "last-modified"} - names
    assert len(answer.all("Set-Cookie")) == len(said.all("Set-Cookie"))
    assert file_name(answer) == file_name(said)
    assert file_name(answer)[0] == ("attachment" if route == "download" else "inline")


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [("100-199", 100, 200), ("4000-", 4000, SIZE), ("-21", SIZE - 21, SIZE)],
)
def test_range(front: Front, asked: str, first: int, end: int) -> None:
    """A part of the file, by nginx or, where it likes that, by the application."""
    nginx = start(front)
    answer = nginx.get(f"/files/{PLAIN.id}", {"Range": f"bytes={asked}"})
    assert answer.status == 206, answer
    assert answer.body == PLAIN.body[first:end]
    assert answer.header("Content-Range") == f"bytes {first}-{end - 1}/{SIZE}"
    # unicorn ends it with the connection
    assert answer.header("Content-Length") in (str(end - first), None)


def test_range_beyond_the_end(front: Front) -> None:
    """416, with the length."""
    nginx = start(front)
    answer = nginx.get(f"/files/{PLAIN.id}", {"Range": f"bytes={SIZE}-"})
    assert answer.status == 416, answer
    assert answer.header("Content-Range") == f"bytes */{SIZE}"


def test_not_modified(front: Front) -> None:
    """Who has the file already gets no body, by its tag or by its time."""
    nginx = start(front)
    have = nginx.get(f"/files/{PLAIN.id}")
    tag, time = have.header("ETag"), have.header("Last-Modified")
    assert tag is not None or time is not None
    if tag is not None:
        answer = nginx.get(f"/files/{PLAIN.id}", {"If-None-Match": tag})
        assert (answer.status, answer.body) == (304, b"")
        assert answer.header("ETag") == tag
    if time is not None:
        answer = nginx.get(f"/files/{PLAIN.id}", {"If-Modified-Since": time})
        assert (answer.status, answer.body) == (304, b"")


def test_head(front: Front) -> None:
    """HEAD has the headers of GET; a length is that of the file."""
    nginx = start(front)
    answer = nginx.head(f"/files/{PLAIN.id}")
    got = nginx.get(f"/files/{PLAIN.id}")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("Content-Length") in (str(SIZE), None)
    for name in ("Content-Type", "Content-Disposition", "Cache-Control"):
        assert answer.header(name) == got.header(name)


def test_missing(front: Front) -> None:
    """What the application does not know is its 404, with its page."""
    nginx = start(front)
    answer = nginx.get("/files/404")
    assert answer.status == 404
    assert answer.body == front.plain_body("/files/404")


def test_client_has_no_say(front: Front) -> None:
    """The headers that name a file, or say how to, are not taken from a client."""
    nginx = start(front)
    root = front.app.place.files
    hostile = [
        ("X-Sendfile", f"{root}/A.txt"),
        ("X-Sendfile-Type", "X-Accel-Redirect"),
        ("x-sendfile-type", "X-Lighttpd-Send-File"),
        ("X_Sendfile_Type", "X-Accel-Redirect"),
        ("X-Accel-Mapping", f"{root}/reports/plain.txt=/protected/A.txt"),
        ("X-Accel-Redirect", "/protected/A.txt"),
        ("X-Accel-Expires", "600"),
    ]
    answer = nginx.get(f"/files/{PLAIN.id}", hostile)
    assert_file(answer, PLAIN)
    assert nginx.logged(f"/files/{PLAIN.id}").source == "app"


def test_only_below_what_is_allowed(front: Front) -> None:
    """A file elsewhere is a 502, and says nothing of itself."""
    if front.kind.accept == "X-Accel-Redirect":
        # which names no path: its location says what it may send
        nginx = front.start(
            "location ^~ /protected/reports/ { return 403; }", location=front.accept()
        )
        assert nginx.get(f"/files/{PLAIN.id}").status == 403
        assert_file(nginx.get("/files/2"), DOCUMENTS[1])
        return
    nginx = front.start(
        location="http_sendfile_accept X-Sendfile;"
        " http_sendfile_allow %%APP_FILES%%/reports;"
    )
    assert_file(nginx.get(f"/files/{PLAIN.id}"), PLAIN)
    assert nginx.errors() == []
    answer = nginx.get("/files/2")
    assert answer.status == 502
    assert DOCUMENTS[1].body[:9] not in answer.body
    assert len(nginx.errors()) == 1


def test_store_first(front: Front) -> None:
    """What is in the store does not reach the application; the rest does."""
    site = front.site
    site.add(1001)
    nginx = front.start(
        location=f"http_sendfile on; http_sendfile_root %%FILES%%; {front.accept()}"
    )
    site.assert_file(nginx.get("/files/1001"), 1001)
    assert front.asked() == 0
    assert nginx.logged("/files/1001").source == "lmdb"
    assert_file(nginx.get(f"/files/{PLAIN.id}"), PLAIN)
    assert front.app.requests() == [f"GET /files/{PLAIN.id}"]
    assert nginx.logged(f"/files/{PLAIN.id}").source == "app"


@pytest.mark.kinds("symfony-php-fpm")
def test_symfony_is_told_the_header_by_nginx_alone(front: Front) -> None:
    """Without nginx's parameter it sends the file by itself, whatever a client says."""
    nginx = front.start(
        location=front.accept(),
        handler=front.app.handler.replace(
            "fastcgi_param HTTP_X_SENDFILE_TYPE X-Sendfile;", ""
        ),
    )
    root = front.app.place.files
    answer = nginx.get(
        f"/files/{PLAIN.id}",
        {
            "X-Sendfile-Type": "X-Accel-Redirect",
            "X-Accel-Mapping": f"{root}/reports/plain.txt=/protected/A.txt",
        },
    )
    assert_file(answer, PLAIN)
    assert nginx.logged(f"/files/{PLAIN.id}").target == "-"


@pytest.mark.kinds("django-xsendfile")
def test_stock_backend_cannot_name_what_is_not_ascii(front: Front) -> None:
    """django-sendfile2's X-Sendfile of such a name is no path: 502."""
    nginx = start(front)
    document = next(d for d in DOCUMENTS if not front.kind.sends(d))
    assert nginx.get(f"/files/{document.id}").status == 502
    assert len(nginx.errors()) == 1
