"""A kernel as one bytes object, its *record*: name, a NUL, and the 32 bytes of its sha256.

Sorted records are sorted by name, two sets of them are compared by what Python's sets do, and a release of hundreds
of thousands of kernels fits in memory.
"""

from __future__ import annotations

from typing import Final

__all__ = ["digest_of_record", "name_of_record", "record"]

_DIGEST: Final = 32
"""Bytes of a sha256."""


def record(name: str, digest: bytes) -> bytes:
    """A kernel's record; ``digest`` is its sha256 of 32 bytes.

    >>> record("k", bytes(32)) == b"k" + bytes(33)
    True
    """
    return name.encode("utf-8", "surrogateescape") + b"\0" + digest


def name_of_record(kernel: bytes) -> str:
    """The name in a record, printable where it is no UTF-8."""
    return kernel[: -_DIGEST - 1].decode("utf-8", "backslashreplace")


def digest_of_record(kernel: bytes) -> bytes:
    """The 32 bytes of sha256 in a record."""
    return kernel[-_DIGEST:]
