"""Configurations of several features at once, as people write them."""

from __future__ import annotations

import os

import pytest

from lib.accept import sendfile
from lib.cache import ZONE
from lib.files import content
from lib.gateway import Gateway, Said
from lib.http10 import PeerRequest
from lib.learn import LEARN, MINUTE, SIZE, ask, source, write
from lib.nginx import free_port
from lib.site import Site

pytest_plugins = ("lib.gateway_fixtures",)


def test_rewritten_tenants_and_a_reload(site: Site, web: Gateway) -> None:
    """A key of captures behind a rewrite, kept over a reload, answers If-*."""

    def script(request: PeerRequest) -> Said:
        number = {"one": 1, "two": 2}[request.header("X-Tenant") or ""]
        return sendfile(write(site, number), MINUTE)

    web.script = script
    nginx = site.start(
        r"location / { rewrite ^/(\w+)/f/(\d+)$ /front/$1/$2 last; }"
        r" location ~ ^/front/(?<tenant>\w+)/(?<number>\d+)$ {"
        ' proxy_set_header X-Tenant $tenant; http_sendfile_learn_key "$tenant:$number";'
        f" {LEARN} %%ACCEPT%% http_sendfile_cache_body 16k; %%PASS%% }}",
        ZONE,
    )
    for tenant, number in (("one", 1), ("two", 2)):
        for args, said in (("", "app"), ("?x", "learned")):
            answer = ask(nginx, f"/{tenant}/f/7{args}")
            site.assert_file(answer.response, number, SIZE)
            assert answer.entry.source == said
    nginx.reload()
    for tenant, number in (("one", 1), ("two", 2)):
        answer = ask(nginx, f"/{tenant}/f/7")
        site.assert_file(answer.response, number, SIZE)
        assert answer.entry.source == "learned"
        modified, tag = (answer.response.header(n) for n in ("Last-Modified", "ETag"))
        assert modified is not None
        same = nginx.get(f"/{tenant}/f/7", {"If-Modified-Since": modified})
        assert (same.status, same.header("ETag")) == (304, tag)
        assert same.header("Last-Modified") == modified
    assert web.count() == 2


@pytest.mark.parametrize("size", [400, 512, 5_000, 60_000, 70_000])
def test_bodies_and_filters_that_change_validators(site: Site, size: int) -> None:
    """Four locations of one store and one zone; bodies of each size of buffer."""
    site.add(1, "aa/1.html", size)
    os.utime(site.files.path("aa/1.html"), (1_600_000_000, 1_600_000_000))
    common = (
        "http_sendfile on; %%DIRECT%% http_sendfile_cache main;"
        " http_sendfile_cache_body 128k;"
    )
    nginx = site.start(
        f"location /plain/ {{ {common} }}"
        f' location /dropped/ {{ {common} add_header Last-Modified ""; expires 1h; }}'
        f" location /ssi/ {{ {common} ssi on; }}"
        f" location /gzip/ {{ {common} gzip on; gzip_min_length 1; }}",
        ZONE,
    )
    for _ in range(4):
        plain = nginx.get("/plain/1")
        assert plain.body == content(1, size)
        assert plain.header("Last-Modified") == "Sun, 13 Sep 2020 12:26:40 GMT"
        for name in ("dropped", "ssi"):
            response = nginx.get(f"/{name}/1")
            assert response.body == content(1, size)
            assert response.header("Last-Modified") is None
        zipped = nginx.get("/gzip/1", {"Accept-Encoding": "gzip"})
        assert zipped.header("Content-Encoding") == "gzip"
        assert zipped.header("ETag") == f"W/{plain.header('ETag')}"
        assert zipped.header("Last-Modified") == plain.header("Last-Modified")


def test_failover_a_rewrite_and_unsafe_methods(site: Site, web: Gateway) -> None:
    """What the second server of an upstream says is learned, and taken back."""
    web.script = lambda request: (
        sendfile(write(site), MINUTE) if request.method == "GET" else Said(204)
    )
    location = f"{LEARN} %%ACCEPT%% proxy_pass http://two;"
    nginx = site.start(
        f"location / {{ {location} }}"
        f" location /x/ {{ rewrite ^/x(/.*)$ $1 break; {location} }}",
        f"{ZONE} upstream two {{ server 127.0.0.1:{free_port()} fail_timeout=1s;"
        f" server {web.address} backup; }}",
    )
    nginx.allow_log("Connection refused|upstream server temporarily disabled")
    for uri in ("/a?1", "/x/a?1"):
        assert source(nginx, uri) == "app"
        assert source(nginx, uri) == "learned"
        nginx.reload()
        assert source(nginx, uri) == "learned"
        assert nginx.request("POST", uri).status == 204
        assert source(nginx, uri) == "app"
        assert source(nginx, uri) == "learned"
    assert web.count() == 6
