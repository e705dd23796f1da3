"""A folder of this machine as a place to publish in: files are made beside their place and renamed into it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kpacktools.outputs.staging import move_new, refusals_named, resolve, stage
from kpacktools.outputs.transfer import same_files
from kpacktools.remote.destination import Found, Taken, Upload
from kpacktools.remote.staged import Staged
from kpacktools.trees.names import is_staging_name

__all__ = ["LocalDestination"]


class LocalDestination:
    """A folder under a ``file:`` URL; see :class:`~kpacktools.remote.destination.Destination`."""

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
    """See :class:`~kpacktools.remote.destination.Upload`."""

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
