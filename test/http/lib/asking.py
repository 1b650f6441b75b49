"""Clients that ask for files all the time while something is done to nginx."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .client import Connection, ConnectionClosed, Response
from .files import DEFAULT_SIZE, content
from .nginx import Nginx
from .wait import wait_until

# requests of a connection
EACH = 20

# which files, one after the other, a prime number apart
STEP = 7


class Asking:
    """What has come of the requests so far.

    Attributes:
        wrong: the responses that were not the file.
    """

    def __init__(self) -> None:
        self.wrong: list[Response] = []
        self._done = 0
        self._lock = threading.Lock()

    def came(self, response: Response, good: bool) -> None:
        """Count a response."""
        with self._lock:
            self._done += 1
            if not good:
                self.wrong.append(response)

    def more(self, number: int) -> None:
        """Wait until so many more requests have been done."""
        enough = self._done + number
        wait_until(lambda: self._done > enough, what="requests")


def _nothing(connection: Connection, file_id: int) -> None:
    """Do nothing else."""


@contextmanager
def asking(
    nginx: Nginx,
    number: int,
    size: int = DEFAULT_SIZE,
    clients: int = 3,
    then: Callable[[Connection, int], None] = _nothing,
) -> Iterator[Asking]:
    """Let clients ask for ``/file/0`` and so on as long as the block lasts.

    A worker that ends may close a connection which nothing was sent on: then
    there is another one.

    Args:
        nginx: the server.
        number: of files.
        size: of each.
        clients: how many at the same time.
        then: what a client does after a request for a file, on its connection.
    """
    stop = threading.Event()
    told = Asking()
    bodies = [content(n, size) for n in range(number)]

    def on_a_connection(n: int) -> int:
        with nginx.connect() as connection:
            for _ in range(EACH):
                n = (n + STEP) % number
                response = connection.request("GET", f"/file/{n}")
                told.came(
                    response, (response.status, response.body) == (200, bodies[n])
                )
                if response.closed or stop.is_set():
                    break
                then(connection, n)
        return n

    def keep_asking(n: int) -> None:
        while not stop.is_set():
            try:
                n = on_a_connection(n)
            except (ConnectionClosed, ConnectionError):
                n += 1

    threads = [threading.Thread(target=keep_asking, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield told
    finally:
        stop.set()
        for thread in threads:
            thread.join()
