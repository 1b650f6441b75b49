"""The configurations of the documentation, as cases."""

from __future__ import annotations

import re
from dataclasses import replace

from lib.documents import Block, blocks, documents, prepare, statements
from lib.memcached import Memcached
from lib.nginx import Flavour

from .actor import Actor, Store
from .case import Case, Outcome
from .clients import IDENTS, Listener
from .files import ALWAYS
from .generate import ACCEPTABLE, Features
from .setting import Guide, Keeping, Lookup, Place, Route

UUID = "00000000-0000-4000-8000-00000000000"

# nothing is known of how long a guide keeps something
LONG = Keeping("any", 1e9, 1e9, ("error", "timeout", "updating"), 1e6)

MEMCACHED = r"memcached://[\w.]+(?::\d+)?"

STATUS = """
server { listen 127.0.0.1:%%PORT:status%%;
    location /status { http_sendfile_status write; } }
"""

KEYS = tuple(
    f"{kind}{last}"
    for last in (*IDENTS, *(f"{UUID}{n}" for n in IDENTS))
    for kind in ("", "photo:", "doc:", "acme:", "globex:")
)


def guides() -> list[Block]:
    """Return the blocks that configure what this is about."""
    found = []
    for path in documents():
        if path.name.endswith(".ja.md"):
            continue
        for block in blocks(path, "nginx"):
            text = block.text
            wanted = re.search(r"http_sendfile +on|http_sendfile_accept +X", text)
            other = re.search(r"ruby|image_filter|resolver", text)
            if wanted and not other and "location" in text:
                found.append(block)
    return found


def templates(text: str) -> list[str]:
    """Return URLs, with {id}, that a configuration is for."""
    found = []
    for statement in statements(text):
        words, body = statement.words, statement.body
        if words[0] in ("server", "http") and body is not None:
            found += templates(body)
        elif words[0] == "rewrite":
            found.append("/attachments/{id}/download")
        elif words[0] == "location" and body is not None:
            inner = re.search(r"\binternal;|_status|auth|check", body + words[-1])
            if inner and "auth_request " not in body:
                continue
            found += _of_location(words[1:])
    return found


def _of_location(words: list[str]) -> list[str]:
    uri = words[-1].strip('"')
    if uri.startswith("@"):
        return []
    if words[0] == "=":
        return [uri + "?id={id}"]
    if words[0] in ("~", "~*"):
        if "[0-9a-f" in uri:
            return [f"/file/{UUID}{{id}}"]
        if "photo" in uri:
            return ["/photo/{id}"]
        return ["/file/{id}/name.jpg"]
    return [uri.rstrip("/") + "/{id}"]


class Both:
    """Two stores that have the same.

    Args:
        first: one of them.
        second: the other.
    """

    def __init__(self, first: Store, second: Store) -> None:
        self._stores = (first, second)

    def put(self, key: str, value: object) -> None:
        """Store a value."""
        for store in self._stores:
            store.put(key, value)

    def delete(self, key: str) -> None:
        """Remove a key."""
        for store in self._stores:
            store.delete(key)


class GuideCase(Case):
    """A block of the documentation, asked as any other.

    Args:
        flavour, seed, number, features, requests: as of ``Case``.
        block: which one.
    """

    def __init__(
        self,
        flavour: Flavour,
        seed: int,
        number: int,
        features: Features,
        requests: int,
        block: Block,
    ) -> None:
        super().__init__(flavour, seed, number, features, requests)
        self.block = block

    def _store(self) -> Store:
        if len(set(re.findall(MEMCACHED, self.block.text))) != 1:
            return self.site.store
        self.closing.append(Memcached(self.site.directory))
        return Both(self.site.store, self.closing[0])

    def _adapt(self, text: str) -> str:
        """Put our applications and files in the place of the guide's."""
        app = self._app("main", "http", "")
        text = text.replace("%%APP%%", app.gateway.address)
        for protocol in ("fastcgi", "uwsgi"):
            if f"{protocol}_pass" in text:
                address = self._app("main", protocol, "").gateway.address
                more = f"{protocol}_param DOCUMENT_URI $uri;"
                text = re.sub(
                    rf"{protocol}_pass\s+[^;]+;",
                    f"{protocol}_pass {address}; {more}",
                    text,
                )
        urls = set(re.findall(MEMCACHED, text))
        if len(urls) == 1:
            text = re.sub(MEMCACHED, self.closing[0].url, text)
        text = text.replace("%%DIR%%/tenants", "%%FILES%%/tenants")
        return re.sub(r"%%FILES%%(?!/tenants)", "%%FILES%%/plain", text)

    def _routes(self, place: Place) -> list[Route]:
        text = self.block.text
        accepts = re.findall(r"http_sendfile_accept\s+([^;]+);", text)
        guide = Guide(
            "",
            tuple(w for w in " ".join(accepts).split() if w in ACCEPTABLE),
            "/protected" if "/protected/" in text else "/files",
            tuple(re.findall(r"auth_request\s+(/[\w-]+);", text)),
            KEYS,
        )
        delivery = "tenant" if "/srv/tenants" in text else "root"
        lookup = Lookup("l0", "guide", delivery, LONG, True)
        found = []
        for n, template in enumerate(dict.fromkeys(templates(text))):
            route = Route(
                f"g{n}",
                str(self.block),
                "",
                text,
                {"main": place},
                lambda who: {"main"},
                lookup=lookup if "http_sendfile " in text else None,
                absolute=False,
                guide=replace(guide, template=template),
            )
            found.append(route)
        return found

    def _run(self) -> Outcome:
        self._trees()
        self.stores["l0"] = self._store()
        text = self.block.text
        parts = prepare(self.site, self.block)
        learn = "http_sendfile_learn " in text
        key = re.search(r'http_sendfile_learn_key\s+"?([^;"]+)"?;', text)
        place = self._honest(key[1] if key else "", learn)
        routes = self._routes(place)
        server = self._adapt(parts["server"])
        http = self._adapt(parts["http"]) + STATUS
        self.world.workers = self.chance.choice((1, 2))
        self.site.variables["WORKERS"] = str(self.world.workers)
        template = self.site.template(server, http, parts["main"])
        by_name = {r.name: r for r in routes}
        self.world.configs.append((by_name, ALWAYS))
        nginx = self.site.start_whole(template)
        actor = Actor(
            self.world,
            nginx,
            self._chance("actor"),
            self.stores,
            [(template, by_name)],
            self.features.learn_key,
            KEYS,
        )
        for name in KEYS:
            if self.chance.random() < 0.8:
                actor.put("l0", name)
        names = re.findall(r"\b[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|jp)\b", text)
        hosts = ("localhost", *dict.fromkeys(names))
        alone = self.chance.random() < 0.5
        self._let_ask(actor, (Listener("", hosts),), tuple(by_name), alone)
        while actor.chain:
            actor.chain.pop(0)()
        nginx.stop()
        return self._judge()

    def _honest(self, key: str, learn: bool) -> Place:
        """Return what the application of a guide goes by."""
        by = {"ident", "host"}
        for name in ("user", "encoding", "language"):
            if self.chance.random() < 0.15:
                by.add(name)
        return Place(
            "main",
            frozenset(by),
            learn,
            key,
            key_of="-" if "http_sendfile_key" in self.block.text else "",
            keeping=LONG,
        )


def guide_case(
    flavour: Flavour, seed: int, number: int, features: Features, requests: int
) -> Case:
    """Return the case of a number: the documentation's blocks in turn."""
    found = guides()
    block = found[(number + seed) % len(found)]
    return GuideCase(flavour, seed, number, features, requests, block)
