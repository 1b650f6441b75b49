"""http_sendfile_learn as a shared cache: RFC 9111, and whose answer it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from lib.accept import sendfile
from lib.cache import let_pass
from lib.client import Connection
from lib.files import content
from lib.gateway import Gateway, Lines, Said
from lib.http10 import PeerRequest
from lib.learn import (
    AUTHORIZED,
    LEARN,
    MINUTE,
    NAME,
    SERVER,
    SIZE,
    Held,
    ask,
    assert_learned,
    expire,
    in_seconds,
    leave,
    named,
    reach,
    soon,
    source,
    start,
    write,
)
from lib.nginx import Nginx
from lib.site import Site
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures",)


# Age


def age(
    nginx: Nginx,
    uri: str = "/a",
    headers: dict[str, str] | None = None,
    method: str = "GET",
) -> int:
    """Return the Age of a learned answer."""
    answer = ask(nginx, uri, headers, method)
    assert answer.entry.source == "learned", answer
    value = answer.response.header("Age")
    assert value is not None, answer.response
    assert value.isdigit()
    return int(value)


@pytest.mark.parametrize("header", ["X-Sendfile", "X-Accel-Redirect"])
def test_age(site: Site, app: Gateway, header: str) -> None:
    """Every hit has it, and it grows; the application's own answer has none."""
    lines = [named(site, header), MINUTE, ("ETag", '"x"')]
    app.answers["/a"] = Said(headers=lines)
    nginx = start(site)
    begin = time.time()
    assert ask(nginx).response.all("Age") == []
    assert age(nginx) <= time.time() - begin + 1
    wait_until(lambda: age(nginx) >= 2, what="it to grow")
    assert 2 <= age(nginx) <= time.time() - begin + 1
    for method, headers, status in (
        ("HEAD", {}, 200),
        ("GET", {"Range": "bytes=5-9"}, 206),
        ("GET", {"Range": "bytes=0-3,5-9"}, 206),
        ("GET", {"If-None-Match": '"x"'}, 304),
    ):
        answer = ask(nginx, "/a", headers, method)
        assert answer.response.status == status
        assert int(answer.response.header("Age") or "") >= 2
    assert app.count() == 1


def test_no_age_of_an_error(site: Site, web: Gateway) -> None:
    """What was not learned has none."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, web)
    response = ask(nginx, "/a", {"Range": "bytes=5000-"}).response
    assert (response.status, response.all("Age")) == (416, [])
    assert nginx.get(f"/static/{NAME}").all("Age") == []


@pytest.mark.parametrize(
    ("lines", "least"),
    [
        (lambda: [("Age", "10")], 10),
        (lambda: [("Date", in_seconds(-20))], 20),
        (lambda: [("Age", "10"), ("Date", in_seconds(-20))], 20),
        (lambda: [("Age", "30"), ("Date", in_seconds(-20))], 30),
        (lambda: [("Date", in_seconds(3600))], 0),
    ],
    ids=["age", "date", "older-date", "younger-date", "tomorrow"],
)
def test_age_begins_with_the_answers(
    site: Site, app: Gateway, lines: Callable[[], list[tuple[str, str]]], least: int
) -> None:
    """The answer may be old already."""
    begin = time.time()
    app.answers["/a"] = sendfile(write(site), ("X-Accel-Expires", "3600"), *lines())
    nginx = start(site)
    first = ask(nginx).response
    # nginx's own Date, and the file is new to who has asked for it
    assert len(first.all("Date")) == 1
    for _ in range(2):
        assert least <= age(nginx) <= least + (time.time() - begin) + 2


def test_age_of_a_slow_answer(site: Site, web: Gateway) -> None:
    """The time that the application took counts."""
    path = write(site)

    def script(request: PeerRequest) -> Said:
        let_pass(2.1)
        return sendfile(path, MINUTE)

    web.script = script
    nginx = start(site)
    assert source(nginx) == "app"
    assert age(nginx) >= 2


def test_answer_slower_than_its_lifetime(site: Site, web: Gateway) -> None:
    """What is over when it comes is not learned."""
    path = write(site)

    def script(request: PeerRequest) -> Said:
        let_pass(2.1)
        return sendfile(path, ("X-Accel-Expires", "2"))

    web.script = script
    nginx = start(site)
    answer = ask(nginx)
    site.assert_file(answer.response, 1, SIZE)
    assert answer.entry.reason == "not learned: lifetime is over"


def test_answer_across_a_second(site: Site, web: Gateway) -> None:
    """A moment is not a second, though the clock's second is another one."""
    path = write(site)
    wall = time.time

    def script(request: PeerRequest) -> Said:
        second = int(wall())
        wait_until(lambda: wall() > second + 1.02, what="the next second")
        return sendfile(path, ("X-Accel-Expires", "1"))

    web.script = script
    nginx = start(site)
    for n in range(40):
        wait_until(lambda: 0.6 < wall() % 1 < 0.7, what="the end of a second")
        begin = wall()
        answer = ask(nginx, f"/{n}")
        if wall() - begin < 0.95:
            break
    else:
        raise AssertionError("this machine is too slow for it")
    assert answer.entry.reason == "-"


