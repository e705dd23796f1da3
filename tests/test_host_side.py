"""The host side: markers of split libraries, and libraries that still carry device code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from builders import STAGE, Build, code_object, host_elf, names, only, write_kpack
from kpacktools.cli import run
from kpacktools.commands import inspect
from kpacktools.findings import Severity
from kpacktools.pipeline import Settings
from kpacktools.resolving import resolve

Maker = Callable[..., Build]
NAME = "math-libs/x/stage/lib/libx.so"


def marked(name: str = NAME) -> bytes:
    """A host library whose device code was split off."""
    marker = msgspec.msgpack.encode(
        {"kernel_name": name, "kpack_search_paths": ["../.kpack/x_lib_@GFXARCH@.kpack"]}
    )
    return host_elf({".rocm_kpack_ref": marker})


def _library(shard: Build) -> Path:
    path = shard.artifact / STAGE / "lib/libx.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(marked())
    return path


def _archive(shard: Build, target: str, name: str = NAME) -> Path:
    place = shard.artifact / STAGE / f".kpack/x_lib_{target}.kpack"
    return write_kpack(place, {f"{name}#0": code_object(target.partition(":")[0])}, target)


def test_a_marker_that_no_target_resolves_is_an_error(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    _library(shard)
    found = only(inspect([str(shard.root)], settings), "marker-unresolved")
    assert found.severity is Severity.ERROR
    assert ".kpack/x_lib_gfx942.kpack" in found.message
    _archive(shard, "gfx942")
    assert inspect([str(shard.root)], settings).findings == ()


def test_a_marker_that_some_targets_resolve_is_a_warning(build: Maker, settings: Settings) -> None:
    one, two = build("gfx942"), build("gfx950")
    _library(one)
    _archive(one, "gfx942")
    two.host()
    found = only(inspect([str(one.root), str(two.root)], settings), "marker-unresolved")
    assert found.severity is Severity.WARNING
    assert "for gfx950" in found.message
    assert ".kpack/x_lib_gfx950.kpack" in found.message


def test_the_archive_may_come_with_another_part(build: Maker, settings: Settings) -> None:
    one, two = build("generic"), build("gfx942")
    _library(one)
    _archive(two, "gfx942")
    assert inspect([str(one.root), str(two.root)], settings).findings == ()


def test_a_plain_archive_serves_a_variant(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    _library(shard)
    _archive(shard, "gfx942")
    shard.put("arch_content/aiter/gfx942-xnack+/k.co", code_object("gfx942:xnack+"))
    assert inspect([str(shard.root)], settings).findings == ()


def test_an_archive_without_the_librarys_kernels_does_not_resolve_it(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    _library(shard)
    _archive(shard, "gfx942", "some/other/library.so")
    message = only(inspect([str(shard.root)], settings), "marker-unresolved").message
    assert "which is there and lacks math-libs/x/stage/lib/libx.so#0" in message


def test_the_generic_part_alone_is_not_judged(build: Maker, settings: Settings) -> None:
    shard = build("generic")
    _library(shard)
    assert inspect([str(shard.root)], settings).findings == ()


def test_an_install_prefix_without_any_archive_is(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "prefix/lib").mkdir(parents=True)
    (tmp_path / "prefix/lib/libx.so").write_bytes(marked())
    message = only(inspect([str(tmp_path / "prefix")], settings), "marker-unresolved").message
    assert ".kpack/x_lib_gfx942.kpack" in message


def test_a_library_that_still_carries_device_code_is_said(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    path = shard.artifact / STAGE / "lib/libfat.so"
    path.parent.mkdir(parents=True)
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + (2).to_bytes(8, "little")
    for identifier in (b"host-x86_64-unknown-linux--", b"hipv4-amdgcn-amd-amdhsa--gfx942"):
        bundle += (4096).to_bytes(8, "little") + bytes(8) + len(identifier).to_bytes(8, "little") + identifier
    path.write_bytes(host_elf({".hip_fatbin": bundle.ljust(8192, b"\0")}))
    found = only(inspect([str(shard.root)], settings), "fat-binary")
    assert found.severity is Severity.INFO
    assert "1 targets (gfx942)" in found.message


def test_resolve_says_what_the_runtime_takes(build: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    (found,) = resolve(str(shard.root), "rocke", "gfx942:sramecc+:xnack-")
    assert [(a.looks_for, a.found is not None) for a in found.attempts] == [
        ("gfx942:sramecc+:xnack-", False),
        ("gfx942:sramecc+", False),
        ("gfx942:xnack-", False),
        ("gfx942", True),
    ]
    assert found.taken is not None
    assert found.taken.kernels == 2
    assert run(["resolve", str(shard.root), "--engine", "rocke", "--target", "gfx942:xnack+"]) == 0
    out = capsys.readouterr().out
    assert "-> 2. gfx942: " in out
    assert "rocke_client_gfx942.kpack" in out


def test_resolve_says_why_not(build: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    shard = build("gfx942", "generic")
    shard.put("arch_content/rocke/gfx942-xnack+/x", "x")
    (found,) = resolve(str(shard.root), "rocke", "gfx942:xnack-")
    assert found.taken is None
    assert "gfx942:xnack+ contradicts the features of gfx942:xnack-" in found.reasons
    (found,) = resolve(str(shard.root), "aiter", "gfx942")
    assert "no content of aiter is here at all; engines here: rocke" in found.reasons
    assert (
        run(["resolve", str(shard.root), "--engine", "rocke", "--target", "gfx1201", "--format", "json"]) == 1
    )
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["resolutions"][0]["taken"] is None
    assert run(["resolve", str(shard.root), "--engine", "nobody", "--target", "gfx1201"]) == 2
    assert run(["resolve", str(shard.root), "--engine", "rocke", "--target", "gfx17z"]) == 2


def test_resolve_of_host_libraries_follows_their_markers(build: Maker) -> None:
    shard = build("gfx942")
    _library(shard)
    _archive(shard, "gfx942")
    (found,) = resolve(str(shard.root), "kpack", "gfx942:xnack+")
    assert [a.looks_for for a in found.attempts] == [
        ".kpack/x_lib_gfx942:xnack+.kpack",
        ".kpack/x_lib_gfx942.kpack",
    ]
    assert found.taken is found.attempts[1]
    (found,) = resolve(str(shard.root), "kpack", "gfx950")
    assert found.taken is None


def test_a_symbol_that_the_object_lacks_is_found(tmp_path: Path) -> None:
    import json
    import shutil

    from kpacktools.data import data_path

    shutil.copytree(data_path("examples", "shards", "gfx942"), tmp_path / "s")
    path = next((tmp_path / "s").rglob("rocke_client_gfx942.json"))
    path.chmod(0o644)
    document = json.loads(path.read_text())
    for entry in document["entries"]:
        entry["symbol"] += "_v2"
    path.write_text(json.dumps(document))
    assert names(inspect([str(tmp_path / "s")])) == {"symbol-missing", "manifest-invalid"}
