"""The documentation's configurations, made into such as a test can start.

Every fenced block has a language and may have a name, in an HTML comment on the
line before it:

    <!-- test: redirect -->
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .nginx import REPOSITORY, Flavour
from .ruby import load_ruby
from .signed import KEY, load_signed, write_keys
from .site import INTERNAL, Site
from .sqlite import load_sqlite, run

DOCS = REPOSITORY / "docs"

# what a test has in place of what the documentation says
PATHS = {
    "/etc/nginx/ruby": "%%DIR%%/ruby",
    "/etc/ngx_sendfile": "%%DIR%%/etc",
    "/var/lib/ids": "%%STORE%%",
    "/var/lib/archive": "%%DIR%%/archive.lmdb",
    "/srv/files": "%%FILES%%",
    "/srv/app/storage": "%%DIR%%/storage",
    "/srv/archive": "%%DIR%%/archive",
    "/srv/tenants": "%%DIR%%/tenants",
    "/srv/www": "%%HTML%%",
    "/run/nginx-archive.sock": "%%DIR%%/archive.sock",
    "/run/php/php8.2-fpm.sock": "%%DIR%%/php.sock",
    "/run/uwsgi/app.sock": "%%DIR%%/uwsgi.sock",
    "/var/lib/odoo/filestore": "%%FILES%%",
    "/var/lib/nginx": "%%DIR%%/temp",
    "/var/log/nginx": "%%DIR%%/logs",
}


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        path: the file.
        line: of the opening fence.
        language: what follows the fence.
        name: of the comment before it, or empty.
        text: what stands between the fences.
    """

    path: Path
    line: int
    language: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(REPOSITORY)}:{self.name or self.line}"


def blocks(path: Path, *languages: str) -> list[Block]:
    """Return the fenced blocks of a file, or those of some languages."""
    found = []
    fence, name, language, indent = 0, "", "", ""
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if fence and line == f"{indent}```":
            text = "".join(f"{s}\n" for s in lines)
            found.append(Block(path, fence, language, name, text))
            fence, name = 0, ""
        elif fence:
            lines.append(line.removeprefix(indent))
        elif match := re.fullmatch(r"( *)```(\w*)", line):
            fence, lines = number, []
            indent, language = match.groups()
        elif match := re.fullmatch(r"<!-- test: ([\w-]+) -->", line):
            name = match[1]
        elif line.strip():
            name = ""
    assert not fence, f"{path}:{fence}: the block does not end"
    return [b for b in found if not languages or b.language in languages]


def documents() -> list[Path]:
    """Return the Markdown files that are the product's documentation."""
    return sorted([*REPOSITORY.glob("*.md"), *DOCS.glob("*.md")])


@dataclass(frozen=True)
class Statement:
    """A directive of an nginx configuration.

    Args:
        words: its name and parameters.
        text: all of it.
        body: what stands in its braces, None if it ends with a semicolon.
    """

    words: list[str]
    text: str
    body: str | None


TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)|(?P<mark>[;{}])"""
    r"""|(?P<word>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;{}]+)"""
)


def statements(text: str) -> Iterator[Statement]:
    """Split a configuration into the directives of its top level."""
    words: list[str] = []
    start = depth = body = 0
    for token in TOKEN.finditer(text):
        if token["skip"]:
            continue
        if token["word"]:
            if not words:
                start = token.start()
            if depth == 0:
                words.append(token["word"])
        elif token["mark"] == "{":
            depth += 1
            if depth == 1:
                body = token.end()
        elif token["mark"] == "}":
            depth -= 1
            assert depth >= 0, f"a }} too many in {text!r}"
            if depth == 0:
                yield Statement(
                    words, text[start : token.end()], text[body : token.start()]
                )
                words = []
        elif depth == 0:
            yield Statement(words, text[start : token.end()], None)
            words = []
    assert not words and depth == 0, f"not whole: {text!r}"


# directives of the level http and of no other
HTTP_ONLY = {
    "geo",
    "http_sendfile_activestorage_service",
    "http_sendfile_cache_zone",
    "http_sendfile_store",
    "limit_conn_zone",
    "limit_req_zone",
    "log_format",
    "map",
    "mruby_init",
    "mruby_init_code",
    "mruby_init_worker",
    "mruby_init_worker_code",
    "proxy_cache_path",
    "upstream",
}
# what the test's own server has
SERVER_DROPPED = {"listen", "root", "server_name"}


@dataclass
class Levels:
    """A configuration's parts by the level that they belong to."""

    main: list[str] = field(default_factory=list)
    http: list[str] = field(default_factory=list)
    server: list[str] = field(default_factory=list)
    servers: int = 0

    def take(self, text: str) -> Levels:
        """Sort the directives of a block that the documentation shows.

        The first server becomes a part of the test's own.
        """
        found = list(statements(text))
        with_server = any(s.words[0] in ("server", "http") for s in found)
        for statement in found:
            name = statement.words[0]
            if name == "load_module":
                self.main.append(statement.text)
            elif name == "http":
                assert statement.body is not None
                self.take(statement.body)
            elif name == "server":
                self._take_server(statement)
            elif name in HTTP_ONLY or with_server:
                self.http.append(statement.text)
            else:
                self.server.append(statement.text)
        return self

    def _take_server(self, server: Statement) -> None:
        assert server.body is not None
        self.servers += 1
        if self.servers > 1:
            self.http.append(server.text)
            return
        self.server += [
            s.text for s in statements(server.body) if s.words[0] not in SERVER_DROPPED
        ]


