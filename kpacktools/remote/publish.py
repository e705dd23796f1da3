"""Publishing: what a command wrote goes to a store, and the report that names every file of it goes last.

A store has no rename of a folder, so that many files cannot appear at once. What makes a set of them is the report
``kpacktools-report.json`` beside them: it is written when all that it lists is there and was looked at again, and it
is removed before anything that it lists is changed. Whoever reads the report first never sees a part of a set, and
a run that is killed at any moment leaves files without a report, which the next run completes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from msgspec import Struct, structs

from kpacktools.errors import CallError
from kpacktools.findings import counted
from kpacktools.outputs.staging import State
from kpacktools.pipeline import Settings
from kpacktools.remote.destination import Destination, Found, Taken, Upload
from kpacktools.remote.destinations import open_destination
from kpacktools.remote.published import MAX_REPORT, Listed, listed_in
from kpacktools.remote.staged import Staged, staged_files
from kpacktools.remote.target import Target, Write
from kpacktools.reports.jsonreport import as_mapping
from kpacktools.reports.model import OutputReport, Report
from kpacktools.trees.names import REPORT_NAME
from kpacktools.trees.places import identity

__all__ = ["publish"]

_SMALL: Final = 1 << 20
_SMALL_AT_ONCE: Final = 12
"""Requests at once for objects of at most so many bytes: their time is spent waiting."""
_FEWEST_LARGE: Final = 4
_MOST_LARGE: Final = 6
"""Requests at once for others: of 8 MiB each, which takes 17 MB of memory."""


class _Work(Struct, frozen=True):
    """What has to happen so that a place holds a set, and nothing else where the set's folders are."""

    new: tuple[Staged, ...]
    equal: Mapping[str, Found]
    other: tuple[Staged, ...]
    """There with other bytes."""
    extra: tuple[str, ...]
    """There, in a folder of the set, and not of the set."""
    has_report: bool
    is_listed: bool
    """The report that is there lists exactly the set."""

    @property
    def is_done(self) -> bool:
        return self.is_listed and not (self.new or self.other or self.extra)


def publish(
    out: str, write: Write, settings: Settings, *, replace: bool = False, dry_run: bool = False
) -> Report:
    """Run ``write`` on a folder of its own, upload what it wrote, and put the set's report last.

    Objects that are there with the same bytes are kept; others are replaced with ``replace``, and are else an error
    before anything is uploaded. With ``dry_run`` nothing is uploaded or removed.

    Raises what ``write`` raises, and :class:`~kpacktools.errors.CallError` where the place cannot be written to,
    holds another set, or would lose something of this one.
    """
    place = open_destination(out)
    before = place.listing()  # before any work is done: is there such a place, and are we let in?
    if dry_run:
        return _rehearsed(place, out, before, write, settings, replace)
    place.clean()
    with place.workspace() as folder:
        report = _written(out, Target(folder, is_passing=not place.takes_files), write, place.url)
        if not report.ok:
            return report
        files = staged_files(folder, place.url, settings.jobs)
        outputs = _with_digests(report.outputs, files, place.url)
        work = _compared(place, files, outputs, settings)
        if not replace:
            _refuse(place, work)
        states = _states(work, outputs, place.url)
        if not work.is_done:
            _carry_out(place, work, files, structs.replace(report, outputs=outputs), settings, replace)
    note = f"published: {place.url}/{REPORT_NAME} lists {counted(len(files), 'file')}"
    return structs.replace(report, outputs=_in_state(outputs, states, place.url), notes=(*report.notes, note))


def _rehearsed(
    place: Destination, out: str, before: Mapping[str, Found], write: Write, settings: Settings, replace: bool
) -> Report:
    """What would be published. Where nothing stands in the way, nothing is written to find it out."""
    with place.workspace() as folder:
        report = _written(out, Target(folder, dry_run=True), write, place.url)
    names = [_name(item, place.url) for item in report.outputs]
    if not any(_lies_in(found, name) for name in (*names, REPORT_NAME) for found in before):
        return report
    with place.workspace() as folder:
        made = _written(out, Target(folder, is_passing=not place.takes_files), write, place.url)
        files = staged_files(folder, place.url, settings.jobs)
        work = _compared(place, files, made.outputs, settings)
    if not replace:
        _refuse(place, work)
    states = {
        name: "planned" if s == "written" else s for name, s in _states(work, made.outputs, place.url).items()
    }
    return structs.replace(report, outputs=_in_state(made.outputs, states, place.url))


