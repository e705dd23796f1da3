"""Claims: which handler owns which files, for which target key.

Claiming looks at folder names, once per folder and not per file: handlers state where their content may be
(``arch_content/<engine>`` and further containers), and the first target folder below a container owns everything
beneath it, whatever the files are called. File names are looked at only in containers of engines that keep files of
all targets side by side, and where a name matches a pattern that a handler gave.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Handler
from kpacktools.plugins import Registry
from kpacktools.targets import TargetKey, TargetTable, UnknownTargetError, looks_like_target
from kpacktools.trees import Entry
from kpacktools.trees.shards import Artifact
from kpacktools.trees.wheel import WheelTree

__all__ = ["Claim", "ClaimedArtifact", "Claimer", "bundles_of"]

ENGINE_CONTAINERS = ("arch_content", "test_arch_content")
"""Folders whose children are engines. Tests use the second in the same way."""
OPAQUE = ""
"""The handler's name in claims of engines that have none."""


class Claim(Struct, frozen=True, eq=False):
    """A target folder that a handler owns, or the files of one target in a folder of many."""

    handler: str
    engine: str
    key: TargetKey
    root: str
    """Tree path of the target folder; of the folder that the files are in, where single files are claimed."""


class ClaimedArtifact(Struct, frozen=True, eq=False):
    """An artifact whose folders are sorted into claimed and generic ones."""

    artifact: Artifact
    folders: Mapping[str, Claim]
    """Folder -> the claim that owns every file directly in it. Folders that are missing here are generic."""
    containers: Mapping[str, str]
    """Generic folder -> the engine container it lies in, for hints."""
    named: Mapping[str, str]
    """Generic folder -> the target-named folder it lies in, where no handler claims that."""
    files: Mapping[str, Mapping[str, Claim]] = field(default_factory=dict)
    """Generic folder -> the claims of single files directly in it, by tree path."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_wheel(self) -> bool:
        """True for a wheel: its device code, too, is judged as that of a wheel."""
        return isinstance(self.artifact.tree, WheelTree)

    def claims(self) -> Iterator[Claim]:
        """Every claim once, in the order of the tree."""
        yield from dict.fromkeys(self.folders.values())
        for files in self.files.values():
            yield from dict.fromkeys(files.values())

    def generic(self, folder: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of a folder's entries that nobody claims."""
        if folder in self.folders:
            return ()
        claimed = self.files.get(folder)
        return entries if claimed is None else [entry for entry in entries if entry.path not in claimed]


class _Container(Struct, frozen=True, eq=False):
    path: str
    engine: str
    handlers: tuple[Handler, ...]

    @property
    def flat(self) -> tuple[Handler, ...]:
        """The handlers that know targets in file names."""
        return tuple(h for h in self.handlers if type(h).target_of_file is not Handler.target_of_file)


class _Unclaimed(Struct, frozen=True, eq=False):
    """Inside a folder named like a target that nobody claims."""

    root: str


_State = _Container | _Unclaimed | Claim | None


