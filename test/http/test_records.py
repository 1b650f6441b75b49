"""JSON records: type, download name and headers of a file."""

from __future__ import annotations

import gzip
import os
import re
import urllib.parse

import pytest

from lib.backend import Reply
from lib.client import Response, from_httpx
from lib.files import content
from lib.nginx import Nginx
from lib.site import Site

FILE = "location /file/ { http_sendfile on; %%DELIVER%% } %%INTERNAL%% "

HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Expires": "Thu, 31 Dec 2037 23:55:55 GMT",
    "ETag": '"of-the-record"',
    "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT",
    "Content-Language": "ja",
    "Vary": "Accept-Language",
    "Link": "</style.css>; rel=preload",
    "Content-Security-Policy": "default-src 'none'",
    "Access-Control-Allow-Origin": "https://example.com",
    "Access-Control-Expose-Headers": "ETag",
    "X-Robots-Tag": "noindex",
    "X-Frame-Options": "DENY",
}

ETAG = HEADERS["ETag"]
DATE = HEADERS["Last-Modified"]


def disposition(response: Response) -> tuple[str, str | None]:
    """Read Content-Disposition as RFC 6266 has it.

    Returns:
        The type and the file name: filename* if there, else filename.
    """
    value = response.header("Content-Disposition")
    assert value is not None, "no Content-Disposition"
    assert value.isascii()
    match = re.fullmatch(
        r'(inline|attachment)(?:; filename="((?:[^"\\]|\\.)*)")?'
        r"(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]+))?",
        value,
    )
    assert match, value
    if match[3] is not None:
        assert match[2] is not None, "filename* alone"
        return match[1], urllib.parse.unquote(match[3], errors="strict")
    name = match[2]
    return match[1], None if name is None else re.sub(r"\\(.)", r"\1", name)


def get(site: Site, nginx: Nginx, size: int = 400) -> Response:
    """Get the file 297887 and check that it is the one."""
    return site.assert_file(nginx.get("/file/297887"), 297887, size)


# the fields


def test_path_alone(site: Site, delivery: str) -> None:
    """A record of a path is as good as the path."""
    site.add(1, "aa/1.png")
    site.store.put(2, {"path": "aa/1.png"})
    nginx = site.start(FILE)
    one, two = nginx.get("/file/1"), nginx.get("/file/2")
    assert [h for h in one.headers if h[0] != "Date"] == [
        h for h in two.headers if h[0] != "Date"
    ]
    assert one.header("Content-Disposition") is None
    assert site.assert_file(two, 1).header("Content-Type") == "image/png"


def test_path_in_json_may_be_any_text(site: Site, delivery: str) -> None:
    """JSON's escapes are undone, nothing else is."""
    path = '写真/a "b" %41?#\\.dat'
    site.add(297887, path)
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("写", "\\u5199").replace("/", "\\/")
    site.store.put(297887, f' {{"path": "{escaped}"}} '.strip())
    nginx = site.start(FILE)
    get(site, nginx)


@pytest.mark.parametrize(
    "content_type",
    [
        "image/webp",
        "text/html; charset=euc-jp",
        "application/vnd.ms-excel",
        'multipart/x-mine; boundary="x y"',
    ],
)
def test_type(site: Site, delivery: str, content_type: str) -> None:
    """type is the Content-Type, over any extension."""
    site.add(297887, "aa/297887.png", type=content_type, name="name.pdf")
    nginx = site.start(FILE)
    assert get(site, nginx).header("Content-Type") == content_type


def test_type_and_charset(site: Site, delivery: str) -> None:
    """The charset directive adds to a type that has none, and to no other."""
    site.add(1, type="text/html")
    site.add(2, type="text/html; charset=euc-jp")
    nginx = site.start("charset utf-8;" + FILE)
    response = nginx.get("/file/1")
    assert response.header("Content-Type") == "text/html; charset=utf-8"
    response = nginx.get("/file/2")
    assert response.header("Content-Type") == "text/html; charset=euc-jp"


