"""Checks of wheels: alone, and side by side."""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from builders import Build, code_object, names, only
from kpacktools.commands import inspect
from kpacktools.findings import Finding, Severity
from kpacktools.hookspecs import Depth
from kpacktools.kpack.writer import KpackWriter
from kpacktools.outputs.members import GeneratedFiles
from kpacktools.outputs.wheels import WheelSpec, write_wheels
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report

INFO = "demo-1.0.dist-info"
AITER = "_rocm_sdk_libraries/lib/arch_content/aiter"
LINUX = ("py3-none-linux_x86_64",)

Make = Callable[..., Path]
Edit = Callable[[dict[str, bytes]], None]
Maker = Callable[..., Build]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a wheel that is in order."""

    def run(
        files: Mapping[str, bytes] | None = None,
        name: str = "demo",
        version: str = "1.0",
        tags: tuple[str, ...] = ("py3-none-any",),
        requires: tuple[str, ...] = (),
        folder: str = "dist",
        **spec: object,
    ) -> Path:
        payload = {"demo/__init__.py": b"", "demo/data.bin": b"data" * 99} if files is None else files
        (tmp_path / folder).mkdir(exist_ok=True)
        members = tuple(GeneratedFiles(list(payload.items())).members())
        made = WheelSpec(name, version, tags, members, requires=requires, **spec)  # type: ignore[arg-type]
        return Path(write_wheels([made], str(tmp_path / folder))[0].path)

    return run


@pytest.fixture
def look(settings: Settings) -> Callable[..., Report]:
    """Inspects to the bottom, unless told otherwise."""

    def run(*paths: Path, depth: Depth = Depth.CONTENT) -> Report:
        return inspect([str(path) for path in paths], Settings(depth=depth, jobs=2))

    return run


Look = Callable[..., Report]


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def edit(wheel: Path, change: Edit) -> Path:
    """Pack a wheel's changed members anew; RECORD stays what it was unless it is among the changes."""
    content = members(wheel)
    change(content)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(name, data)
    return wheel


def replacing(path: str, old: bytes, new: bytes) -> Edit:
    def change(content: dict[str, bytes]) -> None:
        assert old in content[path]
        content[path] = content[path].replace(old, new)

    return change


def renamed(wheel: Path, name: str) -> Path:
    return wheel.rename(wheel.with_name(name))


def adding(path: str, data: bytes) -> Edit:
    return lambda content: content.update({path: data})


def dropping(path: str) -> Edit:
    return lambda content: content.__delitem__(path)


def record(path: str, old: str, new: str) -> Edit:
    """Changes the line of a file in RECORD."""

    def change(content: dict[str, bytes]) -> None:
        lines = content[f"{INFO}/RECORD"].decode().splitlines()
        lines = [line.replace(old, new) if line.startswith(path) else line for line in lines]
        content[f"{INFO}/RECORD"] = "".join(line + "\n" for line in lines if line).encode()

    return change


def of(report: Report, name: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.name == name]


def kpack(*targets: str) -> bytes:
    stream = io.BytesIO()
    with KpackWriter(stream, group_name="test", gfx_arch_family=targets[0]) as writer:
        for target in targets:
            writer.add(f"k/{target}", target, code_object(target))
    return stream.getvalue()


@pytest.mark.parametrize("depth", list(Depth))
def test_a_wheel_made_here_is_in_order_at_every_depth(make: Make, look: Look, depth: Depth) -> None:
    files = {f"{AITER}/gfx942/k.co": code_object("gfx942"), f"{AITER}/gfx942/t.csv": b"co_name\nk.co\n"}
    wheel = make(files, name="rocm-sdk-device-gfx942", version="7.15.0+lab.1", tags=LINUX, build_tag="2a")
    report = look(wheel, depth=depth)
    assert report.findings == ()
    assert [(item.bundle.engine, item.bundle.key.name) for item in report.bundles] == [("aiter", "gfx942")]
    assert [(item.shard, item.targets, item.files) for item in report.inputs] == [
        (wheel.name, ("gfx942",), 2)
    ]


# RECORD


