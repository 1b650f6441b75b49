"""Answers of an application where more than one location has a say in them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from lib.backend import Reply, Request
from lib.cache import let_pass
from lib.files import content
from lib.http10 import Answer, Http10, PeerRequest, head
from lib.site import Site

SIZE = 500
HTTP = "http_sendfile_cache_zone c:4m;"

ACCEPT = "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%;"
BOTH = (
    "http_sendfile_accept X-Sendfile X-Accel-Redirect; http_sendfile_allow %%FILES%%;"
)
KEEP = "http_sendfile_learn on; http_sendfile_cache c;"
LEARN = f"{ACCEPT} {KEEP}"
PASS = "proxy_pass http://%%APP%%;"

NEXT = "X-Accel-Redirect"
EXPIRES = "X-Accel-Expires: 1"


@pytest.fixture
def path(site: Site) -> str:
    """A file that says the ID 1."""
    return str(site.files.write_id("aa/1.txt", 1, SIZE))


def named(path: str, *headers: tuple[str, str]) -> Reply:
    """Return an answer that names a file, and may be used again."""
    return Reply(headers=[("X-Sendfile", path), ("X-Accel-Expires", "60"), *headers])


def answer_all(site: Site, answers: dict[str, Reply]) -> None:
    """Let the application answer by path."""

    def script(request: Request) -> Reply:
        return answers.get(request.target, Reply(404))

    site.app.script = script


def asked(site: Site, target: str) -> int:
    """Return how often the application was asked for that."""
    return len([r for r in site.app.requests if r.target == target])


# rewrite


@pytest.mark.parametrize("rule", ["rewrite ^ /x$uri;", "rewrite ^/(a.*)$ /x/$1;"])
def test_rules_of_a_server_run_once(site: Site, path: str, rule: str) -> None:
    """A URI of no location has the server's rewrite rules once, not twice."""
    site.html.write_id("x/a/1.txt", 2, SIZE)
    other = f"location /app/ {{ {ACCEPT} {PASS} }}"
    nginx = site.start(f"{rule} {other}")
    site.assert_file(nginx.get("/a/1.txt"), 2, SIZE)


@pytest.mark.parametrize("rule", ["rewrite ^ /x$uri;", "return 403;"])
def test_rules_of_a_server_and_a_file(site: Site, path: str, rule: str) -> None:
    """They have no say once more, when the application has named a file."""
    answer_all(site, {"/x/a": named(path), "/a": named(path)})
    rule = f"if ($upstream_status) {{ {rule} }}"
    nginx = site.start(f"{rule} location / {{ {ACCEPT} {PASS} }}")
    site.assert_file(nginx.get("/a"), 1, SIZE)


@pytest.mark.parametrize("rule", ["rewrite ^ /x$uri;", "return 403;"])
def test_rules_of_a_server_and_a_stale_answer(site: Site, path: str, rule: str) -> None:
    """They have no say once more, when a stale answer is used."""
    server = Http10(lambda request: Answer((head(f"X-Sendfile: {path}", EXPIRES),)))
    site.variables["OLD"] = server.address
    rule = f"if ($upstream_status) {{ {rule} }}"
    nginx = site.start(
        f"{rule} location / {{ {LEARN} proxy_pass http://%%OLD%%; }}", HTTP
    )
    try:
        site.assert_file(nginx.get("/a"), 1, SIZE)
        server.script = lambda request: Answer((), close=True)
        let_pass(1.1)
        site.assert_file(nginx.get("/a"), 1, SIZE)
    finally:
        server.close()
    assert nginx.logged("/a", 2).source == "learned"


# two applications


@pytest.mark.parametrize("accept", [ACCEPT, BOTH])
def test_answer_behind_a_redirect_is_not_learned(
    site: Site, path: str, accept: str
) -> None:
    """What a second application allows is not what the first one has allowed."""
    first = Reply(
        headers=[(NEXT, "/second"), ("Set-Cookie", "s=1"), ("Cache-Control", "private")]
    )
    answer_all(site, {"/a": first, "/second": named(path)})
    nginx = site.start(
        f"{accept} {KEEP} location / {{ {PASS} }}"
        f"location /second {{ internal; {PASS} }}",
        HTTP,
    )
    for _ in range(2):
        site.assert_file(nginx.get("/a"), 1, SIZE)
    assert asked(site, "/a") == 2


