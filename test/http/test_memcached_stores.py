"""Several servers under one name: distributions, weights, servers that are dead."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from lib.cache import CACHE, ZONE, ask, let_pass
from lib.clients import dalli, libmemcached, php_memcached
from lib.fake_memcached import Fake, hang_up, hold, never
from lib.memcached import Memcached
from lib.nginx import ConfigCheck, Nginx
from lib.servers import APP, FALLBACK, PATIENT, Servers, add, block, location
from lib.site import INTERNAL, Site
from lib.turn import WARM, send_at_once
from lib.wait import wait_until

pytest_plugins = ("lib.memcached_fixtures",)

NUMBER = 60


@pytest.fixture
def ids() -> list[int]:
    """IDs that are in no list of known ones: random, of 1 to 20 digits."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    found: set[int] = set()
    while len(found) < NUMBER:
        found.add(chance.randrange(10 ** chance.randrange(1, 20)))
    return sorted(found)


@pytest.fixture
def three(servers: Servers) -> list[Memcached]:
    """Three memcached servers."""
    return [servers.memcached() for _ in range(3)]


def write_files(site: Site, ids: Sequence[int]) -> dict[str, str]:
    """Write the files of IDs; return the path by the ID."""
    for n in ids:
        site.files.write_id(f"aa/{n}.dat", n)
    return {str(n): f"aa/{n}.dat" for n in ids}


def ring(servers: Sequence[Memcached], weights: Sequence[int] | None = None) -> str:
    """Return the servers of a block, with weights if there are any."""
    if weights is None:
        return block([server.url for server in servers])
    return block([f"{s.url} weight={w}" for s, w in zip(servers, weights, strict=True)])


def ketama(http: str) -> str:
    """Return a block with the distribution ketama."""
    return http.replace("}\n", "distribution ketama; }\n")


def check_all(site: Site, nginx: Nginx, ids: Sequence[int]) -> None:
    """Check that each ID's file is found."""
    with nginx.connect() as connection:
        for n in ids:
            site.assert_file(connection.request("GET", f"/file/{n}"), n)


def check_spread(servers: Sequence[Memcached], ids: Sequence[int]) -> None:
    """Check that no server was asked for a key that it does not have."""
    assert sum(server.count("get_misses") for server in servers) == 0
    assert sum(server.count("get_hits") for server in servers) == len(ids)
    # a small weight may get nothing
    assert sum(server.count("get_hits") > 0 for server in servers) > 1


# the same servers as the clients that write


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [1, 2, 3], [7, 1, 30]])
def test_dalli(
    site: Site,
    three: list[Memcached],
    ids: list[int],
    weights: list[int] | None,
    delivery: str,
) -> None:
    """What Dalli wrote is found, each key at the first server that is asked."""
    dalli(three, write_files(site, ids), weights)
    nginx = site.start(location("ids") + INTERNAL, http=ring(three, weights))
    check_all(site, nginx, ids)
    check_spread(three, ids)
    assert nginx.get(f"/file/{10**19 + 1}").status == 404


Writer = Callable[[Sequence[Memcached], Mapping[str, object], list[int] | None], None]


def write_pylibmc(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    weights: list[int] | None,
) -> None:
    """Write with pylibmc as ketama_weighted."""
    libmemcached(servers, values, weights, ketama_weighted=True)


def write_php(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    weights: list[int] | None,
) -> None:
    """Write with php-memcached as compatible with libketama."""
    php_memcached(servers, values, weights, {"OPT_LIBKETAMA_COMPATIBLE": True})


@pytest.mark.parametrize("weights", [None, [1, 2, 3], [10, 3, 1]])
@pytest.mark.parametrize("write", [write_pylibmc, write_php])
def test_ketama(
    site: Site,
    three: list[Memcached],
    ids: list[int],
    write: Writer,
    weights: list[int] | None,
) -> None:
    """What libmemcached wrote is found, each key at the first server that is asked."""
    write(three, write_files(site, ids), weights)
    nginx = site.start(location("ids") + INTERNAL, http=ketama(ring(three, weights)))
    check_all(site, nginx, ids)
    check_spread(three, ids)


