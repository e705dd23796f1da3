"""A host library, ELF or PE: sections, markers, fat binaries, what it links to."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from targets import MemoryTree

import elfs
from kpacktools.hostfile import build_id_of, expand, read_host

_MARKER = msgspec.msgpack.encode(
    {"kernel_name": "lib/x.so", "kpack_search_paths": ["../.kpack/x_@GFXARCH@.kpack"]}
)
_WRAPPERS = b"HIPK" + bytes(20) + b"HIPK" + bytes(12) + b"\1" + bytes(7) + b"FPIH" + bytes(20)


def run(data: bytes) -> None:
    tree = MemoryTree("tree", {"lib/x.so": data})
    host = read_host(tree, "lib/x.so")
    build_id = build_id_of(tree, "lib/x.so")
    if host is None:
        return
    assert host.build_id is None or host.build_id == build_id
    for problem in host.problems:
        assert "\n" not in problem
    for marker in host.markers:
        for path in marker.search_paths:
            assert expand(path, "gfx942:sramecc+:xnack-")
    for fat in host.fat:
        assert fat.bundles > 0


def seeds() -> Iterator[bytes]:
    bundle = elfs.bundle({elfs.HOST: b"", elfs.HIP + "gfx942": b"code"})
    for bits in (64, 32):
        for order in "<>":
            sections = [
                elfs.Section(".rocm_kpack_ref", _MARKER),
                elfs.Section(".hip_fatbin", bundle + elfs.compressed(bundle)),
                elfs.Section(".hipFatBinSegment", _WRAPPERS),
                elfs.Section(".note.gnu.build-id", elfs.note(b"GNU\0", 3, b"id-of-this", order), elfs.NOTE),
                *elfs.dynamic(
                    [(1, "libc.so.6"), (14, "libx.so"), (29, "$ORIGIN:$ORIGIN/../lib")], bits, order
                ),
            ]
            yield elfs.Elf(sections, bits=bits, order=order).build()
        yield elfs.pe({".kpackrf": _MARKER, ".hip_fat": bundle}, ("KERNEL32.dll", "amdhip64.dll"), bits)
    yield elfs.code_object().build()
