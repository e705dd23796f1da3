"""Reading kernels: decompressed, hashed, parsed, and compared with their place and with what manifests say.

The kernels of a bundle are cut into chunks that any thread can read on its own; what is kept of a kernel is a digest
and a few counts, so that a release of hundreds of thousands of them fits in memory.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from kpacktools import codeobject
from kpacktools.findings import Finding, Severity, finding
from kpacktools.hookspecs import Bundle, Expected
from kpacktools.kpack import KpackError, Toc, TocEntry
from kpacktools.targets import TargetId, TargetKey, TargetTable, UnknownTargetError
from kpacktools.trees import Entry, is_file

__all__ = ["LOOSE", "Chunk", "Collector", "Kernels", "archive_finding", "chunks_of", "read_chunk"]

LOOSE: Final = (".co", ".hsaco")
"""Suffixes of code objects outside archives."""
KNOWN_TYPES: Final = ("hsaco", "cubin", "ptx", "spirv")
_CHUNK_BYTES: Final = 16 << 20
_CHUNK_KERNELS: Final = 512
_IN_MEMORY: Final = 8 << 20
"""Bytes of a code object that is held in memory; larger ones go through a temporary file."""
_READ: Final = 1 << 20
_ELF: Final = b"\x7fELF"

Expectations = Mapping[tuple[str, "str | None"], Sequence[Expected]]

Collector = Callable[[Bundle, str, "str | None", str, bytes], None]
"""Told of each kernel that could be read, from any thread: its bundle, the tree path of its archive or file, its TOC
key (None for a file), its target, and the sha256 of its (decompressed) bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some kernels of one bundle: part of an archive, or loose files."""

    bundle: Bundle
    expected: Expectations
    size: int
    """Bytes, decompressed."""
    archive: Entry | None = None
    toc: Toc | None = None
    frames: array[int] | None = None
    kernels: Sequence[TocEntry] = ()
    loose: Sequence[Entry] = ()


@dataclass(slots=True)
class Kernels:
    """What came of reading some kernels."""

    count: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    """Compiler (else linker) that a code object names -> code objects."""
    majors: Counter[int] = field(default_factory=Counter)
    """LLVM major of that -> code objects."""
    digests: list[tuple[bytes, int]] = field(default_factory=list)
    """(sha256, bytes) of each kernel, for counting what a set ships twice."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Kernels) -> None:
        """Take in the result of another chunk."""
        self.count += other.count
        self.tools += other.tools
        self.majors += other.majors
        self.digests += other.digests
        self.findings += other.findings


def archive_finding(where: str, error: KpackError | OSError, key: str = "") -> Finding:
    """The finding for an archive that cannot be read."""
    if isinstance(error, OSError):
        return finding("kpack-corrupt", where, f"cannot be read: {error.strerror or error}")
    about = f"{key!r}: " if key else ""
    return finding(error.finding, where, about + error.message, error.hint)


def chunks_of(bundle: Bundle, tocs: Mapping[str, Toc], expected: Iterable[Expected]) -> Iterator[Chunk]:
    """Cut a bundle's kernels into chunks of about 16 MiB, in the order of the files."""
    from kpacktools.kpack.reader import frame_index

    by_kernel: dict[tuple[str, str | None], list[Expected]] = {}
    for item in expected:
        by_kernel.setdefault((item.path, item.key), []).append(item)
    for entry in bundle.files(".kpack"):
        toc = tocs.get(entry.path)
        if toc is None:
            continue
        with bundle.artifact.tree.open(entry.path) as stream:
            frames = frame_index(stream, toc)
        for group, size in _grouped(toc.in_blob_order(), lambda item: item.kernel.original_size):
            yield Chunk(bundle, by_kernel, size, archive=entry, toc=toc, frames=frames, kernels=group)
    files = [entry for entry in bundle.files(*LOOSE) if is_file(entry)]
    for loose, size in _grouped(files, lambda entry: entry.size):
        yield Chunk(bundle, by_kernel, size, loose=loose)


def _grouped(items: Sequence[Any], size_of: Any) -> Iterator[tuple[list[Any], int]]:
    group: list[Any] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and (total + size > _CHUNK_BYTES or len(group) >= _CHUNK_KERNELS):
            yield group, total
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group, total


