"""Applications that are honest, and otherwise as bad as they may be.

An application goes by what its ``Place`` says. Where the key of what nginx
learns has less than that, it says so as an application must: private, no-store,
a cookie, Vary, or nothing at all. Everything else is left to chance.
"""

from __future__ import annotations

import random
import re
import threading
import time
from email.utils import formatdate
from urllib.parse import quote

from lib.gateway import Gateway, Said
from lib.http10 import PeerRequest

from .setting import Place, Route
from .world import Answered, Sent, Who, World

Headers = list[tuple[str, str]]

SECRET = ("x-sendfile", "x-accel", "x-lighttpd-send-")


def allowed_in(user: str, tenant: str) -> bool:
    """Tell whether auth_request lets a user see what a tenant has."""
    return user != "" and (user != "mallory" or tenant == "acme")


def _seconds(chance: random.Random) -> int:
    return chance.choice((1, 1, 1, 2, 60, 60, 600, 86400))


def shared(chance: random.Random, place: Place) -> Headers:
    """Return headers for an answer that is the same for all with its key."""
    n = _seconds(chance)
    now = time.time()
    old = chance.choice((0, 10, 57, 58, 59, 60, 61, 70, 600))
    policies: list[Headers] = [
        [("X-Accel-Expires", str(n))],
        [("X-Accel-Expires", str(n))],
        [("X-Accel-Expires", str(n)), ("Cache-Control", "private")],
        [("X-Accel-Expires", f"@{int(now) + n}")],
        [("Cache-Control", f"public, max-age={n}")],
        [("Cache-Control", f"public, max-age={n}")],
        [("Cache-Control", f"s-maxage={n}")],
        [("Cache-Control", f"public, max-age={n}, must-revalidate")],
        [("Cache-Control", "public, max-age=1, must-revalidate")],
        [("Cache-Control", f"public, proxy-revalidate, max-age={n}")],
        [("Cache-Control", f"public, max-age=600, s-maxage={n}")],
        [("Cache-Control", "public, max-age=60"), ("Age", str(old))],
        [
            ("Cache-Control", "public, max-age=60"),
            ("Date", formatdate(now - old, usegmt=True)),
        ],
        [
            ("Cache-Control", "public"),
            ("Expires", formatdate(now + n, usegmt=True)),
        ],
        [("X-Accel-Expires", str(n)), ("Cache-Control", f"public, max-age={n}")],
    ]
    if names := [h for h in place.vary() if place.names(h)]:
        policies.append([("X-Accel-Expires", str(n)), ("Vary", ", ".join(names))])
        policies.append([("Cache-Control", f"public, max-age={n}"), ("Vary", names[0])])
    return chance.choice(policies)


def unshared(chance: random.Random, place: Place) -> Headers:
    """Return headers for an answer that must not be given to anybody else."""
    n = _seconds(chance)
    policies: list[Headers] = [
        [("Cache-Control", f"private, max-age={n}")],
        [("Cache-Control", f"public, max-age={n}"), ("Cache-Control", "private")],
        [("Cache-Control", "no-store"), ("X-Accel-Expires", str(n))],
        [("X-Accel-Expires", str(n)), ("Cache-Control", "public, no-store")],
        [("X-Accel-Expires", str(n)), ("Set-Cookie", "session=1")],
        [("Cache-Control", f"public, max-age={n}"), ("Set-Cookie", "session=1")],
        [("Cache-Control", f"public, no-cache, max-age={n}")],
        [("Cache-Control", f"max-age={n}")],
        [("Cache-Control", "public, max-age=0")],
        [("Expires", formatdate(time.time() + n, usegmt=True))],
        [],
        [("X-Accel-Expires", "0"), ("Cache-Control", f"public, max-age={n}")],
        [("X-Accel-Expires", str(n)), ("Vary", "*")],
    ]
    if place.ignore:
        # X-Accel-Expires and Expires are not heard there
        policies = policies[:2] + policies[6:8]
    if headers := sorted(h for h in place.vary() if not place.names(h)):
        line = ("Vary", ", ".join(headers))
        policies += 3 * [
            [("X-Accel-Expires", str(n)), line],
            [("Cache-Control", f"public, max-age={n}"), line],
        ]
    return chance.choice(policies)


