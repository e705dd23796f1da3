"""The inputs of the workloads: seeded, so that the same call makes the same bytes.

Each is made by a process of its own, which keeps the memory it takes out of the processes that are measured::

    python inputs.py W1 FOLDER [--quick]

A folder holds ``shards/<target>/<artifact directory>`` and, where the workload splits, ``prefix``: one install
prefix with all of it, hard-linked.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kpacktools.codeobject import HEAD_SIZE, probe
from kpacktools.kpack.writer import KpackWriter

__all__ = ["ENGINES", "W3_FILES", "W5_KERNELS", "W5_TARGETS", "make_prefix", "shards_of"]

STAGE: Final = "ml-libs/hipkernelprovider/stage"
PLUGINS: Final = "lib/hipdnn_plugins/engines"
SEED: Final = "kpacktools"

W1_TARGETS: Final = ("gfx942", "gfx950", "gfx1100", "gfx1201")
W3_TARGETS: Final = ("gfx942", "gfx950")
W3_FILES: Final = (10_000, 30_000, 100_000)
W5_KERNELS: Final = 200_000
W5_TARGETS: Final = (
    "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx942", "gfx950",
    "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035",
    "gfx1036", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx1250",
)  # fmt: skip

Kernels = Iterable[tuple[str, bytes]]
"""TOC key and bytes."""


@cache
def header(target: str) -> bytes:
    """The ELF header of a code object for a processor."""
    for machine in range(0x100):
        ident = b"\x7fELF\x02\x01\x01\x40\x03".ljust(16, b"\0")
        head = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 224, 1, 0, 0, 0, machine, 64, 56, 0, 64, 0, 0)
        found = probe(head)
        if found is not None and found.target_id == target:
            return head
    raise ValueError(f"no ELF machine number stands for {target}")


def noise(random_bytes: random.Random, target: str, size: int) -> bytes:
    """A code object that does not compress."""
    return header(target) + random_bytes.randbytes(size - HEAD_SIZE)


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def pack(path: Path, target: str, kernels: Kernels, *, level: int = 3) -> dict[str, str]:
    """An archive of one target's kernels; returns the sha256 of each by its key."""
    digests = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("xb") as file,
        KpackWriter(file, group_name="bench", gfx_arch_family=target, level=level) as out,
    ):
        for key, data in kernels:
            metadata = {"cache_key": f"cache/{key}", "symbol": symbol(key)}
            out.add(key, target, data, metadata=metadata)
            digests[key] = hashlib.sha256(data).hexdigest()
    return digests


def symbol(key: str) -> str:
    return key.replace("/", "_")


def artifact(root: Path, target: str) -> Path:
    """A shard's one artifact directory, with a host file that all shards have; returns its stage."""
    folder = root / "shards" / target / f"hipkernelprovider_lib_{target}"
    write(folder / "artifact_manifest.txt", f"{STAGE}\n")
    write(folder / STAGE / PLUGINS / "README.txt", "Host files are the same in all shards.\n")
    return folder / STAGE


def shards_of(root: Path) -> list[Path]:
    return sorted((root / "shards").iterdir())


def make_prefix(root: Path) -> None:
    """``root/prefix``: the stages of all shards over one another."""
    for stage in sorted(root.glob(f"shards/*/*/{STAGE}")):
        shutil.copytree(stage, root / "prefix", copy_function=_link, dirs_exist_ok=True)


def _link(source: str, destination: str) -> None:
    if not os.path.lexists(destination):
        os.link(source, destination)


# Engines: how one target's content of an engine looks. Each is filled with so many kernels.


def fill_rocke(place: Path, target: str, kernels: Kernels) -> None:
    keys = list(pack(place / f"rocke_client_{target}.kpack", target, kernels))
    write(place / f"rocke_client_{target}.json", rocke_manifest(target, keys))


def rocke_manifest(target: str, keys: Iterable[str]) -> str:
    document = {
        "schema": "rocke.aot.bundle/v1",
        "producer": "rocKE",
        "engine_build_id": "bench-1",
        "llvm_flavor": "llvm22",
        "arch": target,
        "kpack": f"rocke_client_{target}.kpack",
        "entries": [
            {
                "name": key.rpartition("/")[2],
                "op": "bench",
                "family": "bench",
                "compile_spec": {},
                "cache_key": f"cache/{key}",
                "toc_key": key,
                "symbol": symbol(key),
                "selection": {"arch": target},
                "launch": {"block": [256, 1, 1]},
                "args_signature": [
                    {"name": "x", "type": "ptr<f32, global>", "kind": "pointer", "size_bytes": 8}
                ],
            }
            for key in keys
        ],
    }
    return json.dumps(document)


