"""Keep-alive towards Starman, which speaks HTTP/1.0 to who speaks it."""

from __future__ import annotations

import pytest

from harness.catalog import PLAIN
from harness.start import Front, assert_file
from lib.nginx import Nginx

ROUNDS = 6

pytestmark = pytest.mark.kinds("psgi-starman")


def start(front: Front, version: str, upstream: str, location: str = "") -> Nginx:
    """Start nginx, with connections to Starman that are kept.

    Args:
        front: of Starman.
        version: of HTTP, to speak to it.
        upstream: directives for the upstream block.
        location: directives for the location.
    """
    front.app.forget()
    front.site.variables["APP_FILES"] = str(front.app.place.files)
    connection = "keep-alive" if version == "1.0" else '""'
    return front.site.start(
        f"""location / {{
            {location}
            proxy_pass          http://starman;
            proxy_http_version  {version};
            proxy_set_header    Connection {connection};
        }}""",
        http=f"""upstream starman {{
            server     127.0.0.1:{front.app.place.port};
            keepalive  4;
            {upstream}
        }}""",
    )


def ask(front: Front, nginx: Nginx, target: str, status: int) -> list[str]:
    """Ask some times, and return which ports Starman saw."""
    for _ in range(ROUNDS):
        answer = nginx.get(target)
        assert answer.status == status, answer
    peers = front.app.peers()
    assert len(peers) == ROUNDS
    return peers


@pytest.mark.parametrize("target", ["/files/404", "/nothing"])
@pytest.mark.parametrize(
    ("version", "upstream"), [("1.0", "http10_keepalive on;"), ("1.1", "")]
)
def test_connection_is_kept(
    front: Front, version: str, upstream: str, target: str
) -> None:
    """All requests come on one connection."""
    nginx = start(front, version, upstream)
    assert len(set(ask(front, nginx, target, 404))) == 1


@pytest.mark.parametrize("upstream", ["http10_keepalive off;", ""])
def test_http10_is_not_kept_by_nginx_itself(front: Front, upstream: str) -> None:
    """Without the directive each request has a connection of its own."""
    nginx = start(front, "1.0", upstream)
    assert len(set(ask(front, nginx, "/files/404", 404))) == ROUNDS


def test_answers_of_all_kinds_on_one_connection(front: Front) -> None:
    """HTTP/1.0 keep-alive, with bodies and without, HEAD and POST."""
    nginx = start(front, "1.0", "http10_keepalive on;")
    for _ in range(ROUNDS):
        assert nginx.get("/files/404").text == "no such file\n"
        assert nginx.get("/nothing").body == b""
        assert nginx.head("/files/404").status == 404
        assert nginx.post("/files/404", b"a body").text == "no such file\n"
    peers = front.app.peers()
    assert len(peers) == 4 * ROUNDS
    assert len(set(peers)) == 1


def test_connection_is_kept_after_a_file(front: Front) -> None:
    """An answer that names a file has no body, and leaves the connection clean."""
    nginx = start(front, "1.0", "http10_keepalive on;", front.accept())
    for _ in range(ROUNDS):
        assert_file(nginx.get(f"/files/{PLAIN.id}"), PLAIN)
    assert len(set(front.app.peers())) == 1
