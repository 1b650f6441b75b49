"""Active Storage's blobs and representations as Rails 6.1 itself has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.activestorage import RailsBlobs
from lib.cache import CACHE, STATUS, ZONE, purge
from lib.client import Connection, Response, request
from lib.nginx import Flavour, Nginx
from lib.signed import load_signed, write_keys
from lib.site import Site
from lib.sqlite import block, load_sqlite

PICTURES = 40
TYPES = (
    *("text/html", "image/svg+xml", "text/plain", "image/jpeg", "application/pdf"),
    *("text/javascript", "application/xml", "video/mp4", "image/x-icon"),
)

PLAIN = """
    location / { proxy_pass http://%%RAILS%%; proxy_set_header Host $http_host; }
"""
SERVED = (
    PLAIN
    + """
    location /rails/active_storage/ {
        http_sendfile_activestorage %%DIR%%/keys blobs;
        http_sendfile_root %%FILES%%;
        %%MORE%%
        proxy_pass http://%%RAILS%%;
        proxy_set_header Host $http_host;
    }
"""
)


@pytest.fixture
def rails(site: Site) -> Iterator[RailsBlobs]:
    """Rails with its blobs, behind a site with its keys."""
    load_signed(site)
    site.variables["LOOKUP"] = ""
    application = RailsBlobs(site, PICTURES, TYPES)
    write_keys(site, application.key)
    site.variables["RAILS"] = application.address
    yield application
    application.close()


def follow(nginx: Nginx, target: str) -> Response:
    """Ask as a browser does, which goes where it is led to."""
    answer = nginx.get(target)
    if answer.status == 302:
        place = answer.header("Location")
        assert place is not None
        answer = nginx.get(re.sub(r"^http://[^/]*", "", place))
    return answer


def view(nginx: Nginx, page: str) -> None:
    """Look at a page, and at the pictures on it."""
    pictures = re.findall(r'<img src="([^"]*)">', nginx.get(page).text)
    assert len(pictures) == PICTURES
    for number, url in enumerate(pictures, 1):
        answer = follow(nginx, url)
        assert (answer.status, answer.text) == (200, f"picture {number}\n")
        assert answer.header("Content-Type") == "image/png"


def asked(rails: RailsBlobs, nginx: Nginx) -> int:
    """Return how often Rails is asked for one view of the page."""
    before = rails.requests
    view(nginx, rails.page)
    return rails.requests - before


def sqlite(site: Site, rails: RailsBlobs) -> str:
    """Return a store block for Rails' own database."""
    load_sqlite(site)
    return block(rails.database, "activestorage")


@pytest.mark.timeout(300)
def test_page_with_40_pictures(site: Site, rails: RailsBlobs) -> None:
    """81 requests of Rails without us, 1 with its database, 1 once learned."""
    assert asked(rails, site.start(PLAIN)) == 1 + 2 * PICTURES == 81
    lookup = "http_sendfile_lookup blobs;"
    nginx = site.start(SERVED.replace("%%MORE%%", lookup), sqlite(site, rails))
    assert asked(rails, nginx) == 1
    learn = f"http_sendfile_learn on; {CACHE}"
    nginx = site.start(SERVED.replace("%%MORE%%", learn), ZONE)
    assert [asked(rails, nginx) for _ in range(3)] == [1 + PICTURES, 1, 1]


def cpu_time(pid: int) -> int:
    """Return how long a process has run so far, in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def cost(pid: int, port: int, target: str, requests: int) -> float:
    """Return the nanoseconds that a process needs for a request."""
    with Connection(port) as connection:
        assert connection.request("GET", target).status == 200
        before = cpu_time(pid)
        for _ in range(requests):
            assert connection.request("GET", target).status == 200
        return (cpu_time(pid) - before) / requests


@pytest.mark.timeout(300)
def test_cpu_time_of_a_file(site: Site, rails: RailsBlobs, flavour: Flavour) -> None:
    """A file by its token, from memory: Rails needs at least 60 times as much."""
    cache = f"http_sendfile_learn on; {CACHE} http_sendfile_cache_body 64k;"
    nginx = site.start(SERVED.replace("%%MORE%%", cache), ZONE)
    redirect = request(rails.port, "GET", rails.types["image/jpeg"]["redirect"])
    target = re.sub(r"^http://[^/]*", "", str(redirect.header("Location")))
    (worker,) = nginx.workers()
    ours = cost(worker, nginx.port, target, 900)
    theirs = cost(rails.pid, rails.port, target, 100)
    # with sanitizers ours is slower, too
    assert theirs / ours >= (60 if flavour.module else 10)


# of each answer, beside the status and the body
HEADERS = ("Content-Type", "Cache-Control", "X-Content-Type-Options")


def disposition(answer: Response) -> tuple[str, str]:
    """Return kind and name, however the name is written."""
    header = str(answer.header("Content-Disposition"))
    kind, _, rest = header.partition("; filename=")
    name = rest.partition(";")[0].strip('"')
    return kind, re.sub("%3A", "-", name)


def compare(nginx: Nginx, rails: RailsBlobs, theirs: dict[str, Response]) -> None:
    """Check that nginx answers as Rails, which is not asked."""
    before = rails.requests
    for url, expected in theirs.items():
        answer = nginx.get(url)
        assert (answer.status, answer.body) == (200, expected.body), url
        for name in HEADERS:
            assert answer.all(name) == expected.all(name), url
        assert disposition(answer) == disposition(expected), url
    assert rails.requests == before


@pytest.mark.timeout(300)
def test_as_rails_answers(site: Site, rails: RailsBlobs) -> None:
    """Type, disposition and body of each type in each mode, by Rails' own lists."""
    blobs = [
        rails.types[type][mode] + query
        for type in TYPES
        for mode, query in (
            *(("redirect", ""), ("redirect", "?disposition=attachment")),
            *(("old", "?disposition=inline"), ("proxy", "")),
            ("proxy", "?a=1&disposition=attachment"),
        )
    ]
    variants = [rails.variant[mode] for mode in ("redirect", "proxy")]
    nginx = site.start(PLAIN)
    theirs = {url: follow(nginx, url) for url in blobs + variants}
    more = f"http_sendfile_learn on; {CACHE} http_sendfile_cache_valid 1h;"
    nginx = site.start(SERVED.replace("%%MORE%%", more), ZONE)
    for one in (*rails.types.values(), rails.variant):
        assert nginx.get(one["redirect"]).status == 302
    compare(nginx, rails, theirs)
    nginx = site.start(
        SERVED.replace("%%MORE%%", "http_sendfile_lookup blobs;"), sqlite(site, rails)
    )
    compare(nginx, rails, theirs)


@pytest.mark.timeout(300)
def test_blob_that_is_deleted(site: Site, rails: RailsBlobs) -> None:
    """The file is gone: Rails is asked, and says 404 itself; purged, it is, too."""
    more = f"http_sendfile_lookup blobs; {CACHE} http_sendfile_cache_valid 1h;"
    nginx = site.start(
        SERVED.replace("%%MORE%%", more) + STATUS, ZONE + sqlite(site, rails)
    )
    blob = rails.types["image/jpeg"]
    assert nginx.get(blob["redirect"]).status == 200
    assert nginx.request("DELETE", f"/blob/{blob['id']}").status == 204
    assert nginx.get(blob["redirect"]).status == 404
    purge(nginx, f"activestorage:{blob['id']}")
    assert nginx.get(blob["redirect"]).status == 404
