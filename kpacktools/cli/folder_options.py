"""Options that split and merge share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kpacktools.cli.options import prefix_from
from kpacktools.commands import MergeOptions

__all__ = ["folder_options", "merge_options_from"]

F = TypeVar("F", bound=Callable[..., Any])


def folder_options(function: F) -> F:
    """``--device --link --archive --replace --dry-run``."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Check and plan; write nothing."),
        click.option("--replace", is_flag=True, help="Replace outputs that exist with other content."),
        click.option(
            "--archive",
            type=click.Choice(["zst", "xz"]),
            help="Write .tar.zst or .tar.xz archives with .sha256sum files instead of artifact directories.",
        ),
        click.option(
            "--link",
            type=click.Choice(["auto", "hardlink", "copy"]),
            default="auto",
            show_default=True,
            help="auto: independent files, by reflink where the file system has it; hardlink: fast, but changing "
            "an output in place changes the input; copy: plain copies.",
        ),
        click.option(
            "--device",
            "devices",
            multiple=True,
            metavar="KEY",
            help="Keep only this target's content (and the generic part): gfx942, or family:gfx11. May be "
            "repeated.",
        ),
    ):
        function = option(function)
    return function


def merge_options_from(options: dict[str, Any], *, flatten: bool = False) -> MergeOptions:
    """Take the options of :func:`folder_options` and the prefix's out of a command's arguments."""
    prefix = prefix_from(options.pop("artifacts"), options.pop("component"), options.pop("stage"))
    return MergeOptions(
        devices=options.pop("devices"),
        flatten=flatten,
        link=options.pop("link"),
        archive=options.pop("archive"),
        replace=options.pop("replace"),
        dry_run=options.pop("dry_run"),
        prefix=prefix,
    )
