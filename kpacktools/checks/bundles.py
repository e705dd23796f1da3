"""Checking one engine bundle: its archives, its manifests, and whether all agree on a target.

Kernels themselves are read by :mod:`kpacktools.checks.kernels`, in chunks that the caller schedules between
:func:`examine` and :func:`conclude`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from kpacktools.checks.kernels import KNOWN_TYPES, LOOSE, Kernels, archive_finding
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.hookspecs import Bundle, Checked, Depth, Handler, Stated
from kpacktools.kpack import KpackError, Toc, read_toc
from kpacktools.kpack.reader import stored_count
from kpacktools.lanes import BundleLane, LaneTable, default_lanes, effective_lanes
from kpacktools.targets import TargetTable, UnknownTargetError
from kpacktools.trees import Entry, is_file, read_start
from kpacktools.trees.access import hold

if TYPE_CHECKING:
    from kpacktools.checks.reuse import Reuse

__all__ = ["CheckedBundle", "Examined", "KpackSummary", "conclude", "examine"]

MAX_MANIFEST: Final = 64 << 20
"""Bytes; the largest real manifest is under one million."""
_ARCHIVE_PLACES: Final = frozenset(("arch_content", "test_arch_content", ".kpack"))


class KpackSummary(Struct, frozen=True):
    """One archive of a bundle."""

    path: str
    size: int
    kernels: int | None
    scheme: str | None
    sha256: str | None = None
    """Of the file; None where it was not read whole."""


class CheckedBundle(Struct, frozen=True):
    """One engine bundle and what was found out about it."""

    bundle: Bundle
    size: int
    """Bytes of all its files."""
    kernels: int
    kernels_checked: int
    """Kernels whose TOC entry was checked; at depth content, those that were decompressed or read."""
    kpacks: tuple[KpackSummary, ...]
    lane: BundleLane
    compilers: Mapping[str, int]
    """Compiler (else linker) that code objects name -> how many; empty where none was read."""
    build_id: str | None
    findings: tuple[Finding, ...]
    archive_keys: Mapping[str, frozenset[str]]
    """Archive's tree path -> its TOC keys; empty unless they were asked for."""

    @property
    def lane_name(self) -> str | None:
        """The lane for reports: declared, else measured where all code objects agree on one."""
        measured = effective_lanes(self.lane, default_lanes())
        if self.lane.declared is not None and not self.lane.is_default:
            return self.lane.declared
        return next(iter(measured)) if len(measured) == 1 else None


class Examined(Struct, frozen=True, eq=False):
    """A bundle whose manifests and tables of contents were read."""

    bundle: Bundle
    checked: Checked
    tocs: Mapping[str, Toc]
    findings: tuple[Finding, ...]
    known: Mapping[str, Kernels] = field(default_factory=dict)
    """What earlier runs found: an archive's tree path, or ``ALL_LOOSE``, -> what reading its kernels brought."""
    held: tuple[object, ...] = ()
    """Keeps archives at hand that lie far away, for those who read their kernels."""

    @property
    def unread(self) -> Mapping[str, Toc]:
        """The tables of contents of the archives whose kernels are not known yet."""
        return {path: toc for path, toc in self.tocs.items() if path not in self.known}


class _Content:
    """A bundle's bytes, read at most once each. Implements :class:`kpacktools.hookspecs.Content`."""

    def __init__(self, bundle: Bundle, depth: Depth, targets: TargetTable) -> None:
        self.depth = depth
        self.targets = targets
        self.findings: list[Finding] = []
        self._bundle = bundle
        self._json: dict[str, Any] = {}

    @property
    def lanes(self) -> LaneTable:
        return default_lanes()

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        return {entry.path: entry for entry in self._bundle.entries}

    def read(self, path: str) -> bytes:
        entry = self._entries.get(path)
        size = 0 if entry is None else entry.size
        if size > MAX_MANIFEST:
            raise ValueError(f"{size} bytes, more than the {MAX_MANIFEST} that a manifest may have")
        tree = self._bundle.artifact.tree
        if entry is not None and is_file(entry):
            return read_start(tree, path, size + 1)
        with tree.open(path) as stream:
            # Not one large read: CPython allocates what is asked for, whatever the file holds.
            return stream.read(size + 1)

    def json(self, path: str) -> Any:
        if path not in self._json:
            data = self.read(path)
            try:
                self._json[path] = msgspec.json.decode(_unzipped(data) if path.endswith(".gz") else data)
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
                    toc = tocs[entry.path] = read_toc(stream, entry.size)
                    self.findings += _unnamed(self._bundle.artifact.where(entry.path), toc, stream)
            except (KpackError, OSError) as error:
                self.findings.append(archive_finding(self._bundle.artifact.where(entry.path), error))
        return tocs


