"""Single files that inspect takes: one kpack, or one bundle manifest."""

from __future__ import annotations

import os

from kpacktools.trees.directory import scan_directory
from kpacktools.trees.shards import Artifact, Shard

__all__ = ["is_kpack_file", "kpack_shard"]

COMPONENT = "kpack"
"""The component of the artifact that a kpack on its own is taken as."""


def is_kpack_file(path: str) -> bool:
    """True for a path that names one archive rather than a tree."""
    return path.endswith(".kpack") and os.path.isfile(path)


def kpack_shard(path: str) -> Shard:
    """One archive as a shard of its own: what lies around it is not looked at.

    Raises :class:`~kpacktools.errors.CallError` when it cannot be read.
    """
    folder, name = os.path.split(os.path.normpath(path))
    tree = scan_directory(folder or ".", within=name, label=folder or ".")
    artifact = Artifact(
        name.removesuffix(".kpack"), COMPONENT, "generic", (".",), tree, mount="./", is_file=True
    )
    return Shard(name, path, (artifact,), frozenset())
