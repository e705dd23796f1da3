"""ELF files of either word size and byte order: sections, build id and what the dynamic linker is told.

Source: System V gABI, *Object Files* and *Dynamic Linking*. A file whose section headers are stripped has no
sections here, and so nothing else.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from kpacktools.binaries import BinaryFile, DamagedError

__all__ = ["Dynamic", "ElfHeader", "ElfSection", "build_id", "dynamic", "header", "sections"]

_MAGIC = b"\x7fELF"
_HEADER_SIZE = 64
_SHT_DYNAMIC, _SHT_NOTE, _SHT_NOBITS = 6, 7, 8
_SHN_XINDEX = 0xFFFF
_NT_GNU_BUILD_ID = 3
_DT_NULL, _DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 14, 15, 29

_MAX_NOTES_SIZE = 1 << 20
_MAX_DYNAMIC_SIZE = 64 << 10
_MAX_SECTION_NAME = 64
"""Bytes that are kept of a name: they are compared with short ones."""


class _Structures(NamedTuple):
    header: struct.Struct
    section: struct.Struct
    dynamic: struct.Struct
    note: struct.Struct


@functools.cache
def _structures(bits: int, order: int) -> _Structures | None:
    """Of a word size (1 for 32 bits, 2 for 64) and byte order (1 little, 2 big), as the header has them."""
    if bits not in (1, 2) or order not in (1, 2):
        return None
    word = "IQ"[bits - 1]
    formats = (f"16xHHI3{word}I6H", f"II4{word}II2{word}", f"2{word}", "3I")
    return _Structures(*(struct.Struct("<>"[order - 1] + fields) for fields in formats))


class ElfHeader(Struct, frozen=True):
    """What the header says about the machine and the section headers."""

    machine: int
    offset: int
    """Of the section headers; 0 where there are none."""
    entry_size: int
    entries: int
    names: int
    """Which section holds the names of sections."""
    structures: _Structures


class ElfSection(NamedTuple):
    """One section header."""

    name: str
    type: int
    offset: int
    size: int
    """Bytes in the file: 0 for one without bits, such as all that a ``.debug`` file leaves out."""
    link: int


class Dynamic(Struct, frozen=True):
    """What the dynamic linker is told."""

    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    """Folders of ``DT_RUNPATH``, else of ``DT_RPATH``."""
    soname: str | None = None


def header(file: BinaryFile) -> ElfHeader | None:
    """The header of an ELF file; None for any other."""
    head = file.peek(0, _HEADER_SIZE)
    if len(head) < _HEADER_SIZE or not head.startswith(_MAGIC):
        return None
    structures = _structures(head[4], head[5])
    if structures is None:
        return None
    _, machine, _, _, _, offset, _, _, _, _, size, entries, names = structures.header.unpack_from(head)
    return ElfHeader(machine, offset, size, entries, names, structures)


def sections(file: BinaryFile, elf: ElfHeader) -> list[ElfSection]:
    """All sections, the empty first one included; links are indexes into this list.

    Raises :class:`DamagedError`.
    """
    if elf.offset == 0:
        return []
    entry = elf.structures.section
    if elf.entry_size != entry.size:
        raise DamagedError(f"the section headers have {elf.entry_size} bytes each, expected {entry.size}")
    entries, names = elf.entries, elf.names
    if entries == 0 or names == _SHN_XINDEX:
        # Numbers that do not fit into the header are in the first section.
        first = entry.unpack(file.read(elf.offset, entry.size, "the first section header"))
        entries, names = entries or first[5], first[6] if names == _SHN_XINDEX else names
    raw = list(entry.iter_unpack(file.read(elf.offset, entries * entry.size, "the section header table")))
    if names >= len(raw):
        raise DamagedError(f"the section names are in section {names} of {len(raw)}")
    table = file.read(raw[names][4], raw[names][5], "the section name table")
    return [
        ElfSection(_name(table, name), type_, offset, 0 if type_ == _SHT_NOBITS else size, link)
        for name, type_, _, _, offset, size, link, _, _, _ in raw
    ]


def _name(table: bytes, start: int) -> str:
    return table[start : start + _MAX_SECTION_NAME].partition(b"\0")[0].decode(errors="replace")


def build_id(file: BinaryFile, elf: ElfHeader, sections: Iterable[ElfSection]) -> str | None:
    """The GNU build id in hexadecimal; None where there is none.

    Raises :class:`DamagedError`.
    """
    note = elf.structures.note
    for section in sections:
        if section.type != _SHT_NOTE:
            continue
        data = file.read(section.offset, section.size, "a section of notes", _MAX_NOTES_SIZE)
        position = 0
        while position + note.size <= len(data):
            name_size, size, type_ = note.unpack_from(data, position)
            name = position + note.size
            start = name + (name_size + 3 & ~3)
            position = start + (size + 3 & ~3)
            if type_ == _NT_GNU_BUILD_ID and data[name : name + name_size] == b"GNU\0":
                return data[start : start + size].hex()
    return None


def dynamic(file: BinaryFile, elf: ElfHeader, sections: Sequence[ElfSection]) -> Dynamic:
    """What the dynamic section says; nothing where there is none.

    Raises :class:`DamagedError`.
    """
    section = next((section for section in sections if section.type == _SHT_DYNAMIC and section.size), None)
    if section is None:
        return Dynamic()
    if section.link >= len(sections):
        raise DamagedError(f"its strings are in section {section.link} of {len(sections)}")
    strings = sections[section.link]
    entry = elf.structures.dynamic
    data = file.read(section.offset, section.size - section.size % entry.size, "it", _MAX_DYNAMIC_SIZE)
    found: dict[int, list[str]] = {_DT_NEEDED: [], _DT_SONAME: [], _DT_RPATH: [], _DT_RUNPATH: []}
    for tag, value in entry.iter_unpack(data):
        if tag == _DT_NULL:
            break
        if tag in found:
            if value >= strings.size:
                raise DamagedError(f"a string should be at byte {value} of {strings.size}")
            found[tag].append(file.string(strings.offset + value))
    folders = found[_DT_RUNPATH] or found[_DT_RPATH]
    return Dynamic(
        needed=tuple(found[_DT_NEEDED]),
        runpath=tuple(folder for text in folders for folder in text.split(":") if folder),
        soname=next(iter(found[_DT_SONAME]), None),
    )
