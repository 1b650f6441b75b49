"""Delivery gives what nginx gives for the same file served statically.

Each request is sent three times: for the file's path in a location that
serves it statically, for its ID with delivery by redirect, and for its ID
with direct delivery. Status, headers, their order (but for Last-Modified's place) and the body must
agree.
"""

from __future__ import annotations

import os
import time

import pytest

from lib.client import Connection, Headers, Response, from_httpx, http2_client, request
from lib.compare import assert_same
from lib.files import content
from lib.nginx import Nginx
from lib.site import Site
from lib.tls import Certificate
from lib.wait import wait_until

SIZE = 1000
MTIME = 1_700_000_000
MTIME_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"

SERVER = """
location /static/ { alias %%FILES%%/; }
location /redirect/ { http_sendfile on; }
location /direct/ { http_sendfile on; %%DIRECT%% }
%%INTERNAL%%
"""

FORMS = ("redirect", "direct")


def add(site: Site, file_id: int = 1, name: str = "aa/1.txt", size: int = SIZE) -> None:
    """Add a file whose modification time is MTIME."""
    site.add(file_id, name, size)
    os.utime(site.files.path(name), (MTIME, MTIME))


def start(site: Site, directives: str = "", http: str = "", main: str = "") -> Nginx:
    """Start a server with settings that hold in all three locations."""
    return site.start(directives + SERVER, http, main)


def same(
    nginx: Nginx,
    headers: Headers | None = None,
    method: str = "GET",
    file_id: int = 1,
    name: str = "aa/1.txt",
) -> Response:
    """Send a request in all three forms, compare, and return the static answer.

    What expires at a fixed time has other headers in each second, so all answers
    are to be of the same one.
    """
    targets = [f"/static/{name}", *(f"/{form}/{file_id}" for form in FORMS)]

    def in_one_second() -> list[Response]:
        answers = [nginx.request(method, target, headers) for target in targets]
        dates = {answer.header("Date") for answer in answers}
        return answers if len(dates) == 1 else []

    wanted, *others = wait_until(in_one_second, what="answers of one second")
    for response in others:
        assert_same(response, wanted)
    return wanted


def etag(nginx: Nginx, name: str = "aa/1.txt") -> str:
    """Return the entity tag of a file."""
    tag = nginx.head(f"/static/{name}").header("ETag")
    assert tag is not None
    return tag


# plain requests


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("aa/1.txt", "text/plain"),
        ("aa/1.html", "text/html"),
        ("1.PNG", "image/png"),
        ("a.png/1", "application/x-unknown"),
        ("aa/1.nosuchtype", "application/x-unknown"),
        ("aa/1.tar.pdf", "application/pdf"),
        (".pdf", "application/x-unknown"),
        ("aa/1.", "application/x-unknown"),
    ],
)
def test_get_and_head(site: Site, name: str, content_type: str) -> None:
    """The Content-Type is that of the path; HEAD has GET's headers."""
    add(site, 1, name)
    nginx = start(site)
    got = site.assert_file(same(nginx, name=name), 1, SIZE)
    if name != ".pdf":
        assert got.header("Content-Type") == content_type
    head = same(nginx, method="HEAD", name=name)
    assert (head.status, head.body) == (200, b"")
    assert head.header("Last-Modified") == MTIME_HTTP


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 65536, 3_000_000])
def test_sizes(site: Site, size: int) -> None:
    """Files of any size come whole."""
    add(site, size=size)
    nginx = start(site)
    site.assert_file(same(nginx), 1, size)


def test_empty_file(site: Site) -> None:
    """An empty file is a 200 without a body, whatever is asked of it."""
    site.store.put(1, "aa/1.txt")
    os.utime(site.files.write("aa/1.txt", b""), (MTIME, MTIME))
    nginx = start(site)
    assert same(nginx).header("Content-Length") == "0"
    same(nginx, method="HEAD")
    for value in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=5-"):
        same(nginx, {"Range": value})
    assert same(nginx, {"If-None-Match": etag(nginx)}).status == 304


def test_modified_file(site: Site) -> None:
    """A file that is replaced is served anew, with new headers."""
    add(site)
    nginx = start(site)
    old = same(nginx)
    site.files.write_id("aa/1.txt", 1, SIZE + 1)
    new = site.assert_file(same(nginx), 1, SIZE + 1)
    assert new.header("ETag") != old.header("ETag")
    assert new.header("Last-Modified") != old.header("Last-Modified")


