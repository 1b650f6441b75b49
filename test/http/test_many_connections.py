"""10,000 connections, 1,000 of them busy: what a worker needs for each."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from lib.cache import CACHE, ZONE
from lib.client import Connection
from lib.nginx import Flavour, Nginx
from lib.site import Site
from lib.wait import wait_until

IDLE = 10_000
BUSY = 1_000
# nginx closes idle ones as soon as but a sixteenth of them is free
MOST = (IDLE + BUSY) * 9 // 8
LARGE = 8_000_000

# bytes that either may take more than for nginx's own static files
MORE = 1024

SERVER = f"""
    keepalive_timeout 300s;
    send_timeout 300s;
    location /file/ {{ http_sendfile on; http_sendfile_root %%FILES%%; }}
    location /cached/ {{ http_sendfile on; http_sendfile_root %%FILES%%; {CACHE} }}
    location /static/ {{ alias %%FILES%%/; }}
    location = /count {{ return 200 $connections_active,$connections_waiting; }}
"""


def memory(nginx: Nginx) -> int:
    """Return the bytes that the worker has for itself."""
    (worker,) = nginx.workers()
    status = Path(f"/proc/{worker}/status").read_text("ascii")
    found = re.search(r"RssAnon:\s*(\d+) kB", status)
    assert found
    return 1024 * int(found[1])


def waiting(nginx: Nginx) -> int:
    """Return how many connections wait for a request."""
    return int(nginx.get("/count").text.partition(",")[2])


@contextmanager
def idle(nginx: Nginx, target: str) -> Iterator[None]:
    """Keep connections open, each with a request behind it."""
    with ExitStack() as stack:
        for _ in range(IDLE):
            connection = stack.enter_context(nginx.connect())
            assert connection.request("GET", target).status == 200
        wait_until(lambda: waiting(nginx) == IDLE, what="idle connections")
        yield


@contextmanager
def busy(nginx: Nginx, target: str) -> Iterator[list[Connection]]:
    """Keep requests whose answers nobody reads further than their beginning."""
    with ExitStack() as stack:
        connections = [stack.enter_context(nginx.connect()) for _ in range(BUSY)]
        for connection in connections:
            connection.send_request("GET", target)
        for connection in connections:
            # it is there, and stays where it is
            assert connection.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        yield connections


Kept = Callable[[Nginx, str], AbstractContextManager[object]]


@pytest.fixture
def start(site: Site) -> Callable[[], Nginx]:
    """How to start an nginx that has room for all of them."""
    template = site.template(SERVER, ZONE)
    assert "worker_connections 256" in template
    template = template.replace("worker_connections 256", f"worker_connections {MOST}")
    return lambda: site.start_whole(template)


def each(nginx: Nginx, kept: Kept, number: int, target: str) -> float:
    """Return the bytes that each of them takes."""
    assert nginx.get(target, {"Range": "bytes=0-0"}).status == 206
    before = memory(nginx)
    with kept(nginx, target):
        return (memory(nginx) - before) / number


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kept", "number", "size"), [(idle, IDLE, 3000), (busy, BUSY, LARGE)]
)
def test_memory(
    site: Site,
    flavour: Flavour,
    start: Callable[[], Nginx],
    kept: Kept,
    number: int,
    size: int,
) -> None:
    """A connection takes no more than 1 KB more than for nginx's own static files."""
    site.add(1, size=size)
    static, *ours = (
        each(start(), kept, number, target)
        for target in ("/static/aa/1.dat", "/file/1", "/cached/1")
    )
    print(f"{static=} {ours=}")
    # sanitizers have more around each piece of memory
    more = MORE if flavour.module else 8 * MORE
    assert max(ours) <= static + more
    assert min(static, *ours) > 0


@pytest.mark.timeout(300)
def test_busy_among_idle(site: Site, start: Callable[[], Nginx]) -> None:
    """All of the busy ones are served, and none of the idle ones is lost."""
    site.add(1, size=3000)
    site.add(2, size=LARGE)
    nginx = start()
    with idle(nginx, "/file/1"), busy(nginx, "/cached/2") as connections:
        assert waiting(nginx) == IDLE
        for connection in connections[::400]:
            site.assert_file(connection.read_response(), 2, LARGE)
        site.assert_file(nginx.get("/file/1"), 1, 3000)
    wait_until(lambda: waiting(nginx) == 0, what="the end of all")
