"""The table of contents of a KPAK archive."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, BinaryIO, NamedTuple, NoReturn

import msgspec

from kpacktools import limits
from kpacktools.kpack.duplicates import repeated_name
from kpacktools.kpack.format import (
    FORMAT_VERSION,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    MAX_BLOB_SIZE,
    SCHEME_NONE,
    SCHEME_ZSTD,
    KpackError,
)

__all__ = ["Blob", "Kernel", "Toc", "TocEntry", "Totals", "read_toc"]

_MAX_TOC_SIZE = 128 << 20
"""Bytes; room for a million kernels under keys of a hundred characters."""

_MAX_ZSTD_RATIO = 1 << 15
"""No zstd frame expands more: at best a block of four bytes stands for 128 KiB (RFC 8878, 3.1.1.2)."""

_MAX_RATIO = 1000
"""Bytes of all kernels for each byte of the file, unless the environment says otherwise: entries may share a frame, so
that a few bytes could keep a reader busy for days. Kernels that resemble each other have been seen at 72."""

_MIN_ZSTD_ENTRY = 4 + 9
"""Bytes of a blob that one ordinal takes at least: its size prefix and an empty zstd frame."""

_LFS_POINTER = b"version https://"
"""How the pointer text begins that Git LFS leaves in place of a file it did not fetch."""

_U32 = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
_U63 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Kernel(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One code object of the archive, as its TOC entry has it."""

    type: str
    """``hsaco``; also seen: ``cubin``, ``ptx``, ``spirv``."""
    ordinal: _U32
    """Which blob or frame holds the bytes. Entries may share one."""
    original_size: _U63
    """Bytes, decompressed."""
    metadata: dict[str, Any] | None = None
    """The producer's own, such as ``cache_key`` and ``symbol``."""


class Blob(msgspec.Struct, frozen=True, gc=False):
    """Where one code object lies in an archive of scheme ``none``, in bytes from the start of the file."""

    offset: _U63
    size: _U63


class TocEntry(NamedTuple):
    """A kernel and the two names it is found under."""

    key: str
    target: str
    kernel: Kernel


class Totals(NamedTuple):
    """What a TOC holds, summed up over its kernels."""

    kernels: int
    """Entries."""
    targets: frozenset[str]
    types: frozenset[str]
    ordinals: int
    """Different ones: entries may share a code object."""
    last_ordinal: int
    """-1 where there is no kernel."""
    largest: int
    """Bytes of the longest kernel, decompressed; 0 where there is none."""
    size: int
    """Bytes of all kernels, decompressed."""


class Toc(msgspec.Struct, frozen=True, dict=True):
    """What an archive says about itself. Which fields locate the code objects depends on ``scheme``."""

    format_version: int
    group_name: str
    gfx_arch_family: str
    gfx_arches: tuple[str, ...]
    """The targets the archive claims to serve; :meth:`targets` are those that it holds kernels for."""
    kernels: dict[str, dict[str, Kernel]] = msgspec.field(name="toc")
    """TOC key -> target -> kernel, in file order."""
    scheme: str = msgspec.field(name="compression_scheme", default=SCHEME_NONE)
    blobs: tuple[Blob, ...] | None = None
    """By ordinal; scheme ``none``."""
    zstd_offset: _U63 | None = None
    """Scheme ``zstd-per-kernel``: where the blob begins, in bytes from the start of the file."""
    zstd_size: _U63 | None = None
    """Scheme ``zstd-per-kernel``: the blob's bytes, count and size prefixes included."""

    @cached_property
    def totals(self) -> Totals:
        """The TOC summed up, column by column: a release's kernels are too many for a loop of Python."""
        entries = self.kernels.values()
        kernels = list(chain.from_iterable(map(dict.values, entries)))
        ordinals = {kernel.ordinal for kernel in kernels}
        sizes = [kernel.original_size for kernel in kernels]
        return Totals(
            kernels=len(kernels),
            targets=frozenset().union(*entries),
            types=frozenset({kernel.type for kernel in kernels}),
            ordinals=len(ordinals),
            last_ordinal=max(ordinals, default=-1),
            largest=max(sizes, default=0),
            size=sum(sizes),
        )

    def targets(self) -> set[str]:
        """Every target that at least one key has a kernel for."""
        return set(self.totals.targets)

    def keys_of(self, target: str) -> set[str]:
        """The TOC keys that have a kernel for exactly this target."""
        return {key for key, by_target in self.kernels.items() if target in by_target}

    def count(self, target: str | None = None) -> int:
        """How many kernels there are: of one target, or in all."""
        if target is None:
            return self.totals.kernels
        return sum(target in by_target for by_target in self.kernels.values())

    def entries(self) -> Iterator[TocEntry]:
        """Every kernel with its names, in the order of the TOC."""
        for key, by_target in self.kernels.items():
            for target, kernel in by_target.items():
                yield TocEntry(key, target, kernel)

    def in_blob_order(self) -> list[TocEntry]:
        """Every kernel with its names, by ordinal: read in this order, the file is read front to back."""
        return sorted(self.entries(), key=attrgetter("kernel.ordinal", "kernel.original_size"))


