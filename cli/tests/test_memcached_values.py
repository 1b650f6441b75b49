"""What other clients wrap around a string, as nginx reads it."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import time
import zlib

import pytest
from ctl_harness import run
from memcached_harness import Memcached, table

from sendfilectl.contract import decode, plain
from sendfilectl.errors import Refused
from sendfilectl.formats import describe, parse_object
from sendfilectl.unwrap import Value, flags_of, unwrap

# long strings, of which the vectors do not repeat what is in them
LONG = {
    "s_4k": b"a" * 5000,
    "s_4k_raw": b"a" * 5000,
    "py_str_compr": b"a" * 1000,
    "py_str_comprs": b"aa",
    "pl_z": b"a" * 3000,
    "ph_z": b"aXb" * 1000,
    "ph_zz": b"aXb" * 1000,
    "pm_z": b"aXb" * 1000,
    "r_2k": b"a" * 2000,
    "pre_ph_pref": b"x",
    "s_int_raw": b"12",
}
NO_STRINGS = {
    *("s_int", "r_nil", "r_int", "r_hash", "py_int", "py_list", "pl_int"),
    *("ph_int", "ph_arr", "ph_dbl", "ph_bool", "pm_arr", "pm_int"),
}


def test_vectors() -> None:
    _, rows = table("wire_values")
    assert len(rows) == 87
    for source, case, flags, data, string in rows:
        value = bytes.fromhex(data)
        number = 0 if flags == "-" else int(flags)
        if case in NO_STRINGS:
            with pytest.raises(Refused):
                unwrap(value, number)
            continue
        found = unwrap(value, number)
        assert found.string == LONG.get(case, string.encode()), (source, case)
        assert (found.valid_until is not None) == ("exp" in case), (source, case)


def string(text: bytes) -> bytes:
    """A String of Ruby in Marshal, of up to 122 bytes."""
    return b'\x04\x08I"' + bytes([len(text) + 5]) + text + b"\x06:\x06ET"


def rails(text: bytes, expires: float) -> bytes:
    """An entry of Rails 7.1."""
    return b"\x00\x11\x02" + struct.pack("<di", expires, -1) + text


@pytest.mark.parametrize(
    ("value", "flags", "found"),
    [
        (string(b"a/b"), 0, b"a/b"),
        (string(b"a/b"), 1, b"a/b"),
        (zlib.compress(string(b"a/b")), 3, b"a/b"),
        (gzip.compress(string(b"a/b"), mtime=0), 3, b"a/b"),
        (zlib.compress(b"a/b"), 2, b"a/b"),
        (b'"a\\u002fb"', 1, b"a/b"),
        (b'{"path":"a/b"}', 1, b'{"path":"a/b"}'),
        (b"a/b", 2, b"a/b"),
        (b"a/b", 4, b"a/b"),
        (b"a/b", 0x10000, b"a/b"),
        (zlib.compress(b"a/b"), 6, b"a/b"),
        (b'{"path":"a"}', 6, b'{"path":"a"}'),
        (zlib.compress(b"a/b"), 8, b"a/b"),
        (b"\x03\x00\x00\x00" + zlib.compress(b"a/b"), 48, b"a/b"),
        (b"\x09\x00\x00\x00\x02a/b\x80\x02", 80, b"a/ba/ba/b"),
        (rails(b"a/b", -1.0), 0, b"a/b"),
        (b"\x04\x08I:\x06a", 0, None),
        (b"\x04\x08", 0, None),
        (b'\x04\x08"\x07a', 0, None),
        (b'\x04\x08"\x06aa', 0, None),
        (b'\x04\x08I"\x06a\x06;\x00T', 0, None),
        (b'\x04\x08"\xfa', 0, None),
        (b"\x04\x08o:\x06A\x00", 0, None),
        (zlib.compress(b"a" * 70_000), 2, None),
        (zlib.compress(b"a/b")[:-1], 2, None),
        (zlib.compress(b"a/b") + b"x", 2, None),
        (b"\x04\x00\x00\x00" + zlib.compress(b"a/b"), 48, None),
        (b"\x03\x00", 48, None),
        (b"\x09\x00\x00\x00\x02a/b\x80\x03", 80, None),
        (b"\x03\x00\x00\x00\x02a/", 80, None),
        (b"\x01\x00\x00\x00\x20a", 80, None),
        (b"\x01\x00\x00\x00zstd", 0x90, None),
        (b"a/b", 0x20, None),
        (b"a/b", 1, None),
        (b'"a', 1, None),
        (b"a/b", 3, None),
        (b"-1.5e9", 2, None),
        (b"nan", 4, None),
        (b'a:1:{s:1:"a";i:1;}', 4, None),
        (b"[1]", 6, None),
        (b"a/b", 5, None),
        (b"a/b", 0x100, None),
        (rails(b"a/b", -1.0)[:10], 0, None),
        (b"\x00\x11\x09" + rails(b"a/b", -1.0)[3:], 0, None),
    ],
)
def test_values(value: bytes, flags: int, found: bytes | None) -> None:
    if found is not None:
        assert unwrap(value, flags).string == found
        return
    with pytest.raises(Refused) as caught:
        unwrap(value, flags)
    assert str(caught.value)


def test_values_that_would_take_long() -> None:
    deep = b"\x04\x08o:\x20" + b"ActiveSupport::Cache::Entry" + b"\x06:\x07@v"
    started = time.process_time()
    for value, flags in (
        (b"1" * 65_000 + b"x", 2),
        (b"a:" + b";" * 65_000 + b"x", 4),
        (deep + b"[\x06" * 30_000, 0),
        (b"\xff\xff\x00\x00" + b"\x00a" + b"\xff\xff\x00" * 20_000, 80),
    ):
        try:
            assert unwrap(value, flags).string == value
        except Refused as error:
            assert "Marshal" in str(error) or "compressed" in str(error)
    assert time.process_time() - started < 10


def test_expired_entry_is_missing_to_nginx() -> None:
    now = time.time()
    record = decode(Value(rails(b"a/b", now + 1000), 0))
    assert (record.path, record.expires) == (b"a/b", int(now + 1000))
    with pytest.raises(Refused, match="expired at 1000: nginx takes it for missing"):
        decode(rails(b"a/b", 1000.5))


def test_flags_survive_export_and_import() -> None:
    value = Value(zlib.compress(string(b"a/b")), 3)
    found, wrong = describe(b"1", value)
    assert wrong is None
    assert set(found) == {"id", "value_b64", "flags"}
    key, again = parse_object(json.dumps(found).encode())
    assert (key, again, flags_of(again)) == (b"1", value, 3)
    # what has no flags gets what it means
    assert plain(value) == b"a/b"
    assert plain(b"a/b") == b"a/b"
    expiring = Value(rails(b"a/b", 2e9), 16)
    with pytest.raises(Refused):
        plain(expiring)
    assert plain(Value(string(rails(b"a/b", 5e9)), 1)) == (
        b'{"path":"a/b","expires":5000000000}'
    )


def test_get_decodes_and_says_what_it_cannot(memcached: Memcached) -> None:
    memcached.set(b"1", string(b"a/b"), 1)
    memcached.set(b"2", string(b'{"path":"c","name":"n"}'), 0)
    memcached.set(b"3", b"\x80\x04.", 1)
    memcached.set(b"4", b"a/\xff", 5)
    done = run("get", memcached.url, "1", "2", "3", "4")
    assert (done.returncode, done.stdout) == (1, "a/b\nc\n")
    assert "3: the value is not decoded: serialized, but neither" in done.stderr
    assert "4: the value is not decoded: a number or an object by its" in done.stderr
    done = run("get", memcached.url, "1", "2", "3", "--json")
    one, two, three = json.loads(done.stdout)["records"]
    value = base64.b64encode(string(b"a/b")).decode()
    assert one == {"id": "1", "value_b64": value, "flags": 1, "path": "a/b"}
    assert (two["path"], two["name"], "flags" in two) == ("c", "n", False)
    assert (three["flags"], three["value_b64"]) == (1, "gAQu")
    assert "not decoded" in three["error"]
