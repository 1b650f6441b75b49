"""A load generator of few requests, where a test is not about the load."""

import http.client
import itertools
import ssl
import time
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from bench.model import Address, LoadResult

# Up to so many paths are all asked for, as before a measurement; of more only the
# first.
_ALL = 4_000
_SOME = 300

# seconds, after which it is enough, and requests, before which it is not
_LONGEST = 0.5
_LEAST = 20


class Few:
    """Asks one after the other, on one connection.

    Args:
        core: of the real one; this process stays where it is.
        connections: of the real one.
    """

    connections = 1

    def __init__(self, core: int | Sequence[int], connections: int) -> None:
        del core, connections

    def run(self, address: Address, paths: Iterable[str], seconds: int) -> LoadResult:
        """Request the paths in order, or some of them."""
        del seconds
        asked = list(itertools.islice(paths, _ALL + 1))
        whole = len(asked) <= _ALL
        bytes_ = errors = 0
        latencies: list[float] = []
        connection = _connection(address)
        begin = time.perf_counter()
        for path in asked if whole else asked[:_SOME]:
            sent = time.perf_counter()
            enough = sent - begin > _LONGEST and len(latencies) >= _LEAST
            if enough and not whole:
                break
            connection.request("GET", path)
            answer = connection.getresponse()
            bytes_ += _head_size(answer) + len(answer.read())
            errors += answer.status >= 400
            latencies.append((time.perf_counter() - sent) * 1e6)
        connection.close()
        latencies.sort()
        count = len(latencies)
        return LoadResult(
            requests=count,
            bytes=bytes_,
            seconds=time.perf_counter() - begin,
            connect_errors=0,
            read_errors=0,
            write_errors=0,
            status_errors=errors,
            timeouts=0,
            latency_mean_us=sum(latencies) / count,
            latency_p50_us=latencies[count // 2],
            latency_p99_us=latencies[count * 99 // 100],
            latency_max_us=latencies[-1],
        )

    def version(self) -> str:
        """Return a name."""
        return "few requests"


def _head_size(answer: http.client.HTTPResponse) -> int:
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
    lines += [f"{name}: {value}" for name, value in answer.getheaders()]
    return sum(len(line) + 2 for line in lines) + 2


def _connection(address: Address) -> http.client.HTTPConnection:
    parts = urlsplit(address.url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=60, context=context
        )
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
