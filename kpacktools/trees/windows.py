"""A file that lies far away as a seekable stream: few requests, no more bytes than wanted, and none twice.

What is asked for is rounded to blocks, so that a second run asks for the same ones and finds them remembered. The
first block is short, since of many files only the header is read; where reading goes on, the blocks that are fetched
at once double.
"""

from __future__ import annotations

import io
from collections.abc import Callable, MutableMapping
from typing import BinaryIO, Final

from kpacktools.trees.rawstream import RawStream

__all__ = ["FIRST", "Memory", "Recent", "windowed"]

FIRST: Final = 256
"""Bytes of the first block: an ELF header, the header of a kpack and what follows it."""
BLOCK: Final = 1 << 16
MOST: Final = 8 << 20
"""Bytes that are fetched ahead at most."""

Memory = MutableMapping[int, bytes]
"""Start of a block -> its bytes. May refuse to keep what it is given."""


class Recent(dict[int, bytes]):
    """The first blocks that were read, for streams over one file that are opened again and again."""

    def __init__(self, limit: int = 8 << 20) -> None:
        super().__init__()
        self._room = limit

    def __setitem__(self, start: int, block: bytes) -> None:
        if start not in self and len(block) <= self._room:
            self._room -= len(block)
            super().__setitem__(start, block)


def windowed(
    fetch: Callable[[int, int], bytes],
    size: int,
    memory: Memory | None = None,
    done: Callable[[], None] | None = None,
) -> BinaryIO:
    """A file of ``size`` bytes, of which ``fetch(start, stop)`` gives any part, all of it.

    ``memory`` is asked before, and told after, each fetch; ``done`` is called when the stream is closed. Reading
    raises what ``fetch`` raises.
    """
    return io.BufferedReader(_Windowed(fetch, size, memory, done), FIRST)


class _Windowed(RawStream):
    def __init__(
        self,
        fetch: Callable[[int, int], bytes],
        size: int,
        memory: Memory | None,
        done: Callable[[], None] | None,
    ) -> None:
        super().__init__(size)
        self._fetch = fetch
        self._memory = memory
        self._done = done
        self._start = 0
        self._window = b""
        self._head = b""
        """The first block, which is gone back to."""
        self._ahead = BLOCK

    def take(self, wanted: int, offset: int) -> bytes:
        if offset + wanted <= len(self._head):
            return self._head[offset : offset + wanted]
        if not self._start <= offset < self._start + len(self._window):
            self._fill(wanted)
        inside = offset - self._start
        return self._window[inside : inside + wanted]

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(MOST) or b"", b""))

    def close(self) -> None:
        if not self.closed:
            self._window = self._head = b""
            if self._done is not None:
                self._done()
        super().close()

    def _fill(self, wanted: int) -> None:
        """Have the block at the position in the window, and as many of those behind as are wanted or likely."""
        start = _floor(self._at)
        remembered = self._remembered(start, wanted)
        if remembered is not None:
            self._set(start, remembered)
            return
        follows = self._window != b"" and self._at == self._start + len(self._window)
        self._ahead = min(2 * self._ahead, MOST) if follows else BLOCK
        stop = _ceiling(self._at + min(wanted, MOST), self._size)
        if follows:
            stop = max(stop, _ceiling(min(self._at + self._ahead, self._size), self._size))
        data = self._fetch(start, stop)
        if len(data) != stop - start:
            raise OSError(f"{len(data):,} bytes came, and not {stop - start:,}")
        if self._memory is not None:
            at = start
            while at < stop:
                following = min(_next(at), self._size)
                self._memory[at] = data[at - start : following - start]
                at = following
        self._set(start, data)

    def _remembered(self, start: int, wanted: int) -> bytes | None:
        if self._memory is None:
            return None
        pieces = []
        at = start
        while at < min(self._at + wanted, self._size):
            piece = self._memory.get(at)
            if piece is None or len(piece) != min(_next(at), self._size) - at:
                break
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces) if at > self._at else None

    def _set(self, start: int, data: bytes) -> None:
        self._start, self._window = start, data
        if start == 0:
            self._head = data[:FIRST]


def _floor(at: int) -> int:
    """Where the block begins that a byte is in."""
    if at < FIRST:
        return 0
    return max(at - at % BLOCK, FIRST)


def _next(start: int) -> int:
    """Where the block ends that begins at ``start``."""
    return FIRST if start == 0 else start - start % BLOCK + BLOCK


def _ceiling(stop: int, size: int) -> int:
    """The end of the block that ends at ``stop`` or behind it."""
    if stop <= FIRST:
        return min(FIRST, size)
    return min(-(-stop // BLOCK) * BLOCK, size)
