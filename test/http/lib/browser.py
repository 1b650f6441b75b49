"""Debian's Chromium without a window, to look at the status page."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright import sync_api

from .wait import wait_until

AXE = files("axe_playwright_python") / "axe.min.js"
# seconds that a page may take on a machine that has much else to do
PATIENCE = 300.0


class Page:
    """A page that is open.

    ``document``, if it is not None, is what nginx's JSON is replaced by;
    ``answer`` is the status of that, 0 for a connection that breaks.

    Args:
        page: Playwright's.
        document: see above.
        explained: what replaces the answer of explain.
        explain_status: the status of that, if it is replaced.
    """

    def __init__(
        self,
        page: sync_api.Page,
        document: dict[str, Any] | None,
        explained: dict[str, Any] | None,
        explain_status: int,
    ) -> None:
        self._page = page
        self.document = document
        self.answer = 200
        self.asked = 0
        self.explained_urls: list[str] = []
        self._explained = explained
        self._explain_status = explain_status
        self._said: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda message: self._said.append(message.text))
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.route("**/json", self._on_json)
        page.route("**/explain?*", self._on_explain)

    def _on_json(self, route: sync_api.Route) -> None:
        self.asked += 1
        if self.answer == 0:
            route.abort("connectionrefused")
        elif self.answer != 200:
            route.fulfill(status=self.answer, body="{}")
        elif self.document is None:
            route.continue_()
        else:
            route.fulfill(json=self.document)

    def _on_explain(self, route: sync_api.Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        self.explained_urls += query["url"]
        if self._explained is None and self._explain_status == 200:
            route.continue_()
        else:
            route.fulfill(status=self._explain_status, json=self._explained or {})

    @property
    def title(self) -> str:
        """The document's."""
        return self._page.title()

    def open(self, url: str) -> None:
        """Load the page."""
        self._page.goto(url)

    def wait_for(self, condition: Callable[[], object], what: str = "it") -> None:
        """Wait until a condition holds, while the browser goes on."""

        def turn() -> object:
            self._page.wait_for_timeout(20)
            return condition()

        wait_until(turn, PATIENCE, what)

    def text(self, selector: str) -> str:
        """What an element has as text, shown or not."""
        return self._page.locator(selector).text_content() or ""

    def wait_text(self, selector: str, text: str) -> None:
        """Wait until an element has this in its text."""
        self.wait_for(lambda: text in self.text(selector), f"{text} in {selector}")

    def titles(self, selector: str) -> set[str]:
        """The titles of all elements."""
        found = self._page.locator(selector).all()
        return {item.get_attribute("title") or "" for item in found}

    def count(self, selector: str) -> int:
        """How many there are."""
        return self._page.locator(selector).count()

    def visible(self, selector: str) -> bool:
        """Whether it can be seen."""
        return self._page.locator(selector).is_visible()

    def press(self, key: str) -> None:
        """Press a key."""
        self._page.keyboard.press(key)

    def tab(self) -> str:
        """Go to the next element by keyboard, and return what it says."""
        self.press("Tab")
        return str(self._page.evaluate("document.activeElement.textContent")).strip()

    def explain(self, url: str) -> None:
        """Ask for an explanation by keyboard, and wait for it."""
        self._page.focus("#url")
        self._page.keyboard.insert_text(url)
        self.press("Enter")
        self.wait_for(lambda: self.count("#explained > *"), "an explanation")

    def open_details(self) -> None:
        """Show all that can be opened."""
        self._page.evaluate(
            "document.querySelectorAll('details').forEach(d => { d.open = true; })"
        )

    def narrow(self) -> None:
        """Make it a phone."""
        self._page.set_viewport_size({"width": 360, "height": 740})

    def overflow(self) -> int:
        """Pixels that are to the right of the window."""
        return int(
            self._page.evaluate(
                "document.documentElement.scrollWidth"
                " - document.documentElement.clientWidth"
            )
        )

    def axe(self) -> list[str]:
        """What axe-core, all of its rules, has against the page."""
        if not self._page.evaluate("'axe' in window"):
            self._page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self._page.evaluate("axe.run().then(found => found.violations)")
        return [
            f"{rule['id']}: {node['html']}: {node['failureSummary']}"
            for rule in found
            for node in rule["nodes"]
        ]

    def watch(self, selector: str) -> None:
        """Count the changes below elements from now on."""
        self._page.evaluate(
            """selector => {
                window.changes = 0;
                const seen = new MutationObserver(all => { changes += all.length; });
                for (const element of document.querySelectorAll(selector)) {
                    seen.observe(element, {subtree: true, childList: true,
                                           characterData: true, attributes: true});
                }
            }""",
            selector,
        )

    def changes(self) -> int:
        """How many there have been since ``watch``."""
        return int(self._page.evaluate("window.changes"))

    def assert_clean(self, failed: bool = False) -> None:
        """Check that the console is empty: no error, no breach of the policy.

        Args:
            failed: requests may have failed.
        """
        said = [
            text
            for text in self._said
            if not (failed and text.startswith("Failed to load resource"))
        ]
        assert said == []


class Browser:
    """Chromium.

    Args:
        chromium: Playwright's.
    """

    def __init__(self, chromium: sync_api.Browser) -> None:
        self._chromium = chromium
        self._contexts: list[sync_api.BrowserContext] = []

    def open(
        self,
        url: str,
        scheme: str = "light",
        width: int = 1000,
        document: dict[str, Any] | None = None,
        explained: dict[str, Any] | None = None,
        explain_status: int = 200,
    ) -> Page:
        """Open a page in a window of its own.

        Args:
            url: of the page.
            scheme: light or dark.
            width: of the window.
            document, explained, explain_status: see ``Page``.
        """
        context = self._chromium.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": 900},
        )
        self._contexts.append(context)
        page = Page(context.new_page(), document, explained, explain_status)
        page.open(url)
        return page

    def close_all(self) -> None:
        """Close all pages."""
        while self._contexts:
            self._contexts.pop().close()
