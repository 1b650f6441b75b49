"""SQLite as a store: rows, records, keys, presets."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lib.cache import CACHE, STATUS, ZONE, ask, purge, said, watched
from lib.files import content
from lib.nginx import Nginx
from lib.signed import LIB
from lib.signed import run as program
from lib.site import Site
from lib.sqlite import QUERY, block, connect, create, load_sqlite, location, run
from lib.turn import WARM, connections
from lib.wait import wait_until

KEY = (
    "location ~ ^/file/(.+)$ { http_sendfile on; http_sendfile_lookup blobs;"
    " http_sendfile_key $1; %%DIRECT%% }"
)

APP = "location @app { proxy_pass http://%%APP%%; }\n"
FALLBACK = "http_sendfile_fallback @app;"

RECORD = (
    "SELECT path, type, name, disposition, expires, headers FROM files WHERE id = ?"
)


@pytest.fixture
def sqlite(site: Site) -> Site:
    """A site whose nginx has the module."""
    load_sqlite(site)
    return site


def start(site: Site, path: Path, query: str = QUERY, more: str = "") -> Nginx:
    """Start nginx with a location /file/ that asks a database."""
    return site.start(location(more=FALLBACK) + APP, http=block(path, query, more))


def insert(db: Path, file_id: int, **columns: object) -> None:
    """Put a row into the table of files."""
    names = ", ".join(columns)
    marks = ", ?" * len(columns)
    with closing(connect(db)) as connection:
        connection.execute(
            f"INSERT OR REPLACE INTO files (id, {names}) VALUES (?{marks})",
            (file_id, *columns.values()),
        )


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_path_of_a_row(sqlite: Site, journal: str) -> None:
    """One column is a path; what has no row is the application's."""
    path = create(sqlite, [7, 297887], journal=journal)
    # of a database in WAL mode somebody has to have these files made
    with closing(connect(path)) as writer:
        writer.execute("SELECT count(*) FROM files").fetchone()
        nginx = start(sqlite, path)
        for n in (7, 297887, 7):
            sqlite.assert_file(nginx.get(f"/file/{n}"), n)
            line = nginx.logged(f"/file/{n}")
            assert (line.status, line.source) == ("HIT", "sqlite")
        assert nginx.get("/file/8").status == 200
        assert [r.target for r in sqlite.app.requests] == ["/file/8"]
        assert nginx.logged("/file/8").status == "MISS"


def test_columns_of_a_record(sqlite: Site) -> None:
    """Each column becomes what the field of that name is."""
    path = create(sqlite, [7])
    insert(
        path,
        7,
        path="aa/7.dat",
        type="text/x-seven",
        name='sieben "7" \\ 見積書.txt',
        disposition="attachment",
        expires=4102444800,
        headers=json.dumps({"X-Robots-Tag": 'a "{[\\', "Cache-Control": "no-cache"}),
    )
    nginx = start(sqlite, path, RECORD)
    response = sqlite.assert_file(nginx.get("/file/7"), 7)
    assert response.header("Content-Type") == "text/x-seven"
    disposition = response.header("Content-Disposition")
    assert disposition is not None and disposition.startswith("attachment; ")
    assert "%E8%A6%8B%E7%A9%8D%E6%9B%B8" in disposition
    assert response.header("X-Robots-Tag") == 'a "{[\\'
    assert response.header("Cache-Control") == "no-cache"


