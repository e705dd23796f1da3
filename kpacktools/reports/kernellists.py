"""The kernels of a report's bundles, one row each: for the forms that list them.

The tables of contents are read once more, since holding every key of a release through a run would be too much for
the forms that do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kpacktools.checks.bundles import CheckedBundle, KpackSummary
from kpacktools.checks.kernels import LOOSE
from kpacktools.hookspecs import Bundle
from kpacktools.kpack import KpackError, read_toc
from kpacktools.trees import Entry, is_file

__all__ = ["LOOSE_SCHEME", "MOST_ROWS", "Container", "KernelLists", "KernelRow", "kernel_lists"]

MOST_ROWS: Final = 200_000
"""Rows of a report: about 20 MB, which a browser still opens at once."""
LOOSE_SCHEME: Final = "loose"


class Container(Struct, frozen=True):
    """A kpack, or the loose code objects of one bundle."""

    path: str
    """Of the archive, or of the bundle's folder."""
    engine: str
    keys: tuple[str, ...]
    """Target keys of the bundles that hold it; an archive on its own may have several."""
    kernels: int | None
    """None where nothing counted them."""
    size: int
    """Bytes, as stored."""
    scheme: str | None
    """The archive's compression; :data:`LOOSE_SCHEME` for files."""
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The archive's file name; ``loose files`` for those."""
        return "loose files" if self.scheme == LOOSE_SCHEME else os.path.basename(self.path)


class KernelRow(NamedTuple):
    """One kernel."""

    container: int
    """Index of its container."""
    key: str
    """TOC key, or a loose file's path below the bundle's folder."""
    target: str
    size: int
    """Bytes, decompressed."""


class KernelLists(Struct, frozen=True):
    """Every container, and the rows of as many kernels as a report may have."""

    containers: tuple[Container, ...]
    rows: tuple[KernelRow, ...]
    left_out: int = 0
    """Kernels without a row, as far as they were counted."""


def kernel_lists(bundles: Iterable[CheckedBundle], *, most: int = MOST_ROWS) -> KernelLists:
    """List the kernels of bundles, in the order of bundles, files and tables of contents.

    Archives whose kernels nobody counted (at depth layout, or damaged) are named without rows; so are containers
    that would make more than ``most`` rows. Reads the others' tables of contents; never raises for content.
    """
    sources: dict[str, _Source] = {}
    for source in (source for item in bundles for source in _sources(item)):
        path = source.container.path
        sources[path] = sources[path].joined(source.container) if path in sources else source
    rows: list[KernelRow] = []
    left_out = 0
    for index, source in enumerate(sources.values()):
        count = source.container.kernels or 0
        if len(rows) + count > most:
            left_out += count
        else:
            rows += (KernelRow(index, *kernel) for kernel in source.kernels())
    return KernelLists(tuple(source.container for source in sources.values()), tuple(rows), left_out)


class _Source(NamedTuple):
    """A container, and how to get its kernels as (key, target, bytes)."""

    container: Container
    kernels: Callable[[], Iterable[tuple[str, str, int]]]

    def joined(self, other: Container) -> _Source:
        """The same archive, as seen for one more of its targets."""
        mine = self.container
        kernels = None if mine.kernels is None or other.kernels is None else mine.kernels + other.kernels
        return self._replace(container=replace(mine, keys=(*mine.keys, *other.keys), kernels=kernels))


def _sources(item: CheckedBundle) -> Iterator[_Source]:
    bundle = item.bundle
    keys = (bundle.key.name,)
    for entry, kpack in zip(bundle.files(".kpack"), item.kpacks, strict=True):
        container = Container(
            kpack.path, bundle.engine, keys, kpack.kernels, kpack.size, kpack.scheme, kpack.sha256
        )
        yield _Source(container, partial(_archived, bundle, entry, kpack))
    loose = [entry for entry in bundle.files(*LOOSE) if is_file(entry)]
    if loose:
        size = sum(entry.size for entry in loose)
        container = Container(bundle.path, bundle.engine, keys, len(loose), size, LOOSE_SCHEME)
        yield _Source(container, partial(_loose, bundle, loose))


def _loose(bundle: Bundle, entries: Iterable[Entry]) -> Iterator[tuple[str, str, int]]:
    root = bundle.roots[0]
    for entry in entries:
        yield entry.path.removeprefix(f"{root}/"), bundle.key.name, entry.size


def _archived(bundle: Bundle, entry: Entry, kpack: KpackSummary) -> Iterator[tuple[str, str, int]]:
    if kpack.kernels is None:
        return
    try:
        with bundle.artifact.tree.open(entry.path) as stream:
            toc = read_toc(stream, entry.size)
    except (KpackError, OSError):
        return  # it was whole when it was checked: what changes under a run is not this report's to judge
    for key, target, kernel in toc.entries():
        yield key, target, kernel.original_size
