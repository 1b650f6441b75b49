"""Values as real clients write them, byte by byte, from memcached to the file."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lib.files import content
from lib.memcached import Memcached
from lib.nginx import REPOSITORY, Nginx
from lib.servers import location
from lib.site import INTERNAL, Site

pytest_plugins = ("lib.memcached_fixtures",)

VECTORS = REPOSITORY / "test" / "vectors" / "wire_values.tsv"
ROWS = 87

# the strings that the table does not spell out; None: there is no string
MEANT: dict[str, str | None] = {
    "s_int": None,
    # written raw, the number 12 is a string as good as any
    "s_int_raw": "12",
    "s_4k": "a" * 5000,
    "s_4k_raw": "a" * 5000,
    "py_int": None,
    "py_list": None,
    "py_str_compr": "a" * 1000,
    "py_str_comprs": "aa",
    "pl_int": None,
    "pl_z": "a" * 3000,
    "ph_int": None,
    "ph_arr": None,
    "ph_z": "aXb" * 1000,
    "ph_zz": "aXb" * 1000,
    "ph_dbl": None,
    "ph_bool": None,
    "pre_ph_pref": "x",
    "pm_z": "aXb" * 1000,
    "pm_arr": None,
    "pm_int": None,
    "r_nil": None,
    "r_int": None,
    # the table tells the string in the Hash
    "r_hash": None,
    "r_2k": "a" * 2000,
}

# when the table's entries expire, in Unix seconds
EXPIRY = (1795189400, 1795189500)
NO_EXPIRY = -1.0
EXPIRING = ("r_exp", "r_expver")

# the files that the table's strings are the paths of, with their IDs
FILES = {"aa/aa.dat": 1001, "12": 1002, "x": 1003, "aa": 1004}

# a file's name has at most so many bytes
MAX_NAME = 255
MAX_PATH = 4096


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        number: of the line, from 1.
        source: the client and its version.
        case: what it wrote.
        flags: those in memcached; 0 for what was taken from Redis.
        data: the bytes in memcached.
        string: the string inside; None if there is none.
    """

    number: int
    source: str
    case: str
    flags: int
    data: bytes
    string: str | None


def rows() -> Iterator[Row]:
    """Read the table."""
    lines = VECTORS.read_text().splitlines()[1:]
    for number, line in enumerate(lines, 1):
        source, case, flags, data, string = line.split("\t")
        yield Row(
            number,
            source,
            case,
            0 if flags == "-" else int(flags),
            bytes.fromhex(data),
            MEANT.get(case, string),
        )


def sources() -> list[str]:
    """Return the clients of the table."""
    return list(dict.fromkeys(row.source for row in rows()))


def test_table_is_whole() -> None:
    """The table has all its rows, and each string is known."""
    found = list(rows())
    assert len(found) == ROWS
    assert all(row.string != "" for row in found)
    assert {row.case for row in found if row.case in MEANT} == set(MEANT)


def expiring(data: bytes, digit: bytes, seconds: float) -> bytes:
    """Return an entry with another expiry, if it has one.

    Args:
        data: the entry.
        digit: the first digit of the expiry, which is a decimal text in format
            7.0 of Rails.cache.
        seconds: the expiry in format 7.1, a double behind 00 11 TYPE.
    """
    changed = re.sub(rb"1(?=795189\d{3}\.\d+)", digit, data)

    def other(match: re.Match[bytes]) -> bytes:
        (found,) = struct.unpack("<d", match[2])
        if found == NO_EXPIRY:
            return match[0]
        assert EXPIRY[0] < found < EXPIRY[1], found
        return match[1] + struct.pack("<d", seconds)

    return re.sub(rb"(?s)(\x00\x11[\x01-\x04])(.{8})", other, changed, count=1)


def postponed(data: bytes) -> bytes:
    """Return an entry that expires far in the future, if it expires at all."""
    return expiring(data, b"4", 4e9)


