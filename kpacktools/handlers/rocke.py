"""rocKE: ahead-of-time kernels of one target in one kpack, with a bundle manifest.

``arch_content/rocke/<t>/rocke_client_<t>.kpack`` and ``rocke_client_<t>.json``; schema ``rocke.aot.bundle/v1``,
earlier ``hipdnn.rocke.bundle/v1`` (ROCm/rocm-libraries, rocKE packer).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kpacktools.checks.references import (
    checked_document,
    fitted_document,
    kernel_differences,
    local_reference,
    read_manifest,
    typed_manifest,
)
from kpacktools.checks.sidecars import check_sidecars
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Depth, Expected, Handler, Stated, hookimpl

if TYPE_CHECKING:
    from kpacktools.kpack import Toc
    from kpacktools.lanes import LaneTable
    from kpacktools.manifests.rocke import Argument, BundleManifest, Instance

__all__ = ["RockeHandler"]

SCHEMAS: Final = ("rocke.aot.bundle/v1", "hipdnn.rocke.bundle/v1")
DEFAULT_LANE: Final = "llvm20"
"""The ``llvm_flavor`` that the packer records beside such a build id: a default and not a claim."""
DEFAULT_BUILD_IDS: Final = ("unknown", "rocke-client")
"""What the packer records when nobody told it which build it packs."""


class RockeHandler(Handler):
    """Bundle manifests against their archives."""

    name = "rocke"
    engines = ("rocke",)
    summary = "arch_content/rocke/<target>/: rocke_client_<target>.kpack and its bundle manifest"

    def check(self, bundle: Bundle, content: Content) -> Checked:
        """Schema, archive, and TOC keys against entries in both directions."""
        from kpacktools.manifests.rocke import BundleManifest

        found: list[Finding] = []
        stated: list[Stated] = []
        named: dict[str, set[str]] = {}
        kernels = 0
        lane = build_id = None
        is_default = False
        ops: set[str] = set()
        expected: list[Expected] = []
        manifests = [
            e for e in bundle.files(".json") if not e.path.endswith((".sidecar.json", "aot_list.json"))
        ]
        read = 0
        for entry in manifests:
            where = bundle.artifact.where(entry.path)
            manifest: BundleManifest | None = typed_manifest(content, entry.path, BundleManifest)
            if manifest is None:
                document = read_manifest(bundle, content, entry.path, found)
                if document is None:
                    continue
                schema = document.get("schema") if isinstance(document, Mapping) else None
                if schema not in SCHEMAS:
                    if _is_bundle_manifest(entry.path, document):
                        found.append(_unknown_schema(where, schema))
                    continue
                document = checked_document(document, "rocke.bundle", where, found)
                if document is not None:
                    manifest = fitted_document(document, BundleManifest, where, found)
            read += 1
            if manifest is None:
                continue
            entries = manifest.entries
            kernels += len(entries)
            lane = manifest.llvm_flavor
            build_id = manifest.engine_build_id
            is_default = build_id in DEFAULT_BUILD_IDS and lane == DEFAULT_LANE
            ops |= manifest.ops()
            found += _check_minimum_lanes(manifest, content.lanes, where)
            stated.append(Stated("manifest", manifest.arch, entry.path))
            if build_id in DEFAULT_BUILD_IDS:
                found.append(
                    finding(
                        "provenance-unknown",
                        where,
                        f"engine_build_id is {build_id!r}, the packer's default: nobody can tell which build made it",
                        "set the engine build id when the bundle is packed",
                    )
                )
            archive = local_reference(bundle, entry.path, manifest.kpack, found)
            if archive is None:
                continue
            if content.depth >= Depth.CONTENT:
                expected += _expected(entries, archive, entry.path)
            found += _check_metadata(entries, content.kpacks.get(archive), where)
            named.setdefault(archive, set()).update(item.toc_key for item in entries)
            if not any(other.path == archive for other in bundle.entries):
                found.append(
                    finding(
                        "missing-kpack",
                        where,
                        f"names the archive {manifest.kpack!r}, which is not there",
                        f"expected {bundle.artifact.where(archive)}",
                    )
                )
        found += _partial(bundle, read, bool(manifests))
        for archive, keys in sorted(named.items()):
            found += kernel_differences(bundle, content, archive, keys)
        by_manifest = kernels if content.depth is Depth.LAYOUT else None
        found += check_sidecars(bundle, content, expected)
        return Checked(
            findings=tuple(found),
            kernels=by_manifest,
            stated=tuple(stated),
            expected=tuple(expected),
            lane=lane,
            lane_is_default=is_default,
            ops=frozenset(ops),
            build_id=None if build_id in DEFAULT_BUILD_IDS else build_id,
        )


def _expected(entries: Sequence[Instance], archive: str, manifest: str) -> Iterator[Expected]:
    for index, item in enumerate(entries):
        yield Expected(
            path=archive,
            manifest=manifest,
            at=f"$.entries[{index}]",
            key=item.toc_key,
            symbol=item.symbol,
            arguments=_arguments(item.args_signature),
        )


def _arguments(signature: Sequence[Argument]) -> tuple[tuple[int | None, int | None], ...] | None:
    """Sizes in order, where the producer recorded them; rocKE does not record offsets."""
    sizes = [item.size_bytes for item in signature]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return tuple((None, size) for size in sizes)


def _check_minimum_lanes(manifest: BundleManifest, lanes: LaneTable, where: str) -> Iterator[Finding]:
    """A ``minimum_llvm_flavor`` must name a known lane not above the bundle's own: anything else is invalid, and
    never taken as absent."""
    lane = manifest.llvm_flavor
    for index, minimum in manifest.minimum_lanes():
        problem = ""
        if not isinstance(minimum, str) or lanes.by_name(minimum) is None:
            problem = f"one of {lanes.names}"
        elif lanes.by_name(lane) is not None and lanes.above(minimum, lane):
            problem = f"a lane not above the bundle's own, {lane}"
        if problem:
            yield finding(
                "manifest-invalid",
                where,
                f"$.entries[{index}].compile_spec.minimum_llvm_flavor: expected {problem}, found {minimum!r}",
            )


def _check_metadata(entries: Sequence[Instance], toc: Toc | None, where: str) -> Iterator[Finding]:
    """The TOC's metadata repeats ``cache_key`` and ``symbol``: where it is there, it must be the same."""
    held = {} if toc is None else toc.kernels
    for index, item in enumerate(entries):
        for kernel in held.get(item.toc_key, {}).values():
            repeats = kernel.metadata or {}
            if repeats.get("cache_key") == item.cache_key and repeats.get("symbol") == item.symbol:
                continue
            for name, said in (("cache_key", item.cache_key), ("symbol", item.symbol)):
                repeated = repeats.get(name, said)
                if repeated != said:
                    yield finding(
                        "manifest-invalid",
                        where,
                        f"$.entries[{index}].{name}: expected {repeated!r} as in the archive's TOC, found {said!r}",
                        "pack the bundle again, archive and manifest from one run",
                    )


