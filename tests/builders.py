"""Small inputs for tests: code objects, archives, manifests and shards, true unless told otherwise."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kpacktools.kpack.writer import KpackWriter

STAGE = "ml-libs/hipkernelprovider/stage"
ENGINES = "lib/hipdnn_plugins/engines"

MACH = {
    "gfx803": 0x2A, "gfx906": 0x2F, "gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F,
    "gfx1010": 0x33, "gfx1030": 0x36, "gfx1100": 0x41, "gfx1101": 0x46, "gfx1201": 0x4E, "gfx1250": 0x49,
    "gfx11-generic": 0x54,
}  # fmt: skip
XNACK = {"": 0x100, "-": 0x200, "+": 0x300}


def code_object(target: str, body: bytes = b"code") -> bytes:
    """The ELF header of a code object of version 5 for a target ID, then ``body``."""
    processor, *features = target.split(":")
    flags = MACH[processor]
    for feature in features:
        if feature.startswith("xnack"):
            flags |= XNACK[feature[-1]]
    ident = b"\x7fELF\x02\x01\x01\x40\x03".ljust(16, b"\0")
    return struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 224, 1, 0, 0, 0, flags, 64, 56, 0, 64, 0, 0) + body


def host_elf(sections: Mapping[str, bytes]) -> bytes:
    """An x86-64 shared library with these sections and nothing else."""
    names = b"\0"
    body = b""
    headers = bytes(64)
    for name, data in {**sections, ".shstrtab": b""}.items():
        start = len(names)
        names += name.encode() + b"\0"
        if name == ".shstrtab":
            data = names
        kind = 3 if name == ".shstrtab" else 7 if ".note" in name else 1
        headers += struct.pack("<IIQQQQIIQQ", start, kind, 2, 0, 64 + len(body), len(data), 0, 0, 4, 0)
        body += data
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), 3, 62, 1, 0, 0, 64 + len(body),
        0, 64, 56, 0, 64, len(sections) + 2, len(sections) + 1,
    )  # fmt: skip
    return header + body + headers


def write_kpack(path: Path, kernels: Mapping[str, bytes], target: str, **options: Any) -> Path:
    """An archive of kernels that are all for one target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as stream,
        KpackWriter(stream, group_name="test", gfx_arch_family=target, **options) as writer,
    ):
        for key, data in kernels.items():
            writer.add(key, target, data)
    return path


class Build:
    """One shard under construction: a folder with one artifact directory, and more on request."""

    def __init__(self, root: Path, key: str) -> None:
        self.root = root
        self.key = key
        self.artifact = self.add_artifact()

    def add_artifact(
        self,
        name: str = "hipkernelprovider",
        component: str = "lib",
        key: str | None = None,
        stages: Iterable[str] = (STAGE,),
    ) -> Path:
        """One more artifact directory of the shard."""
        artifact = self.root / f"{name}_{component}_{key or self.key}"
        artifact.mkdir(parents=True, exist_ok=True)
        (artifact / "artifact_manifest.txt").write_text("".join(f"{stage}\n" for stage in stages))
        return artifact

    @property
    def engines(self) -> Path:
        """The folder of the engines in the first artifact."""
        return self.artifact / STAGE / ENGINES

    def put(self, path: str, data: bytes | str = b"") -> Path:
        """A file below the engines' folder."""
        file = self.engines / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def host(self, data: bytes | str = b"host\n") -> Build:
        """A generic file that every shard has."""
        self.put("libhost.so", data)
        return self

    def rocke(
        self,
        target: str,
        names: Iterable[str] = ("k0", "k1"),
        *,
        archive: Iterable[str] | None = None,
        folder: str | None = None,
        toc_target: str | None = None,
        **manifest: Any,
    ) -> Path:
        """A rocKE bundle; ``archive`` names the archive's kernels where they differ from the manifest's."""
        place = self.engines / "arch_content/rocke" / (folder or target)
        packed = list(names if archive is None else archive)
        kernels = {f"rocke/sdpa_fwd/fmha/{name}": code_object(target, name.encode() * 50) for name in packed}
        write_kpack(place / f"rocke_client_{target}.kpack", kernels, toc_target or target)
        document = rocke_manifest(target, names) | manifest
        (place / f"rocke_client_{target}.json").write_text(json.dumps(document))
        return place

    def kernel_provider(self, target: str, **changes: Any) -> Path:
        """A hip-kernel-provider descriptor package with one packed kernel; ``changes`` go to its source."""
        place = self.engines / "arch_content/hip-kernel-provider" / target
        data = code_object(target, b"relu" * 40)
        write_kpack(place / f"kpack/hip_kernel_provider_{target}.kpack", {"relu/f32": data}, target)
        source = {
            "kind": "kpack",
            "library": f"../kpack/hip_kernel_provider_{target}.kpack",
            "toc_key": "relu/f32",
            "symbol": "relu_f32",
            "sha256": hashlib.sha256(data).hexdigest(),
            "signature": [{"kind": "global_buffer", "size": 8, "offset": 0}],
        } | changes
        kernel = {
            "version": "1.0", "id": "relu.f32", "name": "relu", "kernel_source": source, "metadata": {},
            "priority": 1,
        }  # fmt: skip
        package = {
            "version": "1.0", "id": "relu", "name": "relu", "arch": [target], "matchers": ["relu.match"],
            "engine": "relu.engine", "dispatch": "relu.dispatch", "kernelDescriptors": [kernel],
        }  # fmt: skip
        documents = {
            "relu.kdp.json": package,
            "relu.ued.json": {"id": "relu.engine", "name": "test:relu"},
            "relu.udd.json": {"id": "relu.dispatch"},
            "relu.umd.json": {"id": "relu.match"},
        }
        entries = {"relu.f32": {"kernel_source_sha256": source["sha256"], "provenance": {}}}
        provenance = json.dumps({"kdp_id": "relu", "entries": entries}).encode()
        (place / "relu").mkdir(parents=True, exist_ok=True)
        (place / "relu/relu.kdp.provenance.json.gz").write_bytes(gzip.compress(provenance, mtime=0))
        for name, document in documents.items():
            file = place / "relu" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(document))
        return place


def rocke_manifest(target: str, names: Iterable[str]) -> dict[str, Any]:
    """A rocKE bundle manifest, schema ``rocke.aot.bundle/v1``."""
    return {
        "schema": "rocke.aot.bundle/v1",
        "producer": "rocKE",
        "engine_build_id": "build-1",
        "llvm_flavor": "llvm22",
        "arch": target,
        "kpack": f"rocke_client_{target}.kpack",
        "entries": [
            {
                "name": name,
                "op": "sdpa_fwd",
                "family": "fmha",
                "compile_spec": {},
                "cache_key": f"cache-{name}",
                "toc_key": f"rocke/sdpa_fwd/fmha/{name}",
                "symbol": f"{name}_kernel",
                "selection": {},
                "launch": {},
                "args_signature": [{"name": "A"}],
            }
            for name in names
        ],
    }


def contents(root: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file below a folder."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def names(report: Any) -> set[str]:
    """The names of a report's findings."""
    return {finding.name for finding in report.findings}


def only(report: Any, name: str) -> Any:
    """The one finding of a name."""
    found = [finding for finding in report.findings if finding.name == name]
    assert len(found) == 1, report.findings
    return found[0]