def expired(data: bytes) -> bytes:
    """Return an entry that has expired, if it expires at all."""
    return expiring(data, b"0", 9e8)


def check_row(site: Site, nginx: Nginx, row: Row, uri: str) -> None:
    """Check what comes of a row that was stored under the last segment of a URI."""
    response = nginx.get(uri)
    entry = nginx.logged(uri)
    what = (row, entry)
    if row.string is None or len(row.string) > MAX_PATH:
        assert (response.status, entry.status) == (502, "INVALID"), what
        if row.string is not None:
            assert "path" in entry.reason, what
        return
    assert (entry.status, entry.target) == ("HIT", row.string), what
    if max(map(len, row.string.split("/"))) > MAX_NAME:
        # no file can have that name; it was the right one
        assert response.status in (403, 404), what
        return
    site.assert_file(response, FILES[row.string])


@pytest.fixture
def nginx(site: Site, memcached: Memcached) -> Nginx:
    """An nginx, and the files that the table's strings are the paths of."""
    for path, file_id in FILES.items():
        # "aa" is a directory already
        if path != "aa":
            site.files.write_id(path, file_id)
    return site.start(location(memcached.url) + INTERNAL)


@pytest.mark.parametrize("source", sources())
def test_rows(site: Site, memcached: Memcached, nginx: Nginx, source: str) -> None:
    """Each row of a client is the file that it means, or no record at all."""
    for row in rows():
        if row.source != source or row.string == "aa":
            continue
        data = postponed(row.data)
        if row.case in EXPIRING:
            assert data != row.data, f"no expiry in {row}"
        memcached.put(row.number, data, row.flags)
        check_row(site, nginx, row, f"/file/{row.number}")


def test_rows_that_have_expired(memcached: Memcached, nginx: Nginx) -> None:
    """An entry of Rails.cache that has expired is a miss."""
    found = [row for row in rows() if row.case in EXPIRING]
    assert len(found) == 20
    for row in found:
        data = expired(row.data)
        assert data != row.data
        memcached.put(row.number, data, row.flags)
        assert nginx.get(f"/file/{row.number}").status == 404
        entry = nginx.logged(f"/file/{row.number}")
        assert (entry.status, entry.source) == ("MISS", "memcached"), row
        assert entry.reason == "record has expired"


def test_path_that_is_a_directory(site: Site, memcached: Memcached) -> None:
    """The row whose string is "aa", with a file of that name."""
    (row,) = [row for row in rows() if row.string == "aa"]
    site.files.write_id("aa", FILES["aa"])
    memcached.put(row.number, row.data, row.flags)
    nginx = site.start(location(memcached.url) + INTERNAL)
    check_row(site, nginx, row, f"/file/{row.number}")


@pytest.mark.parametrize("format", ["path", "json", "marshal"])
def test_rows_by_format(site: Site, memcached: Memcached, format: str) -> None:
    """With a format that is said no other is tried."""
    site.files.write_id("aa/aa.dat", FILES["aa/aa.dat"])
    record = b'{"path":"aa/aa.dat"}'
    marshal = b'\x04\x08I"\x0eaa/aa.dat\x06:\x06ET'
    values = {1: b"aa/aa.dat", 2: record, 3: marshal}
    for n, value in values.items():
        memcached.put(n, value)
    nginx = site.start(
        location(memcached.url, f"http_sendfile_format {format};") + INTERNAL
    )
    good = {"path": 1, "json": 2, "marshal": 3}[format]
    for n in values:
        response = nginx.get(f"/file/{n}")
        if n == good:
            assert response.body == content(FILES["aa/aa.dat"])
        elif format == "path" and n == 2:
            # a path as good as any, of a file that is not there
            assert response.status == 404
            assert nginx.logged("/file/2").target == record.decode()
        else:
            assert response.status == 502
            assert nginx.logged(f"/file/{n}").status == "INVALID"


