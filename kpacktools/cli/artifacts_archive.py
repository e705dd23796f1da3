"""``kpacktools artifacts archive``."""

from __future__ import annotations

from typing import Any, Final

import click

from kpacktools.cli.options import emit, run_options, settings_from, task_options

__all__ = ["command"]

EPILOG: Final = """\b
Examples:
  kpacktools artifacts archive build/artifacts -o build/artifacts
  kpacktools artifacts archive merged/hipkernelprovider_lib_gfx942 -o upload --form xz

SOURCE_DATE_EPOCH is the time of all files in the archives; without it, it is 1970."""


@click.command("archive", epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option(
    "-o", "--output", "out", required=True, metavar="OUT", help="Folder for the archives, or its URL."
)
@click.option(
    "--form",
    "archive_form",
    type=click.Choice(["zst", "xz"]),
    default="zst",
    show_default=True,
    help="zst: fast, on all threads; xz: smaller, one thread an archive, 94 MiB of memory each.",
)
@click.option("--replace", is_flag=True, help="Replace archives that exist with other content.")
@click.option("--dry-run", is_flag=True, help="Check, and compare with what is there; write nothing.")
@run_options(default_depth=None)
@task_options
def command(sources: tuple[str, ...], out: str, **options: Any) -> int:
    """Write OUT/{name}_{component}_{key}.tar.zst, and .sha256sum beside it, for every artifact directory of SRC.

    A SRC is an artifact directory, an artifact archive, or a folder of them. The same content gives the same bytes,
    whenever, wherever and with however many threads; an archive that is there with these bytes is kept.
    """
    from kpacktools.archiving import archive

    settings = settings_from(options)
    report = archive(
        sources,
        out,
        settings,
        form=options["archive_form"],
        replace=options["replace"],
        dry_run=options["dry_run"],
    )
    return emit(report, options["shown"], settings)
