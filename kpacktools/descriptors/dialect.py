"""How TheRock's matcher reads a pattern: not always as Ant does.

``?`` is any number of characters of a component, ``**`` is special only with a slash beside it, and a slash at the end
stands for itself. Found in ROCm/TheRock's ``pattern_match.py`` (PyPI therock-tools 0.1.0), which the tests run.
"""

from __future__ import annotations

import re

__all__ = ["therock_pattern"]


def therock_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that is to match a whole path, as TheRock's matcher reads it."""
    parts: list[str] = []
    pending = pattern
    if pending.startswith("**/"):
        # It looks for /**/ first: one that shares its slash with the beginning counts, a third one does not.
        twice = pending.startswith("**/**/")
        parts = ["(?:.*/)?"] * (1 + twice)
        pending = pending[6 if twice else 3 :]
    special = {"/**/": "/(?:.*/)?", "/**": "(?:/.*)?", "*": "[^/]*", "?": "[^/]*"}
    for piece in re.split(r"(/\*\*/|/\*\*\Z|\*|\?)", pending):
        parts.append(special.get(piece, re.escape(piece)))
    return re.compile("".join(parts) + r"\Z")
