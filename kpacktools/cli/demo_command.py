"""``kpacktools demo``."""

from __future__ import annotations

import os
import sys

import click

from kpacktools import commands
from kpacktools.cli.options import default_jobs
from kpacktools.data import data_path
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.wheels import platform_tag
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.remote.delivery import refuse_url
from kpacktools.reports.model import Report
from kpacktools.reports.text import as_text
from kpacktools.wheelbuild import WheelRun, wheel

VERSION = "1.0.0"


@click.command("demo")
@click.option(
    "-o",
    "--output",
    "out",
    default="kpacktools-demo",
    show_default=True,
    metavar="DIR",
    help="Folder for what the demo makes.",
)
def command(out: str) -> int:
    """Merge the example shards, build a wheel per device, and inspect the result down to the kernels.

    The shards hold small kernels of kpacktools' own, compiled for gfx942, gfx950 and gfx1201.
    """
    refuse_url(out)
    shards = sorted(str(path) for path in data_path("examples", "shards").iterdir())
    merged, dist = os.path.join(out, "merged"), os.path.join(out, "dist")
    settings = Settings(depth=Depth.CONTENT, jobs=default_jobs())
    options = WheelOptions(version=VERSION, platform_tag=platform_tag(None))
    replace = commands.MergeOptions(replace=True)
    names = " ".join(os.path.join("shards", os.path.basename(shard)) for shard in shards)
    _show(f"merge {names} -o {merged}", commands.merge(shards, merged, settings, replace))
    built = wheel([merged], dist, settings, options, WheelRun(replace=True))
    _show(f"wheel {merged} -o {dist} --version {VERSION}", built)
    _show(f"inspect {merged}", commands.inspect([merged], settings))
    click.echo(
        "What to look at next:\n"
        f"  ls {dist}                         three wheels, one per device\n"
        f"  pip install --no-deps {dist}/*gfx942*      lays gfx942's content over _rocm_sdk_libraries\n"
        f"  kpacktools kpack list $(find {merged} -name '*.kpack')\n"
        f"  kpacktools inspect {merged} --format json\n"
        f"  kpacktools merge --help           the same for your own builds"
    )
    return 0


def _show(line: str, report: Report) -> None:
    click.secho(f"$ kpacktools {line}", bold=True)
    click.echo(as_text(report, terminal=sys.stdout.isatty()))
    if not report.ok:
        raise CallError("the demo's own shards were refused: this installation is broken")
