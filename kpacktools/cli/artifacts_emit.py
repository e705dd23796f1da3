"""``kpacktools artifacts emit``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools.cli.options import emit, run_options, settings_from

EPILOG = """\b
Examples:
  kpacktools artifacts emit merged -o descriptors
  kpacktools artifacts emit merged -o artifact-miopen.toml --artifact miopen
  kpacktools artifacts emit build -o . --artifact hipdnn --stage ml-libs/hipDNN/stage"""


@click.command("emit", epilog=EPILOG)
@click.argument("tree", metavar="TREE")
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="DIR|FILE",
    help="Folder for the descriptors, artifact-NAME.toml; or the file for the only one, ending in .toml.",
)
@click.option("--exact", is_flag=True, help="List every file instead of patterns that leave targets open.")
@click.option(
    "--artifact",
    metavar="NAME",
    help="Describe only this artifact; of a build tree or install prefix, the name of what it holds.",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="DIR",
    help="A stage directory of a build tree; the one that an install prefix becomes. May be repeated.  [default: "
    "the folders named stage]",
)
@click.option("--replace", is_flag=True, help="Replace descriptors that exist with other content.")
@click.option("--dry-run", is_flag=True, help="Make and check the descriptors; write nothing.")
@run_options(default_depth=None)
def command(tree: str, out: str, **options: Any) -> int:
    """Write the artifact-NAME.toml that captures exactly the files of TREE, component by component.

    TREE is a folder of artifact directories (a shard, or what split and merge wrote), one of these, a build tree with
    stage directories, or an install prefix.
    """
    from kpacktools.descriptors.emit import EmitOptions
    from kpacktools.descriptors.emit import emit as write

    names = ("artifact", "stages", "exact", "replace", "dry_run")
    chosen = EmitOptions(**{name: options.pop(name) for name in names})
    settings = settings_from(options)
    return emit(write(tree, out, settings, chosen), options["shown"], settings)
