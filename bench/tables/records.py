"""Table records: what a hit costs when the cache holds many records."""

from bench.contestants.nginx import Nginx
from bench.dataset import IdStore, build_files, build_store
from bench.model import Comparison
from bench.runner import Entry
from bench.tables import Setting, Table
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    redirect_server,
)

FILES = 20_000
USED = 1_000
SMALL = 10_000
LARGE = 1_000_000
QUICK_LARGE = 100_000
_ZONE = "512m"
_BODY = "http_sendfile_cache_body 16k;"

_ABOUT = """\
10,000 and {large:,} IDs whose records are all in the cache, in zones of the same
size; both point at the same 1,000 files, so that only the number of records
differs. In the strictest form these 1,000 files come from memory, too, and the
search for the record is the only thing that grows in the cheapest of requests.
The other form has no bodies in the cache: an internal redirect to a static
location. IDs are random, so that nearly every search of the large cache misses
the processor's caches. 64 keep-alive connections, one worker with a core of its
own.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds the files and the stores unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    large = QUICK_LARGE if setting.quick else LARGE
    setting.note(f"data: 1,000 files, LMDB stores of up to {large:,} IDs")
    files = build_files(setting.cache, FILES)
    few = build_store(setting.cache, files, SMALL, USED)
    many = build_store(setting.cache, files, large, USED)
    cases = [
        ("memory-few", few, f"{SMALL:,} records, body from memory", "ours"),
        ("memory-many", many, f"{large:,} records, body from memory", "ours"),
        ("memory-few-again", few, f"{SMALL:,} records, the same again", "noise"),
        ("redirect-few", few, f"{SMALL:,} records, redirect", "ours"),
        ("redirect-many", many, f"{large:,} records, redirect", "ours"),
    ]
    return Table(
        packages=("liblmdb0",),
        name="records",
        title="Many cached records: what the search costs",
        about=_ABOUT.format(large=large),
        entries=[_entry(setting, *case) for case in cases],
        comparisons=[
            Comparison(
                f"body from memory: {large:,} records / {SMALL:,}",
                "memory-many",
                ("memory-few",),
                1.25,
            ),
            Comparison(
                f"redirect: {large:,} records / {SMALL:,}",
                "redirect-many",
                ("redirect-few",),
                1.25,
            ),
            Comparison(
                f"noise: {SMALL:,} records / the same again",
                "memory-few",
                ("memory-few-again",),
            ),
        ],
        files=[*files.all(), *(s.directory / "data.mdb" for s in (few, many))],
    )


def _entry(setting: Setting, name: str, store: IdStore, title: str, role: str) -> Entry:
    url, files = f"lmdb:{store.directory}", store.files
    memory = name.startswith("memory")
    server = direct_server(url, files, _BODY) if memory else redirect_server(url, files)
    nginx = Nginx(
        name, setting.nginx, server, needs_module=True, http=cache_zone(_ZONE)
    )
    return cached_entry(
        setting, nginx, store, title, role=role, passes=2, from_memory=memory
    )
