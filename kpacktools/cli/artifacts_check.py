"""``kpacktools artifacts check``."""

from __future__ import annotations

import platform as this
from typing import Any

import click

from kpacktools.cli.options import emit, run_options, settings_from
from kpacktools.errors import CallError

EPILOG = """\b
Examples:
  kpacktools artifacts check ml-libs/artifact-hipkernelprovider.toml build/
  kpacktools artifacts check ml-libs/artifact-hipkernelprovider.toml merged/
  kpacktools artifacts check third-party/ build/ --map base=base/artifact.toml"""


@click.command("check", epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="DESCRIPTOR... TREE")
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="NAME=FILE",
    help="The artifact that FILE describes, where its name is not artifact-NAME.toml. May be repeated.",
)
@click.option(
    "--platform",
    type=click.Choice(["linux", "windows", "darwin"]),
    default=this.system().lower(),
    show_default=True,
    help="Where stage directories marked optional for a platform may be missing.",
)
@run_options(default_depth=None)
def command(paths: tuple[str, ...], mapped: tuple[str, ...], platform: str, **options: Any) -> int:
    """Check descriptors (files, or folders that hold some) against the files of TREE.

    TREE is a build tree that holds the stage directories, an artifact directory, or a folder of artifact directories.
    Every file of a stage directory must be captured, and no two captured files may be installed at one path.
    """
    from kpacktools.descriptors.check import check

    *descriptors, tree = paths
    if not descriptors:
        raise CallError(
            "expected DESCRIPTOR... TREE: one descriptor or more, then the tree that they describe"
        )
    settings = settings_from(options)
    report = check(descriptors, tree, settings, mapped=mapped, platform=platform)
    return emit(report, options["shown"], settings)
