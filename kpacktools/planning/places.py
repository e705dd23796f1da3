"""Places: destinations that cannot stand side by side once parts are installed over one another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kpacktools.findings import Finding, counted, finding
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.links import check_links
from kpacktools.planning.offers import Gathered, Offer
from kpacktools.planning.selection import Input
from kpacktools.trees import names_in

__all__ = ["all_links", "check_places", "host_set_mismatches"]

_NAMED_AT_MOST = 3


def check_places(gathered: Gathered) -> Iterator[Finding]:
    """``path-type-conflict`` and ``case-collision`` among the parts of one scope."""
    scopes: dict[tuple[str, ...], dict[str, list[Offer]]] = {}
    for part, folders in sorted(gathered.offers.items()):
        scope = scopes.setdefault(part.scope, {})
        for dest, offers in folders.items():
            scope.setdefault(dest, []).extend(offers)
    for folders in scopes.values():
        places: dict[str, str] = {}
        inner: dict[str, list[str]] = {}
        for dest, offers in folders.items():
            source = offers[0].source.artifact.where(offers[0].entries[0].path)
            path = dest
            while path and path not in places:
                places[path] = source
                parent, _, name = path.rpartition("/")
                inner.setdefault(parent, []).append(name)
                path = parent
        for dest, offers in folders.items():
            below = inner.get(dest, ())
            names = [name for offer in offers for name in names_in(offer.entries)]
            yield from _type_conflicts(dest, offers, set(below), places)
            yield from _case_collisions(dest, [*below, *names])
        for dest in set(inner) - set(folders):
            yield from _case_collisions(dest, inner[dest])


def _type_conflicts(
    dest: str, offers: Sequence[Offer], below: set[str], places: Mapping[str, str]
) -> Iterator[Finding]:
    for offer in offers if below else ():
        for entry in offer.entries:
            name = entry.path.rpartition("/")[2]
            if name not in below:
                continue
            path = f"{dest}/{name}" if dest else name
            source = offer.source.artifact.where(entry.path)
            yield finding(
                "path-type-conflict",
                path,
                f"is a file in {source} and a folder in {places[path]}",
                "rename one of them where it is built",
                sources=(source, places[path]),
            )


def _case_collisions(folder: str, names: Sequence[str]) -> Iterator[Finding]:
    unique = set(names)
    # Most folders are clean: one comparison of sizes settles them.
    if len(set("/".join(unique).casefold().split("/"))) == len(unique):
        return
    seen: dict[str, str] = {}
    for name in sorted(unique):
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            prefix = folder + "/" if folder else ""
            yield finding(
                "case-collision",
                prefix + name,
                f"differs from {other!r} beside it only in upper and lower case",
                "Windows and macOS would keep one of the two: rename one",
                sources=(prefix + other, prefix + name),
            )


def host_set_mismatches(gathered: Gathered, left_out: Collection[int]) -> Iterator[Finding]:
    """``host-set-mismatch``: shards whose generic halves of one artifact's component hold different files.

    Shards that hold none of it are passed over: a part that was split off has no generic half. So are the entries
    (by ``id``) in ``left_out``, which a policy supersedes.
    """
    for part, folders in sorted(gathered.offers.items()):
        holders = {offer.shard.name for offers in folders.values() for offer in offers if _is_host(offer)}
        if len(holders) < 2:
            continue
        missing: list[tuple[str, list[str]]] = []
        for dest, offers in sorted(folders.items()):
            by_name: dict[str, set[str]] = {}
            for offer in offers:
                for entry in offer.entries if _is_host(offer) else ():
                    if id(entry) in left_out:
                        continue
                    by_name.setdefault(entry.path.rpartition("/")[2], set()).add(offer.shard.name)
            for name, shards in by_name.items():
                if len(shards) < len(holders) and not _follows_a_binary(dest):
                    missing.append((f"{dest}/{name}" if dest else name, sorted(holders - shards)))
        if missing:
            some = "; ".join(f"{path} is not in {', '.join(who)}" for path, who in missing[:_NAMED_AT_MOST])
            more = f"; and {len(missing) - _NAMED_AT_MOST} more" if len(missing) > _NAMED_AT_MOST else ""
            yield finding(
                "host-set-mismatch",
                part.name or part.key,
                f"the generic halves of {len(holders)} shards differ in {counted(len(missing), 'file')}: {some}{more}",
                "all of them are kept; find out why one build made files that another did not",
                sources=sorted(holders),
            )


def _follows_a_binary(folder: str) -> bool:
    """True for the folders of ``.build-id/xx/yyyy.debug`` files: they differ wherever binaries do."""
    return folder.rpartition("/")[0].endswith(".build-id")


def _is_host(offer: Offer) -> bool:
    """True for files of the host side: claimed by nobody, and not in an engine's or a target's folder, where they
    would be misplaced content that other findings speak of."""
    folder = offer.entries[0].path.rpartition("/")[0]
    return offer.claim is None and folder not in offer.source.containers and folder not in offer.source.named


def all_links(inputs: Sequence[Input]) -> Iterator[Finding]:
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
                present.update([prefix + name for name in names_in(entries)])
    for artifact in linked:
        yield from check_links(artifact, present, folders)
