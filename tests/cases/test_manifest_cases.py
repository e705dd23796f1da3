"""Cases from the field, section C: manifests, archives, coverage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import ENGINES, STAGE, Build, names, only
from kpacktools.commands import inspect, merge, split
from kpacktools.pipeline import Settings

Maker = Callable[..., Build]


def _inspect(shard: Build, settings: Settings) -> set[str]:
    return names(inspect([str(shard.root)], settings))


def test_C5_missing_and_orphan_kernels_are_two_findings(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["x_1"], archive=["x_0"])
    report = inspect([str(shard.root)], settings)
    assert "rocke/sdpa_fwd/fmha/x_1" in only(report, "missing-kernel").message
    assert "rocke/sdpa_fwd/fmha/x_0" in only(report, "orphan-kernel").message


BROKEN = {
    "no bytes": b"",
    "wrong magic": b"NOPE" + bytes(200),
    "version 9": b"KPAK" + (9).to_bytes(4, "little") + bytes(200),
    "TOC past the end": b"KPAK" + (1).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little") + bytes(200),
    "huge MessagePack length": b"KPAK"
    + (1).to_bytes(4, "little")
    + (64).to_bytes(8, "little")
    + bytes(48)
    + b"\x81\xa3toc\xdf\xff\xff\xff\xff",
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_C8_a_broken_archive_is_one_finding_and_the_others_go_on(
    build: Maker, settings: Settings, kind: str
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    other = build("gfx950")
    archive = other.rocke("gfx950") / "rocke_client_gfx950.kpack"
    archive.write_bytes(BROKEN[kind])
    report = inspect([str(shard.root), str(other.root)], settings)
    expected = "kpack-unsupported" if kind == "version 9" else "kpack-corrupt"
    assert [f.name for f in report.findings] == [expected]
    assert report.findings[0].path == str(archive)
    assert sum(bundle.kernels for bundle in report.bundles if bundle.bundle.key.name == "gfx942") == 2


def test_C13_a_manifest_without_a_schema_is_refused(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    path = shard.engines / "arch_content/rocke/gfx942/rocke_client_gfx942.json"
    document = json.loads(path.read_text())
    del document["schema"]
    path.write_text(json.dumps(document))
    assert "manifest-unknown-schema" in _inspect(shard, settings)


def test_C13_an_unknown_schema_is_refused(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", schema="rocke.aot.bundle/v9")
    report = inspect([str(shard.root)], settings)
    assert "rocke.aot.bundle/v1" in only(report, "manifest-unknown-schema").message


def test_C13_the_earlier_schema_name_and_entries_are_known(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942", schema="hipdnn.rocke.bundle/v1")
    path = place / "rocke_client_gfx942.json"
    document = json.loads(path.read_text())
    for entry in document["entries"]:
        for name in ("name", "op", "family", "compile_spec"):
            del entry[name]
    path.write_text(json.dumps(document))
    assert _inspect(shard, settings) == set()


def test_C13_keys_that_the_schema_forbids_are_named_with_the_nearest_one(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", producers="rocKE")
    report = inspect([str(shard.root)], settings)
    assert only(report, "manifest-invalid").message == "$: expected 'producer', found 'producers'"


def test_C13_extra_keys_are_kept_where_the_schema_allows_them(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx942")
    place = shard.kernel_provider("gfx942")
    path = place / "relu/relu.ued.json"
    path.write_text(json.dumps({"id": "relu.engine", "name": "test:relu", "vendor": {"note": 1}}))
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert report.ok
    assert next((tmp_path / "out").rglob("relu.ued.json")).read_bytes() == path.read_bytes()


def test_C14_every_word_on_the_target_is_in_one_finding(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", toc_target="gfx1100", arch="gfx950")
    message = only(inspect([str(shard.root)], settings), "target-mismatch").message
    for word in ("folder gfx942", "manifest gfx950", "archive name gfx942", "TOC gfx1100"):
        assert word in message


@pytest.mark.parametrize("path", ["../gfx1100/x.kpack", "/opt/x.kpack", "..\\x.kpack", "C:/x.kpack"])
def test_C15_a_reference_that_leaves_the_target_is_a_bad_path(
    build: Maker, settings: Settings, path: str
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", kpack=path)
    assert "bad-path" in _inspect(shard, settings)
    provider = build("gfx950")
    provider.kernel_provider(
        "gfx950", library=path if path != "../gfx1100/x.kpack" else "../../gfx942/x.kpack"
    )
    assert "bad-path" in _inspect(provider, settings)


def test_C15_a_reference_may_climb_inside_the_target(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.kernel_provider("gfx942", library="../../kpack/hip_kernel_provider_gfx942.kpack")
    deep = place / "relu/deep"
    deep.mkdir()
    for file in [path for path in (place / "relu").iterdir() if path.is_file()]:
        file.rename(deep / file.name)
    assert _inspect(shard, settings) == set()


def test_C16_paths_below_a_target_are_preserved(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx942")
    paths = ["a/b/c/d.co", "a.b/.hidden/x y.csv", "gfx942_tiled_attention/z", "ünï/ç"]
    for path in paths:
        shard.put(f"arch_content/aiter/deep/gfx942/{path}", path)
    assert split(str(shard.root), str(tmp_path / "out"), settings).ok
    root = tmp_path / "out/hipkernelprovider_lib_gfx942" / STAGE / ENGINES / "arch_content/aiter/deep/gfx942"
    found = {
        os.path.relpath(os.path.join(where, name), root)
        for where, _, files in os.walk(root)
        for name in files
    }
    assert found == set(paths)


def test_C17_a_file_of_any_kind_below_a_target_belongs_to_it(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx942")
    for engine in ("aiter", "rocke", "hip-kernel-provider"):
        shard.put(f"arch_content/{engine}/gfx942/odd.xyz", "data")
        shard.put(f"arch_content/{engine}/gfx942/noextension", "data")
    report = merge([str(shard.root)], str(tmp_path / "out"), settings)
    assert report.ok
    assert len(list((tmp_path / "out/hipkernelprovider_lib_gfx942").rglob("*o*x*"))) >= 6
    assert [o.files for o in report.outputs] == [0, 6]


def test_C18_the_cell_that_is_required_and_empty_is_a_gap(build: Maker, settings: Settings) -> None:
    shard = build("many", "generic")
    shard.rocke("gfx942")
    shard.rocke("gfx950")
    shard.kernel_provider("gfx942")
    wanted = [
        f"{engine}:{key}" for engine in ("rocke", "hip_kernel_provider") for key in ("gfx942", "gfx950")
    ]
    report = inspect([str(shard.root)], settings, wanted)
    assert [f.path for f in report.findings if f.name == "coverage-gap"] == ["hip_kernel_provider:gfx950"]
    from kpacktools.reports.text import as_text

    lines = as_text(report).splitlines()
    assert any(line.startswith("hip-kernel-provider") and line.rstrip().endswith("-") for line in lines)


def test_C18_the_topologys_word_for_all_of_arch_content_is_met_by_any_of_its_engines(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    wanted = ["hipkernelprovider:gfx942", "lib/hipkernelprovider:gfx942", "hipkernelprovider:gfx950"]
    report = inspect([str(shard.root)], settings, wanted)
    assert [f.path for f in report.findings if f.name == "coverage-gap"] == ["hipkernelprovider:gfx950"]
