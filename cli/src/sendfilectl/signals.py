"""SIGINT, SIGTERM and SIGHUP as an exception that arrives only between writes."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Callable, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# after this many seconds a wait for another writer is worth a word
_NOTE_AFTER = 1.0

# seconds that a process that is stuck leaves its child to say so, and that the
# child may take for it
_AFTER = 1.0
_ALARM = 10


class Interrupted(BaseException):
    """A signal asked the program to stop.

    Args:
        signum: the signal's number; the exit code is 128 more.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """The exit code of a program that this signal ended."""
        return 128 + self.signum


class _State:
    installed = False
    depth = 0
    open = False
    pending: int | None = None
    last_words: Callable[[Interrupted], None] | None = None


def install(last_words: Callable[[Interrupted], None]) -> None:
    """Makes the signals raise Interrupted.

    Args:
        last_words: reports an interruption; called, perhaps from another
            thread, when the program has to end while it is blocked.
    """
    for signum in SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _handle)
    _State.installed = True
    _State.last_words = last_words


def _handle(signum: int, frame: FrameType | None) -> None:
    if _State.depth and not _State.open:
        _State.pending = signum
    else:
        raise Interrupted(signum)


@contextmanager
def shield() -> Iterator[None]:
    """Holds signals back while a write and its bookkeeping are done.

    Raises:
        Interrupted: at the end, if a signal came meanwhile and nothing failed.
    """
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
    if _State.pending is not None and not _State.depth:
        signum, _State.pending = _State.pending, None
        raise Interrupted(signum)


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets signals through a shield() while the program waits for a server.

    Raises:
        Interrupted: a signal came, or had been held back already.
    """
    before, _State.open = _State.open, True
    try:
        if _State.pending is not None:
            signum, _State.pending = _State.pending, None
            raise Interrupted(signum)
        yield
    finally:
        _State.open = before


@contextmanager
def blocking(
    note: Callable[[], None],
    limit: float | None = None,
    give_up: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Around a call that may block where Python runs no signal handler.

    A signal that comes while it blocks ends the process at once, after the
    last words; the caller holds no lock at this point. So does the limit.
    Does nothing when the signals are not installed.

    Args:
        note: called once when it takes longer than a second.
        limit: seconds that it may take, None for ever.
        give_up: reports, perhaps from another thread, that it took longer;
            then the process ends with the status 1.
    """
    if (
        not _State.installed
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    watcher = threading.Thread(
        target=_watch, args=(theirs, note, limit, give_up), daemon=True
    )
    before = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        ours.send(b"\0")
        watcher.join()
        ours.close()
        theirs.close()


@contextmanager
def backstop(limit: float, give_up: Callable[[], None]) -> Iterator[None]:
    """Around a call that may block and lets no other thread of Python run.

    After the limit the process ends with the status 1. A child says why, for
    this one can run no line of Python then. Does nothing when the signals are
    not installed.

    Args:
        limit: seconds that it may take.
        give_up: reports that it took longer; called in the child.
    """
    if not _State.installed:
        yield
        return
    sys.stdout.flush()
    theirs, ours = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _stand_by(theirs, limit, give_up)
    os.close(theirs)
    with open(os.devnull, "wb") as nowhere:
        faulthandler.dump_traceback_later(limit + _AFTER, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            os.write(ours, b"\0")
            os.close(ours)
            # no child to wait for: whoever started this ignores SIGCHLD
            with suppress(ChildProcessError):
                if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                    # it was done at last, but the child has given up
                    os._exit(1)


def _stand_by(wakeup: int, limit: float, give_up: Callable[[], None]) -> NoReturn:
    """The child of a backstop: ends with 1 if it had to report.

    Args:
        wakeup: a pipe in which there is a byte when all is well.
        limit: seconds to wait for that.
        give_up: reports that it took longer.
    """
    # Ctrl-C is for the parent, and so is what a thread of it may have locked
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    status, begin = 1, time.monotonic()
    try:
        ready = select.select([wakeup], [], [], limit)[0]
        # a parent that has ended with no word may have done so at the limit
        if ready and (os.read(wakeup, 1) or time.monotonic() - begin < limit):
            status = 0
        else:
            signal.alarm(_ALARM)
            give_up()
    finally:
        os._exit(status)


def _watch(
    wakeup: socket.socket,
    note: Callable[[], None],
    limit: float | None,
    give_up: Callable[[], None],
) -> None:
    ready = select.select([wakeup], [], [], _NOTE_AFTER)[0]
    if not ready:
        note()
        left = None if limit is None else limit - _NOTE_AFTER
        if not select.select([wakeup], [], [], left)[0]:
            try:
                give_up()
            finally:
                os._exit(1)
    for signum in wakeup.recv(64):
        if signum == 0:
            return
        if signum in SIGNALS:
            interrupted = Interrupted(signum)
            try:
                if _State.last_words is not None:
                    _State.last_words(interrupted)
            finally:
                os._exit(interrupted.exit_code)


@contextmanager
def shield_for_good() -> Iterator[None]:
    """Holds signals back until the process ends."""
    _State.depth += 1
    yield
