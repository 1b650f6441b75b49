"""Explain in a location with http_sendfile_activestorage: each token, each step."""

from __future__ import annotations

import json

import pytest

from lib.activestorage import (
    BLOB,
    KEY,
    PATH,
    blob_url,
    digest_of,
    disk_url,
    representation_url,
    signed_id,
    variation_key,
)
from lib.async_store import use_test_store
from lib.backend import Reply
from lib.cache import CACHE, ZONE
from lib.explain import STATUS, Explained, explain, same
from lib.signed import load_signed, write_keys
from lib.site import Site

APP = "proxy_pass http://%%APP%%;"
LEARN = f"http_sendfile_learn on; {CACHE} {APP}"


def location(more: str = "", blobs: str = "blobs") -> str:
    """Return the location and the status location."""
    return f"""
        large_client_header_buffers 4 128k;
        location /rails/active_storage/ {{
            http_sendfile_activestorage %%DIR%%/keys {blobs};
            http_sendfile_root %%FILES%%;
            {more}
        }}
        {STATUS}
    """


@pytest.fixture
def blobs(site: Site) -> Site:
    """A site with the module, a key, and the blob 1 in its store."""
    load_signed(site)
    write_keys(site, KEY.hex())
    site.files.write_id(PATH, 1)
    for key in ("1", f"1:{digest_of(variation_key())}"):
        site.store.put(
            f"activestorage:{key}", {"path": PATH, "type": "image/png", "name": "a.png"}
        )
    return site


def steps(explained: Explained, name: str) -> list[str]:
    """The state of each step of that name."""
    return [str(step["state"]) for step in explained.steps if step["step"] == name]


def test_file(blobs: Site) -> None:
    """The token, the file and the headers, and that no store is asked."""
    nginx = blobs.start(location())
    explained = same(nginx, disk_url())
    assert (explained.outcome, explained.status) == ("sent", 200)
    said = explained.step("token")["text"]
    assert f'a blob_key, "{BLOB}", service "local", that ends ' in said
    assert said.endswith(" GMT: good")
    assert explained.step("file")["path"] == str(blobs.files.root / PATH)
    headers = explained.headers()
    assert headers["Content-Disposition"].startswith('inline; filename="a.png"')
    assert headers["Cache-Control"] == "max-age=0, private, must-revalidate"
    assert explained.advice == "" and not explained.has("store")


@pytest.mark.parametrize(
    ("target", "reason", "advice"),
    [
        (disk_url(seconds=-7200), "expired token", "a new link"),
        (blob_url("x--y"), "bad signature", "activestorage-key"),
        (blob_url("x" * 17000), "token too long", "application's own"),
        (disk_url(key="../../../etc/passwd"), "", "what writes the store"),
        (disk_url(service_name="s3"), "unknown service", "activestorage_service"),
        (disk_url(disposition="a\nb"), "invalid token", "application's own"),
        (blob_url(signed_id(1, seconds=-1)), "expired token", "a new link"),
        (blob_url(signed_id(1, "blob_key")), "token of no file", "another purpose"),
        (blob_url(signed_id("a:b")), "token of no blob", "application's own"),
        (representation_url(signed_id(1), "x"), "bad signature", "compare"),
        (
            representation_url(signed_id(1), variation_key([1])),
            "token of no variation",
            "application's own",
        ),
    ],
)
def test_bad_token(blobs: Site, target: str, reason: str, advice: str) -> None:
    """The reason is the one that is logged; what to do is another for each."""
    nginx = blobs.start(
        location(), http="http_sendfile_activestorage_service local root %%FILES%%;"
    )
    explained = same(nginx, target)
    assert (explained.outcome, explained.status) == ("failed", 404)
    assert explained.document["step"] == "token"
    assert reason in explained.document["reason"]
    assert advice in explained.advice
    if reason != "invalid token":
        assert steps(explained, "token")[-1] == "failed"
    told = json.dumps(explained.document)
    assert KEY.hex() not in told


def test_without_root(blobs: Site) -> None:
    """What a server hands down may lack its root in a location."""
    nginx = blobs.start(
        "http_sendfile_activestorage %%DIR%%/keys blobs;"
        "location /rails/active_storage/ { }" + STATUS
    )
    for target in (disk_url(), blob_url(signed_id(1))):
        explained = same(nginx, target)
        assert (explained.status, explained.document["step"]) == (500, "root")


