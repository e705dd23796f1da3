"""Writing one ZIP file: every byte is read once, and hashed, checked and written in the same pass.

There are three ways for a member to come in, of which :mod:`kpacktools.outputs.zipset` chooses one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import Final, NamedTuple

import deflate

from kpacktools.outputs.crew import Crew, SharedDigest
from kpacktools.outputs.members import BLOCK, Member, blocks, is_compressed, read
from kpacktools.outputs.zipformat import DEFLATED, STORED, Packed, ZipFormat

__all__ = ["AHEAD", "ONE_SHOT", "Batch", "Tick", "ZipWriter"]

ONE_SHOT: Final = 16 << 20
"""The largest member that is deflated in one piece, by libdeflate; those above it go through zlib."""

_LEVEL: Final = 5
"""Of libdeflate. On the 2,501 code objects of AITER this is 0.3 % smaller than zlib's 6 and three times as fast;
its own 6 is 1.3 % smaller still, for a sixth more time."""
_LARGE: Final = 40 << 10
_LARGE_LEVEL: Final = 6
"""From so many bytes on, where half as much more is saved in the same time. It makes up for what a wheel holds beyond
its payload, so that AITER's are no larger than those of zlib's 6 without a bill of materials."""
_ZLIB_LEVEL: Final = 6
_WINDOW: Final = 1 << 15
"""How far back a deflate stream refers (RFC 1951)."""
AHEAD: Final = 3 * ONE_SHOT
"""Unpacked bytes that may be in work at once; they and their packed form are most of the memory used."""

_VECTOR: Final = 1024 if hasattr(os, "pwritev") else 0
"""Parts that one call writes at most (IOV_MAX of Linux)."""

Tick = Callable[[int], None]
"""Told how many more bytes are done; may raise to end the work."""


class Batch(NamedTuple):
    """Members packed one after another; the offsets of the rows count from the start of the first part."""

    parts: list[bytes | bytearray]
    size: int
    """Bytes of all parts."""
    rows: list[Packed]


class ZipWriter:
    """One archive in the making.

    :meth:`store` and :meth:`pack` may be called from any thread, everything else only from one. The file is
    no archive before :meth:`finish`; leaving the ``with`` block closes it, whatever state it is in.
    """

    def __init__(self, path: str, form: ZipFormat) -> None:
        """Create the file ``path``; :class:`FileExistsError` where there is one."""
        self._form = form
        self._rows: list[Packed] = []
        self._tail = 0
        self._lock = threading.Lock()
        self._pwrite = getattr(os, "pwrite", self._seek_and_write)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    @property
    def rows(self) -> list[Packed]:
        """What has been written, in the order of the archive."""
        return sorted(self._rows, key=attrgetter("offset"))

    def place(self, member: Member) -> int:
        """Make room for a stored member; returns the offset to give to :meth:`store`."""
        offset = self._tail
        self._tail += self._form.header_length(member.arcname.encode(), member.size) + member.size
        return offset

    def store(self, member: Member, offset: int, crew: Crew, tick: Tick) -> None:
        """Write a member as it is into the room that :meth:`place` made.

        Raises like :func:`kpacktools.outputs.members.read`.
        """
        name = member.arcname.encode()
        digest, crc = SharedDigest(crew), 0
        position = offset + self._form.header_length(name, member.size)
        for block in blocks(member):
            digest.update(block)
            crc = deflate.crc32(block, crc)
            position = self._write(position, block)
            tick(len(block))
        self._write(offset, self._form.header(name, STORED, crc, member.size, member.size))
        self._rows.append(_row(member, STORED, crc, member.size, digest.digest(), offset))

    def deflate(self, member: Member, crew: Crew, tick: Tick) -> None:
        """Append a member of any size, deflated by the whole crew; stored if that does not make it smaller.

        libdeflate would be twice as fast but makes whole streams only, which would have to be in memory. zlib
        can end a block without ending the stream, and begin the next with the bytes before it as dictionary:
        the blocks are independent work, and one stream that is as small as if made in one go.

        Raises like :func:`kpacktools.outputs.members.read`.
        """
        name = member.arcname.encode()
        offset = self._tail
        start = end = offset + self._form.header_length(name, member.size)
        digest, crc, done, window = hashlib.sha256(), 0, 0, b""
        pending: deque[Future[bytes]] = deque()
        for block in blocks(member):
            done += len(block)
            pending.append(crew.submit(partial(_deflate_block, block, window, done == member.size)))
            window = block[-_WINDOW:]
            digest.update(block)
            crc = deflate.crc32(block, crc)
            if len(pending) > min(2 * crew.jobs, AHEAD // (2 * BLOCK)):
                end = self._write(end, crew.result(pending.popleft()))
            tick(len(block))
        while pending:
            end = self._write(end, crew.result(pending.popleft()))
        if end - start >= member.size:
            self.store(member, self.place(member), crew, _ignore)
            return
        self._write(offset, self._form.header(name, DEFLATED, crc, end - start, member.size))
        self._rows.append(_row(member, DEFLATED, crc, end - start, digest.digest(), offset))
        self._tail = end

    def pack(self, members: Iterable[Member]) -> Batch:
        """Read and pack members, each in memory as a whole; deflated where that makes it smaller.

        Raises like :func:`kpacktools.outputs.members.read`.
        """
        parts: list[bytes | bytearray] = []
        rows: list[Packed] = []
        offset = 0
        for member in members:
            data: bytes | bytearray = read(member)
            name, size, method = member.arcname.encode(), member.size, STORED
            digest = hashlib.sha256(data).digest()
            # libdeflate's CRC is several times faster but always gives up the interpreter lock, which costs
            # more than a short computation.
            crc = zlib.crc32(data) if size < 1 << 15 else deflate.crc32(data)
            if not is_compressed(member.arcname):
                deflated = deflate.deflate_compress(data, _LEVEL if size < _LARGE else _LARGE_LEVEL)
                if len(deflated) < size:
                    method, data = DEFLATED, deflated
            header = self._form.header(name, method, crc, len(data), size)
            parts += (header, data)
            rows.append(_row(member, method, crc, len(data), digest, offset))
            offset += len(header) + len(data)
        return Batch(parts, offset, rows)

    def append(self, batch: Batch) -> None:
        """Append what :meth:`pack` made."""
        base = self._tail
        self._tail = self._write_parts(base, batch)
        self._rows.extend([row._replace(offset=base + row.offset) for row in batch.rows])

    def finish(self) -> int:
        """Write the central directory; returns the size of the archive."""
        end = self._write(self._tail, self._form.directory(self.rows, self._tail))
        # A member that was deflated in vain may have left bytes behind the end.
        os.ftruncate(self._file, end)
        return end

    def _write_parts(self, position: int, batch: Batch) -> int:
        """Write a batch at ``position``, where the system can without joining its parts; the position behind it."""
        if len(batch.parts) <= _VECTOR:
            written = os.pwritev(self._file, batch.parts, position)
            if written == batch.size:
                return position + written
        return self._write(position, b"".join(batch.parts))

    def _write(self, position: int, data: bytes) -> int:
        """Write all of ``data`` at ``position``; returns the position behind it."""
        rest = memoryview(data)
        while rest:
            written = self._pwrite(self._file, rest, position)
            rest = rest[written:]
            position += written
        return position

    def _seek_and_write(self, file: int, data: memoryview, position: int) -> int:
        """``os.pwrite`` for systems that have none (Windows)."""
        with self._lock:
            os.lseek(file, position, os.SEEK_SET)
            return os.write(file, data)


def _deflate_block(block: bytes, window: bytes, last: bool) -> bytes:
    packer = zlib.compressobj(
        _ZLIB_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, window
    )
    return packer.compress(block) + packer.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


def _row(member: Member, method: int, crc: int, packed: int, digest: bytes, offset: int) -> Packed:
    mode = 0o755 if member.mode & 0o111 else 0o644
    return Packed(member.arcname, mode, method, crc, packed, member.size, digest, offset)


def _ignore(size: int) -> None:
    """The tick of bytes that have been counted already."""
