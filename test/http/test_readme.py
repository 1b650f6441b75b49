"""The documentation: what it shows works, and nothing of the source is left out.

Every fenced ``nginx`` block is a configuration that ``nginx -t`` accepts. In
the README and the recipes each block that does something has a name, in an
HTML comment on the line before it, and a test here that sends requests:

    <!-- test: redirect -->
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lib.activestorage import blob_url, envelope, representation_url, seal
from lib.backend import Reply, Request, say_request
from lib.documents import (
    Block,
    blocks,
    documents,
    image_filter,
    prepare,
    prepare_sqlite,
    statements,
)
from lib.files import Files, content
from lib.memcached import Memcached
from lib.nginx import REPOSITORY, ConfigCheck, Nginx
from lib.servers import Servers
from lib.signed import KEY, LIB, write_keys
from lib.signed import run as run_program
from lib.site import Site
from lib.sqlite import run

SOURCE = REPOSITORY / "src"
README = REPOSITORY / "README.md"
README_JA = REPOSITORY / "README.ja.md"
DOCS = REPOSITORY / "docs"
RECIPES = DOCS / "recipes.md"
LINKS = DOCS / "signed-links.md"
DIRECTIVES = DOCS / "directives.md"
RECORDS = DOCS / "records.md"
OPERATIONS = DOCS / "operations.md"

UUID = "0188d0f2-7c1e-7cc3-98c4-dc0c0c07398f"


# Markdown


def prose(path: Path) -> str:
    """Return a file's text without its fenced blocks."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def squeezed(text: str) -> str:
    """Return a text with each run of white space as one space."""
    return " ".join(text.split())


def headings(path: Path) -> list[tuple[int, str]]:
    """Return the headings of a file: level and text."""
    found = re.findall(r"^(#+) (.+)$", prose(path), re.MULTILINE)
    return [(len(marks), text) for marks, text in found]


def anchor(heading: str) -> str:
    """Return what a heading is linked by, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def relative(path: Path) -> str:
    """Return a path as it is shown in a test's ID."""
    return str(path.relative_to(REPOSITORY))


CONFIGURATIONS = [b for path in documents() for b in blocks(path, "nginx")]
SERVED = [b for path in (README, RECIPES, LINKS) for b in blocks(path) if b.name]


# configurations


def check(site: Site, block: Block) -> ConfigCheck:
    """Let nginx -t judge a block."""
    return site.check_config(**prepare(site, block))


def start(site: Site, block: Block) -> Nginx:
    """Start nginx with a block."""
    return site.start(**prepare(site, block))


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=str)
def test_configuration_is_accepted(site: Site, block: Block) -> None:
    """nginx -t accepts each configuration that is shown, without a warning."""
    check(site, block).assert_silent()


# what is shown in the README and the recipes


