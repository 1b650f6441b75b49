"""The distributions, against what real clients picked, and against clients."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from ctl_harness import run
from memcached_harness import Memcached, table

from sendfilectl.ring import Ring, Server

PORTS = (11211, 11212, 11213)


def servers(ports: Sequence[int], weights: Sequence[int]) -> list[Server]:
    """Servers on this host."""
    return [Server("127.0.0.1", port, w) for port, w in zip(ports, weights)]


@pytest.mark.parametrize(
    ("file", "column", "distribution", "ports", "weights"),
    [
        ("dalli", "unweighted_11211_11212_11213", "dalli", PORTS, (1, 1, 1)),
        ("dalli", "weighted_1_2_3", "dalli", PORTS, (1, 2, 3)),
        ("libmemcached", "ketama_weighted_md5_w111", "ketama", PORTS, (1, 1, 1)),
        ("libmemcached", "ketama_weighted_md5_w123", "ketama", PORTS, (1, 2, 3)),
        (
            *("libmemcached", "ketama_weighted_md5_ports12211-3", "ketama"),
            *((12211, 12212, 12213), (1, 1, 1)),
        ),
        ("php_memcached", "libketama_compatible", "ketama", PORTS, (1, 1, 1)),
        ("php_memcached", "libketama_compatible_w123", "ketama", PORTS, (1, 2, 3)),
    ],
)
def test_vectors(
    file: str,
    column: str,
    distribution: str,
    ports: Sequence[int],
    weights: Sequence[int],
) -> None:
    head, rows = table(f"ring_{file}")
    ring_servers = servers(ports, weights)
    ring = Ring(distribution, ring_servers)
    found = {row[0]: ring_servers[ring.find(row[0].encode())].name for row in rows}
    assert found == {row[0]: row[head.index(column)] for row in rows}
    assert len(found) == 50
    assert set(found.values()) == {server.name for server in ring_servers}


@pytest.mark.parametrize("distribution", ["dalli", "ketama"])
def test_shares_follow_the_weights(distribution: str) -> None:
    ring = Ring(distribution, servers(PORTS, (1, 2, 5)))
    shares = Counter(ring.find(b"%d" % i) for i in range(40_000))
    for number, weight in enumerate((1, 2, 5)):
        assert 0.8 < shares[number] / (5_000 * weight) < 1.2


def test_points_of_one_server_and_of_sockets() -> None:
    assert Ring("dalli", [Server("h", 1)]).find(b"x") == 0
    # a socket's path is hashed without a port by Dalli, with 0 by libmemcached
    sockets = [Server("/run/a", 0), Server("/run/b", 0)]
    for distribution in ("dalli", "ketama"):
        ring = Ring(distribution, sockets)
        assert {ring.find(b"%d" % i) for i in range(100)} == {0, 1}
    with pytest.raises(ValueError, match="no distribution"):
        Ring("modula", sockets)


DALLI = """
require "dalli"
require "json"
spec = JSON.parse(ARGV[0])
client = Dalli::Client.new(spec["servers"], spec["options"].transform_keys(&:to_sym))
spec["keys"].each { |key| client.set(key, "dalli/#{key}", nil, raw: spec["raw"]) }
puts JSON.dump(spec["keys"].map { |key| client.get(key, raw: spec["raw"]) })
"""

PHP = """
$spec = json_decode($argv[1], true);
$client = new Memcached();
$client->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
$client->addServers($spec["servers"]);
foreach ($spec["keys"] as $key)
    if (!$client->set($key, "php/$key")) die($client->getResultMessage());
echo json_encode(array_map(fn($key) => $client->get($key), $spec["keys"]));
"""


def random_keys() -> list[str]:
    """Keys that are in no file of vectors."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    return [f"{rng.randrange(10**12)}-{i}" for i in range(200)]


def client(command: Sequence[str], spec: object) -> list[str]:
    """Runs a client of another language; its answer is one of JSON."""
    done = subprocess.run(
        [*command, json.dumps(spec)], capture_output=True, text=True, check=True
    )
    answer: list[str] = json.loads(done.stdout)
    return answer


def ruby() -> list[str]:
    """Ruby with Dalli."""
    probe = ["ruby", "-e", "require 'dalli'"]
    if not shutil.which("ruby") or subprocess.run(probe, check=False).returncode:
        pytest.fail("there is no ruby-dalli on this system")
    return ["ruby", "-e", DALLI, "--"]


def php() -> list[str]:
    """PHP with the extension memcached."""
    probe = ["php", "-r", "exit(class_exists('Memcached') ? 0 : 1);"]
    if not shutil.which("php") or subprocess.run(probe, check=False).returncode:
        pytest.fail("there is no php-memcached on this system")
    return ["php", "-r", PHP, "--"]


def cluster(members: Sequence[Memcached], weights: Sequence[int], query: str) -> str:
    """The URL of several servers."""
    words = [f"{m.name}*{w}" for m, w in zip(members, weights)]
    return f"memcached://{','.join(words)}{query}"


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 2, 3)])
@pytest.mark.parametrize("raw", [True, False])
def test_dalli_finds_ours_and_we_find_its(
    three: list[Memcached], weights: tuple[int, ...], raw: bool
) -> None:
    command = ruby()
    keys = random_keys()
    url = cluster(three, weights, "")
    spec = {
        "servers": [f"{m.name}:{w}" for m, w in zip(three, weights)],
        "options": {"compress": False},
        "keys": keys,
        "raw": raw,
    }
    assert client(command, spec) == [f"dalli/{key}" for key in keys]
    done = run("get", url, *keys)
    assert done.stdout.splitlines() == [f"dalli/{key}" for key in keys], done.stderr
    assert run("set", url, *(f"{key}=ours/{key}" for key in keys)).returncode == 0
    reads = DALLI.replace("client.set", "next; client.set")
    got = client(["ruby", "-e", reads, "--"], {**spec, "raw": True})
    assert got == [f"ours/{key}" for key in keys]
    assert sum(m.count() for m in three) == 200
    assert all(m.count() for m in three)


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 2, 3)])
def test_libmemcached_finds_ours_and_we_find_its(
    three: list[Memcached], weights: tuple[int, ...]
) -> None:
    command = php()
    keys = random_keys()
    url = cluster(three, weights, "?distribution=ketama")
    spec = {
        "servers": [[m.host, m.port, w] for m, w in zip(three, weights)],
        "keys": keys,
    }
    assert client(command, spec) == [f"php/{key}" for key in keys]
    done = run("get", url, *keys)
    assert done.stdout.splitlines() == [f"php/{key}" for key in keys], done.stderr
    assert run("set", url, *(f"{key}=ours/{key}" for key in keys)).returncode == 0
    reads = PHP.replace("foreach", "if (false) foreach")
    assert client(["php", "-r", reads, "--"], spec) == [f"ours/{key}" for key in keys]
    assert sum(m.count() for m in three) == 200


def test_another_distribution_is_another_place(
    three: list[Memcached], start_memcached: Callable[..., Memcached]
) -> None:
    keys = [str(i) for i in range(100)]
    assert run("set", cluster(three, (1, 1, 1), ""), *(f"{k}=p" for k in keys))
    done = run("get", cluster(three, (1, 1, 1), "?distribution=ketama"), *keys)
    assert done.returncode == 1
    assert 0 < len(done.stdout.splitlines()) < 100
    assert "not found" in done.stderr
