"""make build, make install and make run, as a user calls them.

They work on a copy of the repository with build/ of its own, so that they
disturb no other build, and take the packages and the Python environment as
they are: ``make test`` has installed both.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from ports import free_port

ROOT = Path(__file__).resolve().parents[2]
MODULE = "ngx_http_sendfile_module.so"
RUBY_MODULE = "ngx_http_sendfile_mruby_module.so"
SQLITE_MODULE = "ngx_http_sendfile_sqlite_module.so"
SIGNED_MODULE = "ngx_http_sendfile_signed_module.so"
NGINX = Path("/usr/sbin/nginx")
# seconds of a build on a machine that has much else to do
TIMEOUT = 600

# a case may build more than once, and the first builds the copy as well
pytestmark = pytest.mark.timeout(4 * TIMEOUT)


def environment() -> dict[str, str]:
    """The environment without what a make above us has put there."""
    inherited = ("MAKE", "MFLAGS", "NGINX", "PORT", "DESTDIR", "ONLY")
    return {k: v for k, v in os.environ.items() if not k.startswith(inherited)}


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make to its end; both streams are in stdout."""
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=tree,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built copy of the repository."""
    copy = tmp_path_factory.mktemp("clone") / "ngx_sendfile"
    ignore = shutil.ignore_patterns(".git", "build", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignore)
    # mruby takes a minute, and knows whether it is up to date
    if (ROOT / "build" / "mruby").is_dir():
        shutil.copytree(ROOT / "build" / "mruby", copy / "build" / "mruby")
    done = make(copy, "build")
    assert done.returncode == 0, done.stdout
    assert f"built {copy}/build/{MODULE}" in done.stdout
    return copy


@pytest.fixture
def module(tree: Path) -> Path:
    """The module in the copy's build/."""
    return tree / "build" / MODULE


def test_second_build_does_nothing(tree: Path, module: Path) -> None:
    before = module.stat()
    done = make(tree, "build")
    assert done.returncode == 0, done.stdout
    assert "is up to date" in done.stdout
    after = module.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_build_says_how_each_file_is_compiled(tree: Path) -> None:
    database = json.loads((tree / "build" / "compile_commands.json").read_text())
    files = {Path(entry["file"]) for entry in database}
    assert set((tree / "src").rglob("*.c")) <= files
    entry = next(e for e in database if e["file"].endswith("/nsf_key.c"))
    command = [*entry["arguments"], "-fsyntax-only"]
    subprocess.run(command, cwd=entry["directory"], check=True)


@pytest.mark.parametrize("name", ["request/ngx_http_sendfile_key.c", "pure/nsf.h"])
def test_changed_file_is_built_anew(tree: Path, name: str) -> None:
    objects = tree / "build" / "obj" / "module" / "addon" / "request"
    old = (objects / "ngx_http_sendfile_key.o").stat().st_mtime_ns
    with (tree / "src" / name).open("a") as file:
        file.write("\n/* changed */\n")
    done = make(tree, "build")
    assert done.returncode == 0, done.stdout
    assert "configuring" not in done.stdout
    assert (objects / "ngx_http_sendfile_key.o").stat().st_mtime_ns > old


def test_new_file_is_found(tree: Path, module: Path) -> None:
    new = tree / "src" / "pure" / "nsf_new.c"
    new.write_text("extern int nsf_new;\nint nsf_new = 1;\n")
    try:
        done = make(tree, "build")
        assert done.returncode == 0, done.stdout
        assert (tree / "build/obj/module/addon/pure/nsf_new.o").exists()
    finally:
        new.unlink()
    assert make(tree, "build").returncode == 0
    assert not (tree / "build/obj/module/addon/pure/nsf_new.o").exists()


def test_warning_is_an_error(tree: Path, module: Path) -> None:
    before = module.read_bytes()
    new = tree / "src" / "pure" / "nsf_new.c"
    new.write_text("static int nsf_new;\n")
    try:
        done = make(tree, "build")
        assert done.returncode != 0
        assert "nsf_new.c" in done.stdout and "unused" in done.stdout
        assert module.read_bytes() == before
    finally:
        new.unlink()


@pytest.mark.parametrize("name", [MODULE, RUBY_MODULE, SQLITE_MODULE, SIGNED_MODULE])
def test_only_the_module_tables_are_exported(module: Path, name: str) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", module.with_name(name)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[0] for line in done.stdout.splitlines()}
    assert names == {"ngx_modules", "ngx_module_names", "ngx_module_order"}


