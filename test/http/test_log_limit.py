"""A store that is down fills no disk: a line for each reason and second."""

from __future__ import annotations

import re
import time
from collections import Counter

from lib.fake_memcached import Fake, Get, Peer, answer
from lib.nginx import Nginx
from lib.site import Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

REQUESTS = 60
LEFT_OUT = re.compile(r"\((\d+) more of these not logged\)")
REASON = re.compile(r'http_sendfile: key "\d+" in \S+: ([^,]+), ')


def lines_of(nginx: Nginx) -> tuple[Counter[str], int]:
    """Return how often each reason was logged, and what was left out in all."""
    reasons: Counter[str] = Counter()
    left_out = 0
    for line in nginx.errors("error"):
        if found := REASON.search(line):
            reasons[found[1]] += 1
        elif "http_sendfile: store " not in line:
            continue
        left_out += sum(int(n) for n in LEFT_OUT.findall(line))
    return reasons, left_out


def test_each_request_is_logged_or_counted(site: Site) -> None:
    """Lines and counts together are all requests, the last ones at the end."""
    nginx = site.start(
        "location /file/ { http_sendfile on;"
        " http_sendfile_lookup memcached://127.0.0.1:1; }"
    )
    start = time.monotonic()
    with nginx.connect() as connection:
        for n in range(REQUESTS):
            assert connection.request("GET", f"/file/{n}").status == 502
    seconds = time.monotonic() - start
    nginx.stop()
    reasons, left_out = lines_of(nginx)
    assert reasons.total() + left_out == REQUESTS
    assert left_out > 0
    assert all(count <= seconds + 1 for count in reasons.values()), reasons


def test_told_when_the_trouble_is_over(site: Site, fake: Fake) -> None:
    """The count of what was left out comes with the store's next answers."""
    good = False

    async def script(peer: Peer, get: Get) -> None:
        if good:
            await answer(peer, get)
        else:
            await peer.send(b"SERVER_ERROR out of memory\r\n")

    fake.script = script
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {fake.url}; }}"
    )
    with nginx.connect() as connection:
        for n in range(REQUESTS):
            assert connection.request("GET", f"/file/{n}").status == 502
    good = True

    def told() -> bool:
        nginx.get("/file/1")
        reasons, left_out = lines_of(nginx)
        return reasons.total() + left_out >= REQUESTS

    wait_until(told, what="all failures to be counted")


def test_misses_and_bad_records_are_all_logged(site: Site) -> None:
    """What is not the store's trouble has its line for each request."""
    site.store.put(7, "../x")
    nginx = site.start("location /file/ { http_sendfile on; }")
    for _ in range(5):
        assert nginx.get("/file/7").status == 502
        assert nginx.get("/file/8").status == 404
    assert sum("invalid record" in line for line in nginx.errors("error")) == 5
    assert sum("not in store" in line for line in nginx.errors("info")) == 5


def test_says_what_to_run(site: Site) -> None:
    """The line of a failure has the command, with the URL as it came."""
    nginx = site.start("location /file/ { http_sendfile on; }")
    nginx.get("/file/8?a=1", {"Host": "example.com"})
    nginx.wait_for_log(
        r"answered 404, see: sendfilectl explain 'http://example.com/file/8\?a=1'"
    )


def test_no_url_that_a_shell_would_run(site: Site) -> None:
    """A URL with a quote in it is not proposed to be pasted, nor is a long one."""
    nginx = site.start("location /file/ { http_sendfile on; }")
    for uri in ("/file/8?a=';reboot;'", "/file/8?" + 400 * "x", "/file/8?\xe9"):
        nginx.get(uri.encode("latin-1"))
    lines = [line for line in nginx.errors("info") if "answered 404" in line]
    assert len(lines) == 3
    assert all("see: sendfilectl explain, client" in line for line in lines)
