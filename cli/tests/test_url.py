"""What names a store, and what does not."""

from __future__ import annotations

import os

import pytest

from sendfilectl.errors import UsageError
from sendfilectl.stores import parse_url


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("lmdb:/var/ids", "/var/ids"),
        ("lmdb:///var/ids", "/var/ids"),
        ("lmdb:/var/ids/", "/var/ids"),
        ("lmdb:/a:b", "/a:b"),
    ],
)
def test_lmdb_url(text: str, path: str) -> None:
    url = parse_url(text)
    assert (url.scheme, url.rest, url.text) == ("lmdb", path, text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "write lmdb:/path"),
        ("/var/ids", "write lmdb:/var/ids"),
        ("ids", f"write lmdb:{os.getcwd()}/ids"),
        ("./a:b", f"write lmdb:{os.getcwd()}/a:b"),
        ("lmdb:ids", f"write lmdb:{os.getcwd()}/ids"),
        ("lmdb:", "write lmdb:/path"),
        ("lmdb:/", "is the root directory"),
        ("lmdb://host/ids", "write lmdb:/host/ids, one slash"),
        ("lmdb:////ids", "one slash"),
        ("LMDB:/ids", "write lmdb:/path"),
        ("sqlite:/ids", "write lmdb:/path"),
        ("lmdb:/a\nb", "control byte"),
    ],
)
def test_no_url_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(text)
    assert hint in str(caught.value)
