"""Applications in Ruby, Python and PHP write, nginx finds: real clients, no vectors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial

import pytest
from pymemcache.client.base import (  # type: ignore[import-untyped]
    Client as PymemcacheClient,
)
from pymemcache.serde import (  # type: ignore[import-untyped]
    CompressedSerde,
    PickleSerde,
)

from lib.clients import dalli, libmemcached, php_memcached, rails_cache
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.servers import APP, FALLBACK, Servers, block, location
from lib.site import INTERNAL, Site
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)


@pytest.fixture
def ids() -> list[int]:
    """Forty random IDs."""
    seed = random.randrange(2**32)
    print("seed", seed)
    return sorted(random.Random(seed).sample(range(10**12), 40))


@pytest.fixture
def three(servers: Servers) -> list[Memcached]:
    """Three memcached servers."""
    return [servers.memcached() for _ in range(3)]


def paths(site: Site, ids: list[int], directory: str = "aa") -> dict[str, str]:
    """Write the files of IDs; return the path by the ID."""
    found = {str(n): f"{directory}/{n}.dat" for n in ids}
    for key, path in found.items():
        site.files.write_id(path, int(key))
    return found


def check_all(site: Site, nginx: Nginx, ids: list[int], name: str = "file") -> None:
    """Check that each ID's file is found."""
    with nginx.connect() as connection:
        for n in ids:
            site.assert_file(connection.request("GET", f"/{name}/{n}"), n)


def start(site: Site, servers: list[Memcached], more: str = "") -> Nginx:
    """Start nginx with a block of servers."""
    return site.start(
        location("ids", more) + INTERNAL,
        http=block([server.url for server in servers]),
    )


def record(path: str, pad: int = 0) -> str:
    """Return a JSON record that is ``pad`` bytes longer than it has to be."""
    return json.dumps({"path": path, "type": "image/x-test", "pad": "p" * pad})


def check_records(site: Site, nginx: Nginx, ids: list[int]) -> None:
    """Check that each ID's file is found, with the type that its record says."""
    for n in ids:
        response = site.assert_file(nginx.get(f"/file/{n}"), n)
        assert response.header("Content-Type") == "image/x-test"


# Dalli


def test_dalli_strings(
    site: Site, three: list[Memcached], ids: list[int], delivery: str
) -> None:
    """``Dalli::Client#set`` with a String: Marshal."""
    dalli(three, paths(site, ids))
    check_all(site, start(site, three), ids)


