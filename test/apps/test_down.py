"""An application that is stopped and started again, as by a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.catalog import DOCUMENTS, PLAIN
from harness.servers import Kind
from harness.start import Front, assert_file, start
from lib.files import Files
from lib.nginx import Nginx
from lib.site import Site
from lib.wait import wait_until

pytestmark = pytest.mark.kinds("node")


@pytest.fixture
def own(kind: Kind, workshop: Path, app_files: Files, site: Site) -> Iterator[Front]:
    """nginx before an application that no other test uses."""
    running = start(kind, workshop, app_files)
    yield Front(kind, running, site)
    running.stop()


def learning(front: Front, more: str = "") -> Nginx:
    """Start nginx so that it learns."""
    return front.start(
        http="http_sendfile_cache_zone learned:1m;",
        location="http_sendfile_cache learned; http_sendfile_learn on;"
        f" {front.accept()} {more}",
    )


def test_what_is_learned_outlives_the_application(own: Front) -> None:
    """What is not learned is a 502 meanwhile."""
    nginx = learning(own)
    uri = f"/public/{PLAIN.id}"
    assert_file(nginx.get(uri), PLAIN)
    own.app.stop()
    assert_file(nginx.get(uri), PLAIN)
    assert nginx.logged(uri, 2).source == "learned"
    assert nginx.get(f"/public/{DOCUMENTS[1].id}").status == 502
    own.app.restart()
    assert_file(nginx.get(f"/public/{DOCUMENTS[1].id}"), DOCUMENTS[1])


def test_old_answers_serve_until_it_is_back(own: Front) -> None:
    """Also those whose time is over; then it is asked anew."""
    nginx = learning(own)
    uri = f"/brief/{PLAIN.id}"
    assert_file(nginx.get(uri), PLAIN)
    own.app.stop()

    def status() -> str:
        assert_file(nginx.get(uri), PLAIN)
        return wait_until(lambda: nginx.access_entries(uri))[-1].status

    wait_until(lambda: status() == "STALE", what="an answer whose time is over")
    assert own.asked() == 1
    own.app.restart()

    def asked() -> bool:
        assert_file(nginx.get(uri), PLAIN)
        return own.asked() > 1

    wait_until(asked, what="the application to be asked")


def test_old_answers_end_without_use_stale(own: Front) -> None:
    """If the configuration says so, an answer is used for its time only."""
    nginx = learning(own, "http_sendfile_cache_use_stale off;")
    uri = f"/brief/{PLAIN.id}"
    assert_file(nginx.get(uri), PLAIN)
    own.app.stop()
    wait_until(lambda: nginx.get(uri).status == 502, what="the answer's end")
