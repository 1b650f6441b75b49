"""nginx -t: what it accepts, and that it says file, line and what to write."""

from __future__ import annotations

import pytest

from lib.site import Site


def location(*directives: str) -> str:
    """Return a location with one directive on each line."""
    return "location /file/ {\n" + "\n".join(directives) + "\n}\n%%INTERNAL%%"


GOOD = [
    "http_sendfile on;",
    "http_sendfile off;",
    "http_sendfile_lookup lmdb:/var/lib/ids.lmdb;",
    "http_sendfile_key photo:$sendfile_id;",
    "http_sendfile_key terms;",
    "http_sendfile_format auto;",
    "http_sendfile_format path;",
    "http_sendfile_format json;",
    "http_sendfile_prefix /private/;",
    "http_sendfile_prefix /private/$host/;",
    "http_sendfile_root /srv/files;",
    "http_sendfile_root /srv/$host;",
    "http_sendfile_root $document_root;",
    "http_sendfile_root off;",
    "http_sendfile_symlinks on;",
    "http_sendfile_symlinks off;",
    "http_sendfile_fallback @app;",
    "http_sendfile_fallback /app;",
    "http_sendfile_fallback /app/$sendfile_id?x=$args;",
    "http_sendfile_fallback =410;",
    "http_sendfile_fallback $arg_fallback;",
    "http_sendfile_fallback off;",
    "http_sendfile_fallback_on miss;",
    "http_sendfile_fallback_on miss error timeout invalid;",
    "http_sendfile_timeout 250ms;",
    "http_sendfile_timeout 2s;",
]


@pytest.mark.parametrize("level", ["http", "server", "location"])
@pytest.mark.parametrize("directive", GOOD)
def test_every_directive_at_every_level(site: Site, directive: str, level: str) -> None:
    """Each directive of the contract stands in http, server and location."""
    if "lookup" in directive:
        site.variables["LOOKUP"] = ""
    app = (
        "location @app { return 404; } "
        "location ^~ /files/ { internal; http_sendfile off; } "
    )
    if level == "http":
        check = site.check_config(app, http=directive)
    elif level == "server":
        check = site.check_config(app + directive)
    else:
        check = site.check_config(app + f"location /file/ {{ {directive} }}")
    check.assert_silent()


def test_readme_configuration_is_silent(site: Site) -> None:
    """A right configuration gives no warning, by redirect or directly."""
    site.check_config(
        """
        location /file/ { http_sendfile on; http_sendfile_fallback @app; }
        location /direct/ { http_sendfile on; %%DIRECT%% }
        location /app/ { http_sendfile on; proxy_pass http://127.0.0.1:1; }
        location @app { proxy_pass http://127.0.0.1:1; }
        %%INTERNAL%%
        """
    ).assert_silent()


@pytest.mark.parametrize("name", ["http_sendfile", "http_sendfile_symlinks"])
@pytest.mark.parametrize("value", ["maybe", "1", "On!", '""'])
def test_flag_is_on_or_off(site: Site, name: str, value: str) -> None:
    """A flag that is neither on nor off is refused, with the two words."""
    check = site.check_config(location(f"{name} {value};"))
    check.assert_fails(f"{name} {value};", f'"{name}"', '"on"', '"off"')


@pytest.mark.parametrize("value", ["xml", "JSON5", '""'])
def test_unknown_format(site: Site, value: str) -> None:
    """An unknown format is refused, with the known ones."""
    directive = f"http_sendfile_format {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, value.strip('"'), "auto", "path", "json", "marshal")


@pytest.mark.parametrize("value", ["files", "./files", "../files", "files/$host"])
def test_root_must_be_absolute(site: Site, value: str) -> None:
    """A relative root is refused: nothing says what it is relative to."""
    directive = f"http_sendfile_root {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, f'"{value}"', "absolute")


@pytest.mark.parametrize("value", ["files/", "files/$host", "http://host/"])
def test_prefix_begins_with_a_slash(site: Site, value: str) -> None:
    """A prefix is a URI of this server."""
    directive = f"http_sendfile_prefix {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, f'"{value}"', "absolute", "/files/")


