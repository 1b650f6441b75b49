"""What happens while clients ask: purges, changes, deaths and reloads."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from lib import client
from lib.memcached import Memcached
from lib.nginx import Nginx
from lib.wait import wait_until

from .clients import IDENTS
from .files import Span
from .generate import TENANTS
from .setting import Route
from .world import Purged, Sent, World


class Store(Protocol):
    """What records are put into."""

    def put(self, key: str, value: object) -> None:
        """Store a value."""

    def delete(self, key: str) -> None:
        """Remove a key."""


@dataclass
class Actor:
    """Does things to a world.

    Args:
        world: which one.
        nginx: the server.
        chance: what is random about it.
        stores: by their names.
        variants: configurations to reload to: text and routes.
        url_purges: a purge may name a URL.
        keys: of the stores, instead of IDs with and without a tenant.
        chain: what is done next, before anything random.
        publish: makes another store in the place of ``l0``, if that can be.
    """

    world: World
    nginx: Nginx
    chance: random.Random
    stores: dict[str, Store]
    variants: list[tuple[str, dict[str, Route]]]
    url_purges: bool
    keys: tuple[str, ...] = ()
    reloads: int = 1
    chain: list[Callable[[], None]] = field(default_factory=list)
    publish: Callable[[dict[str, object]], Callable[[], None]] | None = None

    def act(self) -> None:
        """Do one thing."""
        if self.chain:
            self.chain.pop(0)()
            return
        choices: list[tuple[int, Callable[[], None]]] = [
            (6, self.purge_id),
            (1, self.purge_all),
            (6, self.replace),
            (5, self.edition),
            (5, self.store),
            (2, self.switch),
            (1, self.kill),
            (1, self.reload),
            (2, self.pass_time),
        ]
        if self.publish is not None:
            choices.append((1, self.swap))
        if self.url_purges:
            choices.append((5, self.purge_url))
        total = sum(weight for weight, _ in choices)
        at = self.chance.randrange(total)
        for weight, action in choices:
            at -= weight
            if at < 0:
                action()
                return

    def _recent(self) -> Sent | None:
        """Return a request that was answered lately."""
        with self.world.lock:
            recent = list(self.world.sent.values())[-8:]
        answered = [s for s in recent if s.response is not None]
        return self.chance.choice(answered) if answered else None

    # purges

    def _purge(self, kind: str, what: str, target: str) -> None:
        begin = time.monotonic()
        response = client.request(self.nginx.port_of("status"), "DELETE", target)
        span = Span(begin, time.monotonic())
        if response.status != 200 or "purged" not in json.loads(response.body):
            self.world.trouble.append(f"DELETE {target}: {response}")
            return
        with self.world.lock:
            self.world.purges.append(Purged(kind, what, span))
        self.world.done(f"purged {kind} {what}", what, "purge", begin=begin)

    def ident(self) -> str:
        """Return a key of a store; often of what was asked lately."""
        recent = self._recent()
        if recent is not None and self.chance.random() < 0.6:
            who = recent.who
            if self.keys:
                fits = [k for k in self.keys if k.endswith(who.ident)]
                return self.chance.choice(fits)
            if who.ident in IDENTS and who.tenant in TENANTS:
                return self.chance.choice((who.ident, f"{who.tenant}:{who.ident}"))
        if self.keys:
            return self.chance.choice(self.keys)
        ident = self.chance.choice(IDENTS)
        if self.chance.random() < 0.4:
            return f"{self.chance.choice(TENANTS)}:{ident}"
        return ident

    def purge_id(self) -> None:
        """Purge an ID."""
        what = self.ident()
        self._purge("id", what, f"/status/cache/{quote(what)}")

    def purge_all(self) -> None:
        """Purge everything."""
        self._purge("all", "", "/status/cache")

    def purge_url(self) -> None:
        """Purge the URL of something that was asked."""
        with self.world.lock:
            recent = list(self.world.sent.values())[-30:]
        urls = []
        routes = self.world.configs[-1][0]
        for sent in recent:
            for place in routes[sent.route].places.values():
                if url := place.url(sent.who, sent.target):
                    urls.append(url)
        if urls:
            url = self.chance.choice(urls)
            self._purge("url", url, f"/status/cache?url={quote(url, safe='')}")

    # changes

    def replace(self) -> None:
        """Put another file in a file's place, and purge its ID sometimes."""
        paths = [
            path
            for path in self.world.files.paths()
            if "page" not in path and "tenant=page" not in path
        ]
        if not paths:
            return
        path = self._served(paths)
        version = self.world.files.replace(path)
        self.world.done(f"replaced by {version}", path)
        self._maybe_purge()

    def _served(self, paths: list[str]) -> str:
        """Return one of the files, often one that was sent lately."""
        recent = self._recent()
        if recent is not None and self.chance.random() < 0.7:
            assert recent.response is not None
            version = self.world.files.of_size(len(recent.response.body))
            if version is not None and version.path in paths:
                return version.path
        return self.chance.choice(paths)

    def _maybe_purge(self) -> None:
        """Let a purge follow, of what was asked lately, or of everything."""
        if self.chance.random() < 0.5:
            self.chain.append(self.purge_id)
        elif self.chance.random() < 0.3:
            self.chain.append(self.purge_all)

    def edition(self) -> None:
        """Let an application have another file for somebody."""
        with self.world.lock:
            labels = [label for label in self.world.editions if "=page" not in label]
        if not labels:
            return
        label = self.chance.choice(sorted(labels))
        role, name = label.split(",")[:2]
        place = self.world.configs[-1][0][name].places.get(role)
        if place is None:
            return
        begin = time.monotonic()
        record = self.world.bump(label, place.tree)
        self.world.done(f"{label} is {record.path} now", label, begin=begin)
        self._maybe_purge()

    def store(self) -> None:
        """Change what a store has under a key."""
        store = self.chance.choice(sorted(self.stores))
        if self.world.down.get(store) and self.world.down[store][-1].end > 1e12:
            return
        key = self.ident()
        if self.chance.random() < 0.2:
            found = self.world.records.get((store, key))
            if found and found[-1].path is not None:
                self.world.write_record(
                    store, key, None, lambda: self.stores[store].delete(key)
                )
        else:
            self.put(store, key)
        self._maybe_purge()

    def put(self, store: str, key: str) -> None:
        """Write a record with files of its own."""
        name, value = self._value(store, key)
        self.world.write_record(
            store, key, name, lambda: self.stores[store].put(key, value)
        )

    def swap(self) -> None:
        """Put another store in the place of the LMDB store."""
        assert self.publish is not None
        names: dict[str, str] = {}
        values: dict[str, object] = {}
        for _ in range(6):
            key = self.ident()
            names[key], values[key] = self._value("l0", key)
        replace = self.publish(values)
        begin = time.monotonic()
        replace()
        span = self.world.done(f"l0 is another store, with {names}", begin=begin)
        with self.world.lock:
            known = [key for store, key in self.world.records if store == "l0"]
            for key in {*known, *names}:
                self.world.note_record("l0", key, names.get(key), span, swapped=True)
        self._maybe_purge()

    def _value(self, store: str, key: str) -> tuple[str, object]:
        """Write the files of a record, and return their name and the value."""
        edition = len(self.world.records.get((store, key), []))
        name = f"rec/{store}.{key}.{edition}.dat"
        label = f"store,{store},{key}"
        self.world.files.put(name, label, edition, "plain")
        self.world.files.put(name, label, edition, "current")
        for tenant in TENANTS:
            self.world.files.put(
                name, f"{label},{tenant}", edition, f"tenants/{tenant}"
            )
        value: object = name
        if self.chance.random() < 0.4:
            value = {"path": name, "headers": {"Link": f"<{edition}>"}}
        return name, value

    def switch(self) -> None:
        """Let ``current`` lead to the other tree; a purge follows often."""
        root = self.world.files.root
        to = 1 - self.world.current[-1][0]
        other = root / "current.new"
        begin = time.monotonic()
        other.symlink_to(f"rel{to}")
        other.rename(root / "current")
        span = self.world.done(f"current leads to rel{to}", "current", begin=begin)
        with self.world.lock:
            self.world.current.append((to, span))
        if self.chance.random() < 0.7:
            self.chain.append(self.purge_all)

    # deaths

    def kill(self) -> None:
        """Kill a memcached, and let it return some steps later."""
        names = [n for n, s in self.stores.items() if isinstance(s, Memcached)]
        if not names:
            return
        name = self.chance.choice(names)
        store = self.stores[name]
        assert isinstance(store, Memcached)
        begin = time.monotonic()
        with self.world.lock:
            self.world.down.setdefault(name, []).append(Span(begin, float("inf")))
        store.kill()
        self.world.done(f"store {name} is killed", name, begin=begin)

        def revive() -> None:
            # it may answer before start() returns
            back = time.monotonic()
            with self.world.lock:
                for (of, _), found in self.world.records.items():
                    if of == name and found[-1].path is not None:
                        found[-1].replaced = Span(begin, back)
            store.start()
            end = time.monotonic()
            with self.world.lock:
                self.world.down[name][-1] = Span(begin, end)
                for (of, key), found in list(self.world.records.items()):
                    if of == name and found[-1].path is not None:
                        made = Span(begin, back)
                        found.append(type(found[-1])(None, len(found), made))
            self.world.done(f"store {name} is back, empty", name, begin=back)

        self.chain += [lambda: None] * self.chance.randrange(0, 3) + [revive]

    # time and configuration

    def pass_time(self) -> None:
        """Let some time pass, so that what is short-lived is over."""
        end = time.monotonic() + self.chance.choice((0.3, 1.1, 1.2, 2.2))
        wait_until(lambda: time.monotonic() > end)

    def reload(self) -> None:
        """Reload with another configuration, or with the same."""
        if self.reloads <= 0:
            return
        self.reloads -= 1
        text, routes = self.chance.choice(self.variants)
        begin = time.monotonic()
        with self.world.lock:
            self.world.configs.append((routes, Span(begin, float("inf"))))
        self.nginx.reload(text)
        span = self.world.done("reloaded", "reload", begin=begin)
        with self.world.lock:
            self.world.configs[-1] = (routes, span)
