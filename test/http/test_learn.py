"""http_sendfile_learn: what the application has said is not asked again.

What is learned, and what is not, is decided by the words of the application;
each test counts the requests that have reached it.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

from lib.accept import ACCEPT, STATIC, sendfile, use_gateway
from lib.cache import STATUS, ZONE, purge, purge_all, purge_url
from lib.client import Connection, ConnectionClosed, Response
from lib.compare import assert_same
from lib.files import content
from lib.gateway import Gateway, Lines, Said
from lib.h2_client import Http2Connection
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
from lib.tls import Certificate
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures",)

# what is learned


HEADERS = [
    ("ETag", '"of-the-app"'),
    ("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT"),
    ("Cache-Control", "private, max-age=5"),
    ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT"),
    ("Content-Type", "image/x-mine"),
    ("Content-Disposition", "attachment; filename*=UTF-8''%E3%81%82.txt"),
    ("Content-Language", "ja"),
    ("Access-Control-Allow-Origin", "https://example.com"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("Link", "</a.css>; rel=preload"),
    ("Link", "</b.css>; rel=preload"),
    ("X-Frame-Options", "DENY"),
    ("X-Mine", "yes"),
]


@pytest.mark.parametrize(
    "header", ["X-Sendfile", "X-LIGHTTPD-send-file", "X-Accel-Redirect"]
)
def test_second_answer_is_the_first_and_nobody_is_asked(
    site: Site, app: Gateway, header: str
) -> None:
    """The second answer is the first one, and the application is not asked."""
    app.answers["/a"] = Said(headers=[*HEADERS, named(site, header), MINUTE])
    nginx = start(site)
    first = ask(nginx)
    assert (first.entry.status, first.entry.source) == ("-", "app")
    site.assert_file(first.response, 1, SIZE)
    for name in dict.fromkeys(n for n, _ in HEADERS):
        assert first.response.all(name) == [v for n, v in HEADERS if n == name]
    for _ in range(3):
        again = ask(nginx)
        assert again.said == ("HIT", "learned")
        assert again.entry.reason == "-"
        if header != "X-Accel-Redirect":
            assert again.entry.target == first.entry.target == NAME
        assert int(again.response.header("Age") or "") < 30
        own = ("Date", "Age")
        got = sorted((n, v) for n, v in again.response.headers if n not in own)
        want = sorted((n, v) for n, v in first.response.headers if n not in own)
        assert got == want
        site.assert_file(again.response, 1, SIZE)
    assert first.response.all("X-Accel-Expires") == []
    assert first.response.all("Age") == []
    assert app.count() == 1


def test_without_headers(site: Site, app: Gateway) -> None:
    """Without headers of the application it is nginx's idea of the file."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    wanted = nginx.get(f"/static/{NAME}")
    assert_same(ask(nginx).response, wanted)
    for _ in range(3):
        learned = ask(nginx).response
        headers = [(n, v) for n, v in learned.headers if n != "Age"]
        assert len(headers) == len(learned.headers) - 1
        assert_same(
            Response(learned.status, headers, learned.body, closed=True), wanted
        )
    assert app.count() == 1


