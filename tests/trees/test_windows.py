"""Distant files as streams: the bytes are right whatever is asked for, none comes twice, and few that nobody wants."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpacktools.trees.windows import BLOCK, FIRST, MOST, Recent, windowed

DATA = random.Random(7).randbytes(5 * BLOCK + 1000)


class Far:
    """Bytes that are far away, and what was fetched of them."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data = data
        self.fetched: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> bytes:
        assert 0 <= start < stop <= len(self.data)
        self.fetched.append((start, stop))
        return self.data[start:stop]

    @property
    def size(self) -> int:
        return sum(stop - start for start, stop in self.fetched)


@given(
    size=st.integers(0, len(DATA)),
    reads=st.lists(st.tuples(st.integers(0, len(DATA) + 10), st.integers(-1, 3 * BLOCK)), max_size=8),
    remembers=st.booleans(),
)
def test_any_reads_give_the_bytes(size: int, reads: list[tuple[int, int]], remembers: bool) -> None:
    far = Far(DATA[:size])
    memory = Recent() if remembers else None
    for _ in range(2):
        with windowed(far, size, memory) as stream:
            for at, count in reads:
                stream.seek(at)
                assert stream.read(count) == far.data[at : at + count if count >= 0 else None]
                assert stream.tell() == max(at, min(size, at + count if count >= 0 else size))
    if remembers:
        starts = [start for start, _ in far.fetched]
        assert len(starts) == len(set(starts))
        assert far.size <= size + BLOCK * len(starts)


def test_a_header_costs_a_header() -> None:
    far = Far()
    with windowed(far, len(DATA)) as stream:
        assert stream.read(64) == DATA[:64]
        stream.seek(0)
        stream.read(FIRST)
    assert far.fetched == [(0, FIRST)]


def test_reading_on_takes_larger_and_larger_pieces() -> None:
    far = Far(bytes(40 << 20))
    with windowed(far, len(far.data)) as stream:
        while stream.read(1 << 16):
            pass
    sizes = [stop - start for start, stop in far.fetched]
    assert sum(sizes) == len(far.data)
    assert max(sizes) <= MOST + BLOCK
    assert len(sizes) < 20


def test_what_is_remembered_is_not_fetched() -> None:
    far, memory = Far(), Recent()
    for _ in range(2):
        with windowed(far, len(DATA), memory) as stream:
            stream.seek(3 * BLOCK + 5)
            stream.read(10)
    assert far.fetched == [(3 * BLOCK, 4 * BLOCK)]


def test_a_memory_has_limits() -> None:
    memory = Recent(BLOCK)
    memory[0] = bytes(BLOCK)
    memory[BLOCK] = b"1"
    assert list(memory) == [0]


def test_a_memory_that_lies_about_lengths_is_not_believed() -> None:
    far, memory = Far(), Recent()
    memory[BLOCK] = b"short"
    with windowed(far, len(DATA), memory) as stream:
        stream.seek(BLOCK)
        assert stream.read(100) == DATA[BLOCK : BLOCK + 100]


def test_too_few_bytes_are_an_error() -> None:
    with windowed(lambda start, stop: b"x", 1000) as stream, pytest.raises(OSError, match="bytes came"):
        stream.read(500)


def test_a_position_before_the_start_is_an_error() -> None:
    with windowed(Far(), len(DATA)) as stream, pytest.raises((ValueError, OSError)):
        stream.seek(-1, os.SEEK_SET)
