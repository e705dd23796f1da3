"""Artifact archives: planned artifact directories as ``{name}.tar.zst`` or ``.tar.xz``, with ``.sha256sum`` beside.

>>> write_archives("out", plan.folders, form="zst", jobs=2)   # doctest: +SKIP
(WrittenArchive(path='out/hip_lib_gfx942.tar.zst', key='gfx942', ..., state='written'),)

Format: what TheRock's tools read. ``artifact_manifest.txt`` first, then files and links in the order of their
paths, without folders (every tool makes those that it needs); ustar headers, and pax ones where a name is too
long for them; zstd of level 3, xz of preset 6. The bytes depend on the plan, on ``SOURCE_DATE_EPOCH`` (0 where it
is not set) and on the version of the compression library, but not on the number of threads: owners are 0 and
without a name, modes 0644 or 0755.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Final, NamedTuple, Protocol

import zstandard
from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.outputs.comparing import Comparison
from kpacktools.outputs.members import GeneratedFiles, Member, blocks, check_names
from kpacktools.outputs.staging import (
    Staging,
    State,
    is_staging_name,
    refusals_named,
    resolve,
    same_file,
    stage,
)
from kpacktools.outputs.wheelmeta import source_date_epoch
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.progress import SILENT, Progress
from kpacktools.trees.checksum import CHECKSUM_SUFFIX, checksum_file, read_checksum
from kpacktools.trees.decompress import ArchiveForm
from kpacktools.trees.names import MANIFEST_NAME

__all__ = [
    "ArchiveForm",
    "PackedArchive",
    "WrittenArchive",
    "archive_name",
    "compare_archive",
    "pack_archive",
    "write_archives",
]

_ZSTD_LEVEL: Final = 3
_ZSTD_JOB: Final = 2 << 20
"""Bytes that a thread compresses at a time; another size gives other bytes. zstd would choose 8 MiB, which saves a
tenth on kernels that resemble each other and takes three times the memory."""
_XZ_PRESET: Final = 6
_UNIT: Final = 512
_RECORD: Final = 10240
_READ: Final = 1 << 20


class WrittenArchive(Struct, frozen=True):
    """One archive and what became of it."""

    path: str
    """Where it is, below OUT as the user wrote it."""
    key: str
    """Target key of the part, or ``generic``."""
    files: int
    """Files and links in it, without ``artifact_manifest.txt``."""
    size: int
    """Bytes of the archive."""
    sha256: str
    """Of the archive, in hexadecimal."""
    state: State
    """``kept`` where it was there already with the same bytes."""


class PackedArchive(NamedTuple):
    """An archive in a staging folder."""

    size: int
    """Bytes."""
    sha256: str


Packer = Callable[[Staging, Sequence[PlannedFolder], ArchiveForm, int], list[PackedArchive]]
"""Packs folders into a staging folder, with checksum files; the last argument is the time of all members."""


class _Compressor(Protocol):
    """A stream that compresses what is written to it; the stream below stays open."""

    def write(self, data: bytes, /) -> object:
        """Compress the next bytes."""

    def close(self) -> object:
        """Finish."""


class _Digest:
    """A stream that passes on what is written to it, and knows its size and sha256."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        self.size += len(data)
        self._write(data)
        return len(data)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


class _Packing(Struct, frozen=True):
    """How archives are packed."""

    form: ArchiveForm
    threads: int
    """For each archive; the bytes do not depend on it."""
    time: int
    """Of every member, in seconds since 1970."""
    progress: Progress
    stopped: threading.Event
    """Set when the work is of no use any more."""


def archive_name(folder: PlannedFolder, form: ArchiveForm) -> str:
    """The file name of a folder's archive."""
    return f"{folder.name}.tar.{form}"


