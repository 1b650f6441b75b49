"""A stand-in for oha, as far as the benchmark uses it, and slower.

usage: paced.py --no-tui --urls-from-file -z 400ms -q RATE -c CONNECTIONS
           -t TIMEOUTms ... --output REPORT LIST

A request is due at its time, answered or not, and its latency counts from then.
Those that are due, but not sent when the time is over, are dropped. The report
is of oha's form.
"""

import argparse
import http.client
import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

VERSION = "oha (stand-in)"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

# threads, of which each has a connection; Python has no use for more
_MOST = 8


class Run:
    """Some threads that share the requests of a run.

    Args:
        urls: from which they draw.
        rate: requests a second.
        seconds: for which requests are due.
        timeout: seconds, after which a request has no answer.
    """

    def __init__(
        self, urls: list[str], rate: int, seconds: float, timeout: float
    ) -> None:
        self._paths = [urlsplit(url).path for url in urls]
        self._address = urlsplit(urls[0]).netloc
        self._rate = rate
        self._timeout = timeout
        self._lock = threading.Lock()
        self._next = 0
        self._begin = time.monotonic()
        self._end = self._begin + seconds
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.bytes = 0

    def _due(self) -> float | None:
        """Wait for the next request's time, and return it; None at the end."""
        with self._lock:
            due = self._begin + self._next / self._rate
            self._next += 1
        time.sleep(max(0.0, min(due, self._end) - time.monotonic()))
        return due if due < self._end and time.monotonic() < self._end else None

    def ask(self) -> None:
        """Send requests until the time is over."""
        connection = http.client.HTTPConnection(self._address, timeout=self._timeout)
        while (due := self._due()) is not None:
            try:
                connection.request("GET", random.choice(self._paths))
                answer = connection.getresponse()
                size = len(answer.read())
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                with self._lock:
                    self.errors[type(error).__name__] += 1
                continue
            with self._lock:
                self.latencies.append(time.monotonic() - due)
                self.statuses[str(answer.status)] += 1
                self.bytes += size
        connection.close()

    def report(self) -> dict[str, object]:
        """Return what came of it."""
        found = sorted(self.latencies)
        return {
            "summary": {
                "total": time.monotonic() - self._begin,
                "average": sum(found) / len(found) if found else None,
                "slowest": found[-1] if found else None,
                "totalData": self.bytes,
            },
            "latencyPercentiles": {
                name: found[int(part * (len(found) - 1))] if found else None
                for name, part in PERCENTILES.items()
            },
            "statusCodeDistribution": dict(self.statuses),
            "errorDistribution": dict(self.errors),
        }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version=VERSION)
    for flag in ("--no-tui", "--urls-from-file", "--latency-correction", "-w"):
        parser.add_argument(flag, action="store_true", required=True)
    parser.add_argument("--disable-compression", action="store_true", required=True)
    parser.add_argument("--redirect", choices=["0"], required=True)
    parser.add_argument("--output-format", choices=["json"], required=True)
    for flag in ("-z", "-q", "-c", "-t", "--output"):
        parser.add_argument(flag, required=True)
    parser.add_argument("list", type=Path)
    options = parser.parse_args()
    run = Run(
        options.list.read_text().split(),
        int(options.q),
        int(options.z.removesuffix("ms")) / 1_000,
        int(options.t.removesuffix("ms")) / 1_000,
    )
    threads = [
        threading.Thread(target=run.ask) for _ in range(min(_MOST, int(options.c)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Path(options.output).write_text(json.dumps(run.report()))


if __name__ == "__main__":
    main()
