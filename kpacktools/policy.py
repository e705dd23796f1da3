"""The policy file: what a project declares about its own releases. TOML, unknown keys rejected.

Every exception carries a reason, which the report repeats: nothing is let through in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kpacktools.errors import CallError
from kpacktools.findings import KINDS, Severity
from kpacktools.lanes import LaneRules, default_lanes
from kpacktools.planning.exceptions import ForeignRule, GenericRule
from kpacktools.targets import TargetTable, UnknownTargetError, default_targets
from kpacktools.tomlfile import read_call_file

__all__ = ["NO_POLICY", "NeutralRule", "Policy", "load_policy"]


class NeutralRule(Struct, frozen=True):
    """``[[neutral]]``, or an artifact of the topology: its device code serves every target and may stay generic."""

    artifact: str
    reason: str
    component: str | None = None
    source: str = "policy [[neutral]]"
    """What says so."""


class Policy(Struct, frozen=True):
    """A policy file's contents; the default is that of a run without one."""

    severities: Mapping[str, Severity | None] = field(default_factory=dict)
    """Finding name -> severity; None drops the finding."""
    none_expected: frozenset[str] | None = frozenset()
    """Devices that may be asked for in vain; None allows it for all."""
    required: tuple[str, ...] = ()
    external: tuple[str, ...] = ()
    processors: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)
    opaque: Mapping[str, str] = field(default_factory=dict)
    """Engine -> the reason why it may be split unchecked."""
    generic: tuple[GenericRule, ...] = ()
    foreign: tuple[ForeignRule, ...] = ()
    neutral: tuple[NeutralRule, ...] = ()
    lanes: LaneRules = field(default_factory=LaneRules)

    def targets(self) -> TargetTable:
        """The targets that a run under this policy knows."""
        table = default_targets()
        if not (self.processors or self.owners):
            return table
        return replace(
            table, processors=table.processors | self.processors, owners={**table.owners, **self.owners}
        )

    def neutral_rule(self, artifact: str, component: str) -> NeutralRule | None:
        """The rule that lets an artifact's device code stay generic."""
        for rule in self.neutral:
            if rule.artifact == artifact and rule.component in (None, component):
                return rule
        return None


NO_POLICY = Policy()


def load_policy(path: str | None) -> Policy:
    """Read a policy file; the default policy for None.

    Raises :class:`~kpacktools.errors.CallError` for a file that cannot be read, is not TOML, does not follow the
    schema (``kpacktools/manifests/policy.schema.json``), or names findings, targets or a topology that do not exist.
    """
    if path is None:
        return NO_POLICY
    data = read_call_file("--policy", path, "policy")
    unknown = sorted(set(data.get("severity", ())) - set(KINDS))
    if unknown:
        raise CallError(f"--policy {path}: [severity] names no finding: {', '.join(unknown)}")
    policy = _policy(data)
    if "topology" in data:
        declared = _neutral_in(path, os.path.join(os.path.dirname(path), data["topology"]))
        policy = replace(policy, neutral=(*policy.neutral, *declared))
    strange = sorted(name for name in _lane_names(policy.lanes) if default_lanes().by_name(name) is None)
    if strange:
        known = default_lanes().names
        raise CallError(f"--policy {path}: no such lane: {', '.join(strange)}; known: {known}")
    try:
        for rule in policy.foreign:
            for key in rule.keys:
                policy.targets().key(key)
        for owner in policy.owners.values():
            policy.targets().key(owner)
    except UnknownTargetError as error:
        raise CallError(f"--policy {path}: {error}") from None
    return policy


def _neutral_in(policy: str, topology: str) -> Iterator[NeutralRule]:
    """The artifacts that a topology declares target-neutral."""
    from kpacktools.topology.model import read_topology  # where a policy names one

    read, findings = read_topology(topology)
    if read is None:
        raise CallError(f"--policy {policy}: topology {topology}: {findings[0].message}")
    for artifact in read.artifacts.values():
        if artifact.target_neutral:
            yield NeutralRule(artifact.name, "it is declared target-neutral", source=f"topology {topology}")


def _lane_rules(lanes: Mapping[str, Any], admits: Mapping[str, Any]) -> LaneRules:
    # An op directly below [admits] is one that every consumer admits on these lanes.
    anyone = {op: tuple(names) for op, names in admits.items() if isinstance(names, list)}
    consumers = {
        consumer: {op: tuple(names) for op, names in ops.items()}
        for consumer, ops in admits.items()
        if isinstance(ops, dict)
    }
    return LaneRules(
        default=lanes.get("default"),
        keys=lanes.get("keys", {}),
        mixes=tuple(frozenset(mix) for mix in lanes.get("mix", ())),
        admits={**consumers, **({"any consumer": anyone} if anyone else {})},
    )


def _lane_names(rules: LaneRules) -> set[str]:
    """Every lane that the rules name."""
    names = {rules.default} if rules.default else set()
    names |= set((rules.keys or {}).values()) | {name for mix in rules.mixes for name in mix}
    return names | {name for ops in (rules.admits or {}).values() for lanes in ops.values() for name in lanes}


def _policy(data: Mapping[str, Any]) -> Policy:
    none_expected = data.get("none_expected", ())
    targets = data.get("targets", {})
    return Policy(
        severities={
            name: None if severity == "ignore" else Severity(severity)
            for name, severity in data.get("severity", {}).items()
        },
        none_expected=None if none_expected is True else frozenset(none_expected or ()),
        required=tuple(data.get("required", ())),
        external=tuple(data.get("external", ())),
        processors=frozenset((*targets.get("processors", ()), *targets.get("generics", ()))),
        owners=data.get("owners", {}),
        opaque={
            name: engine["reason"] for name, engine in data.get("engines", {}).items() if engine["opaque"]
        },
        generic=tuple(
            GenericRule(item["artifact"], tuple(item["paths"]), item["reason"], item.get("component"))
            for item in data.get("generic", ())
        ),
        foreign=tuple(
            ForeignRule(item["engine"], tuple(item["keys"]), item["reason"])
            for item in data.get("foreign", ())
        ),
        neutral=tuple(
            NeutralRule(item["artifact"], item["reason"], item.get("component"))
            for item in data.get("neutral", ())
        ),
        lanes=_lane_rules(data.get("lanes", {}), data.get("admits", {})),
    )
