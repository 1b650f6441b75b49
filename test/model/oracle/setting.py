"""What a configuration says, as far as the model goes by it.

``Route`` is a set of URLs that are handled alike. It has the text of its
locations, and knows which applications may answer whom, what an answer is
learned for, which store is asked, and how long what is old may be served.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .files import safe
from .world import Who

DEFAULT_KEY = "$scheme://$http_host$request_uri"


@functools.cache
def accepted(header: str) -> str:
    """Return what $sendfile_accept_encoding is for an Accept-Encoding."""
    found = {}
    for part in header.split(","):
        name, _, rest = part.strip().partition(";")
        quality = re.fullmatch(r"\s*q=([0-9.]+)\s*", rest)
        found[name.strip().lower()] = float(quality[1]) if quality else 1.0
    for name in ("br", "gzip"):
        if found.get(name, 0.0) > 0:
            return name
    return ""


@functools.lru_cache(4096)
def expand(template: str, who: Who, target: str) -> str:
    """Return the value of a string with variables of the request."""
    uri, mark, args = target.partition("?")
    values = {
        "scheme": "http",
        "http_host": who.host,
        "host": who.authority or who.host,
        "request_uri": target,
        "uri": uri,
        "is_args": mark,
        "args": args,
        "cookie_user": who.user,
        "cookie_vip": "1" if who.vip else "",
        "http_accept_language": who.language,
        "http_accept_encoding": who.encoding,
        "sendfile_accept_encoding": accepted(who.encoding),
        "http_cookie": cookies(who),
        "tenant": who.tenant,
        "ident": who.ident,
        "sendfile_id": who.ident if who.ident.isdigit() else "",
    }
    return re.sub(r"\$(\w+)", lambda m: values[m[1]], template)


def cookies(who: Who) -> str:
    """Return the header Cookie, or nothing."""
    parts = [f"user={who.user}", f"session={who.user}"] if who.user else []
    return "; ".join([*parts, "vip=1"] if who.vip else parts)


@dataclass(frozen=True)
class Keeping:
    """How long what was read may be used.

    Args:
        zone: the cache's, or empty.
        valid: seconds of a record.
        negative: seconds of a miss.
        stale: words of http_sendfile_cache_use_stale.
        check: seconds of http_sendfile_cache_check.
        body: of http_sendfile_cache_body, or empty.
    """

    zone: str = ""
    valid: float = 60.0
    negative: float = 1.0
    stale: tuple[str, ...] = ("error", "timeout", "updating")
    check: float = 1.0
    body: str = ""

    def text(self, direct: bool) -> str:
        """Return the directives.

        Args:
            direct: files are sent from a root.
        """
        if not self.zone:
            return ""
        parts = [
            f"http_sendfile_cache {self.zone};",
            f"http_sendfile_cache_valid 200 {self.valid:g}s;",
            f"http_sendfile_cache_valid 404 {self.negative:g}s;",
            f"http_sendfile_cache_use_stale {' '.join(self.stale) or 'off'};",
            f"http_sendfile_cache_check {self.check:g}s;",
        ]
        if self.body and direct:
            parts.append(f"http_sendfile_cache_body {self.body};")
        return " ".join(parts)


@dataclass(frozen=True)
class Place:
    """A location that asks an application.

    Args:
        role: which application.
        by: what it goes by: names of ``Who``'s fields.
        learn: whether http_sendfile_learn is on.
        key: of http_sendfile_learn_key, empty by default.
        in_if: it is an ``if`` block, with a key of its own or without.
        ignore: headers of proxy_ignore_headers.
        key_of: http_sendfile_key there, or empty.
        teaches: False where an answer is that of another than the application
            that was asked, such as an error page's.
        keeping: as it says.
        tree: where its files lie.
    """

    role: str
    by: frozenset[str]
    learn: bool = False
    key: str = ""
    in_if: bool = False
    ignore: frozenset[str] = frozenset()
    key_of: str = ""
    teaches: bool = True
    keeping: Keeping = Keeping()
    tree: str = "plain"
    stored: bool = False

    def label(self, route: str, who: Who) -> str:
        """Return whom an answer to somebody is for."""
        parts = [self.role, route]
        for name in sorted(self.by):
            value = str(getattr(who, name))
            if name == "encoding" and "$http_accept_encoding" not in self.key:
                value = accepted(value)
            if name == "host" and not self.key:
                value += who.other_host
            parts.append(f"{name}={value}")
        return safe(",".join(parts))

    def shareable(self) -> bool:
        """Tell whether who has the same key gets the same answer.

        Authorization is left out: what it is asked for with is not learned,
        unless the answer says ``public``.
        """
        missing = set(self.by) - {"listener", "server", "auth"}
        key = self.key or DEFAULT_KEY
        said = set(re.findall(r"\$(\w+)", key))
        if "request_uri" in said or {"uri", "args"} <= said:
            missing -= {"tenant", "ident", "args"}
        if "sendfile_id" in said:
            missing -= {"ident"}
        if "uri" in said:
            missing -= {"tenant", "ident"}
        if said & {"http_host", "host"}:
            missing -= {"host"}
        if "cookie_user" in said:
            missing -= {"user"}
        if "http_cookie" in said:
            missing -= {"user", "vip"}
        if "cookie_vip" in said or self.role == "vip" and self.in_if:
            missing -= {"vip"}
        if "http_accept_language" in said:
            missing -= {"language"}
        if said & {"http_accept_encoding", "sendfile_accept_encoding"}:
            missing -= {"encoding"}
        return not missing

    def vary(self) -> set[str]:
        """Return the headers of a request that the application goes by."""
        headers = {
            "user": "Cookie",
            "vip": "Cookie",
            "encoding": "Accept-Encoding",
            "language": "Accept-Language",
        }
        return {headers[name] for name in self.by if name in headers}

    def names(self, header: str) -> bool:
        """Tell whether the learn key names a header that an answer varies by."""
        wanted = {f"http_{header.lower().replace('-', '_')}"}
        if header.lower() == "accept-encoding":
            wanted.add("sendfile_accept_encoding")
        return bool(wanted & set(re.findall(r"\$(\w+)", self.key)))

    def learn_key(self, who: Who, target: str) -> str:
        """Return what an answer to somebody is learned for."""
        if self.key:
            return expand(self.key, who, target)
        return expand(DEFAULT_KEY, who, target) + who.other_host

    def url(self, who: Who, target: str) -> str:
        """Return the URL that a purge names the answer by, if there is one."""
        return "" if who.other_host else expand(DEFAULT_KEY, who, target)

    def ident(self, who: Who, target: str) -> str:
        """Return the ID that a purge names the answer by, or empty."""
        if self.key_of:
            return expand(self.key_of, who, target)
        last = target.partition("?")[0].rpartition("/")[2]
        return last if re.fullmatch(r"\d{1,20}", last) else ""


@dataclass(frozen=True)
class Lookup:
    """A location that asks a store.

    Args:
        store: which one.
        key: of http_sendfile_key.
        delivery: ``prefix``, ``root``, ``tenant`` or ``current``.
        keeping: as it says.
        fallback: there is an application behind it.
    """

    store: str
    key: str
    delivery: str
    keeping: Keeping
    fallback: bool

    def label(self, key: str, who: Who) -> str:
        """Return whom a record's file is for."""
        tenant = f",{who.tenant}" if self.delivery == "tenant" else ""
        return safe(f"store,{self.store},{key}{tenant}")

    def tree(self, who: Who) -> str:
        """Return where the files of somebody lie."""
        if self.delivery == "tenant":
            return f"tenants/{who.tenant}"
        return "current" if self.delivery == "current" else "plain"


