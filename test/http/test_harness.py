"""The harness itself: what it must notice, and what it must wait for."""

from __future__ import annotations

import pytest

from lib.files import content
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
