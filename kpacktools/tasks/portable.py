"""Trees as tasks take them along: how to open them again, and nothing of what is in them.

A worker opens the same path or URL once more. What has none that others can open (copies in a temporary folder, say)
cannot be taken along: a task that needs it runs on the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.outputs.members import GeneratedFiles, Source
from kpacktools.tasks.model import Needed, Place
from kpacktools.trees import Entry, Tree
from kpacktools.trees.archive import ArchiveTree, open_archive
from kpacktools.trees.directory import DirectoryTree, scan_directory
from kpacktools.trees.sources import LocalSource
from kpacktools.trees.sources import Source as FileSource
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import WheelTree, open_wheel

if TYPE_CHECKING:
    from kpacktools.remote.objects import Object
    from kpacktools.remote.store import Store
    from kpacktools.remote.tree import RemoteTree

__all__ = ["Luggage", "forget", "portable"]

_KEPT = 4
"""Archives and wheels that a worker keeps open: each may have a spool on its disk."""


class Luggage(Struct, frozen=True):
    """A tree to take along, and what must be the same where it is opened."""

    tree: Tree
    needs: tuple[Needed, ...]


@singledispatch
def portable(tree: Source, paths: Iterable[str] = ()) -> Luggage | None:
    """A tree that can be sent to other processes and gives the same files there, as far as their ``paths`` are named;
    None where there is none.

    Raises :class:`OSError` where its files are gone.
    """
    if hasattr(tree, "listed"):  # a RemoteTree, whose module is imported by nobody but those who have one
        return _of_store(cast("RemoteTree", tree), paths)
    return None


@portable.register
def _(tree: GeneratedFiles, paths: Iterable[str] = ()) -> Luggage | None:
    return Luggage(tree, ())  # type: ignore[arg-type]


@portable.register
def _(tree: DirectoryTree, paths: Iterable[str] = ()) -> Luggage | None:
    place = Place.of(tree.root)
    return Luggage(_Folder(tree.label, place.path), (place,))


@portable.register
def _(tree: ArchiveTree, paths: Iterable[str] = ()) -> Luggage | None:
    return _of_file(tree.label, tree.source, is_wheel=False)


@portable.register
def _(tree: WheelTree, paths: Iterable[str] = ()) -> Luggage | None:
    return _of_file(tree.label, tree.source, is_wheel=True)


def _of_file(label: str, source: FileSource, *, is_wheel: bool) -> Luggage | None:
    if isinstance(source, LocalSource):
        place = Place.of(label)
        return Luggage(_Packed(label, place.path, is_wheel), (place,))
    located = getattr(source, "located", None)
    if located is None:
        return None
    store, item = located
    there = _InStore(store.root + item.path, item.size, item.etag)
    return Luggage(_Packed(label, there.url, is_wheel, there), (there,))


def _of_store(tree: RemoteTree, paths: Iterable[str]) -> Luggage | None:
    store, objects = tree.listed(paths)
    first = next(iter(objects.values()), None)
    if first is None:
        return None
    there = _InStore(store.root + first.path, first.size, first.etag)
    return Luggage(_Objects(tree.label, there.url, objects), (there,))


class _InStore(NamedTuple):
    """An object that workers must be able to reach, each with the credentials that it has itself."""

    url: str
    size: int
    etag: str | None

    @property
    def path(self) -> str:
        return self.url

    def is_here(self) -> bool:
        try:
            found = self.object()
        except (CallError, OSError):
            return False
        return found is not None and (found.size, found.etag) == (self.size, self.etag)

    def object(self) -> Object | None:
        """What the store says of it now."""
        store, path = _opened_store(self.url)
        return store.find(path)


class _Folder(Struct, frozen=True):
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


class _Packed(Struct, frozen=True):
    """An archive or a wheel, opened where the first of its files is asked for."""

    label: str
    path: str
    is_wheel: bool
    there: _InStore | None = None
    """Where it is, if that is no path."""

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


class _Objects:
    """Some files of a store; opened where the first of them is asked for."""

    def __init__(self, label: str, url: str, objects: Mapping[str, Object]) -> None:
        self.label = label
        self._url = url
        """That of any of them."""
        self._objects = objects
        self._tree: RemoteTree | None = None

    def __reduce__(self) -> tuple[type[_Objects], tuple[str, str, Mapping[str, Object]]]:
        return _Objects, (self.label, self._url, self._objects)

    is_distant = True

    @property
    def folders(self) -> Mapping[str, Sequence[Entry]]:
        return self._opened().folders

    def open(self, path: str) -> BinaryIO:
        return self._opened().open(path)

    def open_whole(self, path: str) -> BinaryIO:
        return self._opened().open_whole(path)

    def open_to_copy(self, path: str) -> BinaryIO:
        return self._opened().open_to_copy(path)

    def hold(self, path: str) -> object:
        return self._opened().hold(path)

    def identity(self, path: str) -> str | None:
        return self._opened().identity(path)

    def local_path(self, path: str) -> None:
        return None

    def _opened(self) -> RemoteTree:
        if self._tree is None:
            from kpacktools.remote.tree import tree_of

            self._tree = tree_of(self.label, _opened_store(self._url)[0], self._objects.items())
        return self._tree


def _opened_store(url: str) -> tuple[Store, str]:
    from kpacktools.remote.store import open_store

    return open_store(url)


@lru_cache(maxsize=_KEPT)
def _opened(packed: _Packed) -> ArchiveTree | WheelTree:
    source = None
    if packed.there is not None:
        from kpacktools.remote.tree import RemoteSource
        from kpacktools.trees.access import Access

        item = packed.there.object()
        if item is None:
            raise CallError(f"{packed.label} is gone")
        store, _ = _opened_store(packed.path)
        source = RemoteSource(packed.label, store, item, Access(), partial=packed.is_wheel)
    path = packed.path if packed.there is None else packed.label
    if packed.is_wheel:
        return open_wheel(path, Spool(), source).tree
    return open_archive(path, Spool(), source).tree


def forget() -> None:
    """Close what this process keeps open for tasks."""
    _opened.cache_clear()
