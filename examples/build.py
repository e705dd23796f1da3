#!/usr/bin/env python3
"""Build the example shards: a small but real per-architecture build for each of three targets.

``kernels/*.cl`` are compiled with clang (LLVM 22 made the committed shards) and packed, with the writer of
:mod:`kpacktools.kpack`, into ``shards/<target>/hipkernelprovider_lib_<target>/``, laid out as a build of
hipDNN's engines leaves them. The same compiler gives the same bytes::

    python examples/build.py [--clang clang-22] [--out examples/shards] [--target gfx942]...
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpacktools.kpack.writer import KpackWriter

HERE = Path(__file__).resolve().parent
STAGE = "ml-libs/hipkernelprovider/stage"
ENGINES = "lib/hipdnn_plugins/engines"
TARGETS = ("gfx942", "gfx950", "gfx1201")
AITER_TARGETS = ("gfx942", "gfx950")
BUILD_ID = "example-1"
LLVM_FLAVOR = "llvm22"
HOST_TEXT = """\
This file stands for the host libraries of a real build, which are the same in every shard: they hold no
device code and belong in the generic part.
"""


@dataclass(frozen=True)
class Argument:
    """A kernel argument in the words of its readers: rocKE's type, the kind in AMDGPU metadata."""

    name: str
    type: str
    size: int
    """Bytes, and alignment."""

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("ptr<")


@dataclass(frozen=True)
class Source:
    """A kernel of ``kernels/*.cl``."""

    name: str
    op: str
    dtypes: Mapping[str, str]
    items: str
    """The dimension that one work item handles one element of."""
    arguments: tuple[Argument, ...]

    @property
    def symbol(self) -> str:
        return f"{self.name}_f32"

    @property
    def file(self) -> str:
        return f"{self.name}.cl"


POINTER = "ptr<f32, global>"
SAXPY = Source(
    name="saxpy",
    op="pointwise",
    dtypes={"x": "fp32", "y": "fp32"},
    items="n",
    arguments=(
        Argument("x", POINTER, 8),
        Argument("y", POINTER, 8),
        Argument("a", "f32", 4),
        Argument("n", "i32", 4),
    ),
)
ROW_SUM = Source(
    name="row_sum",
    op="reduction",
    dtypes={"x": "fp32", "sums": "fp32"},
    items="rows",
    arguments=(
        Argument("x", POINTER, 8),
        Argument("sums", POINTER, 8),
        Argument("rows", "i32", 4),
        Argument("columns", "i32", 4),
    ),
)


@dataclass(frozen=True)
class CodeObject:
    """A kernel compiled for one target and one size of work group."""

    source: Source
    target: str
    block: int
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class Compiler:
    """Turns kernel sources into code objects."""

    def __init__(self, clang: str, folder: Path) -> None:
        self._clang = clang
        self._folder = folder

    def compile(self, source: Source, target: str, block: int) -> CodeObject:
        output = self._folder / "kernel.co"
        command = [self._clang, "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-O2"]
        command += ["-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", f"-DBLOCK={block}"]
        # A relative path: no folder of this machine gets into the object.
        subprocess.run([*command, source.file, "-o", str(output)], check=True, cwd=HERE / "kernels")
        return CodeObject(source, target, block, output.read_bytes())


