"""Splitting an existing wheel: a host of the same name, and a wheel per device that overlays it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from builders import code_object
from kpacktools.cli import run
from kpacktools.outputs.members import GeneratedFiles
from kpacktools.outputs.wheels import WheelSpec, write_wheels

METADATA = b"""\
Metadata-Version: 2.2
Name: Fat.Lib
Version: 1.0
Requires-Python: >=3.8
Requires-Dist: einops

A long description.

With two paragraphs.
"""
FILES = {
    "fatlib/__init__.py": b"VALUE = 1\n",
    "fatlib/hsa/readme.txt": b"generic\n",
    "aiter_meta/hsa/gfx942/a.co": code_object("gfx942", b"a"),
    "aiter_meta/hsa/gfx942/t.csv": b"co_name\na.co\n",
    "aiter_meta/hsa/gfx950/a.co": code_object("gfx950", b"a"),
    "fatlib/configs/x/kernel.hsaco": code_object("gfx950", b"loose"),
    "fatlib/configs/x/kernel.json": b"{}",
    "fat_lib-1.0.data/scripts/tool": b"#!python\n",
    "fat_lib-1.0.data/data/share/rocblas/library/T_gfx942.dat": b"tensile",
}
BILL = "sboms/kpacktools.cdx.json"
Call = Callable[..., tuple[int, dict[str, object]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A wheel that carries two devices."""
    members = GeneratedFiles(sorted(FILES.items())).members()
    executable = [m._replace(mode=0o755) if m.arcname.endswith("tool") else m for m in members]
    spec = WheelSpec(
        distribution="Fat.Lib",
        version="1.0",
        tags=("py3-none-any", "py2-none-any"),
        build_tag="3",
        metadata=METADATA,
        dist_info=(
            ("entry_points.txt", b"[console_scripts]\nfat = fatlib:main\n"),
            ("licenses/LICENSE", b"MIT\n"),
        ),
        root_is_purelib=True,
        files=tuple(executable),
    )
    (written,) = write_wheels([spec], str(tmp_path))
    return Path(written.path)


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: Path) -> Call:
    def split(*arguments: object) -> tuple[int, dict[str, object]]:
        words = ["wheel", source, "-o", tmp_path / "dist", "--format", "json", *arguments]
        status = run([str(word) for word in words])
        return status, json.loads(capsys.readouterr().out)

    return split


def _contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}