@pytest.mark.parametrize("weights", [[1, 1], [3, 2]])
def test_default_port_in_a_ring(
    site: Site, servers: Servers, ids: list[int], weights: list[int]
) -> None:
    """A server at 11211 has another name in a ring of ketama's, with port or without."""
    two = [servers.default_memcached(), servers.memcached()]
    values = write_files(site, ids)
    urls = ["memcached://127.0.0.1", "memcached://127.0.0.1:11211"]
    for distribution in ("dalli", "ketama"):
        if distribution == "dalli":
            dalli(two, values, weights)
        else:
            write_pylibmc(two, values, weights)
        for url in urls:
            lines = [
                f"{u} weight={w}"
                for u, w in zip([url, two[1].url], weights, strict=True)
            ]
            nginx = site.start(
                location("ids") + INTERNAL,
                http=block(lines, f"distribution {distribution};"),
            )
            check_all(site, nginx, ids)
        for server in two:
            server.flush()


def test_unix_sockets_in_a_ring(site: Site, servers: Servers, ids: list[int]) -> None:
    """A server behind a unix socket is named by its path."""
    three = [servers.memcached(unix=True) for _ in range(2)] + [servers.memcached()]
    dalli(three, write_files(site, ids))
    nginx = site.start(location("ids") + INTERNAL, http=ring(three))
    check_all(site, nginx, ids)
    check_spread(three, ids)


