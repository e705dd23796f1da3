"""AMDGPU code objects: what the first 64 bytes of a file tell, and what the rest of it says about itself.

:func:`probe` needs the ELF header only and is never wrong-footed by what follows it. :func:`read` adds the
metadata note (target, kernels, their arguments and registers) and the tools named in ``.comment``;
:func:`symbols` the symbol tables. Both read the parts they need, so that a large object may be a memory map,
and answer whatever bytes they are given with a value or with :class:`CodeObjectError`.

Source of the format and its numbers: LLVM, *User Guide for AMDGPU Backend*, "ELF Code Object" and "Code
Object Metadata"; the ELF structures are those of the System V gABI.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from mmap import mmap
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from kpacktools.kpack.format import MAGIC as _KPACK_MAGIC

__all__ = [
    "HEAD_SIZE",
    "CodeObject",
    "CodeObjectError",
    "CodeObjectHeader",
    "Data",
    "KernelArgument",
    "KernelInfo",
    "kind",
    "probe",
    "read",
    "symbols",
]

HEAD_SIZE = 64
"""Bytes from the start of a file that :func:`probe` and :func:`kind` look at: an ELF64 header."""

_HEADER = struct.Struct("<4sBB1xBB7x2xHI24xI")
"""Magic, class, data encoding, OS/ABI, ABI version, machine, version, flags."""

_ELF64_LITTLE_ENDIAN = (2, 1)
_EM_AMDGPU = 224
_OSABI_AMDGPU_HSA = 64

_VERSIONS = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}
"""ABI version of OS/ABI HSA -> code object version."""

_MACH_MASK = 0xFF
_PROCESSORS = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x50: "gfx1310",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x57: "gfx1154",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5B: "gfx12-5-generic",
    0x5C: "gfx1172",
    0x5D: "gfx1170",
    0x5E: "gfx1171",
    0x5F: "gfx9-4-generic",
    0x62: "gfx11-7-generic",
    0x63: "gfx13-generic",
}
"""``EF_AMDGPU_MACH`` -> processor."""

Setting = Literal["+", "-"] | None
"""A target feature that the code needs on or off; None where either does, or there is no such feature."""

_XNACK_V3, _SRAMECC_V3 = 0x100, 0x200
_XNACK_V4: dict[int, Setting] = {0x000: None, 0x100: None, 0x200: "-", 0x300: "+"}
_SRAMECC_V4: dict[int, Setting] = {0x000: None, 0x400: None, 0x800: "-", 0xC00: "+"}
"""Unsupported, any, off, on."""


class CodeObjectHeader(Struct, frozen=True):
    """What an AMDGPU code object was built for, by its ELF header."""

    processor: str | None
    """LLVM's name, such as ``gfx942``; None where ``mach`` is not known here."""
    xnack: Setting
    sramecc: Setting
    version: int | None
    """Code object version (2 to 6); None for another OS/ABI than HSA, or a newer version."""
    mach: int
    """``EF_AMDGPU_MACH`` as found."""

    @property
    def target_id(self) -> str | None:
        """The target ID in LLVM's canonical spelling, such as ``gfx942:sramecc+:xnack-``."""
        if self.processor is None:
            return None
        sramecc = f":sramecc{self.sramecc}" if self.sramecc else ""
        xnack = f":xnack{self.xnack}" if self.xnack else ""
        return f"{self.processor}{sramecc}{xnack}"


def probe(head: bytes) -> CodeObjectHeader | None:
    """Read the ELF header at the start of ``head``; None where that is no AMDGPU code object.

    The first 64 bytes of a file are enough, and what follows is not looked at. The OS/ABI does not decide:
    the machine makes it a code object.

    >>> with open("kernel.co", "rb") as file:  # doctest: +SKIP
    ...     probe(file.read(HEAD_SIZE))
    CodeObjectHeader(processor='gfx942', xnack=None, sramecc=None, version=6, mach=76)
    """
    if len(head) < _HEADER.size:
        return None
    magic, bits, order, os_abi, abi_version, machine, _, flags = _HEADER.unpack_from(head)
    if magic != b"\x7fELF" or (bits, order) != _ELF64_LITTLE_ENDIAN or machine != _EM_AMDGPU:
        return None
    return _header(os_abi, abi_version, flags)


@lru_cache(256)  # a release has hundreds of thousands of objects, and a few dozen headers
def _header(os_abi: int, abi_version: int, flags: int) -> CodeObjectHeader:
    version = _VERSIONS.get(abi_version) if os_abi == _OSABI_AMDGPU_HSA else None
    xnack, sramecc = _features(flags, os_abi, abi_version)
    mach = flags & _MACH_MASK
    return CodeObjectHeader(_PROCESSORS.get(mach), xnack, sramecc, version, mach)


