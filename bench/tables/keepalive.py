"""Table keepalive: connections to backends of HTTP/1.0 and 1.1, kept or not."""

from collections.abc import Callable
from dataclasses import replace

from bench.ab import Ab
from bench.contestants import epoll_loop, starman
from bench.contestants.nginx import Nginx
from bench.contestants.single import Single
from bench.contestants.stack import Parts, Stack
from bench.model import Comparison, Metric
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.workload import OneWorkload

CONNECTIONS = 10
REQUESTS = 5_000
QUICK_REQUESTS = 500
GOAL = 1.54
_ROUNDS = 15
_BODY = b"hello, kept or not\n"

# Starman's processes serve one connection each: as many as nginx may keep.
_KEEPALIVE = 16

_PROOF = "$upstream_http_x_kept"

_ABOUT = """\
nginx asks a backend over HTTP for a short answer, `ab -k -c 10 -n {requests}` asks
nginx. Stock nginx opens a connection for each request, unless it is told to keep
them (`keepalive 16`, `proxy_http_version 1.1`); from a backend that answers with
HTTP/1.0 it never keeps one, whatever the backend says. `http10_keepalive on` does.
Published, with another nginx and its own HTTP/1.0 backend: 1910 requests/s without,
2936 with (1.54).

The raw backend is a loop around `epoll_wait()` with a ready answer, so that what
nginx does is most of the work. Starman is a Perl server with an application of a
few lines, sixteen processes. nginx's worker has a core of its own, the backend
shares the other with ab. CPU is that of worker and backend together, and the
processes of the backend wait for each other and for ab. Whether a connection was
kept is proved by a header of the backend's, in an untimed run.
"""


def table(setting: Setting) -> Table:
    """Make the table.

    Args:
        setting: which nginx, quick or full.
    """
    requests = QUICK_REQUESTS if setting.quick else REQUESTS
    return Table(
        name="keepalive",
        title="Connections to a backend: kept or not",
        about=_ABOUT.format(requests=requests),
        entries=[*_raw(setting, requests), *_starman(setting, requests)],
        comparisons=_comparisons(),
        connections=CONNECTIONS,
        crowded=True,
        run=f"{requests:,} requests",
        metric="rate",
        change_plan=_plan,
        packages=("starman", "apache2-utils"),
    )


def _plan(plan: Plan) -> Plan:
    """ab's number of requests is the length of a run."""
    return replace(plan, rounds=min(plan.rounds, _ROUNDS), warm_up_requests=1)


def _comparisons() -> list[Comparison]:
    rate: Metric = "rate"

    def pair(
        title: str,
        of: str,
        to: str,
        goal: float | None = None,
        noise: tuple[str, str] | None = None,
    ) -> list[Comparison]:
        return [
            Comparison(
                f"throughput, {title}", of, (to,), goal, metric=rate, noise=noise
            ),
            Comparison(f"CPU per request, {title}", of, (to,)),
        ]

    return [
        *pair(
            "HTTP/1.0, raw: ours, `http10_keepalive` / stock, not kept",
            "raw10-ours",
            "raw10-plain",
            GOAL,
        ),
        *pair(
            "HTTP/1.1, raw: ours, `http10_keepalive` / stock, not kept",
            "raw11-ours",
            "raw11-plain",
            GOAL,
        ),
        *pair(
            "HTTP/1.1, raw: ours, `http10_keepalive` / stock, `keepalive`",
            "raw11-ours",
            "raw11-keepalive",
            1.0,
            ("raw10-plain", "raw10-plain-again"),
        ),
        *pair(
            "HTTP/1.1, raw: stock, `keepalive` / stock, not kept",
            "raw11-keepalive",
            "raw11-plain",
        ),
        *pair(
            "HTTP/1.0, raw: stock, `keepalive` / stock, not kept",
            "raw10-keepalive",
            "raw10-plain",
        ),
        *pair(
            "HTTP/1.0, Starman: ours, `http10_keepalive` / stock, not kept",
            "starman10-ours",
            "starman10-plain",
        ),
        *pair(
            "HTTP/1.1, Starman: stock, `keepalive` / stock, not kept",
            "starman11-keepalive",
            "starman11-plain",
        ),
        *pair(
            "Starman: ours over HTTP/1.0 / stock, `keepalive`, over HTTP/1.1",
            "starman10-ours",
            "starman11-keepalive",
        ),
        Comparison(
            "noise: throughput, HTTP/1.0, raw: not kept / the same again",
            "raw10-plain",
            ("raw10-plain-again",),
            metric=rate,
        ),
    ]


