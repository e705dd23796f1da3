"""Libraries in wheels: what they need, and where their RUNPATH leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from builders import Build, names, only
from elfs import Elf, dynamic, pe
from kpacktools.checks.needed import is_library, system_libraries
from kpacktools.commands import inspect
from kpacktools.findings import Severity
from kpacktools.hookspecs import Depth
from kpacktools.outputs.members import GeneratedFiles
from kpacktools.outputs.wheels import WheelSpec, write_wheels
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.wheelbuild import WheelRun, wheel

NAME = "wheel-needed-unresolved"
NEEDED, RUNPATH = 1, 29
LIB = "_rocm_sdk_libraries/lib"


def library(*needed: str, runpath: str = "") -> bytes:
    entries = [(NEEDED, name) for name in needed]
    return Elf(dynamic([*entries, (RUNPATH, runpath)] if runpath else entries)).build()


# Wheels that exist


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    def run(name: str, files: Mapping[str, bytes], *requires: str, folder: str = "dist") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        members = tuple(GeneratedFiles(sorted(files.items())).members())
        spec = WheelSpec(name, "1.0", ("py3-none-linux_x86_64",), members, requires=requires)
        return Path(write_wheels([spec], str(tmp_path / folder))[0].path)

    return run


Make = Callable[..., Path]


def look(*wheels: Path, depth: Depth = Depth.TOC) -> Report:
    return inspect([str(path) for path in wheels], Settings(depth=depth))


@pytest.mark.parametrize("runpath", ["$ORIGIN", "${ORIGIN}/", "/opt/lib:$ORIGIN/../lib", "$ORIGIN/.."])
def test_what_the_runpath_leads_to_is_found(make: Make, runpath: str) -> None:
    place = "sub/a.so" if runpath == "$ORIGIN/.." else "a.so"
    files = {
        f"{LIB}/{place}": library("libb.so.1", "libc.so.6", runpath=runpath),
        f"{LIB}/libb.so.1": library(),
    }
    assert look(make("demo", files)).findings == ()


def test_what_no_wheel_has_is_a_warning(make: Make) -> None:
    path = make("demo", {f"{LIB}/a.so": library("libgone.so.1", runpath="$ORIGIN")})
    found = only(look(path), NAME)
    assert (found.severity, found.path) == (Severity.WARNING, f"{path}/{LIB}/a.so")
    assert (
        found.message == "needs libgone.so.1, which neither the set nor the host nor every Linux system has"
    )
    assert NAME not in names(look(path, depth=Depth.LAYOUT))


def test_libraries_that_lack_the_same_are_one_finding(make: Make) -> None:
    found = only(look(make("demo", {f"{name}.so": library("libgone.so.1") for name in "abc"})), NAME)
    assert found.message.endswith("; so do b.so, c.so")
    assert len(found.sources) == 3


def test_what_is_there_and_not_on_the_runpath_is_worth_knowing(make: Make) -> None:
    files = {f"{LIB}/engines/a.so": library("libb.so.1", runpath="$ORIGIN"), f"{LIB}/libb.so.1": library()}
    found = only(look(make("demo", files)), NAME)
    assert found.severity is Severity.INFO
    assert found.message == (
        f"needs libb.so.1, which is {LIB}/libb.so.1, and its RUNPATH ($ORIGIN) does not lead there: it is only found "
        "once something else has loaded it"
    )
    assert found.hint == "link it with -Wl,-rpath,'$ORIGIN/..'"


def test_the_host_beside_a_device_wheel_has_what_that_needs(make: Make) -> None:
    host = make("rocm-sdk-libraries", {f"{LIB}/libhost.so.1": library()})
    device = {f"{LIB}/k_gfx942.so": library("libhost.so.1", runpath="$ORIGIN")}
    assert look(host, make("rocm-sdk-device-gfx942", device, "rocm-sdk-libraries==1.0")).findings == ()


def test_a_wheel_whose_requirements_are_out_of_sight_is_not_judged(make: Make) -> None:
    device = make("device", {"a.so": library("libhost.so.1")}, "host==1.0")
    assert look(device).findings == ()
    assert look(device, make("host", {"h": b""}, "core")).findings == ()
    assert names(look(device, make("host", {"h": b""}, folder="other"))) == {NAME}


def test_what_extras_require_does_not_excuse(make: Make) -> None:
    assert names(look(make("demo", {"a.so": library("libx.so.1")}, 'x ; extra == "all"'))) == {NAME}


@pytest.mark.parametrize(
    ("path", "runpath"),
    [("demo-1.0.data/platlib/b.so", "$ORIGIN"), ("demo-1.0.data/data/lib/b.so", "$ORIGIN/../..")],
)
def test_a_library_of_a_scheme_is_found_where_it_is_installed(make: Make, path: str, runpath: str) -> None:
    assert look(make("demo", {"a.so": library("b.so", runpath=runpath), path: library()})).findings == ()


def test_the_way_to_a_library_of_a_scheme_is_told(make: Make) -> None:
    files = {"pkg/a.so": library("b.so"), "demo-1.0.data/data/lib/b.so": library()}
    found = only(look(make("demo", files)), NAME)
    assert "which is demo-1.0.data/data/lib/b.so, and no RUNPATH leads there" in found.message
    assert found.hint == "link it with -Wl,-rpath,'$ORIGIN/../../..'"


@pytest.mark.parametrize("data", [b"", b"text", pe({}, ["gone.dll"])])
def test_what_is_no_elf_file_needs_nothing(make: Make, data: bytes) -> None:
    assert look(make("demo", {"a.so": data})).findings == ()


def test_every_system_has_these() -> None:
    assert {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"} <= system_libraries()
    assert all(map(is_library, system_libraries()))


# Wheels that are to be made


@pytest.fixture
def shard(build: Callable[..., Build]) -> Build:
    """A device library that links to the host's, which is in the generic part."""
    made = build("gfx942").host(library())
    made.put("libMIOpenCKGroupedConv_gfx942.so", library("libhost.so", runpath="$ORIGIN"))
    return made


