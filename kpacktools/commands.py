"""The commands as functions: paths and settings in, a :class:`~kpacktools.reports.model.Report` out.

The command line is a thin layer over these. Outputs are touched only where no finding is an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from kpacktools.checks.coverage import Requirement, required
from kpacktools.errors import CallError
from kpacktools.findings import counted
from kpacktools.hookspecs import Depth
from kpacktools.outputs.folders import WrittenFolder, compare_folder, write_folders
from kpacktools.pipeline import (
    Checks,
    Settings,
    check,
    claim,
    conclude,
    input_reports,
    open_inputs,
    plan,
    policy_notes,
    primary_name,
    unknown_targets,
)
from kpacktools.planning.exceptions import Exceptions
from kpacktools.planning.layouts import ArtifactLayout, FlatLayout
from kpacktools.planning.merge import Plan
from kpacktools.planning.selection import Input, Selection
from kpacktools.plugins import Registry, load_registry
from kpacktools.remote.delivery import Target, deliver
from kpacktools.reports.model import OutputReport, Report
from kpacktools.targets import TargetTable
from kpacktools.tasks.log import logged
from kpacktools.trees.access import Access
from kpacktools.trees.decompress import ArchiveForm
from kpacktools.trees.places import identity
from kpacktools.trees.shards import Prefix, Shard
from kpacktools.trees.shardsfile import read_shards_file

__all__ = ["MergeOptions", "Run", "inspect", "merge", "run_over", "split", "start_run"]

LinkMode = Literal["auto", "hardlink", "copy"]


class MergeOptions(Struct, frozen=True):
    """How split and merge write."""

    devices: tuple[str, ...] = ()
    flatten: bool = False
    link: LinkMode = "auto"
    archive: ArchiveForm | None = None
    """Archives instead of artifact directories."""
    replace: bool = False
    dry_run: bool = False
    prefix: Prefix = field(default_factory=Prefix)
    shards_file: str | None = None
    primary: str | None = None


class Run(Struct, frozen=True):
    """What every command needs, and what it has seen so far."""

    command: str
    settings: Settings
    registry: Registry
    targets: TargetTable
    inputs: tuple[Input, ...]

    def report(self, checks: Checks = Checks(), plan: Plan | None = None) -> Report:
        """A concluded report of checks and plan."""
        findings = checks.findings + (plan.findings if plan else ())
        report = Report(
            command=self.command,
            findings=findings,
            inputs=input_reports(self.inputs),
            bundles=checks.bundles,
            kernels_checked=checks.kernels_checked,
            duplicates=checks.duplicates,
        )
        if plan is not None:
            report = replace(report, counts=plan.counts, notes=plan.notes)
        notes = (*report.notes, *policy_notes(self.inputs, checks, self.settings.policy))
        return conclude(replace(report, notes=notes), self.settings)

    def check(self) -> Checks:
        """Check everything, the policy's required content included."""
        checks = check(self.inputs, self.registry, self.targets, self.settings)
        wanted = [Requirement.parse(text, self.targets) for text in self.settings.policy.required]
        return replace(
            checks, findings=checks.findings + tuple(required(wanted, checks.bundles, self.registry))
        )

    def refuse_nested(self, out: str) -> None:
        """Refuse an output inside an input, which would be its own input the next time.

        Raises :class:`~kpacktools.errors.CallError`.
        """
        target = identity(out)
        for item in self.inputs:
            source = identity(item.shard.path)
            if target == source or target.startswith((source + os.sep, source + "/")):
                raise CallError(f"-o {out} lies in the input {item.shard.path}: write beside it")

    def refused(self) -> Report | None:
        """The report of a run that stops before any file is read: targets that nobody knows."""
        unknown = unknown_targets(self.inputs)
        if not unknown:
            return None
        report = self.report(Checks(findings=unknown))
        return None if report.ok else report


def start_run(
    command: str,
    paths: Sequence[str],
    settings: Settings,
    prefix: Prefix,
    shards_file: str | None = None,
    *,
    any_depth: bool = False,
) -> Run:
    targets = settings.policy.targets()
    entries = () if shards_file is None else read_shards_file(shards_file, targets)
    settings.progress.start(f"scanning {counted(len(paths) + len(entries), 'input')}")
    access = access_of(settings, writes=not any_depth)
    shards = open_inputs(paths, targets, prefix, entries=entries, any_depth=any_depth, access=access)
    if not shards:
        raise CallError(f"{command}: no input is named, neither as an argument nor in --shards FILE")
    return run_over(command, shards, settings)


def access_of(settings: Settings, *, writes: bool) -> Access:
    """How inputs are reached; a command that writes reads all of them, whatever the depth."""
    return Access(
        cache=settings.cache,
        whole=settings.depth >= Depth.CONTENT or writes,
    )


