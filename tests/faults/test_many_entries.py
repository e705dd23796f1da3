"""Trees, archives and wheels of very many files end, in memory that is in proportion, or are refused.

``KPACKTOOLS_ENTRIES=1000000`` makes them of a million; ``-rP`` shows what each took.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

ENTRIES = int(os.environ.get("KPACKTOOLS_ENTRIES", "10000"))
BASE = 120 << 20
"""Bytes that a run may take whatever it reads."""
EACH = 1 << 10
"""Bytes that it may take for each entry."""

RUN = """\
import sys, time
from kpacktools.cli import run
status = run(sys.argv[1:])
with open("/proc/self/status") as stream:
    (peak,) = [int(line.split()[1]) * 1024 for line in stream if line.startswith("VmHWM:")]
print(peak, time.process_time(), file=sys.stderr)
sys.exit(status)
"""
"""What ``getrusage`` says of a process includes what its parent took before."""


def _names() -> list[str]:
    """A thousand in each folder."""
    return [f"stage/lib/{number // 1000}/file-{number}" for number in range(ENTRIES)]


def _tree(place: Path) -> Path:
    root = place / "x_lib_generic"
    for name in _names():
        path = root / name
        if name.endswith("000") or not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    (root / "artifact_manifest.txt").write_text("stage\n")
    return root


def _tar(place: Path) -> Path:
    path = place / "x_lib_generic.tar.zst"
    manifest = tarfile.TarInfo("artifact_manifest.txt")
    manifest.size = 6
    with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as stream:
        stream.write(manifest.tobuf(tarfile.USTAR_FORMAT) + b"stage\n".ljust(512, b"\0"))
        for name in _names():
            stream.write(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
        stream.write(bytes(10240))
    return path


def _wheel(place: Path) -> Path:
    path = place / "x-1.0-py3-none-any.whl"
    names = _names()
    record = io.StringIO()
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"")
            record.write(f"{name},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")
        about = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("x-1.0.dist-info/WHEEL", about)
        archive.writestr("x-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
        archive.writestr("x-1.0.dist-info/RECORD", record.getvalue())
    return path


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="nothing says what a process took")
@pytest.mark.parametrize("make", [_tree, _tar, _wheel])
def test_very_many_files_end_in_memory_in_proportion(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    command = [sys.executable, "-c", RUN, "inspect", path, "--depth", "content", "--format", "json"]
    with (tmp_path / "report.json").open("wb") as report:
        done = subprocess.run(command, stdout=report, stderr=subprocess.PIPE, text=True, check=False)
    peak, seconds = map(float, done.stderr.split("\n")[-2].split())
    said = (tmp_path / "report.json").read_text()
    refused = "names than fit in memory" in said
    print(f"{path.name}: {seconds:.1f} s, {peak / 1e6:.0f} MB, exit {done.returncode}, refused: {refused}")
    assert done.returncode in (0, 1), done.stderr + said[:1000]
    assert refused == (ENTRIES >= 500_000 and make is not _tree)
    assert peak < BASE + EACH * ENTRIES
