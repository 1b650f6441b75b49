"""http_sendfile_activestorage blobs: signed ids, and what a store says of them."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable

import pytest

from lib.activestorage import (
    BLOB,
    KEY,
    PATH,
    VARIATION,
    blob_url,
    digest_of,
    disk_url,
    envelope,
    representation_url,
    seal,
    signed_id,
    variation_key,
)
from lib.async_store import use_test_store
from lib.backend import Reply, Request
from lib.cache import CACHE, STATUS, ZONE, purge
from lib.figures import requests, row, wait_for_total
from lib.signed import load_signed, write_keys
from lib.site import Site
from lib.sqlite import block, create, load_sqlite, run

PRIVATE = "max-age=0, private, must-revalidate"
PUBLIC = "max-age=3155695200, public"

LOCATION = """
    location /rails/active_storage/ {
        http_sendfile_activestorage %%DIR%%/keys blobs;
        http_sendfile_root %%FILES%%;
        %%MORE%%
    }
"""
APP = "proxy_pass http://%%APP%%;"
LEARN = f"http_sendfile_learn on; {CACHE} {APP}"


def location(more: str = "") -> str:
    """Return the location with more directives in it."""
    return LOCATION.replace("%%MORE%%", more)


@pytest.fixture
def blobs(site: Site) -> Site:
    """A site with the module, a key, and the blob 1 in its store."""
    load_signed(site)
    write_keys(site, KEY.hex())
    site.files.write_id(PATH, 1)
    site.store.put(
        "activestorage:1",
        {"path": PATH, "type": "image/png", "name": "a.png"},
    )
    return site


# what is served


@pytest.mark.parametrize("mode", ["redirect/", "", "proxy/"])
def test_serves(blobs: Site, mode: str) -> None:
    """The body is sent at once, with Rails' headers."""
    nginx = blobs.start(location())
    target = blob_url(signed_id(1), mode)
    answer = blobs.assert_file(nginx.get(target), 1)
    assert answer.header("Content-Type") == "image/png"
    assert answer.header("Content-Disposition") == 'inline; filename="a.png"'
    assert answer.all("Cache-Control") == [PUBLIC if mode == "proxy/" else PRIVATE]
    assert answer.all("X-Content-Type-Options") == ["nosniff"]
    entry = nginx.logged(target)
    assert (entry.status, entry.source) == ("HIT", "lmdb")
    assert (entry.key, entry.target) == ("activestorage:1", PATH)
    etag = answer.header("ETag")
    assert etag is not None
    assert nginx.get(target, {"If-None-Match": etag}).status == 304
    part = nginx.get(target, {"Range": "bytes=2-5"})
    assert (part.status, part.body) == (206, answer.body[2:6])
    assert nginx.request("HEAD", target).header("Content-Type") == "image/png"


def test_id_of_marshal(blobs: Site) -> None:
    """As Rails before 7.1 writes it."""
    nginx = blobs.start(location())
    message = base64.b64encode(b"\x04\bi\x06").decode()
    inner = {"message": message, "exp": None, "pur": "blob_id"}
    token = seal(json.dumps({"_rails": inner}).encode())
    blobs.assert_file(nginx.get(blob_url(token)), 1)


def test_uuid(blobs: Site) -> None:
    """The id of a database that has UUIDs."""
    uuid = "0b3b9a6e-6a0e-4b8e-9b1e-2f1c7a0d9a55"
    blobs.store.put(f"activestorage:{uuid}", PATH)
    nginx = blobs.start(location())
    blobs.assert_file(nginx.get(blob_url(signed_id(uuid))), 1)


def test_expiry_counts_at_each_request(blobs: Site) -> None:
    """Whatever the cache has of the blob."""
    nginx = blobs.start(location(CACHE), http=ZONE)
    for _ in range(3):
        blobs.assert_file(nginx.get(blob_url(signed_id(1, seconds=300))), 1)
        target = blob_url(signed_id(1, seconds=-1))
        assert nginx.get(target).status == 404
        assert nginx.logged(target).reason == "expired token"


