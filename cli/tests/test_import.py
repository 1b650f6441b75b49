"""import: formats, bad lines, batches."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from ctl_harness import Ctl, read_all, run, write_lines

from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Options, parse_url

RECORDS = {
    b"1": b"a/b.jpg",
    b"2": '{"path":"c.pdf","type":"application/pdf","name":"日本, \\"x\\".pdf",'
    '"disposition":"attachment","headers":{"ETag":"e"},"expires":9}'.encode(),
}
CSV = [
    "1,a/b.jpg",
    '2,c.pdf,application/pdf,"日本, ""x"".pdf",attachment,9,"{""ETag"":""e""}"',
]
TSV = [
    "1\ta/b.jpg",
    '2\tc.pdf\tapplication/pdf\t日本, "x".pdf\tattachment\t9\t{"ETag":"e"}',
]
NDJSON = [
    '{"id":1,"path":"a/b.jpg"}',
    (
        '{"id":"2","path":"c.pdf","type":"application/pdf","name":"日本, \\"x\\".pdf",'
        '"disposition":"attachment","headers":{"ETag":"e"},"expires":9}'
    ),
]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("f.csv", CSV),
        ("f.tsv", TSV),
        ("f.ndjson", NDJSON),
        ("f.txt", TSV),
        ("f.txt", NDJSON),
    ],
)
def test_formats(ctl: Ctl, tmp_path: Path, name: str, lines: list[str]) -> None:
    done = ctl("import", str(write_lines(tmp_path / name, lines)))
    assert (done.returncode, done.stdout) == (0, "2 records stored\n"), done.stderr
    assert ctl.all() == RECORDS


def test_header_names_the_columns(ctl: Ctl, tmp_path: Path) -> None:
    lines = ["\ufeffName,ID,created,Path\r", "n.jpg,5,2020,x/y\r", ",6,2020,z\r"]
    done = ctl("import", str(write_lines(tmp_path / "f.csv", lines)))
    assert done.returncode == 0
    assert "columns that are ignored: created" in done.stderr
    assert ctl.all() == {b"5": b'{"path":"x/y","name":"n.jpg"}', b"6": b"z"}


def test_stdin_without_a_last_newline(ctl: Ctl) -> None:
    done = ctl("import", "-", input="\n\n1,a\n2,b")
    assert (done.returncode, done.stdout) == (0, "2 records stored\n")
    assert ctl.all() == {b"1": b"a", b"2": b"b"}


def test_format_that_cannot_be_told(ctl: Ctl) -> None:
    done = ctl("import", "-", input="1 a\n")
    assert done.returncode == 2
    assert "add --format csv|tsv|ndjson" in done.stderr
    assert ctl("import", "-", "--format", "xml", input="1 a\n").returncode == 2


def test_format_option_wins(ctl: Ctl, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", ['{"id":1,"path":"a,b"}'])
    assert ctl("import", str(file), "--format", "ndjson").returncode == 0
    assert ctl.all() == {b"1": b"a,b"}


def test_bad_csv_lines_lose_no_good_ones(ctl: Ctl, tmp_path: Path) -> None:
    lines: list[str | bytes] = [
        "1,good/1",
        "2,../bad",
        '3,"unclosed',
        "4,good/4",
        "5",
        "bad id,x",
        '7,"good ""7"""',
        b"8,\xff",
        b"9,x,\xff",
        "10,x,,,,never",
        "11,x,,,,,[]",
        "12,a,,,,,,,",
        "13," + "x" * (1 << 20),
        '14,x"y',
        ",good",
        "16,good/16",
    ]
    file = write_lines(tmp_path / "f.csv", lines)
    done = ctl("import", str(file))
    assert done.returncode == 1
    assert done.stdout == "6 records stored, 10 bad lines passed over\n"
    assert ctl.all() == {
        b"1": b"good/1",
        b"4": b"good/4",
        b"7": b'good "7"',
        b"8": b"\xff",
        b"14": b'x"y',
        b"16": b"good/16",
    }
    said = done.stderr.splitlines()
    for line, reason in (
        (2, "the path has a '..' segment"),
        (3, "broken CSV"),
        (5, "1 columns: expected id path"),
        (6, "the ID holds a space"),
        (9, "'type' is not UTF-8"),
        (10, "'expires' is not a number of Unix seconds"),
        (11, "the JSON is not an object"),
        (12, "9 columns"),
        (13, "the line is longer than 1048576 bytes"),
        (15, "the ID is empty"),
    ):
        assert any(s.startswith(f"{file}:{line}: {reason}") for s in said), (line, said)
    assert len(said) == 10


