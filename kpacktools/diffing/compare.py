"""Comparing two inventories.

Kernels are compared by content: a record (name and sha256) that both sides have for one target is kept, whatever its
archive is called and however it is packed. What is left on both sides is, in this order: *changed* (one name, other
bytes), *renamed* (the same bytes under another name of the same target), *moved* (every device that the old key
serves finds the bytes under another key, as when ``gfx11`` is split into ``gfx110x`` and ``gfx115x``), else *lost* and
*gained*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from kpacktools.diffing.inventory import Holding, Inventory
from kpacktools.diffing.model import (
    Amount,
    Cell,
    Changed,
    Difference,
    DistributionChange,
    Kernel,
    Move,
    Moved,
    MoveKind,
    Renamed,
)
from kpacktools.diffing.records import digest_of_record, name_of_record
from kpacktools.diffing.requirements import Distribution
from kpacktools.targets import TargetId, TargetTable

__all__ = ["compare", "compare_distributions"]


def compare(old: Inventory, new: Inventory, targets: TargetTable) -> Difference:
    """What ``new`` has and lacks as against ``old``; counts only, where a side has no records."""
    by_content = old.by_content and new.by_content
    before, after = _by_cell(old), _by_cell(new)
    cells: list[Cell] = []
    moves: list[Move] = []
    for engine in sorted({engine for engine, _ in (*before, *after)}):
        keys = sorted({key for name, key in (*before, *after) if name == engine})
        if not by_content:
            cells += (
                _counted(engine, k, before.get((engine, k), ()), after.get((engine, k), ())) for k in keys
            )
            continue
        open_cells = [_Open(k, before.get((engine, k), ()), after.get((engine, k), ())) for k in keys]
        _settle_moves(open_cells, targets)
        cells += (item.closed(engine) for item in open_cells)
        moves += _moves(engine, open_cells)
    findings = dict.fromkeys((*old.findings, *new.findings))
    return Difference(old.paths, new.paths, by_content, tuple(cells), tuple(moves), findings=tuple(findings))


def compare_distributions(
    old: Iterable[Distribution], new: Iterable[Distribution]
) -> tuple[DistributionChange, ...]:
    """The distributions that are on one side only, or differ in version or requirements, by name."""
    before, after = {item.name: item for item in old}, {item.name: item for item in new}
    changes = []
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        required, requires = set(was.requires if was else ()), set(now.requires if now else ())
        changes.append(
            DistributionChange(
                name,
                was.versions if was else None,
                now.versions if now else None,
                tuple(sorted(requires - required)),
                tuple(sorted(required - requires)),
            )
        )
    return tuple(changes)


def _by_cell(inventory: Inventory) -> dict[tuple[str, str], list[Holding]]:
    cells: dict[tuple[str, str], list[Holding]] = {}
    for holding in inventory.holdings:
        cells.setdefault((holding.engine, holding.key), []).append(holding)
    return cells


def _amount(holdings: Sequence[Holding], kernels: int | None = None) -> Amount | None:
    if not holdings:
        return None
    return Amount(
        kernels=sum(holding.kernels for holding in holdings) if kernels is None else kernels,
        files=sum(holding.files for holding in holdings),
        size=sum(holding.size for holding in holdings),
        lanes=tuple(sorted({holding.lane for holding in holdings if holding.lane is not None})),
        compilers=tuple(sorted({name for holding in holdings for name in holding.compilers})),
    )


def _counted(engine: str, key: str, old: Sequence[Holding], new: Sequence[Holding]) -> Cell:
    before, after = _amount(old), _amount(new)
    difference = (after.kernels if after else 0) - (before.kernels if before else 0)
    return Cell(engine, key, before, after, uncounted=difference)


def _records(holdings: Iterable[Holding]) -> frozenset[bytes]:
    """The records of one cell; no copy where it is on one lane."""
    sets = [holding.records or frozenset() for holding in holdings]
    return sets[0] if len(sets) == 1 else frozenset().union(*sets)


class _Open:
    """A cell whose records are being told apart: ``lost`` and ``gained`` shrink."""

    def __init__(self, key: str, old: Sequence[Holding], new: Sequence[Holding]) -> None:
        self.key = key
        self.old, self.new = old, new
        self.changed: list[Changed] = []
        self.renamed: list[Renamed] = []
        self.moved: list[Moved] = []
        self.arrivals: set[bytes] = set()
        """Records of the new side that are other keys' old ones."""
        self.before, self.after = _records(self.old), _records(self.new)
        self.lost, self.gained = set(self.before - self.after), set(self.after - self.before)
        if self.lost and self.gained:
            self.changed = [Changed(*pair) for pair in _pairs(self.lost, self.gained, name_of_record)]
            self.renamed = [Renamed(*pair) for pair in _pairs(self.lost, self.gained, digest_of_record)]

    def closed(self, engine: str) -> Cell:
        return Cell(
            engine,
            self.key,
            _amount(self.old, len(self.before)),
            _amount(self.new, len(self.after)),
            _kernels(self.lost),
            _kernels(self.gained),
            tuple(self.changed),
            tuple(self.renamed),
            tuple(self.moved),
            len(self.arrivals),
        )


