"""What descriptors are emitted for: the files of artifact directories, build trees and install prefixes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kpacktools.descriptors.emitting import Places, default_component, open_targets
from kpacktools.descriptors.model import ARTIFACT_NAME
from kpacktools.descriptors.staged import of_artifacts
from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import Claimer, prefix_of
from kpacktools.plugins import load_registry
from kpacktools.policy import Policy
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.opening import open_shard
from kpacktools.trees.shards import Artifact

__all__ = ["Source", "of_artifact_directories", "of_tree"]


class Source(Struct, frozen=True):
    """The files of one artifact and the component of each."""

    artifact: str
    components: Mapping[str, Mapping[str, str]]
    """Stage directory -> file -> component."""
    places: Mapping[str, Places]
    """Stage directory -> engine content and the patterns for it."""

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(map(len, self.components.values()))


def of_artifact_directories(
    tree: str, policy: Policy, only: str | None = None
) -> tuple[list[Source], list[Finding]]:
    """What the artifact directories of a shard, or of a split or merged set, hold, by artifact.

    The findings are errors where a file is in several components or below no stage prefix.

    Raises :class:`~kpacktools.errors.CallError` where the artifact ``only`` is not there.
    """
    targets = policy.targets()
    shard = open_shard(tree, targets)
    names = sorted({artifact.name for artifact in shard.artifacts})
    if only is not None:
        if only not in names:
            raise CallError(f"--artifact {only}: {tree} holds {', '.join(names)}")
        names = [only]
    artifacts = [artifact for artifact in shard.artifacts if artifact.name in names]
    staged = of_artifacts(tree, artifacts)
    found = [*shard.findings]
    sources = []
    claimer = Claimer(load_registry(), targets, policy.opaque)
    for name in names:
        components = staged[name].components or {}
        found += (
            _twice(name, f"{stage}/{path}", mine)
            for stage, files in components.items()
            for path, mine in files.items()
            if len(mine) > 1
        )
        found += (
            finding("descriptor-uncaptured", path, "lies below no stage prefix of its artifact directory")
            for path in staged[name].outside
        )
        places: dict[str, dict[str, tuple[str, ...]]] = {}
        for artifact in artifacts:
            if artifact.name == name:
                _add_places(places, claimer, artifact)
        sources.append(
            Source(
                name,
                {stage: {p: mine[0] for p, mine in files.items()} for stage, files in components.items()},
                places,
            )
        )
    return sources, found


def _twice(artifact: str, path: str, components: Sequence[str]) -> Finding:
    return finding(
        "descriptor-overlap",
        path,
        f"is in artifact directories of several components of {artifact}: {', '.join(components)}",
        "a file belongs to one component: remove it from the others",
    )


def _add_places(places: dict[str, dict[str, tuple[str, ...]]], claimer: Claimer, artifact: Artifact) -> None:
    """Add the patterns for an artifact's engine content, by stage directory and path below it."""
    claimed = claimer.claim(artifact)
    for folder, entries in artifact.tree.folders.items():
        prefix = prefix_of(artifact, folder)
        claim = claimed.folders.get(folder)
        single = claimed.files.get(folder, {})
        if prefix is None or (claim is None and not single):
            continue
        cut = 0 if artifact.mount else len(prefix) + 1
        for entry in entries:
            if claim is not None:
                patterns = open_targets(entry.path[cut:], claim.root[cut:])
            elif entry.path in single:
                patterns = open_targets(entry.path[cut:], None)
            else:
                continue
            places.setdefault(prefix, {})[entry.path[cut:]] = patterns


def of_tree(tree: str, policy: Policy, name: str | None = None, stages: Sequence[str] = ()) -> Source:
    """What the stage directories of a build tree hold, or an install prefix as one stage directory.

    ``stages`` names the stage directories, for lack of which folders named ``stage`` are searched for; in an install
    prefix, which has none of them, it is the one that the prefix becomes (``stage``).

    Raises :class:`~kpacktools.errors.CallError` where nothing says which artifact it is, and for stage directories
    that are not there.
    """
    inside = [folder for folder in stages if os.path.isdir(os.path.join(tree, folder))]
    if stages and inside and len(inside) != len(stages):
        missing = next(folder for folder in stages if folder not in inside)
        raise CallError(f"--stage {missing}: {tree} holds no such folder")
    found = tuple(inside) or (() if stages else _find_stages(tree))
    if found:
        roots = {folder: os.path.join(tree, folder) for folder in found}
    else:
        if len(stages) > 1:
            raise CallError(f"{tree} holds none of the stage directories {', '.join(stages)}")
        roots = {stages[0] if stages else "stage": tree}
    artifact = name or _artifact_of(tree, found)
    claimer = Claimer(load_registry(), policy.targets(), policy.opaque)
    places: dict[str, dict[str, tuple[str, ...]]] = {}
    components = {}
    for folder, root in sorted(roots.items()):
        content = Artifact(artifact, "lib", "generic", (folder,), scan_directory(root), mount=f"{folder}/")
        _add_places(places, claimer, content)
        mine = places.get(folder, {})
        components[folder] = {
            entry.path: default_component(artifact, entry.path, engine_content=entry.path in mine)
            for entries in content.tree.folders.values()
            for entry in entries
        }
    return Source(artifact, components, places)


def _find_stages(tree: str) -> tuple[str, ...]:
    """The outermost folders named ``stage``, which is what TheRock's subprojects call theirs."""
    found = []
    for where, names, _ in os.walk(tree):
        if "stage" in names:
            found.append(os.path.relpath(os.path.join(where, "stage"), tree).replace(os.sep, "/"))
            names.remove("stage")
        names[:] = [name for name in names if not name.startswith(".")]
    return tuple(sorted(found))


def _artifact_of(tree: str, stages: Sequence[str]) -> str:
    """The artifact's name where no ``--artifact`` gives it: the folder above the only stage directory."""
    if len(stages) == 1:
        name = re.sub(r"[^A-Za-z0-9-]", "-", os.path.basename(os.path.dirname(stages[0])))
        if ARTIFACT_NAME.fullmatch(name):
            return name
    what = (
        f"holds the stage directories {', '.join(stages[:5])}" if stages else "is taken as an install prefix"
    )
    raise CallError(f"{tree} {what}: say with --artifact NAME which artifact they are")
