"""The cases of records that nginx and the gem have as well: test/vectors."""

from __future__ import annotations

import re

import pytest
from memcached_harness import VECTORS

from sendfilectl.contract import HEADERS, Record, decode, encode, header_allowed
from sendfilectl.errors import Refused

CASES = 212


def unescape(field: str) -> bytes:
    """The bytes of a field: ``%0a`` is a byte, ``%{9 a}`` nine times ``a``."""

    def replace(match: re.Match[bytes]) -> bytes:
        if match[3]:
            return bytes.fromhex(match[3].decode())
        return match[2] * int(match[1])

    pattern = rb"%\{(\d+) ([^}]*)\}|%([0-9a-f]{2})"
    return re.sub(pattern, replace, field.encode())


def table() -> list[dict[str, str]]:
    """The cases, each by the names of its fields."""
    text = (VECTORS / "records.tsv").read_text(encoding="utf-8")
    head, *lines = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return [dict(zip(head, line, strict=True)) for line in lines]


def decoded(record: Record) -> dict[str, bytes]:
    """What nginx makes of a record, as the columns have it."""
    inline = "inline" if record.name else ""
    expires = ""
    if record.expires is not None:
        expires = str(int(record.expires) or 1)  # 0 is none, so nginx has it as 1
    headers = (f"{n}: {v}" for n, v in record.headers.items() if header_allowed(n))
    return {
        "path": record.path,
        "type": (record.type or "").encode(),
        "name": (record.name or "").encode(),
        "disposition": (record.disposition or inline).encode(),
        "expires": expires.encode(),
        "headers": "\n".join(headers).encode(),
    }


@pytest.mark.parametrize("case", table(), ids=lambda case: case["case"])
def test_a_record_of_the_table(case: dict[str, str]) -> None:
    value = unescape(case["value"])
    verdict, _, words = case["sendfilectl"].partition(" ")
    assert (verdict == "refuses") == (case["nginx"] != "takes")
    if verdict == "refuses":
        with pytest.raises(Refused) as refused:
            decode(value)
        assert words in str(refused.value)
        return
    record = decode(value)
    found = decoded(record)
    assert found == {name: unescape(case[name]) for name in found}
    written = encode(record)
    assert (written == value) == (verdict == "writes")
    assert decode(written) == record


def test_the_table_is_whole() -> None:
    assert len(table()) == CASES


def test_the_white_list_is_that_of_nginx() -> None:
    (case,) = (case for case in table() if case["case"] == "the white-list")
    lines = unescape(case["headers"]).decode().split("\n")
    assert [line.partition(":")[0] for line in lines] == list(HEADERS)
