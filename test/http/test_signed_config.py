"""http_sendfile_signature: what nginx -t says."""

from __future__ import annotations

import os

import pytest

from lib.signed import KEY, SHOW, load_signed, write_keys
from lib.site import Site


@pytest.fixture
def signed(site: Site) -> Site:
    """A site with the module for signatures and a file of keys."""
    load_signed(site)
    write_keys(site, KEY.hex())
    return site


USED = f"location /x {{ {SHOW} }}"


@pytest.mark.parametrize(
    "parameters",
    [
        "hmac %%DIR%%/keys",
        "hmac %%DIR%%/keys address",
        "laravel %%DIR%%/keys",
        "laravel %%DIR%%/keys base=https://$host",
        "django %%DIR%%/keys max_age=1d token=$arg_t",
        "rails %%DIR%%/keys purpose=blob_id digest=sha256",
        "rails %%DIR%%/keys digest=sha1",
        "imgproxy %%DIR%%/salted",
        "imgproxy %%DIR%%/salted prefix=/a/b",
        "off",
    ],
)
def test_accepted(signed: Site, parameters: str) -> None:
    """Each form of it, on each level."""
    write_keys(signed, f"{KEY.hex()} 00", name="salted")
    directive = f"http_sendfile_signature {parameters};"
    signed.check_config(f"{directive} {USED}", http=directive).assert_silent()
    signed.check_config(f"location / {{ {directive} }} {USED}").assert_silent()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("", "invalid number of arguments"),
        ("md5 %%DIR%%/keys", 'unknown scheme "md5": write hmac, laravel, django'),
        ("hmac", 'no file of keys: write "http_sendfile_signature hmac /etc'),
        ("off %%DIR%%/keys", 'unknown scheme "off"'),
        ("hmac %%DIR%%/keys max_age=1d", 'invalid parameter "max_age=1d" of "hmac"'),
        ("hmac %%DIR%%/keys address=1", "hmac has address"),
        ("laravel %%DIR%%/keys address", 'invalid parameter "address"'),
        ("laravel %%DIR%%/keys base=", "laravel base=URL"),
        ("django %%DIR%%/keys max_age=0", "django max_age=TIME"),
        ("django %%DIR%%/keys max_age=x", 'invalid parameter "max_age=x"'),
        ("imgproxy %%DIR%%/keys prefix=a", "imgproxy prefix=/PATH"),
        ("imgproxy %%DIR%%/keys prefix=/a/", 'invalid parameter "prefix=/a/"'),
        ("rails %%DIR%%/keys digest=md5", "digest=sha1 or sha256"),
        ("rails %%DIR%%/keys token=", 'invalid parameter "token="'),
        ("hmac %%DIR%%/none", "none"),
        ("hmac %%DIR%%", "is no regular file"),
        ("imgproxy %%DIR%%/keys", "a key without a salt: write both in hex"),
        ("hmac %%DIR%%/keys; http_sendfile_signature off", "is duplicate"),
    ],
)
def test_mistake(signed: Site, parameters: str, words: str) -> None:
    """Each says what to write instead."""
    check = signed.check_config(f"http_sendfile_signature {parameters}; {USED}")
    check.assert_fails("http_sendfile_signature", words)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], 'no key in "{path}": write one a line, in hex'),
        (["# none", ""], 'no key in "{path}"'),
        (["", "my secret"], "{path}:2: not a key in hex"),
        (["abc"], "{path}:1: an odd number of characters"),
        (["ab", "ab cd"], "{path}:2: more than a key: write one a line"),
        (["ag"], "{path}:1: not a key in hex"),
        (["ab" * 1025], "{path}:1: too long for a key, 1024 bytes"),
        (["ab"] * 65, "{path}:65: too many keys, 64 are the most"),
        (["ab"] * 90000, "is too large for a file of keys"),
        (["\0\0"], "{path}:1: not a key in hex"),
    ],
)
def test_bad_file(signed: Site, lines: list[str], message: str) -> None:
    """It names file and line, and never says what stands there."""
    path = write_keys(signed, *lines)
    check = signed.check_config(f"http_sendfile_signature hmac {path}; {USED}")
    check.assert_fails("http_sendfile_signature", message.format(path=path))
    told = check.output.replace(str(signed.directory), "")
    assert "secret" not in told and "abc" not in told


@pytest.mark.parametrize("ends", ["\n", "\r\n", ""])
def test_ends_of_lines(signed: Site, ends: str) -> None:
    """Windows' are fine, and so is a last line without one."""
    path = signed.directory / "keys"
    path.write_bytes(f"{KEY.hex()}{ends}".encode())
    signed.check_config(f"http_sendfile_signature hmac {path}; {USED}").assert_silent()


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_file_that_everybody_reads(signed: Site, mode: int) -> None:
    """A warning, for it works."""
    path = write_keys(signed, KEY.hex())
    path.chmod(mode)
    check = signed.check_config(f"http_sendfile_signature hmac {path}; {USED}")
    check.assert_warns(
        "http_sendfile_signature", "everybody may read or write the keys"
    )


def test_fifo(signed: Site) -> None:
    """nginx -t does not wait for somebody to write into it."""
    path = signed.directory / "fifo"
    os.mkfifo(path, 0o600)
    check = signed.check_config(f"http_sendfile_signature hmac {path}; {USED}")
    check.assert_fails("http_sendfile_signature", "is no regular file")


def test_relative_path(signed: Site) -> None:
    """As nginx's other files: from where nginx.conf is."""
    signed.check_config(f"http_sendfile_signature hmac keys; {USED}").assert_silent()


def test_directive_alone_refuses_nothing(signed: Site) -> None:
    """Where nobody reads the variable, nginx -t says so."""
    check = signed.check_config("http_sendfile_signature hmac %%DIR%%/keys;")
    assert "by itself refuses nothing: test $sendfile_signed" in check.output
    check = signed.check_config("http_sendfile_signature off;")
    check.assert_silent()
