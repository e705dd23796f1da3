"""Where paths lead that a user gives: into the file system of this machine, or by a URL into a store.

Opening shards asks only what is here, of whichever of the two a path belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kpacktools.errors import CallError
from kpacktools.remote import urls
from kpacktools.trees import Tree
from kpacktools.trees.access import Access
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.place import Child, Places
from kpacktools.trees.sources import LocalSource, Source

__all__ = [
    "LOCAL",
    "basename",
    "beside",
    "identity",
    "parent",
    "place_of",
    "read_file",
    "shown",
]


class LocalPlaces:
    """The file system of this machine; see :class:`~kpacktools.trees.place.Places`."""

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def children(self, path: str) -> Sequence[Child]:
        try:
            with os.scandir(path) as listing:
                return sorted(listing, key=lambda child: child.name)
        except OSError as error:
            raise CallError(f"cannot list {path}: {error.strerror}") from error

    def holds_files(self, path: str) -> bool:
        return any(files for _, _, files in os.walk(path))

    def read(self, path: str, limit: int) -> bytes:
        try:
            with open(path, "rb") as stream:
                return stream.read(limit)
        except OSError as error:
            raise CallError(f"cannot read {path}: {error.strerror}") from error

    def join(self, path: str, name: str) -> str:
        return os.path.join(path, name)

    def parent(self, path: str) -> str:
        return os.path.dirname(path)

    def name(self, path: str) -> str:
        return os.path.basename(os.path.abspath(path))

    def normal(self, path: str) -> str:
        return os.path.normpath(path)

    def parts(self, path: str) -> list[str]:
        return os.path.abspath(path).split(os.sep)

    def above(self, path: str, levels: int) -> str:
        root = os.path.join(path, *[os.pardir] * levels)
        return os.path.relpath(root) if not os.path.isabs(path) else os.path.normpath(root)

    def enclosing(self, path: str, manifest: str) -> tuple[str, str] | None:
        inner: list[str] = []
        root = os.path.normpath(path)
        absolute = os.path.abspath(path)
        for _ in range(absolute.count(os.sep)):
            inner.insert(0, os.path.basename(absolute))
            absolute = os.path.dirname(absolute)
            root = os.path.dirname(root) if os.path.basename(root) not in ("", ".", "..") else absolute
            if os.path.isfile(os.path.join(absolute, manifest)):
                return root or ".", "/".join(inner)
        return None

    def at(self, path: str) -> Places:
        return self

    def tree(
        self, root: str, *, within: str = "", skip: frozenset[str] = frozenset(), label: str | None = None
    ) -> Tree:
        return scan_directory(root, within=within, skip=skip, label=label)

    def source(self, path: str, *, partial: bool = False) -> Source:
        return LocalSource(path)


LOCAL = LocalPlaces()


def place_of(path: str, access: Access = Access()) -> tuple[Places, str]:
    """Where a path leads, and the path there: that of a URL is fit to be shown.

    Raises :class:`~kpacktools.errors.CallError` for a URL whose store cannot be opened.
    """
    if not urls.is_url(path):
        return LOCAL, path
    local = urls.local_path(path)
    if local is not None:
        return LOCAL, local
    from kpacktools.remote.places import RemotePlaces

    return RemotePlaces(path, access), urls.shown(path)


def shown(path: str) -> str:
    """A path as it is; a URL without what may be secret."""
    return urls.shown(path) if urls.is_url(path) else path


def basename(path: str) -> str:
    """The last name of a path or URL."""
    return urls.basename(path) if urls.is_url(path) else os.path.basename(path)


def parent(path: str) -> str:
    """The folder that a path or URL lies in."""
    return urls.parent(path) if urls.is_url(path) else os.path.dirname(path) or os.curdir


def beside(file: str, path: str) -> str:
    """A path or URL that stands in a file, relative to that file's folder."""
    if urls.is_url(path) or not urls.is_url(file):
        return path if urls.is_url(path) else os.path.join(os.path.dirname(file), path)
    if os.path.isabs(path):
        return path
    folder = urls.parent(file)
    for part in path.split("/"):
        if part == "..":
            folder = urls.parent(folder)
        elif part not in ("", "."):
            folder = urls.join(folder, part)
    return folder


def identity(path: str) -> str:
    """What two spellings of one path or URL have in common."""
    if not urls.is_url(path):
        return os.path.realpath(path)
    local = urls.local_path(path)
    return os.path.realpath(local) if local is not None else urls.canonical(path)


def read_file(path: str, limit: int = -1) -> bytes:
    """The bytes of a file or object that is part of a call.

    Raises :class:`OSError` for a path, and :class:`~kpacktools.errors.CallError` for a URL, that cannot be read.
    """
    places, where = place_of(path)
    if places is LOCAL:
        with open(where, "rb") as stream:
            return stream.read(limit)
    return places.read(where, limit)
