"""Compiler lanes: what is qualified, what may stand side by side, what a consumer takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from builders import Build, names, only
from kpacktools.commands import inspect
from kpacktools.errors import CallError
from kpacktools.findings import Severity
from kpacktools.lanes import BundleLane, LaneRules, check_lanes, default_lanes
from kpacktools.pipeline import Settings
from kpacktools.policy import Policy, load_policy

Maker = Callable[..., Build]
TABLE = default_lanes()


def lane(
    declared: str | None,
    majors: dict[int, int] | None = None,
    key: str = "gfx942",
    *,
    default: bool = False,
    ops: tuple[str, ...] = (),
) -> BundleLane:
    return BundleLane("rocke", key, f"rocke/{key}", declared, default, majors or {}, frozenset(ops))


def found(*bundles: BundleLane, rules: LaneRules = LaneRules()) -> list[tuple[str, str]]:
    return [(f.name, f.severity.value) for f in check_lanes(bundles, TABLE, rules)]


def test_lanes_hold_majors_and_share_profiles() -> None:
    by_major = {major: TABLE.by_major(major) for major in range(19, 26)}
    assert {major: lane and lane.name for major, lane in by_major.items()} == {
        19: None, 20: "llvm20", 21: "llvm20", 22: "llvm22", 23: "llvm23", 24: "llvm24", 25: None,
    }  # fmt: skip
    profiles = {lane.name: lane.profile for lane in TABLE.lanes}
    assert profiles["llvm24"] == profiles["llvm23"] != profiles["llvm22"]


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [
        ([lane("llvm22", {22: 3})], []),
        ([lane("llvm20", {21: 1, 20: 1})], []),
        ([lane("llvm22")], []),
        ([lane("llvm25")], [("lane-unknown", "error")]),
        ([lane("gcc")], [("lane-unknown", "error")]),
        ([lane("llvm22", {25: 1})], [("lane-unknown", "error")]),
        ([lane("llvm24", {25: 1})], [("lane-unknown", "error")]),
        ([lane("llvm22", {23: 1, 22: 5})], [("lane-mismatch", "error")]),
        ([lane("llvm22", {17: 1})], [("lane-mismatch", "error")]),
        ([lane(None, {17: 10, 20: 5, 25: 1})], []),
        ([lane("llvm20", {23: 1}, default=True)], []),
        ([lane("llvm20", {25: 1}, default=True)], [("lane-unknown", "error")]),
    ],
)
def test_one_bundle(bundles: list[BundleLane], expected: list[tuple[str, str]]) -> None:
    assert found(*bundles) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (lane("llvm22"), lane("llvm22", key="gfx950"), []),
        (lane("llvm22"), lane("llvm23", key="gfx950"), [("lane-mixed", "error")]),
        (lane("llvm23"), lane("llvm24", key="gfx950"), [("lane-mixed", "warning")]),
        (lane("llvm25"), lane("llvm24", key="gfx950"), [("lane-unknown", "error")]),
        (lane("llvm20", {23: 1}, default=True), lane("llvm23", key="gfx950"), []),
        (lane("llvm20", {22: 1}, default=True), lane("llvm23", key="gfx950"), [("lane-mixed", "error")]),
        (lane("llvm20", default=True), lane("llvm23", key="gfx950"), []),
        (lane(None, {17: 1}), lane("llvm23", key="gfx950"), []),
    ],
)
def test_C2_lanes_side_by_side(
    first: BundleLane, second: BundleLane, expected: list[tuple[str, str]]
) -> None:
    assert found(first, second) == expected
    assert found(second, first) == expected


def test_C2_a_policy_may_allow_a_mix() -> None:
    pair = (lane("llvm22"), lane("llvm23", key="gfx950"))
    assert found(*pair, rules=LaneRules(mixes=(frozenset(("llvm22", "llvm23")),))) == []
    assert found(*pair, rules=LaneRules(mixes=(frozenset(("llvm22", "llvm24")),))) == [
        ("lane-mixed", "error")
    ]


def test_C4_a_policy_that_says_who_is_on_which_lane_is_taken_at_its_word() -> None:
    rules = LaneRules(default="llvm22", keys={"gfx1250": "llvm23"})
    a, b = lane("llvm22"), lane("llvm23", key="gfx1250")
    assert found(a, b, rules=rules) == []
    assert found(a, b, lane("llvm23", key="gfx950"), rules=rules) == [("lane-mixed", "error")]
    assert found(a, lane("llvm22", key="gfx1250"), rules=rules) == [("lane-mixed", "error")]


def test_an_op_on_a_lane_that_its_consumer_does_not_take() -> None:
    rules = LaneRules(admits={"hipdnn": {"sdpa_fwd": ("llvm22",), "gemm": ("llvm20",)}})
    assert found(lane("llvm22", ops=("sdpa_fwd", "other")), rules=rules) == []
    assert found(lane("llvm23", ops=("sdpa_fwd",)), rules=rules) == [("lane-not-admitted", "error")]
    assert found(lane("llvm20", {23: 1}, default=True, ops=("gemm",)), rules=rules) == [
        ("lane-not-admitted", "error")
    ]


def test_declared_lanes_are_checked_at_depth_toc(build: Maker, settings: Settings) -> None:
    shards = []
    for target, flavor in (("gfx942", "llvm22"), ("gfx950", "llvm23")):
        shard = build(target)
        shard.rocke(target, llvm_flavor=flavor)
        shards.append(str(shard.root))
    report = inspect(shards, settings)
    mixed = only(report, "lane-mixed")
    assert mixed.severity is Severity.ERROR
    assert "llvm22: gfx942; llvm23: gfx950" in mixed.message
    assert {b.bundle.key.name: b.lane_name for b in report.bundles} == {
        "gfx942": "llvm22",
        "gfx950": "llvm23",
    }
    allowed = replace(settings, policy=Policy(lanes=LaneRules(mixes=(frozenset(("llvm22", "llvm23")),))))
    assert inspect(shards, allowed).findings == ()


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        ("llvm20", None),
        ("llvm22", None),
        ("llvm23", "a lane not above the bundle's own, llvm22, found 'llvm23'"),
        ("llvm99", "one of llvm20, llvm22, llvm23, llvm24, found 'llvm99'"),
        (22, "one of llvm20, llvm22, llvm23, llvm24, found 22"),
        (None, "one of llvm20, llvm22, llvm23, llvm24, found None"),
        ("", "one of llvm20, llvm22, llvm23, llvm24, found ''"),
    ],
)
def test_a_minimum_lane_is_known_and_not_above_the_bundles_own(
    build: Maker, settings: Settings, minimum: object, expected: str | None
) -> None:
    shard = build("gfx942")
    path = shard.rocke("gfx942") / "rocke_client_gfx942.json"
    document = json.loads(path.read_text())
    document["entries"][1]["compile_spec"] = {"minimum_llvm_flavor": minimum}
    path.write_text(json.dumps(document))
    report = inspect([str(shard.root)], settings)
    if expected is None:
        assert report.findings == ()
    else:
        at = "$.entries[1].compile_spec.minimum_llvm_flavor"
        assert only(report, "manifest-invalid").message == f"{at}: expected {expected}"


def test_C1_a_packers_defaults_are_no_claim(build: Maker, settings: Settings) -> None:
    from kpacktools.hookspecs import Depth

    shard, other = build("gfx942"), build("gfx950")
    shard.rocke("gfx942", engine_build_id="unknown", llvm_flavor="llvm20")
    other.rocke("gfx950", llvm_flavor="llvm23")
    report = inspect([str(shard.root), str(other.root)], replace(settings, depth=Depth.CONTENT))
    assert names(report) == {"provenance-unknown"}


def test_C3_builds_that_differ_are_named(build: Maker, settings: Settings) -> None:
    shards = []
    for target, number in (("gfx942", "X"), ("gfx950", "X"), ("gfx1201", "Y")):
        shard = build(target)
        shard.rocke(target, engine_build_id=number)
        shards.append(str(shard.root))
    found = only(inspect(shards, settings), "provenance-mixed")
    assert "X: gfx942, gfx950; Y: gfx1201" in found.message
    assert found.severity is Severity.WARNING


POLICY = """\
[lanes]
default = "llvm22"
mix = [["llvm22", "llvm23"]]
[lanes.keys]
gfx1250 = "llvm23"
[admits]
gemm = ["llvm22"]
[admits.hipdnn]
sdpa_fwd = ["llvm22", "llvm23"]
"""


def test_lanes_in_a_policy_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    rules = load_policy(str(path)).lanes
    assert rules == LaneRules(
        default="llvm22",
        keys={"gfx1250": "llvm23"},
        mixes=(frozenset(("llvm22", "llvm23")),),
        admits={"hipdnn": {"sdpa_fwd": ("llvm22", "llvm23")}, "any consumer": {"gemm": ("llvm22",)}},
    )
    path.write_text(POLICY.replace('"llvm22"]\n[admits.hip', '"llvm77"]\n[admits.hip'))
    with pytest.raises(CallError, match="no such lane: llvm77"):
        load_policy(str(path))
