"""What nginx -t says of SQLite stores."""

from __future__ import annotations

import os
import subprocess

import pytest

from lib.site import Site
from lib.sqlite import QUERY, block, create, load_sqlite, location, run

MEMCACHED = "memcached://host:port or memcached:/unix/socket"


@pytest.fixture
def sqlite(site: Site) -> Site:
    """A site whose nginx has the module."""
    load_sqlite(site)
    return site


def test_good_query_says_nothing(sqlite: Site) -> None:
    path = create(sqlite, [7])
    for query in (
        QUERY,
        "SELECT path FROM files WHERE id = ?;",
        "SELECT path FROM files WHERE id = ? -- of documents\n;",
        "SELECT path FROM files WHERE id = :id AND :id != ''",
        "SELECT path FROM files WHERE id = $id OR name = $id".replace("$", "@"),
        "WITH f AS (SELECT * FROM files) SELECT path FROM f WHERE id = ?",
        "SELECT upper(path) AS PATH, name AS Type FROM files WHERE id = ?",
        "VALUES (?)",
    ):
        sqlite.check_config(location(), http=block(path, query)).assert_silent()
    names = {p.name for p in path.parent.glob("app.sqlite3*")}
    assert names == {"app.sqlite3"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC path FROM files WHERE id = ?", 'near "SELEC": syntax error in'),
        ("SELECT path FROM files WHERE id = ? AND", "incomplete input in"),
        ("SELECT paht FROM files WHERE id = ?", "no such column: paht in"),
        ("SELECT nosuch(?)", "no such function: nosuch in"),
        ("SELECT path, id FROM files WHERE id = ?", 'unknown column "id": name it'),
        ("SELECT type, name FROM files WHERE id = ?", 'no column "path"'),
        ("SELECT path, name AS path FROM files WHERE id=?", 'two columns "path"'),
        ("SELECT path FROM files", '0 parameters in the query: write one, "?"'),
        ("SELECT path FROM files WHERE id=? OR id=?", "2 parameters in the query"),
        (" ", "the query is empty: write a SELECT in"),
        ("-- SELECT ?", "the query is empty: write a SELECT in"),
        ("SELECT path FROM files WHERE id=?; SELECT 1", "more than one statement"),
        ("SELECT path FROM files WHERE id=?; DROP TABLE files", "more than one"),
        ("SELECT path FROM files WHERE id=?; x", "more than one statement"),
        ("INSERT INTO files (id) VALUES (?)", "INSERT, UPDATE, DELETE, CREATE or"),
        (
            "INSERT INTO files (id) VALUES (?) RETURNING path",
            "in a query, which may only read: write a SELECT in",
        ),
        ("UPDATE files SET path = ?", "INSERT, UPDATE, DELETE, CREATE or DROP in"),
        ("DELETE FROM files WHERE id = ?", "INSERT, UPDATE, DELETE, CREATE or"),
        ("CREATE TABLE x (y)", "INSERT, UPDATE, DELETE, CREATE or DROP in"),
        ("DROP TABLE files", "INSERT, UPDATE, DELETE, CREATE or DROP in a query"),
        ("ATTACH ? AS other", "ATTACH or DETACH in a query"),
        ("PRAGMA writable_schema=1", "PRAGMA in a query"),
        ("SELECT name FROM pragma_table_info(?)", "in a query, which may only read"),
        ("SELECT value FROM json_each(?)", "vtable constructor failed: json_each"),
        ("SELECT load_extension(?)", "load_extension() in a query"),
        ("BEGIN IMMEDIATE", "the query gives no rows: write a SELECT in"),
        ("VACUUM;", "the query gives no rows"),
        ("REINDEX;", "the query gives no rows"),
        ("EXPLAIN SELECT path FROM files WHERE id=?", "unknown column"),
        ("active_storage", "is neither SQL nor the name of a known query: write a"),
        ("", "is neither SQL nor the name of a known query"),
    ],
)
def test_query_that_is_wrong(sqlite: Site, query: str, message: str) -> None:
    path = create(sqlite, [7])
    before = path.read_bytes()
    found = sqlite.check_config(location(), http=block(path, query))
    found.assert_fails("query ", message)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC path FROM files WHERE id = ?", "syntax error"),
        ("SELECT 1 AS path", "0 parameters"),
        ("ATTACH ? AS other", "ATTACH"),
        ("SELECT 1 AS path, ? AS x", "unknown column"),
    ],
)
def test_wrong_query_without_database(sqlite: Site, query: str, message: str) -> None:
    """What is wrong whatever the database has is said before there is one."""
    found = sqlite.check_config(location(), http=block("%%DIR%%/none.db", query))
    found.assert_fails("query ", message)