def run_over(command: str, shards: Sequence[Shard], settings: Settings) -> Run:
    """A run over shards that are open already."""
    registry = load_registry()
    targets = settings.policy.targets()
    return Run(command, settings, registry, targets, claim(shards, registry, targets, settings.policy))


def inspect(
    paths: Sequence[str],
    settings: Settings = Settings(depth=Depth.CONTENT),
    requirements: Sequence[str] = (),
    prefix: Prefix = Prefix(),
) -> Report:
    """Look at trees and archives; write nothing.

    Raises :class:`~kpacktools.errors.CallError` for a path or requirement that is unusable.
    """
    from kpacktools.remote.published import check_published

    wanted = [Requirement.parse(text, settings.policy.targets()) for text in requirements]
    run = start_run("inspect", paths, settings, prefix, any_depth=True)
    checks = run.check()
    found = list(required(wanted, checks.bundles, run.registry))
    access = access_of(settings, writes=False)
    for path in paths:
        found += check_published(path, access, content=settings.depth >= Depth.CONTENT, jobs=settings.jobs)
    report = run.report(replace(checks, findings=(*checks.findings, *found)))
    files = sum(item.files for item in report.inputs)
    return replace(report, counts=replace(report.counts, files_in=files))


def split(source: str, out: str, settings: Settings, options: MergeOptions = MergeOptions()) -> Report:
    """Split one tree into a generic part and one part per target.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    return _deliver("split", [source], out, settings, options)


def merge(
    shards: Sequence[str], out: str, settings: Settings, options: MergeOptions = MergeOptions()
) -> Report:
    """Merge shards into one set of artifact directories, or one prefix, without fusing a kpack.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    return _deliver("merge", shards, out, settings, options)


def _deliver(
    command: str, paths: Sequence[str], out: str, settings: Settings, options: MergeOptions
) -> Report:
    def write(target: Target) -> Report:
        link = "hardlink" if target.is_passing and options.link == "auto" else options.link
        there = replace(options, link=link, replace=target.replace, dry_run=target.dry_run)
        return _write_folders(command, paths, target.folder, settings, there)

    return deliver(out, write, settings, replace=options.replace, dry_run=options.dry_run)


def _written(out: str, planned: Plan, settings: Settings, options: MergeOptions) -> tuple[WrittenFolder, ...]:
    """Write what was planned, by workers or by threads."""
    size = sum(folder.size for folder in planned.folders)
    settings.progress.start("writing", files=planned.counts.files_out, size=size)
    dispatch = settings.dispatch
    if dispatch is not None:
        from kpacktools.tasks.writing import fill_elsewhere

        return write_folders(
            out,
            planned.folders,
            replace=options.replace,
            progress=settings.progress,
            fill=partial(fill_elsewhere, dispatch, options.link),
        )
    with logged(settings.log, "folder", out, files=planned.counts.files_out, size=size):
        return write_folders(
            out,
            planned.folders,
            link=options.link,
            replace=options.replace,
            jobs=settings.jobs,
            progress=settings.progress,
        )


def _write_folders(
    command: str, paths: Sequence[str], out: str, settings: Settings, options: MergeOptions
) -> Report:
    if options.archive and options.flatten:
        raise CallError("--archive makes archives of artifact directories, and --flatten an install prefix")
    run = start_run(command, paths, settings, options.prefix, options.shards_file)
    run.refuse_nested(out)
    if refused := run.refused():
        return refused
    devices = tuple(run.targets.device(text) for text in options.devices)
    selection = Selection(devices, none_expected=settings.policy.none_expected)
    layout = FlatLayout() if options.flatten else ArtifactLayout()
    exceptions = Exceptions(
        foreign=settings.policy.foreign,
        generic=settings.policy.generic,
        primary=primary_name(options.primary, [item.shard for item in run.inputs]),
    )
    planned = plan(run.inputs, layout, selection, run.targets, settings, exceptions)
    report = run.report(run.check(), planned)
    if not report.ok:
        return report
    if options.archive:
        from kpacktools.archiving import archive_outputs

        return archive_outputs(
            report,
            out,
            planned.folders,
            settings,
            form=options.archive,
            replace=options.replace,
            dry_run=options.dry_run,
        )
    kind = "prefix" if options.flatten else "artifact"
    if options.dry_run:
        states = {"absent": "planned", "equal": "kept", "differs": "replaced"}
        outputs = []
        for folder in planned.folders:
            state = states[compare_folder(out, folder)]
            if state == "replaced" and not options.replace:
                raise CallError(
                    f"{os.path.join(out, folder.name)} exists with other content; --replace would replace it"
                )
            size = folder.size
            path = os.path.join(out, folder.name) if folder.name else out
            outputs.append(OutputReport(path, kind, folder.key, folder.count, size, state))
        return replace(report, outputs=tuple(outputs), dry_run=True)
    written = _written(out, planned, settings, options)
    return replace(
        report,
        outputs=tuple(
            OutputReport(item.path, kind, item.key, item.files, item.bytes, item.state) for item in written
        ),
    )
