"""Bodies in the shared cache: the file as it is, without asking for it.

That an answer comes from memory is seen in three ways: the file is another
one meanwhile (and http_sendfile_cache_check long), it is gone, or strace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lib.cache import (
    CACHE,
    LATE,
    MTIME,
    SLOW,
    ZONE,
    ask,
    let_pass,
    make_old,
    replace,
    settle,
    slow_connection,
    slowed,
    wait_until_held_up,
    watched,
)
from lib.client import Connection, Headers, Response, from_httpx, http2_client, request
from lib.compare import assert_same
from lib.files import Files, content
from lib.nginx import Nginx
from lib.site import Site
from lib.tls import Certificate
from lib.wait import how_late, wait_until

SIZE = 1000
MTIME_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"
FOR_EVER = "http_sendfile_cache_valid 1h; http_sendfile_cache_check 1h;"
BODY = f"{CACHE} http_sendfile_cache_body 100k;"

# the files of /memory/ are others than those of /static/, of the same
# content and times, and are taken away once they are in memory
SERVER = f"""
location /static/ {{ alias %%FILES%%/; }}
location /memory/ {{
    http_sendfile on; http_sendfile_root %%DIR%%/copies; {BODY} {FOR_EVER}
}}
"""


def add(site: Site, file_id: int = 1, name: str = "aa/1.txt", size: int = SIZE) -> None:
    """Add a file twice, in FILES and in copies, with the time MTIME."""
    if not (site.directory / "copies").exists():
        Files(site.directory / "copies")
    site.add(file_id, name, size)
    copy = site.directory / "copies" / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(content(file_id, size))
    for path in (copy, site.files.path(name)):
        os.utime(path, (MTIME, MTIME))


def copies(site: Site) -> list[Path]:
    """Return the files of copies."""
    return [path for path in (site.directory / "copies").rglob("*") if path.is_file()]


def start(site: Site, directives: str = "", http: str = "", main: str = "") -> Nginx:
    """Start a server, get all files into memory, and take the files away.

    Args:
        site: whose server and files.
        directives: that hold in both locations.
        http: directives of the http block.
        main: directives of the top level.
    """
    nginx = site.start(directives + SERVER, ZONE + http, main)
    remember(site, nginx)
    return nginx


def remember(site: Site, nginx: Nginx) -> None:
    """Get all files of copies into memory, and take them away."""
    found = copies(site)
    settle(*found)
    ids = [int(path.name.split(".")[0]) for path in found]
    for _ in range(2):
        for n in ids:
            assert nginx.get(f"/memory/{n}").status == 200
    for path in found:
        path.unlink()


def same(
    nginx: Nginx,
    headers: Headers | None = None,
    method: str = "GET",
    file_id: int = 1,
    name: str = "aa/1.txt",
) -> Response:
    """Compare an answer from memory with the static one, and return that."""
    wanted = nginx.request(method, f"/static/{name}", headers)
    got = nginx.request(method, f"/memory/{file_id}", headers)
    assert_same(got, wanted)
    return wanted


def etag(nginx: Nginx, name: str = "aa/1.txt") -> str:
    """Return the entity tag of a file."""
    tag = nginx.head(f"/static/{name}").header("ETag")
    assert tag is not None
    return tag


# the same as a static file


@pytest.mark.parametrize(
    "name", ["aa/1.txt", "aa/1.html", "1.PNG", "a.png/1", "aa/1.nosuchtype", "aa/1."]
)
def test_get_and_head(site: Site, name: str) -> None:
    """The Content-Type is that of the path; HEAD has GET's headers."""
    add(site, 1, name)
    nginx = start(site)
    site.assert_file(same(nginx, name=name), 1, SIZE)
    head = same(nginx, method="HEAD", name=name)
    assert (head.status, head.body) == (200, b"")
    assert head.header("Last-Modified") == MTIME_HTTP


def test_sizes(site: Site) -> None:
    """Bodies of any size that fit come whole."""
    sizes = [1, 2, 7, 8, 9, 255, 256, 4095, 4096, 4097, 8192, 50_001, 100 * 1024]
    for n, size in enumerate(sizes):
        add(site, n, f"aa/{n}.txt", size)
    nginx = start(site)
    for n, size in enumerate(sizes):
        site.assert_file(same(nginx, file_id=n, name=f"aa/{n}.txt"), n, size)
        same(nginx, {"Range": "bytes=-1"}, file_id=n, name=f"aa/{n}.txt")


def test_all_bytes(site: Site) -> None:
    """A body is bytes, whatever they are."""
    add(site)
    data = bytes(range(256)) * 100
    for path in (site.files.path("aa/1.txt"), *copies(site)):
        path.write_bytes(data)
        os.utime(path, (MTIME, MTIME))
    nginx = start(site)
    assert same(nginx).body == data


def test_ranges(site: Site) -> None:
    """Ranges of any kind are nginx's own."""
    add(site)
    nginx = start(site)
    statuses = set()
    for value in (
        "bytes=0-0",
        "bytes=0-99",
        "bytes=100-",
        "bytes=999-",
        "bytes=990-5000",
        "bytes=0-999",
        "bytes=0-18446744073709551616",
        "bytes= 10 - 20 ",
        "bytes=-1",
        "bytes=-100",
        "bytes=-5000",
        "bytes=0-9,20-29",
        "bytes=0-9,-10",
        "bytes=0-0,2-2,4-4,6-6,8-8",
        "bytes=0-9,5-14",
        "bytes=0-9,2000-3000",
        "bytes=0-600,400-999",
        "bytes=1000-",
        "bytes=5000-",
        "bytes=2000-3000,5000-6000",
        "bytes=5-4",
        "bytes=abc",
        "bytes=",
        "bytes=-",
        "bytes=-0",
        "chars=0-1",
    ):
        for method in ("GET", "HEAD"):
            statuses.add(same(nginx, {"Range": value}, method).status)
    assert statuses == {200, 206, 416}


