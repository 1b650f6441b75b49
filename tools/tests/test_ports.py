"""The ports that tests and the benchmark take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import ports


def test_port_is_below_those_of_the_kernel() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert all(10_000 <= ports.free_port() < int(limits[0]) for _ in range(300))


def test_port_is_not_given_out_twice_in_a_row() -> None:
    assert len({ports.free_port() for _ in range(90)}) == 90


def test_port_on_which_somebody_listens_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", ports.free_port())) as server:
        taken = server.getsockname()[1]
        assert taken not in {ports.free_port() for _ in range(250)}
    assert taken in {ports.free_port() for _ in range(250)}


def test_processes_have_no_port_in_common() -> None:
    """One that runs beside us, and a child that a test has forked."""
    text = "import ports; print(*(ports.free_port() for _ in range(250)), flush=True)"
    command = [sys.executable, "-c", f"{text}; input()"]
    ours = {ports.free_port() for _ in range(250)}
    with subprocess.Popen(
        command,
        cwd=Path(ports.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        theirs = set(map(int, process.stdout.readline().split()))
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.write(write, str(ports.free_port()).encode())
            os._exit(0)
        forked = int(os.read(read, 100))
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
        process.communicate("\n")
    assert len(ours) == len(theirs) == 100
    assert not ours & theirs
    assert forked not in ours | theirs