@pytest.mark.parametrize("expires", [4102444800, 4102444800.9, "4102444800"])
def test_expires_is_seconds(sqlite: Site, expires: object) -> None:
    """A number, or the text that strftime('%s') makes of a time."""
    path = create(sqlite, [7])
    insert(path, 7, path="aa/7.dat", expires=expires)
    nginx = start(sqlite, path, "SELECT path, expires FROM files WHERE id = ?")
    sqlite.assert_file(nginx.get("/file/7"), 7)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("expires", "2030-01-01 00:00:00", '"expires" is no number of seconds'),
        ("expires", "", '"expires" is no number of seconds'),
        ("expires", "007", '"expires" is no number of seconds'),
        ("headers", "", '"headers" is no JSON object'),
        ("headers", "[]", '"headers" is no JSON object'),
        ("headers", '{"a":"b"},"type":"x"', '"headers" is no JSON object'),
        ("headers", '{"a":"b"', '"headers" is no JSON object'),
        ("headers", '{},"name":{}', '"headers" is no JSON object'),
        ("headers", '{"a":"\\', '"headers" is no JSON object'),
    ],
)
def test_column_that_is_none(
    sqlite: Site, column: str, value: str, reason: str
) -> None:
    """An error that says so, and the fallback."""
    path = create(sqlite, [7, 8])
    insert(path, 7, path="aa/7.dat", **{column: value})
    nginx = start(sqlite, path, RECORD)
    assert nginx.get("/file/7").status == 200
    assert sqlite.app.requests[-1].target == "/file/7"
    line = nginx.logged("/file/7")
    assert line.status == "ERROR"
    nginx.wait_for_log(rf"SQLite query failed: {reason}")
    sqlite.assert_file(nginx.get("/file/8"), 8)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("path", "../etc/passwd", "path"),
        ("path", "/etc/passwd", "path"),
        ("path", "", "path"),
        ("path", "aa/\0", "NUL"),
        ("path", "aa/\n.dat", "path"),
        ("type", "a\r\nX: y", "type"),
        ("name", "a\nb", "name"),
        ("disposition", "both", "disposition"),
        ("expires", -5, "expires"),
        ("headers", '{"Link":"a\\nb"}', "header"),
        ("headers", '{"Link":"a","Link":"b"}', "twice"),
        ("headers", "{'a':1}", "JSON"),
        ("path", b"\xff\xfe", "JSON"),
    ],
)
def test_record_that_is_invalid(
    sqlite: Site, column: str, value: object, reason: str
) -> None:
    """What no record may say a row may not say either."""
    path = create(sqlite, [7])
    insert(path, 7, **{"path": "aa/7.dat", column: value})
    nginx = start(sqlite, path, RECORD)
    assert nginx.get("/file/7").status == 200
    assert len(sqlite.app.requests) == 1
    line = nginx.logged("/file/7")
    assert line.status == "INVALID"
    assert reason in line.reason, line


def test_value_in_a_single_column(sqlite: Site) -> None:
    """It is what the format says: a path, JSON, Marshal; text or a blob."""
    path = create(sqlite, range(1, 8))
    marshal = b'\x04\bI"\raa/4.dat\x06:\x06ET'
    values: dict[int, object] = {
        1: "aa/1.dat",
        2: b"aa/2.dat",
        3: '{"path": "aa/3.dat", "type": "text/x-three"}',
        4: marshal,
        5: json.dumps({"path": "aa/5.dat"}).encode(),
    }
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, value)")
        connection.executemany("INSERT INTO records VALUES (?, ?)", values.items())
    nginx = start(sqlite, path, "SELECT value FROM records WHERE id = ?")
    for n in values:
        response = sqlite.assert_file(nginx.get(f"/file/{n}"), n)
        if n == 3:
            assert response.header("Content-Type") == "text/x-three"


@pytest.mark.parametrize("format_", ["auto", "path", "json", "marshal"])
def test_record_in_any_format(sqlite: Site, format_: str) -> None:
    """Columns are a record whatever the format of values is."""
    path = create(sqlite, [7])
    insert(path, 7, path="aa/7.dat", type="text/x-seven")
    nginx = sqlite.start(
        location(more=f"http_sendfile_format {format_};"), http=block(path, RECORD)
    )
    response = sqlite.assert_file(nginx.get("/file/7"), 7)
    assert response.header("Content-Type") == "text/x-seven"


