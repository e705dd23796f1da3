"""Splitting an existing wheel by device: a host wheel, and a wheel per device that overlays it.

The host keeps name, version and everything that no handler claims. A device's wheel is named
``<name>-device-<key>``, requires the host at exactly its version, and inherits its tags, Root-Is-Purelib and metadata
version.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.parser import BytesParser
from email.policy import compat32
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from kpacktools import codeobject
from kpacktools.commands import access_of, run_over
from kpacktools.errors import CallError
from kpacktools.findings import Finding, counted, finding
from kpacktools.outputs.members import Member
from kpacktools.outputs.sbom import SBOM_NAME
from kpacktools.outputs.wheelmeta import wheel_stem
from kpacktools.outputs.wheels import WheelSpec
from kpacktools.outputs.wheelset import PlannedWheel, with_provenance
from kpacktools.pipeline import Settings, plan
from kpacktools.planning.claims import OPAQUE, Claim, ClaimedArtifact
from kpacktools.planning.layouts import OwnerLayout
from kpacktools.planning.plan import PlannedFolder
from kpacktools.planning.selection import Input, Selection
from kpacktools.remote.delivery import Target, deliver
from kpacktools.reports.model import Report
from kpacktools.targets import GENERIC, TargetTable, UnknownTargetError
from kpacktools.trees import is_file
from kpacktools.trees.places import place_of
from kpacktools.trees.shards import Artifact, Shard
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import WheelTree, open_wheel
from kpacktools.wheelbuild import WheelRun, finish, known_files

__all__ = ["split_wheel"]

LOOSE_ENGINE: Final = "loose"
"""The engine of code objects that lie in no engine's place."""
_OWN: Final = ("METADATA", "WHEEL", "RECORD", "RECORD.jws", "RECORD.p7s", SBOM_NAME)
"""Files of a dist-info folder that are made anew; signatures of the old RECORD do not hold."""


class _Source(Struct, frozen=True):
    """The wheel that is split."""

    path: str
    tree: WheelTree
    name: str
    version: str
    build_tag: str | None
    tags: tuple[str, ...]
    root_is_purelib: bool
    metadata: bytes
    metadata_version: str
    dist_info: tuple[tuple[str, bytes], ...]
    record: Mapping[str, bytes]
    """Path -> SHA-256, of the files that RECORD lists with one."""

    @property
    def stem(self) -> str:
        """What the wheel's own dist-info and data folders begin with."""
        return next(path for path in self.tree.members if path.endswith(".dist-info/WHEEL")).partition(
            ".dist-info/"
        )[0]


def split_wheel(
    source: str, dist: str, settings: Settings, selected: WheelRun, only: Sequence[str] = ()
) -> Report:
    """Split a wheel into ``dist``, a folder or a URL; with ``only``, one wheel that keeps only these devices' content.

    Raises :class:`~kpacktools.errors.CallError`.
    """

    def write(target: Target) -> Report:
        there = replace(selected, dry_run=target.dry_run, replace=target.replace)
        return _split_wheel(source, target.folder, settings, there, only)

    return deliver(dist, write, settings, replace=selected.replace, dry_run=selected.dry_run)


def _split_wheel(
    source: str, dist: str, settings: Settings, selected: WheelRun, only: Sequence[str]
) -> Report:
    wheel, findings = _open(source, settings)
    source = wheel.path
    artifact = Artifact(wheel.name, "wheel", GENERIC, (".",), wheel.tree, mount="./")
    shard = Shard(wheel.name, source, (artifact,), frozenset(), findings=findings)
    run = run_over("wheel", [shard], settings)
    run.refuse_nested(dist)
    adopted = [_adopt(claimed, run.targets) for item in run.inputs for claimed in item.artifacts]
    run = replace(run, inputs=(Input(shard, tuple(claimed for claimed, _ in adopted)),))
    notes = [note for _, found in adopted for note in found]
    if refused := run.refused():
        return refused
    selection = Selection(
        devices=tuple(run.targets.device(text) for text in (*selected.devices, *only)),
        none_expected=settings.policy.none_expected,
        kinds=selected.kinds,
    )
    planned = plan(run.inputs, OwnerLayout(), selection, run.targets, settings)
    checks = run.check()
    report = run.report(checks, planned)
    report = replace(report, notes=(*report.notes, *notes))
    if not report.ok:
        return report
    wheels = _one(wheel, planned.folders) if only else tuple(_set(wheel, planned.folders))
    known = known_files(run, checks)
    wheels = tuple(with_provenance(item, known) if only or item.key != GENERIC else item for item in wheels)
    return finish(run, dist, wheels, report, checks, selected)


