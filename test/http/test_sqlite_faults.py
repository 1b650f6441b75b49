"""SQLite databases that are written, replaced, locked, damaged while nginx reads."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lib.nginx import Nginx
from lib.process import open_files
from lib.site import Site
from lib.sqlite import QUERY, block, connect, create, load_sqlite, location, run
from lib.wait import wait_until

APP = "location @app { proxy_pass http://%%APP%%; }\n"
FALLBACK = "http_sendfile_fallback @app;"
HTTP = "keepalive_requests 1000000;\n"

# how long waiting for something that is looked at once a second may take
PATIENCE = 60

JOURNALS = ["DELETE", "WAL"]


@pytest.fixture
def sqlite(site: Site) -> Site:
    """A site whose nginx has the module."""
    load_sqlite(site)
    return site


def start(site: Site, path: Path, query: str = QUERY, more: str = "") -> Nginx:
    """Start nginx with a location /file/ that asks a database."""
    return site.start(
        location(more=FALLBACK) + APP, http=HTTP + block(path, query, more)
    )


@contextmanager
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Have a database open, so that its -wal and -shm files are there."""
    with closing(connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection


def status(nginx: Nginx, file_id: int) -> tuple[str, str]:
    """Ask for a file, and return $sendfile_status and $sendfile_reason."""
    uri = f"/file/{file_id}"
    count = len(nginx.access_entries(uri)) + 1
    assert nginx.get(uri).status == 200
    line = nginx.logged(uri, count)
    return line.status, line.reason


def wait_for_file(site: Site, nginx: Nginx, file_id: int) -> None:
    """Wait until a file is found."""
    wait_until(lambda: status(nginx, file_id)[0] == "HIT", PATIENCE, f"file {file_id}")
    site.assert_file(nginx.get(f"/file/{file_id}"), file_id)


def wait_for_error(nginx: Nginx, file_id: int, reason: str) -> None:
    """Wait until a lookup ends in an error whose reason has some words."""

    def said() -> bool:
        found = status(nginx, file_id)
        return found[0] == "ERROR" and reason in found[1]

    wait_until(said, PATIENCE, f"the error {reason!r}")


# what writers do


@pytest.mark.parametrize("journal", JOURNALS)
def test_committed_row_is_seen_at_once(sqlite: Site, journal: str) -> None:
    path = create(sqlite, [7, 8], journal=journal)
    with writer(path) as connection:
        nginx = start(sqlite, path)
        for n in range(20):
            connection.execute(
                "UPDATE files SET path = ? WHERE id = 7", (f"aa/{7 + n % 2}.dat",)
            )
            sqlite.assert_file(nginx.get("/file/7"), 7 + n % 2)


def test_uncommitted_row_is_not_seen(sqlite: Site) -> None:
    """In WAL mode a writer in the middle of a transaction disturbs nobody."""
    path = create(sqlite, [7, 8], journal="WAL")
    with writer(path) as connection:
        nginx = start(sqlite, path)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE files SET path = 'aa/8.dat' WHERE id = 7")
        for _ in range(3):
            sqlite.assert_file(nginx.get("/file/7"), 7)
        connection.execute("COMMIT")
        sqlite.assert_file(nginx.get("/file/7"), 8)


def test_writer_at_work(sqlite: Site) -> None:
    """Each answer is of one state of the database, and hardly one an error.

    That is when the writer has lost its processor in the moments in which it holds
    the locks of readers, too.
    """
    ids = list(range(1, 60))
    path = create(sqlite, ids, journal="WAL")
    for n in ids:
        sqlite.files.write_id(f"bb/{n}.dat", n)
    nginx = None
    done = threading.Event()
    rounds = [0]

    def write() -> None:
        with closing(connect(path)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint=20")
            while not done.is_set():
                side = "ab"[rounds[0] % 2] * 2
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM files")
                connection.executemany(
                    "INSERT INTO files (id, path) VALUES (?, ?)",
                    [(n, f"{side}/{n}.dat") for n in ids],
                )
                connection.execute("COMMIT")
                if rounds[0] % 7 == 3:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                rounds[0] += 1

    with writer(path):
        nginx = start(sqlite, path)
        thread = threading.Thread(target=write)
        thread.start()
        try:
            with nginx.connect() as client:
                asked = 0
                while asked < 1500 or rounds[0] < 20:
                    n = ids[asked % len(ids)]
                    response = client.request("GET", f"/file/{n}")
                    if response.text != f"app GET /file/{n}\n":
                        sqlite.assert_file(response, n)
                    asked += 1
        finally:
            done.set()
            thread.join()
    failed = [s for s in nginx.errors() if "SQLite query failed" in s]
    assert all("locking protocol" in s or "is locked" in s for s in failed), failed
    assert len(sqlite.app.requests) <= asked / 100
    print(f"{asked} requests, {rounds[0]} transactions")


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "CREATE INDEX files_path ON files (path)",
        "ALTER TABLE files ADD COLUMN more TEXT DEFAULT 'x'",
        "ANALYZE",
    ],
)
def test_maintenance(sqlite: Site, journal: str, statement: str) -> None:
    path = create(sqlite, range(1, 50), journal=journal)
    with writer(path) as connection:
        nginx = start(sqlite, path)
        sqlite.assert_file(nginx.get("/file/7"), 7)
        connection.execute("DELETE FROM files WHERE id > 20")
        connection.execute(statement)
        for n in (1, 7, 20):
            sqlite.assert_file(nginx.get(f"/file/{n}"), n)
        assert status(nginx, 30)[0] == "MISS"


