"""Running the checks of many bundles on several cores, in bounded memory.

Bundles are examined largest first. Reading manifests and tables of contents is nearly all the interpreter's work:
where there is much of it, forked processes take a share. At depth content each is cut into chunks of kernels that are
read as threads become free; a bundle's tables of contents are dropped when its last chunk is done, and no more bundles
are open at a time than threads can use.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import astuple

from kpacktools.checks.bundles import CheckedBundle, Examined, conclude, examine
from kpacktools.checks.kernels import LOOSE, Chunk, Collector, Kernels, chunks_of, read_chunk
from kpacktools.forking import may_fork, share_out
from kpacktools.hookspecs import Bundle, Depth, Handler
from kpacktools.progress import Progress
from kpacktools.targets import TargetTable
from kpacktools.tasks.log import NO_LOG, TaskLog, this_worker
from kpacktools.trees.directory import all_in_folders

if TYPE_CHECKING:
    from kpacktools.cache import Cache
    from kpacktools.checks.reuse import Reuse
    from kpacktools.tasks.model import Dispatch

__all__ = ["check_bundles"]

_OPEN_PER_JOB = 2
_WORTH_FORKING = 512
"""Files' worth of checking for which another process is started; that takes as long as half of it."""
_LIKE_A_FILE = 1 << 16
"""Bytes of manifests and tables of contents that take as long as opening a file."""
_LARGEST_TOC = 1 << 20
"""How many bytes of an archive count at most: what is not its table of contents is not read."""


class _Open(Struct):
    """A bundle whose kernels are being read."""

    index: int
    examined: Examined
    begun: float
    waiting: int = 0
    """Chunks that are not done yet."""
    kernels: Kernels = field(default_factory=Kernels)
    parts: dict[str, Kernels] = field(default_factory=dict)
    """By archive, and for the loose code objects: what was read in this run."""


def check_bundles(
    bundles: Sequence[Bundle],
    handler_of: Callable[[Bundle], Handler],
    depth: Depth,
    targets: TargetTable,
    jobs: int,
    progress: Progress,
    collect: Collector | None = None,
    cache: Cache | None = None,
    dispatch: Dispatch | None = None,
    log: TaskLog = NO_LOG,
) -> tuple[tuple[CheckedBundle, ...], Counter[tuple[bytes, int]]]:
    """Check bundles as deep as asked, on ``jobs`` threads or by the workers of ``dispatch``.

    Returns them in the order given, and how often each kernel, as (sha256, bytes), occurs among all of them: empty
    unless the depth is content. Only then is ``collect`` told of kernels, in place of counting them, and ``cache``
    asked what is known of them.
    """
    if dispatch is not None:
        from kpacktools.tasks.checking import check_bundles_elsewhere

        return check_bundles_elsewhere(bundles, depth, targets, dispatch, collect)
    keys = Counter(base for base, _ in {(b.key.base, b.key.name) for b in bundles})
    order = sorted(range(len(bundles)), key=lambda i: -bundles[i].size)
    if depth < Depth.CONTENT and log is NO_LOG and (processes := _processes(bundles, jobs)) > 1:

        def checked(bundle: Bundle) -> CheckedBundle:
            examined = examine(bundle, handler_of(bundle), depth, targets)
            return conclude(examined, None, keep_keys=keys[bundle.key.base] > 1)

        with progress.alone():
            if may_fork():
                return _shared(checked, bundles, order, processes, progress), Counter()
    results: dict[int, CheckedBundle] = {}
    copies: Counter[tuple[bytes, int]] = Counter()
    reuse = _reuse(cache, targets, collect)
    collector = collect if reuse is None else reuse.collect

    def finish(item: _Open) -> None:
        if reuse is not None:
            item.kernels.digests += reuse.keep(item.examined.bundle, item.examined.tocs, item.parts)
        kernels = item.kernels if depth >= Depth.CONTENT else None
        bundle = item.examined.bundle
        results[item.index] = conclude(item.examined, kernels, keep_keys=keys[bundle.key.base] > 1)
        copies.update(item.kernels.digests)
        progress.advance(files=len(bundle.entries))
        if log is not NO_LOG:
            log.record(
                "check",
                bundle.path,
                shard=bundle.shard,
                key=bundle.key.name,
                files=len(bundle.entries),
                size=bundle.size,
                seconds=time.perf_counter() - item.begun,
                worker=this_worker(),
            )

    with ThreadPoolExecutor(jobs) as executor:
        examining: dict[Future[Examined], tuple[int, float]] = {}
        reading: dict[Future[Kernels], _Open] = {}
        chunks: dict[Future[Kernels], Chunk] = {}
        upcoming = iter(order)
        open_bundles = 0
        while True:
            while open_bundles < _OPEN_PER_JOB * jobs:
                index = next(upcoming, None)
                if index is None:
                    break
                bundle = bundles[index]
                look = executor.submit(examine, bundle, handler_of(bundle), depth, targets, reuse)
                examining[look] = index, time.perf_counter()
                open_bundles += 1
            if not (examining or reading):
                break
            tasks: list[Future[Any]] = [*examining, *reading]
            done, _ = wait(tasks, return_when=FIRST_COMPLETED)
            for future in done:
                if future in examining:
                    examined = future.result()
                    index, begun = examining.pop(future)
                    item = _Open(index, examined, begun)
                    if depth >= Depth.CONTENT:
                        for known in examined.known.values():
                            item.kernels.add(known)
                        for chunk in chunks_of(examined.bundle, examined.unread, examined.checked.expected):
                            if _part_of(chunk) in examined.known:
                                continue
                            task = executor.submit(read_chunk, chunk, targets, collector)
                            reading[task] = item
                            chunks[task] = chunk
                            item.waiting += 1
                else:
                    item = reading.pop(future)
                    chunk = chunks.pop(future)
                    item.kernels.add(future.result())
                    if reuse is not None:
                        item.parts.setdefault(_part_of(chunk), Kernels()).add(future.result())
                    item.waiting -= 1
                    progress.advance(size=chunk.size)
                if item.waiting == 0:
                    finish(item)
                    open_bundles -= 1
    return tuple(results[i] for i in range(len(bundles))), copies


