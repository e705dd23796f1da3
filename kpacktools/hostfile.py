"""Host binaries: which device code they carry in them, which they look for elsewhere, and what they link to.

rocm_kpack's splitter takes the fat binary out of an ELF or PE file and leaves a *marker*, a MessagePack map
``{kernel_name, kpack_search_paths[]}``: the loader then finds code object ``n`` under the TOC key
``<kernel_name>#<n>`` in the archives that the search paths name. Sources: ROCm/rocm-systems, ``shared/kpack``,
and files that its tools wrote.

======================  =====================  ============
what                    section in ELF         in PE
======================  =====================  ============
marker                  ``.rocm_kpack_ref``    ``.kpackrf``
fat binary              ``.hip_fatbin``        ``.hip_fat``
one wrapper per bundle  ``.hipFatBinSegment``  ``.hipFatB``
======================  =====================  ============
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from kpacktools.binaries import BinaryFile, DamagedError, Section, elf, pe
from kpacktools.offload import BundleError, bundles
from kpacktools.targets import TargetId
from kpacktools.trees import Tree

__all__ = [
    "GFXARCH",
    "FatSection",
    "HostBinary",
    "Marker",
    "build_id_of",
    "expand",
    "loader_targets",
    "read_host",
]

GFXARCH: Final = "@GFXARCH@"
"""What the loader replaces in a search path."""

_MARKERS = frozenset({".rocm_kpack_ref", ".kpackrf"})
_FATBINS = frozenset({".hip_fatbin", ".hip_fat"})
_WRAPPERS = frozenset({".hipFatBinSegment", ".hipFatB"})

_WRAPPER = struct.Struct("<4s12xQ")
"""Magic, version and a pointer (filled in memory), index of the code object."""
_SPLIT = b"HIPK"
"""The magic where the code object is in an archive; where it is in the file, it is ``FPIH``."""

_EM_AMDGPU = 224
_MAX_MARKER_SIZE = 64 << 10
"""Bytes that the loader reads of one."""
_MAX_WRAPPERS_SIZE = _WRAPPER.size << 16


class Marker(Struct, frozen=True):
    """Where the loader looks for the device code that was taken out of a binary."""

    kernel_name: str
    """TOC keys are ``<kernel_name>#<n>``."""
    search_paths: tuple[str, ...]
    """Paths of archives relative to the binary's folder, for :func:`expand`; some may be absolute."""


class FatSection(Struct, frozen=True):
    """Device code that a binary carries itself."""

    size: int
    """Bytes in the file, padding included."""
    bundles: int
    """How many there are: usually one per translation unit."""
    targets: tuple[str, ...]
    """Target IDs, each once, in the order in which they are found."""
    compressed: bool
    """True where any bundle is."""


class HostBinary(Struct, frozen=True):
    """What a host executable or library says about its device code and the libraries that it needs."""

    format: Literal["elf", "pe"]
    markers: tuple[Marker, ...] = ()
    code_objects: tuple[int, ...] = ()
    """Each ``n`` of the keys ``<kernel_name>#<n>`` that it asks the loader for, sorted."""
    fat: tuple[FatSection, ...] = ()
    needed: tuple[str, ...] = ()
    """``DT_NEEDED`` in ELF, the import table in PE."""
    runpath: tuple[str, ...] = ()
    """Folders of ``DT_RUNPATH``, else of ``DT_RPATH``; ELF only."""
    soname: str | None = None
    """ELF only."""
    build_id: str | None = None
    """GNU build id in hexadecimal; ELF only."""
    problems: tuple[str, ...] = ()
    """One line for each part that is damaged; what it would have said is missing above."""


def loader_targets(target: str) -> tuple[str, ...]:
    """The target IDs that AMD's loader tries for a device, in its order: with ever fewer of its features.

    Raises :class:`ValueError` for what is no target ID.

    >>> loader_targets("gfx942:sramecc+:xnack-")
    ('gfx942:sramecc+:xnack-', 'gfx942:sramecc+', 'gfx942:xnack-', 'gfx942')
    """
    parsed = TargetId.parse(target)
    subsets: list[tuple[str, ...]] = [()]
    for feature in reversed(parsed.features):
        subsets = [(feature, *subset) for subset in subsets] + subsets
    return tuple(str(TargetId(parsed.processor, subset)) for subset in subsets)


def expand(search_path: str, target: str) -> tuple[str, ...]:
    """The paths that AMD's loader tries for one search path of a marker and one device, in its order.

    A path without the placeholder is itself an archive's; of several placeholders the loader fills the first.

    Raises :class:`ValueError` for what is no target ID.

    >>> expand("../.kpack/fft_lib_@GFXARCH@.kpack", "gfx942:xnack+")
    ('../.kpack/fft_lib_gfx942:xnack+.kpack', '../.kpack/fft_lib_gfx942.kpack')
    """
    if GFXARCH not in search_path:
        return (search_path,)
    return tuple(search_path.replace(GFXARCH, name, 1) for name in loader_targets(target))


