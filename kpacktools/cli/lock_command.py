"""``kpacktools lock write|check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kpacktools.cli.options import cache_option, jobs_option, policy_option, reading_settings, task_options
from kpacktools.diffing.text import finding_lines
from kpacktools.errors import CallError
from kpacktools.findings import counted
from kpacktools.locking import run
from kpacktools.locking.forms import as_json, as_text
from kpacktools.reports.plaintext import clean

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  kpacktools lock write merged -o kpack.lock
  kpacktools lock check merged --lock kpack.lock
  kpacktools lock write merged -o kpack.lock --alias llvm24=llvm23"""


@click.group("lock", context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
def command() -> None:
    """Write down every kernel of a release in a file that people review, and hold a build to it."""


def _run_options(function: F) -> F:
    for option in (
        task_options,
        cache_option,
        click.option("-q", "--quiet", is_flag=True, help="Print errors and the verdict only."),
        jobs_option,
        policy_option,
    ):
        function = option(function)
    return function


@command.command("write")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    "out",
    default="kpack.lock",
    show_default=True,
    metavar="FILE",
    help="The lock to write.",
)
@click.option(
    "--alias",
    "aliases",
    multiple=True,
    metavar="LANE=OTHER",
    help="Hold LANE to the baselines of OTHER; both must share an emission profile. May be repeated.",
)
@click.option(
    "--names/--no-names",
    "with_names",
    default=True,
    show_default=True,
    help="Name every kernel, so that a check can say which one is missing; else counts and digests only.",
)
@_run_options
def write_command(
    paths: tuple[str, ...],
    out: str,
    aliases: tuple[str, ...],
    with_names: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Write the lock of what is at each PATH: anything that inspect takes. Reads every kernel.

    The aliases of a lock that is there already are kept. Nothing is written where content cannot be read or
    belongs to no engine.
    """
    settings = reading_settings(options, quiet=quiet)
    lock, findings = run.write(paths, out, settings, dict(map(_alias, aliases)), with_names=with_names)
    settings.progress.stop()
    if findings:
        for line in (*finding_lines(findings), "refused  lock write: nothing was written"):
            click.echo(clean(line))
        return 1
    if not quiet:
        kernels = sum(item.kernels for item in lock.baselines)
        bundles = counted(len(lock.baselines), "bundle")
        click.echo(clean(f"ok  lock write: {bundles}, {counted(kernels, 'kernel')} in {out}"))
    return 0


def _alias(text: str) -> tuple[str, str]:
    lane, equals, other = text.partition("=")
    if not (lane and equals and other):
        raise CallError(f"--alias {text}: expected LANE=OTHER, such as llvm24=llvm23")
    return lane, other


@command.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--lock", default="kpack.lock", show_default=True, metavar="FILE", help="The lock to hold it to."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
@click.option("-v", "--verbose", is_flag=True, help="Name every kernel, also where there are many.")
@_run_options
def check_command(
    paths: tuple[str, ...],
    lock: str,
    form: str,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Hold what is at each PATH to a lock. Reads every kernel.

    Exit status 1 where anything is missing, new or changed.
    """
    settings = reading_settings(options, quiet=quiet)
    result = run.check(paths, lock, settings)
    settings.progress.stop()
    click.echo(as_json(result) if form == "json" else as_text(result, quiet=quiet, verbose=verbose), nl=False)
    return 0 if result.ok else 1
