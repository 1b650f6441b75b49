"""What the clients of memcached wrap around a string: Ruby's Marshal,
Rails.cache entries, compression, and flags that say so.

It takes and refuses what the nginx module does under
``http_sendfile_format auto``; the values come from anybody, so nothing is
built from them and everything has a limit. Flags are a client's own affair,
and the same ones mean different things. What they mean here, the upper 16
bits aside, which php-memcached leaves to its users:

===== ====================================================================
0     all clients: a string. Ruby's Marshal and Rails.cache entries as well
1     Dalli: serialized, as Marshal or JSON. Python: pickle; PHP: an integer
2     zlib or gzip, then as 0; without their header a string of Dalli 4 or,
      if it reads as one, a number of other clients
3     Dalli: compressed, then as 1
4     a string of Dalli 5, unless it reads as a number or as PHP's serialize()
6     zlib or gzip: as 4; else JSON of php-memcached
8     bytes of pymemcache and pylibmc, zlib
16    a string of pymemcache, pylibmc and python-memcached; 24: zlib
48    a string of php-memcached, its length in 4 bytes and zlib; 54: JSON
80    a string of php-memcached, its length in 4 bytes and FastLZ; 86: JSON
===== ====================================================================

All others are of no string.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sendfilectl.errors import Refused

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_BYTES = 65536

_MAX_DEPTH = 8
_MAX_SYMBOLS = 32
_MAX_IVARS = 16
_MAX_TIME = 253402300799  # the last second of the year 9999

_BROKEN = "broken compressed value"
_BROKEN_MARSHAL = "broken Ruby Marshal"
_CUT_OFF = "Ruby Marshal that is cut off"
_BROKEN_ENTRY = "broken Rails.cache entry"

_NUMBER = re.compile(
    rb"-?(?:INF|NAN|Infinity|NaN|inf|nan"
    rb"|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
)
_DECIMAL = re.compile(rb"-?inf|nan|-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
_PHP = re.compile(rb"N;|[abdisOCESrR]:.*[;}]", re.DOTALL)
_RAILS_CLASS = b"ActiveSupport::Cache::Entry"

_TYPES = {
    b"0": "nil",
    b"T": "true",
    b"F": "false",
    b"i": "an Integer",
    b"l": "an Integer",
    b"f": "a Float",
    b":": "a Symbol",
    b";": "a Symbol",
    b"[": "an Array",
    b"{": "a Hash",
    b"}": "a Hash",
    b"C": "an object of a subclass",
}


class Value(bytes):
    """Bytes with the flags that a client of memcached put beside them.

    Args:
        data: the bytes.
        flags: 0 to 2**32 - 1.
    """

    flags: int

    def __new__(cls, data: bytes, flags: int) -> Self:
        value = super().__new__(cls, data)
        value.flags = flags
        return value


def flags_of(value: bytes) -> int:
    """The flags of a value, 0 if it has none."""
    return value.flags if isinstance(value, Value) else 0


@dataclass(frozen=True)
class Unwrapped:
    """What is in a value.

    Attributes:
        string: the path, or the JSON.
        valid_until: Unix seconds until which it is valid, None for always.
    """

    string: bytes
    valid_until: int | None = None


def unwrap(value: bytes, flags: int) -> Unwrapped:
    """The string in a value.

    Raises:
        Refused: it is no string, or broken.
    """
    flags &= 0xFFFF
    string, packed = _unpack(value, flags)
    if flags == 0 or (flags == 2 and packed):
        return _any(string)
    if flags == 1 or (flags == 3 and packed):
        return _serialized(string)
    if flags == 3:
        raise Refused(
            "the value is not decoded: compressed, but neither by zlib nor by gzip"
        )
    if flags in (2, 4):
        return _guess(string)
    if flags == 6 and packed:
        return Unwrapped(string)
    if flags in (6, 54, 86):
        if not string.startswith(b"{"):
            raise Refused("the value is JSON by its flags, but not an object")
        return Unwrapped(string)
    if flags in (8, 16, 24, 48, 80):
        return Unwrapped(string)
    raise Refused(
        f"the value is not decoded: a number or an object by its flags, {flags}"
    )


# compression


def _unpack(value: bytes, flags: int) -> tuple[bytes, bool]:
    """As far as the flags say that the value is compressed."""
    if flags & 0xFF00:
        return value, False
    pack = flags & 0xF0
    if pack not in (0, 16):
        return _unpack_php(value, pack), False
    dalli = pack == 0 and flags & 2 and (_is_zlib(value) or _is_gzip(value))
    if flags & 8 or dalli:
        return inflate(value), True
    return value, False


def _unpack_php(value: bytes, pack: int) -> bytes:
    if pack == 0x90:
        raise Refused(
            "the value is not decoded: zstd is not supported, "
            "set memcached.compression_type=zlib"
        )
    if pack not in (0x30, 0x50):
        raise Refused("the value is not decoded: it has flags of no known client")
    if len(value) < 4:
        raise Refused(_BROKEN)
    size = int.from_bytes(value[:4], "little")
    if pack == 0x50:
        return _fastlz(value[4:], size)
    string = inflate(value[4:])
    if len(string) != size:
        raise Refused(_BROKEN)
    return string


def _is_zlib(value: bytes) -> bool:
    """Whether it starts as a client's zlib data: the largest window."""
    head = int.from_bytes(value[:2], "big")
    return head >> 8 == 0x78 and head % 31 == 0 and not head & 0x20


