"""Tables of contents: what they tell, and which of them are refused."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc

import msgspec
import pytest
import zstandard
from kpack_files import archive, entry, mapping, toc_of, written, zstd_blob, zstd_toc

from kpacktools.kpack import Kernel, KpackError, Toc, read_toc


def toc(data: bytes) -> Toc:
    return read_toc(io.BytesIO(data), len(data))


def refusal(data: bytes) -> KpackError:
    with pytest.raises(KpackError) as caught:
        toc(data)
    assert "\n" not in str(caught.value)
    return caught.value


class Recorder(io.BytesIO):
    """Notes which bytes are read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.reads.append((start, start + len(data)))
        return data


THREE = {
    ("a#0", "gfx942"): b"one",
    ("a#0", "gfx942:xnack+"): b"two",
    ("b#0", "gfx942"): b"three",
}


def test_header_fields_and_kernels_are_told() -> None:
    read = toc(written(THREE, "none"))
    assert (read.format_version, read.group_name, read.gfx_arch_family) == (1, "test", "gfx942")
    assert read.gfx_arches == ("gfx942", "gfx942:xnack+")
    assert read.scheme == "none"
    assert read.kernels["b#0"]["gfx942"] == Kernel("hsaco", 2, 5)


def test_targets_are_those_that_kernels_exist_for() -> None:
    assert toc(written(THREE)).targets() == {"gfx942", "gfx942:xnack+"}


def test_keys_of_a_target_are_exact() -> None:
    read = toc(written(THREE))
    assert read.keys_of("gfx942") == {"a#0", "b#0"}
    assert read.keys_of("gfx942:xnack+") == {"a#0"}
    assert read.keys_of("gfx950") == set()


def test_kernels_are_counted_by_target_and_in_all() -> None:
    read = toc(written(THREE))
    assert (read.count(), read.count("gfx942"), read.count("gfx950")) == (3, 2, 0)


def test_entries_keep_the_order_of_the_toc_and_can_be_had_in_blob_order() -> None:
    read = toc(archive(toc_of(entry(1), entry(0), blobs=[{"offset": 64, "size": 4}] * 2)))
    assert [e.key for e in read.entries()] == ["k0", "k1"]
    assert [e.key for e in read.in_blob_order()] == ["k1", "k0"]


def test_an_archive_without_kernels_is_one() -> None:
    assert toc(written({})).count() == 0
    assert toc(written({}, "none")).targets() == set()


def test_only_the_header_and_the_toc_are_read() -> None:
    data = written({("k", "gfx942"): bytes(10_000)}, "none")
    stream = Recorder(data)
    read_toc(stream, len(data))
    assert all(end <= 16 or start >= 64 + 10_000 for start, end in stream.reads)


def test_unknown_fields_are_tolerated() -> None:
    assert toc(archive(toc_of(entry(build="x"), later=[1, {"a": None}]))).count() == 1


def test_metadata_is_kept() -> None:
    read = toc(archive(toc_of(entry(metadata={"cache_key": "c", "symbol": "s"}))))
    assert read.kernels["k0"]["gfx942"].metadata == {"cache_key": "c", "symbol": "s"}


def test_a_toc_without_scheme_is_of_scheme_none() -> None:
    fields = toc_of()
    del fields["compression_scheme"]
    assert toc(archive(fields)).scheme == "none"


