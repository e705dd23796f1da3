from __future__ import annotations

import csv
import io
import os
import random
import stat
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path

import deflate
import pytest
import uv
from installer.sources import WheelFile as InstallerWheel
from member_files import PAYLOAD, folder_members, memory_members, write_files
from msgspec.structs import replace
from packaging.tags import parse_tag
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from kpacktools import __version__
from kpacktools.errors import CallError
from kpacktools.outputs import zipset
from kpacktools.outputs.wheelmeta import metadata_file, source_date_epoch
from kpacktools.outputs.wheels import WheelSpec, WrittenWheel, platform_tag, wheel_filename, write_wheels
from kpacktools.outputs.zipformat import STANDARD_LIMITS, ZipLimits

SPEC = WheelSpec(
    "rocm-sdk-device-gfx942",
    "7.15.0",
    (f"py3-none-{platform_tag()}",),
    files=tuple(memory_members(PAYLOAD)),
    generated=(("_rocm_sdk_libraries/.devel_links/gfx942.json", b"{}\n"),),
    requires=("rocm-sdk-libraries==7.15.0",),
    summary="Device code of the ROCm libraries for gfx942",
)
DIST_INFO = "rocm_sdk_device_gfx942-7.15.0.dist-info"
CONTENT = {**PAYLOAD, **dict(SPEC.generated)}


def write_one(
    folder: Path, spec: WheelSpec = SPEC, *, jobs: int = 2, limits: ZipLimits = STANDARD_LIMITS
) -> Path:
    folder.mkdir(exist_ok=True)
    [written] = write_wheels([spec], os.fspath(folder), jobs=jobs, limits=limits, epoch=0)
    return Path(written.path)


