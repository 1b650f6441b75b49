"""Write the software bill of materials of a release: CycloneDX 1.6, as JSON.

usage: sbom.py RELEASE OUT

RELEASE is the folder of the files that are released, which are listed with their
SHA-256; OUT is the file to write. What the modules are linked with, and the
Python and Ruby packages that sendfilectl and the gem ask for, are listed once;
the version of a library of Debian is that of the root in which the packages of a
suite were built (their .buildinfo), and of what is not ours to choose there is
none. What those need themselves is not listed. SOURCE_DATE_EPOCH is the
document's time. The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
DEBS = ROOT / "build" / "deb"
NAME = "ngx_sendfile"
SCHEMA = SchemaVersion.V1_6


@dataclass(frozen=True)
class Library:
    """What a module is linked with.

    Args:
        name: as its authors call it.
        flag: the linker's, in the config script; of mruby the archive's name.
        licence: the SPDX identifier.
        packages: Debian's that have it, of whatever release.
    """

    name: str
    flag: str
    licence: str
    packages: tuple[str, ...] = ()


MRUBY = Library("mruby", "libmruby.a", "MIT")
LIBRARIES = (
    Library("lmdb", "-llmdb", "OLDAP-2.8", ("liblmdb0",)),
    Library("jansson", "-ljansson", "MIT", ("libjansson4",)),
    Library("zlib", "-lz", "Zlib", ("zlib1g",)),
    Library("sqlite", "-lsqlite3", "blessing", ("libsqlite3-0",)),
    Library("openssl", "-lcrypto", "Apache-2.0", ("libssl3", "libssl3t64")),
)
# by Debian's package of the module
MODULES = {
    "libnginx-mod-http-sendfile": ("lmdb", "jansson", "zlib"),
    "libnginx-mod-http-sendfile-mruby": ("mruby",),
    "libnginx-mod-http-sendfile-signed": ("openssl",),
    "libnginx-mod-http-sendfile-sqlite": ("sqlite",),
}
PYTHON = {
    "lmdb": "OLDAP-2.8",
    "pymemcache": "Apache-2.0",
    "rich": "MIT",
    "typer": "MIT",
}
RUBY = {"dalli": "MIT", "logger": "BSD-2-Clause"}


def text(path: str) -> str:
    """Read a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def found(pattern: str, path: str) -> str:
    """Return what the first group of a pattern matches in a file.

    Raises:
        SystemExit: it matches nowhere.
    """
    match = re.search(pattern, text(path), re.MULTILINE)
    if match is None:
        sys.exit(f"sbom.py: {path} has no {pattern!r}")
    return match[1]


def component(
    name: str,
    licence: str,
    purl: PackageURL,
    version: str | None = None,
    **properties: str,
) -> Component:
    """Make a library's component; properties are those of this project."""
    where = purl.qualifiers
    distro = where.get("distro", "") if isinstance(where, dict) else ""
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=":".join(part for part in (purl.type, distro, name) if part),
        licenses=[DisjunctiveLicense(id=licence)],
        purl=purl,
        scope=ComponentScope.REQUIRED,
        properties=[
            Property(name=f"{NAME}:{k}", value=v) for k, v in properties.items()
        ],
    )


