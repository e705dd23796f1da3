"""What every protocol of stores has in common: objects, and the requests that are made of a backend."""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Backend", "Object", "Transfer"]


class Object(NamedTuple):
    """What a store says of one name, without its bytes."""

    path: str
    """As the store's methods take it: ``bucket/key``, or the whole URL of a web server."""
    size: int
    """Bytes; 0 for a folder."""
    etag: str | None = None
    """What changes with the bytes, as the store gives it; None where it gives nothing that is sure to."""
    is_folder: bool = False


class Transfer(Protocol):
    """The bytes of one request, in their order."""

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; empty at the end. Raises as :class:`Backend` does."""

    def close(self) -> None:
        """Give the connection back; to be called however the transfer ended."""


class Backend(Protocol):
    """The requests of one protocol. Each raises :class:`~kpacktools.remote.faults.TransientError` or
    :class:`~kpacktools.remote.faults.RefusedError`, and tries once. Safe to call from any thread."""

    def info(self, path: str) -> Object:
        """One object, or the folder of that name."""

    def list(self, path: str) -> list[Object]:
        """Every object below a folder, at any depth, in no order."""

    def read(self, path: str, start: int, stop: int, expected: Object | None) -> bytes:
        """Some bytes of an object; refused as ``changed`` where it is no longer the expected one."""

    def transfer(self, path: str, start: int, expected: Object | None) -> Transfer:
        """The bytes from ``start`` to the end."""

    def put(self, path: str, data: bytes) -> None:
        """Write an object at once."""

    def delete(self, path: str) -> None:
        """Remove an object; nothing where there is none."""

    def locate(self, url: str) -> str:
        """A URL of this protocol as a path."""

    def join(self, path: str, below: str) -> str:
        """The path of what lies below a folder, under a plain relative name."""

    def relative(self, path: str, folder: str) -> str:
        """The reverse of :meth:`join`."""