def test_conditions(site: Site) -> None:
    """Conditions of any kind, and with ranges."""
    add(site)
    nginx = start(site)
    tag = etag(nginx)
    no, late, early = (
        '"other"',
        "Tue, 14 Nov 2023 22:13:21 GMT",
        "Tue, 14 Nov 2023 22:13:19 GMT",
    )
    seen = set()
    for headers in (
        {"If-None-Match": tag},
        {"If-None-Match": f"W/{tag}"},
        {"If-None-Match": f"{no}, {tag}"},
        {"If-None-Match": "*"},
        {"If-None-Match": no},
        {"If-None-Match": "nonsense"},
        {"If-Match": tag},
        {"If-Match": f"W/{tag}"},
        {"If-Match": "*"},
        {"If-Match": no},
        {"If-Modified-Since": MTIME_HTTP},
        {"If-Modified-Since": late},
        {"If-Modified-Since": early},
        {"If-Modified-Since": "nonsense"},
        {"If-Unmodified-Since": MTIME_HTTP},
        {"If-Unmodified-Since": early},
        {"If-Range": tag, "Range": "bytes=0-9"},
        {"If-Range": f"W/{tag}", "Range": "bytes=0-9"},
        {"If-Range": no, "Range": "bytes=0-9"},
        {"If-Range": MTIME_HTTP, "Range": "bytes=0-9"},
        {"If-Range": late, "Range": "bytes=0-9"},
        {"If-None-Match": no, "If-Modified-Since": MTIME_HTTP},
        {"If-None-Match": tag, "If-Modified-Since": early},
        {"If-None-Match": tag, "Range": "bytes=0-9"},
        {"If-None-Match": tag, "Range": "bytes=5000-"},
        {"If-Match": no, "If-None-Match": tag},
        {"If-Match": tag, "If-Unmodified-Since": early},
        {"If-Match": no, "Range": "bytes=0-9"},
        {"If-Range": tag, "If-None-Match": no, "Range": "bytes=0-9,20-29"},
    ):
        for method in ("GET", "HEAD"):
            seen.add(same(nginx, headers, method).status)
    assert seen == {200, 206, 304, 412}


