"""Links that an application has signed, without the application."""

from __future__ import annotations

import re

import pytest

from harness.catalog import PLAIN
from harness.start import Front, assert_file
from lib.signed import load_signed, write_keys

LINKS = {
    "php-fpm": ("hmac", "ab" * 32),
    "laravel-php-fpm": (
        "laravel",
        b"base64:dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=".hex(),
    ),
}

SIGNED = """
    location /signed/ {
        http_sendfile_signature %s %%%%DIR%%%%/keys;
        if ($sendfile_signed != "1") { return 403; }
        http_sendfile on;
        http_sendfile_root %%%%APP_FILES%%%%;
    }
"""


@pytest.mark.kinds(*LINKS)
def test_signed_links(front: Front) -> None:
    """PHP makes the link, nginx serves it; nobody else's, and not for ever."""
    scheme, key = LINKS[front.kind.name]
    load_signed(front.site)
    write_keys(front.site, key)
    front.site.store.put(PLAIN.id, PLAIN.path)
    front.site.store.put(9, PLAIN.path)
    nginx = front.start(SIGNED % scheme)

    def link(seconds: int) -> str:
        made = nginx.get(f"/link/{PLAIN.id}?for={seconds}").text
        return re.sub("^http://[^/]*", "", made)

    good = link(300)
    assert_file(nginx.get(good), PLAIN)
    for bad in (
        link(-5),
        good.replace(f"/{PLAIN.id}?", "/9?"),
        re.sub("expires=.", "expires=9", good),
        good[:-8] + 8 * "a",
        good + "&a=1",
        good.partition("?")[0],
    ):
        assert nginx.get(bad).status == 403, bad
    assert front.asked() == 2
