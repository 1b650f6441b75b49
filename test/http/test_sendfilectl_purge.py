"""sendfilectl purge against nginx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from lib.accept import STATIC, sendfile, use_gateway
from lib.cache import CACHE, STATUS, ZONE, ask, numbered, said
from lib.nginx import Nginx
from lib.site import Site
from lib.tls import Certificate
from lib.wait import CLOSE_WAIT, states, wait_until

LONG = f"{CACHE} http_sendfile_cache_valid 200 10m; http_sendfile_cache_valid 404 10m;"
FILE = f"location /file/ {{ http_sendfile on; {LONG} }}\n"
BY_HEADER = (
    f"location /file/ {{ http_sendfile on; http_sendfile_key $http_x_key; {LONG} }}\n"
)
LEARN = (
    "location / { http_sendfile_learn on; http_sendfile_cache main;"
    f" %%ACCEPT%% %%PASS%% }} {STATIC} %%INTERNAL%%"
)
TIMEOUT = 300.0


def purge(
    url: str,
    *words: str | bytes,
    code: int = 0,
    stdin: bytes = b"",
    environment: dict[str, str] | None = None,
    urls: Sequence[str] = (),
) -> dict[str, object]:
    """Run ``sendfilectl purge --json`` and return what it says.

    Args:
        url: of the status location.
        words: more of the command line.
        code: the exit code that is expected.
        stdin: what the program reads.
        environment: more variables.
        urls: to purge.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sendfilectl", "purge", "--json", url),
            *(word for one in urls for word in ("--url", one)),
            *("--", *words),
        ],
        input=stdin,
        env={**os.environ, **(environment or {})},
        check=False,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == code, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


