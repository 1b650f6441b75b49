"""The cache's directives: nginx -t says file, line and what to write instead."""

from __future__ import annotations

import re

import pytest

from lib.cache import ask, make_old, said
from lib.site import Site

ZONE = "http_sendfile_cache_zone main:8m;\n"


def location(*directives: str) -> str:
    """Return a location with one directive on each line."""
    lines = "\n".join(directives)
    return f"location /file/ {{\nhttp_sendfile on;\n{lines}\n}}\n%%INTERNAL%%"


GOOD = [
    "http_sendfile_cache main;",
    "http_sendfile_cache off;",
    "http_sendfile_cache_valid 60s;",
    "http_sendfile_cache_valid 0;",
    "http_sendfile_cache_valid 200 10m;",
    "http_sendfile_cache_valid 200 500ms;",
    "http_sendfile_cache_valid 200 1d; http_sendfile_cache_valid 404 1m30s;",
    "http_sendfile_cache_valid 60s; http_sendfile_cache_valid 404 0;",
    "http_sendfile_cache_valid 404 1s;",
    "http_sendfile_cache_use_stale off;",
    "http_sendfile_cache_use_stale error;",
    "http_sendfile_cache_use_stale timeout;",
    "http_sendfile_cache_use_stale updating;",
    "http_sendfile_cache_use_stale updating error timeout;",
    "http_sendfile_cache_body off;",
    "http_sendfile_cache_check 0;",
    "http_sendfile_cache_check 1s;",
    "http_sendfile_cache_check 100ms;",
]


@pytest.mark.parametrize("level", ["http", "server", "location"])
@pytest.mark.parametrize("directive", GOOD)
def test_every_directive_at_every_level(site: Site, directive: str, level: str) -> None:
    """Each directive of the contract stands in http, server and location."""
    files = "location ^~ /files/ { internal; http_sendfile off; } "
    if level == "http":
        check = site.check_config(files, ZONE + directive)
    elif level == "server":
        check = site.check_config(files + directive, ZONE)
    else:
        check = site.check_config(
            files + f"location /file/ {{ http_sendfile on; {directive} }}", ZONE
        )
    check.assert_silent()


@pytest.mark.parametrize("level", ["http", "server", "location"])
@pytest.mark.parametrize("size", ["1", "4096", "16k", "64K", "200k"])
def test_body_at_every_level(site: Site, size: str, level: str) -> None:
    """cache_body stands in http, server and location, beside a root."""
    zone = "http_sendfile_cache_zone main:64m;"
    directive = f"http_sendfile_cache main; http_sendfile_cache_body {size}; %%DIRECT%%"
    on = "location /file/ { http_sendfile on; %s }"
    if level == "http":
        check = site.check_config(on % "", zone + directive)
    elif level == "server":
        check = site.check_config(directive + on % "", zone)
    else:
        check = site.check_config(on % directive, zone)
    check.assert_silent()


@pytest.mark.parametrize(
    "size", ["256k", "262144", "300000", "1m", "4m", "8388609", "9m", "33M", "100m"]
)
def test_sizes_of_zones(site: Site, size: str) -> None:
    """A zone of any size from 256k on is a cache."""
    site.add(1)
    site.check_config(
        location("http_sendfile_cache main;"), f"http_sendfile_cache_zone main:{size};"
    ).assert_silent()
    nginx = site.start(
        location("http_sendfile_cache main;"), f"http_sendfile_cache_zone main:{size};"
    )
    for wanted in ("lmdb", "cache"):
        got = ask(nginx, "/file/1")
        site.assert_file(got.response, 1)
        assert got.said == ("HIT", wanted)


def test_whole_configuration_is_silent(site: Site) -> None:
    """A right configuration gives no warning."""
    site.check_config(
        """
        http_sendfile_cache ids;
        location /file/ {
            http_sendfile on;
            http_sendfile_root %%FILES%%;
            http_sendfile_cache_body 16k;
            http_sendfile_cache_check 500ms;
        }
        location /redirected/ { http_sendfile on; }
        location /uncached/ { http_sendfile on; http_sendfile_cache off; }
        location /other/ {
            http_sendfile on;
            http_sendfile_cache other;
            http_sendfile_cache_valid 10m;
            http_sendfile_cache_valid 404 5s;
            http_sendfile_cache_use_stale error;
        }
        location /_sendfile/ { http_sendfile_status write; allow 127.0.0.1; deny all; }
        location /read/ { http_sendfile_status; }
        %%INTERNAL%%
        """,
        "http_sendfile_cache_zone ids:64m; http_sendfile_cache_zone other:1m;",
    ).assert_silent()


