"""``kpacktools artifacts emit`` as a function: a tree in, descriptors and a report out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kpacktools import __version__
from kpacktools.descriptors.emitting import describe
from kpacktools.descriptors.rendering import as_toml
from kpacktools.descriptors.sources import Source, of_artifact_directories, of_tree
from kpacktools.descriptors.staged import holds_artifacts
from kpacktools.errors import CallError
from kpacktools.findings import Finding, counted
from kpacktools.outputs.staging import State, stage
from kpacktools.pipeline import Settings, conclude
from kpacktools.planning.merge import Counts
from kpacktools.remote.delivery import Target, deliver
from kpacktools.remote.urls import is_url, shown
from kpacktools.reports.model import OutputReport, Report

__all__ = ["EmitOptions", "emit"]


class EmitOptions(Struct, frozen=True):
    """How ``artifacts emit`` writes."""

    artifact: str | None = None
    """The one to describe of a folder of artifact directories; the name that a build tree's content gets."""
    stages: tuple[str, ...] = ()
    """Stage directories of a build tree; the one that an install prefix becomes."""
    exact: bool = False
    replace: bool = False
    dry_run: bool = False


class _Written(Struct, frozen=True):
    """One descriptor to write."""

    name: str
    """Its file's name."""
    data: bytes
    files: int
    """What it captures."""


_WHOLE: Final = EmitOptions()


def emit(tree: str, out: str, settings: Settings, options: EmitOptions = _WHOLE) -> Report:
    """Write the descriptors that capture exactly a tree's files, into a folder or a file.

    ``tree`` is a folder of artifact directories, one of these, a build tree or an install prefix; ``out`` is a file
    where it ends in ``.toml``. Nothing is written where a finding is an error.

    Raises :class:`~kpacktools.errors.CallError` for a path or an option that is unusable.
    """
    if is_url(out) and out.endswith(".toml"):
        raise CallError(f"-o {shown(out)}: under a URL, name the folder that the descriptors go to")

    def write(target: Target) -> Report:
        there = replace(options, dry_run=target.dry_run, replace=target.replace)
        return _emit(tree, target.folder, settings, there)

    return deliver(out, write, settings, replace=options.replace, dry_run=options.dry_run)


def _emit(tree: str, out: str, settings: Settings, options: EmitOptions) -> Report:
    settings.progress.start(f"scanning {tree}")
    found: list[Finding] = []
    if holds_artifacts(tree):
        if options.stages:
            raise CallError("--stage is for build trees; artifact directories name theirs in their manifests")
        sources, found = of_artifact_directories(tree, settings.policy, options.artifact)
    else:
        sources = [of_tree(tree, settings.policy, options.artifact, options.stages)]
    written = []
    for item in sources:
        descriptor, findings = describe(item.artifact, item.components, item.places, exact=options.exact)
        found += findings
        text = as_toml(descriptor, _header(item, tree, exact=options.exact))
        # Names that are no UTF-8 are findings by now, and nothing will be written.
        written.append(_Written(descriptor.path, text.encode("utf-8", "replace"), item.files))
    folder, written = _destination(out, written)
    files = sum(item.files for item in written)
    report = conclude(
        Report("artifacts emit", tuple(found), counts=Counts(files_in=files, files_out=files)), settings
    )
    if not report.ok:
        return replace(report, counts=Counts(files_in=files))
    states = _write(folder, written, options)
    outputs = tuple(
        OutputReport(
            os.path.join(folder, item.name), "descriptor", "", item.files, len(item.data), states[item.name]
        )
        for item in written
    )
    return replace(report, outputs=outputs, dry_run=options.dry_run)


def _write(folder: str, written: Sequence[_Written], options: EmitOptions) -> dict[str, str]:
    """Write descriptors into a folder, each by one rename, and say what became of each."""
    if options.dry_run:
        return {item.name: _planned(os.path.join(folder, item.name), item.data, options) for item in written}
    with stage(folder) as staging:
        for item in written:
            with open(staging.path(item.name), "wb") as stream:
                stream.write(item.data)
        states: dict[str, State] = staging.publish(replace=options.replace)
    return {**states}


def _planned(path: str, data: bytes, options: EmitOptions) -> str:
    """What a run would do about one file. Raises :class:`~kpacktools.errors.CallError` where it would refuse."""
    if not os.path.lexists(path):
        return "planned"
    try:
        with open(path, "rb") as stream:
            same = stream.read() == data
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error
    if not same and not options.replace:
        raise CallError(f"{path} is there already with other content; --replace would replace it")
    return "kept" if same else "replaced"


def _destination(out: str, written: Sequence[_Written]) -> tuple[str, list[_Written]]:
    """The folder to write to, and the descriptors under the names that they get there."""
    if not out.endswith(".toml"):
        return out, list(written)
    if len(written) != 1:
        raise CallError(
            f"-o {out}: there are {len(written)} descriptors to write; name a folder, or one --artifact"
        )
    return os.path.dirname(out) or os.curdir, [replace(written[0], name=os.path.basename(out))]


def _header(item: Source, tree: str, *, exact: bool) -> Iterator[str]:
    source = "".join(c if c.isprintable() else "?" for c in os.path.basename(os.path.abspath(tree)))
    yield f"{item.artifact}: made by kpacktools {__version__} (artifacts emit) from {source}, " + counted(
        item.files, "file"
    )
    if exact:
        yield "Every file is listed; nothing else is taken (--exact)."
    else:
        yield "It takes exactly these files of that tree; patterns with a '*' leave the targets open."
    yield "Patterns are Ant's: '*' within a component, '**' any number of components."
