"""Servers that are down, hang, or answer nonsense."""

from __future__ import annotations

import json
import signal
import socket
import time

import pytest
from ctl_harness import TIMEOUT, invoke, run, start
from memcached_harness import Hang, Memcached, Scripted, reply_once
from ports import free_port

from sendfilectl.errors import StoreError
from sendfilectl.memcached_store import MemcachedStore
from sendfilectl.stores import Options, Outcome, parse_url

COMMANDS = (["get", "1"], ["set", "1", "a"], ["del", "1"])


def test_server_that_is_down() -> None:
    port = free_port()
    url = f"memcached://127.0.0.1:{port}"
    for command, *words in COMMANDS:
        done = run(command, url, *words)
        assert (done.returncode, done.stdout) == (1, "")
        said = f"sendfilectl: 127.0.0.1:{port}: connection refused\n"
        assert done.stderr == said
        done = run(command, url, *words, "--json")
        assert (
            json.loads(done.stdout)["error"] == f"127.0.0.1:{port}: connection refused"
        )
    for command in ("export", "verify"):
        done = run(command, url, *(["/"] if command == "verify" else []))
        assert (done.returncode, done.stdout) == (1, "")
        assert "connection refused" in done.stderr


def test_names_and_sockets_that_are_not_there() -> None:
    done = run("get", "memcached://no-such-host.invalid", "1")
    assert done.returncode == 1
    assert "no-such-host.invalid:11211: " in done.stderr
    assert "Traceback" not in done.stderr
    done = run("get", "memcached:/no/such.sock", "1")
    assert done.returncode == 1
    assert "/no/such.sock: no such file or directory" in done.stderr


@pytest.mark.parametrize("distribution", ["dalli", "ketama"])
def test_one_of_three_is_down_and_nothing_goes_elsewhere(
    three: list[Memcached], distribution: str
) -> None:
    names = ",".join(server.name for server in three)
    url = f"memcached://{names}?distribution={distribution}"
    pairs = [f"{i}=old/{i}" for i in range(90)]
    assert run("set", url, *pairs).returncode == 0
    shares = [server.count() for server in three]
    three[1].stop()
    up = shares[0] + shares[2]
    ids = [str(i) for i in range(90)]

    done = run("get", url, *ids, "--json")
    assert done.returncode == 1
    records = json.loads(done.stdout)["records"]
    lost = [r["id"] for r in records if "error" in r]
    assert len(lost) == shares[1]
    refused = f"{three[1].name}: connection refused"
    assert {r["error"] for r in records if "error" in r} == {refused}
    assert f"{lost[0]}: {refused}" in done.stderr

    done = run("set", url, *(f"{i}=new/{i}" for i in range(90)))
    assert (done.returncode, done.stdout) == (1, f"stored {up} records\n")
    assert f"{lost[0]}: not stored: {refused}" in done.stderr
    assert len(done.stderr.splitlines()) == shares[1]
    assert three[0].count() + three[2].count() == up

    done = run("del", url, *ids, "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert (result["deleted"], result["missing"]) == (up, [])
    assert [e["id"] for e in result["errors"]] == lost


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unexpected answer: HTTP/1.1 400"),
        (b"STORED\r\nSTORED\r\n", "unexpected answer: STORED"),
        (b"STORED\r\nxyz", "unexpected answer: xyz"),
        (b"ERROR\r\n", "unexpected answer: ERROR"),
        (b"CLIENT_ERROR unauthenticated\r\n", "CLIENT_ERROR unauthenticated"),
        (b"STOR", "closed the connection"),
        (b"\x00\xff\r\n", "unexpected answer: \\x00\\xff"),
        (b"x" * 3000, "unexpected answer: xxx"),
    ],
)
def test_nonsense_after_set(reply: bytes, reason: str) -> None:
    with Scripted(reply_once(reply)) as server:
        code, said, error = invoke("set", server.url, "1", "a")
    assert (code, said) == (1, "")
    assert error.startswith(f"{server.name}: ")
    assert reason in error


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"VALUE 2 0 1\r\na\r\nEND\r\n", "unexpected answer: 2"),
        (b"VALUE 1 0 x\r\na\r\nEND\r\n", "unexpected answer: "),
        (b"VALUE 1\r\nEND\r\n", "unexpected answer: "),
        (b"VALUE 1 0 5\r\nab", "closed the connection"),
        (b"SERVER_ERROR out of memory\r\n", "says SERVER_ERROR out of memory"),
        (b"ERROR\r\n", "unexpected answer: ERROR"),
        (b"hello\r\n", "unexpected answer: hello"),
    ],
)
def test_nonsense_after_get(reply: bytes, reason: str) -> None:
    with Scripted(reply_once(reply)) as server:
        code, said, error = invoke("get", server.url, "1")
    assert (code, said) == (1, "")
    assert error.startswith(f"{server.name}: ")
    assert reason in error


def test_error_for_one_command_of_several() -> None:
    reply = b"DELETED\r\nSERVER_ERROR odd\r\nNOT_FOUND\r\n"

    with Scripted(reply_once(reply)) as server:
        code, said, error = invoke("del", server.url, "1", "2", "3")
    assert (code, said) == (1, "deleted 1 record\n")
    assert f"2: not deleted: {server.name} says SERVER_ERROR odd" in error
    assert "3: not found" in error


def test_timeouts() -> None:
    with Scripted(Hang()) as server:
        for command, *words in COMMANDS:
            started = time.monotonic()
            code, _, error = invoke(command, server.url, *words, "--timeout", "0.2")
            assert code == 1
            assert f"{server.name}: no answer within 0.2 s" in error
            assert time.monotonic() - started < 60


def test_connect_timeout() -> None:
    """A server that takes no more connections, not even refuses them."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        url = f"memcached://127.0.0.1:{address[1]}"
        done = run("get", url, "1", "--connect-timeout", "0.2")
        for filler in fillers:
            filler.close()
    assert done.returncode == 1
    assert "no connection within 0.2 s" in done.stderr


def test_sigint_while_a_server_hangs() -> None:
    hang = Hang()
    with (
        Scripted(hang) as server,
        start("set", server.url, "1", "a", "--timeout", "1000") as process,
    ):
        assert hang.asked.wait(120)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert said == "sendfilectl: interrupted: 0 records stored\n"


def test_lost_server_is_not_asked_again(memcached: Memcached) -> None:
    store = MemcachedStore(parse_url(memcached.url), Options(write=True))
    store.put([(b"1", b"a")])
    memcached.stop()
    outcome = Outcome(1)
    with pytest.raises(StoreError, match=memcached.name) as first:
        store.put([(b"2", b"b")], outcome)
    assert (outcome.count(), outcome.errors) == (0, {})
    with pytest.raises(StoreError) as second:
        store.get([b"1"])
    assert str(first.value) == str(second.value)
    store.close()
