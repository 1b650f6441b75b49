"""The module for SQLite, in the nginx of a site, and databases for it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from .site import Site

NAME = "ngx_http_sendfile_sqlite_module.so"

QUERY = "SELECT path FROM files WHERE id = ?"


def load_sqlite(site: Site) -> None:
    """Let the site's nginx load the module, where it is not linked in.

    It lies beside the flavour's other module; NGX_SQLITE_MODULE names another.
    """
    if site.flavour.module is None or NAME in site.variables["LOAD"]:
        return
    beside = site.flavour.module.with_name(NAME)
    module = Path(os.environ.get("NGX_SQLITE_MODULE", beside))
    assert module.exists(), f"{module} is missing: run make build"
    site.variables["LOAD"] += f" load_module {module};"


def connect(path: Path) -> sqlite3.Connection:
    """Open a database; each statement is a transaction of its own."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def run(path: Path, *statements: str) -> None:
    """Run statements on a database and close it."""
    with closing(connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def create(
    site: Site,
    ids: Iterable[int] = (),
    name: str = "app.sqlite3",
    journal: str = "DELETE",
) -> Path:
    """Make a database of files, with the table that ``QUERY`` reads.

    Args:
        site: whose directory it lies in, and which gets a file for each ID.
        ids: of the files.
        name: of the database's file.
        journal: the journal mode.

    Returns:
        Where it is.
    """
    path = site.directory / name
    rows = []
    for n in ids:
        file = f"aa/{n}.dat"
        site.files.write_id(file, n)
        rows.append((n, file))
    with closing(connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute(
            "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT, type TEXT,"
            " name TEXT, disposition TEXT, expires, headers TEXT)"
        )
        connection.executemany("INSERT INTO files (id, path) VALUES (?, ?)", rows)
    path.chmod(0o644)
    return path


def block(
    path: Path | str, query: str = QUERY, more: str = "", name: str = "blobs"
) -> str:
    """Return a store block.

    Args:
        path: of the database.
        query: what the directive says.
        more: lines of the block.
        name: of the store.
    """
    return (
        f"http_sendfile_store {name} {{\nserver sqlite:{path};\n"
        f"query {quoted(query)};\n{more} }}\n"
    )


def quoted(query: str) -> str:
    """Return a query as a parameter in nginx.conf."""
    return '"' + query.replace("\\", "\\\\").replace('"', '\\"') + '"'


def location(name: str = "file", store: str = "blobs", more: str = "") -> str:
    """Return a location /NAME/ that asks a store and delivers directly."""
    return (
        f"location /{name}/ {{ http_sendfile on; http_sendfile_lookup {store};"
        f" %%DIRECT%% {more} }}\n"
    )
