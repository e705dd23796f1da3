"""Coroutines of fsspec's file systems, run from any thread in the one loop that fsspec keeps for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fsspec.asyn import sync

__all__ = ["filled", "run"]

T = TypeVar("T")


def run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine in a loop that runs in another thread. Raises what it raises; :class:`TimeoutError` for
    any time-out of asyncio."""

    async def wrapped() -> T:
        return await coroutine

    result: T = sync(loop, wrapped)
    return result


async def filled(read: Callable[[int], Awaitable[bytes]], size: int) -> bytes:
    """The next ``size`` bytes of a stream that gives fewer at a time, and fewer at its end. An error that comes after
    some of them is left for the next call, which meets it again."""
    pieces: list[bytes] = []
    try:
        while size and (piece := await read(size)):
            pieces.append(piece)
            size -= len(piece)
    except Exception:
        if not pieces:
            raise
    return b"".join(pieces)