@pytest.mark.parametrize(
    ("record", "query", "type", "disposition"),
    [
        ({"type": "image/png"}, "", "image/png", "inline"),
        ({"type": "image/png"}, "?disposition=attachment", "image/png", "attachment"),
        ({"type": "image/png"}, "?a=1&disposition=x", "image/png", "inline"),
        ({"type": "application/pdf"}, "", "application/pdf", "inline"),
        ({"type": "text/plain"}, "?disposition=inline", "text/plain", "attachment"),
        ({"type": "text/html"}, "", "application/octet-stream", "attachment"),
        ({"type": "image/svg+xml"}, "", "application/octet-stream", "attachment"),
        ({"type": "TEXT/HTML; x"}, "", "application/octet-stream", "attachment"),
        ({}, "", "application/octet-stream", "attachment"),
        # who has written the record has said how it is to be served
        (
            {"type": "image/svg+xml", "disposition": "inline"},
            "",
            "image/svg+xml",
            "inline",
        ),
        (
            {"type": "image/svg+xml", "disposition": "inline"},
            "?disposition=attachment",
            "image/svg+xml",
            "attachment",
        ),
        (
            {"type": "image/png", "disposition": "attachment"},
            "?disposition=inline",
            "image/png",
            "attachment",
        ),
        ({"disposition": "inline"}, "", "application/octet-stream", "inline"),
    ],
)
def test_type_and_disposition(
    blobs: Site, record: dict[str, str], query: str, type: str, disposition: str
) -> None:
    """Rails' lists count where the record does not say how to serve it."""
    blobs.store.put("activestorage:2", {"path": PATH, "name": "x.html", **record})
    nginx = blobs.start(location())
    answer = blobs.assert_file(nginx.get(blob_url(signed_id(2)) + query), 1)
    assert answer.header("Content-Type") == type
    assert answer.header("Content-Disposition") == f'{disposition}; filename="x.html"'


def test_name_and_headers_of_the_record(blobs: Site) -> None:
    """Its name is cleaned as Rails does, its headers take the place of ours."""
    blobs.store.put(
        "activestorage:2",
        {
            "path": PATH,
            "type": "image/png",
            "name": "a/b:c\u202e.png",
            "headers": {"Cache-Control": "max-age=7", "X-Robots-Tag": "noindex"},
        },
    )
    nginx = blobs.start(location())
    answer = blobs.assert_file(nginx.get(blob_url(signed_id(2))), 1)
    assert answer.header("Content-Disposition") == 'inline; filename="a-b-c-.png"'
    assert answer.all("Cache-Control") == ["max-age=7"]
    assert answer.header("X-Robots-Tag") == "noindex"
    assert answer.all("X-Content-Type-Options") == ["nosniff"]


@pytest.mark.parametrize("mode", ["redirect/", "", "proxy/"])
def test_representation(blobs: Site, mode: str) -> None:
    """It is known by the blob's id and what the variation key says."""
    key = variation_key()
    blobs.files.write_id("va/ri/variants/x", 7)
    blobs.store.put(
        f"activestorage:1:{digest_of(key)}",
        {"path": "va/ri/variants/x", "type": "image/png", "name": "a.png"},
    )
    nginx = blobs.start(location())
    blobs.assert_file(nginx.get(representation_url(signed_id(1), key, mode)), 7)
    # the signature is not of it, be it by another key
    write_keys(blobs, KEY.hex(), (b"k" * 64).hex())
    nginx = blobs.start(location())
    other = seal(envelope(VARIATION, "variation"), b"k" * 64)
    blobs.assert_file(nginx.get(representation_url(signed_id(1), other, mode)), 7)
    another = variation_key({"resize_to_limit": [100, 101]})
    target = representation_url(signed_id(1), another, mode)
    assert nginx.get(target).status == 404
    assert nginx.logged(target).status == "MISS"
    target = representation_url(signed_id(2), key, mode)
    assert nginx.get(target).status == 404


# what is not


