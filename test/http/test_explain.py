"""Explain: each ending, its steps and sentences, and that nothing is done."""

from __future__ import annotations

import json
import os
import random
from urllib.parse import quote

import pytest

from lib.cache import CACHE, ZONE
from lib.explain import STATUS, explain, parse, same
from lib.fake_memcached import Fake
from lib.memcached import Memcached
from lib.site import Site

pytest_plugins = ("lib.memcached_fixtures",)

FILE = "location /file/ { http_sendfile on; } %%INTERNAL%%" + STATUS
EITHER = "location /file/ { http_sendfile on; %%DELIVER%% } %%INTERNAL%%" + STATUS
DIRECT = "location /file/ { http_sendfile on; %%DIRECT%% }" + STATUS


def test_found_and_sent(site: Site, delivery: str) -> None:
    """The way of a file that is sent, with the headers it has."""
    site.add(7, "aa/seven.png", type="image/png", name="Seven.png")
    nginx = site.start(EITHER)
    explained = same(nginx, "/file/7")
    assert (explained.outcome, explained.status) == ("sent", 200)
    assert explained.step("location")["location"] == "/file/"
    assert explained.step("key")["key"] == "7"
    assert explained.step("record")["path"] == "aa/seven.png"
    assert '"aa/seven.png"' in explained.step("value")["value"]
    assert explained.headers()["Content-Type"] == "image/png"
    assert "Seven.png" in explained.headers()["Content-Disposition"]
    folders = explained.step("file")["folders"]
    assert folders[0]["path"] == "/"
    assert folders[-1]["path"] == str(site.files.root / "aa/seven.png")
    assert folders[-1]["type"] == "file"
    assert all(folder["allowed"] for folder in folders)
    assert explained.advice == ""


def test_not_in_store(site: Site) -> None:
    """A key that the store does not have; the sentence is what to run."""
    nginx = site.start(FILE)
    explained = same(nginx, "/file/8")
    assert (explained.outcome, explained.status) == ("failed", 404)
    assert explained.document["step"] == "store"
    assert "sendfilectl set lmdb:" in explained.advice


def test_missing_file(site: Site, delivery: str) -> None:
    """The record is there, the file is not: the folder that ends the way."""
    site.store.put(7, "aa/no/such.dat")
    nginx = site.start(EITHER)
    explained = same(nginx, "/file/7")
    assert (explained.outcome, explained.status) == ("failed", 404)
    assert explained.document["step"] == "file"
    folders = explained.step("file")["folders"]
    assert folders[-1]["errno"] == 2
    assert folders[-1]["path"] in explained.advice


def test_folder_that_the_worker_may_not_enter(site: Site, delivery: str) -> None:
    """The folder, its mode and its owner are named, and what to write."""
    site.add(7, "closed/7.dat")
    closed = site.files.root / "closed"
    closed.chmod(0)
    nginx = site.start(EITHER)
    explained = same(nginx, "/file/7")
    closed.chmod(0o755)
    assert explained.status == 403
    last = explained.step("file")["folders"][-1]
    assert (last["path"], last["mode"], last["allowed"]) == (str(closed), "0000", False)
    assert (last["uid"], last["type"]) == (os.geteuid(), "directory")
    assert f'may not enter "{closed}"' in explained.advice
    assert "chmod o+x" in explained.advice


def test_symbolic_link(site: Site) -> None:
    """A link is named, and the directive that lets it."""
    site.add(7, "aa/7.dat")
    (site.files.root / "link").symlink_to("aa")
    site.store.put(8, "link/7.dat")
    nginx = site.start(DIRECT)
    explained = same(nginx, "/file/8")
    assert explained.status == 404
    assert "http_sendfile_symlinks on" in explained.advice
    assert "link" in [f["type"] for f in explained.step("file")["folders"]]


@pytest.mark.parametrize(
    "value", ["../x", "/x", "x//y", '{"type":1}', b"\x04\x08i\x06", b"\x00\xff"]
)
def test_bad_record(site: Site, value: str | bytes) -> None:
    """What is wrong with a record, and its bytes so that they can be read."""
    site.store.put(7, value)
    nginx = site.start(DIRECT)
    explained = same(nginx, "/file/7")
    assert explained.status == 502
    assert explained.document["step"] == "record"
    assert explained.step("value")["bytes"] == len(value)
    nginx.allow_log("invalid record")


