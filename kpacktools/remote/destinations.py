"""Places that a set is published in: where objects appear whole, and are told apart by their bytes.

A place is a folder of a store. Nothing here knows what a set is, or when it is complete: that is
:mod:`kpacktools.remote.publish`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, NamedTuple, Protocol

from kpacktools.errors import CallError
from kpacktools.outputs.staging import move_new, refusals_named, resolve, stage
from kpacktools.outputs.transfer import same_files
from kpacktools.remote import urls
from kpacktools.remote.faults import RefusedError
from kpacktools.remote.objects import Object
from kpacktools.remote.staged import Staged
from kpacktools.remote.store import Store, open_store
from kpacktools.trees.names import STAGING_PREFIX, STAGING_SUFFIX, is_staging_name

__all__ = [
    "Destination",
    "Found",
    "LocalDestination",
    "StoreDestination",
    "Taken",
    "Upload",
    "digest_in",
    "found_in",
    "open_destination",
    "passing_folder",
]

_CHUNK: Final = 1 << 20
_WHOLE_AT_ONCE: Final = frozenset(
    ("abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "ocilake", "oss")
)
"""Stores in which an object appears when all of it is there; elsewhere it is written under another name first."""


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


def open_destination(url: str) -> Destination:
    """The place that a URL names.

    Raises :class:`~kpacktools.errors.CallError` where nothing can be written there, whoever asks.
    """
    shown = urls.shown(url)
    if urls.is_web(url):
        raise CallError(
            f"-o {shown}: a web server is read from only; give a folder, or a URL such as s3://bucket/folder"
        )
    local = urls.local_path(url)
    if local is not None:
        return LocalDestination(shown, local)
    scheme = urls.scheme_of(url)
    if scheme == "file":
        raise CallError(f"-o {shown}: a file: URL names a path of this machine, as in file:///srv/release")
    store, path = open_store(url)
    if not path:
        raise CallError(f"-o {shown}: names no bucket; expected one, as in {scheme}://bucket/folder")
    if scheme in ("s3", "s3a"):
        from kpacktools.remote.s3destination import s3_destination

        return s3_destination(shown, store, path)
    return StoreDestination(shown, store, path, is_atomic=scheme in _WHOLE_AT_ONCE)


def found_in(item: Object) -> Found:
    """What a store says of an object, with its tag in one form: some quote it in one place and not in another."""
    return Found(item.size, None if item.etag is None else item.etag.strip('"'))


def digest_in(store: Store, path: str) -> str:
    """The sha256 of an object, which is read for it. Raises :class:`~kpacktools.errors.CallError`."""
    sha256 = hashlib.sha256()
    with store.stream(path, store.info(path)) as stream:
        while data := stream.read(_CHUNK):
            sha256.update(data)
    return sha256.hexdigest()


class LocalDestination:
    """A folder of this machine, under a ``file:`` URL: files are made beside their place and renamed into it."""

    takes_files = True

    def __init__(self, url: str, path: str) -> None:
        self.url = url
        self._path = resolve(path)
        self._spare = ""

    @contextmanager
    def workspace(self) -> Iterator[str]:
        # The staging folder of local outputs: it is on the right file system, and its lock tells of a live run.
        with stage(self._path) as staging:
            self._spare = staging.path("spare")
            os.mkdir(self._spare)
            folder = staging.path("out")
            os.mkdir(folder)
            yield folder

    def listing(self) -> dict[str, Found]:
        found: dict[str, Found] = {}
        with refusals_named(self.url):
            for where, folders, names in os.walk(self._path, onerror=_raise_unless_missing):
                inside = os.path.relpath(where, self._path)
                if inside == os.curdir:
                    folders[:] = [name for name in folders if not is_staging_name(name)]
                # A link to a folder is an object like any other, so that nothing is written through it.
                links = [name for name in folders if os.path.islink(os.path.join(where, name))]
                for name in (*names, *links):
                    path = os.path.join(where, name)
                    with suppress(FileNotFoundError):  # another run removed it just now
                        found[os.path.relpath(path, self._path).replace(os.sep, "/")] = _found(path)
        return found

    def find(self, name: str) -> Found | None:
        with refusals_named(self.url), suppress(FileNotFoundError):
            return _found(self._at(name))
        return None

    def same(self, staged: Staged, found: Found) -> bool:
        path = self._at(staged.name)
        with refusals_named(self.url):
            regular = os.path.isfile(path) and not os.path.islink(path)
            return regular and found.size == staged.size and same_files(staged.path, path)

    def upload(self, staged: Staged, *, create: bool) -> Upload:
        return _Rename(self, staged, create)

    def put_bytes(self, name: str, data: bytes, *, create: bool) -> None:
        spare = os.path.join(self._spare, secrets.token_hex(8))
        with refusals_named(self.url), open(spare, "xb") as stream:
            stream.write(data)
        self.move(spare, name, create=create)

    def move(self, source: str, name: str, *, create: bool) -> Found:
        """Rename a file of the workspace into place. Raises :class:`Taken`."""
        final = self._at(name)
        with refusals_named(self.url):
            for _ in range(2):
                # The run that removes a file may remove its folder too, just before it is needed.
                os.makedirs(os.path.dirname(final), exist_ok=True)
                with suppress(FileNotFoundError):
                    if not create:
                        os.replace(source, final)
                        break
                    try:
                        move_new(source, final)
                    except FileExistsError:
                        raise Taken from None
                    break
            return _found(final)

    def read(self, name: str) -> bytes:
        with refusals_named(self.url), open(self._at(name), "rb") as stream:
            return stream.read()

    def delete(self, name: str) -> None:
        path = self._at(name)
        with refusals_named(self.url), suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):
            while (path := os.path.dirname(path)) != self._path:
                os.rmdir(path)

    def clean(self) -> None:
        """Opening a workspace does it."""

    def _at(self, name: str) -> str:
        return os.path.join(self._path, *name.split("/"))


class _Rename:
    """See :class:`Upload`."""

    pieces = 1

    def __init__(self, place: LocalDestination, staged: Staged, create: bool) -> None:
        self._place = place
        self._staged = staged
        self._create = create

    def send(self, piece: int) -> None:
        pass

    def finish(self) -> Found:
        return self._place.move(self._staged.path, self._staged.name, create=self._create)

    def cancel(self) -> None:
        pass


def _found(path: str) -> Found:
    status = os.lstat(path)
    return Found(status.st_size, f"{status.st_ino}-{status.st_mtime_ns}")


def _raise_unless_missing(error: OSError) -> None:
    if error.errno != errno.ENOENT:
        raise error


@contextmanager
def passing_folder() -> Iterator[str]:
    """A folder among the system's temporary ones, which the next run removes should this one be killed."""
    name = f"kpacktools-{secrets.token_hex(8)}"
    with stage(os.path.join(tempfile.gettempdir(), name), whole=True) as staging:
        folder = staging.path("out")
        os.mkdir(folder)
        yield folder