def fill_descriptors(place: Path, target: str, kernels: Kernels) -> None:
    """hip-kernel-provider with one descriptor package."""
    archive = f"kpack/hip_kernel_provider_{target}.kpack"
    digests = pack(place / archive, target, kernels)
    package = {
        "version": "1.0",
        "id": "bench.kdp",
        "name": "bench",
        "arch": [target],
        "matchers": ["bench.umd"],
        "engine": "bench.ued",
        "dispatch": "bench.udd",
        "kernelDescriptors": [descriptor(target, key, sha256, archive) for key, sha256 in digests.items()],
    }
    write(place / "bench/bench.kdp.json", json.dumps(package))
    parts: dict[str, dict[str, str]] = {"ued": {"name": "bench:bench"}, "udd": {}, "umd": {}}
    for kind, fields in parts.items():
        document = {"version": "1.0", "id": f"bench.{kind}", "name": "bench"} | fields
        write(place / f"bench/bench.{kind}.json", json.dumps(document))


def descriptor(target: str, key: str, sha256: str, archive: str) -> dict[str, object]:
    return {
        "version": "1.0",
        "id": f"{key}.ukd",
        "name": key,
        "arch": [target],
        "kernel_source": {
            "kind": "kpack",
            "library": f"../{archive}",
            "toc_key": key,
            "symbol": symbol(key),
            "sha256": sha256,
            "signature": [{"kind": "global_buffer", "size": 8, "offset": 0}],
        },
        "metadata": {},
        "priority": 0,
    }


def fill_archive(place: Path, target: str, kernels: Kernels) -> None:
    """An archive that no manifest speaks of; ``place`` is the file."""
    pack(place, target, kernels)


def fill_loose(place: Path, target: str, kernels: Kernels) -> None:
    """Loose code objects and the table that names them."""
    names = []
    for key, data in kernels:
        names.append(f"{symbol(key)}.co")
        write(place / "bench" / names[-1], data)
    write(place / "bench/bench.csv", "knl_name,co_name\n" + "".join(f"k,{name}\n" for name in names))


def fill_catalog(place: Path, target: str, kernels: Kernels) -> None:
    """A family of loose code objects and its manifest."""
    entries = []
    for key, data in kernels:
        name = f"{symbol(key)}.co"
        write(place / "bench" / name, data)
        launch = {
            "constraints": {},
            "grid": {},
            "block": [256, 1, 1],
            "args_signature": [],
            "workspace_bytes": 0,
        }
        entries.append({"symbol": symbol(key), "co_file": name} | launch)
    family = {"family": "bench", "op_kind": "bench", "arch": target, "dtype": "fp16", "kernels": entries}
    write(place / "bench/family.json", json.dumps(family))


def fill_folder(place: Path, target: str, kernels: Kernels) -> None:
    """Loose code objects alone."""
    for key, data in kernels:
        write(place / f"{symbol(key)}.co", data)


def fill_file(place: Path, target: str, kernels: Kernels) -> None:
    """One file that nobody looks into."""
    write(place, f"# {target}\n" * 100)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine of workload W5."""

    name: str
    place: str
    """Its folder or file of a target, below the stage."""
    fill: Callable[[Path, str, Kernels], None]
    packs: bool = False
    """Its kernels are in a kpack: they share the workload's count. Others get :data:`LOOSE` each."""


LOOSE: Final = 20
ENGINES: Final = (
    Engine("rocke", f"{PLUGINS}/arch_content/rocke/{{target}}", fill_rocke, packs=True),
    Engine(
        "hip-kernel-provider",
        f"{PLUGINS}/arch_content/hip-kernel-provider/{{target}}",
        fill_descriptors,
        packs=True,
    ),
    Engine("asm", "share/asm_kernels/kpack/asm_{target}.kpack", fill_archive, packs=True),
    Engine("kpack", ".kpack/bench_lib_{target}.kpack", fill_archive, packs=True),
    Engine("aiter", f"{PLUGINS}/arch_content/aiter/{{target}}", fill_loose),
    Engine("aot_catalog", f"{PLUGINS}/arch_content/aot_catalog/{{target}}", fill_catalog),
    Engine("rocblas", "lib/rocblas/library/{target}", fill_folder),
    Engine("hipblaslt", "lib/hipblaslt/library/{target}", fill_folder),
    Engine("hipsparselt", "lib/hipsparselt/library/{target}", fill_folder),
    Engine("aotriton", "lib/aotriton.images/amd-{target}", fill_folder),
    Engine("miopen", "share/miopen/db/{target}.HIP.fdb.txt", fill_file),
    Engine("composablekernel", "lib/libdevice_conv_operations_{target}.a", fill_file),
)
"""Twelve, each in one of its places."""


# Workloads.


def make_w1(root: Path, *, quick: bool) -> None:
    """4 targets, each with 48 MB of kpack and 500 descriptors in files of their own."""
    _archives(root, *((50, 4 << 20) if quick else (500, 48 << 20)))


