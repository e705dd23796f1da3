"""Looking at the members of a wheel: each is read at most once, as far as the depth asks."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from kpacktools import codeobject
from kpacktools.checks.kernels import LOOSE
from kpacktools.checks.wheelread import Wheel
from kpacktools.hookspecs import Depth
from kpacktools.progress import Progress
from kpacktools.trees import Entry
from kpacktools.trees.wheel import WheelTree

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["HASHES", "Look", "kind_by_name", "looks_of"]

HASHES: Final = {"sha256": 43, "sha384": 64, "sha512": 86}
"""What RECORD may use -> characters of a digest in base64 without padding."""
_CHUNK_BYTES: Final = 4 << 20
_CHUNK_FILES: Final = 256


class Look(NamedTuple):
    """What reading a member brought."""

    kind: str | None = None
    """``kpack`` or ``code-object``; None for all that is no device code."""
    target: str | None = None
    """What a code object was built for."""
    digest: str | None = None
    """Base64 by the algorithm that RECORD uses for it; None where it was not read whole."""
    fault: str = ""
    """Why it cannot be read."""


def looks_of(
    wheel: Wheel, depth: Depth, executor: ThreadPoolExecutor, progress: Progress, cache: Cache | None
) -> dict[str, Look]:
    """What members are, by an earlier run where the wheel is known to be the same."""
    if wheel.tree.is_partial and depth == Depth.TOC:
        # Reading members would fetch most of the wheel: they are what their names say, until depth content.
        return {path: Look(kind_by_name(path)) for path in wheel.tree.members}
    identity = wheel.tree.source_identity
    if cache is None or identity is None or depth < Depth.TOC:
        return _look_at_members(wheel, depth, executor, progress)
    known: dict[str, Look] | None = cache.get_value("looks", dict[str, Look], identity, depth.name)
    if known is not None and known.keys() == wheel.tree.members.keys():
        return {path: known[path] for path in wheel.tree.members}
    looks = _look_at_members(wheel, depth, executor, progress)
    if not any(look.fault for look in looks.values()):
        cache.put_value("looks", looks, identity, depth.name)
    return looks


def _look_at_members(
    wheel: Wheel, depth: Depth, executor: ThreadPoolExecutor, progress: Progress
) -> dict[str, Look]:
    """Read members as far as the depth asks; none at depth layout."""
    if depth < Depth.TOC:
        return {}
    algorithms = {row.path: row.digest.partition("=")[0] for row in wheel.rows or ()}
    chunks: list[list[Entry]] = [[]]
    size = 0
    for entry in wheel.tree.members.values():
        if size >= _CHUNK_BYTES or len(chunks[-1]) >= _CHUNK_FILES:
            chunks.append([])
            size = 0
        chunks[-1].append(entry)
        size += entry.size

    def look(chunk: Sequence[Entry]) -> list[Look]:
        return [_look_at(wheel.tree, entry.path, algorithms.get(entry.path), depth) for entry in chunk]

    looks: dict[str, Look] = {}
    for chunk, results in zip(chunks, executor.map(look, chunks), strict=True):
        looks.update(zip((entry.path for entry in chunk), results, strict=True))
        progress.advance(files=len(chunk), size=sum(entry.size for entry in chunk))
    return looks


def _look_at(tree: WheelTree, path: str, algorithm: str | None, depth: Depth) -> Look:
    digest = hashlib.new(algorithm if algorithm in HASHES else "sha256")
    head = b""
    whole = depth >= Depth.CONTENT
    try:
        for block in tree.blocks(path):
            head = head or block[: codeobject.HEAD_SIZE]
            if whole:
                digest.update(block)
            elif tree.is_stored(path):
                break
    except OSError as error:
        return Look(fault=str(error.strerror))
    header = codeobject.probe(head)
    encoded = urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() if whole else None
    return Look(codeobject.kind(head), None if header is None else header.target_id, encoded)


def kind_by_name(path: str) -> str | None:
    """What a member's name says that it is, as in :class:`Look`."""
    if path.endswith(".kpack"):
        return "kpack"
    return "code-object" if path.endswith(LOOSE) else None