@pytest.mark.parametrize("query", [QUERY, RECORD])
def test_null_path_is_no_row(sqlite: Site, query: str) -> None:
    path = create(sqlite, [7])
    insert(path, 8, path=None, type="text/plain")
    nginx = start(sqlite, path, query)
    assert nginx.get("/file/8").status == 200
    assert nginx.logged("/file/8").status == "MISS"


def test_first_row_counts(sqlite: Site) -> None:
    path = create(sqlite, [7, 8])
    nginx = start(
        sqlite,
        path,
        "SELECT path FROM files WHERE ? != '' ORDER BY id DESC",
    )
    sqlite.assert_file(nginx.get("/file/7"), 8)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
@pytest.mark.parametrize("query", [QUERY, RECORD])
def test_text_of_any_encoding(sqlite: Site, encoding: str, query: str) -> None:
    path = sqlite.directory / "utf.sqlite3"
    with closing(connect(path)) as connection:
        connection.execute(f'PRAGMA encoding="{encoding}"')
    create(sqlite, [7], name="utf.sqlite3")
    sqlite.files.write_id("aa/見積書.dat", 8)
    insert(path, 8, path="aa/見積書.dat")
    nginx = start(sqlite, path, query)
    sqlite.assert_file(nginx.get("/file/8"), 8)


def test_value_too_long(sqlite: Site) -> None:
    """The limit of any store's values, with one column and with several."""
    path = create(sqlite, [7])
    for n, size in ((1, 65536), (2, 65537), (3, 20_000_000)):
        insert(path, n, path="aa/7.dat", name="x" * size)
    nginx = start(sqlite, path, RECORD)
    for n in (1, 2, 3):
        assert nginx.get(f"/file/{n}").status == 200
        line = nginx.logged(f"/file/{n}")
        assert (line.status, line.reason) == (
            "INVALID",
            "invalid record: value too long",
        )
    run(path, "UPDATE files SET name = NULL, path = 'aa/7.dat' WHERE id = 3")
    sqlite.assert_file(nginx.get("/file/3"), 7)


# keys


@pytest.mark.parametrize(
    ("column", "stored", "found", "missed"),
    [
        ("INTEGER PRIMARY KEY", 7, ["7", "007"], ["70", "8", "7a"]),
        ("INT", 7, ["7"], ["8"]),
        ("NUMERIC", 7, ["7"], ["8"]),
        ("TEXT PRIMARY KEY", "007", ["007"], ["7", "0007", "07"]),
        ("TEXT", "7", ["7"], ["007", "7.0"]),
        ("VARCHAR(36)", "a-b", ["a-b"], ["A-B"]),
        ("INTEGER", 2**63 - 1, [str(2**63 - 1)], [str(2**63), str(2**63 - 2)]),
        ("TEXT", "99999999999999999999", ["99999999999999999999"], ["1e20"]),
    ],
)
def test_key_of_a_column(
    sqlite: Site, column: str, stored: object, found: list[str], missed: list[str]
) -> None:
    """Compared as SQLite compares a text with a column of that type."""
    path = create(sqlite, [7])
    with closing(connect(path)) as connection:
        connection.execute(f"CREATE TABLE keys (id {column}, path TEXT)")
        connection.execute("INSERT INTO keys VALUES (?, 'aa/7.dat')", (stored,))
    nginx = sqlite.start(
        KEY,
        http=block(path, "SELECT path FROM keys WHERE id = ?"),
    )
    for key in found:
        sqlite.assert_file(nginx.get(f"/file/{key}"), 7)
    for key in missed:
        assert nginx.get(f"/file/{key}").status == 404, key


def test_key_is_never_sql(sqlite: Site) -> None:
    path = create(sqlite, [7])
    nginx = sqlite.start(
        KEY,
        http=block(path, "SELECT path FROM files WHERE id = ? OR name = ?1"),
    )
    for key in ("7'--", "'or'1'='1", "7;DELETE", "1/**/or/**/1", '"', "%3F1"):
        assert nginx.get(f"/file/{key}").status == 404, key
    sqlite.assert_file(nginx.get("/file/7"), 7)