@pytest.mark.parametrize(
    "target",
    [
        blob_url(signed_id(1), "proxy/") + "?disposition=attachment",
        representation_url(signed_id(1), variation_key(), "proxy/")
        + "?disposition=attachment",
    ],
)
def test_record(blobs: Site, target: str) -> None:
    """The signed id, what the store or the cache says, the file, the headers."""
    nginx = blobs.start(location(CACHE), http=ZONE)
    for source in ("lmdb", "cache"):
        explained = same(nginx, target)
        assert (explained.outcome, explained.document["source"]) == ("sent", source)
        assert 'a blob_id, "1"' in explained.step("token")["text"]
        assert set(steps(explained, "token")) == {"ok"}
        assert explained.step("record")["path"] == PATH
        headers = explained.headers()
        assert headers["Cache-Control"] == "max-age=3155695200, public"
        assert headers["Content-Disposition"] == 'attachment; filename="a.png"'
    (blobs.files.root / PATH).unlink()
    explained = same(nginx, target)
    assert (explained.status, explained.document["step"]) == (404, "file")


@pytest.mark.parametrize("what", [f"value={PATH}", "miss", "error", "never"])
def test_store_that_takes_its_time(blobs: Site, what: str) -> None:
    """The answer waits for it."""
    use_test_store(blobs)
    nginx = blobs.start(
        location(
            f"http_sendfile_lookup test:/delay=20,{what}; http_sendfile_timeout 300ms;"
        )
    )
    explained = same(nginx, blob_url(signed_id(1)))
    assert explained.has("store") and steps(explained, "token") == ["ok"]
    assert explained.outcome == ("sent" if "value" in what else "failed")


def test_learned(blobs: Site) -> None:
    """First to the application, then from what was learned; nothing is kept."""
    blobs.variables["LOOKUP"] = ""
    blobs.app.script = lambda request: Reply(302, [("Location", disk_url())])
    nginx = blobs.start(location(LEARN), http=ZONE)
    target = blob_url(signed_id(5))
    for _ in range(2):
        explained = explain(nginx, target)
        assert (explained.outcome, explained.status) == ("application", None)
        assert explained.step("learned")["entry"] == "none"
    assert blobs.app.requests == []
    assert nginx.get(target).status == 302
    explained = same(nginx, target, "localhost")
    assert (explained.outcome, explained.document["source"]) == ("sent", "learned")
    assert explained.step("learned")["entry"] == "fresh"
    # explain forgets nothing: once there is a file it is found again
    (blobs.files.root / PATH).rename(blobs.files.root / "moved")
    assert explain(nginx, target).outcome == "application"
    (blobs.files.root / "moved").rename(blobs.files.root / PATH)
    assert explain(nginx, target).outcome == "sent"
    assert len(blobs.app.requests) == 1


def test_learned_beside_a_record(blobs: Site) -> None:
    """The file of the record, cached and not, is not there; the redirect's is."""
    blobs.store.put("activestorage:1", "no/th/nothere")
    blobs.app.script = lambda request: Reply(302, [("Location", disk_url())])
    nginx = blobs.start(location(LEARN), http=ZONE)
    assert nginx.get(blob_url(signed_id(1))).status == 302
    explained = explain(nginx, blob_url(signed_id(1)))
    assert explained.outcome == "sent"
    assert steps(explained, "file") == ["failed", "failed", "ok"]


def test_nothing_learned(blobs: Site) -> None:
    """Without an application what was not learned is a 404."""
    blobs.variables["LOOKUP"] = ""
    nginx = blobs.start(location(f"http_sendfile_learn on; {CACHE}"), http=ZONE)
    explained = same(nginx, blob_url(signed_id(5)))
    assert (explained.status, explained.document["step"]) == (404, "learned")


@pytest.mark.parametrize(
    ("target", "text", "advice"),
    [
        (blob_url(signed_id(1)), "for /disk/ alone", 'write "blobs"'),
        ("/rails/active_storage/disk/x", "has no token", ""),
    ],
)
def test_not_for_this_url(blobs: Site, target: str, text: str, advice: str) -> None:
    """Which URLs are, and what to write."""
    nginx = blobs.start(location(APP, blobs=""))
    explained = same(nginx, target)
    assert explained.outcome == "not_ours"
    assert text in explained.step("activestorage")["text"]
    assert advice in explained.advice
    assert same(nginx, disk_url(seconds=-1)).outcome == "application"


def test_beside_a_content_handler(blobs: Site) -> None:
    """What stands above does not reach where another handler is."""
    nginx = blobs.start(
        f"http_sendfile_activestorage %%DIR%%/keys; location /rails/ {{ {APP} }}"
        + STATUS
    )
    explained = same(nginx, disk_url())
    assert explained.outcome == "not_ours"
    assert "in the location itself" in explained.advice
