"""Files of several stage directories, or of several artifacts, that would be installed as one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kpacktools.descriptors.checking import Applied
from kpacktools.findings import Finding, finding

__all__ = ["check_overlaps"]


class _Owner(NamedTuple):
    artifact: str
    component: str
    stage: str
    path: str
    """Of the descriptor."""


def check_overlaps(applied: Iterable[Applied]) -> Iterator[Finding]:
    """``descriptor-overlap`` for every installed path that two captured files would have once the stage directories
    are laid over one another, and ``path-type-conflict`` where one would be the other's folder.

    A later component that leaves a file to an earlier one is no overlap.
    """
    owners: dict[str, list[_Owner]] = {}
    for one in applied:
        for stage, files in one.capture.taken.items():
            for path, components in files.items():
                owner = _Owner(one.descriptor.artifact, components[0], stage, one.descriptor.path)
                owners.setdefault(path, []).append(owner)
    folders: dict[str, str] = {}
    for path in owners:
        _add_folders(folders, path)
    for path, mine in sorted(owners.items()):
        if len(mine) > 1:
            yield _overlap(path, mine)
        if path in folders:
            yield finding(
                "path-type-conflict",
                path,
                f"is a file of {_where(mine[0])} and a folder of {_where(owners[folders[path]][0])}",
                "one of them must be left out of the artifacts",
                sources=(mine[0].path, owners[folders[path]][0].path),
            )


def _overlap(path: str, owners: Sequence[_Owner]) -> Finding:
    first = owners[0]
    lost = any(o.artifact == first.artifact and o.stage != first.stage for o in owners[1:])
    return finding(
        "descriptor-overlap",
        path,
        f"is captured {len(owners)} times: by {'; by '.join(map(_where, owners))}"
        + (
            "; of two stage directories of one artifact, TheRock's fileset_tool keeps the first without a word"
            if lost
            else ""
        ),
        "exclude the path from all but one of them",
        sources=dict.fromkeys(owner.path for owner in owners),
    )


def _where(owner: _Owner) -> str:
    return f"{owner.artifact} {owner.component} ({owner.stage})"


def _add_folders(folders: dict[str, str], path: str) -> None:
    folder = os.path.dirname(path)
    while folder and folder not in folders:
        folders[folder] = path
        folder = os.path.dirname(folder)