def kind(head: bytes) -> Literal["kpack", "code-object"] | None:
    """Whether a file that begins with ``head`` (its first 64 bytes) is device code, and of which form."""
    if head.startswith(_KPACK_MAGIC):
        return "kpack"
    return "code-object" if probe(head) is not None else None


def _features(flags: int, os_abi: int, abi_version: int) -> tuple[Setting, Setting]:
    """xnack and sramecc."""
    if os_abi == _OSABI_AMDGPU_HSA and abi_version >= 2:
        return _XNACK_V4[flags & 0x300], _SRAMECC_V4[flags & 0xC00]
    # Up to version 3 a cleared bit means "off" as well as "there is no such feature": it is no requirement.
    return ("+" if flags & _XNACK_V3 else None), ("+" if flags & _SRAMECC_V3 else None)


Data: TypeAlias = bytes | memoryview | mmap
"""What :func:`read` and :func:`symbols` take: one whole code object."""

_LAYOUT = struct.Struct("<QQ4x2x5H")
"""The last 32 bytes of the ELF header: offsets of program and section headers; entry size and count of the
one, entry size and count of the other; which section holds the names."""
_SEGMENT = struct.Struct("<I4xQ16xQ16x")
"""Program header: type, offset, size in the file."""
_SECTION = struct.Struct("<II16xQQI20x")
"""Section header: name, type, offset, size, link."""
_NOTE = struct.Struct("<III")
"""Sizes of name and descriptor, type."""
_SYMBOL = struct.Struct("<I20x")
"""Where the name is in the string table."""

_PT_NOTE = 4
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 1, 2, 7, 11

_VENDOR, _NT_AMDGPU_METADATA = b"AMDGPU\0", 32
"""MessagePack, since version 3. Version 2 has YAML in a note of another vendor and type."""
_COMMENT = b".comment\0"

_MAX_NOTES = 1024
"""There are one to five."""
_MAX_METADATA_SIZE = 32 << 20
"""Bytes; room for ten thousand kernels with fifty arguments each."""
_MAX_COMMENT_SIZE = 64 << 10
"""Bytes; there are a hundred or two."""
_MAX_NAMES_SIZE = 64 << 20
"""Bytes of a string table, and of all names taken out of one (they may overlap)."""

_VERSION = r"([0-9]{1,9}(?:\.[0-9]{1,9})*)"
_CLANG = re.compile(rf".*?\bclang version {_VERSION}")
_LLD = re.compile(rf"Linker: .*?\bLLD {_VERSION}")
"""Vendors put their name before and a repository after: ``AMD clang version 19.0.0git (https://...)``,
``Linker: Debian LLD 22.1.8``."""

Segment: TypeAlias = tuple[int, int, int]
Section: TypeAlias = tuple[int, int, int, int, int]
"""The fields of :data:`_SEGMENT` and :data:`_SECTION`."""


class CodeObjectError(Exception):
    """Bytes that are not the AMDGPU code object they should be; the text is one line for a finding."""


def _dotted(name: str) -> str:
    return f".{name}"


_Count = Annotated[int, msgspec.Meta(ge=0)]


class KernelArgument(msgspec.Struct, frozen=True, gc=False, rename=_dotted):
    """One kernel argument, as the metadata note has it."""

    offset: _Count
    """Bytes from the start of the argument block."""
    size: _Count
    """Bytes."""
    value_kind: str
    """``global_buffer``, ``by_value``, ...; the compiler's own begin with ``hidden_``."""


class KernelInfo(msgspec.Struct, frozen=True, gc=False, rename=_dotted):
    """One kernel, as the metadata note has it; a number is None where the note does not give it."""

    name: str
    """The function in the source."""
    symbol: str
    """The kernel descriptor's symbol: the function's with ``.kd``."""
    args: tuple[KernelArgument, ...] = ()
    """All of them, the compiler's too."""
    group_segment_fixed_size: _Count | None = None
    """Bytes of LDS that a work group always takes."""
    private_segment_fixed_size: _Count | None = None
    """Bytes of scratch memory that a work item always takes."""
    vgpr_count: _Count | None = None
    sgpr_count: _Count | None = None
    agpr_count: _Count | None = None
    """Accumulation registers; on processors that have them."""
    wavefront_size: _Count | None = None
    """Work items, 32 or 64."""
    kernarg_segment_size: _Count | None = None
    """Bytes of the argument block."""

    @property
    def explicit_args(self) -> tuple[KernelArgument, ...]:
        """The arguments that a caller passes: all but the ``hidden_`` ones."""
        return tuple(arg for arg in self.args if not arg.value_kind.startswith("hidden_"))


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    target: str | None = msgspec.field(name="amdhsa.target", default=None)
    kernels: tuple[KernelInfo, ...] = msgspec.field(name="amdhsa.kernels", default=())


