"""The headers of a ZIP file as they are read: of its members, of its central directory and of its end.

After PKWARE's APPNOTE.TXT 6.3.10 (sections 4.3 to 4.5). What a header says is taken as it is; whether it can be
believed is for :mod:`kpacktools.trees.wheelscan` to find out. Nothing here reads what a member holds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, NamedTuple

from kpacktools.trees.decompress import ArchiveError
from kpacktools.zipstructs import (
    CENTRAL,
    CENTRAL_MAGIC,
    DESCRIPTOR_MAGIC,
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
)

__all__ = [
    "DESCRIPTOR_FOLLOWS",
    "ENCRYPTED",
    "EXTRA_UNICODE_PATH",
    "LONGEST_DESCRIPTOR",
    "MAX_NAME",
    "End",
    "Header",
    "central_headers",
    "find_end",
    "local_header",
]

MAX_NAME: Final = 4096
"""Characters of a name: PATH_MAX of Linux."""

ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13
DESCRIPTOR_FOLLOWS: Final = 1 << 3
"""Flags of a member."""
EXTRA_UNICODE_PATH: Final = 0x7075
"""The number of an extra field that holds a second name."""
LONGEST_DESCRIPTOR: Final = 24

_LONGEST_COMMENT: Final = 0xFFFF


class Header(NamedTuple):
    """What a header says about a member, sizes and offset widened by its zip64 field."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    extra: Mapping[int, bytes]
    attributes: int = 0
    """External attributes: ``st_mode`` in the upper 16 bits."""
    offset: int = 0
    """Where the header before the member begins."""

    @property
    def shown(self) -> str:
        """The name for messages."""
        return repr(self.name.decode("utf-8", "backslashreplace")[:MAX_NAME])

    def agrees_with(self, local: Header) -> bool:
        """True where the header before the member says the same; sizes and CRC-32 may be left to a descriptor."""
        if (self.name, self.method) != (local.name, local.method) or (self.flags ^ local.flags) & (
            ENCRYPTED | DESCRIPTOR_FOLLOWS | FLAG_UTF8
        ):
            return False
        other = local.extra.get(EXTRA_UNICODE_PATH)
        if other is not None and other[5:] != self.name:
            return False
        pairs = ((self.crc, local.crc), (self.packed, local.packed), (self.size, local.size))
        later = self.flags & DESCRIPTOR_FOLLOWS
        return all(theirs == mine or (later and theirs == 0) for mine, theirs in pairs)

    def descriptors(self) -> Iterator[bytes]:
        """The forms that the member's data descriptor may have (section 4.3.9)."""
        forms = [struct.pack("<L2Q", self.crc, self.packed, self.size)]
        if max(self.packed, self.size) <= FULL32:
            forms.append(struct.pack("<3L", self.crc, self.packed, self.size))
        for form in forms:
            yield form
            yield DESCRIPTOR_MAGIC + form


class End(NamedTuple):
    """What the end of an archive says."""

    start: int
    """Where the central directory begins."""
    length: int
    members: int
    trailing: int
    """Bytes behind the end."""


def find_end(stream: BinaryIO, size: int) -> End:
    """The end of an archive of ``size`` bytes. Raises :class:`ArchiveError` where there is none to rely on."""
    reach = min(size, END.size + _LONGEST_COMMENT)
    stream.seek(size - reach)
    tail = stream.read(reach)
    at = tail.rfind(END_MAGIC, 0, max(reach - END.size + 4, 0))
    if at < 0:
        raise ArchiveError("it is cut, or something follows it: its central directory is not at its end")
    _, disk, first_disk, here, count, length, start, comment = END.unpack_from(tail, at)
    position = size - reach + at
    trailing = size - position - END.size - comment
    if trailing < 0:
        raise ArchiveError("it is cut in the comment at its end")
    if disk or first_disk or here != count:
        raise ArchiveError("it is one of several parts")
    end = _find_end64(stream, position)
    if end is not None:
        position, wide = end
        for narrow, value, full in zip((count, length, start), wide, (FULL16, FULL32, FULL32), strict=True):
            if narrow not in (value, full):
                raise ArchiveError("its two end records contradict each other")
        count, length, start = wide
    if start + length != position:
        raise ArchiveError("its central directory is not where its end record says")
    return End(start, length, count, trailing)


