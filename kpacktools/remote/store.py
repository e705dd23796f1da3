"""One store of objects, whatever protocol it speaks: listings, ranges, streams and writes, with retries.

Which bytes are transferred is known: fsspec's caches of listings and blocks are not used, and what is read is
counted. An object that changes while it is read is refused, never half the one and half the other.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from typing import BinaryIO, TypeVar

from kpacktools.errors import CallError
from kpacktools.remote import urls
from kpacktools.remote.faults import RETRIES, RefusedError, Retries, TransientError, persistently
from kpacktools.remote.objects import Backend, Object, Transfer

__all__ = ["Store", "close_stores", "open_store", "open_stores"]

T = TypeVar("T")

_BLOCK = 1 << 20
"""Bytes that a stream takes from its connection at once."""


class Store:
    """A backend with patience, a counter, and errors for people. Safe to use from several threads."""

    def __init__(self, root: str, backend: Backend, retries: Retries = RETRIES) -> None:
        self.root = root
        """What is shown before a path to make it a URL again; empty where paths are URLs."""
        self._backend = backend
        self._retries = retries
        self._lock = threading.Lock()
        self.bytes_read = 0
        """Bytes of objects that were transferred so far; listings are not counted."""
        self.bytes_written = 0
        self.reads = 0
        """Requests for bytes of objects so far."""

    @property
    def backend(self) -> Backend:
        """What makes the requests, for those that one protocol alone has."""
        return self._backend

    def url(self, path: str) -> str:
        """A path as a URL that may be shown."""
        return urls.shown(self.root + path)

    def join(self, path: str, below: str) -> str:
        """The path of what lies below a folder, under a plain relative name."""
        return self._backend.join(path, below) if below else path

    def relative(self, path: str, folder: str) -> str:
        """The name of an object below a folder."""
        return self._backend.relative(path, folder)

    def info(self, path: str) -> Object:
        """What the store says of an object, or of a folder: a name that others begin with.

        Raises :class:`~kpacktools.errors.CallError`, also where there is none.
        """
        return self.attempt("read", path, lambda: self._backend.info(path))

    def find(self, path: str) -> Object | None:
        """As :meth:`info`, and None where there is nothing of that name."""
        try:
            return persistently(
                lambda: self._backend.info(path), f"cannot read {self.url(path)}", self._retries
            )
        except RefusedError as error:
            if error.reason == "missing":
                return None
            raise CallError(f"cannot read {self.url(path)}: {error}") from error

    def exists(self, path: str) -> bool:
        """True for an object or a folder. Raises :class:`~kpacktools.errors.CallError` where nobody can tell."""
        return self.find(path) is not None

    def list(self, path: str) -> list[Object]:
        """Every object below a folder, at any depth, sorted by path; empty where there is none.

        Raises :class:`~kpacktools.errors.CallError`, also where the store keeps no listings.
        """
        return sorted(self.attempt("list", path, lambda: self._backend.list(path)))

    def read_range(self, path: str, start: int, stop: int, expected: Object | None = None) -> bytes:
        """The bytes ``start:stop`` of an object, all of them.

        ``expected`` is the object as it was seen before. Raises :class:`~kpacktools.errors.CallError`, also where it
        has changed since or ends before ``stop``; :class:`RefusedError` with reason ``no-ranges`` where the server
        gives nothing but whole objects.
        """
        if stop <= start:
            return b""

        def request() -> bytes:
            data = self._backend.read(path, start, stop, expected)
            self._count(len(data))
            if len(data) < stop - start:
                raise TransientError(f"{len(data):,} bytes came, and not {stop - start:,}")
            return data

        return self.attempt("read", path, request, passing="no-ranges")

    def stream(self, path: str, expected: Object | None = None) -> BinaryIO:
        """The bytes of an object from the first to the last, in one request, unless it is cut and resumed.

        Cannot be sought in. Reading raises :class:`~kpacktools.errors.CallError`.
        """
        return io.BufferedReader(_Stream(self, self._backend, path, expected), _BLOCK)

    def put_bytes(self, path: str, data: bytes) -> None:
        """Write a small object at once. Raises :class:`~kpacktools.errors.CallError`."""
        self.attempt("write", path, lambda: self._backend.put(path, data))
        self.count_written(len(data))

    def delete(self, path: str) -> None:
        """Remove an object where there is one. Raises :class:`~kpacktools.errors.CallError`."""
        self.attempt("remove", path, lambda: self._backend.delete(path))

    def attempt(self, verb: str, path: str, request: Callable[[], T], passing: str = "") -> T:
        """What a request gives, which is made until it succeeds. Raises :class:`~kpacktools.errors.CallError`, and
        :class:`RefusedError` for the reason ``passing``."""
        what = f"cannot {verb} {self.url(path)}"
        try:
            return persistently(request, what, self._retries)
        except RefusedError as error:
            if error.reason == passing:
                raise
            raise CallError(f"{what}: {error}") from error

    def count_written(self, size: int) -> None:
        """So many more bytes were written, by whoever wrote them."""
        with self._lock:
            self.bytes_written += size

    def _count(self, size: int) -> None:
        with self._lock:
            self.bytes_read += size
            self.reads += 1

    def _count_more(self, size: int) -> None:
        with self._lock:
            self.bytes_read += size


class _Stream(io.RawIOBase):
    """One transfer from start to end, taken up again where it was cut."""

    def __init__(self, store: Store, backend: Backend, path: str, expected: Object | None) -> None:
        super().__init__()
        self._store = store
        self._backend = backend
        self._path = path
        self._expected = expected
        self._at = 0
        self._transfer: Transfer | None = None
        self._began = False

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._store.attempt("read", self._path, lambda: self._next(len(buffer)))
        self._store._count_more(len(data))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_BLOCK) or b"", b""))

    def _next(self, size: int) -> bytes:
        expected = self._expected
        if expected is not None and self._at == expected.size:
            return b""
        try:
            if self._transfer is None:
                if self._began and (expected is None or expected.etag is None):
                    raise RefusedError(
                        "it was cut, and nothing tells whether the rest is still that of the same bytes"
                    )
                self._transfer = self._backend.transfer(self._path, self._at, expected)
                self._began = self._began or self._at > 0
                self._store._count(0)
            data = self._transfer.read(size)
            self._began = self._began or bool(data)
            if not data and expected is not None:
                raise TransientError(f"it ended after {self._at:,} of {expected.size:,} bytes")
            return data
        except (TransientError, RefusedError):
            self._drop()
            raise

    def _drop(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            transfer.close()

    def close(self) -> None:
        self._drop()
        super().close()


_stores: dict[tuple[int, str, str], Store] = {}
_opening = threading.Lock()


def open_store(url: str) -> tuple[Store, str]:
    """The store that a URL lies in, and the URL's path there. Stores are kept for the process.

    Raises :class:`~kpacktools.errors.CallError` where fsspec or its part for this protocol is missing, or nobody
    knows the protocol.
    """
    scheme = urls.scheme_of(url)
    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    key = (os.getpid(), scheme, "" if urls.is_web(url) else user)
    with _opening:
        store = _stores.get(key)
        if store is None:
            store = _stores[key] = _made(url, scheme)
    return store, store._backend.locate(url)


def open_stores() -> tuple[Store, ...]:
    """Every store that was opened in this process."""
    with _opening:
        return tuple(_stores.values())


def close_stores() -> None:
    """Forget every store, and close its connections: before a fork, and where the environment changes."""
    with _opening:
        _stores.clear()


def _made(url: str, scheme: str) -> Store:
    try:
        if urls.is_web(url):
            from kpacktools.remote.web import WebBackend

            return Store("", WebBackend())
        if scheme in ("s3", "s3a"):
            from kpacktools.remote.s3 import S3Backend

            return Store(f"{scheme}://", S3Backend())
        from kpacktools.remote.anystore import AnyBackend

        return Store(f"{scheme}://", AnyBackend(url, scheme))
    except ImportError as error:
        missing = f" ({error.name} is missing)" if error.name else ""
        raise CallError(f"{urls.shown(url)}: a URL needs kpacktools[remote]{missing}") from error