def read_chunk(chunk: Chunk, targets: TargetTable, collect: Collector | None = None) -> Kernels:
    """Read a chunk's kernels. Safe to call from any thread; a broken kernel does not hide the others.

    ``collect`` is told the digest of each, which is else only counted.
    """
    result = Kernels()
    if chunk.archive is None:
        for entry in chunk.loose:
            _read_loose(chunk, entry, targets, result, collect)
        return result
    from kpacktools.kpack.reader import KpackReader

    where = chunk.bundle.artifact.where(chunk.archive.path)
    previous: tuple[int, int] | None = None
    digest = b""
    try:
        with chunk.bundle.artifact.tree.open(chunk.archive.path) as stream:
            reader = KpackReader(stream, chunk.archive.size, chunk.toc, chunk.frames)
            for key, target, kernel in chunk.kernels:
                result.count += 1
                place = _Place(
                    where, f"the kernel {key!r}", target, _key(targets, target), kernel.type == "hsaco"
                )
                expected = chunk.expected.get((chunk.archive.path, key), ())
                same = (kernel.ordinal, kernel.original_size)
                try:
                    if same != previous or expected:
                        digest = _read_one(
                            reader.stream(kernel), place, expected, chunk.bundle, targets, result
                        )
                        previous = same
                    result.digests.append((digest, kernel.original_size))
                    if collect is not None:
                        collect(chunk.bundle, chunk.archive.path, key, target, digest)
                except KpackError as error:
                    result.findings.append(archive_finding(where, error, key))
                    previous = None
    except OSError as error:
        result.findings.append(archive_finding(where, error))
    return result


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a code object lies, and what that says about it."""

    where: str
    what: str
    """``the kernel 'x'``, or ``it`` for a file of its own."""
    target: str
    key: TargetKey | None
    """The target's key; None for a target that nobody knows."""
    is_code: bool = True
    """False for a TOC type that is no AMDGPU ELF."""


def _key(targets: TargetTable, target: str) -> TargetKey | None:
    try:
        return targets.key(target)
    except UnknownTargetError:
        return None


def _read_loose(
    chunk: Chunk, entry: Entry, targets: TargetTable, result: Kernels, collect: Collector | None
) -> None:
    bundle = chunk.bundle
    place = _Place(bundle.artifact.where(entry.path), "it", bundle.key.name, bundle.key)
    result.count += 1
    try:
        with bundle.artifact.tree.open(entry.path) as stream:
            expected = chunk.expected.get((entry.path, None), ())
            digest = _read_one(_pieces(stream), place, expected, bundle, targets, result)
    except OSError as error:
        result.findings.append(
            finding("codeobject-invalid", place.where, f"cannot be read: {error.strerror}")
        )
        return
    result.digests.append((digest, entry.size))
    if collect is not None:
        collect(bundle, entry.path, None, bundle.key.name, digest)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_READ):
        yield piece


def _read_one(
    pieces: Iterator[bytes],
    place: _Place,
    expected: Sequence[Expected],
    bundle: Bundle,
    targets: TargetTable,
    result: Kernels,
) -> bytes:
    """Hash a code object while it streams by, parse it, compare it; its sha256."""
    sha256 = hashlib.sha256()
    first = next(pieces, b"")
    sha256.update(first)
    if not first.startswith(_ELF):
        # Nothing to parse: it is hashed without being held.
        for piece in pieces:
            sha256.update(piece)
        if place.is_code:
            result.findings.append(_no_elf(place, first))
        _compare(None, None, sha256.digest(), place, expected, bundle, result)
        return sha256.digest()
    second = next(pieces, b"")
    if not second:
        # The usual case, and the fast one: the object came in one piece and is parsed as it is.
        digest = sha256.digest()
        _parse(first, digest, place, expected, bundle, targets, result)
        return digest
    sha256.update(second)
    import tempfile  # only a large object needs it

    held = bytearray(first + second)
    with tempfile.TemporaryFile() if _is_large(held, pieces, sha256) else _Nothing() as spool:
        if spool is None:
            _parse(bytes(held), sha256.digest(), place, expected, bundle, targets, result)
        else:
            spool.write(held)
            held.clear()
            for piece in pieces:
                sha256.update(piece)
                spool.write(piece)
            spool.flush()
            with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as view:
                _parse(view, sha256.digest(), place, expected, bundle, targets, result)
    return sha256.digest()


