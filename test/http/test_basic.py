"""A file by its ID: the ID, the key, the way from the record to the file."""

from __future__ import annotations

import pytest

from lib.files import content
from lib.site import Site

FILE = "location /file/ { http_sendfile on; %%DELIVER%% } %%INTERNAL%%"
REDIRECT = "location /file/ { http_sendfile on; } %%INTERNAL%%"


def test_off_by_default(site: Site) -> None:
    """Without http_sendfile nothing is looked up."""
    site.add(297887)
    site.html.write_id("file/297887", 1)
    nginx = site.start("location /file/ { } %%INTERNAL%%")
    site.assert_file(nginx.get("/file/297887"), 1)
    assert nginx.logged("/file/297887").status == "-"


def test_hit(site: Site, delivery: str) -> None:
    """GET /file/297887 is the file of 297887."""
    site.add(297887)
    site.add(297888)
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/297887"), 297887)
    site.assert_file(nginx.get("/file/297888"), 297888)
    assert nginx.logged("/file/297887").status == "HIT"


def test_head_has_the_headers_of_get_and_no_body(site: Site, delivery: str) -> None:
    """HEAD has the headers of GET and no body."""
    site.add(297887, size=1234)
    nginx = site.start(FILE)
    head = nginx.head("/file/297887")
    get = site.assert_file(nginx.get("/file/297887"), 297887, 1234)
    assert (head.status, head.body) == (200, b"")
    assert head.header("Content-Length") == "1234"
    assert head.header("ETag") == get.header("ETag")


def test_miss_is_404(site: Site, delivery: str) -> None:
    """An ID that the store does not know is a 404."""
    site.add(297887)
    nginx = site.start(FILE)
    assert nginx.get("/file/297886").status == 404
    assert nginx.logged("/file/297886").status == "MISS"


def test_the_store_is_asked_each_time(site: Site, delivery: str) -> None:
    """A record that is added, changed or deleted counts from the next request on."""
    nginx = site.start(FILE)
    assert nginx.get("/file/1").status == 404
    site.add(1)
    site.assert_file(nginx.get("/file/1"), 1)
    site.store.put(1, site.add(2))
    site.assert_file(nginx.get("/file/1"), 2)
    site.store.delete(1)
    assert nginx.get("/file/1").status == 404


@pytest.mark.parametrize(
    "segment",
    [
        "",
        "12a",
        "a12",
        "readme.txt",
        "1.0",
        "-1",
        "+1",
        "1_000",
        "0x10",
        "1" * 21,
        "１２",
    ],
)
def test_no_id_declines(site: Site, segment: str) -> None:
    """A last segment that is not 1 to 20 digits leaves the request to nginx."""
    site.store.put(segment or "0", site.add(5))
    site.html.write_id(f"file/{segment or 'index.html'}", 77)
    nginx = site.start(REDIRECT)
    site.assert_file(nginx.get(f"/file/{segment}"), 77)
    entry = nginx.logged(f"/file/{segment}")
    assert (entry.status, entry.source, entry.id, entry.time) == ("-", "-", "", "-")


@pytest.mark.parametrize("segment", ["0", "7", "18446744073709551615", "9" * 20])
def test_id_of_1_to_20_digits(site: Site, segment: str) -> None:
    """The ID is text: it need not fit into any integer."""
    site.add(int(segment))
    nginx = site.start(REDIRECT)
    site.assert_file(nginx.get(f"/file/{segment}"), int(segment))
    assert nginx.logged(f"/file/{segment}").id == segment


def test_leading_zeros_are_part_of_the_id(site: Site) -> None:
    """007 is not 7."""
    site.add(7)
    site.store.put("007", site.add(70))
    nginx = site.start(REDIRECT)
    site.assert_file(nginx.get("/file/7"), 7)
    site.assert_file(nginx.get("/file/007"), 70)
    assert nginx.get("/file/07").status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/file/12?x=5",
        "/file/12?",
        "/file/%31%32",
        "/file//12",
        "/file/a/../12",
        "/file/5/12",
        "http://localhost/file/12",
    ],
)
def test_id_is_of_the_normalized_uri(site: Site, target: str) -> None:
    """The ID is the last segment of $uri, whatever way the URI is written."""
    site.add(5)
    site.add(12)
    nginx = site.start(REDIRECT)
    site.assert_file(nginx.get(target), 12)


