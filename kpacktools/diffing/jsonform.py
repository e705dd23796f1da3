"""A difference as JSON: ``kpacktools.diff/v1``, described by ``diff.schema.json`` beside this module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kpacktools.diffing.model import Amount, Cell, Difference
from kpacktools.findings import Finding

__all__ = ["SCHEMA", "as_json", "finding_as_mapping"]

SCHEMA: Final = "kpacktools.diff/v1"


def as_json(difference: Difference) -> Iterator[str]:
    """The difference as one JSON document with a final newline, in pieces: it may name very many kernels."""
    head, tail = json.dumps(_frame(difference), indent=1, ensure_ascii=True).split('"bundles": []', 1)
    yield f'{head}"bundles": ['
    before = "\n"
    for cell in difference.cells:
        # No text in JSON holds a line feed as it is: each begins a line, which goes two levels in.
        text = json.dumps(_cell(cell), indent=1, ensure_ascii=True).replace("\n", "\n  ")
        yield f"{before}  {text}"
        before = ",\n"
    yield f"\n ]{tail}\n" if difference.cells else f"]{tail}\n"


def _frame(difference: Difference) -> dict[str, Any]:
    """All but the bundles."""
    return {
        "schema": SCHEMA,
        "old": list(difference.old),
        "new": list(difference.new),
        "by_content": difference.by_content,
        "equal": difference.is_equal,
        "lost": difference.lost,
        "bundles": [],
        "moves": [
            {
                "kind": move.kind,
                "engine": move.engine,
                "old": list(move.old),
                "new": list(move.new),
                "kernels": move.kernels,
            }
            for move in difference.moves
        ],
        "sizes": {
            engine: {"old": old, "new": new} for engine, (old, new) in sorted(difference.sizes().items())
        },
        "distributions": [
            {
                "name": item.name,
                "old": None if item.old is None else list(item.old),
                "new": None if item.new is None else list(item.new),
                "added": list(item.added),
                "removed": list(item.removed),
            }
            for item in difference.distributions
        ],
        "findings": [finding_as_mapping(item) for item in difference.findings],
    }


def finding_as_mapping(item: Finding) -> dict[str, str]:
    """A finding as JSON-ready values."""
    return {
        "name": item.name,
        "severity": item.severity.value,
        "path": item.path,
        "message": item.message,
        "hint": item.hint,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "engine": cell.engine,
        "key": cell.key,
        "old": _amount(cell.old),
        "new": _amount(cell.new),
        "kernels_lost": cell.kernels_lost,
        "kernels_gained": cell.kernels_gained,
        "lost": [{"name": item.name, "sha256": item.sha256} for item in cell.lost],
        "gained": [{"name": item.name, "sha256": item.sha256} for item in cell.gained],
        "changed": [{"name": item.name, "old": item.old, "new": item.new} for item in cell.changed],
        "renamed": [{"old": item.old, "new": item.new, "sha256": item.sha256} for item in cell.renamed],
        "moved": [{"name": item.name, "sha256": item.sha256, "keys": list(item.keys)} for item in cell.moved],
    }


def _amount(amount: Amount | None) -> dict[str, Any] | None:
    if amount is None:
        return None
    return {
        "kernels": amount.kernels,
        "files": amount.files,
        "bytes": amount.size,
        "lanes": list(amount.lanes),
        "compilers": list(amount.compilers),
    }
