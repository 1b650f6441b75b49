"""http_sendfile_signature: what $sendfile_signed says of a request."""

from __future__ import annotations

import random
import time

import pytest

from lib.nginx import Nginx
from lib.signed import (
    KEY,
    SHOW,
    Vector,
    base64_url,
    load_signed,
    shown,
    sign,
    vectors,
    write_keys,
)
from lib.site import Site

FAR = 4102444800
OVER = 1000000000


@pytest.fixture
def signed(site: Site) -> Site:
    """A site with the module for signatures and a file of keys."""
    load_signed(site)
    write_keys(site, KEY.hex())
    return site


def show(site: Site, scheme: str, parameters: str = "") -> Nginx:
    """Start nginx with a location that says what a signature is worth."""
    return site.start(
        f"location / {{ http_sendfile_signature {scheme} %%DIR%%/keys {parameters};"
        f" {SHOW} }}"
    )


@pytest.mark.parametrize("vector", vectors(), ids=str)
def test_vector(signed: Site, vector: Vector) -> None:
    """What frameworks have signed is good until its time, and has its value."""
    write_keys(signed, "00" * 16 + " ff" * (vector.scheme == "imgproxy"), vector.key)
    nginx = show(signed, vector.scheme, vector.parameters)
    signed_, value = shown(nginx, vector.uri)
    if vector.until and int(vector.until) < time.time():
        assert (signed_, value) == ("0", "")
    else:
        assert (signed_, value) == ("1", vector.value)


@pytest.mark.parametrize("vector", vectors(), ids=str)
def test_vector_of_another_key(signed: Site, vector: Vector) -> None:
    """With another key nothing is good."""
    write_keys(signed, "11" * 32 + " 22" * (vector.scheme == "imgproxy"))
    nginx = show(signed, vector.scheme, vector.parameters)
    assert shown(nginx, vector.uri) == ("", "")