def test_directory_of_digits_has_no_id(site: Site) -> None:
    """/file/12/ ends with an empty segment."""
    site.add(12)
    site.html.write_id("file/12/index.html", 77)
    nginx = site.start(REDIRECT)
    site.assert_file(nginx.get("/file/12/"), 77)


def test_id_at_the_servers_top(site: Site, delivery: str) -> None:
    """Set in the server, it serves /297887."""
    site.add(297887)
    nginx = site.start(
        "http_sendfile on; %%DELIVER%% "
        "location ^~ /files/ { internal; http_sendfile off; alias %%FILES%%/; }"
    )
    site.assert_file(nginx.get("/297887"), 297887)


def test_key_of_a_slug(site: Site, delivery: str) -> None:
    """http_sendfile_key takes any part of the request; the ID need not be there."""
    site.store.put("summer-in-kyoto", site.add(297887))
    nginx = site.start(
        "location ~ ^/photo/(?<slug>[^/]+)$ {"
        " http_sendfile on; http_sendfile_key $slug; %%DELIVER%% } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/photo/summer-in-kyoto"), 297887)
    assert nginx.get("/photo/winter").status == 404
    assert nginx.logged("/photo/winter").key == "winter"


def test_key_of_several_parts(site: Site) -> None:
    """Text and variables are joined to one key."""
    site.store.put("photo:297887:large", site.add(297887))
    nginx = site.start(
        "location /file/ { http_sendfile on;"
        " http_sendfile_key photo:$sendfile_id:$arg_size; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/297887?size=large"), 297887)
    assert nginx.get("/file/297887?size=small").status == 404


def test_constant_key(site: Site, delivery: str) -> None:
    """A location of one file names its key."""
    site.store.put("terms", site.add(297887, "legal/terms.pdf"))
    nginx = site.start(
        "location = /terms { http_sendfile on; http_sendfile_key terms; %%DELIVER%% }"
        " %%INTERNAL%%"
    )
    response = site.assert_file(nginx.get("/terms"), 297887)
    assert response.header("Content-Type") == "application/pdf"


def test_key_with_an_empty_id_declines(site: Site) -> None:
    """A key that uses $sendfile_id is none if that is empty."""
    site.store.put("photo:", site.add(297887))
    site.html.write_id("file/list", 77)
    nginx = site.start(
        "location /file/ { http_sendfile on;"
        " http_sendfile_key photo:$sendfile_id; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/list"), 77)
    assert nginx.logged("/file/list").status == "-"


def test_empty_key_declines(site: Site) -> None:
    """Where the key's variables are empty there is nothing to look up."""
    site.store.put("a", site.add(297887))
    site.html.write_id("file/12", 77)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_key $arg_k; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/12"), 77)
    site.assert_file(nginx.get("/file/12?k=a"), 297887)


def test_key_too_long_is_404(site: Site) -> None:
    """250 bytes are a key, 251 are not."""
    site.store.put("k" * 250, site.add(297887))
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_key $arg_k; } %%INTERNAL%%"
    )
    site.assert_file(nginx.get(f"/file/?k={'k' * 250}"), 297887)
    uri = f"/file/?k={'k' * 251}"
    assert nginx.get(uri).status == 404
    assert nginx.logged(uri).status == "INVALID"


def test_default_prefix_is_files(site: Site) -> None:
    """Without prefix and root the redirect goes to /files/ and the path."""
    site.store.put(1, "deep/down/1.dat")
    site.html.write_id("files/deep/down/1.dat", 1)
    nginx = site.start(
        "location /file/ { http_sendfile on; } location ^~ /files/ { internal; }"
    )
    site.assert_file(nginx.get("/file/1"), 1)


@pytest.mark.parametrize("prefix", ["/private", "/private/"])
def test_prefix_ends_with_a_slash(site: Site, prefix: str) -> None:
    """A prefix without a slash at its end gets one."""
    site.add(1)
    nginx = site.start(
        f"location /file/ {{ http_sendfile on; http_sendfile_prefix {prefix}; }}"
        " location ^~ /private/ { internal; alias %%FILES%%/; }"
    )
    site.assert_file(nginx.get("/file/1"), 1)


