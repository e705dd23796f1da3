"""A wheel's software bill of materials: what device code is in it, and where that came from.

CycloneDX 1.6 JSON in ``<dist-info>/sboms/`` (PEP 770). One component per kpack and per loose code object. Its identity
comes from its content and its time from ``SOURCE_DATE_EPOCH``, so that a wheel with an SBOM stays reproducible.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from kpacktools import __version__
from kpacktools.outputs.jsontext import document_text, encoded_items

__all__ = ["PROPERTY_PREFIX", "SBOM_NAME", "Provenance", "sbom_file"]

SBOM_NAME: Final = "sboms/kpacktools.cdx.json"
"""Below the dist-info folder."""
PROPERTY_PREFIX: Final = "kpacktools:"
"""What the names of our own properties begin with."""


class Provenance(Struct, frozen=True):
    """What is known about one kpack or loose code object."""

    engine: str
    target: str
    shard: str | None = None
    """Where a shards file names it: a mere folder's name would make equal content differ."""
    run: str | None = None
    kernels: int | None = None
    """Of an archive."""
    lane: str | None = None
    compilers: tuple[str, ...] = ()
    """Known where the depth was content."""
    build_id: str | None = None

    def properties(self) -> list[dict[str, str]]:
        """As CycloneDX properties, in a fixed order; what is not known is left out."""
        values = (
            ("engine", self.engine),
            ("target", self.target),
            ("kernels", None if self.kernels is None else str(self.kernels)),
            ("lane", self.lane),
            ("compilers", ", ".join(self.compilers) or None),
            ("build_id", self.build_id),
            ("shard", self.shard),
            ("run", self.run),
        )
        return [
            {"name": PROPERTY_PREFIX + name, "value": value} for name, value in values if value is not None
        ]


def sbom_file(
    distribution: str,
    version: str,
    known: Mapping[str, Provenance],
    digests: Mapping[str, bytes],
    environ: Mapping[str, str] = os.environ,
) -> bytes:
    """The SBOM of one wheel.

    ``known`` maps paths in the wheel to what is known of them, ``digests`` to their SHA-256.
    """
    name = str(canonicalize_name(distribution))
    paths = sorted(known)
    head: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": _serial(name, version, _components(paths, known, digests)),
        "version": 1,
        "metadata": {
            **_timestamp(environ),
            "tools": {"components": [{"type": "application", "name": "kpacktools", "version": __version__}]},
            "component": {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
            },
        },
    }
    return document_text(head, "components", _components(paths, known, digests))


def _components(
    paths: Iterable[str], known: Mapping[str, Provenance], digests: Mapping[str, bytes]
) -> Iterator[dict[str, Any]]:
    # Files of one bundle are known by one value.
    properties: dict[int, list[dict[str, str]]] = {}
    for path in paths:
        about = known[path]
        if id(about) not in properties:
            properties[id(about)] = about.properties()
        yield {
            "type": "file",
            "bom-ref": path,
            "name": path,
            "hashes": [{"alg": "SHA-256", "content": digests[path].hex()}],
            "properties": properties[id(about)],
        }


def _serial(name: str, version: str, components: Iterable[Mapping[str, Any]]) -> str:
    """An identity made of the list of name, version and components, as compact JSON with sorted keys."""
    content = hashlib.sha256(msgspec.json.encode([name, version])[:-1])
    for piece in encoded_items(components):
        content.update(b"," + piece)
    content.update(b"]")
    return uuid.UUID(bytes=content.digest()[:16], version=5).urn


def _timestamp(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing unless ``SOURCE_DATE_EPOCH`` is set: the clock is not content."""
    epoch = environ.get("SOURCE_DATE_EPOCH")
    if not epoch or not epoch.isdigit():
        return {}
    return {"timestamp": datetime.fromtimestamp(int(epoch), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