def test_journal_mode_changes(sqlite: Site) -> None:
    path = create(sqlite, [7, 8])
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    with closing(connect(path)) as connection:
        # nobody may read in this moment
        def switch(mode: str) -> bool:
            try:
                row = connection.execute(f"PRAGMA journal_mode={mode}").fetchone()
            except sqlite3.OperationalError:
                return False
            return bool(row[0] == mode)

        wait_until(lambda: switch("wal"), PATIENCE, "WAL")
        connection.execute("UPDATE files SET path = 'aa/8.dat' WHERE id = 7")
        sqlite.assert_file(nginx.get("/file/7"), 8)


def test_schema_change(sqlite: Site) -> None:
    """SELECT * follows its table; what is no record any more is an error."""
    path = create(sqlite, [7])
    run(
        path,
        "CREATE TABLE docs (path TEXT, type TEXT)",
        "INSERT INTO docs VALUES ('aa/7.dat', 'text/a')",
    )
    nginx = start(sqlite, path, "SELECT * FROM docs WHERE rowid = ?")
    assert nginx.get("/file/1").header("Content-Type") == "text/a"
    run(path, "ALTER TABLE docs ADD COLUMN name TEXT", "UPDATE docs SET name='n.txt'")
    response = nginx.get("/file/1")
    assert "n.txt" in (response.header("Content-Disposition") or "")
    run(path, "ALTER TABLE docs ADD COLUMN owner TEXT")
    found = status(nginx, 1)
    assert found == ("ERROR", "SQLite query failed: wrong columns")
    nginx.wait_for_log(r'query of store "blobs" .*unknown column "owner"')
    run(path, "ALTER TABLE docs DROP COLUMN owner")
    assert "n.txt" in (nginx.get("/file/1").header("Content-Disposition") or "")
    run(path, "DROP TABLE docs")
    assert status(nginx, 1)[0] == "ERROR"
    nginx.wait_for_log("no such table: docs")
    run(
        path,
        "CREATE TABLE docs (type TEXT, path TEXT)",
        "INSERT INTO docs VALUES ('text/b', 'aa/7.dat')",
    )
    wait_until(lambda: status(nginx, 1)[0] == "HIT", PATIENCE, "the new table")
    assert nginx.get("/file/1").header("Content-Type") == "text/b"


# files that come and go


def test_database_that_appears(sqlite: Site) -> None:
    nginx = start(sqlite, sqlite.directory / "app.sqlite3")
    assert status(nginx, 7)[0] == "ERROR"
    nginx.wait_for_log(r"cannot open store .*No such file")
    create(sqlite, [7], "new.sqlite3").rename(sqlite.directory / "app.sqlite3")
    sqlite.assert_file(nginx.get("/file/7"), 7)


