"""Study cost: instructions and system calls of a request, on every path."""

import base64
import hmac
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import counts
from bench.contestants.memcached import Memcached
from bench.contestants.nginx import Nginx
from bench.counts import Counts, Task
from bench.dataset import FileSet, IdStore, build_files, build_store, nth_id
from bench.model import BenchError, ContestantError
from bench.plots import Row
from bench.tables import Finding, Goal, Means, Setting
from bench.tables.parts import cache_zone, open_file_cache, static_server

FILES = 2_000
USED = 100
FIRST = 4 * USED
THEN = 5 * USED

# How much of a path's cost may be added before somebody has to say so.
TOLERANCE = 0.02

KEPT = Path(__file__).parents[1] / "cost.json"

_TOP = 8
_MRUBY = "ngx_http_sendfile_mruby_module.so"
_SQLITE = "ngx_http_sendfile_sqlite_module.so"
_SIGNED = "ngx_http_sendfile_signed_module.so"

# of the signatures; nothing depends on which it is
_KEY = bytes(range(64))
_NEVER = "2096-11-23T00:00:00.000Z"

# Instructions that a request of a path may cost.
BUDGETS = {
    "body": 11_000,
    "record": 12_300,
    "lmdb-root": 13_000,
    "lmdb-redirect": 14_900,
    "memcached-redirect": 15_300,
}

_ABOUT = """\
One worker without a master, {connections} keep-alive connections, one request at a
time; {used} of {files:,} files of 1 to 9 KB in turn. Instructions are those in user
space, counted by valgrind's callgrind; system calls by strace. Each is the
difference of two runs, of {first} requests and {then} more, so that the start and
the filling of caches do not count. Such counts do not depend on what else a machine
does, but for those of glibc's allocator, which depend on all that it did before, and
of nginx's clock. `make test` measures without these, and fails for a path that grew by
more than 2 % over bench/cost.json. libc copies by SSE2 here, whatever else the
processor could do, so that it is the same everywhere. valgrind knows no `openat2()`:
what opens a file below a root is counted as on a kernel without it, with about 250
instructions more.
"""


@dataclass(frozen=True)
class Way:
    """A way that a request can go."""

    name: str
    title: str
    task: Task
    missing: str | None = None


def study(setting: Setting, means: Means) -> Finding:
    """Count on every path, and keep the counts in bench/cost.json.

    Args:
        setting: which nginx, where data is kept, quick or full.
        means: what it may use.
    """
    found: dict[str, Counts] = {}
    failures = []
    with ways(setting, means.directory) as all_ways:
        for way in all_ways:
            means.progress.note(f"cost: {way.title}")
            directory = means.directory / way.name
            directory.mkdir()
            try:
                if reason := counts.missing() or way.missing:
                    raise ContestantError("missing", reason)
                found[way.name] = counts.count(way.task, directory, FIRST, THEN)
            except ContestantError as error:
                failures.append(f"{way.title}: {error}")
                means.progress.note(f"cost: {way.title} failed: {error}")
        titles = {way.name: way.title for way in all_ways}
        configurations = {
            f"{way.name}.conf": way.task.nginx.configuration()
            for way in all_ways
            if way.name in found
        }
    if not setting.quick and not failures:
        KEPT.write_text(
            json.dumps({name: round(of.steady) for name, of in found.items()})
            .replace("{", "{\n    ")
            .replace(", ", ",\n    ")
            .replace("}", "\n}\n")
        )
    return _finding(titles, found, failures, configurations)


def kept() -> Mapping[str, int]:
    """Return the instructions of each path, without the allocator's, that are kept."""
    read: dict[str, int] = json.loads(KEPT.read_text())
    return read


@contextmanager
def ways(setting: Setting, directory: Path) -> Iterator[Sequence[Way]]:
    """Make all paths; what they need runs as long as this lasts.

    Args:
        setting: which nginx, where data is kept.
        directory: for the output of what runs.
    """
    files = build_files(setting.cache, FILES)
    store = build_store(setting.cache, files, FILES, FILES)
    memcached = Memcached(
        {str(files.id(i)): files.path(i) for i in range(USED)},
        setting.nginx.other_core,
    )
    if memcached.missing:
        raise BenchError(memcached.missing)
    with ExitStack() as stack:
        # the same length wherever the repository lies
        short = Path(stack.enter_context(TemporaryDirectory(prefix="b", dir="/tmp")))
        short.chmod(0o755)
        (short / "f").symlink_to(files.directory)
        (short / "s").symlink_to(store.directory)
        files = replace(files, directory=short / "f")
        store = replace(store, directory=short / "s")
        memcached.start(directory / "memcached")
        stack.callback(memcached.stop)
        port = stack.enter_context(_application(files))
        database = _database(short / "d", files)
        storage = _storage(short / "a", files)
        (short / "k").write_text(f"{_KEY.hex()}\n")
        yield _Maker(setting, files, store, memcached, port, database, storage).all()