def test_default_is_off(site: Site, web: Gateway) -> None:
    """Nothing is learned that nobody has switched on."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site, SERVER.replace("http_sendfile_learn on;", ""))
    for n in range(1, 4):
        answer = ask(nginx)
        assert (answer.entry.source, answer.entry.reason) == ("app", "-")
        assert web.count() == n


def test_off_below_on(site: Site, web: Gateway) -> None:
    """`off` in a location holds for what was learned, too."""
    web.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        f"{LEARN} %%ACCEPT%% location /on/ {{ %%PASS%% }}"
        " location /off/ { http_sendfile_learn off; %%PASS%% }",
    )
    assert_learned(nginx, web, "/on/a")
    for _ in range(3):
        assert source(nginx, "/off/a") == "app"


LIFETIMES: dict[str, Callable[[], Lines]] = {
    "accel-expires": lambda: [MINUTE],
    "accel-expires-at": lambda: [("X-Accel-Expires", f"@{int(time.time()) + 60}")],
    "accel-expires-lower-case": lambda: [("x-accel-expires", "60")],
    "accel-expires-private": lambda: [MINUTE, ("Cache-Control", "private")],
    "accel-expires-behind-private": lambda: [("Cache-Control", "private"), MINUTE],
    "accel-expires-no-cache": lambda: [MINUTE, ("Cache-Control", "no-cache")],
    "accel-expires-max-age-0": lambda: [MINUTE, ("Cache-Control", "max-age=0")],
    "accel-expires-rails": lambda: [
        ("Cache-Control", "max-age=0, private, must-revalidate"),
        MINUTE,
    ],
    "accel-expires-pragma": lambda: [MINUTE, ("Pragma", "no-cache")],
    "accel-expires-expired": lambda: [MINUTE, ("Expires", "0")],
    "public-max-age": lambda: [("Cache-Control", "public, max-age=60")],
    "max-age-public": lambda: [("Cache-Control", "max-age=60, public")],
    "upper-case": lambda: [("CACHE-CONTROL", "PUBLIC, MAX-AGE=60")],
    "no-space": lambda: [("Cache-Control", "public,max-age=60")],
    "spaces": lambda: [("Cache-Control", "public ,  max-age=60 ")],
    "immutable": lambda: [("Cache-Control", "public, max-age=31536000, immutable")],
    "two-lines": lambda: [("Cache-Control", "public"), ("Cache-Control", "max-age=60")],
    "s-maxage": lambda: [("Cache-Control", "s-maxage=60")],
    "s-maxage-over-max-age": lambda: [
        ("Cache-Control", "public, max-age=0, s-maxage=60")
    ],
    "s-maxage-over-expires": lambda: [
        ("Cache-Control", "s-maxage=60"),
        ("Expires", "0"),
    ],
    "max-age-over-expires": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("Expires", "0"),
    ],
    "public-expires": lambda: [
        ("Cache-Control", "public"),
        ("Expires", in_seconds(60)),
    ],
    "expires-public": lambda: [
        ("Expires", in_seconds(60)),
        ("Cache-Control", "public"),
    ],
    "age": lambda: [("Cache-Control", "public, max-age=600"), ("Age", "10")],
    "accel-expires-age": lambda: [("X-Accel-Expires", "600"), ("Age", "10")],
    "accel-expires-date": lambda: [
        ("X-Accel-Expires", "600"),
        ("Date", in_seconds(-10)),
    ],
    "accel-expires-at-age": lambda: [
        ("X-Accel-Expires", f"@{int(time.time()) + 60}"),
        ("Age", "600"),
        ("Date", in_seconds(-600)),
    ],
    "date": lambda: [
        ("Cache-Control", "public, max-age=600"),
        ("Date", in_seconds(-10)),
    ],
    "date-of-tomorrow": lambda: [MINUTE, ("Date", in_seconds(86400))],
    "no-date": lambda: [MINUTE, ("Date", "yesterday")],
    "expires-less-date": lambda: [
        ("Cache-Control", "public"),
        ("Expires", in_seconds(60)),
        ("Date", in_seconds(-600)),
    ],
    "must-revalidate": lambda: [
        ("Cache-Control", "public, max-age=60, must-revalidate")
    ],
    "unknown-word": lambda: [("Cache-Control", "x, public, y=z, max-age=60")],
    "vary-empty": lambda: [MINUTE, ("Vary", "")],
}


@pytest.mark.parametrize("lines", LIFETIMES.values(), ids=LIFETIMES.keys())
@pytest.mark.parametrize("header", ["X-Sendfile", "X-Accel-Redirect"])
def test_lifetime(
    site: Site, web: Gateway, lines: Callable[[], Lines], header: str
) -> None:
    """An explicit lifetime of more than nothing is learned."""
    web.answers["/a"] = Said(headers=[*lines(), named(site, header)])
    assert_learned(start(site), web)


NONE: dict[str, Callable[[], Lines]] = {
    "nothing": list,
    "accel-expires-0": lambda: [("X-Accel-Expires", "0")],
    "accel-expires-negative": lambda: [("X-Accel-Expires", "-1")],
    "accel-expires-words": lambda: [("X-Accel-Expires", "soon")],
    "accel-expires-empty": lambda: [("X-Accel-Expires", "")],
    "accel-expires-at-past": lambda: [("X-Accel-Expires", f"@{int(time.time()) - 60}")],
    "accel-expires-at-0": lambda: [("X-Accel-Expires", "@0")],
    "accel-expires-0-public": lambda: [
        ("X-Accel-Expires", "0"),
        ("Cache-Control", "public, max-age=60"),
    ],
    "accel-expires-no-store": lambda: [MINUTE, ("Cache-Control", "no-store")],
    "accel-expires-behind-no-store": lambda: [
        ("Cache-Control", "private, NO-STORE"),
        MINUTE,
    ],
    "accel-expires-no-store-2nd-line": lambda: [
        MINUTE,
        ("Cache-Control", "public, max-age=60"),
        ("Cache-Control", "no-store"),
    ],
    "private": lambda: [("Cache-Control", "private, max-age=60")],
    "public-private": lambda: [("Cache-Control", "public, private, max-age=60")],
    "private-2nd-line": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("Cache-Control", "private"),
    ],
    "private-field": lambda: [
        ("Cache-Control", 'public, max-age=60, private="Set-Cookie"')
    ],
    "no-cache": lambda: [("Cache-Control", "public, no-cache, max-age=60")],
    "no-cache-field": lambda: [
        ("Cache-Control", 'public, max-age=60, no-cache="Set-Cookie"')
    ],
    "no-store": lambda: [("Cache-Control", "public, no-store, max-age=60")],
    "s-maxage-private": lambda: [("Cache-Control", "s-maxage=60, private")],
    "max-age-alone": lambda: [("Cache-Control", "max-age=60")],
    "public-alone": lambda: [("Cache-Control", "public")],
    "public-0": lambda: [("Cache-Control", "public, max-age=0")],
    "public-negative": lambda: [("Cache-Control", "public, max-age=-1")],
    "public-words": lambda: [("Cache-Control", "public, max-age=long")],
    "s-maxage-0": lambda: [("Cache-Control", "public, max-age=60, s-maxage=0")],
    "no-public": lambda: [("Cache-Control", "x-public, max-age=60")],
    "publicly": lambda: [("Cache-Control", "publicly, max-age=60")],
    "no-s-maxage": lambda: [("Cache-Control", "xs-maxage=60")],
    "expires-alone": lambda: [("Expires", in_seconds(60))],
    "public-expires-past": lambda: [
        ("Cache-Control", "public"),
        ("Expires", in_seconds(-60)),
    ],
    "public-expires-0": lambda: [("Cache-Control", "public"), ("Expires", "0")],
    "etag-alone": lambda: [("ETag", '"x"')],
    "age": lambda: [("Cache-Control", "public, max-age=60"), ("Age", "60")],
    "accel-expires-age": lambda: [MINUTE, ("Age", "60")],
    "accel-expires-age-words": lambda: [MINUTE, ("Age", "old")],
    "accel-expires-date": lambda: [MINUTE, ("Date", in_seconds(-60))],
    "date": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("Date", in_seconds(-60)),
    ],
    "age-words": lambda: [("Cache-Control", "public, max-age=60"), ("Age", "old")],
    "two-accel-expires": lambda: [MINUTE, ("X-Accel-Expires", "0")],
    "two-max-ages": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("Cache-Control", "max-age=0"),
    ],
    "set-cookie": lambda: [MINUTE, ("Set-Cookie", "a=b")],
    "set-cookie-public": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("Set-Cookie", "a=b"),
    ],
    "set-cookie-empty": lambda: [MINUTE, ("set-cookie", "")],
    "vary-encoding": lambda: [MINUTE, ("Vary", "Accept-Encoding")],
    "vary-lower-case": lambda: [MINUTE, ("Vary", "accept-encoding")],
    "vary-cookie": lambda: [MINUTE, ("Vary", "Cookie")],
    "vary-all": lambda: [MINUTE, ("Vary", "*")],
    "vary-both": lambda: [MINUTE, ("Vary", "Accept-Encoding, Cookie")],
    "vary-no-space": lambda: [MINUTE, ("Vary", "Cookie,Accept-Encoding")],
    "vary-two-lines": lambda: [
        MINUTE,
        ("Vary", "Accept-Encoding"),
        ("Vary", "Accept-Language"),
    ],
    "vary-like": lambda: [MINUTE, ("Vary", "Accept-Encodings")],
    "vary-public": lambda: [
        ("Cache-Control", "public, max-age=60"),
        ("vary", "Authorization"),
    ],
}


@pytest.mark.parametrize("lines", NONE.values(), ids=NONE.keys())
@pytest.mark.parametrize("header", ["X-Sendfile", "X-Accel-Redirect"])
def test_not_learned(
    site: Site, web: Gateway, lines: Callable[[], Lines], header: str
) -> None:
    """Anything less explicit is not, and $sendfile_reason says why."""
    web.answers["/a"] = Said(headers=[*lines(), named(site, header)])
    nginx = start(site)
    for n in range(1, 4):
        answer = ask(nginx)
        site.assert_file(answer.response, 1, SIZE)
        assert answer.entry.source == "app"
        assert answer.entry.reason.startswith("not learned: ")
        assert web.count() == n


NO_WORD = "neither X-Accel-Expires nor public"

REASONS: dict[str, tuple[Lines, str]] = {
    "nothing": ([], NO_WORD),
    "max-age-alone": ([("Cache-Control", "max-age=60")], NO_WORD),
    "private": ([("Cache-Control", "private, max-age=60")], "private"),
    "no-cache": ([("Cache-Control", "public, no-cache, max-age=60")], "no-cache"),
    "no-store": ([MINUTE, ("Cache-Control", "no-store")], "no-store"),
    "public-alone": ([("Cache-Control", "public")], "no lifetime"),
    "over": ([("Cache-Control", "public, max-age=0")], "lifetime is over"),
    "accel-0": ([("X-Accel-Expires", "0")], "X-Accel-Expires is 0"),
    "accel-words": ([("X-Accel-Expires", "soon")], "X-Accel-Expires is 0"),
    "set-cookie": ([MINUTE, ("Set-Cookie", "a=b")], "Set-Cookie"),
    "vary": ([MINUTE, ("Vary", "Cookie")], "Vary"),
    "vary-encoding": ([MINUTE, ("Vary", "Accept-Encoding")], "Vary"),
    "age": ([MINUTE, ("Age", "60")], "lifetime is over"),
    "rate": (
        [MINUTE, ("X-Accel-Limit-Rate", "1000000")],
        "X-Accel-Limit-Rate or X-Accel-Charset",
    ),
    "charset": (
        [MINUTE, ("X-Accel-Charset", "utf-8")],
        "X-Accel-Limit-Rate or X-Accel-Charset",
    ),
    "headers": (
        [MINUTE, *((f"X-N{n}", "x") for n in range(40))],
        "too many headers",
    ),
    "control": ([MINUTE, ("X-Mine", "a\x01b")], "control byte in a header"),
}


@pytest.mark.parametrize(("lines", "reason"), REASONS.values(), ids=REASONS.keys())
def test_reason(site: Site, app: Gateway, lines: Lines, reason: str) -> None:
    """The reason names what was in the way; the file is sent, each time anew."""
    app.answers["/a"] = Said(headers=[*sendfile(write(site)).headers, *lines])
    nginx = start(site)
    for n in range(1, 4):
        answer = ask(nginx)
        site.assert_file(answer.response, 1, SIZE)
        assert answer.entry.reason == f"not learned: {reason}"
        assert app.count() == n


def test_reason_of_the_request(site: Site, app: Gateway) -> None:
    """It may be the request."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    reason = ask(nginx, "/a", AUTHORIZED).entry.reason
    assert reason == "not learned: Authorization, and not public"
    asides: list[tuple[str, dict[str, str]]] = [
        ("HEAD", {}),
        *(
            ("GET", {name: value})
            for name, value in (
                ("Range", "bytes=0-9"),
                ("If-Range", '"x"'),
                ("If-Match", "*"),
                ("If-None-Match", '"x"'),
                ("If-Modified-Since", "Wed, 01 Jan 2020 00:00:00 GMT"),
                ("If-Unmodified-Since", in_seconds(60)),
            )
        ),
    ]
    for method, headers in asides:
        reason = ask(nginx, "/a", headers, method).entry.reason
        assert reason == "not learned: the request is no plain GET", headers
    assert app.count() == 1 + len(asides)
    assert source(nginx) == "app"
    for method, headers in asides:
        assert ask(nginx, "/a", headers, method).entry.source == "learned"


def test_reason_of_the_answer(site: Site, app: Gateway) -> None:
    """Or what the application has answered in place of a file."""
    app.answers["/404"] = Said(404, body=b"none")
    app.answers["/body"] = Said(headers=[MINUTE], body=b"body")
    app.answers["/gone"] = Said(headers=[("X-Accel-Redirect", "/files/none"), MINUTE])
    app.answers["/name"] = Said(headers=[("X-Accel-Redirect", "@name"), MINUTE])
    app.answers["/id"] = Said(headers=[("X-Accel-Redirect", "/id/297887"), MINUTE])
    app.answers["/foo"] = Said(headers=[("X-Accel-Redirect", "foo"), MINUTE])
    site.html.write("named", b"named")
    site.add(297887)
    nginx = start(
        site,
        "location @name { try_files /named =404; }"
        "location foo { internal; try_files /named =404; }"
        "location /id/ { internal; http_sendfile on; %%DIRECT%% }" + SERVER,
    )
    reasons = {uri: ask(nginx, uri).entry.reason for uri in app.answers}
    assert reasons == {
        "/404": "not learned: the status is not 200",
        "/body": "not learned: no file is named",
        "/gone": "not learned: the file was not sent",
        "/name": "not learned: redirect to a named location",
        "/id": "not learned: redirect to another ID",
        "/foo": "not learned: redirect to a URI without a slash",
    }


@pytest.mark.parametrize("number", ["9" * 18, "9" * 19, "9" * 30, str(1 << 63)])
def test_long_lifetimes(site: Site, web: Gateway, number: str) -> None:
    """A lifetime that no clock can hold takes nothing down."""
    path = write(site)
    web.answers["/a"] = sendfile(path, ("X-Accel-Expires", number))
    web.answers["/b"] = sendfile(path, ("X-Accel-Expires", f"@{number}"))
    line = ("Cache-Control", f"public, max-age={number}")
    web.answers["/c"] = sendfile(path, line)
    nginx = start(site)
    for uri in ("/a", "/b", "/c"):
        for _ in range(3):
            assert source(nginx, uri) in ("app", "learned")


