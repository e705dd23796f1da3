"""PE files, of 32 or 64 bits: sections and the libraries in the import table.

Source: Microsoft, *PE Format*. Section names longer than eight bytes, which images do not have, and delayed
imports are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from kpacktools.binaries import BinaryFile, DamagedError

__all__ = ["PeHeader", "PeSection", "header", "imports", "sections"]

_DOS_HEADER_SIZE = 64
_HEADER = struct.Struct("<6xH12xH2x")
"""Signature and machine, number of sections, six other fields, size of the optional header, flags."""
_SECTION = struct.Struct("<8sIIII16x")
"""Name, size in memory, address, size in the file, offset."""
_IMPORT = struct.Struct("<12xI4x")
"""Address of the library's name."""
_DIRECTORIES: Final = {b"\x0b\x01": 96, b"\x0b\x02": 112}
"""Where the data directories begin in the optional header of a 32-bit and of a 64-bit image."""

_MAX_IMPORTS = 4096


class PeHeader(Struct, frozen=True):
    """Where the tables of a PE file are."""

    offset: int
    """Of the section headers."""
    entries: int
    imports: int
    """Address of the import table; 0 where there is none."""


class PeSection(NamedTuple):
    """One section header."""

    name: str
    address: int
    offset: int
    size: int
    """Bytes in the file, without the padding."""


def header(file: BinaryFile) -> PeHeader | None:
    """The header of a PE file; None for any other."""
    dos = file.peek(0, _DOS_HEADER_SIZE)
    if len(dos) < _DOS_HEADER_SIZE or not dos.startswith(b"MZ"):
        return None
    (start,) = struct.unpack_from("<I", dos, 60)
    head = file.peek(start, _HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(b"PE\0\0"):
        return None
    entries, size = _HEADER.unpack(head)
    optional = file.peek(start + _HEADER.size, size)
    return PeHeader(start + _HEADER.size + size, entries, _import_address(optional))


def _import_address(optional: bytes) -> int:
    start = _DIRECTORIES.get(optional[:2])
    if start is None or len(optional) < start + 16:
        return 0
    count, _, _, address = struct.unpack_from("<4I", optional, start - 4)  # exports come first
    return int(address) if count > 1 else 0


def sections(file: BinaryFile, pe: PeHeader) -> list[PeSection]:
    """All sections.

    Raises :class:`DamagedError`.
    """
    table = file.read(pe.offset, pe.entries * _SECTION.size, "the section header table")
    return [
        PeSection(name.rstrip(b"\0").decode(errors="replace"), address, offset, min(size, in_file))
        for name, size, address, in_file, offset in _SECTION.iter_unpack(table)
    ]


def imports(file: BinaryFile, pe: PeHeader, sections: Iterable[PeSection]) -> tuple[str, ...]:
    """The libraries in the import table, in order.

    Raises :class:`DamagedError`.
    """
    if pe.imports == 0:
        return ()
    position = _offset(pe.imports, sections)
    found: list[str] = []
    while len(found) < _MAX_IMPORTS:
        (name,) = _IMPORT.unpack(file.read(position, _IMPORT.size, "the next entry"))
        if name == 0:
            return tuple(found)
        found.append(file.string(_offset(name, sections)))
        position += _IMPORT.size
    raise DamagedError(f"it has more than {_MAX_IMPORTS} entries")


def _offset(address: int, sections: Iterable[PeSection]) -> int:
    """Where the byte at an address in memory is in the file."""
    for section in sections:
        if section.address <= address < section.address + section.size:
            return section.offset + address - section.address
    raise DamagedError(f"address {address:#x} is in no section")