def test_joins_and_views(sqlite: Site) -> None:
    path = create(sqlite, [7, 8])
    run(
        path,
        "CREATE TABLE documents (id INTEGER PRIMARY KEY, file_id INT, public BOOL)",
        "INSERT INTO documents VALUES (107, 7, 1), (108, 8, 0)",
        "CREATE VIEW published AS SELECT d.id, f.path, upper('a') AS type FROM"
        " documents d JOIN files f ON f.id = d.file_id WHERE d.public",
    )
    nginx = start(sqlite, path, "SELECT path, type FROM published WHERE id = ?")
    response = sqlite.assert_file(nginx.get("/file/107"), 7)
    assert response.header("Content-Type") == "A"
    assert nginx.get("/file/108").body != content(8)
    assert nginx.logged("/file/108").status == "MISS"


def test_two_stores_on_one_database(sqlite: Site) -> None:
    path = create(sqlite, [7, 8])
    other = "SELECT path FROM files WHERE id = ? + 1"
    nginx = sqlite.start(
        location() + location("next", "other") + location("third", "third"),
        http=block(path)
        + block(path, other, name="other")
        + block(create(sqlite, [9], "other.sqlite3"), name="third"),
    )
    for _ in range(3):
        sqlite.assert_file(nginx.get("/file/7"), 7)
        sqlite.assert_file(nginx.get("/next/7"), 8)
        sqlite.assert_file(nginx.get("/third/9"), 9)


def test_path_with_the_bytes_of_a_uri(sqlite: Site) -> None:
    """A database's name is not part of the URI that SQLite gets."""
    for name in ("a b?mode=rwc#x%41.db", "ä&vfs=unix.db"):
        path = create(sqlite, [7], name)
        nginx = sqlite.start(
            location(), http=block(path).replace(f"sqlite:{path}", f'"sqlite:{path}"')
        )
        sqlite.assert_file(nginx.get("/file/7"), 7)


# the cache


def test_other_query_has_another_cache(sqlite: Site) -> None:
    """After a reload the zone has nothing of what the old query found."""
    path = create(sqlite, [7, 8])
    server = location(more=CACHE)
    nginx = sqlite.start(server, http=ZONE + block(path))
    sqlite.assert_file(nginx.get("/file/7"), 7)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    assert nginx.logged("/file/7").source == "cache"
    other = "SELECT path FROM files WHERE id = ? + 1"
    nginx.reload(sqlite.template(server, http=ZONE + block(path, other)))
    sqlite.assert_file(nginx.get("/file/7"), 8)


def test_purge_of_a_row(sqlite: Site) -> None:
    """What is read after a purge is what was committed before it."""
    path = create(sqlite, [7, 8])
    nginx = sqlite.start(location(more=CACHE) + STATUS, http=ZONE + block(path))
    for n in range(5):
        number = 7 + n % 2
        run(path, f"UPDATE files SET path = 'aa/{number}.dat' WHERE id = 7")
        if n:
            sqlite.assert_file(ask(nginx, "/file/7").response, 15 - number)
            purge(nginx, 7)
        new = ask(nginx, "/file/7")
        sqlite.assert_file(new.response, number)
        assert new.said == ("HIT", "sqlite")
        assert said(nginx, "/file/7") == ("HIT", "cache")


# transactions


def transactions(lines: list[str]) -> int:
    """Count how often a database was locked for reading, in strace's lines."""
    found = [s for s in lines if "fcntl" in s and "app.sqlite3>" in s]
    assert not [s for s in found if "F_SETLKW" in s or "F_WRLCK" in s]
    # the bytes that all readers share
    return len([s for s in found if "F_RDLCK" in s and "l_len=510" in s])


