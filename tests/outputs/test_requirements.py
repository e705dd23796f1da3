"""Pins go by the parser; nothing that it would spell otherwise, or refuse, may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement

from kpacktools.outputs.requirements import normal_requirement, required_name

PINS = (
    "rocm==7",
    "rocm-sdk-core==7.15.0",
    "rocm-sdk-device-gfx942==1!7.15.0rc1.post2.dev3+gfx942.main",
    "rocm-sdk-core~=7.15",
)
OTHERS = (
    "numpy>=1.26,<3",
    "Rocm_SDK==7",
    "a ; sys_platform == 'linux'",
    "a[b]==1",
    "a@https://example.org/a.whl",
)
NONE = ("", "a=", "a==", "a~=7", "a~=7.1+local", "-a==1", "a-==1", "a==1..2", "a==1 2", "a b")


@pytest.mark.parametrize("text", [*PINS, *OTHERS])
def test_a_requirement_is_spelled_as_packaging_spells_it(text: str) -> None:
    assert normal_requirement(text) == str(Requirement(text))
    assert required_name(text) == Requirement(text).name.lower().replace("_", "-")


@pytest.mark.parametrize("text", NONE)
def test_what_packaging_refuses_is_refused(text: str) -> None:
    for read in (normal_requirement, required_name):
        with pytest.raises(ValueError, match=r"."):
            read(text)


@given(st.from_regex(r"[a-z0-9-]{1,4}(==|~=)[0-9a-z.+!]{1,6}", fullmatch=True))
def test_pins_are_requirements(text: str) -> None:
    try:
        expected = str(Requirement(text))
    except InvalidRequirement:
        with pytest.raises(ValueError, match=r"."):
            normal_requirement(text)
    else:
        assert normal_requirement(text) == expected
