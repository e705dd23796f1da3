"""The committed example shards hold what they say, and the recipe is reproducible."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import runpy
import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kpacktools.codeobject import probe
from kpacktools.kpack.reader import KpackReader

EXAMPLES = Path(__file__).parents[1] / "examples"
SHARDS = EXAMPLES / "shards"
STAGE = "ml-libs/hipkernelprovider/stage"
ENGINES = f"{STAGE}/lib/hipdnn_plugins/engines"
TARGETS = ("gfx942", "gfx950", "gfx1201")

every_target = pytest.mark.parametrize("target", TARGETS)


def artifact(target: str) -> Path:
    return SHARDS / target / f"hipkernelprovider_lib_{target}"


def content(engine: str, target: str) -> Path:
    return artifact(target) / ENGINES / "arch_content" / engine / target


def kernels(path: Path, target: str) -> dict[str, bytes]:
    """An archive's code objects by TOC key."""
    with path.open("rb") as file:
        reader = KpackReader(file, path.stat().st_size)
        assert reader.toc.targets() == {target}
        return {entry.key: reader.read(entry.kernel) for entry in reader.toc.entries()}


def described_kernels(code: bytes) -> dict[str, list[dict[str, Any]]]:
    """Kernel name -> arguments, from the metadata note of a code object (its only PT_NOTE)."""
    (offset,) = struct.unpack_from("<Q", code, 32)
    size, count = struct.unpack_from("<HH", code, 54)
    segments = [struct.unpack_from("<IIQQQQ", code, offset + i * size) for i in range(count)]
    ((note, length),) = [(segment[2], segment[5]) for segment in segments if segment[0] == 4]
    name_size, desc_size, _ = struct.unpack_from("<III", code, note)
    start = note + 12 + (name_size + 3) // 4 * 4
    assert start + desc_size <= note + length
    metadata = msgspec.msgpack.decode(code[start : start + desc_size])
    return {kernel[".name"]: kernel[".args"] for kernel in metadata["amdhsa.kernels"]}


def load(path: Path) -> Any:
    return json.loads(path.read_text())


@every_target
def test_the_artifact_lists_its_stage(target: str) -> None:
    assert (artifact(target) / "artifact_manifest.txt").read_text() == f"{STAGE}\n"


def test_the_host_part_is_the_same_in_every_shard() -> None:
    assert len({(artifact(target) / ENGINES / "README.txt").read_bytes() for target in TARGETS}) == 1


def test_the_shards_are_small() -> None:
    assert sum(path.stat().st_size for path in SHARDS.rglob("*") if path.is_file()) < 150_000


@every_target
def test_every_code_object_is_built_for_its_shard(target: str) -> None:
    codes = [path.read_bytes() for path in artifact(target).rglob("*.co")]
    for path in artifact(target).rglob("*.kpack"):
        codes += kernels(path, target).values()
    headers = [probe(code) for code in codes]
    assert {header and header.target_id for header in headers} == {target}


@every_target
def test_rocke_manifests_describe_their_archives(target: str) -> None:
    folder = content("rocke", target)
    manifest = load(folder / f"rocke_client_{target}.json")
    codes = kernels(folder / manifest["kpack"], target)
    assert manifest["arch"] == target
    assert {entry["toc_key"] for entry in manifest["entries"]} == set(codes)
    for entry in manifest["entries"]:
        assert entry["toc_key"] == f"rocke/{entry['op']}/{entry['family']}/{entry['name']}"
        arguments = described_kernels(codes[entry["toc_key"]])[entry["symbol"]]
        assert [(a["size_bytes"], a["kind"]) for a in entry["args_signature"]] == [
            (a[".size"], "pointer" if a[".value_kind"] == "global_buffer" else "scalar") for a in arguments
        ]


@every_target
def test_rocke_archives_repeat_cache_key_and_symbol(target: str) -> None:
    folder = content("rocke", target)
    manifest = load(folder / f"rocke_client_{target}.json")
    path = folder / manifest["kpack"]
    with path.open("rb") as file:
        toc = KpackReader(file, path.stat().st_size).toc
    for entry in manifest["entries"]:
        expected = {"cache_key": entry["cache_key"], "symbol": entry["symbol"]}
        assert toc.kernels[entry["toc_key"]][target].metadata == expected


@every_target
def test_packed_descriptors_describe_their_archive(target: str) -> None:
    folder = content("hip-kernel-provider", target)
    package = load(folder / "saxpy/saxpy.kdp.json")
    sources = [kernel["kernel_source"] for kernel in package["kernelDescriptors"]]
    (library,) = {source["library"] for source in sources}
    codes = kernels(folder / "saxpy" / library, target)
    assert package["arch"] == [target]
    assert {source["toc_key"] for source in sources} == set(codes)
    for source in sources:
        code = codes[source["toc_key"]]
        assert source["sha256"] == hashlib.sha256(code).hexdigest()
        assert source["signature"] == [
            {"kind": a[".value_kind"], "size": a[".size"], "offset": a[".offset"]}
            for a in described_kernels(code)[source["symbol"]]
        ]


@every_target
def test_packed_descriptors_refer_to_descriptors_that_are_there(target: str) -> None:
    folder = content("hip-kernel-provider", target) / "saxpy"
    package, engine = load(folder / "saxpy.kdp.json"), load(folder / "saxpy.ued.json")
    ids = {kind: load(folder / f"saxpy.{kind}.json")["id"] for kind in ("kmd", "udd", "ued", "uhd", "umd")}
    assert (package["engine"], package["dispatch"], package["matchers"]) == (
        ids["ued"],
        ids["udd"],
        [ids["umd"]],
    )
    assert (engine["heuristic"], engine["metadata"]) == (ids["uhd"], ids["kmd"])


@every_target
def test_provenance_matches_the_packed_descriptors(target: str) -> None:
    folder = content("hip-kernel-provider", target) / "saxpy"
    package = load(folder / "saxpy.kdp.json")
    sidecar = json.loads(gzip.decompress((folder / "saxpy.kdp.provenance.json.gz").read_bytes()))
    assert sidecar["kdp_id"] == package["id"]
    assert {key: entry["kernel_source_sha256"] for key, entry in sidecar["entries"].items()} == {
        kernel["id"]: kernel["kernel_source"]["sha256"] for kernel in package["kernelDescriptors"]
    }


def test_aiter_tables_name_the_code_objects_beside_them() -> None:
    tables = sorted(SHARDS.rglob("arch_content/aiter/**/*.csv"))
    assert [path.parents[1].name for path in tables] == ["gfx942", "gfx950"]
    for table in tables:
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["co_name"] for row in rows} == {path.name for path in table.parent.glob("*.co")}
        for row in rows:
            assert row["knl_name"] in described_kernels((table.parent / row["co_name"]).read_bytes())


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    if shutil.which("clang-22") is None:
        pytest.skip("clang-22 is not installed")
    build = runpy.run_path(str(EXAMPLES / "build.py"))["build"]
    built = []
    for name in ("first", "second"):
        build(tmp_path / name, ["gfx942"], "clang-22")
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        built.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert built[0] == built[1] != {}
