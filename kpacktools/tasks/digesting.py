"""sha256 of files by workers, in batches of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from kpacktools.digests import digest_of
from kpacktools.findings import counted
from kpacktools.tasks.model import Dispatch, Needed, Task
from kpacktools.tasks.portable import portable
from kpacktools.tasks.running import run_tasks
from kpacktools.trees import Tree

__all__ = ["digests_elsewhere"]

_BATCH_BYTES: Final = 64 << 20
_BATCH_FILES: Final = 512

Files = Sequence[tuple[Tree, str]]


def digests_elsewhere(files: Files, dispatch: Dispatch) -> list[str]:
    """The sha256 of each file in hexadecimal, computed by workers.

    Raises :class:`~kpacktools.errors.CallError` where a file cannot be read.
    """
    batches = list(_batches(files))
    tasks = [_task(batch, size) for batch, size in batches]
    return [digest for digests in run_tasks(tasks, dispatch) for digest in digests]


def _batches(files: Files) -> Iterator[tuple[Files, int]]:
    """Neighbouring files, and their bytes."""
    sizes: dict[int, dict[str, int]] = {}
    batch: list[tuple[Tree, str]] = []
    total = 0
    for tree, path in files:
        if id(tree) not in sizes:
            sizes[id(tree)] = {e.path: e.size for entries in tree.folders.values() for e in entries}
        batch.append((tree, path))
        total += sizes[id(tree)].get(path, 0)
        if total >= _BATCH_BYTES or len(batch) == _BATCH_FILES:
            yield batch, total
            batch, total = [], 0
    if batch:
        yield batch, total


def _task(files: Files, size: int) -> Task[list[str]]:
    paths: dict[int, list[str]] = {}
    for tree, path in files:
        paths.setdefault(id(tree), []).append(path)
    needs: dict[Needed, None] | None = {}
    trees: dict[int, Tree] = {}
    for tree, _ in files:
        if id(tree) in trees or needs is None:
            continue
        try:
            luggage = portable(tree, paths[id(tree)])
        except OSError:
            luggage = None  # whatever is wrong with it is found here
        if luggage is None:
            needs = None
        else:
            trees[id(tree)] = luggage.tree
            needs |= dict.fromkeys(luggage.needs)
    away = [(trees[id(tree)], path) for tree, path in files] if needs is not None else list(files)
    first = os.path.join(files[0][0].label, files[0][1])
    return Task(
        kind="digest",
        name=first if len(files) == 1 else f"{first} and {counted(len(files) - 1, 'more file')}",
        size=size,
        files=len(files),
        call=digest_all,
        arguments=(away,),
        needs=None if needs is None else tuple(needs),
    )


def digest_all(files: Files) -> list[str]:
    """The sha256 of each file in hexadecimal. Runs on a worker.

    Raises :class:`~kpacktools.errors.CallError` where a file cannot be read.
    """
    return [digest_of(tree, path) for tree, path in files]
