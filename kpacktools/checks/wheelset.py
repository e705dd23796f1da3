"""Checks of several wheels side by side: files that two of them own, versions that do not fit, missing libraries."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from kpacktools.checks.needed import Library, check_needed, is_library
from kpacktools.checks.wheelread import Wheel, installed, systems
from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.trees.wheel import WheelTree

__all__ = ["shared_files", "unresolved", "version_skews"]

_PACKAGES: Final = "lib/python3/site-packages"
"""The folder of packages below the prefix; what matters is how deep it is."""


def shared_files(wheels: Iterable[Wheel]) -> Iterator[Finding]:
    """Paths that two distributions own which can be installed side by side."""
    owners: dict[tuple[str, str], list[tuple[Wheel, str]]] = {}
    for wheel in wheels:
        for path in wheel.tree.members:
            place = installed(wheel, path)
            if place is not None:
                owners.setdefault(place, []).append((wheel, path))
    for shared in owners.values():
        first, first_path = shared[0]
        for other, path in shared[1:]:
            if other.distribution != first.distribution and _meet(first, other):
                yield finding(
                    "wheel-shared-file",
                    other.where(path),
                    f"is in two distributions, {first.distribution} and {other.distribution}: uninstalling one "
                    "breaks the other",
                    "leave the file to one of them, which the other requires",
                    sources=(first.where(first_path), other.where(path)),
                )


def _meet(first: Wheel, second: Wheel) -> bool:
    """True where some operating system takes both wheels."""
    ours, theirs = systems(first), systems(second)
    return "any" in ours | theirs or not ours or not theirs or not ours.isdisjoint(theirs)


def version_skews(wheels: Sequence[Wheel]) -> Iterator[Finding]:
    """Wheels that require one which is there, but in no version that they would take."""
    present: dict[str, dict[Version, str]] = {}
    for wheel in wheels:
        version = wheel.version()
        if version is not None:
            present.setdefault(wheel.distribution, {})[version] = wheel.path
    for wheel in wheels:
        wanted: dict[str, list[Requirement]] = {}
        for requirement in wheel.requirements():
            wanted.setdefault(canonicalize_name(requirement.name), []).append(requirement)
        for name, alternatives in wanted.items():
            versions = present.get(name, {})
            taken = any(
                requirement.specifier.contains(version, prereleases=True)
                for requirement in alternatives
                for version in versions
            )
            if versions and not taken:
                there = ", ".join(map(str, sorted(versions)))
                asked = " or ".join(dict.fromkeys(str(r.specifier) for r in alternatives))
                yield finding(
                    "wheel-version-skew",
                    wheel.path,
                    f"requires {name} {asked}, and the one beside it is {there}",
                    "build host and device wheels from one release, or pin them with --pin compatible",
                    sources=(wheel.path, *(path for _, path in sorted(versions.items()))),
                )


def unresolved(wheels: Sequence[Wheel], whole: Mapping[int, ClaimedArtifact]) -> Iterator[Finding]:
    """``wheel-needed-unresolved`` for the wheels that stand alone, or beside all that they require."""
    required: dict[str, set[str]] = {}
    for wheel in wheels:
        needs = required.setdefault(wheel.distribution, set())
        # What an extra brings is there for some users only.
        needs.update(
            canonicalize_name(requirement.name)
            for requirement in wheel.requirements()
            if "extra" not in str(requirement.marker or "")
        )
    places = {
        place: path for wheel in wheels for path in wheel.tree.members if (place := _place(wheel, path))
    }
    libraries = [
        Library(wheel.path, place, tree, path)
        for wheel in wheels
        if _is_closed(wheel.distribution, required)
        for tree in (whole[id(wheel.claimed)].artifact.tree,)
        if isinstance(tree, WheelTree)
        for path in tree.members
        if is_library(path) and (place := _place(wheel, path))
    ]
    yield from check_needed(libraries, places)


def _place(wheel: Wheel, path: str) -> str:
    """Where a member is installed below the prefix, on systems with ELF files; empty for one that installers refuse."""
    where = installed(wheel, path)
    if where is None:
        return ""
    root, below = where
    return posixpath.join(root.removeprefix("prefix"), below) if root else posixpath.join(_PACKAGES, below)


def _is_closed(distribution: str, required: Mapping[str, Collection[str]]) -> bool:
    """True where all that a distribution requires, also in turn, is among those that are given."""
    seen: set[str] = set()
    waiting = [distribution]
    while waiting:
        name = waiting.pop()
        if name not in required:
            return False
        if name not in seen:
            seen.add(name)
            waiting += required[name]
    return True
