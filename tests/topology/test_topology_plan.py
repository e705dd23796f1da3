"""``topology plan``: what a release of some targets must hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from topology_files import Checkout

from kpacktools.cli import run

EXAMPLES = Path(__file__).parents[2] / "examples" / "shards"


def plan(checkout: Checkout, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["topology", "plan", str(checkout.path), *arguments]) == 0
    return capsys.readouterr().out


def test_every_engine_of_every_specific_artifact_is_required_for_every_target(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.add('[artifacts.rand]\nartifact_group = "blas-libs"\ntype = "target-specific"\n')
    out = plan(checkout, capsys, "--target", "gfx942", "--target", "gfx950")
    assert out.splitlines() == ["rocblas:gfx942", "rocblas:gfx950", "kpack:gfx942", "kpack:gfx950"]


def test_json_says_which_artifact_asks_for_what(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(plan(checkout, capsys, "--target", "gfx942", "--format", "json"))
    assert document == {
        "schema": "kpacktools.plan/v1",
        "targets": ["gfx942"],
        "parts": [
            {"artifact": "blas", "engine": "rocblas", "key": "gfx942", "require": "rocblas:gfx942"},
        ],
        "require": ["rocblas:gfx942"],
    }


def test_families_are_their_processors(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    out = plan(
        checkout, capsys, "--target", "family:gfx120X-all", "--target", "gfx1201", "--target", "gfx942:xnack+"
    )
    assert out.splitlines() == ["rocblas:gfx1200", "rocblas:gfx1201", "rocblas:gfx942"]


def test_artifacts_that_a_platform_lacks_are_left_out(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(checkout, capsys, "--target", "gfx942", "--platform", "windows") == ""
    assert plan(checkout, capsys, "--target", "gfx942", "--platform", "linux") == "rocblas:gfx942\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "gfx17z"], "--target gfx17z: unknown target"),
        (["--target", "gfx94X-dcgpu"], "a family is spelled family:gfx94X-dcgpu"),
        (["--target", "family:gfx11q"], "unknown family 'gfx11q'; near: gfx11"),
        ([], "Missing option '--target'"),
    ],
)
def test_unusable_targets_are_call_errors(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["topology", "plan", str(checkout.path), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_handler_is_a_call_error(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.replace('["rocblas"]', '["rocblsa"]')
    assert run(["topology", "plan", str(checkout.path), "--target", "gfx942"]) == 2
    assert "near: rocblas" in capsys.readouterr().err


def test_inspect_takes_a_plans_lines(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.replace('["rocblas"]', '["rocke", "hip_kernel_provider"]')
    lines = plan(checkout, capsys, "--target", "gfx942", "--target", "gfx1201").splitlines()
    required = [argument for line in lines for argument in ("--require", line)]
    assert run(["inspect", str(EXAMPLES), "--depth", "layout", *required]) == 0
    assert run(["inspect", str(EXAMPLES), "--depth", "layout", *required, "--require", "rocke:gfx1200"]) == 1
