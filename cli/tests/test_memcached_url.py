"""What names memcached servers, and what does not."""

from __future__ import annotations

import pytest

from sendfilectl.cluster import parse_cluster
from sendfilectl.errors import UsageError
from sendfilectl.ring import Server
from sendfilectl.stores import parse_url


@pytest.mark.parametrize(
    ("text", "servers", "distribution"),
    [
        ("memcached://127.0.0.1", [Server("127.0.0.1", 11211)], "dalli"),
        ("memcached://h1:11300", [Server("h1", 11300)], "dalli"),
        ("memcached://[::1]:11300", [Server("::1", 11300)], "dalli"),
        ("memcached://[fe80::1]", [Server("fe80::1", 11211)], "dalli"),
        ("memcached:/run/m.sock", [Server("/run/m.sock", 0)], "dalli"),
        ("memcached:///run/m.sock", [Server("/run/m.sock", 0)], "dalli"),
        (
            "memcached://h1:11211*2,h2,h3:11212?distribution=ketama",
            [Server("h1", 11211, 2), Server("h2", 11211), Server("h3", 11212)],
            "ketama",
        ),
        (
            "memcached:/run/a*3,/run/b?distribution=dalli",
            [Server("/run/a", 0, 3), Server("/run/b", 0)],
            "dalli",
        ),
        (
            "memcached://h_1,/run/b,[::1]*1000",
            [Server("h_1", 11211), Server("/run/b", 0), Server("::1", 11211, 1000)],
            "dalli",
        ),
    ],
)
def test_servers(text: str, servers: list[Server], distribution: str) -> None:
    assert parse_url(text).scheme == "memcached"
    cluster = parse_cluster(text)
    assert list(cluster.servers) == servers
    assert cluster.distribution == distribution


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("memcached:", "write memcached://host[:port] or memcached:/unix/socket"),
        ("memcached:h1", "write memcached://host[:port]"),
        ("memcached://", "an empty place for a server"),
        ("memcached://h1,", "an empty place for a server"),
        ("memcached:///", "no path of a socket"),
        ("memcached:////run/a", "no path of a socket"),
        ("memcached://h1/x", "something after the host"),
        ("memcached://h1:0", "a number from 1 to 65535"),
        ("memcached://h1:65536", "a number from 1 to 65535"),
        ("memcached://h1:", "a number from 1 to 65535"),
        ("memcached://h1:1x", "a number from 1 to 65535"),
        ("memcached://::1", "write memcached://[::1]:port"),
        ("memcached://[::1", "bad IPv6 address"),
        ("memcached://[1]", "bad IPv6 address"),
        ("memcached://[::1]x", "bad IPv6 address"),
        ("memcached://a b", "bad host"),
        ("memcached://h1*0", "a number from *1 to *1000"),
        ("memcached://h1*1001", "a number from *1 to *1000"),
        ("memcached://h1*", "a number from *1 to *1000"),
        ("memcached:/run/a,b", "write memcached:///run/a,b, two slashes more"),
        ("memcached:/" + "x" * 107, "over 107 bytes"),
        ("memcached://h1?", "write ?distribution=dalli"),
        ("memcached://h1?distribution=modula", "or ?distribution=ketama"),
        ("memcached://h1?weight=2", "write ?distribution=dalli"),
        ("memcached://" + ",".join(["h"] * 4097), "at most 4096"),
        ("memcached://h1\n", "control byte"),
    ],
)
def test_no_servers_say_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(text)
    assert hint in str(caught.value)


def test_names() -> None:
    assert Server("h1", 11211).name == "h1:11211"
    assert Server("::1", 5).name == "[::1]:5"
    assert Server("/run/a", 0).name == "/run/a"