@pytest.mark.parametrize(
    ("lines", "learned"),
    [
        ([MINUTE], False),
        ([MINUTE, ("Cache-Control", "private")], False),
        ([MINUTE, ("Cache-Control", "public")], True),
        ([("Cache-Control", "public, max-age=60")], True),
        ([("Cache-Control", "public, s-maxage=60")], True),
        ([("Cache-Control", "s-maxage=60")], False),
    ],
    ids=repr,
)
def test_authorization(site: Site, web: Gateway, lines: Lines, learned: bool) -> None:
    """With Authorization only what the answer calls public is learned."""
    web.answers["/a"] = Said(headers=[*sendfile(write(site)).headers, *lines])
    nginx = start(site)
    assert source(nginx, "/a", AUTHORIZED) == "app"
    assert source(nginx) == ("learned" if learned else "app")
    assert web.count() == (1 if learned else 2)


@pytest.mark.parametrize("value", ["", "x", "Bearer abc"])
def test_any_authorization(site: Site, web: Gateway, value: str) -> None:
    """Whatever kind of authorization it is."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert source(nginx, "/a", {"authorization": value}) == "app"
    assert source(nginx) == "app"


@pytest.mark.parametrize(
    "method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
)
def test_other_methods_teach_nothing(site: Site, app: Gateway, method: str) -> None:
    """Only a GET is learned from."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert ask(nginx, method=method).response.status == 200
    assert source(nginx) == "app"
    assert app.count() == 2


@pytest.mark.parametrize("status", [201, 203, 206, 404, 410, 500])
def test_other_statuses_teach_nothing(site: Site, app: Gateway, status: int) -> None:
    """Nor is any status learned but 200."""
    said = sendfile(write(site), MINUTE, status=status)
    app.answers["/a"] = Said(status, said.headers, b"the body")
    nginx = start(site)
    for n in range(1, 4):
        assert ask(nginx).entry.source != "learned"
        assert app.count() == n


def test_answers_without_a_file_teach_nothing(site: Site, app: Gateway) -> None:
    """An answer with a body of its own is the application's, always."""
    app.answers["/a"] = Said(headers=[MINUTE], body=b"plain")
    nginx = start(site)
    for n in range(1, 4):
        assert ask(nginx).response.body == b"plain"
        assert app.count() == n


@pytest.mark.parametrize("kind", ["missing", "refused", "directory", "unreadable"])
def test_what_is_not_delivered_is_not_learned(
    site: Site, app: Gateway, kind: str
) -> None:
    """A file that was not there, or not allowed, is asked for again."""
    path = write(site)
    value = {
        "missing": str(site.files.path("none")),
        "refused": "/etc/passwd",
        "directory": str(path.parent),
        "unreadable": str(path),
    }[kind]
    if kind == "unreadable":
        path.chmod(0)
    app.answers["/a"] = sendfile(value, MINUTE)
    nginx = start(site)
    for n in range(1, 4):
        answer = ask(nginx)
        assert answer.response.status in (404, 502, 403)
        assert answer.entry.source == "app"
        assert app.count() == n


def test_missing_target_of_a_redirect_is_not_learned(site: Site, app: Gateway) -> None:
    """Nor is a redirect to what is not there."""
    app.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/files/none"), MINUTE])
    nginx = start(site)
    for n in range(1, 4):
        assert ask(nginx).response.status == 404
        assert app.count() == n


def test_answer_of_two_applications(site: Site, app: Gateway) -> None:
    """The first one's word counts: it decides who is let through to the second."""
    second = site.gateway("http")
    public = ("Cache-Control", "public, max-age=60")
    second.script = lambda request: sendfile(write(site), public, MINUTE)
    inner = ("X-Accel-Redirect", "/second/a")
    app.answers["/private"] = Said(headers=[inner, ("Cache-Control", "private")])
    app.answers["/no-store"] = Said(headers=[inner, ("Cache-Control", "no-store")])
    app.answers["/cookie"] = Said(headers=[inner, MINUTE, ("Set-Cookie", "a=b")])
    app.answers["/nothing"] = Said(headers=[inner])
    nginx = start(
        site,
        f"location /second/ {{ internal; {LEARN} %%ACCEPT%% {second.passes()} }}"
        + SERVER,
    )
    for uri in app.answers:
        for n in range(1, 4):
            site.assert_file(ask(nginx, uri).response, 1, SIZE)
            assert app.count(uri) == n, uri


def test_answer_to_an_error(site: Site, app: Gateway) -> None:
    """A page for an error is not the answer to what it was asked for."""
    public = ("Cache-Control", "public, max-age=60")
    app.answers["/page"] = sendfile(write(site, 2), public, MINUTE)
    app.answers["/a"] = Said(403, body=b"no")
    nginx = start(
        site,
        app.directive("intercept_errors", "on") + "error_page 403 =200 /page;" + SERVER,
    )
    for n in range(1, 4):
        site.assert_file(ask(nginx).response, 2, SIZE)
        assert app.count("/a") == n
    app.answers["/a"] = sendfile(write(site), MINUTE)
    site.assert_file(ask(nginx).response, 1, SIZE)


def test_answer_to_a_missing_file(site: Site, app: Gateway) -> None:
    """Nor is the page for a file that is missing."""
    app.answers["/page"] = sendfile(write(site, 2), MINUTE)
    app.answers["/a"] = sendfile(site.files.path("none"), MINUTE)
    nginx = start(site, "error_page 404 =200 /page;" + SERVER)
    for n in range(1, 4):
        site.assert_file(ask(nginx).response, 2, SIZE)
        assert app.count("/a") == n
    app.answers["/a"] = sendfile(write(site), MINUTE)
    site.assert_file(ask(nginx).response, 1, SIZE)


def test_try_files_and_an_error(site: Site, app: Gateway) -> None:
    """The application as the handler of an error: what it says is not learned
    for what was missing, or it is for exactly that."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        "location /static/ { alias %%HTML%%/; error_page 404 = @app; }"
        f"location @app {{ {LEARN} %%ACCEPT%% %%PASS%% }}",
    )
    for _ in range(3):
        site.assert_file(ask(nginx, "/static/x").response, 1, SIZE)
    site.html.write_id("x", 3, SIZE)
    site.assert_file(ask(nginx, "/static/x").response, 3, SIZE)


def test_get_with_a_body_teaches_nothing(site: Site, app: Gateway) -> None:
    """The answer may depend on the body."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    for n in range(1, 4):
        response = nginx.request("GET", "/a", body=b"body")
        site.assert_file(response, 1, SIZE)
        assert app.count() == n
    assert source(nginx) == "app"
    # nor does it get what was learned without one
    nginx.request("GET", "/a", body=b"body")
    assert app.count() == 5


def test_subrequests_teach_nothing(site: Site, web: Gateway) -> None:
    """Only main requests are learned from."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    site.html.write("page.html", b'<!--#include virtual="/a" -->')
    nginx = start(site, "location = /page.html { ssi on; }" + SERVER)
    for n in range(1, 4):
        assert nginx.get("/page.html").body == content(1, SIZE)
        assert web.count() == n


# how it is served


@pytest.mark.parametrize(
    "value",
    [
        "/files/a%20b%25%3F.txt",
        "/files/a%20b%25%3F.txt?x=%20y&z",
        "/files/a%20b%25%3F.txt?",
        "/sub/a%20b%25%3F.txt",
    ],
)
def test_redirect_as_it_was(site: Site, app: Gateway, value: str) -> None:
    """A redirect is learned as nginx has understood it, with its arguments."""
    site.files.write_id("a b%?.txt", 1, SIZE)
    app.answers["/a"] = Said(headers=[("X-Accel-Redirect", value), MINUTE])
    nginx = start(
        site,
        "location /sub/ { internal; alias %%FILES%%/; }"
        'add_header X-Seen "$uri?$args";' + SERVER,
    )
    seen = {tuple(ask(nginx).response.all("X-Seen")) for _ in range(4)}
    assert len(seen) == 1
    site.assert_file(ask(nginx).response, 1, SIZE)
    assert app.count() == 1


def test_redirect_to_another_application(site: Site, app: Gateway) -> None:
    """Only where to go is learned: the other one answers each time."""
    second = site.gateway("http")
    second.script = lambda request: Said(
        headers=[("X-2", str(second.count())), ("Set-Cookie", f"n={second.count()}")],
        body=b"number %d" % second.count(),
    )
    lines = [("X-Accel-Redirect", "/second/a"), MINUTE, ("X-Mine", "yes")]
    app.answers["/a"] = Said(headers=lines)
    nginx = start(site, f"location /second/ {{ internal; {second.passes()} }}" + SERVER)
    for n in range(1, 5):
        response = ask(nginx).response
        assert (response.status, response.body) == (200, b"number %d" % n)
        assert response.all("X-2") == [str(n)]
        assert response.all("Set-Cookie") == [f"n={n}"]
        assert response.all("X-Mine") == ["yes"]
    assert app.count() == 1
    assert second.count() == 4


def test_conditions_and_ranges(site: Site, app: Gateway) -> None:
    """A learned answer is good for all that a file is good for."""
    tag = '"of-the-app"'
    app.answers["/a"] = sendfile(write(site), MINUTE, ("ETag", tag))
    nginx = start(site)
    ask(nginx)
    with nginx.connect() as connection:
        for headers, status in (
            ({"If-None-Match": tag}, 304),
            ({"If-None-Match": '"x"'}, 200),
            ({"If-Match": '"x"'}, 412),
            ({"Range": "bytes=5-9"}, 206),
            ({"Range": "bytes=5-9", "If-Range": tag}, 206),
            ({"Range": "bytes=5-9", "If-Range": '"x"'}, 200),
            ({"Range": "bytes=0-3,5-9"}, 206),
            ({"Range": "bytes=5000-"}, 416),
        ):
            if status == 412:
                # nginx closes behind it
                answer = ask(nginx, "/a", headers)
            else:
                answer = ask(nginx, "/a", headers, on=connection)
            assert answer.response.status == status, headers
            assert answer.entry.source == "learned"
        head = ask(nginx, "/a", method="HEAD", on=connection)
        assert head.entry.source == "learned"
        assert head.response.header("Content-Length") == str(SIZE)
        assert head.response.header("ETag") == tag
    assert app.count() == 1


@pytest.mark.parametrize(
    ("method", "after"),
    [
        *((name, "app") for name in ("POST", "PUT", "DELETE", "PATCH")),
        *((name, "learned") for name in ("OPTIONS", "PROPFIND", "LOCK")),
    ],
)
def test_other_methods_reach_the_application(
    site: Site, app: Gateway, method: str, after: str
) -> None:
    """What is learned is for GET and HEAD, and taken back by what may change it."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    for n in range(2, 5):
        assert nginx.request(method, "/a", body=b"body").status == 200
        assert app.count() == n
        assert app.requests[-1].method == method
    assert source(nginx) == after
    assert source(nginx) == "learned"


