"""``kpacktools wheel``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools.cli.options import emit, prefix_from, run_options, settings_from
from kpacktools.errors import CallError
from kpacktools.outputs.wheels import platform_tag
from kpacktools.outputs.wheelset import DEFAULT_OVERLAY, WheelOptions
from kpacktools.sizes import parse_size
from kpacktools.wheelbuild import WheelRun, wheel

EPILOG = """\b
Examples:
  kpacktools wheel merged -o dist --version 7.15.0
  kpacktools wheel merged -o dist --version 7.15.0 --device gfx942 --dry-run
  kpacktools wheel merged -o dist --version 7.15.0 --requires 'my-libs=={version}' --external my-libs"""


@click.command("wheel", epilog=EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("-o", "--output", "dist", required=True, metavar="DIST", help="Folder for the wheels.")
@click.option("--version", "version", metavar="V", help="Version of every wheel of the set.")
@click.option(
    "--shards", "shards_file", metavar="FILE", help="TOML file that lists sources: name, path, targets, run."
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="KEY",
    help="Build only this device's wheel, and its parents': gfx942, or family:gfx11. May be repeated.",
)
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="NAME",
    help="Pack only this artifact; also the name that an install prefix becomes. May be repeated.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    default=("lib",),
    show_default=True,
    metavar="C",
    help="Pack this component. May be repeated.",
)
@click.option("--stage", default="stage", metavar="DIR", hidden=True)
@click.option(
    "--dist-prefix",
    default="rocm-sdk-device",
    show_default=True,
    metavar="NAME",
    help="A wheel's distribution is NAME-<key>.",
)
@click.option(
    "--overlay",
    default=DEFAULT_OVERLAY,
    show_default=True,
    metavar="DIR",
    help="Folder below site-packages that the content is laid over.",
)
@click.option(
    "--requires",
    "requires",
    multiple=True,
    metavar="REQ",
    help="Requirement of every wheel; {version} and {key} are filled in. "
    "[default: rocm-sdk-libraries=={version}]",
)
@click.option(
    "--external",
    "external",
    multiple=True,
    metavar="DIST",
    help="A distribution that may be required without being built here. May be repeated.",
)
@click.option(
    "--pin",
    type=click.Choice(["exact", "compatible"]),
    default="exact",
    show_default=True,
    help="How wheels of the set require one another.",
)
@click.option(
    "--platform-tag", metavar="TAG", help="[default: $ROCM_SDK_WHEEL_PLATFORM_TAG, else this platform's]"
)
@click.option("--build-tag", metavar="N", help="Build number, for a rebuild of one version.")
@click.option(
    "--host", metavar="DIST", help="Also build the wheel of the generic part, as this distribution."
)
@click.option(
    "--devel-links/--no-devel-links",
    default=None,
    help="Add the link manifest that rocm-sdk init reads.  [default: for _rocm_sdk_libraries]",
)
@click.option(
    "--parts",
    type=click.Choice(["engine"]),
    help="Also split each device's content by engine: a wheel per engine, which the device's wheel requires.",
)
@click.option(
    "--meta", metavar="DIST", help="Also build a wheel without files that has an extra for each device."
)
@click.option(
    "--meta-from",
    "meta_from",
    multiple=True,
    metavar="REPORT",
    help="JSON report of another platform's run, for the extras of --meta. May be repeated.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    help="wheel-too-large for a wheel of more bytes: 100MB, 1GiB. An error with --strict.",
)
@click.option("--replace", is_flag=True, help="Replace wheels that exist with other content.")
@click.option("--dry-run", is_flag=True, help="Check and plan; write nothing.")
@run_options()
def command(sources: tuple[str, ...], dist: str, version: str | None, **options: Any) -> int:
    """Build device wheels from SOURCE... (merged artifact directories, shards, or an install prefix) into DIST.

    A wheel holds one device's content, to be installed beside the host's wheel.
    """
    settings = settings_from(options)
    if version is None:
        raise CallError("--version is needed: the version that every wheel of the set gets, such as 7.15.0")
    components = options["components"]
    overlay = options["overlay"].strip("/")
    devel_links = options["devel_links"]
    wheel_options = WheelOptions(
        version=version,
        dist_prefix=options["dist_prefix"],
        overlay=overlay,
        requires=options["requires"] or None,
        external=options["external"],
        pin=options["pin"],
        platform_tag=platform_tag(options["platform_tag"]),
        build_tag=options["build_tag"],
        host=options["host"],
        devel_links=overlay == DEFAULT_OVERLAY if devel_links is None else devel_links,
    )
    selected = WheelRun(
        devices=options["devices"],
        artifacts=options["artifacts"],
        components=components,
        dry_run=options["dry_run"],
        replace=options["replace"],
        shards_file=options["shards_file"],
        by_engine=options["parts"] == "engine",
        meta=options["meta"],
        meta_from=options["meta_from"],
        max_size=None if options["max_size"] is None else parse_size("--max-size", options["max_size"]),
        prefix=prefix_from(options["artifacts"], components[0] if components else None, options["stage"]),
    )
    report = wheel(sources, dist, settings, wheel_options, selected)
    return emit(report, options["shown"], settings)