@pytest.mark.parametrize("value", ["/a//b/", "/a/../b", "/a/./", "/a?b", "//"])
def test_bad_prefix(site: Site, value: str) -> None:
    """A prefix is a path as a location's name is: nothing to be normalized."""
    directive = f"http_sendfile_prefix {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, f'"{value}"', "write", "/files/")


@pytest.mark.parametrize("value", ["/srv/../etc", "/srv//files", "/srv/./files"])
def test_bad_root(site: Site, value: str) -> None:
    """Neither is a root."""
    directive = f"http_sendfile_root {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, f'"{value}"')


def test_empty_key(site: Site) -> None:
    """A key that is always empty is a mistake."""
    check = site.check_config(location('http_sendfile_key "";'))
    check.assert_fails('http_sendfile_key "";', "empty key", "write", "$sendfile_id")


def test_class_of_failure_named_twice(site: Site) -> None:
    """A class that is named twice is pointed out."""
    directive = "http_sendfile_fallback_on miss error miss;"
    check = site.check_config(location("http_sendfile on;", directive))
    check.assert_warns(directive, '"miss"')


def test_wrong_in_an_included_file(site: Site) -> None:
    """File and line are those of the included file."""
    included = site.directory / "included.conf"
    included.write_text("# one\nhttp_sendfile_format\nxml;\n")
    check = site.check_config(location(f"include {included};"))
    assert not check.ok
    assert f"{included}:3" in check.output


@pytest.mark.parametrize("name", ["prefix", "root"])
def test_empty_value(site: Site, name: str) -> None:
    """An empty prefix or root is refused."""
    directive = f'http_sendfile_{name} "";'
    check = site.check_config(location(directive))
    check.assert_fails(directive, f'{name} ""', "absolute", "write")


@pytest.mark.parametrize("level", ["http", "server", "location"])
def test_root_and_prefix_on_one_level(site: Site, level: str) -> None:
    """Root and prefix on one level exclude each other, in either order."""
    root = "http_sendfile_root /srv/files;"
    prefix = "http_sendfile_prefix /files/;"
    for first, second in ((root, prefix), (prefix, root)):
        both = f"{first}\n{second}"
        if level == "http":
            check = site.check_config("", http=both)
        elif level == "server":
            check = site.check_config(both)
        else:
            check = site.check_config(location(both))
        check.assert_fails(second, "http_sendfile_root", "http_sendfile_prefix")


def test_root_off_and_prefix_on_one_level(site: Site) -> None:
    """`root off` and a prefix say the same: no contradiction, in either order."""
    off = "http_sendfile_root off;"
    prefix = "http_sendfile_prefix /private/;"
    site.check_config(location(off, prefix)).assert_silent()
    site.check_config(location(prefix, off)).assert_silent()


def test_root_and_prefix_on_different_levels(site: Site) -> None:
    """On different levels they do not."""
    site.check_config(
        """
        http_sendfile_root /srv/files;
        location /a/ { http_sendfile on; http_sendfile_prefix /files/; }
        location /b/ { http_sendfile on; }
        %%INTERNAL%%
        """
    ).assert_silent()


def test_unknown_store(site: Site) -> None:
    """A name that is no store is refused, with the form of a URL."""
    directive = "http_sendfile_lookup nosuch;"
    check = site.check_config(location(directive))
    check.assert_fails(directive, '"nosuch"', "write", "lmdb:/")


@pytest.mark.parametrize(
    "url",
    [
        "lmdb:",
        "lmdb:relative/ids.lmdb",
        "lmdb://host/ids.lmdb",
        "redis://127.0.0.1",
        "http://127.0.0.1",
        "/var/lib/ids.lmdb",
        ":/var/lib/ids.lmdb",
        '""',
    ],
)
def test_bad_url(site: Site, url: str) -> None:
    """What is no URL of a store is refused, with the forms there are."""
    directive = f"http_sendfile_lookup {url};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, url.strip('"'), "lmdb:/")


