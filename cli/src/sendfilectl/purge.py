"""purge: what nginx's cache has is old, for some keys, for some URLs, or all of it.

The server's side is the directive http_sendfile_status with ``write``:
``DELETE <location>/cache/KEY``, ``DELETE <location>/cache?url=URL`` and
``DELETE <location>/cache`` are answered with 200 and ``{"purged":true}``,
whether or not there was anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Callable
from urllib.parse import quote

from sendfilectl.contract import check_key, show
from sendfilectl.errors import CtlError, Refused
from sendfilectl.formats import Lines
from sendfilectl.http_client import AUTHORITY, CONTROL, WRITE, Client, HttpUrl
from sendfilectl.importer import Source
from sendfilectl.output import Output

_MAX_ERRORS = 1_000

_WEB = re.compile(r"https?://", re.IGNORECASE)
_WRITE_WHOLE = (
    "write all of it, as clients ask for it, such as http://www.example.com/file/7"
)

_HINTS = {
    401: "write http://user:password@host/location",
    403: "write 'http_sendfile_status write;' in that location, and let this "
    "machine in where it has 'allow' and 'deny'",
    404: f"there is no http_sendfile_status at this URL: {WRITE}",
    405: f"there is no http_sendfile_status at this URL: {WRITE}",
}


def key_path(key: bytes) -> str:
    """Where below the location a key is purged; nginx decodes it to just its bytes.

    Raises:
        Refused: it can be no key, or nginx would look for it elsewhere.
    """
    check_key(key)
    # nginx finds the location by the path with "%2F" and "%2E%2E" decoded and
    # resolved; one level up is still within it
    depth = 1
    for segment in key.split(b"/"):
        if segment == b"..":
            depth -= 1
        elif segment not in (b"", b"."):
            depth += 1
        if depth < 0:
            raise Refused(
                "the '..' in the ID leads out of the location, where nginx does not "
                "find it: purge all with --all"
            )
    return f"/cache/{quote(key, safe='').replace('.', '%2E')}"


def looks_like_url(key: bytes) -> bool:
    """Whether a key may have been meant as the URL of a learned answer."""
    return _WEB.match(os.fsdecode(key)) is not None


def url_path(url: bytes) -> str:
    """Where below the location what was learned for a URL is purged.

    Its bytes stay as they are: an answer is known by what the client has sent.

    Raises:
        Refused: no client sends that, with what to write instead.
    """
    text = os.fsdecode(url)
    if not text:
        raise Refused(f"the URL is empty: {_WRITE_WHOLE}")
    if CONTROL.search(text):
        raise Refused(
            "the URL holds a space or a control byte: write it percent-encoded, as "
            "clients do, such as %20"
        )
    match = _WEB.match(text)
    if match is None:
        raise Refused(f"the URL has no http:// or https:// before it: {_WRITE_WHOLE}")
    if "#" in text:
        raise Refused(
            "the URL has a '#': leave it and the rest away, no client sends them"
        )
    scheme, rest = text[: match.end()], text[match.end() :]
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    target = rest[len(authority) :]
    if "@" in authority:
        raise Refused(
            "the URL has an '@' before its path: leave the user and the password away"
        )
    found = AUTHORITY.fullmatch(authority)
    if found is None or not found[1]:
        raise Refused(f"the URL has no good host: {_WRITE_WHOLE}")
    try:
        # as in the header Host
        authority = authority.encode("idna").decode("ascii")
    except UnicodeError:
        raise Refused(f"the URL has no good host: {_WRITE_WHOLE}") from None
    if not target.startswith("/"):
        target = f"/{target}"
    url = os.fsencode(f"{scheme}{authority}{target}")
    return f"/cache?url={quote(url, safe='')}"


class Purger:
    """Asks one nginx to purge, over one connection that is kept alive.

    Args:
        url: of its status location.
        connect_timeout: seconds for a connection.
        timeout: seconds to wait for a server that says nothing.
        note: where to say that something takes long.
    """

    def __init__(
        self,
        url: HttpUrl,
        connect_timeout: float,
        timeout: float,
        note: Callable[[str], None],
    ) -> None:
        self._client = Client(url, connect_timeout, timeout, note)

    def key(self, key: bytes) -> None:
        """Purges a key.

        Raises:
            Refused: the key is none, here or for nginx.
            CtlError: there is no use in going on.
        """
        self._delete(key_path(key))

    def url(self, url: bytes) -> None:
        """Purges what was learned for a URL.

        Raises:
            Refused: it is none, here or for nginx.
            CtlError: there is no use in going on.
        """
        self._delete(url_path(url))

    def all(self) -> None:
        """Purges everything.

        Raises:
            CtlError: it was not done.
        """
        try:
            self._delete("/cache")
        except Refused as error:
            raise CtlError(str(error)) from None

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def _delete(self, path: str) -> None:
        # to purge twice, should the connection be lost, is as good as once
        answer = self._client.ask("DELETE", path)
        found = answer.object()
        if answer.status == HTTPStatus.OK:
            purged = found.get("purged")
            if purged is True:
                return
            # an older module says how many entries there were
            if isinstance(purged, int) and purged is not False and purged >= 0:
                if "?" in path:
                    raise CtlError(
                        f"{self._client.url.text}: the module of this nginx is an older "
                        "one, which does not purge by a URL and has purged everything: "
                        "install the new one"
                    )
                return
        text = self._client.failure(path, answer, _HINTS)
        if answer.status == HTTPStatus.OK:
            raise CtlError(
                f'{text}: but not {{"purged":true}}: is it no http_sendfile_status? '
                f"{WRITE}"
            )
        if answer.status == HTTPStatus.BAD_REQUEST and isinstance(
            found.get("error"), str
        ):
            raise Refused(text)
        if answer.status == HTTPStatus.REQUEST_URI_TOO_LONG:
            raise Refused(
                f"{text}: it is longer than a line of large_client_header_buffers "
                "there: purge the ID, or all with --all"
            )
        raise CtlError(text)


@dataclass
class Purged:
    """What was done.

    Attributes:
        urls: whether it is URLs, and not IDs, that are purged.
        done: how many were, whether or not there was anything.
        failed: how many were not.
        errors: the first thousand of these.
        hinted: that an ID looks like a URL has been said.
    """

    urls: bool = False
    done: int = 0
    failed: int = 0
    errors: list[dict[str, object]] = field(default_factory=list)
    hinted: bool = False

    def fail(self, where: dict[str, object], reason: str) -> None:
        """Counts one that was not purged."""
        self.failed += 1
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append({**where, "error": reason})

    def document(self) -> dict[str, object]:
        """For JSON output."""
        found: dict[str, object] = {"urls" if self.urls else "keys": self.done}
        if self.failed:
            found["failed"] = self.failed
            found["errors"] = self.errors
        return found

    def text(self) -> str:
        """In words."""
        what = "URL" if self.urls else "ID"
        text = f"purged {self.done} {what}{'' if self.done == 1 else 's'}"
        return f"{text}, {self.failed} not" if self.failed else text


def purge_names(
    purger: Purger, names: Sequence[bytes], out: Output, done: Purged
) -> None:
    """Purges some IDs or URLs. A bad one is reported and passed over.

    Args:
        purger: of the nginx.
        names: which.
        out: for bad ones and progress.
        done: says what they are, and is kept up to date all the time.

    Raises:
        CtlError: there is no use in going on.
    """
    with out.progress("purging", len(names)) as progress:
        for name in names:
            try:
                _purge(purger, name, out, done)
            except Refused as error:
                done.fail({"url" if done.urls else "id": show(name)}, str(error))
                out.warn(f"{show(name)}: {error}")
            progress(done.done + done.failed)


def purge_lines(purger: Purger, src: Source, out: Output, done: Purged) -> None:
    """Purges the IDs or URLs of a file, one on each line; blank lines are none.

    Args:
        purger: of the nginx.
        src: the file.
        out: for bad lines, each with file and line number, and progress.
        done: says what they are, and is kept up to date all the time.

    Raises:
        CtlError: the file cannot be read, or there is no use in going on.
    """
    lines = Lines(src.file)
    with out.progress("purging", src.size, size=True) as progress:
        for name in lines:
            if not name or name.isspace():
                continue
            try:
                _purge(purger, name, out, done)
            except Refused as error:
                done.fail({"line": lines.number}, str(error))
                out.note(f"{src.label}:{lines.number}: {error}")
            progress(lines.bytes)


def _purge(purger: Purger, name: bytes, out: Output, done: Purged) -> None:
    if done.urls:
        purger.url(name)
    else:
        if not done.hinted and looks_like_url(name):
            done.hinted = True
            out.warn(
                f"{show(name)} is purged as an ID: for what was learned for a URL "
                "write --url before it"
            )
        purger.key(name)
    done.done += 1
