"""What earlier runs found out, in a folder: ``--cache DIR``.

An entry is found by a key that says all that it depends on: which bytes (the URL and entity tag of an object, the
sha256 of any other file), what was asked of them, and this version of the program. It is a file of its own, written
under another name and renamed, so that any number of runs may share a folder; one that is damaged, cut or of another
format counts as absent. Nothing is ever executed or unpickled: entries are bytes, and those who keep them decode
MessagePack.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from kpacktools import __version__
from kpacktools.errors import CallError

__all__ = ["Blocks", "Cache"]

FORMAT: Final = 1
"""Counted up whenever what is kept, or what it is made of, changes."""
MAX_ENTRY: Final = 256 << 20
"""Bytes of an entry."""
MAX_BLOCKS: Final = 16 << 20
"""Bytes of one file that are kept as they are: headers, tables of contents and manifests, not kernels."""

_MAGIC: Final = b"kpacktools cache\n"
_DIGEST: Final = 32


class Cache:
    """A folder of entries. Safe to use from any number of threads and processes."""

    def __init__(self, folder: str) -> None:
        """Raises :class:`~kpacktools.errors.CallError` where the folder cannot be made or written."""
        self.folder = folder
        self._root = os.path.join(folder, f"{__version__}-{FORMAT}")
        import tempfile  # for those who have a cache

        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.makedirs(self._root, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._root):
                pass
        except OSError as error:
            raise CallError(f"--cache {folder}: {error.strerror}") from error

    def get(self, kind: str, *key: str) -> bytes | None:
        """What is kept of a kind under a key; None where there is nothing that can be trusted."""
        name = self._name(kind, key)
        try:
            with open(self._path(kind, name), "rb") as stream:
                data = stream.read(MAX_ENTRY)
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        payload = data[start:]
        if data[:start] != _MAGIC + _seal(name, payload):
            return None
        return payload

    def put(self, kind: str, *key: str, data: bytes) -> None:
        """Keep something. Where that fails, as on a full disk, the next run does without."""
        if len(data) + len(_MAGIC) + _DIGEST >= MAX_ENTRY:
            return
        import tempfile

        name = self._name(kind, key)
        path = self._path(kind, name)
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path))
            try:
                with open(descriptor, "wb") as stream:
                    stream.write(_MAGIC + _seal(name, data))
                    stream.write(data)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def get_value(self, kind: str, type_: Any, *key: str) -> Any:
        """As :meth:`get`, decoded as a type of msgspec's; None, too, where it is none of these."""
        data = self.get(kind, *key)
        if data is None:
            return None
        try:
            return msgspec.msgpack.decode(data, type=type_)
        except (msgspec.DecodeError, RecursionError):
            return None

    def put_value(self, kind: str, value: Any, *key: str) -> None:
        """Keep a value that msgspec can encode."""
        self.put(kind, *key, data=msgspec.msgpack.encode(value))

    def blocks(self, identity: str) -> Blocks:
        """The parts of one file that are kept."""
        return Blocks(self, identity)

    def _path(self, kind: str, name: bytes) -> str:
        text = name.hex()
        return os.path.join(self._root, kind, text[:2], text)

    def _name(self, kind: str, key: tuple[str, ...]) -> bytes:
        digest = hashlib.sha256(kind.encode())
        for part in key:
            data = part.encode("utf-8", "surrogateescape")
            digest.update(b"\0%d\0" % len(data) + data)
        return digest.digest()


def _seal(name: bytes, payload: bytes) -> bytes:
    """Binds an entry to its key: one that was renamed, or written over in part, is none."""
    return hashlib.sha256(name + payload).digest()


class Blocks(MutableMapping[int, bytes]):
    """Parts of one file by their offset: those that are kept, and those that are new until :meth:`save`."""

    def __init__(self, cache: Cache, identity: str) -> None:
        self._cache = cache
        self._identity = identity
        self._known: dict[int, bytes] | None = None
        self._fresh: dict[int, bytes] = {}
        self._size = 0

    def __getitem__(self, start: int) -> bytes:
        return self._fresh[start] if start in self._fresh else self._loaded()[start]

    def __setitem__(self, start: int, block: bytes) -> None:
        known = self._loaded()
        if start not in known and self._size + len(block) <= MAX_BLOCKS:
            self._size += len(block)
            self._fresh[start] = block

    def __delitem__(self, start: int) -> None:
        self._fresh.pop(start, None)
        self._loaded().pop(start, None)

    def __iter__(self) -> Iterator[int]:
        return iter({**self._loaded(), **self._fresh})

    def __len__(self) -> int:
        return len({**self._loaded(), **self._fresh})

    def save(self) -> None:
        """Keep what is new, beside what others have kept meanwhile."""
        if self._fresh:
            self._known = None
            known = {**self._loaded(), **self._fresh}
            if self._size <= MAX_BLOCKS:
                self._cache.put_value("blocks", known, self._identity)
            self._fresh = {}

    def _loaded(self) -> dict[int, bytes]:
        if self._known is None:
            self._known = self._cache.get_value("blocks", dict[int, bytes], self._identity) or {}
            self._size = sum(map(len, self._known.values())) + sum(map(len, self._fresh.values()))
        return self._known
