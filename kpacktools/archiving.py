"""Artifact archives as outputs of commands: of what split and merge planned, or of artifacts as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import structs

from kpacktools.checks.paths import check_names
from kpacktools.errors import CallError
from kpacktools.findings import Finding
from kpacktools.outputs.archives import (
    ArchiveForm,
    WrittenArchive,
    archive_name,
    compare_archive,
    write_archives,
)
from kpacktools.pipeline import Settings, conclude, open_inputs
from kpacktools.planning.links import check_links
from kpacktools.planning.merge import Counts
from kpacktools.planning.plan import PlannedFolder, PlannedGroup, in_order
from kpacktools.remote.delivery import Target, deliver
from kpacktools.reports.model import OutputReport, Report
from kpacktools.tasks.log import logged
from kpacktools.trees import names_in
from kpacktools.trees.shards import Artifact

__all__ = ["ArchiveForm", "archive", "archive_outputs"]


def archive(
    sources: Sequence[str],
    out: str,
    settings: Settings,
    *,
    form: ArchiveForm = "zst",
    replace: bool = False,
    dry_run: bool = False,
) -> Report:
    """Archive artifact directories as they are: nothing is claimed, split or merged.

    A source is an artifact directory or archive, or a folder of them; ``out`` may be that folder, since TheRock's
    builds keep archives beside the directories. Names, kinds of files and links are checked, and that every file
    is below a stage prefix.

    Raises :class:`~kpacktools.errors.CallError` for a source that is none of these, for two artifacts of one name,
    and where writing fails.
    """

    def write(target: Target) -> Report:
        return _archive(sources, target, settings, form)

    return deliver(out, write, settings, replace=replace, dry_run=dry_run)


def _archive(sources: Sequence[str], target: Target, settings: Settings, form: ArchiveForm) -> Report:
    out = target.folder
    shards = open_inputs(sources, settings.policy.targets())
    artifacts = [artifact for shard in shards for artifact in shard.artifacts]
    _refuse(artifacts, out)
    settings.progress.start("checking", files=len(artifacts))
    found = [finding for shard in shards for finding in shard.findings]
    found += [finding for artifact in artifacts for finding in _check(artifact)]
    folders = [_planned(artifact) for artifact in artifacts]
    files = sum(folder.count for folder in folders)
    report = Report("artifacts archive", tuple(found), counts=Counts(files_in=files, files_out=files))
    report = conclude(report, settings)
    if not report.ok:
        return report
    return archive_outputs(
        report, out, folders, settings, form=form, replace=target.replace, dry_run=target.dry_run
    )


def archive_outputs(
    report: Report,
    out: str,
    folders: Sequence[PlannedFolder],
    settings: Settings,
    *,
    form: ArchiveForm,
    replace: bool = False,
    dry_run: bool = False,
) -> Report:
    """Write planned folders as archives, and complete the report; with ``dry_run`` nothing is written.

    The size of an archive that would be written is that of its files, which is all that is known.

    Raises :class:`~kpacktools.errors.CallError` as :func:`kpacktools.outputs.archives.write_archives` does.
    """
    size = sum(folder.size for folder in folders)
    files = sum(folder.count for folder in folders)
    settings.progress.start("comparing" if dry_run else "archiving", files=files, size=size)
    if dry_run:
        outputs = tuple(_planned_output(out, folder, settings, form, replace) for folder in folders)
    else:
        outputs = tuple(
            OutputReport(item.path, "archive", item.key, item.files, item.size, item.state, item.sha256)
            for item in _written(out, folders, settings, form, replace)
        )
    return structs.replace(report, outputs=outputs, dry_run=dry_run)


def _written(
    out: str, folders: Sequence[PlannedFolder], settings: Settings, form: ArchiveForm, replace: bool
) -> tuple[WrittenArchive, ...]:
    """Write archives, by workers or by threads."""
    dispatch = settings.dispatch
    if dispatch is not None:
        from kpacktools.tasks.writing import pack_elsewhere

        return write_archives(
            out, folders, form=form, replace=replace, pack=partial(pack_elsewhere, dispatch)
        )
    size = sum(folder.size for folder in folders)
    files = sum(folder.count for folder in folders)
    with logged(settings.log, "archive", out, files=files, size=size):
        return write_archives(
            out, folders, form=form, replace=replace, jobs=settings.jobs, progress=settings.progress
        )


def _planned_output(
    out: str, folder: PlannedFolder, settings: Settings, form: ArchiveForm, replace: bool
) -> OutputReport:
    path = os.path.join(out, archive_name(folder, form))
    found = compare_archive(out, folder, form=form, jobs=settings.jobs, progress=settings.progress)
    if found == "differs" and not replace:
        raise CallError(f"{path} exists with other content; --replace would replace it")
    size = os.path.getsize(path) if found == "equal" else folder.size
    state = {"absent": "planned", "equal": "kept", "differs": "replaced"}[found]
    return OutputReport(path, "archive", folder.key, folder.count, size, state)


def _refuse(artifacts: Sequence[Artifact], out: str) -> None:
    """Raises :class:`~kpacktools.errors.CallError` for artifacts that cannot be archived together into ``out``."""
    target = os.path.realpath(out)
    named: dict[str, str] = {}
    for artifact in artifacts:
        if artifact.mount:
            raise CallError(
                f"{artifact.label} holds no artifact directory; `kpacktools split --archive` archives a prefix"
            )
        if f"{target}{os.sep}".startswith(f"{os.path.realpath(artifact.label)}{os.sep}"):
            raise CallError(f"-o {out} lies in the artifact directory {artifact.label}: write beside it")
        name = _name(artifact)
        if name in named:
            raise CallError(
                f"{named[name]} and {artifact.label} have one name: merge them, or archive them apart"
            )
        named[name] = artifact.label


def _check(artifact: Artifact) -> Iterator[Finding]:
    yield from check_names(artifact)
    # Whether a link dangles is a question to all artifacts of a release, of which some are here.
    yield from (found for found in check_links(artifact, (), ()) if found.name == "symlink-escape")


def _planned(artifact: Artifact) -> PlannedFolder:
    tree = artifact.tree
    groups = [
        PlannedGroup(folder, names_in(entries), tree, entries) for folder, entries in tree.folders.items()
    ]
    return PlannedFolder(_name(artifact), artifact.suffix, tuple(in_order(groups)), artifact.prefixes)


def _name(artifact: Artifact) -> str:
    return f"{artifact.name}_{artifact.component}_{artifact.suffix}"
