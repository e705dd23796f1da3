"""Where a topology and the descriptors of its artifacts, and CMake's calls that provide these, say different things."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kpacktools.descriptors.discovery import Found, Provided
from kpacktools.descriptors.model import COMPONENTS, Component, Descriptor, name_of
from kpacktools.findings import Finding, Severity, counted, finding
from kpacktools.hookspecs import Handler
from kpacktools.patterns import may_meet
from kpacktools.topology.model import Artifact, Topology
from kpacktools.topology.rules import near_hint

__all__ = ["check_descriptors", "check_provided", "check_types"]

_ENGINE_CONTAINERS: Final = ("arch_content", "test_arch_content")
_USUAL_PLACES: Final = (
    "",
    "bin",
    "lib",
    "lib64",
    "libexec",
    "share",
    "bin/hipdnn_plugins/engines",
    "lib/hipdnn_plugins/engines",
)
"""Where engines' folders are in an install tree."""


def check_descriptors(topology: Topology, found: Found, mapped: Mapping[str, str]) -> Iterator[Finding]:
    """``topology-disagrees`` for descriptors of no artifact and artifacts without a descriptor.

    Where the folder holds CMake files they say which descriptor is whose, and these are warnings. Without them a
    descriptor whose name is no artifact's may be any artifact's: then both are infos that ask for ``--map``.
    """
    said_by_cmake = {os.path.realpath(call.descriptor) for call in found.provided}
    described = {name for names in found.artifacts.values() for name in names}
    unmatched = [
        path for path in found.files if not any(name in topology.artifacts for name in found.artifacts[path])
    ]
    missing = [name for name in topology.artifacts if name not in described]
    for path in unmatched:
        real = os.path.realpath(path)
        names = found.artifacts[path]
        if real in mapped:
            yield _disagrees(
                path,
                f"--map says it describes {names[0]}, which {topology.path} lacks"
                + near_hint(names[0], topology.artifacts),
                Severity.ERROR,
            )
        elif real not in said_by_cmake:  # else check_provided says it
            yield _unmatched(topology, found, path, missing)
    if found.provided:
        provided = {call.artifact for call in found.provided}
        yield from (_not_provided(topology, name) for name in missing if name not in provided)
    elif unmatched and missing:
        yield _undecided(topology, missing, unmatched)
    else:
        yield from (_without_descriptor(topology, name) for name in missing)


def _unmatched(topology: Topology, found: Found, path: str, missing: Sequence[str]) -> Finding:
    name = name_of(path)
    spelled = f"no artifact of {topology.path} is called {name}" if name else "its name says no artifact"
    near = sorted(_similar(name, path, missing))
    example = f"--map {near[0] if near else 'NAME'}={path}"
    if found.provided:
        return _disagrees(
            path,
            f"{spelled}, and no therock_provide_artifact call names it",
            Severity.WARNING,
            f"remove it, or provide the artifact; or say which it is with {example}",
        )
    return _disagrees(
        path,
        f"{spelled}, and nothing else says which one it describes",
        Severity.INFO,
        f"say it with {example}" + (f"; it may also be {', '.join(near[1:])}" if near[1:] else ""),
    )


def _not_provided(topology: Topology, name: str) -> Finding:
    return _disagrees(
        topology.path,
        f"artifacts.{name} has no descriptor, and no therock_provide_artifact call provides it",
        Severity.WARNING,
        "nothing will be in it: provide it, or take it out of the topology",
    )


def _undecided(topology: Topology, missing: Sequence[str], unmatched: Sequence[str]) -> Finding:
    return _disagrees(
        topology.path,
        f"{counted(len(missing), 'artifact')} without a descriptor of their name, and of "
        f"{counted(len(unmatched), 'descriptor')} nothing says whose they are; the artifacts are {', '.join(missing)}",
        Severity.INFO,
        "say with --map NAME=FILE which descriptor is whose, or name a folder with the CMake files that do",
    )


def _without_descriptor(topology: Topology, name: str) -> Finding:
    return _disagrees(
        topology.path,
        f"artifacts.{name} has no descriptor",
        Severity.WARNING,
        f"write artifact-{name}.toml (kpacktools artifacts emit), or take it out of the topology",
    )


def _similar(name: str | None, path: str, artifacts: Iterable[str]) -> Iterator[str]:
    """Artifacts whose names end as ``name`` does by whole words, or the reverse; without a name, those that a folder
    above the descriptor is called after."""
    folders = os.path.abspath(path).split(os.sep)
    for artifact in artifacts:
        if name is None:
            if artifact in folders:
                yield artifact
        elif artifact.endswith(f"-{name.lower()}") or name.lower().endswith(f"-{artifact}"):
            yield artifact


