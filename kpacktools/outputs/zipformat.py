"""The bytes of a ZIP file: local headers, the central directory and its end.

Pure functions of numbers and names, after PKWARE's APPNOTE.TXT 6.3.10 (sections 4.3 and 4.5.3). Nothing here
reads, compresses or writes; :mod:`kpacktools.outputs.zipwriter` does.
"""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["DEFLATED", "STANDARD_LIMITS", "STORED", "Packed", "ZipFormat", "ZipLimits"]

STORED: Final = 0
DEFLATED: Final = 8

_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFFFFFF

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s2B5H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64: Final = struct.Struct("<4sLQL")

_UNIX: Final = 3
_UTF8: Final = 0x800
_VERSION: Final = 20
_VERSION64: Final = 45
_EXTRA64: Final = 1
_LOCAL_EXTRA64: Final = struct.Struct("<2H2Q")

_EARLIEST: Final = 315532800
"""1980-01-01 00:00:00 UTC, the first moment that an MS-DOS time stamp can hold."""
_LATEST: Final = 4354819198
"""2107-12-31 23:59:58 UTC, the last one."""


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """The values from which on a field overflows into zip64. Tests lower them; nothing else should."""

    size: int = _FULL32
    """Bytes of one member, packed or not."""
    offset: int = _FULL32
    """Bytes before a member, before the central directory, and of that directory itself."""
    count: int = _FULL16
    """Members."""


STANDARD_LIMITS: Final = ZipLimits()


class Packed(NamedTuple):
    """One member as it lies in the archive (a tuple: there are very many)."""

    name: bytes
    """UTF-8."""
    mode: int
    """Permission bits."""
    method: int
    """:data:`STORED` or :data:`DEFLATED`."""
    crc: int
    """CRC-32 of the unpacked bytes."""
    packed: int
    """Bytes in the archive, without headers; never more than ``size``."""
    size: int
    """Bytes unpacked."""
    digest: bytes
    """SHA-256 of the unpacked bytes, 32 bytes."""
    offset: int
    """Where the local header begins."""


@dataclass(frozen=True, slots=True)
class ZipFormat:
    """What all members of an archive share: their time, and when fields overflow."""

    time: int
    """MS-DOS time, in steps of two seconds (16 bits)."""
    date: int
    """MS-DOS date (16 bits)."""
    limits: ZipLimits = STANDARD_LIMITS

    @classmethod
    def at(cls, epoch: int, limits: ZipLimits = STANDARD_LIMITS) -> ZipFormat:
        """The format with the time ``epoch``, seconds since 1970 in UTC, clamped to 1980-2107.

        >>> ZipFormat.at(0) == ZipFormat.at(315532800)
        True
        """
        moment = time.gmtime(min(max(epoch, _EARLIEST), _LATEST))
        return cls(
            moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec >> 1,
            (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday,
            limits,
        )

    def header_length(self, name: bytes, size: int) -> int:
        """Length of a member's local header, which is known before the member is packed."""
        return _LOCAL.size + len(name) + (_LOCAL_EXTRA64.size if size >= self.limits.size else 0)

    def header(self, name: bytes, method: int, crc: int, packed: int, size: int) -> bytes:
        """A member's local header, with the terms of :class:`Packed`."""
        version, extra = _VERSION, b""
        if size >= self.limits.size:
            # A local header has to give both sizes in 64 bits, whichever of them overflows.
            version, extra = _VERSION64, _LOCAL_EXTRA64.pack(_EXTRA64, 16, size, packed)
            size = packed = _FULL32
        fixed = _LOCAL.pack(
            b"PK\3\4",
            version,
            _flags(name),
            method,
            self.time,
            self.date,
            crc,
            packed,
            size,
            len(name),
            len(extra),
        )
        return fixed + name + extra

    def directory(self, members: Iterable[Packed], start: int) -> bytes:
        """The central directory and all that follows it, for the offset ``start``."""
        entries = [self._entry(member) for member in members]
        body = b"".join(entries)
        return body + self._end(len(entries), len(body), start)

    def _entry(self, member: Packed) -> bytes:
        limits = self.limits
        name, size, packed, offset = member.name, member.size, member.packed, member.offset
        version, extra = _VERSION, b""
        if size >= limits.size or offset >= limits.offset:
            # Unlike a local header, an entry repeats just the values that do not fit, in this order.
            wide = []
            if size >= limits.size:
                wide.append(size)
                size = _FULL32
            if packed >= limits.size:
                wide.append(packed)
                packed = _FULL32
            if offset >= limits.offset:
                wide.append(offset)
                offset = _FULL32
            version, extra = _VERSION64, struct.pack(f"<2H{len(wide)}Q", _EXTRA64, 8 * len(wide), *wide)
        fixed = _CENTRAL.pack(
            b"PK\1\2",
            version,
            _UNIX,
            version,
            _flags(name),
            member.method,
            self.time,
            self.date,
            member.crc,
            packed,
            size,
            len(name),
            len(extra),
            0,  # length of the comment
            0,  # disk
            0,  # internal attributes
            (stat.S_IFREG | member.mode) << 16,
            offset,
        )
        return fixed + name + extra

    def _end(self, count: int, length: int, start: int) -> bytes:
        limits, end64 = self.limits, b""
        if count >= limits.count or length >= limits.offset or start >= limits.offset:
            record = _END64.pack(
                b"PK\6\6", _END64.size - 12, _VERSION64, _VERSION64, 0, 0, count, count, length, start
            )
            end64 = record + _LOCATOR64.pack(b"PK\6\7", 0, start + length, 1)
            count = _FULL16 if count >= limits.count else count
            length = _FULL32 if length >= limits.offset else length
            start = _FULL32 if start >= limits.offset else start
        return end64 + _END.pack(b"PK\5\6", 0, 0, count, count, length, start, 0)


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else _UTF8
