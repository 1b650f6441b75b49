"""The lines of CSV, TSV and NDJSON files: to items of a store, and back.

Every line stands alone: a field holds no line break, so a broken line cannot
swallow the ones after it. CSV follows RFC 4180 but for that; TSV has no
quoting at all; CSV and TSV carry any bytes, NDJSON is UTF-8 and has the
fields ``id_b64``, ``path_b64`` and ``value_b64`` for what is not. A value
that carries flags of memcached has them in ``flags`` beside ``value_b64``.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import os
from collections.abc import Iterator
from typing import BinaryIO

from sendfilectl.contract import (
    Record,
    check_key,
    check_path,
    decode,
    encode,
    is_wrapped,
    load_object,
    record_from_fields,
    record_with_path,
)
from sendfilectl.errors import Refused, UsageError
from sendfilectl.stores import Item
from sendfilectl.unwrap import Value, flags_of

FORMATS = ("csv", "tsv", "ndjson")
COLUMNS = ("id", "path", "type", "name", "disposition", "expires", "headers")
MAX_LINE = 1 << 20

_EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}
_BOM = b"\xef\xbb\xbf"


def by_extension(name: str) -> str | None:
    """The format that a file's name says, None if it says none."""
    return _EXTENSIONS.get(os.path.splitext(name)[1].lower())


def by_line(line: bytes) -> str:
    """The format that the first line looks like.

    Raises:
        UsageError: like none.
    """
    line = line.removeprefix(_BOM)
    if line.lstrip().startswith(b"{"):
        return "ndjson"
    if b"\t" in line:
        return "tsv"
    if b"," in line:
        return "csv"
    raise UsageError("cannot tell the format of the input: add --format csv|tsv|ndjson")


