"""The commands as functions: paths and settings in, a :class:`~kpacktools.reports.model.Report` out.

The command line is a thin layer over these. Outputs are touched only where no finding is an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.folders import compare_folder, write_folders
from kpacktools.outputs.staging import stage
from kpacktools.outputs.wheels import wheel_filename, write_wheels
from kpacktools.outputs.wheelset import PlannedWheel, WheelOptions, installed_files, wheel_specs
from kpacktools.pipeline import (
    Checks,
    Requirement,
    Settings,
    check,
    claim,
    conclude,
    input_reports,
    open_inputs,
    plan,
    required,
    unknown_targets,
)
from kpacktools.planning.merge import ArtifactLayout, FlatLayout, Input, OwnerLayout, Plan, Selection
from kpacktools.plugins import Registry, load_registry
from kpacktools.reports.model import OutputReport, Report
from kpacktools.targets import TargetTable
from kpacktools.trees.shards import Prefix

__all__ = ["MergeOptions", "inspect", "merge", "split", "wheel"]

LinkMode = Literal["auto", "hardlink", "copy"]


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How split and merge write."""

    devices: tuple[str, ...] = ()
    flatten: bool = False
    link: LinkMode = "auto"
    replace: bool = False
    dry_run: bool = False
    prefix: Prefix = field(default_factory=Prefix)


@dataclass(frozen=True, slots=True)
class _Run:
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
        )
        if plan is not None:
            report = replace(report, counts=plan.counts, notes=plan.notes)
        return conclude(report, self.settings)

    def refused(self) -> Report | None:
        """The report of a run that stops before any file is read: targets that nobody knows."""
        unknown = unknown_targets(self.inputs)
        report = self.report(Checks(findings=unknown))
        return None if report.ok else report


def _start(
    command: str, paths: Sequence[str], settings: Settings, prefix: Prefix, *, any_depth: bool = False
) -> _Run:
    registry = load_registry()
    targets = settings.policy.targets()
    settings.progress.start(f"scanning {len(paths)} inputs")
    shards = open_inputs(paths, targets, prefix, any_depth=any_depth)
    shards.sort(key=lambda shard: (shard.name, shard.path))  # the order of arguments changes nothing
    return _Run(command, settings, registry, targets, claim(shards, registry, targets))


def inspect(
    paths: Sequence[str],
    settings: Settings = Settings(depth=Depth.CONTENT),
    requirements: Sequence[str] = (),
    prefix: Prefix = Prefix(),
) -> Report:
    """Look at trees and archives; write nothing.

    Raises :class:`~kpacktools.errors.CallError` for a path or requirement that is unusable.
    """
    wanted = [Requirement.parse(text, settings.policy.targets()) for text in requirements]
    run = _start("inspect", paths, settings, prefix, any_depth=True)
    checks = check(run.inputs, run.registry, run.targets, settings)
    gaps = tuple(required(wanted, checks, run.registry))
    report = run.report(replace(checks, findings=checks.findings + gaps))
    files = sum(item.files for item in report.inputs)
    return replace(report, counts=replace(report.counts, files_in=files))


def split(source: str, out: str, settings: Settings, options: MergeOptions = MergeOptions()) -> Report:
    """Split one tree into a generic part and one part per target.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    return _write_folders("split", [source], out, settings, options)


def merge(
    shards: Sequence[str], out: str, settings: Settings, options: MergeOptions = MergeOptions()
) -> Report:
    """Merge shards into one set of artifact directories, or one prefix, without fusing a kpack.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    return _write_folders("merge", shards, out, settings, options)


