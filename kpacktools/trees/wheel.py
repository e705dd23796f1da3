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
import stat
import struct
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from packaging.utils import canonicalize_name

from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.trees import Entry
from kpacktools.trees.decompress import BLOCK, FREE_SIZE, MAX_SIZE, ArchiveError
from kpacktools.trees.spool import Spool

__all__ = ["VARIANT_LABEL", "WHEEL_SUFFIX", "OpenedWheel", "WheelTree", "distribution_of", "open_wheel"]

WHEEL_SUFFIX: Final = ".whl"
VARIANT_LABEL: Final = re.compile("[0-9a-z._]+")
"""The label of a variant wheel (PEP 825)."""

MAX_DIRECTORY: Final = 128 << 20
"""Bytes of a central directory, and of all folder names, counting 256 more for each: what they take in memory."""
MAX_NAME: Final = 4096
"""Characters of a name: PATH_MAX of Linux."""
MAX_RATIO: Final = 200
"""Bytes of all members for each byte of the wheel, once there are more than ``FREE_SIZE`` of them; real wheels
have 2 to 5."""
MAX_FAULTS: Final = 100
"""Faulty members after which a wheel is refused as a whole."""

_IN_MEMORY: Final = 1 << 20
"""Bytes of a compressed member that is opened in memory; larger ones go to the spool."""
_DEFLATE_RATIO: Final = 1032
"""Bytes that one byte of a deflate stream can stand for, at most."""
_PER_NAME: Final = 256

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64: Final = struct.Struct("<4sLQL")
_LONGEST_COMMENT: Final = 0xFFFF
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFFFFFF

_STORED: Final = 0
_DEFLATED: Final = 8
_ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13
_DESCRIPTOR_FOLLOWS: Final = 1 << 3
_UTF8: Final = 1 << 11
_EXTRA_ZIP64: Final = 0x0001
_EXTRA_UNICODE_PATH: Final = 0x7075
_LONGEST_DESCRIPTOR: Final = 24

# Control characters; absolute paths, empty and dot components; drive letters.
_ODD: Final = re.compile("[\x00-\x1f\x7f]|(?:^|/)\\.{0,2}(?:/|$)|^[A-Za-z]:")

_Identity = tuple[int, int, int, int]
"""What of a file's status tells that it is still the same."""


def distribution_of(path: str) -> str:
    """The canonical name of the distribution that a wheel's file name begins with.

    >>> distribution_of("dist/rocm_sdk_device_gfx942-7.15.0-py3-none-linux_x86_64.whl")
    'rocm-sdk-device-gfx942'
    """
    return canonicalize_name(os.path.basename(path).removesuffix(WHEEL_SUFFIX).partition("-")[0])


class _Member(NamedTuple):
    """A file in the archive that can be read (a tuple: there are very many)."""

    entry: Entry
    method: int
    crc: int
    packed: int
    """Bytes in the archive."""
    start: int
    """Where these begin."""


