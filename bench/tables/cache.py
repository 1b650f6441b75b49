"""Table cache: a hit with the body from memory, against the fastest servers."""

from bench.contestants import epoll_loop, lighttpd
from bench.contestants.nginx import Nginx
from bench.dataset import FileSet, IdStore, build_files, build_store
from bench.model import Comparison
from bench.runner import Entry
from bench.tables import Setting, Table
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    redirect_server,
    static_entries,
)
from bench.workload import FixedWorkload, IdWorkload, PathWorkload

FILES = 10_000
_ZONE = "256m"
_BODY = "http_sendfile_cache_body 16k;"

_ABOUT = """\
Files of 1 to 9 KB by their IDs, record and body in the cache: each answer comes
from shared memory. {files:,} files, so that whoever keeps descriptors open can
keep all of them; random IDs, 64 keep-alive connections, one worker with a core
of its own, wrk on the other. "Ours" is an LMDB store, `http_sendfile_root`, a
cache zone and `http_sendfile_cache_body 16k`; a body is compared with its file
when the last comparison is a second old (`http_sendfile_cache_check`, its
default), or 60 s as with the baseline's `open_file_cache_valid`.

lighttpd is Debian's, with what its documentation recommends for speed, once with
each of its ways to notice that a file has changed; its better figure counts. The
floor is a small C program, a loop around `epoll_wait()`, that looks for the end of
a request's head and writes an answer that is ready, head and body in one piece,
as long as nginx's are on average; "the right one of {files:,}" takes the ID from
a fixed place and writes that file's answer. nginx's own floor is `return 200`
with a body of the same length.

"Busy" is the share of the time in which the server ran. Where that is far below
100 % wrk was what limited the rate, and the CPU time is the fairer figure.
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
        packages=("lighttpd", "liblmdb0"),
        name="cache",
        title="A hit with the body from memory: files of 1 to 9 KB",
        about=_ABOUT.format(files=FILES),
        entries=[
            *static_entries(setting, files),
            *_lighttpd(setting, files),
            *_ours(setting, store),
            *_floors(setting, store),
        ],
        comparisons=_comparisons(),
        files=[*files.all(), store.directory / "data.mdb"],
    )


def _comparisons() -> list[Comparison]:
    baseline = ("static", "static-ofc")
    light = ("lighttpd", "lighttpd-inotify")
    return [
        Comparison("hit / baseline", "memory", baseline, 0.65),
        Comparison(
            "hit / epoll loop with one ready answer", "memory", ("epoll",), 1.25
        ),
        Comparison("hit / lighttpd", "memory", light, 0.85),
        Comparison(
            "throughput: hit / the faster nginx static",
            "memory",
            baseline,
            1.5,
            metric="rate",
        ),
        Comparison("hit, compared every 60 s / baseline", "memory-60s", baseline),
        Comparison("hit / epoll loop with all answers", "memory", ("epoll-all",)),
        Comparison("hit / `return 200` with a body", "memory", ("return",)),
        Comparison("throughput: hit / lighttpd", "memory", light, metric="rate"),
        Comparison("record cached, file sent / baseline", "record", baseline),
        Comparison("record cached, redirect / baseline", "redirect", baseline),
        Comparison("lighttpd / baseline", "lighttpd-inotify", baseline),
        Comparison("epoll loop with one answer / baseline", "epoll", baseline),
        Comparison("noise: hit / the same again", "memory", ("memory-again",)),
        Comparison(
            "noise: static, open_file_cache / the same again",
            "static-ofc",
            ("static-ofc-again",),
        ),
    ]


def _lighttpd(setting: Setting, files: FileSet) -> list[Entry]:
    program = setting.nginx
    return [
        Entry(
            lighttpd.lighttpd(
                name, program.worker_core, files.directory, program.descriptors, stat
            ),
            PathWorkload(files),
            title,
            "other",
            missing=lighttpd.missing(),
        )
        for name, title, stat in (
            ("lighttpd", "lighttpd static, looks at files every second", "simple"),
            ("lighttpd-inotify", "lighttpd static, inotify", "inotify"),
        )
    ]


def _ours(setting: Setting, store: IdStore) -> list[Entry]:
    url, files = f"lmdb:{store.directory}", store.files
    memory = direct_server(url, files, _BODY)
    longer = direct_server(url, files, _BODY, "http_sendfile_cache_check 60s;")
    entries = [
        ("memory", "ours: record and body cached", "ours", memory),
        ("memory-again", "the same again", "noise", memory),
        ("memory-60s", "ours: the same, compared every 60 s", "ours", longer),
        ("record", "ours: record cached, direct", "ours", direct_server(url, files)),
        (
            "redirect",
            "ours: record cached, redirect",
            "ours",
            redirect_server(url, files),
        ),
    ]
    return [
        cached_entry(
            setting,
            Nginx(
                name,
                setting.nginx,
                server,
                needs_module=True,
                http=cache_zone(_ZONE),
            ),
            store,
            title,
            role=role,
            from_memory=name.startswith("memory"),
        )
        for name, title, role, server in entries
    ]


def _floors(setting: Setting, store: IdStore) -> list[Entry]:
    core, files = setting.nginx.worker_core, store.files
    count = len(files.sizes)
    body = b"x" * round(sum(files.sizes) / count)
    one = FixedWorkload(IdWorkload(store), body)
    return [
        Entry(
            epoll_loop.epoll_loop(
                "epoll", core, lambda: [body], f"one answer of {len(body)} bytes"
            ),
            one,
            "floor: epoll loop, one ready answer",
            "floor",
            missing=epoll_loop.missing(),
        ),
        Entry(
            epoll_loop.epoll_loop(
                "epoll-all",
                core,
                lambda: (files.body(i) for i in range(count)),
                f"the answers of all {count} IDs",
            ),
            IdWorkload(store),
            f"floor: epoll loop, the right one of {count:,}",
            "floor",
            missing=epoll_loop.missing(),
        ),
        Entry(
            Nginx("return", setting.nginx, _RETURN, http=_maps(body)),
            one,
            "floor: nginx `return 200` with a body",
            "floor",
        ),
    ]


_RETURN = "location /file/ {\n    return 200 $first$second;\n}\n"


def _maps(body: bytes) -> str:
    """Split the body: a word of a configuration has at most 4,096 bytes."""
    text = body.decode("ascii")
    half = len(text) // 2
    return "".join(
        f"map $host ${name} {{\n    default {part};\n}}\n"
        for name, part in (("first", text[:half]), ("second", text[half:]))
    )