def _open(path: str, settings: Settings) -> tuple[_Source, tuple[Finding, ...]]:
    places, path = place_of(path, access_of(settings, writes=True))
    opened = open_wheel(path, Spool(), places.source(path), settings.cache)
    tree = opened.tree
    try:
        name, version, build, _ = parse_wheel_filename(places.name(path))
    except InvalidWheelFilename as error:
        raise CallError(f"{path}: {error}") from None
    own = {member: _read(tree, member) for member in tree.members if ".dist-info/" in member}
    files = {member.partition(".dist-info/")[2]: data for member, data in own.items()}
    if "WHEEL" not in files or "METADATA" not in files:
        raise CallError(f"{path} is no wheel: it has no .dist-info folder with METADATA and WHEEL")
    about = BytesParser(policy=compat32).parsebytes(files["WHEEL"])
    metadata = BytesParser(policy=compat32).parsebytes(files["METADATA"])
    source = _Source(
        path=path,
        tree=tree,
        name=str(name),
        version=str(version),
        build_tag=f"{build[0]}{build[1]}" if build else None,
        tags=tuple(str(tag).strip() for tag in about.get_all("Tag", [])),
        root_is_purelib=str(about.get("Root-Is-Purelib", "false")).strip().lower() == "true",
        metadata=files["METADATA"],
        metadata_version=str(metadata.get("Metadata-Version", "2.1")).strip(),
        dist_info=tuple((file, data) for file, data in sorted(files.items()) if file not in _OWN),
        record=_record(files.get("RECORD", b"")),
    )
    unlisted = [
        member for member in tree.members if member not in source.record and ".dist-info/" not in member
    ]
    found = [
        finding(
            "wheel-record-invalid",
            f"{path}/{member}",
            "is not in the wheel's RECORD, or without a sha256: nothing says what it should be",
            "build the wheel again; installers refuse it, or install the file without owning it",
        )
        for member in unlisted
    ]
    return source, (*opened.findings, *found)


def _record(data: bytes) -> dict[str, bytes]:
    """The rows of RECORD that have a sha256 (packaging specifications, "Recording installed projects")."""
    digests = {}
    for row in csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline="")):
        if len(row) >= 2 and row[1].startswith("sha256="):
            text = row[1].removeprefix("sha256=")
            try:
                digests[row[0]] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            except ValueError:
                continue
    return digests


def _read(tree: WheelTree, path: str) -> bytes:
    try:
        with tree.open(path) as stream:
            return stream.read()
    except OSError as error:
        raise CallError(f"cannot read {path} in {tree.label}: {error.strerror or error}") from error


def _adopt(claimed: ClaimedArtifact, targets: TargetTable) -> tuple[ClaimedArtifact, list[str]]:
    """Claim loose code objects whose path names no target by their own flags, and say so."""
    tree = claimed.artifact.tree
    files: dict[str, dict[str, Claim]] = {folder: dict(single) for folder, single in claimed.files.items()}
    claims: dict[tuple[str, str], Claim] = {}
    placed: dict[str, int] = {}
    for folder, entries in tree.folders.items():
        for entry in claimed.generic(folder, entries):
            if not (is_file(entry) and entry.path.endswith((".co", ".hsaco"))):
                continue
            with tree.open(entry.path) as stream:
                header = codeobject.probe(stream.read(codeobject.HEAD_SIZE))
            target = None if header is None else header.target_id
            if target is None:
                continue
            try:
                key = targets.key(target)
            except UnknownTargetError:
                continue
            claim = claims.setdefault((folder, key.name), Claim(OPAQUE, LOOSE_ENGINE, key, folder))
            files.setdefault(folder, {})[entry.path] = claim
            placed[key.name] = placed.get(key.name, 0) + 1
    notes = [
        f"{counted(count, 'code object')} for {key} whose path names no target: placed by their own flags"
        for key, count in sorted(placed.items())
    ]
    return replace(claimed, files=files), notes


