"""Cache-Status, RFC 9211: what the response says of where it comes from."""

from __future__ import annotations

import pytest

from lib.accept import sendfile
from lib.backend import Reply, Request
from lib.cache import CACHE, ZONE
from lib.gateway import Gateway
from lib.memcached import Memcached
from lib.site import Site
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures", "lib.memcached_fixtures")

ON = "http_sendfile on; http_sendfile_cache_status on;"


def members(value: str) -> list[dict[str, str | bool]]:
    """Return each cache's parameters, its name among them as ``cache``."""
    found = []
    for member in value.split(", "):
        name, *parameters = member.split("; ")
        said: dict[str, str | bool] = {"cache": name}
        for parameter in parameters:
            key, equals, text = parameter.partition("=")
            said[key] = text if equals else True
        found.append(said)
    return found


def test_off_by_default(site: Site) -> None:
    """Nobody is told who has not asked for it."""
    site.add(7)
    nginx = site.start("location /file/ { http_sendfile on; } %%INTERNAL%%")
    assert nginx.get("/file/7").header("Cache-Status") is None


def test_store_then_cache(site: Site, delivery: str) -> None:
    """A file by the store, then by the cache, with the time that it has left."""
    site.add(7)
    nginx = site.start(
        f"location /file/ {{ {ON} %%DELIVER%% {CACHE} }} %%INTERNAL%%", http=ZONE
    )
    assert members(nginx.get("/file/7").all("Cache-Status")[0]) == [
        {"cache": "ngx_sendfile", "hit": True, "detail": "HIT"}
    ]
    (said,) = members(nginx.get("/file/7").all("Cache-Status")[0])
    assert said["hit"] is True and 0 <= int(str(said["ttl"])) <= 60


def test_stale(site: Site, memcached: Memcached) -> None:
    """Past its time the time left is negative."""
    site.files.write_id("aa/7.dat", 7, 100)
    memcached.put(7, "aa/7.dat")
    nginx = site.start(
        f"location /file/ {{ {ON} %%DIRECT%% {CACHE} http_sendfile_cache_valid 1ms;"
        f" http_sendfile_lookup {memcached.url}; }}",
        http=ZONE,
    )
    assert nginx.get("/file/7").status == 200
    memcached.kill()

    def stale() -> dict[str, str | bool] | None:
        (said,) = members(str(nginx.get("/file/7").header("Cache-Status")))
        return said if said["detail"] == "STALE" else None

    said = wait_until(stale, what="a stale record")
    assert said is not None
    assert said["hit"] is True and int(str(said["ttl"])) < 0


def test_not_found(site: Site) -> None:
    """A miss is no hit, and nobody was asked; a miss that is cached is one."""
    nginx = site.start(
        f"location /file/ {{ {ON} {CACHE} http_sendfile_cache_valid 404 60s; }}",
        http=ZONE,
    )
    assert nginx.get("/file/8").header("Cache-Status") == "ngx_sendfile; detail=MISS"
    (said,) = members(str(nginx.get("/file/8").header("Cache-Status")))
    assert said["hit"] is True and said["detail"] == "NEGATIVE"
    assert 0 <= int(str(said["ttl"])) <= 60


def test_after_what_the_application_said(site: Site) -> None:
    """The application's own line stays, and stands before ours."""

    def script(request: Request) -> Reply:
        return Reply(headers={"Cache-Status": "origin; hit"}, body=b"app\n")

    site.app.script = script
    nginx = site.start(f"location /file/ {{ {ON} proxy_pass http://%%APP%%; }}")
    lines = nginx.get("/file/8").all("Cache-Status")
    assert lines == [
        "origin; hit",
        "ngx_sendfile; fwd=miss; fwd-status=200; detail=MISS",
    ]
    lines = nginx.post("/file/8", b"").all("Cache-Status")
    assert members(lines[1])[0]["fwd"] == "method"


def test_learned(site: Site, web: Gateway) -> None:
    """The first answer is stored, the second request is a hit."""
    site.add(7)
    web.script = lambda request: sendfile(
        site.files.root / "aa/7.dat", ("X-Accel-Expires", "60")
    )
    nginx = site.start(
        "location / { http_sendfile_cache_status on; %%PASS%% %%ACCEPT%%"
        f" http_sendfile_learn on; {CACHE} }}",
        http=ZONE,
    )
    (said,) = members(str(nginx.get("/a").header("Cache-Status")))
    assert (said["fwd"], said["fwd-status"], said["stored"]) == ("miss", "200", True)
    (said,) = members(str(nginx.get("/a").header("Cache-Status")))
    assert said["hit"] is True and 0 <= int(str(said["ttl"])) <= 60
    assert len(web.requests) == 1


def test_once_when_a_filter_answers_instead(site: Site) -> None:
    """416 has one line, as any response has."""
    site.add(7)
    nginx = site.start(f"location /file/ {{ {ON} %%DIRECT%% }}")
    response = nginx.get("/file/7", {"Range": "bytes=99999999-"})
    assert response.status == 416
    assert len(response.all("Cache-Status")) == 1


@pytest.mark.parametrize("value", ["maybe", "1", ""])
def test_value(site: Site, value: str) -> None:
    """on or off, and nothing else."""
    check = site.check_config(f"http_sendfile_cache_status {value};")
    check.assert_fails("http_sendfile_cache_status")