def _processes(bundles: Sequence[Bundle], jobs: int) -> int:
    """How many processes are worth having."""
    if jobs == 1 or not all_in_folders(bundle.artifact.tree for bundle in bundles):
        return 1
    work = 0
    for bundle in bundles:
        loose = bundle.files(*LOOSE)  # of these only the names are looked at
        size = sum(min(entry.size, _LARGEST_TOC) for entry in bundle.files(".kpack", ".json"))
        work += len(bundle.entries) - len(loose) + size // _LIKE_A_FILE
    return max(1, min(jobs, len(bundles), work // _WORTH_FORKING))


def _shared(
    checked: Callable[[Bundle], CheckedBundle],
    bundles: Sequence[Bundle],
    order: Sequence[int],
    processes: int,
    progress: Progress,
) -> tuple[CheckedBundle, ...]:
    """What several processes find out about bundles, which are begun in ``order``."""

    def without_bundle(number: int) -> tuple[Any, ...]:
        return astuple(checked(bundles[order[number]]))[1:]

    results: dict[int, CheckedBundle] = {}
    with closing(share_out(len(bundles), without_bundle, processes)) as outcomes:
        for number, rest in outcomes:
            bundle = bundles[order[number]]
            results[order[number]] = CheckedBundle(bundle, *rest)
            progress.advance(files=len(bundle.entries))
    return tuple(results[index] for index in range(len(bundles)))


def _reuse(cache: Cache | None, targets: TargetTable, collect: Collector | None) -> Reuse | None:
    if cache is None:
        return None
    from kpacktools.checks.reuse import Reuse  # most runs have no cache

    return Reuse(cache, targets, collect)


def _part_of(chunk: Chunk) -> str:
    """What a chunk is part of, as results are kept: an archive, or all loose code objects of a bundle."""
    return "" if chunk.archive is None else chunk.archive.path
