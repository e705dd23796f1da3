"""Sidecars: a loose code object and the JSON file that describes it, ``<name>.hsaco`` and ``<name>.sidecar.json``.

rocKE's form without an archive, schema ``rocke.aot.sidecar/v1``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from kpacktools.checks.references import local_reference, read_typed
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Content, Expected

__all__ = ["check_sidecars"]

_SUFFIX: Final = ".sidecar.json"
_OBJECTS: Final = (".hsaco", ".co")


def check_sidecars(bundle: Bundle, content: Content, expected: list[Expected]) -> Iterator[Finding]:
    """Schema, size, and code objects against sidecars in both directions; what they say of the kernels is added to
    ``expected``."""
    from kpacktools.manifests.rocke import Sidecar

    objects = {entry.path: entry for entry in bundle.files(*_OBJECTS)}
    described: set[str] = set()
    sidecars = bundle.files(_SUFFIX)
    for entry in sidecars:
        found: list[Finding] = []
        where = bundle.artifact.where(entry.path)
        sidecar = read_typed(bundle, content, entry.path, "rocke.sidecar", Sidecar, found)
        if sidecar is None:
            yield from found
            described.update(_same_stem(entry.path))
            continue
        artifact = sidecar.artifact
        path = local_reference(bundle, entry.path, artifact.hsaco_filename, found)
        yield from found
        if path is None:
            continue
        described.add(path)
        if path not in objects:
            yield finding(
                "sidecar-mismatch",
                where,
                f"describes {artifact.hsaco_filename!r}, which is not there",
                "install the code object beside its sidecar",
            )
            continue
        if artifact.hsaco_size != objects[path].size:
            yield finding(
                "size-mismatch",
                bundle.artifact.where(path),
                f"has {objects[path].size} bytes, its sidecar says {artifact.hsaco_size}",
                "build the kernel again, object and sidecar from one run",
                sources=(where,),
            )
        expected.append(
            Expected(
                path=path,
                manifest=entry.path,
                at="$.artifact",
                symbol=artifact.symbol,
                sha256=artifact.hsaco_sha256,
            )
        )
    if not sidecars:
        return
    for path in sorted(set(objects) - described):
        yield finding(
            "sidecar-mismatch",
            bundle.artifact.where(path),
            "has no sidecar, while others of its bundle have one; nothing will load it",
            f"install {posixpath.basename(path).rpartition('.')[0]}{_SUFFIX} beside it",
        )


def _same_stem(sidecar: str) -> Iterator[str]:
    for suffix in _OBJECTS:
        yield sidecar.removesuffix(_SUFFIX) + suffix
