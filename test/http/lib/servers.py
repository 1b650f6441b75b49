"""memcached servers of a test, and the directives that lead to them."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Protocol

from . import files
from .dns import Dns
from .fake_memcached import BlackHole, Fake, Script, answer
from .memcached import DEFAULT_PORT, Memcached
from .site import Site
from .wait import wait_until

DEFAULT_PORT_LOCK = Path(tempfile.gettempdir()) / f"nsf-port-{DEFAULT_PORT}.lock"
DEFAULT_PORT_WAIT = 300.0

APP = "location @app { proxy_pass http://%%APP%%; }\n"
FALLBACK = "http_sendfile_fallback @app;"

# of lookups, where a test says none: a store may have to wait for a processor
DEADLINE = "timeout 3s;"

# a deadline that is none: a client gives up before
PATIENT = "timeout 5m;"


class Closing(Protocol):
    """What is closed at the end of a test."""

    def close(self) -> None:
        """Be gone."""


class Store(Protocol):
    """What values can be put into."""

    def put(self, key: int | str, value: object) -> None:
        """Store bytes and str as they are, anything else as JSON."""


class Servers:
    """Makes the servers of a test, and closes them after it.

    Args:
        site: the test's, whose directory takes files and sockets.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._closing: list[Closing] = []
        self._lock: IO[str] | None = None

    def _socket_path(self) -> Path:
        return self._site.directory / f"socket{len(self._closing)}"

    def memcached(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        unix: bool = False,
        options: tuple[str, ...] = (),
    ) -> Memcached:
        """Start a memcached; see ``Memcached``."""
        path = self._socket_path() if unix else None
        server = Memcached(self._site.directory, host, port, path, options)
        self._closing.append(server)
        return server

    def default_memcached(self) -> Memcached:
        """Start a memcached at the default address, 127.0.0.1:11211.

        Waits for other tests that do.

        Raises:
            AssertionError: somebody else listens there.
        """
        self._lock = DEFAULT_PORT_LOCK.open("a")
        lock = self._lock

        def locked() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        wait_until(locked, DEFAULT_PORT_WAIT, f"other tests to leave {DEFAULT_PORT}")
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", DEFAULT_PORT))
            except OSError as error:
                raise AssertionError(
                    f"this test needs 127.0.0.1:{DEFAULT_PORT} for a memcached of"
                    f" its own: {error}; stop what listens there (systemctl"
                    " disable --now memcached?)"
                ) from error
        return self.memcached(port=DEFAULT_PORT)

    def fake(
        self,
        script: Script = answer,
        unix: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        deaf: bool = False,
        greeting: bytes = b"",
    ) -> Fake:
        """Start a scripted memcached; see ``Fake``."""
        path = str(self._socket_path()) if unix else None
        server = Fake(script, path, host, port, deaf, greeting)
        self._closing.append(server)
        return server

    def black_hole(self, unix: bool = False) -> BlackHole:
        """Make an address that neither accepts nor refuses."""
        hole = BlackHole(str(self._socket_path()) if unix else None)
        self._closing.append(hole)
        return hole

    def refused(self) -> str:
        """Return the URL of a port that nobody listens on, or will."""
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        self._closing.append(sock)
        return f"memcached://127.0.0.1:{sock.getsockname()[1]}"

    def dns(self, names: dict[str, list[str]], silent: bool = False) -> Dns:
        """Start a DNS server; see ``Dns``."""
        server = Dns(names, silent)
        self._closing.append(server)
        return server

    def close(self) -> None:
        """Stop all servers.

        Raises:
            AssertionError: a fake memcached has something to complain about.
        """
        try:
            while self._closing:
                self._closing.pop().close()
        finally:
            for server in self._closing:
                server.close()
            if self._lock is not None:
                self._lock.close()


def add(
    site: Site,
    store: Store,
    file_id: int,
    size: int = files.DEFAULT_SIZE,
    **record: object,
) -> None:
    """Write the file of an ID, and store its path, or a record with it.

    Args:
        site: whose files.
        store: where the value goes, under the ID.
        file_id: the ID.
        size: of the file, in bytes.
        record: fields of a JSON record; without any the value is the path.
    """
    path = f"aa/{file_id}.dat"
    site.files.write_id(path, file_id, size)
    store.put(file_id, {"path": path, **record} if record else path)


def add_many(site: Site, store: Store, file_ids: Iterable[int]) -> list[int]:
    """Do ``add`` for each ID, and return them."""
    found = list(file_ids)
    for file_id in found:
        add(site, store, file_id)
    return found


def location(store: str, more: str = "", name: str = "file") -> str:
    """Return a location /NAME/ that looks up in a store.

    Args:
        store: a URL, or the name of a block.
        more: directives.
        name: of the location.
    """
    return (
        f"location /{name}/ {{ http_sendfile on; http_sendfile_lookup {store};"
        f" %%DELIVER%% {more} }}\n"
    )


def block(servers: Iterable[str], more: str = "", name: str = "ids") -> str:
    """Return a store block.

    Args:
        servers: a URL each, with parameters or without.
        more: directives; a ``timeout`` takes the place of DEADLINE.
        name: of the store.
    """
    lines = "".join(f"    server {server};\n" for server in servers)
    if not re.search(r"\btimeout ", more):
        more = f"{DEADLINE} {more}"
    return f"http_sendfile_store {name} {{\n{lines}    {more}\n}}\n"


def patient(server: str, more: str = PATIENT, name: str = "ids") -> str:
    """Return a block of one server that is never thought to be down."""
    return block([f"{server} max_fails=0"], more, name)


def many_connections(site: Site, server: str, http: str = "") -> str:
    """Return a whole configuration for some thousand connections.

    Args:
        site: whose.
        server: directives for the server block.
        http: directives for the http block.
    """
    template = site.template(server, http)
    assert "worker_connections 256" in template
    if os.geteuid() == 0:
        template = "worker_rlimit_nofile 20000;\n" + template
    return template.replace("worker_connections 256", "worker_connections 8192")
