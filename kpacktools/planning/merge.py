"""Planning: from claimed shards to output folders, as a pure function but for the digests of contested files.

Split is merge of one shard; wheels are merge under another layout. Nothing here depends on the order in which
inputs were named: shards are taken in the order of their names and paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kpacktools.checks.paths import check_links
from kpacktools.findings import Finding, Severity, finding
from kpacktools.planning.claims import Claim, ClaimedArtifact, prefix_of
from kpacktools.planning.conflicts import (
    Candidate,
    Contest,
    Digests,
    case_collisions,
    conflict,
    is_special,
    preferred,
    same_content,
    type_conflicts,
)
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.targets import GENERIC, DeviceFilter, TargetId, TargetKey, TargetTable
from kpacktools.trees import Entry, Tree
from kpacktools.trees.shards import Artifact, Shard

__all__ = [
    "ArtifactLayout",
    "Counts",
    "FlatLayout",
    "Input",
    "OwnerLayout",
    "Part",
    "Plan",
    "Selection",
    "plan_merge",
]

DigestFunction = Callable[[Iterable[tuple[Tree, str]]], Digests]


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """One shard with its artifacts claimed."""

    shard: Shard
    artifacts: tuple[ClaimedArtifact, ...]


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


@dataclass(frozen=True, slots=True)
class ArtifactLayout:
    """``{name}_{component}_{key}`` artifact directories, stage prefixes kept."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The artifact directory that a file goes to."""
        key = GENERIC if claim is None else part_key(artifact, claim)
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


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """One install prefix for everything."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The only part there is."""
        return Part((), "", GENERIC)

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The folder below its stage prefix."""
        return below_prefix(artifact, folder)

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> None:
        """No manifest in an install prefix."""


@dataclass(frozen=True, slots=True)
class OwnerLayout:
    """One part per package owner, for wheels: gfx942's holds ``gfx942:xnack+``, gfx1250's ``gfx1250-strict``."""

    def part(self, artifact: Artifact, claim: Claim | None) -> Part:
        """The part of the claim's package owner."""
        key = GENERIC if claim is None else claim.key.owner
        return Part((), key, key)

    def folder(self, artifact: Artifact, folder: str) -> str:
        """The folder below its stage prefix."""
        return below_prefix(artifact, folder)

    def prefixes(self, part: Part, artifacts: Sequence[Artifact]) -> None:
        """No manifest in a wheel."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What of the inputs is wanted; the rest counts as filtered."""

    devices: tuple[DeviceFilter, ...] = ()
    """Empty for all."""
    parents: bool = False
    """Take the family parts that contain a wanted target too."""
    artifacts: frozenset[str] = frozenset()
    components: frozenset[str] = frozenset()
    generic: bool = True
    none_expected: frozenset[str] | None = frozenset()
    """Devices (as asked for) that may match nothing; None allows it for all."""


@dataclass(frozen=True, slots=True)
class Counts:
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


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that will be written, and what is wrong with it."""

    folders: tuple[PlannedFolder, ...]
    counts: Counts
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Decisions worth telling that are nobody's fault."""


class _Offer(NamedTuple):
    """All files of one tree folder, offered for one destination folder."""

    shard: Shard
    source: ClaimedArtifact
    entries: Sequence[Entry]
    claim: Claim | None
    foreign: bool


@dataclass(slots=True)
class _Gathered:
    offers: dict[Part, dict[str, list[_Offer]]] = field(default_factory=dict)
    files_in: int = 0
    filtered: int = 0


def part_key(artifact: Artifact, claim: Claim) -> str:
    """The key of the artifact directory that claimed content goes to.

    That is the key without features, except where the input directory's own suffix carries features for the
    same processor: then the suffix is kept.
    """
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


