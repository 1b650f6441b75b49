"""Configurations of several features at once, as people write them."""

from __future__ import annotations

import json
import os
from contextlib import closing

import pytest
from ports import free_port

from lib.accept import sendfile
from lib.cache import STATUS, ZONE
from lib.explain import same
from lib.files import content
from lib.gateway import Gateway, Said
from lib.http10 import PeerRequest
from lib.learn import LEARN, MINUTE, SIZE, ask, source, write
from lib.servers import Servers, add_many
from lib.signed import KEY, load_signed, sign, write_keys
from lib.site import Site
from lib.sqlite import block, connect, create, load_sqlite
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures", "lib.memcached_fixtures")


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


def test_signed_links_to_files_of_a_database(site: Site) -> None:
    """A link's signature, an application's database, the cache, and a reload."""
    load_sqlite(site)
    load_signed(site)
    write_keys(site, KEY.hex())
    path = create(site, [1, 2])
    site.add(77)
    nginx = site.start(
        "location / { rewrite ^/download/(.*)$ /file/$1 last; return 404; }"
        " location /file/ { http_sendfile_signature hmac %%DIR%%/keys;"
        ' if ($sendfile_signed != "1") { return 403; }'
        " http_sendfile on; http_sendfile_lookup blobs; %%DIRECT%%"
        " http_sendfile_cache main; http_sendfile_cache_valid 1h;"
        " http_sendfile_cache_body 16k; http_sendfile_cache_check 1h; }" + STATUS,
        http=ZONE + block(path),
    )
    links = {n: sign(f"/download/{n}?until=4102444800") for n in (1, 2)}
    for again in (False, True):
        for n, link in links.items():
            for _ in range(2):
                assert same(nginx, link).outcome == "sent"
                site.assert_file(nginx.get(link), n)
            forged = link.replace(f"/{n}?", f"/{3 - n}?")
            assert same(nginx, forged).status == 403
            assert nginx.get(f"/file/{n}").status == 403
        if not again:
            nginx.reload()
    with closing(connect(path)) as connection:
        connection.execute("UPDATE files SET path = 'aa/77.dat' WHERE id = 1")
    site.assert_file(nginx.get(links[1]), 1)
    assert nginx.request("DELETE", "/status/cache/1").status == 200
    site.assert_file(nginx.get(links[1]), 77)
    figures = json.loads(nginx.get("/status/json").body)
    (one,) = (f for f in figures["locations"] if f["location"] == "/file/")
    counted = {(r["result"], r["source"]): r["count"] for r in one["requests"]}
    assert set(counted) == {("hit", "store"), ("hit", "cache")}
    assert counted["hit", "store"] == 3


def test_two_servers_on_one_store_that_fails(site: Site, servers: Servers) -> None:
    """Their figures are their own, what is down is told once, and it comes back."""
    memcached = servers.memcached()
    files = add_many(site, memcached, (1, 2))
    location_ = "location /file/ { http_sendfile on; http_sendfile_lookup m; %%DIRECT%%"
    nginx = site.start(
        location_ + " http_sendfile_fallback =404; }" + STATUS,
        http="http_sendfile_store m { server "
        f"{memcached.url} max_fails=2 fail_timeout=1s; }}"
        " server { listen 127.0.0.1:%%PORT:other%%; server_name other;"
        f" {location_} http_sendfile_cache main; http_sendfile_cache_valid 1h; }} }}"
        + ZONE,
    )
    for port in ("", "other"):
        with nginx.connect(port) as connection:
            for n in files:
                site.assert_file(connection.request("GET", f"/file/{n}"), n)
    memcached.kill()
    for port, status in (("", 404), ("other", 200)):
        with nginx.connect(port) as connection:
            for _ in range(5):
                assert connection.request("GET", "/file/1").status == status
    explained = same(nginx, "/file/1")
    assert (explained.status, explained.document["source"]) == (404, "memcached")
    found = json.loads(nginx.get("/status/json").body)
    assert {f["host"] for f in found["locations"]} == {"localhost", "other"}
    assert [s["up"] for s in found["stores"] if s["server"]] == [False]
    memcached.restart()
    add_many(site, memcached, files)
    wait_until(lambda: nginx.get("/file/1").status == 200, what="it to be back")
    found = json.loads(nginx.get("/status/json").body)
    assert [s["up"] for s in found["stores"] if s["server"]] == [True]
