"""Published sets, read back: the report of a set, and whether all that it lists is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import msgspec

from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.reports.jsonreport import SCHEMA
from kpacktools.trees import Tree, is_file
from kpacktools.trees.access import Access, open_whole
from kpacktools.trees.names import REPORT_NAME
from kpacktools.trees.places import place_of

__all__ = ["MAX_REPORT", "Listed", "check_published", "listed_in"]

_CHUNK: Final = 1 << 20
MAX_REPORT: Final = 256 << 20
"""Bytes of a report; one of 200,000 files has 60 million."""
_HINT: Final = "publish the set again, with --replace"


class Listed(NamedTuple):
    """One file of a published set, as its report has it."""

    path: str
    """Below the folder of the report, with slashes."""
    bytes: int
    sha256: str


class _File(msgspec.Struct):
    path: str
    bytes: int
    sha256: str


class _Published(msgspec.Struct):
    files: tuple[_File, ...]


class _Report(msgspec.Struct):
    schema: str
    published: _Published


def listed_in(data: bytes) -> tuple[Listed, ...] | None:
    """The files that a set's report lists; None for bytes that are no such report."""
    try:
        report = msgspec.json.decode(data, type=_Report)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if report.schema != SCHEMA or any(_leads_out(file.path) for file in report.published.files):
        return None
    return tuple(Listed(file.path, file.bytes, file.sha256) for file in report.published.files)


def _leads_out(path: str) -> bool:
    return any(part in ("", ".", "..") for part in path.split("/")) or "\\" in path or "\0" in path


def check_published(
    path: str, access: Access = Access(), *, content: bool = False, jobs: int = 1
) -> list[Finding]:
    """Whether a set is whole that was published in a folder, or copied there: nothing where there is no report.

    A file that is listed and missing is ``partial-bundle``, one of another size ``size-mismatch``, and with
    ``content``, for which every file is read, one of other bytes ``digest-mismatch``.

    Raises :class:`~kpacktools.errors.CallError` where something cannot be read.
    """
    places, folder = place_of(path, access)
    report = places.join(folder, REPORT_NAME)
    if not places.is_folder(folder) or not places.is_file(report):
        return []
    listed = listed_in(places.read(report, MAX_REPORT))
    if listed is None:
        said = f"is no {SCHEMA} that lists the files of a published set"
        return [finding("manifest-invalid", report, said, _HINT)]
    tree = places.tree(folder)
    return list(_check(folder, tree, listed, content, jobs))


def _check(folder: str, tree: Tree, listed: Sequence[Listed], content: bool, jobs: int) -> Iterator[Finding]:
    sizes = {e.path: e.size for entries in tree.folders.values() for e in entries if is_file(e)}
    whole = []
    for file in listed:
        path = f"{folder}/{file.path}"
        size = sizes.get(file.path)
        if size is None:
            yield finding("partial-bundle", path, f"{REPORT_NAME} lists it, and it is not there", _HINT)
        elif size != file.bytes:
            said = f"has {size} bytes, {REPORT_NAME} says {file.bytes}"
            yield finding("size-mismatch", path, said, _HINT)
        else:
            whole.append(file)
    if not content:
        return
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        digests = pool.map(lambda file: _digest(tree, file.path), whole)
        for file, digest in zip(whole, digests, strict=True):
            if digest != file.sha256:
                said = f"has sha256 {digest}, {REPORT_NAME} says {file.sha256}"
                yield finding("digest-mismatch", f"{folder}/{file.path}", said, _HINT)


def _digest(tree: Tree, path: str) -> str:
    """The sha256 of a file. Raises :class:`~kpacktools.errors.CallError`."""
    sha256 = hashlib.sha256()
    try:
        with open_whole(tree, path) as stream:
            while data := stream.read(_CHUNK):
                sha256.update(data)
    except OSError as error:
        raise CallError(f"cannot read {tree.label}/{path}: {error.strerror or error}") from error
    return sha256.hexdigest()