def test_answer_of_an_error_page_is_not_learned(site: Site, path: str) -> None:
    """An answer in place of an error is not what is learned for the first one."""
    answer_all(site, {"/second": named(path)})
    nginx = site.start(
        f"{LEARN} location / {{ proxy_intercept_errors on; {PASS}"
        f" error_page 404 = /second; }} location /second {{ internal; {PASS} }}",
        HTTP,
    )
    for _ in range(2):
        site.assert_file(nginx.get("/a"), 1, SIZE)
    assert asked(site, "/a") == 2


def test_allowed_is_what_the_second_location_allows(site: Site, path: str) -> None:
    """The directories are those of the location that has asked for the file."""
    first = Reply(headers=[(NEXT, "/second")])
    answer_all(site, {"/a": first, "/second": named(path)})
    nginx = site.start(
        f"{LEARN} location / {{ {PASS} }} location /second {{ internal; {PASS}"
        " http_sendfile_allow %%HTML%%; }",
        HTTP,
    )
    assert nginx.get("/a").status == 502
    assert nginx.errors("error")


# answers that end too early


@pytest.fixture
def broken(site: Site, path: str) -> Iterator[Http10]:
    """An application that names a file, and breaks off in its headers."""

    def script(request: PeerRequest) -> Answer:
        lines = f"HTTP/1.1 200 OK\r\nX-Sendfile: {path}\r\nX-Accel-Expires: 60\r\n"
        return Answer((lines.encode() + b"Cache-Control: no-st",), close=True)

    server = Http10(script)
    site.variables["BROKEN"] = server.address
    yield server
    server.close()


@pytest.mark.parametrize("page", ["/other", "@other"])
def test_half_an_answer_is_no_answer(
    site: Site, path: str, broken: Http10, page: str
) -> None:
    """An error_page that clears the code does not make half an answer whole."""
    other = "/other" if page == "/other" else "@other"
    nginx = site.start(
        f"{LEARN} location / {{ proxy_pass http://%%BROKEN%%; error_page 502 = {page}; }}"
        f"location {other} {{ http_sendfile_accept off; http_sendfile_learn off;"
        ' return 200 "other"; }',
        HTTP,
    )
    for _ in range(2):
        response = nginx.get("/a")
        assert (response.status, response.body) == (200, b"other")
    assert len(broken.requests) == 2


def test_redirect_that_nginx_refuses_is_no_redirect(site: Site, path: str) -> None:
    """The page in its place has nothing of the application's answer."""
    headers = [(NEXT, "/../x"), ("X-Accel-Expires", "60"), ("X-Mine", "1")]
    answer_all(site, {"/a": Reply(headers=headers)})
    nginx = site.start(
        f"{BOTH} {KEEP} location / {{ {PASS} error_page 404 = /other; }}"
        'location /other { return 200 "other"; }',
        HTTP,
    )
    for _ in range(2):
        response = nginx.get("/a")
        assert (response.status, response.body) == (200, b"other")
        assert response.header("X-Mine") is None
    assert asked(site, "/a") == 2


# what an answer is known by


@pytest.mark.parametrize("key", ["", "http_sendfile_learn_key $request_uri;"])
def test_if_is_another_location(site: Site, path: str, key: str) -> None:
    """What an "if" asks of another application is not for the others."""
    admin = site.files.write_id("admin.txt", 2, SIZE)
    answer_all(site, {"/a": named(path)})
    other = site.backend(lambda request: named(str(admin)))
    site.variables["ADMIN"] = other.address
    nginx = site.start(
        f"location / {{ {LEARN} {PASS}"
        f" if ($http_x_admin) {{ proxy_pass http://%%ADMIN%%; {key} }} }}",
        HTTP,
    )
    for _ in range(2):
        site.assert_file(nginx.get("/a", {"X-Admin": "1"}), 2, SIZE)
        site.assert_file(nginx.get("/a"), 1, SIZE)
    # nothing is learned in an "if" that does not say what for
    assert len(other.requests) == (1 if key else 2)
    assert asked(site, "/a") == 1


