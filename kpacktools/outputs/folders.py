"""Folders: artifact directories and install prefixes, written from their plans.

>>> write_folders("out", plan.folders, link="hardlink", jobs=2)   # doctest: +SKIP
(WrittenFolder(name='hip_lib_gfx942', path='out/hip_lib_gfx942', key='gfx942', state='written', ...),)
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal, NamedTuple

from kpacktools.errors import CallError
from kpacktools.outputs import transfer
from kpacktools.outputs.staging import State, clean_around, is_vacant, refusals_named, resolve, stage
from kpacktools.outputs.transfer import LinkMode, OpenFolder
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.progress import SILENT, Progress
from kpacktools.trees import is_link
from kpacktools.trees.names import MANIFEST_NAME, is_staging_name

__all__ = ["MANIFEST_NAME", "Comparison", "WrittenFolder", "compare_folder", "write_folders"]

Comparison = Literal["absent", "equal", "differs"]
"""What is at a folder's destination before it is written; an empty folder counts as absent."""

_BATCH_FILES = 256
_BATCH_BYTES = 64 << 20
_WORTH_OPENING = 4
_EXEC_BITS = 0o111 if os.name == "posix" else 0
_NOT_IN_A_PATH = frozenset(("", ".", ".."))


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """One output folder and what became of it."""

    name: str
    """The folder's name below OUT; empty where OUT itself is the folder."""
    path: str
    """Where it is, below OUT as the user wrote it."""
    key: str
    """Target key of the part, or ``generic``."""
    state: State
    """``kept`` where it was there already and equals the plan."""
    files: int
    """Files and links in it, without ``artifact_manifest.txt``."""
    bytes: int
    """Their size in all."""


class _Batch(NamedTuple):
    """Some neighbouring files of one folder, enough to be worth a worker's while."""

    root: str
    files: tuple[PlannedFile, ...]
    start: int
    stop: int
    size: int


