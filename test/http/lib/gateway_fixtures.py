"""Fixtures of the tests with an application behind nginx: a plugin."""

from __future__ import annotations

import pytest

from .accept import use_gateway
from .gateway import PROTOCOLS, Gateway
from .site import Site


@pytest.fixture(params=PROTOCOLS)
def app(site: Site, request: pytest.FixtureRequest) -> Gateway:
    """An application, in each of the four protocols."""
    return use_gateway(site, request.param)


@pytest.fixture
def web(site: Site) -> Gateway:
    """An application that speaks HTTP."""
    return use_gateway(site)
