"""Stopping a process at an instruction, by ptrace(2).

All calls for one process have to come from the thread that attached to it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .elf import Elf
from .wait import POLL_SECONDS

# of sys/ptrace.h and elf.h
PEEKDATA = 2
POKEDATA = 5
CONT = 7
SINGLESTEP = 9
DETACH = 17
GETREGSET = 0x4204
SETREGSET = 0x4205
SEIZE = 0x4206
INTERRUPT = 0x4207
NT_PRSTATUS = 1

# of waitpid(2): children of any kind, and those of others that are traced
WALL = 0x40000000

WORD = 8
STOP_TIMEOUT = 60.0


@dataclass(frozen=True)
class Machine:
    """What differs between processors.

    Args:
        breakpoint: the instruction's bytes.
        registers: bytes of the general registers in NT_PRSTATUS.
        counter: where the program counter is in them.
        behind: bytes by which the counter has moved on at a breakpoint.
    """

    breakpoint: bytes
    registers: int
    counter: int
    behind: int


# struct user_regs_struct and struct user_pt_regs
MACHINES = {
    "x86_64": Machine(b"\xcc", 27 * WORD, 16 * WORD, 1),
    "aarch64": Machine(b"\x00\x00\x20\xd4", 34 * WORD, 32 * WORD, 0),
}


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_ulong, ctypes.c_void_p]


class ProcessEnded(Exception):
    """The traced process is not there any more; says how it ended."""


class Tracer:
    """Trace a process with one thread; it is stopped unless it is told to run.

    At the end of a ``with`` block it runs on, without breakpoints.

    Args:
        pid: the process.

    Raises:
        OSError: ptrace is not permitted, or there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._machine = MACHINES[platform.machine()]
        self._signals: list[int] = []
        self._traced = False
        self._ptrace(SEIZE)
        self._traced = True
        self._ptrace(INTERRUPT)
        while self._wait(STOP_TIMEOUT) != signal.SIGTRAP:
            self._go(CONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    def _ptrace(self, request: int, address: int = 0, data: int = 0) -> int:
        ctypes.set_errno(0)
        result: int = _libc.ptrace(request, self.pid, address, data)
        error = ctypes.get_errno()
        if error == errno.ESRCH and self._traced:
            # killed while it was stopped
            while True:
                self._wait(STOP_TIMEOUT)
        if error:
            raise OSError(error, f"ptrace({request:#x}) of {self.pid}")
        return result

    def _wait(self, timeout: float) -> int:
        """Wait for a stop and return its signal; an interrupt is a SIGTRAP.

        Raises:
            ProcessEnded: it has ended.
            TimeoutError: it runs on.
        """
        deadline = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, WALL | os.WNOHANG)
            if pid == self.pid:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.pid} did not stop within {timeout} s")
            time.sleep(POLL_SECONDS)
        if not os.WIFSTOPPED(status):
            self._traced = False
            raise ProcessEnded(
                f"{self.pid}: {os.waitstatus_to_exitcode(status)}, signals negative"
            )
        number = os.WSTOPSIG(status)
        if number != signal.SIGTRAP:
            # meant for the process: it gets it when it goes on
            self._signals.append(number)
        return number

    def _go(self, request: int) -> None:
        self._ptrace(request, 0, self._signals.pop(0) if self._signals else 0)

    # memory and registers

    def _peek(self, address: int) -> bytes:
        word = self._ptrace(PEEKDATA, address)
        return word.to_bytes(WORD, "little", signed=True)

    def _poke(self, address: int, data: bytes) -> None:
        """Write at most a word; the code may be read-only."""
        data += self._peek(address)[len(data) :]
        self._ptrace(POKEDATA, address, int.from_bytes(data, "little"))

    def _registers(self, request: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        vector = _Vector(ctypes.addressof(buffer), len(buffer))
        self._ptrace(request, NT_PRSTATUS, ctypes.addressof(vector))

    @property
    def counter(self) -> int:
        """The address of the next instruction."""
        buffer = ctypes.create_string_buffer(self._machine.registers)
        self._registers(GETREGSET, buffer)
        at = self._machine.counter
        return int.from_bytes(buffer.raw[at : at + WORD], "little")

    @counter.setter
    def counter(self, address: int) -> None:
        buffer = ctypes.create_string_buffer(self._machine.registers)
        self._registers(GETREGSET, buffer)
        at = self._machine.counter
        raw = buffer.raw[:at] + address.to_bytes(WORD, "little")
        raw += buffer.raw[len(raw) :]
        buffer = ctypes.create_string_buffer(raw, len(raw))
        self._registers(SETREGSET, buffer)

    # running

    def run_to(self, address: int, timeout: float = STOP_TIMEOUT) -> None:
        """Let it run until it is about to execute the instruction there.

        Args:
            address: in the process.
            timeout: seconds.

        Raises:
            ProcessEnded: it has ended.
            TimeoutError: it has not come there; it is stopped elsewhere.
        """
        was = self._peek(address)[: len(self._machine.breakpoint)]
        self._poke(address, self._machine.breakpoint)
        hit = address + self._machine.behind
        try:
            self._go(CONT)
            while self._wait(timeout) != signal.SIGTRAP or self.counter != hit:
                self._go(CONT)
        except TimeoutError:
            self._ptrace(INTERRUPT)
            while self._wait(STOP_TIMEOUT) != signal.SIGTRAP:
                self._go(CONT)
            if self.counter == hit:
                self.counter = address
            raise
        finally:
            if self._traced:
                self._poke(address, was)
        self.counter = address

    def run_to_function(
        self, elf: Elf, name: str, timeout: float = STOP_TIMEOUT
    ) -> None:
        """Let it run until it enters a function.

        Args:
            elf: a program or shared object that it has loaded.
            name: the function's.
            timeout: seconds.

        Raises:
            LookupError: there is no such function in the file.
            ProcessEnded: it has ended.
            TimeoutError: the function was not called.
        """
        self.run_to(elf.base(self.pid) + elf.function(name).address, timeout)

    def step(self, count: int = 1) -> None:
        """Execute some instructions.

        Args:
            count: how many.

        Raises:
            ProcessEnded: it has ended.
        """
        for _ in range(count):
            self._go(SINGLESTEP)
            while self._wait(STOP_TIMEOUT) != signal.SIGTRAP:
                self._go(SINGLESTEP)

    def detach(self) -> None:
        """Let it run, untraced, if it has not ended."""
        if self._traced:
            with suppress(ProcessEnded):
                self._go(DETACH)
            self._traced = False

    def kill(self) -> None:
        """Kill it where it is stopped, and wait until it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessEnded):
            while True:
                self._wait(STOP_TIMEOUT)
