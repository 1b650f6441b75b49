"""What a request costs in instructions and system calls of nginx: exact counts.

nginx runs as one process under valgrind's callgrind, or under strace, and is
asked the same things one after the other, once for a short time and once for a
longer one. The difference is what the further requests cost; the start, the end
and what only the first requests do are in both.
"""

import http.client
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.contestants.nginx import Nginx, NginxProgram
from bench.model import Address, ContestantError
from bench.process import Child, wait_listening

CONNECTIONS = 32

_START_TIMEOUT = 120.0
_END_TIMEOUTS = (1, 2, 4, 8, 16, 32, 64)
_TIMEOUT = 30.0

_TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)
_FUNCTION = re.compile(r"^\s*([\d,]+) \(\s*[\d.]+%\)\s+(\S.*)$", re.MULTILINE)
_OBJECT = re.compile(r" \[([^\]]*)\]$")
# glibc's allocator: what it does for a size depends on all that was done before.
_ALLOCATOR = re.compile(
    r"_int_\w*(alloc|free|memalign)|(malloc|calloc|realloc|free|posix_memalign"
    r"|_mid_memalign|unlink_chunk\S*|sysmalloc|systrim\S*|malloc_consolidate) \(libc"
)
_CLOCK = "ngx_time_update"
_CALL = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")

# What libc picks by the processor's abilities would count differently elsewhere.
_TUNABLES = "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-ERMS,-AVX_Fast_Unaligned_Load,-SSSE3"


_ALONE = "daemon off;\nmaster_process off;"


@dataclass(frozen=True)
class Task:
    """Requests to an nginx: ``paths`` in turn, each answered with ``status``.

    ``length`` returns the bytes of a path's answer, or None if they don't matter.
    """

    nginx: Nginx
    program: NginxProgram
    paths: Sequence[str]
    status: int = 200
    length: Callable[[str], int | None] = lambda path: None


@dataclass(frozen=True)
class Counts:
    """Of one request: instructions, those of functions, and system calls.

    ``steady`` are the instructions but for those of the allocator and the clock.
    """

    instructions: float
    steady: float
    functions: Sequence[tuple[str, float]]
    calls: dict[str, float]


def missing() -> str | None:
    """Say what is not installed, None if all is."""
    for program in ("valgrind", "callgrind_annotate", "strace"):
        if shutil.which(program) is None:
            package = "valgrind" if program != "strace" else "strace"
            return f"{program} is not installed (Debian package {package})"
    return None


def count(task: Task, directory: Path, first: int, then: int) -> Counts:
    """Count what a request costs.

    Args:
        task: what is asked.
        directory: empty, for nginx and the counters.
        first: requests of the short run.
        then: requests more of the long one.

    Raises:
        ContestantError: nginx did not start, or answered otherwise.
    """
    total, functions = _difference(task, directory, first, then)
    return Counts(
        instructions=total,
        steady=_steady(functions),
        functions=sorted(
            (item for item in functions.items() if item[0] != _CLOCK),
            key=lambda item: -item[1],
        ),
        calls=calls(task, directory, first, then),
    )


def steady(task: Task, directory: Path, first: int, then: int) -> float:
    """Count the instructions of a request but for the allocator's and the clock's.

    They are the same in every run, to less than half a per cent. Arguments as of
    :func:`count`.
    """
    return _steady(_difference(task, directory, first, then)[1])


def _steady(functions: Mapping[str, float]) -> float:
    clock = functions[_CLOCK]
    parts = (
        n
        for name, n in functions.items()
        if name != _CLOCK and not _ALLOCATOR.search(name)
    )
    return sum(parts) - clock


def _difference(
    task: Task, directory: Path, first: int, then: int
) -> tuple[float, dict[str, float]]:
    """Return the instructions of a request, and those of each function."""
    (before, old), (after, new) = (
        _instructions(task, directory, n) for n in (first, first + then)
    )
    functions = {name: (new[name] - old[name]) / then for name in old | new}
    return (after - before) / then, functions


def calls(task: Task, directory: Path, first: int, then: int) -> dict[str, float]:
    """Count the system calls of a request; arguments as of :func:`count`."""
    before, after = (_calls(task, directory, n) for n in (first, first + then))
    counted = {name: (after[name] - before[name]) / then for name in after}
    return {name: n for name, n in sorted(counted.items()) if n > 0}


