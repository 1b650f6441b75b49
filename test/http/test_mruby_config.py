"""Ruby's directives: what nginx -t says of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lib.nginx import REPOSITORY
from lib.ruby import NAME, load_ruby
from lib.site import Site


@pytest.fixture
def ruby(site: Site) -> Site:
    """A site with the module for Ruby."""
    load_ruby(site)
    return site


@pytest.mark.parametrize(
    "directive",
    [
        "mruby_content_handler_code",
        "mruby_access_handler_code",
        "mruby_set_code $x",
        "http_sendfile_ruby_code",
    ],
)
def test_syntax_error(ruby: Site, directive: str) -> None:
    """It fails with the line of the configuration that has the error."""
    check = ruby.check_config(
        f"location /a {{ {directive} '\n  x = 1\n  y = = 2\n  z = 3\n'; }}"
    )
    check.assert_fails("y = = 2", "Ruby: ", "syntax error")


@pytest.mark.parametrize("directive", ["mruby_init_code", "mruby_init_worker_code"])
def test_syntax_error_in_init(ruby: Site, directive: str) -> None:
    """So it does at the http level."""
    check = ruby.check_config("", http=f"{directive} 'def f( 1';")
    check.assert_fails("def f( 1", "Ruby: ", "syntax error")


@pytest.mark.parametrize(
    "directive",
    [
        *("mruby_content_handler", "mruby_access_handler", "mruby_set $x"),
        "http_sendfile_ruby",
    ],
)
def test_syntax_error_in_a_file(ruby: Site, directive: str) -> None:
    """It names file and line, and where the file is named."""
    path = Path(ruby.directory / "bad.rb")
    path.write_text("x = 1\nif x\n\nend end\n")
    check = ruby.check_config(f"location /a {{ {directive} {path}; }}")
    check.assert_fails("bad.rb", f"Ruby: {path}:4: syntax error")


def test_file_that_is_not_there(ruby: Site) -> None:
    """It says which."""
    check = ruby.check_config("location /a { mruby_content_handler no.rb; }")
    check.assert_fails("no.rb", f'the script "{ruby.directory}/no.rb" cannot be read')


def test_file_that_is_a_directory(ruby: Site) -> None:
    """A directory or a device is no script."""
    check = ruby.check_config("location /a { mruby_content_handler /dev/zero; }")
    check.assert_fails("/dev/zero", "cannot be read")
    assert "is no regular file" in check.output


@pytest.mark.parametrize("value", ["on", "cached", ""])
def test_word_after_the_file(ruby: Site, value: str) -> None:
    """Only "cache" may follow."""
    path = Path(ruby.directory / "a.rb")
    path.write_text("1\n")
    check = ruby.check_config(
        f"location /a {{ mruby_content_handler {path} '{value}'; }}"
    )
    check.assert_fails("a.rb", f'invalid parameter "{value}"', 'write "cache"')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mruby_limits instructions=0;", "write instructions=1000000 (1 to"),
        ("mruby_limits instructions=-1;", "invalid parameter"),
        ("mruby_limits instructions=1000000001;", "invalid parameter"),
        ("mruby_limits instructions=;", "invalid parameter"),
        ("mruby_limits memory=1k;", "memory=8m (at least 64k)"),
        ("mruby_limits memory=x;", "invalid parameter"),
        ("mruby_limits cpu=1;", 'invalid parameter "cpu=1"'),
        ("mruby_limits memory=1m memory=2m;", "is duplicate"),
        ("mruby_limits instructions=1 instructions=2;", "is duplicate"),
        ("mruby_time_limit 0;", 'invalid value "0": write 100ms (1ms to 1h)'),
        ("mruby_time_limit -1;", 'invalid value "-1"'),
        ("mruby_time_limit off;", 'invalid value "off"'),
        ("mruby_time_limit 3601s;", 'invalid value "3601s"'),
        ("mruby_time_limit 10ms 20ms;", "invalid number of arguments"),
        ("mruby_time_limit 1s; mruby_time_limit 1s;", "is duplicate"),
        ("mruby_set_code x '1';", 'invalid variable name "x"'),
        ("mruby_set_code $ '1';", 'invalid variable name "$"'),
        ("mruby_set_code $uri '1';", 'the duplicate "uri" variable'),
    ],
)
def test_mistake(ruby: Site, line: str, message: str) -> None:
    """Each says what to write instead."""
    ruby.check_config(line).assert_fails(line, message)


@pytest.mark.parametrize(
    "directive",
    [
        "mruby_content_handler_code '1';",
        "mruby_access_handler_code '1';",
        "http_sendfile_ruby_code '1';",
    ],
)
def test_duplicate(ruby: Site, directive: str) -> None:
    """One script of a kind in a location."""
    check = ruby.check_config(f"location /a {{\n{directive}\n{directive} # second\n}}")
    check.assert_fails("# second", "is duplicate")


def test_empty_script(ruby: Site) -> None:
    """Nothing to do is no mistake."""
    ruby.check_config("location /a { mruby_content_handler_code ''; }").assert_silent()


def test_nothing_is_run_by_a_check(ruby: Site) -> None:
    """nginx -t compiles, and runs no script."""
    check = ruby.check_config("", http='mruby_init_code \'puts "ran"; raise "x"\';')
    check.assert_silent()


def test_needs_the_other_module(ruby: Site) -> None:
    """http_sendfile_ruby without it is a mistake, the rest is not."""
    if ruby.flavour.module is None:
        # linked in together
        return
    only = ruby.flavour.module.with_name(NAME)
    ruby.variables["LOAD"] = f"load_module {only};"
    ruby.variables["LOOKUP"] = ruby.variables["DEADLINE"] = ""
    ruby.variables["LOG_FORMAT"] = "log_format nsf '$request';"
    ruby.check_config("mruby_set_code $x '1';").assert_silent()
    check = ruby.check_config("http_sendfile_ruby_code '1';")
    assert not check.ok
    assert '"http_sendfile_ruby" needs ngx_http_sendfile_module' in check.output


def test_either_order_of_loading(ruby: Site) -> None:
    """Load order does not matter."""
    if ruby.flavour.module is None:
        return
    load = ruby.variables["LOAD"]
    first, second = (f"load_module{part}" for part in load.split("load_module")[1:])
    ruby.variables["LOAD"] = f"{second}; {first}".replace(";;", ";").replace("; ;", ";")
    ruby.add(7)
    nginx = ruby.start(
        "location /file/ { http_sendfile on;"
        " http_sendfile_ruby_code 'Sendfile.refuse 402'; }"
    )
    assert nginx.get("/file/7").status == 402


STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def test_messages_are_documented() -> None:
    """Each line of the log, and each message of nginx -t."""
    told = " ".join(
        " ".join((REPOSITORY / "docs" / name).read_text().split())
        for name in ("mruby.md", "directives.md")
    )
    parts = set()
    for path in sorted((REPOSITORY / "src" / "mruby").glob("*.c")):
        text = re.sub(r"ngx_(\w+)_n\b", r'"\1"', path.read_text())
        for found in re.findall(rf"ngx_(?:conf_)?log_error\([^\"]*?{STRINGS}", text):
            message = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found))
            pieces = re.split(r"%\*?[a-zA-Z]i?", message.replace('\\"', '"'))
            parts |= {p.strip(' :,;"\\') for p in pieces}
    calls = {
        "mruby: open_file",
        "mruby: fd_info",
        "mruby: file_info",
        "mruby: close_file",
    }
    missing = sorted(p for p in parts - calls if len(p) > 7 and p not in told)
    assert parts >= calls
    assert not missing


def test_methods_are_documented() -> None:
    """Each method and each class stands in docs/mruby.md."""
    told = (REPOSITORY / "docs" / "mruby.md").read_text()
    names = set()
    for path in sorted((REPOSITORY / "src" / "mruby").glob("*.c")):
        text = path.read_text()
        names |= set(re.findall(r'\{ "([a-z][\w?]*)=?", ngx_http_sendfile_mrb_', text))
        names |= set(re.findall(r'define_class_under\([^"]*"(\w+)"', text))
        names |= set(re.findall(r"\"\s+def (?:self\.)?(\w+)", text))
    names -= {"method_missing", "Record", "split", "get_server_class", "server_name"}
    assert len(names) > 40
    assert not {name for name in names if not re.search(rf"\b{re.escape(name)}", told)}


def test_only_the_module_tables_are_exported(ruby: Site) -> None:
    """No symbol of mruby's meets another module's."""
    if ruby.flavour.module is None:
        return
    module = ruby.flavour.module.with_name(NAME)
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(module)],
        check=True,
        capture_output=True,
        text=True,
    )
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names == {"ngx_modules", "ngx_module_names", "ngx_module_order"}