def test_age_of_a_stale_answer(site: Site, web: Gateway) -> None:
    """It is as old as it is."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(drop=0)
    wait_until(lambda: ask(nginx).said == ("STALE", "learned"), what="it to be stale")
    assert age(nginx) >= 2
    wait_until(lambda: age(nginx) >= 3, what="it to grow")


@pytest.mark.parametrize(
    "lines",
    [
        [("Cache-Control", "public, max-age=600")],
        [("Cache-Control", "private, max-age=5"), ("X-Accel-Expires", "600")],
        [
            ("Cache-Control", "public"),
            ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT"),
        ],
        [("Cache-Control", "s-maxage=600, max-age=60")],
    ],
    ids=["max-age", "private", "expires", "s-maxage"],
)
def test_lifetime_downstream(
    site: Site, app: Gateway, lines: list[tuple[str, str]]
) -> None:
    """What was said to caches beyond is passed on as it was; Age says the rest."""
    app.answers["/a"] = sendfile(write(site), *lines, ("Age", "100"))
    nginx = start(site)
    first = ask(nginx)
    assert first.entry.source == "app"
    hit = ask(nginx).response
    assert int(hit.header("Age") or "") >= 100
    for name in ("Cache-Control", "Expires"):
        said = [v for n, v in lines if n == name]
        assert hit.all(name) == first.response.all(name) == said
    assert hit.all("X-Accel-Expires") == []


def test_one_age(site: Site, web: Gateway) -> None:
    """With a redirect to an application that says its own, there is one."""
    second = site.gateway("http")
    second.script = lambda request: Said(headers=[("Age", "7")], body=b"second")
    web.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/second/a"), MINUTE])
    nginx = start(site, f"location /second/ {{ internal; {second.passes()} }}" + SERVER)
    for _ in range(3):
        response = ask(nginx).response
        assert response.body == b"second"
        assert len(response.all("Age")) == 1
    assert web.count() == 1


@pytest.mark.parametrize("date", [True, False], ids=["date", "no-date"])
def test_age_of_nginx_own_cache(site: Site, app: Gateway, date: bool) -> None:
    """An answer that proxy_cache has had for a while is so old."""
    path = write(site)
    lines = [("Date", in_seconds(0))] if date else []
    app.script = lambda request: Said(
        headers=[*sendfile(path, ("X-Accel-Expires", "30")).headers, *lines],
        body=b"stored",
    )
    cache = app.directive("cache", "c") + app.directive("cache_key", "$arg_k")
    nginx = start(
        site,
        f"{cache} location /fill/ {{ %%PASS%% }}"
        f" location /use/ {{ {LEARN} %%ACCEPT%% %%PASS%% }}",
        app.directive("cache_path", "%%DIR%%/cache keys_zone=c:1m"),
    )
    assert nginx.get("/fill/a?k=1").body == b"stored"
    let_pass(3)
    assert source(nginx, "/use/a?k=1") == "app"
    assert age(nginx, "/use/a?k=1") >= 3
    assert app.count() == 1


# never stale


REVALIDATE: dict[str, list[tuple[str, str]]] = {
    "must-revalidate": [("Cache-Control", "public, max-age=2, must-revalidate")],
    "proxy-revalidate": [("Cache-Control", "public, max-age=2, proxy-revalidate")],
    "s-maxage": [("Cache-Control", "s-maxage=2")],
    "s-maxage-and-max-age": [("Cache-Control", "public, max-age=60, s-maxage=2")],
    "upper-case": [("Cache-Control", "Public, Max-Age=2, Must-Revalidate")],
    "second-line": [
        ("Cache-Control", "public, max-age=2"),
        ("Cache-Control", "must-revalidate"),
    ],
    "accel": [soon(), ("Cache-Control", "private, must-revalidate")],
}


@pytest.mark.parametrize("lines", REVALIDATE.values(), ids=REVALIDATE.keys())
def test_revalidate_while_down(
    site: Site, web: Gateway, lines: list[tuple[str, str]]
) -> None:
    """At the end of its time it is gone, whatever use_stale says."""
    web.answers["/a"] = sendfile(write(site), *lines)
    nginx = start(
        site, "http_sendfile_cache_use_stale error timeout updating;" + SERVER
    )
    assert_learned(nginx, web)
    web.answers["/a"] = Said(drop=0)

    def over() -> bool:
        answer = ask(nginx)
        assert answer.entry.status != "STALE"
        return answer.response.status == 502

    wait_until(over, what="the end of its time")
    for _ in range(3):
        answer = ask(nginx)
        assert answer.response.status == 502
        assert b"ID:" not in answer.response.body


def test_revalidate_while_another_asks(site: Site, web: Gateway) -> None:
    """Nor is it used while another request asks."""
    line = ("Cache-Control", "public, max-age=2, must-revalidate")
    path = write(site)
    held = Held(site, web, sendfile(path, line), sendfile(write(site, 2), line))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2) as one, expire(nginx, web, 3) as other:
            held.go.set()
            for connection in (one, other):
                site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()


# methods that may change something

UNSAFE = ["POST", "PUT", "PATCH", "DELETE"]


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize(
    ("status", "after"),
    [
        *((status, "app") for status in (200, 201, 202, 204, 301, 302, 303, 307)),
        *((status, "learned") for status in (400, 401, 403, 404, 409, 412, 422)),
        *((status, "learned") for status in (500, 502, 503, 504)),
    ],
)
def test_unsafe_methods(
    site: Site, web: Gateway, method: str, status: int, after: str
) -> None:
    """What was done takes the answer back; what was refused, or failed, does not."""
    path = write(site)
    length = None if status == 204 else -1

    def script(request: PeerRequest) -> Said:
        if request.method == "GET":
            return sendfile(path, MINUTE)
        return Said(status, [("Location", "/a")], length=length)

    web.script = script
    nginx = start(site)
    assert_learned(nginx, web)
    assert_learned(nginx, web, "/b")
    assert nginx.request(method, "/a", body=b"body").status == status
    assert source(nginx) == after
    assert source(nginx) == "learned"
    assert source(nginx, "/b") == "learned"


def test_unsafe_methods_of_each_protocol(site: Site, app: Gateway) -> None:
    """However the application is asked."""
    path = write(site)
    statuses = iter((403, 500, 201))

    def script(request: PeerRequest) -> Said:
        if request.method == "GET":
            return sendfile(path, MINUTE)
        return Said(next(statuses))

    app.script = script
    nginx = start(site)
    assert_learned(nginx, app)
    sources = []
    for _ in range(3):
        nginx.post("/a", b"body")
        sources.append(source(nginx))
    assert sources == ["learned", "learned", "app"]


@pytest.mark.parametrize("header", ["X-Sendfile", "X-Accel-Redirect"])
def test_unsafe_method_answered_with_a_file(
    site: Site, app: Gateway, header: str
) -> None:
    """An answer that names a file is one, too."""
    app.answers["/a"] = Said(headers=[named(site, header), MINUTE])
    nginx = start(site)
    assert_learned(nginx, app)
    site.assert_file(nginx.post("/a", b"body"), 1, SIZE)
    assert source(nginx) == "app"


@pytest.mark.parametrize(
    "block",
    ["if ($request_method = POST) { set $x 1; }", "limit_except GET { allow all; }"],
)
def test_unsafe_method_in_a_block(site: Site, app: Gateway, block: str) -> None:
    """Nothing is learned in a block without a key, but it takes back."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site, f"location / {{ {LEARN} %%ACCEPT%% %%PASS%% {block} }}")
    assert_learned(nginx, app)
    nginx.post("/a", b"body")
    assert source(nginx) == "app"
    assert source(nginx) == "learned"


