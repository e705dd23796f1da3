"""rocKE's bundle manifest and its sidecar as types; their schemas are ``rocke.bundle`` and ``rocke.sidecar``."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from kpacktools.manifests.typed import Object, Sha256, Size, Text, are_digests

__all__ = ["Argument", "BundleManifest", "CompileSpec", "Instance", "Sidecar", "SidecarArtifact"]


class Argument(Struct, frozen=True, gc=False):
    """One argument of a kernel, as far as it is compared."""

    size_bytes: Any = None


class CompileSpec(Struct, frozen=True, gc=False):
    """How a kernel was compiled, as far as it is compared."""

    minimum_llvm_flavor: Any | UnsetType = UNSET


class Instance(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One entry: a kernel. The earliest form lacks name, op, family and compile_spec: all four or none."""

    cache_key: Text
    toc_key: Text
    symbol: Text
    selection: Object
    launch: Object
    args_signature: tuple[Argument, ...]
    name: Text | UnsetType = UNSET
    op: Text | UnsetType = UNSET
    family: Text | UnsetType = UNSET
    compile_spec: CompileSpec | UnsetType = UNSET


class BundleManifest(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """``rocke_client_<target>.json``."""

    schema: Literal["rocke.aot.bundle/v1", "hipdnn.rocke.bundle/v1"]
    producer: Literal["rocKE"]
    engine_build_id: str
    llvm_flavor: Text
    arch: Text
    kpack: Text
    entries: list[Instance]

    def __post_init__(self) -> None:
        named = [item.name is UNSET for item in self.entries]
        for others in (
            [item.op is UNSET for item in self.entries],
            [item.family is UNSET for item in self.entries],
            [item.compile_spec is UNSET for item in self.entries],
        ):
            if others != named:
                raise ValueError("an entry has only some of name, op, family and compile_spec")

    def ops(self) -> set[str]:
        """What its kernels do, where entries say so."""
        ops = {item.op for item in self.entries}
        return {op for op in ops if isinstance(op, str)}

    def minimum_lanes(self) -> list[tuple[int, Any]]:
        """The ``minimum_llvm_flavor`` of each entry that has one, whatever it is, and the entry's index."""
        specs = [item.compile_spec for item in self.entries]
        return [
            (index, spec.minimum_llvm_flavor)
            for index, spec in enumerate(specs)
            if isinstance(spec, CompileSpec) and spec.minimum_llvm_flavor is not UNSET
        ]


class SidecarArtifact(Struct, frozen=True, gc=False):
    """The code object that a sidecar describes."""

    hsaco_filename: Text
    symbol: Text
    hsaco_sha256: Sha256
    hsaco_size: Size
    """Bytes."""


class Sidecar(Struct, frozen=True, gc=False):
    """``<name>.sidecar.json``."""

    cache_key: Text
    artifact: SidecarArtifact
    selection: Object
    launch: Object
    args_signature: tuple[Object, ...]
    schema: Literal["rocke.aot.sidecar/v1"] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not are_digests([self.artifact.hsaco_sha256]):
            raise ValueError("a digest that is none")
