"""How files of trees are reached when they lie far away, or when earlier runs know of them already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from kpacktools.trees import Readable, Tree

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["Access", "Distant", "each", "hold", "identity_of", "is_distant", "open_to_copy", "open_whole"]

T = TypeVar("T")
S = TypeVar("S")

AT_ONCE: Final = 16
"""Requests under way at a time for files of which little is read: these wait, and do not compute."""

_CHUNK: Final = 1 << 20


class Access(Struct, frozen=True):
    """What is known before anything is opened."""

    cache: Cache | None = None
    whole: bool = False
    """Every file will be read to its end: of a wheel, everything is fetched at once."""


@runtime_checkable
class Distant(Protocol):
    """What trees have, beside :class:`kpacktools.trees.Tree`, whose files are not in the local file system."""

    def open_whole(self, path: str) -> BinaryIO:
        """As ``open``, for a reader that reads everything: fetched in one go, and not remembered."""

    def open_to_copy(self, path: str) -> BinaryIO:
        """As ``open``, for a reader that copies: in large pieces, and not remembered."""

    def hold(self, path: str) -> object:
        """Fetch a file that will be read whole; it stays at hand for as long as what is returned does."""

    def identity(self, path: str) -> str | None:
        """What tells a file's bytes from any other's, where that is known without reading them."""


def is_distant(tree: Tree) -> bool:
    """True where opening a file takes a request of its own."""
    return bool(getattr(tree, "is_distant", False))


def each(tree: Tree, look: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """``look`` at every item, in their order; at many of them at a time where each takes requests of its own."""
    if not is_distant(tree):
        yield from map(look, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as executor:
        yield from executor.map(look, items)


def open_whole(tree: Tree, path: str) -> BinaryIO:
    """A stream for a reader that reads all of a file. Raises :class:`OSError`."""
    return tree.open_whole(path) if isinstance(tree, Distant) else tree.open(path)


def open_to_copy(tree: Readable, path: str) -> BinaryIO:
    """A stream for a reader that copies a file from its start to its end, once. Raises :class:`OSError`."""
    return tree.open_to_copy(path) if isinstance(tree, Distant) else tree.open(path)


def hold(tree: Tree, path: str) -> object:
    """Have a file at hand that several readers will read whole, until the returned object is gone."""
    return tree.hold(path) if isinstance(tree, Distant) else None


def identity_of(tree: Tree, path: str) -> str:
    """What tells a file's bytes from any other's: what its store says, else their number and sha256.

    Raises :class:`OSError` where it has to be read and cannot be.
    """
    known = tree.identity(path) if isinstance(tree, Distant) else None
    if known is not None:
        return known
    import hashlib  # for those who have a cache

    digest = hashlib.sha256()
    size = 0
    with open_whole(tree, path) as stream:
        while data := stream.read(_CHUNK):
            digest.update(data)
            size += len(data)
    return f"sha256:{digest.hexdigest()}:{size}"
