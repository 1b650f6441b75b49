"""What the tests of http_sendfile_learn stand on."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

from .accept import STATIC, sendfile
from .cache import STATUS, ZONE, Answer
from .client import Connection, Headers
from .gateway import Gateway, Said
from .http10 import PeerRequest
from .nginx import Nginx
from .site import Site
from .wait import lateness, wait_until

SIZE = 1000
NAME = "aa/1.txt"
MTIME = 1_700_000_000

LEARN = "http_sendfile_learn on; http_sendfile_cache main;"
SERVER = f"location / {{ {LEARN} %%ACCEPT%% %%PASS%% }} {STATIC} %%INTERNAL%% {STATUS}"

MINUTE = ("X-Accel-Expires", "60")

AUTHORIZED = {"Authorization": "Basic dXNlcjpwYXNz"}


def write(site: Site, file_id: int = 1, name: str = "", size: int = SIZE) -> Path:
    """Write the file of an ID, which is old."""
    path = site.files.write_id(name or f"aa/{file_id}.txt", file_id, size)
    os.utime(path, (MTIME, MTIME))
    return path


def start(site: Site, server: str = SERVER, http: str = "") -> Nginx:
    """Start a server with a cache."""
    return site.start(server, ZONE + http)


def named(site: Site, header: str) -> tuple[str, str]:
    """Write the file, and return the header that names it."""
    path = write(site)
    return header, f"/files/{NAME}" if header == "X-Accel-Redirect" else str(path)


def ask(
    nginx: Nginx,
    uri: str = "/a",
    headers: Headers | None = None,
    method: str = "GET",
    on: Connection | None = None,
) -> Answer:
    """Send a request and wait for its line in the access log.

    Args:
        nginx: to ask.
        uri: with its query string.
        headers: of the request.
        method: of the request.
        on: a connection; one of its own by default.
    """
    before = len(nginx.access_entries(uri))
    if on is not None:
        response = on.request(method, uri, headers)
    else:
        response = nginx.request(method, uri, headers)
    return Answer(response, nginx.logged(uri, before + 1))


def source(nginx: Nginx, uri: str = "/a", headers: Headers | None = None) -> str:
    """Return $sendfile_source of a GET that has to be answered with 200."""
    answer = ask(nginx, uri, headers)
    assert answer.response.status == 200, answer.response
    return answer.entry.source


def assert_learned(nginx: Nginx, app: Gateway, uri: str = "/a") -> None:
    """Check that the second request does not reach the application."""
    before = app.count()
    assert source(nginx, uri) == "app"
    assert source(nginx, uri) == "learned"
    assert source(nginx, uri) == "learned"
    assert app.count() == before + 1


def soon() -> tuple[str, str]:
    """Return a lifetime that is over soon, but not before a test has asked thrice."""
    return ("X-Accel-Expires", str(2 + round(2 * lateness())))


def in_seconds(seconds: float) -> str:
    """Return an HTTP date."""
    return formatdate(time.time() + seconds, usegmt=True)


def expire(
    nginx: Nginx,
    app: Gateway,
    count: int,
    uri: str = "/a",
    headers: Headers | None = None,
    method: str = "GET",
) -> Connection:
    """Ask until a request has reached the application, and is not yet answered.

    Args:
        nginx: to ask.
        app: it must hold its answer back.
        count: of the requests that the application has had then.
        uri: to ask for.
        headers: of the request.
        method: of the request.

    Returns:
        The connection of that request.
    """

    def asks() -> Connection | None:
        connection = nginx.connect()
        connection.send_request(method, uri, headers)
        if _is_held(connection, app, count):
            return connection
        assert connection.read_response(method).status in (200, 206)
        connection.close()
        return None

    connection = wait_until(asks, what="it to expire")
    assert connection is not None
    return connection


def reach(nginx: Nginx, app: Gateway, count: int, uri: str = "/a") -> Connection:
    """As ``expire``, of which the first request has to reach the application."""
    connection = nginx.connect()
    connection.send_request("GET", uri)
    assert _is_held(connection, app, count), connection.read_response()
    return connection


def leave(nginx: Nginx, connection: Connection, uri: str = "/a") -> None:
    """Break the connection of a request, and wait until nginx knows."""

    def left() -> int:
        return sum(entry.code == 499 for entry in nginx.access_entries(uri))

    before = left()
    connection.abort()
    wait_until(lambda: left() > before, what="nginx to notice")


def _is_held(connection: Connection, app: Gateway, count: int) -> bool:
    """Tell whether a request has reached the application, or is answered."""

    def answered() -> bool:
        return bool(select.select([connection.socket], [], [], 0)[0])

    wait_until(lambda: app.count() >= count or answered(), what="an answer")
    return app.count() >= count and not answered()


class Held:
    """An application whose answers wait, from one of them on.

    Args:
        site: the test's.
        app: the application.
        first: what it answers at once, the first time.
        later: what it answers to all others, when it may go on.
    """

    def __init__(self, site: Site, app: Gateway, first: Said, later: Said) -> None:
        self.go = threading.Event()
        self.later = later
        self._first = first
        self._app = app
        app.script = self._script

    def _script(self, request: PeerRequest) -> Said:
        if self._app.count() == 1:
            return self._first
        assert self.go.wait(300), "nobody lets the application go on"
        return self.later


# front controllers


def with_original(app: Gateway) -> str:
    """Return the directives that pass a request with the URL as it was sent."""
    if app.protocol == "http":
        return f"proxy_set_header X-Original $http_host$request_uri; {app.passes()}"
    name = f"{app.prefix}_param"
    return f"{name} HTTP_X_ORIGINAL $http_host$request_uri; {app.passes()}"


def by_original(site: Site, *lines: tuple[str, str]) -> Callable[[PeerRequest], Said]:
    """Return a script that names another file for each URL of ``with_original``."""
    numbers: dict[str, int] = {}

    def script(request: PeerRequest) -> Said:
        url = request.header("X-Original") or request.header("X_ORIGINAL")
        assert url is not None
        number = numbers.setdefault(url, len(numbers))
        return sendfile(write(site, number), *(lines or (MINUTE,)))

    return script


def assert_each_its_own(
    site: Site, nginx: Nginx, uris: list[str], first: str = "app", then: str = "learned"
) -> None:
    """Check that each URI gets a file of its own, however often it is asked for.

    Args:
        site: whose files they are; ``by_original`` has to be the script.
        nginx: to ask.
        uris: not asked for before.
        first: $sendfile_source of the first answers.
        then: of all others.
    """
    for turn in range(3):
        for number, uri in enumerate(uris):
            answer = ask(nginx, uri)
            site.assert_file(answer.response, number, SIZE)
            assert answer.entry.source == (then if turn else first), uri
