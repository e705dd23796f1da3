"""Binaries built by hand: ELF and PE files, code objects with notes, offload bundles."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zstandard

PROGBITS, SYMTAB, STRTAB, DYNAMIC, NOTE, NOBITS, DYNSYM = 1, 2, 3, 6, 7, 8, 11
PT_NOTE = 4
X86_64, AMDGPU = 62, 224
GFX942 = 0x4C


@dataclass
class Section:
    """One section of an ELF file; ``size`` where it is not that of its data."""

    name: str
    data: bytes = b""
    type: int = PROGBITS
    link: str = ""
    size: int | None = None


@dataclass
class Elf:
    """An ELF file under construction. Sections are numbered from 1, as given; the names' is the last."""

    sections: Sequence[Section] = ()
    segments: Sequence[tuple[int, str]] = ()
    """Type, and the section that each one covers."""
    machine: int = X86_64
    bits: int = 64
    order: str = "<"
    os_abi: int = 0
    abi_version: int = 0
    flags: int = 0
    header: dict[str, int] = field(default_factory=dict)
    """Fields of the header that are to be wrong: shoff, shentsize, shnum, shstrndx, phoff, phentsize, phnum."""

    def build(self) -> bytes:
        word = "Q" if self.bits == 64 else "I"
        ehsize, phsize = (64, 56) if self.bits == 64 else (52, 32)
        names = b"\0" + b"".join(section.name.encode() + b"\0" for section in self.sections) + b".shstrtab\0"
        sections = [*self.sections, Section(".shstrtab", names, STRTAB)]
        numbers = {section.name: number for number, section in enumerate(sections, 1)}
        place, body, entries = ehsize + phsize * len(self.segments), b"", [(0,) * 10]
        spans = {}
        for section in sections:
            body += bytes(-(place + len(body)) % 8)
            offset, size = place + len(body), len(section.data) if section.size is None else section.size
            spans[section.name] = (offset, size)
            name = names.index(b"\0" + section.name.encode() + b"\0") + 1
            link = numbers.get(section.link, 0)
            entries.append((name, section.type, 0, 0, offset, size, link, 0, 1, 0))
            body += section.data
        body += bytes(-(place + len(body)) % 8)
        fields = {
            "phoff": ehsize if self.segments else 0, "phentsize": phsize, "phnum": len(self.segments),
            "shoff": place + len(body), "shentsize": 64 if self.bits == 64 else 40,
            "shnum": len(entries), "shstrndx": len(sections),
        } | self.header  # fmt: skip
        ident = struct.pack("5B", 2 if self.bits == 64 else 1, 1 if self.order == "<" else 2, 1, self.os_abi,
                            self.abi_version)  # fmt: skip
        head = struct.pack(
            f"{self.order}16sHHI3{word}I6H", b"\x7fELF" + ident, 3, self.machine, 1, 0,
            fields["phoff"], fields["shoff"], self.flags, ehsize, fields["phentsize"], fields["phnum"],
            fields["shentsize"], fields["shnum"], fields["shstrndx"],
        )  # fmt: skip
        segments = b"".join(self._segment(type_, *spans[name]) for type_, name in self.segments)
        table = b"".join(struct.pack(f"{self.order}II4{word}II2{word}", *entry) for entry in entries)
        return head + segments + body + table

    def _segment(self, type_: int, offset: int, size: int) -> bytes:
        if self.bits == 64:
            return struct.pack(f"{self.order}IIQQQQQQ", type_, 4, offset, 0, 0, size, size, 4)
        return struct.pack(f"{self.order}IIIIIIII", type_, offset, 0, 0, size, size, 4, 4)


def note(name: bytes, type_: int, data: bytes, order: str = "<") -> bytes:
    """One ELF note, padded."""
    padded = name + bytes(-len(name) % 4)
    return struct.pack(f"{order}III", len(name), len(data), type_) + padded + data + bytes(-len(data) % 4)


def kernel(name: str = "k", args: Iterable[Mapping[str, Any]] = (), **numbers: int) -> dict[str, Any]:
    """One kernel of a metadata note; ``numbers`` such as ``vgpr_count=8``."""
    return {".name": name, ".symbol": f"{name}.kd", ".args": [dict(arg) for arg in args]} | {
        f".{key}": value for key, value in numbers.items()
    }


def argument(offset: int, size: int, kind: str) -> dict[str, Any]:
    """One argument of a metadata note."""
    return {".offset": offset, ".size": size, ".value_kind": kind}


