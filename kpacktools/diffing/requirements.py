"""What the wheels of a set require, as their METADATA says."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from email.parser import BytesHeaderParser
from typing import Final

from msgspec import Struct

from kpacktools.findings import Finding, finding
from kpacktools.planning.selection import Input
from kpacktools.trees.wheel import WheelTree, distribution_of

__all__ = ["Distribution", "distributions"]

_MAX_METADATA: Final = 1 << 20
"""Bytes; the README is inside."""


class Distribution(Struct, frozen=True):
    """One distribution of a set, all of its wheels taken together."""

    name: str
    """Canonical."""
    versions: tuple[str, ...]
    requires: tuple[str, ...]
    """``Requires-Dist`` as written, sorted."""


def distributions(inputs: Iterable[Input]) -> tuple[tuple[Distribution, ...], tuple[Finding, ...]]:
    """The distributions of the wheels among the inputs by name, and a finding for each whose METADATA is not there
    or cannot be read."""
    versions: dict[str, set[str]] = {}
    requires: dict[str, set[str]] = {}
    found: list[Finding] = []
    for tree in _wheels(inputs):
        name = distribution_of(tree.label)
        try:
            metadata = _metadata(tree)
        except OSError as error:
            found.append(
                finding(
                    "archive-invalid",
                    tree.label,
                    f"its METADATA cannot be read: {error.strerror or error}",
                    "build the wheel again",
                )
            )
            continue
        parsed = BytesHeaderParser().parsebytes(metadata)
        versions.setdefault(name, set()).update(map(str, parsed.get_all("Version", ())))
        requires.setdefault(name, set()).update(map(str, parsed.get_all("Requires-Dist", ())))
    listed = (
        Distribution(n, tuple(sorted(versions[n])), tuple(sorted(requires[n]))) for n in sorted(versions)
    )
    return tuple(listed), tuple(found)


def _wheels(inputs: Iterable[Input]) -> Iterator[WheelTree]:
    for item in inputs:
        for claimed in item.artifacts:
            tree = claimed.artifact.tree
            # Of a wheel without members all that is wrong was found when it was opened.
            if isinstance(tree, WheelTree) and tree.members:
                yield tree


def _metadata(tree: WheelTree) -> bytes:
    """Raises :class:`OSError`."""
    paths = [path for path in tree.members if path.endswith(".dist-info/METADATA") and path.count("/") == 1]
    if len(paths) != 1:
        raise FileNotFoundError(errno.ENOENT, f"there are {len(paths)} of it")
    with tree.open(paths[0]) as stream:
        return stream.read(_MAX_METADATA)