def write_archives(
    out: str | os.PathLike[str],
    folders: Sequence[PlannedFolder],
    *,
    form: ArchiveForm,
    replace: bool = False,
    jobs: int = 1,
    progress: Progress = SILENT,
    pack: Packer | None = None,
) -> tuple[WrittenArchive, ...]:
    """Write the planned folders as archives into ``out``, all of them or none, with ``jobs`` threads or by ``pack``.

    An archive that is there with the same bytes is kept; one with other bytes is replaced with ``replace``, and
    is else an error. The result has the order of ``folders``. xz takes 94 MiB a thread, zstd 10.

    Raises :class:`~kpacktools.errors.CallError` for a plan that is no set of artifact directories, where an
    archive is there with other bytes, an input is not what was scanned, or the system refuses.
    """
    if not folders:
        return ()
    _check(folders)
    label = os.fspath(out)
    names = [archive_name(folder, form) for folder in folders]
    with stage(label) as staging:
        if pack is not None:
            with refusals_named(label):
                packed = pack(staging, folders, form, _time())
        else:
            packed = _pack_all(folders, staging, form, jobs, progress)
        states = _settle(staging, names, replace)
    return tuple(
        WrittenArchive(
            path=os.path.join(label, name),
            key=folder.key,
            files=folder.count,
            size=done.size,
            sha256=done.sha256,
            state=states[name],
        )
        for name, folder, done in zip(names, folders, packed, strict=True)
    )


