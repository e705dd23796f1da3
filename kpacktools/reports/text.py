"""The report as text: a table that a release engineer reads at a glance, findings with hints, a verdict."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.findings import KINDS, Finding, Severity, counted
from kpacktools.reports.model import Report

__all__ = ["as_text", "clean", "human_size"]

_NAMED_AT_MOST: Final = 5
"""Findings of one name that are printed in full, unless all are asked for."""
_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_CELL: Final = 13
_WIDTH: Final = 100
"""Columns that the matrix may take where the output is no terminal."""
_UNWRAPPED: Final = 10_000
"""Columns of the console there: what goes into a pipe is never wrapped."""
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 10}


def as_text(report: Report, *, quiet: bool = False, verbose: bool = False, terminal: bool = False) -> str:
    """The report for people. Colour only for a terminal, and not under ``NO_COLOR``."""
    buffer = io.StringIO()
    width = Console().width if terminal else _WIDTH
    console = Console(
        file=buffer, force_terminal=terminal, width=width if terminal else _UNWRAPPED, highlight=False
    )
    if not quiet:
        _print_bundles(console, report, width)
    shown = [f for f in report.findings if not quiet or f.severity is Severity.ERROR]
    _print_findings(console, shown, verbose)
    if not quiet:
        for note in report.notes:
            console.print(f"note: {clean(note)}", markup=False)
        _print_outputs(console, report)
    _print_verdict(console, report)
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def human_size(size: int) -> str:
    """A size in bytes for people: ``4.6 KB``, powers of 1000."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def clean(text: str) -> str:
    """Text from outside, without the control sequences that a terminal would obey."""
    return text.translate(_CONTROL)


def _print_bundles(console: Console, report: Report, width: int) -> None:
    if not report.bundles:
        if report.inputs:
            console.print("No engine content: everything is generic.\n")
        return
    engines = sorted({item.bundle.engine for item in report.bundles})
    keys = sorted({item.bundle.key for item in report.bundles})
    worst = _worst_by_bundle(report)
    cells: dict[tuple[str, str], list[CheckedBundle]] = {}
    for item in report.bundles:
        cells.setdefault((item.bundle.engine, item.bundle.key.name), []).append(item)
    names = [key.name for key in keys]
    # Whichever way fits: targets across, or engines across, or a line for each pair.
    if 22 + _CELL * len(names) <= width:
        rows, columns, turned = engines, names, False
    elif 18 + (_CELL + 6) * len(engines) <= width:
        rows, columns, turned = names, engines, True
    else:
        _print_list(console, cells, worst)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("target" if turned else "engine", no_wrap=True)
    for column in columns:
        table.add_column(clean(column), justify="right", no_wrap=not turned)
    for row in rows:
        texts = [
            _cell(cells.get((column, row) if turned else (row, column), ()), worst) for column in columns
        ]
        table.add_row(clean(row), *texts)
    console.print(table)
    console.print("kernels and bytes; ✓ nothing found, ! warning, ✗ error, - nothing there", style="dim")
    _print_compilers(console, report)
    console.print()


def _print_compilers(console: Console, report: Report) -> None:
    """What the code objects say built them, and what a set ships twice."""
    counts: Counter[str] = Counter()
    for item in report.bundles:
        counts.update(item.compilers)
    if counts:
        words = [f"{clean(name)} ({count:,})" for name, count in counts.most_common()]
        console.print(f"built by {', '.join(words)}", soft_wrap=True, markup=False)
    lanes = sorted({item.lane_name for item in report.bundles if item.lane_name is not None})
    if lanes:
        console.print(f"lanes {', '.join(map(clean, lanes))}", soft_wrap=True, markup=False)
    if report.duplicates.kernels:
        saved = human_size(report.duplicates.size)
        console.print(f"{counted(report.duplicates.kernels, 'kernel')} more than once, {saved} decompressed")


def _print_list(
    console: Console,
    cells: dict[tuple[str, str], list[CheckedBundle]],
    worst: dict[int, Severity],
) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("engine", "target"):
        table.add_column(name)
    table.add_column("kernels and bytes", justify="right")
    for (engine, key), items in sorted(cells.items()):
        table.add_row(clean(engine), clean(key), _cell(items, worst, one_line=True))
    console.print(table)
    console.print()


