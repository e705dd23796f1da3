"""Ant's path patterns: ``?`` one character, ``*`` any within one component, ``**`` any number of components.

Source: Apache Ant manual, "Directory-based tasks, Patterns". A pattern that ends in ``/`` stands for everything
below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["matches", "matches_any"]


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("/"):
        pattern += "**"
    parts = pattern.split("/")
    expression = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
            continue
        for character in part:
            expression += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
        if not last:
            # a/** also stands for a itself
            rest = parts[index + 1 :]
            expression += "(?:/.*)?" if rest == ["**"] else "/"
            if rest == ["**"]:
                break
    return re.compile(expression, re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """True where a relative POSIX path follows an Ant pattern.

    >>> matches("lib/**/*.so", "lib/a/b/x.so"), matches("lib/*.so", "lib/a/x.so")
    (True, False)
    """
    return _compiled(pattern).fullmatch(path) is not None


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """True where a path follows at least one of the patterns."""
    return any(matches(pattern, path) for pattern in patterns)