def test_keep_alive(site: Site, app: Gateway) -> None:
    """A client's connection carries learned and other answers."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    app.answers["/b"] = Said(body=b"plain")
    nginx = start(site)
    with nginx.connect() as connection:
        for _ in range(5):
            site.assert_file(connection.request("GET", "/a"), 1, SIZE)
            assert connection.request("GET", "/b").body == b"plain"
            site.assert_file(connection.request("GET", "/a?x"), 1, SIZE)
    assert (app.count("/a"), app.count("/a?x")) == (1, 1)


def test_http2(site: Site, app: Gateway) -> None:
    """Over HTTP/2 as well."""
    app.answers["/a"] = sendfile(write(site), MINUTE, ("ETag", '"x"'))
    nginx = start(site, site.http2_listen() + SERVER)
    with nginx.http2("h2") as client:
        for _ in range(3):
            response = client.get("/a")
            assert (response.status_code, response.content) == (200, content(1, SIZE))
            assert response.headers["etag"] == '"x"'
            nginx.logged("/a")
    assert app.count() == 1


def test_settings_of_the_location(site: Site, app: Gateway) -> None:
    """add_header, types and limit_rate of the location hold for it."""
    app.answers["/a"] = sendfile(write(site, 1, "aa/1.mine"), MINUTE)
    nginx = start(
        site,
        'add_header X-Mine "$sendfile_source $sendfile_status";'
        "types { text/x-mine mine; }" + SERVER,
    )
    ask(nginx)
    response = ask(nginx).response
    assert response.header("X-Mine") == "learned HIT"
    assert response.header("Content-Type") == "text/x-mine"


def test_auth_comes_first(site: Site, app: Gateway) -> None:
    """Who may not have it does not get it, learned or not."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    app.answers["/yes"] = Said(204, length=None)
    app.answers["/no"] = Said(403)
    nginx = start(
        site,
        "location = /auth { internal; proxy_pass_request_body off; %%AUTH%% }"
        f"location /a {{ auth_request /auth; {LEARN} %%ACCEPT%% %%PASS%% }}".replace(
            "%%AUTH%%", "if ($http_x_user) { return 204; } return 403;"
        ),
    )
    user = {"X-User": "1"}
    for _ in range(3):
        assert ask(nginx, "/a", user).response.status == 200
        assert ask(nginx).response.status == 403
    assert app.count("/a") == 1


def test_cache_body(site: Site, app: Gateway) -> None:
    """A small file comes from memory, until it is another one."""
    path = write(site)
    app.answers["/a"] = sendfile(path, MINUTE, ("ETag", '"x"'))
    nginx = start(
        site, "http_sendfile_cache_body 64k; http_sendfile_cache_check 0;" + SERVER
    )
    for _ in range(5):
        response = site.assert_file(ask(nginx).response, 1, SIZE)
        assert response.header("ETag") == '"x"'
    other = path.with_name("new")
    other.write_bytes(content(2, 700))
    other.chmod(0o644)
    other.rename(path)
    site.assert_file(ask(nginx).response, 2, 700)
    assert app.count() == 1


@pytest.mark.parametrize("name", ["a b%20?#+.txt", "日本語 🎉.txt", "\xe9.txt"])
def test_names(site: Site, app: Gateway, name: str) -> None:
    """Names of any bytes are learned as they are."""
    app.answers["/a"] = sendfile(site.files.write_id(name, 1, SIZE), MINUTE)
    nginx = start(site)
    for _ in range(3):
        site.assert_file(ask(nginx).response, 1, SIZE)
    assert nginx.logged("/a", 3).target == name
    assert app.count() == 1


def test_many(site: Site, web: Gateway) -> None:
    """Many answers are learned, each for its own URI."""
    for n in range(300):
        web.answers[f"/{n}"] = sendfile(write(site, n), MINUTE, ("ETag", f'"{n}"'))
    nginx = start(site)
    with nginx.connect() as connection:
        for _ in range(3):
            for n in range(300):
                response = connection.request("GET", f"/{n}")
                site.assert_file(response, n, SIZE)
                assert response.header("ETag") == f'"{n}"'
    assert web.count() == 300


def test_big_answers(site: Site, web: Gateway) -> None:
    """An answer with long headers is delivered, learned or not."""
    sizes = [1000, 4000, 20_000, 60_000, 100_000]
    path = write(site)
    for size in sizes:
        web.answers[f"/{size}"] = sendfile(path, MINUTE, ("X-Long", "x" * size))
    nginx = start(site, "proxy_buffer_size 128k; proxy_buffers 4 128k;" + SERVER)
    for size in sizes:
        for _ in range(3):
            response = site.assert_file(ask(nginx, f"/{size}").response, 1, SIZE)
            assert response.header("X-Long") == "x" * size
    assert web.count("/1000") == 1


def test_two_workers(site: Site, app: Gateway) -> None:
    """What one worker has learned the other one knows."""
    site.variables["WORKERS"] = "2"
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    ask(nginx)
    wait_until(lambda: source(nginx) == "learned", what="it to be learned")
    asked = app.count()
    assert asked <= 2
    for _ in range(30):
        assert source(nginx) == "learned"
    assert app.count() == asked


def test_two_workers_at_once(site: Site, app: Gateway) -> None:
    """Many clients, two workers, answers that soon expire: each file is right."""
    site.variables["WORKERS"] = "2"
    for n in range(10):
        app.answers[f"/{n}"] = sendfile(write(site, n), soon())
    nginx = start(site)
    failures: list[str] = []

    def client(first: int) -> None:
        with nginx.connect() as connection:
            for n in range(300):
                number = (first + n) % 10
                body = connection.request("GET", f"/{number}").body
                if body != content(number, SIZE):
                    failures.append(f"{number}: {body[:40]!r}")

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert app.count() < 400


def asked_since(app: Gateway, count: int) -> bool:
    """Tell whether the application has had more requests."""
    return app.count() > count


def is_served(nginx: Nginx, file_id: int) -> bool:
    """Tell whether the file of an ID is what its URI leads to."""
    return nginx.get(f"/{file_id}").body == content(file_id, SIZE)