@pytest.mark.parametrize("journal", JOURNALS)
def test_replaced_database(sqlite: Site, journal: str) -> None:
    """By another file of that name, as a restore or a deployment does it."""
    path = create(sqlite, [7, 8])
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    other = create(sqlite, [7, 8, 9], "other.sqlite3", journal)
    run(other, "UPDATE files SET path = 'aa/8.dat' WHERE id = 7")
    if journal == "WAL":
        # what the application has open has its files under the new name
        other.rename(path)
        with writer(path):
            wait_for_file(sqlite, nginx, 9)
            sqlite.assert_file(nginx.get("/file/7"), 8)
        return
    other.rename(path)
    wait_for_file(sqlite, nginx, 9)
    sqlite.assert_file(nginx.get("/file/7"), 8)
    (worker,) = nginx.workers()
    assert not [f for f in open_files(worker) if "deleted" in str(f)]


def test_link_to_another_database(sqlite: Site) -> None:
    """A "current" of deployments."""
    one = create(sqlite, [7], "one.sqlite3")
    two = create(sqlite, [8], "two.sqlite3")
    path = sqlite.directory / "current.sqlite3"
    path.symlink_to(one)
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    new = sqlite.directory / "new"
    new.symlink_to(two)
    new.rename(path)
    wait_for_file(sqlite, nginx, 8)
    assert status(nginx, 7)[0] == "MISS"


def test_removed_database_goes_on(sqlite: Site) -> None:
    path = create(sqlite, [7])
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    path.unlink()
    for _ in range(3):
        sqlite.assert_file(nginx.get("/file/7"), 7)


# who else has it


def test_locked_database(sqlite: Site) -> None:
    """Nobody waits: an error at once, the fallback, and well again after it."""
    path = create(sqlite, [7])
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    with closing(connect(path)) as connection:
        wait_until(lambda: begin_exclusive(connection), PATIENCE, "the lock")
        for _ in range(3):
            assert status(nginx, 7) == (
                "ERROR",
                "SQLite query failed: database is locked",
            )
        connection.execute("COMMIT")
    sqlite.assert_file(nginx.get("/file/7"), 7)


def begin_exclusive(connection: sqlite3.Connection) -> bool:
    """Take all locks."""
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        return False
    return True


def test_locked_when_nginx_starts(sqlite: Site) -> None:
    path = create(sqlite, [7])
    with closing(connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        nginx = start(sqlite, path)
        assert status(nginx, 7)[0] == "ERROR"
        nginx.wait_for_log("database is locked")
        connection.execute("COMMIT")
    sqlite.assert_file(nginx.get("/file/7"), 7)


KILLED = """
import os, signal, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA cache_size=1")
c.execute("PRAGMA wal_autocheckpoint=0")
c.execute("UPDATE files SET path = 'aa/8.dat' WHERE id = 7")
c.execute("BEGIN IMMEDIATE")
c.execute("UPDATE files SET path = 'aa/9.dat' WHERE id = 7")
c.execute("INSERT INTO files (path) SELECT hex(randomblob(2000)) FROM files")
c.execute("INSERT INTO files (path) SELECT hex(randomblob(2000)) FROM files")
c.execute("UPDATE files SET name = 'x'")
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_writer(path: Path) -> None:
    """Let a writer die in the middle of a transaction, pages of it written."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_killed_writer_of_a_wal(sqlite: Site) -> None:
    """What it had committed is there, what it had not is not."""
    path = create(sqlite, range(1, 60), journal="WAL")
    kill_writer(path)
    assert path.with_name("app.sqlite3-wal").stat().st_size > 0
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 8)
    sqlite.assert_file(nginx.get("/file/9"), 9)
    with writer(path) as connection:
        connection.execute("UPDATE files SET path = 'aa/7.dat' WHERE id = 7")
        sqlite.assert_file(nginx.get("/file/7"), 7)


def test_killed_writer_of_a_journal(sqlite: Site) -> None:
    """Only who may write can roll back: until then an error that says so."""
    path = create(sqlite, range(1, 60))
    kill_writer(path)
    journal = path.with_name("app.sqlite3-journal")
    assert journal.stat().st_size > 0
    before = path.read_bytes()
    nginx = start(sqlite, path)
    assert status(nginx, 7)[0] == "ERROR"
    nginx.wait_for_log("a writer died, and what it left can be mended only by")
    assert (path.read_bytes(), journal.exists()) == (before, True)
    run(path, "SELECT count(*) FROM files")
    wait_for_file(sqlite, nginx, 9)
    sqlite.assert_file(nginx.get("/file/7"), 8)