def _dist_info(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        (found,) = [n for n in archive.namelist() if n.endswith(".dist-info/" + name)]
        return archive.read(found)


def _wheels(tmp_path: Path) -> dict[str, Path]:
    return {path.name.partition("-")[0]: path for path in (tmp_path / "dist").iterdir()}


def test_host_and_devices_together_are_the_original(call: Call, tmp_path: Path) -> None:
    status, report = call()
    assert status == 0
    made = _wheels(tmp_path)
    assert sorted(p.name for p in made.values()) == [
        "fat_lib-1.0-3-py2.py3-none-any.whl",
        "fat_lib_device_gfx942-1.0-3-py2.py3-none-any.whl",
        "fat_lib_device_gfx950-1.0-3-py2.py3-none-any.whl",
    ]
    parts = {name: _contents(path) for name, path in made.items()}
    assert set(parts["fat_lib_device_gfx950"]) == {
        "aiter_meta/hsa/gfx950/a.co",
        "fatlib/configs/x/kernel.hsaco",
    }
    assert set(parts["fat_lib_device_gfx942"]) == {
        "aiter_meta/hsa/gfx942/a.co",
        "aiter_meta/hsa/gfx942/t.csv",
        "fat_lib_device_gfx942-1.0.data/data/share/rocblas/library/T_gfx942.dat",
    }
    together = {
        name.replace("fat_lib_device_gfx942-1.0.data", "fat_lib-1.0.data"): data
        for part in parts.values()
        for name, data in part.items()
    }
    assert together == FILES
    assert report["notes"] == [
        "1 code object for gfx950 whose path names no target: placed by their own flags"
    ]
    counts = report["counts"]
    assert isinstance(counts, dict)
    assert counts["files_in"] == counts["files_out"] == len(FILES)


def test_the_host_keeps_what_is_its_own_and_gets_an_extra_for_each_device(call: Call, tmp_path: Path) -> None:
    call()
    host = _wheels(tmp_path)["fat_lib"]
    metadata = Metadata.from_email(_dist_info(host, "METADATA"))
    assert (metadata.name, str(metadata.version), metadata.metadata_version) == ("Fat.Lib", "1.0", "2.2")
    assert metadata.description == "A long description.\n\nWith two paragraphs.\n"
    assert metadata.provides_extra == ["device-gfx942", "device-gfx950"]
    assert [str(r) for r in metadata.requires_dist or ()] == [
        "einops",
        'fat-lib-device-gfx942==1.0; extra == "device-gfx942"',
        'fat-lib-device-gfx950==1.0; extra == "device-gfx950"',
    ]
    assert _dist_info(host, "entry_points.txt") == b"[console_scripts]\nfat = fatlib:main\n"
    assert _dist_info(host, "licenses/LICENSE") == b"MIT\n"
    with zipfile.ZipFile(host) as archive:
        assert archive.getinfo("fat_lib-1.0.data/scripts/tool").external_attr >> 16 & 0o111


def test_a_device_inherits_tags_purelib_and_metadata_version(call: Call, tmp_path: Path) -> None:
    call()
    device = _wheels(tmp_path)["fat_lib_device_gfx942"]
    about = _dist_info(device, "WHEEL").decode()
    assert "Root-Is-Purelib: true\n" in about
    assert "Tag: py2-none-any\nTag: py3-none-any\n" in about
    assert "Build: 3\n" in about
    metadata = Metadata.from_email(_dist_info(device, "METADATA"))
    assert metadata.metadata_version == "2.2"
    assert [str(r) for r in metadata.requires_dist or ()] == ["fat-lib==1.0"]


def test_devices_that_are_not_asked_for_are_left_out_and_counted(call: Call, tmp_path: Path) -> None:
    status, report = call("--device", "gfx942")
    assert status == 0
    assert sorted(_wheels(tmp_path)) == ["fat_lib", "fat_lib_device_gfx942"]
    notes = report["notes"]
    assert isinstance(notes, list)
    assert "filtered: 1 file of aiter, 65 bytes" in notes
    assert "filtered: 1 file of loose, 69 bytes" in notes
    metadata = Metadata.from_email(_dist_info(_wheels(tmp_path)["fat_lib"], "METADATA"))
    assert metadata.provides_extra == ["device-gfx942"]


def test_E8_one_wheel_may_keep_only_one_device(call: Call, tmp_path: Path) -> None:
    status, report = call("--only", "gfx942")
    assert status == 0
    (path,) = _wheels(tmp_path).values()
    assert path.name == "fat_lib-1.0-3-py2.py3-none-any.whl"
    kept = {
        name: data for name, data in FILES.items() if "gfx950" not in name and not name.endswith(".hsaco")
    }
    assert _contents(path) == kept
    assert _dist_info(path, "METADATA") == METADATA
    assert "filtered: 1 file of aiter, 65 bytes" in report["notes"]  # type: ignore[operator]


def test_E8_a_kind_of_content_may_be_kept_alone(call: Call, tmp_path: Path) -> None:
    status, report = call("--kind", "databases")
    assert status == 0
    assert sorted(_wheels(tmp_path)) == ["fat_lib", "fat_lib_device_gfx942"]
    assert report["notes"][:2] == [  # type: ignore[index]
        "filtered: 3 files of aiter, 143 bytes",
        "filtered: 1 file of loose, 69 bytes",
    ]


def test_a_device_that_the_wheel_does_not_carry_is_refused(call: Call, tmp_path: Path) -> None:
    status, report = call("--device", "gfx1100")
    assert status == 1
    assert report["findings"][0]["name"] == "no-match"  # type: ignore[index]
    assert not (tmp_path / "dist").exists()


def test_a_damaged_wheel_is_refused(source: Path, call: Call, tmp_path: Path) -> None:
    data = bytearray(source.read_bytes())
    with zipfile.ZipFile(source) as archive:
        start = archive.getinfo("fatlib/hsa/readme.txt").header_offset
    data[start + 30 + len("fatlib/hsa/readme.txt") + 2] ^= 0xFF
    source.write_bytes(data)
    assert run(["wheel", str(source), "-o", str(tmp_path / "dist")]) in (1, 2)
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize("arguments", [["--version", "2"], ["another"], ["--only", "gfx17z"]])
def test_calls_that_make_no_sense_for_a_wheel(source: Path, tmp_path: Path, arguments: list[str]) -> None:
    assert run(["wheel", str(source), "-o", str(tmp_path / "dist"), *arguments]) == 2
    assert (
        run(
            [
                "wheel",
                os.path.dirname(source),
                "-o",
                str(tmp_path / "d"),
                "--version",
                "1",
                "--only",
                "gfx942",
            ]
        )
        == 2
    )


def test_each_device_gets_a_bill_of_materials_and_the_host_keeps_none_that_is_no_longer_true(
    call: Call, tmp_path: Path
) -> None:
    call("--only", "gfx950")
    (one,) = _wheels(tmp_path).values()
    listed = {item["name"] for item in json.loads(_dist_info(one, BILL))["components"]}
    assert listed == {"aiter_meta/hsa/gfx950/a.co", "fatlib/configs/x/kernel.hsaco"}
    assert run(["wheel", str(one), "-o", str(tmp_path / "again"), "-q"]) == 0
    host, device = sorted((tmp_path / "again").iterdir())
    assert {item["name"] for item in json.loads(_dist_info(device, BILL))["components"]} == listed
    with zipfile.ZipFile(host) as archive:
        assert not [name for name in archive.namelist() if name.endswith(BILL)]