def _archives(root: Path, count: int, size: int) -> None:
    for target in W1_TARGETS:
        noises = random.Random(f"{SEED} W1 {target}")
        place = artifact(root, target) / PLUGINS / "arch_content/hip-kernel-provider" / target
        archive = f"kpack/hip_kernel_provider_{target}.kpack"
        kernels = ((f"bench/k{number:04}", noise(noises, target, size // count)) for number in range(count))
        for key, sha256 in pack(place / archive, target, kernels).items():
            write(place / f"{key}.ukd.json", json.dumps(descriptor(target, key, sha256, archive), indent=2))
    make_prefix(root)


def make_w7(root: Path, *, quick: bool) -> None:
    """500 MB of kpack: 4 targets, each with 125 MB and 32 descriptors."""
    _archives(root, 32, (12 if quick else 125) * 1_000_000)


def make_w3(root: Path, *, quick: bool) -> None:
    """100,000 small code objects for two targets, 200 in a folder."""
    _small_files(root, W3_FILES[-1] // (10 if quick else 1))


def _small_files(root: Path, count: int) -> None:
    for target in W3_TARGETS:
        noises = random.Random(f"{SEED} W3 {target}")
        place = artifact(root, target) / PLUGINS / "arch_content/aiter" / target
        for first in range(0, count // len(W3_TARGETS), 200):
            folder = place / f"group{first // 200:04}"
            folder.mkdir(parents=True)
            for number in range(first, min(first + 200, count // len(W3_TARGETS))):
                (folder / f"k{number:06}.co").write_bytes(noise(noises, target, noises.randrange(200, 600)))
    make_prefix(root)


def make_w4(root: Path, *, quick: bool) -> None:
    """One kpack of 2 GiB: kernels of 1/4 to 4 MiB that compress to three quarters."""
    target, wanted = "gfx942", 64 << 20 if quick else 2 << 30
    noises = random.Random(f"{SEED} W4")
    six_bits = bytes(value & 0x3F for value in range(256))
    pool = noises.randbytes(16 << 20).translate(six_bits)

    def kernels() -> Iterator[tuple[str, bytes]]:
        size, number = 0, 0
        while size * 3 < wanted * 4:
            length = noises.randrange(1 << 18, 4 << 20)
            start = noises.randrange(len(pool) - length)
            yield f"bench/k{number:05}", header(target) + pool[start : start + length]
            size, number = size + length, number + 1

    fill_rocke(artifact(root, target) / PLUGINS / "arch_content/rocke" / target, target, kernels())


def make_w5(root: Path, *, quick: bool) -> None:
    """30 targets, 12 engines, 200,000 kernels in TOCs."""
    packing = [engine for engine in ENGINES if engine.packs]
    shares = _shares(W5_KERNELS // (10 if quick else 1), len(W5_TARGETS) * len(packing))
    for target in W5_TARGETS:
        noises = random.Random(f"{SEED} W5 {target}")
        stage = artifact(root, target)
        for engine in ENGINES:
            count = next(shares) if engine.packs else LOOSE
            engine.fill(stage / engine.place.format(target=target), target, _tiny(noises, target, count))


def _shares(total: int, count: int) -> Iterator[int]:
    """``count`` nearly equal whole numbers that make up ``total``."""
    return (total * (index + 1) // count - total * index // count for index in range(count))


def _tiny(noises: random.Random, target: str, count: int) -> Kernels:
    return ((f"bench/family/kernel_{number:06}", noise(noises, target, 96)) for number in range(count))


class _Sparse(io.FileIO):
    """A file in which long runs of zeros become holes."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if len(data) >= 1 << 20 and data.count(0) == len(data):
            self.seek(len(data), os.SEEK_CUR)
            return len(data)
        return super().write(data)


def make_w6(root: Path, *, quick: bool) -> None:
    """A kpack of 5 GiB that is nearly all holes; scheme none."""
    target, size = "gfx942", 64 << 20
    place = artifact(root, target) / PLUGINS / "arch_content/rocke" / target
    place.mkdir(parents=True)
    keys = [f"bench/k{number:03}" for number in range(8 if quick else 80)]
    zeros = bytes(size)
    with (
        _Sparse(place / f"rocke_client_{target}.kpack", "xb") as file,
        KpackWriter(file, group_name="bench", gfx_arch_family=target, scheme="none") as out,
    ):
        for key in keys:
            out.add(key, target, zeros)
    write(place / f"rocke_client_{target}.json", rocke_manifest(target, keys))


def make_start(root: Path, *, quick: bool) -> None:
    """An almost empty shard: one engine, one kernel."""
    for target in W3_TARGETS:
        noises = random.Random(f"{SEED} start {target}")
        place = artifact(root, target) / PLUGINS / "arch_content/rocke" / target
        fill_rocke(place, target, _tiny(noises, target, 1))
    make_prefix(root)


def _growth(count: int) -> Callable[..., None]:
    def make(root: Path, *, quick: bool) -> None:
        _small_files(root, count // (10 if quick else 1))

    return make


MAKERS: Final[Mapping[str, Callable[..., None]]] = {
    "start": make_start,
    "W1": make_w1,
    "W3": make_w3,
    **{f"W3-{count}": _growth(count) for count in W3_FILES[:-1]},
    "W4": make_w4,
    "W5": make_w5,
    "W6": make_w6,
    "W7": make_w7,
}


def main(arguments: Sequence[str]) -> None:
    name, folder, *options = arguments
    MAKERS[name](Path(folder), quick="--quick" in options)


if __name__ == "__main__":
    main(sys.argv[1:])
