"""deps.sh asks for what is missing, and for nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = [
    "awk",
    "cat",
    "dirname",
    "env",
    "find",
    "grep",
    "head",
    "nproc",
    "sed",
    "sh",
    "sort",
    "tr",
    "uniq",
]


class Machine:
    """A PATH of real tools and of stand-ins for apt, dpkg and id.

    Args:
        folder: for the stand-ins.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        for name in TOOLS:
            found = shutil.which(name)
            assert found, name
            (folder / name).symlink_to(found)
        self.stand_in("id", "echo 1000")
        self.stand_in("apt-cache", "exit 0")
        self.installed("")

    def stand_in(self, name: str, script: str) -> None:
        """Put a program there, which also logs how it was called."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{script}\n')
        path.chmod(0o755)

    def installed(self, pattern: str) -> None:
        """Say which packages dpkg knows: a pattern of the shell's case."""
        self.stand_in(
            "dpkg-query",
            f"for p; do :; done\ncase $p in {pattern or 'none'}) "
            "echo install ok installed ;; *) exit 1 ;; esac",
        )

    def deps(self, *groups: str) -> subprocess.CompletedProcess[str]:
        """Run deps.sh."""
        return subprocess.run(
            ["/bin/sh", str(ROOT / "tools/deps.sh"), *groups],
            env={"PATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self, name: str) -> list[str]:
        """Return how a stand-in was called."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A user's machine without root, without any package."""
    return Machine(tmp_path)


def test_all_there_needs_neither_root_nor_network(machine: Machine) -> None:
    machine.installed("*")
    done = machine.deps("build", "run", "lint", "bench")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls("apt-get") == []


def test_without_sudo_it_says_what_to_run(machine: Machine) -> None:
    machine.installed("gcc|make|libc6-dev|nginx*|liblmdb-dev|zlib1g-dev")
    done = machine.deps("module")
    assert done.returncode == 1
    assert "run as root: apt-get install" in done.stderr
    assert "libjansson-dev" in done.stderr
    assert "liblmdb-dev" not in done.stderr


def test_sudo_is_used(machine: Machine) -> None:
    machine.installed("gcc|make|libc6-dev|nginx*|liblmdb-dev|zlib1g-dev")
    machine.stand_in("sudo", "exit 0")
    done = machine.deps("module")
    assert done.returncode == 0, done.stderr
    calls = machine.calls("sudo")
    assert calls[0] == "sudo apt-get -q update"
    assert calls[1].endswith("deps.sh --install libjansson-dev")


def test_headers_where_there_is_no_nginx_dev(machine: Machine) -> None:
    machine.stand_in("apt-cache", 'case "$*" in *nginx-dev) exit 1 ;; esac')
    done = machine.deps("build")
    assert "dpkg-dev" in done.stderr and "libpcre3-dev" in done.stderr
    assert "nginx-dev" not in done.stderr


def test_another_source_needs_no_nginx_packages(machine: Machine) -> None:
    machine.installed("gcc|make|libc6-dev|liblmdb-dev|libjansson-dev|zlib1g-dev")
    env = {"PATH": str(machine.folder), "NGINX_SRC": "/src/nginx"}
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "tools/deps.sh"), "module"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ruby_is_not_for_the_demonstration(machine: Machine) -> None:
    assert {"cargo-web", "ruby"} <= set(machine.deps("build").stderr.split())
    assert not {"cargo-web", "ruby"} & set(machine.deps("run").stderr.split())


def test_old_cargo_is_not_enough(machine: Machine) -> None:
    machine.installed("*-dev|gcc|make|python3|ca-certificates|curl|ruby|rustc")
    machine.stand_in("rustc", "exit 0")
    machine.stand_in("cargo", "echo cargo 1.66.0 '(abc 2023-01-01)'")
    done = machine.deps("asan")
    assert done.returncode == 1
    assert "cargo-web rustc-web" in done.stderr
    machine.stand_in("cargo", "echo cargo 1.85.0 '(abc 2025-01-01)'")
    assert machine.deps("asan").returncode == 0


def test_bench_brings_its_contestants_and_tools(machine: Machine) -> None:
    done = machine.deps("bench")
    assert done.returncode == 1
    wanted = done.stderr.split("--no-install-recommends ")[1].split()
    contestants = {"lighttpd", "memcached", "libnginx-mod-http-lua"}
    assert contestants <= set(wanted)
    assert {"wrk", "openssl", "gcc", "linux-perf"} <= set(wanted)
    systems = {"apache2", "ruby-rails", "puma", "starman", "apache2-utils"}
    assert systems <= set(wanted)


def test_bench_does_without_systems_that_the_distribution_lacks(
    machine: Machine,
) -> None:
    machine.stand_in("apt-cache", 'case "$*" in *h2o|*starman) exit 1 ;; esac')
    done = machine.deps("bench")
    wanted = done.stderr.split("--no-install-recommends ")[1].split()
    assert {"wrk", "apache2"} <= set(wanted)
    assert not {"h2o", "starman"} & set(wanted)


def test_perf_of_another_package_will_do(machine: Machine) -> None:
    machine.stand_in("perf", "exit 0")
    assert "linux-perf" not in machine.deps("bench").stderr


def test_bench_does_without_perf_where_there_is_no_such_package(
    machine: Machine,
) -> None:
    machine.stand_in("apt-cache", 'case "$*" in *linux-perf) exit 1 ;; esac')
    assert "linux-perf" not in machine.deps("bench").stderr


def test_php_fpm_is_asked_for_by_the_name_of_its_version(machine: Machine) -> None:
    machine.stand_in("find", "exit 0")
    machine.stand_in(
        "apt-cache",
        'case "$*" in "depends php-fpm") echo "php-fpm"; echo "  Depends: php9.1-fpm" ;; esac',
    )
    wanted = machine.deps("apps").stderr.split()
    assert "php9.1-fpm" in wanted and "php-fpm" not in wanted


def test_services_are_asked_for_by_name(machine: Machine) -> None:
    """What another package would bring is not kept from starting."""
    wanted = machine.deps("apps").stderr.split()
    assert {"apache2", "unicorn"} <= set(wanted)


def test_php_fpm_of_any_version_will_do(machine: Machine) -> None:
    machine.stand_in("find", "echo /usr/sbin/php-fpm7.4")
    assert "fpm" not in machine.deps("apps").stderr


def test_other_distributions_are_left_alone(machine: Machine) -> None:
    (machine.folder / "dpkg-query").unlink()
    done = machine.deps("build")
    assert done.returncode == 0
    assert "no Debian or Ubuntu" in done.stdout


def test_unknown_group(machine: Machine) -> None:
    done = machine.deps("nonsense")
    assert "no group nonsense" in done.stderr
    assert done.returncode == 1
