"""Writing a KPAK archive."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO, Literal

import msgspec
import zstandard

from kpacktools.kpack.format import (
    FORMAT_VERSION,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAX_BLOB_SIZE,
    MAX_KERNELS,
    SCHEME_NONE,
    SCHEME_ZSTD,
)
from kpacktools.kpack.toc import Blob, Kernel

__all__ = ["KpackWriter"]


class KpackWriter:
    """Writes one archive to an empty, seekable binary file, kernel by kernel.

    The same calls write the same bytes (for one version of the zstd library). Kernels and targets keep the
    order in which they are added. The file is an archive only once :meth:`close` has run, which leaving a
    ``with`` block does unless an exception leaves it; the stream stays the caller's to close.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        group_name: str,
        gfx_arch_family: str,
        scheme: Literal["none", "zstd-per-kernel"] = SCHEME_ZSTD,
        level: int = 3,
    ) -> None:
        self._stream = stream
        self._group_name = group_name
        self._gfx_arch_family = gfx_arch_family
        self._compressor = zstandard.ZstdCompressor(level=level) if scheme == SCHEME_ZSTD else None
        self._kernels: dict[str, dict[str, Kernel]] = {}
        self._targets: dict[str, None] = {}
        self._blobs: list[Blob] = []
        self._position = HEADER_SIZE
        self._closed = False
        # Without an offset of the TOC no reader takes the file for a finished one.
        stream.write(HEADER.pack(MAGIC, FORMAT_VERSION, 0).ljust(HEADER_SIZE, b"\0"))
        if self._compressor is not None:
            self._write(bytes(4))

    def add(
        self,
        key: str,
        target: str,
        data: bytes,
        *,
        type: str = "hsaco",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one code object under a TOC key and a target.

        Raises :class:`ValueError` when the pair is there already, when the archive is closed, and when it
        would outgrow what AMD's reader takes (4 GiB of frames, 1,048,576 kernels).
        """
        if self._closed:
            raise ValueError("the archive is closed")
        if target in self._kernels.get(key, ()):
            raise ValueError(f"{key!r} for {target!r} is in the archive already")
        if self._compressor is None:
            offset, size = self._write(data), len(data)
        else:
            frame = self._compressor.compress(data)
            offset, size = self._position + 4, len(frame)
            if len(self._blobs) == MAX_KERNELS or offset + size - HEADER_SIZE > MAX_BLOB_SIZE:
                raise ValueError(
                    f"{key!r} for {target!r} would make the archive larger than AMD's reader takes"
                )
            self._write(size.to_bytes(4, "little"))
            self._write(frame)
        kernel = Kernel(type, len(self._blobs), len(data), None if metadata is None else dict(metadata))
        self._kernels.setdefault(key, {})[target] = kernel
        self._targets[target] = None
        self._blobs.append(Blob(offset, size))

    def close(self) -> None:
        """Write the TOC, and its offset into the header. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        toc_offset = self._position
        self._write(msgspec.msgpack.encode(self._toc(toc_offset)))
        if self._compressor is not None:
            self._stream.seek(HEADER_SIZE)
            self._stream.write(len(self._blobs).to_bytes(4, "little"))
        self._stream.seek(0)
        self._stream.write(HEADER.pack(MAGIC, FORMAT_VERSION, toc_offset))

    def __enter__(self) -> KpackWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def _toc(self, toc_offset: int) -> dict[str, object]:
        """The TOC with its fields in the order of AMD's own archives."""
        toc: dict[str, object] = {
            "format_version": FORMAT_VERSION,
            "group_name": self._group_name,
            "gfx_arch_family": self._gfx_arch_family,
            "gfx_arches": list(self._targets),
            "toc": self._kernels,
        }
        if self._compressor is None:
            return toc | {"compression_scheme": SCHEME_NONE, "blobs": self._blobs}
        zstd = {"zstd_offset": HEADER_SIZE, "zstd_size": toc_offset - HEADER_SIZE}
        return toc | {"compression_scheme": SCHEME_ZSTD} | zstd

    def _write(self, data: bytes) -> int:
        """Append to the file and return where the data begins."""
        offset = self._position
        self._stream.write(data)
        self._position += len(data)
        return offset
