"""CPU time of other processes."""

import subprocess
import sys

import pytest

from bench.cpu import ProcessGone, cpu_time, settled_cpu_time

_BURN = """
import sys, threading, time
def burn():
    end = time.thread_time() + 0.15
    while time.thread_time() < end: pass
    done.wait()
done = threading.Event()
threads = [threading.Thread(target=burn, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
sys.stdin.readline()
print(time.process_time_ns(), flush=True)
sys.stdin.readline()
"""


def test_cpu_time_counts_all_threads_of_exactly_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BURN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pids = frozenset({process.pid})
        while cpu_time(pids).run_ns < 300_000_000:
            assert process.poll() is None
        measured = settled_cpu_time(pids, timeout=60)
        process.stdin.write("\n")
        process.stdin.flush()
        own = int(process.stdout.readline())
        process.stdin.close()
    assert measured.run_ns == pytest.approx(own, abs=20_000_000)


def test_ended_process_is_an_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessGone, match=str(process.pid)):
        cpu_time([process.pid])