class StoreDestination:
    """A folder of any store that fsspec writes to."""

    takes_files = False

    def __init__(self, url: str, store: Store, path: str, *, is_atomic: bool) -> None:
        self.url = url
        self.store = store
        self._path = path
        self._is_atomic = is_atomic

    def workspace(self) -> AbstractContextManager[str]:
        return passing_folder()

    def listing(self) -> dict[str, Found]:
        if self.store.find(self._path) is None:
            return {}
        found = {}
        for item in self.store.list(self._path):
            name = self.store.relative(item.path, self._path)
            if not is_staging_name(name.partition("/")[0]):
                found[name] = found_in(item)
        return found

    def find(self, name: str) -> Found | None:
        item = self.store.find(self._at(name))
        return None if item is None or item.is_folder else found_in(item)

    def same(self, staged: Staged, found: Found) -> bool:
        if found.size != staged.size:
            return False
        path = self._at(staged.name)
        return digest_in(self.store, path) == staged.sha256

    def upload(self, staged: Staged, *, create: bool) -> Upload:
        return _Put(self, staged, create)

    def put_bytes(self, name: str, data: bytes, *, create: bool) -> None:
        self._refuse_taken(name, create)
        with self._whole(name) as path:
            self.store.put_bytes(path, data)

    def put(self, staged: Staged, *, create: bool) -> Found:
        """Write a staged file. Raises :class:`Taken`, as far as that can be known before."""
        self._refuse_taken(staged.name, create)
        with self._whole(staged.name) as path:
            self.store.put_file(path, staged.path)
        return found_in(self.store.info(self._at(staged.name)))

    def read(self, name: str) -> bytes:
        with self.store.stream(self._at(name)) as stream:
            return stream.read()

    def delete(self, name: str) -> None:
        self.store.delete(self._at(name))

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
            self.store.move(other, final)
        except BaseException:
            with suppress(CallError, RefusedError):
                self.store.delete(other)
            raise

    def _refuse_taken(self, name: str, create: bool) -> None:
        if create and self.store.exists(self._at(name)):
            raise Taken

    def _at(self, name: str) -> str:
        return self.store.join(self._path, name)


class _Put:
    """See :class:`Upload`."""

    pieces = 1

    def __init__(self, place: StoreDestination, staged: Staged, create: bool) -> None:
        self._place = place
        self._staged = staged
        self._create = create
        self._result: Found | Taken | None = None

    def send(self, piece: int) -> None:
        try:
            self._result = self._place.put(self._staged, create=self._create)
        except Taken as error:
            self._result = error

    def finish(self) -> Found:
        if isinstance(self._result, Found):
            return self._result
        raise Taken

    def cancel(self) -> None:
        pass
