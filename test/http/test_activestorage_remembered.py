"""Tokens of Active Storage that a worker has found good once, and remembers."""

from __future__ import annotations

import random

import pytest

from lib.activestorage import (
    KEY,
    blob_url,
    digest_of,
    envelope,
    representation_url,
    seal,
    signed_id,
    variation_key,
)
from lib.cache import STATUS, ZONE, purge
from lib.client import Response
from lib.nginx import Nginx
from lib.signed import load_signed, write_keys
from lib.site import Site
from lib.wait import wait_until

LOCATION = """
    location /rails/active_storage/ {
        http_sendfile_activestorage %%DIR%%/keys blobs;
        http_sendfile_root %%FILES%%;
    }
"""
BLOB = "iaz0tj96y7moxhu8yzn3g8diz1lz"
PATH = f"ia/z0/{BLOB}"

# as many as a worker remembers, and more
MANY = 12_000


@pytest.fixture
def blobs(site: Site) -> Site:
    """A site whose one blob is there by /disk/ and by its signed id."""
    load_signed(site)
    write_keys(site, KEY.hex())
    site.files.write_id(PATH, 1)
    site.store.put("activestorage:1", {"path": PATH, "type": "image/png"})
    return site


def disk_token(seconds: float | None = None, size: int = 0) -> str:
    """Make a token of the blob's file, with a name of a length."""
    disposition = f'inline; filename="{"a" * size}"'
    data = {"key": BLOB, "disposition": disposition, "content_type": "text/plain"}
    return seal(envelope(data, "blob_key", seconds))


def disk_url(token: str) -> str:
    """Return the URL of a file."""
    return f"/rails/active_storage/disk/{token}/a.txt"


def twice(nginx: Nginx, target: str) -> Response:
    """Ask two times, and return what came both times."""
    one, other = nginx.get(target), nginx.get(target)
    assert (one.status, one.body) == (other.status, other.body)
    names = [name for name, _ in one.headers]
    assert names == [name for name, _ in other.headers]
    return other


def ended(nginx: Nginx, target: str) -> None:
    """Ask until the token's time is over."""
    wait_until(lambda: nginx.get(target).status == 404, what="its end")
    wait_until(
        lambda: nginx.logged(target).reason == "expired token", what="its reason"
    )


@pytest.mark.parametrize("size", [0, 100, 700, 800, 2000])
def test_the_second_answer_is_as_the_first(blobs: Site, size: int) -> None:
    """Of short tokens and of those too long to be remembered."""
    nginx = blobs.start(LOCATION)
    answer = blobs.assert_file(twice(nginx, disk_url(disk_token(size=size))), 1)
    said = answer.header("Content-Disposition")
    assert said == f'inline; filename="{"a" * size}"'


def test_expiry_counts_at_each_request(blobs: Site) -> None:
    """It was good a moment ago."""
    nginx = blobs.start(LOCATION)
    for kind in ("disk", "blob"):
        target = (
            disk_url(disk_token(2))
            if kind == "disk"
            else blob_url(signed_id(1, seconds=2))
        )
        blobs.assert_file(twice(nginx, target), 1)
        ended(nginx, target)


def test_purpose_counts_at_each_request(blobs: Site) -> None:
    """A token that is remembered is none for something else."""
    nginx = blobs.start(LOCATION)
    disk, blob, variation = disk_token(), signed_id(1), variation_key()
    blobs.assert_file(twice(nginx, disk_url(disk)), 1)
    blobs.assert_file(twice(nginx, blob_url(blob)), 1)
    # nothing has this variation, but it is known now
    assert twice(nginx, representation_url(blob, variation)).status == 404
    for target in (
        *(disk_url(blob), disk_url(variation)),
        *(blob_url(disk), blob_url(variation)),
        *(representation_url(disk, variation), representation_url(blob, disk)),
        *(representation_url(blob, blob), representation_url(variation, variation)),
    ):
        assert twice(nginx, target).status == 404
        assert nginx.logged(target).reason == "token of no file"


def test_each_changed_byte(blobs: Site) -> None:
    """What differs in one character from a token that is remembered is bad."""
    nginx = blobs.start(LOCATION)
    good = signed_id(1)
    blobs.assert_file(twice(nginx, blob_url(good)), 1)
    with nginx.connect() as connection:
        for i, char in enumerate(good):
            other = "0" if char != "0" else "1"
            bad = good[:i] + other + good[i + 1 :]
            assert connection.request("GET", blob_url(bad)).status == 404
        for bad in (good[:-1], good[1:], f"{good}0", good[:-40] + good[-40:].upper()):
            assert connection.request("GET", blob_url(bad)).status == 404
    blobs.assert_file(nginx.get(blob_url(good)), 1)