def marshal_of_json() -> str:
    """A token of both formats."""
    return seal(b"\x04\x08" + envelope(1, "blob_id"))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda: signed_id(1, "blob_key"), "token of no file"),
        (lambda: signed_id(1, "blob_token"), "token of no file"),
        (lambda: signed_id(1, "variation"), "token of no file"),
        (lambda: signed_id(1, None), "token of no file"),
        (lambda: seal(b"1"), "token of no file"),
        (marshal_of_json, "token of no file"),
        (lambda: signed_id({"key": BLOB}), "token of no blob"),
        (lambda: signed_id(None), "token of no"),
        (lambda: signed_id([1]), "token of no"),
        (lambda: signed_id(1.5), ""),
        (lambda: signed_id(""), "token of no blob"),
        (lambda: signed_id("1:" + digest_of(variation_key())), "token of no blob"),
        (lambda: signed_id("1 "), "token of no blob"),
        (lambda: signed_id("1\0"), ""),
        (lambda: signed_id("é"), "token of no blob"),
        (lambda: signed_id("x" * 65), "token of no blob"),
        (lambda: signed_id("../1"), "not in store"),
        (lambda: signed_id(-1), "not in store"),
        (lambda: signed_id("01"), "not in store"),
        (lambda: signed_id(2**70), ""),
        (lambda: seal(envelope(1, "blob_id"), b"other"), "bad signature"),
        (lambda: signed_id(1)[:-1], "bad signature"),
        (lambda: signed_id(1) + signed_id(1), "bad signature"),
        (lambda: signed_id(1).replace("--", ""), "bad signature"),
        (lambda: "x" * 20000, "token too long"),
        (lambda: "x" * 60000, "token too long"),
    ],
)
def test_refused(blobs: Site, bad: Callable[[], str], reason: str) -> None:
    """Each of them is a 404, with a reason, as a blob and as a representation."""
    key = variation_key()
    blobs.store.put(f"activestorage:1:{digest_of(key)}", PATH)
    nginx = blobs.start(f"large_client_header_buffers 4 128k; {location()}")
    for target in (blob_url(bad()), representation_url(bad(), key)):
        assert nginx.get(target).status == 404
        found = nginx.logged(target).reason
        assert found != "-" and reason in found


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda: variation_key(purpose="blob_id"), "token of no file"),
        (lambda: variation_key(purpose=None), "token of no file"),
        (lambda: variation_key("x"), "token of no variation"),
        (lambda: variation_key(1), "token of no variation"),
        (lambda: variation_key([1]), "token of no variation"),
        (lambda: seal(envelope(VARIATION, "variation", -1)), "expired token"),
        (lambda: seal(envelope(VARIATION, "variation"), b"x"), "bad signature"),
        (lambda: "x", "bad signature"),
        (lambda: "x" * 20000, "token too long"),
    ],
)
def test_refused_variation(blobs: Site, bad: Callable[[], str], reason: str) -> None:
    """The id alone is not enough."""
    for value in (VARIATION, "x", 1, [1]):
        blobs.store.put(f"activestorage:1:{digest_of(variation_key(value))}", PATH)
    nginx = blobs.start(f"large_client_header_buffers 4 128k; {location()}")
    target = representation_url(signed_id(1), bad())
    assert nginx.get(target).status == 404
    assert nginx.logged(target).reason == reason


def test_only_if_said(blobs: Site) -> None:
    """Without "blobs" nothing but /disk/ is served."""
    nginx = blobs.start(location(APP).replace(" blobs;", ";"))
    target = blob_url(signed_id(1))
    assert nginx.get(target).text == f"app GET {target}\n"


def test_application_gets_the_rest(blobs: Site) -> None:
    """What there is no record of, no file, or no good token."""
    blobs.store.put("activestorage:2", "no/th/nothere")
    nginx = blobs.start(location(APP))
    blobs.assert_file(nginx.get(blob_url(signed_id(1))), 1)
    assert blobs.app.requests == []
    for target in (
        blob_url(signed_id(2)),
        blob_url(signed_id(3)),
        blob_url(signed_id(1, seconds=-1)),
        blob_url("x"),
        representation_url(signed_id(1), variation_key()),
        representation_url(signed_id(1), "x"),
    ):
        assert nginx.get(target).text == f"app GET {target}\n"
        assert nginx.logged(target).source == "app"
    target = "/rails/active_storage/blobs/redirect/x"
    assert nginx.get(target).text == f"app GET {target}\n"


