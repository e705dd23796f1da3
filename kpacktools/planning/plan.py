"""The plan: which input file goes where, made before anything is written.

Planning is a pure function from claimed trees to these values; only :mod:`kpacktools.outputs` acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kpacktools.trees import Entry, Tree

__all__ = ["PlannedFile", "PlannedFolder"]


class PlannedFile(NamedTuple):
    """One file or link of an output and where its bytes come from (a tuple: there are very many)."""

    dest: str
    """POSIX path relative to the output folder."""
    tree: Tree
    entry: Entry


@dataclass(frozen=True, slots=True)
class PlannedFolder:
    """One output folder: an artifact directory, or (with ``manifest`` None) an install prefix."""

    name: str
    """The folder's name below OUT; empty where OUT itself is the folder (``--flatten``)."""
    key: str
    """Target key of the part, or ``generic``."""
    files: tuple[PlannedFile, ...]
    """Sorted by ``dest``; no two share one."""
    prefixes: tuple[str, ...] | None
    """Stage prefixes for ``artifact_manifest.txt``, in order; None where no manifest is written."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.entry.size for file in self.files)

    @property
    def manifest(self) -> bytes | None:
        """The bytes of ``artifact_manifest.txt``: one stage prefix a line (TheRock's format)."""
        if self.prefixes is None:
            return None
        return "".join(prefix + "\n" for prefix in self.prefixes).encode()
