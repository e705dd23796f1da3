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
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from msgspec import Struct, field

from kpacktools import codeobject
from kpacktools.findings import Finding, Severity, finding
from kpacktools.hookspecs import Bundle, Expected
from kpacktools.kpack import Kernel, KpackError, Toc, TocEntry
from kpacktools.targets import TargetId, TargetKey, TargetTable, UnknownTargetError
from kpacktools.trees import Entry, is_file
from kpacktools.trees.access import open_whole

if TYPE_CHECKING:
    from kpacktools.kpack.reader import KpackReader

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


class Chunk(Struct, frozen=True, eq=False):
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


class Kernels(Struct):
    """What came of reading some kernels."""

    count: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    """Compiler (else linker) that a code object names -> code objects."""
    majors: Counter[int] = field(default_factory=Counter)
    """LLVM major of that -> code objects."""
    digests: list[tuple[bytes, int]] = field(default_factory=list)
    """(sha256, bytes) of each kernel, for counting what a set ships twice; none where a collector is told of them."""
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
        if toc is None or not toc.kernels:
            continue
        with open_whole(bundle.artifact.tree, entry.path) as stream:
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

    ``collect`` is told the digest of each, which is then not kept.
    """
    run = _Run(chunk.bundle, targets)
    result = run.result
    if chunk.archive is None:
        for entry in chunk.loose:
            _read_loose(chunk, entry, run, collect)
        return result
    from kpacktools.kpack.reader import KpackReader

    archive = chunk.archive.path
    where = chunk.bundle.artifact.where(archive)
    previous: tuple[int, int] | None = None
    digest = b""
    try:
        with open_whole(chunk.bundle.artifact.tree, archive) as stream:
            reader = KpackReader(stream, chunk.archive.size, chunk.toc, chunk.frames)
            for key, target, kernel in chunk.kernels:
                result.count += 1
                expected = chunk.expected.get((archive, key), ())
                same = (kernel.ordinal, kernel.original_size)
                try:
                    if same != previous or expected:
                        place = _Place(where, key, target, run.key_of(target), kernel.type == "hsaco")
                        digest = _read_packed(reader, kernel, place, expected, run)
                        previous = same
                    if collect is None:
                        result.digests.append((digest, kernel.original_size))
                    else:
                        collect(chunk.bundle, archive, key, target, digest)
                except KpackError as error:
                    result.findings.append(archive_finding(where, error, key))
                    previous = None
    except OSError as error:
        result.findings.append(archive_finding(where, error))
    return result


def _read_packed(
    reader: KpackReader, kernel: Kernel, place: _Place, expected: Sequence[Expected], run: _Run
) -> bytes:
    """Read one kernel of an archive; its sha256."""
    # Of no use to anyone after this call: the next kernel finds its memory, where else pages are faulted in anew.
    whole = reader.whole(kernel)
    if whole is None:
        return _read_pieces(reader.stream(kernel), place, expected, run)
    return _read_whole(whole, place, expected, run)


class _Place(NamedTuple):
    """Where a code object lies, and what that says about it."""

    where: str
    toc_key: str | None
    """None for a file of its own."""
    target: str
    key: TargetKey | None
    """The target's key; None for a target that nobody knows."""
    is_code: bool = True
    """False for a TOC type that is no AMDGPU ELF."""

    @property
    def what(self) -> str:
        """``the kernel 'x'``, or ``it``."""
        return "it" if self.toc_key is None else f"the kernel {self.toc_key!r}"


class _Run(Struct):
    """The reading of one chunk: what holds for all of its kernels."""

    bundle: Bundle
    targets: TargetTable
    result: Kernels = field(default_factory=Kernels)
    agreeing: set[tuple[Any, ...]] = field(default_factory=set)
    """What headers, metadata and places said of the target where they agreed: nearly always the same."""
    _keys: dict[str, TargetKey | None] = field(default_factory=dict)

    def key_of(self, target: str) -> TargetKey | None:
        """The key of a target; None for one that nobody knows."""
        if target not in self._keys:
            try:
                self._keys[target] = self.targets.key(target)
            except UnknownTargetError:
                self._keys[target] = None
        return self._keys[target]


def _read_loose(chunk: Chunk, entry: Entry, run: _Run, collect: Collector | None) -> None:
    bundle = run.bundle
    place = _Place(bundle.artifact.where(entry.path), None, bundle.key.name, bundle.key)
    run.result.count += 1
    try:
        with open_whole(bundle.artifact.tree, entry.path) as stream:
            digest = _read_pieces(_pieces(stream), place, chunk.expected.get((entry.path, None), ()), run)
    except OSError as error:
        run.result.findings.append(
            finding("codeobject-invalid", place.where, f"cannot be read: {error.strerror}")
        )
        return
    if collect is None:
        run.result.digests.append((digest, entry.size))
    else:
        collect(bundle, entry.path, None, bundle.key.name, digest)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_READ):
        yield piece


