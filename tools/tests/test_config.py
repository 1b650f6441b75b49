"""The addon's config script, as nginx's configure runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("/usr/share/nginx/src")
# seconds of a configure on a machine that has much else to do
TIMEOUT = 600

pytestmark = pytest.mark.timeout(2 * TIMEOUT)

LEFT_OUT = "the module for\nRuby is left out"


def configure(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run configure of the installed nginx's source; both streams are in stdout.

    Args:
        folder: an empty one, for the source and for what configure writes.
        arguments: to add.
    """
    tree = folder / "source"
    subprocess.run(["cp", "-rs", SOURCE, tree], check=True)
    (tree / "Makefile").unlink(missing_ok=True)
    script = next(p for p in ("configure", "auto/configure") if (tree / p).exists())
    return subprocess.run(
        [
            f"./{script}",
            f"--builddir={folder}/objs",
            f"--add-dynamic-module={ROOT}",
            *arguments,
        ],
        cwd=tree,
        env={k: v for k, v in os.environ.items() if k != "NGINX"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize("rewrite", [True, False])
def test_ruby_needs_the_rewrite_module(tmp_path: Path, rewrite: bool) -> None:
    """Without it the module for Ruby is left out, and configure says so."""
    more = [] if rewrite else ["--without-http_rewrite_module"]
    done = configure(tmp_path, *more)
    assert done.returncode == 0, done.stdout
    makefile = (tmp_path / "objs" / "Makefile").read_text()
    assert "ngx_http_sendfile_module.so" in makefile
    assert ("ngx_http_sendfile_mruby_module.so" in makefile) == rewrite
    assert ("no http_rewrite_module" in done.stdout) == (not rewrite)
    assert (LEFT_OUT in done.stdout) == (not rewrite)


SQLITE = ("sqlite3.h", "ngx_http_sendfile_sqlite_module.so", "libsqlite3-dev")
CRYPTO = ("openssl/hmac.h", "ngx_http_sendfile_signed_module.so", "libssl-dev")


@pytest.mark.parametrize("gone", [[], [SQLITE], [CRYPTO], [SQLITE, CRYPTO]])
def test_optional_headers(tmp_path: Path, gone: list[tuple[str, str, str]]) -> None:
    """A module whose header is not there is left out; the first one needs none."""
    for header, _, _ in gone:
        path = tmp_path / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#error not here\n")
    folder = tmp_path / "build"
    folder.mkdir()
    done = configure(folder, f"--with-cc-opt=-I{tmp_path}/include")
    assert done.returncode == 0, done.stdout
    makefile = (folder / "objs" / "Makefile").read_text()
    for one in (SQLITE, CRYPTO):
        _, module, package = one
        assert (module in makefile) == (one not in gone)
        assert (f"apt-get install {package}" in done.stdout) == (one in gone)
    if len(gone) < 2:
        return
    first = folder / "objs" / "ngx_http_sendfile_module.so"
    subprocess.run(
        ["make", "-j2", "-s", "-f", folder / "objs" / "Makefile", first],
        cwd=folder / "source",
        check=True,
        timeout=TIMEOUT,
    )
    needed = subprocess.check_output(["readelf", "-d", first], text=True)
    assert "liblmdb" in needed
    assert "libcrypto" not in needed and "libsqlite3" not in needed