def _find_end64(stream: BinaryIO, position: int) -> tuple[int, tuple[int, int, int]] | None:
    """The zip64 end record before the end record at ``position``: where it begins, and members, bytes and start
    of the central directory; None where there is none."""
    at = position - LOCATOR64.size
    if at < 0:
        return None
    stream.seek(at)
    magic, disk, start, disks = LOCATOR64.unpack(stream.read(LOCATOR64.size))
    if magic != LOCATOR64_MAGIC:
        return None
    if start + END64.size > at or disk or disks != 1:
        raise ArchiveError("its zip64 locator leads nowhere")
    stream.seek(start)
    magic, length, _, _, disk, first_disk, here, count, size, offset = END64.unpack(stream.read(END64.size))
    if magic != END64_MAGIC or start + 12 + length != at or disk or first_disk or here != count:
        raise ArchiveError("its zip64 end record is damaged")
    return start, (count, size, offset)


def central_headers(data: bytes, count: int) -> Iterator[Header]:
    """The headers in a central directory of ``count`` members. Raises :class:`ArchiveError` where it is damaged."""
    at = 0
    for _ in range(count):
        if data[at : at + 4] != CENTRAL_MAGIC or at + CENTRAL.size > len(data):
            raise ArchiveError("its central directory is damaged")
        (_, _, _, _, flags, method, _, _, crc, packed, size, *lengths, disk, _, attributes, offset) = (
            CENTRAL.unpack_from(data, at)
        )
        name_at = at + CENTRAL.size
        extra_at = name_at + lengths[0]
        at = extra_at + lengths[1] + lengths[2]
        extra = _extra_fields(data[extra_at : extra_at + lengths[1]])
        size, packed, offset = _widened(extra, size, packed, offset)
        if disk not in (0, FULL16):
            raise ArchiveError("it is one of several parts")
        yield Header(
            data[name_at:extra_at], flags, method, crc, packed, size, extra, attributes, offset=offset
        )
    if at != len(data):
        raise ArchiveError("its central directory does not hold as many members as its end record says")


def local_header(stream: BinaryIO, offset: int) -> tuple[Header, int]:
    """The header at ``offset``, and where the data behind it begins.

    Raises :class:`ArchiveError` where there is none.
    """
    stream.seek(offset)
    fixed = stream.read(LOCAL.size)
    if len(fixed) != LOCAL.size or not fixed.startswith(LOCAL_MAGIC):
        raise ArchiveError(f"no member begins at offset {offset:,}, where its central directory has one")
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = LOCAL.unpack(fixed)
    name = stream.read(name_length)
    extra = _extra_fields(stream.read(extra_length))
    size, packed = _widened(extra, size, packed)
    start = offset + LOCAL.size + name_length + extra_length
    return Header(name, flags, method, crc, packed, size, extra), start


def _extra_fields(data: bytes) -> dict[int, bytes]:
    """The fields behind a name, by their numbers. Raises :class:`ArchiveError`, also where one comes twice."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            if data[at:].strip(b"\0"):
                raise ArchiveError("the extra field of a member is damaged")
            break  # padding, as zipalign leaves it
        number, length = struct.unpack_from("<2H", data, at)
        at += 4
        if at + length > len(data) or number in fields:
            raise ArchiveError("the extra field of a member is damaged")
        fields[number] = data[at : at + length]
        at += length
    return fields


def _widened(extra: Mapping[int, bytes], *values: int) -> list[int]:
    """Values, each of which that is all ones is in the zip64 field instead (section 4.5.3)."""
    field = extra.get(EXTRA_ZIP64, b"")
    out = []
    at = 0
    for value in values:
        if value == FULL32 and field:
            if at + 8 > len(field):
                raise ArchiveError("the zip64 field of a member is too short")
            (value,) = struct.unpack_from("<Q", field, at)
            at += 8
        out.append(value)
    return out