def test_prefix_with_variables(site: Site) -> None:
    """The prefix may depend on the request."""
    site.files.write_id("one/aa/1.dat", 1)
    site.files.write_id("two/aa/1.dat", 2)
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_prefix /files/$arg_of/; }"
        " %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/1?of=one"), 1)
    site.assert_file(nginx.get("/file/1?of=two"), 2)


def test_root_with_variables(site: Site) -> None:
    """The root may depend on the request."""
    site.files.write_id("one/aa/1.dat", 1)
    site.files.write_id("two/aa/1.dat", 2)
    site.store.put(1, "aa/1.dat")
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root %%FILES%%/$arg_of; }"
    )
    site.assert_file(nginx.get("/file/1?of=one"), 1)
    site.assert_file(nginx.get("/file/1?of=two"), 2)


def test_root_of_variables_must_be_absolute(site: Site) -> None:
    """A root that turns out relative serves nothing, and the log says so."""
    site.add(1)
    site.html.write_id("files/aa/1.dat", 1)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root $arg_root; }"
    )
    site.assert_file(nginx.get(f"/file/1?root={site.files.root}"), 1)
    for root in ("files", "", "../files"):
        response = nginx.get(f"/file/1?root={root}")
        assert response.status >= 500
        assert b"ID:" not in response.body
    assert len(nginx.errors()) == 3


def test_root_with_a_slash_at_its_end(site: Site) -> None:
    """A root may be written either way."""
    site.add(1)
    nginx = site.start(
        "location /file/ { http_sendfile on; http_sendfile_root %%FILES%%/; }"
    )
    site.assert_file(nginx.get("/file/1"), 1)


def test_nearest_level_of_root_and_prefix_wins(site: Site) -> None:
    """A prefix below a root means redirect, and the other way round."""
    site.store.put(1, "aa/1.dat")
    site.files.write_id("aa/1.dat", 1)
    site.html.write_id("private/aa/1.dat", 2)
    nginx = site.start(
        """
        http_sendfile_root %%FILES%%;
        location /direct/ { http_sendfile on; }
        location /redirect/ {
            http_sendfile on;
            http_sendfile_prefix /private/;
            location /redirect/direct/ { http_sendfile_root %%FILES%%; }
        }
        location /off/ { http_sendfile on; http_sendfile_root off; }
        location ^~ /private/ { internal; }
        location ^~ /files/ { internal; alias %%HTML%%/private/; }
        """
    )
    site.assert_file(nginx.get("/direct/1"), 1)
    site.assert_file(nginx.get("/redirect/1"), 2)
    site.assert_file(nginx.get("/redirect/direct/1"), 1)
    site.assert_file(nginx.get("/off/1"), 2)


@pytest.mark.parametrize(
    "path",
    [
        "a b.dat",
        "a?b.dat",
        "a#b.dat",
        "%41.dat",
        "100%.dat",
        "日本語/写真.dat",
        "a+b&c=d;e.dat",
        "...dat",
        "..a/b../c.dat",
        'quo"te.dat',
        "back\\slash.dat",
        "~root/x.dat",
        " ",
        "-",
    ],
)
def test_path_is_taken_as_it_is(site: Site, delivery: str, path: str) -> None:
    """Nothing in a path is decoded or has a meaning but the slash."""
    site.add(297887, path)
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_path_of_any_bytes(site: Site, delivery: str) -> None:
    """A path need not be UTF-8."""
    path = b"\xc6\xfc\xcb\xdc\xff/\x80.dat"
    site.files.write_id(path, 297887)
    site.store.put(297887, path)
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/297887"), 297887)


def test_long_path(site: Site) -> None:
    """A path of thousands of bytes is opened, below a root or by redirect."""
    top = site.files.root
    names = ["d" * 250] * 14 + ["297887.dat"]
    path = "/".join(names)
    assert len(f"{top}/{path}") < 4096
    site.add(297887, path)
    nginx = site.start(
        "location /file/ { http_sendfile on; }"
        " location /direct/ { http_sendfile on; %%DIRECT%% } %%INTERNAL%%"
    )
    site.assert_file(nginx.get("/file/297887"), 297887)
    site.assert_file(nginx.get("/direct/297887"), 297887)


