"""purge: what is sent to nginx, and what its answers mean."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ctl_harness import TIMEOUT, invoke, run, start, terminal, write_lines
from memcached_harness import Hang, Scripted, reply_once
from ports import free_port
from status_harness import (
    LOCATION,
    Asked,
    Reply,
    StatusServer,
    error,
    make_certificate,
    page,
)

from sendfilectl.errors import Refused, UsageError
from sendfilectl.http_client import parse_http_url
from sendfilectl.purge import key_path, url_path


@pytest.fixture
def server() -> Iterator[StatusServer]:
    """A server that purges whatever it is told to."""
    with StatusServer() as server:
        yield server


# what is sent


def test_purge_one(server: StatusServer) -> None:
    done = run("purge", server.url, "297887")
    assert (done.returncode, done.stdout, done.stderr) == (0, "purged 1 ID\n", "")
    (asked,) = server.asked
    assert asked.method == "DELETE"
    assert asked.target == f"{LOCATION}/cache/297887"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"
    assert asked.headers["user-agent"].startswith("sendfilectl/")
    assert "authorization" not in asked.headers
    assert "content-length" not in asked.headers


def test_purge_some(server: StatusServer) -> None:
    assert run("purge", server.url, "1", "2", "3").stdout == "purged 3 IDs\n"
    done = run("purge", server.url, "1", "2", "3", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"ok": True, "keys": 3}


def test_purge_all(server: StatusServer) -> None:
    done = run("purge", server.url, "--all")
    assert (done.returncode, done.stdout) == (0, "purged everything\n")
    done = run("purge", f"{server.url}/", "--all", "--json")
    assert json.loads(done.stdout) == {"ok": True, "all": True}
    assert [(a.method, a.target) for a in server.asked] == [
        ("DELETE", f"{LOCATION}/cache")
    ] * 2


def test_older_module_that_counts() -> None:
    """It says how many entries there were; that is no longer told."""
    with StatusServer(lambda asked: Reply(body=b'{"purged":0}')) as server:
        done = run("purge", server.url, "1", "2")
        assert (done.returncode, done.stdout) == (0, "purged 2 IDs\n")
        assert done.stderr == ""
        done = run("purge", server.url, "--all")
        assert (done.returncode, done.stdout) == (0, "purged everything\n")


def test_each_byte_of_a_key_arrives() -> None:
    good = [bytes([n]) for n in range(0x21, 0x100) if n != 0x7F]
    for key in [*good, b"".join(good)[:250]]:
        path = key_path(key)
        assert re.fullmatch("/cache/([A-Za-z0-9_~-]|%[0-9A-F]{2})+", path), key
        asked = Asked("DELETE", LOCATION + path, {})
        assert asked.key == key


def test_keys_that_look_like_a_path(server: StatusServer) -> None:
    keys: list[str | bytes] = [
        *("a/b", "/", "//", "a//b/", ".", "..", "a/../b", "a/../..", "%", "%2F"),
        *("?a=b", "#a", "a&b", "a+b", "写真", b"\xfe\xff", "-", "cache", "\\", '"'),
    ]
    done = run("purge", server.url, "--", *keys)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.keys == [k.encode() if isinstance(k, str) else k for k in keys]
    for asked in server.asked:
        assert not re.search(r"[/.%?#]", re.sub("%[0-9A-F]{2}", "", asked.target[23:]))


def test_keys_that_lead_out_of_the_location(server: StatusServer) -> None:
    for key in (b"../..", b"../../file/7", b"a/../../..", b".././/../x", b"..//.."):
        with pytest.raises(Refused, match="leads out of the location"):
            key_path(key)
    done = run("purge", server.url, "1", "../../file/7", "2")
    assert (done.returncode, done.stdout) == (1, "purged 2 IDs, 1 not\n")
    assert "../../file/7: the '..' in the ID leads out" in done.stderr
    assert "--all" in done.stderr
    assert server.keys == [b"1", b"2"]


def test_bad_ids_are_passed_over(server: StatusServer) -> None:
    done = run("purge", server.url, "1", "a b", "", "x" * 251, "2", "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    errors = result.pop("errors")
    assert result == {"ok": False, "keys": 2, "failed": 3}
    assert [e["id"] for e in errors] == ["a b", "", "x" * 251]
    assert "holds a space at offset 1" in errors[0]["error"]
    assert "sendfilectl: a b: the ID holds a space" in done.stderr
    assert server.keys == [b"1", b"2"]


# lists


def test_purge_a_list(server: StatusServer, tmp_path: Path) -> None:
    lines: list[str | bytes] = ["1", "", "2\r", b"\xfe", "a b", "  ", "写真"]
    file = write_lines(tmp_path / "ids", lines)
    done = run("purge", server.url, "--from", str(file))
    assert (done.returncode, done.stdout) == (1, "purged 4 IDs, 1 not\n")
    assert f"{file}:5: the ID holds a space" in done.stderr
    assert server.keys == [b"1", b"2", b"\xfe", "写真".encode()]
    for words in (["-"], ["--from", "-"]):
        server.asked.clear()
        done = run("purge", server.url, *words, "--json", input="7\na b\n8")
        assert done.returncode == 1
        assert "stdin:2: the ID holds a space" in done.stderr
        result = json.loads(done.stdout)
        assert (result["keys"], result["failed"]) == (2, 1)
        assert [e["line"] for e in result["errors"]] == [2]
        assert server.keys == [b"7", b"8"]


def test_empty_list(server: StatusServer) -> None:
    done = run("purge", server.url, "-", input="")
    assert (done.returncode, done.stdout) == (0, "purged 0 IDs\n")
    assert not server.asked


def test_list_that_cannot_be_read(server: StatusServer, tmp_path: Path) -> None:
    code, said, text = invoke("purge", server.url, "--from", f"{tmp_path}/none")
    assert (code, said) == (1, "")
    assert f"{tmp_path}/none: no such file or directory" in text


def test_failure_within_a_list_says_how_far_it_came() -> None:
    def reply(asked: Asked) -> Reply:
        return Reply() if asked.key != b"30" else page(502, "Bad Gateway")

    text = "".join(f"{i}\n" for i in range(100))
    with StatusServer(reply) as server:
        done = run("purge", server.url, "-", "--json", input=text)
    assert done.returncode == 1
    assert done.stderr == (
        f"sendfilectl: {server.url}: answers 502 Bad Gateway\n"
        "sendfilectl: purged 30 IDs\n"
    )
    assert json.loads(done.stdout) == {
        "ok": False,
        "error": f"{server.url}: answers 502 Bad Gateway",
        "keys": 30,
    }
    assert len(server.asked) == 31


def test_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    def reply(asked: Asked) -> Reply:
        return Reply() if asked.key != b"2" else error(400, "no key")

    file = write_lines(tmp_path / "ids", [str(i) for i in range(50)])
    with StatusServer(reply) as server:
        for words in (["--from", str(file)], [str(i) for i in range(50)]):
            code, said = terminal("purge", server.url, *words)
            assert code == 1
            assert "purging" in said
            assert "answers 400 (no key)" in said
            assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 1
        done = run("purge", server.url, "--from", str(file))
    assert "purging" not in done.stderr


def test_sigint_within_a_list() -> None:
    waiting, end = threading.Event(), threading.Event()

    def reply(asked: Asked) -> Reply:
        if asked.key == b"5":
            waiting.set()
            end.wait(120)
        return Reply()

    with (
        StatusServer(reply) as server,
        start("purge", server.url, *map(str, range(10)), "--json") as process,
    ):
        assert waiting.wait(120)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=TIMEOUT)
        end.set()
    assert process.returncode == 130
    assert said == "sendfilectl: interrupted: purged 5 IDs\n"
    assert json.loads(output) == {
        "ok": False,
        "error": "interrupted",
        "keys": 5,
    }


# URLs


URL = "https://www.example.com/report%20a?year=2024&b=%2F"


def test_purge_a_url(server: StatusServer) -> None:
    done = run("purge", server.url, "--url", URL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "purged 1 URL\n", "")
    (asked,) = server.asked
    assert asked.method == "DELETE"
    assert asked.target == (
        f"{LOCATION}/cache?url=https%3A%2F%2Fwww.example.com%2Freport%2520a"
        "%3Fyear%3D2024%26b%3D%252F"
    )


def test_purge_some_urls(server: StatusServer) -> None:
    urls = [URL, "http://a/b", "http://[::1]:81/c"]
    options = [word for url in urls for word in ("--url", url)]
    assert run("purge", *options, server.url).stdout == "purged 3 URLs\n"
    assert server.urls == [url.encode() for url in urls]
    done = run("purge", server.url, *options, "--json")
    assert json.loads(done.stdout) == {"ok": True, "urls": 3}
    assert server.connections == 2


def test_purge_a_list_of_urls(server: StatusServer) -> None:
    lines = f"{URL}\n\nwww.example.com/a\nhttp://a/b\r\n"
    done = run("purge", server.url, "--url", "-", input=lines)
    assert (done.returncode, done.stdout) == (1, "purged 2 URLs, 1 not\n")
    assert done.stderr.startswith("stdin:3: the URL has no http:// or https://")
    assert server.urls == [URL.encode(), b"http://a/b"]
    done = run("purge", server.url, "--url", "-", "--json", input=lines)
    result = json.loads(done.stdout)
    assert [e["line"] for e in result.pop("errors")] == [3]
    assert result == {"ok": False, "urls": 2, "failed": 1}


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://a", "http://a/"),
        ("http://a:8080?b", "http://a:8080/?b"),
        ("HTTP://A/B", "HTTP://A/B"),
        ("http://a/b//c/../d", "http://a/b//c/../d"),
        ("http://a/%C3%A9%", "http://a/%C3%A9%"),
        ("http://a/b@c?d://e", "http://a/b@c?d://e"),
        ("http://b\u00fccher.example/b\u00fc", "http://xn--bcher-kva.example/b\u00fc"),
        ("http://a/&url=b+c;d'\"<>\\", "http://a/&url=b+c;d'\"<>\\"),
    ],
)
def test_each_byte_of_a_url_arrives(url: str, sent: str) -> None:
    path = url_path(url.encode())
    assert re.fullmatch(r"/cache\?url=([A-Za-z0-9._~-]|%[0-9A-F]{2})+", path)
    asked = Asked("DELETE", LOCATION + path, {})
    assert asked.url == sent.encode()


def test_url_that_is_not_utf8() -> None:
    assert url_path(b"http://a/\xff") == "/cache?url=http%3A%2F%2Fa%2F%FF"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "the URL is empty: write all of it"),
        ("/file/7", "no http:// or https:// before it: write all of it, as clients"),
        ("www.example.com/file/7", "such as http://www.example.com/file/7"),
        ("//www.example.com/file/7", "no http:// or https:// before it"),
        ("localhost:8080/a", "no http:// or https:// before it"),
        ("http:/a", "no http:// or https:// before it"),
        ("ftp://a/b", "no http:// or https:// before it"),
        ("297887", "no http:// or https:// before it"),
        ("http://", "the URL has no good host: write all of it"),
        ("http:///a", "the URL has no good host"),
        ("http://?a", "the URL has no good host"),
        ("http://:80/a", "the URL has no good host"),
        ("http://a..b/c", "the URL has no good host"),
        ("http://::1/a", "the URL has no good host"),
        ("http://a/b c", "a space or a control byte: write it percent-encoded"),
        ("http://a/b\n", "a space or a control byte"),
        ("http://a/b#c", "leave it and the rest away"),
        ("http://me:secret@a/b", "leave the user and the password away"),
    ],
)
def test_bad_urls_to_purge(url: str, hint: str) -> None:
    with pytest.raises(Refused) as error:
        url_path(url.encode())
    assert hint in str(error.value)
    assert "secret" not in str(error.value)


def test_bad_urls_are_passed_over(server: StatusServer) -> None:
    done = run("purge", server.url, *("--url", "a/b", "--url", URL), "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("sendfilectl: a/b: the URL has no http://")
    result = json.loads(done.stdout)
    (failed,) = result.pop("errors")
    assert failed["url"] == "a/b"
    assert result == {"ok": False, "urls": 1, "failed": 1}
    assert server.urls == [URL.encode()]


def test_url_that_is_too_long_for_nginx() -> None:
    """Only that one fails, and what to do is said."""

    def reply(asked: Asked) -> Reply:
        long = len(asked.target) > 8000
        return (
            page(414, "Request-URI Too Large", Connection="close") if long else Reply()
        )

    with StatusServer(reply) as server:
        done = run(
            *("purge", server.url, "--url", "http://a/" + "b" * 8000, "--url", URL)
        )
    assert (done.returncode, done.stdout) == (1, "purged 1 URL, 1 not\n")
    assert "answers 414" in done.stderr
    assert "large_client_header_buffers" in done.stderr


def test_older_module_that_knows_no_urls() -> None:
    """It passes the argument over, and forgets everything: that is said."""
    with StatusServer(lambda asked: Reply(body=b'{"purged":9}')) as server:
        done = run("purge", server.url, "--url", URL, "--url", "http://a/b")
        assert (done.returncode, done.stdout) == (1, "")
        assert "has purged everything" in done.stderr
        assert len(server.asked) == 1


def test_id_that_looks_like_a_url(server: StatusServer) -> None:
    """It may be one, so it is purged; but it may be meant for --url."""
    done = run("purge", server.url, "7", "http://a/b", "http://a/c", "--json")
    assert json.loads(done.stdout) == {"ok": True, "keys": 3}
    assert server.keys == [b"7", b"http://a/b", b"http://a/c"]
    assert done.stderr == (
        "sendfilectl: http://a/b is purged as an ID: for what was learned for a URL "
        "write --url before it\n"
    )
    done = run("purge", server.url, URL + "x" * 250)
    assert (done.returncode, done.stdout) == (1, "purged 0 IDs, 1 not\n")
    assert "write --url before it" in done.stderr


# the connection


def test_one_connection_for_all(server: StatusServer) -> None:
    assert run("purge", server.url, *map(str, range(500))).returncode == 0
    assert len(server.asked) == 500
    assert server.connections == 1


def test_server_that_ends_the_connection_now_and_then() -> None:
    """As nginx does after keepalive_requests."""

    def reply(asked: Asked) -> Reply:
        last = int(asked.key) % 10 == 9
        return Reply(headers={"Connection": "close"} if last else {})

    with StatusServer(reply) as server:
        done = run("purge", server.url, *map(str, range(25)))
    assert done.stdout == "purged 25 IDs\n"
    assert server.connections == 3


ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"purged":true}'


def read_request(sock: socket.socket) -> bytes:
    """All of a request's head, nothing if the client has hung up."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        chunk = sock.recv(1 << 16)
        if not chunk:
            return b""
        data += chunk
    return data


