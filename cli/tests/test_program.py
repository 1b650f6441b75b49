"""The program as a whole: help, signals, terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from ctl_harness import (
    PROGRAM,
    TIMEOUT,
    Ctl,
    count,
    invoke,
    run,
    start,
    terminal,
    wait_until,
    write_lines,
)

import sendfilectl

EXAMPLES = {
    "purge": "http://127.0.0.1",
    "stats": "--watch",
    "explain": "http://www.example.com/file/7",
    "doctor": "",
    "warm": "urls.txt",
    "bench": "urls.txt",
}


def test_version_and_help() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (
        0,
        f"sendfilectl {sendfilectl.__version__}\n",
    )
    assert sendfilectl.__version__ == "0.1.0"
    code, said, _ = invoke("--help")
    assert code == 0
    for command in [
        "set",
        "get",
        "del",
        "import",
        "export",
        "scan",
        "publish",
        "verify",
        "purge",
        "stats",
        "explain",
        "doctor",
        "warm",
        "bench",
    ]:
        assert re.search(rf"\b{command}\b", said), command
        code, text, _ = invoke(command, "--help")
        assert code == 0
        example = EXAMPLES.get(command, "lmdb:/srv/ids")
        assert f"sendfilectl {command} {example}".rstrip() in text, text
        assert "--json" in text
    assert "--install-completion" in said


def test_completion_offers_the_commands() -> None:
    environment = {
        **os.environ,
        "_SENDFILECTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "sendfilectl exp",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv[0] = 'sendfilectl'\nimport sendfilectl.__main__ as m; m.main()"
    done = subprocess.run(
        [PROGRAM[0], "-c", code],
        capture_output=True,
        env=environment,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["export", "explain"]


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    for words in (
        ["nonsense"],
        ["get"],
        ["get", f"lmdb:{tmp_path}/ids"],
        ["get", str(tmp_path), "1"],
        ["get", "memcached://::1", "1"],
        ["set", f"lmdb:{tmp_path}/ids", "1", "a", "--no-such-option"],
        ["publish", f"lmdb:{tmp_path}/ids", "--keep", "-1"],
    ):
        code, said, error = invoke(*words)
        assert (code, said) == (2, ""), words
        assert error
    for arguments in (["get"], ["get", str(tmp_path), "1"]):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_sigint_during_a_large_import(ctl: Ctl, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", [f"{i},p/{i}" for i in range(600_000)])
    with start("import", ctl.url, str(file)) as process:
        wait_until(lambda: count(ctl.path) >= 20_000, "two batches")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    match = re.search(r"interrupted: (\d+) records stored, up to line (\d+)", said)
    assert match, said
    stored = int(match.group(1))
    assert int(match.group(2)) == stored
    assert 20_000 <= stored < 600_000
    assert "Traceback" not in said
    assert ctl.all() == {b"%d" % i: b"p/%d" % i for i in range(stored)}


def test_sigint_while_reading_a_pipe(ctl: Ctl) -> None:
    with ctl.start("import", "-", "--format", "csv", "--json") as process:
        assert process.stdin is not None
        process.stdin.write("bad\n" + "".join(f"{i},p\n" for i in range(25_000)))
        process.stdin.flush()
        wait_until(lambda: count(ctl.path) >= 20_000, "two batches")
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "interrupted: 20000 records stored, up to line 20001" in said
    result = json.loads(output)
    assert (result["ok"], result["stored"], result["last_line"]) == (
        False,
        20_000,
        20_001,
    )
    assert len(ctl.all()) == 20_000


def test_progress_bar_on_a_terminal_only(ctl: Ctl, tmp_path: Path) -> None:
    lines = [f"{i},p/{i}" for i in range(30_000)]
    lines[5] = "5,/absolute"
    file = write_lines(tmp_path / "f.csv", lines)
    code, said = terminal("import", ctl.url, str(file))
    assert code == 1
    assert "importing" in said
    assert "\x1b[" in said
    assert re.search(re.escape(f"{file}:6: the path is absolute"), said)
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")
    done = ctl("import", str(file))
    assert "importing" not in done.stderr


def test_failed_import_says_how_far_it_came(ctl: Ctl, tmp_path: Path) -> None:
    import resource

    lines = [f"{i},{'x' * 1000}" for i in range(40_000)]
    file = write_lines(tmp_path / "f.csv", lines)
    limit = 24 << 20
    done = ctl(
        *("import", str(file), "--json"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert "is the disk full?" in result["error"]
    assert result["ok"] is False
    assert result["stored"] >= 10_000
    assert (
        f"{result['stored']} records stored, up to line {result['stored']}"
        in done.stderr
    )
    assert count(ctl.path) == result["stored"]
    assert ctl("import", str(file)).returncode == 0
    assert count(ctl.path) == 40_000


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300", "0", "-1", ""])
@pytest.mark.parametrize(
    "words",
    [
        ["get", "memcached://127.0.0.1:1", "7", "--timeout"],
        ["get", "memcached://127.0.0.1:1", "7", "--connect-timeout"],
        ["purge", "http://127.0.0.1:1/s", "7", "--timeout"],
        ["purge", "http://127.0.0.1:1/s", "7", "--connect-timeout"],
        ["bench", "urls", "--rate", "1", "--duration", "1s", "--timeout"],
    ],
)
def test_numbers_that_are_no_time(words: list[str], number: str) -> None:
    code, said, text = invoke(*words, number)
    assert (code, said) == (2, "")
    assert words[-1] in text


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(ctl: Ctl, closed: str) -> None:
    """No file of the store becomes stdout, or stderr."""
    words = [*PROGRAM, "set", ctl.url, "1", "a"]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    good = ">&-" not in closed or closed.startswith("2")
    assert done.returncode == (0 if good else 1)
    assert done.stdout == ("stored 1 record\n" if good else "")
    if closed == ">&-":
        assert done.stderr == "sendfilectl: stdout is closed\n"
    if good:
        assert ctl.all() == {b"1": b"a"}


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_stdout_that_nobody_reads(ctl: Ctl, how: list[str]) -> None:
    """The exit code is 1, and there is no traceback."""
    ctl.do("set", "1", "a")
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*PROGRAM, "get", ctl.url, "1", *how],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_full_disk_as_stdout(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, "get", ctl.url, "1"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("sendfilectl: ")
    assert done.stderr.endswith("no space left on device\n")