Scenario = Callable[[Site, Block], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Register what is to be done with the blocks of a name."""

    def register(function: Scenario) -> Scenario:
        assert name not in SCENARIOS
        SCENARIOS[name] = function
        return function

    return register


@pytest.mark.parametrize("block", SERVED, ids=str)
def test_works_as_shown(site: Site, block: Block) -> None:
    """Each named block does what the text says of it."""
    SCENARIOS[block.name](site, block)


def test_every_configuration_is_served() -> None:
    """The README's and the recipes' blocks have names, and all are tested."""
    unnamed = [
        str(b)
        for path in (README, RECIPES, LINKS)
        for b in blocks(path, "nginx")
        if not b.name
    ]
    assert not unnamed
    assert {b.name for b in SERVED} == set(SCENARIOS)


def of_same_file(block: Block, name: str) -> Block:
    """Return the block of that name in the same file."""
    return next(b for b in SERVED if b.path == block.path and b.name == name)


def run_shell(text: str, directory: Path) -> str:
    """Run a block of shell commands, with our sendfilectl, and return stdout.

    Raises:
        AssertionError: a command failed.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e"],
        input=text,
        cwd=directory,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


def by_cookie(request: Request) -> Reply:
    """Answer an auth_request: the session "good" may, others may not."""
    assert request.target == "/auth"
    good = "session=good" in (request.header("Cookie") or "")
    return Reply(200 if good else 403)


GOOD = {"Cookie": "session=good"}
BAD = {"Cookie": "session=bad"}


@scenario("load")
def load(site: Site, block: Block) -> None:
    """The line names the module that make install installs."""
    install = (REPOSITORY / "tools" / "install.sh").read_text()
    (statement,) = statements(block.text)
    names = re.search(r'^all="(.+)"$', install, re.MULTILINE)
    assert names
    modules = [f"ngx_{n.replace('-', '_')}_module.so" for n in names[1].split()]
    assert Path(statement.words[1]).name in modules
    check(site, block).assert_silent()


@scenario("redirect")
def redirect(site: Site, block: Block) -> None:
    """A file by its ID, and no file by its name."""
    site.add(297887, "29/7887.jpg")
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/297888").status == 404
    assert nginx.get("/files/29/7887.jpg").status == 404


@scenario("direct")
def direct(site: Site, block: Block) -> None:
    """A file by its ID, below the root only, without symbolic links."""
    site.add(297887, "29/7887.jpg")
    site.store.put(1, "../ids.lmdb/data.mdb")
    (site.files.root / "link").symlink_to("29/7887.jpg")
    site.store.put(2, "link")
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/1").status == 502
    assert nginx.get("/file/2").status == 404


@scenario("application")
def application(site: Site, block: Block) -> None:
    """Whatever nginx cannot send goes to the application."""
    site.add(297887)
    site.store.put(1, "gone.jpg")
    site.store.put(2, "../broken")
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert site.app.requests == []
    for target in ("/file/297888", "/file/1", "/file/2", "/file/new?x=1", "/other"):
        assert nginx.get(target).text == f"app GET {target}\n"
    assert nginx.post("/file/297887", b"x").text == "app POST /file/297887\n"


@scenario("ruby")
def ruby(site: Site, block: Block) -> None:
    """A script makes the key, another one refuses, a third one answers."""
    site.add(1007)
    site.add(1008, "premium/8.dat")
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/7"), 1007)
    assert nginx.get("/file/8").status == 402
    site.assert_file(nginx.get("/file/8", {"Cookie": "premium=1"}), 1008)
    assert nginx.get("/mruby").body == b"hello ngx_mruby world!"


@scenario("auth")
def auth(site: Site, block: Block) -> None:
    """The application decides; who is denied makes no lookup."""
    site.add(297887)
    site.app.script = by_cookie
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/297887?x=1", GOOD), 297887)
    request = site.app.only_request()
    assert request.header("X-Original-URI") == "/file/297887?x=1"
    assert nginx.get("/file/297887", BAD).status == 403
    assert nginx.logged("/file/297887").status == "-"
    assert nginx.get("/auth", GOOD).status == 404


@scenario("signed")
@scenario("signed-links")
def signed(site: Site, block: Block) -> None:
    """A link made as shown works; an old, a forged and a bare one do not."""
    site.add(297887)
    site.add(297888)
    nginx = start(site, block)
    name = "sign" if block.path == RECIPES else "sign-ctl"
    sign = of_same_file(block, name).text
    good = run_here(sign, site)
    nginx.reload()
    site.assert_file(nginx.get(good), 297887)
    assert nginx.get(good.replace("297887", "297888")).status == 403
    assert nginx.get("/file/297887").status == 403
    (command,) = (s for s in sign.splitlines() if "sendfilectl" in s)
    old = run_here(command.replace("--for 1h", "--at 1000000000"), site)
    assert nginx.get(old).status == 410


def run_here(text: str, site: Site) -> str:
    """Run shell commands on the keys of the test, and return the last line."""
    keys = site.directory / "etc"
    keys.mkdir(exist_ok=True)
    printed = run_shell(text.replace("/etc/ngx_sendfile", str(keys)), site.directory)
    return printed.splitlines()[-1] if printed else ""


@scenario("signed-address")
def signed_address(site: Site, block: Block) -> None:
    """A link for an address is good there, and nowhere else."""
    site.add(297887)
    nginx = start(site, block)
    ctl = of_same_file(block, "sign-ctl").text.rstrip()
    here, there = (
        run_here(f"{ctl} --address {a}", site) for a in ("127.0.0.1", "192.0.2.1")
    )
    site.assert_file(nginx.get(here), 297887)
    assert nginx.get(there).status == 403
    assert nginx.get(run_here(ctl, site)).status == 403


@scenario("sign")
@scenario("sign-ctl")
@scenario("sign-openssl")
def sign_in_shell(site: Site, block: Block) -> None:
    """The commands print a link that the configuration takes."""
    site.add(297887)
    name = "signed" if block.path == RECIPES else "signed-links"
    nginx = start(site, of_same_file(block, name))
    link = run_here(block.text, site)
    assert re.fullmatch(r"/file/297887\?expires=\d+&signature=[\w-]{43}", link)
    nginx.reload()
    site.assert_file(nginx.get(link), 297887)


@scenario("new-key")
def new_key(site: Site, block: Block) -> None:
    """It is 32 bytes that nobody else may read."""
    assert run_here(block.text, site) == ""
    path = site.directory / "etc" / "links.key"
    assert re.fullmatch(r"[0-9a-f]{64}\n", path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600


def assert_signs(site: Site, block: Block, command: list[str], call: str) -> None:
    """A function that is shown makes the links that the configuration takes.

    Args:
        site: of the test.
        block: the function.
        command: runs a program that is its last argument.
        call: how it is called, with the URI, seconds and the key.
    """
    site.add(297887)
    nginx = start(site, of_same_file(block, "signed-links"))
    text = block.text.removeprefix("<?php\n")
    for uri in ("/file/297887", "/file/297887?b=%20+"):
        for seconds, status in ((3600, 200), (-3600, 410)):
            code = f"{text}\n{call % (uri, seconds, KEY.hex())}"
            link = subprocess.check_output([*command, code], text=True).strip()
            assert nginx.get(link).status == status, link


@scenario("sign-python")
def sign_in_python(site: Site, block: Block) -> None:
    """Python's function."""
    assert_signs(site, block, [sys.executable, "-c"], "print(signed('%s', %d, '%s'))")


@scenario("sign-php")
def sign_in_php(site: Site, block: Block) -> None:
    """PHP's function."""
    assert_signs(site, block, ["php", "-r"], "echo signed('%s', %d, '%s');")


@scenario("sign-node")
def sign_in_node(site: Site, block: Block) -> None:
    """Node's function."""
    assert_signs(site, block, ["node", "-e"], "console.log(signed('%s', %d, '%s'))")


@scenario("sign-ruby")
def sign_in_ruby(site: Site, block: Block) -> None:
    """The gem's."""
    site.add(297887)
    nginx = start(site, of_same_file(block, "signed-links"))
    code = block.text.replace("/etc/ngx_sendfile", str(site.directory / "etc"))
    gem = f"-I{REPOSITORY / 'gem' / 'lib'}"
    link = subprocess.check_output(["ruby", gem, "-e", code], text=True).strip()
    site.assert_file(nginx.get(link), 297887)


@scenario("signed-laravel")
def signed_laravel(site: Site, block: Block) -> None:
    """Links of Laravel, by the key that the command prints."""
    site.add(297887)
    key = "base64:bmd4X3NlbmRmaWxlJ3Mgb3duIHRlc3Qga2V5ISEhISE="
    of_key = f"export APP_KEY={key}\n{of_same_file(block, 'key-laravel').text}"
    configuration = prepare(site, block)
    write_keys(site, run_here(of_key, site), name="etc/laravel.key")
    nginx = site.start(**configuration)
    links = run_program(
        "php", LIB / "laravel_links.php", key, str(int(time.time()) + 60)
    )
    for link in (links[0], links[2]):
        uri = link.removeprefix("https://www.example.com")
        site.assert_file(nginx.get(uri), 297887)
        assert nginx.get(uri[:-1] + "x").status == 403


@scenario("signed-django")
def signed_django(site: Site, block: Block) -> None:
    """Tokens of Django, by the key that the program prints."""
    site.store.put("photos/kyoto.jpg", site.add(1))
    run = f"""
from django.conf import settings
settings.configure(SECRET_KEY="sekrit")
{of_same_file(block, "key-django").text}
from django.core.signing import TimestampSigner
print(TimestampSigner().sign("photos/kyoto.jpg"))
"""
    key, token = run_program(sys.executable, "-c", run)
    configuration = prepare(site, block)
    write_keys(site, key, name="etc/django.key")
    nginx = site.start(**configuration)
    site.assert_file(nginx.get(f"/signed/{token}"), 1)
    assert nginx.get(f"/signed/{token[:-1]}").status == 403


@scenario("signed-rails")
def signed_rails(site: Site, block: Block) -> None:
    """Tokens of a Rails application, by the key that it prints."""
    site.add(297887)
    run = f"""
require "rails"
class App < Rails::Application
  config.secret_key_base = "s" * 64
  config.eager_load = false
end
{of_same_file(block, "key-rails").text}
verifier = Rails.application.message_verifier("files")
puts verifier.generate(297887, purpose: :download)
puts verifier.generate(297887, purpose: :other)
puts verifier.generate(297887, purpose: :download, expires_at: Time.at(1_000_000_000))
"""
    key, token, other, old = run_program("ruby", "-e", run)
    configuration = prepare(site, block)
    write_keys(site, key, name="etc/rails.key")
    nginx = site.start(**configuration)
    site.assert_file(nginx.get(f"/files/{token}"), 297887)
    assert nginx.get(f"/files/{other}").status == 403
    assert nginx.get(f"/files/{old}").status == 410


@scenario("signed-imgproxy")
def signed_imgproxy(site: Site, block: Block) -> None:
    """What is asked of imgproxy is the very URL that was signed."""
    nginx = start(site, block)
    keys = site.directory / "etc" / "imgproxy.key"
    rest = "/rs:fill:300:400/plain/local:///kyoto.jpg"
    ctl = f"sendfilectl sign --key-file {keys} --scheme imgproxy {rest}"
    path = run_here(ctl, site)
    assert nginx.get(f"/img{path}").text == f"app GET /img{path}\n"
    assert nginx.get(f"/img/x{path}").status == 403


@scenario("key-laravel")
@scenario("key-django")
@scenario("key-rails")
def key_of_a_framework(site: Site, block: Block) -> None:
    """See what is done with the configuration of that framework."""
    assert block.text


@scenario("uuid")
def uuid(site: Site, block: Block) -> None:
    """The UUID is the key."""
    site.store.put(UUID, site.add(1))
    nginx = start(site, block)
    site.assert_file(nginx.get(f"/file/{UUID}"), 1)
    assert nginx.logged(f"/file/{UUID}").key == UUID
    assert nginx.get(f"/file/{UUID[:-1]}0").status == 404
    assert nginx.get("/file/1").status == 404


@scenario("kinds")
def kinds(site: Site, block: Block) -> None:
    """Each location has keys of its own."""
    site.store.put("photo:kyoto", site.add(1))
    site.store.put("photo:12", site.add(2))
    site.store.put("doc:12", site.add(3))
    nginx = start(site, block)
    site.assert_file(nginx.get("/photo/kyoto"), 1)
    site.assert_file(nginx.get("/photo/12"), 2)
    site.assert_file(nginx.get("/doc/12"), 3)
    assert nginx.get("/doc/kyoto").status == 404
    assert nginx.get("/doc/1").status == 404


@scenario("argument")
def argument(site: Site, block: Block) -> None:
    """The argument is the key."""
    site.add(12)
    nginx = start(site, block)
    site.assert_file(nginx.get("/download?id=12"), 12)
    assert nginx.get("/download?id=13").status == 404
    assert nginx.get("/download").status == 404


@scenario("name-in-url")
def name_in_url(site: Site, block: Block) -> None:
    """The ID counts, the name after it does not."""
    site.add(297887)
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/297887/kyoto.jpg"), 297887)
    site.assert_file(nginx.get("/file/297887/5"), 297887)
    assert nginx.get("/file/297888/kyoto.jpg").status == 404


@scenario("auth-cached")
def auth_cached(site: Site, block: Block) -> None:
    """One question for each session and file; none is shared."""
    site.add(1)
    site.add(2)
    site.app.script = by_cookie
    nginx = start(site, block)
    for _ in range(3):
        site.assert_file(nginx.get("/file/1", GOOD), 1)
        assert nginx.get("/file/1", BAD).status == 403
    assert len(site.app.requests) == 2
    site.assert_file(nginx.get("/file/2", GOOD), 2)
    assert len(site.app.requests) == 3
    for _ in range(2):
        assert nginx.get("/file/1").status == 403
    assert len(site.app.requests) == 5


def allow_with_rate(request: Request) -> Reply:
    """Answer an auth_request with the rate that the session's name says."""
    match = re.search(r"rate-(\w+)", request.header("Cookie") or "")
    return Reply(headers={"X-Rate": match[1] if match else "0"})


@scenario("limits")
def limits(site: Site, block: Block) -> None:
    """Requests, connections and bytes a second, each by user."""
    site.add(1, size=3000)
    site.add(2, size=3_000_000)
    site.app.script = allow_with_rate
    nginx = start(site, block)

    begin = time.monotonic()
    slow = nginx.get("/file/1", {"Cookie": "session=slow-rate-1k"})
    site.assert_file(slow, 1, 3000)
    assert time.monotonic() - begin > 0.9, "limit_rate has no effect"

    busy = {"Cookie": "session=busy"}
    codes = {nginx.get("/file/1", busy).status for _ in range(200)}
    assert codes == {200, 429}
    site.assert_file(nginx.get("/file/1", {"Cookie": "session=idle"}), 1, 3000)

    many = {"Cookie": "session=many-rate-1k"}
    downloads = [nginx.connect() for _ in range(4)]
    for connection in downloads:
        connection.send_request("GET", "/file/2", many)
        assert connection.socket.recv(12) == b"HTTP/1.1 200"
    assert nginx.get("/file/2", many).status == 503
    for connection in downloads:
        connection.abort()


@scenario("download")
def download(site: Site, block: Block) -> None:
    """Two URLs for a file: to look at and to save."""
    site.add(7)
    nginx = start(site, block)
    shown = site.assert_file(nginx.get("/file/7"), 7)
    assert shown.header("Content-Disposition") is None
    saved = site.assert_file(nginx.get("/download/7"), 7)
    assert saved.header("Content-Disposition") == "attachment"


@scenario("caching")
def caching(site: Site, block: Block) -> None:
    """The headers are there, and a validator makes a 304."""
    site.add(1)
    nginx = start(site, block)
    response = site.assert_file(nginx.get("/file/1"), 1)
    assert response.all("Cache-Control") == ["max-age=2592000", "private"]
    etag = response.header("ETag")
    assert etag is not None
    assert nginx.get("/file/1", {"If-None-Match": etag}).status == 304


@scenario("cors")
def cors(site: Site, block: Block) -> None:
    """A preflight is answered, and each answer has the header."""
    site.add(1)
    nginx = start(site, block)
    preflight = nginx.request("OPTIONS", "/file/1", {"Origin": "https://x"})
    assert preflight.status == 204
    assert preflight.header("Access-Control-Allow-Headers") == "Range"
    responses = [
        site.assert_file(nginx.get("/file/1"), 1),
        nginx.get("/file/1", {"Range": "bytes=0-9"}),
        nginx.get("/file/2"),
        preflight,
    ]
    assert [r.status for r in responses] == [200, 206, 404, 204]
    for response in responses:
        allowed = response.header("Access-Control-Allow-Origin")
        assert allowed == "https://www.example.com"


def png(width: int, height: int) -> bytes:
    """Return a grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


@scenario("thumbnails")
def thumbnails(site: Site, block: Block) -> None:
    """One ID, the picture and the small picture.

    Where nginx has no image_filter, the recipe is tested without it.
    """
    site.files.write("1.png", png(400, 300))
    site.store.put(1, "1.png")
    nginx = start(site, block)
    assert nginx.get("/photo/1").body == png(400, 300)
    small = nginx.get("/thumb/1")
    assert (small.status, small.header("Content-Type")) == (200, "image/png")
    size = struct.unpack(">II", small.body[16:24])
    filtered = image_filter(site.flavour) is not None
    assert size == ((200, 150) if filtered else (400, 300))
    # the filter takes the page of a 404 for a picture that it cannot read
    missing = 415 if filtered else 404
    assert nginx.get("/thumbs/1.png").status == missing


@scenario("tenants")
def tenants(site: Site, block: Block) -> None:
    """Each host has its own IDs and files."""
    files = Files(site.directory / "tenants")
    files.write_id("alpha/7.dat", 71)
    files.write_id("beta/7.dat", 72)
    site.store.put("alpha:7", "7.dat")
    site.store.put("beta:7", "7.dat")
    site.store.put("beta:8", "../alpha/7.dat")
    site.store.put(":7", "alpha/7.dat")
    nginx = start(site, block)
    for host, file_id in (("a.example.com", 71), ("b.example.com", 72)):
        site.assert_file(nginx.get("/file/7", {"Host": host}), file_id)
    assert nginx.get("/file/8", {"Host": "b.example.com"}).status == 502
    for host in ("c.example.com", "alpha", "..", ""):
        assert nginx.get("/file/7", {"Host": host}).status in (400, 404)


@scenario("stores")
def stores(site: Site, block: Block) -> None:
    """The second store is asked for what the first does not know."""
    site.add(1)
    archive = site.store_at("archive.lmdb")
    for file_id in (1, 2):
        archive.put(file_id, f"{file_id}.dat")
    files = Files(site.directory / "archive")
    files.write_id("1.dat", 71)
    files.write_id("2.dat", 72)
    nginx = start(site, block)
    site.assert_file(nginx.get("/file/1"), 1)
    site.assert_file(nginx.get("/file/2"), 72)
    assert nginx.get("/file/3").status == 404


@scenario("page")
def page(site: Site, block: Block) -> None:
    """Codes and pages."""
    site.html.write("missing.html", b"gone\n")
    site.html.write("sorry.html", b"sorry\n")
    site.store.put(1, "gone.dat")
    site.store.put(2, "../broken")
    nginx = start(site, block)
    for target, status, text in (
        ("/file/1", 410, "gone\n"),
        ("/file/2", 502, "sorry\n"),
        ("/file/3", 410, "gone\n"),
    ):
        response = nginx.get(target)
        assert (response.status, response.text) == (status, text), target


@scenario("rewrite")
def rewrite(site: Site, block: Block) -> None:
    """An old URL leads to the ID."""
    site.add(297887)
    nginx = start(site, block)
    site.assert_file(nginx.get("/attachments/297887/download"), 297887)
    site.assert_file(nginx.get("/file/297887"), 297887)


def ours(site: Site, block: Block, store: Path) -> str:
    """Return a shell block with the test's paths, and ``store``."""
    text = block.text.replace("/var/lib/ids", str(store))
    text = text.replace("/srv/files", str(site.files.root))
    assert not re.search(r"/(var|srv)/", text.replace(str(store), ""))
    return text


@scenario("fill")
def fill(site: Site, block: Block) -> None:
    """The commands make a store that nginx serves."""
    for file_id in (8, 9, 10):
        site.files.write_id(f"{file_id}.dat", file_id)
    site.files.write_id("29/7887.jpg", 297887)
    site.files.write_id("docs/7.pdf", 7)
    (site.directory / "files.csv").write_text("8,8.dat\n9,9.dat\n")
    (site.directory / "more.csv").write_text("10,10.dat\n")
    store = site.directory / "ids"
    run_shell(ours(site, block, store), site.directory)
    assert store.is_symlink()
    site.variables["LOOKUP"] = f"http_sendfile_lookup lmdb:{store};"
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    for file_id in (9, 10, 297887):
        site.assert_file(nginx.get(f"/file/{file_id}"), file_id)
    assert nginx.get("/file/8").status == 404
    saved = site.assert_file(nginx.get("/file/7"), 7)
    assert (
        saved.header("Content-Disposition")
        == 'attachment; filename="annual report.pdf"'
    )


@scenario("scan")
def scan(site: Site, block: Block) -> None:
    """The IDs in the files' names are found."""
    site.files.write_id("kyoto-297887.jpg", 297887)
    site.files.write_id("readme-5.txt", 5)
    store = site.directory / "photos"
    text = block.text.replace("/var/lib/photos", str(store))
    text = text.replace("/srv/photos", str(site.files.root))
    run_shell(text, site.directory)
    site.variables["LOOKUP"] = f"http_sendfile_lookup lmdb:{store};"
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.get("/file/5").status == 404


@contextmanager
def memcached_servers(site: Site, count: int = 1) -> Iterator[list[Memcached]]:
    """Make real memcacheds, and close them after nginx."""
    made = Servers(site)
    try:
        yield [made.memcached() for _ in range(count)]
        site.close()
    finally:
        made.close()


@scenario("memcached")
def in_memcached(site: Site, block: Block) -> None:
    """The memcached, which is at another port here, is asked; /files is internal."""
    site.html.write_id("files/29/7887.jpg", 297887)
    with memcached_servers(site) as (memcached,):
        memcached.put(297887, "29/7887.jpg")
        site.variables["LOOKUP"] = f"http_sendfile_lookup {memcached.url};"
        nginx = start(site, block)
        site.assert_file(nginx.get("/file/297887"), 297887)
        assert nginx.logged("/file/297887").source == "memcached"
        assert nginx.get("/file/297888").status == 404
        assert nginx.get("/files/29/7887.jpg").status == 404


@scenario("cache")
def cache(site: Site, block: Block) -> None:
    """The second answer is the cache's; a purge is for those who are allowed."""
    site.add(297887, "29/7887.jpg")
    nginx = start(site, block)
    for count, source in enumerate(("lmdb", "cache", "cache"), 1):
        site.assert_file(nginx.get("/file/297887"), 297887)
        assert nginx.logged("/file/297887", count).source == source
    reply = nginx.request("DELETE", "/sendfile-status/cache/297887")
    assert (reply.status, reply.body) == (200, b'{"purged":true}\n')
    site.assert_file(nginx.get("/file/297887"), 297887)
    assert nginx.logged("/file/297887", 4).source == "lmdb"


@scenario("learn")
def learn(site: Site, block: Block) -> None:
    """What the application names is sent, and asked for again only if it must be."""
    path = site.files.write_id("29/7887.jpg", 297887)
    headers = {"X-Sendfile": str(path)}
    site.app.script = lambda request: (
        Reply(headers=headers)
        if request.target == "/download"
        else say_request(request)
    )
    nginx = start(site, block)
    for count in (1, 2):
        site.assert_file(nginx.get("/download"), 297887)
        assert nginx.logged("/download", count).source == "app"
    headers["X-Accel-Expires"] = "600"
    site.assert_file(nginx.get("/download"), 297887)
    del headers["X-Sendfile"]
    for count in (4, 5):
        site.assert_file(nginx.get("/download"), 297887)
        assert nginx.logged("/download", count).source == "learned"
    assert len(site.app.requests) == 3
    assert nginx.get("/other").text == "app GET /other\n"


@scenario("memcached-servers")
def in_memcached_servers(site: Site, block: Block) -> None:
    """Each key is asked for at one of the servers."""
    ids = range(1, 101)
    with memcached_servers(site, 3) as servers:
        text = block.text
        for number, server in enumerate(servers, 11):
            text = text.replace(f"memcached://10.0.0.{number}:11211", server.url)
            server.put_many({str(n): f"{n}.dat" for n in ids})
        assert "10.0.0." not in text
        for n in ids:
            site.files.write_id(f"{n}.dat", n)
        nginx = start(site, replace(block, text=text))
        for n in ids:
            site.assert_file(nginx.get(f"/file/{n}"), n)
        asked = [server.count("cmd_get") for server in servers]
        assert sum(asked) == 100
        assert min(asked) > 0


@scenario("sqlite")
def sqlite(site: Site, block: Block) -> None:
    """A document is sent, but for one that is not public."""
    prepare_sqlite(site)
    for n in (1, 2):
        site.files.write_id(f"{n}.dat", n)
    run(
        site.directory / "storage" / "production.sqlite3",
        "INSERT INTO documents VALUES (1, '1.dat', 'text/one', 'one.txt', 1),"
        " (2, '2.dat', NULL, NULL, 0)",
    )
    nginx = start(site, block)
    response = site.assert_file(nginx.get("/file/1"), 1)
    assert response.header("Content-Type") == "text/one"
    assert not site.app.requests
    nginx.get("/file/2")
    nginx.get("/file/3")
    assert [r.target for r in site.app.requests] == ["/file/2", "/file/3"]


@scenario("sqlite-rails")
def sqlite_rails(site: Site, block: Block) -> None:
    """A blob by its id; what Rails.cache has under a key."""
    prepare_sqlite(site)
    storage = site.directory / "storage"
    (storage / "ab" / "cd").mkdir(parents=True)
    (storage / "ab" / "cd" / "abcdefgh").write_bytes(content(1))
    site.files.write_id("7.dat", 7)
    run(
        storage / "production.sqlite3",
        "INSERT INTO active_storage_blobs VALUES (5, 'abcdefgh', 'a.png', 'image/png')",
    )
    digest = hashlib.sha256(b"file:7").digest()
    number = int.from_bytes(digest[:8], "big", signed=True)
    value = b"\x00\x11\x02" + struct.pack("<d", -1.0) + b"\xff\xff\xff\xff7.dat"
    run(
        storage / "production_cache.sqlite3",
        "INSERT INTO solid_cache_entries (key, value, key_hash)"
        f" VALUES (x'{b'file:7'.hex()}', x'{value.hex()}', {number})",
    )
    nginx = start(site, block)
    response = site.assert_file(nginx.get("/blob/5"), 1)
    assert response.header("Content-Type") == "image/png"
    site.assert_file(nginx.get("/file/7"), 7)
    site.app.script = lambda request: Reply(status=403)
    assert nginx.get("/blob/5").status == 403


@scenario("activestorage")
def activestorage(site: Site, block: Block) -> None:
    """A blob by its signed id from the database; a representation is learned."""
    prepare_sqlite(site)
    storage = site.directory / "storage"
    for number, key in ((1, "abcdefgh"), (2, "abcd2222")):
        (storage / "ab" / "cd").mkdir(parents=True, exist_ok=True)
        (storage / "ab" / "cd" / key).write_bytes(content(number))
    run(
        storage / "production.sqlite3",
        "INSERT INTO active_storage_blobs VALUES (5, 'abcdefgh', 'a.png', 'image/png')",
    )
    nginx = start(site, block)
    signed_id = seal(envelope(5, "blob_id"), KEY)
    site.assert_file(nginx.get(blob_url(signed_id)), 1)
    assert not site.app.requests
    token = seal(envelope({"key": "abcd2222"}, "blob_key", 300), KEY)
    place = f"http://localhost/rails/active_storage/disk/{token}/a.png"
    site.app.script = lambda request: Reply(302, [("Location", place)])
    target = representation_url(signed_id, seal(envelope({}, "variation"), KEY))
    assert nginx.get(target).status == 302
    site.assert_file(nginx.get(target), 2)
    site.assert_file(nginx.get(place.removeprefix("http://localhost")), 2)
    assert len(site.app.requests) == 1


@scenario("activestorage-auth")
def activestorage_auth(site: Site, block: Block) -> None:
    """Rails says who may see a blob, and nothing else of it."""
    storage = site.directory / "storage"
    storage.mkdir()
    (storage / "a.png").write_bytes(content(1))
    site.store.put("activestorage:5", "a.png")
    nginx = start(site, block)
    target = blob_url(seal(envelope(5, "blob_id"), KEY))
    site.assert_file(nginx.get(target), 1)
    site.app.script = lambda request: Reply(403)
    assert nginx.get(target).status == 403
    assert [r.target for r in site.app.requests] == ["/session", "/session"]


@scenario("fill-memcached")
def fill_memcached(site: Site, block: Block) -> None:
    """The commands store what nginx serves."""
    (site.directory / "files.csv").write_text("8,8.dat\n9,9.dat\n")
    site.files.write_id("8.dat", 8)
    with memcached_servers(site) as (memcached,):
        text = block.text.replace("memcached://127.0.0.1:11211", memcached.url)
        assert text != block.text
        assert "29/7887.jpg" in run_shell(text, site.directory)
        assert memcached.has(9)
        assert not memcached.has(297887)
        site.variables["LOOKUP"] = f"http_sendfile_lookup {memcached.url};"
        nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
        site.assert_file(nginx.get("/file/8"), 8)


@scenario("names")
def names(site: Site, block: Block) -> None:
    """The names that the commands store are sent."""
    run_shell(ours(site, block, site.store.path), site.directory)
    site.files.write_id("docs/7.pdf", 7)
    site.files.write_id("docs/8.pdf", 8)
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    shown = site.assert_file(nginx.get("/file/7"), 7)
    disposition = shown.header("Content-Disposition")
    assert disposition is not None
    assert disposition.startswith("inline; ")
    assert disposition.endswith("filename*=UTF-8''%E8%A6%8B%E7%A9%8D%E6%9B%B8.pdf")
    saved = site.assert_file(nginx.get("/file/8"), 8)
    assert saved.header("Content-Disposition") == 'attachment; filename="report.pdf"'


@scenario("caching-record")
def caching_record(site: Site, block: Block) -> None:
    """The header that the command stores is sent."""
    run_shell(ours(site, block, site.store.path), site.directory)
    site.files.write_id("docs/9.css", 9)
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    response = site.assert_file(nginx.get("/file/9"), 9)
    assert response.all("Cache-Control") == ["public, max-age=31536000, immutable"]


# the two READMEs


def without_comments(text: str) -> list[str]:
    """Return the lines of a configuration or of commands, but for comments."""
    lines = (re.sub(r"(^|\s{2,})#.*", "", line).rstrip() for line in text.splitlines())
    return [line for line in lines if line]


def test_readmes_show_the_same() -> None:
    """Both READMEs have the same configurations and commands, in one order."""
    english, japanese = (
        [(b.language, b.name, without_comments(b.text)) for b in blocks(path)]
        for path in (README, README_JA)
    )
    assert english == japanese


def test_readmes_have_the_same_parts() -> None:
    """Both READMEs have the same headings, tables and links to files."""
    english, japanese = (
        [level for level, _ in headings(path)] for path in (README, README_JA)
    )
    assert english == japanese
    rows = [
        len(re.findall(r"^\|", prose(p), re.MULTILINE)) for p in (README, README_JA)
    ]
    assert rows[0] == rows[1]
    linked = [
        [target for target in links(p) if not target.startswith("README")]
        for p in (README, README_JA)
    ]
    assert linked[0] == linked[1]


def test_make_targets_exist() -> None:
    """What the documentation calls by make is in the Makefile."""
    makefile = (REPOSITORY / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:((?:\\\n|.)*)$", makefile, re.MULTILINE)
    assert phony
    targets = set(phony[1].replace("\\\n", " ").split())
    for path in documents():
        text = path.read_text(encoding="utf-8")
        called = re.findall(r"(?:^|`)make ([a-z][\w.-]*)", text, re.MULTILINE)
        assert set(called) <= targets, path


def test_sendfilectl_options_exist() -> None:
    """The documentation's calls of sendfilectl have options that there are."""
    calls: dict[str, set[str]] = {}
    for path in documents():
        for block in blocks(path, "sh"):
            text = block.text.replace("\\\n", " ")
            for command, rest in re.findall(
                r"sendfilectl ([a-z][\w-]*)([^|\n]*)", text
            ):
                found = re.findall(r"\s(--?[a-z][\w-]*)", rest)
                calls.setdefault(command, set()).update(found)
    assert {"publish", "import", "set", "get", "del", "export", "scan"} <= set(calls)
    for command, options in calls.items():
        told = subprocess.run(
            [sys.executable, "-m", "sendfilectl", command, "--help"],
            env={**os.environ, "COLUMNS": "200"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        unknown = {o for o in options if not re.search(rf"{re.escape(o)}\b", told)}
        assert not unknown, f"sendfilectl {command}: {unknown}"


# links


def links(path: Path) -> list[str]:
    """Return the targets of a file's links that are relative."""
    text = re.sub(r"`[^`\n]*`", "", prose(path))
    targets = re.findall(r"\]\(\s*([^)\s]+)", text)
    return [t for t in targets if not re.match(r"[a-z]+:", t)]


@pytest.mark.parametrize("path", documents(), ids=relative)
def test_links_lead_somewhere(path: Path) -> None:
    """Each relative link is that of a file and, after #, of a heading in it."""
    for target in links(path):
        name, _, part = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.is_relative_to(REPOSITORY), target
        assert file.exists(), target
        if part:
            anchors = {anchor(text) for _, text in headings(file)}
            assert part in anchors, target


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=relative)
def test_every_document_is_linked(path: Path) -> None:
    """The README leads to each document."""
    assert f"docs/{path.name}" in {t.partition("#")[0] for t in links(README)}


# directives and variables


CONTEXTS = {
    "NGX_HTTP_MAIN_CONF": "http",
    "NGX_HTTP_SRV_CONF": "server",
    "NGX_HTTP_UPS_CONF": "upstream",
    "NGX_HTTP_LOC_CONF": "location",
    "NGX_HTTP_LIF_CONF": "if in location",
}


def sources(*patterns: str) -> Iterator[tuple[Path, str]]:
    """Return the paths and texts of C files below src/."""
    for pattern in patterns or ("**/*.c",):
        found = sorted(SOURCE.glob(pattern))
        assert found, f"no {pattern} in src/"
        for path in found:
            yield path, path.read_text(encoding="utf-8")


def directives_of_source() -> dict[str, set[str]]:
    """Return the modules' directives, with the contexts of each."""
    found = {}
    for _, text in sources():
        macros = dict(re.findall(r"#define +(NGX_\w+) *\\?\s+\((NGX_[\w|]+)\)", text))
        for table in re.findall(
            r"ngx_command_t +\w+\[\] = \{(.*?)ngx_null_command", text, re.DOTALL
        ):
            for name, flags in re.findall(
                r'\{ ngx_string\("(\w+)"\),\s+([\w|\s]+),', table
            ):
                for macro, value in macros.items():
                    flags = flags.replace(macro, value)
                words = {f.strip() for f in flags.split("|")}
                found[name] = {CONTEXTS[w] for w in words if w in CONTEXTS}
    assert found
    return found


def sections(path: Path, level: int) -> dict[str, str]:
    """Return the sections of a file: heading to text."""
    parts = re.split(
        rf"^{'#' * level} (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_directives_are_documented() -> None:
    """Each directive has a section, and each section a directive."""
    documented = {
        name: text
        for name, text in sections(DIRECTIVES, 2).items()
        if re.search(r"^Syntax:", text, re.MULTILINE)
    }
    in_source = directives_of_source()
    assert set(documented) == set(in_source)
    for name, text in documented.items():
        entry = dict(re.findall(r"^(\w+): +(.+)$", text, re.MULTILINE))
        assert set(entry) >= {"Syntax", "Default", "Context", "Since"}, name
        assert entry["Syntax"].startswith(f"{name} "), name
        assert re.match(rf"{name} .+;$|—$", entry["Default"]), name
        assert set(entry["Context"].split(", ")) == in_source[name], name
        assert entry["Since"] in (REPOSITORY / "CHANGELOG.md").read_text(), name
        assert "```nginx" in text, f"{name} has no example"


def test_variables_are_documented() -> None:
    """Each variable has a section, and each section a variable."""
    in_source = {
        f"${name}"
        for _, text in sources()
        for table in re.findall(
            r"ngx_http_variable_t +\w+\[\] = \{(.*?)ngx_http_null_variable",
            text,
            re.DOTALL,
        )
        for name in re.findall(r'\{ ngx_string\("(\w+)"\)', table)
    }
    documented = {s for s in sections(DIRECTIVES, 3) if s.startswith("$")}
    assert documented == in_source


def test_statuses_are_documented() -> None:
    """The values of $sendfile_status are those of the table."""
    text = (SOURCE / "request" / "ngx_http_sendfile_variables.c").read_text()
    table = re.search(r"status_names\[\] = \{(.*?)\}", text, re.DOTALL)
    assert table
    section = sections(DIRECTIVES, 3)["$sendfile_status"]
    assert set(re.findall(r'"(.+?)"', table[1])) == set(
        re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    )


@pytest.mark.parametrize(
    ("file", "document"),
    [
        ("nsf_key.c", RECORDS),
        ("nsf_target.c", RECORDS),
        ("nsf_record.c", RECORDS),
        ("nsf_json.c", RECORDS),
        ("nsf_url.c", DIRECTIVES),
    ],
)
def test_reasons_are_documented(file: str, document: Path) -> None:
    """What is said of a bad key, path, record or URL is in the documentation."""
    text = (SOURCE / "pure" / file).read_text()
    found = re.findall(rf"return {STRINGS};", text)
    found += re.findall(rf"^#define NSF_\w+ *\\\s+{STRINGS}$", text, re.MULTILINE)
    assert found
    told = squeezed(document.read_text(encoding="utf-8"))
    missing = [m for m in map(literal, found) if f"`{m}`" not in told]
    assert not missing


STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def literal(text: str) -> str:
    """Return what a C string of several parts says."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


def found_in_source(*patterns: str) -> list[str]:
    """Return the strings of the module, but for src/pure, that patterns find."""
    found = [
        literal(string)
        for _, text in sources(
            "*.c", "conf/*.c", "request/*.c", "store/*.c", "deliver/*.c", "app/*.c"
        )
        for pattern in patterns
        for string in re.findall(pattern, text)
    ]
    assert len(found) > 15, patterns
    return found


def test_log_reasons_are_documented() -> None:
    """Each reason of a failed request has a row in the table of them."""
    reasons = found_in_source(
        rf"reason = {STRINGS};",
        rf"\? res->reason : {STRINGS}",
        rf"_fail\((?:ctx|store)[^;\"]*{STRINGS}[^\"]*\);",
    )
    table = sections(OPERATIONS, 2)["Log lines"]
    missing = {r for r in reasons if not re.search(rf"`{re.escape(r)}(: …)?`", table)}
    assert not missing


def test_messages_are_documented() -> None:
    """Each message of the module can be found in the documentation.

    These are texts of log lines, and what a directive returns to nginx; of
    them the parts that do not vary.
    """
    messages = found_in_source(
        rf"ngx_(?:conf_)?log_error\([^\"]*?{STRINGS}",
        rf"ngx_slprintf\([^\"]*?{STRINGS}",
        rf"return {STRINGS};",
    )
    parts = set()
    for message in messages:
        message = message.removeprefix("http_sendfile: ")
        parts |= {p.strip(' :,;"\\') for p in re.split(r"%\*?[a-zA-Z]i?", message)}
    told = squeezed(
        " ".join(p.read_text(encoding="utf-8") for p in (OPERATIONS, DIRECTIVES))
    )
    # short ones, such as "in", prove nothing
    missing = sorted(p for p in parts if len(p) > 7 and squeezed(p) not in told)
    assert not missing


def test_log_line_is_as_documented(site: Site) -> None:
    """The example of a log line is what nginx writes."""
    (example,) = [b for b in blocks(OPERATIONS, "") if "http_sendfile: key" in b.text]
    site.store.put(7, "docs/7.pdf")
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%% http_sendfile_fallback @app; }"
        " location @app { return 204; }"
    )
    assert nginx.get("/file/7").status == 204
    line = nginx.wait_for_log("missing file")
    wanted = example.text.strip().replace("/var/lib/ids", str(site.store.path))
    assert f"{wanted}, client: " in line


# records


@pytest.mark.parametrize("block", blocks(RECORDS, "json"), ids=str)
def test_json_record_is_served(site: Site, block: Block) -> None:
    """A record that is shown is valid, and what it says is sent."""
    record = json.loads(block.text)
    site.files.write_id(record["path"], 7)
    site.store.put(7, block.text)
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    response = site.assert_file(nginx.get("/file/7"), 7)
    if "type" in record:
        assert response.header("Content-Type") == record["type"]
    for name, value in record.get("headers", {}).items():
        assert response.header(name) == value
    disposition = response.header("Content-Disposition")
    assert (disposition is not None) == ("name" in record)
    if disposition is not None:
        told = RECORDS.read_text(encoding="utf-8")
        assert f"\nContent-Disposition: {disposition}\n" in told


@pytest.mark.parametrize("block", blocks(RECORDS, "csv", "tsv", "ndjson"), ids=str)
def test_lines_are_imported(block: Block) -> None:
    """Lines that are shown are good lines for sendfilectl."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sendfilectl", "import", "lmdb:/nowhere", "-"),
            *("--format", block.language, "--dry-run", "--json"),
        ],
        input=block.text,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stored"] == 2


def test_python_writer(site: Site) -> None:
    """The example writes what nginx serves, and follows a publish."""
    (block,) = blocks(RECORDS, "python")
    store = site.directory / "ids"
    (site.directory / "list.csv").write_text("1,1.dat\n2,2.dat\n")
    control = partial(run_shell, directory=site.directory)
    control(f"sendfilectl publish lmdb:{store} --from list.csv")
    code = block.text.replace('"/var/lib/ids"', repr(str(store)))
    assert code != block.text
    code += "publish_files({'7': {'path': '7.dat'}, '8': {'path': '8.dat'}})\n"
    code += "withdraw_files(['2', '8'])\n"
    # a writer's umask is its own affair: the lock file is there already
    subprocess.run([sys.executable, "-c", code], check=True, umask=0o077)
    site.files.write_id("1.dat", 1)
    site.files.write_id("7.dat", 7)
    site.variables["LOOKUP"] = f"http_sendfile_lookup lmdb:{store};"
    nginx = site.start("location /file/ { http_sendfile on; %%DIRECT%% }")
    site.assert_file(nginx.get("/file/1"), 1)
    site.assert_file(nginx.get("/file/7"), 7)
    assert nginx.get("/file/2").status == 404
    assert nginx.get("/file/8").status == 404
    exported = control(f"sendfilectl export lmdb:{store}").splitlines()
    assert [json.loads(line)["id"] for line in exported] == ["1", "7"]
