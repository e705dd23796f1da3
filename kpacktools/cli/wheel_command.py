"""``kpacktools wheel``."""

from __future__ import annotations

from typing import Any

import click

from kpacktools.cli.options import emit, prefix_from, run_options, settings_from, task_options
from kpacktools.errors import CallError
from kpacktools.outputs.wheels import platform_tag
from kpacktools.outputs.wheelset import DEFAULT_OVERLAY, WheelOptions
from kpacktools.planning.kinds import KINDS
from kpacktools.sizes import parse_size
from kpacktools.trees.opening import is_wheel_file
from kpacktools.wheelbuild import WheelRun, wheel

EPILOG = """\b
Examples:
  kpacktools wheel merged -o dist --version 7.15.0
  kpacktools wheel merged -o dist --version 7.15.0 --device gfx942 --dry-run
  kpacktools wheel /shared/merged -o /shared/dist --version 7.15.0 --scheduler local:4
  kpacktools wheel amd_aiter-0.1.7-py3-none-any.whl -o dist
  kpacktools wheel merged -o dist --version 7.15.0 --requires 'my-libs=={version}' --external my-libs"""


@click.command("wheel", epilog=EPILOG)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "-o", "--output", "dist", required=True, metavar="DIST", help="Folder for the wheels, or its URL."
)
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
    "--rpath",
    "rpaths",
    multiple=True,
    metavar="DIR",
    help="Let the RUNPATH of device libraries lead to this folder below site-packages (needs kpacktools[rpath]). "
    "May be repeated.",
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
    "--only",
    "only",
    multiple=True,
    metavar="KEY",
    help="With a wheel as SOURCE: make one wheel of the same name that keeps only this device's content.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="Pack only device content of this kind. May be repeated.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    help="wheel-too-large for a wheel of more bytes: 100MB, 1GiB. An error with --strict.",
)
@click.option(
    "--variants",
    is_flag=True,
    help="Experimental: make processors' wheels variants (PEP 825) of one distribution, NAME of --dist-prefix, and "
    "their index (needs kpacktools[variants]).",
)
@click.option("--replace", is_flag=True, help="Replace wheels that exist with other content.")
@click.option("--dry-run", is_flag=True, help="Check and plan; write nothing.")
@run_options()
@task_options
def command(sources: tuple[str, ...], dist: str, version: str | None, **options: Any) -> int:
    """Build device wheels from SOURCE... (merged artifact directories, shards, or an install prefix) into DIST.

    A wheel holds one device's content, to be installed beside the host's wheel. A SOURCE may also be one wheel that
    carries several devices: it is split into a host wheel of the same name and version, and device wheels.
    """
    settings = settings_from(options)
    wheels = [source for source in sources if is_wheel_file(source)]
    if wheels and (len(sources) > 1 or version is not None or options["shards_file"] is not None):
        raise CallError(f"{wheels[0]} is a wheel: it is split alone, and keeps its name and version")
    if wheels and (options["rpaths"] or options["variants"]):
        raise CallError(f"{wheels[0]} is a wheel: --rpath and --variants are for other sources")
    if options["only"] and not wheels:
        raise CallError("--only is for a SOURCE that is a wheel; --device chooses which wheels are built")
    if wheels:
        from kpacktools.wheelsplit import split_wheel

        report = split_wheel(wheels[0], dist, settings, _selected(options), options["only"])
        return emit(report, options["shown"], settings)
    if version is None:
        raise CallError("--version is needed: the version that every wheel of the set gets, such as 7.15.0")
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
        rpaths=options["rpaths"],
    )
    selected = _selected(options)
    report = wheel(sources, dist, settings, wheel_options, selected)
    return emit(report, options["shown"], settings)


def _selected(options: dict[str, Any]) -> WheelRun:
    components = options["components"]
    return WheelRun(
        devices=options["devices"],
        artifacts=options["artifacts"],
        components=components,
        dry_run=options["dry_run"],
        replace=options["replace"],
        prefix=prefix_from(options["artifacts"], components[0] if components else None, options["stage"]),
        shards_file=options["shards_file"],
        by_engine=options["parts"] == "engine",
        meta=options["meta"],
        meta_from=options["meta_from"],
        max_size=None if options["max_size"] is None else parse_size("--max-size", options["max_size"]),
        kinds=frozenset(options["kinds"]),
        variants=options["variants"],
    )
