"""http_sendfile_activestorage: /disk/ URLs of Rails without Rails."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from dataclasses import dataclass

import pytest

from lib.activestorage import KEY, iso, seal
from lib.client import Response
from lib.figures import requests, row, wait_for_total
from lib.signed import LIB, load_signed, write_keys
from lib.site import Site

BLOB = "iaz0tj96y7moxhu8yzn3g8diz1lz"
PREFIX = "/rails/active_storage/disk"

# the headers of every answer of Rails that an application may change
DEFAULTS = """
    add_header X-Frame-Options SAMEORIGIN;
    add_header X-XSS-Protection "1; mode=block";
    add_header X-Download-Options noopen;
    add_header X-Permitted-Cross-Domain-Policies none;
    add_header Referrer-Policy strict-origin-when-cross-origin;
"""
# what only one of the two has: nginx its own, Rails its request's
DIFFERENCES = {
    *("server", "date", "connection", "etag", "accept-ranges"),
    *("x-request-id", "x-runtime"),
}


@pytest.fixture
def storage(site: Site) -> Site:
    """A site with the module, a key, and one blob of a disk service."""
    load_signed(site)
    write_keys(site, KEY.hex())
    add(site, BLOB, 1)
    return site


def add(site: Site, blob: str, file_id: int, root: str = "") -> None:
    """Write a blob as the disk service has it."""
    site.files.write_id(f"{root}{blob[:2]}/{blob[2:4]}/{blob}", file_id, 3000)


LOCATION = """
    location /rails/active_storage/ {
        http_sendfile_activestorage %%DIR%%/keys;
        http_sendfile_root %%FILES%%;
    }
