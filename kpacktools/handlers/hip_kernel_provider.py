"""hip-kernel-provider: JSON descriptors and the archive that they point into.

``arch_content/hip-kernel-provider/<t>/`` holds ``kpack/hip_kernel_provider_<t>.kpack`` and, in subfolders,
``<name>.<type>.json``, where the type is the last but one part of the file name: kdp (kernel descriptor package),
ukd (universal kernel descriptor), ued (engine), udd (dispatch), umd (matcher), uhd (heuristic), kmd (metadata).
Format: ROCm/rocm-libraries, hip-kernel-provider, descriptor README.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kpacktools import manifests
from kpacktools.checks.references import (
    checked_document,
    kernel_differences,
    local_reference,
    manifest_problems,
    some,
)
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Depth, Expected, Handler, Stated, hookimpl

__all__ = ["HipKernelProviderHandler"]

PART_TYPES: Final = ("kmd", "udd", "ued", "uhd", "umd")
_REFERENCES: Final = (("engine", "ued"), ("dispatch", "udd"))
_NOT_INSTALLED: Final = ("hip", "rocke", "hsaco")
"""Kinds of kernel_source that describe how to make a kernel: they do not belong in an installed tree."""


@dataclass(slots=True)
class _Descriptors:
    """What one target folder's descriptors say, gathered before it is compared."""

    packages: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    kernels: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    """(tree path, JSON path within it, universal kernel descriptor)"""
    ids: dict[str, set[str]] = field(default_factory=dict)
    """Descriptor type -> the ids that files of that type define."""
    unreadable: set[str] = field(default_factory=set)
    """Types of which some file could not be read: an id that is missing may be in it."""
    count: int = 0


class HipKernelProviderHandler(Handler):
    """Descriptors against one another and against their archive."""

    name = "hip_kernel_provider"
    engines = ("hip-kernel-provider", "hip_kernel_provider")
    summary = (
        "arch_content/hip-kernel-provider/<target>/: *.{kdp,ukd,ued,udd,umd,uhd,kmd}.json and kpack/*.kpack"
    )

    def check(self, bundle: Bundle, content: Content) -> Checked:
        """Schemas, references by id, archives, TOC keys in both directions, digests at depth content."""
        found: list[Finding] = []
        read = _read(bundle, content, found)
        found += _check_references(bundle, read)
        stated = list(_stated(bundle, read))
        named: dict[str, set[str]] = {}
        packed = 0
        expected: list[Expected] = []
        archives_of: dict[tuple[str, str], str | None] = {}
        for path, at, kernel in read.kernels:
            source = kernel["kernel_source"]
            if source["kind"] != "kpack":
                continue
            packed += 1
            name = (path, source["library"])  # the same for nearly all kernels of a descriptor
            if name not in archives_of:
                archives_of[name] = local_reference(bundle, path, source["library"], found)
            archive = archives_of[name]
            if archive is None:
                continue
            named.setdefault(archive, set()).add(source["toc_key"])
            expected.append(
                Expected(
                    path=archive,
                    manifest=path,
                    at=at,
                    key=source["toc_key"],
                    symbol=source["symbol"],
                    sha256=source["sha256"],
                    arguments=tuple((item["offset"], item["size"]) for item in source["signature"]),
                )
            )
        archives = {entry.path for entry in bundle.files(".kpack")}
        for archive in sorted(set(named) - archives):
            found.append(
                finding(
                    "missing-kpack",
                    bundle.path,
                    f"{counted(len(named[archive]), 'kernel')} should be in an archive that is not there",
                    f"expected {bundle.artifact.where(archive)}",
                )
            )
        found += _partial(bundle, read, packed, archives)
        if read.count and not read.unreadable:
            for archive in sorted(archives):
                found += kernel_differences(bundle, content, archive, named.get(archive, set()))
        by_manifest = packed if content.depth is Depth.LAYOUT else None
        found += _check_provenance(bundle, content, read)
        return Checked(tuple(found), by_manifest, tuple(stated), tuple(expected))


def _read(bundle: Bundle, content: Content, found: list[Finding]) -> _Descriptors:
    read = _Descriptors()
    for entry in bundle.files(".json"):
        kind = entry.path.rpartition("/")[2].split(".")[-2]
        if kind not in ("kdp", "ukd", *PART_TYPES):
            continue
        read.count += 1
        where = bundle.artifact.where(entry.path)
        schema = f"hip_kernel_provider.{kind if kind in ('kdp', 'ukd') else 'part'}"
        document, problems = manifest_problems(content, entry.path, where)
        if document is not None:
            authored = list(_authoring_kinds(document, where))
            document, problems = checked_document(document, schema, where)
            problems = authored or problems
        found += problems
        if document is None:
            read.unreadable.add(kind)
            continue
        read.ids.setdefault(kind, set()).add(document["id"])
        if kind == "ukd":
            read.kernels.append((entry.path, "$", document))
        elif kind == "kdp":
            read.packages.append((entry.path, document))
            for index, inline in enumerate(document["kernelDescriptors"]):
                if not isinstance(inline, Mapping):
                    continue
                at = f"$.kernelDescriptors[{index}]"
                kernel, problems = checked_document(inline, "hip_kernel_provider.ukd", where, at)
                found += problems
                if kernel is None:
                    read.unreadable.add("ukd")
                else:
                    read.kernels.append((entry.path, at, kernel))
    return read


