"""The status location's page: over HTTP, and in a browser."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from lib.browser import Browser
from lib.cache import CACHE, STATUS, ZONE
from lib.figures import figures
from lib.site import INTERNAL, Site

FILE = f"location /file/ {{ http_sendfile on; {CACHE} }}\n"
SOURCES = Path(__file__).resolve().parents[2] / "src" / "status"
HUGE = 2**64 - 1
NAME = '<script>document.title="x"</script><img src=x onerror=alert(1)>'

NAMES = (
    *("location", "host", "store", "server", "zone"),
    *("id", "reason", "detail", "error", "advice", "kind"),
)

Figures = dict[str, Any]

pytest_plugins = ("lib.browser_fixtures",)

# a browser starts slowly where much else is done
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def start(site: Site) -> Figures:
    """A site with a status location, and its figures before any request."""
    site.add(7)
    return figures(site.start(FILE + STATUS + INTERNAL, http=ZONE))


def url(site: Site, path: str = "/status") -> str:
    return f"http://127.0.0.1:{site.nginx.port}{path}"


def scaled(document: Figures, to: int) -> Figures:
    """The document with this in place of each count."""

    def walk(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, name) for item in value]
        keep = isinstance(value, bool) or not isinstance(value, int)
        kept = ("version", "le", "status", "errno", "half_life")
        return value if keep or name in kept else to

    return walk(document, "")  # type: ignore[no-any-return]


def counted(document: Figures, to: int) -> Figures:
    """The document with something in each of its lists, and this as each count."""
    found = copy.deepcopy(document)
    names = ("hit", "stale", "miss", "negative", "error", "timeout", "invalid", "none")
    found["requests"]["results"] = dict.fromkeys(names, 1)
    found["requests"]["sources"] = dict.fromkeys(("store", "cache", "app"), 1)
    found["learn"]["refused"] = [{"reason": "no-store", "count": 1}]
    found["last_failures"] = [failure(found, n) for n in range(32)]
    found["top_ids"]["requests"] = 1
    found["top_ids"]["ids"] = [
        {**ID, "id": f"{n}" * (n + 1), "requests": 1} for n in range(1, 21)
    ]
    return scaled(found, to)


ID = {"location": "/file/", "host": "localhost", "error": 0}


def failure(document: Figures, n: int) -> Figures:
    """The nth of the last failures, none like the other."""
    return {
        "time": document["time"] - n,
        "first": document["time"] - 100 * n - 1,
        "count": 1,
        "location": "/file/" + n * "long/",
        "host": "localhost",
        "kind": "miss" if n % 2 else "error",
        "reason": "not in store" if n % 2 else "cannot open file",
        "detail": "" if n % 3 else "database is locked",
        "errno": n % 2,
        "error": "" if n % 2 else "Permission denied",
        "store": "memcached://10.0.0.11:11211",
        "server": "" if n % 2 else "10.0.0.11:11211",
        "status": 404,
        "id": "7" * (8 * n),
        "truncated": n > 29,
        "advice": "Restore the file or correct the record; then look again.",
    }


def full_zone(document: Figures) -> Figures:
    found = counted(document, 1000)
    for zone in found["zones"]:
        zone.update(size=4 << 20, bytes=4 << 20)
        zone["evictions"] = {"positive": 999, "negative": 1}
    return found


def dead_store(document: Figures) -> Figures:
    found = counted(document, 1000)
    for store in found["stores"]:
        store["up"] = False
    return found


def test_page_is_there_with_its_headers(site: Site, start: Figures) -> None:
    for path in ("/status", "/status/", "/status?x=1"):
        response = site.nginx.get(path)
        assert response.status == 200, response
        assert response.header("Content-Type") == "text/html; charset=utf-8"
        assert response.header("Cache-Control") == "no-store"
        assert response.header("X-Content-Type-Options") == "nosniff"
        policy = response.header("Content-Security-Policy") or ""
        assert policy.startswith("default-src 'none'; connect-src 'self';")
        assert "unsafe" not in policy
        assert response.body.endswith(b"</html>\n")
        for name in ("status.css", "status.js"):
            assert (SOURCES / name).read_bytes() in response.body
    head = site.nginx.head("/status")
    assert (head.status, head.body) == (200, b"")
    assert head.header("Content-Length") == str(len(response.body))
    post = site.nginx.request("POST", "/status")
    assert (post.status, post.header("Allow")) == (405, "GET, HEAD")
    assert site.nginx.get("/status/page").status == 404


def test_page_is_small_and_asks_nobody_else() -> None:
    text = "".join(p.read_text("ascii") for p in SOURCES.glob("status.*"))
    assert len(text) < 35_000
    found = set(re.findall(r"\w+://[\w./]+", text))
    assert found == {"http://www.w3.org/2000/svg"}, "a name of XML, and no address"
    assert "innerHTML" not in text


@pytest.mark.parametrize("path", ["/status", "/status/"])
def test_it_shows_what_nginx_has_counted(
    site: Site, start: Figures, browser: Browser, path: str
) -> None:
    page = browser.open(url(site, path))
    page.wait_text("#state", "live")
    page.wait_text("#tiles", "no request yet")
    for _ in range(3):
        site.assert_file(site.nginx.get("/file/7"), 7)
    page.wait_text("#tiles", "3 in all")
    page.wait_text("#sources-list", "the cache: 66.7 %")
    page.wait_text("#stores", f"lmdb:{site.store.path}")
    page.wait_text("#zones", "main")
    page.wait_text("#locations", "/file/")
    page.assert_clean()


@pytest.mark.parametrize(
    "location",
    ["/", "/a/b/", "= /here", "^~ /figures", "~ ^/re/", '"/with space"', "/caf\u00e9"],
)
def test_it_is_below_any_location(site: Site, browser: Browser, location: str) -> None:
    """An exact location has the page, but nothing below it: the page says so."""
    site.start(f"location {location} {{ http_sendfile_status; }}\n")
    path = location.split(" ", 1)[-1] if location[0] in "=^~" else location
    path = path.strip('"').lstrip("^").replace(" ", "%20")
    page = browser.open(url(site, path))
    if location.startswith("="):
        page.wait_text("#state", "nginx answers 404 to /here/json")
        page.assert_clean(failed=True)
    else:
        page.wait_text("#state", "live")
        page.assert_clean()


DOCUMENTS = {
    "nothing yet": lambda document: document,
    "10^12": lambda document: counted(document, 10**12),
    "2^64 - 1": lambda document: counted(document, HUGE),
    "full zone": full_zone,
    "dead store": dead_store,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_axe_finds_nothing(
    site: Site, start: Figures, browser: Browser, kind: str, scheme: str
) -> None:
    page = browser.open(
        url(site), scheme=scheme, document=DOCUMENTS[kind](start), width=1200
    )
    page.wait_text("#state", "live")
    page.explain("/file/7")
    page.open_details()
    assert page.axe() == []
    page.narrow()
    assert page.axe() == []
    assert page.overflow() == 0, "a phone has to scroll to the side"
    page.assert_clean(failed=True)


def test_it_shows_the_last_failures_and_the_most_asked_ids(
    site: Site, start: Figures, browser: Browser
) -> None:
    """Reason, how often, where and what to do; and IDs, with their part of all."""
    page = browser.open(url(site))
    page.wait_text("#last", "no request has failed yet")
    page.wait_text("#ids", "no request yet")
    for path in ("/file/8", "/file/404", "/file/7", "/file/7"):
        site.nginx.get(path)
    page.wait_text("#last", "404")
    page.wait_text("#last", "not in store")
    page.wait_text("#last", f"lmdb:{site.store.path}")
    page.wait_text("#last", "Nothing for an ID that is new or gone.")
    page.wait_text("#ids", "50.0 %")
    page.wait_text("#ids", "about 2")
    page.assert_clean()


def test_without_ids_there_is_no_place_for_them(site: Site, browser: Browser) -> None:
    site.start(FILE + "location /status { http_sendfile_status ids=off; }", http=ZONE)
    site.nginx.get("/file/12345")
    page = browser.open(url(site))
    page.wait_text("#last", "not in store")
    assert not page.visible("#top")
    assert "12345" not in page.text("body")
    page.assert_clean()


def test_counters_are_exact(site: Site, start: Figures, browser: Browser) -> None:
    """2^64 - 1 is no number of JavaScript's."""
    page = browser.open(url(site), document=counted(start, HUGE))
    page.wait_text("#state", "live")
    assert page.titles("#results td") >= {"0", "18,446,744,073,709,551,615"}
    page.wait_text("#tiles", "18.4 E in all")