class Claimer(Struct, frozen=True, dict=True):
    """Claims folders of artifacts for the handlers of a registry."""

    registry: Registry
    targets: TargetTable
    opaque: Collection[str] = ()
    """Engines without a handler that a policy lets through, split by folder and unchecked."""

    @cached_property
    def _containers(self) -> dict[str, list[tuple[tuple[str, ...], Handler, str]]]:
        """Last component of a container -> its components, handler and engine name."""
        index: dict[str, list[tuple[tuple[str, ...], Handler, str]]] = {}
        for handler in self.registry.handlers:
            paths = [f"{outer}/{engine}" for outer in ENGINE_CONTAINERS for engine in handler.engines]
            for path in (*paths, *handler.containers):
                parts = tuple(path.split("/"))
                index.setdefault(parts[-1], []).append((parts, handler, handler.engine))
        return index

    @cached_property
    def _names(self) -> tuple[re.Pattern[str] | None, list[tuple[re.Pattern[str], Handler]]]:
        """All handlers' file name patterns as one, and each of them."""
        patterns = [
            (fnmatch.translate(pattern), handler)
            for handler in self.registry.handlers
            for pattern in handler.file_names
        ]
        if not patterns:
            return None, []
        return re.compile("|".join(p for p, _ in patterns)), [(re.compile(p), h) for p, h in patterns]

    def claim(self, artifact: Artifact) -> ClaimedArtifact:
        """Sort an artifact's folders and files into claimed and generic ones. Reads no file."""
        states: dict[str, _State] = {}
        found: list[Finding] = []
        claims: dict[str, Claim] = {}
        containers: dict[str, str] = {}
        named: dict[str, str] = {}
        files: dict[str, dict[str, Claim]] = {}
        for folder, entries in artifact.tree.folders.items():
            parent, _, name = folder.rpartition("/")
            if folder not in states and parent not in states:
                self._states_above(parent, artifact, states, found)
            state = self._step(states.get(parent), folder, name, artifact, found)
            states[folder] = state
            if isinstance(state, Claim):
                claims[folder] = state
                continue
            if single := self._claim_files(state, folder, entries, artifact, found):
                files[folder] = single
            if isinstance(state, _Container):
                containers[folder] = state.path
            elif isinstance(state, _Unclaimed):
                named[folder] = state.root
        return ClaimedArtifact(artifact, claims, containers, named, files, tuple(found))

    def _claim_files(
        self,
        state: _State,
        folder: str,
        entries: Sequence[Entry],
        artifact: Artifact,
        found: list[Finding],
    ) -> dict[str, Claim]:
        """Claims of single files, in a folder that is not claimed as a whole."""
        anywhere, patterns = self._names
        flat = state.flat if isinstance(state, _Container) else ()
        if not flat and anywhere is None:
            return {}
        claims: dict[tuple[str, str], Claim] = {}
        files: dict[str, Claim] = {}
        cut = len(folder) + 1 if folder else 0
        below = len(state.path) + 1 if isinstance(state, _Container) else 0
        for entry in entries:
            name = entry.path[cut:]
            if "gfx" not in name:
                continue
            readings = [
                (handler, handler.target_of_file(entry.path[below:], self.targets)) for handler in flat
            ]
            if anywhere is not None and anywhere.match(name):
                readings += [
                    (handler, handler.target_of_file(name, self.targets))
                    for pattern, handler in patterns
                    if pattern.match(name)
                ]
            known = {handler.name: (handler, target) for handler, target in readings if target is not None}
            if not known:
                continue
            (handler, target), *others = known.values()
            if others:
                self._double(artifact.where(entry.path), [handler, *(other for other, _ in others)], found)
            try:
                key = self.targets.key(target)
            except UnknownTargetError as error:
                found.append(_unknown(artifact.where(entry.path), target, handler.name, error.near))
                continue
            claim = claims.get((handler.name, key.name))
            if claim is None:
                claim = claims[handler.name, key.name] = Claim(handler.name, handler.engine, key, folder)
            files[entry.path] = claim
        return files

    def _double(self, where: str, handlers: Sequence[Handler], found: list[Finding]) -> None:
        owners = [self.registry.by_name(handler.name) for handler in handlers]
        found.append(
            finding(
                "double-claim",
                where,
                "is claimed by " + " and by ".join(f"{o.handler.name} ({o.distribution})" for o in owners),
                "uninstall one of the distributions, or make one handler's place narrower",
                sources=[owner.distribution for owner in owners],
            )
        )

    def _states_above(
        self, folder: str, artifact: Artifact, states: dict[str, _State], found: list[Finding]
    ) -> None:
        """The states of folders above the part of a tree that was scanned."""
        state: _State = None
        path = ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}" if path else name
            if path not in states:
                states[path] = self._step(state, path, name, artifact, found)
            state = states[path]

    def _step(
        self, outer: _State, folder: str, name: str, artifact: Artifact, found: list[Finding]
    ) -> _State:
        """The state of a folder, given that of its parent."""
        if isinstance(outer, Claim):
            if name.startswith("gfx"):
                self._check_nested(outer, folder, name, artifact, found)
            return outer
        if isinstance(outer, _Unclaimed):
            return outer
        container = self._container(folder, name)
        if container is not None:
            return container
        if isinstance(outer, _Container):
            return self._in_container(outer, folder, name, artifact, found)
        if looks_like_target(name):
            found.append(
                finding(
                    "target-named-folder",
                    artifact.where(folder),
                    f"is named like a target, but lies in no engine's place; its files stay generic ({name})",
                    "nothing to do where these are configuration files; device code belongs under "
                    "arch_content/<engine>/<target>/",
                )
            )
            return _Unclaimed(folder)
        return None

    def _container(self, folder: str, name: str) -> _Container | None:
        candidates = self._containers.get(name, ())
        parent = folder.rpartition("/")[0].rpartition("/")[2]
        if not candidates and parent not in ENGINE_CONTAINERS:
            return None
        parts = tuple(folder.split("/"))
        matching = [item for item in candidates if parts[-len(item[0]) :] == item[0]]
        if matching:
            return _Container(folder, matching[0][2], tuple(item[1] for item in matching))
        if parent in ENGINE_CONTAINERS:
            # An engine's name is its folder below arch_content, whether a handler knows it or not; a target
            # directly below has no engine folder.
            return _Container(folder, name, ()) if not looks_like_target(name) else None
        return None

    def _in_container(
        self, container: _Container, folder: str, name: str, artifact: Artifact, found: list[Finding]
    ) -> _State:
        readings = [(handler, handler.target_of(name)) for handler in container.handlers]
        readings = [(handler, target) for handler, target in readings if looks_like_target(target)]
        if not readings:
            if not container.handlers and looks_like_target(name):
                return self._without_handler(container, folder, name, artifact, found)
            return container
        handler, target = readings[0]
        if len(readings) > 1:
            self._double(artifact.where(folder), [item for item, _ in readings], found)
        try:
            key = self.targets.key(target)
        except UnknownTargetError as error:
            found.append(_unknown(artifact.where(folder), target, handler.name, error.near))
            return _Unclaimed(folder)
        return Claim(handler.name, container.engine, key, folder)

    def _without_handler(
        self, container: _Container, folder: str, name: str, artifact: Artifact, found: list[Finding]
    ) -> Claim | _Unclaimed:
        try:
            key = self.targets.key(name)
        except UnknownTargetError as error:
            found.append(_unknown(artifact.where(folder), name, None, error.near))
            return _Unclaimed(folder)
        if container.engine in self.opaque:
            return Claim(OPAQUE, container.engine, key, folder)
        known = ", ".join(sorted({e for h in self.registry.handlers for e in h.engines}))
        found.append(
            finding(
                "unclaimed-target-content",
                artifact.where(folder),
                f"holds content of {name} for the engine {container.engine!r}, which no handler knows",
                f"install the engine's plugin, or split it unchecked with a policy's [engines.{container.engine}] "
                f'opaque = true, reason = "..."; engines known here: {known}',
            )
        )
        return _Unclaimed(folder)

    def _check_nested(
        self, claim: Claim, folder: str, name: str, artifact: Artifact, found: list[Finding]
    ) -> None:
        if not looks_like_target(name):
            return
        try:
            inner = self.targets.key(name)
        except UnknownTargetError:
            return
        if inner.base != claim.key.base:
            found.append(
                finding(
                    "nested-target",
                    artifact.where(folder),
                    f"a folder of {inner} lies inside {claim.key}'s; it goes with {claim.key}",
                    f"move it beside {artifact.where(claim.root)} where it is {inner}'s own",
                )
            )


