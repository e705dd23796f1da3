"""``kpacktools split``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools import commands
from kpacktools.cli.folder_options import folder_options, merge_options_from
from kpacktools.cli.options import emit, prefix_options, run_options, settings_from, task_options

EPILOG = """\b
Examples:
  kpacktools split build/hipkernelprovider_lib_gfx942 -o artifacts
  kpacktools split /opt/rocm -o artifacts --artifact hipkernelprovider --stage ml-libs/hipkernelprovider/stage"""


@click.command("split", epilog=EPILOG)
@click.argument("source", metavar="SRC")
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="OUT",
    help="Folder for the artifact directories, or its URL.",
)
@folder_options
@prefix_options
@run_options()
@task_options
def command(source: str, out: str, **options: Any) -> int:
    """Split SRC into OUT/{name}_{component}_generic and OUT/{name}_{component}_{target}.

    Other entries of OUT stay, so that many runs can fill one folder. Splitting a split changes nothing.
    """
    settings = settings_from(options)
    report = commands.split(source, out, settings, merge_options_from(options))
    return emit(report, options["shown"], settings)