def test_a_full_zone_and_a_dead_store_are_said(
    site: Site, start: Figures, browser: Browser
) -> None:
    documents = [full_zone(start), full_zone(start)]
    documents[1]["time"] += 1
    for zone in documents[1]["zones"]:
        zone["evictions"]["positive"] += 50
    for store in documents[1]["stores"]:
        store["up"] = False
    page = browser.open(url(site), document=documents[0])
    page.wait_text("#zones", "100.0 % of 4.00 MiB")
    page.wait_text("#stores", "up")
    assert not page.visible("#note")
    page.document = documents[1]
    page.wait_text("#zones", "50 had to make room in the last minute")
    page.wait_text("#stores", "down")
    page.wait_text("#note", "is down: its lookups fail at once")
    assert page.visible("#note")


def test_median_and_p99_are_of_the_last_minute(
    site: Site, start: Figures, browser: Browser
) -> None:
    """Many fast lookups of before do not hide slow ones of now."""

    def at(seconds: int, fast: int, slow: int) -> Figures:
        found = copy.deepcopy(start)
        found["time"] += seconds
        for store in found["stores"]:
            for bucket in store["duration"]["buckets"]:
                bucket["count"] = fast + (slow if bucket["le"] >= 0.1 else 0)
            store["duration"]["count"] = fast + slow
        return found

    page = browser.open(url(site), document=at(0, 10**6, 0))
    page.wait_text("#state", "live")
    page.document = at(1, 10**6, 100)
    page.wait_text("#stores", "75 ms")
    page.wait_text("#stores", "99.5 ms")