def metadata(kernels: Iterable[Mapping[str, Any]] = (), **fields: Any) -> bytes:
    """The metadata note of version 3 and later; ``fields`` such as ``target="amdgcn-amd-amdhsa--gfx942"``."""
    document = {"amdhsa.version": [1, 2], "amdhsa.kernels": list(kernels)}
    document |= {f"amdhsa.{key}": value for key, value in fields.items()}
    return note(b"AMDGPU\0", 32, msgspec.msgpack.encode(document))


def code_object(
    notes: bytes | None = None, comment: str = "", symbols: Iterable[str] = (), **fields: Any
) -> Elf:
    """A linked code object of version 5 for gfx942."""
    sections = [] if notes is None else [Section(".note", notes, NOTE)]
    if comment:
        sections.append(Section(".comment", comment.encode()))
    names = b"\0" + b"".join(symbol.encode() + b"\0" for symbol in symbols)
    offsets = [0, *(names.index(b"\0" + symbol.encode() + b"\0") + 1 for symbol in symbols)]
    table = b"".join(struct.pack("<IBBHQQ", offset, 0, 0, 0, 0, 0) for offset in offsets)
    sections += [Section(".strtab", names, STRTAB), Section(".symtab", table, SYMTAB, ".strtab")]
    segments = [] if notes is None else [(PT_NOTE, ".note")]
    common = {"machine": AMDGPU, "os_abi": 64, "abi_version": 3, "flags": GFX942}
    return Elf(sections, segments, **(common | fields))


def dynamic(entries: Iterable[tuple[int, str]], bits: int = 64, order: str = "<") -> list[Section]:
    """A dynamic section of (tag, string), and its strings."""
    word = "q" if bits == 64 else "i"
    strings, table = b"\0", b""
    for tag, text in entries:
        table += struct.pack(f"{order}2{word}", tag, len(strings))
        strings += text.encode() + b"\0"
    table += struct.pack(f"{order}2{word}", 0, 0)
    return [Section(".dynstr", strings, STRTAB), Section(".dynamic", table, DYNAMIC, ".dynstr")]


def pe(sections: Mapping[str, bytes], imports: Sequence[str] = (), bits: int = 64) -> bytes:
    """A PE image with padded sections and, in ``.idata``, an import table."""
    magic, directories = (0x20B, 112) if bits == 64 else (0x10B, 96)
    optional_size = directories + 16 * 8
    parts = {".text": b"\xc3", **sections}
    address, offset, table, body, import_address = 0x1000, 0x400, b"", b"", 0
    if imports:
        parts[".idata"] = b""
    for name, data in parts.items():
        if name == ".idata":
            import_address = address
            data = import_table(imports, address)
        padded = data + bytes(-len(data) % 512)
        table += struct.pack("<8sIIII16x", name.encode(), len(data), address, len(padded), offset)
        body += padded
        offset += len(padded)
        address += len(padded) + 0x1000
    optional = struct.pack("<H", magic).ljust(directories - 4, b"\0") + struct.pack("<I", 16)
    optional += bytes(8) + struct.pack("<II", import_address, 40)
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    head += struct.pack("<4sHHIIIHH", b"PE\0\0", 0x8664, len(parts), 0, 0, 0, optional_size, 0x2022)
    return (head + optional.ljust(optional_size, b"\0") + table).ljust(0x400, b"\0") + body


def import_table(names: Sequence[str], address: int) -> bytes:
    """Entries, an empty one, and the names; it is loaded at ``address``."""
    entries, strings = b"", b""
    for name in names:
        at = address + 20 * (len(names) + 1) + len(strings)
        entries += struct.pack("<12xI4x", at)
        strings += name.encode() + b"\0"
    return entries + bytes(20) + strings


HIP = "hipv4-amdgcn-amd-amdhsa--"
HOST = "host-x86_64-unknown-linux--"


def bundle(codes: Mapping[str, bytes], align: int = 64) -> bytes:
    """An offload bundle: entry ID -> code."""
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(codes))
    size = len(head) + sum(24 + len(name) for name in codes)
    body = b""
    for name, code in codes.items():
        body += bytes(-(size + len(body)) % align)
        head += struct.pack("<QQQ", size + len(body), len(code), len(name)) + name.encode()
        body += code
    return head + body


def compressed(data: bytes, version: int = 2, method: int = 1) -> bytes:
    """A bundle compressed as clang does it: method 0 is zlib, 1 zstd."""
    body = zstandard.compress(data) if method else zlib.compress(data)
    sizes = {1: struct.Struct("<I8x"), 2: struct.Struct("<II8x"), 3: struct.Struct("<QQ8x")}[version]
    told = () if version == 1 else (8 + sizes.size + len(body),)
    return struct.pack("<4sHH", b"CCOB", version, method) + sizes.pack(*told, len(data)) + body