def answers(number: int) -> Callable[[socket.socket], None]:
    """A script that answers so many requests, reads one more, and hangs up."""

    def script(sock: socket.socket) -> None:
        for _ in range(number):
            if not read_request(sock):
                return
            sock.sendall(ANSWER)
        read_request(sock)

    return script


def test_connection_that_was_closed_while_it_was_idle() -> None:
    with Scripted(answers(2)) as server:
        url = f"http://{server.name}{LOCATION}"
        done = run("purge", url, *map(str, range(6)))
    assert (done.returncode, done.stdout) == (0, "purged 6 IDs\n")
    assert server.connections == 3


def test_server_that_closes_each_connection_unasked() -> None:
    with Scripted(answers(0)) as server:
        url = f"http://{server.name}{LOCATION}"
        code, said, text = invoke("purge", url, "1")
    assert (code, said) == (1, "")
    assert text == f"{url}: closed the connection"
    assert server.connections == 1


def test_answer_without_a_length() -> None:
    head = b"HTTP/1.0 200 OK\r\n\r\n"
    with Scripted(reply_once(head + b'{"purged":true}\n')) as server:
        done = run("purge", f"http://{server.name}/s", "1", "2")
    assert done.stdout == "purged 2 IDs\n"
    assert server.connections == 2


