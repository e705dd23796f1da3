"""Depth content, on real code objects: the example shards, and what happens when anything in them is changed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import Build, code_object, names, only
from kpacktools.commands import inspect
from kpacktools.data import data_path
from kpacktools.hookspecs import Depth
from kpacktools.kpack import read_toc
from kpacktools.kpack.format import HEADER
from kpacktools.kpack.reader import KpackReader
from kpacktools.kpack.writer import KpackWriter
from kpacktools.pipeline import Settings
from kpacktools.targets import TargetTable

Maker = Callable[..., Build]
DEEP = Settings(depth=Depth.CONTENT, jobs=1)
CONTENT = "ml-libs/hipkernelprovider/stage/lib/hipdnn_plugins/engines/arch_content"


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A copy of the example shard for gfx942."""
    root = tmp_path / "gfx942"
    shutil.copytree(data_path("examples", "shards", "gfx942"), root)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


@pytest.fixture(scope="module")
def shared_shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for tests that put back what they change."""
    root = tmp_path_factory.mktemp("content") / "gfx942"
    shutil.copytree(data_path("examples", "shards", "gfx942"), root)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


def _engine(shard: Path, engine: str) -> Path:
    return shard / "hipkernelprovider_lib_gfx942" / CONTENT / engine / "gfx942"


def _look(shard: Path) -> Any:
    return inspect([str(shard)], DEEP)


def test_the_example_is_read_to_the_last_kernel(shard: Path) -> None:
    report = _look(shard)
    assert report.findings == ()
    assert report.kernels_checked == 7
    assert {b.bundle.engine: dict(b.compilers) for b in report.bundles} == {
        "aiter": {"clang 22.1.8": 2},
        "hip-kernel-provider": {"clang 22.1.8": 2},
        "rocke": {"clang 22.1.8": 3},
    }
    assert {b.bundle.engine: b.lane_name for b in report.bundles} == {
        "aiter": "llvm22",
        "hip-kernel-provider": "llvm22",
        "rocke": "llvm22",
    }


def _strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, (*path, index))
    elif isinstance(value, str):
        yield path


def _changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


CHECKED = {"schema", "producer", "arch", "kpack", "llvm_flavor", "toc_key", "symbol", "cache_key",
           "sha256", "library", "kernel_source_sha256", "kdp_id", "hsaco_sha256", "engine", "dispatch"}  # fmt: skip
"""Fields of manifests that something else confirms."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_letter_of_a_cross_checked_manifest_field_is_found(
    shared_shard: Path, data: st.DataObject
) -> None:
    manifests = [
        path
        for path in sorted(shared_shard.rglob("*"))
        if path.name.endswith((".json", ".json.gz")) and path.is_file()
    ]
    path = data.draw(st.sampled_from(manifests))
    original = path.read_bytes()
    text = gzip.decompress(original) if path.suffix == ".gz" else original
    document = json.loads(text)
    fields = [
        field
        for field in _strings(document)
        if "selection" not in field
        and (field[-1] in CHECKED or (len(field) > 1 and field[-2] in ("arch", "matchers")))
    ]
    fields = [field for field in fields if not path.name.endswith((".ued.json", ".umd.json", ".udd.json"))]
    if not fields:
        return
    field = data.draw(st.sampled_from(fields))
    value = _at(document, field)
    index = data.draw(st.integers(0, len(value) - 1))
    letter = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda c: c != value[index]))
    changed = _changed(document, field, value[:index] + letter + value[index + 1 :])
    encoded = json.dumps(changed).encode()
    path.write_bytes(gzip.compress(encoded, mtime=0) if path.suffix == ".gz" else encoded)
    try:
        assert _look(shared_shard).findings, (path.name, field, letter)
    finally:
        path.write_bytes(original)


def _archive_parts(path: Path) -> tuple[bytes, dict[str, Any]]:
    data = path.read_bytes()
    offset = HEADER.unpack_from(data)[2]
    return data[:offset], msgspec.msgpack.decode(data[offset:])