@pytest.mark.parametrize("key", ["$arg_u:$http_x_user", "$http_x_user$sendfile_id"])
@pytest.mark.parametrize("users", [("a b", "c d"), ("a" * 300, "b" * 300)])
def test_users_with_odd_keys(site: Site, key: str, users: tuple[str, str]) -> None:
    """A learn key may have bytes and a length that a store's may not have."""
    files = {
        user: str(site.files.write_id(f"{i}.txt", i, SIZE))
        for i, user in enumerate(users, 1)
    }

    def script(request: Request) -> Reply:
        return named(files[request.header("X-User") or ""])

    site.app.script = script
    nginx = site.start(
        f'location / {{ {LEARN} {PASS} http_sendfile_learn_key "{key}"; }}', HTTP
    )
    for _ in range(2):
        for i, user in enumerate(users, 1):
            site.assert_file(nginx.get("/a", {"X-User": user}), i, SIZE)
    assert asked(site, "/a") == 2


def test_early_hints(site: Site, path: str) -> None:
    """An application's 103 names no file to the client, whatever nginx does with it."""
    hints = head(f"X-Sendfile: {path}", "Link: </a.css>", status="103 Early Hints")
    last = head(f"X-Sendfile: {path}", "Content-Length: 0", EXPIRES)
    app = Http10(lambda request: Answer((hints.replace(b"/1.0", b"/1.1"), last), True))
    passed_on = site.flavour.version >= (1, 29)
    early = "early_hints 1;" if passed_on else ""
    try:
        nginx = site.start(
            f"location / {{ {early} {ACCEPT} proxy_pass http://{app.address}; }}", HTTP
        )
        with nginx.connect() as connection:
            connection.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = connection.read_to_end()
    finally:
        app.close()
    # an nginx that knows no 103 takes what follows it for the body
    shown = answer if passed_on else answer.partition(b"\r\n\r\n")[0]
    assert b"sendfile" not in shown.lower()
    assert b"</a.css>" in shown
    assert answer.endswith(content(1, SIZE)) == passed_on


def test_servers_of_one_name_and_socket(site: Site) -> None:
    """Servers of one name whose addresses share a socket are two servers."""
    files = [str(site.files.write_id(f"{i}.txt", i, SIZE)) for i in (1, 2)]

    def script(request: Request) -> Reply:
        return named(files[1 if request.header("X-Inside") else 0])

    site.app.script = script
    server = f"location / {{ {LEARN} {PASS} }}"
    inside = f"proxy_set_header X-Inside 1; {server}"
    nginx = site.start(
        "",
        f"{HTTP} server {{ listen %%PORT:w%%; server_name app; {server} }}"
        f" server {{ listen 127.0.0.2:%%PORT:w%%; server_name app; {inside} }}",
    )

    def get(address: str) -> bytes:
        with socket.create_connection((address, nginx.port_of("w"))) as sock:
            sock.sendall(b"GET /a HTTP/1.0\r\nHost: app\r\n\r\n")
            data = b""
            while more := sock.recv(65536):
                data += more
        return data.partition(b"\r\n\r\n")[2]

    for _ in range(2):
        assert get("127.0.0.2") == content(2, SIZE)
        assert get("127.0.0.1") == content(1, SIZE)


# what takes a learned answer back


@pytest.mark.parametrize(
    ("status", "method", "kept"),
    [
        (304, "GET", True),
        (206, "GET", True),
        (416, "GET", True),
        (500, "GET", True),
        (200, "HEAD", True),
        (200, "GET", False),
        (302, "GET", False),
        (404, "GET", False),
        (403, "HEAD", False),
    ],
)
def test_answer_that_says_nothing_of_the_file(
    site: Site, path: str, status: int, method: str, kept: bool
) -> None:
    """Only an answer that speaks of the file ends what was learned of it."""
    first = Reply(headers=[("X-Sendfile", path), ("X-Accel-Expires", "1")])
    answers = [first, Reply(status)]
    site.app.script = lambda request: answers.pop(0) if answers else Reply(404)
    nginx = site.start(
        f"location / {{ {LEARN} http_sendfile_cache_use_stale error; {PASS} }}",
        http=HTTP,
    )
    site.assert_file(nginx.get("/a"), 1, SIZE)
    let_pass(1.0)
    assert nginx.request(method, "/a").status == status
    site.app.close()
    if kept:
        site.assert_file(nginx.get("/a"), 1, SIZE)
        assert nginx.logged("/a", 3).status == "STALE"
    else:
        assert nginx.get("/a").status == 502