def test_auth_request(blobs: Site) -> None:
    """Who is denied gets nothing, whatever the token."""
    nginx = blobs.start(
        location(f"auth_request /auth; {APP}")
        + 'location = /auth { if ($http_cookie = "") { return 401; } return 204; }'
    )
    target = blob_url(signed_id(1))
    assert nginx.get(target).status == 401
    assert nginx.get(representation_url(signed_id(1), variation_key())).status == 401
    blobs.assert_file(nginx.get(target, {"Cookie": "a=1"}), 1)


def test_beside_http_sendfile(blobs: Site) -> None:
    """In a location that serves IDs, too, a signed id is looked up once."""
    blobs.add(7)
    nginx = blobs.start(location("http_sendfile on;"))
    blobs.assert_file(nginx.get(blob_url(signed_id(1), name="7")), 1)
    blobs.assert_file(nginx.get("/rails/active_storage/7"), 7)
    assert nginx.get(blob_url(signed_id(3), name="7")).status == 404


@pytest.mark.parametrize("fallback", ["", "http_sendfile_fallback @app;"])
def test_store_that_takes_its_time(blobs: Site, fallback: str) -> None:
    """The request waits, and goes on where it was."""
    use_test_store(blobs)
    nginx = blobs.start(
        location(
            f"http_sendfile_lookup test:/delay=50,value={PATH}; " + (fallback or APP)
        )
        + location(
            "http_sendfile_lookup test:/delay=50,miss; " + (fallback or APP)
        ).replace("/rails/", "/miss/")
        + "location @app { proxy_pass http://%%APP%%; }"
    )
    blobs.assert_file(nginx.get(blob_url(signed_id(1))), 1)
    target = blob_url(signed_id(1)).replace("/rails/", "/miss/")
    assert nginx.get(target).text == f"app GET {target}\n"


def test_counted(blobs: Site) -> None:
    """With their location, by where the record came from."""
    nginx = blobs.start(location(CACHE) + STATUS, http=ZONE)
    for _ in range(2):
        assert nginx.get(blob_url(signed_id(1))).status == 200
    assert nginx.get(blob_url("x")).status == 404
    one = row(wait_for_total(nginx, 3)["locations"], location="/rails/active_storage/")
    assert requests(one) == {
        ("hit", "store"): 1,
        ("hit", "cache"): 1,
        ("invalid", "signed"): 1,
    }


# what changes


def test_purge(blobs: Site) -> None:
    """That of a blob's key reaches the blob and its representations."""
    key = variation_key()
    blobs.files.write_id("aa/2.dat", 2)
    blobs.files.write_id("aa/3.dat", 3)
    variant = f"activestorage:1:{digest_of(key)}"
    blobs.store.put(variant, PATH)
    nginx = blobs.start(
        location(f"{CACHE} http_sendfile_cache_valid 1h;") + STATUS, http=ZONE
    )
    urls = [blob_url(signed_id(1)), representation_url(signed_id(1), key)]
    for url in urls:
        blobs.assert_file(nginx.get(url), 1)
    blobs.store.put("activestorage:1", "aa/2.dat")
    blobs.store.put(variant, "aa/3.dat")
    for url in urls:
        blobs.assert_file(nginx.get(url), 1)
    purge(nginx, "activestorage:1")
    for number, url in zip((2, 3), urls, strict=True):
        blobs.assert_file(nginx.get(url), number)
    blobs.store.delete("activestorage:1")
    purge(nginx, "activestorage:1")
    assert nginx.get(urls[0]).status == 404


def test_file_that_is_gone(blobs: Site) -> None:
    """The application is asked, and the store at once."""
    nginx = blobs.start(
        location(f"{CACHE} http_sendfile_cache_valid 1h; {APP}"), http=ZONE
    )
    target = blob_url(signed_id(1))
    blobs.assert_file(nginx.get(target), 1)
    (blobs.files.root / PATH).rename(blobs.files.root / "moved")
    assert nginx.get(target).text == f"app GET {target}\n"
    blobs.store.put("activestorage:1", "moved")
    blobs.assert_file(nginx.get(target), 1)


# the application's own database


