"""The systems that files are compared with: each serves them and is ended."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.contestants import Contestant, apache, applications, caddy, h2o, varnish
from bench.contestants.nginx import Nginx, NginxProgram
from bench.contestants.stack import Parts, Stack
from bench.dataset import FileSet, build_files
from bench.load import Wrk
from bench.process import wait_for
from bench.tables.parts import static_server
from bench.tests.fakes import CORES
from bench.tests.reach import let_all_reach
from bench.verify import verify
from bench.workload import PathWorkload

_CORE = CORES[0]


def _program() -> NginxProgram:
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found is not None
    return NginxProgram(Path(found), None, CORES[0], CORES[-1])


def _apache(files: FileSet) -> Contestant:
    return apache.apache(
        "apache",
        _CORE,
        lambda address, directory: apache.files(files.directory),
        modules=("alias",),
    )


def _varnish(files: FileSet) -> Contestant:
    def parts() -> Parts:
        back = Nginx("origin", _program(), static_server(files))
        return varnish.varnish("varnish", _CORE, lambda: back.address, "8m"), [back]

    return Stack("varnish", parts)


def _sinatra(files: FileSet) -> Contestant:
    def parts() -> Parts:
        back = applications.sinatra("unicorn", _CORE, files.directory)

        def server() -> str:
            host, port = back.address.host, back.address.port
            return f"location / {{\nproxy_pass http://{host}:{port};\n}}\n"

        return Nginx("front", _program(), server), [back]

    return Stack("sinatra", parts)


_SYSTEMS: dict[str, tuple[Callable[[], str | None], Callable[[FileSet], Contestant]]]
_SYSTEMS = {
    "apache": (lambda: apache.missing("alias"), _apache),
    "caddy": (caddy.missing, lambda f: caddy.caddy("caddy", _CORE, f.directory)),
    "h2o": (h2o.missing, lambda f: h2o.h2o("h2o", _CORE, f.directory)),
    "node": (
        applications.node_missing,
        lambda f: applications.node("node", _CORE, f.directory),
    ),
    "sinatra": (applications.sinatra_missing, _sinatra),
    "varnish": (varnish.missing, _varnish),
}


@pytest.mark.parametrize("name", _SYSTEMS)
def test_system_serves_files_on_its_core_and_is_ended(
    name: str, tmp_path: Path
) -> None:
    let_all_reach(tmp_path)
    files = build_files(tmp_path / "data", 10)
    missing, make = _SYSTEMS[name]
    assert missing() is None
    server = make(files)
    directory = tmp_path / "own"
    directory.mkdir()
    server.configure(directory)
    server.start()
    try:
        pids = server.pids()
        workload = PathWorkload(files)
        verify(server.address, workload, range(10), "test")
        result = Wrk(CORES[-1], 4).run(server.address, [workload.url(3)], 1)
        assert server.pids() == pids
        assert all(os.sched_getaffinity(pid) == {_CORE} for pid in pids)
        assert len(server.configuration()) > 100
    finally:
        server.stop()
    assert not result.errors
    assert result.requests > 20
    assert server.complaints() == []
    assert wait_for(lambda: not any(map(_runs, pids)), 10)


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
