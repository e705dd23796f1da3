"""Reading the code objects of a KPAK archive, one at a time and in bounded memory."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, NamedTuple

import zstandard

from kpacktools.kpack.format import MAX_KERNELS, SCHEME_NONE, KpackError
from kpacktools.kpack.toc import Blob, Kernel, Toc, read_toc

__all__ = ["CheckedKernel", "KpackReader", "frame_index", "stored_count", "verify"]

_CHUNK = 1 << 20
"""Bytes of uncompressed data handed on at a time."""

_WHOLE = 4 << 20
"""Kernels of up to so many bytes are decompressed in one call, which is faster than block by block."""

_MAX_WINDOW = 128 << 20
"""Bytes of history that a frame may ask to be kept: what the zstd tools take unless told otherwise."""

_HEAD = 64
"""Bytes of a kernel that :func:`verify` hands on."""

_MAX_FRAME_HEADER = 18
"""Bytes (RFC 8878, 3.1.1.1)."""


class KpackReader:
    """The kernels of one archive.

    ``stream`` is a seekable binary file of ``size`` bytes that stays the caller's to close. A reader moves
    its position, so threads need a reader and a stream each; they may share the ``toc`` that
    :func:`kpacktools.kpack.read_toc` made, which is else read from the stream, and the ``frames`` that
    :func:`frame_index` found.

    Raises :class:`KpackError` for an archive whose TOC is wrong, and :class:`OSError` where the stream does.
    """

    def __init__(
        self, stream: BinaryIO, size: int, toc: Toc | None = None, frames: array[int] | None = None
    ) -> None:
        self.toc: Toc = read_toc(stream, size) if toc is None else toc
        self._stream = stream
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        # Start and size of the frames found so far, alternating.
        self._frames = array("Q") if frames is None else frames
        self._frame_count: int | None = None

    def stream(self, kernel: Kernel) -> Iterator[bytes]:
        """Yield the kernel's bytes, decompressed, in pieces of at most 4 MiB.

        Raises :class:`KpackError` (while iterating) as soon as the archive's bytes contradict its TOC: a
        frame that is cut, damaged or followed by more, a kernel that is not ``original_size`` bytes long. No
        more than ``original_size`` bytes are yielded, and none where another size is announced.
        """
        whole = self.whole(kernel)
        if whole is not None:
            yield whole
            return
        pieces = self._stored(kernel) if self.toc.scheme == SCHEME_NONE else self._decompressed(kernel)
        left = kernel.original_size
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                raise _too_long(kernel)
            yield piece
        if left:
            raise _too_short(kernel, kernel.original_size - left)

    def whole(self, kernel: Kernel) -> bytes | None:
        """All bytes of a kernel of up to 4 MiB, decompressed, the fastest way; None for a larger one.

        Raises what :meth:`stream` raises.
        """
        if kernel.original_size > _WHOLE:
            return None
        if self.toc.scheme == SCHEME_NONE:
            blob = self._blob(kernel)
            return self._bytes_at(kernel, blob.offset, blob.size)
        start, size = self._frame(kernel)
        if size > _WHOLE:
            return None
        frame = self._bytes_at(kernel, start, size)
        try:
            _check_announced(kernel, zstandard.get_frame_parameters(frame).content_size)
            # A limit of 0 would mean none.
            limit = max(kernel.original_size, 1)
            data = self._decompressor.decompress(frame, max_output_size=limit, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise _damaged(kernel, error) from None
        if len(data) != kernel.original_size:
            raise _too_long(kernel) if len(data) > kernel.original_size else _too_short(kernel, len(data))
        return data

    def read(self, kernel: Kernel) -> bytes:
        """The kernel's bytes, decompressed, however many. Raises what :meth:`stream` raises."""
        return b"".join(self.stream(kernel))

    def _blob(self, kernel: Kernel) -> Blob:
        assert self.toc.blobs is not None
        blob = self.toc.blobs[kernel.ordinal]
        if blob.size != kernel.original_size:
            problem = f"its blob has {blob.size} bytes, its TOC entry says {kernel.original_size}"
            raise _corrupt(kernel, problem)
        return blob

    def _stored(self, kernel: Kernel) -> Iterator[bytes]:
        blob = self._blob(kernel)
        for start in range(0, blob.size, _CHUNK):
            yield self._bytes_at(kernel, blob.offset + start, min(_CHUNK, blob.size - start))

    def _decompressed(self, kernel: Kernel) -> Iterator[bytes]:
        start, size = self._frame(kernel)
        head = self._bytes_at(kernel, start, min(size, _MAX_FRAME_HEADER))
        try:
            parameters = zstandard.get_frame_parameters(head)
            _check_announced(kernel, parameters.content_size)
            _check_window(kernel, parameters.window_size)
            decompressor = self._decompressor.decompressobj()
            length = zstandard.frame_header_size(head)
            # A block never decompresses to more than 128 KiB, so neither does a piece.
            for piece in self._frame_pieces(kernel, start, size, length, parameters.has_checksum):
                yield decompressor.decompress(piece)
        except zstandard.ZstdError as error:
            raise _damaged(kernel, error) from None

    def _frame_pieces(
        self, kernel: Kernel, start: int, size: int, length: int, has_checksum: bool
    ) -> Iterator[bytes]:
        """A frame's header of ``length`` bytes, each of its blocks, and its checksum (RFC 8878, 3.1.1)."""
        position, end = start, start + size
        last = False
        while True:
            if position + length > end:
                raise _corrupt(kernel, f"its zstd frame is cut after {size} bytes")
            yield self._bytes_at(kernel, position, length)
            position += length
            if last:
                break
            block = int.from_bytes(self._bytes_at(kernel, position, 3), "little")
            last = bool(block & 1)
            is_rle = block >> 1 & 3 == 1
            length = 3 + (1 if is_rle else block >> 3)
        if end - position != 4 * has_checksum:
            raise _corrupt(kernel, f"its zstd frame ends at byte {position - start} of {size}")
        if has_checksum:
            yield self._bytes_at(kernel, position, 4)

    def _frame(self, kernel: Kernel) -> tuple[int, int]:
        """Where the kernel's zstd frame lies: offset in the file, bytes.

        Frames are found by walking the size prefixes, no further than asked: a kernel is readable even where
        the blob is broken behind it.
        """
        at = 2 * kernel.ordinal
        if at >= len(self._frames):
            self._walk(kernel)
        return self._frames[at], self._frames[at + 1]

    def _walk(self, kernel: Kernel) -> None:
        """Find the frames up to a kernel's."""
        assert self.toc.zstd_offset is not None
        assert self.toc.zstd_size is not None
        end = self.toc.zstd_offset + self.toc.zstd_size
        if self._frame_count is None:
            count = int.from_bytes(self._bytes_at(kernel, self.toc.zstd_offset, 4), "little")
            if count > MAX_KERNELS:
                raise KpackError(
                    "kpack-unsupported", f"a zstd blob of {count} kernels; AMD's reader takes {MAX_KERNELS}"
                )
            self._frame_count = count
        if kernel.ordinal >= self._frame_count:
            raise _corrupt(kernel, f"the zstd blob holds {self._frame_count} kernels")
        frames = self._frames
        prefix = sum(frames[-2:]) if frames else self.toc.zstd_offset + 4
        for number in range(len(frames) // 2, kernel.ordinal + 1):
            position = prefix + 4
            if position > end:
                raise _corrupt(kernel, f"the zstd blob ends before frame {number}")
            size = int.from_bytes(self._bytes_at(kernel, prefix, 4), "little")
            prefix = position + size
            if prefix > end:
                raise _corrupt(kernel, f"frame {number} of {size} bytes reaches beyond the zstd blob")
            frames.append(position)
            frames.append(size)

    def _bytes_at(self, kernel: Kernel, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        data = self._stream.read(size)
        if len(data) < size:
            raise _corrupt(kernel, f"the file ends at byte {offset + len(data)}, inside this kernel")
        return data


def frame_index(stream: BinaryIO, toc: Toc) -> array[int] | None:
    """Where the zstd frames of an archive lie, for readers that share the walk; None for scheme ``none``.

    Start and size alternate, by ordinal. The index ends where the blob is broken: readers then say so for the
    kernels behind.
    """
    if toc.scheme == SCHEME_NONE or not toc.totals.kernels:
        return None
    reader = KpackReader(stream, 0, toc)
    with suppress(KpackError):
        # As far as there are frames: readers that share the index never add to it.
        last = min(toc.totals.last_ordinal, stored_count(stream, toc) - 1)
        if last >= 0:
            reader._frame(Kernel("hsaco", last, 0))
    return reader._frames


def stored_count(stream: BinaryIO, toc: Toc) -> int:
    """How many code objects an archive stores, whether its TOC names them or not.

    Raises :class:`KpackError` where the file ends before it says, and :class:`OSError` where the stream does.
    """
    if toc.scheme == SCHEME_NONE:
        return len(toc.blobs or ())
    assert toc.zstd_offset is not None
    stream.seek(toc.zstd_offset)
    count = stream.read(4)
    if len(count) < 4:
        raise KpackError("kpack-corrupt", f"the file ends at byte {toc.zstd_offset + len(count)}")
    return int.from_bytes(count, "little")


class CheckedKernel(NamedTuple):
    """What came of decompressing one kernel."""

    key: str
    target: str
    size: int
    """Bytes, as the TOC entry says."""
    result: str | KpackError
    """The sha256 of the decompressed bytes in hexadecimal, or what is wrong with them."""
    head: bytes = b""
    """The first 64 bytes at most, decompressed: an ELF header, in most kernels. Empty for a broken one."""


def verify(reader: KpackReader) -> Iterator[CheckedKernel]:
    """Decompress and hash every kernel of the archive, in the order they have in the file.

    A broken kernel is a result like any other, so it does not hide the rest. Raises :class:`OSError` where
    the stream does.
    """
    previous: tuple[int, int] | None = None
    result: str | KpackError = ""
    head = b""
    for key, target, kernel in reader.toc.in_blob_order():
        # Entries that share a blob follow each other: they cost one decompression, however many they are.
        if (kernel.ordinal, kernel.original_size) != previous:
            result, head = _digest(reader, kernel)
            previous = (kernel.ordinal, kernel.original_size)
        yield CheckedKernel(key, target, kernel.original_size, result, head)


def _digest(reader: KpackReader, kernel: Kernel) -> tuple[str | KpackError, bytes]:
    sha256 = hashlib.sha256()
    head = b""
    try:
        for piece in reader.stream(kernel):
            if len(head) < _HEAD:
                head += piece[: _HEAD - len(head)]
            sha256.update(piece)
    except KpackError as error:
        # A copy: the error itself would, through its traceback, keep the reader and its buffers alive.
        return KpackError(error.finding, error.message, error.hint), b""
    return sha256.hexdigest(), head


def _check_announced(kernel: Kernel, announced: int) -> None:
    if announced not in (kernel.original_size, zstandard.CONTENTSIZE_UNKNOWN):
        problem = f"its zstd frame announces {announced} bytes, its TOC entry says {kernel.original_size}"
        raise _corrupt(kernel, problem)


def _check_window(kernel: Kernel, window: int) -> None:
    if window > _MAX_WINDOW:
        raise KpackError(
            "kpack-unsupported",
            f"kernel {kernel.ordinal}: its zstd frame needs {window} bytes of history, "
            f"expected at most {_MAX_WINDOW}",
        )


def _too_long(kernel: Kernel) -> KpackError:
    return _corrupt(kernel, f"it is longer than the {kernel.original_size} bytes of its TOC entry")


def _too_short(kernel: Kernel, found: int) -> KpackError:
    return _corrupt(kernel, f"it has {found} bytes, its TOC entry says {kernel.original_size}")


def _damaged(kernel: Kernel, error: zstandard.ZstdError) -> KpackError:
    return _corrupt(kernel, f"its zstd frame is cut or damaged ({error})")


def _corrupt(kernel: Kernel, problem: str) -> KpackError:
    return KpackError("kpack-corrupt", f"kernel {kernel.ordinal}: {problem}")
