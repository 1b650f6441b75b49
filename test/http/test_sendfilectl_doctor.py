"""sendfilectl doctor on what nginx reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from lib.memcached import Memcached
from lib.nginx import WORKER_USER
from lib.site import Site
from lib.sqlite import QUERY, block, connect, create, load_sqlite, location

pytest_plugins = ("lib.memcached_fixtures",)

TIMEOUT = 300.0
DIRECT = "location /file/ { http_sendfile on; %%DIRECT%% }"
ENOUGH = "worker_rlimit_nofile 1024;"


@pytest.fixture(autouse=True)
def lock_file_of_its_group(site: Site) -> None:
    """Those of the tests' stores are for everybody, which is a finding."""
    site.store.lock.chmod(0o660)


def doctor(
    site: Site,
    server: str,
    http: str = "",
    main: str = ENOUGH,
    *words: str,
) -> list[dict[str, Any]]:
    """Return the findings of a configuration, which is not started."""
    site.check_config(server, http, main)
    return diagnose(site, *words)["findings"]  # type: ignore[no-any-return]


def diagnose(site: Site, *words: str, code: int | None = None) -> dict[str, Any]:
    """Run the program on the site's nginx.conf and return what it says."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sendfilectl", "doctor", str(site.nginx.conf)),
            *("--nginx", str(site.flavour.binary), "--json"),
            *("--prefix", str(site.directory), "--user", WORKER_USER, *words),
        ],
        # nginx -T leaves its memory to the end of the process
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    assert done.returncode == (code if code is not None else int(not found["ok"]))
    assert found["ok"] is not found["findings"] if code is None else True
    return found


def only(findings: list[dict[str, Any]], check: str) -> dict[str, Any]:
    """Return the one finding that there is, which must be of a check."""
    assert [one["check"] for one in findings] == [check], findings
    return findings[0]


def line_of(site: Site, text: str) -> int:
    """Return the number of the only line of nginx.conf that has a text in it."""
    lines = site.nginx.conf.read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, found
    return found[0]


def test_nothing_to_find(site: Site) -> None:
    site.add(7)
    assert doctor(site, f"{DIRECT} %%INTERNAL%%") == []
    assert doctor(site, "location /file/ { http_sendfile on; } %%INTERNAL%%") == []


def test_text_says_place_severity_and_what_to_write(site: Site) -> None:
    site.add(7)
    site.check_config("location /file/ { http_sendfile on; }\nlocation /files/ { }")
    command = [sys.executable, "-m", "sendfilectl", "doctor", str(site.nginx.conf)]
    command += ["--nginx", str(site.flavour.binary), "--prefix", str(site.directory)]
    done = subprocess.run(
        [*command, "--user", WORKER_USER],
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 1
    line = line_of(site, "location /files/")
    assert (
        f"{site.nginx.conf}:{line}: error: anybody may ask for the files below "
        '"/files/" by their names, for "location /files/" is not internal: write '
        '"internal;" into a "location ^~ /files/" of its own\n'
    ) in done.stdout
    assert re.search(r"^\d+ errors?(, .*)?$", done.stdout.splitlines()[-1])


# the module


def test_module_of_another_version(site: Site, tmp_path: Path) -> None:
    if site.flavour.module is None:
        return
    other = tmp_path / "ngx_http_sendfile_module.so"
    version = struct.pack("<Q", 1_000_000)
    for number in (1022001, 1028000, 1028003):
        data = site.flavour.module.read_bytes()
        head = b"\xff" * 16 + bytes(24)
        if head + struct.pack("<Q", number) in data:
            other.write_bytes(
                data.replace(head + struct.pack("<Q", number), head + version)
            )
    assert other.exists()
    site.variables["LOAD"] = f"load_module {other};"
    findings = doctor(site, DIRECT)
    (module,) = (one for one in findings if one["check"] == "module")
    assert "is built for nginx 1.0.0, and " in module["text"]
    assert module["line"] == 1
    assert "make install" in module["write"]
    (config,) = (one for one in findings if one["check"] == "config")
    assert "instead of" in config["text"]
    assert config["severity"] == "error"


def test_module_with_another_signature(site: Site, tmp_path: Path) -> None:
    if site.flavour.module is None:
        return
    other = tmp_path / "ngx_http_sendfile_module.so"
    data = site.flavour.module.read_bytes()
    found = re.search(rb"8,4,8,[01]{30,40}", data)
    assert found
    other.write_bytes(data.replace(found[0], b"8,4,8," + b"0" * (len(found[0]) - 6)))
    site.variables["LOAD"] = f"load_module {other};"
    (module,) = (one for one in doctor(site, DIRECT) if one["check"] == "module")
    assert "is not binary compatible with" in module["text"]


def test_module_that_is_not_there(site: Site, tmp_path: Path) -> None:
    if site.flavour.module is None:
        return
    other = tmp_path / "ngx_http_sendfile_module.so"
    site.variables["LOAD"] = f"load_module {other};"
    (module,) = (one for one in doctor(site, DIRECT) if one["check"] == "module")
    assert module["text"] == f"{other}: no such file or directory"


def test_module_that_is_not_loaded(site: Site) -> None:
    if site.flavour.module is None:
        return
    site.variables["LOAD"] = ""
    site.variables["LOG_FORMAT"] = "log_format nsf '-';"
    (module,) = (one for one in doctor(site, DIRECT) if one["check"] == "module")
    assert "load_module modules/ngx_http_sendfile_module.so;" in module["write"]


def test_module_that_is_not_used(site: Site) -> None:
    found = only(doctor(site, ""), "module")
    assert found["severity"] == "note"


def test_configuration_that_nginx_refuses(site: Site) -> None:
    """It is said where, and the rest is looked at all the same."""
    findings = doctor(
        site, f"{DIRECT}\nhttp_sendfile_cache ids;\nlocation /files/ {{ }}"
    )
    config = next(one for one in findings if one["check"] == "config")
    assert 'unknown cache zone "ids"' in config["text"]
    assert config["line"] == line_of(site, "http_sendfile_cache ids")


def test_configuration_without_an_end(site: Site) -> None:
    site.check_config("location /a {")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sendfilectl", "doctor", str(site.nginx.conf)),
            *("--nginx", str(site.flavour.binary)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 2
    assert re.search(r"nginx.conf:\d+: ends within a block", done.stderr)


def test_warnings_of_nginx_are_findings(site: Site) -> None:
    site.add(7)
    findings = doctor(
        site,
        "location /file/ { http_sendfile on; http_sendfile_fallback =404;\n"
        "http_sendfile_fallback_on miss missing_file; } %%INTERNAL%%",
    )
    found = only(findings, "config")
    assert found["severity"] == "warning"
    assert found["line"] == line_of(site, "http_sendfile_fallback_on")
    assert '"missing_file" is known with "http_sendfile_root" only' in found["text"]


# files


def test_root_that_is_not_there(site: Site) -> None:
    site.add(7)
    found = only(
        doctor(site, "location /file/ { http_sendfile on; http_sendfile_root /no/x; }"),
        "root",
    )
    assert (found["severity"], found["write"]) == ("error", "mkdir -p /no/x")
    assert found["line"] == line_of(site, "http_sendfile_root /no/x")


def test_directory_that_the_workers_may_not_enter(site: Site) -> None:
    site.add(7)
    site.files.root.chmod(0o700)
    found = only(doctor(site, DIRECT), "root")
    assert f"{WORKER_USER} may not enter {site.files.root} (0700 " in found["text"]
    assert found["write"] == f"chmod o+x {site.files.root}"


def test_directory_of_a_group(site: Site) -> None:
    site.add(7)
    site.files.root.chmod(0o750)
    shutil.chown(site.files.root, group="games")
    found = only(doctor(site, DIRECT), "root")
    assert "(0750 root:games)" in found["text"]
    assert found["write"] == (
        f"usermod -aG games {WORKER_USER} and restart nginx, or "
        f"chmod o+x {site.files.root}"
    )


def test_file_that_the_workers_may_not_read(site: Site) -> None:
    site.add(7)
    path = site.files.root / "aa" / "7.dat"
    path.chmod(0o600)
    for place in (DIRECT, "location /file/ { http_sendfile on; } %%INTERNAL%%"):
        found = only(doctor(site, place), "root")
        assert f"may not read {path} (0600 " in found["text"]
        assert found["write"] == f"chmod o+r {path}"


# stores


def test_store_that_the_workers_may_not_read(site: Site) -> None:
    site.add(7)
    data = site.store.path / "data.mdb"
    data.chmod(0o600)
    found = only(doctor(site, DIRECT), "store")
    assert f"may not read {data} (0600 " in found["text"]
    data.chmod(0o666)
    found = only(doctor(site, DIRECT), "store")
    assert found["severity"] == "error"
    assert found["write"] == f"chmod o-w {data}"


def test_lock_file_that_everybody_may_write_to(site: Site) -> None:
    site.add(7)
    (site.store.path / "lock.mdb").chmod(0o666)
    found = only(doctor(site, DIRECT), "store")
    assert found["severity"] == "note"
    assert found["write"] == f"chmod 0660 {site.store.path}/lock.mdb"


def test_store_that_is_not_there_or_is_none(site: Site) -> None:
    other = site.directory / "other"
    where = f"location /file/ {{ http_sendfile on; http_sendfile_lookup lmdb:{other}; %%DIRECT%% }}"
    found = only(doctor(site, where), "store")
    assert (found["severity"], found["line"]) == (
        "warning",
        line_of(site, "lmdb:" + str(other)),
    )
    other.write_text("x" * 8192)
    found = only(doctor(site, where), "store")
    assert found["severity"] == "error"
    assert "not an LMDB file" in found["text"]


def test_memcached_that_does_not_answer(site: Site, memcached: Memcached) -> None:
    port = free_port()
    http = (
        f"http_sendfile_store many {{ server {memcached.url};\n"
        f"server memcached://127.0.0.1:{port}; }}"
    )
    where = (
        "location /file/ { http_sendfile on; http_sendfile_lookup many; %%DIRECT%% }"
    )
    found = only(doctor(site, where, http), "store")
    assert (
        found["text"]
        == f"memcached://127.0.0.1:{port} does not answer: connection refused"
    )
    assert found["line"] == line_of(site, f"127.0.0.1:{port}")


def test_memcached_that_is_none(site: Site) -> None:
    where = (
        "location /file/ { http_sendfile on; %%DIRECT%%\n"
        f"http_sendfile_lookup memcached://{site.app.address}; }}"
    )
    found = only(doctor(site, where), "store")
    assert "does not answer: " in found["text"]


def test_what_only_root_may_look_at(site: Site) -> None:
    """It is said what was not looked at, and nothing is said of it."""
    site.add(7)
    site.check_config(DIRECT, "", ENOUGH)
    site.store.path.chmod(0o700)
    (site.files.root / "aa").chmod(0o700)
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *(sys.executable, "-m", "sendfilectl", "doctor", str(site.nginx.conf)),
            *("--nginx", str(site.flavour.binary), "--json", "--user", "nobody"),
        ],
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 1, done
    found = json.loads(done.stdout)
    assert found["unchecked"] == [f"lmdb:{site.store.path}: run doctor as root"]
    checks = {one["check"] for one in found["findings"]}
    # nginx itself may not write its logs as this user
    assert checks == {"config", "root"}, found
    (root,) = (one for one in found["findings"] if one["check"] == "root")
    assert root["write"] == f"chmod o+x {site.files.root}/aa"


# databases of SQLite


@pytest.fixture
def database(site: Site) -> Iterator[Path]:
    """A database in WAL mode, which the application has open."""
    load_sqlite(site)
    path = create(site, [7], journal="WAL")
    with closing(connect(path)) as application:
        application.execute("UPDATE files SET path = path")
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").chmod(0o644)
        yield path


def stores(site: Site, path: Path, query: str = QUERY) -> list[dict[str, Any]]:
    """Return what is found of a store that is a database."""
    found = doctor(site, location(), block(path, query))
    return [one for one in found if one["check"] == "store"]


def test_database_without_findings(site: Site, database: Path) -> None:
    """It is looked at, and neither read by who writes nor changed by who reads."""
    with closing(connect(database)) as application:
        application.execute("INSERT INTO files (id, path) VALUES (8, 'x')")
        for end in ("-wal", "-shm"):
            Path(f"{database}{end}").chmod(0o644)
        before = sorted(site.directory.glob("app.*"))
        content = database.read_bytes()
        assert doctor(site, location(), block(database)) == []
        assert database.read_bytes() == content
        assert before == sorted(site.directory.glob("app.*"))
        assert application.execute("SELECT count(*) FROM files").fetchone() == (2,)
    found = diagnose(site)
    assert found["unchecked"] == []


def test_database_that_is_not_there(site: Site, database: Path) -> None:
    other = site.directory / "nosuch.sqlite3"
    found = only(stores(site, other), "store")
    assert found["severity"] == "error"
    assert f"no database at {other}" in found["text"]
    assert found["write"] == "start the application once, or correct the path"
    assert found["line"] == line_of(site, "server sqlite:")


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_database_that_workers_may_not_read(
    site: Site, database: Path, end: str
) -> None:
    """Of the three files the one is named, and the chmod."""
    Path(f"{database}{end}").chmod(0o600)
    found = only(stores(site, database), "store")
    assert found["severity"] == "error"
    assert f"may not read {database}{end} (0600" in found["text"]
    assert found["write"] == f"chmod o+r {database}{end}"


def test_database_in_a_folder_that_is_closed(site: Site, database: Path) -> None:
    folder = site.directory / "closed"
    folder.mkdir()
    path = folder / "app.sqlite3"
    for end in ("", "-wal", "-shm"):
        Path(f"{database}{end}").rename(f"{path}{end}")
    folder.chmod(0o700)
    found = stores(site, path)
    assert {one["write"] for one in found} == {f"chmod o+x {folder}"}
    assert f"may not enter {folder}" in found[0]["text"]


def test_database_without_wal(site: Site) -> None:
    load_sqlite(site)
    path = create(site, [7], journal="DELETE")
    found = only(stores(site, path), "store")
    assert found["severity"] == "warning"
    assert "not in WAL mode" in found["text"]
    assert "PRAGMA journal_mode=WAL" in found["write"]


def test_database_that_nobody_has_open(site: Site) -> None:
    """Its files are not there, and are not made by who looks."""
    load_sqlite(site)
    path = create(site, [7], journal="WAL")
    assert not Path(f"{path}-wal").exists()
    found = only(stores(site, path), "store")
    assert found["severity"] == "error"
    assert f"there is no {path}-wal" in found["text"]
    assert found["write"] == "start the application"
    assert list(site.directory.glob("app.*")) == [path]


def test_database_that_anybody_may_write(site: Site, database: Path) -> None:
    database.chmod(0o666)
    found = only(stores(site, database), "store")
    assert found["write"] == f"chmod o-w {database}"


def test_file_that_is_no_database(site: Site, database: Path) -> None:
    database.write_bytes(b"no database at all, and longer than a header" * 9)
    found = only(stores(site, database), "store")
    assert f"{database} is no database of SQLite" in found["text"]


@pytest.mark.parametrize(
    ("query", "text", "write"),
    [
        ("SELECT paht FROM files WHERE id = ?", "no such column: paht", "correct"),
        ("SELECT path FROM nosuch WHERE id = ?", "no such table: nosuch", "correct"),
        (
            "SELECT path, id FROM files WHERE id = ?",
            'has the column "id", which is none of a record\'s',
            "with AS",
        ),
        ("SELECT type, name FROM files WHERE id = ?", 'no column "path"', "with AS"),
        ("SELECT path FROM files", "not one parameter", "where the key belongs"),
        (
            "SELECT path FROM files WHERE id = ? AND type = ?",
            "not one parameter",
            "where the key belongs",
        ),
    ],
)
def test_query_that_does_not_fit(
    site: Site, database: Path, query: str, text: str, write: str
) -> None:
    """Whether or not nginx has refused it: the line of the query, and what to write."""
    found = only(stores(site, database, query), "store")
    assert found["severity"] == "error"
    assert text in found["text"]
    assert write in found["write"]
    assert found["line"] == line_of(site, "query ")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT path, type AS TYPE FROM files WHERE id = ?1 OR name = ?1;",
        "SELECT path FROM files WHERE id = ? -- by id",
        "WITH f AS (SELECT * FROM files) SELECT path, name FROM f WHERE id = ?",
    ],
)
def test_query_that_fits(site: Site, database: Path, query: str) -> None:
    assert stores(site, database, query) == []


@pytest.mark.parametrize(
    ("preset", "table", "columns"),
    [
        ("activestorage", "active_storage_blobs", "id, key, filename, content_type"),
        ("solid_cache", "solid_cache_entries", "key, value, key_hash"),
    ],
)
def test_tables_of_known_queries(
    site: Site, database: Path, preset: str, table: str, columns: str
) -> None:
    """No table, a table without a column, and the table as Rails makes it."""
    found = only(stores(site, database, preset), "store")
    assert f'no table "{table}"' in found["text"]
    assert "bin/rails" in found["write"]
    some, last = columns.rsplit(", ", 1)
    for sql, expected in (
        (f"CREATE TABLE {table} ({some})", f'has no column "{last}"'),
        (f"ALTER TABLE {table} ADD COLUMN {last}", ""),
    ):
        with closing(connect(database)) as application:
            application.execute(sql)
            for end in ("-wal", "-shm"):
                Path(f"{database}{end}").chmod(0o644)
            told = stores(site, database, preset)
            assert [expected in one["text"] for one in told] == [True] * bool(expected)


# who may have the files


def test_prefix_that_is_not_internal(site: Site) -> None:
    site.add(7)
    findings = doctor(
        site,
        "location /file/ { http_sendfile on; }\nlocation ^~ /files/ { alias %%FILES%%/; }",
    )
    found = only(findings, "internal")
    assert found["line"] == line_of(site, "location ^~ /files/")
    # that of a regular expression, which nginx -t does not look into
    findings = doctor(
        site,
        "location /file/ { http_sendfile on; }\nlocation ~ ^/files/ { root %%DIR%%; }",
    )
    assert {one["check"] for one in findings} >= {"internal"}


def test_prefix_that_a_regular_expression_takes_away(site: Site) -> None:
    site.add(7)
    findings = doctor(
        site,
        "location /file/ { http_sendfile on; }\nlocation /files/ { internal; alias %%FILES%%/; }"
        "\nlocation ~ \\.php$ { return 403; }",
    )
    found = only(findings, "internal")
    assert found["write"] == 'write "location ^~ /files/"'


def test_root_that_a_public_location_shadows(site: Site) -> None:
    site.add(7)
    for public, uri in (
        ("location /all/ { alias %%DIR%%/; }", "/all/files/0"),
        ("location / { root %%DIR%%; }", "/files/0"),
        ("location /files/aa/ { root %%DIR%%; }", "/files/aa/0"),
        ("location ~ \\.jpg$ { root %%DIR%%; }", "/files/0.jpg"),
        ("location /x/ { alias %%FILES%%/; }", "/x/0"),
    ):
        findings = doctor(site, f"{DIRECT}\n{public}")
        found = only(findings, "public")
        assert f"such as {uri}, " in found["text"], public
        assert found["line"] == line_of(site, public.split("{")[0] + "{")


def test_locations_that_give_no_file_away(site: Site) -> None:
    site.add(7)
    for other in (
        "location / { root %%DIR%%; internal; }",
        "location / { root %%DIR%%; deny all; }",
        "location / { root %%DIR%%; auth_basic a; auth_basic_user_file /dev/null; }",
        "location / { root %%DIR%%; } location ^~ /files/ { internal; }",
        "location / { root %%DIR%%; return 404; }",
        "location / { root %%DIR%%; proxy_pass http://%%APP%%; }",
        "location /files { root %%HTML%%; }",
        "location ^~ /filesystem/ { alias %%DIR%%/html/; }",
    ):
        assert doctor(site, f"{DIRECT}\n{other}") == [], other


LEARN = "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%; http_sendfile_learn on; http_sendfile_cache ids;"
ZONE = "http_sendfile_cache_zone ids:1m;"


def test_learning_without_a_private_check(site: Site) -> None:
    site.add(7)
    app = "proxy_pass http://%%APP%%;"
    findings = doctor(site, f"location / {{ {LEARN} {app} }}", ZONE)
    found = only(findings, "learn")
    assert found["severity"] == "note"
    assert 'proxy_set_header Cookie "";' in found["write"]
    for more in (
        'proxy_set_header Cookie "";',
        "http_sendfile_learn_key $host$request_uri$cookie_session;",
        "auth_request /auth;",
        "allow 10.0.0.0/8; deny all;",
    ):
        auth = "location = /auth { internal; return 204; }"
        if "auth_request" in more and not site.flavour.built_with(
            "http_auth_request_module"
        ):
            continue
        assert doctor(site, f"location / {{ {LEARN} {app} {more} }} {auth}", ZONE) == []
    findings = doctor(
        site,
        f"location / {{ {LEARN} {app} proxy_ignore_headers Cache-Control;"
        ' proxy_set_header Cookie ""; }',
        ZONE,
    )
    found = only(findings, "learn")
    assert (found["severity"], "is ignored" in found["text"]) == ("warning", True)


def test_learning_of_an_application_that_is_told_who_asks(site: Site) -> None:
    site.add(7)
    if not site.flavour.built_with("http_auth_request_module"):
        return
    server = (
        "location / { auth_request /auth; auth_request_set $user $upstream_http_x_user;\n"
        f"proxy_set_header X-User $user;\n{LEARN} %%KEY%% proxy_pass http://%%APP%%; }}\n"
        "location = /auth { internal; proxy_pass http://%%APP%%; }"
    )
    site.variables["KEY"] = ""
    found = only(doctor(site, server, ZONE), "learn")
    assert found["severity"] == "warning"
    assert "$scheme://$http_host$request_uri$user" in found["write"]
    assert found["line"] == line_of(site, "X-User")
    site.variables["KEY"] = "http_sendfile_learn_key $host$request_uri$user;"
    assert doctor(site, server, ZONE) == []


def test_purges_by_anybody(site: Site) -> None:
    site.add(7)
    status = "location /status { http_sendfile_status write; }"
    assert doctor(site, f"{DIRECT} {status}") == []
    public = f"listen %%PORT:open%%;\n{DIRECT} {status}"
    assert only(doctor(site, public), "status")["severity"] == "warning"
    closed = status.replace("{", "{ allow 127.0.0.1; deny all;")
    assert doctor(site, public.replace(status, closed)) == []


# limits


def test_descriptors_and_connections(site: Site) -> None:
    site.add(7)
    found = only(doctor(site, DIRECT, "", "worker_rlimit_nofile 300;"), "limits")
    assert found["severity"] == "warning"
    assert found["write"] == 'write "worker_rlimit_nofile 640;" at the top'
    assert found["line"] == line_of(site, "worker_rlimit_nofile")
    assert doctor(site, DIRECT, "", "worker_rlimit_nofile 640;") == []
    http = "http_sendfile_store many { connections 64; server memcached://127.0.0.1:1; server memcached://127.0.0.1:2; }"
    where = (
        "location /file/ { http_sendfile on; http_sendfile_lookup many; %%DIRECT%% }"
    )
    findings = doctor(site, where, http)
    (found,) = (one for one in findings if one["check"] == "limits")
    assert "128 of the 256 connections" in found["text"]


def test_memcached_with_too_few_connections(site: Site, memcached: Memcached) -> None:
    http = f"http_sendfile_store many {{ connections 32; server {memcached.url}; }}"
    where = (
        "location /file/ { http_sendfile on; http_sendfile_lookup many; %%DIRECT%% }"
    )
    site.variables["WORKERS"] = "64"
    findings = doctor(site, where, http)
    (found,) = (one for one in findings if "during a reload" in one["text"])
    assert "nginx needs 2048, 4096 during a reload (64 workers x 32)" in found["text"]


def test_zone_that_is_too_small(site: Site) -> None:
    for file_id in range(5000):
        site.store.put(file_id, f"some/path/of/a/file/{file_id}.dat")
    where = "location /file/ { http_sendfile on; http_sendfile_cache ids; %%DIRECT%% }"
    found = only(doctor(site, where, "http_sendfile_cache_zone ids:256k;"), "zone")
    assert found["severity"] == "note"
    assert "of the 5000 records in lmdb:" in found["text"]
    wanted = re.search(r"ids:(\d+m);", found["write"])
    assert wanted
    assert doctor(site, where, f"http_sendfile_cache_zone ids:{wanted[1]};") == []


def test_kernel_without_openat2(site: Site) -> None:
    """As in a container whose filter forbids it."""
    site.add(7)
    site.check_config(DIRECT, "", ENOUGH)
    program = [
        *("strace", "-f", "-o", "/dev/null", "-e", "inject=openat2:error=ENOSYS"),
        *(sys.executable, "-m", "sendfilectl", "doctor", str(site.nginx.conf)),
        *("--nginx", str(site.flavour.binary), "--prefix", str(site.directory)),
        *("--user", WORKER_USER, "--json"),
    ]
    done = subprocess.run(
        program,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["check"], found["severity"]) == ("kernel", "note")
    assert "openat2" in found["write"]


# files of the configuration


def test_included_files_have_their_own_lines(site: Site) -> None:
    site.add(7)
    folder = site.directory / "sites"
    folder.mkdir()
    (folder / "a.conf").write_text("\n\nlocation /files/ { alias /x/; }\n")
    (folder / ".hidden.conf").write_text("nonsense")
    findings = doctor(
        site, "location /file/ { http_sendfile on; } include sites/*.conf;"
    )
    found = next(one for one in findings if one["check"] == "internal")
    assert (found["file"], found["line"]) == (str(folder / "a.conf"), 3)


def test_file_that_was_made_of_what_nginx_printed(site: Site) -> None:
    """Its lines begin as those that say which file follows."""
    site.add(7)
    other = site.directory / "dump.conf"
    other.write_text(
        "# configuration file /etc/nginx/nginx.conf:\nlocation /files/ { alias /x/; }\n"
    )
    findings = doctor(site, f"location /file/ {{ http_sendfile on; }} include {other};")
    found = next(one for one in findings if one["check"] == "internal")
    assert (found["file"], found["line"]) == (str(other), 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["/no/such.conf"], "/no/such.conf: no such file or directory"),
        (["/tmp"], "is no regular file"),
        (["--nginx", "/no/nginx"], "--nginx /no/nginx: there is no such program"),
        (["--nginx", "/bin/true"], "/bin/true is no nginx"),
        (["--timeout", "nan"], "--timeout"),
    ],
)
def test_nothing_to_look_at(words: list[str], text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sendfilectl", "doctor", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 2
    assert text in done.stderr