def test_source_of_another_version_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "auto").mkdir()
    (tmp_path / "auto" / "module").touch()
    core = tmp_path / "src" / "core"
    core.mkdir(parents=True)
    (core / "nginx.h").write_text('#define NGINX_VERSION      "1.99.9"\n')
    done = make(tree, "build", f"NGINX={NGINX}", f"NGINX_SRC={tmp_path}")
    assert done.returncode != 0
    assert "is the source of 1.99.9" in done.stdout
    assert "NGINX_SRC=" in done.stdout


def test_nginx_of_no_package_needs_its_source(tree: Path, tmp_path: Path) -> None:
    nginx = tmp_path / "nginx"
    shutil.copy(NGINX, nginx)
    done = make(tree, "build", f"NGINX={nginx}")
    assert done.returncode != 0
    assert "add NGINX_SRC=/path/to/nginx-" in done.stdout


def test_nginx_that_is_not_there(tree: Path, tmp_path: Path) -> None:
    done = make(tree, "build", f"NGINX={tmp_path}/none")
    assert done.returncode != 0
    assert f"NGINX={tmp_path}/none is not an executable file" in done.stdout


def test_install(tree: Path, module: Path, tmp_path: Path) -> None:
    done = make(tree, "install", f"DESTDIR={tmp_path}")
    assert done.returncode == 0, done.stdout
    for name, file in (
        (MODULE, "http-sendfile"),
        (RUBY_MODULE, "http-sendfile-mruby"),
        (SQLITE_MODULE, "http-sendfile-sqlite"),
        (SIGNED_MODULE, "http-sendfile-signed"),
    ):
        installed = tmp_path / "usr/lib/nginx/modules" / name
        assert installed.read_bytes() == module.with_name(name).read_bytes()
        assert stat.S_IMODE(installed.stat().st_mode) == 0o644
        available = tmp_path / f"usr/share/nginx/modules-available/mod-{file}.conf"
        assert available.read_text() == f"load_module modules/{name};\n"
        enabled = tmp_path / f"etc/nginx/modules-enabled/50-mod-{file}.conf"
        assert os.readlink(enabled) == "/" + str(available.relative_to(tmp_path))
    assert "next: " in done.stdout
    again = make(tree, "install", f"DESTDIR={tmp_path}")
    assert again.returncode == 0, again.stdout


class Demo:
    """A running `make run`.

    Args:
        tree: where.
        port: the port to serve on.
    """

    def __init__(self, tree: Path, port: int) -> None:
        self.port = port
        self.folder = Path(f"/var/tmp/ngx_sendfile-demo-{port}")
        self.process = subprocess.Popen(
            # a shell cannot trap a signal that was ignored when it started
            [
                "env",
                "--default-signal=INT",
                "make",
                "--no-print-directory",
                "run",
                f"PORT={port}",
            ],
            cwd=tree,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C stops" in line:
                return
        raise AssertionError(f"make run ended:\n{self.said}")

    def get(self, uri: str, method: str = "GET") -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, uri)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response, body

    def stop(self) -> str:
        """Do what Ctrl-C does, wait, and return what was printed."""
        os.killpg(self.process.pid, signal.SIGINT)
        rest, _ = self.process.communicate(timeout=TIMEOUT)
        return self.said + rest


@pytest.fixture(scope="session")
def shared_venv(tree: Path) -> None:
    """Spare the copy a Python environment of its own: it takes ours.

    Whether that is the right one for the copy was asked when ours was made.
    """
    venv = ROOT / "build" / "venv"
    assert (venv / ".test").exists(), "run make test, or tools/venv.sh test"
    (tree / "build" / "venv").symlink_to(venv)


def run_demo(tree: Path) -> Iterator[Demo]:
    running = Demo(tree, free_port())
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


@pytest.fixture(scope="session")
def demo(tree: Path, shared_venv: None) -> Iterator[Demo]:
    """A demonstration that the tests share."""
    yield from run_demo(tree)


@pytest.fixture
def own_demo(tree: Path, shared_venv: None) -> Iterator[Demo]:
    """A demonstration that the test may stop."""
    yield from run_demo(tree)


def test_run_serves_the_demo_files(demo: Demo) -> None:
    files = ROOT / "demo" / "files"
    response, body = demo.get("/file/1")
    assert response.status == 200
    assert response.getheader("Content-Type") == "image/png"
    assert body == (files / "pictures/mountains.png").read_bytes()

    response, body = demo.get("/direct/5")
    assert response.status == 200
    assert body == (files / "documents/見積書.pdf").read_bytes()
    disposition = response.getheader("Content-Disposition")
    assert disposition is not None
    assert disposition.startswith("attachment; ")
    assert "filename*=UTF-8''%E8%A6%8B%E7%A9%8D%E6%9B%B8.pdf" in disposition

    for uri in ("/file/999", "/files/pictures/mountains.png", "/nothing"):
        assert demo.get(uri)[0].status == 404, uri


