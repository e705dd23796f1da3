"""Offers: every wanted file of every input, sorted by the part and folder that it would go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from kpacktools.planning.claims import Claim, ClaimedArtifact
from kpacktools.planning.conflicts import Candidate, Contest
from kpacktools.planning.exceptions import Exceptions
from kpacktools.planning.layouts import Layout, Part
from kpacktools.planning.selection import Input, Wanted
from kpacktools.trees import Entry
from kpacktools.trees.shards import Shard

__all__ = ["Gathered", "Offer", "contests", "gather"]


class Offer(NamedTuple):
    """Files of one tree folder, offered for one destination folder."""

    shard: Shard
    source: ClaimedArtifact
    entries: Sequence[Entry]
    claim: Claim | None
    foreign: bool
    """The shard was not built for the claim's target, and another one was."""

    def candidate(self, entry: Entry) -> Candidate:
        """One of the offer's files."""
        return Candidate(self.shard, self.source, entry, self.claim, self.foreign)


class Gathered(Struct):
    """All offers, and what was left out on purpose."""

    offers: dict[Part, dict[str, list[Offer]]] = field(default_factory=dict)
    """Part -> destination folder -> offers in the order of the shards."""
    files_in: int = 0
    filtered: int = 0
    removed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Engine -> files and bytes of device content that was not asked for."""
    filtered_foreign: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(shard, engine, key) -> files that a policy filtered as foreign."""


def gather(inputs: Sequence[Input], layout: Layout, wanted: Wanted, exceptions: Exceptions) -> Gathered:
    """Sort the inputs' files by destination. Files of one folder stay together: nothing is done per file."""
    owned: dict[str, list[Shard]] = {}
    for item in inputs:
        for target in item.shard.targets:
            owned.setdefault(target, []).append(item.shard)
    gathered = Gathered()
    for item in inputs:
        for claimed in item.artifacts:
            artifact = claimed.artifact
            take = wanted.artifact(artifact)
            if take and wanted.selection.generic:
                gathered.offers.setdefault(layout.part(artifact, None), {})
            for folder, entries in artifact.tree.folders.items():
                gathered.files_in += len(entries)
                for claim, group in _grouped(claimed, folder, entries):
                    if not (take and wanted.claim(claim)):
                        gathered.filtered += len(group)
                        if claim is not None:
                            files, size = gathered.removed.get(claim.engine, (0, 0))
                            size += sum(entry.size for entry in group)
                            gathered.removed[claim.engine] = (files + len(group), size)
                        continue
                    foreign = False
                    if claim is not None and item.shard.targets:
                        owners = owned.get(claim.key.base)
                        foreign = owners is not None and item.shard not in owners
                        if foreign and exceptions.filters_foreign(claim.engine, claim.key):
                            gathered.filtered += len(group)
                            name = (item.shard.name, claim.engine, claim.key.name)
                            count = gathered.filtered_foreign.get(name, 0)
                            gathered.filtered_foreign[name] = count + len(group)
                            continue
                    part = gathered.offers.setdefault(layout.part(artifact, claim), {})
                    offer = Offer(item.shard, claimed, group, claim, foreign)
                    part.setdefault(layout.folder(artifact, folder), []).append(offer)
    return gathered


def _grouped(
    claimed: ClaimedArtifact, folder: str, entries: Sequence[Entry]
) -> Iterator[tuple[Claim | None, Sequence[Entry]]]:
    """A folder's entries by claim: nearly always one group."""
    if not entries:
        return
    single = claimed.files.get(folder)
    if single is None:
        yield claimed.folders.get(folder), entries
        return
    groups: dict[Claim | None, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(single.get(entry.path), []).append(entry)
    yield from groups.items()


def contests(dest: str, offers: Sequence[Offer]) -> Iterator[Contest]:
    """The destinations of one folder that more than one offer has a file for."""
    if len(offers) < 2:
        return
    by_name: dict[str, list[Candidate]] = {}
    for offer in offers:
        for entry in offer.entries:
            by_name.setdefault(entry.path.rpartition("/")[2], []).append(offer.candidate(entry))
    for name, candidates in sorted(by_name.items()):
        if len(candidates) > 1:
            yield Contest(f"{dest}/{name}" if dest else name, tuple(candidates))
