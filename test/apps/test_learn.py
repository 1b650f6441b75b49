"""http_sendfile_learn: the second request does not reach the application."""

from __future__ import annotations

import pytest

from harness.catalog import DOCUMENTS, PLAIN, SIZE, Document, temporary
from harness.start import Front, app_headers, assert_file, file_name
from lib.nginx import Nginx

ZONE = "http_sendfile_cache_zone learned:1m;"


def by_name(document: Document) -> str:
    """Return a test's ID."""
    return document.name


def start(front: Front, more: str = "", server: str = "") -> Nginx:
    """Start nginx so that it learns.

    Args:
        front: of the application.
        more: directives for the location.
        server: directives for the server.
    """
    return front.start(
        server,
        http=ZONE,
        location="http_sendfile_cache learned; http_sendfile_learn on;"
        f" {front.accept()} {more}",
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_second_request_does_not_reach_the_application(
    front: Front, document: Document
) -> None:
    """The same file with the same headers; the application was asked once."""
    if not front.kind.sends(document):
        document = PLAIN
    nginx = start(front)
    uri = f"/public/{document.id}"
    first = nginx.get(uri)
    assert_file(first, document)
    assert nginx.logged(uri).source == "app"
    assert first.header("Age") is None
    for count in (2, 3):
        again = nginx.get(uri)
        assert_file(again, document)
        assert int(again.header("Age") or "") >= 0
        assert app_headers(again) == app_headers(first)
        assert file_name(again) == ("inline", document.name)
        entry = nginx.logged(uri, count)
        assert (entry.source, entry.status) == ("learned", "HIT")
    assert front.app.requests() == [f"GET {uri}"]


# the reasons there may be, for an answer that says nothing, and for a private one
REASONS = {
    "files": {
        "neither X-Accel-Expires nor public",
        "private",
        "no-cache",
        "no lifetime",
        "Set-Cookie",
    },
    "mine": {"Set-Cookie", "private", "no-store"},
}


@pytest.mark.parametrize("route", REASONS)
def test_private_answer_is_never_learned(front: Front, route: str) -> None:
    """One for a user, and one that says nothing: the application is always asked."""
    nginx = start(front)
    uri = f"/{route}/{PLAIN.id}"
    for count in (1, 2, 3):
        assert_file(nginx.get(uri), PLAIN)
        entry = nginx.logged(uri, count)
        assert entry.source == "app"
        assert entry.reason.removeprefix("not learned: ") in REASONS[route], entry
    assert front.asked() == 3


def test_users_get_their_own_cookies(front: Front) -> None:
    """Each answer for a user is the application's, also for who comes back."""
    nginx = start(front)
    uri = f"/mine/{PLAIN.id}"
    answers = [nginx.get(uri), nginx.get(uri)]
    for first in list(answers):
        jar = "; ".join(c.partition(";")[0] for c in first.all("Set-Cookie"))
        answers.append(nginx.get(uri, {"Cookie": jar} if jar else None))
    for answer in answers:
        assert_file(answer, PLAIN)
    assert front.asked() == len(answers)
    assert {entry.source for entry in nginx.access_entries(uri)} == {"app"}


def test_what_is_learned_serves_ranges_and_head(front: Front) -> None:
    """And conditions: all that nginx does with a file."""
    nginx = start(front)
    uri = f"/public/{PLAIN.id}"
    first = nginx.get(uri)
    head = nginx.head(uri)
    assert (head.status, head.body) == (200, b"")
    assert head.header("Content-Length") == str(SIZE)
    assert app_headers(head) == app_headers(first)
    part = nginx.get(uri, {"Range": "bytes=100-199"})
    assert (part.status, part.body) == (206, PLAIN.body[100:200])
    assert part.header("Content-Range") == f"bytes 100-199/{SIZE}"
    if tag := first.header("ETag"):
        assert nginx.get(uri, {"If-None-Match": tag}).status == 304
    if time := first.header("Last-Modified"):
        assert nginx.get(uri, {"If-Modified-Since": time}).status == 304
    assert front.asked() == 1


def test_each_query_is_an_answer_of_its_own(front: Front) -> None:
    """The application may look at the query string."""
    nginx = start(front)
    for query in ("", "?a=1", "?a=2"):
        for _ in range(2):
            assert_file(nginx.get(f"/public/{PLAIN.id}{query}"), PLAIN)
    assert front.app.requests() == [
        f"GET /public/{PLAIN.id}{query}" for query in ("", "?a=1", "?a=2")
    ]


def test_missing_is_not_learned(front: Front) -> None:
    """A 404 is asked for anew."""
    nginx = start(front)
    for _ in range(2):
        assert nginx.get("/public/404").status == 404
    assert front.asked() == 2


def test_vanished_file_is_asked_for_anew(front: Front) -> None:
    """What was learned of a file ends with it."""
    document = temporary(front.app.place.files)
    nginx = start(front)
    uri = f"/public/{document.id}"
    for _ in range(2):
        assert_file(nginx.get(uri), document)
    assert front.asked() == 1
    (front.app.place.files / document.path).unlink()
    for _ in range(2):
        assert nginx.get(uri).status >= 400
    # the location that is redirected to sees it missing, and then it is too late
    late = front.kind.accept == "X-Accel-Redirect"
    assert front.asked() == (2 if late else 3)


def test_purge(front: Front) -> None:
    """An application withdraws what was learned by its key: here the ID."""
    nginx = start(
        front,
        server="location ^~ /sendfile-status { http_sendfile_status write; }",
    )
    uri = f"/public/{PLAIN.id}"
    for _ in range(2):
        assert_file(nginx.get(uri), PLAIN)
    assert front.asked() == 1
    done = nginx.request("DELETE", f"/sendfile-status/cache/{PLAIN.id}")
    assert done.status == 200, done
    assert_file(nginx.get(uri), PLAIN)
    assert front.asked() == 2


def test_store_then_learned_then_application(front: Front) -> None:
    """All three in one location."""
    front.site.add(1001)
    nginx = start(front, "http_sendfile on; http_sendfile_root %%FILES%%;")
    front.site.assert_file(nginx.get("/public/1001"), 1001)
    for _ in range(3):
        assert_file(nginx.get(f"/public/{PLAIN.id}"), PLAIN)
    assert front.app.requests() == [f"GET /public/{PLAIN.id}"]
    assert nginx.logged(f"/public/{PLAIN.id}", 3).source == "learned"


@pytest.mark.kinds("rails-puma")
def test_rails_expires_in_public(front: Front) -> None:
    """What an action says to browsers and proxies counts for nginx, too."""
    nginx = start(front)
    for _ in range(2):
        answer = nginx.get(f"/cached/{PLAIN.id}")
        assert_file(answer, PLAIN)
        assert answer.header("Cache-Control") == "max-age=600, public"
    assert front.asked() == 1


@pytest.mark.kinds("rails-puma")
def test_rails_reading_the_session_sets_it(front: Front) -> None:
    """Rails' cookie store writes what was read, so such an answer is not learned."""
    start(front)
    cookie = front.plain("/login/alice").header("Set-Cookie")
    assert cookie is not None
    answer = front.plain("/check", {"Cookie": cookie.partition(";")[0]})
    assert answer.status == 204
    assert answer.header("Set-Cookie") is not None
