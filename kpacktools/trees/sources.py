"""One file that holds many: an archive, a wheel, a kpack on its own, wherever it lies."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import BinaryIO, Protocol

from kpacktools.errors import CallError

__all__ = ["LocalSource", "Source", "source_digest"]

_Identity = tuple[int, int, int, int]
"""What of a file's status tells that it is still the same."""


class Source(Protocol):
    """The bytes of one file, to be opened again and again."""

    @property
    def label(self) -> str:
        """Its path or URL, for messages."""

    @property
    def is_partial(self) -> bool:
        """True where it is far away, and no more of it should be read than is needed."""

    def size(self) -> int:
        """Bytes. Raises :class:`OSError`."""

    def open(self) -> BinaryIO:
        """A seekable stream of its own position. Raises :class:`OSError`, also where the file is no longer the one
        that was opened first."""

    def release(self) -> None:
        """What was fetched will not be read again."""

    def identity(self) -> str | None:
        """What tells its bytes from any other's, where that is known without reading them."""

    def beside(self, suffix: str, limit: int) -> bytes | None:
        """The first bytes of the file of its name with a suffix; None where there is none.

        Raises :class:`~kpacktools.errors.CallError` where it cannot be read.
        """


class LocalSource:
    """A file of this machine."""

    is_partial = False

    def __init__(self, path: str) -> None:
        self.label = path
        self._identity: _Identity | None = None

    def size(self) -> int:
        return os.stat(self.label).st_size

    def open(self) -> BinaryIO:
        stream = open(self.label, "rb")  # noqa: SIM115 (the caller's to close)
        status = os.fstat(stream.fileno())
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            stream.close()
            raise OSError(errno.EIO, f"{self.label} changed since it was opened")
        return stream

    def release(self) -> None:
        """Nothing is held."""

    def identity(self) -> None:
        """None: two files of one name, size and time can differ."""

    def beside(self, suffix: str, limit: int) -> bytes | None:
        path = self.label + suffix
        try:
            with open(path, "rb") as stream:
                return stream.read(limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CallError(f"cannot read {path}: {error.strerror}") from error


def source_digest(source: Source) -> str:
    """The identity of bytes that have no other: their sha256 and number. Raises :class:`OSError`."""
    digest = hashlib.sha256()
    size = 0
    with source.open() as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
            size += len(data)
    return f"sha256:{digest.hexdigest()}:{size}"
