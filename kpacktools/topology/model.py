"""A build topology as data, read from ``BUILD_TOPOLOGY.toml``.

Source of the format: the header comment of ROCm/TheRock's own file and its ``build_topology.py``. Keys that are there
and that neither this nor any check needs (descriptions of source sets, platforms of theirs) are checked by the schema,
``kpacktools/manifests/topology.schema.json``, and left out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kpacktools.findings import Finding
from kpacktools.tomlfile import read_toml, strings
from kpacktools.trees.places import shown

__all__ = ["Artifact", "Group", "SourceSet", "Stage", "Topology", "parse_topology", "read_topology"]


class SourceSet(Struct, frozen=True):
    """``[source_sets.<name>]``: what of the sources is checked out together."""

    name: str
    submodules: tuple[str, ...] = ()
    git_paths: tuple[str, ...] = ()
    """Where sources from other git repositories go, below ``optional-sources/``."""
    path_prefixes: tuple[str, ...] = ()


class Stage(Struct, frozen=True):
    """``[build_stages.<name>]``: one job of the build pipeline."""

    name: str
    description: str = ""
    groups: tuple[str, ...] = ()
    per_arch: bool = False
    """Run once for each GPU architecture, not once for all."""


class Group(Struct, frozen=True):
    """``[artifact_groups.<name>]``: artifacts that share what they depend on."""

    name: str
    description: str = ""
    per_arch: bool = False
    deps: tuple[str, ...] = ()
    source_sets: tuple[str, ...] = ()


class Artifact(Struct, frozen=True):
    """``[artifacts.<name>]``: one output of the build."""

    name: str
    group: str = ""
    target_specific: bool = False
    target_neutral: bool = False
    """Declared to be; neither where the type is missing or unknown."""
    deps: tuple[str, ...] = ()
    test_artifacts: tuple[str, ...] = ()
    """Artifacts that are built to test this one."""
    feature: str = ""
    """Name of the CMake feature that enables it; its own name in capitals unless it says otherwise."""
    platform: str | None = None
    """The only platform that it is built for."""
    disable_platforms: tuple[str, ...] = ()
    split_databases: tuple[str, ...] = ()
    """Names of the handlers that split its content by target."""

    def is_built_for(self, platform: str) -> bool:
        """Whether it is built for a platform, such as ``linux``, as far as the topology alone says."""
        return self.platform in (None, platform) and platform not in self.disable_platforms


class Topology(Struct, frozen=True):
    """A topology, each kind of thing by name in the order of the file."""

    path: str
    source_sets: Mapping[str, SourceSet]
    stages: Mapping[str, Stage]
    groups: Mapping[str, Group]
    artifacts: Mapping[str, Artifact]

    def artifacts_of(self, group: str) -> tuple[Artifact, ...]:
        """The artifacts of a group."""
        return tuple(artifact for artifact in self.artifacts.values() if artifact.group == group)

    def stage_of(self, group: str) -> str | None:
        """The (first) stage that builds a group."""
        return next((stage.name for stage in self.stages.values() if group in stage.groups), None)


def read_topology(path: str) -> tuple[Topology | None, tuple[Finding, ...]]:
    """Read a topology and say as ``topology-invalid`` where it does not follow the format.

    What does not is left out of the result, so that the rest can be used; None stands for a file that is no TOML.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read.
    """
    data, findings = read_toml(path, "topology", "topology-invalid")
    return (None if data is None else parse_topology(data, shown(path))), findings


def parse_topology(data: Mapping[str, Any], path: str) -> Topology:
    """A topology out of decoded TOML; whatever has the wrong type counts as absent."""
    return Topology(
        path,
        {name: _source_set(name, table) for name, table in _tables(data, "source_sets")},
        {name: _stage(name, table) for name, table in _tables(data, "build_stages")},
        {name: _group(name, table) for name, table in _tables(data, "artifact_groups")},
        {name: _artifact(name, table) for name, table in _tables(data, "artifacts")},
    )


def _tables(data: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    section = data.get(key)
    tables = section.items() if isinstance(section, Mapping) else ()
    return [(name, table) for name, table in tables if isinstance(table, Mapping)]


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _source_set(name: str, table: Mapping[str, Any]) -> SourceSet:
    sources = table.get("external_git_sources")
    return SourceSet(
        name,
        submodules=strings(table.get("submodules")),
        git_paths=tuple(
            _text(source, "path")
            for source in (sources if isinstance(sources, list) else ())
            if isinstance(source, Mapping) and _text(source, "path")
        ),
        path_prefixes=strings(table.get("path_prefixes")),
    )


def _stage(name: str, table: Mapping[str, Any]) -> Stage:
    return Stage(
        name,
        description=_text(table, "description"),
        groups=strings(table.get("artifact_groups")),
        per_arch=table.get("type") == "per-arch",
    )


def _group(name: str, table: Mapping[str, Any]) -> Group:
    return Group(
        name,
        description=_text(table, "description"),
        per_arch=table.get("type") == "per-arch",
        deps=strings(table.get("artifact_group_deps")),
        source_sets=strings(table.get("source_sets")),
    )


def _artifact(name: str, table: Mapping[str, Any]) -> Artifact:
    return Artifact(
        name,
        group=_text(table, "artifact_group"),
        target_specific=table.get("type") == "target-specific",
        target_neutral=table.get("type") == "target-neutral",
        deps=strings(table.get("artifact_deps")),
        test_artifacts=strings(table.get("test_artifacts")),
        feature=_text(table, "feature_name") or name.upper().replace("-", "_"),
        platform=_text(table, "platform") or None,
        disable_platforms=strings(table.get("disable_platforms")),
        split_databases=strings(table.get("split_databases")),
    )
