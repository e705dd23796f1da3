"""Order in graphs of names: what must come before what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kpacktools.topology.model import Topology

__all__ = ["Graph", "cycles", "layers", "reachable", "reduced", "stage_graph"]

Graph = Mapping[str, Iterable[str]]
"""Name -> the names that it depends on. Names that are no key depend on nothing."""


def cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Circles in a graph, each once and starting with its first name: ``("a", "b")`` for a -> b -> a.

    Circles that share names may be reported as one.
    """
    found: dict[frozenset[str], tuple[str, ...]] = {}
    done: set[str] = set()
    for start in sorted(graph):
        path: list[str] = []
        # Names to visit, None being the way back out of one.
        pending: list[str | None] = [start]
        while pending:
            name = pending.pop()
            if name is None:
                done.add(path.pop())
            elif name in path:
                circle = path[path.index(name) :]
                first = circle.index(min(circle))
                found.setdefault(frozenset(circle), tuple(circle[first:] + circle[:first]))
            elif name not in done:
                path.append(name)
                pending.append(None)
                pending += sorted(graph.get(name, ()), reverse=True)
    return sorted(found.values())


def reachable(graph: Graph, start: str) -> frozenset[str]:
    """Everything that a name depends on, directly or through others; itself only where it is in a circle."""
    found: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += graph.get(name, ())
    return frozenset(found)


def layers(graph: Graph) -> dict[str, int]:
    """The length of the longest way from each key down to a name that depends on nothing. Dependencies on names that
    are no key, and those that close a circle, do not count."""
    depth: dict[str, int] = {}

    def visit(name: str, above: frozenset[str]) -> int:
        if name not in depth:
            inner = above | {name}
            depth[name] = max(
                (visit(dep, inner) + 1 for dep in graph[name] if dep in graph and dep not in inner), default=0
            )
        return depth[name]

    for name in graph:
        visit(name, frozenset())
    return depth


def reduced(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The same graph without the dependencies that others imply. Circles are left as they are."""
    out = {}
    for name, deps in graph.items():
        direct = [dep for dep in dict.fromkeys(deps) if dep != name]
        out[name] = tuple(
            dep
            for dep in direct
            if not any(
                other != dep and dep in reachable(graph, other) and other not in reachable(graph, dep)
                for other in direct
            )
        )
    return out


def stage_graph(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Stage -> the stages that it waits for, which is what the dependencies of its groups say."""
    graph: dict[str, dict[str, None]] = {stage: {} for stage in topology.stages}
    for group in topology.groups.values():
        mine = topology.stage_of(group.name)
        for dep in group.deps:
            other = topology.stage_of(dep)
            if mine is not None and other is not None and mine != other:
                graph[mine][other] = None
    return {stage: tuple(others) for stage, others in graph.items()}
