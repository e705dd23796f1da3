"""A difference as one HTML page that needs nothing else, in the style of the report's."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Final

from kpacktools import __version__
from kpacktools.diffing.model import Amount, Cell, Difference
from kpacktools.diffing.text import change, made_otherwise, summary, verdict
from kpacktools.reports.docslinks import finding_link
from kpacktools.reports.markup import Markup, el
from kpacktools.reports.plaintext import human_size

__all__ = ["as_html"]

_ROWS: Final = 2000
"""Kernels of one kind and bundle that are listed."""
_NUMBERS: Final = ("before", "after", "lost", "gained", "changed", "bytes", "change")
"""Heads of columns that are aligned to the right."""
_HEAD: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kpacktools {version}">
"""


def as_html(difference: Difference) -> str:
    """The difference as an HTML document without scripts: verdict, bundles, kernels, distributions and sizes."""
    style = resources.files("kpacktools.reports").joinpath("page/style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    differing = [cell for cell in difference.cells if not cell.is_equal]
    body = el(
        "body",
        _verdict(difference),
        el(
            "main",
            _findings(difference),
            _bundles(differing),
            _moves(difference),
            _kernels(differing),
            _distributions(difference),
            _sizes(difference),
        ),
    )
    title = el("title", f"{verdict(difference)} - kpacktools diff")
    # No escaping inside: the Content Security Policy holds the digest of these very characters.
    sheet = Markup(f"<style>{style}</style>")
    head = _HEAD.format(digest=digest, version=__version__)
    return f"{head}{title}\n{sheet}\n</head>\n{body}\n</html>\n"


def _verdict(difference: Difference) -> Markup:
    sign = "=" if difference.is_equal else "✗" if difference.lost else "≠"
    state = "ok" if difference.is_equal else "error" if difference.lost else None
    sides = el(
        "p",
        el("code", ", ".join(difference.old)),
        " → ",
        el("code", ", ".join(difference.new)),
    )
    title = el("h1", el("span", f"{sign} ", aria_hidden="true"), verdict(difference), class_=state)
    facts = el("p", summary(difference), ".")
    return el("header", el("p", "kpacktools diff", class_="kicker"), title, facts, sides, class_="verdict")


def _findings(difference: Difference) -> Markup | None:
    items = [
        el(
            "li",
            el("a", item.name, href=finding_link(item.name)),
            " ",
            el("code", item.path),
            f" {item.message}",
            el("div", f"hint: {item.hint}", class_="hint") if item.hint else None,
        )
        for item in difference.findings
    ]
    return _section("Not compared", el("ul", items)) if items else None


def _bundles(cells: Sequence[Cell]) -> Markup | None:
    heads = ("engine", "target", "before", "after", "lost", "gained", "changed", "bytes", "")
    rows = [
        el(
            "tr",
            el("th", cell.engine, scope="row"),
            el("td", cell.key),
            _number(_kernels_of(cell.old)),
            _number(_kernels_of(cell.new)),
            el("td", f"{cell.kernels_lost:,}", class_="number error" if cell.kernels_lost else "number"),
            _number(cell.kernels_gained),
            _number(len(cell.changed)),
            el("td", change(_size_of(cell.old), _size_of(cell.new)), class_="number"),
            el("td", "gone" if cell.new is None else "new" if cell.old is None else _made(cell)),
        )
        for cell in cells
    ]
    return _section("Bundles that differ", _table("Bundles that differ", heads, rows)) if rows else None


def _made(cell: Cell) -> str:
    return "; ".join(made_otherwise(cell))


def _kernels_of(amount: Amount | None) -> int | None:
    return None if amount is None else amount.kernels


def _size_of(amount: Amount | None) -> int:
    return 0 if amount is None else amount.size


def _moves(difference: Difference) -> Markup | None:
    items = [
        el(
            "li",
            f"{move.kind}: {move.engine} {', '.join(move.old)} → {', '.join(move.new)}, {move.kernels:,} kernels",
        )
        for move in difference.moves
    ]
    return _section("Other keys", el("ul", items)) if items else None


def _kernels(cells: Sequence[Cell]) -> Markup | None:
    lists = [item for cell in cells for item in _lists(cell)]
    return _section("Kernels", *lists) if lists else None


def _lists(cell: Cell) -> Iterator[Markup]:
    for kind, rows in (
        ("lost", [(kernel.name, kernel.sha256) for kernel in cell.lost]),
        ("gained", [(kernel.name, kernel.sha256) for kernel in cell.gained]),
        ("changed", [(kernel.name, f"{kernel.old} → {kernel.new}") for kernel in cell.changed]),
        ("renamed", [(f"{kernel.old} → {kernel.new}", kernel.sha256) for kernel in cell.renamed]),
        ("under other keys", [(f"{k.name} → {', '.join(k.keys)}", k.sha256) for k in cell.moved]),
    ):
        if rows:
            title = f"{len(rows):,} {kind}: {cell.engine} {cell.key}"
            shown = [
                el("tr", el("td", el("code", name)), el("td", el("code", digest)))
                for name, digest in rows[:_ROWS]
            ]
            left = f"... and {len(rows) - _ROWS:,} more: --format json has all" if len(rows) > _ROWS else None
            body = _table(title, ("kernel", "sha256"), shown)
            more = el("p", left) if left else None
            yield el("details", el("summary", title), body, more, open=kind == "lost")


def _distributions(difference: Difference) -> Markup | None:
    rows = [
        el(
            "tr",
            el("th", item.name, scope="row"),
            el("td", "-" if item.old is None else ", ".join(item.old)),
            el("td", "-" if item.new is None else ", ".join(item.new)),
            el(
                "td",
                [el("div", "- ", el("code", text)) for text in item.removed],
                [el("div", "+ ", el("code", text)) for text in item.added],
            ),
        )
        for item in difference.distributions
    ]
    heads = ("distribution", "old version", "new version", "requirements")
    return _section("Distributions", _table("Distributions", heads, rows)) if rows else None


def _sizes(difference: Difference) -> Markup | None:
    rows = [
        el(
            "tr",
            el("th", engine, scope="row"),
            el("td", human_size(old), class_="number"),
            el("td", human_size(new), class_="number"),
            el("td", change(old, new), class_="number"),
        )
        for engine, (old, new) in difference.sizes().items()
    ]
    return _section("Sizes", _table("Sizes", ("engine", "before", "after", "change"), rows)) if rows else None


def _section(title: str, *children: Markup) -> Markup:
    return el("section", el("h2", title), children)


def _table(caption: str, heads: Iterable[str], rows: Iterable[Markup]) -> Markup:
    """A table that scrolls by itself where it is too wide, by keyboard too."""
    numbers = [el("th", text, scope="col", class_="number" if text in _NUMBERS else None) for text in heads]
    head = el("tr", numbers)
    table = el("table", el("caption", caption, class_="hidden"), el("thead", head), el("tbody", rows))
    return el("div", table, class_="scroll", role="region", aria_label=caption, tabindex=0)


def _number(number: int | None) -> Markup:
    return el("td", "-" if number is None else f"{number:,}", class_="number")