def _authoring_kinds(document: Any, where: str) -> Iterator[Finding]:
    """Kernel sources that say how to make a kernel: said once and plainly, in place of what a schema would say."""
    if not isinstance(document, Mapping):
        return
    inline = document.get("kernelDescriptors")
    places = [("$", document)]
    places += [
        (f"$.kernelDescriptors[{i}]", item)
        for i, item in enumerate(inline if isinstance(inline, list) else ())
    ]
    for at, item in places:
        source = item.get("kernel_source") if isinstance(item, Mapping) else None
        if isinstance(source, Mapping) and source.get("kind") in _NOT_INSTALLED:
            yield finding(
                "manifest-invalid",
                where,
                f"{at}.kernel_source.kind: {source['kind']!r} says how to make the kernel, not where it is",
                "install the packed descriptors, not the authored ones",
            )


def _check_references(bundle: Bundle, read: _Descriptors) -> Iterator[Finding]:
    """Ids that a package names and no file of the folder defines."""
    for path, package in read.packages:
        wanted = [(name, kind, package[name]) for name, kind in _REFERENCES]
        wanted += [("matchers", "umd", item) for item in package["matchers"]]
        wanted += [
            ("kernelDescriptors", "ukd", i) for i in package["kernelDescriptors"] if isinstance(i, str)
        ]
        for name, kind, identifier in wanted:
            if identifier not in read.ids.get(kind, ()) and kind not in read.unreadable:
                yield finding(
                    "manifest-invalid",
                    bundle.artifact.where(path),
                    f"$.{name}: expected the id of a .{kind}.json of this target, found {identifier!r}",
                    f"install the .{kind}.json that defines it",
                )


def _stated(bundle: Bundle, read: _Descriptors) -> Iterator[Stated]:
    """Architectures that descriptors list and that leave the folder's target out. None is a wildcard."""
    listed = [(path, package.get("arch", ())) for path, package in read.packages]
    listed += [(path, kernel.get("arch", ())) for path, _, kernel in read.kernels]
    for path, arches in listed:
        if arches and bundle.key.base not in arches and bundle.key.name not in arches:
            for arch in arches:
                yield Stated("manifest", arch, path)


def _check_provenance(bundle: Bundle, content: Content, read: _Descriptors) -> Iterator[Finding]:
    """``{stem}.provenance.json.gz`` beside each descriptor of packed kernels: ``{kdp_id, entries{<ukd id>:
    {kernel_source_sha256, provenance}}}``, which must match the descriptor."""
    present = {entry.path for entry in bundle.entries}
    packed: dict[str, dict[str, str]] = {}
    for path, _, kernel in read.kernels:
        if kernel["kernel_source"]["kind"] == "kpack":
            packed.setdefault(path, {})[kernel["id"]] = kernel["kernel_source"]["sha256"]
    identifiers = {path: package["id"] for path, package in read.packages}
    without = []
    for path, kernels in packed.items():
        stem = path.removesuffix(".json")
        sidecar = next(
            (p for s in (stem, stem.rpartition(".")[0]) if (p := f"{s}.provenance.json.gz") in present), None
        )
        if sidecar is None:
            without.append(path)
            continue
        where = bundle.artifact.where(sidecar)
        try:
            document = content.json(sidecar)
        except (OSError, ValueError) as error:
            message = error.strerror if isinstance(error, OSError) else str(error)
            yield finding("sidecar-mismatch", where, f"cannot be read: {message}", "expected gzipped JSON")
            continue
        for problem in _provenance_problems(document, identifiers.get(path), kernels):
            yield finding(
                "sidecar-mismatch",
                where,
                problem,
                "pack descriptors and provenance again, from one run",
                sources=(where, bundle.artifact.where(path)),
            )
    if without:
        yield finding(
            "provenance-unknown",
            bundle.path,
            f"no provenance sidecar for {counted(sum(len(packed[path]) for path in without), 'packed kernel')}: "
            f"{some(sorted(path.rpartition('/')[2] for path in without))}",
            "install <name>.provenance.json.gz beside the descriptor",
        )


def _provenance_problems(document: Any, identifier: str | None, kernels: Mapping[str, str]) -> Iterator[str]:
    wrong = manifests.problems("hip_kernel_provider.provenance", document)
    yield from map(str, wrong)
    if wrong:
        return
    entries = document["entries"]
    if identifier is not None and document["kdp_id"] != identifier:
        yield f"$.kdp_id: expected {identifier!r} as in the descriptor, found {document['kdp_id']!r}"
    for missing in sorted(set(kernels) - set(entries)):
        yield f"$.entries: expected an entry for the packed kernel {missing!r}, found none"
    for name in sorted(set(kernels) & set(entries)):
        digest = entries[name]["kernel_source_sha256"]
        if digest != kernels[name]:
            yield (
                f"$.entries[{name!r}].kernel_source_sha256: expected {kernels[name]} as in the descriptor, "
                f"found {digest}"
            )


def _partial(bundle: Bundle, read: _Descriptors, packed: int, archives: set[str]) -> Iterator[Finding]:
    if archives and not read.count:
        yield finding(
            "partial-bundle",
            bundle.path,
            f"holds {counted(len(archives), 'archive')} without a descriptor",
            "expected .kdp.json or .ukd.json files beside them",
        )
    if packed and not archives:
        yield finding(
            "partial-bundle",
            bundle.path,
            f"holds descriptors of {counted(packed, 'packed kernel')} without an archive",
            f"expected kpack/hip_kernel_provider_{bundle.key}.kpack",
        )


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """hip-kernel-provider's handler."""
    return [HipKernelProviderHandler()]