def purge_all(url: str) -> dict[str, object]:
    """Run ``sendfilectl purge --all --json`` and return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "sendfilectl", "purge", url, "--all", "--json"],
        check=True,
        capture_output=True,
        timeout=TIMEOUT,
    )
    document: dict[str, object] = json.loads(done.stdout)
    return document


def status_url(nginx: Nginx, location: str = "/status") -> str:
    """Return the URL of the status location."""
    return f"http://127.0.0.1:{nginx.port}{location}"


def source(nginx: Nginx, key: bytes) -> str:
    """Ask for a key, which is a header, and return $sendfile_source."""
    with nginx.connect() as connection:
        uri = numbered("/file/")
        head = f"GET {uri} HTTP/1.1\r\nHost: a\r\nX-Key: ".encode()
        connection.send(head + key + b"\r\n\r\n")
        assert connection.read_response().status == 200
    return nginx.logged(uri).source


def test_new_record_after_a_purge(site: Site) -> None:
    """A changed record is served after the purge, and no other is forgotten."""
    for n in (7, 8):
        site.add(n)
    nginx = site.start(FILE + STATUS + "%%INTERNAL%%", http=ZONE)
    for wanted in ("lmdb", "cache"):
        for n in (7, 8):
            assert said(nginx, f"/file/{n}") == ("HIT", wanted)
    site.files.write_id("bb/7.dat", 77)
    site.store.put(7, "bb/7.dat")
    site.assert_file(ask(nginx, "/file/7").response, 7)
    assert purge(status_url(nginx), "7") == {"ok": True, "keys": 1}
    site.assert_file(ask(nginx, "/file/7").response, 77)
    assert said(nginx, "/file/8") == ("HIT", "cache")
    assert purge(status_url(nginx), "9") == {"ok": True, "keys": 1}


def test_all(site: Site) -> None:
    """Everything goes, misses too."""
    site.add(7)
    nginx = site.start(FILE + STATUS + "%%INTERNAL%%", http=ZONE)
    for _ in range(2):
        for n in (7, 8, 9):
            ask(nginx, f"/file/{n}")
    for _ in range(2):
        assert purge_all(status_url(nginx)) == {"ok": True, "all": True}
    assert said(nginx, "/file/7") == ("HIT", "lmdb")
    for n in (8, 9):
        assert said(nginx, f"/file/{n}") == ("MISS", "lmdb")


URIS = [
    *(
        "/a",
        "/a?b=c&d",
        "/a%20b%2520",
        "//a//b?",
        "/a/./b",
        "/%e5%86%99",
        "/a'\"<>\\^`{}",
    ),
    *("/a+b;c,d", "/a?b?c", "/a?url=http://b/c&url=d", "/" + "a" * 3000),
]


def test_purge_of_a_url_takes_its_answers_and_no_others(site: Site) -> None:
    """What was learned for a URL, whatever bytes it has, and for no other."""
    app = use_gateway(site)
    path = site.files.write_id("aa/7.dat", 7)
    app.script = lambda request: sendfile(path, ("X-Accel-Expires", "60"))
    nginx = site.start(LEARN + STATUS, http=ZONE)

    def ask_all() -> list[str]:
        before = app.count()
        for uri in URIS:
            site.assert_file(nginx.get(uri), 7)
        return [request.target for request in app.requests[before:]]

    assert ask_all() == URIS
    assert ask_all() == []
    some, others = URIS[::2], URIS[1::2]
    base = "http://localhost"
    found = purge(status_url(nginx), urls=[f"{base}{uri}" for uri in some])
    assert found == {"ok": True, "urls": len(some)}
    assert ask_all() == some
    lines = "".join(f"{base}{uri}\n" for uri in others).encode()
    found = purge(status_url(nginx), urls=["-"], stdin=lines)
    assert found == {"ok": True, "urls": len(others)}
    assert ask_all() == others


def test_url_that_no_request_line_can_have(site: Site) -> None:
    """It fails alone, and the next one is purged."""
    nginx = site.start(FILE + STATUS, http=ZONE)
    assert said(nginx, "/file/7") == ("MISS", "lmdb")
    urls = ["http://localhost/" + "a" * 9000, "http://localhost/b"]
    found = purge(status_url(nginx), urls=urls, code=1)
    assert (found["urls"], found["failed"]) == (1, 1)
    assert "large_client_header_buffers" in str(found["errors"])
    assert said(nginx, "/file/7") == ("NEGATIVE", "cache")


def test_any_key(site: Site) -> None:
    """Each byte that a key may have, and keys that look like paths."""
    every = bytes(n for n in range(0x21, 0x100) if n != 0x7F)
    keys = [
        *(every[:200], every[200:], b"/" * 250, b"%" * 250),
        *(b"a/b", b"a//b/", b"/", b"//", b".", b"..", b"a/../b", b"a/../..", b"../a"),
        *(b"...", b"%", b"%2F", b"%2e%2e", b"?", b"?a=b", b"#", b"a&b", b"a+b", b"-"),
        *(b"cache", b"cache/1", b"a.php", "写真".encode(), b"\xfe\xff"),
    ]
    site.files.write_id("aa/7.dat", 7)
    for key in keys:
        site.store.put(key, "aa/7.dat")
    nginx = site.start(
        BY_HEADER
        + r"location ^~ /status { http_sendfile_status write; }"
        + r"location ~ \.php$ { return 500; } %%INTERNAL%%",
        http=ZONE,
    )
    for wanted in ("lmdb", "cache"):
        for key in keys:
            assert source(nginx, key) == wanted
    found = purge(status_url(nginx), *keys)
    assert found == {"ok": True, "keys": len(keys)}
    for key in keys:
        assert source(nginx, key) == "lmdb", key


def test_keys_that_nginx_would_look_for_elsewhere(site: Site) -> None:
    """They are refused, since the request would reach another location."""
    nginx = site.start(
        FILE + STATUS + "location / { proxy_pass http://%%APP%%; }", ZONE
    )
    keys = ["../..", "../../app", "a/../../../app", ".//..//../app"]
    found = purge(status_url(nginx), *keys, code=1)
    assert (found["keys"], found["failed"]) == (0, len(keys))
    assert not site.app.requests
    # why they are refused
    assert nginx.request("DELETE", "/status/cache/%2E%2E%2F%2E%2E%2Fapp").status == 200
    assert len(site.app.requests) == 1


def test_list_over_more_than_one_connection(site: Site) -> None:
    """nginx closes a connection after keepalive_requests."""
    nginx = site.start(
        "keepalive_requests 100;" + FILE + STATUS + "%%INTERNAL%%", http=ZONE
    )
    some = (1, 250, 999)
    for n in some:
        for wanted in ("lmdb", "cache"):
            assert ask(nginx, f"/file/{n}").entry.source == wanted
    lines = b"".join(b"%d\n" % n for n in range(1000))
    found = purge(status_url(nginx), "-", stdin=lines)
    assert found == {"ok": True, "keys": 1000}
    for n in some:
        assert said(nginx, f"/file/{n}") == ("MISS", "lmdb")


def test_idle_connection_that_nginx_closes(site: Site) -> None:
    """nginx closes a connection that is idle for too long; a key is not lost."""
    nginx = site.start(
        "keepalive_timeout 50ms;" + FILE + STATUS + "%%INTERNAL%%", http=ZONE
    )
    ask(nginx, "/file/1")
    ask(nginx, "/file/2")
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "sendfilectl", "purge"),
            *(status_url(nginx), "-", "--json"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()
        assert nginx.logged("/status/cache/1").code == 200
        wait_until(
            lambda: CLOSE_WAIT in states("127.0.0.1", nginx.port),
            what="nginx to close it",
        )
        output, _ = process.communicate(b"2\n", TIMEOUT)
    assert json.loads(output) == {"ok": True, "keys": 2}
    for n in (1, 2):
        assert said(nginx, f"/file/{n}") == ("MISS", "lmdb")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/readonly", ("answers 403 (", "http_sendfile_status write;'")),
        ("/denied", ("answers 403 Forbidden", "'allow' and 'deny'")),
        ("/secret", ("answers 401 ", "user:password@")),
        ("/status/x", ("answers 404 (", "no http_sendfile_status at this URL")),
        ("/nowhere", ("answers 405 ", "no http_sendfile_status at this URL")),
        ("/moved", ("answers 301 ", "write the URL that it leads to, http://b/status")),
    ],
)
def test_hints(site: Site, location: str, words: tuple[str, ...]) -> None:
    """What nginx really answers leads to the right words."""
    nginx = site.start(
        FILE
        + STATUS
        + "location /readonly { http_sendfile_status; }"
        + "location /denied { http_sendfile_status write; deny all; }"
        + "location /secret { http_sendfile_status write; auth_basic x;"
        + " auth_basic_user_file %%DIR%%/users; }"
        + "location /moved { rewrite ^/moved(.*) http://b/status$1 permanent; }",
        http=ZONE,
    )
    (site.directory / "users").write_text("")
    found = purge(status_url(nginx, location), "7", code=1)
    text = str(found["error"])
    assert text.startswith(status_url(nginx, location)), text
    for word in words:
        assert word in text


def test_user_and_password(site: Site) -> None:
    """A location with auth_basic takes the URL's user."""
    users = site.directory / "users"
    users.write_text("me:{PLAIN}s@cret\n")
    users.chmod(0o644)
    nginx = site.start(
        FILE + "location /status { http_sendfile_status write; auth_basic x;"
        " auth_basic_user_file %%DIR%%/users; }",
        http=ZONE,
    )
    ask(nginx, "/file/7")
    url = status_url(nginx).replace("//", "//me:s%40cret@")
    assert purge(url, "7") == {"ok": True, "keys": 1}
    assert said(nginx, "/file/7") == ("MISS", "lmdb")