class WheelTree:
    """The files of a wheel under their names in the archive; made by :func:`open_wheel`.

    ``folders`` is the payload. The ``.dist-info`` folder is the container's own and not in it, but its files
    are among ``members`` and can be opened. Folders of ``.data/`` are where they are in the archive.
    """

    __slots__ = ("_identity", "_lock", "_members", "_spool", "_starts", "folders", "label", "members")

    def __init__(
        self,
        path: str,
        members: Mapping[str, _Member],
        folders: Mapping[str, Sequence[Entry]],
        identity: _Identity,
        spool: Spool,
    ) -> None:
        self.label = path
        self.folders = folders
        self.members: Mapping[str, Entry] = {name: member.entry for name, member in members.items()}
        """Every file that can be read, those of ``.dist-info`` too, in the order of the central directory."""
        self._members = members
        self._identity = identity
        self._spool = spool
        self._starts: dict[str, int] = {}
        """Where large members that were opened are in the spool."""
        self._lock = threading.Lock()

    def open(self, path: str) -> BinaryIO:
        """A seekable stream of one file; see :meth:`kpacktools.trees.Tree.open`.

        A compressed member is held to its size and CRC-32 before its first byte is handed out; of a stored one,
        which is read in place, :meth:`blocks` checks them.
        """
        member = self._member(path)
        if member.method == _STORED:
            return io.BufferedReader(_Window(self._reopened(), member.start, member.entry.size))
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
        member = self._member(path)
        try:
            with self._reopened() as file:
                file.seek(member.start)
                yield from _verified(member, _unpacked(member, file))
        except (ArchiveError, zlib.error) as error:
            raise OSError(errno.EIO, f"it is damaged: {error}", f"{self.label}/{path}") from error

    def is_stored(self, path: str) -> bool:
        """True for a member that is not compressed. Raises :class:`OSError` where there is none."""
        return self._member(path).method == _STORED

    def local_path(self, path: str) -> None:
        """None: the files are in the wheel only."""

    def without(self, paths: Collection[str]) -> WheelTree:
        """The same tree without some of its files."""
        return WheelTree(
            self.label,
            {name: member for name, member in self._members.items() if name not in paths},
            {
                folder: [entry for entry in entries if entry.path not in paths]
                for folder, entries in self.folders.items()
            },
            self._identity,
            self._spool,
        )

    def _member(self, path: str) -> _Member:
        member = self._members.get(path)
        if member is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.label}/{path}")
        return member

    def _reopened(self) -> io.FileIO:
        """The wheel once more: each reader has its own position."""
        file = io.FileIO(self.label)
        if _identity(file) != self._identity:
            file.close()
            raise OSError(errno.EIO, "it changed since it was opened", self.label)
        return file

    def __repr__(self) -> str:
        return f"WheelTree({self.label!r}, {len(self.members)} files)"


class _Window(io.RawIOBase):
    """Some bytes of a file that nobody else reads."""

    def __init__(self, file: io.FileIO, start: int, size: int) -> None:
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
        return self._file.readinto(memoryview(buffer)[:rest]) or 0

    def close(self) -> None:
        self._file.close()
        super().close()


def _unpacked(member: _Member, file: io.FileIO) -> Iterator[bytes]:
    packed = _pieces(file, member.packed)
    return packed if member.method == _STORED else _inflated(packed)


def _pieces(file: io.FileIO, size: int) -> Iterator[bytes]:
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


def _verified(member: _Member, blocks: Iterable[bytes]) -> Iterator[bytes]:
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


@dataclass(frozen=True, slots=True)
class OpenedWheel:
    """What one look at a wheel gave."""

    tree: WheelTree
    findings: tuple[Finding, ...] = ()


def open_wheel(path: str, spool: Spool) -> OpenedWheel:
    """Scan a wheel: its central directory and the headers before the members; no member is decompressed.

    ``spool`` is where large compressed members go when they are opened; wheels that are used together share one.
    A damaged wheel is an empty tree and a finding; a member that cannot be read, or must not be installed, is a
    finding and not among the files. Of members with one name the last is, as for Python's :mod:`zipfile`.

    Findings: ``archive-invalid``, ``bad-path``, ``special-file``, ``wheel-record-invalid``.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read, or is no ZIP file at all.
    """
    try:
        with open(path, "rb") as stream:
            identity = _identity(stream)
            head = stream.read(4)
            if not head.startswith(b"PK"):
                begins = f"it begins with {head!r}" if head else "it is empty"
                raise CallError(f"{path} is no wheel: {begins}, and a ZIP file with 'PK'")
            scan = _Scan(path)
            try:
                scan.read(stream, identity[2])
            except ArchiveError as error:
                scan.fault("archive-invalid", str(error))
                return OpenedWheel(WheelTree(path, {}, {"": ()}, identity, spool), tuple(scan.findings))
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    tree = WheelTree(path, scan.members, scan.folders(), identity, spool)
    return OpenedWheel(tree, tuple(scan.findings))


