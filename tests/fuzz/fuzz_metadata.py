"""MessagePack in the place of a code object's metadata note, in an ELF file that is always right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import fuzz_code_object
import msgspec
from targets import changed_bytes, changed_document

import elfs


def run(data: bytes) -> None:
    fuzz_code_object.run(elfs.code_object(elfs.note(b"AMDGPU\0", 32, data)).build())


def seeds() -> Iterator[bytes]:
    arguments = [elfs.argument(0, 8, "global_buffer"), elfs.argument(8, 4, "hidden_none")]
    kernel = elfs.kernel("k", arguments, vgpr_count=8, wavefront_size=64, kernarg_segment_size=16)
    for target in ("amdgcn-amd-amdhsa--gfx942:xnack+", "amdgcn-amd-amdhsa--gfx9-4-generic", "-", ""):
        yield msgspec.msgpack.encode(
            {"amdhsa.version": [1, 2], "amdhsa.kernels": [kernel, kernel], "amdhsa.target": target}
        )


def change(data: bytes, random: Random) -> bytes:
    try:
        return msgspec.msgpack.encode(changed_document(msgspec.msgpack.decode(data), random))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return changed_bytes(data, random)
