"""A tree in a local directory, scanned once."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import BinaryIO

from kpacktools.errors import CallError
from kpacktools.trees import Entry, Siblings, Tree

__all__ = ["DirectoryTree", "all_in_folders", "scan_directory"]


_NOTHING: frozenset[str] = frozenset()


class DirectoryTree:
    """The files below a local directory, or below one folder of it.

    >>> tree = scan_directory("shards/gfx942/hipkernelprovider_lib_gfx942")   # doctest: +SKIP
    >>> tree.folders[""]                                                      # doctest: +SKIP
    """

    __slots__ = ("folders", "label", "root")

    def __init__(self, label: str, root: str, folders: Mapping[str, Sequence[Entry]]) -> None:
        self.label = label
        self.root = root
        self.folders = folders

    def open(self, path: str) -> BinaryIO:
        """A seekable stream of one file; see :meth:`kpacktools.trees.Tree.open`."""
        file = os.path.join(self.root, path)
        # Opening a FIFO waits for a writer, and opening a device may do anything.
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", file)
        return open(file, "rb")

    def local_path(self, path: str) -> str:
        """The file's path in the local file system."""
        return f"{self.root}/{path}"  # half the time of os.path.join, and asked for every file

    def __repr__(self) -> str:
        return f"DirectoryTree({self.label!r}, {len(self.folders)} folders)"


def all_in_folders(trees: Iterable[Tree]) -> bool:
    """True where every file lies in a local folder. Only such trees may be read by several processes after a fork: what
    others unpack goes to one temporary file, in which each process would take the same room."""
    return all(isinstance(tree, DirectoryTree) for tree in trees)


def scan_directory(
    root: str,
    *,
    label: str | None = None,
    within: str = "",
    skip: frozenset[str] = frozenset(),
) -> DirectoryTree:
    """Scan ``root``: names, sizes, modes and link targets; no file is opened and no link is followed.

    ``within`` restricts the scan to one folder or file below the root (paths stay relative to the root);
    ``skip`` names entries of the root itself to leave out.

    Raises :class:`~kpacktools.errors.CallError` when a folder cannot be listed.
    """
    folders: dict[str, Sequence[Entry]] = {}
    start = os.path.join(root, within) if within else root
    if within and not os.path.isdir(start):
        status = os.lstat(start)
        folder = os.path.dirname(within)
        folders[folder] = (_entry(within, start, status),)
        return DirectoryTree(label or root, root, folders)
    # Depth first with siblings sorted: the order is that of the names, whatever the file system returns.
    pending = [(within, start)]
    while pending:
        folder, where = pending.pop()
        try:
            with _listed(where) as children:
                entries, below = _sorted_in(children, folder, where, skip if not folder else _NOTHING)
        except OSError as error:
            raise CallError(f"cannot read {error.filename or where}: {error.strerror}") from error
        folders[folder] = entries
        below.reverse()
        pending += below
    return DirectoryTree(label or root, root, folders)


@contextmanager
def _listed(where: str) -> Iterator[list[os.DirEntry[str]]]:
    """A folder's entries, sorted by name. Listed through a descriptor where the system can: looking at each entry
    then takes one short relative path instead of the whole one, a third of a scan's time."""
    if os.scandir not in os.supports_fd:
        with os.scandir(where) as listing:
            yield sorted(listing, key=attrgetter("name"))
        return
    descriptor = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as listing:
            # Entries look themselves up through the descriptor: it stays open until they are done with.
            yield sorted(listing, key=attrgetter("name"))
    finally:
        os.close(descriptor)


def _sorted_in(
    children: Iterable[os.DirEntry[str]], folder: str, where: str, skip: frozenset[str]
) -> tuple[Siblings, list[tuple[str, str]]]:
    """A folder's files, and its folders as (path in the tree, path to open)."""
    prefix = folder + "/" if folder else ""
    entries: list[Entry] = []
    names: list[str] = []
    below: list[tuple[str, str]] = []
    modes: dict[int, int] = {}  # of a few values, one of each
    is_regular, make = stat.S_ISREG, tuple.__new__
    for child in children:
        name = child.name
        if skip and name in skip:
            continue
        if child.is_dir(follow_symlinks=False):
            below.append((prefix + name, f"{where}/{name}"))
            continue
        names.append(name)
        status = child.stat(follow_symlinks=False)
        mode = status.st_mode
        if is_regular(mode):
            # What Entry() does, in half the time.
            entries.append(make(Entry, (prefix + name, status.st_size, modes.setdefault(mode, mode), "")))
        else:
            entries.append(_entry(prefix + name, f"{where}/{name}", status))
    return Siblings(entries, names), below


def _entry(path: str, where: str, status: os.stat_result) -> Entry:
    link = os.readlink(where) if stat.S_ISLNK(status.st_mode) else ""
    return Entry(path, 0 if link else status.st_size, status.st_mode, link)