def _identity(stream: BinaryIO | io.FileIO) -> _Identity:
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Scan:
    """What is learnt from the headers of one wheel."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folders = {""}
        self._names: set[str] = set()
        self._room = MAX_DIRECTORY
        self.members: dict[str, _Member] = {}
        self.findings: list[Finding] = []

    def read(self, stream: BinaryIO, size: int) -> None:
        """Read all headers of a file of ``size`` bytes. Raises :class:`ArchiveError` where it cannot be used."""
        end = _find_end(stream, size)
        if end.trailing:
            self._note("archive-invalid", f"{end.trailing:,} bytes follow the end of its archive")
        if end.length + end.members * _PER_NAME > self._room:
            raise ArchiveError("it holds more, or longer, names than fit in memory")
        stream.seek(end.start)
        headers = list(_central_headers(stream.read(end.length), end.members))
        starts = self._check_layout(stream, headers, end.start)
        for header in headers:
            self._add(header, starts[header.offset])
        total = sum(member.entry.size for member in self.members.values())
        if total > MAX_SIZE or (total > FREE_SIZE and total > MAX_RATIO * size):
            raise ArchiveError(f"its {size:,} bytes claim to hold {total:,}")
        for path in sorted(self._folders & self._names):
            self._note("archive-invalid", f"it holds {path!r} both as a folder and as a file")

    def folders(self) -> dict[str, Sequence[Entry]]:
        """The payload, as in :class:`kpacktools.trees.Tree`."""
        folders: dict[str, list[Entry]] = {
            folder: []
            for folder in sorted(self._folders, key=lambda folder: folder.split("/") if folder else [])
            if not _is_dist_info(folder)
        }
        for path in sorted(self.members):
            if not _is_dist_info(path):
                folders[path.rpartition("/")[0]].append(self.members[path].entry)
        return dict(folders)

    def _check_layout(self, stream: BinaryIO, headers: Iterable[_Header], end: int) -> dict[int, int]:
        """Follow the members from the first byte to ``end``: offset of each header -> where its data begins."""
        starts: dict[int, int] = {}
        ordered = sorted(headers, key=lambda header: header.offset)
        position = 0
        for index, header in enumerate(ordered):
            if header.offset != position:
                self._check_gap(position, header.offset)
            local, start = _local_header(stream, header.offset)
            position = start + header.packed
            following = ordered[index + 1].offset if index + 1 < len(ordered) else end
            if following < position:
                raise ArchiveError(f"its members overlap: {header.shown} reaches into what follows it")
            if header.flags & _DESCRIPTOR_FOLLOWS:
                position += self._check_descriptor(stream, header, following - position)
            if not header.agrees_with(local):
                self._note(
                    "archive-invalid",
                    f"its central directory and the header before {header.shown} contradict each other: what is "
                    "installed depends on the tool",
                )
            starts[header.offset] = start
        if position != end:
            self._check_gap(position, end)
        return starts

    def _check_gap(self, start: int, stop: int) -> None:
        self._note("archive-invalid", f"{stop - start:,} bytes at offset {start:,} belong to no member of it")

    def _check_descriptor(self, stream: BinaryIO, header: _Header, room: int) -> int:
        """The length of the data descriptor that a header announces, which is at the stream's position."""
        stream.seek(header.packed, os.SEEK_CUR)
        data = stream.read(min(room, _LONGEST_DESCRIPTOR))
        for expected in header.descriptors():
            if data == expected:
                return len(expected)
        self._note("archive-invalid", f"what follows the bytes of {header.shown} contradicts its directory")
        return room

    def _add(self, header: _Header, start: int) -> None:
        name = self._name(header)
        if name is None:
            return
        if name.endswith("/"):
            if header.size:
                self._note("archive-invalid", f"its folder {name!r} has data")
            self._add_folder(name[:-1])
            return
        if name in self._names:
            self._note(
                "wheel-record-invalid",
                f"it holds {name!r} more than once: what is installed depends on the tool",
            )
        self._names.add(name)
        mode = header.attributes >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
            self._note("special-file", f"{name!r} is {what}, which a wheel cannot hold")
        unreadable = _unreadable(header)
        if unreadable is not None:
            self._note("archive-invalid", f"its member {name!r} {unreadable}")
            self.members.pop(name, None)
            return
        self._add_folder(name.rpartition("/")[0])
        entry = Entry(name, header.size, stat.S_IFREG | (mode & 0o777 or 0o644))
        self.members[name] = _Member(entry, header.method, header.crc, header.packed, start)

    def _name(self, header: _Header) -> str | None:
        """A member's name, with the slash at the end of a folder's; None where it leads nowhere in the tree."""
        try:
            # Without the flag the name is in an unknown code page, of which only ASCII is common ground.
            name = header.name.decode("utf-8" if header.flags & _UTF8 else "ascii")
        except UnicodeDecodeError:
            self._note("bad-path", f"it holds {header.shown}, which is neither ASCII nor marked as UTF-8")
            return None
        other = header.extra.get(_EXTRA_UNICODE_PATH)
        if other is not None and other[5:] != header.name:
            self._note("archive-invalid", f"it holds {name!r} under a second name, {other[5:]!r}")
        if "\\" in name:
            self._note(
                "wheel-record-invalid",
                f"it holds {name!r}: a backslash is a folder for some tools, and part of the name for others",
            )
        elif _ODD.search(name.removesuffix("/")):
            self._note("bad-path", f"it holds {name!r}, which is no plain path inside it")
        elif len(name) > MAX_NAME:
            self._note("bad-path", f"it holds a name of {len(name):,} characters, {name[:80]!r}...")
        else:
            return name
        return None

    def _add_folder(self, folder: str) -> None:
        while folder not in self._folders:
            self._room -= len(folder) + _PER_NAME
            if self._room < 0:
                raise ArchiveError("it holds more, or longer, names than fit in memory")
            self._folders.add(folder)
            folder = folder.rpartition("/")[0]

    def _note(self, name: str, message: str) -> None:
        self.fault(name, message)
        if len(self.findings) > MAX_FAULTS:
            raise ArchiveError(f"it has more than {MAX_FAULTS} faults")

    def fault(self, name: str, message: str) -> None:
        """Take note of what is wrong with the wheel."""
        self.findings.append(
            finding(name, self._path, message, "build the wheel again with a tool that follows the format")
        )