@pytest.mark.parametrize("vector", vectors(), ids=str)
def test_vector_changed(signed: Site, vector: Vector) -> None:
    """Each character counts, but for those that are not signed at all."""
    write_keys(signed, vector.key)
    nginx = show(signed, vector.scheme, vector.parameters)
    rng = random.Random(seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    good = "abcdefghijklmnopqrstuvwxyz0123456789"
    for place in rng.sample(range(1, len(vector.uri)), 20):
        old = vector.uri[place]
        new = rng.choice([c for c in good if c != old])
        uri = f"{vector.uri[:place]}{new}{vector.uri[place + 1 :]}"
        answer = nginx.get(uri)
        # a broken "%" is nginx's own business
        assert answer.status == 400 or answer.body == b"[][]", uri


# hmac


def test_hmac(signed: Site) -> None:
    """Good, expired, bad: as secure_link says it."""
    nginx = show(signed, "hmac")
    uri = f"/file/1?expires={FAR}"
    assert shown(nginx, sign(uri)) == ("1", uri)
    assert shown(nginx, sign("/file/1")) == ("1", "/file/1")
    assert shown(nginx, sign(f"/file/1?expires={OVER}")) == ("0", "")
    assert shown(nginx, uri) == ("", "")
    assert shown(nginx, sign(uri, b"x" * 32)) == ("", "")


def test_signature_may_stand_anywhere(signed: Site) -> None:
    """The other arguments keep their order, and count."""
    nginx = show(signed, "hmac")
    code = sign("/a?b=1&c=2").rpartition("=")[2]
    assert shown(nginx, f"/a?signature={code}&b=1&c=2") == ("1", "/a?b=1&c=2")
    assert shown(nginx, f"/a?b=1&signature={code}&c=2") == ("1", "/a?b=1&c=2")
    assert shown(nginx, f"/a?c=2&b=1&signature={code}") == ("", "")
    assert shown(nginx, f"/a?b=1&c=2&signature={code}&d=3") == ("", "")
    assert shown(nginx, f"/a?b=1&c=2&signature={code}&") == ("", "")


def test_what_is_not_taken_for_a_signature(signed: Site) -> None:
    """Other forms of the same code, two of them, a longer or shorter one."""
    nginx = show(signed, "hmac")
    uri, _, code = sign("/a").partition("?signature=")
    assert len(code) == 43
    for bad in (
        *(code[:-1], code + "A", code + "=", f"{code}%3D", f"%{ord(code[0]):02x}"),
        *(code.swapcase(), "", f"{code}&signature={code}", f"&signature={code}"),
    ):
        assert shown(nginx, f"{uri}?signature={bad}") == ("", ""), bad
    assert shown(nginx, f"{uri}?Signature={code}") == ("", "")
    assert shown(nginx, f"{uri}?%73ignature={code}") == ("", "")


def test_path_counts_as_it_was_sent(signed: Site) -> None:
    """Another spelling of the same path is another path."""
    nginx = show(signed, "hmac")
    assert shown(nginx, sign("/a%20b/./c//d")) == ("1", "/a%20b/./c//d")
    code = sign("/file/1").rpartition("=")[2]
    for path in ("/file/%31", "/file//1", "/file/./1", "/file/1/", "/FILE/1"):
        assert shown(nginx, f"{path}?signature={code}")[0] == ""


@pytest.mark.parametrize(
    "expires", ["", "x", "-1", "+1", "1e9", "9" * 19, "0x7fffffff"]
)
def test_time_that_is_none(signed: Site, expires: str) -> None:
    """A good signature of nonsense lets nobody in."""
    nginx = show(signed, "hmac")
    assert shown(nginx, sign(f"/a?expires={expires}")) == ("", "")


def test_address(signed: Site) -> None:
    """A link of an address is good there and nowhere else."""
    nginx = show(signed, "hmac", "address")
    assert shown(nginx, sign("/a", address="127.0.0.1")) == ("1", "/a")
    assert shown(nginx, sign("/a", address="127.0.0.2")) == ("", "")
    assert shown(nginx, sign("/a")) == ("", "")
    assert shown(nginx, sign("/a\n127.0.0.1").replace("\n", "%0A")) == ("", "")


def test_link_without_address_where_one_is_wanted_elsewhere(signed: Site) -> None:
    """A link of an address says nothing where none is wanted."""
    nginx = show(signed, "hmac")
    assert shown(nginx, sign("/a", address="127.0.0.1")) == ("", "")


def test_several_keys(signed: Site) -> None:
    """Each of them is good, with comments and blank lines between them."""
    other = bytes(range(100, 164))
    write_keys(signed, "# old", "", f"  {KEY.hex()}  # until June", other.hex().upper())
    nginx = show(signed, "hmac")
    assert shown(nginx, sign("/a", KEY))[0] == "1"
    assert shown(nginx, sign("/a", other))[0] == "1"
    assert shown(nginx, sign("/a", b""))[0] == ""


def test_keys_of_a_reload(signed: Site) -> None:
    """A reload takes the keys that the file has then."""
    nginx = show(signed, "hmac")
    assert shown(nginx, sign("/a"))[0] == "1"
    write_keys(signed, "33" * 32)
    nginx.reload()
    assert shown(nginx, sign("/a"))[0] == ""
    assert shown(nginx, sign("/a", b"\x33" * 32))[0] == "1"


def test_off_and_inherited(signed: Site) -> None:
    """A level without the directive has that of the level above."""
    nginx = signed.start(
        f"""
        http_sendfile_signature hmac %%DIR%%/keys;
        location /in {{ {SHOW} }}
        location /off {{ http_sendfile_signature off; {SHOW} }}
        location /if {{ if ($arg_x) {{ {SHOW} }} return 404; }}
        """
    )
    assert shown(nginx, sign("/in"))[0] == "1"
    assert shown(nginx, sign("/off")) == ("", "")
    assert shown(nginx, sign("/if?x=1"))[0] == "1"


def test_redirect_to_another_key(signed: Site) -> None:
    """What was good for one location is not for the next one."""
    write_keys(signed, "44" * 32, name="other")
    nginx = signed.start(
        f"""
        location /a {{
            http_sendfile_signature hmac %%DIR%%/keys;
            if ($sendfile_signed = "") {{ return 403; }}
            rewrite ^ /b last;
        }}
        location /b {{
            http_sendfile_signature hmac %%DIR%%/other;
            {SHOW}
        }}
        location /c {{
            http_sendfile_signature hmac %%DIR%%/keys;
            error_page 418 = /d;
            if ($sendfile_signed = "1") {{ return 418; }}
            return 403;
        }}
        location /d {{ {SHOW} }}
        """
    )
    assert shown(nginx, sign("/a")) == ("", "")
    assert shown(nginx, sign("/c")) == ("", "")


def test_protects_files(signed: Site, delivery: str) -> None:
    """The whole of it: a file for a good link, 410 and 403 for others."""
    signed.add(1)
    nginx = signed.start(
        """
        location /file/ {
            http_sendfile_signature hmac %%DIR%%/keys;
            if ($sendfile_signed = "")  { return 403; }
            if ($sendfile_signed = "0") { return 410; }
            http_sendfile on;
            %%DELIVER%%
        }
        %%INTERNAL%%
        """
    )
    signed.assert_file(nginx.get(sign("/file/1")), 1)
    signed.assert_file(nginx.get(sign(f"/file/1?expires={FAR}")), 1)
    assert nginx.get(sign(f"/file/1?expires={OVER}")).status == 410
    assert nginx.get("/file/1").status == 403
    assert nginx.get("/file/1?" + sign("/file/2").partition("?")[2]).status == 403


def test_subrequest_sees_the_clients_link(signed: Site) -> None:
    """auth_request can ask a location that checks the signature."""
    nginx = signed.start(
        """
        location /a { auth_request /check; return 200 "in"; }
        location /b { auth_request /check; try_files /none =404; }
        location = /check {
            internal;
            http_sendfile_signature hmac %%DIR%%/keys;
            if ($sendfile_signed != "1") { return 403; }
            return 204;
        }
        """
    )
    assert nginx.get("/b").status == 403
    assert nginx.get(sign("/b")).status == 404


def test_http2(signed: Site) -> None:
    """The same with HTTP/2, whose requests have no request line."""
    nginx = signed.start(
        f"""
        listen 127.0.0.1:%%PORT:h2%% http2;
        location / {{ http_sendfile_signature hmac %%DIR%%/keys; {SHOW} }}
        """
    )
    with nginx.http2("h2") as client:
        for uri, said in (
            (sign("/a%20b?c=1"), b"[1][/a%20b?c=1]"),
            ("/a%20b?c=1", b"[][]"),
        ):
            assert client.get(uri).content == said


# laravel


def laravel(uri: str, base: str = "") -> str:
    """Sign a URI as Laravel does."""
    import hmac

    text = (base + ("" if base and uri == "/" else uri)).rstrip("?")
    code = hmac.digest(KEY, text.encode(), "sha256").hex()
    return f"{uri}{'&' if '?' in uri else '?'}signature={code}"


def test_laravel_host(signed: Site) -> None:
    """An absolute link is good for its host only, however that is written."""
    nginx = show(signed, "laravel")
    link = laravel("/a", "http://www.example.com")
    assert shown(nginx, link, Host="www.example.com")[0] == "1"
    assert shown(nginx, link, Host="WWW.Example.com")[0] == "1"
    assert shown(nginx, link, Host="www.example.com:80")[0] == "1"
    assert shown(nginx, link, Host="www.example.com:8080")[0] == ""
    assert shown(nginx, link, Host="example.com")[0] == ""
    link = laravel("/a", "http://www.example.com:8080")
    assert shown(nginx, link, Host="www.example.com:8080")[0] == "1"


def test_laravel_relative(signed: Site) -> None:
    """A relative link is good for any host."""
    nginx = show(signed, "laravel", "base=https://www.example.com")
    assert shown(nginx, laravel("/a?b=1"), Host="x") == ("1", "/a?b=1")
    assert shown(nginx, laravel("/a", "https://www.example.com"))[0] == "1"
    assert shown(nginx, laravel("/a", "http://www.example.com"))[0] == ""


def test_laravel_code_in_upper_case(signed: Site) -> None:
    """hash_equals() compares bytes."""
    nginx = show(signed, "laravel")
    uri, _, code = laravel("/a").partition("?signature=")
    assert shown(nginx, f"{uri}?signature={code}")[0] == "1"
    assert shown(nginx, f"{uri}?signature={code.upper()}")[0] == ""


# tokens


def token(value: str, key: bytes = KEY) -> str:
    """Make a token of Django's Signer."""
    import hmac

    return f"{value}:{base64_url(hmac.digest(key, value.encode(), 'sha256'))}"


def test_token_from_elsewhere(signed: Site) -> None:
    """token= says where it is: an argument, a header, a part of the path."""
    nginx = signed.start(
        f"""
        http_sendfile_signature django %%DIR%%/keys token=$arg_t;
        location /arg {{ {SHOW} }}
        location /header {{
            http_sendfile_signature django %%DIR%%/keys token=$http_x_token;
            {SHOW}
        }}
        location ~ ^/path/(?<part>[^/]+)/ {{
            http_sendfile_signature django %%DIR%%/keys token=$part;
            {SHOW}
        }}
        """
    )
    good = token("a/b")
    assert shown(nginx, f"/arg?t={good}") == ("1", "a/b")
    assert shown(nginx, f"/arg?t={good.replace('/', '%2f').replace(':', '%3A')}")
    assert shown(nginx, f"/arg?x={good}") == ("", "")
    assert shown(nginx, "/header", **{"X-Token": good}) == ("1", "a/b")
    assert shown(nginx, f"/path/{token('ab')}/name.jpg") == ("1", "ab")


def test_token_that_changes_within_a_request(signed: Site) -> None:
    """The result is that of the token as it is then."""
    nginx = signed.start(
        """
        location / {
            set $token $arg_a;
            http_sendfile_signature django %%DIR%%/keys token=$token;
            set $first $sendfile_signed;
            set $token $arg_b;
            return 200 "[$first][$sendfile_signed]";
        }
        """
    )
    good = token("x")
    assert shown(nginx, f"/?a={good}&b=x:y") == ("1", "")
    assert shown(nginx, f"/?a=x:y&b={good}") == ("", "1")


def test_long_token(signed: Site) -> None:
    """64 KB are no token, and cost nothing but the look at their length."""
    nginx = signed.start(
        f"""
        large_client_header_buffers 4 80k;
        location / {{
            http_sendfile_signature django %%DIR%%/keys token=$http_x_token;
            {SHOW}
        }}
        """
    )
    good = token("x" * 10000)
    assert shown(nginx, "/", **{"X-Token": good}) == ("1", "x" * 10000)
    assert shown(nginx, "/", **{"X-Token": token("x" * 65536)}) == ("", "")


@pytest.mark.parametrize(
    "bad", ["", ":", "%", "%zz", "%00", "x", "x:", ":x", "--", "=="]
)
@pytest.mark.parametrize("scheme", ["django", "rails", "imgproxy", "hmac", "laravel"])
def test_nonsense(signed: Site, scheme: str, bad: str) -> None:
    """Whatever it is, it is bad and nothing else."""
    write_keys(signed, KEY.hex() + " 00" * (scheme == "imgproxy"))
    takes_token = scheme in ("django", "rails")
    nginx = show(signed, scheme, "token=$arg_t" if takes_token else "")
    assert shown(nginx, f"/?t={bad}") == ("", "")
    assert shown(nginx, f"/?signature={bad}&expires=1") == ("", "")
    assert shown(nginx, "/") == ("", "")


def test_imgproxy_prefix(signed: Site) -> None:
    """What stands before the signature is not signed, and must be there."""
    import hmac

    write_keys(signed, f"{KEY.hex()} 00ff")
    nginx = show(signed, "imgproxy", "prefix=/img")
    rest = f"/w:300/exp:{FAR}/plain/local:///a.jpg"
    code = base64_url(hmac.digest(KEY, b"\0\xff" + rest.encode(), "sha256"))
    assert shown(nginx, f"/img/{code}{rest}") == ("1", rest)
    assert shown(nginx, f"/{code}{rest}") == ("", "")
    assert shown(nginx, f"/imgs/{code}{rest}") == ("", "")
    rest = f"/w:300/exp:{OVER}/plain/local:///a.jpg"
    code = base64_url(hmac.digest(KEY, b"\0\xff" + rest.encode(), "sha256"))
    assert shown(nginx, f"/img/{code}{rest}") == ("0", "")


def test_key_is_in_no_log(signed: Site) -> None:
    """Neither the key nor a part of it, not even with the debug log."""
    signed.variables["LOG_LEVEL"] = "debug"
    nginx = show(signed, "hmac")
    shown(nginx, sign("/a"))
    shown(nginx, "/a?signature=x")
    nginx.reload()
    shown(nginx, sign("/a"))
    log = (signed.directory / "logs" / "error.log").read_bytes()
    for part in (KEY, KEY[:8], KEY.hex().encode(), KEY.hex()[:16].encode()):
        assert part not in log
