"""What Debian's packages hold is what the build makes and make install installs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTROL = (ROOT / "debian" / "control").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "debian" / "changelog").read_text(encoding="utf-8")


def packages() -> list[str]:
    """Return the names of the packages of debian/control."""
    return re.findall(r"^Package: (\S+)$", CONTROL, re.MULTILINE)


def packaged() -> set[str]:
    """Return the names after libnginx-mod-, each a module."""
    prefix = "libnginx-mod-"
    return {p.removeprefix(prefix) for p in packages() if p.startswith(prefix)}


def test_each_module_of_the_config_script_has_a_package() -> None:
    config = (ROOT / "config").read_text(encoding="utf-8")
    declared = {"ngx_http_sendfile_module"} | set(
        re.findall(r"^ *ngx_module_name=(ngx_\w+)$", config, re.MULTILINE)
    )
    # linked into that of the first, which has several
    declared.discard("ngx_http_sendfile_filter_module")
    names = {
        m.removeprefix("ngx_").removesuffix("_module").replace("_", "-")
        for m in declared
    }
    assert names == packaged()


def test_each_module_that_the_build_made_has_a_package() -> None:
    made = {
        f.name.removeprefix("ngx_").removesuffix("_module.so").replace("_", "-")
        for f in (ROOT / "build").glob("ngx_http_sendfile*_module.so")
    }
    assert made <= packaged()


def test_make_install_and_the_packages_have_the_same_modules() -> None:
    install = (ROOT / "tools" / "install.sh").read_text(encoding="utf-8")
    listed = re.search(r'^all="([^"]*)"$', install, re.MULTILINE)
    assert listed
    assert set(listed[1].split()) == packaged()


def test_sendfilectl_asks_for_the_same_versions_as_its_wheel() -> None:
    project = (ROOT / "cli/pyproject.toml").read_text(encoding="utf-8")
    rules = (ROOT / "debian/rules").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*)\]$", project, re.MULTILINE)
    assert listed
    wheel = dict(re.findall(r'"(\w+)>=([\d.]+)"', listed[1]))
    packages = dict(re.findall(r"python3-(\w+) \(>= ([\d.]+)\)", CONTROL + rules))
    assert wheel == packages


def test_the_version_is_one() -> None:
    cli = (ROOT / "cli/src/sendfilectl/__init__.py").read_text(encoding="utf-8")
    gem = (ROOT / "gem/lib/ngx_sendfile/version.rb").read_text(encoding="utf-8")
    debian = re.match(r"ngx-sendfile \((\S+)-1\) ", CHANGELOG)
    assert debian
    assert f'__version__ = "{debian[1]}"' in cli
    assert f"VERSION = '{debian[1]}'" in gem
