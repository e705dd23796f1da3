"""What manifests say, compared with what is there: shared by handlers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from kpacktools import manifests
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Bundle, Content

__all__ = ["kernel_differences", "local_reference", "manifest_problems", "some"]

_NAMED_AT_MOST: Final = 3


def manifest_problems(
    content: Content, path: str, where: str, schema: str | None = None
) -> tuple[Any, list[Finding]]:
    """A JSON manifest and what is wrong with it; the document is None where it cannot be used.

    ``schema`` is the name of one of :mod:`kpacktools.manifests`' schemas; without one, only the JSON is read.
    """
    try:
        document = content.json(path)
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        return None, [
            finding("manifest-invalid", where, f"cannot be read: {message}", "expected JSON in UTF-8")
        ]
    if schema is None:
        return document, []
    return checked_document(document, schema, where)


def checked_document(document: Any, schema: str, where: str, at: str = "") -> tuple[Any, list[Finding]]:
    """The document, or None where it does not follow ``schema``, and the findings that say why."""
    problems = manifests.problems(schema, document)
    found = [
        finding(
            "manifest-invalid",
            where,
            f"{at + problem.path.removeprefix('$') if at else problem.path}: expected {problem.expected}, "
            f"found {problem.found}",
        )
        for problem in problems
    ]
    return (None if problems else document), found


def local_reference(bundle: Bundle, manifest: str, reference: str, found: list[Finding]) -> str | None:
    """The tree path that a manifest's relative reference names, inside its own target folder.

    References are relative to the manifest's folder and may climb, but not out of the target's folder. None,
    with a ``bad-path`` in ``found``, where the reference is absolute, has a backslash or control character, or
    leaves the folder.
    """
    root = next(r for r in bundle.roots if manifest == r or manifest.startswith(r + "/"))
    problem = ""
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(manifest), reference))
    if reference.startswith("/") or re.match(r"[A-Za-z]:", reference):
        problem = "is absolute"
    elif re.search("[\\\\\x00-\x1f\x7f]", reference):
        problem = "holds a backslash or control character"
    elif not resolved.startswith(root + "/"):
        problem = "leads out of the target's folder"
    if problem:
        found.append(
            finding(
                "bad-path",
                bundle.artifact.where(manifest),
                f"names {reference!r}, which {problem}",
                f"expected a path below {bundle.artifact.where(root)}, with / between folders",
            )
        )
        return None
    return resolved


def kernel_differences(
    bundle: Bundle, content: Content, archive: str, named: Collection[str]
) -> Iterator[Finding]:
    """``missing-kernel`` and ``orphan-kernel``: the keys that manifests name against the archive's TOC."""
    toc = content.kpacks.get(archive)
    if toc is None:
        return
    where = bundle.artifact.where(archive)
    held = set(toc.kernels)
    wanted = set(named)
    missing = sorted(wanted - held)
    orphans = sorted(held - wanted)
    if missing:
        yield finding(
            "missing-kernel",
            where,
            f"lacks {counted(len(missing), 'kernel')} that its manifest names: {some(missing)}",
            "pack the bundle again, archive and manifest from one run",
        )
    if orphans:
        yield finding(
            "orphan-kernel",
            where,
            f"holds {counted(len(orphans), 'kernel')} that no manifest names and nothing will load: {some(orphans)}",
            "pack the bundle again, archive and manifest from one run",
        )


def some(items: list[str]) -> str:
    """The first few of a list for a message, and how many there are besides."""
    more = f", and {len(items) - _NAMED_AT_MOST} more" if len(items) > _NAMED_AT_MOST else ""
    return ", ".join(items[:_NAMED_AT_MOST]) + more
