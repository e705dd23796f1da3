"""Offload bundles: the containers in which clang puts the code objects of several targets into one host file.

A bundle is ``__CLANG_OFFLOAD_BUNDLE__``, u64 number of entries, and per entry u64 offset, u64 size, u64 length
of its ID, the ID; all little endian, offsets from the start of the bundle. Compressed, it stands behind a
header of its own (``CCOB``, u16 version, u16 method: 0 zlib, 1 zstd)::

    version 1   20 bytes: u32 uncompressed size, u64 hash; the end is not told
    version 2   24 bytes: u32 size with the header, u32 uncompressed size, u64 hash
    version 3   32 bytes: u64 size with the header, u64 uncompressed size, u64 hash

A section holds one bundle per translation unit, each padded with zeros up to an alignment. Sources: LLVM,
*Clang Offload Bundler*, and ``llvm/Object/OffloadBundle.h`` for version 1.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Bundle", "BundleEntry", "BundleError", "Readable", "bundles", "entries"]

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC = b"CCOB"
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
"""Offset, size, length of the ID."""
_VERSION = struct.Struct("<4sHH")
"""Magic, version, method."""
_SIZES: Final = {1: struct.Struct("<I8x"), 2: struct.Struct("<II8x"), 3: struct.Struct("<QQ8x")}
"""Version -> what follows: size of the file (not in version 1), uncompressed size, hash."""

_MAX_TABLE_SIZE = 64 << 10
"""Bytes of a table of entries; one of 28 entries takes 2 KiB."""
_MAX_BUNDLES = 1 << 16
"""In one section; the largest libraries have some thousand translation units."""
_MAX_WINDOW = 128 << 20
"""Bytes that a zstd frame may refer back: what zstd itself takes unless told otherwise."""
_CHUNK = 16 << 10
"""Compressed bytes that are read at a time."""
_PADDING_CHUNK = 1 << 20

Compression = Literal["zlib", "zstd"]


class BundleError(Exception):
    """Bytes that are not the bundle they should be; the text is one line for a finding."""


class Readable(Protocol):
    """Bytes that can be sliced: ``bytes``, an ``mmap``, or part of a file that is read on demand."""

    def __len__(self) -> int:
        """How many bytes there are."""

    def __getitem__(self, part: slice, /) -> bytes:
        """Some of them."""


class BundleEntry(Struct, frozen=True):
    """One code object of a bundle."""

    id: str
    """As written: ``hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-``, ``host-x86_64-unknown-linux--``."""
    offset: int
    """Bytes from the start of the bundle, uncompressed."""
    size: int
    """Bytes, uncompressed; the host's is usually empty."""

    @property
    def kind(self) -> str:
        """Whose runtime it is for: ``hip``, ``hipv4`` (no difference), ``openmp`` or ``host``."""
        return self.id.partition("-")[0]

    @property
    def target(self) -> str | None:
        """The target ID, such as ``gfx942:sramecc+:xnack-``; None for the host."""
        kind, *fields = self.id.split("-", 4)
        if kind == "host" or len(fields) < 4:
            return None
        # After architecture, vendor and system comes the environment, which older IDs leave out, then the target
        # ID, which may have dashes too (gfx9-4-generic).
        rest = fields[-1]
        return rest if rest.startswith("gfx") else rest.partition("-")[2] or None


class Bundle(Struct, frozen=True):
    """One bundle: usually what one translation unit was compiled to."""

    offset: int
    """Bytes from the start of the data it was found in."""
    size: int
    """Bytes it takes there, as it is."""
    compression: Compression | None
    entries: tuple[BundleEntry, ...]


def entries(data: Readable) -> Iterator[BundleEntry]:
    """Every entry of every bundle in ``data``, in order.

    Raises :class:`BundleError` as :func:`bundles` does.
    """
    for bundle in bundles(data):
        yield from bundle.entries


def bundles(data: Readable) -> Iterator[Bundle]:
    """The bundles that follow one another in ``data``, with zeros between and after them.

    Of each bundle the table of entries is read, and at most 64 KiB are decompressed for it.

    Raises :class:`BundleError` where the data goes on with something else, after the bundles before it.

    >>> with open("libdemo.hipfb", "rb") as file:  # doctest: +SKIP
    ...     sorted({entry.target for entry in entries(file.read()) if entry.target})
    ['gfx942', 'gfx950']
    """
    position = _skip_zeros(data, 0)
    count = 0
    while position < len(data):
        count += 1
        if count > _MAX_BUNDLES:
            raise BundleError(f"there are more than {_MAX_BUNDLES} bundles")
        bundle = _bundle(data, position)
        yield bundle
        position = _skip_zeros(data, position + bundle.size)


