"""The rules of keys, paths and records, the same that the nginx module applies.

See docs/records.md. Everything that sendfilectl writes passes through here,
so that what it stores is what nginx will serve.
"""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass, field
from re import Pattern
from typing import NoReturn

from sendfilectl.errors import Refused
from sendfilectl.unwrap import flags_of, unwrap

MAX_KEY = 250
MAX_PATH = 4096
MAX_VALUE = 65536
MAX_HEADERS = 32
MAX_EXPIRES = 253402300799  # the last second of the year 9999

DISPOSITIONS = ("inline", "attachment")
FIELDS = ("path", "type", "name", "disposition", "headers", "expires")

HEADERS = (
    "Cache-Control",
    "Expires",
    "ETag",
    "Last-Modified",
    "Content-Language",
    "Content-Encoding",
    "Vary",
    "Link",
    "Content-Security-Policy",
    "X-Robots-Tag",
    "X-Frame-Options",
)
_HEADERS_LOWER = frozenset(name.lower() for name in HEADERS)
_CORS = re.compile("access-control-[a-z0-9-]+", re.ASCII)

_KEY = re.compile(rb"[!-~\x80-\xff]{1,250}")
_PATH = re.compile(
    rb"(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/]+(?:/(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/]+)*"
)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_KEY_BAD = re.compile(rb"[\x00-\x20\x7f]")
_TEXT_BAD = re.compile("[\x00-\x1f\x7f]")
_VALUE_BAD = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def show(data: bytes) -> str:
    """Bytes as text for a message: UTF-8, anything else escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def check_key(key: bytes) -> None:
    """Checks a key: 1 to 250 bytes, none a control byte, a space or 0x7f.

    Raises:
        Refused: with the rule that is broken.
    """
    if _KEY.fullmatch(key):
        return
    if not key:
        raise Refused("the ID is empty: an ID has 1 to 250 bytes")
    bad = _KEY_BAD.search(key)
    if bad:
        what = "a space" if bad.group() == b" " else f"the byte 0x{bad.group().hex()}"
        raise Refused(
            f"the ID holds {what} at offset {bad.start()}: "
            "no space, control byte or 0x7f is allowed in an ID"
        )
    raise Refused(f"the ID has {len(key)} bytes: at most {MAX_KEY} are allowed")


def check_path(path: bytes) -> None:
    """Checks a path: relative, 1 to 4096 bytes, no control byte, no ``.``,
    ``..`` or empty segment, no leading or trailing ``/``.

    Raises:
        Refused: with the rule that is broken and what to write instead.
    """
    if len(path) <= MAX_PATH and _PATH.fullmatch(path):
        return
    if not path:
        raise Refused("the path is empty: write one relative to the root of the files")
    if len(path) > MAX_PATH:
        raise Refused(f"the path has {len(path)} bytes: at most {MAX_PATH} are allowed")
    bad = _CONTROL.search(path)
    if bad:
        raise Refused(
            f"the path holds the control byte 0x{bad.group().hex()} at offset "
            f"{bad.start()}: rename the file"
        )
    _refuse_segments(path)


def _refuse_segments(path: bytes) -> NoReturn:
    """Says what is wrong with the segments of a path that is known to be bad."""
    good = b"/".join(s for s in path.split(b"/") if s not in (b"", b".", b".."))
    hint = f": write '{show(good)}'" if good else ""
    if path.startswith(b"/"):
        raise Refused(
            "the path is absolute: write it relative to the root of the files"
        )
    segments = path.split(b"/")
    if b".." in segments:
        raise Refused("the path has a '..' segment: write it relative to the root")
    if b"." in segments:
        raise Refused(f"the path has a '.' segment{hint}")
    if path.endswith(b"/"):
        raise Refused(f"the path ends with '/'{hint}")
    raise Refused(f"the path has an empty segment ('//'){hint}")


def header_allowed(name: str) -> bool:
    """Whether nginx takes a header of this name from a record."""
    lower = name.lower()
    known = lower in _HEADERS_LOWER or _CORS.fullmatch(lower) is not None
    return known and name.isascii()


@dataclass
class Record:
    """What a key stands for.

    Attributes:
        path: the file, in bytes, relative to the root.
        type: the Content-Type, or None.
        name: the download file name, or None.
        disposition: "inline", "attachment" or None.
        headers: response headers, name to value; of the names that nginx
            ignores the values may be anything.
        expires: Unix seconds, or None.
        extra: fields that nginx ignores, kept as they were read.
    """

    path: bytes
    type: str | None = None
    name: str | None = None
    disposition: str | None = None
    headers: dict[str, object] = field(default_factory=dict)
    expires: int | float | None = None
    extra: dict[str, object] = field(default_factory=dict)

    def is_bare(self) -> bool:
        """Whether there is nothing but the path."""
        return not (
            self.type
            or self.name
            or self.disposition
            or self.headers
            or self.expires is not None
            or self.extra
        )

    def fields(self) -> dict[str, object]:
        """All fields but the path, in the order of the documentation."""
        found: dict[str, object] = {}
        if self.type:
            found["type"] = self.type
        if self.name:
            found["name"] = self.name
        if self.disposition:
            found["disposition"] = self.disposition
        if self.headers:
            found["headers"] = self.headers
        if self.expires is not None:
            found["expires"] = self.expires
        found.update(self.extra)
        return found


def encode(record: Record) -> bytes:
    """The value to store: the bare path if there is nothing else, or JSON.

    A path that starts with ``{`` is always wrapped in JSON, because nginx
    would take it for JSON otherwise.

    Raises:
        Refused: the record breaks a rule or cannot be written as JSON.
    """
    check_path(record.path)
    if record.is_bare() and not record.path.startswith(b"{"):
        return record.path
    try:
        path = record.path.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(
            "the path is not UTF-8, so it can be stored only by itself, "
            "without name, type or other fields: rename the file"
        ) from None
    _check_fields(record)
    return dump({"path": path, **record.fields()})


def dump(fields: dict[str, object]) -> bytes:
    """Compact JSON in UTF-8.

    Raises:
        Refused: a string cannot be written as UTF-8, or it is over 64 KiB.
    """
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    try:
        value = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused("a field of the record is not valid UTF-8") from None
    _check_size(value)
    return value


def _check_size(value: bytes) -> None:
    if len(value) > MAX_VALUE:
        raise Refused(
            f"the value has {len(value)} bytes: nginx takes at most {MAX_VALUE}"
        )


def _check_text(what: str, text: str, bad: Pattern[str] = _TEXT_BAD) -> None:
    found = bad.search(text)
    if found:
        code = f"0x{ord(found.group()):02x}"
        raise Refused(f"{what} holds the control byte {code}: none is allowed")


def check_header(name: str, value: object) -> None:
    """Checks one header of a record; a bad byte is refused in every header.

    Raises:
        Refused: a control byte, or no string as the value of a header that
            nginx would send.
    """
    _check_text("the name of a header", name)
    if isinstance(value, str):
        _check_text(f"the header '{name}'", value, _VALUE_BAD)
    elif header_allowed(name):
        raise Refused(f"the header '{name}' is not a string")


def _check_fields(record: Record) -> None:
    for what, text in (("type", record.type), ("name", record.name)):
        if text is not None:
            _check_text(f"'{what}'", text)
    if record.disposition is not None and record.disposition not in DISPOSITIONS:
        raise Refused(
            f"'disposition' is '{record.disposition}': write inline or attachment"
        )
    taken = set()
    for name, value in record.headers.items():
        check_header(name, value)
        if header_allowed(name):
            if name.lower() in taken:
                raise Refused(f"the header '{name}' is there twice")
            taken.add(name.lower())
    if len(taken) > MAX_HEADERS:
        raise Refused(f"{len(taken)} headers: nginx takes at most {MAX_HEADERS}")
    if record.expires is not None and not 0 <= record.expires <= MAX_EXPIRES:
        raise Refused("'expires' is out of range: write Unix seconds")


def decode(value: bytes) -> Record:
    """Reads a stored value as nginx does under ``http_sendfile_format auto``,
    with the flags that it may have.

    Raises:
        Refused: nginx would answer INVALID, or take it for missing.
    """
    if not value:
        raise Refused("the value is empty")
    _check_size(value)
    found = unwrap(value, flags_of(value))
    string = found.string
    if string.startswith(b"{"):
        record = record_from_fields(load_object(string), nulls=False)
    else:
        check_path(string)
        record = Record(string)
    until = found.valid_until
    if until is not None:
        if until <= time.time():
            raise Refused(
                f"the Rails.cache entry expired at {until}: nginx takes it for missing"
            )
        if record.expires is None or record.expires > until:
            record.expires = until
    return record


def is_wrapped(value: bytes) -> bool:
    """Whether a value is more than the path or the JSON itself: whether it
    has flags, or is of Ruby.

    Raises:
        Refused: it is no string, or broken.
    """
    return flags_of(value) != 0 or unwrap(value, 0).string is not value


def plain(value: bytes) -> bytes:
    """A value for a store that has no flags.

    Raises:
        Refused: it cannot be written without them.
    """
    return encode(decode(value)) if flags_of(value) else value


def load_object(text: bytes) -> dict[str, object]:
    """Parses one JSON object, strictly: UTF-8, no NaN, no field twice.

    Raises:
        Refused: it is not such an object.
    """
    try:
        found = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_number,
            parse_int=_number,
        )
        if b"\\u" in text:
            _check_escapes(found)
    except UnicodeDecodeError as error:
        raise Refused(f"the JSON is not UTF-8 at offset {error.start}") from None
    except json.JSONDecodeError as error:
        raise Refused(f"broken JSON: {error.msg} at offset {error.pos}") from None
    except RecursionError:
        raise Refused("the JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise Refused('the JSON is not an object: write {"path":"..."}')
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise Refused(f"the field '{name}' is there twice")
            seen.add(name)
    return found


def _number(text: str) -> int | float:
    """A JSON number; one beyond a double's range is broken JSON to nginx."""
    if math.isinf(float(text)):
        raise Refused("broken JSON: a number is too large")
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _refuse_constant(name: str) -> NoReturn:
    raise Refused(f"broken JSON: {name} is not JSON")


def _check_escapes(found: object) -> None:
    """Refuses what only a ``\\u`` escape can bring in: NUL and half characters."""
    if isinstance(found, str):
        if "\0" in found:
            raise Refused("the JSON holds NUL")
        _utf8("the JSON", found)
    elif isinstance(found, dict):
        for name, value in found.items():
            _check_escapes(name)
            _check_escapes(value)
    elif isinstance(found, list):
        for value in found:
            _check_escapes(value)


def record_from_fields(fields: dict[str, object], nulls: bool = True) -> Record:
    """Makes a record of a JSON object.

    Args:
        fields: the object; names that nginx does not know are kept.
        nulls: take a null for an absent field, which nginx does not do.

    Raises:
        Refused: the path is missing, or a field breaks a rule.
    """
    path = fields.get("path")
    if path is None:
        raise Refused("'path' is missing")
    return record_with_path(_utf8("'path'", _string("path", path)), fields, nulls)


def record_with_path(
    path: bytes, fields: dict[str, object], nulls: bool = True
) -> Record:
    """As record_from_fields, with a path that is known already.

    Raises:
        Refused: the path or a field breaks a rule.
    """
    record = Record(path)
    for name, value in fields.items():
        if name == "path" or (value is None and nulls):
            continue
        if name == "type":
            record.type = _string(name, value) or None
        elif name == "name":
            record.name = _string(name, value) or None
        elif name == "disposition":
            record.disposition = _string(name, value)
        elif name == "headers":
            if not isinstance(value, dict):
                raise Refused("'headers' is not an object of names and values")
            record.headers = value
        elif name == "expires":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise Refused("'expires' is not a number: write Unix seconds")
            record.expires = value
        else:
            record.extra[name] = value
    check_path(record.path)
    _check_fields(record)
    return record


def _string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Refused(f"'{name}' is not a string")
    return value


def _utf8(what: str, value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"{what} is not valid UTF-8") from None
