"""AITER's own wheel, as AMD publishes it: 40 MB for two devices, inspected without unpacking it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from real_wheels import AITER, fetch

from kpacktools.commands import inspect
from kpacktools.findings import Severity
from kpacktools.hookspecs import Depth
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import open_wheel

pytestmark = pytest.mark.real

FILES = 9106
CODE_OBJECTS = {"gfx942": 1281, "gfx950": 1220}
LOOSE = 112
"""Code objects for gfx950 in a folder that no engine owns."""


@pytest.fixture(scope="module")
def aiter() -> Path:
    return fetch(AITER)


@pytest.fixture(scope="module")
def report(aiter: Path) -> Report:
    return inspect([str(aiter)], Settings(depth=Depth.CONTENT, jobs=2))


def test_the_wheel_is_in_order(report: Report) -> None:
    assert report.ok
    assert {finding.name for finding in report.findings} == {"device-code-in-generic", "path-too-long"}


def test_every_code_object_in_an_engine_s_place_is_checked(report: Report) -> None:
    assert {item.bundle.key.name: item.kernels_checked for item in report.bundles} == CODE_OBJECTS
    assert {item.bundle.engine for item in report.bundles} == {"aiter"}
    assert [item.files for item in report.inputs] == [FILES]


def test_the_others_are_counted_by_their_own_flags(report: Report) -> None:
    (found,) = [finding for finding in report.findings if finding.name == "device-code-in-generic"]
    assert found.severity is Severity.INFO
    assert found.message.startswith(f"{LOOSE} code objects for gfx950 lie in no engine's place")
    assert found.path.endswith("/aiter/ops/triton/configs/gemm/aot")


def test_every_member_reads_as_zipfile_reads_it(aiter: Path) -> None:
    opened = open_wheel(str(aiter), Spool())
    assert opened.findings == ()
    with zipfile.ZipFile(aiter) as file:
        assert list(opened.tree.members) == file.namelist()
        for name in file.namelist():
            digest = hashlib.sha256()
            for block in opened.tree.blocks(name):
                digest.update(block)
            assert digest.digest() == hashlib.sha256(file.read(name)).digest()


def test_an_edited_code_object_is_found(aiter: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(aiter) as file:
        name = next(name for name in file.namelist() if name.endswith(".co"))
        info = file.getinfo(name)
    data = bytearray(aiter.read_bytes())
    data[info.header_offset + 30 + len(name) + info.compress_size // 2] ^= 0xFF
    wheel = tmp_path / aiter.name
    wheel.write_bytes(data)
    found = inspect([str(wheel)], Settings(depth=Depth.CONTENT, jobs=2)).findings
    assert [f.path for f in found if f.name == "archive-invalid"] == [f"{wheel}/{name}"]
