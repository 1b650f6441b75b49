"""Table big-file: how fast large files are sent, by all that send files."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.contestants import (
    Contestant,
    apache,
    applications,
    epoll_loop,
    h2o,
    lighttpd,
    varnish,
)
from bench.contestants.nginx import Nginx
from bench.contestants.stack import Parts, Stack
from bench.dataset import FileSet, IdStore, build_equal_files, build_store
from bench.httperf import Httperf
from bench.load import LoadGenerator
from bench.model import BenchError, Comparison, Metric
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    static_entry,
    static_server,
)
from bench.workload import IdWorkload, PathWorkload

SIZE = 4_200_000
FILES = 20
HTTPERF_CONNECTIONS = 100
HTTPERF_CALLS = 10
_ROUNDS = 5
_ZONE = "1m"

_ABOUT = """\
Files of 4.2 MB by their IDs, the record from the cache, direct delivery, against
nginx and others that serve the same files by their paths. With wrk: {files} files,
16 keep-alive connections; with httperf: one file, {connections} connections one
after the other, {calls} calls on each, as in the published figures (77.7 requests/s
for nginx, 55.7 Apache, 43.7 Varnish, 16.6 Node, 8.0 Sinatra, with other machines
and a network between); and with wrk over TLS 1.3, where nginx reads and OpenSSL
encrypts, while over plain HTTP the kernel copies (`sendfile()`).

All files are in the page cache. A contestant's processes share one core, the load
has the other. httperf's receive buffers are of 256 KB: its own 16 KB are of a time
before windows grew by themselves. Varnish keeps the files in its memory; Node sends a stream, as
Express does; Sinatra is run by unicorn (two workers) behind nginx, as unicorn's
documentation demands, with buffers that take a whole file. The goals of the ratios
of rates are the published ratios.

With `sendfile()` a server does not touch the data: the reader's copy is the only
one, out of many small pages that no cache of the processor holds. A server that
copies (Varnish, Node, Sinatra) spends several times the CPU, but leaves the reader
warm data in few pieces; where both ends share one memory and the reader is the
limit, that is faster, over a network it is not. Two floors show it: the same bare
loop, once with `sendfile()` and once with `send()` from memory. The first is
the best that a server with `sendfile()` can be here.

The figure is the rate: {size:,} bytes times the requests a second. "Within noise"
means: slower by no more than equal contestants differ from each other in the middle
half of the rounds. "Busy" tells whether the server or the load generator, which has
to read all that, was the limit: where several are not busy, it was the generator,
and CPU per request tells them apart. httperf gives no percentiles.
"""

_METRICS: tuple[tuple[str, Metric], ...] = (
    ("throughput", "rate"),
    ("CPU per request", "cpu"),
)
_OTHERS = ("lighttpd", "h2o", "apache", "varnish", "node", "sinatra")

# Published: nginx 77.7 requests/s, Apache 55.7, Varnish 43.7, Node 16.6, Sinatra 8.0
_PUBLISHED = {"apache": 1.395, "varnish": 1.778, "node": 4.681, "sinatra": 9.713}


def table(setting: Setting) -> Table:
    """Make the table; builds files, stores and certificate unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    setting.note(f"data: {FILES} files of {SIZE:,} bytes")
    many = build_equal_files(setting.cache, FILES, SIZE)
    one = build_equal_files(setting.cache, 1, SIZE)
    store = build_store(setting.cache, many, FILES, FILES)
    single = build_store(setting.cache, one, 1, 1)
    certificate = make_certificate(setting.cache)
    connections = 10 if setting.quick else HTTPERF_CONNECTIONS
    httperf = Httperf(setting.nginx.other_core, connections, HTTPERF_CALLS)
    return Table(
        name="big-file",
        title="Files of 4.2 MB: the rate, plain and over TLS",
        about=_ABOUT.format(
            files=FILES, size=SIZE, connections=connections, calls=HTTPERF_CALLS
        ),
        entries=[
            *_entries(setting, store, "plain", "wrk", None),
            *_others(setting, many, "plain", "wrk"),
            *_floors(setting, store, "plain", "wrk"),
            *_entries(setting, single, "httperf", "httperf", None, httperf),
            *_others(setting, one, "httperf", "httperf", httperf),
            *_floors(setting, single, "httperf", "httperf", httperf),
            *_entries(setting, store, "tls", "wrk, TLS", certificate),
        ],
        comparisons=[
            *_comparisons("plain", "wrk", _OTHERS),
            *_comparisons("httperf", "httperf", _OTHERS),
            *_comparisons("tls", "wrk, TLS", ()),
        ],
        files=[
            *many.all(),
            *one.all(),
            store.directory / "data.mdb",
            single.directory / "data.mdb",
        ],
        connections=16,
        crowded=True,
        metric="rate",
        run=f"1 s (wrk) or {connections * HTTPERF_CALLS:,} requests (httperf)",
        change_plan=_plan,
        packages=(
            *("lighttpd", "h2o", "apache2", "varnish", "nodejs", "ruby-sinatra"),
            *("unicorn", "httperf", "liblmdb0", "libssl3"),
        ),
    )


