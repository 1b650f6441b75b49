"""Clients: who asks for what, how, and what they note of the answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lib.client import Connection, ConnectionClosed

from .generate import TENANTS
from .setting import Route, cookies
from .world import Sent, Who, World

IDENTS = ("1", "2", "7")
ARGUMENTS = ("", "", "", "", "", "id=7", "v=2&w=3")
USERS = ("", "", "alice", "bob", "mallory")
ENCODINGS = ("", "gzip", "gzip, br", "br;q=0, gzip", "gzip;q=0", "deflate")
LANGUAGES = ("", "en", "ja", "de, en;q=0.5")
FORGED = ("X-Sendfile-Type", "X-Accel-Mapping", "X-LIGHTTPD-send-file")
RANGES = ("bytes=0-99", "bytes=50-", "bytes=-20", "bytes=10-19", "bytes=9999999-")


@dataclass(frozen=True)
class Listener:
    """A port, and the hosts that clients name there.

    Args:
        name: of the port.
        hosts: which of them lead to a server of the name, or to one without.
        servers: which server block each of them leads to, if there are several.
    """

    name: str
    hosts: tuple[str, ...]
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Client:
    """One client, which sends a number of requests.

    Args:
        world: where it notes them.
        chance: what is random about it.
        listeners: where it may ask.
        port: returns a port's number.
        routes: what it may ask for.
        act: called before each step; may do something to the world.
        last: what was asked, by others as well.
    """

    world: World
    chance: random.Random
    listeners: tuple[Listener, ...]
    port: Callable[[str], int]
    routes: tuple[str, ...]
    act: Callable[[], None]
    last: list[tuple[str, Who]]
    _tags: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    _connections: dict[str, tuple[Connection, float]] = field(default_factory=dict)

    def run(self, number: int) -> None:
        """Send so many requests.

        Args:
            number: of requests, at least.
        """
        left = number
        try:
            while left > 0:
                self.act()
                left -= self._step()
        finally:
            for connection, _ in self._connections.values():
                connection.close()

    # who asks for what

    def _who(self, route: Route) -> Who:
        chance = self.chance
        listener = chance.choice(self.listeners)
        host = chance.choice(listener.hosts)
        tenant = chance.choice(TENANTS)
        if route.guide is not None:
            tenant = host.partition(".")[0]
        if route.page and chance.random() < 0.4:
            tenant = "page"
        authority = ""
        if route.absolute and chance.random() < 0.1:
            authority = chance.choice(listener.hosts)
        ident = chance.choice(IDENTS)
        args = chance.choice(ARGUMENTS)
        odd = not route.page and route.guide is None and not route.by_id
        if odd and chance.random() < 0.05:
            ident = chance.choice(("x", "x1", "99"))
        return Who(
            listener.name,
            listener.servers.get(authority or host, ""),
            host,
            authority,
            tenant,
            ident,
            "" if route.page or route.guide else args,
            chance.choice(USERS),
            chance.random() < 0.25,
            chance.choice(("", "", "", "", "", "", "alice", "bob")),
            chance.choice(ENCODINGS),
            chance.choice(LANGUAGES),
        )

    def _next(self) -> tuple[Route, Who]:
        chance = self.chance
        routes, _ = self.world.configs[-1]
        if self.last and chance.random() < 0.75:
            # the same again, or somebody else for the same
            name, who = chance.choice(self.last[-8:])
            route = routes[name]
            other = self._who(route)
            changes = {
                field_: getattr(other, field_)
                for field_ in ("user", "vip", "auth", "encoding", "language", "args")
                if chance.random() < 0.12
            }
            if chance.random() < 0.1 and other.listener == who.listener:
                changes["authority"] = other.authority
            if chance.random() < 0.1:
                changes["tenant"] = other.tenant
            if route.guide is not None:
                changes["tenant"] = other.tenant
                changes["host"] = other.host
            if chance.random() < 0.1:
                changes["listener"] = other.listener
                changes["host"] = other.host
                changes["authority"] = ""
            who = replace(who, **changes)
            who = replace(who, server=self._server(who))
        else:
            route = routes[chance.choice(self.routes)]
            who = self._who(route)
        self.last.append((route.name, who))
        return route, who

    def _server(self, who: Who) -> str:
        """Return which server an absolute URI, or the header Host, leads to."""
        listener = next(x for x in self.listeners if x.name == who.listener)
        return listener.servers.get(who.authority or who.host, "")

    # how

    def _headers(self, who: Who) -> list[tuple[str, str]]:
        found = [("Host", who.host)]
        if cookie := cookies(who):
            found.append(("Cookie", cookie))
        if who.auth:
            found.append(("Authorization", f"Basic {who.auth}"))
        if who.encoding:
            found.append(("Accept-Encoding", who.encoding))
        if who.language:
            found.append(("Accept-Language", who.language))
        if self.chance.random() < 0.02:
            found.append((self.chance.choice(FORGED), "X-Accel-Redirect"))
        return found

    def _make(self, connected: float, allowed: bool = True) -> tuple[Sent, str, bytes]:
        """Make a request: what is noted, its line's target, its body."""
        chance = self.chance
        route, who = self._next()
        headers = self._headers(who)
        method, body = "GET", b""
        kind = chance.random()
        page = route.page and who.tenant == "page"
        if kind < 0.06:
            method = "HEAD"
        elif kind < 0.12 and not page:
            headers.append(("Range", chance.choice(RANGES)))
        elif kind < 0.18 and not page:
            tags = self._tags.get((route.name, who.ident))
            if tags:
                headers.append(chance.choice(tags))
        elif kind < 0.24 and allowed and not page:
            method = chance.choice(("POST", "PUT", "DELETE", "PATCH"))
            body = b"body" if method != "DELETE" else b""
        elif kind < 0.25 and allowed:
            body = b"body"
        if route.absolute and chance.random() < 0.02:
            headers.insert(1, ("Host", "x.test"))
        target = route.target(who)
        line = target
        if who.authority:
            line = f"http://{who.authority}{target}"
        number = self.world.number()
        headers.append(("X-Oracle", str(number)))
        sent = Sent(
            number,
            route.name,
            who,
            method,
            target,
            headers,
            bool(body),
            connected,
            time.monotonic(),
        )
        self.world.sent[number] = sent
        return sent, line, body

    def _connect(self, listener: str) -> tuple[Connection, float]:
        begin = time.monotonic()
        return Connection(self.port(listener), timeout=60.0), begin

    def _step(self) -> int:
        kind = self.chance.random()
        if kind < 0.04:
            return self._pipeline()
        if kind < 0.07:
            return self._abort()
        if kind < 0.12:
            return self._at_once()
        self._one()
        return 1

    def _one(self) -> None:
        sent, line, body = self._make(0.0)
        listener = sent.who.listener
        kept = self._connections.pop(listener, None)
        reused = kept is not None
        if kept is None:
            kept = self._connect(listener)
        connection, sent.connected = kept
        sent.begin = time.monotonic()
        try:
            connection.send_request(sent.method, line, sent.headers, body)
            self._receive(connection, sent, reused)
        except (ConnectionError, ConnectionClosed) as error:
            self._lost(sent, reused, error)
            connection.close()
            return
        if self.chance.random() < 0.8 and sent.response and not sent.response.closed:
            self._connections[listener] = kept
        else:
            connection.close()

    def _receive(self, connection: Connection, sent: Sent, reused: bool) -> None:
        try:
            sent.response = connection.read_response(sent.method)
        finally:
            sent.end = time.monotonic()
        self._note(sent)

    def _lost(self, sent: Sent, reused: bool, error: Exception) -> None:
        sent.end = time.monotonic()
        sent.gone = f"{'kept' if reused else 'new'} connection: {error!r}"

    def _note(self, sent: Sent) -> None:
        """Remember what a later request may be conditional on."""
        response = sent.response
        if response is None or response.status not in (200, 206):
            return
        tags = self._tags.setdefault((sent.route, sent.who.ident), [])
        if tag := response.all("ETag"):
            tags.append(("If-None-Match", tag[0]))
            if self.chance.random() < 0.2:
                tags.append(("If-Match", tag[0]))
        modified = response.all("Last-Modified")
        if modified and self.chance.random() < 0.2:
            tags.append(("If-Modified-Since", modified[0]))
        del tags[:-6]

    def _pipeline(self) -> int:
        """Send some requests before reading the first answer."""
        first, line, body = self._make(0.0, allowed=False)
        listener = first.who.listener
        connection, connected = self._connect(listener)
        batch = []
        made: list[tuple[Sent, str, bytes]] = [(first, line, body)]
        for _ in range(self.chance.randrange(1, 4)):
            sent, line, body = self._make(0.0, allowed=False)
            if sent.who.listener == listener:
                made.append((sent, line, body))
            else:
                del self.world.sent[sent.number]
        with connection:
            for sent, line, body in made:
                sent.connected = connected
                sent.begin = time.monotonic()
                try:
                    connection.send_request(sent.method, line, sent.headers, body)
                except ConnectionError as error:
                    self._lost(sent, True, error)
                    continue
                batch.append(sent)
            for n, sent in enumerate(batch):
                try:
                    self._receive(connection, sent, n > 0)
                except (ConnectionError, ConnectionClosed) as error:
                    self._lost(sent, n > 0, error)
        return len(made)

    def _abort(self) -> int:
        """Send a request and leave before the answer, or in its midst."""
        sent, line, body = self._make(0.0)
        connection, sent.connected = self._connect(sent.who.listener)
        sent.begin = time.monotonic()
        sent.gone = "aborted"
        connection.send_request(sent.method, line, sent.headers, body)
        if self.chance.random() < 0.5:
            connection.socket.recv(self.chance.choice((1, 100)))
        if self.chance.random() < 0.5:
            connection.abort()
        else:
            connection.close()
        return 1

    def _at_once(self) -> int:
        """Send some requests on connections of their own, then read."""
        made = []
        for _ in range(self.chance.randrange(2, 5)):
            sent, line, body = self._make(0.0)
            connection, sent.connected = self._connect(sent.who.listener)
            sent.begin = time.monotonic()
            connection.send_request(sent.method, line, sent.headers, body)
            made.append((sent, connection))
        for sent, connection in made:
            try:
                self._receive(connection, sent, False)
            except (ConnectionError, ConnectionClosed) as error:
                self._lost(sent, False, error)
            finally:
                connection.close()
        return len(made)