@pytest.mark.parametrize(
    ("path", "name", "content_type"),
    [
        ("aa/1.dat", "photo.png", "image/png"),
        ("aa/1.png", "report.pdf", "application/pdf"),
        ("aa/1.png", "REPORT.PDF", "application/pdf"),
        ("aa/1.png", "no extension", "image/png"),
        ("aa/1.png", "a.pdf.", "image/png"),
        ("aa/1.png", ".pdf", "image/png"),
        ("aa/1", "写真.png", "image/png"),
        ("aa/1", "nothing", "application/x-unknown"),
        ("aa/1.png", "x." + "y" * 100, "image/png"),
    ],
)
def test_type_by_extension(
    site: Site, delivery: str, path: str, name: str, content_type: str
) -> None:
    """Without type it is by the extension of the name, else of the path."""
    site.add(297887, path, name=name)
    nginx = site.start(FILE)
    assert get(site, nginx).header("Content-Type") == content_type


@pytest.mark.parametrize(
    "name",
    [
        "report.pdf",
        "annual report 2024.pdf",
        'a "quoted" name.txt',
        "100%.txt",
        "%41.txt",
        "semi;colon,comma=equals.txt",
        "o'clock (1) [2] {3} *.txt",
        "写真.jpg",
        "レポート 2024年.pdf",
        "résumé – été.pdf",
        "😀🎌.png",
        "Ελληνικά עברית العربية.txt",
        "a" * 200 + ".txt",
        "写" * 200 + ".txt",
    ],
)
def test_name(site: Site, delivery: str, name: str) -> None:
    """name is the download name, whatever characters it has."""
    site.add(297887, name=name, disposition="attachment")
    nginx = site.start(FILE)
    assert disposition(get(site, nginx)) == ("attachment", name)


def test_name_of_old_clients(site: Site, delivery: str) -> None:
    """filename is ASCII always; filename* is there only if it says more."""
    site.add(1, name="plain.txt")
    site.add(2, name="写真 1.jpg")
    nginx = site.start(FILE)
    response = nginx.get("/file/1")
    assert response.header("Content-Disposition") == 'inline; filename="plain.txt"'
    response = nginx.get("/file/2")
    assert response.header("Content-Disposition") == (
        "inline; filename=\"__ 1.jpg\"; filename*=UTF-8''%E5%86%99%E7%9C%9F%201.jpg"
    )


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b.txt", "C:\\a\\b.txt"])
def test_name_is_no_path(site: Site, delivery: str, name: str) -> None:
    """What would be a directory for the client is not sent."""
    site.add(297887, name=name)
    nginx = site.start(FILE)
    _, sent = disposition(get(site, nginx))
    assert sent == re.sub(r"[/\\]", "_", name)


def test_disposition(site: Site, delivery: str) -> None:
    """inline or attachment; a name alone means inline; neither is no header."""
    site.add(1, name="a.txt")
    site.add(2, name="a.txt", disposition="inline")
    site.add(3, name="a.txt", disposition="attachment")
    site.add(4, disposition="attachment")
    site.add(5, type="text/plain")
    nginx = site.start(FILE)
    assert disposition(nginx.get("/file/1")) == ("inline", "a.txt")
    assert disposition(nginx.get("/file/2")) == ("inline", "a.txt")
    assert disposition(nginx.get("/file/3")) == ("attachment", "a.txt")
    assert disposition(nginx.get("/file/4")) == ("attachment", None)
    assert nginx.get("/file/5").header("Content-Disposition") is None


@pytest.mark.parametrize("name", HEADERS)
def test_allowed_header(site: Site, delivery: str, name: str) -> None:
    """Each allowed header is sent, once, as the record has it."""
    site.add(297887, headers={name: HEADERS[name]})
    nginx = site.start(FILE)
    assert get(site, nginx).all(name) == [HEADERS[name]]