def test_answer_in_chunks() -> None:
    def script(sock: socket.socket) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        while read_request(sock):
            sock.sendall(head + b'9\r\n{"purged"\r\n6\r\n:true}\r\n0\r\n\r\n')

    with Scripted(script) as server:
        done = run("purge", f"http://{server.name}/s", "1", "2")
    assert done.stdout == "purged 2 IDs\n"
    assert server.connections == 1


def test_unix_socket(tmp_path: Path) -> None:
    with StatusServer(unix=tmp_path / "a b%.sock") as server:
        url = server.url.replace("a b%", "a%20b%25")
        done = run("purge", url, "1", "2")
        assert (done.returncode, done.stdout) == (0, "purged 2 IDs\n")
        assert server.asked[0].headers["host"] == "localhost"
    done = run("purge", url, "1")
    assert done.returncode == 1
    assert done.stderr.startswith(f"sendfilectl: {url}: connection refused")
    done = run("purge", "http+unix://%2Fno%2Fsuch.sock/s", "1")
    assert "/s: no such file or directory" in done.stderr


def test_user_and_password(server: StatusServer) -> None:
    url = server.url.replace("//", "//me:s%40cret:@")
    assert run("purge", url, "1").returncode == 0
    said = server.asked[0].headers["authorization"]
    assert said == f"Basic {base64.b64encode(b'me:s@cret:').decode()}"
    server.reply = lambda asked: page(401, "Unauthorized")
    done = run("purge", url, "1", "--json")
    assert done.returncode == 1
    assert f"{server.url}: answers 401 Unauthorized" in done.stderr
    assert "cret" not in done.stderr + done.stdout
    for bad in (f"{url}?x", url.replace("http", "htp"), "http://me:s%40cret@:99999/"):
        code, _, text = invoke("purge", bad, "1")
        assert code == 2
        assert "cret" not in text