def _unnamed(where: str, toc: Toc, stream: BinaryIO) -> Iterator[Finding]:
    """Code objects that an archive stores and its TOC does not name: one ordinal that is wrong looks like this."""
    stored = stored_count(stream, toc)
    if stored > toc.totals.ordinals:
        yield finding(
            "orphan-kernel",
            where,
            f"stores {stored} code objects, of which its TOC names {toc.totals.ordinals}: nothing can load the others",
            "pack the archive again",
        )


def _unzipped(data: bytes) -> bytes:
    """The content of a gzip file, no larger than a manifest may be. Raises :class:`ValueError`."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        out = inflate.decompress(data, MAX_MANIFEST)
    except zlib.error as error:
        raise ValueError(f"invalid gzip: {error}") from None
    if not inflate.eof:
        raise ValueError(f"cut, or more than {MAX_MANIFEST} bytes when decompressed")
    return out


def examine(
    bundle: Bundle, handler: Handler, depth: Depth, targets: TargetTable, reuse: Reuse | None = None
) -> Examined:
    """Read a bundle's tables of contents and let its handler check its manifests.

    At depth content, look up with ``reuse`` what is known of its kernels, and fetch the archives of which nothing is.

    Reads only the bundle's own files; safe to call from any thread.
    """
    content = _Content(bundle, depth, targets)
    tocs = content.kpacks
    checked = _ask(handler, bundle, content)
    stated = [*_names_stated(bundle, targets), *checked.stated]
    for path, toc in tocs.items():
        held = sorted(toc.totals.targets.union(toc.gfx_arches))
        stated += [Stated("TOC", target, path) for target in held]
    found = [
        *content.findings,
        *checked.findings,
        *_check_agreement(bundle, stated, targets),
        *_check_places(bundle),
        *_check_types(bundle, tocs),
    ]
    if not bundle.entries:
        found.append(
            finding(
                "empty-bundle",
                bundle.path,
                f"the folder of {bundle.key} holds no file",
                "remove it, or find out why the build left it empty",
            )
        )
    examined = Examined(bundle, checked, tocs, tuple(found))
    if depth < Depth.CONTENT:
        return examined
    if reuse is not None:
        examined = replace(examined, known=reuse.recall(bundle, tocs, checked.expected))
    wanted = [path for path, toc in examined.unread.items() if toc.kernels]
    return replace(examined, held=tuple(hold(bundle.artifact.tree, path) for path in wanted))


def conclude(examined: Examined, kernels: Kernels | None, *, keep_keys: bool) -> CheckedBundle:
    """A bundle with what reading its kernels brought; None where they were not read.

    ``keep_keys`` keeps the archives' TOC keys, for comparing variants of one target: all keys of a release would be
    too many to hold.
    """
    bundle, checked, tocs = examined.bundle, examined.checked, examined.tocs
    loose = sum(map(is_file, bundle.files(*LOOSE)))
    in_archives = sum(toc.count() for toc in tocs.values())
    return CheckedBundle(
        bundle=bundle,
        size=bundle.size,
        kernels=in_archives + loose if checked.kernels is None else checked.kernels,
        kernels_checked=in_archives if kernels is None else kernels.count,
        kpacks=tuple(_summary(bundle, entry, tocs.get(entry.path)) for entry in bundle.files(".kpack")),
        lane=BundleLane(
            engine=bundle.engine,
            key=bundle.key.name,
            path=bundle.path,
            declared=checked.lane,
            is_default=checked.lane_is_default,
            majors={} if kernels is None else dict(kernels.majors),
            ops=checked.ops,
        ),
        compilers={} if kernels is None else dict(kernels.tools),
        build_id=checked.build_id,
        findings=examined.findings + (() if kernels is None else tuple(kernels.findings)),
        archive_keys={path: frozenset(toc.kernels) for path, toc in tocs.items()} if keep_keys else {},
    )


def _ask(handler: Handler, bundle: Bundle, content: _Content) -> Checked:
    try:
        return handler.check(bundle, content)
    except CallError:
        raise  # a store that does not answer is not the handler's fault
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


def _check_types(bundle: Bundle, tocs: Mapping[str, Toc]) -> Iterator[Finding]:
    """TOC types that no loader knows."""
    for path, toc in tocs.items():
        odd = toc.totals.types.difference(KNOWN_TYPES)
        if odd:
            yield finding(
                "kpack-unsupported",
                bundle.artifact.where(path),
                f"holds kernels of type {', '.join(map(repr, sorted(odd)))}; known: {', '.join(KNOWN_TYPES)}",
                "a newer type needs a newer kpacktools",
                severity=Severity.WARNING,
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