def test_database_that_cannot_be_read_yet(sqlite: Site) -> None:
    """A warning: nginx may start before the application has made it."""
    path = sqlite.directory / "later.sqlite3"
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "cannot check the query of store", "No such file")
    assert not path.exists()
    path.touch()
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "no such table: files in")
    path.write_bytes(b"no database at all, but of some length" * 100)
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "file is not a database in")
    path.unlink()
    path.mkdir()
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "unable to open database file in")
    path.rmdir()
    os.mkfifo(path)
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "unable to open database file in")


@pytest.mark.parametrize(
    ("body", "where", "message"),
    [
        (
            "server sqlite:/db;",
            "# end",
            'no query in store "blobs": write query "SELECT',
        ),
        ("query activestorage;", "# end", 'no servers in store "blobs"'),
        (
            "query activestorage;\nserver memcached://127.0.0.1;",
            "query ",
            '"query" is not for memcached servers: leave it out in',
        ),
        (
            "server sqlite:/db;\nquery activestorage;\nquery solid_cache;",
            "query solid_cache",
            '"query" is duplicate in',
        ),
        (
            "server sqlite:/db;\nquery activestorage solid_cache;",
            "query activestorage",
            'invalid number of arguments in "query"',
        ),
        (
            "server sqlite:/db;\nquery activestorage;\nserver sqlite:/other;",
            "# end",
            'store "blobs" is a file: write one server without parameters',
        ),
        (
            "server sqlite:/db weight=2;\nquery activestorage;",
            "# end",
            'store "blobs" is a file',
        ),
        (
            "server sqlite:/db;\nquery activestorage;\ndistribution ketama;",
            "# end",
            'store "blobs" is a file',
        ),
        (
            "server sqlite:/db;\nconnections 2;\nquery activestorage;",
            "# end",
            'store "blobs" is a file',
        ),
        ("server sqlite:db;", "server sqlite", '"sqlite:db" write SCHEME:'),
        ("server sqlite://host;", "server sqlite", "write sqlite:/path in"),
        (
            "server sqlite://host/db;",
            "server sqlite",
            '"sqlite://host/db" has something after the host: write SCHEME:',
        ),
        (
            "server sqlite:/db;\nqueries activestorage;",
            "queries ",
            "connect_timeout or timeout, or query for a server sqlite:/path in",
        ),
    ],
)
def test_wrong_block(sqlite: Site, body: str, where: str, message: str) -> None:
    found = sqlite.check_config(
        location(), http=f"http_sendfile_store blobs {{\n{body}\n}} # end\n"
    )
    found.assert_fails(where, message)


def test_query_before_or_behind_the_server(sqlite: Site) -> None:
    path = create(sqlite, [7])
    for lines in (
        f"query activestorage; server sqlite:{path};",
        f"server sqlite:{path}; query activestorage; timeout 1s;",
    ):
        run(
            path,
            "CREATE TABLE IF NOT EXISTS active_storage_blobs"
            " (id, key, filename, content_type)",
        )
        found = sqlite.check_config(
            location(), http=f"http_sendfile_store blobs {{ {lines} }}"
        )
        found.assert_silent()


def test_lookup_without_a_block(sqlite: Site) -> None:
    found = sqlite.check_config(
        "location /file/ { http_sendfile on;\nhttp_sendfile_lookup sqlite:/db; }"
    )
    found.assert_fails(
        "http_sendfile_lookup sqlite",
        '"sqlite:/db" needs a query: write http_sendfile_store NAME { server'
        ' sqlite:/db; query "SELECT path FROM files WHERE id = ?"; } into http, and'
        " the name here in",
    )


def test_kinds_of_server_in_a_message(sqlite: Site) -> None:
    found = sqlite.check_config(
        location(), http="http_sendfile_store blobs {\nserver lmdb:/ids;\n}\n"
    )
    found.assert_fails("server lmdb", f"write {MEMCACHED} or sqlite:/path")


def test_module_without_the_first(site: Site) -> None:
    """It says which module is missing."""
    if site.flavour.module is None:
        # linked in, they are always together
        assert subprocess.run(
            [site.flavour.binary, "-V"], capture_output=True, check=True
        )
        return
    load_sqlite(site)
    load = site.variables["LOAD"]
    site.variables["LOAD"] = load[load.index(";") + 1 :]
    site.module = False
    site.variables["LOOKUP"] = ""
    site.variables["LOG_FORMAT"] = "log_format nsf '$uri';"
    found = site.check_config("")
    assert not found.ok
    assert "ngx_http_sendfile_sqlite_module needs ngx_http_sendfile_module" in (
        found.output
    )


def test_check_as_root_leaves_nothing(sqlite: Site) -> None:
    """A database in WAL mode that nobody has open stays as it is."""
    path = create(sqlite, [7], journal="WAL")
    found = sqlite.check_config(location(), http=block(path))
    found.assert_warns("query ", "unable to open database file in")
    assert [p.name for p in path.parent.glob("app.sqlite3*")] == ["app.sqlite3"]
