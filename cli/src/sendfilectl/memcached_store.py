"""Memcached as a store: one server, or several that share the keys.

A key is written to the one server that its distribution names, or not at
all: what went elsewhere while a server is down would be out of date when it
is back. And a connection that was lost is not made again, since a memcached
that was restarted has lost what this run had stored in it.

pymemcache is the client of each server. What it has no call for goes over its
socket: many sets with one reply each, and the list of all keys.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Callable, cast
from urllib.parse import unquote_to_bytes

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)

from sendfilectl.cluster import parse_cluster
from sendfilectl.connect import connect
from sendfilectl.contract import check_key, show
from sendfilectl.errors import Refused, StoreError
from sendfilectl.ring import Server
from sendfilectl.signals import interruptible
from sendfilectl.stores import Item, Options, Outcome, StoreUrl
from sendfilectl.unwrap import Value, flags_of

# of one round trip to one server; all replies fit into a socket's buffer
PIPELINE = 500
PIPELINE_BYTES = 256 << 10

# of one multi-get
GET_KEYS = 100
GET_BYTES = 1 << 20

# a longer time is a point in time to memcached
_MAX_RELATIVE = 30 * 86400

# memcached's crawler does its own rounds; only then it is busy
_BUSY_WAIT = 30.0
_BUSY_PAUSE = 0.1

_STORED = (b"STORED",)
_DELETED = (b"DELETED", b"NOT_FOUND")

_CHUNK = 1 << 16
_MAX_LINE = 2048

_NO_LIST = (
    "cannot list its keys: that takes memcached 1.4.31 or newer with its LRU "
    "crawler on (the default from 1.5.0) and without --disable-dumping"
)


class MemcachedStore:
    """A store in memcached, see Store. Connects when there is something to do.

    Args:
        url: its servers.
        options: times, and how long values live.

    Raises:
        UsageError: the URL has a mistake.
    """

    def __init__(self, url: StoreUrl, options: Options) -> None:
        cluster = parse_cluster(url.text)
        self._url = url
        self._options = options
        self._distribution = cluster.distribution
        self._ring = cluster.ring()
        self._connections = [Connection(s, options) for s in cluster.servers]

    @property
    def url(self) -> str:
        """The URL as it was given."""
        return self._url.text

    def get(self, keys: Sequence[bytes]) -> list[bytes | StoreError | None]:
        """The values of some keys, with their flags; None where there is
        none, an error where the server cannot be asked.

        Raises:
            StoreError: no server can be asked.
        """
        found: list[bytes | StoreError | None] = [None] * len(keys)
        for connection, positions in self._by_server(keys):
            for chunk in _slices(positions, GET_KEYS):
                try:
                    values = connection.get([keys[i] for i in chunk])
                except StoreError as error:
                    self._check_reachable()
                    for i in chunk:
                        found[i] = error
                else:
                    for i in chunk:
                        found[i] = values.get(keys[i])
        return found

    def put(self, items: Sequence[Item], outcome: Outcome | None = None) -> None:
        """Stores items, those of a server that can be reached.

        Raises:
            StoreError: no server can be reached; the outcome tells what was
                stored before, and has no errors because of it.
        """
        if outcome is None:
            outcome = Outcome(len(items))
        # a few at a time, so that those stored are the first ones at any time
        for part in _slices(range(len(items)), PIPELINE * len(self._connections)):
            for connection, places in self._by_server([items[i][0] for i in part]):
                self._put(connection, items, [part[i] for i in places], outcome)

    def _put(
        self,
        connection: Connection,
        items: Sequence[Item],
        positions: Sequence[int],
        outcome: Outcome,
    ) -> None:
        for chunk in _by_size(positions, items):
            expire = self._expire()
            request = b"".join(_set(items[i], expire) for i in chunk)
            replies: list[bytes] = []
            lost: StoreError | None = None
            try:
                connection.pipeline(request, len(chunk), _STORED, replies)
            except StoreError as error:
                lost = error
            finally:
                # also when a signal ended it
                for i, reply in zip(chunk, replies):
                    if reply in _STORED:
                        outcome.stored[i] = 1
                    else:
                        outcome.errors[i] = connection.refusal(reply)
            if lost is not None:
                self._check_reachable()
                for i in chunk[len(replies) :]:
                    outcome.errors[i] = lost

    def _expire(self) -> int:
        """The ttl as memcached wants it now."""
        ttl = self._options.ttl or 0
        return ttl if ttl <= _MAX_RELATIVE else int(time.time()) + ttl

    def delete(self, keys: Sequence[bytes]) -> list[bool | StoreError]:
        """Deletes keys and tells which of them there were.

        Raises:
            StoreError: no server can be reached.
        """
        were: list[bool | StoreError] = [False] * len(keys)
        for connection, positions in self._by_server(keys):
            for chunk in _slices(positions, PIPELINE):
                request = b"".join(b"delete %b\r\n" % keys[i] for i in chunk)
                replies: list[bytes] = []
                lost: StoreError | None = None
                try:
                    connection.pipeline(request, len(chunk), _DELETED, replies)
                except StoreError as error:
                    self._check_reachable()
                    lost = error
                for i, reply in zip(chunk, replies):
                    if reply in _DELETED:
                        were[i] = reply == b"DELETED"
                    else:
                        were[i] = connection.refusal(reply)
                if lost is not None:
                    for i in chunk[len(replies) :]:
                        were[i] = lost
        return were

    @contextmanager
    def items(self) -> Iterator[Iterator[Item]]:
        """What memcached lists, in no order, with the values it has later on.

        Keys are left out that are not on the server where their distribution
        has them, as nobody would find them there.

        Raises:
            StoreError: a server cannot be asked, or does not list its keys.
        """
        yield self._items([connection.list_keys() for connection in self._connections])

    def _items(self, lists: list[bytes]) -> Iterator[Item]:
        for number, (connection, listed) in enumerate(zip(self._connections, lists)):
            bad = elsewhere = size = 0
            keys: list[bytes] = []
            for line in io.BytesIO(listed):
                quoted, _, length = line.rpartition(b" ")
                key = unquote_to_bytes(quoted)
                if not _is_key(key):
                    bad += 1
                elif self._ring.find(key) != number:
                    elsewhere += 1
                else:
                    keys.append(key)
                    size += int(length)
                if len(keys) >= GET_KEYS or size >= GET_BYTES:
                    yield from connection.get(keys).items()
                    keys.clear()
                    size = 0
            if keys:
                yield from connection.get(keys).items()
            name = connection.name
            if bad:
                self._options.note(f"{name}: {bad} keys that are no IDs passed over")
            if elsewhere:
                self._options.note(
                    f"{name}: {elsewhere} keys passed over that the distribution "
                    f"{self._distribution} has on another server"
                )

    def count(self) -> int:
        """How many items there are; some may be expired."""
        return sum(connection.count() for connection in self._connections)

    def close(self) -> None:
        """Closes the connections."""
        for connection in self._connections:
            connection.close()

    def _by_server(
        self, keys: Sequence[bytes]
    ) -> Iterator[tuple[Connection, list[int]]]:
        """The servers that have some keys, with the positions of these."""
        places: dict[int, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(self._ring.find(key), []).append(i)
        for number, positions in places.items():
            yield self._connections[number], positions

    def _check_reachable(self) -> None:
        """Raises what was wrong with the first server if none is left."""
        if all(connection.lost for connection in self._connections):
            error = self._connections[0].lost
            assert error is not None
            raise error


class Connection:
    """The connection to one server, made when it is needed, and only once.

    Args:
        server: where it is.
        options: its times.

    Attributes:
        name: the server, for messages.
        lost: why there is no connection any more.
    """

    def __init__(self, server: Server, options: Options) -> None:
        self.name = server.name
        self.lost: StoreError | None = None
        self._server = server
        self._options = options
        self._client: Client | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Value]:
        """The values of those keys that there are.

        Raises:
            StoreError: the server cannot be asked.
        """
        with self._talking() as client:
            return cast("dict[bytes, Value]", client.get_many(keys))

    def pipeline(
        self,
        request: bytes,
        count: int,
        good: Sequence[bytes],
        replies: list[bytes],
    ) -> None:
        """Sends commands with one line of a reply each.

        Args:
            request: the commands.
            count: how many they are.
            good: replies that are no error.
            replies: what was answered is added: one of these, or an error
                after which the server goes on.

        Raises:
            StoreError: the server was lost, or cannot be reached; commands
                without a reply may have been carried out.
        """
        with self._talking() as client:
            sock = _socket_of(client)
            sock.sendall(request)
            rest = b""
            while len(replies) < count:
                *lines, rest = (rest + _receive(sock)).split(b"\r\n")
                for line in lines:
                    if len(replies) == count or not (
                        line in good or line.startswith(b"SERVER_ERROR")
                    ):
                        raise _Unexpected(line)
                    replies.append(line)
                if len(rest) > _MAX_LINE or (rest and len(replies) == count):
                    raise _Unexpected(rest)

    def refusal(self, reply: bytes) -> StoreError:
        """An error that the server reported for one command."""
        return StoreError(f"{self.name} says {show(reply)}")

    def count(self) -> int:
        """How many items the server counts.

        Raises:
            StoreError: the server cannot be asked.
        """
        with self._talking() as client:
            stats: Callable[[], dict[bytes, int]] = client.stats
            return stats()[b"curr_items"]

    def list_keys(self) -> bytes:
        """All keys that the server lists: lines of the key, percent-encoded,
        a space, and the item's size in bytes or 0.

        They are read at once, since the list keeps memcached's crawler from
        its work, and versions before 1.6.44 may overflow a buffer of theirs
        if a client is slow to take it.

        Raises:
            StoreError: the server cannot be asked, or does not list them.
        """
        counted = self.count()
        # a connection of its own: some versions do not give it back
        with closing(Connection(self._server, self._options)) as connection:
            end = time.monotonic() + _BUSY_WAIT
            while True:
                with connection._talking() as client:
                    listed = _list_keys(_socket_of(client))
                if listed is not None:
                    break
                if time.monotonic() > end:
                    raise StoreError(f"{self.name}: its LRU crawler is busy: try again")
                with interruptible():
                    time.sleep(_BUSY_PAUSE)
        number = listed.count(b"\n")
        if number < counted:
            self._options.note(
                f"{self.name}: listed {number} of {counted} records; the others "
                "are expired, or were passed over while memcached moved them"
            )
        return listed

    def close(self) -> None:
        """Closes the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def _talking(self) -> Iterator[Client]:
        """The client, connected; signals come through meanwhile.

        Raises:
            StoreError: something went wrong; the connection is lost.
        """
        if self.lost is not None:
            raise self.lost
        try:
            with interruptible():
                if self._client is None:
                    self._client = self._connect()
                yield self._client
        except (OSError, MemcacheError, ValueError, KeyError) as error:
            self.lost = StoreError(f"{self.name}: {self._reason(error)}")
            raise self.lost from None
        finally:
            if self.lost is not None:
                self.close()

    def _reason(self, error: Exception) -> str:
        if isinstance(error, socket.timeout):
            if self._client is None:
                return f"no connection within {self._options.connect_timeout:g} s"
            return f"no answer within {self._options.timeout:g} s"
        if isinstance(error, OSError):
            return (error.strerror or str(error)).lower()
        if isinstance(error, MemcacheUnexpectedCloseError):
            return "closed the connection"
        if isinstance(error, _NoList):
            return f"{_NO_LIST}; it says {show(error.answer)}"
        if isinstance(error, _Unexpected):
            return f"unexpected answer: {show(error.answer)}"
        if isinstance(error, MemcacheUnknownCommandError):
            return "unexpected answer: ERROR"
        text = error.args[0] if error.args else b""
        what = show(text) if isinstance(text, bytes) else str(text)
        if isinstance(error, MemcacheServerError):
            return f"says SERVER_ERROR {what}"
        if isinstance(error, MemcacheClientError):
            return f"says CLIENT_ERROR {what}"
        return f"unexpected answer: {what}"

    def _connect(self) -> Client:
        server = self._server
        client = Client(
            (server.host, server.port) if server.port else server.host,
            serde=_Flags(),
        )
        # pymemcache would try the first of a name's addresses only
        client.sock = connect(
            server.host, server.port, self._options.connect_timeout, self._options.note
        )
        client.sock.settimeout(self._options.timeout)
        return client