def plan_merge(
    inputs: Iterable[Input],
    layout: Layout,
    selection: Selection,
    targets: TargetTable,
    digests: DigestFunction,
) -> Plan:
    """Plan the outputs of some shards.

    ``digests`` gives the sha256 of the files that several inputs offer; no other file is read.
    """
    ordered = sorted(inputs, key=lambda item: (item.shard.name, item.shard.path))
    found: list[Finding] = []
    gathered = _gather(ordered, layout, _Filter(selection, ordered, targets))
    found += _check_selection(selection, ordered)
    contests = [
        (part, contest)
        for part, folders in sorted(gathered.offers.items())
        for dest, offers in folders.items()
        if len(offers) > 1
        for contest in _contests(dest, offers)
    ]
    known = digests(
        (candidate.source.artifact.tree, candidate.entry.path)
        for _, contest in contests
        for candidate in contest.candidates
        if not candidate.entry.link and not is_special(candidate.entry)
    )
    winners: dict[tuple[str, str], Candidate] = {}
    deduplicated = unsettled = 0
    foreign: dict[tuple[str, str], list[Candidate]] = {}
    for part, contest in contests:
        strays = [c for c in contest.candidates if c.foreign]
        own = [c for c in contest.candidates if not c.foreign]
        if any(is_special(c.entry) for c in contest.candidates):
            winner, lost = contest.candidates[0], list(contest.candidates[1:])  # special-file is reported
        elif not own:
            # Every one is a stray: reported below. They cannot win, so none is compared.
            winner, lost = strays[0], strays[1:]
            for stray in strays:
                _add_foreign(foreign, stray)
        else:
            winner = preferred(own)
            lost = [c for c in contest.candidates if c is not winner]
            if not all(same_content(own[0], c, known) for c in own):
                found.append(conflict(Contest(contest.dest, tuple(own)), known))
                unsettled += len(own) - 1
                lost = strays
            for stray in strays:
                if not same_content(own[0], stray, known):
                    _add_foreign(foreign, stray)
        winners[part.name, contest.dest] = winner
        deduplicated += len(lost)
    folders, alone = _folders(gathered, ordered, layout, winners)
    for candidate in alone:
        _add_foreign(foreign, candidate)
    found += _foreign_findings(foreign, ordered)
    found += _check_places(gathered)
    found += _check_links(ordered)
    counts = Counts(
        files_in=gathered.files_in,
        # A conflict's losers are in no folder; they count as out, since each of them should be there.
        files_out=sum(len(folder.files) for folder in folders) + unsettled,
        files_deduplicated=deduplicated,
        files_filtered=gathered.filtered,
    )
    assert counts.balanced(), counts
    return Plan(folders, counts, tuple(found), tuple(_notes(selection, ordered)))


def _claims(inputs: Sequence[Input]) -> Iterator[tuple[Input, ClaimedArtifact, Claim]]:
    for item in inputs:
        for claimed in item.artifacts:
            for claim in dict.fromkeys(claimed.folders.values()):
                yield item, claimed, claim


class _Filter:
    """Decides what of the inputs is wanted, once per folder."""

    def __init__(self, selection: Selection, inputs: Sequence[Input], targets: TargetTable) -> None:
        self.selection = selection
        self._keys: dict[TargetKey, bool] = {}
        keys = {claim.key for _, _, claim in _claims(inputs)}
        taken = {key for key in keys if any(device.takes(key) for device in selection.devices)}
        wanted = {parent for key in taken for parent in targets.parents.get(key.base, ())}
        for key in keys:
            self._keys[key] = (
                not selection.devices or key in taken or (selection.parents and key.name in wanted)
            )

    def artifact(self, artifact: Artifact) -> bool:
        return (not self.selection.artifacts or artifact.name in self.selection.artifacts) and (
            not self.selection.components or artifact.component in self.selection.components
        )

    def claim(self, claim: Claim | None) -> bool:
        return self.selection.generic if claim is None else self._keys[claim.key]


def _gather(inputs: Sequence[Input], layout: Layout, wanted: _Filter) -> _Gathered:
    owned: dict[str, list[Shard]] = {}
    for item in inputs:
        for target in item.shard.targets:
            owned.setdefault(target, []).append(item.shard)
    gathered = _Gathered()
    for item in inputs:
        for claimed in item.artifacts:
            artifact = claimed.artifact
            take = wanted.artifact(artifact)
            if take and wanted.selection.generic:
                gathered.offers.setdefault(layout.part(artifact, None), {})
            parts: dict[Claim | None, dict[str, list[_Offer]] | None] = {}
            for folder, entries in artifact.tree.folders.items():
                if not entries:
                    continue
                gathered.files_in += len(entries)
                claim = claimed.folders.get(folder)
                if claim not in parts:
                    parts[claim] = (
                        gathered.offers.setdefault(layout.part(artifact, claim), {})
                        if take and wanted.claim(claim)
                        else None
                    )
                part = parts[claim]
                if part is None:
                    gathered.filtered += len(entries)
                    continue
                owners = owned.get(claim.key.base, ()) if claim is not None else ()
                foreign = bool(owners) and bool(item.shard.targets) and item.shard not in owners
                part.setdefault(layout.folder(artifact, folder), []).append(
                    _Offer(item.shard, claimed, entries, claim, foreign)
                )
    return gathered


def _contests(dest: str, offers: Sequence[_Offer]) -> Iterator[Contest]:
    """The destinations of one folder that more than one offer has a file for."""
    by_name: dict[str, list[Candidate]] = {}
    for offer in offers:
        for entry in offer.entries:
            by_name.setdefault(entry.path.rpartition("/")[2], []).append(
                Candidate(offer.shard, offer.source, entry, offer.claim, offer.foreign)
            )
    for name, candidates in sorted(by_name.items()):
        if len(candidates) > 1:
            yield Contest(f"{dest}/{name}" if dest else name, tuple(candidates))


