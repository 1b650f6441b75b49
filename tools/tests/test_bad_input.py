"""What the tools that build and package say when something is missing.

Each ends with a sentence that says what to install or to write.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Clone:
    """The tools in a clone without anything built, and a PATH with stand-ins.

    Args:
        folder: for both.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder / "clone"
        self.bin = folder / "bin"
        self.bin.mkdir()
        shutil.copytree(
            ROOT / "tools", self.top / "tools", ignore=shutil.ignore_patterns("tests")
        )
        shutil.copytree(ROOT / "debian", self.top / "debian")
        cli = Path("cli/src/sendfilectl/__init__.py")
        (self.top / cli).parent.mkdir(parents=True)
        shutil.copy(ROOT / cli, self.top / cli)
        # neither network nor cargo, and nothing is done as root
        self.stand_in("apt-get", "echo 'E: Failed to fetch' >&2; exit 100")
        self.stand_in("cargo", "exit 101")
        self.stand_in("rustc", "exit 101")
        self.stand_in("mmdebstrap", "echo 'E: no network' >&2; exit 1")
        self.stand_in("unshare", "exit 1")
        self.stand_in("id", "echo 0")
        self.space(100_000)

    def stand_in(self, name: str, script: str) -> None:
        """Put a program there."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def space(self, mebibytes: int) -> None:
        """Say how much space there is left on each file system."""
        self.stand_in("df", f"echo; echo d 1 1 {mebibytes * 1024} 1% /")

    def run(
        self, tool: str, *arguments: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool."""
        return subprocess.run(
            [self.top / "tools" / tool, *arguments],
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "DEBIAN_MIRROR": "http://127.0.0.1:9/debian",
                "DEBIAN_SECURITY": "http://127.0.0.1:9/debian-security",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def fails(self, tool: str, *arguments: str, **environment: str) -> str:
        """Run a tool that is to fail, and return what it has said last."""
        done = self.run(tool, *arguments, **environment)
        assert done.returncode == 1, done.stdout
        last = done.stdout.strip().splitlines()[-1]
        assert last.startswith(f"{tool}: error: "), done.stdout
        return last


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone without a network."""
    return Clone(tmp_path)


def test_source_without_a_network(clone: Clone) -> None:
    said = clone.fails("nginx-src.sh", "1.20.2")
    assert "the source of nginx 1.20.2 cannot be had: put nginx-1.20.2.tar.gz" in said
    assert str(clone.top / "build/tarballs") in said


def test_archives_are_asked_anew_for_another_mirror(clone: Clone) -> None:
    asked = clone.top / "asked"
    clone.stand_in("apt-get", f'echo "$@" >> {asked}')
    clone.stand_in("apt-cache", "")
    for mirrors, times in ({}, 1), ({}, 1), ({"UBUNTU_MIRROR": "file:/ubuntu"}, 2):
        clone.fails("nginx-src.sh", "1.20.2", **mirrors)
        assert asked.read_text().splitlines().count("update") == times


def test_revision_that_the_mirror_has_no_more(clone: Clone) -> None:
    source = clone.top.parent / "nginx-1.20.2/src/core"
    source.mkdir(parents=True)
    (source / "nginx.h").write_text('#define NGINX_VERSION      "1.20.2"\n')
    tarball = clone.top.parent / "nginx_1.20.2.orig.tar.gz"
    subprocess.run(
        ["tar", "-C", tarball.parent, "-czf", tarball, "nginx-1.20.2"], check=True
    )
    revisions = "Version: 1.20.2-1\\nVersion: 1.20.2-2\\n"
    clone.stand_in("apt-cache", f"printf '{revisions}'")
    # of the older one the tarball is left, but not all
    clone.stand_in(
        "apt-get",
        f'case "$*" in *nginx=1.20.2-1) cp {tarball} .; exit 100;;\n'
        "update) ;;\n*) exit 100;; esac",
    )
    done = clone.run("nginx-src.sh", "1.20.2")
    assert done.returncode == 0, done.stdout
    assert (clone.top / "build/nginx-src/1.20.2/src/core/nginx.h").is_file()


@pytest.mark.parametrize("version", ["", "stable", "1.28"])
def test_module_for_no_version(clone: Clone, version: str) -> None:
    said = clone.fails("module.sh", NGINX_VERSION=version)
    assert "write that which `nginx -v` prints, such as NGINX_VERSION=1.28.3" in said


def test_module_for_an_nginx_of_another_version(clone: Clone) -> None:
    clone.stand_in("other", "echo nginx version: nginx/1.26.3 >&2")
    other = str(clone.bin / "other")
    said = clone.fails("module.sh", NGINX_VERSION="1.28.3", NGINX_BIN=other)
    assert "is nginx 1.26.3, not 1.28.3, and would refuse the module" in said
    assert f"make module NGINX_VERSION=1.26.3 NGINX={other}" in said


def test_module_for_a_program_that_is_no_nginx(clone: Clone) -> None:
    clone.stand_in("other", "echo something else")
    other = str(clone.bin / "other")
    said = clone.fails("module.sh", NGINX_VERSION="1.28.3", NGINX_BIN=other)
    assert "is nginx of no known version, not 1.28.3" in said


@pytest.mark.parametrize("tool", ["deb.sh", "clean-root-test.sh"])
def test_suite_that_is_not_known(clone: Clone, tool: str) -> None:
    said = clone.fails(tool, SUITE="buster")
    assert "SUITE=buster is not known: there are bookworm" in said


def test_clean_root_without_space(clone: Clone) -> None:
    clone.space(300)
    said = clone.fails("clean-root-test.sh")
    assert f"{clone.top}/build has 300 MiB left, and this needs 4096 MiB" in said


def test_clean_root_without_a_network(clone: Clone) -> None:
    said = clone.fails("clean-root-test.sh")
    assert "without a network put a mirror into DEBIAN_MIRROR=" in said
    assert not list((clone.top / "build/roots").glob("*.tar"))


def test_clean_root_without_root(clone: Clone) -> None:
    clone.stand_in("id", "echo 1000")
    assert "run it as root or with sudo" in clone.fails("clean-root-test.sh")


def test_packages_that_were_not_built(clone: Clone) -> None:
    said = clone.fails("deb-test.sh", SUITE="trixie")
    assert "make deb SUITE=trixie" in said


@pytest.mark.parametrize("command", ["update", "install"])
def test_packages_without_a_network(clone: Clone, command: str) -> None:
    """What apt says is followed by what to do."""
    clone.stand_in(
        "apt-get", f'case "$*" in *{command}*) echo E: Failed; exit 100 ;; esac'
    )
    clone.stand_in("dpkg-query", "exit 1")
    clone.stand_in("apt-cache", "exit 0")
    # nothing of the system's is written, though it may be root that tests
    copy = clone.top / "tools/deps.sh"
    text = copy.read_text()
    policy = clone.bin / "policy-rc.d"
    assert text.count("policy=/usr/sbin/policy-rc.d") == 1
    copy.write_text(text.replace("/usr/sbin/policy-rc.d", str(policy)))
    said = clone.fails("deps.sh", "gem")
    assert "see above" in said and "try again" in said
    assert not policy.exists()
