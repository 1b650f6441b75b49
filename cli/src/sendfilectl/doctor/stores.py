"""The stores: whether they are there, and answer; and zones, against their size."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sendfilectl.connect import connect
from sendfilectl.doctor.access import User, denied
from sendfilectl.doctor.config import Directive
from sendfilectl.doctor.finding import Patient
from sendfilectl.doctor.levels import Level, everything
from sendfilectl.doctor.sqlite import check_sqlite
from sendfilectl.errors import StoreError, UsageError
from sendfilectl.lmdb_store import Files, check_format, locate
from sendfilectl.stores import parse_url

DEFAULT_STORE = "memcached://127.0.0.1:11211"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

# bytes of a cached record, beside its key and value
RECORD_COST = 118

# misses have a sixteenth of a zone
_USABLE = 15 / 16

_MAX_REPLY = 65536

# of MDB_page's head and MDB_meta on a 64-bit machine, see lmdb's mdb.c: the page's
# size, then pages of leaves, pages that overflow and entries, then the transaction
_META_LENGTH = 152
_META_PAGE = 40
_META_TABLE = 104
_META_TRANSACTION = 144


@dataclass(frozen=True)
class Used:
    """A store, and where it is asked.

    Attributes:
        url: of one server, or of LMDB.
        where: the directive that names it.
        level: of a location that asks it.
        connections: of each worker to it.
        query: the directive of its block, if there is one.
    """

    url: str
    where: Directive | None
    level: Level
    connections: int = 1
    query: Directive | None = None


def used(patient: Patient, servers: list[Level]) -> Iterator[Used]:
    """The stores that are asked somewhere, each server of them once."""
    blocks = {
        block.arg(): block
        for http in patient.config.tree.find("http")
        for block in http.find("http_sendfile_store")
    }
    seen: set[str] = set()
    for level in everything(servers):
        if not level.sendfile:
            continue
        where = level.one("http_sendfile_lookup")
        url = where.arg() if where is not None else DEFAULT_STORE
        if ":" in url:
            if url not in seen:
                seen.add(url)
                yield Used(url, where, level)
            continue
        block = blocks.get(url)
        if block is None or url in seen:
            continue
        seen.add(url)
        each = next((one.arg() for one in block.find("connections")), "1")
        query = next(block.find("query"), None)
        for server in block.find("server"):
            number = int(each) if each.isdigit() else 1
            yield Used(server.arg(), server, level, number, query)


def check_stores(
    patient: Patient, servers: list[Level], user: User | None, timeout: float
) -> None:
    """Each store: its files and their permissions, or whether it answers.

    Args:
        patient: the nginx.
        servers: of it.
        user: of its workers.
        timeout: seconds for a server to take the connection, and to answer.
    """
    for one in used(patient, servers):
        scheme = one.url.partition(":")[0]
        if scheme == "lmdb":
            _lmdb(patient, one, user)
        elif scheme == "memcached":
            _memcached(patient, one, timeout)
        elif scheme == "sqlite" and one.where is not None:
            _sqlite(patient, one, one.where, user)
        else:
            patient.unchecked.append(f"{one.url}: doctor knows no store of this kind")


def _lmdb(patient: Patient, one: Used, user: User | None) -> None:
    try:
        _lmdb_checked(patient, one, user)
    except (OSError, StoreError) as error:
        if os.geteuid() == 0:
            patient.find("error", "store", str(error), "correct the path", one.where)
        else:
            patient.unchecked.append(f"{one.url}: run doctor as root")


def _lmdb_checked(patient: Patient, one: Used, user: User | None) -> None:
    try:
        path = parse_url(one.url).rest
        files = locate(path)
    except UsageError as error:
        patient.find("error", "store", str(error), "correct the path", one.where)
        return
    if files is None:
        patient.find(
            "warning",
            "store",
            f"there is no store at {path}: every lookup is a miss",
            f"sendfilectl publish {one.url} --from files.csv, or correct the path",
            one.where,
        )
        return
    if os.access(files.data, os.R_OK):
        check_format(files.data)
    if user is not None:
        in_the_way = denied(user, files.data, "read")
        if in_the_way is not None:
            patient.find(
                "error",
                "store",
                f"{user.name} may not {in_the_way.need} {in_the_way.path} "
                f"({in_the_way.mode}), so no worker can open {one.url}",
                in_the_way.remedy,
                one.where,
            )
    _lmdb_files(patient, one, files)


def _sqlite(patient: Patient, one: Used, where: Directive, user: User | None) -> None:
    path = one.url.removeprefix("sqlite:")
    query = one.query.arg() if one.query is not None else ""
    try:
        check_sqlite(patient, path, query, where, one.query, user)
    except OSError as error:
        if os.geteuid() == 0:
            patient.find("error", "store", str(error), "correct the path", where)
        else:
            patient.unchecked.append(f"{one.url}: run doctor as root")


def _lmdb_files(patient: Patient, one: Used, files: Files) -> None:
    folder = os.path.dirname(files.data)
    for path, what in ((files.data, "data"), (files.lock, "lock"), (folder, "folder")):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        if not found.st_mode & stat.S_IWOTH or found.st_mode & stat.S_ISVTX:
            continue
        if what == "lock":
            patient.find(
                "note",
                "store",
                f"everybody may write to {path}, and so hold up whoever writes the "
                "store (never nginx)",
                f"chmod 0660 {path}",
                one.where,
            )
        else:
            patient.find(
                "error",
                "store",
                f"everybody may write to {path}, and so publish any file",
                f"chmod o-w {path}",
                one.where,
            )


def _memcached(patient: Patient, one: Used, timeout: float) -> None:
    rest = one.url.removeprefix("memcached:")
    if rest.startswith("//"):
        match = re.fullmatch(r"//(\[[^\]]*\]|[^:]*)(?::(\d+))?", rest)
        if match is None:
            return
        host, port = match[1].strip("[]"), int(match[2] or 11211)
    else:
        host, port = rest.removeprefix("unix:"), 0
    try:
        with contextlib.closing(connect(host, port, timeout, lambda text: None)) as s:
            version = _ask(s, b"version\r\n", b"\r\n")
            if not version.startswith(b"VERSION "):
                raise OSError("what it answers is not memcached's text protocol")
            settings = _ask(s, b"stats settings\r\n", b"END\r\n")
    except socket.timeout:
        reason = f"no answer within {timeout:g} s"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    else:
        _connections(patient, one, settings)
        return
    patient.find(
        "error",
        "store",
        f"{one.url} does not answer: {reason}",
        "start memcached there, or correct the address",
        one.where,
    )


def _ask(sock: socket.socket, command: bytes, end: bytes) -> bytes:
    sock.sendall(command)
    reply = b""
    while not reply.endswith((end, b"ERROR\r\n")) and len(reply) < _MAX_REPLY:
        chunk = sock.recv(4096)
        if not chunk:
            raise OSError("it closes the connection")
        reply += chunk
    return reply


def _connections(patient: Patient, one: Used, settings: bytes) -> None:
    match = re.search(rb"STAT maxconns (\d+)", settings)
    workers = worker_processes(patient)
    need = workers * one.connections
    # a reload has two generations of workers
    if match is not None and int(match[1]) < 2 * need:
        patient.find(
            "warning",
            "limits",
            f"{one.url} takes {int(match[1])} connections, and nginx needs {need}, "
            f"{2 * need} during a reload ({workers} workers x {one.connections})",
            f"start memcached with -c {max(1024, 4 * need)}",
            one.where,
        )


def worker_processes(patient: Patient) -> int:
    """How many workers there are."""
    value = next(
        (one.arg() for one in patient.config.tree.find("worker_processes")), "1"
    )
    if value == "auto":
        return os.cpu_count() or 1
    return int(value) if value.isdigit() else 1


@dataclass(frozen=True)
class Content:
    """How much there is in an LMDB store.

    Attributes:
        ids: how many.
        size: bytes of the pages that hold them.
    """

    ids: int
    size: int


def content(data: str) -> Content | None:
    """How much an LMDB file holds, by its newer meta page; takes no lock.

    Returns:
        None if it is of another machine's kind.

    Raises:
        OSError: it cannot be read.
    """
    with open(data, "rb") as file:
        metas = [file.read(_META_LENGTH)]
        if len(metas[0]) < _META_LENGTH:
            return None
        (size,) = struct.unpack_from("=I", metas[0], _META_PAGE)
        if not 512 <= size <= 65536:
            return None
        file.seek(size)
        metas.append(file.read(_META_LENGTH))
    best: tuple[int, Content] | None = None
    for meta in metas:
        if len(meta) < _META_LENGTH:
            continue
        leaf, overflow, entries = struct.unpack_from("=3Q", meta, _META_TABLE)
        (transaction,) = struct.unpack_from("=Q", meta, _META_TRANSACTION)
        if best is None or transaction > best[0]:
            best = transaction, Content(entries, (leaf + overflow) * size)
    return best[1] if best else None


def check_zones(patient: Patient, servers: list[Level]) -> None:
    """Zones that hold a part of a store's records only.

    A record takes RECORD_COST bytes, its key and its value, and misses have a
    sixteenth of the zone.
    """
    zones: dict[str, tuple[int, Directive]] = {}
    for http in patient.config.tree.find("http"):
        for found in http.find("http_sendfile_cache_zone"):
            name, _, text = found.arg().partition(":")
            match = re.fullmatch(r"(\d+)([kmg]?)", text, re.IGNORECASE)
            if match:
                zones[name] = int(match[1]) * _UNITS[match[2].lower()], found
    need: dict[str, dict[str, Content]] = {}
    for one in used(patient, servers):
        zone = one.level.value("http_sendfile_cache", "off")
        if zone not in zones or not one.url.startswith("lmdb:"):
            continue
        with contextlib.suppress(OSError, UsageError, StoreError):
            files = locate(parse_url(one.url).rest)
            found_there = content(files.data) if files is not None else None
            if found_there is not None and found_there.ids:
                need.setdefault(zone, {})[one.url] = found_there
    for zone, stores in need.items():
        size, where = zones[zone]
        ids = sum(one.ids for one in stores.values())
        bytes_ = sum(one.size + one.ids * RECORD_COST for one in stores.values())
        room = int(size * _USABLE)
        if bytes_ > room:
            fits = ids * room // bytes_
            wanted = -(-int(bytes_ / _USABLE) // (1 << 20))
            patient.find(
                "note",
                "zone",
                f'the zone "{zone}" has room for about {fits} of the {ids} records in '
                f"{', '.join(stores)}",
                f'"http_sendfile_cache_zone {zone}:{wanted}m;" holds all, if all are '
                "asked for",
                where,
            )