def pack(shard: Build, *, external: tuple[str, ...] = (), depth: Depth = Depth.TOC) -> Report:
    options = WheelOptions("1", external=external)
    run = WheelRun(dry_run=True)
    return wheel([str(shard.root)], str(shard.root.parent / "dist"), Settings(depth=depth), options, run)


def test_the_generic_part_stands_for_the_host(shard: Build) -> None:
    assert pack(shard).findings == ()


def test_what_neither_set_nor_host_has_is_found_before_anything_is_written(shard: Build) -> None:
    shard.put("libMIOpenCKGroupedConv_gfx942.so", library("libgone.so.1", runpath="$ORIGIN"))
    found = only(pack(shard), NAME)
    assert found.path.endswith("/libMIOpenCKGroupedConv_gfx942.so")
    assert found.severity is Severity.WARNING
    assert pack(shard, depth=Depth.LAYOUT).findings == ()


def test_an_external_distribution_may_have_it(shard: Build) -> None:
    shard.put("libMIOpenCKGroupedConv_gfx942.so", library("libgone.so.1"))
    found = only(pack(shard, external=("rocm-sdk-core",)), NAME)
    assert found.severity is Severity.INFO
    assert found.message.endswith("unless an external distribution has it (rocm-sdk-core)")


def test_a_runpath_that_leaves_the_overlay_is_followed_by_nobody(shard: Build) -> None:
    runpath = "$ORIGIN/" + "../" * 4 + "_rocm_sdk_core/lib"
    shard.put("libMIOpenCKGroupedConv_gfx942.so", library("libamdhip64.so.7", runpath=runpath))
    assert pack(shard).findings == ()


def test_nothing_is_judged_without_a_host_in_sight(shard: Build) -> None:
    (shard.engines / "libhost.so").unlink()
    assert pack(shard).findings == ()