SETTINGS = [
    "etag off;",
    "if_modified_since before;",
    "if_modified_since off;",
    "max_ranges 0;",
    "max_ranges 1;",
    "expires 1h;",
    "expires -1;",
    "expires max;",
    "expires epoch;",
    "add_header X-One 1; add_header X-Always $status always;",
    "add_header Cache-Control public; expires 1d;",
    "charset utf-8;",
    "types { text/x-mine txt; }",
    'types { } default_type "";',
    "sendfile on;",
    "sendfile on; tcp_nopush on; tcp_nodelay off;",
    "sendfile off; output_buffers 1 4k;",
    "postpone_output 0; output_buffers 2 1k;",
    "postpone_output 1000000;",
    "open_file_cache max=10; open_file_cache_errors on;",
    "aio threads; sendfile on;",
    "directio 512; sendfile on;",
    "keepalive_timeout 0;",
    "chunked_transfer_encoding off;",
    "server_tokens off;",
    "lingering_close off;",
    "sendfile_max_chunk 1k; sendfile on;",
    "limit_rate 100m;",
    "gzip on; gzip_types *; gzip_min_length 1; gzip_vary on;",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings(site: Site, settings: str) -> None:
    """Whatever nginx is told about answers holds for those from memory."""
    add(site, size=20_000)
    nginx = start(site, settings)
    tag = nginx.head("/static/aa/1.txt").header("ETag") or '"none"'
    site.assert_file(same(nginx), 1, 20_000)
    same(nginx, method="HEAD")
    for headers in (
        {"Range": "bytes=1000-19998"},
        {"Range": "bytes=0-9,2000-"},
        {"Range": "bytes=30000-"},
        {"If-None-Match": "*"},
        {"If-None-Match": tag},
        {"If-Match": '"other"'},
        {"If-Modified-Since": MTIME_HTTP},
        {"If-Modified-Since": "Tue, 14 Nov 2023 22:13:21 GMT"},
        {"Accept-Encoding": "gzip"},
        {"Accept-Encoding": "gzip", "Range": "bytes=0-9"},
        {"Accept-Encoding": "gzip", "If-None-Match": f"W/{tag}"},
    ):
        same(nginx, headers)


def test_gzip(site: Site) -> None:
    """A body from memory is compressed as a file is."""
    add(site, size=20_000)
    nginx = start(site, "gzip on; gzip_types *; gzip_min_length 1; gzip_vary on;")
    response = same(nginx, {"Accept-Encoding": "gzip"})
    assert response.header("Content-Encoding") == "gzip"
    assert response.header("ETag") == f"W/{etag(nginx)}"


def test_sub_filter(site: Site) -> None:
    """A filter that changes the body changes an answer, not what is kept."""
    add(site, size=50_000)
    nginx = start(
        site, 'sub_filter "0000000" "[zeros]"; sub_filter_once off; sub_filter_types *;'
    )
    for _ in range(3):
        assert same(nginx).body.startswith(b"ID:1 [zeros]0\n")


def test_ssi_filter(site: Site) -> None:
    """The body itself may be an SSI page."""
    add(site)
    for path in (site.files.path("aa/1.txt"), *copies(site)):
        path.write_bytes(b'ID:1 <!--#echo var="arg_x" -->\n')
        os.utime(path, (MTIME, MTIME))
    nginx = start(site, "ssi on; ssi_types *;")
    for x in ("one", "another"):
        got = nginx.get(f"/memory/1?x={x}")
        assert got.body == f"ID:1 {x}\n".encode()
        assert_same(got, nginx.get(f"/static/aa/1.txt?x={x}"))


def test_included(site: Site) -> None:
    """Included in a page, a body from memory is the same bytes."""
    add(site, size=50_000)
    for form in ("static/aa/1.txt", "memory/1"):
        page = f'[<!--#include virtual="/{form}" -->]' * 3
        site.html.write(form.split("/")[0] + ".html", page.encode())
    nginx = start(site, "ssi on;")
    wanted = nginx.get("/static.html").body
    assert wanted == (b"[" + content(1, 50_000) + b"]") * 3
    for _ in range(2):
        assert nginx.get("/memory.html").body == wanted


def test_addition(site: Site) -> None:
    """Text can be put around a body from memory."""
    add(site)
    site.html.write("before", b"before\n")
    nginx = start(site, "add_before_body /before; addition_types *;")
    assert same(nginx).body == b"before\n" + content(1, SIZE)


def test_record_headers(site: Site) -> None:
    """A record's type, name and headers go with a body from memory."""
    site.add(
        1,
        "aa/1.txt",
        type="image/x-mine",
        name="写真.jpg",
        headers={"ETag": '"mine"', "Last-Modified": MTIME_HTTP, "Vary": "Origin"},
    )
    path = site.files.path("aa/1.txt")
    make_old(path)
    nginx = site.start(
        "location /memory/ { http_sendfile on; %%DIRECT%%" + BODY + FOR_EVER + "}"
        "location /plain/ { http_sendfile on; %%DIRECT%% }",
        ZONE,
    )
    wanted: list[Response] = []
    requests: list[dict[str, str]] = [
        {},
        {"Range": "bytes=0-9"},
        {"If-None-Match": '"mine"'},
        {"If-Match": '"other"'},
        {"Range": "bytes=0-9,20-29"},
        {"Range": "bytes=10-19", "If-Range": '"mine"'},
    ]
    for headers in requests:
        wanted.append(nginx.get("/plain/1", headers))
        nginx.get("/memory/1")
    path.unlink()
    for headers, want in zip(requests, wanted, strict=True):
        assert_same(nginx.get("/memory/1", headers), want)
    assert [w.status for w in wanted] == [200, 206, 304, 412, 206, 206]


# protocols


def test_http_1_0(site: Site) -> None:
    """HTTP/1.0 gets the same."""
    add(site)
    nginx = start(site)
    for headers in ({}, {"Range": "bytes=0-9"}, {"Connection": "keep-alive"}):
        answers = []
        for target in ("/static/aa/1.txt", "/memory/1"):
            with nginx.connect() as connection:
                connection.send_request("GET", target, headers, version="HTTP/1.0")
                answers.append(connection.read_response())
        assert_same(answers[1], answers[0])


def test_keep_alive(site: Site) -> None:
    """One connection carries all kinds of answers one after the other."""
    add(site)
    nginx = start(site)
    requests: list[tuple[str, dict[str, str]]] = [
        ("GET", {}),
        ("HEAD", {}),
        ("GET", {"Range": "bytes=0-9"}),
        ("GET", {"Range": "bytes=0-9,20-29"}),
        ("GET", {"Range": "bytes=5000-"}),
        ("GET", {"If-None-Match": "*"}),
        ("GET", {}),
        # here nginx closes
        ("GET", {"If-Match": '"x"'}),
    ]
    with nginx.connect() as one, nginx.connect() as two:
        for method, headers in requests:
            wanted = one.request(method, "/static/aa/1.txt", headers)
            assert_same(two.request(method, "/memory/1", headers), wanted)


def test_pipelined(site: Site) -> None:
    """Requests sent in one go are answered in their order."""
    for n in range(20):
        add(site, n, f"aa/{n}.txt", 3000 + n)
    nginx = start(site)
    with nginx.connect() as connection:
        connection.send(
            b"".join(
                b"GET /memory/%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(20)
            )
        )
        for n in range(20):
            site.assert_file(connection.read_response(), n, 3000 + n)


def test_http2_and_tls(site: Site, certificate: Certificate) -> None:
    """HTTP/2 with TLS and without, and HTTP/1.1 over TLS."""
    add(site, size=60_000)
    settings = (
        f"ssl_certificate {certificate.certificate};"
        f" ssl_certificate_key {certificate.key}; sendfile on;"
    )
    nginx = start(
        site,
        site.http2_listen()
        + "listen 127.0.0.1:%%PORT:tls%% ssl;"
        + site.http2_listen("ssl").replace("PORT:h2", "PORT:h2tls").partition(";")[0]
        + ";"
        + settings,
    )
    context = certificate.client_context()
    requests: list[tuple[str, dict[str, str]]] = [
        ("GET", {}),
        ("HEAD", {}),
        ("GET", {"range": "bytes=0-9"}),
        ("GET", {"range": "bytes=0-9,20-29"}),
        ("GET", {"range": "bytes=999999-"}),
        ("GET", {"if-none-match": "*"}),
        ("GET", {"if-match": '"x"'}),
    ]
    for port, tls in (("h2", None), ("h2tls", context)):
        with http2_client(nginx.port_of(port), tls) as client:
            for method, headers in requests:
                wanted, got = (
                    from_httpx(client.request(method, target, headers=headers))
                    for target in ("/static/aa/1.txt", "/memory/1")
                )
                assert wanted.version == "HTTP/2"
                assert_same(got, wanted)
                if not headers and method == "GET":
                    site.assert_file(got, 1, 60_000)
    # that one offers nothing but HTTP/2 by now
    context = certificate.client_context()
    for method, headers in requests:
        wanted, got = (
            request(nginx.port_of("tls"), method, target, headers, tls=context)
            for target in ("/static/aa/1.txt", "/memory/1")
        )
        assert_same(got, wanted)


def test_http2_many_streams(site: Site) -> None:
    """Streams of one connection do not get each other's bodies."""
    for n in range(30):
        add(site, n, f"aa/{n}.txt", 30_000 + n)
    nginx = start(site, site.http2_listen())
    with nginx.http2("h2") as client:
        for n in range(30):
            site.assert_file(from_httpx(client.get(f"/memory/{n}")), n, 30_000 + n)


def test_limit_rate(site: Site) -> None:
    """limit_rate holds a body from memory back as it does a file."""
    add(site, size=60_000)
    nginx = start(site, "limit_rate 40k;")
    begin = time.monotonic()
    site.assert_file(nginx.get("/memory/1"), 1, 60_000)
    # the first second's worth comes at once
    assert time.monotonic() - begin > 0.2


def test_client_gone(site: Site) -> None:
    """A client that leaves in the middle takes nothing down."""
    add(site, size=90_000)
    nginx = start(site, "limit_rate 100k; limit_rate_after 10k;")
    workers = nginx.workers()
    for _ in range(10):
        connection = nginx.connect()
        connection.send_request("GET", "/memory/1?left")
        connection.socket.recv(100)
        connection.abort()
    nginx.logged("/memory/1?left", 10)
    assert nginx.workers() == workers


def test_evicted_while_it_is_sent(site: Site) -> None:
    """What is being sent is the request's own, whatever comes into the cache."""
    add(site, 1, size=90_000)
    for n in range(100, 140):
        add(site, n, f"aa/{n}.txt", 80_000)
    nginx = site.start(SLOW + SERVER, "http_sendfile_cache_zone main:2m;")
    settle(*copies(site))
    for _ in range(2):
        site.assert_file(nginx.get("/memory/1"), 1, 90_000)
    with slow_connection(nginx) as connection:
        connection.send_request("GET", "/memory/1?slow=1")
        assert connection.socket.recv(1) == b"H"
        # 3.2 MB through a cache of 2
        for n in range(100, 140):
            for _ in range(2):
                site.assert_file(nginx.get(f"/memory/{n}"), n, 80_000)
        assert nginx.access_entries("/memory/1?slow=1") == [], "sent already"
        rest = b""
        while len(rest.partition(b"\r\n\r\n")[2]) < 90_000:
            data = connection.socket.recv(65536)
            assert data, "closed in the body"
            rest += data
        assert rest.partition(b"\r\n\r\n")[2] == content(1, 90_000)


# admission


def start_one(site: Site, more: str = FOR_EVER, http: str = ZONE) -> Nginx:
    """Start a server with /file/, direct delivery from FILES and bodies."""
    return site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {BODY} {more} }}\n"
        "location /plain/ { http_sendfile on; %%DIRECT%% }",
        http,
    )