def _is_gzip(value: bytes) -> bool:
    return value.startswith(b"\x1f\x8b\x08")


def inflate(value: bytes) -> bytes:
    """Unpacks zlib or gzip data of at most 64 KiB unpacked.

    Raises:
        Refused: it is broken, or longer.
    """
    stream = zlib.decompressobj(zlib.MAX_WBITS + 32)
    try:
        string = stream.decompress(value, MAX_BYTES + 1)
    except zlib.error:
        raise Refused(_BROKEN) from None
    if len(string) > MAX_BYTES:
        raise Refused("the value unpacks to more than 64 KiB")
    if not stream.eof:
        raise Refused("the compressed value is cut off")
    if stream.unused_data:
        raise Refused("there are bytes behind the compressed value")
    return string


def _fastlz(value: bytes, size: int) -> bytes:
    """Unpacks FastLZ of level 1: a control byte, and what belongs to it.

    ``000nnnnn``: n + 1 bytes follow; ``lllddddd d``: l + 2 bytes again, from
    d + 1 bytes back; ``111ddddd l d``: l + 9 bytes again.
    """
    if size > MAX_BYTES:
        raise Refused("the value unpacks to more than 64 KiB")
    if not value or value[0] >> 5:
        raise Refused("the value is not decoded: FastLZ of a level other than 1")
    string = bytearray()
    at = 0
    try:
        while at < len(value) and len(string) <= size:
            control = value[at]
            at += 1
            if control < 32:
                at += control + 1
                string += value[at - control - 1 : at]
                continue
            length = (control >> 5) + 2
            if length == 9:
                length += value[at]
                at += 1
            start = len(string) - ((control & 31) << 8) - value[at] - 1
            at += 1
            if start < 0:
                raise Refused(_BROKEN)
            for i in range(start, start + length):
                string.append(string[i])
    except IndexError:
        raise Refused(_BROKEN) from None
    if at != len(value) or len(string) != size:
        raise Refused(_BROKEN)
    return bytes(string)


# what the first bytes say


def _any(value: bytes) -> Unwrapped:
    if value.startswith(b"\x04\x08") or _is_packed(value):
        return _ruby(value)
    return Unwrapped(value)


def _serialized(value: bytes) -> Unwrapped:
    """What Dalli's serializer wrote."""
    if value.startswith(b"\x04\x08"):
        return _ruby(value)
    if value.startswith(b"{"):
        return Unwrapped(value)
    if not value.startswith(b'"'):
        raise Refused(
            "the value is not decoded: serialized, but neither as Marshal nor as JSON"
        )
    try:
        string = json.loads(value)
        return Unwrapped(string.encode("utf-8"))
    except ValueError:
        raise Refused("the value is a broken string of JSON") from None


def _guess(value: bytes) -> Unwrapped:
    """Under flags that some clients give to strings and others to numbers."""
    if _NUMBER.fullmatch(value):
        raise Refused("the value is a number by its flags, not a string")
    if _PHP.fullmatch(value):
        raise Refused("the value is serialized by PHP, not a string")
    return Unwrapped(value)


def _ruby(value: bytes) -> Unwrapped:
    """A Marshal String, a Rails.cache entry, or an entry of Rails 7.0 or later
    in a Marshal String, as it is in memcached.
    """
    if value.startswith(b"\x04\x08o"):
        return _rails_object(value)
    if not _is_packed(value):
        value = _marshal_string(value)
        if not _is_packed(value):
            return Unwrapped(value)
    if value.startswith(b"\x01"):
        return _rails_array(inflate(value[1:]))
    if value.startswith(b"\x00\x11"):
        return _rails_header(value)
    return _rails_array(value[1:])


