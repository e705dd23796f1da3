"""What the headers of a wheel say, and where they contradict each other; no member is decompressed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final, NamedTuple

from kpacktools.findings import Finding, finding
from kpacktools.limits import FREE_SIZE, max_ratio, max_size, too_dense, too_large
from kpacktools.trees import Entry
from kpacktools.trees.decompress import ArchiveError
from kpacktools.trees.zipheaders import (
    DESCRIPTOR_FOLLOWS,
    ENCRYPTED,
    EXTRA_UNICODE_PATH,
    LONGEST_DESCRIPTOR,
    MAX_NAME,
    Header,
    central_headers,
    find_end,
    local_header,
)
from kpacktools.zipstructs import DEFLATED, FLAG_UTF8, STORED

__all__ = ["WheelMember", "WheelScan", "located"]

MAX_DIRECTORY: Final = 128 << 20
"""Bytes of a central directory, and of all folder names, counting 256 more for each: what they take in memory."""
MAX_RATIO: Final = 200
"""Bytes of all members for each byte of the wheel, once there are more than ``FREE_SIZE`` of them; real wheels
have 2 to 5."""
MAX_FAULTS: Final = 100
"""Faulty members after which a wheel is refused as a whole."""

_DEFLATE_RATIO: Final = 1032
"""Bytes that one byte of a deflate stream can stand for, at most."""
_PER_NAME: Final = 256
_LEAST_HEADER: Final = 30
"""Bytes of the header before a member, without name and extra fields (section 4.3.7)."""

# Control characters; absolute paths, empty and dot components; drive letters.
_ODD: Final = re.compile("[\x00-\x1f\x7f]|(?:^|/)\\.{0,2}(?:/|$)|^[A-Za-z]:")


class WheelMember(NamedTuple):
    """A file in the archive that can be read (a tuple: there are very many)."""

    entry: Entry
    method: int
    crc: int
    packed: int
    """Bytes in the archive."""
    start: int
    """Where these begin; where the header before them does, if that was not read yet."""
    header: Header | None = None
    """What the central directory says, if the header before the bytes was not read yet."""


def located(stream: BinaryIO, member: WheelMember) -> WheelMember:
    """A member of a partial scan, with the header before it read.

    Raises :class:`ArchiveError` where that contradicts the central directory; :class:`OSError`.
    """
    if member.header is None:
        return member
    local, start = local_header(stream, member.start)
    if not member.header.agrees_with(local):
        raise ArchiveError("its central directory and the header before it contradict each other")
    return member._replace(start=start, header=None)


class WheelScan:
    """What is learnt from the headers of one wheel."""

    def __init__(self, path: str, *, partial: bool = False) -> None:
        """``partial`` leaves out the headers before the members, for a wheel that is far away."""
        self._path = path
        self._partial = partial
        self._folders = {""}
        self._names: set[str] = set()
        self._room = MAX_DIRECTORY
        self.members: dict[str, WheelMember] = {}
        self.findings: list[Finding] = []

    def read(self, stream: BinaryIO, size: int) -> None:
        """Read all headers of a file of ``size`` bytes. Raises :class:`ArchiveError` where it cannot be used."""
        end = find_end(stream, size)
        if end.trailing:
            self._note("archive-invalid", f"{end.trailing:,} bytes follow the end of its archive")
        if end.length + end.members * _PER_NAME > self._room:
            raise ArchiveError("it holds more, or longer, names than fit in memory")
        stream.seek(end.start)
        headers = list(central_headers(stream.read(end.length), end.members))
        if self._partial:
            _check_room(headers, end.start)
        starts = {} if self._partial else self._check_layout(stream, headers, end.start)
        for header in headers:
            self._add(header, starts.get(header.offset))
        total = sum(member.entry.size for member in self.members.values())
        most, ratio = max_size(), max_ratio(MAX_RATIO)
        if total > most:
            raise ArchiveError(f"it {too_large(most)}")
        if total > FREE_SIZE and total > ratio * size:
            raise ArchiveError(f"its {too_dense(size, ratio)}")
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

    def _check_layout(self, stream: BinaryIO, headers: Iterable[Header], end: int) -> dict[int, int]:
        """Follow the members from the first byte to ``end``: offset of each header -> where its data begins."""
        starts: dict[int, int] = {}
        ordered = sorted(headers, key=lambda header: header.offset)
        position = 0
        for index, header in enumerate(ordered):
            if (
                header.offset >= end
            ):  # before anybody seeks there: a zip64 offset may be beyond what a system takes
                raise ArchiveError(
                    f"{header.shown} should begin at offset {header.offset:,}, behind all members"
                )
            if header.offset != position:
                self._check_gap(position, header.offset)
            local, start = local_header(stream, header.offset)
            position = start + header.packed
            following = ordered[index + 1].offset if index + 1 < len(ordered) else end
            if following < position:
                raise ArchiveError(f"its members overlap: {header.shown} reaches into what follows it")
            if header.flags & DESCRIPTOR_FOLLOWS:
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

    def _check_descriptor(self, stream: BinaryIO, header: Header, room: int) -> int:
        """The length of the data descriptor that a header announces, which is at the stream's position."""
        stream.seek(header.packed, os.SEEK_CUR)
        data = stream.read(min(room, LONGEST_DESCRIPTOR))
        for expected in header.descriptors():
            if data == expected:
                return len(expected)
        self._note("archive-invalid", f"what follows the bytes of {header.shown} contradicts its directory")
        return room

    def _add(self, header: Header, start: int | None) -> None:
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
        place = (header.offset, header) if start is None else (start, None)
        self.members[name] = WheelMember(entry, header.method, header.crc, header.packed, *place)

    def _name(self, header: Header) -> str | None:
        """A member's name, with the slash at the end of a folder's; None where it leads nowhere in the tree."""
        try:
            # Without the flag the name is in an unknown code page, of which only ASCII is common ground.
            name = header.name.decode("utf-8" if header.flags & FLAG_UTF8 else "ascii")
        except UnicodeDecodeError:
            self._note("bad-path", f"it holds {header.shown}, which is neither ASCII nor marked as UTF-8")
            return None
        other = header.extra.get(EXTRA_UNICODE_PATH)
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


def _check_room(headers: Iterable[Header], end: int) -> None:
    """That members do not overlap, as far as the central directory tells. Raises :class:`ArchiveError`."""
    position = 0
    for header in sorted(headers, key=lambda header: header.offset):
        if header.offset < position:
            raise ArchiveError(f"its members overlap: {header.shown} begins inside what comes before it")
        position = header.offset + _LEAST_HEADER + len(header.name) + header.packed
    if position > end:
        raise ArchiveError("its members reach into its central directory")


def _unreadable(header: Header) -> str | None:
    """Why a member's bytes cannot be had; None where they can."""
    if header.flags & ENCRYPTED:
        return "is encrypted"
    if header.method not in (STORED, DEFLATED):
        return f"is compressed with method {header.method}, which wheels do not use"
    if header.method == STORED and header.packed != header.size:
        return f"is stored in {header.packed:,} bytes and claims to have {header.size:,}"
    if header.size > (header.packed + 1) * _DEFLATE_RATIO:
        return f"claims to hold {header.size:,} bytes in {header.packed:,}"
    return None


def _is_dist_info(path: str) -> bool:
    return path.partition("/")[0].endswith(".dist-info")
