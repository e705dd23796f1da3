"""Code objects that AMD ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_wheels import ARCH_CONTENT, aiter_shards

from kpacktools.codeobject import HEAD_SIZE, kind, probe

pytestmark = pytest.mark.real


def test_every_code_object_of_aiter_is_for_the_target_it_lies_under(tmp_path: Path) -> None:
    shards = aiter_shards(tmp_path)
    for target in ("gfx942", "gfx950"):
        content = shards / target / f"hipkernelprovider_lib_{target}" / ARCH_CONTENT / "aiter" / target
        heads = [path.read_bytes()[:HEAD_SIZE] for path in content.rglob("*.co")]
        assert len(heads) > 1000
        assert {kind(head) for head in heads} == {"code-object"}
        assert {header.target_id for head in heads if (header := probe(head))} == {target}