def _instructions(
    task: Task, directory: Path, requests: int
) -> tuple[int, Counter[str]]:
    """Return all instructions of a run, and those of each function."""
    out = directory / "callgrind.out"
    _run(
        task,
        directory,
        [
            *("env", f"GLIBC_TUNABLES={_TUNABLES}"),
            *("valgrind", "--tool=callgrind", "-q"),
            f"--callgrind-out-file={out}",
        ],
        requests,
    )
    total = _TOTAL.search(out.read_text())
    if total is None:
        raise ContestantError("callgrind", "it counted nothing")
    functions = _annotated(out)
    # The clock's strings are printed anew each second: of time, not of requests.
    functions[_CLOCK] = max(
        [n for name, n in _annotated(out, "--inclusive=yes").items() if _CLOCK in name],
        default=0,
    )
    return int(total[1]), functions


def _annotated(out: Path, *options: str) -> Counter[str]:
    """Return what callgrind_annotate says of each function."""
    shown = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--threshold=100", *options, str(out)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    functions: Counter[str] = Counter()
    for cost, name in _FUNCTION.findall(shown):
        if name != "PROGRAM TOTALS":
            functions[_function(name)] += int(cost.replace(",", ""))
    return functions


def _function(name: str) -> str:
    """Return "name (object)" for what callgrind_annotate prints."""
    found = _OBJECT.search(name)
    bare = _OBJECT.sub("", name).rpartition(":")[2]
    return f"{bare} ({Path(found[1]).name})" if found else bare


def _calls(task: Task, directory: Path, requests: int) -> Counter[str]:
    """Return how often each system call was made in a run."""
    out = directory / "strace.out"
    _run(task, directory, ["strace", "-f", "-c", "-o", str(out)], requests)
    counted: Counter[str] = Counter()
    for line in out.read_text().splitlines():
        if found := _CALL.match(line):
            counted[found[2]] += int(found[1])
    counted.pop("total", None)
    if not counted:
        raise ContestantError("strace", "it counted nothing")
    return counted


def _run(task: Task, directory: Path, counter: Sequence[str], requests: int) -> None:
    """Start nginx under a counter, ask it, and let it end."""
    own = directory / "nginx"
    own.mkdir(exist_ok=True)
    task.nginx.configure(own)
    text = task.nginx.configuration()
    (own / "nginx.conf").write_text(text.replace("daemon off;", _ALONE, 1))
    argv = [*counter, str(task.program.binary)]
    argv += ["-p", f"{own}/", "-e", "error.log", "-c", "nginx.conf"]
    child = Child(
        argv, core=task.program.worker_core, output=own / "output.log", cwd=own
    )
    try:
        if not wait_listening(task.nginx.address, child, _START_TIMEOUT):
            raise ContestantError("start", _log(own))
        with _asked(task, requests):
            _end(int((own / "nginx.pid").read_text()), child)
    finally:
        child.stop()
    if task.nginx.complaints():
        raise ContestantError("its log", task.nginx.complaints()[-1])


def _end(pid: int, child: Child) -> None:
    """Have nginx end, and what it runs under: strace does not hand a signal on.

    A signal that comes just before epoll_wait() is seen at the next one only. Each is
    some instructions, so there are few of them even if the machine is busy.
    """
    for timeout in _END_TIMEOUTS:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout)
            return
    raise ContestantError("end", "it does not end")


def _log(directory: Path) -> str:
    texts = [path.read_text(errors="replace") for path in directory.glob("*.log")]
    return "\n".join(texts)[-600:]


@contextmanager
def _asked(task: Task, requests: int) -> Iterator[None]:
    """Ask nginx; its connections stay open as long as this lasts.

    nginx so ends before they do and closes none of them: of those that were closed
    before, it would see more or fewer, by chance, and their ends would count.
    """
    with ExitStack() as stack:
        connections = []
        for _ in range(CONNECTIONS):
            connection = _connect(task.nginx.address)
            stack.callback(connection.close)
            connections.append(connection)
        for number in range(requests):
            path = task.paths[number % len(task.paths)]
            connection = connections[number % CONNECTIONS]
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            wanted = task.length(path)
            if response.status != task.status or len(body) != (
                len(body) if wanted is None else wanted
            ):
                raise ContestantError(
                    "answer", f"{path}: {response.status}, {len(body)} bytes"
                )
        yield


def _connect(address: Address) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(
        address.host, address.port, timeout=_TIMEOUT
    )
    connection.connect()
    return connection
