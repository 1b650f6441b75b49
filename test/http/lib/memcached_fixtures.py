"""Fixtures of the tests with memcached: a plugin, see ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .fake_memcached import Fake
from .memcached import Memcached
from .servers import Servers
from .site import Site


@pytest.fixture
def servers(site: Site) -> Iterator[Servers]:
    """Makes memcached servers for the site; see lib/servers.py."""
    site.variables.setdefault("DELIVER", "")
    made = Servers(site)
    try:
        yield made
        # nginx first: it has to close its connections by itself
        if site._nginx is not None:
            site._nginx.stop()
    finally:
        made.close()


@pytest.fixture
def memcached(servers: Servers) -> Memcached:
    """A real memcached."""
    return servers.memcached()


@pytest.fixture
def fake(servers: Servers) -> Fake:
    """A scripted memcached that answers as a real one does."""
    return servers.fake()
