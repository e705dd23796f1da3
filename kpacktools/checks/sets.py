"""Checks across bundles: what each of them may be alone, and what they must not be together."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.checks.references import some
from kpacktools.findings import Finding, counted, finding

__all__ = ["mixed_builds", "shadowing_variants"]


def shadowing_variants(bundles: Sequence[CheckedBundle]) -> Iterator[Finding]:
    """``variant-shadows-base``: the loader stops at the most specific archive that it finds, and a kernel that only
    the plain target's archive holds is then not found (rocm_kpack's loader)."""
    archives: dict[tuple[str, str, str, str], dict[str, tuple[str, frozenset[str]]]] = {}
    for item in bundles:
        bundle = item.bundle
        for path, keys in item.archive_keys.items():
            # The same archive of another target: its name without the target.
            stem = posixpath.basename(path).removesuffix(".kpack").rpartition("_")[0]
            name = (bundle.engine, bundle.artifact.name, bundle.key.base, stem)
            archives.setdefault(name, {})[bundle.key.name] = (bundle.artifact.where(path), keys)
    for (_, _, base, _), by_key in sorted(archives.items()):
        if base not in by_key:
            continue
        plain, wanted = by_key[base]
        for key, (path, keys) in sorted(by_key.items()):
            lost = sorted(wanted - keys)
            if key != base and lost:
                yield finding(
                    "variant-shadows-base",
                    path,
                    f"lacks {counted(len(lost), 'kernel')} that {plain} has: {some(lost)}; on a device of {key} "
                    "the loader stops at this archive",
                    f"build all kernels for {key}, or ship only the archive of {base}",
                    sources=(path, plain),
                )


def mixed_builds(bundles: Sequence[CheckedBundle]) -> Iterator[Finding]:
    """``provenance-mixed``: bundles of one engine that say they come from different builds."""
    by_engine: dict[str, dict[str, list[str]]] = {}
    for item in bundles:
        if item.build_id is not None:
            builds = by_engine.setdefault(item.bundle.engine, {})
            builds.setdefault(item.build_id, []).append(item.bundle.key.name)
    for engine, builds in sorted(by_engine.items()):
        if len(builds) > 1:
            listed = "; ".join(
                f"{build}: {', '.join(sorted(set(keys)))}" for build, keys in sorted(builds.items())
            )
            yield finding(
                "provenance-mixed",
                engine,
                f"{engine} comes from {len(builds)} builds ({listed})",
                "take all targets of a release from one build",
            )
