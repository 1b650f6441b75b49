"""bench: what oha is asked to do, and what its report means.

A stand-in for oha writes what a test wants; oha itself, with -m oha,
measures a real server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ctl_harness import TIMEOUT, run, start, terminal, wait_until

from sendfilectl.errors import CtlError, UsageError
from sendfilectl.oha import find, milliseconds, parse, urls

LATENCIES = {
    "p10": 0.001,
    "p25": 0.001,
    "p50": 0.002,
    "p75": 0.003,
    "p90": 0.004,
    "p95": 0.005,
    "p99": 0.01,
    "p99.9": 0.02,
    "p99.99": 0.03,
}


def report(
    statuses: dict[str, int], errors: dict[str, int] | None = None
) -> dict[str, Any]:
    """What oha 1.12 writes, of two seconds."""
    some = bool(statuses)
    return {
        "summary": {
            "successRate": 1.0,
            "total": 2.0,
            "slowest": 0.05 if some else None,
            "fastest": 0.0001 if some else None,
            "average": 0.0025 if some else None,
            "requestsPerSec": 100.0,
            "totalData": 5000 * sum(statuses.values()),
            "sizePerRequest": 5000 if some else None,
            "sizePerSec": 1.0,
        },
        "latencyPercentiles": LATENCIES if some else dict.fromkeys(LATENCIES),
        "statusCodeDistribution": statuses,
        "errorDistribution": errors or {},
    }


class Oha:
    """A stand-in for oha.

    Args:
        folder: for the program and what it was called with.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "oha"
        self.report = folder / "report"
        self.called = folder / "called"
        self.listed = folder / "listed"
        self.write("")
        self.answers(report({"200": 200}))

    def write(self, more: str) -> None:
        """Makes the program; ``more`` is Python that runs first."""
        self.path.write_text(
            f"#!{sys.executable}\n"
            "import json, shutil, sys\n"
            f"json.dump(sys.argv[1:], open({str(self.called)!r}, 'w'))\n"
            f"shutil.copy(sys.argv[-1], {str(self.listed)!r})\n"
            f"{more}\n"
            f"shutil.copy({str(self.report)!r}, sys.argv[sys.argv.index('--output')+1])"
            "\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answers(self, document: object) -> None:
        """Sets what it reports."""
        self.report.write_text(json.dumps(document))


@pytest.fixture
def oha(tmp_path: Path) -> Oha:
    """A stand-in whose server answers 200 requests with 200."""
    folder = tmp_path / "oha"
    folder.mkdir()
    return Oha(folder)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A list of two URLs."""
    path = tmp_path / "urls.txt"
    path.write_text("http://127.0.0.1:1/file/1\n\n  https://[::1]:2/a%20b?c=d \n")
    return path


def bench(oha: Oha, listed: Path, *more: str) -> Any:
    """Runs the command at 100 requests a second for two seconds."""
    words = ("--rate", "100", "--duration", "2s", "--oha", str(oha.path), *more)
    return run("bench", str(listed), *words)


def test_oha_is_asked_for_what_the_user_says(oha: Oha, listed: Path) -> None:
    done = bench(oha, listed, "--connections", "7", "--timeout", "0.5")
    assert (done.returncode, done.stderr) == (0, "")
    called = json.loads(oha.called.read_text())
    pairs = dict(zip(called, called[1:]))
    assert pairs["-z"] == "2000ms"
    assert pairs["-q"] == "100"
    assert pairs["-c"] == "7"
    assert pairs["-t"] == "500ms"
    assert pairs["--redirect"] == "0"
    assert pairs["--output-format"] == "json"
    assert {"--latency-correction", "--urls-from-file", "--no-tui", "-w"} <= {*called}
    assert oha.listed.read_text().split() == [
        "http://127.0.0.1:1/file/1",
        "https://[::1]:2/a%20b?c=d",
    ]


def test_result_in_words(oha: Oha, listed: Path) -> None:
    done = bench(oha, listed)
    assert done.stdout == (
        "requests  200, 100.0 answers a second, 1000000 bytes\n"
        "latency   mean 2.50, p50 2.00, p90 4.00, p95 5.00, p99 10.00,"
        " p99.9 20.00, max 50.00 ms\n"
        "status    200: 200\n"
    )


def test_result_as_json(oha: Oha, listed: Path) -> None:
    oha.answers(report({"404": 1, "200": 199}, {"timeout": 3}))
    done = bench(oha, listed, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "ok": False,
        "asked_rate": 100,
        "unsent": 0,
        "requests": 203,
        "answers": 200,
        "seconds": 2.0,
        "rate": 100.0,
        "bytes": 1_000_000,
        "statuses": {"200": 199, "404": 1},
        "errors": {"timeout": 3},
        "latency_ms": {
            "mean": 2.5,
            "p50": 2.0,
            "p90": 4.0,
            "p95": 5.0,
            "p99": 10.0,
            "p99.9": 20.0,
            "max": 50.0,
        },
    }


@pytest.mark.parametrize(
    ("statuses", "errors", "code"),
    [
        ({"200": 150, "304": 50}, {}, 0),
        ({"200": 199, "400": 1}, {}, 1),
        ({"503": 200}, {}, 1),
        ({"200": 199}, {"timeout": 1}, 1),
        ({}, {"Connection refused (os error 111)": 200}, 1),
        ({}, {}, 1),
    ],
)
def test_exit_code_tells_whether_all_was_well(
    statuses: dict[str, int], errors: dict[str, int], code: int, oha: Oha, listed: Path
) -> None:
    oha.answers(report(statuses, errors))
    done = bench(oha, listed)
    assert done.returncode == code
    for reason, count in errors.items():
        assert f"error     {count}: {reason}\n" in done.stdout
    if not statuses:
        assert "status    no answer\n" in done.stdout
        assert "latency" not in done.stdout


def test_rate_that_was_not_reached_is_said(oha: Oha, listed: Path) -> None:
    oha.answers(report({"200": 120}))
    done = bench(oha, listed)
    assert done.returncode == 0
    assert done.stderr == (
        "sendfilectl: 60 answers a second, 100 were asked for; 80 of the requests"
        " were never sent\n"
    )
    oha.answers(report({"200": 120}, {"timeout": 80}))
    done = bench(oha, listed, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["unsent"] == 0
    assert done.stderr == "sendfilectl: 60 answers a second, 100 were asked for\n"


def test_list_from_stdin(oha: Oha) -> None:
    done = run(
        *("bench", "-", "--rate", "1", "--duration", "1", "--oha", str(oha.path)),
        input="http://127.0.0.1/1\nhttp://127.0.0.1/2\n",
    )
    assert done.returncode == 0, done.stderr
    assert len(oha.listed.read_text().split()) == 2


def test_without_oha_it_says_how_to_get_it(listed: Path) -> None:
    done = run(
        *("bench", str(listed), "--rate", "1", "--duration", "1s", "--json"),
        env={**os.environ, "PATH": "/nonexistent"},
    )
    assert done.returncode == 1
    assert "oha is not installed: get it with 'cargo install" in done.stderr
    assert "--oha" in json.loads(done.stdout)["error"]


def test_named_oha_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CtlError, match="there is no such program"):
        find(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ftp://host/a", "is no URL"),
        ("/file/1", "is no URL"),
        ("http://", "is no URL"),
        ("http://host:port/", "is no URL"),
        ("http://host/a b", "percent-encode"),
        ("http://host/ä", "percent-encode"),
    ],
)
def test_line_that_is_no_url_is_refused(
    line: str, reason: str, oha: Oha, listed: Path
) -> None:
    listed.write_text(f"http://host/good\n{line}\n")
    done = bench(oha, listed)
    assert done.returncode == 1
    assert done.stderr.startswith(f"sendfilectl: {listed}:2: ")
    assert reason in done.stderr
    assert not oha.called.exists()


def test_empty_and_absent_list(oha: Oha, listed: Path, tmp_path: Path) -> None:
    listed.write_text("\n\n")
    assert "there is no URL in it" in bench(oha, listed).stderr
    assert "no such file" in bench(oha, tmp_path / "absent").stderr
    with pytest.raises(CtlError, match="list:1: "):
        urls([b"\xff\n"], "list")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10", 10_000), ("10s", 10_000), ("250ms", 250), ("2m", 120_000), ("1h", 3.6e6)],
)
def test_durations(text: str, expected: float) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0s", "s", "-1", "1.5s", "1 s", "1d"])
def test_no_durations(text: str, oha: Oha, listed: Path) -> None:
    with pytest.raises(UsageError, match="write 30s, 5m or 1h"):
        milliseconds(text)


@pytest.mark.parametrize(
    "more",
    [
        ("--rate", "0", "--duration", "1s"),
        ("--rate", "1.5", "--duration", "1s"),
        ("--rate", "1"),
        ("--duration", "1s"),
        ("--rate", "1", "--duration", "soon"),
        ("--rate", "1", "--duration", "1s", "--connections", "0"),
        ("--rate", "1", "--duration", "1s", "--timeout", "inf"),
        ("--rate", "1", "--duration", "1s", "--timeout", "nan"),
    ],
)
def test_usage(more: tuple[str, ...], listed: Path) -> None:
    assert run("bench", str(listed), *more).returncode == 2


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("error: unexpected argument '--output-format' found", "oha is too old"),
        ("Error: cannot do that", "Error: cannot do that"),
        ("", "exit code 2"),
    ],
)
def test_oha_that_fails(said: str, reason: str, oha: Oha, listed: Path) -> None:
    oha.write(f"sys.stderr.write({said!r}); sys.exit(2)")
    done = bench(oha, listed)
    assert done.returncode == 1
    assert done.stderr.startswith("sendfilectl: oha failed: ")
    assert reason in done.stderr


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"summary": {"total": null}}'])
def test_report_that_is_none(text: str) -> None:
    with pytest.raises(CtlError, match="report cannot be read"):
        parse(text)


def test_interrupt_ends_oha(oha: Oha, listed: Path) -> None:
    pid = oha.path.with_name("pid")
    oha.write(
        "import os, signal\n"
        f"open({str(pid)!r}, 'w').write(f'{{os.getpid()}} ')\n"
        "signal.pause()"
    )
    with start(
        *("bench", str(listed), "--rate", "1", "--duration", "60s"),
        *("--oha", str(oha.path)),
    ) as process:
        wait_until(lambda: pid.exists() and pid.read_text().endswith(" "), "oha runs")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130
    assert "interrupted: nothing is known" in said
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_bar_on_a_terminal(oha: Oha, listed: Path) -> None:
    code, said = terminal(
        *("bench", str(listed), "--rate", "1", "--duration", "3s"),
        *("--oha", str(oha.path)),
    )
    assert code == 0
    assert "asking, seconds" in said


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer 404 to /absent, else five bytes."""
        self.send_response(404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of a real server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()


def _real() -> str | None:
    built = Path(__file__).resolve().parents[2] / "build" / "oha" / "bin" / "oha"
    return str(built) if built.exists() else shutil.which("oha")


@pytest.mark.oha
def test_real_oha_measures_a_real_server(server: str, listed: Path) -> None:
    program = _real()
    assert program is not None, "run tools/oha.sh"
    listed.write_text(f"{server}/a\n{server}/b\n")
    words = ("--rate", "50", "--duration", "1s", "--oha", program, "--json")
    done = run("bench", str(listed), *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["statuses"] == {"200": found["requests"]}
    assert 30 <= found["requests"] <= 60
    assert found["bytes"] == 5 * found["requests"]
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["max"]
    listed.write_text(f"{server}/absent\n")
    done = run("bench", str(listed), *words)
    assert done.returncode == 1
    assert set(json.loads(done.stdout)["statuses"]) == {"404"}