def test_names_in_a_ring(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """In a ring a server's name is what is written, not its address."""
    values = write_files(site, ids)
    by_name = [f"memcached://localhost:{server.port}" for server in three]
    for server in three:
        server._host = "localhost"
    dalli(three, values)
    nginx = site.start(location("ids") + INTERNAL, http=block(by_name))
    check_all(site, nginx, ids)
    check_spread(three, ids)


def test_order_of_servers(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """The order in which servers are written does not matter."""
    dalli(three, write_files(site, ids), [1, 2, 3])
    backwards = ring(three[::-1], [3, 2, 1])
    nginx = site.start(location("ids") + INTERNAL, http=backwards)
    check_all(site, nginx, ids)
    check_spread(three, ids)


def test_default_distribution_is_dalli(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """``distribution dalli`` is the default; ``ketama`` finds other servers."""
    dalli(three, write_files(site, ids))
    nginx = site.start(
        location("said")
        + location("unsaid", name="unsaid")
        + location("other", name="other")
        + INTERNAL,
        http=block([s.url for s in three], "distribution dalli;", "said")
        + block([s.url for s in three], "", "unsaid")
        + block([s.url for s in three], "distribution ketama;", "other"),
    )
    check_all(site, nginx, ids)
    found = []
    for n in ids:
        site.assert_file(nginx.get(f"/unsaid/{n}"), n)
        found.append(nginx.get(f"/other/{n}").status)
    assert set(found) == {200, 404}


def test_one_server_has_no_ring(
    site: Site, memcached: Memcached, ids: list[int]
) -> None:
    """A block of one server sends all keys there, whatever the distribution."""
    values = write_files(site, ids)
    memcached.put_many(values)
    for distribution in ("dalli", "ketama"):
        nginx = site.start(
            location("ids") + INTERNAL,
            http=block([f"{memcached.url} weight=5"], f"distribution {distribution};"),
        )
        check_all(site, nginx, ids)


def test_namespaces(site: Site, three: list[Memcached], ids: list[int]) -> None:
    """What is hashed is the whole key, with a namespace in it."""
    dalli(three, write_files(site, ids), options={"namespace": "files"})
    nginx = site.start(
        location("ids", 'http_sendfile_key "files:$sendfile_id";') + INTERNAL,
        http=ring(three),
    )
    check_all(site, nginx, ids)
    check_spread(three, ids)


def test_keys_of_all_lengths(site: Site, three: list[Memcached]) -> None:
    """Keys of 1 to 250 bytes, with bytes above 0x7f, in both distributions."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    alphabet = "abc:,_-é日%0"
    keys: dict[str, int] = {}
    for n, length in enumerate((1, 2, 3, 4, 5, 31, 55, 56, 63, 64, 65, 119, 120, 249)):
        key = "".join(chance.choices(alphabet, k=length))
        while len(key.encode()) > 250:
            key = key[:-1]
        keys[key] = n
    keys["x" * 250] = 99
    for n in keys.values():
        site.files.write_id(f"aa/{n}.dat", n)
    values = {key: f"aa/{n}.dat" for key, n in keys.items()}
    pattern = "location ~ ^/file/(.*)$"
    for distribution in ("dalli", "ketama"):
        if distribution == "dalli":
            dalli(three, values)
        else:
            write_pylibmc(three, values, None)
        nginx = site.start(
            location("ids", "http_sendfile_key $1;").replace("location /file/", pattern)
            + INTERNAL,
            http=block([s.url for s in three], f"distribution {distribution};"),
        )
        for key, n in keys.items():
            uri = "/file/" + "".join(f"%{byte:02x}" for byte in key.encode())
            site.assert_file(nginx.get(uri), n)
        for server in three:
            server.flush()


# servers that are dead


def start_with_one_down(
    site: Site, servers: Sequence[Memcached], more: str = ""
) -> Nginx:
    """Start nginx, and let it find out which server is dead.

    Args:
        site: whose.
        servers: of which one is dead.
        more: directives for the block.
    """
    lines = [f"{s.url} max_fails=1 fail_timeout=60s" for s in servers]
    nginx = site.start(
        location("ids") + location("ids", FALLBACK, "app") + INTERNAL + APP,
        http=block(lines, more),
    )

    def is_down() -> bool:
        for n in range(20):
            nginx.get(f"/file/{random.randrange(10**15)}{n}")
        return any("is down" in line for line in nginx.errors("error"))

    wait_until(is_down, what="the dead server to be noticed")
    return nginx


def test_dalli_fails_over(
    site: Site, three: list[Memcached], ids: list[int], delivery: str
) -> None:
    """A dead server's keys are where Dalli puts them when it is dead."""
    values = write_files(site, ids)
    at = dalli(three, values)
    dead = three[1]
    assert dead.name in at.values()
    for server in three:
        server.flush()
    dead.kill()
    # Dalli itself, given the same servers, the dead one among them
    moved = dalli(three, values, options={"failover": True})
    assert dead.name not in moved.values()
    assert {k: v for k, v in moved.items() if at[k] != dead.name} == {
        k: v for k, v in at.items() if v != dead.name
    }
    nginx = start_with_one_down(site, three)
    living = [server for server in three if server is not dead]
    before = sum(server.count("get_misses") for server in living)
    check_all(site, nginx, ids)
    assert sum(server.count("get_misses") for server in living) == before


def test_dalli_fails_over_by_weight(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """The same with weights, and two of three dead."""
    values = write_files(site, ids)
    three[0].kill()
    three[2].kill()
    dalli(three, values, [1, 2, 3])
    lines = [
        f"{s.url} weight={w} max_fails=1 fail_timeout=60s"
        for s, w in zip(three, (1, 2, 3), strict=True)
    ]
    nginx = site.start(location("ids") + INTERNAL, http=block(lines))

    def both_down() -> bool:
        nginx.get(f"/file/{random.randrange(10**15)}")
        return sum("is down" in line for line in nginx.errors("error")) == 2

    wait_until(both_down, what="the dead servers to be noticed")
    check_all(site, nginx, ids)


def test_all_servers_are_dead(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """With nobody left all keys fail at once, and go to the application."""
    for server in three:
        server.kill()
    lines = [f"{s.url} max_fails=1 fail_timeout=60s" for s in three]
    nginx = site.start(location("ids", FALLBACK) + INTERNAL + APP, http=block(lines))
    for n in ids * 2:
        assert nginx.get(f"/file/{n}").text == f"app GET /file/{n}\n"
    entry = nginx.logged(f"/file/{ids[0]}", 2)
    assert (entry.status, entry.source) == ("ERROR", "app")
    assert entry.reason == "server is down"
    assert float(entry.time) == 0


# a dead server and the cache: only a key's own server can say that there is none

STALE = f"{CACHE} http_sendfile_cache_valid 1ms;"


def start_with_a_substitute(
    site: Site, servers: Servers, ids: Sequence[int], server: str
) -> tuple[Nginx, list[Fake], list[int]]:
    """Start nginx with three servers, fill the cache, and let one of them fail.

    Args:
        site: whose.
        servers: makes the three.
        ids: whose records are there.
        server: directives for the server block, a location /file/ among them.

    Returns:
        nginx, which knows that the first server is down, the servers, and
        those of the IDs that are the first one's.
    """
    write_files(site, ids)
    fakes = [servers.fake() for _ in range(3)]
    for fake in fakes:
        for n in ids:
            fake.put(n, f"aa/{n}.dat")
    lines = [f"{fake.url} max_fails=1 fail_timeout=60s" for fake in fakes]
    nginx = site.start(
        server + INTERNAL + APP, http=ZONE + block(lines, "timeout 20s;")
    )
    check_all(site, nginx, ids)
    its_own = sorted(map(int, fakes[0].asked()))
    assert 0 < len(its_own) < len(ids)
    for fake in fakes:
        for n in its_own:
            del fake.values[str(n)]
    let_pass(0.001)
    fakes[0].script = hang_up
    nginx.get(f"/file/{its_own[0]}")
    nginx.wait_for_log("is down, lookups in it fail at once")
    return nginx, fakes, its_own


def test_a_substitutes_miss_leaves_the_stale_record(
    site: Site, servers: Servers, ids: list[int], delivery: str
) -> None:
    """While a key's own server is dead, the old record is served, again and again."""
    nginx, _, its_own = start_with_a_substitute(
        site, servers, ids, location("ids", STALE)
    )
    for _ in range(3):
        check_all(site, nginx, ids)
    answer = ask(nginx, f"/file/{its_own[0]}")
    assert answer.said == ("STALE", "cache")
    # a file was sent: why it is an old one is in the error log
    assert answer.entry.reason == "-"
    assert any("server is down, served stale" in s for s in nginx.errors("error"))


def test_a_substitutes_miss_and_use_stale(
    site: Site, servers: Servers, ids: list[int]
) -> None:
    """It is an error for use_stale; where that is off, the record stays nevertheless."""
    nginx, _, its_own = start_with_a_substitute(
        site,
        servers,
        ids,
        location("ids", STALE)
        + location("ids", STALE + "http_sendfile_cache_use_stale off;", "off")
        + location("ids", STALE + "http_sendfile_cache_use_stale timeout;", "timeout")
        + location("ids", STALE + "http_sendfile_cache_use_stale error;", "error")
        + location("ids", f"{STALE} {FALLBACK}", "app"),
    )
    for n in its_own:
        for name in ("off", "timeout"):
            assert nginx.get(f"/{name}/{n}").status == 404
            assert nginx.logged(f"/{name}/{n}").reason == "not in next server"
        for name in ("error", "app", "file"):
            site.assert_file(nginx.get(f"/{name}/{n}"), n)


def test_a_substitutes_miss_is_not_remembered(
    site: Site, servers: Servers, ids: list[int]
) -> None:
    """Without an old record it is a miss, but of this request alone."""
    more = f"{CACHE} http_sendfile_cache_valid 404 60s;"
    nginx, _, its_own = start_with_a_substitute(
        site, servers, ids, location("ids") + location("ids", more, "kept")
    )
    for _ in range(2):
        for n in its_own:
            answer = ask(nginx, f"/kept/{n}")
            assert answer.response.status == 404
            assert answer.said == ("MISS", "memcached")
            assert answer.entry.reason == "not in next server"
    # of the other servers' own keys a miss is known to be one
    other = next(n for n in range(10**6, 10**7) if not has_a_substitute(nginx, n))
    assert ask(nginx, f"/kept/{other}").said == ("MISS", "memcached")
    assert ask(nginx, f"/kept/{other}").said == ("NEGATIVE", "cache")


def has_a_substitute(nginx: Nginx, n: int) -> bool:
    """Tell whether an ID, which is nowhere, would be at the server that is down."""
    uri = f"/file/{n}"
    assert nginx.get(uri).status == 404
    return nginx.logged(uri).reason == "not in next server"


def test_a_substitutes_hit_is_a_hit(
    site: Site, servers: Servers, ids: list[int], delivery: str
) -> None:
    """What a client has written to the next server is served, and kept."""
    more = f"{CACHE} http_sendfile_cache_valid 60s;"
    nginx, fakes, its_own = start_with_a_substitute(
        site, servers, ids, location("ids") + location("ids", more, "kept")
    )
    n = its_own[0]
    assert ask(nginx, f"/kept/{n}").said == ("MISS", "memcached")
    for fake in fakes[1:]:
        fake.put(n, f"aa/{n}.dat")
    site.assert_file(nginx.get(f"/kept/{n}"), n)
    assert ask(nginx, f"/kept/{n}").said == ("HIT", "cache")


def test_ketama_does_not_fail_over(
    site: Site, three: list[Memcached], ids: list[int], delivery: str
) -> None:
    """Of ketama's ring a dead server's keys fall back; the others are served."""
    values = write_files(site, ids)
    write_pylibmc(three, values, None)
    dead = three[1]
    its_keys = [n for n in ids if dead.has(n)]
    assert its_keys
    dead.kill()
    nginx = start_with_one_down(site, three, "distribution ketama;")
    for n in ids:
        if n in its_keys:
            assert nginx.get(f"/file/{n}").status == 502
            assert nginx.get(f"/app/{n}").text == f"app GET /app/{n}\n"
            entry = nginx.logged(f"/file/{n}")
            assert (entry.status, entry.reason) == ("ERROR", "server is down")
        else:
            site.assert_file(nginx.get(f"/file/{n}"), n)


@pytest.mark.parametrize("distribution", ["dalli", "ketama"])
@pytest.mark.parametrize("script", [hang_up, never])
def test_keys_of_others_are_not_affected(
    site: Site, servers: Servers, ids: list[int], script: object, distribution: str
) -> None:
    """While one of three fails or hangs, the keys of the others are served at once."""
    fakes = [servers.fake() for _ in range(3)]
    values = write_files(site, ids)
    for fake in fakes:
        for key, path in values.items():
            fake.put(key, path)
    http = block(
        [f"{fake.url} max_fails=0" for fake in fakes],
        f"distribution {distribution}; timeout 3s;",
    )
    nginx = site.start(location("ids") + WARM + INTERNAL, http=http)
    uris = [f"/file/{n}" for n in ids]
    clients = send_at_once(nginx, uris)
    for connection, n in zip(clients, ids, strict=True):
        site.assert_file(connection.read_response(), n)
        connection.close()
    bad = fakes[2]
    its_keys = {int(key) for key in bad.asked()}
    assert 0 < len(its_keys) < len(ids)
    bad.script = hang_up if script is hang_up else never
    clients = send_at_once(nginx, uris)
    for connection, n in zip(clients, ids, strict=True):
        response = connection.read_response()
        connection.close()
        if n in its_keys:
            assert response.status in (502, 504)
        else:
            site.assert_file(response, n)
    # one batch a turn for each server
    for fake in fakes[:2]:
        assert len(fake.gets) == 2
        assert fake.accepted == 1


def test_dead_server_comes_back(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """When a server is back its keys are there again, and nowhere else."""
    values = write_files(site, ids)
    lines = [f"{s.url} max_fails=1 fail_timeout=100ms" for s in three]
    three[0].kill()
    nginx = site.start(location("ids") + INTERNAL, http=block(lines, PATIENT))
    for n in ids:
        assert nginx.get(f"/file/{n}").status in (404, 502)
    three[0].start()
    dalli(three, values)

    def all_found() -> bool:
        return all(nginx.get(f"/file/{n}").status == 200 for n in ids)

    wait_until(all_found, what="the server to be used again")
    check_all(site, nginx, ids)
    assert "is up again" in nginx.wait_for_log("is up again")


def test_breaker_of_each_server(site: Site, servers: Servers) -> None:
    """max_fails and fail_timeout are a server's own."""
    fakes = [servers.fake(hang_up) for _ in range(2)]
    lines = [
        f"{fakes[0].url} max_fails=2 fail_timeout=60s",
        f"{fakes[1].url} max_fails=5 fail_timeout=60s",
    ]
    nginx = site.start(
        location("ids") + INTERNAL, http=block(lines, f"distribution ketama; {PATIENT}")
    )
    for n in range(60):
        assert nginx.get(f"/file/{n}").status == 502
    assert [fake.accepted for fake in fakes] == [2, 5]


def test_black_hole_in_a_ring(site: Site, servers: Servers, ids: list[int]) -> None:
    """A server that neither accepts nor refuses costs its keys connect_timeout."""
    fakes = [servers.fake(), servers.fake()]
    values = write_files(site, ids)
    for fake in fakes:
        for key, path in values.items():
            fake.put(key, path)
    lines = [fake.url for fake in fakes]
    lines.insert(1, f"{servers.black_hole().url} max_fails=1 fail_timeout=60s")
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block(lines, f"connect_timeout 50ms; {PATIENT}"),
    )
    clients = send_at_once(nginx, [f"/file/{n}" for n in ids])
    statuses = []
    for connection, n in zip(clients, ids, strict=True):
        response = connection.read_response()
        connection.close()
        statuses.append(response.status)
        if response.status == 200:
            site.assert_file(response, n)
    assert set(statuses) == {200, 504}
    # and then they are asked for where Dalli would
    check_all(site, nginx, ids)


def test_turn_over_several_servers(
    site: Site, servers: Servers, ids: list[int], delivery: str
) -> None:
    """A turn's keys are one get a server."""
    fakes: list[Fake] = [servers.fake(hold) for _ in range(3)]
    for fake in fakes:
        for key, path in write_files(site, ids).items():
            fake.put(key, path)
    nginx = site.start(
        location("ids") + WARM + INTERNAL,
        http=block([fake.url for fake in fakes], "timeout 20s;"),
    )
    clients = send_at_once(nginx, [f"/file/{n}" for n in ids])
    wait_until(lambda: all(fake.holding == 1 for fake in fakes), what="three gets")
    # answered in the opposite order of the servers
    for fake in fakes[::-1]:
        fake.release()
        its_keys = [int(key) for key in fake.asked()]
        for n in its_keys:
            connection = clients[ids.index(n)]
            site.assert_file(connection.read_response(), n)
            connection.close()
    assert sorted(int(k) for fake in fakes for k in fake.asked()) == ids
    assert [len(fake.gets) for fake in fakes] == [1, 1, 1]


# the configuration


def check(site: Site, http: str, server: str = "") -> ConfigCheck:
    """Let nginx -t judge directives of the http block."""
    site.variables.setdefault("DELIVER", "")
    return site.check_config(server or location("ids") + INTERNAL, http=http)


GOOD = "memcached://127.0.0.1:11211"


@pytest.mark.parametrize(
    ("body", "where", "words"),
    [
        (f"server {GOOD};\n sever {GOOD};", "sever", ["unknown", '"sever"']),
        (f"server {GOOD};\n retries 3;", "retries", ["unknown", "timeout"]),
        (f"server {GOOD} weight=0;", "weight=0", ["weight=0"]),
        (f"server {GOOD} weight=x;", "weight=x", ["weight=x"]),
        (f"server {GOOD} weight=-1;", "weight=-1", ["weight=-1"]),
        (f"server {GOOD} weight=;", "weight=;", ["weight="]),
        (f"server {GOOD} weight=99999;", "weight=99999", ["weight=99999"]),
        (f"server {GOOD} max_fails=x;", "max_fails=x", ["max_fails=x"]),
        (f"server {GOOD} max_fails=-1;", "max_fails=-1", ["max_fails=-1"]),
        (f"server {GOOD} fail_timeout=x;", "fail_timeout=x", ["fail_timeout=x"]),
        (f"server {GOOD} fail_timeout=0;", "fail_timeout=0", ["fail_timeout=0"]),
        (f"server {GOOD} backup;", "backup", ["backup"]),
        ("server;", "server;", ["server"]),
        ("server lmdb:/tmp/x;", "server lmdb:", ["memcached://"]),
        ("server redis://127.0.0.1;", "redis:", ["memcached://"]),
        ("server 127.0.0.1:11211;", "server 127", ["memcached://"]),
        ("server ids;", "server ids;", ["memcached://"]),
        ("server memcached://127.0.0.1:0;", ":0;", ["port"]),
        ("server memcached://127.0.0.1:70000;", "70000", ["port"]),
        ("server memcached://127.0.0.1:x;", ":x;", ["port"]),
        ("server memcached://127.0.0.1:11211/x;", "/x;", ["memcached://"]),
        ("server memcached://;", "memcached://;", []),
        ("server memcached:relative/socket;", "relative", ["memcached:"]),
        (
            "server memcached://no.such.host.invalid;",
            "no.such.host",
            ["host not found"],
        ),
        ("server memcached://[::1;", "[::1;", []),
        (f"server {GOOD};\n distribution;", "distribution;", ["distribution"]),
        (f"server {GOOD};\n distribution modula;", "modula", ["dalli", "ketama"]),
        (
            f"server {GOOD};\n distribution dalli; distribution ketama;",
            "distribution",
            ["duplicate"],
        ),
        (f"server {GOOD};\n connections 0;", "connections 0", ["connections"]),
        (f"server {GOOD};\n connections many;", "many", ["connections"]),
        (f"server {GOOD};\n connections 100000;", "100000", ["connections"]),
        (f"server {GOOD};\n connections 1; connections 2;", "connections 1", ["dup"]),
        (f"server {GOOD};\n timeout x;", "timeout x", ["timeout"]),
        (f"server {GOOD};\n timeout 0;", "timeout 0", ["timeout"]),
        (f"server {GOOD};\n timeout -1;", "timeout -1", ["timeout"]),
        (f"server {GOOD};\n timeout 1s; timeout 2s;", "timeout 1s", ["duplicate"]),
        (
            f"server {GOOD};\n connect_timeout x;",
            "connect_timeout",
            ["connect_timeout"],
        ),
        (
            f"server {GOOD};\n connect_timeout 0;",
            "connect_timeout",
            ["connect_timeout"],
        ),
        (f"server {GOOD};\n timeout;", "timeout;", ["timeout"]),
        (f"server {GOOD};\n timeout 1s 2s;", "timeout 1s", ["timeout"]),
    ],
)
def test_wrong_block_is_refused_with_its_line(
    site: Site, body: str, where: str, words: list[str]
) -> None:
    """nginx -t says what is wrong in a block, and in which line."""
    found = check(site, f"http_sendfile_store ids {{\n {body}\n }}")
    found.assert_fails(where, *words)


def test_block_without_servers(site: Site) -> None:
    """A block needs a server, and is told so at its end."""
    for body in ("", "distribution ketama;"):
        found = check(site, f"http_sendfile_store ids {{\n{body}\n}} # the end")
        found.assert_fails("the end", "no servers", '"ids"', "memcached://")


@pytest.mark.parametrize(
    "name", ["", "a b", "lmdb:/x", "memcached://127.0.0.1", "a/b", "$x", "a;b", "é"]
)
def test_bad_name_of_a_block(site: Site, name: str) -> None:
    """A store's name is made of letters and digits."""
    found = check(
        site, f'http_sendfile_store "{name}" {{ # here\nserver {GOOD};\n}}', "listen 1;"
    )
    assert not found.ok
    assert "name" in found.output or "invalid" in found.output
    assert str(found.path) in found.output


def test_duplicate_blocks(site: Site) -> None:
    """A name is a store's, once."""
    first = f"http_sendfile_store ids {{ server {GOOD}; }}\n"
    again = f"http_sendfile_store ids {{ server {GOOD}; }} # again\n"
    check(site, first + again).assert_fails("again", "duplicate", '"ids"')


def test_unknown_name(site: Site) -> None:
    """A name that no block has is reported where it is used."""
    found = check(
        site,
        f"http_sendfile_store ids {{ server {GOOD}; }}",
        "location /file/ { http_sendfile on;\n http_sendfile_lookup idz;\n}" + INTERNAL,
    )
    found.assert_fails("http_sendfile_lookup idz", '"idz"')


def test_unknown_name_in_the_http_block(site: Site) -> None:
    """The same where it stands for all servers."""
    site.variables["LOOKUP"] = ""
    found = check(site, "http_sendfile_lookup nobody;", "http_sendfile on;")
    found.assert_fails("http_sendfile_lookup nobody", '"nobody"')


@pytest.mark.parametrize("level", ["server", "location"])
def test_block_belongs_into_http(site: Site, level: str) -> None:
    """http_sendfile_store is for the http block only."""
    inner = f"http_sendfile_store ids {{ server {GOOD}; }}"
    server = inner if level == "server" else f"location / {{ {inner} }}"
    found = site.check_config(server)
    assert not found.ok
    assert '"http_sendfile_store" directive is not allowed here' in found.output


def test_block_needs_a_name_and_braces(site: Site) -> None:
    """What is no block is refused by nginx itself."""
    for text in (
        "http_sendfile_store ids;",
        f"http_sendfile_store {{ server {GOOD}; }}",
    ):
        found = check(site, text)
        found.assert_fails("http_sendfile_store", "http_sendfile_store")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memcached://", ["memcached://"]),
        ("memcached://127.0.0.1:11211/path", ["path"]),
        ("memcached://127.0.0.1:99999", ["port"]),
        ("memcached://no.such.host.invalid", ["host not found"]),
        ("memcached:no/socket", ["memcached:"]),
        ("memcached:", ["memcached"]),
        ("memcache://127.0.0.1", ["memcached://"]),
    ],
)
def test_bad_url(site: Site, url: str, words: list[str]) -> None:
    """The same mistakes in a URL without a block."""
    site.variables["LOOKUP"] = ""
    found = check(
        site, "", f"location / {{ http_sendfile on;\n http_sendfile_lookup {url};\n}}"
    )
    found.assert_fails("http_sendfile_lookup", *words)


def test_name_before_its_block(site: Site, memcached: Memcached) -> None:
    """A name may be used before its block stands in the file."""
    add(site, memcached, 7)
    template = site.template(location("ids") + INTERNAL)
    template = template.rstrip().removesuffix("}") + block([memcached.url]) + "}\n"
    nginx = site.start_whole(template)
    site.assert_file(nginx.get("/file/7"), 7)


def test_all_of_a_block(site: Site, memcached: Memcached) -> None:
    """Every directive and parameter at once, and nothing to remark."""
    add(site, memcached, 7)
    http = block(
        [f"{memcached.url} weight=3 max_fails=5 fail_timeout=2s"],
        "distribution ketama; connections 4; connect_timeout 50ms; timeout 1s;",
        "my-store_1.x",
    )
    server = location("my-store_1.x") + INTERNAL
    check(site, http, server).assert_silent()
    nginx = site.start(server, http=http)
    site.assert_file(nginx.get("/file/7"), 7)
    assert nginx.logged("/file/7").source == "memcached"


def test_comments_and_includes_in_a_block(site: Site, memcached: Memcached) -> None:
    """A block is written as any other, over lines, with comments."""
    add(site, memcached, 7)
    http = (
        "http_sendfile_store ids # a comment\n{\n\n # another\n"
        f'  server "{memcached.url}"\n     weight=2; # and one\n}}\n'
    )
    nginx = site.start(location("ids") + INTERNAL, http=http)
    site.assert_file(nginx.get("/file/7"), 7)


def test_unused_block(site: Site, servers: Servers) -> None:
    """A block that no location uses does nothing."""
    fake = servers.fake()
    http = block([fake.url], name="unused")
    nginx = site.start("location / { return 200 ok; }", http=http)
    assert nginx.get("/").text == "ok"
    assert fake.accepted == 0


def test_reload_with_other_servers(
    site: Site, three: list[Memcached], ids: list[int]
) -> None:
    """A reload takes the block's new servers."""
    values = write_files(site, ids)
    dalli(three[:1], values)
    server = location("ids") + INTERNAL
    nginx = site.start(server, http=ring(three[:1]))
    check_all(site, nginx, ids)
    three[0].flush()
    dalli(three, values, [1, 2, 3])
    nginx.reload(site.template(server, ring(three, [1, 2, 3])))
    check_all(site, nginx, ids)
    for memcached in three:
        assert memcached.count("get_hits") > 0
