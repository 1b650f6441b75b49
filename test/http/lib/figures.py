"""What a status location says: its JSON, its metrics, and sums of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from .client import Connection
from .nginx import Nginx
from .wait import wait_until

OPENMETRICS = "application/openmetrics-text"
# what Prometheus 3 sends
ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

Figures = dict[str, Any]
# a sample's name and labels to its value
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def figures(nginx: Nginx, on: Connection | None = None) -> Figures:
    """Return the JSON of ``/status/json``, read strictly."""
    response = on.request("GET", "/status/json") if on else nginx.get("/status/json")
    assert response.status == 200, response
    assert response.header("Content-Type") == "application/json"
    assert response.header("Cache-Control") == "no-store"
    found: Figures = json.loads(response.body.decode("utf-8"))
    return found


def samples(nginx: Nginx, accept: str | None = None) -> Samples:
    """Return the samples of ``/status/metrics``, by one of the official parsers.

    Args:
        nginx: to ask.
        accept: the request's Accept; it decides about the format.
    """
    headers = [("Accept", accept)] if accept else []
    response = nginx.request("GET", "/status/metrics", headers)
    assert response.status == 200, response
    assert response.header("Cache-Control") == "no-store"
    kind = response.header("Content-Type")
    text = response.body.decode("utf-8")
    found: Samples = {}
    if kind == "application/openmetrics-text; version=1.0.0; charset=utf-8":
        families = list(parse_openmetrics(text))  # type: ignore[no-untyped-call]
    else:
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        families = list(parse_text(text))
    for family in families:
        assert family.type != "unknown" and family.documentation, family
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples of a metric that have these labels."""
    name = f"ngx_sendfile_{name}"
    wanted = set(labels.items())
    return sum(v for (n, have), v in found.items() if n == name and wanted <= set(have))


def row(rows: Iterable[Figures], **names: str) -> Figures:
    """Return the one of some objects that has these members."""
    found = [r for r in rows if all(r[n] == v for n, v in names.items())]
    assert len(found) == 1, (names, list(rows))
    return found[0]


def requests(one: Figures) -> dict[tuple[str, str], int]:
    """Return a location's requests by result and source."""
    return {(r["result"], r["source"]): r["count"] for r in one["requests"]}


def wait_for_total(nginx: Nginx, total: int) -> Figures:
    """Return the figures once so many requests are counted: not one more."""
    found = wait_for(nginx, lambda f: f["requests"]["total"] >= total)
    assert found["requests"]["total"] == total
    return found


def wait_for(nginx: Nginx, ready: Callable[[Figures], bool]) -> Figures:
    """Return the figures once they are as wanted."""

    def look() -> Figures:
        found = figures(nginx)
        return found if ready(found) else {}

    return wait_until(look, what="figures")
