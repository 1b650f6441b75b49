"""stats: what of nginx's figures is shown, and what becomes of those that are none."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctl_harness import PROGRAM, invoke, run, start
from memcached_harness import Hang, Scripted
from ports import free_port
from rich.console import Console
from status_harness import LOCATION, Asked, Reply, StatusServer, error, page

from sendfilectl.stats import Change, View, lines, quantile, since

FAILURES = {"miss": 3, "error": 0, "timeout": 0, "invalid": 0, "missing_file": 0}


def document(times: int = 1, now: float = 100.0, start: float = 0.0) -> dict[str, Any]:
    """Figures as docs/status.md has them, each counter so many times."""
    return {
        "version": 1,
        "module": "0.1.0",
        "nginx": "1.22.1",
        "time": now,
        "start": start,
        "requests": {
            "total": 14 * times,
            "results": {"hit": 11 * times, "miss": 3 * times},
            "sources": {"store": 5 * times, "cache": 6 * times, "app": 3 * times},
            "failures": {kind: n * times for kind, n in FAILURES.items()},
            "app_avoided": 11 * times,
            "sent": {
                "direct": {"files": 11 * times, "bytes": 55_000 * times},
                "redirect": {"files": 0, "bytes": 0},
            },
        },
        "locations": [
            {
                "location": "/file/",
                "host": "example.com",
                "total": 14 * times,
                "requests": [
                    {"result": "hit", "source": "cache", "count": 6 * times},
                    {"result": "miss", "source": "app", "count": 3 * times},
                ],
            }
        ],
        "stores": [
            {
                "store": "memcached://127.0.0.1:11211",
                "server": "127.0.0.1:11211",
                "up": False,
                "lookups": {"hit": 5 * times, "miss": 3 * times, "error": 2 * times},
                "duration": {
                    "buckets": [
                        {"le": 0.0001, "count": 0},
                        {"le": 0.001, "count": 8 * times},
                        {"le": 1.0, "count": 8 * times},
                    ],
                    "count": 8 * times,
                    "sum": 0.002 * times,
                },
                "batch": {"buckets": [], "count": 4 * times, "sum": 10 * times},
            }
        ],
        "zones": [
            {
                "zone": "ids",
                "size": 67_108_864,
                "entries": {"positive": 5, "negative": 3},
                "bytes": 6_710_886,
                "hits": {"record": 6 * times, "negative": 0, "learned": 0, "body": 0},
                "misses": {"record": 2 * times, "learned": 0, "body": 0},
                "evictions": {"positive": 0, "negative": 0},
                "refusals": {"record": 0, "negative": 0, "learned": 0, "body": 0},
            }
        ],
        "learn": {"kept": 0, "refused": [{"reason": "no-store", "count": times}]},
        "purges": {"key": 7 * times, "url": 0, "all": 0},
        "ruby": {"runs": 0, "stopped": 0},
    }


def answer(found: object) -> Reply:
    """A document as it is sent."""
    return Reply(body=json.dumps(found).encode())


@pytest.fixture
def server() -> Iterator[StatusServer]:
    """A server with these figures."""
    with StatusServer(lambda asked: answer(document())) as server:
        yield server


def test_sums(server: StatusServer) -> None:
    done = run("stats", "--status", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(one.method, one.target) for one in server.asked] == [
        ("GET", f"{LOCATION}/json")
    ]
    for pattern in (
        "^ngx_sendfile 0.1.0, nginx 1.22.1, counting for 00:01:40$",
        r"^requests +14$",
        r"^without the application +11$",
        r"^ +78.6 %$",
        r"^files sent, direct +11$",
        r"^ +53.7 KiB$",
        r"^/file/ +example.com +hit +cache +6$",
        r"^miss +3$",
        r"^DOWN  memcached://127.0.0.1:11211$",
        r"^ +5 +3 +2 +0 +0 +0.55 ms +0.99 ms +2.5$",
        r"^ids +64.0 MiB +10.0 % +5 +3 +75.0 % +0 +0$",
        r"^not learned: no-store +1$",
        r"^purges, key +7$",
    ):
        assert re.search(pattern, done.stdout, re.MULTILINE), (pattern, done.stdout)
    assert "\x1b" not in done.stdout


def test_json_is_the_document(server: StatusServer) -> None:
    done = run("stats", "--status", server.url, "--json")
    assert json.loads(done.stdout) == {"ok": True, **document()}


def test_where_the_status_is(server: StatusServer) -> None:
    """The option, else the environment, else the default."""
    found = {**os.environ, "SENDFILECTL_STATUS": server.url}
    assert run("stats", env=found).returncode == 0
    assert run("stats", "--status", "http://127.0.0.1:1/s", env=found).returncode == 1
    done = run("stats", env={**os.environ, "SENDFILECTL_STATUS": "what"})
    assert done.returncode == 2
    assert "'what' is not a URL of nginx" in done.stderr


def test_figures_fit_into_a_small_terminal() -> None:
    one = document(1000, 102.0)
    one["stores"][0]["store"] = "memcached://cache1.example.internal:11211"
    one["stores"][0]["server"] = "cache1.example.internal:11211"
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(View(since(one, document(1, 100.0)), rates=True))
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert "DOWN  memcached://cache1.example.internal:11211\n" in text
    assert "\u2026" not in text


def test_large_numbers_and_none() -> None:
    large = "\n".join(lines(document(10**11)))
    assert "1 400 000 000 000" in large
    nothing = "\n".join(lines({"version": 1, "time": 1, "start": 1}))
    assert re.search("^requests +0$", nothing, re.MULTILINE)


def test_what_is_not_as_documented_does_not_matter() -> None:
    """A newer module may have more, and a broken one anything."""
    whole = document()
    for name in [*whole]:
        for value in (None, 1, "x", [], {}, [1], {"a": [1]}, True, -1, float("nan")):
            assert lines({**whole, name: value})
    assert lines({**whole, "new": {"a": 1}})


def test_nothing_of_it_controls_the_terminal() -> None:
    whole = document()
    whole["locations"][0]["location"] = "/\x1b[2J\u202e\udcff"
    text = "\n".join(lines(whole))
    assert "\x1b" not in text
    assert "\\x1b[2J\\u202e" in text


def test_what_a_reload_has_removed_is_not_shown() -> None:
    whole = document()
    whole["stores"][0]["configured"] = False
    whole["locations"][0]["configured"] = False
    text = "\n".join(lines(whole))
    assert "memcached:" not in text
    assert "example.com" not in text


def test_change_of_counters() -> None:
    one, two = document(1, 100.0), document(3, 102.0)
    change = since(two, one)
    assert change.seconds == 2
    assert change.more("requests", "total") == 28
    (store,) = change.sub("stores", "store", "server")
    assert store.more("lookups", "hit") == 10
    # nginx was restarted: what it has counted since is all there is
    again = since(document(1, 103.0, start=102.5), two)
    assert again.seconds == 0.5
    assert again.more("requests", "total") == 14


def test_quantiles() -> None:
    buckets = [{"le": 0.1, "count": 10}, {"le": 0.2, "count": 20}]
    found = Change({"buckets": buckets, "count": 20})
    assert quantile(found, 0.5) == pytest.approx(0.1)
    assert quantile(found, 0.75) == pytest.approx(0.15)
    # beyond the last bucket, and nothing at all
    assert quantile(Change({"buckets": buckets, "count": 2000}), 0.99) == 0.2
    assert quantile(Change({"buckets": buckets, "count": 0}), 0.5) is None


# what goes wrong


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (page(404, "Not Found"), ("answers 404", "SENDFILECTL_STATUS")),
        (error(404, "not here"), ("404 (not here)", "--status")),
        (page(403, "Forbidden"), ("answers 403", "'allow' and 'deny'")),
        (page(401, "Unauthorized"), ("write http://user:password@host",)),
        (page(301, "Moved", Location=f"https://a{LOCATION}/json"), ("https://a",)),
        (Reply(body=b"<html>"), ("not with JSON",)),
        (Reply(body=b"[1]"), ("not with JSON",)),
        (Reply(body=b""), ("not with JSON",)),
        (Reply(body=b'{"version":2}'), ("figures of version 2", "knows 1")),
        (Reply(body=b'{"a":1}'), ("figures of version ?",)),
        (Reply(body=b'{"version":1,"a":"' + b"x" * (9 << 20)), ("not with JSON",)),
    ],
)
def test_other_answers(reply: Reply, words: tuple[str, ...]) -> None:
    with StatusServer(lambda asked: reply) as server:
        code, said, text = invoke("stats", "--status", server.url)
    assert (code, said) == (1, "")
    for word in words:
        assert word in text
    assert text.startswith(server.url)


def test_server_that_is_down_or_hangs() -> None:
    url = f"http://127.0.0.1:{free_port()}{LOCATION}"
    done = run("stats", "--status", url, "--json")
    assert done.returncode == 1
    assert "connection refused" in json.loads(done.stdout)["error"]
    with Scripted(Hang()) as server:
        words = ("stats", "--status", f"http://{server.name}/s", "--timeout", "0.2")
        code, _, text = invoke(*words)
    assert (code, text.endswith("no answer within 0.2 s")) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ["--status", "127.0.0.1"],
        ["--status", "http://a/b?c"],
        ["--interval", "nan"],
        ["--interval", "0"],
        ["--interval", "inf"],
        ["--watch"],
    ],
)
def test_usage_errors(words: list[str]) -> None:
    code, said, text = invoke("stats", *words)
    assert (code, said) == (2, "")
    assert text


def test_stdout_that_nobody_reads(server: StatusServer) -> None:
    for words in ([], ["--json"], ["--watch", "--json", "--interval", "0.1"]):
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run(
            [*PROGRAM, "stats", "--status", server.url, *words],
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(theirs)
        assert (done.returncode, done.stderr) == (1, "")


# live


def growing() -> StatusServer:
    """A server whose counters grow by 14 requests a second."""
    asked: list[int] = []

    def reply(one: Asked) -> Reply:
        asked.append(1)
        return answer(document(len(asked), 100.0 + len(asked)))

    return StatusServer(reply)


def test_watch_as_json() -> None:
    with (
        growing() as server,
        start(
            *("stats", "--status", server.url, "--watch", "--interval", "0.1"), "--json"
        ) as process,
    ):
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert [one["requests"]["total"] for one in found] == [14, 28, 42]


class Screen:
    """A terminal with stats --watch in it."""

    def __init__(self, url: str) -> None:
        self.ours, theirs = pty.openpty()
        self.said = b""
        self.process = subprocess.Popen(
            [*PROGRAM, "stats", "--watch", "--interval", "0.1", "--status", url],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "50"},
        )
        os.close(theirs)

    def wait_for(self, *words: str) -> None:
        """Reads until each of some words was shown."""
        while not all(word.encode() in self.said for word in words):
            assert select.select([self.ours], [], [], 60)[0], self.said
            self.said += os.read(self.ours, 65536)

    def end(self) -> int:
        """Reads to the end and returns the exit code."""
        while True:
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                break
            self.said += chunk
            if not chunk:
                break
        return self.process.wait(120)


def test_watch_on_a_terminal() -> None:
    """Rates of the last interval; Ctrl-C ends it and leaves the terminal well."""
    with growing() as server:
        screen = Screen(server.url)
        screen.wait_for("counting for", "14.0/s", "DOWN")
        screen.process.send_signal(signal.SIGINT)
        assert screen.end() == 0
        os.close(screen.ours)
    text = screen.said.decode()
    assert text.rindex("\x1b[?1049l") > text.rindex("\x1b[?1049h")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "Traceback" not in text


def test_watch_goes_on_while_nginx_is_away() -> None:
    gone = False

    def reply(asked: Asked) -> Reply:
        return page(502, "Bad Gateway") if gone else answer(document())

    with StatusServer(reply) as server:
        screen = Screen(server.url)
        screen.wait_for("counting for")
        gone = True
        screen.wait_for("answers 502 Bad Gateway")
        gone = False
        screen.said = b""
        screen.wait_for("0.0/s")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 128 + signal.SIGTERM
        os.close(screen.ours)


def test_watch_ends_when_the_terminal_is_closed() -> None:
    with growing() as server:
        screen = Screen(server.url)
        screen.wait_for("counting for")
        os.close(screen.ours)
        assert screen.process.wait(120) in (1, 128 + signal.SIGHUP)


def test_watch_of_a_server_that_is_not_there(tmp_path: Path) -> None:
    screen = Screen(f"http+unix://{str(tmp_path).replace('/', '%2F')}%2Fnone/s")
    assert screen.end() == 1
    os.close(screen.ours)
    assert b"no such file or directory" in screen.said
