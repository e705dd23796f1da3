"""Long documents are made in pieces, and are the same as if made at once."""

from __future__ import annotations

import json

import msgspec
import pytest

from kpacktools.outputs import jsontext
from kpacktools.outputs.jsontext import document_text, encoded_items

ITEMS = [{"b": f'"{number}\\\n\u00e9', "a": [{"x": []}, {}, number]} for number in range(7)]


@pytest.fixture(autouse=True)
def chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "_AT_ONCE", 3)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_a_document_is_what_it_would_be_at_once(count: int) -> None:
    head = {"version": 1, "nested": {"empty": [], "text": "]\n}"}}
    document = {**head, "items": ITEMS[:count]}
    expected = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    assert document_text(head, "items", iter(ITEMS[:count])) == expected
    assert expected.decode() == json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_encoded_items_are_those_of_the_list(count: int) -> None:
    expected = msgspec.json.encode(ITEMS[:count], order="sorted")
    assert b"[" + b",".join(encoded_items(ITEMS[:count])) + b"]" == expected
