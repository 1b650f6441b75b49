"""export, and that import takes back what it prints."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from ctl_harness import PROGRAM, Ctl

from sendfilectl.contract import Record, encode
from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Item, Options, parse_url


def fill(ctl: Ctl, items: list[Item]) -> None:
    """Stores items as they are."""
    store = LmdbStore(parse_url(ctl.url), Options(write=True, create=True))
    store.put(items)
    store.close()


def records() -> list[Item]:
    """Records with everything that the formats have to quote."""
    return [
        (b"1", b"plain/path.jpg"),
        (b"2", b'with,comma "and" quotes;'),
        (b"3", b" leading and trailing "),
        (b"4", "日本/語.txt".encode()),
        (b"5", b"bytes/\xff\xfe\x80"),
        (b"\xff\xfe", b"key"),
        (b"7", encode(Record(b"{brace"))),
        (b"8", encode(Record(b"r", type="a/b", name='日,"本"', disposition="inline"))),
        (b"9", encode(Record(b"r", headers={"ETag": '"é,"', "Link": "x"}, expires=0))),
        (b'"quoted"', b'"x"'),
        (b"#,a", b"#"),
    ]


@pytest.mark.parametrize("format", ["ndjson", "csv", "tsv"])
def test_round_trip(ctl: Ctl, tmp_path: Path, format: str) -> None:
    fill(ctl, records())
    file = tmp_path / f"out.{format}"
    done = ctl("export", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "exported 11 records\n"), done.stderr
    other = Ctl(tmp_path / "other")
    done = other("import", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert other.all() == dict(records()) == ctl.all()


@pytest.mark.parametrize("format", ["ndjson", "csv", "tsv"])
def test_round_trip_of_random_records(ctl: Ctl, tmp_path: Path, format: str) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    alphabet = [bytes([i]) for i in range(0x21, 0x100) if i not in (0x2F, 0x7F)]
    text = "ab,;\"'\\{}[]:日é "
    items: dict[bytes, bytes] = {}
    for _ in range(300):
        key = b"".join(rng.choices(alphabet, k=rng.randint(1, 20)))
        if rng.random() < 0.5:
            path = b"p" + b"".join(rng.choices(alphabet, k=rng.randint(1, 30)))
            items[key] = encode(Record(path))
            continue
        items[key] = encode(
            Record(
                ("p" + "".join(rng.choices(text, k=10))).encode(),
                name="".join(rng.choices(text, k=8)),
                type=rng.choice([None, "a/b"]),
                headers={"ETag": "".join(rng.choices(text, k=5))},
                expires=rng.choice([None, rng.randrange(1 << 31)]),
            )
        )
    fill(ctl, list(items.items()))
    file = tmp_path / f"out.{format}"
    assert ctl("export", "-o", str(file)).returncode == 0
    other = Ctl(tmp_path / "other")
    done = other("import", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert other.all() == items


def test_ndjson_holds_everything(ctl: Ctl, tmp_path: Path) -> None:
    items = [
        (b"1", b'{"path":"a","later":{"x":[1,null]}}'),
        (b"2", b'{"path":"a","id":"other"}'),
        (b"3", b'\x04\x08"\x06a'),
    ]
    fill(ctl, items)
    done = ctl("export", "--json")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == {"id": "1", "path": "a", "later": {"x": [1, None]}}
    assert set(lines[1]) == set(lines[2]) == {"id", "value_b64"}
    other = Ctl(tmp_path / "other")
    assert other("import", "-", input=done.stdout).returncode == 0
    assert other.all() == dict(items)


def test_csv_says_what_it_cannot_hold(ctl: Ctl) -> None:
    fill(ctl, [(b"1", b'{"path":"a","later":1}'), (b"2", b"b"), (b"3", b"..")])
    done = ctl("export", "--format", "csv")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["2,b,,,,,"]
    assert "1: no column for the field 'later': use --format ndjson" in done.stderr
    assert "2 records left out" in done.stderr


def test_output_file_is_complete_or_not_there(ctl: Ctl, tmp_path: Path) -> None:
    fill(ctl, [(b"1", b"a")])
    done = ctl("export", "-o", str(tmp_path / "none" / "f.csv"))
    assert done.returncode == 1
    assert "no such file or directory" in done.stderr
    umask = os.umask(0o027)
    try:
        assert ctl("export", "-o", str(tmp_path / "f.csv")).returncode == 0
    finally:
        os.umask(umask)
    assert (tmp_path / "f.csv").stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.csv", "ids"]
    assert ctl("export", "-o", "/dev/full").returncode == 1


def test_reader_that_goes_away(ctl: Ctl) -> None:
    fill(ctl, [(b"%d" % i, b"x" * 100) for i in range(20_000)])
    with subprocess.Popen(
        [*PROGRAM, "export", ctl.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"id": "0", "path": "%s"}\n' % (
            b"x" * 100
        )
        process.stdout.close()
        assert process.wait(120) == 1
        assert process.stderr.read() == b""


def test_full_stdout_is_an_error(ctl: Ctl) -> None:
    fill(ctl, [(b"1", b"a")])
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, "get", ctl.url, "1"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"no space left" in done.stderr
    assert b"Traceback" not in done.stderr
