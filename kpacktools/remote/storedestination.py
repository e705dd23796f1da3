"""A folder of any store that fsspec writes to as a place to publish in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from kpacktools.errors import CallError
from kpacktools.remote.anystore import AnyBackend
from kpacktools.remote.destination import (
    Found,
    Taken,
    Upload,
    WholeUpload,
    digest_in,
    found_in,
    passing_folder,
)
from kpacktools.remote.faults import RefusedError
from kpacktools.remote.staged import Staged
from kpacktools.remote.store import Store
from kpacktools.trees.names import STAGING_PREFIX, STAGING_SUFFIX, is_staging_name

__all__ = ["StoreDestination"]


class StoreDestination:
    """See :class:`~kpacktools.remote.destination.Destination`."""

    takes_files = False

    def __init__(self, url: str, store: Store, path: str, *, is_atomic: bool) -> None:
        backend = store.backend
        assert isinstance(backend, AnyBackend)
        self.url = url
        self._store = store
        self._backend = backend
        self._path = path
        self._is_atomic = is_atomic

    def workspace(self) -> AbstractContextManager[str]:
        return passing_folder()

    def listing(self) -> dict[str, Found]:
        if self._store.find(self._path) is None:
            return {}
        found = {}
        for item in self._store.list(self._path):
            name = self._store.relative(item.path, self._path)
            if not is_staging_name(name.partition("/")[0]):
                found[name] = found_in(item)
        return found

    def find(self, name: str) -> Found | None:
        item = self._store.find(self._at(name))
        return None if item is None or item.is_folder else found_in(item)

    def same(self, staged: Staged, found: Found) -> bool:
        if found.size != staged.size:
            return False
        path = self._at(staged.name)
        return digest_in(self._store, path) == staged.sha256

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

    def read(self, name: str) -> bytes:
        with self._store.stream(self._at(name)) as stream:
            return stream.read()

    def delete(self, name: str) -> None:
        self._store.delete(self._at(name))

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

    def _at(self, name: str) -> str:
        return self._store.join(self._path, name)