@pytest.mark.parametrize(
    "mtime",
    [
        *(-86401, -2, -1, 0, 1, 59, 86399, 86400),
        *(951_782_399, 951_782_400, 951_868_800, 1_709_164_800, 4_107_542_400),
        *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 7_258_118_399, 253_402_300_799),
        *(MTIME + month * 2_629_746 for month in range(12)),
    ],
)
def test_time_of_modification(site: Site, mtime: int) -> None:
    """Last-Modified and ETag say any time as nginx does."""
    add(site)
    os.utime(site.files.path("aa/1.txt"), (mtime, mtime))
    nginx = start(site)
    response = same(nginx)
    site.assert_file(response, 1, SIZE)
    assert (response.header("Last-Modified") is None) == (mtime == -1)
    for said, asked in [
        ("Last-Modified", "If-Modified-Since"),
        ("ETag", "If-None-Match"),
    ]:
        if value := response.header(said):
            # what was before 1970 is said to be of then, and is not the same
            known = said == "ETag" or mtime >= 0
            assert same(nginx, {asked: value}).status == (304 if known else 200)


# ranges


RANGES = [
    "bytes=0-0",
    "bytes=0-99",
    "bytes=100-199",
    "bytes=100-",
    "bytes=0-",
    "bytes=999-",
    "bytes=990-5000",
    "bytes=0-999",
    "bytes=0-18446744073709551616",
    "bytes= 10 - 20 ",
]


@pytest.mark.parametrize("value", RANGES)
def test_single_range(site: Site, value: str) -> None:
    """One range is a 206 with Content-Range."""
    add(site)
    nginx = start(site)
    response = same(nginx, {"Range": value})
    if response.status == 206:
        range_ = response.header("Content-Range")
        assert range_ is not None
        first, last = range_.removeprefix("bytes ").split("/")[0].split("-")
        assert response.body == content(1, SIZE)[int(first) : int(last) + 1]


@pytest.mark.parametrize(
    ("value", "length"), [("bytes=-1", 1), ("bytes=-100", 100), ("bytes=-5000", SIZE)]
)
def test_suffix_range(site: Site, value: str, length: int) -> None:
    """The last bytes of a file."""
    add(site)
    nginx = start(site)
    response = same(nginx, {"Range": value})
    assert (response.status, response.body) == (206, content(1, SIZE)[-length:])


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("bytes=0-9,20-29", 206),
        ("bytes=0-9,-10", 206),
        ("bytes=0-0,2-2,4-4,6-6,8-8", 206),
        ("bytes=-1,0-0,500-", 206),
        ("bytes=0-9,5-14", 206),
        ("bytes=0-9,2000-3000", 206),
        ("bytes=0-600,400-999", 200),
        ("bytes=2000-3000,5000-6000", 416),
    ],
)
def test_several_ranges(site: Site, value: str, status: int) -> None:
    """Several ranges are one multipart answer, unless that is no use."""
    add(site)
    nginx = start(site)
    response = same(nginx, {"Range": value})
    assert response.status == status
    if status == 206 and "2000" not in value:
        parts = response.body.count(b"\r\nContent-Range: bytes ")
        assert parts == value.count(",") + 1


@pytest.mark.parametrize("value", ["bytes=1000-", "bytes=1000-2000", "bytes=5000-"])
def test_range_not_satisfiable(site: Site, value: str) -> None:
    """A range behind the end is a 416 that says the size."""
    add(site)
    nginx = start(site)
    response = same(nginx, {"Range": value})
    assert response.status == 416
    assert response.header("Content-Range") == "bytes */1000"


@pytest.mark.parametrize(
    "value", ["bytes=5-4", "bytes=abc", "bytes=", "bytes=-", "bytes=-0", "chars=0-1"]
)
def test_bad_range(site: Site, value: str) -> None:
    """What is no range is treated as nginx treats it."""
    add(site)
    nginx = start(site)
    assert same(nginx, {"Range": value}).status in (200, 206, 416)


def test_range_of_head(site: Site) -> None:
    """HEAD with a range has the headers of the range."""
    add(site)
    nginx = start(site)
    response = same(nginx, {"Range": "bytes=0-9"}, method="HEAD")
    assert (response.status, response.header("Content-Length")) == (206, "10")
    assert same(nginx, {"Range": "bytes=5000-"}, method="HEAD").status == 416


