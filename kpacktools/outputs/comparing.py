"""What is at an output folder's place already: nothing, what was planned, or something else."""

from __future__ import annotations

import os
import stat
from typing import Literal

from kpacktools.errors import CallError
from kpacktools.outputs import transfer
from kpacktools.outputs.staging import is_vacant
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.trees.access import open_to_copy
from kpacktools.trees.names import MANIFEST_NAME, is_staging_name

__all__ = ["Comparison", "compared", "difference"]

Comparison = Literal["absent", "equal", "differs"]
"""What is at a folder's destination before it is written; an empty folder counts as absent."""

_EXEC_BITS = 0o111 if os.name == "posix" else 0


def compared(path: str, folder: PlannedFolder) -> tuple[Comparison, str]:
    """What is at a folder's destination, and in what it differs from its plan first.

    Raises :class:`~kpacktools.errors.CallError` where something cannot be read.
    """
    try:
        if is_vacant(path):
            return "absent", ""
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror}") from error
    found = difference(path, folder)
    return ("differs", found) if found else ("equal", "")


def difference(path: str, folder: PlannedFolder) -> str:
    """In what the folder at ``path`` differs from its plan first; empty where it is equal.

    Names come first, then sizes and the like, and bytes last. Empty folders do not count, as in trees.

    Raises :class:`~kpacktools.errors.CallError` where something cannot be read.
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
    with open_to_copy(file.tree, file.entry.path) as planned, open(existing, "rb") as other:
        return transfer.same_bytes(planned, other)


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
