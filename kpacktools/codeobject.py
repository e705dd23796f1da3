"""AMDGPU code objects: what the first 64 bytes of a file tell.

Source of the format and its numbers: LLVM, *User Guide for AMDGPU Backend*, "ELF Code Object".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from kpacktools.kpack.format import MAGIC as _KPACK_MAGIC

__all__ = ["HEAD_SIZE", "CodeObjectHeader", "kind", "probe"]

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


@dataclass(frozen=True, slots=True)
class CodeObjectHeader:
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
