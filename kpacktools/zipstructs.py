"""The records of a ZIP file and the numbers in them, after PKWARE's APPNOTE.TXT 6.3.10 (sections 4.3 to 4.5).

All are little-endian. Readers and writers of wheels share these.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "CENTRAL",
    "CENTRAL_MAGIC",
    "DEFLATED",
    "DESCRIPTOR_MAGIC",
    "END",
    "END64",
    "END64_MAGIC",
    "END_MAGIC",
    "EXTRA_ZIP64",
    "FLAG_UTF8",
    "FULL16",
    "FULL32",
    "LOCAL",
    "LOCAL_MAGIC",
    "LOCATOR64",
    "LOCATOR64_MAGIC",
    "STORED",
]

STORED: Final = 0
DEFLATED: Final = 8
"""Methods of compression; wheels use no others."""

FLAG_UTF8: Final = 1 << 11
"""The name is UTF-8."""

FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
"""All ones: the value is in a zip64 record or field instead."""
EXTRA_ZIP64: Final = 0x0001
"""The number of that extra field."""

LOCAL_MAGIC: Final = b"PK\3\4"
LOCAL: Final = struct.Struct("<4s5H3L2H")
"""Magic, version needed, flags, method, time, date, CRC-32, packed, size, length of the name, of the extra field."""

CENTRAL_MAGIC: Final = b"PK\1\2"
CENTRAL: Final = struct.Struct("<4s2B5H3L5H2L")
"""Magic, version made by, system, version needed, flags, method, time, date, CRC-32, packed, size, lengths of name,
extra field and comment, disk, internal attributes, external attributes, offset of the local header."""

END_MAGIC: Final = b"PK\5\6"
END: Final = struct.Struct("<4s4H2LH")
"""Magic, disk, first disk of the directory, members on this disk, in all, bytes of the directory, its offset, length
of the comment."""

END64_MAGIC: Final = b"PK\6\6"
END64: Final = struct.Struct("<4sQ2H2L4Q")
"""Magic, length of what follows, versions made by and needed, then as in :data:`END`, wider."""

LOCATOR64_MAGIC: Final = b"PK\6\7"
LOCATOR64: Final = struct.Struct("<4sLQL")
"""Magic, disk and offset of the zip64 end record, number of disks."""

DESCRIPTOR_MAGIC: Final = b"PK\7\10"
"""Before a data descriptor, where the writer likes."""
