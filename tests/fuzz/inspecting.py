"""inspect, with what must hold of its answer whatever the input is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from targets import say_one_line

from kpacktools.commands import Run, inspect
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.pipeline import Settings
from kpacktools.reports.html import as_html
from kpacktools.reports.jsonreport import as_json
from kpacktools.reports.kernellists import kernel_lists
from kpacktools.reports.model import Report
from kpacktools.reports.sarif import as_sarif
from kpacktools.reports.text import as_text

SETTINGS: Final = Settings(depth=Depth.CONTENT)


def inspected(path: str) -> None:
    """Inspect a path: a report that can be shown, or one line."""
    try:
        report = inspect([path], SETTINGS)
    except CallError as error:
        say_one_line(error)
    else:
        shown(report)


def checked(run: Run) -> None:
    """The same for a run over inputs that are open."""
    refused = run.refused()
    shown(run.report(run.check()) if refused is None else refused)


def shown(report: Report) -> None:
    """Show a report in one of its forms. A handler that raises is as bad as a reader that does."""
    for found in report.findings:
        assert found.name != "plugin-invalid", found
    # All forms of each report would take longer than making it.
    _FORMS[sum(len(found.message) for found in report.findings) % len(_FORMS)](report)


def _text(report: Report) -> None:
    for character in as_text(report, verbose=True):
        assert character.isprintable() or character == "\n", character


_FORMS: Final[Sequence[Callable[[Report], object]]] = (
    lambda report: json.loads(as_json(report)),
    lambda report: json.loads(as_sarif(report, root="/")),
    lambda report: as_html(report, kernel_lists(report.bundles)),
    _text,
)
