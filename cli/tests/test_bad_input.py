"""Every command against what operators meet: nothing there, no permission, a server
that is dead or hangs, Ctrl-C, a stdout that nobody reads. The exit code is as
documented, JSON comes all the same, and there is never a traceback.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from ctl_harness import (
    PROGRAM,
    TIMEOUT,
    Ctl,
    as_other_user,
    invoke,
    run,
    start,
    write_lines,
)
from memcached_harness import Hang, Scripted
from ports import free_port
from status_harness import StatusServer

# of commands that ask a memcached
MEMCACHED = {
    "set": ["set", "STORE", "1", "a"],
    "get": ["get", "STORE", "1"],
    "del": ["del", "STORE", "1"],
    "import": ["import", "STORE", "FILE"],
    "export": ["export", "STORE"],
    "scan": ["scan", "STORE", "DIR"],
    "verify": ["verify", "STORE", "DIR"],
}
# and of those that ask nginx
NGINX = {
    "purge": ["purge", "URL/s", "7"],
    "purge all": ["purge", "URL/s", "--all"],
    "stats": ["stats", "--status", "URL/s"],
    "explain": ["explain", "/a", "--status", "URL/s"],
    "warm": ["warm", "LIST", "--base", "URL"],
}


def words(command: list[str], tmp_path: Path, server: str = "") -> list[str]:
    """A command line with files and a server, host:port, in it."""
    folder = tmp_path / "files"
    folder.mkdir(exist_ok=True)
    write_lines(folder / "7.jpg", ["x"])
    values = {
        "STORE": f"memcached://{server}",
        "FILE": str(write_lines(tmp_path / "f.csv", ["1,a"])),
        "LIST": str(write_lines(tmp_path / "urls", ["/1", "/2"])),
        "DIR": str(folder),
    }
    return [
        values.get(word, word.replace("URL", f"http://{server}")) for word in command
    ]


def assert_said(done: subprocess.CompletedProcess[str], code: int) -> None:
    """A sentence on stderr, and the exit code."""
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


@pytest.mark.parametrize("name", [*MEMCACHED, *NGINX])
def test_server_that_is_dead(tmp_path: Path, name: str) -> None:
    command = {**MEMCACHED, **NGINX}[name]
    line = words(command, tmp_path, f"127.0.0.1:{free_port()}")
    done = run(*line, "--json")
    assert_said(done, 1)
    assert "connection refused" in (done.stderr + done.stdout).lower()
    assert json.loads(done.stdout)["ok"] is False


@pytest.mark.parametrize("name", [*MEMCACHED, *NGINX])
def test_server_that_hangs(tmp_path: Path, name: str) -> None:
    """The time limit ends it."""
    with Scripted(Hang()) as server:
        line = words({**MEMCACHED, **NGINX}[name], tmp_path, server.name)
        done = run(*line, "--timeout", "0.2", "--json")
    assert_said(done, 1)
    assert json.loads(done.stdout)["ok"] is False


@pytest.mark.parametrize("name", [*MEMCACHED, *NGINX])
def test_ctrl_c_while_a_server_hangs(tmp_path: Path, name: str) -> None:
    hang = Hang()
    with Scripted(hang) as server:
        line = words({**MEMCACHED, **NGINX}[name], tmp_path, server.name)
        with start(*line, "--timeout", "600", "--json") as process:
            assert hang.asked.wait(120)
            process.send_signal(signal.SIGINT)
            output, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, said
    assert "interrupted: " in said
    assert "Traceback" not in said
    found = json.loads(output)
    assert (found["ok"], found["error"]) == (False, "interrupted")


NO_FILE = {
    "get": (["get", "lmdb:NONE", "1"], 1),
    "del": (["del", "lmdb:NONE", "1"], 1),
    "set": (["set", "lmdb:NONE/ids", "1", "a"], 1),
    "import": (["import", "lmdb:STORE", "NONE"], 1),
    "export": (["export", "lmdb:NONE"], 1),
    "export to": (["export", "lmdb:STORE", "-o", "NONE/x"], 1),
    "scan": (["scan", "lmdb:STORE", "NONE"], 1),
    "publish": (["publish", "lmdb:STORE", "--from", "NONE"], 1),
    "publish copy": (["publish", "lmdb:NONE"], 1),
    "verify": (["verify", "lmdb:STORE", "NONE"], 1),
    "purge": (["purge", "http://127.0.0.1:1/s", "--from", "NONE"], 1),
    "warm": (["warm", "NONE"], 1),
    "bench": (["bench", "NONE", *("--rate", "1", "--duration", "1s")], 1),
    "doctor": (["doctor", "NONE"], 2),
    "doctor's nginx": (["doctor", "--nginx", "NONE"], 2),
}


@pytest.mark.parametrize("name", NO_FILE)
def test_file_that_is_not_there(ctl: Ctl, tmp_path: Path, name: str) -> None:
    ctl.do("set", "1", "a")
    command, code = NO_FILE[name]
    line = [
        word.replace("NONE", f"{tmp_path}/none").replace("STORE", str(ctl.path))
        for word in command
    ]
    done = run(*line, "--json")
    assert_said(done, code)
    assert json.loads(done.stdout)["ok"] is False
    assert not (tmp_path / "none").exists()
    assert ctl.all() == {b"1": b"a"}


NO_PERMISSION = {
    "get": ["get", "lmdb:STORE", "1"],
    "del": ["del", "lmdb:STORE", "1"],
    "set": ["set", "lmdb:STORE", "1", "a"],
    "set new": ["set", "lmdb:SECRET/ids", "1", "a"],
    "import": ["import", "lmdb:PUBLIC/new", "SECRET/f.csv"],
    "export": ["export", "lmdb:STORE"],
    "scan": ["scan", "lmdb:PUBLIC/new", "SECRET"],
    "publish": ["publish", "lmdb:PUBLIC/new", "--from", "SECRET/f.csv"],
    "verify": ["verify", "lmdb:STORE", "SECRET"],
    "purge": ["purge", "http://127.0.0.1:1/s", "--from", "SECRET/f.csv"],
    "warm": ["warm", "SECRET/f.csv"],
}


@pytest.mark.parametrize("name", NO_PERMISSION)
def test_file_without_permission(public: Path, name: str) -> None:
    """As a user who may read neither the store nor the files."""
    store = Ctl(public / "ids")
    store.do("set", "1", "a")
    (store.path / "data.mdb").chmod(0)
    secret = public / "secret"
    secret.mkdir()
    write_lines(secret / "f.csv", ["1,a"])
    secret.chmod(0)
    values = {"STORE": store.path, "SECRET": secret, "PUBLIC": public}
    line = NO_PERMISSION[name]
    for word, value in values.items():
        line = [one.replace(word, str(value)) for one in line]
    # scan and verify only pass over what they may not read
    done = as_other_user(partial(run, *line, "--json"))
    assert_said(done, 1)
    assert "permission" in done.stderr or "no file that can be stored" in done.stderr
    assert json.loads(done.stdout)["ok"] is False
    secret.chmod(0o700)


BAD_URL = {
    **{name: line for name, line in MEMCACHED.items() if name != "export"},
    "export": ["export", "STORE"],
    "publish": ["publish", "STORE", "--from", "FILE"],
    "purge": ["purge", "STORE", "7"],
    "stats": ["stats", "--status", "STORE"],
    "explain": ["explain", "/a", "--status", "STORE"],
    "explain url": ["explain", "STORE"],
    "warm": ["warm", "LIST", "--base", "STORE"],
}


@pytest.mark.parametrize("url", ["", "what", "redis:/x", "http:/a", "lmdb:x", "\x01"])
@pytest.mark.parametrize("name", BAD_URL)
def test_url_that_is_none(tmp_path: Path, name: str, url: str) -> None:
    line = [url if w == "STORE" else w for w in BAD_URL[name]]
    code, said, error = invoke(*words(line, tmp_path), "--json")
    assert (code, said) == (2, "")
    assert "write " in error or "control byte" in error


def test_import_that_is_half_broken(ctl: Ctl, tmp_path: Path) -> None:
    """The good half is stored; the other has its line numbers, in text and JSON."""
    lines: list[str | bytes] = [f"{i},p/{i}" for i in range(100)]
    lines[50:] = ["x y,z", "7", "", ",", b"\xff\x00,a", "1,../a", '"', "9,a,b,c,d,e,f"]
    file = write_lines(tmp_path / "f.csv", lines)
    done = ctl("import", str(file), "--format", "csv", "--json")
    assert_said(done, 1)
    found = json.loads(done.stdout)
    assert (found["ok"], found["stored"]) == (False, 50)
    assert found["bad"] == len(found["errors"]) >= 6
    assert {one["line"] for one in found["errors"]} <= set(range(51, 60))
    assert len(ctl.all()) == 50


READ_BY_NOBODY = {
    "get": ["get", "lmdb:STORE", "1"],
    "set": ["set", "lmdb:STORE", "2", "b"],
    "del": ["del", "lmdb:STORE", "1"],
    "import": ["import", "lmdb:STORE", "FILE"],
    "export": ["export", "lmdb:STORE"],
    "scan": ["scan", "lmdb:STORE", "DIR"],
    "verify": ["verify", "lmdb:STORE", "DIR"],
    "publish": ["publish", "lmdb:STORE", "--convert"],
    "purge": ["purge", "URL/s", "7"],
    "warm": ["warm", "LIST", "--base", "URL"],
    "doctor": ["doctor"],
    "help": ["--help"],
    "version": ["--version"],
}


@pytest.mark.parametrize("name", READ_BY_NOBODY)
def test_stdout_that_nobody_reads(ctl: Ctl, tmp_path: Path, name: str) -> None:
    """As behind "| head", when that has ended."""
    ctl.do("set", "1", "a")
    with StatusServer() as server:
        line = words(READ_BY_NOBODY[name], tmp_path, f"127.0.0.1:{server.port}")
        line = [word.replace("STORE", str(ctl.path)) for word in line]
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run(
            [*PROGRAM, *line],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(theirs)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
