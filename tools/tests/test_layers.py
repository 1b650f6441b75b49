"""layers.py finds each kind of forbidden include, call and name."""

from __future__ import annotations

import re
from pathlib import Path

import layers
import pytest

P = "ngx_http_sendfile"

TREE = {
    f"{P}.h": '#include <ngx_http.h>\n#include "nsf.h"\n'
    f'#include "{P}_api.h"\n#include "{P}_zone.h"\n',
    f"{P}_api.h": f'#include <ngx_http.h>\n#include "{P}_store.h"\n#include "nsf.h"\n',
    f"{P}_compat.h": "#include <ngx_core.h>\n",
    f"{P}_module.c": f'#include "{P}.h"\n#include "{P}_learn.h"\n',
    f"conf/{P}_location.h": "#include <ngx_http.h>\n",
    f"conf/{P}_block.c": f'#include "{P}.h"\n',
    f"request/{P}_ctx.h": f'#include "{P}.h"\n#include "{P}_lookup.h"\n',
    f"request/{P}_handler.c": f'#include "{P}_ctx.h"\n#include "{P}_record.h"\n'
    f'#include "{P}_deliver.h"\n#include "{P}_learn.h"\n#include "{P}_zone.h"\n',
    f"request/{P}_record.h": f'#include "{P}_ctx.h"\n',
    f"store/{P}_store.h": '#include <ngx_core.h>\n#include "nsf.h"\n',
    f"store/{P}_lookup.h": f'#include "{P}_store.h"\n',
    f"store/{P}_lookup.c": f'#include "{P}_lookup.h"\n#include <ngx_event.h>\n',
    f"store/{P}_lmdb.c": f'#include <lmdb.h>\n#include "{P}_store.h"\n',
    f"store/{P}_lmdb_env.h": "#include <lmdb.h>\n",
    f"store/{P}_memcached.c": f'#include "{P}_store.h"\n#include "{P}_pool.h"\n',
    f"net/{P}_pool.h": f'#include "{P}_conn.h"\n',
    f"net/{P}_conn.h": f'#include <ngx_event_connect.h>\n#include "{P}_store.h"\n',
    f"deliver/{P}_deliver.h": f'#include "{P}_ctx.h"\n',
    f"deliver/{P}_direct.c": f'#include "{P}_deliver.h"\n#include "{P}_zone.h"\n'
    "ngx_http_sendfile_lookup_time(r);\n",
    f"cache/{P}_zone.h": '#include <ngx_core.h>\n#include "nsf.h"\n',
    f"cache/{P}_body.h": f'#include "{P}_zone.h"\n',
    f"app/{P}_learn.h": f'#include "{P}_ctx.h"\n#include "{P}_location.h"\n',
    f"app/{P}_learn.c": f'#include "{P}_learn.h"\n#include "{P}_deliver.h"\n'
    f'#include "{P}_upstream_hook.h"\n',
    f"app/{P}_headers.h": "#include <ngx_core.h>\n",
    f"app/{P}_upstream_hook.h": "#include <ngx_http.h>\n",
    f"app/{P}_upstream_hook.c": f'#include "{P}_upstream_hook.h"\n'
    f'#include "{P}_compat.h"\n#include "{P}_headers.h"\n'
    "hash = &umcf->headers_in_hash;\n",
    f"sqlite/{P}_sqlite.h": f'#include <sqlite3.h>\n#include "{P}_api.h"\n',
    f"mruby/{P}_mruby.h": f'#include "{P}_api.h"\n#include "{P}_mruby_lib.h"\n',
    f"mruby/{P}_mruby_lib.h": "#include <mruby.h>\n",
    f"mruby/{P}_mruby_vm.c": f'#include "{P}_mruby.h"\n#include "{P}_compat.h"\n'
    f'#include "{P}_headers.h"\n',
    "pure/nsf.h": "#include <stddef.h>\n/* ngx_pool_t is not known here */\n",
    "pure/nsf_json.c": '#include <jansson.h>\n#include "nsf.h"\n',
}


