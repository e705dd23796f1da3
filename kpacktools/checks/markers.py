"""Host libraries whose device code was split off: does the loader find their kernels? And those that still carry it.

A library's ``.rocm_kpack_ref`` marker names archives by search path; ``@GFXARCH@`` in it is expanded for a device, most
specific target ID first. Markers are looked up in the union of everything that is installed over one prefix.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.kpack import KpackError, read_toc
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.selection import Input
from kpacktools.targets import TargetTable
from kpacktools.trees import Entry, is_file, names_in
from kpacktools.trees.access import each
from kpacktools.trees.shards import Artifact

if TYPE_CHECKING:  # imported where a file may be a host's: many runs have none
    from kpacktools.hostfile import HostBinary, Marker

__all__ = ["Archives", "HostFile", "check_hosts", "find_hosts", "lookups"]

_NAMED_AT_MOST: Final = 4
_HOST_SUFFIXES: Final = (".dll", ".exe", ".pyd")
_EXEC: Final = 0o111
_EXAMPLES: Final = ("gfx942", "gfx950", "gfx1201")


class HostFile(Struct, frozen=True):
    """A host binary with markers or device code."""

    where: str
    path: str
    """Below the stage prefix."""
    binary: HostBinary
    in_wheel: bool = False


class Archives:
    """Every kpack of the inputs by its installed path; their tables of contents are read when asked for."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self._places: dict[str, tuple[Artifact, Entry]] = {}
        self._keys: dict[str, frozenset[str]] = {}
        for item in inputs:
            for claimed in item.artifacts:
                artifact = claimed.artifact
                for entries in artifact.tree.folders.values():
                    for entry in entries:
                        if entry.path.endswith(".kpack") and is_file(entry):
                            self._places.setdefault(below_prefix(artifact, entry.path), (artifact, entry))

    def lacks(self, path: str, host: HostFile, marker: Marker) -> tuple[str, ...] | None:
        """The TOC keys that a binary asks for and the archive at an installed path does not have; None where there
        is no such archive."""
        if path not in self._places:
            return None
        if path not in self._keys:
            artifact, entry = self._places[path]
            try:
                with artifact.tree.open(entry.path) as stream:
                    keys = read_toc(stream, entry.size).kernels
            except (KpackError, OSError):
                keys = {}  # reported where the archive itself is checked
            self._keys[path] = frozenset(keys)
        held = self._keys[path]
        if host.binary.code_objects:
            wanted = [f"{marker.kernel_name}#{index}" for index in host.binary.code_objects]
            return tuple(key for key in wanted if key not in held)
        # The binary does not say how many: one of its own will do.
        is_there = any(key.rpartition("#")[0] == marker.kernel_name for key in held)
        return () if is_there else (f"{marker.kernel_name}#0",)


def find_hosts(claimed: ClaimedArtifact) -> Iterator[HostFile]:
    """The host binaries of an artifact that have markers or device code.

    Raises :class:`~kpacktools.errors.CallError` when a file cannot be read.
    """
    artifact = claimed.artifact
    tree = artifact.tree
    if claimed.is_wheel and getattr(tree, "is_partial", False):
        return  # libraries of a wheel that is far away are looked into where all of it is read
    maybe = [
        entry
        for entries in tree.folders.values()
        if _may_hold_hosts(entries)
        for entry in filter(_may_be_host, entries)
        if is_file(entry)
    ]
    if not maybe:
        return
    from kpacktools.hostfile import read_host

    def look(entry: Entry) -> tuple[Entry, HostBinary | None]:
        try:
            return entry, read_host(tree, entry.path)
        except OSError as error:
            raise CallError(f"cannot read {artifact.where(entry.path)}: {error.strerror}") from error

    for entry, binary in each(tree, look, maybe):
        if binary is not None and (binary.markers or binary.fat or binary.problems):
            path = below_prefix(artifact, entry.path)
            yield HostFile(artifact.where(entry.path), path, binary, artifact.component == "wheel")


def _may_hold_hosts(entries: Sequence[Entry]) -> bool:
    """False where nothing in a folder can be a host binary, which is true of nearly all files of a release."""
    if any(mode & _EXEC for mode in {entry.mode for entry in entries}):
        return True
    names = names_in(entries)
    joined = "/".join(names)
    return any(part in joined for part in (".so", *_HOST_SUFFIXES)) or any("." not in name for name in names)


