"""lib/ptrace.py: a worker is stopped at an instruction, goes on, or is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lib.elf import Elf
from lib.process import mappings
from lib.ptrace import ProcessEnded, Tracer
from lib.site import Site
from lib.wait import wait_until

HANDLER = "ngx_http_sendfile_handler"


def code_of(site: Site) -> Elf:
    """Return the file that holds the module's code."""
    return Elf(site.flavour.module or site.flavour.binary)


@pytest.fixture
def served(site: Site) -> Site:
    """One file, one worker."""
    site.add(7)
    site.start("http_sendfile on; %%DIRECT%%")
    return site


def test_static_functions_are_found(served: Site) -> None:
    """The symbols of the module have an address within what is mapped."""
    elf = code_of(served)
    [worker] = served.nginx.workers()
    address = elf.base(worker) + elf.function(HANDLER).address
    spans = [line.split()[0].split("-") for line in mappings(worker, elf.path)]
    assert any(int(a, 16) <= address < int(b, 16) for a, b in spans)
    with pytest.raises(LookupError, match="0 functions no_such_function"):
        elf.function("no_such_function")


def test_no_symbols(tmp_path: Path) -> None:
    """What is no ELF file is refused."""
    path = tmp_path / "x"
    path.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(ValueError, match="no 64-bit"):
        Elf(path)


def test_stops_at_a_function_and_goes_on(served: Site) -> None:
    """The request waits as long as the worker is stopped, and is answered then."""
    elf = code_of(served)
    [worker] = served.nginx.workers()
    function = elf.function(HANDLER)
    with served.nginx.connect() as client:
        with Tracer(worker) as tracer:
            client.send_request("GET", "/file/7")
            tracer.run_to_function(elf, HANDLER)
            start = elf.base(worker) + function.address
            assert tracer.counter == start
            tracer.step()
            assert start < tracer.counter < start + function.size
            client.socket.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
            client.socket.settimeout(10)
        served.assert_file(client.read_response(), 7)
    # the breakpoint is gone
    served.assert_file(served.nginx.get("/file/7"), 7)
    assert served.nginx.workers() == [worker]


def test_signals_arrive(served: Site) -> None:
    """A signal for a worker that is traced is not lost."""
    [worker] = served.nginx.workers()
    # what the worker's user is not permitted to
    served.nginx.allow_log(r"open\(\) .* failed \(13: ")
    with served.nginx.connect() as client:
        with Tracer(worker) as tracer:
            os.kill(worker, signal.SIGUSR1)
            client.send_request("GET", "/file/7")
            tracer.run_to_function(code_of(served), HANDLER)
        served.assert_file(client.read_response(), 7)
    served.nginx.wait_for_log(rf"{worker}#{worker}: reopening logs")


def test_process_that_ends(served: Site) -> None:
    """It is told how."""
    [worker] = served.nginx.workers()
    served.nginx.allow_log(rf"worker process {worker} exited on signal 9")
    elf = code_of(served)
    address = elf.base(worker) + elf.function(HANDLER).address
    with Tracer(worker) as tracer:
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(ProcessEnded, match=f"{worker}: -9"):
            tracer.run_to(address)


def test_function_that_is_not_called(served: Site) -> None:
    """A time limit, after which the worker goes on unharmed."""
    elf = code_of(served)
    [worker] = served.nginx.workers()
    with Tracer(worker) as tracer, pytest.raises(TimeoutError):
        tracer.run_to_function(elf, HANDLER, timeout=0.2)
    served.assert_file(served.nginx.get("/file/7"), 7)
    assert served.nginx.workers() == [worker]


def test_killed_within_a_function(served: Site) -> None:
    """The connection breaks, and the master starts another worker."""
    [worker] = served.nginx.workers()
    served.nginx.allow_log(rf"worker process {worker} exited on signal 9")
    with served.nginx.connect() as client, Tracer(worker) as tracer:
        client.send_request("GET", "/file/7")
        tracer.run_to_function(code_of(served), HANDLER)
        tracer.step(5)
        tracer.kill()
        assert client.at_end()
    wait_until(lambda: set(served.nginx.workers()) - {worker}, what="a new worker")
    served.assert_file(served.nginx.get("/file/7"), 7)