def test_kept_on_the_second_request(site: Site) -> None:
    """The first request keeps the record, the second the body."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(site)
    assert ask(nginx, "/file/1").said == ("HIT", "lmdb")
    # one request is not enough: the next one goes to the file
    replace(path, content(2), old=True)
    settle(path)
    second = ask(nginx, "/file/1")
    site.assert_file(second.response, 2)
    assert second.said == ("HIT", "cache")
    # now it is
    replace(path, content(3), old=True)
    settle(path)
    third = ask(nginx, "/file/1")
    site.assert_file(third.response, 2)
    assert third.said == ("HIT", "cache")
    path.unlink()
    site.assert_file(ask(nginx, "/file/1").response, 2)


@pytest.mark.parametrize("body", ["", "http_sendfile_cache_body off;"])
def test_not_kept_without_the_directive(site: Site, body: str) -> None:
    """By default the cache has records only."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; %%DIRECT%% {CACHE} {FOR_EVER} {body} }}",
        ZONE,
    )
    for n in range(1, 6):
        site.assert_file(ask(nginx, "/file/1").response, n)
        replace(path, content(n + 1), old=True)
        settle(path)


def test_nothing_asks_for_the_file(site: Site) -> None:
    """From memory: no system call names the file, or has it open."""
    for n in range(3):
        site.add(n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(3)))
    nginx = start_one(site)
    for _ in range(3):
        for n in range(3):
            site.assert_file(ask(nginx, f"/file/{n}").response, n)
    (worker,) = nginx.workers()
    with (
        watched(worker, site.directory / "trace") as calls,
        nginx.connect() as connection,
    ):
        for _ in range(5):
            for n in range(3):
                site.assert_file(connection.request("GET", f"/file/{n}"), n)
                part = connection.request("GET", f"/file/{n}", {"Range": "bytes=5-9"})
                assert part.body == content(n)[5:10]
                connection.request("HEAD", f"/file/{n}")
                head = connection.request("GET", f"/file/{n}", {"If-None-Match": "*"})
                assert head.status == 304
        site.assert_file(connection.request("GET", "/plain/0"), 0)
    about = [s for s in calls if ".dat" in s and "access.log" not in s]
    # the one that is not from memory shows that strace would have seen it
    assert any('"aa/0.dat"' in s for s in about)
    assert not [s for s in about if "1.dat" in s or "2.dat" in s]
    assert sum("open" in s for s in about) == 1
    # neither is the root looked for
    opens = [s for s in calls if "open" in s.split("(")[0]]
    assert len(opens) <= 2, opens