"""


def token(
    key: str = BLOB,
    purpose: str | None = "blob_key",
    seconds: float = 300,
    **more: object,
) -> str:
    """Make a token as Rails 7.1 does."""
    data = {
        "key": key,
        "disposition": 'inline; filename="a.txt"',
        "content_type": "text/plain",
        "service_name": "local",
        **more,
    }
    message = {"data": data, "exp": iso(seconds), "pur": purpose}
    return seal(json.dumps({"_rails": message}).encode())


def url(some_token: str, name: str = "a.txt") -> str:
    """Return the URL of a token."""
    return f"{PREFIX}/{some_token}/{name}"


# as Rails does


@dataclass
class Rails:
    """What Rails itself makes and answers.

    Args:
        key: of its signatures, in hex.
        paths: of the URLs of the files.
        answers: to the requests, in their order.
    """

    key: str
    paths: list[str]
    answers: list[dict[str, object]]


def ask_rails(site: Site, files: object, requests: object) -> Rails:
    """Let a Rails application make URLs, and answer requests of them."""
    folder = site.directory / "rails"
    (folder / "log").mkdir(parents=True)
    done = subprocess.run(
        ["ruby", LIB / "rails_disk.rb", site.files.root, folder],
        input=json.dumps({"files": files, "requests": requests}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    return Rails(told["key"], told["paths"], told["answers"])


def file(key: str, **more: object) -> dict[str, object]:
    """Return a file for ask_rails()."""
    return {
        "key": key,
        "disposition": "inline",
        "type": "text/plain",
        "filename": "héllo wörld.txt",
        "expires_in": 300,
        **more,
    }


def headers_of(answer: Response) -> dict[str, str]:
    """Return the headers that both are to have."""
    found = {name.lower(): value for name, value in answer.headers}
    assert len(found) == len(answer.headers), answer.headers
    return {n: v for n, v in found.items() if n not in DIFFERENCES}


def test_counted(storage: Site) -> None:
    """Requests are counted with their location, whatever http_sendfile is there."""
    nginx = storage.start(LOCATION + "location /status { http_sendfile_status; }")
    assert nginx.get(url(token())).status == 200
    assert nginx.get(url("tampered")).status == 404
    one = row(wait_for_total(nginx, 2)["locations"], location="/rails/active_storage/")
    assert requests(one) == {("hit", "signed"): 1, ("invalid", "signed"): 1}
    assert one["app_avoided"] == 1
    assert one["sent"]["direct"] == {"files": 1, "bytes": 3000}


def test_as_rails_answers(storage: Site) -> None:
    """The same status, headers and bytes as Rails 6.1, but for DIFFERENCES."""
    add(storage, "abcdefgh", 2)
    # nginx compares dates as they are: see if_modified_since
    os.utime(storage.files.root / f"ia/z0/{BLOB}", (1000000000, 1000000000))
    date = "Sun, 09 Sep 2001 01:46:40 GMT"
    files = [
        file(BLOB),
        file(
            "abcdefgh",
            disposition="attachment",
            type="image/svg+xml",
            filename="<&>.svg",
        ),
        file(BLOB, expires_in=-1),
        file("nothere0"),
    ]
    requests = [
        {"file": n, "method": method, "headers": headers, "old": old, "new": new}
        for n, method, headers, old, new in (
            (0, "GET", {}, "", ""),
            (0, "HEAD", {}, "", ""),
            (0, "GET", {"Range": "bytes=10-19"}, "", ""),
            (0, "GET", {"Range": "bytes=-5"}, "", ""),
            (0, "GET", {"Range": "bytes=9999-"}, "", ""),
            (0, "GET", {"If-Modified-Since": date}, "", ""),
            (0, "GET", {}, ".txt", ".exe"),
            (0, "GET", {}, "=--", "%3D--"),
            (1, "GET", {}, "", ""),
            (1, "GET", {"Range": "bytes=0-0"}, "", ""),
            (2, "GET", {}, "", ""),
            (3, "GET", {}, "", ""),
            (0, "GET", {}, "--", "--0"),
            (0, "GET", {}, "--", "-"),
            (0, "GET", {}, "/ey", "/ez"),
        )
    ]
    rails = ask_rails(storage, files, requests)
    write_keys(storage, rails.key)
    nginx = storage.start(
        LOCATION.replace("http_sendfile_root", DEFAULTS + "http_sendfile_root")
    )
    statuses = []
    for request, theirs in zip(requests, rails.answers, strict=True):
        headers = request["headers"]
        assert isinstance(headers, dict)
        ours = nginx.request(str(request["method"]), str(theirs["path"]), headers)
        statuses.append(ours.status)
        if ours.status == 416:
            # a Range is nginx's: Rails 6.1 says 404 to one behind the end
            continue
        assert ours.status == theirs["status"], request
        if ours.status == 404:
            continue
        assert ours.body == base64.b64decode(str(theirs["body"])), request
        expected = {n.lower(): v for n, v in theirs["headers"].items()}  # type: ignore[attr-defined]
        expected = {n: v for n, v in expected.items() if n not in DIFFERENCES}
        found = headers_of(ours)
        if ours.status == 304:
            # nginx repeats what the 200 said; Rails 6.1 says no-cache here
            continue
        assert found == expected, request
    assert statuses == [200, 200, 206, 206, 416, 304, 200, 200, 200, 206] + [404] * 5


# what is served, and what is not


def test_serves(storage: Site) -> None:
    """A good token is the file, with the token's type and disposition."""
    nginx = storage.start(LOCATION)
    target = url(token())
    answer = nginx.get(target)
    storage.assert_file(answer, 1, 3000)
    assert answer.header("Content-Type") == "text/plain"
    assert answer.header("Content-Disposition") == 'inline; filename="a.txt"'
    assert answer.header("Cache-Control") == "max-age=0, private, must-revalidate"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    entry = nginx.logged(target)
    assert (entry.status, entry.source, entry.key) == ("HIT", "signed", BLOB)
    assert entry.target == f"ia/z0/{BLOB}"
    etag = answer.header("ETag")
    assert etag is not None
    assert nginx.get(target, {"If-None-Match": etag}).status == 304


