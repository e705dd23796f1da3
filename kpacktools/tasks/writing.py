"""Outputs written by workers: a task for each artifact directory, archive or wheel.

A worker makes an output under a name of its own in a folder of the run's staging folder, and gives it its place there
by one rename when it is whole. So a worker that dies leaves nothing that the next attempt could trip over, and one
that was only thought to be dead does no harm. Publishing is the coordinator's, as always.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from kpacktools.outputs.archives import ArchiveForm, PackedArchive, archive_name, pack_archive
from kpacktools.outputs.folders import fill_folder
from kpacktools.outputs.members import Member, Source
from kpacktools.outputs.staging import Staging
from kpacktools.outputs.transfer import LinkMode
from kpacktools.outputs.wheels import WheelSpec, WrittenWheel, wheel_filename, write_wheels
from kpacktools.planning.plan import PlannedFolder, PlannedGroup
from kpacktools.tasks.model import Dispatch, Needed, Place, Task
from kpacktools.tasks.portable import portable
from kpacktools.tasks.running import run_tasks
from kpacktools.trees import Entry, Tree

__all__ = ["fill_elsewhere", "pack_elsewhere", "write_wheels_elsewhere"]

T = TypeVar("T")

_EPOCH = "SOURCE_DATE_EPOCH"


class _Trees:
    """The trees that an output is made of, collected for their way to a worker."""

    def __init__(self) -> None:
        self._trees: list[Source] = []
        self._paths: list[list[str]] = []
        """Of each tree, the files that are needed."""
        self._numbers: dict[int, int] = {}

    def number(self, tree: Source, paths: Sequence[str]) -> int:
        """The place of a tree, some files of which are needed, among those that are taken along."""
        number = self._numbers.setdefault(id(tree), len(self._trees))
        if number == len(self._trees):
            self._trees.append(tree)
            self._paths.append([])
        self._paths[number] += paths
        return number

    def packed(self, bench: Place) -> tuple[list[Source], tuple[Needed, ...] | None]:
        """Each of the trees as it travels, and what has to be the same where the output is made; None where only this
        process has all of its files."""
        taken: list[Source] = []
        needs: dict[Needed, None] = {bench: None}
        reachable = True
        for tree, paths in zip(self._trees, self._paths, strict=True):
            try:
                luggage = portable(tree, paths)
            except OSError:
                luggage = None  # whatever is wrong with it is found here
            if luggage is None:
                reachable = False
            else:
                needs |= dict.fromkeys(luggage.needs)
            taken.append(tree if luggage is None else luggage.tree)
        return taken, tuple(needs) if reachable else None


class _Folder(Struct, frozen=True):
    """A planned folder as it travels: a tenth of the work of sending it file by file."""

    folder: PlannedFolder
    """Without files."""
    trees: Sequence[Source]
    groups: Sequence[tuple[str, Sequence[str], int, Sequence[Sequence[Any]]]]
    """For each group its folder, names, the number of its tree, and its entries by column."""

    @classmethod
    def sent(cls, folder: PlannedFolder, bench: Place) -> tuple[_Folder, tuple[Needed, ...] | None]:
        """A folder ready to be sent, and what it needs."""
        trees = _Trees()
        groups = []
        for group in folder.groups:
            columns = tuple(map(list, zip(*group.entries, strict=True)))
            groups.append((group.folder, list(group.names), trees.number(group.tree, columns[0]), columns))
        taken, needs = trees.packed(bench)
        return cls(replace(folder, groups=()), taken, groups), needs

    def arrived(self) -> PlannedFolder:
        """The folder as it was."""
        groups = tuple(
            PlannedGroup(folder, names, cast("Tree", self.trees[number]), list(map(Entry, *columns)))
            for folder, names, number, columns in self.groups
        )
        return replace(self.folder, groups=groups)


class _Bench(Struct, frozen=True):
    """Where outputs are made, and where they go when they are whole."""

    scratch: str
    staged: str

    def make_folder(self, name: str, fill: Callable[[str], object]) -> None:
        """Let ``fill`` make a folder at a path of its own, and move it to ``name`` in the staging folder."""
        made = self._new()
        final = os.path.join(self.staged, name) if name else self.staged
        try:
            fill(made)
            os.rename(made, final)
        except OSError:
            # An attempt that was only thought to be dead may have come first: it made the same.
            if not (os.path.isdir(made) and os.path.isdir(final) and os.listdir(final)):
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def make_files(self, fill: Callable[[str], T]) -> T:
        """Let ``fill`` make files in an empty folder of its own, and move them into the staging folder."""
        made = self._new()
        os.mkdir(made)
        try:
            value = fill(made)
            for name in os.listdir(made):
                os.replace(os.path.join(made, name), os.path.join(self.staged, name))
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return value

    def _new(self) -> str:
        return os.path.join(self.scratch, secrets.token_hex(8))


def _open_bench(staging: Staging) -> tuple[_Bench, Place]:
    scratch = staging.root + "-tasks"
    os.mkdir(scratch)
    return _Bench(scratch, staging.root), Place(scratch)


# Artifact directories and prefixes.


def fill_elsewhere(
    dispatch: Dispatch, link: LinkMode, staging: Staging, planned: Mapping[str, PlannedFolder]
) -> None:
    """Write folders, given as staged path -> plan.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    bench, place = _open_bench(staging)
    tasks = []
    for folder in planned.values():
        sent, needs = _Folder.sent(folder, place)
        tasks.append(
            Task(
                kind="folder",
                name=os.path.join(staging.out, folder.name) if folder.name else staging.out,
                size=folder.size,
                files=folder.count,
                call=write_folder,
                arguments=(bench, sent, link),
                key=folder.key,
                needs=needs,
            )
        )
    run_tasks(tasks, dispatch)