def _set(wheel: _Source, folders: Iterable[PlannedFolder]) -> Iterator[PlannedWheel]:
    devices = [folder for folder in folders if folder.key != GENERIC and folder.groups]
    for folder in devices:
        distribution = _device_name(wheel, folder.key)
        spec = WheelSpec(
            distribution=distribution,
            version=wheel.version,
            tags=wheel.tags,
            build_tag=wheel.build_tag,
            requires=(f"{wheel.name}=={wheel.version}",),
            summary=f"Device code of {wheel.name} for {folder.key}",
            metadata_version=wheel.metadata_version,
            root_is_purelib=wheel.root_is_purelib,
        )
        stem = wheel_stem(spec)
        members = tuple(_members(wheel, folder, stem))
        yield PlannedWheel(folder.key, replace(spec, files=members, declared=_declared(wheel, members)))
    for folder in folders:
        if folder.key == GENERIC:
            keys = [device.key for device in devices]
            yield PlannedWheel(GENERIC, _host(wheel, [folder], _with_extras(wheel, keys)))


def _one(wheel: _Source, folders: Sequence[PlannedFolder]) -> tuple[PlannedWheel, ...]:
    """One wheel under the old name, with what is left."""
    return (PlannedWheel(GENERIC, _host(wheel, folders, wheel.metadata)),)


def _host(wheel: _Source, folders: Iterable[PlannedFolder], metadata: bytes) -> WheelSpec:
    members = tuple(member for folder in folders for member in _members(wheel, folder, wheel.stem))
    return WheelSpec(
        distribution=wheel.name,
        version=wheel.version,
        tags=wheel.tags,
        build_tag=wheel.build_tag,
        metadata=metadata,
        dist_info=wheel.dist_info,
        root_is_purelib=wheel.root_is_purelib,
        files=members,
        declared=_declared(wheel, members),
    )


def _declared(wheel: _Source, members: Iterable[Member]) -> dict[str, bytes]:
    """What the source's RECORD says of each file, by its name in the new wheel."""
    return {member.arcname: wheel.record[member.path] for member in members}


def _device_name(wheel: _Source, key: str) -> str:
    return f"{wheel.name}-device-{key}"


def _members(wheel: _Source, folder: PlannedFolder, stem: str) -> Iterator[Member]:
    """The files under their old names; those of a ``.data`` folder under the new wheel's."""
    data = wheel.stem + ".data/"
    for file in folder.files:
        name = file.entry.path
        if name.startswith(data):
            name = f"{stem}.data/{name[len(data) :]}"
        yield Member(name, file.tree, file.entry.path, file.entry.size, file.entry.mode)


def _with_extras(wheel: _Source, keys: Sequence[str]) -> bytes:
    """METADATA with an extra ``device-<key>`` for each device that was built; everything else as it stands."""
    lines = []
    for key in keys:
        extra = f"device-{canonicalize_name(key)}"
        lines.append(f"Provides-Extra: {extra}")
        name = canonicalize_name(_device_name(wheel, key))
        lines.append(f'Requires-Dist: {name}=={wheel.version} ; extra == "{extra}"')
    added = "".join(f"{line}\n" for line in lines).encode()
    text = wheel.metadata.replace(b"\r\n", b"\n")
    head, blank, body = text.partition(b"\n\n")
    return head.rstrip(b"\n") + b"\n" + added + (b"\n" + body if blank else b"")
