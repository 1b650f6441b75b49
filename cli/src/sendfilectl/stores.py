"""Where IDs are kept: the interface of a store, and the URL that names one.

A new kind of store is one module with a class that has the methods of Store,
and two lines in open_store().
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import (
    Callable,
    Protocol,
)

from sendfilectl.cluster import parse_cluster
from sendfilectl.errors import StoreError, UsageError

# a value that came with flags, or is to have some, is a Value
Item = tuple[bytes, bytes]

_SCHEME = re.compile(r"[a-z][a-z0-9_+.-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WRITE = "write lmdb:/path or memcached://host[:port]"


class Outcome:
    """What becomes of the items of one put(), kept while it goes on, so that
    it is right as well when an error or a signal ends the call.

    Args:
        size: how many items there are.

    Attributes:
        stored: for each item, whether it is in the store for certain.
        errors: by position, why the store did not take an item.
    """

    def __init__(self, size: int) -> None:
        self.stored = bytearray(size)
        self.errors: dict[int, StoreError] = {}

    def all_stored(self) -> None:
        """Every item is in the store."""
        self.stored = bytearray(b"\1") * len(self.stored)

    def count(self) -> int:
        """How many items are in the store."""
        return self.stored.count(1)

    def up_to(self) -> int:
        """How many items are in the store before the first that is not."""
        first = self.stored.find(0)
        return len(self.stored) if first < 0 else first


class Store(Protocol):
    """A set of keys with values. Everything may raise StoreError."""

    @property
    def url(self) -> str:
        """The URL as it was given."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | StoreError | None]:
        """The values of some keys, None where there is none, or why a store
        of several servers cannot say."""

    def put(self, items: Sequence[Item], outcome: Outcome) -> None:
        """Stores some items, replacing what their keys had; all or none where
        the store can do that. Of one key twice the last one counts.

        What fails for some items alone is in the outcome; StoreError means
        that there is no use in going on.
        """

    def delete(self, keys: Sequence[bytes]) -> list[bool | StoreError]:
        """Deletes some keys and tells which of them there were."""

    def items(self) -> AbstractContextManager[Iterator[Item]]:
        """All items as they are at this moment, in the order of the keys, as
        far as the store can do that."""

    def count(self) -> int | None:
        """How many items there are, None if that is not known."""

    def close(self) -> None:
        """Lets go of the store. It is not used after that."""


@dataclass(frozen=True)
class Permissions:
    """Who may use the files of a store that is created.

    Attributes:
        group: the group ID of the files, None for the process's own.
        lock: mode of the lock file, which sendfilectl needs to read and write;
            nginx does without.
        data: mode of the data file.
        directory: mode of the directory.
        owner: the user ID of the files, None for the process's own.
        explicit: the user asked for them, so they apply to a store that
            exists as well.
    """

    group: int | None = None
    lock: int = 0o660
    data: int = 0o644
    directory: int = 0o755
    owner: int | None = None
    explicit: bool = False


@dataclass(frozen=True)
class Options:
    """How to open a store.

    Attributes:
        write: for writing.
        create: if there is none, make one (implies write).
        single_file: make it one file in place of a directory.
        permissions: of what is made.
        ttl: seconds after which what is stored is gone, None for never.
        connect_timeout: seconds for a connection to a server.
        timeout: seconds to wait for a server that says nothing.
        note: where to say that something takes long.
        fail: where to say why the program ends while it is blocked.
    """

    write: bool = False
    create: bool = False
    single_file: bool = False
    permissions: Permissions = Permissions()
    ttl: int | None = None
    connect_timeout: float = 1.0
    timeout: float = 5.0
    note: Callable[[str], None] = lambda text: None
    fail: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class StoreUrl:
    """A store's URL, taken apart.

    Attributes:
        text: as it was given.
        scheme: "lmdb", "memcached".
        rest: what follows the colon; an absolute path for lmdb.

    ``memcached`` has servers, which cluster.py reads.
    """

    text: str
    scheme: str
    rest: str


def parse_url(text: str) -> StoreUrl:
    """Takes a store's URL apart, as the directive http_sendfile_lookup does.

    Raises:
        UsageError: it is none, with what to write instead.
    """
    if not text:
        raise UsageError(f"the store is empty: {_WRITE}")
    if _CONTROL.search(text):
        raise UsageError(f"the store {text!r} holds a control byte")
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        raise UsageError(f"'{text}' is not a store: write lmdb:{os.path.abspath(text)}")
    if not _SCHEME.fullmatch(scheme):
        raise UsageError(f"'{text}' is not a store: {_WRITE}")
    if scheme == "memcached":
        parse_cluster(text)
        return StoreUrl(text, scheme, rest)
    if scheme != "lmdb":
        raise UsageError(f"no store is called '{scheme}:': {_WRITE}")
    if rest.startswith("//"):
        if not rest.startswith("///") or rest.startswith("////"):
            raise UsageError(
                f"'{text}' names a host: write lmdb:/{rest.strip('/')}, one slash"
            )
        rest = rest[2:]
    if not rest.startswith("/"):
        where = f"lmdb:{os.path.abspath(rest)}" if rest else "lmdb:/path"
        raise UsageError(f"'{text}' needs an absolute path: write {where}")
    if not rest.strip("/"):
        raise UsageError(f"'{text}' is the root directory: write lmdb:/path")
    return StoreUrl(text, scheme, rest.rstrip("/"))


def open_store(url: StoreUrl, options: Options) -> Store:
    """Opens the store that a URL names.

    Raises:
        StoreError: it cannot be opened.
    """
    if url.scheme == "memcached":
        from sendfilectl.memcached_store import MemcachedStore

        return MemcachedStore(url, options)
    from sendfilectl.lmdb_store import LmdbStore

    return LmdbStore(url, options)


def batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most so many items."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
