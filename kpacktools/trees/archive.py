"""A tree in an artifact archive, ``{name}_{component}_{key}.tar.zst`` or ``.tar.xz``, scanned once as a stream.

Opening an archive decompresses it to the end and keeps names, sizes, modes and links; nothing is unpacked. The
first file that somebody opens has the tar stream decompressed once more, into a spool on disk, out of which this
and every other file is then read. A command that looks at names only, such as ``inspect --depth layout``, writes
nothing to disk.

What is in an archive is what TheRock's tools put there: regular files, links, folders, and hard links, which
stand for a copy of what they lead to (Python's tarfile makes one of each further name of a file). Whatever else
there is, or could mislead one tool where another is not misled, is a finding of severity error.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.limits import allowed
from kpacktools.trees import Entry
from kpacktools.trees.access import Access
from kpacktools.trees.checksum import CHECKSUM_SUFFIX, LONGEST_CHECKSUM, digest_in
from kpacktools.trees.decompress import ArchiveError, ArchiveForm, decompressed
from kpacktools.trees.names import MANIFEST_NAME, MAX_MANIFEST, archive_stem
from kpacktools.trees.sources import LocalSource, Source, source_digest
from kpacktools.trees.spool import Spool
from kpacktools.trees.tarstream import TarMember, TarStream
from kpacktools.trees.windows import windowed

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["ArchiveTree", "OpenedArchive", "open_archive"]

MAX_INDEX: Final = 256 << 20
"""Characters of all names, paths and links of an archive, counting 256 more for each: what they take in memory."""
MAX_FAULTS: Final = 100
"""Faulty members after which an archive is refused as a whole."""

_PER_NAME: Final = 256


class ArchiveTree:
    """The files of an artifact archive, without ``artifact_manifest.txt``; made by :func:`open_archive`."""

    __slots__ = (
        "_cache",
        "_data",
        "_identity",
        "_lock",
        "_size",
        "_source",
        "_spool",
        "_start",
        "folders",
        "label",
    )

    is_distant = False
    """Opening a file is cheap once the first one was opened."""

    def __init__(
        self,
        source: Source,
        folders: Mapping[str, Sequence[Entry]],
        data: Mapping[str, range],
        size: int,
        spool: Spool,
        identity: str | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.label = source.label
        self.folders = folders
        self._data = data
        """Path of a regular file -> where its bytes are in the tar stream."""
        self._size = size
        self._source = source
        self._spool = spool
        self._start: int | None = None
        self._lock = threading.Lock()
        self._identity = identity
        """What tells the archive's bytes from any other's; None where nothing is remembered of it."""
        self._cache = cache

    @property
    def source(self) -> Source:
        """Where its bytes are."""
        return self._source

    def open(self, path: str) -> BinaryIO:
        """A seekable stream of one regular file; see :meth:`kpacktools.trees.Tree.open`."""
        data = self._range(path)
        name = self.identity(path)
        if self._cache is None or name is None:
            return self._unpacked(data)
        blocks = self._cache.blocks(name)

        def fetch(start: int, stop: int) -> bytes:
            with self._unpacked(data) as stream:
                stream.seek(start)
                return stream.read(stop - start)

        return windowed(fetch, len(data), blocks, blocks.save)

    def open_whole(self, path: str) -> BinaryIO:
        """As :meth:`open`, and nothing of it is remembered."""
        return self._unpacked(self._range(path))

    def open_to_copy(self, path: str) -> BinaryIO:
        """As :meth:`open_whole`."""
        return self.open_whole(path)

    def hold(self, path: str) -> None:
        """None: what is unpacked stays."""

    def identity(self, path: str) -> str | None:
        """What tells a file's bytes from any other's: the archive, and where in it they are."""
        data = self._range(path)
        return None if self._identity is None else f"{self._identity} {data.start} {data.stop}"

    def _range(self, path: str) -> range:
        data = self._data.get(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.label}/{path}")
        return data

    def _unpacked(self, data: range) -> BinaryIO:
        with self._lock:
            if self._start is None:
                self._start = self._unpack()
        return self._spool.open(self._start + data.start, len(data))

    def local_path(self, path: str) -> None:
        """None: the files are in the archive only."""

    def _unpack(self) -> int:
        with self._source.open() as stream:
            try:
                start = self._spool.store(decompressed(stream, _form(self.label)), self._size)
            except ArchiveError as error:
                raise OSError(errno.EIO, f"{self.label}: {error}") from error
        self._source.release()
        return start

    def __repr__(self) -> str:
        return f"ArchiveTree({self.label!r}, {len(self.folders)} folders)"


class OpenedArchive(Struct, frozen=True):
    """What one look at an archive gave."""

    tree: ArchiveTree
    manifest: bytes
    """The content of ``artifact_manifest.txt``."""
    findings: tuple[Finding, ...] = ()


def open_archive(
    path: str, spool: Spool, source: Source | None = None, access: Access = Access()
) -> OpenedArchive:
    """Scan an artifact archive, and compare it with the ``.sha256sum`` file beside it where there is one.

    ``spool`` is where its files go when one is opened; archives that are used together share one. A damaged
    archive, and one without a manifest, is an empty tree and a finding. ``source`` is where its bytes are, this
    machine by default; a stream of them is read once.

    Findings: ``archive-invalid``, ``digest-mismatch``, ``bad-path``, ``symlink-escape``. Devices and the like
    are entries, as in a directory.

    Raises :class:`~kpacktools.errors.CallError` where a file cannot be read.
    """
    source = source or LocalSource(path)
    found: list[Finding] = []
    expected = None
    try:
        checksum = source.beside(CHECKSUM_SUFFIX, LONGEST_CHECKSUM)
        expected = None if checksum is None else digest_in(checksum, path)
    except ValueError as error:
        found.append(finding("archive-invalid", path + CHECKSUM_SUFFIX, str(error), "write the file anew"))
    try:
        identity = _identity_of(source, access)
        known = _recall(source, identity, access)
        if known is None:
            known = _scan(source, with_digest=expected is not None or access.cache is not None)
            _keep(source, identity, known, access)
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    if known.fault is not None:
        found.append(finding("archive-invalid", path, known.fault, "fetch or make the archive again"))
        return OpenedArchive(ArchiveTree(source, {"": ()}, {}, 0, spool), b"", (*found, *known.findings))
    if expected is not None and known.digest != expected:
        found.append(
            finding(
                "digest-mismatch",
                path,
                f"its sha256 is {known.digest}, and not {expected} as {CHECKSUM_SUFFIX} beside it says",
                "fetch both again, from one run",
            )
        )
    tree = ArchiveTree(source, known.folders, known.data, known.size, spool, identity, access.cache)
    return OpenedArchive(tree, known.manifest, (*found, *known.findings))


class _Scanned(Struct, frozen=True):
    """What the bytes of an archive say, wherever they lie."""

    folders: Mapping[str, Sequence[Entry]]
    data: Mapping[str, range]
    size: int
    manifest: bytes
    digest: str | None
    """sha256 of the file; None where nobody asked for it."""
    findings: tuple[Finding, ...]
    fault: str | None = None
    """Why it cannot be used at all."""


def _scan(source: Source, *, with_digest: bool) -> _Scanned:
    digest = hashlib.sha256()
    with source.open() as stream:
        index = _Index(source.label)
        try:
            tar = TarStream(decompressed(stream, _form(source.label), digest if with_digest else None))
            index.read(tar)
        except ArchiveError as error:
            return _Scanned({"": ()}, {}, 0, b"", None, tuple(index.findings), str(error))
    said = digest.hexdigest() if with_digest else None
    return _Scanned(index.folders(), index.data, tar.size, index.manifest, said, tuple(index.findings))


class _Kept(msgspec.Struct, array_like=True):
    """A scan as it is kept between runs; of damaged archives nothing is."""

    folders: list[str]
    entries: list[tuple[str, int, int, str]]
    data: list[tuple[str, int, int]]
    size: int
    manifest: bytes
    digest: str


def _identity_of(source: Source, access: Access) -> str | None:
    """What tells the archive's bytes from any other's; None where nothing is kept."""
    if access.cache is None:
        return None
    known = source.identity()
    return known if known is not None else source_digest(source)


def _recall(source: Source, identity: str | None, access: Access) -> _Scanned | None:
    if access.cache is None or identity is None:
        return None
    kept = access.cache.get_value("archive", _Kept, identity, _form(source.label), allowed())
    if kept is None:
        return None
    folders: dict[str, list[Entry]] = {folder: [] for folder in kept.folders}
    for values in kept.entries:
        folders[values[0].rpartition("/")[0]].append(Entry(*values))
    data = {path: range(start, stop) for path, start, stop in kept.data}
    return _Scanned(dict(folders), data, kept.size, kept.manifest, kept.digest, ())


def _keep(source: Source, identity: str | None, scanned: _Scanned, access: Access) -> None:
    # What is wrong with an archive is worth another look: it is said in terms of its path.
    if (
        access.cache is None
        or identity is None
        or scanned.fault
        or scanned.findings
        or scanned.digest is None
    ):
        return
    kept = _Kept(
        list(scanned.folders),
        [(*entry,) for entries in scanned.folders.values() for entry in entries],
        [(path, data.start, data.stop) for path, data in scanned.data.items()],
        scanned.size,
        scanned.manifest,
        scanned.digest,
    )
    access.cache.put_value("archive", kept, identity, _form(source.label), allowed())


class _Index:
    """What is learnt from the members of one archive."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._folders = {""}
        self._room = MAX_INDEX
        self.data: dict[str, range] = {}
        self.findings: list[Finding] = []
        self.manifest = b""

    def read(self, tar: TarStream) -> None:
        """Go through all members. Raises :class:`ArchiveError` where the archive cannot be used at all."""
        has_manifest = False
        for number, member in enumerate(tar):
            self._account(member.name, member.link)
            path = _inside(member.name)
            if path == MANIFEST_NAME and not has_manifest:
                has_manifest = True
                self._read_manifest(number, member, tar)
            else:
                self._add(path, member)
        if not has_manifest:
            raise ArchiveError(f"it holds no {MANIFEST_NAME}")
        for path in sorted(self._folders & self._entries.keys()):
            self._fault("archive-invalid", f"holds {path!r} both as a folder and as something else")

    def folders(self) -> dict[str, Sequence[Entry]]:
        """As in :class:`kpacktools.trees.Tree`."""
        folders: dict[str, list[Entry]] = {}
        for folder in sorted(self._folders, key=_depth_first):
            folders[folder] = []
        for path in sorted(self._entries):
            folders[path.rpartition("/")[0]].append(self._entries[path])
        return dict(folders)

    def _read_manifest(self, number: int, member: TarMember, tar: TarStream) -> None:
        if not _has_data(member) or member.size > MAX_MANIFEST:
            raise ArchiveError(
                f"its {MANIFEST_NAME} is no regular file, or has more than {MAX_MANIFEST:,} bytes"
            )
        self.manifest = tar.read()
        if number or member.name != MANIFEST_NAME:
            self._fault(
                "archive-invalid", f"its first member is not {MANIFEST_NAME}, which TheRock's tools expect"
            )

    def _add(self, path: str | None, member: TarMember) -> None:
        name = member.name
        if stat.S_ISDIR(member.mode) and path is not None:
            self._add_folder(path)
            return
        if not path:
            self._fault("bad-path", f"holds {name!r}, which is no path inside it")
        elif path in self._entries or path == MANIFEST_NAME:
            self._fault("archive-invalid", f"holds {name!r} more than once")
        elif member.hard:
            self._add_hard_link(path, member)
        else:
            self._enter(Entry(path, member.size, member.mode, member.link))
            if _has_data(member):
                self.data[path] = range(member.offset, member.offset + member.size)

    def _add_hard_link(self, path: str, member: TarMember) -> None:
        target = _inside(member.link)
        if not target:
            self._fault(
                "bad-path", f"holds {path!r} as a hard link to {member.link!r}, which is not inside it"
            )
        elif target not in self._entries:
            self._fault(
                "archive-invalid",
                f"holds {path!r} as a hard link to {member.link!r}, which does not come before it",
            )
        else:
            self._enter(self._entries[target]._replace(path=path))
            if target in self.data:
                self.data[path] = self.data[target]

    def _enter(self, entry: Entry) -> None:
        self._entries[entry.path] = entry
        self._add_folder(entry.path.rpartition("/")[0])
        if stat.S_ISLNK(entry.mode) and _leads_out(entry):
            self.findings.append(
                finding(
                    "symlink-escape",
                    os.path.join(self._path, entry.path),
                    f"leads out of its stage prefix, to {entry.link!r}",
                    "make it a relative link inside the prefix",
                )
            )

    def _add_folder(self, folder: str) -> None:
        while folder not in self._folders:
            self._account(folder)
            self._folders.add(folder)
            folder = folder.rpartition("/")[0]

    def _account(self, *names: str) -> None:
        self._room -= sum(map(len, names)) + _PER_NAME
        if self._room < 0:
            raise ArchiveError("it holds more, or longer, names than fit in memory")

    def _fault(self, name: str, message: str) -> None:
        self.findings.append(finding(name, self._path, message, "make the archive again from a clean tree"))
        if len(self.findings) > MAX_FAULTS:
            raise ArchiveError(f"more than {MAX_FAULTS} of its members are faulty")


def _form(path: str) -> ArchiveForm:
    if archive_stem(path) is None:
        raise CallError(f"{path}: expected an artifact archive, .tar.zst or .tar.xz")
    return "zst" if path.endswith(".zst") else "xz"


def _has_data(member: TarMember) -> bool:
    return stat.S_ISREG(member.mode) and not member.hard


def _inside(name: str) -> str | None:
    """A member's name as a path below the root, without ``.`` and double slashes; empty for the root itself,
    None for a name that leads elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts else "/".join(parts)


def _leads_out(entry: Entry) -> bool:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), entry.link))
    return target.startswith("/") or target.split("/", 1)[0] == ".."


def _depth_first(folder: str) -> list[str]:
    return folder.split("/") if folder else []
