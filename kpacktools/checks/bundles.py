"""Checking one engine bundle: its archives, its code objects, its manifests, and whether all agree on a target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from kpacktools import codeobject
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Checked, Depth, Handler, Stated
from kpacktools.kpack import KpackError, Toc, read_toc
from kpacktools.targets import TargetId, TargetTable, UnknownTargetError
from kpacktools.trees import Entry, is_file

__all__ = ["CheckedBundle", "KpackSummary", "check_bundle"]

MAX_MANIFEST: Final = 64 << 20
"""Bytes; the largest real manifest is under one million."""
LOOSE: Final = (".co", ".hsaco")
_ARCHIVE_PLACES: Final = frozenset(("arch_content", "test_arch_content", ".kpack"))
_HEAD: Final = 64


@dataclass(frozen=True, slots=True)
class KpackSummary:
    """One archive of a bundle."""

    path: str
    size: int
    kernels: int | None
    scheme: str | None
    sha256: str | None = None
    """Of the file; None where it was not read whole."""


@dataclass(frozen=True, slots=True)
class CheckedBundle:
    """One engine bundle and what was found out about it."""

    bundle: Bundle
    size: int
    """Bytes of all its files."""
    kernels: int
    kernels_checked: int
    """Kernels whose TOC entry was checked; at depth content, those that were decompressed or read."""
    kpacks: tuple[KpackSummary, ...]
    lane: str | None
    build_id: str | None
    findings: tuple[Finding, ...]


class _Content:
    """A bundle's bytes, read at most once each. Implements :class:`kpacktools.hookspecs.Content`."""

    def __init__(self, bundle: Bundle, depth: Depth, targets: TargetTable) -> None:
        self.depth = depth
        self.targets = targets
        self.findings: list[Finding] = []
        self.kernels_checked = 0
        self.stated: list[Stated] = []
        self._bundle = bundle
        self._sizes = {entry.path: entry.size for entry in bundle.entries}
        self._json: dict[str, Any] = {}

    def read(self, path: str) -> bytes:
        size = self._sizes.get(path, 0)
        if size > MAX_MANIFEST:
            raise ValueError(f"{size} bytes, more than the {MAX_MANIFEST} that a manifest may have")
        with self._bundle.artifact.tree.open(path) as stream:
            return stream.read(MAX_MANIFEST + 1)

    def json(self, path: str) -> Any:
        if path not in self._json:
            try:
                self._json[path] = msgspec.json.decode(self.read(path))
            except msgspec.DecodeError as error:
                raise ValueError(f"invalid JSON: {error}") from None
            except RecursionError:
                raise ValueError("nested too deep") from None
        return self._json[path]

    @cached_property
    def kpacks(self) -> Mapping[str, Toc]:
        if self.depth < Depth.TOC:
            return {}
        tocs: dict[str, Toc] = {}
        for entry in self._bundle.files(".kpack"):
            if not is_file(entry):
                continue
            try:
                with self._bundle.artifact.tree.open(entry.path) as stream:
                    tocs[entry.path] = read_toc(stream, entry.size)
            except (KpackError, OSError) as error:
                self.findings.append(archive_finding(self._bundle.artifact.where(entry.path), error))
        return tocs

    @cached_property
    def digests(self) -> Mapping[tuple[str, str], frozenset[str]]:
        if self.depth < Depth.CONTENT:
            return {}
        found: dict[tuple[str, str], frozenset[str]] = {}
        for path, toc in self.kpacks.items():
            for key, target, digest in self._kernels_of(path, toc):
                del target
                found[path, key] = found.get((path, key), frozenset()) | {digest}
        return found

    def _kernels_of(self, path: str, toc: Toc) -> Iterator[tuple[str, str, str]]:
        """Decompress every kernel: (TOC key, target, sha256) of each one that is whole."""
        from kpacktools.kpack.reader import KpackReader, verify

        where = self._bundle.artifact.where(path)
        try:
            with self._bundle.artifact.tree.open(path) as stream:
                for kernel in verify(KpackReader(stream, self._sizes[path], toc)):
                    self.kernels_checked += 1
                    if isinstance(kernel.result, KpackError):
                        self.findings.append(archive_finding(where, kernel.result, kernel.key))
                        continue
                    self._check_code_object(where, kernel.key, kernel.target, kernel.head)
                    yield kernel.key, kernel.target, kernel.result
        except OSError as error:
            self.findings.append(archive_finding(where, error))

    def _check_code_object(self, where: str, key: str, target: str, head: bytes) -> None:
        header = codeobject.probe(head)
        built_for = None if header is None else header.target_id
        if built_for is None:
            return
        try:
            agrees = self.targets.covers(self.targets.key(target), built_for)
        except UnknownTargetError:
            agrees = TargetId.parse(built_for).processor == target
        if not agrees:
            self.findings.append(
                finding(
                    "codeobject-target-mismatch",
                    where,
                    f"the kernel {key!r} lies under {target} and was built for {built_for}",
                    "the device would refuse or misread it: pack the right object",
                )
            )


def archive_finding(where: str, error: KpackError | OSError, key: str = "") -> Finding:
    """The finding for an archive that cannot be read."""
    if isinstance(error, OSError):
        return finding("kpack-corrupt", where, f"cannot be read: {error.strerror or error}")
    about = f"{key!r}: " if key else ""
    return finding(error.finding, where, about + error.message, error.hint)


