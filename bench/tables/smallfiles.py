"""Table small-files: whoever serves small files, against ours by ID."""

from dataclasses import replace

from bench.contestants import apache, caddy, h2o, lighttpd
from bench.contestants.nginx import Nginx
from bench.dataset import FileSet, IdStore, build_files, build_store
from bench.model import Comparison
from bench.runner import Entry
from bench.tables import Setting, Table
from bench.tables.parts import (
    PROOF_FORMAT,
    cache_zone,
    cached_entry,
    direct_server,
    static_entries,
)
from bench.workload import IdWorkload, PathWorkload

FILES = 10_000
_ROUNDS = 10
_ZONE = "256m"
_BODY = "http_sendfile_cache_body 16k;"

_ABOUT = """\
{files:,} files of 1 to 9 KB by their paths from the servers that people use for
that, and by their IDs from ours: with a lookup in LMDB on each request, with the
record cached, and with record and body cached. 64 keep-alive connections of wrk on
one core, all processes and threads of a contestant on the other. The figure is CPU
per request.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds the files and the store unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    setting.note(f"data: {FILES:,} files of 1 to 9 KB")
    files = build_files(setting.cache, FILES)
    store = build_store(setting.cache, files, FILES, FILES)
    return Table(
        name="small-files",
        title="Small files: the servers that people use",
        about=_ABOUT.format(files=FILES),
        entries=[
            *static_entries(setting, files),
            *_others(setting, files),
            *_ours(setting, store),
        ],
        comparisons=_comparisons(),
        files=[*files.all(), store.directory / "data.mdb"],
        crowded=True,
        change_plan=lambda plan: replace(plan, rounds=min(plan.rounds, _ROUNDS)),
        packages=("lighttpd", "h2o", "apache2", "caddy", "liblmdb0"),
    )


def _comparisons() -> list[Comparison]:
    others = ("static", "static-ofc", "lighttpd", "h2o", "apache", "caddy")
    return [
        Comparison(
            "ours, body cached / the best of the others",
            "body",
            others,
            1.0,
        ),
        *(
            Comparison(f"ours, body cached / {other}", "body", (other,))
            for other in others
        ),
        Comparison("ours, record cached / nginx static", "record", ("static",)),
        Comparison("ours, LMDB / nginx static", "lmdb", ("static",)),
        Comparison(
            "noise: static, open_file_cache / the same again",
            "static-ofc",
            ("static-ofc-again",),
        ),
    ]


def _others(setting: Setting, files: FileSet) -> list[Entry]:
    program = setting.nginx
    core, directory = program.worker_core, files.directory
    servers = [
        (
            lighttpd.lighttpd(
                "lighttpd", core, directory, program.descriptors, "inotify"
            ),
            "lighttpd, inotify",
            lighttpd.missing(),
        ),
        (h2o.h2o("h2o", core, directory), "h2o", h2o.missing()),
        (
            apache.apache(
                "apache",
                core,
                lambda address, own: apache.files(directory),
                modules=("alias",),
            ),
            "Apache 2.4, event",
            apache.missing("alias"),
        ),
        (caddy.caddy("caddy", core, directory), "Caddy", caddy.missing()),
    ]
    return [
        Entry(server, PathWorkload(files), title, "other", missing=missing)
        for server, title, missing in servers
    ]


def _ours(setting: Setting, store: IdStore) -> list[Entry]:
    url, files = f"lmdb:{store.directory}", store.files
    cached = [
        cached_entry(
            setting,
            Nginx(
                name, setting.nginx, server, needs_module=True, http=cache_zone(_ZONE)
            ),
            store,
            title,
            from_memory=name == "body",
        )
        for name, title, server in (
            ("record", "ours: record cached", direct_server(url, files)),
            ("body", "ours: record, body cached", direct_server(url, files, _BODY)),
        )
    ]
    nginx = Nginx(
        "lmdb",
        setting.nginx,
        "location /file/ {\n"
        "    http_sendfile on;\n"
        f"    http_sendfile_lookup {url};\n"
        f"    http_sendfile_root {files.directory};\n"
        "}\n",
        needs_module=True,
    )
    looked_up = Entry(
        nginx,
        IdWorkload(store),
        "ours: LMDB on each request",
        "ours",
        proof=(nginx.logging(PROOF_FORMAT), "lmdb HIT"),
        missing=setting.module_missing,
    )
    return [looked_up, *cached]
