"""Manifests as typed values: decoded and validated by msgspec in one pass, several times faster than a schema alone.

The types stand beside the JSON Schemas and refuse whatever these refuse; what a type refuses, its schema decides and
explains. So a type may be narrower than its schema and never wider, which ``tests/test_manifests.py`` holds them to.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec

__all__ = ["Object", "Sha256", "Size", "Text", "are_digests", "decoded", "fitted"]

T = TypeVar("T")

Text = Annotated[str, msgspec.Meta(min_length=1)]
Size = Annotated[int, msgspec.Meta(ge=0)]
_DIGITS: Final = 64
Sha256 = Annotated[str, msgspec.Meta(min_length=_DIGITS, max_length=_DIGITS)]
"""Sixty-four characters; :func:`are_digests` says of many at once whether they are hexadecimal."""


class Object(msgspec.Struct, frozen=True, gc=False):
    """A JSON object that is the engine's own affair: skipped, once its syntax was seen."""


def are_digests(digests: list[str]) -> bool:
    """Whether all, of 64 characters each, are lower-case hexadecimal.

    >>> are_digests(["0a" * 32, "ff" * 32]), are_digests(["0A" * 32]), are_digests([" " * 64])
    (True, False, False)
    """
    digits = "".join(digests)
    try:
        return bytes.fromhex(digits).hex() == digits
    except ValueError:
        return False


def decoded(data: bytes, kind: type[T]) -> T | None:
    """A JSON document as a value of a msgspec type; None where it is none, for whatever reason."""
    try:
        # msgspec does not look into the strings that it skips.
        return msgspec.json.decode(data if data.isascii() else data.decode("utf-8"), type=kind)
    except (ValueError, RecursionError):  # DecodeError and UnicodeDecodeError are ValueErrors
        return None


def fitted(document: object, kind: type[T]) -> T:
    """A document that its schema accepted as a value of a msgspec type.

    Raises :class:`ValueError` where the type is narrower than the schema in a way that matters.
    """
    # Not strict: a schema takes 8.0 for an integer.
    return msgspec.convert(document, kind, strict=False)