def with_paths(text: str) -> str:
    """Put the test's paths in the place of those of the documentation."""
    for path, ours in PATHS.items():
        text = re.sub(re.escape(path) + r"(?![\w.-])", ours, text)
    left = re.findall(r"(?<![\w%/])/(?:var|srv|run|etc|opt|usr|home)/\S*", text)
    assert not left, f"paths that are not in PATHS: {left}"
    return text


def image_filter(flavour: Flavour) -> Path | None:
    """Return the dynamic image_filter module of this nginx, if there is one."""
    told = subprocess.run(
        [flavour.binary, "-V"], capture_output=True, text=True, check=True
    ).stderr
    match = re.search(r"--modules-path=(\S+)", told)
    if match and "--with-http_image_filter_module=dynamic" in told:
        path = Path(match[1]) / "ngx_http_image_filter_module.so"
        return path if path.exists() else None
    return None


def prepare_ruby(site: Site, text: str) -> None:
    """Load the module for Ruby, and write the scripts that a text names."""
    load_ruby(site)
    folder = site.directory / "ruby"
    folder.mkdir(exist_ok=True)
    for name in re.findall(r"%%DIR%%/ruby/([\w.-]+)", text):
        (folder / name).write_text("1\n")


# the tables that the documentation's queries read
TABLES = {
    "production.sqlite3": (
        "CREATE TABLE documents (id INTEGER PRIMARY KEY, path, type, name, public)",
        "CREATE TABLE active_storage_blobs (id INT, key TEXT, filename, content_type)",
    ),
    "production_cache.sqlite3": (
        "CREATE TABLE solid_cache_entries (key, value, key_hash)",
    ),
}


def prepare_sqlite(site: Site) -> None:
    """Load the module for SQLite, and make databases without a row."""
    load_sqlite(site)
    folder = site.directory / "storage"
    folder.mkdir(exist_ok=True)
    for name, tables in TABLES.items():
        if not (folder / name).exists():
            run(folder / name, *tables)


def prepare_signed(site: Site, text: str) -> None:
    """Load the module for signatures, and write the keys that a text names."""
    load_signed(site)
    for folder in ("etc", "storage"):
        (site.directory / folder).mkdir(exist_ok=True)
    for name in re.findall(r"%%DIR%%/etc/([\w.-]+)", text):
        if not (site.directory / "etc" / name).exists():
            salt = " 00ff" if name.startswith("imgproxy") else ""
            write_keys(site, KEY.hex() + salt, name=f"etc/{name}")


def prepare(site: Site, block: Block) -> dict[str, str]:
    """Make a block into what Site.start and Site.check_config take.

    What a fragment leaves out is added: the store, the location that the
    files come from, a named location, the addresses of the application.
    """
    text = with_paths(block.text)
    main = ""
    if "mruby_" in text or "http_sendfile_ruby" in text:
        prepare_ruby(site, text)
    if "sqlite:" in text:
        prepare_sqlite(site)
    if "http_sendfile_signature" in text or "http_sendfile_activestorage" in text:
        prepare_signed(site, text)
    if "image_filter" in text:
        module = image_filter(site.flavour)
        if module is not None:
            main = f"load_module {module};"
        else:
            text = re.sub(r"^ *image_filter.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\binclude +(\w+_params);", r"include /etc/nginx/\1;", text)
    text = re.sub(r"\bserver +127\.0\.0\.1:\d+;", "server %%APP%%;", text)
    text = re.sub(r"\blisten +80;", "listen 127.0.0.1:%%PORT%%;", text)
    levels = Levels().take(text)
    if "http_sendfile_lookup" in text:
        site.variables["LOOKUP"] = ""
    if not re.search(r"location (\^~ )?/files\b", text):
        levels.server.append(INTERNAL)
    for name in sorted(set(re.findall(r"http_sendfile_fallback +(@\w+)", text))):
        if f"location {name}" not in text:
            levels.server.append(f"location {name} {{ return 404; }}")
    for name in sorted(set(re.findall(r"proxy_pass +http://(\w+)[;/]", text))):
        if f"upstream {name} " not in text:
            levels.http.append(f"upstream {name} {{ server %%APP%%; }}")
    return {
        "server": "\n".join(levels.server),
        "http": "\n".join(levels.http),
        "main": main,
    }
