"""set, get, del, scan and verify with real memcached processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ctl_harness import Ctl, invoke, run
from memcached_harness import Memcached
from ports import free_port

from sendfilectl.memcached_store import MemcachedStore
from sendfilectl.stores import Options, Outcome, parse_url


def test_set_and_get_a_path(memcached: Memcached) -> None:
    done = run("set", memcached.url, "297887", "29/7887.jpg")
    assert (done.returncode, done.stdout) == (0, "stored 1 record\n"), done.stderr
    assert memcached.get(b"297887") == (b"29/7887.jpg", 0)
    assert memcached.ttl(b"297887") == -1
    done = run("get", memcached.url, "297887")
    assert (done.returncode, done.stdout, done.stderr) == (0, "29/7887.jpg\n", "")


def test_a_record_is_stored_as_raw_json(memcached: Memcached) -> None:
    words = ["7", "docs/7.pdf", "--name", "報告書.pdf", "--header", "ETag: x"]
    assert run("set", memcached.url, *words).returncode == 0
    assert memcached.get(b"7") == (
        '{"path":"docs/7.pdf","name":"報告書.pdf","headers":{"ETag":"x"}}'.encode(),
        0,
    )
    done = run("get", memcached.url, "7", "--json")
    assert json.loads(done.stdout)["records"] == [
        {
            "id": "7",
            "path": "docs/7.pdf",
            "name": "報告書.pdf",
            "headers": {"ETag": "x"},
        }
    ]


def test_get_and_del_say_what_is_missing(memcached: Memcached) -> None:
    assert run("set", memcached.url, "1", "a", "3", "c").returncode == 0
    done = run("get", memcached.url, "3", "2", "a b", "1")
    assert (done.returncode, done.stdout) == (1, "c\na\n")
    assert "2: not found" in done.stderr
    assert "a b: the ID holds a space" in done.stderr
    done = run("del", memcached.url, "1", "2", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"ok": False, "deleted": 1, "missing": ["2"]}
    assert memcached.get(b"1") is None
    assert run("del", memcached.url, "3").stdout == "deleted 1 record\n"
    assert memcached.count() == 0


@pytest.mark.parametrize("sockets", [1, 3])
def test_unix_sockets(
    start_memcached: Callable[..., Memcached], tmp_path: Path, sockets: int
) -> None:
    servers = [start_memcached(unix=tmp_path / f"m{i}.sock") for i in range(sockets)]
    url = "memcached:" + ",".join(server.name for server in servers)
    pairs = [f"{i}=p/{i}" for i in range(60)]
    assert run("set", url, *pairs).returncode == 0
    done = run("get", url, *(str(i) for i in range(60)))
    assert done.stdout.splitlines() == [f"p/{i}" for i in range(60)]
    assert all(server.count() for server in servers)


def test_ipv6(start_memcached: Callable[..., Memcached]) -> None:
    server = start_memcached(host="::1")
    assert server.url.startswith("memcached://[::1]:")
    assert run("set", server.url, "1", "a").returncode == 0
    assert server.get(b"1") == (b"a", 0)


def test_every_address_of_a_name_is_tried(memcached: Memcached) -> None:
    """localhost is ::1 first on many machines, where nobody may listen."""
    url = f"memcached://localhost:{memcached.port}"
    assert run("set", url, "1", "a").returncode == 0
    assert run("get", url, "1").stdout == "a\n"


def test_keys_are_on_one_server_each(three: list[Memcached]) -> None:
    url = "memcached://" + ",".join(server.name for server in three)
    pairs = [f"{i}=p/{i}" for i in range(300)]
    assert run("set", url, *pairs).returncode == 0
    assert sum(server.count() for server in three) == 300
    assert all(server.count() > 50 for server in three)
    done = run("get", url, *(str(i) for i in range(300)))
    assert done.stdout.splitlines() == [f"p/{i}" for i in range(300)]
    done = run("del", url, *(str(i) for i in range(300)))
    assert done.stdout == "deleted 300 records\n"
    assert sum(server.count() for server in three) == 0


def test_ttl(memcached: Memcached) -> None:
    for ttl in (100, 30 * 86400, 30 * 86400 + 1, 10 * 365 * 86400):
        assert invoke("set", memcached.url, "1", "a", "--ttl", str(ttl))[0] == 0
        # memcached's clock has whole seconds, and may be a second late
        assert ttl - 60 <= memcached.ttl(b"1") <= ttl + 2
    assert run("set", memcached.url, "1", "a").returncode == 0
    assert memcached.ttl(b"1") == -1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["set", "lmdb:/x", "1", "a", "--ttl", "5"], "a record has --expires"),
        (["get", "lmdb:/x", "1", "--timeout", "5"], "is for a store in memcached"),
        (["export", "lmdb:/x", "--connect-timeout", "1"], "is for a store in memc"),
        (["set", "memcached://h", "1", "a", "--group", "root"], "a store in LMDB"),
        (["set", "memcached://h", "1", "a", "--single-file"], "a store in LMDB"),
        (["import", "memcached://h", "-", "--mode", "660"], "a store in LMDB"),
        (["set", "memcached://h", "1", "a", "--ttl", "0"], "--ttl"),
        (["set", "memcached://h", "1", "a", "--ttl", "4000000000"], "too long"),
        (["get", "memcached://h", "1", "--timeout", "0"], "--timeout"),
        (["publish", "memcached://h"], "publish needs a store in LMDB"),
    ],
)
def test_options_of_another_store(words: list[str], hint: str) -> None:
    code, said, error = invoke(*words)
    assert (code, said) == (2, "")
    assert hint in error


def test_what_nginx_would_refuse_is_refused(memcached: Memcached) -> None:
    for words, reason in (
        (["1", "../a"], "1: the path has a '..' segment"),
        (["x" * 251, "a"], "the ID has 251 bytes: at most 250 are allowed"),
        (["a b", "x"], "the ID holds a space"),
        (["1\r\nflush_all", "x"], "the ID holds the byte 0x0d"),
    ):
        code, said, error = invoke("set", memcached.url, *words)
        assert (code, said) == (1, "")
        assert reason in error
    assert memcached.count() == 0
    assert run("set", memcached.url, "x" * 250, "a").returncode == 0
    assert memcached.get(b"x" * 250) == (b"a", 0)


def test_bytes_that_are_not_utf8(memcached: Memcached) -> None:
    assert run("set", memcached.url, b"\xfe", b"a/\xff.jpg").returncode == 0
    assert memcached.get(b"\xfe") == (b"a/\xff.jpg", 0)
    assert run("get", memcached.url, b"\xfe").stdout == "a/\udcff.jpg\n"


def test_value_that_the_server_does_not_take(
    start_memcached: Callable[..., Memcached],
) -> None:
    server = start_memcached("-I", "64k", "-o", "slab_chunk_max=64")
    store = MemcachedStore(parse_url(server.url), Options(write=True))
    outcome = Outcome(3)
    store.put([(b"1", b"a"), (b"2", b"x" * 65_536), (b"3", b"c")], outcome)
    assert (list(outcome.stored), outcome.count(), outcome.up_to()) == ([1, 0, 1], 2, 1)
    said = f"{server.name} says SERVER_ERROR object too large for cache"
    assert {i: str(e) for i, e in outcome.errors.items()} == {1: said}
    assert store.get([b"1", b"2", b"3"]) == [b"a", None, b"c"]
    store.close()
    large = json.dumps({"path": "a", "headers": {"Link": "x" * 65_470}})
    words = ["set", server.url, "2", "-"]
    done = run(*words, input=large)
    assert (done.returncode, done.stdout) == (1, "stored 0 records\n")
    assert done.stderr == f"sendfilectl: 2: not stored: {said}\n"
    done = run(*words, "--json", input=large)
    assert json.loads(done.stdout) == {
        "ok": False,
        "stored": 0,
        "errors": [{"id": "2", "error": said}],
    }


def test_store_by_itself(memcached: Memcached) -> None:
    store = MemcachedStore(parse_url(memcached.url), Options(write=True))
    outcome = Outcome(3)
    store.put([(b"1", b"a"), (b"2", b"b"), (b"1", b"last")], outcome)
    assert (outcome.count(), outcome.up_to(), outcome.errors) == (3, 3, {})
    assert store.get([b"1", b"0", b"2", b"1"]) == [b"last", None, b"b", b"last"]
    assert store.delete([b"0", b"2"]) == [False, True]
    assert store.count() == 1
    assert store.url == memcached.url
    store.close()


def test_scan_and_verify(memcached: Memcached, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for i in range(3):
        (files / f"photo-{i}.jpg").write_text("x")
    done = run("scan", memcached.url, str(files))
    assert (done.returncode, done.stdout) == (0, "3 files stored\n"), done.stderr
    assert memcached.get(b"2") == (b"photo-2.jpg", 0)
    assert (
        run("verify", memcached.url, str(files)).stdout == "checked 3 records, 0 bad\n"
    )
    (files / "photo-1.jpg").unlink()
    done = run("verify", memcached.url, str(files))
    assert done.returncode == 1
    assert done.stdout == "1\tphoto-1.jpg\tno such file or directory\n"


def test_scan_says_which_files_are_not_stored(
    tmp_path: Path, memcached: Memcached
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for i in range(40):
        (files / f"{i}.jpg").write_text("x")
    url = f"{memcached.url},127.0.0.1:{free_port()}"
    done = run("scan", url, str(files), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["ok"] is False
    assert result["stored"] == memcached.count()
    assert 0 < result["stored"] < 40
    assert len(result["errors"]) == 40 - result["stored"]
    assert "connection refused" in result["errors"][0]["error"]


def test_help_says_how_to_name_servers(ctl: Ctl) -> None:
    for command in ("set", "get", "import", "export"):
        code, text, _ = invoke(command, "--help")
        assert code == 0
        assert f"sendfilectl {command} " in text
        assert "memcached://" in text
        assert "--timeout" in text