def check_bundle(bundle: Bundle, handler: Handler, depth: Depth, targets: TargetTable) -> CheckedBundle:
    """Check one bundle as deep as asked. Reads only the bundle's own files; safe to call from any thread."""
    content = _Content(bundle, depth, targets)
    found: list[Finding] = []
    tocs = content.kpacks
    checked = _ask(handler, bundle, content)
    if depth >= Depth.CONTENT:
        content.digests  # noqa: B018 - reads every kernel, whether the handler asked for digests or not
        found += _check_loose(bundle, content)
    found += content.findings
    found += checked.findings
    stated = [*_names_stated(bundle, targets), *checked.stated]
    for path, toc in tocs.items():
        held = sorted(toc.targets() | set(toc.gfx_arches))
        stated += [Stated("TOC", target, path) for target in held]
    found += _check_agreement(bundle, stated, targets)
    found += _check_places(bundle)
    if not bundle.entries:
        found.append(
            finding(
                "empty-bundle",
                bundle.path,
                f"the folder of {bundle.key} holds no file",
                "remove it, or find out why the build left it empty",
            )
        )
    loose = [entry for entry in bundle.files(*LOOSE) if is_file(entry)]
    counted = sum(toc.count() for toc in tocs.values()) + len(loose)
    return CheckedBundle(
        bundle=bundle,
        size=sum(entry.size for entry in bundle.entries),
        kernels=counted if checked.kernels is None else checked.kernels,
        kernels_checked=content.kernels_checked
        if depth >= Depth.CONTENT
        else sum(toc.count() for toc in tocs.values()),
        kpacks=tuple(_summary(bundle, entry, tocs.get(entry.path)) for entry in bundle.files(".kpack")),
        lane=checked.lane,
        build_id=checked.build_id,
        findings=tuple(found),
    )


def _ask(handler: Handler, bundle: Bundle, content: _Content) -> Checked:
    try:
        return handler.check(bundle, content)
    except Exception as error:  # noqa: BLE001 - a handler may be foreign code; its bundle must not pass unchecked
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return Checked(
            (
                finding(
                    "plugin-invalid",
                    bundle.path,
                    f"the handler {handler.name!r} ({type(handler).__module__}) raised {message}",
                    "report it to the plugin's authors; its content was not checked",
                ),
            )
        )


def _summary(bundle: Bundle, entry: Entry, toc: Toc | None) -> KpackSummary:
    return KpackSummary(
        path=bundle.artifact.where(entry.path),
        size=entry.size,
        kernels=None if toc is None else toc.count(),
        scheme=None if toc is None else toc.scheme,
    )


def _check_loose(bundle: Bundle, content: _Content) -> Iterator[Finding]:
    """Loose code objects of another target than their folder's."""
    for entry in bundle.files(*LOOSE):
        if not is_file(entry):
            continue
        where = bundle.artifact.where(entry.path)
        try:
            with bundle.artifact.tree.open(entry.path) as stream:
                header = codeobject.probe(stream.read(_HEAD))
        except OSError as error:
            yield finding("codeobject-target-mismatch", where, f"cannot be read: {error.strerror}")
            continue
        content.kernels_checked += 1
        built_for = None if header is None else header.target_id
        if built_for is not None and not content.targets.covers(bundle.key, built_for):
            yield finding(
                "codeobject-target-mismatch",
                where,
                f"lies under {bundle.key} and was built for {built_for}",
                f"move it to the folder of {built_for}, or build it for {bundle.key}",
            )


def _check_places(bundle: Bundle) -> Iterator[Finding]:
    """Archives outside the places where loaders and packagers look for them."""
    for entry in bundle.files(".kpack"):
        if _ARCHIVE_PLACES.isdisjoint(entry.path.split("/")):
            yield finding(
                "kpack-outside-arch-content",
                bundle.artifact.where(entry.path),
                f"lies outside arch_content and .kpack; it goes with {bundle.key}, by its name",
                f"move it to arch_content/{bundle.engine}/{bundle.key}/",
            )


def _names_stated(bundle: Bundle, targets: TargetTable) -> Iterator[Stated]:
    """Targets that archive names carry, such as ``rocke_client_gfx942.kpack``."""
    for entry in bundle.files(".kpack"):
        name = entry.path.rpartition("/")[2].removesuffix(".kpack")
        tail = name.rpartition("_")[2]
        try:
            yield Stated("archive name", targets.key(tail).name, entry.path)
        except UnknownTargetError:
            continue


def _check_agreement(bundle: Bundle, stated: Iterable[Stated], targets: TargetTable) -> Iterator[Finding]:
    """One ``target-mismatch`` for a bundle, listing every word on its target, where any contradicts the folder."""
    words = list(dict.fromkeys(stated))
    if all(targets.covers(bundle.key, word.target) for word in words):
        return
    unique = dict.fromkeys((word.what, word.target) for word in words)
    listed = ", ".join([f"folder {bundle.key}", *(f"{what} {target}" for what, target in unique)])
    sources = [f"folder: {bundle.key}"]
    sources += [f"{word.what}: {word.target} ({bundle.artifact.where(word.path)})" for word in words]
    yield finding(
        "target-mismatch",
        bundle.path,
        f"its parts disagree about the target: {listed}",
        "find out which one is right; a runtime would load these kernels on the wrong device or not at all",
        sources=sources,
    )