def test_kernels_may_share_a_blob() -> None:
    assert toc(archive(toc_of(entry(0), entry(0)))).count() == 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"toc": {"k": {"gfx942": entry(ordinal=1)}}}, "'k' for 'gfx942' has ordinal 1"),
        ({"toc": {"k": {"gfx942": entry(ordinal=-1)}}}, "ordinal"),
        ({"toc": {"k": {"gfx942": entry(ordinal="0")}}}, "ordinal"),
        ({"toc": {"k": {"gfx942": {"type": "hsaco", "ordinal": 0}}}}, "original_size"),
        ({"toc": {"k": {"gfx942": entry(original_size=-4)}}}, "original_size"),
        ({"toc": {"k": {"gfx942": entry(original_size=4.0)}}}, "original_size"),
        ({"toc": {"k": {"gfx942": entry(metadata=[])}}}, "metadata"),
        ({"toc": {"k": entry()}}, "toc"),
        ({"toc": []}, "toc"),
        ({"toc": {1: {}}}, "toc"),
        ({"gfx_arches": "gfx942"}, "gfx_arches"),
        ({"group_name": None}, "group_name"),
        ({"compression_scheme": 3}, "compression_scheme"),
        ({"blobs": None}, "blobs"),
        ({"blobs": [{"offset": 63, "size": 4}]}, "blob 0 should be bytes 63..67"),
        ({"blobs": [{"offset": 64, "size": 5}]}, "outside 64..68"),
        ({"blobs": [{"offset": 1 << 62, "size": 1 << 62}]}, "outside"),
        ({"blobs": [{"offset": -1, "size": 4}]}, "blobs"),
        ({"blobs": [{"offset": 64}]}, "size"),
    ],
)
def test_a_toc_that_locates_a_kernel_badly_is_corrupt(fields: dict[str, object], says: str) -> None:
    error = refusal(archive(toc_of(**fields)))
    assert error.finding == "kpack-corrupt"
    assert says in error.message


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"zstd_offset": 63}, "outside 64..68"),
        ({"zstd_offset": 65}, "bytes 65..69"),
        ({"zstd_size": 5}, "bytes 64..69"),
        ({"zstd_size": 3}, "a count of four"),
        ({"zstd_size": None}, "lacks"),
        ({"zstd_offset": None}, "lacks"),
        ({"toc": {"k": {"gfx942": entry(0)}}}, "has ordinal 0, there can be 0"),
    ],
)
def test_a_toc_that_locates_the_zstd_blob_badly_is_corrupt(fields: dict[str, object], says: str) -> None:
    toc_fields = zstd_toc(size=4) | {"toc": {}} | fields
    error = refusal(archive(toc_fields, bytes(4)))
    assert error.finding == "kpack-corrupt"
    assert says in error.message


@pytest.mark.parametrize(
    ("encoded", "says"),
    [
        (b"", "outside the file"),
        (b"\x00", "begins no MessagePack map"),
        (b"\x80", "required field"),
        (b"\x81\xa3toc", "truncated"),
        (msgspec.msgpack.encode(toc_of()) + b"\x00", "trailing"),
        (msgspec.msgpack.encode(toc_of()).replace(b"test", b"\xff\xfe\xfd\xfc"), "UTF-8"),
        (b"\x81\xa1x" + b"\x91" * 100_000 + b"\x00", "nested too deeply"),
    ],
)
def test_a_toc_that_is_no_messagepack_map_of_the_right_fields_is_corrupt(encoded: bytes, says: str) -> None:
    error = refusal(archive(encoded))
    assert error.finding == "kpack-corrupt"
    assert says in error.message


def test_entries_that_share_a_frame_are_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = zstd_blob(zstandard.compress(bytes(1 << 20)))
    fields = zstd_toc(*[entry(0, 1 << 20)] * 1000, size=len(blob))
    error = refusal(data := archive(fields, blob))
    assert (error.finding, "KPACKTOOLS_MAX_RATIO" in error.message) == ("kpack-unsupported", True)
    monkeypatch.setenv("KPACKTOOLS_MAX_RATIO", "100000")
    assert toc(data).count() == 1000


KERNEL = msgspec.msgpack.encode(entry())
OTHER = msgspec.msgpack.encode(entry(original_size=3))


@pytest.mark.parametrize(
    ("kernels", "says"),
    [
        (mapping(("k", mapping(("gfx942", KERNEL))), ("k", mapping(("gfx942", OTHER)))), "'k' twice"),
        (mapping(("k", mapping(("gfx942", KERNEL), ("gfx942", KERNEL)))), "'gfx942 below k' twice"),
        (mapping(("k", mapping(("gfx942", KERNEL))), ("k", mapping(("gfx90a", KERNEL)))), "'k' twice"),
    ],
)
def test_a_toc_that_gives_a_name_twice_is_corrupt(kernels: bytes, says: str) -> None:
    fields = [(name, msgspec.msgpack.encode(value)) for name, value in toc_of().items() if name != "toc"]
    error = refusal(archive(mapping(*fields, ("toc", kernels))))
    assert error.finding == "kpack-corrupt"
    assert says in error.message


def test_a_toc_that_gives_a_field_twice_is_corrupt() -> None:
    fields = [(name, msgspec.msgpack.encode(value)) for name, value in toc_of().items()]
    kernels = ("toc", mapping(("k", mapping(("gfx942", KERNEL)))))
    assert "'toc' twice" in refusal(archive(mapping(kernels, *fields))).message


def test_metadata_may_have_the_names_of_a_kernels_fields() -> None:
    kernels = (entry(metadata={"original_size": 4}), entry(metadata={"x": "original_size, original_size"}))
    assert toc(archive(toc_of(*kernels))).count() == 2


def test_an_unknown_scheme_is_unsupported_and_named() -> None:
    error = refusal(archive(toc_of(compression_scheme="lz77")))
    assert error.finding == "kpack-unsupported"
    assert "'lz77'" in error.message


