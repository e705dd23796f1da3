"""Files below stage directories: what descriptors are applied to.

A stage directory (``ml-libs/hipkernelprovider/stage``) holds one subproject's part of the install tree. They lie in a
build tree, all of an artifact's components together, or in artifact directories, one for each component and target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.trees import Tree
from kpacktools.trees.names import MANIFEST_NAME
from kpacktools.trees.places import place_of
from kpacktools.trees.shards import Artifact

__all__ = ["Staged", "holds_artifacts", "of_artifacts", "of_build_tree"]

_ARCHIVES = (".tar.zst", ".tar.xz")


class Staged(Struct, frozen=True):
    """The files of some stage directories."""

    where: str
    """The folder that the stage directories lie in, as the user would type it; for messages."""
    stages: Mapping[str, tuple[str, ...]]
    """Stage directory -> its files and links as paths relative to it, sorted. Directories that are missing in the
    tree are missing here."""
    components: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
    """Stage directory -> file -> the components whose artifact directories hold it; None for a build tree, where
    nothing says."""
    present: frozenset[str] | None = None
    """The components that have an artifact directory here; None for a build tree, which has all."""
    outside: tuple[str, ...] = ()
    """Files of artifact directories that lie below no stage prefix, as the user would type them."""


def holds_artifacts(path: str) -> bool:
    """True where a path is an artifact directory or archive, or a folder that holds some directly.

    Raises :class:`~kpacktools.errors.CallError` for a path that is not there or cannot be listed.
    """
    places, path = place_of(path)
    if not places.exists(path):
        raise CallError(f"{path}: no such file or folder")
    if not places.is_folder(path):
        if path.endswith(_ARCHIVES):
            return True
        raise CallError(f"{path}: expected a build tree, an artifact directory or a folder of them")
    if places.is_file(places.join(path, MANIFEST_NAME)):
        return True
    return any(
        child.name.endswith(_ARCHIVES) or places.is_file(places.join(child.path, MANIFEST_NAME))
        for child in places.children(path)
    )


def of_build_tree(path: str, stages: Iterable[str]) -> Staged:
    """Scan some stage directories of a build tree, and nothing else of it.

    Raises :class:`~kpacktools.errors.CallError` when a folder cannot be listed.
    """
    found = {}
    places, path = place_of(path)
    for stage in sorted(set(stages)):
        folder = places.join(path, stage)
        if places.is_folder(folder):
            found[stage] = tuple(sorted(_paths(places.tree(folder))))
    return Staged(path, found)


def of_artifacts(path: str, artifacts: Iterable[Artifact]) -> dict[str, Staged]:
    """The stage directories of artifact directories by artifact name, components and targets laid together."""
    by_name: dict[str, list[Artifact]] = {}
    for artifact in artifacts:
        by_name.setdefault(artifact.name, []).append(artifact)
    return {name: _together(path, by_name[name]) for name in sorted(by_name)}


def _together(path: str, artifacts: Sequence[Artifact]) -> Staged:
    components: dict[str, dict[str, list[str]]] = {}
    outside: list[str] = []
    for artifact in artifacts:
        for stage in artifact.prefixes:
            components.setdefault(stage, {})
        for file in _paths(artifact.tree):
            inside = [stage for stage in artifact.prefixes if file.startswith(stage + "/")]
            if not inside:
                outside.append(artifact.where(file))
                continue
            stage = max(inside, key=len)
            mine = components[stage].setdefault(file[len(stage) + 1 :], [])
            if artifact.component not in mine:
                mine.append(artifact.component)
    return Staged(
        path,
        {stage: tuple(sorted(files)) for stage, files in sorted(components.items())},
        {stage: {f: tuple(sorted(m)) for f, m in files.items()} for stage, files in components.items()},
        frozenset(artifact.component for artifact in artifacts),
        tuple(outside),
    )


def _paths(tree: Tree) -> Iterable[str]:
    return (entry.path for entries in tree.folders.values() for entry in entries)
