"""``kpacktools diff``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from kpacktools.cli.options import cache_option, jobs_option, policy_option, reading_settings, task_options
from kpacktools.diffing.model import Difference
from kpacktools.diffing.run import diff
from kpacktools.findings import errors
from kpacktools.outputs.textfile import write_text

EPILOG = """\b
Examples:
  kpacktools diff release-7.14 release-7.15 --fail-on lost
  kpacktools diff old/dist new/dist --format markdown -o comment.md
  kpacktools diff old.kpack new.kpack --fail-on any
  kpacktools diff yesterday.json today.json"""


@click.command("diff", epilog=EPILOG)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--fail-on",
    type=click.Choice(["lost", "any"]),
    help="Exit status 1 where NEW lacks something that OLD has (lost), or where they differ at all (any).",
)
@click.option(
    "--depth",
    type=click.Choice(["toc", "content"]),
    default="content",
    show_default=True,
    help="content: compare kernels by their bytes; toc: count them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown", "html"]),
    default="text",
    show_default=True,
    help="What to print; markdown is for a comment on a pull request, html one page that needs no network.",
)
@click.option("-o", "--output", metavar="FILE", help="Write it to FILE instead of stdout.")
@policy_option
@jobs_option
@cache_option
@task_options
@click.option("-q", "--quiet", is_flag=True, help="Print errors and the verdict only.")
@click.option("-v", "--verbose", is_flag=True, help="Name every kernel, also where there are many.")
def command(
    old: str,
    new: str,
    fail_on: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Say what NEW gains, loses and changes as against OLD, kernel by kernel and by content.

    OLD and NEW are builds, merged sets, install prefixes, wheels, folders of wheels, kpacks, or reports of
    kpacktools in JSON. The same kernels packed in another order or compression are equal.
    """
    settings = reading_settings(options, quiet=quiet)
    difference = diff(old, new, settings)
    settings.progress.stop()
    pieces = _shown(difference, form, quiet=quiet, verbose=verbose)
    if output is None:
        for piece in pieces:
            click.echo(piece, nl=False)
    else:
        write_text(output, pieces)
    fails = {"lost": difference.lost, "any": not difference.is_equal, None: False}[fail_on]
    return 1 if fails or errors(difference.findings) else 0


def _shown(difference: Difference, form: str, *, quiet: bool, verbose: bool) -> Iterable[str]:
    if form == "json":
        from kpacktools.diffing.jsonform import as_json

        return as_json(difference)
    if form == "markdown":
        from kpacktools.diffing.markdown import as_markdown

        return [as_markdown(difference)]
    if form == "html":
        from kpacktools.diffing.html import as_html

        return [as_html(difference)]
    from kpacktools.diffing.text import as_text

    return [as_text(difference, quiet=quiet, verbose=verbose)]
