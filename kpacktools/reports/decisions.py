"""Why files are where a report has them: which handler claimed each bundle by what, and what nobody claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.planning.claims import OPAQUE
from kpacktools.reports.model import Report
from kpacktools.trees.shards import Artifact

__all__ = ["Claimed", "Generic", "claimed_bundles", "generic_parts"]

_FOLDERS_AT_MOST: Final = 3


class Claimed(Struct, frozen=True):
    """One bundle, and what decided that it is one."""

    engine: str
    key: str
    files: int
    reason: str
    """``handler rocke, folder gfx942 in x/arch_content/rocke``."""


class Generic(Struct, frozen=True):
    """What no handler claims of one artifact."""

    artifact: str
    """Its root, as the user would type it."""
    files: int
    folders: tuple[tuple[str, int], ...]
    """The first folders, as (tree path, files directly in it); ``.`` is the root."""
    more: int
    """Further folders."""


def claimed_bundles(report: Report) -> Iterator[Claimed]:
    """One decision a bundle, in the report's order."""
    for item in report.bundles:
        bundle = item.bundle
        yield Claimed(bundle.engine, bundle.key.name, len(bundle.entries), _reason(item))


def generic_parts(report: Report) -> Iterator[Generic]:
    """One decision an artifact that has generic files, in the order of inputs."""
    claimed: dict[int, set[str]] = {}
    for item in report.bundles:
        paths = claimed.setdefault(id(item.bundle.artifact), set())
        paths.update(entry.path for entry in item.bundle.entries)
    for source in report.inputs:
        for artifact in source.artifacts:
            left = _left(artifact, claimed.get(id(artifact), set()))
            if left:
                first = tuple(sorted(left.items())[:_FOLDERS_AT_MOST])
                yield Generic(artifact.label, left.total(), first, len(left) - len(first))


def _reason(item: CheckedBundle) -> str:
    bundle = item.bundle
    if bundle.artifact.is_file:
        return "an archive on its own; its table of contents says the target"
    who = f"handler {bundle.handler}"
    if bundle.handler == OPAQUE:
        who = f"no handler; policy [engines.{bundle.engine}]"
    return f"{who}, {'; '.join(_place(item, root) for root in bundle.roots)}"


def _place(item: CheckedBundle, root: str) -> str:
    parent, _, name = root.rpartition("/")
    # A target folder is owned as a whole. Where handlers find the target in file names, the root is the folder
    # around them, which spells none.
    if "gfx" in name:
        return f"folder {name} in {item.bundle.artifact.where(parent)}"
    return f"file names in {item.bundle.artifact.where(root)}"


def _left(artifact: Artifact, claimed: set[str]) -> Counter[str]:
    """Folder -> files directly in it that nobody claims."""
    left: Counter[str] = Counter()
    for folder, entries in artifact.tree.folders.items():
        number = sum(entry.path not in claimed for entry in entries)
        if number:
            left[folder or "."] = number
    return left
