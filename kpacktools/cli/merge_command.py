"""``kpacktools merge``."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from kpacktools import commands
from kpacktools.cli.folder_options import folder_options, merge_options_from
from kpacktools.cli.options import emit, prefix_options, run_options, settings_from, task_options

EPILOG = """\b
Examples:
  kpacktools merge shards/gfx942 shards/gfx950 -o merged
  kpacktools merge shards/* -o merged --dry-run
  kpacktools merge shards/* -o prefix --flatten --link hardlink
  kpacktools merge --shards release.toml --primary gfx942 --policy policy.toml -o merged
  kpacktools merge --shards release.toml -o /shared/merged --scheduler tcp://head:8786 --task-log tasks.jsonl"""


@click.command("merge", epilog=EPILOG)
@click.argument("shards", nargs=-1, metavar="[SHARD]...")
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="OUT",
    help="Folder for the artifact directories, or its URL.",
)
@click.option(
    "--shards", "shards_file", metavar="FILE", help="TOML file that lists shards: name, path, targets, run."
)
@click.option(
    "--primary",
    metavar="SHARD",
    help="Shard (name or path) whose generic files are taken where a policy's [[generic]] lines say so.",
)
@click.option("--flatten", is_flag=True, help="Make OUT one install prefix instead.")
@folder_options
@prefix_options
@run_options()
@task_options
def command(
    shards: tuple[str, ...],
    out: str,
    flatten: bool,
    shards_file: str | None,
    primary: str | None,
    **options: Any,
) -> int:
    """Merge per-architecture builds (SHARD...) into OUT; every kpack stays byte for byte one of the inputs.

    A SHARD is a folder of artifact directories or archives, one of these, or an install prefix.
    """
    settings = settings_from(options)
    merge_options = replace(
        merge_options_from(options, flatten=flatten), shards_file=shards_file, primary=primary
    )
    report = commands.merge(shards, out, settings, merge_options)
    return emit(report, options["shown"], settings)
