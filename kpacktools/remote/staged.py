"""Files that wait to be uploaded: which they are, and what their bytes are."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.trees.names import REPORT_NAME, is_staging_name

__all__ = ["Staged", "part_size", "staged_bytes", "staged_files"]


_PART: Final = 8 << 20
_MOST_PARTS: Final = 10_000
"""Parts that an upload to S3 may have."""
_MIB: Final = 1 << 20
_LONGEST_NAME: Final = 1024
"""Bytes that a key of S3 may have."""
_EXEC_BITS: Final = 0o111 if os.name == "posix" else 0


class Staged(Struct, frozen=True):
    """One file that is ready to be uploaded."""

    name: str
    """Below OUT, with slashes."""
    path: str
    """Where it lies now."""
    size: int
    sha256: str
    parts: tuple[bytes, ...]
    """The MD5 of each :func:`part_size` of its bytes, which is how S3 names content."""

    @property
    def etag(self) -> str:
        """What S3 calls an object that was uploaded in these parts, unless it is encrypted with a customer's key."""
        if len(self.parts) == 1:
            return self.parts[0].hex()
        return f"{hashlib.md5(b''.join(self.parts), usedforsecurity=False).hexdigest()}-{len(self.parts)}"


def part_size(size: int) -> int:
    """Bytes of each part, but the last, of a file of ``size`` bytes: 8 MiB, and more where that would be too many."""
    least = -(-size // _MOST_PARTS)
    return max(_PART, -(-least // _MIB) * _MIB)


def staged_files(root: str, url: str, jobs: int) -> tuple[Staged, ...]:
    """The files below a folder that is to become ``url``, in the order of their names, read by ``jobs`` threads.

    Raises :class:`~kpacktools.errors.CallError` for what a store of objects would lose (links, exec bits) and names
    that cannot be keys, before any file is read.
    """
    found = list(_walk(root, "", url))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        # The largest first, so that it is not the one that all others have to wait for.
        order = sorted(found, key=lambda item: -item[1])
        staged = list(pool.map(lambda item: _read(root, item[0]), order))
    return tuple(sorted(staged, key=lambda item: item.name))


def staged_bytes(name: str, data: bytes) -> Staged:
    """Bytes as a file of one part would be described; there is no such file."""
    md5 = hashlib.md5(data, usedforsecurity=False).digest()
    return Staged(name, "", len(data), hashlib.sha256(data).hexdigest(), (md5,))


def _walk(root: str, folder: str, url: str) -> Iterator[tuple[str, int]]:
    """Name and size of each file below a folder."""
    with os.scandir(os.path.join(root, folder)) as entries:
        children = sorted(entries, key=lambda entry: entry.name)
    for child in children:
        name = f"{folder}/{child.name}" if folder else child.name
        if child.is_dir(follow_symlinks=False):
            if folder or not is_staging_name(child.name):
                yield from _walk(root, name, url)
            continue
        status = child.stat(follow_symlinks=False)
        _refuse(name, status.st_mode, url)
        yield name, status.st_size


def _refuse(name: str, mode: int, url: str) -> None:
    kept = f"{url} keeps names and bytes only: --archive (or artifacts archive) keeps the rest"
    if stat.S_ISLNK(mode):
        raise CallError(f"{name} is a symbolic link, and {kept}")
    if not stat.S_ISREG(mode):
        raise CallError(f"{name} is no regular file, and {kept}")
    if mode & _EXEC_BITS:
        raise CallError(f"{name} is executable, and {kept}")
    if name == REPORT_NAME:
        raise CallError(
            f"{name} is the name of the report that completes what is published: call the file another"
        )
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise CallError(f"{name!r} is not UTF-8, which the names of a store have to be") from None
    if length + len(url) > _LONGEST_NAME:
        raise CallError(
            f"{name} is longer than the {_LONGEST_NAME} bytes that the name of an object may have"
        )


def _read(root: str, name: str) -> Staged:
    path = os.path.join(root, name)
    sha256 = hashlib.sha256()
    parts: list[bytes] = []
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            step = part_size(size)
            read = 0
            for start in range(0, max(size, 1), step):
                md5 = hashlib.md5(usedforsecurity=False)
                read += _feed(stream.read, min(step, size - start), (sha256.update, md5.update))
                parts.append(md5.digest())
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    if read != size:
        raise CallError(f"{path} changed while it was read")
    return Staged(name, path, size, sha256.hexdigest(), tuple(parts))


def _feed(read: Callable[[int], bytes], size: int, sinks: Sequence[Callable[[bytes], object]]) -> int:
    """Pass ``size`` bytes on, as far as there are so many; returns how many there were."""
    done = 0
    while done < size and (data := read(min(size - done, _MIB))):
        for sink in sinks:
            sink(data)
        done += len(data)
    return done
