"""Code objects that AMD ships."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest
from real_wheels import ARCH_CONTENT, aiter_shards

from kpacktools.codeobject import HEAD_SIZE, CodeObjectError, kind, read, symbols

pytestmark = pytest.mark.real

TARGETS = ("gfx942", "gfx950")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Target -> AITER's code objects that lie under it."""
    shards = aiter_shards(tmp_path_factory.mktemp("shards"))
    folders = {
        target: shards / target / f"hipkernelprovider_lib_{target}" / ARCH_CONTENT / "aiter" / target
        for target in TARGETS
    }
    return {target: contents(folder) for target, folder in folders.items()}


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob("*.co"))]


@pytest.mark.parametrize("target", TARGETS)
def test_every_code_object_of_aiter_is_for_the_target_it_lies_under(
    target: str, objects: dict[str, list[bytes]]
) -> None:
    assert len(objects[target]) > 1000
    assert {kind(data[:HEAD_SIZE]) for data in objects[target]} == {"code-object"}
    codes = [read(data) for data in objects[target]]
    assert {code.header.target_id for code in codes} == {target}
    assert {code.target_id for code in codes} <= {target, None}  # nearly all leave it out


def test_every_code_object_of_aiter_has_one_kernel_which_is_a_symbol_too(
    objects: dict[str, list[bytes]],
) -> None:
    for target in TARGETS:
        for data in objects[target]:
            (found,) = read(data).kernels or ()
            assert found.symbol == f"{found.name}.kd"
            assert found.symbol in symbols(data)
            assert found.wavefront_size == 64
            assert found.explicit_args == found.args != ()


def test_aiter_names_its_linker_and_no_compiler(objects: dict[str, list[bytes]]) -> None:
    codes = [read(data) for target in TARGETS for data in objects[target]]
    assert Counter(code.tool for code in codes) == {
        "LLD 17.0.0": 14,
        "LLD 18.0.0": 1180,
        "LLD 19.0.0": 823,
        "LLD 20.0.0": 484,
    }
    assert {code.compiler for code in codes} == {None}
    assert {code.compiler_major for code in codes} == {17, 18, 19, 20}


def test_any_flipped_byte_of_a_real_object_ends_in_a_value_or_a_refusal(
    objects: dict[str, list[bytes]],
) -> None:
    data = min(objects["gfx942"], key=len)
    sections = len(data) - 64 * 14
    rng = random.Random(942)
    for position in [*range(2048), *range(sections, len(data)), *rng.sample(range(len(data)), 500)]:
        flipped = bytearray(data)
        flipped[position] ^= rng.randrange(1, 256)
        with contextlib.suppress(CodeObjectError):
            read(bytes(flipped))
        with contextlib.suppress(CodeObjectError):
            symbols(bytes(flipped))
