"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Final

from kpacktools.errors import CallError

__all__ = ["parse_size"]

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(option: str, text: str) -> int:
    """Bytes: ``100MB`` is 100,000,000, ``1MiB`` is 1,048,576, ``512`` is 512.

    Raises :class:`~kpacktools.errors.CallError`, which names ``option``.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise CallError(f"{option} {text}: expected a size such as 100MB, 1GiB or 1048576")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()])