def _bundle(data: Readable, start: int) -> Bundle:
    head = data[start : start + len(_MAGIC)]
    try:
        if head == _MAGIC:
            return _plain(data, start)
        if head.startswith(_COMPRESSED_MAGIC):
            return _compressed(data, start)
    except BundleError as error:
        raise BundleError(f"the bundle at byte {start}: {error}") from None
    raise BundleError(f"at byte {start} of {len(data)} there is no bundle, but {head[:8]!r}")


def _plain(data: Readable, start: int) -> Bundle:
    table, size = _entries(data[start : start + _MAX_TABLE_SIZE], len(data) - start)
    return Bundle(start, max([size, *(entry.offset + entry.size for entry in table)]), None, table)


def _compressed(data: Readable, start: int) -> Bundle:
    head = data[start : start + _VERSION.size + max(sizes.size for sizes in _SIZES.values())]
    try:
        _, version, method = _VERSION.unpack_from(head)
        sizes = _SIZES[version]
        *told, uncompressed = sizes.unpack_from(head, _VERSION.size)
    except KeyError:
        raise BundleError(f"version {version} of compressed bundles, expected 1, 2 or 3") from None
    except struct.error:
        raise BundleError("it ends inside its header") from None
    header_size = _VERSION.size + sizes.size
    size = told[0] if told else len(data) - start
    if not header_size <= size <= len(data) - start:
        raise BundleError(f"its size is given as {size}, where there are {len(data) - start} bytes")
    body = io.BufferedReader(_Span(data, start + header_size, start + size), _CHUNK)
    if method == 0:
        return Bundle(start, size, "zlib", _entries(_zlib(body), uncompressed)[0])
    if method == 1:
        return Bundle(start, size, "zstd", _entries(_zstd(body), uncompressed)[0])
    raise BundleError(f"compression method {method}, expected 0 (zlib) or 1 (zstd)")


def _entries(data: bytes, room: int) -> tuple[tuple[BundleEntry, ...], int]:
    """The table at the start of a bundle of ``room`` bytes, and its own size; ``data`` is where it begins."""
    if not data.startswith(_MAGIC):
        raise BundleError(f"decompressed, it does not begin with {_MAGIC.decode()}")
    cut = BundleError(f"its table of entries goes on beyond byte {len(data)}")
    position = len(_MAGIC) + _COUNT.size
    if position > len(data):
        raise cut
    (count,) = _COUNT.unpack_from(data, len(_MAGIC))
    found = []
    for number in range(count):
        name = position + _ENTRY.size
        if name > len(data):
            raise cut
        offset, size, length = _ENTRY.unpack_from(data, position)
        position = name + length
        if position > len(data):
            raise cut
        if offset + size > room:
            raise BundleError(f"entry {number} should be bytes {offset}..{offset + size} of its {room}")
        found.append(BundleEntry(data[name:position].decode(errors="replace"), offset, size))
    return tuple(found), position


class _Span(io.RawIOBase):
    """Part of some data as a stream, so that a decompressor takes no more of it than it needs."""

    def __init__(self, data: Readable, start: int, end: int) -> None:
        self._data = data
        self._position = start
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer)
        chunk = self._data[self._position : min(self._position + len(room), self._end)]
        room[: len(chunk)] = chunk
        self._position += len(chunk)
        return len(chunk)


def _zlib(body: BinaryIO) -> bytes:
    decompressor = zlib.decompressobj()
    data = b""
    try:
        while len(data) < _MAX_TABLE_SIZE and not decompressor.eof and (chunk := body.read(_CHUNK)):
            data += decompressor.decompress(chunk, _MAX_TABLE_SIZE - len(data))
    except zlib.error as error:
        raise BundleError(f"its zlib stream is damaged: {error}") from None
    return data


def _zstd(body: BinaryIO) -> bytes:
    import zstandard  # only where a file has such a bundle

    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    try:
        return decompressor.stream_reader(body, read_size=_CHUNK).read(_MAX_TABLE_SIZE)
    except zstandard.ZstdError as error:
        raise BundleError(f"its zstd frame is damaged: {error}") from None


def _skip_zeros(data: Readable, position: int) -> int:
    """Where the next byte is that is not zero; the end where there is none."""
    size = 64  # most often it is the next one
    while chunk := data[position : position + size]:
        rest = chunk.lstrip(b"\0")
        if rest:
            return position + len(chunk) - len(rest)
        position += len(chunk)
        size = min(16 * size, _PADDING_CHUNK)
    return position