def _database(path: Path, files: FileSet) -> Path:
    """Write an SQLite database with the paths of all files by their IDs."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT)")
        connection.executemany(
            "INSERT INTO files VALUES (?, ?)",
            [(int(files.id(i)), files.path(i)) for i in range(FILES)],
        )
        connection.commit()
    path.chmod(0o644)
    return path


def _blob(files: FileSet, index: int) -> str:
    """Return the key of a file as a blob of Active Storage, 28 characters."""
    return f"{files.id(index)}".rjust(28, "k")


def _storage(path: Path, files: FileSet) -> Path:
    """Write the files as Active Storage's disk service has them."""
    for index in range(USED):
        blob = _blob(files, index)
        folder = path / blob[:2] / blob[2:4]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files.directory / files.path(index), folder / blob)
    return path


def _token(blob: str) -> str:
    """Make the token of a URL of /disk/, as Rails 7.1 to 8 do."""
    data = {
        "key": blob,
        "disposition": "inline; filename=\"image.jpg\"; filename*=UTF-8''image.jpg",
        "content_type": "image/jpeg",
        "service_name": "local",
    }
    message = {"_rails": {"data": data, "exp": _NEVER, "pur": "blob_key"}}
    text = base64.b64encode(json.dumps(message, separators=(",", ":")).encode())
    return f"{text.decode()}--{hmac.digest(_KEY, text, 'sha1').hex()}"


def _link(uri: str) -> str:
    """Sign a link by the scheme hmac."""
    uri = f"{uri}?expires=4000000000"
    code = base64.urlsafe_b64encode(hmac.digest(_KEY, uri.encode(), "sha256"))
    return f"{uri}&signature={code.decode().rstrip('=')}"


@contextmanager
def _application(files: FileSet) -> Iterator[int]:
    """Run an application that names files by X-Sendfile; yields its port."""
    known = {str(files.id(i)): files.path(i) for i in range(USED)}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = known[self.path.rpartition("/")[2]]
            self.send_response(200)
            self.send_header("X-Sendfile", f"{files.directory}/{path}")
            self.send_header("Cache-Control", "public, max-age=86400")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


_REDIRECTED = "location ^~ /files/ {{ internal; alias {files}/; }}"
_KEPT = (
    "http_sendfile_cache hot; http_sendfile_cache_valid 1d;"
    " http_sendfile_cache_valid 404 1d; http_sendfile_cache_check 1d;"
)
# A machine may be busy, and valgrind is slow.
_PATIENT = "http_sendfile_timeout 1m;"
_BODY = "http_sendfile_cache_body 16k;"
_HELLO = """\
location /hello {
    default_type text/plain;
    mruby_content_handler_code '
        Nginx.rputs "hello world\\n"
        Nginx.return Nginx::NGX_HTTP_OK
    ';
}
"""


