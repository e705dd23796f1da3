"""Kinds of device content, for filters: what a claim's files are, taken together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kpacktools.planning.claims import Claim, ClaimedArtifact
from kpacktools.trees import Entry

__all__ = ["KINDS", "kinds_of"]

KINDS: Final = ("kpack", "code-objects", "databases", "tests", "other")
"""In the order in which they decide: a folder with a kpack is of that kind, its manifests included."""
_SUFFIXES: Final = (
    ("kpack", (".kpack",)),
    ("code-objects", (".co", ".hsaco")),
    ("databases", (".dat", ".kdb", ".model", ".db.txt", ".fdb.txt")),
)
_TESTS: Final = "test_arch_content"


def kinds_of(claimed: ClaimedArtifact) -> dict[Claim, str]:
    """The kind of each claim's content."""
    files: dict[Claim, list[Entry]] = {}
    for folder, entries in claimed.artifact.tree.folders.items():
        claim = claimed.folders.get(folder)
        if claim is not None:
            files.setdefault(claim, []).extend(entries)
            continue
        single = claimed.files.get(folder, {})
        for entry in entries if single else ():
            if entry.path in single:
                files.setdefault(single[entry.path], []).append(entry)
    return {claim: _kind(claim, entries) for claim, entries in files.items()}


def _kind(claim: Claim, entries: Iterable[Entry]) -> str:
    if _TESTS in claim.root.split("/"):
        return "tests"
    names = [entry.path for entry in entries]
    for kind, suffixes in _SUFFIXES:
        if any(name.endswith(suffixes) for name in names):
            return kind
    return "other"