def _is_dist_info(path: str) -> bool:
    return path.partition("/")[0].endswith(".dist-info")


class _Header(NamedTuple):
    """What a header says about a member, sizes and offset widened by its zip64 field."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    extra: Mapping[int, bytes]
    attributes: int = 0
    """External attributes: ``st_mode`` in the upper 16 bits."""
    offset: int = 0
    """Where the header before the member begins."""

    @property
    def shown(self) -> str:
        """The name for messages."""
        return repr(self.name.decode("utf-8", "backslashreplace")[:MAX_NAME])

    def agrees_with(self, local: _Header) -> bool:
        """True where the header before the member says the same; sizes and CRC-32 may be left to a descriptor."""
        if (self.name, self.method) != (local.name, local.method) or (self.flags ^ local.flags) & (
            _ENCRYPTED | _DESCRIPTOR_FOLLOWS | _UTF8
        ):
            return False
        other = local.extra.get(_EXTRA_UNICODE_PATH)
        if other is not None and other[5:] != self.name:
            return False
        pairs = ((self.crc, local.crc), (self.packed, local.packed), (self.size, local.size))
        later = self.flags & _DESCRIPTOR_FOLLOWS
        return all(theirs == mine or (later and theirs == 0) for mine, theirs in pairs)

    def descriptors(self) -> Iterator[bytes]:
        """The forms that the member's data descriptor may have (section 4.3.9)."""
        forms = [struct.pack("<L2Q", self.crc, self.packed, self.size)]
        if max(self.packed, self.size) <= _FULL32:
            forms.append(struct.pack("<3L", self.crc, self.packed, self.size))
        for form in forms:
            yield form
            yield b"PK\7\10" + form


def _unreadable(header: _Header) -> str | None:
    """Why a member's bytes cannot be had; None where they can."""
    if header.flags & _ENCRYPTED:
        return "is encrypted"
    if header.method not in (_STORED, _DEFLATED):
        return f"is compressed with method {header.method}, which wheels do not use"
    if header.method == _STORED and header.packed != header.size:
        return f"is stored in {header.packed:,} bytes and claims to have {header.size:,}"
    if header.size > (header.packed + 1) * _DEFLATE_RATIO:
        return f"claims to hold {header.size:,} bytes in {header.packed:,}"
    return None


class _End(NamedTuple):
    """What the end of an archive says."""

    start: int
    """Where the central directory begins."""
    length: int
    members: int
    trailing: int
    """Bytes behind the end."""