def problems(root: Path, changes: dict[str, str]) -> list[str]:
    """Write the tree with lines added to files, and check it."""
    files = {**TREE}
    for path, line in changes.items():
        files[path] = files.get(path, "") + line + "\n"
    for path, text in files.items():
        file = root / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [str(problem) for problem in layers.Checker(root).check()]


def test_allowed_directions_pass(tmp_path: Path) -> None:
    assert problems(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("path", "line", "part"),
    [
        (f"{P}_api.h", f'#include "{P}.h"', "api may not include umbrella"),
        (f"{P}_compat.h", f'#include "{P}.h"', "compat may not include umbrella"),
        (f"{P}_module.c", f'#include "{P}_store.h"', "module may not include store"),
        (f"{P}.h", f'#include "{P}_deliver.h"', "umbrella may not include deliver"),
        (f"{P}.h", f'#include "{P}_lookup.h"', "umbrella may not include lookup"),
        (
            f"request/{P}_ctx.h",
            f'#include "{P}_record.h"',
            "context may not include request",
        ),
        (
            f"request/{P}_ctx.h",
            f'#include "{P}_deliver.h"',
            "context may not include deliver",
        ),
        (f"conf/{P}_block.c", f'#include "{P}_pool.h"', "conf may not include net"),
        (
            f"conf/{P}_block.c",
            f'#include "{P}_record.h"',
            "conf may not include request",
        ),
        (
            f"request/{P}_handler.c",
            f'#include "{P}_upstream_hook.h"',
            "request may not include upstream hook",
        ),
        (f"request/{P}_handler.c", "h = umcf->headers_in_hash;", "owns this hash"),
        (
            f"request/{P}_handler.c",
            f'#include "{P}_lmdb_env.h"',
            "request may not include store",
        ),
        (
            f"store/{P}_lmdb.c",
            f'#include "{P}_record.h"',
            "store may not include request",
        ),
        (f"store/{P}_lmdb.c", f'#include "{P}.h"', "store may not include umbrella"),
        (
            f"store/{P}_lmdb.c",
            f'#include "{P}_lookup.h"',
            "store may not include lookup",
        ),
        (
            f"conf/{P}_block.c",
            f'#include "{P}_lmdb_env.h"',
            "conf may not include store",
        ),
        (
            f"store/{P}_lmdb.c",
            f'#include "{P}_headers.h"',
            "store may not include headers",
        ),
        (f"app/{P}_headers.h", f'#include "{P}.h"', "headers may not include umbrella"),
        (f"store/{P}_lmdb.c", "#include <ngx_http.h>", "may not include <ngx_http.h>"),
        (f"store/{P}_lmdb.c", "ngx_http_request_t  *r;", "knows nothing of HTTP"),
        (f"store/{P}_store.h", "ngx_http_request_t  *r;", "knows nothing of HTTP"),
        (
            f"store/{P}_store.h",
            f'#include "{P}_pool.h"',
            "store interface may not include net",
        ),
        (
            f"store/{P}_lookup.c",
            "ngx_http_finalize_request(r, 1);",
            "knows nothing of HTTP",
        ),
        (
            f"store/{P}_lookup.c",
            f'#include "{P}_zone.h"',
            "lookup may not include cache",
        ),
        (
            f"store/{P}_lookup.c",
            f'#include "{P}_lmdb_env.h"',
            "lookup may not include store",
        ),
        (f"net/{P}_conn.h", f'#include "{P}.h"', "net may not include umbrella"),
        (f"net/{P}_conn.h", f'#include "{P}_lookup.h"', "net may not include lookup"),
        (f"net/{P}_pool.h", f'#include "{P}_lmdb_env.h"', "net may not include st"),
        (f"net/{P}_pool.h", "nsf_mc_reply_t  reply;", "knows no codec"),
        (f"net/{P}_pool.h", "ngx_http_request_t  *r;", "knows nothing of HTTP"),
        (f"deliver/{P}_direct.c", f'#include "{P}_store.h"', "deliver may not include"),
        (f"deliver/{P}_direct.c", f"{P}_store_t  *s;", "knows no store"),
        (f"deliver/{P}_direct.c", f"{P}_op_t  op;", "knows no store"),
        (f"deliver/{P}_direct.c", f'#include "{P}_learn.h"', "may not include app"),
        (f"cache/{P}_zone.h", f'#include "{P}.h"', "cache may not include umbrella"),
        (f"cache/{P}_zone.h", f'#include "{P}_lookup.h"', "cache may not include look"),
        (f"cache/{P}_zone.h", f'#include "{P}_record.h"', "cache may not include requ"),
        (f"cache/{P}_body.h", f'#include "{P}_store.h"', "cache may not include store"),
        (f"cache/{P}_body.h", "ngx_http_request_t  *r;", "knows nothing of HTTP"),
        (f"cache/{P}_body.h", "#include <ngx_http.h>", "may not include <ngx_http.h>"),
        (
            f"app/{P}_upstream_hook.c",
            f'#include "{P}.h"',
            "upstream hook may not include umbrella",
        ),
        (f"app/{P}_learn.c", "h = umcf->headers_in_hash;", "owns this hash"),
        (f"app/{P}_learn.c", f'#include "{P}_record.h"', "app may not include request"),
        (f"sqlite/{P}_sqlite.h", f'#include "{P}.h"', "sqlite may not include umbr"),
        (
            f"sqlite/{P}_sqlite.h",
            f'#include "{P}_lookup.h"',
            "sqlite may not include lookup",
        ),
        (f"mruby/{P}_mruby_vm.c", f'#include "{P}.h"', "mruby may not include umbr"),
        (
            f"mruby/{P}_mruby_vm.c",
            f'#include "{P}_deliver.h"',
            "mruby may not include deliver",
        ),
        ("pure/nsf_json.c", "#include <ngx_core.h>", "pure may not include <ngx_core"),
        ("pure/nsf_json.c", "#include <stdio.h>", "pure may not include <stdio.h>"),
        ("pure/nsf_json.c", f'#include "{P}.h"', "pure may not include umbrella"),
        ("pure/nsf_json.c", "ngx_pool_t  *pool;", "knows nothing of nginx"),
        ("pure/nsf_json.c", '#include "other.h"', '"other.h" is not in src/'),
    ],
)
def test_forbidden(tmp_path: Path, path: str, line: str, part: str) -> None:
    found = problems(tmp_path, {path: line})
    number = TREE[path].count("\n") + 1
    assert any(s.startswith(f"src/{path}:{number}: ") and part in s for s in found)
    # the include of another layer's header may also break the rule on names
    assert len(found) <= 2