def _read_whole(data: bytes, place: _Place, expected: Sequence[Expected], run: _Run) -> bytes:
    """Hash a code object, parse it, compare it; its sha256."""
    digest = hashlib.sha256(data).digest()
    if data.startswith(_ELF):
        _parse(data, digest, place, expected, run)
    else:
        _not_parsed(data, digest, place, expected, run)
    return digest


def _read_pieces(pieces: Iterator[bytes], place: _Place, expected: Sequence[Expected], run: _Run) -> bytes:
    """The same, while it streams by."""
    first = next(pieces, b"")
    second = next(pieces, b"")
    if not second:
        return _read_whole(first, place, expected, run)
    sha256 = hashlib.sha256(first)
    sha256.update(second)
    if not first.startswith(_ELF):
        # Nothing to parse: it is hashed without being held.
        for piece in pieces:
            sha256.update(piece)
        _not_parsed(first, sha256.digest(), place, expected, run)
        return sha256.digest()
    held = bytearray(first)
    held += second
    if not _is_large(held, pieces, sha256):
        with memoryview(held) as view:
            _parse(view, sha256.digest(), place, expected, run)
        return sha256.digest()
    import tempfile  # only a large object needs it

    with tempfile.TemporaryFile() as spool:
        spool.write(held)
        held.clear()
        for piece in pieces:
            sha256.update(piece)
            spool.write(piece)
        spool.flush()
        with mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            _parse(mapped, sha256.digest(), place, expected, run)
    return sha256.digest()


def _is_large(held: bytearray, pieces: Iterator[bytes], sha256: Any) -> bool:
    """Collect pieces in ``held`` until the object ends (False) or is too large to be held (True)."""
    for piece in pieces:
        sha256.update(piece)
        held += piece
        if len(held) > _IN_MEMORY:
            return True
    return False


def _not_parsed(first: bytes, digest: bytes, place: _Place, expected: Sequence[Expected], run: _Run) -> None:
    """An object that does not begin as an ELF file does."""
    if place.is_code:
        run.result.findings.append(_no_elf(place, first))
    _compare(None, None, digest, place, expected, run)


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
    data: codeobject.Data, digest: bytes, place: _Place, expected: Sequence[Expected], run: _Run
) -> None:
    result = run.result
    try:
        code = codeobject.read(data)
    except codeobject.CodeObjectError as error:
        result.findings.append(
            finding(
                "codeobject-invalid", place.where, f"{place.what} cannot be read: {error}", "build it again"
            )
        )
        _compare(None, None, digest, place, expected, run)
        return
    result.tools[code.tool] += 1
    major = code.compiler_major
    if major is not None:
        result.majors[major] += 1
    header = code.header
    said = (header.mach, header.xnack, header.sramecc, code.target, place.target)
    if said not in run.agreeing:
        found = list(_target_findings(code, place, run.targets))
        if found:
            result.findings += found
        else:
            run.agreeing.add(said)
    _compare(code, data, digest, place, expected, run)


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
    run: _Run,
) -> None:
    """One code object against what manifests say about it."""
    for item in expected:
        if item.sha256 is not None and item.sha256 != digest.hex():
            run.result.findings.append(
                finding(
                    "digest-mismatch",
                    run.bundle.artifact.where(item.manifest),
                    f"{_about(item)} has sha256 {digest.hex()}, the manifest says {item.sha256}",
                    "pack manifest and code objects again, from one run",
                    sources=(place.where,),
                )
            )
        if code is None or item.symbol is None:
            continue
        kernel = _kernel(code, item.symbol)
        if kernel is not None:
            run.result.findings += _signature_findings(item, kernel, place, run.bundle)
        elif not _defines(code, data, item.symbol):
            held = ", ".join(sorted(k.name for k in code.kernels or ())[:3]) or "none"
            run.result.findings.append(
                finding(
                    "symbol-missing",
                    run.bundle.artifact.where(item.manifest),
                    f"{_about(item)} names the symbol {item.symbol!r}, which the code object lacks; it holds {held}",
                    "pack manifest and code objects again, from one run",
                    sources=(place.where,),
                )
            )


def _about(item: Expected) -> str:
    return item.at if item.key is None else f"{item.at}: {item.key}"


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
    item: Expected, kernel: codeobject.KernelInfo, place: _Place, bundle: Bundle
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
            bundle.artifact.where(item.manifest),
            f"{_about(item)} takes arguments of (offset, size) {_shown(actual)}, the manifest says "
            f"{_shown(item.arguments)}",
            "the caller would lay out the arguments wrongly: make the manifest from the object that is packed",
            sources=(place.where,),
        )


def _shown(arguments: Sequence[tuple[int | None, int | None]]) -> str:
    words = [f"({'?' if o is None else o}, {'?' if s is None else s})" for o, s in arguments[:8]]
    return f"{len(arguments)}: {' '.join(words)}" + (" ..." if len(arguments) > 8 else "")