def _written(out: str, target: Target, write: Write, url: str) -> Report:
    """What ``write`` says, with the place's URL where it names the folder that it was given."""
    folder = target.folder

    def told(text: str) -> str:
        return text.replace(folder, url)

    try:
        report = write(target)
    except CallError as error:
        raise CallError(told(str(error))) from error
    for item in report.inputs:
        if _lies_below(out, item.path):
            raise CallError(f"-o {url} lies in the input {item.path}: write beside it")
    return structs.replace(
        report,
        outputs=tuple(structs.replace(item, path=told(item.path)) for item in report.outputs),
        findings=tuple(
            structs.replace(
                item, path=told(item.path), message=told(item.message), sources=tuple(map(told, item.sources))
            )
            for item in report.findings
        ),
        notes=tuple(map(told, report.notes)),
    )


def _lies_below(out: str, source: str) -> bool:
    """True for an output in an input, which would be its own input the next time."""
    target, inside = identity(out), identity(source)
    return target == inside or target.startswith((f"{inside}/", f"{inside}{os.sep}"))


def _name(output: OutputReport, url: str) -> str:
    """An output's name below OUT; empty for OUT itself."""
    return output.path[len(url) :].replace(os.sep, "/").strip("/")


def _lies_in(found: str, name: str) -> bool:
    return not name or found == name or found.startswith(f"{name}/")


def _with_digests(
    outputs: Sequence[OutputReport], files: Sequence[Staged], url: str
) -> tuple[OutputReport, ...]:
    """Outputs that are one file each know its digest now."""
    digests = {file.name: file.sha256 for file in files}
    return tuple(structs.replace(item, sha256=digests.get(_name(item, url), item.sha256)) for item in outputs)


def _compared(
    place: Destination, files: Sequence[Staged], outputs: Iterable[OutputReport], settings: Settings
) -> _Work:
    """What is there, against what is to be there."""
    there = place.listing()
    wanted = {file.name: file for file in files}
    present = [file for file in files if file.name in there]
    settings.progress.start("comparing", files=len(present), size=sum(file.size for file in present))
    with ThreadPoolExecutor(_large_at_once(settings)) as pool:
        same = list(pool.map(lambda file: place.same(file, there[file.name]), present))
    equal = {file.name: there[file.name] for file, is_same in zip(present, same, strict=True) if is_same}
    folders = {_name(item, place.url) for item in outputs if item.kind in ("artifact", "prefix")}
    extra = [
        name
        for name in there
        if name not in wanted and name != REPORT_NAME and ("" in folders or name.partition("/")[0] in folders)
    ]
    found = there.get(REPORT_NAME)
    listed = None if found is None or found.size > MAX_REPORT else listed_in(place.read(REPORT_NAME))
    return _Work(
        new=tuple(file for file in files if file.name not in there),
        equal=equal,
        other=tuple(file for file in present if file.name not in equal),
        extra=tuple(sorted(extra)),
        has_report=found is not None,
        is_listed=listed == _listed(files),
    )


def _listed(files: Iterable[Staged]) -> tuple[Listed, ...]:
    return tuple(Listed(file.name, file.size, file.sha256) for file in files)


def _refuse(place: Destination, work: _Work) -> None:
    """Raises :class:`~kpacktools.errors.CallError` for what only ``--replace`` may change."""
    for file in work.other:
        raise CallError(f"{place.url}/{file.name} is there with other content; --replace replaces it")
    for name in work.extra:
        raise CallError(f"{place.url}/{name} is there and not in the plan; --replace removes it")
    if work.has_report and not work.is_listed:
        raise CallError(
            f"{place.url}/{REPORT_NAME} is there, of a set with other files: publish into another folder, or give up "
            "that set with --replace"
        )


def _states(work: _Work, outputs: Iterable[OutputReport], url: str) -> dict[str, State]:
    """What becomes of each output, by its name."""
    changed = _tops((*work.extra, *(file.name for file in work.other)))
    missing = _tops(file.name for file in work.new)
    states: dict[str, State] = {}
    for item in outputs:
        name = _name(item, url)
        states[name] = "replaced" if name in changed else "written" if name in missing else "kept"
    return states