# Rails.cache entries


def _is_packed(value: bytes) -> bool:
    """Whether it starts as an entry of Rails 7.0 or later."""
    return value.startswith((b"\x00\x11", b"\x00\x04\x08")) or (
        value.startswith(b"\x01") and _is_zlib(value[1:])
    )


def _rails_object(value: bytes) -> Unwrapped:
    """Rails 4 to 6.1: an object with @value, @version, @created_at and
    @expires_in; @compressed if @value is zlib data of a value's Marshal.
    """
    marshal = _Marshal(value)
    name, count = marshal.object()
    if name != _RAILS_CLASS:
        raise Refused("the value is an object in Ruby Marshal, not a String")
    if count > _MAX_IVARS:
        raise Refused(_BROKEN_ENTRY)
    string: bytes | None = None
    created: float | None = None
    expires: float | None = None
    compressed = False
    for _ in range(count):
        ivar = marshal.symbol()
        if ivar == b"@value":
            string = marshal.string()
        elif ivar == b"@created_at":
            created = marshal.time()
        elif ivar == b"@expires_in":
            expires = marshal.time()
        elif ivar == b"@compressed":
            compressed = marshal.flag()
        else:
            marshal.skip()
    marshal.close()
    if string is None or (expires is not None and created is None):
        raise Refused(_BROKEN_ENTRY)
    until = None
    if expires is not None and created is not None:
        until = _valid_until(created + expires)
    if compressed:
        string = _marshal_string(inflate(string))
    return Unwrapped(string, until)


def _rails_array(value: bytes) -> Unwrapped:
    """Rails 7.0: [value, expires_at, version] without nils at its end."""
    marshal = _Marshal(value)
    count = marshal.array()
    if not count:
        raise Refused("the value is nil in Ruby Marshal, not a String")
    if count > 3:
        raise Refused(_BROKEN_ENTRY)
    string = marshal.string()
    until = None
    if count > 1:
        until = _valid_until(marshal.time())
    if count > 2:
        marshal.skip()
    marshal.close()
    return Unwrapped(string, until)


def _rails_header(value: bytes) -> Unwrapped:
    """Rails 7.1: 00 11, type, expires_at, length of the version, version,
    payload; the type's upper bit says that the payload is zlib data.
    """
    if len(value) < 15:
        raise Refused(_BROKEN_ENTRY)
    kind, expires, length = struct.unpack_from("<Bdi", value, 2)
    payload = value[15:]
    if length > len(payload):
        raise Refused(_BROKEN_ENTRY)
    payload = payload[max(length, 0) :]
    until = None if expires < 0 else _valid_until(expires)
    if kind & 0x80:
        payload = inflate(payload)
    if kind & 0x7F in (2, 3, 4):
        return Unwrapped(payload, until)
    if kind & 0x7F == 1:
        return Unwrapped(_marshal_string(payload), until)
    raise Refused("a Rails.cache entry of an unknown type")


def _valid_until(time: float | None) -> int | None:
    """Whole seconds; None for what is never, 1 for what is long ago."""
    if time is None or math.isnan(time) or time >= _MAX_TIME + 1:
        return None
    return max(1, math.floor(time)) if time > 0 else 1


# Ruby's Marshal, format 4.8


def _marshal_string(value: bytes) -> bytes:
    """A dump that is a String, whatever its encoding, and nothing else."""
    marshal = _Marshal(value)
    string = marshal.string()
    marshal.close()
    return string


