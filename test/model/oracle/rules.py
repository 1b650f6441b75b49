"""The model: what may be in an answer.

It is judged when all is over, by the times at which things were done, as seen
from outside: something was not before the begin of what did it, and not after
its end. What lies between is allowed either way.

What is demanded of each answer:

- It is for who asked: the file's label is the one that an application, or the
  store, has for this request.
- It is whole: the bytes are those of one version of one file, and so are the
  lengths.
- It is not older than it may be. An answer of the application to another
  request is one that nginx may learn, for the same key and place, within its
  lifetime or within what use_stale says; records, bodies, descriptors and roots
  are within their times.
- After a purge that was answered, nothing is used that was read before the
  purge was asked for.
- There is no error that nobody has made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from lib.client import Response

from .app import PARTS, SECRET, allowed_in, included
from .files import ALWAYS, Span, Version
from .setting import Guide, Keeping, Lookup, Place, Route
from .world import Answered, Purged, Record, Sent, World

# seconds by which nginx's idea of the time may differ, whose clock is coarse;
# of what is counted from when an answer came; of what is in whole seconds
COARSE = 0.05
LATE = 0.2
WHOLE = 1.1

# how long one that renews an answer may be thought to be at it
CLAIM = 5.0

# kinds of routes where a request without an ID is for nobody
NO_HANDLER = ("store_pass", "store_named")

ERRORS = {404, 500, 502, 503, 504}


class Wrong(Exception):
    """An answer that is not allowed; the message says why."""


@dataclass(frozen=True)
class Lifetime:
    """What an answer allows.

    Args:
        seconds: how long it may be used; None if it must not be learned.
        strict: it must never be used stale.
        why: it must not be learned.
    """

    seconds: float | None
    strict: bool = False
    why: str = ""


def lifetime(
    lines: Iterable[tuple[str, str]], place: Place, authorized: bool
) -> Lifetime:
    """Return what the headers of an answer allow (RFC 9111, as a shared cache).

    Args:
        lines: the headers.
        place: where the answer came to.
        authorized: whether the request had Authorization.
    """
    found: dict[str, list[str]] = {}
    for name, value in lines:
        found.setdefault(name.lower(), []).append(value)
    words = [
        word.strip().lower()
        for value in found.get("cache-control", [])
        for word in value.split(",")
    ]
    if "no-store" in words:
        return Lifetime(None, why="no-store")
    if "set-cookie" in found:
        return Lifetime(None, why="Set-Cookie")
    for value in found.get("vary", []):
        for name in value.split(","):
            if not place.names(name.strip()):
                return Lifetime(None, why=f"Vary: {name.strip()}")
    if authorized and "public" not in words:
        return Lifetime(None, why="Authorization, and not public")
    accel = found.get("x-accel-expires")
    if accel and "X-Accel-Expires" not in place.ignore:
        return _accel(accel)
    strict = any(
        w in ("must-revalidate", "proxy-revalidate") or w.startswith("s-maxage=")
        for w in words
    )
    for word in ("private", "no-cache"):
        if word in words:
            return Lifetime(None, why=word)
    ages = dict(w.split("=", 1) for w in words if "=" in w)
    if "s-maxage" not in ages and "public" not in words:
        return Lifetime(None, why="neither X-Accel-Expires nor public")
    seconds: float
    if said := ages.get("s-maxage", ages.get("max-age")):
        seconds = float(said)
    elif "expires" in found and "Expires" not in place.ignore:
        seconds = _until(found["expires"][0])
    else:
        return Lifetime(None, why="no lifetime")
    old = float(found["age"][0]) if "age" in found else 0.0
    if seconds - old <= 0:
        return Lifetime(None, why="its lifetime is over")
    return Lifetime(seconds - old, strict)


def _accel(values: list[str]) -> Lifetime:
    seconds = []
    for value in values:
        if value.startswith("@"):
            seconds.append(float("inf"))
        elif value.isdigit() and int(value) > 0:
            seconds.append(float(value))
        else:
            return Lifetime(None, why="X-Accel-Expires is 0")
    return Lifetime(min(seconds))


def _until(date: str) -> float:
    return float("inf") if parsedate_to_datetime(date) else 0.0


def covers(span: Span, begin: float, end: float) -> bool:
    """Tell whether something may have been so at a time between two others.

    Args:
        span: from when it was so at the earliest to when at the latest.
        begin: of the two.
        end: the same.
    """
    return span.begin <= end and span.end >= begin


class Model:
    """Judges the answers of a world.

    Args:
        world: after all has been done.
        ages: hits have to have Age.
    """

    def __init__(self, world: World, ages: bool = True) -> None:
        self.world = world
        self.ages = ages
        self.kinds: dict[str, int] = {}
        self._by_route: dict[str, list[Sent]] = {}
        # each is asked of a request by all that were near it
        self._routes: dict[int, list[Route]] = {}
        self._keys_of: dict[tuple[int, str], list[str]] = {}
        for sent in world.sent.values():
            self._by_route.setdefault(sent.route, []).append(sent)

    def judge(self) -> Iterator[tuple[Sent, str]]:
        """Give all that is wrong: the request, and what it is."""
        for sent in self.world.sent.values():
            try:
                self.kinds_of(self._check(sent))
            except Wrong as wrong:
                yield sent, str(wrong)

    def kinds_of(self, kind: str) -> None:
        """Count what kind of answer it was."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    # configurations

    def routes(self, sent: Sent) -> list[Route]:
        """Return what may have been configured while a request was under way."""
        found = self._routes.get(sent.number)
        if found is not None:
            return found
        found = self._routes[sent.number] = []
        configs = self.world.configs
        for n, (routes, span) in enumerate(configs):
            until = configs[n + 1][1].end if n + 1 < len(configs) else float("inf")
            # a connection may belong to a worker of before
            if covers(Span(span.begin, until), sent.connected or sent.begin, sent.end):
                found.append(routes[sent.route])
        return found

    def _place(self, routes: list[Route], role: str) -> list[Place]:
        return [r.places[role] for r in routes if role in r.places]

    # purges

    def _purged_since(
        self, sent: Sent, idents: AbstractSet[str], urls: AbstractSet[str] = frozenset()
    ) -> float:
        """Return when the last purge was asked for that holds for a request."""
        last = float("-inf")
        for purge in self.world.purges:
            if purge.span.end < sent.begin and self._names(purge, idents, urls):
                last = max(last, purge.span.begin)
        return last

    def _names(
        self, purge: Purged, idents: AbstractSet[str], urls: AbstractSet[str]
    ) -> bool:
        if purge.kind == "all":
            return True
        if purge.kind == "url":
            return purge.what in urls
        return purge.what in idents

    # the answer

    def _check(self, sent: Sent) -> str:
        response = sent.response
        if response is None:
            return self._none(sent)
        routes = self.routes(sent)
        guide = routes[0].guide
        for name, value in response.headers:
            if guide is None and name.lower().startswith(SECRET):
                raise Wrong(f"{name}: {value} has reached the client")
        teachers = response.all("X-Teacher")
        if len(teachers) > 1:
            raise Wrong(f"an answer of several: {teachers}")
        asked = self.world.by_sent.get(sent.number, [])
        if guide is not None and guide.checks:
            good = allowed_in(sent.who.user, "")
            if not good and response.status in (200, 206, 304):
                raise Wrong(f"{sent.who.user or 'nobody'} must not see it")
        if any(r.auth for r in routes) and response.status != 400:
            self._check_auth(sent, response, routes, asked)
        if teachers:
            return self._check_taught(sent, response, routes, int(teachers[0]))
        if response.status in (200, 206, 304, 412, 416):
            return self._check_untaught(sent, response, routes)
        return self._check_error(sent, response, routes, asked)

    def _none(self, sent: Sent) -> str:
        if sent.gone == "aborted":
            return "aborted"
        if sent.gone.startswith("kept"):
            return "closed"
        died = any(a.died for a in self.world.by_sent.get(sent.number, []))
        if died:
            return "died"
        raise Wrong(f"no answer: {sent.gone}")

    def _check_auth(
        self, sent: Sent, response: Response, routes: list[Route], asked: list[Answered]
    ) -> None:
        if not all(r.auth for r in routes):
            return
        said = [a for a in asked if a.role == "auth"]
        if not said:
            raise Wrong("nobody was asked whether this is allowed")
        if said[-1].status == 403 and response.status != 403:
            raise Wrong(f"it was forbidden, and the answer is {response.status}")

    # an application's answer

    def _check_taught(
        self, sent: Sent, response: Response, routes: list[Route], serial: int
    ) -> str:
        answered = self.world.answers.get(serial)
        if answered is None:
            raise Wrong(f"X-Teacher is {serial}, whom nobody knows")
        role = answered.role
        if role == "auth":
            if response.status != 403 or answered.sent != sent.number:
                raise Wrong("the answer is that to auth_request")
            return "forbidden"
        wanted = {
            label
            for route in routes
            for of, label in route.expected(sent.who).items()
            if of == role
        }
        if answered.label not in wanted:
            raise Wrong(
                f"it is for {answered.label} (answer {serial}, to request"
                f" {answered.sent}), and not for {' or '.join(sorted(wanted))}"
            )
        if not answered.main and answered.sent == sent.number:
            raise Wrong("the answer is that to a part of the page")
        if not any(
            r.lookup is None or r.guide or self._may_miss(sent, r.lookup)
            for r in routes
        ):
            raise Wrong("the application's answer, and the store has the file")
        passed = routes[0].guide is not None and any(
            n.lower().startswith(SECRET) for n, _ in response.headers
        )
        if passed and answered.sent == sent.number:
            # a location that accepts no such header has passed it on
            return "fresh text"
        if answered.path and answered.by != "second":
            kind = self._check_file(sent, response, routes, answered)
        else:
            kind = self._check_said(sent, response, answered)
        if answered.sent != sent.number:
            self._check_learned(sent, routes, answered, kind)
            self._check_age(sent, response, answered)
            return f"learned {kind}"
        return f"fresh {kind}"

    def _check_said(self, sent: Sent, response: Response, answered: Answered) -> str:
        if response.status != answered.status and answered.role != "error":
            raise Wrong(f"the application has said {answered.status}")
        body = b"" if sent.method == "HEAD" else answered.body
        if answered.by and response.status == 200:
            return self._check_second(sent, response, answered)
        if response.status == 304:
            body = response.body
        if response.body != body:
            raise Wrong(f"the application has said {body!r}")
        return "text"

    def _check_second(self, sent: Sent, response: Response, answered: Answered) -> str:
        """Check what the first application's headers and the second's file are."""
        asked = self.world.by_sent.get(sent.number, [])
        texts = {a.body for a in asked if a.role == "second" and not a.path}
        length = response.header("Content-Length")
        head = sent.method == "HEAD" and length in {str(len(t)) for t in texts}
        if head or response.body in texts:
            return "text of a second"
        version = self._version(sent, response)
        if version is None:
            return "file of a second"
        if not any(a.label == version.label for a in asked if a.role == "second"):
            raise Wrong(f"{version} is not what the second application has named")
        self._check_bytes(sent, response, version)
        return "file of a second"

    def _check_age(self, sent: Sent, response: Response, answered: Answered) -> None:
        if not self.ages or response.status not in (200, 206):
            return
        if not answered.path:
            return
        age = response.header("Age")
        if age is None:
            raise Wrong("what was learned has no Age")
        teacher = self.world.sent[answered.sent]
        said = [v for n, v in answered.lines if n == "Age"]
        least = float(said[0]) if said else 0.0
        least += sent.begin - teacher.end - WHOLE - 1
        most = float(said[0]) if said else 0.0
        for name, value in answered.lines:
            if name == "Date":
                most = 120.0
        # the time that the application took for it counts, RFC 9111 4.2.3
        most += sent.end - teacher.begin + WHOLE + 1
        if teacher.gone:
            least = 0.0
        if not least <= float(age) <= most:
            raise Wrong(f"Age is {age}, and not {least:.1f} to {most:.1f}")

    def _check_learned(
        self, sent: Sent, routes: list[Route], answered: Answered, kind: str
    ) -> None:
        """Check that the answer to one request may be that to another."""
        teacher = self.world.sent[answered.sent]
        about = f"answer {answered.serial}, to request {teacher.number}, "
        taught = self._place(self.routes(teacher), answered.role)
        places = self._place(routes, answered.role)
        if kind == "text" and answered.by != "second":
            if not all(r.cached for r in routes):
                raise Wrong(about + "named no file")
            return
        if teacher.route != sent.route or not answered.main:
            raise Wrong(about + "was another location's")
        if not teacher.plain:
            raise Wrong(about + "was to no plain GET")
        if answered.status != 200:
            raise Wrong(about + f"has the status {answered.status}")
        if sent.method not in ("GET", "HEAD") or sent.body:
            raise Wrong(about + f"was learned, and this is {sent.method} with a body")
        reasons = []
        for place in taught:
            for used in places:
                reason = self._why_not(sent, teacher, answered, place, used)
                if reason is None:
                    return
                reasons.append(reason)
        raise Wrong(about + " or ".join(sorted(set(reasons))))

    def _why_not(
        self,
        sent: Sent,
        teacher: Sent,
        answered: Answered,
        place: Place,
        used: Place,
    ) -> str | None:
        """Return why an answer is not for a request; None if it may be."""
        if not (place.teaches and used.teaches):
            return "was not to what was asked, but to an error or a part"
        if not (place.learn and used.learn):
            return "must not be learned: http_sendfile_learn is off"
        if place.in_if and not place.key:
            return "must not be learned: it was in an if block"
        if place.key != used.key or place.in_if != used.in_if:
            return "was another block's"
        if self._where(teacher) != self._where(sent):
            return "was another socket's, server's or location's"
        key = place.learn_key(teacher.who, teacher.target)
        if key != used.learn_key(sent.who, sent.target):
            return f"was for {key}"
        allowed = lifetime(answered.lines, place, teacher.has("Authorization"))
        if allowed.seconds is None:
            return f"must not be learned: {allowed.why}"
        idents = {
            used.ident(sent.who, sent.target),
            place.ident(teacher.who, teacher.target),
        }
        urls = {
            used.url(sent.who, sent.target),
            place.url(teacher.who, teacher.target),
        }
        purged = self._purged_since(sent, idents - {""}, urls - {""})
        if answered.at < purged:
            return "was purged"
        if why := self._taken_back(sent, teacher, answered, key, used):
            return why
        known = teacher.end if not teacher.gone else answered.at + CLAIM
        for name, value in answered.lines:
            if name == "Date":
                then = parsedate_to_datetime(value).timestamp() - self.world.epoch
                known = min(known, then + WHOLE)
        if sent.begin <= known + allowed.seconds + LATE:
            return None
        if allowed.strict:
            return "is over, and must not be used stale"
        if self._may_be_stale(sent, used, key):
            self.kinds_of("stale")
            return None
        return "is over"

    def _where(self, sent: Sent) -> tuple[str, str, bool]:
        return self.world.configs[0][0][sent.route].where(sent.who)

    def _same(self, sent: Sent, key: str, role: str) -> Iterator[Sent]:
        """Give the other requests for the same learn key and place."""
        for other in self._by_route[sent.route]:
            if other is sent or self._where(other) != self._where(sent):
                continue
            for place in self._place(self.routes(other), role):
                if place.learn_key(other.who, other.target) == key:
                    yield other
                    break

    def _taken_back(
        self, sent: Sent, teacher: Sent, answered: Answered, key: str, place: Place
    ) -> str:
        late = 0.0 if self.world.workers == 1 else 2.0
        for other in self._same(sent, key, answered.role):
            if other.end >= sent.begin or other.gone or other is teacher:
                continue
            said = [
                a
                for a in self.world.by_sent.get(other.number, [])
                if a.role == answered.role and a.main and not a.died
            ]
            if not said:
                continue
            last = said[-1]
            if other.method in ("POST", "PUT", "PATCH", "DELETE"):
                if answered.at < other.begin and 200 <= last.status < 400:
                    return f"was taken back by {other.method}, request {other.number}"
            elif (
                other.plain
                and not teacher.gone
                and teacher.end + late < other.begin
                and last.status < 500
            ):
                return f"was replaced by that to request {other.number}"
        return ""

    def _may_be_stale(self, sent: Sent, place: Place, key: str) -> bool:
        stale = place.keeping.stale
        asked = self.world.by_sent.get(sent.number, [])
        if ("error" in stale or "timeout" in stale) and any(
            a.died or a.status >= 500 for a in asked
        ):
            return True
        return "updating" in stale and any(
            other.begin <= sent.end and other.end + CLAIM >= sent.begin
            for other in self._same(sent, key, place.role)
        )

    # files

    def _version(self, sent: Sent, response: Response) -> Version | None:
        """Return the version of a file that an answer speaks of."""
        total: int | None = None
        if response.status in (206, 416):
            match = re.search(r"/(\d+)$", response.header("Content-Range") or "")
            total = int(match[1]) if match else None
        elif response.status in (304, 412):
            return None
        elif (length := response.header("Content-Length")) is not None:
            total = int(length)
        elif sent.method == "HEAD":
            return None
        else:
            total = len(response.body)
        if total is None:
            raise Wrong("it has no length")
        version = self.world.files.of_size(total)
        if version is None:
            raise Wrong(f"no file has {total} bytes")
        return version

    def _check_bytes(self, sent: Sent, response: Response, version: Version) -> None:
        data = version.data
        if response.status == 206:
            text = response.header("Content-Range") or ""
            match = re.fullmatch(r"bytes (\d+)-(\d+)/\d+", text)
            if not match:
                raise Wrong(f"Content-Range: {text}")
            data = data[int(match[1]) : int(match[2]) + 1]
        elif response.status != 200:
            return
        if sent.method == "HEAD":
            if response.body:
                raise Wrong("an answer to HEAD with a body")
            return
        if response.body != data:
            said = response.body[:80]
            raise Wrong(
                f"the bytes are not those of {version}: {len(response.body)}"
                f" beginning with {said!r}"
            )

    def _check_file(
        self, sent: Sent, response: Response, routes: list[Route], answered: Answered
    ) -> str:
        if response.status not in (200, 206, 304, 412, 416):
            if answered.status != 200 and response.status == answered.status:
                return "error"
            if answered.role == "error" and response.status in ERRORS:
                pass
            elif (
                sent.method not in ("GET", "HEAD")
                and answered.sent == sent.number
                and response.status == answered.status
            ):
                return "text"
            else:
                raise Wrong(f"status {response.status} in place of {answered.path}")
        if any(r.page for r in routes) and sent.who.tenant == "page":
            self._check_page(sent, response, routes, answered)
            return "page"
        version = self._version(sent, response)
        if version is None:
            return "unchanged"
        tree = answered.tree
        name = version.path.split("/", 1)
        right = name[1] == answered.path and (
            name[0].startswith("rel") if tree == "current" else name[0] == tree
        )
        if not right:
            raise Wrong(
                f"the length is that of {version}, and not of {tree}/{answered.path}"
            )
        self._check_bytes(sent, response, version)
        places = self._place(routes, answered.role)
        direct = answered.by != "X-Accel-Redirect"
        idents = {p.ident(sent.who, sent.target) for p in places}
        common = idents if len(idents) == 1 else set()
        urls = {p.url(sent.who, sent.target) for p in places}
        purged = self._purged_since(
            sent, common - {""}, urls if len(urls) == 1 else set()
        )
        check = max((p.keeping.check if p.keeping.zone else 0.0) for p in places)
        self._check_version(sent, version, check if direct else 0.0, purged, direct)
        return "file"

    def _check_version(
        self, sent: Sent, version: Version, check: float, purged: float, direct: bool
    ) -> None:
        """Check that a version is not too old.

        Args:
            sent: the request.
            version: what was in the answer.
            check: seconds for which a look at the file is good.
            purged: when the last purge was asked for.
            direct: the module has opened it, and not nginx itself.
        """
        if version.made.begin > sent.end:
            raise Wrong(f"{version} was not there yet")
        since = max(sent.begin - check - (COARSE if check else 0.0), purged)
        if version.replaced.end < since:
            raise Wrong(
                f"{version} was replaced {sent.begin - version.replaced.end:.3f} s"
                f" before{', and purged' if purged > version.replaced.end else ''}"
            )
        if version.release < 0:
            return
        root = check + WHOLE + COARSE if direct else 0.0
        since = max(sent.begin - root, purged)
        current = self.world.current
        for n, (release, span) in enumerate(current):
            until = current[n + 1][1].end if n + 1 < len(current) else float("inf")
            if release == version.release and covers(
                Span(span.begin, until), since, sent.end
            ):
                return
        raise Wrong(
            f"{version}: current leads elsewhere since long"
            f"{', and all was purged' if purged > sent.begin - root else ''}"
        )

    def _check_page(
        self, sent: Sent, response: Response, routes: list[Route], answered: Answered
    ) -> None:
        """Check a page and the files that it includes."""
        if sent.method == "HEAD" or response.status != 200:
            return
        rest = response.body
        start = f"page {sent.who.ident}\n".encode()
        if not rest.startswith(start):
            raise Wrong(f"the page begins with {rest[:80]!r}")
        rest = rest[len(start) :]
        for tenant, ident in PARTS:
            who = included(sent.who, tenant, ident)
            place = self._place(routes, "main")[0]
            label = place.label(sent.route, who)
            rest = self._check_part(sent, rest, label, ident)
        if rest:
            raise Wrong(f"the page ends with {rest[-80:]!r}")

    def _check_part(self, sent: Sent, rest: bytes, label: str, ident: str) -> bytes:
        for versions in list(self.world.files.versions.values()):
            for version in versions:
                if rest.startswith(version.data + b"\n"):
                    if version.label != label:
                        raise Wrong(f"in the page is {version}, and not {label}")
                    return rest[len(version.data) + 1 :]
        line, _, after = rest.partition(b"\n")
        said = re.fullmatch(rb"(?:no|who are you\?|said (\S+)) \d+", line)
        if said:
            if said[1] is not None and said[1] != label.encode():
                raise Wrong(f"in the page is {line!r}, and not {label}")
            return after.removeprefix(b"\n")
        if line.startswith(b"[an error occurred"):
            return after
        if line.startswith((b"<html>", b"half")) or line == b"":
            # the error page of one that died; what follows it is the next part
            found = re.search(rb"</html>\r?\n\n?|^half\n?|^\n", rest)
            if found:
                return rest[found.end() :]
        raise Wrong(f"in the page is {line[:80]!r}")

    # a store's

    def _check_untaught(
        self, sent: Sent, response: Response, routes: list[Route]
    ) -> str:
        version = self._version(sent, response)
        if version is None:
            return "unchanged"
        for answered in self.world.by_sent.get(sent.number, []):
            # with another status than 200 it is nginx's own redirect
            odd = answered.status != 200 and answered.by == "X-Accel-Redirect"
            if odd and version.path.endswith(f"/{answered.path}"):
                self._check_bytes(sent, response, version)
                self._check_version(sent, version, 0.0, float("-inf"), False)
                return "odd file"
        labels = set()
        reasons = []
        for route in routes:
            if route.lookup is not None:
                for key in self._keys(sent, route.lookup):
                    label = route.lookup.label(key, sent.who)
                    labels.add(label)
                    if label == version.label:
                        reason = self._why_not_stored(
                            sent, response, route.lookup, key, version
                        )
                        if reason is None:
                            self._check_bytes(sent, response, version)
                            return "stored file"
                        reasons.append(reason)
            labels |= set(route.expected(sent.who).values())
        if reasons:
            raise Wrong(" or ".join(sorted(set(reasons))))
        if routes[0].guide is not None and version.label not in labels:
            if response.status == 200 and version.label.startswith(("main", "store")):
                raise Wrong(f"it is {version}")
            return "other"
        if version.label not in labels:
            raise Wrong(f"it is {version}, and not for {' or '.join(sorted(labels))}")
        if response.status not in (412, 416):
            raise Wrong(f"{version} without the application's headers")
        return "refused"

    def _keys(self, sent: Sent, lookup: Lookup) -> list[str]:
        """Return the keys that a request may ask a store for."""
        of = sent.number, lookup.key
        if of not in self._keys_of:
            self._keys_of[of] = self._make_keys(sent, lookup)
        return self._keys_of[of]

    def _make_keys(self, sent: Sent, lookup: Lookup) -> list[str]:
        route = self.world.configs[0][0][sent.route]
        if route.guide is not None:
            return [k for k in route.guide.keys if self._fits(route.guide, k, sent)]
        if lookup.key == "$sendfile_id":
            return [sent.who.ident] if sent.who.ident.isdigit() else []
        return [f"{sent.who.tenant}:{sent.who.ident}"]

    def _fits(self, guide: Guide, key: str, sent: Sent) -> bool:
        """Tell whether a URL of a guide may lead to a key of its store."""
        kind, _, last = key.rpartition(":")
        if last != sent.who.ident and not last.endswith(
            f"-00000000000{sent.who.ident}"
        ):
            return False
        return not kind or kind == sent.who.tenant or f"/{kind}/" in guide.template

    def _why_not_stored(
        self,
        sent: Sent,
        response: Response,
        lookup: Lookup,
        key: str,
        version: Version,
    ) -> str | None:
        name = version.path
        records = self.world.records.get((lookup.store, key), [])
        found = [r for r in records if r.path and name.endswith(f"/{r.path}")]
        if not found:
            return f"{version} is of no record of {key}"
        tree = lookup.tree(sent.who)
        top = name.removesuffix(f"/{found[0].path}")
        if top != tree and not (tree == "current" and top.startswith("rel")):
            return f"{version} is of another root than {tree}"
        link = response.header("Link")
        if link is not None and link != f"<{found[0].edition}>":
            return f"the headers are those of record {link}"
        purged = self._purged_since(sent, {key})
        if sent.method not in ("GET", "HEAD"):
            return f"{sent.method} is not for the store"
        valid = max(k.valid for k in self._keepings(lookup))
        if not self._usable(sent, lookup, key, found, purged, valid):
            past = " and purged" if purged > found[-1].replaced.end else ""
            return f"the record of {version} was replaced{past}"
        direct = lookup.delivery != "prefix"
        keeping = lookup.keeping
        check = keeping.check if keeping.zone and direct else 0.0
        try:
            self._check_version(sent, version, check, purged, direct)
        except Wrong as wrong:
            return str(wrong)
        return None

    def _usable(
        self,
        sent: Sent,
        lookup: Lookup,
        key: str,
        records: list[Record],
        purged: float,
        valid: float,
    ) -> bool:
        """Tell whether one of the records may be what a request is told."""
        begin = sent.begin
        others = [
            other
            for other in self._by_all(sent.begin - CLAIM, sent.end)
            if other is not sent and self._asks(other, lookup, key)
        ]
        # it may have joined the lookup of one that is under way
        if joined := [o.begin for o in others if o.end >= begin]:
            begin = min(begin, *joined)
        if lookup.keeping.zone:
            begin -= valid + (WHOLE if valid else 0.0)
            stale = lookup.keeping.stale
            if "updating" in stale and joined:
                begin = float("-inf")
            if {"error", "timeout"} & set(stale) and self._was_down(sent, lookup):
                begin = float("-inf")
        # a worker looks once a second whether there is another store
        since = max(begin, purged)
        swapped = max(begin - WHOLE, purged)
        return any(
            covers(
                Span(r.made.begin, r.replaced.end),
                swapped if r.swapped else since,
                sent.end,
            )
            for r in records
        )

    def _may_miss(self, sent: Sent, lookup: Lookup) -> bool:
        """Tell whether a store may have been without what a request asks for."""
        if sent.method not in ("GET", "HEAD") or self._was_down(sent, lookup):
            return True
        keys = self._keys(sent, lookup)
        negative = max(k.negative for k in self._keepings(lookup))
        for key in keys:
            records = self.world.records.get((lookup.store, key))
            purged = self._purged_since(sent, {key})
            if not records:
                return True
            before = Record(None, -1, ALWAYS, records[0].made, swapped=True)
            none = [before, *(r for r in records if r.path is None)]
            if self._usable(sent, lookup, key, none, purged, negative):
                return True
        return not keys

    def _keepings(self, lookup: Lookup) -> list[Keeping]:
        """Return how long each keeps what it reads of this store in this zone."""
        return [lookup.keeping] + [
            route.lookup.keeping
            for routes, _ in self.world.configs
            for route in routes.values()
            if route.lookup is not None
            and route.lookup.store == lookup.store
            and route.lookup.keeping.zone == lookup.keeping.zone
        ]

    def _by_all(self, begin: float, end: float) -> Iterator[Sent]:
        for other in self.world.sent.values():
            if other.overlaps(begin, end):
                yield other

    def _asks(self, sent: Sent, lookup: Lookup, key: str) -> bool:
        return any(
            route.lookup is not None
            and route.lookup.store == lookup.store
            and key in self._keys(sent, route.lookup)
            for route in self.routes(sent)
        )

    def _was_down(self, sent: Sent, lookup: Lookup) -> bool:
        """Tell whether a store was thought to be down, at some time.

        Once its time is over, one request tries it. Until that one is answered,
        however late it comes, the others take the store for down.
        """
        return any(
            covers(
                Span(s.begin, self._tried(lookup.store, s.end + WHOLE + 1.0)),
                sent.begin,
                sent.end,
            )
            for s in self.world.down.get(lookup.store, [])
        )

    def _tried(self, store: str, after: float) -> float:
        """Tell when a store, from some time on, was first seen to be up again."""
        return min(
            (
                other.end
                for other in self.world.sent.values()
                if other.begin >= after
                and other.response is not None
                and other.response.status not in (502, 504)
                and any(
                    route.lookup is not None and route.lookup.store == store
                    for route in self.routes(other)
                )
            ),
            default=float("inf"),
        )

    # errors

    def _check_error(
        self,
        sent: Sent,
        response: Response,
        routes: list[Route],
        asked: list[Answered],
    ) -> str:
        status = response.status
        if status == 400 and len([n for n, _ in sent.headers if n == "Host"]) > 1:
            return "refused"
        if routes[0].guide is not None:
            return "error"
        roles = {a.role for a in asked}
        for answered in asked:
            # a page's headers go on 200 only, but its file is sent
            if answered.role == "error" and status in ERRORS and answered.path:
                version = self._version(sent, response)
                if version is not None and version.label == answered.label:
                    if sent.method != "HEAD" and response.body != version.data:
                        raise Wrong(f"the bytes are not those of {version}")
                    return "error"
        if any(a.died for a in asked) and status in (404, 502, 504, 500):
            return "error"
        if status == 403 and "auth" in roles:
            return "forbidden"
        if any(a.status == status for a in asked):
            return "error"
        for route in routes:
            lookup = route.lookup
            if lookup is None:
                if route.kind == "error_front" and status == 405:
                    return "error"
                continue
            if self._was_down(sent, lookup) and status in (502, 504):
                return "error"
            idle = status in (404, 405) and route.kind in NO_HANDLER
            if idle and not self._keys(sent, lookup):
                return "missing"
            missing = status in (404, 405) and not lookup.fallback
            if missing and self._may_miss(sent, lookup):
                return "missing"
        raise Wrong(f"nobody has said {status}: {response.body[:100]!r}")