def write_folders(
    out: str | os.PathLike[str],
    folders: Sequence[PlannedFolder],
    *,
    link: LinkMode = "auto",
    replace: bool = False,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> tuple[WrittenFolder, ...]:
    """Write the planned folders below ``out``, all of them or none; what equals its plan already is kept.

    A folder that is there and differs is replaced with ``replace``, and is else an error, before anything is
    written. ``jobs`` threads share the work; the result does not depend on their number. The result has the
    order of ``folders``. ``progress`` is told about every file of every folder, also of those that are kept.

    Raises :class:`~kpacktools.errors.CallError` where a folder differs from its plan, a plan offers one
    destination twice or leaves its folder, an input is not what was scanned, or the system refuses.
    """
    if not folders:
        return ()
    parents = _check(folders)
    label = os.fspath(out)
    states: dict[str, State] = {}
    missing: list[PlannedFolder] = []
    for folder in folders:
        found, difference = _compare(label, folder)
        if found == "equal":
            states[folder.name] = "kept"
            progress.advance(files=len(folder.files), size=folder.size)
        elif found == "absent" or replace:
            missing.append(folder)
        else:
            path = _path(label, folder)
            raise CallError(f"{path} is there and differs from the plan: {difference}; --replace replaces it")
    if missing:
        with stage(label, whole=not folders[0].name) as staging:
            planned = {staging.path(folder.name): folder for folder in missing}
            with refusals_named(label):
                _fill(planned, parents, link, jobs, progress)
            states |= staging.publish(
                replace=replace, same=lambda staged, final: not _difference(final, planned[staged])
            )
    else:
        clean_around(resolve(label))
    return tuple(
        WrittenFolder(
            name=folder.name,
            path=_path(label, folder),
            key=folder.key,
            state=states[folder.name],
            files=len(folder.files),
            bytes=folder.size,
        )
        for folder in folders
    )


def compare_folder(out: str | os.PathLike[str], folder: PlannedFolder) -> Comparison:
    """What :func:`write_folders` would find at the folder's destination; nothing is written.

    Raises :class:`~kpacktools.errors.CallError` where something cannot be read.
    """
    return _compare(out, folder)[0]


def _path(out: str, folder: PlannedFolder) -> str:
    return os.path.join(out, folder.name) if folder.name else out


def _check(folders: Sequence[PlannedFolder]) -> dict[str, tuple[str, ...]]:
    """The last look at a plan before it is acted on: folder name -> the folders inside that it needs.

    Planning has named such mistakes as findings long before; this only keeps them from the disk.
    """
    parents: dict[str, tuple[str, ...]] = {}
    for folder in folders:
        name = folder.name
        if name in parents or (not name and len(folders) > 1):
            raise CallError(f"the plan has two folders for {name or 'the output itself'}")
        if name and (name != os.path.basename(name) or name in _NOT_IN_A_PATH or is_staging_name(name)):
            raise CallError(f"{name!r} cannot be the name of an output folder")
        parents[name] = _parents(folder)
    return parents


def _parents(folder: PlannedFolder) -> tuple[str, ...]:
    """The folders that a folder's files are in, parents before children.

    Raises :class:`~kpacktools.errors.CallError` for a destination that is offered twice or is no path inside.
    """
    where = folder.name or "the output"
    seen = set() if folder.manifest is None else {MANIFEST_NAME}
    parents = {"": None}
    for file in folder.files:
        dest = file.dest
        if dest in seen:
            raise CallError(f"the plan offers {dest} twice in {where}")
        seen.add(dest)
        parent, _, name = dest.rpartition("/")
        if parent not in parents:
            parents |= dict.fromkeys(_ancestry(parent))
        if name in _NOT_IN_A_PATH or dest.startswith("/"):
            raise CallError(f"{dest!r} does not lie inside {where}")
    for parent in parents:
        if parent and parent.rpartition("/")[2] in _NOT_IN_A_PATH:
            raise CallError(f"{parent!r} does not lie inside {where}")
    return tuple(islice(parents, 1, None))


def _ancestry(folder: str) -> Iterator[str]:
    """``a/b/c`` -> ``a``, ``a/b``, ``a/b/c``."""
    end = folder.find("/")
    while end >= 0:
        yield folder[:end]
        end = folder.find("/", end + 1)
    yield folder


def _fill(
    planned: dict[str, PlannedFolder],
    parents: dict[str, tuple[str, ...]],
    link: LinkMode,
    jobs: int,
    progress: Progress,
) -> None:
    """Write folders, given as path -> plan.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    batches: list[_Batch] = []
    # All folders come before all links: no file can then be written through a link out of its folder.
    for root, folder in planned.items():
        _make(root, folder, parents[folder.name])
        batches += _batches(root, folder.files)
    _run(batches, link, jobs, progress)
    for root, folder in planned.items():
        _verify(root, folder)


def _verify(root: str, folder: PlannedFolder) -> None:
    """The last guard before anything is renamed: every planned file is there with its planned size.

    This is also where a hard link to a file that changed since the scan is found. One thread does it at the
    end: a second short call per file in the workers would have them wait for each other.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    for opened, cut, files in _by_folder(root, folder.files):
        prefix, fd = opened.prefix, opened.fd
        for file in files:
            dest, _, entry = file
            try:
                size = os.stat(prefix + dest[cut:], dir_fd=fd, follow_symlinks=False).st_size
            except FileNotFoundError as error:
                where = os.path.join(folder.name, dest)
                raise CallError(f"{where} was not written; nothing was moved into place") from error
            if size != entry.size and not is_link(entry):
                raise transfer.changed(file)


def _make(root: str, folder: PlannedFolder, parents: Sequence[str]) -> None:
    if folder.name:
        os.mkdir(root)
    for parent in parents:
        os.mkdir(f"{root}/{parent}")
    if folder.manifest is not None:
        with open(os.path.join(root, MANIFEST_NAME), "xb") as manifest:
            manifest.write(folder.manifest)


def _batches(root: str, files: tuple[PlannedFile, ...]) -> Iterator[_Batch]:
    start = size = 0
    for stop, file in enumerate(files, 1):
        size += file.entry.size
        if stop - start == _BATCH_FILES or size >= _BATCH_BYTES or stop == len(files):
            yield _Batch(root, files, start, stop, size)
            start, size = stop, 0


def _run(batches: Sequence[_Batch], link: LinkMode, jobs: int, progress: Progress) -> None:
    """Write batches in ``jobs`` threads; the error raised is that of the first batch that has one."""
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = [pool.submit(_write, batch, link, stopped, progress) for batch in batches]
        try:
            for batch in running:
                batch.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _write(batch: _Batch, link: LinkMode, stopped: threading.Event, progress: Progress) -> None:
    for folder, cut, files in _by_folder(batch.root, islice(batch.files, batch.start, batch.stop)):
        for file in files:
            if stopped.is_set():
                return
            transfer.put_file(file, folder, file.dest[cut:], link)
    progress.advance(files=batch.stop - batch.start, size=batch.size)


def _by_folder(
    root: str, files: Iterable[PlannedFile]
) -> Iterator[tuple[OpenFolder, int, tuple[PlannedFile, ...]]]:
    """Neighbouring files with an open folder for them, and how much of ``dest`` is that folder's path.

    A folder is worth opening for many files; for a few, the path from ``root`` to each is less work.
    """
    with OpenFolder(root) as top:
        for parent, group in groupby(files, key=_parent):
            neighbours = tuple(group)
            if not parent or len(neighbours) < _WORTH_OPENING:
                yield top, 0, neighbours
            else:
                with OpenFolder(f"{root}/{parent}") as folder:
                    yield folder, len(parent) + 1, neighbours


def _parent(file: PlannedFile) -> str:
    return file.dest.rpartition("/")[0]


def _files_below(root: str) -> set[str]:
    """The paths of all that is no folder, relative to ``root``; a staging folder in it is passed over."""
    found: set[str] = set()
    pending = [""]
    while pending:
        here = pending.pop()
        with os.scandir(f"{root}/{here}") as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    found.add(here + entry.name)
                elif here or not is_staging_name(entry.name):
                    pending.append(f"{here}{entry.name}/")
    return found


def _compare(out: str | os.PathLike[str], folder: PlannedFolder) -> tuple[Comparison, str]:
    """What is at a folder's destination, and in what it differs from its plan first."""
    path = _path(resolve(out), folder)
    try:
        if is_vacant(path):
            return "absent", ""
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror}") from error
    difference = _difference(path, folder)
    return ("differs", difference) if difference else ("equal", "")


