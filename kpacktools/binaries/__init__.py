"""Host ELF and PE files, read by their tables: each is bounded before it is read, whatever the file claims.

:mod:`~kpacktools.binaries.elf` and :mod:`~kpacktools.binaries.pe` know one format each; here is what they
share. General readers take ten times as long and follow whatever offset they find, in files that may have
gigabytes.
"""

from __future__ import annotations

import io
from typing import BinaryIO, NamedTuple

__all__ = ["BinaryFile", "DamagedError", "Section"]

_MAX_TABLE_SIZE = 64 << 20
"""Bytes that are read at once."""
_STRING_SIZES = (256, 32 << 10)
"""Bytes in which a string is looked for: nearly all are short, some run paths are not."""


class DamagedError(Exception):
    """Part of a file contradicts itself; the text says what."""


class Section(NamedTuple):
    """Where the bytes of one section are."""

    name: str
    offset: int
    size: int
    """Bytes in the file: 0 where it only takes room in memory."""


class BinaryFile:
    """A seekable stream, read in pieces that are checked against its size."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.size = stream.seek(0, io.SEEK_END)

    def peek(self, offset: int, size: int) -> bytes:
        """So many bytes, or those of them that there are."""
        if offset >= self.size:
            return b""
        self._stream.seek(offset)
        return self._stream.read(size)

    def read(self, offset: int, size: int, what: str, limit: int = _MAX_TABLE_SIZE) -> bytes:
        """Exactly so many bytes.

        Raises :class:`DamagedError`, which calls them ``what``, where there are fewer, or more than ``limit``.
        """
        if size > limit:
            raise DamagedError(f"{what} has {size} bytes, expected at most {limit}")
        self.check(offset, size, what)
        return self.peek(offset, size)

    def check(self, offset: int, size: int, what: str) -> None:
        """Raises :class:`DamagedError` where the file does not have these bytes."""
        if offset + size > self.size:
            raise DamagedError(f"{what} should be bytes {offset}..{offset + size} of its {self.size}")

    def string(self, offset: int) -> str:
        """The NUL-terminated string that begins there.

        Raises :class:`DamagedError` where it does not end within 32 KiB.
        """
        for size in _STRING_SIZES:
            text, end, _ = self.peek(offset, size).partition(b"\0")
            if end:
                return text.decode(errors="replace")
        raise DamagedError(f"the string at byte {offset} has no end")