def json_bytes(document: object) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def stable_id(name: str) -> str:
    """A descriptor's id: a UUID that depends on its name only."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"kpacktools-example/{name}"))


def pack(group: str, target: str, kernels: Sequence[tuple[str, CodeObject, Mapping[str, str]]]) -> bytes:
    """One archive of (TOC key, code object, metadata)."""
    archive = io.BytesIO()
    with KpackWriter(archive, group_name=group, gfx_arch_family=target) as writer:
        for key, code, metadata in kernels:
            writer.add(key, target, code.data, metadata=metadata)
    return archive.getvalue()


def rocke_files(target: str, compiler: Compiler) -> Iterator[tuple[str, bytes]]:
    """Paths below the engine's target folder, and bytes: the archive and its bundle manifest."""
    entries: list[dict[str, Any]] = []
    kernels = []
    for source, block in ((SAXPY, 64), (SAXPY, 256), (ROW_SUM, 64)):
        code = compiler.compile(source, target, block)
        entry = rocke_entry(code)
        entries.append(entry)
        kernels.append((entry["toc_key"], code, {name: entry[name] for name in ("cache_key", "symbol")}))
    archive = f"rocke_client_{target}.kpack"
    yield archive, pack("rocke_client", target, kernels)
    manifest = {
        "schema": "rocke.aot.bundle/v1",
        "producer": "rocKE",
        "engine_build_id": BUILD_ID,
        "llvm_flavor": LLVM_FLAVOR,
        "arch": target,
        "kpack": archive,
        "entries": entries,
    }
    yield f"rocke_client_{target}.json", json_bytes(manifest)


def rocke_entry(code: CodeObject) -> dict[str, Any]:
    source = code.source
    name = f"{source.symbol}_{code.target}_b{code.block}"
    spec = {"dtype": "fp32", "block": code.block}
    identity = json.dumps([source.op, source.name, code.target, spec], sort_keys=True)
    return {
        "name": name,
        "op": source.op,
        "family": source.name,
        "compile_spec": spec,
        "cache_key": hashlib.sha256(identity.encode()).hexdigest(),
        "toc_key": f"rocke/{source.op}/{source.name}/{name}",
        "symbol": source.symbol,
        "selection": {
            "op": source.op,
            "arch": code.target,
            "dtypes": source.dtypes,
            "shape_constraints": {},
            "attribute_constraints": {},
        },
        "launch": {
            "shared_mem_bytes": 0,
            "grid_formula": {"x": {"ceil_div": [source.items, code.block]}, "y": 1, "z": 1},
            "block": [code.block, 1, 1],
        },
        "args_signature": [
            {
                "name": argument.name,
                "type": argument.type,
                "kind": "pointer" if argument.is_pointer else "scalar",
                "size_bytes": argument.size,
                "alignment": argument.size,
            }
            for argument in source.arguments
        ],
    }


def hip_kernel_provider_files(target: str, compiler: Compiler) -> Iterator[tuple[str, bytes]]:
    """Paths below the engine's target folder, and bytes: the archive, a package, and what it refers to."""
    library = f"kpack/hip_kernel_provider_{target}.kpack"
    codes = {f"{SAXPY.symbol}-b{block}": compiler.compile(SAXPY, target, block) for block in (128, 512)}
    kernels = [(key, code, {"variant_key": key}) for key, code in codes.items()]
    yield library, pack("hip_kernel_provider", target, kernels)

    package = {
        "version": "1.0",
        "id": stable_id("saxpy.kdp"),
        "name": "example:saxpy",
        "arch": [target],
        "matchers": [stable_id("saxpy.umd")],
        "engine": stable_id("saxpy.ued"),
        "dispatch": stable_id("saxpy.udd"),
        "kernelDescriptors": [kernel_descriptor(key, code, f"../{library}") for key, code in codes.items()],
    }
    yield "saxpy/saxpy.kdp.json", json_bytes(package)
    yield "saxpy/saxpy.kdp.provenance.json.gz", provenance(package, codes)

    parts: dict[str, dict[str, object]] = {
        "kmd": {"fields": [{"name": "block", "type": "int"}]},
        "udd": {"dispatch_symbol": "example_saxpy_dispatch"},
        "ued": {
            "graph_match": {"match_symbol": "example_saxpy_graph_match"},
            "heuristic": stable_id("saxpy.uhd"),
            "metadata": stable_id("saxpy.kmd"),
        },
        "uhd": {"kind": "native", "payload": "example_saxpy_score"},
        "umd": {"scope": "graph", "match_symbol": "example_saxpy_matcher"},
    }
    for kind, fields in parts.items():
        name = "example:Saxpy" if kind == "ued" else "saxpy"
        document = {"version": "1.0", "id": stable_id(f"saxpy.{kind}"), "name": name, **fields}
        yield f"saxpy/saxpy.{kind}.json", json_bytes(document)


