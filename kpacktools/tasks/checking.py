"""Bundles checked by workers: a task for the bundles of one shard and key, several for one with very many bytes.

A worker gets bundles' entries and the way to their files, finds the handlers by their names among the plugins that are
installed there, and sends back what :mod:`kpacktools.checks.run` makes of them on this machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kpacktools.checks.bundles import CheckedBundle, conclude, examine
from kpacktools.checks.kernels import Collector, Kernels, chunks_of, read_chunk
from kpacktools.hookspecs import Bundle, Depth, Handler
from kpacktools.planning.claims import OPAQUE
from kpacktools.plugins import Registry, load_registry
from kpacktools.targets import TargetTable
from kpacktools.tasks.model import Dispatch, Needed, Task
from kpacktools.tasks.portable import portable
from kpacktools.tasks.running import run_tasks
from kpacktools.trees import Entry

__all__ = ["check_bundles_elsewhere"]

_SLICE: Final = 256 << 20
"""Bytes of a bundle for each task at depth content, whatever the number of workers. Manifests and tables of contents
are read again by every one of these tasks: small against so many bytes of kernels."""
_TOGETHER: Final = 64 << 20
"""Bytes of bundles that are checked in one task. A task costs the coordinator milliseconds, and a bundle may be a few
files."""

Told = list[tuple[str, "str | None", str, bytes]]
"""Tree path, TOC key, target and sha256 of each kernel: what a collector is told, without the bundle."""


class _Sent(NamedTuple):
    """A bundle as it travels, and which part of it is meant."""

    bundle: Bundle
    """With a tree that opens its files, and without entries."""
    entries: tuple[Sequence[Any], ...]
    """Its entries by column: a tenth of the work of sending them one by one."""
    part: _Part
    keep_keys: bool
    """See :func:`kpacktools.checks.bundles.conclude`."""

    def arrived(self) -> Bundle:
        """The bundle as it was."""
        return replace(self.bundle, entries=tuple(map(Entry, *self.entries)))


class _Part(Struct, frozen=True):
    """One of the parts that a bundle's kernels are read in."""

    number: int
    of: int
    size: int
    """Bytes."""


class _Answer(NamedTuple):
    """What came of a part."""

    checked: CheckedBundle | None
    """From the first part only, and without the bundle's entries."""
    kernels: Kernels
    """From the others."""
    copies: Counter[tuple[bytes, int]]
    told: Told


def check_bundles_elsewhere(
    bundles: Sequence[Bundle],
    depth: Depth,
    targets: TargetTable,
    dispatch: Dispatch,
    collect: Collector | None = None,
) -> tuple[tuple[CheckedBundle, ...], Counter[tuple[bytes, int]]]:
    """What :func:`kpacktools.checks.run.check_bundles` does, by workers; the result is the same.

    Raises :class:`~kpacktools.errors.CallError` as :func:`~kpacktools.tasks.running.run_tasks` does.
    """
    keys = Counter(base for base, _ in {(b.key.base, b.key.name) for b in bundles})
    parts = [(bundle, part) for bundle in bundles for part in _parts(bundle, depth)]
    tasks = [
        _task(group, depth, targets, {base for base, count in keys.items() if count > 1}, collect is not None)
        for group in _groups(parts)
    ]
    checked: list[CheckedBundle] = []
    copies: Counter[tuple[bytes, int]] = Counter()
    answers = (answer for answers in run_tasks(tasks, dispatch) for answer in answers)
    for (bundle, _), answer in zip(parts, answers, strict=True):
        if answer.checked is not None:
            checked.append(replace(answer.checked, bundle=bundle))
        else:
            checked[-1] = _with(checked[-1], answer.kernels)
        copies.update(answer.copies)
        if collect is not None:
            for path, key, target, digest in answer.told:
                collect(bundle, path, key, target, digest)
    return tuple(checked), copies


