"""Claims: which handler owns which files, for which target key.

Claiming looks at folder names only, once per folder and not per file: handlers state where their content may be
(``arch_content/<engine>`` and further containers), and the first target folder below a container owns everything
beneath it, whatever the files are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Handler
from kpacktools.plugins import Registry
from kpacktools.targets import TargetKey, TargetTable, UnknownTargetError, looks_like_target
from kpacktools.trees.shards import Artifact

__all__ = ["Claim", "ClaimedArtifact", "Claimer", "bundles_of"]

ENGINE_CONTAINERS = ("arch_content", "test_arch_content")
"""Folders whose children are engines. Tests use the second in the same way."""


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A target folder (or single file) that a handler owns."""

    handler: str
    engine: str
    key: TargetKey
    root: str
    """Tree path of the target folder."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedArtifact:
    """An artifact whose folders are sorted into claimed and generic ones."""

    artifact: Artifact
    folders: Mapping[str, Claim]
    """Folder -> the claim that owns every file directly in it. Folders that are missing here are generic."""
    containers: Mapping[str, str]
    """Generic folder -> the engine container it lies in, for hints."""
    named: Mapping[str, str]
    """Generic folder -> the target-named folder it lies in, where no handler claims that."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Container:
    path: str
    engine: str
    handlers: tuple[Handler, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Unclaimed:
    """Inside a folder named like a target that nobody claims."""

    root: str


_State = _Container | _Unclaimed | Claim | None


@dataclass(frozen=True)
class Claimer:
    """Claims folders of artifacts for the handlers of a registry."""

    registry: Registry
    targets: TargetTable

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

    def claim(self, artifact: Artifact) -> ClaimedArtifact:
        """Sort an artifact's folders into claimed and generic ones. Reads no file."""
        states: dict[str, _State] = {}
        found: list[Finding] = []
        claims: dict[str, Claim] = {}
        containers: dict[str, str] = {}
        named: dict[str, str] = {}
        for folder in artifact.tree.folders:
            parent, _, name = folder.rpartition("/")
            if folder not in states and parent not in states:
                self._states_above(parent, artifact, states, found)
            state = self._step(states.get(parent), folder, name, artifact, found)
            states[folder] = state
            if isinstance(state, Claim):
                claims[folder] = state
            elif isinstance(state, _Container):
                containers[folder] = state.path
            elif isinstance(state, _Unclaimed):
                named[folder] = state.root
        return ClaimedArtifact(artifact, claims, containers, named, tuple(found))

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
        if name in self._containers or outer is None:
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
                self._unclaimed(container, folder, name, artifact, found)
                return _Unclaimed(folder)
            return container
        handler, target = readings[0]
        if len(readings) > 1:
            owners = [self.registry.by_name(item.name) for item, _ in readings]
            found.append(
                finding(
                    "double-claim",
                    artifact.where(folder),
                    "is claimed by "
                    + " and by ".join(f"{o.handler.name} ({o.distribution})" for o in owners),
                    "uninstall one of the distributions, or make one handler's place narrower",
                    sources=[owner.distribution for owner in owners],
                )
            )
        try:
            key = self.targets.key(target)
        except UnknownTargetError as error:
            found.append(_unknown(artifact.where(folder), target, handler.name, error.near))
            return _Unclaimed(folder)
        return Claim(handler.name, container.engine, key, folder)

    def _unclaimed(
        self, container: _Container, folder: str, name: str, artifact: Artifact, found: list[Finding]
    ) -> None:
        try:
            self.targets.key(name)
        except UnknownTargetError as error:
            found.append(_unknown(artifact.where(folder), name, None, error.near))
            return
        known = ", ".join(sorted({e for h in self.registry.handlers for e in h.engines}))
        found.append(
            finding(
                "unclaimed-target-content",
                artifact.where(folder),
                f"holds content of {name} for the engine {container.engine!r}, which no handler knows",
                f"install the engine's plugin; engines known here: {known}",
            )
        )

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
    members: dict[int, list[str]] = {}
    for folder, claim in claimed.folders.items():
        if id(claim) not in members:
            prefix = prefix_of(artifact, claim.root) or ""
            grouped.setdefault((claim.engine, claim.key.name, prefix), []).append(claim)
        members.setdefault(id(claim), []).append(folder)
    for engine, key, prefix in sorted(grouped):
        claims = grouped[engine, key, prefix]
        entries = tuple(
            entry
            for claim in claims
            for folder in members[id(claim)]
            for entry in artifact.tree.folders[folder]
        )
        yield Bundle(
            engine=engine,
            handler=claims[0].handler,
            key=claims[0].key,
            shard=shard,
            artifact=artifact,
            prefix=prefix,
            roots=tuple(claim.root for claim in claims),
            entries=entries,
        )


def prefix_of(artifact: Artifact, path: str) -> str | None:
    """The stage prefix that a tree path lies under; None where it lies under none."""
    if artifact.mount:
        return artifact.prefixes[0]
    matching = [p for p in artifact.prefixes if path == p or path.startswith(p + "/")]
    return max(matching, key=len) if matching else None