def write_folder(bench: _Bench, sent: _Folder, link: LinkMode) -> None:
    """Write one folder. Runs on a worker."""
    folder = sent.arrived()
    bench.make_folder(folder.name, lambda path: fill_folder(path, folder, link))


# Archives.


def pack_elsewhere(
    dispatch: Dispatch, staging: Staging, folders: Sequence[PlannedFolder], form: ArchiveForm, time: int
) -> list[PackedArchive]:
    """Pack archives, each with its checksum file, into a staging folder.

    Raises :class:`OSError` and :class:`~kpacktools.errors.CallError`.
    """
    bench, place = _open_bench(staging)
    tasks = []
    for folder in folders:
        sent, needs = _Folder.sent(folder, place)
        tasks.append(
            Task(
                kind="archive",
                name=os.path.join(staging.out, archive_name(folder, form)),
                size=folder.size,
                files=folder.count,
                call=write_archive,
                arguments=(bench, sent, form, time),
                key=folder.key,
                needs=needs,
            )
        )
    return run_tasks(tasks, dispatch)


def write_archive(bench: _Bench, sent: _Folder, form: ArchiveForm, time: int) -> PackedArchive:
    """Write one archive. Runs on a worker."""
    folder = sent.arrived()
    name = archive_name(folder, form)
    return bench.make_files(lambda path: pack_archive(os.path.join(path, name), folder, form, time))


# Wheels.


def write_wheels_elsewhere(
    dispatch: Dispatch,
    staging: Staging,
    specs: Sequence[WheelSpec],
    keys: Sequence[str],
    *,
    packed_sizes: bool = False,
) -> list[WrittenWheel]:
    """Write wheels, of some target keys, under their own names into a staging folder, as
    :func:`~kpacktools.outputs.wheels.write_wheels` does, and raise as it does."""
    bench, place = _open_bench(staging)
    environ = {_EPOCH: os.environ[_EPOCH]} if _EPOCH in os.environ else {}
    tasks = []
    for spec, key in zip(specs, keys, strict=True):
        trees = _Trees()
        numbers = [trees.number(member.tree, [member.path]) for member in spec.files]
        taken, needs = trees.packed(place)
        columns = tuple(
            map(list, zip(*((m.arcname, m.path, m.size, m.mode) for m in spec.files), strict=True))
        )
        sent = _Wheel(replace(spec, files=()), taken, numbers, columns, packed_sizes)
        tasks.append(
            Task(
                kind="wheel",
                name=os.path.join(staging.out, wheel_filename(spec)),
                size=sum(member.size for member in spec.files),
                files=len(spec.files),
                call=write_wheel,
                arguments=(bench, sent, environ),
                key=key,
                needs=needs,
            )
        )
    written = run_tasks(tasks, dispatch)
    return [replace(item, path=staging.path(os.path.basename(item.path))) for item in written]


class _Wheel(Struct, frozen=True):
    """A wheel's spec as it travels."""

    spec: WheelSpec
    """Without files."""
    trees: Sequence[Source]
    numbers: Sequence[int]
    """For each file, the number of its tree."""
    columns: Sequence[Sequence[Any]]
    """The files' other fields, by column."""
    packed_sizes: bool

    def arrived(self) -> WheelSpec:
        """The spec as it was."""
        trees = map(self.trees.__getitem__, self.numbers)
        files = (
            Member(arcname, tree, *rest)
            for tree, (arcname, *rest) in zip(trees, zip(*self.columns, strict=True), strict=True)
        )
        return replace(self.spec, files=tuple(files))


def write_wheel(bench: _Bench, sent: _Wheel, environ: Mapping[str, str]) -> WrittenWheel:
    """Write one wheel. Runs on a worker; ``environ`` is the coordinator's."""
    spec = sent.arrived()

    def fill(path: str) -> WrittenWheel:
        (written,) = write_wheels([spec], path, packed_sizes=sent.packed_sizes, environ=environ)
        return written

    return bench.make_files(fill)
