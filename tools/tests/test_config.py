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


@pytest.mark.parametrize("there", [True, False])
def test_sqlite_is_optional(tmp_path: Path, there: bool) -> None:
    """Without its header the module is left out, and configure says what to install."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\n"
        "for file; do\n"
        '    case $file in *autotest.c) ! grep -q "<sqlite3.h>" "$file" || exit 1 ;;'
        " esac\n"
        "done\n"
        'exec cc "$@"\n'
    )
    compiler.chmod(0o755)
    folder = tmp_path / "build"
    folder.mkdir()
    done = configure(folder, *([] if there else [f"--with-cc={compiler}"]))
    assert done.returncode == 0, done.stdout
    makefile = (folder / "objs" / "Makefile").read_text()
    assert "ngx_http_sendfile_module.so" in makefile
    assert ("ngx_http_sendfile_sqlite_module.so" in makefile) == there
    assert ("apt-get install libsqlite3-dev" in done.stdout) == (not there)