def test_if_range(site: Site) -> None:
    """If-Range decides between 206 and 200, by tag or by date."""
    add(site)
    nginx = start(site)
    tag = etag(nginx)
    for value, status in (
        (tag, 206),
        (f"W/{tag}", 200),
        ('"other"', 200),
        (MTIME_HTTP, 206),
        ("Tue, 14 Nov 2023 22:13:21 GMT", 200),
        ("Tue, 14 Nov 2023 22:13:19 GMT", 200),
        ("nonsense", 200),
    ):
        response = same(nginx, {"Range": "bytes=0-9", "If-Range": value})
        assert response.status == status


@pytest.mark.parametrize("setting", ["max_ranges 0;", "max_ranges 1;"])
def test_max_ranges(site: Site, setting: str) -> None:
    """max_ranges switches ranges off, or several of them."""
    add(site)
    nginx = start(site, setting)
    one = same(nginx, {"Range": "bytes=0-9"})
    two = same(nginx, {"Range": "bytes=0-9,20-29"})
    assert two.status == 200
    assert one.status == (200 if setting == "max_ranges 0;" else 206)


def test_range_of_http_1_0(site: Site) -> None:
    """HTTP/1.0 gets ranges, too, and the same line of status."""
    add(site)
    nginx = start(site)
    answers = []
    for target in ("/static/aa/1.txt", "/redirect/1", "/direct/1"):
        with nginx.connect() as connection:
            connection.send_request(
                "GET", target, {"Range": "bytes=0-9"}, version="HTTP/1.0"
            )
            answers.append(connection.read_response())
            assert connection.at_end()
    assert answers[0].status == 206
    for answer in answers[1:]:
        assert_same(answer, answers[0])


# conditions


def test_if_none_match(site: Site) -> None:
    """A tag that matches is a 304."""
    add(site)
    nginx = start(site)
    tag = etag(nginx)
    for value, status in (
        (tag, 304),
        (f"W/{tag}", 304),
        (f'"other", {tag}', 304),
        (f'W/"other",{tag} , "third"', 304),
        ("*", 304),
        ('"other"', 200),
        ('""', 200),
        ("nonsense", 200),
    ):
        for method in ("GET", "HEAD"):
            response = same(nginx, {"If-None-Match": value}, method)
            assert response.status == status
            if status == 304:
                assert response.header("ETag") == tag


def test_if_match(site: Site) -> None:
    """A tag that does not match is a 412; a weak one never matches."""
    add(site)
    nginx = start(site)
    tag = etag(nginx)
    for value, status in (
        (tag, 200),
        (f'"other", {tag}', 200),
        ("*", 200),
        (f"W/{tag}", 412),
        ('"other"', 412),
    ):
        for method in ("GET", "HEAD"):
            assert same(nginx, {"If-Match": value}, method).status == status


def test_if_modified_since(site: Site) -> None:
    """By default only the very time matches."""
    add(site)
    nginx = start(site)
    for value, status in (
        (MTIME_HTTP, 304),
        ("Tue, 14 Nov 2023 22:13:21 GMT", 200),
        ("Tue, 14 Nov 2023 22:13:19 GMT", 200),
        ("nonsense", 200),
        ("Tuesday, 14-Nov-23 22:13:20 GMT", 304),
    ):
        assert same(nginx, {"If-Modified-Since": value}).status == status


@pytest.mark.parametrize(
    ("setting", "statuses"),
    [("off", (200, 200, 200)), ("exact", (200, 304, 200)), ("before", (200, 304, 304))],
)
def test_setting_of_if_modified_since(
    site: Site, setting: str, statuses: tuple[int, ...]
) -> None:
    """The directive if_modified_since is respected."""
    add(site)
    nginx = start(site, f"if_modified_since {setting};")
    for second, status in zip((19, 20, 21), statuses, strict=True):
        since = f"Tue, 14 Nov 2023 22:13:{second} GMT"
        assert same(nginx, {"If-Modified-Since": since}).status == status


def test_if_unmodified_since(site: Site) -> None:
    """A file that is younger is a 412."""
    add(site)
    nginx = start(site)
    for value, status in (
        (MTIME_HTTP, 200),
        ("Tue, 14 Nov 2023 22:13:21 GMT", 200),
        ("Tue, 14 Nov 2023 22:13:19 GMT", 412),
        ("nonsense", 412),
    ):
        assert same(nginx, {"If-Unmodified-Since": value}).status == status