def test_lookups_of_a_turn_are_one_transaction(sqlite: Site) -> None:
    """While a worker is busy requests come together, and are read together."""
    ids = list(range(1, 61))
    path = create(sqlite, ids)
    busy = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT count(*) AS path FROM n WHERE i != ?"
    )
    nginx = sqlite.start(
        location() + location("busy", "busy") + WARM,
        http=block(path) + block(path, busy, "timeout 3s;", "busy"),
    )
    sqlite.assert_file(nginx.get("/file/1"), 1)
    clients = connections(nginx, len(ids) + 1)
    (worker,) = nginx.workers()
    with watched(worker, sqlite.directory / "one.strace") as lines:
        for n in ids[:10]:
            sqlite.assert_file(nginx.get(f"/file/{n}"), n)
    assert transactions(lines) == 10
    with watched(worker, sqlite.directory / "all.strace") as lines:
        for client, uri in zip(
            clients, ["/busy/1"] + [f"/file/{n}" for n in ids], strict=True
        ):
            client.send_request("GET", uri)
        assert clients[0].read_response().status == 504
        for n, client in zip(ids, clients[1:], strict=True):
            sqlite.assert_file(client.read_response(), n)
    # those that came before the worker was busy are few
    assert transactions(lines) < 10
    for client in clients:
        client.close()


# ActiveStorage

BLOBS_5_2 = """CREATE TABLE active_storage_blobs (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL, key varchar NOT NULL,
    filename varchar NOT NULL, content_type varchar, metadata text,
    byte_size bigint NOT NULL, checksum varchar NOT NULL,
    created_at datetime NOT NULL)"""
BLOBS_8 = """CREATE TABLE active_storage_blobs (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL, key varchar NOT NULL,
    filename varchar NOT NULL, content_type varchar, metadata text,
    service_name varchar NOT NULL DEFAULT 'local', byte_size bigint NOT NULL,
    checksum varchar, created_at datetime(6) NOT NULL)"""
VARIANT_RECORDS = """CREATE TABLE active_storage_variant_records (
    id integer PRIMARY KEY, blob_id bigint, variation_digest varchar)"""
ATTACHMENTS = """CREATE TABLE active_storage_attachments (
    id integer PRIMARY KEY, name varchar, record_type varchar, record_id bigint,
    blob_id bigint, created_at datetime)"""
BLOBS_UUID = BLOBS_8.replace("id integer PRIMARY KEY AUTOINCREMENT", "id varchar")
INDEX = (
    "CREATE UNIQUE INDEX index_active_storage_blobs_on_key"
    " ON active_storage_blobs (key)"
)


def blobs(site: Site, schema: str, rows: list[tuple[object, str, str, object]]) -> Path:
    """Make a database with blobs: id, key, file name, type; and their files."""
    path = site.directory / "production.sqlite3"
    with closing(connect(path)) as connection:
        connection.execute(schema)
        connection.execute(INDEX)
        for number, (id_, key, filename, type_) in enumerate(rows, 1):
            connection.execute(
                "INSERT INTO active_storage_blobs (id, key, filename, content_type,"
                " byte_size, checksum, created_at) VALUES (?, ?, ?, ?, 1, '', '')",
                (id_, key, filename, type_),
            )
            site.files.write_id(f"{key[:2]}/{key[2:4]}/{key}", number)
    return path


@pytest.mark.parametrize("schema", [BLOBS_5_2, BLOBS_8])
def test_activestorage_blob(sqlite: Site, schema: str) -> None:
    """By id or by key; the types as Rails serves them."""
    keys = [f"{n}k{n}x" + "abcdefghij0123456789klmn" for n in range(1, 6)]
    path = blobs(
        sqlite,
        schema,
        [
            (10, keys[0], "a b.png", "image/png"),
            (11, keys[1], "evil.html", "text/html"),
            (12, keys[2], "text.txt", "text/plain"),
            (13, keys[3], "what.html", None),
            (14, keys[4], "見積書.pdf", "application/pdf"),
        ],
    )
    nginx = sqlite.start(
        KEY,
        http=block(path, "activestorage"),
    )
    expected = [
        ("image/png", "inline"),
        ("application/octet-stream", "attachment"),
        ("text/plain", "attachment"),
        ("application/octet-stream", "attachment"),
        ("application/pdf", "inline"),
    ]
    for number, (type_, disposition) in enumerate(expected, 1):
        for key in (str(9 + number), keys[number - 1]):
            response = sqlite.assert_file(nginx.get(f"/file/{key}"), number)
            assert response.header("Content-Type") == type_
            said = response.header("Content-Disposition")
            assert said is not None and said.startswith(disposition)
    for key in ("9", "010", "1e1", "10.0", keys[0].upper(), keys[0][:-1]):
        assert nginx.get(f"/file/{key}").status == 404, key


