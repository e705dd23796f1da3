"""Transfer: one planned file on its way to its destination.

The one place where outputs of split and merge meet the file system file by file. Bytes stay inside the
kernel where it can be had: extents are shared (``ioctl_ficlone(2)``), else copied (``copy_file_range(2)``,
``sendfile(2)``), else read and written. Holes stay holes.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Literal

from kpacktools.errors import CallError
from kpacktools.planning.plan import PlannedFile
from kpacktools.trees.access import open_to_copy

__all__ = [
    "RELATIVE",
    "LinkMode",
    "OpenFolder",
    "TransferError",
    "changed",
    "clone",
    "copy_extent",
    "copy_file",
    "hard_link",
    "put_file",
    "same_bytes",
    "same_files",
    "soft_link",
    "stream_file",
]

LinkMode = Literal["auto", "hardlink", "copy"]
"""``auto``: independent files, extents may be shared; ``copy``: nothing is; ``hardlink``: the input itself."""

_Way = Callable[[int, int, int, int], int]
"""Copy up to so many bytes at an offset: (reader, writer, offset, count) -> bytes copied, 0 at the end."""

_CHUNK = 1 << 20
_KERNEL_CHUNK = 1 << 30
_SMALL = 1 << 15  # up to here a read and a write are less work than asking for anything better
_BINARY: int = getattr(os, "O_BINARY", 0)
# Should a FIFO have taken the place of a file since the scan, opening it must not hang.
_READ = os.O_RDONLY | _BINARY | getattr(os, "O_NONBLOCK", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
RELATIVE = {os.open, os.link, os.stat, os.symlink} <= os.supports_dir_fd
"""Calls take a name and the descriptor of an open folder."""
_NO_HARD_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_TRY_ANOTHER_WAY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)
_FICLONE = 0x40049409  # linux/fs.h


class TransferError(CallError):
    """The system refused to write one file; what became of the output, its caller knows."""


class OpenFolder:
    """A destination folder that files are put into, held open so that no path is resolved twice.

    A context manager. ``fd`` and ``prefix`` are for the calls in :mod:`os`: a name is passed as ``prefix +
    name`` with ``dir_fd=fd`` (Windows has no such descriptors: there ``fd`` is None and ``prefix`` the path).
    """

    __slots__ = ("_source", "_source_fd", "_unshared", "fd", "prefix")

    def __init__(self, path: str) -> None:
        self.fd: int | None = os.open(path, _FOLDER) if RELATIVE else None
        self.prefix = "" if RELATIVE else os.path.join(path, "")
        self._source = ""
        self._source_fd: int | None = None
        self._unshared: int | None = None

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_source()
        if self.fd is not None:
            os.close(self.fd)

    def source(self, path: str) -> tuple[str, int | None]:
        """An input's path as a name and the descriptor of its folder, which stays open for its neighbours.

        Neighbours in an output mostly are neighbours in an input too: each folder is then resolved once.

        Raises :class:`OSError`.
        """
        parent, _, name = path.rpartition("/")
        if not RELATIVE or not parent:
            return path, None
        if parent != self._source:
            self._close_source()
            self._source = parent
            return path, None  # a lone file is not worth it
        if self._source_fd is None:
            self._source_fd = os.open(parent, _FOLDER)
        return name, self._source_fd

    def clone(self, reader: int, device: int, writer: int) -> bool:
        """Let an empty file in this folder share all extents of one of the file system ``device``; False where it
        cannot. That file system is then not asked again for a neighbour: it mostly is one that never can."""
        if device == self._unshared:
            return False
        if not clone(reader, writer):
            self._unshared = device
            return False
        return True

    def _close_source(self) -> None:
        if self._source_fd is not None:
            os.close(self._source_fd)
            self._source_fd = None


def put_file(file: PlannedFile, folder: OpenFolder, name: str, link: LinkMode) -> None:
    """Put one file or link at ``name`` in ``folder``, where nothing may be yet.

    Hard links keep the input's mode, and become copies where the file system refuses them. Copies have the
    input's permission bits, and are readable and writable by their owner. Links are made as they are stored.

    Raises :class:`~kpacktools.errors.CallError` where the file that is copied is not what was scanned, and
    :class:`TransferError` where something is at the destination, and for whatever else the system refuses.
    """
    mode = file.entry.mode
    try:
        if stat.S_ISREG(mode):
            source = file.tree.local_path(file.entry.path)
            if source is None:
                stream_file(file, folder, name)
            elif link != "hardlink" or not hard_link(source, folder, name):
                copy_file(file, source, folder, name, share=link != "copy")
        elif stat.S_ISLNK(mode):
            soft_link(file, folder, name)
        else:
            raise CallError(f"{_where(file)} is neither a file nor a link")
    except OSError as error:
        reason = error.strerror or error
        raise TransferError(f"{_where(file)} could not be written to {file.dest}: {reason}") from error


def hard_link(source: str, folder: OpenFolder, name: str) -> bool:
    """Make a hard link to ``source``; False where the file system has none to give.

    Raises :class:`OSError`.
    """
    near, source_fd = folder.source(source)
    try:
        os.link(near, folder.prefix + name, src_dir_fd=source_fd, dst_dir_fd=folder.fd)
    except OSError as error:
        if error.errno in _NO_HARD_LINK:
            return False
        raise
    return True


def soft_link(file: PlannedFile, folder: OpenFolder, name: str) -> None:
    """Make the symbolic link that ``file`` is.

    Raises :class:`OSError`.
    """
    local = file.tree.local_path(file.entry.path) if os.name == "nt" else None
    to_folder = local is not None and os.path.isdir(local)  # only Windows tells them apart
    os.symlink(file.entry.link, folder.prefix + name, target_is_directory=to_folder, dir_fd=folder.fd)


def copy_file(file: PlannedFile, source: str, folder: OpenFolder, name: str, *, share: bool) -> None:
    """Copy the local file ``source``; with ``share`` the copy may share extents with it until either changes.

    Raises :class:`OSError`, and :class:`~kpacktools.errors.CallError` where the size is not the planned one
    before or after.
    """
    size = file.entry.size
    small = size <= _SMALL
    reader = os.open(source, _READ)
    try:
        found = os.fstat(reader)
        if found.st_size != size or not stat.S_ISREG(found.st_mode):
            raise changed(file)
        writer = _create(folder, name)
        try:
            if small or not share or not folder.clone(reader, found.st_dev, writer):
                ways = _READING if small else _SHARING_WAYS if share else _COPYING_WAYS
                end = 0
                for start, end in _extents(reader, found):
                    if copy_extent(reader, writer, start, end, ways) != end:
                        raise changed(file)
                if end != size:
                    os.ftruncate(writer, size)
            _set_mode(writer, file)
            if os.fstat(reader).st_size != size:
                raise changed(file)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def stream_file(file: PlannedFile, folder: OpenFolder, name: str) -> None:
    """Copy a file that has no local path through the tree that holds it.

    Raises :class:`OSError`, and :class:`~kpacktools.errors.CallError` where the size is not the planned one.
    """
    left = file.entry.size
    with open_to_copy(file.tree, file.entry.path) as source, open(_create(folder, name), "wb") as sink:
        while left and (chunk := source.read(min(left, _CHUNK))):
            sink.write(chunk)
            left -= len(chunk)
        if left or source.read(1):
            raise changed(file)
        _set_mode(sink.fileno(), file)


def same_files(one: str, other: str) -> bool:
    """True where two local files hold the same bytes; what is a hole in both is not read.

    Raises :class:`OSError`.
    """
    left = os.open(one, _READ)
    try:
        right = os.open(other, _READ)
        try:
            return _same_data(left, right)
        finally:
            os.close(right)
    finally:
        os.close(left)


def same_bytes(one: BinaryIO, other: BinaryIO) -> bool:
    """True where two streams hold the same bytes from here to their ends; ``other`` must be buffered."""
    while chunk := one.read(_CHUNK):
        if other.read(len(chunk)) != chunk:
            return False
    return not other.read(1)


def copy_extent(reader: int, writer: int, start: int, end: int, ways: Sequence[_Way]) -> int:
    """Copy the bytes from ``start`` to ``end`` to the same place; how far it came before the file ended.

    ``ways`` are tried in order: the next goes on where one is not supported or finds nothing more.

    Raises :class:`OSError`.
    """
    for way in ways:
        try:
            while start < end and (moved := way(reader, writer, start, end - start)):
                start += moved
        except OSError as error:
            if error.errno not in _TRY_ANOTHER_WAY or way is ways[-1]:
                raise
    return start


if sys.platform == "win32":

    def _read_at(fd: int, offset: int, count: int) -> bytes:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, count)

    def _write_at(fd: int, offset: int, data: bytes) -> int:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)

else:

    def _read_at(fd: int, offset: int, count: int) -> bytes:
        return os.pread(fd, count, offset)

    def _write_at(fd: int, offset: int, data: bytes) -> int:
        return os.pwrite(fd, data, offset)


def _by_reading(reader: int, writer: int, offset: int, count: int) -> int:
    return _write_at(writer, offset, _read_at(reader, offset, min(count, _CHUNK)))


if sys.platform == "linux":
    import fcntl

    def clone(reader: int, writer: int) -> bool:
        """Let an empty file share all extents of another (``ioctl_ficlone(2)``); False where it cannot."""
        try:
            fcntl.ioctl(writer, _FICLONE, reader)
        except OSError:  # whatever it is, the copy made instead meets it too and names it
            return False
        return True

    def _by_range(reader: int, writer: int, offset: int, count: int) -> int:
        return os.copy_file_range(reader, writer, min(count, _KERNEL_CHUNK), offset, offset)

    def _by_sendfile(reader: int, writer: int, offset: int, count: int) -> int:
        os.lseek(writer, offset, os.SEEK_SET)
        return os.sendfile(writer, reader, offset, min(count, _KERNEL_CHUNK))

    # copy_file_range may share extents by itself.
    _READING: tuple[_Way, ...] = (_by_reading,)
    _COPYING_WAYS: tuple[_Way, ...] = (_by_sendfile, _by_reading)
    _SHARING_WAYS: tuple[_Way, ...] = (_by_range, _by_sendfile, _by_reading)

else:

    def clone(reader: int, writer: int) -> bool:
        """False: extents are shared on Linux only."""
        return False

    _READING: tuple[_Way, ...] = (_by_reading,)
    _COPYING_WAYS: tuple[_Way, ...] = _READING
    _SHARING_WAYS: tuple[_Way, ...] = _READING


def _extents(reader: int, found: os.stat_result) -> Iterator[tuple[int, int]]:
    """The parts of a file that hold data, as (start, end); all of it where the system does not tell."""
    size = found.st_size
    if sys.platform == "win32" or not _has_holes(found):
        yield 0, size
        return
    end = 0
    while (start := _next_data(reader, end, size)) < size:
        end = min(os.lseek(reader, start, os.SEEK_HOLE), size)
        yield start, end


def _same_data(left: int, right: int) -> bool:
    found = os.fstat(left)
    size = found.st_size
    if os.fstat(right).st_size != size:
        return False
    holes = _has_holes(found)
    offset = 0
    while offset < size:
        if holes:
            offset = min(_next_data(left, offset, size), _next_data(right, offset, size))
        chunk = _read_at(left, offset, _CHUNK)
        if chunk != _read_at(right, offset, _CHUNK):
            return False
        if not chunk:
            return offset == size
        offset += len(chunk)
    return True


def _has_holes(found: os.stat_result) -> bool:
    return sys.platform != "win32" and found.st_blocks * 512 < found.st_size


def _next_data(fd: int, offset: int, size: int) -> int:
    """Where data begins at or after an offset; ``size`` where nothing but a hole follows."""
    if sys.platform == "win32":
        return offset
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        raise


def _create(folder: OpenFolder, name: str) -> int:
    return os.open(folder.prefix + name, _WRITE, 0o600, dir_fd=folder.fd)


def _set_mode(writer: int, file: PlannedFile) -> None:
    """Set the mode whatever the umask is; Windows has no such bits."""
    if hasattr(os, "fchmod"):
        os.fchmod(writer, (file.entry.mode & 0o777) | 0o600)


def _where(file: PlannedFile) -> str:
    return f"{file.tree.label}/{file.entry.path}"


def changed(file: PlannedFile) -> CallError:
    """The error for a file that is not what was scanned."""
    return CallError(
        f"{_where(file)} changed while it was read: it was scanned with {file.entry.size} bytes; "
        "run again when nothing writes to it"
    )