def kernel_descriptor(key: str, code: CodeObject, library: str) -> dict[str, Any]:
    signature = []
    offset = 0
    for argument in code.source.arguments:
        kind = "global_buffer" if argument.is_pointer else "by_value"
        signature.append({"kind": kind, "size": argument.size, "offset": offset})
        offset += argument.size  # pointers come first, so nothing needs padding
    return {
        "version": "1.0",
        "id": stable_id(f"{key}.ukd"),
        "name": key,
        "arch": [code.target],
        "kernel_source": {
            "kind": "kpack",
            "library": library,
            "toc_key": key,
            "symbol": code.source.symbol,
            "sha256": code.sha256,
            "signature": signature,
        },
        "metadata": {"block": code.block},
        "priority": 0,
    }


def provenance(package: Mapping[str, Any], codes: Mapping[str, CodeObject]) -> bytes:
    """The sidecar that says, per kernel descriptor, what its code object was made from."""
    entries = {}
    for descriptor in package["kernelDescriptors"]:
        code = codes[descriptor["name"]]
        entries[descriptor["id"]] = {
            "kernel_source_sha256": code.sha256,
            "provenance": {
                "origin_kind": "opencl",
                "source": f"kernels/{code.source.file}",
                "entry": code.source.symbol,
                "build": {"defines": {"BLOCK": code.block}},
            },
        }
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=compressed, mtime=0) as file:
        file.write(json_bytes({"kdp_id": package["id"], "entries": entries}))
    return compressed.getvalue()


def aiter_files(target: str, compiler: Compiler) -> Iterator[tuple[str, bytes]]:
    """Paths below the engine's target folder, and bytes: loose code objects and the table that names them."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("block", "knl_name", "co_name"))
    for block in (64, 256):
        code = compiler.compile(ROW_SUM, target, block)
        name = f"{code.source.symbol}_b{block}.co"
        rows.writerow((block, code.source.symbol, name))
        yield f"row_sum/{name}", code.data
    yield "row_sum/row_sum.csv", table.getvalue().encode()


def shard_files(target: str, compiler: Compiler) -> Iterator[tuple[str, bytes]]:
    """Every file of one shard's artifact directory: path, bytes."""
    yield "artifact_manifest.txt", f"{STAGE}\n".encode()
    yield f"{STAGE}/{ENGINES}/README.txt", HOST_TEXT.encode()
    engines = {"rocke": rocke_files, "hip-kernel-provider": hip_kernel_provider_files}
    if target in AITER_TARGETS:
        engines["aiter"] = aiter_files
    for engine, files in engines.items():
        for path, data in files(target, compiler):
            yield f"{STAGE}/{ENGINES}/arch_content/{engine}/{target}/{path}", data


def build(out: Path, targets: Sequence[str], clang: str) -> None:
    """Write the shards of ``targets`` below ``out``, replacing the artifact directories that are there."""
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(clang, Path(folder))
        for target in targets:
            artifact = out / target / f"hipkernelprovider_lib_{target}"
            files = dict(shard_files(target, compiler))
            shutil.rmtree(artifact, ignore_errors=True)
            for path, data in files.items():
                (artifact / path).parent.mkdir(parents=True, exist_ok=True)
                (artifact / path).write_bytes(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Build the example shards.")
    parser.add_argument("--clang", default="clang-22", help="the compiler, LLVM 22 with the AMDGPU backend")
    parser.add_argument("--out", type=Path, default=HERE / "shards", help="where the shards go")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    build(options.out, options.target or TARGETS, options.clang)


if __name__ == "__main__":
    main()
