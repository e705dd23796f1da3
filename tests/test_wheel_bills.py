"""Bills of materials of wheels, compared with what the wheels hold."""

from __future__ import annotations

import hashlib
import json
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import Build, code_object, names, only
from kpacktools.commands import inspect
from kpacktools.hookspecs import Depth
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.wheelbuild import wheel

BILL = ".dist-info/sboms/kpacktools.cdx.json"
Change = Callable[[Any], None]


@pytest.fixture
def device_wheel(build: Callable[..., Build], tmp_path: Path, settings: Settings) -> Path:
    """The wheel of gfx942: a kpack of rocke with two kernels, and a loose code object of aiter."""
    shard = build("gfx942").host()
    shard.rocke("gfx942")
    shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    report = wheel([str(shard.root)], str(tmp_path / "dist"), settings, WheelOptions("7.15.0"))
    return Path(report.outputs[0].path)


def _repacked(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The wheel with other members, and a RECORD that holds for them."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    (record,) = [name for name in members if name.endswith(".dist-info/RECORD")]
    lines = [
        f"{name},sha256={urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in members.items()
        if name != record
    ]
    members[record] = ("".join(lines) + f"{record},,\n").encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _with_bill(path: Path, change: Change) -> Path:
    def edit(members: dict[str, bytes]) -> None:
        (name,) = [name for name in members if name.endswith(BILL)]
        document = json.loads(members[name])
        change(document)
        members[name] = json.dumps(document).encode()

    return _repacked(path, edit)


def _look(path: Path, depth: Depth = Depth.TOC) -> Report:
    return inspect([str(path)], Settings(depth=depth))


def _member(path: Path, ending: str) -> str:
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(ending)]
    return name


@pytest.mark.parametrize("depth", list(Depth))
def test_a_bill_that_was_just_written_holds(device_wheel: Path, depth: Depth) -> None:
    assert names(_look(device_wheel, depth)) <= {"provenance-unknown"}


def test_a_component_that_is_not_there_is_found(device_wheel: Path) -> None:
    _with_bill(device_wheel, lambda bill: bill["components"].append({"name": "gone.kpack"}))
    found = only(_look(device_wheel), "sidecar-mismatch")
    assert found.message == "it lists 1 file that the wheel lacks: gone.kpack"
    assert found.path.endswith(BILL)


def test_device_code_that_is_not_listed_is_found(device_wheel: Path) -> None:
    _with_bill(device_wheel, lambda bill: bill["components"].clear())
    message = only(_look(device_wheel), "sidecar-mismatch").message
    assert message.startswith("it does not list 2 files: ")
    assert "rocke_client_gfx942.kpack" in message


def test_a_component_that_is_listed_twice_is_found(device_wheel: Path) -> None:
    _with_bill(device_wheel, lambda bill: bill["components"].append(bill["components"][0]))
    assert "more than once: " in only(_look(device_wheel), "sidecar-mismatch").message


def test_other_bytes_than_the_bills_are_found_at_depth_content(device_wheel: Path) -> None:
    name = _member(device_wheel, "k.co")
    _repacked(device_wheel, lambda members: members.update({name: code_object("gfx942", b"patched")}))
    assert "sidecar-mismatch" not in names(_look(device_wheel))
    found = only(_look(device_wheel, Depth.CONTENT), "sidecar-mismatch")
    assert found.message == f"it has another sha256 than 1 file: {name}"


def test_bytes_are_compared_whatever_digests_record_uses(device_wheel: Path) -> None:
    name = _member(device_wheel, "k.co")
    patched = code_object("gfx942", b"patched")
    _repacked(device_wheel, lambda members: members.update({name: patched}))
    with zipfile.ZipFile(device_wheel) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    record = _member(device_wheel, ".dist-info/RECORD")
    short, long = (
        urlsafe_b64encode(hashlib.new(algorithm, patched).digest()).rstrip(b"=")
        for algorithm in ("sha256", "sha512")
    )
    members[record] = members[record].replace(b"sha256=" + short, b"sha512=" + long)
    with zipfile.ZipFile(device_wheel, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    assert names(_look(device_wheel, Depth.CONTENT)) == {"sidecar-mismatch"}


@pytest.mark.parametrize(
    ("fact", "value", "right"),
    [
        ("kernels", "3", "2"),
        ("target", "gfx950", "gfx942"),
        ("engine", "aiter", "rocke"),
        ("build_id", "x", "build-1"),
    ],
)
def test_facts_that_are_not_those_of_the_archive_are_found(
    device_wheel: Path, fact: str, value: str, right: str
) -> None:
    def change(bill: Any) -> None:
        (kpack,) = [item for item in bill["components"] if item["name"].endswith(".kpack")]
        (entry,) = [item for item in kpack["properties"] if item["name"] == f"kpacktools:{fact}"]
        entry["value"] = value

    message = only(_look(_with_bill(device_wheel, change)), "sidecar-mismatch").message
    assert message.startswith(f"it says {fact} {value} and not {right} of 1 file: ")


def test_the_bill_of_another_wheel_is_found(device_wheel: Path) -> None:
    _with_bill(device_wheel, lambda bill: bill["metadata"]["component"].update(version="7.14.0"))
    assert only(_look(device_wheel), "sidecar-mismatch").message == (
        "it is that of rocm-sdk-device-gfx942 7.14.0, and the wheel is rocm-sdk-device-gfx942 7.15.0"
    )


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"components": []}', b"\xff", b'{"x": ' + b"[" * 100_000, b'{"metadata": 1}']
)
def test_what_is_no_bill_is_one_finding(device_wheel: Path, data: bytes) -> None:
    name = _member(device_wheel, BILL)
    _repacked(device_wheel, lambda members: members.update({name: data}))
    assert "cannot be read" in only(_look(device_wheel), "sidecar-mismatch").message


def test_bills_of_other_tools_are_theirs(device_wheel: Path) -> None:
    name = _member(device_wheel, BILL).replace("kpacktools.cdx", "auditwheel.cdx")
    _repacked(device_wheel, lambda members: members.update({name: b"{}"}))
    assert "sidecar-mismatch" not in names(_look(device_wheel, Depth.CONTENT))