def _write_folders(
    command: str, paths: Sequence[str], out: str, settings: Settings, options: MergeOptions
) -> Report:
    _refuse_nested(paths, out, allow_same=False)
    run = _start(command, paths, settings, options.prefix)
    if refused := run.refused():
        return refused
    devices = tuple(run.targets.device(text) for text in options.devices)
    selection = Selection(devices, none_expected=settings.policy.none_expected)
    layout = FlatLayout() if options.flatten else ArtifactLayout()
    planned = plan(run.inputs, layout, selection, run.targets, settings.jobs)
    report = run.report(check(run.inputs, run.registry, run.targets, settings), planned)
    if not report.ok:
        return report
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
            size = sum(file.entry.size for file in folder.files)
            path = os.path.join(out, folder.name) if folder.name else out
            outputs.append(OutputReport(path, kind, folder.key, len(folder.files), size, state))
        return replace(report, outputs=tuple(outputs), dry_run=True)
    size = sum(file.entry.size for folder in planned.folders for file in folder.files)
    settings.progress.start("writing", files=planned.counts.files_out, size=size)
    written = write_folders(
        out,
        planned.folders,
        link=options.link,
        replace=options.replace,
        jobs=settings.jobs,
        progress=settings.progress,
    )
    return replace(
        report,
        outputs=tuple(
            OutputReport(item.path, kind, item.key, item.files, item.bytes, item.state) for item in written
        ),
    )


def _refuse_nested(paths: Sequence[str], out: str, *, allow_same: bool) -> None:
    """An output inside an input would be its own input the next time; an input inside OUT could be replaced."""
    target = os.path.realpath(out)
    for path in paths:
        source = os.path.realpath(path)
        if target.startswith(source + os.sep) or (target == source and not allow_same):
            raise CallError(f"-o {out} lies in the input {path}: write beside it")


@dataclass(frozen=True, slots=True)
class WheelRun:
    """What the wheel command selects, beyond the options of the set."""

    devices: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    components: tuple[str, ...] = ("lib",)
    dry_run: bool = False
    replace: bool = False
    prefix: Prefix = field(default_factory=Prefix)


def wheel(
    sources: Sequence[str],
    dist: str,
    settings: Settings,
    options: WheelOptions,
    selected: WheelRun = WheelRun(),
) -> Report:
    """Build device wheels, one per package owner, into the folder ``dist``.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    _refuse_nested(sources, dist, allow_same=False)
    run = _start("wheel", sources, settings, selected.prefix)
    if refused := run.refused():
        return refused
    selection = Selection(
        devices=tuple(run.targets.device(text) for text in selected.devices),
        parents=True,
        artifacts=frozenset(selected.artifacts),
        components=frozenset(selected.components),
        generic=options.host is not None,
        none_expected=settings.policy.none_expected,
    )
    planned = plan(run.inputs, OwnerLayout(), selection, run.targets, settings.jobs)
    wheels, findings = wheel_specs(planned.folders, options, run.targets, lambda: installed_files(run.inputs))
    checks = check(run.inputs, run.registry, run.targets, settings)
    report = run.report(checks, replace(planned, findings=planned.findings + findings))
    if not report.ok:
        return report
    if selected.dry_run:
        return replace(report, outputs=tuple(_planned_wheel(dist, wheel) for wheel in wheels), dry_run=True)
    files = sum(len(item.spec.files) for item in wheels)
    settings.progress.start("packing", files=files, size=sum(item.size for item in wheels))
    with stage(dist) as staging:
        specs = [item.spec for item in wheels]
        written = write_wheels(specs, staging.root, jobs=settings.jobs, progress=settings.progress)
        states = staging.publish(replace=selected.replace)
    return replace(
        report,
        outputs=tuple(
            OutputReport(
                path=os.path.join(dist, os.path.basename(done.path)),
                kind="wheel",
                key=item.key,
                files=len(item.spec.files),
                size=done.size,
                state=states[os.path.basename(done.path)],
            )
            for item, done in zip(wheels, written, strict=True)
        ),
    )


def _planned_wheel(dist: str, wheel: PlannedWheel) -> OutputReport:
    path = os.path.join(dist, wheel_filename(wheel.spec))
    return OutputReport(path, "wheel", wheel.key, len(wheel.spec.files), wheel.size, "planned")