def test_several_conditions(site: Site) -> None:
    """Conditions and ranges together are judged in nginx's order."""
    add(site)
    nginx = start(site)
    tag = etag(nginx)
    no, old = '"other"', "Tue, 14 Nov 2023 22:13:19 GMT"
    for headers in (
        {"If-None-Match": no, "If-Modified-Since": MTIME_HTTP},
        {"If-None-Match": tag, "If-Modified-Since": old},
        {"If-None-Match": tag, "Range": "bytes=0-9"},
        {"If-None-Match": tag, "Range": "bytes=5000-"},
        {"If-Match": no, "If-None-Match": tag},
        {"If-Match": tag, "If-Unmodified-Since": old},
        {"If-Match": tag, "Range": "bytes=0-9"},
        {"If-Match": no, "Range": "bytes=0-9"},
        {"If-Range": tag, "If-None-Match": no, "Range": "bytes=0-9,20-29"},
    ):
        assert same(nginx, headers).status in (200, 206, 304, 412)


def test_etag_off(site: Site) -> None:
    """Without tags, dates decide."""
    add(site)
    nginx = start(site, "etag off;")
    assert same(nginx).header("ETag") is None
    assert same(nginx, {"If-None-Match": '"x"'}).status == 200
    same(nginx, {"If-None-Match": "*"})
    same(nginx, {"If-Match": "*"})
    assert same(nginx, {"If-Modified-Since": MTIME_HTTP}).status == 304
    assert same(nginx, {"Range": "bytes=0-9", "If-Range": MTIME_HTTP}).status == 206


# filters


GZIP = "gzip on; gzip_types *; gzip_min_length 1; gzip_vary on;"


def test_gzip(site: Site) -> None:
    """A compressed answer has a weak tag, which still is good for a 304."""
    add(site, size=20_000)
    nginx = start(site, GZIP)
    accept = {"Accept-Encoding": "gzip"}
    response = same(nginx, accept)
    assert response.header("Content-Encoding") == "gzip"
    tag = response.header("ETag")
    assert tag == f"W/{etag(nginx)}"
    for value in (tag, etag(nginx), "*"):
        assert same(nginx, {**accept, "If-None-Match": value}).status == 304
    assert same(nginx, {**accept, "If-Match": tag}).status == 412
    same(nginx, {**accept, "Range": "bytes=0-9"})
    same(nginx, {**accept, "Range": "bytes=0-9", "If-Range": tag})
    same(nginx, accept, "HEAD")
    site.assert_file(same(nginx), 1, 20_000)


def test_charset(site: Site) -> None:
    """charset goes on text, and on nothing else."""
    add(site)
    add(site, 2, "aa/2.png")
    nginx = start(site, "charset utf-8;")
    assert same(nginx).header("Content-Type") == "text/plain; charset=utf-8"
    response = same(nginx, file_id=2, name="aa/2.png")
    assert response.header("Content-Type") == "image/png"


def test_types(site: Site) -> None:
    """types and default_type of the location are used."""
    add(site)
    add(site, 2, "aa/2")
    nginx = start(site, "types { text/x-mine txt; } default_type text/x-default;")
    assert same(nginx).header("Content-Type") == "text/x-mine"
    response = same(nginx, file_id=2, name="aa/2")
    assert response.header("Content-Type") == "text/x-default"


def test_no_default_type(site: Site) -> None:
    """An empty default_type leaves the header out."""
    add(site, 1, "aa/1")
    nginx = start(site, 'default_type "";')
    assert same(nginx, name="aa/1").header("Content-Type") is None


@pytest.mark.parametrize(
    "setting", ["-1", "0", "1h", "max", "epoch", "off", "@15h30m", "$sent_expires"]
)
def test_expires(site: Site, setting: str) -> None:
    """expires is set as for a static file."""
    add(site)
    http = "map $sent_http_content_type $sent_expires { text/plain 30d; }"
    nginx = start(site, f"expires {setting};", http)
    same(nginx, method="HEAD")
    same(nginx, {"Range": "bytes=0-9"})
    assert same(nginx, {"If-None-Match": etag(nginx)}).status == 304