def compare_archive(
    out: str | os.PathLike[str],
    folder: PlannedFolder,
    *,
    form: ArchiveForm,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> Comparison:
    """What :func:`write_archives` would find at the archive's destination; nothing is written.

    Where something is there, the archive is made and thrown away, to know its digest.

    Raises :class:`~kpacktools.errors.CallError` as :func:`write_archives` does.
    """
    _check([folder])
    path = os.path.join(resolve(out), archive_name(folder, form))
    if not os.path.lexists(path):
        return "absent"
    planned = _Digest(lambda data: None)
    _pack(folder, planned, _packing(form, jobs, progress))
    try:
        known = read_checksum(path)
    except ValueError:
        return "differs"
    found = {_file_digest(path)} | ({known} if known else set())
    return "equal" if found == {planned.hexdigest()} else "differs"


def _check(folders: Sequence[PlannedFolder]) -> None:
    """The last look at a plan before it is acted on.

    Planning has named such mistakes as findings long before; this only keeps them out of an archive.
    """
    names: set[str] = set()
    for folder in folders:
        name = folder.name
        if folder.manifest is None or not name:
            raise CallError("an install prefix is no artifact: only artifact directories become archives")
        if name in names:
            raise CallError(f"the plan has two folders for {name}")
        if name != os.path.basename(name) or is_staging_name(name):
            raise CallError(f"{name!r} cannot be the name of an archive")
        names.add(name)
        _check_files(folder)


def _check_files(folder: PlannedFolder) -> None:
    try:
        check_names([*_manifest(folder).members(), *map(_member, folder.files)])
    except ValueError as error:
        raise CallError(f"{folder.name}: {error}") from error
    paths = {file.dest for file in folder.files}
    for parent in {path.rpartition("/")[0] for path in paths}:
        while parent:
            if parent in paths:
                raise CallError(f"{folder.name}: {parent} is a file and a folder")
            parent = parent.rpartition("/")[0]
    for file in folder.files:
        if not stat.S_ISREG(file.entry.mode) and not stat.S_ISLNK(file.entry.mode):
            raise CallError(f"{file.tree.label}/{file.entry.path} is neither a file nor a link")


def _pack_all(
    folders: Sequence[PlannedFolder], staging: Staging, form: ArchiveForm, jobs: int, progress: Progress
) -> list[PackedArchive]:
    """Pack archives into a staging folder, several at once; the error raised is that of the first in order."""
    workers = min(max(1, jobs), len(folders))
    packing = _packing(form, jobs // workers, progress)
    with ThreadPoolExecutor(workers) as pool, refusals_named(staging.out):
        # The largest first, so that it is not the one that all others have to wait for.
        running = {
            index: pool.submit(
                _pack_file, folders[index], staging.path(archive_name(folders[index], form)), packing
            )
            for index in sorted(range(len(folders)), key=lambda index: -folders[index].size)
        }
        try:
            return [running[index].result() for index in range(len(folders))]
        finally:
            packing.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _packing(form: ArchiveForm, threads: int, progress: Progress) -> _Packing:
    return _Packing(form, max(1, threads), _time(), progress, threading.Event())


def _time() -> int:
    return max(0, source_date_epoch())


def pack_archive(path: str, folder: PlannedFolder, form: ArchiveForm, time: int) -> PackedArchive:
    """Pack one folder into the new file ``path``, and its checksum beside it, with one thread.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    return _pack_file(folder, path, _Packing(form, 1, time, SILENT, threading.Event()))


def _pack_file(folder: PlannedFolder, path: str, packing: _Packing) -> PackedArchive:
    """One archive and its checksum."""
    with open(path, "xb") as sink:
        digest = _Digest(sink.write)
        _pack(folder, digest, packing)
    with open(path + CHECKSUM_SUFFIX, "xb") as checksum:
        checksum.write(checksum_file(digest.hexdigest()))
    return PackedArchive(digest.size, digest.hexdigest())


def _pack(folder: PlannedFolder, sink: _Digest, packing: _Packing) -> None:
    with closing(_compressor(sink, packing)) as stream:
        size = 0
        for piece in _tar(folder, packing):
            stream.write(piece)
            size += len(piece)
        stream.write(bytes(2 * _UNIT + -(size + 2 * _UNIT) % _RECORD))


def _compressor(sink: _Digest, packing: _Packing) -> _Compressor:
    if packing.form == "xz":
        # (the stubs ask for more of a file than LZMAFile does)
        return lzma.LZMAFile(sink, "wb", check=lzma.CHECK_CRC64, preset=_XZ_PRESET)  # type: ignore[arg-type]
    # 0 threads would give other bytes than any other number, and so would a size that is declared.
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _ZSTD_LEVEL,
        threads=packing.threads,
        job_size=_ZSTD_JOB,
        write_checksum=True,
        write_content_size=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters).stream_writer(sink, closefd=False)  # type: ignore[arg-type]


def _tar(folder: PlannedFolder, packing: _Packing) -> Iterator[bytes]:
    """The tar stream of a folder, without the end mark."""
    for member in _manifest(folder).members():
        yield _header(member, packing.time)
        yield from _data(member)
    for file in folder.files:
        if packing.stopped.is_set():
            return
        member = _member(file)
        yield _header(member, packing.time, file.entry.link)
        if not file.entry.link:
            yield from _data(member)
        packing.progress.advance(files=1, size=member.size)


def _manifest(folder: PlannedFolder) -> GeneratedFiles:
    return GeneratedFiles([(MANIFEST_NAME, folder.manifest or b"")])


def _member(file: PlannedFile) -> Member:
    dest, tree, entry = file
    return Member(dest, tree, entry.path, entry.size, entry.mode)


def _header(member: Member, time: int, link: str = "") -> bytes:
    """A member's header blocks; of the mode only the exec bit is kept."""
    info = tarfile.TarInfo(member.arcname)
    info.mtime = time
    if link:
        info.type = tarfile.SYMTYPE
        info.linkname = link
        info.mode = 0o777
    else:
        info.size = member.size
        info.mode = 0o755 if member.mode & 0o111 else 0o644
    if member.arcname.isascii() and link.isascii():
        with suppress(ValueError):  # a long name or a large file; all others take one block instead of three
            return info.tobuf(tarfile.USTAR_FORMAT, "ascii")
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8")


def _data(member: Member) -> Iterator[bytes]:
    """A file's bytes and what fills up the last unit."""
    try:
        yield from blocks(member)
    except OSError as error:
        raise CallError(
            f"cannot read {member.tree.label}/{member.path}: {error.strerror or error}"
        ) from error
    yield bytes(-member.size % _UNIT)


def _settle(staging: Staging, names: Sequence[str], replace: bool) -> dict[str, State]:
    """Publish what was packed, apart from what is there already with the same content."""
    states: dict[str, State] = {}
    with refusals_named(staging.out):
        for name in (name + suffix for name in names for suffix in ("", CHECKSUM_SUFFIX)):
            staged, final = staging.path(name), os.path.join(staging.target, name)
            if os.path.lexists(final):
                if _same(staged, final):
                    os.unlink(staged)
                    states[name] = "kept"
                elif not replace:
                    path = os.path.join(staging.out, name)
                    raise CallError(f"{path} is there with other content; --replace replaces it")
    return states | staging.publish(replace=replace, same=_same)


def _same(staged: str, existing: str) -> bool:
    """True where both have the same bytes, or both are checksum files of the same digest."""
    if not staged.endswith(CHECKSUM_SUFFIX):
        return same_file(staged, existing)
    try:
        digests = [read_checksum(path.removesuffix(CHECKSUM_SUFFIX)) for path in (staged, existing)]
    except ValueError:
        return False
    return digests[0] == digests[1]


def _file_digest(path: str) -> str:
    digest = _Digest(lambda data: None)
    with refusals_named(path), open(path, "rb") as stream:
        while data := stream.read(_READ):
            digest.write(data)
    return digest.hexdigest()
