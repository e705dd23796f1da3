"""The matrix of engines and targets, shared by text and HTML."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from builders import Build, code_object
from kpacktools import commands
from kpacktools.findings import Severity, finding
from kpacktools.pipeline import Settings
from kpacktools.policy import Policy
from kpacktools.reports.matrix import State, matrix_of

Maker = Callable[..., Build]


def test_a_cell_stands_as_its_worst_finding_does_under_the_policy(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    for severity, state in (
        (Severity.ERROR, State.ERROR),
        (Severity.WARNING, State.WARNING),
        (Severity.INFO, State.OK),
        (None, State.OK),
    ):
        policy = Policy(severities={"orphan-kernel": severity})
        report = commands.inspect([str(shard.root)], replace(settings, policy=policy))
        assert matrix_of(report).cell("rocke", "gfx942").state is state


def test_a_finding_of_the_whole_set_marks_the_bundle_that_it_is_about(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942")
    shard.kernel_provider("gfx942")
    report = commands.inspect([str(shard.root)], settings)
    about = finding("lane-mixed", str(place), "two lanes")
    matrix = matrix_of(replace(report, findings=(about,)))
    assert matrix.cell("rocke", "gfx942").findings == (0,)
    assert matrix.cell("hip-kernel-provider", "gfx942").state is State.OK


def test_bundles_of_one_cell_are_added_up(build: Maker, settings: Settings) -> None:
    one, two = build("one", "gfx942"), build("two", "gfx942")
    one.rocke("gfx942")
    two.rocke("gfx942", ["a"])
    cell = matrix_of(commands.inspect([str(one.root), str(two.root)], settings)).cell("rocke", "gfx942")
    assert (cell.kernels, cell.bundles) == (3, 2)


def test_a_required_cell_that_is_empty_is_there_and_missing(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    report = commands.inspect([str(shard.root)], settings, ["rocke:gfx1201", "lib/rocke:gfx1201"])
    matrix = matrix_of(report)
    assert (matrix.engines, matrix.keys) == (("aiter", "rocke"), ("gfx942", "gfx1201"))
    assert matrix.cell("rocke", "gfx1201").state is State.MISSING
    assert len(matrix.cell("rocke", "gfx1201").findings) == 2
    assert matrix.cell("aiter", "gfx1201").state is State.EMPTY
