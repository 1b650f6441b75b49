"""The floor: a bare loop around epoll_wait() that writes ready answers."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench import compiler
from bench.contestants.single import Single
from bench.model import Address

_SOURCE = Path(__file__).parents[1] / "epoll_loop.c"

# What nginx's static module writes before a file, in length and form.
_HEAD = (
    "HTTP/1.1 200 OK\r\n"
    "Server: nginx/1.22.1\r\n"
    "Date: Fri, 20 Nov 2026 12:00:00 GMT\r\n"
    "Content-Type: application/octet-stream\r\n"
    "Content-Length: {length}\r\n"
    "Last-Modified: Fri, 20 Nov 2026 11:00:00 GMT\r\n"
    "Connection: keep-alive\r\n"
    'ETag: "6920f5f0-{length:x}"\r\n'
    "Accept-Ranges: bytes\r\n"
    "\r\n"
)

# What a small application answers; "kept" is for the log of who asks it.
_BACKEND_HEAD = (
    "HTTP/{version} 200 OK\r\n"
    "Content-Type: text/plain\r\n"
    "Content-Length: {length}\r\n"
    "Connection: keep-alive\r\n"
    "X-Kept: {kept}\r\n"
    "\r\n"
)


def missing() -> str | None:
    """Say why it cannot be built, None if it can."""
    return None if compiler.find() else "there is no C compiler"


def answer(body: bytes) -> bytes:
    """Return a whole answer with a body."""
    return _HEAD.format(length=len(body)).encode() + body


def epoll_loop(
    name: str,
    core: int,
    bodies: Callable[[], Iterable[bytes]],
    about: str,
    *,
    sendfile: bool = False,
) -> Single:
    """Make the loop; it is compiled when it is configured.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        bodies: one that answers everything, or one for each ID of 10,000,000
            and up, evenly spaced.
        about: what it answers, for the record.
        sendfile: whether the answers are sent by ``sendfile()``, not from memory.
    """
    return _loop(
        name,
        core,
        lambda: [answer(body) for body in bodies()],
        [about],
        ["sendfile"] if sendfile else [],
    )


def backend(name: str, core: int, version: str, body: bytes) -> Single:
    """Make the loop as a server that nginx asks: it keeps connections.

    The header ``X-Kept`` says whether a connection was used before.

    Args:
        name: short name.
        core: where it runs.
        version: of HTTP, ``1.0`` or ``1.1``.
        body: of its answers.
    """
    first, later = (
        _BACKEND_HEAD.format(version=version, length=len(body), kept=kept)
        for kept in ("no", "yes")
    )
    return _loop(
        name,
        core,
        lambda: [head.encode() + body for head in (first, later)],
        [line for line in later.splitlines() if line],
        ["kept"],
    )


def _loop(
    name: str,
    core: int,
    answers: Callable[[], Sequence[bytes]],
    about: Sequence[str],
    mode: Sequence[str],
) -> Single:
    def configuration(address: Address, directory: Path) -> str:
        if not (directory / "epoll_loop").exists():
            compiler.build(directory / "epoll_loop", [_SOURCE])
            _write(directory / "answers", answers())
        lines = [
            f"cc {' '.join(compiler.FLAGS)} -o epoll_loop bench/epoll_loop.c",
            " ".join(["epoll_loop", str(address.port), "answers", *mode]),
            *about,
        ]
        return "".join(f"# {line}\n" for line in lines)

    def argv(address: Address, directory: Path) -> list[str]:
        return [
            str(directory / "epoll_loop"),
            str(address.port),
            str(directory / "answers"),
            *mode,
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=lambda lines: [line for line in lines if line.strip()],
    )


def _write(path: Path, answers: Sequence[bytes]) -> None:
    with path.open("wb") as file:
        file.write(" ".join(str(len(text)) for text in answers).encode() + b"\n")
        file.writelines(answers)
