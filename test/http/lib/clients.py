"""Writing to memcached as applications do: with the clients that they use."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pylibmc  # type: ignore[import-untyped]

from .memcached import Memcached

TIMEOUT = 300.0

# the Debian package that a test needs for it
PACKAGES = {
    "dalli.rb": "ruby-dalli",
    "rails_cache.rb": "ruby-activesupport ruby-dalli",
    "memcached.php": "php-cli php-memcached",
}


class ClientFailed(Exception):
    """A client could not write; what it said is the message."""


def _run(script: str, task: Mapping[str, object]) -> str:
    interpreter = "php" if script.endswith(".php") else "ruby"
    program = shutil.which(interpreter)
    assert program, f"{interpreter} is missing: apt-get install {PACKAGES[script]}"
    done = subprocess.run(
        [program, str(Path(__file__).with_name(script))],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise ClientFailed(
            f"{done.stdout}{done.stderr} (apt-get install {PACKAGES[script]}?)"
        )
    return done.stdout


def _weights(
    servers: Sequence[Memcached], weights: Sequence[int] | None
) -> Sequence[int]:
    return weights if weights is not None else [1] * len(servers)


def _with_weights(
    servers: Sequence[Memcached], weights: Sequence[int] | None
) -> list[str]:
    return [
        f"{server.name}:{weight}"
        for server, weight in zip(servers, _weights(servers, weights), strict=True)
    ]


def dalli(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    weights: Sequence[int] | None = None,
    options: Mapping[str, object] | None = None,
    **set_options: object,
) -> dict[str, str]:
    """Write with Dalli.

    Args:
        servers: all that there are, also those that are dead.
        values: by key; str, numbers, lists.
        weights: of the servers; 1 by default.
        options: of Dalli::Client.new.
        set_options: of each set, such as raw.

    Returns:
        The name of the server of each key.

    Raises:
        ClientFailed: a key could not be written.
    """
    task = {
        "servers": _with_weights(servers, weights),
        "options": options or {},
        "values": values,
        "set": set_options,
    }
    found: dict[str, str] = json.loads(_run("dalli.rb", task))
    return found


def rails_cache(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    options: Mapping[str, object] | None = None,
    **write_options: object,
) -> str:
    """Write with Rails.cache.

    Args:
        servers: all that there are.
        values: by key.
        options: of MemCacheStore.new, such as namespace.
        write_options: of each write, such as expires_in, seconds.

    Returns:
        The version of ActiveSupport.

    Raises:
        ClientFailed: a key could not be written.
    """
    task = {
        "servers": [server.name for server in servers],
        "options": options or {},
        "values": values,
        "write": write_options,
    }
    return _run("rails_cache.rb", task).strip()


def php_memcached(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    weights: Sequence[int] | None = None,
    options: Mapping[str, object] | None = None,
) -> None:
    """Write with PHP's Memcached, the binding of libmemcached.

    Args:
        servers: all that there are.
        values: by key.
        weights: of the servers; 1 by default.
        options: constants of the class by name, such as OPT_COMPRESSION, and
            their values, by name if they are constants, too.

    Raises:
        ClientFailed: a key could not be written.
    """
    triples = [
        ["127.0.0.1", server.port, weight]
        for server, weight in zip(servers, _weights(servers, weights), strict=True)
    ]
    task = {"servers": triples, "options": options or {}, "values": values}
    _run("memcached.php", task)


def libmemcached(
    servers: Sequence[Memcached],
    values: Mapping[str, object],
    weights: Sequence[int] | None = None,
    min_compress_len: int = 0,
    **behaviors: object,
) -> None:
    """Write with pylibmc, another binding of libmemcached.

    Args:
        servers: all that there are.
        values: by key.
        weights: of the servers; 1 by default.
        min_compress_len: bytes from which values are compressed; 0 for never.
        behaviors: such as ketama_weighted.

    Raises:
        pylibmc.Error: a key could not be written.
    """
    client = pylibmc.Client(
        _with_weights(servers, weights), binary=False, behaviors=behaviors
    )
    for key, value in values.items():
        assert client.set(key, value, min_compress_len=min_compress_len), key
    client.disconnect_all()