def test_no_type_and_no_disposition(storage: Site) -> None:
    """As Rails: a download of bytes."""
    nginx = storage.start(LOCATION)
    answer = nginx.get(url(token(content_type=None, disposition=None)))
    assert answer.header("Content-Type") == "application/octet-stream"
    assert answer.header("Content-Disposition") == "attachment"


@pytest.mark.parametrize("forever", [None, "absent"])
def test_token_of_a_public_service(storage: Site, forever: str | None) -> None:
    """Without an end it is good for ever."""
    message: dict[str, object] = {"data": {"key": BLOB}, "pur": "blob_key"}
    if forever is None:
        message["exp"] = None
    nginx = storage.start(LOCATION)
    answer = nginx.get(url(seal(json.dumps({"_rails": message}).encode())))
    storage.assert_file(answer, 1, 3000)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda: token(seconds=-1), "expired token"),
        (lambda: token(purpose="blob_id"), "token of no file"),
        (lambda: token(purpose="blob_token"), "token of no file"),
        (lambda: token(purpose=None), "token of no file"),
        (lambda: token(purpose="blob_key "), "token of no file"),
        (lambda: seal(json.dumps({"key": BLOB}).encode()), "token of no file"),
        (lambda: seal(b'{"_rails":{"data":"x","pur":"blob_key"}}'), "token of no file"),
        (lambda: seal(b'{"_rails":{"data":1,"pur":"blob_key"}}'), "token of no file"),
        (lambda: seal(b'{"_rails":{"data":{},"pur":"blob_key"}}'), "token of no file"),
        (
            lambda: seal(
                b'{"_rails":{"data":{"key":"%s"},"pur":"blob_key","pur":"x"}}'
                % BLOB.encode()
            ),
            "token of no file",
        ),
        (lambda: seal(b"\x04\x08{"), "token of no file"),
        (lambda: seal(b""), "bad signature"),
        (lambda: seal(b"x", b"other"), "bad signature"),
        (lambda: token()[:-1], "bad signature"),
        (lambda: token().replace("--", ""), "bad signature"),
        (lambda: token().rpartition("--")[0], "bad signature"),
        (lambda: "x" * 20000, "token too long"),
        (lambda: token("nothere0"), "missing file"),
        (lambda: token("../../etc/passwd"), ".. or"),
        (lambda: token("/etc/passwd"), ""),
        (lambda: token("iaz0/../../x"), ""),
        (lambda: token("..az"), ""),
        (lambda: token("iaz0\0"), ""),
        (lambda: token("iaz"), "key too short"),
        (lambda: token("éaz0"), "key not ASCII"),
        (lambda: token("x" * 5000), "key too long"),
        (lambda: token(""), ""),
        (lambda: token(disposition="inline\r\nX-Evil: 1"), "invalid token"),
        (lambda: token(content_type="a/b\r\nX-Evil: 1"), "invalid token"),
    ],
)
def test_refused(storage: Site, bad: object, reason: str) -> None:
    """Each of them is a 404, with a reason, and never a file."""
    (storage.directory / "etc").mkdir()
    nginx = storage.start(f"large_client_header_buffers 4 64k; {LOCATION}")
    target = url(bad())  # type: ignore[operator]
    answer = nginx.get(target)
    assert answer.status == 404
    assert answer.header("X-Evil") is None
    assert answer.header("Content-Disposition") is None
    found = nginx.logged(target)
    assert (reason == ".. or" and ".." in found.reason) or reason in found.reason
    assert found.reason != "-"


def test_expiry_counts_though_the_file_is_cached(storage: Site) -> None:
    """What is in memory is the file, not what a token has said."""
    nginx = storage.start(
        LOCATION.replace(
            "http_sendfile_root",
            "http_sendfile_cache c; http_sendfile_cache_body 64k; http_sendfile_root",
        ),
        http="http_sendfile_cache_zone c:8m;",
    )
    for _ in range(3):
        storage.assert_file(nginx.get(url(token())), 1, 3000)
        assert nginx.get(url(token(seconds=-1))).status == 404
        assert nginx.get(url(token(purpose="blob_id"))).status == 404


