"""Text from outside, made safe to show: what a terminal would obey and what UTF-8 cannot hold is spelled out."""

from __future__ import annotations

from typing import Final

__all__ = ["clean", "human_size"]

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 10}
# Marks that turn the direction of text: with them a name can look like another one.
_DIRECTIONS: Final = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
# A byte of a file name that is no UTF-8 arrives as a lone surrogate (PEP 383).
_BYTES: Final = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}
_SURROGATES: Final = {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_SPELLED: Final = _CONTROL | _DIRECTIONS | _SURROGATES | _BYTES


def clean(text: str) -> str:
    """Text with control characters (other than line ends), direction marks and undecodable bytes spelled out."""
    return text.translate(_SPELLED)


def human_size(size: int) -> str:
    """A size in bytes for people: ``4.6 KB``, powers of 1000."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
