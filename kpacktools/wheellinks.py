"""What the libraries of planned wheels link to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.utils import canonicalize_name

from kpacktools.checks.needed import Library, check_needed, is_library
from kpacktools.findings import Finding
from kpacktools.outputs.wheelset import HOST_DISTRIBUTION, WheelOptions
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.plan import PlannedFolder
from kpacktools.planning.selection import Input
from kpacktools.trees import is_file

__all__ = ["unresolved_libraries"]


def unresolved_libraries(
    inputs: Iterable[Input], folders: Sequence[PlannedFolder], options: WheelOptions
) -> Iterator[Finding]:
    """``wheel-needed-unresolved``, for the libraries of every folder that becomes a wheel.

    They are looked up in all folders and in the generic part of the inputs, which stands for the host. Where that
    holds no library the host is out of sight, and nothing is judged. A library that only a distribution which was
    declared external could have is of severity info.

    Raises :class:`~kpacktools.errors.CallError` when a file cannot be read.
    """
    prefix = options.overlay + "/" if options.overlay else ""
    libraries = [
        Library(folder.key, prefix + file.dest, file.tree, file.entry.path)
        for folder in folders
        for file in folder.files
        if is_file(file.entry) and is_library(file.dest)
    ]
    host = _generic_places(inputs) if libraries else set()
    if not any(map(is_library, host)):
        return
    host.update(file.dest for folder in folders for file in folder.files)
    places = {place: place for place in (prefix + below for below in host)}
    known = {canonicalize_name(name) for name in (HOST_DISTRIBUTION, options.host or HOST_DISTRIBUTION)}
    external = sorted({canonicalize_name(name) for name in options.external} - known)
    yield from check_needed(libraries, places, overlay=options.overlay, external=external)


def _generic_places(inputs: Iterable[Input]) -> set[str]:
    """The installed paths of all that no handler claims."""
    return {
        below_prefix(claimed.artifact, entry.path)
        for item in inputs
        for claimed in item.artifacts
        for folder, entries in claimed.artifact.tree.folders.items()
        for entry in claimed.generic(folder, entries)
    }