class _Maker:
    """Makes the paths of a setting."""

    def __init__(
        self,
        setting: Setting,
        files: FileSet,
        store: IdStore,
        memcached: Memcached,
        application: int,
        database: Path,
        storage: Path,
    ) -> None:
        self._setting = setting
        self._files = files
        self._memcached = memcached.address
        self._application = application
        self._database = database
        self._storage = storage
        self._keys = storage.with_name("k")
        self._lmdb = f"http_sendfile_lookup lmdb:{store.directory};"
        self._root = f"http_sendfile_root {files.directory};"
        self._redirected = _REDIRECTED.format(files=files.directory)
        ids = [str(files.id(i)) for i in range(USED)]
        sizes = {name: files.sizes[i] for i, name in enumerate(ids)}
        self._by_id = [f"/file/{name}" for name in ids]
        self._by_path = [f"/files/{files.path(i)}" for i in range(USED)]
        self._length: Callable[[str], int | None] = lambda path: sizes[
            path.partition("?")[0].rpartition("/")[2].removesuffix(".dat")
        ]

    def all(self) -> list[Way]:
        """Return all of them."""
        return [
            self._plain("return", "`return 200` with 2 KB", _return(), ["/x"], None),
            self._static("static", "nginx static", ""),
            self._static(
                "static-ofc",
                "nginx static, open_file_cache",
                open_file_cache(self._setting),
            ),
            self._ours("lmdb-redirect", "LMDB, redirect", self._lmdb, self._redirected),
            self._ours("lmdb-root", "LMDB, root", self._lmdb + self._root),
            self._ours(
                "memcached-redirect",
                "memcached, redirect",
                f"http_sendfile_lookup memcached://{self._at()}; {_PATIENT}",
                self._redirected,
            ),
            self._ours(
                "memcached-block",
                "memcached by a store block, redirect",
                "http_sendfile_lookup block;",
                self._redirected,
                f"http_sendfile_store block {{ server memcached://{self._at()};"
                " connect_timeout 1m; timeout 1m; }",
            ),
            self._sqlite(),
            self._ours(
                "record", "record cached, root", self._lmdb + self._root + _KEPT
            ),
            self._ours(
                "body",
                "record and body cached",
                self._lmdb + self._root + _KEPT + _BODY,
            ),
            self._negative(),
            self._disk(),
            self._hmac(),
            self._app("learned", "learned, body cached", "http_sendfile_learn on;"),
            self._app("x-sendfile", "X-Sendfile of an application", ""),
            self._ruby(
                "mruby-set",
                "LMDB, root, key by mruby_set",
                "location /file/ { http_sendfile on;"
                f" {self._lmdb} {self._root} mruby_set_code $key"
                " 'Nginx::Var.new.sendfile_id'; http_sendfile_key $key; }\n",
                self._by_id,
                self._length,
            ),
            self._ruby("hello", "hello world by mruby", _HELLO, ["/hello"]),
        ]

    def _at(self) -> str:
        return f"{self._memcached.host}:{self._memcached.port}"

    def _plain(
        self,
        name: str,
        title: str,
        server: str,
        asked: Sequence[str],
        length: Callable[[str], int | None] | None,
    ) -> Way:
        program = self._setting.nginx
        task = Task(Nginx(name, program, server), program, asked)
        if length is not None:
            task = Task(task.nginx, program, asked, length=length)
        return Way(name, title, task)

    def _static(self, name: str, title: str, extra: str) -> Way:
        server = static_server(self._files, extra)
        return self._plain(name, title, server, self._by_path, self._length)

    def _ours(
        self, name: str, title: str, lines: str, server: str = "", http: str = ""
    ) -> Way:
        location = f"location /file/ {{ http_sendfile on; {lines} }}\n{server}\n"
        return self._with_module(
            name, title, location, http, self._by_id, length=self._length
        )

    def _negative(self) -> Way:
        unknown = [f"/file/{nth_id(i, FILES) + 1}" for i in range(USED)]
        location = (
            f"location /file/ {{ http_sendfile on; {self._lmdb} {self._root} {_KEPT} }}"
        )
        return self._with_module(
            "negative", "cached miss: 404", location, "", unknown, status=404
        )

    def _sqlite(self) -> Way:
        return self._with_module(
            "sqlite-root",
            "SQLite, root",
            "location /file/ { http_sendfile on; http_sendfile_lookup database;"
            f" {self._root} }}\n",
            f"http_sendfile_store database {{ server sqlite:{self._database};"
            ' query "SELECT path FROM files WHERE id = ?"; timeout 1m; }',
            self._by_id,
            other=_SQLITE,
            length=self._length,
        )

    def _disk(self) -> Way:
        numbers = range(USED)
        tokens = [_token(_blob(self._files, i)) for i in numbers]
        asked = [f"/rails/active_storage/disk/{token}/image.jpg" for token in tokens]
        sizes = {path: self._files.sizes[i] for i, path in enumerate(asked)}
        return self._with_module(
            "disk",
            "Active Storage, /disk/, body cached",
            "location /rails/active_storage/ {"
            f" http_sendfile_activestorage {self._keys};"
            f" http_sendfile_root {self._storage}; {_KEPT} {_BODY} }}\n",
            "",
            asked,
            other=_SIGNED,
            length=lambda path: sizes[path],
        )

    def _hmac(self) -> Way:
        return self._with_module(
            "hmac",
            "signed link, record and body cached",
            "location /file/ {"
            f" http_sendfile_signature hmac {self._keys};"
            ' if ($sendfile_signed != "1") { return 403; }'
            f" http_sendfile on; {self._lmdb} {self._root} {_KEPT} {_BODY} }}\n",
            "",
            [_link(path) for path in self._by_id],
            other=_SIGNED,
            length=self._length,
        )

    def _app(self, name: str, title: str, lines: str) -> Way:
        location = (
            "location /file/ { http_sendfile_accept X-Sendfile;"
            f" http_sendfile_allow {self._files.directory}; {_KEPT} {_BODY} {lines}"
            " proxy_http_version 1.1; proxy_set_header Connection '';"
            " proxy_pass http://application; }"
        )
        upstream = (
            "upstream application {\n"
            f"    server 127.0.0.1:{self._application};\n    keepalive 4;\n}}"
        )
        return self._with_module(
            name, title, location, upstream, self._by_id, length=self._length
        )

    def _ruby(
        self,
        name: str,
        title: str,
        server: str,
        asked: Sequence[str],
        length: Callable[[str], int | None] = lambda path: None,
    ) -> Way:
        return self._with_module(
            name, title, server, "", asked, other=_MRUBY, length=length
        )

    def _with_module(
        self,
        name: str,
        title: str,
        server: str,
        http: str,
        asked: Sequence[str],
        *,
        status: int = 200,
        other: str | None = None,
        length: Callable[[str], int | None] = lambda path: None,
    ) -> Way:
        """Make a way through our module and, behind it, the ``other``."""
        program = self._setting.nginx
        missing = self._setting.module_missing
        others = []
        if other is not None:
            path = program.module.with_name(other) if program.module else Path(other)
            others.append(path)
            if not path.exists():
                missing = missing or f"{other} is not built"
        nginx = Nginx(
            name,
            program,
            server,
            needs_module=True,
            others=others,
            http=f"{cache_zone('32m')}\n{http}",
        )
        task = Task(nginx, program, asked, status, length)
        return Way(name, title, task, missing)


