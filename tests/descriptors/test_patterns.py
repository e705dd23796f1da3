"""Ant's patterns."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpacktools.patterns import matcher, matches, matches_any, may_meet

PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "*b", "?", "ab"])
PATTERNS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "aab"]), min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("lib/*.so", "lib/a.so", True),
        ("lib/*.so", "lib/b/a.so", False),
        ("lib/?.so", "lib/a.so", True),
        ("lib/?.so", "lib/ab.so", False),
        ("**/*.so", "a.so", True),
        ("**/*.so", "lib/x/a.so", True),
        ("**/include/**", "include/a.h", True),
        ("**/include/**", "x/include", True),
        ("lib/**/x/*", "lib/x/a", True),
        ("lib/", "lib/x/a", True),
        ("**", "lib/x/a", True),
        ("lib/[a].so", "lib/[a].so", True),
        ("lib/[a].so", "lib/a.so", False),
    ],
)
def test_patterns_mean_what_ants_manual_says(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def _follows(pattern: list[str], path: list[str]) -> bool:
    """What patterns mean, by trying everything."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_follows(pattern[1:], path[skipped:]) for skipped in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _follows(pattern[1:], path[1:])


@settings(max_examples=300, deadline=None)
@given(pattern=st.lists(PARTS | st.sampled_from(["a*b*", "*a*b", "*?*"]), min_size=1, max_size=6), path=PATHS)
def test_patterns_with_several_wildcards_mean_what_trying_everything_finds(
    pattern: list[str], path: str
) -> None:
    assert matches("/".join(pattern), path) is _follows(pattern, path.split("/"))


def test_patterns_with_many_wildcards_take_no_longer_for_each() -> None:
    assert not matches("*a" * 30 + "b", "a" * 250)
    assert not matches("**/*a/" * 30 + "b", "a/" * 250 + "c")
    assert not matcher(["*a" * 30 + "b", "*a" * 30 + "b", "**/*b*a/" * 9])("a" * 250)


def test_long_patterns_end_no_recursion() -> None:
    assert may_meet("a/" * 2000, "a/" * 2000)
    assert not may_meet("a" * 2000, "a" * 2000 + "b")


@given(patterns=st.lists(PATTERNS, max_size=3), path=PATHS)
def test_a_matcher_is_matches_any(patterns: list[str], path: str) -> None:
    assert matcher(patterns)(path) == matches_any(patterns, path)


@given(left=PATTERNS, right=PATTERNS, path=PATHS)
def test_patterns_that_share_a_path_may_meet(left: str, right: str, path: str) -> None:
    if matches(left, path) and matches(right, path):
        assert may_meet(left, right)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("bin/**", "**/*.so", True),
        ("bin/**", "share/**", False),
        ("bin/miopen_gtest*", "bin/**", True),
        ("bin/a*c", "bin/ab*", True),
        ("bin/a*c", "bin/*d", False),
        (".build-id/**/*.debug", "bin/**", False),
        ("a/**", "a", True),
        ("**/a/**", "b/**/c", True),
        ("?", "ab", False),
    ],
)
def test_patterns_meet_or_not(left: str, right: str, expected: bool) -> None:
    assert may_meet(left, right) is may_meet(right, left) is expected
