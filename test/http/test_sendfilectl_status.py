"""sendfilectl stats, explain and warm against nginx."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from lib.nginx import Nginx
from lib.site import Site

TIMEOUT = 300.0
ZONE = "http_sendfile_cache_zone main:1m;"
SERVER = (
    "location /file/ { http_sendfile on; http_sendfile_cache main; %%DIRECT%% }"
    " location ^~ /status { http_sendfile_status write; }"
)


def ctl(
    *words: str, code: int = 0, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run sendfilectl.

    Args:
        words: its command line.
        code: the exit code that is expected.
        stdin: what it reads.
    """
    done = subprocess.run(
        [sys.executable, "-m", "sendfilectl", *words],
        input=stdin,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done


def status(nginx: Nginx) -> tuple[str, str]:
    """Return the option that names the status location."""
    return "--status", f"http://127.0.0.1:{nginx.port}/status"


def figures(nginx: Nginx) -> dict[str, Any]:
    """Return what ``sendfilectl stats --json`` says."""
    found: dict[str, Any] = json.loads(ctl("stats", *status(nginx), "--json").stdout)
    return found


# stats


def test_stats_counts_what_was_asked(site: Site) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    for path in ("/file/7", "/file/7", "/file/8"):
        nginx.get(path)
        nginx.logged(path)
    found = figures(nginx)
    assert found["ok"] is True
    assert found["requests"]["results"] == {"hit": 2, "miss": 1}
    text = ctl("stats", *status(nginx)).stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["requests", "3"] in lines
    assert ["without", "the", "application", "2"] in lines
    assert ["/file/", "localhost", "hit", "store", "1"] in lines
    assert ["/file/", "localhost", "hit", "cache", "1"] in lines
    at = lines.index(["up", f"lmdb:{site.store.path}"])
    assert lines[at + 2][:2] == ["1", "1"]
    (zone,) = (line for line in lines if line[:1] == ["main"])
    assert zone[1:3] == ["1.0", "MiB"]


def test_stats_as_they_go(site: Site) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "sendfilectl", "stats", *status(nginx)),
            *("--watch", "--interval", "0.1", "--json"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["requests"]["total"] == 0
        nginx.get("/file/7")
        while not json.loads(process.stdout.readline())["requests"]["total"]:
            continue
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0


def test_location_that_is_none(site: Site) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    for command in (["stats"], ["explain", "/file/7"]):
        url = f"http://127.0.0.1:{nginx.port}/file"
        done = ctl(*command, "--status", url, code=1)
        assert f"{url}: answers 404 Not Found: there is no " in done.stderr
        url = f"http://127.0.0.1:{free_port()}/status"
        done = ctl(*command, "--status", url, code=1)
        assert f"{url}: connection refused: " in done.stderr


# explain


def test_explain_a_file_that_is_sent(site: Site) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    done = ctl("explain", "/file/7", *status(nginx))
    assert done.stdout.startswith("200: ")
    assert "What to do" not in done.stdout
    assert f" {site.files.root / 'aa' / '7.dat'}\n" in done.stdout
    found = json.loads(ctl("explain", "/file/7", *status(nginx), "--json").stdout)
    assert (found["ok"], found["outcome"], found["status"]) == (True, "sent", 200)


@pytest.mark.parametrize(
    ("break_it", "verdict", "word"),
    [
        (lambda path: path.unlink(), "404: ", "no such file or directory"),
        (lambda path: path.parent.chmod(0o700), "403: ", "<- the worker may not"),
    ],
)
def test_explain_a_file_that_is_not_sent(
    site: Site, break_it: Any, verdict: str, word: str
) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    path = site.files.root / "aa" / "7.dat"
    break_it(path)
    done = ctl("explain", "/file/7", *status(nginx), code=1)
    assert done.stdout.startswith(verdict)
    assert word in done.stdout
    assert "\nWhat to do: " in done.stdout
    path.parent.chmod(0o755)


def test_explain_what_is_not_in_the_store(site: Site) -> None:
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    done = ctl(
        "explain", f"http://localhost:{nginx.port}/file/8", *status(nginx), code=1
    )
    assert done.stdout.startswith("404: ")


@pytest.mark.parametrize(
    "url", ["/file/%zz", "http://a:1/file/7", "/\xff", "/" + "a" * 3000, "http://["]
)
def test_explain_strange_urls(site: Site, url: str) -> None:
    """An answer or a refusal, and always a sentence."""
    site.add(7)
    nginx = site.start(SERVER, ZONE)
    done = subprocess.run(
        [sys.executable, "-m", "sendfilectl", "explain", url, *status(nginx)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode in (0, 1)
    assert done.stdout or done.stderr.startswith("sendfilectl: http://127.0.0.1:")
    assert "Traceback" not in done.stderr


# warm


def test_warm_fills_the_cache(site: Site, tmp_path: Path) -> None:
    for file_id in range(20):
        site.add(file_id)
    nginx = site.start(SERVER, ZONE)
    base = f"http://127.0.0.1:{nginx.port}"
    urls = tmp_path / "urls"
    urls.write_text("".join(f"/file/{file_id}\n" for file_id in range(20)))
    done = ctl("warm", str(urls), "--base", base, "--rate", "10000", "--json")
    found = json.loads(done.stdout)
    assert (found["urls"], found["statuses"]) == (20, {"200": 20})
    for file_id in range(20):
        assert nginx.logged(f"/file/{file_id}").source == "lmdb"
    # the same once more: all of it is there
    nginx.access_log.write_bytes(b"")
    ctl("warm", str(urls), "--base", base, "--rate", "10000", "--head")
    for file_id in range(20):
        assert nginx.logged(f"/file/{file_id}").source == "cache"


def test_warm_by_the_access_log_of_nginx(site: Site) -> None:
    site.add(7)
    log = site.directory / "logs" / "combined.log"
    nginx = site.start(f"access_log {log} combined; {SERVER}", ZONE)
    asked = ("/file/7", "/file/7?a=b%20c", "/file/8", "/file/%E5%86%99")
    for path in asked:
        nginx.get(path)
    nginx.stop()
    nginx = site.start(f"{SERVER} location / {{ }}", ZONE)
    base = f"http://127.0.0.1:{nginx.port}"
    done = ctl("warm", str(log), "--base", base, "--json")
    found = json.loads(done.stdout)
    assert (found["urls"], found["passed_over"]) == (2, 2)
    assert {nginx.logged(path).code for path in asked[:2]} == {200}
