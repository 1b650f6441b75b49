"""One case: a world is made, asked, changed, and judged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lib.memcached import Memcached
from lib.nginx import ConfigCheck, Flavour
from lib.site import Site

from .actor import Actor, Store
from .app import Application
from .clients import Client, Listener
from .files import ALWAYS, Stored
from .generate import Features, Generator
from .relay import Relay
from .rules import Model
from .setting import Route
from .world import Who, World

CONF = """\
%%LOAD%%
%%USER%%
worker_processes %%WORKERS%%;
worker_rlimit_nofile 4096;
error_log %%DIR%%/logs/error.log %%LOG_LEVEL%%;
pid %%DIR%%/nginx.pid;
events {
    worker_connections 256;
}
http {
    %%TEMP%%
    log_format model '$http_x_oracle $msec $pid "$request" $status $bytes_sent $server_port $sendfile_source $sendfile_status "$sendfile_reason" $upstream_addr';
    access_log %%DIR%%/logs/access.log model;
    default_type application/x-unknown;
    proxy_cache_path %%DIR%%/pages keys_zone=pages:1m;
    http_sendfile_cache_zone za:2m;
    http_sendfile_cache_zone zb:9m;
    root %%HTML%%;
    keepalive_timeout 30s;
    server {
        listen 127.0.0.1:%%PORT:status%%;
        location /status { http_sendfile_status write; }
    }
%%REST%%
}
"""

INTERNAL = """\
location ^~ /int/ { internal; http_sendfile off; alias %%FILES%%/; }
"""


@dataclass(frozen=True)
class Server:
    """A server block.

    Args:
        name: of its ports, in the configuration's and the model's words.
        listeners: its ports.
        server_name: or empty.
        hosts: that clients name.
    """

    listeners: tuple[str, ...]
    server_name: str
    hosts: tuple[str, ...]

    def text(self, routes: str) -> str:
        """Return the block."""
        lines = [f"listen 127.0.0.1:%%PORT:{n}%%;" for n in self.listeners]
        if self.server_name:
            lines.append(f"server_name {self.server_name};")
        inner = "\n    ".join(lines)
        return f"server {{\n    {inner}\n{INTERNAL}{routes}\n}}"


SERVERS = (
    (Server(("a",), "localhost", ("localhost",)),),
    (
        Server(("a",), "", ("localhost", "x.test")),
        Server(("b",), "", ("localhost", "x.test")),
    ),
    (
        Server(("a", "b"), "localhost", ("localhost",)),
        Server(("c",), "localhost", ("localhost",)),
    ),
    (
        Server(("a",), "localhost", ("localhost",)),
        Server(("a",), "*.test", ("x.test", "y.test")),
    ),
    (Server(("a", "b"), "", ("localhost", "x.test")),),
)


class Published:
    """An LMDB store that is replaced as a whole, by a symbolic link.

    Args:
        site: where it lies.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._number = 0
        self._store = site.store_at("l0-0.lmdb")
        self.path = site.directory / "l0.lmdb"
        self.path.symlink_to("l0-0.lmdb")

    def put(self, key: str, value: object) -> None:
        """Store a value."""
        self._store.put(key, value)

    def delete(self, key: str) -> None:
        """Remove a key."""
        self._store.delete(key)

    def publish(self, values: dict[str, object]) -> Callable[[], None]:
        """Make another store, and return what puts it in the place of this.

        Args:
            values: what it holds.
        """
        self._number += 1
        name = f"l0-{self._number}.lmdb"
        store = self._site.store_at(name)
        for key, value in values.items():
            store.put(key, value)
        link = self.path.with_name("l0.new")
        link.symlink_to(name)

        def replace_it() -> None:
            link.rename(self.path)
            self._store = store

        return replace_it


@dataclass
class Outcome:
    """What came of a case.

    Args:
        requests: how many there were.
        wrong: what was wrong, and all that belongs to it.
        kinds: of answers, and how many.
    """

    requests: int = 0
    wrong: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)


def probe(flavour: Flavour) -> Features:
    """Find out what the nginx under test knows."""
    site = Site(flavour)
    try:
        check: ConfigCheck = site.check_config(
            'http_sendfile_learn_key "$sendfile_accept_encoding";'
        )
        return Features(learn_key=check.ok)
    finally:
        site.close()
        site.remove()