def run(*command: str | os.PathLike[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def assert_installed(folder: Path) -> None:
    assert {name: (folder / name).read_bytes() for name in CONTENT} == CONTENT
    assert (folder / DIST_INFO / "METADATA").is_file()


def dist_info_of(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        [member] = [member for member in archive.namelist() if member.endswith(f".dist-info/{name}")]
        return archive.read(member)


def test_D1_installer_finds_every_file_in_record(tmp_path: Path) -> None:
    with InstallerWheel.open(write_one(tmp_path)) as wheel:
        wheel.validate_record()
        assert wheel.dist_info_dir == DIST_INFO
        content = {record[0]: stream.read() for record, stream, _ in wheel.get_contents()}
    assert CONTENT.items() <= content.items()


def test_D1_record_has_unpadded_urlsafe_digests_and_itself_without_one(tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(dist_info_of(write_one(tmp_path), "RECORD").decode())))
    assert rows[-1] == [f"{DIST_INFO}/RECORD", "", ""]
    empty = next(row for row in rows if row[0].endswith("/empty"))
    assert empty[1:] == ["sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "0"]
    assert len(rows) == len({row[0] for row in rows}) == len(CONTENT) + 3


def test_D1_wheel_unpack_accepts_it(tmp_path: Path) -> None:
    run(sys.executable, "-m", "wheel", "unpack", "-d", tmp_path, write_one(tmp_path / "dist"))
    assert_installed(tmp_path / "rocm_sdk_device_gfx942-7.15.0")


@pytest.mark.parametrize("limits", [STANDARD_LIMITS, ZipLimits(0, 0, 0)], ids=["plain", "D5 zip64"])
def test_D1_pip_installs_it(tmp_path: Path, limits: ZipLimits) -> None:
    wheel = write_one(tmp_path / "dist", limits=limits)
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "install", *options, "--target", tmp_path / "site", wheel)
    assert_installed(tmp_path / "site")


@pytest.mark.parametrize("limits", [STANDARD_LIMITS, ZipLimits(0, 0, 0)], ids=["plain", "D5 zip64"])
def test_D1_uv_installs_it(tmp_path: Path, limits: ZipLimits) -> None:
    wheel = write_one(tmp_path / "dist", limits=limits)
    options = ["--quiet", "--offline", "--no-deps", "--no-cache", "--no-config", "--python", sys.executable]
    run(uv.find_uv_bin(), "pip", "install", *options, "--target", tmp_path / "site", wheel)
    assert_installed(tmp_path / "site")


def test_D5_installer_reads_zip64(tmp_path: Path) -> None:
    with InstallerWheel.open(write_one(tmp_path, limits=ZipLimits(0, 0, 0))) as wheel:
        wheel.validate_record()


def test_D7_exec_bits_are_kept_and_everything_is_writable_by_its_owner(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", {"bin/helper": b"#!/bin/sh\n", "k.kpack": b"KPAK", "plain": b""})
    (root / "bin/helper").chmod(0o510)
    (root / "k.kpack").chmod(0o444)
    wheel = write_one(tmp_path / "dist", replace(SPEC, files=tuple(folder_members(root)), generated=()))
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert {info.create_system for info in archive.infolist()} == {3}
    regular = stat.S_IFREG | 0o644
    assert modes.pop("bin/helper") == stat.S_IFREG | 0o755
    assert set(modes.values()) == {regular}


def test_D8_umask_times_order_and_threads_do_not_show(tmp_path: Path) -> None:
    wheels = []
    for number, umask in enumerate((0o002, 0o022, 0o077)):
        before = os.umask(umask)
        try:
            names = list(PAYLOAD)
            random.Random(number).shuffle(names)
            root = write_files(tmp_path / f"tree{number}", {name: PAYLOAD[name] for name in names})
            for name in names:
                os.utime(root / name, (10**9 + number, 10**9 * number))
            members = folder_members(root)
            random.Random(number).shuffle(members)
            wheels.append(
                write_one(tmp_path / str(number), replace(SPEC, files=tuple(members)), jobs=number + 1)
            )
        finally:
            os.umask(before)
    assert len({wheel.read_bytes() for wheel in wheels}) == 1


def test_D8_source_date_epoch_is_the_time_of_every_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    [written] = write_wheels([SPEC], os.fspath(tmp_path))
    with zipfile.ZipFile(written.path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_a_source_date_epoch_that_is_no_number_is_a_call_error() -> None:
    with pytest.raises(CallError, match="'yesterday'"):
        source_date_epoch({"SOURCE_DATE_EPOCH": "yesterday"})


def test_several_wheels_at_once_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    specs = [replace(SPEC, distribution=f"rocm-sdk-device-{key}") for key in ("gfx942", "gfx950", "gfx11")]
    together = write_wheels(specs, os.fspath(tmp_path), jobs=3, epoch=0)
    alone = [write_one(tmp_path / "alone", spec, jobs=1) for spec in specs]
    assert [Path(w.path).read_bytes() for w in together] == [path.read_bytes() for path in alone]


def test_what_was_written_is_reported_with_packed_sizes(tmp_path: Path) -> None:
    [written] = write_wheels([SPEC], os.fspath(tmp_path), epoch=0, packed_sizes=True)
    with zipfile.ZipFile(written.path) as archive:
        packed = {info.filename: info.compress_size for info in archive.infolist()}
    assert written == WrittenWheel(
        os.fspath(tmp_path / wheel_filename(SPEC)), os.path.getsize(written.path), len(PAYLOAD), packed
    )


def test_dist_info_comes_last_with_record_at_the_end_and_no_folder_is_a_member(tmp_path: Path) -> None:
    spec = replace(SPEC, dist_info=(("licenses/LICENSE", b"MIT"), ("entry_points.txt", b"")))
    with zipfile.ZipFile(write_one(tmp_path, spec)) as archive:
        names = archive.namelist()
    parts = ["METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD"]
    assert set(names[:-5]) == set(CONTENT)
    assert names[-5:] == [f"{DIST_INFO}/{part}" for part in parts]


def test_wheel_file_names_tags_and_the_compressor(tmp_path: Path) -> None:
    spec = replace(SPEC, tags=("py2.py3-none-any",), build_tag="2rc", root_is_purelib=True)
    assert dist_info_of(write_one(tmp_path, spec), "WHEEL").decode() == (
        "Wheel-Version: 1.0\n"
        f"Generator: kpacktools {__version__} (libdeflate {deflate.__version__})\n"
        "Root-Is-Purelib: true\n"
        "Tag: py2-none-any\n"
        "Tag: py3-none-any\n"
        "Build: 2rc\n"
    )


def test_wheel_file_names_zlib_where_its_version_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipset, "ONE_SHOT", 1 << 20)
    monkeypatch.setattr("kpacktools.outputs.wheels.ONE_SHOT", 1 << 20)
    spec = replace(SPEC, files=tuple(memory_members({"a": bytes(2 << 20)})))
    assert b", zlib " in dist_info_of(write_one(tmp_path, spec), "WHEEL")


def test_metadata_is_made_of_the_spec() -> None:
    spec = WheelSpec(
        "ROCm_SDK.Device-gfx12_0",
        "7.15.0-rc.1+Build_5",
        ("py3-none-any",),
        requires=("rocm-sdk-libraries == 7.15.0rc1", 'x; extra == "devel"'),
        extras=("De_vel",),
        summary="two\nlines é",
        requires_python=">=3.10",
    )
    assert metadata_file(spec).decode() == (
        "Metadata-Version: 2.4\n"
        "Name: rocm-sdk-device-gfx12-0\n"
        "Version: 7.15.0rc1+build.5\n"
        "Summary: two lines é\n"
        "Requires-Python: >=3.10\n"
        "Requires-Dist: rocm-sdk-libraries==7.15.0rc1\n"
        'Requires-Dist: x; extra == "devel"\n'
        "Provides-Extra: de-vel\n"
    )


def test_metadata_that_is_given_is_taken_as_it_stands(tmp_path: Path) -> None:
    given = b"Metadata-Version: 2.1\nName: x\nVersion: 1\n\nA description.\n"
    assert dist_info_of(write_one(tmp_path, replace(SPEC, metadata=given)), "METADATA") == given


def test_metadata_parses_as_headers(tmp_path: Path) -> None:
    message = BytesParser().parsebytes(dist_info_of(write_one(tmp_path), "METADATA"))
    assert message["Name"] == "rocm-sdk-device-gfx942"
    assert message.get_all("Requires-Dist") == ["rocm-sdk-libraries==7.15.0"]


@pytest.mark.parametrize(
    ("spec", "filename"),
    [
        (
            WheelSpec("rocm-sdk-device-gfx12_0", "7.15.0", ("py3-none-linux_x86_64",)),
            "rocm_sdk_device_gfx12_0-7.15.0-py3-none-linux_x86_64.whl",
        ),
        (
            WheelSpec("Rocm..Sdk", "7.15.0+Local-1", ("py3-none-win_amd64",), build_tag="3"),
            "rocm_sdk-7.15.0+local.1-3-py3-none-win_amd64.whl",
        ),
        (
            WheelSpec("a", "1.0", ("py3-none-manylinux_2_28_x86_64", "py2-none-manylinux_2_28_x86_64")),
            "a-1.0-py2.py3-none-manylinux_2_28_x86_64.whl",
        ),
    ],
)
def test_a_file_name_parses_back(spec: WheelSpec, filename: str) -> None:
    assert wheel_filename(spec) == filename
    _, version, build, tags = parse_wheel_filename(filename)
    assert version == Version(spec.version)
    assert build == ((int(spec.build_tag), "") if spec.build_tag else ())
    assert tags == frozenset().union(*map(parse_tag, spec.tags))


@pytest.mark.parametrize(
    "change",
    [
        {"distribution": "-x"},
        {"version": "7.15-nightly?"},
        {"tags": ()},
        {"tags": ("py3-none",)},
        {"tags": ("py2-none-any", "py3-abi3-any")},
        {"build_tag": "rc1"},
        {"build_tag": "1-2"},
        {"requires": ("rocm sdk",)},
        {"extras": ("a b!",)},
        {"files": tuple(memory_members({"../x": b""}))},
        {"files": tuple(memory_members({f"{DIST_INFO}/METADATA": b""}))},
        {"generated": (("a", b"1"), ("a", b"2"))},
        {"dist_info": (("RECORD", b""),)},
        {"dist_info": (("../x", b""),)},
    ],
    ids=str,
)
def test_a_spec_that_cannot_become_a_wheel_is_refused_before_writing(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(ValueError):
        write_wheels([SPEC, replace(SPEC, **change)], os.fspath(tmp_path))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_platform_tag_is_the_explicit_one_else_the_variable_else_that_of_this_platform() -> None:
    environ = {"ROCM_SDK_WHEEL_PLATFORM_TAG": "manylinux_2_28_x86_64"}
    assert platform_tag("win_amd64", environ) == "win_amd64"
    assert platform_tag(None, environ) == "manylinux_2_28_x86_64"
    assert parse_tag(f"py3-none-{platform_tag(None, {})}")


@pytest.mark.parametrize("tag", ["linux-x86_64", "linux x86", ".any", "ü"])
def test_a_platform_tag_that_no_name_can_hold_is_a_call_error(tag: str) -> None:
    with pytest.raises(CallError, match="no platform tag"):
        platform_tag(tag)
