"""Checks of wheels, whoever made them: their names, RECORD, places, device code, and several of them side by side.

From depth toc on every compressed member is decompressed once, and at depth content every member is hashed; one that
turns out to be damaged is reported and taken out of the tree, so that nobody who reads the wheel later stumbles over
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from kpacktools.checks.references import some
from kpacktools.checks.wheelcode import check_device_code
from kpacktools.checks.wheellooks import HASHES, Look, looks_of
from kpacktools.checks.wheelnames import check_wheel_names
from kpacktools.checks.wheelread import (
    SCHEMES,
    Wheel,
    damaged,
    installed,
    read_wheel,
    systems,
)
from kpacktools.checks.wheelrecord import check_record
from kpacktools.checks.wheelset import shared_files, unresolved, version_skews
from kpacktools.findings import Finding, Severity, counted, finding
from kpacktools.hookspecs import Depth
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.planning.selection import Input
from kpacktools.progress import SILENT, Progress
from kpacktools.targets import TargetTable
from kpacktools.trees.wheel import WheelTree

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["CheckedWheels", "check_wheels"]


class CheckedWheels(Struct, frozen=True):
    """What checking wheels brought."""

    inputs: tuple[Input, ...]
    """All inputs, wheels without the members that cannot be read."""
    findings: tuple[Finding, ...] = ()
    digests: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(Wheel, member) -> its sha256 as in RECORD, of the device code that was read whole."""


def check_wheels(
    inputs: Sequence[Input],
    depth: Depth,
    targets: TargetTable,
    jobs: int = 1,
    progress: Progress = SILENT,
    cache: Cache | None = None,
) -> CheckedWheels:
    """Check every wheel among the inputs on its own, and all of them together, on ``jobs`` threads.

    ``archive-invalid``, ``bad-path``, ``case-collision``, ``wheel-name-invalid``, ``wheel-record-invalid``,
    ``codeobject-target-mismatch``, ``target-mismatch``, ``device-code-in-generic`` (info: a wheel is installed as a
    whole), ``wheel-shared-file`` and ``wheel-version-skew``.
    """
    found: list[Finding] = []
    wheels = [
        read_wheel(claimed, tree, found)
        for item in inputs
        for claimed in item.artifacts
        for tree in (claimed.artifact.tree,)
        # Of a wheel without members all that is wrong was found when it was opened.
        if isinstance(tree, WheelTree) and tree.members
    ]
    if not wheels:
        return CheckedWheels(tuple(inputs))
    entries = [entry for wheel in wheels for entry in wheel.tree.members.values()]
    progress.start("reading wheels", files=len(entries), size=sum(entry.size for entry in entries))
    whole: dict[int, ClaimedArtifact] = {}
    digests: dict[tuple[str, str], str] = {}
    with ThreadPoolExecutor(jobs) as executor:
        for wheel in wheels:
            looks = looks_of(wheel, depth, executor, progress, cache)
            found += _check_wheel(wheel, looks, depth, targets)
            whole[id(wheel.claimed)] = _without_damaged(wheel, looks)
            digests.update(_device_digests(wheel, looks))
    if len(wheels) > 1:
        found += shared_files(wheels)
        found += version_skews(wheels)
    if depth >= Depth.TOC:
        # Libraries of a wheel that is far away are looked into where all of it is read.
        found += unresolved([wheel for wheel in wheels if not wheel.tree.is_partial], whole)
    checked = tuple(
        replace(item, artifacts=tuple(whole.get(id(claimed), claimed) for claimed in item.artifacts))
        for item in inputs
    )
    return CheckedWheels(checked, tuple(found), digests)


def _device_digests(wheel: Wheel, looks: Mapping[str, Look]) -> Iterator[tuple[tuple[str, str], str]]:
    for path, look in looks.items():
        # Other algorithms of RECORD have longer digests.
        if look.kind is not None and look.digest is not None and len(look.digest) == HASHES["sha256"]:
            yield (wheel.path, path), look.digest


def _without_damaged(wheel: Wheel, looks: Mapping[str, Look]) -> ClaimedArtifact:
    damaged = {path for path, look in looks.items() if look.fault}
    if not damaged:
        return wheel.claimed
    artifact = replace(wheel.claimed.artifact, tree=wheel.tree.without(damaged))
    return replace(wheel.claimed, artifact=artifact)


def _check_wheel(
    wheel: Wheel, looks: Mapping[str, Look], depth: Depth, targets: TargetTable
) -> Iterator[Finding]:
    """Everything that is wrong with one wheel."""
    yield from (damaged(wheel.tree, path, look.fault) for path, look in looks.items() if look.fault)
    yield from check_wheel_names(wheel)
    yield from check_record(wheel, looks)
    yield from _check_places(wheel)
    yield from check_device_code(wheel, looks, depth, targets)


def _check_places(wheel: Wheel) -> Iterator[Finding]:
    """Members that are installed elsewhere than they read, and where two of them meet."""
    refused = [path for path in wheel.tree.members if installed(wheel, path) is None]
    if refused and wheel.dist_info is not None:
        yield finding(
            "archive-invalid",
            wheel.where(refused[0].partition("/")[0]),
            f"installers refuse {counted(len(refused), 'file')} of it: {some(refused)}",
            f"expected {wheel.data_folder}/ with {', '.join(sorted(SCHEMES))} below it",
        )
    by_place: dict[tuple[str, str], list[str]] = {}
    for path in wheel.tree.members:
        place = installed(wheel, path)
        if place is not None:
            by_place.setdefault((place[0], place[1].casefold()), []).append(path)
    linux_only = systems(wheel) == {"linux"}
    for paths in by_place.values():
        if len(paths) == 1:
            continue
        if len({installed(wheel, path) for path in paths}) == 1:
            yield finding(
                "wheel-record-invalid",
                wheel.where(paths[-1]),
                f"is installed over another member: {some(paths)} have one place",
                "keep one of them",
            )
        else:
            yield finding(
                "case-collision",
                wheel.where(paths[-1]),
                f"differs only in case from another member: {some(paths)}",
                "rename one: on Windows and macOS one overwrites the other",
                severity=Severity.WARNING if linux_only else None,
            )
