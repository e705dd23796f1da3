"""What was measured, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from typing import Any

from race import Result
from workloads import Finished

__all__ = ["as_json", "as_table"]

_HEADINGS = ("", "wall", "least", "cpu", "memory", "ratio", "of cpu")


def as_table(item: Finished) -> str:
    """A race's table of medians, and its verdicts.

    Times are in seconds and memory is the largest resident set in MB; a ratio is kpacktools' median time over
    the other's, start-up included: of the wall, and of the processors.
    """
    rows = [_HEADINGS, *_rows(item)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    runs = max(len(result.samples) for result in item.results)
    lines = [f"{item.race.title}  ({runs} run{'s' * (runs > 1)})"]
    lines += [
        "  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    lines += [f"  {result.name}: left out, {result.skipped}" for result in item.results if result.skipped]
    lines += [
        f"  {'ok' if v.ok else 'MISSED':8}{v.text}: {v.value:.2f}, "
        f"{'at least' if v.at_least else 'at most'} {v.limit:.2f}"
        for v in item.verdicts
    ]
    return "\n".join([*lines, ""])


def _rows(item: Finished) -> Iterator[tuple[str, ...]]:
    ours = [result for result in item.results if result.role == "kpacktools" and result.samples]
    for result in item.results:
        if not result.samples:
            continue
        compared = len(ours) == 1 and result is not ours[0]
        yield (
            result.name,
            f"{result.wall:.3f}",
            f"{result.best:.3f}",
            f"{result.cpu:.3f}",
            f"{result.memory / 1e6:.0f}",
            f"{ours[0].wall / result.wall:.2f}" if compared else "",
            f"{ours[0].cpu / result.cpu:.2f}" if compared else "",
        )


def as_json(finished: Sequence[Finished], left_out: dict[str, str]) -> str:
    """Every sample, for later comparison."""
    document = {
        "schema": "kpacktools.benchmarks/v1",
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "left_out": left_out,
        "races": [
            {
                "title": item.race.title,
                "contenders": [_result(result) for result in item.results],
                "verdicts": [
                    {
                        "text": v.text,
                        "value": round(v.value, 4),
                        "limit": round(v.limit, 4),
                        "at_least": v.at_least,
                        "ok": v.ok,
                    }
                    for v in item.verdicts
                ],
            }
            for item in finished
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _result(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "role": result.role,
        "skipped": result.skipped or None,
        "wall_seconds": [round(sample.wall, 5) for sample in result.samples],
        "cpu_seconds": [round(sample.cpu, 5) for sample in result.samples],
        "peak_memory_bytes": [sample.memory for sample in result.samples],
        "wheel_bytes": result.size or None,
    }
