"""Cases from the field, section A: merging."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import STAGE, Build, code_object, contents, names, only
from kpacktools.commands import MergeOptions, inspect, merge, split
from kpacktools.findings import Severity
from kpacktools.pipeline import Settings
from kpacktools.policy import Policy

Maker = Callable[..., Build]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_A1_different_bytes_at_one_generic_path_are_a_conflict_in_either_order(
    build: Maker, tmp_path: Path, settings: Settings, order: tuple[int, int]
) -> None:
    shards = [build("gfx942").host("mine\n"), build("gfx950").host("theirs\n")]
    report = merge([str(shards[i].root) for i in order], str(tmp_path / "out"), settings)
    found = only(report, "content-conflict")
    assert not report.ok
    assert found.path == f"{STAGE}/lib/hipdnn_plugins/engines/libhost.so"
    assert len(found.sources) == 2
    assert "5 bytes, sha256 " in found.message
    assert "7 bytes, sha256 " in found.message
    assert os.listdir(tmp_path) == ["in"]


def test_A1_same_bytes_are_kept_once(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shards = [str(build(name).host().root) for name in ("gfx942", "gfx950", "gfx1100")]
    report = merge(shards, str(tmp_path / "out"), settings)
    assert report.ok
    assert (report.counts.files_in, report.counts.files_out, report.counts.files_deduplicated) == (3, 1, 2)


def test_A1_of_equal_files_the_executable_one_is_kept(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    first, second = build("gfx942").host(), build("gfx950").host()
    (second.engines / "libhost.so").chmod(0o755)
    for order in ([first, second], [second, first]):
        out = tmp_path / f"out{order[0].key}"
        assert merge([str(shard.root) for shard in order], str(out), settings).ok
        kept = next(out.rglob("libhost.so"))
        assert kept.stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize("content", ["kpack", "code object"])
def test_A3_device_code_that_no_target_owns_is_refused(
    build: Maker, tmp_path: Path, settings: Settings, content: str
) -> None:
    shard = build("gfx950").host()
    if content == "kpack":
        archive = shard.rocke("gfx950") / "rocke_client_gfx950.kpack"
        shard.put("somewhere/anything.bin", archive.read_bytes())
    else:
        shard.put("somewhere/anything.bin", code_object("gfx950"))
    report = merge([str(shard.root)], str(tmp_path / "out"), settings)
    assert only(report, "device-code-in-generic").path.endswith("somewhere/anything.bin")
    assert not (tmp_path / "out").exists()


def test_A3_the_name_decides_where_no_file_may_be_read(build: Maker, settings: Settings) -> None:
    from msgspec.structs import replace

    from kpacktools.hookspecs import Depth

    shard = build("gfx950").host()
    shard.put("somewhere/k.co", code_object("gfx950"))
    report = inspect([str(shard.root)], replace(settings, depth=Depth.LAYOUT))
    assert names(report) == {"device-code-in-generic"}


def test_A4_stray_content_for_another_shards_target_never_wins(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    stray, real = build("gfx1100").host(), build("gfx906").host()
    stray.rocke("gfx1100")
    stray.rocke("gfx906", ["k0", "k1", "k2"])
    real.rocke("gfx906", [f"k{i}" for i in range(646)])
    for order in ([stray, real], [real, stray]):
        report = merge([str(shard.root) for shard in order], str(tmp_path / "out"), settings)
        assert "foreign-target" in names(report)
        assert "content-conflict" not in names(report)
        assert "gfx1100" in only(report, "foreign-target").message
        assert not (tmp_path / "out").exists()


def test_A4_a_stray_file_that_the_owner_lacks_is_foreign_too(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    stray, real = build("gfx1100"), build("gfx906")
    real.put("arch_content/aiter/gfx906/a.co", code_object("gfx906"))
    stray.put("arch_content/aiter/gfx906/b.co", code_object("gfx906"))
    report = merge([str(stray.root), str(real.root)], str(tmp_path / "out"), settings)
    assert "1 file of" in only(report, "foreign-target").message


def test_A4_a_stray_file_equal_to_the_owners_is_deduplicated(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    stray, real = build("gfx1100"), build("gfx906")
    for shard in (stray, real):
        shard.put("arch_content/aiter/gfx906/a.co", code_object("gfx906"))
    report = merge([str(stray.root), str(real.root)], str(tmp_path / "out"), settings)
    assert report.ok
    assert report.counts.files_deduplicated == 1


def test_A4_content_for_a_target_that_nobody_else_was_built_for_is_taken(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx1100")
    shard.rocke("gfx906")
    assert merge([str(shard.root)], str(tmp_path / "out"), settings).ok
    assert (tmp_path / "out/hipkernelprovider_lib_gfx906").is_dir()


def test_A5_test_content_is_claimed_for_its_target(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx942")
    shard.put("test_arch_content/hip-kernel-provider/unit/shared/gfx942/x", "anything")
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert report.ok
    (bundle,) = report.bundles
    assert (bundle.bundle.engine, bundle.bundle.key.name) == ("hip-kernel-provider", "gfx942")
    assert not contents(tmp_path / "out/hipkernelprovider_lib_generic").keys() - {"artifact_manifest.txt"}


def test_A7_a_file_between_engine_and_target_may_not_differ(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shards = [build("gfx942"), build("gfx950")]
    for shard, data in zip(shards, ("one", "two"), strict=True):
        shard.put("arch_content/rocke/index.json", data)
    report = merge([str(shard.root) for shard in shards], str(tmp_path / "out"), settings)
    assert "arch_content/rocke/<target>/" in only(report, "content-conflict").hint
    for shard in shards:
        shard.put("arch_content/rocke/index.json", "same")
    assert merge([str(shard.root) for shard in shards], str(tmp_path / "out"), settings).ok


def test_A9_a_conflict_of_line_ends_says_so(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shards = [build("gfx942").host("a\nb\n"), build("gfx950").host("a\r\nb\r\n")]
    report = merge([str(shard.root) for shard in shards], str(tmp_path / "out"), settings)
    assert "only the line ends differ" in only(report, "content-conflict").hint


def test_A13_splitting_a_split_changes_nothing(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx942").host()
    shard.rocke("gfx942")
    once, twice = tmp_path / "once", tmp_path / "twice"
    assert split(str(shard.root), str(once), settings).ok
    report = split(str(once), str(twice), settings)
    assert report.ok
    assert contents(once) == contents(twice)
    assert report.counts.files_in == report.counts.files_out == 3


def test_A13_a_part_alone_splits_into_itself(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx942").host()
    shard.rocke("gfx942")
    split(str(shard.root), str(tmp_path / "once"), settings)
    part = tmp_path / "once/hipkernelprovider_lib_gfx942"
    assert split(str(part), str(tmp_path / "again"), settings).ok
    assert contents(part) == contents(tmp_path / "again/hipkernelprovider_lib_gfx942")


def test_A15_a_device_that_is_not_there_names_what_is(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("dgpu", "generic")
    for target in ("gfx1100", "gfx90a"):
        shard.rocke(target)
    asked = MergeOptions(devices=("gfx1010",))
    report = split(str(shard.root), str(tmp_path / "out"), settings, asked)
    found = only(report, "no-match")
    assert "gfx1010" in found.message
    assert "gfx1100, gfx90a" in found.message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("allowed", [frozenset({"gfx1010"}), None])
def test_A15_a_policy_may_expect_none(
    build: Maker, tmp_path: Path, settings: Settings, allowed: frozenset[str] | None
) -> None:
    from msgspec.structs import replace

    shard = build("gfx1100").host()
    shard.rocke("gfx1100")
    relaxed = replace(settings, policy=Policy(none_expected=allowed))
    asked = MergeOptions(devices=("gfx1010",))
    report = split(str(shard.root), str(tmp_path / "out"), relaxed, asked)
    assert report.ok
    assert (report.counts.files_out, report.counts.files_filtered) == (1, 2)


def test_E3_content_of_an_engine_without_a_handler_is_not_generic(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.put("arch_content/nobody/gfx942/x.bin", "data")
    report = inspect([str(shard.root)], settings)
    found = only(report, "unclaimed-target-content")
    assert found.severity is Severity.ERROR
    assert "'nobody'" in found.message
    assert "rocke" in found.hint


def test_E6_an_empty_component_gets_a_manifest_with_every_stage_prefix(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx942").host()
    shard.rocke("gfx942")
    stages = ("ml-libs/b/stage", "ml-libs/a/stage")
    shard.add_artifact("other", "run", stages=stages)
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert report.ok
    assert sorted(os.listdir(tmp_path / "out")) == [
        "hipkernelprovider_lib_generic",
        "hipkernelprovider_lib_gfx942",
        "other_run_generic",
    ]
    manifest = (tmp_path / "out/other_run_generic/artifact_manifest.txt").read_text()
    assert manifest == "ml-libs/b/stage\nml-libs/a/stage\n"


def test_E6_a_part_lists_also_the_stage_prefixes_that_it_has_no_file_of(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx942")
    artifact = shard.add_artifact(stages=("other/stage", STAGE))
    shard.rocke("gfx942")
    (artifact / "other/stage").mkdir(parents=True)
    (artifact / "other/stage/readme").write_text("generic")
    assert split(str(shard.root), str(tmp_path / "out"), settings).ok
    for part in (tmp_path / "out").iterdir():
        assert (part / "artifact_manifest.txt").read_text() == f"other/stage\n{STAGE}\n"


def test_generic_halves_with_different_files_are_all_kept_and_said(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    one, two, part = build("gfx942").host(), build("gfx950").host(), build("gfx1100")
    two.put("libextra.so", "x")
    part.rocke("gfx1100")
    report = merge([str(s.root) for s in (one, two, part)], str(tmp_path / "out"), settings)
    found = only(report, "host-set-mismatch")
    assert report.ok
    assert found.severity is Severity.WARNING
    assert "libextra.so is not in gfx942" in found.message
    assert "gfx1100" not in found.message


@pytest.mark.parametrize(("length", "expected"), [(225, None), (230, "path-too-long")])
def test_D18_a_path_that_does_not_fit_once_installed_is_named(
    build: Maker, settings: Settings, length: int, expected: str | None
) -> None:
    below = "lib/hipdnn_plugins/engines/"
    shard = build("gfx942").host()
    shard.put("d" * 100 + "/" + "f" * (length - len(below) - 101), "x")
    report = inspect([str(shard.root)], settings)
    assert names(report) == (set() if expected is None else {expected})
    if expected is not None:
        found = only(report, expected)
        assert f"/{STAGE}/{below}ddd" in found.path
        assert found.message.startswith(f"{length} characters below its stage prefix")