def test_wal_that_nobody_has_open(sqlite: Site) -> None:
    """A reader that may not write can only say so; nothing is made."""
    path = create(sqlite, [7], journal="WAL")
    path.parent.chmod(0o777)
    path.chmod(0o666)
    nginx = start(sqlite, path)
    assert status(nginx, 7)[0] == "ERROR"
    nginx.wait_for_log(
        r"it is in WAL mode, and without .*app.sqlite3-wal only somebody who may"
    )
    assert [p.name for p in path.parent.glob("app.sqlite3*")] == ["app.sqlite3"]
    with writer(path):
        wait_for_file(sqlite, nginx, 7)
    # the files stay, since the worker has the database open
    sqlite.assert_file(nginx.get("/file/7"), 7)
    path.parent.chmod(0o755)


def test_worker_never_writes(sqlite: Site) -> None:
    """Even where it might: whatever happens, no file of the database changes."""
    path = create(sqlite, range(1, 60), journal="WAL")
    path.parent.chmod(0o777)
    kill_writer(path)
    files = sorted(path.parent.glob("app.sqlite3*"))
    assert len(files) == 3
    for file in files:
        file.chmod(0o666)
    before = {f: (f.read_bytes(), f.stat().st_ino) for f in files}
    nginx = start(sqlite, path)
    for n in (7, 9, 1000):
        nginx.get(f"/file/{n}")
    nginx.stop()
    assert {f: (f.read_bytes(), f.stat().st_ino) for f in files} == before
    assert sorted(path.parent.glob("app.sqlite3*")) == files
    path.parent.chmod(0o755)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_no_permission(sqlite: Site, suffix: str) -> None:
    path = create(sqlite, [7], journal="WAL")
    with writer(path):
        file = path.with_name(path.name + suffix)
        file.chmod(0o600)
        nginx = start(sqlite, path)
        assert status(nginx, 7)[0] == "ERROR"
        nginx.wait_for_log(rf"needs read permission on .*app\.sqlite3{suffix}$")
        file.chmod(0o644)
        wait_for_file(sqlite, nginx, 7)


def test_no_permission_to_search(sqlite: Site) -> None:
    folder = sqlite.directory / "storage"
    folder.mkdir()
    path = create(sqlite, [7], "storage/app.sqlite3")
    folder.chmod(0o700)
    nginx = start(sqlite, path)
    assert status(nginx, 7)[0] == "ERROR"
    nginx.wait_for_log(r"may not search a directory above.*Permission denied")
    folder.chmod(0o755)
    wait_for_file(sqlite, nginx, 7)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("what", ["directory", "fifo"])
def test_no_file(sqlite: Site, suffix: str, what: str) -> None:
    """Nothing hangs on what is no file, under any of the three names."""
    path = create(sqlite, [7], journal="WAL")
    with writer(path):
        file = path.with_name(path.name + suffix)
        file.rename(file.with_name("away"))
        if what == "directory":
            file.mkdir()
        else:
            os.mkfifo(file)
            file.chmod(0o666)
        nginx = start(sqlite, path)
        if suffix != "-shm":
            # without that one a reader has its own
            assert status(nginx, 7)[0] == "ERROR"
            nginx.wait_for_log(r"cannot open store")
        if what == "directory":
            file.rmdir()
        else:
            file.unlink()
        file.with_name("away").rename(file)
        wait_for_file(sqlite, nginx, 7)


# processes


def test_reload_under_a_writer(sqlite: Site) -> None:
    path = create(sqlite, [7, 8], journal="WAL")
    with writer(path) as connection:
        nginx = start(sqlite, path)
        for n in range(4):
            connection.execute(
                "UPDATE files SET path = ? WHERE id = 7", (f"aa/{7 + n % 2}.dat",)
            )
            sqlite.assert_file(nginx.get("/file/7"), 7 + n % 2)
            nginx.reload()
        (worker,) = nginx.workers()
        assert [f for f in open_files(worker) if str(f).endswith("app.sqlite3")]
        assert not [f for f in open_files(nginx.pid) if "sqlite3" in str(f)]


def test_killed_worker_holds_nothing(sqlite: Site) -> None:
    path = create(sqlite, [7, 8])
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/7"), 7)
    nginx.allow_log("exited on signal 9")
    (worker,) = nginx.workers()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: nginx.workers() not in ([], [worker]), PATIENCE, "a worker")
    run(path, "UPDATE files SET path = 'aa/8.dat' WHERE id = 7")
    sqlite.assert_file(nginx.get("/file/7"), 8)