def test_cached_file_that_changes(storage: Site) -> None:
    """With http_sendfile_cache_check 0 a new file is there at once."""
    nginx = storage.start(
        LOCATION.replace(
            "http_sendfile_root",
            "http_sendfile_cache c; http_sendfile_cache_body 64k;"
            " http_sendfile_cache_check 0; http_sendfile_root",
        ),
        http="http_sendfile_cache_zone c:8m;",
    )
    for number in (1, 2, 3):
        (storage.files.root / f"ia/z0/{BLOB}").unlink()
        add(storage, BLOB, number)
        for _ in range(3):
            storage.assert_file(nginx.get(url(token())), number, 3000)


def test_services(storage: Site) -> None:
    """Each has its root; one that is not configured has none."""
    add(storage, BLOB, 2, "second/")
    nginx = storage.start(
        LOCATION,
        http="""
            http_sendfile_activestorage_service local root %%FILES%%;
            http_sendfile_activestorage_service archive root %%FILES%%/second/;
        """,
    )
    storage.assert_file(nginx.get(url(token())), 1, 3000)
    storage.assert_file(nginx.get(url(token(service_name="archive"))), 2, 3000)
    storage.assert_file(nginx.get(url(token(service_name=None))), 1, 3000)
    for name in ("s3", "", "loca", "locale"):
        target = url(token(service_name=name))
        assert nginx.get(target).status == 404
        assert nginx.logged(target).reason == "unknown service"


def test_symbolic_link(storage: Site) -> None:
    """As everywhere: none is followed."""
    folder = storage.files.root / "se" / "cr"
    folder.mkdir(parents=True)
    (folder / "secret00").symlink_to("/etc/passwd")
    nginx = storage.start(LOCATION)
    nginx.allow_log("symbolic link")
    assert nginx.get(url(token("secret00"))).status == 404


def test_key_with_slashes(storage: Site) -> None:
    """A key of the application's own, and that of a variant."""
    for number, blob, path in (
        (5, "variants/abc/def", "va/ri/variants/abc/def"),
        (6, "u1/avatar", "u1/a/u1/avatar"),
    ):
        storage.files.write_id(path, number, 3000)
        assert (storage.files.root / f"{blob[:2]}/{blob[2:4]}/{blob}").exists()
    nginx = storage.start(LOCATION)
    storage.assert_file(nginx.get(url(token("variants/abc/def"))), 5, 3000)
    storage.assert_file(nginx.get(url(token("u1/avatar"))), 6, 3000)


def test_sha256(storage: Site) -> None:
    """Where the application has another digest for its verifiers."""
    payload = base64.b64decode(token().partition("--")[0])
    nginx = storage.start(LOCATION.replace("/keys", "/keys digest=sha256"))
    storage.assert_file(nginx.get(url(seal(payload, digest="sha256"))), 1, 3000)
    assert nginx.get(url(seal(payload))).status == 404


# beside the application


APP = LOCATION.replace(
    "http_sendfile_root", "proxy_pass http://%%APP%%; http_sendfile_root"
)


def test_application_gets_the_rest(storage: Site) -> None:
    """What nginx cannot serve is the application's: it may know better."""
    nginx = storage.start(APP)
    storage.assert_file(nginx.get(url(token())), 1, 3000)
    assert storage.app.requests == []
    for target in (
        *(url(token(seconds=-1)), url(token("nothere0")), url("x"), f"{PREFIX}/"),
        *("/rails/active_storage/blobs/redirect/x--y/a.txt", f"{PREFIX}/{token()}"),
        f"/rails/active_storage/blobs/proxy/{token()}/a.txt",
    ):
        assert nginx.get(target).text == f"app GET {target}\n"
    assert nginx.request("PUT", url(token()), {}, b"x").text.startswith("app PUT")
    assert nginx.logged(url("x")).source == "app"


