"""What is wrong with a topology by itself: names, references, circles, owners, handlers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from kpacktools.findings import Finding, Severity, finding
from kpacktools.topology.model import Topology
from kpacktools.topology.order import Graph, cycles, reachable, stage_graph

__all__ = ["check_handlers", "check_topology", "near_hint"]

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def check_topology(topology: Topology) -> Iterator[Finding]:
    """``topology-invalid``: names that break the conventions, references to nothing, circles, things with no owner or
    with two, and artifacts that no order of stages can build; ``topology-disagrees`` (a warning) where a group and its
    stage differ on whether they are built once."""
    yield from _names(topology)
    yield from _references(topology)
    yield from _circles(topology)
    yield from _owners(topology)
    yield from _stage_order(topology)
    yield from _once_or_per_arch(topology)


def check_handlers(topology: Topology, handlers: Collection[str]) -> Iterator[Finding]:
    """``topology-unknown-handler`` for names in ``split_databases`` that no handler has, and ``topology-disagrees`` (a
    warning) where an artifact that is declared target-neutral, and so is never split, names any."""
    for artifact in topology.artifacts.values():
        for name in artifact.split_databases:
            if name not in handlers:
                yield finding(
                    "topology-unknown-handler",
                    topology.path,
                    f"artifacts.{artifact.name}.split_databases names {name!r}, and there is no such handler"
                    + near_hint(name, handlers),
                    f"known handlers: {', '.join(sorted(handlers))}; others come as plugins",
                )
        if artifact.split_databases and not artifact.target_specific:
            yield finding(
                "topology-disagrees",
                topology.path,
                f"artifacts.{artifact.name} is declared target-neutral, which is never split, and names "
                f"split_databases {', '.join(artifact.split_databases)}",
                'declare it type = "target-specific", or remove split_databases',
                severity=Severity.WARNING,
            )


def near_hint(name: str, known: Iterable[str]) -> str:
    """``; near: a, b`` for known names similar to an unknown one, empty for none."""
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return f"; near: {', '.join(near)}" if near else ""


def _invalid(topology: Topology, message: str, hint: str = "", severity: Severity | None = None) -> Finding:
    return finding("topology-invalid", topology.path, message, hint, severity=severity)


def _names(topology: Topology) -> Iterator[Finding]:
    sections: tuple[tuple[str, Iterable[str]], ...] = (
        ("source_sets", topology.source_sets),
        ("build_stages", topology.stages),
        ("artifact_groups", topology.groups),
        ("artifacts", topology.artifacts),
    )
    for section, names in sections:
        for name in names:
            if _NAME.fullmatch(name) is None:
                yield _invalid(
                    topology,
                    f"{section}.{name}: names are lower-case letters and digits with single hyphens between them",
                )


def _references(topology: Topology) -> Iterator[Finding]:
    groups, artifacts = topology.groups, topology.artifacts
    references = [
        *(("build_stages", s.name, "artifact_groups", s.groups, groups) for s in topology.stages.values()),
        *(("artifact_groups", g.name, "artifact_group_deps", g.deps, groups) for g in groups.values()),
        *(
            ("artifact_groups", g.name, "source_sets", g.source_sets, topology.source_sets)
            for g in groups.values()
        ),
        *(("artifacts", a.name, "artifact_group", (a.group,), groups) for a in artifacts.values() if a.group),
        *(("artifacts", a.name, "artifact_deps", a.deps, artifacts) for a in artifacts.values()),
        *(("artifacts", a.name, "test_artifacts", a.test_artifacts, artifacts) for a in artifacts.values()),
    ]
    for section, owner, key, names, known in references:
        seen: set[str] = set()
        for name in names:
            if name not in known:
                hint = near_hint(name, known)
                yield _invalid(topology, f"{section}.{owner}.{key} names {name!r}, which is not there{hint}")
            elif name in seen:
                yield _invalid(
                    topology, f"{section}.{owner}.{key} names {name!r} twice", severity=Severity.WARNING
                )
            seen.add(name)


def _circles(topology: Topology) -> Iterator[Finding]:
    graphs: tuple[tuple[str, Graph], ...] = (
        ("artifact_groups", {group.name: group.deps for group in topology.groups.values()}),
        ("artifacts", {artifact.name: artifact.deps for artifact in topology.artifacts.values()}),
        ("build_stages", stage_graph(topology)),
    )
    for section, graph in graphs:
        for circle in cycles(graph):
            way = " -> ".join((*circle, circle[0]))
            yield _invalid(topology, f"{section} depend on one another in a circle: {way}")


def _owners(topology: Topology) -> Iterator[Finding]:
    builders: dict[str, list[str]] = {group: [] for group in topology.groups}
    for stage in topology.stages.values():
        for group in dict.fromkeys(stage.groups):
            builders.setdefault(group, []).append(stage.name)
    for group, stages in builders.items():
        if len(stages) > 1:
            yield _invalid(
                topology,
                f"artifact_groups.{group} is built by {len(stages)} stages: {', '.join(stages)}",
                "name it in one: each stage would push its artifacts over the others'",
            )
        elif not stages:
            yield _invalid(
                topology, f"artifact_groups.{group} is built by no stage", severity=Severity.WARNING
            )
        if not topology.artifacts_of(group) and group in topology.groups:
            yield _invalid(topology, f"artifact_groups.{group} has no artifact", severity=Severity.WARNING)
    sets = topology.source_sets.values()
    owned: tuple[tuple[str, Iterable[tuple[str, str]]], ...] = (
        ("submodule", ((name, s.name) for s in sets for name in s.submodules)),
        ("path", ((path, s.name) for s in sets for path in s.git_paths)),
        ("path prefix", ((prefix.rstrip("/"), s.name) for s in sets for prefix in s.path_prefixes)),
        ("feature", ((artifact.feature, name) for name, artifact in topology.artifacts.items())),
    )
    for what, pairs in owned:
        for name, owners in _by_name(pairs).items():
            if len(owners) > 1:
                section = "artifacts" if what == "feature" else "source_sets"
                yield _invalid(
                    topology, f"the {what} {name} is that of several {section}: {', '.join(owners)}"
                )


def _by_name(pairs: Iterable[tuple[str, str]]) -> Mapping[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for name, owner in pairs:
        found.setdefault(name, {})[owner] = None
    return found


def _stage_order(topology: Topology) -> Iterator[Finding]:
    """Artifacts that depend on one of another stage that theirs does not wait for."""
    graph = stage_graph(topology)
    waits = {stage: reachable(graph, stage) for stage in graph}
    for artifact in topology.artifacts.values():
        mine = topology.stage_of(artifact.group)
        for dep in artifact.deps:
            other = topology.stage_of(topology.artifacts[dep].group) if dep in topology.artifacts else None
            if mine is not None and other is not None and other != mine and other not in waits[mine]:
                yield _invalid(
                    topology,
                    f"artifacts.{artifact.name} depends on {dep} of the stage {other}, and its own stage {mine} does "
                    "not wait for that one",
                    f"add {topology.artifacts[dep].group} to artifact_groups.{artifact.group}.artifact_group_deps",
                )


def _once_or_per_arch(topology: Topology) -> Iterator[Finding]:
    kinds = {False: "generic (built once)", True: "per-arch (built for each architecture)"}
    for stage in topology.stages.values():
        for name in stage.groups:
            group = topology.groups.get(name)
            if group is not None and group.per_arch != stage.per_arch:
                yield finding(
                    "topology-disagrees",
                    topology.path,
                    f"artifact_groups.{name} is {kinds[group.per_arch]}, and the stage {stage.name} that builds it is "
                    f"{kinds[stage.per_arch]}",
                    "give both the same type",
                    severity=Severity.WARNING,
                )
