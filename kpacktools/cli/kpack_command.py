"""``kpacktools kpack list|extract|verify``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
from msgspec import Struct

from kpacktools.checks.kernels import archive_finding
from kpacktools.errors import CallError
from kpacktools.findings import Finding, counted, finding
from kpacktools.kpack import KpackError, Toc, read_toc
from kpacktools.kpack.reader import KpackReader, verify
from kpacktools.remote.delivery import refuse_url
from kpacktools.reports.text import human_size
from kpacktools.trees.place import Places
from kpacktools.trees.places import place_of

F = TypeVar("F", bound=Callable[..., Any])


class _Archive(Struct):
    path: str
    size: int
    toc: Toc | None
    digests: dict[tuple[str, str], str]
    findings: list[Finding]
    places: Places


def _format_option(function: F) -> F:
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
    )(function)


@click.group("kpack", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Look into kpack archives: list their kernels, extract them, or verify every byte."""


@command.command("list")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_format_option
def list_command(files: tuple[str, ...], form: str) -> int:
    """List the kernels of each FILE: key, target, bytes. Reads tables of contents only."""
    return _show([_open(path) for path in files], form, verified=False)


@command.command("verify")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_format_option
def verify_command(files: tuple[str, ...], form: str) -> int:
    """Decompress every kernel of each FILE and print its sha256; a damaged one does not hide the others."""
    return _show([_verified(_open(path)) for path in files], form, verified=True)


@command.command("extract")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", "out", required=True, metavar="DIR", help="New folder for the code objects.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this TOC key. May be repeated.")
@click.option(
    "--target", "targets", multiple=True, metavar="TARGET", help="Only this target. May be repeated."
)
def extract_command(files: tuple[str, ...], out: str, keys: tuple[str, ...], targets: tuple[str, ...]) -> int:
    """Write kernels as DIR/<target>/<key>.hsaco, whole or not at all."""
    from kpacktools.outputs.staging import stage

    refuse_url(out)
    archives = [_open(path) for path in files]
    if any(archive.findings for archive in archives):
        return _print_findings(archives)
    written: dict[str, str] = {}
    with stage(out) as staging:
        for archive in archives:
            for where, problem in _extract(archive, staging.root, keys, targets, written):
                if problem is not None:
                    archive.findings.append(problem)
                else:
                    written[where] = archive.path
        if any(archive.findings for archive in archives):
            return _print_findings(archives)
        if not written:
            raise CallError(
                "no kernel matches --key and --target; `kpacktools kpack list` shows what there is"
            )
        staging.publish()
    click.echo(f"{counted(len(written), 'code object')} in {out}")
    return 0


def _extract(
    archive: _Archive, root: str, keys: tuple[str, ...], targets: tuple[str, ...], written: dict[str, str]
) -> Iterator[tuple[str, Finding | None]]:
    assert archive.toc is not None
    with _stream(archive.places, archive.path, whole=True) as stream:
        reader = KpackReader(stream, archive.size, archive.toc)
        for key, target, kernel in archive.toc.in_blob_order():
            if (keys and key not in keys) or (targets and target not in targets):
                continue
            place = _place(key, target, kernel.type)
            if place is None or place in written:
                why = "which cannot be a path" if place is None else f"which {written[place]} holds too"
                hint = "extract it alone with --key" if place else ""
                yield "", finding("bad-path", archive.path, f"holds {key!r} for {target!r}, {why}", hint)
                continue
            path = os.path.join(root, place)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "xb") as output:
                    for piece in reader.stream(kernel):
                        output.write(piece)
            except KpackError as error:
                yield "", archive_finding(archive.path, error, key)
                continue
            except OSError as error:
                raise CallError(f"cannot write {place}: {error.strerror}") from error
            yield place, None


def _place(key: str, target: str, kind: str) -> str | None:
    """A relative path for a kernel; None where key or target would leave the output folder."""
    parts = [target, *key.split("/")]
    if any(part in ("", ".", "..") or re.search("[\\\\\x00-\x1f\x7f]", part) for part in parts):
        return None
    return "/".join(parts) + (f".{kind}" if re.fullmatch(r"[a-z]+", kind) else ".bin")


def _stream(places: Places, path: str, *, whole: bool = False) -> Any:
    try:
        return places.source(path, partial=not whole).open()
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error


def _open(path: str) -> _Archive:
    places, path = place_of(path)
    if not places.is_file(path):
        raise CallError(f"{path}: " + ("not a file" if places.exists(path) else "no such file"))
    with _stream(places, path) as stream:
        size = stream.seek(0, os.SEEK_END)
        archive = _Archive(path, size, None, {}, [], places)
        try:
            archive.toc = read_toc(stream, size)
        except (KpackError, OSError) as error:
            archive.findings.append(archive_finding(path, error))
    return archive


def _verified(archive: _Archive) -> _Archive:
    if archive.toc is None:
        return archive
    with _stream(archive.places, archive.path, whole=True) as stream:
        try:
            for kernel in verify(KpackReader(stream, archive.size, archive.toc)):
                if isinstance(kernel.result, KpackError):
                    archive.findings.append(archive_finding(archive.path, kernel.result, kernel.key))
                else:
                    archive.digests[kernel.key, kernel.target] = kernel.result
        except OSError as error:
            archive.findings.append(archive_finding(archive.path, error))
    return archive


def _show(archives: list[_Archive], form: str, *, verified: bool) -> int:
    if form == "json":
        document = {
            "schema": "kpacktools.kpack/v1",
            "archives": [_as_mapping(archive) for archive in archives],
        }
        click.echo(json.dumps(document, indent=1))
        return 1 if any(archive.findings for archive in archives) else 0
    for archive in archives:
        if archive.toc is None:
            continue
        toc = archive.toc
        click.echo(
            f"{archive.path}: {counted(toc.count(), 'kernel')} for {', '.join(sorted(toc.targets())) or 'no target'}, "
            f"{toc.scheme}, {human_size(archive.size)}"
        )
        for key, target, kernel in sorted(toc.entries(), key=lambda entry: (entry.key, entry.target)):
            line = f"  {target}  {kernel.original_size:>9,}  {key!s}"
            if verified:
                line += f"  {archive.digests.get((key, target), 'damaged')}"
            click.echo(_printable(line))
    return _print_findings(archives)


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


def _print_findings(archives: list[_Archive]) -> int:
    found = [item for archive in archives for item in archive.findings]
    for item in found:
        click.echo(_printable(f"{item.severity} {item.name}: {item.path}: {item.message}"), err=True)
        if item.hint:
            click.echo(_printable(f"  hint: {item.hint}"), err=True)
    return 1 if found else 0


def _as_mapping(archive: _Archive) -> dict[str, Any]:
    toc = archive.toc
    return {
        "path": archive.path,
        "bytes": archive.size,
        "scheme": None if toc is None else toc.scheme,
        "group_name": None if toc is None else toc.group_name,
        "gfx_arch_family": None if toc is None else toc.gfx_arch_family,
        "gfx_arches": [] if toc is None else list(toc.gfx_arches),
        "kernels": []
        if toc is None
        else [
            {
                "key": key,
                "target": target,
                "type": kernel.type,
                "ordinal": kernel.ordinal,
                "size": kernel.original_size,
                "metadata": kernel.metadata,
                "sha256": archive.digests.get((key, target)),
            }
            for key, target, kernel in toc.entries()
        ],
        "findings": [
            {
                "name": f.name,
                "severity": f.severity.value,
                "path": f.path,
                "message": f.message,
                "hint": f.hint,
            }
            for f in archive.findings
        ],
    }
