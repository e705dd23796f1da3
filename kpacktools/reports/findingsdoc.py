"""The documentation page of findings: the table of :mod:`kpacktools.findings`, joined with a text for each of them.

The texts are Markdown files in ``docs/findings.d``, one a finding, named after it. In a checkout::

    python -m kpacktools.reports.findingsdoc > docs/findings.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kpacktools.errors import CallError
from kpacktools.findings import KINDS, Kind

__all__ = ["TEXTS", "findings_page", "main", "read_texts"]

TEXTS: Final = Path(__file__).parents[2] / "docs" / "findings.d"
"""Where the texts are in a checkout; an installed package has none."""

_INTRODUCTION: Final = """\
<!-- Made by `python -m kpacktools.reports.findingsdoc` from kpacktools/findings.py and docs/findings.d. -->

# Findings

A finding is one thing that is wrong with the content, or worth knowing. It has a name, a severity, a path, a message
and mostly a hint. The names are stable: list them in [policy files](policy.md) and filter [reports](json.md) by them.

- **error**: the command refuses. Nothing is written, and the exit status is 1.
- **warning**: the command goes on. `--strict` counts warnings as errors.
- **info**: worth knowing.

The severities below are the defaults; the policy's [`[severity]`](policy.md#severity) table changes them. Where the
text says so, a finding is milder or more severe than its default in some situations.

Every example is run by the tests, and shows the lines of one finding. It starts in an empty folder with two small
install prefixes, `mi300` (content for gfx942) and `mi350` (for gfx950), made of the example shards in a checkout of the
repository (`$REPOSITORY`):

```console
$ cp -r $REPOSITORY/examples/shards/gfx942/*/ml-libs/*/stage/lib/hipdnn_plugins/engines mi300
$ cp -r $REPOSITORY/examples/shards/gfx950/*/ml-libs/*/stage/lib/hipdnn_plugins/engines mi350
```

"""


def read_texts(folder: Path) -> dict[str, str]:
    """Name of a finding -> its text. Raises :class:`~kpacktools.errors.CallError` where there is no such folder."""
    if not folder.is_dir():
        raise CallError(
            f"{folder}: no such folder; the texts of findings are in a checkout of the repository"
        )
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}


def findings_page(kinds: Iterable[Kind], texts: Mapping[str, str]) -> str:
    """The page in Markdown, with the findings in the order of ``kinds``.

    Raises :class:`~kpacktools.errors.CallError` for a finding without a text and for a text without a finding.
    """
    listed = list(kinds)
    names = {kind.name for kind in listed}
    if missing := sorted(names - texts.keys()):
        raise CallError(f"no text for {', '.join(missing)}: write docs/findings.d/{missing[0]}.md")
    if unknown := sorted(texts.keys() - names):
        raise CallError(f"docs/findings.d/{unknown[0]}.md: the table of findings lacks {', '.join(unknown)}")
    return (
        _INTRODUCTION
        + "\n".join(_overview(listed))
        + "\n"
        + "".join(_entry(k, texts[k.name]) for k in listed)
    )


def _overview(kinds: Iterable[Kind]) -> Iterator[str]:
    yield "| finding | default | meaning |"
    yield "|---|---|---|"
    for kind in kinds:
        yield f"| [`{kind.name}`](#{kind.name}) | {kind.severity} | {kind.meaning} |"


def _entry(kind: Kind, text: str) -> str:
    # What follows the language is for the tests that run the example; the page shows its result.
    shown = text.strip().replace(f"```console tested finding={kind.name}", "```console")
    return f"\n## {kind.name}\n\n**{kind.severity}**: {kind.meaning}\n\n{shown}\n"


def main() -> int:
    """Print the page; 2 and one line on stderr where it cannot be made."""
    try:
        page = findings_page(KINDS.values(), read_texts(TEXTS))
    except CallError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