def database(site: Site) -> str:
    """Make one with two blobs of Rails, and return its store block."""
    path = create(site, name="rails.sqlite3")
    run(
        path,
        "CREATE TABLE active_storage_blobs (id INTEGER PRIMARY KEY, key VARCHAR,"
        " filename VARCHAR, content_type VARCHAR, service_name VARCHAR)",
        f"INSERT INTO active_storage_blobs VALUES (1, '{BLOB}', 'é.png', 'image/png',"
        " 'local'), (2, 'html0000', 'a.html', 'text/html', 'local'),"
        " (3, 'nothere0', 'a.png', 'image/png', 's3'),"
        " (4, '12345', 'a.png', 'image/png', 'local')",
    )
    return block(path, "activestorage")


def test_sqlite(blobs: Site) -> None:
    """The same location, with a block for its store."""
    load_sqlite(blobs)
    blobs.files.write_id("ht/ml/html0000", 2)
    blobs.files.write_id("12/34/12345", 4)
    nginx = blobs.start(
        location(f"http_sendfile_lookup blobs; {APP}"), http=database(blobs)
    )
    answer = blobs.assert_file(nginx.get(blob_url(signed_id(1))), 1)
    assert answer.header("Content-Type") == "image/png"
    assert answer.header("Content-Disposition") == (
        "inline; filename=\"_.png\"; filename*=UTF-8''%C3%A9.png"
    )
    answer = nginx.get(blob_url(signed_id(1)) + "?disposition=attachment")
    assert str(answer.header("Content-Disposition")).startswith("attachment; ")
    answer = blobs.assert_file(nginx.get(blob_url(signed_id(2))), 2)
    assert answer.header("Content-Type") == "application/octet-stream"
    assert answer.header("Content-Disposition") == 'attachment; filename="a.html"'
    assert blobs.app.requests == []
    # of another service; not there; a key that looks like an id; no id
    for blob in (3, 9, 12345, "01", "1e0", BLOB):
        target = blob_url(signed_id(blob))
        assert nginx.get(target).text == f"app GET {target}\n"


# {format: "png", resize_to_limit: [100, 100]}, as Rails 6.1 dumps it
DUMPED = b'\x04\b{\a:\vformatI"\bpng\x06:\x06ET:\x14resize_to_limit[\aiiii'
DUMPED_DIGEST = "uyx6Kcit1Aa78Mrn7bVgZ7OZn0Y="


def dumped_key(dumped: bytes = DUMPED) -> str:
    """Return a variation key of Rails before 7.1."""
    message = base64.b64encode(dumped).decode()
    inner = {"message": message, "exp": None, "pur": "variation"}
    return seal(json.dumps({"_rails": inner}).encode())


def test_sqlite_variants(blobs: Site) -> None:
    """A tracked variant, by Rails' own digest of its Marshal; never another one."""
    load_sqlite(blobs)
    store = database(blobs)
    path = blobs.directory / "rails.sqlite3"
    run(
        path,
        "CREATE TABLE active_storage_variant_records"
        " (id INTEGER PRIMARY KEY, blob_id BIGINT, variation_digest VARCHAR)",
        "CREATE TABLE active_storage_attachments (id INTEGER PRIMARY KEY,"
        " name VARCHAR, record_type VARCHAR, record_id BIGINT, blob_id BIGINT)",
        "INSERT INTO active_storage_blobs VALUES (7, 'variant0', 'a.png',"
        " 'image/png', 'local')",
        f"INSERT INTO active_storage_variant_records VALUES (3, 1, '{DUMPED_DIGEST}')",
        "INSERT INTO active_storage_attachments VALUES"
        " (1, 'image', 'ActiveStorage::VariantRecord', 3, 7)",
    )
    blobs.files.write_id("va/ri/variant0", 7)
    more = f"http_sendfile_lookup blobs; {CACHE} {APP} http_sendfile_cache_valid 1h;"
    nginx = blobs.start(location(more) + STATUS, http=ZONE + store)
    target = representation_url(signed_id(1), dumped_key())
    for number, source in enumerate(("sqlite", "cache"), 1):
        answer = blobs.assert_file(nginx.get(target), 7)
        assert answer.header("Content-Type") == "image/png"
        entry = nginx.logged(target, number)
        assert (entry.key, entry.source) == (f"1/{DUMPED_DIGEST}", source)
    for blob, key in (
        (1, dumped_key(DUMPED.replace(b"png", b"jpg"))),
        (1, dumped_key(b"\x04\b{\x06:\x14resize_to_limit[\aiiii")),
        (2, dumped_key()),
        (f"1/{DUMPED_DIGEST}", dumped_key()),
        # the same in JSON
        (1, variation_key({"format": "png", "resize_to_limit": [100, 100]})),
    ):
        other = representation_url(signed_id(blob), key)
        assert nginx.get(other).text == f"app GET {other}\n"
        assert nginx.logged(other).reason == "not in store"
    # the purge of a blob is one of its variants
    run(path, "DELETE FROM active_storage_variant_records")
    blobs.assert_file(nginx.get(target), 7)
    purge(nginx, "activestorage:1")
    assert nginx.get(target).text == f"app GET {target}\n"


