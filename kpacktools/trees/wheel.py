"""A tree in a wheel, seen by its central directory: nothing is unpacked to learn what is in it.

A wheel is a ZIP file (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5). Tools read one by its central directory or
by the headers before each member, and what the two say, or leave between members, can make them install different
files. Here every byte must belong to a member, and both headers of it must agree; what they leave in doubt is a
finding, and a file that cannot be followed at all is an empty tree and a finding. Nothing is decompressed beyond
what a member declares, and no more than a wheel can plausibly hold.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.findings import Finding
from kpacktools.limits import allowed
from kpacktools.trees import Entry
from kpacktools.trees.decompress import BLOCK, ArchiveError
from kpacktools.trees.places import basename
from kpacktools.trees.sources import LocalSource, Source
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheelscan import WheelMember, WheelScan
from kpacktools.trees.windows import windowed
from kpacktools.zipstructs import STORED

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["VARIANT_LABEL", "WHEEL_SUFFIX", "OpenedWheel", "WheelTree", "distribution_of", "open_wheel"]

WHEEL_SUFFIX: Final = ".whl"
VARIANT_LABEL: Final = re.compile("[0-9a-z._]+")
"""The label of a variant wheel (PEP 825)."""

_IN_MEMORY: Final = 1 << 20
"""Bytes of a compressed member that is opened in memory; larger ones go to the spool."""


def distribution_of(path: str) -> str:
    """The canonical name of the distribution that a wheel's file name begins with.

    >>> distribution_of("dist/rocm_sdk_device_gfx942-7.15.0-py3-none-linux_x86_64.whl")
    'rocm-sdk-device-gfx942'
    """
    from packaging.utils import canonicalize_name  # where there is a wheel

    return canonicalize_name(basename(path).removesuffix(WHEEL_SUFFIX).partition("-")[0])


class WheelTree:
    """The files of a wheel under their names in the archive; made by :func:`open_wheel`.

    ``folders`` is the payload. The ``.dist-info`` folder is the container's own and not in it, but its files
    are among ``members`` and can be opened. Folders of ``.data/`` are where they are in the archive.
    """

    __slots__ = ("_cache", "_lock", "_members", "_source", "_spool", "_starts", "folders", "label", "members")

    is_distant = False
    """Of a wheel that is far away, all members are read together or hardly any."""

    def __init__(
        self,
        source: Source,
        members: Mapping[str, WheelMember],
        folders: Mapping[str, Sequence[Entry]],
        spool: Spool,
        cache: Cache | None = None,
    ) -> None:
        self.label = source.label
        self.folders = folders
        self.members: Mapping[str, Entry] = {name: member.entry for name, member in members.items()}
        """Every file that can be read, those of ``.dist-info`` too, in the order of the central directory."""
        self._members = members
        self._source = source
        self._spool = spool
        self._cache = cache
        self._starts: dict[str, int] = {}
        """Where large members that were opened are in the spool."""
        self._lock = threading.Lock()

    @property
    def source(self) -> Source:
        """Where its bytes are."""
        return self._source

    def open(self, path: str) -> BinaryIO:
        """A seekable stream of one file; see :meth:`kpacktools.trees.Tree.open`.

        A compressed member is held to its size and CRC-32 before its first byte is handed out; of a stored one,
        which is read in place, :meth:`blocks` checks them.
        """
        name = self.identity(path)
        if self._cache is None or name is None:
            return self.open_whole(path)
        blocks = self._cache.blocks(name)

        def fetch(start: int, stop: int) -> bytes:
            with self.open_whole(path) as stream:
                stream.seek(start)
                return stream.read(stop - start)

        return windowed(fetch, self._member(path).entry.size, blocks, blocks.save)

    def open_whole(self, path: str) -> BinaryIO:
        """As :meth:`open`, and nothing of it is remembered."""
        member = self._located(path)
        if member.method == STORED:
            return io.BufferedReader(_Window(self._source.open(), member.start, member.entry.size))
        if member.entry.size <= _IN_MEMORY:
            return io.BytesIO(b"".join(self.blocks(path)))
        with self._lock:
            if path not in self._starts:
                self._starts[path] = self._spool.store(self.blocks(path), member.entry.size)
        return self._spool.open(self._starts[path], member.entry.size)

    def blocks(self, path: str) -> Iterator[bytes]:
        """One file's bytes, at most :data:`~kpacktools.trees.decompress.BLOCK` at a time.

        Raises :class:`OSError` where there is no such file, or where its bytes, by the time all of them were
        handed out, do not have the size and the CRC-32 that the archive declares.
        """
        member = self._located(path)
        try:
            with self._source.open() as file:
                file.seek(member.start)
                yield from _verified(member, _unpacked(member, file))
        except (ArchiveError, zlib.error) as error:
            raise OSError(errno.EIO, f"it is damaged: {error}", f"{self.label}/{path}") from error

    def content(self, path: str) -> bytes:
        """One small file, whole. Raises :class:`OSError` as :meth:`blocks` does."""
        name = self.identity(path)
        if self._cache is None or name is None:
            return b"".join(self.blocks(path))
        known = self._cache.get("member", name)
        if known is None:
            known = b"".join(self.blocks(path))
            self._cache.put("member", name, data=known)
        return known

    def is_stored(self, path: str) -> bool:
        """True for a member that is not compressed. Raises :class:`OSError` where there is none."""
        return self._member(path).method == STORED

    def open_to_copy(self, path: str) -> BinaryIO:
        """As :meth:`open_whole`."""
        return self.open_whole(path)

    def hold(self, path: str) -> None:
        """None: what is unpacked stays."""

    def identity(self, path: str) -> str | None:
        """What tells a file's bytes from any other's, where the store tells those of the wheel."""
        member = self._member(path)
        own = self._source.identity()
        return None if own is None else f"{own} {path} {member.crc:08x} {member.entry.size}"

    @property
    def is_partial(self) -> bool:
        """True where only the central directory was read, and no more should be than is needed."""
        return self._source.is_partial

    @property
    def source_identity(self) -> str | None:
        """What tells the wheel's bytes from any other's, where that is known."""
        return self._source.identity()

    def local_path(self, path: str) -> None:
        """None: the files are in the wheel only."""

    def without(self, paths: Collection[str]) -> WheelTree:
        """The same tree without some of its files."""
        return WheelTree(
            self._source,
            {name: member for name, member in self._members.items() if name not in paths},
            {
                folder: [entry for entry in entries if entry.path not in paths]
                for folder, entries in self.folders.items()
            },
            self._spool,
            self._cache,
        )

    def _member(self, path: str) -> WheelMember:
        member = self._members.get(path)
        if member is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.label}/{path}")
        return member

    def _located(self, path: str) -> WheelMember:
        """A member whose bytes are known to begin at ``start``. Raises :class:`OSError` where the header before them
        contradicts the central directory."""
        member = self._member(path)
        if member.header is None:
            return member
        from kpacktools.trees.wheelscan import located

        try:
            with self._source.open() as stream:
                return located(stream, member)
        except ArchiveError as error:
            raise OSError(errno.EIO, f"it is damaged: {error}", f"{self.label}/{path}") from error

    def __repr__(self) -> str:
        return f"WheelTree({self.label!r}, {len(self.members)} files)"


class _Window(io.RawIOBase):
    """Some bytes of a file that nobody else reads."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        file.seek(start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell() - self._start

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        return self._file.seek(self._start + position) - self._start

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        rest = max(self._size - self.tell(), 0)
        count: int = self._file.readinto(memoryview(buffer)[:rest])  # type: ignore[attr-defined]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _unpacked(member: WheelMember, file: BinaryIO) -> Iterator[bytes]:
    packed = _pieces(file, member.packed)
    return packed if member.method == STORED else _inflated(packed)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = file.read(min(size, BLOCK))
        if not piece:
            raise ArchiveError("the wheel ends before it")
        size -= len(piece)
        yield piece


