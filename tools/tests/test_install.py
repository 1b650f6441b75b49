"""make install leaves all as it was when nginx does not take what it installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = "ngx_http_sendfile_module.so"
NGINX = "/usr/sbin/nginx"


class Server:
    """The installed nginx, with folders of its own, and a clone to install.

    Args:
        folder: for both.
    """

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        self.etc = folder / "etc"
        self.installed = folder / "modules" / MODULE
        (self.clone / "tools").mkdir(parents=True)
        (self.clone / "build").mkdir()
        for name in ("install.sh", "common.sh"):
            shutil.copy(ROOT / "tools" / name, self.clone / "tools")
        self.etc.mkdir()
        self.conf = self.etc / "nginx.conf"
        self.configure("")
        self.nginx = folder / "nginx"
        self.nginx.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = -V ]; then echo "configure arguments: --prefix={folder}'
            f' --modules-path={folder}/modules --conf-path={self.conf}"; exit; fi\n'
            f'exec {NGINX} -c {self.conf} -g "error_log stderr;'
            f' pid {folder}/pid;" "$@"\n'
        )
        self.nginx.chmod(0o755)

    def configure(self, text: str) -> None:
        self.conf.write_text(f"{text}\nevents {{ }}\n")

    def build(self, content: bytes) -> None:
        (self.clone / "build" / MODULE).write_bytes(content)

    def install(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "tools/install.sh"],
            cwd=self.clone,
            env={**os.environ, "NGINX_BIN": str(self.nginx), "DESTDIR": ""},
            check=False,
            capture_output=True,
            text=True,
        )

    def files(self) -> dict[Path, bytes]:
        folders = (self.etc, self.installed.parent)
        found = [f for folder in folders for f in folder.rglob("*") if f.is_file()]
        return {f: f.read_bytes() for f in found}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_a_module_that_nginx_loads_is_installed(server: Server) -> None:
    server.configure(f"load_module {server.installed};")
    good = (ROOT / "build" / MODULE).read_bytes()
    server.build(good)
    done = server.install()
    assert done.returncode == 0, done.stderr
    assert server.installed.read_bytes() == good


def test_the_old_module_is_back_when_nginx_refuses_the_new(server: Server) -> None:
    server.configure(f"load_module {server.installed};")
    server.build((ROOT / "build" / MODULE).read_bytes())
    assert server.install().returncode == 0
    before = server.files()
    server.build(b"no module")
    done = server.install()
    assert done.returncode == 1
    assert "refuses its configuration with the new files" in done.stderr
    assert "all files are as they were" in done.stderr
    assert server.files() == before


def test_nothing_is_left_where_nothing_was(server: Server) -> None:
    server.configure(f"load_module {server.installed};")
    server.build(b"no module")
    before = server.files()
    assert server.install().returncode == 1
    assert server.files() == before


def test_the_old_module_is_back_when_a_file_cannot_be_written(server: Server) -> None:
    server.build((ROOT / "build" / MODULE).read_bytes())
    assert server.install().returncode == 0
    before = server.files()
    # the second of the two cannot be put where a folder is
    server.build(b"newer")
    (server.clone / "build" / "ngx_http_sendfile_mruby_module.so").write_bytes(b"x")
    (server.installed.parent / "ngx_http_sendfile_mruby_module.so").mkdir()
    done = server.install()
    assert done.returncode != 0
    assert server.files() == before
