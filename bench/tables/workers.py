"""Table workers: what a second worker adds to the cost of a hit."""

from bench.contestants.nginx import Nginx
from bench.dataset import build_files, build_store
from bench.model import Comparison
from bench.runner import Entry
from bench.tables import Setting, Table
from bench.tables.cache import FILES
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    open_file_cache,
    static_entry,
    static_server,
)

_ZONE = "256m"
_BODY = "http_sendfile_cache_body 16k;"

_ABOUT = """\
The hits of the table above, body from memory, by one worker and by two that
share the cache, each with a core of its own and a listening socket of its own
(`reuseport`). wrk runs with two threads on both cores, 64 connections, in all
cases, so it takes time from the workers; their own CPU time per request is what
counts. A second worker makes nginx static dearer, too: the two share the
processor's last cache and memory, and wrk. The goal is about what our shared
memory adds to that.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds the files and the store unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    setting.note(f"data: {FILES:,} files of 1 to 9 KB")
    files = build_files(setting.cache, FILES)
    store = build_store(setting.cache, files, FILES, FILES)
    static = static_server(files, open_file_cache(setting))
    ours = direct_server(f"lmdb:{store.directory}", files, _BODY)
    entries: list[Entry] = []
    for workers, again in ((1, False), (2, False), (1, True), (2, True)):
        suffix = f"{workers}{'-again' if again else ''}"
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        label += ", the same again" if again else ""
        entries.append(
            static_entry(
                Nginx(f"static-{suffix}", setting.nginx, static, workers=workers),
                files,
                f"nginx static, open_file_cache, {label}",
                "noise" if again else "baseline",
            )
        )
        entries.append(
            cached_entry(
                setting,
                Nginx(
                    f"ours-{suffix}",
                    setting.nginx,
                    ours,
                    needs_module=True,
                    http=cache_zone(_ZONE),
                    workers=workers,
                ),
                store,
                f"ours: record and body cached, {label}",
                role="noise" if again else "ours",
                passes=2 * workers + 2,
                from_memory=True,
            )
        )
    return Table(
        packages=("liblmdb0",),
        name="workers",
        title="One worker and two: hits with the body from memory",
        about=_ABOUT,
        entries=entries,
        comparisons=[
            Comparison(
                "1 to 2 workers: growth of ours / growth of nginx static",
                "ours-2",
                ("static-2",),
                1.05,
                grown_from=("ours-1", "static-1"),
            ),
            Comparison("ours: 2 workers / 1", "ours-2", ("ours-1",)),
            Comparison("nginx static: 2 workers / 1", "static-2", ("static-1",)),
            Comparison("2 workers: ours / nginx static", "ours-2", ("static-2",)),
            Comparison(
                "throughput, ours: 2 workers / 1", "ours-2", ("ours-1",), metric="rate"
            ),
            Comparison(
                "throughput, nginx static: 2 workers / 1",
                "static-2",
                ("static-1",),
                metric="rate",
            ),
            Comparison(
                "noise: growth of nginx static / of the same again",
                "static-2",
                ("static-2-again",),
                grown_from=("static-1", "static-1-again"),
            ),
            Comparison(
                "noise: growth of ours / of the same again",
                "ours-2",
                ("ours-2-again",),
                grown_from=("ours-1", "ours-1-again"),
            ),
        ],
        files=[*files.all(), store.directory / "data.mdb"],
        shared=True,
    )
