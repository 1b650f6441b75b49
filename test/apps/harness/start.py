"""Starting an application, with nginx in front of it."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ports import free_port

from lib.client import Headers, Response
from lib.files import Files
from lib.nginx import Nginx
from lib.site import Site

from .app import Place, Running, StartFailed
from .catalog import Document
from .servers import Kind

ATTEMPTS = 5

# what is not the application's, or is another one each time
OWN = {
    "age",
    "accept-ranges",
    "connection",
    "content-length",
    "date",
    "server",
    "set-cookie",
    "status",
    "transfer-encoding",
    "x-request-id",
    "x-runtime",
}
NAMING = {"x-sendfile", "x-accel-redirect", "x-lighttpd-send-file"}
CONTROL = {*NAMING, "x-accel-expires"}


def start(kind: Kind, workshop: Path, files: Files) -> Running:
    """Start an application; a port that was taken is tried anew.

    Args:
        kind: which.
        workshop: where to make its directory.
        files: what it sends.
    """
    for attempt in range(ATTEMPTS):
        directory = Path(tempfile.mkdtemp(prefix=f"{kind.name}-", dir=workshop))
        directory.chmod(0o777)
        place = Place(directory, files.root, free_port())
        try:
            return Running(place, kind.folder, kind.launch(place))
        except StartFailed as failure:
            taken = "ddress already in use" in str(failure)
            if not taken or attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("not reached")


def app_headers(response: Response) -> set[tuple[str, str]]:
    """Return the headers that are the application's and always the same."""
    return {
        (name.lower(), value)
        for name, value in response.headers
        if name.lower() not in OWN | CONTROL
    }


def file_name(response: Response) -> tuple[str, str]:
    """Return what Content-Disposition says: kind and name (RFC 6266)."""
    header = response.header("Content-Disposition") or ""
    kind = header.partition(";")[0]
    if match := re.search(r"filename\*=utf-8''([^;]+)", header, re.IGNORECASE):
        return kind, unquote(match[1])
    if match := re.search(r'filename="((?:[^"\\]|\\.)*)"', header):
        name = re.sub(r"\\(.)", r"\1", match[1])
        return kind, name.encode("latin-1").decode()
    match = re.search(r"filename=([^;\s]+)", header)
    return kind, match[1] if match else ""


@dataclass
class Front:
    """nginx in front of an application.

    Args:
        kind: of application.
        app: it.
        site: whose nginx it is.
    """

    kind: Kind
    app: Running
    site: Site

    def accept(self) -> str:
        """Return what lets nginx send what the application names."""
        text = f"http_sendfile_accept {self.kind.accept};"
        if self.kind.accept == "X-Sendfile":
            text += " http_sendfile_allow %%APP_FILES%%;"
        return text

    def start(
        self, server: str = "", http: str = "", location: str = "", handler: str = ""
    ) -> Nginx:
        """Start nginx; the port ``plain`` shows what the application says.

        Args:
            server: directives for the server block.
            http: directives for the http block.
            location: directives for the location that asks the application.
            handler: in the place of those that ask it.
        """
        handler = handler or self.app.handler
        self.site.variables["APP_FILES"] = str(self.app.place.files)
        protocol = handler.partition("_pass")[0]
        plain = f"{protocol}_ignore_headers X-Accel-Redirect X-Accel-Expires;"
        for name in ("X-Accel-Redirect", "X-Accel-Expires"):
            plain += f" {protocol}_pass_header {name};"
        # what only counts the bytes of a request's body, for SCGI
        length = 'map $http_content_length $sent_length { "" 0; default $http_content_length; }'
        self.app.forget()
        return self.site.start(
            f"{server}\nlocation / {{ {location} {handler} }}\n"
            "location ^~ /protected/ { internal; alias %%APP_FILES%%/; }",
            http=f"{http}\n{length}\n"
            "server { listen 127.0.0.1:%%PORT:plain%%; access_log off;"
            f" location / {{ {plain} {handler} }} }}",
        )

    def plain(self, target: str, headers: Headers | None = None) -> Response:
        """Return the head of what the application says by itself.

        The answer may say the length of the file, and have no body.
        """
        with self.site.nginx.connect("plain") as connection:
            connection.send_request("GET", target, headers)
            return connection.read_response("HEAD")

    def plain_body(self, target: str) -> bytes:
        """Return the body of what the application says by itself."""
        return self.site.nginx.get(target, port="plain").body

    def asked(self) -> int:
        """How often the application was asked since nginx started."""
        return len(self.app.requests())


def assert_file(response: Response, document: Document) -> None:
    """Check that an answer is the whole file, with nothing that is nginx's."""
    assert response.status == 200, response
    assert response.body == document.body
    assert response.header("Content-Length") == str(len(document.body))
    names = {name.lower() for name, _ in response.headers}
    assert not names & CONTROL, response.headers
