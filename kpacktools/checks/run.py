"""Running the checks of many bundles on several threads, in bounded memory.

Bundles are examined largest first. At depth content each is cut into chunks of kernels that are read as threads
become free; a bundle's tables of contents are dropped when its last chunk is done, and no more bundles are open at a
time than threads can use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from kpacktools.checks.bundles import CheckedBundle, Examined, conclude, examine
from kpacktools.checks.kernels import Collector, Kernels, chunks_of, read_chunk
from kpacktools.hookspecs import Bundle, Depth, Handler
from kpacktools.progress import Progress
from kpacktools.targets import TargetTable

__all__ = ["check_bundles"]

_OPEN_PER_JOB = 2


@dataclass(slots=True)
class _Open:
    """A bundle whose kernels are being read."""

    index: int
    examined: Examined
    waiting: int = 0
    """Chunks that are not done yet."""
    kernels: Kernels = field(default_factory=Kernels)


def check_bundles(
    bundles: Sequence[Bundle],
    handler_of: Callable[[Bundle], Handler],
    depth: Depth,
    targets: TargetTable,
    jobs: int,
    progress: Progress,
    collect: Collector | None = None,
) -> tuple[tuple[CheckedBundle, ...], Counter[tuple[bytes, int]]]:
    """Check bundles as deep as asked.

    Returns them in the order given, and how often each kernel, as (sha256, bytes), occurs among all of them: empty
    unless the depth is content. Only then is ``collect`` told of kernels, in place of counting them.
    """
    keys = Counter(base for base, _ in {(b.key.base, b.key.name) for b in bundles})
    results: dict[int, CheckedBundle] = {}
    copies: Counter[tuple[bytes, int]] = Counter()
    order = sorted(range(len(bundles)), key=lambda i: -bundles[i].size)

    def finish(item: _Open) -> None:
        kernels = item.kernels if depth >= Depth.CONTENT else None
        bundle = item.examined.bundle
        results[item.index] = conclude(item.examined, kernels, keep_keys=keys[bundle.key.base] > 1)
        copies.update(item.kernels.digests)
        progress.advance(files=len(bundle.entries))

    with ThreadPoolExecutor(jobs) as executor:
        examining: dict[Future[Examined], int] = {}
        reading: dict[Future[Kernels], _Open] = {}
        sizes: dict[Future[Kernels], int] = {}
        upcoming = iter(order)
        open_bundles = 0
        while True:
            while open_bundles < _OPEN_PER_JOB * jobs:
                index = next(upcoming, None)
                if index is None:
                    break
                bundle = bundles[index]
                examining[executor.submit(examine, bundle, handler_of(bundle), depth, targets)] = index
                open_bundles += 1
            if not (examining or reading):
                break
            tasks: list[Future[Any]] = [*examining, *reading]
            done, _ = wait(tasks, return_when=FIRST_COMPLETED)
            for future in done:
                if future in examining:
                    examined = future.result()
                    item = _Open(examining.pop(future), examined)
                    if depth >= Depth.CONTENT:
                        for chunk in chunks_of(examined.bundle, examined.tocs, examined.checked.expected):
                            task = executor.submit(read_chunk, chunk, targets, collect)
                            reading[task] = item
                            sizes[task] = chunk.size
                            item.waiting += 1
                else:
                    item = reading.pop(future)
                    item.kernels.add(future.result())
                    item.waiting -= 1
                    progress.advance(size=sizes.pop(future))
                if item.waiting == 0:
                    finish(item)
                    open_bundles -= 1
    return tuple(results[i] for i in range(len(bundles))), copies