def test_unsafe_method_of_a_client_that_leaves(site: Site, web: Gateway) -> None:
    """Nobody knows what has been done."""
    path = write(site)
    held = Held(site, web, sendfile(path, MINUTE), sendfile(path, MINUTE))
    nginx = start(site)
    try:
        assert source(nginx) == "app"
        assert source(nginx) == "learned"
        with nginx.connect() as connection:
            connection.send_request("POST", "/a", body=b"body")
            wait_until(lambda: web.count() == 2, what="the application to be asked")
            connection.abort()
        nginx.logged("/a", 3)
    finally:
        held.go.set()
    assert source(nginx) == "app"


@pytest.mark.parametrize("drop", [0, 20])
def test_unsafe_method_without_an_answer(site: Site, app: Gateway, drop: int) -> None:
    """Nor if the application has died of it."""
    path = write(site)

    def script(request: PeerRequest) -> Said:
        if request.method == "GET":
            return sendfile(path, MINUTE)
        return Said(body=b"x" * 100, drop=drop)

    app.script = script
    nginx = start(site)
    assert_learned(nginx, app)
    assert nginx.post("/a", b"body").status == 502
    assert source(nginx) == "app"


def test_unsafe_method_that_is_not_passed_on(site: Site, web: Gateway) -> None:
    """What the application was not asked takes nothing back."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(
        site,
        SERVER.replace(
            "%%ACCEPT%%",
            "%%ACCEPT%% auth_request /auth; error_page 405 = @no;",
        )
        + "location = /auth { if ($request_method = POST) { return 403; } return 204; }"
        "location @no { return 403; }",
    )
    assert_learned(nginx, web)
    assert nginx.post("/a", b"body").status == 403
    assert source(nginx) == "learned"
    assert web.count() == 1


def test_unsafe_method_takes_it_back_everywhere(site: Site, web: Gateway) -> None:
    """Wherever the key was learned, by other servers and locations as well."""
    path = write(site)

    def script(request: PeerRequest) -> Said:
        return sendfile(path, MINUTE) if request.method == "GET" else Said(201)

    web.script = script
    locations = "location / { %%PASS%% } location ~ x$ { %%PASS%% }"
    nginx = start(
        site,
        locations,
        f"{LEARN} %%ACCEPT%% http_sendfile_learn_key $arg_k;"
        f" server {{ listen 127.0.0.1:%%PORT:other%%; {locations} }}",
    )

    def asked(key: int) -> int:
        before = web.count()
        for port in ("", "other"):
            for uri in ("/a", "/x"):
                nginx.get(f"{uri}?k={key}", port=port)
        return web.count() - before

    assert [asked(1), asked(1), asked(2), asked(2)] == [4, 0, 4, 0]
    assert nginx.post("/a?k=1", b"body").status == 201
    assert [asked(1), asked(1), asked(2)] == [4, 0, 0]


def test_unsafe_method_while_a_get_is_asked(site: Site, web: Gateway) -> None:
    """What the application has said before it is not learned after it."""
    path = write(site)
    held = Held(site, web, Said(404), sendfile(path, MINUTE))
    nginx = start(site)
    try:
        assert ask(nginx).response.status == 404
        with nginx.connect() as connection:
            connection.send_request("GET", "/a")
            wait_until(lambda: web.count() == 2, what="the GET to be asked")
            web.answers["/a"] = Said(201)
            assert nginx.post("/a", b"body").status == 201
            held.go.set()
            site.assert_file(connection.read_response(), 1, SIZE)
    finally:
        held.go.set()
    web.answers["/a"] = sendfile(path, MINUTE)
    assert source(nginx) == "app"
    assert source(nginx) == "learned"


def test_stale_answer_is_taken_back(site: Site, web: Gateway) -> None:
    """It is not served stale after that, either."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(503)
    wait_until(lambda: ask(nginx).response.status == 503, what="the end of its time")
    web.answers["/a"] = Said(201)
    assert nginx.post("/a", b"body").status == 201
    web.answers["/a"] = Said(drop=0)
    for _ in range(3):
        assert ask(nginx).response.status == 502


