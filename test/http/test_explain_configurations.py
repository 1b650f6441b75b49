"""What explain says is what happens, in configurations that people write."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lib.accept import sendfile
from lib.backend import Reply
from lib.cache import ZONE
from lib.client import from_httpx, request
from lib.explain import STATUS, explain, parse, same
from lib.fake_memcached import Fake, Get, Peer, answer
from lib.gateway import Gateway
from lib.memcached import Memcached
from lib.ruby import load_ruby
from lib.site import Site
from lib.tls import Certificate
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures", "lib.memcached_fixtures")

APP = "location @app { proxy_pass http://%%APP%%; }"

# configuration, and for each URI the outcome and the status that is told
CONFIGURATIONS: dict[str, tuple[str, dict[str, tuple[str, int | None]]]] = {
    "front controller": (
        (
            "location / { try_files $uri /index.php?q=$uri; }"
            "location /file/ { http_sendfile on; http_sendfile_fallback /index.php; }"
            "location ~ \\.php$ { proxy_pass http://%%APP%%; }"
        ),
        {
            "/file/7": ("sent", 200),
            "/file/8": ("application", None),
            "/x": ("not_ours", None),
            "/a.php": ("not_ours", None),
        },
    ),
    "rewrite of the server": (
        (
            "rewrite ^/pictures/(\\d+)/[^/]+$ /file/$1;"
            "location /file/ { http_sendfile on; }"
        ),
        {"/pictures/7/cat.png": ("sent", 200), "/pictures/8/x": ("failed", 404)},
    ),
    "rewrite of the location": (
        (
            "location /p/ { rewrite ^/p/(.*)$ /file/$1 last; }"
            "location /b/ { rewrite ^/b/(.*)$ /$1 break; http_sendfile on; }"
            "location /r/ { rewrite ^/r/(.*)$ /file/$1 redirect; }"
            "location /loop/ { rewrite ^ /loop/x last; }"
            "location /file/ { http_sendfile on; }"
        ),
        {
            "/p/7": ("sent", 200),
            "/b/7": ("sent", 200),
            "/r/7": ("not_ours", 302),
            "/loop/7": ("not_ours", 500),
        },
    ),
    "return": (
        (
            "location /200 { return 200 text; } location /204 { return 204; }"
            "location /301 { return 301 /file/7; } location /404 { return 404; }"
            "location /410 { return 410 gone; }"
        ),
        {
            "/200": ("not_ours", 200),
            "/204": ("not_ours", 204),
            "/301": ("not_ours", 301),
            "/404": ("not_ours", 404),
            "/410": ("not_ours", 410),
        },
    ),
    "if": (
        (
            "location /file/ { http_sendfile on; if ($arg_no) { return 403; }"
            " if ($arg_app) { http_sendfile off; proxy_pass http://%%APP%%; }"
            " set $never 1; }"
        ),
        {
            "/file/7": ("sent", 200),
            "/file/7?no=1": ("not_ours", 403),
            "/file/7?app=1": ("not_ours", None),
        },
    ),
    "regex with captures": (
        (
            "location ~ ^/u/(?<user>[a-z]+)/(\\d+)$ {"
            " http_sendfile on; http_sendfile_key $user:$2; }"
            "location ~* ^/CAPS/ { http_sendfile on; }"
            "location = /file/7 { http_sendfile on; }"
            "location ^~ /file/ { return 403; }"
            "location /outer/ { location /outer/inner/ { http_sendfile on; } }"
        ),
        {
            "/u/ann/7": ("sent", 200),
            "/u/bob/7": ("failed", 404),
            "/caps/7": ("sent", 200),
            "/file/7": ("sent", 200),
            "/file/8": ("not_ours", 403),
            "/outer/inner/7": ("sent", 200),
            "/outer/7": ("not_ours", None),
        },
    ),
    "tenants by root": (
        (
            "location ~ ^/t/(?<tenant>\\w+)/ { http_sendfile on;"
            " http_sendfile_root %%FILES%%/$tenant; }"
        ),
        {"/t/aa/9": ("sent", 200), "/t/bb/9": ("failed", 404)},
    ),
    "a slash that nginx adds": (
        (
            "location /app/ { proxy_pass http://%%APP%%; }"
            "location = /app/exact/ { proxy_pass http://%%APP%%; }"
        ),
        {"/app": ("not_ours", 301), "/app/exact": ("not_ours", 301)},
    ),
    "fallbacks": (
        (
            "location /uri/ { http_sendfile on; http_sendfile_fallback /page; }"
            "location /off/ { http_sendfile on; http_sendfile_fallback @app;"
            " http_sendfile_fallback_on error; }"
            "location /var/ { http_sendfile on; http_sendfile_fallback $arg_to; }"
            "location = /page { return 203 page; }"
        ),
        {
            "/uri/8": ("application", 203),
            "/off/8": ("failed", 404),
            "/var/8?to=@app": ("application", None),
            "/var/8?to==451": ("failed", 451),
            "/var/8?to=none": ("failed", 500),
        },
    ),
    "handler of a redirect's location": (
        (
            "location /file/ { http_sendfile on; http_sendfile_prefix /proxied/; }"
            "location /proxied/ { internal; proxy_pass http://%%APP%%; }"
        ),
        {"/file/7": ("unknown", None)},
    ),
    "root, not alias": (
        (
            "location /file/ { http_sendfile on; http_sendfile_prefix /html/; }"
            "location /html/ { internal; root %%FILES%%; }"
        ),
        {"/file/7": ("failed", 404)},
    ),
    "unusual variables": (
        (
            "location /file/ { http_sendfile on;"
            " http_sendfile_key $sendfile_id$is_args$args; "
            " set $all $scheme$server_port$remote_addr$ssl_protocol$request_id$http2"
            "$connection$upstream_addr$request_body$proxy_host$tcpinfo_rtt"
            "$realpath_root$server_addr$pipe$host$http_host$request_time; }"
        ),
        {"/file/7": ("sent", 200), "/file/7?x": ("failed", 404)},
    ),
}


def fill(site: Site) -> None:
    """Two files, by several keys."""
    site.add(7)
    site.store.put("ann:7", "aa/7.dat")
    site.files.write_id("aa/9.dat", 9, 100)
    site.store.put(9, "9.dat")
    site.app.script = lambda request: Reply(body=b"app\n")


def test_a_fallback_with_another_store_is_not_looked_up(site: Site) -> None:
    """A request is looked up once: explain says so, and what to write."""
    second = site.store_at("second")
    second.put(8, "aa/8.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%%"
        " http_sendfile_fallback /second/8; }"
        "location /second/ { http_sendfile on;"
        f" http_sendfile_lookup lmdb:{second.path}; }}"
        + STATUS
    )
    nginx.allow_log("leads back to a location|failed \\(2:")
    explained = same(nginx, "/file/8")
    assert explained.outcome == "application"
    notes = explained.step("http_sendfile", 1)
    assert notes["enabled"] is True
    assert f"the store lmdb:{second.path} is not asked" in notes["text"]
    assert f"this one was in lmdb:{site.store.path}" in notes["text"]
    assert "one request asks one store" in explained.advice
    assert 'write "http_sendfile off;" in location "/second/"' in explained.advice


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_as_the_request(site: Site, name: str) -> None:
    """Status and source are those of the request itself, whatever leads there."""
    fill(site)
    server, expected = CONFIGURATIONS[name]
    internal = "" if "/files/" in server else "%%INTERNAL%%"
    nginx = site.start(server + APP + internal + STATUS)
    nginx.allow_log("rewrite or internal redirection cycle")
    for uri, end in expected.items():
        before = len(site.app.requests)
        explain(nginx, uri)
        assert len(site.app.requests) == before, "the application was asked"
        explained = same(nginx, uri)
        assert (explained.outcome, explained.status) == end, explained.document


def test_several_servers_of_a_port(site: Site) -> None:
    """The host chooses: by name, by wildcard, by regex, else the first block."""
    fill(site)
    blocks = "".join(
        f"server {{ listen 127.0.0.1:%%PORT%%; server_name {name};"
        f" location /file/ {{ http_sendfile on; http_sendfile_fallback ={code}; }} }}"
        for name, code in (
            ("one.test", 401),
            ("*.two.test", 402),
            (r"~^(?<who>\w+)\.three\.test$", 403),
        )
    )
    nginx = site.start(
        STATUS,
        http=blocks,
    )
    for host, code in (
        ("one.test", 401),
        ("ONE.test:81", 401),
        ("a.two.test", 402),
        ("me.three.test", 403),
        ("other.test", 401),
    ):
        explained = same(nginx, f"/file/8?{host}", host)
        assert explained.status == code
        server = explained.step("server")
        assert server["default"] == (host == "other.test")
        assert server["listen"] == f"127.0.0.1:{nginx.port}"


def test_ports_ipv6_and_unix_socket(site: Site) -> None:
    """The port of the URL chooses the listen, whatever asks."""
    fill(site)
    site.directory.chmod(0o755)
    sock = site.directory / "nginx.sock"
    nginx = site.start(
        STATUS,
        http="server { listen 127.0.0.1:%%PORT:other%%; listen [::1]:%%PORT:other%%;"
        " location /file/ { http_sendfile on; http_sendfile_fallback =410; } }"
        f" server {{ listen unix:{sock};"
        " location /file/ { http_sendfile on; http_sendfile_fallback =451; }"
        + STATUS
        + "}",
    )
    port = nginx.port_of("other")
    assert explain(nginx, "/file/8").outcome == "not_ours"
    assert same(nginx, "/file/8", port="other").status == 410
    explained = explain(nginx, f"http://[::1]:{port}/file/8")
    assert explained.status == 410
    assert explained.step("server")["listen"] == f"[::1]:{port}"
    assert explain(nginx, f"http://unix:{sock}:/file/8").status == 451
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(sock))
        client.sendall(b"GET /status/explain?url=/file/8 HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: client.recv(65536), b""))
    assert b'"status":451' in text


def test_two_servers_of_one_store(site: Site, memcached: Memcached, fake: Fake) -> None:
    """The server that has the key is named; when it is down, the next one."""
    asked: list[str] = []

    async def script(peer: Peer, get: Get) -> None:
        asked.extend(get.keys)
        await answer(peer, get)

    fake.script = script
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_lookup two; }" + STATUS,
        http=f"http_sendfile_store two {{ server {memcached.url};"
        f" server {fake.url}; }}",
    )
    for n in range(20):
        before = len(asked)
        server = explain(nginx, f"/file/{n}").step("store")["server"]
        assert (len(asked) > before) == (server in fake.url)
        same(nginx, f"/file/{n}")
    assert 0 < len(asked) < 40


def test_learned(site: Site, web: Gateway) -> None:
    """A learned answer is told with its age, and none is learned by asking."""
    site.add(7)
    web.script = lambda request: sendfile(
        site.files.root / "aa/7.dat", ("X-Accel-Expires", "60")
    )
    nginx = site.start(
        "location / { %%PASS%% %%ACCEPT%% http_sendfile_learn on;"
        " http_sendfile_cache main; } location /other/ { http_sendfile on;"
        " http_sendfile_fallback @app; } location @app { %%PASS%% %%ACCEPT%%"
        " http_sendfile_learn on; http_sendfile_cache main; }" + STATUS,
        http=ZONE,
    )
    url = f"http://127.0.0.1:{nginx.port}"
    for uri in ("/a", "/other/8"):
        for _ in range(2):
            explained = explain(nginx, url + uri, "localhost")
            assert explained.step("learned")["entry"] == "none"
            assert explained.status is None
        asked = len(web.requests)
        assert nginx.get(f"{uri}", {"Host": "localhost"}).status == 200
        assert len(web.requests) == asked + 1
        explained = same(nginx, uri, "localhost")
        assert explained.outcome == "sent"
        assert explained.document["source"] == "learned"
        assert explained.step("learned")["age"] >= 0
        assert len(web.requests) == asked + 1


def test_ruby_is_not_run(site: Site) -> None:
    """A script's decision is not known, and it is not run to know it."""
    load_ruby(site)
    fill(site)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_ruby_code '"
        'Nginx.log Nginx::LOG_ERR, "ran"; 403\'; }'
        "location /set/ { mruby_set_code $x '"
        'Nginx.log Nginx::LOG_ERR, "ran"; "7"\'; http_sendfile on;'
        " http_sendfile_key $x; } %%INTERNAL%%" + STATUS
    )
    for uri in ("/file/7", "/set/7"):
        explained = explain(nginx, uri)
        assert (explained.outcome, explained.status) == ("unknown", None)
        assert "not known" in explained.verdict
    assert not any("ran" in line for line in nginx.errors("error"))


