"""Checks of wheels, whoever made them: their names, RECORD, places, device code, and several of them side by side.

After the specifications "Binary distribution format", "Core metadata" and "Recording installed projects" (all on
packaging.python.org). From depth toc on every compressed member is decompressed once, and at depth content every
member is hashed; one that turns out to be damaged is reported and taken out of the tree, so that nobody who reads
the wheel later stumbles over it.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.metadata import InvalidMetadata, Metadata, RawMetadata
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name

from kpacktools import codeobject
from kpacktools.checks.kernels import LOOSE, archive_finding
from kpacktools.checks.references import some
from kpacktools.checks.wheelread import (
    DIST_INFO,
    SCHEMES,
    Row,
    Wheel,
    as_version,
    damaged,
    installed,
    read_wheel,
    systems,
)
from kpacktools.checks.wheelset import shared_files, unresolved, version_skews
from kpacktools.findings import Finding, Severity, counted, finding
from kpacktools.hookspecs import Depth
from kpacktools.kpack import KpackError, read_toc
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.planning.selection import Input
from kpacktools.progress import SILENT, Progress
from kpacktools.targets import GENERIC, TargetKey, TargetTable, UnknownTargetError
from kpacktools.trees import Entry
from kpacktools.trees.wheel import WheelTree

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["CheckedWheels", "check_wheels"]

MAX_TAGS: Final = 10_000
"""Tags that a WHEEL file may expand to."""

_HASHES: Final = {"sha256": 43, "sha384": 64, "sha512": 86}
"""What RECORD may use -> characters of a digest in base64 without padding."""
_BASE64: Final = re.compile("[A-Za-z0-9_-]*")
_UNHASHED: Final = ("RECORD", "RECORD.jws", "RECORD.p7s")
_CHUNK_BYTES: Final = 4 << 20
_CHUNK_FILES: Final = 256
_NOUNS: Final = {"kpack": "kpack", "code-object": "code object"}


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
            looks = _known_looks(wheel, depth, executor, progress, cache)
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


def _device_digests(wheel: Wheel, looks: Mapping[str, _Look]) -> Iterator[tuple[tuple[str, str], str]]:
    for path, look in looks.items():
        # Other algorithms of RECORD have longer digests.
        if look.kind is not None and look.digest is not None and len(look.digest) == _HASHES["sha256"]:
            yield (wheel.path, path), look.digest


def _without_damaged(wheel: Wheel, looks: Mapping[str, _Look]) -> ClaimedArtifact:
    damaged = {path for path, look in looks.items() if look.fault}
    if not damaged:
        return wheel.claimed
    artifact = replace(wheel.claimed.artifact, tree=wheel.tree.without(damaged))
    return replace(wheel.claimed, artifact=artifact)


class _Look(NamedTuple):
    """What reading a member brought."""

    kind: str | None = None
    """``kpack`` or ``code-object``; None for all that is no device code."""
    target: str | None = None
    """What a code object was built for."""
    digest: str | None = None
    """Base64 by the algorithm that RECORD uses for it; None where it was not read whole."""
    fault: str = ""
    """Why it cannot be read."""


def _known_looks(
    wheel: Wheel, depth: Depth, executor: ThreadPoolExecutor, progress: Progress, cache: Cache | None
) -> dict[str, _Look]:
    """What members are, by an earlier run where the wheel is known to be the same."""
    if wheel.tree.is_partial and depth == Depth.TOC:
        # Reading members would fetch most of the wheel: they are what their names say, until depth content.
        return {path: _Look(_kind_by_name(path)) for path in wheel.tree.members}
    identity = wheel.tree.source_identity
    if cache is None or identity is None or depth < Depth.TOC:
        return _look_at_members(wheel, depth, executor, progress)
    known: dict[str, _Look] | None = cache.get_value("looks", dict[str, _Look], identity, depth.name)
    if known is not None and known.keys() == wheel.tree.members.keys():
        return {path: known[path] for path in wheel.tree.members}
    looks = _look_at_members(wheel, depth, executor, progress)
    if not any(look.fault for look in looks.values()):
        cache.put_value("looks", looks, identity, depth.name)
    return looks


def _look_at_members(
    wheel: Wheel, depth: Depth, executor: ThreadPoolExecutor, progress: Progress
) -> dict[str, _Look]:
    """Read members as far as the depth asks; none at depth layout."""
    if depth < Depth.TOC:
        return {}
    algorithms = {row.path: row.digest.partition("=")[0] for row in wheel.rows or ()}
    chunks: list[list[Entry]] = [[]]
    size = 0
    for entry in wheel.tree.members.values():
        if size >= _CHUNK_BYTES or len(chunks[-1]) >= _CHUNK_FILES:
            chunks.append([])
            size = 0
        chunks[-1].append(entry)
        size += entry.size

    def look(chunk: Sequence[Entry]) -> list[_Look]:
        return [_look_at(wheel.tree, entry.path, algorithms.get(entry.path), depth) for entry in chunk]

    looks: dict[str, _Look] = {}
    for chunk, results in zip(chunks, executor.map(look, chunks), strict=True):
        looks.update(zip((entry.path for entry in chunk), results, strict=True))
        progress.advance(files=len(chunk), size=sum(entry.size for entry in chunk))
    return looks


def _look_at(tree: WheelTree, path: str, algorithm: str | None, depth: Depth) -> _Look:
    digest = hashlib.new(algorithm if algorithm in _HASHES else "sha256")
    head = b""
    whole = depth >= Depth.CONTENT
    try:
        for block in tree.blocks(path):
            head = head or block[: codeobject.HEAD_SIZE]
            if whole:
                digest.update(block)
            elif tree.is_stored(path):
                break
    except OSError as error:
        return _Look(fault=str(error.strerror))
    header = codeobject.probe(head)
    encoded = urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() if whole else None
    return _Look(codeobject.kind(head), None if header is None else header.target_id, encoded)


def _check_wheel(
    wheel: Wheel, looks: Mapping[str, _Look], depth: Depth, targets: TargetTable
) -> Iterator[Finding]:
    """Everything that is wrong with one wheel."""
    yield from (damaged(wheel.tree, path, look.fault) for path, look in looks.items() if look.fault)
    for message in (*_names_differ(wheel), *_metadata_faults(wheel), *_wheel_faults(wheel)):
        yield finding(
            "wheel-name-invalid", wheel.path, message, "build the wheel again; do not rename or edit one"
        )
    yield from _milder_name_faults(wheel)
    if wheel.rows is not None:
        for message in _record_faults(wheel, wheel.rows, looks):
            yield finding(
                "wheel-record-invalid",
                wheel.where(f"{wheel.dist_info}/RECORD"),
                message,
                "what changes a wheel has to write its RECORD again: `wheel unpack`, edit, `wheel pack`",
            )
    yield from _check_places(wheel)
    yield from _check_device_code(wheel, looks, depth, targets)


def _names_differ(wheel: Wheel) -> Iterator[str]:
    """Where the file name and what is inside say different names or versions."""
    if wheel.name is None:
        return
    said = []
    if wheel.dist_info is not None:
        name, _, version = wheel.dist_info.removesuffix(DIST_INFO).partition("-")
        said.append((f"its folder {wheel.dist_info}", name, version))
    if wheel.metadata is not None:
        said.append(("its METADATA", wheel.metadata.get("name", ""), wheel.metadata.get("version", "")))
    for what, name, version in said:
        if canonicalize_name(name) != wheel.name.distribution or as_version(version) != wheel.name.version:
            yield (
                f"{what} says {name or 'no name'} {version or 'without a version'}, its file name "
                f"{wheel.name.distribution} {wheel.name.version}"
            )


def _metadata_faults(wheel: Wheel) -> Iterator[str]:
    """Fields of METADATA that do not follow its specification.

    That a field is newer than the Metadata-Version is none: setuptools wrote License-File for years before 2.4.
    Nor is a newer minor version, which installers take.
    """
    if wheel.metadata is None:
        return
    version = wheel.metadata.get("metadata_version", "")
    if version.partition(".")[0] not in ("1", "2"):
        yield f"its METADATA says Metadata-Version {version or '(nothing)'}, and installers know 1 and 2"
    metadata = Metadata.from_raw(wheel.metadata, validate=False)
    for name in sorted({"name", "version", *wheel.metadata} - {"metadata_version"}):
        try:
            getattr(metadata, name)
        except InvalidMetadata as error:
            yield f"its METADATA is invalid: {' '.join(str(error).split())}"


def _wheel_faults(wheel: Wheel) -> Iterator[str]:
    """What is wrong with the WHEEL file, or otherwise there than in the file name."""
    if wheel.about is None:
        return
    version = str(wheel.about.get("Wheel-Version", "")).strip()
    if version.partition(".")[0] != "1":
        yield f"its WHEEL file says Wheel-Version {version or '(nothing)'}, and installers know 1.0"
    purelib = str(wheel.about.get("Root-Is-Purelib", "")).strip()
    if purelib.lower() not in ("true", "false"):
        yield f"its WHEEL file says Root-Is-Purelib {purelib or '(nothing)'}, expected true or false"
    if wheel.name is None:
        return
    build = str(wheel.about.get("Build", "")).strip()
    named = "".join(map(str, wheel.name.build))
    if build != named:
        yield f"its WHEEL file says build {build or '(none)'}, its file name {named or '(none)'}"
    lines = [str(line).strip() for line in wheel.about.get_all("Tag", [])]
    if sum(math.prod(part.count(".") + 1 for part in line.split("-")) for line in lines) > MAX_TAGS:
        yield f"its WHEEL file expands to more than {MAX_TAGS:,} tags"
        return
    try:
        tags = frozenset(tag for line in lines for tag in parse_tag(line))
    except ValueError:
        yield f"its WHEEL file holds a tag that cannot be read: {some(lines)}"
        return
    if tags != wheel.tags:
        inside, outside = sorted(map(str, tags)), sorted(map(str, wheel.tags))
        yield f"its WHEEL file says {some(inside) or 'no tag'}, its file name {some(outside)}"


def _milder_name_faults(wheel: Wheel) -> Iterator[Finding]:
    """What installers put up with."""
    messages = []
    if wheel.name is not None and wheel.name.spelling != str(wheel.name.version):
        messages.append(
            f"its file name spells the version {wheel.name.spelling}, whose normal form is {wheel.name.version}"
        )
    if wheel.unparsed and _is_known(wheel.metadata):
        messages.append(f"its METADATA holds fields that no standard has so: {some(sorted(wheel.unparsed))}")
    for message in messages:
        yield finding(
            "wheel-name-invalid",
            wheel.path,
            message,
            "build the wheel with a current builder",
            severity=Severity.WARNING,
        )


def _is_known(metadata: RawMetadata | None) -> bool:
    """True for a version of METADATA whose fields packaging knows."""
    try:
        return metadata is not None and bool(Metadata.from_raw(metadata, validate=False).metadata_version)
    except InvalidMetadata:
        return False


def _record_faults(wheel: Wheel, rows: Sequence[Row], looks: Mapping[str, _Look]) -> Iterator[str]:
    """RECORD against the members, in both directions."""
    members = wheel.tree.members
    unhashed = {f"{wheel.dist_info}/{name}" for name in _UNHASHED}
    listed = Counter(row.path for row in rows)
    unlisted = [path for path in members if path not in listed and path not in unhashed]
    if f"{wheel.dist_info}/RECORD" not in listed:
        unlisted.append(f"{wheel.dist_info}/RECORD")
    lists: dict[str, list[str]] = {
        "it does not list {}": unlisted,
        "it lists {} that the wheel lacks": [path for path in listed if path not in members],
        "it lists {} more than once": [path for path, count in listed.items() if count > 1],
    }
    for row in rows:
        fault = _row_fault(row, row.path in unhashed, members.get(row.path), looks.get(row.path, _Look()))
        if fault is not None:
            lists.setdefault(fault, []).append(row.path)
    for message, paths in lists.items():
        if paths:
            yield message.format(counted(len(paths), "file")) + f": {some(sorted(set(paths)))}"


def _row_fault(row: Row, may_lack: bool, entry: Entry | None, look: _Look) -> str | None:
    """What is wrong with one line of RECORD: a message with room for how many files share it."""
    algorithm, _, digest = row.digest.partition("=")
    if not row.digest:
        return None if may_lack else "it has no digest of {}"
    if algorithm not in _HASHES:
        return f"it has {algorithm} digests, which are not allowed, of {{}}"
    if len(digest) != _HASHES[algorithm] or not _BASE64.fullmatch(digest):
        return f"it has {algorithm} digests that are not unpadded urlsafe base64 of {{}}"
    if entry is None:
        return None
    if look.digest is not None and look.digest != digest:
        return "it has digests that are not those of {}"
    if row.size and row.size != str(entry.size):
        return "it has sizes that are not those of {}"
    return None


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


class _DeviceCode(NamedTuple):
    """What unclaimed device code has in common that is reported together."""

    kind: str
    targets: tuple[str, ...]
    """What it was built for, as far as it says."""
    place: TargetKey | None
    """The key that the folder, else the wheel, is named after; None for a wheel for any device."""


def _check_device_code(
    wheel: Wheel, looks: Mapping[str, _Look], depth: Depth, targets: TargetTable
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
    looks: Mapping[str, _Look],
    depth: Depth,
    targets: TargetTable,
    unreadable: list[Finding],
) -> dict[_DeviceCode, list[str]]:
    """Device code that no handler claims; archives that cannot be read go to ``unreadable``."""
    groups: dict[_DeviceCode, list[str]] = {}
    for folder, entries in wheel.tree.folders.items():
        place = _named_key(wheel.claimed.named.get(folder, ""), targets) or own
        for entry in wheel.claimed.generic(folder, entries):
            look = _Look(_kind_by_name(entry.path)) if depth < Depth.TOC else looks[entry.path]
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


def _kind_by_name(path: str) -> str | None:
    if path.endswith(".kpack"):
        return "kpack"
    return "code-object" if path.endswith(LOOSE) else None


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
