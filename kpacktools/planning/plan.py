"""The plan: which input file goes where, made before anything is written.

Planning is a pure function from claimed trees to these values; only :mod:`kpacktools.outputs` acts on them. A release
has hundreds of thousands of files in far fewer folders, nearly all of which go where their neighbours go: a plan is
made of groups of such neighbours.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import NamedTuple

from msgspec import Struct

from kpacktools.trees import Entry, Tree

__all__ = ["PlannedFile", "PlannedFolder", "PlannedGroup", "in_order"]


class PlannedFile(NamedTuple):
    """One file or link of an output and where its bytes come from (a tuple: there are very many)."""

    dest: str
    """POSIX path relative to the output folder."""
    tree: Tree
    entry: Entry


class PlannedGroup(NamedTuple):
    """Files and links of one tree that go to one folder of an output."""

    folder: str
    """Path of that folder, relative to the output folder; empty for the output folder itself."""
    names: Sequence[str]
    """The files' names in that folder, sorted."""
    tree: Tree
    entries: Sequence[Entry]
    """What each of them is in the tree, in the order of ``names``."""

    @property
    def prefix(self) -> str:
        """What stands before each name in the file's path."""
        return f"{self.folder}/" if self.folder else ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum([entry.size for entry in self.entries])

    def part(self, start: int, stop: int) -> PlannedGroup:
        """Some neighbours of the group."""
        if start == 0 and stop >= len(self.names):
            return self
        return PlannedGroup(self.folder, self.names[start:stop], self.tree, self.entries[start:stop])

    def file(self, index: int) -> PlannedFile:
        """One of the files."""
        return PlannedFile(self.prefix + self.names[index], self.tree, self.entries[index])

    def files(self) -> Iterator[PlannedFile]:
        """Each of the files."""
        prefix, tree = self.prefix, self.tree
        for name, entry in zip(self.names, self.entries, strict=True):
            yield PlannedFile(prefix + name, tree, entry)


class PlannedFolder(Struct, frozen=True):
    """One output folder: an artifact directory, or (with ``manifest`` None) an install prefix."""

    name: str
    """The folder's name below OUT; empty where OUT itself is the folder (``--flatten``)."""
    key: str
    """Target key of the part, or ``generic``."""
    groups: tuple[PlannedGroup, ...]
    """None is empty; one after the other they have all files sorted by their paths, of which no two are the same."""
    prefixes: tuple[str, ...] | None
    """Stage prefixes for ``artifact_manifest.txt``, in order; None where no manifest is written."""

    @classmethod
    def of(
        cls, name: str, key: str, files: Iterable[PlannedFile], prefixes: tuple[str, ...] | None
    ) -> PlannedFolder:
        """A folder of single files, which are sorted by ``dest``."""
        return cls(name, key, tuple(_grouped(files)), prefixes)

    @property
    def files(self) -> Iterator[PlannedFile]:
        """Each file, sorted by ``dest``; made as they are asked for, once for each time that this is read."""
        for group in self.groups:
            yield from group.files()

    @property
    def count(self) -> int:
        """The number of files."""
        return sum([len(group.names) for group in self.groups])

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum([group.size for group in self.groups])

    @property
    def manifest(self) -> bytes | None:
        """The bytes of ``artifact_manifest.txt``: one stage prefix a line (TheRock's format)."""
        if self.prefixes is None:
            return None
        return "".join(prefix + "\n" for prefix in self.prefixes).encode()


def _grouped(files: Iterable[PlannedFile]) -> Iterator[PlannedGroup]:
    for (folder, _), group in groupby(files, key=lambda file: (file.dest.rpartition("/")[0], id(file.tree))):
        neighbours = tuple(group)
        # (a destination that begins with a slash is no path inside, and does not become one)
        cut = len(folder) + 1 if folder else 0
        yield PlannedGroup(
            folder,
            [file.dest[cut:] for file in neighbours],
            neighbours[0].tree,
            [file.entry for file in neighbours],
        )


def in_order(groups: Iterable[PlannedGroup]) -> Iterator[PlannedGroup]:
    """The same files in groups that follow each other in the order of paths.

    A folder's files may come before, between and behind those of the folders in it; groups are cut where that is so.
    """
    number = count()  # two groups never compare themselves
    pending = [
        (group.prefix + group.names[0], next(number), 0, len(group.names), group)
        for group in groups
        if group.names
    ]
    heapq.heapify(pending)
    while pending:
        _, _, start, stop, group = heapq.heappop(pending)
        prefix, names = group.prefix, group.names
        end = stop
        if pending and prefix + names[stop - 1] > pending[0][0]:
            # What lies between two paths of one folder begins like them.
            end = bisect_left(names, pending[0][0][len(prefix) :], start + 1, stop)
            if end < stop:
                heapq.heappush(pending, (prefix + names[end], next(number), end, stop, group))
        yield group.part(start, end)
