"""``topology graph``: drawings of a topology."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from topology_files import Checkout

from kpacktools.cli import run
from kpacktools.topology.layout import Box, lay_out
from kpacktools.topology.mermaid import as_mermaid
from kpacktools.topology.model import Topology, parse_topology
from kpacktools.topology.order import cycles, layers, reachable, reduced
from kpacktools.topology.svg import as_svg


def large() -> Topology:
    """Seventy-five artifacts in fifteen groups of five stages, each group depending on three earlier ones."""
    groups = {
        f"group-{i}": {"artifact_group_deps": [f"group-{j}" for j in (i - 1, i - 4, i - 7) if j >= 0]}
        for i in range(15)
    }
    stages = {
        f"stage-{s}": {"artifact_groups": [f"group-{i}" for i in range(s * 3, s * 3 + 3)]} for s in range(5)
    }
    artifacts = {
        f"artifact-{i}": {
            "artifact_group": f"group-{i % 15}",
            "type": "target-specific" if i % 4 == 0 else "target-neutral",
            "split_databases": ["rocblas", "hipblaslt"] if i % 8 == 0 else [],
        }
        for i in range(75)
    }
    return parse_topology({"build_stages": stages, "artifact_groups": groups, "artifacts": artifacts}, "t")


def overlap(one: Box, two: Box) -> bool:
    return (
        one.x < two.x + two.width
        and two.x < one.x + one.width
        and one.y < two.y + two.height
        and two.y < one.y + one.height
    )


def inside(inner: Box, outer: Box) -> bool:
    return (
        inner.x >= outer.x
        and inner.y >= outer.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def test_boxes_lie_inside_one_another_and_never_over_one_another() -> None:
    drawing = lay_out(large())
    for stages in itertools.combinations(drawing.stages, 2):
        assert not overlap(stages[0].box, stages[1].box)
    for stage in drawing.stages:
        for one, two in itertools.combinations(stage.groups, 2):
            assert not overlap(one.box, two.box)
        for group in stage.groups:
            assert inside(group.box, stage.box)
            for row, other in itertools.pairwise([row.box for row in group.rows]):
                assert inside(row, group.box)
                assert not overlap(row, other)
    assert sum(len(group.rows) for stage in drawing.stages for group in stage.groups) == 75


def test_arrows_lead_from_left_to_right(checkout: Checkout) -> None:
    drawing = lay_out(checkout.topology())
    groups = drawing.groups()
    assert drawing.arrows == (("core", "blas-libs"),)
    assert groups["core"].box.x + groups["core"].box.width < groups["blas-libs"].box.x


def test_the_picture_names_everything_and_marks_what_is_specific(checkout: Checkout) -> None:
    root = ElementTree.fromstring(as_svg(checkout.topology()))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"runtime", "math", "core", "blas-libs", "hip", "blas", "rocblas", "per architecture"} <= set(
        texts
    )
    rectangles = [element.get("class") for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert rectangles.count("specific") == 2  # the artifact, and the legend
    assert rectangles.count("stage per-arch") == 2


def test_markup_in_names_is_escaped(checkout: Checkout) -> None:
    checkout.replace('description = "d"\ntype = "generic"', 'description = "<b> & \'c\'"\ntype = "generic"')
    ElementTree.fromstring(as_svg(checkout.topology()))


def test_mermaid_nests_artifacts_in_groups_in_stages(checkout: Checkout) -> None:
    lines = as_mermaid(checkout.topology()).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  subgraph s_math["math (per architecture)"]' in lines
    assert '    subgraph g_blas_2d_libs["blas-libs"]' in lines
    assert '      a_blas["blas<br/>split: rocblas"]:::specific' in lines
    assert '      a_hip["hip"]:::neutral' in lines
    assert lines[-1] == "  g_core --> g_blas_2d_libs"
    assert sum(line.strip() == "end" for line in lines) == sum("subgraph" in line for line in lines)


@pytest.mark.parametrize("draw", [as_svg, as_mermaid])
def test_groups_of_no_stage_are_drawn_too(checkout: Checkout, draw: object) -> None:
    checkout.add("[artifact_groups.later]\n")
    text = draw(checkout.topology())  # type: ignore[operator]
    assert "built by no stage" in text
    assert "later" in text


@pytest.mark.parametrize("draw", [as_svg, as_mermaid])
def test_an_empty_topology_can_be_drawn(draw: object) -> None:
    assert draw(parse_topology({}, "t"))  # type: ignore[operator]


@pytest.mark.parametrize("draw", [as_svg, as_mermaid])
def test_circles_and_references_to_nothing_can_be_drawn(draw: object) -> None:
    groups = {"a": {"artifact_group_deps": ["b", "none"]}, "b": {"artifact_group_deps": ["a"]}}
    stages = {"s": {"artifact_groups": ["a", "b", "nobody"]}}
    assert draw(parse_topology({"artifact_groups": groups, "build_stages": stages}, "t"))  # type: ignore[operator]


def test_the_format_follows_the_outputs_name(checkout: Checkout, tmp_path: Path) -> None:
    for name, start in (("t.svg", "<svg "), ("t.mmd", "flowchart LR")):
        assert run(["topology", "graph", str(checkout.path), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(start)


def test_a_topology_with_faults_is_drawn_and_one_that_is_no_toml_is_not(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.replace("[metadata]", "[metdata]")
    assert run(["topology", "graph", str(checkout.path)]) == 0
    checkout.path.write_text("[x")
    assert run(["topology", "graph", str(checkout.path)]) == 2
    assert "is not valid TOML" in capsys.readouterr().err


def test_orders_of_graphs() -> None:
    graph = {"a": ("b", "c"), "b": ("c",), "c": (), "d": ("a", "c", "x")}
    assert layers(graph) == {"a": 2, "b": 1, "c": 0, "d": 3}
    assert reachable(graph, "d") == {"a", "b", "c", "x"}
    assert reduced(graph) == {"a": ("b",), "b": ("c",), "c": (), "d": ("a", "x")}
    assert cycles(graph) == []
    assert cycles({"a": ("b",), "b": ("c", "a"), "c": ("c",)}) == [("a", "b"), ("c",)]
