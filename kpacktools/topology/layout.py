"""Where the boxes of a drawn topology go.

Stages are columns from left to right by what they wait for; within a stage, groups are columns in the same way; within
a group, artifacts stand below one another. Every size follows from the texts, so that nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kpacktools.topology.model import Artifact, Group, Stage, Topology
from kpacktools.topology.order import Graph, layers, reduced, stage_graph

__all__ = ["ROW", "Box", "Drawing", "GroupBox", "Row", "StageBox", "lay_out", "text_width"]

ROW: Final = 20
"""Height of an artifact's row; all lengths are in pixels."""
_HEAD: Final = 24
_PAD: Final = 8
_GAP: Final = 14
"""Between boxes that stand below one another."""
_CHANNEL: Final = 46
"""Between columns, where the arrows run."""
_CHARACTER: Final = 6.7
_SMALL: Final = 5.6
NO_STAGE: Final = Stage("built by no stage")

Corner = tuple[float, float]
"""Upper left, from the left and from the top."""


def text_width(text: str, *, small: bool = False) -> float:
    """A text's width in the drawing's font, estimated from the number of its characters."""
    return len(text) * (_SMALL if small else _CHARACTER)


class Box(Struct, frozen=True):
    """A place: the upper left corner, and the size."""

    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    def moved(self, dx: float, dy: float) -> Box:
        """The same box elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


class Row(Struct, frozen=True):
    """One artifact."""

    artifact: Artifact
    box: Box


class GroupBox(Struct, frozen=True):
    """One group with its artifacts."""

    group: Group
    box: Box
    rows: tuple[Row, ...]
    titled: bool = True
    """Whether its name is written into it."""

    def moved(self, dx: float, dy: float) -> GroupBox:
        """The same group elsewhere."""
        rows = tuple(replace(row, box=row.box.moved(dx, dy)) for row in self.rows)
        return replace(self, box=self.box.moved(dx, dy), rows=rows)


class StageBox(Struct, frozen=True):
    """One stage with its groups."""

    stage: Stage
    box: Box
    groups: tuple[GroupBox, ...]

    def moved(self, dx: float, dy: float) -> StageBox:
        """The same stage elsewhere."""
        return replace(
            self, box=self.box.moved(dx, dy), groups=tuple(group.moved(dx, dy) for group in self.groups)
        )


class Drawing(Struct, frozen=True):
    """A laid out topology."""

    stages: tuple[StageBox, ...]
    arrows: tuple[tuple[str, str], ...]
    """(group that is needed, group that needs it)."""
    width: float
    height: float

    def groups(self) -> dict[str, GroupBox]:
        """Every group's box by name."""
        return {box.group.name: box for stage in self.stages for box in stage.groups}


def lay_out(topology: Topology) -> Drawing:
    """Lay out a topology, from the corner (0, 0). Arrows that others imply are left out."""
    deps = reduced(
        {
            group.name: [dep for dep in group.deps if dep in topology.groups]
            for group in topology.groups.values()
        }
    )
    members: dict[str, list[Group]] = {name: [] for name in topology.stages}
    for group in topology.groups.values():
        members.setdefault(topology.stage_of(group.name) or NO_STAGE.name, []).append(group)
    boxes = {
        name: _stage(topology.stages.get(name, NO_STAGE), topology, groups, deps)
        for name, groups in members.items()
    }
    inside = {box.group.name: (name, box.box.y) for name, stage in boxes.items() for box in stage.groups}

    def pull(name: str, placed: Mapping[str, Corner]) -> float:
        needed = {dep for group in members[name] for dep in deps[group.name]} - {
            g.name for g in members[name]
        }
        return _mean(placed[inside[dep][0]][1] + inside[dep][1] for dep in needed if inside[dep][0] in placed)

    waits = {name: tuple(stage_graph(topology).get(name, ())) for name in members}
    placed, width, height = _arrange({n: box.box for n, box in boxes.items()}, waits, _GAP * 1.5, pull)
    arrows = tuple((dep, name) for name, mine in deps.items() for dep in mine)
    return Drawing(
        tuple(boxes[name].moved(*corner) for name, corner in placed.items()), arrows, width, height
    )


def _stage(stage: Stage, topology: Topology, groups: Sequence[Group], deps: Graph) -> StageBox:
    # The title of a stage of one group is also that of the group, where they are called alike.
    titled = [group.name for group in groups] != [stage.name]
    boxes = {group.name: _group(group, topology.artifacts_of(group.name), titled=titled) for group in groups}
    inner = {name: tuple(dep for dep in deps[name] if dep in boxes) for name in boxes}

    def pull(name: str, placed: Mapping[str, Corner]) -> float:
        return _mean(placed[dep][1] for dep in inner[name] if dep in placed)

    placed, width, height = _arrange({n: box.box for n, box in boxes.items()}, inner, _GAP, pull)
    title = text_width(stage.name) * 1.15 + 2 * _PAD
    if stage.per_arch:
        title += text_width("per architecture", small=True) + _PAD
    box = Box(0, 0, max(width, title) + 2 * _PAD, height + _HEAD + 2 * _PAD)
    inside = (boxes[name].moved(x + _PAD, y + _HEAD + _PAD) for name, (x, y) in placed.items())
    return StageBox(stage, box, tuple(inside))


def _group(group: Group, artifacts: Sequence[Artifact], *, titled: bool) -> GroupBox:
    widths = [text_width(group.name) * titled]
    for artifact in artifacts:
        label = split_label(artifact)
        widths.append(text_width(artifact.name) + text_width(label, small=True) + 3 * _PAD * bool(label))
    width = max(widths) + 5 * _PAD
    head = _HEAD if titled else _PAD
    rows = tuple(
        Row(artifact, Box(_PAD, head + index * ROW, width - 2 * _PAD, ROW - 3))
        for index, artifact in enumerate(artifacts)
    )
    return GroupBox(group, Box(0, 0, width, head + ROW * len(artifacts) + _PAD / 2), rows, titled)


def split_label(artifact: Artifact) -> str:
    """What is written behind an artifact's name: the handlers that split it."""
    return " ".join(artifact.split_databases)


def _arrange(
    boxes: Mapping[str, Box], graph: Graph, gap: float, pull: Callable[[str, Mapping[str, Corner]], float]
) -> tuple[dict[str, Corner], float, float]:
    """The corners of boxes in columns, what depends on nothing first, and the size of the whole.

    Each column is centred. Within one, boxes stand in the order of their ``pull``: how far down what they depend on
    stands, given the columns before.
    """
    depth = layers(graph)
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in graph:
        columns[depth[name]].append(name)
    heights = [sum(boxes[name].height for name in column) + gap * (len(column) - 1) for column in columns]
    height = max(heights, default=0.0)
    placed: dict[str, Corner] = {}
    x = 0.0
    for column, own in zip(columns, heights, strict=True):
        pulls = {name: pull(name, placed) for name in column}
        y = (height - own) / 2
        for name in sorted(column, key=lambda name: (pulls[name], -boxes[name].height, name)):
            placed[name] = (x, y)
            y += boxes[name].height + gap
        x += max(boxes[name].width for name in column) + _CHANNEL
    return placed, max(0.0, x - _CHANNEL), height


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
