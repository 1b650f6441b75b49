"""What a status location says of the last minutes: failures, most asked IDs."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from ports import free_port

from lib.cache import STATUS
from lib.client import ConnectionClosed
from lib.figures import Figures, figures, row, samples, wait_for, wait_for_total
from lib.nginx import Nginx
from lib.site import Site
from lib.wait import wait_until

FILE = "location /file/ { http_sendfile on; %%DIRECT%% }\n"
QUIET = "location /status { http_sendfile_status ids=off; }\n"
ROWS, TOP, LONGEST = 32, 20, 250
OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def failures(nginx: Nginx) -> list[Figures]:
    """Return the last failures."""
    found: list[Figures] = figures(nginx)["last_failures"]
    return found


def top(nginx: Nginx) -> dict[str, int]:
    """Return the most asked IDs, with the requests of each."""
    return {one["id"]: one["requests"] for one in figures(nginx)["top_ids"]["ids"]}


@pytest.fixture
def two(site: Site) -> Site:
    """A site with two workers."""
    site.variables["WORKERS"] = "2"
    return site


# failures


def test_nothing_yet(site: Site) -> None:
    """Before any request the lists are there, and empty."""
    found = figures(site.start(FILE + STATUS))
    assert found["last_failures"] == []
    assert found["top_ids"] == {"half_life": 60, "requests": 0, "ids": []}


def test_failures_say_all_of_it(site: Site) -> None:
    """Reason, place, error, ID and advice of each; the latest first."""
    site.store.put(2, "aa/nosuch.dat")
    site.store.put(3, '{"path":"../etc/passwd"}')
    site.add(5, "closed/5.dat")
    closed = site.files.root / "closed"
    closed.chmod(0)
    nginx = site.start(FILE + STATUS)
    nginx.allow_log("http_sendfile: key")
    for number, status in ((8, 404), (2, 404), (3, 502), (5, 403)):
        assert nginx.get(f"/file/{number}").status == status
    closed.chmod(0o755)
    wait_for_total(nginx, 4)
    found = failures(nginx)
    assert {one["store"] for one in found} == {f"lmdb:{site.store.path}"}
    assert {(one["location"], one["host"]) for one in found} == {
        ("/file/", "localhost")
    }
    assert {one["count"] for one in found} == {1}
    assert all(one["first"] == one["time"] > 1.7e9 for one in found)
    assert {one["server"] for one in found} == {""}
    times = [one["time"] for one in found]
    assert times == sorted(times, reverse=True)
    told = {
        one["id"]: (one["kind"], one["reason"], one["detail"], one["status"])
        for one in found
    }
    assert told == {
        "8": ("miss", "not in store", "", 404),
        "2": ("missing_file", "missing file", "", 404),
        "3": ("invalid", "invalid record", told["3"][2], 502),
        "5": ("missing_file", "cannot open file", "", 403),
    }
    assert ".." in told["3"][2]
    errors = {one["id"]: (one["errno"], one["error"]) for one in found}
    assert errors["8"] == (0, "")
    assert errors["5"] == (13, "Permission denied")
    advice = {one["id"]: one["advice"] for one in found}
    assert advice["2"].startswith("Restore the file or correct the record")
    assert "sendfilectl doctor" in advice["5"]


def test_failures_that_are_alike_are_one_row(site: Site) -> None:
    """They are counted, and the row has the ID of the last one."""
    nginx = site.start(FILE + STATUS)
    for number in range(10, 15):
        assert nginx.get(f"/file/{number}").status == 404
    wait_for_total(nginx, 5)
    (one,) = failures(nginx)
    assert (one["count"], one["id"], one["reason"]) == (5, "14", "not in store")
    assert one["first"] <= one["time"]


def test_what_the_application_has_answered(site: Site) -> None:
    """A miss that the application answers says with what."""
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_fallback @none; }"
        "location @none { return 410; }" + STATUS
    )
    assert nginx.get("/file/8").status == 410
    wait_for_total(nginx, 1)
    assert failures(nginx)[0]["status"] == 410


def test_a_server_is_named(site: Site) -> None:
    """Of a store with servers it is said which one has failed."""
    port = free_port()
    url = f"memcached://127.0.0.1:{port}"
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {url}; }}" + STATUS
    )
    nginx.allow_log("http_sendfile: |connect\\(\\) to")
    for _ in range(6):
        assert nginx.get("/file/8").status == 502
    wait_for_total(nginx, 6)
    found = failures(nginx)
    assert sum(one["count"] for one in found) == 6
    for one in found:
        assert (one["kind"], one["store"]) == ("error", url)
        assert one["server"] == f"127.0.0.1:{port}"
    assert {one["reason"] for one in found} <= {"cannot connect", "server is down"}


def test_the_oldest_makes_room(site: Site) -> None:
    """There are 32 rows: the one that was not seen for longest goes."""
    places = [f"/l{n}/" for n in range(ROWS + 8)]
    nginx = site.start(
        "".join(f"location {place} {{ http_sendfile on; }}" for place in places)
        + STATUS
    )
    total = 0
    for n, place in enumerate(places):
        assert nginx.get(f"{place}{n}").status == 404
        # the first one is seen again and again
        assert nginx.get(f"{places[0]}1").status == 404
        total += 2
        wait_for_total(nginx, total)
    found = failures(nginx)
    assert len(found) == ROWS
    first = row(found, location=places[0])
    assert first["count"] == len(places) + 1
    kept = {one["location"] for one in found}
    assert kept == {places[0], *places[-ROWS + 1 :]}
    assert {one["count"] for one in found if one is not first} == {1}


def test_two_workers_count_failures_exactly(two: Site) -> None:
    """None is lost or counted twice, however many there are at once."""
    nginx = two.start(
        "location /a/ { http_sendfile on; } location /b/ { http_sendfile on; }" + STATUS
    )

    def ask(place: str) -> None:
        with nginx.connect() as connection:
            for n in range(200):
                assert connection.request("GET", f"/{place}/{n}").status == 404

    threads = [threading.Thread(target=ask, args=(p,)) for p in "aabbab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_total(nginx, 1200)
    counts = {one["location"]: one["count"] for one in failures(nginx)}
    assert counts == {"/a/": 600, "/b/": 600}


def test_reload_keeps_the_last_failures(site: Site) -> None:
    """Those of before are there after a reload, and go on being counted."""
    nginx = site.start(FILE + STATUS)
    assert nginx.get("/file/8").status == 404
    wait_for_total(nginx, 1)
    before = failures(nginx)
    nginx.reload()
    assert failures(nginx) == before
    assert nginx.get("/file/9").status == 404
    wait_for_total(nginx, 2)
    (one,) = failures(nginx)
    assert (one["count"], one["id"]) == (2, "9")
    assert one["first"] == before[0]["first"]
    assert set(top(nginx)) == {"8", "9"}


def test_killed_workers_hold_nobody_up(two: Site) -> None:
    """Workers that die while they count leave a memory that goes on."""
    nginx = two.start(
        "".join(f"location /l{n}/ {{ http_sendfile on; }}" for n in range(40)) + STATUS
    )
    nginx.allow_log("exited on signal 9|was locked by")
    over = threading.Event()

    def ask(seed: int) -> None:
        n = seed
        while not over.is_set():
            n += 1
            try:
                nginx.get(f"/l{n % 40}/{n % 7}")
            except (OSError, ConnectionClosed):
                continue

    threads = [threading.Thread(target=ask, args=(n,)) for n in (0, 13)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            # something has been counted since, so it is killed at its work
            total = _total(nginx)
            _wait_for_more(nginx, total + 20)
            victim = nginx.workers()[0]
            os.kill(victim, signal.SIGKILL)
            _wait_for_another(nginx, victim)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    found = figures(nginx)
    assert 0 < len(found["last_failures"]) <= ROWS
    for one in found["last_failures"]:
        assert one["reason"] == "not in store"
        assert one["id"] == "" or re.fullmatch("[0-6]", one["id"])
        assert re.fullmatch(r"/l\d+/", one["location"])
    before = {one["location"]: one["count"] for one in found["last_failures"]}
    assert nginx.get("/l3/1").status == 404
    wait_for(
        nginx,
        lambda f: (
            row(f["last_failures"], location="/l3/")["count"] > before.get("/l3/", 0)
        ),
    )


def _total(nginx: Nginx) -> int:
    """Return how many requests there were; a killed worker answers none."""
    while True:
        try:
            total: int = figures(nginx)["requests"]["total"]
            return total
        except (OSError, ConnectionClosed):
            continue


def _wait_for_more(nginx: Nginx, total: int) -> None:
    wait_until(lambda: _total(nginx) > total, what="requests")


def _wait_for_another(nginx: Nginx, victim: int) -> None:
    def replaced() -> bool:
        workers = nginx.workers()
        return victim not in workers and len(workers) == 2

    wait_until(replaced, what="another worker")


# IDs


def test_most_asked_ids(site: Site) -> None:
    """When there are few requests each counts, whatever has answered."""
    site.add(7)
    nginx = site.start(FILE + STATUS)
    asked = Counter({"7": 9, "8": 5, "9": 1})
    for number, times in asked.items():
        for _ in range(times):
            nginx.get(f"/file/{number}")
    wait_for_total(nginx, 15)
    found = figures(nginx)["top_ids"]
    # counts may have been halved meanwhile
    assert found["half_life"] == 60
    assert [one["id"] for one in found["ids"]][:2] == ["7", "8"]
    assert found["requests"] in (15, 7)
    for one in found["ids"]:
        assert (one["location"], one["host"]) == ("/file/", "localhost")
        assert one["requests"] in (asked[one["id"]], asked[one["id"]] // 2)
        assert one["error"] == 0


def test_a_sample_is_about_right(site: Site) -> None:
    """Of many requests a part is looked at, and stands for all."""
    site.add(7)
    nginx = site.start(FILE + STATUS)
    for _ in range(4):
        # nginx closes a connection after 1,000 requests
        with nginx.connect() as connection:
            for n in range(800):
                number = 7 if n % 2 else 100 + n % 500
                connection.request("GET", f"/file/{number}")
    wait_for_total(nginx, 3200)
    found = figures(nginx)["top_ids"]
    first = found["ids"][0]
    assert first["id"] == "7"
    assert len(found["ids"]) <= TOP
    # half of them, give or take what a sample of some fifty may
    assert 0.15 < first["requests"] / found["requests"] < 0.85


def test_the_same_id_of_two_locations(site: Site) -> None:
    """An ID is counted with its location."""
    nginx = site.start(
        "location /a/ { http_sendfile on; } location /b/ { http_sendfile on; }" + STATUS
    )
    for place in ("a", "a", "b"):
        nginx.get(f"/{place}/7")
    wait_for_total(nginx, 3)
    ids = figures(nginx)["top_ids"]["ids"]
    assert [(one["id"], one["location"]) for one in ids][:1] == [("7", "/a/")]


KEY = (
    "location /file/ { http_sendfile on; http_sendfile_key $arg_k; }"
    "location = /x { return 204; }"
)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("caf\u00e9", "caf\u00e9"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd\ufffd"),
        ('<b>"\\', '<b>"\\'),
        ("a" * 250, "a" * 250),
    ],
)
def test_ids_of_any_bytes(site: Site, sent: str | bytes, told: str) -> None:
    """An ID is escaped in JSON, and is in no metric."""
    text = sent.encode() if isinstance(sent, str) else sent
    # the key's bytes as they stand in the request line
    nginx = site.start(KEY + STATUS)
    assert nginx.request("GET", b"/file/x?k=" + text).status == 404
    wait_for_total(nginx, 1)
    body = nginx.get("/status/json").body
    assert json.loads(body.decode("utf-8"))["last_failures"][0]["id"] == told
    assert list(top(nginx)) == [told]
    labels = {value for _, pairs in samples(nginx) for _, value in pairs}
    assert not [label for label in labels if told in label]


def test_a_key_that_is_none(site: Site) -> None:
    """What cannot be a key is in the failures, cut, and in no sample."""
    nginx = site.start(KEY + STATUS)
    assert nginx.get("/file/x?k=" + 300 * "k").status == 404
    wait_for_total(nginx, 1)
    (one,) = failures(nginx)
    assert (one["id"], one["truncated"]) == (LONGEST * "k", True)
    assert one["reason"] == "key too long"
    assert "1 to 250 bytes" in one["advice"]
    assert top(nginx) == {}


def test_ids_off(site: Site) -> None:
    """Without IDs there is all the rest."""
    site.add(7)
    nginx = site.start(FILE + QUIET)
    nginx.get("/file/7")
    nginx.get("/file/12345678")
    wait_for_total(nginx, 2)
    text = nginx.get("/status/json").text
    assert "12345678" not in text
    found = json.loads(text)
    assert "top_ids" not in found
    (one,) = found["last_failures"]
    assert not {"id", "truncated"} & set(one)
    assert one["count"] == 1 and one["advice"]


def test_ids_off_in_one_of_two_locations(site: Site) -> None:
    """Each location shows what it is to show."""
    nginx = site.start(
        FILE + QUIET + "location /all { http_sendfile_status write ids=off; }"
        "location /ids { http_sendfile_status; }"
    )
    nginx.get("/file/12345678")
    wait_for_total(nginx, 1)
    assert "12345678" not in nginx.get("/status/json").text
    assert "12345678" not in nginx.get("/all/json").text
    assert "12345678" in nginx.get("/ids/json").text
    assert nginx.request("DELETE", "/all/cache").status == 200


# what to do


def test_each_advice_is_that_of_the_document(site: Site) -> None:
    """The words of operations.md are those that the module says."""
    source = Path(__file__).resolve().parents[2] / "src" / "request"
    text = (source / "ngx_http_sendfile_advice.c").read_text()
    table = text[text.index("advices[] = {") : text.index("NULL, NULL, NULL")]
    string = r'(NULL|(?:"(?:[^"\\]|\\.)*"\s*)+)'
    rows: list[tuple[str, str, str]] = []
    for advice, reason, detail in re.findall(
        rf"{{ {string},\s*{string},\s*{string} }}", table
    ):
        said = _literal(advice) or rows[-1][0]
        rows.append((said, _literal(reason), _literal(detail)))
    assert len(rows) > 50
    document = OPERATIONS.read_text(encoding="utf-8")
    begin = document.index("| reason | level | meaning | action |")
    end = document.index("About stores, and others:")
    compared = 0
    for line in document[begin:end].splitlines():
        if not line.startswith("| `"):
            continue
        cells = re.split(r"\s*(?<!\\)\|\s*", line.strip("| "))
        action = cells[-1].replace("`", "").strip()
        for name in re.findall(r"`([^`]+)`", cells[0]):
            reason, _, detail = name.partition(": ")
            fitting = [
                said
                for said, r, d in rows
                if r == reason and (not d or detail.startswith(d))
            ]
            if fitting:
                assert fitting[0] == action, name
                compared += 1
    assert compared > 45


def _literal(text: str) -> str:
    if text == "NULL":
        return ""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


def test_advice_of_each_kind(site: Site) -> None:
    """Each kind of failure has a text."""
    found = figures(site.start(FILE + STATUS))
    assert list(found["advice"]) == list(found["requests"]["failures"])
    assert all(len(text) > 40 for text in found["advice"].values())
