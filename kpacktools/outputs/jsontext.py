"""JSON documents that end in a very long list, made piece by piece.

The list's items are never all in memory, neither as objects nor as text. msgspec makes the text, because the standard
library's encoder is thirty times slower as soon as it indents.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

__all__ = ["document_text", "encoded_items"]

_AT_ONCE: Final = 256
"""Items that are made before they become text."""


def document_text(head: Mapping[str, Any], name: str, items: Iterable[Any]) -> bytes:
    """A document, indented by one, whose last key is ``name``: that of a list. As ``json.dumps(indent=1)`` would
    write it, with a line feed at the end.

    >>> print(document_text({"version": 1}, "links", ["a", "b"]).decode(), end="")
    {
     "version": 1,
     "links": [
      "a",
      "b"
     ]
    }
    """
    text = io.BytesIO()  # which hands out what it holds without a copy
    text.write(msgspec.json.format(msgspec.json.encode({**head, name: []}), indent=1)[: -len(b"]\n}")])
    between, end = b"", b"]\n}\n"
    for chunk in _chunks(items):
        # "[\n item,\n item\n]": the brackets go, and each line is one level deeper.
        lines = msgspec.json.format(msgspec.json.encode(chunk), indent=1)[1:-2]
        text.write(between + lines.replace(b"\n", b"\n "))
        between, end = b",", b"\n ]\n}\n"
    text.write(end)
    return text.getvalue()


def encoded_items(items: Iterable[Any]) -> Iterator[bytes]:
    """The items of a list as compact JSON with sorted keys, in pieces that need a comma between them."""
    for chunk in _chunks(items):
        yield msgspec.json.encode(chunk, order="sorted")[1:-1]


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, _AT_ONCE)):
        yield chunk
