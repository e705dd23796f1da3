"""A kpack on its own: one bundle per target that its table of contents names, and nothing to compare it with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpacktools.checks.bundles import CheckedBundle, Examined, conclude
from kpacktools.checks.kernels import Collector, Kernels, archive_finding, chunks_of, read_chunk
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Checked, Depth
from kpacktools.kpack import KpackError, Toc, read_toc
from kpacktools.targets import TargetTable, UnknownTargetError
from kpacktools.trees import Entry
from kpacktools.trees.access import hold
from kpacktools.trees.shards import Artifact, Shard

if TYPE_CHECKING:
    from kpacktools.cache import Cache

__all__ = ["check_archive"]

ENGINE = "kpack"
_NAMED_AT_MOST: Final = 100


def check_archive(
    shard: Shard,
    artifact: Artifact,
    depth: Depth,
    targets: TargetTable,
    collect: Collector | None = None,
    cache: Cache | None = None,
) -> tuple[list[CheckedBundle], list[Finding]]:
    """The bundles of one archive file, by target, and what is wrong with it.

    ``collect`` is told of each kernel that is read, which none is unless the depth is content.
    """
    (entry,) = (entry for entries in artifact.tree.folders.values() for entry in entries)
    where = artifact.where(entry.path)
    if depth < Depth.TOC:
        return [], []
    try:
        with artifact.tree.open(entry.path) as stream:
            toc = read_toc(stream, entry.size)
    except (KpackError, OSError) as error:
        return [], [archive_finding(where, error)]
    unknown = [target for target in sorted(toc.targets()) if not _known(target, targets)]
    # A damaged or hostile TOC may name very many, and looking for near names takes a millisecond.
    found = [_unknown(where, target, targets) for target in unknown[:_NAMED_AT_MOST]]
    if more := len(unknown) - len(found):
        found.append(
            finding("unknown-target", where, f"its table of contents names {more:,} more that nobody knows")
        )
    bundles = []
    reuse = None
    if cache is not None:
        from kpacktools.checks.reuse import Reuse  # most runs have no cache

        reuse = Reuse(cache, targets, collect)
    held = hold(artifact.tree, entry.path) if depth >= Depth.CONTENT else None
    for bundle, part in _parts(shard, artifact, entry, toc, targets):
        examined = Examined(bundle, Checked(kernels=part.count()), {entry.path: part}, ())
        kernels = None
        if depth >= Depth.CONTENT:
            known = {} if reuse is None else reuse.recall(bundle, {entry.path: part}, ())
            kernels = known.get(entry.path) or Kernels()
            if not known:
                collector = collect if reuse is None else reuse.collect
                for chunk in chunks_of(bundle, {entry.path: part}, ()):
                    kernels.add(read_chunk(chunk, targets, collector))
                if reuse is not None:
                    kernels.digests += reuse.keep(bundle, {entry.path: part}, {entry.path: kernels})
        result = conclude(examined, kernels, keep_keys=False)
        found += result.findings
        bundles.append(result)
    del held
    return bundles, found


def _parts(
    shard: Shard, artifact: Artifact, entry: Entry, toc: Toc, targets: TargetTable
) -> Iterator[tuple[Bundle, Toc]]:
    """The archive as seen for each of its targets."""
    for target in sorted(toc.targets()):
        if not _known(target, targets):
            continue
        kernels = {key: {target: held[target]} for key, held in toc.kernels.items() if target in held}
        part = Toc(
            toc.format_version, toc.group_name, toc.gfx_arch_family, (target,), kernels, toc.scheme, toc.blobs,
            toc.zstd_offset, toc.zstd_size,
        )  # fmt: skip
        bundle = Bundle(
            engine=ENGINE, handler=ENGINE, key=targets.key(target), shard=shard.name, artifact=artifact, prefix="",
            roots=("",), entries=(entry,),
        )  # fmt: skip
        yield bundle, part


def _known(target: str, targets: TargetTable) -> bool:
    try:
        targets.key(target)
    except UnknownTargetError:
        return False
    return True


def _unknown(where: str, target: str, targets: TargetTable) -> Finding:
    near = targets.near(target)
    return finding(
        "unknown-target",
        where,
        f"its table of contents names {target!r}, and nobody knows it",
        (f"near: {', '.join(near)}; " if near else "")
        + "a new processor is one line in a policy file's [targets] table",
    )