# what the application's redirect says


def disk(key: str = BLOB, host: str = "http://localhost", **more: object) -> str:
    """Return where Rails leads to."""
    return host + disk_url(key, 300, **more)


def leads(to: str, status: int = 302, **headers: str) -> Callable[[Request], Reply]:
    """Return an application that redirects."""
    lines = [
        ("Location", to),
        *(
            (name.replace("_", "-"), value)
            for name, value in {
                "Cache_Control": "max-age=300, private",
                **headers,
            }.items()
        ),
    ]
    return lambda request: Reply(status, lines)


def test_learns(blobs: Site) -> None:
    """The second request does not reach the application, whatever its URL."""
    blobs.app.script = leads(disk())
    nginx = blobs.start(
        f"http_sendfile_lookup lmdb:%%DIR%%/none.lmdb; {location(LEARN)}", http=ZONE
    )
    target = blob_url(signed_id(5))
    answer = nginx.get(target)
    assert (answer.status, answer.header("Location")) == (302, disk_of(answer))
    assert len(blobs.app.requests) == 1
    for url, disposition, cache in (
        (target, "inline", PRIVATE),
        (blob_url(signed_id(5), "", "b.png"), "inline", PRIVATE),
        (blob_url(signed_id(5, seconds=60), "proxy/"), "inline", PUBLIC),
        (target + "?disposition=attachment", "attachment", PRIVATE),
    ):
        answer = blobs.assert_file(nginx.get(url), 1)
        assert answer.header("Content-Type") == "image/png"
        assert answer.header("Content-Disposition") == (
            f"{disposition}; filename=\"a.png\"; filename*=UTF-8''a.png"
        )
        assert answer.header("Cache-Control") == cache
        assert nginx.logged(url).source == "learned"
    assert len(blobs.app.requests) == 1
    assert nginx.get(blob_url(signed_id(6))).status == 302
    assert nginx.get(blob_url(signed_id(5, seconds=-1))).status == 302
    assert len(blobs.app.requests) == 3


def disk_of(answer: object) -> object:
    """The Location of an answer, which is as the application has written it."""
    return answer.header("Location")  # type: ignore[attr-defined]


