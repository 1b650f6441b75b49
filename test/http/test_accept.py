"""http_sendfile_accept: the application names a file, nginx sends it.

What is sent is compared with nginx's own static delivery of the same file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lib.accept import SERVER, sendfile
from lib.compare import assert_same
from lib.files import content
from lib.gateway import Gateway, Said
from lib.nginx import Nginx
from lib.site import Site
from lib.wait import wait_until

pytest_plugins = ("lib.gateway_fixtures",)

SIZE = 1000
MTIME = 1_700_000_000
MTIME_HTTP = "Tue, 14 Nov 2023 22:13:20 GMT"

NAME = "aa/1.txt"


def write(site: Site, name: str | bytes = NAME, size: int = SIZE) -> Path:
    """Write a file that says the ID 1, whose modification time is MTIME."""
    path = site.files.write_id(name, 1, size)
    os.utime(path, (MTIME, MTIME))
    return path


def refused_lines(nginx: Nginx) -> list[str]:
    """Return the error log's lines of what the application may not send."""
    return [s for s in nginx.errors("error") if "http_sendfile: " in s]


# the file


@pytest.mark.parametrize("header", ["X-Sendfile", "X-LIGHTTPD-send-file"])
def test_file(site: Site, app: Gateway, header: str) -> None:
    """It is what nginx would send of the same file."""
    path = write(site)
    app.answers["/a"] = Said(headers=[(header, str(path))])
    nginx = site.start(SERVER)
    response = nginx.get("/a?b=c")
    assert_same(response, nginx.get(f"/static/{NAME}"))
    site.assert_file(response, 1, SIZE)
    assert response.header("Last-Modified") == MTIME_HTTP
    assert app.count() == 1
    assert nginx.errors() == []


@pytest.mark.parametrize("spelling", ["x-sendfile", "X-SENDFILE", "X-SendFile"])
def test_name_of_a_header_has_no_case(site: Site, app: Gateway, spelling: str) -> None:
    """The name of a header has no case, in an answer or in the configuration."""
    path = write(site)
    app.answers["/a"] = Said(headers=[(spelling, str(path))])
    server = f"location / {{ http_sendfile_accept {spelling.swapcase()};"
    nginx = site.start(server + " http_sendfile_allow %%FILES%%; %%PASS%% }")
    response = site.assert_file(nginx.get("/a"), 1, SIZE)
    assert response.all("X-Sendfile") == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Range": "bytes=0-9"}, 206),
        ({"Range": "bytes=990-"}, 206),
        ({"Range": "bytes=-1"}, 206),
        ({"Range": "bytes=0-9,20-29"}, 206),
        ({"Range": "bytes=1000-"}, 416),
        ({"Range": "lines=1"}, 200),
        ({"Range": "bytes=0-9", "If-Range": MTIME_HTTP}, 206),
        ({"Range": "bytes=0-9", "If-Range": '"x"'}, 200),
        ({"If-Modified-Since": MTIME_HTTP}, 304),
        ({"If-Modified-Since": "Tue, 14 Nov 2023 22:13:19 GMT"}, 200),
        ({"If-Unmodified-Since": MTIME_HTTP}, 200),
        ({"If-Unmodified-Since": "Tue, 14 Nov 2023 22:13:19 GMT"}, 412),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-None-Match": "*"}, 304),
        ({"If-Match": '"x"'}, 412),
        ({"If-Match": "*"}, 200),
    ],
    ids=repr,
)
def test_conditions_and_ranges(
    site: Site, app: Gateway, headers: dict[str, str], status: int, method: str
) -> None:
    """Conditions and ranges are answered as for a static file."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    wanted = nginx.request(method, f"/static/{NAME}", headers)
    assert wanted.status == status
    assert_same(nginx.request(method, "/a", headers), wanted)


def test_etag_of_the_file(site: Site, app: Gateway) -> None:
    """Without a tag of the application there is the file's, good for a 304."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    tag = nginx.get("/a").header("ETag")
    assert tag is not None
    assert nginx.get("/a", {"If-None-Match": tag}).status == 304
    response = nginx.get("/a", {"Range": "bytes=0-1", "If-Range": tag})
    assert response.status == 206


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_method(site: Site, app: Gateway, method: str) -> None:
    """The application sees method and body; the answer is the file."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    body = bytes(range(256)) * 200
    response = nginx.request(method, "/a?x", body=body)
    site.assert_file(response, 1, SIZE)
    (request,) = app.requests
    assert (request.method, request.target, request.body) == (method, "/a?x", body)


def test_head(site: Site, app: Gateway) -> None:
    """HEAD has GET's headers and no body."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    head = nginx.head("/a")
    assert_same(head, nginx.head(f"/static/{NAME}"))
    assert head.header("Content-Length") == str(SIZE)
    assert app.requests[0].method == "HEAD"