def test_all_headers(site: Site, delivery: str) -> None:
    """All of them together."""
    site.add(297887, headers=HEADERS)
    nginx = site.start(FILE)
    response = get(site, nginx)
    assert {name: response.header(name) for name in HEADERS} == HEADERS


def test_header_names_of_any_case(site: Site, delivery: str) -> None:
    """A header's name is known in any case."""
    site.add(297887, headers={n.upper(): v for n, v in HEADERS.items()})
    nginx = site.start(FILE)
    response = get(site, nginx)
    assert {name: response.all(name) for name in HEADERS} == {
        name: [value] for name, value in HEADERS.items()
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Set-Cookie", "a=b"),
        ("Content-Length", "1"),
        ("Content-Type", "text/evil"),
        ("Content-Range", "bytes 0-1/2"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Location", "https://example.com/"),
        ("Server", "evil"),
        ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Strict-Transport-Security", "max-age=0"),
        ("X-Accel-Redirect", "/etc/passwd"),
        ("X-Mine", "yes"),
        ("Access-Control", "yes"),
        ("Content-Disposition", "attachment; filename=evil"),
        ("", "empty"),
    ],
)
def test_other_headers_are_ignored(
    site: Site, delivery: str, name: str, value: str
) -> None:
    """A header that is not on the list is not sent; the others are."""
    site.add(297887, headers={name: value, "X-Robots-Tag": "none"})
    nginx = site.start(FILE)
    response = get(site, nginx)
    assert value not in response.all(name)
    assert response.header("X-Robots-Tag") == "none"


def test_unknown_fields_are_ignored(site: Site, delivery: str) -> None:
    """Whatever else stands in a record does not matter."""
    site.add(
        297887,
        owner={"id": 18446744073709551615, "tags": [None, True, 1.5e300]},
        expires=4102444800,
    )
    nginx = site.start(FILE)
    get(site, nginx)


def test_headers_over_http2(site: Site, delivery: str) -> None:
    """Over HTTP/2 the record's headers are lower case, and there."""
    site.add(297887, headers=HEADERS, name="写真.jpg", type="image/x-mine")
    nginx = site.start(site.http2_listen() + FILE)
    with nginx.http2("h2") as client:
        response = from_httpx(client.get("/file/297887"))
    site.assert_file(response, 297887)
    assert {name: response.header(name) for name in HEADERS} == HEADERS
    assert ("etag", ETAG) in response.headers
    assert disposition(response) == ("inline", "写真.jpg")
    assert response.header("Content-Type") == "image/x-mine"


# which answers


def start_with_record(site: Site, more: str = "") -> Nginx:
    """Start a server with a record that has everything."""
    site.add(
        297887,
        "aa/297887.pdf",
        1000,
        type="image/x-record",
        name="record.png",
        disposition="attachment",
        headers=HEADERS,
    )
    return site.start(more + FILE)


def assert_no_trace(response: Response) -> None:
    """Check that nothing of the record is in an answer."""
    for name in (*HEADERS, "Content-Disposition"):
        assert response.header(name) is None, name
    assert response.header("Content-Type") != "image/x-record"


def test_headers_of_head(site: Site, delivery: str) -> None:
    """HEAD has the record's headers."""
    nginx = start_with_record(site)
    head = nginx.head("/file/297887")
    got = get(site, nginx, 1000)
    for name in (*HEADERS, "Content-Type", "Content-Disposition", "Content-Length"):
        assert head.header(name) == got.header(name)


def test_headers_of_206(site: Site, delivery: str) -> None:
    """A range has them, and the type."""
    nginx = start_with_record(site)
    response = nginx.get("/file/297887", {"Range": "bytes=0-9"})
    assert (response.status, response.body) == (206, content(297887, 10))
    assert response.header("Content-Type") == "image/x-record"
    assert {name: response.header(name) for name in HEADERS} == HEADERS
    assert disposition(response) == ("attachment", "record.png")


