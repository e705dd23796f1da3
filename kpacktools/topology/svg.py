"""A topology as an SVG picture, drawn without any other tool: see :mod:`.layout` for where things go."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from kpacktools.topology.layout import (
    ROW,
    Box,
    Drawing,
    GroupBox,
    Row,
    StageBox,
    lay_out,
    split_label,
    text_width,
)
from kpacktools.topology.model import Artifact, Topology

__all__ = ["as_svg"]

_MARGIN: Final = 20
_COLOURS: Final = (
    "#2563eb",
    "#059669",
    "#9333ea",
    "#b45309",
    "#0e7490",
    "#be185d",
    "#4d7c0f",
    "#475569",
    "#dc2626",
    "#a16207",
)
"""Of arrows, by the group that they come from: they cross, and must be told apart."""
_LEGEND: Final = 34
_KINDS: Final = (
    ("neutral", "target-neutral artifact"),
    ("specific", "target-specific artifact, handlers that split it"),
    ("stage per-arch", "stage built per architecture"),
)
_STYLE: Final = """\
text { font: 12px ui-sans-serif, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #1f2937 }
.page { fill: #ffffff }
.stage { fill: #f8fafc; stroke: #94a3b8 }
.stage.per-arch { fill: #fff7ed; stroke: #c2410c; stroke-dasharray: 6 3 }
.stage-name { font-size: 13px; font-weight: 600 }
.group { fill: #ffffff; stroke: #cbd5e1 }
.group-name { font-weight: 600; fill: #334155 }
.neutral { fill: #f1f5f9 }
.specific { fill: #fdba74 }
.small { font-size: 10px; fill: #7c2d12 }
.arrow { fill: none; stroke-width: 1.3; opacity: 0.8 }
"""


def as_svg(topology: Topology) -> str:
    """The picture's text. Names are real text; an artifact's tooltip says what it depends on."""
    return "".join(f"{line}\n" for line in _lines(topology, lay_out(topology)))


def _lines(topology: Topology, drawing: Drawing) -> Iterator[str]:
    width = max(drawing.width, sum(_legend_width(text) for _, text in _KINDS)) + 2 * _MARGIN
    height = drawing.height + 2 * _MARGIN + _LEGEND
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    )
    yield "<title>Build topology</title>"
    yield f"<style>{_STYLE}</style>"
    yield "<defs>"
    for index, colour in enumerate(_COLOURS):
        yield (
            f'<marker id="tip{index}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        )
    yield "</defs>"
    yield '<rect class="page" width="100%" height="100%"/>'
    yield from _legend()
    yield f'<g transform="translate({_MARGIN} {_MARGIN + _LEGEND})">'
    for stage in drawing.stages:
        yield from _stage(stage)
    yield from _arrows(drawing)
    for stage in drawing.stages:
        for group in stage.groups:
            yield from _group(group)
    yield "</g>"
    yield "</svg>"


def _legend() -> Iterator[str]:
    x, y = float(_MARGIN), _MARGIN + 2
    for kind, text in _KINDS:
        yield f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="22" height="{ROW - 6}" rx="3"/>'
        yield _text(x + 28, y + 11, text)
        x += _legend_width(text)


def _legend_width(text: str) -> float:
    return 28 + text_width(text) + 16


def _stage(stage: StageBox) -> Iterator[str]:
    kind = "stage per-arch" if stage.stage.per_arch else "stage"
    yield _rect(stage.box, kind, 8)
    yield _text(stage.box.x + 10, stage.box.y + 18, stage.stage.name, "stage-name")
    if stage.stage.per_arch:
        x = stage.box.x + 10 + text_width(stage.stage.name) * 1.15 + 8
        yield _text(x, stage.box.y + 18, "per architecture", "small")


def _group(group: GroupBox) -> Iterator[str]:
    yield "<g>"
    yield f"<title>{escape(group.group.description or group.group.name)}</title>"
    yield _rect(group.box, "group", 5)
    if group.titled:
        yield _text(group.box.x + 8, group.box.y + 16, group.group.name, "group-name")
    yield "</g>"
    for row in group.rows:
        yield from _row(row)


def _row(row: Row) -> Iterator[str]:
    artifact, box = row.artifact, row.box
    yield "<g>"
    yield f"<title>{escape(_tooltip(artifact))}</title>"
    yield _rect(box, "specific" if artifact.target_specific else "neutral", 3)
    yield _text(box.x + 6, box.y + 12.5, artifact.name)
    label = split_label(artifact)
    if label:
        yield (
            f'<text class="small" x="{box.x + box.width - 6:.1f}" y="{box.y + 12.5:.1f}" text-anchor="end">'
            f"{escape(label)}</text>"
        )
    yield "</g>"


def _tooltip(artifact: Artifact) -> str:
    lines = [artifact.name, "target-specific" if artifact.target_specific else "target-neutral"]
    if artifact.split_databases:
        lines.append(f"split by {', '.join(artifact.split_databases)}")
    if artifact.platform:
        lines.append(f"only on {artifact.platform}")
    if artifact.disable_platforms:
        lines.append(f"not on {', '.join(artifact.disable_platforms)}")
    if artifact.deps:
        lines.append(f"depends on {', '.join(artifact.deps)}")
    return "\n".join(lines)


def _arrows(drawing: Drawing) -> Iterator[str]:
    groups = drawing.groups()
    sources = {name: index % len(_COLOURS) for index, name in enumerate(dict(drawing.arrows))}
    for needed, needing in drawing.arrows:
        left, right = groups[needed].box, groups[needing].box
        x1, y1 = left.x + left.width, left.y + 12
        x2, y2 = right.x, right.y + 12
        bend = max(24.0, (x2 - x1) / 2) if x2 > x1 else 40.0
        colour = sources[needed]
        yield (
            f'<path class="arrow" stroke="{_COLOURS[colour]}" marker-end="url(#tip{colour})" '
            f'd="M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}">'
            f"<title>{escape(f'{needing} needs {needed}')}</title></path>"
        )


def _rect(box: Box, kind: str, radius: int) -> str:
    return (
        f'<rect class="{kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{radius}"/>'
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
