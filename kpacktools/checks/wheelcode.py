"""Device code in wheels: is it for the devices that its place and the wheel's name promise?"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kpacktools.checks.kernels import archive_finding
from kpacktools.checks.references import some
from kpacktools.checks.wheellooks import Look, kind_by_name
from kpacktools.checks.wheelread import Wheel
from kpacktools.findings import Finding, Severity, counted, finding
from kpacktools.hookspecs import Depth
from kpacktools.kpack import KpackError, read_toc
from kpacktools.targets import GENERIC, TargetKey, TargetTable, UnknownTargetError
from kpacktools.trees import Entry
from kpacktools.trees.wheel import WheelTree

__all__ = ["check_device_code"]

_NOUNS: Final = {"kpack": "kpack", "code-object": "code object"}


class _DeviceCode(NamedTuple):
    """What unclaimed device code has in common that is reported together."""

    kind: str
    targets: tuple[str, ...]
    """What it was built for, as far as it says."""
    place: TargetKey | None
    """The key that the folder, else the wheel, is named after; None for a wheel for any device."""


def check_device_code(
    wheel: Wheel, looks: Mapping[str, Look], depth: Depth, targets: TargetTable
) -> Iterator[Finding]:
    """Device code for other devices than its place or the wheel's name says, and, in a wheel for any device, what
    lies in no engine's place."""
    suffix = wheel.claimed.artifact.suffix
    own = None if suffix == GENERIC else targets.key(suffix)
    for claim in wheel.claimed.claims():
        if own is not None and not _fits(own, claim.key.name, targets):
            yield finding(
                "target-mismatch",
                wheel.where(claim.root),
                f"holds content for {claim.key}, and the wheel is named after {own}",
                "build it into the wheel of its own target",
            )
    unreadable: list[Finding] = []
    for code, paths in _unclaimed_code(wheel, own, looks, depth, targets, unreadable).items():
        folder = posixpath.commonpath([posixpath.dirname(path) for path in paths])
        names = some([path[len(folder) + 1 if folder else 0 :] for path in paths])
        what = counted(len(paths), _NOUNS[code.kind])
        built_for = f" for {', '.join(code.targets)}" if code.targets else ""
        verb = "lies" if len(paths) == 1 else "lie"
        if code.place is not None and not all(_fits(code.place, t, targets) for t in code.targets):
            yield finding(
                "target-mismatch" if code.kind == "kpack" else "codeobject-target-mismatch",
                wheel.where(folder),
                f"{what}{built_for} {verb} under {code.place}: {names}",
                "a device would refuse or misread them: build them into the wheel of their own target",
            )
        elif own is None:
            yield finding(
                "device-code-in-generic",
                wheel.where(folder),
                f"{what}{built_for} {verb} in no engine's place: {names}",
                "nothing to do where the wheel is installed as a whole; a split goes by their own headers",
                severity=Severity.INFO,
            )
    yield from unreadable


def _unclaimed_code(
    wheel: Wheel,
    own: TargetKey | None,
    looks: Mapping[str, Look],
    depth: Depth,
    targets: TargetTable,
    unreadable: list[Finding],
) -> dict[_DeviceCode, list[str]]:
    """Device code that no handler claims; archives that cannot be read go to ``unreadable``."""
    groups: dict[_DeviceCode, list[str]] = {}
    for folder, entries in wheel.tree.folders.items():
        place = _named_key(wheel.claimed.named.get(folder, ""), targets) or own
        for entry in wheel.claimed.generic(folder, entries):
            look = Look(kind_by_name(entry.path)) if depth < Depth.TOC else looks[entry.path]
            if look.kind is None:
                continue
            built_for: tuple[str, ...] = (look.target,) if look.target else ()
            if look.kind == "kpack" and depth >= Depth.TOC:
                try:
                    built_for = _kpack_targets(wheel.tree, entry)
                except (KpackError, OSError) as error:
                    unreadable.append(archive_finding(wheel.where(entry.path), error))
                    continue
            groups.setdefault(_DeviceCode(look.kind, built_for, place), []).append(entry.path)
    return groups


def _named_key(folder: str, targets: TargetTable) -> TargetKey | None:
    """The key that an unclaimed folder is named after."""
    try:
        return targets.key(posixpath.basename(folder)) if folder else None
    except UnknownTargetError:
        return None


def _kpack_targets(tree: WheelTree, entry: Entry) -> tuple[str, ...]:
    with tree.open(entry.path) as stream:
        toc = read_toc(stream, entry.size)
    return tuple(sorted(toc.targets() | set(toc.gfx_arches)))


def _fits(key: TargetKey, target: str, targets: TargetTable) -> bool:
    """True where content for ``target`` is of use in a wheel that is named after ``key``: its own, that of a
    variant which the wheel carries too, and that of a family which the devices belong to."""
    if targets.covers(key, target):
        return True
    try:
        other = targets.key(target)
    except UnknownTargetError:
        return False
    parents = targets.parents.get(key.base, ())
    is_wider = other.is_bundle or other.base.endswith("-generic")
    return other.owner == key.name or (
        is_wider and any(targets.covers(targets.key(parent), target) for parent in parents)
    )