def test_bad_ndjson_lines_lose_no_good_ones(ctl: Ctl, tmp_path: Path) -> None:
    lines = [
        '{"id":1,"path":"a"}',
        '{"id":2,"path":"a"',
        '{"id":3}',
        '{"path":"a"}',
        '{"id":true,"path":"a"}',
        '{"id":6.5,"path":"a"}',
        '{"id":7,"path":"a","path_b64":"YQ=="}',
        '{"id":8,"path_b64":"!"}',
        '{"id":9,"value_b64":"Li4="}',
        '{"id":10,"path_b64":"YS//"}',
        '{"id":11,"value_b64":"BAgiBmE="}',
        '{"id":12,"path":"b","type":null}',
        "[]",
        '{"id":14,"value_b64":"BAgi"}',
        '{"id":15,"value_b64":"YQ==","flags":"1"}',
        '{"id":16,"value_b64":"BAgiBmE=","flags":1}',
    ]
    done = ctl("import", str(write_lines(tmp_path / "f.ndjson", lines)), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["stored"] == 5
    bad = [2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15]
    assert [e["line"] for e in result["errors"]] == bad
    assert result["bad"] == 11
    assert result["lines"] == 16
    assert "'id' is missing" in result["errors"][2]["error"]
    assert ctl.all() == {
        b"1": b"a",
        b"10": b"a/\xff",
        b"11": b'\x04\x08"\x06a',
        b"12": b"b",
        # LMDB has no flags, so this one is stored as what it means
        b"16": b"a",
    }


def test_last_of_an_id_counts_and_import_adds(ctl: Ctl) -> None:
    ctl.do("set", "1", "old", "9", "stays")
    ctl("import", "-", input="1,x\n2,b\n1,new\n")
    assert ctl.all() == {b"1": b"new", b"2": b"b", b"9": b"stays"}


def test_dry_run_stores_nothing(ctl: Ctl) -> None:
    done = ctl("import", "-", "--dry-run", input="1,a\n2,/b\n")
    assert done.returncode == 1
    assert done.stdout == "1 record would be stored, 1 bad line passed over\n"
    assert "stdin:2: the path is absolute" in done.stderr
    assert not ctl.path.exists()


def test_file_that_cannot_be_read(ctl: Ctl, tmp_path: Path) -> None:
    done = ctl("import", str(tmp_path / "none.csv"))
    assert done.returncode == 1
    assert f"{tmp_path}/none.csv: no such file or directory" in done.stderr
    done = ctl("import", str(tmp_path))
    assert done.returncode == 1
    assert "is a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_empty_input_makes_an_empty_store(ctl: Ctl) -> None:
    assert ctl("import", "-", input="").stdout == "0 records stored\n"
    assert ctl.all() == {}


def test_several_batches(ctl: Ctl, tmp_path: Path) -> None:
    lines = [f"{i},d/{i}" for i in range(25_001)]
    ctl.json("import", str(write_lines(tmp_path / "f.csv", lines)))
    assert ctl.all() == {b"%d" % i: b"d/%d" % i for i in range(25_001)}


def test_map_that_is_full_is_made_larger(tmp_path: Path) -> None:
    url = parse_url(f"lmdb:{tmp_path}/ids")
    store = LmdbStore(url, Options(write=True, create=True), map_size=1 << 20)
    items = [(b"%d" % i, b"x" * 500) for i in range(20_000)]
    store.put(items)
    assert store.delete([b"0", b"none"]) == [True, False]
    store.close()
    assert (tmp_path / "ids" / "data.mdb").stat().st_size > 8 << 20
    assert read_all(tmp_path / "ids") == dict(items[1:])


def test_quoted_header_and_json_extension(ctl: Ctl, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.CSV", ['"id","path"', '"1","a,b"'])
    assert ctl("import", str(file)).returncode == 0
    file = write_lines(tmp_path / "f.jsonl", ["", '{"path":"c","id":"2"}'])
    assert ctl("import", str(file)).returncode == 0
    assert ctl.all() == {b"1": b"a,b", b"2": b"c"}


def test_column_twice_in_the_header(ctl: Ctl) -> None:
    done = ctl("import", "-", input="id,path,id\n1,a,2\n")
    assert done.returncode == 1
    assert "stdin:1: the column 'id' is there twice" in done.stderr


@pytest.mark.slow
def test_a_million_lines(ctl: Ctl, tmp_path: Path) -> None:
    lines = [f"{i},{i % 256:02x}/{i}/photo-{i}.jpg" for i in range(1_000_000)]
    random.Random(1).shuffle(lines)
    file = write_lines(tmp_path / "f.csv", lines)
    result = json.loads(run("import", ctl.url, str(file), "--json").stdout)
    print(f"1,000,000 lines in {result['seconds']} s")
    assert result["stored"] == 1_000_000
    assert ctl.all() == {
        b"%d" % i: f"{i % 256:02x}/{i}/photo-{i}.jpg".encode() for i in range(1_000_000)
    }
