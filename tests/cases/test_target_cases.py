"""Cases from the field, section B: targets and bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build, code_object, contents, names, only
from kpacktools.commands import MergeOptions, inspect, merge, split
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.wheelbuild import WheelRun, wheel

Maker = Callable[..., Build]


def test_B1_a_feature_spelling_goes_to_its_processor(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("mixed", "generic")
    shard.put("arch_content/aiter/gfx90a-xnack-/k.co", code_object("gfx90a:xnack-"))
    asked = MergeOptions(devices=("gfx90a",))
    report = split(str(shard.root), str(tmp_path / "out"), settings, asked)
    assert report.ok
    assert report.counts.files_in == report.counts.files_out == 1
    assert next((tmp_path / "out/hipkernelprovider_lib_gfx90a").rglob("gfx90a-xnack-/k.co"))


VARIANTS = ("gfx942", "gfx942:xnack+", "gfx942:xnack-")


def _variants(build: Maker, names: tuple[str, ...] = VARIANTS, clash: bool = False) -> list[str]:
    shards = []
    for target in names:
        shard = build(target)
        name = "same" if clash else target.replace(":", "-")
        shard.put(f"arch_content/aiter/gfx942/{name}.co", code_object(target))
        shards.append(str(shard.root))
    return shards


def test_B2_feature_variants_share_one_wheel_under_unchanged_names(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shards = _variants(build)
    merged = merge(shards, str(tmp_path / "out"), settings)
    assert merged.ok
    assert sorted(p.name for p in (tmp_path / "out").iterdir())[1:] == [
        f"hipkernelprovider_lib_{target}" for target in VARIANTS
    ]
    report = wheel([str(tmp_path / "out")], str(tmp_path / "dist"), settings, WheelOptions("1.0"))
    assert [output.key for output in report.outputs] == ["gfx942"]
    assert report.outputs[0].files == 3


def test_B2_conflicts_between_variants_are_found_where_they_meet(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shards = _variants(build, clash=True)
    assert merge(shards, str(tmp_path / "out"), settings).ok
    report = wheel([str(tmp_path / "out")], str(tmp_path / "dist"), settings, WheelOptions("1.0"))
    assert "content-conflict" in names(report)
    assert not (tmp_path / "dist").exists()


def test_B4_strict_is_its_own_part_and_shares_a_wheel(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx125X-all")
    for target in ("gfx1250", "gfx1250-strict"):
        shard.put(f"arch_content/aiter/{target}/k.co", code_object("gfx1250"))
    wanted = {
        "gfx1250": {"gfx1250"},
        "gfx1250-strict": {"gfx1250-strict"},
        "family:gfx12_5": {"gfx1250"},
    }
    for device, parts in wanted.items():
        out = tmp_path / device.replace(":", "-")
        report = split(str(shard.root), str(out), settings, MergeOptions(devices=(device,)))
        assert report.ok
        assert {p.name.rpartition("_")[2] for p in out.iterdir()} == {"generic", *parts}
    report = wheel([str(shard.root)], str(tmp_path / "dist"), settings, WheelOptions("1.0"))
    assert [(output.key, output.files) for output in report.outputs] == [("gfx1250", 2)]


@pytest.mark.parametrize("name", ["gfx17z", "gfx9420", "GFX942", "gfx942-xnack"])
def test_B5_an_unknown_target_is_reported_before_any_file_is_read(
    build: Maker, tmp_path: Path, settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kpacktools.trees.directory import DirectoryTree

    shard = build("generic")
    shard.put(f"arch_content/aiter/{name}/k.csv", "x")
    with monkeypatch.context() as context:
        context.setattr(DirectoryTree, "open", lambda self, path: pytest.fail(f"{path} was read"))
        report = merge([str(shard.root)], str(tmp_path / "out"), settings)
    found = only(report, "unknown-target")
    assert found.path.endswith(f"aiter/{name}")
    assert "handler aiter" in found.message
    assert "near: gfx" in found.hint
    assert not (tmp_path / "out").exists()


def test_B5_it_comes_first_among_findings(build: Maker, settings: Settings) -> None:
    shard = build("generic")
    shard.put("arch_content/aiter/gfx17z/k.csv", "x")
    shard.put("k.co", code_object("gfx942"))
    assert inspect([str(shard.root)], settings).findings[0].name == "unknown-target"


def test_B7_a_wheel_requires_its_parent_and_the_parent_is_built_too(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("dgpu", "generic")
    shard.put("arch_content/aiter/gfx11/k.co", code_object("gfx11-generic"))
    shard.put("arch_content/aiter/gfx1100/k.co", code_object("gfx1100"))
    shard.put("arch_content/aiter/gfx1201/k.co", code_object("gfx1201"))
    report = wheel(
        [str(shard.root)],
        str(tmp_path / "dist"),
        settings,
        WheelOptions("1.0"),
        WheelRun(devices=("gfx1100",)),
    )
    assert report.ok
    assert [output.key for output in report.outputs] == ["gfx11", "gfx1100"]
    import zipfile

    with zipfile.ZipFile(report.outputs[1].path) as archive:
        (metadata,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        assert b"Requires-Dist: rocm-sdk-device-gfx11==1.0\n" in archive.read(metadata)


def test_B12_a_device_takes_its_feature_variants_and_says_so(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("asan", "generic")
    shard.put("arch_content/aiter/gfx942-xnack+/k.co", code_object("gfx942:xnack+"))
    report = split(str(shard.root), str(tmp_path / "out"), settings, MergeOptions(devices=("gfx942",)))
    assert report.ok
    assert report.notes == ("--device gfx942 takes its feature variants too: gfx942:xnack+",)
    assert len(contents(tmp_path / "out/hipkernelprovider_lib_gfx942")) == 2


def test_B13_a_familys_missing_members_are_reported(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx110X-all")
    for target in ("gfx1100", "gfx1101"):
        shard.put(f"arch_content/aiter/{target}/k.co", code_object(target))
    asked = MergeOptions(devices=("family:gfx110x",))
    report = split(str(shard.root), str(tmp_path / "out"), settings, asked)
    assert report.ok
    assert "gfx1102, gfx1103" in only(report, "no-match").message


def test_D15_a_device_without_content_stops_the_whole_set(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("many", "generic")
    for target in ("gfx942", "gfx950"):
        shard.rocke(target)
    asked = WheelRun(devices=("gfx942", "gfx950", "gfx1201"))
    report = wheel([str(shard.root)], str(tmp_path / "dist"), settings, WheelOptions("1.0"), asked)
    assert "gfx1201" in only(report, "no-match").message
    assert not (tmp_path / "dist").exists()