def _tops(names: Iterable[str]) -> frozenset[str]:
    """The outputs that names of files may be in: OUT itself, and what lies directly in it."""
    tops = {name.partition("/")[0] for name in names}
    return frozenset((*tops, "")) if tops else frozenset()


def _in_state(
    outputs: Iterable[OutputReport], states: Mapping[str, str], url: str
) -> tuple[OutputReport, ...]:
    return tuple(structs.replace(item, state=states[_name(item, url)]) for item in outputs)


def _carry_out(
    place: Destination,
    work: _Work,
    files: Sequence[Staged],
    report: Report,
    settings: Settings,
    replace: bool,
) -> None:
    """Make the place hold the set. From the first step to the last there is no report."""
    if work.has_report:
        place.delete(REPORT_NAME)
    for name in work.extra:
        place.delete(name)
    expected = {**work.equal, **_sent(place, work, settings)}
    _verify(place, expected)
    try:
        place.put_bytes(REPORT_NAME, _document(report, files), create=not replace)
    except Taken:
        if listed_in(place.read(REPORT_NAME)) != _listed(files):
            raise CallError(
                f"{place.url}/{REPORT_NAME} was written by another run meanwhile, of a set with other files"
            ) from None
    if replace:
        # Another run with --replace may have changed a file since it was looked at: then nothing is published.
        try:
            _verify(place, expected)
        except CallError:
            place.delete(REPORT_NAME)
            raise


def _sent(place: Destination, work: _Work, settings: Settings) -> dict[str, Found]:
    """Upload what is not there yet, or not with these bytes; what each is there."""
    todo = [(file, True) for file in work.new] + [(file, False) for file in work.other]
    # The largest first, so that it is not the one that all others have to wait for.
    todo.sort(key=lambda item: -item[0].size)
    settings.progress.start("uploading", files=len(todo), size=sum(file.size for file, _ in todo))
    uploads = [place.upload(file, create=create) for file, create in todo]
    # Two pools: every thread that ever held a part keeps memory for one.
    large = ThreadPoolExecutor(_large_at_once(settings))
    small = ThreadPoolExecutor(_SMALL_AT_ONCE)
    found: dict[str, Found] = {}
    try:
        pieces = [
            [(large if file.size > _SMALL else small).submit(upload.send, n) for n in range(upload.pieces)]
            for (file, _), upload in zip(todo, uploads, strict=True)
        ]
        for (file, _), upload, sending in zip(todo, uploads, pieces, strict=True):
            for piece in sending:
                piece.result()
            found[file.name] = _finished(place, file, upload)
            settings.progress.advance(files=1, size=file.size)
    finally:
        for pool in (large, small):
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in (large, small):
            pool.shutdown(wait=True)
        for upload in uploads[len(found) :]:
            upload.cancel()
    return found


def _finished(place: Destination, file: Staged, upload: Upload) -> Found:
    """What an upload became; where another run was faster, what that put there, if it is the same."""
    try:
        return upload.finish()
    except Taken:
        upload.cancel()
        found = place.find(file.name)
        if found is None or not place.same(file, found):
            raise CallError(
                f"{place.url}/{file.name} was written by another run meanwhile, with other content"
            ) from None
        return found


def _verify(place: Destination, expected: Mapping[str, Found]) -> None:
    """The last look before a set is published: everything is there as it was sent or found.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    there = place.listing()
    for name, wanted in expected.items():
        found = there.get(name)
        if found is None or found.size != wanted.size or found.etag != wanted.etag:
            what = "is gone" if found is None else "was changed"
            raise CallError(f"{place.url}/{name} {what} while the set was uploaded, which has no report now")


def _document(report: Report, files: Iterable[Staged]) -> bytes:
    """The report as it is published: what the set is, and not which of it this very run had to write."""
    outputs = tuple(structs.replace(item, state="written") for item in report.outputs)
    mapping: dict[str, Any] = as_mapping(structs.replace(report, outputs=outputs))
    mapping["published"] = {
        "files": [{"path": file.name, "bytes": file.size, "sha256": file.sha256} for file in files]
    }
    return (json.dumps(mapping, indent=1, ensure_ascii=True) + "\n").encode()


def _large_at_once(settings: Settings) -> int:
    return min(_MOST_LARGE, max(_FEWEST_LARGE, settings.jobs))