class _Preamble(msgspec.Struct):
    """The two fields that say whether the other ones can be understood at all."""

    format_version: int = FORMAT_VERSION
    compression_scheme: str = SCHEME_NONE


_TOC_DECODER = msgspec.msgpack.Decoder(Toc)
_PREAMBLE_DECODER = msgspec.msgpack.Decoder(_Preamble)


def read_toc(stream: BinaryIO, size: int) -> Toc:
    """Read and check the TOC of the archive in ``stream``, a seekable file of ``size`` bytes.

    Only the 16-byte header and the TOC are read, never a code object, and nothing is allocated that the
    file's size does not justify. A TOC that is returned locates every kernel inside the file; whether the
    bytes there are what the TOC promises, only :class:`kpacktools.kpack.reader.KpackReader` finds out.

    Raises :class:`KpackError`, and :class:`OSError` where the stream does.
    """
    toc_offset = _read_header(stream, size)
    toc = _decode(_read_toc_bytes(stream, toc_offset, size))
    _check_supported(toc.format_version, toc.scheme)
    if toc.scheme == SCHEME_NONE:
        ordinals, longest = _check_blobs(toc, toc_offset)
    else:
        ordinals, longest = _check_zstd(toc, toc_offset)
    _check_kernels(toc, ordinals, longest)
    _check_density(toc, size)
    return toc


def _corrupt(message: str, hint: str = "") -> NoReturn:
    raise KpackError("kpack-corrupt", message, hint)


def _unsupported(message: str) -> NoReturn:
    raise KpackError("kpack-unsupported", message)


def _read_header(stream: BinaryIO, size: int) -> int:
    """The TOC offset, known to lie inside the file."""
    if size == 0:
        _corrupt("the file is empty, expected a KPAK archive")
    stream.seek(0)
    head = stream.read(HEADER.size)
    if head.startswith(_LFS_POINTER):
        _corrupt(
            "the file is a Git LFS pointer, expected a KPAK archive",
            "`git lfs pull` fetches the archive that it stands for",
        )
    if not head.startswith(MAGIC):
        _corrupt(f"the file begins with {head[:4]!r}, expected {MAGIC!r}")
    if size < HEADER_SIZE or len(head) < HEADER.size:
        _corrupt(f"the file ends after {min(size, len(head))} bytes, inside the {HEADER_SIZE}-byte header")
    _, version, toc_offset = HEADER.unpack(head)
    if version != FORMAT_VERSION:
        _unsupported(f"KPAK version {version}, expected {FORMAT_VERSION}")
    if not HEADER_SIZE <= toc_offset < size:
        _corrupt(
            f"the TOC should begin at byte {toc_offset}, which is outside the file's {HEADER_SIZE}..{size}",
            "a file that was cut or never finished looks like this" if toc_offset != 0 else "",
        )
    return int(toc_offset)


def _read_toc_bytes(stream: BinaryIO, toc_offset: int, size: int) -> bytes:
    toc_size = size - toc_offset
    stream.seek(toc_offset)
    first = stream.read(1)
    # Before the rest is read: what follows a wrong offset may be gigabytes of code objects.
    if first and not (0x80 <= first[0] <= 0x8F or first[0] in (0xDE, 0xDF)):
        _corrupt(
            f"byte {toc_offset}, where the TOC should begin, is {first!r}, which begins no MessagePack map"
        )
    if toc_size > _MAX_TOC_SIZE:
        _unsupported(f"a TOC of {toc_size} bytes, expected at most {_MAX_TOC_SIZE}")
    data = first + stream.read(toc_size - 1)
    if len(data) < toc_size:
        _corrupt(f"the file ends at byte {toc_offset + len(data)}, expected {size} bytes")
    return data