def test_add_header(site: Site) -> None:
    """add_header goes on the same answers, with the same values."""
    add(site)
    nginx = start(
        site,
        "add_header X-One 1; add_header X-Always $status always;"
        ' add_header Cache-Control public; add_header X-Empty "";',
    )
    response = same(nginx)
    assert response.header("X-One") == "1"
    assert response.header("X-Always") == "200"
    for headers in (
        {"Range": "bytes=0-9"},
        {"Range": "bytes=5000-"},
        {"If-None-Match": "*"},
        {"If-Match": '"other"'},
    ):
        same(nginx, headers)


def test_add_header_of_the_location(site: Site) -> None:
    """Direct delivery takes the headers of the location that was asked."""
    add(site)
    directives = "add_header X-Mine yes; expires 1d; etag off; default_type a/b;"
    nginx = site.start(
        f"location /static/ {{ alias %%FILES%%/; {directives} }}"
        f"location /direct/ {{ http_sendfile on; %%DIRECT%% {directives} }}"
    )
    wanted = nginx.get("/static/aa/1.txt")
    assert wanted.header("X-Mine") == "yes"
    assert_same(nginx.get("/direct/1"), wanted)


def test_sub_filter(site: Site) -> None:
    """A filter that changes the body sees the body."""
    if not site.flavour.built_with("http_sub_module"):
        pytest.fail("nginx is built without sub")
    add(site, size=100_000)
    nginx = start(
        site, 'sub_filter "0000000" "[zeros]"; sub_filter_once off; sub_filter_types *;'
    )
    response = same(nginx)
    assert response.body.startswith(b"ID:1 [zeros]0\n")


def test_ssi_filter(site: Site) -> None:
    """The file itself may be an SSI page."""
    site.store.put(1, "aa/1.txt")
    site.files.write("aa/1.txt", b'ID:1 <!--#echo var="request_method" -->\n')
    nginx = start(site, "ssi on; ssi_types *;")
    assert same(nginx).body == b"ID:1 GET\n"
    same(nginx, {"Range": "bytes=0-3"})


def test_included(site: Site) -> None:
    """Included in a page, the file is the same bytes in all three forms."""
    add(site, size=50_000)
    for target in ("static/aa/1.txt", "redirect/1", "direct/1"):
        page = f'[<!--#include virtual="/{target}" -->]'.encode()
        site.html.write(target.split("/")[0] + ".html", page)
    nginx = start(site, "ssi on;")
    wanted = nginx.get("/static.html")
    assert wanted.body == b"[" + content(1, 50_000) + b"]"
    for form in FORMS:
        assert nginx.get(f"/{form}.html").body == wanted.body


def test_addition(site: Site) -> None:
    """Text can be put around the file."""
    if not site.flavour.built_with("http_addition_module"):
        pytest.fail("nginx is built without addition")
    add(site)
    site.html.write("before", b"before\n")
    nginx = start(site, "add_before_body /before; addition_types *;")
    assert same(nginx).body == b"before\n" + content(1, SIZE)


# ways to send


@pytest.mark.parametrize(
    "settings",
    [
        "sendfile on;",
        "sendfile on; tcp_nopush on; tcp_nodelay off;",
        "sendfile on; sendfile_max_chunk 16k;",
        "sendfile off; output_buffers 1 4k;",
        "sendfile off; postpone_output 0; output_buffers 2 1k;",
        "open_file_cache max=10; open_file_cache_errors on;",
        "read_ahead 64k; sendfile on;",
        "keepalive_timeout 0;",
        "chunked_transfer_encoding off;",
        "server_tokens off;",
        "log_not_found off;",
        "lingering_close off;",
        "limit_rate 100m;",
    ],
)
def test_settings(site: Site, settings: str) -> None:
    """Whatever way nginx is told to send files, they are the same."""
    add(site, size=300_000)
    nginx = start(site, settings)
    site.assert_file(same(nginx), 1, 300_000)
    same(nginx, method="HEAD")
    same(nginx, {"Range": "bytes=100000-299998"})
    same(nginx, {"Range": "bytes=0-9,200000-"})
    same(nginx, {"Range": "bytes=300000-"})
    same(nginx, {"If-None-Match": "*"})