def test_one_look_for_each_check(site: Site) -> None:
    """With a check time the file is opened once, and read no more."""
    site.add(1, size=50_000)
    make_old(site.files.path("aa/1.dat"))
    nginx = start_one(site, "http_sendfile_cache_check 0;")
    for _ in range(3):
        site.assert_file(ask(nginx, "/file/1").response, 1, 50_000)
    (worker,) = nginx.workers()
    with watched(worker, site.directory / "trace") as calls:
        for _ in range(4):
            site.assert_file(nginx.get("/file/1"), 1, 50_000)
    about = [s for s in calls if "aa/1.dat" in s and "access.log" not in s]
    names = [s.split("(")[0].split()[-1] for s in about]
    assert sum("open" in name for name in names) == 4
    assert not {"read", "pread64", "sendfile", "mmap"} & set(names), about


@pytest.mark.parametrize("size", [100 * 1024 + 1, 150_000, 3_000_000])
def test_larger_than_cache_body_is_the_file_itself(site: Site, size: int) -> None:
    """A file that is larger than cache_body is always the file itself."""
    site.add(1, size=size)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(site)
    for n in (1, 2, 3, 4):
        site.assert_file(ask(nginx, "/file/1").response, n, size)
        replace(path, content(n + 1, size), old=True)
        settle(path)


def test_largest(site: Site) -> None:
    """A file of exactly cache_body is kept."""
    size = 100 * 1024
    site.add(1, size=size)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(site)
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/1").response, 1, size)
    path.unlink()
    site.assert_file(ask(nginx, "/file/1").response, 1, size)


def test_young_file(site: Site) -> None:
    """A file that was modified less than 2 seconds ago may change unseen."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    nginx = start_one(site)
    for n in range(2, 12):
        # its time stays young, however long the test takes
        young = time.time() + 60
        os.utime(path, (young, young))
        settle(path)
        site.assert_file(ask(nginx, "/file/1").response, n - 1)
        path.write_bytes(content(n))
    path.unlink()
    assert ask(nginx, "/file/1").response.status == 404


def test_file_just_written(site: Site) -> None:
    """The same with a file that is as young as its time says."""
    site.files.write_id("aa/1.dat", 1)
    site.store.put(1, "aa/1.dat")
    path = site.files.path("aa/1.dat")
    nginx = start_one(site)
    for n in range(2, 12):
        site.assert_file(ask(nginx, "/file/1").response, n - 1)
        # in place, and of the same size
        path.write_bytes(content(n))
    # once it is old enough it is kept
    wait_until(
        lambda: time.time() > path.stat().st_mtime + 2.2, what="the file to be old"
    )
    for _ in range(2):
        site.assert_file(ask(nginx, "/file/1").response, 11)
    path.unlink()
    site.assert_file(ask(nginx, "/file/1").response, 11)


def test_inode_just_changed(site: Site) -> None:
    """A file with an old time may be written to while its inode is new."""
    nginx = start_one(site)
    path = site.files.write("aa/1.dat", content(1))

    def write(n: int) -> None:
        # in place, the time put back
        path.write_bytes(content(n))
        os.utime(path, (MTIME, MTIME))

    quick = 0
    for n in range(20):
        site.store.put(n, "aa/1.dat")
        for version in range(3):
            write(version)
            site.assert_file(nginx.get(f"/file/{n}"), version)
            if time.time() >= path.stat().st_ctime + 0.1:
                # a slow machine: the body may be kept, and rightly
                return
        quick += 1
    assert quick == 20


def test_file_that_changes_while_it_is_read(site: Site) -> None:
    """What was read of a file that has changed since is not kept."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(site)
    site.assert_file(nginx.get("/file/1"), 1)
    (worker,) = nginx.workers()
    with (
        nginx.connect() as connection,
        slowed(worker, site.directory / "slow", "read,pread64", 1, after=True),
    ):
        connection.send_request("GET", "/file/1")
        wait_until_held_up(worker)
        # in place, of the same size and time
        path.write_bytes(content(2))
        os.utime(path, (MTIME, MTIME))
        assert connection.read_response().body in (content(1), content(2))
    for _ in range(3):
        site.assert_file(nginx.get("/file/1"), 2)


def test_empty_file(site: Site) -> None:
    """An empty file is an empty answer, as often as it is asked for."""
    site.store.put(1, "aa/1.txt")
    make_old(site.files.write("aa/1.txt", b""))
    nginx = site.start(
        "location /static/ { alias %%FILES%%/; }"
        f"location /memory/ {{ http_sendfile on; %%DIRECT%% {BODY} {FOR_EVER} }}",
        ZONE,
    )
    for _ in range(4):
        assert same(nginx).header("Content-Length") == "0"
        same(nginx, method="HEAD")
        for value in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=5-"):
            same(nginx, {"Range": value})
        assert same(nginx, {"If-None-Match": etag(nginx)}).status == 304