def test_everything_at_once(site: Site) -> None:
    """Clients that leave, answers that expire, files that vanish, an application
    that fails, purges and reloads: nobody gets another's file, nothing breaks."""
    seed = int(os.environ.get("NGX_SEED", random.SystemRandom().getrandbits(32)))
    print(f"NGX_SEED={seed} repeats this, more or less")
    site.variables["WORKERS"] = "2"
    app = use_gateway(site)
    number = 12
    for n in range(number):
        write(site, n)
    never = threading.Event()

    def script(request: PeerRequest) -> Said:
        chance = random.Random(seed + len(app.requests))
        n = int(request.target[1:].partition("?")[0])
        # an answer takes its time
        never.wait(chance.choice((0, 0, 0.01, 0.1)))
        if chance.random() < 0.1:
            return Said(drop=chance.choice((0, 20)))
        if chance.random() < 0.05:
            return Said(chance.choice((404, 500, 503)), body=b"sorry")
        lines = chance.choice(([soon()], [soon()], [soon()], [MINUTE], []))
        if chance.random() < 0.5:
            name = ("X-Accel-Redirect", f"/files/aa/{n}.txt")
            return Said(headers=[name, *lines, ("X-N", str(n))])
        return sendfile(site.files.path(f"aa/{n}.txt"), *lines, ("X-N", str(n)))

    app.script = script
    nginx = start(
        site,
        "location /wait/ { rewrite ^/wait(/.*) $1 break;"
        f" http_sendfile_cache_use_stale off; {LEARN} %%ACCEPT%% %%PASS%% }}" + SERVER,
    )
    failures: list[str] = []
    over = threading.Event()

    def client(own: int) -> None:
        chance = random.Random(seed + own)
        while not over.is_set():
            with nginx.connect() as connection:
                for _ in range(chance.randrange(1, 30)):
                    n = chance.randrange(number)
                    prefix = chance.choice(("", "", "/wait"))
                    target = f"{prefix}/{n}{chance.choice(('', '?a'))}"
                    if chance.random() < 0.1:
                        connection.send_request("GET", target)
                        connection.abort()
                        break
                    try:
                        response = connection.request("GET", target)
                    except (ConnectionClosed, ConnectionError):
                        # of a worker that has been reloaded
                        break
                    if response.status == 200 and (
                        response.body != content(n, SIZE)
                        or response.all("X-N") != [str(n)]
                    ):
                        failures.append(f"{target}: {response}")
                    if response.status not in (200, 404, 500, 502, 503):
                        failures.append(f"{target}: {response}")
                    if response.closed:
                        break

    threads = [threading.Thread(target=client, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    chance = random.Random(seed)
    try:
        for turn in range(80):
            path = site.files.path(f"aa/{chance.randrange(number)}.txt")
            path.rename(path.with_suffix(".gone"))
            before = app.count()
            wait_until(partial(asked_since, app, before + 10), what="some requests")
            path.with_suffix(".gone").rename(path)
            if turn % 5 == 4:
                nginx.reload()
            elif turn % 5 == 2:
                purge_all(nginx)
            else:
                n = chance.randrange(number)
                purge(nginx, n)
                purge_url(nginx, f"http://localhost/{n}?a")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    for n in range(number):
        wait_until(partial(is_served, nginx, n), what="each file")


# with a store


def test_store_is_asked_first(site: Site, app: Gateway) -> None:
    """The store knows it: neither what was learned nor the application counts."""
    site.add(1)
    app.script = lambda request: sendfile(write(site, 2), MINUTE)
    nginx = start(
        site,
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {LEARN}"
        " http_sendfile_cache_valid 200 1s; http_sendfile_cache_valid 404 1s;"
        " %%ACCEPT%% %%PASS%% }",
    )
    site.assert_file(ask(nginx, "/file/1").response, 1)
    assert app.count() == 0
    first = ask(nginx, "/file/2")
    site.assert_file(first.response, 2, SIZE)
    assert first.said == ("MISS", "app")
    again = ask(nginx, "/file/2")
    site.assert_file(again.response, 2, SIZE)
    assert again.said == ("HIT", "learned")
    assert first.entry.reason == again.entry.reason == "-"
    assert app.count() == 1
    # now the store has it
    site.files.write_id("aa/3.dat", 3)
    site.store.put(2, "aa/3.dat")

    def of_the_store() -> bool:
        return ask(nginx, "/file/2").response.body == content(3)

    wait_until(of_the_store, what="the store to be asked again")
    assert app.count() == 1


def test_named_location(site: Site, app: Gateway) -> None:
    """Learning may be on in the location of the fallback."""
    app.script = lambda request: sendfile(write(site, 2), MINUTE)
    nginx = start(
        site,
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback @app; }"
        f"location @app {{ {LEARN} %%ACCEPT%% %%PASS%% }}",
    )
    assert ask(nginx, "/file/2").said == ("MISS", "app")
    for _ in range(3):
        answer = ask(nginx, "/file/2")
        assert answer.entry.source == "learned"
        site.assert_file(answer.response, 2, SIZE)
    assert app.count() == 1


def test_fallback_that_is_learned(site: Site, app: Gateway) -> None:
    """Or in the location that has the fallback, for both of them."""
    app.script = lambda request: sendfile(write(site, 2), MINUTE)
    nginx = start(
        site,
        f"{LEARN} %%ACCEPT%% location /file/ {{ http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback @app; }"
        "location @app { %%PASS%% }",
    )
    ask(nginx, "/file/2")
    for _ in range(3):
        answer = ask(nginx, "/file/2")
        assert answer.entry.source == "learned"
        site.assert_file(answer.response, 2, SIZE)
    assert app.count() == 1


def test_answers_of_nginx_own_cache(site: Site, app: Gateway) -> None:
    """What proxy_cache has stored is learned from as the application's word."""
    path = write(site)
    app.script = lambda request: Said(
        headers=sendfile(path, MINUTE).headers, body=b"stored"
    )
    cache = "".join(
        app.directive(name, value)
        for name, value in (
            ("cache", "c"),
            ("cache_key", "$arg_k"),
            ("cache_valid", "200 10m"),
        )
    )
    nginx = start(
        site,
        f"{cache} location /fill/ {{ %%PASS%% }}"
        f" location /use/ {{ {LEARN} %%ACCEPT%% %%PASS%% }}",
        app.directive("cache_path", "%%DIR%%/cache keys_zone=c:1m"),
    )
    assert nginx.get("/fill/a?k=1").body == b"stored"
    assert source(nginx, "/use/a?k=1") == "app"
    for _ in range(3):
        answer = ask(nginx, "/use/a?k=1")
        assert answer.entry.source == "learned"
        site.assert_file(answer.response, 1, SIZE)
    assert app.count() == 1


# files that change and vanish


@pytest.mark.parametrize("header", ["X-Sendfile", "X-LIGHTTPD-send-file"])
def test_vanished_file(site: Site, app: Gateway, header: str) -> None:
    """The application is asked in the same request, and its new word learned."""
    path = write(site)
    app.answers["/a"] = Said(headers=[(header, str(path)), MINUTE])
    nginx = start(site)
    assert_learned(nginx, app)
    app.answers["/a"] = Said(headers=[(header, str(write(site, 2))), MINUTE])
    site.assert_file(ask(nginx).response, 1, SIZE)
    path.unlink()
    answer = ask(nginx)
    site.assert_file(answer.response, 2, SIZE)
    # nothing is left of the first try
    assert (*answer.said, answer.entry.reason) == ("-", "app", "-")
    assert app.count() == 2
    answer = ask(nginx)
    site.assert_file(answer.response, 2, SIZE)
    assert answer.entry.source == "learned"
    assert app.count() == 2


def test_vanished_file_of_a_redirect(site: Site, app: Gateway) -> None:
    """A redirect finds nothing once; the next request is the application's."""
    path = write(site)
    app.answers["/a"] = Said(headers=[("X-Accel-Redirect", f"/files/{NAME}"), MINUTE])
    nginx = start(site)
    assert_learned(nginx, app)
    write(site, 2)
    app.answers["/a"] = Said(headers=[("X-Accel-Redirect", "/files/aa/2.txt"), MINUTE])
    path.unlink()
    answer = ask(nginx)
    assert answer.response.status == 404
    assert app.count() == 1
    answer = ask(nginx)
    site.assert_file(answer.response, 2, SIZE)
    assert answer.entry.source == "app"
    assert source(nginx) == "learned"
    assert app.count() == 2


def test_vanished_for_good(site: Site, app: Gateway) -> None:
    """An application that insists on a missing file is asked each time."""
    path = write(site)
    app.answers["/a"] = sendfile(path, MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    path.unlink()
    for n in range(2, 5):
        assert ask(nginx).response.status == 404
        assert app.count() == n
    write(site)
    assert source(nginx) == "app"
    assert source(nginx) == "learned"


def test_vanished_while_the_application_is_down(site: Site, app: Gateway) -> None:
    """There is nothing left to be served then."""
    path = write(site)
    app.answers["/a"] = sendfile(path, MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    path.unlink()
    app.answers["/a"] = Said(drop=0)
    assert ask(nginx).response.status == 502
    assert ask(nginx).response.status == 502


def test_changed_file(site: Site, app: Gateway) -> None:
    """The file is served as it is now."""
    path = write(site)
    app.answers["/a"] = sendfile(path, MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    other = path.with_name("new")
    other.write_bytes(content(2, 500))
    other.chmod(0o644)
    other.rename(path)

    def new() -> bool:
        answer = ask(nginx)
        assert answer.entry.source == "learned"
        return answer.response.body == content(2, 500)

    wait_until(new, what="the new file")


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_file_turns_into_something_else(site: Site, app: Gateway, kind: str) -> None:
    """All checks of a path are made at each use."""
    path = write(site)
    (site.directory / "canary.dat").write_bytes(b"CANARY")
    app.answers["/a"] = sendfile(path, MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    path.unlink()
    if kind == "link":
        path.symlink_to(site.directory / "canary.dat")
    elif kind == "fifo":
        os.mkfifo(path)
        path.chmod(0o666)
    else:
        path.mkdir()
    for _ in range(3):
        response = ask(nginx).response
        assert response.status == 404
        assert b"CANARY" not in response.body
    assert app.count() >= 2


# time


def test_expires(site: Site, app: Gateway) -> None:
    """When its time is over one request asks, and the new word is learned."""
    app.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, app)
    app.answers["/a"] = sendfile(write(site, 2), MINUTE)

    def expired() -> bool:
        answer = ask(nginx)
        if app.count() == 1:
            site.assert_file(answer.response, 1, SIZE)
            assert answer.said == ("HIT", "learned")
            return False
        site.assert_file(answer.response, 2, SIZE)
        assert answer.said == ("EXPIRED", "app")
        return True

    wait_until(expired, what="the end of its time")
    for _ in range(3):
        answer = ask(nginx)
        assert answer.said == ("HIT", "learned")
        site.assert_file(answer.response, 2, SIZE)
    assert app.count() == 2


@pytest.mark.parametrize(
    "lines",
    [
        lambda: [("X-Accel-Expires", f"@{int(time.time()) + 2}")],
        lambda: [("Cache-Control", "public, max-age=2")],
        lambda: [("Cache-Control", "public, max-age=600, s-maxage=2")],
        lambda: [("Cache-Control", "public"), ("Expires", in_seconds(2))],
    ],
    ids=["at", "max-age", "s-maxage", "expires"],
)
def test_each_lifetime_ends(
    site: Site, web: Gateway, lines: Callable[[], Lines]
) -> None:
    """In whatever way it was said."""
    path = write(site)
    web.script = lambda request: Said(headers=[*sendfile(path).headers, *lines()])
    nginx = start(site)
    assert source(nginx) == "app"
    wait_until(lambda: source(nginx) == "app", what="the end of its time")
    assert web.count() == 2


def test_others_get_the_stale_one(site: Site, app: Gateway) -> None:
    """While one request asks the application, the others do not wait."""
    path = write(site)
    later = sendfile(write(site, 2), MINUTE)
    held = Held(site, app, sendfile(path, soon()), later)
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, app, 2) as connection:
            for _ in range(5):
                answer = ask(nginx)
                assert answer.said == ("STALE", "learned")
                site.assert_file(answer.response, 1, SIZE)
            assert app.count() == 2
            held.go.set()
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()
    answer = ask(nginx)
    assert answer.said == ("HIT", "learned")
    site.assert_file(answer.response, 2, SIZE)
    assert app.count() == 2


@pytest.mark.parametrize("stale", ["off", "error timeout"])
def test_others_ask(site: Site, app: Gateway, stale: str) -> None:
    """Without `updating` nobody waits for another: each asks by itself."""
    path = write(site)
    held = Held(site, app, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site, f"http_sendfile_cache_use_stale {stale};" + SERVER)
    asking: list[Connection] = []
    try:
        ask(nginx)
        asking.append(expire(nginx, app, 2))
        for number in range(3, 9):
            asking.append(nginx.connect())
            asking[-1].send_request("GET", "/a")
            wait_until(partial(asked_since, app, number - 1), what="it to ask")
        held.go.set()
        for connection in asking:
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()
        for connection in asking:
            connection.close()
    assert source(nginx) == "learned"
    assert app.count() == 8


def test_streams_that_ask(site: Site, web: Gateway) -> None:
    """So do the streams of one HTTP/2 connection, which may leave."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(
        site, "http_sendfile_cache_use_stale off;" + site.http2_listen() + SERVER
    )
    streams: list[int] = []
    try:
        with Http2Connection(nginx.port_of("h2")) as http2:
            # another port is another server
            first = http2.read_response(http2.send_request("GET", "/a"))
            site.assert_file(first, 1, SIZE)

            def asks() -> bool:
                if not streams or http2.answered(streams[-1]):
                    streams.append(http2.send_request("GET", "/a"))
                http2.ping()
                return web.count() == 2 and not http2.answered(streams[-1])

            # one at a time: the last one is the one that asks
            wait_until(asks, what="the end of its time")
            late = [streams[-1]]
            late += [http2.send_request("GET", "/a") for _ in range(5)]
            wait_until(partial(asked_since, web, 6), what="all to ask")
            http2.reset(late[0])
            http2.reset(late[-1])
            http2.ping()
            held.go.set()
            for stream in late[1:-1]:
                site.assert_file(http2.read_response(stream), 2, SIZE)
    finally:
        held.go.set()
    assert web.count() >= 7


def test_claim_of_another_worker(site: Site, web: Gateway) -> None:
    """One request of all workers asks, and the others get the stale one."""
    site.variables["WORKERS"] = "2"
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2) as connection, ExitStack() as stack:
            others = [stack.enter_context(nginx.connect()) for _ in range(40)]
            for other in others:
                other.send_request("GET", "/a")
            for other in others:
                site.assert_file(other.read_response(), 1, SIZE)
            assert web.count() == 2
            held.go.set()
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()


def test_claim_of_a_worker_that_is_reloaded(site: Site, web: Gateway) -> None:
    """What an old worker has claimed a new one does not ask for."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2) as connection:
            old = nginx.workers()
            nginx.reload()
            assert ask(nginx).said == ("STALE", "learned")
            assert web.count() == 2
            held.go.set()
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()
    wait_until(lambda: not set(old) & set(nginx.all_workers()), what="the old to end")
    assert source(nginx) == "learned"
    assert web.count() == 2


def test_claim_ends(site: Site, web: Gateway) -> None:
    """After 5 seconds without an answer another request asks."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2) as first, expire(nginx, web, 3) as other:
            assert 4.5 < time.monotonic() - first.opened < 40
            held.go.set()
            site.assert_file(other.read_response(), 2, SIZE)
    finally:
        held.go.set()


NOT_TAUGHT: dict[str, Said] = {
    "404": Said(404, body=b"gone"),
    "500": Said(500, body=b"sorry"),
    "503": Said(503, body=b"sorry"),
    "body": Said(body=b"plain"),
    "dropped": Said(drop=0),
    "private": Said(headers=[("X-Sendfile", "%s"), ("Cache-Control", "private")]),
    "cookie": Said(headers=[("X-Sendfile", "%s"), MINUTE, ("Set-Cookie", "a=b")]),
    "missing": Said(headers=[("X-Sendfile", "%s.none"), MINUTE]),
    "refused": Said(headers=[("X-Sendfile", "/etc/passwd"), MINUTE]),
    "redirect": Said(headers=[("X-Accel-Redirect", "/files/none"), MINUTE]),
    "206": Said(206, headers=[("X-Sendfile", "%s"), MINUTE]),
    "302": Said(302, headers=[("Location", "/b")]),
}


@pytest.mark.parametrize("later", NOT_TAUGHT.values(), ids=NOT_TAUGHT.keys())
def test_claim_that_teaches_nothing(site: Site, web: Gateway, later: Said) -> None:
    """It is given back at once: the next request asks."""
    path = write(site)
    lines = [(n, str(v).replace("%s", str(path))) for n, v in later.headers]
    web.answers["/a"] = sendfile(path, soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(later.status, lines, later.body, drop=later.drop)

    def asks() -> bool:
        ask(nginx)
        return web.count() == 2

    wait_until(asks, what="the end of its time")
    for _ in range(10):
        begin, before = time.monotonic(), web.count()
        for count in range(1, 4):
            ask(nginx)
            assert web.count() == before + count
        # within the time for which one may be thought to be at it
        if time.monotonic() - begin < 4:
            break
    else:
        raise AssertionError("this machine is too slow for it")


def test_claim_is_given_back_before_the_body(site: Site, web: Gateway) -> None:
    """Who is slow to read an answer that teaches nothing keeps nobody from asking."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    # more than what lies between nginx and a client that does not read
    web.answers["/a"] = Said(500, body=b"x" * (24 << 20))
    slow: list[Connection] = []

    def asks() -> bool:
        connection = nginx.connect()
        connection.send_request("GET", "/a")
        if connection.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 500":
            slow.append(connection)
            return True
        connection.close()
        return False

    try:
        wait_until(asks, what="the end of its time")
        assert asks()
        assert asks()
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"Range": "bytes=0-9"}),
        ("GET", {"If-None-Match": '"x"'}),
        ("GET", {"If-Modified-Since": "Wed, 01 Jan 2020 00:00:00 GMT"}),
        ("GET", {"If-Unmodified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}),
        ("GET", {"If-Match": "*"}),
        ("GET", {"If-Range": '"x"'}),
    ],
)
def test_only_a_plain_get_claims(
    site: Site, web: Gateway, method: str, headers: dict[str, str]
) -> None:
    """What cannot teach does not keep others from asking."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site)
    try:
        ask(nginx)
        with expire(nginx, web, 2, "/a", headers, method) as aside:
            with nginx.connect() as plain:
                # the next one asks, and has claimed it by that
                plain.send_request("GET", "/a")
                wait_until(lambda: web.count() == 3, what="the plain GET to ask")
                answer = ask(nginx, "/a", headers, method)
                assert answer.said == ("STALE", "learned")
                assert web.count() == 3
                held.go.set()
                site.assert_file(plain.read_response(), 2, SIZE)
            assert aside.read_response(method).status in (200, 206)
    finally:
        held.go.set()
    assert source(nginx) == "learned"


@pytest.mark.parametrize("stale", ["off", "updating"])
def test_the_one_that_asks_leaves(site: Site, web: Gateway, stale: str) -> None:
    """If its client is gone, another one asks, and not after 5 seconds."""
    path = write(site)
    held = Held(site, web, sendfile(path, soon()), sendfile(write(site, 2), MINUTE))
    nginx = start(site, f"http_sendfile_cache_use_stale {stale};" + SERVER)
    try:
        ask(nginx)
        leave(nginx, expire(nginx, web, 2))
        with reach(nginx, web, 3) as connection:
            held.go.set()
            site.assert_file(connection.read_response(), 2, SIZE)
    finally:
        held.go.set()
    assert source(nginx) == "learned"
    assert web.count() == 3


def test_word_that_is_taken_back(site: Site, web: Gateway) -> None:
    """An answer that is private from now on is not served stale, ever."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = sendfile(write(site, 2), ("Cache-Control", "private"))
    wait_until(lambda: source(nginx) == "app", what="the end of its time")
    web.answers["/a"] = Said(drop=0)
    for _ in range(3):
        answer = ask(nginx)
        assert answer.response.status == 502
        assert b"ID:" not in answer.response.body


@pytest.mark.parametrize("status", [403, 404, 410])
def test_file_that_is_taken_away(site: Site, web: Gateway, status: int) -> None:
    """Nor is one that the application has refused since."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(status, body=b"no")
    wait_until(lambda: ask(nginx).response.status == status, what="the refusal")
    web.answers["/a"] = Said(drop=0)
    for _ in range(3):
        assert ask(nginx).response.status == 502


@pytest.mark.parametrize("aside", ["HEAD", "206"])
def test_answers_that_say_nothing_of_it(site: Site, web: Gateway, aside: str) -> None:
    """HEAD, or a part, confirmed by the application takes nothing back."""
    status = 206 if aside == "206" else 200
    method = "HEAD" if aside == "HEAD" else "GET"
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = sendfile(write(site), soon(), status=status)

    def expired() -> bool:
        answer = ask(nginx, "/a", method=method)
        assert answer.response.status == 200
        return answer.entry.source == "app"

    wait_until(expired, what="the end of its time")
    web.answers["/a"] = Said(drop=0)
    for _ in range(3):
        answer = ask(nginx)
        assert answer.said == ("STALE", "learned")
        site.assert_file(answer.response, 1, SIZE)


# an application that is down


def test_down(site: Site, app: Gateway) -> None:
    """While the application is down, what was learned is served stale."""
    app.answers["/a"] = sendfile(write(site), soon(), ("ETag", '"x"'))
    nginx = start(site)
    assert_learned(nginx, app)
    app.answers["/a"] = Said(drop=0)

    def stale() -> bool:
        answer = ask(nginx)
        site.assert_file(answer.response, 1, SIZE)
        assert answer.entry.source == "learned"
        assert answer.response.header("ETag") == '"x"'
        return answer.entry.status == "STALE"

    wait_until(stale, what="the end of its time")
    for _ in range(5):
        answer = ask(nginx)
        assert answer.said == ("STALE", "learned")
        site.assert_file(answer.response, 1, SIZE)
    part = ask(nginx, "/a", {"Range": "bytes=1-2"}).response
    assert (part.status, part.body) == (206, content(1, SIZE)[1:3])
    # and up again
    app.answers["/a"] = sendfile(write(site, 2), MINUTE)
    wait_until(lambda: nginx.get("/a").body == content(2, SIZE), what="the new answer")


def test_down_and_never_learned(site: Site, app: Gateway) -> None:
    """What was never learned cannot be served."""
    app.script = lambda request: Said(drop=0)
    nginx = start(site)
    assert ask(nginx).response.status == 502


def test_refused_connection(site: Site, web: Gateway) -> None:
    """An application that nobody listens for is down, too."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    dead = "proxy_pass http://127.0.0.1:%%PORT:dead%%;"
    template = site.template(SERVER.replace("%%PASS%%", dead), ZONE)
    nginx.reload(template)
    wait_until(
        lambda: ask(nginx).said == ("STALE", "learned"), what="the end of its time"
    )
    site.assert_file(ask(nginx).response, 1, SIZE)


def test_hanging(site: Site, app: Gateway) -> None:
    """An application that does not answer in time: the stale one, or 504."""
    path = write(site)
    held = Held(site, app, sendfile(path, soon()), Said(drop=0))
    nginx = start(site, app.directive("read_timeout", "200ms") + SERVER)
    try:
        ask(nginx)

        def stale() -> bool:
            answer = ask(nginx)
            site.assert_file(answer.response, 1, SIZE)
            return answer.said == ("STALE", "learned")

        wait_until(stale, what="the end of its time")
        assert app.count() >= 2
        assert ask(nginx, "/b").response.status == 504
    finally:
        held.go.set()


@pytest.mark.parametrize("stale", ["off", "timeout"])
def test_down_without_stale(site: Site, web: Gateway, stale: str) -> None:
    """Without `error` the failure is the answer."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site, f"http_sendfile_cache_use_stale {stale};" + SERVER)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(drop=0)
    wait_until(lambda: ask(nginx).response.status == 502, what="the failure")
    for _ in range(3):
        response = ask(nginx).response
        assert response.status == 502
        assert b"ID:" not in response.body


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_errors_of_the_application_itself(
    site: Site, web: Gateway, status: int
) -> None:
    """What the application says, even of itself, is passed on."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(status, body=b"says the application")

    def said() -> bool:
        response = ask(nginx).response
        return (response.status, response.body) == (status, b"says the application")

    wait_until(said, what="the end of its time")


def test_intercepted_errors_of_the_application(site: Site, web: Gateway) -> None:
    """Where nginx takes them for its own, what was learned is used."""
    site.html.write("502.html", b"the page")
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(
        site,
        web.directive("intercept_errors", "on")
        + "error_page 502 /502.html; location = /502.html { }"
        + SERVER,
    )
    assert_learned(nginx, web)
    web.answers["/a"] = Said(502, body=b"says the application")
    web.answers["/b"] = Said(502, body=b"says the application")

    def stale() -> bool:
        answer = ask(nginx)
        site.assert_file(answer.response, 1, SIZE)
        return web.count("/a") == 2 and answer.said == ("STALE", "learned")

    wait_until(stale, what="the end of its time")
    response = ask(nginx, "/b").response
    assert (response.status, response.body) == (502, b"the page")


def test_error_pages_while_down(site: Site, web: Gateway) -> None:
    """The location's own pages are for what was never learned."""
    site.html.write("502.html", b"the page")
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(site, "error_page 502 /502.html; location = /502.html { }" + SERVER)
    assert_learned(nginx, web)
    web.answers["/a"] = Said(drop=0)
    web.answers["/b"] = Said(drop=0)
    wait_until(lambda: ask(nginx).said == ("STALE", "learned"), what="the stale one")
    response = ask(nginx, "/b").response
    assert (response.status, response.body) == (502, b"the page")
    site.files.path(NAME).unlink()

    def gone() -> bool:
        response = ask(nginx).response
        return (response.status, response.body) == (502, b"the page")

    wait_until(gone, what="the page")


@pytest.mark.parametrize("stale", ["error", "off"])
def test_down_behind_an_error_page(site: Site, web: Gateway, stale: str) -> None:
    """Where an error_page leads nothing is learned, and nothing is stale."""
    web.answers["/a"] = sendfile(write(site), soon())
    nginx = start(
        site,
        f"http_sendfile_cache_use_stale {stale};"
        "location / { root %%HTML%%; error_page 404 = @app; }"
        f" location @app {{ {LEARN} %%ACCEPT%% %%PASS%% }} {STATIC} %%INTERNAL%%"
        f" {STATUS}",
    )
    for n in range(1, 4):
        assert source(nginx) == "app"
        assert web.count() == n
    web.answers["/a"] = Said(drop=0)
    assert ask(nginx).response.status == 502


# purging


def test_purge_by_url(site: Site, app: Gateway) -> None:
    """What was learned goes by its URL, and no other's answer does."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site)
    uris = ("/a", "/a?b", "/a?b=%2F&c", "/a%20b", "//a", "/b")
    for uri in uris:
        assert_learned(nginx, app, uri)
    for n, uri in enumerate(uris):
        purge_url(nginx, f"http://localhost{uri}")
        for other in uris[n + 1 :]:
            assert source(nginx, other) == "learned"
        assert_learned(nginx, app, uri)
    for none in ("http://localhost/none", "http://localhost/a?", "localhost/a", "/a"):
        purge_url(nginx, none)
    purge(nginx, "%2Fa")
    for uri in uris:
        assert source(nginx, uri) == "learned"


def test_purge_by_url_of_any_host(site: Site, app: Gateway) -> None:
    """The host is as the client has written it, but for the case of letters."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site)
    hosts = ("localhost", "localhost:8080", "other.example", "Other.example")
    for host in hosts:
        for wanted in ("app", "learned"):
            assert source(nginx, "/a", {"Host": host}) == wanted
    purge_url(nginx, "http://localhost:8080/a")
    purge_url(nginx, "https://localhost/a")
    purge_url(nginx, "http://other.EXAMPLE/a")
    found = [source(nginx, "/a", {"Host": host}) for host in hosts]
    assert found == ["learned", "app", "app", "app"]


def test_purge_by_url_of_https(
    site: Site, app: Gateway, certificate: Certificate
) -> None:
    """The scheme is the connection's."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(
        site,
        "listen 127.0.0.1:%%PORT:tls%% ssl;"
        f"ssl_certificate {certificate.certificate};"
        f"ssl_certificate_key {certificate.key};" + SERVER,
    )
    context = certificate.client_context()
    with Connection(nginx.port_of("tls"), context) as connection:
        for wanted in ("app", "learned"):
            assert ask(nginx, on=connection).entry.source == wanted
        purge_url(nginx, "http://localhost/a")
        assert ask(nginx, on=connection).entry.source == "learned"
        purge_url(nginx, "https://localhost/a")
        assert ask(nginx, on=connection).entry.source == "app"


def test_purge_by_url_of_http2(site: Site, app: Gateway) -> None:
    """Where a request has no Host, the host is what it has in its place."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, site.http2_listen() + SERVER)
    with nginx.http2("h2") as client:

        def asked() -> bool:
            before = app.count()
            assert client.get("/a").status_code == 200
            return app.count() > before

        assert [asked(), asked()] == [True, False]
        authority = f"localhost:{nginx.port_of('h2')}"
        purge_url(nginx, f"https://{authority}/a")
        assert not asked()
        purge_url(nginx, f"http://{authority}/a")
        assert [asked(), asked()] == [True, False]


def test_purge_by_id(site: Site, app: Gateway) -> None:
    """With an ID in the URI it goes by that, whatever else is in the URI."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site)
    uris = ("/x/297887", "/y/297887?z", "/x/297888")
    for uri in uris:
        assert_learned(nginx, app, uri)
    purge(nginx, 297887)
    assert [source(nginx, uri) for uri in uris] == ["app", "app", "learned"]
    purge_url(nginx, "http://localhost/x/297887")
    assert [source(nginx, uri) for uri in uris] == ["app", "learned", "learned"]


def test_purge_by_key(site: Site, app: Gateway) -> None:
    """With http_sendfile_key it is that, for each host and query string."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_key $arg_k; {SERVER}")
    hosts = ("localhost", "other")
    for host in hosts:
        ask(nginx, "/a?k=1", {"Host": host})
        ask(nginx, "/a?k=2", {"Host": host})
    purge(nginx, 1)
    for host in hosts:
        assert source(nginx, "/a?k=1", {"Host": host}) == "app"
        assert source(nginx, "/a?k=2", {"Host": host}) == "learned"


