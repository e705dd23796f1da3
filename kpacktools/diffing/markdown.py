"""A difference as Markdown for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kpacktools.diffing.model import Cell, Difference
from kpacktools.diffing.text import change, made_otherwise, summary, verdict
from kpacktools.reports.plaintext import clean, human_size

__all__ = ["as_markdown"]

_MOST: Final = 60_000
"""Characters; GitHub refuses a comment of more than 65,536."""


def as_markdown(difference: Difference) -> str:
    """The difference as GitHub-flavoured Markdown: verdict, table of bundles, and folded lists of kernels.

    Lists end, and say so, where the comment would become longer than GitHub takes.
    """
    sign = "✅" if difference.is_equal else "❌" if difference.lost else "🔶"
    lines = [f"### {sign} kpacktools diff: {verdict(difference)}", "", f"{summary(difference)}.", ""]
    differing = [cell for cell in difference.cells if not cell.is_equal]
    if differing:
        lines += [
            "| engine | target | kernels | lost | gained | changed | bytes | |",
            "|---|---|--:|--:|--:|--:|--:|---|",
            *map(_row, differing),
            "",
        ]
    for move in difference.moves:
        keys = f"{', '.join(map(_code, move.old))} → {', '.join(map(_code, move.new))}"
        lines.append(f"- {move.kind}: {_code(move.engine)} {keys}, {move.kernels:,} kernels")
    for item in difference.distributions:
        old, new = (", ".join(v) if v is not None else "none" for v in (item.old, item.new))
        changes = [f"no longer requires {_code(text)}" for text in item.removed]
        changes += [f"requires {_code(text)}" for text in item.added]
        lines.append(f"- {_code(item.name)} {old} → {new}" + "".join(f"; {text}" for text in changes))
    for finding in difference.findings:
        lines.append(f"- **{finding.name}** {_code(finding.path)}: {_text(finding.message)}")
    sizes = [
        f"{_code(engine)} {human_size(new)} ({change(old, new)})"
        for engine, (old, new) in difference.sizes().items()
    ]
    lines += ["", f"Size: {', '.join(sizes)}."] if sizes else []
    lines = [line for line, above in zip(lines, ["", *lines], strict=False) if line or above]
    left = _MOST - sum(len(line) + 1 for line in lines)
    lines += _within(_kernels(differing), left)
    return "\n".join(lines) + "\n"


def _row(cell: Cell) -> str:
    old, new = cell.old, cell.new
    before, after = (a.kernels if a else 0 for a in (old, new))
    kernels = f"{after:,}" if before == after else f"{before:,} → {after:,}"
    size = change(old.size if old else 0, new.size if new else 0)
    notes = "gone" if new is None else "new" if old is None else "; ".join(map(_text, made_otherwise(cell)))
    numbers = (cell.kernels_lost, cell.kernels_gained, len(cell.changed))
    counts = " | ".join(f"{number:,}" if number else "" for number in numbers)
    return f"| {_text(cell.engine)} | {_text(cell.key)} | {kernels} | {counts} | {size} | {notes} |"


def _kernels(cells: list[Cell]) -> Iterator[tuple[str, list[str]]]:
    """A heading and the kernels below it, for each bundle and kind."""
    for cell in cells:
        for kind, kernels in (
            ("lost", [_code(k.name) for k in cell.lost]),
            ("gained", [_code(k.name) for k in cell.gained]),
            ("changed", [_code(k.name) for k in cell.changed]),
            ("renamed", [f"{_code(k.old)} → {_code(k.new)}" for k in cell.renamed]),
        ):
            if kernels:
                yield f"{len(kernels):,} {kind}: {_text(cell.engine)} {_text(cell.key)}", kernels


def _within(groups: Iterator[tuple[str, list[str]]], room: int) -> Iterator[str]:
    """Folded lists that take no more than ``room`` characters together."""
    for heading, items in groups:
        head, tail = f"\n<details><summary>{heading}</summary>\n", "\n</details>"
        room -= len(head) + len(tail) + 60
        if room < 0:
            yield "\nFurther lists are left out: `kpacktools diff --format json` has them all."
            return
        yield head
        for index, item in enumerate(items):
            room -= len(item) + 3
            if room < 0:
                yield f"- ... and {len(items) - index:,} more"
                break
            yield f"- {item}"
        yield tail


def _text(text: str) -> str:
    """Text without what Markdown and HTML take for markup, on one line."""
    escaped = "".join(f"\\{c}" if c in r"\`*_[]|~" else c for c in clean(text).replace("\n", " "))
    return escaped.replace("<", "&lt;")


def _code(text: str) -> str:
    """Text as a code span, also inside a table."""
    return "`" + clean(text).replace("\n", " ").replace("`", "'").replace("|", "¦") + "`"