def check_provided(
    topology: Topology, provided: Iterable[Provided], descriptors: Iterable[Descriptor]
) -> Iterator[Finding]:
    """``topology-disagrees`` for CMake's ``therock_provide_artifact`` calls: artifacts that the topology lacks and
    descriptors that are not there (errors), another type than the topology's, and components that the descriptor fills
    and the call leaves out (warnings)."""
    by_file = {os.path.realpath(descriptor.path): descriptor for descriptor in descriptors}
    for call in provided:
        artifact = topology.artifacts.get(call.artifact)
        if artifact is None:
            yield _disagrees(
                call.cmake,
                f"provides the artifact {call.artifact}, which {topology.path} lacks"
                + near_hint(call.artifact, topology.artifacts),
                Severity.ERROR,
                "add it to the topology: CMake refuses it otherwise",
            )
        elif call.target_neutral == artifact.target_specific:
            kind = "target-specific" if artifact.target_specific else "target-neutral"
            yield _disagrees(
                call.cmake,
                f"provides {call.artifact} {'with' if call.target_neutral else 'without'} TARGET_NEUTRAL, and "
                f"{topology.path} declares it {kind}",
                Severity.WARNING,
                "make both say the same",
            )
        descriptor = by_file.get(os.path.realpath(call.descriptor))
        if descriptor is None:
            if "${" not in call.descriptor and not os.path.isfile(call.descriptor):
                yield _disagrees(
                    call.cmake,
                    f"provides {call.artifact} with the descriptor {call.descriptor}, which is not there",
                    Severity.ERROR,
                )
            continue
        unlisted = [
            name for name in COMPONENTS if descriptor.components[name].stages and name not in call.components
        ]
        if unlisted and call.components:
            yield _disagrees(
                call.cmake,
                f"provides {call.artifact} without the components {', '.join(unlisted)}, which {descriptor.path} "
                "fills: what they take is in no artifact",
                Severity.WARNING,
                f"add {', '.join(unlisted)} to COMPONENTS",
            )


def check_types(
    topology: Topology, descriptors: Iterable[Descriptor], handlers: Iterable[Handler]
) -> Iterator[Finding]:
    """``topology-disagrees`` (warnings) where an artifact's type or ``split_databases`` and its descriptors do not go
    together: declared target-neutral, and a pattern names an engine's folder; or a handler is named, and no pattern
    can take any content of its engine."""
    by_artifact: dict[str, list[Descriptor]] = {}
    for descriptor in descriptors:
        by_artifact.setdefault(descriptor.artifact, []).append(descriptor)
    listed = list(handlers)
    for name, mine in by_artifact.items():
        artifact = topology.artifacts.get(name)
        if artifact is not None and artifact.target_specific:
            yield from _unreachable(topology, artifact, mine, listed)
        elif artifact is not None:
            yield from _named_engines(topology, artifact, mine, listed)


def _unreachable(
    topology: Topology, artifact: Artifact, descriptors: Sequence[Descriptor], handlers: Sequence[Handler]
) -> Iterator[Finding]:
    by_name = {handler.name: handler for handler in handlers}
    components = [
        (component, stage)
        for descriptor in descriptors
        for component in descriptor.components.values()
        for stage in component.stages
    ]
    for name in artifact.split_databases:
        handler = by_name.get(name)
        # Every component takes the archives of .kpack that bear its name.
        if handler is None or ".kpack" in handler.containers:
            continue
        if not any(_may_take(component, stage, handler) for component, stage in components):
            yield _disagrees(
                descriptors[0].path,
                f"takes nothing of what the handler {name} splits ({handler.summary}), which {topology.path} names in "
                f"artifacts.{artifact.name}.split_databases",
                Severity.WARNING,
                f"add a pattern for it, or take {name} out of split_databases",
            )


def _may_take(component: Component, stage: str, handler: Handler) -> bool:
    """Whether a component may take some content of an engine: by a pattern of its descriptor, or by one of its own
    where the engine's files are known by their names."""
    rules = component.stages[stage]
    includes = component.includes(stage)
    if not includes:
        return True
    given = (*rules.include, *rules.force_include)
    places = (*_engine_folders(handler), *handler.containers)
    return any(_reaches(pattern, place) for pattern in given for place in places) or any(
        may_meet(pattern, f"**/{name}") for pattern in includes for name in handler.file_names
    )


def _reaches(pattern: str, place: str) -> bool:
    """Whether a pattern may take what lies in an engine's folder: it spells it out, or takes it in a usual place. (What
    ends in ``**`` takes some path with any folder in it.)"""
    return _names(pattern, place) or any(
        may_meet(pattern, f"{usual}/{place}/**" if usual else f"{place}/**") for usual in _USUAL_PLACES
    )


def _engine_folders(handler: Handler) -> Iterator[str]:
    for container in _ENGINE_CONTAINERS:
        for engine in handler.engines:
            yield f"{container}/{engine}"


def _named_engines(
    topology: Topology, artifact: Artifact, descriptors: Sequence[Descriptor], handlers: Sequence[Handler]
) -> Iterator[Finding]:
    for descriptor in descriptors:
        patterns = [
            pattern
            for component in descriptor.components.values()
            for rules in component.stages.values()
            for pattern in (*rules.include, *rules.force_include)
        ]
        for pattern in dict.fromkeys(patterns):
            named = [
                handler.name
                for handler in handlers
                if any(_names(pattern, place) for place in (*_engine_folders(handler), *handler.containers))
            ]
            if named:
                yield _disagrees(
                    descriptor.path,
                    f"takes {pattern!r}, where {', '.join(named)} content lies, and {topology.path} declares "
                    f"{artifact.name} target-neutral",
                    Severity.WARNING,
                    'declare it type = "target-specific", or leave the content to another artifact',
                )


def _names(pattern: str, place: str) -> bool:
    """Whether a pattern spells out a folder such as ``rocblas/library``."""
    return f"/{place}/" in f"/{pattern}/"


def _disagrees(path: str, message: str, severity: Severity, hint: str = "") -> Finding:
    return finding("topology-disagrees", path, message, hint, severity=severity)