@pytest.mark.parametrize(
    "do",
    [
        lambda nginx: purge_url(nginx, "doc1"),
        lambda nginx: purge_url(nginx, "http://localhost/a?d=1"),
        lambda nginx: purge_url(nginx, "http://localhost/b?d=1"),
    ],
    ids=["name", "url-that-taught", "url-that-is-answered"],
)
def test_purge_by_learn_key(
    site: Site, app: Gateway, do: Callable[[Nginx], None]
) -> None:
    """What http_sendfile_learn_key makes is a name to purge by, too."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site, f"http_sendfile_learn_key doc$arg_d; {SERVER}")
    for n in (1, 2):
        for uri, wanted in (("/a", "app"), ("/b", "learned")):
            assert source(nginx, f"{uri}?d={n}") == wanted
    for none in ("http://localhost/b", "http://localhost/a", "doc"):
        purge_url(nginx, none)
    purge(nginx, "doc1")
    assert source(nginx, "/b?d=1") == "learned"
    do(nginx)
    for wanted in ("app", "learned"):
        assert source(nginx, "/b?d=1") == wanted
    assert source(nginx, "/a?d=1") == "learned"
    assert source(nginx, "/a?d=2") == "learned"


def test_purge_all(site: Site, app: Gateway) -> None:
    """All that was learned goes with the rest of the cache."""
    app.script = lambda request: sendfile(write(site), MINUTE)
    nginx = start(site)
    for uri in ("/a", "/b"):
        assert_learned(nginx, app, uri)
    purge_all(nginx)
    for uri in ("/a", "/b"):
        assert source(nginx, uri) == "app"


@pytest.mark.parametrize(
    "do",
    [lambda nginx: purge_url(nginx, "http://localhost/a"), purge_all],
    ids=["url", "all"],
)
def test_purged_while_the_application_answers(
    site: Site, app: Gateway, do: Callable[[Nginx], None]
) -> None:
    """An answer that was asked for before the purge is not learned after it."""
    path = write(site)
    go = threading.Event()

    def script(request: PeerRequest) -> Said:
        assert go.wait(300)
        return sendfile(path, MINUTE)

    app.script = script
    nginx = start(site)
    try:
        with expire(nginx, app, 1) as connection:
            do(nginx)
            go.set()
            site.assert_file(connection.read_response(), 1, SIZE)
    finally:
        go.set()
    assert source(nginx) == "app"
    assert source(nginx) == "learned"


# configurations that change


def test_reload(site: Site, app: Gateway) -> None:
    """What was learned outlives a reload."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    for _ in range(2):
        nginx.reload()
        assert source(nginx) == "learned"
    assert app.count() == 1


