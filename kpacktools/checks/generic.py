"""Device code that would end up in the generic part, where nobody would look for it."""

from __future__ import annotations

from collections.abc import Iterator

from kpacktools import codeobject
from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Depth
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.trees import Entry, is_file, read_start
from kpacktools.trees.access import each

__all__ = ["check_generic"]

_SUFFIXES = {".kpack": "kpack", ".co": "code-object", ".hsaco": "code-object"}
_NOUNS = {"kpack": "a kpack", "code-object": "a code object"}


def check_generic(claimed: ClaimedArtifact, depth: Depth) -> Iterator[Finding]:
    """``device-code-in-generic``, and ``unclaimed-target-content`` where the folder is named like a target.

    At depth layout the file's name decides; from depth toc on the first 64 bytes of each file that would stay
    generic do.

    Raises :class:`~kpacktools.errors.CallError` when a file cannot be read.
    """
    artifact = claimed.artifact
    reported: set[str] = set()
    files = (
        (folder, entry)
        for folder, entries in artifact.tree.folders.items()
        for entry in claimed.generic(folder, entries)
        if is_file(entry)
    )

    def look(item: tuple[str, Entry]) -> tuple[str, Entry, str | None, str | None]:
        return (*item, *_look(claimed, item[1], depth))

    for folder, entry, kind, built_for in each(artifact.tree, look, files):
        if kind is None:
            continue
        root = claimed.named.get(folder)
        if root is None:
            yield _in_generic(claimed, folder, entry, kind, built_for)
        elif root not in reported:
            reported.add(root)
            yield finding(
                "unclaimed-target-content",
                artifact.where(root),
                f"is named like a target and holds {_NOUNS[kind]} ({entry.path[len(root) + 1 :]}), and no "
                "handler claims it",
                "install the engine's plugin, or move it under arch_content/<engine>/<target>/",
            )


def _look(claimed: ClaimedArtifact, entry: Entry, depth: Depth) -> tuple[str | None, str | None]:
    """What kind of device code a file is, and what it was built for; (None, None) for none."""
    if depth < Depth.TOC:
        _, dot, suffix = entry.path.rpartition(".")
        return _SUFFIXES.get(dot + suffix), None
    if entry.size < 16:
        return None, None
    try:
        head = read_start(claimed.artifact.tree, entry.path, codeobject.HEAD_SIZE)
    except OSError as error:
        raise CallError(f"cannot read {claimed.artifact.where(entry.path)}: {error.strerror}") from error
    header = codeobject.probe(head)
    return codeobject.kind(head), None if header is None else header.target_id


def _in_generic(
    claimed: ClaimedArtifact, folder: str, entry: Entry, kind: str, built_for: str | None
) -> Finding:
    container = claimed.containers.get(folder)
    what = _NOUNS[kind] + (f" for {built_for}" if built_for else "")
    if container is not None:
        place = claimed.artifact.where(container)
        return finding(
            "device-code-in-generic",
            claimed.artifact.where(entry.path),
            f"is {what} in an engine's folder, outside any target folder",
            f"it belongs under {place}/{built_for or '<target>'}/",
        )
    return finding(
        "device-code-in-generic",
        claimed.artifact.where(entry.path),
        f"is {what} that no handler claims; it would be installed on every machine",
        f"move it under arch_content/<engine>/{built_for or '<target>'}/, or install the engine's plugin",
    )
