"""Adoption: kpacks outside every engine's place that say themselves, twice, which target they are for.

An archive whose name ends in a target and whose TOC names that one target can be placed without guessing. Anything
less stays where it is, and is refused as device code in the generic part.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kpacktools.kpack import KpackError, read_toc
from kpacktools.planning.claims import Claim, ClaimedArtifact
from kpacktools.targets import TargetKey, TargetTable, UnknownTargetError
from kpacktools.trees import Entry, is_file

__all__ = ["adopt_archives"]

HANDLER: Final = "kpack"


def adopt_archives(claimed: ClaimedArtifact, targets: TargetTable) -> ClaimedArtifact:
    """Claim such archives; reads their tables of contents, and no other file."""
    adopted: dict[str, dict[str, Claim]] = {}
    for folder, entries in claimed.artifact.tree.folders.items():
        if folder in claimed.folders:
            continue
        for entry in claimed.generic(folder, entries):
            if not (entry.path.endswith(".kpack") and is_file(entry)):
                continue
            key = _named(entry, targets)
            if key is not None and _holds_only(claimed, entry, key, targets):
                adopted.setdefault(folder, {})[entry.path] = Claim(HANDLER, HANDLER, key, folder)
    if not adopted:
        return claimed
    files = {folder: {**claimed.files.get(folder, {}), **new} for folder, new in adopted.items()}
    return replace(claimed, files={**claimed.files, **files})


def _named(entry: Entry, targets: TargetTable) -> TargetKey | None:
    """The target that an archive's name ends in."""
    stem, _, word = entry.path.rpartition("/")[2].removesuffix(".kpack").rpartition("_")
    try:
        return targets.key(word) if stem else None
    except UnknownTargetError:
        return None


def _holds_only(claimed: ClaimedArtifact, entry: Entry, key: TargetKey, targets: TargetTable) -> bool:
    try:
        with claimed.artifact.tree.open(entry.path) as stream:
            toc = read_toc(stream, entry.size)
    except (KpackError, OSError):
        return False
    held = toc.targets() | set(toc.gfx_arches)
    return len(held) == 1 and all(targets.covers(key, target) for target in held)