def test_headers_of_several_ranges(site: Site, delivery: str) -> None:
    """Several ranges have them, with the type in each part."""
    nginx = start_with_record(site)
    response = nginx.get("/file/297887", {"Range": "bytes=0-9,20-29"})
    assert response.status == 206
    assert response.body.count(b"Content-Type: image/x-record\r\n") == 2
    assert {name: response.header(name) for name in HEADERS} == HEADERS


def test_headers_of_304(site: Site, delivery: str) -> None:
    """A 304 has them: a cache freshens what it holds by them."""
    nginx = start_with_record(site)
    response = nginx.get("/file/297887", {"If-None-Match": ETAG})
    assert (response.status, response.body) == (304, b"")
    sent = {name: response.header(name) for name in HEADERS}
    # nginx leaves the date out of a 304 that has a tag's
    sent["Last-Modified"] = DATE
    assert sent == HEADERS


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Range": "bytes=1000-"}, 416),
        ({"If-Match": '"other"'}, 412),
        ({"If-Unmodified-Since": "Tue, 31 Dec 2019 23:59:59 GMT"}, 412),
    ],
)
def test_errors_have_no_trace(
    site: Site, delivery: str, headers: dict[str, str], status: int
) -> None:
    """416 and 412 have none of the record's headers."""
    nginx = start_with_record(site)
    response = nginx.get("/file/297887", headers)
    assert response.status == status
    assert_no_trace(response)
    if status == 416:
        assert response.header("Content-Range") == "bytes */1000"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Range": "bytes=1000-"}, 416), ({"If-Match": '"other"'}, 412)],
)
def test_error_pages_have_no_trace(
    site: Site, delivery: str, headers: dict[str, str], status: int
) -> None:
    """Neither has a page of error_page."""
    site.html.write("sorry.html", b"sorry")
    nginx = start_with_record(site, "error_page 412 416 /sorry.html;")
    response = nginx.get("/file/297887", headers)
    assert response.status == status
    assert_no_trace_but_the_pages_own(site, nginx, response)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Range": "bytes=1000-"}, 416), ({"If-Match": '"other"'}, 412)],
)
def test_error_pages_of_another_status(
    site: Site, delivery: str, headers: dict[str, str], status: int
) -> None:
    """… even if error_page turns the status into a 200."""
    site.html.write("sorry.html", b"sorry")
    nginx = start_with_record(site, f"error_page {status} =200 /sorry.html;")
    response = nginx.get("/file/297887", headers)
    assert response.status in (200, status)
    assert_no_trace_but_the_pages_own(site, nginx, response)


def test_error_page_has_a_date_of_its_own(site: Site, delivery: str) -> None:
    """… also if the record had no headers, and Last-Modified was the file's."""
    page = site.html.write("sorry.html", b"sorry" * 400)
    os.utime(page, (1_500_000_000, 1_500_000_000))
    site.add(1, size=1000)
    nginx = site.start("error_page 416 =200 /sorry.html;" + FILE)
    response = nginx.get("/file/1", {"Range": "bytes=1000-"})
    assert (response.status, response.body) == (206, b"sorry" * 200)
    dates = [value for name, value in response.headers if name == "Last-Modified"]
    assert dates == ["Fri, 14 Jul 2017 02:40:00 GMT"]


def assert_no_trace_but_the_pages_own(
    site: Site, nginx: Nginx, response: Response
) -> None:
    """Check that an answer has no header that /sorry.html itself has not."""
    page = nginx.get("/sorry.html")
    for name in (*HEADERS, "Content-Disposition"):
        assert response.header(name) in (None, page.header(name)), name
    assert response.header("Content-Type") == "text/html"


def test_missing_file_has_no_trace(site: Site, delivery: str) -> None:
    """A record whose file is missing is a plain 404."""
    nginx = start_with_record(site)
    site.files.path("aa/297887.pdf").unlink()
    response = nginx.get("/file/297887")
    assert response.status == 404
    assert_no_trace(response)


