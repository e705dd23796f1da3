"""hip-kernel-provider: JSON descriptors and the archive that they point into.

``arch_content/hip-kernel-provider/<t>/`` holds ``kpack/hip_kernel_provider_<t>.kpack`` and, in subfolders,
``<name>.<type>.json``, where the type is the last but one part of the file name: kdp (kernel descriptor package),
ukd (universal kernel descriptor), ued (engine), udd (dispatch), umd (matcher), uhd (heuristic), kmd (metadata).
Format: ROCm/rocm-libraries, hip-kernel-provider, descriptor README.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from kpacktools import manifests
from kpacktools.checks.references import (
    checked_document,
    fitted_document,
    kernel_differences,
    local_reference,
    read_manifest,
    some,
    typed_manifest,
)
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Depth, Expected, Handler, Stated, hookimpl

if TYPE_CHECKING:
    from kpacktools.manifests.hip_kernel_provider import Kernel, Package, Packed

__all__ = ["HipKernelProviderHandler"]

PART_TYPES: Final = ("kmd", "udd", "ued", "uhd", "umd")
_NOT_INSTALLED: Final = ("hip", "rocke", "hsaco")
"""Kinds of kernel_source that describe how to make a kernel: they do not belong in an installed tree."""


class _File(Struct, frozen=True):
    """The descriptors of kernels in one file."""

    path: str
    """Tree path."""
    kernels: Sequence[Kernel]
    sources: Sequence[Packed | None]
    """Where each of them is packed; None for one that is not."""
    indices: Sequence[int] | None = None
    """Where they stand in their package; None for a file of its own."""
    package: Package | None = None

    def packed(self) -> Iterator[tuple[str, Packed]]:
        """Each packed kernel with the JSON path of its descriptor."""
        for index, source in enumerate(self.sources):
            if source is not None:
                yield "$" if self.indices is None else f"$.kernelDescriptors[{self.indices[index]}]", source


class _Descriptors(Struct):
    """What one target folder's descriptors say, gathered before it is compared."""

    files: list[_File] = field(default_factory=list)
    ids: dict[str, set[str]] = field(default_factory=dict)
    """Descriptor type -> the ids that files of that type define."""
    unreadable: set[str] = field(default_factory=set)
    """Types of which some file could not be read: an id that is missing may be in it."""
    count: int = 0

    def packages(self) -> Iterator[tuple[str, Package]]:
        """Each package with its tree path."""
        return ((file.path, file.package) for file in self.files if file.package is not None)


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
        for file in read.files:
            keys_of: defaultdict[str, list[str]] = defaultdict(list)
            for source in file.sources:
                if source is not None:
                    keys_of[source.library].append(source.toc_key)
            archives_of = {name: local_reference(bundle, file.path, name, found) for name in keys_of}
            for library, keys in keys_of.items():
                packed += len(keys)
                archive = archives_of[library]
                if archive is not None:
                    named.setdefault(archive, set()).update(keys)
            if content.depth >= Depth.CONTENT:
                expected += _expected(file, archives_of)
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


def _expected(file: _File, archives_of: Mapping[str, str | None]) -> Iterator[Expected]:
    for at, source in file.packed():
        archive = archives_of[source.library]
        if archive is not None:
            yield Expected(
                path=archive,
                manifest=file.path,
                at=at,
                key=source.toc_key,
                symbol=source.symbol,
                sha256=source.sha256,
                arguments=tuple((item.offset, item.size) for item in source.signature),
            )


def _read(bundle: Bundle, content: Content, found: list[Finding]) -> _Descriptors:
    read = _Descriptors()
    for entry in bundle.files(".json"):
        kind = entry.path.rpartition("/")[2].split(".")[-2]
        if kind == "kdp":
            identifier = _read_package(bundle, content, entry.path, read, found)
        elif kind == "ukd":
            identifier = _read_kernel(bundle, content, entry.path, read, found)
        elif kind in PART_TYPES:
            identifier = _read_part(bundle, content, entry.path, found)
        else:
            continue
        read.count += 1
        if identifier is None:
            read.unreadable.add(kind)
        else:
            read.ids.setdefault(kind, set()).add(identifier)
    return read


