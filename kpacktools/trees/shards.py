"""Shards: what one build left, as artifact directories over trees.

These are the values; :mod:`kpacktools.trees.opening` makes them from paths.
"""

from __future__ import annotations

import os

from msgspec import Struct

from kpacktools.findings import Finding
from kpacktools.trees import Tree

__all__ = ["Artifact", "Prefix", "Shard"]


class Prefix(Struct, frozen=True):
    """What an install prefix becomes: ``--artifact``, ``--component``, ``--stage``."""

    artifact: str = "prefix"
    component: str = "lib"
    stage: str = "stage"


class Artifact(Struct, frozen=True, eq=False):
    """One artifact directory or archive ``{name}_{component}_{suffix}``, or an install prefix taken as one."""

    name: str
    component: str
    suffix: str
    prefixes: tuple[str, ...]
    """Stage prefixes in the order of the manifest."""
    tree: Tree
    mount: str = ""
    """Put before the tree's paths to get artifact paths; ``stage/`` for an install prefix."""
    is_file: bool = False
    """One archive on its own, in no engine's place."""

    @property
    def label(self) -> str:
        """The artifact's root as the user would type it."""
        return self.tree.label

    def where(self, path: str) -> str:
        """A path of the tree as the user would type it."""
        return os.path.join(self.tree.label, path) if path else self.tree.label


class Shard(Struct, frozen=True, eq=False):
    """One per-architecture build."""

    name: str
    path: str
    artifacts: tuple[Artifact, ...]
    targets: frozenset[str]
    """Part keys that the build was made for; empty where nothing says, and it owns what it holds."""
    run: str | None = None
    """The build run it came from, where a shards file says."""
    is_listed: bool = False
    """Named by a shards file: the name is more than that of some folder."""
    findings: tuple[Finding, ...] = ()
