"""Where a topology and the content of a release say different things."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kpacktools.findings import Finding, Severity, finding
from kpacktools.planning.claims import OPAQUE, Claim, ClaimedArtifact
from kpacktools.planning.selection import Input, claims_of
from kpacktools.targets import GENERIC
from kpacktools.topology.model import Topology
from kpacktools.topology.rules import near_hint

__all__ = ["check_content"]

ALL_OF_ARCH_CONTENT: Final = "hipkernelprovider"
"""The word in ``split_databases`` that means every engine below arch_content."""
_SPLIT_OFF: Final = "kpack"
"""The handler of archives that rocm_kpack splits off host files: it needs no word in ``split_databases``."""


def check_content(topology: Topology, inputs: Sequence[Input], tree: str) -> Iterator[Finding]:
    """``topology-disagrees``, artifact by artifact: per-target content in one that is declared target-neutral (errors);
    none in any component of one that is declared target-specific, content of an engine that its ``split_databases`` do
    not name, and artifacts that the topology lacks (warnings).

    ``tree`` is what the inputs were opened from, for messages.
    """
    claims: dict[str, list[tuple[ClaimedArtifact, Claim]]] = {}
    for _, claimed, claim in claims_of(inputs):
        claims.setdefault(claimed.artifact.name, []).append((claimed, claim))
    present: dict[str, list[ClaimedArtifact]] = {}
    for item in inputs:
        for claimed in item.artifacts:
            present.setdefault(claimed.artifact.name, []).append(claimed)
    for name, directories in sorted(present.items()):
        declared = topology.artifacts.get(name)
        mine = claims.get(name, [])
        if declared is None:
            yield _disagrees(
                tree,
                f"holds artifact directories of {name}, which {topology.path} lacks"
                + near_hint(name, topology.artifacts),
                Severity.WARNING,
                "add it to the topology, or remove them",
            )
        elif declared.target_specific:
            yield from _specific(topology, name, mine, tree)
        else:
            yield from _neutral(topology, name, mine, directories)


def _neutral(
    topology: Topology,
    name: str,
    claims: Sequence[tuple[ClaimedArtifact, Claim]],
    directories: Sequence[ClaimedArtifact],
) -> Iterator[Finding]:
    hint = f'declare artifacts.{name} type = "target-specific", or move the content to an artifact that is'
    if claims:
        claimed, claim = claims[0]
        yield _disagrees(
            claimed.artifact.where(claim.root),
            f"is content of {_engines(claims)} for {_keys(claims)} in {name}, which {topology.path} declares "
            "target-neutral",
            Severity.ERROR,
            hint,
        )
        return
    for directory in directories:
        if directory.artifact.suffix != GENERIC:
            yield _disagrees(
                directory.artifact.label,
                f"is keyed by {directory.artifact.suffix}, and {topology.path} declares {name} target-neutral",
                Severity.ERROR,
                hint,
            )


def _specific(
    topology: Topology, name: str, claims: Sequence[tuple[ClaimedArtifact, Claim]], tree: str
) -> Iterator[Finding]:
    if not claims:
        yield _disagrees(
            tree,
            f"holds no per-target content in any component of {name}, which {topology.path} declares target-specific",
            Severity.WARNING,
            f"was its device code split off, and did every shard arrive? Else declare artifacts.{name} type = "
            '"target-neutral"',
        )
    named = {*topology.artifacts[name].split_databases, _SPLIT_OFF, OPAQUE}
    others = [
        (claimed, claim)
        for claimed, claim in claims
        if claim.handler not in named
        and not (ALL_OF_ARCH_CONTENT in named and "arch_content/" in f"{claim.root}/")
    ]
    if others:
        claimed, claim = others[0]
        handlers = sorted({claim.handler for _, claim in others})
        yield _disagrees(
            claimed.artifact.where(claim.root),
            f"is content of {_engines(others)} for {_keys(others)}, and {topology.path} does not name "
            f"{', '.join(handlers)} in artifacts.{name}.split_databases",
            Severity.WARNING,
            f"add {', '.join(handlers)}: TheRock's own splitter leaves such content in the generic part",
        )


def _engines(claims: Iterable[tuple[ClaimedArtifact, Claim]]) -> str:
    return ", ".join(sorted({claim.engine for _, claim in claims}))


def _keys(claims: Iterable[tuple[ClaimedArtifact, Claim]]) -> str:
    return ", ".join(sorted({claim.key.name for _, claim in claims}))


def _disagrees(path: str, message: str, severity: Severity, hint: str) -> Finding:
    return finding("topology-disagrees", path, message, hint, severity=severity)
