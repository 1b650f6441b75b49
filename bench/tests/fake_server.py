"""A small HTTP server that can be told to misbehave.

Run as ``python -m bench.tests.fake_server PORT FAULT AFTER [LOG]``: it answers
``GET /N`` as body.body(N) says, and from the request number AFTER on as FAULT
says. LOG takes the path of each request.
"""

import asyncio
import os
import sys
from pathlib import Path

from bench.tests.body import body

FAULTS = (
    "status",
    "redirect",
    "other-file",
    "length-too-long",
    "length-too-short",
    "empty",
    "die",
    "close",
    "hang",
)


class Server:
    """Answers and counts.

    Args:
        fault: one of FAULTS or "none".
        after: how many requests are answered rightly first.
        log: file for the requested paths, or None.
    """

    def __init__(self, fault: str, after: int, log: Path | None) -> None:
        self._fault = fault
        self._left = after
        self._log = log.open("w") if log else None

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                if self._log:
                    print(path, file=self._log, flush=True)
                answer, keep = await self._answer(int(path[1:]))
                if keep and b"HTTP/1.0\r\n" in head:
                    # As ab needs it, which speaks HTTP/1.0.
                    answer = answer.replace(
                        b"\r\n", b"\r\nConnection: keep-alive\r\n", 1
                    )
                writer.write(answer)
                await writer.drain()
                if not keep:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _answer(self, number: int) -> tuple[bytes, bool]:
        content = body(number)
        self._left -= 1
        if self._fault == "none" or self._left >= 0:
            return _http("200 OK", len(content), content), True
        match self._fault:
            case "status":
                return _http("500 Internal Server Error", 0, b""), True
            case "redirect":
                return _http("302 Found", 0, b""), True
            case "other-file":
                other = body(number + 1)
                return _http("200 OK", len(other), other), True
            case "length-too-long":
                return _http("200 OK", len(content) + 10, content), False
            case "length-too-short":
                return _http("200 OK", len(content) - 10, content), True
            case "empty":
                return _http("200 OK", 0, b""), True
            case "die":
                os._exit(3)
            case "close":
                return b"", False
            case "hang":
                await asyncio.Event().wait()
        raise ValueError(self._fault)


def _http(status: str, length: int, content: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + content


async def _main(port: int, fault: str, after: int, log: Path | None) -> None:
    server = Server(fault, after, log)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(
        _main(
            int(sys.argv[1]),
            sys.argv[2],
            int(sys.argv[3]),
            Path(sys.argv[4]) if len(sys.argv) > 4 else None,
        )
    )
