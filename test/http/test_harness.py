"""The harness itself: what it must notice, and what it must wait for."""

from __future__ import annotations

import pytest

from lib.files import content
from lib.gateway import PROTOCOLS, Lines, Said
from lib.http10 import PeerRequest
from lib.nginx import StartFailed
from lib.site import Site
from lib.wait import wait_until


def test_serves_a_file(plain_site: Site) -> None:
    """Workers can read the files, and the access log is understood."""
    plain_site.html.write_id("a.txt", 1)
    nginx = plain_site.start("")
    plain_site.assert_file(nginx.get("/a.txt?x=1"), 1)
    entry = nginx.logged("/a.txt?x=1")
    assert (entry.method, entry.code, entry.sent) == ("GET", 200, 400)


def test_content_tells_id_and_position() -> None:
    """Every line of a file says its ID and where it stands."""
    text = content(297887, 1000).decode()
    assert len(text) == 1000
    assert text.splitlines()[:2] == ["ID:297887 00000000", "ID:297887 00000001"]


@pytest.mark.parametrize(
    "line",
    [
        "2024/01/01 00:00:00 [alert] 1#1: *1 something",
        "2024/01/01 00:00:00 [emerg] 1#1: something",
        "2024/01/01 00:00:00 [crit] 1#1: something",
        "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1",
        "==1==ERROR: LeakSanitizer: detected memory leaks",
        "a.c:1:2: runtime error: signed integer overflow",
    ],
)
def test_a_complaint_fails_the_test(plain_site: Site, line: str) -> None:
    """Each kind of complaint is noticed, and can be allowed."""
    nginx = plain_site.start("")
    with nginx.error_log.open("a") as log:
        log.write(line + "\n")
    with pytest.raises(AssertionError):
        nginx.check_logs()
    nginx.allow_log("some|leaks|heap|overflow")
    nginx.check_logs()


def test_a_bad_configuration_is_reported(plain_site: Site) -> None:
    """A configuration that nginx refuses is told from a port that is taken."""
    with pytest.raises(StartFailed, match="nonsense"):
        plain_site.start("nonsense;")
    plain_site.nginx.allow_log("nonsense")


def test_config_check_finds_the_line(plain_site: Site) -> None:
    """-t is run without starting, and its line number is compared."""
    check = plain_site.check_config("etag\n\nperhaps;")
    with pytest.raises(AssertionError):
        check.assert_fails("listen", "perhaps")
    check.assert_fails("perhaps;", "perhaps")
    assert not plain_site.nginx.running


def test_reload_serves_the_new_configuration(plain_site: Site) -> None:
    """After reload() no old worker accepts; an old request is still answered."""
    nginx = plain_site.start("location / { return 200 old; }")
    with nginx.connect() as kept:
        assert kept.request("GET", "/").text == "old"
        kept.send(b"GET / HTTP/1.1\r\n")
        old = nginx.workers()
        nginx.reload(plain_site.template("location / { return 200 new; }"))
        assert [nginx.get("/").text for _ in range(20)] == ["new"] * 20
        kept.send(b"Host: localhost\r\n\r\n")
        assert kept.read_response().text == "old"
    wait_until(lambda: not set(old) & set(nginx.all_workers()), what="the old to end")


def test_backend_records_requests(plain_site: Site) -> None:
    """The application sees method, target and body, and answers."""
    nginx = plain_site.start("location / { proxy_pass http://%%APP%%; }")
    assert nginx.post("/a?b", b"1234").text == "app POST /a?b\n"
    request = plain_site.app.only_request()
    assert (request.method, request.target, request.body) == ("POST", "/a?b", b"1234")


def test_connection_pipelines(plain_site: Site) -> None:
    """Several requests in one packet are answered in order."""
    for n in (1, 2, 3):
        plain_site.html.write_id(f"{n}", n)
    nginx = plain_site.start("")
    with nginx.connect() as connection:
        connection.send(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in (1, 2, 3))
        )
        for n in (1, 2, 3):
            plain_site.assert_file(connection.read_response(), n)


