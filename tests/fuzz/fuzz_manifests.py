"""One file of a shard that holds content of every engine with manifests: JSON, gzipped JSON, CSV, plain text.

The first byte of an input says which file it stands for.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from inspecting import SETTINGS, checked
from targets import MemoryTree, changed_bytes, changed_document, files_below

import builders
from kpacktools.commands import run_over
from kpacktools.trees.shards import Artifact, Shard

_SIDECAR: Final = {
    "schema": "rocke.aot.sidecar/v1", "cache_key": "c", "selection": {}, "launch": {}, "args_signature": [],
    "artifact": {"hsaco_filename": "s.hsaco", "symbol": "s", "hsaco_sha256": "0" * 64, "hsaco_size": 68},
}  # fmt: skip
_KERNEL: Final = {
    "symbol": "k", "co_file": "k.co", "constraints": {"a": {"min": 1}}, "grid": {"x": 1}, "block": [64, 1, 1],
    "args_signature": [{"name": "a", "type": "ptr"}], "workspace_bytes": 0,
}  # fmt: skip
_FAMILY: Final = {"family": "fmha", "op_kind": "sdpa", "arch": "gfx942", "dtype": "f16", "kernels": [_KERNEL]}
_BILL: Final = {
    "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
    "metadata": {"component": {"name": "x", "version": "1"}},
    "components": [{"type": "file", "name": "k.co", "hashes": [{"alg": "SHA-256", "content": "0" * 64}]}],
}  # fmt: skip


def _make(place: Path) -> None:
    build = builders.Build(place, "gfx942").host(builders.host_elf({".hip_fatbin": b"x" * 99}))
    rocke = build.rocke("gfx942")
    (rocke / "s.hsaco").write_bytes(builders.code_object("gfx942"))
    (rocke / "s.sidecar.json").write_text(json.dumps(_SIDECAR))
    build.kernel_provider("gfx942")
    build.put("arch_content/aiter/gfx942/k.csv", "knl_name,co_name\nk,k.co\n")
    build.put("arch_content/aiter/gfx942/k.co", builders.code_object("gfx942"))
    build.put("arch_content/aot_catalog/gfx942/fmha/family.json", json.dumps(_FAMILY))
    build.put("arch_content/aot_catalog/gfx942/fmha/k.co", builders.code_object("gfx942"))
    build.put("x-1.0.dist-info/sboms/x.cdx.json", json.dumps(_BILL))


_FILES: Final = {path.partition("/")[2]: data for path, data in files_below(_make).items()}
_CHANGED: Final = sorted(path for path in _FILES if path.endswith((".json", ".gz", ".csv")))


def run(data: bytes) -> None:
    if not data:
        return
    files = {**_FILES, _CHANGED[data[0] % len(_CHANGED)]: data[1:]}
    tree = MemoryTree("shard/hipkernelprovider_lib_gfx942", files)
    artifact = Artifact("hipkernelprovider", "lib", "gfx942", (builders.STAGE,), tree)
    shard = Shard("shard", "shard", (artifact,), frozenset(("gfx942",)))
    checked(run_over("inspect", [shard], SETTINGS))


def seeds() -> Iterator[bytes]:
    for number, path in enumerate(_CHANGED):
        yield bytes([number]) + _FILES[path]


def change(data: bytes, random: Random) -> bytes:
    head, body = data[:1], data[1:]
    is_packed = body.startswith(b"\x1f\x8b")
    try:
        document = msgspec.json.decode(zlib.decompress(body, 31) if is_packed else body)
        changed = json.dumps(changed_document(document, random)).encode()
    except (ValueError, RecursionError, zlib.error):
        return head + changed_bytes(body, random)
    return head + (gzip.compress(changed, mtime=0) if is_packed else changed)
