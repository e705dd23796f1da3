"""Layouts: which output folder a file goes to, and under which path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from kpacktools.planning.claims import Claim, prefix_of
from kpacktools.targets import GENERIC, TargetId
from kpacktools.trees.shards import Artifact

__all__ = ["ArtifactLayout", "FlatLayout", "Layout", "OwnerLayout", "Part", "below_prefix"]


class Part(NamedTuple):
    """One output folder to be."""

    scope: tuple[str, ...]
    """Parts of one scope are installed over one another: their paths must be able to stand side by side."""
    name: str
    key: str


class Layout(Protocol):
    """Which part a file goes to, and under which path."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The part for an artifact's files under a claim, or its generic ones."""

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The destination folder, in the part, of a folder of the artifact's tree."""

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> tuple[str, ...] | None:
        """Stage prefixes for the part's manifest; None for a part without one."""


class ArtifactLayout(Struct, frozen=True):
    """``{name}_{component}_{key}`` artifact directories, stage prefixes kept."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The artifact directory that a file goes to."""
        key = GENERIC if claim is None else _part_key(artifact, claim)
        return Part((artifact.name, artifact.component), f"{artifact.name}_{artifact.component}_{key}", key)

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The folder itself, below the stage prefix of an install prefix."""
        return (artifact.mount + folder).rstrip("/")

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> tuple[str, ...]:
        """Every stage prefix of the artifact's component: in the manifests' order where they agree on one."""
        lists = {a.prefixes for a in artifacts if (a.name, a.component) == part.scope}
        if len(lists) == 1:
            return next(iter(lists))
        return tuple(sorted({prefix for prefixes in lists for prefix in prefixes}))


class FlatLayout(Struct, frozen=True):
    """One install prefix for everything."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The only part there is."""
        return Part((), "", GENERIC)

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The folder below its stage prefix."""
        return below_prefix(artifact, folder)

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> None:
        """No manifest in an install prefix."""


class OwnerLayout(Struct, frozen=True):
    """One part per package owner, for wheels: gfx942's holds ``gfx942:xnack+``, gfx1250's ``gfx1250-strict``."""

    by_engine: bool = False
    """One part per owner and engine, named ``<key>/<engine>``."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The part of the claim's package owner."""
        if claim is None:
            return Part((), GENERIC, GENERIC)
        key = claim.key.owner
        return Part((), f"{key}/{claim.engine}" if self.by_engine else key, key)

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The folder below its stage prefix."""
        return below_prefix(artifact, folder)

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> None:
        """No manifest in a wheel."""


def _part_key(artifact: Artifact, claim: Claim) -> str:
    """The key without features, except where the input directory's own suffix carries features for the same
    processor: then the suffix is kept."""
    if claim.key.is_bundle or not (":" in artifact.suffix or artifact.suffix.endswith(("+", "-"))):
        return claim.key.base
    try:
        suffix = TargetId.parse(artifact.suffix)
    except ValueError:
        return claim.key.base
    return artifact.suffix if suffix.processor == claim.key.base else claim.key.base


def below_prefix(artifact: Artifact, path: str) -> str:
    """A tree path below its stage prefix: where it is once installed."""
    if artifact.mount:
        return path
    prefix = prefix_of(artifact, path)
    return path[len(prefix) + 1 :] if prefix else path
