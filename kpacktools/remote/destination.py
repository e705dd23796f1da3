"""What a set is published in: a place where objects appear whole, and are told apart by their bytes.

A place is a folder of a store. Nothing here knows what a set is, or when it is complete: that is
:mod:`kpacktools.remote.publish`. :mod:`kpacktools.remote.destinations` opens the place of a URL.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, NamedTuple, Protocol

from kpacktools.outputs.staging import stage
from kpacktools.remote.objects import Object
from kpacktools.remote.staged import Staged
from kpacktools.remote.store import Store

__all__ = [
    "Destination",
    "Found",
    "StoreFolder",
    "Taken",
    "Upload",
    "WholeUpload",
    "found_in",
]

_CHUNK: Final = 1 << 20


class Found(NamedTuple):
    """What a place says of one object."""

    size: int
    etag: str | None
    """Changes with the object; None where the store says nothing of that kind."""


class Taken(Exception):
    """The name is taken, and nothing was to be replaced."""


class Upload(Protocol):
    """One object on its way, in pieces that may be sent in any order from several threads."""

    pieces: int

    def send(self, piece: int) -> None:
        """Send one of the pieces. Raises :class:`~kpacktools.errors.CallError`."""

    def finish(self) -> Found:
        """Let the object appear, once all pieces are sent, and say what it is there.

        Raises :class:`Taken`, and :class:`~kpacktools.errors.CallError`.
        """

    def cancel(self) -> None:
        """Take back what was sent, as well as that works; to be called when no piece is being sent."""


class WholeUpload:
    """One object that is written in one piece, by ``put``, which raises as :meth:`Upload.finish` does."""

    pieces = 1

    def __init__(self, put: Callable[[], Found]) -> None:
        self._put = put
        self._result: Found | None = None

    def send(self, piece: int) -> None:
        with suppress(Taken):
            self._result = self._put()

    def finish(self) -> Found:
        if self._result is None:
            raise Taken
        return self._result

    def cancel(self) -> None:
        """Nothing: it was written, or not."""


class Destination(Protocol):
    """A folder in a store. Every method raises :class:`~kpacktools.errors.CallError`."""

    url: str
    """For messages, without what may be a secret."""
    takes_files: bool
    """Staged files themselves become the objects, and are not copied."""

    def workspace(self) -> AbstractContextManager[str]:
        """A local folder for what is going to be published; gone afterwards. Also the time to publish in."""

    def listing(self) -> dict[str, Found]:
        """Everything below the folder, by name, apart from what is temporary; empty where there is no such folder."""

    def find(self, name: str) -> Found | None:
        """One object as :meth:`listing` has it."""

    def same(self, staged: Staged, found: Found) -> bool:
        """True where the object of that name has the staged bytes."""

    def upload(self, staged: Staged, *, create: bool) -> Upload:
        """Begin to put a staged file; with ``create``, where nothing has its name."""

    def put_bytes(self, name: str, data: bytes, *, create: bool) -> None:
        """Write a small object at once. Raises :class:`Taken` too."""

    def read(self, name: str) -> bytes:
        """A small object's bytes."""

    def delete(self, name: str) -> None:
        """Remove an object where there is one."""

    def clean(self) -> None:
        """Remove what killed runs left; nothing that may belong to a live one. Never raises."""


def found_in(item: Object) -> Found:
    """What a store says of an object, with its tag in one form: some quote it in one place and not in another."""
    return Found(item.size, None if item.etag is None else item.etag.strip('"'))


def _digest_in(store: Store, path: str) -> str:
    """The sha256 of an object, which is read for it. Raises :class:`~kpacktools.errors.CallError`."""
    sha256 = hashlib.sha256()
    with store.stream(path, store.info(path)) as stream:
        while data := stream.read(_CHUNK):
            sha256.update(data)
    return sha256.hexdigest()


@contextmanager
def _passing_folder() -> Iterator[str]:
    """A folder among the system's temporary ones, which the next run removes should this one be killed."""
    name = f"kpacktools-{secrets.token_hex(8)}"
    with stage(os.path.join(tempfile.gettempdir(), name), whole=True) as staging:
        folder = staging.path("out")
        os.mkdir(folder)
        yield folder


class StoreFolder:
    """What :class:`Destination` asks of a folder in any store, as far as all stores do it alike."""

    takes_files = False

    def __init__(self, url: str, store: Store, path: str) -> None:
        self.url = url
        self._store = store
        self._path = path

    def workspace(self) -> AbstractContextManager[str]:
        return _passing_folder()

    def listing(self) -> dict[str, Found]:
        return {
            self._store.relative(item.path, self._path): found_in(item)
            for item in self._store.list(self._path)
        }

    def find(self, name: str) -> Found | None:
        item = self._store.find(self._at(name))
        return None if item is None or item.is_folder else found_in(item)

    def same(self, staged: Staged, found: Found) -> bool:
        return found.size == staged.size and _digest_in(self._store, self._at(staged.name)) == staged.sha256

    def read(self, name: str) -> bytes:
        with self._store.stream(self._at(name)) as stream:
            return stream.read()

    def delete(self, name: str) -> None:
        self._store.delete(self._at(name))

    def _at(self, name: str) -> str:
        return self._store.join(self._path, name)
