"""Any kernels survive a round trip; any bytes are an archive or a KpackError, and never anything else."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kpack_files import archive, written, zstd_blob

from kpacktools.kpack import KpackError
from kpacktools.kpack.reader import KpackReader, verify

quick = settings(deadline=None, max_examples=200)

SCHEMES = st.sampled_from(["none", "zstd-per-kernel"])
KERNELS = st.dictionaries(
    st.tuples(st.text(max_size=8), st.text(max_size=8)), st.binary(max_size=99), max_size=5
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers(-2, 70) | st.integers(-(2**63), 2**64 - 1)
SLOPPY_KERNELS = st.fixed_dictionaries(
    {"type": st.just("hsaco"), "ordinal": NUMBERS, "original_size": NUMBERS}
)
SLOPPY_TOCS = st.fixed_dictionaries(
    {
        "format_version": st.just(1) | VALUES,
        "group_name": st.just("g") | VALUES,
        "gfx_arch_family": st.just("f"),
        "gfx_arches": st.just(["gfx942"]) | VALUES,
        "toc": st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), SLOPPY_KERNELS))
        | VALUES,
        "compression_scheme": SCHEMES | VALUES,
        "blobs": st.lists(st.fixed_dictionaries({"offset": NUMBERS, "size": NUMBERS}), max_size=2) | VALUES,
        "zstd_offset": st.just(64) | NUMBERS,
        "zstd_size": NUMBERS,
    }
)


def check(data: bytes, size: int | None = None) -> None:
    """Read all there is to be read; only a KpackError may come of it."""
    try:
        reader = KpackReader(io.BytesIO(data), len(data) if size is None else size)
    except KpackError:
        return
    for checked in verify(reader):
        assert isinstance(checked.result, (str, KpackError))


@quick
@given(kernels=KERNELS, scheme=SCHEMES)
def test_any_kernels_survive_a_round_trip(kernels: dict[tuple[str, str], bytes], scheme: str) -> None:
    data = written(kernels, scheme)
    reader = KpackReader(io.BytesIO(data), len(data))
    assert {(e.key, e.target): reader.read(e.kernel) for e in reader.toc.entries()} == kernels
    assert reader.toc.count() == len(kernels)


EXAMPLES = {
    scheme: written({("a#0", "gfx942"): b"code" * 20, ("b#0", "gfx950"): bytes(range(99))}, scheme)
    for scheme in ("none", "zstd-per-kernel")
}


@pytest.mark.parametrize("scheme", EXAMPLES)
def test_every_truncation_is_refused(scheme: str) -> None:
    data = EXAMPLES[scheme]
    for length in range(len(data)):
        with pytest.raises(KpackError):
            KpackReader(io.BytesIO(data[:length]), length)


@quick
@given(scheme=SCHEMES, position=st.integers(0), flip=st.integers(1, 255))
def test_any_flipped_byte_ends_well(scheme: str, position: int, flip: int) -> None:
    data = bytearray(EXAMPLES[scheme])
    data[position % len(data)] ^= flip
    check(bytes(data))


@quick
@given(data=st.binary(max_size=200))
def test_any_bytes_end_well(data: bytes) -> None:
    check(data)
    check(archive(data))


@quick
@given(scheme=SCHEMES, size=st.integers(0, 2**40))
def test_any_claimed_size_ends_well(scheme: str, size: int) -> None:
    check(EXAMPLES[scheme], size)


@quick
@given(
    toc=SLOPPY_TOCS,
    blob=st.binary(max_size=70) | st.lists(st.binary(max_size=20)).map(lambda f: zstd_blob(*f)),
)
def test_any_toc_ends_well(toc: dict[str, Any], blob: bytes) -> None:
    check(archive(msgspec.msgpack.encode(toc), blob))
