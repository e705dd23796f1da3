"""The writer: the layout it writes, and what it refuses."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import zstandard
from kpack_files import written

from kpacktools.kpack import KpackError, read_toc
from kpacktools.kpack.reader import KpackReader
from kpacktools.kpack.writer import KpackWriter

TWO = {("lib/libtest.so#0", "gfx900"): b"first", ("lib/libtest.so#0", "gfx906"): b"second"}


def parts(data: bytes) -> tuple[bytes, bytes, dict[str, object]]:
    """Header, blob and TOC."""
    magic, version, offset = struct.unpack_from("<4sIQ", data)
    assert (magic, version) == (b"KPAK", 1)
    return data[:64], data[64:offset], msgspec.msgpack.decode(data[offset:])


def test_scheme_none_stores_code_objects_end_to_end() -> None:
    header, blob, toc = parts(written(TWO, "none"))
    assert header[16:] == bytes(48)
    assert blob == b"firstsecond"
    assert list(toc.items()) == [
        ("format_version", 1),
        ("group_name", "test"),
        ("gfx_arch_family", "gfx942"),
        ("gfx_arches", ["gfx900", "gfx906"]),
        (
            "toc",
            {
                "lib/libtest.so#0": {
                    "gfx900": {"type": "hsaco", "ordinal": 0, "original_size": 5},
                    "gfx906": {"type": "hsaco", "ordinal": 1, "original_size": 6},
                }
            },
        ),
        ("compression_scheme", "none"),
        ("blobs", [{"offset": 64, "size": 5}, {"offset": 69, "size": 6}]),
    ]


def test_scheme_zstd_stores_a_count_and_a_frame_each_behind_its_size() -> None:
    _, blob, toc = parts(written(TWO))
    frames = [zstandard.ZstdCompressor(level=3).compress(data) for data in TWO.values()]
    expected = struct.pack("<I", 2) + b"".join(struct.pack("<I", len(f)) + f for f in frames)
    assert blob == expected
    assert list(toc)[-3:] == ["compression_scheme", "zstd_offset", "zstd_size"]
    assert (toc["zstd_offset"], toc["zstd_size"]) == (64, len(expected))


def test_frames_announce_their_content_size() -> None:
    _, blob, _ = parts(written({("k", "gfx942"): bytes(1000)}))
    assert zstandard.frame_content_size(blob[8:]) == 1000


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_the_same_kernels_give_the_same_bytes(scheme: str) -> None:
    assert written(TWO, scheme) == written(TWO, scheme)


def test_another_level_gives_the_same_kernels() -> None:
    data = written({("k", "gfx942"): b"abc" * 999}, level=19)
    opened = KpackReader(io.BytesIO(data), len(data))
    assert opened.read(opened.toc.kernels["k"]["gfx942"]) == b"abc" * 999


def test_type_and_metadata_are_written() -> None:
    file = io.BytesIO()
    with KpackWriter(file, group_name="g", gfx_arch_family="f") as writer:
        writer.add("k", "sm_90", b"", type="cubin", metadata={"symbol": "s", "n": [1, None]})
    kernel = read_toc(file, len(file.getvalue())).kernels["k"]["sm_90"]
    assert (kernel.type, kernel.metadata) == ("cubin", {"symbol": "s", "n": [1, None]})


def test_it_writes_to_a_file_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "x.kpack"
    with path.open("wb") as file, KpackWriter(file, group_name="g", gfx_arch_family="f") as writer:
        writer.add("k", "gfx942", b"code")
    with path.open("rb") as file:
        opened = KpackReader(file, path.stat().st_size)
        assert opened.read(opened.toc.kernels["k"]["gfx942"]) == b"code"


def test_a_kernel_cannot_be_added_twice() -> None:
    with pytest.raises(ValueError, match="'k' for 'gfx942' is in the archive already"):
        add_twice()


def add_twice() -> None:
    with KpackWriter(io.BytesIO(), group_name="g", gfx_arch_family="f") as writer:
        writer.add("k", "gfx942", b"one")
        writer.add("k", "gfx942", b"two")


def test_nothing_can_be_added_once_it_is_closed() -> None:
    writer = KpackWriter(io.BytesIO(), group_name="g", gfx_arch_family="f")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.add("k", "gfx942", b"")


def test_an_archive_left_by_an_exception_is_not_one() -> None:
    file = io.BytesIO()
    with suppress(ZeroDivisionError), KpackWriter(file, group_name="g", gfx_arch_family="f") as writer:
        writer.add("k", "gfx942", b"code")
        raise ZeroDivisionError
    with pytest.raises(KpackError, match="TOC should begin at byte 0"):
        read_toc(file, len(file.getvalue()))


def test_a_refused_kernel_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    with KpackWriter(file, group_name="test", gfx_arch_family="gfx942") as writer:
        monkeypatch.setattr("kpacktools.kpack.writer.MAX_KERNELS", 0)
        with pytest.raises(ValueError, match="larger"):
            writer.add("refused", "gfx950", b"code")
        monkeypatch.undo()
        writer.add("k", "gfx942", b"code")
    assert file.getvalue() == written({("k", "gfx942"): b"code"})


@pytest.mark.parametrize("limit", ["MAX_KERNELS", "MAX_BLOB_SIZE"])
def test_what_amds_reader_refuses_is_not_written(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"kpacktools.kpack.writer.{limit}", 1)
    with pytest.raises(ValueError, match="larger than AMD's reader takes"):
        written(TWO)
