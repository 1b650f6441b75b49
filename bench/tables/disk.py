"""Table disk: the record from the cache, the file from the file system."""

from dataclasses import replace

from bench.contestants.nginx import Nginx
from bench.dataset import FileSet, IdStore, build_equal_files, build_store
from bench.model import Comparison
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    open_file_cache,
    static_entry,
    static_server,
)

KIB = 1024
SIZES = {"64k": (64 * KIB, 500), "256k": (256 * KIB, 200), "1m": (1024 * KIB, 100)}
_ZONE = "16m"
_BODY = "http_sendfile_cache_body 16k;"

_ABOUT = """\
Files too large for `http_sendfile_cache_body` (16k here) by their IDs: the record
comes from the cache, the file is sent with `sendfile()` by direct delivery, from
a descriptor that the worker keeps and looks at with `fstat()` each time. 500 files
of 64 KB, 200 of 256 KB and 100 of 1 MB, all in the page cache; random IDs, 16
keep-alive connections, one worker with a core of its own, wrk on the other. The
baseline keeps its descriptors open, too (`open_file_cache`), and looks at a file
again after 60 s.
"""


def fewer_checks(plan: Plan) -> Plan:
    """Compare fewer answers byte for byte: they are large."""
    return replace(plan, checks=min(plan.checks, 100), spot_checks=5)


def table(setting: Setting) -> Table:
    """Make the table; builds the files and the stores unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    setting.note(f"data: files of {', '.join(SIZES)}")
    entries, comparisons, paths = [], [], []
    for size, (length, count) in SIZES.items():
        files = build_equal_files(setting.cache, count, length)
        store = build_store(setting.cache, files, count, count)
        entries += _entries(setting, size, store, files)
        comparisons += _comparisons(size)
        paths += [*files.all(), store.directory / "data.mdb"]
    return Table(
        packages=("lighttpd", "liblmdb0"),
        name="disk",
        title="A hit with the file from the file system: 64 KB to 1 MB",
        about=_ABOUT,
        entries=entries,
        comparisons=comparisons,
        files=paths,
        connections=16,
        change_plan=fewer_checks,
    )


def _comparisons(size: str) -> list[Comparison]:
    ours, ofc = f"ours-{size}", f"ofc-{size}"
    return [
        Comparison(f"{size}: hit / static, open_file_cache", ours, (ofc,), 1.0),
        Comparison(f"{size}: hit / static", ours, (f"static-{size}",)),
        Comparison(
            f"{size}: static, open_file_cache / static (what open descriptors save)",
            ofc,
            (f"static-{size}",),
        ),
        Comparison(
            f"{size}: throughput: hit / static, open_file_cache",
            ours,
            (ofc,),
            metric="rate",
        ),
        Comparison(f"{size}: noise: hit / the same again", ours, (f"{ours}-again",)),
        Comparison(
            f"{size}: noise: static, open_file_cache / the same again",
            ofc,
            (f"{ofc}-again",),
        ),
    ]


def _entries(
    setting: Setting, size: str, store: IdStore, files: FileSet
) -> list[Entry]:
    cached = static_server(files, open_file_cache(setting))
    entries = [
        static_entry(Nginx(f"{name}-{size}", setting.nginx, server), files, title, role)
        for name, title, role, server in (
            ("static", f"{size}: nginx static", "baseline", static_server(files)),
            ("ofc", f"{size}: nginx static, open_file_cache", "baseline", cached),
        )
    ]
    again = Nginx(f"ofc-{size}-again", setting.nginx, cached)
    entries.append(static_entry(again, files, f"{size}: the same again", "noise"))
    server = direct_server(f"lmdb:{store.directory}", files, _BODY)
    for name, title, role in (
        (f"ours-{size}", f"{size}: ours, record cached", "ours"),
        (f"ours-{size}-again", f"{size}: the same again", "noise"),
    ):
        nginx = Nginx(
            name, setting.nginx, server, needs_module=True, http=cache_zone(_ZONE)
        )
        entries.append(cached_entry(setting, nginx, store, title, role=role))
    return entries
