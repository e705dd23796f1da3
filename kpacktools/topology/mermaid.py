"""A topology as a Mermaid flowchart: stages hold groups, groups hold artifacts, arrows say which group needs which.

GitHub, GitLab and most documentation tools draw it from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kpacktools.topology.model import Artifact, Group, Topology
from kpacktools.topology.order import reduced

__all__ = ["as_mermaid"]

_NO_STAGE = "built by no stage"


def as_mermaid(topology: Topology) -> str:
    """The flowchart's text. Arrows that others imply are left out."""
    return "".join(f"{line}\n" for line in _lines(topology))


def _lines(topology: Topology) -> Iterator[str]:
    yield "flowchart LR"
    yield "  classDef specific fill:#fde3c8,stroke:#b45309,color:#111"
    yield "  classDef neutral fill:#f3f4f6,stroke:#9ca3af,color:#111"
    for stage in topology.stages.values():
        kind = " (per architecture)" if stage.per_arch else ""
        yield f"  subgraph {_id('s', stage.name)}[{_text(stage.name + kind)}]"
        for name in stage.groups:
            if name in topology.groups and topology.stage_of(name) == stage.name:
                yield from _group(topology, topology.groups[name])
        yield "  end"
    homeless = [group for group in topology.groups.values() if topology.stage_of(group.name) is None]
    if homeless:
        yield f"  subgraph {_id('s', _NO_STAGE)}[{_text(_NO_STAGE)}]"
        for group in homeless:
            yield from _group(topology, group)
        yield "  end"
    graph = reduced({group.name: group.deps for group in topology.groups.values()})
    for name, deps in graph.items():
        for dep in deps:
            if dep in topology.groups:
                yield f"  {_id('g', dep)} --> {_id('g', name)}"


def _group(topology: Topology, group: Group) -> Iterator[str]:
    yield f"    subgraph {_id('g', group.name)}[{_text(group.name)}]"
    for artifact in topology.artifacts_of(group.name):
        kind = "specific" if artifact.target_specific else "neutral"
        yield f"      {_id('a', artifact.name)}[{_text(*_label(artifact))}]:::{kind}"
    yield "    end"


def _label(artifact: Artifact) -> Iterator[str]:
    yield artifact.name
    if artifact.split_databases:
        yield f"split: {', '.join(artifact.split_databases)}"


def _id(kind: str, name: str) -> str:
    """An identifier that no other name gets: what is no letter or digit becomes its code point."""
    return kind + "_" + re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)


def _text(*lines: str) -> str:
    escaped = (line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;") for line in lines)
    return '"' + "<br/>".join(escaped) + '"'