def test_run_serves_every_id_of_the_list(demo: Demo) -> None:
    lines = (ROOT / "demo" / "files.csv").read_text().splitlines()[1:]
    assert len(lines) >= 6
    for line in lines:
        id_, path = line.split(",")[:2]
        _, body = demo.get(f"/file/{id_}")
        assert body == (ROOT / "demo" / "files" / path).read_bytes()


def test_run_has_a_page_for_the_browser(demo: Demo) -> None:
    response, body = demo.get("/")
    assert response.status == 200
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    page = body.decode()
    for line in (ROOT / "demo" / "files.csv").read_text().splitlines()[1:]:
        assert f'href="/file/{line.split(",")[0]}"' in page
    for line in demo.said.splitlines():
        if "curl" in line:
            on_8080 = line.strip().replace(f":{demo.port}/", ":8080/")
            assert on_8080 in page
    assert f"http://127.0.0.1:{demo.port}/sendfile-status/" in demo.said
    assert 'href="/sendfile-status/"' in page
    assert demo.get("/sendfile-status/")[0].status == 200
    assert demo.get("/sendfile-status/json")[0].status == 200
    first, again = (demo.get("/file/3")[0] for _ in range(2))
    if first.getheader("X-Demo-Source") == "lmdb":
        assert first.getheader("X-Demo-Lookup") == "0.000"
    assert again.getheader("X-Demo-Source") == "cache"
    assert again.getheader("X-Demo-Lookup") is None


def test_run_prints_three_lines_that_work(demo: Demo, tmp_path: Path) -> None:
    lines = [s.strip() for s in demo.said.splitlines() if "curl" in s]
    assert len(lines) == 3
    for line in lines:
        done = subprocess.run(
            [*line.split(), "-sS"], cwd=tmp_path, capture_output=True, check=True
        )
        assert b"Connection refused" not in done.stderr


def test_run_again_while_it_runs_names_the_port(demo: Demo, tree: Path) -> None:
    done = make(tree, "run", f"PORT={demo.port}")
    assert done.returncode != 0
    assert f"port {demo.port} on 127.0.0.1 is taken" in done.stdout
    assert "make run PORT=" in done.stdout
    assert demo.get("/file/1")[0].status == 200


def test_run_stops_and_leaves_nothing(own_demo: Demo) -> None:
    assert own_demo.folder.is_dir()
    said = own_demo.stop()
    assert "emerg" not in said and "alert" not in said
    assert not own_demo.folder.exists()
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", own_demo.port)) != 0


def test_run_twice_in_a_row(tree: Path, own_demo: Demo) -> None:
    own_demo.stop()
    again = Demo(tree, own_demo.port)
    try:
        assert again.get("/file/1")[0].status == 200
    finally:
        again.stop()


def test_run_after_it_was_killed(tree: Path, own_demo: Demo) -> None:
    os.killpg(own_demo.process.pid, signal.SIGKILL)
    own_demo.process.communicate(timeout=TIMEOUT)
    assert own_demo.folder.is_dir()
    again = Demo(tree, own_demo.port)
    try:
        assert again.get("/file/1")[0].status == 200
    finally:
        again.stop()


def test_run_takes_no_folder_that_is_not_ours(tree: Path, shared_venv: None) -> None:
    port = free_port()
    folder = Path(f"/var/tmp/ngx_sendfile-demo-{port}")
    folder.symlink_to("/tmp")
    try:
        done = make(tree, "run", f"PORT={port}")
        assert done.returncode != 0
        assert f"{folder} exists and is not ours" in done.stdout
        assert os.readlink(folder) == "/tmp"
    finally:
        folder.unlink()


@pytest.mark.parametrize("port", ["0", "65536", "x", "80a", "-1", "080"])
def test_run_refuses_what_is_no_port(tree: Path, port: str) -> None:
    done = make(tree, "run", f"PORT={port}")
    assert done.returncode != 0
    assert f"PORT={port} is no port" in done.stdout


def test_only_root_can_write_what_the_demo_serves(demo: Demo) -> None:
    for path in [demo.folder, *demo.folder.rglob("*")]:
        if path.is_relative_to(demo.folder / "temp"):
            continue
        mode = path.lstat().st_mode
        assert not mode & (stat.S_IWGRP | stat.S_IWOTH), path
    for path in [demo.folder, *(demo.folder / "files").rglob("*")]:
        assert path.stat().st_uid == os.getuid(), path
