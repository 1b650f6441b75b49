"""Fixtures of a browser: a test file names this in its ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright import sync_api

from .browser import PATIENCE, Browser

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser, started once."""
    with sync_api.sync_playwright() as playwright:
        # its sandbox does not work for root
        started = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            timeout=PATIENCE * 1000,
        )
        yield Browser(started)
        started.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; its pages are closed after the test."""
    yield chromium
    chromium.close_all()