def test_long_value_is_cut(site: Site) -> None:
    """Of a value the beginning is shown."""
    site.store.put(7, "x" * 3000)
    nginx = site.start(DIRECT)
    step = explain(nginx, "/file/7").step("value")
    assert (step["bytes"], step["value"], step["truncated"]) == (3000, "x" * 256, True)


def test_bad_key(site: Site) -> None:
    """A key that no store is asked for."""
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_key $arg_k; }" + STATUS
    )
    explained = same(nginx, "/file/7?k=" + 300 * "k")
    assert (explained.status, explained.document["step"]) == (404, "key")


def test_no_id(site: Site) -> None:
    """No ID in the URI: not ours, and what an ID is."""
    site.html.write_id("file/x", 1)
    nginx = site.start(FILE)
    explained = same(nginx, "/file/x")
    assert (explained.outcome, explained.status) == ("not_ours", None)
    assert "1 to 20 digits" in explained.advice


def test_off(site: Site) -> None:
    """A location without us: not ours, and which it is."""
    nginx = site.start(FILE)
    explained = same(nginx, "/other/7")
    assert explained.outcome == "not_ours"
    assert explained.step("location")["location"] == ""
    assert not explained.step("http_sendfile")["enabled"]


def test_handler_of_its_own(site: Site) -> None:
    """On above, and a proxy in the location: not ours, and what to write."""
    nginx = site.start(
        "http_sendfile on; location /file/ { proxy_pass http://%%APP%%; }" + STATUS
    )
    explained = same(nginx, "/file/7")
    assert explained.outcome == "not_ours"
    assert "in the location itself" in explained.advice
    assert len(site.app.requests) == 1


def test_internal_location(site: Site) -> None:
    """The location of the files is asked for itself."""
    site.add(7)
    nginx = site.start(FILE)
    explained = same(nginx, "/files/aa/7.dat")
    assert (explained.outcome, explained.status) == ("not_ours", 404)
    assert "internal" in explained.verdict


@pytest.mark.parametrize(
    "fallback",
    [
        "http_sendfile on; http_sendfile_fallback @app;",
        "http_sendfile on; http_sendfile_fallback /app?x=$sendfile_id;",
        "http_sendfile on; proxy_pass http://%%APP%%;",
    ],
)
def test_to_the_application(site: Site, fallback: str) -> None:
    """Where the application is next it is not asked, and why it would be."""
    site.add(7)
    nginx = site.start(
        f"location /file/ {{ {fallback} }}"
        "location @app { proxy_pass http://%%APP%%; }"
        "location /app { proxy_pass http://%%APP%%; } %%INTERNAL%%" + STATUS
    )
    explained = explain(nginx, "/file/8")
    assert site.app.requests == []
    assert (explained.outcome, explained.status) == ("application", None)
    assert "not in store" in explained.verdict
    assert explained.document["source"] == "app"
    assert same(nginx, "/file/7").outcome == "sent"
    same(nginx, "/file/8")
    assert len(site.app.requests) == 1


def test_fallback_that_is_not_there(site: Site) -> None:
    """A named location that the server does not have."""
    nginx = site.start(
        'location /file/ { http_sendfile on; set $to "@none";'
        " http_sendfile_fallback $to; }" + STATUS
    )
    explained = same(nginx, "/file/8")
    assert explained.status == 500
    nginx.allow_log("could not find named location")


def test_fallback_code(site: Site) -> None:
    """A code in place of the application."""
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_fallback =410; }" + STATUS
    )
    assert same(nginx, "/file/8").status == 410


def test_store_is_down(site: Site) -> None:
    """Nothing listens there: which server, and the step."""
    nginx = site.start(
        "location /file/ { http_sendfile on;"
        " http_sendfile_lookup memcached://127.0.0.1:1; }" + STATUS
    )
    explained = explain(nginx, "/file/7")
    assert (explained.status, explained.document["result"]) == (502, "ERROR")
    assert explained.step("store")["server"] == "127.0.0.1:1"
    assert "start the store" in explained.advice


