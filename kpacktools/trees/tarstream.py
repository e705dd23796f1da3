"""Tar streams, read strictly: what any part of the stream leaves in doubt is refused.

Formats: ustar, GNU tar (long names) and pax (POSIX.1-2001). Python's :mod:`tarfile` parses single headers here,
but not the stream: it takes a damaged header for the end of the archive, and believes every size.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kpacktools.limits import max_size
from kpacktools.trees.decompress import ArchiveError

__all__ = ["TarMember", "TarStream"]

MAX_EXTENSION: Final = 1 << 20
"""Bytes of a pax header or of a GNU long name."""
MAX_NAME: Final = 4096
"""Characters of a name or of a link's target: PATH_MAX of Linux."""

_UNIT: Final = 512
_ZEROS: Final = bytes(_UNIT)
_PAX_GLOBAL: Final = tarfile.XGLTYPE
_PAX_LOCAL: Final = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_KINDS: Final = {
    tarfile.REGTYPE: stat.S_IFREG,
    tarfile.AREGTYPE: stat.S_IFREG,
    tarfile.CONTTYPE: stat.S_IFREG,
    tarfile.LNKTYPE: stat.S_IFREG,
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.DIRTYPE: stat.S_IFDIR,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
}


class TarMember(NamedTuple):
    """One member, as it is stored."""

    name: str
    """Bytes that are not UTF-8 are lone surrogates, as in Python's file names."""
    mode: int
    """``st_mode``: type and permission bits; a hard link is a regular file."""
    size: int
    """Bytes of data; 0 for all that is no regular file."""
    link: str
    """The target of a symbolic or hard link, else empty."""
    hard: bool
    """True for a hard link."""
    offset: int
    """Where in the tar stream its data begins."""


class TarStream:
    """The members of a tar stream, in their order; to be iterated over once.

    >>> for member in TarStream(blocks):   # doctest: +SKIP
    ...     print(member.name, member.size)

    Iterating and reading raise :class:`~kpacktools.trees.decompress.ArchiveError`, and what ``blocks`` raises.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._bytes = _Bytes(blocks)
        self._most = max_size()
        self._data = range(0)
        """Offsets of the data of the last header."""

    def __iter__(self) -> Iterator[TarMember]:
        for_all: dict[str, str] = {}
        for_next: dict[str, str] = {}
        while (header := self._header()) is not None:
            kind = header.type
            if kind in _PAX_LOCAL:
                for_next |= _pax_records(self._extension())
            elif kind == _PAX_GLOBAL:
                for_all |= _pax_records(self._extension())
            elif kind == tarfile.GNUTYPE_LONGNAME:
                for_next["path"] = _text(self._extension())
            elif kind == tarfile.GNUTYPE_LONGLINK:
                for_next["linkpath"] = _text(self._extension())
            else:
                yield self._member(header, for_all | for_next)
                for_next = {}
        if for_next:
            raise ArchiveError("it ends after the long name of a member, without the member")
        if self._bytes.skip_zeros():
            raise ArchiveError("something follows the end of its tar stream")

    def read(self) -> bytes:
        """The data of the last member; to be called once, before the next member is asked for."""
        return self._bytes.take(len(self._data))

    @property
    def size(self) -> int:
        """Bytes of the stream up to here."""
        return self._bytes.offset

    def _header(self) -> tarfile.TarInfo | None:
        """The next header; None at the end of the archive."""
        end = self._data.stop + -self._data.stop % _UNIT
        self._bytes.skip(end - self._bytes.offset)
        block = self._bytes.take(_UNIT)
        if block == _ZEROS:
            return None
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise ArchiveError(f"it is no tar stream at byte {end:,}: {error}") from error
        self._set_size(header.size)
        return header

    def _set_size(self, size: int) -> None:
        start = self._bytes.offset
        if not 0 <= size <= self._most:
            raise ArchiveError(f"a member declares {size:,} bytes")
        self._data = range(start, start + size)

    def _extension(self) -> bytes:
        if len(self._data) > MAX_EXTENSION:
            raise ArchiveError(f"the header of a member has {len(self._data):,} bytes")
        return self.read()

    def _member(self, header: tarfile.TarInfo, records: dict[str, str]) -> TarMember:
        name = records.get("path", header.name)
        link = records.get("linkpath", header.linkname)
        kind = _KINDS.get(header.type)
        shown = repr(name[:MAX_NAME])
        if kind is None or any(key.startswith("GNU.sparse.") for key in records):
            raise ArchiveError(f"{shown} is of a type that is not supported: {header.type!r}")
        if max(len(name), len(link)) > MAX_NAME:
            raise ArchiveError(f"the name or link {shown}... has more than {MAX_NAME:,} characters")
        if "size" in records:
            self._set_size(_number(records["size"]))
        hard = header.type == tarfile.LNKTYPE
        if len(self._data) and (hard or kind != stat.S_IFREG):
            raise ArchiveError(f"{shown} is no regular file, but has data")
        if not hard and kind != stat.S_IFLNK:
            link = ""
        return TarMember(
            name, kind | header.mode & 0o7777, len(self._data), link, hard, offset=self._data.start
        )


class _Bytes:
    """A position in a stream that comes in blocks."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._block = b""
        self._at = 0
        self.offset = 0

    def take(self, size: int) -> bytes:
        """The next so many bytes. Raises :class:`ArchiveError` where there are fewer."""
        end = self._at + size
        if end <= len(self._block):
            data = self._block[self._at : end]
            self._at = end
            self.offset += size
            return data
        parts = []
        while size:
            self._fill()
            part = self._block[self._at : self._at + size]
            parts.append(part)
            size -= len(part)
            self._at += len(part)
            self.offset += len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over so many bytes. Raises :class:`ArchiveError` where there are fewer."""
        while size:
            self._fill()
            step = min(size, len(self._block) - self._at)
            size -= step
            self._at += step
            self.offset += step

    def skip_zeros(self) -> bool:
        """Go to the end, or to the first byte that is not zero; True where there is one."""
        block = self._block[self._at :]
        while not block.strip(b"\0"):
            self.offset += len(block)
            self._at = len(self._block)
            following = next(self._blocks, None)
            if following is None:
                return False
            self._block, self._at = following, 0
            block = following
        return True

    def _fill(self) -> None:
        """Have at least one byte at hand."""
        while self._at == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                raise ArchiveError("it is cut: its tar stream has no end")
            self._block, self._at = block, 0


def _pax_records(data: bytes) -> dict[str, str]:
    """The records of a pax header: ``length key=value newline``, the length being that of the whole record."""
    records = {}
    start = 0
    while start < len(data):
        space = data.find(b" ", start)
        end = start + _number(_text(data[start:space])) if space > start else 0
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not (space < end <= len(data) and data[end - 1 : end] == b"\n" and key and equals):
            raise ArchiveError("the pax header of a member is damaged")
        records[_text(key)] = _text(value)
        start = end
    return records


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ArchiveError(f"the pax header of a member holds {text[:20]!r} for a number")
    return int(text)


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
