"""Trees and single files in a store."""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import BinaryIO

from kpacktools.cache import Cache
from kpacktools.errors import CallError
from kpacktools.remote import urls
from kpacktools.remote.faults import RefusedError
from kpacktools.remote.fetched import Fetched
from kpacktools.remote.objects import Object
from kpacktools.remote.store import Store
from kpacktools.trees import Entry
from kpacktools.trees.access import Access
from kpacktools.trees.windows import Recent, windowed

__all__ = ["RemoteSource", "RemoteTree", "identity", "tree_of"]

_MODE = stat.S_IFREG | 0o644
"""What a file of a store is taken as: stores keep neither modes nor links."""


def identity(store: Store, item: Object) -> str | None:
    """What tells an object's bytes from any other's; None where the store says nothing that would."""
    return None if item.etag is None else f"{urls.canonical(store.root + item.path)} {item.etag} {item.size}"


class _File:
    """One object, in parts or whole."""

    def __init__(self, store: Store, item: Object, cache: Cache | None, recent: Recent) -> None:
        self.store = store
        self.item = item
        name = identity(store, item)
        self._blocks = None if cache is None or name is None else cache.blocks(name)
        self._recent = recent

    def parts(self, whole: Fetched, fallen_back: Callable[[Fetched], object] | None = None) -> BinaryIO:
        """In ranges, the first of which are remembered. Where the server knows none, ``whole`` is read, and
        ``fallen_back`` told, who may keep it."""
        store, item = self.store, self.item
        has_ranges = True

        def fetch(start: int, stop: int) -> bytes:
            nonlocal has_ranges
            if has_ranges:
                try:
                    return store.read_range(item.path, start, stop, item)
                except RefusedError:
                    has_ranges = False
                    if fallen_back is not None:
                        fallen_back(whole)
            with whole.open() as stream:
                stream.seek(start)
                return stream.read(stop - start)

        if self._blocks is not None:
            return windowed(fetch, item.size, self._blocks, self._blocks.save)
        return windowed(fetch, item.size, self._recent)


class RemoteTree:
    """The files below a folder of a store, by one listing.

    Stores keep neither modes nor links nor empty folders: every file is a regular one that nobody executes.
    """

    __slots__ = ("_cache", "_fetched", "_lock", "_objects", "_store", "_wholes", "folders", "label")

    is_distant = True
    """Opening a file takes a request."""

    def __init__(
        self,
        label: str,
        store: Store,
        folders: Mapping[str, Sequence[Entry]],
        objects: Mapping[str, Object],
        cache: Cache | None = None,
    ) -> None:
        self.label = label
        self.folders = folders
        self._store = store
        self._objects = objects
        """Path of a file -> what the listing said of it."""
        self._cache = cache
        self._wholes: dict[str, Fetched] = {}
        """Files that the server gives as a whole only."""
        self._fetched: weakref.WeakValueDictionary[str, Fetched] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def open(self, path: str) -> BinaryIO:
        """A seekable stream of one file, in ranges; see :meth:`kpacktools.trees.Tree.open`.

        Reading raises :class:`~kpacktools.errors.CallError` where the store refuses, also where the file changed.
        """
        return self._opened(path, self._cache)

    def open_to_copy(self, path: str) -> BinaryIO:
        """A stream of one file, in ranges, and nothing of it is remembered."""
        return self._opened(path, None)

    def _opened(self, path: str, cache: Cache | None) -> BinaryIO:
        item = self._object(path)
        with self._lock:
            fetched = self._fetched.get(path)
        if fetched is not None and fetched.is_begun:
            return fetched.open()
        file = _File(self._store, item, cache, Recent(0))
        return file.parts(self._fetch(path), lambda whole: self._wholes.update({path: whole}))

    def open_whole(self, path: str) -> BinaryIO:
        """A stream of one file that is fetched in one go."""
        return self._fetch(path).open()

    def hold(self, path: str) -> Fetched:
        """A file in the local file system, once however many hold it."""
        fetched = self._fetch(path)
        fetched.wait()
        return fetched

    def _fetch(self, path: str) -> Fetched:
        item = self._object(path)
        with self._lock:
            fetched = self._fetched.get(path)
            if fetched is None:
                fetched = self._fetched[path] = Fetched(self._store, item)
            return fetched

    def identity(self, path: str) -> str | None:
        """What tells a file's bytes from any other's, by its entity tag."""
        return identity(self._store, self._object(path))

    def local_path(self, path: str) -> None:
        """None: the files are in the store only."""

    def listed(self, paths: Iterable[str]) -> tuple[Store, dict[str, Object]]:
        """The store, and what its listing said of some files: with these, others can make the same tree of them."""
        return self._store, {path: self._objects[path] for path in paths if path in self._objects}

    def _object(self, path: str) -> Object:
        item = self._objects.get(path)
        if item is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.label}/{path}")
        return item

    def __repr__(self) -> str:
        return f"RemoteTree({self.label!r}, {len(self.folders)} folders)"