def _folders(
    gathered: _Gathered,
    inputs: Sequence[Input],
    layout: Layout,
    winners: Mapping[tuple[str, str], Candidate],
) -> tuple[tuple[PlannedFolder, ...], list[Candidate]]:
    """The planned folders, and the candidates of foreign shards that nobody else offers."""
    planned = []
    alone: list[Candidate] = []
    artifacts = [claimed.artifact for item in inputs for claimed in item.artifacts]
    for part, folders in sorted(gathered.offers.items()):
        files: list[PlannedFile] = []
        for dest, offers in folders.items():
            prefix = dest + "/" if dest else ""
            several = len(offers) > 1
            for offer in offers:
                tree = offer.source.artifact.tree
                cut = len(offer.entries[0].path.rpartition("/")[0])
                cut += cut > 0
                for entry in offer.entries:
                    path = prefix + entry.path[cut:]
                    if several and (part.name, path) in winners:
                        if winners[part.name, path].entry is not entry:
                            continue
                    elif offer.foreign:
                        alone.append(Candidate(offer.shard, offer.source, entry, offer.claim, offer.foreign))
                    files.append(PlannedFile(path, tree, entry))
        files.sort(key=_dest)
        planned.append(PlannedFolder(part.name, part.key, tuple(files), layout.prefixes(part, artifacts)))
    return tuple(planned), alone


def _dest(file: PlannedFile) -> str:
    return file.dest


def _add_foreign(foreign: dict[tuple[str, str], list[Candidate]], candidate: Candidate) -> None:
    assert candidate.claim is not None
    root = candidate.source.artifact.where(candidate.claim.root)
    foreign.setdefault((candidate.shard.name, root), []).append(candidate)


def _foreign_findings(
    foreign: Mapping[tuple[str, str], Sequence[Candidate]], inputs: Sequence[Input]
) -> Iterator[Finding]:
    for (shard, root), candidates in foreign.items():
        claim = candidates[0].claim
        assert claim is not None
        owners = [i.shard for i in inputs if claim.key.base in i.shard.targets]
        names = ", ".join(owner.name for owner in owners)
        built = ", ".join(sorted(candidates[0].shard.targets))
        yield finding(
            "foreign-target",
            root,
            f"shard {shard} was built for {built} and holds {len(candidates)} files of {claim.engine} for "
            f"{claim.key}, which shard {names} was built for and does not hold like this",
            f"build {claim.key} only in its own shard, or filter these with a policy line "
            f'[[foreign]] engine = "{claim.engine}", keys = ["{claim.key.base}"], reason = "..."',
            sources=[root, *(owner.path for owner in owners)],
        )


def _check_places(gathered: _Gathered) -> Iterator[Finding]:
    """Destinations that cannot stand side by side once parts are installed over one another."""
    scopes: dict[tuple[str, ...], dict[str, list[_Offer]]] = {}
    for part, folders in sorted(gathered.offers.items()):
        scope = scopes.setdefault(part.scope, {})
        for dest, offers in folders.items():
            scope.setdefault(dest, []).extend(offers)
    for folders in scopes.values():
        places: dict[str, str] = {}
        names: dict[str, list[str]] = {}
        for dest, offers in folders.items():
            source = offers[0].source.artifact.where(offers[0].entries[0].path)
            path = dest
            while path and path not in places:
                places[path] = source
                parent, _, name = path.rpartition("/")
                names.setdefault(parent, []).append(name)
                path = parent
        files: list[tuple[str, str]] = []
        for dest, offers in folders.items():
            prefix = dest + "/" if dest else ""
            here = names.setdefault(dest, [])
            inner = set(here)
            for offer in offers:
                for entry in offer.entries:
                    name = entry.path.rpartition("/")[2]
                    here.append(name)
                    if name in inner:
                        files.append((prefix + name, offer.source.artifact.where(entry.path)))
        yield from type_conflicts(files, places)
        yield from case_collisions(names)


def _check_links(inputs: Sequence[Input]) -> Iterator[Finding]:
    """Links of all inputs, looked up in the union of what is installed over one another."""
    linked = [
        claimed.artifact
        for item in inputs
        for claimed in item.artifacts
        if any(entry.link for entries in claimed.artifact.tree.folders.values() for entry in entries)
    ]
    if not linked:
        return
    present: set[str] = set()
    folders: set[str] = set()
    for item in inputs:
        for claimed in item.artifacts:
            for folder, entries in claimed.artifact.tree.folders.items():
                below = below_prefix(claimed.artifact, folder)
                folders.add(below)
                prefix = below + "/" if below else ""
                present.update(prefix + entry.path.rpartition("/")[2] for entry in entries)
    for artifact in linked:
        yield from check_links(artifact, present, folders)


def _check_selection(selection: Selection, inputs: Sequence[Input]) -> Iterator[Finding]:
    keys = sorted({claim.key for _, _, claim in _claims(inputs)})
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


def _notes(selection: Selection, inputs: Sequence[Input]) -> Iterator[str]:
    keys = sorted({claim.key for _, _, claim in _claims(inputs)})
    for device in selection.devices:
        variants = [
            key.name for key in keys if device.key is not None and device.takes(key) and key != device.key
        ]
        if variants:
            yield f"--device {device.text} takes its feature variants too: {', '.join(variants)}"