def _cell(items: Sequence[CheckedBundle], worst: dict[int, Severity], *, one_line: bool = False) -> Text:
    if not items:
        return Text("-", style="dim")
    severity = min((worst[id(i)] for i in items if id(i) in worst), key=list(Severity).index, default=None)
    sign = {Severity.ERROR: "✗", Severity.WARNING: "!"}.get(severity, "✓") if severity else "✓"
    style = _STYLES.get(severity, "") if severity in (Severity.ERROR, Severity.WARNING) else ""
    kernels = sum(item.kernels for item in items)
    size = human_size(sum(item.size for item in items))
    return Text(f"{sign} {kernels:,}{'  ' if one_line else chr(10)}{size}", style=style, justify="right")


def _worst_by_bundle(report: Report) -> dict[int, Severity]:
    """id of a bundle -> the worst severity among its findings, under the report's policy."""
    final: dict[tuple[str, str, str], Severity] = {
        (f.name, f.path, f.message): f.severity for f in report.findings
    }
    order = list(Severity)
    worst: dict[int, Severity] = {}
    for item in report.bundles:
        severities = [final.get((f.name, f.path, f.message)) for f in item.findings]
        known = [severity for severity in severities if severity is not None]
        if known:
            worst[id(item)] = min(known, key=order.index)
    return worst


def _print_findings(console: Console, found: Iterable[Finding], verbose: bool) -> None:
    for (severity, name), group in groupby(found, key=lambda f: (f.severity, f.name)):
        items = list(group)
        count = f" ({len(items)})" if len(items) > 1 else ""
        title = Text(f"{severity} {name}{count}", style=_STYLES[severity])
        title.append(f"  {KINDS[name].meaning}", style="dim not bold")
        console.print(title, soft_wrap=True)
        shown = items if verbose else items[:_NAMED_AT_MOST]
        # Paths and messages are never wrapped here: they are copied, and searched for with grep.
        for item in shown:
            _print_line(console, f"  {item.path}")
            _print_line(console, f"    {item.message}")
        if len(items) > len(shown):
            console.print(f"  ... and {len(items) - len(shown)} more (-v lists all, --format json too)")
        for hint in dict.fromkeys(item.hint for item in shown if item.hint):
            _print_line(console, f"  hint: {hint}")
        console.print()


def _print_line(console: Console, line: str) -> None:
    console.print(clean(line), soft_wrap=True, markup=False)


def _print_outputs(console: Console, report: Report) -> None:
    if not report.outputs:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("output", overflow="fold")
    table.add_column("files", justify="right")
    table.add_column("size", justify="right")
    table.add_column("")
    for item in report.outputs:
        state = "would be written" if item.state == "planned" else item.state
        table.add_row(escape(clean(item.path)), f"{item.files:,}", human_size(item.size), state)
    console.print(table)
    console.print()


def _print_verdict(console: Console, report: Report) -> None:
    counts = report.counts
    tally = ", ".join(_tally(report))
    if report.ok:
        line = Text("ok", style="bold green")
        line.append(
            f"  {report.command}: {tally}" if tally else f"  {report.command}", style="not bold default"
        )
    else:
        number = sum(f.severity is Severity.ERROR for f in report.findings)
        what = counted(number, "error")
        line = Text("refused" if report.command != "inspect" else "not ok", style="bold red")
        written = "" if report.command == "inspect" else "; nothing was written"
        line.append(f"  {report.command}: {what}{written}", style="not bold default")
    console.print(line)
    if report.ok and report.command != "inspect" and counts.files_in:
        parts = [
            f"{counts.files_in:,} files in",
            f"{counts.files_out:,} out",
            f"{counts.files_deduplicated:,} deduplicated",
            f"{counts.files_filtered:,} filtered",
        ]
        if counts.files_superseded:
            parts.append(f"{counts.files_superseded:,} superseded")
        console.print("    " + ", ".join(parts))


def _tally(report: Report) -> Iterator[str]:
    files = sum(item.files for item in report.inputs)
    if report.inputs:
        yield counted(len(report.inputs), "shard")
    if files:
        yield f"{files:,} file" + ("s" if files != 1 else "")
    kernels = sum(item.kernels for item in report.bundles)
    if kernels:
        yield f"{kernels:,} kernels"
    if report.dry_run:
        yield "dry run, nothing was written"
    for severity in (Severity.WARNING, Severity.INFO):
        number = sum(f.severity is severity for f in report.findings)
        if number:
            yield counted(number, str(severity))
