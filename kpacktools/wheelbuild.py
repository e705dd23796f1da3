"""Building wheels: the ``wheel`` command as a function."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from kpacktools.commands import Run, start_run
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.hookspecs import Depth
from kpacktools.outputs.metawheel import built_wheel, meta_spec, read_reports
from kpacktools.outputs.sbom import Provenance
from kpacktools.outputs.staging import Staging, stage
from kpacktools.outputs.wheels import WrittenWheel, wheel_filename, write_wheels
from kpacktools.outputs.wheelset import (
    META,
    KnownFiles,
    PlannedWheel,
    WheelOptions,
    installed_files,
    specifier,
    wheel_specs,
)
from kpacktools.pipeline import Checks, Settings, conclude, plan
from kpacktools.planning.exceptions import Exceptions
from kpacktools.planning.layouts import OwnerLayout
from kpacktools.planning.merge import Plan
from kpacktools.planning.plan import PlannedFile
from kpacktools.planning.selection import Selection
from kpacktools.remote.delivery import Target, deliver
from kpacktools.reports.model import OutputReport, Report
from kpacktools.reports.plaintext import human_size
from kpacktools.tasks.log import logged
from kpacktools.trees.shards import Prefix
from kpacktools.wheellinks import unresolved_libraries

__all__ = ["WheelRun", "finish", "known_files", "wheel"]

_NAMED_AT_MOST = 4
NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})


class WheelRun(Struct, frozen=True):
    """What the wheel command selects, beyond the options of the set."""

    devices: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    components: tuple[str, ...] = ("lib",)
    dry_run: bool = False
    replace: bool = False
    prefix: Prefix = field(default_factory=Prefix)
    shards_file: str | None = None
    by_engine: bool = False
    """A wheel per engine, which the device's wheel requires."""
    meta: str | None = None
    """Distribution of a wheel with an extra for each device."""
    meta_from: tuple[str, ...] = ()
    """Reports of other platforms' runs."""
    max_size: int | None = None
    """Bytes that no wheel should exceed."""
    kinds: frozenset[str] = frozenset()
    """Kinds of device content that are packed; empty for all."""
    variants: bool = False
    """Processors' wheels as variants (PEP 825) of one distribution."""


def wheel(
    sources: Sequence[str],
    dist: str,
    settings: Settings,
    options: WheelOptions,
    selected: WheelRun = WheelRun(),
) -> Report:
    """Build device wheels, one per package owner, into ``dist``: a folder, or a URL.

    Raises :class:`~kpacktools.errors.CallError`.
    """

    def write(target: Target) -> Report:
        there = replace(selected, dry_run=target.dry_run, replace=target.replace)
        return _wheel(sources, target.folder, settings, options, there)

    return deliver(dist, write, settings, replace=selected.replace, dry_run=selected.dry_run)


def _wheel(
    sources: Sequence[str], dist: str, settings: Settings, options: WheelOptions, selected: WheelRun
) -> Report:
    run = start_run("wheel", sources, settings, selected.prefix, selected.shards_file)
    run.refuse_nested(dist)
    options = replace(options, external=(*options.external, *settings.policy.external))
    if refused := run.refused():
        return refused
    selection = Selection(
        devices=tuple(run.targets.device(text) for text in selected.devices),
        parents=True,
        artifacts=frozenset(selected.artifacts),
        components=frozenset(selected.components),
        generic=options.host is not None,
        none_expected=settings.policy.none_expected,
        kinds=selected.kinds,
    )
    exceptions = Exceptions(foreign=settings.policy.foreign, generic=settings.policy.generic)
    layout = OwnerLayout(by_engine=selected.by_engine)
    planned = plan(run.inputs, layout, selection, run.targets, settings, exceptions)
    checks = run.check()
    if not options.rpaths:
        return _build(run, dist, planned, checks, options, selected)
    from kpacktools.rpath import repathed

    with repathed(planned.folders, options.overlay, options.rpaths, settings.jobs) as made:
        planned = replace(planned, folders=made.folders, notes=(*planned.notes, *made.notes))
        return _build(run, dist, planned, checks, options, selected)


def _build(
    run: Run, dist: str, planned: Plan, checks: Checks, options: WheelOptions, selected: WheelRun
) -> Report:
    def installed() -> dict[str, PlannedFile]:
        # A link leads to what is packed, which may be a changed copy.
        packed = {file.dest: file for folder in planned.folders for file in folder.files}
        return {**installed_files(run.inputs), **packed}

    wheels, findings = wheel_specs(planned.folders, options, run.targets, installed, known_files(run, checks))
    if run.settings.depth >= Depth.TOC:
        findings += tuple(unresolved_libraries(run.inputs, planned.folders, options))
    report = run.report(checks, replace(planned, findings=planned.findings + findings))
    if not report.ok:
        return report
    if not selected.variants:
        return finish(run, dist, wheels, report, checks, selected, options.pin)
    if selected.meta is not None:
        raise CallError(
            "--meta has an extra for each device's distribution, and variants are of one: take either"
        )
    from kpacktools.variants import variant_set

    made = variant_set(wheels, options.dist_prefix)
    report = replace(
        report, notes=(*report.notes, f"index of variants: {os.path.join(dist, made.index_name)}")
    )
    return finish(run, dist, made.wheels, report, checks, selected, files={made.index_name: made.index})