def test_within_a_subrequest(site: Site, memcached: Memcached) -> None:
    """An SSI page may ask, for a store that answers later, too."""
    site.html.write(
        "page.html", b'[<!--#include virtual="/status/explain?url=/f/7" -->]'
    )
    nginx = site.start(
        f"ssi on; location /f/ {{ http_sendfile on; http_sendfile_lookup {memcached.url};"
        " }" + STATUS
    )
    for _ in range(2):
        body = nginx.get("/page.html").text
        assert re.fullmatch(
            r'\[\{"url":"/f/7".*"result":"MISS".*\}\n\]', body, re.DOTALL
        )


def test_over_http2(site: Site) -> None:
    """Several questions on one connection at once."""
    fill(site)
    nginx = site.start(
        STATUS,
        http=f"server {{ {site.http2_listen()} location /file/ {{ http_sendfile on; }}"
        f" %%INTERNAL%% {STATUS} }}",
    )
    with nginx.http2("h2") as client:
        response = client.get("/status/explain?url=/file/7")
    explained = parse(from_httpx(response))
    assert (explained.outcome, explained.status) == ("sent", 200)


def test_client_that_goes_and_store_that_hangs(site: Site, fake: Fake) -> None:
    """The question ends with its client, the lookup with its deadline."""

    async def never(peer: Peer, get: Get) -> None:
        await peer.hold()

    fake.script = never
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {fake.url};"
        " http_sendfile_timeout 10s; }" + STATUS
    )
    for n in range(10):
        with nginx.connect() as connection:
            connection.send_request("GET", f"/status/explain?url=/file/{n}")
            wait_until(lambda: fake.holding > 0, what="the store to be asked")
            connection.abort()
    wait_until(
        lambda: len(nginx.access_entries()) >= 10, what="the questions to be logged"
    )
    fake.release()
    assert nginx.get("/status/explain?url=/x").status == 200