def test_store_that_hangs(site: Site, fake: Fake) -> None:
    """The store's own deadline is that of the question."""

    async def never(peer: object, get: object) -> None:
        await peer.hold()  # type: ignore[attr-defined]

    fake.script = never
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {fake.url};"
        " http_sendfile_timeout 50ms; }" + STATUS
    )
    explained = explain(nginx, "/file/7")
    assert (explained.status, explained.document["result"]) == (504, "TIMEOUT")


def test_memcached(site: Site, memcached: Memcached) -> None:
    """A store that answers from the event loop: server and flags."""
    site.files.write_id("aa/7.dat", 7, 100)
    memcached.put(7, "aa/7.dat", flags=0)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {memcached.url};"
        " %%DIRECT%% }" + STATUS
    )
    explained = same(nginx, "/file/7")
    assert explained.outcome == "sent"
    assert explained.document["source"] == "memcached"
    assert explained.step("value")["flags"] == 0


def test_nothing_is_cached(site: Site) -> None:
    """What explain has asked the store for is not kept; what was there is told."""
    site.add(7)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%% " + CACHE + " }" + STATUS,
        http=ZONE,
    )
    for _ in range(2):
        explained = explain(nginx, "/file/7")
        assert explained.step("cache")["entry"] == "none"
        assert explain(nginx, "/file/8").step("cache")["entry"] == "none"
    assert same(nginx, "/file/7").document["source"] == "lmdb"
    explained = same(nginx, "/file/7")
    assert explained.document["source"] == "cache"
    assert explained.step("cache")["entry"] == "fresh"
    assert 0 < explained.step("cache")["left_ms"] <= 60000
    assert not explained.has("store")


def test_cached_miss(site: Site) -> None:
    """A miss that the cache knows is told, with what takes it out."""
    nginx = site.start(
        "location /file/ { http_sendfile on; "
        + CACHE
        + " http_sendfile_cache_valid 404 60s; }"
        + STATUS,
        http=ZONE,
    )
    assert nginx.get("/file/8?first").status == 404
    explained = same(nginx, "/file/8")
    assert explained.document["result"] == "NEGATIVE"
    assert explained.document["step"] == "cache"
    assert "purge" in explained.advice


def test_file_of_a_cached_record_is_gone(site: Site) -> None:
    """The store is asked anew, as the request does, and the record stays."""
    site.add(7)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%% " + CACHE + " }" + STATUS,
        http=ZONE,
    )
    assert nginx.get("/file/7?first").status == 200
    site.files.write_id("bb/7.dat", 7, 100)
    site.store.put(7, "bb/7.dat")
    (site.files.root / "aa/7.dat").unlink()
    for _ in range(2):
        explained = explain(nginx, "/file/7")
        assert explained.step("cache")["entry"] == "fresh"
        assert explained.step("record", 0)["path"] == "aa/7.dat"
        assert explained.step("file", 0)["state"] == "failed"
        assert explained.step("record", 1)["path"] == "bb/7.dat"
        assert explained.outcome == "sent"
        assert explained.document["source"] == "lmdb"
    assert same(nginx, "/file/7").outcome == "sent"


@pytest.mark.parametrize(
    "args, words",
    [
        ("", "?url=URL"),
        ("?", "?url=URL"),
        ("?url=", "?url=URL"),
        ("?uri=/x", "?url=URL"),
        ("?url=ftp%3A%2F%2Fx%2F", "no URL"),
        ("?url=http%3A%2F%2F", "no URL"),
        ("?url=http%3A%2F%2F%2Fx", "no host"),
        ("?url=http%3A%2F%2Fa%20b%2Fx", "no host"),
        ("?url=http%3A%2F%2Fu%40h%2Fx", "no host"),
        ("?url=http%3A%2F%2Fh%3A0%2Fx", "no port"),
        ("?url=http%3A%2F%2Fh%3A65536%2Fx", "no port"),
        ("?url=http%3A%2F%2Fh%3Ax%2Fx", "no port"),
        ("?url=http%3A%2F%2F127.0.0.1%3A9%2Fx", "does not listen"),
        ("?url=http%3A%2F%2F%5B%3A%3A1%5D%3A9%2Fx", "does not listen"),
        ("?url=http%3A%2F%2Funix%3A%2Fno%2Fsuch%3A%2Fx", "does not listen"),
        ("?host=h", "?url=URL"),
        ("?url=%2Fx&host=a%2Fb", "no host"),
    ],
)
def test_bad_question(site: Site, args: str, words: str) -> None:
    """What cannot be explained is answered 400, with the reason."""
    nginx = site.start(FILE)
    response = nginx.get("/status/explain" + args)
    assert response.status == 400
    assert words in json.loads(response.body)["error"]