TocChange = Callable[[dict[str, Any]], None]


def _rename_key(toc: dict[str, Any]) -> None:
    key = next(iter(toc["toc"]))
    toc["toc"] = {(k[:-1] + "~" if k == key else k): v for k, v in toc["toc"].items()}


def _rename_target(toc: dict[str, Any]) -> None:
    kernels = next(iter(toc["toc"].values()))
    kernels["gfx950"] = kernels.pop("gfx942")


def _entry(name: str, value: Any) -> TocChange:
    def change(toc: dict[str, Any]) -> None:
        next(iter(toc["toc"].values()))["gfx942"][name] = value

    return change


def _metadata(name: str) -> TocChange:
    def change(toc: dict[str, Any]) -> None:
        next(iter(toc["toc"].values()))["gfx942"]["metadata"][name] += "~"

    return change


@pytest.mark.parametrize(
    "change",
    [
        _rename_key,
        _rename_target,
        _entry("ordinal", 1),
        _entry("ordinal", 99),
        _entry("original_size", 1),
        _entry("original_size", 1 << 40),
        _entry("type", "hsacp"),
        _metadata("cache_key"),
        _metadata("symbol"),
        lambda toc: toc.update(gfx_arches=["gfx943"]),
        lambda toc: toc.update(gfx_arches=["gfx950"]),
        lambda toc: toc.update(compression_scheme="none"),
        lambda toc: toc.update(compression_scheme="zstd"),
        lambda toc: toc.update(zstd_offset=65),
        lambda toc: toc.update(zstd_size=toc["zstd_size"] - 1),
        lambda toc: toc.update(format_version=2),
    ],
)
def test_any_changed_field_of_a_toc_is_found(shard: Path, change: TocChange) -> None:
    path = _engine(shard, "rocke") / "rocke_client_gfx942.kpack"
    head, toc = _archive_parts(path)
    change(toc)
    path.write_bytes(head + msgspec.msgpack.encode(toc))
    assert _look(shard).findings


