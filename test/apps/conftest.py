"""Fixtures: the applications, each started once, and nginx in front of one."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from harness import catalog
from harness.app import Running
from harness.servers import KINDS, Kind
from harness.start import Front, start
from lib.files import Files
from lib.site import Site

pytest_plugins = ["lib.site_fixtures"]


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(
        prefix="nsf-apps-", ignore_cleanup_errors=True
    ) as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def app_files(workshop: Path) -> Files:
    """The files that the applications send."""
    return catalog.make(workshop / "files")


def _param(kind: Kind) -> object:
    # pytest-xdist gives an application's tests to one of its processes
    return pytest.param(kind, id=kind.name, marks=pytest.mark.xdist_group(kind.name))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with each kind of application, or with those it names.

    That is by ``@pytest.mark.kinds(name, ...)``.
    """
    if "kind" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("kinds")
        kinds = [k for k in KINDS if mark is None or k.name in mark.args]
        assert mark is None or len(kinds) == len(mark.args), mark
        metafunc.parametrize(
            "kind", [_param(k) for k in kinds], indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of application, one after the other."""
    found: Kind = request.param
    return found


@pytest.fixture(scope="session")
def app(kind: Kind, workshop: Path, app_files: Files) -> Iterator[Running]:
    """An application that runs."""
    running = start(kind, workshop, app_files)
    yield running
    running.stop()


@pytest.fixture
def front(kind: Kind, app: Running, site: Site) -> Front:
    """nginx in front of it, not yet started."""
    return Front(kind, app, site)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the application's server said with a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            if isinstance(value, Running):
                report.sections.append(("the application's log", value.log()))
    return report
