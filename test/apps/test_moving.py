"""docs/moving.md: each configuration runs, with the application it is for.

What it shows of an application stands in that application, word for word.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.app import APPS
from harness.catalog import PLAIN, SIZE
from harness.servers import KINDS
from harness.start import Front, assert_file
from lib.documents import blocks, prepare
from lib.nginx import REPOSITORY, Nginx
from lib.site import INTERNAL
from lib.wait import wait_until
from test_readme import run_shell

MOVING = REPOSITORY / "docs" / "moving.md"
BLOCKS = {b.name: b for b in blocks(MOVING) if b.name}

# blocks that stand in an application
EXCERPTS = {
    "django-public": "django/archive/views.py",
    "django-utf8": "django/archive/utf8.py",
    "flask-config": "flask/app.py",
    "laravel-public": "laravel/app/Http/Controllers/FileController.php",
    "laravel-trust": "laravel/app/Providers/AppServiceProvider.php",
    "node-bytes": "node/server.js",
    "node-send": "node/server.js",
    "php-send": "php/index.php",
    "psgi-config": "psgi/app.psgi",
    "psgi-length": "psgi/app.psgi",
    "psgi-send": "psgi/app.psgi",
    "rails-cached": "rails/app/controllers/files_controller.rb",
    "rails-check": "rails/app/controllers/sessions_controller.rb",
    "rails-config": "rails/config/application.rb",
    "rails-gem": "rails_gem/config.ru",
    "rails-public": "rails/app/controllers/files_controller.rb",
    "rails-show": "rails/app/controllers/files_controller.rb",
    "sinatra-config": "sinatra/archive.rb",
    "sinatra-public": "sinatra/archive.rb",
    "wsgi-native": "wsgi/app.py",
}

# who speaks HTTP and needs no configuration of its own
PLAIN_HTTP = [
    kind.name
    for kind in KINDS
    if kind.accept == "X-Sendfile"
    and not kind.name.startswith(("php", "symfony", "laravel", "wsgi"))
]

RUN: set[str] = set()


def shows(name: str, *kinds: str) -> pytest.MarkDecorator:
    """Say which block a test is of, and for which applications."""
    RUN.add(name)
    return pytest.mark.kinds(*kinds)


def start(front: Front, *names: str, more: str = "") -> Nginx:
    """Start nginx with blocks, with this application in the place of theirs.

    Args:
        front: of the application.
        names: of the blocks.
        more: directives for the server.
    """
    place = front.app.place
    blocks = [BLOCKS[name] for name in names]
    text = "\n".join(block.text for block in blocks)
    tcp = re.search(r"proxy_pass http://(127\.0\.0\.1:\d+)", front.app.handler)
    # with a parameter, or test_readme puts its own application there
    address = f"{tcp[1] if tcp else f'unix:{place.socket}'} weight=1"
    for theirs, ours in (
        (r"127\.0\.0\.1:[35]000", address),
        (r"/srv/files\b", str(place.files)),
        (r"/run/php/php8\.2-fpm\.sock", str(place.socket)),
        (r"/run/uwsgi/app\.sock", str(place.socket)),
        (r"/srv/www/((public/)?index\.php)", f"{place.home}/\\1"),
    ):
        text = re.sub(theirs, ours, text)
    parts = prepare(front.site, replace(blocks[0], text=text))
    # /files/ is the application's here
    parts["server"] = parts["server"].replace(INTERNAL, "") + more
    parts["http"] = parts["http"].replace("server %%APP%%", f"server {address}")
    front.app.forget()
    return front.site.start(**parts)


def assert_accepted(front: Front, nginx: Nginx) -> None:
    """Check that nginx sends what the application names, and does ranges."""
    uri = f"/files/{PLAIN.id}"
    assert_file(nginx.get(uri), PLAIN)
    assert nginx.logged(uri).source == "app"
    part = nginx.get(uri, {"Range": f"bytes=10-{SIZE}"})
    assert (part.status, part.body) == (206, PLAIN.body[10:])
    assert front.asked() == 2
    assert nginx.errors() == []


@shows("accept", *PLAIN_HTTP)
def test_accept(front: Front) -> None:
    """Step 1."""
    assert_accepted(front, start(front, "accept"))


@shows("learn", *PLAIN_HTTP)
def test_learn(front: Front) -> None:
    """Step 2."""
    nginx = start(front, "learn")
    assert_accepted(front, nginx)
    uri = f"/public/{PLAIN.id}"
    for _ in range(2):
        assert_file(nginx.get(uri), PLAIN)
    assert nginx.logged(uri, 2).source == "learned"
    assert front.asked() == 3


@shows("check", "rails-puma")
def test_check(front: Front) -> None:
    """The file is learned, and the permission asked for each time."""
    nginx = start(front, "check", more="location /login/ { proxy_pass http://app; }")
    uri = f"/shared/{PLAIN.id}"
    alice, bob = (user(front, name) for name in ("alice", "bob"))
    front.app.forget()
    for headers in (alice, alice, user(front, "alice")):
        assert_file(nginx.get(uri, headers), PLAIN)
        for stranger in (bob, None):
            assert nginx.get(uri, stranger).status == 403
    asked = [s for s in front.app.requests() if "login" not in s]
    assert asked == ["GET /check", f"GET {uri}"] + ["GET /check"] * 8
    nginx.logged(uri, 9)
    sent = [e.source for e in nginx.access_entries(uri) if e.code == 200]
    assert sent == ["app", "learned", "learned"]


def user(front: Front, name: str) -> dict[str, str]:
    """Log in, and return the header with the session."""
    cookie = front.site.nginx.get(f"/login/{name}").header("Set-Cookie")
    assert cookie is not None
    return {"Cookie": cookie.partition(";")[0]}


@shows("purge", "rails-puma")
def test_purge(front: Front) -> None:
    """An ID that is purged is asked for anew."""
    nginx = start(front, "learn")
    uri = f"/public/{PLAIN.id}"
    for _ in range(2):
        assert_file(nginx.get(uri), PLAIN)
    text = BLOCKS["purge"].text.replace("127.0.0.1", f"127.0.0.1:{nginx.port}")
    run_shell(text, nginx.directory)
    assert_file(nginx.get(uri), PLAIN)
    assert front.asked() == 2


@shows("store", *PLAIN_HTTP)
def test_store(front: Front) -> None:
    """Step 3: an ID of the store, and one of the application."""
    front.site.store.put(1001, PLAIN.path)
    nginx = start(front, "store")
    assert_file(nginx.get("/files/1001"), PLAIN)
    assert front.asked() == 0
    assert_accepted(front, nginx)


@shows("log", "rails-puma")
def test_log(front: Front) -> None:
    """The log says where a file came from."""
    nginx = start(front, "accept", "log")
    assert_file(nginx.get(f"/files/{PLAIN.id}"), PLAIN)
    log = nginx.directory / "logs" / "files.log"
    line = f'"GET /files/{PLAIN.id} HTTP/1.1" 200 {SIZE} app '
    wait_until(lambda: line in log.read_text(), what=line)


@shows("django", "django-nginx")
def test_django(front: Front) -> None:
    """By X-Accel-Redirect."""
    assert_accepted(front, start(front, "django"))


@shows("sinatra", "sinatra-unicorn")
def test_sinatra(front: Front) -> None:
    """nginx cuts the range, for Rack does not see it."""
    nginx = start(front, "sinatra")
    assert_accepted(front, nginx)
    assert nginx.logged(f"/files/{PLAIN.id}", 2).target == PLAIN.path


@shows("uwsgi", "wsgi-uwsgi")
def test_uwsgi(front: Front) -> None:
    """With the parameters that Debian's nginx has."""
    assert_accepted(front, start(front, "uwsgi"))