def _plan(plan: Plan) -> Plan:
    return replace(
        plan,
        rounds=min(plan.rounds, _ROUNDS),
        checks=min(plan.checks, 10),
        spot_checks=2,
        warm_up_requests=min(plan.warm_up_requests, FILES),
    )


def make_certificate(cache: Path) -> Path:
    """Return a PEM file with a key and a certificate for 127.0.0.1.

    Made by openssl unless it is there; trusted by nobody but the benchmark.

    Args:
        cache: directory that keeps it.

    Raises:
        BenchError: openssl is missing or failed.
    """
    path = cache / "certificate.pem"
    if path.exists():
        return path
    fresh = path.with_suffix(".new")
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"),
        *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(fresh), "-out", "-"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BenchError("openssl is not installed") from error
    if done.returncode != 0:
        raise BenchError(f"openssl failed: {done.stderr.strip()[-500:]}")
    with fresh.open("a") as file:
        file.write(done.stdout)
    fresh.rename(path)
    return path


def _comparisons(kind: str, label: str, others: tuple[str, ...]) -> list[Comparison]:
    ours, static, again = f"ours-{kind}", f"static-{kind}", f"static-{kind}-again"
    names = [f"{other}-{kind}" for other in others]
    contrasts = [
        Comparison(
            f"{what}, {label}: ours / {other}",
            ours,
            (name,),
            _PUBLISHED.get(other) if metric == "rate" else None,
            metric=metric,
        )
        for other, name in zip(others, names, strict=True)
        for what, metric in _METRICS
    ]
    if names:
        contrasts.insert(
            0,
            Comparison(
                f"throughput, {label}: ours / the best of the others",
                ours,
                (static, *names),
                1.0,
                metric="rate",
                noise=(static, again),
            ),
        )
    if names:
        contrasts += [
            Comparison(
                f"throughput, {label}: ours / a bare loop around sendfile()",
                ours,
                (f"sendfile-{kind}",),
                1.0,
                metric="rate",
                noise=(static, again),
            ),
            Comparison(
                f"throughput, {label}: that loop / the same with send()",
                f"sendfile-{kind}",
                (f"send-{kind}",),
                metric="rate",
            ),
        ]
    return [
        Comparison(
            f"throughput, {label}: ours / nginx static",
            ours,
            (static,),
            1.0,
            metric="rate",
            noise=(static, again),
        ),
        Comparison(
            f"noise: throughput, {label}: static / the same again",
            static,
            (again,),
            metric="rate",
        ),
        Comparison(f"CPU per request, {label}: ours / nginx static", ours, (static,)),
        Comparison(
            f"noise: CPU per request, {label}: static / the same again",
            static,
            (again,),
        ),
        *contrasts,
    ]


