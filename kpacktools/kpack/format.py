"""The KPAK format, version 1: its constants, and the error of those who read it.

A file is, all numbers little endian (source: ROCm/rocm-systems, ``shared/kpack``)::

    0     4s  b"KPAK"
    4     u32 version, 1
    8     u64 offset of the TOC
    16        zeros up to 64
    64        the code objects, laid out as the compression scheme says
    TOC       one MessagePack map, to the end of the file

Scheme ``none``: ``blobs[ordinal]`` of the TOC is ``{offset, size}``, absolute. Scheme ``zstd-per-kernel``: at
``zstd_offset``, ``zstd_size`` bytes long: a u32 count, then per ordinal a u32 size and one zstd frame of that
size. Nothing in the container is a checksum.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

__all__ = [
    "FORMAT_VERSION",
    "HEADER",
    "HEADER_SIZE",
    "MAGIC",
    "MAX_BLOB_SIZE",
    "MAX_KERNELS",
    "SCHEME_NONE",
    "SCHEME_ZSTD",
    "KpackError",
]

MAGIC = b"KPAK"
FORMAT_VERSION = 1
HEADER = struct.Struct("<4sIQ")
"""Magic, version, TOC offset."""
HEADER_SIZE = 64
"""Bytes before the first code object, padding included."""

SCHEME_NONE: Final = "none"
SCHEME_ZSTD: Final = "zstd-per-kernel"

MAX_BLOB_SIZE = 4 << 30
"""Bytes of zstd blob that AMD's reader accepts."""
MAX_KERNELS = 1 << 20
"""Kernels in a zstd blob that AMD's reader accepts."""


class KpackError(Exception):
    """A file that is not the KPAK archive it should be, as data for a finding.

    ``finding`` is ``kpack-corrupt`` where the bytes contradict the format, ``kpack-unsupported`` where they
    may well be right but neither this reader nor AMD's takes them. ``message`` is one line that says what was
    expected and what was found, ``hint`` what to do about it (empty where there is nothing to advise).
    """

    def __init__(
        self, finding: Literal["kpack-corrupt", "kpack-unsupported"], message: str, hint: str = ""
    ) -> None:
        super().__init__(finding, message, hint)  # as args: the error crosses processes
        self.finding = finding
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message