def test_reload_with_learning_off(site: Site, app: Gateway) -> None:
    """Switched off, it is not used, either."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    nginx.reload(site.template(SERVER.replace("learn on", "learn off"), ZONE))
    assert source(nginx) == "app"
    assert source(nginx) == "app"


def test_reload_with_another_allow(site: Site, app: Gateway) -> None:
    """What is not allowed any more is not served, however it was learned."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    site.files.path("other").mkdir()
    server = SERVER.replace(
        "%%ACCEPT%%", ACCEPT.replace("%%FILES%%", "%%FILES%%/other")
    )
    nginx.reload(site.template(server, ZONE))
    for _ in range(3):
        answer = ask(nginx)
        assert answer.response.status == 502
        assert b"ID:" not in answer.response.body


def test_reload_with_allow_in_another_order(site: Site, app: Gateway) -> None:
    """A file of the same path below another directory is another file."""
    write(site, 1, "one/a.txt")
    app.answers["/a"] = sendfile(write(site, 2, "two/a.txt"), MINUTE)

    def server(*names: str) -> str:
        allow = "".join(f"http_sendfile_allow %%FILES%%/{name}; " for name in names)
        accept = ACCEPT.replace("http_sendfile_allow %%FILES%%;", allow)
        return SERVER.replace("%%ACCEPT%%", accept)

    nginx = start(site, server("one", "two"))
    ask(nginx)
    for names in (("one", "two"), ("two", "one"), ("one", "two")):
        answer = ask(nginx)
        assert answer.entry.source == "learned"
        site.assert_file(answer.response, 2, SIZE)
        nginx.reload(site.template(server(*names), ZONE))
    nginx.reload(site.template(server("one"), ZONE))
    assert ask(nginx).response.status == 502


