"""Table script: a hello world by each script that a server can embed."""

from dataclasses import replace
from pathlib import Path

from bench.ab import Ab
from bench.contestants import Contestant, apache, openresty
from bench.contestants.nginx import DEBIAN, Nginx, NginxProgram
from bench.machine import file_digest
from bench.model import Comparison
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.workload import OneWorkload

CONNECTIONS = 100
REQUESTS = 100_000
QUICK_REQUESTS = 2_000
_ROUNDS = 7
_BODY = b"hello world\n"

_APPS = Path(__file__).parents[1] / "apps" / "hello"
_NJS = Path("/usr/lib/nginx/modules/ngx_http_js_module.so")
_MRUBY = "ngx_http_sendfile_mruby_module.so"

# ngx_mruby 50,637 requests/s, Apache's mod_mruby 21,965
PUBLISHED = 2.305

_ABOUT = """\
Twelve bytes of text by a script in the server, `ab -k -c 100 -n {requests}`. Apache
has two processes of 128 threads and keeps its Lua interpreters; nginx has one
worker, with OpenResty's Lua and njs from Debian and our own mruby; the floor is
`return 200`. A contestant's processes share one core, ab has the other. Published,
on another machine: 21,965 requests/s by Apache's mod_mruby, 50,637 by ngx_mruby
(2.31 times as many). {mod_mruby} Where "busy" is far from 100 % ab was the limit,
and CPU per request is the fairer figure.
"""


def table(setting: Setting) -> Table:
    """Make the table.

    Args:
        setting: which nginx, quick or full.
    """
    requests = QUICK_REQUESTS if setting.quick else REQUESTS
    return Table(
        name="script",
        title="Hello world by a script in the server",
        about=_ABOUT.format(
            requests=requests,
            mod_mruby="mod_mruby takes part."
            if _has_mod_mruby()
            else "mod_mruby is missing: Debian has no such package.",
        ),
        entries=_entries(setting, requests),
        comparisons=_comparisons(),
        connections=CONNECTIONS,
        crowded=True,
        run=f"{requests:,} requests",
        change_plan=_plan,
        facts=_facts(setting.nginx),
        packages=(
            *("apache2", "libnginx-mod-http-lua", "libnginx-mod-http-js"),
            "apache2-utils",
        ),
    )


def _facts(program: NginxProgram) -> dict[str, str]:
    module = _mruby(program)
    return {"Ruby module": f"sha256 {file_digest(module)}"} if module.exists() else {}


def _plan(plan: Plan) -> Plan:
    return replace(plan, rounds=min(plan.rounds, _ROUNDS), warm_up_requests=1)


def _comparisons() -> list[Comparison]:
    found = [
        Comparison(
            "CPU per request: our mruby / `return 200`", "mruby", ("return",), 1.12
        ),
        Comparison(
            "CPU per request: our mruby / the best other script",
            "mruby",
            ("lua", "njs", "apache-lua"),
            1.0,
        ),
        Comparison(
            "throughput: our mruby / Apache, mod_lua",
            "mruby",
            ("apache-lua",),
            PUBLISHED,
            metric="rate",
        ),
        Comparison(
            "CPU per request: our mruby / Apache, mod_lua", "mruby", ("apache-lua",)
        ),
        Comparison("CPU per request: our mruby / OpenResty's Lua", "mruby", ("lua",)),
        Comparison("CPU per request: our mruby / njs", "mruby", ("njs",)),
        Comparison(
            "CPU per request: OpenResty's Lua / `return 200`", "lua", ("return",)
        ),
        Comparison("CPU per request: njs / `return 200`", "njs", ("return",)),
        Comparison("noise: `return 200` / the same again", "return", ("return-again",)),
    ]
    if _has_mod_mruby():
        found.append(
            Comparison(
                "throughput: our mruby / Apache, mod_mruby",
                "mruby",
                ("apache-mruby",),
                metric="rate",
            )
        )
    return found


_RETURN = """\
location /hello {
    default_type text/plain;
    return 200 "hello world\\n";
}
"""

_LUA = """\
location /hello {
    content_by_lua_block {
        ngx.header.content_type = "text/plain"
        ngx.header.content_length = 12
        ngx.print("hello world\\n")
    }
}
"""

_JS = """\
location /hello {
    js_content hello.hello;
}
"""

_RUBY = """\
location /hello {
    default_type text/plain;
    mruby_content_handler_code '
        Nginx.rputs "hello world\\n"
        Nginx.return Nginx::NGX_HTTP_OK
    ';
}
"""


def _entries(setting: Setting, requests: int) -> list[Entry]:
    program = setting.nginx
    core = program.worker_core
    ab = Ab(program.other_core, CONNECTIONS, requests, keep_alive=True)
    mruby = _mruby(program)
    found: list[tuple[Contestant, str, str, str | None]] = [
        (Nginx("return", program, _RETURN), "nginx: return 200", "floor", None),
        (Nginx("return-again", program, _RETURN), "the same again", "noise", None),
        (
            Nginx("lua", program, _LUA, others=openresty.MODULES),
            "nginx: OpenResty's Lua",
            "other",
            openresty.missing(program),
        ),
        (
            Nginx(
                "njs",
                program,
                _JS,
                others=[_NJS],
                http=f"js_import hello from {_APPS}/hello.js;",
            ),
            "nginx: njs",
            "other",
            _njs_missing(program),
        ),
        (
            Nginx("mruby", program, _RUBY, others=[mruby], needs_module=True),
            "nginx: our mruby",
            "ours",
            setting.module_missing or _mruby_missing(mruby),
        ),
        (
            apache.apache(
                "apache-lua",
                core,
                lambda address, directory: _apache_lua(),
                modules=("lua",),
            ),
            "Apache: mod_lua",
            "other",
            apache.missing("lua"),
        ),
    ]
    if _has_mod_mruby():
        contestant = apache.apache(
            "apache-mruby",
            core,
            lambda address, directory: _apache_mruby(),
            modules=("mruby",),
        )
        found.append((contestant, "Apache: mod_mruby", "other", None))
    workload = OneWorkload("/hello", _BODY)
    return [
        Entry(contestant, workload, title, role, missing=missing, load=ab)
        for contestant, title, role, missing in found
    ]


def _apache_lua() -> str:
    return (
        f'LuaMapHandler "/hello" "{_APPS}/hello.lua" handle\n'
        "LuaScope thread\n"
        "LuaCodeCache forever\n"
        '<Location "/hello">\n    Require all granted\n</Location>\n'
    )


def _apache_mruby() -> str:
    return (
        '<Location "/hello">\n'
        "    Require all granted\n"
        f'    mrubyHandlerMiddle "{_APPS}/hello.rb" cache\n'
        "</Location>\n"
    )


def _has_mod_mruby() -> bool:
    return apache.missing("mruby") is None


def _njs_missing(program: NginxProgram) -> str | None:
    if not program.packaged:
        return f"the njs module of Debian is for {DEBIAN} only"
    if not _NJS.exists():
        return "njs is not installed (Debian package libnginx-mod-http-js)"
    return None


def _mruby(program: NginxProgram) -> Path:
    """Return where our second module is: beside the first."""
    module = program.module
    return module.with_name(_MRUBY) if module is not None else Path(_MRUBY)


def _mruby_missing(module: Path) -> str | None:
    return None if module.exists() else f"{module.name} is not built"
