"""``kpacktools inspect``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools import commands
from kpacktools.cli.options import emit, prefix_from, prefix_options, run_options, settings_from, task_options

EPILOG = """\b
Examples:
  kpacktools inspect shards/
  kpacktools inspect merged --depth toc --require rocke:gfx942 --require lib/aiter:gfx950
  kpacktools inspect merged --format html -o report.html
  kpacktools inspect /shared/merged --scheduler tcp://head:8786"""


@click.command("inspect", epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="[COMPONENT/]ENGINE:KEY",
    help="Content that must be there; coverage-gap where it is not. May be repeated.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of stdout.")
@prefix_options
@run_options(default_depth="content", forms=("text", "json", "html", "sarif"))
@task_options
def command(
    paths: tuple[str, ...],
    requirements: tuple[str, ...],
    output: str | None,
    artifacts: tuple[str, ...],
    component: str | None,
    stage: str,
    **options: Any,
) -> int:
    """Check what is in builds, archives, wheels and kpacks, and write nothing.

    A PATH may be a folder of artifact directories, one artifact directory or archive, an install prefix, a wheel, a
    kpack, a bundle manifest, or any folder above or inside these.
    """
    settings = settings_from(options)
    prefix = prefix_from(artifacts, component, stage)
    report = commands.inspect(paths, settings, requirements, prefix)
    return emit(report, options["shown"], settings, output)
