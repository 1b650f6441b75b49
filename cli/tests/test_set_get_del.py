"""set, get and del."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ctl_harness import Ctl, invoke, run

from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Options, parse_url


def test_set_and_get_a_path(ctl: Ctl) -> None:
    done = ctl("set", "297887", "29/7887.jpg")
    assert (done.returncode, done.stdout) == (0, "stored 1 record\n")
    assert ctl.all() == {b"297887": b"29/7887.jpg"}
    done = ctl("get", "297887")
    assert (done.returncode, done.stdout, done.stderr) == (0, "29/7887.jpg\n", "")


@pytest.mark.parametrize("words", [("1", "a", "2", "b=c"), ("1=a", "2=b=c")])
def test_set_several(ctl: Ctl, words: tuple[str, ...]) -> None:
    assert ctl("set", *words).stdout == "stored 2 records\n"
    assert ctl.all() == {b"1": b"a", b"2": b"b=c"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["1"], "no path for the ID '1'"),
        (["1", "a", "2"], "no path for the ID '2'"),
        (["1=a", "2"], "write either ID PATH or ID=PATH"),
        (["1", "a", "2", "b", "--name", "n"], "one ID only"),
        (["1", "a", "--disposition", "save"], "write inline or attachment"),
        (["1", "a", "--header", "nonsense"], "write 'Name: value'"),
        (["1", "a", "--header", "Set-Cookie: a=b"], "nginx takes only Cache-Control"),
        (["1", "a", "--expires", "soon"], "+7d"),
        (["1", "a", "--group", "no-such-group"], "no such group"),
        (["1", "a", "--mode", "rw"], "octal mode"),
        (["1", "a", "--value", "{}"], "one ID and no path"),
        (["1", "--value", "{}", "--name", "n"], "takes no --name"),
    ],
)
def test_set_usage_errors(ctl: Ctl, words: list[str], hint: str) -> None:
    code, said, error = invoke("set", ctl.url, *words)
    assert (code, said) == (2, "")
    assert hint in error
    assert not ctl.path.exists()


def test_set_a_record(ctl: Ctl) -> None:
    done = ctl(
        "set",
        *("7", "docs/7.pdf", "--name", "報告書.pdf", "--type", "application/pdf"),
        *("--disposition", "attachment", "--header", "Cache-Control: max-age=60"),
        *("--header", 'ETag:"x"', "--expires", "2030-01-31T12:00:00Z"),
    )
    assert done.returncode == 0, done.stderr
    assert (
        ctl.all()[b"7"]
        == (
            '{"path":"docs/7.pdf","type":"application/pdf","name":"報告書.pdf",'
            '"disposition":"attachment","headers":{"Cache-Control":"max-age=60",'
            '"ETag":"\\"x\\""},"expires":1896091200}'
        ).encode()
    )
    assert ctl("get", "7").stdout == "docs/7.pdf\n"
    assert ctl.json("get", "7")["records"] == [
        {
            "id": "7",
            "path": "docs/7.pdf",
            "type": "application/pdf",
            "name": "報告書.pdf",
            "disposition": "attachment",
            "headers": {"Cache-Control": "max-age=60", "ETag": '"x"'},
            "expires": 1896091200,
        }
    ]


def test_set_expires_from_now(ctl: Ctl) -> None:
    before = int(time.time())
    ctl.do("set", "1", "a", "--expires", "+2h")
    expires = json.loads(ctl.all()[b"1"])["expires"]
    assert before + 7200 <= expires <= time.time() + 7200


def test_set_a_whole_record(ctl: Ctl) -> None:
    value = ' { "path": "a", "type": null, "headers": {"Set-Cookie": "a"} } '
    done = ctl("set", "a=b", "--value", value)
    assert done.returncode == 0
    assert "nginx ignores the header 'Set-Cookie'" in done.stderr
    done = ctl("set", "2", "-", input='{"path":"b","name":"n"}\n')
    assert done.returncode == 0
    assert ctl("set", "3", "-", input="c/d\n").returncode == 0
    assert ctl.all() == {
        b"a=b": b'{"path":"a","headers":{"Set-Cookie":"a"}}',
        b"2": b'{"path":"b","name":"n"}',
        b"3": b"c/d",
    }


def test_set_refuses_and_says_the_rule(ctl: Ctl) -> None:
    assert ctl("set", "0", "good").returncode == 0
    for words, reason in (
        (["1", "../../etc/passwd"], "1: the path has a '..' segment"),
        (["1", "/etc/passwd"], "1: the path is absolute: write it relative"),
        (["a b", "x"], "the ID holds a space"),
        (["1", "good", "2", "a//b"], "2: the path has an empty segment"),
        (["1", "--value", '{"path":"a'], "1: broken JSON"),
        (["1", "--value", '{"name":"a"}'], "1: 'path' is missing"),
        (["1", "a", "--name", "a\nb"], "'name' holds the control byte 0x0a"),
    ):
        code, said, error = invoke("set", ctl.url, *words)
        assert (code, said) == (1, "")
        assert reason in error
    assert ctl.all() == {b"0": b"good"}


def test_set_replaces(ctl: Ctl) -> None:
    ctl.do("set", "1", "a", "1", "b")
    assert ctl.all() == {b"1": b"b"}
    ctl.do("set", "1", "c")
    assert ctl.all() == {b"1": b"c"}


def test_bytes_that_are_not_utf8(ctl: Ctl) -> None:
    assert ctl("set", b"\xfe", b"a/\xff.jpg").returncode == 0
    assert ctl.all() == {b"\xfe": b"a/\xff.jpg"}
    assert ctl("get", b"\xfe").stdout == "a/\udcff.jpg\n"
    done = ctl("get", b"\xfe", "--json")
    assert json.loads(done.stdout)["records"] == [
        {"id_b64": "/g==", "path_b64": "YS//LmpwZw=="}
    ]


def test_get_prints_what_there_is_and_fails(ctl: Ctl) -> None:
    ctl.do("set", "1", "a", "3", "c")
    done = ctl("get", "3", "2", "a b", "1")
    assert (done.returncode, done.stdout) == (1, "c\na\n")
    assert "2: not found" in done.stderr
    assert "a b: the ID holds a space" in done.stderr
    assert ctl.json("get", "1", "2", code=1) == {
        "ok": False,
        "records": [{"id": "1", "path": "a"}],
        "missing": ["2"],
    }


def test_get_a_value_of_ruby(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    marshal = b'\x04\x08I"\x06a\x06:\x06ET'
    assert ctl("set", "2", "-", input=marshal.decode("latin-1")).returncode == 0
    assert ctl.all()[b"2"] == marshal
    assert ctl("get", "2").stdout == "a\n"
    assert ctl.json("get", "2")["records"] == [
        {"id": "2", "value_b64": "BAhJIgZhBjoGRVQ=", "path": "a"}
    ]


def test_get_a_value_that_is_no_record(ctl: Ctl) -> None:
    store = LmdbStore(parse_url(ctl.url), Options(write=True, create=True))
    store.put([(b"1", b"\x04\x08i\x06"), (b"2", b"../a")])
    store.close()
    done = ctl("get", "1", "2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "1: the value is an Integer in Ruby Marshal, not a String" in done.stderr
    assert "2: the path has a '..' segment" in done.stderr
    assert ctl.json("get", "1", code=1)["records"] == [
        {
            "id": "1",
            "value_b64": "BAhpBg==",
            "error": "the value is an Integer in Ruby Marshal, not a String",
        }
    ]
    refused = ctl("set", "3", "-", input="\x04\x08i\x06")
    assert refused.returncode == 1
    assert "3: the value is an Integer in Ruby Marshal" in refused.stderr


def test_del(ctl: Ctl) -> None:
    ctl.do("set", "1", "a", "2", "b", "3", "c")
    assert ctl("del", "1").stdout == "deleted 1 record\n"
    done = ctl("del", "1", "2")
    assert (done.returncode, done.stdout) == (1, "deleted 1 record\n")
    assert "1: not found" in done.stderr
    assert ctl.all() == {b"3": b"c"}
    assert ctl.json("del", "3", "4", code=1) == {
        "ok": False,
        "deleted": 1,
        "missing": ["4"],
    }


def test_get_and_del_make_no_store(ctl: Ctl) -> None:
    for command in ("get", "del"):
        done = ctl(command, "1")
        assert done.returncode == 1
        assert f"{ctl.path}: there is no store" in done.stderr
    assert not ctl.path.exists()


def test_single_file(tmp_path: Path) -> None:
    ctl = Ctl(tmp_path / "ids.mdb")
    assert ctl("set", "1", "a", "--single-file").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids.mdb", "ids.mdb-lock"]
    assert ctl("set", "2", "b").returncode == 0
    assert ctl("get", "1", "2").stdout == "a\nb\n"
    assert ctl.all() == {b"1": b"a", b"2": b"b"}


def test_url_with_three_slashes_and_through_a_link(ctl: Ctl, tmp_path: Path) -> None:
    ctl.do("set", "1", "a")
    (tmp_path / "link").symlink_to("ids")
    assert run("get", f"lmdb://{tmp_path}/link", "1").stdout == "a\n"


def test_json_of_set_and_of_a_failure(ctl: Ctl) -> None:
    assert ctl.json("set", "1", "a") == {"ok": True, "stored": 1}
    failed = ctl.json("set", "1", "/a", code=1)
    assert failed["ok"] is False
    assert "absolute" in failed["error"]