def test_reload_without_symlinks(site: Site, app: Gateway) -> None:
    """Nor is a link that was followed once."""
    write(site)
    link = site.files.path("link")
    link.symlink_to(NAME)
    app.answers["/a"] = sendfile(link, MINUTE)
    nginx = start(site, "http_sendfile_symlinks on;" + SERVER)
    assert_learned(nginx, app)
    nginx.reload(site.template(SERVER, ZONE))
    for _ in range(3):
        assert ask(nginx).response.status == 404


def test_reload_with_fewer_headers_accepted(site: Site, app: Gateway) -> None:
    """What is learned of a header that is not accepted now does not count."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    less = "http_sendfile_accept X-Accel-Redirect; http_sendfile_allow %%FILES%%;"
    nginx.reload(site.template(SERVER.replace("%%ACCEPT%%", less), ZONE))
    app.answers["/a"] = Said(body=b"plain")
    assert ask(nginx).response.body == b"plain"
    assert app.count() == 2


def test_restart(site: Site, app: Gateway) -> None:
    """A restart forgets."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    nginx = start(site)
    assert source(nginx) == "app"


# clients


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Accel-Expires", "60")],
        [("X-Sendfile", "%s"), ("X-Accel-Expires", "60")],
        [("Cache-Control", "public, max-age=60")],
        [("X_Accel_Expires", "60")],
    ],
    ids=["expires", "sendfile", "cache-control", "underscore"],
)
def test_clients_teach_nothing(site: Site, app: Gateway, headers: Lines) -> None:
    """What a client says is not learned from."""
    path = write(site)
    app.answers["/a"] = sendfile(path)
    nginx = start(site, "underscores_in_headers on;" + SERVER)
    said = [(str(n), str(path) if v == "%s" else str(v)) for n, v in headers]
    for n in range(1, 4):
        assert source(nginx, "/a", said) == "app"
        assert app.count() == n


@pytest.mark.parametrize(
    "headers",
    [
        {"Cache-Control": "no-cache"},
        {"Pragma": "no-cache"},
        {"Cookie": "a=b"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"X-Accel-Expires": "0"},
    ],
    ids=str,
)
def test_clients_do_not_force_the_application(
    site: Site, app: Gateway, headers: dict[str, str]
) -> None:
    """Nor does a client's word make nginx ask anew."""
    app.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, app)
    assert source(nginx, "/a", headers) == "learned"
    assert app.count() == 1


# nginx -t


def test_learn_without_a_cache(site: Site) -> None:
    """Where to keep what is learned has to be said."""
    check = site.check_config(
        "location / {\nhttp_sendfile_learn on;\nhttp_sendfile_accept X-Sendfile;\n"
        "http_sendfile_allow /srv;\nproxy_pass http://127.0.0.1:1;\n}"
    )
    check.assert_fails("http_sendfile_learn on", "http_sendfile_cache")


def test_learn_without_accept(site: Site) -> None:
    """And what to learn."""
    check = site.check_config(
        "location / {\nhttp_sendfile_learn on;\nhttp_sendfile_cache main;\n"
        "proxy_pass http://127.0.0.1:1;\n}",
        ZONE,
    )
    check.assert_fails("http_sendfile_learn on", "http_sendfile_accept")


@pytest.mark.parametrize("value", ["maybe", "on on", ""])
def test_learn_mistakes(site: Site, value: str) -> None:
    """It is a flag."""
    check = site.check_config(
        f"location / {{\nhttp_sendfile_learn {value};\n%%ACCEPT%%\n}}".replace(
            "%%ACCEPT%%", "http_sendfile_accept X-Accel-Redirect;"
        )
        + "http_sendfile_cache main;",
        ZONE,
    )
    check.assert_fails("http_sendfile_learn")


def test_no_mistake(site: Site) -> None:
    """What is right is passed without a word."""
    check = site.check_config(
        "location / { http_sendfile_learn on; http_sendfile_cache main;"
        " http_sendfile_accept X-Accel-Redirect; proxy_pass http://127.0.0.1:1; }"
        "location /off/ { http_sendfile_learn off; }",
        ZONE,
    )
    check.assert_silent()


def test_status_says_so(site: Site, web: Gateway) -> None:
    """A purge's answer is what it is for everything that is cached."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, web)
    response = nginx.request("DELETE", "/status/cache?url=http://localhost/a")
    assert json.loads(response.body) == {"purged": True}
    assert source(nginx) == "app"


@pytest.mark.parametrize("arguments", ["url", "url=", "uri=x", "x=1&url=y"])
def test_status_of_no_url(site: Site, web: Gateway, arguments: str) -> None:
    """What is no URL purges nothing, and least of all everything."""
    web.answers["/a"] = sendfile(write(site), MINUTE)
    nginx = start(site)
    assert_learned(nginx, web)
    response = nginx.request("DELETE", f"/status/cache?{arguments}")
    assert response.status == 400
    assert source(nginx) == "learned"
