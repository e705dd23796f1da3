"""Trees: where files come from.

A *tree* is a set of files below one root, seen without reading any of them. Everything downstream (claims,
plans, outputs) works on :class:`Entry` values and asks the tree for bytes only when it needs them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple, Protocol

__all__ = ["Entry", "Readable", "Siblings", "Tree", "is_file", "is_link", "names_in", "read_start"]


class Entry(NamedTuple):
    """One file, link or special file of a tree.

    A named tuple, since a release has hundreds of thousands of these, which a scan makes as plain tuples and which are
    unpacked, sorted and sent by column.
    """

    path: str
    """POSIX path relative to the tree's root, without a leading or trailing slash."""
    size: int
    """Bytes; 0 for links."""
    mode: int
    """``st_mode``: type and permission bits."""
    link: str = ""
    """The link's target as stored; empty where the entry is no link."""


def is_file(entry: Entry) -> bool:
    """True for a regular file."""
    return stat.S_ISREG(entry.mode)


def is_link(entry: Entry) -> bool:
    """True for a symbolic link."""
    return stat.S_ISLNK(entry.mode)


class Siblings(list[Entry]):
    """The entries of one folder, with their names at hand: nearly every step asks for these."""

    __slots__ = ("names",)

    def __init__(self, entries: Sequence[Entry], names: Sequence[str]) -> None:
        super().__init__(entries)
        self.names = names


def names_in(entries: Sequence[Entry]) -> Sequence[str]:
    """The names of entries that are all in one folder, in their order.

    >>> names_in([Entry("lib/a.co", 1, 0o100644), Entry("lib/b.co", 1, 0o100644)])
    ['a.co', 'b.co']
    """
    if isinstance(entries, Siblings):
        return entries.names
    if not entries:
        return ()
    cut = entries[0].path.rfind("/") + 1
    return [entry.path[cut:] for entry in entries]


_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class Readable(Protocol):
    """The part of a :class:`Tree` that reading needs."""

    def open(self, path: str) -> BinaryIO:
        """See :meth:`Tree.open`."""

    def local_path(self, path: str) -> str | None:
        """See :meth:`Tree.local_path`."""


class Tree(Protocol):
    """What the pipeline needs of a tree. Implementations are immutable once made."""

    @property
    def label(self) -> str:
        """The tree's root as the user wrote it, for messages."""

    @property
    def folders(self) -> Mapping[str, Sequence[Entry]]:
        """Folder path (``""`` for the root) -> its entries sorted by path; empty folders are present too.

        Folders come in depth-first order, parents before children, siblings sorted: the order never depends
        on the file system.
        """

    def open(self, path: str) -> BinaryIO:
        """A seekable binary stream of one regular file.

        Raises :class:`OSError` when the file cannot be read.
        """

    def local_path(self, path: str) -> str | None:
        """The file's path in the local file system, for linking and in-kernel copies; None without one."""


def read_start(tree: Readable, path: str, limit: int) -> bytes:
    """At most ``limit`` bytes from the beginning of a file that the scan found to be regular; of a local one in half of
    the system calls that a stream takes, which is most of the time where it is small.

    Raises :class:`OSError` when the file cannot be read.
    """
    local = tree.local_path(path)
    if local is None:
        with tree.open(path) as stream:
            data = stream.read(limit)
            while len(data) < limit and (more := stream.read(limit - len(data))):
                data += more
            return data
    # Should a FIFO have taken its place since, opening it must not hang.
    file = os.open(local, _READ)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", local)
        # Not what was asked for, but what there is: that much memory is taken before a byte is read.
        left = min(limit, status.st_size)
        data = os.read(file, left)
        while len(data) < left and (more := os.read(file, left - len(data))):
            data += more
        return data
    finally:
        os.close(file)