def test_tls(tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path)
    trusting = {**os.environ, "SSL_CERT_FILE": str(certificate)}
    with StatusServer(tls=context) as server:
        done = run("purge", server.url, "1", "2", env=trusting)
        assert (done.returncode, done.stdout) == (0, "purged 2 IDs\n")
        assert server.connections == 1
        done = run("purge", server.url, "1")
        assert done.returncode == 1
        assert f"{server.url}: self" in done.stderr
        assert "SSL_CERT_FILE" in done.stderr
        other = server.url.replace("localhost", "127.0.0.1")
        done = run("purge", other, "1", env=trusting)
        assert done.returncode == 1
        assert "certificate is not valid for '127.0.0.1'" in done.stderr
        assert len(server.asked) == 2


def test_tls_where_none_is_spoken(server: StatusServer) -> None:
    url = server.url.replace("http", "https")
    code, _, text = invoke("purge", url, "1")
    assert code == 1
    assert text == f"{url}: no TLS is spoken there: write http://"


# what goes wrong


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error(403, "read only"), ("403 (read only)", "'http_sendfile_status write;'")),
        (page(403, "Forbidden"), ("403 Forbidden", "'allow' and 'deny'")),
        (error(404, "not here"), ("404 (not here)", "no http_sendfile_status at")),
        (page(404, "Not Found"), ("404 Not Found", "write http://host[:port]/loc")),
        (page(405, "Not Allowed"), ("answers 405", "no http_sendfile_status at")),
        (page(401, "Unauthorized"), ("write http://user:password@host/location",)),
        (
            page(301, "Moved Permanently", Location=f"https://a{LOCATION}/cache/7"),
            ("301 Moved", f"write the URL that it leads to, https://a{LOCATION}"),
        ),
        (page(307, "Temporary Redirect"), ("leads to, another",)),
        (page(500, "Internal Server Error"), ("answers 500 Internal Server Error",)),
        (page(204, "No Content"), ("answers 204",)),
        (
            Reply(400, b"The plain HTTP request was sent to HTTPS port"),
            ("answers 400 Bad Request: write https://",),
        ),
        (page(400, "Bad Request"), ("answers 400 Bad Request",)),
        (error(503, "a\x1b[1m\u202eb"), ("503 (a\\x1b[1m\\u202eb)",)),
        *(
            (Reply(body=body), ("answers 200 OK: but not", "no http_sendfile_status?"))
            for body in (
                *(b"", b"ok", b"[]", b"{}", b'{"purged":"1"}', b'{"purged":-1}'),
                *(b'{"purged":false}', b'{"purged":"true"}', b'{"purged":null}'),
                *(b'{"purged":1.5}', b'{"purged":true', b"\xff\xfe", b"[" * 50_000),
                *(b'{"purged":true}' + b" " * 100_000, b"x" * 1_000_000),
            )
        ),
    ],
)
def test_other_answers(reply: Reply, words: tuple[str, ...]) -> None:
    with StatusServer(lambda asked: reply) as server:
        code, said, text = invoke("purge", server.url, "7", "8")
        assert (code, said) == (1, "")
        assert text.startswith(f"{server.url}: answers {reply.status}")
        for word in words:
            assert word in text
        # it would be the same with the next one
        assert len(server.asked) == 1
        if "/cache/7" not in reply.headers.get("Location", ""):
            code, _, again = invoke("purge", server.url, "--all")
            assert (code, again) == (1, text)