_METADATA_DECODER = msgspec.msgpack.Decoder(_Metadata)


class CodeObject(msgspec.Struct, frozen=True, gc=False):
    """What one code object says about itself. Plain data: none of its bytes are held."""

    header: CodeObjectHeader
    target: str | None
    """``amdhsa.target``, such as ``amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-``; since version 4, and not in all."""
    kernels: tuple[KernelInfo, ...] | None
    """By the metadata note; None, for unknown, where there is none in MessagePack (version 2 has YAML)."""
    comments: tuple[str, ...]
    """The strings of ``.comment``, in order; none where there is no such section."""

    @property
    def target_id(self) -> str | None:
        """The target ID in :attr:`target`: ``gfx942:sramecc+:xnack-``. The flags' own is the header's."""
        if self.target is None:
            return None
        # Architecture, vendor, system, environment, ID; the ID may have dashes too (gfx9-4-generic).
        return self.target.split("-", 4)[-1]

    @property
    def compiler(self) -> str | None:
        """Such as ``clang 22.1.8``, whoever's clang it is; None where only the linker left its name.

        Of several it is the first: that of the kernels' own module, before those of libraries linked into it.
        """
        return _tools(self.comments).compiler

    @property
    def linker(self) -> str | None:
        """Such as ``LLD 22.1.8``, whoever's LLD it is."""
        return _tools(self.comments).linker

    @property
    def tool(self) -> str:
        """What reports list: the compiler, else the linker, else ``unknown``."""
        return _tools(self.comments).tool

    @property
    def compiler_major(self) -> int | None:
        """The major version of the compiler, else of the linker; None where neither is named."""
        return _tools(self.comments).major


class _Tools(NamedTuple):
    """What the strings of ``.comment`` name."""

    compiler: str | None
    linker: str | None
    tool: str
    major: int | None


@lru_cache(64)  # of few sets of strings, since one may take tens of kilobytes
def _tools(comments: tuple[str, ...]) -> _Tools:
    compiler, linker = _named("clang", _CLANG, comments), _named("LLD", _LLD, comments)
    tool = compiler or linker
    if tool is None:
        return _Tools(None, None, "unknown", None)
    return _Tools(compiler, linker, tool, int(tool.partition(" ")[2].partition(".")[0]))


def _named(name: str, pattern: re.Pattern[str], comments: Iterable[str]) -> str | None:
    matches = map(pattern.match, comments)
    return next((f"{name} {match[1]}" for match in matches if match), None)


def read(data: Data) -> CodeObject:
    """Read one whole code object: its header, its metadata note and its ``.comment``.

    The note is found through the program headers, so that stripped section headers do not matter; in an
    object that has none (it was not linked), through its sections.

    Raises :class:`CodeObjectError` for anything that is no AMDGPU ELF or points outside of itself.

    >>> with open("kernel.co", "rb") as file:  # doctest: +SKIP
    ...     code = read(file.read())
    >>> code.target_id, code.tool, [kernel.symbol for kernel in code.kernels]  # doctest: +SKIP
    ('gfx942', 'clang 22.1.8', ['saxpy_f32.kd'])
    """
    header = probe(bytes(data[:HEAD_SIZE]))
    if header is None:
        raise CodeObjectError("there is no AMDGPU ELF header")
    segments, sections, names = _tables(data)
    note = _metadata_note(data, _note_spans(segments, sections))
    metadata = None if note is None else _decode(note)
    return CodeObject(
        header,
        target=None if metadata is None else metadata.target,
        kernels=None if metadata is None else metadata.kernels,
        comments=_comments(data, sections, names),
    )


def symbols(data: Data) -> frozenset[str]:
    """Every name in the symbol tables of a code object; empty where its section headers are stripped.

    It answers whether a symbol is there where the metadata does not, and is too slow to be asked first.

    Raises :class:`CodeObjectError` as :func:`read` does.
    """
    if probe(bytes(data[:HEAD_SIZE])) is None:
        raise CodeObjectError("there is no AMDGPU ELF header")
    _, sections, _ = _tables(data)
    found: set[str] = set()
    for _, type_, offset, size, link in sections:
        if type_ in (_SHT_SYMTAB, _SHT_DYNSYM):
            if link >= len(sections):
                raise CodeObjectError(f"a symbol table's names are in section {link} of {len(sections)}")
            _, _, names_offset, names_size, _ = sections[link]
            names = _slice(data, names_offset, names_size, _MAX_NAMES_SIZE, "a string table")
            table = _slice(data, offset, size - size % _SYMBOL.size, _MAX_NAMES_SIZE, "a symbol table")
            found.update(_names({at for (at,) in _SYMBOL.iter_unpack(table)}, names))
    return frozenset(found)


