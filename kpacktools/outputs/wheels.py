"""Writing wheels: several at once, reproducible, each byte of the payload read once.

What a wheel is called and says is in :mod:`kpacktools.outputs.wheelmeta`, how its bytes are written in
:mod:`kpacktools.outputs.zipset`. Payload comes first in the archive, the dist-info folder after it, RECORD
last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from msgspec import Struct
from packaging.version import Version

from kpacktools.errors import CallError
from kpacktools.outputs.crew import Crew
from kpacktools.outputs.members import GeneratedFiles, Member, check_names
from kpacktools.outputs.sbom import SBOM_NAME, sbom_file
from kpacktools.outputs.wheelmeta import (
    WheelSpec,
    dist_info_folder,
    metadata_file,
    platform_tag,
    record_file,
    source_date_epoch,
    wheel_file,
    wheel_filename,
)
from kpacktools.outputs.zipformat import DEFLATED, STANDARD_LIMITS, ZipFormat, ZipLimits
from kpacktools.outputs.zipset import write_members
from kpacktools.outputs.zipwriter import ONE_SHOT, ZipWriter
from kpacktools.progress import SILENT, Progress

__all__ = [
    "WheelFile",
    "WheelSpec",
    "WrittenWheel",
    "platform_tag",
    "wheel_filename",
    "write_wheels",
]

WheelFile = Member
"""One file of a wheel's payload."""

_OWN: Final = frozenset({"METADATA", "WHEEL", "RECORD"})


class WrittenWheel(Struct, frozen=True):
    """A wheel that is finished."""

    path: str
    size: int
    """Bytes on disk."""
    files: int
    """Payload files, without generated ones."""
    packed: Mapping[str, int]
    """For every member, generated ones too, its bytes in the archive: who makes the wheel large. Empty where that was
    not asked for."""


def write_wheels(
    specs: Sequence[WheelSpec],
    folder: str,
    *,
    jobs: int = 1,
    progress: Progress = SILENT,
    epoch: int | None = None,
    limits: ZipLimits = STANDARD_LIMITS,
    packed_sizes: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> list[WrittenWheel]:
    """Write wheels under their own names into ``folder``, in ``jobs`` threads that share all of the work.

    ``epoch`` is the time of all members in seconds since 1970, None that of ``SOURCE_DATE_EPOCH`` in
    ``environ``. The bytes depend on the specs and these two only. ``packed_sizes`` asks for what each member takes in
    the archive. When this raises, what lies in ``folder`` is of no use.

    Raises :class:`ValueError` for a spec that cannot become a wheel, before anything is written;
    :class:`~kpacktools.errors.CallError` for a file that changed since it was planned; :class:`OSError` for
    one that cannot be read, or where writing fails.
    """
    form = ZipFormat.at(source_date_epoch(environ) if epoch is None else epoch, limits)
    drafts = [_draft(spec, folder) for spec in specs]
    progress.start(
        "packing",
        files=sum(len(draft.members) for draft in drafts),
        size=sum(member.size for draft in drafts for member in draft.members),
    )
    with ExitStack() as stack:
        writers = [stack.enter_context(ZipWriter(draft.path, form)) for draft in drafts]
        crew = stack.enter_context(Crew(jobs))
        work = [(writer, draft.members) for writer, draft in zip(writers, drafts, strict=True)]
        ready = write_members(work, crew, progress)
        return [
            _finish(draft, writer, packed_sizes, environ) for draft, writer in zip(drafts, ready, strict=True)
        ]


class _Draft(NamedTuple):
    """A spec that is known to be valid."""

    spec: WheelSpec
    path: str
    members: list[Member]
    """All but the dist-info folder."""
    dist_info: str
    metadata: bytes


def _draft(spec: WheelSpec, folder: str) -> _Draft:
    path = os.path.join(folder, wheel_filename(spec))
    dist_info = dist_info_folder(spec)
    members = [*spec.files, *GeneratedFiles(spec.generated).members()]
    check_names(members)
    check_names(GeneratedFiles(spec.dist_info).members())
    for member in members:
        if member.arcname.startswith(dist_info + "/"):
            raise ValueError(f"{member.arcname!r} is in the dist-info folder, which is no place for payload")
    for name, _ in spec.dist_info:
        if name in _OWN:
            raise ValueError(f"{name} is made from the other fields of the spec")
    return _Draft(spec, path, members, dist_info, metadata_file(spec))


def _finish(draft: _Draft, writer: ZipWriter, packed_sizes: bool, environ: Mapping[str, str]) -> WrittenWheel:
    _check_declared(draft.spec, writer)
    used_zlib = any(row.method == DEFLATED and row.size > ONE_SHOT for row in writer.rows)
    _append(
        writer,
        [
            (f"{draft.dist_info}/{name}", content)
            for name, content in (
                ("METADATA", draft.metadata),
                ("WHEEL", wheel_file(draft.spec, used_zlib=used_zlib)),
                *sorted((*draft.spec.dist_info, *_sbom(draft.spec, writer, environ))),
            )
        ],
    )
    _append(writer, [(f"{draft.dist_info}/RECORD", record_file(writer.rows, draft.dist_info))])
    size = writer.finish()
    packed = {row.name: row.packed for row in writer.rows} if packed_sizes else {}
    return WrittenWheel(draft.path, size, len(draft.spec.files), packed)


def _check_declared(spec: WheelSpec, writer: ZipWriter) -> None:
    """What a source declares of its files, against what was read: in the same pass that packed them."""
    for row in writer.rows if spec.declared else ():
        wanted = spec.declared.get(row.name)
        if wanted is not None and wanted != row.digest:
            raise CallError(
                f"{row.name}: its sha256 is {row.digest.hex()}, and the source's RECORD says {wanted.hex()}"
            )


def _sbom(spec: WheelSpec, writer: ZipWriter, environ: Mapping[str, str]) -> list[tuple[str, bytes]]:
    if spec.provenance is None:
        return []
    digests = {row.name: row.digest for row in writer.rows}
    name, version = spec.distribution, str(Version(spec.version))
    return [(SBOM_NAME, sbom_file(name, version, spec.provenance, digests, environ))]


def _append(writer: ZipWriter, files: Sequence[tuple[str, bytes]]) -> None:
    writer.append(writer.pack(GeneratedFiles(files).members()))
