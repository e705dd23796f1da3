"""MessagePack in the place of a TOC, behind a header and a blob that are always right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import fuzz_kpack
import msgspec
import zstandard
from targets import changed_bytes, changed_document

from kpacktools.kpack.format import HEADER, HEADER_SIZE, MAGIC

_FRAMES: Final = [zstandard.compress(data) for data in (b"", b"\x7fELF", bytes(1000))]
_BLOB: Final = len(_FRAMES).to_bytes(4, "little") + b"".join(
    len(frame).to_bytes(4, "little") + frame for frame in _FRAMES
)
_START: Final = HEADER.pack(MAGIC, 1, HEADER_SIZE + len(_BLOB)).ljust(HEADER_SIZE, b"\0") + _BLOB


def run(data: bytes) -> None:
    fuzz_kpack.run(_START + data)


def seeds() -> Iterator[bytes]:
    kernels = {
        "a": {"gfx942": _kernel(0, 0)},
        "b": {"gfx942": _kernel(1, 4), "gfx942:xnack+": _kernel(2, 1000)},
    }
    common = {
        "format_version": 1, "group_name": "g", "gfx_arch_family": "gfx942", "gfx_arches": ["gfx942"], "toc": kernels,
    }  # fmt: skip
    zstd = {"compression_scheme": "zstd-per-kernel", "zstd_offset": HEADER_SIZE, "zstd_size": len(_BLOB)}
    blobs = [{"offset": HEADER_SIZE, "size": size} for size in (0, 4, len(_BLOB))]
    for scheme in (zstd, {"compression_scheme": "none", "blobs": blobs}, {}, {"compression_scheme": "zlib"}):
        yield msgspec.msgpack.encode({**common, **scheme})
    yield b"\x80"


def _kernel(ordinal: int, size: int) -> dict[str, object]:
    return {"type": "hsaco", "ordinal": ordinal, "original_size": size, "metadata": {"symbol": "k"}}


def change(data: bytes, random: Random) -> bytes:
    try:
        return msgspec.msgpack.encode(changed_document(msgspec.msgpack.decode(data), random))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return changed_bytes(data, random)