def test_transaction_ends_with_the_turn(sqlite: Site) -> None:
    """A reader between requests holds no lock that a writer waits for."""
    path = create(sqlite, [7, 8])
    nginx = start(sqlite, path)
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA busy_timeout=0")
        for n in range(10):
            sqlite.assert_file(nginx.get("/file/7"), 7 + n % 2)

            def update(to: int = 8 - n % 2) -> bool:
                try:
                    connection.execute(f"UPDATE files SET path='aa/{to}.dat'")
                except sqlite3.OperationalError:
                    return False
                return True

            wait_until(update, PATIENCE, "the lock")


# time


def test_long_query_is_stopped(sqlite: Site) -> None:
    """By the time limit of the store; then a timeout, and the next is well."""
    path = create(sqlite, [7])
    query = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 4000000000) SELECT path FROM files WHERE id = ?1 AND"
        " (id = 7 OR (SELECT count(*) FROM n) > 0)"
    )
    nginx = start(sqlite, path, query, "timeout 500ms;")
    for _ in range(2):
        found = status(nginx, 8)
        assert found[0] == "MISS"
    run(path, "INSERT INTO files (id, path) VALUES (8, 'aa/7.dat')")
    for _ in range(2):
        assert status(nginx, 8) == (
            "TIMEOUT",
            "SQLite query failed: it took too long",
        )
        sqlite.assert_file(nginx.get("/file/7"), 7)


# damage


