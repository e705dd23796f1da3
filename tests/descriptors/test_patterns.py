"""Ant's patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
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