def test_page_of_a_missing_file_has_no_trace(site: Site) -> None:
    """After a redirect the target's error_page answers: without the record."""
    site.html.write("sorry.html", b"sorry")
    site.variables["DELIVER"] = ""
    nginx = start_with_record(site, "error_page 404 =200 /sorry.html;")
    site.files.path("aa/297887.pdf").unlink()
    response = nginx.get("/file/297887")
    assert (response.status, response.body) == (200, b"sorry")
    assert_no_trace_but_the_pages_own(site, nginx, response)


@pytest.mark.parametrize("recursive", ["off", "on"])
def test_application_for_a_missing_file_has_no_trace(
    site: Site, recursive: str
) -> None:
    """The target's error_page may ask the application: its answer is its own."""
    site.variables["INTERNAL"] = (
        "location ^~ /files/ { internal; alias %%FILES%%/; error_page 404 = @app; }"
        " location @app { proxy_pass http://%%APP%%; }"
    )
    site.variables["APP"] = site.app.address
    site.variables["DELIVER"] = ""
    nginx = start_with_record(site, f"recursive_error_pages {recursive};")
    site.app.script = lambda request: Reply(
        headers={"Content-Type": "text/x-app", "ETag": '"app"'}, body=b"app"
    )
    site.files.path("aa/297887.pdf").unlink()
    response = nginx.get("/file/297887")
    assert (response.status, response.text) == (200, "app")
    assert response.header("Content-Type") == "text/x-app"
    assert response.header("ETag") == '"app"'
    for name in ("Cache-Control", "Content-Disposition", "X-Robots-Tag"):
        assert response.header(name) is None


def test_try_files_for_a_missing_file_has_no_trace(site: Site) -> None:
    """The target's try_files may lead elsewhere: that is not the record's file."""
    site.html.write("sorry.html", b"sorry")
    site.variables["INTERNAL"] = (
        "location ^~ /files/ { internal; root %%HTML%%; try_files $uri /sorry.html; }"
    )
    site.variables["DELIVER"] = ""
    nginx = start_with_record(site)
    response = nginx.get("/file/297887")
    assert (response.status, response.body) == (200, b"sorry")
    assert_no_trace_but_the_pages_own(site, nginx, response)


def test_record_after_accel_redirect(site: Site, delivery: str) -> None:
    """The record of the ID that the application named counts, not the first one."""
    site.store.put(1, {"path": "aa/gone.pdf", "headers": {"Link": "</1>"}})
    site.add(2, headers={"X-Robots-Tag": "none"}, name="two.png")
    nginx = site.start(
        """
        location /file/ { http_sendfile on; %%DIRECT%% http_sendfile_fallback @app; }
        location @app { proxy_pass http://%%APP%%; }
        """
    )
    site.app.script = lambda request: Reply(headers={"X-Accel-Redirect": "/file/2"})
    response = site.assert_file(nginx.get("/file/1"), 2)
    assert response.header("Link") is None
    assert response.header("X-Robots-Tag") == "none"
    assert disposition(response) == ("inline", "two.png")


def test_records_in_a_page(site: Site, delivery: str) -> None:
    """Records of included files do not touch the page's headers."""
    for n in (1, 2):
        site.add(n, name=f"{n}.pdf", headers=HEADERS, type="image/x-record")
    site.html.write(
        "page.html",
        b'<!--#include virtual="/file/1" --><!--#include virtual="/file/2" -->',
    )
    nginx = site.start("location = /page.html { ssi on; } " + FILE)
    response = nginx.get("/page.html")
    assert response.body == content(1) + content(2)
    assert response.header("Content-Type") == "text/html"
    assert_no_trace(response)


# conditions


