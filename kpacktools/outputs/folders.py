"""Folders: artifact directories and install prefixes, written from their plans.

>>> write_folders("out", plan.folders, link="hardlink", jobs=2)   # doctest: +SKIP
(WrittenFolder(name='hip_lib_gfx942', path='out/hip_lib_gfx942', key='gfx942', state='written', ...),)
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.forking import may_fork, share_out
from kpacktools.outputs import transfer
from kpacktools.outputs.comparing import Comparison, compared, difference
from kpacktools.outputs.linking import Task, link_groups, opened
from kpacktools.outputs.staging import Staging, State, clean_around, refusals_named, resolve, stage
from kpacktools.outputs.transfer import LinkMode
from kpacktools.planning.plan import PlannedFolder, PlannedGroup
from kpacktools.progress import SILENT, Progress
from kpacktools.trees import is_link
from kpacktools.trees.directory import all_in_folders
from kpacktools.trees.names import MANIFEST_NAME, is_staging_name

__all__ = ["MANIFEST_NAME", "WrittenFolder", "compare_folder", "fill_folder", "write_folders"]

Filler = Callable[[Staging, Mapping[str, PlannedFolder]], None]
"""Writes folders, given as path in a staging folder -> plan."""

_BATCH_FILES = 256
_BATCH_BYTES = 64 << 20
_WORTH_FORKING = 512
"""Files for which another process is started; that takes as long as a third of them."""
_SMALL = 1 << 20
"""Bytes of a file up to which the interpreter's part in copying it counts."""
_NOT_IN_A_PATH = frozenset(("", ".", ".."))


class WrittenFolder(Struct, frozen=True):
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
    groups: tuple[PlannedGroup, ...]
    files: int
    size: int


def write_folders(
    out: str | os.PathLike[str],
    folders: Sequence[PlannedFolder],
    *,
    link: LinkMode = "auto",
    replace: bool = False,
    jobs: int = 1,
    progress: Progress = SILENT,
    fill: Filler | None = None,
) -> tuple[WrittenFolder, ...]:
    """Write the planned folders below ``out``, all of them or none; what equals its plan already is kept.

    A folder that is there and differs is replaced with ``replace``, and is else an error, before anything is
    written. ``jobs`` threads share the work; the result does not depend on their number. The result has the
    order of ``folders``. ``progress`` is told about every file of every folder, also of those that are kept.
    ``fill`` is who writes them, in place of these threads.

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
        found, how = compared(_path(resolve(label), folder), folder)
        if found == "equal":
            states[folder.name] = "kept"
            progress.advance(files=folder.count, size=folder.size)
        elif found == "absent" or replace:
            missing.append(folder)
        else:
            path = _path(label, folder)
            raise CallError(f"{path} is there and differs from the plan: {how}; --replace replaces it")
    if missing:
        with stage(label, whole=not folders[0].name) as staging:
            planned = {staging.path(folder.name): folder for folder in missing}
            try:
                with refusals_named(label):
                    if fill is not None:
                        fill(staging, planned)
                    else:
                        _fill(planned, parents, link, jobs, progress)
            except transfer.TransferError as error:
                raise CallError(f"{error}; {label} is as it was before") from error
            states |= staging.publish(
                replace=replace, same=lambda staged, final: not difference(final, planned[staged])
            )
    else:
        clean_around(resolve(label))
    return tuple(
        WrittenFolder(
            name=folder.name,
            path=_path(label, folder),
            key=folder.key,
            state=states[folder.name],
            files=folder.count,
            bytes=folder.size,
        )
        for folder in folders
    )


def fill_folder(root: str, folder: PlannedFolder, link: LinkMode) -> None:
    """Write one planned folder to ``root``, where nothing is yet, and look at it once more.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    if not folder.name:
        os.mkdir(root)
    _fill({root: folder}, {folder.name: _parents(folder)}, link, 1, SILENT)


def compare_folder(out: str | os.PathLike[str], folder: PlannedFolder) -> Comparison:
    """What :func:`write_folders` would find at the folder's destination; nothing is written.

    Raises :class:`~kpacktools.errors.CallError` where something cannot be read.
    """
    return compared(_path(resolve(out), folder), folder)[0]


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
    places: dict[str, set[str]] = {} if folder.manifest is None else {"": {MANIFEST_NAME}}
    parents = {"": None}
    for group in folder.groups:
        place = places.setdefault(group.folder, set())
        before = len(place)
        place.update(group.names)
        if len(place) - before < len(group.names):
            raise CallError(f"the plan offers {_offered_twice(folder)} twice in {where}")
        if group.folder not in parents:
            parents |= dict.fromkeys(_ancestry(group.folder))
        for name in group.names if _is_odd(group.names) else ():
            if name in _NOT_IN_A_PATH or "/" in name:
                raise CallError(f"{group.prefix + name!r} does not lie inside {where}")
    for parent in parents:
        if parent and (parent.rpartition("/")[2] in _NOT_IN_A_PATH or parent.startswith("/")):
            raise CallError(f"{parent!r} does not lie inside {where}")
    return tuple(islice(parents, 1, None))


def _offered_twice(folder: PlannedFolder) -> str:
    """The first destination that comes twice."""
    counts = Counter(file.dest for file in folder.files)
    if folder.manifest is not None:
        counts[MANIFEST_NAME] += 1
    return next(dest for dest, count in counts.items() if count > 1)


