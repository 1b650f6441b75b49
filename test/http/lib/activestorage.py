"""Tokens of Active Storage, and Rails itself behind a site's nginx."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .client import request
from .signed import LIB
from .site import Site
from .wait import wait_until

KEY = bytes(range(64))
BLOB = "iaz0tj96y7moxhu8yzn3g8diz1lz"
PATH = f"ia/z0/{BLOB}"
BLOBS = "/rails/active_storage/blobs"
REPRESENTATIONS = "/rails/active_storage/representations"
VARIATION: object = {"resize_to_limit": [100, 100]}


def iso(seconds: float) -> str:
    """Return a moment from now on as Rails writes it."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seal(payload: bytes, key: bytes = KEY, digest: str = "sha1") -> str:
    """Sign what a token says."""
    text = base64.b64encode(payload).decode()
    return f"{text}--{hmac.digest(key, text.encode(), digest).hex()}"


def envelope(data: object, purpose: str | None, seconds: float | None = None) -> bytes:
    """Return what a token of Rails 7.1 says."""
    message: dict[str, object] = {"data": data}
    if seconds is not None:
        message["exp"] = iso(seconds)
    if purpose is not None:
        message["pur"] = purpose
    return json.dumps({"_rails": message}, separators=(",", ":")).encode()


def signed_id(
    blob: object, purpose: str | None = "blob_id", seconds: float | None = None
) -> str:
    """Make the signed id of a blob."""
    return seal(envelope(blob, purpose, seconds))


def variation_key(data: object = VARIATION, purpose: str | None = "variation") -> str:
    """Make the key of a variation."""
    return seal(envelope(data, purpose))


def blob_url(token: str, mode: str = "redirect/", name: str = "a.png") -> str:
    """Return the URL of a blob."""
    return f"{BLOBS}/{mode}{token}/{name}"


def representation_url(token: str, key: str, mode: str = "redirect/") -> str:
    """Return the URL of a representation."""
    return f"{REPRESENTATIONS}/{mode}{token}/{key}/a.png"


def disk_url(key: str = BLOB, seconds: float = 300, **more: object) -> str:
    """Return the URL of a file."""
    data = {
        "key": key,
        "disposition": "inline; filename=\"a.png\"; filename*=UTF-8''a.png",
        "content_type": "image/png",
        "service_name": "local",
        **more,
    }
    token = seal(envelope(data, "blob_key", seconds))
    return f"/rails/active_storage/disk/{token}/a.png"


def digest_of(key: str) -> str:
    """Return by what the store knows a variation."""
    return hashlib.sha256(base64.b64decode(key.partition("--")[0])).hexdigest()


class RailsBlobs:
    """A Rails application with Active Storage; see rails_blobs.rb.

    Args:
        site: below whose files the disk service has its own.
        pictures: how many.
        types: one more blob of each content type.
    """

    def __init__(self, site: Site, pictures: int, types: tuple[str, ...] = ()) -> None:
        folder = site.directory / "rails"
        (folder / "log").mkdir(parents=True)
        folder.chmod(0o755)
        self.database = folder / "app.sqlite3"
        self._process = subprocess.Popen(
            [
                *("ruby", str(LIB / "rails_blobs.rb"), str(site.files.root)),
                *(str(folder), str(pictures), ",".join(types)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAILS_ENV": "production"},
        )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.key = str(told["key"])
        self.page = str(told["page"])
        self.pictures: list[str] = told["pictures"]
        self.types: dict[str, dict[str, str]] = told["types"]
        self.variant: dict[str, str] = told["variant"]
        self.address = f"127.0.0.1:{told['port']}"
        self.port = int(told["port"])
        # the workers read it: in WAL mode all three files
        for path in self._files():
            path.chmod(0o666)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def _files(self) -> list[Path]:
        return list(self.database.parent.glob("app.sqlite3*"))

    @property
    def requests(self) -> int:
        """How many there were so far."""
        return int(request(self.port, "GET", "/count").body)

    def close(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        wait_until(lambda: self._process.poll() is not None, timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()