def test_activestorage_with_uuids(sqlite: Site) -> None:
    id_ = "6f1f9a5e-6c19-4d53-8b1f-0f4b9d2f6d55"
    path = blobs(sqlite, BLOBS_UUID, [(id_, "ab" * 14, "a.png", "image/png")])
    nginx = sqlite.start(
        KEY,
        http=block(path, "activestorage"),
    )
    sqlite.assert_file(nginx.get(f"/file/{id_}"), 1)
    assert nginx.get(f"/file/{id_[:-1]}").status == 404


def rails_variants(site: Site) -> tuple[Path, list[dict[str, Any]]]:
    """Let Rails 6.1 make blobs and variants; its database, and what it knows."""
    path = site.directory / "rails.sqlite3"
    folder = site.directory / "rails"
    (folder / "log").mkdir(parents=True)
    lines = program("ruby", LIB / "rails_variants.rb", path, site.files.root, folder)
    path.chmod(0o644)
    return path, json.loads(lines[-1])


def test_activestorage_variant_of_rails(sqlite: Site) -> None:
    """A tracked variant by the id of its blob and the digest of its variation."""
    path, made = rails_variants(sqlite)
    nginx = sqlite.start(KEY, http=block(path, "activestorage"))
    digests = [variant["digest"] for variant in made[0]["variants"]]
    assert any("/" in digest for digest in digests), digests
    for blob in made:
        whole = nginx.get(f"/file/{blob['id']}")
        assert (whole.status, whole.body.decode()) == (200, blob["body"])
        for variant in blob["variants"]:
            for key in (f"{blob['id']}/{variant['digest']}", variant["key"]):
                response = nginx.get(f"/file/{quote(key)}")
                assert (response.status, response.body.decode()) == (
                    200,
                    variant["body"],
                )
                assert response.header("Content-Type") == "image/png"
                said = response.header("Content-Disposition")
                assert said is not None and said.startswith("inline"), said
    digest = digests[0]
    for key in (
        *(f"3/{digest}", f"01/{digest}", f"1.0/{digest}", f"1 /{digest}"),
        *(f"1/{digest[:-1]}", f"1/{digest}=", f"1/{digest.swapcase()}"),
        *(digest, f"1{digest}", "1/", f"1/1/{digest}"),
    ):
        assert nginx.get(f"/file/{quote(key)}").status == 404, key


def test_activestorage_before_variants_were_tracked(sqlite: Site) -> None:
    """Without the tables of variants there are blobs; with them both."""
    key = "ab" * 14
    path = blobs(sqlite, BLOBS_5_2, [(7, key, "a.png", "image/png")])
    nginx = sqlite.start(KEY, http=block(path, "activestorage"))
    sqlite.assert_file(nginx.get("/file/7"), 1)
    assert nginx.get("/file/7/digest=").status == 404
    run(path, VARIANT_RECORDS, ATTACHMENTS)
    with closing(connect(path)) as connection:
        connection.execute(
            "INSERT INTO active_storage_blobs (id, key, filename, content_type,"
            " byte_size, checksum, created_at)"
            " VALUES (8, ?, 'b.png', 'image/png', 1, '', '')",
            ("cd" * 14,),
        )
        connection.execute(
            "INSERT INTO active_storage_variant_records VALUES (3, 7, 'digest=')"
        )
        connection.execute(
            "INSERT INTO active_storage_attachments VALUES"
            " (1, 'image', 'ActiveStorage::VariantRecord', 3, 8, '')"
        )
    sqlite.files.write_id(f"cd/cd/{'cd' * 14}", 2)
    wait_until(lambda: nginx.get("/file/7/digest=").status == 200, timeout=60)
    sqlite.assert_file(nginx.get("/file/7/digest="), 2)
    sqlite.assert_file(nginx.get("/file/7"), 1)


