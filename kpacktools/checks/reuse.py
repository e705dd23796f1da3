"""What earlier runs found in the same kernels: they are not decompressed and read again.

An entry holds what reading the kernels of one archive, or the loose code objects of one bundle, brought. Its key says
all that this depends on: the bytes of the files, where they lie in their tree, the device, what manifests say of the
kernels, and the table of targets. So findings are those of a run without a cache; paths in them are kept relative to
the tree, wherever that lies.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kpacktools.cache import Cache
from kpacktools.checks.kernels import LOOSE, Collector, Kernels
from kpacktools.findings import Finding, Severity
from kpacktools.hookspecs import Bundle, Expected
from kpacktools.kpack import Toc
from kpacktools.targets import TargetTable
from kpacktools.trees import Entry, is_file
from kpacktools.trees.access import identity_of

__all__ = ["ALL_LOOSE", "Reuse"]

ALL_LOOSE: Final = ""
"""Stands for the loose code objects of a bundle, as an archive's path does for its kernels."""

_KIND: Final = "kernels"

_Seen = tuple[str, str | None, str, bytes, int]
"""Tree path, TOC key (None for a file), target, sha256 and bytes of a kernel that could be read."""


class _KeptFinding(msgspec.Struct, array_like=True):
    name: str
    severity: str
    path: str
    message: str
    hint: str
    sources: list[str]


class _Kept(msgspec.Struct, array_like=True):
    count: int
    tools: dict[str, int]
    majors: dict[int, int]
    findings: list[_KeptFinding]
    seen: list[_Seen]


class Reuse:
    """The kernels that earlier runs read. Safe to use from several threads."""

    def __init__(self, cache: Cache, targets: TargetTable, collect: Collector | None = None) -> None:
        """``collect`` is told of kernels that are not read again as if they were."""
        self._cache = cache
        self._told = collect
        self._targets = _fingerprint(targets)
        self._lock = threading.Lock()
        self._seen: dict[tuple[int, str], list[tuple[str, str | None, str, bytes]]] = {}
        self._keys: dict[tuple[int, str], str] = {}

    def collect(self, bundle: Bundle, path: str, key: str | None, target: str, digest: bytes) -> None:
        """What is told of each kernel that is read; see :data:`kpacktools.checks.kernels.Collector`."""
        part = ALL_LOOSE if key is None else path
        with self._lock:
            self._seen.setdefault((id(bundle), part), []).append((path, key, target, digest))
        if self._told is not None:
            self._told(bundle, path, key, target, digest)

    def recall(
        self, bundle: Bundle, tocs: Mapping[str, Toc], expected: Iterable[Expected]
    ) -> dict[str, Kernels]:
        """What is known of a bundle's archives, by path, and of its loose code objects under :data:`ALL_LOOSE`.

        Raises what opening files of the tree raises, but :class:`OSError`: what cannot be read is reported where it
        is read.
        """
        by_path: dict[str, list[Expected]] = {}
        for item in expected:
            by_path.setdefault(item.path, []).append(item)
        loose = [entry for entry in bundle.files(*LOOSE) if is_file(entry)]
        parts: list[tuple[str, Sequence[Entry], Toc | None]] = [
            (entry.path, (entry,), tocs[entry.path]) for entry in bundle.files(".kpack") if entry.path in tocs
        ]
        if loose:
            parts.append((ALL_LOOSE, loose, None))
        known = {}
        for part, entries, toc in parts:
            said = [item for entry in entries for item in by_path.get(entry.path, ())]
            try:
                key = self._key(bundle, entries, toc, said)
            except OSError:
                continue
            with self._lock:
                self._keys[id(bundle), part] = key
            kept = self._cache.get_value(_KIND, _Kept, key)
            if kept is not None:
                known[part] = self._revived(bundle, kept)
        return known

    def keep(
        self, bundle: Bundle, tocs: Mapping[str, Toc], parts: Mapping[str, Kernels]
    ) -> list[tuple[bytes, int]]:
        """Keep what reading the parts of a bundle brought, each of them complete.

        Returns the digests of what was read, for counting; none where a collector is told of them.
        """
        sizes = {entry.path: entry.size for entry in bundle.files(*LOOSE)} if ALL_LOOSE in parts else {}
        digests: list[tuple[bytes, int]] = []
        for part, kernels in parts.items():
            with self._lock:
                key = self._keys.pop((id(bundle), part), None)
                told = self._seen.pop((id(bundle), part), [])
            seen = [
                (
                    path,
                    name,
                    target,
                    digest,
                    sizes[path] if name is None else tocs[path].kernels[name][target].original_size,
                )
                for path, name, target, digest in told
            ]
            kept = _kept(bundle, kernels, seen)
            if key is not None and kept is not None:
                self._cache.put_value(_KIND, kept, key)
            if self._told is None:
                digests += [(digest, size) for *_, digest, size in seen]
        return digests

    def _key(
        self, bundle: Bundle, entries: Sequence[Entry], toc: Toc | None, said: Sequence[Expected]
    ) -> str:
        digest = hashlib.sha256()
        facts = [
            self._targets,
            bundle.key.name,
            None if toc is None else sorted(toc.targets()),
            [(entry.path, identity_of(bundle.artifact.tree, entry.path)) for entry in entries],
            [
                (item.path, item.manifest, item.at, item.key, item.symbol, item.sha256, item.arguments)
                for item in said
            ],
        ]
        digest.update(msgspec.msgpack.encode(facts))
        return digest.hexdigest()

    def _revived(self, bundle: Bundle, kept: _Kept) -> Kernels:
        if self._told is not None:
            for path, key, target, digest, _ in kept.seen:
                self._told(bundle, path, key, target, digest)
        label = bundle.artifact.label
        return Kernels(
            count=kept.count,
            tools=Counter(kept.tools),
            majors=Counter(kept.majors),
            digests=[] if self._told is not None else [(digest, size) for *_, digest, size in kept.seen],
            findings=[
                Finding(
                    item.name,
                    Severity(item.severity),
                    label + item.path,
                    item.message,
                    item.hint,
                    tuple(label + source for source in item.sources),
                )
                for item in kept.findings
            ],
        )


def _kept(bundle: Bundle, kernels: Kernels, seen: list[_Seen]) -> _Kept | None:
    """The form in which results are kept; None for those that another run might not find again."""
    label = bundle.artifact.label
    found = []
    for item in kernels.findings:
        within = all(path.startswith(label) for path in (item.path, *item.sources))
        # That a file could not be read may be over by the next run.
        if not within or item.message.startswith("cannot be read"):
            return None
        own = replace(item, path=item.path[len(label) :])
        sources = [source[len(label) :] for source in item.sources]
        found.append(_KeptFinding(own.name, own.severity.value, own.path, own.message, own.hint, sources))
    return _Kept(
        kernels.count,
        dict(kernels.tools),
        dict(kernels.majors),
        found,
        sorted(seen, key=repr),
    )


def _fingerprint(targets: TargetTable) -> str:
    """What tells a table of targets from any other."""
    facts = [
        sorted(targets.processors),
        sorted((key, list(value)) for key, value in targets.bundles.items()),
        sorted((key, list(value)) for key, value in targets.parents.items()),
        sorted(targets.aliases.items()),
        sorted((key, list(value)) for key, value in targets.build_families.items()),
        sorted(targets.owners.items()),
    ]
    return hashlib.sha256(msgspec.msgpack.encode(facts)).hexdigest()
