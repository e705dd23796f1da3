"""The sections of the HTML report, each a function from data to markup."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from kpacktools.findings import KINDS, Finding, Severity, counted
from kpacktools.reports.docslinks import FINDINGS_PAGE, finding_link
from kpacktools.reports.kernellists import MOST_ROWS, KernelLists
from kpacktools.reports.markup import Markup, el
from kpacktools.reports.matrix import Cell, Matrix, State
from kpacktools.reports.model import Report
from kpacktools.reports.plaintext import human_size

__all__ = ["builds", "findings", "kernel_columns", "kernels", "matrix", "sizes", "verdict"]

_SIGNS: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "i"}
_CLASSES: Final = {
    State.OK: "ok",
    State.WARNING: "warning",
    State.ERROR: "error",
    State.MISSING: "error",
    State.EMPTY: "empty",
}
_COLOURS: Final = 8
"""Fill colours of the style sheet, ``c0`` to ``c7``; further engines begin again."""
_LONG: Final = 800
"""Characters of a message; a longer one scrolls by itself."""


def verdict(report: Report) -> Markup:
    """What comes first: ok or not, and out of how much."""
    tally = Counter(f.severity for f in report.findings)
    word = "ok" if report.ok else "not ok"
    facts = [
        *(
            (counted(tally[severity], str(severity)), str(severity))
            for severity in Severity
            if tally[severity] and severity is not Severity.INFO
        ),
        (counted(len(report.inputs), "shard"), ""),
        (_number(sum(i.files for i in report.inputs), "file"), ""),
        (human_size(sum(i.size for i in report.inputs)), ""),
        (_number(sum(b.kernels for b in report.bundles), "kernel"), ""),
    ]
    return el(
        "header",
        el("p", f"kpacktools {report.command}", class_="kicker"),
        el(
            "h1",
            el("span", "✓ " if report.ok else "✗ ", aria_hidden="true"),
            word,
            class_="ok" if report.ok else "error",
        ),
        el("ul", [el("li", text, class_=kind or None) for text, kind in facts], class_="facts"),
        _inputs(report),
        [el("p", f"note: {note}", class_="note") for note in report.notes],
        class_="verdict",
    )


def _inputs(report: Report) -> Markup:
    rows = [
        el(
            "tr",
            el("th", item.shard, scope="row"),
            el("td", ", ".join(item.targets) or "whatever it holds"),
            _amount(item.files),
            _bytes(item.size),
            el("td", el("code", item.path)),
        )
        for item in report.inputs
    ]
    heads = (("shard", ""), ("built for", ""), ("files", "number"), ("size", "number"), ("path", ""))
    return el(
        "details",
        el("summary", "What was opened"),
        _table("Shards", heads, rows),
    )


def matrix(held: Matrix) -> Markup:
    """Engine by target: kernels, bytes and state, by colour and by sign."""
    if not held.cells:
        return _section("matrix", "Engines and targets", el("p", "No engine content: everything is generic."))
    largest = max((cell.size for cell in held.cells.values()), default=0) or 1
    head = el(
        "tr",
        el("th", "target", scope="col"),
        [el("th", engine, scope="col") for engine in held.engines],
    )
    rows = [
        el(
            "tr",
            el("th", key, scope="row"),
            [_cell(engine, key, held.cell(engine, key), largest) for engine in held.engines],
        )
        for key in held.keys
    ]
    legend = [
        el("li", el("b", state.sign, class_=_CLASSES[state], aria_hidden="true"), f" {state.value}")
        for state in State
        if state in {cell.state for cell in held.cells.values()} | {State.OK, State.EMPTY}
    ]
    return _section(
        "matrix",
        "Engines and targets",
        el("ul", legend, el("li", "bar: bytes"), class_="legend"),
        _scroll(
            "Engines and targets",
            el("table", el("thead", head), el("tbody", rows), class_="matrix"),
        ),
    )


def _cell(engine: str, key: str, cell: Cell, largest: int) -> Markup:
    sign = el("b", cell.state.sign, aria_hidden="true")
    word = el("span", cell.state.value, class_="hidden")
    if cell.state is State.EMPTY:
        return el("td", sign, word, class_="empty")
    if cell.findings:
        label = f"{counted(len(cell.findings), 'finding')} for {engine} on {key}: {cell.state.value}"
        sign = el("a", sign, href=f"#finding-{cell.findings[0]}", aria_label=label)
        word = Markup()
    if cell.state is State.MISSING:
        return el("td", sign, word, el("span", "missing", class_="kernels"), class_="error")
    return el(
        "td",
        sign,
        word,
        el("span", f"{cell.kernels:,}", class_="kernels", title=_number(cell.kernels, "kernel")),
        el("span", human_size(cell.size), class_="size"),
        _bar([(cell.size, "")], largest),
        class_=_CLASSES[cell.state],
    )


def sizes(report: Report) -> Markup:
    """Where the bytes are: by engine, and by target with its engines in their colours."""
    by_engine: Counter[str] = Counter()
    by_key: dict[str, Counter[str]] = defaultdict(Counter)
    for item in report.bundles:
        by_engine[item.bundle.engine] += item.size
        by_key[item.bundle.key.name][item.bundle.engine] += item.size
    generic = max(0, sum(i.size for i in report.inputs) - by_engine.total())
    total = (by_engine.total() + generic) or 1
    colours = {engine: f"c{index % _COLOURS}" for index, engine in enumerate(sorted(by_engine))}
    engines = [(name, [(size, colours[name])]) for name, size in by_engine.most_common()]
    keys = [
        (name, [(size, colours[engine]) for engine, size in sorted(parts.items())])
        for name, parts in sorted(by_key.items(), key=lambda item: (-item[1].total(), item[0]))
    ]
    rest = [("generic", [(generic, "cg")])] if generic else []
    return _section(
        "sizes",
        "Where the bytes are",
        el(
            "div",
            _bars("By engine", [*engines, *rest], total),
            _bars("By target", [*keys, *rest], total),
            class_="pair",
        ),
    )


def _bars(title: str, parts: Sequence[tuple[str, list[tuple[int, str]]]], total: int) -> Markup:
    largest = max((sum(size for size, _ in part) for _, part in parts), default=0) or 1
    rows = []
    for name, part in parts:
        size = sum(size for size, _ in part)
        rows.append(
            el(
                "tr",
                el("th", name, scope="row"),
                el("td", _bar(part, largest), class_="bars", aria_hidden="true"),
                _bytes(size),
                el("td", f"{100 * size / total:.1f} %", class_="number"),
            )
        )
    heads = ((title, ""), ("", "bars"), ("size", "number"), ("share", "number"))
    return _table(title, heads, rows, "plain")


def _bar(parts: Iterable[tuple[int, str]], largest: int) -> Markup:
    """A bar of stacked parts as a picture: (size, colour class) each; ``largest`` is its full width."""
    at = 0
    rects = []
    for size, colour in parts:
        start, at = at, at + size
        place, width = f"{1000 * start / largest:.1f}", f"{1000 * size / largest:.1f}"
        rects.append(el("rect", x=place, width=width, height=8, class_=colour or None))
    return el(
        "svg", rects, class_="bar", viewBox="0 0 1000 8", preserveAspectRatio="none", aria_hidden="true"
    )


def builds(report: Report) -> Markup:
    """Compilers and lanes, and one line a bundle."""
    counts: Counter[str] = Counter()
    for item in report.bundles:
        counts.update(item.compilers)
    made = [
        el("tr", el("th", name, scope="row"), _amount(number))
        for name, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    lanes = Counter(item.lane_name or "unknown" for item in report.bundles)
    on = [el("tr", el("th", name, scope="row"), _amount(number)) for name, number in sorted(lanes.items())]
    rows = [
        el(
            "tr",
            el("th", item.bundle.engine, scope="row"),
            el("td", item.bundle.key.name),
            el("td", item.bundle.shard),
            el("td", f"{item.bundle.artifact.name}_{item.bundle.artifact.component}"),
            _amount(item.kernels),
            _amount(len(item.bundle.entries)),
            _bytes(item.size),
            el("td", item.lane_name or ""),
            el("td", ", ".join(sorted(item.compilers))),
            el("td", item.build_id or ""),
            el("td", el("code", item.bundle.path)),
        )
        for item in report.bundles
    ]
    heads = (
        ("engine", ""), ("target", ""), ("shard", ""), ("artifact", ""), ("kernels", "number"),
        ("files", "number"), ("size", "number"), ("lane", ""), ("compilers", ""), ("build", ""), ("path", ""),
    )  # fmt: skip
    none = el("p", "No code object was read: depth content reads them.") if not made else None
    twice = report.duplicates
    return _section(
        "builds",
        "Compilers and lanes",
        none,
        el(
            "div",
            _table("Compilers", (("compiler", ""), ("code objects", "number")), made, "plain")
            if made
            else None,
            _table("Lanes", (("lane", ""), ("bundles", "number")), on, "plain") if on else None,
            class_="pair",
        ),
        el(
            "p",
            f"{_number(twice.kernels, 'kernel')} more than once, byte for byte: "
            f"{human_size(twice.size)} decompressed.",
        )
        if twice.kernels
        else None,
        el("h3", counted(len(rows), "bundle")) if rows else None,
        _table("Bundles", heads, rows, "sortable") if rows else None,
    )


def findings(found: Sequence[Finding], page: str = FINDINGS_PAGE) -> Markup:
    """All findings, with the filters that a script brings to life."""
    if not found:
        return _section("findings", "Findings", el("p", "Nothing was found."))
    tally = Counter(f.severity for f in found)
    names = dict.fromkeys(f.name for f in found)
    severities = [
        el(
            "label",
            el("input", type="checkbox", checked=True, value=str(severity), data_severity=True),
            f" {severity} ({tally[severity]:,})",
        )
        for severity in Severity
        if tally[severity]
    ]
    controls = el(
        "form",
        el("fieldset", el("legend", "severity"), severities),
        el(
            "label",
            "name ",
            el(
                "select",
                el("option", "all", value=""),
                [el("option", name, value=name) for name in names],
                id="finding-name",
            ),
        ),
        el("label", "search ", el("input", type="search", id="finding-search", autocomplete="off")),
        el("output", counted(len(found), "finding"), id="finding-count", aria_live="polite"),
        class_="controls script",
        id="finding-filter",
        aria_label="Filter findings",
    )
    numbered = list(enumerate(found))
    groups = [
        _group(severity, name, list(items), page)
        for (severity, name), items in groupby(numbered, key=lambda pair: (pair[1].severity, pair[1].name))
    ]
    return _section("findings", "Findings", controls, groups)


def _group(severity: Severity, name: str, items: Sequence[tuple[int, Finding]], page: str) -> Markup:
    link = finding_link(name, page)
    return el(
        "section",
        el(
            "h3",
            el("span", _SIGNS[severity], class_="sign", aria_hidden="true"),
            f" {severity} ",
            el("code", name),
            f" ({len(items):,})" if len(items) > 1 else None,
        ),
        el("p", KINDS[name].meaning, " ", el("a", link, href=link), class_="meaning"),
        el("ul", [_finding(index, item) for index, item in items], class_="items", role="list"),
        class_=f"group {severity}",
        data_severity=str(severity),
        data_name=name,
    )


def _finding(index: int, item: Finding) -> Markup:
    sources = [el("li", el("code", source)) for source in item.sources]
    is_long = len(item.message) > _LONG
    return el(
        "li",
        el("code", item.path, class_="path"),
        el("p", item.message, class_="long" if is_long else None, tabindex=0 if is_long else None),
        el("ul", sources, class_="sources") if sources else None,
        el("p", el("b", "hint: "), item.hint, class_="hint") if item.hint else None,
        id=f"finding-{index}",
        tabindex=-1,
    )


def kernels(lists: KernelLists) -> Markup:
    """Archives as a table, and the place where a script shows their kernels."""
    if not lists.containers:
        return _section("kernels", "Kernels", el("p", "No archive and no code object."))
    has_digests = any(item.sha256 for item in lists.containers)
    rows = [
        el(
            "tr",
            el("th", el("code", item.name), scope="row", data_container=index),
            el("td", item.engine),
            el("td", ", ".join(item.keys)),
            _amount(item.kernels) if item.kernels is not None else el("td", "not read", data_value=-1),
            _bytes(item.size),
            el("td", item.scheme or ""),
            el("td", el("code", item.sha256, class_="digest", title=item.sha256)) if has_digests else None,
            el("td", el("code", item.path)),
        )
        for index, item in enumerate(lists.containers)
    ]
    heads = (
        ("archive", ""), ("engine", ""), ("target", ""), ("kernels", "number"), ("size", "number"),
        ("scheme", ""), *([("sha256", "")] if has_digests else []), ("path", ""),
    )  # fmt: skip
    note = (
        el("p", f"{_number(lists.left_out, 'kernel')} of further archives are not listed: a report lists "
           f"{MOST_ROWS:,} at most.", class_="note")
        if lists.left_out
        else None
    )  # fmt: skip
    options = [
        el("option", f"{item.engine} {', '.join(item.keys)}: {item.name}", value=index)
        for index, item in enumerate(lists.containers)
    ]
    controls = el(
        "form",
        el(
            "label",
            "in ",
            el("select", el("option", "all", value=""), options, id="kernel-container"),
        ),
        el("label", "search ", el("input", type="search", id="kernel-search", autocomplete="off")),
        el("output", _number(len(lists.rows), "kernel"), id="kernel-count", aria_live="polite"),
        class_="controls script",
        id="kernel-filter",
        aria_label="Filter kernels",
    )
    columns = (("key", "key"), ("target", "target"), ("size", "bytes"))
    listing = el(
        "div",
        el(
            "table",
            el("caption", "Kernels", class_="hidden"),
            el("thead", el("tr", [el("th", text, scope="col", data_column=name) for name, text in columns])),
            el("tbody", id="kernel-rows"),
            class_="kernels",
            id="kernel-table",
        ),
        class_="list script",
        id="kernel-list",
        tabindex=0,
        role="region",
        aria_label="Kernels",
    )
    return _section(
        "kernels",
        "Kernels",
        _table("Archives", heads, rows, "sortable"),
        note,
        (
            controls,
            listing,
            el("noscript", el("p", "The list of kernels needs scripts.")),
            el("p", "The list of kernels is not printed.", class_="printed"),
        )
        if lists.rows
        else None,
    )


def kernel_columns(lists: KernelLists) -> Mapping[str, list[object]]:
    """What the script needs: rows as columns, in one order."""
    return {
        "container": [row.container for row in lists.rows],
        "key": [row.key for row in lists.rows],
        "target": [row.target for row in lists.rows],
        "size": [row.size for row in lists.rows],
    }


def _section(identifier: str, title: str, *children: Markup | Iterable[Markup] | None) -> Markup:
    return el(
        "section",
        el("h2", title, id=f"{identifier}-title"),
        children,
        id=identifier,
        aria_labelledby=f"{identifier}-title",
    )


def _table(
    caption: str, heads: Iterable[tuple[str, str]], rows: Iterable[Markup], class_: str = ""
) -> Markup:
    """A table of ready rows; heads are (text, class)."""
    head = el("tr", [el("th", text, scope="col", class_=kind or None) for text, kind in heads])
    table = el(
        "table",
        el("caption", caption, class_="hidden"),
        el("thead", head),
        el("tbody", rows),
        class_=class_ or None,
    )
    return _scroll(caption, table)


def _scroll(label: str, table: Markup) -> Markup:
    """What is too wide scrolls by itself; by keyboard too, which takes a focusable region with a name."""
    return el("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def _amount(number: int) -> Markup:
    return el("td", f"{number:,}", class_="number", data_value=number)


def _bytes(size: int) -> Markup:
    return el("td", human_size(size), class_="number", data_value=size)


def _number(number: int, noun: str) -> str:
    return counted(number, noun).replace(str(number), f"{number:,}", 1)
