"""Trees as tasks take them along: how to open them again, and nothing of what is in them.

A worker opens the same path once more. What has no path of its own that others can open (copies in a temporary
folder, say) cannot be taken along: a task that needs it runs on the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import BinaryIO

from kpacktools.outputs.members import GeneratedFiles, Source
from kpacktools.tasks.model import Place
from kpacktools.trees import Entry, Tree
from kpacktools.trees.archive import ArchiveTree, open_archive
from kpacktools.trees.directory import DirectoryTree, scan_directory
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import WheelTree, open_wheel

__all__ = ["Luggage", "forget", "portable"]

_KEPT = 4
"""Archives and wheels that a worker keeps open: each may have a spool on its disk."""


@dataclass(frozen=True, slots=True)
class Luggage:
    """A tree to take along, and what must be the same where it is opened."""

    tree: Tree
    needs: tuple[Place, ...]


@singledispatch
def portable(tree: Source) -> Luggage | None:
    """A tree that can be sent to other processes and gives the same files there; None where there is none.

    Raises :class:`OSError` where its files are gone.
    """
    return None


@portable.register
def _(tree: GeneratedFiles) -> Luggage | None:
    return Luggage(tree, ())  # type: ignore[arg-type]


@portable.register
def _(tree: DirectoryTree) -> Luggage | None:
    place = Place.of(tree.root)
    return Luggage(_Folder(tree.label, place.path), (place,))


@portable.register
def _(tree: ArchiveTree) -> Luggage | None:
    place = Place.of(tree.label)
    return Luggage(_Packed(tree.label, place.path, False), (place,))


@portable.register
def _(tree: WheelTree) -> Luggage | None:
    place = Place.of(tree.label)
    return Luggage(_Packed(tree.label, place.path, True), (place,))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A local directory by its absolute path; its label stays what the user wrote."""

    label: str
    root: str

    @property
    def folders(self) -> Mapping[str, Sequence[Entry]]:
        return scan_directory(self.root, label=self.label).folders

    def open(self, path: str) -> BinaryIO:
        return DirectoryTree(self.label, self.root, {}).open(path)

    def local_path(self, path: str) -> str:
        return f"{self.root}/{path}"


@dataclass(frozen=True, slots=True)
class _Packed:
    """An archive or a wheel, opened where the first of its files is asked for."""

    label: str
    path: str
    is_wheel: bool

    @property
    def folders(self) -> Mapping[str, Sequence[Entry]]:
        return _opened(self).folders

    def open(self, path: str) -> BinaryIO:
        try:
            return _opened(self).open(path)
        except OSError as error:
            # Messages name what the user wrote, wherever they come from.
            raise OSError(error.errno, (error.strerror or "").replace(self.path, self.label)) from error

    def local_path(self, path: str) -> None:
        return None


@lru_cache(maxsize=_KEPT)
def _opened(packed: _Packed) -> ArchiveTree | WheelTree:
    opened = open_wheel(packed.path, Spool()) if packed.is_wheel else open_archive(packed.path, Spool())
    return opened.tree


def forget() -> None:
    """Close what this process keeps open for tasks."""
    _opened.cache_clear()