def test_zone_after_its_use(site: Site) -> None:
    """The zone may stand below the server that uses it."""
    site.add(1)
    template = site.template(
        location("http_sendfile_cache main;"), "http_sendfile off;"
    )
    end = template.rindex("}")
    nginx = site.start_whole(template[:end] + ZONE + template[end:])
    for wanted in ("lmdb", "cache"):
        assert said(nginx, "/file/1") == ("HIT", wanted)


# http_sendfile_cache_zone


@pytest.mark.parametrize("value", ["main", "main:", ":8m", ":", '""'])
def test_zone_without_name_or_size(site: Site, value: str) -> None:
    """A zone has a name and a size."""
    directive = f"http_sendfile_cache_zone {value};"
    check = site.check_config("", directive)
    check.assert_fails(directive, value.strip('"'), "write", ":64m")


@pytest.mark.parametrize(
    "size", ["x", "-1", "8mb", "8m:9m", "0", "1", "255k", "262143", "99999999999999g"]
)
def test_size_of_a_zone(site: Site, size: str) -> None:
    """A size that is none, or too small, is refused with the smallest one."""
    directive = f"http_sendfile_cache_zone main:{size};"
    check = site.check_config("", directive)
    check.assert_fails(directive, f'"{size}"', "main", "write", "256k")


def test_zone_twice(site: Site) -> None:
    """A name stands for one zone."""
    again = "http_sendfile_cache_zone main:16m;"
    site.check_config("", ZONE + again).assert_fails(again, "duplicate", '"main"')
    again = "http_sendfile_cache_zone main:8m;#2"
    site.check_config("", ZONE + again).assert_fails("#2", "duplicate", '"main"')


@pytest.mark.parametrize("value", ["", "main:8m 1h", "main 8m"])
def test_arguments_of_a_zone(site: Site, value: str) -> None:
    """Just one argument."""
    directive = f"http_sendfile_cache_zone {value};"
    check = site.check_config("", directive)
    check.assert_fails(directive, "invalid number of arguments")


def test_zone_elsewhere(site: Site) -> None:
    """A zone stands in http, and nowhere else."""
    directive = "http_sendfile_cache_zone main:8m;"
    check = site.check_config(directive)
    check.assert_fails(directive, "is not allowed here")
    check = site.check_config(location(directive))
    check.assert_fails(directive, "is not allowed here")


def test_zone_that_could_not_be_used(site: Site) -> None:
    """A zone named ``off`` could not be used: http_sendfile_cache off is another."""
    directive = "http_sendfile_cache_zone off:8m;"
    check = site.check_config("", directive)
    check.assert_fails(directive, '"off', "write")


def test_name_of_another_modules_zone(site: Site) -> None:
    """Other modules' zones have names of their own."""
    site.check_config(
        location("http_sendfile_cache main;"),
        ZONE + "limit_req_zone $uri zone=main:1m rate=1r/s;",
    ).assert_silent()


# http_sendfile_cache


@pytest.mark.parametrize("level", ["http", "server", "location"])
def test_unknown_zone(site: Site, level: str) -> None:
    """A name that is no zone is refused, with the directive that makes one."""
    directive = "http_sendfile_cache nosuch;"
    if level == "http":
        check = site.check_config("", ZONE + directive)
    elif level == "server":
        check = site.check_config(directive, ZONE)
    else:
        check = site.check_config(location(directive), ZONE)
    check.assert_fails(
        directive, '"nosuch"', "write", "http_sendfile_cache_zone nosuch:"
    )


@pytest.mark.parametrize("value", ["main:8m", '""'])
def test_cache_is_a_name(site: Site, value: str) -> None:
    """The size belongs to the zone."""
    directive = f"http_sendfile_cache {value};"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, "write", "http_sendfile_cache_zone")


def test_case_of_off(site: Site) -> None:
    """``OFF`` is no zone's name by mistake."""
    directive = "http_sendfile_cache OFF;"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, '"OFF"', "write")


# http_sendfile_cache_valid


@pytest.mark.parametrize("time", ["x", "-1", "1x", "1.5s", "60sec", '""', "s"])
def test_invalid_time(site: Site, time: str) -> None:
    """What is no time is refused, with one."""
    for code in ("", "200 ", "404 "):
        directive = f"http_sendfile_cache_valid {code}{time};"
        check = site.check_config(location(directive), ZONE)
        check.assert_fails(directive, time.strip('"'), "write", "60s")


@pytest.mark.parametrize("code", ["500", "0", "any", "2", "2000", "302", '""'])
def test_invalid_code(site: Site, code: str) -> None:
    """There are two codes."""
    directive = f"http_sendfile_cache_valid {code} 60s;"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, code.strip('"'), "write", "200", "404")


