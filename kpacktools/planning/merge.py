"""Planning: from claimed shards to output folders, as a pure function but for the files that inputs contest.

Split is merge of one shard; wheels are merge under another layout. Nothing here depends on the order in which
inputs were named: shards are taken in the order of their names and paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct, field

from kpacktools.findings import Finding, counted, finding
from kpacktools.planning.conflicts import (
    Candidate,
    Contest,
    Digests,
    conflict,
    is_special,
    preferred,
    same_content,
)
from kpacktools.planning.exceptions import BuildIdFunction, Exceptions, Superseded, foreign_notes
from kpacktools.planning.layouts import Layout, Part
from kpacktools.planning.offers import Gathered, Offer, contests, gather
from kpacktools.planning.places import all_links, check_places, host_set_mismatches
from kpacktools.planning.plan import PlannedFolder, PlannedGroup, in_order
from kpacktools.planning.selection import (
    Input,
    Selection,
    Wanted,
    check_selection,
    claims_of,
    selection_notes,
)
from kpacktools.targets import TargetTable
from kpacktools.trees import Entry, Tree, names_in

__all__ = ["Counts", "Look", "Plan", "plan_merge"]


class Look(Struct, frozen=True):
    """How planning looks into the few files that it must: those that several inputs offer."""

    digests: Callable[[Iterable[tuple[Tree, str]]], Digests]
    """The sha256 of files."""
    build_id: BuildIdFunction
    """The GNU build id of a host binary, None for anything else."""


class Counts(Struct, frozen=True):
    """What became of every input file: in = out + deduplicated + filtered + superseded."""

    files_in: int = 0
    files_out: int = 0
    files_deduplicated: int = 0
    files_filtered: int = 0
    files_superseded: int = 0

    def balanced(self) -> bool:
        """True where every file is accounted for."""
        return self.files_in == (
            self.files_out + self.files_deduplicated + self.files_filtered + self.files_superseded
        )


class Plan(Struct, frozen=True):
    """Everything that will be written, and what is wrong with it."""

    folders: tuple[PlannedFolder, ...]
    counts: Counts
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Decisions worth telling that are nobody's fault."""


def plan_merge(
    inputs: Iterable[Input],
    layout: Layout,
    selection: Selection,
    targets: TargetTable,
    look: Look,
    exceptions: Exceptions = Exceptions(),
) -> Plan:
    """Plan the outputs of some shards."""
    ordered = sorted(inputs, key=lambda item: (item.shard.name, item.shard.path))
    gathered = gather(ordered, layout, Wanted(selection, ordered, targets), exceptions)
    contested = [
        (part, contest)
        for part, folders in sorted(gathered.offers.items())
        for dest, offers in folders.items()
        for contest in contests(dest, offers)
    ]
    known = look.digests(
        (candidate.source.artifact.tree, candidate.entry.path)
        for _, contest in contested
        for candidate in contest.candidates
        if not candidate.entry.link and not is_special(candidate.entry)
    )
    settled = _settle(contested, known, exceptions, look.build_id)
    folders = _folders(gathered, ordered, layout, settled)
    found = [
        *check_selection(selection, ordered),
        *settled.findings,
        *settled.superseded.findings,
        *_foreign_findings(settled.foreign, ordered),
        *check_places(gathered),
        *host_set_mismatches(gathered, settled.superseded.left_out),
        *all_links(ordered),
    ]
    counts = Counts(
        files_in=gathered.files_in,
        # A conflict's losers are in no folder; they count as out, since each of them should be there.
        files_out=sum(folder.count for folder in folders) + settled.unsettled,
        files_deduplicated=settled.deduplicated,
        files_filtered=gathered.filtered,
        files_superseded=settled.superseded.count,
    )
    assert counts.balanced(), counts
    keys = [claim.key for _, _, claim in claims_of(ordered)]
    notes = [
        *selection_notes(selection, ordered),
        *_removal_notes(gathered),
        *foreign_notes(gathered.filtered_foreign, exceptions, keys),
    ]
    return Plan(folders, counts, tuple(found), tuple(notes))


def _removal_notes(gathered: Gathered) -> Iterator[str]:
    for engine, (files, size) in sorted(gathered.removed.items()):
        yield f"filtered: {counted(files, 'file')} of {engine}, {size:,} bytes"


class _Settled(Struct):
    """What came of the contests."""

    superseded: Superseded
    winners: dict[tuple[str, str], Candidate] = field(default_factory=dict)
    """(part's name, destination) -> the candidate that is written."""
    deduplicated: int = 0
    unsettled: int = 0
    foreign: dict[tuple[str, str], list[Candidate]] = field(default_factory=dict)
    """(shard, target folder) -> its files that may not be there."""
    findings: list[Finding] = field(default_factory=list)

    def add_foreign(self, candidate: Candidate) -> None:
        assert candidate.claim is not None
        root = candidate.source.artifact.where(candidate.claim.root)
        self.foreign.setdefault((candidate.shard.name, root), []).append(candidate)