def _may_be_host(entry: Entry) -> bool:
    path, size, mode, _ = entry
    if size < 64:
        return False
    if mode & _EXEC:
        return True
    name = path[path.rfind("/") + 1 :]
    return ".so" in name or "." not in name or name.endswith(_HOST_SUFFIXES)


def lookups(host: HostFile, marker: Marker, target: str) -> Iterator[str]:
    """The installed paths that the loader tries for one device, in its order."""
    from kpacktools.hostfile import expand

    folder = posixpath.dirname(host.path)
    for search_path in marker.search_paths:
        for path in expand(search_path, target):
            yield posixpath.normpath(posixpath.join(folder, path))


def check_hosts(
    hosts: Sequence[HostFile], inputs: Sequence[Input], targets: TargetTable
) -> Iterator[Finding]:
    """``marker-unresolved`` and ``fat-binary``."""
    for host in hosts:
        if host.binary.fat:
            yield _fat(host)
        for problem in host.binary.problems:
            yield finding(
                "marker-unresolved",
                host.where,
                f"is damaged, so what it asks of the loader cannot be read: {problem}",
                "build or copy the library again",
                severity=Severity.WARNING,
            )
    marked = [host for host in hosts if host.binary.markers]
    if not marked:
        return
    wanted = _targets(inputs, targets)
    if wanted is None:
        return
    archives = Archives(inputs)
    for host in marked:
        for marker in host.binary.markers:
            yield from _check_marker(host, marker, wanted, archives)


def _targets(inputs: Sequence[Input], targets: TargetTable) -> list[str] | None:
    """The devices that the set is for; None where only the generic part of one is at hand."""
    wanted = {target for item in inputs for target in item.shard.targets}
    wanted |= {
        claim.key.name
        for item in inputs
        for claimed in item.artifacts
        for claim in claimed.claims()
        if not claim.key.is_bundle
    }
    wanted = {target for target in wanted if target in targets.processors or ":" in target}
    if wanted:
        return sorted(wanted)
    is_part = all(not claimed.artifact.mount for item in inputs for claimed in item.artifacts)
    return None if is_part else []


def _check_marker(
    host: HostFile, marker: Marker, wanted: Sequence[str], archives: Archives
) -> Iterator[Finding]:
    tried: Mapping[str, list[str]] = {t: list(lookups(host, marker, t)) for t in wanted or _EXAMPLES}
    resolved = {
        target
        for target, paths in tried.items()
        if any(archives.lacks(path, host, marker) == () for path in paths)
    }
    missing = [target for target in tried if target not in resolved]
    if not missing:
        return
    paths = [_best(tried[target], host, marker, archives) for target in missing]
    some = ", ".join(paths[:_NAMED_AT_MOST]) + (", ..." if len(paths) > _NAMED_AT_MOST else "")
    who = f"for {', '.join(missing)}" if wanted else "for any target"
    yield finding(
        "marker-unresolved",
        host.where,
        f"its kernels ({marker.kernel_name}) are in no archive {who}; the loader looks for {some}",
        "install the archives that the split wrote beside the library, in .kpack/",
        # A wheel on its own may be the host of device wheels that hold the archives.
        severity=Severity.WARNING if resolved or (host.in_wheel and not wanted) else Severity.ERROR,
    )


def _best(paths: Sequence[str], host: HostFile, marker: Marker, archives: Archives) -> str:
    """The path to name: one that is there without the binary's kernels, else the plainest that was tried."""
    for path in paths:
        missing = archives.lacks(path, host, marker)
        if missing:
            return f"{path} (which is there and lacks {missing[0]}" + (
                f" and {len(missing) - 1} more)" if len(missing) > 1 else ")"
            )
    return paths[-1] if paths else "nothing"


def _fat(host: HostFile) -> Finding:
    size = sum(section.size for section in host.binary.fat)
    held = sorted({target for section in host.binary.fat for target in section.targets})
    return finding(
        "fat-binary",
        host.where,
        f"still carries device code for {len(held)} targets ({', '.join(held)}); a split would take {size} bytes "
        "out of it",
        "rocm_kpack's split_artifacts turns fat binaries into kpacks",
    )