def _is_bundle_manifest(path: str, document: Any) -> bool:
    """True for a JSON file that stands where the bundle manifest is expected, or says it is one."""
    if isinstance(document, Mapping) and ("schema" in document or "entries" in document):
        return True
    return path.rpartition("/")[2].startswith("rocke_client")


def _unknown_schema(where: str, schema: object) -> Finding:
    expected = " or ".join(SCHEMAS)
    if schema is None:
        return finding("manifest-unknown-schema", where, f"names no schema; expected {expected}")
    return finding(
        "manifest-unknown-schema",
        where,
        f"has schema {schema!r}; expected {expected}",
        "a newer schema needs a newer kpacktools",
    )


def _partial(bundle: Bundle, read: int, any_json: bool) -> Iterator[Finding]:
    archives = bundle.files(".kpack")
    loose = bundle.files(".hsaco", ".co")
    if archives and not read and not any_json:
        yield finding(
            "partial-bundle",
            bundle.path,
            f"holds {archives[0].path.rpartition('/')[2]} without a bundle manifest",
            "expected rocke_client_<target>.json beside it",
        )
    if read and not archives and not loose:
        yield finding(
            "partial-bundle",
            bundle.path,
            "holds a bundle manifest without its kpack",
            "expected the archive that the manifest names",
        )


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """rocKE's handler."""
    return [RockeHandler()]
