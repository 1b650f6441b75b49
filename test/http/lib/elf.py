"""Where the functions of a program or shared object are."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

# of elf(5)
PT_LOAD = 1
SHT_SYMTAB = 2
SHT_DYNSYM = 11
STT_FUNC = 2
SHN_UNDEF = 0
ET_DYN = 3
PAGE = 4096


@dataclass(frozen=True)
class Function:
    """A function of an ELF file.

    Args:
        name: its symbol.
        address: in the file's own numbering.
        size: in bytes.
    """

    name: str
    address: int
    size: int


class Elf:
    """The function symbols of a 64-bit little-endian ELF file.

    Static functions are among them as long as the file has not been stripped;
    what it exports always is.

    Args:
        path: the file.

    Raises:
        ValueError: it is no such file, or has no symbols.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        self.functions: dict[str, Function] = {}
        (kind,) = struct.unpack_from("<H", data, 16)
        headers, sections = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count = struct.unpack_from("<4H", data, 54)
        loads = [
            struct.unpack_from("<IIQQ", data, headers + n * size) for n in range(count)
        ]
        first = min(address for p, _, _, address in loads if p == PT_LOAD)
        self._first: int | None = first // PAGE * PAGE if kind == ET_DYN else None
        for n in range(section_count):
            header = struct.unpack_from("<IIQQQQI", data, sections + n * section_size)
            if header[1] in (SHT_SYMTAB, SHT_DYNSYM):
                at = sections + header[6] * section_size
                strings = struct.unpack_from("<IIQQQQI", data, at)[4]
                self._read_symbols(data, header[4], header[5], strings)
        if not self.functions:
            raise ValueError(f"{path} has no symbols of functions")

    def _read_symbols(self, data: bytes, start: int, size: int, strings: int) -> None:
        for name, info, _, section, address, length in struct.iter_unpack(
            "<IBBHQQ", data[start : start + size]
        ):
            if info & 15 == STT_FUNC and section != SHN_UNDEF:
                at = strings + name
                text = data[at : data.index(0, at)].decode()
                self.functions[text] = Function(text, address, length)

    def function(self, name: str) -> Function:
        """Return a function, or what the compiler has made of it.

        Args:
            name: as in the source; ``name.part.0`` and the like are found too.

        Raises:
            LookupError: there is no such one, for instance because it was
                inlined everywhere or the file is stripped; or several.
        """
        if name in self.functions:
            return self.functions[name]
        found = [f for n, f in self.functions.items() if n.startswith(f"{name}.")]
        if len(found) != 1:
            raise LookupError(f"{len(found)} functions {name} in {self.path}")
        return found[0]

    def base(self, pid: int) -> int:
        """Return what to add to addresses in a process that has it loaded.

        Args:
            pid: the process.

        Raises:
            LookupError: the process has not loaded it.
        """
        if self._first is None:
            return 0
        names = (str(self.path), f"{self.path} (deleted)")
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, _, offset, _, _, *rest = line.split(maxsplit=5)
            if rest and rest[0] in names and int(offset, 16) == 0:
                return int(span.partition("-")[0], 16) - self._first
        raise LookupError(f"{os.fspath(self.path)} is not loaded in {pid}")
