"""Samples of a process's processor time by ``perf``, sorted by what it did."""

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.model import ContestantError
from bench.process import Child, wait_for

FREQUENCY = 5_000
_START_TIMEOUT = 60.0
_KERNEL = "[kernel.kallsyms]"
_ENTRY = "do_syscall_64"
_MODULE = "ngx_http_sendfile_module"

OTHER_KERNEL = "kernel: entry, interrupts, the rest"
OTHER_USER = "everything else"

# The function that a system call ends up in, as the kernel names it.
_CALLS = (
    ("kernel: send (writev, send)", r"writev|sendto|sendmsg|sys_write$"),
    ("kernel: send (sendfile)", r"sendfile"),
    ("kernel: setsockopt (cork)", r"setsockopt"),
    ("kernel: recv", r"recvfrom|recvmsg"),
    ("kernel: epoll_wait", r"epoll"),
    (
        "kernel: files (open, stat, read, close)",
        r"open|stat|sys_close|pread|sys_read$|fcntl|fadvise",
    ),
)

_PARTS = (
    (
        "our module: the search in the cache",
        _MODULE,
        r"nsf_(shard|siphash|unpack|pack|arena)|_sendfile_(zone|record)_",
    ),
    (
        "our module: delivery",
        _MODULE,
        r"_sendfile_(body|direct|deliver|root|file|descriptor|ident)",
    ),
    ("our module: the rest", _MODULE, r""),
    ("LMDB", "liblmdb", r""),
    ("OpenSSL", "libssl|libcrypto", r""),
    ("libc: copying memory", r"libc[.-]", r"mem(move|cpy|pcpy|set)"),
    ("libc: the rest", r"libc[.-]|\[vdso\]|libc\.so", r""),
    ("nginx: access log", "/nginx$", r"^ngx_http_log_"),
    ("nginx: open_file_cache", "/nginx$", r"^ngx_(open_|close_)?cached|^ngx_open_"),
    (
        "nginx: reading the request",
        "/nginx$",
        (
            r"^ngx_http_(parse|process|wait_request|create_request|alloc_request"
            r"|validate|set_virtual|read_request|read_client)|^ngx_hash|^ngx_unix_recv"
            r"|^ngx_http_(validate_host|internal_redirect)"
        ),
    ),
    (
        "nginx: phases and locations",
        "/nginx$",
        (
            r"^ngx_http_(core|update_location|handler|static|rewrite|access|auth"
            r"|limit|try_files|mirror|index|map_uri|named|get_variable"
            r"|get_indexed|get_flushed|variable|script|complex)"
        ),
    ),
    (
        "nginx: answering",
        "/nginx$",
        (
            r"filter|^ngx_http_(send|output|set_etag|time|weak|set_content|next)"
            r"|^ngx_(linux_sendfile|writev|output_chain|chain|vslprintf|sprintf"
            r"|snprintf|tcp_(no)?push|http_gmt|send_chain)|^ngx_http_set_"
        ),
    ),
    (
        "nginx: events, timers, end of request",
        "/nginx$",
        (
            r"^ngx_(epoll|event|process_events|rbtree|reusable|handle|add_timer"
            r"|time|post|worker|http_(keepalive|finalize|free|close|request_handler"
            r"|set_keepalive|terminate|run_posted|test_reading|request_finalizer"
            r"|block_reading|empty))"
        ),
    ),
    (
        "nginx: memory pools",
        "/nginx$",
        (
            r"^ngx_(p?n?c?alloc|palloc|pnalloc|pcalloc|pfree|create_pool|destroy_pool"
            r"|reset_pool|pool|array|list|create_temp|alloc|free|memalign|pmemalign)"
        ),
    ),
    ("nginx: the rest, static functions", "/nginx$", r""),
)


@dataclass(frozen=True)
class Sample:
    """A sample: functions and where they are from, the innermost first."""

    frames: tuple[tuple[str, str], ...]

    @property
    def leaf(self) -> str:
        """The innermost function."""
        return self.frames[0][0]

    @property
    def part(self) -> str:
        """What the time went for."""
        name, source = self.frames[0]
        if source == _KERNEL:
            return _kernel_part([frame[0] for frame in self.frames])
        for part, where, which in _PARTS:
            if re.search(where, source) and re.search(which, name):
                return part
        return OTHER_USER


def _kernel_part(names: Sequence[str]) -> str:
    """Name the system call: the frame that the entry of all of them calls."""
    if _ENTRY in names:
        place = names.index(_ENTRY)
        call = names[place - 1] if place else ""
        for part, which in _CALLS:
            if re.search(which, call):
                return part
    return OTHER_KERNEL


def parts() -> list[str]:
    """Return the names of all parts in the order in which they are shown."""
    return [
        *(part for part, _ in _CALLS),
        OTHER_KERNEL,
        *(part for part, _, _ in _PARTS),
        OTHER_USER,
    ]


def parse(text: str) -> Iterator[Sample]:
    """Read what ``perf script -F ip,sym,dso`` prints.

    A sample is a block of lines of an address, a function and, in parentheses,
    where it is from; blocks have empty lines between them.

    Args:
        text: the output.
    """
    for block in re.split(r"\n\s*\n", text):
        frames = []
        for line in block.splitlines():
            found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
            if found:
                frames.append((found[1], found[2]))
        if frames:
            yield Sample(tuple(frames))


def shares(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the share of each part that occurs; they sum to 1.

    Args:
        samples: at least one.
    """
    counts = Counter(sample.part for sample in samples)
    return {part: counts[part] / counts.total() for part in parts() if counts[part]}


def leaves(samples: Iterable[Sample]) -> Counter[tuple[str, str]]:
    """Count the innermost functions, with where they are from."""
    return Counter(sample.frames[0] for sample in samples)


def missing() -> str | None:
    """Say why nothing can be sampled, None if it can."""
    if shutil.which("perf") is None:
        return "perf is not installed (Debian package linux-perf)"
    done = subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return f"perf may not be used here: {done.stderr.strip()[-200:]}"
    return None


@contextmanager
def recording(
    pids: Iterable[int], core: int, directory: Path
) -> Iterator[list[Sample]]:
    """Sample processes while the context lasts.

    Args:
        pids: which.
        core: where perf itself runs.
        directory: for its files.

    Yields:
        A list that has the samples after the context.

    Raises:
        ContestantError: perf failed or took no sample.
    """
    data, output = directory / "perf.data", directory / "perf.out"
    data.unlink(missing_ok=True)
    child = Child(
        [
            *("perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY)),
            *("-g", "-o", str(data), "-p", ",".join(map(str, sorted(pids)))),
        ],
        core=core,
        output=output,
        cwd=directory,
    )
    samples: list[Sample] = []
    try:
        if not wait_for(
            lambda: child.poll() is not None or data.exists(), _START_TIMEOUT
        ):
            raise ContestantError("perf", "it did not start")
        yield samples
        child.signal(signal.SIGINT)
        child.wait(_START_TIMEOUT)
    finally:
        child.stop()
    done = subprocess.run(
        ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    samples += parse(done.stdout)
    if not samples:
        said = output.read_text(errors="replace") + done.stderr
        raise ContestantError("perf", f"no samples: {said.strip()[-300:]}")
