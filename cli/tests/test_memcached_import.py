"""import into memcached: fast, exact about failures, no good line lost."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ctl_harness import TIMEOUT, run, start, wait_until, write_lines
from memcached_harness import Memcached, Scripted, accept_sets
from ports import free_port


def lines(count: int) -> list[str]:
    """Lines of CSV; the ID is the number of the line."""
    return [f"{i},{i % 256:02x}/{i}/photo-{i}.jpg" for i in range(1, count + 1)]


def test_records_of_all_formats(memcached: Memcached, tmp_path: Path) -> None:
    text = '1,a/b.jpg\n2,c.pdf,,"日本, x.pdf"\n1,last\n'
    file = tmp_path / "f.csv"
    file.write_text(text)
    done = run("import", memcached.url, str(file), "--ttl", "1000")
    assert (done.returncode, done.stdout) == (0, "3 records stored\n"), done.stderr
    assert memcached.get(b"1") == (b"last", 0)
    record = '{"path":"c.pdf","name":"日本, x.pdf"}'.encode()
    assert memcached.get(b"2") == (record, 0)
    assert 900 < memcached.ttl(b"2") <= 1002
    line = '{"id":3,"value_b64":"BAhJIgZhBjoGRVQ=","flags":1}\n'
    assert run("import", memcached.url, "-", input=line).returncode == 0
    assert memcached.get(b"3") == (b'\x04\x08I"\x06a\x06:\x06ET', 1)


def test_bad_lines_lose_no_good_ones(memcached: Memcached, tmp_path: Path) -> None:
    text = ["1,a", "2,../a", "x y,a", "x" * 251 + ",a", "5,e", "6,/f", "7,g"]
    file = write_lines(tmp_path / "f.csv", text)
    done = run("import", memcached.url, str(file))
    assert done.returncode == 1
    assert done.stdout == "3 records stored, 4 bad lines passed over\n"
    assert memcached.count() == 3
    for number in (2, 3, 4, 6):
        assert f"{file}:{number}: " in done.stderr


def test_a_hundred_thousand_lines(three: list[Memcached], tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", lines(100_000))
    url = "memcached://" + ",".join(server.name for server in three)
    done = run("import", url, str(file), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print(f"100,000 lines in {result['seconds']} s")
    assert (result["stored"], result["last_line"]) == (100_000, 100_000)
    assert (result["bad"], result["failed"], result["errors"]) == (0, 0, [])
    assert sum(server.count() for server in three) == 100_000
    done = run("get", url, "1", "50000", "100000")
    assert done.stdout.splitlines() == [
        "01/1/photo-1.jpg",
        "50/50000/photo-50000.jpg",
        "a0/100000/photo-100000.jpg",
    ]


def test_long_values(memcached: Memcached, tmp_path: Path) -> None:
    records = [
        json.dumps({"id": i, "path": f"p/{i}", "headers": {"Link": "x" * 60_000}})
        for i in range(100)
    ]
    file = write_lines(tmp_path / "f.ndjson", records)
    assert run("import", memcached.url, str(file)).stdout == "100 records stored\n"
    found = memcached.get(b"99")
    assert found is not None
    assert len(found[0]) > 60_000


def test_one_of_three_servers_is_down(three: list[Memcached], tmp_path: Path) -> None:
    """Its keys are an error each; none goes to another server."""
    file = write_lines(tmp_path / "f.csv", ["bad", *lines(300)])
    url = "memcached://" + ",".join(server.name for server in three)
    assert run("import", url, str(file)).returncode == 1
    shares = [server.count() for server in three]
    for server in three:
        server.ask(b"flush_all")
    three[1].stop()
    done = run("import", url, str(file), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["stored"] == shares[0] + shares[2]
    assert (result["failed"], result["bad"]) == (shares[1], 1)
    said = [s for s in done.stderr.splitlines() if "not stored" in s]
    assert len(said) == shares[1]
    pattern = rf"{file}:(\d+): (\d+): not stored: {three[1].name}: connection refused"
    numbers = []
    for line in said:
        match = re.fullmatch(pattern, line)
        assert match, line
        assert int(match[1]) == int(match[2]) + 1
        numbers.append(int(match[1]))
    assert result["last_line"] == numbers[0] - 1
    done = run("import", url, str(file))
    assert f"not; all up to line {numbers[0] - 1} are stored" in done.stdout


def test_no_server_is_up(memcached: Memcached, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", lines(5))
    memcached.stop()
    done = run("import", memcached.url, str(file), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["error"] == f"{memcached.name}: connection refused"
    assert (result["stored"], result["last_line"]) == (0, 0)
    assert len(done.stderr.splitlines()) == 2
    assert "0 records stored, up to line 0" in done.stderr


@pytest.mark.parametrize("total", [0, 1, 499, 500, 501, 12_345])
def test_connection_lost_on_the_way(total: int, tmp_path: Path) -> None:
    """It says exactly what was acknowledged, and does not connect again."""
    file = write_lines(tmp_path / "f.csv", lines(30_000))
    with Scripted(accept_sets(total)) as server:
        done = run("import", server.url, str(file), "--json")
        assert server.connections == 1
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert (result["stored"], result["last_line"]) == (total, total)
    assert result["error"].startswith(f"{server.name}: ")
    assert f"{total} record" in done.stderr
    assert f"stored, up to line {total}" in done.stderr
    assert "Traceback" not in done.stderr


def test_killed_on_the_way(memcached: Memcached) -> None:
    with start("import", memcached.url, "-", "--format", "csv", "--json") as process:
        assert process.stdin is not None
        process.stdin.write("\n".join(lines(20_500)) + "\n")
        process.stdin.flush()
        wait_until(lambda: memcached.count() == 20_000, "two batches")
        memcached.stop()
        said, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    result = json.loads(said)
    assert (result["stored"], result["last_line"]) == (20_000, 20_000)
    assert "20000 records stored, up to line 20000" in errors


def test_restarted_on_the_way_is_no_success(
    memcached: Memcached, start_memcached: Callable[..., Memcached]
) -> None:
    """What was stored before is gone, so it must not end well."""
    with start("import", memcached.url, "-", "--format", "csv") as process:
        assert process.stdin is not None
        process.stdin.write("\n".join(lines(10_500)) + "\n")
        process.stdin.flush()
        wait_until(lambda: memcached.count() == 10_000, "a batch")
        memcached.stop()
        start_memcached(port=memcached.port)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert "10000 records stored, up to line 10000" in errors


def test_sigint_while_reading_a_pipe(memcached: Memcached) -> None:
    with start("import", memcached.url, "-", "--format", "csv", "--json") as process:
        assert process.stdin is not None
        process.stdin.write("bad\n" + "\n".join(lines(20_500)) + "\n")
        process.stdin.flush()
        wait_until(lambda: memcached.count() == 20_000, "two batches")
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    result = json.loads(said)
    assert (result["stored"], result["last_line"]) == (20_000, 20_001)
    assert "interrupted: 20000 records stored, up to line 20001" in errors


def test_sigint_while_a_server_hangs(tmp_path: Path) -> None:
    """It does not wait for the server, and counts what was acknowledged."""
    file = write_lines(tmp_path / "f.csv", lines(30_000))
    hung = threading.Event()

    def hang(sock: socket.socket) -> None:
        hung.set()
        sock.recv(1)

    with Scripted(accept_sets(10_200, hang)) as server:
        words = ["import", server.url, str(file), "--timeout", "1000"]
        with start(*words) as process:
            assert hung.wait(120)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    match = re.search(r"interrupted: (\d+) records stored, up to line (\d+)", errors)
    assert match, errors
    assert match[1] == match[2]
    assert 10_000 <= int(match[1]) <= 10_200
    assert "Traceback" not in errors


@pytest.mark.parametrize("least", [1_000, 30_000])
def test_sigint_during_a_large_import(
    memcached: Memcached, tmp_path: Path, least: int
) -> None:
    file = write_lines(tmp_path / "f.csv", lines(400_000))
    with start("import", memcached.url, str(file)) as process:
        wait_until(lambda: memcached.count() >= least, "some records")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    match = re.search(r"interrupted: (\d+) records stored, up to line (\d+)", errors)
    assert match, errors
    stored = int(match[1])
    assert int(match[2]) == stored
    # at most one round trip was not heard of any more
    assert stored <= memcached.count() <= stored + 500
    assert least <= memcached.count() < 400_000


def test_hung_server(memcached: Memcached, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", lines(5))
    memcached.pause()
    started = time.monotonic()
    done = run("import", memcached.url, str(file), "--timeout", "0.3")
    assert done.returncode == 1
    assert f"{memcached.name}: no answer within 0.3 s" in done.stderr
    assert time.monotonic() - started < 60


def test_values_too_large_for_the_server(
    start_memcached: Callable[..., Memcached], tmp_path: Path
) -> None:
    server = start_memcached("-I", "64k", "-o", "slab_chunk_max=64")
    large = json.dumps({"id": 2, "path": "a", "headers": {"Link": "x" * 65_470}})
    rest = [
        f'{{"id":{i},"path":"{path}"}}' for i, path in ((3, "c"), (4, "/"), (5, "e"))
    ]
    file = write_lines(tmp_path / "f.ndjson", ['{"id":1,"path":"a"}', large, *rest])
    done = run("import", server.url, str(file))
    assert done.returncode == 1
    assert done.stdout == (
        "3 records stored, 1 bad line passed over, 1 not; all up to line 1 are stored\n"
    )
    assert f"{file}:2: 2: not stored: {server.name} says SERVER_ERROR" in done.stderr
    assert server.count() == 3


def test_memory_that_is_full(
    start_memcached: Callable[..., Memcached], tmp_path: Path
) -> None:
    """With -M memcached refuses instead of forgetting; each is counted."""
    server = start_memcached("-M", "-m", "2", "-I", "1m")
    file = write_lines(
        tmp_path / "f.csv", [f"{i},{'x' * 200}/{i}" for i in range(60_000)]
    )
    done = run("import", server.url, str(file), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["stored"] == server.count()
    assert result["stored"] + result["failed"] == 60_000
    assert result["failed"] > 1000
    assert len(result["errors"]) == 1000
    assert "SERVER_ERROR out of memory" in result["errors"][0]["error"]


def test_dry_run_asks_no_server(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", lines(5))
    url = f"memcached://127.0.0.1:{free_port()}"
    done = run("import", url, str(file), "--dry-run")
    assert (done.returncode, done.stdout) == (0, "5 records would be stored\n")