def finish(
    run: Run,
    dist: str,
    wheels: Sequence[PlannedWheel],
    report: Report,
    checks: Checks,
    selected: WheelRun,
    pin: str = "exact",
    files: Mapping[str, bytes] = NO_FILES,
) -> Report:
    """Write planned wheels (or, in a dry run, say what would be written) and add them to the report.

    ``files`` are further ones, by name, that go beside the wheels.

    Raises :class:`~kpacktools.errors.CallError` where a wheel cannot be made or written; ``dist`` is then as before.
    """
    others = read_reports(selected.meta_from)
    try:
        names = [wheel_filename(item.spec) for item in wheels]
        if selected.meta is not None:
            ours = [built_wheel(w.key, n) for w, n in zip(wheels, names, strict=True) if _is_device(w)]
            version = wheels[0].spec.version
            pins = {version: specifier(version, pin)}
            meta = PlannedWheel(META, meta_spec(selected.meta, version, [*ours, *others], pins))
            wheels = [*wheels, meta]
        if selected.dry_run:
            outputs = tuple(_planned_wheel(dist, item) for item in wheels)
            notes = (*report.notes, *map(_wheel_note, wheels))
            return replace(report, outputs=outputs, notes=notes, dry_run=True)
        return _write(dist, wheels, report, checks, run.settings, selected, files)
    except ValueError as error:
        raise CallError(f"these wheels cannot be made: {error}") from error
    except OSError as error:
        place = error.filename or dist
        raise CallError(f"{place}: {error.strerror or error}; {dist} is as it was before") from error


def _is_device(item: PlannedWheel) -> bool:
    return item.key != "generic" and not item.engine


def _write(
    dist: str,
    wheels: Sequence[PlannedWheel],
    report: Report,
    checks: Checks,
    settings: Settings,
    selected: WheelRun,
    beside: Mapping[str, bytes],
) -> Report:
    with stage(dist) as staging:
        written = _written(staging, wheels, settings, packed_sizes=selected.max_size is not None)
        too_large = tuple(_too_large(dist, wheels, written, checks, selected.max_size))
        if too_large:
            report = conclude(replace(report, findings=report.findings + too_large), settings)
            if not report.ok:
                return report
        for name, content in beside.items():
            with open(staging.path(name), "wb") as stream:
                stream.write(content)
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


def _written(
    staging: Staging, wheels: Sequence[PlannedWheel], settings: Settings, *, packed_sizes: bool
) -> list[WrittenWheel]:
    """Write wheels, by workers or by threads."""
    specs = [item.spec for item in wheels]
    files, size = sum(len(spec.files) for spec in specs), sum(item.size for item in wheels)
    dispatch = settings.dispatch
    if dispatch is not None:
        settings.progress.start("packing", files=files, size=size)
        from kpacktools.tasks.writing import write_wheels_elsewhere

        keys = [item.key for item in wheels]
        return write_wheels_elsewhere(dispatch, staging, specs, keys, packed_sizes=packed_sizes)
    with logged(settings.log, "wheel", staging.out, files=files, size=size):
        return write_wheels(
            specs,
            staging.root,
            jobs=settings.jobs,
            progress=settings.progress,
            packed_sizes=packed_sizes,
        )


def known_files(run: Run, checks: Checks) -> KnownFiles:
    """What the checks found out about each kpack and loose code object, for the SBOMs."""
    listed = {item.shard.name: item.shard for item in run.inputs if item.shard.is_listed}
    known: dict[tuple[int, str], Provenance] = {}
    for item in checks.bundles:
        bundle = item.bundle
        tree = id(bundle.artifact.tree)
        about = Provenance(
            engine=bundle.engine,
            target=bundle.key.name,
            shard=bundle.shard if bundle.shard in listed else None,
            run=listed[bundle.shard].run if bundle.shard in listed else None,
            lane=item.lane_name,
            compilers=tuple(sorted(item.compilers)),
            build_id=item.build_id,
        )
        for entry, summary in zip(bundle.files(".kpack"), item.kpacks, strict=True):
            known[tree, entry.path] = replace(about, kernels=summary.kernels)
        known.update({(tree, entry.path): about for entry in bundle.files(".co", ".hsaco")})
    return known


def _too_large(
    dist: str,
    wheels: Sequence[PlannedWheel],
    written: Sequence[WrittenWheel],
    checks: Checks,
    limit: int | None,
) -> Iterator[Finding]:
    """``wheel-too-large``, with what makes the wheel large, by engine."""
    if limit is None:
        return
    engines = {
        (id(item.bundle.artifact.tree), entry.path): item.bundle.engine
        for item in checks.bundles
        for entry in item.bundle.entries
    }
    for item, done in zip(wheels, written, strict=True):
        if done.size <= limit:
            continue
        sizes: dict[str, int] = {}
        for member in item.spec.files:
            engine = engines.get((id(member.tree), member.path), "generic")
            sizes[engine] = sizes.get(engine, 0) + done.packed[member.arcname]
        largest = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_NAMED_AT_MOST]
        words = ", ".join(f"{engine} {human_size(size)}" for engine, size in largest)
        yield finding(
            "wheel-too-large",
            os.path.join(dist, os.path.basename(done.path)),
            f"has {done.size} bytes, more than the {limit} of --max-size; the largest contributors: {words}",
            "--parts engine makes a wheel per engine; or ask the index for a larger limit",
            severity=Severity.WARNING,
        )


def _wheel_note(item: PlannedWheel) -> str:
    """A planned wheel's distribution, level and requirements."""
    spec = item.spec
    name = canonicalize_name(spec.distribution)
    needs = f", requires {', '.join(spec.requires)}" if spec.requires else ""
    return f"{name} {spec.version}: {item.level} {item.key}{needs}"


def _planned_wheel(dist: str, item: PlannedWheel) -> OutputReport:
    path = os.path.join(dist, wheel_filename(item.spec))
    return OutputReport(path, "wheel", item.key, len(item.spec.files), item.size, "planned")