def test_names_are_text(site: Site, start: Figures, browser: Browser) -> None:
    document = counted(start, 5)
    for items in (
        *(document[key] for key in ("locations", "stores", "zones", "last_failures")),
        document["top_ids"]["ids"],
    ):
        for item in items:
            for name in NAMES:
                if name in item:
                    item[name] = NAME
    document["module"] = document["nginx"] = NAME
    document["learn"]["refused"][0]["reason"] = NAME
    document["requests"]["results"][NAME] = 5
    document["requests"]["sources"][NAME] = 5
    document["requests"]["failures"][NAME] = 5
    page = browser.open(
        url(site),
        document=document,
        explained={
            "verdict": NAME,
            "advice": [NAME],
            "headers": [[NAME, NAME]],
            "steps": [{"step": NAME, "state": NAME, "text": NAME, NAME: NAME}],
        },
    )
    page.wait_text("#state", "live")
    page.explain(NAME)
    page.wait_text("#explained", NAME)
    for place in (
        *("#about", "#locations", "#stores", "#zones", "#learn", "#failures"),
        *("#last", "#ids"),
    ):
        page.wait_text(place, NAME)
    assert page.count("main script, main img") == 0
    assert page.title == "ngx_sendfile status"
    page.assert_clean()


def test_it_says_that_nginx_is_away_and_comes_back(
    site: Site, start: Figures, browser: Browser
) -> None:
    page = browser.open(url(site))
    page.wait_text("#state", "live")
    page.answer = 503
    page.wait_text("#state", "nginx answers 503 to /status/json; asking again")
    page.answer = 0
    page.wait_text("#state", "nginx does not answer; asking again")
    page.wait_text("#tiles", "no request yet")
    page.answer = 200
    page.wait_text("#state", "live")


def test_it_can_be_used_by_keyboard(
    site: Site, start: Figures, browser: Browser
) -> None:
    page = browser.open(url(site))
    page.wait_text("#state", "live")
    assert page.tab() == "To the figures"
    assert page.tab() == "Pause"
    page.press("Enter")
    page.wait_text("#state", "paused")
    asked = page.asked
    page.press("Enter")
    page.wait_text("#state", "live")
    assert page.asked > asked
    reached = {page.tab() for _ in range(20)}
    assert {"As a table", "Explain", "json", "metrics"} <= reached
    page.explain("/file/7")
    page.assert_clean(failed=True)


def test_state_is_announced_only_when_it_changes(
    site: Site, start: Figures, browser: Browser
) -> None:
    page = browser.open(url(site))
    page.wait_text("#state", "live")
    page.watch("[role=status], [aria-live]")
    asked = page.asked
    page.wait_for(lambda: page.asked >= asked + 3)
    assert page.changes() == 0


def test_a_module_without_explain_says_so(
    site: Site, start: Figures, browser: Browser
) -> None:
    page = browser.open(url(site), explain_status=404)
    page.explain("/file/7")
    page.wait_text("#explained", "This module has no explain")


def test_explain_shows_steps_and_advice(
    site: Site, start: Figures, browser: Browser
) -> None:
    page = browser.open(
        url(site),
        explained={
            "verdict": "404: there is no such file",
            "advice": ["Put it there."],
            "steps": [
                {"step": "key", "state": "ok", "text": "the key is 7", "key": "7"},
                {
                    "step": "file",
                    "state": "failed",
                    "text": "no such file",
                    "folders": [{"path": "/", "mode": "0755"}, {"path": "/srv"}],
                },
            ],
            "headers": [["Content-Type", "image/png"]],
        },
    )
    page.explain("/file/7?a=1&b=2")
    for text in (
        "404: there is no such file",
        "Put it there.",
        "the key is 7",
        "no such file",
        "Content-Type: image/png",
    ):
        page.wait_text("#explained", text)
    assert page.explained_urls == ["/file/7?a=1&b=2"]
    page.open_details()
    page.wait_text("#explained", '"mode":"0755"')
