"""The AOT catalogue's ``family.json`` as a type; its schema is ``aot_catalog.family``."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from kpacktools.manifests.typed import Object, Size, Text

__all__ = ["Argument", "Family", "Kernel"]


class Argument(Struct, frozen=True, gc=False):
    """One argument of a kernel."""

    name: str
    type: str


class Kernel(Struct, frozen=True, gc=False):
    """One kernel: several may share a symbol and differ in ``co_file``."""

    symbol: Text
    co_file: Text
    args_signature: tuple[Argument, ...]
    constraints: Object | UnsetType = UNSET
    grid: Object | UnsetType = UNSET
    block: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=3, max_length=3)] | UnsetType = (
        UNSET
    )
    workspace_bytes: Size | UnsetType = UNSET


class Family(Struct, frozen=True, gc=False):
    """A family of kernels."""

    family: Text
    op_kind: Text
    arch: Text
    dtype: Text
    kernels: tuple[Kernel, ...]
