"""Targets: grammar, keys, families, owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpacktools.errors import CallError
from kpacktools.targets import TargetId, UnknownTargetError, default_targets, looks_like_target

TABLE = default_targets()
PROCESSORS = sorted(TABLE.processors)
features = st.lists(
    st.sampled_from(["sramecc", "xnack"]).flatmap(lambda name: st.sampled_from([name + "+", name + "-"])),
    unique_by=lambda feature: feature[:-1],
    max_size=2,
)


@given(st.sampled_from(PROCESSORS), features, st.sampled_from([":", "-"]))
def test_a_target_id_survives_both_spellings_in_any_order(
    processor: str, chosen: list[str], separator: str
) -> None:
    target = TargetId.parse(separator.join([processor, *chosen]))
    assert target.processor == processor
    assert target.features == tuple(sorted(chosen))
    assert TargetId.parse(str(target)) == target
    key = TABLE.key(separator.join([processor, *chosen]))
    assert (key.name, key.base) == (str(target), processor)


@given(st.text(max_size=30))
def test_other_text_is_an_unknown_target(text: str) -> None:
    if looks_like_target(text):
        return
    with pytest.raises(UnknownTargetError) as raised:
        TABLE.key(text)
    assert raised.value.name == text


@given(st.from_regex(r"\Agfx[0-9a-z:+_-]{1,20}\Z"))
def test_whatever_is_a_key_looks_like_a_target(text: str) -> None:
    try:
        key = TABLE.key(text)
    except UnknownTargetError:
        return
    assert looks_like_target(text)
    assert TABLE.key(key.name) == key


@pytest.mark.parametrize(
    "text", ["gfx942:xnack+:xnack-", "gfx942:", "gfx942:foo+", "gfx", "GFX942", " gfx942"]
)
def test_what_breaks_the_grammar_is_no_target_id(text: str) -> None:
    with pytest.raises(ValueError):
        TargetId.parse(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gfx942", True), ("gfx90a-xnack-", True), ("gfx17z", True), ("gfx12_0", True), ("gfx11-generic", True),
        ("GFX942", True), ("gfx942:xnack+", True), ("gfx942_tiled_attention", False), ("gfx", False),
        ("xgfx942", False), ("gfxlib", False), ("gfx942.d", False),
    ],
)  # fmt: skip
def test_what_a_person_would_read_as_a_target(name: str, expected: bool) -> None:
    assert looks_like_target(name) is expected


@pytest.mark.parametrize(
    ("text", "name", "base", "owner"),
    [
        ("gfx942", "gfx942", "gfx942", "gfx942"),
        ("gfx942-xnack+", "gfx942:xnack+", "gfx942", "gfx942"),
        ("gfx1250-strict", "gfx1250-strict", "gfx1250-strict", "gfx1250"),
        ("gfx11_0", "gfx110x", "gfx110x", "gfx110x"),
        ("gfx12_0", "gfx12_0", "gfx12_0", "gfx12_0"),
        ("gfx9-4-generic", "gfx9-4-generic", "gfx9-4-generic", "gfx9-4-generic"),
        ("gfx803", "gfx803", "gfx803", "gfx803"),
    ],
)
def test_keys_have_a_name_a_part_and_an_owner(text: str, name: str, base: str, owner: str) -> None:
    key = TABLE.key(text)
    assert (key.name, key.base, key.owner) == (name, base, owner)


@pytest.mark.parametrize(
    ("key", "target", "covered"),
    [
        ("gfx942", "gfx942", True), ("gfx942", "gfx942:xnack+", True), ("gfx942:xnack+", "gfx942", True),
        ("gfx942:xnack+", "gfx942:xnack-", False), ("gfx942", "gfx950", False), ("gfx11", "gfx1100", True),
        ("gfx11", "gfx11-generic", True), ("gfx110x", "gfx1150", False), ("gfx9_4", "gfx9-4-generic", True),
        ("gfx9", "gfx9-4-generic", True), ("gfx1100", "gfx11-generic", False), ("gfx1250-strict", "gfx1250", True),
        ("gfx1250", "gfx1250-strict", False), ("gfx942", "nonsense", False), ("gfx1100", "gfx11", False),
    ],
)  # fmt: skip
def test_what_may_lie_under_a_key(key: str, target: str, covered: bool) -> None:
    assert TABLE.covers(TABLE.key(key), target) is covered


@pytest.mark.parametrize(
    ("suffix", "targets"),
    [
        ("generic", set()),
        ("gfx942", {"gfx942"}),
        ("gfx942:xnack+", {"gfx942"}),
        ("gfx94X-dcgpu", {"gfx942"}),
        ("gfx1151-igpu", {"gfx1151"}),
        ("gfx110X-igpu", {"gfx1103"}),
        ("gfx12_0", {"gfx12_0", "gfx1200", "gfx1201"}),
    ],
)
def test_what_an_artifact_suffix_declares(suffix: str, targets: set[str]) -> None:
    assert TABLE.suffix_targets(suffix) == targets


def test_every_build_family_has_known_members() -> None:
    for members in TABLE.build_families.values():
        assert set(members) <= TABLE.processors


@pytest.mark.parametrize(
    ("device", "taken", "left"),
    [
        ("gfx942", ["gfx942", "gfx942:xnack+"], ["gfx950", "gfx9"]),
        ("gfx942:xnack+", ["gfx942:xnack+"], ["gfx942", "gfx942:xnack-"]),
        ("gfx1250", ["gfx1250"], ["gfx1250-strict", "gfx12"]),
        ("gfx11", ["gfx11"], ["gfx1100", "gfx110x"]),
        ("family:gfx11", ["gfx11", "gfx110x", "gfx1100", "gfx1151"], ["gfx1201", "gfx12"]),
        ("family:gfx11_0", ["gfx110x", "gfx1103"], ["gfx11", "gfx1150"]),
        ("family:gfx94X-dcgpu", ["gfx942", "gfx942:xnack-"], ["gfx950", "gfx9_4"]),
    ],
)
def test_a_device_filter_is_exact_unless_a_family_is_spelled(
    device: str, taken: list[str], left: list[str]
) -> None:
    wanted = TABLE.device(device)
    assert [name for name in (*taken, *left) if wanted.takes(TABLE.key(name))] == taken


@pytest.mark.parametrize("device", ["gfx17z", "family:gfx11q", "family:", "", "gfx94X-dcgpu"])
def test_B13_an_unknown_device_or_family_is_a_call_error_with_near_names(device: str) -> None:
    with pytest.raises(CallError):
        TABLE.device(device)
    with pytest.raises(CallError, match="family:gfx94X-dcgpu"):
        TABLE.device("gfx94X-dcgpu")