@shows("php", "php-fpm")
def test_php(front: Front) -> None:
    """With the parameters that Debian's nginx has."""
    assert_accepted(front, start(front, "php"))


@shows("symfony", "symfony-php-fpm", "laravel-php-fpm")
def test_symfony(front: Front) -> None:
    """Which nginx tells the header."""
    assert_accepted(front, start(front, "symfony"))


@shows("starman", "psgi-starman")
def test_starman(front: Front) -> None:
    """On one connection."""
    assert_accepted(front, start(front, "starman"))
    assert len(set(front.app.peers())) == 1


@pytest.mark.parametrize("name", EXCERPTS)
def test_excerpt(name: str) -> None:
    """What is shown of an application stands in it."""
    text = (APPS / EXCERPTS[name]).read_text(encoding="utf-8")
    assert BLOCKS[name].text in text


def test_all_is_tested() -> None:
    """Each block that does something is tested, but for a few."""
    code = blocks(MOVING, "js", "nginx", "perl", "php", "python", "ruby")
    assert set(BLOCKS) == RUN | set(EXCERPTS)
    unnamed = [b.text.split()[0] for b in code if not b.name]
    # Active Storage, which has tests of its own; settings of Django, Express, Odoo
    assert unnamed == ["location", "http_sendfile_cache_zone"] + [
        "SENDFILE_BACKEND"
    ] * 2 + ["response.type(path.extname(file));"] + ["location"]
    assert re.search(r"^## Odoo\n\nUntested\.", MOVING.read_text(), re.MULTILINE)