def test_file_of_no_layer(tmp_path: Path) -> None:
    for path in (f"{P}_new.c", f"new/{P}_new.c", "store/new.c"):
        found = problems(tmp_path / Path(path).parent, {path: ""})
        assert found == [
            f"src/{path}:1: belongs to no layer: add it to tools/layers.py"
        ]


def test_one_name_in_two_folders(tmp_path: Path) -> None:
    found = problems(tmp_path, {"app/nsf.h": ""})
    assert any("the name is that of" in s for s in found)


def test_comments_are_no_code(tmp_path: Path) -> None:
    line = f'/* #include "{P}.h"\n ngx_http_request_t */'
    assert problems(tmp_path, {f"store/{P}_lmdb.c": line}) == []


def function(name: str, kind: str = "void") -> str:
    """Return the definition of a function that does nothing."""
    return f"{kind}\n{P}_{name}(ngx_str_t *s,\n    void *data)\n{{\n}}\n"


@pytest.mark.parametrize(
    ("caller", "called", "message"),
    [
        # a header in between may be included, and leads to what is called
        (f"request/{P}_handler.c", f"store/{P}_lookup.c", None),
        (f"store/{P}_memcached.c", f"net/{P}_pool.c", None),
        (f"conf/{P}_block.c", f"net/{P}_pool.c", "conf may not call net"),
        (f"app/{P}_learn.c", f"app/{P}_accept.c", None),
        (f"deliver/{P}_direct.c", f"request/{P}_ctx.c", None),
        # the way back would make a circle
        (
            f"deliver/{P}_direct.c",
            f"request/{P}_handler.c",
            "deliver may not call request",
        ),
        (f"store/{P}_lmdb.c", f"store/{P}_lookup.c", "store may not call lookup"),
        (f"cache/{P}_zone.c", f"request/{P}_ctx.c", "cache may not call context"),
        (f"conf/{P}_block.c", f"{P}_module.c", "conf may not call module"),
    ],
)
def test_calls(tmp_path: Path, caller: str, called: str, message: str | None) -> None:
    line = f"static int  n;\n\nstatic int\nf(void)\n{{\n    {P}_work(n);\n}}"
    found = problems(tmp_path, {called: function("work"), caller: line})
    number = TREE.get(caller, "").count("\n") + 6
    expected = f"src/{caller}:{number}: {message} ({P}_work)"
    assert found == ([expected] if message else [])


