"""Databases of SQLite that are stores: files, permissions, mode and query.

Nothing is written: a database in WAL mode that nobody has open is read as one that
nobody changes, for SQLite would make files beside it, and these would be root's.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from contextlib import closing
from urllib.parse import quote

from sendfilectl.doctor.access import User, denied
from sendfilectl.doctor.config import Directive
from sendfilectl.doctor.finding import Patient

_MAGIC = b"SQLite format 3\0"

# in the file's header: the version that who reads it needs; 2 is WAL
_READ_VERSION = 19
_WAL = 2

COLUMNS = ("path", "type", "name", "disposition", "expires", "headers")

# of the presets: the table, its columns, and who makes them
PRESETS = {
    "activestorage": (
        "active_storage_blobs",
        ("id", "key", "filename", "content_type"),
        "bin/rails active_storage:install and db:migrate",
    ),
    "solid_cache": (
        "solid_cache_entries",
        ("key", "value", "key_hash"),
        "bin/rails solid_cache:install and db:prepare",
    ),
}

_NAME = re.compile(r"\w+", re.ASCII)


def check_sqlite(
    patient: Patient,
    path: str,
    query: str,
    server: Directive,
    line: Directive | None,
    user: User | None,
) -> None:
    """A database that is a store.

    Args:
        patient: the nginx.
        path: of the database.
        query: SQL, or the name of a preset; "" if there is none.
        server: the directive that names the database.
        line: the directive "query".
        user: of the workers; None if it is not known.

    Raises:
        OSError: a file could not be looked at.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        patient.find(
            "error",
            "store",
            f"there is no database at {path}: every lookup fails",
            "start the application once, or correct the path",
            server,
        )
        return
    if not stat.S_ISREG(found.st_mode):
        patient.find(
            "error",
            "store",
            f"{path} is no regular file",
            "write the path of the database itself",
            server,
        )
        return
    _writable(patient, path, server)
    readable = user is None or _permitted(patient, path, path, user, server)
    with open(path, "rb") as file:
        head = file.read(100)
    if head and not head.startswith(_MAGIC):
        patient.find(
            "error",
            "store",
            f"{path} is no database of SQLite",
            "correct the path, or restore the database",
            server,
        )
        return
    wal = len(head) > _READ_VERSION and head[_READ_VERSION] == _WAL
    _mode(patient, path, wal, user if readable else None, server)
    _query(patient, path, wal, query, line or server)


def _writable(patient: Patient, path: str, where: Directive) -> None:
    """Whether anybody may change what is served."""
    for one in (path, os.path.dirname(path)):
        mode = os.stat(one).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            patient.find(
                "error",
                "store",
                f"everybody may write to {one}, and so publish any file",
                f"chmod o-w {one}",
                where,
            )


def _permitted(
    patient: Patient, path: str, store: str, user: User, where: Directive
) -> bool:
    """Whether the workers may read a file."""
    in_the_way = denied(user, path, "read")
    if in_the_way is None:
        return True
    patient.find(
        "error",
        "store",
        f"{user.name} may not {in_the_way.need} {in_the_way.path} "
        f"({in_the_way.mode}), so no worker can read the database {store}",
        in_the_way.remedy,
        where,
    )
    return False


def _mode(
    patient: Patient, path: str, wal: bool, user: User | None, where: Directive
) -> None:
    """WAL mode, which is to be, and the files that belong to it."""
    if not wal:
        patient.find(
            "warning",
            "store",
            f"{path} is not in WAL mode, so a lookup fails in the moment of a commit",
            f"sqlite3 {path} 'PRAGMA journal_mode=WAL', as the application's user",
            where,
        )
        return
    beside = [path + "-wal", path + "-shm"]
    missing = [one for one in beside if not os.path.exists(one)]
    if missing:
        patient.find(
            "error",
            "store",
            f"there is no {missing[0]}: nobody has {path} open, and workers, which "
            "never write, cannot be the first",
            "start the application",
            where,
        )
        return
    if user is not None:
        for one in beside:
            _permitted(patient, one, path, user, where)


def _query(
    patient: Patient, path: str, wal: bool, query: str, where: Directive
) -> None:
    """What SQLite makes of the query, and the columns that it has."""
    if not query:
        patient.find(
            "error",
            "store",
            f"the store with {path} has no query",
            'write "query activestorage;" or a SELECT',
            where,
        )
        return
    log, shared = (os.path.exists(path + end) for end in ("-wal", "-shm"))
    if wal and log and not shared:
        # what is in the log cannot be read without making a file
        return
    # in either way nothing is made or written beside the database
    how = "immutable=1" if wal and not log else "readonly_shm=1"
    uri = f"file:{quote(path)}?mode=ro&{how}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=1)) as database:
            database.execute("PRAGMA query_only=1")
            database.execute("PRAGMA trusted_schema=0")
            if query in PRESETS:
                _preset(patient, database, path, query, where)
            elif not _NAME.fullmatch(query):
                _own(patient, database, path, query, where)
    except sqlite3.Error as error:
        if "locked" in str(error):
            patient.unchecked.append(f"{path}: {error}; run doctor once more")
        else:
            patient.find(
                "error",
                "store",
                f"{path}: {error}",
                "correct the query, migrate the application, or restore the database",
                where,
            )


def _preset(
    patient: Patient,
    database: sqlite3.Connection,
    path: str,
    name: str,
    where: Directive,
) -> None:
    table, columns, maker = PRESETS[name]
    there = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    missing = [column for column in columns if column not in there]
    if not there:
        text = f'{path} has no table "{table}", which the query {name} reads'
    elif missing:
        text = f'the table "{table}" of {path} has no column "{missing[0]}"'
    else:
        return
    patient.find("error", "store", text, f"{maker}, or another query", where)


def _own(
    patient: Patient,
    database: sqlite3.Connection,
    path: str,
    query: str,
    where: Directive,
) -> None:
    """A query as it is written, as a part of one that gives no row."""
    sql = query.strip().rstrip(";")
    try:
        cursor = database.execute(f"SELECT * FROM ({sql}\n) LIMIT 0", (None,))
    except sqlite3.ProgrammingError:
        patient.find(
            "error",
            "store",
            f"the query for {path} has not one parameter",
            'write one, "?", where the key belongs',
            where,
        )
        return
    names = [str(column[0]).lower() for column in cursor.description or ()]
    if len(names) <= 1:
        return
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        patient.find(
            "error",
            "store",
            f'the query for {path} has the column "{unknown[0]}", which is none of '
            "a record's",
            f"name it {', '.join(COLUMNS[:-1])} or {COLUMNS[-1]} with AS",
            where,
        )
    elif "path" not in names:
        patient.find(
            "error",
            "store",
            f'the query for {path} has no column "path"',
            "name one so with AS",
            where,
        )
