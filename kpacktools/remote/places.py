"""What lies at and below a URL, by one listing, for :mod:`kpacktools.trees.opening`.

Paths here are URLs that may be shown, with what lies below the first of them under its decoded name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from kpacktools.errors import CallError
from kpacktools.remote import urls
from kpacktools.remote.objects import Object
from kpacktools.remote.store import open_store
from kpacktools.remote.tree import RemoteSource, tree_of
from kpacktools.trees import Tree
from kpacktools.trees.access import Access
from kpacktools.trees.place import Child
from kpacktools.trees.sources import Source

__all__ = ["RemotePlaces"]

_MAX_READ = 256 << 20
"""Bytes of a file that is read at once."""


class _Child(NamedTuple):
    name: str
    path: str
    is_folder: bool

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_folder

    def is_file(self) -> bool:
        return not self.is_folder


class RemotePlaces:
    """See :class:`kpacktools.trees.place.Places`."""

    def __init__(self, url: str, access: Access) -> None:
        self._url = url
        self._access = access
        self._shown = urls.shown(url)
        self._store, self._path = open_store(url)

    @cached_property
    def _root(self) -> Object | None:
        """What the URL itself names."""
        return self._store.find(self._path)

    @cached_property
    def _files(self) -> dict[str, Object]:
        """Path below the URL -> object; the one under the empty path where the URL names no folder."""
        root = self._root
        if root is None:
            return {}
        if not root.is_folder:
            return {"": root}
        found = self._store.list(root.path.rstrip("/"))
        return {self._store.relative(item.path, root.path.rstrip("/")): item for item in found}

    @cached_property
    def _folders(self) -> dict[str, dict[str, bool]]:
        """Folder below the URL -> name of each entry -> whether it is a folder."""
        folders: dict[str, dict[str, bool]] = {"": {}}
        for path in self._files:
            name, is_folder = path, False
            while name:
                folder, _, last = name.rpartition("/")
                inside = folders.setdefault(folder, {})
                if last in inside and inside[last] == is_folder:
                    break
                inside[last] = is_folder
                name, is_folder = folder, True
        return folders

    def exists(self, path: str) -> bool:
        below = self._below(path)
        return self._root is not None if below == "" else self.is_file(path) or self.is_folder(path)

    def is_file(self, path: str) -> bool:
        below = self._below(path)
        if below is None:
            return False
        if below == "":
            return self._root is not None and not self._root.is_folder
        return self._root is not None and self._root.is_folder and below in self._files

    def is_folder(self, path: str) -> bool:
        below = self._below(path)
        if below is None or self._root is None or not self._root.is_folder:
            return False
        return below == "" or below in self._folders

    def children(self, path: str) -> Sequence[Child]:
        below = self._below(path)
        inside = self._folders.get(below or "", {})
        return [_Child(name, self.join(path, name), is_folder) for name, is_folder in sorted(inside.items())]

    def holds_files(self, path: str) -> bool:
        return self.is_folder(path)  # a store has no empty ones

    def read(self, path: str, limit: int) -> bytes:
        item = self._object(path)
        size = item.size if limit < 0 else min(limit, item.size)
        if size > _MAX_READ:
            raise CallError(f"cannot read {path}: it has {item.size:,} bytes")
        source = RemoteSource(path, self._store, item, self._access, partial=True)
        with source.open() as stream:
            return stream.read(size)

    def join(self, path: str, name: str) -> str:
        return f"{path}/{name}"

    def parent(self, path: str) -> str:
        below = self._below(path)
        return path[: -len(below.rpartition("/")[2]) - 1] if below else urls.parent(path)

    def name(self, path: str) -> str:
        below = self._below(path)
        return below.rpartition("/")[2] if below else urls.basename(self._url)

    def normal(self, path: str) -> str:
        return path

    def parts(self, path: str) -> list[str]:
        return path.partition("://")[2].split("/")

    def above(self, path: str, levels: int) -> str:
        return "/".join(path.split("/")[:-levels]) if levels else path

    def enclosing(self, path: str, manifest: str) -> tuple[str, str] | None:
        inner: list[str] = []
        url, shown = self._url, path
        while urls.parent(url) != url and "_" in url:
            inner.insert(0, urls.basename(url))
            url, shown = urls.parent(url), urls.parent(shown)
            # Requests are few: an artifact directory is known by its name before it is asked for.
            if urls.basename(url).count("_") < 2:
                continue
            store, place = open_store(urls.join(url, manifest))
            if store.find(place) is not None:
                return shown, "/".join(inner)
        return None

    def at(self, path: str) -> RemotePlaces:
        url = self._url
        while urls.shown(url) != path and urls.parent(url) != url:
            url = urls.parent(url)
        return RemotePlaces(url, self._access)

    def tree(
        self, root: str, *, within: str = "", skip: frozenset[str] = frozenset(), label: str | None = None
    ) -> Tree:
        """``root`` may lie above the URL: then ``within`` is what the URL names in it."""
        below = self._below(root)
        if below is None:
            found = {f"{within}/{path}" if path else within: item for path, item in self._files.items()}
        else:
            prefix = below + "/" if below else ""
            found = {
                path[len(prefix) :]: item for path, item in self._files.items() if path.startswith(prefix)
            }
            if within:
                found = {
                    path: item
                    for path, item in found.items()
                    if path == within or path.startswith(f"{within}/")
                }
        return tree_of(label or root, self._store, found.items(), skip=skip, cache=self._access.cache)

    def source(self, path: str, *, partial: bool = False) -> Source:
        return RemoteSource(
            path, self._store, self._object(path), self._access, partial=partial and not self._access.whole
        )

    def _below(self, path: str) -> str | None:
        """A path relative to the URL; None for one that does not lie at or below it."""
        if path == self._shown:
            return ""
        return path[len(self._shown) + 1 :] if path.startswith(self._shown + "/") else None

    def _object(self, path: str) -> Object:
        below = self._below(path)
        if below == "" and self._root is not None and not self._root.is_folder:
            return self._root
        item = self._files.get(below or "") if below is not None else None
        if item is None:
            raise CallError(f"{path}: no such file")
        return item