def test_what_is_no_call(tmp_path: Path) -> None:
    """Declarations in headers, functions of the file's own, comments."""
    own = function("own", "static void")
    changes = {
        f"deliver/{P}_deliver.h": f"void {P}_work(ngx_str_t *s, void *data);",
        f"deliver/{P}_direct.c": f"{own}/* as {P}_work() does */\n"
        f"static void\nf(void)\n{{\n    {P}_own(NULL, NULL);\n}}",
        f"request/{P}_handler.c": function("work") + own,
    }
    assert problems(tmp_path, changes) == []


def test_macro_of_a_header_calls(tmp_path: Path) -> None:
    macro = f"#define work(s) \\\n    {P}_work(s, NULL)"
    changes = {
        f"deliver/{P}_deliver.h": macro,
        f"request/{P}_handler.c": function("work"),
    }
    assert problems(tmp_path, changes) == [
        f"src/deliver/{P}_deliver.h:3: deliver may not call request ({P}_work)"
    ]


def test_the_table_has_no_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert layers.circle_of(layers.MAY_INCLUDE) == []
    table = {**layers.MAY_INCLUDE, "cache": {"pure", "deliver"}}
    monkeypatch.setattr(layers, "MAY_INCLUDE", table)
    found = problems(tmp_path, {})
    message = "a circle of layers: cache -> deliver -> cache"
    assert found == [f"tools/layers.py:1: {message}"]


@pytest.mark.parametrize(
    ("arrows", "circle"),
    [
        ({}, []),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"]),
        ({"a": {"a"}}, ["a", "a"]),
    ],
)
def test_circle(arrows: dict[str, set[str]], circle: list[str]) -> None:
    assert layers.circle_of(arrows) == circle


def test_every_layer_has_a_rule() -> None:
    named = {layer for _, layer in layers.LAYERS} - {r"\1"}
    named |= set(re.findall(r"\w+", layers.LAYERS[-1][0].split(")")[0]))
    assert named == set(layers.MAY_INCLUDE)
    assert set().union(*layers.MAY_INCLUDE.values()) <= named


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(tmp_path, {}) == []
    assert layers.main(["--root", str(tmp_path)]) == 0
    assert problems(tmp_path, {"pure/nsf.h": "#include <stdio.h>"}) != []
    assert layers.main(["--root", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out == "src/pure/nsf.h:3: pure may not include <stdio.h>\n"


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(tmp_path, {}) == []
    assert layers.main(["--root", str(tmp_path), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "cache: pure" in lines
    assert "compat: -" in lines
    assert "net: store interface" in lines
    assert lines[-1].startswith("19 layers, ")
