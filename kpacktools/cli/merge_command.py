"""``kpacktools merge``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools import commands
from kpacktools.cli.folder_options import folder_options, merge_options_from
from kpacktools.cli.options import emit, prefix_options, run_options, settings_from

EPILOG = """\b
Examples:
  kpacktools merge shards/gfx942 shards/gfx950 -o merged
  kpacktools merge shards/* -o merged --dry-run
  kpacktools merge shards/* -o prefix --flatten --link hardlink"""


@click.command("merge", epilog=EPILOG)
@click.argument("shards", nargs=-1, required=True, metavar="SHARD...")
@click.option(
    "-o", "--output", "out", required=True, metavar="OUT", help="Folder for the artifact directories."
)
@click.option("--flatten", is_flag=True, help="Make OUT one install prefix instead.")
@folder_options
@prefix_options
@run_options()
def command(shards: tuple[str, ...], out: str, flatten: bool, **options: Any) -> int:
    """Merge per-architecture builds (SHARD...) into OUT; every kpack stays byte for byte one of the inputs.

    A SHARD is a folder of artifact directories, one artifact directory, or an install prefix.
    """
    settings = settings_from(options)
    report = commands.merge(shards, out, settings, merge_options_from(options, flatten=flatten))
    return emit(report, options["shown"], settings)