def test_parts_of_requests_fill_no_less(site: Site) -> None:
    """Whatever asks for a file first, what is kept is the whole file."""
    for n in range(1, 6):
        site.add(n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(1, 6)))
    nginx = start_one(site)
    kinds: list[tuple[str, dict[str, str]]] = [
        ("HEAD", {}),
        ("GET", {"Range": "bytes=5-9"}),
        ("GET", {"If-None-Match": "*"}),
        ("GET", {"Range": "bytes=5000-"}),
        ("GET", {"If-Match": '"other"'}),
    ]
    for n, (method, headers) in enumerate(kinds, 1):
        for _ in range(4):
            ask(nginx, f"/file/{n}", headers, method)
        for _ in range(3):
            site.assert_file(ask(nginx, f"/file/{n}").response, n)
        site.files.path(f"aa/{n}.dat").unlink()
        site.assert_file(ask(nginx, f"/file/{n}").response, n)


# files that change


Change = Callable[[Path], None]


def by_rename(path: Path) -> None:
    """Put another file of the same size in its place."""
    replace(path, content(2))


def by_old_rename(path: Path) -> None:
    """… with the same time, too."""
    replace(path, content(2), old=True)


def in_place(path: Path) -> None:
    """Write over it, the same size."""
    with path.open("r+b") as file:
        file.write(content(2))


def in_place_and_back(path: Path) -> None:
    """… and put its time back."""
    in_place(path)
    os.utime(path, (MTIME, MTIME))


def longer(path: Path) -> None:
    """Append to it."""
    with path.open("ab") as file:
        file.write(b"more\n")


def too_long(path: Path) -> None:
    """Make it larger than what is kept."""
    replace(path, content(2, 110_000), old=True)


def shorter(path: Path) -> None:
    """Cut it."""
    os.truncate(path, 100)


def emptied(path: Path) -> None:
    """Cut it to nothing."""
    os.truncate(path, 0)


def touched(path: Path) -> None:
    """Give it another time, long ago."""
    os.utime(path, (MTIME + 5, MTIME + 5))


def deleted(path: Path) -> None:
    """Remove it."""
    path.unlink()


def forbidden(path: Path) -> None:
    """Make it unreadable."""
    path.chmod(0o000)


def to_symlink(path: Path) -> None:
    """Put a symlink in its place, to a file below the root."""
    other = path.with_name("other")
    other.write_bytes(content(2))
    path.unlink()
    path.symlink_to("other")


def to_dangling_symlink(path: Path) -> None:
    """Put a symlink in its place that leads nowhere."""
    path.unlink()
    path.symlink_to("nowhere")


def to_symlink_outside(path: Path) -> None:
    """Put a symlink in its place that leaves the root."""
    path.unlink()
    path.symlink_to("/etc/passwd")


def to_fifo(path: Path) -> None:
    """Put a FIFO in its place."""
    path.unlink()
    os.mkfifo(path)
    path.chmod(0o666)


def to_directory(path: Path) -> None:
    """Put a directory in its place."""
    path.unlink()
    path.mkdir()


def parent_to_symlink(path: Path) -> None:
    """Put a symlink in the place of its directory."""
    parent = path.parent
    parent.rename(parent.with_name("real"))
    parent.symlink_to("real")


def parent_to_another(path: Path) -> None:
    """Put another directory in the place of its own."""
    parent = path.parent
    parent.rename(parent.with_name("old"))
    parent.mkdir()
    path.write_bytes(content(2))


def parent_is_closed(path: Path) -> None:
    """Make its directory one that nobody may search."""
    path.parent.chmod(0o000)


CHANGES: list[Change] = [
    by_rename,
    by_old_rename,
    in_place,
    in_place_and_back,
    longer,
    too_long,
    shorter,
    emptied,
    touched,
    deleted,
    forbidden,
    to_symlink,
    to_dangling_symlink,
    to_symlink_outside,
    to_fifo,
    to_directory,
    parent_to_symlink,
    parent_to_another,
    parent_is_closed,
]


@pytest.mark.parametrize("body", ["100k", "off"])
@pytest.mark.parametrize("symlinks", ["on", "off"])
@pytest.mark.parametrize("change", CHANGES)
def test_change_is_seen(site: Site, change: Change, symlinks: str, body: str) -> None:
    """After cache_check the answer is what it would be without the cache.

    So it is with bodies, and with descriptors that are kept.
    """
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    links = f"http_sendfile_symlinks {symlinks};"
    nginx = site.start(
        "".join(
            f"location /check{name}/ {{ http_sendfile on; %%DIRECT%% {CACHE} {links}"
            f" http_sendfile_cache_valid 1h; http_sendfile_cache_body {body};"
            f" http_sendfile_cache_check {check}; }}\n"
            for name, check in (("0", "0"), ("1", "200ms"), ("2", "1h"))
        )
        + f"location /plain/ {{ http_sendfile on; %%DIRECT%% {links} }}",
        ZONE,
    )
    old = nginx.get("/plain/1")
    for _ in range(4):
        for name in ("0", "1", "2"):
            assert_same(nginx.get(f"/check{name}/1"), old)
    try:
        change(path)
        changed = time.monotonic()
        wanted = nginx.get("/plain/1")
        if body != "off":
            # whoever checks nothing sees nothing
            assert_same(nginx.get("/check2/1"), old)
        # at once, and for all that share the body from now on
        assert_same(nginx.get("/check0/1"), wanted)
        let_pass(0.2, changed)
        for _ in range(3):
            assert_same(nginx.get("/check1/1"), wanted)
            assert_same(nginx.get("/check0/1"), wanted)
    finally:
        path.parent.chmod(0o755)
    assert nginx.get("/check2/1").status in (old.status, wanted.status)


