"""A slow way to a store: what it has said arrives later.

Between a read and its arrival a record can be changed and purged, and the other
way round, which on one machine hardly ever happens by itself.
"""

from __future__ import annotations

import random
import socket
import threading


class Relay:
    """Passes connections on to an address of 127.0.0.1, and answers slowly.

    Args:
        port: where they are passed on to.
        chance: how slow each piece of an answer is.
    """

    def __init__(self, port: int, chance: random.Random) -> None:
        self._to = port
        self._chance = chance
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._closed = threading.Event()
        self._threads = [self._start(self._accept)]

    def _start(self, target: object, *arguments: object) -> threading.Thread:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                here.close()
                continue
            for sock in (here, there):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(sock)
            self._threads.append(self._start(self._pass, here, there, (0.0,)))
            delays = (0.0,) * 6 + (0.01, 0.03, 0.1)
            self._threads.append(self._start(self._pass, there, here, delays))

    def _pass(
        self, source: socket.socket, to: socket.socket, delays: tuple[float, ...]
    ) -> None:
        """Pass on what comes, to the end of either side."""
        try:
            while data := source.recv(65536):
                if delay := self._chance.choice(delays):
                    self._closed.wait(delay)
                to.sendall(data)
        except OSError:
            # the other side has gone, as it is told now
            pass
        finally:
            for sock in (source, to):
                _shut(sock)

    def close(self) -> None:
        """End all connections."""
        self._closed.set()
        _shut(self._listening)
        self._listening.close()
        for sock in self._sockets:
            _shut(sock)
        for thread in self._threads:
            thread.join()
        for sock in self._sockets:
            sock.close()


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # it was closed already
        return
