"""Variant wheels: one distribution, a wheel for each device, and an index that tells them apart."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build, code_object
from kpacktools.cli import run
from kpacktools.commands import inspect
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.wheelbuild import WheelRun, wheel

INDEX = "rocm_sdk_device-7.15.0-variants.json"
needs_variantlib = pytest.mark.usefixtures("variantlib")


@pytest.fixture(scope="module")
def variantlib() -> None:
    pytest.importorskip("variantlib")


@pytest.fixture
def shard(build: Callable[..., Build]) -> Build:
    made = build("many", "generic").host()
    for target in ("gfx942", "gfx1100", "gfx11"):
        made.put(f"arch_content/aiter/{target}/k.csv", target)
    made.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    return made


def pack(shard: Build, dist: Path, variants: bool = True, **options: object) -> Report:
    made = WheelOptions("7.15.0", platform_tag="linux_x86_64", **options)  # type: ignore[arg-type]
    return wheel([str(shard.root)], str(dist), Settings(), made, WheelRun(variants=variants))


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@needs_variantlib
def test_processors_are_variants_and_families_and_host_are_not(shard: Build, tmp_path: Path) -> None:
    assert pack(shard, tmp_path / "dist", host="rocm-sdk-libraries").ok
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == [
        "rocm_sdk_device-7.15.0-py3-none-linux_x86_64-gfx1100.whl",
        "rocm_sdk_device-7.15.0-py3-none-linux_x86_64-gfx942.whl",
        INDEX,
        "rocm_sdk_device_gfx11-7.15.0-py3-none-linux_x86_64.whl",
        "rocm_sdk_libraries-7.15.0-py3-none-linux_x86_64.whl",
    ]


@needs_variantlib
def test_a_variant_holds_what_the_plain_wheel_does(shard: Build, tmp_path: Path) -> None:
    pack(shard, tmp_path / "plain", variants=False)
    pack(shard, tmp_path / "dist")
    plain, variant = (
        {name: data for name, data in members(path).items() if ".dist-info/" not in name}
        for path in (
            tmp_path / "plain/rocm_sdk_device_gfx942-7.15.0-py3-none-linux_x86_64.whl",
            tmp_path / "dist/rocm_sdk_device-7.15.0-py3-none-linux_x86_64-gfx942.whl",
        )
    )
    assert plain == variant


@needs_variantlib
def test_a_variant_says_which_device_it_is_for_and_who_can_tell(shard: Build, tmp_path: Path) -> None:
    pack(shard, tmp_path / "dist")
    held = members(tmp_path / "dist/rocm_sdk_device-7.15.0-py3-none-linux_x86_64-gfx942.whl")
    document = json.loads(held["rocm_sdk_device-7.15.0.dist-info/variant.json"])
    assert document["variants"] == {"gfx942": {"amd": {"gfx_arch": ["gfx942"]}}}
    assert document["providers"]["amd"]["requires"] == ["rocm-bootstrap"]
    assert b"Name: rocm-sdk-device\n" in held["rocm_sdk_device-7.15.0.dist-info/METADATA"]


@needs_variantlib
@pytest.mark.parametrize(
    ("devices", "labels"),
    [("gfx942", ["gfx942"]), ("gfx1100,gfx942", ["gfx1100", "gfx942"]), ("gfx1201", [])],
)
def test_variantlib_takes_the_wheels_of_the_devices_that_are_there(
    shard: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: str, labels: list[str]
) -> None:
    from variantlib.api import get_variants_by_priority
    from variantlib.plugins.loader import VARIANT_PROVIDER_CACHE_TABLE

    VARIANT_PROVIDER_CACHE_TABLE.clear()
    pack(shard, tmp_path / "dist")
    index = json.loads((tmp_path / "dist" / INDEX).read_bytes())
    monkeypatch.setenv("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", devices)
    *taken, last = [variant.label for variant in get_variants_by_priority(variants_json=index)]
    assert (sorted(taken), last) == (labels, "null")


@needs_variantlib
def test_the_index_is_the_one_that_variantlib_makes_of_the_wheels(shard: Build, tmp_path: Path) -> None:
    from variantlib.commands.generate_index_json import generate_index_json

    pack(shard, tmp_path / "dist")
    path = tmp_path / "dist" / INDEX
    ours = json.loads(path.read_bytes())
    path.unlink()
    generate_index_json(["--directory", str(tmp_path / "dist")])
    assert json.loads(path.read_bytes()) == ours


@needs_variantlib
def test_inspect_takes_variants_for_what_they_are(shard: Build, tmp_path: Path) -> None:
    pack(shard, tmp_path / "dist", build_tag="1")
    report = inspect([str(tmp_path / "dist")], Settings(depth=Depth.CONTENT))
    assert report.findings == ()
    assert len(report.inputs) == 3


@needs_variantlib
def test_a_processor_that_the_provider_does_not_know_is_refused(
    build: Callable[..., Build], tmp_path: Path
) -> None:
    shard = build("gfx803")
    shard.put("arch_content/aiter/gfx803/k.csv", "x")
    with pytest.raises(CallError, match="knows no amd :: gfx_arch :: gfx803"):
        pack(shard, tmp_path / "dist")


@pytest.mark.parametrize("arguments", [["--meta", "rocm-sdk-devices"]])
def test_calls_that_make_no_sense_for_variants(shard: Build, tmp_path: Path, arguments: list[str]) -> None:
    words = ["wheel", str(shard.root), "-o", str(tmp_path / "dist"), "--version", "1", "--variants"]
    assert run([*words, *arguments]) == 2
