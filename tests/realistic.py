"""Shards as real builds leave them: eight artifacts, several components and stages, generic halves that differ.

A seeded generator: three builds of one release, each for its own target. Differences between the generic halves, as
in the field: binaries with other build ids and their debug files, a fall-back database that one build tuned, and
content for a target that the build was not asked for.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from builders import Build, code_object, host_elf

TARGETS = ("gfx942", "gfx950", "gfx1201")
ARTIFACTS = {
    "blas": ("math-libs/BLAS/rocBLAS/stage", "math-libs/BLAS/hipBLASLt/stage"),
    "fft": ("math-libs/rocFFT/stage",),
    "rand": ("math-libs/rocRAND/stage",),
    "prim": ("math-libs/rocPRIM/stage",),
    "miopen": ("ml-libs/MIOpen/stage",),
    "hipkernelprovider": ("ml-libs/hipkernelprovider/stage",),
    "hipblasltprovider": ("ml-libs/hipblasltprovider/stage",),
    "composable-kernel": ("ml-libs/composable_kernel/stage",),
}
COMPONENTS = ("lib", "run", "dev", "dbg", "doc", "test")

POLICY = """\
[[generic]]
artifact = "blas"
paths = ["lib/librocblas.so", "lib/rocblas/library/TensileManifest.txt"]
take = "primary"
reason = "build ids and fall-back tuning differ by machine"
[[foreign]]
engine = "rocblas"
keys = ["gfx906"]
reason = "hipBLASLt's build always adds gfx906"
"""


def host_library(build_id: bytes, body: bytes) -> bytes:
    """A shared library with a GNU build id."""
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU\0") + build_id
    return host_elf({".note.gnu.build-id": note, ".text": body})


def make_shard(root: Path, target: str, seed: int = 1) -> Path:
    """One build for one target, below ``root``."""
    common = random.Random(seed)
    own = random.Random(f"{seed}-{target}")
    shard = Build(root / target, target)
    place = "hipkernelprovider"
    for name, stages in ARTIFACTS.items():
        for component in COMPONENTS:
            artifact = shard.add_artifact(name, component, stages=stages)
            for stage in stages:
                _generic(artifact / stage, name, component, common)
    blas = shard.root / f"blas_lib_{target}"
    first, second = (blas / stage for stage in ARTIFACTS["blas"])
    build_id = own.randbytes(20)
    _write(first / "lib/librocblas.so", host_library(build_id, own.randbytes(100)), 0o755)
    _write(first / "lib/rocblas/library/TensileManifest.txt", own.randbytes(20).hex().encode())
    _write(first / f"lib/rocblas/library/TensileLibrary_{target}.dat", own.randbytes(400))
    _write(second / f"lib/hipblaslt/library/{target}/kernels.co", code_object(target, own.randbytes(500)))
    if target != "gfx1201":
        _write(
            first / "lib/rocblas/library/Kernels.so-000-gfx906.hsaco",
            code_object("gfx906", own.randbytes(50)),
        )
    hexed = build_id.hex()
    debug = shard.root / f"blas_dbg_{target}" / ARTIFACTS["blas"][0]
    _write(debug / f".build-id/{hexed[:2]}/{hexed[2:]}.debug", own.randbytes(300))
    _write(debug / "lib/librocblas.so.debug", own.randbytes(300))
    miopen = shard.root / f"miopen_lib_{target}" / ARTIFACTS["miopen"][0]
    _write(miopen / f"share/miopen/db/{target}78.db.txt", own.randbytes(100).hex().encode())
    _write(miopen / f"lib/libMIOpenCKConv_{target}.so", own.randbytes(300), 0o755)
    shard.rocke(target, [f"k{i}" for i in range(5)])
    shard.kernel_provider(target)
    assert shard.artifact.name == f"{place}_lib_{target}"
    return shard.root


def make_gfx906(root: Path, seed: int = 1) -> Path:
    """A build for gfx906: what makes the others' gfx906 content foreign."""
    own = random.Random(f"{seed}-gfx906")
    shard = Build(root / "gfx906", "gfx906")
    artifact = shard.add_artifact("blas", "lib", stages=ARTIFACTS["blas"])
    place = artifact / ARTIFACTS["blas"][0] / "lib/rocblas/library"
    _write(place / "Kernels.so-000-gfx906.hsaco", code_object("gfx906", own.randbytes(50)))
    return shard.root


def _generic(stage: Path, name: str, component: str, common: random.Random) -> None:
    """Files that every build makes alike."""
    where = {
        "lib": "lib",
        "run": "bin",
        "dev": "include",
        "dbg": "lib",
        "doc": "share/doc",
        "test": "bin/test",
    }[component]
    for index in range(common.randint(1, 4)):
        mode = 0o755 if component in ("run", "test") else 0o644
        _write(
            stage / where / name / f"{component}{index}.dat", common.randbytes(common.randint(0, 300)), mode
        )
    if component == "lib":
        _write(stage / f"lib/lib{name}0.so.1", common.randbytes(50), 0o755)
        link = stage / f"lib/lib{name}0.so"
        if not link.is_symlink():
            link.symlink_to(f"lib{name}0.so.1")


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