@pytest.mark.parametrize("value", ["abc", "-1", "1x", '""'])
def test_bad_timeout(site: Site, value: str) -> None:
    """A timeout is a time of nginx."""
    directive = f"http_sendfile_timeout {value};"
    check = site.check_config(location(directive))
    check.assert_fails(directive, "http_sendfile_timeout")


def test_timeout_of_zero(site: Site) -> None:
    """A timeout of 0 would let every lookup fail: refused."""
    check = site.check_config(location("http_sendfile_timeout 0;"))
    check.assert_fails("http_sendfile_timeout 0;", "http_sendfile_timeout")


@pytest.mark.parametrize("value", ["app", '""', "on", "http://host/"])
def test_bad_fallback(site: Site, value: str) -> None:
    """A fallback is @name, a URI, =code or off, and the message says so."""
    directive = f"http_sendfile_fallback {value};"
    check = site.check_config(location("http_sendfile on;", directive))
    quoted = f'"{value.strip(chr(34))}"'
    check.assert_fails(directive, quoted, "@app", "/app", "=404", "off")


@pytest.mark.parametrize("value", ["=", "=abc", "=99", "=600", "=1000", "=-1", "=404x"])
def test_bad_fallback_code(site: Site, value: str) -> None:
    """A code is that of an error, and the message says from where to where."""
    directive = f"http_sendfile_fallback {value};"
    check = site.check_config(location("http_sendfile on;", directive))
    check.assert_fails(directive, f'"{value}"', "=400", "=599")


def test_fallback_to_an_unknown_location(site: Site) -> None:
    """A named location that does not exist is a mistake -t finds."""
    for name in ("@nosuch", "@"):
        directive = f"http_sendfile_fallback {name};"
        check = site.check_config(location("http_sendfile on;", directive))
        check.assert_fails(directive, f"location {name}", "write")


@pytest.mark.parametrize("value", ["never", "miss errors", "miss,error", "404"])
def test_unknown_class_of_failure(site: Site, value: str) -> None:
    """fallback_on takes the five words, and the message lists them."""
    directive = f"http_sendfile_fallback_on {value};"
    check = site.check_config(location(directive))
    words = ("miss", "error", "timeout", "invalid", "missing_file")
    check.assert_fails(directive, value.split()[-1], *words)


@pytest.mark.parametrize(
    "directive",
    [
        "http_sendfile on;",
        "http_sendfile_lookup lmdb:/srv/ids;",
        "http_sendfile_key $uri;",
        "http_sendfile_format path;",
        "http_sendfile_prefix /files/;",
        "http_sendfile_root /srv/files;",
        "http_sendfile_symlinks on;",
        "http_sendfile_fallback =410;",
        "http_sendfile_fallback_on miss;",
        "http_sendfile_timeout 1s;",
    ],
)
def test_duplicate(site: Site, directive: str) -> None:
    """Each directive stands once on a level."""
    name = directive.split()[0]
    check = site.check_config(location(directive, directive.replace(";", " ;")))
    check.assert_fails(directive.replace(";", " ;"), f'"{name}"', "duplicate")


@pytest.mark.parametrize(
    "name",
    [
        "http_sendfile",
        "http_sendfile_lookup",
        "http_sendfile_key",
        "http_sendfile_format",
        "http_sendfile_prefix",
        "http_sendfile_root",
        "http_sendfile_symlinks",
        "http_sendfile_fallback",
        "http_sendfile_fallback_on",
        "http_sendfile_timeout",
    ],
)
def test_number_of_arguments(site: Site, name: str) -> None:
    """No directive goes without an argument."""
    check = site.check_config(location(f"{name};"))
    check.assert_fails(f"{name};", f'"{name}"', "number of arguments")


def test_too_many_arguments(site: Site) -> None:
    """Two roots, two prefixes and the like are refused."""
    for name in ("root", "prefix", "fallback", "key", "lookup", "timeout"):
        directive = f"http_sendfile_{name} /a /b;"
        check = site.check_config(location(directive))
        check.assert_fails(directive, "number of arguments")


