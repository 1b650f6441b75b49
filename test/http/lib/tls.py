"""A self-signed certificate for localhost, made by the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Where a certificate and its key lie."""

    certificate: Path
    key: Path

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts this certificate and nothing else."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_certificate(directory: Path) -> Certificate:
    """Make a certificate for localhost in ``directory``.

    Raises:
        subprocess.CalledProcessError: openssl failed; its words are in stderr.
    """
    made = Certificate(directory / "tls.crt", directory / "tls.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return made
