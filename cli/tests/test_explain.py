"""explain: what is asked, and how the answer is told."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ctl_harness import PROGRAM, invoke, run
from ports import free_port
from status_harness import LOCATION, Reply, StatusServer, error, page

from sendfilectl.explain import told


def explanation(**other: Any) -> dict[str, Any]:
    """One as docs/explain.md has it: the file is not there."""
    return {
        "url": "/file/7",
        "verdict": "404: missing file",
        "outcome": "failed",
        "status": 404,
        "step": "file",
        "advice": ["put the file there"],
        "steps": [
            {"step": "key", "state": "ok", "text": 'the key is "7"'},
            {"step": "cache", "state": "note", "text": "nothing is cached"},
            {
                "step": "file",
                "state": "failed",
                "text": "there is no /srv/7",
                "folders": [
                    _folder("/", "directory", "0755", True),
                    _folder("/srv", "directory", "0700", False),
                    {"path": "/srv/7", "errno": 2, "allowed": False},
                ],
            },
        ],
        "headers": [],
        **other,
    }


def _folder(path: str, kind: str, mode: str, allowed: bool) -> dict[str, Any]:
    return {
        "path": path,
        "type": kind,
        "mode": mode,
        "allowed": allowed,
        "uid": 0,
        "gid": 4_000_000_000,
    }


def answer(found: object) -> Reply:
    """A document as it is sent."""
    return Reply(body=json.dumps(found).encode())


def test_failure_is_told() -> None:
    with StatusServer(lambda asked: answer(explanation())) as server:
        done = run("explain", "/file/7", "--status", server.url)
        assert server.targets == [f"{LOCATION}/explain?url=%2Ffile%2F7"]
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "404: missing file\n"
        "\n"
        '  ok      key    the key is "7"\n'
        "  note    cache  nothing is cached\n"
        "  FAILED  file   there is no /srv/7\n"
        "                 0755 root:4000000000      /\n"
        "                 0700 root:4000000000      /srv  <- the worker may not\n"
        "                 ?    ?:?                  /srv/7  <- no such file or "
        "directory\n"
        "\n"
        "What to do: put the file there\n"
    )


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_stdout_that_nobody_reads(words: list[str]) -> None:
    found = explanation(outcome="sent", status=200)
    with StatusServer(lambda asked: answer(found)) as server:
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run(
            [*PROGRAM, "explain", "/file/7", "--status", server.url, *words],
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(theirs)
        assert server.asked
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("outcome", ["sent", "application", "not_ours", "unknown"])
def test_what_is_no_failure(outcome: str) -> None:
    found = explanation(
        outcome=outcome, advice=[], headers=[["Content-Type", "image/png"]]
    )
    with StatusServer(lambda asked: answer(found)) as server:
        done = run("explain", "/file/7", "--status", server.url, "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"ok": True, **found})
        text = run("explain", "/file/7", "--status", server.url).stdout
    assert text.endswith("\n\n  Content-Type: image/png\n")
    assert "What to do" not in text


@pytest.mark.parametrize(
    "url",
    [
        "http://www.example.com/file/7?a=b&c=%20#d",
        "https://a/&host=evil",
        "/写/é",
        "/" + "x" * 2000,
        "http://[::1]:8080/",
        "HTTP://A",
    ],
)
def test_each_byte_of_a_url_arrives(url: str) -> None:
    with StatusServer(lambda asked: answer(explanation())) as server:
        run("explain", url, "--status", server.url, "--host", "a&url=b")
        (target,) = server.targets
    found = parse_qs(urlsplit(target).query, strict_parsing=True)
    assert found == {"url": [url], "host": ["a&url=b"]}


@pytest.mark.parametrize(
    "url", ["", "file/7", "www.example.com/7", "ftp://a/b", "/a b"]
)
def test_what_is_no_url(url: str) -> None:
    code, said, text = invoke("explain", url)
    assert (code, said) == (2, "")
    assert "write " in text


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error(404, "not here"), ("404 (not here)", "an older module", "--status")),
        (error(400, "no such port"), ("answers 400 (no such port)",)),
        (page(403, "Forbidden"), ("'allow' and 'deny'",)),
        (answer({"a": 1}), ("no explanation", "older")),
        (answer({"verdict": 1}), ("no explanation",)),
        (answer([1]), ("not with JSON",)),
        (Reply(body=b"\xff"), ("not with JSON",)),
    ],
)
def test_other_answers(reply: Reply, words: tuple[str, ...]) -> None:
    with StatusServer(lambda asked: reply) as server:
        code, said, text = invoke("explain", "/a", "--status", server.url)
        assert (code, said) == (1, "")
        for word in words:
            assert word in text
        done = run("explain", "/a", "--status", server.url, "--json")
    assert json.loads(done.stdout) == {"ok": False, "error": text}


def test_server_that_is_down() -> None:
    url = f"http://127.0.0.1:{free_port()}/s"
    code, _, text = invoke("explain", "/a", "--status", url)
    assert code == 1
    assert text.startswith(f"{url}: connection refused")


def test_what_is_not_as_documented_does_not_matter() -> None:
    whole = explanation()
    for name in ("steps", "headers", "advice", "outcome"):
        values: list[Any] = [None, 1, "x", [], {}, [1], [[1]], [{"a": 1}], [[1, 2]]]
        for value in values:
            assert list(told({**whole, name: value}))
    step = {"step": 1, "state": None, "folders": [{}, 1, {"uid": "x", "gid": -1}]}
    assert list(told({**whole, "steps": [step, {}, {"folders": 1}]}))
    step = {"folders": [{"uid": 10**30, "gid": 1.5, "mode": [], "errno": 10**30}]}
    assert list(told({**whole, "steps": [step]}))


def test_nothing_of_it_controls_the_terminal() -> None:
    evil = "\x1b[2J\u202e\n"
    found = explanation(verdict=evil, advice=[evil], headers=[[evil, evil]])
    found["steps"].append({"step": evil, "state": evil, "text": evil})
    assert not [line for line in told(found) if not line.isprintable()]
