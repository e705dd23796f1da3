"""The bytes of a ZIP file: local headers, the central directory and its end.

Pure functions of numbers and names, after PKWARE's APPNOTE.TXT 6.3.10 (sections 4.3 and 4.5.3). Nothing here
reads, compresses or writes; :mod:`kpacktools.outputs.zipwriter` does.
"""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from kpacktools.zipstructs import (
    CENTRAL,
    CENTRAL_MAGIC,
    DEFLATED,
    END,
    END64,
    END64_MAGIC,
    END_MAGIC,
    EXTRA_ZIP64,
    FLAG_UTF8,
    FULL16,
    FULL32,
    LOCAL,
    LOCAL_MAGIC,
    LOCATOR64,
    LOCATOR64_MAGIC,
    STORED,
)

__all__ = ["DEFLATED", "STANDARD_LIMITS", "STORED", "Packed", "ZipFormat", "ZipLimits"]

_UNIX: Final = 3
_VERSION: Final = 20
_VERSION64: Final = 45
_LOCAL_EXTRA64: Final = struct.Struct("<2H2Q")

_EARLIEST: Final = 315532800
"""1980-01-01 00:00:00 UTC, the first moment that an MS-DOS time stamp can hold."""
_LATEST: Final = 4354819198
"""2107-12-31 23:59:58 UTC, the last one."""


class ZipLimits(Struct, frozen=True):
    """The values from which on a field overflows into zip64. Tests lower them; nothing else should."""

    size: int = FULL32
    """Bytes of one member, packed or not."""
    offset: int = FULL32
    """Bytes before a member, before the central directory, and of that directory itself."""
    count: int = FULL16
    """Members."""


STANDARD_LIMITS: Final = ZipLimits()


class Packed(NamedTuple):
    """One member as it lies in the archive (a tuple: there are very many)."""

    name: str
    """That of the member; of the same string there is one."""
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


class ZipFormat(Struct, frozen=True):
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
        return LOCAL.size + len(name) + (_LOCAL_EXTRA64.size if size >= self.limits.size else 0)

    def header(self, name: bytes, method: int, crc: int, packed: int, size: int) -> bytes:
        """A member's local header, with the terms of :class:`Packed`."""
        version, extra = _VERSION, b""
        if size >= self.limits.size:
            # A local header has to give both sizes in 64 bits, whichever of them overflows.
            version, extra = _VERSION64, _LOCAL_EXTRA64.pack(EXTRA_ZIP64, 16, size, packed)
            size = packed = FULL32
        fixed = LOCAL.pack(
            LOCAL_MAGIC,
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
        name, size, packed, offset = member.name.encode(), member.size, member.packed, member.offset
        version, extra = _VERSION, b""
        if size >= limits.size or offset >= limits.offset:
            # Unlike a local header, an entry repeats just the values that do not fit, in this order.
            wide = []
            if size >= limits.size:
                wide.append(size)
                size = FULL32
            if packed >= limits.size:
                wide.append(packed)
                packed = FULL32
            if offset >= limits.offset:
                wide.append(offset)
                offset = FULL32
            version, extra = _VERSION64, struct.pack(f"<2H{len(wide)}Q", EXTRA_ZIP64, 8 * len(wide), *wide)
        fixed = CENTRAL.pack(
            CENTRAL_MAGIC,
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
            record = END64.pack(
                END64_MAGIC, END64.size - 12, _VERSION64, _VERSION64, 0, 0, count, count, length, start
            )
            end64 = record + LOCATOR64.pack(LOCATOR64_MAGIC, 0, start + length, 1)
            count = FULL16 if count >= limits.count else count
            length = FULL32 if length >= limits.offset else length
            start = FULL32 if start >= limits.offset else start
        return end64 + END.pack(END_MAGIC, 0, 0, count, count, length, start, 0)


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else FLAG_UTF8