def test_auth_request(storage: Site) -> None:
    """Who is denied gets nothing, whatever the token."""
    nginx = storage.start(
        APP.replace("http_sendfile_root", "auth_request /auth; http_sendfile_root")
        + 'location = /auth { if ($http_cookie = "") { return 401; } return 204; }'
    )
    assert nginx.get(url(token())).status == 401
    storage.assert_file(nginx.get(url(token()), {"Cookie": "a=1"}), 1, 3000)


def test_beside_http_sendfile(storage: Site) -> None:
    """A name of digits is no ID, before the token or after it."""
    storage.add(7)
    nginx = storage.start(
        LOCATION.replace("http_sendfile_root", "http_sendfile on; http_sendfile_root")
    )
    storage.assert_file(nginx.get(url(token(), "7")), 1, 3000)
    storage.assert_file(nginx.get("/rails/active_storage/7"), 7)
    assert nginx.get(url(token(seconds=-1), "7")).status == 404


def test_named_fallback(storage: Site) -> None:
    """http_sendfile_fallback counts as it does for IDs."""
    nginx = storage.start(
        LOCATION.replace(
            "http_sendfile_root", "http_sendfile_fallback @app; http_sendfile_root"
        )
        + "location @app { proxy_pass http://%%APP%%; }"
    )
    storage.assert_file(nginx.get(url(token())), 1, 3000)
    assert nginx.get(url("x")).text == f"app GET {url('x')}\n"


def test_inherited(storage: Site) -> None:
    """A server's directive leaves locations with a handler alone, and "off" all."""
    nginx = storage.start(
        """
        http_sendfile_activestorage %%DIR%%/keys;
        http_sendfile_root %%FILES%%;
        location /rails/ { }
        location /proxied/ { proxy_pass http://%%APP%%; }
        location /off/ { http_sendfile_activestorage off; }
        location /rails/if/ { if ($arg_x) { add_header X-If 1; } }
        """
    )
    storage.assert_file(nginx.get(url(token())), 1, 3000)
    storage.assert_file(nginx.get(f"/rails/if/disk/{token()}/a?x=1"), 1, 3000)
    target = f"/proxied/disk/{token()}/a"
    assert nginx.get(target).text == f"app GET {target}\n"
    assert nginx.get(f"/off/disk/{token()}/a").status == 404


def test_redirects_and_subrequests(storage: Site) -> None:
    """The token is of the client's own request, of no redirect behind it."""
    nginx = storage.start(
        LOCATION
        + """
        location /moved/ { error_page 418 = /rails/active_storage/x; return 418; }
        location /asks/ { auth_request /rails/active_storage/x; return 200; }
        """
    )
    assert nginx.get(f"/moved/disk/{token()}/a").status == 404
    assert nginx.get(f"/asks/disk/{token()}/a").status != 500


# hostile


def mutate(rng: random.Random, good: str) -> str:
    """Change a token in one of many ways; it may stay what it was."""
    text, _, code = good.partition("--")
    place = rng.randrange(len(good))
    other = base64.b64decode(text)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+_-="
    choice = rng.randrange(12)
    if choice == 0:
        return good[:place] + rng.choice(alphabet) + good[place + 1 :]
    if choice == 1:
        return good[:place]
    if choice == 2:
        return good + good
    if choice == 3:
        return good[:place] + good[place:][::-1]
    if choice == 4:
        return seal(other, rng.randbytes(64))
    if choice == 5:
        return seal(
            other.replace(b"blob_key", rng.choice([b"blob_id", b"blob_token", b""]))
        )
    if choice == 6:
        return seal(other.replace(b'"_rails":', b'"rails":'))
    if choice == 7:
        extra = rng.choice(
            [b'"pur":"x",', b'"message":"BAhpBg==",', b'"data":1,', b'"exp":1,']
        )
        return seal(other.replace(b'{"_rails": {', b'{"_rails": {' + extra))
    if choice == 8:
        spot = rng.randrange(len(other))
        flipped = bytes([other[spot] ^ (1 << rng.randrange(8))])
        return f"{base64.b64encode(other[:spot] + flipped + other[spot + 1 :]).decode()}--{code}"
    if choice == 9:
        return seal(b"\x04\x08" + other)
    if choice == 10:
        bad = rng.choice(
            ["../../../etc/passwd", "/etc/passwd", "..", "", "ia\\u0000z0", "."]
        )
        return seal(other.replace(BLOB.encode(), bad.encode()))
    return (
        good[:place]
        + rng.choice(["%2F", "%00", "%2e%2e%2f", "/", "%", ";"])
        + good[place:]
    )


