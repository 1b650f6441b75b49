"""Keeps files in memory, so that no timed run reads a disk.

Virtual machines may give memory back to their host and drop pages of files that
were not read for some seconds; locked pages stay.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@contextmanager
def in_memory(files: Iterable[Path]) -> Iterator[bool]:
    """Map, read and lock files while the context lasts.

    Python's mmap keeps a descriptor for each file, which is too many here, so
    this calls mmap(2) and mlock(2) itself.

    Args:
        files: any number up to vm.max_map_count, none empty.

    Yields:
        Whether all could be locked; else they were only read (the limit of
        locked memory is too low).

    Raises:
        OSError: a file cannot be opened or mapped.
    """
    maps: list[tuple[int, int]] = []
    locked = True
    try:
        for path in files:
            address, size = _map(path)
            maps.append((address, size))
            locked = locked and _libc.mlock(address, size) == 0
        yield locked
    finally:
        for address, size in maps:
            _libc.munmap(address, size)


def _map(path: Path) -> tuple[int, int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        address = _libc.mmap(None, size, mmap.PROT_READ, flags, descriptor, 0)
    finally:
        os.close(descriptor)
    if address is None or address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return address, size
