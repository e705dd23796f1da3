"""Every place of every engine, each in two targets: what it splits into, and nothing generic that should not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders import STAGE, Build, code_object, contents, names, only, write_kpack
from kpacktools.commands import MergeOptions, inspect, split
from kpacktools.errors import CallError
from kpacktools.pipeline import Settings
from kpacktools.plugins import load_registry
from kpacktools.targets import default_targets

Maker = Callable[..., Build]

PLACES = [
    # (path below the stage prefix, engine, key, part)
    ("lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/a.csv", "aiter", "gfx942", "gfx942"),
    ("lib/hipdnn_plugins/engines/arch_content/aiter/deep/er/gfx950/a.csv", "aiter", "gfx950", "gfx950"),
    ("share/aiter_meta/hsa/gfx942/a.csv", "aiter", "gfx942", "gfx942"),
    ("engines/arch_content/aot_catalog/gfx942/gemm/notes.txt", "aot_catalog", "gfx942", "gfx942"),
    ("engines/arch_content/aot_catalog/gfx950/gemm/notes.txt", "aot_catalog", "gfx950", "gfx950"),
    ("engines/arch_content/gfx942/loose.bin", "arch_content", "gfx942", "gfx942"),
    ("engines/arch_content/gfx90a-xnack-/loose.bin", "arch_content", "gfx90a:xnack-", "gfx90a"),
    ("engines/test_arch_content/rocke/unit/gfx942/x", "rocke", "gfx942", "gfx942"),
    ("engines/test_arch_content/hip-kernel-provider/gfx950/x", "hip-kernel-provider", "gfx950", "gfx950"),
    ("share/asm_kernels/gfx942/f.s", "asm", "gfx942", "gfx942"),
    ("share/asm_kernels/gfx950/deep/f.s", "asm", "gfx950", "gfx950"),
    ("lib/rocblas/library/gfx942/T.dat", "rocblas", "gfx942", "gfx942"),
    ("lib/rocblas/library/gfx90a-xnack+/T.dat", "rocblas", "gfx90a:xnack+", "gfx90a"),
    ("lib/rocblas/library/TensileLibrary_Type_HH_Contraction_gfx1100.dat", "rocblas", "gfx1100", "gfx1100"),
    ("lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco", "rocblas", "gfx90a:xnack-", "gfx90a"),
    ("lib/rocblas/library/Kernels.so-000-gfx1201.hsaco", "rocblas", "gfx1201", "gfx1201"),
    ("lib/hipblaslt/library/gfx950/x.co", "hipblaslt", "gfx950", "gfx950"),
    ("lib/hipblaslt/library/extop_gfx942.co", "hipblaslt", "gfx942", "gfx942"),
    ("lib/hipsparselt/library/TensileLibrary_lazy_gfx942.dat", "hipsparselt", "gfx942", "gfx942"),
    ("lib/hipsparselt/library/gfx950/x.dat", "hipsparselt", "gfx950", "gfx950"),
    ("lib/aotriton.images/amd-gfx11xx/flash/k.aks2", "aotriton", "gfx11", "gfx11"),
    ("lib/aotriton.images/amd-gfx120x/flash/k.aks2", "aotriton", "gfx12_0", "gfx12_0"),
    ("lib/aotriton.images/amd-gfx942/flash/k.aks2", "aotriton", "gfx942", "gfx942"),
    ("share/miopen/db/gfx942130.db.txt", "miopen", "gfx942", "gfx942"),
    ("share/miopen/db/gfx90878.HIP.fdb.txt", "miopen", "gfx908", "gfx908"),
    ("share/miopen/db/gfx1030_36.db.txt", "miopen", "gfx1030", "gfx1030"),
    ("share/miopen/db/gfx90a6e.kdb", "miopen", "gfx90a", "gfx90a"),
    ("share/miopen/db/gfx942_metadata.tn.model", "miopen", "gfx942", "gfx942"),
    ("lib/libMIOpenCKGroupedConv_gfx942.so", "miopen", "gfx942", "gfx942"),
    ("lib/libMIOpenCKGroupedConv_gfx950.so.1.0", "miopen", "gfx950", "gfx950"),
    ("lib/libdevice_conv_operations_gfx942.a", "composablekernel", "gfx942", "gfx942"),
    ("lib/libdevice_conv_operations_gfx1250_strict.a", "composablekernel", "gfx1250-strict", "gfx1250-strict"),
    ("lib/libdevice_conv_operations_gfx90a_sramecc__xnackp.a", "composablekernel",
     "gfx90a:sramecc-:xnack+", "gfx90a"),
    ("share/rocjitsu/translations/gfx1250-b0-a0/v1/" + "0" * 64 + ".man", "hotswap_cache", "gfx1250", "gfx1250"),
    ("share/rocjitsu/translations/gfx942/v1/" + "1" * 64 + ".obj", "hotswap_cache", "gfx942", "gfx942"),
    # Windows
    ("bin/hipdnn_plugins/engines/arch_content/rocke/gfx1100/x", "rocke", "gfx1100", "gfx1100"),
    ("bin/rocblas/library/TensileLibrary_gfx1201.dat", "rocblas", "gfx1201", "gfx1201"),
    ("bin/MIOpenCKGroupedConv_gfx1100.dll", "miopen", "gfx1100", "gfx1100"),
    ("lib/device_conv_operations_gfx1201.lib", "composablekernel", "gfx1201", "gfx1201"),
]  # fmt: skip
ARCHIVES = [
    (".kpack/blas_lib_gfx942.kpack", "kpack", "gfx942"),
    (".kpack/fft_lib_gfx1201.kpack", "kpack", "gfx1201"),
    ("share/asm_kernels/kpack/asm_gfx942.kpack", "asm", "gfx942"),
    ("share/asm_kernels/kpack/asm_gfx1100.kpack", "asm", "gfx1100"),
]
GENERIC = [
    "lib/rocblas/library/TensileManifest.txt",
    "lib/rocblas/library/hipblasltTransform.hsaco",
    "share/miopen/db/readme.txt",
    "lib/libMIOpen.so",
    "lib/libMIOpenCK_common.so",
    "bin/MIOpenCK.dll",
    "lib/hipdnn_plugins/engines/arch_content/rocke/index.json",
    "include/gfx942_tiled_attention/k.h",
    "lib/aotriton.images/list.json",
    "lib/libdevice_conv_operations.a",
]


@pytest.fixture
def everything(build: Maker) -> Build:
    shard = build("all", "generic")
    root = shard.artifact / STAGE
    for path, *_ in PLACES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    for path, _, target in ARCHIVES:
        write_kpack(root / path, {"k#0": code_object(target)}, target)
    for path in GENERIC:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return shard


def test_every_place_of_every_engine_splits_into_the_part_it_should(
    everything: Build, tmp_path: Path, settings: Settings
) -> None:
    report = split(str(everything.root), str(tmp_path / "out"), settings)
    assert report.ok, report.findings
    expected: dict[str, set[str]] = {"generic": set(GENERIC)}
    for path, _, _, part in PLACES:
        expected.setdefault(part, set()).add(path)
    for path, _, part in ARCHIVES:
        expected.setdefault(part, set()).add(path)
    found = {
        folder.name.removeprefix("hipkernelprovider_lib_"): {
            path.removeprefix(STAGE + "/") for path in contents(folder) if path != "artifact_manifest.txt"
        }
        for folder in (tmp_path / "out").iterdir()
    }
    assert found == expected


def test_every_place_is_reported_under_its_engine_and_key(everything: Build, settings: Settings) -> None:
    report = inspect([str(everything.root)], settings)
    expected = {(engine, key) for _, engine, key, _ in PLACES} | {
        (engine, key) for _, engine, key in ARCHIVES
    }
    assert {(item.bundle.engine, item.bundle.key.name) for item in report.bundles} == expected
    assert sum(len(item.bundle.entries) for item in report.bundles) == len(PLACES) + len(ARCHIVES)


def test_splitting_the_parts_again_changes_nothing(
    everything: Build, tmp_path: Path, settings: Settings
) -> None:
    split(str(everything.root), str(tmp_path / "once"), settings)
    assert split(str(tmp_path / "once"), str(tmp_path / "twice"), settings).ok
    assert contents(tmp_path / "once") == contents(tmp_path / "twice")


def test_A6_a_kpack_outside_arch_content_goes_with_its_target_and_is_said(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    from msgspec.structs import replace

    shard = build("gfx942")
    write_kpack(shard.engines / "asm_kernels/kpack/asm_gfx942.kpack", {"k": code_object("gfx942")}, "gfx942")
    write_kpack(shard.engines / "elsewhere/other_gfx942.kpack", {"k": code_object("gfx942")}, "gfx942")
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert report.ok
    assert [f.name for f in report.findings] == ["kpack-outside-arch-content"] * 2
    assert report.outputs[1].files == 2
    assert not split(str(shard.root), str(tmp_path / "strict"), replace(settings, strict=True)).ok


def test_A6_an_archive_that_disagrees_with_its_name_is_not_adopted(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    write_kpack(shard.engines / "elsewhere/other_gfx950.kpack", {"k": code_object("gfx942")}, "gfx942")
    assert names(inspect([str(shard.root)], settings)) == {"device-code-in-generic"}


def test_A6_split_archives_and_test_archives_are_where_they_should_be(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    write_kpack(
        shard.artifact / STAGE / ".kpack/a_lib_gfx942.kpack", {"k#0": code_object("gfx942")}, "gfx942"
    )
    place = shard.engines / "test_arch_content/hip-kernel-provider/gfx942/t_gfx942.kpack"
    write_kpack(place, {"k": code_object("gfx942")}, "gfx942")
    assert names(inspect([str(shard.root)], settings)) == {"partial-bundle"}


@pytest.mark.parametrize(
    ("name", "processor"),
    [
        ("gfx942130.db.txt", "gfx942"),
        ("gfx90878.HIP.fdb.txt", "gfx908"),
        ("gfx1030_36.db.txt", "gfx1030"),
        ("gfx1103_12.db.txt", "gfx1103"),
        ("gfx90a68.kdb", "gfx90a"),
        ("gfx908.kdb", "gfx908"),
        ("gfx1201.model", "gfx1201"),
    ],
)
def test_B10_a_count_of_compute_units_follows_the_processor(name: str, processor: str) -> None:
    handler = load_registry([]).by_name("miopen").handler
    assert handler.target_of_file(name, default_targets()) == processor


def test_B10_a_processor_that_nobody_knows_is_reported(build: Maker, settings: Settings) -> None:
    shard = build("generic")
    shard.put("miopen/db/gfx17z130.db.txt", "x")
    shard.put("rocblas/library/T_gfx17z.dat", "x")
    report = inspect([str(shard.root)], settings)
    assert [f.name for f in report.findings] == ["unknown-target", "unknown-target"]


def test_handler_names_are_the_words_of_split_databases() -> None:
    registry = load_registry([])
    for name in (
        "rocblas",
        "hipblaslt",
        "hipsparselt",
        "miopen",
        "hipkernelprovider",
        "hotswap_cache",
        "aotriton",
    ):
        assert registry.by_name(name).handler.name == name


def test_E1_a_folder_that_hides_a_plugin_is_found_across_parts(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.put("libhip_kernel_provider.so", "x")
    other = build("gfx950")
    other.put("hip_kernel_provider/notes.txt", "x")
    assert names(inspect([str(shard.root)], settings)) == set()
    found = only(inspect([str(shard.root), str(other.root)], settings), "plugin-shadowed")
    assert found.path.endswith("libhip_kernel_provider.so")
    (other.engines / "hip_kernel_provider").rename(other.engines / "other")
    other.put("rocke_client.dll", "x")
    other.put("rocke_client/notes.txt", "x")
    assert "'rocke_client'" in only(inspect([str(other.root)], settings), "plugin-shadowed").message


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, set()),
        ({"arch": "gfx950"}, {"target-mismatch"}),
        ({"kernels": [{"symbol": "s", "co_file": "b.co", "args_signature": []}]}, {"missing-kernel", "orphan-kernel"}),
        ({"kernels": []}, {"orphan-kernel"}),
        ({"kernels": 3}, {"manifest-invalid"}),
        ({"kernels": [{"symbol": "s", "co_file": "../../gfx950/a.co", "args_signature": []}]},
         {"bad-path", "orphan-kernel"}),
    ],
)  # fmt: skip
def test_aot_catalog_families(
    build: Maker, settings: Settings, document: dict[str, object], expected: set[str]
) -> None:
    import json

    kernel = {
        "symbol": "s", "co_file": "a.co", "constraints": {}, "grid": {}, "block": [64, 1, 1],
        "args_signature": [{"name": "A", "type": "ptr"}], "workspace_bytes": 0,
    }  # fmt: skip
    family = {
        "family": "gemm",
        "op_kind": "gemm",
        "arch": "gfx942",
        "dtype": "f16",
        "kernels": [kernel, kernel],
    }
    shard = build("gfx942")
    shard.put("arch_content/aot_catalog/gfx942/gemm/family.json", json.dumps(family | document))
    shard.put("arch_content/aot_catalog/gfx942/gemm/a.co", code_object("gfx942"))
    assert names(inspect([str(shard.root)], settings)) == expected


def test_an_opaque_engine_is_split_unchecked_with_its_reason(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    from msgspec.structs import replace

    from kpacktools.policy import Policy

    shard = build("gfx942")
    shard.put("arch_content/nobody/deep/gfx942/x.bin", "x")
    allowed = replace(settings, policy=Policy(opaque={"nobody": "it is new"}))
    report = split(str(shard.root), str(tmp_path / "out"), allowed, MergeOptions())
    assert report.ok
    assert report.findings == ()
    assert report.notes == ("policy [engines.nobody]: split by folder and not checked: it is new",)
    assert report.outputs[1].files == 1


def test_a_neutral_artifact_may_hold_device_code(build: Maker, tmp_path: Path, settings: Settings) -> None:
    from msgspec.structs import replace

    from kpacktools.policy import NeutralRule, Policy

    shard = build("gfx942")
    shard.put("somewhere/k.co", code_object("gfx942"))
    for rule, ok in (
        (NeutralRule("hipkernelprovider", "tests"), True),
        (NeutralRule("hipkernelprovider", "tests", "lib"), True),
        (NeutralRule("hipkernelprovider", "tests", "run"), False),
        (NeutralRule("other", "tests"), False),
    ):
        report = inspect([str(shard.root)], replace(settings, policy=Policy(neutral=(rule,))))
        assert report.ok is ok
        assert any("tests" in note for note in report.notes) is ok


def test_an_artifact_that_the_topology_declares_neutral_may_hold_device_code(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    from msgspec.structs import replace

    from kpacktools.policy import load_policy

    shard = build("gfx942")
    shard.put("somewhere/k.co", code_object("gfx942"))
    policy = tmp_path / "policy.toml"
    policy.write_text('topology = "topology.toml"\n')
    topology = tmp_path / "topology.toml"
    for kind, ok in (("target-neutral", True), ("target-specific", False), ("unknown", False)):
        topology.write_text(f'[artifacts.hipkernelprovider]\nartifact_group = "libs"\ntype = "{kind}"\n')
        report = inspect([str(shard.root)], replace(settings, policy=load_policy(str(policy))))
        assert report.ok is ok
        note = f"topology {topology}: device code may stay generic in hipkernelprovider_lib: "
        assert any(line.startswith(note) for line in report.notes) is ok
    topology.write_text("[artifacts")
    with pytest.raises(CallError, match=r"topology\.toml: .*TOML"):
        load_policy(str(policy))
    topology.unlink()
    with pytest.raises(CallError, match=r"topology\.toml"):
        load_policy(str(policy))