def test_answer_that_no_ids_of_this_kind_are_taken() -> None:
    """A key that only the server refuses fails alone, --all as a whole."""

    def reply(asked: Asked) -> Reply:
        if asked.target.endswith("/cache") or asked.key == b"2":
            return error(400, "no key")
        return Reply()

    with StatusServer(reply) as server:
        done = run("purge", server.url, "1", "2", "3")
        assert (done.returncode, done.stdout) == (1, "purged 2 IDs, 1 not\n")
        expected = f"sendfilectl: 2: {server.url}: answers 400 (no key)\n"
        assert done.stderr == expected
        done = run("purge", server.url, "--all")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"sendfilectl: {server.url}: answers 400 (no key)\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "what it answers is not HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "what it answers is not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "what it answers is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000, "what it answers is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000, "what it answers is not HTTP"),
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"purged":true}',
            "closed the connection",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "closed the connection",
        ),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_answer(answer: bytes, reason: str) -> None:
    with Scripted(reply_once(answer)) as server:
        url = f"http://{server.name}{LOCATION}"
        code, said, text = invoke("purge", url, "1")
    assert (code, said) == (1, "")
    assert text in (f"{url}: {reason}", f"{url}: connection reset by peer")


def test_server_that_is_down() -> None:
    url = f"http://127.0.0.1:{free_port()}{LOCATION}"
    for words in (["1"], ["--all"]):
        done = run("purge", url, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"sendfilectl: {url}: connection refused: "
            "write the host and port where nginx listens\n"
        )
    done = run("purge", url, "1", "--json")
    assert json.loads(done.stdout) == {
        "ok": False,
        "error": done.stderr.removeprefix("sendfilectl: ").rstrip("\n"),
        "keys": 0,
    }
    done = run("purge", "http://no-such-host.invalid/s", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("sendfilectl: http://no-such-host.invalid/s: ")
    assert "Traceback" not in done.stderr


def test_timeouts() -> None:
    with Scripted(Hang()) as server:
        url = f"http://{server.name}{LOCATION}"
        code, _, text = invoke("purge", url, "1", "--timeout", "0.2")
        assert (code, text) == (1, f"{url}: no answer within 0.2 s")
        tls = url.replace("http", "https")
        code, _, text = invoke("purge", tls, "1", "--connect-timeout", "0.2")
        assert (code, text) == (1, f"{tls}: no connection within 0.2 s")


EITHER = "write either IDs, or --url URL, or --all, or --from FILE"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], EITHER),
        (["1", "--all"], EITHER),
        (["1", "--from", "f"], EITHER),
        (["--all", "--from", "f"], EITHER),
        (["-", "--all"], EITHER),
        (["1", "--url", "http://a/b"], EITHER),
        (["-", "--url", "http://a/b"], EITHER),
        (["--url", "http://a/b", "--all"], EITHER),
        (["--url", "http://a/b", "--from", "f"], EITHER),
        (["--url", "-", "--from", "f"], EITHER),
        (["1", "--timeout", "0"], "--timeout"),
    ],
)
def test_usage_errors(words: list[str], hint: str) -> None:
    code, said, text = invoke("purge", "http://127.0.0.1:1/s", *words)
    assert (code, said) == (2, "")
    assert hint in text


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "is not a URL"),
        ("127.0.0.1:8080/s", "write http://host[:port]/location"),
        ("lmdb:/srv/ids", "is not a URL of nginx"),
        ("ftp://a/s", "is not a URL of nginx"),
        ("http:/a/s", "is not a URL of nginx"),
        ("http://", "bad host"),
        ("http:///s", "bad host"),
        ("http://:80/s", "bad host"),
        ("http://a b/s", "holds a space or a control byte"),
        ("http://a/\n", "holds a space or a control byte"),
        ("http://a/s?b=c", "has a '?'"),
        ("http://a/s#b", "has a '#'"),
        ("http://a:x/s", "bad port"),
        ("http://a:/s", "bad port"),
        ("http://a:0/s", "bad port"),
        ("http://a:65536/s", "bad port"),
        ("http://::1/s", "IPv6 as [::1]"),
        ("http://[::1/s", "IPv6 as [::1]"),
        ("http://[a]/s", "IPv6 as [::1]"),
        ("http://[::1]x/s", "IPv6 as [::1]"),
        ("http://" + "a" * 64 + "/s", "bad host"),
        ("http://a..b/s", "bad host"),
        ("http+unix://run/nginx.sock/s", "with %2F for each '/'"),
        ("http+unix:///run/nginx.sock", "with %2F for each '/'"),
        ("http+unix://%2F" + "a" * 107 + "/s", "at most 107 bytes"),
    ],
)
def test_bad_urls(url: str, hint: str) -> None:
    code, said, text = invoke("purge", url, "1")
    assert (code, said) == (2, "")
    assert hint in text


