"""Bills of materials in wheels, read back: does each still say what its wheel holds?

Only the bill that kpacktools itself writes (:mod:`kpacktools.outputs.sbom`) is compared: what other tools list in
theirs is for them to judge.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from packaging.utils import canonicalize_name

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.checks.kernels import LOOSE
from kpacktools.checks.references import some
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Depth
from kpacktools.outputs.sbom import PROPERTY_PREFIX, SBOM_NAME
from kpacktools.planning.selection import Input
from kpacktools.trees import Entry
from kpacktools.trees.shards import Artifact
from kpacktools.trees.wheel import WheelTree

__all__ = ["check_bills"]

MAX_BILL: Final = 64 << 20
"""Bytes of a bill that are read; 100,000 components take 40 million."""
_DIST_INFO: Final = ".dist-info/"
_HINT: Final = "build the wheel again; what changes a wheel has to change its bill of materials too"


class _Hash(msgspec.Struct, frozen=True, gc=False):
    alg: str
    content: str


class _Property(msgspec.Struct, frozen=True, gc=False):
    name: str
    value: str = ""


class _Component(msgspec.Struct, frozen=True):
    name: str
    version: str = ""
    hashes: tuple[_Hash, ...] = ()
    properties: tuple[_Property, ...] = ()

    def sha256(self) -> str | None:
        return next((item.content.lower() for item in self.hashes if item.alg == "SHA-256"), None)

    def facts(self) -> dict[str, str]:
        """What kpacktools says of it."""
        return {
            item.name.removeprefix(PROPERTY_PREFIX): item.value
            for item in self.properties
            if item.name.startswith(PROPERTY_PREFIX)
        }


class _About(msgspec.Struct, frozen=True):
    component: _Component


class _Bill(msgspec.Struct, frozen=True):
    """The part of a CycloneDX 1.6 document that is compared."""

    metadata: _About
    components: tuple[_Component, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_Bill)


def check_bills(
    inputs: Iterable[Input],
    checked: Iterable[CheckedBundle],
    digests: Mapping[tuple[str, str], str],
    depth: Depth,
) -> Iterator[Finding]:
    """``sidecar-mismatch`` for each wheel whose bill of materials is not that of its content.

    From depth toc on: what it lists is there, every kpack and loose code object of an engine is listed, and engine,
    target, kernels and build id are what was found; at depth content also the bytes. ``digests`` maps (wheel,
    member) to a sha256 as in RECORD, for members that were read whole already; others are read.
    """
    if depth < Depth.TOC:
        return
    bundles: dict[int, list[CheckedBundle]] = {}
    for item in checked:
        bundles.setdefault(id(item.bundle.artifact.tree), []).append(item)
    for given in inputs:
        for claimed in given.artifacts:
            tree = claimed.artifact.tree
            if not isinstance(tree, WheelTree):
                continue
            for entry in tree.members.values():
                if entry.path.endswith(_DIST_INFO + SBOM_NAME) and entry.path.count("/") == 2:
                    known = bundles.get(id(tree), ())
                    for message in _faults(claimed.artifact, tree, entry, known, digests, depth):
                        yield finding("sidecar-mismatch", claimed.artifact.where(entry.path), message, _HINT)


def _faults(
    artifact: Artifact,
    tree: WheelTree,
    entry: Entry,
    checked: Iterable[CheckedBundle],
    digests: Mapping[tuple[str, str], str],
    depth: Depth,
) -> Iterator[str]:
    try:
        bill = _read(tree, entry)
    except ValueError as error:
        yield f"it cannot be read as a bill of materials in CycloneDX: {error}"
        return
    about = bill.metadata.component
    name, _, version = entry.path.partition(_DIST_INFO)[0].partition("-")
    if (canonicalize_name(about.name), about.version) != (canonicalize_name(name), version):
        yield f"it is that of {about.name} {about.version}, and the wheel is {canonicalize_name(name)} {version}"
    listed = Counter(component.name for component in bill.components)
    found = _found(checked)
    lists: dict[str, list[str]] = {
        "it lists {} that the wheel lacks": [path for path in listed if path not in tree.members],
        "it does not list {}": [path for path in found if path not in listed],
        "it lists {} more than once": [path for path, count in listed.items() if count > 1],
    }
    for component in bill.components:
        path = component.name
        facts = component.facts()
        for fact, value in found.get(path, {}).items():
            if facts.get(fact, value) != value:
                message = f"it says {fact} {facts[fact]} and not {value} of {{}}"
                lists.setdefault(message, []).append(path)
        if depth >= Depth.CONTENT and path in tree.members:
            digest = _sha256(tree, path, digests)
            if digest is not None and digest != component.sha256():
                lists.setdefault("it has another sha256 than {}", []).append(path)
    for message, paths in lists.items():
        if paths:
            yield message.format(counted(len(paths), "file")) + f": {some(sorted(set(paths)))}"


def _read(tree: WheelTree, entry: Entry) -> _Bill:
    """Raises :class:`ValueError`."""
    if entry.size > MAX_BILL:
        raise ValueError(f"it has {entry.size:,} bytes")
    try:
        return _DECODER.decode(tree.content(entry.path))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    except OSError as error:
        raise ValueError(str(error.strerror)) from None


def _found(checked: Iterable[CheckedBundle]) -> dict[str, dict[str, str]]:
    """Member -> what the checks found out about it, of each kpack and loose code object that an engine claims."""
    found: dict[str, dict[str, str]] = {}
    for item in checked:
        facts = {"engine": item.bundle.engine, "target": item.bundle.key.name}
        if item.build_id is not None:
            facts["build_id"] = item.build_id
        for entry, summary in zip(item.bundle.files(".kpack"), item.kpacks, strict=True):
            counts = {} if summary.kernels is None else {"kernels": str(summary.kernels)}
            found[entry.path] = facts | counts
        found.update((entry.path, facts) for entry in item.bundle.files(*LOOSE))
    return found


def _sha256(tree: WheelTree, path: str, digests: Mapping[tuple[str, str], str]) -> str | None:
    """In hexadecimal; None for a member that cannot be read, which is reported as such."""
    known = digests.get((tree.label, path))
    if known is not None:
        return urlsafe_b64decode(known + "=").hex()
    digest = hashlib.sha256()
    try:
        for block in tree.blocks(path):
            digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