def test_dalli_raw(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """``raw: true``: the bytes."""
    dalli(three, paths(site, ids), raw=True)
    check_all(site, start(site, three), ids)


def test_dalli_utf8(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """A path of UTF-8 bytes keeps them, marshalled and raw."""
    values = paths(site, ids, "写真/é ü")
    dalli(three, values)
    nginx = start(site, three)
    check_all(site, nginx, ids)
    dalli(three, values, raw=True)
    check_all(site, nginx, ids)


def long_directory(length: int) -> str:
    """Return a directory's path of about so many bytes."""
    return "/".join(["d" * 100] * (length // 101))


def test_dalli_long_paths(site: Site, three: list[Memcached]) -> None:
    """Paths of all lengths that Marshal writes in a way of its own."""
    values = {}
    lengths = (1, 2, 5, 116, 117, 118, 121, 122, 123, 124, 200, 254, 255, 256, 257, 900)
    for n, length in enumerate(lengths):
        name = f"{n:x}"
        filler = length - len(name)
        path = name
        while filler > 0:
            step = min(filler, 101)
            path = "d" * (step - 1) + "/" + path if step > 1 else "e" + path
            filler -= step
        assert len(path) == length
        values[str(n)] = path
        site.files.write_id(path, n)
    dalli(three, values)
    check_all(site, start(site, three), list(range(len(lengths))))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("compressor", ["", "Dalli::GzipCompressor"])
def test_dalli_compressed(
    site: Site, three: list[Memcached], ids: list[int], raw: bool, compressor: str
) -> None:
    """Values from 4 KiB are compressed, by default; and by gzip, if so configured."""
    options = {"compressor": compressor} if compressor else {}
    values = {k: record(path, 5000) for k, path in paths(site, ids).items()}
    dalli(three, values, options=options, raw=raw)
    stored = sum(int(server.stats()["bytes"]) for server in three)
    assert stored < 40 * 5000, "nothing was compressed"
    check_records(site, start(site, three), ids)


def test_dalli_json(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """``serializer: JSON``: a JSON string is the path, a JSON object the record."""
    values = paths(site, ids, '写真/"quoted"')
    dalli(three, values, options={"serializer": "JSON"})
    nginx = start(site, three)
    check_all(site, nginx, ids)
    records = {k: {"path": p, "type": "image/x-test"} for k, p in values.items()}
    dalli(three, records, options={"serializer": "JSON"})
    check_records(site, nginx, ids)


def test_dalli_not_compressed(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``compress: false``: big values as they are."""
    values = {k: record(path, 5000) for k, path in paths(site, ids).items()}
    dalli(three, values, options={"compress": False})
    stored = sum(int(server.stats()["bytes"]) for server in three)
    assert stored > 40 * 5000
    check_records(site, start(site, three), ids)


def test_dalli_weights(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """Weighted servers, each key at its own."""
    dalli(three, paths(site, ids), [3, 1, 2])
    nginx = site.start(
        location("ids") + INTERNAL,
        http=block(
            f"{s.url} weight={w}" for s, w in zip(three, (3, 1, 2), strict=True)
        ),
    )
    check_all(site, nginx, ids)
    assert sum(server.count("get_misses") for server in three) == 0


def test_dalli_namespace(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """``namespace``: a part of the key."""
    dalli(three, paths(site, ids), options={"namespace": "ns"})
    nginx = site.start(
        location("ids", 'http_sendfile_key "ns:$sendfile_id";')
        + location("ids", name="other")
        + INTERNAL,
        http=block([server.url for server in three]),
    )
    check_all(site, nginx, ids)
    assert nginx.get(f"/other/{ids[0]}").status == 404


@pytest.mark.parametrize("value", [297887, 1.5, None, True, ["aa/1.dat"], [], {"a": 1}])
def test_dalli_no_strings(site: Site, memcached: Memcached, value: object) -> None:
    """What is no String is no record; it goes to the application."""
    dalli([memcached], {"7": value})
    nginx = site.start(
        location(memcached.url)
        + location(memcached.url, FALLBACK, "app")
        + INTERNAL
        + APP
    )
    assert nginx.get("/file/7").status == 502
    assert nginx.get("/app/7").text == "app GET /app/7\n"
    entry = nginx.logged("/file/7")
    assert (entry.status, entry.source) == ("INVALID", "memcached")


# Rails.cache


def test_rails_cache(
    site: Site, three: list[Memcached], ids: list[int], delivery: str
) -> None:
    """``Rails.cache.write(id, path)``."""
    version = rails_cache(three, paths(site, ids))
    print("ActiveSupport", version)
    check_all(site, start(site, three), ids)
    assert sum(server.count("get_misses") for server in three) == 0


def test_rails_cache_with_expires_in(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``expires_in``, far away."""
    rails_cache(three, paths(site, ids), expires_in=3600)
    check_all(site, start(site, three), ids)


def test_rails_cache_expires(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """An entry is a file until it expires, and a miss from then on."""
    rails_cache(three, paths(site, ids), expires_in=2)
    nginx = start(site, three)
    site.assert_file(nginx.get(f"/file/{ids[-1]}"), ids[-1])
    for n in ids:
        wait_until(partial(is_gone, site, nginx, n), what=f"{n} to expire")


def is_gone(site: Site, nginx: Nginx, n: int) -> bool:
    """Tell whether an ID is a miss; else it has to be its file."""
    response = nginx.get(f"/file/{n}")
    if response.status == 404:
        return True
    site.assert_file(response, n)
    return False


def test_rails_cache_expires_before_memcached(
    site: Site, memcached: Memcached, ids: list[int]
) -> None:
    """The expiry in the entry holds; with race_condition_ttl memcached's is later."""
    rails_cache([memcached], paths(site, ids), expires_in=1, race_condition_ttl=300)
    nginx = start(site, [memcached])
    uri = f"/file/{ids[0]}"
    wait_until(lambda: nginx.get(uri).status == 404, what="the entry to expire")
    assert memcached.has(ids[0])
    entries = nginx.access_entries(uri)
    assert (entries[-1].status, entries[-1].reason) == ("MISS", "record has expired")


@pytest.mark.parametrize("expires", [None, 600])
def test_rails_cache_compressed(
    site: Site, three: list[Memcached], ids: list[int], expires: int | None
) -> None:
    """Values from 1 KiB are compressed inside of the entry."""
    values = {k: record(path, 3000) for k, path in paths(site, ids).items()}
    rails_cache(three, values, expires_in=expires)
    stored = sum(int(server.stats()["bytes"]) for server in three)
    assert stored < 40 * 1500, "nothing was compressed"
    check_records(site, start(site, three), ids)


def test_rails_cache_not_compressed(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``compress: false``, below and above what Dalli compresses by itself."""
    for pad in (3000, 6000):
        values = {k: record(path, pad) for k, path in paths(site, ids).items()}
        rails_cache(three, values, compress=False)
        check_records(site, start(site, three), ids)


def test_rails_cache_raw(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """``raw: true``: the bytes."""
    rails_cache(three, paths(site, ids), raw=True)
    check_all(site, start(site, three), ids)


def test_rails_cache_namespace(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``namespace``: http_sendfile_key says it."""
    rails_cache(three, paths(site, ids), {"namespace": "myapp-v1"})
    nginx = start(site, three, 'http_sendfile_key "myapp-v1:$sendfile_id";')
    check_all(site, nginx, ids)


def test_rails_cache_version(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``version``: not compared, as there is nothing to compare with."""
    rails_cache(three, paths(site, ids), version="v7", expires_in=600)
    check_all(site, start(site, three), ids)


@pytest.mark.parametrize("value", [1, None, {"path": "aa/1.dat"}, ["aa/1.dat"], True])
def test_rails_cache_no_strings(
    site: Site, memcached: Memcached, value: object
) -> None:
    """An entry without a String is INVALID; nothing is made of an object."""
    rails_cache([memcached], {"7": value})
    nginx = site.start(location(memcached.url) + INTERNAL)
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").status == "INVALID"


# Python


def pymemcache(memcached: Memcached, serde: object = None) -> PymemcacheClient:
    """Return a client of pymemcache."""
    return PymemcacheClient(("127.0.0.1", memcached.port), serde=serde)


@pytest.mark.parametrize("serde", ["none", "pickle", "compressed"])
def test_pymemcache(
    site: Site, memcached: Memcached, ids: list[int], serde: str
) -> None:
    """pymemcache: str and bytes, with its serializers, small and compressed."""
    makers: dict[str, Callable[[], object]] = {
        "none": lambda: None,
        "pickle": PickleSerde,
        "compressed": CompressedSerde,
    }
    client = pymemcache(memcached, makers[serde]())
    nginx = site.start(location(memcached.url) + INTERNAL)
    values = paths(site, ids)
    for key, path in values.items():
        value = path if int(key) % 2 else path.encode()
        assert client.set(key, value, noreply=False)
    check_all(site, nginx, ids)
    for key, path in values.items():
        assert client.set(key, record(path, 4000), noreply=False)
    check_records(site, nginx, ids)
    client.close()


@pytest.mark.parametrize("value", [35, ["aa/1.dat"], {"path": "aa/1.dat"}, 1.5, None])
def test_pymemcache_no_strings(site: Site, memcached: Memcached, value: object) -> None:
    """A number or a pickle is INVALID."""
    client = pymemcache(memcached, PickleSerde())
    assert client.set("7", value, noreply=False)
    client.close()
    nginx = site.start(location(memcached.url) + INTERNAL)
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").status == "INVALID"


@pytest.mark.parametrize("weights", [None, [2, 5, 1]])
def test_pylibmc(
    site: Site, three: list[Memcached], ids: list[int], weights: list[int] | None
) -> None:
    """pylibmc with ketama_weighted: str, small and compressed."""
    values = paths(site, ids)
    libmemcached(three, values, weights, ketama_weighted=True)
    servers = [
        f"{s.url} weight={w}" for s, w in zip(three, weights or [1] * 3, strict=True)
    ]
    nginx = site.start(
        location("ids") + INTERNAL, http=block(servers, "distribution ketama;")
    )
    check_all(site, nginx, ids)
    libmemcached(
        three,
        {key: record(path, 4000) for key, path in values.items()},
        weights,
        min_compress_len=1000,
        ketama_weighted=True,
    )
    check_records(site, nginx, ids)
    assert sum(server.count("get_misses") for server in three) == 0


@pytest.mark.parametrize("value", [35, ["aa/1.dat"], True, 2.5])
def test_pylibmc_no_strings(site: Site, memcached: Memcached, value: object) -> None:
    """A number or a pickle is INVALID."""
    libmemcached([memcached], {"7": value})
    nginx = site.start(location(memcached.url) + INTERNAL)
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").status == "INVALID"


# PHP


@pytest.mark.parametrize("weights", [None, [2, 5, 1]])
@pytest.mark.parametrize("compression", ["COMPRESSION_ZLIB", "COMPRESSION_FASTLZ"])
def test_php_memcached(
    site: Site,
    three: list[Memcached],
    ids: list[int],
    weights: list[int] | None,
    compression: str,
) -> None:
    """php-memcached, compatible with libketama: small, and compressed from 2 KB."""
    options = {"OPT_LIBKETAMA_COMPATIBLE": True, "OPT_COMPRESSION_TYPE": compression}
    values = paths(site, ids)
    php_memcached(three, values, weights, options)
    servers = [
        f"{s.url} weight={w}" for s, w in zip(three, weights or [1] * 3, strict=True)
    ]
    nginx = site.start(
        location("ids") + INTERNAL, http=block(servers, "distribution ketama;")
    )
    check_all(site, nginx, ids)
    big = {key: record(path, 4000) for key, path in values.items()}
    php_memcached(three, big, weights, options)
    stored = sum(int(server.stats()["bytes"]) for server in three)
    assert stored < 40 * 2000, "nothing was compressed"
    check_records(site, nginx, ids)
    assert sum(server.count("get_misses") for server in three) == 0


def test_php_memcached_prefix(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """OPT_PREFIX_KEY is a part of the key."""
    php_memcached(three[:1], paths(site, ids), None, {"OPT_PREFIX_KEY": "files:"})
    nginx = start(site, three[:1], 'http_sendfile_key "files:$sendfile_id";')
    check_all(site, nginx, ids)


@pytest.mark.parametrize("value", [35, ["aa/1.dat"], True, 2.5, None])
def test_php_memcached_no_strings(
    site: Site, memcached: Memcached, value: object
) -> None:
    """A number, a boolean, an array: INVALID."""
    php_memcached([memcached], {"7": value})
    nginx = site.start(location(memcached.url) + INTERNAL)
    assert nginx.get("/file/7").status == 502
    assert nginx.logged("/file/7").status == "INVALID"


# all together


def test_one_memcached_for_all(
    site: Site, memcached: Memcached, ids: list[int]
) -> None:
    """Keys of four languages side by side."""
    values = paths(site, ids)
    keys = list(values)
    dalli([memcached], {k: values[k] for k in keys[0::4]})
    rails_cache([memcached], {k: values[k] for k in keys[1::4]}, expires_in=600)
    libmemcached([memcached], {k: values[k] for k in keys[2::4]})
    php_memcached([memcached], {k: values[k] for k in keys[3::4]})
    nginx = site.start(location(memcached.url) + INTERNAL)
    check_all(site, nginx, ids)
    assert memcached.count("get_hits") == 40