def test_D2_a_duplicate_member_is_found(make: Make, look: Look) -> None:
    wheel = make()
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(wheel, "a") as file:
        file.writestr("demo/data.bin", b"data" * 99)
    assert "more than once" in only(look(wheel), "wheel-record-invalid").message


def test_D2_a_duplicate_row_of_record_is_found(make: Make, look: Look) -> None:
    def change(content: dict[str, bytes]) -> None:
        content[f"{INFO}/RECORD"] += content[f"{INFO}/RECORD"].splitlines(keepends=True)[0]

    finding = only(look(edit(make(), change)), "wheel-record-invalid")
    assert finding.message == "it lists 1 file more than once: demo/__init__.py"
    assert finding.path.endswith(f"{INFO}/RECORD")


def test_D3_metadata_that_was_edited_after_the_build_is_found(make: Make, look: Look) -> None:
    wheel = edit(make(), replacing(f"{INFO}/METADATA", b"Name: demo", b"Name: Demo"))
    found = only(look(wheel), "wheel-record-invalid")
    assert found.message == f"it has digests that are not those of 1 file: {INFO}/METADATA"


def test_D3_a_file_that_is_missing_from_record_is_found_at_every_depth(make: Make, look: Look) -> None:
    wheel = edit(make(), adding("demo/late.py", b"x"))
    for depth in Depth:
        found = only(look(wheel, depth=depth), "wheel-record-invalid")
        assert found.message == "it does not list 1 file: demo/late.py"


def test_D3_a_file_that_only_record_has_is_found(make: Make, look: Look) -> None:
    wheel = edit(make(), dropping("demo/data.bin"))
    assert "lists 1 file that the wheel lacks" in only(look(wheel), "wheel-record-invalid").message


def test_D4_backslashes_in_member_names_are_found(make: Make, look: Look) -> None:
    wheel = edit(
        make({"demo/a.py": b""}), lambda content: content.update({"demo\\a.py": content.pop("demo/a.py")})
    )
    found = of(look(wheel), "wheel-record-invalid")
    assert any("backslash" in finding.message for finding in found)
    assert any("the wheel lacks: demo/a.py" in finding.message for finding in found)


