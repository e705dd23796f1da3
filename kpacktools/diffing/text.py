"""A difference as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kpacktools.diffing.model import Amount, Cell, Difference, DistributionChange
from kpacktools.findings import Finding, counted
from kpacktools.reports.plaintext import clean, human_size

__all__ = [
    "NAMED_AT_MOST",
    "as_text",
    "change",
    "finding_lines",
    "made_otherwise",
    "some",
    "summary",
    "verdict",
]

NAMED_AT_MOST: Final = 5
"""Kernels of one kind and bundle that are named, unless all are asked for."""
_SHORT: Final = 12
"""Hexadecimal digits of a sha256 that are shown."""


def as_text(difference: Difference, *, quiet: bool = False, verbose: bool = False) -> str:
    """The difference for people, one line a fact; ``quiet`` leaves the verdict and errors, ``verbose`` names all
    kernels."""
    lines: list[str] = []
    if not quiet:
        for cell in difference.cells:
            if not cell.is_equal:
                lines += _cell(cell, None if verbose else NAMED_AT_MOST)
        for move in difference.moves:
            lines.append(
                f"{move.kind} {move.engine}: {', '.join(move.old)} -> {', '.join(move.new)}, "
                f"{counted(move.kernels, 'kernel')}"
            )
        for change in difference.distributions:
            lines += _distribution(change)
        if any(cell.names_kernels for cell in difference.cells):
            lines.append("- lost, + gained, ~ changed, > renamed or under other keys")
        if lines:
            lines.append("")
        lines += _sizes(difference)
    lines += finding_lines(difference.findings)
    lines.append(f"{verdict(difference)}  diff: {summary(difference)}")
    return "".join(clean(line) + "\n" for line in lines)


def some(lines: Sequence[str], most: int | None) -> Iterator[str]:
    """The first lines of many, and how many more there are; all for None."""
    yield from lines[:most]
    if most is not None and len(lines) > most:
        yield f"    ... and {len(lines) - most:,} more (-v names all, --format json too)"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Findings with their hints."""
    for item in findings:
        yield f"{item.severity} {item.name}: {item.path}: {item.message}"
        if item.hint:
            yield f"  hint: {item.hint}"


def verdict(difference: Difference) -> str:
    """The difference in a word or two."""
    if difference.is_equal:
        return "equal" if difference.by_content else "same counts"
    return "lost" if difference.lost else "differs"


def summary(difference: Difference) -> str:
    """Both sides in one line: ``1 kernel lost, 2 changed; 19 kernels before, 18 after``."""
    cells = difference.cells
    tally = {
        "lost": sum(cell.kernels_lost for cell in cells),
        "gained": sum(cell.kernels_gained for cell in cells),
        "changed": sum(len(cell.changed) for cell in cells),
        "renamed": sum(len(cell.renamed) for cell in cells),
        "under other keys": sum(len(cell.moved) for cell in cells),
    }
    parts = [f"{number:,} {what}" for what, number in tally.items() if number]
    if parts:
        first, _, what = parts[0].partition(" ")
        parts[0] = f"{first} {'kernel' if first == '1' else 'kernels'} {what}"
    bundles = sum(cell.is_lost for cell in cells)
    if bundles:
        parts.append(f"{counted(bundles, 'bundle')} lost")
    lanes = sum(cell.lanes_differ for cell in cells)
    if lanes:
        parts.append(f"{counted(lanes, 'bundle')} on another lane")
    if difference.distributions:
        parts.append(f"{counted(len(difference.distributions), 'distribution')} changed")
    before = sum(cell.old.kernels for cell in cells if cell.old)
    after = sum(cell.new.kernels for cell in cells if cell.new)
    both = f"{before:,} kernels before, {after:,} after"
    how = "" if difference.by_content else " (counted, not compared)"
    return f"{', '.join(parts)}; {both}{how}" if parts else both + how


def _sizes(difference: Difference) -> Iterator[str]:
    """A table of bytes by engine."""
    rows = [
        (engine, human_size(old), human_size(new), change(old, new))
        for engine, (old, new) in difference.sizes().items()
    ]
    if not rows:
        return
    rows.insert(0, ("engine", "before", "after", "change"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for engine, old, new, difference_ in rows:
        yield f"{engine:<{widths[0]}}  {old:>{widths[1]}}  {new:>{widths[2]}}  {difference_:>{widths[3]}}"


def change(old: int, new: int) -> str:
    """A difference in bytes with its sign; ``=`` for none."""
    if old == new:
        return "="
    return ("+" if new > old else "-") + human_size(abs(new - old))


def _cell(cell: Cell, most: int | None) -> Iterator[str]:
    yield f"{cell.engine} {cell.key}: {_both(cell.old, cell.new)}"
    yield from (f"  {line}" for line in made_otherwise(cell))
    for lines in (
        [f"  - {kernel.name}" for kernel in cell.lost],
        [f"  + {kernel.name}" for kernel in cell.gained],
        [f"  ~ {k.name}  {k.old[:_SHORT]} -> {k.new[:_SHORT]}" for k in cell.changed],
        [f"  > {kernel.old} -> {kernel.new}" for kernel in cell.renamed],
        [f"  > {kernel.name} -> {', '.join(kernel.keys)}" for kernel in cell.moved],
    ):
        yield from some(lines, most)


def _both(old: Amount | None, new: Amount | None) -> str:
    if old is None or new is None:
        there, state = (new, "gained") if old is None else (old, "gone")
        assert there is not None
        return f"{state}, {counted(there.kernels, 'kernel')}, {human_size(there.size)}"
    kernels = f"{old.kernels:,} -> {new.kernels:,}" if old.kernels != new.kernels else f"{new.kernels:,}"
    size = human_size(new.size)
    return f"{kernels} kernels, " + (size if old.size == new.size else f"{human_size(old.size)} -> {size}")


def made_otherwise(cell: Cell) -> Iterator[str]:
    """Lane and compiler changes of a bundle that both sides have."""
    if cell.old is None or cell.new is None:
        return
    if cell.lanes_differ:
        yield f"lane {_listed(cell.old.lanes)} -> {_listed(cell.new.lanes)}"
    if cell.compilers_differ:
        yield f"built by {_listed(cell.old.compilers)} -> {_listed(cell.new.compilers)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "undetermined"


def _distribution(item: DistributionChange) -> Iterator[str]:
    if item.new is None or item.old is None:
        versions = ", ".join((item.new if item.old is None else item.old) or ())
        yield f"{item.name} {versions}: {'gained' if item.old is None else 'lost'}"
        return
    same = item.old == item.new
    yield f"{item.name} {', '.join(item.old)}" + ("" if same else f" -> {', '.join(item.new)}")
    yield from (f"  - requires {text}" for text in item.removed)
    yield from (f"  + requires {text}" for text in item.added)
