"""Where the text report is printed: plainly into pipes and files, through rich on a terminal.

Rich wraps tables to a terminal's width and knows its colours. A pipe needs neither, and importing rich takes as long
as a small run.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["Cell", "Column", "Console", "PlainConsole", "Span", "terminal_console"]


class Span(NamedTuple):
    """Some text of one style (``bold red``, ``dim``; empty: as it is). It holds no control characters."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """A column of a table."""

    title: str
    right: bool = False
    """Flush right, as numbers are."""
    wrap: bool = False
    """May be broken anywhere where the terminal is too narrow."""


class Cell(NamedTuple):
    """What stands in a row and column: one line or more."""

    lines: tuple[str, ...]
    style: str = ""


class Console(Protocol):
    """What the text report needs of the place where it is printed."""

    @property
    def width(self) -> int:
        """Columns that a table should not exceed."""

    def line(self, *spans: Span) -> None:
        """Print one line, which is never wrapped: paths are copied, and searched for."""

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Print a table with its header, columns two blanks apart."""

    def text(self) -> str:
        """All that was printed; no line ends in a blank."""


class PlainConsole:
    """Text for pipes and files.

    >>> console = PlainConsole()
    >>> console.table([Column("engine"), Column("files", right=True)], [[Cell(("rocke",)), Cell(("12",))]])
    >>> print(console.text(), end="")
    engine  files
    rocke      12
    """

    width: Final = 100

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, *spans: Span) -> None:
        """See :meth:`Console.line`."""
        self._lines += "".join(span.text for span in spans).split("\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """See :meth:`Console.table`."""
        head = [Cell((column.title,)) for column in columns]
        cells = [head, *rows]
        widths = [max(len(line) for row in cells for line in row[at].lines) for at in range(len(columns))]
        for row in cells:
            for number in range(max(len(cell.lines) for cell in row)):
                parts = []
                for column, width, cell in zip(columns, widths, row, strict=True):
                    line = cell.lines[number] if number < len(cell.lines) else ""
                    parts.append(line.rjust(width) if column.right else line.ljust(width))
                self._lines.append("  ".join(parts))

    def text(self) -> str:
        """See :meth:`Console.text`."""
        return "".join(line.rstrip() + "\n" for line in self._lines)


def terminal_console() -> Console:
    """A console as wide and colourful as the terminal; without colour under ``NO_COLOR``."""
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    class _TerminalConsole:
        def __init__(self) -> None:
            self.width = RichConsole().width
            self._buffer = io.StringIO()
            self._console = RichConsole(
                file=self._buffer, force_terminal=True, width=self.width, highlight=False
            )

        def line(self, *spans: Span) -> None:
            text = Text.assemble(*((span.text, span.style) for span in spans))
            self._console.print(text, soft_wrap=True)

        def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
            table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
            for column in columns:
                table.add_column(
                    Text(column.title),
                    justify="right" if column.right else "left",
                    no_wrap=not column.wrap,
                    overflow="fold" if column.wrap else "ellipsis",
                )
            for row in rows:
                table.add_row(*(Text("\n".join(cell.lines), style=cell.style) for cell in row))
            self._console.print(table)

        def text(self) -> str:
            return "".join(line.rstrip() + "\n" for line in self._buffer.getvalue().splitlines())

    return _TerminalConsole()
