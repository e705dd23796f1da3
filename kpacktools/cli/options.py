"""Options that several commands share, and how their reports reach the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.textfile import write_text
from kpacktools.pipeline import Settings
from kpacktools.policy import load_policy
from kpacktools.reports.model import Report
from kpacktools.tasks.log import open_log
from kpacktools.trees.shards import Prefix

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = [
    "cache_option",
    "default_jobs",
    "emit",
    "jobs_option",
    "policy_option",
    "prefix_from",
    "prefix_options",
    "reading_settings",
    "run_options",
    "settings_from",
    "task_options",
]

F = TypeVar("F", bound=Callable[..., Any])


cache_option = click.option(
    "--cache",
    metavar="DIR",
    help="Keep what is found out about files in DIR, and read known ones no more than needed.",
)


policy_option = click.option(
    "--policy", metavar="FILE", help="TOML file of declared exceptions and severities."
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads or processes at work.  [default: the processors that this process may use]",
)


def run_options(
    default_depth: str | None = "toc", *, forms: Sequence[str] = ("text", "json")
) -> Callable[[F], F]:
    """``--format --policy --strict --jobs -q -v``, and ``--depth`` for commands that read bundles."""
    options = [
        click.option(
            "--format",
            "form",
            type=click.Choice(forms),
            default="text",
            show_default=True,
            help="What to print on stdout; with any but text nothing else is printed there.",
        ),
        policy_option,
        click.option("--strict", is_flag=True, help="Count warnings as errors."),
        jobs_option,
        click.option("-q", "--quiet", is_flag=True, help="Print findings of severity error only."),
        click.option(
            "-v", "--verbose", is_flag=True, help="Print every finding, and why files are claimed or generic."
        ),
    ]
    if default_depth is not None:
        options.append(cache_option)
        options.insert(
            0,
            click.option(
                "--depth",
                type=click.Choice(["layout", "toc", "content"]),
                default=default_depth,
                show_default=True,
                help="layout: names, sizes, manifests; toc: also each kpack's table of contents; content: also "
                "every kernel.",
            ),
        )

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def task_options(function: F) -> F:
    """``--scheduler --task-log``."""
    for option in (
        click.option(
            "--task-log",
            metavar="FILE",
            help="Write a line of JSON to FILE for each task that ends: shard, key, bytes, seconds, worker.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Let the workers of a Dask cluster check and write (needs kpacktools[dask]): tcp://HOST:PORT or "
            "tls://HOST:PORT of its scheduler, or local:N for N processes here. The result is the same.",
        ),
    ):
        function = option(function)
    return function


def prefix_options(function: F) -> F:
    """What an install prefix becomes."""
    for option in (
        click.option(
            "--stage", default="stage", show_default=True, metavar="DIR", help="... and stage prefix."
        ),
        click.option("--component", "component", metavar="C", help="... and component.  [default: lib]"),
        click.option(
            "--artifact",
            "artifacts",
            multiple=True,
            metavar="NAME",
            help="Artifact name that an install prefix becomes.  [default: prefix]",
        ),
    ):
        function = option(function)
    return function


def prefix_from(artifacts: tuple[str, ...], component: str | None, stage: str) -> Prefix:
    """Read :func:`prefix_options`. Raises :class:`~kpacktools.errors.CallError`."""
    name = artifacts[0] if artifacts else "prefix"
    part = component or "lib"
    for option, value in (("--artifact", name), ("--component", part)):
        if not value or any(c in value for c in "_/\\") or value.startswith("."):
            raise CallError(f"{option} {value}: expected a name without underscore or slash")
    parts = stage.split("/")
    if stage.startswith("/") or "\\" in stage or any(p in ("", ".", "..") for p in parts):
        raise CallError(f"--stage {stage}: expected a plain relative path, such as ml-libs/x/stage")
    return Prefix(name, part, stage)


def settings_from(options: dict[str, Any]) -> Settings:
    """Take the options of :func:`run_options` out of a command's arguments.

    Raises :class:`~kpacktools.errors.CallError` for an unusable policy file, scheduler or log.
    """
    options["shown"] = {name: options.pop(name) for name in ("form", "quiet", "verbose")}
    return reading_settings(options, quiet=options["shown"]["quiet"])


def reading_settings(options: dict[str, Any], *, quiet: bool) -> Settings:
    """Take what says how inputs are read out of a command's arguments: ``--depth --policy --strict --jobs --cache
    --scheduler --task-log``, as many of them as it has. Workers and log are there until the command ends.

    Raises :class:`~kpacktools.errors.CallError` for what is unusable.
    """
    from kpacktools.reports.terminal import progress_for

    scheduler, task_log = options.pop("scheduler", None), options.pop("task_log", None)
    settings = Settings(
        depth=Depth[options.pop("depth", "toc").upper()],
        policy=load_policy(options.pop("policy")),
        strict=options.pop("strict", False),
        jobs=options.pop("jobs") or default_jobs(),
        progress=progress_for(sys.stderr, quiet=quiet),
        cache=_opened_cache(options.pop("cache", None)),
    )
    until_the_end = click.get_current_context().with_resource
    # An error, too, is printed when the bar is gone.
    click.get_current_context().call_on_close(settings.progress.stop)
    if task_log is not None:
        settings = replace(settings, log=until_the_end(open_log(task_log)))
    if scheduler is not None:
        from kpacktools.tasks.cluster import workers_at

        settings = replace(settings, workers=until_the_end(workers_at(scheduler)))
    return settings


def _opened_cache(folder: str | None) -> Cache | None:
    """The cache of ``--cache``. Raises :class:`~kpacktools.errors.CallError` for a folder that is unusable."""
    if folder is None:
        return None
    from kpacktools.cache import Cache

    return Cache(folder)


def _show_transfers() -> None:
    """What was transferred from and to stores, on stderr; nothing where no URL was opened."""
    module = sys.modules.get("kpacktools.remote.store")
    for store in () if module is None else module.open_stores():
        click.echo(
            f"{store.root or 'https://'}: {store.bytes_read:,} bytes read in {store.reads:,} requests, "
            f"{store.bytes_written:,} written",
            err=True,
        )


def default_jobs() -> int:
    """The processors that this process may use: its affinity, and its control group's quota on Linux."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as stream:
            quota, period = stream.read().split()
        if quota != "max":
            available = min(available, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return max(1, available)


def emit(report: Report, shown: dict[str, Any], settings: Settings, output: str | None = None) -> int:
    """Print a report and return the exit status."""
    settings.progress.stop()
    if shown["verbose"]:
        _show_transfers()
    if shown["form"] == "json":
        from kpacktools.reports.jsonreport import as_json

        text = as_json(report)
    elif shown["form"] == "html":
        from kpacktools.reports.html import as_html
        from kpacktools.reports.kernellists import kernel_lists

        text = as_html(report, kernel_lists(report.bundles))
    elif shown["form"] == "sarif":
        from kpacktools.reports.sarif import as_sarif

        text = as_sarif(report, root=os.getcwd())
    else:
        from kpacktools.reports.text import as_text

        to_terminal = output is None and sys.stdout.isatty()
        text = as_text(report, quiet=shown["quiet"], verbose=shown["verbose"], terminal=to_terminal)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
    return 0 if report.ok else 1
