"""Table x-sendfile: Rails that sends a file, or says which file to send."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bench.ab import Ab
from bench.contestants import rails
from bench.contestants.nginx import Nginx
from bench.contestants.stack import Parts, Stack
from bench.dataset import FileSet, build_equal_files
from bench.load import LoadGenerator, Wrk
from bench.model import Comparison
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.tables.parts import (
    PASSES,
    PROOF_FORMAT,
    cache_zone,
    static_entry,
    static_server,
)
from bench.workload import PathWorkload

PICTURE = 1_800_000
SMALL = 5_000
CONNECTIONS = 100
SMALL_CONNECTIONS = 16
REQUESTS = 1_000
QUICK_REQUESTS = 200
_ROUNDS = 8
_PREFIX = "/download/"
_LIFETIME = "3600"
_SMALL = ("plain", "accel", "accepted", "learned", "static")

_ABOUT = """\
A Rails 6.1 application (production mode, Rails' own middleware, no database) sends
a picture of 1.8 MB with `send_file`, asked for by `ab -n {requests} -c 100`, which
closes each connection: by itself; by `X-Sendfile` or `X-Accel-Redirect`, so that
the server in front sends the file; and with its answer learned, so that it is not
asked again (`http_sendfile_learn`; the application adds `X-Accel-Expires`). Behind
Apache with Passenger (two processes of the application) and behind nginx with Puma
(five threads), each contestant with all of its processes on one core, ab on the
other. Published: 54.4 requests/s without mod_xsendfile, 149.8 with (2.75).

A file of 5 KB is asked for with wrk, 16 kept connections: by `send_file` alone and
learned, the body in the cache (`http_sendfile_cache_body`). There CPU per request,
that of all processes together, is the figure: a ratio of 0.025 is 40 times less.
Requests/s of the two kinds cannot be compared with each other; the picture shows
those of 1.8 MB.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds the files unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    requests = QUICK_REQUESTS if setting.quick else REQUESTS
    core = setting.nginx.other_core
    picture = build_equal_files(setting.cache, 1, PICTURE)
    small = build_equal_files(setting.cache, 1, SMALL)
    ab = Ab(core, CONNECTIONS, requests, keep_alive=False)
    wrk = Wrk(core, SMALL_CONNECTIONS)
    return Table(
        name="x-sendfile",
        title="Rails: send_file, X-Sendfile, and learned",
        about=_ABOUT.format(requests=requests),
        entries=[
            *_passenger(setting, picture, ab),
            *_puma(setting, picture, ab, "1.8 MB"),
            *_static(setting, picture, ab, "1.8 MB"),
            *_puma(setting, small, wrk, "5 KB"),
            *_static(setting, small, wrk, "5 KB"),
        ],
        comparisons=_comparisons(),
        files=[*picture.all(), *small.all()],
        connections=SMALL_CONNECTIONS,
        crowded=True,
        run=f"{requests:,} requests (1.8 MB), 1 s (5 KB)",
        metric="rate",
        unplotted=[f"small-{kind}" for kind in _SMALL],
        change_plan=_plan,
        packages=(
            *("apache2", "libapache2-mod-passenger", "libapache2-mod-xsendfile"),
            *("ruby3.1", "ruby-rails", "puma", "apache2-utils"),
        ),
    )


def _plan(plan: Plan) -> Plan:
    return replace(
        plan,
        rounds=min(plan.rounds, _ROUNDS),
        checks=min(plan.checks, 10),
        spot_checks=2,
        warm_up_requests=1,
    )


def _comparisons() -> list[Comparison]:
    def pair(
        title: str,
        of: str,
        to: str,
        goal: float | None = None,
        noise: tuple[str, str] | None = None,
    ) -> list[Comparison]:
        return [
            Comparison(
                f"throughput, {title}", of, (to,), goal, metric="rate", noise=noise
            ),
            Comparison(f"CPU per request, {title}", of, (to,)),
        ]

    return [
        *pair(
            "1.8 MB, Puma: ours, X-Sendfile / plain send_file",
            "ours-accepted",
            "puma-plain",
            2.75,
        ),
        *pair(
            "1.8 MB, Puma: ours, X-Sendfile / stock nginx, X-Accel-Redirect",
            "ours-accepted",
            "puma-accel",
            1.0,
            ("static", "static-again"),
        ),
        *pair(
            "1.8 MB: ours, learned / nginx static",
            "ours-learned",
            "static",
            0.97,
            ("static", "static-again"),
        ),
        *pair(
            "1.8 MB, Puma: stock nginx, X-Accel-Redirect / plain send_file",
            "puma-accel",
            "puma-plain",
        ),
        *pair(
            "1.8 MB, Passenger: mod_xsendfile / plain send_file",
            "passenger-xsendfile",
            "passenger-plain",
        ),
        *pair(
            "1.8 MB: ours, X-Sendfile / Passenger, mod_xsendfile",
            "ours-accepted",
            "passenger-xsendfile",
        ),
        Comparison(
            "CPU per request, 5 KB: ours, learned / plain send_file",
            "small-learned",
            ("small-plain",),
            0.025,
        ),
        Comparison(
            "CPU per request, 5 KB: ours, X-Sendfile / plain send_file",
            "small-accepted",
            ("small-plain",),
        ),
        Comparison(
            "CPU per request, 5 KB: ours, learned / nginx static",
            "small-learned",
            ("small-static",),
        ),
        Comparison(
            "noise: throughput, 1.8 MB: static / the same again",
            "static",
            ("static-again",),
            metric="rate",
        ),
    ]


def _environment(files: FileSet, **more: str) -> Callable[[], Mapping[str, str]]:
    return lambda: {"BENCH_FILES": str(files.directory), **more}


def _passenger(setting: Setting, files: FileSet, load: LoadGenerator) -> list[Entry]:
    core = setting.nginx.worker_core
    plain = rails.passenger("passenger-plain", core, _environment(files))
    told = rails.passenger(
        "passenger-xsendfile",
        core,
        _environment(files, BENCH_SENDFILE_HEADER="X-Sendfile"),
        modules=("xsendfile",),
        extra=f'XSendFile On\nXSendFilePath "{files.directory}"\n',
    )
    workload = PathWorkload(files, _PREFIX)
    return [
        Entry(
            plain,
            workload,
            "1.8 MB: Apache, Passenger: send_file",
            "other",
            missing=rails.passenger_missing(),
            load=load,
        ),
        Entry(
            told,
            workload,
            "1.8 MB: Apache, Passenger: mod_xsendfile",
            "other",
            missing=rails.passenger_missing("xsendfile"),
            load=load,
        ),
    ]


def _puma(
    setting: Setting, files: FileSet, load: LoadGenerator, label: str
) -> list[Entry]:
    small = label == "5 KB"
    accept = [
        "http_sendfile_accept X-Sendfile;",
        f"http_sendfile_allow {files.directory};",
    ]
    learn = ["http_sendfile_cache hot;", "http_sendfile_learn on;"]
    if small:
        learn.append("http_sendfile_cache_body 16k;")
    told = {"BENCH_SENDFILE_HEADER": "X-Sendfile"}
    redirect = {"BENCH_SENDFILE_HEADER": "X-Accel-Redirect"}
    mapping = f"proxy_set_header X-Accel-Mapping {files.directory}/=/sent/;"
    kinds: list[tuple[str, str, Mapping[str, str], list[str], str]] = [
        ("plain", "send_file", {}, [], ""),
        ("accel", "X-Accel-Redirect", redirect, [mapping], ""),
        ("accepted", "X-Sendfile", told, accept, "app"),
        (
            "learned",
            "learned, body cached" if small else "learned",
            {**told, "BENCH_LEARN": _LIFETIME},
            [*accept, *learn],
            "learned HIT",
        ),
    ]
    entries = []
    for kind, title, environment, lines, source in kinds:
        ours = bool(source)
        prefix = "small" if small else "ours" if ours else "puma"
        stack = _stack(setting, f"{prefix}-{kind}", files, environment, lines, ours)
        proof = None
        if ours:
            form = PROOF_FORMAT if kind == "learned" else "$sendfile_source"
            proof = (stack.logging(form), source)
        entries.append(
            Entry(
                stack,
                PathWorkload(files, _PREFIX),
                f"{label}: {'ours' if ours else 'nginx'}, Puma: {title}",
                "ours" if ours else "other",
                proof=proof,
                missing=rails.puma_missing()
                or (setting.module_missing if ours else None),
                passes=PASSES if kind == "learned" else 1,
                load=load,
            )
        )
    return entries


def _stack(
    setting: Setting,
    name: str,
    files: FileSet,
    environment: Mapping[str, str],
    lines: list[str],
    ours: bool,
) -> Stack:
    program = setting.nginx

    def parts() -> Parts:
        back = rails.puma(
            "puma", program.worker_core, _environment(files, **environment)
        )

        def upstream() -> str:
            address = back.address
            return (
                f"upstream puma {{\n    server {address.host}:{address.port};\n}}\n"
                + (cache_zone("8m") if ours else "")
            )

        front = Nginx(
            name, program, _server(lines, files), needs_module=ours, http=upstream
        )
        return front, [back]

    return Stack(name, parts)


def _server(lines: list[str], files: FileSet) -> str:
    """Return the locations, as Puma's documentation has them: no connection is
    kept, since one that is idle would hold one of Puma's threads. The buffers
    take a picture, so that none goes to a disk.
    """
    all_lines = [
        "proxy_pass http://puma;",
        "proxy_set_header Host $host;",
        "proxy_buffers 32 64k;",
        "proxy_busy_buffers_size 128k;",
        *lines,
    ]
    body = "".join(f"    {line}\n" for line in all_lines)
    server = f"location {_PREFIX} {{\n{body}}}\n"
    if any("X-Accel-Mapping" in line for line in lines):
        server += (
            f"location /sent/ {{\n    internal;\n    alias {files.directory}/;\n}}\n"
        )
    return server


def _static(
    setting: Setting, files: FileSet, load: LoadGenerator, label: str
) -> list[Entry]:
    names = [("static", "nginx static", "baseline")]
    names.append(("static-again", "the same again", "noise"))
    if label == "5 KB":
        names = [("small-static", "nginx static", "baseline")]
    return [
        replace(
            static_entry(
                Nginx(name, setting.nginx, static_server(files)),
                files,
                f"{label}: {title}",
                role,
            ),
            load=load,
        )
        for name, title, role in names
    ]