def _return() -> str:
    return f'location / {{ default_type text/plain; return 200 "{"x" * 2_000}"; }}'


def _finding(
    titles: Mapping[str, str],
    found: Mapping[str, Counts],
    failures: Sequence[str],
    configurations: Mapping[str, str],
) -> Finding:
    goals = [
        Goal(
            f"instructions, {titles[name]}",
            f"{found[name].instructions:,.0f}" if name in found else "–",
            f"≤ {budget:,}",
            found[name].instructions <= budget if name in found else None,
        )
        for name, budget in BUDGETS.items()
    ]
    return Finding(
        name="cost",
        title="What a request costs: instructions and system calls",
        about=_ABOUT.format(
            connections=counts.CONNECTIONS,
            used=USED,
            files=FILES,
            first=FIRST,
            then=THEN,
        ),
        goals=goals,
        tables=[
            (
                ["path", "instructions", "steady", "system calls", "which"],
                [
                    [
                        titles[name],
                        f"{of.instructions:,.0f}",
                        f"{of.steady:,.0f}",
                        f"{sum(of.calls.values()):.1f}",
                        ", ".join(f"{call} {n:.3g}" for call, n in of.calls.items()),
                    ]
                    for name, of in found.items()
                ],
            ),
            (
                ["path", "functions that cost most, instructions of a request"],
                [
                    [
                        titles[name],
                        ", ".join(f"{f} {n:,.0f}" for f, n in of.functions[:_TOP]),
                    ]
                    for name, of in found.items()
                ],
            ),
        ],
        bars=[
            Row(
                titles[name],
                "baseline" if name.startswith(("static", "return")) else "ours",
                of.instructions,
            )
            for name, of in found.items()
        ],
        axis="instructions of a request",
        line=None,
        data={
            "paths": {
                name: {
                    "instructions": of.instructions,
                    "steady": of.steady,
                    "calls": of.calls,
                }
                for name, of in found.items()
            }
        },
        files=configurations,
        notes=[f"**Not measured:** {failure}" for failure in failures],
        complete=not failures,
    )