def test_reload_meanwhile(site: Site, fake: Fake) -> None:
    """A question that waits is answered by the worker that has it."""

    async def held(peer: Peer, get: Get) -> None:
        await peer.hold()
        await answer(peer, get)

    fake.script = held
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_lookup {fake.url};"
        " http_sendfile_timeout 30s; }" + STATUS
    )
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(nginx.get, "/status/explain?url=/file/8")
        wait_until(lambda: fake.holding > 0, what="the store to be asked")
        nginx.reload()
        fake.release()
        explained = parse(asked.result())
    assert (explained.outcome, explained.status) == ("failed", 404)


def test_two_hundred_leave_nothing(site: Site, memcached: Memcached) -> None:
    """Neither descriptors nor connections are left over, on one connection."""
    fill(site)
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DIRECT%% } %%INTERNAL%%"
        "location /r/ { http_sendfile on; }"
        f"location /m/ {{ http_sendfile on; http_sendfile_lookup {memcached.url}; }}"
        "location /stub { stub_status; }" + STATUS
    )
    (worker,) = nginx.workers()

    def open_files() -> int:
        return len(list(Path(f"/proc/{worker}/fd").iterdir()))

    with nginx.connect() as connection:
        uris = ["/file/7", "/file/8", "/m/7", "/r/7", "/x", "/status/explain?url=/x"]
        for uri in uris:
            parse(connection.request("GET", f"/status/explain?url={uri}"))
        before = open_files()
        for n in range(200):
            uri = uris[n % len(uris)]
            parse(connection.request("GET", f"/status/explain?url={uri}"))
        assert open_files() == before
        stub = connection.request("GET", "/stub").text
    assert "Active connections: 1 " in stub


def test_tls(site: Site, certificate: Certificate) -> None:
    """The URL's scheme is that of the variables, whatever the question came by."""
    site.add(7)
    site.store.put("https7", "aa/7.dat")
    nginx = site.start(
        STATUS,
        http="server { listen 127.0.0.1:%%PORT:tls%% ssl;"
        f" ssl_certificate {certificate.certificate};"
        f" ssl_certificate_key {certificate.key};"
        " location /file/ { http_sendfile on;"
        " http_sendfile_key $scheme$sendfile_id; } %%INTERNAL%%" + STATUS + "}",
    )
    port = nginx.port_of("tls")
    uri = "/file/7"
    assert explain(nginx, f"https://127.0.0.1:{port}{uri}").status == 200
    explained = explain(nginx, f"http://127.0.0.1:{port}{uri}")
    assert (explained.outcome, explained.status) == ("not_ours", 400)
    tls = certificate.client_context()
    response = request(
        port, "GET", f"/status/explain?url=https://127.0.0.1:{port}{uri}", tls=tls
    )
    assert parse(response).status == 200
    assert request(port, "GET", uri, tls=tls).status == 200