@pytest.mark.parametrize("size", [0, 1, 4096, 65537, 3_000_000])
def test_sizes(site: Site, app: Gateway, size: int) -> None:
    """Files of any size come whole."""
    app.answers["/a"] = sendfile(write(site, size=size))
    nginx = site.start(SERVER)
    response = nginx.get("/a")
    assert_same(response, nginx.get(f"/static/{NAME}"))
    site.assert_file(response, 1, size)


def test_more_than_4_gb(site: Site, web: Gateway) -> None:
    """Offsets and lengths beyond 32 bits."""
    size = 5_000_000_000
    mark = site.files.write_sparse("big.dat", 1, size)
    web.answers["/a"] = sendfile(site.files.path("big.dat"))
    nginx = site.start("sendfile on;" + SERVER)
    assert nginx.head("/a").header("Content-Length") == str(size)
    last = nginx.get("/a", {"Range": f"bytes=-{len(mark)}"})
    assert (last.status, last.body) == (206, mark)
    assert last.header("Content-Range") == "bytes 4999995904-4999999999/5000000000"


NAMES: list[bytes] = [
    b"with space.dat",
    b" leading.dat",
    b"two  spaces.dat",
    b"100%.dat",
    b"a%20b.dat",
    b"%2e%2e.dat",
    b"%00.dat",
    b"what?.dat",
    b"a?b=c&d",
    b"hash#.dat",
    b"a+b.dat",
    b"semi;colon.dat",
    b"back\\slash.dat",
    b"'quotes\".dat",
    b"$uri.dat",
    b"{a}[b]|^`.dat",
    b"..hidden.dat",
    b"...",
    b"a..",
    b"~",
    "日本語 の ファイル.dat".encode(),
    "🎉👩‍👩‍👧.dat".encode(),
    "e\u0301.dat".encode(),
    b"latin-1 \xe9\xff\x80.dat",
    b"x" * 255,
    b"d/" * 100 + b"deep.dat",
]


@pytest.mark.parametrize("header", ["X-Sendfile", "X-LIGHTTPD-send-file"])
def test_names(site: Site, app: Gateway, header: str) -> None:
    """The bytes of a path are the name; nothing is decoded."""
    nginx = site.start(SERVER)
    root = os.fsencode(site.files.root)
    for n, name in enumerate(NAMES):
        site.files.write_id(name, n)
        app.answers[f"/{n}"] = Said(headers=[(header, root + b"/" + name)])
    with nginx.connect() as connection:
        for n in range(len(NAMES)):
            site.assert_file(connection.request("GET", f"/{n}"), n)


def test_encoded_names_are_other_names(site: Site, app: Gateway) -> None:
    """An encoded name is looked for as it is, and not found."""
    site.files.write_id("a b.dat", 1)
    site.files.write_id("a+b.dat", 2)
    for n, name in enumerate(("a%20b.dat", "a+b.dat", "a%2Bb.dat")):
        app.answers[f"/{n}"] = sendfile(site.files.path(name))
    nginx = site.start(SERVER)
    assert nginx.get("/0").status == 404
    site.assert_file(nginx.get("/1"), 2)
    assert nginx.get("/2").status == 404


# what is not sent


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_missing_file(site: Site, app: Gateway, method: str) -> None:
    """A file that is not there is a 404."""
    lines = [("Content-Disposition", "attachment"), ("ETag", '"x"')]
    app.answers["/a"] = sendfile(site.files.path("none"), *lines)
    app.answers["/b"] = sendfile(write(site))
    nginx = site.start(SERVER)
    response = nginx.request(method, "/a")
    assert response.status == 404
    assert response.all("Content-Disposition") == response.all("ETag") == []
    assert nginx.logged("/a").reason == "missing file (2: No such file or directory)"
    site.assert_file(nginx.get("/b"), 1, SIZE)