def _names(offsets: Iterable[int], table: bytes) -> Iterator[str]:
    total = 0
    for start in offsets:
        end = table.find(b"\0", start)
        if end < 0:
            raise CodeObjectError(f"a symbol's name at byte {start} of its string table has no end")
        total += end - start
        if total > _MAX_NAMES_SIZE:
            raise CodeObjectError(f"the names of its symbols take more than {_MAX_NAMES_SIZE} bytes")
        if end > start:
            yield table[start:end].decode(errors="replace")


def _tables(data: Data) -> tuple[list[Segment], list[Section], int]:
    """Program headers, section headers, and the number of the section that holds the names of sections."""
    if len(data) < HEAD_SIZE:
        raise CodeObjectError(f"it ends after {len(data)} bytes, inside the ELF header")
    layout = _LAYOUT.unpack_from(data, HEAD_SIZE - _LAYOUT.size)
    segments_offset, sections_offset, segment_size, segments, section_size, sections, names = layout
    return (
        _table(data, _SEGMENT, segments_offset, segments, segment_size, "program"),
        _table(data, _SECTION, sections_offset, sections, section_size, "section"),
        names,
    )


def _table(data: Data, entry: struct.Struct, offset: int, count: int, size: int, what: str) -> list[Any]:
    if count == 0:
        return []
    if size != entry.size:
        raise CodeObjectError(f"its {what} headers have {size} bytes each, expected {entry.size}")
    return list(entry.iter_unpack(_slice(data, offset, count * size, len(data), f"its {what} headers")))


def _slice(data: Data, offset: int, size: int, limit: int, what: str) -> bytes:
    if offset + size > len(data):
        raise CodeObjectError(
            f"{what} should be bytes {offset}..{offset + size}, outside of its {len(data)} bytes"
        )
    if size > limit:
        raise CodeObjectError(f"{what} has {size} bytes, expected at most {limit}")
    return bytes(data[offset : offset + size])


def _note_spans(segments: Iterable[Segment], sections: Iterable[Section]) -> list[tuple[int, int]]:
    """Offset and size of everything that consists of notes."""
    spans = [(offset, size) for type_, offset, size in segments if type_ == _PT_NOTE]
    return spans or [(offset, size) for _, type_, offset, size, _ in sections if type_ == _SHT_NOTE]


def _metadata_note(data: Data, spans: Iterable[tuple[int, int]]) -> bytes | None:
    walked = 0
    for position, size in spans:
        end = position + size
        if end > len(data):
            raise CodeObjectError(
                f"its notes should be bytes {position}..{end}, outside of its {len(data)} bytes"
            )
        while position + _NOTE.size <= end:
            name_size, size, type_ = _NOTE.unpack_from(data, position)
            name = position + _NOTE.size
            start = name + (name_size + 3 & ~3)
            position = start + (size + 3 & ~3)
            walked += 1
            if start + size > end or walked > _MAX_NOTES:
                raise CodeObjectError(f"its notes are damaged: number {walked} ends after byte {end}")
            if type_ == _NT_AMDGPU_METADATA and data[name : name + name_size] == _VENDOR:
                return _slice(data, start, size, _MAX_METADATA_SIZE, "its metadata note")
    return None


def _decode(note: bytes) -> _Metadata:
    try:
        return _METADATA_DECODER.decode(note)
    except msgspec.DecodeError as error:
        raise CodeObjectError(f"its metadata note is not as expected: {error}") from None
    except RecursionError:
        raise CodeObjectError("its metadata note is nested too deeply to be one") from None


def _comments(data: Data, sections: list[Section], names: int) -> tuple[str, ...]:
    if names >= len(sections):
        return ()  # 0 and 0 where they are stripped
    _, _, table, size, _ = sections[names]
    for name, type_, start, length, _ in sections:
        if type_ != _SHT_PROGBITS or name + len(_COMMENT) > size:
            continue
        if data[table + name : table + name + len(_COMMENT)] == _COMMENT:
            text = _slice(data, start, length, _MAX_COMMENT_SIZE, "its .comment")
            return tuple(part.decode(errors="replace") for part in text.split(b"\0") if part)
    return ()
