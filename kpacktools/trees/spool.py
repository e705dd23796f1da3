"""A spool: room on disk for what has to be read out of order, gone when nobody needs it any more."""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from kpacktools.trees.decompress import BLOCK
from kpacktools.trees.rawstream import RawStream

__all__ = ["Spool"]

_ZEROS: Final = bytes(BLOCK)


class Spool:
    """One temporary file without a name that any number of streams are stored in, made when the first one is.

    It is removed by the system when the last :class:`Spool` or stream over it is gone, however the process
    ends. All methods may be called from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: io.FileIO | None = None
        self._end = 0

    def store(self, blocks: Iterable[bytes], size: int) -> int:
        """Store a stream of ``size`` bytes and return where it begins; whole blocks of zeros take no room.

        Raises :class:`OSError`, also where the stream has more bytes, and what ``blocks`` raises.
        """
        start = position = self.reserve(size)
        for block in blocks:
            if position + len(block) > start + size:
                raise OSError(errno.EIO, f"more than {size:,} bytes came out of it")
            if block != _ZEROS:
                self.write(block, position)
            position += len(block)
        return start

    def open(self, start: int, size: int) -> BinaryIO:
        """A seekable stream of ``size`` bytes from ``start`` on."""
        return io.BufferedReader(_Part(self, start, size))

    def read_at(self, size: int, offset: int) -> bytes:
        """Up to so many bytes. Raises :class:`OSError`."""
        file = self._opened()
        if sys.platform != "win32":
            return os.pread(file.fileno(), size, offset)
        with self._lock:
            file.seek(offset)
            return file.read(size)

    def reserve(self, size: int) -> int:
        """Room for a stream of ``size`` bytes that is written bit by bit: where it begins. Raises :class:`OSError`."""
        with self._lock, _refusals_named():
            start = self._end
            self._end += size
            self._opened().truncate(self._end)
            return start

    def write(self, block: bytes, offset: int) -> None:
        """Write some bytes where room was reserved. Raises :class:`OSError`."""
        with _refusals_named():
            self._write(block, offset)

    def _write(self, block: bytes, offset: int) -> None:
        file = self._opened()
        rest = memoryview(block)
        while rest:
            if sys.platform != "win32":
                done = os.pwrite(file.fileno(), rest, offset)
            else:
                with self._lock:
                    file.seek(offset)
                    done = file.write(rest)
            rest = rest[done:]
            offset += done

    def _opened(self) -> io.FileIO:
        if self._file is None:
            import tempfile  # most spools stay empty

            temporary = tempfile.TemporaryFile(buffering=0, prefix="kpacktools-")  # noqa: SIM115 (outlives this)
            self._file = temporary
            weakref.finalize(self, temporary.close)
        return self._file


@contextmanager
def _refusals_named() -> Iterator[None]:
    """Says of an :class:`OSError` where the spool is: the user named another path."""
    try:
        yield
    except OSError as error:
        import tempfile

        where = tempfile.gettempdir()
        raise OSError(error.errno, f"{error.strerror} while unpacking to {where} (see TMPDIR)") from error


class _Part(RawStream):
    """Some bytes of a spool as a file of their own; keeps the spool alive."""

    def __init__(self, spool: Spool, start: int, size: int) -> None:
        super().__init__(size)
        self._spool = spool
        self._start = start

    def take(self, wanted: int, offset: int) -> bytes:
        return self._spool.read_at(wanted, self._start + offset)
