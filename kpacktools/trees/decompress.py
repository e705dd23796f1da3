"""Compressed streams, decompressed in blocks, once from the start to the end, within limits.

Formats: Zstandard (RFC 8878) and xz. Both may hold several frames or streams, one after the other. The libraries are
imported by those who need them: most runs unpack nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, Literal, Protocol

from kpacktools.limits import FREE_SIZE, max_ratio, max_size, too_dense, too_large

__all__ = ["BLOCK", "ArchiveError", "ArchiveForm", "Digest", "decompressed"]

ArchiveForm = Literal["zst", "xz"]
"""How an archive is compressed, as its name ends: ``.tar.zst``, ``.tar.xz``."""

BLOCK: Final = 1 << 18
"""Bytes that are decompressed at once."""

MAX_RATIO: Final = 1000
"""Decompressed bytes for each compressed one unless the environment says otherwise, blocks of zeros left out (those
of a sparse file are no bomb: they take no room); kernels that resemble each other have been seen at 72."""
MAX_MEMORY: Final = 1 << 27
"""Bytes that a decoder may take: ``zstd --long=27`` and ``xz -9`` need less."""

_READ: Final = 1 << 17
_ZEROS: Final = bytes(BLOCK)
_LFS_POINTER: Final = b"version https://"
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_LONGEST_HEADER: Final = 18
_ZSTD_RLE: Final = 1


class ArchiveError(Exception):
    """An archive is damaged, cut or not to be trusted; ``str(error)`` says in what, without the path."""


class Digest(Protocol):
    """What is told every compressed byte; a :mod:`hashlib` object."""

    def update(self, data: bytes, /) -> None:
        """Take note of the next bytes."""


class _Source:
    """A stream that is read once, by a decoder, with a digest that learns every byte of it."""

    def __init__(self, stream: BinaryIO, digest: Digest | None) -> None:
        self._stream = stream
        self._digest = digest

    def read(self, size: int = _READ) -> bytes:
        data = self._stream.read(size)
        if self._digest is not None:
            self._digest.update(data)
        return data


def decompressed(stream: BinaryIO, form: ArchiveForm, digest: Digest | None = None) -> Iterator[bytes]:
    """The decompressed bytes of a file, at most :data:`BLOCK` at a time; no block is empty.

    The whole file is read, and ``digest`` is told all of it, by the time the iterator ends.

    Raises :class:`ArchiveError` where the file is damaged, cut, or grows beyond what is plausible;
    :class:`OSError`.
    """
    size = stream.seek(0, 2)
    stream.seek(0)
    if stream.read(len(_LFS_POINTER)) == _LFS_POINTER:
        raise ArchiveError("it is a Git LFS pointer, not the file itself")
    stream.seek(0)
    source = _Source(stream, digest)
    return _limited(_zstd_blocks(stream, source) if form == "zst" else _xz_blocks(source), size)


def _limited(blocks: Iterable[bytes], compressed: int) -> Iterator[bytes]:
    most, ratio = max_size(), max_ratio(MAX_RATIO)
    total = dense = 0
    for block in blocks:
        total += len(block)
        if block != _ZEROS:
            dense += len(block)
        if total > most:
            raise ArchiveError(f"it {too_large(most)}")
        if dense > FREE_SIZE and dense > ratio * compressed:
            raise ArchiveError(f"its {too_dense(compressed, ratio)}")
        yield block


def _xz_blocks(source: _Source) -> Iterator[bytes]:
    import lzma

    data = source.read()
    if not data:
        raise ArchiveError("it is empty")
    try:
        while data:
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY)
            while not decoder.eof:
                if decoder.needs_input and not data:
                    data = source.read()
                    if not data:
                        raise ArchiveError("it is cut: it ends inside an xz stream")
                block = decoder.decompress(data, BLOCK)
                data = b""
                if block:
                    yield block
            # Streams may be padded with zeros.
            data = decoder.unused_data.lstrip(b"\0")
            while not data and (more := source.read()):
                data = more.lstrip(b"\0")
    except lzma.LZMAError as error:
        raise ArchiveError(f"it cannot be decompressed: {error}") from error


def _zstd_blocks(stream: BinaryIO, source: _Source) -> Iterator[bytes]:
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY)
    try:
        # (the stubs want more of a source than the reader does)
        reader = decoder.stream_reader(source, _READ, read_across_frames=True, closefd=False)  # type: ignore[arg-type]
        while block := reader.read(BLOCK):
            yield block
        if not _ends_with_a_frame(stream):
            raise ArchiveError("it is cut: it ends inside a zstd frame")
    except zstandard.ZstdError as error:
        raise ArchiveError(f"it cannot be decompressed: {error}") from error


def _ends_with_a_frame(stream: BinaryIO) -> bool:
    """True where a Zstandard file ends where its last frame does (RFC 8878, 3.1.1).

    The decoder takes the end of its input for the end of the data, so that a file that was cut anywhere, even
    before its checksum, looks whole. Only the headers of frames and blocks are read here.
    """
    import zstandard

    size = stream.seek(0, 2)
    position = 0
    while position < size:
        stream.seek(position)
        head = stream.read(_ZSTD_LONGEST_HEADER)
        if int.from_bytes(head[:4], "little") & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(head[4:8], "little")
            continue
        checked = zstandard.get_frame_parameters(head).has_checksum
        position += zstandard.frame_header_size(head)
        last = 0
        while not last:
            stream.seek(position)
            head = stream.read(3)
            if len(head) < 3:
                return False
            block = int.from_bytes(head, "little")
            last = block & 1
            position += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
        position += 4 if checked else 0
    return 0 < position == size