def test_learns_without_a_store(blobs: Site) -> None:
    """There need not be any; a representation is learned by itself."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = leads(disk(host=""))
    nginx = blobs.start(location(LEARN) + STATUS, http=ZONE)
    urls = [
        blob_url(signed_id(5)),
        representation_url(signed_id(5), variation_key()),
        representation_url(signed_id(5), variation_key({"rotate": 1})),
    ]
    for number, url in enumerate(urls, 1):
        assert nginx.get(url).status == 302
        for _ in range(2):
            blobs.assert_file(nginx.get(url), 1)
        assert len(blobs.app.requests) == number
    # of the blob's key, which reaches all of it
    purge(nginx, "activestorage:5")
    for url in urls:
        assert nginx.get(url).status == 302
    assert len(blobs.app.requests) == 6


@pytest.mark.parametrize(
    ("script", "request_headers", "query"),
    [
        (leads("https://bucket.s3.example/key?X-Amz-Signature=1"), {}, ""),
        (leads("/rails/active_storage/disk/x--y/a.png"), {}, ""),
        (leads(disk(host="http://disk").replace("/disk/", "/disc/")), {}, ""),
        (leads(disk(), 301), {}, ""),
        (leads(disk(), 200), {}, ""),
        (leads(disk(), 404), {}, ""),
        (leads(disk(), Cache_Control="no-store"), {}, ""),
        (leads(disk(), Set_Cookie="session=1"), {}, ""),
        (leads(disk(key="../../etc/passwd")), {}, ""),
        (leads(disk(service_name="s3")), {}, ""),
        (
            leads(
                "/rails/active_storage/disk/"
                f"{seal(envelope({'key': BLOB}, 'blob_key', -1))}/a"
            ),
            {},
            "",
        ),
        (leads(f"/rails/active_storage/disk/{signed_id(1)}/a"), {}, ""),
        (leads(disk()), {"Authorization": "Basic eDp5"}, ""),
        (leads(disk()), {}, "?disposition=attachment"),
    ],
)
def test_not_learned(
    blobs: Site,
    script: Callable[[Request], Reply],
    request_headers: dict[str, str],
    query: str,
) -> None:
    """Another service's, a bad token, an answer for one client: passed on."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = script
    nginx = blobs.start(
        location(LEARN),
        http=f"{ZONE} http_sendfile_activestorage_service local root %%FILES%%;",
    )
    target = blob_url(signed_id(5)) + query
    for number in (1, 2):
        answer = nginx.get(target, request_headers)
        assert answer.status == script(blobs.app.requests[-1]).status
        assert answer.body == b""
        assert len(blobs.app.requests) == number


def test_learned_of_a_service(blobs: Site) -> None:
    """Its root is that of the service, as the configuration has it now."""
    blobs.variables["LOOKUP"] = ""
    blobs.files.write_id(f"second/{PATH}", 2)
    blobs.app.script = leads(disk(service_name="archive"))
    nginx = blobs.start(
        location(LEARN),
        http=f"{ZONE} http_sendfile_activestorage_service archive"
        " root %%FILES%%/second;",
    )
    assert nginx.get(blob_url(signed_id(5))).status == 302
    blobs.assert_file(nginx.get(blob_url(signed_id(5))), 2)


def test_learned_by_its_host(blobs: Site) -> None:
    """The blob 5 of one host is none of another's."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = leads(disk())
    nginx = blobs.start(location(LEARN), http=ZONE)
    target = blob_url(signed_id(5))
    assert nginx.get(target, {"Host": "a.example"}).status == 302
    assert nginx.get(target, {"Host": "b.example"}).status == 302
    blobs.assert_file(nginx.get(target, {"Host": "a.example"}), 1)


def test_learned_file_that_is_gone(blobs: Site) -> None:
    """The application is asked, and learned from anew."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = leads(disk())
    nginx = blobs.start(location(LEARN), http=ZONE)
    target = blob_url(signed_id(5))
    assert nginx.get(target).status == 302
    blobs.assert_file(nginx.get(target), 1)
    blobs.files.write_id("ne/w0/new00000", 2)
    (blobs.files.root / PATH).unlink()
    blobs.app.script = leads(disk("new00000"))
    assert nginx.get(target).status == 302
    blobs.assert_file(nginx.get(target), 2)


