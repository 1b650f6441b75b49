"""LMDB as a store: a directory, or one file, that nginx reads by itself.

Three rules of LMDB shape this module. Who may write to the lock file can hold
everybody who takes a lock in it, so it is made before LMDB would make it, with
a mode for those who publish (nginx takes none), and no wait is for ever. One
process may open an environment once only. And closing any descriptor of the
lock file drops the process's locks on it, so it is never touched while open.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import PurePath
from typing import Callable

import lmdb

from sendfilectl.errors import StoreError
from sendfilectl.signals import backstop, blocking, shield
from sendfilectl.stores import Item, Options, Outcome, Permissions, StoreUrl

# reserved, not used: the file has the size of its content
MAP_SIZE = 64 << 30 if sys.maxsize > 2**32 else 1 << 30
MIN_MAP_SIZE = 1 << 24

# slots for readers: one for each worker, and for each program beside nginx
MAX_READERS = 1024

# a slot has 64 bytes, a cache line, and the header has two
LOCK_LENGTH = 64 * (MAX_READERS + 2)

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
_OPEN_TRIES = 10

# seconds: to open a store takes a lock for a moment, another's transaction may
# be a long one
_OPEN_LIMIT = 10.0
_WRITE_LIMIT = 60.0

# newer bindings carry LMDB 1.0 as well, whose files nginx's liblmdb cannot read
try:
    lmdb.version(lib_version=0)
    _engine = partial(lmdb.open, lib_version=0)
except TypeError:
    _engine = partial(lmdb.open)

_open: set[tuple[int, int]] = set()


@dataclass(frozen=True)
class Files:
    """The files of a store.

    Attributes:
        base: the path that LMDB opens, without symbolic links.
        subdir: it is a directory.
        data: the data file.
        lock: the lock file.
    """

    base: str
    subdir: bool
    data: str
    lock: str


def files_at(base: str, subdir: bool) -> Files:
    """The files of a store at a path."""
    if subdir:
        return Files(base, True, f"{base}/data.mdb", f"{base}/lock.mdb")
    return Files(base, False, base, f"{base}-lock")


def locate(path: str) -> Files | None:
    """The files of the store that a path leads to, None if there is none.

    Raises:
        StoreError: something of another kind is there, or out of reach.
    """
    base = os.path.realpath(path)
    try:
        mode = os.stat(base).st_mode
        if stat.S_ISDIR(mode):
            files = files_at(base, True)
            mode = os.stat(files.data).st_mode
        else:
            files = files_at(base, False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _os_error(error, base) from None
    if not stat.S_ISREG(mode):
        raise StoreError(f"{files.data}: not a regular file")
    return files


class LmdbStore:
    """A store in LMDB, see Store.

    Args:
        url: where it is.
        options: how to open it.
        map_size: bytes of address space to reserve when writing.
        detached: a store that is being built and that nobody else knows: it
            is synced only by sync().

    Raises:
        StoreError: it is not there, is no LMDB, or a permission is missing.
    """

    def __init__(
        self,
        url: StoreUrl,
        options: Options,
        map_size: int = MAP_SIZE,
        detached: bool = False,
    ) -> None:
        self._url = url
        self._options = options
        self._map_size = map_size
        self._detached = detached
        self._identity = (0, 0)
        self._env = self._open()
        # one that disappears later on is not made a second time
        self._options = replace(options, create=False)

    @property
    def url(self) -> str:
        """The URL as it was given."""
        return self._url.text

    @property
    def files(self) -> Files:
        """The files that are open."""
        return self._files

    def get(self, keys: Sequence[bytes]) -> list[bytes | StoreError | None]:
        """The values of some keys, None where there is none."""
        with self._errors(), self._begin() as txn:
            return [txn.get(key) for key in keys]

    def put(self, items: Sequence[Item], outcome: Outcome | None = None) -> None:
        """Stores some items in one transaction: all of them or none."""
        items = sorted(items, key=itemgetter(0))
        with shield():
            while True:
                try:
                    with self.writing() as txn, txn.cursor() as cursor:
                        cursor.putmulti(items, overwrite=True)
                    if outcome is not None:
                        outcome.all_stored()
                    return
                except lmdb.MapFullError:
                    self._grow()

    def append(self, items: Sequence[Item]) -> None:
        """Stores items that follow, sorted, all the store has: packed pages."""
        while True:
            try:
                with self.writing() as txn, txn.cursor() as cursor:
                    cursor.putmulti(items, append=True)
                return
            except lmdb.MapFullError:
                self._grow()

    def delete(self, keys: Sequence[bytes]) -> list[bool | StoreError]:
        """Deletes some keys in one transaction; tells which there were."""
        with shield():
            while True:
                try:
                    with self.writing() as txn:
                        return [txn.delete(key) for key in keys]
                except lmdb.MapFullError:
                    self._grow()

    @contextmanager
    def items(self) -> Iterator[Iterator[Item]]:
        """All items as they are at this moment, in the order of the keys."""
        with self._errors(), self._begin() as txn, txn.cursor() as cursor:
            yield cursor.iternext(keys=True, values=True)

    def count(self) -> int:
        """How many items there are."""
        with self._errors(), self._begin() as txn:
            return int(txn.stat()["entries"])

    def sync(self) -> None:
        """Waits until all is on the disk.

        Raises:
            StoreError: it cannot be written.
        """
        with self._errors():
            self._env.sync(True)

    def close(self) -> None:
        """Lets go of the store."""
        self._env.close()
        _open.discard(self._identity)

    # opening

    def _open(self) -> lmdb.Environment:
        for _ in range(_OPEN_TRIES):
            files = self._find()
            self._prepare(files)
            env = self._open_env(files)
            self._files = files
            # by path: the lock file must not be opened and closed again
            if self._is_current():
                self._check_length(env)
                if self._options.write:
                    # readers that were killed would make the file grow
                    with self._stuck(files):
                        env.reader_check()
                return env
            env.close()
            _open.discard(self._identity)
        raise StoreError(f"{self._url.rest}: is replaced again and again")

    def _find(self) -> Files:
        files = locate(self._url.rest)
        if files is not None:
            return files
        path = os.path.realpath(self._url.rest)
        if self._options.create:
            return files_at(path, os.path.isdir(path) or not self._options.single_file)
        if os.path.isdir(path):
            raise StoreError(
                f"{path}: there is no store, the directory has no data.mdb"
            )
        raise StoreError(
            f"{path}: there is no store; set, import, scan and publish make one"
        )

    def _prepare(self, files: Files) -> None:
        """Makes what is missing and finds out which permission is.

        Raises:
            StoreError: with the file and the permission.
        """
        permissions = self._options.permissions
        if self._options.create and not os.path.exists(files.data):
            self._create(files)
        elif permissions.explicit and self._options.write:
            apply(files, permissions)
        try:
            found = os.stat(files.data)
        except OSError as error:
            raise _os_error(error, files.data) from None
        if (found.st_dev, found.st_ino) in _open:
            raise StoreError(f"{files.base}: is already open in this process")
        if found.st_size == 0 and not self._options.create:
            raise StoreError(f"{files.data}: is empty, no LMDB file")
        _check_access(files.data, self._options.write, "the data file")
        if not self._options.write and _is_read_only(files.data):
            # LMDB does without a lock there
            return
        try:
            _touch_lock(files.lock, permissions)
        except PermissionError:
            raise StoreError(
                f"{files.lock}: is not there, and user {os.geteuid()} has no "
                "permission to create it"
            ) from None
        except OSError as error:
            raise _os_error(error, files.lock) from None
        _check_access(
            files.lock,
            True,
            "the lock file, which reading by sendfilectl takes as well,",
        )

    def _create(self, files: Files) -> None:
        permissions = self._options.permissions
        made = False
        try:
            if files.subdir:
                made = _make_directory(files, permissions)
            _touch_lock(files.lock, permissions)
            _touch(files.data, permissions.data, permissions)
        except FileNotFoundError:
            parent = os.path.dirname(files.base)
            raise StoreError(
                f"{parent}: there is no such directory, make it first: mkdir -p {parent}"
            ) from None
        except OSError as error:
            if made:
                remove(files)
            raise _os_error(error, error.filename or files.base) from None

    def _open_env(self, files: Files) -> lmdb.Environment:
        found = os.stat(files.data)
        check_format(files.data)
        for size in self._map_sizes(found.st_size):
            try:
                # its first transaction waits as well, and holds the interpreter
                with (
                    self._stuck(files, _OPEN_LIMIT + 1),
                    self._waiting(files, _OPEN_LIMIT),
                ):
                    env = _engine(
                        files.base,
                        map_size=size,
                        subdir=files.subdir,
                        readonly=not self._options.write,
                        create=False,
                        max_readers=MAX_READERS,
                        sync=not self._detached,
                        metasync=not self._detached,
                        lock=True,
                    )
            except lmdb.MemoryError:
                # less address space than that: a limit, or a small machine
                continue
            except lmdb.Error as error:
                raise _store_error(error, files) from None
            except OSError as error:
                raise _os_error(error, files.base) from None
            self._identity = (found.st_dev, found.st_ino)
            _open.add(self._identity)
            return env
        raise StoreError(
            f"{files.base}: not enough address space for the map, see ulimit -v"
        )

    def _map_sizes(self, length: int) -> Iterator[int]:
        """Sizes of the map to try, for a data file of some length in bytes."""
        if not self._options.write:
            yield 0  # what the file says
            yield _round(length)
            return
        size = max(self._map_size, _round(2 * length))
        while size >= max(MIN_MAP_SIZE, length) or size == self._map_size:
            yield size
            size //= 2

    def _is_current(self) -> bool:
        """Whether the path still leads to the file that is open."""
        try:
            if os.path.realpath(self._url.rest) != self._files.base:
                return False
            now = os.stat(self._files.data)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self._identity

    def _check_length(self, env: lmdb.Environment) -> None:
        """Refuses a file that was cut off: reading it would be a SIGBUS."""
        need = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        have = os.path.getsize(self._files.data)
        if have < need:
            env.close()
            _open.discard(self._identity)
            raise StoreError(
                f"{self._files.data}: is damaged, it has {have} bytes of {need}: "
                "build it anew with publish --from"
            )

    # transactions

    @contextmanager
    def writing(self) -> Iterator[lmdb.Transaction[bytes]]:
        """The write transaction of the store that the path leads to now.

        It waits for other writers. As long as it lasts, no other program
        writes to the store.

        Raises:
            StoreError: the store cannot be written.
            lmdb.MapFullError: the map is too small; call again after _grow().
        """
        with self._errors():
            while True:
                txn = self._begin(write=True)
                if self._detached or self._is_current():
                    break
                txn.abort()
                self.close()
                self._env = self._open()
            with txn:
                yield txn

    def _waiting(
        self, files: Files, limit: float, why: str = "has a lock of"
    ) -> AbstractContextManager[None]:
        """Around what may wait for a lock of another program's."""
        said = f"another program {why} {files.base}"
        give_up = self._give_up(files, said, limit)
        return blocking(lambda: self._options.note(f"waiting: {said}"), limit, give_up)

    def _stuck(
        self, files: Files, limit: float = _OPEN_LIMIT
    ) -> AbstractContextManager[None]:
        """Around what may wait for the lock of the table of readers."""
        said = f"another program has the lock of the readers of {files.base}"
        return backstop(limit, self._give_up(files, said, limit))

    def _give_up(self, files: Files, said: str, limit: float) -> Callable[[], None]:
        return lambda: self._options.fail(
            f"{files.lock}: {said}, for {limit:.0f} seconds: "
            "see who has it open (fuser)"
        )

    def _begin(self, write: bool = False) -> lmdb.Transaction[bytes]:
        while True:
            try:
                if write:
                    with self._waiting(self._files, _WRITE_LIMIT, "is writing to"):
                        return self._env.begin(write=True)
                with self._stuck(self._files):
                    return self._env.begin()
            except lmdb.MapResizedError:
                # another program has made the map larger: take its size
                self._env.set_mapsize(0)
            except lmdb.ReadersFullError:
                if not self._env.reader_check():
                    raise

    def _grow(self) -> None:
        with self._errors():
            self._env.set_mapsize(2 * self._env.info()["map_size"])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except lmdb.MapFullError:
            raise
        except lmdb.Error as error:
            raise _store_error(error, self._files) from None