@pytest.mark.parametrize(
    ("first", "second"),
    [("60s", "30s"), ("200 60s", "30s"), ("60s", "200 60s"), ("404 1s", "404 2s")],
)
def test_valid_twice(site: Site, first: str, second: str) -> None:
    """Each code stands once on a level."""
    again = f"http_sendfile_cache_valid {second};"
    for level in ("http", "location"):
        both = f"http_sendfile_cache_valid {first};\n{again}"
        if level == "http":
            check = site.check_config("", ZONE + both)
        else:
            check = site.check_config(location(both), ZONE)
        check.assert_fails(again, "duplicate")


def test_several_codes_in_one_directive(site: Site) -> None:
    """Two codes are two directives."""
    directive = "http_sendfile_cache_valid 200 404 1s;"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, "invalid number of arguments")


# http_sendfile_cache_use_stale


@pytest.mark.parametrize("value", ["errors", "on", "http_500", "Error", '""'])
def test_invalid_use_stale(site: Site, value: str) -> None:
    """An unknown value is refused, with the known ones."""
    for before in ("", "error "):
        directive = f"http_sendfile_cache_use_stale {before}{value};"
        check = site.check_config(location(directive), ZONE)
        words = (value.strip('"'), "write", "error", "timeout", "updating", "off")
        check.assert_fails(directive, *words)


@pytest.mark.parametrize("value", ["off error", "error off", "off off"])
def test_use_stale_off_and_more(site: Site, value: str) -> None:
    """off stands alone."""
    directive = f"http_sendfile_cache_use_stale {value};"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, '"off"', "write")


def test_use_stale_value_twice(site: Site) -> None:
    """A value that is named twice is pointed out."""
    directive = "http_sendfile_cache_use_stale error timeout error;"
    check = site.check_config(location(directive), ZONE)
    check.assert_warns(directive, '"error"')


# http_sendfile_cache_body


@pytest.mark.parametrize("size", ["x", "-1", "8kb", "0", '""', "on", "1.5m"])
def test_invalid_body(site: Site, size: str) -> None:
    """A size that is none is refused."""
    directive = f"http_sendfile_cache_body {size};"
    check = site.check_config(
        location("%%DIRECT%%", "http_sendfile_cache main;", directive), ZONE
    )
    check.assert_fails(directive, size.strip('"'), "write", "16k", "off")


@pytest.mark.parametrize("zone", ["256k", "1m", "4m", "8m", "64m", "256m"])
def test_body_larger_than_the_zone_takes(site: Site, zone: str) -> None:
    """It says how much the zone takes, and that is accepted, and kept."""
    http = f"http_sendfile_cache_zone main:{zone};"
    directive = "http_sendfile_cache_body 100m;"
    check = site.check_config(
        location("%%DIRECT%%", "http_sendfile_cache main;", directive), http
    )
    check.assert_fails(directive, '"main"', "write", "http_sendfile_cache_body")
    match = re.search(r'"http_sendfile_cache_body (\d+)k;"', check.output)
    assert match, check.output
    largest = int(match[1])
    assert largest > 0
    too_much = f"http_sendfile_cache_body {largest + 1}k;"
    site.check_config(
        location("%%DIRECT%%", "http_sendfile_cache main;", too_much), http
    ).assert_fails(too_much, f"{largest}k")
    # what is said to fit does
    size = largest * 1024
    site.add(1, size=size)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start(
        location(
            "%%DIRECT%%",
            "http_sendfile_cache main;",
            f"http_sendfile_cache_body {largest}k;",
            "http_sendfile_cache_check 1h;",
        ),
        http,
    )
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/1").response, 1, size)
    path.unlink()
    site.assert_file(ask(nginx, "/file/1").response, 1, size)


def test_inherited_body_larger_than_the_zone_takes(site: Site) -> None:
    """The line is that of the directive, wherever the zone is chosen."""
    directive = "http_sendfile_cache_body 100m;"
    check = site.check_config(
        location("%%DIRECT%%", "http_sendfile_cache main;"), ZONE + directive
    )
    check.assert_fails(directive, '"main"', "write")


def test_body_without_a_root(site: Site) -> None:
    """After a redirect no body is kept: a warning says what would help."""
    directive = "http_sendfile_cache_body 16k;"
    check = site.check_config(location("http_sendfile_cache main;", directive), ZONE)
    check.assert_warns(directive, "http_sendfile_root", "write")


def test_body_without_a_cache(site: Site) -> None:
    """Without a cache nothing is kept: a warning says what would help."""
    directive = "http_sendfile_cache_body 16k;"
    check = site.check_config(location("%%DIRECT%%", directive), ZONE)
    check.assert_warns(directive, "http_sendfile_cache", "write")