def _unknown(path: str, target: str, handler: str | None, near: tuple[str, ...]) -> Finding:
    asked = f" (handler {handler})" if handler else ""
    hint = f"near: {', '.join(near)}; " if near else ""
    return finding(
        "unknown-target",
        path,
        f"{target!r} looks like a target, and nobody knows it{asked}",
        hint + "a new processor is one line in a policy file's [targets] table",
    )


def bundles_of(claimed: ClaimedArtifact, shard: str) -> Iterator[Bundle]:
    """Group an artifact's claimed files into engine bundles, in a fixed order."""
    artifact = claimed.artifact
    grouped: dict[tuple[str, str, str], list[Claim]] = {}
    members: dict[Claim, list[Entry]] = {}
    for folder, entries in artifact.tree.folders.items():
        claim = claimed.folders.get(folder)
        if claim is not None:
            members.setdefault(claim, []).extend(entries)
            continue
        single = claimed.files.get(folder, {})
        for entry in entries if single else ():
            if entry.path in single:
                members.setdefault(single[entry.path], []).append(entry)
    for claim in members:
        prefix = prefix_of(artifact, claim.root) or ""
        grouped.setdefault((claim.engine, claim.key.name, prefix), []).append(claim)
    for engine, key, prefix in sorted(grouped):
        claims = grouped[engine, key, prefix]
        yield Bundle(
            engine=engine,
            handler=claims[0].handler,
            key=claims[0].key,
            shard=shard,
            artifact=artifact,
            prefix=prefix,
            roots=tuple(claim.root for claim in claims),
            entries=tuple(entry for claim in claims for entry in members[claim]),
        )


def prefix_of(artifact: Artifact, path: str) -> str | None:
    """The stage prefix that a tree path lies under; None where it lies under none."""
    if artifact.mount:
        return artifact.prefixes[0]
    matching = [p for p in artifact.prefixes if path == p or path.startswith(p + "/")]
    return max(matching, key=len) if matching else None
