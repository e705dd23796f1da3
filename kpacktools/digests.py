"""sha256 of files, computed once each and on several cores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kpacktools.errors import CallError
from kpacktools.trees import Tree
from kpacktools.trees.access import Distant, open_whole

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["digest_of", "digests_of", "known_digest"]

_CHUNK: Final = 1 << 20


def digest_of(tree: Tree, path: str) -> str:
    """The sha256 of one file in hexadecimal.

    Raises :class:`~kpacktools.errors.CallError` when the file cannot be read.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    try:
        with open_whole(tree, path) as stream:
            while count := stream.readinto(buffer):  # type: ignore[attr-defined]
                digest.update(buffer[:count])
    except OSError as error:
        raise CallError(f"cannot read {os.path.join(tree.label, path)}: {error.strerror}") from error
    return digest.hexdigest()


def digests_of(
    files: Iterable[tuple[Tree, str]], digest_all: Callable[[Sequence[tuple[Tree, str]]], Iterable[str]]
) -> Mapping[tuple[int, str], str]:
    """(``id`` of the tree, path) -> sha256, reading files that are hard links of one another once.

    ``digest_all`` computes what :func:`known_digest` does, of many files. Raises what it raises.
    """
    unique: dict[tuple[int, str], tuple[Tree, str]] = {}
    same: dict[tuple[int, int], tuple[int, str]] = {}
    alias: dict[tuple[int, str], tuple[int, str]] = {}
    for tree, path in files:
        name = (id(tree), path)
        local = tree.local_path(path)
        first = name
        if local is not None:
            try:
                status = os.stat(local)
            except OSError as error:
                raise CallError(f"cannot read {local}: {error.strerror}") from error
            first = same.setdefault((status.st_dev, status.st_ino), name)
        alias[name] = first
        unique.setdefault(first, (tree, path))
    order = list(unique)
    results = digest_all([unique[name] for name in order]) if order else ()
    known = dict(zip(order, results, strict=True))
    return {name: known[first] for name, first in alias.items()}


def known_digest(tree: Tree, path: str, cache: Cache | None = None) -> str:
    """What :func:`digest_of` does, without reading a file whose store tells it from any other and that ``cache``
    knows."""
    identity = tree.identity(path) if cache is not None and isinstance(tree, Distant) else None
    if cache is None or identity is None:
        return digest_of(tree, path)
    known = cache.get("sha256", identity)
    if known is None:
        known = digest_of(tree, path).encode()
        cache.put("sha256", identity, data=known)
    return known.decode("ascii")
