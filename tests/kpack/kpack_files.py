"""Archives for tests: written by the writer, or put together by hand where they are to be wrong."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from kpacktools.kpack.writer import KpackWriter


def written(
    kernels: Mapping[tuple[str, str], bytes], scheme: Any = "zstd-per-kernel", **options: Any
) -> bytes:
    """An archive of (key, target) -> code object."""
    file = io.BytesIO()
    with KpackWriter(file, group_name="test", gfx_arch_family="gfx942", scheme=scheme, **options) as writer:
        for (key, target), data in kernels.items():
            writer.add(key, target, data)
    return file.getvalue()


def entry(ordinal: int = 0, original_size: int = 4, **more: object) -> dict[str, object]:
    """A kernel's TOC entry."""
    return {"type": "hsaco", "ordinal": ordinal, "original_size": original_size, **more}


def toc_of(*entries: dict[str, object], **fields: object) -> dict[str, object]:
    """The TOC of an archive of scheme none with one blob of four bytes; ``fields`` replace its own."""
    return {
        "format_version": 1,
        "group_name": "test",
        "gfx_arch_family": "gfx942",
        "gfx_arches": ["gfx942"],
        "toc": {f"k{i}": {"gfx942": kernel} for i, kernel in enumerate(entries or (entry(),))},
        "compression_scheme": "none",
        "blobs": [{"offset": 64, "size": 4}],
        **fields,
    }


def zstd_toc(*entries: dict[str, object], size: int, **fields: object) -> dict[str, object]:
    """The TOC of an archive of scheme zstd-per-kernel whose blob of ``size`` bytes begins at 64."""
    toc = toc_of(*entries, compression_scheme="zstd-per-kernel", zstd_offset=64, zstd_size=size)
    del toc["blobs"]
    return toc | fields


def zstd_blob(*frames: bytes) -> bytes:
    """A count and the frames, each after its size."""
    return struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(f)) + f for f in frames)


def archive(toc: object, blob: bytes = b"code") -> bytes:
    """A file with this TOC (encoded, unless it is bytes) behind this blob."""
    encoded = toc if isinstance(toc, bytes) else msgspec.msgpack.encode(toc)
    return struct.pack("<4sIQ", b"KPAK", 1, 64 + len(blob)).ljust(64, b"\0") + blob + encoded


def mapping(*pairs: tuple[object, bytes]) -> bytes:
    """A MessagePack map of encoded values, names as often as they are given."""
    return bytes([0x80 | len(pairs)]) + b"".join(
        msgspec.msgpack.encode(name) + value for name, value in pairs
    )