@pytest.mark.parametrize(
    ("flags", "data"),
    [
        (1, b"\x04\x08o:\x0bObject\x00"),
        (1, b"\x04\x08o:\x08Set\x06:\x0a@hash}\x00i\x00"),
        (1, b'\x04\x08I:\x08Foo"\x06a\x06:\x06ET'),
        (1, b'\x04\x08e:\x0fKernel"\x06a'),
        (1, b"\x04\x08u:\x0bRegexp\x06a"),
        (1, b"\x04\x08U:\x0cComplex[\x07i\x06i\x07"),
        (1, b"\x04\x08c\x0bString"),
        (1, b"\x04\x08m\x0bKernel"),
        (1, b"\x04\x08" + b"[\x06" * 1000 + b'"\x06a'),
        (1, b"\x04\x08I" * 1000),
        (1, b'\x04\x08"\x04\xff\xff\xff\x7fa'),
        (1, b'\x04\x08"\xfaa'),
        (1, b'\x04\x08"\x06aa'),
        (1, b"\x04\x08"),
        (1, b"\x04"),
        (1, b'\x04\x09"\x06a'),
        (2, b"\x78\x9c"),
        (2, b"\x78\x9c" + b"\xff" * 50),
        (3, b"\x1f\x8b\x08\x00"),
        (24, b"aa/aa.dat"),
        (80, b"\x09\x00\x00\x00\x08aa/aa.da"),
        (80, b"\xff\xff\xff\xff\x08aa/aa.dat"),
        (48, b"\x09\x00\x00\x00aa/aa.dat"),
        (144, b"\x09\x00\x00\x00aa/aa.dat"),
        (0xFFFF, b"aa/aa.dat"),
        (5, b"aa/aa.dat"),
    ],
)
def test_broken_values(
    site: Site, memcached: Memcached, nginx: Nginx, flags: int, data: bytes
) -> None:
    """What is cut, broken or an object is INVALID, and the next request is served."""
    memcached.put(1, data, flags)
    memcached.put(2, "aa/aa.dat")
    assert nginx.get("/file/1").status == 502
    entry = nginx.logged("/file/1")
    assert entry.status == "INVALID"
    assert entry.reason.startswith("invalid record: ")
    site.assert_file(nginx.get("/file/2"), FILES["aa/aa.dat"])


def test_inflate_bombs(site: Site, memcached: Memcached, nginx: Nginx) -> None:
    """A value of a few bytes that unpacks to megabytes is INVALID, and at once."""
    bomb = b'{"path":"aa/aa.dat","x":"' + b"x" * 20_000_000 + b'"}'
    small = b'{"path":"aa/aa.dat","x":"' + b"x" * 60_000 + b'"}'
    packed = {
        1: (2, zlib.compress(bomb), zlib.compress(small)),
        2: (2, gzip.compress(bomb), gzip.compress(small)),
        3: (8, zlib.compress(bomb), zlib.compress(small)),
        4: (24, zlib.compress(bomb), zlib.compress(small)),
    }
    for n, (flags, big, little) in packed.items():
        memcached.put(10 + n, big, flags)
        memcached.put(20 + n, little, flags)
        assert nginx.get(f"/file/{10 + n}").status == 502
        assert nginx.logged(f"/file/{10 + n}").status == "INVALID"
        site.assert_file(nginx.get(f"/file/{20 + n}"), FILES["aa/aa.dat"])


def test_flags_of_a_user(site: Site, memcached: Memcached, nginx: Nginx) -> None:
    """The upper 16 bits are an application's own, as php-memcached has it."""
    memcached.put(1, "aa/aa.dat", 0xABCD0000)
    memcached.put(2, "aa/aa.dat", 0xABCD0010)
    for n in (1, 2):
        site.assert_file(nginx.get(f"/file/{n}"), FILES["aa/aa.dat"])