def _parts(bundle: Bundle, depth: Depth) -> Iterator[_Part]:
    size = bundle.size
    count = max(1, -(-size // _SLICE)) if depth >= Depth.CONTENT else 1
    share = size // count
    return (
        _Part(number, count, share + (size - share * count if number == 0 else 0)) for number in range(count)
    )


def _groups(parts: Iterable[tuple[Bundle, _Part]]) -> Iterator[list[tuple[Bundle, _Part]]]:
    """Neighbouring parts of one shard and key, together as long as they are small."""
    for _, same in groupby(parts, key=lambda item: (item[0].shard, item[0].key.name)):
        group: list[tuple[Bundle, _Part]] = []
        total = 0
        for bundle, part in same:
            if group and total + part.size > _TOGETHER:
                yield group
                group, total = [], 0
            group.append((bundle, part))
            total += part.size
        yield group


def _task(
    group: Sequence[tuple[Bundle, _Part]], depth: Depth, targets: TargetTable, compared: set[str], tell: bool
) -> Task[list[_Answer]]:
    sent = []
    needs: tuple[Needed, ...] | None = ()
    for bundle, part in group:
        item, wanted = _packed(bundle, part, bundle.key.base in compared)
        sent.append(item)
        needs = None if needs is None or wanted is None else (*needs, *(set(wanted) - set(needs)))
    bundle = group[0][0]
    return Task(
        kind="check",
        name=bundle.path + (f" and {len(group) - 1} more" if len(group) > 1 else ""),
        size=sum(part.size for _, part in group),
        files=sum(len(bundle.entries) for bundle, part in group if part.number == 0),
        call=check_parts,
        arguments=(sent, depth, targets, tell),
        shard=bundle.shard,
        key=bundle.key.name,
        needs=needs,
    )


def _packed(bundle: Bundle, part: _Part, keep_keys: bool) -> tuple[_Sent, tuple[Needed, ...] | None]:
    """A bundle ready to be sent, and what it needs; needs are None where it can only be checked here."""
    columns = tuple(map(list, zip(*bundle.entries, strict=True))) or ((), (), (), ())
    try:
        luggage = portable(bundle.artifact.tree, [entry.path for entry in bundle.entries])
    except OSError:
        luggage = None  # whatever is wrong with it is found here
    if luggage is None:
        return _Sent(replace(bundle, entries=()), columns, part, keep_keys), None
    artifact = replace(bundle.artifact, tree=luggage.tree)
    return _Sent(replace(bundle, artifact=artifact, entries=()), columns, part, keep_keys), luggage.needs


def check_parts(sent: Sequence[_Sent], depth: Depth, targets: TargetTable, tell: bool) -> list[_Answer]:
    """Check bundles and read the first part of their kernels, or read other parts of them. Runs on a worker.

    Raises :class:`KeyError` for a handler that is not installed here.
    """
    return [_check_part(item, depth, targets, tell) for item in sent]


def _check_part(sent: _Sent, depth: Depth, targets: TargetTable, tell: bool) -> _Answer:
    bundle, part = sent.arrived(), sent.part
    told: Told = []

    def collect(_: Bundle, path: str, key: str | None, target: str, digest: bytes) -> None:
        told.append((path, key, target, digest))

    examined = examine(bundle, _handler(bundle.handler), depth, targets)
    kernels = Kernels()
    if depth >= Depth.CONTENT:
        chunks = chunks_of(bundle, examined.tocs, examined.checked.expected)
        for chunk in islice(chunks, part.number, None, part.of):
            kernels.add(read_chunk(chunk, targets, collect if tell else None))
    copies = Counter(kernels.digests)
    if part.number:
        return _Answer(None, replace(kernels, digests=[]), copies, told)
    checked = conclude(examined, kernels if depth >= Depth.CONTENT else None, keep_keys=sent.keep_keys)
    return _Answer(replace(checked, bundle=sent.bundle), Kernels(), copies, told)


def _with(checked: CheckedBundle, kernels: Kernels) -> CheckedBundle:
    """A checked bundle with what another part of its kernels brought."""
    return replace(
        checked,
        kernels_checked=checked.kernels_checked + kernels.count,
        lane=replace(checked.lane, majors=_sum(checked.lane.majors, kernels.majors)),
        compilers=_sum(checked.compilers, kernels.tools),
        findings=checked.findings + tuple(kernels.findings),
    )


def _sum(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    return dict(Counter(one) + Counter(other))


def _handler(name: str) -> Handler:
    """The handler of a name in this process."""
    return Handler() if name == OPAQUE else _registry().by_name(name).handler


@lru_cache(maxsize=1)
def _registry() -> Registry:
    return load_registry()