@pytest.mark.parametrize(
    "directive",
    ["http_sendfile on;", "http_sendfile_root /srv;", "http_sendfile_key $uri;"],
)
def test_wrong_context(site: Site, directive: str) -> None:
    """Outside of http, server and location they are not allowed."""
    for server, http, main in (
        (f"if ($arg_x) {{ {directive} }}", "", ""),
        (f"location /a/ {{ limit_except GET {{ {directive} }} }}", "", ""),
        ("", f"upstream u {{ {directive} server 127.0.0.1:1; }}", ""),
        ("", "", directive),
    ):
        check = site.check_config(server, http, main)
        check.assert_fails(directive, f'"{directive.split()[0]}"', "not allowed here")


@pytest.mark.parametrize(
    "directive",
    [
        "http_sendfile_key $nosuch;",
        "http_sendfile_prefix /files/$nosuch/;",
        "http_sendfile_root /srv/$nosuch;",
        "http_sendfile_fallback /app/$nosuch;",
    ],
)
def test_unknown_variable(site: Site, directive: str) -> None:
    """A variable that does not exist is found."""
    check = site.check_config(location("http_sendfile on;", directive))
    assert not check.ok
    assert 'unknown "nosuch" variable' in check.output


def test_missing_file_without_a_root(site: Site) -> None:
    """With a redirect the module never sees that the file is missing: a warning."""
    directive = "http_sendfile_fallback_on miss missing_file;"
    check = site.check_config(location("http_sendfile on;", directive))
    check.assert_warns(directive, "missing_file", "http_sendfile_root")


def test_missing_file_with_a_root(site: Site) -> None:
    """With a root, on this level or above, there is nothing to warn of."""
    directive = "http_sendfile_fallback_on miss missing_file;"
    site.check_config(
        location("http_sendfile on;", "%%DIRECT%%", directive)
    ).assert_silent()
    site.check_config(
        "%%DIRECT%%" + location("http_sendfile on;", directive)
    ).assert_silent()


def test_prefix_location_is_not_internal(site: Site) -> None:
    """Files that everybody can fetch by their path: a warning."""
    directive = "http_sendfile_prefix /open/;"
    check = site.check_config(
        location("http_sendfile on;", directive)
        + "location ^~ /open/ { http_sendfile off; }"
    )
    check.assert_warns(directive, '"/open/"', "internal")


def test_prefix_location_inherits_on(site: Site) -> None:
    """A target that is itself looked up if asked for directly: a warning."""
    directive = "http_sendfile_prefix /private/;"
    check = site.check_config(
        f"http_sendfile on;\n{directive}\nlocation ^~ /private/ {{ internal; }}"
    )
    check.assert_warns(directive, '"/private/"', "write", "http_sendfile off;")


def test_default_prefix_without_a_location(site: Site) -> None:
    """Where no location is there for /files/ the server's files lie open."""
    check = site.check_config("location /file/ {\nhttp_sendfile on;\n}")
    check.assert_warns("http_sendfile on;", '"/files/"', "internal")


def test_prefix_with_a_variable_is_not_judged(site: Site) -> None:
    """Where it leads is not known to nginx -t, so it does not guess."""
    site.check_config(
        location("http_sendfile on;", "http_sendfile_prefix /$arg_x/;")
    ).assert_silent()


def test_direct_delivery_needs_no_prefix_location(site: Site) -> None:
    """With a root nothing is said of a prefix."""
    site.check_config("http_sendfile on; %%DIRECT%%").assert_silent()


def test_off_is_not_judged(site: Site) -> None:
    """Where nothing is looked up nothing is said of the default prefix."""
    site.check_config("location /files/ { }").assert_silent()


def test_store_need_not_exist(site: Site) -> None:
    """nginx -t does not open a store: it may be made later, by another user."""
    site.variables["LOOKUP"] = "http_sendfile_lookup lmdb:/nonexistent/ids.lmdb;"
    site.check_config(location("http_sendfile on;")).assert_silent()


def test_config_check_touches_no_store(site: Site) -> None:
    """nginx -t makes no files and takes no locks where a store would be."""
    site.variables["LOOKUP"] = "http_sendfile_lookup lmdb:%%DIR%%/later.lmdb;"
    site.check_config(location("http_sendfile on;")).assert_silent()
    assert not list(site.directory.glob("later*"))
