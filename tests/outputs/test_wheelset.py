"""The set of wheels: which there are, what they require, what they hold."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename

from builders import Build, code_object, names
from kpacktools.errors import CallError
from kpacktools.findings import Severity
from kpacktools.outputs import wheelset
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.wheelbuild import WheelRun, wheel

Maker = Callable[..., Build]


@pytest.fixture
def shard(build: Maker) -> Build:
    made = build("many", "generic").host()
    for target in ("gfx942", "gfx1100", "gfx1201"):
        made.put(f"arch_content/aiter/{target}/k.co", code_object(target))
    made.put("arch_content/aiter/gfx11/k.co", code_object("gfx11-generic"))
    made.put("arch_content/aiter/gfx12_0/k.co", code_object("gfx1201"))
    return made


@pytest.fixture
def pack(tmp_path: Path, settings: Settings) -> Callable[..., Report]:
    def run(shard: Build, selected: WheelRun = WheelRun(), **options: object) -> Report:
        return wheel(
            [str(shard.root)], str(tmp_path / "dist"), settings, WheelOptions("7.15.0", **options), selected  # type: ignore[arg-type]
        )  # fmt: skip

    return run


Pack = Callable[..., Report]


def _archive(report: Report, key: str) -> zipfile.ZipFile:
    (path,) = [output.path for output in report.outputs if output.key == key]
    return zipfile.ZipFile(path)


def _metadata(report: Report, key: str) -> Metadata:
    with _archive(report, key) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name))


def test_names_requirements_and_parents(shard: Build, pack: Pack) -> None:
    report = pack(shard)
    assert report.ok
    required = {
        output.key: [str(r) for r in _metadata(report, output.key).requires_dist or ()]
        for output in report.outputs
    }
    host = "rocm-sdk-libraries==7.15.0"
    assert required == {
        "gfx11": [host],
        "gfx1100": [host, "rocm-sdk-device-gfx11==7.15.0"],
        "gfx1201": [host, "rocm-sdk-device-gfx12-0==7.15.0"],
        "gfx12_0": [host],
        "gfx942": [host],
    }
    assert _metadata(report, "gfx12_0").name == "rocm-sdk-device-gfx12-0"
    (path,) = [Path(output.path).name for output in report.outputs if output.key == "gfx12_0"]
    assert path.startswith("rocm_sdk_device_gfx12_0-7.15.0-py3-none-")
    assert str(parse_wheel_filename(path)[0]) == "rocm-sdk-device-gfx12-0"


def test_no_file_of_the_generic_part_and_no_package_marker_in_a_device_wheel(
    shard: Build, pack: Pack
) -> None:
    report = pack(shard)
    with _archive(report, "gfx942") as archive:
        payload = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
    assert payload == [
        "_rocm_sdk_libraries/.devel_links/gfx942.json",
        "_rocm_sdk_libraries/lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/k.co",
    ]
    assert report.counts.files_filtered == 1


def test_devel_links_lead_from_the_devel_tree_to_the_overlay(shard: Build, pack: Pack) -> None:
    with _archive(pack(shard), "gfx942") as archive:
        document = json.loads(archive.read("_rocm_sdk_libraries/.devel_links/gfx942.json"))
    path = "lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/k.co"
    target = "../../../../../../../_rocm_sdk_libraries/" + path
    assert document == {"version": "7.15.0", "links": [{"relpath": path, "target": target}]}


def test_a_manifest_that_is_not_kept_is_made_again(
    shard: Build, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {output.state for output in pack(shard).outputs} == {"written"}
    monkeypatch.setattr(wheelset, "_KEPT", 0)
    # It would be an error if a byte were another one.
    assert {output.state for output in pack(shard).outputs} == {"kept"}


def test_another_overlay_and_prefix(shard: Build, pack: Pack) -> None:
    report = pack(shard, overlay="torch", dist_prefix="amd-torch-device", devel_links=False)
    with _archive(report, "gfx942") as archive:
        assert "torch/lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/k.co" in archive.namelist()
    assert _metadata(report, "gfx942").name == "amd-torch-device-gfx942"


def test_a_host_wheel_of_the_generic_part(shard: Build, pack: Pack) -> None:
    report = pack(shard, host="rocm-sdk-libraries")
    with _archive(report, "generic") as archive:
        payload = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
    assert payload == [
        "_rocm_sdk_libraries/__init__.py",
        "_rocm_sdk_libraries/lib/hipdnn_plugins/engines/libhost.so",
    ]
    assert report.counts.files_filtered == 0


def test_B6_a_template_with_the_key_is_for_processors_only(shard: Build, pack: Pack) -> None:
    report = pack(
        shard,
        requires=("my-{key}>={version}", "base"),
        external=("base", "my-gfx942", "my-gfx1100", "my-gfx1201"),
    )
    assert report.ok
    assert [str(r) for r in _metadata(report, "gfx12_0").requires_dist or ()] == ["base"]
    assert [str(r) for r in _metadata(report, "gfx942").requires_dist or ()] == ["my-gfx942>=7.15.0", "base"]


def test_B6_a_requirement_that_is_neither_built_nor_external_is_refused(
    shard: Build, pack: Pack, tmp_path: Path
) -> None:
    report = pack(shard, requires=("base",))
    assert names(report) == {"wheel-dependency-open"}
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    ("pin", "version", "expected"),
    [
        ("exact", "7.15.0", "==7.15.0"),
        ("compatible", "7.15.0+rocm1", "~=7.15.0"),
        ("compatible", "7", "~=7.0"),
    ],
)
def test_the_pin_policy_is_explicit(
    shard: Build, tmp_path: Path, settings: Settings, pin: str, version: str, expected: str
) -> None:
    options = WheelOptions(version, pin=pin)  # type: ignore[arg-type]
    report = wheel([str(shard.root)], str(tmp_path / "dist"), settings, options)
    assert str((_metadata(report, "gfx942").requires_dist or [])[0]) == f"rocm-sdk-libraries{expected}"


@pytest.mark.parametrize("template", ["not a requirement !", "=={version}", "x=={key}{"])
def test_a_requirement_that_cannot_be_read_is_a_call_error(shard: Build, pack: Pack, template: str) -> None:
    with pytest.raises(CallError, match="--requires"):
        pack(shard, requires=(template,))


def test_D10_links_inside_the_tree_are_packed_as_copies(build: Maker, pack: Pack) -> None:
    shard = build("gfx942").host()
    place = shard.put("arch_content/aiter/gfx942/real/k.co", code_object("gfx942")).parents[1]
    (place / "k.co").symlink_to("real/k.co")
    (place / "again.co").symlink_to("k.co")
    (place / "folder").symlink_to("real")
    (place / "host.so").symlink_to("../../../libhost.so")
    report = pack(shard)
    assert report.ok, report.findings
    with _archive(report, "gfx942") as archive:
        below = "_rocm_sdk_libraries/lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/"
        packed = {n.removeprefix(below): archive.read(n) for n in archive.namelist() if n.startswith(below)}
    kernel = code_object("gfx942")
    assert packed == {
        "real/k.co": kernel, "k.co": kernel, "again.co": kernel, "folder/k.co": kernel, "host.so": b"host\n",
    }  # fmt: skip


@pytest.mark.parametrize("target", ["nowhere", "loop", ".", "../gfx942"])
def test_D10_a_link_that_cannot_be_packed_is_refused(
    build: Maker, pack: Pack, target: str, tmp_path: Path
) -> None:
    shard = build("gfx942")
    place = shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942")).parent
    (place / "loop").symlink_to(target)
    report = pack(shard)
    assert ("symlink-dangling", Severity.ERROR) in {(f.name, f.severity) for f in report.findings}
    assert not report.ok
    assert not (tmp_path / "dist").exists()


def test_one_path_under_two_owners_is_a_shared_file(build: Maker, pack: Pack) -> None:
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    other = shard.add_artifact("other", "lib", stages=("stage",))
    place = other / "stage/lib/hipdnn_plugins/engines/arch_content/aiter/gfx942/k.co"
    place.parent.mkdir(parents=True)
    place.write_bytes(code_object("gfx942", b"other"))
    report = pack(shard)
    assert "content-conflict" in names(report)


def test_a_host_that_is_a_package_already_keeps_its_own_marker(build: Maker, pack: Pack) -> None:
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    marker = shard.artifact / "ml-libs/hipkernelprovider/stage/__init__.py"
    marker.write_text("VERSION = 1\n")
    report = pack(shard, host="rocm-sdk-libraries")
    with _archive(report, "generic") as archive:
        assert archive.read("_rocm_sdk_libraries/__init__.py") == b"VERSION = 1\n"


def test_a_set_without_a_wheel_is_refused(shard: Build, pack: Pack, tmp_path: Path) -> None:
    report = pack(shard, WheelRun(components=("dev",)))
    assert names(report) == {"no-match"}
    assert not (tmp_path / "dist").exists()


def test_two_wheels_never_own_one_path() -> None:
    from typing import cast

    from kpacktools.outputs.wheelset import wheel_specs
    from kpacktools.planning.plan import PlannedFile, PlannedFolder
    from kpacktools.targets import default_targets
    from kpacktools.trees import Entry, Tree

    tree = cast("Tree", object())  # never opened
    file = PlannedFile("lib/x.co", tree, Entry("x", 0, 0o100644))
    folders = [PlannedFolder.of(key, key, (file,), None) for key in ("gfx942", "gfx950")]
    _, found = wheel_specs(folders, WheelOptions("1.0"), default_targets(), dict)
    assert [f.name for f in found] == ["wheel-shared-file"]


def test_B9_a_dry_run_lists_distributions_and_levels(shard: Build, pack: Pack, tmp_path: Path) -> None:
    report = pack(shard, WheelRun(dry_run=True))
    assert [note.partition(", requires")[0] for note in report.notes] == [
        "rocm-sdk-device-gfx11 7.15.0: family gfx11",
        "rocm-sdk-device-gfx1100 7.15.0: processor gfx1100",
        "rocm-sdk-device-gfx1201 7.15.0: processor gfx1201",
        "rocm-sdk-device-gfx12-0 7.15.0: family gfx12_0",
        "rocm-sdk-device-gfx942 7.15.0: processor gfx942",
    ]
    assert report.notes[1].endswith("requires rocm-sdk-libraries==7.15.0, rocm-sdk-device-gfx11==7.15.0")
    assert not (tmp_path / "dist").exists()
