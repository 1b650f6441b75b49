"""Servers and locations with what they inherit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sendfilectl.doctor.config import Config, Directive

# they stand many times on one level, and all of them count
_LISTS = {
    "http_sendfile_allow",
    "allow",
    "deny",
    "proxy_set_header",
    "fastcgi_param",
    "uwsgi_param",
    "scgi_param",
}

PASSES = ("proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass")

# what answers in place of nginx's files; none is inherited
_HANDLERS = (
    *PASSES,
    *("memcached_pass", "return", "stub_status", "http_sendfile_status"),
    *("empty_gif", "js_content", "perl", "content_by_lua_block"),
    *("content_by_lua_file", "mruby_content_handler", "mruby_content_handler_code"),
)

_BLOCKS = ("server", "location", "if", "limit_except", "types", "upstream")


@dataclass
class Level:
    """A server or a location.

    Attributes:
        block: its directive.
        server: the level of its server, itself for one.
        outer: the level around it; None for that of http.
        own: the directives on it, by name.
        locations: those in it.
    """

    block: Directive
    outer: Level | None
    server: Level | None = None
    own: dict[str, list[Directive]] = field(default_factory=dict)
    locations: list[Level] = field(default_factory=list)

    @property
    def is_location(self) -> bool:
        """Whether it is one, and not a server."""
        return self.block.name == "location"

    @property
    def modifier(self) -> str:
        """Of a location: "", "=", "^~", "~", "~*" or "@"."""
        first = self.block.arg()
        if len(self.block.args) > 1:
            return first
        for mark in ("^~", "~*", "~", "=", "@"):
            if first.startswith(mark):
                return mark
        return ""

    @property
    def uri(self) -> str:
        """Of a location, or its regular expression."""
        if len(self.block.args) > 1:
            return self.block.arg(1)
        return self.block.arg()[len(self.modifier) :]

    @property
    def is_regex(self) -> bool:
        """Whether it is a location by a regular expression."""
        return self.modifier.startswith("~")

    def all(self, name: str) -> list[Directive]:
        """The directives of a name that hold here: the nearest level's."""
        level: Level | None = self
        while level is not None:
            if name in level.own:
                return level.own[name]
            level = level.outer
        return []

    def one(self, name: str) -> Directive | None:
        """The directive of a name that holds here."""
        found = self.all(name)
        return found[-1] if found else None

    def value(self, name: str, default: str = "") -> str:
        """Its first argument."""
        found = self.one(name)
        return found.arg() if found else default

    def nearest(self, *names: str) -> Directive | None:
        """That of several names which stands nearest."""
        level: Level | None = self
        while level is not None:
            for name in names:
                if name in level.own:
                    return level.own[name][-1]
            level = level.outer
        return None

    @property
    def sendfile(self) -> bool:
        """Whether http_sendfile is on here."""
        return self.value("http_sendfile") == "on"

    @property
    def passes(self) -> Directive | None:
        """What asks an application here."""
        return next((self.own[name][0] for name in PASSES if name in self.own), None)

    @property
    def handled(self) -> bool:
        """Whether something else than nginx's files answers here."""
        return any(name in self.own for name in _HANDLERS)

    @property
    def internal(self) -> bool:
        """Whether no client can ask for it."""
        return "internal" in self.own or self.modifier == "@"

    @property
    def guarded(self) -> bool:
        """Whether nginx asks who it is, or whence, before it answers."""
        if any(found.arg() == "all" for found in self.all("deny")):
            return True
        if self.value("auth_basic", "off") != "off":
            return True
        if self.value("auth_request", "off") != "off":
            return True
        return any(
            self.one(name) is not None
            for name in ("auth_jwt", "http_sendfile_signature", "secure_link")
        )


def levels(config: Config) -> list[Level]:
    """The servers, with their locations in them."""
    found = []
    for http in config.tree.find("http"):
        top = _level(http, None, None)
        for block in http.find("server"):
            server = _level(block, top, None)
            server.server = server
            found.append(server)
    return found


def _level(block: Directive, outer: Level | None, server: Level | None) -> Level:
    level = Level(block, outer, server)
    for inner in block.block or ():
        if inner.name == "location" and block.name in ("server", "location"):
            continue
        if inner.name not in _BLOCKS:
            level.own.setdefault(inner.name, []).append(inner)
    if block.name in ("server", "location"):
        for inner in block.find("location"):
            level.locations.append(_level(inner, level, server or level))
    return level


def everything(servers: list[Level]) -> Iterator[Level]:
    """All servers and all locations in them."""
    waiting = list(reversed(servers))
    while waiting:
        level = waiting.pop()
        yield level
        waiting += reversed(level.locations)


def match(level: Level, uri: str) -> Level:
    """The location that nginx takes for a URI, or the server itself."""
    best: Level | None = None
    for location in level.locations:
        if location.modifier == "=" and location.uri == uri:
            return location
        if (
            location.modifier in ("", "^~")
            and uri.startswith(location.uri)
            and (best is None or len(location.uri) > len(best.uri))
        ):
            best = location
    inner = match(best, uri) if best is not None else None
    if inner is not None and (inner.is_regex or inner.modifier == "="):
        return inner
    if best is None or best.modifier != "^~":
        for location in level.locations:
            if location.is_regex and _fits(location, uri):
                return match(location, uri)
    return inner or best or level


def _fits(location: Level, uri: str) -> bool:
    flags = re.IGNORECASE if location.modifier == "~*" else 0
    try:
        return re.search(location.uri, uri, flags) is not None
    except re.error:
        # of PCRE alone
        return False


def directory(level: Level, prefix: str) -> tuple[str, str] | None:
    """Where a location's files are.

    Returns:
        A directory, and the part of the URI that stands for it; None if that is a
        variable's or a regular expression's to say.
    """
    found = level.nearest("alias", "root")
    path = found.arg() if found is not None else "html"
    if "$" in path:
        return None
    path = os.path.normpath(os.path.join(prefix, path))
    if found is None or found.name == "root":
        return path, "/"
    if level.is_regex or found not in level.own.get("alias", []):
        return None
    return path, level.uri
