"""Objects that are read to their end: fetched once, in one request, into the local file system as they are read."""

from __future__ import annotations

import io
import threading
from typing import BinaryIO, Final

from kpacktools.remote.objects import Object
from kpacktools.remote.store import Store
from kpacktools.trees.rawstream import RawStream
from kpacktools.trees.spool import Spool

__all__ = ["Fetched"]

SMALL: Final = 1 << 20
"""Bytes of an object that is held in memory."""
_BLOCK: Final = 1 << 20


class Fetched:
    """One object on its way; gone, with the room that it takes, when neither it nor a stream over it is left."""

    def __init__(self, store: Store, item: Object) -> None:
        self._store = store
        self._item = item
        self._lock = threading.Lock()
        self._spool = Spool()
        self._stream: BinaryIO | None = None
        self._here = 0
        self._memory: bytes | None = None

    def open(self) -> BinaryIO:
        """A seekable stream; reading waits for what is not here yet, and raises what the store raises."""
        if self._item.size <= SMALL:
            with self._lock:
                if self._memory is None:
                    with self._store.stream(self._item.path, self._item) as stream:
                        self._memory = stream.read()
                return io.BytesIO(self._memory)
        return io.BufferedReader(_Reader(self), 1 << 16)

    def wait(self) -> None:
        """Fetch all of it."""
        if self._item.size <= SMALL:
            self.open().close()
        else:
            self._fetch(self._item.size)

    @property
    def is_begun(self) -> bool:
        """True where some of it is here."""
        return self._memory is not None or self._stream is not None

    @property
    def size(self) -> int:
        return self._item.size

    def read_at(self, size: int, offset: int) -> bytes:
        """Bytes that may still have to come."""
        self._fetch(min(offset + size, self._item.size))
        return self._spool.read_at(size, offset)

    def _fetch(self, stop: int) -> None:
        if self._here >= stop:
            return
        with self._lock:
            if self._stream is None and self._here < stop:
                self._spool.reserve(self._item.size)
                self._stream = self._store.stream(self._item.path, self._item)
            while self._here < stop:
                assert self._stream is not None
                block = self._stream.read(_BLOCK)
                self._spool.write(block, self._here)
                self._here += len(block)
            if self._here == self._item.size and self._stream is not None:
                self._stream.close()

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            stream.close()


class _Reader(RawStream):
    def __init__(self, fetched: Fetched) -> None:
        super().__init__(fetched.size)
        self._fetched = fetched

    def take(self, wanted: int, offset: int) -> bytes:
        return self._fetched.read_at(wanted, offset)
