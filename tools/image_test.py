"""The container image, unpacked and run as an engine would run it.

Its root file system is read-only, its user is the image's, without
capabilities, and /tmp is in memory; bubblewrap does that, for no engine need be
here. tools/image-test.sh runs this, in a network of its own.

environment: IMAGE, what umoci takes: the path of an OCI layout, and the tag.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTAINER = ROOT / "packaging" / "container"
CONF = "/etc/nginx/conf.d/default.conf"
# seconds until something is taken not to happen; a busy machine needs some
PATIENCE = 120.0
FILE = b"a file\n"

Volume = tuple[Path, str, bool]


def wait_for(what: Callable[[], bool], name: str) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, f"no {name} after {PATIENCE:.0f} s"
        time.sleep(0.02)


def listens(port: int) -> bool:
    """Whether a port of the loopback takes connections."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session", autouse=True)
def loopback() -> None:
    """Bring up the loopback of this network."""
    set_flags, up = 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, set_flags, struct.pack("16sh14x", b"lo", up))


class Image:
    """An image, unpacked.

    Args:
        bundle: folder with rootfs/ and the config.json of a runtime.
        layout: the OCI layout.
    """

    def __init__(self, bundle: Path, layout: Path) -> None:
        self.root = bundle / "rootfs"
        process = json.loads((bundle / "config.json").read_bytes())["process"]
        self.args: list[str] = process["args"]
        self.env: list[str] = process["env"]
        self.uid: int = process["user"]["uid"]
        self.gid: int = process["user"]["gid"]
        index = json.loads((layout / "index.json").read_bytes())
        manifest = self._blob(layout, index["manifests"][0])
        self.config: dict[str, Any] = self._blob(layout, manifest["config"])["config"]

    def mount_point(self, here: Path, there: str) -> None:
        """Make what a volume is mounted on, as an engine does."""
        path = self.root / there.lstrip("/")
        if not path.exists():
            if here.is_dir():
                path.mkdir(parents=True)
            else:
                path.touch()

    @staticmethod
    def _blob(layout: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
        path = layout / "blobs" / descriptor["digest"].replace(":", "/")
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found


class Container:
    """A process in the image, as process 1, until the end of a with block.

    Args:
        image: what is run.
        volumes: each a path here, where it is seen, and whether it is read-only.
        command: instead of the image's own.
    """

    def __init__(
        self, image: Image, volumes: list[Volume], command: list[str] | None = None
    ) -> None:
        mounts = []
        for here, there, read_only in volumes:
            image.mount_point(here, there)
            mounts += ["--ro-bind" if read_only else "--bind", str(here), there]
        environment = []
        for pair in image.env:
            environment += ["--setenv", *pair.split("=", 1)]
        info, info_end = os.pipe()
        arguments = ["bwrap", "--ro-bind", str(image.root), "/", "--proc", "/proc"]
        arguments += ["--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp", *mounts]
        arguments += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--as-pid-1"]
        arguments += ["--cap-drop", "ALL", "--clearenv", *environment]
        arguments += ["--info-fd", str(info_end), "--die-with-parent", "--new-session"]

        self.logs: dict[str, bytes] = {"out": b"", "err": b""}
        self._threads = []
        ends = []
        for name in self.logs:
            end, write_end = os.pipe()
            # an engine gives these to the container's user, too
            os.fchown(write_end, image.uid, image.gid)
            ends.append(write_end)
            reader = threading.Thread(target=self._read, args=(name, end))
            reader.start()
            self._threads.append(reader)
        self.process = subprocess.Popen(
            [*arguments, "--", *(command or image.args)],
            stdin=subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            user=image.uid,
            group=image.gid,
            extra_groups=[],
            pass_fds=[info_end],
            cwd="/",
        )
        for end in (*ends, info_end):
            os.close(end)
        with open(info, "rb") as file:
            self.pid: int = json.load(file)["child-pid"]

    def _read(self, name: str, end: int) -> None:
        while part := os.read(end, 65536):
            self.logs[name] += part
        os.close(end)

    def end(self, number: int) -> int:
        """Send a signal to process 1; return the exit status."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; return the exit status."""
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code

    def serves(self, port: int) -> None:
        """Wait until a port answers."""

        def answers() -> bool:
            assert self.process.poll() is None, self.logs
            return listens(port)

        wait_for(answers, f"answer on port {port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def get(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Ask; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def run(image: Image, volumes: list[Volume], *command: str) -> Container:
    """Run a command in the image to its end."""
    with Container(image, volumes, list(command)) as container:
        container.wait()
    return container


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder that the container's user may reach, whatever this clone's is."""
    path = Path(tempfile.mkdtemp(prefix="ngx_sendfile-image-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def image(folder: Path) -> Image:
    """The image, unpacked."""
    name = os.environ["IMAGE"]
    bundle = folder / "bundle"
    subprocess.run(["umoci", "unpack", "--image", name, str(bundle)], check=True)
    bundle.chmod(0o755)
    # an engine writes it
    (bundle / "rootfs/etc/hosts").write_text(
        "127.0.0.1 localhost app memcached\n", encoding="ascii"
    )
    return Image(bundle, Path(name.partition(":")[0]))


@pytest.fixture(scope="session")
def volumes(image: Image, folder: Path) -> list[Volume]:
    """A folder with one file, and the store that names it, made by the image."""
    files = folder / "files"
    (files / "29").mkdir(parents=True)
    (files / "29" / "7887.jpg").write_bytes(FILE)
    store = folder / "store"
    store.mkdir()
    os.chown(store, image.uid, image.gid)
    seen = "/var/lib/sendfile"
    made = run(
        image,
        [(store, seen, False)],
        *("sendfilectl", "set", f"lmdb:{seen}/ids", "297887", "29/7887.jpg"),
    )
    assert made.process.returncode == 0, made.logs
    return [(files, "/srv/files", True), (store, seen, True)]


@pytest.fixture
def nginx(image: Image, volumes: list[Volume]) -> Iterator[Container]:
    """The image's own command, with its own configuration."""
    with Container(image, volumes) as container:
        container.serves(8080)
        yield container


def conf(folder: Path, text: str) -> Volume:
    """A configuration in place of the image's."""
    path = folder / "default.conf"
    path.write_text(text, encoding="utf-8")
    return path, CONF, True


def clean(container: Container) -> None:
    """Assert that nginx had nothing to complain of."""
    log = container.logs["err"].decode()
    assert not re.search(r"\[(warn|error|crit|alert|emerg)\]", log), log


def test_what_the_image_says_of_itself(image: Image) -> None:
    assert image.config["User"] == "33:33"
    assert image.config["StopSignal"] == "SIGQUIT"
    assert set(image.config["ExposedPorts"]) == {"8080/tcp", "8081/tcp"}
    labels = image.config["Labels"]
    prefix = "org.opencontainers.image"
    assert labels[f"{prefix}.version"] == os.environ["IMAGE"].rpartition(":")[2]
    assert labels[f"{prefix}.licenses"] == "BSD-2-Clause"


def test_nothing_of_the_build_is_left(image: Image) -> None:
    for path in ("var/lib/apt/lists", "var/log", "var/cache/apt/archives"):
        found = image.root / path
        assert not found.exists() or not any(p.is_file() for p in found.rglob("*"))
    assert not (image.root / "debs").exists() or not any(
        (image.root / "debs").iterdir()
    )
    sources = (image.root / "etc/apt/sources.list").read_text("utf-8")
    hosts = set(re.findall(r"https?://([^/ ]+)", sources))
    assert hosts == {"deb.debian.org"}


def test_no_file_of_the_image_has_the_rights_of_another_user(image: Image) -> None:
    """The user cannot write to what is nginx's or ours, if the root were not ro."""
    for path in ("etc/nginx", "usr/lib/nginx", "usr/share/nginx", "usr/sbin"):
        for file in (image.root / path).rglob("*"):
            if not file.is_symlink():
                assert file.stat().st_uid == 0, file
                assert not file.stat().st_mode & 0o022, file


def test_serves_a_file_by_its_id(nginx: Container) -> None:
    status, headers, body = get(8080, "/file/297887")
    assert (status, headers["Content-Type"], body) == (200, "image/jpeg", FILE)
    assert get(8080, "/file/1")[0] == 404
    assert get(8080, "/sendfile-status/json")[0] == 404


def test_status_answers_on_a_port_of_its_own(nginx: Container) -> None:
    get(8080, "/file/297887")

    def counted() -> bool:
        status, _, body = get(8081, "/sendfile-status/metrics")
        assert status == 200
        return b"\nngx_sendfile_requests_total{" in body

    wait_for(counted, "metric")
    assert get(8081, "/sendfile-status/json")[0] == 200
    assert b"<html" in get(8081, "/sendfile-status")[2]
    assert get(8081, "/sendfile-status/cache", "DELETE")[0] == 403


def test_sendfilectl_asks_the_status_location(image: Image, nginx: Container) -> None:
    done = run(image, [], "sendfilectl", "stats", "--json")
    assert done.process.returncode == 0, done.logs
    assert json.loads(done.logs["out"])["ok"] is True


def test_is_not_root_and_has_no_rights(image: Image, nginx: Container) -> None:
    status = Path(f"/proc/{nginx.pid}/status").read_text("ascii")
    assert re.search(r"^Uid:\s+33\s+33\s+33\s+33$", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
    done = run(image, [], "sh", "-c", "echo > /etc/nginx/x")
    assert done.process.returncode != 0
    assert b"Read-only file system" in done.logs["err"]


def test_logs_go_to_stdout_and_stderr(nginx: Container) -> None:
    get(8080, "/file/297887")
    assert nginx.end(signal.SIGQUIT) == 0
    assert b'"GET /file/297887 HTTP/1.1" 200 7 ' in nginx.logs["out"]
    assert b"[notice]" in nginx.logs["err"]
    clean(nginx)


class Application(BaseHTTPRequestHandler):
    """An application that answers when it is told to."""

    begun: ClassVar[threading.Event]
    go_on: ClassVar[threading.Event]

    def do_GET(self) -> None:
        """Answer."""
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the application's\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def application() -> Iterator[type[Application]]:
    """The upstream of README.md."""
    Application.begun, Application.go_on = threading.Event(), threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 3000), Application)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Application
    Application.go_on.set()
    server.shutdown()
    thread.join(PATIENCE)
    server.server_close()


def readme() -> str:
    """The first configuration of README.md, on the image's port and volumes."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(
        r"<!-- test: application -->\n```nginx\n(.*?)```", text, re.DOTALL
    )
    assert found
    text = found[1].replace("listen  80;", "listen  8080;")
    return text.replace("lmdb:/var/lib/ids", "lmdb:/var/lib/sendfile/ids")


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGTERM])
def test_first_configuration_of_the_readme(
    number: signal.Signals,
    image: Image,
    volumes: list[Volume],
    application: type[Application],
    tmp_path_factory: pytest.TempPathFactory,
    folder: Path,
) -> None:
    """SIGQUIT ends it when all is answered, SIGTERM at once."""
    with Container(image, [*volumes, conf(folder, readme())]) as container:
        container.serves(8080)
        assert get(8080, "/file/297887")[2] == FILE
        answers: list[bytes] = []

        def ask() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answers.append(get(8080, "/file/7")[2])

        asking = threading.Thread(target=ask)
        asking.start()
        assert application.begun.wait(PATIENCE)
        os.kill(container.pid, number)
        if number == signal.SIGQUIT:
            wait_for(
                lambda: b"gracefully shutting down" in container.logs["err"], "end"
            )
            application.go_on.set()
        assert container.wait() == 0
        asking.join(PATIENCE)
        whole = [b"the application's\n"]
        assert answers == (whole if number == signal.SIGQUIT else [])
        clean(container)


def test_demonstration_of_the_compose_file(image: Image, folder: Path) -> None:
    """The second request for a file does not reach the application."""
    demo = ROOT / "demo"
    copy = folder / "demo"
    shutil.copytree(demo / "files", copy / "files")
    shutil.copy(demo / "files.csv", copy)
    shutil.copy(CONTAINER / "demo" / "app.py", copy)
    shutil.copy(CONTAINER / "demo" / "demo.conf", copy)
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    files = (copy / "files", "/srv/files", True)
    app: list[Volume] = [
        (copy / "app.py", "/srv/app.py", True),
        (copy / "files.csv", "/srv/files.csv", True),
        files,
    ]
    memcached = subprocess.Popen(
        ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "11211"]
    )
    command = ["python3", "-u", "/srv/app.py", "memcached:11211"]
    try:
        with (
            Container(image, app, command) as application,
            Container(image, [(copy / "demo.conf", CONF, True), files]) as container,
        ):
            application.serves(8000)
            container.serves(8080)
            wait_for(lambda: listens(11211), "memcached")
            assert get(8080, "/")[2].split()[0] == b"/file/1"
            picture = (demo / "files/pictures/mountains.png").read_bytes()
            first, again = get(8080, "/file/1"), get(8080, "/file/1")
            assert (first[0], first[2]) == (200, picture)
            assert (again[0], again[2]) == (200, picture)
            assert first[1]["X-Demo-Source"] != "memcached"
            assert again[1]["X-Demo-Source"] == "memcached"
            assert application.logs["err"].count(b"/file/1") == 1
            assert get(8080, "/file/999")[0] == 404
            assert container.end(signal.SIGQUIT) == 0
            clean(container)
    finally:
        memcached.terminate()
        memcached.wait(PATIENCE)