def test_seen_within_the_check_time(site: Site) -> None:
    """A file replaced by rename is served anew, again and again."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(
        site, "http_sendfile_cache_valid 1h; http_sendfile_cache_check 150ms;"
    )
    for n in range(2, 8):
        for _ in range(3):
            site.assert_file(ask(nginx, "/file/1").response, n - 1)
        replace(path, content(n), old=True)
        replaced = time.monotonic()
        settle(path)
        let_pass(0.15, replaced)
        site.assert_file(ask(nginx, "/file/1").response, n)


def test_old_answer_only_within_the_check_time(site: Site) -> None:
    """However busy the file is, its body is not older than the check time."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(
        site,
        "http_sendfile_cache_valid 1h; http_sendfile_cache_check 300ms;",
        ZONE + "keepalive_requests 1000000;",
    )
    with nginx.connect() as connection:
        for _ in range(3):
            site.assert_file(connection.request("GET", "/file/1"), 1)
        replace(path, content(2), old=True)
        replaced = time.monotonic()
        late = replaced
        while True:
            asked = time.monotonic()
            response = connection.request("GET", "/file/1")
            if response.body == content(2):
                break
            site.assert_file(response, 1)
            late = asked
        assert late - replaced <= 0.3 + 0.1


def test_check_zero(site: Site) -> None:
    """With cache_check 0 the very next request has the new file."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(
        site, "http_sendfile_cache_valid 1h; http_sendfile_cache_check 0;"
    )
    with nginx.connect() as connection:
        for n in range(2, 40):
            site.assert_file(connection.request("GET", "/file/1"), n - 1)
            replace(path, content(n), old=True)
            if n % 10 == 0:
                settle(path)
                for _ in range(3):
                    site.assert_file(connection.request("GET", "/file/1"), n)


def test_last_modified_after_a_touch(site: Site) -> None:
    """A file that was touched has its new time, and its body."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(
        site, "http_sendfile_cache_valid 1h; http_sendfile_cache_check 0;"
    )
    for _ in range(3):
        old = ask(nginx, "/file/1").response
    os.utime(path, (MTIME + 1, MTIME + 1))
    settle(path)
    for _ in range(3):
        new = site.assert_file(ask(nginx, "/file/1").response, 1)
        assert old.header("Last-Modified") == MTIME_HTTP
        assert new.header("Last-Modified") == "Tue, 14 Nov 2023 22:13:21 GMT"
        assert new.header("ETag") != old.header("ETag")


def test_deleted_file_asks_the_store(site: Site) -> None:
    """A body whose file is gone: the store says where it is now."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(
        site, "http_sendfile_cache_valid 1h; http_sendfile_cache_check 0;"
    )
    for _ in range(3):
        site.assert_file(ask(nginx, "/file/1").response, 1)
    path.rename(path.with_name("moved.dat"))
    site.store.put(1, "aa/moved.dat")
    moved = ask(nginx, "/file/1")
    site.assert_file(moved.response, 1)
    assert (moved.entry.source, moved.entry.target) == ("lmdb", "aa/moved.dat")


# what a body is kept under


def test_two_roots_are_not_mixed(site: Site) -> None:
    """Locations that share a store, and two roots, have two bodies."""
    roots = [Files(site.directory / f"root{n}") for n in (0, 1)]
    for n, root in enumerate(roots):
        root.write_id("aa/1.dat", 10 + n)
    site.store.put(1, "aa/1.dat")
    paths = [root.path("aa/1.dat") for root in roots]
    make_old(*paths)
    nginx = site.start(
        "".join(
            f"location /r{n}/ {{ http_sendfile on; {BODY} {FOR_EVER}"
            f" http_sendfile_root %%DIR%%/root{n}; }}\n"
            for n in (0, 1)
        )
        + f"location /var/ {{ http_sendfile on; {BODY} {FOR_EVER}"
        " http_sendfile_root %%DIR%%/root$arg_r; }\n",
        ZONE,
    )
    for round_ in range(6):
        for n in (0, 1) if round_ % 2 else (1, 0):
            site.assert_file(ask(nginx, f"/r{n}/1").response, 10 + n)
            site.assert_file(ask(nginx, f"/var/1?r={n}").response, 10 + n)
    for path in paths:
        path.unlink()
    for n in (0, 1):
        site.assert_file(ask(nginx, f"/r{n}/1").response, 10 + n)
        site.assert_file(ask(nginx, f"/var/1?r={n}").response, 10 + n)


def test_roots_one_below_the_other(site: Site) -> None:
    """Root and path are two things: /a + b/c is not /a/b + c."""
    site.files.write_id("x/y/1.dat", 1)
    site.files.write_id("x/x/y/1.dat", 2)
    site.store.put(1, "y/1.dat")
    site.store.put(2, "x/y/1.dat")
    paths = [site.files.path(name) for name in ("x/y/1.dat", "x/x/y/1.dat")]
    make_old(*paths)
    nginx = site.start(
        f"location /up/ {{ http_sendfile on; {BODY} {FOR_EVER}"
        " http_sendfile_root %%FILES%%; }"
        f"location /down/ {{ http_sendfile on; {BODY} {FOR_EVER}"
        " http_sendfile_root %%FILES%%/x; }",
        ZONE,
    )
    for round_ in range(4):
        if round_ == 3:
            for path in paths:
                path.unlink()
        site.assert_file(ask(nginx, "/up/2").response, 1)
        site.assert_file(ask(nginx, "/down/1").response, 1)
        site.assert_file(ask(nginx, "/down/2").response, 2)


def test_symlinks_on_and_off_are_not_mixed(site: Site) -> None:
    """What one location may follow a link to, another that may not never has."""
    site.files.write_id("aa/real.dat", 1)
    (site.files.root / "aa" / "link.dat").symlink_to("real.dat")
    (site.files.root / "bb").symlink_to("aa")
    site.store.put(1, "aa/link.dat")
    site.store.put(2, "bb/real.dat")
    site.store.put(3, "aa/real.dat")
    make_old(site.files.path("aa/real.dat"))
    nginx = site.start(
        "".join(
            f"location /{flag}/ {{ http_sendfile on; %%DIRECT%% {BODY} {FOR_EVER}"
            f" http_sendfile_symlinks {flag}; }}\n"
            for flag in ("on", "off")
        )
        + "location /plain/ { http_sendfile on; %%DIRECT%% }",
        ZONE,
    )
    refused = {n: nginx.get(f"/plain/{n}").status for n in (1, 2)}
    assert 200 not in refused.values()
    for round_ in range(6):
        for flag in ("on", "off") if round_ % 2 else ("off", "on"):
            for n in (1, 2, 3):
                response = ask(nginx, f"/{flag}/{n}").response
                if flag == "on" or n == 3:
                    site.assert_file(response, 1)
                else:
                    assert response.status == refused[n]


def test_root_that_is_switched(site: Site) -> None:
    """A root that is a symlink, as deployments have: the new files are seen."""
    current = site.directory / "current"
    for n in (1, 2):
        release = Files(site.directory / f"release{n}")
        release.write_id("aa/1.dat", n)
        make_old(release.path("aa/1.dat"))
    current.symlink_to("release1")
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {BODY} http_sendfile_cache_valid 1h;"
        " http_sendfile_cache_check 100ms; http_sendfile_root %%DIR%%/current; }",
        ZONE,
    )
    for n in (2, 1, 2):
        for _ in range(3):
            site.assert_file(ask(nginx, "/file/1").response, 3 - n)
        new = site.directory / "current.new"
        new.symlink_to(f"release{n}")
        new.rename(current)

        def is_new(n: int = n) -> bool:
            response = ask(nginx, "/file/1").response
            if response.body == content(n):
                return True
            site.assert_file(response, 3 - n)
            return False

        # a root is looked at once a second, a body after its check time
        assert how_late(is_new, "the new release") <= 1 + 0.1 + 2 * LATE
        for _ in range(3):
            site.assert_file(ask(nginx, "/file/1").response, n)


def test_two_zones_have_two_bodies(site: Site) -> None:
    """A body is its zone's."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start(
        "".join(
            f"location /{zone}/ {{ http_sendfile on; %%DIRECT%% {FOR_EVER}"
            f" http_sendfile_cache {zone}; http_sendfile_cache_body 100k; }}\n"
            for zone in ("main", "other")
        ),
        ZONE + "http_sendfile_cache_zone other:4m;",
    )
    for _ in range(2):
        site.assert_file(ask(nginx, "/main/1").response, 1)
    replace(path, content(2), old=True)
    settle(path)
    for _ in range(3):
        site.assert_file(ask(nginx, "/main/1").response, 1)
        site.assert_file(ask(nginx, "/other/1").response, 2)
    path.unlink()
    site.assert_file(ask(nginx, "/main/1").response, 1)
    site.assert_file(ask(nginx, "/other/1").response, 2)


