"""A lock's check as text and as JSON (``kpacktools.lock-check/v1``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kpacktools.diffing.jsonform import finding_as_mapping
from kpacktools.diffing.text import NAMED_AT_MOST, finding_lines, some
from kpacktools.findings import counted
from kpacktools.locking.check import Deviation, LockCheck
from kpacktools.locking.model import Baseline
from kpacktools.reports.plaintext import clean

__all__ = ["SCHEMA", "as_json", "as_text"]

SCHEMA: Final = "kpacktools.lock-check/v1"


def as_text(result: LockCheck, *, quiet: bool = False, verbose: bool = False) -> str:
    """The check for people, one line a fact."""
    lines = [] if quiet else [line for item in result.deviations for line in _deviation(item, verbose)]
    lines += finding_lines(result.findings)
    held = f"{counted(result.bundles, 'bundle')}, {counted(result.kernels, 'kernel')}"
    if result.ok:
        lines.append(f"ok  lock check: {held} as locked")
    else:
        states = [item.state for item in result.deviations]
        parts = [
            f"{counted(states.count(s), 'bundle')} {s}" for s in ("missing", "new", "changed") if s in states
        ]
        parts += [counted(len(result.findings), "error")] if result.findings else []
        lines.append(f"not ok  lock check: {', '.join(parts)}; {held} as locked")
    return "".join(clean(line) + "\n" for line in lines)


def _deviation(item: Deviation, verbose: bool) -> Iterator[str]:
    was, now = (side.kernels if side else 0 for side in (item.locked, item.found))
    numbers = counted(now or was, "kernel") if 0 in (was, now) or was == now else f"{was} -> {now} kernels"
    yield f"{item.state} {item.baseline}: {numbers}"
    for what, names in (("missing", item.missing), ("new", item.new), ("changed", item.changed)):
        yield from some([f"  {what} {name}" for name in names], None if verbose else NAMED_AT_MOST)
    if item.state == "changed" and not (item.missing or item.new or item.changed):
        yield "  which kernels is not known: the lock names none, or was edited"


def as_json(result: LockCheck) -> str:
    """The check as one JSON document, with a final newline."""
    document = {
        "schema": SCHEMA,
        "ok": result.ok,
        "bundles": result.bundles,
        "kernels": result.kernels,
        "deviations": [_mapping(item) for item in result.deviations],
        "findings": [finding_as_mapping(item) for item in result.findings],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _mapping(item: Deviation) -> dict[str, Any]:
    return {
        "state": item.state,
        "engine": item.baseline.engine,
        "key": item.baseline.key,
        "lane": item.baseline.lane,
        "locked": _side(item.locked),
        "found": _side(item.found),
        "missing": list(item.missing),
        "new": list(item.new),
        "changed": list(item.changed),
    }


def _side(baseline: Baseline | None) -> dict[str, Any] | None:
    return None if baseline is None else {"kernels": baseline.kernels, "digest": f"sha256:{baseline.digest}"}
