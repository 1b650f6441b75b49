"""make release makes the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import sbom
from cyclonedx.schema import OutputFormat
from cyclonedx.validation import make_schemabased_validator

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"


def release() -> dict[str, bytes]:
    """Run it; return what it made."""
    done = subprocess.run(
        ["sh", "tools/release.sh"],
        cwd=ROOT,
        env={**os.environ, "SIGN": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {f.name: f.read_bytes() for f in RELEASE.iterdir()}


def test_two_builds_are_equal_and_complete() -> None:
    first = release()
    second = release()
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []

    suffixes = {name.rpartition(".")[2] for name in first}
    assert {"gz", "gem", "whl", "md", "SHA256SUMS"} <= suffixes
    assert first["NOTES.md"].startswith(b"- The nginx module")
    listed = {line.split()[1] for line in first["SHA256SUMS"].decode().splitlines()}
    assert listed == first.keys() - {"SHA256SUMS"}

    (source,) = [name for name in first if name.endswith(".tar.gz")]
    with tarfile.open(RELEASE / source) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert {"config", "Makefile", "debian/control", "docs/building.md"} <= names
    assert not any(n.startswith(("build/", ".git/")) for n in names)
    bill(first)


def bill(made: dict[str, bytes]) -> None:
    """The bill of materials is valid, and of what is released."""
    (name,) = [name for name in made if name.endswith(".cdx.json")]
    text = made[name].decode()
    validator = make_schemabased_validator(OutputFormat.JSON, sbom.SCHEMA)
    assert validator.validate_str(text) is None

    document = json.loads(text)
    components = {c["bom-ref"]: c for c in document["components"]}
    files = {c["name"]: c for c in components.values() if c["type"] == "file"}
    assert files.keys() == made.keys() - {name, "NOTES.md", "SHA256SUMS"}
    for file, component in files.items():
        (digest,) = component["hashes"]
        assert digest["content"] == hashlib.sha256(made[file]).hexdigest()

    needs = {d["ref"]: d.get("dependsOn", []) for d in document["dependencies"]}
    (source,) = [ref for ref in needs if ref.endswith(".tar.gz")]
    (wheel,) = [ref for ref in needs if ref.endswith(".whl")]
    linked = {components[ref]["name"] for ref in needs[source]}
    assert linked >= {"mruby", "lmdb", "jansson", "zlib", "sqlite", "openssl"}
    python = {components[ref]["name"] for ref in needs[wheel]}
    assert python == {"lmdb", "pymemcache", "rich", "typer"}
    for ref in needs[source]:
        check_versions(components[ref])


def check_versions(component: dict[str, Any]) -> None:
    """What is in it, or is tested with it, has a version."""
    kind = component["bom-ref"].partition(":")[0]
    if kind == "pypi" or component["name"] == "mruby":
        assert component["version"] in component["purl"]


def test_each_library_of_the_config_script_is_in_the_bill() -> None:
    config = (ROOT / "config").read_text("utf-8")
    flags = set(re.findall(r"-l[a-z0-9]+|libmruby\.a", config))
    listed = {library.flag for library in (*sbom.LIBRARIES, sbom.MRUBY)}
    # the C library's, and the distribution's mruby
    assert flags - {"-lm", "-lmruby"} == listed


def test_each_package_of_python_and_ruby_is_in_the_bill() -> None:
    assert {c.name for c in sbom.python()} == set(sbom.PYTHON)
    assert {c.name for c in sbom.ruby()} == set(sbom.RUBY)


def test_each_module_is_in_the_bill() -> None:
    control = (ROOT / "debian" / "control").read_text("utf-8")
    packages = re.findall(r"^Package: (libnginx-mod-\S+)$", control, re.MULTILINE)
    assert set(packages) == set(sbom.MODULES)