def _difference(path: str, folder: PlannedFolder) -> str:
    """In what the folder at ``path`` differs from its plan first; empty where it is equal.

    Names come first, then sizes and the like, and bytes last. Empty folders do not count, as in trees.
    """
    try:
        if os.path.islink(path) or not os.path.isdir(path):
            return "it is not a folder"
        return _difference_in_names(path, folder) or _difference_in_content(path, folder)
    except OSError as error:
        raise CallError(f"{error.filename or path} cannot be compared: {error.strerror}") from error


def _difference_in_names(path: str, folder: PlannedFolder) -> str:
    planned = {file.dest for file in folder.files}
    if folder.manifest is not None:
        planned.add(MANIFEST_NAME)
    found = _files_below(path)
    if extra := found - planned:
        return f"{min(extra)} is not in the plan"
    if absent := planned - found:
        return f"{min(absent)} is missing"
    return ""


def _difference_in_content(path: str, folder: PlannedFolder) -> str:
    if folder.manifest is not None:
        with open(os.path.join(path, MANIFEST_NAME), "rb") as manifest:
            if manifest.read(len(folder.manifest) + 1) != folder.manifest:
                return f"{MANIFEST_NAME} lists other stage prefixes"
    unread: list[PlannedFile] = []
    for file in folder.files:
        dest, tree, entry = file
        here = f"{path}/{dest}"
        found = os.lstat(here)
        if stat.S_IFMT(found.st_mode) != stat.S_IFMT(entry.mode):
            return f"{dest} is of another kind"
        if stat.S_ISLNK(entry.mode):
            if os.readlink(here) != entry.link:
                return f"{dest} points elsewhere"
            continue
        if found.st_size != entry.size:
            return f"{dest} has {found.st_size} bytes and not {entry.size}"
        if bool(found.st_mode & _EXEC_BITS) != bool(entry.mode & _EXEC_BITS):
            return f"{dest} differs in its exec bit"
        source = tree.local_path(entry.path)
        if source is None or not os.path.samestat(os.stat(source), found):
            unread.append(file)
    for file in unread:
        if not _same_bytes(file, f"{path}/{file.dest}"):
            return f"{file.dest} has other bytes"
    return ""


def _same_bytes(file: PlannedFile, existing: str) -> bool:
    source = file.tree.local_path(file.entry.path)
    if source is not None:
        return transfer.same_files(source, existing)
    with file.tree.open(file.entry.path) as planned, open(existing, "rb") as other:
        return transfer.same_bytes(planned, other)
