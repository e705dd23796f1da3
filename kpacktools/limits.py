"""How much may come out of what is compressed. The limits protect the machine, and so its environment sets them."""

from __future__ import annotations

import os
from typing import Final

from kpacktools.errors import CallError
from kpacktools.sizes import parse_size

__all__ = ["FREE_SIZE", "VARIABLES", "allowed", "max_ratio", "max_size", "too_dense", "too_large"]

MAX_SIZE: Final = 64 << 30
"""Bytes that one archive or wheel may unpack to; a whole ROCm release has about half of it."""
FREE_SIZE: Final = 64 << 20
"""Bytes up to which no ratio is suspicious."""

_SIZE: Final = "KPACKTOOLS_MAX_UNPACKED"
_RATIO: Final = "KPACKTOOLS_MAX_RATIO"
VARIABLES: Final = (_SIZE, _RATIO)
"""Of the environment, on which findings depend (see docs/security.md)."""


def max_size() -> int:
    """Bytes that one archive or wheel may unpack to: ``KPACKTOOLS_MAX_UNPACKED``, such as ``100GiB``.

    Raises :class:`~kpacktools.errors.CallError` for a value that is no size.
    """
    given = os.environ.get(_SIZE, "")
    return parse_size(_SIZE, given) if given else MAX_SIZE


def max_ratio(default: int) -> int:
    """Bytes that one archive or wheel may unpack to for each of its own: ``KPACKTOOLS_MAX_RATIO``.

    Raises :class:`~kpacktools.errors.CallError` for a value that is no number.
    """
    given = os.environ.get(_RATIO, "")
    if given and not (given.isascii() and given.isdigit() and len(given) <= 9):
        raise CallError(f"{_RATIO} {given}: expected a number such as {default}")
    return int(given) if given else default


def allowed() -> str:
    """The limits as text: what was found under other ones may not hold under these."""
    return f"{max_size()} {max_ratio(0)}"


def too_large(limit: int) -> str:
    """What is said of something that unpacks to more bytes than the limit."""
    return f"unpacks to more than {limit:,} bytes; {_SIZE} can allow more"


def too_dense(packed: int, limit: int) -> str:
    """What is said of so many bytes that unpack to too many."""
    return f"{packed:,} bytes unpack to more than {limit:,} times as many; {_RATIO} can allow more"
