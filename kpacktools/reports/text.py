"""The report as text: a table that a release engineer reads at a glance, findings with hints, a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from kpacktools.findings import KINDS, Finding, Severity, counted
from kpacktools.reports.console import Cell, Column, Console, PlainConsole, Span, terminal_console
from kpacktools.reports.decisions import claimed_bundles, generic_parts
from kpacktools.reports.matrix import Cell as MatrixCell
from kpacktools.reports.matrix import Matrix, State, matrix_of
from kpacktools.reports.model import Report
from kpacktools.reports.plaintext import clean, human_size

__all__ = ["as_text", "clean", "human_size"]

_NAMED_AT_MOST: Final = 5
"""Findings of one name that are printed in full, unless all are asked for."""
_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_READ_ONLY: Final = frozenset({"inspect", "artifacts check", "topology check"})
"""Commands that have no output to refuse."""
_CELL: Final = 13
_STATE_STYLES: Final = {
    State.ERROR: "bold red",
    State.MISSING: "bold red",
    State.WARNING: "yellow",
    State.EMPTY: "dim",
}


def as_text(report: Report, *, quiet: bool = False, verbose: bool = False, terminal: bool = False) -> str:
    """The report for people. Colour only for a terminal, and not under ``NO_COLOR``."""
    console = terminal_console() if terminal else PlainConsole()
    if not quiet:
        _print_bundles(console, report)
        if verbose:
            _print_decisions(console, report)
    shown = [f for f in report.findings if not quiet or f.severity is Severity.ERROR]
    _print_findings(console, shown, verbose)
    if not quiet:
        for note in report.notes:
            _print_line(console, f"note: {note}")
        _print_outputs(console, report)
    _print_verdict(console, report)
    return console.text()


def _print_bundles(console: Console, report: Report) -> None:
    if not report.bundles:
        if report.inputs:
            _print_line(console, "No engine content: everything is generic.")
            console.line()
        return
    matrix = matrix_of(report)
    engines, names = matrix.engines, matrix.keys
    # Whichever way fits: targets across, or engines across, or a line for each pair.
    if 22 + _CELL * len(names) <= console.width:
        rows, columns, turned = engines, names, False
    elif 18 + (_CELL + 6) * len(engines) <= console.width:
        rows, columns, turned = names, engines, True
    else:
        _print_list(console, matrix)
        _print_legend(console, report)
        return
    console.table(
        [
            Column("target" if turned else "engine"),
            *(Column(clean(column), right=True, wrap=turned) for column in columns),
        ],
        [
            [
                Cell((clean(row),)),
                *(_cell(matrix.cell(*((column, row) if turned else (row, column)))) for column in columns),
            ]
            for row in rows
        ],
    )
    _print_legend(console, report)


def _print_legend(console: Console, report: Report) -> None:
    console.line(Span("kernels and bytes; ✓ nothing found, ! warning, ✗ error, - nothing there", "dim"))
    _print_compilers(console, report)
    console.line()


def _print_compilers(console: Console, report: Report) -> None:
    """What the code objects say built them, and what a set ships twice."""
    counts: Counter[str] = Counter()
    for item in report.bundles:
        counts.update(item.compilers)
    if counts:
        words = [f"{name} ({count:,})" for name, count in counts.most_common()]
        _print_line(console, f"built by {', '.join(words)}")
    lanes = sorted({item.lane_name for item in report.bundles if item.lane_name is not None})
    if lanes:
        _print_line(console, f"lanes {', '.join(lanes)}")
    if report.duplicates.kernels:
        saved = human_size(report.duplicates.size)
        _print_line(
            console, f"{counted(report.duplicates.kernels, 'kernel')} more than once, {saved} decompressed"
        )


def _print_list(console: Console, matrix: Matrix) -> None:
    columns = [
        Column("engine", wrap=True),
        Column("target", wrap=True),
        Column("kernels", right=True),
        Column("bytes", right=True),
    ]
    rows = []
    for (engine, key), cell in sorted(matrix.cells.items()):
        kernels, *size = _cell(cell).lines
        style = _STATE_STYLES.get(cell.state, "")
        rows.append(
            [
                Cell((clean(engine),)),
                Cell((clean(key),)),
                Cell((kernels,), style),
                Cell((*size, "")[:1], style),
            ]
        )
    console.table(columns, rows)


def _cell(cell: MatrixCell) -> Cell:
    style = _STATE_STYLES.get(cell.state, "")
    if cell.state is State.EMPTY:
        return Cell((cell.state.sign,), style)
    if cell.state is State.MISSING:
        return Cell((f"{cell.state.sign} missing",), style)
    return Cell((f"{cell.state.sign} {cell.kernels:,}", human_size(cell.size)), style)


def _print_decisions(console: Console, report: Report) -> None:
    """Why each bundle is one, and what stays generic."""
    claims = list(claimed_bundles(report))
    if claims:
        console.line(Span("claimed", "bold"))
    for claim in claims:
        _print_line(console, f"  {claim.engine} {claim.key} ({counted(claim.files, 'file')}): {claim.reason}")
    parts = list(generic_parts(report))
    if parts:
        console.line(Span("generic, since no handler claims it", "bold"))
    for part in parts:
        places = ", ".join(f"{folder} ({number:,})" for folder, number in part.folders)
        more = f", {counted(part.more, 'more folder')}" if part.more else ""
        _print_line(console, f"  {part.artifact} ({counted(part.files, 'file')}): in {places}{more}")
    if claims or parts:
        console.line()


def _print_findings(console: Console, found: Iterable[Finding], verbose: bool) -> None:
    for (severity, name), group in groupby(found, key=lambda f: (f.severity, f.name)):
        items = list(group)
        count = f" ({len(items)})" if len(items) > 1 else ""
        console.line(
            Span(f"{severity} {name}{count}", _STYLES[severity]),
            Span(f"  {KINDS[name].meaning}", "dim not bold"),
        )
        shown = items if verbose else items[:_NAMED_AT_MOST]
        for item in shown:
            _print_line(console, f"  {item.path}")
            _print_line(console, f"    {item.message}")
        if len(items) > len(shown):
            _print_line(
                console, f"  ... and {len(items) - len(shown)} more (-v lists all, --format json too)"
            )
        for hint in dict.fromkeys(item.hint for item in shown if item.hint):
            _print_line(console, f"  hint: {hint}")
        console.line()


def _print_line(console: Console, line: str) -> None:
    console.line(Span(clean(line)))


def _print_outputs(console: Console, report: Report) -> None:
    if not report.outputs:
        return
    columns = [
        Column("output", wrap=True),
        Column("files", right=True),
        Column("size", right=True),
        Column(""),
    ]
    rows = []
    for item in report.outputs:
        state = "would be written" if item.state == "planned" else item.state
        texts = (clean(item.path), f"{item.files:,}", human_size(item.size), state)
        rows.append([Cell((text,)) for text in texts])
    console.table(columns, rows)
    console.line()


def _print_verdict(console: Console, report: Report) -> None:
    counts = report.counts
    writes = report.command not in _READ_ONLY
    tally = ", ".join(_tally(report))
    if report.ok:
        said = f"  {report.command}: {tally}" if tally else f"  {report.command}"
        console.line(Span("ok", "bold green"), Span(said))
    else:
        number = sum(f.severity is Severity.ERROR for f in report.findings)
        written = "; nothing was written" if writes else ""
        console.line(
            Span("refused" if writes else "not ok", "bold red"),
            Span(f"  {report.command}: {counted(number, 'error')}{written}"),
        )
    if report.ok and writes and counts.files_in:
        parts = [
            f"{counts.files_in:,} files in",
            f"{counts.files_out:,} out",
            f"{counts.files_deduplicated:,} deduplicated",
            f"{counts.files_filtered:,} filtered",
        ]
        if counts.files_superseded:
            parts.append(f"{counts.files_superseded:,} superseded")
        console.line(Span("    " + ", ".join(parts)))


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
