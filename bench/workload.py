"""What is asked of a contestant, and what it must answer."""

import random
from collections.abc import Iterable
from typing import Protocol

from bench.dataset import FileSet, IdStore


class Workload(Protocol):
    """A set of requests, numbered from 0 to count - 1."""

    @property
    def count(self) -> int:
        """How many different requests there are."""

    def url(self, index: int) -> str:
        """Return the request's path."""

    def body(self, index: int) -> bytes:
        """Return the exact body of the answer."""

    def size(self, index: int) -> int:
        """Return the body's length in bytes."""


class PathWorkload:
    """Files by path: /files/aa/bb/ID.dat.

    Args:
        files: the files that are asked for.
        prefix: what stands before their paths.
    """

    def __init__(self, files: FileSet, prefix: str = "/files/") -> None:
        self._files = files
        self._urls = [prefix + files.path(i) for i in range(len(files.sizes))]

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self._urls)

    def url(self, index: int) -> str:
        """Return the file's URL path."""
        return self._urls[index]

    def body(self, index: int) -> bytes:
        """Return the file's content."""
        return self._files.body(index)

    def size(self, index: int) -> int:
        """Return the file's length in bytes."""
        return self._files.sizes[index]


class IdWorkload:
    """Files by ID: /file/ID.

    Args:
        store: the store that knows the IDs.
    """

    def __init__(self, store: IdStore) -> None:
        self._store = store

    @property
    def count(self) -> int:
        """How many IDs the store has."""
        return self._store.ids

    def url(self, index: int) -> str:
        """Return the ID's URL path."""
        return f"/file/{self._store.id(index)}"

    def body(self, index: int) -> bytes:
        """Return the content of the file that the ID points at."""
        return self._store.files.body(self._store.file_index(index))

    def size(self, index: int) -> int:
        """Return the length of the file that the ID points at."""
        return self._store.files.sizes[self._store.file_index(index)]


class OneWorkload:
    """One request and its answer.

    Args:
        url: its path.
        body: of the answer.
    """

    def __init__(self, url: str, body: bytes) -> None:
        self._url = url
        self._body = body

    @property
    def count(self) -> int:
        """One."""
        return 1

    def url(self, index: int) -> str:
        """Return the one path."""
        return self._url

    def body(self, index: int) -> bytes:
        """Return the one body."""
        return self._body

    def size(self, index: int) -> int:
        """Return its length in bytes."""
        return len(self._body)


class FixedWorkload:
    """Requests of the same form as another workload's, one answer to all.

    Args:
        like: the workload whose URLs are used.
        body: of each answer.
    """

    def __init__(self, like: Workload, body: bytes) -> None:
        self._like = like
        self._body = body

    @property
    def count(self) -> int:
        """How many different requests there are."""
        return self._like.count

    def url(self, index: int) -> str:
        """Return the request's path."""
        return self._like.url(index)

    def body(self, index: int) -> bytes:
        """Return the one body."""
        return self._body

    def size(self, index: int) -> int:
        """Return its length in bytes."""
        return len(self._body)


def random_indexes(workload: Workload, seed: int, count: int) -> list[int]:
    """Draw requests uniformly.

    The same seed draws the same fractions for every workload, so two
    workloads over the same files get the same sequence of files.

    Args:
        workload: what to draw from.
        seed: of the generator.
        count: how many requests.
    """
    draw = random.Random(seed).random
    size = workload.count
    return [int(draw() * size) for _ in range(count)]


def covering_indexes(workload: Workload, seed: int, limit: int) -> list[int]:
    """Return every request once, or ``limit`` evenly spaced ones, shuffled.

    Meant for a warm-up: it touches every file, and, as a leaf page of a store
    holds about 110 keys, every page of a store of up to ``limit`` pages.

    Args:
        workload: what to draw from.
        seed: of the shuffle.
        limit: how many requests at most.
    """
    step = max(1, workload.count / limit)
    indexes = [int(i * step) for i in range(int(workload.count / step))]
    random.Random(seed).shuffle(indexes)
    return indexes


def mean_size(workload: Workload, indexes: Iterable[int]) -> float:
    """Return the mean body length of the requests in bytes."""
    sizes = [workload.size(index) for index in indexes]
    return sum(sizes) / len(sizes)
