"""The module for signatures, in the nginx of a site, and links that it checks."""

from __future__ import annotations

import base64
import csv
import hmac
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .nginx import REPOSITORY, Nginx
from .site import Site

NAME = "ngx_http_sendfile_signed_module.so"
LIB = Path(__file__).resolve().parent
VECTORS = REPOSITORY / "test" / "vectors" / "signatures.tsv"

# of the tests' own links
KEY = bytes(range(32))

# what the variables say, in one answer
SHOW = 'return 200 "[$sendfile_signed][$sendfile_signed_value]";'


def load_signed(site: Site) -> None:
    """Let the site's nginx load the module, where it is not linked in.

    It lies beside the flavour's other module; NGX_SIGNED_MODULE names another.
    """
    if site.flavour.module is None:
        return
    beside = site.flavour.module.with_name(NAME)
    module = Path(os.environ.get("NGX_SIGNED_MODULE", beside))
    assert module.exists(), f"{module} is missing: run make build"
    site.variables["LOAD"] += f" load_module {module};"


def write_keys(site: Site, *keys: str, name: str = "keys") -> Path:
    """Write a file of keys, which only its owner may read.

    Args:
        site: in whose directory it lies.
        keys: its lines.
        name: of the file.
    """
    path = site.directory / name
    path.write_text("".join(f"{key}\n" for key in keys))
    path.chmod(0o600)
    return path


def base64_url(data: bytes) -> str:
    """Return base64 in the URL's alphabet without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign(uri: str, key: bytes = KEY, address: str | None = None) -> str:
    """Sign a URI as the scheme hmac has it."""
    text = uri if address is None else f"{uri}\n{address}"
    code = base64_url(hmac.digest(key, text.encode(), "sha256"))
    return f"{uri}{'&' if '?' in uri else '?'}signature={code}"


def shown(nginx: Nginx, uri: str, **headers: str) -> tuple[str, str]:
    """Return $sendfile_signed and its value, of a location with SHOW."""
    answer = nginx.get(uri, headers)
    assert answer.status == 200, answer
    text = answer.body.decode(errors="surrogateescape")
    signed, _, value = text.removeprefix("[").removesuffix("]").partition("][")
    return signed, value


@dataclass(frozen=True)
class Vector:
    """A row of test/vectors/signatures.tsv."""

    case: str
    scheme: str
    parameters: str
    key: str
    uri: str
    until: str
    value: str

    def __str__(self) -> str:
        return self.case


def vectors() -> list[Vector]:
    """Return the rows."""
    with VECTORS.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Vector(**row) for row in rows]


def run(*command: str | Path, text: str = "") -> list[str]:
    """Run a program of the tests' and return the lines that it writes."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