def _inflated(packed: Iterable[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        while piece and not decoder.eof:
            block = decoder.decompress(piece, BLOCK)
            piece = decoder.unconsumed_tail
            if block:
                yield block
        if decoder.eof and (piece or decoder.unused_data):
            raise ArchiveError("something follows the end of its compressed bytes")
    rest = decoder.flush()
    if rest:
        yield rest
    if not decoder.eof:
        raise ArchiveError("its compressed bytes have no end")


def _verified(member: WheelMember, blocks: Iterable[bytes]) -> Iterator[bytes]:
    declared = member.entry.size
    size = crc = 0
    for block in blocks:
        size += len(block)
        if size > declared:
            raise ArchiveError(f"it has more than the {declared:,} bytes that the archive declares")
        crc = zlib.crc32(block, crc)
        yield block
    if size != declared:
        raise ArchiveError(f"it has {size:,} bytes, and not {declared:,} as the archive declares")
    if crc != member.crc:
        raise ArchiveError(f"its CRC-32 is {crc:08x}, and not {member.crc:08x} as the archive declares")


class OpenedWheel(Struct, frozen=True):
    """What one look at a wheel gave."""

    tree: WheelTree
    findings: tuple[Finding, ...] = ()


def open_wheel(
    path: str, spool: Spool, source: Source | None = None, cache: Cache | None = None
) -> OpenedWheel:
    """Scan a wheel: its central directory and the headers before the members; no member is decompressed.

    ``source`` is where its bytes are, this machine by default. Of a partial one the central directory is read, and the
    header before a member when that is opened.

    ``spool`` is where large compressed members go when they are opened; wheels that are used together share one.
    A damaged wheel is an empty tree and a finding; a member that cannot be read, or must not be installed, is a
    finding and not among the files. Of members with one name the last is, as for Python's :mod:`zipfile`.

    Findings: ``archive-invalid``, ``bad-path``, ``special-file``, ``wheel-record-invalid``.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read, or is no ZIP file at all.
    """
    source = source or LocalSource(path)
    try:
        known = _recall(source, cache)
        if known is not None:
            return OpenedWheel(WheelTree(source, *known, spool, cache))
        with source.open() as stream:
            head = stream.read(4)
            if not head.startswith(b"PK"):
                begins = f"it begins with {head!r}" if head else "it is empty"
                raise CallError(f"{path} is no wheel: {begins}, and a ZIP file with 'PK'")
            scan = WheelScan(path, partial=source.is_partial)
            try:
                scan.read(stream, stream.seek(0, os.SEEK_END))
            except ArchiveError as error:
                scan.fault("archive-invalid", str(error))
                return OpenedWheel(WheelTree(source, {}, {"": ()}, spool), tuple(scan.findings))
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    folders = scan.folders()
    if not scan.findings:
        _keep(source, scan.members, folders, cache)
    return OpenedWheel(WheelTree(source, scan.members, folders, spool, cache), tuple(scan.findings))


_Kept = tuple[list[str], list[tuple[str, int, int, int, int, int, int]]]
"""A scan without findings as it is kept between runs: folders, and of each member path, size and mode; method, CRC-32,
bytes in the archive and where they begin."""


def _recall(
    source: Source, cache: Cache | None
) -> tuple[dict[str, WheelMember], dict[str, Sequence[Entry]]] | None:
    identity = source.identity()
    if cache is None or identity is None or source.is_partial:
        return None
    kept = cache.get_value("wheel", _Kept, identity, allowed())
    if kept is None:
        return None
    members = {values[0]: WheelMember(Entry(*values[:3]), *values[3:]) for values in kept[1]}
    folders: dict[str, list[Entry]] = {folder: [] for folder in kept[0]}
    for path in sorted(members):
        folder = path.rpartition("/")[0]
        if folder in folders:  # that of its metadata is none of the payload
            folders[folder].append(members[path].entry)
    return members, dict(folders)


def _keep(
    source: Source, members: Mapping[str, WheelMember], folders: Mapping[str, object], cache: Cache | None
) -> None:
    identity = source.identity()
    # Of a partial scan, the ranges that it reads are remembered.
    if cache is None or identity is None or source.is_partial:
        return
    rows = [(*item.entry[:3], item.method, item.crc, item.packed, item.start) for item in members.values()]
    cache.put_value("wheel", (list(folders), rows), identity, allowed())
