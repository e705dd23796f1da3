"""Kernels: their bytes, and what is said where these are not what the TOC promises."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tracemalloc
from itertools import islice
from pathlib import Path

import msgspec
import pytest
import zstandard
from kpack_files import archive, entry, toc_of, written, zstd_blob, zstd_toc

from kpacktools.kpack import Kernel, KpackError
from kpacktools.kpack.reader import KpackReader, frame_index, verify

BIG = os.urandom(3 << 20) + bytes(6 << 20)
"""Too big to be decompressed in one call."""

ONE = {("k", "gfx942"): b"code object" * 99}


def reader(data: bytes) -> KpackReader:
    return KpackReader(io.BytesIO(data), len(data))


def kernel(of: KpackReader) -> Kernel:
    """The first kernel."""
    return next(of.toc.entries()).kernel


def read(data: bytes) -> bytes:
    opened = reader(data)
    return opened.read(kernel(opened))


def problem(data: bytes) -> KpackError:
    with pytest.raises(KpackError) as caught:
        read(data)
    return caught.value


def zstd_archive(frame: bytes, original_size: int) -> bytes:
    blob = zstd_blob(frame)
    return archive(zstd_toc(entry(original_size=original_size), size=len(blob)), blob)


def frame_of(data: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
@pytest.mark.parametrize("content", [b"", b"x", bytes(4 << 20), BIG], ids=["empty", "one", "whole", "big"])
def test_a_kernel_reads_as_it_was_written(scheme: str, content: bytes) -> None:
    assert read(written({("k", "gfx942"): content}, scheme)) == content


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_kernels_can_be_read_in_any_order(scheme: str) -> None:
    data = written({(f"k{i}", "gfx942"): bytes([i]) * i for i in range(9)}, scheme)
    opened = reader(data)
    for found in reversed(list(opened.toc.entries())):
        assert opened.read(found.kernel) == bytes([found.kernel.ordinal]) * found.kernel.ordinal


def test_a_big_kernel_comes_in_small_pieces() -> None:
    opened = reader(written({("k", "gfx942"): BIG}))
    pieces = list(opened.stream(kernel(opened)))
    assert max(map(len, pieces)) <= 1 << 18
    assert b"".join(pieces) == BIG


def test_readers_may_share_a_toc() -> None:
    data = written(ONE)
    first = reader(data)
    second = KpackReader(io.BytesIO(data), len(data), first.toc)
    assert second.read(kernel(first)) == first.read(kernel(first))


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("content", [b"", b"content" * 9, BIG], ids=["empty", "small", "big"])
def test_every_form_of_zstd_frame_is_read(content: bytes, announced: bool, checksum: bool) -> None:
    frame = frame_of(content, write_content_size=announced, write_checksum=checksum)
    assert read(zstd_archive(frame, len(content))) == content


def test_a_zstd_scheme_does_not_look_at_stray_blobs() -> None:
    blob = zstd_blob(frame_of(b"code"))
    assert read(archive(zstd_toc(entry(), size=len(blob), blobs=[]), blob)) == b"code"


@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("content", [b"content" * 9, BIG], ids=["small", "big"])
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_kernel_of_another_length_than_promised_is_corrupt(
    content: bytes, announced: bool, difference: int
) -> None:
    frame = frame_of(content, write_content_size=announced)
    error = problem(zstd_archive(frame, len(content) + difference))
    assert error.finding == "kpack-corrupt"
    assert error.message.startswith("kernel 0: ")


def test_a_stored_kernel_of_another_length_than_promised_is_corrupt() -> None:
    assert "its blob has 4 bytes" in problem(archive(toc_of(entry(original_size=3)))).message


def test_a_frame_that_expands_beyond_its_promise_is_stopped_early() -> None:
    bomb = frame_of(bytes(1 << 28), write_content_size=False)
    opened = reader(zstd_archive(bomb, 5 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(KpackError, match="longer than the 5242880 bytes"):
            opened.read(kernel(opened))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content", [b"content" * 9, BIG], ids=["small", "big"])
@pytest.mark.parametrize("lost", [1, 3, 5, 20])
def test_C8_a_cut_zstd_frame_is_corrupt(content: bytes, checksum: bool, lost: int) -> None:
    frame = frame_of(content, write_checksum=checksum)[:-lost]
    assert problem(zstd_archive(frame, len(content))).finding == "kpack-corrupt"


@pytest.mark.parametrize("content", [b"content" * 9, BIG], ids=["small", "big"])
def test_bytes_behind_a_frame_are_corrupt(content: bytes) -> None:
    assert problem(zstd_archive(frame_of(content) + b"more", len(content))).finding == "kpack-corrupt"


@pytest.mark.parametrize("content", [b"content" * 9, BIG], ids=["small", "big"])
def test_a_wrong_checksum_is_corrupt(content: bytes) -> None:
    frame = frame_of(content, write_checksum=True)
    damaged = frame[:-1] + bytes([frame[-1] ^ 1])
    assert "damaged" in problem(zstd_archive(damaged, len(content))).message


def test_a_frame_that_is_none_is_corrupt() -> None:
    assert "cut or damaged" in problem(zstd_archive(b"no zstd frame", 4)).message


def test_a_frame_that_needs_too_much_history_is_unsupported() -> None:
    # Descriptor 0: a window byte follows (2^(10+21) bytes), no content size; then an empty last block.
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + b"\x01\x00\x00"
    blob = zstd_blob(frame, bytes(200))
    error = problem(archive(zstd_toc(entry(original_size=5 << 20), size=len(blob)), blob))
    assert error.finding == "kpack-unsupported"
    assert "history" in error.message


def test_more_kernels_than_amds_reader_takes_are_unsupported() -> None:
    blob = struct.pack("<I", (1 << 20) + 1) + bytes(40)
    error = problem(archive(zstd_toc(entry(), size=len(blob)), blob))
    assert (error.finding, "AMD's reader" in error.message) == ("kpack-unsupported", True)


def test_an_ordinal_beyond_the_blobs_count_is_corrupt() -> None:
    blob = zstd_blob(frame_of(bytes(range(40))))
    data = archive(zstd_toc(entry(1), size=len(blob)), blob)
    assert problem(data).message == "kernel 1: the zstd blob holds 1 kernels"


@pytest.mark.parametrize("cut", [0, 8], ids=["an ordinal beyond the count", "a blob that ends early"])
def test_readers_that_share_an_index_never_add_to_it(cut: int) -> None:
    frames = [frame_of(bytes([number]) * 40) for number in range(3)]
    blob = zstd_blob(*frames)[: -cut or None] + bytes(60)
    entries = [entry(number, original_size=40) for number in range(4)]
    data = archive(zstd_toc(*entries, size=len(blob) - 60), blob)
    first = reader(data)
    frames_found = frame_index(io.BytesIO(data), first.toc)
    assert frames_found is not None
    before = len(frames_found)
    second = KpackReader(io.BytesIO(data), len(data), first.toc, frames_found)
    results = []
    for _, _, item in first.toc.entries():
        try:
            results.append(second.read(item))
        except KpackError:
            results.append(None)
    whole = 2 if cut else 3
    assert results == [bytes([number]) * 40 for number in range(whole)] + [None] * (4 - whole)
    assert len(frames_found) == before == 2 * whole


@pytest.mark.parametrize("size", [60, 2**32 - 1])
def test_a_frame_that_reaches_beyond_the_blob_is_corrupt_and_hides_none_before_it(size: int) -> None:
    blob = zstd_blob(frame_of(b"code"), frame_of(b"more"))
    second = 4 + 4 + len(frame_of(b"code"))
    blob = blob[:second] + struct.pack("<I", size) + blob[second + 4 :]
    opened = reader(archive(zstd_toc(entry(0), entry(1), size=len(blob)), blob))
    first, broken = (found.kernel for found in opened.toc.entries())
    with pytest.raises(KpackError, match="frame 1 of"):
        opened.read(broken)
    assert opened.read(first) == b"code"


def test_a_file_that_shrinks_while_it_is_read_is_corrupt() -> None:
    data = written(ONE)
    opened = KpackReader(io.BytesIO(data[:80]), len(data), reader(data).toc)
    with pytest.raises(KpackError, match="the file ends at byte 80, inside this kernel"):
        opened.read(kernel(opened))


def test_verify_tells_the_digest_of_every_kernel() -> None:
    kernels = {("a", "gfx942"): b"one", ("a", "gfx950"): b"two", ("b", "gfx942"): b"three"}
    assert [checked[:4] for checked in verify(reader(written(kernels)))] == [
        (key, target, len(data), hashlib.sha256(data).hexdigest()) for (key, target), data in kernels.items()
    ]


def test_verify_goes_on_behind_a_broken_kernel() -> None:
    blob = zstd_blob(frame_of(b"code"), b"broken frame", frame_of(b"more"))
    data = archive(zstd_toc(entry(0), entry(1), entry(2), size=len(blob)), blob)
    results = [checked.result for checked in verify(reader(data))]
    assert [isinstance(result, KpackError) for result in results] == [False, True, False]


def test_verify_hands_on_the_head_of_every_kernel() -> None:
    kernels = {("a", "gfx942"): bytes(range(99)), ("b", "gfx942"): b"short"}
    assert [checked.head for checked in verify(reader(written(kernels)))] == [bytes(range(64)), b"short"]


def test_a_broken_result_keeps_neither_reader_nor_buffers_alive() -> None:
    (checked,) = verify(reader(zstd_archive(b"no zstd frame", 4)))
    assert isinstance(checked.result, KpackError)
    assert checked.result.__traceback__ is None
    assert checked.result.__context__ is None


def test_verify_decompresses_a_shared_kernel_once() -> None:
    opened = reader(archive(toc_of(entry(0), entry(0), entry(0))))
    reads = 0
    plain = opened.stream

    def counted(kernel: Kernel) -> object:
        nonlocal reads
        reads += 1
        return plain(kernel)

    opened.stream = counted  # type: ignore[method-assign, assignment]
    assert len({checked.result for checked in verify(opened)}) == 1
    assert reads == 1


def test_C9_a_sparse_archive_over_4_gib_is_streamed_from_64_bit_offsets(tmp_path: Path) -> None:
    path = tmp_path / "sparse.kpack"
    big = (4 << 30) + 123
    blobs = [{"offset": 64, "size": big}, {"offset": 64 + big, "size": 4}]
    toc = msgspec.msgpack.encode(toc_of(entry(0, big), entry(1, 4), blobs=blobs))
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQ", b"KPAK", 1, 64 + big + 4))
        file.seek(64 + big)
        file.write(b"code" + toc)
    with path.open("rb") as file:
        tracemalloc.start()
        try:
            opened = KpackReader(file, path.stat().st_size)
            huge, small = (found.kernel for found in opened.toc.entries())
            assert opened.read(small) == b"code"
            # Some of it: file systems take seconds to hand out four gigabytes of zeros.
            assert sum(map(len, islice(opened.stream(huge), 256))) == 256 << 20
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