def known_query() -> str:
    """Return the SQL of "activestorage", from the source."""
    source = Path(__file__).parents[2] / "src/sqlite/ngx_http_sendfile_sqlite_query.c"
    text = source.read_text().replace("\\\n", " ")
    macros = dict(re.findall(r"^#define (NGX_\w+) +(\S.*)$", text, re.MULTILINE))

    def value(name: str) -> str:
        return "".join(
            value(part) if part.startswith("NGX_") else part.strip('"')
            for part in re.findall(r'"[^"]*"|NGX_\w+', macros[name])
        )

    return value("NGX_HTTP_SENDFILE_SQLITE_VARIANTS")


def test_activestorage_is_searches(sqlite: Site) -> None:
    """Each part of the query uses an index, so that its cost is no scan's."""
    path, _ = rails_variants(sqlite)
    with closing(connect(path)) as connection:
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN {known_query()}", ("1/a",)
        ).fetchall()
    steps = [row[3] for row in plan]
    assert not [step for step in steps if step.startswith("SCAN")], steps
    searches = [step for step in steps if step.startswith("SEARCH")]
    assert len(searches) == 6, steps


# Solid Cache


def entry(value: str, expires: float | None = None) -> bytes:
    """A String of Rails.cache, as Rails 7.1 and later write it."""
    head = b"\x00\x11\x02" + struct.pack("<d", -1.0 if expires is None else expires)
    return head + b"\xff\xff\xff\xff" + value.encode()


def test_solid_cache(sqlite: Site) -> None:
    """Keys of every length that a key may have: the hash pads differently."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    path = sqlite.directory / "production_cache.sqlite3"
    sqlite.files.write_id("aa/7.dat", 7)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789:_-"
    keys = ["".join(chance.choices(letters, k=n)) for n in range(1, 251)]
    with closing(connect(path)) as connection:
        connection.execute(
            "CREATE TABLE solid_cache_entries (id integer PRIMARY KEY, key blob(1024)"
            " NOT NULL, value blob(536870912) NOT NULL, created_at datetime NOT NULL,"
            " key_hash integer(8) NOT NULL, byte_size integer(4) NOT NULL)"
        )
        connection.execute(
            "CREATE UNIQUE INDEX index_solid_cache_entries_on_key_hash"
            " ON solid_cache_entries (key_hash)"
        )
        for key in keys:
            digest = hashlib.sha256(key.encode()).digest()
            connection.execute(
                "INSERT OR IGNORE INTO solid_cache_entries (key, value, created_at,"
                " key_hash, byte_size) VALUES (?, ?, '', ?, 1)",
                (
                    key.encode(),
                    entry("aa/7.dat"),
                    int.from_bytes(digest[:8], "big", signed=True),
                ),
            )
        # another key with the same hash
        connection.execute("UPDATE solid_cache_entries SET key = x'00' WHERE id = 5")
        # one that is no more
        connection.execute(
            "UPDATE solid_cache_entries SET value = ? WHERE id = 6",
            (entry("aa/7.dat", 1.0),),
        )
        missed = [
            bytes(row[0]).decode()
            for row in connection.execute(
                "SELECT key FROM solid_cache_entries WHERE id = 6"
            )
        ]
    nginx = sqlite.start(
        KEY,
        http=block(path, "solid_cache") + "keepalive_requests 1000;",
    )
    with nginx.connect() as connection:
        for key in keys[6:]:
            sqlite.assert_file(connection.request("GET", f"/file/{key}"), 7)
    assert nginx.get(f"/file/{missed[0]}").status == 404
    assert nginx.get(f"/file/{keys[4]}").status == 404