class _Unexpected(MemcacheError):
    """An answer that the protocol does not have here."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer)
        self.answer = answer[:100]


class _NoList(_Unexpected):
    """The server says that it does not list its keys."""


class _Flags:
    """For pymemcache: values are bytes, and keep their flags."""

    def serialize(self, key: bytes, value: bytes) -> tuple[bytes, int]:
        return value, flags_of(value)

    def deserialize(self, key: bytes, value: bytes, flags: int) -> Value:
        return Value(value, flags)


def _socket_of(client: Client) -> socket.socket:
    if client.sock is None:
        raise MemcacheUnexpectedCloseError
    return client.sock


def _receive(sock: socket.socket) -> bytes:
    data = sock.recv(_CHUNK)
    if not data:
        raise MemcacheUnexpectedCloseError
    return data


def _set(item: Item, expire: int) -> bytes:
    key, value = item
    return b"set %b %d %d %d\r\n%b\r\n" % (
        key,
        flags_of(value),
        expire,
        len(value),
        value,
    )


def _list_keys(sock: socket.socket) -> bytes | None:
    """The list of all keys, see Connection.list_keys(); None if memcached is busy.

    The answer is lines such as ``key=a%20b exp=-1 la=… cas=… size=70``, which
    end with LF, and ``END`` with CRLF; or one line that says why not.
    """
    sock.sendall(b"lru_crawler metadump all\r\n")
    found = io.BytesIO()
    rest = b""
    while True:
        *lines, rest = (rest + _receive(sock)).split(b"\n")
        for line in lines:
            if not line.startswith(b"key="):
                break
            words = line.split()
            size = next((w[5:] for w in words if w.startswith(b"size=")), b"0")
            found.write(b"%b %d\n" % (words[0][4:], int(size)))
        else:
            if len(rest) > _MAX_LINE:
                raise _Unexpected(rest)
            continue
        line = line.rstrip(b"\r")
        if line == b"END" or line.startswith(b"NOTSTARTED"):
            return found.getvalue()
        if line.startswith(b"BUSY"):
            return None
        if b"ERROR" in line:
            raise _NoList(line)
        raise _Unexpected(line)


def _is_key(key: bytes) -> bool:
    try:
        check_key(key)
    except Refused:
        return False
    return True


def _slices(positions: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(positions), size):
        yield positions[start : start + size]


def _by_size(positions: Sequence[int], items: Sequence[Item]) -> Iterator[list[int]]:
    """Lists of positions whose items go into one request."""
    chunk: list[int] = []
    size = 0
    for i in positions:
        chunk.append(i)
        size += len(items[i][1])
        if len(chunk) >= PIPELINE or size >= PIPELINE_BYTES:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk
