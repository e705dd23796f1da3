"""Names that a table of contents gives twice: MessagePack allows it, and a decoder keeps the last, without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

__all__ = ["repeated_name"]

_KERNEL_FIELD: Final = b"original_size"
"""A name that every kernel has, and hardly anything else: the longer it is, the faster it is counted."""


class _Name:
    """A name that is equal to no other one, so that a mapping keeps them all."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _as_name(_: type, value: Any) -> _Name:
    return _Name(value)


class _Kernels(msgspec.Struct):
    toc: dict[_Name, dict[_Name, msgspec.Raw]]


_FIELDS: Final = msgspec.msgpack.Decoder(dict[_Name, msgspec.Raw], dec_hook=_as_name)
_KERNELS: Final = msgspec.msgpack.Decoder(_Kernels, dec_hook=_as_name)


def repeated_name(data: bytes, kernels: int) -> str | None:
    """The first name that ``data``, a TOC that was decoded to so many kernels, gives twice: of a field, of a TOC key,
    or of a target below one. None where there is none.

    Nothing was lost where the field that every kernel has is there as often as there are kernels. Only where it is
    there more often, which the producer's own metadata may also bring about, the TOC is gone through again.

    Raises :class:`msgspec.DecodeError` for a name that is no text.
    """
    if data.count(_KERNEL_FIELD) == kernels:
        return None
    return next(_repeated(data), None)


def _repeated(data: bytes) -> Iterator[str]:
    yield from _twice(_FIELDS.decode(data))
    toc = _KERNELS.decode(data).toc
    yield from _twice(toc)
    for key, targets in toc.items():
        for target in _twice(targets):
            yield f"{target} below {key.text}"


def _twice(names: Mapping[_Name, object]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            yield name.text
        seen.add(name.text)