def _entries(
    setting: Setting,
    store: IdStore,
    kind: str,
    label: str,
    certificate: Path | None,
    load: LoadGenerator | None = None,
) -> list[Entry]:
    files = store.files
    static = [
        static_entry(
            Nginx(name, setting.nginx, static_server(files), certificate=certificate),
            files,
            title,
            role,
        )
        for name, title, role in (
            (f"static-{kind}", f"{label}: nginx static", "baseline"),
            (f"static-{kind}-again", f"{label}: the same again", "noise"),
        )
    ]
    nginx = Nginx(
        f"ours-{kind}",
        setting.nginx,
        direct_server(f"lmdb:{store.directory}", files),
        needs_module=True,
        http=cache_zone(_ZONE),
        certificate=certificate,
    )
    ours = cached_entry(setting, nginx, store, f"{label}: ours, record cached")
    return [replace(entry, load=load) for entry in (*static, ours)]


def _others(
    setting: Setting,
    files: FileSet,
    kind: str,
    label: str,
    load: LoadGenerator | None = None,
) -> list[Entry]:
    core, directory = setting.nginx.worker_core, files.directory
    descriptors = setting.nginx.descriptors

    def name(system: str) -> str:
        return f"{system}-{kind}"

    contestants: list[tuple[Contestant, str, str | None]] = [
        (
            lighttpd.lighttpd(
                name("lighttpd"), core, directory, descriptors, "inotify"
            ),
            "lighttpd",
            lighttpd.missing(),
        ),
        (h2o.h2o(name("h2o"), core, directory), "h2o", h2o.missing()),
        (
            apache.apache(
                name("apache"),
                core,
                lambda address, own: apache.files(directory),
                modules=("alias",),
            ),
            "Apache 2.4, event",
            apache.missing("alias"),
        ),
        (
            Stack(name("varnish"), _varnish(setting, files)),
            "Varnish, from memory",
            varnish.missing(),
        ),
        (
            applications.node(name("node"), core, directory),
            "Node, stream",
            applications.node_missing(),
        ),
        (
            Stack(name("sinatra"), _sinatra(setting, files)),
            "nginx, unicorn, Sinatra",
            applications.sinatra_missing(),
        ),
    ]
    return [
        Entry(
            contestant,
            PathWorkload(files),
            f"{label}: {title}",
            "other",
            missing=missing,
            load=load,
        )
        for contestant, title, missing in contestants
    ]


def _floors(
    setting: Setting,
    store: IdStore,
    kind: str,
    label: str,
    load: LoadGenerator | None = None,
) -> list[Entry]:
    files = store.files

    def bodies() -> list[bytes]:
        return [files.body(index) for index in range(len(files.sizes))]

    return [
        Entry(
            epoll_loop.epoll_loop(
                f"{call}-{kind}",
                setting.nginx.worker_core,
                bodies,
                f"the answers of all {len(files.sizes)} IDs",
                sendfile=call == "sendfile",
            ),
            IdWorkload(store),
            f"{label}: floor: epoll loop, {call}()",
            "floor",
            missing=epoll_loop.missing(),
            load=load,
        )
        for call in ("sendfile", "send")
    ]


def _varnish(setting: Setting, files: FileSet) -> Callable[[], Parts]:
    def parts() -> Parts:
        origin = Nginx("origin", setting.nginx, static_server(files))
        front = varnish.varnish(
            "varnish", setting.nginx.worker_core, lambda: origin.address, "256m"
        )
        return front, [origin]

    return parts


def _sinatra(setting: Setting, files: FileSet) -> Callable[[], Parts]:
    def parts() -> Parts:
        back = applications.sinatra(
            "unicorn", setting.nginx.worker_core, files.directory
        )

        def server() -> str:
            address = back.address
            return (
                "location /files/ {\n"
                f"    proxy_pass http://{address.host}:{address.port};\n"
                "    proxy_set_header Host $host;\n"
                "    proxy_buffers 72 64k;\n"
                "    proxy_busy_buffers_size 128k;\n"
                "}\n"
            )

        return Nginx("front", setting.nginx, server), [back]

    return parts
