"""Nobody receives what only another one may see: 20,000 random cases.

Two users ask, in turn, for the same and for other things, with credentials
and without, and an application answers each of them as it pleases. Whose
answer a client gets is known by a number that the application puts on each.
What may have been learned is decided here anew, from the rules of the
documentation: see ``verdict``.
"""

from __future__ import annotations

import enum
import os
import random
import time
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime

from lib.accept import use_gateway
from lib.cache import STATUS, purge_url
from lib.client import Connection, Response
from lib.files import content
from lib.gateway import Gateway, Said
from lib.http10 import PeerRequest
from lib.nginx import Nginx
from lib.site import Site

CASES = 20_000
BATCH = 40
FILES = 20
SIZE = 300

HOSTS = ("one.test", "two.test", "also.two.test")

Lines = list[tuple[str, str]]


class Verdict(enum.Enum):
    """Whether an answer is for others than the one who has asked."""

    NEVER = "never"
    MUST = "must"


# the rules


@dataclass(frozen=True)
class Answer:
    """What the application has answered to a request.

    Args:
        status: its code.
        lines: of headers, without the number.
        file_id: what the file says that is named, None if none is.
        delivered: that file may be sent.
    """

    status: int
    lines: Lines
    file_id: int | None
    delivered: bool = True

    def all(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [v for n, v in self.lines if n.lower() == name.lower()]

    @property
    def is_followed(self) -> bool:
        """Whether nginx takes it for one that names a file."""
        if self.file_id is None:
            return False
        return self.status == 200 or bool(self.all("X-Accel-Redirect"))


def directives(answer: Answer) -> dict[str, int]:
    """Read Cache-Control: names in lower case, with seconds, the fewest said."""
    found: dict[str, int] = {}
    for line in answer.all("Cache-Control"):
        for part in line.split(","):
            name, _, value = part.strip().lower().partition("=")
            seconds = int(value) if value.isdigit() else 0
            found[name] = min(seconds, found.get(name, seconds))
    return found


def accel_expires(answer: Answer, now: float) -> float | None:
    """Return the seconds of X-Accel-Expires; None if there is none."""
    values = answer.all("X-Accel-Expires")
    if not values:
        return None
    value = values[0]
    if value.startswith("@") and value[1:].isdigit():
        return int(value[1:]) - now
    try:
        return int(value)
    except ValueError:
        return 0


def shared_lifetime(answer: Answer, now: float) -> float:
    """Return the seconds that Cache-Control and Expires give to a shared cache."""
    said = directives(answer)
    if {"private", "no-cache", "no-store"} & set(said):
        return 0
    if not {"public", "s-maxage"} & set(said):
        return 0
    for name in ("s-maxage", "max-age"):
        if name in said:
            return said[name]
    for value in answer.all("Expires"):
        try:
            return parsedate_to_datetime(value).timestamp() - now
        except ValueError:
            return 0
    return 0


def verdict(request: Asked, answer: Answer, now: float) -> Verdict:
    """Judge an answer by the rules of http_sendfile_learn.

    Args:
        request: that it answers.
        answer: the application's.
        now: seconds since 1970.
    """
    said = directives(answer)
    if request.location in NOTHING or request.method != "GET" or request.is_aside:
        return Verdict.NEVER
    if answer.status != 200 or answer.file_id is None:
        return Verdict.NEVER
    if not answer.delivered or answer.all("Set-Cookie"):
        return Verdict.NEVER
    varies = {v.strip().lower() for line in answer.all("Vary") for v in line.split(",")}
    if request.location == "vary":
        varies -= {"accept-encoding", "accept-language"}
    if varies:
        return Verdict.NEVER
    if "no-store" in said:
        return Verdict.NEVER
    if request.has("Authorization") and "public" not in said:
        return Verdict.NEVER
    lifetime = accel_expires(answer, now)
    if lifetime is None:
        lifetime = shared_lifetime(answer, now)
    return Verdict.MUST if lifetime > 0 else Verdict.NEVER


# what is asked and answered


@dataclass(frozen=True)
class Asked:
    """A request of a case.

    Args:
        number: of the request; no other has it.
        method: GET mostly.
        host: whom it is sent to.
        target: location, case and query string.
        headers: besides Host and the number.
    """

    number: int
    method: str
    host: str
    target: str
    headers: Lines

    @property
    def location(self) -> str:
        """The first part of the target."""
        return self.target.split("/")[1]

    @property
    def is_aside(self) -> bool:
        """Whether it asks for something else than the whole file."""
        return self.has("Range") or self.has("If-None-Match")

    @property
    def is_unsafe(self) -> bool:
        """Whether it may change what is at its URL."""
        return self.method in ("POST", "PUT", "DELETE")

    def has(self, name: str) -> bool:
        """Tell whether it has a header."""
        return any(n.lower() == name.lower() for n, _ in self.headers)

    def header(self, name: str) -> str:
        """Return the value of a header, of the first if there are several."""
        return next((v for n, v in self.headers if n == name), "")

    @property
    def key(self) -> tuple[str, str, str]:
        """What an answer to it is for: its host, its target, and the rest."""
        rest = ""
        if self.location == "user":
            rest = self.header("Cookie")
        elif self.location == "vary":
            encoding = "gzip" if self.has("Accept-Encoding") else ""
            rest = f"{encoding} {self.header('Accept-Language')}"
        return self.host, self.target, rest

    def wire(self) -> bytes:
        """Return the request as it is sent."""
        lines = [("Host", self.host), ("X-Number", str(self.number)), *self.headers]
        body = b""
        if self.method in ("POST", "PUT"):
            body = b"body" if self.number % 2 else b""
            lines.append(("Content-Length", str(len(body))))
        head = f"{self.method} {self.target} HTTP/1.1\r\n"
        text = head + "".join(f"{n}: {v}\r\n" for n, v in lines) + "\r\n"
        return text.encode() + body


CACHE_CONTROLS = [
    "public, max-age=600",
    "public, max-age=600, immutable",
    "max-age=600, public",
    "PUBLIC,MAX-AGE=600",
    "public",
    "s-maxage=600",
    "s-maxage=600, max-age=0",
    "public, s-maxage=600",
    "public, s-maxage=0, max-age=600",
    "max-age=600",
    "private",
    "private, max-age=600",
    "max-age=600, private",
    "max-age=0, private, must-revalidate",
    "public, private, max-age=600",
    "no-cache",
    "public, no-cache, max-age=600",
    "no-store",
    "public, max-age=600, no-store",
    "NO-STORE",
    "public, max-age=0",
    "must-revalidate",
    "s-maxage=600, private",
    'public, max-age=600, private="Set-Cookie"',
    'public, max-age=600, no-cache="Set-Cookie"',
]

ACCEL_EXPIRES = ["600", "600", "600", "0", "-1", "-600", "@%d", "@1", "soon"]
VARIES = [
    *("Accept-Encoding", "accept-encoding", "Accept-Encoding, Accept-Encoding"),
    *("Cookie", "Authorization", "*", "Accept-Encoding, Cookie", "Accept-Language"),
]
STATUSES = [200] * 30 + [201, 203, 301, 302, 401, 403, 404, 410, 500, 503]
METHODS = ["GET"] * 15 + ["HEAD", "HEAD", "POST", "PUT", "DELETE"]
LOCATIONS = [
    *("web", "web", "web", "fcgi", "off", "store", "key", "body", "redirect"),
    # where the learn key has the user, or what the answer may vary by
    *("user", "vary"),
    # where a rewrite leaves nothing of the URL
    "front",
    # where a first application decides who is let through to the second
    *("chain", "page"),
]

# where nothing is learned: it is off, or not the location's own answer
NOTHING = {"off", "redirect", "chain", "page"}

# a client may say what it likes
FORGED: Lines = [
    ("X-Accel-Expires", "600"),
    ("x-accel-redirect", "/files/1.dat"),
    ("X-Sendfile", "/etc/passwd"),
    ("X-Sendfile-Type", "X-Sendfile"),
    ("X-Accel-Mapping", "/=/files/"),
    ("X_Accel_Expires", "600"),
    ("X_Sendfile_Type", "X-Sendfile"),
    ("Cache-Control", "public, max-age=600"),
    ("Cache-Control", "no-cache"),
    ("X-LIGHTTPD-send-file", "/etc/passwd"),
]


def mixed(chance: random.Random, name: str) -> str:
    """Return a header's name in some spelling."""
    return chance.choice((name, name.lower(), name.upper()))


class World:
    """The application, and what it has answered to whom.

    Args:
        site: whose files are named.
        seed: of all that is random.
        now: seconds since 1970, at the beginning.
    """

    def __init__(self, site: Site, seed: int, now: float) -> None:
        self.site = site
        self.seed = seed
        self.now = now
        self.answers: dict[int, Answer] = {}
        self.asked_twice: list[int] = []
        self.forged: list[str] = []

    def answer(self, number: int) -> Answer:
        """Make the answer to a request, the same one for each seed."""
        chance = random.Random(self.seed * 1_000_003 + number)
        lines: Lines = []
        if chance.random() < 0.7:
            lines.append(("Cache-Control", chance.choice(CACHE_CONTROLS)))
        if chance.random() < 0.1:
            lines.append(("Cache-Control", chance.choice(CACHE_CONTROLS)))
        if chance.random() < 0.4:
            value = chance.choice(ACCEL_EXPIRES).replace("%d", str(int(self.now) + 900))
            lines.append(("X-Accel-Expires", value))
        if chance.random() < 0.15:
            seconds = chance.choice((900, -900))
            value = formatdate(self.now + seconds, usegmt=True)
            lines.append(("Expires", chance.choice((value, value, "0"))))
        if chance.random() < 0.15:
            lines.append(("Vary", chance.choice(VARIES)))
        if chance.random() < 0.03:
            lines.append(("Vary", chance.choice(VARIES)))
        if chance.random() < 0.12:
            lines.append(("Set-Cookie", f"session={number}; HttpOnly"))
        file_id: int | None = None
        delivered = True
        if chance.random() < 0.9:
            file_id = chance.randrange(FILES)
            path = f"{self.site.files.root}/{file_id}.dat"
            kind = chance.choice(("X-Sendfile", "X-LIGHTTPD-send-file", "accel"))
            if chance.random() < 0.04:
                delivered = False
                path = chance.choice((f"{path}.none", "/etc/passwd", "1.dat"))
            if kind == "accel":
                name = f"{file_id}.dat" if delivered else "none"
                kind, path = "X-Accel-Redirect", f"/files/{name}"
            lines.append((kind, path))
        chance.shuffle(lines)
        lines = [(mixed(chance, n), v) for n, v in lines]
        return Answer(chance.choice(STATUSES), lines, file_id, delivered)

    def gate(self, request: PeerRequest) -> Said:
        """Let a request through to the application, or to it for its error page.

        It says who may have the answer, and the application knows nothing of
        that: nobody else may.
        """
        number = int(request.header("X-Number") or "0")
        lines = [
            (name, value)
            for name, value in self.answer(-number).lines
            if not name.lower().startswith(("x-sendfile", "x-accel-r", "x-light"))
        ]
        if request.target.startswith("/chain/"):
            return Said(200, [*lines, ("X-Accel-Redirect", f"/inner{request.target}")])
        return Said(403, lines, b"no")

    def script(self, request: PeerRequest) -> Said:
        """Answer a request, and note what should not have come with it."""
        headers = [(n.lower().replace("_", "-"), v) for n, v in request.headers]
        number = int(dict(headers)["x-number"])
        begins = ("x-sendfile", "x-accel-", "x-lighttpd-send-")
        self.forged += [n for n, _ in headers if n.startswith(begins)]
        if number in self.answers:
            self.asked_twice.append(number)
        answer = self.answer(number)
        self.answers[number] = answer
        lines = [("X-Answer", str(number)), *answer.lines]
        named = answer.file_id is not None and answer.status == 200
        body = b"" if named else b"said %d" % number
        if request.method == "HEAD":
            return Said(answer.status, lines, b"", length=len(body))
        return Said(answer.status, lines, body)


def some_request(chance: random.Random, number: int, host: str, target: str) -> Asked:
    """Make a request of one of the users."""
    user = chance.choice("AB")
    headers: Lines = []
    if chance.random() < 0.25:
        headers.append((mixed(chance, "Authorization"), f"Bearer {user}"))
    if chance.random() < 0.4:
        headers.append(("Cookie", f"session={user}"))
    if chance.random() < 0.2:
        headers.append(chance.choice(FORGED))
    if chance.random() < 0.05:
        headers.append(("Range", "bytes=0-9"))
    if chance.random() < 0.05:
        headers.append(("If-None-Match", chance.choice(("*", '"x"'))))
    if chance.random() < 0.1:
        headers.append(("Accept-Encoding", "gzip"))
    if chance.random() < 0.1:
        headers.append(("Accept-Language", "ja"))
    return Asked(number, chance.choice(METHODS), host, target, headers)


def some_case(chance: random.Random, case: int, number: int) -> list[Asked]:
    """Make the requests of a case: for one thing, and for what is near it."""
    location = chance.choice(LOCATIONS)
    host = chance.choice(HOSTS)
    query = chance.choice(("", "", "?a=1", f"?k={case}", "?k=same"))
    target = f"/{location}/c{case}{query}"
    requests = []
    for n in range(chance.choice((2, 2, 3, 4))):
        to_host, to_target = host, target
        if n and chance.random() < 0.25:
            kind = chance.randrange(5)
            if kind == 0:
                to_host = chance.choice(HOSTS)
            elif kind == 1:
                to_target = f"/{location}/c{case}?a=2"
            elif kind == 2:
                to_target = f"/{chance.choice(LOCATIONS)}/c{case}{query}"
            elif kind == 3:
                to_target = f"/{location}/C{case}{query}"
            else:
                to_target = f"/{location}/c{case}"
        requests.append(some_request(chance, number + n, to_host, to_target))
    return requests


SERVER = f"""
    underscores_in_headers on;
    http_sendfile_cache main;
    http_sendfile_learn on;
    http_sendfile_symlinks off;
    %%ACCEPT%%
    location /web/ {{ %%WEB%% }}
    location /fcgi/ {{ %%FCGI%% }}
    location /off/ {{ http_sendfile_learn off; %%WEB%% }}
    location /key/ {{ http_sendfile_key $arg_k; %%WEB%% }}
    location /user/ {{
        http_sendfile_learn_key "$scheme://$http_host$request_uri $cookie_session";
        %%WEB%%
    }}
    location /vary/ {{
        http_sendfile_learn_key "$scheme://$http_host$request_uri
            $sendfile_accept_encoding $http_accept_language";
        %%WEB%%
    }}
    location /front/ {{ rewrite ^ /index.php? last; }}
    location = /index.php {{ %%WEB%% }}
    location /body/ {{ http_sendfile_cache_body 64k; %%WEB%% }}
    location /store/ {{
        http_sendfile on; %%DIRECT%% http_sendfile_key "none$uri";
        http_sendfile_fallback @store;
    }}
    location @store {{ %%WEB%% }}
    location /redirect/ {{ error_page 418 = @redirect; return 418; }}
    location @redirect {{ %%WEB%% }}
    location /chain/ {{ %%GATE%% }}
    location /page/ {{
        proxy_intercept_errors on; error_page 403 = /inner$uri$is_args$args; %%GATE%%
    }}
    location ^~ /inner/ {{ internal; %%WEB%% }}
    %%INTERNAL%% {STATUS}
"""


def start(site: Site, web: Gateway, world: World) -> Nginx:
    """Start nginx with two servers, and connections that are kept."""
    fcgi = site.gateway("fastcgi")
    fcgi.script = web.script
    gate = site.gateway("http")
    gate.script = world.gate
    site.variables["GATE"] = gate.passes()
    site.variables["WEB"] = (
        f'{web.passes("web")} proxy_http_version 1.1; proxy_set_header Connection "";'
    )
    site.variables["FCGI"] = f"{fcgi.passes('fcgi')} fastcgi_keep_conn on;"
    site.variables["LOG_LEVEL"] = "alert"
    upstreams = (
        f"upstream web {{ server {web.address}; keepalive 4; }}"
        f" upstream fcgi {{ server {fcgi.address}; keepalive 4; }}"
    )
    return site.start(
        SERVER,
        f"""
        http_sendfile_cache_zone main:64m;
        keepalive_requests 1000000;
        {upstreams}
        server {{
            listen 127.0.0.1:%%PORT%%; server_name two.test *.two.test;
            {SERVER.replace(STATUS, "")}
        }}
        """,
    )


@dataclass
class Oracle:
    """What clients may get, and what they have to.

    Args:
        world: which answers there are.
        asked: each request, by its number.
        known: what has been learned, by what it is for.
        failures: what went wrong.
        learned: how often an answer was another request's.
        refused: how many answers were never to be learned.
        again: how often an answer that was learned was asked for all the same.
        taken_back: how often a method that may change something did that.
    """

    world: World
    asked: dict[int, Asked] = field(default_factory=dict)
    known: dict[tuple[str, str, str], int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    learned: int = 0
    refused: int = 0
    again: int = 0
    taken_back: int = 0

    def fail(self, request: Asked, response: Response, text: str) -> None:
        """Note a failure, with the whole story."""
        numbers = {int(v) for v in response.all("X-Answer")} | {request.number}
        story = [
            f"{self.asked.get(n, request)} answered {self.world.answers.get(n)}"
            for n in sorted(numbers)
        ]
        got = f"{response.status} {response.headers} {response.body[:60]!r}"
        self.failures.append("\n".join([text, *story, f"the client got {got}"]))

    def check(self, request: Asked, response: Response) -> None:
        """Judge what a client has got, and note what has been learned by it."""
        self.asked[request.number] = request
        for name in ("X-Accel-Expires", "X-Sendfile", "X-Accel-Redirect"):
            if response.all(name):
                self.fail(request, response, f"{name} is shown")
        numbers = response.all("X-Answer")
        if len(numbers) > 1:
            self.fail(request, response, "several answers")
            return
        number = int(numbers[0]) if numbers else request.number
        # what leads to the second application is learned, of the first one
        if request.location != "chain":
            ages = 0 if number == request.number else 1
            if len(response.all("Age")) != ages:
                self.fail(request, response, f"wanted {ages} Age")
        if number == request.number:
            self._own(request, response)
        else:
            self._learned(request, response, number)

    def forget(self, host: str, target: str) -> None:
        """Note that what was learned for a URL has been purged."""
        self.known = {k: n for k, n in self.known.items() if k[:2] != (host, target)}

    def _own(self, request: Asked, response: Response) -> None:
        answer = self.world.answers.get(request.number)
        if answer is None:
            self.fail(request, response, "nobody has answered this")
            return
        if not request.is_unsafe and self.known.pop(request.key, 0):
            # something else in the same slot may have been taken back
            self.again += 1
        if not answer.is_followed:
            self._expect(request, response, answer.status, b"said %d" % request.number)
        elif not answer.delivered:
            if response.status not in (404, 502):
                self.fail(request, response, "an impossible file was sent")
        else:
            self._expect_file(request, response, answer)
        if request.is_unsafe and request.location not in NOTHING:
            if answer.status < 400 and self.known.pop(request.key, 0):
                self.taken_back += 1
        elif verdict(request, answer, self.world.now) is Verdict.MUST:
            self.known[request.key] = request.number
        elif request.location not in NOTHING:
            self.refused += 1

    def _learned(self, request: Asked, response: Response, number: int) -> None:
        self.learned += 1
        if number not in self.asked:
            self.fail(request, response, "an answer that nobody has got")
            return
        answer, of = self.world.answers[number], self.asked[number]
        if verdict(of, answer, self.world.now) is Verdict.NEVER:
            self.fail(request, response, "this is for nobody else")
        if request.key != of.key or request.location in NOTHING:
            self.fail(request, response, "this is another's")
        if request.is_unsafe:
            self.fail(request, response, "a learned answer to this method")
        if number != self.known.get(request.key):
            self.fail(request, response, "this has been forgotten")
        self._expect_file(request, response, answer)

    def _expect(
        self, request: Asked, response: Response, status: int, body: bytes
    ) -> None:
        wanted = b"" if request.method == "HEAD" else body
        if (response.status, response.body) != (status, wanted):
            self.fail(request, response, f"wanted {status} {wanted[:40]!r}")

    def _expect_file(self, request: Asked, response: Response, answer: Answer) -> None:
        assert answer.file_id is not None
        whole = content(answer.file_id, SIZE)
        if response.status == 200:
            self._expect(request, response, 200, whole)
        elif response.status == 206:
            self._expect(request, response, 206, whole[:10])
        elif response.status != 304:
            self.fail(request, response, "no file")


class Client:
    """Sends many requests in one packet, and reads the answers."""

    def __init__(self, nginx: Nginx) -> None:
        self._nginx = nginx
        self._connection: Connection | None = None

    def ask(self, requests: list[Asked], oracle: Oracle) -> None:
        """Send requests and have each answer judged."""
        rest = requests
        while rest:
            if self._connection is None:
                self._connection = self._nginx.connect()
            self._connection.send(b"".join(request.wire() for request in rest))
            for n, request in enumerate(rest):
                response = self._connection.read_response(request.method)
                oracle.check(request, response)
                if response.closed:
                    self.close()
                    rest = rest[n + 1 :]
                    break
            else:
                return

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def ask_all(
    chance: random.Random, client: Client, oracle: Oracle, nginx: Nginx
) -> None:
    """Make the cases, with reloads and purges in between."""
    batch: list[Asked] = []
    number = 1
    for case in range(CASES):
        requests = some_case(chance, case, number)
        number += len(requests)
        batch += requests
        if len(batch) < BATCH and case + 1 < CASES:
            continue
        client.ask(batch, oracle)
        assert not oracle.failures, "\n\n".join(oracle.failures[:5])
        batch = []
        if chance.random() < 0.002:
            client.close()
            nginx.reload()
        if chance.random() < 0.002:
            client.close()
            assert nginx.request("DELETE", "/status/cache").status == 200
            oracle.known.clear()
        if oracle.known and chance.random() < 0.2:
            last = requests[-1]
            purge_url(nginx, f"http://{last.host}{last.target}")
            oracle.forget(last.host, last.target)
            batch = [some_request(chance, number, last.host, last.target)]
            number += 1


def test_nobody_gets_what_only_another_may_see(site: Site) -> None:
    """User B never receives what only user A may see."""
    seed = int(os.environ.get("NGX_SEED", random.SystemRandom().getrandbits(32)))
    print(f"NGX_SEED={seed} repeats this")
    chance = random.Random(seed)
    for n in range(FILES):
        site.files.write_id(f"{n}.dat", n, SIZE)
    web = use_gateway(site)
    world = World(site, seed, time.time())
    web.script = world.script
    nginx = start(site, web, world)
    oracle = Oracle(world)
    client = Client(nginx)
    try:
        ask_all(chance, client, oracle, nginx)
    finally:
        client.close()
    assert world.forged == [], "a client's word reached the application"
    assert world.asked_twice == []
    # it is no property of nothing
    assert oracle.learned >= CASES // 20, oracle.learned
    assert oracle.refused >= CASES // 2, oracle.refused
    assert oracle.taken_back >= CASES // 200, oracle.taken_back
    assert oracle.again <= oracle.learned // 20, oracle.again
    assert time.time() - world.now < 600, "what was learned has expired meanwhile"
