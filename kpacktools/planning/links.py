"""Links, followed on paper: where they lead in the union of what is installed over one prefix."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator

from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import prefix_of
from kpacktools.trees.shards import Artifact

__all__ = ["check_links", "resolve_link"]


def resolve_link(path: str, target: str) -> str | None:
    """Where a link at ``path`` leads, as a path in the same root; None where it leads out of it.

    Purely textual: nothing is looked up.

    >>> resolve_link("lib/libx.so", "libx.so.1")
    'lib/libx.so.1'
    """
    if target.startswith("/") or "\\" in target or "\0" in target or re.match(r"[A-Za-z]:", target):
        return None
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return None if resolved == ".." or resolved.startswith("../") else resolved


def check_links(artifact: Artifact, present: Collection[str], folders: Collection[str]) -> Iterator[Finding]:
    """``symlink-escape`` and ``symlink-dangling``.

    ``present`` and ``folders`` hold the paths, below their stage prefixes, of every file and folder of all
    inputs: a link of one part may lead into another that is installed over the same prefix.
    """
    for folder, entries in artifact.tree.folders.items():
        for entry in entries:
            if not entry.link:
                continue
            prefix = prefix_of(artifact, folder)
            below = entry.path if artifact.mount else entry.path[len(prefix or "") + 1 :]
            target = resolve_link(below, entry.link)
            where = artifact.where(entry.path)
            if target is None:
                yield finding(
                    "symlink-escape",
                    where,
                    f"leads out of its stage prefix, to {entry.link!r}",
                    "make it a relative link inside the prefix",
                )
            elif target not in present and target not in folders and target != ".":
                yield finding(
                    "symlink-dangling",
                    where,
                    f"leads to {entry.link!r}, which is in no input",
                    "expected where another package installs the file; else remove the link",
                )
