"""The metrics of a status location: both formats, and what docs/status.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lib.cache import CACHE, STATUS, ZONE, purge
from lib.figures import (
    ACCEPT,
    OPENMETRICS,
    Samples,
    figures,
    samples,
    value,
    wait_for_total,
)
from lib.memcached import Memcached
from lib.nginx import REPOSITORY, Nginx
from lib.servers import add_many, location
from lib.site import INTERNAL, Site

pytest_plugins = ("lib.memcached_fixtures",)

DOCUMENT = (REPOSITORY / "docs" / "status.md").read_text()


@pytest.fixture
def busy(site: Site, memcached: Memcached) -> Nginx:
    """An nginx that has done something of many kinds."""
    site.variables["DELIVER"] = ""
    add_many(site, memcached, range(3))
    site.add(7, size=500)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {CACHE} }}"
        + location(memcached.url, name="mc")
        + STATUS
        + INTERNAL,
        http=ZONE,
    )
    for uri in ("/file/7", "/file/7", "/file/8", "/mc/0", "/mc/1", "/mc/9"):
        nginx.get(uri)
    purge(nginx, 7)
    wait_for_total(nginx, 6)
    return nginx


def kind(nginx: Nginx, *accept: str) -> str:
    """Return the Content-Type of the metrics for lines of Accept."""
    headers = [("Accept", line) for line in accept]
    answer = nginx.request("GET", "/status/metrics", headers).header("Content-Type")
    assert answer is not None
    return answer.partition(";")[0]


@pytest.mark.parametrize("accept", [None, OPENMETRICS, ACCEPT])
def test_figures(busy: Nginx, memcached: Memcached, accept: str | None) -> None:
    """Both formats have the figures of the JSON, by the official parsers."""
    found = samples(busy, accept)
    file = {"location": "/file/", "host": "localhost"}
    assert value(found, "requests_total") == 6
    assert value(found, "requests_total", **file) == 3
    assert value(found, "requests_total", **file, result="hit", source="cache") == 1
    assert value(found, "requests_total", **file, result="hit", source="store") == 1
    assert value(found, "requests_total", **file, result="miss", source="store") == 1
    assert value(found, "failures_total", **file, kind="miss") == 1
    assert value(found, "app_requests_avoided_total") == 4
    assert value(found, "files_sent_total", delivery="redirect") == 4
    assert value(found, "files_sent_total", delivery="direct") == 0
    assert value(found, "sent_bytes_total", **file) == 1000
    mc = {"store": memcached.url, "server": memcached.name}
    assert value(found, "lookups_total", **mc, outcome="hit") == 2
    assert value(found, "lookups_total", **mc, outcome="miss") == 1
    assert value(found, "lookups_total", **mc) == 3
    assert value(found, "lookup_duration_seconds_count", **mc) == 3
    assert value(found, "lookup_duration_seconds_bucket", **mc, le="+Inf") == 3
    assert value(found, "lookup_duration_seconds_sum", **mc) > 0
    assert value(found, "store_batch_keys_bucket", **mc, le="1.0") == 3
    assert value(found, "store_batch_keys_sum", **mc) == 3
    assert value(found, "store_up", **mc) == 1
    assert value(found, "cache_hits_total", zone="main", kind="record") == 1
    assert value(found, "cache_misses_total", zone="main", kind="record") == 2
    assert value(found, "cache_entries", zone="main", kind="positive") == 1
    assert value(found, "cache_size_bytes", zone="main") == 4 << 20
    assert value(found, "purges_total", kind="key") == 1
    told = figures(busy)
    assert value(found, "start_time_seconds") == told["start"]
    assert (
        value(found, "build_info", version=told["module"], nginx=told["nginx"]) == 1.0
    )


def test_formats_agree(busy: Nginx) -> None:
    """One format has what the other has."""
    assert samples(busy) == samples(busy, OPENMETRICS)


def test_histograms(busy: Nginx) -> None:
    """Buckets are cumulative, and reach from 100 microseconds to a second."""
    for name, first, last in (
        ("lookup_duration_seconds", "0.0001", "1.0"),
        ("store_batch_keys", "1.0", "100.0"),
    ):
        rows: dict[tuple[tuple[str, str], ...], list[tuple[str, float]]] = {}
        for (sample, labels), number in samples(busy).items():
            if sample == f"ngx_sendfile_{name}_bucket":
                le = dict(labels)["le"]
                others = tuple(x for x in labels if x[0] != "le")
                rows.setdefault(others, []).append((le, number))
        assert rows
        for buckets in rows.values():
            assert buckets[0][0] == first
            assert [le for le, _ in buckets][-2:] == [last, "+Inf"]
            numbers = [number for _, number in buckets]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ((), "text/plain"),
        (("",), "text/plain"),
        (("*/*",), "text/plain"),
        (("application/*",), "text/plain"),
        (("text/html,application/xhtml+xml,*/*;q=0.8",), "text/plain"),
        (("application/json",), "text/plain"),
        ((OPENMETRICS,), OPENMETRICS),
        ((OPENMETRICS.upper(),), OPENMETRICS),
        ((ACCEPT,), OPENMETRICS),
        ((f"{OPENMETRICS};version=1.0.0",), OPENMETRICS),
        ((f'{OPENMETRICS}; version="1.0.0" ; charset=utf-8',), OPENMETRICS),
        ((f"{OPENMETRICS};version=0.0.1",), "text/plain"),
        ((f"{OPENMETRICS};q=0",), "text/plain"),
        ((f"{OPENMETRICS};q=0.5,text/plain;q=0.6",), "text/plain"),
        ((f"{OPENMETRICS};q=0.6,text/plain;q=0.5",), OPENMETRICS),
        ((f"{OPENMETRICS};q=0.5,text/plain;q=0.5",), OPENMETRICS),
        (("text/plain;q=0.5", f"{OPENMETRICS};q=0.9"), OPENMETRICS),
        ((f"{OPENMETRICS}x",), "text/plain"),
        ((",,;;=,q=1" * 200 + OPENMETRICS,), "text/plain"),
    ],
)
def test_accept(site: Site, accept: tuple[str, ...], expected: str) -> None:
    """Who names OpenMetrics and likes it as well gets it."""
    nginx = site.start(STATUS)
    assert kind(nginx, *accept) == expected


def test_no_id_or_path_in_a_label(site: Site) -> None:
    """What clients ask for shows in no label, whatever becomes of it."""
    site.store.put("secret-1", "sub/secret-2.dat")
    site.files.write_id("sub/secret-2.dat", 7)
    nginx = site.start(
        f"location / {{ http_sendfile on; http_sendfile_key $arg_k; {CACHE} }}"
        + STATUS
        + "location /quiet { http_sendfile_status ids=off; }"
        + INTERNAL,
        http=ZONE,
    )
    site.assert_file(nginx.get("/secret-3?k=secret-1"), 7)
    assert nginx.get("/secret-4?k=secret-5").status == 404
    wait_for_total(nginx, 2)
    for path in ("status/metrics", "quiet/metrics", "quiet/json"):
        assert b"secret" not in nginx.get(f"/{path}").body
    # the lists of IDs have IDs, and nothing else of the requests
    told = set(re.findall(r"secret-\d", nginx.get("/status/json").text))
    assert told == {"secret-1", "secret-5"}


def documented() -> dict[str, tuple[set[str], str]]:
    """Return the labels and the type of each metric in the document."""
    rows = re.findall(
        r"^\| `(ngx_sendfile_\w+)` \|([^|]*)\| (\w+) \|", DOCUMENT, re.MULTILINE
    )
    return {
        name: (set(re.findall(r"`(\w+)`", labels)), type_)
        for name, labels, type_ in rows
    }


def test_metrics_are_documented(busy: Nginx) -> None:
    """docs/status.md has each metric with its labels, and no other."""
    text = busy.get("/status/metrics").text
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    table = documented()
    assert types == {name: type_ for name, (_, type_) in table.items()}
    found: Samples = samples(busy)
    for name, labels in found:
        family = name
        if name not in types:
            family = re.sub("_(bucket|sum|count)$", "", name)
        assert {label for label, _ in labels} - {"le"} <= table[family][0], name


def shape(told: Any, at: str = "") -> set[str]:
    """Return the paths of all members of a JSON value."""
    if isinstance(told, dict):
        return {
            path
            for name, part in told.items()
            for path in {f"{at}.{name}"} | shape(part, f"{at}.{name}")
        }
    if isinstance(told, list):
        return {path for part in told for path in shape(part, f"{at}[]")}
    return set()


# members that are there once something of their kind was counted
COUNTED = (".requests.results.", ".requests.sources.", ".learn.refused[]")


def test_json_is_as_documented(busy: Nginx) -> None:
    """The example of docs/status.md has the members that there are."""
    (example,) = (
        json.loads(text)
        for text in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
        if '"version"' in text
    )
    told = figures(busy)

    def fixed(value: Any) -> set[str]:
        return {path for path in shape(value) if not path.startswith(COUNTED)}

    assert fixed(told) == fixed(example)
    assert list(told) == list(example)
    assert told["version"] == example["version"]


def test_numbers_are_whole_or_seconds(busy: Nginx) -> None:
    """Counters are written as whole numbers, times with six decimals."""
    text = busy.get("/status/json").text
    for name, number in re.findall(r'"(\w+)":([0-9][^,}\]]*)', text):
        if name in ("time", "start") or "." in number:
            assert re.fullmatch(r"[0-9]+\.[0-9]{6}", number), (name, number)
        else:
            assert re.fullmatch(r"[0-9]+", number), (name, number)


def test_version_is_the_modules(site: Site) -> None:
    """The version is that of the changelog."""
    nginx = site.start(STATUS)
    changes = (Path(REPOSITORY) / "CHANGELOG.md").read_text()
    version = re.search(r"^## ([0-9.]+)", changes, re.MULTILINE)
    assert version is not None
    assert figures(nginx)["module"] == version[1]
