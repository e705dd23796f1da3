"""hip-kernel-provider's descriptors as types; their schemas are ``hip_kernel_provider.kdp``, ``.ukd``
and ``.part``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from kpacktools.manifests.typed import Object, Sha256, Size, Text, are_digests

__all__ = [
    "Argument",
    "Embedded",
    "Kernel",
    "KernelFile",
    "Package",
    "PackageFile",
    "Packed",
    "Part",
    "PartFile",
]

_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+")


class Argument(Struct, frozen=True, gc=False):
    """One argument of a packed kernel."""

    kind: str
    size: Size
    """Bytes."""
    offset: Size


class Packed(Struct, frozen=True, gc=False, tag_field="kind", tag="kpack"):
    """A kernel in an archive."""

    library: Text
    """The archive's path relative to the descriptor's folder."""
    toc_key: Text
    symbol: Text
    sha256: Sha256
    """Of the decompressed code object."""
    signature: tuple[Argument, ...]


class Embedded(Struct, frozen=True, gc=False, tag_field="kind", tag="embedded_source"):
    """A kernel that is compiled where it runs."""

    source_file: Text
    entry_point: Text


class Kernel(Struct, frozen=True, gc=False):
    """A universal kernel descriptor (UKD)."""

    version: str
    """Checked by what holds the descriptor, for all at once, like the digest of a packed one."""
    id: Text
    name: Text
    kernel_source: Packed | Embedded
    metadata: Object
    priority: int | float
    arch: tuple[Text, ...] = ()
    """Empty is a wildcard."""


class Package(Struct, frozen=True, gc=False):
    """A kernel descriptor package (KDP)."""

    version: str
    id: Text
    name: Text
    arch: tuple[Text, ...]
    matchers: tuple[Text, ...]
    engine: Text
    dispatch: Text
    kernelDescriptors: tuple[Kernel | str, ...]
    """Descriptors, and ids of such that have files of their own."""

    def inline(self) -> tuple[Sequence[Kernel], Sequence[int]]:
        """The descriptors, and where among ids each stands."""
        items = self.kernelDescriptors
        kernels = [item for item in items if type(item) is Kernel]
        if len(kernels) == len(items):
            return kernels, range(len(items))
        return kernels, [index for index, item in enumerate(items) if type(item) is Kernel]


class Part(Struct, frozen=True, gc=False):
    """A descriptor that others refer to by its id."""

    id: Text
    version: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class PartFile(Part, frozen=True, gc=False):
    """``<name>.{kmd,udd,ued,uhd,umd}.json``, checked to the end."""

    kernel_source: Any | UnsetType = UNSET
    """A kernel's: what it may hold here is for the slower check to say."""
    kernelDescriptors: Any | UnsetType = UNSET
    """A package's."""

    def __post_init__(self) -> None:
        if self.kernel_source is not UNSET or self.kernelDescriptors is not UNSET:
            raise ValueError("a field that the schema has to judge")


class KernelFile(Kernel, frozen=True, gc=False):
    """``<name>.ukd.json``, checked to the end."""

    kernelDescriptors: Any | UnsetType = UNSET
    """A package's: what it may hold here is for the slower check to say."""

    def __post_init__(self) -> None:
        _check([self], [], self.kernelDescriptors)


class PackageFile(Package, frozen=True, gc=False):
    """``<name>.kdp.json``, checked to the end."""

    kernel_source: Any | UnsetType = UNSET
    """A kernel's, as above."""

    def __post_init__(self) -> None:
        kernels, _ = self.inline()
        _check(kernels, [self.version], self.kernel_source)


def _check(kernels: Sequence[Kernel], versions: Iterable[str], foreign: Any) -> None:
    """What the types leave to check, column by column."""
    sources = [item.kernel_source for item in kernels]
    digests = [source.sha256 for source in sources if type(source) is Packed]
    distinct = {item.version for item in kernels}.union(versions)
    if foreign is not UNSET or not are_digests(digests) or not all(map(_VERSION.fullmatch, distinct)):
        raise ValueError("a version, a digest or a field that the schema has to judge")