def test_unreadable_file(site: Site, app: Gateway) -> None:
    """A file that the worker may not read is a 403, and so is a directory's."""
    write(site).chmod(0)
    write(site, "closed/2.txt")
    site.files.path("closed").chmod(0)
    app.answers["/a"] = sendfile(site.files.path(NAME))
    app.answers["/b"] = sendfile(site.files.path("closed/2.txt"))
    nginx = site.start(SERVER)
    try:
        for target in ("/a", "/b"):
            assert nginx.get(target).status == 403
            reason = nginx.logged(target).reason
            assert reason == "cannot open file (13: Permission denied)"
    finally:
        site.files.path("closed").chmod(0o755)


def test_no_regular_file(site: Site, app: Gateway) -> None:
    """A FIFO does not hang, and a directory has no index."""
    os.mkfifo(site.files.path("fifo"))
    site.files.path("fifo").chmod(0o666)
    write(site, "dir/index.html")
    app.answers["/fifo"] = sendfile(site.files.path("fifo"))
    app.answers["/dir"] = sendfile(site.files.path("dir"))
    nginx = site.start(SERVER)
    for target in ("/fifo", "/dir"):
        assert nginx.get(target).status == 404
        assert nginx.logged(target).reason == "not a regular file"


def test_devices(site: Site, web: Gateway) -> None:
    """Nor is a device a file, where all of /dev is allowed."""
    for name in ("null", "zero", "tty", "urandom"):
        web.answers[f"/{name}"] = sendfile(f"/dev/{name}")
    nginx = site.start(
        "location / { http_sendfile_accept X-Sendfile; http_sendfile_allow /dev;"
        " %%PASS%% }"
    )
    for target in web.answers:
        assert nginx.get(target).status == 404
        assert nginx.logged(target).reason.startswith(
            ("not a regular file", "cannot open file (6: ")
        )


BAD_PATHS = {
    "empty-segment": "%s//aa/1.txt",
    "dot": "%s/./aa/1.txt",
    "dots": "%s/aa/../aa/1.txt",
    "out": "%s/../canary.dat",
    "out-and-in": "%s/../files/aa/1.txt",
    "trailing-slash": "%s/aa/1.txt/",
    "directory": "%s/aa/",
    "root": "%s",
    "root-slash": "%s/",
    "control": "%s/aa/\x011.txt",
    "del": "%s/aa/1.txt\x7f",
    "long": "%s/" + "a/" * 2100 + "b",
    "elsewhere": "/etc/passwd",
    "relative": "aa/1.txt",
    "dot-relative": "./aa/1.txt",
    "beside": "%s-private/1.txt",
    "above": "%s/..",
    "file-url": "file://%s/aa/1.txt",
    "uri": "/files/aa/1.txt",
    "upper-case": "/TMP/x",
    "slash": "/",
    "two-slashes": "//etc/passwd",
}


@pytest.mark.parametrize("path", BAD_PATHS.values(), ids=BAD_PATHS.keys())
def test_bad_path(site: Site, app: Gateway, path: str) -> None:
    """Not below an allowed root, or no path: 502, and one line that says so."""
    write(site)
    for name in ("canary.dat", "files-private/1.txt"):
        other = site.directory / name
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(b"CANARY")
    said = path.replace("%s", str(site.files.root))
    app.answers["/a"] = sendfile(said, ("Content-Disposition", "attachment"))
    nginx = site.start(big(app) + SERVER)
    response = nginx.get("/a")
    assert response.status == 502
    assert b"CANARY" not in response.body
    assert response.all("Content-Disposition") == []
    assert len(refused_lines(nginx)) == 1
    entry = nginx.logged("/a")
    assert entry.source == "app"
    assert entry.reason not in ("-", "")


def big(app: Gateway) -> str:
    """Return directives that let an answer have a head of 16 KiB."""
    return app.directive("buffer_size", "16k") + app.directive("buffers", "4 16k")


def test_two_paths(site: Site, app: Gateway) -> None:
    """Of two headers none lets out what the other one may not send."""
    write(site)
    canary = site.directory / "canary.dat"
    canary.write_bytes(b"CANARY")
    good = ("X-Sendfile", str(site.files.path(NAME)))
    bad = ("X-Sendfile", str(canary))
    lighttpd = ("X-LIGHTTPD-send-file", str(canary))
    for n, lines in enumerate(((good, bad), (bad, good), (good, lighttpd))):
        app.answers[f"/{n}"] = Said(headers=lines)
    nginx = site.start(SERVER)
    for n in range(3):
        response = nginx.get(f"/{n}")
        assert response.status in (200, 502), n
        assert response.body == content(1, SIZE) or response.status == 502
        assert b"CANARY" not in response.body


