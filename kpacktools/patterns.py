"""Ant's path patterns: ``?`` one character, ``*`` any within one component, ``**`` any number of components.

Source: Apache Ant manual, "Directory-based tasks, Patterns". A pattern that ends in ``/`` stands for everything
below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count

__all__ = ["matcher", "matches", "matches_any", "may_meet"]


@lru_cache(maxsize=1024)
def _expression(pattern: str, number: int = 0) -> str:
    """A regular expression for a pattern; ``number`` makes the names of its groups its own."""
    names = (f"g{number}_{group}" for group in count())
    segments: list[list[str]] = [[]]
    for part in _parts(pattern):
        if part == "**":
            segments.append([])
        else:
            segments[-1].append(_component(part, names))
    first, *others = segments
    middle = [segment for segment in others if segment]
    if not others:
        return "/".join(first)
    if others[-1]:
        end = ""
    elif middle:
        end = "(?:/.*)?"  # a/** also stands for a itself
    else:
        return "/".join(first) + "(?:/.*)?" if first else ".*"
    *middle, last = middle
    expression = "".join(f"{component}/" for component in first)
    for segment in middle:
        expression += _first("(?:[^/]+/)*?" + "".join(f"{component}/" for component in segment), names)
    return f"{expression}(?:[^/]+/)*{'/'.join(last)}{end}"


def _component(part: str, names: Iterator[str]) -> str:
    first, *others = (
        "".join("[^/]" if character == "?" else re.escape(character) for character in text)
        for text in re.split(r"\*+", part)
    )
    if not others:
        return first
    *middle, last = others
    return first + "".join(_first(f"[^/]*?{text}", names) for text in middle) + f"[^/]*{last}"


def _first(expression: str, names: Iterator[str]) -> str:
    """The first match of an expression, for good.

    Of several wildcards each but the last may stop at the first place that fits: no later one serves what follows
    better. Trying them all would take a time that every further wildcard multiplies. (An atomic group, which Python
    3.10 does not have.)
    """
    name = next(names)
    return f"(?=(?P<{name}>{expression}))(?P={name})"


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
    for number, pattern in enumerate(patterns):
        if "*" in pattern or "?" in pattern or pattern.endswith("/"):
            expressions.append(f"(?:{_expression(pattern, number)})")
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
    return _in_common(left, right, "**", _names_meet)


@lru_cache(maxsize=4096)
def _names_meet(left: str, right: str) -> bool:
    """The same for the characters of one component, ``*`` being any number of them."""
    return _in_common(left, right, "*", lambda mine, theirs: mine == theirs or "?" in (mine, theirs))


def _in_common(
    left: Sequence[str], right: Sequence[str], wildcard: str, same: Callable[[str, str], bool]
) -> bool:
    """Whether some sequence follows both; a ``wildcard`` stands for any number of items, also none."""
    # Positions in both that one sequence can lead to. A wildcard is passed over, or takes what the other side has.
    pending = [(0, 0)]
    seen = set(pending)
    while pending:
        mine, theirs = pending.pop()
        here, there = left[mine : mine + 1], right[theirs : theirs + 1]
        if not here and not there:
            return True
        steps = []
        if here and here[0] == wildcard:
            steps += [(mine + 1, theirs), (mine, theirs + 1)]
        if there and there[0] == wildcard:
            steps += [(mine, theirs + 1), (mine + 1, theirs)]
        if not steps and here and there and same(here[0], there[0]):
            steps = [(mine + 1, theirs + 1)]
        for step in steps:
            if step not in seen and step[0] <= len(left) and step[1] <= len(right):
                seen.add(step)
                pending.append(step)
    return False
