"""What was measured, as a table and as JSON. Run as a program, it turns JSON into docs/performance.md's table::

python report.py FILE...
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from race import Result
from workloads import Finished

__all__ = ["as_json", "as_markdown", "as_table"]

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


def as_markdown(races: Iterable[Mapping[str, Any]]) -> str:
    """A table of all verdicts out of the ``races`` of :func:`as_json`."""
    rows = ["| job | measured against | measured | asked for | |", "|---|---|--:|--:|---|"]
    for race in races:
        for verdict in race["verdicts"]:
            limit = f"{'≥' if verdict['at_least'] else '≤'} {verdict['limit']:.2f}"
            outcome = "ok" if verdict["ok"] else "**missed**"
            rows.append(
                f"| {race['title']} | {verdict['text']} | {verdict['value']:.2f} | {limit} | {outcome} |"
            )
    return "\n".join(rows) + "\n"


def main(paths: Sequence[str]) -> None:
    """Print the table of one or several files that ``run.py --json`` wrote."""
    documents = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    unique = {race["title"]: race for document in documents for race in document["races"]}
    print(as_markdown(unique.values()), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