def _is_odd(names: Sequence[str]) -> bool:
    """True where some of a folder's names need a closer look; looks at all of them at once."""
    return not _NOT_IN_A_PATH.isdisjoint(names) or "/" in "".join(names)


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
    tasks: list[Task] = []
    # All folders come before all links: no file can then be written through a link out of its folder.
    for root, folder in planned.items():
        _make(root, folder, parents[folder.name])
        tasks += [Task(root, group) for group in folder.groups]
    if link == "hardlink":
        tasks = link_groups(tasks, jobs, progress)
    _run(list(_batches(tasks)), link, jobs, progress)
    for root, left in groupby(tasks, key=lambda task: task.root):
        _verify(root, planned[root].name, [task.group for task in left])


def _verify(root: str, name: str, groups: Iterable[PlannedGroup]) -> None:
    """The last guard before anything is renamed: every planned file is there with its planned size.

    This is also where a hard link to a file that changed since the scan is found. One thread does it at the
    end: a second short call per file in the workers would have them wait for each other.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    for folder, names, group in opened(root, groups):
        look = partial(os.stat, dir_fd=folder.fd, follow_symlinks=False)
        prefix, entries = folder.prefix, group.entries
        paths = [prefix + path for path in names] if prefix else names
        try:
            sizes = [status.st_size for status in map(look, paths)]
        except FileNotFoundError as error:
            where = f"{group.prefix}{os.path.basename(os.fsdecode(error.filename))}"
            where = os.path.join(name, where)
            raise CallError(f"{where} was not written; nothing was moved into place") from error
        if sizes != [entry.size for entry in entries]:
            for index, entry in enumerate(entries):
                if sizes[index] != entry.size and not is_link(entry):
                    raise transfer.changed(group.file(index))


def _make(root: str, folder: PlannedFolder, parents: Sequence[str]) -> None:
    if folder.name:
        os.mkdir(root)
    for parent in parents:
        os.mkdir(f"{root}/{parent}")
    if folder.manifest is not None:
        with open(os.path.join(root, MANIFEST_NAME), "xb") as manifest:
            manifest.write(folder.manifest)


def _batches(tasks: Iterable[Task]) -> Iterator[_Batch]:
    for root, of_root in groupby(tasks, key=lambda task: task.root):
        batch: list[PlannedGroup] = []
        files = size = 0
        for part, more in (part for task in of_root for part in _parts(task.group, task.done)):
            count = len(part.names)
            if batch and (files + count > _BATCH_FILES or size + more > _BATCH_BYTES):
                yield _Batch(root, tuple(batch), files, size)
                batch = []
                files = size = 0
            batch.append(part)
            files += count
            size += more
        if batch:
            yield _Batch(root, tuple(batch), files, size)


def _parts(group: PlannedGroup, start: int) -> Iterator[tuple[PlannedGroup, int]]:
    """A group from one of its files on, cut where it is too much for one batch, with the bytes of each part."""
    count = len(group.names)
    size = 0
    for stop in range(start + 1, count + 1):
        size += group.entries[stop - 1].size
        if stop - start == _BATCH_FILES or size >= _BATCH_BYTES or stop == count:
            yield group.part(start, stop), size
            start, size = stop, 0


def _run(batches: Sequence[_Batch], link: LinkMode, jobs: int, progress: Progress) -> None:
    """Write batches on ``jobs`` cores, the largest first, since one that is begun last would keep all waiting; the
    error raised is that of the first in this order that has one."""
    ordered = sorted(batches, key=lambda batch: -batch.size)
    processes = min(jobs, _worth_processes(batches))
    if processes > 1:
        with progress.alone():
            if may_fork():
                _run_forked(ordered, link, processes, progress)
                return
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = [pool.submit(_write, batch, link, stopped, progress) for batch in ordered]
        try:
            for batch in running:
                batch.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _worth_processes(batches: Sequence[_Batch]) -> int:
    """How many processes are worth having.

    Large files are copied by the kernel, without the interpreter's lock: threads share them as well, and stop at once.
    """
    files = sum(batch.files for batch in batches)
    if sum(batch.size for batch in batches) >= files * _SMALL:
        return 1
    if not all_in_folders(group.tree for batch in batches for group in batch.groups):
        return 1
    return files // _WORTH_FORKING


def _run_forked(batches: Sequence[_Batch], link: LinkMode, processes: int, progress: Progress) -> None:
    """Write batches in several processes; what one of them was killed over is there in part, and not begun again."""
    never = threading.Event()

    def write(number: int) -> Exception | None:
        try:
            _write(batches[number], link, never, SILENT)
        except (OSError, CallError) as error:
            return error
        return None

    def lost(number: int) -> Exception | None:
        return CallError("a process that was copying files ended before it was done; run again")

    errors: dict[int, Exception] = {}
    with closing(share_out(len(batches), write, processes, again=lost)) as outcomes:
        for number, error in outcomes:
            progress.advance(files=batches[number].files, size=batches[number].size)
            if error is not None:
                errors[number] = error
    if errors:
        raise errors[min(errors)]


def _write(batch: _Batch, link: LinkMode, stopped: threading.Event, progress: Progress) -> None:
    for folder, names, group in opened(batch.root, batch.groups):
        if stopped.is_set():
            return
        for index, name in enumerate(names):
            if stopped.is_set():
                return
            transfer.put_file(group.file(index), folder, name, link)
    progress.advance(files=batch.files, size=batch.size)