class _Nothing:
    """A context that holds nothing: the code object is in memory already."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _is_large(held: bytearray, pieces: Iterator[bytes], sha256: Any) -> bool:
    """Collect pieces in ``held`` until the object ends (False) or is too large to be held (True)."""
    for piece in pieces:
        sha256.update(piece)
        held += piece
        if len(held) > _IN_MEMORY:
            return True
    return False


def _no_elf(place: _Place, first: bytes) -> Finding:
    begins = repr(first[:8]) if first else "nothing"
    return finding(
        "codeobject-invalid",
        place.where,
        f"{place.what} is no ELF file (it begins with {begins}), so nothing of it can be checked",
        "expected an AMDGPU code object",
        severity=Severity.WARNING,
    )


def _parse(
    data: codeobject.Data,
    digest: bytes,
    place: _Place,
    expected: Sequence[Expected],
    bundle: Bundle,
    targets: TargetTable,
    result: Kernels,
) -> None:
    try:
        code = codeobject.read(data)
    except codeobject.CodeObjectError as error:
        result.findings.append(
            finding(
                "codeobject-invalid", place.where, f"{place.what} cannot be read: {error}", "build it again"
            )
        )
        _compare(None, None, digest, place, expected, bundle, result)
        return
    result.tools[code.tool] += 1
    if code.compiler_major is not None:
        result.majors[code.compiler_major] += 1
    result.findings += _target_findings(code, place, targets)
    _compare(code, data, digest, place, expected, bundle, result)


def _target_findings(code: codeobject.CodeObject, place: _Place, targets: TargetTable) -> Iterator[Finding]:
    words = dict.fromkeys(word for word in (code.header.target_id, code.target_id) if word is not None)
    for word in words:
        if place.key is None:
            agrees = TargetId.parse(word).processor == place.target
        else:
            agrees = targets.covers(place.key, word)
        if not agrees:
            yield finding(
                "codeobject-target-mismatch",
                place.where,
                f"{place.what} lies under {place.target} and was built for {word}",
                "the device would refuse or misread it: put it under its own target, or build it for this one",
            )
            return


def _compare(
    code: codeobject.CodeObject | None,
    data: codeobject.Data | None,
    digest: bytes,
    place: _Place,
    expected: Sequence[Expected],
    bundle: Bundle,
    result: Kernels,
) -> None:
    """One code object against what manifests say about it."""
    for item in expected:
        manifest = bundle.artifact.where(item.manifest)
        about = f"{item.at}: {item.key}" if item.key is not None else f"{item.at}"
        if item.sha256 is not None and item.sha256 != digest.hex():
            result.findings.append(
                finding(
                    "digest-mismatch",
                    manifest,
                    f"{about} has sha256 {digest.hex()}, the manifest says {item.sha256}",
                    "pack manifest and code objects again, from one run",
                    sources=(place.where,),
                )
            )
        if code is None or item.symbol is None:
            continue
        kernel = _kernel(code, item.symbol)
        if kernel is not None:
            result.findings += _signature_findings(item, kernel, about, manifest, place)
        elif not _defines(code, data, item.symbol):
            held = ", ".join(sorted(k.name for k in code.kernels or ())[:3]) or "none"
            result.findings.append(
                finding(
                    "symbol-missing",
                    manifest,
                    f"{about} names the symbol {item.symbol!r}, which the code object lacks; it holds {held}",
                    "pack manifest and code objects again, from one run",
                    sources=(place.where,),
                )
            )


def _kernel(code: codeobject.CodeObject, symbol: str) -> codeobject.KernelInfo | None:
    """The kernel of a symbol, which manifests write with or without ``.kd``."""
    names = (symbol, symbol + ".kd")
    return next((k for k in code.kernels or () if k.name == symbol or k.symbol in names), None)


def _defines(code: codeobject.CodeObject, data: codeobject.Data | None, symbol: str) -> bool:
    """Whether an object without (readable) metadata has a symbol; True where nothing tells."""
    if code.kernels is not None or data is None:
        return False
    try:
        names = codeobject.symbols(data)
    except codeobject.CodeObjectError:
        return False
    return not names or symbol in names or symbol + ".kd" in names


def _signature_findings(
    item: Expected, kernel: codeobject.KernelInfo, about: str, manifest: str, place: _Place
) -> Iterator[Finding]:
    if item.arguments is None:
        return
    actual = [(argument.offset, argument.size) for argument in kernel.explicit_args]
    agrees = len(actual) == len(item.arguments) and all(
        offset in (None, found[0]) and size in (None, found[1])
        for (offset, size), found in zip(item.arguments, actual, strict=True)
    )
    if not agrees:
        yield finding(
            "signature-mismatch",
            manifest,
            f"{about} takes arguments of (offset, size) {_shown(actual)}, the manifest says {_shown(item.arguments)}",
            "the caller would lay out the arguments wrongly: make the manifest from the object that is packed",
            sources=(place.where,),
        )


def _shown(arguments: Sequence[tuple[int | None, int | None]]) -> str:
    words = [f"({'?' if o is None else o}, {'?' if s is None else s})" for o, s in arguments[:8]]
    return f"{len(arguments)}: {' '.join(words)}" + (" ..." if len(arguments) > 8 else "")
