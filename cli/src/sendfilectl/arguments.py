"""What the commands' arguments and options mean."""

from __future__ import annotations

import grp
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from sendfilectl.contract import (
    DISPOSITIONS,
    HEADERS,
    check_key,
    decode,
    encode,
    header_allowed,
    is_wrapped,
    load_object,
    record_from_fields,
    record_with_path,
    show,
)
from sendfilectl.errors import CtlError, Refused, UsageError
from sendfilectl.formats import FORMATS
from sendfilectl.output import Output
from sendfilectl.stores import Item, Options, Permissions, StoreUrl

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}

# memcached has times as signed 32-bit numbers
_TIME_OVERFLOW = 1 << 31

_FROM_NOW = re.compile(r"\+([0-9]{1,9})([smhdwy])")


def pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """IDs with paths: ``ID PATH [ID PATH]…`` or ``ID=PATH [ID=PATH]…``.

    Raises:
        UsageError: it is neither.
    """
    if all("=" in word for word in words):
        return [(word.split("=", 1)[0], word.split("=", 1)[1]) for word in words]
    if len(words) % 2:
        raise UsageError(f"no path for the ID '{words[-1]}': write ID PATH or ID=PATH")
    ids, paths = words[::2], words[1::2]
    for word in ids:
        if "=" in word:
            raise UsageError(
                f"'{word}': write either ID PATH or ID=PATH; an ID that has an '=' "
                "in it can be set with --value or import"
            )
    return list(zip(ids, paths))


def record_fields(
    name: str | None,
    type: str | None,
    disposition: str | None,
    headers: Sequence[str],
    expires: str | None,
) -> dict[str, object]:
    """The fields that the options of ``set`` give.

    Raises:
        UsageError: an option means nothing.
    """
    fields: dict[str, object] = {}
    if type is not None:
        fields["type"] = type
    if name is not None:
        fields["name"] = name
    if disposition is not None:
        if disposition not in DISPOSITIONS:
            raise UsageError(f"--disposition {disposition}: write inline or attachment")
        fields["disposition"] = disposition
    if headers:
        fields["headers"] = _headers(headers)
    if expires is not None:
        fields["expires"] = unix_time(expires)
    return fields


def _headers(texts: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or not name:
            raise UsageError(f"--header '{text}': write 'Name: value'")
        if not header_allowed(name):
            allowed = ", ".join((*HEADERS, "Access-Control-*"))
            raise UsageError(f"--header '{name}': nginx takes only {allowed}")
        if name in found:
            raise UsageError(f"--header '{name}' is given twice")
        found[name] = value.strip()
    return found


def unix_time(text: str) -> int:
    """A time in Unix seconds: a number, ``+7d`` from now, or ISO 8601 (UTC
    unless it says another zone).

    Raises:
        UsageError: it is none of these.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    match = _FROM_NOW.fullmatch(text)
    if match:
        return int(time.time()) + int(match.group(1)) * _UNITS[match.group(2)]
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise UsageError(
            f"--expires {text}: write Unix seconds, +30m, +12h, +7d, "
            "or 2030-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return int(moment.timestamp())


def item_with_fields(key: str, path: str, fields: dict[str, object]) -> Item:
    """The item of an ID, a path and more fields.

    Raises:
        CtlError: the contract's rules refuse it.
    """
    try:
        encoded = os.fsencode(key)
        check_key(encoded)
        return encoded, encode(record_with_path(os.fsencode(path), fields))
    except Refused as error:
        raise CtlError(f"{key}: {error}") from None


def item_with_value(key: str, value: bytes, out: Output) -> Item:
    """The item of an ID and a whole value, as somebody wrote it.

    Raises:
        CtlError: the contract's rules refuse it.
    """
    try:
        encoded = os.fsencode(key)
        check_key(encoded)
        if is_wrapped(value):
            decode(value)
            return encoded, value
        value = value.rstrip(b"\r\n")
        if not value.lstrip().startswith(b"{"):
            return encoded, encode(decode(value))
        record = record_from_fields(load_object(value))
        for name in record.headers:
            if not header_allowed(name):
                out.warn(f"{key}: nginx ignores the header '{name}'")
        return encoded, encode(record)
    except Refused as error:
        raise CtlError(f"{key}: {error}") from None


def keys(words: Sequence[str], out: Output) -> tuple[list[bytes], list[str]]:
    """Keys of IDs, and the IDs that cannot be keys, which is said to stderr."""
    good: list[bytes] = []
    bad: list[str] = []
    for word in words:
        try:
            key = os.fsencode(word)
            check_key(key)
            good.append(key)
        except Refused as error:
            out.warn(f"{show(key)}: {error}")
            bad.append(show(key))
    return good, bad


def options(
    url: StoreUrl,
    write: bool = False,
    create: bool = False,
    single_file: bool = False,
    group: str | None = None,
    mode: str | None = None,
    ttl: int | None = None,
    connect_timeout: float | None = None,
    timeout: float | None = None,
) -> Options:
    """How to open a store, by the options of the command line.

    Raises:
        UsageError: one of them means nothing to a store of this kind.
    """
    memcached = url.scheme == "memcached"
    for name, given, of_memcached in (
        ("--single-file", single_file, False),
        ("--group", group, False),
        ("--mode", mode, False),
        ("--ttl", ttl, True),
        ("--connect-timeout", connect_timeout, True),
        ("--timeout", timeout, True),
    ):
        if given not in (None, False) and of_memcached != memcached:
            kind = "memcached" if of_memcached else "LMDB"
            hint = "; a record has --expires" if name == "--ttl" else ""
            raise UsageError(f"{name} is for a store in {kind}, not {url.text}{hint}")
    if ttl is not None and time.time() + ttl >= _TIME_OVERFLOW:
        raise UsageError(f"--ttl {ttl}: too long for memcached: leave it away")
    found = Options(
        write=write or create,
        create=create,
        single_file=single_file,
        permissions=permissions(group, mode),
        ttl=ttl,
    )
    if connect_timeout is not None:
        found = replace(found, connect_timeout=connect_timeout)
    if timeout is not None:
        found = replace(found, timeout=timeout)
    return found


def permissions(group: str | None, mode: str | None) -> Permissions:
    """What --group and --mode say.

    Raises:
        UsageError: there is no such group, or it is no mode.
    """
    if group is None and mode is None:
        return Permissions()
    found = Permissions(explicit=True)
    if group is not None:
        try:
            gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        except KeyError:
            raise UsageError(f"--group {group}: there is no such group") from None
        found = Permissions(
            group=gid, lock=0o660, data=0o640, directory=0o750, explicit=True
        )
    if mode is not None:
        if not re.fullmatch("0?[0-7]{3}", mode):
            raise UsageError(f"--mode {mode}: write an octal mode such as 0660")
        found = Permissions(
            group=found.group,
            lock=int(mode, 8),
            data=found.data,
            directory=found.directory,
            explicit=True,
        )
    return found


def format_name(text: str | None) -> str | None:
    """Checks what --format says.

    Raises:
        UsageError: there is no such format.
    """
    if text is None or text in FORMATS:
        return text
    if text == "jsonl":
        return "ndjson"
    raise UsageError(f"--format {text}: write csv, tsv or ndjson")


def stdin_value() -> bytes:
    """All of stdin, as the value of one record.

    Raises:
        CtlError: it is over 64 KiB.
    """
    limit = 1 << 17
    value = sys.stdin.buffer.read(limit)
    if len(value) == limit:
        raise CtlError("stdin: the value is over 64 KiB, which nginx does not take")
    return value
