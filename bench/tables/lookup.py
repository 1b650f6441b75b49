"""Table lookup: a file by its ID against nginx serving the same file by path."""

from collections.abc import Callable

from bench.contestants import openresty
from bench.contestants.memcached import Memcached
from bench.contestants.nginx import Nginx
from bench.dataset import FileSet, IdStore, build_files, build_store
from bench.model import AddedLatency, Comparison, StoreCost
from bench.runner import Entry
from bench.tables import Setting, Table
from bench.tables.parts import PROOF_FORMAT, open_file_cache, static_server
from bench.workload import FixedWorkload, IdWorkload, PathWorkload

FILES = 20_000
SMALL = 1_000
LARGE = 10_000_000
QUICK_LARGE = 100_000

_ABOUT = """\
A file is asked for by its ID and found in a store on every request (no cache),
LMDB or memcached, against nginx serving the same files by their paths. One worker has a
core of its own; wrk and everything else share the other. {files:,} files of 1 to
9 KB, random IDs, 64 keep-alive connections; `sendfile on`, `tcp_nopush on`,
`access_log off` on both sides. The figure is the CPU time of the worker process
divided by the answers, so it does not depend on what else the machine does as
much as a rate would. Contestants take turns. {large} IDs and 1,000 IDs point at
the same 1,000 files, so that only the number of IDs differs.

memcached holds the {files:,} IDs, runs beside wrk on the other core with Debian's
settings, and its CPU time, all threads, is counted apart. OpenResty's way is
Debian's Lua module: a `get` through a pool of kept connections, then `ngx.exec`.
Latency is the median of one request at a time on one connection (`wrk -c1`); the
round trip to memcached is one `get` by a blocking client on the worker's core, in
turn with it.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds the files and stores unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    large = QUICK_LARGE if setting.quick else LARGE
    setting.note(f"data: {FILES:,} files, LMDB stores of up to {large:,} IDs")
    files = build_files(setting.cache, FILES)
    store = build_store(setting.cache, files, FILES, FILES)
    small_store = build_store(setting.cache, files, SMALL, SMALL)
    large_store = build_store(setting.cache, files, large, SMALL)
    entries = [
        *_static_entries(setting, files),
        _redirect(setting, store, "redirect", "ours: LMDB, redirect"),
        _redirect(
            setting,
            store,
            "redirect-ofc",
            "ours: LMDB, redirect, open_file_cache",
            open_file_cache(setting),
        ),
        _direct(setting, store),
        _redirect(setting, small_store, "ids-small", f"ours: {SMALL:,} IDs, redirect"),
        _redirect(setting, large_store, "ids-large", f"ours: {large:,} IDs, redirect"),
    ]
    stores = [store, small_store, large_store]
    if not setting.quick:
        spread_store = build_store(setting.cache, files, large, FILES)
        stores.append(spread_store)
        entries.append(
            _redirect(
                setting,
                spread_store,
                "ids-large-all",
                f"ours: {large:,} IDs, {FILES:,} files, redirect",
            )
        )
    memcached = Memcached(
        {str(store.id(i)): files.path(store.file_index(i)) for i in range(store.ids)},
        setting.nginx.other_core,
    )
    entries += _memcached_entries(setting, store, memcached)
    entries.append(_floor(setting, store))
    return Table(
        packages=("memcached", "libnginx-mod-http-lua", "liblmdb0"),
        name="lookup",
        title="A file by its ID: a lookup on every request",
        about=_ABOUT.format(files=FILES, large=f"{large:,}"),
        entries=entries,
        comparisons=_comparisons(setting.quick, large),
        files=[*files.all(), *(store.directory / "data.mdb" for store in stores)],
        store_costs=[
            StoreCost(
                "memcached's CPU for a request: redirect", "memcached-redirect", 2
            ),
            StoreCost("memcached's CPU for a request: direct", "memcached-direct"),
            StoreCost("memcached's CPU for a request: OpenResty's Lua", "lua"),
        ],
        latency=AddedLatency(
            "memcached's latency less LMDB's and a round trip",
            "memcached-redirect",
            "redirect",
            20,
        ),
        keys=[str(store.id(i)) for i in range(0, store.ids, 20)],
    )


def _comparisons(quick: bool, large: int) -> list[Comparison]:
    baseline = ("static", "static-ofc")
    comparisons = [
        Comparison("LMDB, redirect / baseline", "redirect", baseline, 1.08),
        Comparison(
            "LMDB, redirect, open_file_cache / baseline", "redirect-ofc", baseline
        ),
        Comparison("LMDB, direct / LMDB, redirect", "direct", ("redirect",), 0.97),
        Comparison("LMDB, direct / baseline", "direct", baseline),
        Comparison(
            f"{large:,} IDs / {SMALL:,} IDs, same {SMALL:,} files",
            "ids-large",
            ("ids-small",),
            1.12,
        ),
        Comparison(
            "memcached, redirect / baseline", "memcached-redirect", baseline, 1.15
        ),
        Comparison(
            "memcached, direct / memcached, redirect",
            "memcached-direct",
            ("memcached-redirect",),
            0.97,
        ),
        Comparison(
            "memcached, redirect / OpenResty's Lua doing the same",
            "memcached-redirect",
            ("lua",),
            0.65,
        ),
        Comparison("OpenResty's Lua / baseline", "lua", baseline),
        Comparison("`return 200` / baseline", "floor", baseline),
        Comparison(
            "noise: static, open_file_cache / the same again",
            "static-ofc",
            ("static-ofc-again",),
        ),
    ]
    if not quick:
        comparisons[5:5] = [
            Comparison(
                f"{large:,} IDs / {FILES:,} IDs, same {FILES:,} files",
                "ids-large-all",
                ("redirect",),
                1.12,
            )
        ]
        comparisons.append(
            Comparison("noise: static / the same again", "static", ("static-again",))
        )
    return comparisons


def _static_entries(setting: Setting, files: FileSet) -> list[Entry]:
    workload = PathWorkload(files)
    plain = static_server(files)
    cached = static_server(files, open_file_cache(setting))
    entries = [
        ("static", "nginx static", "baseline", plain),
        ("static-ofc", "nginx static, open_file_cache", "baseline", cached),
        ("static-ofc-again", "the same again", "noise", cached),
    ]
    if not setting.quick:
        entries.append(("static-again", "nginx static again", "noise", plain))
    return [
        Entry(Nginx(name, setting.nginx, server), workload, title, role)
        for name, title, role, server in entries
    ]


def _redirect(
    setting: Setting, store: IdStore, name: str, title: str, extra: str = ""
) -> Entry:
    server = _redirect_server(f"lmdb:{store.directory}", store.files, extra)
    return _ours(setting, store, name, title, server)


def _redirect_server(url: str, files: FileSet, extra: str = "") -> str:
    inner = "".join(f"    {line}\n" for line in extra.splitlines())
    return (
        "location /file/ {\n"
        "    http_sendfile on;\n"
        f"    http_sendfile_lookup {url};\n"
        "    http_sendfile_prefix /files/;\n"
        "}\n"
        "\n"
        "location ^~ /files/ {\n"
        "    internal;\n"
        f"    alias {files.directory}/;\n"
        f"{inner}"
        "}\n"
    )


def _direct_server(url: str, files: FileSet) -> str:
    return (
        "location /file/ {\n"
        "    http_sendfile on;\n"
        f"    http_sendfile_lookup {url};\n"
        f"    http_sendfile_root {files.directory};\n"
        "}\n"
    )


def _direct(setting: Setting, store: IdStore) -> Entry:
    server = _direct_server(f"lmdb:{store.directory}", store.files)
    return _ours(setting, store, "direct", "ours: LMDB, direct", server)


def _ours(
    setting: Setting,
    store: IdStore,
    name: str,
    title: str,
    server: str | Callable[[], str],
    memcached: Memcached | None = None,
) -> Entry:
    nginx = Nginx(name, setting.nginx, server, needs_module=True)
    return Entry(
        nginx,
        IdWorkload(store),
        title,
        "ours",
        proof=(
            nginx.logging(PROOF_FORMAT),
            "memcached HIT" if memcached else "lmdb HIT",
        ),
        missing=setting.module_missing or (memcached.missing if memcached else None),
        store=memcached,
    )


def _memcached_entries(
    setting: Setting, store: IdStore, memcached: Memcached
) -> list[Entry]:
    files = store.files

    def url() -> str:
        return f"memcached://{memcached.address.host}:{memcached.address.port}"

    lua = Nginx(
        "lua",
        setting.nginx,
        openresty.server(lambda: memcached.address, files.directory),
        others=openresty.MODULES,
    )
    return [
        _ours(
            setting,
            store,
            "memcached-redirect",
            "ours: memcached, redirect",
            lambda: _redirect_server(url(), files),
            memcached,
        ),
        _ours(
            setting,
            store,
            "memcached-direct",
            "ours: memcached, direct",
            lambda: _direct_server(url(), files),
            memcached,
        ),
        Entry(
            lua,
            IdWorkload(store),
            "OpenResty's Lua: memcached, ngx.exec",
            "other",
            missing=openresty.missing(setting.nginx) or memcached.missing,
            store=memcached,
        ),
    ]


def _floor(setting: Setting, store: IdStore) -> Entry:
    server = "location /file/ {\n    return 200;\n}\n"
    return Entry(
        Nginx("floor", setting.nginx, server),
        FixedWorkload(IdWorkload(store), b""),
        "floor: `return 200`, no body",
        "floor",
    )