def _round(size: int) -> int:
    """Up to a whole number of mebibytes."""
    return (size + (1 << 20) - 1) >> 20 << 20


def check_format(data: str) -> None:
    """Looks for the magic number and version in the first meta page, whose
    offset depends on the machine's word.

    Raises:
        StoreError: this is no file of LMDB 0.9.
    """
    try:
        with open(data, "rb") as file:
            head = file.read(64)
    except OSError as error:
        raise _os_error(error, data) from None
    for offset in range(0, len(head) - 7, 4):
        magic, version = struct.unpack_from("=II", head, offset)
        if magic == _MAGIC and version == _DATA_VERSION:
            return
        if magic == _MAGIC:
            raise StoreError(
                f"{data}: an LMDB file of format {version}; "
                f"nginx reads format {_DATA_VERSION}, that of LMDB 0.9"
            )
    if head:
        raise StoreError(f"{data}: not an LMDB file")


def _make_directory(files: Files, permissions: Permissions) -> bool:
    """Makes the directory, or takes one that is empty.

    Returns:
        Whether it was made.

    Raises:
        StoreError: there are other files in it.
        OSError: it cannot be made.
    """
    try:
        os.mkdir(files.base, 0o700)
    except FileExistsError:
        others = set(os.listdir(files.base)) - {"lock.mdb", "data.mdb"}
        if others:
            raise StoreError(
                f"{files.base}: there is no store, and the directory has other "
                f"files ({min(others)}): name a directory of its own"
            ) from None
        return False
    _own(files.base, permissions)
    os.chmod(files.base, permissions.directory)
    return True


