"""Single files that inspect takes: one kpack, or one bundle manifest."""

from __future__ import annotations

from kpacktools.remote.urls import plain
from kpacktools.trees.access import Access
from kpacktools.trees.places import place_of
from kpacktools.trees.shards import Artifact, Shard

__all__ = ["is_kpack_file", "kpack_shard"]

COMPONENT = "kpack"
"""The component of the artifact that a kpack on its own is taken as."""


def is_kpack_file(path: str, access: Access = Access()) -> bool:
    """True for a path that names one archive rather than a tree.

    Raises :class:`~kpacktools.errors.CallError` for a URL whose store does not answer.
    """
    if not plain(path).endswith(".kpack"):
        return False
    places, where = place_of(path, access)
    return places.is_file(where)


def kpack_shard(path: str, access: Access = Access()) -> Shard:
    """One archive as a shard of its own: what lies around it is not looked at.

    Raises :class:`~kpacktools.errors.CallError` when it cannot be read.
    """
    places, path = place_of(path, access)
    name = places.name(path)
    folder = places.parent(places.normal(path)) or "."
    tree = places.tree(folder, within=name, label=folder)
    artifact = Artifact(
        name.removesuffix(".kpack"), COMPONENT, "generic", (".",), tree, mount="./", is_file=True
    )
    return Shard(name, path, (artifact,), frozenset())
