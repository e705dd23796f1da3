"""AMD's runtime and this package see the same kernels."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from amd_runtime import RuntimeRefusal, list_kernels

from kpacktools.kpack import KpackError
from kpacktools.kpack.reader import KpackReader, verify
from kpacktools.kpack.writer import KpackWriter

pytestmark = pytest.mark.real

SHARDS = Path(__file__).parents[2] / "examples" / "shards"


def ours(path: Path) -> list[tuple[object, ...]]:
    with path.open("rb") as file:
        return sorted(checked[:4] for checked in verify(KpackReader(file, path.stat().st_size)))


def first_kernel(path: Path) -> bytes:
    with path.open("rb") as file:
        reader = KpackReader(file, path.stat().st_size)
        return reader.read(next(reader.toc.entries()).kernel)


def archive(path: Path, scheme: str = "zstd-per-kernel") -> Path:
    with (
        path.open("wb") as file,
        KpackWriter(file, group_name="test", gfx_arch_family="gfx94X", scheme=scheme) as writer,  # type: ignore[arg-type]
    ):
        writer.add("lib/libtest.so#0", "gfx942", b"code" * 100, metadata={"symbol": "s", "list": [1, None]})
        writer.add("lib/libtest.so#0", "gfx950", b"another")
        writer.add("bin/täst#0", "gfx942:sramecc+:xnack-", os.urandom(5 << 20) + bytes(5 << 20))
        writer.add("bin/täst#1", "gfx942", bytes(1 << 20))
    return path


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_amds_runtime_reads_what_the_writer_writes(scheme: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.kpack", scheme)
    seen = list_kernels(path)
    assert len(seen) == 4
    assert seen == ours(path)


@pytest.mark.parametrize("path", sorted(SHARDS.rglob("*.kpack")), ids=lambda path: path.stem)
def test_amds_runtime_reads_the_example_shards(path: Path) -> None:
    assert list_kernels(path) == ours(path) != []


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, b"KPAX"),
        (4, struct.pack("<I", 9)),
        (8, struct.pack("<Q", 1 << 40)),
        (64, struct.pack("<I", 1 << 31)),
    ],
    ids=["magic", "version", "TOC offset", "kernel count"],
)
def test_what_amds_runtime_refuses_is_refused(position: int, value: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.kpack")
    data = bytearray(path.read_bytes())
    data[position : position + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(RuntimeRefusal):
        list_kernels(path)
    with pytest.raises(KpackError):
        first_kernel(path)
