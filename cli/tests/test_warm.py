"""warm: lists, logs, rates, and servers that fail."""

from __future__ import annotations

import json
import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
from ctl_harness import (
    TIMEOUT,
    as_other_user,
    invoke,
    run,
    start,
    terminal,
    write_lines,
)
from memcached_harness import Hang, Scripted
from ports import free_port
from status_harness import Asked, Reply, StatusServer, page

from sendfilectl.errors import Refused
from sendfilectl.warm import Address, address

PAGE = Reply(body=b"x" * 1000)


def log_line(request: str, status: int = 200) -> str:
    """A line as nginx's "combined" has it."""
    return (
        f'127.0.0.1 - me [23/Nov/2026:05:00:00 +0000] "{request}" {status} 5 '
        '"http://a/b" "Mozilla/5.0 (\\x22x\\x22)"'
    )


# lines


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"http://a", Address("http://a", "/")),
        (b"http://a:8080/b?c=d#e", Address("http://a:8080", "/b?c=d")),
        (b"HTTPS://a?b", Address("HTTPS://a", "/?b")),
        (b" /file/7 ", Address("http://base", "/file/7")),
        (b"/a%20b%2F?x=[1]", Address("http://base", "/a%20b%2F?x=[1]")),
        ("/写".encode(), Address("http://base", "/%E5%86%99")),
        (b"/\xff", Address("http://base", "/%FF")),
        (log_line("GET /file/7 HTTP/1.1").encode(), Address("http://base", "/file/7")),
        (log_line("HEAD /f HTTP/2.0", 304).encode(), Address("http://base", "/f")),
        (
            log_line("GET /\\xE5?a HTTP/1.1", 206).encode(),
            Address("http://base", "/%E5?a"),
        ),
        (log_line("GET http://b/c HTTP/1.1").encode(), Address("http://b", "/c")),
        (log_line("POST /file/7 HTTP/1.1").encode(), None),
        (log_line("GET /file/7 HTTP/1.1", 404).encode(), None),
        (log_line("\\x16\\x03\\x01", 400).encode(), None),
        (log_line("", 400).encode(), None),
        (log_line("GET / \\x22 HTTP/1.1", 200).encode(), None),
    ],
)
def test_lines(line: bytes, found: Address | None) -> None:
    assert address(line, "http://base") == found


@pytest.mark.parametrize(
    "line", [b"a", b"a/b", b"ftp://a/b", b"/a b", b"http://a/b\tc", b"\x00", b"/a\x01"]
)
def test_lines_that_are_no_url(line: bytes) -> None:
    with pytest.raises(Refused, match="write"):
        address(line, "http://base")


def test_path_without_a_base() -> None:
    with pytest.raises(Refused, match="with --base http://host"):
        address(b"/file/7", None)


# what is asked


def test_a_list(tmp_path: Path) -> None:
    with StatusServer(lambda asked: PAGE) as server:
        paths = [f"/file/{i}" for i in range(50)]
        lines = [*paths, "", *paths[:3]]
        file = write_lines(tmp_path / "urls", lines)
        done = run(
            *("warm", str(file), "--base", f"{server.origin}/", "--rate", "100000"),
            *("--host", "www.example.com", "--connections", "3"),
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(server.targets) == sorted(paths)
        assert {(one.method, one.headers["host"]) for one in server.asked} == {
            ("GET", "www.example.com")
        }
        assert server.connections <= 3
        first, status, over = done.stdout.splitlines()
        assert first.startswith("asked for 50 URLs in ")
        assert first.endswith(" s, 50000 bytes")
        assert status == "status    200: 50"
        assert over == "not asked 3 that came before"


def test_head_asks_for_no_body() -> None:
    with StatusServer(lambda asked: PAGE) as server:
        done = run(
            *("warm", "-", "--base", server.origin, "--head", "--json"),
            input="/1\n/2\n",
        )
        assert [one.method for one in server.asked] == ["HEAD", "HEAD"]
        found = json.loads(done.stdout)
        assert (found["bytes"], found["statuses"]) == (0, {"200": 2})


def test_an_access_log() -> None:
    lines = [
        log_line("GET /file/7 HTTP/1.1"),
        log_line("GET /file/7 HTTP/1.1", 304),
        log_line("GET /file/8 HTTP/1.1", 404),
        log_line("POST /file/9 HTTP/1.1"),
    ]
    with StatusServer(lambda asked: PAGE) as server:
        words = ("warm", "-", "--base", server.origin, "--json")
        done = run(*words, input="\n".join(lines))
        assert server.targets == ["/file/7"]
    found = json.loads(done.stdout)
    assert (found["ok"], found["passed_over"], found["duplicates"]) == (True, 2, 1)


def test_body_that_is_large_is_read_and_thrown_away() -> None:
    with StatusServer(lambda asked: Reply(body=b"x" * 5_000_000)) as server:
        done = run("warm", "-", "--base", server.origin, "--json", input="/1\n/2\n")
    assert json.loads(done.stdout)["bytes"] == 10_000_000
    assert server.connections <= 2


def test_rate_is_not_exceeded() -> None:
    with StatusServer(lambda asked: PAGE) as server:
        lines = "".join(f"/{i}\n" for i in range(11))
        done = run(
            *("warm", "-", "--base", server.origin, "--rate", "20", "--json"),
            input=lines,
        )
    assert json.loads(done.stdout)["seconds"] >= 0.5


# what fails


def test_answers_with_an_error() -> None:
    def reply(asked: Asked) -> Reply:
        return page(404, "Not Found") if asked.target == "/2" else PAGE

    with StatusServer(reply) as server:
        done = run("warm", "-", "--base", server.origin, input="/1\n/2\n/3\n")
    assert done.returncode == 1
    assert done.stderr == f"{server.origin}/2: answers 404\n"
    assert "status    200: 2, 404: 1" in done.stdout


def test_lines_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    with StatusServer(lambda asked: PAGE) as server:
        file = write_lines(tmp_path / "urls", ["/1", "what", b"/\xff", "/a b"])
        done = run("warm", str(file), "--base", server.origin, "--json")
        assert sorted(server.targets) == ["/%FF", "/1"]
    assert done.returncode == 1
    assert f"{file}:2: 'what' is no URL: write http://host/path" in done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["bad"], found["urls"]) == (False, 2, 2)
    assert [one["url"] for one in found["failures"]] == [f"{file}:2", f"{file}:4"]