class _Marshal:
    """Reads Marshal piece by piece. Everything may raise Refused.

    Args:
        data: all of it, from 04 08 on.
    """

    def __init__(self, data: bytes) -> None:
        if not data.startswith(b"\x04\x08"):
            raise Refused("the value is not Ruby Marshal 4.8")
        self._data = data
        self._at = 2
        self._symbols: list[bytes] = []

    def close(self) -> None:
        """There is nothing more."""
        if self._at != len(self._data):
            raise Refused("there are bytes behind the Ruby Marshal")

    def string(self) -> bytes:
        """A String, with or without instance variables: its encoding."""
        kind = self._byte()
        ivars = kind == b"I"
        if ivars:
            kind = self._byte()
        if kind != b'"':
            what = _TYPES.get(kind, "an object")
            raise Refused(f"the value is {what} in Ruby Marshal, not a String")
        string = self._bytes()
        if ivars:
            self._skip_ivars(1)
        return string

    def symbol(self) -> bytes:
        """A Symbol, or a link to an earlier one."""
        kind = self._byte()
        if kind == b";":
            number = self._long()
            if not 0 <= number < len(self._symbols):
                raise Refused(_BROKEN_MARSHAL)
            return self._symbols[number]
        if kind != b":":
            raise Refused(_BROKEN_MARSHAL)
        symbol = self._bytes()
        if len(self._symbols) == _MAX_SYMBOLS:
            raise Refused("too many Symbols in Ruby Marshal")
        self._symbols.append(symbol)
        return symbol

    def time(self) -> float | None:
        """Seconds: an Integer or a Float; None for nil."""
        kind = self._byte()
        if kind == b"0":
            return None
        if kind == b"i":
            return float(self._long())
        if kind == b"l":
            return self._bignum()
        if kind != b"f":
            raise Refused("no time in Ruby Marshal where there has to be one")
        text = self._bytes()
        if not _DECIMAL.fullmatch(text):
            raise Refused(_BROKEN_MARSHAL)
        return float(text)

    def flag(self) -> bool:
        """true or false; nil is false."""
        kind = self._byte()
        if kind not in (b"T", b"F", b"0"):
            raise Refused(_BROKEN_ENTRY)
        return kind == b"T"

    def array(self) -> int:
        """What goes before an Array's elements: how many there are."""
        if self._byte() != b"[":
            raise Refused("no Array in Ruby Marshal where there has to be one")
        return self._count()

    def object(self) -> tuple[bytes, int]:
        """What goes before an object's variables: its class, how many."""
        if self._byte() != b"o":
            raise Refused("no object in Ruby Marshal where there has to be one")
        return self.symbol(), self._count()

    def skip(self, depth: int = 0) -> None:
        """Any value of core types."""
        if depth == _MAX_DEPTH:
            raise Refused("Ruby Marshal that is nested too deeply")
        kind = self._data[self._at : self._at + 1]
        if kind in (b":", b";"):
            self.symbol()
            return
        if kind == b"l":
            self.time()
            return
        self._byte()
        if kind in (b"i", b"@"):
            self._long()
        elif kind in (b'"', b"f"):
            self._bytes()
        elif kind == b"/":
            self._bytes()
            self._byte()
        elif kind == b"I":
            self.skip(depth + 1)
            self._skip_ivars(depth + 1)
        elif kind == b"[":
            for _ in range(self._count()):
                self.skip(depth + 1)
        elif kind in (b"{", b"}"):
            # the last one is the default
            for _ in range(2 * self._count() + (kind == b"}")):
                self.skip(depth + 1)
        elif kind not in (b"0", b"T", b"F"):
            raise Refused("an object in Ruby Marshal")

    def _skip_ivars(self, depth: int) -> None:
        for _ in range(self._count()):
            self.symbol()
            self.skip(depth)

    def _byte(self) -> bytes:
        byte = self._data[self._at : self._at + 1]
        if not byte:
            raise Refused(_CUT_OFF)
        self._at += 1
        return byte

    def _long(self) -> int:
        """00: 0; 05..7f: 0..122; 80..fa: -123..-1; 01..04: so many bytes,
        little endian; fc..ff: 4..1 bytes of a negative number.
        """
        first = int.from_bytes(self._byte(), "big", signed=True)
        if first == 0:
            return 0
        if first > 4:
            return first - 5
        if first < -4:
            return first + 5
        width = abs(first)
        digits = self._data[self._at : self._at + width]
        if len(digits) < width:
            raise Refused(_CUT_OFF)
        self._at += width
        number = int.from_bytes(digits, "little")
        return number if first > 0 else number - (1 << (8 * width))

    def _count(self) -> int:
        """Of bytes, or of elements of a byte or more."""
        number = self._long()
        if number < 0:
            raise Refused(_BROKEN_MARSHAL)
        if number > len(self._data) - self._at:
            raise Refused(_CUT_OFF)
        return number

    def _bytes(self) -> bytes:
        count = self._count()
        self._at += count
        return self._data[self._at - count : self._at]

    def _bignum(self) -> float:
        sign = self._byte()
        if sign not in (b"+", b"-"):
            raise Refused(_BROKEN_MARSHAL)
        width = 2 * self._count()
        if width > len(self._data) - self._at:
            raise Refused(_CUT_OFF)
        self._at += width
        number = int.from_bytes(self._data[self._at - width : self._at], "little")
        try:
            return float(number if sign == b"+" else -number)
        except OverflowError:
            return math.inf if sign == b"+" else -math.inf