class Case:
    """A world, and those who live in it.

    Args:
        flavour: the nginx to run.
        seed: of everything random.
        number: of the case.
        features: what may be configured.
        requests: how many to send.
        only: kinds of routes; all by default.
    """

    def __init__(
        self,
        flavour: Flavour,
        seed: int,
        number: int,
        features: Features,
        requests: int,
        only: tuple[str, ...] = (),
    ) -> None:
        self.name = f"{seed}/{number}"
        self.chance = random.Random(f"{seed}/{number}")
        self.features = features
        self.requests = requests
        self.only = only
        self.site = Site(flavour)
        root = self.site.files.root
        self.world = World(
            self.name, Stored(root, self._chance("files")), self._chance("world")
        )
        # each application has two processes, and nginx asks the other one
        # where the first dies
        self.several = self.chance.random() < 0.3
        self.upstreams: dict[str, str] = {}
        self.apps: dict[tuple[str, str, str], Application] = {}
        self.stores: dict[str, Store] = {}
        self.lookups: dict[str, str] = {}
        self.closing: list[Memcached] = []
        self.relays: list[Relay] = []
        self.urls: dict[str, str] = {}
        self.blocks: list[str] = []
        self.other_blocks: list[str] = []

    def _chance(self, name: str) -> random.Random:
        return random.Random(f"{self.name}/{name}")

    # what there is

    def _app(self, role: str, protocol: str, name: str) -> Application:
        """Return an application, made if need be."""
        key = (role, protocol, name)
        if key not in self.apps:
            chance = self._chance("/".join(key))
            self.apps[key] = Application(self.world, role, protocol, chance)
        return self.apps[key]

    def _passes(self, role: str, protocol: str) -> str:
        gateway = self._app(role, protocol, "").gateway
        if not self.several:
            return gateway.passes()
        other = self._app(role, protocol, "other").gateway
        name = f"{role}_{protocol}"
        servers = " ".join(
            f"server {address} max_fails=0;"
            for address in (gateway.address, other.address)
        )
        self.upstreams[name] = f"upstream {name} {{ {servers} }}"
        return gateway.passes(name)

    def _make_stores(self) -> list[str]:
        """Make the stores, and return their blocks."""
        blocks = []
        published = Published(self.site)
        self.stores["l0"] = published
        self.lookups["l0"] = f"lmdb:{published.path}"
        for name in ("m0", "m1"):
            server = Memcached(self.site.directory)
            self.closing.append(server)
            self.stores[name] = server
            relay = Relay(server.port, self._chance(f"relay/{name}"))
            self.relays.append(relay)
            slow = self.chance.random() < 0.5
            url = f"memcached://127.0.0.1:{relay.port}" if slow else server.url
            self.urls[name] = url
            if self.chance.random() < 0.5:
                self.lookups[name] = url
            else:
                self.lookups[name] = name
                blocks.append(
                    f"http_sendfile_store {name} {{ server {url};"
                    " timeout 20s; connect_timeout 20s; }"
                )
        return blocks

    def _trees(self) -> None:
        root = self.site.files.root
        for name in ("plain", "rel0", "rel1", "tenants/acme", "tenants/globex"):
            (root / name).mkdir(parents=True, mode=0o755)
        (root / "current").symlink_to("rel0")
        self.world.current.append((0, ALWAYS))

    def _text(
        self,
        servers: tuple[Server, ...],
        routes: list[Route],
        blocks: list[str],
        extra: bool,
    ) -> str:
        inner = "\n".join(r.server for r in routes)
        parts = [*self.upstreams.values(), *blocks, *(r.http for r in routes)]
        # maps and the like stand once
        texts = [s.text(inner) for s in servers]
        if extra:
            name = "server_name new.invalid;"
            texts.append(f"server {{ listen 127.0.0.1:%%PORT:a%%; {name} }}")
        return CONF.replace("%%REST%%", "\n".join([*parts, *texts]))

    def _variant(self, generator: Generator, routes: list[Route]) -> list[Route]:
        """Return the routes with something changed."""
        found = list(routes)
        n = self.chance.randrange(len(found))
        route = found[n]
        if route.kind == "plain":
            place = route.places["main"]
            found[n] = generator.with_if(route.name, place)
            return found
        if route.kind == "ifs":
            place = route.places["main"]
            settings = generator.settings(place, "http")
            found[n] = generator._route(
                route.name,
                "plain",
                f"location /{route.name}/ {{\n{settings}\n}}",
                place,
            )
            return found
        if route.lookup is not None:
            name = route.lookup.store
            others = [s for s in self.stores if s != name]
            other = self.chance.choice(others)
            if self.lookups[name] == name and other in self.urls:
                # the block of that name has another server from now on
                old, new = self.urls[name], self.urls[other]
                self.other_blocks = [
                    b.replace(old, new) if f" {name} {{" in b else b
                    for b in self.blocks
                ]
                return [
                    replace(r, lookup=replace(r.lookup, store=other))
                    if r.lookup is not None and r.lookup.store == name
                    else r
                    for r in found
                ]
            old = f"http_sendfile_lookup {self.lookups[route.lookup.store]};"
            new = f"http_sendfile_lookup {self.lookups[other]};"
            found[n] = replace(
                route,
                server=route.server.replace(old, new),
                lookup=replace(route.lookup, store=other),
            )
            return found
        places = {
            role: replace(place, learn=False) for role, place in route.places.items()
        }
        text = route.server.replace("http_sendfile_learn on;", "")
        found[n] = replace(route, server=text, places=places)
        return found

    # life

    def run(self) -> Outcome:
        """Run it, and judge it."""
        try:
            return self._run()
        finally:
            self.site.close()
            for app in self.apps.values():
                app.close()
            for relay in self.relays:
                relay.close()
            for server in self.closing:
                server.close()
            self.site.remove()

    def _run(self) -> Outcome:
        chance = self.chance
        self._trees()
        self.blocks = self._make_stores()
        self.other_blocks = self.blocks
        generator = Generator(chance, self.features, self._passes, self.lookups)
        servers = chance.choice(SERVERS)
        routes = [
            generator.route(f"r{n}", chance.choice(self.only) if self.only else None)
            for n in range(chance.randrange(1, 5))
        ]
        self.world.workers = chance.choice((1, 1, 2, 3))
        self.site.variables["WORKERS"] = str(self.world.workers)
        listeners: dict[str, Listener] = {}
        for n, server in enumerate(servers):
            leads = dict.fromkeys(server.hosts, str(n))
            for name in server.listeners:
                found = listeners.get(name, Listener(name, ()))
                both = {**found.servers, **leads}
                listeners[name] = Listener(name, found.hosts + server.hosts, both)
        text = self._text(servers, routes, self.blocks, False)
        by_name = {r.name: r for r in routes}
        self.world.configs.append((by_name, ALWAYS))
        other = self._variant(generator, routes)
        variants = [
            (text, by_name),
            (
                self._text(servers, other, self.other_blocks, chance.random() < 0.5),
                {r.name: r for r in other},
            ),
        ]
        nginx = self.site.start_whole(text)
        actor = Actor(
            self.world,
            nginx,
            self._chance("actor"),
            self.stores,
            variants,
            self.features.learn_key,
        )
        published = self.stores["l0"]
        assert isinstance(published, Published)
        actor.publish = published.publish
        for store in self.stores:
            for _ in range(4):
                actor.put(store, actor.ident())
        alone = chance.random() < 0.5
        self._let_ask(actor, tuple(listeners.values()), tuple(by_name), alone)
        while actor.chain:
            actor.chain.pop(0)()
        nginx.stop()
        return self._judge()

    def _let_ask(
        self,
        actor: Actor,
        listeners: tuple[Listener, ...],
        routes: tuple[str, ...],
        alone: bool,
    ) -> None:
        turn = threading.Lock()
        steps = self._chance("steps")

        def act() -> None:
            with turn:
                due = steps.random() < (0.2 if actor.chain or alone else 0.1)
                if due:
                    actor.act()

        last: list[tuple[str, Who]] = []
        clients = [
            Client(
                self.world,
                self._chance(f"client{n}"),
                listeners,
                actor.nginx.port_of,
                routes,
                act,
                last,
            )
            for n in range(1 if alone else 4)
        ]
        each = self.requests // len(clients) + 1
        if alone:
            clients[0].run(each)
            return
        failures: list[BaseException] = []

        def run(client: Client) -> None:
            try:
                client.run(each)
            except BaseException as failure:
                failures.append(failure)
                raise

        threads = [threading.Thread(target=run, args=(c,)) for c in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    # judgement

    def _judge(self) -> Outcome:
        outcome = Outcome(requests=len(self.world.sent))
        model = Model(self.world, ages=self.features.learn_key)
        wrong = list(model.judge())
        outcome.kinds = model.kinds
        for sent, why in wrong[:3]:
            outcome.wrong.append(self._report(sent.number, why))
        for sent, why in wrong[3:]:
            outcome.wrong.append(f"request {sent.number}: {why}")
        outcome.wrong += self.world.trouble
        return outcome

    def _report(self, number: int, why: str) -> str:
        from .report import report

        return report(self.world, self.site.directory, number, why)