def _kernels(records: Iterable[bytes]) -> tuple[Kernel, ...]:
    return tuple(map(Kernel, sorted(records)))


def _pairs(
    lost: set[bytes], gained: set[bytes], key_of: Callable[[bytes], str | bytes]
) -> list[tuple[bytes, bytes]]:
    """Records that agree in a key, one with one in a fixed order; they leave both sets."""
    common = {key_of(item) for item in lost} & {key_of(item) for item in gained}
    offered: dict[str | bytes, list[bytes]] = {}
    for item in sorted(gained, reverse=True):
        if key_of(item) in common:
            offered.setdefault(key_of(item), []).append(item)
    pairs = []
    for item in sorted(lost):
        if left := offered.get(key_of(item)):
            pairs.append((item, left.pop()))
    lost.difference_update(was for was, _ in pairs)
    gained.difference_update(now for _, now in pairs)
    return pairs


def _settle_moves(cells: Sequence[_Open], targets: TargetTable) -> None:
    """Take out of ``lost`` what every device of the old key finds under other keys, and out of ``gained`` what it
    finds there."""
    wanted = {digest_of_record(item) for cell in cells for item in cell.lost}
    offered: dict[bytes, dict[str, list[bytes]]] = {}  # digest -> key -> records
    for cell in cells if wanted else ():
        for item in cell.gained:
            if (digest := digest_of_record(item)) in wanted:
                offered.setdefault(digest, {}).setdefault(cell.key, []).append(item)
    for cell in cells:
        others = [(other, served) for other in cells if (served := _served(cell.key, other.key, targets))]
        devices = _devices(cell.key, targets)
        for item in sorted(cell.lost) if others else ():
            arriving = offered.get(digest_of_record(item), {})
            places = [
                (other, served) for other, served in others if item in other.after or other.key in arriving
            ]
            if frozenset().union(*(served for _, served in places)) != devices:
                continue
            keys = tuple(other.key for other, _ in places)
            cell.moved.append(Moved(item, keys))
            cell.lost.discard(item)
            for other, _ in places:
                other.arrivals.update(arriving.get(other.key, ()))
    for cell in cells:
        cell.gained -= cell.arrivals


def _devices(key: str, targets: TargetTable) -> frozenset[str]:
    """The target IDs that content of a key is for: a bundle's processors, else the key itself."""
    return frozenset(targets.bundles.get(key, (key,)))


def _served(old: str, new: str, targets: TargetTable) -> frozenset[str]:
    """The devices of one key that find content under another: that of their bundles, and that which asks for fewer
    features, as the loader falls back to it."""
    if old == new:
        return frozenset()
    members = targets.bundles.get(new)
    return frozenset(
        device
        for device in _devices(old, targets)
        if (_is_fallback(device, new) if members is None else _processor(device) in members)
    )


def _is_fallback(device: str, key: str) -> bool:
    wanted, offered = TargetId.parse(device), TargetId.parse(key)
    return wanted.processor == offered.processor and set(offered.features) <= set(wanted.features)


def _processor(device: str) -> str:
    return TargetId.parse(device).processor


def _moves(engine: str, cells: Sequence[_Open]) -> Iterator[Move]:
    """The moved kernels of an engine as what became of whole bundles."""
    links: Counter[tuple[str, str]] = Counter((c.key, key) for c in cells for m in c.moved for key in m.keys)
    kernels = {cell.key: len(cell.moved) for cell in cells}
    gone = {cell.key for cell in cells if not cell.new}
    fresh = {cell.key for cell in cells if not cell.old}
    left = sorted(links)
    while left:
        sources, places = {left[0][0]}, {left[0][1]}
        while more := [link for link in left if (link[0] in sources) != (link[1] in places)]:
            sources.update(old for old, _ in more)
            places.update(new for _, new in more)
        left = [link for link in left if link[0] not in sources]
        yield Move(
            _kind(sources, places, is_whole=sources <= gone and places <= fresh),
            engine,
            tuple(sorted(sources)),
            tuple(sorted(places)),
            sum(kernels[key] for key in sources),
        )


def _kind(sources: set[str], places: set[str], *, is_whole: bool) -> MoveKind:
    if len(sources) == 1 and len(places) > 1:
        return "split"
    if len(sources) > 1 and len(places) == 1:
        return "joined"
    return "renamed" if is_whole and len(sources) == len(places) == 1 else "moved"