def test_stale_answer_is_taken_back_while_it_is_asked_for(
    site: Site, web: Gateway
) -> None:
    """A request that has it in hand already does not use it then."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), Said(drop=0))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2) as connection:
            web.answers["/a"] = Said(201)
            assert nginx.post("/a", b"body").status == 201
            held.go.set()
            assert connection.read_response().status == 502
    finally:
        held.go.set()


# X-Accel-Redirect


@pytest.mark.parametrize("status", [200, 201, 203, 204, 302, 403, 404, 410, 500, 503])
@pytest.mark.parametrize("kind", ["file", "application"])
def test_redirect_at_every_status(
    site: Site, app: Gateway, status: int, kind: str
) -> None:
    """It is followed as nginx follows it; only 200 is learned."""
    second = site.gateway("http")
    second.script = lambda request: Said(body=content(1, SIZE))
    to = f"/files/{NAME}" if kind == "file" else "/second/a"
    write(site)
    lines = [("X-Accel-Redirect", to), MINUTE, ("X-Mine", "yes")]
    if status == 302:
        lines.append(("Location", "/b"))
    length = None if status == 204 else -1
    app.answers["/a"] = Said(status, lines, length=length)
    nginx = start(site, f"location /second/ {{ internal; {second.passes()} }}" + SERVER)
    for n in range(1, 4):
        answer = ask(nginx)
        site.assert_file(answer.response, 1, SIZE)
        assert answer.response.all("X-Accel-Redirect") == []
        if status == 200:
            assert answer.entry.source == ("learned" if n > 1 else "app")
            assert app.count() == 1
        else:
            assert answer.entry.source == "app"
            assert answer.entry.reason == "not learned: the status is not 200"
            assert app.count() == n


@pytest.mark.parametrize("status", [200, 404, 500])
def test_redirect_is_not_learned_of_a_status(
    site: Site, web: Gateway, status: int
) -> None:
    """A redirect of another status says what that status says of a stale answer."""
    path = write(site)
    web.answers["/a"] = sendfile(path, soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(status, [("X-Accel-Redirect", f"/files/{NAME}")])

    def asked() -> bool:
        site.assert_file(ask(nginx).response, 1, SIZE)
        return web.count() == 2

    wait_until(asked, what="the end of its time")
    web.answers["/a"] = Said(drop=0)
    answer = ask(nginx)
    if status == 500:
        assert answer.said == ("STALE", "learned")
    else:
        assert answer.response.status == 502


@pytest.mark.parametrize("status", [200, 201])
def test_redirect_of_a_post(site: Site, web: Gateway, status: int) -> None:
    """The target is asked by GET, as nginx does it."""
    second = site.gateway("http")
    second.script = lambda request: Said(body=request.method.encode())
    web.answers["/a"] = Said(status, [("X-Accel-Redirect", "/second/a")])
    nginx = start(site, f"location /second/ {{ internal; {second.passes()} }}" + SERVER)
    assert nginx.post("/a", b"body").body == b"GET"


def test_redirect_without_a_slash_is_not_learned(site: Site, web: Gateway) -> None:
    """With one in front of it, it would be another URI, which has another file."""
    write(site, 1, "one/a.txt")
    write(site, 2, "two/a.txt")
    web.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/s/a.txt"), MINUTE])
    web.answers["/b"] = Said(headers=[("X-Accel-Redirect", "ss/a.txt"), MINUTE])
    nginx = start(
        site,
        "location /s/ { internal; alias %%FILES%%/one/; }"
        " location ss/ { internal; alias %%FILES%%/two/; }" + SERVER,
    )
    for _ in range(3):
        site.assert_file(ask(nginx, "/a").response, 1, SIZE)
        answer = ask(nginx, "/b")
        site.assert_file(answer.response, 2, SIZE)
        assert answer.entry.reason == "not learned: redirect to a URI without a slash"
    assert web.count() == 1 + 3


def test_redirects_as_nginx_follows_them(site: Site) -> None:
    """With the header accepted, and without the module: the same."""
    site.html.write("index.html", b"index")
    app = site.gateway("http")
    for value in (
        *(
            "/index.html",
            "/index.html?a=b",
            "/none",
            "index.html",
            "foo",
            "..",
            "../foo",
        ),
        *("/foo/..", "/foo/.%2e", "/index%2ehtml", "@named", "@none", "@", "?a", "#a"),
        *("/foo%20bar", "//index.html", "/./index.html", "/index.html#x", "http://x/y"),
        *("%2Findex.html", "/%00", "*"),
    ):
        app.answers[f"/{value.encode().hex()}"] = Said(
            headers=[("X-Accel-Redirect", value)]
        )
    locations = (
        'location @named { return 200 "named $uri\\n"; }'
        "location = /index.html { internal; }"
        f"location / {{ %s {app.passes()} }}"
        'location ~ "^/foo" { return 200 "foo $uri\\n"; }'
        "location foo { return 200 foo; }"
    )
    nginx = start(
        site,
        locations % "",
        "server { listen 127.0.0.1:%%PORT:on%%; root %%HTML%%;"
        + locations % "http_sendfile_accept X-Accel-Redirect;"
        + "}",
    )
    for uri in app.answers:
        without, within = (nginx.get(uri, port=port) for port in ("", "on"))
        said = bytes.fromhex(uri[1:])
        assert (within.status, within.body) == (without.status, without.body), said


# what the location ignores


def test_ignored_headers(site: Site, app: Gateway) -> None:
    """What it ignores for its own cache counts for nothing here, either."""
    public = ("Cache-Control", "public, max-age=60")
    cases: list[tuple[str, Lines, str]] = [
        ("X-Accel-Expires", [MINUTE], "app"),
        ("X-Accel-Expires", [("X-Accel-Expires", "0"), public], "learned"),
        ("Cache-Control", [public], "app"),
        ("Cache-Control", [MINUTE, ("Cache-Control", "no-store")], "learned"),
        ("Cache-Control", [MINUTE, ("Cache-Control", "private")], "learned"),
        ("Expires", [public, ("Expires", in_seconds(60))], "learned"),
        ("Expires", [("Cache-Control", "public"), ("Expires", in_seconds(60))], "app"),
        ("X-Accel-Expires Cache-Control Expires", [MINUTE, public], "app"),
        # the application's word about whom it is for stays
        ("Set-Cookie Vary", [MINUTE, ("Set-Cookie", "a=b")], "app"),
        ("Set-Cookie Vary", [MINUTE, ("Vary", "Cookie")], "app"),
        ("X-Accel-Limit-Rate", [MINUTE], "learned"),
    ]
    path = write(site)
    locations = ""
    for number, (names, lines, _) in enumerate(cases):
        ignore = app.directive("ignore_headers", names)
        locations += f"location /{number} {{ {ignore} {LEARN} %%ACCEPT%% %%PASS%% }}\n"
        app.answers[f"/{number}"] = Said(headers=[*sendfile(path).headers, *lines])
    nginx = start(site, locations)
    for number, (_, _, wanted) in enumerate(cases):
        assert source(nginx, f"/{number}") == "app"
        assert source(nginx, f"/{number}") == wanted, cases[number]


# whose answer it is


@pytest.mark.parametrize(
    "said",
    [
        Said(404, body=b"second"),
        Said(body=b"second"),
        Said(headers=[("X-Sendfile", "%s"), MINUTE]),
        Said(headers=[("X-Sendfile", "%s"), ("Cache-Control", "private")]),
    ],
    ids=["404", "body", "file", "private"],
)
@pytest.mark.parametrize("where", ["named", "uri"])
def test_error_page_with_an_application(
    site: Site, web: Gateway, said: Said, where: str
) -> None:
    """An application that makes error pages neither teaches nor revokes."""
    write(site, 2)
    other = str(site.files.path("aa/2.txt"))
    second = site.gateway("http")
    lines = [(n, str(v).replace("%s", other)) for n, v in said.headers]
    second.script = lambda request: Said(said.status, lines, said.body)
    web.answers["/a"] = sendfile(write(site), soon())
    page = "@second" if where == "named" else "/second"
    nginx = start(
        site,
        f"proxy_intercept_errors on; error_page 500 503 = {page}; {LEARN} %%ACCEPT%%"
        f" location {page} {{ internal; {second.passes()} }}".replace(
            "internal;", "internal;" if where == "uri" else ""
        )
        + SERVER,
    )
    assert_learned(nginx, web)
    web.answers["/a"] = Said(500, body=b"sorry")

    def asked() -> bool:
        ask(nginx)
        return second.count() == 1

    wait_until(asked, what="the end of its time")
    # it has not revoked
    web.answers["/a"] = Said(drop=0)
    for _ in range(2):
        answer = ask(nginx)
        assert answer.said == ("STALE", "learned")
        site.assert_file(answer.response, 1, SIZE)
    # nor taught
    web.answers["/b"] = Said(503, body=b"sorry")
    for _ in range(2):
        before = second.count()
        assert ask(nginx, "/b").entry.source != "learned"
        assert second.count() == before + 1
    web.answers["/b"] = sendfile(write(site), MINUTE)
    site.assert_file(ask(nginx, "/b").response, 1, SIZE)


def test_error_page_of_a_post(site: Site, web: Gateway) -> None:
    """Nor does the 200 of an error page make a POST one that was done."""
    second = site.gateway("http")
    second.script = lambda request: Said(body=b"second")
    path = write(site)

    def script(request: PeerRequest) -> Said:
        return sendfile(path, MINUTE) if request.method == "GET" else Said(403)

    web.script = script
    nginx = start(
        site,
        "proxy_intercept_errors on; error_page 403 =200 @second;"
        f" location @second {{ {second.passes()} }}" + SERVER,
    )
    assert_learned(nginx, web)
    assert nginx.post("/a", b"body").body == b"second"
    assert source(nginx) == "learned"


def test_post_with_an_error_page_of_its_own(site: Site, web: Gateway) -> None:
    """Nor does its 404 undo one that was done."""
    second = site.gateway("http")
    second.script = lambda request: Said(404, body=b"second")
    path = write(site)

    def script(request: PeerRequest) -> Said:
        if request.method == "GET":
            return sendfile(path, MINUTE)
        return Said(302, [("Location", "/b")])

    web.script = script
    nginx = start(
        site,
        "proxy_intercept_errors on; error_page 302 = @second;"
        f" location @second {{ {second.passes()} }}" + SERVER,
    )
    assert_learned(nginx, web)
    assert nginx.post("/a", b"body").body == b"second"
    assert source(nginx) == "app"


@pytest.mark.parametrize(
    "said",
    [
        Said(404, body=b"second"),
        Said(500, body=b"second"),
        Said(headers=[("X-Sendfile", "%s"), MINUTE]),
        Said(headers=[("X-Sendfile", "%s"), ("Cache-Control", "private")]),
        Said(drop=0),
    ],
    ids=["404", "500", "file", "private", "dropped"],
)
def test_mirror(site: Site, web: Gateway, said: Said) -> None:
    """What a mirror's application says is nobody's business."""
    write(site, 2)
    other = str(site.files.path("aa/2.txt"))
    second = site.gateway("http")
    lines = [(n, str(v).replace("%s", other)) for n, v in said.headers]
    second.script = lambda request: Said(said.status, lines, said.body, drop=said.drop)
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(
        site,
        f"mirror /mirror; location = /mirror {{ internal; {LEARN} %%ACCEPT%%"
        f" {second.passes()} }}" + SERVER,
    )
    assert_learned(nginx, web)
    assert second.count() >= 1
    web.answers["/a"] = Said(drop=0)
    wait_until(lambda: ask(nginx).said == ("STALE", "learned"), what="it to be stale")
    site.assert_file(ask(nginx).response, 1, SIZE)
    web.answers["/a"] = sendfile(write(site), MINUTE)
    assert source(nginx) == "app"
    assert source(nginx) == "learned"


@pytest.mark.parametrize(
    "said",
    [
        Said(204, length=None),
        Said(headers=[("X-Sendfile", "%s"), MINUTE]),
        Said(headers=[("X-Accel-Redirect", "/files/aa/2.txt"), MINUTE]),
    ],
    ids=["204", "file", "redirect"],
)
def test_auth_request(site: Site, web: Gateway, said: Said) -> None:
    """Nor what the application of auth_request says besides its status."""
    write(site, 2)
    other = str(site.files.path("aa/2.txt"))
    auth = site.gateway("http")
    lines = [(n, str(v).replace("%s", other)) for n, v in said.headers]
    auth.script = lambda request: Said(said.status, lines, length=said.length)
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(
        site,
        f"auth_request /auth; location = /auth {{ internal; {LEARN} %%ACCEPT%%"
        f" {auth.passes()} }}" + SERVER,
    )
    for count in range(1, 4):
        site.assert_file(ask(nginx).response, 1, SIZE)
        assert auth.count() == count
    assert web.count() == 1
    # who is refused now does not get it
    auth.script = lambda request: Said(403)
    assert ask(nginx).response.status == 403


def test_redirect_to_an_application_that_refuses(site: Site, web: Gateway) -> None:
    """The answer behind a redirect is not the application's about the URL."""
    second = site.gateway("http")
    write(site, 2)
    public = ("Cache-Control", "public, max-age=60")
    web.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/second/a"), MINUTE])
    nginx = start(
        site,
        f"location /second/ {{ internal; {LEARN} %%ACCEPT%% {second.passes()} }}"
        + SERVER,
    )
    second.answers["/second/a"] = Said(404, body=b"no")
    for count in range(1, 4):
        answer = ask(nginx)
        assert (answer.response.status, answer.response.body) == (404, b"no")
        assert (web.count(), second.count()) == (count, count)
    second.answers["/second/a"] = sendfile(site.files.path("aa/2.txt"), public)
    for _ in range(3):
        site.assert_file(ask(nginx).response, 2, SIZE)
    # where to go may be learned, what is there is asked each time
    assert second.count() == 6