def test_redirect_keeps_no_body(site: Site) -> None:
    """After a redirect it is the target location's file, whatever is configured."""
    site.add(1)
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; {BODY} {FOR_EVER} }} %%INTERNAL%%",
        ZONE,
    )
    for n in range(1, 5):
        site.assert_file(ask(nginx, "/file/1").response, n)
        replace(path, content(n + 1), old=True)
        settle(path)


def test_two_keys_of_one_file(site: Site) -> None:
    """A body is the path's: two IDs of one file have one body."""
    site.add(1)
    site.store.put(2, "aa/1.dat")
    path = site.files.path("aa/1.dat")
    make_old(path)
    nginx = start_one(site)
    for n in (1, 2, 1):
        site.assert_file(ask(nginx, f"/file/{n}").response, 1)
    path.unlink()
    for n in (1, 2):
        site.assert_file(ask(nginx, f"/file/{n}").response, 1)


def test_record_that_leads_elsewhere(site: Site) -> None:
    """A record that changes its path changes its body."""
    for n in (1, 2):
        site.files.write_id(f"aa/{n}.dat", n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in (1, 2)))
    site.store.put(7, "aa/1.dat")
    nginx = start_one(
        site, "http_sendfile_cache_valid 100ms; http_sendfile_cache_check 1h;"
    )
    for n in (2, 1, 2, 1):
        for _ in range(4):
            site.assert_file(ask(nginx, "/file/7").response, 3 - n)
        site.store.put(7, f"aa/{n}.dat")
        let_pass(0.1)
        site.assert_file(ask(nginx, "/file/7").response, n)


def test_connection_unused(site: Site) -> None:
    """No file is left open, whichever way it was served."""
    for n in range(10):
        site.add(n)
    make_old(*(site.files.path(f"aa/{n}.dat") for n in range(10)))
    nginx = start_one(
        site, "http_sendfile_cache_valid 1h; http_sendfile_cache_check 0;"
    )
    connection: Connection
    with nginx.connect() as connection:
        for _ in range(4):
            for n in range(10):
                site.assert_file(connection.request("GET", f"/file/{n}"), n)
    (worker,) = nginx.workers()

    def none_open() -> bool:
        links = Path(f"/proc/{worker}/fd").iterdir()
        return not [s for s in map(os.readlink, links) if s.endswith(".dat")]

    wait_until(none_open, what="the files to be closed")
