"""A difference as JSON: ``kpacktools.diff/v1``, described by ``diff.schema.json`` beside this module."""

from __future__ import annotations

import json
from typing import Any, Final

from kpacktools.diffing.model import Amount, Cell, Difference
from kpacktools.findings import Finding

__all__ = ["SCHEMA", "as_json", "as_mapping", "finding_as_mapping"]

SCHEMA: Final = "kpacktools.diff/v1"


def as_json(difference: Difference) -> str:
    """The difference as one JSON document, with a final newline."""
    return json.dumps(as_mapping(difference), indent=1, ensure_ascii=True) + "\n"


def as_mapping(difference: Difference) -> dict[str, Any]:
    """The difference as JSON-ready values; equal bundles are among them, without kernels."""
    return {
        "schema": SCHEMA,
        "old": list(difference.old),
        "new": list(difference.new),
        "by_content": difference.by_content,
        "equal": difference.is_equal,
        "lost": difference.lost,
        "bundles": [_cell(cell) for cell in difference.cells],
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
        "lost": [kernel._asdict() for kernel in cell.lost],
        "gained": [kernel._asdict() for kernel in cell.gained],
        "changed": [kernel._asdict() for kernel in cell.changed],
        "renamed": [kernel._asdict() for kernel in cell.renamed],
        "moved": [{**kernel._asdict(), "keys": list(kernel.keys)} for kernel in cell.moved],
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
