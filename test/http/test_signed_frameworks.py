"""http_sendfile_signature: what real frameworks sign here and now."""

from __future__ import annotations

import hashlib
import time
from urllib.parse import quote

import django.conf  # type: ignore[import-untyped]
import pytest
from django.core import signing  # type: ignore[import-untyped]

from lib.nginx import Nginx
from lib.signed import LIB, SHOW, load_signed, run, shown, write_keys
from lib.site import Site

SECRET = "django-insecure-0123456789"

if not django.conf.settings.configured:
    django.conf.settings.configure(SECRET_KEY=SECRET)


@pytest.fixture
def signed(site: Site) -> Site:
    """A site with the module for signatures."""
    load_signed(site)
    return site


def start(site: Site, parameters: str) -> Nginx:
    """Start nginx with a location that says what a signature is worth."""
    return site.start(f"location / {{ http_sendfile_signature {parameters}; {SHOW} }}")


def django_key(salt: str) -> str:
    """Return what Django makes of its secret, in hex."""
    return hashlib.sha256(f"{salt}signer{SECRET}".encode()).hexdigest()


@pytest.mark.parametrize("value", ["files/1.jpg", "a:b", "é/%41?&=+ ", "x" * 2000])
def test_django_signer(signed: Site, value: str) -> None:
    """Signer, with whatever value."""
    write_keys(signed, django_key("django.core.signing.Signer"))
    nginx = start(signed, "django %%DIR%%/keys token=$arg_t")
    token = quote(signing.Signer().sign(value), safe="")
    assert shown(nginx, f"/?t={token}") == (
        "1",
        value.encode().decode(errors="surrogateescape"),
    )


def test_django_timestamp_signer(signed: Site) -> None:
    """TimestampSigner, with the age that the location allows."""
    write_keys(signed, django_key("django.core.signing.TimestampSigner"))
    nginx = start(signed, "django %%DIR%%/keys max_age=1h")
    token = signing.TimestampSigner().sign("1.jpg")
    assert shown(nginx, f"/f/{token}") == ("1", "1.jpg")
    old = signing.TimestampSigner()
    old.timestamp = lambda: signing.b62_encode(int(time.time()) - 3700)
    assert shown(nginx, f"/f/{old.sign('1.jpg')}") == ("0", "")
    assert shown(nginx, f"/f/{signing.Signer().sign('1.jpg')}") == ("", "")


def test_django_signer_is_no_timestamp_signer(signed: Site) -> None:
    """A good signature of a value without a time is bad where one is wanted."""
    salt = "django.core.signing.TimestampSigner"
    write_keys(signed, django_key(salt))
    nginx = start(signed, "django %%DIR%%/keys max_age=1h")
    assert shown(nginx, "/" + signing.Signer(salt=salt).sign("a")) == ("", "")
    assert shown(nginx, "/" + signing.Signer(salt=salt).sign("a:-")) == ("", "")


def test_django_dumps(signed: Site) -> None:
    """dumps(): the value is the JSON in base64."""
    write_keys(signed, django_key("django.core.signing"))
    nginx = start(signed, "django %%DIR%%/keys max_age=1h")
    assert shown(nginx, "/" + signing.dumps({"id": 1})) == ("1", "eyJpZCI6MX0")


@pytest.mark.parametrize("digest", ["SHA1", "SHA256"])
def test_rails(signed: Site, digest: str) -> None:
    """ActiveSupport::MessageVerifier, with Marshal and with JSON."""
    for end, state in ((int(time.time()) + 3600, "1"), (int(time.time()) - 1, "0")):
        key, *tokens = run(
            *("ruby", LIB / "rails_tokens.rb"),
            "s" * 40,
            "files",
            digest,
            "file",
            str(end),
        )
        write_keys(signed, key)
        more = "digest=sha256" if digest == "SHA256" else ""
        nginx = signed.start(
            f"""
            http_sendfile_signature rails %%DIR%%/keys purpose=file {more};
            location /file/ {{ {SHOW} }}
            location /none/ {{
                http_sendfile_signature rails %%DIR%%/keys {more};
                {SHOW}
            }}
            location /other/ {{
                http_sendfile_signature rails %%DIR%%/keys purpose=fil {more};
                {SHOW}
            }}
            """
        )
        assert len(tokens) == 8
        for string, number, plain, hash_ in (tokens[:4], tokens[4:]):
            assert shown(nginx, f"/file/{string}") == ("1", "héllo/1.jpg")
            assert shown(nginx, f"/file/{quote(string, safe='')}")[0] == "1"
            value = "297887" if state == "1" else ""
            assert shown(nginx, f"/file/{number}") == (state, value)
            assert shown(nginx, f"/file/{plain}") == ("", "")
            assert shown(nginx, f"/file/{hash_}") == ("1", "")
            assert shown(nginx, f"/none/{plain}") == ("1", "none of it")
            assert shown(nginx, f"/none/{string}") == ("", "")
            assert shown(nginx, f"/other/{string}") == ("", "")


def test_laravel(signed: Site) -> None:
    """Signed routes: absolute and relative, with a time and without."""
    key = "base64:bmd4X3NlbmRmaWxlJ3Mgb3duIHRlc3Qga2V5ISEhISE="
    write_keys(signed, key.encode().hex())
    nginx = start(signed, "laravel %%DIR%%/keys base=https://www.example.com")
    for end, state in ((int(time.time()) + 3600, "1"), (int(time.time()) - 1, "0")):
        links = run("php", LIB / "laravel_links.php", key, str(end))
        assert len(links) == 6
        for link in links:
            uri = link.removeprefix("https://www.example.com")
            uri = uri if uri.startswith("/") else f"/{uri}"
            expected = state if "expires=" in link else "1"
            assert shown(nginx, uri)[0] == expected, link
            assert shown(nginx, f"{uri}0")[0] == "", link