def test_a_later_toc_version_is_unsupported_even_with_other_fields() -> None:
    error = refusal(archive({"format_version": 2, "toc": "elsewhere"}))
    assert (error.finding, error.message) == ("kpack-unsupported", "TOC format_version 2, expected 1")


def test_a_zstd_blob_beyond_what_amds_reader_takes_is_unsupported() -> None:
    encoded = msgspec.msgpack.encode(zstd_toc(size=(4 << 30) + 1) | {"toc": {}})
    stream = SparseToc(encoded, toc_offset=64 + (4 << 30) + 1)
    with pytest.raises(KpackError, match="AMD's reader takes 4294967296") as caught:
        read_toc(stream, stream.size)
    assert caught.value.finding == "kpack-unsupported"


class SparseToc(io.BytesIO):
    """A file with a TOC far behind its header, of which only the two are stored."""

    def __init__(self, toc: bytes, toc_offset: int) -> None:
        super().__init__(struct.pack("<4sIQ", b"KPAK", 1, toc_offset) + toc)
        self.size = toc_offset + len(toc)
        self._gap = toc_offset - 16

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return super().seek(offset if offset < 16 else offset - self._gap, whence)


def test_a_toc_of_unreasonable_size_is_refused_unread() -> None:
    stream = Recorder(archive(b"\x80" + bytes(100)))
    with pytest.raises(KpackError, match="a TOC of") as caught:
        read_toc(stream, 1 << 30)
    assert caught.value.finding == "kpack-unsupported"
    assert sum(end - start for start, end in stream.reads) <= 17


def test_a_file_shorter_than_announced_is_corrupt() -> None:
    data = written(THREE)
    with pytest.raises(KpackError, match=f"ends at byte {len(data)}, expected {len(data) + 9}"):
        read_toc(io.BytesIO(data), len(data) + 9)


def test_an_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(KpackError("kpack-corrupt", "it is cut", "fetch it again")))
    assert (error.finding, error.message, error.hint) == ("kpack-corrupt", "it is cut", "fetch it again")
    assert str(error) == "it is cut; fetch it again"


def test_C8_an_empty_file_says_so() -> None:
    assert "empty" in refusal(b"").message


@pytest.mark.parametrize("length", [1, 4, 15, 16, 63, 64])
def test_C8_a_file_cut_inside_the_header_is_corrupt(length: int) -> None:
    assert refusal(written(THREE)[:length]).finding == "kpack-corrupt"


def test_C8_a_wrong_magic_is_corrupt_and_shown() -> None:
    error = refusal(b"KPAX" + written(THREE)[4:])
    assert error.finding == "kpack-corrupt"
    assert "b'KPAX'" in error.message


def test_C8_version_9_is_unsupported() -> None:
    data = written(THREE)
    error = refusal(data[:4] + struct.pack("<I", 9) + data[8:])
    assert (error.finding, error.message) == ("kpack-unsupported", "KPAK version 9, expected 1")


@pytest.mark.parametrize("offset", [0, 63, 10**6, 2**64 - 1])
def test_C8_a_toc_outside_the_file_is_corrupt(offset: int) -> None:
    data = written(THREE)
    error = refusal(data[:8] + struct.pack("<Q", offset) + data[16:])
    assert error.finding == "kpack-corrupt"
    assert str(offset) in error.message


@pytest.mark.parametrize("size", [5, 2**40, 2**63 - 1, 2**64 - 1])
def test_C8_a_kernel_larger_than_the_file_allows_is_corrupt(size: int) -> None:
    assert refusal(archive(toc_of(entry(original_size=size)))).finding == "kpack-corrupt"


def test_C8_a_kernel_larger_than_any_zstd_frame_of_the_blob_is_corrupt() -> None:
    data = archive(zstd_toc(entry(original_size=2**40), size=40), bytes(40))
    assert "more than the file can hold" in refusal(data).message


@pytest.mark.parametrize(
    "lie",
    [b"\xdf\xff\xff\xff\xff", b"\x81\xa3toc\xdf\xff\xff\xff\xff", b"\x81\xaagfx_arches\xdd\xff\xff\xff\xff"],
)
def test_C8_a_huge_messagepack_length_is_corrupt_without_allocating(lie: bytes) -> None:
    data = archive(lie)
    tracemalloc.start()
    try:
        assert refusal(data).finding == "kpack-corrupt"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_C8_a_git_lfs_pointer_is_recognised() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 903\n"
    error = refusal(pointer)
    assert error.finding == "kpack-corrupt"
    assert "Git LFS pointer" in error.message
    assert "git lfs pull" in error.hint
