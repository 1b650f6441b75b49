"""The module built once more, as one that calls its memory another version."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from .nginx import REPOSITORY

BUILD = REPOSITORY / "build"
SOURCE = REPOSITORY / "src" / "pure" / "nsf_shard.c"
OBJECT = "/pure/nsf_shard.o"
VERSION = "#define NSF_SHARD_VERSION  "


def _commands(objects: Path) -> list[list[str]]:
    """Return the commands that tools/build-module.sh has built with."""
    text = (objects / "commands").read_text().replace("\\\n", " ")
    commands = (shlex.split(line) for line in text.splitlines())
    return [command for command in commands if "-o" in command]


def _output(command: list[str]) -> str:
    return command[command.index("-o") + 1]


def build_another(module: Path, directory: Path) -> Path:
    """Build a module whose cache zones are of another version.

    Args:
        module: the .so that it is built as, of tools/build-module.sh.
        directory: where it goes.

    Returns:
        The other .so, of the same name.
    """
    folders = module.resolve().parent.relative_to(BUILD).parts
    objects = BUILD / "obj" / ("-".join(folders) or "module")
    commands = _commands(objects)
    compiles = [c for c in commands if _output(c).endswith(OBJECT)]
    links = [c for c in commands if Path(_output(c)).name == module.name]
    assert len(links) == 1 and compiles, objects

    text = SOURCE.read_text()
    assert text.count(VERSION) == 1
    source = directory / SOURCE.name
    source.write_text(text.replace(VERSION, VERSION + "99"))
    changed = directory / "nsf_shard.o"
    made = directory / module.name

    [old_source] = [a for a in compiles[0] if a.endswith("/nsf_shard.c")]
    replaced = {
        old_source: str(source),
        _output(compiles[0]): str(changed),
        _output(links[0]): str(made),
    }
    for command in (compiles[0], links[0]):
        subprocess.run(
            [replaced.get(a, a) for a in command], check=True, cwd=objects / "tree"
        )
    return made