@pytest.mark.parametrize(
    ("url", "host", "port", "name", "path"),
    [
        ("http://a", "a", 80, "a", ""),
        ("http://a/", "a", 80, "a", ""),
        ("HTTPS://a_b.c/s/", "a_b.c", 443, "a_b.c", "/s"),
        ("http://a:8080/s", "a", 8080, "a:8080", "/s"),
        ("http://[::1]/s", "::1", 80, "[::1]", "/s"),
        ("http://[::1]:81/s/t", "::1", 81, "[::1]:81", "/s/t"),
        ("http://b\u00fccher.example:81/s", "b\u00fccher.example", 81, None, "/s"),
        ("http://a/%41/\u00e9", "a", 80, "a", "/%41/%C3%A9"),
        ("http+unix://%2Frun%2Fn.sock/s", "/run/n.sock", 0, "localhost", "/s"),
        ("http+unix://%2Frun%2Fn.sock", "/run/n.sock", 0, "localhost", ""),
    ],
)
def test_urls(url: str, host: str, port: int, name: str | None, path: str) -> None:
    found = parse_http_url(url)
    assert (found.host, found.port, found.path) == (host, port, path)
    assert found.name == (name or "xn--bcher-kva.example:81")
    assert found.authorization is None


def test_url_with_an_at_sign_in_the_path() -> None:
    found = parse_http_url("http://a/s@b")
    assert (found.host, found.path, found.authorization) == ("a", "/s@b", None)
    with pytest.raises(UsageError, match="bad host"):
        parse_http_url("http://a@/s")