def test_empty_path(site: Site, app: Gateway) -> None:
    """An empty header names no file."""
    app.answers["/a"] = Said(headers=[("X-Sendfile", "")], body=b"the body")
    nginx = site.start(SERVER)
    response = nginx.get("/a")
    assert response.status == 502
    assert b"the body" not in response.body
    assert response.all("X-Sendfile") == []


# symbolic links


def start_with_links(site: Site, app: Gateway, setting: str) -> Nginx:
    """Start a server whose files have links that stay below, and that do not."""
    root = site.files.root
    write(site)
    (site.directory / "canary.dat").write_bytes(b"CANARY")
    links = {
        "in": NAME,
        "dir-in": "aa",
        "out": "../canary.dat",
        "absolute": str(root / NAME),
        "dir-out": "..",
        "out-and-in": f"../files/{NAME}",
        "magic": "/proc/self/root",
        "loop": "loop",
        "dangling": "nothing",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    for name in (
        *("in", "dir-in/1.txt", "out", "absolute", "dir-out/canary.dat"),
        *("out-and-in", "magic/etc/passwd", "loop", "dangling"),
    ):
        app.answers[f"/{name}"] = sendfile(root / name)
    return site.start(f"http_sendfile_symlinks {setting};" + SERVER)


def test_symlinks_off(site: Site, app: Gateway) -> None:
    """By default no link is followed."""
    nginx = start_with_links(site, app, "off")
    for target in app.answers:
        response = nginx.get(target)
        assert response.status == 404, target
        assert nginx.logged(target).reason.startswith(("symbolic link", "missing file"))


def test_symlinks_on(site: Site, app: Gateway) -> None:
    """Those that stay below the root at every step are followed if allowed."""
    nginx = start_with_links(site, app, "on")
    for target in app.answers:
        response = nginx.get(target)
        if target in ("/in", "/dir-in/1.txt"):
            site.assert_file(response, 1, SIZE)
        else:
            assert response.status == 404, target
            assert b"CANARY" not in response.body


def test_root_may_be_a_link(site: Site, app: Gateway) -> None:
    """The allowed directory may be a link, and another the next second."""
    current = site.directory / "current"
    for n in range(2):
        site.files.write_id(f"r{n}/1.dat", n)
    current.symlink_to(site.files.root / "r0")
    app.answers["/a"] = sendfile(current / "1.dat")
    nginx = site.start(
        f"location / {{ http_sendfile_accept X-Sendfile;"
        f" http_sendfile_allow {current}; %%PASS%% }}"
    )
    site.assert_file(nginx.get("/a"), 0)
    new = site.directory / "new"
    new.symlink_to(site.files.root / "r1")
    new.replace(current)
    wait_until(lambda: nginx.get("/a").body == content(1), what="the new root")


# http_sendfile_allow


def test_several_roots(site: Site, app: Gateway) -> None:
    """A path may lie below any of the allowed directories."""
    roots = ["a", "b/c", "b", "日本 語"]
    for n, root in enumerate(roots):
        path = site.files.write_id(f"{root}/{n}.dat", n)
        app.answers[f"/{n}"] = sendfile(path)
    site.files.write_id("c/9.dat", 9)
    app.answers["/9"] = sendfile(site.files.path("c/9.dat"))
    allow = "".join(f'http_sendfile_allow "%%FILES%%/{root}"; ' for root in roots)
    nginx = site.start(
        f"location / {{ http_sendfile_accept X-Sendfile; {allow} %%PASS%% }}"
    )
    for n in range(len(roots)):
        site.assert_file(nginx.get(f"/{n}"), n)
    assert nginx.get("/9").status == 502
    assert len(refused_lines(nginx)) == 1


def test_prefixes_are_whole_names(site: Site, app: Gateway) -> None:
    """/data does not allow /data-private, nor /dat."""
    for n, name in enumerate(("data", "data-private", "dat", "data2/data")):
        app.answers[f"/{n}"] = sendfile(site.files.write_id(f"{name}/1", n))
    for slash in ("", "/"):
        nginx = site.start(
            "location / { http_sendfile_accept X-Sendfile;"
            f" http_sendfile_allow %%FILES%%/data{slash}; %%PASS%% }}"
        )
        site.assert_file(nginx.get("/0"), 0)
        for n in (1, 2, 3):
            assert nginx.get(f"/{n}").status == 502


def test_nearest_allow(site: Site, app: Gateway) -> None:
    """The level that has any says it all; a level without has those above."""
    for n, name in enumerate(("http", "server", "location")):
        app.answers[f"/x/{n}"] = sendfile(site.files.write_id(f"{name}/1", n))
    app.answers.update({f"/y/{n}": app.answers[f"/x/{n}"] for n in range(3)})
    nginx = site.start(
        """
        http_sendfile_allow %%FILES%%/server;
        location /x/ { %%PASS%% }
        location /y/ { http_sendfile_allow %%FILES%%/location; %%PASS%% }
        """,
        "http_sendfile_accept X-Sendfile; http_sendfile_allow %%FILES%%/http;",
    )
    assert [nginx.get(f"/x/{n}").status for n in range(3)] == [502, 200, 502]
    assert [nginx.get(f"/y/{n}").status for n in range(3)] == [502, 502, 200]


def test_file_system_as_root(site: Site, web: Gateway) -> None:
    """All files, if that is what is written."""
    web.answers["/a"] = sendfile(write(site))
    nginx = site.start(
        "location / { http_sendfile_accept X-Sendfile; http_sendfile_allow /;"
        " %%PASS%% }"
    )
    site.assert_file(nginx.get("/a"), 1, SIZE)


# settings of the location that has asked the application


def test_settings_of_the_location(site: Site, app: Gateway) -> None:
    """add_header, types, expires and the log's format are that location's."""
    site.files.write_id("aa/1.mine", 1, SIZE)
    app.answers["/in/a"] = sendfile(site.files.path("aa/1.mine"))
    nginx = site.start(
        """
        add_header X-Where server;
        location /in/ {
            %%ACCEPT%% %%PASS%%
            add_header X-Where "location $sendfile_source $sendfile_target";
            add_header X-Mine yes always;
            types { text/x-mine mine; }
            expires 1h;
            access_log %%DIR%%/logs/access.log nsf;
            access_log %%DIR%%/logs/other.log nsf;
        }
        """,
        "",
    )
    response = site.assert_file(nginx.get("/in/a"), 1, SIZE)
    assert response.all("X-Where") == ["location app aa/1.mine"]
    assert response.header("X-Mine") == "yes"
    assert response.header("Content-Type") == "text/x-mine"
    assert response.header("Cache-Control") == "max-age=3600"
    log = site.directory / "logs" / "other.log"
    wait_until(lambda: log.exists() and "/in/a" in log.read_text(), what="the log")


def test_limit_rate(site: Site, app: Gateway) -> None:
    """limit_rate holds the file back."""
    app.answers["/a"] = sendfile(write(site, size=60_000))
    nginx = site.start("limit_rate 40k;" + SERVER)
    begin = time.monotonic()
    site.assert_file(nginx.get("/a"), 1, 60_000)
    # the first second's worth comes at once
    assert time.monotonic() - begin > 0.2


def test_limit_rate_of_the_application(site: Site, app: Gateway) -> None:
    """So does X-Accel-Limit-Rate, which nginx knows."""
    line = ("X-Accel-Limit-Rate", "40960")
    app.answers["/a"] = sendfile(write(site, size=60_000), line)
    nginx = site.start(SERVER)
    begin = time.monotonic()
    response = site.assert_file(nginx.get("/a"), 1, 60_000)
    assert time.monotonic() - begin > 0.2
    assert response.all("X-Accel-Limit-Rate") == []


@pytest.mark.parametrize(
    "settings",
    ["sendfile on; tcp_nopush on;", "directio 512;", "output_buffers 1 4k;"],
)
def test_settings_of_sending(site: Site, web: Gateway, settings: str) -> None:
    """However nginx is told to read a file, it is the same file."""
    web.answers["/a"] = sendfile(write(site, size=300_000))
    nginx = site.start(settings + SERVER)
    assert_same(nginx.get("/a"), nginx.get(f"/static/{NAME}"))


def test_aio(site: Site, web: Gateway) -> None:
    """Threads read it, too."""
    web.answers["/a"] = sendfile(write(site, size=300_000))
    settings = "aio threads; sendfile on;" if site.flavour.built_with("threads") else ""
    nginx = site.start(settings + SERVER)
    for _ in range(5):
        site.assert_file(nginx.get("/a"), 1, 300_000)


# variables


def test_variables(site: Site, app: Gateway) -> None:
    """The application has answered, with this path below the allowed directory."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    site.assert_file(nginx.get("/a"), 1, SIZE)
    entry = nginx.logged("/a")
    assert (entry.source, entry.target) == ("app", NAME)
    assert entry.reason == "-"


def test_variables_of_strange_names(site: Site, app: Gateway) -> None:
    """$sendfile_target is the path as it came."""
    name = "日本語 100%?#.dat"
    app.answers["/a"] = sendfile(site.files.write_id(name, 1))
    nginx = site.start(SERVER)
    site.assert_file(nginx.get("/a"), 1)
    assert nginx.logged("/a").target == name


# clients


def test_keep_alive(site: Site, app: Gateway) -> None:
    """A client's connection carries all kinds of answers."""
    app.answers["/a"] = sendfile(write(site))
    app.answers["/gone"] = sendfile(site.files.path("gone"))
    app.answers["/bad"] = sendfile("/etc/passwd")
    app.answers["/plain"] = Said(body=b"plain")
    app.answers["/404"] = sendfile(site.files.path(NAME), status=404)
    nginx = site.start(SERVER)
    with nginx.connect() as connection:
        for _ in range(3):
            for target in ("/a", "/gone", "/plain", "/404", "/a"):
                for method in ("GET", "HEAD", "POST"):
                    body = b"x" * 5000 if method == "POST" else b""
                    response = connection.request(method, target, body=body)
                    assert not response.closed
                    if target == "/a" and method != "HEAD":
                        site.assert_file(response, 1, SIZE)
                    elif target == "/plain" and method != "HEAD":
                        assert response.body == b"plain"
        assert connection.request("GET", "/bad").status == 502
        headers = {"Range": "bytes=5-8"}
        response = connection.request("GET", "/a", headers)
        assert (response.status, response.body) == (206, content(1, SIZE)[5:9])


def test_pipelined(site: Site, app: Gateway) -> None:
    """Requests in one packet are answered in their order."""
    for n in range(20):
        app.answers[f"/{n}"] = sendfile(site.files.write_id(f"{n}", n))
    nginx = site.start(SERVER)
    with nginx.connect() as connection:
        connection.send(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(20))
        )
        for n in range(20):
            site.assert_file(connection.read_response(), n)


