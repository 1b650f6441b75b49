"""Samples are counted for what the process did."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import perf
from bench.cpu import cpu_time
from bench.perf import OTHER_KERNEL, OTHER_USER, Sample, leaves, parse, shares
from bench.process import wait_for
from bench.tests.fakes import CORES

_TEXT = """
\tffffffff82203249 _raw_spin_unlock_irqrestore ([kernel.kallsyms])
\tffffffff81e2eed9 sock_write_iter ([kernel.kallsyms])
\tffffffff816ba3ec do_writev ([kernel.kallsyms])
\tffffffff821ef691 do_syscall_64 ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t           fde60 __GI___writev (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    55fa62781040 [unknown] ([unknown])

\t           14fb8 nsf_shard_get (/r/build/ngx_http_sendfile_module.so)

\t           14fb8 nsf_shard_get (/r/build/ngx_http_sendfile_module.so)
\t            1000 ngx_http_core_run_phases (/usr/sbin/nginx)

\t            1000 [unknown] (/usr/sbin/nginx)
"""


def test_blocks_are_samples_with_the_innermost_function_first() -> None:
    samples = list(parse(_TEXT))
    assert [sample.leaf for sample in samples] == [
        "_raw_spin_unlock_irqrestore",
        "nsf_shard_get",
        "nsf_shard_get",
        "[unknown]",
    ]
    assert shares(samples) == {
        "kernel: send (writev, send)": 0.25,
        "our module: the search in the cache": 0.5,
        "nginx: the rest, static functions": 0.25,
    }
    (found, count), *_ = leaves(samples).most_common(1)
    assert found == ("nsf_shard_get", "/r/build/ngx_http_sendfile_module.so")
    assert count == 2


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("__x64_sys_writev", "kernel: send (writev, send)"),
        ("__x64_sys_sendto", "kernel: send (writev, send)"),
        ("__x64_sys_sendfile64", "kernel: send (sendfile)"),
        ("__x64_sys_setsockopt", "kernel: setsockopt (cork)"),
        ("__x64_sys_recvfrom", "kernel: recv"),
        ("__x64_sys_epoll_wait", "kernel: epoll_wait"),
        ("__x64_sys_openat2", "kernel: files (open, stat, read, close)"),
        ("__do_sys_newfstatat", "kernel: files (open, stat, read, close)"),
        ("__x64_sys_close", "kernel: files (open, stat, read, close)"),
        ("__x64_sys_pread64", "kernel: files (open, stat, read, close)"),
        ("__x64_sys_futex", OTHER_KERNEL),
    ],
)
def test_kernel_time_counts_for_the_system_call(call: str, part: str) -> None:
    kernel = "[kernel.kallsyms]"
    sample = Sample((("memcpy", kernel), (call, kernel), ("do_syscall_64", kernel)))
    assert sample.part == part


@pytest.mark.parametrize(
    ("name", "source", "part"),
    [
        ("nsf_siphash", "/b/ngx_http_sendfile_module.so", "search"),
        ("ngx_http_sendfile_zone_get", "/b/ngx_http_sendfile_module.so", "search"),
        ("ngx_http_sendfile_body_get", "/b/ngx_http_sendfile_module.so", "delivery"),
        ("ngx_http_sendfile_handler", "/b/ngx_http_sendfile_module.so", "the rest"),
        ("__memmove_avx512_unaligned_erms", "/lib/libc.so.6", "copying"),
        ("_int_free", "/lib/libc.so.6", "libc: the rest"),
        ("ngx_http_parse_request_line", "/usr/sbin/nginx", "reading the request"),
        ("ngx_http_core_run_phases", "/usr/sbin/nginx", "phases"),
        ("ngx_open_cached_file", "/usr/sbin/nginx", "open_file_cache"),
        ("ngx_linux_sendfile_chain", "/usr/sbin/nginx", "answering"),
        ("ngx_http_write_filter", "/usr/sbin/nginx", "answering"),
        ("ngx_rbtree_insert", "/usr/sbin/nginx", "events"),
        ("ngx_palloc", "/usr/sbin/nginx", "pools"),
        ("ngx_http_log_handler", "/usr/sbin/nginx", "access log"),
        ("mdb_get", "/lib/liblmdb.so.0.0.0", "LMDB"),
        ("main", "/tmp/epoll_loop", OTHER_USER),
    ],
)
def test_user_time_counts_for_what_the_function_is_of(
    name: str, source: str, part: str
) -> None:
    assert part in Sample(((name, source),)).part
    assert Sample(((name, source),)).part in perf.parts()


def test_interrupt_outside_a_system_call_is_the_rest_of_the_kernel() -> None:
    kernel = "[kernel.kallsyms]"
    frames = (("asm_sysvec_apic_timer_interrupt", kernel), ("main", "/bin/x"))
    assert Sample(frames).part == OTHER_KERNEL


@pytest.fixture
def burning() -> Iterator[int]:
    """A process that computes; its ID."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.send_signal(signal.SIGKILL)


def test_real_process_is_sampled(burning: int, tmp_path: Path) -> None:
    """Where perf may not be used the reason is said, and nothing is sampled."""
    reason = perf.missing()
    if reason is not None:
        assert re.match(r"perf (is not installed|may not be used here)", reason)
        return
    with perf.recording({burning}, CORES[-1], tmp_path) as samples:
        begun = cpu_time({burning}).run_ns
        assert wait_for(lambda: cpu_time({burning}).run_ns > begun + 2 * 10**8, 20)
    assert len(samples) > 100
    assert sum(shares(samples).values()) == pytest.approx(1)