def test_inherited_body_without_a_root(site: Site) -> None:
    """A body that one of several locations has use for is no mistake."""
    directive = "http_sendfile_cache main; http_sendfile_cache_body 16k;"
    site.check_config(
        "location /a/ { http_sendfile on; }"
        "location /b/ { http_sendfile on; %%DIRECT%% } %%INTERNAL%%",
        ZONE + directive,
    ).assert_silent()
    check = site.check_config(
        "location /a/ { http_sendfile on; }"
        "location /b/ { http_sendfile on; http_sendfile_cache off; } %%INTERNAL%%",
        ZONE + directive,
    )
    check.assert_warns("http_sendfile_cache_body", "http_sendfile_root")
    assert check.output.count("[warn]") == 1


# http_sendfile_cache_check


@pytest.mark.parametrize("time", ["x", "-1s", '""', "1 s"])
def test_invalid_check(site: Site, time: str) -> None:
    """What is no time is refused."""
    directive = f"http_sendfile_cache_check {time};"
    check = site.check_config(location(directive), ZONE)
    check.assert_fails(directive, "http_sendfile_cache_check")


# twice, and elsewhere


@pytest.mark.parametrize(
    "directive",
    [
        "http_sendfile_cache main;",
        "http_sendfile_cache off;",
        "http_sendfile_cache_use_stale error;",
        "http_sendfile_cache_use_stale off;",
        "http_sendfile_cache_body 8k;",
        "http_sendfile_cache_body off;",
        "http_sendfile_cache_check 2s;",
    ],
)
def test_twice_on_a_level(site: Site, directive: str) -> None:
    """Twice on one level is a mistake, on two levels it is not."""
    name = directive.split()[0]
    others = {
        "http_sendfile_cache": "http_sendfile_cache second;",
        "http_sendfile_cache_use_stale": "http_sendfile_cache_use_stale timeout;",
        "http_sendfile_cache_body": "http_sendfile_cache_body 16k;",
        "http_sendfile_cache_check": "http_sendfile_cache_check 1s;",
    }
    http = ZONE + "http_sendfile_cache_zone second:1m;"
    for first, second in ((others[name], directive), (directive, others[name])):
        check = site.check_config(location(first, second), http)
        check.assert_fails(second, "duplicate")
        check = site.check_config(first + location("%%DIRECT%%", second), http)
        assert check.ok, check.output


@pytest.mark.parametrize(
    "name",
    [
        "http_sendfile_cache",
        "http_sendfile_cache_valid",
        "http_sendfile_cache_use_stale",
        "http_sendfile_cache_body",
        "http_sendfile_cache_check",
    ],
)
def test_without_a_value(site: Site, name: str) -> None:
    """A directive without its value is refused."""
    check = site.check_config(location(f"{name};"), ZONE)
    check.assert_fails(f"{name};", "invalid number of arguments")


def test_in_an_if(site: Site) -> None:
    """``if`` takes none of them."""
    for directive in ("http_sendfile_cache main;", "http_sendfile_cache_check 3s;"):
        check = site.check_config(location(f"if ($arg_x) {{\n{directive}\n}}"), ZONE)
        check.assert_fails(directive, "is not allowed here")


# http_sendfile_status


@pytest.mark.parametrize("value", ["on", "off", "read", "Write", '""'])
def test_invalid_status(site: Site, value: str) -> None:
    """The only value is write."""
    directive = f"http_sendfile_status {value};"
    check = site.check_config(f"location /status/ {{\n{directive}\n}}", ZONE)
    check.assert_fails(directive, value.strip('"'), "write", "http_sendfile_status")


def test_status_elsewhere(site: Site) -> None:
    """It stands in a location."""
    directive = "http_sendfile_status write;"
    for check in (site.check_config(directive), site.check_config("", directive)):
        check.assert_fails(directive, "is not allowed here")
    check = site.check_config(f"location /s/ {{ if ($arg_x) {{\n{directive}\n}} }}")
    check.assert_fails(directive, "is not allowed here")


def test_status_twice(site: Site) -> None:
    """Once in a location."""
    again = "http_sendfile_status write;"
    check = site.check_config(f"location /s/ {{\nhttp_sendfile_status;\n{again}\n}}")
    check.assert_fails(again, "duplicate")


def test_status_and_too_many_values(site: Site) -> None:
    """At most two values."""
    directive = "http_sendfile_status write ids=off write;"
    check = site.check_config(f"location /s/ {{\n{directive}\n}}")
    check.assert_fails(directive, "invalid number of arguments")


def test_status_is_not_inherited(site: Site) -> None:
    """A location within one has a handler of its own, or none."""
    site.html.write("status/inner/x.html", b"x")
    nginx = site.start(
        "location /status/ { http_sendfile_status write; location /status/inner/ { } }",
        ZONE,
    )
    assert nginx.get("/status/inner/x.html").body == b"x"
    assert nginx.request("DELETE", "/status/inner/cache").status == 405
    assert nginx.request("DELETE", "/status/cache").status == 200
