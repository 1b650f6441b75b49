"""Fixtures: ``site`` is what nearly every test takes; a plugin of pytest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .nginx import Flavour, flavour_from_environment
from .site import Site
from .tls import Certificate, make_certificate

LOG_TAIL_LINES = 80


def pytest_report_header() -> list[str]:
    """Say which nginx is under test."""
    flavour = flavour_from_environment()
    return [f"nginx under test: {flavour.name}, {flavour.binary}, {flavour.module}"]


@pytest.fixture(scope="session")
def flavour() -> Flavour:
    """The nginx under test."""
    flavour = flavour_from_environment()
    for path in (flavour.binary, flavour.module):
        if path is not None and not path.exists():
            pytest.exit(f"{path} is missing: run make build", returncode=2)
    return flavour


def _run(site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    failed = request.session.testsfailed
    try:
        yield site
    finally:
        site.close()
    if request.session.testsfailed == failed and not os.environ.get("NGX_KEEP"):
        site.remove()


@pytest.fixture
def site(flavour: Flavour, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Files, a store, an application and nginx; see lib/site.py.

    Afterwards nginx is stopped gracefully, and the test fails if nginx or a
    sanitizer complained. The directory stays if a test failed or NGX_KEEP is
    set.
    """
    yield from _run(Site(flavour), request)


@pytest.fixture
def plain_site(flavour: Flavour, request: pytest.FixtureRequest) -> Iterator[Site]:
    """As ``site``, but without the module."""
    yield from _run(Site(flavour, module=False), request)


@pytest.fixture(params=["redirect", "direct"])
def delivery(site: Site, request: pytest.FixtureRequest) -> str:
    """Run the test twice: %%DELIVER%% is nothing, then a root for FILES."""
    mode: str = request.param
    site.variables["DELIVER"] = "%%DIRECT%%" if mode == "direct" else ""
    return mode


@pytest.fixture(scope="session")
def certificate() -> Iterator[Certificate]:
    """A certificate for localhost."""
    with tempfile.TemporaryDirectory(prefix="nsf-tls-") as directory:
        yield make_certificate(Path(directory))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show nginx's configuration and log with a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            if isinstance(value, Site):
                for name in ("nginx.conf", "logs/error.log"):
                    _add_section(report, value.directory / name)
    return report


def _add_section(report: pytest.TestReport, path: Path) -> None:
    if path.exists():
        lines = path.read_text(errors="replace").splitlines()
        report.sections.append((str(path), "\n".join(lines[-LOG_TAIL_LINES:])))