def _kernels(archive: bytes) -> list[bytes]:
    reader = KpackReader(io.BytesIO(archive), len(archive))
    return [reader.read(kernel) for _, _, kernel in reader.toc.entries()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_of_a_frame_with_a_declared_digest_is_found(
    shared_shard: Path, data: st.DataObject
) -> None:
    path = _engine(shared_shard, "hip-kernel-provider") / "kpack/hip_kernel_provider_gfx942.kpack"
    original = path.read_bytes()
    end = HEADER.unpack_from(original)[2]
    index = data.draw(st.integers(68, end - 1))
    changed = bytearray(original)
    changed[index] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(changed)
    try:
        # A bit that the format ignores changes nothing that a digest could see.
        assert _look(shared_shard).findings or _kernels(changed) == _kernels(original), index
    finally:
        path.write_bytes(original)


def test_kernels_that_a_set_ships_twice_are_counted(build: Maker) -> None:
    shard = build("gfx942")
    data = code_object("gfx942", b"x" * 1000)
    for name in ("a", "b", "c"):
        shard.put(f"arch_content/aiter/gfx942/{name}.co", data)
    shard.put("arch_content/aiter/gfx942/d.co", code_object("gfx942", b"other"))
    report = inspect([str(shard.root)], DEEP)
    assert (report.duplicates.kernels, report.duplicates.size) == (2, 2 * len(data))


def _sidecar(data: bytes, **artifact: object) -> str:
    return json.dumps(
        {
            "schema": "rocke.aot.sidecar/v1",
            "cache_key": "c",
            "artifact": {
                "hsaco_filename": "k.hsaco",
                "symbol": "k",
                "hsaco_sha256": hashlib.sha256(data).hexdigest(),
                "hsaco_size": len(data),
            }
            | artifact,
            "selection": {},
            "launch": {},
            "args_signature": [],
        }
    )


@pytest.mark.parametrize(
    ("artifact", "expected"),
    [
        ({}, set()),
        ({"hsaco_sha256": "0" * 64}, {"digest-mismatch"}),
        ({"hsaco_size": 3}, {"size-mismatch"}),
        ({"hsaco_filename": "other.hsaco"}, {"sidecar-mismatch"}),
        ({"hsaco_filename": "../../x"}, {"bad-path", "sidecar-mismatch"}),
        ({"hsaco_sha256": "xyz"}, {"manifest-invalid"}),
    ],
)
def test_a_loose_kernel_and_its_sidecar(
    build: Maker, artifact: dict[str, object], expected: set[str]
) -> None:
    shard = build("gfx942")
    data = code_object("gfx942", b"k")
    shard.put("arch_content/rocke/gfx942/k.hsaco", data)
    shard.put("arch_content/rocke/gfx942/k.sidecar.json", _sidecar(data, **artifact))
    assert names(inspect([str(shard.root)], DEEP)) == expected


def test_a_loose_kernel_without_a_sidecar_beside_others_that_have_one(build: Maker) -> None:
    shard = build("gfx942")
    data = code_object("gfx942", b"k")
    shard.put("arch_content/rocke/gfx942/k.hsaco", data)
    shard.put("arch_content/rocke/gfx942/alone.hsaco", data)
    shard.put("arch_content/rocke/gfx942/k.sidecar.json", _sidecar(data))
    assert only(inspect([str(shard.root)], DEEP), "sidecar-mismatch").path.endswith("alone.hsaco")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"kdp_id": "other", "entries": {}}, "sidecar-mismatch"),
        ({"kdp_id": "relu", "entries": {}}, "sidecar-mismatch"),
        ({"kdp_id": "relu", "entries": {"relu.f32": {"kernel_source_sha256": "0" * 64}}}, "sidecar-mismatch"),
        ([], "sidecar-mismatch"),
        (None, "provenance-unknown"),
        (b"no gzip", "sidecar-mismatch"),
        (gzip.compress(b"{", mtime=0), "sidecar-mismatch"),
        (gzip.compress(b"[]", mtime=0)[:-4], "sidecar-mismatch"),
    ],
)
def test_provenance_must_match_its_descriptor(
    build: Maker, settings: Settings, document: object, expected: str
) -> None:
    shard = build("gfx942")
    path = shard.kernel_provider("gfx942") / "relu/relu.kdp.provenance.json.gz"
    if document is None:
        path.unlink()
    elif isinstance(document, bytes):
        path.write_bytes(document)
    else:
        path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
    assert names(inspect([str(shard.root)], settings)) == {expected}


def test_a_symbol_may_be_written_with_or_without_kd(shard: Path) -> None:
    path = _engine(shard, "rocke") / "rocke_client_gfx942.json"
    document = json.loads(path.read_text())
    archive = path.with_suffix(".kpack")
    plain = json.dumps(document)
    for symbol in (document["entries"][0]["symbol"].removesuffix(".kd"),):
        for spelled in (symbol, symbol + ".kd"):
            head, toc = _archive_parts(archive)
            toc["toc"][document["entries"][0]["toc_key"]]["gfx942"]["metadata"]["symbol"] = spelled
            archive.write_bytes(head + msgspec.msgpack.encode(toc))
            changed = json.loads(plain)
            changed["entries"][0]["symbol"] = spelled
            path.write_text(json.dumps(changed))
            assert _look(shard).findings == ()


def test_a_signature_that_differs_from_the_object_is_a_warning(shard: Path) -> None:
    path = next(_engine(shard, "hip-kernel-provider").rglob("*.kdp.json"))
    document = json.loads(path.read_text())
    document["kernelDescriptors"][0]["kernel_source"]["signature"][1]["offset"] = 12
    path.write_text(json.dumps(document))
    found = only(_look(shard), "signature-mismatch")
    assert "(12, 8)" in found.message
    assert found.severity.value == "warning"
    document["kernelDescriptors"][0]["kernel_source"]["signature"].pop()
    path.write_text(json.dumps(document))
    assert "3: " in only(_look(shard), "signature-mismatch").message