def test_etag_of_the_record(site: Site, delivery: str) -> None:
    """The record's tag decides, not the file's."""
    site.add(297887, size=1000, headers={"ETag": ETAG})
    site.html.write_id("same", 297887, 1000)
    nginx = site.start(FILE)
    for headers, status in (
        ({"If-None-Match": ETAG}, 304),
        ({"If-None-Match": f"W/{ETAG}"}, 304),
        ({"If-None-Match": f'"a", {ETAG}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Match": ETAG}, 200),
        ({"If-Match": '"other"'}, 412),
        ({"Range": "bytes=0-9", "If-Range": ETAG}, 206),
        ({"Range": "bytes=0-9", "If-Range": '"other"'}, 200),
    ):
        assert nginx.get("/file/297887", headers).status == status, headers


def test_the_files_own_etag_is_void(site: Site, delivery: str) -> None:
    """The tag that the file would have does not match any more."""
    path = site.add(297887)
    nginx = site.start(FILE + "location /static/ { alias %%FILES%%/; }")
    own = nginx.get(f"/static/{path}").header("ETag")
    assert own is not None
    assert nginx.get("/file/297887", {"If-None-Match": own}).status == 304
    site.store.put(297887, {"path": path, "headers": {"ETag": ETAG}})
    assert nginx.get("/file/297887", {"If-None-Match": own}).status == 200


def test_weak_etag_of_the_record(site: Site, delivery: str) -> None:
    """A weak tag is good for a 304, and for nothing that needs the very bytes."""
    site.add(297887, size=1000, headers={"ETag": f"W/{ETAG}"})
    nginx = site.start(FILE)
    for headers, status in (
        ({"If-None-Match": f"W/{ETAG}"}, 304),
        ({"If-None-Match": ETAG}, 304),
        ({"If-Match": ETAG}, 412),
        ({"Range": "bytes=0-9", "If-Range": ETAG}, 200),
        ({"Range": "bytes=0-9"}, 206),
    ):
        assert nginx.get("/file/297887", headers).status == status, headers


def test_last_modified_of_the_record(site: Site, delivery: str) -> None:
    """The record's date decides, not the file's."""
    path = site.add(297887, size=1000, headers={"Last-Modified": DATE})
    os.utime(site.files.path(path), (1_700_000_000, 1_700_000_000))
    nginx = site.start("etag off;" + FILE)
    own = "Tue, 14 Nov 2023 22:13:20 GMT"
    for headers, status in (
        ({"If-Modified-Since": DATE}, 304),
        ({"If-Modified-Since": own}, 200),
        ({"If-Unmodified-Since": DATE}, 200),
        ({"If-Unmodified-Since": "Tue, 31 Dec 2019 23:59:59 GMT"}, 412),
        ({"Range": "bytes=0-9", "If-Range": DATE}, 206),
        ({"Range": "bytes=0-9", "If-Range": own}, 200),
    ):
        assert nginx.get("/file/297887", headers).status == status, headers
    response = nginx.get("/file/297887")
    assert response.all("Last-Modified") == [DATE]


def test_bad_last_modified_of_the_record(site: Site, delivery: str) -> None:
    """What is no date is not sent; the file is, and the log says why."""
    site.add(297887, headers={"Last-Modified": "yesterday"})
    nginx = site.start(FILE)
    response = get(site, nginx)
    assert response.header("Last-Modified") != "yesterday"
    assert "yesterday" in nginx.errors()[0]


def test_etag_of_the_record_under_gzip(site: Site, delivery: str) -> None:
    """gzip weakens the record's tag as it weakens any."""
    site.add(297887, size=10_000, type="text/plain", headers={"ETag": ETAG})
    nginx = site.start("gzip on; gzip_types *;" + FILE)
    accept = {"Accept-Encoding": "gzip"}
    response = nginx.get("/file/297887", accept)
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == content(297887, 10_000)
    assert response.header("ETag") == f"W/{ETAG}"
    response = nginx.get("/file/297887", {**accept, "If-None-Match": f"W/{ETAG}"})
    assert response.status == 304


def test_etag_off_and_the_records_etag(site: Site, delivery: str) -> None:
    """`etag off` is of the file's own tag; the record's is sent."""
    site.add(297887, headers={"ETag": ETAG})
    nginx = site.start("etag off;" + FILE)
    assert get(site, nginx).header("ETag") == ETAG


# with other directives


def test_content_encoding(site: Site, delivery: str) -> None:
    """A file that is stored compressed is sent as it is, once compressed."""
    packed = gzip.compress(content(297887, 10_000))
    site.files.write("aa/297887.html.gz", packed)
    record = {
        "path": "aa/297887.html.gz",
        "type": "text/html",
        "headers": {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
    }
    site.store.put(297887, record)
    nginx = site.start("gzip on; gzip_types *; gzip_min_length 1;" + FILE)
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        response = nginx.get("/file/297887", headers)
        assert response.header("Content-Encoding") == "gzip"
        assert response.body == packed
        assert response.header("Content-Type") == "text/html"


def test_gzip_goes_by_the_records_type(site: Site, delivery: str) -> None:
    """What is compressed is decided by the type that is sent."""
    site.add(1, "aa/1.dat", 5000, type="text/css")
    site.add(2, "aa/2.css", 5000, type="image/x-mine")
    nginx = site.start("gzip on; gzip_types text/css;" + FILE)
    accept = {"Accept-Encoding": "gzip"}
    assert nginx.get("/file/1", accept).header("Content-Encoding") == "gzip"
    response = nginx.get("/file/2", accept)
    assert response.header("Content-Encoding") is None
    site.assert_file(response, 2, 5000)


def test_expires_and_the_records_cache_control(site: Site, delivery: str) -> None:
    """With `expires` as well each header is still sent once."""
    site.add(1, headers={"Cache-Control": "private", "Expires": "0"})
    site.add(2)
    nginx = site.start("expires 1h;" + FILE)
    response = nginx.get("/file/1")
    assert len(response.all("Cache-Control")) == 1
    assert len(response.all("Expires")) == 1
    assert nginx.get("/file/2").header("Cache-Control") == "max-age=3600"


def test_add_header_and_the_records_headers(site: Site, delivery: str) -> None:
    """add_header adds to the record's headers, as to any."""
    site.add(297887, headers={"X-Robots-Tag": "none", "Cache-Control": "private"})
    nginx = site.start(
        "add_header X-Mine yes; add_header X-Type $sent_http_etag;" + FILE
    )
    response = get(site, nginx)
    assert response.header("X-Mine") == "yes"
    assert response.header("X-Robots-Tag") == "none"
    assert response.header("Cache-Control") == "private"


def test_sent_variables(site: Site, delivery: str) -> None:
    """$sent_http_* show the record's headers."""
    site.add(297887, type="image/x-mine", headers={"Cache-Control": "private"})
    nginx = site.start(
        "access_log %%DIR%%/logs/sent.log sent;" + FILE,
        http="log_format sent '$sent_http_content_type|$sent_http_cache_control';",
    )
    with nginx.connect() as connection:
        site.assert_file(connection.request("GET", "/file/297887"), 297887)
    nginx.stop()
    log = site.directory / "logs" / "sent.log"
    assert "image/x-mine|private\n" in log.read_text()


# broken records


BROKEN = {
    "nothing": b"",
    "brace": b"{",
    "no path": b"{}",
    "empty path": b'{"path": ""}',
    "absolute path": b'{"path": "/aa/297887.dat"}',
    "dots": b'{"path": "../aa/297887.dat"}',
    "escaped dots": b'{"path": "\\u002e\\u002e/aa/297887.dat"}',
    "double slash": b'{"path": "aa//297887.dat"}',
    "slash at the end": b'{"path": "aa/297887.dat/"}',
    "NUL in the path": b'{"path": "aa/297887.dat\\u0000.png"}',
    "line break in the path": b'{"path": "aa/297887.dat\\n"}',
    "path of a number": b'{"path": 297887}',
    "path of null": b'{"path": null}',
    "path of a list": b'{"path": ["aa/297887.dat"]}',
    "garbage after": b'{"path": "aa/297887.dat"} x',
    "twice": b'{"path": "aa/297887.dat", "path": "aa/297887.dat"}',
    "cut off": b'{"path": "aa/297887.dat"',
    "single quotes": b"{'path': 'aa/297887.dat'}",
    "not UTF-8": b'{"path": "aa/297887.dat", "name": "\xff"}',
    "type of a number": b'{"path": "aa/297887.dat", "type": 1}',
    "line break in the type": b'{"path": "aa/297887.dat", "type": "a\\r\\nX: y"}',
    "line break in the name": b'{"path": "aa/297887.dat", "name": "a\\r\\nX: y"}',
    "NUL in the name": b'{"path": "aa/297887.dat", "name": "a\\u0000"}',
    "name of a list": b'{"path": "aa/297887.dat", "name": []}',
    "disposition": b'{"path": "aa/297887.dat", "disposition": "inline; x"}',
    "headers of a list": b'{"path": "aa/297887.dat", "headers": []}',
    "header of a number": b'{"path": "aa/297887.dat", "headers": {"Link": 1}}',
    "line break in a header": b'{"path": "aa/297887.dat", "headers":'
    b' {"Link": "a\\r\\nSet-Cookie: b=c"}}',
    "NUL in a header": b'{"path": "aa/297887.dat", "headers": {"Link": "a\\u0000"}}',
    "line break in an ignored header": b'{"path": "aa/297887.dat", "headers":'
    b' {"X-Ignored": "a\\nb"}}',
    "line break in a header's name": b'{"path": "aa/297887.dat", "headers":'
    b' {"X-A\\r\\nSet-Cookie": "b=c"}}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_record(site: Site, delivery: str, kind: str) -> None:
    """A broken record is a 502 and one line that says what is wrong with which key."""
    site.add(297887)
    site.store.put(297887, BROKEN[kind])
    nginx = site.start(FILE)
    response = nginx.get("/file/297887")
    assert response.status == 502
    assert b"ID:" not in response.body
    assert response.header("Set-Cookie") is None
    entry = nginx.logged("/file/297887")
    assert (entry.status, entry.target) == ("INVALID", "-")
    assert entry.reason.startswith("invalid record: ")
    (line,) = nginx.errors("error", "warn")
    assert 'key "297887"' in line
    assert entry.reason in line


def test_broken_record_falls_back(site: Site, delivery: str) -> None:
    """With a fallback the application is asked; each request is logged."""
    site.store.put(297887, BROKEN["cut off"])
    nginx = site.start(
        "location /file/ { http_sendfile on; %%DELIVER%% proxy_pass http://%%APP%%; }"
        "%%INTERNAL%%"
    )
    for _ in range(3):
        assert nginx.get("/file/297887").text == "app GET /file/297887\n"
    assert len(nginx.errors()) == 3


def test_good_after_broken(site: Site, delivery: str) -> None:
    """A record that is repaired is served at once."""
    site.store.put(297887, BROKEN["cut off"])
    nginx = site.start(FILE)
    with nginx.connect() as connection:
        assert connection.request("GET", "/file/297887").status == 502
        site.add(297887, name="a.txt")
        site.assert_file(connection.request("GET", "/file/297887"), 297887)


# http_sendfile_format


def test_format_path(site: Site, delivery: str) -> None:
    """Under `path` a brace has no meaning."""
    site.store.put(1, '{"path": "a"}')
    site.files.write_id('{"path": "a"}', 1)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_format path; %%DELIVER%% }"
        "%%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/1"), 1)


def test_format_json(site: Site, delivery: str) -> None:
    """Under `json` a path alone is broken."""
    site.add(1, name="a.txt")
    site.add(2)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_format json; %%DELIVER%% }"
        "%%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/1"), 1)
    assert nginx.get("/file/2").status == 502


def test_big_record(site: Site, delivery: str) -> None:
    """A record may be some 10 KB long."""
    link = ", ".join(f"</{n}.css>; rel=preload" for n in range(300))
    site.add(297887, headers={"Link": link}, comment="x" * 40_000)
    nginx = site.start(FILE)
    assert get(site, nginx).header("Link") == link
