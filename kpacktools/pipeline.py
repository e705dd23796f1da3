"""The line that every command is an end of: open shards, scan, claim, check, plan, write, report.

Each step is a function with plain data on both sides; :mod:`kpacktools.commands` strings them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.checks.generic import check_generic
from kpacktools.checks.host import shadowed_plugins
from kpacktools.checks.markers import check_hosts, find_hosts
from kpacktools.checks.paths import check_names
from kpacktools.checks.run import check_bundles
from kpacktools.checks.sets import mixed_builds, shadowing_variants
from kpacktools.checks.standalone import check_archive
from kpacktools.digests import digests_of, known_digest
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, counted, finding, sort_findings, with_severity
from kpacktools.hookspecs import Bundle, Depth, Handler
from kpacktools.lanes import check_lanes, default_lanes
from kpacktools.planning.adoption import adopt_archives
from kpacktools.planning.claims import OPAQUE, ClaimedArtifact, Claimer, bundles_of
from kpacktools.planning.exceptions import Exceptions
from kpacktools.planning.layouts import Layout
from kpacktools.planning.merge import Look, Plan, plan_merge
from kpacktools.planning.selection import Input, Selection
from kpacktools.plugins import Registry
from kpacktools.policy import NO_POLICY, Policy
from kpacktools.progress import SILENT, Progress
from kpacktools.reports.model import NO_DUPLICATES, Duplicates, InputReport, Report
from kpacktools.targets import TargetTable
from kpacktools.tasks.log import NO_LOG, TaskLog
from kpacktools.trees import Tree
from kpacktools.trees.access import Access
from kpacktools.trees.opening import open_shard, open_shards_below
from kpacktools.trees.places import identity, shown
from kpacktools.trees.shards import Artifact, Prefix, Shard
from kpacktools.trees.shardsfile import ShardEntry
from kpacktools.trees.single import is_kpack_file, kpack_shard

if TYPE_CHECKING:
    from kpacktools.cache import Cache
    from kpacktools.tasks.model import Dispatch, Workers

__all__ = ["Checks", "Settings", "check", "claim", "conclude", "open_inputs", "plan"]


OPAQUE_HANDLER = Handler()
"""Checks nothing but what the core checks of any bundle."""


class Settings(Struct, frozen=True):
    """What holds for a whole run."""

    depth: Depth = Depth.TOC
    policy: Policy = NO_POLICY
    strict: bool = False
    jobs: int = 1
    progress: Progress = SILENT
    cache: Cache | None = None
    """Where results of earlier runs are."""
    workers: Workers | None = None
    """Who does the tasks of checking, comparing and writing; None for threads of this process."""
    log: TaskLog = NO_LOG

    @property
    def dispatch(self) -> Dispatch | None:
        """How tasks are sent to the workers; None where this process does all work itself."""
        if self.workers is None:
            return None
        from kpacktools.tasks.model import Dispatch  # most runs have no workers

        return Dispatch(self.workers, self.jobs, self.progress, self.log)


class Checks(Struct, frozen=True):
    """What checking found."""

    bundles: tuple[CheckedBundle, ...] = ()
    findings: tuple[Finding, ...] = ()
    duplicates: Duplicates = NO_DUPLICATES

    @property
    def kernels_checked(self) -> int:
        """Kernels whose TOC entry or bytes were checked."""
        return sum(item.kernels_checked for item in self.bundles)


def open_inputs(
    paths: Sequence[str],
    targets: TargetTable,
    prefix: Prefix = Prefix(),
    *,
    entries: Sequence[ShardEntry] = (),
    any_depth: bool = False,
    access: Access = Access(),
) -> tuple[Shard, ...]:
    """Open the shards that some paths and the entries of a shards file name, in the order of their names, which
    tell them apart and do not depend on the order of arguments.

    ``any_depth`` also takes folders above or inside shards, as ``inspect`` does.

    Raises :class:`~kpacktools.errors.CallError` for a path that is unusable or named twice.
    """
    seen: dict[str, str] = {}
    shards: list[Shard] = []
    for entry in (*(ShardEntry(path) for path in paths), *entries):
        real = identity(entry.path)
        if real in seen:
            also = f" (as {shown(seen[real])})" if seen[real] != entry.path else ""
            raise CallError(f"{shown(entry.path)} is named twice{also}")
        seen[real] = entry.path
        if any_depth and is_kpack_file(entry.path, access):
            shards.append(kpack_shard(entry.path, access))
            continue
        if any_depth and entry.name is None:
            shards += open_shards_below(entry.path, targets, prefix, access)
            continue
        shard = open_shard(entry.path, targets, prefix, access)
        shards.append(
            replace(
                shard,
                name=entry.name or shard.name,
                targets=shard.targets if entry.targets is None else entry.targets,
                run=entry.run,
                is_listed=entry.is_listed,
            )
        )
    names = [shard.name for shard in shards]
    named = [replace(s, name=s.path) if names.count(s.name) > 1 else s for s in shards]
    return tuple(sorted(named, key=lambda shard: (shard.name, shard.path)))


def primary_name(primary: str | None, shards: Sequence[Shard]) -> str | None:
    """The name of the shard that ``--primary`` means, by its name or path.

    Raises :class:`~kpacktools.errors.CallError` where it is none of the inputs.
    """
    if primary is None:
        return None
    for shard in shards:
        if primary == shard.name or identity(shown(primary)) == identity(shard.path):
            return shard.name
    names = ", ".join(shard.name for shard in shards)
    raise CallError(f"--primary {shown(primary)}: no such shard; the inputs are {names}")


def claim(
    shards: Iterable[Shard], registry: Registry, targets: TargetTable, policy: Policy = NO_POLICY
) -> tuple[Input, ...]:
    """Claim every artifact of every shard."""
    claimer = Claimer(registry, targets, policy.opaque)

    def claimed(artifact: Artifact) -> ClaimedArtifact:
        found = claimer.claim(artifact)
        return found if artifact.is_file else adopt_archives(found, targets)

    return tuple(Input(shard, tuple(map(claimed, shard.artifacts))) for shard in shards)


def unknown_targets(inputs: Iterable[Input]) -> tuple[Finding, ...]:
    """Targets that nobody knows: reported before any file is read, since all that follows rests on them."""
    return tuple(
        found
        for item in inputs
        for found in (*item.shard.findings, *(f for c in item.artifacts for f in c.findings))
        if found.name == "unknown-target"
    )


def check(inputs: Sequence[Input], registry: Registry, targets: TargetTable, settings: Settings) -> Checks:
    """Check names, bundles and generic parts as deep as asked, on ``settings.jobs`` threads."""
    found: list[Finding] = [*registry.findings]
    digests: Mapping[tuple[str, str], str] = {}
    if has_wheels := any(claimed.is_wheel for item in inputs for claimed in item.artifacts):
        from kpacktools.checks.wheels import check_wheels  # what knows metadata takes long to import

        wheels = check_wheels(
            inputs, settings.depth, targets, settings.jobs, settings.progress, settings.cache
        )
        inputs, digests = wheels.inputs, wheels.digests
        found += wheels.findings
    bundles: list[Bundle] = []
    alone: list[CheckedBundle] = []
    for item in inputs:
        found += item.shard.findings
        for claimed in item.artifacts:
            if claimed.artifact.is_file:
                more, problems = check_archive(
                    item.shard, claimed.artifact, settings.depth, targets, cache=settings.cache
                )
                alone += more
                found += problems
                continue
            found += claimed.findings
            found += check_names(claimed.artifact)
            bundles += bundles_of(claimed, item.shard.name)
    found += _broken_plugins(registry, inputs)
    found += _mixed_runs(inputs)
    found += shadowed_plugins(inputs)
    size = sum(bundle.size for bundle in bundles)
    settings.progress.start(f"checking {counted(len(bundles), 'bundle')}", size=size)
    for item in inputs:
        for claimed in item.artifacts:
            artifact = claimed.artifact
            neutral = settings.policy.neutral_rule(artifact.name, artifact.component) is not None
            if not (neutral or artifact.is_file or claimed.is_wheel):
                found += check_generic(claimed, settings.depth)

    if settings.depth >= Depth.TOC:
        hosts = [host for item in inputs for claimed in item.artifacts for host in find_hosts(claimed)]
        found += check_hosts(hosts, inputs, targets)

    def handler_of(bundle: Bundle) -> Handler:
        return OPAQUE_HANDLER if bundle.handler == OPAQUE else registry.by_name(bundle.handler).handler

    checked, copies = check_bundles(
        bundles,
        handler_of,
        settings.depth,
        targets,
        settings.jobs,
        settings.progress,
        cache=settings.cache,
        dispatch=settings.dispatch,
        log=settings.log,
    )
    for result in checked:
        found += result.findings
    checked += tuple(alone)
    found += check_lanes([result.lane for result in checked], default_lanes(), settings.policy.lanes)
    found += shadowing_variants(checked)
    found += mixed_builds(checked)
    if has_wheels:
        from kpacktools.checks.bills import check_bills

        found += check_bills(inputs, checked, digests, settings.depth)
    return Checks(checked, tuple(found), _duplicates(copies))


def _duplicates(copies: Counter[tuple[bytes, int]]) -> Duplicates:
    """Kernels that are among the bundles more than once."""
    extra = [(count - 1, size) for (_, size), count in copies.items() if count > 1]
    return Duplicates(sum(n for n, _ in extra), sum(n * size for n, size in extra))


def policy_notes(inputs: Sequence[Input], checks: Checks, policy: Policy) -> list[str]:
    """The reasons of exceptions that let something through unchecked."""
    notes = []
    unchecked = {item.bundle.engine for item in checks.bundles if item.bundle.handler == OPAQUE}
    for engine in sorted(unchecked & set(policy.opaque)):
        notes.append(f"policy [engines.{engine}]: split by folder and not checked: {policy.opaque[engine]}")
    artifacts = {(c.artifact.name, c.artifact.component) for item in inputs for c in item.artifacts}
    for name, component in sorted(artifacts):
        rule = policy.neutral_rule(name, component)
        if rule is not None:
            notes.append(f"{rule.source}: device code may stay generic in {name}_{component}: {rule.reason}")
    return notes


def _mixed_runs(inputs: Sequence[Input]) -> list[Finding]:
    runs: dict[str, list[str]] = {}
    for item in inputs:
        if item.shard.run is not None:
            runs.setdefault(item.shard.run, []).append(item.shard.name)
    if len(runs) < 2:
        return []
    listed = "; ".join(f"run {run}: {', '.join(names)}" for run, names in sorted(runs.items()))
    return [
        finding(
            "mixed-runs",
            ", ".join(sorted(runs)),
            f"the shards come from {len(runs)} build runs: {listed}",
            "take all shards of a release from one run",
        )
    ]


def _broken_plugins(registry: Registry, inputs: Sequence[Input]) -> list[Finding]:
    """Plugins that could not be loaded: an error where an engine of that name is among the inputs."""
    present = (
        {
            place.rpartition("/")[2]
            for item in inputs
            for claimed in item.artifacts
            for place in (*claimed.containers.values(), *claimed.artifact.tree.folders)
        }
        if registry.broken
        else set()
    )
    return [
        replace(problem, severity=Severity.ERROR) if name in present else problem
        for name, problem in registry.broken
    ]


def plan(
    inputs: Sequence[Input],
    layout: Layout,
    selection: Selection,
    targets: TargetTable,
    settings: Settings,
    exceptions: Exceptions = Exceptions(),
) -> Plan:
    """Plan the outputs; reads only files that several inputs offer."""

    def digest_all(files: Sequence[tuple[Tree, str]]) -> Iterable[str]:
        if settings.dispatch is not None:
            from kpacktools.tasks.digesting import digests_elsewhere

            return digests_elsewhere(files, settings.dispatch)
        return executor.map(lambda file: known_digest(file[0], file[1], settings.cache), files)

    with ThreadPoolExecutor(settings.jobs) as executor:
        look = Look(lambda files: digests_of(files, digest_all), _build_id)
        return plan_merge(inputs, layout, selection, targets, look, exceptions)


def _build_id(tree: Tree, path: str) -> str | None:
    from kpacktools.hostfile import build_id_of  # most runs have no two files to tell apart by it

    return build_id_of(tree, path)


def conclude(report: Report, settings: Settings) -> Report:
    """The report with the policy's severities, strictness and the fixed order of findings."""
    found = with_severity(report.findings, settings.policy.severities)
    if settings.strict:
        found = [replace(f, severity=Severity.ERROR) if f.severity is Severity.WARNING else f for f in found]
    return replace(report, findings=sort_findings(found))


def input_reports(inputs: Iterable[Input]) -> tuple[InputReport, ...]:
    """What was opened, in the order of shard names."""
    return tuple(
        InputReport(
            path=item.shard.path,
            shard=item.shard.name,
            targets=tuple(sorted(item.shard.targets)),
            files=sum(len(e) for c in item.artifacts for e in c.artifact.tree.folders.values()),
            size=sum(
                sum([e.size for e in f]) for c in item.artifacts for f in c.artifact.tree.folders.values()
            ),
            artifacts=tuple(c.artifact for c in item.artifacts),
        )
        for item in sorted(inputs, key=lambda item: (item.shard.name, item.shard.path))
    )