def test_two_servers_two_stores(site: Site) -> None:
    """Each location asks the store of its own level."""
    other = site.store_at("other.lmdb")
    site.store.put(1, site.add(10))
    other.put(1, site.add(20))
    nginx = site.start(
        """
        location /one/ { http_sendfile on; }
        location /two/ {
            http_sendfile on;
            http_sendfile_lookup lmdb:%%DIR%%/other.lmdb;
        }
        %%INTERNAL%%
        """
    )
    site.assert_file(nginx.get("/one/1"), 10)
    site.assert_file(nginx.get("/two/1"), 20)


def test_every_worker_serves(site: Site, delivery: str) -> None:
    """Each worker opens the store for itself."""
    site.variables["WORKERS"] = "3"
    site.add(297887)
    nginx = site.start(
        "listen 127.0.0.1:%%PORT:spread%% reuseport; add_header X-Pid $pid;" + FILE
    )
    seen: set[str | None] = set()
    for _ in range(300):
        response = nginx.get("/file/297887", port="spread")
        seen.add(site.assert_file(response, 297887).header("X-Pid"))
        if len(seen) == 3:
            break
    assert seen == {str(pid) for pid in nginx.workers()}


def test_keep_alive(site: Site, delivery: str) -> None:
    """Hits, misses and other requests share a connection."""
    site.add(1)
    site.add(2, size=100_000)
    site.html.write_id("static", 3)
    nginx = site.start(FILE)
    with nginx.connect() as connection:
        for _ in range(3):
            site.assert_file(connection.request("GET", "/file/1"), 1)
            assert connection.request("GET", "/file/99").status == 404
            site.assert_file(connection.request("GET", "/static"), 3)
            site.assert_file(connection.request("GET", "/file/2"), 2, 100_000)


def test_pipelining(site: Site, delivery: str) -> None:
    """Requests that come in one packet are answered in order."""
    for n in range(1, 9):
        site.add(n)
    nginx = site.start(FILE)
    with nginx.connect() as connection:
        connection.send(
            b"".join(b"GET /file/%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(10))
        )
        assert connection.read_response().status == 404
        for n in range(1, 9):
            site.assert_file(connection.read_response(), n)
        assert connection.read_response().status == 404


def test_http_1_0(site: Site, delivery: str) -> None:
    """HTTP/1.0 gets the file and the end of the connection."""
    site.add(297887)
    nginx = site.start(FILE)
    with nginx.connect() as connection:
        connection.send(b"GET /file/297887 HTTP/1.0\r\n\r\n")
        site.assert_file(connection.read_response(), 297887)
        assert connection.at_end()


def test_request_body_is_discarded(site: Site, delivery: str) -> None:
    """The body of a GET is read and dropped; the connection stays usable."""
    site.add(297887)
    nginx = site.start(FILE)
    with nginx.connect() as connection:
        for size in (10, 300_000):
            response = connection.request("GET", "/file/297887", body=b"G" * size)
            site.assert_file(response, 297887)
        site.assert_file(connection.request("GET", "/file/297887"), 297887)


def test_reload_keeps_serving(site: Site, delivery: str) -> None:
    """The new workers open the store anew."""
    site.add(1)
    nginx = site.start(FILE)
    site.assert_file(nginx.get("/file/1"), 1)
    nginx.reload()
    site.assert_file(nginx.get("/file/1"), 1)
    site.add(2)
    site.assert_file(nginx.get("/file/2"), 2)


def test_content_is_of_its_id_under_concurrency(site: Site, delivery: str) -> None:
    """Many connections at once: no answer is mixed up with another."""
    site.variables["WORKERS"] = "2"
    for n in range(40):
        site.add(n, size=100 + 5000 * n)
    nginx = site.start(FILE)
    connections = [nginx.connect() for _ in range(40)]
    for round_ in range(4):
        for n, connection in enumerate(connections):
            connection.send_request("GET", f"/file/{(n + round_) % 40}")
        for n, connection in enumerate(connections):
            wanted = (n + round_) % 40
            response = connection.read_response()
            assert response.body == content(wanted, 100 + 5000 * wanted)
    for connection in connections:
        connection.close()
