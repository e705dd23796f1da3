"""Several ZIP files at once: which member comes in how, and who does it when.

What an archive holds depends on its members alone, never on threads or timing. Three kinds of members follow
each other, each kind sorted by name:

1. large ones that are stored: their sizes are known, hence their offsets, so that any thread can write any of
   them at its place;
2. very large ones that are deflated, block by block, so that memory stays bounded and all threads help;
3. all others, packed in batches by any thread and appended in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

import deflate

from kpacktools.outputs.crew import Crew
from kpacktools.outputs.members import BLOCK, Member, is_compressed, samples
from kpacktools.outputs.zipwriter import AHEAD, ONE_SHOT, Batch, Tick, ZipWriter
from kpacktools.progress import Progress

__all__ = ["write_members"]

_BATCH_SIZE: Final = 1 << 20
_BATCH_COUNT: Final = 128
_QUEUED: Final = 4
"""Batches that are packed, or wait to be, for each thread: enough to keep all of them busy."""


def write_members(
    archives: Iterable[tuple[ZipWriter, Sequence[Member]]], crew: Crew, progress: Progress
) -> Iterator[ZipWriter]:
    """Write the members of several archives at once; their names have passed ``check_names``.

    Yields each writer, in the order given, when its members are written: the caller can finish it while the
    crew still works on others. Raises like :func:`kpacktools.outputs.members.read`.
    """

    def tick(size: int) -> None:
        crew.check()
        progress.advance(size=size)

    layouts = [(writer, _lay_out(members)) for writer, members in archives]
    storing = _submit_stored(layouts, crew, tick)
    for writer, layout in layouts:
        for member in layout.blockwise:
            writer.deflate(member, crew, tick)
            progress.advance(files=1)
    for writer in _append_others(layouts, crew, progress):
        for outcome in storing[writer]:
            crew.result(outcome)
            progress.advance(files=1)
        yield writer


class _Layout(NamedTuple):
    stored: list[Member]
    blockwise: list[Member]
    others: list[Member]


def _submit_stored(
    layouts: Iterable[tuple[ZipWriter, _Layout]], crew: Crew, tick: Tick
) -> dict[ZipWriter, list[Future[None]]]:
    stores = [
        (member, writer, writer.place(member)) for writer, layout in layouts for member in layout.stored
    ]
    # Places follow the order of names, work that of size: a large file begun last would keep all waiting.
    stores.sort(key=lambda store: store[0].size, reverse=True)
    outcomes: dict[ZipWriter, list[Future[None]]] = {writer: [] for writer, _ in layouts}
    for member, writer, offset in stores:
        store = partial(writer.store, member, offset, crew, tick)
        outcomes[writer].append(crew.submit(store, long=True))
    return outcomes


def _append_others(
    layouts: Iterable[tuple[ZipWriter, _Layout]], crew: Crew, progress: Progress
) -> Iterator[ZipWriter]:
    """Pack the members that come in batches; yields each writer when it has its last, while others' are packed."""
    packing: deque[tuple[ZipWriter, int, Future[Batch] | None]] = deque()
    ahead = 0

    def append_first() -> Iterator[ZipWriter]:
        nonlocal ahead
        writer, size, outcome = packing.popleft()
        if outcome is None:
            yield writer
            return
        batch = crew.result(outcome)
        writer.append(batch)
        progress.advance(files=len(batch.rows), size=size)
        ahead -= size

    for writer, layout in layouts:
        for members in _batches(layout.others):
            size = sum(member.size for member in members)
            while packing and (ahead + size > AHEAD or len(packing) >= _QUEUED * crew.jobs):
                yield from append_first()
            packing.append((writer, size, crew.submit(partial(writer.pack, members))))
            ahead += size
        packing.append((writer, 0, None))
    while packing:
        yield from append_first()


def _lay_out(members: Sequence[Member]) -> _Layout:
    layout = _Layout([], [], [])
    for member in sorted(members, key=attrgetter("arcname")):
        if member.size <= BLOCK:
            layout.others.append(member)
        elif is_compressed(member.arcname):
            layout.stored.append(member)
        elif member.size <= ONE_SHOT:
            layout.others.append(member)
        elif _looks_compressed(member):
            layout.stored.append(member)
        else:
            layout.blockwise.append(member)
    return layout


def _looks_compressed(member: Member) -> bool:
    """True where samples of a very large file hardly shrink: deflating it all would take minutes in vain."""
    pieces = list(samples(member, 8, 1 << 16))
    before = sum(map(len, pieces))
    after = sum(len(deflate.deflate_compress(piece, 1)) for piece in pieces)
    return after > before - before // 32


def _batches(members: Sequence[Member]) -> Iterator[list[Member]]:
    batch: list[Member] = []
    size = 0
    for member in members:
        if batch and (size + member.size > _BATCH_SIZE or len(batch) == _BATCH_COUNT):
            yield batch
            batch, size = [], 0
        batch.append(member)
        size += member.size
    if batch:
        yield batch