def test_a_damaged_code_object_is_named(shard: Path) -> None:
    path = next(_engine(shard, "aiter").rglob("*.co"))
    data = bytearray(path.read_bytes())
    data[40:48] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    assert only(_look(shard), "codeobject-invalid").path == str(path)


def test_what_is_no_elf_is_said_and_not_fatal(build: Maker) -> None:
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/a.co", "text")
    report = inspect([str(shard.root)], DEEP)
    assert report.ok
    assert "begins with b'text'" in only(report, "codeobject-invalid").message


def test_a_variant_that_lacks_kernels_of_the_plain_target(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.artifact / "ml-libs/hipkernelprovider/stage/.kpack"
    place.mkdir(parents=True)
    for target, keys in (
        ("gfx942", ("a#0", "b#0")),
        ("gfx942:xnack+", ("a#0",)),
        ("gfx942:xnack-", ("a#0", "b#0")),
    ):
        with (
            (place / f"blas_lib_{target}.kpack").open("wb") as stream,
            KpackWriter(stream, group_name="g", gfx_arch_family="gfx942") as writer,
        ):
            for key in keys:
                writer.add(key, target, code_object(target))
    report = inspect([str(shard.root)], replace(settings, depth=Depth.TOC))
    found = only(report, "variant-shadows-base")
    assert found.path.endswith("blas_lib_gfx942:xnack+.kpack")
    assert "b#0" in found.message


def test_C9_a_sparse_archive_over_4_gib_is_streamed(build: Maker, tmp_path: Path) -> None:
    import resource

    shard = build("gfx942")
    place = shard.artifact / "ml-libs/hipkernelprovider/stage/.kpack"
    place.mkdir(parents=True)
    buffer = io.BytesIO()
    with KpackWriter(buffer, group_name="g", gfx_arch_family="gfx942", scheme="none") as writer:
        writer.add("k#0", "gfx942", code_object("gfx942"))
    toc_offset = HEADER.unpack_from(buffer.getvalue())[2]
    toc = msgspec.msgpack.decode(buffer.getvalue()[toc_offset:])
    size = (4 << 30) + (1 << 20)
    toc["blobs"] = [{"offset": size, "size": len(code_object("gfx942"))}]
    path = place / "big_lib_gfx942.kpack"
    with path.open("wb") as stream:
        stream.write(HEADER.pack(b"KPAK", 1, size + 128))
        stream.seek(size)
        stream.write(code_object("gfx942"))
        stream.seek(size + 128)
        stream.write(msgspec.msgpack.encode(toc))
    with path.open("rb") as stream:
        assert read_toc(stream, path.stat().st_size).count() == 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = inspect([str(shard.root)], DEEP)
    assert report.findings == ()
    assert report.kernels_checked == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_very_many_unknown_targets_of_one_archive_are_counted(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def near(self: TargetTable, text: str) -> tuple[str, ...]:
        searched.append(text)
        return ()

    monkeypatch.setattr(TargetTable, "near", near)
    path = tmp_path / "a.kpack"
    with (
        path.open("wb") as stream,
        KpackWriter(stream, group_name="g", gfx_arch_family="gfx942") as writer,
    ):
        for number in range(1000):
            writer.add("kernel", f"gfx942{number:04}z", b"\x7fELF")
    found = [f for f in inspect([str(path)], settings).findings if f.name == "unknown-target"]
    assert len(found) == 101
    assert found[-1].message == "its table of contents names 900 more that nobody knows"
    # Looking for near names takes a millisecond each.
    assert len(set(searched)) <= 100
