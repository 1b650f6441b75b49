"""The program nginx: its version, its paths, what it says of a configuration, and
whether it takes a module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from sendfilectl.doctor.config import (
    Config,
    Directive,
    names_in_dump,
    read_files,
    split_dump,
)
from sendfilectl.errors import UsageError

# seconds: it looks up the names of hosts
_TIMEOUT = 60.0

_PLACES = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")

# NGX_MODULE_SIGNATURE
_SIGNATURE = re.compile(rb"[48],[48],[48],[01]{30,40}")

# NGX_MODULE_V1: two indexes that are not set, a name and two words that are 0,
# then nginx_version
_VERSION = re.compile(rb"\xff{16}\0{24}(.{4})\0{4}", re.DOTALL)

_SAID = re.compile(r"\[(warn|emerg|alert|crit|error)\] (?:\d+#\d+: )?(.*)")
_PLACE = re.compile(r"(.*) in (/[^:]*):(\d+)$")


@dataclass(frozen=True)
class Program:
    """An nginx.

    Attributes:
        path: of the program.
        name: "nginx", or that of a fork.
        version: such as "1.22.1".
        options: what it was configured with, by name, such as "prefix".
    """

    path: str
    name: str
    version: str
    options: dict[str, str]

    @property
    def number(self) -> int:
        """As a module has it: 1022001 for 1.22.1."""
        major, minor, patch = (int(part) for part in self.version.split("."))
        return 1_000_000 * major + 1_000 * minor + patch


def find_program(named: str | None) -> Program:
    """The nginx to ask.

    Args:
        named: by the user; None to look in PATH, and where it usually is.

    Raises:
        UsageError: there is none.
    """
    path = shutil.which(named or "nginx")
    if path is None and named is None:
        path = next((p for p in _PLACES if os.access(p, os.X_OK)), None)
    if path is None:
        raise UsageError(
            f"--nginx {named}: there is no such program"
            if named
            else "there is no nginx in PATH: write --nginx /path/to/nginx"
        )
    said = _run([path, "-V"]).stderr
    match = re.search(r"version: (\S+?)/(\d+\.\d+\.\d+)", said)
    if match is None:
        raise UsageError(f"{path} is no nginx: 'nginx -V' tells no version")
    options = dict(re.findall(r"--([a-z0-9_-]+)=('[^']*'|\S+)", said))
    return Program(path, match[1], match[2], options)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_TIMEOUT,
            check=False,
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{command[0]}: {reason}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{' '.join(command)}: not done within {_TIMEOUT:.0f} s"
        ) from None


@dataclass(frozen=True)
class Said:
    """What nginx says of its configuration.

    Attributes:
        refused: whether it would not start with it.
        text: in its words.
        file: where, "" if it does not say so.
        line: there, 0 if it does not say so.
    """

    refused: bool
    text: str
    file: str
    line: int


def read_config(
    program: Program, path: str, prefix: str | None
) -> tuple[Config, list[Said]]:
    """The configuration as this nginx reads it; from its files if it refuses them.

    Args:
        program: the nginx.
        path: of nginx.conf.
        prefix: what nginx is started with as -p, if it is.

    Raises:
        UsageError: there is nothing to read.
        ConfigError: it cannot be understood.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path}: is no regular file")
    try:
        files = read_files(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: {reason}") from None
    command = [program.path, "-T", "-c", path]
    if prefix is not None:
        command += ["-p", prefix if prefix.endswith("/") else f"{prefix}/"]
    done = _run(command)
    said = [_said(*found) for found in _SAID.findall(done.stderr)]
    if done.returncode == 0:
        wanted = names_in_dump(done.stdout)
        known = {name: text for name, text in files.items() if name in wanted}
        files = split_dump(done.stdout, known)
    elif not any(one.refused for one in said):
        last = done.stderr.strip().splitlines()[-1:] or ["nginx -T fails"]
        said.append(Said(True, last[0], "", 0))
    return Config(files, path), said


def _said(level: str, text: str) -> Said:
    match = _PLACE.fullmatch(text)
    if match is None:
        return Said(level != "warn", text, "", 0)
    return Said(level != "warn", match[1], match[2], int(match[3]))


@dataclass(frozen=True)
class Module:
    """A file for load_module.

    Attributes:
        path: of it.
        loaded: the directive that loads it.
    """

    path: str
    loaded: Directive


def modules(config: Config, program: Program, prefix: str | None) -> list[Module]:
    """The files of this module, and of those that go with it, that are loaded."""
    base = prefix or program.options.get("prefix", "/usr/local/nginx")
    return [
        Module(os.path.join(base, found.arg()), found)
        for found in config.tree.find("load_module")
        if "ngx_http_sendfile_" in os.path.basename(found.arg())
    ]


def signature(path: str) -> str | None:
    """The signature of a program or module, None if it has none.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        match = _SIGNATURE.search(file.read())
    return match[0].decode() if match else None


def module_version(path: str) -> int | None:
    """For which nginx a module was built, such as 1022001, None if that is not seen.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        match = _VERSION.search(file.read())
    return int.from_bytes(match[1], "little") if match else None


def version_text(number: int) -> str:
    """1.22.1 for 1022001."""
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"
