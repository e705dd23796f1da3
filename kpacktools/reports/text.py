"""The report as text: a table that a release engineer reads at a glance, findings with hints, a verdict."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kpacktools.findings import KINDS, Finding, Severity, counted
from kpacktools.reports.decisions import claimed_bundles, generic_parts
from kpacktools.reports.matrix import Cell, Matrix, State, matrix_of
from kpacktools.reports.model import Report
from kpacktools.reports.plaintext import clean, human_size

__all__ = ["as_text", "clean", "human_size"]

_NAMED_AT_MOST: Final = 5
"""Findings of one name that are printed in full, unless all are asked for."""
_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_READ_ONLY: Final = frozenset({"inspect", "artifacts check", "topology check"})
"""Commands that have no output to refuse."""
_CELL: Final = 13
_WIDTH: Final = 100
"""Columns that the matrix may take where the output is no terminal."""
_UNWRAPPED: Final = 10_000
"""Columns of the console there: what goes into a pipe is never wrapped."""
_STATE_STYLES: Final = {
    State.ERROR: "bold red",
    State.MISSING: "bold red",
    State.WARNING: "yellow",
    State.EMPTY: "dim",
}


def as_text(report: Report, *, quiet: bool = False, verbose: bool = False, terminal: bool = False) -> str:
    """The report for people. Colour only for a terminal, and not under ``NO_COLOR``."""
    buffer = io.StringIO()
    width = Console().width if terminal else _WIDTH
    console = Console(
        file=buffer, force_terminal=terminal, width=width if terminal else _UNWRAPPED, highlight=False
    )
    if not quiet:
        _print_bundles(console, report, width)
        if verbose:
            _print_decisions(console, report)
    shown = [f for f in report.findings if not quiet or f.severity is Severity.ERROR]
    _print_findings(console, shown, verbose)
    if not quiet:
        for note in report.notes:
            console.print(f"note: {clean(note)}", markup=False)
        _print_outputs(console, report)
    _print_verdict(console, report)
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def _print_bundles(console: Console, report: Report, width: int) -> None:
    if not report.bundles:
        if report.inputs:
            console.print("No engine content: everything is generic.\n")
        return
    matrix = matrix_of(report)
    engines, names = matrix.engines, matrix.keys
    # Whichever way fits: targets across, or engines across, or a line for each pair.
    if 22 + _CELL * len(names) <= width:
        rows, columns, turned = engines, names, False
    elif 18 + (_CELL + 6) * len(engines) <= width:
        rows, columns, turned = names, engines, True
    else:
        _print_list(console, matrix)
        _print_legend(console, report)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("target" if turned else "engine", no_wrap=True)
    for column in columns:
        table.add_column(clean(column), justify="right", no_wrap=not turned)
    for row in rows:
        texts = [_cell(matrix.cell(*((column, row) if turned else (row, column)))) for column in columns]
        table.add_row(clean(row), *texts)
    console.print(table)
    _print_legend(console, report)


def _print_legend(console: Console, report: Report) -> None:
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


def _print_list(console: Console, matrix: Matrix) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("engine", "target"):
        table.add_column(name, overflow="fold")
    table.add_column("kernels", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    for (engine, key), cell in sorted(matrix.cells.items()):
        style = _STATE_STYLES.get(cell.state, "")
        table.add_row(clean(engine), clean(key), *(Text(part, style=style) for part in _cell_lines(cell)))
    console.print(table)


def _cell(cell: Cell) -> Text:
    text = "\n".join(_cell_lines(cell))
    return Text(text, style=_STATE_STYLES.get(cell.state, ""), justify="right")


def _cell_lines(cell: Cell) -> tuple[str, ...]:
    if cell.state is State.EMPTY:
        return (cell.state.sign,)
    if cell.state is State.MISSING:
        return (f"{cell.state.sign} missing",)
    return f"{cell.state.sign} {cell.kernels:,}", human_size(cell.size)


def _print_decisions(console: Console, report: Report) -> None:
    """Why each bundle is one, and what stays generic."""
    claims = list(claimed_bundles(report))
    if claims:
        console.print("claimed", style="bold")
    for claim in claims:
        _print_line(console, f"  {claim.engine} {claim.key} ({counted(claim.files, 'file')}): {claim.reason}")
    parts = list(generic_parts(report))
    if parts:
        console.print("generic, since no handler claims it", style="bold")
    for part in parts:
        places = ", ".join(f"{folder} ({number:,})" for folder, number in part.folders)
        more = f", {counted(part.more, 'more folder')}" if part.more else ""
        _print_line(console, f"  {part.artifact} ({counted(part.files, 'file')}): in {places}{more}")
    if claims or parts:
        console.print()


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
    writes = report.command not in _READ_ONLY
    tally = ", ".join(_tally(report))
    if report.ok:
        line = Text("ok", style="bold green")
        line.append(
            f"  {report.command}: {tally}" if tally else f"  {report.command}", style="not bold default"
        )
    else:
        number = sum(f.severity is Severity.ERROR for f in report.findings)
        what = counted(number, "error")
        line = Text("refused" if writes else "not ok", style="bold red")
        written = "; nothing was written" if writes else ""
        line.append(f"  {report.command}: {what}{written}", style="not bold default")
    console.print(line)
    if report.ok and writes and counts.files_in:
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