WRONG_ROWS = {
    "weak": ("sha256=", "md5=", "it has md5 digests, which are not allowed, of 1 file"),
    "no algorithm": ("sha256=", "", "which are not allowed"),
    "padded": (",396", "=,396", "not unpadded urlsafe base64 of 1 file"),
    "size": (",396", ",395", "it has sizes that are not those of 1 file"),
    "no size is allowed": (",396", ",", ""),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_a_wrong_row_of_record_is_found(make: Make, look: Look, case: str) -> None:
    old, new, message = WRONG_ROWS[case]
    report = look(edit(make(), record("demo/data.bin", old, new)), depth=Depth.TOC)
    assert message in "".join(finding.message for finding in of(report, "wheel-record-invalid"))
    assert report.ok == (not message)


def test_a_row_without_a_digest_is_found_unless_it_is_that_of_record(make: Make, look: Look) -> None:
    def change(content: dict[str, bytes]) -> None:
        rows = [line.split(b",") for line in content[f"{INFO}/RECORD"].splitlines()]
        content[f"{INFO}/RECORD"] = b"".join(row[0] + b",,\n" for row in rows)

    assert "no digest of 4 files" in only(look(edit(make(), change)), "wheel-record-invalid").message


@pytest.mark.parametrize(("data", "ok"), [(b"", True), (b"other", False)])
def test_other_digests_that_are_strong_are_compared(make: Make, look: Look, data: bytes, ok: bool) -> None:
    digest = urlsafe_b64encode(hashlib.sha512(data).digest()).rstrip(b"=").decode()

    def change(content: dict[str, bytes]) -> None:
        lines = content[f"{INFO}/RECORD"].decode().splitlines()
        assert lines[0].startswith("demo/__init__.py,")
        lines[0] = f"demo/__init__.py,sha512={digest},0"
        content[f"{INFO}/RECORD"] = "\n".join(lines).encode()

    assert look(edit(make(), change)).ok == ok


@pytest.mark.parametrize("data", [b"\xff\xfe", b"one,two\n", b"a,b,c,d\n", b'"open'], ids=range(4))
def test_a_record_that_cannot_be_read_is_found(make: Make, look: Look, data: bytes) -> None:
    wheel = edit(make(), adding(f"{INFO}/RECORD", data))
    assert "cannot be read" in only(look(wheel), "wheel-record-invalid").message


@pytest.mark.parametrize(
    ("missing", "name"),
    [("RECORD", "wheel-record-invalid"), ("METADATA", "wheel-name-invalid"), ("WHEEL", "wheel-name-invalid")],
)
def test_a_file_that_installers_need_is_missed(make: Make, look: Look, missing: str, name: str) -> None:
    wheel = edit(make(), dropping(f"{INFO}/{missing}"))
    assert any(f"holds no {missing}" in finding.message for finding in of(look(wheel), name))


# Names


def test_a_zip_file_without_dist_info_is_no_wheel(make: Make, look: Look) -> None:
    def change(content: dict[str, bytes]) -> None:
        for name in [name for name in content if name.startswith(INFO)]:
            del content[name]

    assert "no .dist-info folder" in only(look(edit(make(), change)), "archive-invalid").message


def test_two_dist_info_folders_are_found(make: Make, look: Look) -> None:
    wheel = edit(make(), adding("other-1.0.dist-info/METADATA", b""))
    assert "2 .dist-info folders" in only(look(wheel), "wheel-name-invalid").message


RENAMED = {
    "demo-1.1-py3-none-any.whl": ["its METADATA says demo 1.0", f"its folder {INFO} says demo 1.0"],
    "demon-1.0-py3-none-any.whl": ["its METADATA says demo 1.0", f"its folder {INFO} says demo 1.0"],
    "demo-1.0-py3-none-win_amd64.whl": ["its WHEEL file says py3-none-any, its file name py3-none-win_amd64"],
    "demo-1.0-3-py3-none-any.whl": ["its WHEEL file says build (none), its file name 3"],
    "demo.whl": ["its file name is not that of a wheel"],
    "demo-1.0-any.whl": ["its file name is not that of a wheel"],
    "Demo-1.0-py3-none-any.whl": [],
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_renamed_wheel_is_found(make: Make, look: Look, name: str) -> None:
    wheel = renamed(make(), name)
    found = of(look(wheel), "wheel-name-invalid")
    assert len(found) == len(RENAMED[name])
    for finding, message in zip(found, RENAMED[name], strict=True):
        assert message in finding.message


def test_a_version_that_is_spelt_otherwise_than_in_its_normal_form_is_a_warning(
    make: Make, look: Look
) -> None:
    wheel = renamed(make(), "demo-1.0.0rc00-py3-none-any.whl")
    spelt = [f for f in of(look(wheel), "wheel-name-invalid") if "normal form is 1.0.0rc0" in f.message]
    assert [finding.severity for finding in spelt] == [Severity.WARNING]


def test_all_tags_of_a_compressed_set_are_compared(make: Make, look: Look) -> None:
    wheel = make(tags=("py2.py3-none-any",))
    assert look(wheel).findings == ()
    assert not look(edit(wheel, replacing(f"{INFO}/WHEEL", b"Tag: py2-none-any\n", b""))).ok


WRONG_FILES = {
    "WHEEL version": ("WHEEL", b"Wheel-Version: 1.0", b"Wheel-Version: 2.0", "Wheel-Version 2.0"),
    "purelib": ("WHEEL", b"Purelib: false", b"Purelib: maybe", "Root-Is-Purelib maybe"),
    "no tag": ("WHEEL", b"Tag: py3-none-any", b"", "says no tag"),
    "bad tag": ("WHEEL", b"py3-none-any", b"py3", "a tag that cannot be read"),
    "tag bomb": ("WHEEL", b"py3-none-any", b"-".join([b".".join([b"a"] * 99)] * 3), "more than 10,000 tags"),
    "requirement": ("METADATA", b"Version: 1.0", b"Version: 1.0\nRequires-Dist: a b", "METADATA is invalid"),
    "no name": ("METADATA", b"Name: demo", b"Summary: x", "says no name 1.0"),
    "metadata version": (
        "METADATA",
        b"Metadata-Version: 2.4",
        b"Metadata-Version: 3.0",
        "Metadata-Version 3.0",
    ),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_what_a_wheel_says_of_itself_is_valid(make: Make, look: Look, case: str) -> None:
    file, old, new, message = WRONG_FILES[case]
    report = look(edit(make(), replacing(f"{INFO}/{file}", old, new)))
    assert any(message in finding.message for finding in of(report, "wheel-name-invalid")), report.findings


def test_fields_that_old_builders_wrote_before_their_time_are_no_fault(make: Make, look: Look) -> None:
    text = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nLicense-File: LICENSE\n"
    assert look(make(metadata=text)).findings == ()


def test_a_field_that_nobody_knows_is_a_warning(make: Make, look: Look) -> None:
    report = look(make(metadata=b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nColour: red\n"))
    assert only(report, "wheel-name-invalid").severity is Severity.WARNING


def test_metadata_of_a_later_minor_version_is_taken_with_fields_that_nobody_knows_yet(
    make: Make, look: Look
) -> None:
    text = b"Metadata-Version: 2.99\nName: demo\nVersion: 1.0\nColour: red\n"
    assert look(make(metadata=text)).findings == ()


@pytest.mark.parametrize("header", [b"Content-Type: multipart/mixed; boundary=x", b"\xff: \xff", b"Keywords"])
def test_odd_metadata_is_no_trap(make: Make, look: Look, header: bytes) -> None:
    look(
        make(
            metadata=b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
            + header
            + b"\n\n--x\n\ntext\n--x--\n"
        )
    )


# Places


@pytest.mark.parametrize("path", ["demo-1.0.data/elsewhere/x", "demo-1.0.data/x", "other-1.0.data/data/x"])
def test_places_that_installers_refuse_are_found(make: Make, look: Look, path: str) -> None:
    found = only(look(make({path: b"x"})), "archive-invalid")
    assert "installers refuse 1 file" in found.message


def test_schemes_are_where_they_are_installed(make: Make, look: Look) -> None:
    files = {f"demo-1.0.data/{scheme}/x" for scheme in ("purelib", "headers", "scripts", "data")}
    assert look(make(dict.fromkeys(files, b"x"))).findings == ()


def test_two_members_with_one_place_are_found(make: Make, look: Look) -> None:
    wheel = make({"demo/x": b"1", "demo-1.0.data/platlib/demo/x": b"2"})
    assert "installed over another member" in only(look(wheel), "wheel-record-invalid").message


@pytest.mark.parametrize(
    ("tags", "severity"), [(("py3-none-any",), Severity.ERROR), (LINUX, Severity.WARNING)]
)
def test_names_that_differ_in_case_meet_on_windows(
    make: Make, look: Look, tags: tuple[str, ...], severity: Severity
) -> None:
    wheel = make({"demo/Case.py": b"", "demo/case.py": b""}, tags=tags)
    assert only(look(wheel), "case-collision").severity is severity


def test_names_that_windows_cannot_store_are_found(make: Make, look: Look) -> None:
    assert len(of(look(make({"demo/dot.": b"", "demo/a:b": b""})), "unportable-name")) == 2


# Device code


def test_loose_code_objects_of_a_wheel_are_counted_by_their_own_flags(make: Make, look: Look) -> None:
    files = {f"demo/configs/{i}/k.hsaco": code_object("gfx950") for i in range(3)}
    wheel = make({**files, "demo/one": code_object("gfx942")})
    report = look(wheel)
    assert report.ok
    found = of(report, "device-code-in-generic")
    assert {finding.severity for finding in found} == {Severity.INFO}
    assert [finding.message.partition(":")[0] for finding in found] == [
        "1 code object for gfx942 lies in no engine's place",
        "3 code objects for gfx950 lie in no engine's place",
    ]
    assert found[1].path == f"{wheel}/demo/configs"


def test_at_depth_layout_their_names_tell(make: Make, look: Look) -> None:
    wheel = make({"demo/k.hsaco": code_object("gfx950"), "demo/other": code_object("gfx950")})
    found = only(look(wheel, depth=Depth.LAYOUT), "device-code-in-generic")
    assert found.message == "1 code object lies in no engine's place: k.hsaco"


def test_a_device_wheel_holds_its_own_code_anywhere(make: Make, look: Look) -> None:
    files = {"_rocm_sdk_libraries/lib/k.co": code_object("gfx942:xnack+"), "x/loose.kpack": kpack("gfx942")}
    assert look(make(files, name="rocm-sdk-device-gfx942")).findings == ()


def test_foreign_code_in_a_device_wheel_is_an_error(make: Make, look: Look) -> None:
    files = {"lib/k.co": code_object("gfx950"), "lib/x.kpack": kpack("gfx942", "gfx950")}
    report = look(make(files, name="rocm-sdk-device-gfx942"))
    assert "for gfx950 lies under gfx942" in only(report, "codeobject-target-mismatch").message
    assert "1 kpack for gfx942, gfx950" in only(report, "target-mismatch").message


def test_another_device_s_content_in_a_device_wheel_is_an_error(make: Make, look: Look) -> None:
    wheel = make({f"{AITER}/gfx950/k.co": code_object("gfx950")}, name="rocm-sdk-device-gfx942")
    assert "content for gfx950" in only(look(wheel), "target-mismatch").message


@pytest.mark.parametrize("key", ["gfx1250-strict", "gfx1250", "gfx12_5", "gfx12"])
def test_variants_and_families_belong_to_a_device_wheel(make: Make, look: Look, key: str) -> None:
    wheel = make({f"{AITER}/{key}/t.csv": b"a,b\n"}, name="rocm-sdk-device-gfx1250")
    assert look(wheel).findings == ()


def test_an_unclaimed_folder_holds_code_for_the_target_it_is_named_after(make: Make, look: Look) -> None:
    wheel = make({"demo/gfx942/k.co": code_object("gfx942"), "demo/gfx950/k.co": code_object("gfx942")})
    report = look(wheel)
    assert "for gfx942 lies under gfx950" in only(report, "codeobject-target-mismatch").message
    assert only(report, "device-code-in-generic").path == f"{wheel}/demo/gfx942"


def test_a_broken_kpack_in_no_engine_s_place_is_found(make: Make, look: Look) -> None:
    assert names(look(make({"demo/x.kpack": kpack("gfx942")[:-9]}))) == {"kpack-corrupt"}


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("rocm-sdk-device-gfx942", ("gfx942",)),
        ("rocm-sdk-device-gfx12_0", ("gfx12_0",)),
        ("amd-torch-device-gfx9-4-generic", ("gfx9-4-generic",)),
        ("rocm-sdk-libraries-gfx94X-dcgpu", ()),
        ("gfx942-tools", ()),
        ("demo", ()),
    ],
)
def test_a_device_wheel_is_known_by_its_name(
    make: Make, look: Look, name: str, targets: tuple[str, ...]
) -> None:
    (item,) = look(make({"a": b""}, name=name)).inputs
    assert item.targets == targets


# Damage


@pytest.mark.parametrize("depth", [Depth.TOC, Depth.CONTENT])
def test_a_damaged_member_is_found_and_the_others_go_on(make: Make, look: Look, depth: Depth) -> None:
    files = {"demo/lib.so": bytes(range(256)) * 40, f"{AITER}/gfx942/k.co": code_object("gfx942")}
    wheel = edit(make(files), lambda content: None)
    data = bytearray(wheel.read_bytes())
    data[data.index(b"demo/lib.so") + 40] ^= 0xFF
    wheel.write_bytes(data)
    report = look(wheel, depth=depth)
    assert only(report, "archive-invalid").path == f"{wheel}/demo/lib.so"
    assert [item.kernels for item in report.bundles] == [1]


def test_a_damaged_record_is_found_at_depth_layout_too(make: Make, look: Look) -> None:
    wheel = edit(make({}), lambda content: None)
    data = bytearray(wheel.read_bytes())
    data[data.index(f"{INFO}/RECORD".encode()) + 40] ^= 0xFF
    wheel.write_bytes(data)
    assert only(look(wheel, depth=Depth.LAYOUT), "archive-invalid").path == f"{wheel}/{INFO}/RECORD"


# Several wheels


def shared(
    make: Make, first: dict[str, bytes], second: dict[str, bytes], **of_second: object
) -> tuple[Path, Path]:
    return make(first, name="one", tags=LINUX), make(second, name="two", tags=LINUX, **of_second)


SHARED = {
    "a file": ("ns/a.so", "ns/a.so"),
    "a namespace package": ("ns/__init__.py", "ns/__init__.py"),
    "a scheme": ("ns/a.so", "two-1.0.data/platlib/ns/a.so"),
    "a script": ("one-1.0.data/data/bin/run", "two-1.0.data/scripts/run"),
}


@pytest.mark.parametrize("case", SHARED)
def test_a_file_of_two_distributions_is_found(make: Make, look: Look, case: str) -> None:
    first, second = SHARED[case]
    wheels = shared(make, {first: b"same"}, {second: b"same"})
    found = only(look(*wheels), "wheel-shared-file")
    assert found.sources == (f"{wheels[0]}/{first}", f"{wheels[1]}/{second}")


def test_headers_of_two_distributions_are_apart(make: Make, look: Look) -> None:
    wheels = shared(make, {"one-1.0.data/headers/a.h": b""}, {"two-1.0.data/headers/a.h": b""})
    assert look(*wheels).findings == ()


def test_versions_and_systems_of_one_distribution_share_their_files(make: Make, look: Look) -> None:
    wheels = [make(version=version, tags=LINUX) for version in ("1.0", "1.1")]
    assert look(*wheels, make(name="demo-windows", tags=("py3-none-win_amd64",))).findings == ()


HOST = "rocm-sdk-libraries"


def host_and_device(make: Make, pin: str) -> tuple[Path, Path]:
    host = make({"h": b""}, name=HOST, version="7.14.0.post1")
    return host, make({"d": b""}, name="rocm-sdk-device-gfx942", version="7.14.0", requires=(HOST + pin,))


def test_D13_a_device_wheel_of_another_version_than_its_host_is_a_warning(make: Make, look: Look) -> None:
    report = look(*host_and_device(make, "==7.14.0"))
    found = only(report, "wheel-version-skew")
    assert found.message == f"requires {HOST} ==7.14.0, and the one beside it is 7.14.0.post1"
    assert found.severity is Severity.WARNING
    assert report.ok


def test_D13_a_compatible_pin_is_no_skew(make: Make, look: Look) -> None:
    assert look(*host_and_device(make, "~=7.14.0")).findings == ()


def test_D13_one_version_that_fits_is_enough(make: Make, look: Look) -> None:
    wheels = host_and_device(make, "==7.14.0")
    assert look(*wheels, make({"h": b""}, name=HOST, version="7.14.0")).findings == ()


def test_requirements_for_other_interpreters_are_alternatives(make: Make, look: Look) -> None:
    both = ('one<2 ; python_version < "3"', 'one>=2 ; python_version >= "3"')
    assert look(make({"a": b""}, name="one", version="2.1"), make(name="two", requires=both)).findings == ()


# Where wheels are found


def test_a_folder_of_wheels_gives_each_of_them(make: Make, look: Look, tmp_path: Path) -> None:
    make(folder="dist")
    make(folder="dist", version="1.1")
    (tmp_path / "dist/demo-1.0.tar.gz").write_bytes(b"")
    report = look(tmp_path / "dist")
    assert [item.shard for item in report.inputs] == [
        "demo-1.0-py3-none-any.whl",
        "demo-1.1-py3-none-any.whl",
    ]


def test_wheels_beside_artifact_directories_are_shards_of_their_own(
    make: Make, look: Look, build: Maker, tmp_path: Path
) -> None:
    shard = build("gfx942").host()
    shutil.copy(make(), shard.root)
    shutil.copy(make(version="1.1"), tmp_path / "in")
    report = look(tmp_path / "in")
    assert report.findings == ()
    assert len(report.inputs) == 3


def test_a_wheel_inside_an_install_prefix_is_a_file_of_it(make: Make, look: Look, tmp_path: Path) -> None:
    wheel = make(folder="dist")
    (tmp_path / "dist/share").mkdir()
    wheel.rename(tmp_path / "dist/share" / wheel.name)
    (tmp_path / "dist/readme").write_text("text")
    (item,) = look(tmp_path / "dist").inputs
    assert (item.shard, item.files) == ("dist", 2)