class Lines:
    """The lines of a file with their numbers, counted as they are read.

    Args:
        file: open for reading bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._first: bytes | None = None
        self.number = 0
        self.bytes = 0

    def first(self) -> bytes:
        """The first line that is not blank, which stays to be read."""
        if self._first is None:
            self._first = b""
            for line in self:
                if line.strip():
                    self._first = line
                    break
        return self._first

    def __iter__(self) -> Iterator[bytes]:
        """Lines without their end; of one over 1 MiB only the beginning."""
        if self._first:
            line, self._first = self._first, b""
            yield line
        read = self._file.readline
        while True:
            line = read(MAX_LINE + 2)
            if not line:
                return
            self.number += 1
            self.bytes += len(line)
            if len(line) == MAX_LINE + 2 and line[-1] != 0x0A:
                self._skip()
            elif line[-1] == 0x0A:
                line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
            if self.number == 1 and line.startswith(_BOM):
                line = line[len(_BOM) :]
            yield line

    def _skip(self) -> None:
        while True:
            rest = self._file.readline(MAX_LINE)
            self.bytes += len(rest)
            if not rest or rest[-1] == 0x0A:
                return


class Parser:
    """Reads the lines of one file.

    Args:
        format: "csv", "tsv" or "ndjson".
    """

    def __init__(self, format: str) -> None:
        self._format = format
        self._columns: list[str] | None = None
        self._header_checked = False
        self._plain = True
        self.ignored: list[str] = []

    def parse(self, line: bytes) -> Item | None:
        """The item of a line, None for a blank one and for the header.

        Raises:
            Refused: what is wrong with the line.
        """
        if len(line) > MAX_LINE:
            raise Refused(f"the line is longer than {MAX_LINE} bytes")
        if not line or line.isspace():
            return None
        if self._format == "ndjson":
            return parse_object(line)
        cells = self._cells(line)
        if not self._header_checked:
            self._header_checked = True
            if self._header(cells):
                return None
        if self._columns is None and len(cells) == 2:
            return _plain(cells[0], cells[1])
        return self._item(cells)

    def _cells(self, line: bytes) -> list[bytes]:
        if self._format == "tsv":
            return line.split(b"\t")
        if b'"' not in line:
            return line.split(b",")
        text = line.decode("utf-8", "surrogateescape")
        try:
            rows = list(csv.reader([text], strict=True))
        except csv.Error as error:
            raise Refused(f"broken CSV: {error}") from None
        return [cell.encode("utf-8", "surrogateescape") for cell in rows[0]]

    def _header(self, cells: list[bytes]) -> bool:
        names = [cell.strip().lower().decode("utf-8", "replace") for cell in cells]
        if "id" not in names or "path" not in names:
            return False
        for name in names:
            if names.count(name) > 1:
                raise Refused(f"the column '{name}' is there twice")
        self._columns = names
        self.ignored = [name for name in names if name not in COLUMNS]
        return True

    def _item(self, cells: list[bytes]) -> Item:
        columns = self._columns
        if columns is None:
            if len(cells) < 2 or len(cells) > len(COLUMNS):
                raise Refused(
                    f"{len(cells)} columns: expected {' '.join(COLUMNS[:2])} "
                    f"and then, if there is more, {' '.join(COLUMNS[2:])}"
                )
            columns = list(COLUMNS)
        elif len(cells) != len(columns):
            raise Refused(f"{len(cells)} columns, the header has {len(columns)}")
        row = dict(zip(columns, cells))
        if not any(row.get(name) for name in COLUMNS[2:]):
            return _plain(row["id"], row["path"])
        check_key(row["id"])
        fields: dict[str, object] = {}
        for name in ("type", "name", "disposition"):
            if row.get(name):
                fields[name] = _text(name, row[name])
        if row.get("expires"):
            fields["expires"] = _integer(row["expires"])
        if row.get("headers"):
            fields["headers"] = load_object(row["headers"])
        return row["id"], encode(record_with_path(row["path"], fields))


def _plain(key: bytes, path: bytes) -> Item:
    check_key(key)
    if path.startswith(b"{"):
        return key, encode(Record(path))
    check_path(path)
    return key, path


def _text(name: str, cell: bytes) -> str:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"'{name}' is not UTF-8") from None


def _integer(cell: bytes) -> int:
    if not cell.isdigit() or len(cell) > 12:
        raise Refused("'expires' is not a number of Unix seconds")
    return int(cell)


def parse_object(line: bytes) -> Item:
    """The item of one line of NDJSON.

    Raises:
        Refused: what is wrong with it.
    """
    fields = load_object(line)
    key = _id(fields)
    check_key(key)
    value = fields.pop("value_b64", None)
    if value is not None:
        if any(fields.get(name) is not None for name in ("path", "path_b64")):
            raise Refused("'value_b64' is the whole value: no path beside it")
        return key, _raw(_base64("value_b64", value), fields.pop("flags", None))
    path = fields.pop("path_b64", None)
    if path is not None:
        if fields.get("path") is not None:
            raise Refused("both 'path' and 'path_b64'")
        return key, encode(record_with_path(_base64("path_b64", path), fields))
    return key, encode(record_from_fields(fields))


def _raw(value: bytes, flags: object) -> bytes:
    """A value to be stored as it is, with memcached's flags.

    Raises:
        Refused: nginx would not take it.
    """
    if flags is not None:
        if not isinstance(flags, int) or isinstance(flags, bool):
            raise Refused("'flags' is not an integer")
        if not 0 <= flags < 1 << 32:
            raise Refused("'flags' is out of range: they have 32 bits")
        if flags:
            value = Value(value, flags)
    decode(value)
    return value


def _id(fields: dict[str, object]) -> bytes:
    found = fields.pop("id", None)
    encoded = fields.pop("id_b64", None)
    if encoded is not None:
        if found is not None:
            raise Refused("both 'id' and 'id_b64'")
        return _base64("id_b64", encoded)
    if isinstance(found, str):
        try:
            return found.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("'id' is not valid UTF-8") from None
    if isinstance(found, int) and not isinstance(found, bool):
        return b"%d" % found
    if found is None:
        raise Refused("'id' is missing")
    raise Refused("'id' is neither a string nor an integer")


def _base64(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise Refused(f"'{name}' is not a string")
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Refused(f"'{name}' is not base64") from None


def describe(
    key: bytes, value: bytes, decoded: bool = False
) -> tuple[dict[str, object], str | None]:
    """An item as an object that parse_object() takes back.

    Args:
        key: its key.
        value: its value, of whatever kind.
        decoded: of a value that is not stored as the path or as JSON say what
            is in it as well, which parse_object() would not take.

    Returns:
        The object, and why the value is no record, or None.
    """
    found: dict[str, object] = {}
    try:
        found["id"] = key.decode("utf-8")
    except UnicodeDecodeError:
        found["id_b64"] = base64.b64encode(key).decode("ascii")
    wrong = None
    try:
        record = decode(value)
        whole = is_wrapped(value) or any(
            name in record.extra for name in ("id", "id_b64", "path_b64", "value_b64")
        )
    except Refused as error:
        wrong = str(error)
        whole = True
    if whole:
        found["value_b64"] = base64.b64encode(value).decode("ascii")
        if flags_of(value):
            found["flags"] = flags_of(value)
    if wrong is None and (decoded or not whole):
        try:
            found["path"] = record.path.decode("utf-8")
        except UnicodeDecodeError:
            found["path_b64"] = base64.b64encode(record.path).decode("ascii")
        for name, field in record.fields().items():
            found.setdefault(name, field)
    return found, wrong


class Writer:
    """Makes the lines of an export.

    Args:
        format: "csv", "tsv" or "ndjson".
    """

    def __init__(self, format: str) -> None:
        self._format = format

    def header(self) -> bytes | None:
        """The first line, None if the format has none."""
        if self._format == "ndjson":
            return None
        return self._join([name.encode("ascii") for name in COLUMNS])

    def line(self, key: bytes, value: bytes) -> bytes:
        """The line of an item.

        Raises:
            Refused: the format cannot hold it.
        """
        if self._format == "ndjson":
            found, _ = describe(key, value)
            return json.dumps(found, ensure_ascii=False).encode("utf-8") + b"\n"
        record = decode(value)
        if record.extra:
            name = next(iter(record.extra))
            raise Refused(f"no column for the field '{name}': use --format ndjson")
        headers = ""
        if record.headers:
            headers = json.dumps(record.headers, ensure_ascii=False)
        expires = "" if record.expires is None else str(record.expires)
        if expires and not expires.isdigit():
            raise Refused("'expires' is not an integer: use --format ndjson")
        texts = (record.type, record.name, record.disposition, expires, headers)
        return self._join(
            [key, record.path, *((text or "").encode("utf-8") for text in texts)]
        )

    def _join(self, cells: list[bytes]) -> bytes:
        if self._format == "tsv":
            return b"\t".join(cells) + b"\n"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(
            [cell.decode("utf-8", "surrogateescape") for cell in cells]
        )
        return text.getvalue().encode("utf-8", "surrogateescape")