def _raw(setting: Setting, requests: int) -> list[Entry]:
    def backend(version: str) -> Callable[[], Single]:
        core = setting.nginx.other_core
        return lambda: epoll_loop.backend("backend", core, version, _BODY)

    absent = epoll_loop.missing()
    entries = []
    for name, version, kind, role in (
        ("raw10-plain", "1.0", "plain", "baseline"),
        ("raw10-plain-again", "1.0", "plain", "noise"),
        ("raw10-keepalive", "1.0", "keepalive", "other"),
        ("raw10-ours", "1.0", "ours", "ours"),
        ("raw11-plain", "1.1", "plain", "baseline"),
        ("raw11-keepalive", "1.1", "keepalive", "other"),
        ("raw11-ours", "1.1", "ours", "ours"),
    ):
        kept = kind == "ours" or (kind == "keepalive" and version == "1.1")
        title = f"raw, HTTP/{version}: {_KINDS[kind]}"
        entries.append(
            _entry(
                setting,
                name,
                backend(version),
                kind,
                "1.1",
                kept,
                f"{title}, again" if role == "noise" else title,
                role,
                absent,
                requests,
            )
        )
    return entries


def _starman(setting: Setting, requests: int) -> list[Entry]:
    """Make the entries; Starman answers with the version that it is asked with."""

    def backend() -> Single:
        core = setting.nginx.other_core
        return starman.starman("starman", core, _KEEPALIVE, _BODY.decode().strip())

    return [
        _entry(
            setting,
            name,
            backend,
            kind,
            version,
            kind != "plain",
            f"Starman, HTTP/{version}: {_KINDS[kind]}",
            role,
            starman.missing(),
            requests,
            _BODY.strip(),
        )
        for name, version, kind, role in (
            ("starman10-plain", "1.0", "plain", "baseline"),
            ("starman10-ours", "1.0", "ours", "ours"),
            ("starman11-plain", "1.1", "plain", "baseline"),
            ("starman11-keepalive", "1.1", "keepalive", "other"),
        )
    ]


_KINDS = {
    "plain": "stock nginx, not kept",
    "keepalive": "stock nginx, keepalive",
    "ours": "ours, http10_keepalive",
}


def _entry(
    setting: Setting,
    name: str,
    backend: Callable[[], Single],
    kind: str,
    version: str,
    kept: bool,
    title: str,
    role: str,
    absent: str | None,
    requests: int,
    body: bytes = _BODY,
) -> Entry:
    """Make an entry; ``version`` is the one that nginx asks with."""

    def parts() -> Parts:
        back = backend()
        front = Nginx(
            name,
            setting.nginx,
            _server(kind, version),
            needs_module=kind == "ours",
            http=lambda: _upstream(back, kind),
        )
        return front, [back]

    stack = Stack(name, parts)
    missing = setting.module_missing if kind == "ours" else None
    return Entry(
        stack,
        OneWorkload("/hello", body),
        title,
        role,
        proof=(stack.logging(_PROOF), "yes" if kept else "no"),
        missing=missing or absent,
        passes=1,
        # A connection may be opened late, when more requests happen to be under
        # way at once than ever before.
        strays=CONNECTIONS if kept else 0,
        load=Ab(setting.nginx.other_core, CONNECTIONS, requests, keep_alive=True),
    )


def _upstream(back: Single, kind: str) -> str:
    lines = [f"server {back.address.host}:{back.address.port};"]
    if kind != "plain":
        lines.append(f"keepalive {_KEEPALIVE};")
    if kind == "ours":
        lines.append("http10_keepalive on;")
    return "upstream backend {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def _server(kind: str, version: str) -> str:
    lines = ["proxy_pass http://backend;"]
    if kind != "plain":
        lines += [
            f"proxy_http_version {version};",
            "proxy_set_header Connection "
            + ("keep-alive;" if kind == "ours" else '"";'),
        ]
    elif version == "1.1":
        lines += ["proxy_http_version 1.1;", "proxy_set_header Connection close;"]
    return "location / {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
