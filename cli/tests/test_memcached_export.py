"""export from memcached: what its crawler lists."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ctl_harness import PROGRAM, TIMEOUT, Ctl, invoke, run, start, write_lines
from memcached_harness import Hang, Memcached, Scripted, by_command

KEYS = [b"1", b"a%20b", b"a%b", b"k=v", b"k&v?x", "é日".encode(), b"\xff\xfe", b'"'] + [
    b"x" * 250
]


def objects(text: str) -> list[dict[str, object]]:
    """The lines of an export, sorted."""
    found = [json.loads(line) for line in text.splitlines()]
    return sorted(found, key=lambda o: str(o.get("id")))


def test_keys_and_values_of_all_kinds(memcached: Memcached, tmp_path: Path) -> None:
    for key in KEYS:
        memcached.set(key, b"p/" + key[:3])
    memcached.set(b"json", b'{"path":"a","name":"n"}')
    memcached.set(b"ruby", b'\x04\x08I"\x06a\x06:\x06ET', 1)
    file = tmp_path / "out.ndjson"
    done = run("export", memcached.url, "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "exported 11 records\n"), done.stderr
    text = file.read_text()
    assert {"id": "json", "path": "a", "name": "n"} in objects(text)
    ruby = {"id": "ruby", "value_b64": "BAhJIgZhBjoGRVQ=", "flags": 1}
    assert ruby in objects(text)
    memcached.ask(b"flush_all")
    done = run("import", memcached.url, str(file))
    assert (done.returncode, done.stdout) == (0, "11 records stored\n"), done.stderr
    for key in KEYS:
        assert memcached.get(key) == (b"p/" + key[:3], 0)
    assert memcached.get(b"ruby") == (b'\x04\x08I"\x06a\x06:\x06ET', 1)


def test_into_lmdb(memcached: Memcached, ctl: Ctl) -> None:
    memcached.set(b"1", b"a")
    memcached.set(b"2", b'\x04\x08I"\x06b\x06:\x06ET', 1)
    exported = run("export", memcached.url).stdout
    assert ctl("import", "-", input=exported).stdout == "2 records stored\n"
    assert ctl.all() == {b"1": b"a", b"2": b"b"}
    back = ctl("export").stdout
    memcached.ask(b"flush_all")
    assert run("import", memcached.url, "-", input=back).returncode == 0
    assert memcached.get(b"2") == (b"b", 0)


def test_many_of_three_servers(three: list[Memcached], tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.csv", [f"{i},p/{i}" for i in range(30_000)])
    url = "memcached://" + ",".join(server.name for server in three)
    assert run("import", url, str(file)).returncode == 0
    done = run("export", url, "--format", "tsv")
    rows = done.stdout.splitlines()[1:]
    found = {line.split("\t")[0]: line.split("\t")[1] for line in rows}
    assert len(found) == len(rows)
    assert all(path == f"p/{key}" for key, path in found.items())
    # the crawler may pass over a few that are moved meanwhile, and that is said
    assert len(found) >= 29_900
    assert (len(found) == 30_000) == ("listed" not in done.stderr)


def test_csv_is_what_nginx_makes_of_it(memcached: Memcached) -> None:
    memcached.set(b"1", b'\x04\x08I"\x06a\x06:\x06ET', 1)
    memcached.set(b"2", b"\x04\x08i\x06", 1)
    done = run("export", memcached.url, "--format", "csv")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["1,a,,,,,"]
    assert "2: the value is an Integer in Ruby Marshal" in done.stderr


def test_keys_on_the_wrong_server_are_passed_over(three: list[Memcached]) -> None:
    url = "memcached://" + ",".join(server.name for server in three)
    for server in three:
        for i in range(30):
            server.set(b"%d" % i, server.name.encode())
    done = run("export", url)
    assert done.returncode == 0
    ids = sorted(int(str(o["id"])) for o in objects(done.stdout))
    assert ids == list(range(30))
    assert done.stderr.count("passed over that the distribution dalli has on") == 3


def test_expired_records_are_not_there(memcached: Memcached) -> None:
    memcached.set(b"1", b"a")
    memcached.set(b"2", b"b", expire=-1)
    assert objects(run("export", memcached.url).stdout) == [{"id": "1", "path": "a"}]


def test_empty_memcached(memcached: Memcached) -> None:
    done = run("export", memcached.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("option", "reason"),
    [("-X", "metadump not allowed"), ("-ono_lru_crawler", "lru crawler disabled")],
)
def test_list_that_is_switched_off(
    start_memcached: Callable[..., Memcached], option: str, reason: str, tmp_path: Path
) -> None:
    server = start_memcached(option)
    server.set(b"1", b"a")
    done = run("export", server.url, "-o", str(tmp_path / "out.csv"))
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"{server.name}: cannot list its keys: that takes memcached 1.4." in done.stderr
    )
    assert reason in done.stderr
    assert not (tmp_path / "out.csv").exists()
    assert run("verify", server.url, str(tmp_path)).returncode == 1


def test_one_server_of_three_is_down(three: list[Memcached], tmp_path: Path) -> None:
    """Half an export is worse than none."""
    url = "memcached://" + ",".join(server.name for server in three)
    assert run("set", url, *(f"{i}=p" for i in range(30))).returncode == 0
    three[2].stop()
    file = tmp_path / "out.csv"
    file.write_text("old")
    done = run("export", url, "-o", str(file))
    assert done.returncode == 1
    assert f"{three[2].name}: connection refused" in done.stderr
    assert file.read_text() == "old"


STATS = b"STAT curr_items 3\r\nEND\r\n"
BUSY = b"BUSY currently processing crawler request\r\n"
LIST = b"""key=1 exp=-1 la=1 cas=1 fetch=no cls=1 size=64
key=%62 exp=-1
key=a%20b exp=-1
END\r
"""


def test_crawler_that_is_busy_is_asked_again() -> None:
    script = by_command(
        stats=[STATS, STATS],
        lru_crawler=[BUSY, BUSY, LIST],
        get=[b"VALUE 1 0 1\r\na\r\nVALUE b 16 1\r\nc\r\nEND\r\n"],
    )
    with Scripted(script) as server:
        done = run("export", server.url)
    assert done.returncode == 0
    assert objects(done.stdout) == [
        {"id": "1", "path": "a"},
        {"id": "b", "value_b64": "Yw==", "flags": 16},
    ]
    assert f"{server.name}: 1 keys that are no IDs passed over" in done.stderr


def test_what_the_crawler_passed_over_is_said() -> None:
    script = by_command(
        stats=[STATS, STATS],
        lru_crawler=[b"key=1 exp=-1 size=64\nEND\r\n"],
        get=[b"VALUE 1 0 1\r\na\r\nEND\r\n"],
    )
    with Scripted(script) as server:
        done = run("export", server.url)
    assert (done.returncode, done.stdout) == (0, '{"id": "1", "path": "a"}\n')
    assert f"{server.name}: listed 1 of 3 records" in done.stderr


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"key=1 exp=-1 size=64\nkey=2", "closed the connection"),
        (b"key=1 size=x\nEND\r\n", "unexpected answer"),
        (b"HTTP/1.1 400 Bad Request\r\n", "unexpected answer: HTTP/1.1 400 Bad"),
        (b"x" * 5000, "unexpected answer: xxx"),
        (b"ERROR\r\n", "cannot list its keys"),
    ],
)
def test_list_that_is_broken(reply: bytes, reason: str) -> None:
    with Scripted(by_command(stats=[STATS], lru_crawler=[reply])) as server:
        code, said, error = invoke("export", server.url)
    assert (code, said) == (1, "")
    assert error.startswith(f"{server.name}: ")
    assert reason in error


def test_reader_that_goes_away(memcached: Memcached, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", [f"{i},{'x' * 100}" for i in range(20_000)])
    assert run("import", memcached.url, str(file)).returncode == 0
    with subprocess.Popen(
        [*PROGRAM, "export", memcached.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b'"path"' in process.stdout.readline()
        process.stdout.close()
        assert process.wait(120) == 1
        assert b"Traceback" not in process.stderr.read()


def test_sigint_while_a_server_hangs(tmp_path: Path) -> None:
    hang = Hang()
    words = ["-o", str(tmp_path / "f"), "--timeout", "1000"]
    with Scripted(hang) as server, start("export", server.url, *words) as process:
        assert hang.asked.wait(120)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "interrupted: nothing was changed" in said
    assert list(tmp_path.iterdir()) == []