def of_debian(suite: str) -> dict[str, str]:
    """Return the versions in the root that a suite's packages were built in."""
    versions: dict[str, str] = {}
    for file in (DEBS / suite).glob("*.buildinfo"):
        versions |= re.findall(
            r"^ (\S+?)(?::\w+)? \(= ([^)]+)\)",
            file.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    return versions


def libraries(suite: str) -> dict[str, Component]:
    """Return what the modules of a suite are linked with, by name.

    Args:
        suite: of Debian; empty for the source, which takes what there is.
    """
    version = found(r"^crate_version='=(.*)'$", "tools/mruby.sh")
    purl = PackageURL("generic", name=MRUBY.name, version=version)
    made = {
        MRUBY.name: component(MRUBY.name, MRUBY.licence, purl, version, linked="static")
    }
    installed = of_debian(suite) if suite else {}
    for library in LIBRARIES:
        package = next((p for p in library.packages if p in installed), None)
        if package is None:
            purl = PackageURL("generic", name=library.name)
        else:
            where = {"distro": suite}
            purl = PackageURL("deb", "debian", package, installed[package], where)
        made[library.name] = component(
            library.name, library.licence, purl, purl.version, linked="dynamic"
        )
    return made


def python() -> Iterator[Component]:
    """Give what sendfilectl asks for, in the versions it is tested with."""
    asked = found(r"^dependencies = \[(.*)\]$", "cli/pyproject.toml")
    for name, required in re.findall(r'"([\w-]+)([^"]*)"', asked):
        version = found(rf"^{name}==(\S+)$", "tools/requirements.txt")
        purl = PackageURL("pypi", name=name, version=version)
        yield component(name, PYTHON[name], purl, version, requires=required)


def ruby() -> Iterator[Component]:
    """Give what the gem asks for."""
    gemspec = text("gem/ngx_sendfile.gemspec")
    for name, required in re.findall(
        r"^ *spec\.add_dependency '(\w+)', (.*)$", gemspec, re.MULTILINE
    ):
        purl = PackageURL("gem", name=name)
        wanted = required.replace("'", "")
        yield component(name, RUBY[name], purl, requires=wanted)


def carried() -> Component:
    """Return the typer that the package sendfilectl of Debian 12 has in it."""
    version = found(r"^typer=(.*)$", "tools/deb.sh")
    purl = PackageURL("pypi", name="typer", version=version)
    made = component("typer", PYTHON["typer"], purl, version, carried="bookworm")
    made.bom_ref.value = "pypi:bookworm:typer"
    return made


def suite_of(name: str) -> str:
    """Return the suite that a Debian package is for, by its version."""
    tags = {"~deb12u": "bookworm", "~deb13u": "trixie"}
    return next((suite for tag, suite in tags.items() if tag in name), "")


def needed(name: str) -> list[Component]:
    """Return what a file that is released needs or has in it.

    A package's own dependencies on Debian's are in the file's properties.
    """
    suite = suite_of(name)
    package = name.partition("_")[0]
    linked = libraries(suite)
    if package in MODULES:
        return [linked[library] for library in MODULES[package]]
    if name.endswith(".tar.gz"):
        return [*linked.values(), *python(), *ruby()]
    if name.endswith(".whl"):
        return list(python())
    if name.endswith(".gem"):
        return list(ruby())
    if package == "sendfilectl" and suite == "bookworm":
        return [carried()]
    return []


def file_component(path: Path) -> Component:
    """Make the component of a file that is released."""
    properties = []
    if path.suffix == ".deb":
        depends = subprocess.run(
            ["dpkg-deb", "-f", str(path), "Depends"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        properties = [Property(name=f"{NAME}:depends", value=depends)]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(
        name=path.name,
        type=ComponentType.FILE,
        bom_ref=f"file:{path.name}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        properties=properties,
    )


def bom(release: Path) -> Bom:
    """Make the document of the files in a folder."""
    version = found(r'^__version__ = "(.*)"$', "cli/src/sendfilectl/__init__.py")
    whole = Component(
        name=NAME,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=NAME,
        licenses=[DisjunctiveLicense(id="BSD-2-Clause")],
        purl=PackageURL("generic", name=NAME, version=version),
    )
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    made = Bom(metadata=BomMetaData(component=whole, timestamp=time))
    made.metadata.tools.components.add(this_component())

    files = [file_component(path) for path in sorted(release.iterdir())]
    made.register_dependency(whole, files)
    for file in files:
        needs = needed(file.name)
        made.components |= {file, *needs}
        made.register_dependency(file, needs)

    digests = [h.content for file in files for h in file.hashes]
    made.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, "".join(digests))
    return made


def main() -> None:
    """Write the document."""
    if len(sys.argv) != 3:
        sys.exit("usage: sbom.py RELEASE OUT")
    release, out = map(Path, sys.argv[1:])
    made = make_outputter(bom(release), OutputFormat.JSON, SCHEMA)
    made.output_to_file(str(out), allow_overwrite=True, indent=2)


if __name__ == "__main__":
    main()