@pytest.mark.parametrize(
    "settings",
    [
        "aio threads;",
        "aio threads; sendfile on;",
        "aio threads; sendfile on; sendfile_max_chunk 64k;",
        "aio threads; directio 4k;",
        "directio 4k;",
        "directio 4k; sendfile on;",
        "directio 4k; directio_alignment 4k; output_buffers 1 32k;",
    ],
)
def test_aio_and_directio(site: Site, settings: str) -> None:
    """Files read by threads or past the page cache are the same."""
    add(site, size=1_000_003)
    add(site, 2, "aa/2.txt", 100)
    nginx = start(site, settings)
    site.assert_file(same(nginx), 1, 1_000_003)
    site.assert_file(same(nginx, file_id=2, name="aa/2.txt"), 2, 100)
    same(nginx, {"Range": "bytes=500001-900001"})
    same(nginx, {"Range": "bytes=5-9,999999-"})


def test_aio_under_concurrency(site: Site) -> None:
    """With threads, many files at once are not mixed up."""
    for n in range(20):
        add(site, n, f"aa/{n}.txt", 100_000 + n)
    nginx = start(site, "aio threads; sendfile on;")
    for form in FORMS:
        connections = [nginx.connect() for _ in range(20)]
        for n, connection in enumerate(connections):
            connection.send_request("GET", f"/{form}/{n}")
        for n, connection in enumerate(connections):
            site.assert_file(connection.read_response(), n, 100_000 + n)
            connection.close()


def test_aio_client_gone(site: Site) -> None:
    """A client that leaves while threads read takes nothing down."""
    add(site, size=20_000_000)
    nginx = start(site, "aio threads; sendfile on;")
    workers = nginx.workers()
    for form in FORMS:
        for _ in range(10):
            connection = nginx.connect()
            connection.send_request("GET", f"/{form}/1")
            connection.socket.recv(100)
            connection.abort()
        nginx.logged(f"/{form}/1", 10)
    assert nginx.workers() == workers


def test_more_than_2_gb(site: Site) -> None:
    """Offsets and lengths beyond 32 bits."""
    size = 5_000_000_000
    mark = site.files.write_sparse("aa/1.dat", 1, size)
    site.store.put(1, "aa/1.dat")
    nginx = start(site, "sendfile on;")
    head = same(nginx, method="HEAD", name="aa/1.dat")
    assert head.header("Content-Length") == str(size)
    last = same(nginx, {"Range": f"bytes=-{len(mark)}"}, name="aa/1.dat")
    assert (last.status, last.body) == (206, mark)
    first = same(nginx, {"Range": f"bytes=0-{len(mark) - 1}"}, name="aa/1.dat")
    assert (first.status, first.body) == (206, mark)
    both = same(nginx, {"Range": "bytes=0-9,4294967290-4294967299"}, name="aa/1.dat")
    assert both.status == 206
    assert b"bytes 4294967290-4294967299/5000000000" in both.body
    behind = same(nginx, {"Range": "bytes=5000000000-"}, name="aa/1.dat")
    assert behind.header("Content-Range") == "bytes */5000000000"


def test_limit_rate(site: Site) -> None:
    """limit_rate holds the file back."""
    add(site, size=60_000)
    nginx = start(site, "limit_rate 40k;")
    for form in ("static/aa/1.txt", "redirect/1", "direct/1"):
        begin = time.monotonic()
        site.assert_file(nginx.get(f"/{form}"), 1, 60_000)
        # the first second's worth comes at once
        assert time.monotonic() - begin > 0.2


def test_slow_client(site: Site) -> None:
    """A client that reads late gets the rest when it reads."""
    add(site, size=8_000_000)
    nginx = start(site, "sendfile on;")
    connections = {form: nginx.connect() for form in FORMS}
    for form, connection in connections.items():
        connection.send_request("GET", f"/{form}/1")
    # other requests are served meanwhile
    site.assert_file(same(nginx), 1, 8_000_000)
    for connection in connections.values():
        site.assert_file(connection.read_response(), 1, 8_000_000)
        connection.close()


def test_client_gone(site: Site) -> None:
    """A client that leaves in the middle of a file takes nothing down."""
    add(site, size=20_000_000)
    nginx = start(site)
    workers = nginx.workers()
    for form in FORMS:
        for _ in range(10):
            connection = nginx.connect()
            connection.send_request("GET", f"/{form}/1")
            connection.socket.recv(100)
            connection.abort()
        nginx.logged(f"/{form}/1", 10)
    assert nginx.workers() == workers


def test_files_are_closed(site: Site) -> None:
    """After the answers no worker holds a file open."""
    add(site)
    nginx = start(site)
    for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        for method in ("GET", "HEAD"):
            same(nginx, headers, method)
    (worker,) = nginx.workers()

    def none_open() -> bool:
        links = [os.readlink(link) for link in _open_files(worker)]
        return not [link for link in links if link.endswith("1.txt")]

    wait_until(none_open, what="the file to be closed")