def test_learned_by_a_named_fallback(blobs: Site) -> None:
    """The keys are those of the location where it was asked for."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = leads(disk())
    nginx = blobs.start(
        location(f"http_sendfile_learn on; {CACHE} http_sendfile_fallback @app;")
        + "location @app { proxy_pass http://%%APP%%; }",
        http=ZONE,
    )
    target = blob_url(signed_id(5))
    assert nginx.get(target).status == 302
    blobs.assert_file(nginx.get(target), 1)


def test_learned_for_a_time(blobs: Site) -> None:
    """http_sendfile_cache_valid says for how long; 0 keeps nothing."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = leads(disk())
    nginx = blobs.start(location(f"{LEARN} http_sendfile_cache_valid 0;"), http=ZONE)
    for _ in range(3):
        assert nginx.get(blob_url(signed_id(5))).status == 302
    nginx = blobs.start(
        location(f"{LEARN} http_sendfile_cache_valid 100ms;"), http=ZONE
    )
    target = blob_url(signed_id(5))
    seen = [nginx.get(target).status for _ in range(2)]
    while seen[-1] == 200 or 200 not in seen:
        seen.append(nginx.get(target).status)
    assert set(seen) == {200, 302}


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
        purpose = rng.choice([b"blob_key", b"blob_token", b"variatio", b""])
        return seal(re.sub(rb'"pur":"[a-z_]*"', b'"pur":"%s"' % purpose, other))
    if choice == 6:
        return seal(other.replace(b'"_rails":', b'"rails":'))
    if choice == 7:
        extra = rng.choice([b'"pur":"x",', b'"message":"BAhpBg==",', b'"exp":1,'])
        return seal(other.replace(b'{"_rails":{', b'{"_rails":{' + extra))
    if choice == 8:
        spot = rng.randrange(len(other))
        flipped = bytes([other[spot] ^ (1 << rng.randrange(8))])
        changed = other[:spot] + flipped + other[spot + 1 :]
        return f"{base64.b64encode(changed).decode()}--{code}"
    if choice == 9:
        return seal(b"\x04\x08" + other)
    if choice == 10:
        return "x" * rng.choice([16384, 16385, 30000, 65000])
    return (
        good[:place]
        + rng.choice(["%2F", "%00", "%2e%2e%2f", "/", "%", ";"])
        + good[place:]
    )


def test_tampered_tokens(blobs: Site) -> None:
    """Signed ids and variation keys: never a file, never a 5xx, no key in a log."""
    blobs.variables["LOG_LEVEL"] = "debug"
    key = variation_key()
    blobs.store.put(f"activestorage:1:{digest_of(key)}", PATH)
    nginx = blobs.start(
        "keepalive_requests 100000; large_client_header_buffers 4 128k;" + location()
    )
    rng = random.Random(seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    good = signed_id(1)
    connection = nginx.connect()
    for n in range(4000):
        bad = mutate(rng, key if n % 2 else good)
        if bad.rstrip("/") in (good, key):
            continue
        target = representation_url(good, bad) if n % 2 else blob_url(bad)
        if n % 4 == 2:
            target = representation_url(bad, key)
        answer = connection.request("GET", target)
        assert answer.status in (400, 404), (bad, target)
        if answer.status == 400:
            connection.close()
            connection = nginx.connect()
    blobs.assert_file(connection.request("GET", blob_url(good)), 1)
    connection.close()
    log = (blobs.directory / "logs" / "error.log").read_bytes()
    assert KEY[:16] not in log
    assert KEY.hex()[:32].encode() not in log


# nginx -t


@pytest.mark.parametrize(
    ("lookup", "more", "words"),
    [
        ("", "", 'with "blobs" needs to know which file a blob is'),
        ("", "http_sendfile_learn on;", "no cache to learn into"),
    ],
)
def test_mistake(blobs: Site, lookup: str, more: str, words: str) -> None:
    """Each says what to write instead."""
    blobs.variables["LOOKUP"] = lookup
    check = blobs.check_config(location(more))
    assert not check.ok
    assert words in check.output and "write " in check.output


def test_good_configurations(blobs: Site) -> None:
    """With any of the sources, and inherited, nothing is said."""
    for lookup, more in (
        ("http_sendfile_lookup lmdb:%%STORE%%;", ""),
        ("", "http_sendfile_lookup lmdb:%%STORE%%;"),
        ("", f"http_sendfile_learn on; {CACHE}"),
        ("", "digest=sha1"),
    ):
        blobs.variables["LOOKUP"] = lookup
        text = location(more)
        if more == "digest=sha1":
            text = location("http_sendfile_lookup lmdb:%%STORE%%;")
            text = text.replace(" blobs;", " digest=sha1 blobs;")
        blobs.check_config(text, http=ZONE).assert_silent()
    blobs.variables["LOOKUP"] = ""
    blobs.check_config(
        "http_sendfile_activestorage %%DIR%%/keys blobs; location /a/ {"
        " http_sendfile_root %%FILES%%; http_sendfile_lookup lmdb:%%STORE%%; }"
    ).assert_silent()