def remove(files: Files) -> bool:
    """Removes a store's directory, unless there is something else in it."""
    try:
        for name in (files.data, files.lock):
            if os.path.lexists(name):
                os.unlink(name)
        os.rmdir(files.base)
    except OSError:
        return False
    return True


def _touch(path: str, mode: int, permissions: Permissions, length: int = 0) -> None:
    """Makes a file with exactly this mode, whatever the umask; leaves one
    that exists as it is.

    Args:
        path: the file.
        mode: its mode.
        permissions: its owner and group.
        length: bytes of zeros to allocate in it.

    Raises:
        OSError: it cannot be made; nothing stays.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        if length:
            os.posix_fallocate(fd, 0, length)
        if permissions.owner is not None or permissions.group is not None:
            os.fchown(fd, _id(permissions.owner), _id(permissions.group))
        os.fchmod(fd, mode)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def _touch_lock(path: str, permissions: Permissions) -> None:
    """Makes a lock file with room for all readers.

    LMDB maps it and writes to it, which on a full disk would be a SIGBUS if
    the blocks were not there.
    """
    _touch(path, permissions.lock, permissions, LOCK_LENGTH)


def _own(path: str, permissions: Permissions) -> None:
    if permissions.owner is not None or permissions.group is not None:
        os.chown(path, _id(permissions.owner), _id(permissions.group))


def _id(number: int | None) -> int:
    return -1 if number is None else number


def apply(files: Files, permissions: Permissions) -> None:
    """Sets owner, group and modes of a store that exists.

    Raises:
        StoreError: that is not allowed.
    """
    try:
        for path, mode in (
            (files.lock, permissions.lock),
            (files.data, permissions.data),
        ):
            if os.path.exists(path):
                _own(path, permissions)
                os.chmod(path, mode)
        if files.subdir:
            _own(files.base, permissions)
            os.chmod(files.base, permissions.directory)
    except OSError as error:
        raise _os_error(error, error.filename or files.base) from None


def permissions_of(files: Files) -> Permissions:
    """The permissions that a store has, to give them to its successor."""
    data = os.stat(files.data)
    directory = os.stat(os.path.dirname(files.data))
    try:
        lock = stat.S_IMODE(os.stat(files.lock).st_mode)
    except FileNotFoundError:
        lock = Permissions.lock
    root = os.geteuid() == 0
    return Permissions(
        group=data.st_gid if root or data.st_gid in os.getgroups() else None,
        owner=data.st_uid if root else None,
        lock=lock,
        data=stat.S_IMODE(data.st_mode),
        directory=stat.S_IMODE(directory.st_mode),
    )


def _check_access(path: str, write: bool, what: str) -> None:
    """Opens and closes a file, before LMDB has it open.

    Raises:
        StoreError: with the permission that is missing.
    """
    try:
        os.close(os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC))
    except PermissionError:
        need = "write" if write else "read"
        raise StoreError(
            f"{path}: user {os.geteuid()} has no permission to {need} {what}"
        ) from None
    except OSError as error:
        raise _os_error(error, path) from None


def _is_read_only(path: str) -> bool:
    """Whether the file system takes no writes; LMDB then needs no lock."""
    try:
        return bool(os.statvfs(os.path.dirname(path)).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _os_error(error: OSError, path: str) -> StoreError:
    if error.errno not in (errno.EACCES, errno.EPERM):
        return StoreError(f"{path}: {(error.strerror or str(error)).lower()}")
    user = os.geteuid()
    for parent in reversed(PurePath(path).parents):
        if not os.access(parent, os.X_OK):
            return StoreError(
                f"{path}: user {user} has no permission to enter {parent}"
            )
    return StoreError(
        f"{path}: user {user} has no permission to write to {os.path.dirname(path)}"
    )


def _store_error(error: lmdb.Error, files: Files) -> StoreError:
    """What LMDB says, in words that help."""
    if isinstance(error, lmdb.InvalidError):
        return StoreError(f"{files.data}: not an LMDB file")
    if isinstance(error, lmdb.VersionMismatchError):
        return StoreError(
            f"{files.lock}: another version of LMDB has the store open, "
            "whose lock file is not compatible"
        )
    if isinstance(error, lmdb.DiskError):
        return StoreError(f"{files.data}: no space left on the disk")
    if str(error).endswith(os.strerror(errno.EIO)):
        # LMDB's word for a write that wrote less than it should
        return StoreError(f"{files.data}: cannot be written: is the disk full?")
    if isinstance(error, lmdb.ReadersFullError):
        return StoreError(f"{files.lock}: all slots for readers are taken")
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError)):
        return StoreError(
            f"{files.data}: is damaged ({error}): build it anew with publish --from"
        )
    if isinstance(error, lmdb.BadValsizeError):
        return StoreError(
            f"{files.data}: the store's keys are of another kind ({error})"
        )
    return StoreError(f"{files.data}: {error}")
