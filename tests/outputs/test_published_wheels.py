"""Wheels for an index: bills of materials, extras, parts, sizes."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from packaging.metadata import Metadata

from builders import Build, code_object, names, only
from kpacktools.cli import run
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.metawheel import BuiltWheel, meta_spec
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.sizes import parse_size
from kpacktools.wheelbuild import WheelRun, wheel

Maker = Callable[..., Build]
LINUX = ("--platform-tag", "linux_x86_64")


@pytest.fixture
def shard(build: Maker) -> Build:
    made = build("many", "generic").host()
    for target in ("gfx942", "gfx1201"):
        made.rocke(target)
        made.put(f"arch_content/aiter/{target}/k.co", code_object(target))
    return made


def _pack(shard: Build, dist: Path, settings: Settings, selected: WheelRun = WheelRun()) -> Report:
    return wheel(
        [str(shard.root)], str(dist), settings, WheelOptions("7.15.0", platform_tag="linux_x86_64"), selected
    )


def _read(path: str | Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        (found,) = [member for member in archive.namelist() if member.endswith(name)]
        return archive.read(found)


def _metadata(path: str | Path) -> Metadata:
    return Metadata.from_email(_read(path, ".dist-info/METADATA"))


def _sbom(path: str | Path) -> Any:
    return json.loads(_read(path, ".dist-info/sboms/kpacktools.cdx.json"))


def test_an_sbom_lists_every_kpack_and_code_object_with_where_it_came_from(
    shard: Build, tmp_path: Path, settings: Settings
) -> None:
    report = _pack(shard, tmp_path / "dist", replace(settings, depth=Depth.CONTENT))
    path = next(output.path for output in report.outputs if output.key == "gfx942")
    sbom = _sbom(path)
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["purl"] == "pkg:pypi/rocm-sdk-device-gfx942@7.15.0"
    components = {component["name"].rpartition("/")[2]: component for component in sbom["components"]}
    assert set(components) == {"rocke_client_gfx942.kpack", "k.co"}
    with zipfile.ZipFile(path) as archive:
        for component in components.values():
            assert component["hashes"] == [
                {"alg": "SHA-256", "content": hashlib.sha256(archive.read(component["name"])).hexdigest()}
            ]
    facts = {p["name"]: p["value"] for p in components["rocke_client_gfx942.kpack"]["properties"]}
    assert facts == {
        "kpacktools:engine": "rocke", "kpacktools:target": "gfx942", "kpacktools:kernels": "2",
        "kpacktools:lane": "llvm22", "kpacktools:compilers": "unknown", "kpacktools:build_id": "build-1",
    }  # fmt: skip


def test_an_sbom_names_the_run_of_a_shards_file(shard: Build, tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "release.toml"
    file.write_text(f'[[shard]]\nname = "all"\npath = "{shard.root}"\nrun = 17\n')
    report = wheel([], str(tmp_path / "dist"), settings, WheelOptions("1"), WheelRun(shards_file=str(file)))
    facts = {p["name"]: p["value"] for p in _sbom(report.outputs[0].path)["components"][0]["properties"]}
    assert (facts["kpacktools:shard"], facts["kpacktools:run"]) == ("all", "17")


def test_an_sboms_identity_is_its_content_and_its_time_is_declared(
    shard: Build, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (_pack(shard, tmp_path / name, settings).outputs[0].path for name in ("a", "b"))
    assert Path(first).read_bytes() == Path(second).read_bytes()
    assert "timestamp" not in _sbom(first)["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    third = _sbom(_pack(shard, tmp_path / "c", settings).outputs[0].path)
    assert third["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert third["serialNumber"] == _sbom(first)["serialNumber"]
    shard.put("arch_content/aiter/gfx1201/k.co", code_object("gfx1201", b"changed"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert (
        _sbom(_pack(shard, tmp_path / "d", settings).outputs[0].path)["serialNumber"] != third["serialNumber"]
    )


def test_D14_extras_exist_only_for_what_was_built(shard: Build, tmp_path: Path, settings: Settings) -> None:
    report = _pack(shard, tmp_path / "dist", settings, WheelRun(meta="rocm-sdk-devices"))
    assert [output.key for output in report.outputs] == ["gfx1201", "gfx942", "meta"]
    metadata = _metadata(report.outputs[-1].path)
    assert os.path.basename(report.outputs[-1].path) == "rocm_sdk_devices-7.15.0-py3-none-any.whl"
    assert metadata.provides_extra == ["device-gfx1201", "device-gfx942", "device-all"]
    assert sorted(map(str, metadata.requires_dist or ())) == [
        'rocm-sdk-device-gfx1201==7.15.0; extra == "device-all"',
        'rocm-sdk-device-gfx1201==7.15.0; extra == "device-gfx1201"',
        'rocm-sdk-device-gfx942==7.15.0; extra == "device-all"',
        'rocm-sdk-device-gfx942==7.15.0; extra == "device-gfx942"',
    ]


def test_D14_extras_are_joined_across_platforms(
    shard: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [str(shard.root), "--version", "7.15.0", "--format", "json"]
    assert (
        run(
            [
                "wheel",
                *common,
                "-o",
                str(tmp_path / "win"),
                "--platform-tag",
                "win_amd64",
                "--device",
                "gfx1201",
            ]
        )
        == 0
    )
    (tmp_path / "win.json").write_text(capsys.readouterr().out)
    arguments = ["--meta", "devices", "--meta-from", str(tmp_path / "win.json")]
    assert run(["wheel", *common, "-o", str(tmp_path / "linux"), *LINUX, *arguments]) == 0
    required = sorted(
        map(str, _metadata(tmp_path / "linux/devices-7.15.0-py3-none-any.whl").requires_dist or ())
    )
    assert required == [
        'rocm-sdk-device-gfx1201==7.15.0; extra == "device-all"',
        'rocm-sdk-device-gfx1201==7.15.0; extra == "device-gfx1201"',
        'rocm-sdk-device-gfx942==7.15.0; sys_platform == "linux" and extra == "device-all"',
        'rocm-sdk-device-gfx942==7.15.0; sys_platform == "linux" and extra == "device-gfx942"',
    ]


def test_reports_that_are_none_are_refused(shard: Build, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    arguments = ["--version", "1", "--meta", "m", "--meta-from"]
    assert (
        run(["wheel", str(shard.root), "-o", str(tmp_path / "d"), *arguments, str(tmp_path / "x.json")]) == 2
    )
    assert (
        run(["wheel", str(shard.root), "-o", str(tmp_path / "d"), *arguments, str(tmp_path / "absent")]) == 2
    )
    with pytest.raises(CallError, match="different versions: 1, 2"):
        meta_spec("m", "1", [BuiltWheel("gfx942", "d", "2", "linux")], {"1": "==1"})


def test_parts_by_engine_are_required_by_their_devices_wheel(
    shard: Build, tmp_path: Path, settings: Settings
) -> None:
    report = _pack(shard, tmp_path / "dist", settings, WheelRun(by_engine=True))
    made = {os.path.basename(output.path).partition("-")[0]: output for output in report.outputs}
    assert set(made) == {
        f"rocm_sdk_device_{key}{engine}"
        for key in ("gfx942", "gfx1201")
        for engine in ("", "_aiter", "_rocke")
    }
    assert made["rocm_sdk_device_gfx942"].files == 0
    assert [str(r) for r in _metadata(made["rocm_sdk_device_gfx942"].path).requires_dist or ()] == [
        "rocm-sdk-libraries==7.15.0",
        "rocm-sdk-device-gfx942-aiter==7.15.0",
        "rocm-sdk-device-gfx942-rocke==7.15.0",
    ]
    paths: list[str] = []
    for output in report.outputs:
        with zipfile.ZipFile(output.path) as archive:
            paths += [name for name in archive.namelist() if ".dist-info/" not in name]
    assert len(paths) == len(set(paths)) == 6 + 4  # six files, four link manifests


def test_D6_a_wheel_that_is_too_large_names_its_largest_contributors(
    shard: Build, tmp_path: Path, settings: Settings
) -> None:
    shard.put("arch_content/aiter/gfx942/big.bin", os.urandom(100_000))
    report = _pack(shard, tmp_path / "dist", settings, WheelRun(max_size=50_000))
    found = only(report, "wheel-too-large")
    assert report.ok
    assert "aiter 100 KB" in found.message
    assert "gfx942" in found.path
    strict = _pack(shard, tmp_path / "strict", replace(settings, strict=True), WheelRun(max_size=50_000))
    assert (strict.ok, strict.outputs, names(strict)) == (False, (), {"wheel-too-large"})
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("1MiB", 1 << 20), ("100MB", 10**8), ("1.5 GiB", 3 << 29), ("2k", 2000), ("1B", 1)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size("--max-size", text) == size


@pytest.mark.parametrize("text", ["", "MB", "1 XB", "-1", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(CallError, match="--max-size"):
        parse_size("--max-size", text)


@pytest.mark.parametrize(
    "arguments", [["--build-tag", "abc"], ["--dist-prefix", "-"], ["--meta", "!"], ["--overlay", "a/../b"]]
)
def test_a_wheel_that_cannot_be_made_is_one_line(
    shard: Build, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["wheel", str(shard.root), "-o", str(tmp_path / "dist"), "--version", "1", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "dist").exists()


def test_D8_the_same_content_in_another_folder_gives_the_same_wheels(
    shard: Build, tmp_path: Path, settings: Settings
) -> None:
    import shutil

    shutil.copytree(shard.root, tmp_path / "elsewhere/copy")
    for path in (tmp_path / "elsewhere").rglob("*"):
        os.utime(path, (1, 1))
    first = _pack(shard, tmp_path / "a", settings)
    options = WheelOptions("7.15.0", platform_tag="linux_x86_64")
    second = wheel([str(tmp_path / "elsewhere/copy")], str(tmp_path / "b"), settings, options)
    for one, two in zip(first.outputs, second.outputs, strict=True):
        assert Path(one.path).read_bytes() == Path(two.path).read_bytes()