def test_unix_socket(site: Site) -> None:
    """nginx on a unix socket."""
    path = site.directory / "nginx.sock"
    nginx = site.start(
        f"listen unix:{path};" + FILE + STATUS,
        http=ZONE,
    )
    ask(nginx, "/file/7")
    url = f"http+unix://{str(path).replace('/', '%2F')}/status"
    assert purge(url, "7", "8") == {"ok": True, "keys": 2}
    assert said(nginx, "/file/7") == ("MISS", "lmdb")


def test_tls(site: Site, certificate: Certificate) -> None:
    """nginx with TLS; and what is said without."""
    nginx = site.start(
        "listen 127.0.0.1:%%PORT:tls%% ssl;"
        f"ssl_certificate {certificate.certificate};"
        f"ssl_certificate_key {certificate.key};" + FILE + STATUS,
        http=ZONE,
    )
    ask(nginx, "/file/7")
    name = f"localhost:{nginx.port_of('tls')}/status"
    trusting = {"SSL_CERT_FILE": str(certificate.certificate)}
    found = purge(f"https://{name}", "7", "8", environment=trusting)
    assert found == {"ok": True, "keys": 2}
    assert said(nginx, "/file/7") == ("MISS", "lmdb")
    text = str(purge(f"http://{name}", "7", code=1)["error"])
    assert "write https://" in text
    text = str(purge(status_url(nginx).replace("http", "https"), "7", code=1)["error"])
    assert "write http://" in text
