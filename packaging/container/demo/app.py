"""An application whose files nginx serves: the demonstration of compose.yaml.

It knows which file an ID is, from files.csv. Who asks for a file for the first
time gets it from here; the path is then in memcached, and the next request is
nginx's alone.

usage: app.py [HOST:PORT of memcached]
"""

from __future__ import annotations

import csv
import mimetypes
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheError

FILES = Path("/srv/files")
LIST = Path("/srv/files.csv")
PORT = 8000
# seconds until an ID is asked for again
EXPIRES = 3600


def read_list() -> dict[str, str]:
    """Return the path of each ID."""
    with LIST.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["path"] for row in csv.DictReader(file)}


class Handler(BaseHTTPRequestHandler):
    """Answers a request; of the server there is one."""

    protocol_version = "HTTP/1.1"
    paths = read_list()
    memcached: PooledClient

    def do_GET(self) -> None:
        """Send a file by its ID, or the list of them."""
        if self.path == "/":
            lines = "".join(f"/file/{id_}\n" for id_ in self.paths)
            self.answer(200, "text/plain", lines.encode())
            return

        id_ = self.path.removeprefix("/file/")
        path = self.paths.get(id_)
        if path is None or self.path == id_:
            self.answer(404, "text/plain", b"no such file\n")
            return

        try:
            self.memcached.set(id_, path, expire=EXPIRES)
        except (MemcacheError, OSError) as error:
            # the file is sent all the same, and the next time from here again
            self.log_error("memcached: %s", error)
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        self.answer(200, kind, (FILES / path).read_bytes())

    do_HEAD = do_GET

    def answer(self, status: int, kind: str, body: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    """Serve until the process is ended."""
    host, _, port = (sys.argv[1:] or ["memcached:11211"])[0].rpartition(":")
    Handler.memcached = PooledClient(
        (host, int(port)), connect_timeout=1, timeout=1, encoding="utf-8"
    )
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
