"""Exceptions that a policy declares, as planning needs them: foreign content that is filtered, generic files of
which one shard's are taken."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from kpacktools.findings import Finding, counted, finding
from kpacktools.patterns import matches_any
from kpacktools.planning.conflicts import Candidate, Contest, Digests, described, same_content
from kpacktools.planning.layouts import below_prefix
from kpacktools.targets import TargetKey
from kpacktools.trees import Tree

__all__ = ["Exceptions", "ForeignRule", "GenericRule", "Superseded"]

BuildIdFunction = Callable[[Tree, str], "str | None"]
_DEBUG = ".debug"


class ForeignRule(Struct, frozen=True):
    """``[[foreign]]``: content of these keys, in shards that were not built for them, is filtered."""

    engine: str
    keys: tuple[str, ...]
    reason: str


class GenericRule(Struct, frozen=True):
    """``[[generic]]``: of generic files that differ, the primary shard's are taken."""

    artifact: str
    paths: tuple[str, ...]
    """Ant patterns on paths below the stage prefix."""
    reason: str
    component: str | None = None

    def covers(self, candidate: Candidate) -> bool:
        """True where the rule speaks of a candidate's path."""
        artifact = candidate.source.artifact
        return (
            self.artifact == artifact.name
            and self.component in (None, artifact.component)
            and matches_any(self.paths, below_prefix(artifact, candidate.entry.path))
        )


class Exceptions(Struct, frozen=True):
    """What a run lets through on purpose."""

    foreign: tuple[ForeignRule, ...] = ()
    generic: tuple[GenericRule, ...] = ()
    primary: str | None = None
    """Name of the shard whose generic files are taken."""

    def filters_foreign(self, engine: str, key: TargetKey) -> bool:
        """True where a rule filters foreign content of an engine and key."""
        return self.foreign_rule(engine, key) is not None

    def foreign_rule(self, engine: str, key: TargetKey) -> ForeignRule | None:
        """The rule that filters it."""
        for rule in self.foreign:
            same = rule.engine.replace("_", "-") == engine.replace("_", "-")
            if same and (key.base in rule.keys or key.name in rule.keys):
                return rule
        return None

    def generic_rule(self, contest: Contest) -> GenericRule | None:
        """The rule that lets the primary shard's file be taken."""
        first = contest.candidates[0]
        if first.claim is not None:
            return None
        return next((rule for rule in self.generic if rule.covers(first)), None)


class Superseded:
    """Generic files that lost to the primary shard's, and the debug files that go with them."""

    def __init__(self, exceptions: Exceptions, build_id: BuildIdFunction) -> None:
        self.findings: list[Finding] = []
        self.count = 0
        self.left_out: set[int] = set()
        """``id`` of entries that nobody contests and that are left out all the same."""
        self._exceptions = exceptions
        self._build_id = build_id
        self._binaries: dict[tuple[str, str], str] = {}
        """(artifact, path below the prefix) of a superseded file -> the rule's reason."""
        self._stale: dict[tuple[str, str, str], str] = {}
        """(shard, artifact, build id) of a binary that was not taken -> the rule's reason."""

    def settle(self, contest: Contest, digests: Digests) -> tuple[Candidate, list[Candidate]] | None:
        """The candidate that is taken and those equal to it, where a rule (or, for a debug file, its binary)
        decides; None where nothing does."""
        rule = self._exceptions.generic_rule(contest)
        reason = rule.reason if rule is not None else self._binary_reason(contest)
        if reason is None:
            return None
        taken = next((c for c in contest.candidates if c.shard.name == self._exceptions.primary), None)
        if taken is None:
            return None
        equal = [c for c in contest.candidates if c is not taken and same_content(c, taken, digests)]
        lost = [c for c in contest.candidates if c is not taken and c not in equal]
        self.count += len(lost)
        artifact = taken.source.artifact
        self._binaries[artifact.name, below_prefix(artifact, taken.entry.path)] = reason
        kept = self._build_id(artifact.tree, taken.entry.path)
        for candidate in lost:
            self.findings.append(
                finding(
                    "generic-superseded",
                    contest.dest,
                    f"{described(taken, digests)} is taken from the primary shard instead of "
                    f"{described(candidate, digests)}: {reason}",
                    "the policy says so; remove its [[generic]] line to make this an error again",
                    sources=(taken.where, candidate.where),
                )
            )
            stale = self._build_id(candidate.source.artifact.tree, candidate.entry.path)
            if stale is not None and stale != kept:
                self._stale[candidate.shard.name, artifact.name, stale] = reason
        return taken, equal

    def _binary_reason(self, contest: Contest) -> str | None:
        """For ``x.so.debug`` or ``.debug/x.so.debug``: why ``x.so`` was taken from the primary shard."""
        artifact = contest.candidates[0].source.artifact
        path = below_prefix(artifact, contest.candidates[0].entry.path)
        if contest.candidates[0].claim is not None or not path.endswith(_DEBUG):
            return None
        folder, name = posixpath.split(path.removesuffix(_DEBUG))
        for place in (folder, folder.removesuffix(_DEBUG).rstrip("/")):
            reason = self._binaries.get((artifact.name, posixpath.join(place, name)))
            if reason is not None:
                return reason
        return None

    def leaves_out(self, candidate: Candidate) -> bool:
        """True for a ``.build-id/xx/yyyy.debug`` file whose binary was not taken; counted and reported."""
        parts = candidate.entry.path.split("/")
        if len(parts) < 3 or parts[-3] != ".build-id" or not parts[-1].endswith(_DEBUG):
            return False
        build_id = parts[-2] + parts[-1].removesuffix(_DEBUG)
        reason = self._stale.get((candidate.shard.name, candidate.source.artifact.name, build_id))
        if reason is None:
            return False
        self.count += 1
        self.left_out.add(id(candidate.entry))
        self.findings.append(
            finding(
                "generic-superseded",
                candidate.where,
                f"holds the debug information of a binary that was not taken (build id {build_id}): {reason}",
                "the policy says so; it follows the binary",
                sources=(candidate.where,),
            )
        )
        return True


def foreign_notes(
    filtered: dict[tuple[str, str, str], int], exceptions: Exceptions, keys: Sequence[TargetKey]
) -> Iterator[str]:
    """What ``[[foreign]]`` lines filtered, with their reasons."""
    by_name = {key.name: key for key in keys}
    for (shard, engine, name), count in sorted(filtered.items()):
        rule = exceptions.foreign_rule(engine, by_name[name])
        assert rule is not None
        what = f"{counted(count, 'file')} of {engine} for {name}"
        yield f"policy [[foreign]]: filtered {what} in shard {shard}: {rule.reason}"