def _settle(
    contested: Sequence[tuple[Part, Contest]],
    known: Digests,
    exceptions: Exceptions,
    build_id: BuildIdFunction,
) -> _Settled:
    settled = _Settled(Superseded(exceptions, build_id))
    # Debug files come last: they follow the binaries.
    for part, contest in sorted(contested, key=lambda item: item[1].dest.endswith(".debug")):
        strays = [c for c in contest.candidates if c.foreign]
        own = [c for c in contest.candidates if not c.foreign]
        if any(is_special(c.entry) for c in contest.candidates):
            own, strays = list(contest.candidates), []  # special-file is reported; nothing is compared
            winner, deduplicated = own[0], len(own) - 1
        elif not own:
            # Every one is a stray. None of them can win, so none is compared.
            winner, deduplicated = strays[0], len(strays) - 1
            for stray in strays:
                settled.add_foreign(stray)
        else:
            winner = preferred(own)
            deduplicated = len(contest.candidates) - 1
            if not all(same_content(own[0], c, known) for c in own):
                decided = settled.superseded.settle(contest, known)
                if decided is not None:
                    winner, deduplicated = decided[0], len(decided[1])
                else:
                    hint = _exception_hint(contest, exceptions)
                    settled.findings.append(conflict(Contest(contest.dest, tuple(own)), known, hint))
                    settled.unsettled += len(own) - 1
                    deduplicated = len(strays)
            for stray in strays:
                if not same_content(own[0], stray, known):
                    settled.add_foreign(stray)
        settled.winners[part.name, contest.dest] = winner
        settled.deduplicated += deduplicated
    return settled


def _exception_hint(contest: Contest, exceptions: Exceptions) -> str:
    """How a policy could settle a conflict of generic files."""
    first = contest.candidates[0]
    if first.claim is not None:
        return ""
    if exceptions.generic_rule(contest) is not None:
        if exceptions.primary is None:
            return "the policy lets the primary shard's file be taken: name that shard with --primary"
        return f"the policy lets the primary shard's file be taken, but shard {exceptions.primary} does not hold it"
    artifact = first.source.artifact
    return (
        "make the builds write the same bytes, or take one shard's with --primary SHARD and a policy line "
        f'[[generic]] artifact = "{artifact.name}", component = "{artifact.component}", paths = [...], '
        'take = "primary", reason = "..."'
    )


def _folders(
    gathered: Gathered, inputs: Sequence[Input], layout: Layout, settled: _Settled
) -> tuple[PlannedFolder, ...]:
    """The planned folders; foreign files that nobody else offers are added to ``settled``."""
    planned = []
    artifacts = [claimed.artifact for item in inputs for claimed in item.artifacts]
    for part, folders in sorted(gathered.offers.items()):
        groups: list[PlannedGroup] = []
        for dest, offers in folders.items():
            first = offers[0]
            if len(offers) == 1 and not first.foreign and ".build-id" not in dest:
                tree = first.source.artifact.tree
                groups.append(PlannedGroup(dest, names_in(first.entries), tree, first.entries))
            else:
                groups += _taken(part, dest, offers, settled)
        prefixes = layout.prefixes(part, artifacts)
        planned.append(PlannedFolder(part.name, part.key, tuple(in_order(groups)), prefixes))
    return tuple(planned)


def _taken(part: Part, dest: str, offers: Sequence[Offer], settled: _Settled) -> Iterator[PlannedGroup]:
    """What goes to a folder of whose files some may be left out; foreign files that nobody else offers are added to
    ``settled``."""
    prefix = dest + "/" if dest else ""
    several = len(offers) > 1
    is_debug = ".build-id" in dest
    taken: list[tuple[str, Tree, Entry]] = []
    for offer in offers:
        tree = offer.source.artifact.tree
        for name, entry in zip(names_in(offer.entries), offer.entries, strict=True):
            winner = settled.winners.get((part.name, prefix + name)) if several else None
            if winner is not None:
                if winner.entry is not entry:
                    continue
            elif offer.foreign:
                settled.add_foreign(offer.candidate(entry))
            if is_debug and settled.superseded.leaves_out(offer.candidate(entry)):
                continue
            taken.append((name, tree, entry))
    taken.sort(key=lambda item: item[0])
    for _, group in groupby(taken, key=lambda item: id(item[1])):
        names, trees, entries = zip(*group, strict=True)
        yield PlannedGroup(dest, names, trees[0], entries)


def _foreign_findings(
    foreign: Mapping[tuple[str, str], Sequence[Candidate]], inputs: Sequence[Input]
) -> Iterator[Finding]:
    for (shard, root), candidates in foreign.items():
        claim = candidates[0].claim
        assert claim is not None
        owners = [item.shard for item in inputs if claim.key.base in item.shard.targets]
        names = ", ".join(owner.name for owner in owners)
        built = ", ".join(sorted(candidates[0].shard.targets))
        yield finding(
            "foreign-target",
            root,
            f"shard {shard} was built for {built} and holds {counted(len(candidates), 'file')} of {claim.engine} for "
            f"{claim.key}, which shard {names} was built for and does not hold like this",
            f"build {claim.key} only in its own shard, or filter these with a policy line "
            f'[[foreign]] engine = "{claim.engine}", keys = ["{claim.key.base}"], reason = "..."',
            sources=[root, *(owner.path for owner in owners)],
        )
