"""What opening shards asks of a file system, be it that of this machine or what lies under a URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kpacktools.trees import Tree
from kpacktools.trees.sources import Source

__all__ = ["Child", "Places"]


class Child(Protocol):
    """One entry of a folder: as much of :class:`os.DirEntry` as opening asks for."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    def is_dir(self, *, follow_symlinks: bool = True) -> bool: ...

    def is_file(self) -> bool: ...


class Places(Protocol):
    """The questions that opening asks of a file system. Paths are as the user would type them."""

    def exists(self, path: str) -> bool:
        """True for whatever there is, dangling links too."""

    def is_file(self, path: str) -> bool:
        """True for a regular file, links followed."""

    def is_folder(self, path: str) -> bool:
        """True for a folder, links followed."""

    def children(self, path: str) -> Sequence[Child]:
        """A folder's entries by name. Raises :class:`~kpacktools.errors.CallError`."""

    def holds_files(self, path: str) -> bool:
        """True where a file lies at any depth below a folder."""

    def read(self, path: str, limit: int) -> bytes:
        """The first bytes of a file. Raises :class:`~kpacktools.errors.CallError`."""

    def join(self, path: str, name: str) -> str:
        """What is called so in a folder."""

    def parent(self, path: str) -> str:
        """The folder that something lies in."""

    def name(self, path: str) -> str:
        """The last part of a path, of ``.`` and the like that of the folder that is meant."""

    def normal(self, path: str) -> str:
        """A path without detours."""

    def parts(self, path: str) -> list[str]:
        """All parts of the whole path, the first ones first."""

    def above(self, path: str, levels: int) -> str:
        """The folder so many levels above."""

    def enclosing(self, path: str, manifest: str) -> tuple[str, str] | None:
        """The nearest folder strictly above that holds a file of this name, and the path inside it."""

    def at(self, path: str) -> Places:
        """The same for what :meth:`enclosing` gave."""

    def tree(
        self, root: str, *, within: str = "", skip: frozenset[str] = frozenset(), label: str | None = None
    ) -> Tree:
        """As :func:`kpacktools.trees.directory.scan_directory`."""

    def source(self, path: str, *, partial: bool = False) -> Source:
        """A file that holds many; with ``partial``, one of which little will be read."""
