"""Hard links in bulk: all that can be made by short names between two open folders, on several cores.

Making a link takes four microseconds, less than it takes two threads to hand the interpreter's lock to each other:
threads would be slower than one. Where there are very many files, forked processes make a share of the links each.
They only do what the system does at once or refuses; whatever they leave is for the caller to do, and to explain.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from kpacktools.errors import CallError
from kpacktools.forking import Forked, Send, is_orphan, may_fork
from kpacktools.outputs.transfer import RELATIVE, OpenFolder
from kpacktools.planning.plan import PlannedGroup
from kpacktools.progress import SILENT, Progress
from kpacktools.trees import names_in
from kpacktools.trees.directory import DirectoryTree

__all__ = ["Task", "link_groups", "opened"]

_WORTH_OPENING: Final = 4
_WORTH_FORKING: Final = 4096
"""Links for which another process is started; that takes as long as two thousand links."""
_DONE: Final = struct.Struct("<2Q")


class Task(NamedTuple):
    """A group of files that is to be at its place below a folder."""

    root: str
    """The output folder's path."""
    group: PlannedGroup
    done: int = 0
    """So many of its files are there already, but nobody has looked at them since."""


class _Done(NamedTuple):
    """How far a share of the work got."""

    groups: int
    """Whole groups, whose files were found to have their sizes afterwards."""
    files: int
    """Files of the next group."""


def opened(
    root: str, groups: Iterable[PlannedGroup]
) -> Iterator[tuple[OpenFolder, Sequence[str], PlannedGroup]]:
    """Groups with an open folder for each, and where in it their files are.

    A folder is worth opening for many files; for a few, the path from ``root`` to each is less work.
    """
    with OpenFolder(root) as top:
        for group in groups:
            if not group.folder:
                yield top, group.names, group
            elif len(group.names) < _WORTH_OPENING:
                prefix = group.prefix
                yield top, [prefix + name for name in group.names], group
            else:
                with OpenFolder(f"{root}/{group.folder}") as folder:
                    yield folder, group.names, group


def link_groups(tasks: Sequence[Task], jobs: int, progress: Progress) -> list[Task]:
    """Make hard links in up to ``jobs`` processes; what is left to do, in the same order.

    A task that is not left is done and was looked at: its files have the sizes that were planned. The folders that
    the links go to have to be there.

    Raises :class:`~kpacktools.errors.CallError` where a process was killed, and :class:`OSError` where none can be had.
    """
    processes = min(jobs, sum(len(task.group.names) for task in tasks) // _WORTH_FORKING)
    if processes < 2:
        return _link_groups(tasks, 1, progress)
    with progress.alone():
        return _link_groups(tasks, processes if may_fork() else 1, progress)


def _link_groups(tasks: Sequence[Task], processes: int, progress: Progress) -> list[Task]:
    first, *others = _shares(tasks, processes)
    helpers: list[Forked] = []
    try:
        helpers += [Forked(partial(_linked, share)) for share in others]
        left = _left(first, _link(first, progress))
        for helper, share in zip(helpers, others, strict=True):
            left += _left(share, _result(helper))
            for task in share:
                progress.advance(files=len(task.group.names), size=task.group.size)
        return left
    finally:
        for helper in helpers:
            helper.end()


def _linked(share: Sequence[Task], parent: int, send: Send) -> None:
    """What a forked process does."""
    send(_DONE.pack(*_link(share, SILENT, parent)))


def _result(helper: Forked) -> _Done:
    """How far a forked process got. Raises :class:`~kpacktools.errors.CallError` where it was killed."""
    if not helper.began:
        return _Done(0, 0)
    message = b"".join(iter(helper.read, b""))
    if len(message) < _DONE.size:
        raise CallError("a process that was making hard links ended before it was done; run again")
    return _Done(*_DONE.unpack(message))


def _shares(tasks: Sequence[Task], wanted: int) -> list[Sequence[Task]]:
    """Neighbouring tasks in shares of about the same number of files, at least one share."""
    total = sum(len(task.group.names) for task in tasks)
    shares: list[list[Task]] = [[]]
    before = 0
    for task in tasks:
        if before * wanted >= total * len(shares):
            shares.append([])
        shares[-1].append(task)
        before += len(task.group.names)
    return [*shares]


def _left(share: Sequence[Task], done: _Done) -> list[Task]:
    rest = list(share[done.groups :])
    if done.files:
        rest[0] = rest[0]._replace(done=done.files)
    return rest


def _link(share: Sequence[Task], progress: Progress, parent: int | None = None) -> _Done:
    """Make the links of a share up to the first that is refused or is no matter of a plain link, or until the process
    ``parent`` is gone."""
    whole = files = 0
    with suppress(OSError):
        while whole < len(share):
            root = share[whole].root
            groups = [task.group for task in share[whole:] if task.root == root]
            for folder, names, group in opened(root, groups):
                if parent is not None and is_orphan(parent):
                    return _Done(whole, 0)
                files = _link_group(group, folder, names)
                if files < len(names) or not _has_sizes(group, folder, names):
                    return _Done(whole, files)
                progress.advance(files=files, size=group.size)
                whole += 1
                files = 0
    return _Done(whole, files)


def _link_group(group: PlannedGroup, folder: OpenFolder, names: Sequence[str]) -> int:
    """Make hard links to files one after the other; how many were made. None of trees that lie in no folder."""
    done = 0
    if not (RELATIVE and isinstance(group.tree, DirectoryTree)):
        return done
    if not all(map(stat.S_ISREG, {entry.mode for entry in group.entries})):
        return done
    with suppress(OSError):
        source = os.path.dirname(group.tree.local_path(group.entries[0].path))
        with OpenFolder(source) as near:
            link = partial(os.link, src_dir_fd=near.fd, dst_dir_fd=folder.fd)
            for there, here in zip(names_in(group.entries), names, strict=True):
                link(there, here)
                done += 1
    return done


def _has_sizes(group: PlannedGroup, folder: OpenFolder, names: Sequence[str]) -> bool:
    look = partial(os.stat, dir_fd=folder.fd, follow_symlinks=False)
    return [status.st_size for status in map(look, names)] == [entry.size for entry in group.entries]