def _find_end(stream: BinaryIO, size: int) -> _End:
    reach = min(size, _END.size + _LONGEST_COMMENT)
    stream.seek(size - reach)
    tail = stream.read(reach)
    at = tail.rfind(b"PK\5\6", 0, reach - _END.size + 4)
    if at < 0:
        raise ArchiveError("it is cut, or something follows it: its central directory is not at its end")
    _, disk, first_disk, here, count, length, start, comment = _END.unpack_from(tail, at)
    position = size - reach + at
    trailing = size - position - _END.size - comment
    if trailing < 0:
        raise ArchiveError("it is cut in the comment at its end")
    if disk or first_disk or here != count:
        raise ArchiveError("it is one of several parts")
    end = _find_end64(stream, position)
    if end is not None:
        position, wide = end
        for narrow, value, full in zip(
            (count, length, start), wide, (_FULL16, _FULL32, _FULL32), strict=True
        ):
            if narrow not in (value, full):
                raise ArchiveError("its two end records contradict each other")
        count, length, start = wide
    if start + length != position:
        raise ArchiveError("its central directory is not where its end record says")
    return _End(start, length, count, trailing)


def _find_end64(stream: BinaryIO, position: int) -> tuple[int, tuple[int, int, int]] | None:
    """The zip64 end record before the end record at ``position``: where it begins, and members, bytes and start
    of the central directory; None where there is none."""
    at = position - _LOCATOR64.size
    if at < 0:
        return None
    stream.seek(at)
    magic, disk, start, disks = _LOCATOR64.unpack(stream.read(_LOCATOR64.size))
    if magic != b"PK\6\7":
        return None
    if start + _END64.size > at or disk or disks != 1:
        raise ArchiveError("its zip64 locator leads nowhere")
    stream.seek(start)
    magic, length, _, _, disk, first_disk, here, count, size, offset = _END64.unpack(stream.read(_END64.size))
    if magic != b"PK\6\6" or start + 12 + length != at or disk or first_disk or here != count:
        raise ArchiveError("its zip64 end record is damaged")
    return start, (count, size, offset)


def _central_headers(data: bytes, count: int) -> Iterator[_Header]:
    at = 0
    for _ in range(count):
        if data[at : at + 4] != b"PK\1\2" or at + _CENTRAL.size > len(data):
            raise ArchiveError("its central directory is damaged")
        (_, _, _, flags, method, _, _, crc, packed, size, *lengths, disk, _, attributes, offset) = (
            _CENTRAL.unpack_from(data, at)
        )
        name_at = at + _CENTRAL.size
        extra_at = name_at + lengths[0]
        at = extra_at + lengths[1] + lengths[2]
        extra = _extra_fields(data[extra_at : extra_at + lengths[1]])
        size, packed, offset = _widened(extra, size, packed, offset)
        if disk not in (0, _FULL16):
            raise ArchiveError("it is one of several parts")
        yield _Header(
            data[name_at:extra_at], flags, method, crc, packed, size, extra, attributes, offset=offset
        )
    if at != len(data):
        raise ArchiveError("its central directory does not hold as many members as its end record says")


def _local_header(stream: BinaryIO, offset: int) -> tuple[_Header, int]:
    """The header at ``offset``, and where the data behind it begins."""
    stream.seek(offset)
    fixed = stream.read(_LOCAL.size)
    if len(fixed) != _LOCAL.size or not fixed.startswith(b"PK\3\4"):
        raise ArchiveError(f"no member begins at offset {offset:,}, where its central directory has one")
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(fixed)
    name = stream.read(name_length)
    extra = _extra_fields(stream.read(extra_length))
    size, packed = _widened(extra, size, packed)
    start = offset + _LOCAL.size + name_length + extra_length
    return _Header(name, flags, method, crc, packed, size, extra), start


def _extra_fields(data: bytes) -> dict[int, bytes]:
    """The fields behind a name, by their numbers. Raises :class:`ArchiveError`, also where one comes twice."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            if data[at:].strip(b"\0"):
                raise ArchiveError("the extra field of a member is damaged")
            break  # padding, as zipalign leaves it
        number, length = struct.unpack_from("<2H", data, at)
        at += 4
        if at + length > len(data) or number in fields:
            raise ArchiveError("the extra field of a member is damaged")
        fields[number] = data[at : at + length]
        at += length
    return fields


def _widened(extra: Mapping[int, bytes], *values: int) -> list[int]:
    """Values, each of which that is all ones is in the zip64 field instead (section 4.5.3)."""
    field = extra.get(_EXTRA_ZIP64, b"")
    out = []
    at = 0
    for value in values:
        if value == _FULL32 and field:
            if at + 8 > len(field):
                raise ArchiveError("the zip64 field of a member is too short")
            (value,) = struct.unpack_from("<Q", field, at)
            at += 8
        out.append(value)
    return out