def flipped(good: bytes, chance: random.Random) -> bytes:
    """Some bits of a database, or some bytes, or a page, or its end."""
    data = bytearray(good)
    what = chance.randrange(5)
    if what < 3:
        # headers and cells of pages are where it matters
        for _ in range(chance.choice([1, 2, 5, 50])):
            page = chance.randrange(len(data) // 4096) * 4096
            within = chance.choice([100, 12, 64, 4096])
            data[page + chance.randrange(within)] ^= 1 << chance.randrange(8)
    elif what == 3:
        one, two = (chance.randrange(len(data) // 4096) * 4096 for _ in range(2))
        data[one : one + 4096] = data[two : two + 4096]
    else:
        del data[chance.randrange(len(data)) :]
    return bytes(data)


def assert_own_or_none(site: Site, nginx: Nginx, ids: list[int]) -> int:
    """Ask for files; each answer is a file, or the application's."""
    found = 0
    with nginx.connect() as client:
        for n in ids:
            response = client.request("GET", f"/file/{n}")
            assert response.status in (200, 404), response
            found += response.status == 200
    return found


@pytest.mark.parametrize("journal", JOURNALS)
def test_damaged_database(sqlite: Site, journal: str) -> None:
    """Hundreds of damaged files, under the eyes of sanitizers where there are."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    ids = list(range(1, 1500))
    path = create(sqlite, [1, 2, 3])
    with closing(connect(path)) as connection:
        connection.executemany(
            "INSERT INTO files (id, path, name, headers) VALUES (?, ?, ?, ?)",
            [(n, f"aa/{n % 3 + 1}.dat", "n" * (n % 97), "{}") for n in ids[3:]],
        )
        connection.execute("UPDATE files SET name = ? WHERE id = 5", ("x" * 9000,))
        connection.execute(f"PRAGMA journal_mode={journal}")
    good = path.read_bytes()
    query = "SELECT path, name, headers FROM files WHERE id = ?"
    names = [f"{n}.sqlite3" for n in range(60)]
    keep = []
    for name in names:
        file = sqlite.directory / name
        file.write_bytes(good)
        if journal == "WAL":
            # its -wal and -shm files are there, and what is in the WAL is good
            connection = connect(file)
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute("UPDATE files SET name = 'x' WHERE id = 9")
            keep.append(connection)
    # nginx -t is to see them, too
    for name in names[::2]:
        (sqlite.directory / name).write_bytes(flipped(good, chance))
    nginx = sqlite.start(
        "".join(location(f"f{n}", f"s{n}") for n in range(len(names))),
        http=HTTP
        + "".join(
            block(sqlite.directory / name, query, name=f"s{n}")
            for n, name in enumerate(names)
        ),
    )
    found = errors = 0
    with nginx.connect() as client:
        for _ in range(6):
            for n, name in enumerate(names):
                # in place, while it is open
                (sqlite.directory / name).write_bytes(flipped(good, chance))
                if journal == "WAL" and chance.random() < 0.3:
                    wal = sqlite.directory / f"{name}-wal"
                    data = bytearray(wal.read_bytes())
                    if data:
                        data[chance.randrange(len(data))] ^= 0xFF
                        wal.write_bytes(data)
                for _ in range(4):
                    key = chance.choice(ids)
                    response = client.request("GET", f"/f{n}/{key}")
                    assert response.status in (200, 404, 502, 504), response
                    found += response.status == 200
                    errors += response.status in (502, 504)
    for connection in keep:
        connection.close()
    print(f"{found} found, {errors} errors")
    assert found and errors


def test_cut_while_it_is_read(sqlite: Site) -> None:
    """Pages that are gone are an error, and no signal."""
    path = create(sqlite, [1, 2, 3])
    with closing(connect(path)) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO files (id, path) VALUES (?, ?)",
            [(n, f"aa/{n % 3 + 1}.dat") for n in range(4, 4000)],
        )
        connection.execute("COMMIT")
    good = path.read_bytes()
    nginx = start(sqlite, path)
    sqlite.assert_file(nginx.get("/file/1"), 1)
    os.truncate(path, 4096)
    wait_for_error(nginx, 3999, "SQLite")
    os.truncate(path, 0)
    wait_for_error(nginx, 3998, "SQLite")
    path.write_bytes(good)
    wait_for_file(sqlite, nginx, 1)


@pytest.mark.parametrize("size", [0, 3, 4096])
def test_index_of_a_wal_is_cut(sqlite: Site, size: int) -> None:
    """The one file that SQLite maps: an error, no signal, and well again."""
    path = create(sqlite, [7, 8], journal="WAL")
    shm = path.with_name("app.sqlite3-shm")
    other = "SELECT path FROM files WHERE id = ? + 1"
    nginx = sqlite.start(
        location() + location("other", "other"),
        http=block(path) + block(path, other, name="other"),
    )
    with writer(path) as connection:
        connection.execute("PRAGMA wal_autocheckpoint=0")
        for n in range(40):
            connection.execute("UPDATE files SET name = ?", (str(n),))
        wait_until(lambda: nginx.get("/file/7").status == 200, PATIENCE, "file 7")
        wait_until(lambda: nginx.get("/other/7").status == 200, PATIENCE, "file 8")
        good = shm.read_bytes()
        for _ in range(3):
            os.truncate(shm, size)
            codes = {nginx.get(uri).status for uri in ("/file/7", "/other/7") * 3}
            assert codes <= {200, 502}, codes
            # in place, as nobody has a reason to do it
            with shm.open("r+b") as file:
                file.write(good)
            wait_until(lambda: nginx.get("/file/7").status == 200, PATIENCE, "file 7")
            sqlite.assert_file(nginx.get("/file/7"), 7)
            wait_until(lambda: nginx.get("/other/7").status == 200, PATIENCE, "8")
            sqlite.assert_file(nginx.get("/other/7"), 8)
    if size == 0:
        nginx.wait_for_log("SQLite query failed: its -shm file was cut off")


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\0", b"x" * 5000, bytes(8192)]
)
def test_file_that_is_none(sqlite: Site, content: bytes) -> None:
    path = sqlite.directory / "app.sqlite3"
    path.write_bytes(content)
    nginx = start(sqlite, path)
    assert status(nginx, 7)[0] == "ERROR"
    nginx.wait_for_log("cannot open store")
    create(sqlite, [7], "good.sqlite3").rename(path)
    wait_for_file(sqlite, nginx, 7)


def test_error_is_told_once(sqlite: Site) -> None:
    """One line that says it in full, and one of a second's requests."""
    path = sqlite.directory / "app.sqlite3"
    path.write_bytes(b"x" * 5000)
    nginx = start(sqlite, path)
    for n in range(5):
        assert status(nginx, n + 1)[0] == "ERROR"
    told = [s for s in nginx.errors() if "cannot open store" in s]
    assert len(told) == 1, told
    lines = [s for s in nginx.errors() if "cannot open SQLite database" in s]
    assert 1 <= len(lines) <= 5, lines
