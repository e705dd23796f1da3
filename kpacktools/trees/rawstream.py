"""Seekable streams over anything that gives bytes from a place on."""

from __future__ import annotations

import io
import os

__all__ = ["RawStream"]


class RawStream(io.RawIOBase):
    """A readable, seekable stream of ``size`` bytes; a subclass says how some of them are had."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def take(self, wanted: int, offset: int) -> bytes:
        """Some bytes from ``offset`` on, at least one and at most ``wanted``. Raises :class:`OSError`."""
        raise NotImplementedError

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position, also behind the end. Raises :class:`ValueError` for one before the start."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError(f"negative seek position {origin + offset}")
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill some of a buffer; 0 at the end."""
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self.take(wanted, self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
