"""The rules of keys, paths and records."""

from __future__ import annotations

import json

import pytest

from sendfilectl.contract import (
    Record,
    check_key,
    check_path,
    decode,
    encode,
    header_allowed,
    load_object,
    record_from_fields,
    show,
)
from sendfilectl.errors import Refused


@pytest.mark.parametrize(
    "key", [b"1", b"297887", b"a=b", b"\xff\x80", "日本".encode(), b"!" * 250]
)
def test_key_is_good(key: bytes) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", "empty"),
        (b"a b", "a space at offset 1"),
        (b"a\0b", "0x00 at offset 1"),
        (b"a\r", "0x0d"),
        (b"\n", "0x0a"),
        (b"a\x7f", "0x7f"),
        (b"a" * 251, "251 bytes: at most 250"),
    ],
)
def test_key_is_refused(key: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_key(key)


@pytest.mark.parametrize(
    "path",
    [
        b"a",
        b"a/b.jpg",
        b"...",
        b".a/..b/c..",
        b"a b%2e?#\\",
        b"\xff\xfe",
        "日本/語".encode(),
        b"x" * 4096,
    ],
)
def test_path_is_good(path: bytes) -> None:
    check_path(path)
    assert decode(encode(Record(path))).path == path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"", "empty"),
        (b"/", "absolute"),
        (b"/etc/passwd", "absolute"),
        (b"../../etc/passwd", r"'\.\.' segment"),
        (b"a/..", r"'\.\.' segment"),
        (b"..", r"'\.\.' segment"),
        (b"./a", r"'\.' segment: write 'a'"),
        (b".", r"'\.' segment"),
        (b"a/./b", "write 'a/b'"),
        (b"a//b", r"empty segment \('//'\): write 'a/b'"),
        (b"a/", "ends with '/': write 'a'"),
        (b"a\0b", "control byte 0x00 at offset 1"),
        (b"a\nb", "0x0a"),
        (b"a\n", "0x0a"),
        (b"\x7f", "0x7f"),
        (b"x" * 4097, "4097 bytes: at most 4096"),
    ],
)
def test_path_is_refused(path: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_path(path)


def test_bare_path_is_stored_as_it_is() -> None:
    assert encode(Record(b"a/b.jpg")) == b"a/b.jpg"
    assert encode(Record(b"\xff")) == b"\xff"


def test_record_is_compact_utf8_json() -> None:
    record = Record(b"a", type="text/plain", name="日本.txt", expires=5)
    assert (
        encode(record)
        == '{"path":"a","type":"text/plain","name":"日本.txt","expires":5}'.encode()
    )


def test_path_that_looks_like_json_is_wrapped() -> None:
    value = encode(Record(b"{a}"))
    assert value == b'{"path":"{a}"}'
    assert decode(value).path == b"{a}"
    with pytest.raises(Refused, match="not UTF-8"):
        encode(Record(b"{\xff"))


def test_path_that_is_not_utf8_takes_no_fields() -> None:
    with pytest.raises(Refused, match="not UTF-8.*rename"):
        encode(Record(b"\xff", name="x"))


def test_value_with_everything_is_read() -> None:
    headers = {"Cache-Control": "max-age=60", "Access-Control-Allow-Origin": "*"}
    fields = {
        "path": "a/b",
        "type": "image/png",
        "name": "é.png",
        "disposition": "attachment",
        "headers": headers,
        "expires": 1.5,
        "later": [1, {"x": None}],
    }
    record = decode(json.dumps(fields).encode())
    assert record == Record(
        b"a/b",
        "image/png",
        "é.png",
        "attachment",
        dict(headers),
        1.5,
        {"later": [1, {"x": None}]},
    )
    assert decode(encode(record)) == record


def test_null_is_an_absent_field_for_import_only() -> None:
    fields = load_object(b'{"path":"a","type":null,"name":"n"}')
    assert encode(record_from_fields(fields)) == b'{"path":"a","name":"n"}'


def test_which_headers_nginx_takes() -> None:
    for name in ("etag", "CACHE-CONTROL", "Access-Control-Max-Age", "Link"):
        assert header_allowed(name)
    for name in ("Set-Cookie", "Access-Control-", "Access-Control-a b", "Lin\u212a"):
        assert not header_allowed(name)


def test_more_headers_than_nginx_takes() -> None:
    headers: dict[str, object] = {f"Access-Control-{i}": "x" for i in range(33)}
    with pytest.raises(Refused, match="33 headers: nginx takes at most 32"):
        encode(Record(b"a", headers=headers))


def test_message_shows_no_raw_control_bytes() -> None:
    assert show(b"a\x1b[31m\xff\n") == "a\\x1b[31m\\xff\\n"