def _decode(data: bytes) -> Toc:
    try:
        toc = _TOC_DECODER.decode(data)
        repeated = repeated_name(data, toc.count())
    except msgspec.ValidationError as error:
        # Another version may have other fields: then it is unknown, not broken.
        try:
            preamble = _PREAMBLE_DECODER.decode(data)
        except msgspec.DecodeError:
            pass
        else:
            _check_supported(preamble.format_version, preamble.compression_scheme)
        _corrupt(f"the TOC does not have the expected fields: {error}")
    except msgspec.DecodeError as error:
        _corrupt(f"the TOC is not valid MessagePack: {error}")
    except RecursionError:
        _corrupt("the TOC is nested too deeply to be one")
    if repeated is not None:
        _corrupt(f"the TOC has {repeated!r} twice, of which a reader takes one", "pack the archive again")
    return toc


def _check_supported(format_version: int, scheme: str) -> None:
    if format_version != FORMAT_VERSION:
        _unsupported(f"TOC format_version {format_version}, expected {FORMAT_VERSION}")
    if scheme not in (SCHEME_NONE, SCHEME_ZSTD):
        _unsupported(f"compression_scheme {scheme[:64]!r}, expected {SCHEME_NONE!r} or {SCHEME_ZSTD!r}")


def _check_blobs(toc: Toc, toc_offset: int) -> tuple[int, int]:
    """The number of ordinals, and the bytes that no kernel can exceed."""
    if toc.blobs is None:
        _corrupt(f"the TOC lacks 'blobs', which scheme {SCHEME_NONE!r} needs")
    for ordinal, blob in enumerate(toc.blobs):
        if blob.offset < HEADER_SIZE or blob.offset + blob.size > toc_offset:
            _corrupt(
                f"blob {ordinal} should be bytes {blob.offset}..{blob.offset + blob.size}, "
                f"which are outside {HEADER_SIZE}..{toc_offset}"
            )
    return len(toc.blobs), toc_offset - HEADER_SIZE


def _check_zstd(toc: Toc, toc_offset: int) -> tuple[int, int]:
    """The number of ordinals that there can be, and the bytes that no kernel can exceed."""
    if toc.zstd_offset is None or toc.zstd_size is None:
        _corrupt(f"the TOC lacks 'zstd_offset' or 'zstd_size', which scheme {SCHEME_ZSTD!r} needs")
    if toc.zstd_offset < HEADER_SIZE or toc.zstd_offset + toc.zstd_size > toc_offset:
        _corrupt(
            f"the zstd blob should be bytes {toc.zstd_offset}..{toc.zstd_offset + toc.zstd_size}, "
            f"which are outside {HEADER_SIZE}..{toc_offset}"
        )
    if toc.zstd_size < 4:
        _corrupt(f"the zstd blob has {toc.zstd_size} bytes, expected a count of four at least")
    if toc.zstd_size > MAX_BLOB_SIZE:
        _unsupported(f"a zstd blob of {toc.zstd_size} bytes; AMD's reader takes {MAX_BLOB_SIZE}")
    return (toc.zstd_size - 4) // _MIN_ZSTD_ENTRY, toc.zstd_size * _MAX_ZSTD_RATIO


def _check_kernels(toc: Toc, ordinals: int, longest: int) -> None:
    if toc.totals.last_ordinal < ordinals and toc.totals.largest <= longest:
        return
    for key, target, kernel in toc.entries():
        if kernel.ordinal >= ordinals:
            _corrupt(
                f"{key!r} for {target!r} has ordinal {kernel.ordinal}, there can be {ordinals} in the file"
            )
        if kernel.original_size > longest:
            _corrupt(
                f"{key!r} for {target!r} claims {kernel.original_size} bytes, more than the file can hold"
            )


def _check_density(toc: Toc, size: int) -> None:
    if toc.totals.size > limits.FREE_SIZE:
        ratio = limits.max_ratio(_MAX_RATIO)
        if toc.totals.size > ratio * size:
            _unsupported(f"its {limits.too_dense(size, ratio)}")
