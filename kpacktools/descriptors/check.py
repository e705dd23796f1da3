"""``kpacktools artifacts check`` as a function: paths in, a report out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kpacktools.descriptors.checking import Applied, apply_descriptor, check_capture, starved_components
from kpacktools.descriptors.discovery import find_descriptors, parse_map
from kpacktools.descriptors.model import Descriptor, name_of, read_descriptor
from kpacktools.descriptors.overlaps import check_overlaps
from kpacktools.descriptors.staged import Staged, holds_artifacts, of_artifacts, of_build_tree
from kpacktools.errors import CallError
from kpacktools.findings import Finding
from kpacktools.pipeline import Settings, conclude
from kpacktools.planning.merge import Counts
from kpacktools.reports.model import Report
from kpacktools.trees.opening import open_shard
from kpacktools.trees.places import identity, place_of, shown

__all__ = ["check", "read_all"]


def check(
    descriptors: Sequence[str], tree: str, settings: Settings, *, mapped: Iterable[str] = (), platform: str
) -> Report:
    """Check descriptors against the files of a build tree, an artifact directory or a folder of these.

    ``descriptors`` are files, or folders that are searched for some; ``mapped`` are the values of ``--map``, and
    ``platform`` is what ``optional`` is judged on, such as ``linux``.

    Raises :class:`~kpacktools.errors.CallError` for a path that is unusable.
    """
    read, findings = read_all(descriptors, parse_map(mapped))
    settings.progress.start(f"scanning {tree}")
    staged, more, notes = _open(tree, read, settings)
    found = [*findings, *more]
    applied = []
    for descriptor in read:
        found += starved_components(descriptor)
        mine = staged.get(descriptor.artifact)
        if mine is None:
            notes.append(f"{descriptor.path}: {tree} holds no artifact directory of {descriptor.artifact}")
        elif _is_anothers(descriptor, read, mine):
            notes.append(
                f"{descriptor.path}: {tree} holds stage directories of another descriptor, and none of its own"
            )
        else:
            applied.append(apply_descriptor(descriptor, mine))
    for one in applied:
        found += check_capture(one, platform)
    found += check_overlaps(applied)
    report = Report("artifacts check", tuple(found), counts=_counts(applied), notes=tuple(notes))
    return conclude(report, settings)


def _open(
    tree: str, read: Sequence[Descriptor], settings: Settings
) -> tuple[Mapping[str, Staged], Sequence[Finding], list[str]]:
    """The files of each artifact in a tree, what is wrong with the tree, and notes.

    Raises :class:`~kpacktools.errors.CallError` where it holds artifact directories, and none of a descriptor's.
    """
    described = {descriptor.artifact for descriptor in read}
    if not holds_artifacts(tree):
        whole = of_build_tree(tree, (name for descriptor in read for name in descriptor.stages()))
        return dict.fromkeys(described, whole), (), []
    shard = open_shard(tree, settings.policy.targets())
    staged = of_artifacts(tree, shard.artifacts)
    if read and described.isdisjoint(staged):
        raise CallError(
            f"{shown(tree)} holds artifact directories of {', '.join(staged)}; the descriptors are those of "
            f"{', '.join(sorted(described))}"
        )
    undescribed = sorted(staged.keys() - described)
    notes = [
        f"{shown(tree)} holds artifact directories of {name}, which none of the descriptors describes"
        for name in undescribed
    ]
    return staged, shard.findings, notes


def read_all(paths: Sequence[str], mapped: Mapping[str, str]) -> tuple[list[Descriptor], tuple[Finding, ...]]:
    """Read descriptors; folders are searched for them. ``mapped`` is real path -> artifact.

    Raises :class:`~kpacktools.errors.CallError` for a path that is not there, a folder without descriptors, and a
    file that nothing says the artifact of.
    """
    wanted: dict[tuple[str, str | None], str] = {}
    for path in paths:
        places, where = place_of(path)
        if not places.exists(where):
            raise CallError(f"{where}: no such file or folder")
        if not places.is_folder(where):
            real = identity(path)
            wanted[real, mapped.get(real) or name_of(path)] = path
            continue
        found = find_descriptors(path, mapped)
        if not found.files:
            raise CallError(f"{path} holds no descriptor, artifact-NAME.toml")
        for file in found.files:
            for artifact in found.artifacts[file] or (None,):
                wanted[identity(file), artifact] = file
    descriptors: list[Descriptor] = []
    findings: list[Finding] = []
    for (_, artifact), file in wanted.items():
        descriptor, more = read_descriptor(file, artifact)
        findings += more
        if descriptor is not None:
            descriptors.append(descriptor)
    return descriptors, tuple(findings)


def _is_anothers(descriptor: Descriptor, read: Iterable[Descriptor], staged: Staged) -> bool:
    """True for one of several descriptors of an artifact (of another platform, say) that has no stage directory in
    the tree, where another one has."""
    if not staged.stages.keys().isdisjoint(descriptor.stages()):
        return False
    return any(
        other is not descriptor
        and other.artifact == descriptor.artifact
        and not staged.stages.keys().isdisjoint(other.stages())
        for other in read
    )


def _counts(applied: Iterable[Applied]) -> Counts:
    """Files in: those of the stage directories; out: captured; filtered: those that ``[options]`` excuse."""
    looked_at, captured, excused = set(), set(), set()
    for one in applied:
        scope = "" if one.staged.components is None else one.descriptor.artifact
        for stage in one.descriptor.stages():
            looked_at |= {(scope, stage, path) for path in one.staged.stages.get(stage, ())}
            captured |= {(scope, stage, path) for path in one.capture.taken[stage]}
            excused |= {(scope, stage, path) for path in one.excused(stage)}
    return Counts(files_in=len(looked_at), files_out=len(captured), files_filtered=len(excused - captured))