def read_host(tree: Tree, path: str) -> HostBinary | None:
    """Read one file of a tree; None where it is neither ELF nor PE, or is code for a GPU.

    Tables are read, and of fat binaries what :func:`kpacktools.offload.bundles` needs: the file may have
    gigabytes. Damage is told in :attr:`HostBinary.problems`.

    Raises :class:`OSError` where the file cannot be read.

    >>> read_host(tree, "lib/librocfft.so.0").markers  # doctest: +SKIP
    (Marker(kernel_name='math-libs/rocFFT/stage/lib/librocfft.so.0.1',
            search_paths=('../.kpack/fft_lib_@GFXARCH@.kpack',)),)
    """
    with tree.open(path) as stream:
        file = BinaryFile(stream)
        elf_header = elf.header(file)
        if elf_header is not None:
            return None if elf_header.machine == _EM_AMDGPU else _read_elf(file, elf_header)
        pe_header = pe.header(file)
        return None if pe_header is None else _read_pe(file, pe_header)


def build_id_of(tree: Tree, path: str) -> str | None:
    """The GNU build id of an ELF file in hexadecimal; None for any other file, and for one without or damaged."""
    try:
        with tree.open(path) as stream:
            file = BinaryFile(stream)
            header = elf.header(file)
            return None if header is None else elf.build_id(file, header, elf.sections(file, header))
    except (OSError, DamagedError):
        return None


@contextmanager
def _noted(problems: list[str], what: str) -> Iterator[None]:
    """Damage becomes data: what is read inside keeps the value that it had."""
    try:
        yield
    except (DamagedError, BundleError) as error:
        problems.append(f"{what}: {error}")


def _read_elf(file: BinaryFile, header: elf.ElfHeader) -> HostBinary:
    problems: list[str] = []
    sections: list[elf.ElfSection] = []
    build_id, dynamic = None, elf.Dynamic()
    with _noted(problems, "section headers"):
        sections = elf.sections(file, header)
    device = _device_code(file, (Section(s.name, s.offset, s.size) for s in sections), problems)
    with _noted(problems, "notes"):
        build_id = elf.build_id(file, header, sections)
    with _noted(problems, "dynamic section"):
        dynamic = elf.dynamic(file, header, sections)
    return HostBinary(
        "elf",
        *device,
        needed=dynamic.needed,
        runpath=dynamic.runpath,
        soname=dynamic.soname,
        build_id=build_id,
        problems=tuple(problems),
    )


def _read_pe(file: BinaryFile, header: pe.PeHeader) -> HostBinary:
    problems: list[str] = []
    sections: list[pe.PeSection] = []
    needed: tuple[str, ...] = ()
    with _noted(problems, "section headers"):
        sections = pe.sections(file, header)
    device = _device_code(file, (Section(s.name, s.offset, s.size) for s in sections), problems)
    with _noted(problems, "import table"):
        needed = pe.imports(file, header, sections)
    return HostBinary("pe", *device, needed=needed, problems=tuple(problems))


class _DeviceCode(NamedTuple):
    markers: tuple[Marker, ...]
    code_objects: tuple[int, ...]
    fat: tuple[FatSection, ...]


def _device_code(file: BinaryFile, sections: Iterable[Section], problems: list[str]) -> _DeviceCode:
    markers: list[Marker] = []
    indexes: set[int] = set()
    fat: list[FatSection] = []
    for name, offset, size in sections:
        if size == 0:
            continue
        with _noted(problems, name):
            if name in _MARKERS:
                markers.append(_marker(file.read(offset, size, "it", _MAX_MARKER_SIZE)))
            elif name in _WRAPPERS:
                indexes.update(_split_indexes(file.read(offset, size, "it", _MAX_WRAPPERS_SIZE)))
            elif name in _FATBINS:
                file.check(offset, size, "it")
                fat.extend(_fat(name, _Part(file, offset, size), problems))
    return _DeviceCode(tuple(markers), tuple(sorted(indexes)), tuple(fat))


class _MarkerDocument(msgspec.Struct, frozen=True, gc=False):
    kernel_name: str
    kpack_search_paths: list[Any]


_MARKER_DECODER = msgspec.msgpack.Decoder(_MarkerDocument)


def _marker(data: bytes) -> Marker:
    try:
        document = _MARKER_DECODER.decode(data.rstrip(b"\0"))  # the loader does not mind padding
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"it is no marker: {error}") from None
    # The loader passes over what is no string, and refuses a marker that leaves it no path.
    paths = tuple(path for path in document.kpack_search_paths if isinstance(path, str))
    if not paths:
        raise DamagedError("it names no search path")
    return Marker(document.kernel_name, paths)


def _split_indexes(data: bytes) -> Iterator[int]:
    whole = len(data) - len(data) % _WRAPPER.size
    return (index for magic, index in _WRAPPER.iter_unpack(data[:whole]) if magic == _SPLIT)


class _Part:
    """Part of a file, :class:`~kpacktools.offload.Readable`."""

    def __init__(self, file: BinaryFile, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self._size)
        return self._file.peek(self._offset + start, max(stop - start, 0))


def _fat(name: str, data: _Part, problems: list[str]) -> list[FatSection]:
    """One, or none where there is no bundle: splitting may leave a section of zeros."""
    count, compressed = 0, False
    targets: dict[str, None] = {}
    with _noted(problems, name):
        for bundle in bundles(data):  # what comes before a damaged one counts
            count += 1
            compressed = compressed or bundle.compression is not None
            targets.update((entry.target, None) for entry in bundle.entries if entry.target)
    return [FatSection(len(data), count, tuple(targets), compressed)] if count else []
