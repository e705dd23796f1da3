"""A folder of any store that fsspec writes to as a place to publish in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from kpacktools.errors import CallError
from kpacktools.remote.anystore import AnyBackend
from kpacktools.remote.destination import Found, StoreFolder, Taken, Upload, WholeUpload, found_in
from kpacktools.remote.faults import RefusedError
from kpacktools.remote.staged import Staged
from kpacktools.remote.store import Store
from kpacktools.trees.names import STAGING_PREFIX, STAGING_SUFFIX, is_staging_name

__all__ = ["StoreDestination"]


class StoreDestination(StoreFolder):
    """See :class:`~kpacktools.remote.destination.Destination`."""

    def __init__(self, url: str, store: Store, path: str, *, is_atomic: bool) -> None:
        backend = store.backend
        assert isinstance(backend, AnyBackend)
        super().__init__(url, store, path)
        self._backend = backend
        self._is_atomic = is_atomic

    def listing(self) -> dict[str, Found]:
        if self._store.find(self._path) is None:
            return {}
        return {
            name: found
            for name, found in super().listing().items()
            if not is_staging_name(name.partition("/")[0])
        }

    def upload(self, staged: Staged, *, create: bool) -> Upload:
        return WholeUpload(partial(self.put, staged, create=create))

    def put_bytes(self, name: str, data: bytes, *, create: bool) -> None:
        self._refuse_taken(name, create)
        with self._whole(name) as path:
            self._store.put_bytes(path, data)

    def put(self, staged: Staged, *, create: bool) -> Found:
        """Write a staged file. Raises :class:`Taken`, as far as that can be known before."""
        self._refuse_taken(staged.name, create)
        with self._whole(staged.name) as path:
            self._store.attempt("write", path, lambda: self._backend.put_file(path, staged.path))
        self._store.count_written(staged.size)
        return found_in(self._store.info(self._at(staged.name)))

    def clean(self) -> None:
        """Nothing: nobody can tell here whether the run is alive that a temporary name belongs to."""

    @contextmanager
    def _whole(self, name: str) -> Iterator[str]:
        """The path to write an object to, so that it appears whole under ``name``."""
        final = self._at(name)
        if self._is_atomic:
            yield final
            return
        other = self._at(f"{STAGING_PREFIX}{secrets.token_hex(8)}{STAGING_SUFFIX}")
        try:
            yield other
            self._store.attempt("write", final, lambda: self._backend.move(other, final))
        except BaseException:
            with suppress(CallError, RefusedError):
                self._store.delete(other)
            raise

    def _refuse_taken(self, name: str, create: bool) -> None:
        if create and self._store.exists(self._at(name)):
            raise Taken