def tree_of(
    label: str,
    store: Store,
    objects: Iterable[tuple[str, Object]],
    *,
    skip: frozenset[str] = frozenset(),
    cache: Cache | None = None,
) -> RemoteTree:
    """A tree of objects under their paths in it; ``skip`` names entries of the root to leave out.

    Raises :class:`~kpacktools.errors.CallError` for names that lead nowhere in a tree, or a name that is both a file
    and a folder: no file system could hold them.
    """
    files: dict[str, Object] = {}
    names = {""}
    for path, item in objects:
        if path in skip or path.partition("/")[0] in skip:
            continue
        if any(part in ("", ".", "..") for part in path.split("/")):
            raise CallError(f"{label}: holds {path!r}, which is no plain path below it")
        files[path] = item
        folder = path.rpartition("/")[0]
        while folder not in names:
            names.add(folder)
            folder = folder.rpartition("/")[0]
    both = sorted(names & files.keys())
    if both:
        raise CallError(
            f"{label}: holds {both[0]!r} both as a file and as a folder, which no file system can"
        )
    folders: dict[str, list[Entry]] = {
        folder: [] for folder in sorted(names, key=lambda folder: folder.split("/") if folder else [])
    }
    for path in sorted(files):
        folders[path.rpartition("/")[0]].append(Entry(path, files[path].size, _MODE))
    return RemoteTree(label, store, dict(folders), files, cache)


class RemoteSource:
    """An archive or a wheel in a store; see :class:`kpacktools.trees.sources.Source`."""

    def __init__(self, label: str, store: Store, item: Object, access: Access, *, partial: bool) -> None:
        self.label = label
        self.is_partial = partial
        self._store = store
        self._item = item
        self._access = access
        self._fetched: Fetched | None = None
        self._lock = threading.Lock()
        self._file = _File(store, item, access.cache, Recent())

    @property
    def located(self) -> tuple[Store, Object]:
        """Where it is, for others who open it."""
        return self._store, self._item

    def size(self) -> int:
        return self._item.size

    def open(self) -> BinaryIO:
        whole = self._whole()
        return self._file.parts(whole) if self.is_partial else whole.open()

    def release(self) -> None:
        with self._lock:
            self._fetched = None

    def identity(self) -> str | None:
        return identity(self._store, self._item)

    def beside(self, suffix: str, limit: int) -> bytes | None:
        path = _with_suffix(self._item.path, suffix)
        item = self._store.find(path)
        if item is None or item.is_folder:
            return None
        # By its identity, so that a second run over the same archive reads nothing.
        whole = Fetched(self._store, item)
        with _File(self._store, item, self._access.cache, Recent()).parts(whole) as stream:
            return stream.read(min(limit, item.size))

    def _whole(self) -> Fetched:
        with self._lock:
            if self._fetched is None:
                self._fetched = Fetched(self._store, self._item)
            return self._fetched


def _with_suffix(path: str, suffix: str) -> str:
    bare, question, query = path.partition("?")
    return bare + suffix + question + query