def test_percent_encoded(blobs: Site) -> None:
    """Two ways to write one token are remembered as two."""
    nginx = blobs.start(LOCATION)
    good = signed_id(1)
    for target in (good, good.replace("-", "%2D"), f"{good[:-1]}%{ord(good[-1]):02x}"):
        blobs.assert_file(twice(nginx, blob_url(target)), 1)


def test_more_than_are_remembered(blobs: Site) -> None:
    """Older ones make way, and each is served, in whatever order they come."""
    rng = random.Random(1)
    for i in range(7):
        blobs.files.write_id(f"{i}", i)
        blobs.store.put(f"activestorage:{i}", f"{i}")
    targets = [blob_url(signed_id(i % 7, seconds=900 + i)) for i in range(MANY)]
    nginx = blobs.start(LOCATION)
    order = [*range(MANY), *(rng.randrange(MANY) for _ in range(4000))]
    for start in range(0, len(order), 500):
        with nginx.connect() as connection:
            for i in order[start : start + 500]:
                blobs.assert_file(connection.request("GET", targets[i]), i % 7)


def test_keys_of_a_reload(blobs: Site) -> None:
    """What an old key has signed is bad from the reload on, what a new one has, good."""
    nginx = blobs.start(LOCATION)
    old = signed_id(1)
    blobs.assert_file(twice(nginx, blob_url(old)), 1)
    another = bytes(range(1, 65))
    new = seal(envelope(1, "blob_id"), another)
    assert twice(nginx, blob_url(new)).status == 404

    write_keys(blobs, another.hex(), KEY.hex())
    nginx.reload()
    for token in (old, new):
        blobs.assert_file(twice(nginx, blob_url(token)), 1)

    write_keys(blobs, another.hex())
    nginx.reload()
    blobs.assert_file(twice(nginx, blob_url(new)), 1)
    assert twice(nginx, blob_url(old)).status == 404
    assert nginx.logged(blob_url(old)).reason == "bad signature"


def test_keys_of_another_location(blobs: Site) -> None:
    """What one location's keys have found good, another's have not."""
    (blobs.directory / "other").write_text(bytes(range(1, 65)).hex())
    other = LOCATION.replace("/keys", "/other").replace(" /rails/", " /other/rails/")
    nginx = blobs.start(LOCATION + other)
    target = blob_url(signed_id(1))
    blobs.assert_file(twice(nginx, target), 1)
    assert twice(nginx, f"/other{target}").status == 404
    assert nginx.logged(f"/other{target}").reason == "bad signature"


def test_variations_of_one_blob(blobs: Site) -> None:
    """Each is found by what its own key says, again and again."""
    blob = signed_id(1)
    nginx = blobs.start(LOCATION)
    wanted = {}
    for i in range(2, 6):
        key = variation_key({"resize_to_limit": [i, i]})
        blobs.files.write_id(f"{i}", i)
        blobs.store.put(f"activestorage:1:{digest_of(key)}", f"{i}")
        wanted[i] = representation_url(blob, key)
    for _ in range(2):
        for i, target in wanted.items():
            blobs.assert_file(twice(nginx, target), i)


TENANTS = """
    location ~ ^/(?<tenant>[ab])/rails/active_storage/ {
        http_sendfile_activestorage %%DIR%%/keys blobs;
        http_sendfile_lookup lmdb:%%DIR%%/ids.lmdb;
        http_sendfile_root %%FILES%%/$tenant;
        http_sendfile_cache main;
        http_sendfile_cache_valid 1h;
        http_sendfile_cache_body 64k;
        http_sendfile_cache_check 1h;
    }
"""


def test_tenants_of_one_key(blobs: Site) -> None:
    """The token of one is that of the other, the file is not; purged, and reloaded."""

    def look(a: int, b: int) -> None:
        for _ in range(2):
            for tenant, file_id in (("a", a), ("b", b)):
                for target in (disk_url(disk_token()), blob_url(signed_id(1))):
                    blobs.assert_file(nginx.get(f"/{tenant}{target}"), file_id)

    for file_id, tenant in ((11, "a"), (12, "b")):
        blobs.files.write_id(f"{tenant}/{PATH}", file_id)
    nginx = blobs.start(TENANTS + STATUS, http=ZONE)
    look(11, 12)
    for file_id, tenant in ((21, "a"), (22, "b")):
        blobs.files.write_id(f"{tenant}/{PATH}", file_id)
    purge(nginx, BLOB)
    purge(nginx, "activestorage:1")
    look(21, 22)
    nginx.reload()
    look(21, 22)
