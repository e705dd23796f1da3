"""Selections: what of the inputs a command was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kpacktools.findings import Finding, Severity, finding
from kpacktools.planning.claims import Claim, ClaimedArtifact
from kpacktools.planning.kinds import kinds_of
from kpacktools.targets import DeviceFilter, TargetKey, TargetTable
from kpacktools.trees.shards import Artifact, Shard

__all__ = ["Input", "Selection", "Wanted", "check_selection", "claims_of"]


class Input(Struct, frozen=True, eq=False):
    """One shard with its artifacts claimed."""

    shard: Shard
    artifacts: tuple[ClaimedArtifact, ...]


class Selection(Struct, frozen=True):
    """What of the inputs is wanted; the rest counts as filtered."""

    devices: tuple[DeviceFilter, ...] = ()
    """Empty for all."""
    parents: bool = False
    """Take the family parts that contain a wanted target too."""
    artifacts: frozenset[str] = frozenset()
    components: frozenset[str] = frozenset()
    generic: bool = True
    kinds: frozenset[str] = frozenset()
    """Kinds of device content (:data:`kpacktools.planning.kinds.KINDS`); empty for all."""
    none_expected: frozenset[str] | None = frozenset()
    """Devices (as asked for) that may match nothing; None allows it for all."""


def claims_of(inputs: Iterable[Input]) -> Iterator[tuple[Input, ClaimedArtifact, Claim]]:
    """Every claim of every input."""
    for item in inputs:
        for claimed in item.artifacts:
            for claim in claimed.claims():
                yield item, claimed, claim


class Wanted:
    """A selection, applied to the keys that the inputs hold: decides once per folder."""

    def __init__(self, selection: Selection, inputs: Sequence[Input], targets: TargetTable) -> None:
        self.selection = selection
        keys = {claim.key for _, _, claim in claims_of(inputs)}
        taken = {key for key in keys if any(device.takes(key) for device in selection.devices)}
        parents = {parent for key in taken for parent in targets.parents.get(key.base, ())}
        self._keys: dict[TargetKey, bool] = {
            key: not selection.devices or key in taken or (selection.parents and key.name in parents)
            for key in keys
        }
        self._kinds: dict[Claim, str] = {}
        if selection.kinds:
            for item in inputs:
                for claimed in item.artifacts:
                    self._kinds.update(kinds_of(claimed))

    def artifact(self, artifact: Artifact) -> bool:
        """True where the artifact and its component are asked for."""
        selection = self.selection
        return (not selection.artifacts or artifact.name in selection.artifacts) and (
            not selection.components or artifact.component in selection.components
        )

    def claim(self, claim: Claim | None) -> bool:
        """True where content under the claim (None: generic content) is asked for."""
        if claim is None:
            return self.selection.generic
        kinds = self.selection.kinds
        return self._keys[claim.key] and (not kinds or self._kinds.get(claim, "other") in kinds)


def check_selection(selection: Selection, inputs: Sequence[Input]) -> Iterator[Finding]:
    """``no-match`` for whatever was asked for and is not there."""
    keys = sorted({claim.key for _, _, claim in claims_of(inputs)})
    there = ", ".join(key.name for key in keys) or "no target at all"
    allowed = selection.none_expected
    for device in selection.devices:
        if allowed is None or device.text in allowed:
            continue
        if not any(device.takes(key) for key in keys):
            yield finding(
                "no-match",
                device.text,
                f"--device {device.text} matches nothing; the inputs hold {there}",
                "ask for a key that is there, or list the device under none_expected in a policy file",
            )
            continue
        bases = {key.base for key in keys}
        missing = [member for member in device.members if member not in bases and member not in allowed]
        if missing:
            yield finding(
                "no-match",
                device.text,
                f"--device {device.text} includes {', '.join(missing)}, which the inputs lack; they hold {there}",
                "build the missing members, or list them under none_expected in a policy file",
                severity=Severity.WARNING,
            )
    names = sorted({claimed.artifact.name for item in inputs for claimed in item.artifacts})
    for name in sorted(selection.artifacts - set(names)):
        yield finding(
            "no-match",
            name,
            f"--artifact {name} matches nothing; the inputs hold {', '.join(names)}",
            "ask for an artifact that is there",
        )


def selection_notes(selection: Selection, inputs: Sequence[Input]) -> Iterator[str]:
    """What a device filter took beyond its own spelling."""
    keys = sorted({claim.key for _, _, claim in claims_of(inputs)})
    for device in selection.devices:
        if device.key is None:
            continue
        variants = [key.name for key in keys if device.takes(key) and key != device.key]
        if variants:
            yield f"--device {device.text} takes its feature variants too: {', '.join(variants)}"