# what else teaches nothing


def test_chunked_body_teaches_nothing(site: Site, web: Gateway) -> None:
    """A GET may have a body without a length."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    request = (
        b"GET /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4\r\nbody\r\n0\r\n\r\n"
    )
    for count in range(1, 3):
        with nginx.connect() as connection:
            connection.send(request)
            site.assert_file(connection.read_response(), 1, SIZE)
        assert web.count() == count
    assert source(nginx) == "app"


def test_authorized_hit(site: Site, web: Gateway) -> None:
    """What a GET without it has taught is for who has it, too."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, web)
    assert source(nginx, "/a", AUTHORIZED) == "learned"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Range", "bytes=5-9"),
        ("If-Range", '"x"'),
        ("If-Match", "*"),
        ("If-None-Match", '"x"'),
        ("If-Modified-Since", "Wed, 01 Jan 2020 00:00:00 GMT"),
        ("If-Unmodified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"),
    ],
)
def test_aside_answers_of_what_is_not_known(
    site: Site, web: Gateway, name: str, value: str
) -> None:
    """Parts, and what has a condition, are asked for until a GET has taught."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    part = name == "Range"
    for count in range(1, 3):
        answer = ask(nginx, "/a", {name: value})
        said = (answer.response.status, answer.entry.source)
        assert said == (206 if part else 200, "app")
        body = content(1, SIZE)
        assert answer.response.body == (body[5:10] if part else body)
        assert web.count() == count
    assert source(nginx) == "app"
    for headers in ({"Range": "bytes=5-9"}, {"If-None-Match": "*"}):
        assert ask(nginx, "/a", headers).entry.source == "learned"
    assert web.count() == 3


def test_many_that_leave(site: Site, web: Gateway) -> None:
    """Clients that leave while they ask give back what they have claimed."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site)
    gone: list[Connection] = []
    try:
        ask(nginx)
        gone.append(expire(nginx, web, 2))
        for count in range(3, 7):
            leave(nginx, gone[-1])
            gone.append(reach(nginx, web, count))
        held.go.set()
        site.assert_file(gone[-1].read_response(), 2, SIZE)
    finally:
        held.go.set()
        for connection in gone:
            connection.close()
    wait_until(partial(source, nginx), what="an answer")
    assert source(nginx) == "learned"