class Application:
    """One application, in one role.

    Args:
        world: where it notes what it says.
        role: which application it is.
        protocol: how it is asked.
        chance: what is random about it.
    """

    def __init__(
        self, world: World, role: str, protocol: str, chance: random.Random
    ) -> None:
        self.world = world
        self.role = role
        self.chance = chance
        self.gateway = Gateway(protocol, self.answer)

    def answer(self, request: PeerRequest) -> Said:
        """Answer a request, and note it."""
        at = time.monotonic()
        number, forged = self._number(request)
        sent = self.world.sent.get(number)
        if sent is None:
            self.world.trouble.append(
                f"{self.role} was asked for what no client has sent:"
                f" {request.method} {request.target} {request.headers}"
            )
            return Said(404)
        routes, _ = self.world.configs[-1]
        # other locations, and guides that set it, pass such a header on
        if forged and self.role != "auth" and routes[sent.route].guide is None:
            self.world.trouble.append(
                f"request {number}: the application sees {forged}"
            )
        with self.world.lock:
            answered = Answered(
                self.world.serial(),
                number,
                self.role,
                "",
                0,
                at,
                request.method,
                request.target,
            )
            said, wait = self._decide(request, sent, routes[sent.route], answered)
            self.world.add_answer(answered)
        if wait:
            threading.Event().wait(wait)
        answered.done = time.monotonic()
        return said

    def _number(self, request: PeerRequest) -> tuple[int, str]:
        """Return which client's request it is, and a header to be removed."""
        found, forged = 0, ""
        for name, value in request.headers:
            name = name.lower().replace("_", "-")
            if name == "x-oracle":
                found = int(value)
            if name.startswith(SECRET):
                forged = f"{name}: {value}"
        return found, forged

    def _decide(
        self, request: PeerRequest, sent: Sent, route: Route, answered: Answered
    ) -> tuple[Said, float]:
        teacher = [("X-Teacher", str(answered.serial))]
        who = sent.who
        if self.role == "auth":
            good = allowed_in(who.user, who.tenant)
            answered.status = self.chance.choice((200, 204)) if good else 403
            answered.label = "auth"
            answered.main = False
            return Said(answered.status, headers=teacher), 0.0
        if route.guide is not None and (
            request.target.partition("?")[0] in route.guide.checks
        ):
            good = allowed_in(who.user, "")
            answered.main = False
            return Said(204 if good else 403), 0.0
        place = self._place(route)
        data = None
        if route.page and self.role == "main" and who.tenant == "page":
            found = re.match(r"/\w+/(\w+)/(\w+)", request.target)
            assert found, request.target
            if found[1] == "page":
                data = page(route, who)
            else:
                answered.main = False
                who = included(who, found[1], found[2])
        answered.label = place.label(route.name, who)
        slow = self.chance.choice((0.0,) * 12 + (0.01, 0.05, 0.2))
        if "auth" in place.by and not who.auth:
            answered.status = 401
            answered.body = b"who are you? %d\n" % answered.serial
            return self._said(answered, teacher), slow
        if request.method not in ("GET", "HEAD"):
            answered.status = self.chance.choice(
                (200, 200, 201, 204, 302, 303, 400, 404, 500, 503)
            )
            if answered.status != 204:
                answered.body = b"done %d\n" % answered.serial
            if answered.status in (302, 303):
                teacher.append(("Location", "/elsewhere"))
            return self._said(answered, teacher), slow
        return self._get(route, place, answered, teacher, data), slow

    def _place(self, route: Route) -> Place:
        place = route.places.get(self.role)
        if place is None:
            # a worker of an older configuration has asked
            for routes, _ in reversed(self.world.configs):
                place = place or routes[route.name].places.get(self.role)
        assert place is not None, f"nobody asks {self.role} for {route.name}"
        return place

    def _get(
        self,
        route: Route,
        place: Place,
        answered: Answered,
        teacher: Headers,
        data: bytes | None,
    ) -> Said:
        chance = self.chance
        what = chance.random()
        share = place.shareable()
        if share and "auth" in place.by and chance.random() < 0.5:
            lines = [("X-Accel-Expires", "60")]
        elif share and "auth" not in place.by and chance.random() < 0.85:
            lines = shared(chance, place)
        else:
            lines = unshared(chance, place)
        answered.lines = lines
        if what < 0.05:
            answered.died = True
            drop = chance.choice((0, 20))
            return Said(headers=teacher, body=b"half", drop=drop)
        if what < 0.11 and data is None:
            answered.status = chance.choice((404, 404, 403, 500, 503, 302))
            answered.body = b"no %d\n" % answered.serial
            more = [("Location", "/x")] if answered.status == 302 else []
            return self._said(answered, [*teacher, *lines, *more])
        if what < 0.15 and data is None:
            answered.body = b"said %s %d\n" % (
                answered.label.encode(),
                answered.serial,
            )
            return self._said(answered, [*teacher, *lines])
        if what < 0.3 and self.role == "main" and route.words:
            answered.by = "second"
            answered.path = route.words[0]
            header = ("X-Accel-Redirect", route.words[0])
            return self._said(answered, [*teacher, *lines, header])
        record = self.world.edition(answered.label, place.tree, data)
        internal = "/int/plain" if place.tree == "plain" else "/int/current"
        if route.guide is not None:
            internal = route.guide.internal
            if not route.guide.accepts:
                answered.body = b"said %s\n" % answered.label.encode()
                return self._said(answered, [*teacher, *lines])
            share_by = chance.choice(route.guide.accepts)
        elif data is not None:
            share_by = "X-Sendfile"
        else:
            share_by = chance.choice(("X-Sendfile", "X-Sendfile", "X-Accel-Redirect"))
        answered.edition = record.edition
        answered.by = share_by
        answered.tree = place.tree
        assert record.path is not None
        answered.path = record.path
        tree = place.tree
        named = quote(f"{internal}/{record.path}")
        if share_by != "X-Accel-Redirect":
            named = f"{self.world.files.root}/{tree}/{record.path}"
        elif chance.random() < 0.1:
            # nginx follows it whatever the status, and nothing is learned
            answered.status = chance.choice((404, 403, 201, 500))
        more = [(share_by, named)]
        if chance.random() < 0.2:
            more.append(("ETag", f'"{answered.label}.{record.edition}"'))
        if chance.random() < 0.3:
            more.append(("Content-Type", "application/x-mine"))
        parts = [*lines, *more]
        chance.shuffle(parts)
        return self._said(answered, [*teacher, *parts])

    def _said(self, answered: Answered, lines: Headers) -> Said:
        return Said(answered.status, headers=lines, body=answered.body)

    def close(self) -> None:
        """Stop it."""
        self.gateway.close()


def included(who: Who, tenant: str, ident: str) -> Who:
    """Return who asks for a part of a page."""
    values = {**who.__dict__, "tenant": tenant, "ident": ident}
    return Who(**values)


PARTS = (("acme", "1"), ("globex", "2"))


def page(route: Route, who: Who) -> bytes:
    """Return a page that includes two files of its own location."""
    lines = [
        f'<!--# include virtual="/{route.name}/{tenant}/{ident}" -->\n'
        for tenant, ident in PARTS
    ]
    # of a length that no other file has
    return "".join([f"page {who.ident}\n", *lines]).encode()