def test_empty_list_is_a_failure() -> None:
    done = run("warm", "-", "--base", "http://127.0.0.1:1", input="")
    assert (done.returncode, "no answer" in done.stdout) == (1, True)


def test_server_that_is_down_is_given_up() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    lines = "".join(f"/{i}\n" for i in range(5000))
    done = run("warm", "-", "--base", url, "--rate", "100000", "--json", input=lines)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert "connection refused" in found["error"]
    assert "10 times in a row: given up" in found["error"]
    assert found["urls"] < 100


def test_server_that_hangs() -> None:
    with Scripted(Hang()) as server:
        words = ("warm", "-", "--base", f"http://{server.name}", "--timeout", "0.2")
        done = run(*words, "--json", input="/1\n")
    assert done.returncode == 1
    (reason,) = json.loads(done.stdout)["errors"]
    assert "no answer within 0.2 s" in reason


def test_connection_that_is_closed_now_and_then() -> None:
    def reply(asked: Asked) -> Reply:
        return Reply(headers={"Connection": "close"})

    with StatusServer(reply) as server:
        lines = "".join(f"/{i}\n" for i in range(20))
        done = run(
            *("warm", "-", "--base", server.origin, "--connections", "1", "--json"),
            input=lines,
        )
        assert server.connections == 20
    assert json.loads(done.stdout)["statuses"] == {"200": 20}


def test_sigint_ends_with_the_summary() -> None:
    waiting, end = threading.Event(), threading.Event()

    def reply(asked: Asked) -> Reply:
        if asked.target == "/5":
            waiting.set()
            end.wait(120)
        return PAGE

    with (
        StatusServer(reply) as server,
        start(
            *("warm", "-", "--base", server.origin, "--connections", "1", "--json")
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write("".join(f"/{i}\n" for i in range(20)))
        process.stdin.flush()
        assert waiting.wait(120)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=TIMEOUT)
        end.set()
    assert process.returncode == 130
    assert said == "sendfilectl: interrupted: asked for 5 URLs (200: 5)\n"
    found = json.loads(output)
    assert (found["error"], found["urls"]) == ("interrupted", 5)


def test_progress_bar_on_a_terminal(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "urls", [f"/{i}" for i in range(50)])
    with StatusServer(lambda asked: PAGE) as server:
        words = ("warm", str(file), "--base", server.origin, "--rate", "100000")
        code, said = terminal(*words)
        assert code == 0
        assert "warming" in said
        assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 1
        assert "warming" not in run(*words).stderr


def test_list_that_cannot_be_read(tmp_path: Path, public: Path) -> None:
    code, _, text = invoke("warm", f"{tmp_path}/none")
    assert (code, text) == (1, f"{tmp_path}/none: no such file or directory")
    secret = write_lines(public / "urls", ["/1"])
    secret.chmod(0o600 if os.geteuid() == 0 else 0)
    done = as_other_user(partial(run, "warm", str(secret)))
    assert done.returncode == 1
    assert done.stderr.startswith(f"sendfilectl: {secret}: permission denied\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--rate", "0"],
        ["--rate", "nan"],
        ["--connections", "0"],
        ["--connections", "257"],
        ["--timeout", "inf"],
        ["--base", "x"],
        ["--base", "http://a/b"],
        ["--base", "http://a?b"],
    ],
)
def test_usage_errors(words: list[str]) -> None:
    code, said, text = invoke("warm", "-", *words)
    assert (code, said) == (2, "")
    assert text


def test_base_by_a_unix_socket(tmp_path: Path) -> None:
    with StatusServer(lambda asked: PAGE, unix=tmp_path / "s") as server:
        done = run("warm", "-", "--base", server.origin, input="/1\n")
        assert (done.returncode, server.targets) == (0, ["/1"])


def test_name_that_leads_nowhere() -> None:
    done = run("warm", "-", input="http://no-such-host.invalid/1\n")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