def test_http2(site: Site, app: Gateway) -> None:
    """Over HTTP/2 as well."""
    path = write(site)
    app.answers["/a"] = sendfile(path, ("ETag", '"app"'))
    nginx = site.start(site.http2_listen() + SERVER)
    with nginx.http2("h2") as client:
        for _ in range(3):
            response = client.get("/a")
            assert (response.status_code, response.content) == (200, content(1, SIZE))
            assert response.headers["etag"] == '"app"'
            assert "x-sendfile" not in response.headers
        assert client.post("/a", content=b"x" * 100_000).content == content(1, SIZE)


def test_client_gone(site: Site, app: Gateway) -> None:
    """Clients that leave in the middle of a file take nothing down."""
    app.answers["/a"] = sendfile(write(site, size=20_000_000))
    nginx = site.start(SERVER)
    workers = nginx.workers()
    for _ in range(10):
        connection = nginx.connect()
        connection.send_request("GET", "/a")
        connection.socket.recv(100)
        connection.abort()
    nginx.logged("/a", 10)
    assert nginx.workers() == workers


def test_files_are_closed(site: Site, app: Gateway) -> None:
    """After the answers no worker holds a file open."""
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        for method in ("GET", "HEAD", "POST"):
            nginx.request(method, "/a", headers)
    (worker,) = nginx.workers()

    def none_open() -> bool:
        folder = Path(f"/proc/{worker}/fd")
        return not [n for n in os.listdir(folder) if _leads_to(folder / n, "1.txt")]

    wait_until(none_open, what="the file to be closed")


def _leads_to(link: Path, name: str) -> bool:
    try:
        return os.readlink(link).endswith(name)
    except FileNotFoundError:
        return False


def test_two_workers(site: Site, app: Gateway) -> None:
    """Whichever worker answers."""
    site.variables["WORKERS"] = "2"
    app.answers["/a"] = sendfile(write(site))
    nginx = site.start(SERVER)
    for _ in range(20):
        site.assert_file(nginx.get("/a"), 1, SIZE)