@dataclass(frozen=True)
class Guide:
    """A configuration of the documentation.

    Args:
        template: of URLs, with {id}.
        accepts: headers that name a file there.
        internal: where X-Accel-Redirect leads to.
        checks: URIs that auth_request names.
        keys: of its store, each with the part of it that URLs have.
    """

    template: str
    accepts: tuple[str, ...]
    internal: str
    checks: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """URLs that are handled alike.

    Args:
        name: the first segment of the URLs.
        kind: by which it was made.
        http: directives for the level http.
        server: locations.
        places: of the applications, by their role.
        roles: which of them may answer somebody.
        lookup: in a store, before them.
        auth: an application is asked for the permission first.
        page: what its pages include, for SSI.
        cached: proxy_cache is in front of the applications.
        args: whether there are arguments in its URLs.
        absolute: whether clients write absolute URIs.
        words: URIs that an application redirects to.
        guide: it is of a guide.
        inner: the tenant that has a location of its own.
    """

    name: str
    kind: str
    http: str
    server: str
    places: dict[str, Place]
    roles: Callable[[Who], set[str]]
    lookup: Lookup | None = None
    auth: bool = False
    page: bool = False
    cached: bool = False
    absolute: bool = True
    words: tuple[str, ...] = field(default=())
    guide: Guide | None = None
    inner: str = ""

    def where(self, who: Who) -> tuple[str, str, bool]:
        """Return which socket, server and inner location somebody asks."""
        return who.listener, who.server, who.tenant == self.inner

    @property
    def by_id(self) -> bool:
        """Whether a key has nothing of the URI but the ID."""
        return any("$sendfile_id" in place.key for place in self.places.values())

    def target(self, who: Who) -> str:
        """Return the URI that somebody asks for."""
        args = f"?{who.args}" if who.args else ""
        if self.guide is not None:
            return self.guide.template.format(id=who.ident)
        return f"/{self.name}/{who.tenant}/{who.ident}{args}"

    def expected(self, who: Who) -> dict[str, str]:
        """Return the labels that may be in an answer, by role."""
        return {
            role: self.places[role].label(self.name, who)
            for role in self.roles(who)
            if role in self.places
        }
