"""Ant's path patterns: ``?`` one character, ``*`` any within one component, ``**`` any number of components.

Source: Apache Ant manual, "Directory-based tasks, Patterns". A pattern that ends in ``/`` stands for everything
below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

__all__ = ["matcher", "matches", "matches_any", "may_meet"]


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> str:
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
    return expression


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_expression(pattern), re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """True where a relative POSIX path follows an Ant pattern.

    >>> matches("lib/**/*.so", "lib/a/b/x.so"), matches("lib/*.so", "lib/a/x.so")
    (True, False)
    """
    return _compiled(pattern).fullmatch(path) is not None


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """True where a path follows at least one of the patterns."""
    return any(matches(pattern, path) for pattern in patterns)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """:func:`matches_any` for many paths. False without patterns."""
    plain: set[str] = set()
    expressions = []
    for pattern in patterns:
        if "*" in pattern or "?" in pattern or pattern.endswith("/"):
            expressions.append(f"(?:{_expression(pattern)})")
        else:
            plain.add(pattern)
    if not expressions:
        return plain.__contains__
    whole = re.compile("|".join(expressions), re.DOTALL)
    return lambda path: path in plain or whole.fullmatch(path) is not None


def may_meet(left: str, right: str) -> bool:
    """True where some path follows both patterns.

    >>> may_meet("bin/**", "**/*.so"), may_meet("bin/**", "share/doc/**")
    (True, False)
    """
    return _meet(_parts(left), _parts(right))


def _parts(pattern: str) -> tuple[str, ...]:
    return tuple((pattern + "**" if pattern.endswith("/") else pattern).split("/"))


@lru_cache(maxsize=4096)
def _meet(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether two lists of components, ``**`` being any number of them, have a path in common."""
    if not left or not right:
        return all(part == "**" for part in left or right)
    if left[0] == "**":
        return _meet(left[1:], right) or _meet(left, right[1:])
    if right[0] == "**":
        return _meet(left, right[1:]) or _meet(left[1:], right)
    return _names_meet(left[0], right[0]) and _meet(left[1:], right[1:])


@lru_cache(maxsize=4096)
def _names_meet(left: str, right: str) -> bool:
    """The same for the characters of one component, ``*`` being any number of them."""
    if not left or not right:
        return set(left or right) <= {"*"}
    if left[0] == "*":
        return _names_meet(left[1:], right) or _names_meet(left, right[1:])
    if right[0] == "*":
        return _names_meet(left, right[1:]) or _names_meet(left[1:], right)
    return (left[0] == right[0] or "?" in (left[0], right[0])) and _names_meet(left[1:], right[1:])
