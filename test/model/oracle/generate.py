"""Random configurations, of what people write."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lib.gateway import PREFIXES

from .setting import Keeping, Lookup, Place, Route
from .world import Who

ACCEPT = (
    "http_sendfile_accept X-Sendfile X-Accel-Redirect;"
    " http_sendfile_allow %%FILES%%/plain; http_sendfile_allow %%FILES%%/current;"
)
ACCEPTABLE = ("X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect")
TENANTS = ("acme", "globex")
ZONES = ("za", "zb")

# how the model's names are spelled in a configuration: where captures have them
KEYS = (
    "",
    "",
    "",
    "$scheme://$http_host$request_uri",
    "$host$uri$is_args$args",
    "$request_uri",
    "file-$sendfile_id",
    "$http_host$request_uri $http_accept_language",
    "$http_host$request_uri $sendfile_accept_encoding",
    "$http_host$request_uri $http_accept_encoding",
    "$http_host$request_uri $cookie_user",
    "$http_host$request_uri $http_cookie",
    "$http_host$request_uri $http_accept_language $sendfile_accept_encoding",
)


@dataclass
class Features:
    """What the nginx under test knows.

    Args:
        learn_key: http_sendfile_learn_key and what came with it.
    """

    learn_key: bool


@dataclass
class Generator:
    """Makes routes.

    Args:
        chance: what is random about them.
        features: what may be written.
        passes: returns the directives that lead to a role, by protocol.
        stores: their names and what http_sendfile_lookup says.
    """

    chance: random.Random
    features: Features
    passes: Callable[[str, str], str]
    stores: dict[str, str]
    http: list[str] = field(default_factory=list)

    # parts

    def _maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def keeping(self, needed: bool = False) -> Keeping:
        """Return how long something is kept."""
        words = ("error", "timeout", "updating")
        stale = [w for w in words if self._maybe(0.5)]
        return Keeping(
            zone=self.chance.choice(ZONES) if needed or self._maybe(0.75) else "",
            valid=self.chance.choice((0, 1, 1, 2, 60, 3600)),
            negative=self.chance.choice((0, 1, 1, 60)),
            stale=words if self._maybe(0.4) else tuple(stale),
            check=self.chance.choice((0, 1, 1, 1, 30, 3600)),
            body=self.chance.choice(("", "4k", "20k")),
        )

    def place(self, role: str = "main", key: str | None = None) -> Place:
        """Return a place of an application."""
        by = {"ident"}
        for name, probability in (
            ("tenant", 0.8),
            ("listener", 0.5),
            ("server", 0.5),
            ("host", 0.4),
            ("args", 0.4),
            ("user", 0.15),
            ("auth", 0.08),
            ("encoding", 0.15),
            ("language", 0.15),
        ):
            if self._maybe(probability):
                by.add(name)
        if key is None:
            key = self.chance.choice(KEYS) if self.features.learn_key else ""
        if key and "request_uri" not in key and "args" not in key:
            by.discard("args")
        if "$sendfile_id" in key:
            by -= {"tenant", "host"}
        learn = self._maybe(0.85)
        place = Place(
            role=role,
            by=frozenset(by),
            learn=learn,
            key=key,
            keeping=self.keeping(needed=learn),
            tree="current" if self._maybe(0.2) else "plain",
        )
        if place.shareable() and self.features.learn_key and self._maybe(0.1):
            ignored = ["X-Accel-Expires"]
            if self._maybe(0.5):
                ignored.append("Expires")
            place = replace(place, ignore=frozenset(ignored))
        return place

    def protocol(self) -> str:
        """Return how an application is asked."""
        return self.chance.choice(
            ("http", "http", "http", "fastcgi", "fastcgi", "uwsgi", "scgi")
        )

    def settings(self, place: Place, protocol: str, more: str = "") -> str:
        """Return the directives of a place."""
        parts = [ACCEPT]
        if place.learn:
            parts.append("http_sendfile_learn on;")
        if place.key:
            parts.append(f'http_sendfile_learn_key "{place.key}";')
        if not place.stored:
            parts.append(place.keeping.text(direct=True))
        if place.ignore:
            words = " ".join(sorted(place.ignore))
            parts.append(f"{PREFIXES[protocol]}_ignore_headers {words};")
        parts += [more, self.passes(place.role, protocol)]
        return "\n        ".join(p for p in parts if p)

    def route(self, name: str, kind: str | None = None) -> Route:
        """Return a route of a random kind."""
        kinds: dict[str, Callable[[str], Route]] = {
            "plain": self.plain,
            "front_try": self.front_try,
            "front_rewrite": self.front_rewrite,
            "front_named": self.front_named,
            "rewrite_break": self.rewrite_break,
            "regex": self.regex,
            "ifs": self.ifs,
            "ifs_set": self.ifs_set,
            "nested": self.nested,
            "maps": self.maps,
            "error_own": self.error_own,
            "error_front": self.error_front,
            "auth": self.auth,
            "second": self.second,
            "cached": self.cached,
            "ssi": self.ssi,
            "mirror": self.mirror,
            "store": self.store,
            "store_named": self.store_named,
            "store_pass": self.store_pass,
            "store_only": self.store_only,
        }
        if kind is None:
            kind = self.chance.choice(list(kinds))
        return kinds[kind](name)

    def _route(
        self, name: str, kind: str, server: str, *places: Place, **more: object
    ) -> Route:
        by_role = {place.role: place for place in places}
        roles = set(by_role)
        route = Route(
            name,
            kind,
            "",
            server,
            by_role,
            lambda who: roles,
            absolute=not any(place.key for place in places),
        )
        return replace(route, **more)  # type: ignore[arg-type]

    # kinds

    def plain(self, name: str) -> Route:
        """An application in a prefix location."""
        place = self.place()
        text = f"location /{name}/ {{\n{self.settings(place, self.protocol())}\n}}"
        return self._route(name, "plain", text, place)

    def front_try(self, name: str) -> Route:
        """A front controller behind try_files."""
        place = self.place()
        place = rewritten(place)
        text = (
            f"location /{name}/ {{ try_files $uri /{name}.php?$args; }}\n"
            f"location = /{name}.php {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "front_try", text, place)

    def front_rewrite(self, name: str) -> Route:
        """A front controller behind rewrite."""
        place = self.place()
        place = rewritten(place)
        tail = self.chance.choice(("", "?", "?page=1"))
        text = (
            f"location /{name}/ {{ rewrite ^ /{name}.php{tail} last; }}\n"
            f"location = /{name}.php {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "front_rewrite", text, place)

    def front_named(self, name: str) -> Route:
        """A named location behind try_files."""
        place = self.place()
        text = (
            f"location /{name}/ {{ try_files $uri @{name}; }}\n"
            f"location @{name} {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "front_named", text, place)

    def rewrite_break(self, name: str) -> Route:
        """A tenant that is taken out of the path."""
        place = self.place()
        place = rewritten(place)
        settings = self.settings(place, self.protocol())
        text = (
            f"location ~ ^/{name}/(?<{name}t>[^/]+)/ {{\n"
            f"        rewrite ^/{name}/[^/]+/(.*)$ /{name}/$1 break;\n{settings}\n}}"
        )
        return self._route(name, "rewrite_break", text, place)

    def regex(self, name: str) -> Route:
        """A regex location with captures, and a key of them."""
        place = self.place()
        more = ""
        if self._maybe(0.5):
            place = replace(place, key_of="$tenant:$ident")
            more = f"http_sendfile_key ${name}t:${name}i;"
        text = (
            f"location ~ ^/{name}/(?<{name}t>[^/]+)/(?<{name}i>[^/]+)$ {{\n"
            f"        {self.settings(place, self.protocol(), more)}\n}}"
        )
        return self._route(name, "regex", text, place)

    def ifs(self, name: str) -> Route:
        """Another application for some, chosen by an ``if``."""
        return self.with_if(name, self.place())

    def with_if(self, name: str, place: Place, protocol: str = "http") -> Route:
        """Return ``plain`` with an ``if`` block."""
        key = ""
        said = ""
        if self.features.learn_key and self._maybe(0.5):
            key = place.key or "$scheme://$http_host$request_uri"
            said = f'http_sendfile_learn_key "{key}";'
        by = place.by - {"user", "auth", "encoding", "language"} | {"vip"}
        vip = replace(place, role="vip", by=by, key=key, in_if=True)
        inner = self.passes("vip", protocol)
        text = (
            f"location /{name}/ {{\n{self.settings(place, protocol)}\n"
            f"        if ($cookie_vip) {{ {said} {inner} }}\n}}"
        )
        return self._route(
            name,
            "ifs",
            text,
            place,
            vip,
            roles=lambda who: {"vip"} if who.vip else {"main"},
        )

    def ifs_set(self, name: str) -> Route:
        """Another application for some, in a variable that an ``if`` sets."""
        place = self.place(key="")
        place = replace(place, by=place.by | {"vip"})
        vip = replace(place, role="vip", in_if=True)
        main_to = self.passes("main", "http").split("http://")[1].rstrip(";")
        vip_to = self.passes("vip", "http").split("http://")[1].rstrip(";")
        settings = self.settings(place, "http")
        settings = settings.replace(f"http://{main_to};", f"http://${name}b;")
        text = (
            f"location /{name}/ {{\n        set ${name}b {main_to};\n"
            f"        if ($cookie_vip) {{ set ${name}b {vip_to}; }}\n{settings}\n}}"
        )
        return self._route(
            name,
            "ifs_set",
            text,
            place,
            vip,
            roles=lambda who: {"vip"} if who.vip else {"main"},
        )

    def nested(self, name: str) -> Route:
        """Locations within a location, which inherit from it."""
        place = self.place()
        protocol = self.protocol()
        passes = self.passes(place.role, protocol)
        outer = self.settings(place, protocol).replace(passes, "")
        other = self.chance.choice(TENANTS)
        text = (
            f"location /{name}/ {{\n{outer}\n"
            f"        location ^~ /{name}/{other}/ {{ {passes} }}\n"
            f"        location ~ ^/{name}/ {{ {passes} }}\n}}"
        )
        return self._route(name, "nested", text, place, inner=other)

    def maps(self, name: str) -> Route:
        """Another application for some, chosen by a map."""
        place = self.place(key="")
        if self.features.learn_key and self._maybe(0.7):
            place = replace(place, key="$http_host$request_uri $cookie_vip")
        place = replace(place, by=place.by | {"vip"})
        vip = replace(place, role="vip")
        main_to = self.passes("main", "http").split("http://")[1].rstrip(";")
        vip_to = self.passes("vip", "http").split("http://")[1].rstrip(";")
        http = f"map $cookie_vip ${name}b {{ default {main_to}; 1 {vip_to}; }}"
        settings = self.settings(place, "http")
        settings = settings.replace(f"http://{main_to};", f"http://${name}b;")
        return self._route(
            name,
            "maps",
            f"location /{name}/ {{\n{settings}\n}}",
            place,
            vip,
            http=http,
            roles=lambda who: {"vip"} if who.vip else {"main"},
        )

    def error_own(self, name: str) -> Route:
        """An error page that is another application's."""
        place = self.place()
        protocol = self.protocol()
        error = replace(self.place("error"), teaches=False)
        code = self.chance.choice(("=", "=404", ""))
        intercept = f"{PREFIXES[protocol]}_intercept_errors on;"
        named = self._maybe(0.5)
        where = f"@{name}" if named else f"/{name}err"
        text = (
            f"location /{name}/ {{\n{self.settings(place, protocol, intercept)}\n"
            f"        error_page 404 500 502 503 504 {code} {where};\n}}\n"
            f"location {'' if named else '= '}{where} {{\n"
            f"{self.settings(error, self.protocol())}\n}}"
        )
        return self._route(name, "error_own", text, place, error)

    def error_front(self, name: str) -> Route:
        """A front controller as the page for a file that is missing."""
        place = replace(self.place(), teaches=False)
        text = (
            f"location /{name}/ {{ error_page 404 = @{name}; log_not_found off; }}\n"
            f"location @{name} {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "error_front", text, place)

    def auth(self, name: str) -> Route:
        """An application is asked whether somebody may."""
        place = self.place()
        place = replace(place, by=place.by - {"auth"})
        check = self.passes("auth", "http")
        text = (
            f"location /{name}/ {{\n        auth_request /{name}auth;\n"
            f"{self.settings(place, self.protocol())}\n}}\n"
            f"location = /{name}auth {{ internal; proxy_pass_request_body off;"
            f' proxy_set_header Content-Length ""; {check} }}'
        )
        return self._route(name, "auth", text, place, auth=True)

    def second(self, name: str) -> Route:
        """X-Accel-Redirect to a second application."""
        place = self.place()
        second = replace(self.place("second"), teaches=False)
        text = (
            f"location /{name}/ {{\n{self.settings(place, self.protocol())}\n}}\n"
            f"location ^~ /{name}second/ {{ internal;\n"
            f"{self.settings(second, self.protocol())}\n}}"
        )
        return self._route(
            name, "second", text, place, second, words=(f"/{name}second/x",)
        )

    def cached(self, name: str) -> Route:
        """proxy_cache before the application."""
        place = self.place()
        key = "$scheme$host$http_host$server_port$request_uri$http_cookie$http_authorization"
        more = (
            f'proxy_cache pages; proxy_cache_key "{key}$http_accept_language'
            '$http_accept_encoding"; proxy_cache_valid 404 1s;'
        )
        text = f"location /{name}/ {{\n{self.settings(place, 'http', more)}\n}}"
        return self._route(name, "cached", text, place, cached=True)

    def ssi(self, name: str) -> Route:
        """Pages that include what the same location has."""
        place = self.place(key="")
        by = (place.by | {"tenant"}) - {"args"}
        place = replace(place, by=by, tree="plain")
        text = (
            f"location /{name}/ {{\n        ssi on; ssi_types *;\n"
            f"{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "ssi", text, place, page=True)

    def mirror(self, name: str) -> Route:
        """A mirror, whose answers are nobody's."""
        place = self.place()
        other = replace(self.place("mirror"), teaches=False)
        text = (
            f"location /{name}/ {{\n        mirror /{name}mirror;\n"
            f"        {self.settings(place, self.protocol())}\n}}\n"
            f"location = /{name}mirror {{ internal;\n"
            f"{self.settings(other, self.protocol())}\n}}"
        )
        route = self._route(name, "mirror", text, place, other)
        return replace(route, roles=lambda who: {"main"})

    # with a store

    def lookup(self, fallback: bool) -> Lookup:
        """Return what asks a store."""
        return Lookup(
            store=self.chance.choice(list(self.stores)),
            key=self.chance.choice(("$sendfile_id", "$tenant:$ident")),
            delivery=self.chance.choice(
                ("prefix", "root", "root", "tenant", "current")
            ),
            keeping=self.keeping(),
            fallback=fallback,
        )

    def looked_up(self, name: str, lookup: Lookup) -> str:
        """Return the directives that ask a store."""
        root = {
            "prefix": "http_sendfile_prefix /int/plain;",
            "root": "http_sendfile_root %%FILES%%/plain;",
            "tenant": f"http_sendfile_root %%FILES%%/tenants/${name}t;",
            "current": "http_sendfile_root %%FILES%%/current;",
        }[lookup.delivery]
        parts = [
            "http_sendfile on; http_sendfile_timeout 20s;",
            f"http_sendfile_lookup {self.stores[lookup.store]};",
            root,
            lookup.keeping.text(lookup.delivery != "prefix"),
        ]
        if lookup.key != "$sendfile_id":
            parts.append(f"http_sendfile_key ${name}t:${name}i;")
        return "\n        ".join(parts)

    def _captures(self, name: str) -> str:
        return f"location ~ ^/{name}/(?<{name}t>[^/]+)/(?<{name}i>[^/]+)$"

    def _behind(self, lookup: Lookup, inherits: bool) -> Place:
        place = self.place()
        if inherits:
            place = replace(place, keeping=lookup.keeping, stored=True)
            place = replace(place, learn=place.learn and bool(lookup.keeping.zone))
            if lookup.key != "$sendfile_id":
                place = replace(place, key_of=lookup.key)
        return place

    def store(self, name: str) -> Route:
        """A store, and the application as the location's handler."""
        lookup = self.lookup(True)
        place = self._behind(lookup, True)
        settings = self.settings(place, self.protocol(), self.looked_up(name, lookup))
        text = f"{self._captures(name)} {{\n        {settings}\n}}"
        return self._route(name, "store", text, place, lookup=lookup)

    def store_pass(self, name: str) -> Route:
        """A store, and another location as the fallback."""
        lookup = self.lookup(True)
        place = self._behind(lookup, False)
        place = rewritten(place)
        text = (
            f"{self._captures(name)} {{\n        {self.looked_up(name, lookup)}\n"
            f"        http_sendfile_fallback /{name}app;\n}}\n"
            f"location = /{name}app {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "store_pass", text, place, lookup=lookup)

    def store_named(self, name: str) -> Route:
        """A store, and a named location as the fallback."""
        lookup = self.lookup(True)
        place = self._behind(lookup, False)
        text = (
            f"{self._captures(name)} {{\n        {self.looked_up(name, lookup)}\n"
            f"        http_sendfile_fallback @{name};\n}}\n"
            f"location @{name} {{\n{self.settings(place, self.protocol())}\n}}"
        )
        return self._route(name, "store_named", text, place, lookup=lookup)

    def store_only(self, name: str) -> Route:
        """A store, and nothing behind it."""
        lookup = self.lookup(False)
        text = f"{self._captures(name)} {{\n        {self.looked_up(name, lookup)}\n}}"
        return self._route(name, "store_only", text, lookup=lookup)


def rewritten(place: Place) -> Place:
    """Return a place behind a rewrite, where $uri is another."""
    if "$uri" in place.key or "$sendfile_id" in place.key:
        return replace(place, key="")
    return place


def whose(who: Who) -> str:
    """Return who asks, in few words."""
    words = [who.listener, who.host]
    for name in ("authority", "user", "auth", "encoding", "language"):
        if value := getattr(who, name):
            words.append(f"{name}={value}")
    return " ".join([*words, "vip"] if who.vip else words)