def _read_package(
    bundle: Bundle, content: Content, path: str, read: _Descriptors, found: list[Finding]
) -> str | None:
    """The package's id; None where it cannot be used."""
    from kpacktools.manifests.hip_kernel_provider import Package, PackageFile

    whole = typed_manifest(content, path, PackageFile)
    if whole is not None:
        kernels, indices = whole.inline()
        read.files.append(_file(path, kernels, indices, whole))
        return whole.id
    document = _read_document(bundle, content, path, "kdp", found)
    if document is None:
        return None
    where = bundle.artifact.where(path)
    # Its kernels are checked one by one: those that are wrong do not hide the others.
    items = document["kernelDescriptors"]
    alone = document | {"kernelDescriptors": [item for item in items if isinstance(item, str)]}
    package = fitted_document(alone, Package, where, found)
    if package is None:
        return None
    inline: dict[int, Kernel] = {}
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            kernel = _checked_kernel(item, where, found, f"$.kernelDescriptors[{index}]")
            if kernel is None:
                read.unreadable.add("ukd")
            else:
                inline[index] = kernel
    read.files.append(_file(path, list(inline.values()), list(inline), package))
    return package.id


def _read_kernel(
    bundle: Bundle, content: Content, path: str, read: _Descriptors, found: list[Finding]
) -> str | None:
    """The id of a kernel's descriptor in a file of its own; None where it cannot be used."""
    from kpacktools.manifests.hip_kernel_provider import Kernel, KernelFile

    kernel: Kernel | None = typed_manifest(content, path, KernelFile)
    if kernel is None:
        document = _read_document(bundle, content, path, "ukd", found)
        if document is not None:
            kernel = fitted_document(document, Kernel, bundle.artifact.where(path), found)
    if kernel is None:
        return None
    read.files.append(_file(path, (kernel,)))
    return kernel.id


def _read_part(bundle: Bundle, content: Content, path: str, found: list[Finding]) -> str | None:
    """The id of a descriptor that others refer to; None where it cannot be used."""
    from kpacktools.manifests.hip_kernel_provider import Part, PartFile

    part: Part | None = typed_manifest(content, path, PartFile)
    if part is None:
        document = _read_document(bundle, content, path, "part", found)
        if document is not None:
            part = fitted_document(document, Part, bundle.artifact.where(path), found)
    return None if part is None else part.id


def _checked_kernel(item: Mapping[str, Any], where: str, found: list[Finding], at: str) -> Kernel | None:
    """A kernel's descriptor inside a package; None where it does not follow its schema."""
    from kpacktools.manifests.hip_kernel_provider import Kernel

    document = checked_document(item, "hip_kernel_provider.ukd", where, found, at)
    return None if document is None else fitted_document(document, Kernel, where, found, at)


def _read_document(bundle: Bundle, content: Content, path: str, kind: str, found: list[Finding]) -> Any:
    """A descriptor as JSON that follows its schema; None where it does not, and ``found`` says why."""
    document = read_manifest(bundle, content, path, found)
    if document is None:
        return None
    where = bundle.artifact.where(path)
    authored = list(_authoring_kinds(document, where))
    problems: list[Finding] = []
    document = checked_document(document, f"hip_kernel_provider.{kind}", where, problems)
    found += authored or problems
    return document


def _file(
    path: str, kernels: Sequence[Kernel], indices: Sequence[int] | None = None, package: Package | None = None
) -> _File:
    from kpacktools.manifests.hip_kernel_provider import Packed

    sources = [kernel.kernel_source for kernel in kernels]
    packed = [source if type(source) is Packed else None for source in sources]
    return _File(path, kernels, packed, indices, package)


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
    for path, package in read.packages():
        wanted = [("engine", "ued", package.engine), ("dispatch", "udd", package.dispatch)]
        wanted += [("matchers", "umd", item) for item in package.matchers]
        wanted += [
            ("kernelDescriptors", "ukd", item) for item in package.kernelDescriptors if isinstance(item, str)
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
    listed = [(path, package.arch) for path, package in read.packages()]
    for file in read.files:
        listed += [(file.path, arches) for arches in dict.fromkeys([kernel.arch for kernel in file.kernels])]
    for path, arches in listed:
        if arches and bundle.key.base not in arches and bundle.key.name not in arches:
            for arch in arches:
                yield Stated("manifest", arch, path)


def _check_provenance(bundle: Bundle, content: Content, read: _Descriptors) -> Iterator[Finding]:
    """``{stem}.provenance.json.gz`` beside each descriptor of packed kernels: ``{kdp_id, entries{<ukd id>:
    {kernel_source_sha256, provenance}}}``, which must match the descriptor."""
    present = {entry.path for entry in bundle.entries}
    packed: dict[str, dict[str, str]] = {}
    for file in read.files:
        digests = {
            kernel.id: source.sha256
            for kernel, source in zip(file.kernels, file.sources, strict=True)
            if source is not None
        }
        if digests:
            packed[file.path] = digests
    identifiers = {path: package.id for path, package in read.packages()}
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
