"""The matrix of a report: what each engine has for each target, and how that stands."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.findings import Finding, Severity
from kpacktools.reports.model import Report

__all__ = ["Cell", "Matrix", "State", "matrix_of"]


class State(str, Enum):
    """How a cell stands; the value is the word for it."""

    OK = "nothing found"
    WARNING = "warning"
    ERROR = "error"
    MISSING = "required and missing"
    EMPTY = "nothing there"

    @property
    def sign(self) -> str:
        """One character that says the same without colour."""
        return _SIGNS[self]


_SIGNS: Final = {
    State.OK: "✓",
    State.WARNING: "!",
    State.ERROR: "✗",
    State.MISSING: "✗",
    State.EMPTY: "-",
}
_RANK: Final = {State.ERROR: 0, State.WARNING: 1, State.OK: 2}
_STATES: Final = {Severity.ERROR: State.ERROR, Severity.WARNING: State.WARNING, Severity.INFO: State.OK}


class Cell(Struct, frozen=True):
    """One engine and one target."""

    state: State
    kernels: int = 0
    size: int = 0
    """Bytes of all files."""
    bundles: int = 0
    findings: tuple[int, ...] = ()
    """Indices of what was found here, in the report's findings: the worst first."""


EMPTY: Final = Cell(State.EMPTY)


class Matrix(Struct, frozen=True):
    """The cells that hold something, or should."""

    engines: tuple[str, ...]
    keys: tuple[str, ...]
    """Target keys, in the order of targets."""
    cells: Mapping[tuple[str, str], Cell]
    """(engine, key) -> cell."""

    def cell(self, engine: str, key: str) -> Cell:
        """One cell, which may be empty."""
        return self.cells.get((engine, key), EMPTY)


def matrix_of(report: Report) -> Matrix:
    """The matrix of a report's bundles, and of the gaps that its requirements left."""
    found = _findings_by_bundle(report)
    grouped: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, item in enumerate(report.bundles):
        grouped[item.bundle.engine, item.bundle.key.name].append(index)
    cells = {
        place: _cell([report.bundles[i] for i in indices], report, {f for i in indices for f in found[i]})
        for place, indices in grouped.items()
    }
    for index, gap in _gaps(report.findings):
        if gap not in cells:
            cells[gap] = Cell(State.MISSING, findings=(index,))
        elif cells[gap].state is State.MISSING:
            cells[gap] = Cell(State.MISSING, findings=(*cells[gap].findings, index))
    order = {item.bundle.key.name: item.bundle.key for item in report.bundles}
    held = [key.name for key in sorted(order.values())]
    lacking = sorted({key for _, key in cells} - order.keys())
    return Matrix(tuple(sorted({engine for engine, _ in cells})), (*held, *lacking), cells)


def _cell(items: Sequence[CheckedBundle], report: Report, found: set[int]) -> Cell:
    states = [_STATES[report.findings[index].severity] for index in found]
    return Cell(
        state=min(states, key=_RANK.__getitem__, default=State.OK),
        kernels=sum(item.kernels for item in items),
        size=sum(item.size for item in items),
        bundles=len(items),
        findings=tuple(sorted(found)),
    )


def _gaps(findings: Sequence[Finding]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Each requirement that nothing meets, as (engine, key), by its finding's index."""
    for index, item in enumerate(findings):
        if item.name == "coverage-gap":
            engine, colon, key = item.path.rpartition("/")[2].partition(":")
            if colon:
                yield index, (engine, key)


def _findings_by_bundle(report: Report) -> list[set[int]]:
    """For each bundle its findings in the report: those of its own checks, and all that lie in its folders.

    The severities are the report's, under policy and strictness.
    """
    final = {(f.name, f.path, f.message): index for index, f in enumerate(report.findings)}
    roots: dict[str, list[int]] = defaultdict(list)
    by_bundle: list[set[int]] = []
    for index, item in enumerate(report.bundles):
        own = (final.get((f.name, f.path, f.message)) for f in item.findings)
        by_bundle.append({place for place in own if place is not None})
        for root in item.bundle.roots:
            roots[item.bundle.artifact.where(root)].append(index)
    for place, finding in enumerate(report.findings):
        owners = roots.get(_nearest(finding.path, roots), ())
        # Where single files are claimed, several targets share a folder: only the checks know whose it is.
        if len(owners) == 1:
            by_bundle[owners[0]].add(place)
    return by_bundle


def _nearest(path: str, roots: Mapping[str, object]) -> str:
    """The path or its nearest parent among the roots; empty where there is none."""
    while path and path not in roots:
        parent = os.path.dirname(path)
        path = parent if parent != path else ""
    return path