def test_http2(plain_site: Site) -> None:
    """HTTP/2 without TLS, told in the way of this version of nginx."""
    plain_site.html.write_id("a", 1)
    nginx = plain_site.start(plain_site.http2_listen())
    with nginx.http2("h2") as client:
        response = client.get("/a")
        assert response.http_version == "HTTP/2"
        assert response.content == content(1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gateway_sees_the_request(plain_site: Site, protocol: str) -> None:
    """Method, target, headers and body are the same in each protocol."""
    gateway = plain_site.gateway(protocol)
    gateway.script = lambda r: Said(body=f"{r.method} {r.target}".encode())
    nginx = plain_site.start(f"location / {{ {gateway.passes()} }}")
    body = bytes(range(256)) * 300
    headers = {"X-Long": "x" * 300, "Accept": "text/x-mine"}
    assert nginx.post("/a%20b?c=d", body, headers).text == "POST /a%20b?c=d"
    assert nginx.get("/e").text == "GET /e"
    first, second = gateway.requests
    assert (first.method, first.target, first.body) == ("POST", "/a%20b?c=d", body)
    assert (second.method, second.target, second.body) == ("GET", "/e", b"")
    got = {n.lower().replace("_", "-"): v for n, v in first.headers}
    assert got["x-long"] == "x" * 300
    assert got["accept"] == "text/x-mine"
    assert (gateway.count(), gateway.count("/e"), gateway.count("/f")) == (2, 1, 0)


@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize("status_at", ["first", "last"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gateway_answers(
    plain_site: Site, protocol: str, status_at: str, piece: int
) -> None:
    """Status, headers and body come through, with order, duplicates and bytes."""
    gateway = plain_site.gateway(protocol)
    said: Lines = [("X-B", "1"), ("X-A", "2"), ("X-B", "3"), ("X-C", b"\xe9\x80")]
    gateway.answers["/a"] = Said(
        201, said, b"body" * 100, status_at=status_at, piece=piece
    )
    nginx = plain_site.start(f"location / {{ {gateway.passes()} }}")
    response = nginx.get("/a?b")
    assert (response.status, response.body) == (201, b"body" * 100)
    names = [(n, v) for n, v in response.headers if n.startswith("X-")]
    assert names == [*list(said)[:3], ("X-C", "\xe9\x80")]
    assert response.header("Content-Length") == "400"
    assert nginx.get("/none").status == 404


@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
def test_gateway_without_a_status(plain_site: Site, protocol: str) -> None:
    """A CGI may leave the status out, or say it in a line as HTTP does."""
    gateway = plain_site.gateway(protocol)
    gateway.answers["/none"] = Said(status_at="none", body=b"a")
    gateway.answers["/line"] = Said(202, status_line=True, body=b"b")
    nginx = plain_site.start(f"location / {{ {gateway.passes()} }}")
    assert (nginx.get("/none").status, nginx.get("/line").status) == (200, 202)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gateway_drops(plain_site: Site, protocol: str) -> None:
    """An application that hangs up is a 502."""
    gateway = plain_site.gateway(protocol)
    gateway.answers["/now"] = Said(drop=0)
    gateway.answers["/later"] = Said(headers=[("X-A", "b" * 100)], drop=60)
    nginx = plain_site.start(f"location / {{ {gateway.passes()} }}")
    assert [nginx.get(t).status for t in ("/now", "/later")] == [502, 502]


@pytest.mark.parametrize("protocol", ["http", "fastcgi"])
def test_gateway_keeps_connections(plain_site: Site, protocol: str) -> None:
    """With an upstream's keepalive, requests share a connection."""
    gateway = plain_site.gateway(protocol)

    def script(request: PeerRequest) -> Said:
        return Said(body=b"%d" % request.number)

    gateway.script = script
    keep = {
        "http": 'proxy_http_version 1.1; proxy_set_header Connection "";',
        "fastcgi": "fastcgi_keep_conn on;",
    }[protocol]
    nginx = plain_site.start(
        f"location / {{ {gateway.passes('app')} {keep} }}",
        f"upstream app {{ server {gateway.address}; keepalive 4; }}",
    )
    with nginx.connect() as connection:
        texts = [connection.request("GET", "/").text for _ in range(4)]
    assert texts == ["0", "1", "2", "3"]
