"""A memcached that does what a test tells it to, however wrong.

A script is an asynchronous function that is called for each ``get``, in the
order of its connection, and sends what it likes:

    async def slowly(peer: Peer, get: Get) -> None:
        await peer.delay(0.1)
        await peer.send(peer.reply(get))

``answer`` is the right thing; the functions below it make wrong ones.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .memcached import connect, to_bytes, url_of


@dataclass(frozen=True)
class Get:
    """A ``get`` as it came.

    Args:
        connection: which one, from 0, in the order they were accepted.
        number: which ``get`` of its connection, from 0.
        keys: what it asks for.
    """

    connection: int
    number: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Read:
    """What one read from a connection brought."""

    connection: int
    data: bytes


class Gone(Exception):
    """The client has closed the connection."""


class Peer(asyncio.Protocol):
    """The fake's side of one connection."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.number = -1
        self._buffer = b""
        self._gets: asyncio.Queue[Get] = asyncio.Queue()
        self._asked = 0
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # what a script may do

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's transport."""
        assert self._transport is not None
        return self._transport

    def value(self, key: str) -> bytes:
        """Return the VALUE of a key with its data, nothing if it is not there."""
        found = self.fake.values.get(key)
        if found is None:
            return b""
        flags, data = found
        head = f"VALUE {key} {flags} {len(data)}\r\n".encode()
        return head + data + b"\r\n"

    def reply(self, get: Get) -> bytes:
        """Return what a memcached would answer."""
        return b"".join(self.value(key) for key in get.keys) + b"END\r\n"

    async def send(self, data: bytes) -> None:
        """Send bytes as they are.

        Raises:
            Gone: nobody is there any more.
        """
        if self._gone.is_set():
            raise Gone
        self.transport.write(data)
        await asyncio.sleep(0)

    async def send_bytewise(self, data: bytes, seconds: float = 0.0005) -> None:
        """Send byte by byte, so many seconds from one to the next."""
        for n in range(len(data)):
            await self.send(data[n : n + 1])
            await asyncio.sleep(seconds)

    async def delay(self, seconds: float) -> None:
        """Be slow."""
        await asyncio.sleep(seconds)

    async def hold(self) -> None:
        """Wait until the test calls ``release``.

        Raises:
            Gone: the client has closed before.
        """
        released = asyncio.ensure_future(self.fake.released.wait())
        gone = asyncio.ensure_future(self._gone.wait())
        self.fake.holding += 1
        try:
            await asyncio.wait({released, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.fake.holding -= 1
            released.cancel()
            gone.cancel()
        if self._gone.is_set():
            raise Gone

    async def hold_for_ever(self) -> None:
        """Wait until the client closes.

        Raises:
            Gone: it has.
        """
        await self._gone.wait()
        raise Gone

    def close(self) -> None:
        """Close the connection (FIN), after what was sent."""
        self.transport.close()

    def reset(self) -> None:
        """Close the connection by a TCP reset."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.fake.joined(self)
        if self.fake.deaf:
            # after the reader is added, which asyncio does next (Python < 3.12)
            asyncio.get_running_loop().call_soon(transport.pause_reading)
        self._task = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        """Take bytes apart into commands."""
        self.fake.reads.append(Read(self.number, data))
        self._buffer += data
        while b"\r\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\r\n")
            words = line.decode("latin-1").split(" ")
            if words[0] != "get" or len(words) < 2 or not all(words):
                self.fake.failed(AssertionError(f"no get: {line!r}"))
                self.close()
                return
            get = Get(self.number, self._asked, tuple(words[1:]))
            self._asked += 1
            self.fake.gets.append(get)
            self._gets.put_nowait(get)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has closed, or we have."""
        self._gone.set()
        # when this returns the socket is closed, and then it has left
        asyncio.get_running_loop().call_soon(self.fake.left, self)
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        try:
            if self.fake.greeting:
                await self.send(self.fake.greeting)
            while True:
                get = await self._gets.get()
                await self.fake.script(self, get)
        except Gone:
            pass
        except Exception as failure:
            self.fake.failed(failure)
            raise


Script = Callable[[Peer, Get], Awaitable[None]]


# scripts


async def answer(peer: Peer, get: Get) -> None:
    """Answer as a memcached does."""
    await peer.send(peer.reply(get))


async def never(peer: Peer, get: Get) -> None:
    """Answer nothing."""
    await peer.hold_for_ever()


async def hold(peer: Peer, get: Get) -> None:
    """Answer rightly, but not before the test calls ``release``."""
    await peer.hold()
    await peer.send(peer.reply(get))


async def hang_up(peer: Peer, get: Get) -> None:
    """Close without an answer."""
    peer.close()


def late(seconds: float) -> Script:
    """Answer rightly, so many seconds later."""

    async def script(peer: Peer, get: Get) -> None:
        await peer.delay(seconds)
        await peer.send(peer.reply(get))

    return script


def bytewise(seconds: float = 0.0005) -> Script:
    """Answer rightly, byte by byte, so many seconds from one to the next."""

    async def script(peer: Peer, get: Get) -> None:
        await peer.send_bytewise(peer.reply(get), seconds)

    return script


def changed(change: Callable[[bytes, Get], bytes]) -> Script:
    """Send what a function makes of the right answer."""

    async def script(peer: Peer, get: Get) -> None:
        await peer.send(change(peer.reply(get), get))

    return script


def raw(data: bytes) -> Script:
    """Send these bytes, whatever was asked."""
    return changed(lambda reply, get: data)


def cut(length: int, then: str) -> Script:
    """Send the beginning of the right answer, and then?

    Args:
        length: bytes that are sent; from the end if negative.
        then: ``hold`` until ``release``, then the rest; ``stall`` for ever;
            ``close`` or ``reset``.
    """

    async def script(peer: Peer, get: Get) -> None:
        reply = peer.reply(get)
        await peer.send(reply[:length])
        if then == "hold":
            await peer.hold()
            await peer.send(reply[length:])
        elif then == "stall":
            await peer.hold_for_ever()
        elif then == "close":
            peer.close()
        else:
            assert then == "reset", then
            peer.reset()

    return script


class Fake:
    """A scripted memcached on an ephemeral port of 127.0.0.1.

    Args:
        script: called for each ``get``; may be exchanged at any time.
        unix: the path of a socket to listen on instead.
        host: the address to listen on.
        port: 0 for one that is free.
        deaf: accept connections, but read nothing before ``listen_up``; what
            the kernel takes is kept small.
        greeting: bytes sent to whoever connects, unasked.
    """

    def __init__(
        self,
        script: Script = answer,
        unix: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        deaf: bool = False,
        greeting: bytes = b"",
    ) -> None:
        self.script = script
        self.deaf = deaf
        self.greeting = greeting
        self.values: dict[str, tuple[int, bytes]] = {}
        self.reads: list[Read] = []
        self.gets: list[Get] = []
        self.accepted = 0
        self.holding = 0
        self._peers: set[Peer] = set()
        self._failures: list[BaseException] = []
        self._socket = _listening(unix, host, port, small=deaf)
        self.address: tuple[str, int] | str = (
            unix if unix else (host, _port(self._socket))
        )
        self._loop = asyncio.new_event_loop()
        self.released = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server = self._loop.run_until_complete(self._listen())
        self._thread.start()

    async def _listen(self) -> asyncio.Server:
        if isinstance(self.address, str):
            return await self._loop.create_unix_server(
                lambda: Peer(self), sock=self._socket
            )
        return await self._loop.create_server(lambda: Peer(self), sock=self._socket)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    # where it is

    @property
    def url(self) -> str:
        """For http_sendfile_lookup and ``server``."""
        return url_of(self.address)

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert isinstance(self.address, tuple)
        return self.address[1]

    # what it holds

    def put(self, key: int | str, value: object, flags: int = 0) -> None:
        """Store a value, as ``Memcached.put``."""
        self.values[str(key)] = (flags, to_bytes(value))

    # what it has seen

    @property
    def open(self) -> int:
        """Connections that are open at this moment."""
        return len(self._peers)

    def lines(self) -> list[list[str]]:
        """Return the keys of each ``get`` so far, in their order."""
        return [list(get.keys) for get in list(self.gets)]

    def asked(self) -> list[str]:
        """Return all keys asked for so far, in their order."""
        return [key for get in list(self.gets) for key in get.keys]

    def received(self, connection: int = 0) -> bytes:
        """Return all bytes that came on a connection."""
        return b"".join(r.data for r in list(self.reads) if r.connection == connection)

    # what it shall do

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        assert done.wait(60), "the fake memcached hangs"

    def release(self) -> None:
        """Let all scripts that hold go on, and those to come."""
        self._call(self.released.set)

    def hold_again(self) -> None:
        """From now on scripts that hold wait for the next ``release``."""
        self._call(self.released.clear)

    def release_once(self) -> None:
        """Let the scripts go on that hold now, but not those to come."""

        def once() -> None:
            self.released.set()
            self.released.clear()

        self._call(once)

    def listen_up(self) -> None:
        """Begin to read what was not read because it was deaf."""

        def resume() -> None:
            self.deaf = False
            for peer in self._peers:
                peer.transport.resume_reading()

        self._call(resume)

    def hang_up(self) -> None:
        """Close all connections (FIN)."""

        def close() -> None:
            for peer in list(self._peers):
                peer.close()

        self._call(close)

    def say(self, data: bytes) -> None:
        """Send bytes on all connections, unasked."""

        def send() -> None:
            for peer in self._peers:
                peer.transport.write(data)

        self._call(send)

    def close(self) -> None:
        """Close all.

        Raises:
            AssertionError: a script had raised, or something that is no
                ``get`` had come.
        """

        def close() -> None:
            self._server.close()
            for peer in list(self._peers):
                peer.transport.abort()

        self._call(close)
        # connection_lost is called in a later turn
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if isinstance(self.address, str):
            os.unlink(self.address)
        assert not self._failures, f"the fake memcached: {self._failures}"

    async def _settle(self) -> None:
        me = asyncio.current_task()
        while rest := [t for t in asyncio.all_tasks() if t is not me]:
            await asyncio.wait(rest, timeout=0.05)

    # for its peers

    def joined(self, peer: Peer) -> None:
        """Count a connection."""
        peer.number = self.accepted
        self.accepted += 1
        self._peers.add(peer)

    def left(self, peer: Peer) -> None:
        """Forget a connection."""
        self._peers.discard(peer)

    def failed(self, failure: BaseException) -> None:
        """Note what fails the test."""
        self._failures.append(failure)


def _listening(unix: str | None, host: str, port: int, small: bool) -> socket.socket:
    if unix is not None:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(unix)
        os.chmod(unix, 0o777)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if small:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.bind((host, port))
    sock.listen(128)
    return sock


def _port(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


class BlackHole:
    """An address that neither accepts nor refuses: a connect there hangs.

    The queue of a listening socket is full, so that the kernel drops every
    SYN. (On a unix socket, where nothing can be dropped, a connect that does
    not block fails with EAGAIN.)

    Args:
        unix: the path of a socket instead of a port of 127.0.0.1.
    """

    def __init__(self, unix: str | None = None) -> None:
        self._socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        if unix:
            self._socket.bind(unix)
            os.chmod(unix, 0o777)
        else:
            self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(0)
        self.address: tuple[str, int] | str = (
            unix if unix else ("127.0.0.1", _port(self._socket))
        )
        self._fillers: list[socket.socket] = []
        self.url = url_of(self.address)
        for _ in range(10):
            try:
                self._fillers.append(connect(self.address, 0.2))
            except (TimeoutError, BlockingIOError):
                return
        raise AssertionError("this kernel's queue of connections does not fill up")

    def close(self) -> None:
        """Be gone."""
        for sock in [self._socket, *self._fillers]:
            sock.close()