def test_20_000_tampered_tokens(storage: Site) -> None:
    """Never a file, never a 5xx, never a line that says more than info."""
    nginx = storage.start(f"keepalive_requests 100000; {LOCATION}")
    rng = random.Random(seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    good = token(seconds=3600)
    connection = nginx.connect()
    for _ in range(20_000):
        bad = mutate(rng, good)
        if bad in (good, good + "/"):
            continue
        answer = connection.request("GET", url(bad))
        assert answer.status in (400, 404) and b"file 1" not in answer.body, bad
        if answer.status == 400:
            connection.close()
            connection = nginx.connect()
    storage.assert_file(connection.request("GET", url(good)), 1, 3000)
    connection.close()
    log = (storage.directory / "logs" / "error.log").read_text(errors="replace")
    assert "[error]" not in log or "http_sendfile" not in log.split("[error]")[1][:80]


# nginx -t


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("http_sendfile_activestorage %%DIR%%/keys;", "needs the folder of the files"),
        (
            "http_sendfile_activestorage %%DIR%%/keys digest=md5; ",
            "write digest=sha256, or nothing, which is sha1",
        ),
        (
            "http_sendfile_activestorage %%DIR%%/keys; http_sendfile_activestorage off; ",
            "is duplicate",
        ),
        ("http_sendfile_activestorage %%DIR%%/none; ", "failed"),
    ],
)
def test_mistake(storage: Site, lines: str, words: str) -> None:
    """Each says what to write instead."""
    check = storage.check_config(f"location /rails/ {{ {lines} }}")
    check.assert_fails("http_sendfile_activestorage", words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a dir /srv", 'a service has a "root", not "dir"'),
        ("a root srv", 'invalid root "srv": not absolute'),
        ("a root /srv/../etc", 'invalid root "/srv/../etc"'),
        ("a root /srv/$host", "it can have no variables"),
        (
            "a root /a; http_sendfile_activestorage_service a root /b",
            "has a root already",
        ),
    ],
)
def test_bad_service(storage: Site, line: str, words: str) -> None:
    """Each says what to write instead."""
    check = storage.check_config(
        "", http=f"http_sendfile_activestorage_service {line};"
    )
    check.assert_fails("http_sendfile_activestorage_service", words)


def test_first_module_has_to_come_first(storage: Site) -> None:
    """With the modules in the other order nginx -t says so."""
    if storage.flavour.module is None:
        # linked in, in the right order
        storage.check_config(LOCATION).assert_silent()
        return
    first, _, second = storage.variables["LOAD"].partition("; ")
    storage.variables["LOAD"] = f"{second} {first};"
    check = storage.check_config(LOCATION)
    assert not check.ok
    assert "load it before ngx_http_sendfile_signed_module" in check.output


def test_key_is_in_no_log(storage: Site) -> None:
    """Neither as bytes nor in hex, not even with the debug log."""
    storage.variables["LOG_LEVEL"] = "debug"
    nginx = storage.start(LOCATION)
    nginx.get(url(token()))
    nginx.get(url("x"))
    log = (storage.directory / "logs" / "error.log").read_bytes()
    assert KEY[:16] not in log
    assert KEY.hex()[:32].encode() not in log
