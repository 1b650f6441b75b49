"""The RPM's spec, the container image's files and Kubernetes' are well-formed.

What they build is run by `make rpm`, `make image` and `make image-test`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CONTAINER = PACKAGING / "container"
CONTAINERFILE = CONTAINER / "Containerfile"
COMPOSE = CONTAINER / "compose.yaml"
KUBERNETES = PACKAGING / "kubernetes" / "ngx-sendfile.yaml"
SPEC = PACKAGING / "rpm" / "nginx-module-sendfile.spec"
BIN = Path(sys.executable).parent


def run(*command: str | Path) -> str:
    """Run a program, which has to succeed, and return what it printed."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def version() -> str:
    """Return the version that is released."""
    text = (ROOT / "cli/src/sendfilectl/__init__.py").read_text("utf-8")
    (found,) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert isinstance(found, str)
    return found


def modules() -> set[str]:
    """Return the modules that make install knows."""
    text = (ROOT / "tools" / "install.sh").read_text("utf-8")
    (names,) = re.findall(r'^all="([^"]*)"$', text, re.MULTILINE)
    return {f"ngx_{name.replace('-', '_')}_module.so" for name in names.split()}


def parsed_spec(*options: str) -> str:
    """Return the spec as rpm reads it."""
    return run("rpmspec", *options, "-P", SPEC)


def test_rpm_reads_the_spec() -> None:
    text = parsed_spec()
    nginx = re.search(r"^Requires: +nginx-r([\d.]+)$", text, re.MULTILINE)
    assert nginx
    assert re.search(
        rf"^Version: +{re.escape(nginx[1])}\+{re.escape(version())}$",
        text,
        re.MULTILINE,
    )
    assert f"> - {nginx[1]}+{version()}-1\n" in text
    assert set(re.findall(r"modules/(ngx_\w+\.so)$", text, re.MULTILINE)) == modules()


def test_the_spec_is_for_another_nginx_by_a_definition() -> None:
    text = parsed_spec("--define", "nginx_version 1.2.3")
    assert re.search(r"^Requires: +nginx-r1\.2\.3$", text, re.MULTILINE)
    assert re.search(r"^Source1: +nginx-1\.2\.3\.tar\.gz$", text, re.MULTILINE)


def test_the_spec_has_the_mruby_that_is_built() -> None:
    text = (ROOT / "tools" / "mruby.sh").read_text("utf-8")
    (mruby,) = re.findall(r"^crate_version='=(.*)'$", text, re.MULTILINE)
    assert f"mruby-{mruby}.tar.gz" in parsed_spec()
    assert f" mruby-{mruby}.tar.gz" in (ROOT / "tools" / "rpm.sh").read_text("utf-8")


def test_hadolint_reads_the_containerfile() -> None:
    assert run(BIN / "hadolint", CONTAINERFILE) == ""


def containerfile(instruction: str) -> list[str]:
    """Return the arguments of each such instruction."""
    text = CONTAINERFILE.read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{instruction} +(.*)$", text, re.MULTILINE)


def test_the_image_is_no_roots() -> None:
    assert containerfile("USER") == ["33:33"]
    ports = [int(port) for port in containerfile("EXPOSE")[0].split()]
    assert min(ports) >= 1024


def test_the_image_has_the_packages_but_the_gem() -> None:
    control = (ROOT / "debian" / "control").read_text("utf-8")
    packages = set(re.findall(r"^Package: (\S+)$", control, re.MULTILINE))
    installed = re.findall(r"/debs/([\w-]+)_\*\.deb", containerfile("RUN")[0])
    assert set(installed) == packages - {"ruby-ngx-sendfile"}


def test_what_the_containerfile_copies_is_there() -> None:
    copied = [arguments.split()[0] for arguments in containerfile("COPY")]
    assert copied
    assert all((ROOT / path).is_file() for path in copied)


def compose() -> dict[str, Any]:
    """Read the compose file."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return loaded


def test_compose_file_is_valid() -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_compose_file_names_what_there_is() -> None:
    services = compose()["services"]
    build = services["nginx"]["build"]
    assert (CONTAINER / build["context"]).resolve() == ROOT
    assert ROOT / build["dockerfile"] == CONTAINERFILE
    assert build["args"]["VERSION"] == version()
    for service in services.values():
        for volume in service.get("volumes", []):
            assert (CONTAINER / volume.split(":")[0]).exists(), volume
    ours = {services[name]["image"] for name in ("nginx", "app")}
    assert ours == {f"ngx-sendfile:{version()}"}


def test_compose_file_lets_nothing_be_written() -> None:
    for name, service in compose()["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def objects() -> dict[str, dict[str, Any]]:
    """Read Kubernetes' objects, by their kind."""
    return {o["kind"]: o for o in yaml.safe_load_all(KUBERNETES.read_text("utf-8"))}


def test_kubernetes_takes_the_manifest() -> None:
    said = run(BIN / "kubernetes-validate", "--strict", KUBERNETES)
    assert said.count(" passed for resource ") == 3
    assert set(objects()) == {"ConfigMap", "Deployment", "Service"}


def test_pods_have_no_rights() -> None:
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_kubernetes_ports_labels_and_image_fit() -> None:
    found = objects()
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {str(port) for port in ports.values()} == set(
        containerfile("EXPOSE")[0].split()
    )
    conf = (CONTAINER / "nginx.conf").read_text("utf-8")
    assert f"listen      {ports['status']};" in conf
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked == {"path": "/sendfile-status/json", "port": "status"}
    (port,) = found["Service"]["spec"]["ports"]
    assert port["targetPort"] in ports and port["targetPort"] != "status"
    selector = found["Service"]["spec"]["selector"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert container["image"].endswith(f"/ngx-sendfile:{version()}")


@pytest.mark.parametrize("conf", ["image", "demonstration", "kubernetes"])
def test_nginx_takes_the_configurations(conf: str, tmp_path: Path) -> None:
    """As the image has them, but with names that need no name server."""
    server = {
        "image": (CONTAINER / "default.conf").read_text("utf-8"),
        "demonstration": (CONTAINER / "demo" / "demo.conf").read_text("utf-8"),
        "kubernetes": objects()["ConfigMap"]["data"]["default.conf"],
    }[conf]
    server = re.sub(r"\b(app|memcached):(\d+);", r"127.0.0.1:\2;", server)
    server = server.replace("//memcached:", "//127.0.0.1:")
    (tmp_path / "default.conf").write_text(server, "utf-8")
    modules_conf = "".join(
        f"load_module {ROOT}/build/{module};\n" for module in sorted(modules())
    )
    text = (CONTAINER / "nginx.conf").read_text("utf-8")
    for old, new in (
        ("/tmp/", f"{tmp_path}/"),
        ("include    /etc/nginx/modules-enabled/*.conf;", modules_conf),
        ("/etc/nginx/conf.d/*.conf", f"{tmp_path}/default.conf"),
        ("/dev/stdout", f"{tmp_path}/access.log"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "nginx.conf").write_text(text, "utf-8")
    nginx = ["/usr/sbin/nginx", "-t", "-e", "stderr", "-p", str(tmp_path)]
    done = subprocess.run(
        [*nginx, "-c", str(tmp_path / "nginx.conf")],
        env={k: v for k, v in os.environ.items() if k != "NGINX"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\[(warn|error|emerg|alert)\]", done.stderr), done.stderr


def test_documents_name_each_file() -> None:
    text = (ROOT / "docs" / "building.md").read_text("utf-8")
    for path in (SPEC, CONTAINERFILE, COMPOSE, KUBERNETES):
        assert str(path.relative_to(ROOT)) in text, path
