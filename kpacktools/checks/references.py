"""What manifests say, compared with what is there: shared by handlers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Set
from typing import Any, Final, TypeVar

from kpacktools import manifests
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Bundle, Content

__all__ = [
    "checked_document",
    "fitted_document",
    "kernel_differences",
    "local_reference",
    "read_manifest",
    "read_typed",
    "some",
    "typed_manifest",
]

T = TypeVar("T")

_NAMED_AT_MOST: Final = 3


def typed_manifest(content: Content, path: str, kind: type[T]) -> T | None:
    """A JSON manifest as one of :mod:`kpacktools.manifests`' types; None where it is none.

    Then :func:`read_manifest` says why, or takes it all the same: it is the one that decides.
    """
    from kpacktools.manifests.typed import decoded  # msgspec takes longer to import than all handlers

    try:
        return decoded(content.read(path), kind)
    except (OSError, ValueError):
        return None


def read_typed(
    bundle: Bundle, content: Content, path: str, schema: str, kind: type[T], found: list[Finding]
) -> T | None:
    """A JSON manifest that follows ``schema`` as a value of ``kind``; None, with a ``manifest-invalid`` in ``found``,
    where it does not."""
    manifest = typed_manifest(content, path, kind)
    if manifest is not None:
        return manifest
    document = read_manifest(bundle, content, path, found, schema)
    return None if document is None else fitted_document(document, kind, bundle.artifact.where(path), found)


def read_manifest(
    bundle: Bundle, content: Content, path: str, found: list[Finding], schema: str | None = None
) -> Any:
    """A JSON manifest; None, with a ``manifest-invalid`` in ``found``, where it cannot be used.

    ``schema`` is the name of one of :mod:`kpacktools.manifests`' schemas; without one, only the JSON is read.
    """
    where = bundle.artifact.where(path)
    try:
        document = content.json(path)
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        found.append(
            finding("manifest-invalid", where, f"cannot be read: {message}", "expected JSON in UTF-8")
        )
        return None
    return document if schema is None else checked_document(document, schema, where, found)


def checked_document(document: Any, schema: str, where: str, found: list[Finding], at: str = "$") -> Any:
    """The document, or None where it does not follow ``schema``: then ``found`` says why. ``at`` is its place in the
    file."""
    problems = manifests.problems(schema, document)
    for problem in problems:
        place = at + problem.path.removeprefix("$")
        found.append(
            finding("manifest-invalid", where, f"{place}: expected {problem.expected}, found {problem.found}")
        )
    return None if problems else document


def fitted_document(
    document: Any, kind: type[T], where: str, found: list[Finding], at: str = "$"
) -> T | None:
    """A document that its schema accepted, as one of :mod:`kpacktools.manifests`' types."""
    from kpacktools.manifests.typed import fitted

    try:
        return fitted(document, kind)
    except ValueError as error:
        found.append(finding("manifest-invalid", where, f"{at}: {error}"))
        return None


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


def kernel_differences(bundle: Bundle, content: Content, archive: str, named: Set[str]) -> Iterator[Finding]:
    """``missing-kernel`` and ``orphan-kernel``: the keys that manifests name against the archive's TOC."""
    toc = content.kpacks.get(archive)
    if toc is None:
        return
    where = bundle.artifact.where(archive)
    held = toc.kernels.keys()
    missing = sorted(named - held)
    orphans = sorted(held - named)
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
