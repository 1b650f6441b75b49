"""The compilation database is read from what make prints."""

from __future__ import annotations

from compile_commands import commands

PRINTED = """\
# a comment
cc -c -O2 '-DNAME="a b"' -I src \\
\t-o obj/a.o \\
\tsrc/a.c
cc -o module.so obj/a.o -shared
cc -c -o obj/b.o src/b.c
"""


def test_only_compilations_are_listed() -> None:
    found = commands(PRINTED, "/tree")
    assert [(e["directory"], e["file"]) for e in found] == [
        ("/tree", "src/a.c"),
        ("/tree", "src/b.c"),
    ]


def test_arguments_are_those_of_the_shell() -> None:
    (first, _) = commands(PRINTED, "/tree")
    wanted = ["cc", "-c", "-O2", '-DNAME="a b"', "-I", "src", "-o", "obj/a.o"]
    assert first["arguments"] == [*wanted, "src/a.c"]
