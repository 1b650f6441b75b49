"""publish: build a new LMDB beside the store and swap a symbolic link.

``STORE`` is a symbolic link to ``STORE.<time>-<pid>``. While it is built the
directory is called ``….tmp`` and held by flock(), so that what a killed
publish left behind is known, and cleared away by the next one. During the
swap the write lock of the old store is held, and every writer checks after
it has got the lock that the path still leads to the store it has open: no
write is lost in the store that is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Callable

from sendfilectl.errors import CtlError, StoreError
from sendfilectl.lmdb_store import (
    Files,
    LmdbStore,
    apply,
    files_at,
    locate,
    permissions_of,
    remove,
)
from sendfilectl.output import Output
from sendfilectl.signals import shield
from sendfilectl.stores import Item, Options, Permissions, StoreUrl, batches

COPY_BATCH = 50_000
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_STAMP = r"\.\d{8}T\d{6}\.\d{3}Z-\d+"


@dataclass
class Published:
    """What publish did.

    Attributes:
        directory: the new directory.
        previous: what the store was before, None if it was not.
        records: how many items it has.
        removed: older directories that were removed.
        kept: older directories that could not be removed, and why.
    """

    directory: str = ""
    previous: str | None = None
    records: int = 0
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "directory": self.directory,
            "previous": self.previous,
            "records": self.records,
            "removed": self.removed,
        }


def publish(
    url: StoreUrl,
    fill: Callable[[LmdbStore], None] | None,
    out: Output,
    done: Published,
    permissions: Permissions | None = None,
    keep: int = 1,
    convert: bool = False,
    allow_empty: bool = False,
) -> None:
    """Builds a new store and makes the path lead to it.

    Args:
        url: the store: a symbolic link, or nothing yet.
        fill: fills the new store; None to copy the current one.
        out: for progress and warnings.
        done: what was done; its directory is set when the path leads to it.
        permissions: of the new store; None for those of the current one.
        keep: how many previous directories to keep.
        convert: the store may be a real directory, which is replaced by a
            link and becomes the previous one.
        allow_empty: publish a store without a single record.

    Raises:
        StoreError: it failed; the store is as it was.
        CtlError: likewise.
    """
    link = _link_path(url.rest)
    current = _current(url, link, convert, copying=fill is None)
    if permissions is None:
        permissions = permissions_of(current) if current else Permissions()
    done.previous = current.base if current else None
    with ExitStack() as stack:
        name = _new_name(link)
        new = stack.enter_context(_building(name, permissions, out))
        if fill is not None:
            _fill_sorted(fill, new, f"{name}.stage", permissions, out)
        old = _open_old(url, current, out, required=fill is None)
        txn = None
        if old is not None:
            stack.callback(old.close)
            txn = stack.enter_context(old.writing())
            current = old.files
            done.previous = current.base
        if fill is None and txn is not None:
            total = int(txn.stat()["entries"])
            with txn.cursor() as cursor:
                _copy(cursor.iternext(), total, new, out)
        done.records = new.count()
        if not done.records and not allow_empty:
            raise CtlError(
                "the new store would be empty: add --allow-empty if that is meant"
            )
        new.sync()
        new.close()
        with shield():
            _fsync_directory(f"{name}.tmp")
            os.rename(f"{name}.tmp", name)
            try:
                _swap(link, name, done)
            except OSError:
                os.rename(name, f"{name}.tmp")
                raise
            done.directory = name
            try:
                _fsync_directory(os.path.dirname(link))
                _sweep(link, done, keep)
            except OSError as error:
                out.warn(f"published, but could not clean up: {error}")


def _link_path(path: str) -> str:
    """The path with its parent resolved; the last part may be a link."""
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)


def _current(url: StoreUrl, link: str, convert: bool, copying: bool) -> Files | None:
    """The store as it is now.

    Raises:
        StoreError: it cannot be replaced.
    """
    parent = os.path.dirname(link)
    if not os.path.isdir(parent):
        raise StoreError(
            f"{parent}: there is no such directory, make it first: mkdir -p {parent}"
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StoreError(
            f"{parent}: user {os.geteuid()} has no permission to write to it, "
            "which publish needs to make a directory and a link"
        )
    current = locate(url.rest)
    if current is None and copying:
        raise StoreError(f"{link}: there is no store to copy: add --from FILE")
    if os.path.islink(link) or not os.path.lexists(link):
        if current is not None and not current.subdir:
            raise StoreError(
                f"{link}: leads to a single file; publish makes directories"
            )
        return current
    if not os.path.isdir(link):
        raise StoreError(f"{link}: is a single file; publish makes directories")
    if not convert:
        raise StoreError(
            f"{link}: is a directory, not a symbolic link, and cannot be swapped. "
            "Add --convert once: the directory is renamed and a link put in its "
            "place in one step; workers keep what they have open and turn to the "
            "new store as after every publish"
        )
    return current


def _new_name(link: str) -> str:
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{link}.{stamp}.{int(now * 1000) % 1000:03d}Z-{os.getpid()}"


@contextmanager
def _building(name: str, permissions: Permissions, out: Output) -> Iterator[LmdbStore]:
    """A new, empty store in ``NAME.tmp``, which does not stay if it fails."""
    path = f"{name}.tmp"
    try:
        os.mkdir(path, 0o700)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    store: LmdbStore | None = None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        store = LmdbStore(
            StoreUrl(f"lmdb:{path}", "lmdb", path),
            Options(
                write=True,
                create=True,
                permissions=replace(permissions, explicit=True),
                note=out.warn,
                fail=out.fail,
            ),
            detached=True,
        )
        apply(store.files, permissions)
        yield store
    finally:
        with shield():
            if store is not None:
                store.close()
            if os.path.isdir(path):
                remove(files_at(path, subdir=True))
            os.close(lock)


def _open_old(
    url: StoreUrl, current: Files | None, out: Output, required: bool
) -> LmdbStore | None:
    """Opens the store that is replaced, to keep writers out and to copy it."""
    if current is None:
        return None
    try:
        return LmdbStore(url, Options(write=True, note=out.warn, fail=out.fail))
    except StoreError as error:
        if required:
            raise
        # a damaged store is what --from may be there to repair
        out.warn(f"{error}; it is replaced")
        return None


def _fill_sorted(
    fill: Callable[[LmdbStore], None],
    new: LmdbStore,
    name: str,
    permissions: Permissions,
    out: Output,
) -> None:
    """Fills a store by way of another one, since items that come in the order
    of their keys make a file a third of the size.
    """
    with _building(name, permissions, out) as stage:
        fill(stage)
        with stage.items() as found:
            _copy(found, stage.count(), new, out)


def _copy(found: Iterator[Item], total: int, new: LmdbStore, out: Output) -> None:
    done = 0
    with out.progress("copying", total) as progress:
        for batch in batches(found, COPY_BATCH):
            new.append(batch)
            done += len(batch)
            progress(done)
    if new.count() != total:
        raise StoreError("the copy is not complete: its keys are not sorted")


def _swap(link: str, name: str, done: Published) -> None:
    """Makes the path lead to the new directory, in one step.

    Raises:
        OSError: it does not; nothing has changed.
    """
    temporary = f"{name}.link"
    os.symlink(os.path.basename(name), temporary)
    try:
        if os.path.islink(link) or not os.path.lexists(link):
            os.rename(temporary, link)
            return
        previous = _previous_name(link)
        if _exchange(temporary, link):
            # what is called temporary is now the old directory
            try:
                os.rename(temporary, previous)
            except OSError:
                _exchange(temporary, link)
                raise
        else:
            os.rename(link, previous)
            try:
                os.rename(temporary, link)
            except OSError:
                os.rename(previous, link)
                raise
        done.previous = previous
    finally:
        if os.path.islink(temporary):
            os.unlink(temporary)


def _previous_name(link: str) -> str:
    """A name for the directory that a link replaces: older than any other."""
    changed = os.stat(f"{link}/data.mdb").st_mtime if _has_data(link) else 0.0
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(changed))
    return f"{link}.{stamp}.000Z-{os.getpid()}"


def _has_data(directory: str) -> bool:
    return os.path.exists(f"{directory}/data.mdb")


def _exchange(one: str, other: str) -> bool:
    """Lets two names change places; False where the system cannot do that.

    Raises:
        OSError: it can, but failed.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    result = rename(
        _AT_FDCWD,
        os.fsencode(one),
        _AT_FDCWD,
        os.fsencode(other),
        ctypes.c_uint(_RENAME_EXCHANGE),
    )
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), other)


def _sweep(link: str, done: Published, keep: int) -> None:
    """Removes directories of older publishes, and what killed ones left."""
    parent, name = os.path.split(link)
    pattern = re.compile(re.escape(name) + _STAMP + r"((\.stage)?\.tmp|\.link)?")
    older: list[str] = []
    for entry in os.listdir(parent):
        match = pattern.fullmatch(entry)
        path = os.path.join(parent, entry)
        if match is None or path == done.directory:
            continue
        if match.group(1) == ".link":
            if os.path.islink(path) and _is_abandoned(os.path.realpath(path)):
                os.unlink(path)
        elif os.path.islink(path) or not os.path.isdir(path):
            continue
        elif match.group(1):
            if _is_abandoned(path):
                remove(files_at(path, subdir=True))
        else:
            older.append(path)
    older.sort(reverse=True)
    if done.previous in older:
        older.remove(done.previous)
        older.insert(0, done.previous)
    for path in older[keep:]:
        if not _is_abandoned(path):
            continue
        if remove(files_at(path, subdir=True)):
            done.removed.append(path)
        else:
            done.kept.append(path)


def _is_abandoned(path: str) -> bool:
    """Whether no publish is at work in a directory."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _fsync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