@pytest.mark.parametrize(
    "uri",
    [
        "/file/7?a=1&b=2",
        "/file//7",
        "/file/./7",
        "/file/x/../7",
        "/file/%37",
        "/%66ile/7",
        "/file/7#part",
        "/file/7?x=%00",
    ],
)
def test_uri_that_nginx_resolves(site: Site, uri: str) -> None:
    """A URI is read as nginx reads it."""
    site.add(7)
    nginx = site.start(FILE)
    assert explain(nginx, f"http://127.0.0.1:{nginx.port}{uri}").outcome == "sent"
    assert nginx.get(uri.partition("#")[0]).status == 200


def test_url_that_is_not_encoded(site: Site) -> None:
    """All that follows url= is the URL, up to &host=."""
    site.add(7)
    nginx = site.start(FILE)
    base = f"/status/explain?url=http://127.0.0.1:{nginx.port}/file/7?a=1&b=2"
    for target in (base, base + "&host=localhost"):
        explained = parse(nginx.get(target))
        assert explained.document["url"].endswith("/file/7?a=1&b=2")
        assert explained.outcome == "sent"


@pytest.mark.parametrize("uri", ["/file/%", "/file/%zz", "/../../x", "/%2e%2e/%2e%2e/"])
def test_uri_that_nginx_refuses(site: Site, uri: str) -> None:
    """A URI that nginx answers 400."""
    nginx = site.start(FILE)
    explained = explain(nginx, f"http://127.0.0.1:{nginx.port}{uri}")
    assert (explained.outcome, explained.status) == ("not_ours", 400)
    assert nginx.get(uri).status == 400


def test_methods(site: Site) -> None:
    """HEAD is answered as GET is; anything else is refused."""
    nginx = site.start(FILE)
    assert nginx.head("/status/explain?url=/file/7").status == 200
    response = nginx.request("DELETE", "/status/explain?url=/file/7")
    assert response.status == 405
    assert response.header("Allow") == "GET, HEAD"


def test_names_that_are_no_text(site: Site) -> None:
    """Any bytes of a path come out as JSON that can be read."""
    site.store.put(7, b'a"b\\c\xff\xc3\xa9.dat')
    nginx = site.start(DIRECT)
    record = explain(nginx, "/file/7").step("record")
    assert record["path"] == 'a"b\\c\\xffé.dat'


def test_any_bytes(site: Site) -> None:
    """Whatever is asked, it is answered, and the answer can be read."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    site.add(7)
    nginx = site.start(
        "rewrite ^/r(.*)$ /file$1; location /file/ { http_sendfile on; }"
        r"location ~ ^/k/(?<k>.*)$ { http_sendfile on; http_sendfile_key $k; }"
        " %%INTERNAL%%" + STATUS
    )
    base = f"http://127.0.0.1:{nginx.port}"
    pieces = ["http://", "https://", "unix:", "/file/7", "/k/", "/r/7", "[::1]", "@"]
    pieces += [base, ":", "%", "%25", "..", "//", "?", "&host=", "#", "\0", "\xff"]
    pieces += [str(nginx.port), "a" * 300, "é", " ", "\n", '"', "\\", "]", "["]
    with nginx.connect() as connection:
        for _ in range(400):
            url = "".join(chance.choices(pieces, k=chance.randrange(1, 7)))
            if chance.random() < 0.6:
                url = base + "/" + url
            target = "/status/explain?url=" + quote(url, safe="")
            if chance.random() < 0.3:
                host = "".join(chance.choices(pieces, k=2))
                target += "&host=" + quote(host, safe="")
            response = connection.request("GET", target)
            assert response.status in (200, 400), (url, response)
            if response.status == 200:
                parse(response)
            else:
                assert json.loads(response.body)["error"]