def _open_files(pid: int) -> list[str]:
    return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]


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
        ("GET", {"Range": "bytes=0-9", "If-Range": '"x"'}),
        ("GET", {}),
        # here nginx closes
        ("GET", {"If-Match": '"x"'}),
    ]
    with nginx.connect() as one, nginx.connect() as two, nginx.connect() as three:
        connections: dict[str, Connection] = {
            "static/aa/1.txt": one,
            "redirect/1": two,
            "direct/1": three,
        }
        for method, headers in requests:
            wanted, *others = (
                connection.request(method, f"/{target}", headers)
                for target, connection in connections.items()
            )
            for other in others:
                assert_same(other, wanted)


def test_body_of_a_get_is_dropped(site: Site) -> None:
    """A GET with a body is answered, and the next request is understood."""
    add(site)
    nginx = start(site)
    for form in FORMS:
        with nginx.connect() as connection:
            body = b"GET /nonsense HTTP/1.1\r\n\r\n"
            connection.send(
                f"GET /{form}/1 HTTP/1.1\r\nHost: a\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
            )
            connection.send(body[:10])
            connection.send(body[10:])
            site.assert_file(connection.read_response(), 1, SIZE)
            site.assert_file(connection.request("GET", f"/{form}/1"), 1, SIZE)


# protocols


def same_http2(site: Site, port: int, certificate: Certificate | None) -> None:
    """Compare the three forms over HTTP/2."""
    tls = certificate.client_context() if certificate else None
    with http2_client(port, tls) as client:
        for method, headers in (
            ("GET", {}),
            ("HEAD", {}),
            ("GET", {"range": "bytes=0-9"}),
            ("GET", {"range": "bytes=0-9,20-29"}),
            ("GET", {"range": "bytes=999999-"}),
            ("GET", {"if-none-match": "*"}),
            ("GET", {"if-match": '"x"'}),
        ):
            wanted, *others = (
                from_httpx(client.request(method, target, headers=headers))
                for target in ("/static/aa/1.txt", "/redirect/1", "/direct/1")
            )
            assert wanted.version == "HTTP/2"
            for other in others:
                assert_same(other, wanted)
            if not headers and method == "GET":
                site.assert_file(wanted, 1, 200_000)


def test_http2(site: Site) -> None:
    """HTTP/2 without TLS."""
    add(site, size=200_000)
    nginx = start(site, site.http2_listen() + "sendfile on;")
    same_http2(site, nginx.port_of("h2"), None)


def test_http2_tls(site: Site, certificate: Certificate) -> None:
    """HTTP/2 with TLS."""
    add(site, size=200_000)
    nginx = start(site, site.http2_listen("ssl") + tls_settings(certificate))
    same_http2(site, nginx.port_of("h2"), certificate)


def test_http2_many_streams(site: Site) -> None:
    """Streams of one connection do not get each other's files."""
    for n in range(30):
        add(site, n, f"aa/{n}.txt", 30_000 + n)
    nginx = start(site, site.http2_listen())
    with nginx.http2("h2") as client:
        for form in FORMS:
            for n in range(30):
                response = client.get(f"/{form}/{n}")
                site.assert_file(from_httpx(response), n, 30_000 + n)


def tls_settings(certificate: Certificate) -> str:
    """Return the directives that name the certificate."""
    return (
        f"ssl_certificate {certificate.certificate};"
        f" ssl_certificate_key {certificate.key};"
    )


def test_tls(site: Site, certificate: Certificate) -> None:
    """HTTP/1.1 over TLS."""
    add(site, size=1_000_000)
    nginx = start(
        site,
        "listen 127.0.0.1:%%PORT:tls%% ssl; sendfile on;" + tls_settings(certificate),
    )
    tls = certificate.client_context()
    for headers in ({}, {"Range": "bytes=0-9"}, {"Range": "bytes=0-9,999990-"}):
        wanted, *others = (
            request(nginx.port_of("tls"), "GET", target, headers, tls=tls)
            for target in ("/static/aa/1.txt", "/redirect/1", "/direct/1")
        )
        for other in others:
            assert_same(other, wanted)
        if not headers:
            site.assert_file(wanted, 1, 1_000_000)
